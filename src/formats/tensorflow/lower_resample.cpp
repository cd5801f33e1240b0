// Sizes of images changed by weights: the gradients of interpolations, and means over areas. Each axis is a product
// with a matrix of weights, which are known when the model is read, or computed where a size is not.
#include <algorithm>
#include <cmath>

#include "formats/tensorflow/emit.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

// weights[k][i]: what element i of the longer or shorter axis contributes to result k.
using Weights = std::vector<std::vector<double>>;

struct Coordinates {
  bool corners = false;  // the first and last elements of both axes lie on each other
  bool centres = false;  // elements are areas, their values in the middle

  explicit Coordinates(const TfCall& call)
      : corners(call.flag("align_corners", false)), centres(call.flag("half_pixel_centers", false)) {}

  float place(std::int64_t k, std::int64_t in, std::int64_t out) const {
    const auto at = static_cast<float>(k);
    if (corners && out > 1) return at * (static_cast<float>(in - 1) / static_cast<float>(out - 1));
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    return centres ? (at + 0.5F) * scale - 0.5F : at * scale;
  }
};

Weights empty_weights(std::int64_t in, std::int64_t out) {
  constexpr std::int64_t kMostWeights = 1 << 22;
  if (in * out > kMostWeights) throw Unsupported("the images are too large to write their weights down");
  return Weights(static_cast<std::size_t>(out), std::vector<double>(static_cast<std::size_t>(in), 0.0));
}

Weights linear_weights(std::int64_t in, std::int64_t out, const Coordinates& coordinates) {
  Weights weights = empty_weights(in, out);
  for (std::int64_t k = 0; k < out; ++k) {
    const float place = coordinates.place(k, in, out);
    const float below = std::floor(place);
    const auto clamped = [&](float at) {
      return static_cast<std::size_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, in - 1));
    };
    auto& row = weights[static_cast<std::size_t>(k)];
    row[clamped(below)] += 1.0 - static_cast<double>(place - below);
    row[clamped(below + 1)] += static_cast<double>(place - below);
  }
  return weights;
}

Weights nearest_weights(std::int64_t in, std::int64_t out, const Coordinates& coordinates) {
  Weights weights = empty_weights(in, out);
  for (std::int64_t k = 0; k < out; ++k) {
    const float place = coordinates.place(k, in, out);
    const float at = coordinates.corners ? std::round(place) : std::floor(coordinates.centres ? place + 0.5F : place);
    const std::int64_t source = std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, in - 1);
    weights[static_cast<std::size_t>(k)][static_cast<std::size_t>(source)] = 1;
  }
  return weights;
}

// Result k is the mean over [k scale, (k + 1) scale).
Weights area_weights(std::int64_t in, std::int64_t out, bool corners) {
  Weights weights = empty_weights(in, out);
  const double scale = corners && out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1)
                                          : static_cast<double>(in) / static_cast<double>(out);
  for (std::int64_t k = 0; k < out; ++k) {
    const double begin = static_cast<double>(k) * scale, end = begin + scale;
    for (auto i = static_cast<std::int64_t>(std::floor(begin)); static_cast<double>(i) < end; ++i) {
      const double overlap = std::min(end, static_cast<double>(i) + 1) - std::max(begin, static_cast<double>(i));
      const std::int64_t source = std::clamp<std::int64_t>(i, 0, in - 1);
      weights[static_cast<std::size_t>(k)][static_cast<std::size_t>(source)] += std::max(overlap, 0.0) / scale;
    }
  }
  return weights;
}

// [in, out], or its transpose when gradients flow from results to elements.
ValueId matrix(TfCall& call, const Weights& weights, bool backwards) {
  const std::size_t out = weights.size(), in = weights.front().size();
  std::vector<double> elements;
  for (std::size_t row = 0; row < (backwards ? out : in); ++row) {
    for (std::size_t column = 0; column < (backwards ? in : out); ++column)
      elements.push_back(backwards ? weights[row][column] : weights[column][row]);
  }
  const Dims dims = {static_cast<std::int64_t>(backwards ? out : in), static_cast<std::int64_t>(backwards ? in : out)};
  return call.constant(from_elements<double>(DType::float32, dims, elements));
}

constexpr std::int64_t kLongestAxis = 1 << 14;

// x [batch, rows, columns, channels] times a matrix along its rows, then along its columns.
ValueId applied(TfCall& call, ValueId x, ValueId rows, ValueId columns) {
  Emit emit(call);
  const ValueId lines = emit.transpose(emit.add("MatMul", {emit.transpose(x, {0, 3, 2, 1}), rows}), {0, 3, 2, 1});
  const ValueId all = emit.add("MatMul", {emit.transpose(lines, {0, 1, 3, 2}), columns});
  return emit.transpose(all, {0, 1, 3, 2});
}
ValueId applied(TfCall& call, ValueId x, const Weights& rows, const Weights& columns, bool backwards) {
  const ValueId along_rows = matrix(call, rows, backwards);
  return applied(call, x, along_rows, matrix(call, columns, backwards));
}

std::int64_t need_size(Emit& emit, ValueId x, std::size_t axis) {
  const std::int64_t size = emit.size(x, axis);
  if (size < 1 || size > kLongestAxis) throw Unsupported("the sizes of the images are not known");
  return size;
}

// (grads, original_image)
void lower_bilinear_grad(TfCall& call) {
  Emit emit(call);
  const Coordinates coordinates(call);
  const ValueId gradient = call.in(0), image = call.in(1);
  const Weights rows = linear_weights(need_size(emit, image, 1), need_size(emit, gradient, 1), coordinates);
  const Weights columns = linear_weights(need_size(emit, image, 2), need_size(emit, gradient, 2), coordinates);
  call.give(emit.cast(applied(call, gradient, rows, columns, true), call.dtype_of(image)));
}

// (grads, size)
void lower_nearest_grad(TfCall& call) {
  Emit emit(call);
  const Coordinates coordinates(call);
  const ValueId gradient = call.in(0);
  const std::vector<std::int64_t> size = emit.need_ints(call.in(1), "the size of the images");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || std::max(size[0], size[1]) > kLongestAxis)
    throw Unsupported("the size of the images is not two numbers");
  const Weights rows = nearest_weights(size[0], need_size(emit, gradient, 1), coordinates);
  const Weights columns = nearest_weights(size[1], need_size(emit, gradient, 2), coordinates);
  const ValueId result = applied(call, emit.cast(gradient, DType::float32), rows, columns, true);
  call.give(emit.cast(result, call.dtype_of(gradient)));
}

// area_weights as a matrix [in, out], where the size of the image is not known: what the area of each result and each
// element have in common, as a share of the area.
ValueId computed_area_weights(Emit& emit, ValueId image, std::int64_t axis, std::int64_t out) {
  const ValueId in = emit.dim(image, axis);
  const ValueId scale =
      emit.quotient(emit.cast(in, DType::float32), emit.number(static_cast<double>(out), DType::float32));
  const ValueId begin = emit.product(emit.cast(emit.positions(emit.whole(out)), DType::float32), scale);
  const ValueId element = emit.unsqueeze(emit.cast(emit.positions(in), DType::float32), {1});
  const ValueId one = emit.number(1, DType::float32), zero = emit.number(0, DType::float32);
  const ValueId to = emit.add("Min", {emit.sum(begin, scale), emit.sum(element, one)});
  const ValueId common = emit.difference(to, emit.add("Max", {begin, element}));
  return emit.quotient(emit.add("Max", {common, zero}), scale);
}

// A mean is as large as the largest element at most; twice that is more than roundings add, and no range follows that
// from a product with a matrix of any size.
ValueId bounded_by(Emit& emit, ValueId mean, ValueId image) {
  const ValueId largest = emit.reduce_all("ReduceMax", emit.add("Abs", {image}));
  const ValueId limit = emit.product(largest, emit.number(2, DType::float32));
  return emit.add("Max", {emit.add("Min", {mean, limit}), emit.add("Neg", {limit})});
}

// (images, size)
void lower_area(TfCall& call) {
  Emit emit(call);
  const bool corners = call.flag("align_corners", false);
  const ValueId image = call.in(0);
  const std::vector<std::int64_t> size = emit.need_ints(call.in(1), "the new size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || std::max(size[0], size[1]) > kLongestAxis)
    throw Unsupported("the new size is not two numbers");
  if (!corners && (emit.size(image, 1) < 0 || emit.size(image, 2) < 0)) {
    const ValueId numbers = emit.cast(image, DType::float32);
    const ValueId rows = computed_area_weights(emit, numbers, 1, size[0]);
    const ValueId columns = computed_area_weights(emit, numbers, 2, size[1]);
    return call.give(bounded_by(emit, applied(call, numbers, rows, columns), numbers));
  }
  const Weights rows = area_weights(need_size(emit, image, 1), size[0], corners);
  const Weights columns = area_weights(need_size(emit, image, 2), size[1], corners);
  call.give(applied(call, emit.cast(image, DType::float32), rows, columns, false));
}

constexpr Lowering kResample[] = {
    {.op = "ResizeArea", .lower = lower_area},
    {.op = "ResizeBilinearGrad", .lower = lower_bilinear_grad},
    {.op = "ResizeNearestNeighborGrad", .lower = lower_nearest_grad},
};

}  // namespace

std::span<const Lowering> resample_lowerings() { return kResample; }

}  // namespace finity::tensorflow
