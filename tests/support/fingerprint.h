// One number for everything that a test computed, kept per test in testdata/ranges/fingerprints_*.txt: too much to be
// recorded line by line, but a rule that changes shows. FINITY_UPDATE=1 rewrites the numbers; to see the lines behind
// them, run once before and once after the change with FINITY_COMPUTED=FOLDER and compare the folders.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "domain/abs_tensor.h"
#include "ops/range_call.h"

namespace finity {

// Adds a line to what the running test computed. Its number is compared when it ends, unless it fails or draws other
// numbers than usual (FINITY_TEST_SEED).
void computed(std::string_view line);

// The same for what a rule gave: outputs with their cells, facts and forms, and its sites.
void computed(std::string_view title, std::span<const AbsTensor> outputs, std::span<const Site> sites);

}  // namespace finity
