#include "check/keep_search.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <tuple>

#include "check/constants.h"

namespace finity {

namespace {

// The same site in every conversion: ids of nodes and values stay.
using SiteKey = std::tuple<NodeId, ValueId, std::string_view, int>;

SiteKey key_of(const Finding& finding) {
  const ValueId value = finding.node.valid() ? ValueId{} : finding.value;
  return {finding.node, value, finding.rule, finding.operand};
}

class KeepSearch {
 public:
  KeepSearch(const Graph& graph, const Types& types, const Bindings& bindings, const Contract& contract, DType target,
             const KeepOptions& options)
      : graph_(graph), types_(types), bindings_(bindings), contract_(contract), target_(target), options_(options) {}

  KeepResult run() {
    excuse_what_is_there();
    while (grow()) {
    }
    if (result_.proved) shrink();
    return std::move(result_);
  }

 private:
  struct Trial {
    Graph graph;
    NodeSet kept;
    std::vector<Finding> bad;  // not proved, not excused
  };

  bool out_of_budget() {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return result_.runs >= options_.max_runs || (options_.time_limit > 0 && spent.count() > options_.time_limit);
  }

  std::vector<Finding> findings(const Graph& graph, const Types& types, const ConstantChecks& checks) {
    ++result_.runs;
    const Premises assumed = premises(graph, types, contract_, options_.check.ranges.max_cells);
    Analysis analysis = analyze(graph, types, assumed, options_.check);
    ConstantChecks with_ranges = checks;
    with_ranges.analysis = &analysis;
    std::vector<Finding> all = constant_findings(graph_, with_ranges);
    std::ranges::move(input_findings(assumed), std::back_inserter(all));
    std::ranges::move(analysis.findings, std::back_inserter(all));
    std::erase_if(all, [](const Finding& finding) { return finding.verdict == Verdict::proved; });
    return all;
  }

  void excuse_what_is_there() {
    for (const Finding& finding : findings(graph_, types_, {})) excused_.insert(key_of(finding));
    result_.excused = excused_.size();
  }

  Trial converted(const NodeSet& keep) {
    Conversion conversion = convert_floats(graph_, types_, target_, keep);
    const Types types = infer_types(conversion.graph, bindings_);
    Trial trial;
    trial.bad = findings(conversion.graph, types, {.target = target_, .kept = &conversion.kept});
    std::erase_if(trial.bad, [&](const Finding& finding) { return excused_.contains(key_of(finding)); });
    trial.graph = std::move(conversion.graph);
    trial.kept = std::move(conversion.kept);
    return trial;
  }

  // One round: keeps a node more for every finding. False when that is over.
  bool grow() {
    if (out_of_budget()) {
      result_.why = "the search was stopped after " + std::to_string(result_.runs) + " analyses";
      return false;
    }
    const Trial trial = converted(result_.keep);
    result_.proved = trial.bad.empty();
    if (result_.proved) return false;
    const NodeSet more = causes(trial);
    const std::size_t before = result_.keep.size();
    result_.keep.insert(more.begin(), more.end());
    if (result_.keep.size() > before) return true;
    const Finding& finding = trial.bad.front();
    const std::string at = finding.node.valid()    ? describe(trial.graph, trial.graph.node(finding.node))
                           : finding.value.valid() ? "'" + trial.graph.value(finding.value).name + "'"
                                                   : "the model";
    result_.why = std::string(finding.rule) + " at " + at + " stays whatever is kept";
    return false;
  }

  bool is_original(NodeId id) const { return id.valid() && id.at() < graph_.nodes().size(); }
  bool can_add(const Trial& trial, NodeId id) const { return is_original(id) && !trial.kept.contains(id); }

  NodeSet causes(const Trial& trial) const {
    NodeSet more;
    std::set<ValueId> used;  // values whose users are to be kept
    const auto is_first = [](const Finding& finding) { return finding.root < 0; };
    const bool any_first = std::ranges::any_of(trial.bad, is_first);
    for (const Finding& finding : trial.bad) {
      // What only goes on from another finding is looked at when that one is gone.
      if (is_first(finding) || !any_first) add_causes(trial, finding, more, used);
    }
    const auto nodes = trial.graph.nodes();
    for (std::size_t i = 0; !used.empty() && i < nodes.size(); ++i) {
      const NodeId id = {static_cast<std::int32_t>(i)};
      const auto wanted = [&](ValueId input) { return used.contains(input); };
      if (can_add(trial, id) && std::ranges::any_of(nodes[i].inputs, wanted)) more.insert(id);
    }
    return more;
  }

  // The node itself; when it is kept already, the nearest one before it that is not; for an inserted cast
  // and for a constant or input, whoever uses it.
  void add_causes(const Trial& trial, const Finding& finding, NodeSet& more, std::set<ValueId>& used) const {
    if (!finding.node.valid()) {
      if (finding.value.valid()) used.insert(finding.value);
    } else if (!is_original(finding.node)) {
      for (const ValueId out : trial.graph.node(finding.node).outputs) used.insert(out);
    } else if (can_add(trial, finding.node)) {
      more.insert(finding.node);
    } else {
      const auto addable = [&](ValueId value) { return can_add(trial, trial.graph.value(value).producer); };
      const auto nearest = std::find_if(finding.path.rbegin(), finding.path.rend(), addable);
      if (nearest != finding.path.rend()) more.insert(trial.graph.value(*nearest).producer);
    }
  }

  bool suffices(const NodeSet& keep) { return converted(keep).bad.empty(); }

  // Leaves out halves, then quarters, ..., then single nodes, as long as the rest suffices.
  void shrink() {
    for (std::size_t size = std::max<std::size_t>(result_.keep.size() / 2, 1); !result_.keep.empty(); size /= 2) {
      const std::vector<NodeId> nodes(result_.keep.begin(), result_.keep.end());
      for (std::size_t at = 0; at < nodes.size(); at += size) {
        if (out_of_budget()) return;
        NodeSet fewer = result_.keep;
        for (std::size_t i = at; i < std::min(at + size, nodes.size()); ++i) fewer.erase(nodes[i]);
        if (suffices(fewer)) result_.keep = std::move(fewer);
      }
      if (size == 1) break;
    }
    result_.minimal = true;
  }

  const Graph& graph_;
  const Types& types_;
  const Bindings& bindings_;
  const Contract& contract_;
  DType target_;
  const KeepOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::set<SiteKey> excused_;
  KeepResult result_;
};

}  // namespace

KeepResult find_kept_nodes(const Graph& graph, const Types& types, const Bindings& bindings, const Contract& contract,
                           DType target, const KeepOptions& options) {
  return KeepSearch(graph, types, bindings, contract, target, options).run();
}

}  // namespace finity
