#include "formats/tensorflow/emit.h"

#include <string>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {

Attrs attrs(std::initializer_list<NamedAttr> list) {
  Attrs result;
  for (const NamedAttr& attr : list) result.set(attr.name, attr.value);
  return result;
}

std::size_t Emit::rank(ValueId id) const {
  if (!type(id).ranked) throw Unsupported("the number of axes of an operand is not known");
  return type(id).shape.size();
}

std::optional<std::size_t> Emit::rank_if_known(ValueId id) const {
  return type(id).ranked ? std::optional(type(id).shape.size()) : std::nullopt;
}

std::optional<Emit::Ints> Emit::known_ints(ValueId id) const {
  const Tensor* tensor = id.valid() ? writer_.known(id) : nullptr;
  if (tensor == nullptr || !is_int(tensor->dtype())) return std::nullopt;
  return elements<std::int64_t>(*tensor);
}

Emit::Ints Emit::ints_of(ValueId id, std::string_view what) const {
  auto numbers = known_ints(id);
  if (!numbers) throw Unsupported(std::string(what) + " is not a constant");
  return *numbers;
}

std::int64_t Emit::size(ValueId id, std::size_t axis) const {
  const Type& own = type(id);
  return own.ranked && axis < own.shape.size() ? own.shape[axis].size : -1;
}

ValueId Emit::ints(Ints numbers) {
  const Dims dims = {static_cast<std::int64_t>(numbers.size())};
  return writer_.constant(from_elements<std::int64_t>(DType::int64, dims, numbers));
}

ValueId Emit::whole(std::int64_t number) { return writer_.constant(Tensor::scalar(number)); }

ValueId Emit::number(double x, DType dtype) {
  if (dtype == DType::undefined) throw Unsupported("the element type of an operand is not known");
  return writer_.constant(from_elements<double>(dtype, Dims{}, std::vector<double>{x}));
}

ValueId Emit::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return add("Cast", {x}, attrs({{"to", static_cast<std::int64_t>(to)}}));
}

ValueId Emit::shape_part(ValueId x, std::int64_t begin, std::int64_t end) {
  return add("Shape", {x}, attrs({{"start", begin}, {"end", end}}));
}

ValueId Emit::dim(ValueId x, std::int64_t axis) { return gather(shape(x), whole(axis), 0); }

ValueId Emit::vector(ValueId x) {
  if (type(x).ranked && type(x).shape.size() == 1) return x;
  return reshape(x, Ints{-1});
}

ValueId Emit::concat(Values parts, std::int64_t axis) {
  if (parts.size() == 1) return parts.front();
  return add("Concat", std::move(parts), attrs({{"axis", axis}}));
}

// A size of 0 is one, not "as before".
ValueId Emit::reshape(ValueId x, ValueId to) {
  return add("Reshape", {x, int64(to)}, attrs({{"allowzero", std::int64_t{1}}}));
}

ValueId Emit::transpose(ValueId x, Ints order) {
  bool moves = false;
  for (std::size_t i = 0; i < order.size(); ++i) moves |= order[i] != static_cast<std::int64_t>(i);
  return moves ? add("Transpose", {x}, attrs({{"perm", std::move(order)}})) : x;
}

ValueId Emit::unsqueeze(ValueId x, Ints axes) { return axes.empty() ? x : add("Unsqueeze", {x, ints(std::move(axes))}); }

ValueId Emit::squeeze(ValueId x, Ints axes) { return axes.empty() ? x : add("Squeeze", {x, ints(std::move(axes))}); }

ValueId Emit::slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  return add("Slice", {x, ints({begin}), ints({end}), ints({axis}), ints({step})});
}

ValueId Emit::gather(ValueId x, ValueId indices, std::int64_t axis) {
  return add("Gather", {x, indices}, attrs({{"axis", axis}}));
}

ValueId Emit::filled(ValueId shape, double x, DType dtype) {
  if (dtype == DType::undefined) throw Unsupported("the element type of an operand is not known");
  Tensor value = from_elements<double>(dtype, Dims{1}, std::vector<double>{x});
  return add("ConstantOfShape", {int64(shape)}, attrs({{"value", make_constant(std::move(value))}}));
}

ValueId Emit::reduce(std::string_view op, ValueId x, Ints axes, bool keep) {
  return add(op, {x, ints(std::move(axes))},
             attrs({{"keepdims", std::int64_t{keep}}, {"noop_with_empty_axes", std::int64_t{1}}}));
}

ValueId Emit::reduce_all(std::string_view op, ValueId x) { return add(op, {x}, attrs({{"keepdims", std::int64_t{0}}})); }

}  // namespace finity
