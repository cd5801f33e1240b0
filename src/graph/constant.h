// A tensor known from the model file. It is loaded when someone asks for its
// elements, not before: a reader hands out views into the mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "tensor/tensor.h"

namespace finity {

class Constant {
 public:
  Constant(DType dtype, Dims dims) : dtype_(dtype), dims_(std::move(dims)) {}
  Constant(const Constant&) = delete;
  Constant& operator=(const Constant&) = delete;
  virtual ~Constant() = default;

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }

  // Decodes the elements; throws Error when they are absent (see missing()).
  virtual Tensor load() const = 0;
  // Why the elements cannot be had (an external file that is not there), else empty.
  virtual std::string missing() const { return {}; }
  // Little-endian elements where the file stores them plainly, else empty: for scans without a copy.
  virtual std::span<const std::byte> raw() const { return {}; }
  // Written as a sparse tensor; load() gives it dense.
  virtual bool sparse() const { return false; }

 private:
  DType dtype_;
  Dims dims_;
};

using ConstantPtr = std::shared_ptr<const Constant>;

// One that is already in memory.
class TensorConstant final : public Constant {
 public:
  explicit TensorConstant(Tensor tensor) : Constant(tensor.dtype(), tensor.dims()), tensor_(std::move(tensor)) {}
  Tensor load() const override { return tensor_; }
  std::span<const std::byte> raw() const override { return tensor_.bytes(); }

 private:
  Tensor tensor_;
};

// One whose type is known and whose elements are not.
class MissingConstant final : public Constant {
 public:
  MissingConstant(DType dtype, Dims dims, std::string reason);
  Tensor load() const override;
  std::string missing() const override { return reason_; }

 private:
  std::string reason_;
};

inline ConstantPtr make_constant(Tensor tensor) { return std::make_shared<const TensorConstant>(std::move(tensor)); }

}  // namespace finity
