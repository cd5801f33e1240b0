// What flows along an edge when LibTorch runs a graph, and the way between its tensors and ours. LibTorch has fewer
// element types than ONNX, so a value says which type it stands for: unsigned integers of 16 bits and more are carried
// in wider signed ones, floats below 16 bits in float32. Strings stay with us.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include "ops/table/datum.h"

namespace finity {

struct TorchValue {
  DType dtype = DType::undefined;
  at::Tensor tensor = {};
  std::shared_ptr<const std::vector<TorchValue>> items = {};  // of a sequence
  std::shared_ptr<const Tensor> texts = {};                   // a tensor of strings

  bool present() const { return tensor.defined() || items != nullptr || texts != nullptr; }
};

// The element type that carries a dtype. Throws Unsupported for strings.
at::ScalarType carrier(DType dtype);
// The dtype an element type stands for when nothing else is known.
DType dtype_of(at::ScalarType type);

at::Tensor to_torch(const Tensor& tensor);
// Elements that the dtype cannot hold are rounded or wrapped.
Tensor to_host(const at::Tensor& tensor, DType dtype);

// Numbers that are known before the run: a constant of a trace.
at::Tensor list_of(const std::vector<std::int64_t>& numbers);
at::Tensor list_of(const std::vector<double>& numbers);
at::Tensor scalar_of(const at::Scalar& number, at::ScalarType type);

TorchValue to_value(const Datum& datum);
Datum to_datum(const TorchValue& value);

// The tensor as one of the dtype: floats are rounded, integers wrap. Keeps the graph of derivatives where the
// carrier has the dtype's own precision, and throws Unsupported where a derivative would be lost.
at::Tensor settled(const at::Tensor& tensor, DType dtype);

}  // namespace finity
