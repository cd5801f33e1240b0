// Pictures of tensors for people: an 8-bit PNG of what is shaped like images. Written, never read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// Rows from the top, each pixel as one grey byte or as red, green and blue.
struct Picture {
  std::size_t width = 0, height = 0;
  std::size_t channels = 1;  // or 3
  std::vector<std::uint8_t> pixels = {};
};
std::string write_png(const Picture& picture);

// How one sample of a tensor is an image.
struct ImageShape {
  std::size_t width = 0, height = 0, channels = 1;
  bool channels_last = false;
};
// The sizes of one sample, without the batch: [H, W], [C, H, W] or [H, W, C] with one or three channels, or a square
// written as one row; at least 8 pixels a side. Nothing: no image.
std::optional<ImageShape> image_shape(const Dims& sample);

// Samples beside one another, from left to right and down, `lo` as black and `hi` as white. `samples` has the batch as
// its first axis; of more than `most` the first are shown.
Picture picture_of(const Tensor& samples, const ImageShape& shape, double lo, double hi, std::size_t most);

}  // namespace finity
