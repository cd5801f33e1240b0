// Images are read back by hand: signature, chunks with their sums, and pixels unpacked by zlib.
#include "formats/png/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>

namespace finity {
namespace {

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t x = 0;
  for (std::size_t i = 0; i < 4; ++i) x = x << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return x;
}

std::map<std::string, std::string> chunks_of(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::map<std::string, std::string> chunks;
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = number_at(png, at);
    const std::string body = png.substr(at + 4, size + 4);
    const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    EXPECT_EQ(number_at(png, at + 8 + size), sum);
    chunks[body.substr(0, 4)] = body.substr(4);
    at += size + 12;
  }
  return chunks;
}

Picture decoded(const std::string& png) {
  std::map<std::string, std::string> chunks = chunks_of(png);
  EXPECT_TRUE(chunks.contains("IEND"));
  const std::string& header = chunks["IHDR"];
  Picture picture = {number_at(header, 0), number_at(header, 4), header.at(9) == 2 ? 3U : 1U};
  EXPECT_EQ(header.at(8), 8);
  const std::size_t row = picture.width * picture.channels;
  std::string lines((row + 1) * picture.height, '\0');
  uLongf size = lines.size();
  const std::string& data = chunks["IDAT"];
  EXPECT_EQ(::uncompress(reinterpret_cast<Bytef*>(lines.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                         data.size()),
            Z_OK);
  EXPECT_EQ(size, lines.size());
  for (std::size_t y = 0; y < picture.height; ++y) {
    EXPECT_EQ(lines[y * (row + 1)], 0);
    for (std::size_t x = 0; x < row; ++x) {
      picture.pixels.push_back(static_cast<std::uint8_t>(lines[y * (row + 1) + 1 + x]));
    }
  }
  return picture;
}

TEST(Png, GivesBackItsPixels) {
  for (const std::size_t channels : {1U, 3U}) {
    Picture picture = {5, 4, channels};
    for (std::size_t i = 0; i < 20 * channels; ++i) picture.pixels.push_back(static_cast<std::uint8_t>(37 * i));
    const Picture again = decoded(write_png(picture));
    EXPECT_EQ(again.width, 5U);
    EXPECT_EQ(again.height, 4U);
    EXPECT_EQ(again.channels, channels);
    EXPECT_EQ(again.pixels, picture.pixels);
  }
}

TEST(Png, KnowsImagesByTheirShape) {
  EXPECT_EQ(image_shape({784})->width, 28U);
  EXPECT_EQ(image_shape({1, 20, 30})->width, 30U);
  EXPECT_FALSE(image_shape({3, 20, 30})->channels_last);
  EXPECT_TRUE(image_shape({20, 30, 3})->channels_last);
  EXPECT_EQ(image_shape({9, 16})->height, 9U);
  EXPECT_FALSE(image_shape({785}));
  EXPECT_FALSE(image_shape({4}));
  EXPECT_FALSE(image_shape({2, 20, 30}));
  EXPECT_FALSE(image_shape({}));
}

// Two images of 8 x 8 with three planes: the second's green plane is white.
TEST(Png, PutsSamplesBesideOneAnother) {
  Tensor samples(DType::float32, {2, 3, 8, 8});
  const auto data = samples.mutable_data<float>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i >= 4 * 64 && i < 5 * 64 ? 1.0F : 0.0F;
  const Picture picture = picture_of(samples, *image_shape({3, 8, 8}), 0, 1, 16);
  EXPECT_EQ(picture.width, 18U);
  EXPECT_EQ(picture.height, 9U);
  const auto pixel = [&](std::size_t x, std::size_t y, std::size_t c) {
    return picture.pixels[(y * picture.width + x) * 3 + c];
  };
  EXPECT_EQ(pixel(0, 0, 1), 0);
  EXPECT_EQ(pixel(9, 0, 1), 255);
  EXPECT_EQ(pixel(16, 7, 1), 255);
  EXPECT_EQ(pixel(9, 0, 0), 0);
  EXPECT_EQ(picture_of(samples, *image_shape({3, 8, 8}), 0, 1, 1).width, 9U);
}

}  // namespace
}  // namespace finity
