// Ops that tell about shapes, and regular tensors made from a few numbers.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "domain/row_bounds.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/partial_ints.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Shape, Size -----------------------------------------------------------

// From opset 15 on a part of the shape may be asked for; bounds are clamped as in a slice.
template <class S>
S part_of_shape(const Call& call, const S& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::int64_t x) { return std::clamp(x < 0 ? x + rank : x, std::int64_t{0}, rank); };
  const std::int64_t start = bound(call.integer("start"));
  const std::int64_t end = std::max(start, bound(call.integer("end", rank)));
  return S(shape.begin() + start, shape.begin() + end);
}

// What is assumed of a size is the bound of a number.
Dim as_number(Dim dim) {
  if (dim.known()) return dim;
  dim.least = dim.least_size();
  dim.most = dim.most_size();
  return dim;
}

void infer_shape(InferCall& call) {
  if (!call.ranked(0)) {
    call.set_shape(0, unknown_shape(1));
    return;
  }
  Shape part = part_of_shape(call, call.shape(0));
  call.set_shape(0, {Dim::of(static_cast<std::int64_t>(part.size()))});
  for (Dim& dim : part) dim = as_number(dim);
  call.set_shape_value(0, std::move(part));
}

void eval_shape(EvalCall& call) { call.out(0, Tensor::vector_of(part_of_shape(call, call.in(0).dims()))); }

// One cell per axis: known sizes stay exact beside unknown ones.
void range_shape(RangeCall& call) {
  const Type& type = call.in_type(0);
  if (!type.ranked) return call.out(0, whole_numbers(0, kManyElements));
  const Shape part = part_of_shape(call, type.shape);
  AbsTensor result = uniform(DType::int64, {static_cast<std::int64_t>(part.size())}, {});
  if (part.size() > 1) result.cuts.resize(1);
  result.cells.clear();
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (i > 0) result.cuts[0].push_back(static_cast<std::int64_t>(i));
    result.cells.push_back(size_range(part[i]));
  }
  if (part.empty()) result.cells = {Range{}};
  settle(call, 0, std::move(result));
}

void range_size(RangeCall& call) {
  const Type& type = call.in_type(0);
  Range count = point(1);
  for (const Dim& dim : type.shape) count = multiply(DType::int64, count, size_range(dim));
  call.out(0, type.ranked ? count : whole_numbers(0, kManyElements));
}

void infer_size(InferCall& call) {
  call.set_shape(0, {});
  if (call.ranked(0)) call.set_shape_value(0, {as_number(product(call.shape(0)))});
}

void eval_size(EvalCall& call) { call.out(0, Tensor::scalar(call.in(0).size())); }

// ---- Range -----------------------------------------------------------------

std::int64_t float_count(double start, double limit, double delta) {
  const double count = std::ceil((limit - start) / delta);
  if (std::isnan(count) || count > 0x1p40) throw Error("the range has no end");
  return count > 0 ? static_cast<std::int64_t>(count) : 0;
}

std::int64_t int_count(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  if (delta == 0) throw Error("delta is 0");
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  // The distance may need 64 bits and its sign is that of delta.
  const auto distance = delta > 0 ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                                  : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
  const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta) : -static_cast<std::uint64_t>(delta);
  const std::uint64_t count = (distance - 1) / step + 1;
  if (count > std::uint64_t{1} << 40) throw Error("the range is too long");
  return static_cast<std::int64_t>(count);
}

std::int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (is_float(start.dtype())) {
    return float_count(element_as_double(start, 0), element_as_double(limit, 0), element_as_double(delta, 0));
  }
  return int_count(element_as_int(start, 0), element_as_int(limit, 0), element_as_int(delta, 0));
}

// Steps from a start to a limit that are only partly known.
Dim partial_count(const InferCall& call) {
  const auto starts = partial_ints(call, 0), limits = partial_ints(call, 1);
  const auto delta = call.ints(2);
  if (!starts || !limits || !delta || starts->size() != 1 || limits->size() != 1 || delta->size() != 1) return {};
  const PartialInt &start = starts->front(), &limit = limits->front();
  // 0, 1, ... up to a size that may be symbolic.
  if (start.is(0) && delta->front() == 1 && limit.symbol.valid()) return limit.as_dim();
  const bool up = delta->front() > 0;
  const PartialInt distance = up ? difference(limit, start) : difference(start, limit);
  if (delta->front() == 0 || distance.least == Dim::kNoLeast) return {};
  const std::int64_t step = up ? delta->front() : -std::max(delta->front(), -Dim::kNoMost);
  return steps_in(distance.as_dim(), step);
}

void infer_range(InferCall& call) {
  const Tensor *start = call.value(0), *limit = call.value(1), *delta = call.value(2);
  Dim count;
  if (start != nullptr && limit != nullptr && delta != nullptr) {
    count = Dim::of(range_count(*start, *limit, *delta));
  } else {
    count = partial_count(call);
  }
  call.set_shape(0, {count});
}

Tensor float_range(const Call& call, DType dtype, double start, double delta, std::int64_t count) {
  const std::int64_t stash = call.integer("stash_type");
  if (stash != 1 && stash != 11) throw Error("stash_type " + std::to_string(stash));
  const bool through_float = stash == 1 && (dtype == DType::float16 || dtype == DType::bfloat16);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = start + static_cast<double>(i) * delta;
    values[i] = through_float ? static_cast<double>(static_cast<float>(exact)) : exact;
  }
  return from_elements<double>(dtype, {count}, values);
}

void eval_range(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  if (call.in(1).dtype() != dtype || call.in(2).dtype() != dtype) throw Error("the operands have different dtypes");
  const std::int64_t count = range_count(call.in(0), call.in(1), call.in(2));
  require_computable(std::vector{count});
  if (is_float(dtype)) {
    call.out(0, float_range(call, dtype, element_as_double(call.in(0), 0), element_as_double(call.in(2), 0), count));
    return;
  }
  // Unsigned, since i * delta may overflow although the sum does not.
  const auto start = static_cast<std::uint64_t>(element_as_int(call.in(0), 0));
  const auto delta = static_cast<std::uint64_t>(element_as_int(call.in(2), 0));
  std::vector<std::uint64_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + i * delta;
  call.out(0, from_elements<std::uint64_t>(dtype, {count}, values));
}

// How far rounding may carry start + i * delta away when a library adds delta again and again.
double range_slack(DType dtype, const Range& start, const Range& limit, const Range& delta) {
  const double size = std::max(start.magnitude(), limit.magnitude()) + delta.magnitude();
  const bool exact = start.integer && delta.integer && size * unit_roundoff(dtype) < 1;
  if (!is_float(dtype) || exact) return 0;
  const double smallest = delta.lo > 0 ? delta.lo : delta.hi < 0 ? -delta.hi : 0;
  if (smallest <= 0) return kInf;
  return summation_error(dtype, 2 + (start.magnitude() + limit.magnitude()) / smallest) * size;
}

// Between start and limit; the last step of a float may reach or pass the limit by rounding.
void range_range(RangeCall& call) {
  const DType dtype = call.out_dtype(0);
  const Range start = call.hull(0), limit = call.hull(1), delta = call.hull(2);
  if (start.is_empty() || limit.is_empty() || delta.is_empty()) return call.out(0, Range{});
  if (!start.is_finite() || !limit.is_finite() || !delta.is_finite()) return call.top(0);
  const double slack = range_slack(dtype, start, limit, delta);
  const double reach = is_float(dtype) ? slack + (slack > 0 ? delta.magnitude() : 0) : 0;
  const double before = start.integer && delta.integer && limit.integer && slack == 0 ? 1 : 0;
  double lo = start.lo;
  double hi = start.hi;
  if (delta.may_be_positive()) hi = std::max(hi, limit.hi - before);
  if (delta.may_be_negative()) lo = std::min(lo, limit.lo + before);
  Range result = from_bounds(dtype, lo - reach, hi + reach);
  // Between numbers of the format: the slack for rounding is no overflow.
  result.pinf = result.ninf = result.nan = false;
  result.integer = result.has_finite() && start.integer && delta.integer && slack == 0;
  call.out(0, result);
  // Causal masks compare positions: none is before the first one.
  if (call.has_output(0) && call.out_type(0).elements().least_size() >= 1) add_row_element(call.outs()[0], 1, start);
}

// ---- EyeLike ---------------------------------------------------------------

DType eye_dtype(const Call& call, DType of_input) {
  if (!call.has_attr("dtype")) return of_input;
  const auto dtype = dtype_from_code(call.integer("dtype"));
  if (!dtype || *dtype == DType::undefined || *dtype == DType::string) throw Error("dtype is not a number's");
  return *dtype;
}

void infer_eye_like(InferCall& call) {
  require_rank(call, 0, 2);
  call.set_dtype(0, eye_dtype(call, call.in(0).dtype));
  call.set_shape(0, call.ranked(0) ? call.shape(0) : unknown_shape(2));
}

void eval_eye_like(EvalCall& call) {
  require_rank(call.in(0), "input", 2);
  const std::int64_t rows = call.in(0).dim(0), columns = call.in(0).dim(1);
  require_computable(call.in(0).dims());
  const std::int64_t k = call.integer("k");
  std::vector<std::int64_t> values(static_cast<std::size_t>(rows * columns), 0);
  for (std::int64_t row = 0; row < rows && k < columns && k > -rows; ++row) {
    const std::int64_t column = row + k;
    if (column >= 0 && column < columns) values[static_cast<std::size_t>(row * columns + column)] = 1;
  }
  call.out(0, from_elements<std::int64_t>(eye_dtype(call, call.in(0).dtype()), {rows, columns}, values));
}

void range_eye_like(RangeCall& call) { call.out(0, whole_numbers(0, 1)); }

// ---- gradients -------------------------------------------------------------

// Element i is start + i * delta; how many there are changes in steps.
void range_gradient(BuildCall& call) {
  call.give(0, call.wanted(0) ? sum_all(call, call.grad(0), call.in(0)) : ValueId{});
  if (!call.wanted(2)) return;
  const ValueId zero = call.scalar(0, DType::int64), one = call.scalar(1, DType::int64);
  const ValueId steps = call.add("Range", {zero, call.add("Size", {call.out(0)}), one});
  call.give(2, sum_all(call, call.product(call.cast(steps, call.out_type(0).dtype), call.grad(0)), call.in(2)));
}

const OpDef kOps[] = {
    {.identity = {.name = "Shape",
                  .summary = "the shape as a vector",
                  .signature = "(data: any) -> (shape: int64)",
                  .attrs = "start: int = 0 since 15; end: int since 15",
                  .tf = "Shape"},
     .meaning = {.infer = infer_shape, .eval = eval_shape},
     .analysis = {.range = range_shape, .vjp = flat},
     .traits = {.exact = true, .shape_only = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "Size",
                  .summary = "the number of elements",
                  .signature = "(data: any) -> (size: int64)",
                  .tf = "Size"},
     .meaning = {.infer = infer_size, .eval = eval_size},
     .analysis = {.range = range_size, .vjp = flat},
     .traits = {.exact = true, .shape_only = true}},
    {.identity = {.name = "Range",
                  .since = 11,
                  .summary = "start, start + delta, ... up to but not including limit",
                  .signature = "(start: T, limit: T, delta: T) -> (output: T) where T: number",
                  .attrs = "stash_type: int = 1 since 27",
                  .tf = "Range"},
     .meaning =
         {.infer = infer_range,
          .eval = eval_range,
          .freedom =
              "start + i * delta in double, rounded once (float16 and bfloat16 through float32 with stash_type 1)"},
     .analysis = {.range = range_range, .vjp = range_gradient},
     // Vectors of one element are taken for scalars.
     .drawing = {.never = true}},
    {.identity = {.name = "EyeLike",
                  .since = 9,
                  .summary = "ones on a diagonal of a matrix, zeros elsewhere",
                  .signature = "(input: number | bool) -> (output: number | bool)",
                  .attrs = "dtype: int; k: int = 0"},
     .meaning = {.infer = infer_eye_like, .eval = eval_eye_like},
     .analysis = {.range = range_eye_like, .vjp = flat},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> shape_ops() { return kOps; }

}  // namespace finity
