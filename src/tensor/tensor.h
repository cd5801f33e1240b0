// A host tensor with value semantics: dtype, dimensions, elements in row-major
// order. Copies share the buffer until one of them is written to. Elements of
// types below 8 bits take one byte each; float16, bfloat16 and the 8-bit floats
// are kept as their bits. Arithmetic lives in ops/, conversions in convert.h.
#pragma once

#include <cassert>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace finity {

using Dims = std::vector<std::int64_t>;

// Number of elements; throws Error on a negative dimension or when the product overflows.
std::int64_t element_count(std::span<const std::int64_t> dims);
std::string to_string(std::span<const std::int64_t> dims);

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled. Throws Error instead of allocating more than kMaxBytes.
  Tensor(DType dtype, Dims dims);
  template <class T>
  static Tensor of(DType dtype, Dims dims, std::span<const T> values);
  static Tensor of_strings(Dims dims, std::vector<std::string> values);
  // int64 scalars and vectors are how ONNX passes shapes and axes.
  static Tensor vector_of(std::span<const std::int64_t> values);
  static Tensor scalar(std::int64_t value);
  static Tensor scalar(bool value);
  static Tensor scalar(float value);

  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 33;

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  std::int64_t dim(std::size_t axis) const { return dims_[axis]; }
  std::size_t rank() const { return dims_.size(); }
  std::int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // T is the storage type: float for float32, std::uint16_t for float16 ...
  template <class T>
  std::span<const T> data() const {
    assert(static_cast<int>(sizeof(T)) == info(dtype_).memory_bytes);
    return {reinterpret_cast<const T*>(bytes_ ? bytes_->data() : nullptr), static_cast<std::size_t>(size_)};
  }
  template <class T>
  std::span<T> mutable_data() {
    assert(static_cast<int>(sizeof(T)) == info(dtype_).memory_bytes);
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(size_)};
  }
  std::span<const std::byte> bytes() const;
  std::span<std::byte> mutable_bytes();
  std::span<const std::string> strings() const;
  std::span<std::string> mutable_strings();

  // Same elements, other dimensions of the same count; throws Error otherwise.
  Tensor reshaped(Dims dims) const;

 private:
  DType dtype_ = DType::undefined;
  Dims dims_;
  std::int64_t size_ = 0;
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

// Same dtype, dimensions and bits (NaNs compare by bits).
bool identical(const Tensor& a, const Tensor& b);

template <class T>
Tensor Tensor::of(DType dtype, Dims dims, std::span<const T> values) {
  Tensor result(dtype, std::move(dims));
  const std::span<T> target = result.mutable_data<T>();
  assert(target.size() == values.size());
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = values[i];
  return result;
}

}  // namespace finity
