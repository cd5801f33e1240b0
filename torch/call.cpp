#include "torch/call.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

TorchCall::TorchCall(OpCall what, std::span<const TorchValue> in, std::span<const DType> dtypes, Rng& rng,
                     const RunBody& run_body)
    : Call(std::move(what)), in_(in), dtypes_(dtypes), out_(output_count()), rng_(rng), run_body_(run_body) {}

const TorchValue& TorchCall::value(std::size_t i) const {
  static const TorchValue kAbsent;
  return i < in_.size() ? in_[i] : kAbsent;
}

const at::Tensor& TorchCall::in(std::size_t i) const {
  const TorchValue& value = this->value(i);
  if (value.dtype == DType::string) throw Unsupported("LibTorch has no strings");
  if (!value.tensor.defined()) throw Error("input " + std::to_string(i) + " is not a tensor");
  return value.tensor;
}

std::vector<std::int64_t> TorchCall::ints(std::size_t i) const {
  const at::Tensor list = in(i).detach().to(at::kLong).contiguous();
  const auto* first = list.data_ptr<std::int64_t>();
  return {first, first + list.numel()};
}

double TorchCall::number(std::size_t i) const {
  require_plain(i);
  return in(i).item<double>();
}

void TorchCall::require_plain(std::size_t i) const {
  if (value(i).tensor.defined() && value(i).tensor.requires_grad())
    throw Unsupported("LibTorch has no derivative of this op by input " + std::to_string(i));
}

void TorchCall::out(std::size_t i, const at::Tensor& tensor) {
  if (!has_output(i)) return;
  const DType dtype = out_dtype(i) == DType::undefined ? dtype_of(tensor.scalar_type()) : out_dtype(i);
  out_[i].dtype = dtype;
  out_[i].tensor = settled(tensor, dtype);
}

void TorchCall::put(std::size_t i, TorchValue value) {
  if (has_output(i)) out_[i] = std::move(value);
}

std::vector<Dims> TorchCall::inferred_dims() const {
  std::vector<Tensor> known(in_.size());
  std::vector<InferCall::Operand> operands(in_.size());
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (!in_[i].tensor.defined()) continue;
    operands[i].type = Type::tensor_of(in_[i].dtype, in_[i].tensor.sizes().vec());
    if (i == 0 || in_[i].tensor.numel() > 1024) continue;
    known[i] = to_host(in_[i].tensor, in_[i].dtype);
    operands[i].value = &known[i];
  }
  InferCall call(description(), std::move(operands));
  op().meaning.infer(call);
  std::vector<Dims> result;
  for (const Type& type : call.outs()) {
    const std::optional<Dims> dims = type.ranked ? type.dims() : std::nullopt;
    if (!dims) throw Unsupported("the size of the result does not follow from the operands' shapes");
    result.push_back(*dims);
  }
  return result;
}

std::vector<Datum> TorchCall::reference() const {
  std::vector<Datum> operands;
  for (const TorchValue& value : in_) operands.push_back(to_datum(value));
  return reference(operands);
}

std::vector<Datum> TorchCall::reference(std::span<const Datum> operands) const {
  EvalCall call(description(), operands, rng_);
  op().meaning.eval(call);
  return std::move(call.outs());
}

}  // namespace finity
