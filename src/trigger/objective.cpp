#include "trigger/objective.h"

#include <algorithm>
#include <cmath>

#include "check/convert.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "ops/table/hazard.h"
#include "ops/table/op.h"
#include "ops/table/rule_patterns.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "trigger/bring_out.h"
#include "trigger/distance_text.h"
#include "trigger/loss_writer.h"
#include "types/hazard_quantity.h"

namespace finity {

namespace {

Bindings sizes_of(const Drawn& drawn) {
  Bindings bindings;
  for (const auto& [name, datum] : drawn.inputs) {
    if (datum.tensor() != nullptr) bindings.inputs[name] = datum.tensor()->dims();
  }
  return bindings;
}

// The entries of the op that speak of just this rule and operand.
std::vector<const Hazard*> hazards_among(const OpDef& op, const Finding& site) {
  std::vector<const Hazard*> same;
  for (const Hazard& hazard : op.analysis.hazards) {
    if (hazard.rule == raised_rule(site.rule) && static_cast<int>(hazard.operand) == site.operand)
      same.push_back(&hazard);
  }
  return same;
}

const Hazard* hazard_among(const OpDef& op, const Finding& site, std::size_t variant) {
  const std::vector<const Hazard*> same = hazards_among(op, site);
  return same.empty() ? hazard_of(op, site.rule, site.operand) : same[variant % same.size()];
}

}  // namespace

SizedModels with_sizes(const CheckedGraph& model, const Drawn& sizes) {
  const Bindings bindings = sizes_of(sizes);
  SizedModels result;
  result.sizes = bindings;
  result.plain = {model.graph, infer_types(model.graph, bindings)};
  try {
    Graph wide = convert_floats(model.graph, model.types, DType::float64).graph;
    Types types = infer_types(wide, bindings);
    result.wide = {std::move(wide), std::move(types)};
  } catch (const Error&) {
    result.wide = result.plain;
  }
  return result;
}

namespace {

// How far the largest magnitude among the values is from the limit.
ValueId room_of_largest(GraphWriter& writer, const std::vector<ValueId>& values, double limit) {
  LossWriter loss(writer);
  ValueId largest;
  for (const ValueId id : values) {
    const ValueId size = loss.over_all("ReduceMax", writer.add("Abs", {loss.as_double(id)}));
    largest = largest.valid() ? writer.add("Max", {largest, size}) : size;
  }
  return loss.room(largest, limit);
}

}  // namespace

// The loss of a hazard; invalid when the node's formats have no unsafe value.
ValueId Objective::add_hazard(GraphWriter& writer, ValueId quantity, const Hazard& hazard, DType dtype) {
  LossWriter loss(writer);
  const UnsafeSet unsafe = hazard.unsafe(dtype);
  if (unsafe.empty() || !quantity.valid()) return {};
  if (!only_infinities(unsafe)) {
    unsafe_ = unsafe_values_text(unsafe);
    return loss.over_all("ReduceMin", loss.distances(quantity, unsafe));
  }
  overflow_ = true;
  limit_ = max_finite(dtype);
  return room_of_largest(writer, {quantity}, limit_);
}

// The loss of a result that may be too large, or NaN made of infinities: then an operand must become infinite first.
ValueId Objective::add_overflow(GraphWriter& writer, const Node& node, const Finding& site, DType dtype) {
  if (!site.value.valid() || !is_float(writer.type(site.value).dtype)) return {};
  std::vector<ValueId> values;
  if (!site.seen.nan) values.push_back(site.value);
  for (const ValueId in : node.inputs) {
    if (site.seen.nan && in.valid() && is_float(writer.type(in).dtype)) values.push_back(in);
  }
  if (values.empty()) return {};
  overflow_ = true;
  limit_ = max_finite(dtype);
  return room_of_largest(writer, values, limit_);
}

std::size_t Objective::variants(const CheckedGraph& model, std::size_t finding) {
  const Finding& site = model.analysis.findings[finding];
  const OpDef* op = site.node.valid() ? model.graph.node(site.node).op : nullptr;
  return op == nullptr ? 1 : std::max<std::size_t>(hazards_among(*op, site).size(), 1);
}

namespace {

// Of a few numbers the one that is farthest from all that is unsafe.
double far_from(const UnsafeSet& unsafe) {
  double best = 0, most = -1;
  for (const double x : {0.0, 0.5, 1e30, -1e30}) {
    double nearest = kInf;
    for (const Unsafe& part : unsafe) nearest = std::min(nearest, std::max({part.lo - x, x - part.hi, 0.0}));
    if (nearest > most) {
      most = nearest;
      best = x;
    }
  }
  return best;
}

// What a finding inside a body is a distance of: an operand, a result that overflows, or an operand that is infinite.
ValueId searched_value(const CheckedGraph& model, const Finding& site, const Hazard* hazard) {
  const Node& node = model.graph.node(site.node);
  if (hazard != nullptr) return hazard->operand < node.inputs.size() ? node.inputs[hazard->operand] : ValueId{};
  if (!site.seen.nan) return site.value;
  const auto is_usable = [&](ValueId id) { return id.valid() && is_float(model.types[id].dtype); };
  const auto found = std::ranges::find_if(node.inputs, is_usable);
  return found == node.inputs.end() ? ValueId{} : *found;
}

}  // namespace

Objective Objective::finished(GraphWriter&& writer, Objective objective) {
  writer.builder().drop_unneeded();
  GraphWriter::Result built = std::move(writer).finish();
  objective.graph_ = std::move(built.graph);
  for (const Type& type : built.types.of) objective.dtypes_.push_back(type.dtype);
  return objective;
}

std::optional<Objective> Objective::make_in_body(const CheckedGraph& model, const SizedModels& sized,
                                                 const Finding& site, const Hazard* hazard,
                                                 const std::vector<ValueId>& variables) {
  if (hazard != nullptr && hazard->quantity != nullptr) return std::nullopt;
  const ValueId searched = searched_value(model, site, hazard);
  if (!searched.valid()) return std::nullopt;
  const DType dtype = model.types[site.value.valid() ? site.value : searched].dtype;
  const bool overflow = hazard == nullptr || only_infinities(hazard->unsafe(dtype));
  const std::optional<BroughtOut> out =
      brought_out(sized.wide.graph, sized.wide.types, sized.sizes, searched, model.graph.node(site.node).body,
                  overflow ? 0 : far_from(hazard->unsafe(dtype)));
  if (!out) return std::nullopt;
  GraphWriter writer(out->graph, out->types);
  Objective objective;
  ValueId distance;
  if (hazard != nullptr) {
    distance = objective.add_hazard(writer, out->value, *hazard, dtype);
  } else if (is_float(dtype)) {
    objective.overflow_ = true;
    objective.limit_ = max_finite(dtype);
    distance = room_of_largest(writer, {out->value}, objective.limit_);
  }
  if (!distance.valid() || !objective.add_gradients(writer, distance, variables)) return std::nullopt;
  return finished(std::move(writer), std::move(objective));
}

std::optional<Objective> Objective::make(const CheckedGraph& model, const SizedModels& sized, std::size_t finding,
                                         const std::vector<ValueId>& variables, std::size_t variant) {
  const Finding& site = model.analysis.findings[finding];
  if (!site.node.valid()) return std::nullopt;
  const Node& node = model.graph.node(site.node);
  if (node.op == nullptr) return std::nullopt;
  const Hazard* hazard = hazard_among(*node.op, site, variant);
  try {
    if (node.body != Graph::kMain) return make_in_body(model, sized, site, hazard, variables);
    // Quantities that are not operands know the format they speak of, and compute in wider ones themselves.
    const SizedModel& base = hazard != nullptr && hazard->quantity != nullptr ? sized.plain : sized.wide;
    GraphWriter writer(base.graph, base.types);
    Objective objective;
    const DType dtype = site.value.valid() ? model.types[site.value].dtype : DType::undefined;
    const ValueId distance =
        hazard != nullptr ? objective.add_hazard(writer, add_quantity(writer, site.node, *hazard).value, *hazard, dtype)
                          : objective.add_overflow(writer, node, site, dtype);
    if (!distance.valid() || !objective.add_gradients(writer, distance, variables)) return std::nullopt;
    return finished(std::move(writer), std::move(objective));
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

bool Objective::add_gradients(GraphWriter& writer, ValueId distance, const std::vector<ValueId>& variables) {
  GradientResult gradient = add_gradient(writer, distance, variables);
  stops_ = std::move(gradient.stops);
  std::vector<ValueId> outputs = {distance};
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!gradient.of[i].valid()) continue;
    variables_.push_back(variables[i]);
    outputs.push_back(gradient.of[i]);
  }
  writer.set_outputs(std::move(outputs));
  return !variables_.empty();
}

namespace {

std::vector<double> finite_slopes(const Tensor& tensor) {
  std::vector<double> slopes = elements<double>(tensor);
  for (double& slope : slopes) slope = std::isfinite(slope) ? slope : 0;
  return slopes;
}

Tensor in_dtype(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype || !is_float(tensor.dtype()) || !is_float(dtype)) return tensor;
  return from_elements<double>(dtype, tensor.dims(), elements<double>(tensor));
}

}  // namespace

// Nothing when the engine cannot do it, and then never again.
std::optional<Evaluation> Objective::evaluate_in_torch(const Inputs& inputs,
                                                       const std::unordered_map<ValueId, Datum>& weights,
                                                       Worker& torch) {
  if (torch_refused_) return std::nullopt;
  torch_refused_ = true;
  if (forward_.empty()) {
    GraphBuilder builder(graph_);
    builder.body(Graph::kMain).outputs.resize(1);
    builder.drop_unneeded();
    forward_ = write_onnx(std::move(builder).build());
  }
  DerivativeRequest request = {.model = forward_};
  request.gradient.output = graph_.value(graph_.main().outputs.front()).name;
  for (const auto& [name, datum] : inputs) request.gradient.inputs.emplace_back(name, datum);
  for (const auto& [id, datum] : weights) {
    if (graph_.value(id).producer.valid()) return std::nullopt;  // a draw, which it makes itself
    request.gradient.inputs.emplace_back(graph_.value(id).name, datum);
  }
  for (const ValueId id : variables_) request.gradient.names.push_back(graph_.value(id).name);
  const Answer answer = torch.gradient(request);
  if (!answer.done() || answer.outputs.empty() || answer.gradients.size() != variables_.size()) return std::nullopt;
  torch_refused_ = false;
  Evaluation result;
  result.distance = element_as_double(*answer.outputs.front().second.tensor(), 0);
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    result.gradient[variables_[i]] = finite_slopes(*answer.gradients[i].second.tensor());
  }
  return result;
}

Evaluation Objective::evaluate(const Drawn& drawn, std::uint64_t seed, Worker* torch) {
  Inputs inputs;
  for (const ValueId id : graph_.main().inputs) {
    const Value& value = graph_.value(id);
    const auto given = drawn.inputs.find(value.name);
    if (given == drawn.inputs.end()) continue;
    const Tensor* tensor = given->second.tensor();
    inputs[value.name] = tensor != nullptr ? Datum(in_dtype(*tensor, value.type.dtype)) : given->second;
  }
  std::unordered_map<ValueId, Datum> weights;
  for (const auto& [id, datum] : drawn.weights) {
    const Tensor* tensor = datum.tensor();
    weights[id] = tensor != nullptr ? Datum(in_dtype(*tensor, dtypes_.at(id.at()))) : datum;
  }
  if (torch != nullptr) {
    if (std::optional<Evaluation> result = evaluate_in_torch(inputs, weights, *torch)) return std::move(*result);
  }
  const RunOptions options = {.seed = seed, .weights = &weights};
  const std::vector<Datum> outputs = run_reference(graph_, inputs, options);
  Evaluation result;
  result.distance = element_as_double(*outputs[0].tensor(), 0);
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    result.gradient[variables_[i]] = finite_slopes(*outputs[i + 1].tensor());
  }
  return result;
}

std::string Objective::describe(double distance) const {
  if (distance <= 0) return "reached in double precision, but not in the model's own format";
  if (!overflow_) return distance_text(distance) + " away from " + unsafe_;
  return "at most " + distance_text(limit_ * std::exp(-distance)) + " of " + distance_text(limit_);
}

}  // namespace finity
