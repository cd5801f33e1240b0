#include "fuzz/nnsmith.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

constexpr int kNodes = 5;
constexpr int kOpset = 17;
constexpr int kTries = 3;  // of an op's parameters, as NNSmith has it
constexpr std::int64_t kMostElements = 2048;

// The core of its ops.
constexpr std::string_view kOps[] = {"Abs",
                                     "Neg",
                                     "Relu",
                                     "LeakyRelu",
                                     "PRelu",
                                     "Sigmoid",
                                     "Tanh",
                                     "Sin",
                                     "Cos",
                                     "Tan",
                                     "Asin",
                                     "Acos",
                                     "Atan",
                                     "Ceil",
                                     "Floor",
                                     "Round",
                                     "Sqrt",
                                     "Log",
                                     "Exp",
                                     "Not",
                                     "Add",
                                     "Sub",
                                     "Mul",
                                     "Div",
                                     "Max",
                                     "Min",
                                     "Pow",
                                     "Equal",
                                     "Greater",
                                     "Less",
                                     "Or",
                                     "And",
                                     "Xor",
                                     "Where",
                                     "Clip",
                                     "MaxPool",
                                     "AveragePool",
                                     "Conv",
                                     "MatMul",
                                     "Gemm",
                                     "Pad",
                                     "Slice",
                                     "Reshape",
                                     "Transpose",
                                     "Resize",
                                     "ReduceSum",
                                     "Concat",
                                     "ReduceMin",
                                     "ReduceMax",
                                     "ReduceMean",
                                     "ArgMin",
                                     "ArgMax",
                                     "Trilu",
                                     "Cast",
                                     "Expand",
                                     "Softmax",
                                     "Squeeze",
                                     "Unsqueeze",
                                     "BatchNormalization",
                                     "Tile"};

const OpDef& any_op(Rng& rng) { return *find_op("", kOps[rng.below(std::size(kOps))]); }

DType any_dtype(Rng& rng) {
  constexpr DType kTypes[] = {DType::float32, DType::float32, DType::float32, DType::float32,
                              DType::float64, DType::int32,   DType::int64,   DType::boolean};
  return kTypes[rng.below(std::size(kTypes))];
}

// Sizes from [2^i, 2^(i+1)), halved until the tensor is small enough.
Dims binned_dims(Rng& rng) {
  Dims dims(rng.below(5));
  for (std::int64_t& size : dims) {
    const std::int64_t low = std::int64_t{1} << rng.below(6);
    size = low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(low)));
  }
  while (element_count(dims) > kMostElements) {
    std::int64_t& largest = *std::ranges::max_element(dims);
    largest /= 2;
  }
  return dims;
}

// Shapes from which an op may come to this one: the same, in another order, or longer along an axis.
Dims dims_before(Dims dims, Rng& rng) {
  const std::uint64_t how = rng.below(4);
  if (dims.empty() || how == 0) return dims;
  if (how == 1) {
    for (std::size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[rng.below(i)]);
  } else if (how == 2) {
    dims[rng.below(dims.size())] += 1 + static_cast<std::int64_t>(rng.below(3));
  } else {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(rng.below(dims.size() + 1)), 1);
  }
  return dims;
}

// All of one sample's names that another must not have.
Sample with_names(Sample sample, const std::string& mark) {
  const auto renamed = [&](auto& tensors) {
    std::map<std::string, Tensor, std::less<>> result;
    for (auto& [name, tensor] : tensors) result[name + mark] = std::move(tensor);
    tensors = std::move(result);
  };
  renamed(sample.inputs);
  renamed(sample.constants);
  for (Step& step : sample.steps) {
    for (auto* names : {&step.inputs, &step.outputs}) {
      for (std::string& name : *names) name += name.empty() ? "" : mark;
    }
  }
  return sample;
}

bool is_legal(const Sample& sample) {
  try {
    const Graph model = graph(sample, true);
    infer_types(model);
    return std::ranges::all_of(run_reference(model, inputs_of(sample)), [](const Datum& datum) {
      if (datum.tensor() == nullptr || !is_float(datum.tensor()->dtype())) return datum.tensor() != nullptr;
      return std::ranges::all_of(elements<double>(*datum.tensor()),
                                 [](double x) { return std::isfinite(x) && std::abs(x) < 1e7; });
    });
  } catch (const Error&) {
    return false;
  }
}

// An op whose result takes the place of a placeholder.
bool insert_before(Sample& sample, Rng& rng, const std::string& mark) {
  std::vector<std::string> places;
  for (const auto& [name, tensor] : sample.inputs) places.push_back(name);
  if (places.empty()) return false;
  const std::string place = places[rng.below(places.size())];
  const Tensor& old = sample.inputs.at(place);
  const OpDef& op = any_op(rng);
  for (int i = 0; i < kTries; ++i) {
    Grower grower(rng, sample.opset, "nnsmith");
    const std::string first = grower.add_input(grower.draw(old.dtype(), dims_before(old.dims(), rng)));
    const std::vector<std::string> made = grower.add(op, first);
    if (made.size() != 1) continue;
    const Tensor& result = grower.value(made.front());
    if (result.dtype() != old.dtype() || result.dims() != old.dims()) continue;
    Sample front = with_names(grower.sample(), mark);
    front.steps.front().outputs = {place};
    Sample whole = sample;
    whole.inputs.erase(place);
    whole.inputs.merge(front.inputs);
    whole.constants.merge(front.constants);
    whole.steps.insert(whole.steps.begin(), front.steps.begin(), front.steps.end());
    if (!is_legal(whole)) continue;
    sample = std::move(whole);
    return true;
  }
  return false;
}

}  // namespace

Generated nnsmith_sample(std::uint64_t seed, std::uint64_t index) {
  Rng rng(seed * 0x9e3779b97f4a7c15 + index);
  int backward = 0;
  for (int i = 0; i < kNodes; ++i) backward += static_cast<int>(rng.below(2));
  Grower grower(rng, kOpset, "nnsmith");
  grower.add_input(grower.draw(any_dtype(rng), binned_dims(rng)));
  for (int i = 0; i < 8 * kNodes && static_cast<int>(grower.sample().steps.size()) < std::max(kNodes - backward, 1);
       ++i)
    grower.add(any_op(rng), grower.names()[rng.below(grower.names().size())]);
  Sample sample = std::move(grower).finish();
  if (sample.steps.empty()) return {};
  for (int i = 0; i < 8 * kNodes && static_cast<int>(sample.steps.size()) < kNodes; ++i)
    insert_before(sample, rng, "b" + std::to_string(i));
  sample.outputs = loose_ends(sample);
  if (!is_legal(sample)) return {};
  return {.sample = std::move(sample)};
}

}  // namespace finity::fuzz
