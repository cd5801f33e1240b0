#include "formats/onnx/tensor_writer.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "formats/onnx/constants.h"
#include "formats/onnx/onnx.h"

namespace finity::onnx {

namespace {

void write_external(WireWriter& out, const ExternalRef& ref) {
  const auto entry = [&](std::string_view key, const std::string& value) {
    out.message(13, [&] {
      out.text(1, key);
      out.text(2, value);
    });
  };
  entry("location", ref.location);
  if (ref.offset != 0) entry("offset", std::to_string(ref.offset));
  if (ref.length) entry("length", std::to_string(*ref.length));
  if (!ref.checksum.empty()) entry("checksum", ref.checksum);
  out.integer(14, 1);
}

std::vector<std::byte> pack_bits(DType dtype, Bytes elements) {
  const int bits = info(dtype).bits;
  const auto group = static_cast<std::size_t>(8 / bits);
  std::vector<std::byte> packed((elements.size() + group - 1) / group);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const int element = std::to_integer<int>(elements[i]) & ((1 << bits) - 1);
    packed[i / group] |= static_cast<std::byte>(element << (bits * static_cast<int>(i % group)));
  }
  return packed;
}

void write_elements(WireWriter& out, const Tensor& tensor) {
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.strings()) out.text(6, text);
  } else if (info(tensor.dtype()).bits < 8) {
    out.bytes(9, pack_bits(tensor.dtype(), tensor.bytes()));
  } else {
    out.bytes(9, tensor.bytes());
  }
}

}  // namespace

void write_tensor(WireWriter& out, const Constant& constant, std::string_view name) {
  for (const std::int64_t dim : constant.dims()) out.integer(1, dim);
  out.integer(2, static_cast<std::int64_t>(constant.dtype()));
  out.text_if(8, name);
  if (const auto* absent = dynamic_cast<const MissingExternal*>(&constant)) {
    write_external(out, absent->ref());
  } else if (info(constant.dtype()).bits >= 8 && !constant.raw().empty()) {
    out.bytes(9, constant.raw());
  } else {
    write_elements(out, constant.load());
  }
}

bool is_sparse(const Constant& constant) { return dynamic_cast<const SparseConstant*>(&constant) != nullptr; }

void write_sparse_tensor(WireWriter& out, const Constant& constant, std::string_view name) {
  const auto& sparse = dynamic_cast<const SparseConstant&>(constant);
  out.message(1, [&] { write_tensor(out, *sparse.values(), name); });
  out.message(2, [&] { write_tensor(out, *sparse.indices(), {}); });
  for (const std::int64_t dim : sparse.dims()) out.integer(3, dim);
}

}  // namespace finity::onnx

namespace finity {

std::string write_tensor_proto(const Tensor& tensor, std::string_view name) {
  onnx::WireWriter out;
  out.reserve(tensor.bytes().size() + 64);
  onnx::write_tensor(out, TensorConstant(tensor), name);
  return out.take();
}

}  // namespace finity
