#include "formats/onnx/tensor_fields.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace finity::onnx {

namespace {

// The wire type of one element that is not packed.
Wire wire_of(DataField field) {
  switch (field) {
    case DataField::floats: return Wire::fixed32;
    case DataField::doubles: return Wire::fixed64;
    case DataField::strings: return Wire::bytes;
    default: return Wire::varint;
  }
}

void add_typed_piece(TensorFields& tensor, const Cursor& cursor) {
  const auto field = static_cast<DataField>(cursor.field());
  const bool packed = cursor.wire() == Wire::bytes && field != DataField::strings;
  if (packed && cursor.bytes().empty()) return;
  if (!packed && cursor.wire() != wire_of(field)) cursor.fail("the tensor's data have the wrong wire type");
  if (tensor.typed != DataField::none && tensor.typed != field) {
    cursor.fail("tensor '" + std::string(tensor.name) + "' has its data in two fields");
  }
  tensor.typed_packed = packed && (tensor.typed_pieces == 0 || tensor.typed_packed);
  tensor.typed = field;
  ++tensor.typed_pieces;
  tensor.typed_bytes += packed ? cursor.bytes().size() : 1;
  if (packed) tensor.last_piece = cursor.bytes();
}

DType element_type(std::int64_t code) {
  const auto dtype = dtype_from_code(code);
  if (dtype) return *dtype;
  if (code == 0) throw Error("has no element type");
  throw Unsupported("has the unknown element type " + std::to_string(code));
}

DataField field_for(DType dtype) {
  switch (dtype) {
    case DType::float32:
    case DType::complex64: return DataField::floats;
    case DType::float64:
    case DType::complex128: return DataField::doubles;
    case DType::int64: return DataField::int64s;
    case DType::uint32:
    case DType::uint64: return DataField::uint64s;
    case DType::string: return DataField::strings;
    default: return DataField::int32s;
  }
}

int elements_per_byte(DType dtype) { return dtype == DType::string ? 1 : std::max(1, 8 / info(dtype).bits); }

// How many numbers or strings the typed field must hold.
std::int64_t typed_count(DType dtype, std::int64_t count) {
  if (is_complex(dtype)) return 2 * count;
  const int group = elements_per_byte(dtype);
  return count / group + (count % group == 0 ? 0 : 1);
}

[[noreturn]] void fail_count(const TensorFields& tensor, std::int64_t wanted) {
  throw Error("the wrong amount of data, " + std::to_string(wanted) + (wanted == 1 ? " element" : " elements") +
              " expected for " + describe_tensor(tensor.dtype, tensor.dims));
}

void check_typed_size(const TensorFields& tensor) {
  if (tensor.typed != field_for(tensor.dtype)) {
    throw Error("the data are in field " + std::to_string(static_cast<int>(tensor.typed)) +
                ", which is not the one for " + describe_tensor(tensor.dtype, tensor.dims));
  }
  const std::int64_t wanted = typed_count(tensor.dtype, tensor.count);
  const auto bytes = static_cast<std::int64_t>(tensor.typed_bytes);
  const auto limit = [&](std::int64_t width) { return tensor.typed_packed ? bytes / width : bytes; };
  switch (tensor.typed) {
    case DataField::strings:
      if (bytes != wanted) fail_count(tensor, wanted);
      return;
    case DataField::floats:
    case DataField::doubles: {
      const std::int64_t width = tensor.typed == DataField::floats ? 4 : 8;
      const bool mixed = !tensor.typed_packed && tensor.typed_pieces != tensor.typed_bytes;
      if (!mixed && (limit(width) != wanted || (tensor.typed_packed && bytes % width != 0))) fail_count(tensor, wanted);
      return;
    }
    default:
      if (bytes < wanted || bytes / 10 > wanted) fail_count(tensor, wanted);
  }
}

// Spreads elements below 8 bits, low bits first, over one byte each; signed ones get their sign.
void unpack_bits(DType dtype, Bytes packed, std::span<std::byte> out) {
  const int bits = info(dtype).bits;
  const int group = 8 / bits;
  const int mask = (1 << bits) - 1;
  const int sign = is_signed_int(dtype) ? 1 << (bits - 1) : 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int byte = std::to_integer<int>(packed[i / static_cast<std::size_t>(group)]);
    const int element = byte >> (bits * static_cast<int>(i % static_cast<std::size_t>(group))) & mask;
    out[i] = static_cast<std::byte>((element ^ sign) - sign);
  }
}

Error wrong_size(DType dtype, const Dims& dims, std::size_t found, std::int64_t wanted) {
  return Error(std::to_string(found) + " bytes of data, " + std::to_string(wanted) + " expected for " +
               describe_tensor(dtype, dims));
}

Error wrong_count(DType dtype, const Dims& dims, std::size_t found, std::int64_t wanted) {
  return Error(std::to_string(found) + " elements of data, " + std::to_string(wanted) + " expected for " +
               describe_tensor(dtype, dims));
}

std::vector<std::byte> gather_plain(DataField field, Bytes message) {
  std::vector<std::byte> bytes;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() != static_cast<int>(field)) continue;
    const Bytes piece = cursor.plain();
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  return bytes;
}

Tensor decode_strings(const Dims& dims, Bytes message) {
  std::vector<std::string> strings;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == static_cast<int>(DataField::strings)) strings.emplace_back(cursor.text());
  }
  const std::int64_t wanted = element_count(dims);
  if (static_cast<std::int64_t>(strings.size()) != wanted)
    throw wrong_count(DType::string, dims, strings.size(), wanted);
  return Tensor::of_strings(dims, std::move(strings));
}

Tensor decode_varints(DType dtype, const Dims& dims, DataField field, Bytes message) {
  std::vector<std::int64_t> numbers;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == static_cast<int>(field)) cursor.append(numbers);
  }
  const std::int64_t wanted = typed_count(dtype, element_count(dims));
  if (static_cast<std::int64_t>(numbers.size()) != wanted) throw wrong_count(dtype, dims, numbers.size(), wanted);
  // A number holds one element, or one byte of packed elements, in its low bits.
  const std::size_t width = static_cast<std::size_t>(info(dtype).memory_bytes);
  std::vector<std::byte> bytes(numbers.size() * width);
  for (std::size_t i = 0; i < numbers.size(); ++i) std::memcpy(bytes.data() + i * width, &numbers[i], width);
  return decode_plain(dtype, dims, bytes);
}

}  // namespace

TensorFields scan_tensor(Bytes message, const std::byte* file) {
  TensorFields tensor{.message = message};
  std::int64_t code = 0;
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: cursor.append(tensor.dims); break;
      case 2: code = cursor.integer(); break;
      case 3: throw Unsupported("tensor '" + std::string(tensor.name) + "' is stored in segments");
      case 4:
      case 5:
      case 6:
      case 7:
      case 10:
      case 11: add_typed_piece(tensor, cursor); break;
      case 8: tensor.name = cursor.text(); break;
      case 9:
        tensor.raw = cursor.bytes();
        tensor.has_raw = true;
        break;
      case 13: tensor.external_data.push_back(cursor.bytes()); break;
      case 14: tensor.external = cursor.integer() == 1; break;
      default: tensor.described = true;
    }
  }
  tensor.dtype = element_type(code);
  tensor.count = element_count(tensor.dims);
  plain_size(tensor.dtype, tensor.dims);
  return tensor;
}

std::string describe_tensor(DType dtype, const Dims& dims) { return std::string(name(dtype)) + to_string(dims); }

std::int64_t plain_size(DType dtype, const Dims& dims) {
  const std::int64_t count = element_count(dims);
  if (info(dtype).bits < 8) return count / elements_per_byte(dtype) + (count % elements_per_byte(dtype) == 0 ? 0 : 1);
  std::int64_t size = 0;
  if (__builtin_mul_overflow(count, info(dtype).bits / 8, &size)) throw Error("too many elements: " + to_string(dims));
  return size;
}

void check_data_size(const TensorFields& tensor) {
  if (tensor.has_raw && (!tensor.raw.empty() || tensor.typed == DataField::none)) {
    if (tensor.dtype == DType::string) throw Error("strings cannot be raw data");
    const std::int64_t wanted = plain_size(tensor.dtype, tensor.dims);
    if (static_cast<std::int64_t>(tensor.raw.size()) == wanted) return;
    throw wrong_size(tensor.dtype, tensor.dims, tensor.raw.size(), wanted);
  }
  if (tensor.typed != DataField::none) return check_typed_size(tensor);
  if (tensor.count > 0) throw Error("no data for " + describe_tensor(tensor.dtype, tensor.dims));
}

Bytes plain_typed_data(const TensorFields& tensor) {
  const bool fixed_width = tensor.typed == DataField::floats || tensor.typed == DataField::doubles;
  return fixed_width && tensor.typed_packed && tensor.typed_pieces == 1 ? tensor.last_piece : Bytes{};
}

Tensor decode_plain(DType dtype, const Dims& dims, Bytes bytes) {
  const std::int64_t wanted = plain_size(dtype, dims);
  if (static_cast<std::int64_t>(bytes.size()) != wanted) throw wrong_size(dtype, dims, bytes.size(), wanted);
  Tensor tensor(dtype, dims);
  const std::span<std::byte> out = tensor.mutable_bytes();
  if (info(dtype).bits < 8) {
    unpack_bits(dtype, bytes, out);
  } else if (dtype == DType::boolean) {
    std::ranges::transform(bytes, out.begin(), [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  } else if (!bytes.empty()) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  }
  return tensor;
}

Tensor decode_typed(DType dtype, const Dims& dims, DataField field, Bytes message) {
  if (dtype == DType::string) return decode_strings(dims, message);
  switch (field) {
    case DataField::floats:
    case DataField::doubles: return decode_plain(dtype, dims, gather_plain(field, message));
    default: return decode_varints(dtype, dims, field, message);
  }
}

}  // namespace finity::onnx
