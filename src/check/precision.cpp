#include "check/precision.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>

#include "check/constants.h"

namespace finity {

namespace {

using Clock = std::chrono::steady_clock;
// A site: node, rule, operand; for a finding about a constant or input the value stands for the node.
using Key = std::tuple<std::int32_t, std::int32_t, std::string_view, int>;

Key key_of(const Finding& finding) {
  return {finding.node.index, finding.node.valid() ? -1 : finding.value.index, finding.rule, finding.operand};
}

struct Trial {
  Conversion conversion = {};
  std::vector<Finding> open = {};  // not proved
  std::vector<Finding> bad = {};   // of these, what the original does not have
  Analysis analysis = {};
};

class Planner {
 public:
  Planner(const Graph& graph, const Types& types, DType target, const Contract& contract,
          const PrecisionOptions& options)
      : graph_(graph),
        types_(types),
        target_(target),
        contract_(contract),
        options_(options),
        users_(graph.values().size()) {}

  PrecisionPlan run();

 private:
  void look_at_original();
  Trial trial(const NodeSet& keep);
  bool counts(const Finding& finding) const {
    return finding.verdict != Verdict::proved && (!options_.counts || options_.counts(finding));
  }
  bool out_of_time() const { return Clock::now() > deadline_; }
  NodeSet too_large_for_target() const;
  bool original_node(NodeId id) const { return id.valid() && id.at() < graph_.nodes().size(); }

  // Nodes that might help against a finding, not kept yet.
  void add_remedy(const Trial& now, const Finding& finding, NodeSet& keep) const;
  void add_cast_users(const Graph& mixed, const Node& cast, NodeSet& keep) const;
  void add_producers(const Trial& now, const Finding& finding, NodeSet& keep) const;
  Trial grow(NodeSet& keep);
  bool shrink(NodeSet& keep, Trial& best);
  bool try_without(const std::vector<NodeId>& nodes, std::size_t begin, std::size_t end, NodeSet& keep, Trial& best);

  const Graph& graph_;
  const Types& types_;
  DType target_;
  const Contract& contract_;
  const PrecisionOptions& options_;
  std::vector<std::vector<NodeId>> users_;  // by ValueId of the original
  std::set<Key> in_original_;
  Analysis original_;
  Clock::time_point deadline_;
  std::size_t analyses_ = 0;
};

void Planner::look_at_original() {
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    for (const ValueId input : graph_.nodes()[i].inputs) {
      if (input.valid()) users_[input.at()].push_back({static_cast<std::int32_t>(i)});
    }
  }
  const Premises given = premises(graph_, types_, contract_, options_.check.ranges.max_cells);
  original_ = analyze(graph_, types_, given, options_.check);
  ++analyses_;
  std::vector<Finding> findings = constant_findings(graph_, {.analysis = &original_});
  std::ranges::move(input_findings(given), std::back_inserter(findings));
  for (const Finding& finding : original_.findings) {
    if (counts(finding)) in_original_.insert(key_of(finding));
  }
  for (const Finding& finding : findings) {
    if (counts(finding)) in_original_.insert(key_of(finding));
  }
}

Trial Planner::trial(const NodeSet& keep) {
  Trial result;
  result.conversion = convert_floats(graph_, types_, target_, keep);
  const Types types = infer_types(result.conversion.graph, options_.bindings);
  const Premises given = premises(result.conversion.graph, types, contract_, options_.check.ranges.max_cells);
  result.analysis = analyze(result.conversion.graph, types, given, options_.check);
  ++analyses_;
  std::vector<Finding> findings =
      constant_findings(graph_, {.target = target_, .kept = &result.conversion.kept, .analysis = &result.analysis});
  std::ranges::move(input_findings(given), std::back_inserter(findings));
  std::ranges::copy(result.analysis.findings, std::back_inserter(findings));
  for (Finding& finding : findings) {
    if (!counts(finding)) continue;
    if (!in_original_.contains(key_of(finding))) result.bad.push_back(finding);
    result.open.push_back(std::move(finding));
  }
  return result;
}

// Operands and results beyond the target's largest value cannot be had in it: no need to find that out step by step.
NodeSet Planner::too_large_for_target() const {
  NodeSet nodes;
  const double limit = max_finite(target_);
  const auto too_large = [&](ValueId id) {
    if (!id.valid() || !original_.reached[id.at()] || graph_.value(id).constant) return false;
    const AbsTensor& range = original_.ranges[id.at()];
    return is_converted(range.dtype, target_) && range.hull().magnitude() > limit;
  };
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (std::ranges::any_of(node.inputs, too_large) || std::ranges::any_of(node.outputs, too_large)) {
      nodes.insert({static_cast<std::int32_t>(i)});
    }
  }
  return nodes;
}

// A cast to the target that overflows: whoever reads it must take the wide value instead.
void Planner::add_cast_users(const Graph& mixed, const Node& cast, NodeSet& keep) const {
  const ValueId result = cast.outputs.front();
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    if (std::ranges::find(mixed.nodes()[i].inputs, result) != mixed.nodes()[i].inputs.end()) {
      keep.insert({static_cast<std::int32_t>(i)});
    }
  }
  for (const Body& body : mixed.bodies()) {
    const bool leaves = std::ranges::find(body.outputs, result) != body.outputs.end();
    if (leaves && original_node(body.owner)) keep.insert(body.owner);
  }
}

// The node itself computes in its own format already: what reaches it does not.
void Planner::add_producers(const Trial& now, const Finding& finding, NodeSet& keep) const {
  const auto is_kept = [&](NodeId id) { return keep.contains(id) || now.conversion.kept.contains(id); };
  const Node& node = graph_.node(finding.node);
  std::vector<ValueId> sources = node.inputs;
  if (finding.operand >= 0) sources = {node.inputs[static_cast<std::size_t>(finding.operand)]};
  bool added = false;
  const auto add_producer = [&](ValueId id) {
    const NodeId producer = id.valid() && id.at() < graph_.values().size() ? graph_.value(id).producer : NodeId{};
    if (!producer.valid() || is_kept(producer) || stated_constant(graph_.node(producer))) return;
    added = keep.insert(producer).second;
  };
  std::ranges::for_each(sources, add_producer);
  for (auto at = finding.path.rbegin(); at != finding.path.rend() && !added; ++at) add_producer(*at);
}

void Planner::add_remedy(const Trial& now, const Finding& finding, NodeSet& keep) const {
  const auto is_kept = [&](NodeId id) { return keep.contains(id) || now.conversion.kept.contains(id); };
  const Graph& mixed = now.conversion.graph;
  if (finding.node.valid() && !original_node(finding.node)) {
    return add_cast_users(mixed, mixed.node(finding.node), keep);
  }
  const bool about_constant = !finding.node.valid() || stated_constant(graph_.node(finding.node)) != nullptr;
  if (about_constant) {
    if (finding.value.at() >= users_.size()) return;
    keep.insert(users_[finding.value.at()].begin(), users_[finding.value.at()].end());
  } else if (!is_kept(finding.node)) {
    keep.insert(finding.node);
  } else {
    add_producers(now, finding, keep);
  }
}

// Keeps more and more until nothing is worse than in the original, or nothing helps; `keep` is what the trial kept.
Trial Planner::grow(NodeSet& keep) {
  Trial now = trial(keep);
  if (now.bad.empty()) return now;
  NodeSet next = too_large_for_target();
  while (!out_of_time()) {
    for (const Finding& finding : now.bad) add_remedy(now, finding, next);
    if (next.size() == keep.size()) break;
    now = trial(next);
    keep = next;
    if (now.bad.empty()) return now;
  }
  // Single steps did not get there: start from the original format everywhere.
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) next.insert({static_cast<std::int32_t>(i)});
  Trial everything = trial(next);
  if (everything.bad.size() >= now.bad.size()) return now;
  keep = std::move(next);
  return everything;
}

bool Planner::try_without(const std::vector<NodeId>& nodes, std::size_t begin, std::size_t end, NodeSet& keep,
                          Trial& best) {
  NodeSet fewer = keep;
  bool differs = false;
  for (std::size_t i = begin; i < end; ++i) differs |= fewer.erase(nodes[i]) > 0;
  if (!differs) return false;
  Trial without = trial(fewer);
  std::set<Key> allowed;
  for (const Finding& finding : best.bad) allowed.insert(key_of(finding));
  const auto is_allowed = [&](const Finding& finding) { return allowed.contains(key_of(finding)); };
  if (!std::ranges::all_of(without.bad, is_allowed)) return false;
  keep = std::move(fewer);
  best = std::move(without);
  return true;
}

// Halves, quarters, ... single nodes are left out while nothing gets worse. True: no single node can be.
bool Planner::shrink(NodeSet& keep, Trial& best) {
  for (std::size_t chunk = keep.size(); chunk > 0;) {
    const std::vector<NodeId> nodes(keep.begin(), keep.end());
    bool changed = false;
    // From the end: a node is often kept for the sake of those after it.
    for (std::size_t end = nodes.size(); end > 0; end -= std::min(end, chunk)) {
      if (out_of_time()) return keep.empty();
      changed |= try_without(nodes, end - std::min(end, chunk), end, keep, best);
    }
    if (chunk == 1 && !changed) return true;
    chunk = std::min(std::max<std::size_t>(chunk / 2, 1), keep.size());
  }
  return true;
}

std::string name_of(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return node.name;
  const auto named = std::ranges::find_if(node.outputs, &ValueId::valid);
  return named == node.outputs.end() ? std::string(node.op_type) : graph.value(*named).name;
}

PrecisionPlan Planner::run() {
  deadline_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
  look_at_original();
  NodeSet keep;
  Trial best = grow(keep);
  PrecisionPlan plan;
  plan.minimal = shrink(keep, best);
  plan.as_good = best.bad.empty() && best.analysis.complete;
  plan.proved = best.open.empty() && best.analysis.complete;
  plan.left = std::move(best.open);
  plan.mixed = std::move(best.conversion);
  plan.analyses = analyses_;
  plan.keep.assign(keep.begin(), keep.end());
  for (const NodeId id : plan.keep) plan.names.push_back(name_of(graph_, graph_.node(id)));
  return plan;
}

}  // namespace

PrecisionPlan plan_precision(const Graph& original, const Types& types, DType target, const Contract& contract,
                             const PrecisionOptions& options) {
  return Planner(original, types, target, contract, options).run();
}

std::string block_list(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) {
    const bool apostrophe = name.find('\'') != std::string::npos;
    const char quote = apostrophe ? '"' : '\'';
    text += text.size() == 1 ? "" : ", ";
    text += quote;
    for (const char c : name) {
      if (c == '\\' || c == quote) text += '\\';
      text += c;
    }
    text += quote;
  }
  return text + "]";
}

}  // namespace finity
