#include "torch/program.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "exec/whereabouts.h"
#include "ops/table/op.h"
#include "torch/errors.h"

namespace finity {

namespace {

bool is_half(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

TorchValue widened(const TorchValue& value) {
  TorchValue result = value;
  if (value.tensor.defined() && is_half(value.tensor.scalar_type())) result.tensor = value.tensor.to(at::kFloat);
  return result;
}

// Strings LibTorch does not have, and unsigned 64-bit numbers it would take for signed: what computes with them is
// left to the reference. Neither is ever derived.
bool is_beyond_torch(const Node& node, const TorchLowering& lowering, std::span<const TorchValue> inputs) {
  if (!bodies_of(node.attrs).empty()) return false;
  return std::ranges::any_of(inputs, [&](const TorchValue& value) {
    return value.texts != nullptr || (value.dtype == DType::uint64 && !lowering.any_format);
  });
}

}  // namespace

const TorchValue& TorchRun::at(ValueId id) const {
  if (!id.valid() || !values[id.at()].present()) throw Error("a value was not computed");
  return values[id.at()];
}

void TorchRun::require_gradient(ValueId id) {
  TorchValue& value = values[id.at()];
  if (!value.tensor.defined() || !at::isFloatingType(value.tensor.scalar_type()))
    throw Error("derivatives are of float tensors only");
  value.tensor = value.tensor.detach();
  value.tensor.set_requires_grad(true);
}

TorchProgram::TorchProgram(std::shared_ptr<const Graph> graph)
    : graph_(std::move(graph)), types_(infer_types(*graph_)), constants_(graph_->values().size()) {
  for (const Node& node : graph_->nodes()) steps_.push_back(step_of(node));
  for (std::size_t i = 0; i < graph_->values().size(); ++i) {
    const Value& value = graph_->values()[i];
    if (value.body == Graph::kMain) names_.emplace(value.name, ValueId{static_cast<std::int32_t>(i)});
  }
}

TorchProgram::Step TorchProgram::step_of(const Node& node) const {
  Step step;
  step.place = describe(*graph_, node);
  if (node.op != nullptr) step.lowering = find_lowering(*node.op);
  for (const ValueId id : node.outputs) {
    const bool tensor = id.valid() && types_[id].is_tensor();
    step.dtypes.push_back(tensor ? types_[id].dtype : DType::undefined);
  }
  return step;
}

ValueId TorchProgram::find(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) throw Error("the model has no value named '" + std::string(name) + "'");
  return found->second;
}

void TorchProgram::require_lowered(const Node& node) const {
  const auto at = static_cast<std::size_t>(&node - graph_->nodes().data());
  if (node.op == nullptr) throw Unsupported(describe(*graph_, node) + ": op is not modelled");
  if (steps_[at].lowering == nullptr)
    throw Unsupported(describe(*graph_, node) + ": " + qualified_op(node) + " is not lowered to LibTorch");
  for (const BodyId body : bodies_of(node.attrs)) {
    for (const NodeId id : graph_->body(body).nodes) require_lowered(graph_->node(id));
  }
}

std::vector<NodeId> TorchProgram::plan(std::span<const ValueId> wanted, std::span<const ValueId> given) const {
  std::vector<bool> needed(graph_->values().size());
  for (const ValueId id : wanted) needed[id.at()] = true;
  std::vector<bool> known(graph_->values().size());
  for (const ValueId id : given) known[id.at()] = true;
  std::vector<NodeId> result;
  const std::vector<NodeId>& nodes = graph_->main().nodes;
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
    const Node& node = graph_->node(*at);
    const auto is_needed = [&](ValueId id) { return id.valid() && needed[id.at()] && !known[id.at()]; };
    if (std::ranges::none_of(node.outputs, is_needed)) continue;
    result.push_back(*at);
    for (const auto* ids : {&node.inputs, &node.captures}) {
      for (const ValueId id : *ids) {
        if (id.valid()) needed[id.at()] = true;
      }
    }
  }
  std::ranges::reverse(result);
  for (const NodeId id : result) require_lowered(graph_->node(id));
  return result;
}

void TorchProgram::run(std::span<const NodeId> plan, TorchRun& run) const {
  for (const NodeId id : plan) run_node(graph_->node(id), run);
  working_at(nullptr);
}

const TorchValue& TorchProgram::operand(ValueId id, TorchRun& run) const {
  static const TorchValue kAbsent;
  if (!id.valid()) return kAbsent;
  const TorchValue& present = run.values[id.at()];
  if (present.present()) return present;
  const Value& value = graph_->value(id);
  if (!value.constant) {
    if (value.producer.valid() || value.type.kind == Type::Kind::optional) return kAbsent;
    throw Error("input '" + value.name + "' is missing");
  }
  TorchValue& constant = constants_[id.at()];
  if (!constant.present()) constant = to_value(value.constant->load());
  return constant;
}

void TorchProgram::run_node(const Node& node, TorchRun& run) const {
  const Step& step = steps_[static_cast<std::size_t>(&node - graph_->nodes().data())];
  const TorchLowering& lowering = *step.lowering;
  working_at(step.place.c_str());
  // A node without operands gives the same every time, unless it draws numbers.
  const bool fixed =
      node.inputs.empty() && node.outputs.size() == 1 && !node.op->traits.random && bodies_of(node.attrs).empty();
  TorchValue* constant = fixed && node.outputs[0].valid() ? &constants_[node.outputs[0].at()] : nullptr;
  if (constant != nullptr && constant->present()) {
    if (run.watch) run.watch(node, {}, {constant, 1});
    run.values[node.outputs[0].at()] = *constant;
    return;
  }
  try {
    std::vector<TorchValue> inputs;
    inputs.reserve(node.inputs.size());
    for (const ValueId id : node.inputs) {
      inputs.push_back(lowering.any_format ? operand(id, run) : widened(operand(id, run)));
    }
    const TorchCall::RunBody run_body = [&](BodyId id, std::span<const TorchValue> arguments) {
      return this->run_body(id, arguments, run);
    };
    TorchCall call(call_of(*graph_, node), inputs, step.dtypes, run.rng, run_body);
    with_torch_errors([&] {
      if (is_beyond_torch(node, lowering, inputs)) lower_by_reference(call);
      else lowering.lower(call);
    });
    if (constant != nullptr) *constant = call.outs()[0];
    if (run.watch) run.watch(node, inputs, call.outs());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) run.values[node.outputs[i].at()] = std::move(call.outs()[i]);
    }
  } catch (Error& error) {
    error.in(describe(*graph_, node));
    throw;
  }
}

std::vector<TorchValue> TorchProgram::run_body(BodyId id, std::span<const TorchValue> inputs, TorchRun& run) const {
  const Body& body = graph_->body(id);
  if (inputs.size() != body.inputs.size()) {
    throw Error("subgraph '" + body.name + "' takes " + std::to_string(body.inputs.size()) + " inputs, got " +
                std::to_string(inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) run.values[body.inputs[i].at()] = inputs[i];
  for (const NodeId node : body.nodes) run_node(graph_->node(node), run);
  std::vector<TorchValue> outputs;
  for (const ValueId output : body.outputs) outputs.push_back(operand(output, run));
  return outputs;
}

std::vector<TorchValue> gradients(const TorchRun& run, ValueId of, std::span<const ValueId> ids, bool keep) {
  const at::Tensor value = run.at(of).tensor;
  if (!value.defined() || value.numel() != 1) throw Error("only a value with one element can be derived");
  std::vector<at::Tensor> leaves;
  for (const ValueId id : ids) leaves.push_back(run.at(id).tensor);
  std::vector<at::Tensor> derived(leaves.size());
  // A value that depends on none of them has no graph at all.
  if (value.requires_grad()) {
    working_at("the backward pass");
    with_torch_errors([&] {
      derived = ::torch::autograd::grad({value}, leaves, {}, keep, /*create_graph=*/false, /*allow_unused=*/true);
    });
  }
  std::vector<TorchValue> result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const at::Tensor& gradient = derived[i].defined() ? derived[i] : at::zeros_like(leaves[i]);
    result.push_back({.dtype = run.at(ids[i]).dtype, .tensor = gradient});
  }
  return result;
}

}  // namespace finity
