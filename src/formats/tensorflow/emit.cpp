#include "formats/tensorflow/emit.h"

#include <string>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

std::vector<std::int64_t> counted(std::size_t count) {
  std::vector<std::int64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<std::int64_t>(i);
  return numbers;
}

std::int64_t Emit::size(ValueId id, std::size_t axis) const {
  const Type& own = type(id);
  return own.ranked && axis < own.shape.size() ? own.shape[axis].size : -1;
}

Emit::Ints Emit::need_ints(ValueId id, std::string_view what) const {
  auto numbers = call_.known_ints(id);
  if (!numbers) throw Unsupported(std::string(what) + " is not a constant");
  return *numbers;
}

double Emit::need_number(ValueId id, std::string_view what) const {
  const Tensor* tensor = call_.known(id);
  if (tensor == nullptr || tensor->size() != 1) throw Unsupported(std::string(what) + " is not a constant");
  return elements<double>(*tensor)[0];
}

ValueId Emit::number(double x, DType dtype) {
  if (dtype == DType::undefined) throw Unsupported("the element type of an operand is not known");
  return call_.scalar(x, dtype);
}

namespace {

// Sizes, axes and indices are few, and graphs are full of them.
constexpr std::int64_t kFew = 64;

const Tensor* few_integers(const TfCall& call, ValueId x) {
  const Tensor* known = call.known(x);
  return known != nullptr && is_int(known->dtype()) && known->size() <= kFew ? known : nullptr;
}

}  // namespace

ValueId Emit::int64(ValueId x) {
  if (dtype(x) == DType::int64) return x;
  if (const Tensor* known = few_integers(call_, x))
    return call_.constant(from_elements<std::int64_t>(DType::int64, known->dims(), elements<std::int64_t>(*known)));
  return call_.as_int64(x);
}

ValueId Emit::shape_part(ValueId x, std::int64_t begin, std::int64_t end) {
  return add("Shape", {x}, {{"start", begin}, {"end", end}});
}

ValueId Emit::dim(ValueId x, std::int64_t axis) { return gather(shape(x), whole(axis), 0); }

ValueId Emit::vector(ValueId x) {
  if (ranked(x) && rank(x) == 1) return x;
  if (const Tensor* known = few_integers(call_, x)) return call_.constant(known->reshaped({known->size()}));
  return reshape(x, Ints{-1});
}

ValueId Emit::scalar(ValueId x) {
  if (ranked(x) && rank(x) == 0) return x;
  return reshape(x, Ints{});
}

ValueId Emit::concat(Values parts, std::int64_t axis) {
  if (parts.size() == 1) return parts.front();
  return add("Concat", std::move(parts), {{"axis", axis}});
}

// A size of 0 is one, not "as before".
ValueId Emit::reshape(ValueId x, ValueId to) { return add("Reshape", {x, int64(to)}, {{"allowzero", 1}}); }

ValueId Emit::transpose(ValueId x, Ints order) {
  if (order == counted(order.size())) return x;
  return add("Transpose", {x}, {{"perm", std::move(order)}});
}

ValueId Emit::unsqueeze(ValueId x, Ints axes) {
  return axes.empty() ? x : add("Unsqueeze", {x, ints(std::move(axes))});
}

ValueId Emit::squeeze(ValueId x, Ints axes) { return axes.empty() ? x : add("Squeeze", {x, ints(std::move(axes))}); }

ValueId Emit::slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  return add("Slice", {x, ints({begin}), ints({end}), ints({axis}), ints({step})});
}

ValueId Emit::gather(ValueId x, ValueId indices, std::int64_t axis) {
  return add("Gather", {x, indices}, {{"axis", axis}});
}

ValueId Emit::filled(ValueId shape, double x, DType dtype) {
  if (dtype == DType::undefined) throw Unsupported("the element type of an operand is not known");
  Tensor value = from_elements<double>(dtype, Dims{1}, std::vector<double>{x});
  return add("ConstantOfShape", {int64(shape)}, {{"value", make_constant(std::move(value))}});
}

ValueId Emit::reduce(std::string_view op, ValueId x, Ints axes, bool keep) {
  return add(op, {x, ints(std::move(axes))}, {{"keepdims", std::int64_t{keep}}, {"noop_with_empty_axes", 1}});
}

ValueId Emit::reduce_all(std::string_view op, ValueId x) { return add(op, {x}, {{"keepdims", 0}}); }

}  // namespace finity::tensorflow
