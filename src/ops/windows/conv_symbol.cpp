// How much a convolution stretches, by its symbol. Over an endless image a convolution is, for every frequency w, the
// matrix S(w) = sum of W_t e^(i t w) over the taps t, and stretches by at most the largest singular value of any S(w);
// borders and strides only leave parts out. A stride of s reads s phases of the image, each convolved with the taps of
// one class (tap_classes), so that S(w) has a block of columns per phase.
//
// Along an axis of j taps per class, the part of S(w) in any direction is a trigonometric polynomial of degree
// n = (j - 1) / 2, and by M. Riesz falls from its maximum at most as cos(n w): the maximum over N equal steps is at
// least cos(n pi / N) of the whole.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/wide.h"
#include "ops/shared/lengths.h"

namespace finity {

namespace {

constexpr double kMostProducts = 1 << 27;

struct SymbolAxis {
  std::int64_t taps = 1, period = 1;
  std::int64_t meeting = 1;  // taps of one class, at most
  std::int64_t steps = 1;    // frequencies

  std::int64_t phases() const { return std::min(period, taps); }
};

// `steps` frequencies per wave of the fastest part.
std::vector<SymbolAxis> symbol_axes(const KernelShape& kernel, std::int64_t steps) {
  std::vector<SymbolAxis> axes;
  for (std::size_t i = 0; i < kernel.taps.size(); ++i) {
    SymbolAxis axis{.taps = kernel.taps[i]};
    axis.period = kernel.strides[i] / std::gcd(kernel.strides[i], kernel.dilations[i]);
    axis.meeting = (axis.taps + axis.period - 1) / axis.period;
    axis.steps = std::max<std::int64_t>((steps * (axis.meeting - 1) + 1) / 2, 1);
    axes.push_back(axis);
  }
  return axes;
}

// Place of a number written row-major over these bases.
std::vector<std::int64_t> digits(std::int64_t number, const std::vector<SymbolAxis>& axes,
                                 std::int64_t (*base)(const SymbolAxis&)) {
  std::vector<std::int64_t> result(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    result[i] = number % base(axes[i]);
    number /= base(axes[i]);
  }
  return result;
}

// Weights times e^(i angle).
FINITY_WIDE void add_turned(const double* __restrict weights, std::size_t count, double real, double imaginary,
                            double* __restrict a, double* __restrict b) {
  for (std::size_t i = 0; i < count; ++i) {
    a[i] += weights[i] * real;
    b[i] += weights[i] * imaginary;
  }
}

class Symbol {
 public:
  Symbol(const KernelShape& kernel, std::int64_t steps) : kernel_(kernel), axes_(symbol_axes(kernel, steps)) {
    for (const SymbolAxis& axis : axes_) {
      taps_ *= axis.taps;
      phases_ *= axis.phases();
      steps_ *= axis.steps;
      const double degree = static_cast<double>(axis.meeting - 1) / 2;
      if (axis.steps > 1) between_ /= std::cos(std::numbers::pi * degree / static_cast<double>(axis.steps));
    }
  }

  double products() const {
    const auto a = 2.0 * static_cast<double>(kernel_.out), b = 2.0 * static_cast<double>(kernel_.in * phases_);
    return static_cast<double>(steps_) / 2 * std::min(a, b) * std::min(a, b) * (std::max(a, b) + 3 * std::min(a, b)) /
           2;
  }

  double bound(std::span<const float> weights) {
    const auto taps = static_cast<std::size_t>(taps_), each = weights.size() / taps;
    planes_.resize(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) planes_[i % taps * each + i / taps] = weights[i];
    double most = 0;
    for (std::int64_t step = 0; step < steps_; ++step) {
      const std::vector<std::int64_t> at = digits(step, axes_, [](const SymbolAxis& axis) { return axis.steps; });
      if (is_mirrored(at)) continue;
      const double here = at_frequency(at);
      if (!(here <= most)) most = here;
    }
    return most * between_ * (1 + 1e-9);
  }

 private:
  // S(-w) is S(w) conjugated.
  bool is_mirrored(const std::vector<std::int64_t>& at) const {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::int64_t mirror = (axes_[i].steps - at[i]) % axes_[i].steps;
      if (mirror != at[i]) return mirror < at[i];
    }
    return false;
  }

  // A + i B.
  double at_frequency(const std::vector<std::int64_t>& at) const {
    const auto out = static_cast<std::size_t>(kernel_.out), in = static_cast<std::size_t>(kernel_.in);
    const std::size_t columns = in * static_cast<std::size_t>(phases_);
    std::vector<double> a(out * columns), b(out * columns);
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(taps_); ++tap) {
      const std::vector<std::int64_t> place =
          digits(static_cast<std::int64_t>(tap), axes_, [](const SymbolAxis& axis) { return axis.taps; });
      std::int64_t phase = 0;
      double angle = 0;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        phase = phase * axes_[i].phases() + place[i] % axes_[i].period;
        angle += static_cast<double>(place[i] / axes_[i].period * at[i]) / static_cast<double>(axes_[i].steps);
      }
      const double real = std::cos(2 * std::numbers::pi * angle), imaginary = std::sin(2 * std::numbers::pi * angle);
      for (std::size_t row = 0; row < out; ++row) {
        const std::size_t to = row * columns + static_cast<std::size_t>(phase) * in;
        add_turned(planes_.data() + (tap * out + row) * in, in, real, imaginary, a.data() + to, b.data() + to);
      }
    }
    // One row or column: its length is the singular value.
    if (out == 1 || columns == 1) return std::hypot(euclidean_size(a), euclidean_size(b)) * (1 + 1e-15);
    return spectral_bound(as_real(a, b, columns), 2 * out, 2 * columns);
  }

  // [[A, -B], [B, A]], which stretches as much.
  static std::vector<double> as_real(std::span<const double> a, std::span<const double> b, std::size_t columns) {
    std::vector<double> matrix(4 * a.size());
    double *upper = matrix.data(), *lower = upper + 2 * a.size();
    for (std::size_t i = 0; i < a.size(); i += columns, upper += columns, lower += columns) {
      for (std::size_t k = i; k < i + columns; ++k, ++upper, ++lower) {
        *upper = lower[columns] = a[k];
        *lower = b[k];
        upper[columns] = -b[k];
      }
    }
    return matrix;
  }

  const KernelShape& kernel_;
  std::vector<SymbolAxis> axes_;
  std::int64_t taps_ = 1, phases_ = 1, steps_ = 1;
  double between_ = 1;
  std::vector<double> planes_ = {};  // weights by tap: [taps, out, in]
};

}  // namespace

double symbol_bound(std::span<const float> weights, const KernelShape& kernel) {
  for (const std::int64_t steps : {8, 5}) {
    Symbol symbol(kernel, steps);
    if (symbol.products() > kMostProducts) continue;
    double size = 0;
    for (const float weight : weights) size += std::abs(static_cast<double>(weight));
    // Cosines and sums are off by a little, relative to all weights together.
    return symbol.bound(weights) + 1e-12 * size;
  }
  return kInf;
}

}  // namespace finity
