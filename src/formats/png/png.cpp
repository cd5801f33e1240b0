#include "formats/png/png.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::int64_t kSmallest = 8;  // pixels a side
constexpr std::size_t kGap = 1;        // between samples

std::string number(std::uint32_t x) {
  return {static_cast<char>(x >> 24), static_cast<char>(x >> 16), static_cast<char>(x >> 8), static_cast<char>(x)};
}

std::string chunk(const std::string& kind, const std::string& content) {
  const std::string body = kind + content;
  const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return number(static_cast<std::uint32_t>(content.size())) + body + number(static_cast<std::uint32_t>(sum));
}

std::string deflated(const std::string& bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string result(size, '\0');
  const int state = ::compress(reinterpret_cast<Bytef*>(result.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (state != Z_OK) throw Error("an image could not be compressed");
  result.resize(size);
  return result;
}

bool is_side(std::int64_t size) { return size >= kSmallest; }
bool is_channels(std::int64_t size) { return size == 1 || size == 3; }

}  // namespace

std::string write_png(const Picture& picture) {
  const std::size_t row = picture.width * picture.channels;
  std::string lines;
  for (std::size_t y = 0; y < picture.height; ++y) {
    lines += '\0';  // no filter
    lines.append(reinterpret_cast<const char*>(picture.pixels.data()) + y * row, row);
  }
  const char color = picture.channels == 3 ? 2 : 0;
  const std::string header = number(static_cast<std::uint32_t>(picture.width)) +
                             number(static_cast<std::uint32_t>(picture.height)) + std::string{8, color, 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("IDAT", deflated(lines)) + chunk("IEND", "");
}

std::optional<ImageShape> image_shape(const Dims& sample) {
  const auto shape = [](std::int64_t height, std::int64_t width, std::int64_t channels, bool last) {
    return ImageShape{static_cast<std::size_t>(width), static_cast<std::size_t>(height),
                      static_cast<std::size_t>(channels), last};
  };
  if (sample.size() == 1) {
    const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(sample[0]))));
    if (is_side(side) && side * side == sample[0]) return shape(side, side, 1, true);
  }
  if (sample.size() == 2 && is_side(sample[0]) && is_side(sample[1])) return shape(sample[0], sample[1], 1, true);
  if (sample.size() == 3) {
    if (is_channels(sample[0]) && is_side(sample[1]) && is_side(sample[2]))
      return shape(sample[1], sample[2], sample[0], false);
    if (is_channels(sample[2]) && is_side(sample[0]) && is_side(sample[1]))
      return shape(sample[0], sample[1], sample[2], true);
  }
  return std::nullopt;
}

Picture picture_of(const Tensor& samples, const ImageShape& shape, double lo, double hi, std::size_t most) {
  const std::vector<double> numbers = elements<double>(samples);
  const std::size_t size = shape.width * shape.height * shape.channels;
  const std::size_t count = std::min(most, size == 0 ? 0 : numbers.size() / size);
  const auto across = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::size_t down = across == 0 ? 0 : (count + across - 1) / across;
  Picture picture = {across * (shape.width + kGap), down * (shape.height + kGap), shape.channels};
  picture.pixels.assign(picture.width * picture.height * shape.channels, 128);
  const auto shade = [&](double x) {
    const double share = hi > lo ? (x - lo) / (hi - lo) : 0.5;
    return static_cast<std::uint8_t>(std::lround(255 * (std::isnan(share) ? 0.5 : std::clamp(share, 0.0, 1.0))));
  };
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t left = k % across * (shape.width + kGap), top = k / across * (shape.height + kGap);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t plane = shape.width * shape.height;
      const std::size_t channel = shape.channels_last ? i % shape.channels : i / plane;
      const std::size_t pixel = shape.channels_last ? i / shape.channels : i % plane;
      const std::size_t x = left + pixel % shape.width, y = top + pixel / shape.width;
      picture.pixels[(y * picture.width + x) * shape.channels + channel] = shade(numbers[k * size + i]);
    }
  }
  return picture;
}

}  // namespace finity
