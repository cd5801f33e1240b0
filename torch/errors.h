// What LibTorch throws, as errors of ours.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <string>

namespace finity {

// Calls f; what LibTorch throws becomes an Error, or Unsupported where it says that a kernel is missing.
void with_torch_errors(const std::function<void()>& f);

}  // namespace finity
