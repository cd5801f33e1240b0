#include "ops/windows/window.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace finity {
namespace {

const Dim kSymbol{.size = -1, .symbol = SymbolId{3}};

Window window(WindowAxis axis, AutoPad auto_pad = AutoPad::notset, bool ceil_mode = false) {
  return {.axes = {axis}, .auto_pad = auto_pad, .ceil_mode = ceil_mode};
}

TEST(Window, FloorAndCeil) {
  const WindowAxis axis{.kernel = 3, .stride = 2};
  EXPECT_EQ(place(window(axis), 0, 6).output, 2);
  EXPECT_EQ(place(window(axis, AutoPad::notset, true), 0, 6).output, 3);
  EXPECT_EQ(place(window(axis, AutoPad::valid), 0, 7).output, 3);
}

TEST(Window, CeilDropsWindowsThatStartInThePadding) {
  const WindowAxis axis{.kernel = 2, .stride = 3, .pad_begin = 1, .pad_end = 1};
  EXPECT_EQ(place(window(axis, AutoPad::notset, true), 0, 4).output, 2);
}

TEST(Window, SamePaddingIsSplit) {
  const WindowAxis axis{.kernel = 4};
  const PlacedAxis upper = place(window(axis, AutoPad::same_upper), 0, 5);
  EXPECT_EQ(upper.output, 5);
  EXPECT_EQ(upper.pad_begin, 1);
  EXPECT_EQ(upper.pad_end, 2);
  const PlacedAxis lower = place(window(axis, AutoPad::same_lower), 0, 5);
  EXPECT_EQ(lower.pad_begin, 2);
  EXPECT_EQ(lower.pad_end, 1);
}

Dim output_of(const Window& spec, const Dim& input) { return output_dim(spec, 0, input, TooLarge::refused); }

TEST(Window, KeepsSymbolsWhereTheSizeStays) {
  EXPECT_EQ(output_of(window({.kernel = 3, .pad_begin = 1, .pad_end = 1}), kSymbol), kSymbol);
  EXPECT_EQ(output_of(window({.kernel = 3, .dilation = 2, .pad_begin = 2, .pad_end = 2}), kSymbol), kSymbol);
  EXPECT_EQ(output_of(window({.kernel = -1}, AutoPad::same_upper), kSymbol), kSymbol);
  EXPECT_EQ(output_of(window({.kernel = 3}), kSymbol), Dim{});
  EXPECT_EQ(output_of(window({.kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1}), kSymbol), Dim{});
}

TEST(Window, UnknownKernel) {
  EXPECT_EQ(output_of(window({.kernel = -1}), Dim::of(5)), Dim{});
  EXPECT_EQ(output_of(window({.kernel = -1, .stride = 2}, AutoPad::same_lower), Dim::of(5)), Dim::of(3));
}

TEST(Window, TooLargeForItsInput) {
  const Dim some = Dim::between(1, 100);
  const auto least = [&](const WindowAxis& axis, TooLarge too_large) {
    return output_dim(window(axis), 0, some, too_large).least_size();
  };
  EXPECT_EQ(least({.kernel = 3}, TooLarge::refused), 1);
  EXPECT_EQ(least({.kernel = 3}, TooLarge::no_result), 0);
  EXPECT_EQ(least({.kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1}, TooLarge::no_result), 1);
}

TEST(Window, EmptyInputGivesEmptyOutput) {
  EXPECT_EQ(place(window({.kernel = 3}), 0, 0).output, 0);
  EXPECT_EQ(place(window({.kernel = 3}, AutoPad::same_upper), 0, 0).output, 0);
  EXPECT_THROW(place(window({.kernel = 3}), 0, 2), Error);
}

// Both views of the same geometry: the taps of every output, and the outputs of every tap.
TEST(Window, TapsAndOutputsAgree) {
  for (const WindowAxis axis :
       {WindowAxis{.kernel = 3, .stride = 2, .dilation = 2, .pad_begin = 3, .pad_end = 1},
        WindowAxis{.kernel = 4, .pad_begin = 5, .pad_end = 5}, WindowAxis{.kernel = 1, .stride = 4}}) {
    const PlacedAxis placed = place(window(axis), 0, 7);
    std::int64_t inside = 0, by_tap = 0;
    for (std::int64_t output = 0; output < placed.output; ++output) {
      const Taps taps = taps_at(placed, output);
      inside += taps.count;
      for (std::int64_t i = 0; i < taps.count; ++i) {
        const std::int64_t at = taps.first + i * placed.dilation;
        EXPECT_TRUE(at >= 0 && at < placed.input);
      }
    }
    for (std::int64_t tap = 0; tap < placed.kernel; ++tap) {
      const OutputRange range = outputs_of_tap(placed, tap);
      by_tap += range.end - range.begin;
    }
    EXPECT_EQ(inside, by_tap);
  }
}

}  // namespace
}  // namespace finity
