#include "formats/onnx/constants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace finity::onnx {

namespace {

// Elements that lie in the file as raw_data does.
class PlainConstant final : public Constant {
 public:
  PlainConstant(DType dtype, Dims dims, Bytes bytes, std::shared_ptr<const void> owner)
      : Constant(dtype, std::move(dims)), bytes_(bytes), owner_(std::move(owner)) {}

  Tensor load() const override { return decode_plain(dtype(), dims(), bytes_); }
  Bytes raw() const override { return info(dtype()).bits >= 8 ? bytes_ : Bytes{}; }

 private:
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
};

// Elements in one of the typed fields: decoding walks the message again.
class TypedConstant final : public Constant {
 public:
  TypedConstant(const TensorFields& tensor, std::shared_ptr<const void> owner)
      : Constant(tensor.dtype, tensor.dims), field_(tensor.typed), message_(tensor.message), owner_(std::move(owner)) {}

  Tensor load() const override { return decode_typed(dtype(), dims(), field_, message_); }

 private:
  DataField field_;
  Bytes message_;
  std::shared_ptr<const void> owner_;
};

std::string listed(std::size_t item) { return "sparse element " + std::to_string(item); }

// Positions in the dense tensor, from either layout of the indices; checks the range of each.
std::vector<std::int64_t> positions(const Tensor& indices, const Dims& dims) {
  const std::span<const std::int64_t> numbers = indices.data<std::int64_t>();
  if (indices.rank() == 1) return {numbers.begin(), numbers.end()};
  const std::size_t rank = dims.size();
  std::vector<std::int64_t> result(static_cast<std::size_t>(indices.dim(0)));
  for (std::size_t item = 0; item < result.size(); ++item) {
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t index = numbers[item * rank + axis];
      if (index < 0 || index >= dims[axis]) {
        throw Error(listed(item) + ": index " + std::to_string(index) + " is outside " + to_string(dims));
      }
      result[item] = result[item] * dims[axis] + index;
    }
  }
  return result;
}

void check_sparse_shapes(const Dims& dims, const Constant& values, const Constant& indices) {
  if (values.dims().size() != 1)
    throw Error("sparse values have shape " + to_string(values.dims()) + ", expected one axis");
  if (indices.dtype() != DType::int64)
    throw Error("sparse indices are " + std::string(name(indices.dtype())) + ", expected int64");
  const Dims linear = {values.dims()[0]};
  const Dims coordinates = {values.dims()[0], static_cast<std::int64_t>(dims.size())};
  if (indices.dims() != linear && indices.dims() != coordinates) {
    throw Error("sparse indices have shape " + to_string(indices.dims()) + ", expected " + to_string(linear) + " or " +
                to_string(coordinates));
  }
}

}  // namespace

SparseConstant::SparseConstant(Dims dims, ConstantPtr values, ConstantPtr indices)
    : Constant(values->dtype(), std::move(dims)), values_(std::move(values)), indices_(std::move(indices)) {
  plain_size(dtype(), this->dims());
  check_sparse_shapes(this->dims(), *values_, *indices_);
}

std::string SparseConstant::missing() const {
  const std::string reason = values_->missing();
  return reason.empty() ? indices_->missing() : reason;
}

Tensor SparseConstant::load() const {
  const Tensor values = values_->load();
  const std::vector<std::int64_t> places = positions(indices_->load(), dims());
  const std::int64_t size = element_count(dims());
  for (std::size_t item = 0; item < places.size(); ++item) {
    const std::int64_t place = places[item];
    if (place < 0 || place >= size) {
      throw Error(listed(item) + ": index " + std::to_string(place) + " is outside " + to_string(dims()));
    }
    if (item > 0 && place <= places[item - 1]) throw Error(listed(item) + ": indices do not ascend");
  }
  Tensor dense(dtype(), dims());
  if (dtype() == DType::string) {
    for (std::size_t i = 0; i < places.size(); ++i)
      dense.mutable_strings()[static_cast<std::size_t>(places[i])] = values.strings()[i];
    return dense;
  }
  const auto width = static_cast<std::size_t>(info(dtype()).memory_bytes);
  const std::span<std::byte> out = dense.mutable_bytes();
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::memcpy(out.data() + static_cast<std::size_t>(places[i]) * width, values.bytes().data() + i * width, width);
  }
  return dense;
}

Tensor MissingExternal::load() const { throw Error(missing()); }

ConstantPtr ConstantReader::read(Bytes tensor_proto, std::string_view& name) {
  const TensorFields tensor = scan_tensor(tensor_proto, file_.data());
  name = tensor.name;
  return make(tensor);
}

ConstantPtr ConstantReader::make(const TensorFields& tensor) {
  if (tensor.described) losses_.add(Loss::tensor_docs);
  if (tensor.external) return make_external(tensor);
  check_data_size(tensor);
  if (tensor.dtype == DType::string) return std::make_shared<TypedConstant>(tensor, owner_);
  if (tensor.typed == DataField::none || !tensor.raw.empty()) {
    return std::make_shared<PlainConstant>(tensor.dtype, tensor.dims, tensor.raw, owner_);
  }
  const Bytes plain = plain_typed_data(tensor);
  if (!plain.empty()) return std::make_shared<PlainConstant>(tensor.dtype, tensor.dims, plain, owner_);
  return std::make_shared<TypedConstant>(tensor, owner_);
}

ConstantPtr ConstantReader::make_external(const TensorFields& tensor) {
  if (tensor.dtype == DType::string) throw Error("strings cannot be external data");
  ExternalRef ref = read_external_ref(tensor.external_data, file_.data());
  const std::int64_t wanted = plain_size(tensor.dtype, tensor.dims);
  if (ref.length && *ref.length != wanted) {
    throw Error(std::to_string(*ref.length) + " bytes of external data, " + std::to_string(wanted) + " expected for " +
                describe_tensor(tensor.dtype, tensor.dims));
  }
  const std::shared_ptr<const MappedFile> file = external_.open(ref.location);
  if (!file) return std::make_shared<MissingExternal>(tensor.dtype, tensor.dims, std::move(ref));
  const auto size = static_cast<std::int64_t>(file->bytes().size());
  if (ref.offset > size || wanted > size - ref.offset) {
    throw Error("external data '" + ref.location + "' has " + std::to_string(size) + " bytes, " +
                std::to_string(wanted) + " expected at offset " + std::to_string(ref.offset));
  }
  const Bytes bytes = file->bytes().subspan(static_cast<std::size_t>(ref.offset), static_cast<std::size_t>(wanted));
  return std::make_shared<PlainConstant>(tensor.dtype, tensor.dims, bytes, file);
}

ConstantPtr ConstantReader::read_sparse(Bytes sparse_tensor_proto, std::string_view& name) {
  ConstantPtr values;
  ConstantPtr indices;
  Dims dims;
  std::string_view ignored;
  for (Cursor cursor(sparse_tensor_proto, file_.data()); cursor.next();) {
    switch (cursor.field()) {
      case 1: values = read(cursor.bytes(), name); break;
      case 2: indices = read(cursor.bytes(), ignored); break;
      case 3: cursor.append(dims); break;
      default: losses_.add(Loss::unknown_fields);
    }
  }
  if (!values || !indices) throw Error("a sparse tensor without values or indices");
  return std::make_shared<SparseConstant>(std::move(dims), std::move(values), std::move(indices));
}

}  // namespace finity::onnx
