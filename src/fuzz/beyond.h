// Samples with operands that are not finite: NaN and infinities among the elements that are computed with.
#pragma once

#include <optional>

#include "base/rng.h"
#include "fuzz/sample.h"

namespace finity::fuzz {

// Some elements of one given tensor replaced; nothing where no tensor is fit for it. Numbers that say how (scales of an
// image, a ratio) are left alone.
std::optional<Sample> with_not_finite(const Sample& sample, Rng& rng);
bool holds_not_finite(const Sample& sample);

}  // namespace finity::fuzz
