#include <utility>

#include "formats/onnx/constants.h"
#include "formats/onnx/onnx.h"

namespace finity {

namespace onnx {

namespace {

constexpr int kMaxDepth = 64;

// TensorProto, SparseTensorProto, SequenceProto, MapProto and OptionalProto have these field
// numbers in a SequenceProto (as lists) and an OptionalProto (as the one value).
enum ValueField : int { tensor_field = 3, sparse_field = 4, sequence_field = 5, map_field = 6, optional_field = 7 };

class DatumReader {
 public:
  explicit DatumReader(Bytes file) : file_(file.data()), constants_(file, nullptr, {}, losses_) {}

  Tensor tensor(Bytes message, std::string_view& name) { return constants_.read(message, name)->load(); }
  Tensor sparse(Bytes message, std::string_view& name) { return constants_.read_sparse(message, name)->load(); }
  Datum sequence(Bytes message, std::string_view& name, int depth) {
    Sequence items;
    for (Cursor cursor(message, file_); cursor.next();) {
      if (cursor.field() == 1) name = cursor.text();
      else if (cursor.field() >= tensor_field) items.push_back(value(cursor, depth));
    }
    return Datum::sequence(std::move(items));
  }
  Datum optional(Bytes message, std::string_view& name, int depth) {
    Datum content;
    for (Cursor cursor(message, file_); cursor.next();) {
      if (cursor.field() == 1) name = cursor.text();
      else if (cursor.field() >= tensor_field) content = value(cursor, depth);
    }
    return content;
  }

 private:
  Datum value(const Cursor& cursor, int depth) {
    if (depth > kMaxDepth) cursor.fail("values are nested more than 64 deep");
    std::string_view ignored;
    switch (cursor.field()) {
      case tensor_field: return tensor(cursor.bytes(), ignored);
      case sparse_field: return sparse(cursor.bytes(), ignored);
      case sequence_field: return sequence(cursor.bytes(), ignored, depth + 1);
      case optional_field: return optional(cursor.bytes(), ignored, depth + 1);
      default: throw Unsupported("a value that holds a map");
    }
  }

  const std::byte* file_;
  Losses losses_;
  ConstantReader constants_;
};

}  // namespace

}  // namespace onnx

Datum read_datum_proto(std::span<const std::byte> bytes, Type::Kind kind, std::string* name) {
  onnx::DatumReader reader(bytes);
  std::string_view own_name;
  Datum datum;
  switch (kind) {
    case Type::Kind::sequence: datum = reader.sequence(bytes, own_name, 0); break;
    case Type::Kind::optional: datum = reader.optional(bytes, own_name, 0); break;
    case Type::Kind::sparse_tensor: datum = reader.sparse(bytes, own_name); break;
    case Type::Kind::map: throw Unsupported("a value that is a map");
    default: datum = reader.tensor(bytes, own_name);
  }
  if (name != nullptr) *name = own_name;
  return datum;
}

Tensor read_tensor_proto(std::span<const std::byte> bytes, std::string* name) {
  return *read_datum_proto(bytes, Type::Kind::tensor, name).tensor();
}

}  // namespace finity
