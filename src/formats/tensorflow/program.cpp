#include "formats/tensorflow/program.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <queue>

#include "base/error.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/output_names.h"
#include "formats/tensorflow/program_parts.h"

namespace finity::tensorflow {

bool is_switch(std::string_view op) { return op == "Switch" || op == "RefSwitch"; }
bool is_merge(std::string_view op) { return op == "Merge" || op == "RefMerge"; }
bool is_enter(std::string_view op) { return op == "Enter" || op == "RefEnter"; }
bool is_exit(std::string_view op) { return op == "Exit" || op == "RefExit"; }
bool is_next_iteration(std::string_view op) { return op == "NextIteration" || op == "RefNextIteration"; }

namespace {

std::string quoted(std::string_view name) { return "node '" + std::string(name) + "'"; }

class Resolver {
 public:
  Resolver(const GraphDef& graph, std::span<const NodeDef> nodes, const FunctionDef* function, Program& program)
      : graph_(graph), nodes_(nodes), function_(function), program_(program) {}

  void resolve() {
    program_.nodes.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      program_.nodes[i].def = &nodes_[i];
      if (!names_.emplace(nodes_[i].name, static_cast<int>(i)).second) {
        throw Error(quoted(nodes_[i].name) + ": another node has the same name");
      }
    }
    if (function_ != nullptr) add_arguments();
    for (std::size_t i = 0; i < nodes_.size(); ++i) resolve_inputs(program_.nodes[i]);
    if (function_ != nullptr) add_results();
  }

 private:
  void add_arguments() {
    for (const ArgDef& arg : function_->signature.inputs) {
      names_.emplace(arg.name, static_cast<int>(nodes_.size() + program_.arguments.size()));
      program_.arguments.push_back(arg.name);
    }
  }
  void add_results() {
    for (const ArgDef& arg : function_->signature.outputs) {
      const auto found = function_->returns.find(arg.name);
      if (found == function_->returns.end()) {
        throw Error("function '" + std::string(function_->signature.name) + "': output '" + std::string(arg.name) +
                    "' is not computed");
      }
      program_.results.push_back(edge(found->second, function_->signature.name));
    }
  }
  void resolve_inputs(ProgramNode& node) {
    for (const std::string_view input : node.def->inputs) {
      if (input.starts_with('^')) {
        const auto found = names_.find(input.substr(1));
        if (found != names_.end() && found->second < static_cast<int>(nodes_.size())) {
          node.controls.push_back(found->second);
        }
      } else {
        node.inputs.push_back(edge(input, node.def->name));
      }
    }
  }

  // "a", "a:1" in graphs; "arg", "a:out", "a:out:1" in functions.
  Edge edge(std::string_view text, std::string_view user) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto found = names_.find(name);
    if (found == names_.end()) {
      throw Error(quoted(user) + ": input '" + std::string(name) + "' is not there");
    }
    Edge result{found->second, 0};
    if (colon != std::string_view::npos) result.output = output_number(found->second, text.substr(colon + 1), user);
    if (result.node < static_cast<int>(nodes_.size())) {
      int& outputs = program_.nodes[static_cast<std::size_t>(result.node)].outputs;
      outputs = std::max(outputs, result.output + 1);
    }
    return result;
  }

  int output_number(int node, std::string_view text, std::string_view user) {
    const std::size_t colon = text.rfind(':');
    const std::string_view digits = colon == std::string_view::npos ? text : text.substr(colon + 1);
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (!is_number && colon != std::string_view::npos) {
      throw Error(quoted(user) + ": input '" + std::string(text) + "' names no output");
    }
    if (number < 0 || number > 100'000) throw Error(quoted(user) + ": uses output " + std::string(digits));
    if (is_number && colon == std::string_view::npos) return number;
    if (node >= static_cast<int>(nodes_.size())) return 0;
    const std::string_view name = is_number ? text.substr(0, colon) : text;
    return first_output(graph_, nodes_[static_cast<std::size_t>(node)], name) + (is_number ? number : 0);
  }

  const GraphDef& graph_;
  std::span<const NodeDef> nodes_;
  const FunctionDef* function_;
  Program& program_;
  std::unordered_map<std::string_view, int> names_;
};

void find_only_assigned(Program& program, const std::vector<int>& order) {
  for (ProgramNode& node : program.nodes) node.only_assigned = true;
  const auto look_at = [&](const Edge& edge) {
    if (!program.is_argument(edge)) program.nodes[static_cast<std::size_t>(edge.node)].only_assigned = false;
  };
  std::ranges::for_each(program.results, look_at);
  for (auto number = order.rbegin(); number != order.rend(); ++number) {
    const ProgramNode& node = program.nodes[static_cast<std::size_t>(*number)];
    const std::string_view op = node.def->op;
    const bool assigns = op == "Assign" || op == "AssignVariableOp";
    if (!assigns && op == "Identity" && node.only_assigned) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!assigns || i != 1) look_at(node.inputs[i]);
    }
  }
}

}  // namespace

Program make_program(const GraphDef& graph, std::span<const NodeDef> nodes, const FunctionDef* function) {
  Program program;
  Resolver(graph, nodes, function, program).resolve();
  const std::vector<int> order = find_frames(program);
  find_guards(program, order);
  find_branches(program, order);
  find_only_assigned(program, order);
  order_frames(program);
  return program;
}

}  // namespace finity::tensorflow
