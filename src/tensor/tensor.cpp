#include "tensor/tensor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace finity {

std::int64_t element_count(std::span<const std::int64_t> dims) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) throw Error("negative dimension in " + to_string(dims));
    if (dim == 0) empty = true;
    if (dim != 0 && __builtin_mul_overflow(count, dim, &count)) throw Error("too many elements: " + to_string(dims));
  }
  return empty ? 0 : count;
}

std::string to_string(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return text + "]";
}

Tensor::Tensor(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)), size_(element_count(dims_)) {
  const std::int64_t width = dtype == DType::string ? 32 : std::max(1, info(dtype).memory_bytes);
  if (size_ > kMaxBytes / width) {
    throw Error("tensor " + to_string(dims_) + " of " + std::string(name(dtype)) + " is too large to compute");
  }
  if (dtype == DType::string) {
    strings_ = std::make_shared<std::vector<std::string>>(static_cast<std::size_t>(size_));
  } else {
    bytes_ = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size_ * width));
  }
}

Tensor Tensor::of_strings(Dims dims, std::vector<std::string> values) {
  Tensor result(DType::string, std::move(dims));
  assert(static_cast<std::int64_t>(values.size()) == result.size_);
  *result.strings_ = std::move(values);
  return result;
}

Tensor Tensor::vector_of(std::span<const std::int64_t> values) {
  return of<std::int64_t>(DType::int64, {static_cast<std::int64_t>(values.size())}, values);
}

Tensor Tensor::scalar(std::int64_t value) { return of<std::int64_t>(DType::int64, {}, std::span(&value, 1)); }

Tensor Tensor::scalar(float value) { return of<float>(DType::float32, {}, std::span<const float>(&value, 1)); }

Tensor Tensor::scalar(bool value) {
  const std::uint8_t byte = value ? 1 : 0;
  return of<std::uint8_t>(DType::boolean, {}, std::span(&byte, 1));
}

std::span<const std::byte> Tensor::bytes() const {
  if (!bytes_) return {};
  return {bytes_->data(), bytes_->size()};
}

std::span<std::byte> Tensor::mutable_bytes() {
  if (!bytes_) return {};
  if (bytes_.use_count() > 1) bytes_ = std::make_shared<std::vector<std::byte>>(*bytes_);
  return {bytes_->data(), bytes_->size()};
}

std::span<const std::string> Tensor::strings() const {
  if (!strings_) return {};
  return {strings_->data(), strings_->size()};
}

std::span<std::string> Tensor::mutable_strings() {
  if (!strings_) return {};
  if (strings_.use_count() > 1) strings_ = std::make_shared<std::vector<std::string>>(*strings_);
  return {strings_->data(), strings_->size()};
}

Tensor Tensor::reshaped(Dims dims) const {
  if (element_count(dims) != size_) throw Error("cannot reshape " + to_string(dims_) + " to " + to_string(dims));
  Tensor result = *this;
  result.dims_ = std::move(dims);
  return result;
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  return std::ranges::equal(a.bytes(), b.bytes()) && std::ranges::equal(a.strings(), b.strings());
}

}  // namespace finity
