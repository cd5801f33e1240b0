// Our tensors as oneDNN's memory and back. Everything is float32; a tensor without axes has one axis here.
#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "tensor/tensor.h"

namespace finity::dnn {

using Memory = dnnl::memory;
using Desc = dnnl::memory::desc;
using Arguments = std::unordered_map<int, Memory>;

const dnnl::engine& cpu();

// At least one axis.
Dims axes_of(const Dims& dims);
// Row after row.
Desc plain(const Dims& dims);
// Any order of the elements that the primitive likes best.
Desc any(const Dims& dims);
// Our elements seen with these sizes and strides.
Desc strided(const Dims& dims, const Dims& strides);
Dims row_major_strides(const Dims& dims);

// Memory over the tensor's own elements, which are only read and kept alive with it.
class Operand {
 public:
  Operand() = default;
  explicit Operand(const Tensor& tensor) : Operand(tensor, plain(tensor.dims())) {}
  Operand(const Tensor& tensor, const Desc& desc);

  const Memory& memory() const { return memory_; }
  // In the order that a primitive asks for.
  Memory as(const Desc& wanted) const;

 private:
  Tensor tensor_;
  Memory memory_;
};

Memory blank(const Desc& desc);
void run(const dnnl::primitive& primitive, const Arguments& arguments);
// The elements with the logical sizes of `target`, whose order is ours.
Tensor read(const Memory& memory, const Dims& dims);
Tensor read(const Memory& memory, const Dims& dims, const Desc& target);

}  // namespace finity::dnn
