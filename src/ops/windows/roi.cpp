// Pools over regions of interest: rectangles of an image, cut into a grid of bins.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/linear/dot.h"
#include "ops/movement/movement_rules.h"
#include "ops/reduce/reduce_range.h"
#include "ops/shared/range_groups.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/windows/roi_gradient.h"
#include "tensor/convert.h"

namespace finity {

namespace {

std::int64_t positive(std::int64_t value, std::string_view attribute) {
  if (value < 1 || value > (std::int64_t{1} << 20)) {
    throw Error("attribute '" + std::string(attribute) + "' is " + std::to_string(value));
  }
  return value;
}

// The images' geometry and the regions, whose rows are checked to have `columns` numbers.
struct RoiPlan {
  std::int64_t batch = 0, channels = 0, height = 0, width = 0;
  std::int64_t regions = 0, out_height = 1, out_width = 1;

  Dims out() const { return {regions, channels, out_height, out_width}; }
  std::int64_t bins() const { return out_height * out_width; }
};

RoiPlan plan_rois(const Tensor& x, const Tensor& rois, std::int64_t columns, std::int64_t out_height,
                  std::int64_t out_width) {
  require_rank(x, "input X", 4);
  require_rank(rois, "input rois", 2);
  if (rois.dim(1) != columns) throw Error("input rois has shape " + to_string(rois.dims()));
  RoiPlan plan{x.dim(0), x.dim(1), x.dim(2), x.dim(3), rois.dim(0), out_height, out_width};
  result_count(plan.out());
  return plan;
}

void check_image(const RoiPlan& plan, std::int64_t image) {
  if (image < 0 || image >= plan.batch) {
    throw Error("a region is in image " + std::to_string(image) + " of " + std::to_string(plan.batch));
  }
}

// ---- MaxRoiPool --------------------------------------------------------------

std::array<std::int64_t, 2> pooled_shape(const Call& call) {
  const std::vector<std::int64_t> shape = call.integers("pooled_shape");
  if (shape.size() != 2) throw Error("attribute 'pooled_shape' does not have two elements");
  return {positive(shape[0], "pooled_shape"), positive(shape[1], "pooled_shape")};
}

void infer_max_roi_pool(InferCall& call) {
  const auto [height, width] = pooled_shape(call);
  require_rank(call, 0, 4);
  require_rank(call, 1, 2);
  call.set_shape(0, {call.ranked(1) ? call.shape(1)[0] : Dim{}, call.ranked(0) ? call.shape(0)[1] : Dim{},
                     Dim::of(height), Dim::of(width)});
}

// The pixels [begin, end) of one axis that bin `bin` of `bins` covers, the region's ends rounded and included.
struct PixelRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
PixelRange bin_pixels(float low, float high, float scale, std::int64_t bin, std::int64_t bins, std::int64_t size) {
  const float first = std::round(low * scale), last = std::round(high * scale);
  if (!(std::abs(first) < 1e9F) || !(std::abs(last) < 1e9F)) throw Error("a region has coordinates out of range");
  const float step = std::max(last - first + 1, 1.0F) / static_cast<float>(bins);
  const auto clip = [&](float x) { return std::clamp<std::int64_t>(static_cast<std::int64_t>(x + first), 0, size); };
  return {clip(std::floor(static_cast<float>(bin) * step)), clip(std::ceil(static_cast<float>(bin + 1) * step))};
}

// Position of the largest element, -1 when there is none.
std::int64_t largest(std::span<const double> x, std::int64_t plane, std::int64_t width, PixelRange rows,
                     PixelRange columns) {
  std::int64_t best = -1;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t column = columns.begin; column < columns.end; ++column) {
      const std::int64_t at = plane + row * width + column;
      const double value = x[static_cast<std::size_t>(at)];
      if (best < 0 || value > x[static_cast<std::size_t>(best)] || std::isnan(value)) best = at;
      if (std::isnan(value)) return best;
    }
  }
  return best;
}

RoiPlan plan_max_rois(const EvalCall& call) {
  const auto [height, width] = pooled_shape(call);
  return plan_rois(call.in(0), call.in(1), 5, height, width);
}

// Of the largest element in every bin.
std::vector<std::int64_t> max_roi_positions(const EvalCall& call, const RoiPlan& plan) {
  const std::int64_t height = plan.out_height, width = plan.out_width;
  const std::vector<double> pixels = elements<double>(call.in(0));
  const std::vector<float> rois = elements<float>(call.in(1));
  const auto scale = static_cast<float>(call.real("spatial_scale"));
  std::vector<std::int64_t> positions;
  for (std::int64_t region = 0; region < plan.regions; ++region) {
    const float* roi = rois.data() + region * 5;
    const auto image = std::isfinite(roi[0]) ? static_cast<std::int64_t>(roi[0]) : -1;
    check_image(plan, image);
    for (std::int64_t i = 0; i < plan.channels * plan.bins(); ++i) {
      const std::int64_t channel = i / plan.bins(), row = i % plan.bins() / width, column = i % width;
      const std::int64_t plane = (image * plan.channels + channel) * plan.height * plan.width;
      positions.push_back(largest(pixels, plane, plan.width,
                                  bin_pixels(roi[2], roi[4], scale, row, height, plan.height),
                                  bin_pixels(roi[1], roi[3], scale, column, width, plan.width)));
    }
  }
  return positions;
}

void eval_max_roi_pool(EvalCall& call) {
  const RoiPlan plan = plan_max_rois(call);
  call.out(0, gather_elements(call.in(0), plan.out(), max_roi_positions(call, plan)));
}

void eval_max_roi_places(EvalCall& call) {
  const RoiPlan plan = plan_max_rois(call);
  std::vector<std::int64_t> places = max_roi_positions(call, plan);
  for (std::int64_t& place : places) ++place;
  call.out(0, Tensor::of<std::int64_t>(DType::int64, plan.out(), places));
}

// ---- RoiAlign ----------------------------------------------------------------

void infer_roi_align(InferCall& call) {
  require_rank(call, 0, 4);
  require_rank(call, 1, 2);
  require_rank(call, 2, 1);
  Dim regions;
  if (call.ranked(2)) regions = call.shape(2)[0];
  if (call.ranked(1) && !regions.known()) regions = call.shape(1)[0];
  call.set_shape(0, {regions, call.ranked(0) ? call.shape(0)[1] : Dim{},
                     Dim::of(positive(call.integer("output_height"), "output_height")),
                     Dim::of(positive(call.integer("output_width"), "output_width"))});
}

// The sample points of one axis of one bin: `count` of them, evenly spaced.
template <class A>
struct Samples {
  A start{};     // of the region
  A bin_size{};  //
  std::int64_t count = 0;

  A at(std::int64_t bin, std::int64_t i) const {
    return start + static_cast<A>(bin) * bin_size + (static_cast<A>(i) + A(0.5)) * bin_size / static_cast<A>(count);
  }
};

// Opset 10 and output_half_pixel do not shift by half a pixel, but make a region at least one pixel wide.
template <class A>
Samples<A> sample_axis(A low, A high, A scale, bool half_pixel, std::int64_t bins, std::int64_t ratio) {
  const A shift = half_pixel ? A(0.5) : A(0);
  const A start = low * scale - shift;
  A length = (high * scale - shift) - start;
  if (!half_pixel) length = std::max(length, A(1));
  if (!std::isfinite(start) || !std::isfinite(length)) throw Error("input rois contains numbers that are not finite");
  const A count = ratio > 0 ? static_cast<A>(ratio) : std::ceil(length / static_cast<A>(bins));
  if (count > A(1 << 12)) throw Error("a region has too many sample points");
  return {start, length / static_cast<A>(bins), static_cast<std::int64_t>(std::max(count, A(0)))};
}

// The two pixels next to a coordinate and their shares; shares of 0 more than one pixel outside.
template <class A>
struct Neighbours {
  std::int64_t low = 0, high = 0;
  A low_share{}, high_share{};
};
template <class A>
Neighbours<A> neighbours(A at, std::int64_t size) {
  if (at < A(-1) || at > static_cast<A>(size)) return {};
  at = std::max(at, A(0));
  const auto low = static_cast<std::int64_t>(at);
  if (low >= size - 1) return {size - 1, size - 1, A(1), A(0)};
  const A share = at - static_cast<A>(low);
  return {low, low + 1, A(1) - share, share};
}

// The four weighted neighbours of one sample point; zeros outside the image, whatever its first pixel is.
template <class A>
std::array<A, 4> weighted(const A* plane, std::int64_t width, const Neighbours<A>& y, const Neighbours<A>& x) {
  if (y.low_share + y.high_share == 0 || x.low_share + x.high_share == 0) return {};
  return {y.low_share * x.low_share * plane[y.low * width + x.low],
          y.low_share * x.high_share * plane[y.low * width + x.high],
          y.high_share * x.low_share * plane[y.high * width + x.low],
          y.high_share * x.high_share * plane[y.high * width + x.high]};
}

// Mean of the interpolated samples of a bin, or (as the op was defined) the largest weighted neighbour.
template <class A>
A align_bin(const A* plane, const RoiPlan& plan, const Samples<A>& rows, const Samples<A>& columns, std::int64_t row,
            std::int64_t column, bool average) {
  A sum{};
  A best = -std::numeric_limits<A>::infinity();
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const Neighbours<A> y = neighbours(rows.at(row, i), plan.height);
    for (std::int64_t j = 0; j < columns.count; ++j) {
      const Neighbours<A> x = neighbours(columns.at(column, j), plan.width);
      const std::array<A, 4> parts = weighted(plane, plan.width, y, x);
      sum += parts[0] + parts[1] + parts[2] + parts[3];
      best = std::max(best, *std::ranges::max_element(parts));
    }
  }
  const std::int64_t count = rows.count * columns.count;
  if (average) return sum / static_cast<A>(std::max<std::int64_t>(count, 1));
  return count == 0 ? A{} : best;
}

template <class A>
std::vector<A> roi_align(const EvalCall& call, const RoiPlan& plan, std::span<const std::int64_t> images) {
  const std::vector<A> x = elements<A>(call.in(0));
  const std::vector<A> rois = elements<A>(call.in(1));
  const auto scale = static_cast<A>(call.real("spatial_scale"));
  const bool half_pixel =
      call.version() >= 16 && call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool average = call.text("mode") == "avg";
  const std::int64_t ratio = call.integer("sampling_ratio");
  std::vector<A> result;
  for (std::int64_t region = 0; region < plan.regions; ++region) {
    const A* roi = rois.data() + region * 4;
    const Samples<A> rows = sample_axis(roi[1], roi[3], scale, half_pixel, plan.out_height, ratio);
    const Samples<A> columns = sample_axis(roi[0], roi[2], scale, half_pixel, plan.out_width, ratio);
    const std::int64_t image = images[static_cast<std::size_t>(region)];
    check_image(plan, image);
    for (std::int64_t i = 0; i < plan.channels * plan.bins(); ++i) {
      const std::int64_t channel = i / plan.bins();
      const A* plane = x.data() + (image * plan.channels + channel) * plan.height * plan.width;
      result.push_back(
          align_bin(plane, plan, rows, columns, i % plan.bins() / plan.out_width, i % plan.out_width, average));
    }
  }
  return result;
}

void eval_roi_align(EvalCall& call) {
  const Tensor& x = call.in(0);
  const RoiPlan plan = plan_rois(x, call.in(1), 4, positive(call.integer("output_height"), "output_height"),
                                 positive(call.integer("output_width"), "output_width"));
  const std::vector<std::int64_t> images = elements<std::int64_t>(call.in(2));
  if (static_cast<std::int64_t>(images.size()) != plan.regions) {
    throw Error("batch_indices has " + std::to_string(images.size()) + " elements for " + std::to_string(plan.regions) +
                " regions");
  }
  if (plan.height * plan.width == 0 && plan.regions > 0) throw Error("input X has empty images");
  call.out(0, with_float_sum_type(x.dtype(), [&]<class A>() {
             return from_elements<A>(x.dtype(), plan.out(), roi_align<A>(call, plan, images));
           }));
}

// ---- ranges --------------------------------------------------------------------

// Elements of the region, or zero where there is none.
void range_max_roi_pool(RangeCall& call) {
  const Range x = call.hull(0);
  Range result = join(x, point(0));
  if (call.may(Way::lowest_for_nothing) && (x.ninf || x.nan)) {
    result = join(result, point(lowest_finite(call.out_dtype(0))));
  }
  call.out(0, result);
}

void range_max_roi_places(RangeCall& call) { call.out(0, whole_numbers(0, call.in(0).most_count(~std::uint32_t{0}))); }

// Sample points of a bin that lie in the image: given, or at distances between half a pixel and one.
double sample_count(const RangeCall& call) {
  const auto ratio = static_cast<double>(call.integer("sampling_ratio"));
  if (ratio > 0) return ratio * ratio;
  const AbsTensor& x = call.in(0);
  double count = 1;
  for (const std::size_t axis : {2, 3}) {
    const bool known = x.ranked && x.rank() == 4 && x.sizes[axis] >= 0;
    count *= known ? std::min(2.0 * static_cast<double>(x.sizes[axis]) + 4, 0x1p12) : 0x1p12;
  }
  return count;
}

// Weights of a sample are shares of 1, or 0 outside the image: means and maxima lie between zero and the elements.
void range_roi_align(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const Range either = join(call.hull(0), point(0));
  const double samples = sample_count(call);
  call.out(0, in_all_carriers(call, dtype, [&](DType carrier) {
             Range result = group_mean(dtype, carrier, group_of(either, 1, samples));
             result.nan |= either.pinf || either.ninf;  // shares may be 0
             // NaN loses every comparison: a maximum of nothing else stays at its start.
             result.ninf |= result.nan && call.text("mode") == "max";
             if (!result.has_finite()) return result;
             // Each sample is a sum of four products.
             const double slack = 16 * (unit_roundoff(carrier) * either.magnitude() + min_subnormal(carrier));
             const Range wide = from_bounds(dtype, result.lo - slack, result.hi + slack);
             result.lo = either.lo >= 0 ? std::max(wide.lo, 0.0) : wide.lo;
             result.hi = either.hi <= 0 ? std::min(wide.hi, 0.0) : wide.hi;
             return result;
           }));
}

// Regions that lie in the image or stick out of it, each of one of its batches.
bool draw_roi_align(DrawCall& call) {
  if (call.rank() != 4 || element_count(call.dims()) == 0) return false;
  const std::int64_t count = call.between(1, 3);
  std::vector<double> corners;
  DrawCall::Ints batches;
  for (std::int64_t i = 0; i < count; ++i) {
    const double left = static_cast<double>(call.between(-1, 3)), high = static_cast<double>(call.between(-1, 3));
    const double wide = static_cast<double>(call.between(1, 8)) / 2, tall = static_cast<double>(call.between(1, 8)) / 2;
    corners.insert(corners.end(), {left, high, left + wide, high + tall});
    batches.push_back(call.between(0, call.length(0) - 1));
  }
  for (const char* size : {"output_height", "output_width"}) call.attrs().set(size, call.between(1, 3));
  call.add(from_elements<double>(call.dtype(), {count, 4}, corners), 30);
  call.add_ints(batches);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "MaxRoiPool",
                  .summary = "largest element in each bin of a grid over each region",
                  .signature = "(X: T, rois: T) -> (Y: T) where T: float",
                  .attrs = "pooled_shape: ints; spatial_scale: float = 1"},
     .meaning =
         {.infer = infer_max_roi_pool,
          .eval = eval_max_roi_pool,
          .freedom =
              "regions are rounded to pixels, ends included; neighbouring bins may share pixels; an empty bin gives 0"},
     .analysis = {.range = range_max_roi_pool,
                  .vjp = max_roi_pool_gradient,
                  .grants = {.ways = {Way::lowest_for_nothing, Way::passes_over_nan}, .measured_on = kOnnxRuntime}}},
    {.identity = {.name = "MaxRoiPlaces",
                  .domain = "finity",
                  .summary = "where MaxRoiPool finds its elements, counted from 1 through all of X; 0 for an empty bin",
                  .signature = "(X: T, rois: T) -> (places: int64) where T: float",
                  .attrs = "pooled_shape: ints; spatial_scale: float = 1"},
     .meaning = {.infer = infer_max_roi_pool, .eval = eval_max_roi_places},
     .analysis = {.range = range_max_roi_places, .vjp = flat}},
    {.identity = {.name = "RoiAlign",
                  .since = 10,
                  .summary = "mean or maximum of interpolated samples in each bin of a grid over each region",
                  .signature = "(X: T1, rois: T1, batch_indices: int64) -> (Y: T1) where T1: float",
                  .attrs = "mode: string = avg {avg, max}; output_height: int = 1; output_width: int = 1; "
                           "sampling_ratio: int = 0; spatial_scale: float = 1; coordinate_transformation_mode: "
                           "string {half_pixel, output_half_pixel} since 16"},
     .meaning = {.infer = infer_roi_align,
                 .eval = eval_roi_align,
                 .freedom =
                     "coordinates and sums in float32 (float64 for float64), samples added row by row; max takes the "
                     "largest weighted neighbour"},
     .analysis = {.range = range_roi_align, .vjp = roi_align_gradient, .overflow = "FN205"},
     .drawing = {.operands = draw_roi_align, .first = FirstOperand::image, .settings = true}},
};

}  // namespace

std::span<const OpDef> roi_ops() { return kOps; }

}  // namespace finity
