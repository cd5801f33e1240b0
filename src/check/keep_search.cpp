#include "check/keep_search.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "base/thread_clock.h"
#include "check/constants.h"
#include "ops/table/op.h"

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
      : graph_(graph), types_(types), bindings_(bindings), contract_(contract), target_(target), options_(options) {
    find_candidates();
  }

  KeepResult run();

 private:
  struct Trial {
    Conversion conversion;
    std::vector<Finding> bad;  // not proved, not excused
    NodeSet needed;            // kept, and certain to overflow when converted alone: no need to try
  };

  bool out_of_budget() const;
  std::vector<Finding> findings(const Graph& graph, const Types& types, const ConstantChecks& checks,
                                Analysis& analysis);
  void look_at_original();
  Trial trial(const NodeSet& keep);

  bool is_original(NodeId id) const { return id.valid() && id.at() < graph_.nodes().size(); }
  bool is_candidate(NodeId id) const { return is_original(id) && candidates_[id.at()]; }
  void find_candidates();
  // Nodes that read or give values the target cannot hold.
  NodeSet too_large(const Analysis& analysis) const;
  // What might help against a finding.
  void add_causes(const Trial& now, const Finding& finding, NodeSet& keep, std::set<ValueId>& used) const;
  void add_producers(const Trial& now, const Finding& finding, NodeSet& keep) const;
  void add_users(const Trial& now, const std::set<ValueId>& used, NodeSet& keep) const;
  NodeSet with_causes(const Trial& now, NodeSet keep) const;
  Trial grow();
  Trial bound(Trial now, const NodeSet& wanted);
  NodeSet with_readers(NodeSet keep) const;
  bool leave_out(const std::vector<NodeId>& nodes, std::size_t begin, std::size_t end, Trial& best);
  bool shrink(Trial& best);
  std::string obstacle(const Trial& trial) const;

  const Graph& graph_;
  const Types& types_;
  const Bindings& bindings_;
  const Contract& contract_;
  DType target_;
  const KeepOptions& options_;
  double start_ = thread_seconds();  // computing time: the answer does not depend on what else the machine does
  std::vector<bool> candidates_;     // by NodeId: the conversion changes what the node computes
  Analysis original_;
  std::set<SiteKey> excused_;
  NodeSet excused_nodes_;
  KeepResult result_;
};

bool KeepSearch::out_of_budget() const {
  const double spent = thread_seconds() - start_;
  return result_.runs >= options_.max_runs || (options_.time_limit > 0 && spent > options_.time_limit);
}

std::vector<Finding> KeepSearch::findings(const Graph& graph, const Types& types, const ConstantChecks& checks,
                                          Analysis& analysis) {
  ++result_.runs;
  const Premises assumed = premises(graph, types, contract_, options_.check.ranges.max_cells);
  CheckOptions settings = options_.check;
  settings.find_causes = false;
  analysis = analyze(graph, types, assumed, settings);
  ConstantChecks with_ranges = checks;
  with_ranges.analysis = &analysis;
  std::vector<Finding> all = constant_findings(graph_, with_ranges);
  std::ranges::move(input_findings(assumed), std::back_inserter(all));
  std::ranges::copy(analysis.findings, std::back_inserter(all));
  std::erase_if(all, [&](const Finding& finding) {
    return finding.verdict == Verdict::proved || (options_.counts && !options_.counts(finding));
  });
  return all;
}

void KeepSearch::look_at_original() {
  for (const Finding& finding : findings(graph_, types_, {}, original_)) {
    excused_.insert(key_of(finding));
    excused_nodes_.insert(finding.node);
  }
  result_.excused = excused_.size();
}

KeepSearch::Trial KeepSearch::trial(const NodeSet& keep) {
  Trial result;
  result.conversion = convert_floats(graph_, types_, target_, keep);
  const Types types = infer_types(result.conversion.graph, bindings_);
  Analysis analysis;
  result.bad = findings(result.conversion.graph, types, {.target = target_, .kept = &result.conversion.kept}, analysis);
  std::erase_if(result.bad, [&](const Finding& finding) { return excused_.contains(key_of(finding)); });
  // What was not reached has no findings either.
  if (!analysis.complete) result.bad.push_back({.rule = "FN903", .verdict = Verdict::unknown});
  // What goes wrong at a node that was wrong before is not counted, so only a trial can tell.
  result.needed = too_large(analysis);
  std::erase_if(result.needed, [&](NodeId id) { return excused_nodes_.contains(id); });
  return result;
}

// Nodes that compute with numbers the conversion changes, and the owners of their bodies.
void KeepSearch::find_candidates() {
  candidates_.resize(graph_.nodes().size(), false);
  const auto converted = [&](ValueId id) {
    return id.valid() && types_[id].is_tensor() && is_converted(types_[id].dtype, target_);
  };
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    const bool touches = std::ranges::any_of(node.inputs, converted) || std::ranges::any_of(node.outputs, converted);
    const bool shapes_only = node.op != nullptr && node.op->traits.shape_only;
    if (!touches || shapes_only || stated_constant(node)) continue;
    NodeId id{static_cast<std::int32_t>(i)};
    ++result_.candidates;
    for (; id.valid() && !candidates_[id.at()]; id = graph_.body(graph_.node(id).body).owner) {
      candidates_[id.at()] = true;
    }
  }
}

// No need to find out step by step, along a chain of nodes, what cannot be in the target.
NodeSet KeepSearch::too_large(const Analysis& analysis) const {
  NodeSet nodes;
  const double limit = max_finite(target_);
  const auto exceeds = [&](ValueId id) {
    if (!id.valid() || !analysis.reached[id.at()] || graph_.value(id).constant) return false;
    const AbsTensor& range = analysis.ranges[id.at()];
    return is_converted(range.dtype, target_) && range.hull().magnitude() > limit;
  };
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (!candidates_[i]) continue;
    if (std::ranges::any_of(node.inputs, exceeds) || std::ranges::any_of(node.outputs, exceeds)) {
      nodes.insert({static_cast<std::int32_t>(i)});
    }
  }
  return nodes;
}

// The node computes in its own format already: what reaches it does not.
void KeepSearch::add_producers(const Trial& now, const Finding& finding, NodeSet& keep) const {
  const Node& node = graph_.node(finding.node);
  std::vector<ValueId> sources = node.inputs;
  if (finding.operand >= 0) sources = {node.inputs[static_cast<std::size_t>(finding.operand)]};
  bool added = false;
  const auto add_producer = [&](ValueId id) {
    const NodeId producer = id.valid() && id.at() < graph_.values().size() ? graph_.value(id).producer : NodeId{};
    if (!is_candidate(producer) || now.conversion.kept.contains(producer)) return;
    added |= keep.insert(producer).second;
  };
  std::ranges::for_each(sources, add_producer);
  for (auto at = finding.path.rbegin(); at != finding.path.rend() && !added; ++at) add_producer(*at);
}

// The node itself; when it is kept already, what it reads; for an inserted cast and for a constant, whoever uses it.
void KeepSearch::add_causes(const Trial& now, const Finding& finding, NodeSet& keep, std::set<ValueId>& used) const {
  if (!finding.node.valid()) {
    if (finding.value.valid()) used.insert(finding.value);
  } else if (!is_original(finding.node)) {
    for (const ValueId out : now.conversion.graph.node(finding.node).outputs) used.insert(out);
  } else if (stated_constant(graph_.node(finding.node))) {
    used.insert(graph_.node(finding.node).outputs.front());
  } else if (is_candidate(finding.node) && !now.conversion.kept.contains(finding.node)) {
    keep.insert(finding.node);
  } else {
    add_producers(now, finding, keep);
  }
}

void KeepSearch::add_users(const Trial& now, const std::set<ValueId>& used, NodeSet& keep) const {
  const auto wanted = [&](ValueId id) { return used.contains(id); };
  const Graph& mixed = now.conversion.graph;
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    if (candidates_[i] && std::ranges::any_of(mixed.nodes()[i].inputs, wanted)) {
      keep.insert({static_cast<std::int32_t>(i)});
    }
  }
  // What leaves a body in the target's format does so for its owner's sake.
  for (const Body& body : mixed.bodies()) {
    if (is_original(body.owner) && std::ranges::any_of(body.outputs, wanted)) keep.insert(body.owner);
  }
}

NodeSet KeepSearch::with_causes(const Trial& now, NodeSet keep) const {
  const std::size_t before = keep.size();
  std::set<ValueId> used;
  // What only follows from another finding may go away with it. That can take many rounds: not for ever.
  constexpr int kPatientRuns = 40;
  for (const Finding& finding : now.bad) {
    if (finding.root < 0 && result_.runs < kPatientRuns) add_causes(now, finding, keep, used);
  }
  if (!used.empty()) add_users(now, used, keep);
  if (keep.size() > before) return keep;
  for (const Finding& finding : now.bad) add_causes(now, finding, keep, used);
  if (!used.empty()) add_users(now, used, keep);
  return keep;
}

// Keeps more and more until nothing is worse than in the original, or nothing helps.
KeepSearch::Trial KeepSearch::grow() {
  Trial now = trial({});
  if (now.bad.empty()) return now;
  NodeSet next = with_causes(now, too_large(original_));
  while (next.size() > result_.keep.size()) {
    if (out_of_budget()) return bound(std::move(now), next);
    now = trial(next);
    result_.keep = next;
    if (now.bad.empty()) return now;
    next = with_causes(now, std::move(next));
  }
  return bound(std::move(now), next);
}

// And all that reads what they compute, nodes that read that, and so on.
NodeSet KeepSearch::with_readers(NodeSet keep) const {
  std::vector<bool> reached(graph_.values().size(), false);
  const auto is_reached = [&](ValueId id) { return id.valid() && reached[id.at()]; };
  // Once, unless nodes stand before those that they read.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      const NodeId id{static_cast<std::int32_t>(i)};
      if (!keep.contains(id) && !std::ranges::any_of(node.inputs, is_reached)) continue;
      if (candidates_[i]) keep.insert(id);
      for (const ValueId out : node.outputs) {
        changed |= out.valid() && !reached[out.at()];
        if (out.valid()) reached[out.at()] = true;
      }
    }
  }
  return keep;
}

// Single steps did not get there, or there is no time for them: what is wanted with all that follows from it, then the
// original formats everywhere. Two analyses more at most, whatever the time, as a list that is too long is worth more
// than none.
KeepSearch::Trial KeepSearch::bound(Trial now, const NodeSet& wanted) {
  NodeSet everything;
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    if (candidates_[i]) everything.insert({static_cast<std::int32_t>(i)});
  }
  for (NodeSet next : {with_readers(wanted), everything}) {
    if (next == result_.keep) continue;
    Trial tried = trial(next);
    if (tried.bad.size() >= now.bad.size()) continue;
    result_.keep = std::move(next);
    now = std::move(tried);
    if (now.bad.empty()) break;
  }
  return now;
}

// Takes the smaller set when it is no worse.
bool KeepSearch::leave_out(const std::vector<NodeId>& nodes, std::size_t begin, std::size_t end, Trial& best) {
  NodeSet fewer = result_.keep;
  for (std::size_t i = begin; i < end; ++i) fewer.erase(nodes[i]);
  if (fewer.size() == result_.keep.size()) return false;
  Trial without = trial(fewer);
  std::set<SiteKey> allowed;
  for (const Finding& finding : best.bad) allowed.insert(key_of(finding));
  const auto is_allowed = [&](const Finding& finding) { return allowed.contains(key_of(finding)); };
  if (!std::ranges::all_of(without.bad, is_allowed)) return false;
  result_.keep = std::move(fewer);
  best = std::move(without);
  return true;
}

// What might be left out: all, halves, quarters, ..., then single nodes until none can be. False: out of budget before
// that.
bool KeepSearch::shrink(Trial& best) {
  for (std::size_t chunk = result_.keep.size(); chunk > 0;) {
    std::vector<NodeId> nodes;
    std::ranges::set_difference(result_.keep, best.needed, std::back_inserter(nodes));
    chunk = std::min(chunk, nodes.size());
    bool changed = false;
    // From the end: a node is often kept for the sake of those after it.
    for (std::size_t end = nodes.size(); end > 0; end -= std::min(end, chunk)) {
      if (out_of_budget()) return false;
      changed |= leave_out(nodes, end - std::min(end, chunk), end, best);
    }
    if (chunk <= 1 && !changed) return true;
    chunk = std::max<std::size_t>(chunk / 2, 1);
  }
  return true;
}

std::string KeepSearch::obstacle(const Trial& trial) const {
  if (out_of_budget()) return "the search was stopped after " + std::to_string(result_.runs) + " analyses";
  const Finding& finding = trial.bad.front();
  const Graph& mixed = trial.conversion.graph;
  const std::string at = finding.node.valid()    ? describe(mixed, mixed.node(finding.node))
                         : finding.value.valid() ? "'" + mixed.value(finding.value).name + "'"
                                                 : "the model";
  return std::string(finding.rule) + " at " + at + " stays whatever is kept";
}

KeepResult KeepSearch::run() {
  look_at_original();
  Trial best = grow();
  result_.proved = best.bad.empty();
  if (!result_.proved) result_.why = obstacle(best);
  result_.minimal = shrink(best);
  return std::move(result_);
}

}  // namespace

KeepResult find_kept_nodes(const Graph& graph, const Types& types, const Bindings& bindings, const Contract& contract,
                           DType target, const KeepOptions& options) {
  return KeepSearch(graph, types, bindings, contract, target, options).run();
}

}  // namespace finity
