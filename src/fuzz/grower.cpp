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
  if (op.meaning.eval == nullptr || std::max(op.identity.since, op.drawing.since) > sample_.opset ||
      (op.identity.until != 0 && op.identity.until < sample_.opset))
    return {};
  for (int i = 0; i < kTries; ++i) {
    // Two attributes may never go together.
    if (i == kTries / 2) aims_.clear();
    std::optional<Drawn> drawn = draw_step(*this, op, first);
    if (!drawn || !fits_opset(op, drawn->step, sample_.opset)) continue;
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

bool fits_opset(const OpDef& op, const Step& step, int opset) {
  if (!op.identity.domain.empty()) return true;
  if (opset < 11 && counts_from_the_end(step)) return false;
  const Signature& signature = signature_of(op);
  for (const auto& [name, value] : step.attrs) {
    const AttrSpec* spec = signature.attr(name);
    if (spec == nullptr || !spec->versions.hold(opset)) return false;
    const auto* text = std::get_if<std::string>(&value);
    const Choice* choice = text == nullptr ? nullptr : spec->choice(*text);
    if (choice != nullptr && !choice->versions.hold(opset)) return false;
  }
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Param* param = Signature::param(signature.inputs, i);
    if (param == nullptr || !param->versions.hold(opset)) return false;
  }
  return true;
}

}  // namespace finity::fuzz
