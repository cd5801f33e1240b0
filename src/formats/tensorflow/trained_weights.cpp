// Which name of a checkpoint a variable has: its own, or what the nodes that restore it say.
#include <algorithm>
#include <filesystem>

#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/checkpoint.h"

namespace finity::tensorflow {

namespace {

std::string_view node_of(std::string_view input) { return input.substr(0, input.find(':')); }

// "RestoreV2:3", "RestoreV2:tensors:3", "RestoreV2"
std::size_t output_of(std::string_view input) {
  const std::size_t colon = input.rfind(':');
  std::size_t number = 0;
  if (colon == std::string_view::npos) return 0;
  for (const char c : input.substr(colon + 1)) {
    if (c < '0' || c > '9') return 0;
    number = number * 10 + static_cast<std::size_t>(c - '0');
  }
  return number;
}

AttrValue attr_of(const NodeDef& node, std::string_view name) {
  const auto found = std::ranges::find(node.attrs, name, &NamedBytes::first);
  return found == node.attrs.end() ? AttrValue{} : read_attr_value(found->second);
}

using Nodes = std::unordered_map<std::string_view, const NodeDef*>;

Nodes by_name(const std::vector<NodeDef>& nodes) {
  Nodes result;
  for (const NodeDef& node : nodes) result.emplace(node.name, &node);
  return result;
}

// The checkpoint's name of what is assigned; empty when it is not restored.
std::string restored_name(const Nodes& nodes, std::string_view input, const GraphDef& graph) {
  for (int steps = 0; steps < 8; ++steps) {
    const auto found = nodes.find(node_of(input));
    if (found == nodes.end()) return {};
    const NodeDef& node = *found->second;
    if (node.op == "Identity" && !node.inputs.empty()) {
      input = node.inputs[0];
      continue;
    }
    if (node.op != "RestoreV2" || node.inputs.size() < 2) return {};
    const auto names = nodes.find(node_of(node.inputs[1]));
    if (names == nodes.end() || names->second->op != "Const") return {};
    const AttrValue value = attr_of(*names->second, "value");
    if (value.kind != AttrValue::Kind::tensor) return {};
    const Tensor texts = read_tensor(value.messages.front(), graph.owner)->load();
    const std::size_t at = output_of(input);
    if (texts.dtype() != DType::string || at >= texts.strings().size()) return {};
    return texts.strings()[at];
  }
  return {};
}

// Variables by node of the main graph; `arguments` are what stands for the inputs of a function.
void find_names(const GraphDef& graph, const std::vector<NodeDef>& nodes,
                const std::unordered_map<std::string_view, std::string_view>* arguments,
                std::unordered_map<std::string_view, std::string>& names) {
  const Nodes known = by_name(nodes);
  for (const NodeDef& node : nodes) {
    if ((node.op != "Assign" && node.op != "AssignVariableOp") || node.inputs.size() < 2) continue;
    std::string_view variable = node_of(node.inputs[0]);
    if (arguments != nullptr) {
      const auto found = arguments->find(variable);
      if (found == arguments->end()) continue;
      variable = found->second;
    }
    std::string name = restored_name(known, node.inputs[1], graph);
    if (!name.empty()) names[variable] = std::move(name);
  }
}

void find_names_in_calls(const GraphDef& graph, std::unordered_map<std::string_view, std::string>& names) {
  for (const NodeDef& node : graph.nodes) {
    const AttrValue function = attr_of(node, "f");
    if (function.kind != AttrValue::Kind::function) continue;
    const auto found = graph.functions.find(function.function);
    if (found == graph.functions.end()) continue;
    std::unordered_map<std::string_view, std::string_view> arguments;
    const std::vector<ArgDef>& args = found->second.signature.inputs;
    for (std::size_t i = 0; i < args.size() && i < node.inputs.size(); ++i) {
      arguments[args[i].name] = node_of(node.inputs[i]);
    }
    find_names(graph, found->second.nodes, &arguments, names);
  }
}

bool is_variable(std::string_view op) { return op == "VariableV2" || op == "Variable" || op == "VarHandleOp"; }

}  // namespace

void add_trained_weights(const std::string& directory, GraphDef& graph, std::vector<Note>& notes) {
  const std::filesystem::path prefix = std::filesystem::path(directory) / "variables" / "variables";
  std::error_code error;
  if (directory.empty() || !std::filesystem::is_regular_file(prefix.string() + ".index", error)) return;
  const std::unordered_map<std::string, ConstantPtr> tensors = read_checkpoint(prefix.string(), notes);
  std::unordered_map<std::string_view, std::string> names;
  find_names(graph, graph.nodes, nullptr, names);
  find_names_in_calls(graph, names);
  std::size_t missing = 0;
  for (const NodeDef& node : graph.nodes) {
    if (!is_variable(node.op)) continue;
    const auto named = names.find(node.name);
    auto found = tensors.find(named == names.end() ? std::string(node.name) : named->second);
    if (found == tensors.end()) {
      const AttrValue shared = attr_of(node, "shared_name");
      if (!shared.texts.empty()) found = tensors.find(std::string(shared.texts.front()));
    }
    if (found == tensors.end()) ++missing;
    else graph.weights[std::string(node.name)] = found->second;
  }
  if (missing > 0) {
    notes.push_back(
        {"variables", std::to_string(missing) + " have no numbers in the checkpoint; their initialisers count"});
  }
}

}  // namespace finity::tensorflow
