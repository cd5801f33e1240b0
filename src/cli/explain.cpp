#include <algorithm>
#include <cstdio>
#include <set>

#include "base/suggest.h"
#include "cli/check_model.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "ops/table/rule_group.h"
#include "report/words.h"

namespace finity {

namespace {

struct Options {
  std::string model;
  std::string node;
  CheckSettings settings;
  std::size_t most = 40;
};

// "Log_3", "FN102@Log_3" (as findings are often written), or a tensor that the node produces.
NodeId find_node(const Graph& graph, const std::string& wanted) {
  std::string name = wanted;
  const std::size_t at = wanted.find('@');
  if (at != std::string::npos && find_rule(wanted.substr(0, at)) != nullptr) name = wanted.substr(at + 1);
  const auto nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == name) return {static_cast<std::int32_t>(i)};
  }
  for (const Value& value : graph.values()) {
    if (value.name == name && value.producer.valid()) return value.producer;
  }
  std::vector<std::string> names;
  for (const Node& node : nodes) names.push_back(node.name);
  for (const Value& value : graph.values()) names.push_back(value.producer.valid() ? value.name : "");
  throw Error("there is no node or computed tensor '" + name + "' in the model" + did_you_mean(name, names));
}

class Explainer {
 public:
  Explainer(const ModelAnalysis& model, NodeId id, std::size_t most)
      : graph_(model.graph), model_(model), id_(id), most_(most) {}

  void print() {
    const Node& node = graph_.node(id_);
    std::printf("%s\n", printable(describe(graph_, node)).c_str());
    const std::string scope = scope_of(graph_, node);
    if (!scope.empty()) std::printf("  inside %s\n", printable(scope).c_str());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid()) print_value("operand " + std::to_string(i), node.inputs[i]);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) print_value("result " + std::to_string(i), node.outputs[i]);
    }
    print_sites();
    print_way();
    print_assumptions();
  }

 private:
  std::string range(ValueId id) const {
    if (!model_.analysis.reached[id.at()] && !graph_.value(id).constant) return "not reached";
    const DType dtype = model_.types[id].dtype;
    const std::string text =
        range_text(model_.analysis.used(id).hull(), dtype) + (may_fail(id) ? " if its node does not fail" : "");
    const auto conditional = model_.analysis.conditional.find(id);
    if (conditional == model_.analysis.conditional.end()) return text;
    return range_text(model_.analysis.ranges[id.at()].hull(), dtype) + "; where " +
           printable(describe(graph_, graph_.node(conditional->second.select))) + " uses it: " + text;
  }

  // After a site that is not proved the result is taken to be what it is when nothing goes wrong.
  bool may_fail(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    return producer.valid() && std::ranges::any_of(model_.analysis.findings, [&](const Finding& finding) {
             return finding.node == producer && finding.verdict != Verdict::proved &&
                    group_of(finding.rule) != RuleGroup::coverage && group_of(finding.rule) != RuleGroup::constant;
           });
  }

  void print_value(const std::string& title, ValueId id) const {
    std::printf("  %s '%s' %s  %s\n", title.c_str(), printable(graph_.value(id).name).c_str(),
                to_string(graph_, model_.types[id]).c_str(), range(id).c_str());
  }

  // Sites under a guard are judged where the guard lets them count.
  std::string where_used() const {
    for (const ValueId out : graph_.node(id_).outputs) {
      const auto found = model_.analysis.conditional.find(out);
      if (found == model_.analysis.conditional.end()) continue;
      return " where " + printable(describe(graph_, graph_.node(found->second.select))) + " uses the result";
    }
    return "";
  }

  void print_sites() const {
    bool any = false;
    for (const Finding& finding : model_.analysis.findings) {
      if (finding.node != id_) continue;
      if (!any) std::printf("sites\n");
      any = true;
      const Rule* rule = find_rule(finding.rule);
      const DType dtype = finding.value.valid() ? model_.types[finding.value].dtype : DType::undefined;
      const std::string looked_at = finding.operand < 0 ? "result" : "operand " + std::to_string(finding.operand);
      std::printf("  %-9s %s: %s %s%s%s%s\n", std::string(name(finding.verdict)).c_str(),
                  rule == nullptr ? std::string(finding.rule).c_str() : rule_title(*rule).c_str(), looked_at.c_str(),
                  range_text(finding.seen, dtype).c_str(), where_used().c_str(), finding.reason.empty() ? "" : "; ",
                  printable(finding.reason).c_str());
    }
    if (!any) std::printf("no sites: nothing can go wrong in this node by itself\n");
  }

  // Nodes behind the operands, nearest first, until the limit.
  std::vector<NodeId> producers() {
    std::vector<NodeId> order;
    std::set<NodeId> seen = {id_};
    std::vector<NodeId> next = {id_};
    for (std::size_t at = 0; at < next.size() && order.size() < most_; ++at) {
      for (const ValueId input : sources(graph_.node(next[at]))) {
        const NodeId producer = graph_.value(input).producer;
        if (!producer.valid()) {
          ends_.insert(input);
        } else if (seen.insert(producer).second) {
          next.push_back(producer);
          order.push_back(producer);
        }
      }
    }
    cut_ = order.size() > most_;
    if (cut_) order.resize(most_);
    std::ranges::sort(order);
    return order;
  }

  static std::vector<ValueId> sources(const Node& node) {
    std::vector<ValueId> result;
    std::ranges::copy_if(node.inputs, std::back_inserter(result), &ValueId::valid);
    result.insert(result.end(), node.captures.begin(), node.captures.end());
    return result;
  }

  void print_way() {
    const std::vector<NodeId> nodes = producers();
    std::printf("the way here%s\n", cut_ ? " (nearest nodes only; --max-nodes 0 shows all)" : "");
    for (const ValueId id : ends_) {
      const Value& value = graph_.value(id);
      const char* kind = value.constant ? "constant" : "input";
      std::printf("  '%s' %s  %s  %s\n", printable(value.name).c_str(), to_string(graph_, model_.types[id]).c_str(),
                  range(id).c_str(), kind);
    }
    for (const NodeId node : nodes) {
      for (const ValueId id : graph_.node(node).outputs) {
        if (!id.valid()) continue;
        std::printf("  '%s' %s  %s  %s\n", printable(graph_.value(id).name).c_str(),
                    to_string(graph_, model_.types[id]).c_str(), range(id).c_str(),
                    printable(describe(graph_, graph_.node(node))).c_str());
      }
    }
  }

  void print_assumptions() const {
    std::vector<std::string> used;
    for (const std::string& text : model_.premises.assumptions) {
      const std::string name = text.substr(0, text.find(": "));
      for (const ValueId id : ends_) {
        if (graph_.value(id).name == name) used.push_back(text);
      }
    }
    if (!used.empty()) std::printf("assumptions\n");
    for (const std::string& text : used) std::printf("  %s\n", printable(text).c_str());
  }

  const Graph& graph_;
  const ModelAnalysis& model_;
  NodeId id_;
  std::size_t most_;
  bool cut_ = false;
  std::set<ValueId> ends_;  // inputs and constants that were met
};

void explain(Options& options) {
  load_config(options.settings);
  const ModelAnalysis model = analyze_model(options.model, plan_of(options.settings));
  const std::size_t all = model.graph.nodes().size();
  NodeId node;
  try {
    node = find_node(model.graph, options.node);
  } catch (Error& error) {
    error.in(options.model);
    throw;
  }
  Explainer(model, node, options.most == 0 ? all : options.most).print();
}

}  // namespace

void add_explain(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("explain", "Show the ranges on the way into a node, and its hazard sites");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "ONNX or text file")->required();
  command->add_option("node", options->node, "Name of a node, of a tensor it produces, or RULE@NAME")->required();
  add_model_options(*command, options->settings);
  command->add_option("--max-nodes", options->most, "Nodes shown on the way (default 40; 0: all)");
  command->callback([options] { explain(*options); });
}

}  // namespace finity
