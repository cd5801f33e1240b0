#include "formats/tensorflow/attr_value.h"

#include "base/error.h"
#include "formats/tensorflow/tensor_proto.h"

namespace finity::tensorflow {

using wire::Cursor;
using wire::Wire;

namespace {

void read_function(Bytes message, AttrValue& value) {
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == 1) value.function = cursor.text();
    if (cursor.field() != 2) continue;
    NamedBytes entry;
    for (Cursor pair = cursor.message(); pair.next();) {
      if (pair.field() == 1) entry.first = pair.text();
      if (pair.field() == 2) entry.second = pair.bytes();
    }
    value.function_attrs.push_back(entry);
  }
}

void read_list(Bytes message, AttrValue& value) {
  value.kind = AttrValue::Kind::list;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    switch (cursor.field()) {
      case 2: value.texts.push_back(cursor.text()); break;
      case 3:
      case 5:
      case 6: cursor.append(value.integers); break;
      case 4: cursor.append(value.reals); break;
      case 7:
      case 8: value.messages.push_back(cursor.bytes()); break;
      case 9: {
        AttrValue function;
        read_function(cursor.bytes(), function);
        value.functions.push_back(function.function);
        break;
      }
      default: break;
    }
  }
}

}  // namespace

AttrValue read_attr_value(Bytes message) {
  AttrValue value;
  using Kind = AttrValue::Kind;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    switch (cursor.field()) {
      case 1: read_list(cursor.bytes(), value); break;
      case 2: value.kind = Kind::text, value.texts = {cursor.text()}; break;
      case 3: value.kind = Kind::integer, value.integers = {cursor.integer()}; break;
      case 4: value.kind = Kind::real, value.reals = {cursor.real()}; break;
      case 5: value.kind = Kind::flag, value.integers = {cursor.integer()}; break;
      case 6: value.kind = Kind::type, value.integers = {cursor.integer()}; break;
      case 7: value.kind = Kind::shape, value.messages = {cursor.bytes()}; break;
      case 8: value.kind = Kind::tensor, value.messages = {cursor.bytes()}; break;
      case 9: value.kind = Kind::placeholder, value.placeholder = cursor.text(); break;
      case 10: value.kind = Kind::function, read_function(cursor.bytes(), value); break;
      default: break;
    }
  }
  return value;
}

Type read_shape(Bytes message, DType dtype) {
  Shape shape;
  bool ranked = true;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == 3) ranked = ranked && cursor.unsigned_integer() == 0;
    if (cursor.field() != 2) continue;
    std::int64_t size = 0;
    for (Cursor dim = cursor.message(); dim.next();) {
      if (dim.field() == 1) size = dim.integer();
    }
    if (size < -1) throw Error("a dimension of size " + std::to_string(size));
    shape.push_back(size < 0 ? Dim{} : Dim::of(size));
    if (shape.size() > 254) throw Error("a shape with more than 254 dimensions");
  }
  if (dtype == DType::undefined && !ranked) return {};
  return ranked ? Type::tensor(dtype, std::move(shape)) : Type::tensor(dtype);
}

ConstantPtr read_tensor(Bytes message, const std::shared_ptr<const void>& owner) {
  return std::make_shared<const TensorProtoConstant>(read_tensor_fields(message), owner);
}

}  // namespace finity::tensorflow
