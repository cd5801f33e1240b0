#include "formats/onnx/type_proto.h"

#include <utility>

#include "base/error.h"

namespace finity::onnx {

namespace {

constexpr int kMaxDepth = 64;
// No real axis is this long; exporters that mean "unknown" write such numbers.
constexpr std::int64_t kMaxDim = std::int64_t{1} << 48;

enum TypeField : int { tensor = 1, sequence = 4, map = 5, denotation = 6, opaque = 7, sparse = 8, optional = 9 };

DType read_dtype(std::int64_t code) {
  if (code == 0) return DType::undefined;
  const auto dtype = dtype_from_code(code);
  if (!dtype) throw Unsupported("has the unknown element type " + std::to_string(code));
  return *dtype;
}

Type::Kind kind_of(int field) {
  switch (field) {
    case TypeField::tensor: return Type::Kind::tensor;
    case TypeField::sparse: return Type::Kind::sparse_tensor;
    case TypeField::sequence: return Type::Kind::sequence;
    case TypeField::optional: return Type::Kind::optional;
    default: return Type::Kind::map;
  }
}

int field_of(Type::Kind kind) {
  switch (kind) {
    case Type::Kind::tensor: return TypeField::tensor;
    case Type::Kind::sparse_tensor: return TypeField::sparse;
    case Type::Kind::sequence: return TypeField::sequence;
    case Type::Kind::optional: return TypeField::optional;
    default: return TypeField::map;
  }
}

void write_shape(WireWriter& out, const Graph& graph, const Shape& shape) {
  out.message(2, [&] {
    for (const Dim& dim : shape) {
      out.message(1, [&] {
        if (dim.known()) out.integer(1, dim.size);
        else if (dim.symbol.valid()) out.text(2, graph.symbol(dim.symbol));
      });
    }
  });
}

}  // namespace

Type TypeReader::read(Bytes type_proto, bool symbols, int depth) const {
  if (depth > kMaxDepth) throw Error("has a type nested more than " + std::to_string(kMaxDepth) + " deep");
  Type type;
  for (Cursor cursor(type_proto, file_); cursor.next();) {
    switch (cursor.field()) {
      case TypeField::tensor:
      case TypeField::sequence:
      case TypeField::map:
      case TypeField::sparse:
      case TypeField::optional: type = read_content(cursor.field(), cursor.message(), symbols, depth); break;
      case TypeField::opaque: losses_.add(Loss::opaque_types); break;
      default: losses_.add(cursor.field() == TypeField::denotation ? Loss::denotations : Loss::unknown_fields);
    }
  }
  return type;
}

// The messages for the kinds agree so far: a tensor has dtype = 1 and shape = 2, a map key dtype = 1 and
// value type = 2, sequence and optional an element type = 1.
Type TypeReader::read_content(int field, Cursor content, bool symbols, int depth) const {
  Type type;
  type.kind = kind_of(field);
  const bool tensor = type.kind == Type::Kind::tensor || type.kind == Type::Kind::sparse_tensor;
  const int element_field = type.kind == Type::Kind::map ? 2 : 1;
  while (content.next()) {
    if (content.field() > 2) {
      losses_.add(Loss::unknown_fields);
    } else if (!tensor && content.field() == element_field) {
      type.element = std::make_shared<const Type>(read(content.bytes(), symbols, depth + 1));
    } else if (content.field() == 1) {
      type.dtype = read_dtype(content.integer());
    } else if (tensor) {
      type.ranked = true;
      type.shape = read_shape(content.message(), symbols);
    }
  }
  return type;
}

Shape TypeReader::read_shape(Cursor shape, bool symbols) const {
  std::size_t rank = 0;
  for (Cursor counter = shape; counter.next();) ++rank;
  Shape dims;
  dims.reserve(rank);
  while (shape.next()) {
    if (shape.field() == 1) dims.push_back(read_dim(shape.message(), symbols));
  }
  return dims;
}

Dim TypeReader::read_dim(Cursor dim, bool symbols) const {
  Dim result;
  while (dim.next()) {
    if (dim.field() == 1) {
      const std::int64_t size = dim.integer();
      result = size >= 0 && size <= kMaxDim ? Dim::of(size) : Dim{};
    } else if (dim.field() == 2) {
      result = {};
      if (symbols && !dim.text().empty()) result.symbol = builder_.symbol(dim.text());
    } else {
      losses_.add(Loss::denotations);
    }
  }
  return result;
}

void write_type(WireWriter& out, const Graph& graph, const Type& type) {
  if (type.kind == Type::Kind::unknown) return;
  const bool tensor = type.kind == Type::Kind::tensor || type.kind == Type::Kind::sparse_tensor;
  const int element_field = type.kind == Type::Kind::map ? 2 : 1;
  out.message(field_of(type.kind), [&] {
    if (type.dtype != DType::undefined && (tensor || element_field == 2)) {
      out.integer(1, static_cast<std::int64_t>(type.dtype));
    }
    if (tensor && type.ranked) write_shape(out, graph, type.shape);
    if (type.element) out.message(element_field, [&] { write_type(out, graph, *type.element); });
  });
}

}  // namespace finity::onnx
