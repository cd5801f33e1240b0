#include "torch/value.h"

#include <ATen/TracerMode.h>

#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Types that LibTorch holds with the same bits as we do; 64-bit unsigned ones wrap like signed ones.
bool same_bits(DType dtype) {
  switch (dtype) {
    case DType::uint16:
    case DType::uint32: return false;
    default: return !is_float(dtype) || info(dtype).bits >= 16;
  }
}

// Integers of at most 32 bits in a wider or equal carrier, cut to their width.
at::Tensor wrapped(const at::Tensor& tensor, DType dtype) {
  const auto mask = static_cast<std::int64_t>(int_max(dtype));
  const at::Tensor bits = at::bitwise_and(tensor, mask);
  if (!is_signed_int(dtype)) return bits;
  // The mask has no sign bit: elements with one are 2^(bits - 1) too large.
  const at::Tensor sign = at::bitwise_and(tensor, mask + 1);
  return at::sub(bits, sign);
}

// Towards zero; what 64 bits cannot hold stops at their ends, and NaN is 0.
at::Tensor truncated(const at::Tensor& x) {
  const at::Tensor wide = x.detach().to(at::kDouble);
  const at::Tensor plain = at::nan_to_num(wide, 0.0, 0x1p63, -0x1p63);
  const at::Tensor high = at::ge(plain, 0x1p63);
  const at::Tensor inside = at::where(high, at::zeros_like(plain), at::clamp_min(plain, -0x1p63)).to(at::kLong);
  return at::where(high, at::full_like(inside, std::numeric_limits<std::int64_t>::max()), inside);
}

bool narrower_than_carrier(DType dtype) {
  if (dtype == DType::uint64 || dtype == DType::boolean || !is_int(dtype)) return false;
  return info(dtype).bits < 8 || dtype == DType::uint16 || dtype == DType::uint32;
}

Tensor from_wider(const at::Tensor& tensor, DType dtype) {
  const Dims dims = tensor.sizes().vec();
  if (is_float(dtype)) {
    const at::Tensor wide = tensor.to(at::kDouble).contiguous();
    return from_elements<double>(dtype, dims, {wide.data_ptr<double>(), static_cast<std::size_t>(wide.numel())});
  }
  const at::Tensor wide = tensor.to(at::kLong).contiguous();
  return from_elements<std::int64_t>(dtype, dims,
                                     {wide.data_ptr<std::int64_t>(), static_cast<std::size_t>(wide.numel())});
}

}  // namespace

at::ScalarType carrier(DType dtype) {
  switch (dtype) {
    case DType::float16: return at::kHalf;
    case DType::bfloat16: return at::kBFloat16;
    case DType::float64: return at::kDouble;
    case DType::uint8:
    case DType::uint4:
    case DType::uint2: return at::kByte;
    case DType::int8:
    case DType::int4:
    case DType::int2: return at::kChar;
    case DType::int16: return at::kShort;
    case DType::int32: return at::kInt;
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
    case DType::int64: return at::kLong;
    case DType::boolean: return at::kBool;
    case DType::complex64: return at::kComplexFloat;
    case DType::complex128: return at::kComplexDouble;
    case DType::string:
    case DType::undefined: throw Unsupported("LibTorch has no tensors of type " + std::string(name(dtype)));
    default: return at::kFloat;
  }
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kByte: return DType::uint8;
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kBool: return DType::boolean;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    default: throw Unsupported("LibTorch gives elements of a type that ONNX does not have");
  }
}

at::Tensor to_torch(const Tensor& tensor) {
  // A trace takes what comes from outside as a constant, not as memory that it would reserve anew.
  const at::tracer::impl::NoTracerDispatchMode not_traced;
  const DType dtype = tensor.dtype();
  at::Tensor result = at::empty(tensor.dims(), carrier(dtype));
  if (tensor.empty()) return result;
  if (same_bits(dtype)) {
    std::memcpy(result.data_ptr(), tensor.bytes().data(), tensor.bytes().size());
  } else if (is_float(dtype)) {
    const std::vector<float> values = elements<float>(tensor);
    std::memcpy(result.data_ptr(), values.data(), values.size() * sizeof(float));
  } else {
    const std::vector<std::int64_t> values = elements<std::int64_t>(tensor);
    std::memcpy(result.data_ptr(), values.data(), values.size() * sizeof(std::int64_t));
  }
  return result;
}

at::Tensor list_of(const std::vector<std::int64_t>& numbers) {
  const at::tracer::impl::NoTracerDispatchMode not_traced;
  return at::tensor(numbers, at::kLong);
}
at::Tensor list_of(const std::vector<double>& numbers) {
  const at::tracer::impl::NoTracerDispatchMode not_traced;
  return at::tensor(numbers, at::kDouble);
}
at::Tensor scalar_of(const at::Scalar& number, at::ScalarType type) {
  const at::tracer::impl::NoTracerDispatchMode not_traced;
  return at::scalar_tensor(number, type);
}

Tensor to_host(const at::Tensor& tensor, DType dtype) {
  const at::Tensor plain = tensor.detach();
  if (!same_bits(dtype) || plain.scalar_type() != carrier(dtype)) return from_wider(plain, dtype);
  const at::Tensor dense = plain.contiguous();
  Tensor result(dtype, dense.sizes().vec());
  if (!result.empty()) std::memcpy(result.mutable_bytes().data(), dense.data_ptr(), result.bytes().size());
  return result;
}

TorchValue to_value(const Datum& datum) {
  TorchValue value;
  if (const Tensor* tensor = datum.tensor()) {
    value.dtype = tensor->dtype();
    if (tensor->dtype() == DType::string) value.texts = std::make_shared<const Tensor>(*tensor);
    else value.tensor = to_torch(*tensor);
  } else if (const Sequence* items = datum.sequence()) {
    std::vector<TorchValue> values;
    for (const Datum& item : *items) values.push_back(to_value(item));
    value.items = std::make_shared<const std::vector<TorchValue>>(std::move(values));
  }
  return value;
}

Datum to_datum(const TorchValue& value) {
  if (value.tensor.defined()) return to_host(value.tensor, value.dtype);
  if (value.texts != nullptr) return *value.texts;
  if (value.items == nullptr) return {};
  Sequence items;
  for (const TorchValue& item : *value.items) items.push_back(to_datum(item));
  return Datum::sequence(std::move(items));
}

at::Tensor settled(const at::Tensor& tensor, DType dtype) {
  const at::ScalarType type = carrier(dtype);
  if (is_float(dtype) && info(dtype).bits < 16) {
    if (tensor.requires_grad())
      throw Unsupported("rounding to " + std::string(name(dtype)) + " has no derivative here");
    return to_torch(to_host(tensor, dtype));
  }
  at::Tensor result = tensor;
  if (is_int(dtype) && at::isFloatingType(tensor.scalar_type())) result = truncated(tensor);
  if (narrower_than_carrier(dtype)) result = wrapped(result.to(at::kLong), dtype);
  return result.scalar_type() == type ? result : result.to(type);
}

}  // namespace finity
