// Arrays of tensors as TensorFlow's loops keep them: a tensor whose first axis counts the elements. The shape of the
// elements may be left open until the first one is written; what was not written is zero.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/control/sequence_gradient.h"
#include "ops/shared/range_rules.h"
#include "ops/table/families.h"
#include "ops/table/range_call.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";

// ---- ArrayNew ----------------------------------------------------------------

DType element_dtype(const Call& call) {
  const std::optional<DType> dtype = dtype_from_code(call.integer("dtype"));
  if (!dtype || *dtype == DType::undefined) throw Error("attribute 'dtype' is no element type");
  return *dtype;
}

void infer_new(InferCall& call) {
  const DType dtype = element_dtype(call);
  call.set_dtype(0, dtype);
  if (call.integer("ranked") == 0) return;
  Shape shape(1);
  if (const auto size = call.shape_value(0); size && size->size() == 1) shape[0] = size->front();
  for (const std::int64_t size : call.integers("shape")) shape.push_back(size < 0 ? Dim{} : Dim::of(size));
  call.set_shape(0, std::move(shape));
}

void eval_new(EvalCall& call) {
  const std::int64_t size = element_as_int(call.in(0), 0);
  if (size < 0) throw Error("size is " + std::to_string(size));
  Dims dims = {size};
  // Sizes that are open become those of the first element that is written.
  for (const std::int64_t each : call.integers("shape")) dims.push_back(std::max<std::int64_t>(each, 0));
  call.out(0, Tensor(element_dtype(call), std::move(dims)));
}

void range_new(RangeCall& call) {
  const Range size = call.hull(0);
  call.out(0, size.is_point() && size.hi == 0 ? empty_range() : point(0));
}

// ---- ArrayWrite --------------------------------------------------------------

// As many elements as `array`, each of the shape of one element of `values`.
void infer_write(InferCall& call, std::size_t first_axis) {
  Shape shape(1);
  if (call.ranked(0) && call.rank(0) > 0) shape[0] = call.shape(0)[0];
  if (!call.ranked(2)) return;
  const Shape& values = call.shape(2);
  for (std::size_t i = first_axis; i < values.size(); ++i) shape.push_back(values[i]);
  call.set_shape(0, std::move(shape));
}
void infer_write_one(InferCall& call) { infer_write(call, 0); }
void infer_write_some(InferCall& call) { infer_write(call, 1); }

// The array, with elements of another shape if none was written yet.
Tensor fitting(const Tensor& array, std::span<const std::int64_t> element) {
  if (array.rank() == 0) throw Error("the array has no elements");
  Dims dims = {array.dim(0)};
  dims.insert(dims.end(), element.begin(), element.end());
  if (array.dims() == dims) return array;
  const auto unwritten = [&] {
    return std::ranges::all_of(array.bytes(), [](std::byte byte) { return byte == std::byte{0}; });
  };
  const bool open = array.empty() || (array.rank() == 1 && unwritten());
  if (!open && array.dim(0) > 0) {
    throw Error("an element of shape " + to_string(element) + " does not fit into the array " +
                to_string(array.dims()));
  }
  return Tensor(array.dtype(), std::move(dims));
}

Tensor sum_of_parts(const Tensor& a, const Tensor& b) {
  std::vector<double> x = elements<double>(a);
  const std::vector<double> y = elements<double>(b);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return from_elements<double>(a.dtype(), a.dims(), x);
}

// One row of `values` per index.
void write_rows(EvalCall& call, std::span<const std::int64_t> indices, const Tensor& values) {
  const Dims element(values.dims().begin() + 1, values.dims().end());
  Tensor array = fitting(call.in(0), element);
  const std::int64_t count = array.dim(0);
  const auto row = static_cast<std::size_t>(element_count(element) * info(array.dtype()).memory_bytes);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= count) {
      throw Error("index " + std::to_string(indices[i]) + " is outside of an array of " + std::to_string(count));
    }
    if (row == 0) continue;
    const std::size_t to = static_cast<std::size_t>(indices[i]) * row;
    Tensor part(array.dtype(), element);
    std::memcpy(part.mutable_bytes().data(), values.bytes().data() + i * row, row);
    if (call.integer("accumulate") != 0) {
      Tensor before(array.dtype(), element);
      std::memcpy(before.mutable_bytes().data(), array.bytes().data() + to, row);
      part = sum_of_parts(before, part);
    }
    std::memcpy(array.mutable_bytes().data() + to, part.bytes().data(), row);
  }
  call.out(0, std::move(array));
}

void eval_write(EvalCall& call) {
  const Tensor& value = call.in(2);
  Dims dims = {1};
  dims.insert(dims.end(), value.dims().begin(), value.dims().end());
  const std::int64_t index[] = {element_as_int(call.in(1), 0)};
  write_rows(call, index, value.reshaped(std::move(dims)));
}

void eval_scatter(EvalCall& call) {
  const std::vector<std::int64_t> indices = elements<std::int64_t>(call.in(1));
  const Tensor& values = call.in(2);
  if (values.rank() == 0 || values.dim(0) != static_cast<std::int64_t>(indices.size())) {
    throw Error(std::to_string(indices.size()) + " indices for values of shape " + to_string(values.dims()));
  }
  write_rows(call, indices, values);
}

// Elements of the array that stay. Where their shape may be open still, those that were not written become zeros.
Range staying(const RangeCall& call) {
  const Type& type = call.in_type(0);
  bool fixed = type.ranked && !type.shape.empty();
  for (std::size_t i = 1; fixed && i < type.shape.size(); ++i) fixed = type.shape[i].least_size() >= 1;
  return fixed ? call.hull(0) : join(call.hull(0), point(0));
}

// Any element may be the one that is written, or none.
void range_write(RangeCall& call) {
  const Range array = staying(call);
  const Range value = call.hull(2);
  if (call.integer("accumulate") == 0) return call.out(0, join(array, value));
  // The same element may be written several times at once.
  const AbsTensor& indices = call.in(1);
  const double most = indices.ranked && indices.rank() == 0 ? 1 : indices.most_count(~std::uint32_t{0});
  const DType dtype = call.out_dtype(0);
  call.out(0, join(array, add(dtype, array, sum_of(dtype, dtype, value, 0, most))));
}

// ---- ArrayPush ---------------------------------------------------------------

void infer_push(InferCall& call) {
  Shape shape(1);
  if (call.ranked(0) && call.rank(0) > 0 && call.shape(0)[0].known()) shape[0] = Dim::of(call.shape(0)[0].size + 1);
  else shape[0] = Dim::between(1, Dim::kNoMost);
  if (!call.ranked(1)) return;
  for (const Dim& dim : call.shape(1)) shape.push_back(dim);
  call.set_shape(0, std::move(shape));
}

void eval_push(EvalCall& call) {
  const Tensor& value = call.in(1);
  const Tensor array = fitting(call.in(0), value.dims());
  Dims dims = array.dims();
  ++dims[0];
  Tensor result(array.dtype(), std::move(dims));
  const std::span<const std::byte> old = array.bytes(), added = value.bytes();
  if (!old.empty()) std::memcpy(result.mutable_bytes().data(), old.data(), old.size());
  if (!added.empty()) std::memcpy(result.mutable_bytes().data() + old.size(), added.data(), added.size());
  call.out(0, std::move(result));
}

void range_push(RangeCall& call) {
  const Type& before = call.in_type(0);
  const bool empty = before.ranked && !before.shape.empty() && before.shape[0].size == 0;
  call.out(0, empty ? call.hull(1) : join(staying(call), call.hull(1)));
}

const OpDef kOps[] = {
    {.identity = {.name = "ArrayNew",
                  .domain = kDomain,
                  .summary =
                      "an array of `size` tensors that are zero until they are written; sizes of -1 are left open",
                  .signature = "(size: int64) -> (array: any)",
                  .attrs = "dtype: int; shape: ints; ranked: int = 1"},
     .meaning = {.infer = infer_new, .eval = eval_new},
     .analysis = {.range = range_new, .vjp = flat}},
    {.identity = {.name = "ArrayWrite",
                  .domain = kDomain,
                  .summary = "the array with one element replaced, or added to",
                  .signature = "(array: T, index: int32|int64, value: T) -> (result: T) where T: any",
                  .attrs = "accumulate: int = 0"},
     .meaning = {.infer = infer_write_one, .eval = eval_write},
     .analysis = {.range = range_write, .vjp = array_write_gradient}},
    {.identity = {.name = "ArrayScatter",
                  .domain = kDomain,
                  .summary = "the array with some elements replaced, or added to",
                  .signature = "(array: T, indices: int32|int64, values: T) -> (result: T) where T: any",
                  .attrs = "accumulate: int = 0"},
     .meaning = {.infer = infer_write_some, .eval = eval_scatter},
     .analysis = {.range = range_write, .vjp = array_scatter_gradient}},
    {.identity = {.name = "ArrayPush",
                  .domain = kDomain,
                  .summary = "the array with one element more at its end",
                  .signature = "(array: T, value: T) -> (result: T) where T: any"},
     .meaning = {.infer = infer_push, .eval = eval_push},
     .analysis = {.range = range_push, .vjp = array_push_gradient}},
};

}  // namespace

std::span<const OpDef> array_ops() { return kOps; }

}  // namespace finity
