// Constants of TensorFlow graphs: views of a TensorProto. Few values stand for many: the last one is repeated.
#pragma once

#include <memory>
#include <optional>

#include "formats/tensorflow/graph_def.h"
#include "graph/constant.h"

namespace finity::tensorflow {

struct TensorFields {
  DType dtype = DType::undefined;
  Dims dims = {};
  Bytes content = {};  // elements as they are in memory; empty: they are in the fields of their type
  Bytes message = {};
};

// Throws Error when the data cannot be those of the dimensions.
TensorFields read_tensor_fields(Bytes message);

// The elements that the message holds, as a vector, when they are less than half of what it stands for: all others are
// equal to the last of them.
std::optional<Tensor> few_elements(const TensorFields& fields);

// One element that all others are equal to, as a vector of one; nothing when the message holds several.
std::optional<Tensor> repeated_element(const TensorFields& fields);

class TensorProtoConstant final : public Constant {
 public:
  TensorProtoConstant(const TensorFields& fields, std::shared_ptr<const void> owner);
  Tensor load() const override;
  std::span<const std::byte> raw() const override { return content_; }

 private:
  Bytes content_;
  Bytes message_;
  std::shared_ptr<const void> owner_;
};

// Plain little-endian elements somewhere in a file.
class PlainConstant final : public Constant {
 public:
  // Throws Error when `bytes` are not as many as the elements need.
  PlainConstant(DType dtype, Dims dims, Bytes bytes, std::shared_ptr<const void> owner);
  Tensor load() const override;
  std::span<const std::byte> raw() const override { return bytes_; }

 private:
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace finity::tensorflow
