#include "formats/tensorflow/tensor_proto.h"

#include <cstring>

#include "base/error.h"
#include "formats/tensorflow/attr_value.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

using wire::Cursor;
using wire::Wire;

namespace {

// The field of TensorProto that holds elements of a type; 0: none.
int value_field(DType dtype) {
  switch (dtype) {
    case DType::float32: return 5;
    case DType::float64: return 6;
    case DType::int32:
    case DType::int16:
    case DType::int8:
    case DType::uint8:
    case DType::uint16: return 7;
    case DType::string: return 8;
    case DType::complex64: return 9;
    case DType::int64: return 10;
    case DType::boolean: return 11;
    case DType::complex128: return 12;
    case DType::float16:
    case DType::bfloat16: return 13;
    case DType::uint32: return 16;
    case DType::uint64: return 17;
    default: return 0;
  }
}

// Appends one field as the bytes of elements.
void append_numbers(const Cursor& cursor, DType dtype, std::vector<std::byte>& out) {
  if (dtype == DType::float32 || dtype == DType::float64 || is_complex(dtype)) {
    const Bytes plain = cursor.plain();
    out.insert(out.end(), plain.begin(), plain.end());
    return;
  }
  std::vector<std::int64_t> numbers;
  cursor.append(numbers);
  const auto size = static_cast<std::size_t>(info(dtype).memory_bytes);
  for (const std::int64_t number : numbers) {
    std::byte bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.insert(out.end(), bytes, bytes + size);
  }
}

Tensor load_strings(Bytes message, const Dims& dims) {
  std::vector<std::string> texts;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == 8) texts.emplace_back(cursor.text());
  }
  const auto count = static_cast<std::size_t>(element_count(dims));
  texts.resize(count, texts.empty() ? std::string() : texts.back());
  return Tensor::of_strings(dims, std::move(texts));
}

std::int64_t elements_there(const TensorFields& fields) {
  std::vector<std::byte> given;
  for (Cursor cursor(fields.message, fields.message.data()); cursor.next();) {
    if (cursor.field() == value_field(fields.dtype)) append_numbers(cursor, fields.dtype, given);
  }
  return static_cast<std::int64_t>(given.size()) / info(fields.dtype).memory_bytes;
}

// The elements that are there, then the last one again and again; zeros when there is none.
Tensor load_numbers(Bytes message, DType dtype, const Dims& dims) {
  Tensor result(dtype, dims);
  std::vector<std::byte> given;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == value_field(dtype)) append_numbers(cursor, dtype, given);
  }
  const std::span<std::byte> target = result.mutable_bytes();
  const auto size = static_cast<std::size_t>(info(dtype).memory_bytes);
  given.resize(given.size() / size * size);
  if (given.empty() || target.empty()) return result;
  const std::size_t copied = std::min(given.size(), target.size());
  std::memcpy(target.data(), given.data(), copied);
  for (std::size_t at = copied; at + size <= target.size(); at += size) {
    std::memcpy(target.data() + at, given.data() + given.size() - size, size);
  }
  return result;
}

}  // namespace

TensorFields read_tensor_fields(Bytes message) {
  TensorFields fields;
  fields.message = message;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == 1) fields.dtype = dtype_from_tf(cursor.integer());
    if (cursor.field() == 4) fields.content = cursor.bytes();
    if (cursor.field() != 2) continue;
    const Type type = read_shape(cursor.bytes(), DType::float32);
    const std::optional<Dims> dims = type.dims();
    if (!dims) throw Error("a tensor without a size");
    fields.dims = *dims;
  }
  const std::int64_t count = element_count(fields.dims);
  if (fields.dtype == DType::undefined) throw Unsupported("a constant that is neither numbers nor text");
  const std::int64_t bytes = info(fields.dtype).memory_bytes;
  if (fields.dtype != DType::string && !fields.content.empty() &&
      (count > Tensor::kMaxBytes / bytes || static_cast<std::int64_t>(fields.content.size()) != count * bytes)) {
    throw Error("tensor_content has " + std::to_string(fields.content.size()) + " bytes, " +
                std::string(name(fields.dtype)) + to_string(fields.dims) + " needs " +
                std::to_string(saturated_product(count, bytes)));
  }
  return fields;
}

std::optional<Tensor> few_elements(const TensorFields& fields) {
  if (fields.dtype == DType::string || !fields.content.empty()) return std::nullopt;
  const std::int64_t there = std::max<std::int64_t>(elements_there(fields), 1);
  if (there > element_count(fields.dims) / 2) return std::nullopt;
  return load_numbers(fields.message, fields.dtype, {there});
}

std::optional<Tensor> repeated_element(const TensorFields& fields) {
  if (fields.dtype == DType::string || !fields.content.empty() || elements_there(fields) > 1) return std::nullopt;
  return load_numbers(fields.message, fields.dtype, {1});
}

TensorProtoConstant::TensorProtoConstant(const TensorFields& fields, std::shared_ptr<const void> owner)
    : Constant(fields.dtype, fields.dims),
      content_(fields.dtype == DType::string ? Bytes() : fields.content),
      message_(fields.message),
      owner_(std::move(owner)) {}

Tensor TensorProtoConstant::load() const {
  if (dtype() == DType::string) return load_strings(message_, dims());
  if (content_.empty()) return load_numbers(message_, dtype(), dims());
  Tensor result(dtype(), dims());
  std::memcpy(result.mutable_bytes().data(), content_.data(), content_.size());
  return result;
}

PlainConstant::PlainConstant(DType dtype, Dims dims, Bytes bytes, std::shared_ptr<const void> owner)
    : Constant(dtype, std::move(dims)), bytes_(bytes), owner_(std::move(owner)) {
  const std::int64_t size = info(dtype).memory_bytes;
  const std::int64_t needed = saturated_product(element_count(this->dims()), size);
  if (size == 0 || needed != static_cast<std::int64_t>(bytes.size())) {
    throw Error(std::to_string(bytes.size()) + " bytes of weights, " + std::string(name(dtype)) +
                to_string(this->dims()) + " needs " + std::to_string(needed));
  }
}

Tensor PlainConstant::load() const {
  Tensor result(dtype(), dims());
  if (!bytes_.empty()) std::memcpy(result.mutable_bytes().data(), bytes_.data(), bytes_.size());
  return result;
}

}  // namespace finity::tensorflow
