// The list of families, and the ops that the reference computes because LibTorch has nothing for them.
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/table/composite.h"
#include "torch/coverage.h"
#include "torch/lowering.h"

namespace finity {

namespace {

constexpr auto kHost = TorchLowering::How::host;

// Nothing of the operand but its shape counts, so there is no derivative to lose.
void lower_from_shape(TorchCall& call) { call.put(0, to_value(call.reference().front())); }

constexpr TorchLowering by_reference(std::string_view name, std::string_view domain = "") {
  return {name, domain, lower_by_reference, true, kHost};
}

constexpr TorchLowering from_shape(std::string_view name) { return {name, "", lower_from_shape, true, kHost}; }

// Constants, random numbers (drawn as the reference draws them), strings, positions, labels: results that are not
// derived, or whose derivatives nobody has asked for yet.
constexpr TorchLowering kByReference[] = {
    // Gradients as graphs of their own; derivatives of models are LibTorch's.
    by_reference("SumTo", "finity"),
    by_reference("ConvInputGradient", "finity"),
    by_reference("ConvWeightGradient", "finity"),
    by_reference("MaxPoolGradient", "finity"),
    by_reference("AveragePoolGradient", "finity"),
    by_reference("SumPoolGradient", "finity"),
    by_reference("GridSampleGradient", "finity"),
    by_reference("GridSampleSlopes", "finity"),
    by_reference("Trigamma", "finity"),
    by_reference("Polygamma", "finity"),
    by_reference("MaxRoiPlaces", "finity"),
    by_reference("FloorDiv", "finity"),
    by_reference("FloorMod", "finity"),
    by_reference("DivNoNan", "finity"),
    by_reference("Erfc", "finity"),
    by_reference("Atan2", "finity"),
    by_reference("TruncatedNormalLike", "finity"),
    by_reference("RandomIntegersLike", "finity"),
    by_reference("Stitch", "finity"),
    by_reference("ArrayNew", "finity"),
    by_reference("ArrayWrite", "finity"),
    by_reference("ArrayScatter", "finity"),
    by_reference("ArrayPush", "finity"),
    by_reference("CTCLoss", "finity"),
    by_reference("BroadcastGradientArgs", "finity"),
    by_reference("Constant"),
    by_reference("ConstantFill"),
    by_reference("GivenTensorFill"),
    by_reference("Range"),
    by_reference("Range", "com.microsoft"),
    from_shape("EyeLike"),
    by_reference("NonZero"),
    by_reference("Unique"),
    by_reference("Unique", "com.microsoft"),
    by_reference("BitCast"),
    by_reference("RandomNormal"),
    from_shape("RandomNormalLike"),
    by_reference("RandomUniform"),
    from_shape("RandomUniformLike"),
    by_reference("Bernoulli"),
    by_reference("Multinomial"),
    by_reference("NonMaxSuppression"),
    by_reference("StringConcat"),
    by_reference("StringNormalizer"),
    by_reference("StringSplit"),
    by_reference("RegexFullMatch"),
    by_reference("TfIdfVectorizer"),
    by_reference("BlackmanWindow"),
    by_reference("HammingWindow"),
    by_reference("HannWindow"),
    by_reference("MelWeightMatrix"),
    by_reference("QuantizeLinear"),
    by_reference("QuantizeLinear", "com.microsoft"),
    by_reference("DequantizeLinear"),
    by_reference("DequantizeLinear", "com.microsoft"),
    by_reference("DynamicQuantizeLinear"),
    by_reference("QLinearMatMul"),
    by_reference("QLinearConv"),
    by_reference("QGemm", "com.microsoft"),
    by_reference("MatMulIntegerToFloat", "com.microsoft"),
    by_reference("DynamicQuantizeMatMul", "com.microsoft"),
    by_reference("LabelEncoder", "ai.onnx.ml"),
    by_reference("CategoryMapper", "ai.onnx.ml"),
    by_reference("OneHotEncoder", "ai.onnx.ml"),
    by_reference("TreeEnsembleClassifier", "ai.onnx.ml"),
    by_reference("TreeEnsembleRegressor", "ai.onnx.ml"),
    by_reference("TreeEnsemble", "ai.onnx.ml"),
    by_reference("Imputer", "ai.onnx.ml"),
    by_reference("Binarizer", "ai.onnx.ml"),
    by_reference("FeatureVectorizer", "ai.onnx.ml"),
    by_reference("Normalizer", "ai.onnx.ml"),
    by_reference("LinearClassifier", "ai.onnx.ml"),
    by_reference("LinearRegressor", "ai.onnx.ml"),
    by_reference("SVMClassifier", "ai.onnx.ml"),
    by_reference("SVMRegressor", "ai.onnx.ml"),
    by_reference("Scaler", "ai.onnx.ml"),
    by_reference("DeformConv"),
    by_reference("Col2Im"),
    by_reference("MaxRoiPool"),
    by_reference("RoiAlign"),
    by_reference("LinearAttention"),
    by_reference("MatMulNBits", "com.microsoft"),
    by_reference("GatherBlockQuantized", "com.microsoft"),
    by_reference("GroupQueryAttention", "com.microsoft"),
    by_reference("DynamicQuantizeLSTM", "com.microsoft"),
    by_reference("InPlaceAccumulatorV2", "com.microsoft"),
};

std::string key(std::string_view domain, std::string_view name) {
  return std::string(domain) + ":" + std::string(name);
}

constexpr std::span<const TorchLowering> (*kFamilies[])() = {
    torch_elementwise, torch_activations, torch_reductions, torch_linear,      torch_windows,
    torch_norms,       torch_samples,     torch_movements,  torch_losses,      torch_attention,
    torch_microsoft,   torch_recurrent,   torch_flow,       torch_by_reference};

struct Table {
  std::unordered_map<std::string, const TorchLowering*> by_key;

  Table() {
    for (const auto family : kFamilies) {
      for (const TorchLowering& lowering : family()) by_key.emplace(key(lowering.domain, lowering.name), &lowering);
    }
  }
};

}  // namespace

std::span<const TorchLowering> torch_by_reference() { return kByReference; }

std::string_view how_lowered(const OpDef& op) {
  constexpr std::string_view kNames[] = {"native", "moved", "host"};
  const TorchLowering* lowering = find_lowering(op);
  return lowering == nullptr ? "no" : kNames[static_cast<std::size_t>(lowering->how)];
}

std::vector<std::pair<std::string_view, std::string_view>> lowered_ops() {
  std::vector<std::pair<std::string_view, std::string_view>> result;
  for (const auto family : kFamilies) {
    for (const TorchLowering& lowering : family()) result.emplace_back(lowering.domain, lowering.name);
  }
  return result;
}

namespace {

// A composite, part by part.
class PartLowering : public PartWriter<TorchValue> {
 public:
  explicit PartLowering(Rng& rng) : rng_(rng) {}

  ValueId keep_value(TorchValue value) {
    Type type = Type::tensor_of(value.dtype, Dims(value.tensor.sizes().begin(), value.tensor.sizes().end()));
    return keep(std::move(value), std::move(type));
  }
  ValueId constant(Tensor tensor) override { return keep_value(to_value(Datum(std::move(tensor)))); }
  const Tensor* known(ValueId /*id*/) const override { return nullptr; }

 protected:
  std::vector<ValueId> run(const OpCall& part, const std::vector<ValueId>& inputs) override {
    static const TorchCall::RunBody kNoBody = {};
    const TorchLowering* lowering = find_lowering(*part.op);
    if (lowering == nullptr) throw Unsupported(std::string(part.op->identity.name) + " is not lowered to LibTorch");
    std::vector<TorchValue> operands;
    for (const ValueId id : inputs) operands.push_back(id.valid() ? at(id) : TorchValue{});
    TorchCall call(part, operands, {}, rng_, kNoBody);
    lowering->lower(call);
    std::vector<ValueId> results;
    for (TorchValue& result : call.outs()) {
      results.push_back(result.tensor.defined() ? keep_value(std::move(result)) : ValueId{});
    }
    return results;
  }

 private:
  Rng& rng_;
};

void lower_body(TorchCall& call) {
  call.inferred_dims();  // checks the operands
  PartLowering parts(call.rng());
  std::vector<ValueId> operands(call.input_count());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (call.has(i)) operands[i] = parts.keep_value(call.value(i));
  }
  const std::vector<ValueId> results = write_body(call, std::move(operands), parts);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].valid()) call.out(i, parts.at(results[i]).tensor);
  }
}

}  // namespace

const TorchLowering* find_lowering(const OpDef& op) {
  static const Table kTable;
  static constexpr TorchLowering kBody{.lower = lower_body};
  // Parts of what has no derivative are computed by the reference, at least the last.
  static constexpr TorchLowering kIntegers{.lower = lower_body, .how = TorchLowering::How::host};
  const auto found = kTable.by_key.find(key(op.identity.domain, op.identity.name));
  if (found != kTable.by_key.end()) return found->second;
  if (op.meaning.body == nullptr) return nullptr;
  return op.analysis.vjp != nullptr ? &kBody : &kIntegers;
}

// Results without derivatives must not pass for results whose derivative is zero.
void lower_by_reference(TorchCall& call) {
  bool derived = false;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    derived = derived || (call.value(i).tensor.defined() && call.in(i).requires_grad());
  }
  const std::vector<Datum> results = call.reference();
  for (std::size_t i = 0; i < results.size(); ++i) {
    TorchValue value = to_value(results[i]);
    const bool real = value.tensor.defined() && at::isFloatingType(value.tensor.scalar_type());
    if (derived && real) throw Unsupported("LibTorch has no derivative of this op");
    call.put(i, std::move(value));
  }
}

}  // namespace finity
