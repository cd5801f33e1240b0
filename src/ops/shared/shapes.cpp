#include "ops/shared/shapes.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

void infer_same_shape(InferCall& call) {
  if (call.ranked(0)) call.set_shape(0, call.shape(0));
  else call.out(0).count = call.in(0).count;
}

void infer_broadcast(InferCall& call) {
  Shape result;
  bool empty = false, ranked = true;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    empty |= call.in(i).elements().least_size() < 1;
    ranked &= call.ranked(i);
    if (ranked) result = broadcast(result, call.shape(i));
  }
  if (ranked) call.set_shape(0, std::move(result));
  else if (!empty) call.out(0).count.least = 1;
}

void infer_dtype_only(InferCall& /*call*/) {}

namespace {

Dim broadcast(const Dim& a, const Dim& b) {
  if (surely_equal(a, b)) return either(a, b);
  if (a.size == 1) return b;
  if (b.size == 1) return a;
  if (a.known() && b.known()) {
    throw Error("sizes " + std::to_string(a.size) + " and " + std::to_string(b.size) + " do not broadcast");
  }
  if (a.known()) return a;
  if (b.known()) return b;
  // Where one of them is 1 it is the other.
  Dim result = either(a, b);
  result.symbol = {};
  if (result.least >= 1) result.least = std::max(a.least, b.least);
  return result;
}

}  // namespace

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) result[offset + i] = broadcast(longer[offset + i], shorter[i]);
  return result;
}

Dims broadcast(const Dims& a, const Dims& b) {
  const Shape both = broadcast(Type::tensor_of(DType::undefined, a).shape, Type::tensor_of(DType::undefined, b).shape);
  return Type::tensor(DType::undefined, both).dims().value();
}

std::size_t normalize_axis(std::int64_t axis, std::size_t rank, bool inclusive) {
  const auto limit = static_cast<std::int64_t>(rank) + (inclusive ? 1 : 0);
  if (axis < -limit || axis >= limit) {
    throw Error("axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + limit : axis);
}

std::vector<std::size_t> normalize_axes(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<std::size_t> result;
  result.reserve(axes.size());
  for (const std::int64_t axis : axes) result.push_back(normalize_axis(axis, rank));
  return result;
}

std::vector<std::size_t> axes_or_first(std::span<const std::int64_t> axes, bool given, std::size_t count,
                                       std::size_t rank) {
  std::vector<std::size_t> result;
  if (given) {
    result = normalize_axes(axes, rank);
  } else {
    result.resize(count);
    std::iota(result.begin(), result.end(), std::size_t{0});
  }
  if (result.size() != count) {
    throw Error(std::to_string(result.size()) + " axes for " + std::to_string(count) + " entries");
  }
  if (count > rank) throw Error("more entries than the tensor's " + std::to_string(rank) + " axes");
  std::vector<std::size_t> sorted = result;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) throw Error("an axis is given twice");
  return result;
}

void require_all_axes(bool axes_given, std::size_t count, std::size_t rank) {
  if (axes_given || count == rank) return;
  throw Error("entries for " + std::to_string(count) + " axes of a tensor of rank " + std::to_string(rank));
}

Dim product(std::span<const Dim> dims) {
  std::int64_t total = 1;
  const Dim* unknown = nullptr;
  std::size_t unknowns = 0;
  for (const Dim& dim : dims) {
    if (dim.size == 0) return Dim::of(0);
    if (!dim.known()) {
      unknown = &dim;
      ++unknowns;
    } else if (__builtin_mul_overflow(total, dim.size, &total)) {
      throw Error("too many elements");
    }
  }
  if (unknowns == 0) return Dim::of(total);
  if (unknowns == 1 && total == 1) return *unknown;
  return Type::tensor(DType::undefined, Shape(dims.begin(), dims.end())).elements();
}

namespace {

std::string operand(const InferCall& call, std::size_t input) {
  return "input " + Signature::param(signature_of(call.op()).inputs, input)->name;
}

}  // namespace

void require_rank(const InferCall& call, std::size_t input, std::size_t wanted) {
  if (!call.ranked(input) || call.rank(input) == wanted) return;
  throw Error(operand(call, input) + " has rank " + std::to_string(call.rank(input)) + ", expected " +
              std::to_string(wanted));
}

void require_min_rank(const InferCall& call, std::size_t input, std::size_t wanted) {
  if (!call.ranked(input) || call.rank(input) >= wanted) return;
  throw Error(operand(call, input) + " has rank " + std::to_string(call.rank(input)) + ", expected at least " +
              std::to_string(wanted));
}

void require_rank(const Tensor& tensor, std::string_view name, std::size_t wanted) {
  if (tensor.rank() == wanted) return;
  throw Error(std::string(name) + " has shape " + to_string(tensor.dims()) + ", expected rank " +
              std::to_string(wanted));
}

AxisView::AxisView(std::span<const std::int64_t> dims, std::size_t axis) {
  if (axis >= dims.size()) throw Error("axis " + std::to_string(axis) + " is outside " + to_string(dims));
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  length = dims[axis];
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
}

Tensor gather_elements(const Tensor& source, Dims dims, std::span<const std::int64_t> positions) {
  Tensor result(source.dtype(), std::move(dims));
  const auto copy = [&](auto from, auto to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (positions[i] >= 0) to[i] = from[static_cast<std::size_t>(positions[i])];
    }
  };
  with_storage(source.dtype(), [&]<class S>() {
    if constexpr (std::is_same_v<S, std::string>) copy(source.strings(), result.mutable_strings());
    else copy(source.data<S>(), result.mutable_data<S>());
  });
  return result;
}

}  // namespace finity
