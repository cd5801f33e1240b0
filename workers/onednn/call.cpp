#include "onednn/call.h"

#include "base/error.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::dnn {

const Tensor& DnnCall::tensor(std::size_t i) const {
  if (!has(i) || in_[i].tensor() == nullptr) throw Error("input " + std::to_string(i) + " is missing");
  return *in_[i].tensor();
}

const Tensor& DnnCall::in(std::size_t i) const {
  const Tensor& result = tensor(i);
  if (result.dtype() != DType::float32) {
    throw Unsupported("oneDNN is handed float32 only, not " + std::string(finity::name(result.dtype())));
  }
  return result;
}

std::vector<std::int64_t> DnnCall::ints(std::size_t i) const { return elements<std::int64_t>(tensor(i)); }

std::size_t DnnCall::outs_asked() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < output_count(); ++i) count += has_output(i) ? 1 : 0;
  return count;
}

Dims DnnCall::result_dims() const {
  std::vector<InferCall::Operand> operands(in_.size());
  for (std::size_t i = 0; i < in_.size(); ++i) {
    const Tensor* tensor = in_[i].tensor();
    if (tensor == nullptr) continue;
    operands[i].type = Type::tensor_of(tensor->dtype(), tensor->dims());
    if (i > 0) operands[i].value = tensor;
  }
  InferCall call(description(), std::move(operands));
  op().meaning.infer(call);
  const Type& type = call.outs().front();
  const std::optional<Dims> dims = type.ranked ? type.dims() : std::nullopt;
  if (!dims) throw Unsupported("the size of the result does not follow from the operands' shapes");
  return *dims;
}

std::vector<Datum> DnnCall::reference(std::span<const Datum> operands) const { return fold(description(), operands); }

const Lowering* find_lowering(const OpDef& op) {
  for (const auto& family : {activations(), windows(), products(), norms(), merges(), reductions(), movements()}) {
    for (const Lowering& entry : family) {
      if (entry.name == op.identity.name && entry.domain == op.identity.domain) return &entry;
    }
  }
  return nullptr;
}

}  // namespace finity::dnn
