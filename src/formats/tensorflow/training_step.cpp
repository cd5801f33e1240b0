#include "formats/tensorflow/training_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/initialisers.h"
#include "formats/tensorflow/source.h"
#include "formats/tensorflow/tensor_proto.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// Operands of an optimiser: where the gradient stands, and which are its settings, in the order of its kernel.
struct Applied {
  std::string_view op = {};
  std::size_t gradient = 0;
  std::size_t first = 0, last = 0;  // settings, without the gradient if it stands between them
  std::size_t sums = 0;             // the slot that starts with a number the optimiser must know; 0: none
};
constexpr std::array<Applied, 9> kApplied = {{{"ApplyGradientDescent", 2, 1, 1},
                                              {"ApplyMomentum", 3, 2, 4},
                                              {"ApplyAdagrad", 3, 2, 2, 1},
                                              {"ApplyAdadelta", 6, 3, 5},
                                              {"ApplyRMSProp", 7, 3, 6},
                                              {"ApplyCenteredRMSProp", 8, 4, 7},
                                              {"ApplyAdam", 9, 5, 8},
                                              {"ApplyFtrl", 3, 4, 7, 1},
                                              {"ApplyFtrlV2", 3, 4, 8, 1}}};

std::string_view node_of(std::string_view input) {
  if (input.starts_with('^')) input.remove_prefix(1);
  return input.substr(0, input.find(':'));
}

std::string_view without_resource(std::string_view op) {
  constexpr std::string_view kResource = "Resource";
  return op.starts_with(kResource) ? op.substr(kResource.size()) : op;
}

const Applied* find_applied(std::string_view op) {
  const auto* found = std::ranges::find(kApplied, without_resource(op), &Applied::op);
  return found == kApplied.end() ? nullptr : found;
}

bool updates_by_gradient(std::string_view op) {
  return without_resource(op).starts_with("Apply") || without_resource(op).starts_with("SparseApply");
}

// The scope of derivatives that a name lies in, "a/gradients_1"; "": in none.
std::string_view gradient_scope(std::string_view name) {
  for (std::size_t at = 0;;) {
    const std::size_t end = name.find('/', at);
    if (end == std::string_view::npos) return {};
    if (name.substr(at, end - at).starts_with("gradients")) return name.substr(0, end);
    at = end + 1;
  }
}

class TrainingStep {
 public:
  explicit TrainingStep(const GraphDef& graph) : graph_(graph), initialisers_(graph) {
    for (const NodeDef& node : graph.nodes) nodes_.emplace(node.name, &node);
    for (const NodeDef& node : graph.nodes) {
      if ((node.op == "Assign" || node.op == "AssignVariableOp") && node.inputs.size() > 1) {
        starts_.emplace(node_of(node.inputs[0]), node.inputs[1]);
      }
    }
  }

  std::optional<TensorFlowTraining> find() {
    TensorFlowTraining training;
    std::map<std::string_view, std::string> losses;  // of trained variables
    std::map<std::string, int> counts;
    std::string_view other;
    for (const NodeDef& node : graph_.nodes) {
      const Applied* applied = find_applied(node.op);
      if (applied == nullptr) {
        if (updates_by_gradient(node.op)) other = node.op;
        continue;
      }
      if (node.inputs.size() <= applied->gradient) continue;
      std::string loss = loss_behind(node.inputs[applied->gradient]);
      if (loss.empty()) throw Error("node '" + std::string(node.name) + "': the loss that it makes small is not found");
      ++counts[loss];
      losses[node_of(node.inputs[0])] = std::move(loss);
      if (!training.optimiser.empty()) continue;
      training.optimiser = applied->op;
      for (std::size_t i = applied->first; i <= applied->last && i < node.inputs.size(); ++i) {
        if (i != applied->gradient) training.settings.push_back(number(node.inputs[i]));
      }
      if (applied->sums > 0) training.accumulator = start_of(node.inputs[applied->sums]);
    }
    if (losses.empty()) {
      if (other.empty()) return std::nullopt;
      throw Error("it is trained by " + std::string(other) + ", which programs do not have");
    }
    training.loss = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
    for (const NodeDef& node : graph_.nodes) {
      if (node.op != "VariableV2" && node.op != "Variable" && node.op != "VarHandleOp") continue;
      TensorFlowVariable variable = started(node);
      if (const auto found = losses.find(node.name); found != losses.end()) variable.loss = found->second;
      training.variables.push_back(std::move(variable));
    }
    return training;
  }

 private:
  const NodeDef* node(std::string_view input) const {
    const auto found = nodes_.find(node_of(input));
    return found == nodes_.end() ? nullptr : found->second;
  }

  // Gradients begin with ones of the loss's shape; whoever takes them is named after the loss.
  std::string loss_behind(std::string_view gradient) const {
    std::unordered_set<std::string_view> seen;
    std::vector<std::string_view> open = {node_of(gradient)};
    std::map<std::string, int> named;
    while (!open.empty()) {
      const std::string_view name = open.back();
      open.pop_back();
      const NodeDef* at = node(name);
      if (at == nullptr || !seen.insert(name).second) continue;
      const std::string_view scope = gradient_scope(name);
      for (const std::string_view input : at->inputs) {
        if (input.starts_with('^')) continue;
        const std::string_view from = node_of(input);
        if (!scope.empty() && begins_gradients(from, scope)) {
          const std::string_view own = name.substr(scope.size() + 1);
          const std::size_t end = own.find("_grad/");
          if (end != std::string_view::npos && nodes_.contains(own.substr(0, end)))
            ++named[std::string(own.substr(0, end))];
        } else if (scope.empty() || !gradient_scope(from).empty()) {
          // Clipped and regularised gradients leave their scope before they are applied, but do not come back.
          open.push_back(from);
        }
      }
    }
    if (named.empty()) return {};
    return std::ranges::max_element(named, {}, [](const auto& entry) { return entry.second; })->first;
  }

  bool begins_gradients(std::string_view name, std::string_view scope) const {
    if (!name.starts_with(scope) || name.size() <= scope.size() + 1) return false;
    const std::string_view own = name.substr(scope.size() + 1);
    const NodeDef* at = node(name);
    return own.find('/') == std::string_view::npos && at != nullptr &&
           (at->op == "Fill" || at->op == "OnesLike" || at->op == "Const" || own.starts_with("grad_ys"));
  }

  // All elements of a constant, when they are one number.
  std::optional<double> number(std::string_view input) const {
    const NodeDef* at = node(input);
    for (int steps = 0; steps < 8 && at != nullptr; ++steps) {
      if (at->op == "Const") return constant(*at);
      const bool fills = at->op == "Fill" && at->inputs.size() > 1;
      const bool hands_on = (at->op == "Identity" || at->op == "Cast" || at->op == "Reshape") && !at->inputs.empty();
      if (at->op == "ZerosLike") return 0.0;
      if (at->op == "OnesLike") return 1.0;
      if (!fills && !hands_on) return std::nullopt;
      at = node(at->inputs[fills ? 1 : 0]);
    }
    return std::nullopt;
  }

  std::optional<double> constant(const NodeDef& at) const {
    const auto attr = std::ranges::find(at.attrs, "value", &tensorflow::NamedBytes::first);
    if (attr == at.attrs.end()) return std::nullopt;
    const tensorflow::AttrValue value = tensorflow::read_attr_value(attr->second);
    if (value.kind != tensorflow::AttrValue::Kind::tensor) return std::nullopt;
    const tensorflow::TensorFields fields = tensorflow::read_tensor_fields(value.messages.front());
    if (!is_float(fields.dtype) && !is_int(fields.dtype)) return std::nullopt;
    const std::optional<Tensor> one = tensorflow::repeated_element(fields);
    if (one) return elements<double>(*one).front();
    if (element_count(fields.dims) != 1) return std::nullopt;
    return elements<double>(tensorflow::TensorProtoConstant(fields, graph_.owner).load()).front();
  }

  // Which generator the initial value comes from.
  TensorFlowVariable::Start generator(std::string_view input) const {
    std::vector<std::string_view> open = {input};
    for (int steps = 0; steps < 64 && !open.empty(); ++steps) {
      const NodeDef* at = node(open.back());
      open.pop_back();
      if (at == nullptr) continue;
      if (at->op.ends_with("TruncatedNormal")) return TensorFlowVariable::Start::truncated_normal;
      if (at->op.ends_with("RandomStandardNormal") || at->op.find("RandomNormal") != std::string_view::npos) {
        return TensorFlowVariable::Start::normal;
      }
      for (const std::string_view from : at->inputs) open.push_back(from);
    }
    return TensorFlowVariable::Start::uniform;
  }

  // The one number that all elements of a variable start as.
  std::optional<double> start_of(std::string_view variable) const {
    const auto start = starts_.find(node_of(variable));
    return start == starts_.end() ? std::nullopt : number(start->second);
  }

  TensorFlowVariable started(const NodeDef& variable) const {
    TensorFlowVariable result = {.name = std::string(variable.name)};
    const auto start = starts_.find(variable.name);
    const std::optional<double> given = start_of(variable.name);
    if (given) {
      result.lo = result.hi = *given;
      return result;
    }
    const InitialWeight::Support support = initialisers_.of(variable, DType::float32);
    result.lo = support.lo;
    result.hi = support.hi;
    result.start = start == starts_.end() ? TensorFlowVariable::Start::uniform : generator(start->second);
    return result;
  }

  const GraphDef& graph_;
  tensorflow::Initialisers initialisers_;
  std::unordered_map<std::string_view, const NodeDef*> nodes_;
  std::unordered_map<std::string_view, std::string_view> starts_;
};

}  // namespace

std::optional<TensorFlowTraining> tensorflow_training(std::string_view bytes, const std::string& name) {
  try {
    std::vector<Note> notes;
    const auto copy = std::make_shared<const std::string>(bytes);
    const std::string directory = std::filesystem::path(name).parent_path().string();
    const GraphDef graph = tensorflow::read_source(std::as_bytes(std::span(*copy)), copy, directory, notes);
    return TrainingStep(graph).find();
  } catch (Error& error) {
    error.in(name);
    throw;
  }
}

}  // namespace finity
