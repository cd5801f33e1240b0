#include "check/constants.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "check/constant_scan.h"
#include "ops/table/op.h"
#include "ops/table/rule_group.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// An epsilon guards what follows soon.
constexpr int kGuardDistance = 8;

struct Use {
  NodeId node = {};
  std::size_t operand = 0;
};

class Checker {
 public:
  Checker(const Graph& graph, const ConstantChecks& checks);

  std::vector<Finding> run();

 private:
  void count_uses();
  std::span<const Use> uses(ValueId id) const;
  void check(ValueId value, NodeId node, const Constant& constant);
  void check_infinite(ValueId value, NodeId node, const Range& seen);
  void check_converted(ValueId value, NodeId node, const Range& seen);
  void check_absorbed(NodeId id, const Node& node);
  bool converted_somewhere(ValueId value, bool (*exempt)(const Param&, double), double x) const;
  bool reaches_output_infinite(ValueId value) const;
  std::vector<ValueId> next_values(ValueId value) const;
  bool guards_something(ValueId value) const;
  void report(std::string_view rule, ValueId value, NodeId node, const Range& seen, bool possible);

  const Graph& graph_;
  const ConstantChecks& checks_;
  std::vector<std::size_t> first_use_;  // by ValueId, into uses_
  std::vector<Use> uses_;
  std::unordered_multimap<ValueId, BodyId> leaves_;  // bodies that give a value to their owner
  std::unordered_set<NodeId> endangered_;            // nodes where zero or one may be the wrong operand
  std::vector<Finding> findings_;
};

Checker::Checker(const Graph& graph, const ConstantChecks& checks) : graph_(graph), checks_(checks) {
  count_uses();
  if (checks.analysis == nullptr) return;
  for (const Finding& finding : checks.analysis->findings) {
    const bool about_zero = group_of(finding.rule) == RuleGroup::domain || finding.rule == "FN208" ||
                            group_of(finding.rule) == RuleGroup::invalid;
    if (finding.verdict != Verdict::proved && about_zero) endangered_.insert(finding.node);
  }
}

void Checker::count_uses() {
  first_use_.assign(graph_.values().size() + 1, 0);
  const auto for_each_use = [&](auto&& f) {
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i].valid()) f(node.inputs[i].at(), Use{{static_cast<std::int32_t>(n)}, i});
      }
    }
  };
  for_each_use([&](std::size_t value, const Use&) { ++first_use_[value + 1]; });
  for (std::size_t i = 1; i < first_use_.size(); ++i) first_use_[i] += first_use_[i - 1];
  uses_.resize(first_use_.back());
  std::vector<std::size_t> next(first_use_.begin(), first_use_.end() - 1);
  for_each_use([&](std::size_t value, const Use& use) { uses_[next[value]++] = use; });
  for (std::size_t i = 0; i < graph_.bodies().size(); ++i) {
    const BodyId body{static_cast<std::int32_t>(i)};
    for (const ValueId output : graph_.body(body).outputs) leaves_.emplace(output, body);
  }
}

std::span<const Use> Checker::uses(ValueId id) const {
  return std::span(uses_).subspan(first_use_[id.at()], first_use_[id.at() + 1] - first_use_[id.at()]);
}

void Checker::report(std::string_view rule, ValueId value, NodeId node, const Range& seen, bool possible) {
  findings_.push_back({.node = node,
                       .value = value,
                       .rule = rule,
                       .operand = -1,
                       .verdict = possible ? Verdict::possible : Verdict::proved,
                       .certain = possible,
                       .seen = seen,
                       .path = {value}});
}

std::vector<Finding> Checker::run() {
  for (std::size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.constant) check({static_cast<std::int32_t>(i)}, {}, *value.constant);
  }
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    const NodeId id{static_cast<std::int32_t>(i)};
    if (node.outputs.empty() || !node.outputs[0].valid()) continue;
    ConstantPtr stated = stated_constant(node);
    if (const Attr* attr = node.attrs.find("value"); !stated && attr != nullptr) {
      if (const auto* filler = std::get_if<ConstantPtr>(attr)) stated = *filler;  // ConstantOfShape
    }
    if (stated) check(node.outputs[0], id, *stated);
    check_absorbed(id, node);
  }
  return std::move(findings_);
}

void Checker::check(ValueId value, NodeId node, const Constant& constant) {
  if (!is_float(constant.dtype()) || !constant.missing().empty()) return;
  const Range seen = scan_constant(constant);
  if (seen.nan) report("FN401", value, node, seen, true);
  if (seen.pinf || seen.ninf) check_infinite(value, node, seen);
  if (is_converted(constant.dtype(), checks_.target) && checks_.target != DType::undefined) {
    check_converted(value, node, seen);
  }
}

// Infinities next to one ordinary value, or alone, are a mask or a bound. They are wrong when they get out.
void Checker::check_infinite(ValueId value, NodeId node, const Range& seen) {
  const bool sentinel = !(seen.lo < seen.hi) && seen.pinf != seen.ninf;
  report("FN402", value, node, seen, !sentinel || reaches_output_infinite(value));
}

// What a value may become part of: results of its users, what enters and leaves their bodies. Which of them is not
// asked.
std::vector<ValueId> Checker::next_values(ValueId value) const {
  std::vector<ValueId> result;
  const auto add = [&](const std::vector<ValueId>& values) {
    std::ranges::copy_if(values, std::back_inserter(result), &ValueId::valid);
  };
  for (const Use& use : uses(value)) {
    const Node& node = graph_.node(use.node);
    add(node.outputs);
    for (const BodyId body : bodies_of(node.attrs)) add(graph_.body(body).inputs);
  }
  const auto [first, last] = leaves_.equal_range(value);
  for (auto it = first; it != last; ++it) {
    const Body& body = graph_.body(it->second);
    if (!body.owner.valid()) continue;
    add(graph_.node(body.owner).outputs);
    add(body.inputs);  // of the next iteration
  }
  return result;
}

bool Checker::reaches_output_infinite(ValueId value) const {
  if (checks_.analysis == nullptr) return false;
  const auto infinite = [&](ValueId id) {
    const Range hull = checks_.analysis->ranges[id.at()].hull();
    return checks_.analysis->reached[id.at()] && (hull.pinf || hull.ninf);
  };
  std::unordered_set<ValueId> outputs(graph_.main().outputs.begin(), graph_.main().outputs.end());
  std::unordered_set<ValueId> seen = {value};
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (outputs.contains(id)) return true;
    for (const ValueId next : next_values(id)) {
      if (infinite(next) && seen.insert(next).second) open.push_back(next);
    }
  }
  return false;
}

// The first possible finding about zero among the nodes that follow soon.
bool Checker::guards_something(ValueId value) const {
  if (checks_.analysis == nullptr) return true;
  std::unordered_set<ValueId> seen = {value};
  std::vector<ValueId> level = {value};
  for (int distance = 0; distance < kGuardDistance && !level.empty(); ++distance) {
    std::vector<ValueId> next;
    for (const ValueId id : level) {
      const auto endangered = [&](const Use& use) { return endangered_.contains(use.node); };
      if (std::ranges::any_of(uses(id), endangered)) return true;
      for (const ValueId after : next_values(id)) {
        if (seen.insert(after).second) next.push_back(after);
      }
    }
    level = std::move(next);
  }
  return false;
}

// A bound that becomes infinite bounds as much as before: nothing of the format lies beyond it.
bool is_bound(const Param& param, double x) { return param.name == (x > 0 ? "max" : "min"); }
bool never(const Param&, double) { return false; }

bool Checker::converted_somewhere(ValueId value, bool (*exempt)(const Param&, double), double x) const {
  return std::ranges::any_of(uses(value), [&](const Use& use) {
    if (checks_.kept != nullptr && checks_.kept->contains(use.node)) return false;
    const Node& node = graph_.node(use.node);
    const Param* param = node.op == nullptr ? nullptr : Signature::param(signature_of(*node.op).inputs, use.operand);
    return param == nullptr || !exempt(*param, x);
  });
}

void Checker::check_converted(ValueId value, NodeId node, const Range& seen) {
  if (!seen.has_finite()) return;
  const double lo = round_to(checks_.target, seen.lo);
  const double hi = round_to(checks_.target, seen.hi);
  bool overflows = false;
  if (!std::isfinite(lo)) overflows |= converted_somewhere(value, is_bound, seen.lo);
  if (!std::isfinite(hi)) overflows |= converted_somewhere(value, is_bound, seen.hi);
  if (overflows) report("FN403", value, node, seen, true);
  const bool used = converted_somewhere(value, never, 0);
  const bool vanishes = lo == 0 && hi == 0 && (seen.lo != 0 || seen.hi != 0);
  if (vanishes && used) report("FN404", value, node, seen, guards_something(value));
  const bool becomes_one = seen.lo == seen.hi && std::abs(lo) == 1 && std::abs(seen.lo) != 1;
  if (becomes_one && used) report("FN405", value, node, seen, guards_something(value));
}

// 1 - 1e-8 computed from constants: the smaller one is lost.
void Checker::check_absorbed(NodeId id, const Node& node) {
  if (checks_.analysis == nullptr || node.op == nullptr || node.inputs.size() != 2) return;
  if (node.op->traits.order != OrderKind::sum && node.op->traits.order != OrderKind::difference) return;
  const auto range = [&](ValueId v) { return checks_.analysis->ranges[v.at()].hull(); };
  if (!node.inputs[0].valid() || !node.inputs[1].valid() || !node.outputs[0].valid()) return;
  const Range a = range(node.inputs[0]);
  const Range b = range(node.inputs[1]);
  const Range sum = range(node.outputs[0]);
  if (!a.is_point() || !b.is_point() || !sum.is_point() ||
      !is_float(checks_.analysis->ranges[node.outputs[0].at()].dtype)) {
    return;
  }
  const bool second = sum.lo == a.lo && b.lo != 0;
  const bool first = !second && std::abs(sum.lo) == std::abs(b.lo) && a.lo != 0 && std::abs(a.lo) < std::abs(b.lo);
  if (!first && !second) return;
  report("FN405", node.inputs[second ? 1 : 0], id, second ? b : a, guards_something(node.outputs[0]));
}

}  // namespace

std::vector<Finding> constant_findings(const Graph& original, const ConstantChecks& checks) {
  return Checker(original, checks).run();
}

std::vector<Finding> input_findings(const Premises& premises) {
  std::vector<Finding> findings;
  for (const TooWide& wide : premises.too_wide) {
    findings.push_back({.value = wide.value,
                        .rule = "FN206",
                        .operand = -1,
                        .verdict = Verdict::possible,
                        .seen = wide.declared,
                        .path = {wide.value}});
  }
  return findings;
}

}  // namespace finity
