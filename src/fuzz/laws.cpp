#include "fuzz/laws.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

using Ints = std::vector<std::int64_t>;

// An operand of a step, with its type.
struct Edge {
  std::size_t step = 0, input = 0;
  DType dtype = DType::undefined;
  Dims dims = {};
};

std::vector<Edge> edges(const Sample& sample) {
  const Graph model = graph(sample);
  const Types types = infer_types(model);
  std::map<std::string, ValueId, std::less<>> ids;
  for (std::size_t i = 0; i < model.values().size(); ++i)
    ids[model.values()[i].name] = ValueId{static_cast<std::int32_t>(i)};
  std::vector<Edge> result;
  for (std::size_t s = 0; s < sample.steps.size(); ++s) {
    for (std::size_t i = 0; i < sample.steps[s].inputs.size(); ++i) {
      const std::string& name = sample.steps[s].inputs[i];
      // Operands that say how (axes, shapes) must stay constants for many libraries.
      const bool says_how = i > 0 && sample.constants.contains(name) && !is_float(sample.constants.at(name).dtype());
      if (name.empty() || says_how) continue;
      const Type& type = types[ids.at(name)];
      if (type.is_tensor() && type.dims()) result.push_back({s, i, type.dtype, *type.dims()});
    }
  }
  return result;
}

std::optional<Edge> pick(const Sample& sample, Rng& rng, bool floats) {
  std::vector<Edge> all = edges(sample);
  std::erase_if(all, [&](const Edge& edge) { return floats && !is_float(edge.dtype); });
  if (all.empty()) return std::nullopt;
  return all[rng.below(all.size())];
}

// Puts steps on an edge: each is applied to what the one before gave.
class OnEdge {
 public:
  OnEdge(Sample& sample, const Edge& edge)
      : sample_(sample), edge_(edge), at_(edge.step), name_(sample.steps[edge.step].inputs[edge.input]) {}
  ~OnEdge() { sample_.steps[at_].inputs[edge_.input] = name_; }
  OnEdge(const OnEdge&) = delete;
  OnEdge& operator=(const OnEdge&) = delete;

  void add(std::string op, std::vector<std::string> more = {}, Attrs attrs = {}) {
    Step step{
        .op = std::move(op), .inputs = {name_}, .outputs = {fresh_name(sample_, "law")}, .attrs = std::move(attrs)};
    step.inputs.insert(step.inputs.end(), more.begin(), more.end());
    name_ = step.outputs[0];
    sample_.steps.insert(sample_.steps.begin() + static_cast<std::ptrdiff_t>(at_++), std::move(step));
  }
  std::string constant(Tensor tensor) {
    std::string name = fresh_name(sample_, "how");
    sample_.constants[name] = std::move(tensor);
    return name;
  }

 private:
  Sample& sample_;
  Edge edge_;
  std::size_t at_;
  std::string name_;
};

Attrs one_attr(std::string name, Attr value) {
  Attrs attrs;
  attrs.set(std::move(name), std::move(value));
  return attrs;
}

Tensor number(DType dtype, double value) { return from_elements<double>(dtype, {}, std::vector<double>{value}); }

bool constants_as_inputs(Sample& sample, Rng&) {
  bool changed = false;
  for (auto it = sample.constants.begin(); it != sample.constants.end();) {
    if (is_float(it->second.dtype())) {
      sample.inputs.insert(sample.constants.extract(it++));
      changed = true;
    } else {
      ++it;
    }
  }
  return changed;
}

bool inputs_as_constants(Sample& sample, Rng& rng) {
  if (sample.inputs.size() < 2) return false;
  auto it = std::next(sample.inputs.begin(), static_cast<std::ptrdiff_t>(rng.below(sample.inputs.size())));
  sample.constants.insert(sample.inputs.extract(it));
  return true;
}

bool identity(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (edge) OnEdge(sample, *edge).add("Identity");
  return edge.has_value();
}

bool transposed_twice(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge || edge->dims.size() < 2) return false;
  OnEdge on(sample, *edge);
  on.add("Transpose");
  on.add("Transpose");
  return true;
}

bool reshaped(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge || element_count(edge->dims) == 0) return false;
  OnEdge on(sample, *edge);
  on.add("Reshape", {on.constant(Tensor::vector_of(Ints{-1}))});
  on.add("Reshape", {on.constant(Tensor::vector_of(edge->dims))});
  return true;
}

bool cast_and_back(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, true);
  if (!edge || edge->dtype == DType::float64) return false;
  OnEdge on(sample, *edge);
  on.add("Cast", {}, one_attr("to", static_cast<std::int64_t>(DType::float64)));
  on.add("Cast", {}, one_attr("to", static_cast<std::int64_t>(edge->dtype)));
  return true;
}

bool cast_to_itself(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (edge) OnEdge(sample, *edge).add("Cast", {}, one_attr("to", static_cast<std::int64_t>(edge->dtype)));
  return edge.has_value();
}

// An op with a constant that changes nothing.
bool with_constant(Sample& sample, Rng& rng, const char* op, double value) {
  const auto edge = pick(sample, rng, true);
  if (!edge) return false;
  OnEdge on(sample, *edge);
  on.add(op, {on.constant(number(edge->dtype, value))});
  return true;
}
bool plus_zero(Sample& sample, Rng& rng) { return with_constant(sample, rng, "Add", 0); }
bool times_one(Sample& sample, Rng& rng) { return with_constant(sample, rng, "Mul", 1); }
bool divided_by_one(Sample& sample, Rng& rng) { return with_constant(sample, rng, "Div", 1); }

bool negated_twice(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, true);
  if (!edge) return false;
  OnEdge on(sample, *edge);
  on.add("Neg");
  on.add("Neg");
  return true;
}

bool doubled_and_halved(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, true);
  if (!edge) return false;
  OnEdge on(sample, *edge);
  on.add("Mul", {on.constant(number(edge->dtype, 2))});
  on.add("Mul", {on.constant(number(edge->dtype, 0.5))});
  return true;
}

bool axis_in_and_out(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge || sample.opset < 13) return false;
  OnEdge on(sample, *edge);
  const std::string axis =
      on.constant(Tensor::vector_of(Ints{static_cast<std::int64_t>(rng.below(edge->dims.size() + 1))}));
  on.add("Unsqueeze", {axis});
  on.add("Squeeze", {axis});
  return true;
}

bool cut_and_joined(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge || edge->dims.empty() || sample.opset < 10) return false;
  const auto axis = static_cast<std::int64_t>(rng.below(edge->dims.size()));
  const std::int64_t size = edge->dims[static_cast<std::size_t>(axis)];
  if (size < 2) return false;
  const std::string whole = sample.steps[edge->step].inputs[edge->input];
  const auto vector = [&](std::int64_t value) {
    std::string name = fresh_name(sample, "how");
    sample.constants[name] = Tensor::vector_of(Ints{value});
    return name;
  };
  const std::int64_t middle = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(size - 1)));
  const std::string at = vector(axis), zero = vector(0), half = vector(middle), end = vector(size);
  std::vector<std::string> parts;
  std::size_t place = edge->step;
  for (const auto& [from, to] : {std::pair(zero, half), std::pair(half, end)}) {
    parts.push_back(fresh_name(sample, "law"));
    sample.steps.insert(sample.steps.begin() + static_cast<std::ptrdiff_t>(place++),
                        {.op = "Slice", .inputs = {whole, from, to, at}, .outputs = {parts.back()}});
  }
  const std::string joined = fresh_name(sample, "law");
  sample.steps.insert(sample.steps.begin() + static_cast<std::ptrdiff_t>(place++),
                      {.op = "Concat", .inputs = parts, .outputs = {joined}, .attrs = one_attr("axis", axis)});
  sample.steps[place].inputs[edge->input] = joined;
  return true;
}

bool repeated_aloud(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge || edge->dims.empty()) return false;
  OnEdge on(sample, *edge);
  on.add("Expand", {on.constant(Tensor::vector_of(edge->dims))});
  return true;
}

bool computed_twice(Sample& sample, Rng& rng) {
  const std::size_t at = rng.below(sample.steps.size());
  Step copy = sample.steps[at];
  std::map<std::string, std::string> renamed;
  for (std::string& output : copy.outputs) {
    if (!output.empty()) output = renamed[output] = fresh_name(sample, "again" + output);
  }
  bool used = false;
  for (std::size_t i = at + 1; i < sample.steps.size() && !used; ++i) {
    for (std::string& input : sample.steps[i].inputs) {
      const auto found = renamed.find(input);
      if (found == renamed.end()) continue;
      input = found->second;
      used = true;
      break;
    }
  }
  if (!used) return false;
  sample.steps.insert(sample.steps.begin() + static_cast<std::ptrdiff_t>(at), std::move(copy));
  return true;
}

bool dead_branch(Sample& sample, Rng& rng) {
  const auto edge = pick(sample, rng, false);
  if (!edge) return false;
  const std::string name = sample.steps[edge->step].inputs[edge->input], unused = fresh_name(sample, "law");
  sample.steps.push_back({.op = "Identity", .inputs = {name}, .outputs = {unused}});
  sample.outputs.push_back(unused);
  return true;
}

bool shown_between(Sample& sample, Rng& rng) {
  const std::string& output = sample.steps[rng.below(sample.steps.size())].outputs.front();
  if (output.empty() || std::ranges::find(sample.outputs, output) != sample.outputs.end()) return false;
  sample.outputs.push_back(output);
  return true;
}

bool turned_round(Sample& sample, Rng& rng) {
  Step& step = sample.steps[rng.below(sample.steps.size())];
  const OpDef* op = find_op(step.domain, step.op);
  const OrderKind order = op == nullptr ? OrderKind::none : op->traits.order;
  const bool either = order == OrderKind::sum || order == OrderKind::product || order == OrderKind::largest ||
                      order == OrderKind::smallest;
  if (!either || step.inputs.size() != 2) return false;
  std::swap(step.inputs[0], step.inputs[1]);
  return true;
}

constexpr Law kLaws[] = {{"constants as inputs", constants_as_inputs},
                         {"inputs as constants", inputs_as_constants},
                         {"identity", identity},
                         {"transposed twice", transposed_twice},
                         {"reshaped and back", reshaped},
                         {"cast to double and back", cast_and_back},
                         {"cast to itself", cast_to_itself},
                         {"plus zero", plus_zero},
                         {"times one", times_one},
                         {"divided by one", divided_by_one},
                         {"negated twice", negated_twice},
                         {"doubled and halved", doubled_and_halved},
                         {"an axis in and out", axis_in_and_out},
                         {"cut and joined", cut_and_joined},
                         {"repeated aloud", repeated_aloud},
                         {"computed twice", computed_twice},
                         {"a dead branch", dead_branch},
                         {"shown between", shown_between},
                         {"operands turned round", turned_round}};

// Far apart, measured by the largest element; NaN equals NaN.
bool differ(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return true;
  if (a.dtype() == DType::string) return false;
  const std::vector<double> x = elements<double>(a), y = elements<double>(b);
  double largest = 0;
  for (const double value : x) largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  const double allowed = is_float(a.dtype()) ? largest * 1e4 * unit_roundoff(a.dtype()) + 1e-30 : 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) || std::abs(x[i] - y[i]) <= allowed;
    if (!same) return true;
  }
  return false;
}

}  // namespace

std::vector<Complaint> judge_law(Backend& backend, const Sample& before, const Sample& after, const std::string& law,
                                 Counts& counts) {
  const Optimisation level = backend.optimises() ? Optimisation::all : Optimisation::none;
  const Answer first = backend.run(before, level, false), second = backend.run(after, level, false);
  counts.runs += 2;
  if (!first.done() || !second.done()) return {};
  std::vector<Complaint> complaints = compare_with_boxes(before, second.outputs, law, counts);
  for (Complaint& complaint : complaints) complaint.symptom = Symptom::broken_law;
  for (const auto& [name, datum] : first.outputs) {
    const Datum other = find(second.outputs, name);
    if (!complaints.empty() || datum.tensor() == nullptr || other.tensor() == nullptr) continue;
    if (differ(*datum.tensor(), *other.tensor()))
      complaints.push_back({.symptom = Symptom::broken_law,
                            .level = level,
                            .op = law,
                            .tensor = name,
                            .proven = false,
                            .text = "another result after a change that leaves it as it is: " + law});
  }
  return complaints;
}

std::span<const Law> laws() { return kLaws; }

std::optional<Sample> apply_law(const Sample& sample, std::string_view law, Rng& rng) {
  const auto found = std::ranges::find(kLaws, law, &Law::name);
  if (found == std::end(kLaws)) return std::nullopt;
  Sample changed = sample;
  try {
    if (!found->apply(changed, rng)) return std::nullopt;
    infer_types(graph(changed));
  } catch (const Error&) {
    return std::nullopt;
  }
  return changed;
}

std::optional<Changed> apply_law(const Sample& sample, Rng& rng) {
  const std::string_view law = kLaws[rng.below(std::size(kLaws))].name;
  std::optional<Sample> changed = apply_law(sample, law, rng);
  if (!changed) return std::nullopt;
  return Changed{.sample = std::move(*changed), .law = law};
}

}  // namespace finity::fuzz
