#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "formats/npz/npz.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  Dims dims;
  std::size_t data_offset = 0;
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The value after 'key': in the header, which is a Python dict literal written by numpy itself.
std::string_view header_value(std::string_view header, std::string_view key) {
  const std::size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) throw Error("array header has no '" + std::string(key) + "'");
  std::string_view rest = header.substr(at + key.size() + 2);
  const std::size_t start = rest.find_first_not_of(": ");
  if (start == std::string_view::npos) throw Error("array header is cut off");
  return rest.substr(start);
}

Dims parse_shape(std::string_view text) {
  if (!text.starts_with('(')) throw Error("array header has no shape");
  text.remove_prefix(1);
  Dims dims;
  while (true) {
    const std::size_t start = text.find_first_not_of(" ,");
    if (start == std::string_view::npos) throw Error("array header is cut off");
    text.remove_prefix(start);
    if (text.front() == ')') return dims;
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0) throw Error("array header has a bad shape");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    dims.push_back(dim);
  }
}

Header parse_header(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  if (!text.starts_with(kMagic) || text.size() < 12) throw Error("is not a numpy array");
  const auto byte_at = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  const bool wide = text[6] >= 2;
  const std::size_t start = wide ? 12 : 10;
  std::size_t length = byte_at(8) | byte_at(9) << 8;
  if (wide) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (length > text.size() - start) throw Error("array header is cut off");
  const std::string_view header = text.substr(start, length);
  Header result;
  std::string_view descr = header_value(header, "descr");
  if (descr.empty() || descr.front() != '\'') throw Error("structured arrays are not supported");
  descr.remove_prefix(1);
  result.descr = descr.substr(0, descr.find('\''));
  result.fortran = header_value(header, "fortran_order").starts_with("True");
  result.dims = parse_shape(header_value(header, "shape"));
  result.data_offset = start + length;
  return result;
}

std::optional<DType> dtype_of(std::string_view code) {
  static constexpr std::pair<std::string_view, DType> kCodes[] = {
      {"f4", DType::float32},   {"f8", DType::float64},    {"f2", DType::float16}, {"i1", DType::int8},
      {"i2", DType::int16},     {"i4", DType::int32},      {"i8", DType::int64},   {"u1", DType::uint8},
      {"u2", DType::uint16},    {"u4", DType::uint32},     {"u8", DType::uint64},  {"b1", DType::boolean},
      {"c8", DType::complex64}, {"c16", DType::complex128}};
  for (const auto& [text, dtype] : kCodes) {
    if (text == code) return dtype;
  }
  return std::nullopt;
}

// Column-major to row-major: reading the reversed shape and transposing.
Tensor from_fortran(const Tensor& stored, const Dims& dims) {
  Tensor result(stored.dtype(), dims);
  const auto width = static_cast<std::size_t>(info(stored.dtype()).memory_bytes);
  std::vector<std::int64_t> index(dims.size(), 0);
  for (std::int64_t row_major = 0; row_major < result.size(); ++row_major) {
    std::int64_t rest = row_major;
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      index[axis] = rest % dims[axis];
      rest /= dims[axis];
    }
    std::int64_t column_major = 0;
    for (std::size_t axis = dims.size(); axis-- > 0;) column_major = column_major * dims[axis] + index[axis];
    std::memcpy(result.mutable_bytes().data() + static_cast<std::size_t>(row_major) * width,
                stored.bytes().data() + static_cast<std::size_t>(column_major) * width, width);
  }
  return result;
}

void append_utf8(std::string& text, std::uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// '<U7' is UCS-4 padded with zeros, '|S7' is bytes.
Tensor read_strings(const Header& header, std::span<const std::byte> data) {
  const bool unicode = header.descr.size() > 2 && header.descr[1] == 'U';
  std::size_t length = 0;
  const char* digits = header.descr.data() + 2;
  std::from_chars(digits, header.descr.data() + header.descr.size(), length);
  const std::int64_t count = element_count(header.dims);
  const std::size_t width = length * (unicode ? 4 : 1);
  if (width != 0 && data.size() / width < static_cast<std::size_t>(count)) throw Error("array data is cut off");
  Tensor result(DType::string, header.dims);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::string& text = result.mutable_strings()[i];
    for (std::size_t k = 0; k < length; ++k) {
      std::uint32_t code = 0;
      std::memcpy(&code, data.data() + i * width + k * (unicode ? 4 : 1), unicode ? 4 : 1);
      if (code == 0) break;
      if (unicode) append_utf8(text, code);
      else text += static_cast<char>(code);
    }
  }
  return result;
}

std::string descr_of(DType dtype) {
  const std::string bytes = std::to_string(info(dtype).memory_bytes);
  switch (info(dtype).kind) {
    case DTypeClass::floating: return "<f" + bytes;
    case DTypeClass::signed_integer: return (bytes == "1" ? "|i" : "<i") + bytes;
    case DTypeClass::unsigned_integer: return (bytes == "1" ? "|u" : "<u") + bytes;
    case DTypeClass::complex: return "<c" + bytes;
    default: return "|b1";
  }
}

DType widened(DType dtype) {
  if (is_float(dtype) && dtype != DType::float16 && info(dtype).bits < 32) return DType::float32;
  if (is_int(dtype) && info(dtype).bits < 8) return is_signed_int(dtype) ? DType::int8 : DType::uint8;
  return dtype;
}

std::vector<std::uint32_t> decode_utf8(std::string_view text) {
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    std::uint32_t code = length == 1 ? first : first & (0x7fu >> length);
    for (std::size_t k = 1; k < length && i + k < text.size(); ++k) {
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3f);
    }
    codes.push_back(code);
    i += length;
  }
  return codes;
}

std::string with_header(const std::string& descr, const Dims& dims) {
  std::string shape = "(";
  for (const std::int64_t dim : dims) shape += std::to_string(dim) + ",";
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "), }";
  // numpy aligns the data to 64 bytes and ends the header with a newline.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string result(kMagic);
  result += '\x01';
  result += '\0';
  result += static_cast<char>(header.size() & 0xff);
  result += static_cast<char>(header.size() >> 8);
  return result + header;
}

std::string write_strings(const Tensor& tensor) {
  std::size_t longest = 1;
  std::vector<std::vector<std::uint32_t>> texts;
  for (const std::string& text : tensor.strings()) {
    texts.push_back(decode_utf8(text));
    longest = std::max(longest, texts.back().size());
  }
  std::string result = with_header("<U" + std::to_string(longest), tensor.dims());
  for (std::vector<std::uint32_t>& text : texts) {
    text.resize(longest);
    result.append(reinterpret_cast<const char*>(text.data()), text.size() * 4);
  }
  return result;
}

}  // namespace

Tensor read_npy(std::span<const std::byte> bytes) {
  const Header header = parse_header(bytes);
  const std::span<const std::byte> data = bytes.subspan(header.data_offset);
  if (header.descr.size() < 3) throw Error("array type '" + header.descr + "' is not supported");
  if (header.descr[1] == 'U' || header.descr[1] == 'S') return read_strings(header, data);
  const auto dtype = dtype_of(std::string_view(header.descr).substr(1));
  if (!dtype || header.descr[0] == '>') throw Error("array type '" + header.descr + "' is not supported");
  const std::int64_t count = element_count(header.dims);
  const auto width = static_cast<std::size_t>(info(*dtype).memory_bytes);
  if (data.size() / width < static_cast<std::size_t>(count)) throw Error("array data is cut off");
  Tensor stored(*dtype, header.dims);
  if (count > 0) std::memcpy(stored.mutable_bytes().data(), data.data(), static_cast<std::size_t>(count) * width);
  return header.fortran && header.dims.size() > 1 ? from_fortran(stored, header.dims) : stored;
}

std::string write_npy(const Tensor& tensor) {
  static_assert(std::endian::native == std::endian::little);
  if (tensor.dtype() == DType::string) return write_strings(tensor);
  const DType target = widened(tensor.dtype());
  if (target != tensor.dtype()) {
    if (is_float(target)) return write_npy(from_elements<double>(target, tensor.dims(), elements<double>(tensor)));
    return write_npy(from_elements<std::int64_t>(target, tensor.dims(), elements<std::int64_t>(tensor)));
  }
  std::string result = with_header(descr_of(target), tensor.dims());
  result.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  return result;
}

}  // namespace finity
