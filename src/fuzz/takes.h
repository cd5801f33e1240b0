// What the libraries of a campaign take, measured before it begins, so that samples are drawn that one of them runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/backend.h"
#include "fuzz/generate.h"

namespace finity::fuzz {

// The newest operator set, up to `most`, with which the library runs a model; `most` when it runs none.
int newest_opset(Backend& backend, int most);

// Limits what is drawn to what one of these libraries reads and runs. Those that are not installed say nothing; `tell`
// hears whose ops are being tried.
void draw_what_runs(GenerateOptions& options, const std::vector<BackendSpec>& backends,
                    const std::function<void(const std::string&)>& tell);

}  // namespace finity::fuzz
