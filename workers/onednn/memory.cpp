#include "onednn/memory.h"

#include <cstring>

#include "base/error.h"

namespace finity::dnn {

namespace {

dnnl::stream& queue() {
  static dnnl::stream stream(cpu());
  return stream;
}

}  // namespace

const dnnl::engine& cpu() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

Dims axes_of(const Dims& dims) { return dims.empty() ? Dims{1} : dims; }

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  return strides;
}

Desc strided(const Dims& dims, const Dims& strides) {
  if (dims.size() > DNNL_MAX_NDIMS) throw Unsupported("oneDNN has tensors of at most 12 axes");
  return Desc(dims, Memory::data_type::f32, strides);
}

Desc plain(const Dims& dims) {
  const Dims axes = axes_of(dims);
  return strided(axes, row_major_strides(axes));
}

Desc any(const Dims& dims) {
  if (dims.size() > DNNL_MAX_NDIMS) throw Unsupported("oneDNN has tensors of at most 12 axes");
  return Desc(axes_of(dims), Memory::data_type::f32, Memory::format_tag::any);
}

Operand::Operand(const Tensor& tensor, const Desc& desc) : tensor_(tensor) {
  if (tensor.dtype() != DType::float32) throw Unsupported("oneDNN is handed float32 only");
  static std::byte nothing[64];
  const std::byte* data = tensor_.empty() ? nothing : tensor_.bytes().data();
  memory_ = Memory(desc, cpu(), const_cast<std::byte*>(data));
}

Memory Operand::as(const Desc& wanted) const {
  if (memory_.get_desc() == wanted) return memory_;
  Memory result(wanted, cpu());
  run(dnnl::reorder(memory_, result), {{DNNL_ARG_FROM, memory_}, {DNNL_ARG_TO, result}});
  return result;
}

Memory blank(const Desc& desc) { return Memory(desc, cpu()); }

void run(const dnnl::primitive& primitive, const Arguments& arguments) {
  primitive.execute(queue(), arguments);
  queue().wait();
}

Tensor read(const Memory& memory, const Dims& dims) { return read(memory, dims, plain(axes_of(dims))); }

Tensor read(const Memory& memory, const Dims& dims, const Desc& target) {
  Tensor result(DType::float32, dims);
  if (result.empty()) return result;
  Memory copy = memory;
  if (memory.get_desc() != target) {
    copy = blank(target);
    run(dnnl::reorder(memory, copy), {{DNNL_ARG_FROM, memory}, {DNNL_ARG_TO, copy}});
  }
  std::memcpy(result.mutable_bytes().data(), copy.get_data_handle(), result.mutable_bytes().size());
  return result;
}

}  // namespace finity::dnn
