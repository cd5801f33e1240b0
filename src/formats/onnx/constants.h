// Constants that are views into the model file or an external one, and the reader
// that makes them from TensorProto and SparseTensorProto.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "formats/onnx/external_data.h"
#include "formats/onnx/losses.h"
#include "formats/onnx/tensor_fields.h"
#include "graph/constant.h"

namespace finity::onnx {

// Stored as indices and values of the elements that are not zero.
class SparseConstant final : public Constant {
 public:
  // indices: [n] positions in the dense tensor, or [n, rank] coordinates; ascending.
  SparseConstant(Dims dims, ConstantPtr values, ConstantPtr indices);

  Tensor load() const override;
  std::string missing() const override;
  bool sparse() const override { return true; }

  const ConstantPtr& values() const { return values_; }
  const ConstantPtr& indices() const { return indices_; }

 private:
  ConstantPtr values_;
  ConstantPtr indices_;
};

// Its external file was not there; it remembers which, so that the model can be written again.
class MissingExternal final : public Constant {
 public:
  MissingExternal(DType dtype, Dims dims, ExternalRef ref) : Constant(dtype, std::move(dims)), ref_(std::move(ref)) {}

  Tensor load() const override;
  std::string missing() const override { return "external data file '" + ref_.location + "' is missing"; }
  const ExternalRef& ref() const { return ref_; }

 private:
  ExternalRef ref_;
};

class ConstantReader {
 public:
  ConstantReader(Bytes file, std::shared_ptr<const void> owner, std::string directory, Losses& losses)
      : file_(file), owner_(std::move(owner)), external_(std::move(directory)), losses_(losses) {}

  // Throws Error when the data cannot be those of the dimensions. `name` receives the tensor's own name.
  ConstantPtr read(Bytes tensor_proto, std::string_view& name);
  ConstantPtr read_sparse(Bytes sparse_tensor_proto, std::string_view& name);
  const ExternalFiles& external() const { return external_; }

 private:
  ConstantPtr make(const TensorFields& tensor);
  ConstantPtr make_external(const TensorFields& tensor);

  Bytes file_;
  std::shared_ptr<const void> owner_;
  ExternalFiles external_;
  Losses& losses_;
};

}  // namespace finity::onnx
