// Handwritten digits without a download: each is a few strokes, bent, slanted, shifted and drawn with a pen of varying
// thickness. Not MNIST, but ten classes of 28 x 28 grey images in [0, 1] with a black background, mostly zeros, that a
// small network learns; the same numbers for the same seed everywhere.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace finity {

inline constexpr std::int64_t kDigitCount = 10'000;  // what "digits.images" and "digits.labels" hold
inline constexpr std::int64_t kDigitSize = 28;

// float32 [count, 28, 28] and int64 [count]; sample i of the one belongs to sample i of the other.
Tensor digit_images(std::int64_t count = kDigitCount, std::uint64_t seed = 0);
Tensor digit_labels(std::int64_t count = kDigitCount, std::uint64_t seed = 0);

}  // namespace finity
