// Calls that are no longer legal: one number that says how, or one size, is another one. A library may refuse them; its
// process must not end.
#pragma once

#include <optional>

#include "base/rng.h"
#include "fuzz/sample.h"

namespace finity::fuzz {

// Nothing when what was changed is still legal by the reference.
std::optional<Sample> spoilt(const Sample& sample, Rng& rng);

}  // namespace finity::fuzz
