#include "fuzz/backward.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "fuzz/box.h"
#include "fuzz/public_steps.h"
#include "gradient/gradient.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

// Equal numbers tie in maxima and zeros sit in kinks, where libraries choose derivatives freely; where a value is not
// finite there is no derivative.
bool may_tie(const Tensor& tensor) {
  std::vector<double> values = elements<double>(tensor);
  if (!std::ranges::all_of(values, [](double x) { return std::isfinite(x); })) return true;
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) != values.end() || std::ranges::binary_search(values, 0.0);
}

std::vector<std::string> float_names(const Sample& sample) {
  std::vector<std::string> names;
  for (const auto* tensors : {&sample.inputs, &sample.constants}) {
    for (const auto& [name, tensor] : *tensors) {
      if (is_float(tensor.dtype()) && tensor.size() > 0) names.push_back(name);
    }
  }
  return names;
}

std::map<std::string, ValueId, std::less<>> ids_of(const Graph& model) {
  std::map<std::string, ValueId, std::less<>> ids;
  for (std::size_t i = 0; i < model.values().size(); ++i)
    ids[model.values()[i].name] = ValueId{static_cast<std::int32_t>(i)};
  return ids;
}

std::string float_output(const Graph& model, const Types& types) {
  for (const ValueId id : model.main().outputs) {
    if (types[id].is_tensor() && is_float(types[id].dtype)) return model.value(id).name;
  }
  return {};
}

bool is_flat(const Graph& model) {
  return std::ranges::all_of(model.main().nodes, [&](NodeId id) {
    const Node& node = model.node(id);
    return node.op != nullptr && node.op->meaning.eval != nullptr && bodies_of(node.attrs).empty();
  });
}

}  // namespace

std::optional<Backward> with_backward(const Sample& sample) {
  const Graph model = graph(sample);
  const Types types = infer_types(model);
  const std::string output = float_output(model, types);
  const std::vector<std::string> names = float_names(sample);
  if (output.empty() || names.empty() || sample.opset != GraphWriter::kOpset) return std::nullopt;
  const auto ids = ids_of(model);
  GraphWriter writer(model, types);
  const ValueId loss = writer.add("ReduceSum", {ids.at(output)}, [] {
    Attrs attrs;
    attrs.set("keepdims", std::int64_t{0});
    return attrs;
  }());
  std::vector<ValueId> wanted;
  for (const std::string& name : names) wanted.push_back(ids.at(name));
  const GradientResult gradients = add_gradient(writer, loss, wanted);
  if (!gradients.stops.empty()) return std::nullopt;
  Backward result{.loss = writer.graph().value(loss).name};
  writer.add_output(loss);
  std::set<ValueId> given_out(model.main().outputs.begin(), model.main().outputs.end());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ValueId id = gradients.of[i];
    if (!id.valid() || !writer.graph().value(id).producer.valid()) continue;
    if (given_out.insert(id).second) writer.add_output(id);
    result.derivatives.emplace_back(names[i], writer.graph().value(id).name);
  }
  const GraphWriter::Result whole = std::move(writer).finish();
  if (result.derivatives.empty() || !is_flat(whole.graph)) return std::nullopt;
  result.sample = with_public_steps(sample_of(whole.graph, inputs_of(sample)));
  if (std::ranges::any_of(result.sample.steps, [](const Step& step) { return !step.domain.empty(); }))
    return std::nullopt;
  result.sample.origin = "backward of " + sample.origin;
  return result;
}

std::vector<Complaint> judge_derivatives(Backend& backend, const Sample& sample, Counts& counts) {
  for (const auto* tensors : {&sample.inputs, &sample.constants}) {
    for (const auto& [name, tensor] : *tensors) {
      if (is_float(tensor.dtype()) && may_tie(tensor)) return {};
    }
  }
  const std::optional<Backward> backward = with_backward(sample);
  if (!backward) return {};
  Sample forward = backward->sample;
  forward.outputs = {backward->loss};
  drop_unneeded(forward);
  std::vector<std::string> names;
  for (const auto& [of, name] : backward->derivatives) {
    if (is_given(forward, of)) names.push_back(of);
  }
  const Answer answer = backend.derive(forward, backward->loss, names);
  ++counts.runs;
  if (!answer.done()) {
    ++counts.refused;
    return {};
  }
  NamedData renamed;
  for (const auto& [of, name] : backward->derivatives) renamed.emplace_back(name, find(answer.gradients, of));
  std::vector<Complaint> complaints =
      compare_with_boxes(backward->sample, renamed, "derivative of " + op_chain(sample), counts);
  for (Complaint& complaint : complaints) {
    complaint.level = Optimisation::none;
    complaint.derivative = true;
    // One derivative has several formulas, and some of them cancel.
    const double size =
        std::max({std::abs(complaint.expected.lo), std::abs(complaint.expected.hi), std::abs(complaint.observed)});
    const double miss =
        std::max(complaint.expected.lo - complaint.observed, complaint.observed - complaint.expected.hi);
    complaint.proven = complaint.element < 0 || !(miss <= 1e-3 * size);
    for (const auto& [of, name] : backward->derivatives) {
      if (name == complaint.tensor) complaint.tensor = of;
    }
  }
  return complaints;
}

Sample sample_of(const Graph& model, const Inputs& inputs) {
  Sample sample;
  const auto opset = model.info().opsets.find("");
  if (opset != model.info().opsets.end()) sample.opset = opset->second;
  for (const ValueId id : model.main().inputs) {
    const std::string& name = model.value(id).name;
    const auto found = inputs.find(name);
    if (found == inputs.end() || found->second.tensor() == nullptr)
      throw Error("there is no tensor for input '" + name + "'");
    sample.inputs[name] = *found->second.tensor();
  }
  for (const ValueId id : model.main().constants)
    sample.constants[model.value(id).name] = model.value(id).constant->load();
  for (const NodeId id : model.main().nodes) {
    const Node& node = model.node(id);
    Step step{.op = std::string(node.op_type), .domain = std::string(node.domain), .attrs = node.attrs};
    for (const ValueId value : node.inputs) step.inputs.push_back(value.valid() ? model.value(value).name : "");
    for (const ValueId value : node.outputs) step.outputs.push_back(value.valid() ? model.value(value).name : "");
    sample.steps.push_back(std::move(step));
  }
  for (const ValueId id : model.main().outputs) sample.outputs.push_back(model.value(id).name);
  return sample;
}

}  // namespace finity::fuzz
