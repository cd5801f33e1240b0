#include "program/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace finity {

namespace {

struct Point {
  double x = 0;
  double y = 0;
};
using Stroke = std::vector<Point>;

// An arc around (x, y), angles in quarter turns, 0 to the right, growing downwards.
Stroke arc(double x, double y, double rx, double ry, double from, double to) {
  constexpr int kPieces = 12;
  constexpr double kQuarter = 1.5707963267948966;
  Stroke stroke;
  for (int i = 0; i <= kPieces; ++i) {
    const double angle = kQuarter * (from + (to - from) * i / kPieces);
    stroke.push_back({x + rx * std::cos(angle), y + ry * std::sin(angle)});
  }
  return stroke;
}

// In a square from (0, 0) to (1, 1), y downwards.
std::vector<Stroke> strokes_of(int digit) {
  switch (digit) {
    case 0: return {arc(0.5, 0.5, 0.3, 0.45, 0, 4)};
    case 1: return {{{0.35, 0.2}, {0.55, 0.05}, {0.55, 0.95}}};
    case 2: return {arc(0.5, 0.3, 0.28, 0.25, -2, 0.5), {{0.7, 0.48}, {0.22, 0.95}, {0.8, 0.95}}};
    case 3: return {arc(0.45, 0.28, 0.28, 0.23, -1.7, 1), arc(0.45, 0.72, 0.32, 0.24, -1, 1.8)};
    case 4: return {{{0.6, 0.05}, {0.2, 0.62}, {0.85, 0.62}}, {{0.65, 0.35}, {0.65, 0.97}}};
    case 5: return {{{0.78, 0.06}, {0.32, 0.06}, {0.28, 0.45}}, arc(0.46, 0.67, 0.3, 0.27, -1.4, 1.7)};
    case 6: return {{{0.65, 0.04}, {0.35, 0.4}, {0.23, 0.68}}, arc(0.49, 0.7, 0.26, 0.25, 0, 4)};
    case 7: return {{{0.2, 0.07}, {0.8, 0.07}, {0.42, 0.96}}};
    case 8: return {arc(0.5, 0.28, 0.23, 0.22, 0, 4), arc(0.5, 0.73, 0.28, 0.23, 0, 4)};
    default: return {arc(0.5, 0.3, 0.25, 0.25, 0, 4), {{0.75, 0.3}, {0.7, 0.65}, {0.6, 0.96}}};
  }
}

double distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length = dx * dx + dy * dy;
  const double along = length > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0) : 0;
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

// How somebody writes.
class Hand {
 public:
  explicit Hand(Rng& rng)
      : slant_(rng.uniform(-0.3, 0.3)),
        width_(rng.uniform(12, 18)),
        height_(rng.uniform(17, 21)),
        turn_(rng.uniform(-0.15, 0.15)),
        pen_(rng.uniform(0.7, 1.6)),
        centre_({13.5 + rng.uniform(-2, 2), 13.5 + rng.uniform(-2, 2)}) {
    for (double& bend : bends_) bend = rng.uniform(-0.05, 0.05);
  }

  Point place(Point p) const {
    const double x = p.x - 0.5 + bends_[0] * std::sin(6 * p.y) + bends_[1] * std::cos(5 * p.x);
    const double y = p.y - 0.5 + bends_[2] * std::sin(6 * p.x) + bends_[3] * std::cos(5 * p.y);
    const double across = width_ * x - slant_ * height_ * y, down = height_ * y;
    return {centre_.x + across * std::cos(turn_) - down * std::sin(turn_),
            centre_.y + across * std::sin(turn_) + down * std::cos(turn_)};
  }
  double ink(double away) const { return std::clamp(pen_ + 0.5 - away, 0.0, 1.0); }
  double reach() const { return pen_ + 1; }

 private:
  double slant_, width_, height_, turn_, pen_;
  Point centre_;
  std::array<double, 4> bends_{};
};

void draw_line(std::span<float> image, const Hand& hand, Point a, Point b) {
  const auto limit = [](double at) { return std::clamp<std::int64_t>(std::llround(at), 0, kDigitSize - 1); };
  const double reach = hand.reach();
  for (std::int64_t y = limit(std::min(a.y, b.y) - reach); y <= limit(std::max(a.y, b.y) + reach); ++y) {
    for (std::int64_t x = limit(std::min(a.x, b.x) - reach); x <= limit(std::max(a.x, b.x) + reach); ++x) {
      const Point here = {static_cast<double>(x), static_cast<double>(y)};
      float& pixel = image[static_cast<std::size_t>(y * kDigitSize + x)];
      // 256 shades, as files of digits have.
      const double ink = std::round(hand.ink(distance(here, a, b)) * 255) / 255;
      pixel = std::max(pixel, static_cast<float>(ink));
    }
  }
}

// One stream for the classes and one for the images, so that either can be had alone.
Rng labels_rng(std::uint64_t seed) { return Rng(seed * 2 + 1); }

}  // namespace

Tensor digit_labels(std::int64_t count, std::uint64_t seed) {
  Rng rng = labels_rng(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int64_t>(rng.below(10)));
  return Tensor::of<std::int64_t>(DType::int64, {count}, labels);
}

Tensor digit_images(std::int64_t count, std::uint64_t seed) {
  Rng classes = labels_rng(seed), rng(seed * 2 + 2);
  Tensor images(DType::float32, {count, kDigitSize, kDigitSize});
  const std::span<float> pixels = images.mutable_data<float>();
  constexpr auto kPixels = static_cast<std::size_t>(kDigitSize * kDigitSize);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Hand hand(rng);
    for (const Stroke& stroke : strokes_of(static_cast<int>(classes.below(10)))) {
      for (std::size_t k = 1; k < stroke.size(); ++k) {
        draw_line(pixels.subspan(i * kPixels, kPixels), hand, hand.place(stroke[k - 1]), hand.place(stroke[k]));
      }
    }
  }
  return images;
}

}  // namespace finity
