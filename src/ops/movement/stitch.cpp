// Two ops that TensorFlow's own gradients are full of, in finity's domain: rows put together by their indices, and the
// axes along which two shapes are repeated when they are broadcast against each other.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";
constexpr std::int64_t kMostRows = std::int64_t{1} << 31;

// ---- Stitch ----------------------------------------------------------------

// For each row of the result the last row of the data that goes there, or -1.
std::vector<std::int64_t> row_sources(std::span<const std::int64_t> indices) {
  std::int64_t last = -1;
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= kMostRows) throw Error("index " + std::to_string(index) + " is out of range");
    last = std::max(last, index);
  }
  require_computable(Dims{last + 1});
  std::vector<std::int64_t> sources(static_cast<std::size_t>(last + 1), -1);
  for (std::size_t i = 0; i < indices.size(); ++i)
    sources[static_cast<std::size_t>(indices[i])] = static_cast<std::int64_t>(i);
  return sources;
}

void infer_stitch(InferCall& call) {
  require_rank(call, 0, 1);
  require_min_rank(call, 1, 1);
  const auto indices = call.ints(0);
  if (call.ranked(1)) {
    Shape shape = call.shape(1);
    shape[0] = indices ? Dim::of(static_cast<std::int64_t>(row_sources(*indices).size())) : Dim{};
    call.set_shape(0, std::move(shape));
  }
  const std::optional<Shape> data = shape_elements(call, 1);
  if (!indices || !data || call.rank(1) != 1 || data->size() != indices->size()) return;
  Shape merged;
  for (const std::int64_t source : row_sources(*indices))
    merged.push_back(source < 0 ? Dim{} : (*data)[static_cast<std::size_t>(source)]);
  call.set_shape_value(0, std::move(merged));
}

void eval_stitch(EvalCall& call) {
  const Tensor& data = call.in(1);
  const std::vector<std::int64_t> indices = elements<std::int64_t>(call.in(0));
  if (data.rank() == 0 || static_cast<std::int64_t>(indices.size()) != data.dim(0))
    throw Error("there must be one index per row of data");
  const std::vector<std::int64_t> sources = row_sources(indices);
  AxisOffsets offsets = plain_offsets(data.dims());
  const std::int64_t row = strides_of(data.dims())[0];
  offsets[0].clear();
  for (const std::int64_t source : sources) offsets[0].push_back(source < 0 ? -1 : source * row);
  call.out(0, pick(data, offsets));
}

// Rows that no index names are left as they are found in memory.
void range_stitch(RangeCall& call) {
  Range rows = call.hull(1);
  const auto indices = call.ints(0);
  const bool complete = indices && std::ranges::count(row_sources(*indices), -1) == 0;
  call.out(0, complete ? rows : top(call.out_dtype(0)));
}

// ---- BroadcastGradientArgs ----------------------------------------------------

struct RepeatedAxes {
  std::vector<std::int64_t> of_first = {}, of_second = {};
};

// Sizes of axis i of a result of this rank, missing ones in front are 1.
std::int64_t size_at(const std::vector<std::int64_t>& sizes, std::size_t rank, std::size_t i) {
  const std::size_t missing = rank - sizes.size();
  return i < missing ? 1 : sizes[i - missing];
}

RepeatedAxes repeated_axes(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  RepeatedAxes axes;
  if (a == b) return axes;
  const std::size_t rank = std::max(a.size(), b.size());
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = size_at(a, rank, i), y = size_at(b, rank, i);
    if (x != y && x != 1 && y != 1)
      throw Error("sizes " + std::to_string(x) + " and " + std::to_string(y) + " do not broadcast");
    if (x == 1) axes.of_first.push_back(static_cast<std::int64_t>(i));
    if (y == 1) axes.of_second.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

bool surely_same(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](const Dim& x, const Dim& y) {
    return x.known() ? y.known() && x.size == y.size : x.symbol.valid() && x.symbol == y.symbol;
  });
}

void infer_repeated_axes(InferCall& call) {
  require_rank(call, 0, 1);
  require_rank(call, 1, 1);
  const std::optional<Shape> a = shape_elements(call, 0), b = shape_elements(call, 1);
  for (std::size_t i = 0; i < 2; ++i) call.set_shape(i, {Dim{}});
  if (!a || !b || !surely_same(*a, *b)) return;
  for (std::size_t i = 0; i < 2; ++i) {
    call.set_shape(i, {Dim::of(0)});
    call.set_shape_value(i, {});
  }
}

void eval_repeated_axes(EvalCall& call) {
  const RepeatedAxes axes = repeated_axes(elements<std::int64_t>(call.in(0)), elements<std::int64_t>(call.in(1)));
  const DType dtype = call.in(0).dtype();
  const auto vector = [dtype](const std::vector<std::int64_t>& list) {
    return from_elements<std::int64_t>(dtype, {static_cast<std::int64_t>(list.size())}, list);
  };
  call.out(0, vector(axes.of_first));
  call.out(1, vector(axes.of_second));
}

// No more axes than either shape has sizes.
void range_repeated_axes(RangeCall& call) {
  double most = 0;
  for (std::size_t i = 0; i < 2; ++i) most = std::max(most, call.in(i).most_count(~std::uint32_t{0}));
  for (std::size_t i = 0; i < 2; ++i) call.out(i, from_bounds(call.in_dtype(0), 0, std::max(most - 1, 0.0)));
}

void stitch_gradient(BuildCall& call) { scatter_back(call, 1); }

const OpDef kOps[] = {
    {.identity = {.name = "Stitch",
                  .domain = kDomain,
                  .summary = "row i of the result is the last row of data whose index is i",
                  .signature = "(indices: int32 | int64, data: T) -> (merged: T) where T: any",
                  .tf = "DynamicStitch"},
     .meaning = {.infer = infer_stitch,
                 .eval = eval_stitch,
                 .freedom = "rows that no index names are 0; TensorFlow leaves them as found in memory"},
     .analysis = {.range = range_stitch, .vjp = stitch_gradient},
     .traits = {.exact = true}},
    {.identity = {.name = "BroadcastGradientArgs",
                  .domain = kDomain,
                  .summary = "the axes along which each of two shapes is repeated when both are broadcast",
                  .signature = "(a: S, b: S) -> (a_axes: S, b_axes?: S) where S: int32 | int64",
                  .tf = "BroadcastGradientArgs"},
     .meaning = {.infer = infer_repeated_axes, .eval = eval_repeated_axes},
     .analysis = {.range = range_repeated_axes, .vjp = flat},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> stitch_ops() { return kOps; }

}  // namespace finity
