#include "fuzz/grower.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "exec/reference.h"
#include "fuzz/drawing.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

constexpr std::int64_t kMostElements = 4096;
constexpr double kMostMagnitude = 1e7;
constexpr int kTries = 12;

bool is_ordinary(const Tensor& tensor) {
  if (tensor.size() > kMostElements || tensor.rank() > 6) return false;
  if (!is_float(tensor.dtype())) return tensor.dtype() != DType::string && !is_complex(tensor.dtype());
  const double most = tensor.dtype() == DType::float16 ? 1e4 : kMostMagnitude;
  return std::ranges::all_of(elements<double>(tensor), [&](double x) { return std::abs(x) <= most; });
}

double draw_float(Rng& rng, ValueClass values) {
  switch (values) {
    case ValueClass::integers: return static_cast<double>(rng.below(9)) - 4;
    case ValueClass::positive: return rng.uniform(0.1, 3);
    case ValueClass::tiny_steps: return 1 + static_cast<double>(rng.below(5)) * 0x1p-20;
    case ValueClass::wide: return rng.normal() * std::pow(10.0, static_cast<double>(rng.below(9)) - 4);
    case ValueClass::ties: return static_cast<double>(rng.below(3)) - 1;
    default: return rng.normal();
  }
}

// At the ends of an integer type, of narrower ones, and around zero: where conversions and divisions go wrong.
std::int64_t draw_end(Rng& rng, DType dtype) {
  const double least = lowest_finite(dtype), most = max_finite(dtype);
  // Numbers beyond 2^53 are no doubles, so nothing would be claimed of them.
  const auto low = static_cast<std::int64_t>(std::max(least, -0x1p50)),
             high = static_cast<std::int64_t>(std::min(most, 0x1p50));
  if (most < 300 && rng.below(2) == 0)
    return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
  std::int64_t value = std::int64_t{1} << (std::uint64_t{8} << rng.below(3));
  constexpr std::uint64_t kKinds = 8;
  switch (rng.below(kKinds)) {
    case 0: return low;
    case 1: return high;
    case 2: return low + 1;
    case 3: return high - 1;
    case 4: value = -value; break;
    case 5: value = value / 2; break;
    case 6: value = -value / 2; break;
    default: break;
  }
  return value >= low && value <= high ? value : static_cast<std::int64_t>(rng.below(3)) - (low < 0 ? 1 : 0);
}

}  // namespace

Grower::Grower(Rng& rng, int opset, std::string origin) : rng_(rng) {
  sample_.opset = opset;
  sample_.origin = std::move(origin);
}

std::string Grower::new_name(std::string_view stem) { return std::string(stem) + std::to_string(named_++); }

std::string Grower::add_input(Tensor tensor) {
  std::string name = new_name("x");
  values_[name] = tensor;
  sample_.inputs[name] = std::move(tensor);
  names_.push_back(name);
  return name;
}

std::string Grower::add_constant(Tensor tensor) {
  std::string name = new_name("c");
  values_[name] = tensor;
  sample_.constants[name] = std::move(tensor);
  return name;
}

Tensor Grower::draw(DType dtype, Dims dims) {
  constexpr ValueClass kUsual[] = {ValueClass::normal,   ValueClass::normal,   ValueClass::normal, ValueClass::integers,
                                   ValueClass::integers, ValueClass::positive, ValueClass::wide,   ValueClass::ties};
  ValueClass values = chance(4) ? ValueClass::tiny_steps : kUsual[rng_.below(std::size(kUsual))];
  // Large integers overflow in the next product, of which no operator says what comes out.
  if (!is_float(dtype) && values == ValueClass::wide) values = ValueClass::integers;
  return draw(dtype, std::move(dims), values);
}

Tensor Grower::draw(DType dtype, Dims dims, ValueClass values) {
  const auto count = static_cast<std::size_t>(element_count(dims));
  if (is_float(dtype)) {
    std::vector<double> floats(count);
    for (double& x : floats) x = draw_float(rng_, values);
    return from_elements<double>(dtype, std::move(dims), floats);
  }
  std::vector<std::int64_t> numbers(count);
  for (std::int64_t& x : numbers) {
    if (dtype == DType::boolean) x = between(0, 1);
    else if (values == ValueClass::ends) x = draw_end(rng_, dtype);
    else if (values == ValueClass::wide) x = between(-70000, 70000);
    else x = values == ValueClass::positive ? between(1, 9) : between(-6, 9);
  }
  return from_elements<std::int64_t>(dtype, std::move(dims), numbers);
}

Dims Grower::broadcastable(const Dims& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t how = between(0, 99), kept = rank == 0 ? -1 : between(0, rank - 1);
  const std::int64_t last = between(0, rank);
  Dims result = dims;
  for (std::int64_t i = 0; i < rank; ++i) {
    const bool once = how < 15 || (how < 45 && i != kept) || (how >= 45 && how < 60 && i < last) ||
                      (how >= 60 && how < 80 && chance(30));
    if (once) result[static_cast<std::size_t>(i)] = 1;
  }
  // Axes of size 1 in front may be written or not.
  const auto first = std::ranges::find_if(result, [](std::int64_t size) { return size != 1; });
  if (chance(60)) result.erase(result.begin(), first);
  else if (chance(40)) result.erase(result.begin(), result.begin() + between(0, first - result.begin()));
  if (result.size() == dims.size() && chance(10)) result.insert(result.begin(), between(1, 2));
  return result;
}

std::optional<std::vector<Tensor>> Grower::tried(const Step& step,
                                                 const std::map<std::string, Tensor, std::less<>>& more) {
  Sample alone{.opset = sample_.opset, .steps = {step}};
  for (const std::string& input : step.inputs) {
    if (input.empty()) continue;
    const auto found = more.find(input);
    alone.inputs[input] = found != more.end() ? found->second : values_.at(input);
  }
  for (const std::string& output : step.outputs) {
    if (!output.empty()) alone.outputs.push_back(output);
  }
  try {
    const Graph model = graph(alone);
    infer_types(model);
    std::vector<Tensor> results;
    for (const Datum& datum : run_reference(model, inputs_of(alone))) {
      if (datum.tensor() == nullptr || !is_ordinary(*datum.tensor())) return std::nullopt;
      results.push_back(*datum.tensor());
    }
    return results;
  } catch (const Error&) {
    refused_ = std::move(alone);
    return std::nullopt;
  }
}

std::vector<std::string> Grower::keep(Step step, std::vector<Tensor> results) {
  std::vector<std::string> made;
  std::size_t next = 0;
  for (const std::string& output : step.outputs) {
    if (output.empty()) continue;
    values_[output] = std::move(results[next++]);
    names_.push_back(output);
    made.push_back(output);
  }
  sample_.steps.push_back(std::move(step));
  return made;
}

std::vector<std::string> Grower::add(const OpDef& op, const std::string& first) {
  if (op.meaning.eval == nullptr || op.identity.since > sample_.opset ||
      (op.identity.until != 0 && op.identity.until < sample_.opset))
    return {};
  for (int i = 0; i < kTries; ++i) {
    // Two attributes may never go together.
    if (i == kTries / 2) aims_.clear();
    std::optional<Drawn> drawn = draw_step(*this, op, first);
    if (!drawn || !fits_opset(drawn->step, sample_.opset)) continue;
    for (std::string& output : drawn->step.outputs) output = output.empty() ? output : new_name("y");
    std::optional<std::vector<Tensor>> results = tried(drawn->step, drawn->given);
    if (!results) continue;
    for (auto& [name, tensor] : drawn->given) {
      values_[name] = tensor;
      const bool constant = drawn->constants.contains(name);
      (constant ? sample_.constants : sample_.inputs)[name] = tensor;
      if (!constant) names_.push_back(name);
    }
    return keep(std::move(drawn->step), std::move(*results));
  }
  return {};
}

std::vector<std::string> Grower::add(std::string_view op, std::vector<std::string> inputs, Attrs attrs,
                                     std::size_t outputs) {
  Step step{.op = std::string(op), .inputs = std::move(inputs), .attrs = std::move(attrs)};
  for (std::size_t i = 0; i < outputs; ++i) step.outputs.push_back(new_name("y"));
  std::optional<std::vector<Tensor>> results = tried(step, {});
  if (!results) return {};
  return keep(std::move(step), std::move(*results));
}

Sample Grower::finish() && {
  sample_.outputs = loose_ends(sample_);
  drop_unneeded(sample_);
  return std::move(sample_);
}

namespace {

// From which operator set on an op has an attribute, or has it as an operand instead.
struct Form {
  std::string_view op, attr;
  int first = 1, last = 0;
};
constexpr Form kForms[] = {{"LayerNormalization", "", 17},
                           {"Gelu", "", 20},
                           {"RMSNormalization", "", 23},
                           {"SimplifiedLayerNormalization", "", 99},
                           {"AveragePool", "dilations", 19},
                           {"AveragePool", "ceil_mode", 10},
                           {"MaxPool", "ceil_mode", 10},
                           {"MaxPool", "dilations", 10},
                           {"LpPool", "ceil_mode", 18},
                           {"LpPool", "dilations", 18},
                           {"ReduceSum", "noop_with_empty_axes", 13},
                           {"*Reduce", "noop_with_empty_axes", 18},
                           {"ReduceSum", "axes", 1, 12},
                           {"*Reduce", "axes", 1, 17},
                           {"Squeeze", "axes", 1, 12},
                           {"Unsqueeze", "axes", 1, 12},
                           {"Split", "split", 1, 12},
                           {"Split", "num_outputs", 18},
                           {"Reshape", "allowzero", 14},
                           {"Reshape", "shape", 1, 4},
                           {"Clip", "min", 1, 10},
                           {"Clip", "max", 1, 10},
                           {"Pad", "pads", 1, 10},
                           {"Pad", "value", 1, 10},
                           {"Slice", "starts", 1, 9},
                           {"Slice", "ends", 1, 9},
                           {"Slice", "axes", 1, 9},
                           {"TopK", "k", 1, 9},
                           {"TopK", "largest", 11},
                           {"TopK", "sorted", 11},
                           {"ArgMax", "select_last_index", 12},
                           {"ArgMin", "select_last_index", 12},
                           {"DepthToSpace", "mode", 11},
                           {"Cast", "saturate", 19},
                           {"CastLike", "saturate", 19},
                           {"Shape", "start", 15},
                           {"Shape", "end", 15},
                           {"BatchNormalization", "spatial", 1, 8},
                           {"BatchNormalization", "training_mode", 14},
                           {"BatchNormalization", "is_test", 1, 6},
                           {"Dropout", "ratio", 1, 11},
                           {"Dropout", "is_test", 1, 6},
                           {"ScatterElements", "reduction", 16},
                           {"ScatterND", "reduction", 16},
                           {"Resize", "antialias", 18},
                           {"Resize", "axes", 18},
                           {"Resize", "keep_aspect_ratio_policy", 18},
                           {"Tile", "tiles", 1, 5},
                           {"Upsample", "scales", 7, 8},
                           {"Upsample", "height_scale", 1, 6},
                           {"Upsample", "width_scale", 1, 6},
                           {"GatherND", "batch_dims", 12},
                           {"QuantizeLinear", "axis", 13},
                           {"DequantizeLinear", "axis", 13},
                           {"QuantizeLinear", "saturate", 19},
                           {"Add", "axis", 1, 6},
                           {"Sub", "axis", 1, 6},
                           {"Mul", "axis", 1, 6},
                           {"Div", "axis", 1, 6},
                           {"Pow", "axis", 1, 6},
                           {"And", "axis", 1, 6},
                           {"Or", "axis", 1, 6},
                           {"Xor", "axis", 1, 6},
                           {"Equal", "axis", 1, 6},
                           {"Less", "axis", 1, 6},
                           {"Greater", "axis", 1, 6},
                           {"LSTM", "layout", 14},
                           {"GRU", "layout", 14},
                           {"RNN", "layout", 14}};
// The same for the number of operands.
constexpr Form kOperands[] = {{"ReduceSum", "2", 13}, {"*Reduce", "2", 18}, {"Squeeze", "2", 13},
                              {"Unsqueeze", "2", 13}, {"Split", "2", 13},   {"Clip", "2", 11},
                              {"Pad", "2", 11},       {"Pad", "4", 18},     {"Slice", "2", 10},
                              {"TopK", "2", 10},      {"Dropout", "2", 12}, {"Resize", "3", 11}};

bool speaks_of(const Form& form, const std::string& op) {
  return form.op == op || (form.op == "*Reduce" && op.starts_with("Reduce") && op != "ReduceSum");
}

// Axes count from the end only since operator set 11.
bool counts_from_the_end(const Step& step) {
  for (const char* name : {"axis", "axes"}) {
    const Attr* attr = step.attrs.find(name);
    if (attr == nullptr) continue;
    if (const auto* one = std::get_if<std::int64_t>(attr); one != nullptr && *one < 0) return true;
    const auto* list = std::get_if<std::vector<std::int64_t>>(attr);
    if (list != nullptr && std::ranges::any_of(*list, [](std::int64_t axis) { return axis < 0; })) return true;
  }
  return false;
}

}  // namespace

bool fits_opset(const Step& step, int opset) {
  if (!step.domain.empty()) return true;
  if (opset < 11 && counts_from_the_end(step)) return false;
  for (const Form& form : kForms) {
    if (form.attr.empty() && form.op == step.op && opset < form.first) return false;  // the table has it earlier
  }
  if (const Attr* how = step.attrs.find("reduction"); how != nullptr && opset < 18) {
    const std::string& name = std::get<std::string>(*how);
    if (name == "max" || name == "min") return false;
  }
  if (const Attr* mode = step.attrs.find("mode"); step.op == "Pad" && mode != nullptr && opset < 19) {
    if (std::get<std::string>(*mode) == "wrap") return false;
  }
  if (const Attr* how = step.attrs.find("coordinate_transformation_mode"); how != nullptr && opset < 19) {
    if (std::get<std::string>(*how) == "half_pixel_symmetric") return false;
  }
  if (const Attr* mode = step.attrs.find("mode"); step.op == "Upsample" && mode != nullptr && opset >= 7) {
    if (std::get<std::string>(*mode) == "bilinear") return false;
  }
  for (const auto& [attr, value] : step.attrs) {
    if (attr == "consumed_inputs") return false;
    for (const Form& form : kForms) {
      if (!speaks_of(form, step.op) || form.attr != attr) continue;
      if (opset < form.first || (form.last != 0 && opset > form.last)) return false;
    }
  }
  return std::ranges::all_of(kOperands, [&](const Form& form) {
    const auto many = static_cast<std::size_t>(form.attr.front() - '0');
    return !speaks_of(form, step.op) || step.inputs.size() < many || opset >= form.first;
  });
}

}  // namespace finity::fuzz
