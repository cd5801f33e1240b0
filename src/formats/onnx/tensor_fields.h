// A TensorProto as it lies in the file: where its data are and whether they can be
// what the dimensions ask for, without touching them; and their decoding.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/onnx/wire.h"
#include "tensor/tensor.h"

namespace finity::onnx {

// The numbered fields that hold elements of one C type each.
enum class DataField : std::uint8_t {
  none = 0,
  floats = 4,
  int32s = 5,
  strings = 6,
  int64s = 7,
  doubles = 10,
  uint64s = 11,
};

struct TensorFields {
  Bytes message = {};
  std::string_view name = {};
  DType dtype = DType::undefined;
  Dims dims = {};
  std::int64_t count = 0;  // of elements
  bool external = false;
  bool described = false;  // has a doc_string or metadata_props
  bool has_raw = false;
  Bytes raw = {};
  DataField typed = DataField::none;
  std::size_t typed_pieces = 0;  // fields that hold the typed data; usually one packed field
  std::size_t typed_bytes = 0;   // an unpacked element counts as one
  bool typed_packed = false;     // all pieces are packed
  Bytes last_piece = {};
  std::vector<Bytes> external_data = {};
};

// Throws Error on a malformed message, an unknown element type, and impossible dimensions.
TensorFields scan_tensor(Bytes message, const std::byte* file);

// Throws Error unless the data inside the message can be those of the dimensions. A list of
// varints is only checked to be neither too short nor too long: counting it would touch it.
void check_data_size(const TensorFields& tensor);

// Bytes the elements take when stored plainly; throws Error when that overflows.
std::int64_t plain_size(DType dtype, const Dims& dims);

// The typed data when they are stored exactly as raw_data would be, else empty.
Bytes plain_typed_data(const TensorFields& tensor);

Tensor decode_plain(DType dtype, const Dims& dims, Bytes bytes);
Tensor decode_typed(DType dtype, const Dims& dims, DataField field, Bytes message);

// "float32[10,10]"
std::string describe_tensor(DType dtype, const Dims& dims);

}  // namespace finity::onnx
