// Sampling at positions given by a grid, and the grid of an affine map.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/extra/image/grid_range.h"
#include "ops/extra/image/interpolate_range.h"
#include "ops/extra/image/resample.h"
#include "ops/movement/move_gradient.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_groups.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- GridSample ------------------------------------------------------------

Shape sampled_shape(const Shape& x, const Shape& grid) {
  if (x.size() < 3 || x.size() != grid.size()) {
    throw Error("X has rank " + std::to_string(x.size()) + " and grid rank " + std::to_string(grid.size()));
  }
  same(grid.back(), Dim::of(static_cast<std::int64_t>(x.size()) - 2), "the number of coordinates");
  Shape result = {same(x[0], grid[0], "the batch size"), x[1]};
  result.insert(result.end(), grid.begin() + 1, grid.end() - 1);
  return result;
}

void infer_grid_sample(InferCall& call) {
  if (call.ranked(0) && call.ranked(1)) call.set_shape(0, sampled_shape(call.shape(0), call.shape(1)));
  else if (call.ranked(0)) call.set_shape(0, unknown_shape(call.rank(0)));
}

enum class Filter { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Sampling {
  Filter filter = Filter::linear;
  Padding padding = Padding::zeros;
  bool align_corners = false;
};

Sampling sampling_of(const Call& call) {
  const std::string mode = call.text("mode", "linear");
  const std::string padding = call.text("padding_mode");
  return {.filter = mode == "nearest"                      ? Filter::nearest
                    : mode == "cubic" || mode == "bicubic" ? Filter::cubic
                                                           : Filter::linear,
          .padding = padding == "border"       ? Padding::border
                     : padding == "reflection" ? Padding::reflection
                                               : Padding::zeros,
          .align_corners = call.integer("align_corners") != 0};
}

// From [-1, 1] to an index, in the precision of the grid.
template <class F>
F unnormalized(F x, std::int64_t size, bool align_corners) {
  const auto length = static_cast<F>(size);
  return align_corners ? (x + 1) / 2 * (length - 1) : ((x + 1) * length - 1) / 2;
}

// Folded back and forth between the two borders.
double reflected(double x, double low, double high) {
  const double width = high - low;
  if (width <= 0) return low;
  const double beyond = x < low ? low - x : x - low;
  const double phase = std::fmod(beyond, 2 * width);
  return low + (phase <= width ? phase : 2 * width - phase);
}

// One axis of X: where a coordinate reads from, with weights.
class AxisSampler {
 public:
  AxisSampler(std::int64_t size, const Sampling& sampling)
      : sampling_(sampling),
        size_(size),
        low_(sampling.align_corners ? 0.0 : -0.5),
        high_(static_cast<double>(size) - (sampling.align_corners ? 1.0 : 0.5)) {}

  // A source of -1 reads zero.
  void taps(double x, std::vector<Tap>& result) const {
    result.clear();
    if (sampling_.filter == Filter::nearest) x = std::nearbyint(x);  // halves to even
    x = padded(x);
    const double base = std::floor(x);
    if (sampling_.filter == Filter::nearest) {
      result.push_back({.source = index(x), .weight = 1});
    } else if (sampling_.filter == Filter::linear) {
      result.push_back({.source = index(base), .weight = 1 - (x - base)});
      result.push_back({.source = index(base + 1), .weight = x - base});
    } else {
      const std::array<double, 4> weights = cubic_weights(x - base, -0.75);
      for (int i = 0; i < 4; ++i) {
        result.push_back({.source = index(base + i - 1), .weight = weights[static_cast<std::size_t>(i)]});
      }
    }
  }

  // The slopes of the weights of a linear filter, by the coordinate.
  void slopes(double x, std::vector<Tap>& result) const {
    const double rate = rate_of_padded(x), base = std::floor(padded(x));
    result.clear();
    result.push_back({.source = index(base), .weight = -rate});
    result.push_back({.source = index(base + 1), .weight = rate});
  }

 private:
  // How fast padded(x) moves with x.
  double rate_of_padded(double x) const {
    if (!(x < low_ || x > high_) || sampling_.padding == Padding::zeros) return 1;
    if (sampling_.padding == Padding::border || high_ <= low_) return 0;
    const double width = high_ - low_, beyond = x < low_ ? low_ - x : x - low_;
    const bool comes_back = std::fmod(beyond, 2 * width) > width;
    return comes_back == (x < low_) ? 1 : -1;
  }
  double padded(double x) const {
    if (!(x < low_ || x > high_) || sampling_.padding == Padding::zeros) return x;
    return sampling_.padding == Padding::border ? std::clamp(x, 0.0, last()) : reflected(x, low_, high_);
  }
  std::int64_t index(double x) const {
    if (sampling_.padding == Padding::reflection && (x < 0 || x > last())) x = std::trunc(reflected(x, low_, high_));
    if (sampling_.padding != Padding::zeros && !std::isnan(x)) x = std::clamp(x, 0.0, last());
    return x >= 0 && x <= last() ? static_cast<std::int64_t>(x) : -1;
  }
  double last() const { return static_cast<double>(size_ - 1); }

  Sampling sampling_;
  std::int64_t size_;
  double low_, high_;
};

// The elements of one image that one grid position reads, for all axes together.
class PointSampler {
 public:
  PointSampler(std::span<const std::int64_t> image, const Sampling& sampling) : strides_(strides_of(image)) {
    for (const std::int64_t size : image) axes_.emplace_back(size, sampling);
  }

  // Coordinates come innermost axis first. Instead of the weights their slopes by the coordinate `by`, if there is one.
  const std::vector<Tap>& taps(std::span<const double> coordinates, std::optional<std::size_t> by = std::nullopt) {
    points_.assign(1, {.source = 0, .weight = 1});
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const std::size_t coordinate = axes_.size() - 1 - axis;
      if (by == coordinate) axes_[axis].slopes(coordinates[coordinate], of_axis_);
      else axes_[axis].taps(coordinates[coordinate], of_axis_);
      next_.clear();
      for (const Tap& point : points_) {
        for (const Tap& tap : of_axis_) {
          const bool outside = point.source < 0 || tap.source < 0;
          next_.push_back({.source = outside ? -1 : point.source + tap.source * strides_[axis],
                           .weight = point.weight * tap.weight});
        }
      }
      points_.swap(next_);
    }
    return points_;
  }

 private:
  std::vector<std::int64_t> strides_;
  std::vector<AxisSampler> axes_;
  std::vector<Tap> points_, next_, of_axis_;
};

std::vector<double> grid_coordinates(const Tensor& grid, std::span<const std::int64_t> image, bool align_corners) {
  std::vector<double> result = elements<double>(grid);
  const bool wide = grid.dtype() == DType::float64;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t size = image[image.size() - 1 - i % image.size()];
    result[i] = wide ? unnormalized(result[i], size, align_corners)
                     : static_cast<double>(unnormalized(static_cast<float>(result[i]), size, align_corners));
  }
  return result;
}

// Calls sample(channel image's first element, output index, taps) for every output element; see PointSampler for `by`.
template <class F>
void for_each_sample(const Tensor& x, const Tensor& grid, const Sampling& sampling, F sample,
                     std::optional<std::size_t> by = std::nullopt) {
  const std::span<const std::int64_t> image = std::span(x.dims()).subspan(2);
  const std::int64_t pixels = element_count(image);
  const std::vector<double> coordinates = grid_coordinates(grid, image, sampling.align_corners);
  const std::int64_t batches = x.dim(0), channels = x.dim(1);
  const auto points = static_cast<std::int64_t>(coordinates.size() / image.size()) / std::max<std::int64_t>(batches, 1);
  PointSampler sampler(image, sampling);
  for (std::int64_t n = 0; n < batches; ++n) {
    for (std::int64_t p = 0; p < points; ++p) {
      const auto first = static_cast<std::size_t>(n * points + p) * image.size();
      const std::vector<Tap>& taps = sampler.taps(std::span(coordinates).subspan(first, image.size()), by);
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t at = n * channels + c;
        sample(at * pixels, static_cast<std::size_t>(at * points + p), taps);
      }
    }
  }
}

template <class C>
Tensor interpolated(const Tensor& x, const Tensor& grid, const Sampling& sampling, const Dims& dims) {
  const std::vector<C> from = elements<C>(x);
  std::vector<C> to(static_cast<std::size_t>(element_count(dims)));
  for_each_sample(x, grid, sampling, [&](std::int64_t image, std::size_t at, const std::vector<Tap>& taps) {
    for (const Tap& tap : taps) {
      const C pixel = tap.source < 0 ? C{} : from[static_cast<std::size_t>(image + tap.source)];
      to[at] += pixel * tap.weight;
    }
  });
  return from_elements<C>(x.dtype(), dims, to);
}

Tensor nearest_neighbour(const Tensor& x, const Tensor& grid, const Sampling& sampling, const Dims& dims) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(element_count(dims)));
  for_each_sample(x, grid, sampling, [&](std::int64_t image, std::size_t at, const std::vector<Tap>& taps) {
    positions[at] = taps[0].source < 0 ? -1 : image + taps[0].source;
  });
  return gather_elements(x, dims, positions);
}

void eval_grid_sample(EvalCall& call) {
  const Tensor &x = call.in(0), &grid = call.in(1);
  const Dims dims = sizes_of(sampled_shape(shape_of(x), shape_of(grid)));
  require_computable(dims);
  const Sampling sampling = sampling_of(call);
  if (element_count(dims) > 0 && sampling.padding != Padding::zeros && x.empty()) throw Error("X is empty");
  if (sampling.filter == Filter::nearest) call.out(0, nearest_neighbour(x, grid, sampling, dims));
  else if (is_complex(x.dtype())) call.out(0, interpolated<std::complex<double>>(x, grid, sampling, dims));
  else call.out(0, interpolated<double>(x, grid, sampling, dims));
}

// ---- AffineGrid ------------------------------------------------------------

// [N, spatial sizes..., number of them] from theta [N, r, r + 1] and size [N, C, spatial sizes...].
Shape affine_grid_shape(const Shape& theta, const Entries& size) {
  if (size.size() != 4 && size.size() != 5) throw Error("size must be [N, C, H, W] or [N, C, D, H, W]");
  const auto axes = static_cast<std::int64_t>(size.size()) - 2;
  if (theta.size() != 3) throw Error("theta has rank " + std::to_string(theta.size()) + ", expected 3");
  same(theta[1], Dim::of(axes), "the number of rows of theta");
  same(theta[2], Dim::of(axes + 1), "the number of columns of theta");
  Shape result = {same(theta[0], size[0].dim, "the batch size")};
  for (std::size_t i = 2; i < size.size(); ++i) {
    if (size[i].number && *size[i].number < 0) throw Error("negative size");
    result.push_back(size[i].dim);
  }
  result.push_back(Dim::of(axes));
  return result;
}

void infer_affine_grid(InferCall& call) {
  const auto size = entries(call, {}, 1);
  if (size) call.set_shape(0, affine_grid_shape(call.ranked(0) ? call.shape(0) : unknown_shape(3), *size));
}

// Pixel i of n, spread over [-1, 1].
double base_coordinate(std::int64_t i, std::int64_t n, bool align_corners) {
  const auto at = static_cast<double>(i), count = static_cast<double>(n);
  if (align_corners) return n == 1 ? -1.0 : -1.0 + 2.0 * at / (count - 1);
  return -1.0 + (2.0 * at + 1.0) / count;
}

void eval_affine_grid(EvalCall& call) {
  const Dims dims = sizes_of(affine_grid_shape(shape_of(call.in(0)), entries_of(numbers(call, {}, 1))));
  require_computable(dims);
  const std::vector<double> theta = elements<double>(call.in(0));
  const auto axes = static_cast<std::size_t>(dims.back());
  const bool align_corners = call.integer("align_corners") != 0;
  std::vector<double> result;
  // Each position is (x, y[, z], 1): the innermost axis comes first.
  for (IndexCounter at(Dims(dims.begin(), dims.end() - 1)); at.valid(); at.next()) {
    const auto batch = static_cast<std::size_t>(at.index()[0]);
    for (std::size_t row = 0; row < axes; ++row) {
      const double* factors = &theta[(batch * axes + row) * (axes + 1)];
      double sum = factors[axes];
      for (std::size_t i = 0; i < axes; ++i) {
        sum += factors[i] * base_coordinate(at.index()[axes - i], dims[axes - i], align_corners);
      }
      result.push_back(sum);
    }
  }
  call.out(0, from_elements<double>(call.in(0).dtype(), dims, result));
}

// ---- ranges ----------------------------------------------------------------

// Whether a position p may be so far away that p + 1 is rounded to p, p + 1 or p + 2: its two linear weights,
// differences of such numbers, then add up to 0, 1 or 2.
bool loses_weights(const RangeCall& call, double size) {
  const double pixels = (call.hull(1).magnitude() + 1) * size / 2 + 1;
  const DType carrier = call.in(1).dtype == DType::float64 ? DType::float64 : DType::float32;
  return call.may(Way::far_weights) && !(pixels < 1 / unit_roundoff(carrier));
}

void range_grid_sample(RangeCall& call) {
  const Sampling sampling = sampling_of(call);
  const DType dtype = call.out_dtype(0);
  const AbsTensor& x = call.in(0);
  const double size = longest_axis(x);
  const bool lost = loses_positions(call.hull(1), size);
  Range each = x.hull();
  if (sampling.padding == Padding::zeros || lost) each = join(each, point(0));
  if (sampling.filter == Filter::nearest) {
    call.out(0, each);
    return;
  }
  const std::size_t axes = x.ranked && x.rank() > 2 ? x.rank() - 2 : 3;
  if (sampling.filter == Filter::linear && loses_weights(call, size)) {
    each = join(point(0), multiply(DType::float64, each, point(std::pow(2.0, static_cast<double>(axes)))));
  }
  const double negative = sampling.filter == Filter::cubic ? 0.1875 : 0;
  Range result;
  if (is_float(dtype)) {
    for (const DType carrier : call.accumulators(dtype)) {
      result = join(result, weighted_range(dtype, carrier, each, axes, negative, 4));
    }
    result.nan |= lost;
  } else if (is_int(dtype) && negative == 0) {
    result = from_bounds(dtype, each.lo - 1, each.hi + 1);  // truncated after rounding errors
  } else {
    result = top(dtype);
  }
  call.out(0, result);
}

// Row times (x, y[, z], 1) with coordinates in [-1, 1].
void range_affine_grid(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const Range theta = call.hull(0);
  const Range factor = multiply(dtype, theta, {.lo = -1, .hi = 1});
  const double axes = call.out_type(0).ranked && call.out_type(0).shape.size() == 4 ? 2 : 3;
  Group terms;
  terms.parts = {{.each = factor, .count = axes}, {.each = theta, .count = 1}};
  Range result;
  for (const DType carrier : call.accumulators(dtype)) {
    const double slack = 8 * (unit_roundoff(carrier) * theta.magnitude() + min_subnormal(carrier)) * (axes + 1);
    Range sum = group_sum(dtype, carrier, terms);
    if (sum.has_finite()) {
      const Range wide = from_bounds(dtype, sum.lo - slack, sum.hi + slack);
      sum.lo = wide.lo;
      sum.hi = wide.hi;
    }
    result = join(result, sum);
  }
  call.out(0, result);
}

// ---- gradients -------------------------------------------------------------

void infer_like_second(InferCall& call) {
  if (call.ranked(1)) call.set_shape(0, call.shape(1));
}

// What arrives at each sample of X, operand 1, by the grid, operand 2.
std::vector<double> arriving_at_samples(const EvalCall& call) {
  const Dims dims = sizes_of(sampled_shape(shape_of(call.in(1)), shape_of(call.in(2))));
  if (call.in(0).dims() != dims) {
    throw Error("dY has shape " + to_string(call.in(0).dims()) + ", expected " + to_string(dims));
  }
  return elements<double>(call.in(0));
}

// Every output gives its gradient to the pixels it was made of.
void eval_grid_sample_gradient(EvalCall& call) {
  const Tensor &x = call.in(1), &grid = call.in(2);
  const std::vector<double> from = arriving_at_samples(call);
  std::vector<double> to(static_cast<std::size_t>(x.size()));
  for_each_sample(x, grid, sampling_of(call), [&](std::int64_t image, std::size_t at, const std::vector<Tap>& taps) {
    for (const Tap& tap : taps) {
      if (tap.source >= 0) to[static_cast<std::size_t>(image + tap.source)] += from[at] * tap.weight;
    }
  });
  call.out(0, from_elements<double>(x.dtype(), x.dims(), to));
}

void infer_like_third(InferCall& call) {
  if (call.ranked(2)) call.set_shape(0, call.shape(2));
}

// A position moves all channels that are read there.
void eval_grid_slopes(EvalCall& call) {
  const Tensor &x = call.in(1), &grid = call.in(2);
  const Sampling sampling = sampling_of(call);
  const std::vector<double> from = arriving_at_samples(call), pixels = elements<double>(x);
  std::vector<double> to(static_cast<std::size_t>(grid.size()));
  const std::size_t axes = x.dims().size() - 2;
  const auto points = static_cast<std::size_t>(element_count(std::span(call.in(0).dims()).subspan(2)));
  const auto channels = static_cast<std::size_t>(x.dim(1));
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const auto size = static_cast<double>(x.dims()[x.dims().size() - 1 - axis]);
    const double pixels_per_unit = (sampling.align_corners ? size - 1 : size) / 2;
    const auto sample = [&](std::int64_t image, std::size_t at, const std::vector<Tap>& taps) {
      double slope = 0;
      for (const Tap& tap : taps) {
        if (tap.source >= 0) slope += pixels[static_cast<std::size_t>(image + tap.source)] * tap.weight;
      }
      to[(at / points / channels * points + at % points) * axes + axis] += from[at] * slope * pixels_per_unit;
    };
    for_each_sample(x, grid, sampling, sample, axis);
  }
  call.out(0, from_elements<double>(grid.dtype(), grid.dims(), to));
}

// Which pixel is the nearest changes in steps; the weights of others change with the grid.
void grid_sample_gradient(BuildCall& call) {
  const Filter filter = sampling_of(call).filter;
  if (call.wanted(1) && filter == Filter::cubic)
    throw Unsupported("the gradient with respect to the positions of a cubic filter is not modelled");
  const std::vector<ValueId> operands = {call.grad(0), call.in(0), call.in(1)};
  if (call.wanted(0)) call.give(0, call.add("finity:GridSampleGradient", operands, call.attrs()));
  if (call.wanted(1) && filter == Filter::linear)
    call.give(1, call.add("finity:GridSampleSlopes", operands, call.attrs()));
}

// Linear in what arrives. The sum over all pixels, times what arrives there, is the sum over all samples of these.
void grid_sample_second_gradient(BuildCall& call) {
  const Filter filter = sampling_of(call).filter;
  if (call.wanted(2) && filter == Filter::cubic)
    throw Unsupported("the gradient with respect to the positions of a cubic filter is not modelled");
  const ValueId dy = call.in(0), grid = call.in(2);
  if (call.wanted(0)) call.give(0, call.add("GridSample", {call.grad(0), grid}, call.attrs()));
  if (call.wanted(2) && filter == Filter::linear)
    call.give(2, call.add("finity:GridSampleSlopes", {dy, call.grad(0), grid}, call.attrs()));
}

// A position is theta times (x, y[, z], 1); these come from the grid of the map that changes nothing.
void affine_grid_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const auto axes = static_cast<std::int64_t>(call.rank(call.out(0))) - 2;
  const DType dtype = call.type(call.in(0)).dtype;
  std::vector<double> unit(static_cast<std::size_t>(axes * (axes + 1)), 0.0);
  for (std::int64_t i = 0; i < axes; ++i) unit[static_cast<std::size_t>(i * (axes + 1) + i)] = 1;
  const ValueId one = call.writer().constant(from_elements<double>(dtype, {1, axes, axes + 1}, unit));
  const ValueId still = call.add("Expand", {one, shape_vector(call, call.in(0))});
  const ValueId base = call.writer().repeat(call.description(), {still, call.in(1)}, call.attrs()).front();
  const ValueId points = reshape_to(call, base, {0, -1, axes});
  const ValueId last = call.add("Slice", {call.ones_like(points), call.ints({0}), call.ints({1}), call.ints({2})});
  const ValueId columns = call.add("Concat", {points, last}, with_attr("axis", std::int64_t{2}));
  const ValueId arriving = transpose(call, reshape_to(call, call.grad(0), {0, -1, axes}), {0, 2, 1});
  call.give(0, call.add("MatMul", {arriving, columns}));
}

const OpDef kOps[] = {
    {.identity = {.name = "GridSample",
                  .since = 16,
                  .summary = "X interpolated at the positions of a grid",
                  .signature = "(X: T, grid: any) -> (Y: T) where T: any",
                  .attrs = "mode: string {bilinear, bicubic, linear, cubic, nearest}; "
                           "padding_mode: string = zeros {zeros, border, reflection}; align_corners: int = 0"},
     .meaning = {.infer = infer_grid_sample,
                 .eval = eval_grid_sample,
                 .freedom = "coordinates in float32 (float64 for such a grid), sums in double rounded once"},
     .analysis = {.range = range_grid_sample,
                  .vjp = grid_sample_gradient,
                  .grants = {.ways = {Way::far_weights}, .measured_on = kOnnxRuntime}}},
    {.identity = {.name = "GridSampleGradient",
                  .domain = "finity",
                  .summary = "what arrives at samples of X, given back to the pixels they were made of",
                  .signature = "(dY: T, X: T, grid: any) -> (dX: T) where T: float",
                  .attrs = "mode: string {bilinear, bicubic, linear, cubic, nearest}; "
                           "padding_mode: string = zeros {zeros, border, reflection}; align_corners: int = 0"},
     .meaning = {.infer = infer_like_second,
                 .eval = eval_grid_sample_gradient,
                 .freedom = "coordinates in float32 (float64 for such a grid), sums in double rounded once"},
     .analysis = {.range = range_grid_sample_gradient, .vjp = grid_sample_second_gradient, .overflow = "FN205"}},
    {.identity = {.name = "GridSampleSlopes",
                  .domain = "finity",
                  .summary = "what arrives at linear samples of X, given back to the positions of the grid",
                  .signature = "(dY: T, X: T, grid: U) -> (dGrid: U) where T: float, U: float",
                  .attrs = "mode: string {bilinear, linear}; "
                           "padding_mode: string = zeros {zeros, border, reflection}; align_corners: int = 0"},
     .meaning = {.infer = infer_like_third,
                 .eval = eval_grid_slopes,
                 .freedom = "coordinates in float32 (float64 for such a grid), sums in double rounded once"},
     .analysis = {.range = range_grid_sample_slopes, .overflow = "FN205"}},
    {.identity = {.name = "AffineGrid",
                  .since = 20,
                  .summary = "evenly spaced positions in [-1, 1], moved by an affine map",
                  .signature = "(theta: T, size: int64) -> (grid: T) where T: float",
                  .attrs = "align_corners: int = 0"},
     .meaning = {.infer = infer_affine_grid,
                 .eval = eval_affine_grid,
                 .freedom = "computed in double and rounded once; with align_corners a single pixel is at -1"},
     .analysis = {.range = range_affine_grid, .vjp = affine_grid_gradient}},
};

}  // namespace

std::span<const OpDef> grid_ops() { return kOps; }

}  // namespace finity
