#include "ops/extra/signal/signal_gradient.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "tensor/convert.h"

namespace finity {

namespace {

std::int64_t known_scalar(const BuildCall& call, std::size_t input, std::string_view what) {
  const Tensor* known = call.known(call.in(input));
  if (known == nullptr || known->size() != 1) throw Unsupported("the gradient needs " + std::string(what));
  return element_as_int(*known, 0);
}

std::int64_t known_size(const BuildCall& call, ValueId value, std::size_t axis) {
  const Type& type = call.type(value);
  if (!type.ranked || axis >= type.shape.size() || !type.shape[axis].known()) {
    throw Unsupported("the gradient needs the number of points, which is not known");
  }
  return type.shape[axis].size;
}

ValueId transformed(BuildCall& call, ValueId x, std::int64_t points, std::size_t axis, bool inverse, bool onesided) {
  Attrs attrs;
  attrs.set("inverse", std::int64_t{inverse});
  attrs.set("onesided", std::int64_t{onesided});
  const ValueId along = call.scalar(static_cast<double>(axis), DType::int64);
  return call.add("DFT", {x, call.scalar(static_cast<double>(points), DType::int64), along}, std::move(attrs));
}

// As many along the axis: the first ones, with zeros behind them where there are not enough.
ValueId sized(BuildCall& call, ValueId x, std::size_t axis, std::int64_t from, std::int64_t to) {
  if (from == to) return x;
  const auto at = static_cast<std::int64_t>(axis);
  if (from > to) return call.add("Slice", {x, call.ints({0}), call.ints({to}), call.ints({at})});
  const std::size_t rank = call.rank(x);
  std::vector<std::int64_t> pads(2 * rank, 0);
  pads[rank + axis] = to - from;
  return call.add("Pad", {x, call.ints(std::move(pads))});
}

// How often each number of half a spectrum stands in the whole one: the first and, of an even number, the last once.
ValueId multiplicities(BuildCall& call, std::int64_t points, std::size_t rank, std::size_t axis) {
  Dims dims(rank, 1);
  dims[axis] = points / 2 + 1;
  std::vector<double> factors(static_cast<std::size_t>(dims[axis]), 2);
  factors.front() = 1;
  if (points % 2 == 0) factors.back() = 1;
  return call.writer().constant(from_elements<double>(call.dtype(), dims, factors));
}

std::size_t axis_of(const BuildCall& call, std::size_t rank) {
  if (call.version() < 20) return normalize_axis(call.integer("axis", 1), rank);
  return normalize_axis(call.has_input(2) ? known_scalar(call, 2, "the axis, which is not known") : -2, rank);
}

}  // namespace

void dft_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const std::size_t rank = call.rank(call.in(0)), axis = axis_of(call, rank);
  const bool inverse = call.integer("inverse") != 0, onesided = call.integer("onesided") != 0;
  const bool to_half = onesided && !inverse, to_real = onesided && inverse;
  const std::int64_t size = known_size(call, call.in(0), axis), parts = known_size(call, call.in(0), rank - 1);
  std::int64_t points = 0;
  if (!to_half) points = known_size(call, call.out(0), axis);
  else points = call.has_input(1) ? known_scalar(call, 1, "the number of points, which is not known") : size;
  const double share = 1.0 / static_cast<double>(points);
  ValueId back;
  if (to_real) {
    back = call.product(transformed(call, call.grad(0), points, axis, false, true),
                        multiplicities(call, points, rank, axis));
  } else {
    back = transformed(call, call.grad(0), points, axis, !inverse, false);
  }
  const double factor = inverse ? share : static_cast<double>(points);
  back = call.product(back, call.scalar(factor));
  back = sized(call, back, axis, to_real ? points / 2 + 1 : points, size);
  call.give(0, sized(call, back, rank - 1, 2, parts));
}

// Through its definition: frames, times the window, transformed.
void stft_gradient(BuildCall& call) {
  const bool real = call.rank(call.in(0)) == 2 || known_size(call, call.in(0), 2) == 1;
  const std::int64_t samples = known_size(call, call.in(0), 1);
  std::int64_t frame = samples;
  if (call.has_input(3)) frame = known_scalar(call, 3, "the length of a frame, which is not known");
  else if (call.has_input(2)) frame = known_size(call, call.in(2), 0);
  const std::int64_t step = known_scalar(call, 1, "the step between frames, which is not known");
  if (step < 1 || frame > samples) throw Unsupported("the gradient of frames that do not fit the signal");
  const std::int64_t count = (samples - frame) / step + 1;
  std::vector<std::int64_t> places;
  for (std::int64_t f = 0; f < count; ++f) {
    for (std::int64_t t = 0; t < frame; ++t) places.push_back(f * step + t);
  }
  const ValueId signal = reshape_to(call, call.in(0), {-1, samples, real ? 1 : 2});
  const ValueId indices = call.writer().constant(from_elements<std::int64_t>(DType::int64, {count, frame}, places));
  ValueId frames = call.add("Gather", {signal, indices}, with_attr("axis", std::int64_t{1}));
  if (call.has_input(2)) frames = call.product(frames, reshape_to(call, call.in(2), {frame, 1}));
  const ValueId spectra = transformed(call, frames, frame, 2, false, call.integer("onesided") != 0);
  const ValueId results[] = {spectra};
  call.give_through(results);
}

}  // namespace finity
