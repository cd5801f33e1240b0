// An AttributeProto split into its fields, and which of them is its value.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/onnx/wire.h"

namespace finity::onnx {

// AttributeProto.AttributeType
enum class AttrKind : std::uint8_t {
  none = 0,
  real = 1,
  integer = 2,
  text = 3,
  tensor = 4,
  graph = 5,
  reals = 6,
  integers = 7,
  texts = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type = 13,
  types = 14,
};

struct AttributeFields {
  std::string_view name = {};
  std::string_view reference = {};  // the attribute of the enclosing function this one stands for
  std::int64_t declared = 0;        // AttrKind as the file says it
  std::uint32_t present = 0;        // one bit per AttrKind whose field occurs
  std::size_t own_bytes = 0;        // without the parts
  bool described = false;
  bool unknown = false;  // has fields we do not know
  float real = 0;
  std::int64_t integer = 0;
  Bytes part = {};                // the text, tensor, graph, sparse tensor or type
  std::vector<Bytes> parts = {};  // of a list of those
  std::vector<float> reals = {};
  std::vector<std::int64_t> integers = {};
};

AttributeFields scan_attribute(Bytes message, const std::byte* file);

// The kind of the value. A file of IR 1 does not declare it: then the field that occurs decides, and none means
// that nothing occurs. Throws Error when the declared kind and the fields contradict.
AttrKind kind_of(const AttributeFields& attribute);

// The number of the field that holds a value of the kind.
int value_field(AttrKind kind);

}  // namespace finity::onnx
