// Guards: Where(x > 0, log(x), 0) evaluates log(x) everywhere but uses it only where
// x is positive. The operand of a select is computed again from values restricted by
// the condition, as far back as everything is elementwise and used by nobody else;
// hazards inside that part are then decided under the restriction.
#include <algorithm>
#include <utility>

#include "check/analyzer.h"

namespace finity {

namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxGuarded = 64;

// Values y may have when `y comparison other` is `truth`, other somewhere in `with`.
Range allowed(DType dtype, Comparison comparison, bool truth, const Range& with) {
  Range all = top(dtype);
  // A true comparison excludes NaN; a false one does not.
  const bool strict_false = !truth;
  switch (comparison) {
    case Comparison::less:
    case Comparison::less_equal:
    case Comparison::greater:
    case Comparison::greater_equal: break;
    case Comparison::equal: {
      if (truth) {
        Range same = with;
        same.nan = false;
        return same;
      }
      if (with.is_point() && with.lo == 0) all.nonzero = true;
      return all;
    }
    default: return all;
  }
  if (with.nan && strict_false) return all;
  const bool upper = (comparison == Comparison::less || comparison == Comparison::less_equal) == truth;
  const bool open = (comparison == Comparison::less || comparison == Comparison::greater) == truth;
  if (truth) all.nan = false;
  if (upper) {
    const double limit = with.greatest();
    if (limit == kInf && !open) return all;
    all.pinf = all.pinf && limit == kInf && !open;
    if (limit == -kInf) {
      all.lo = kInf;
      all.hi = -kInf;
      all.ninf = all.ninf && !open;
      return all;
    }
    if (limit != kInf) all.hi = std::min(all.hi, open ? next_down(dtype, limit) : limit);
  } else {
    const double limit = with.least();
    if (limit == -kInf && !open) return all;
    all.ninf = all.ninf && limit == -kInf && !open;
    if (limit == kInf) {
      all.lo = kInf;
      all.hi = -kInf;
      all.pinf = all.pinf && !open;
      return all;
    }
    if (limit != -kInf) all.lo = std::max(all.lo, open ? next_up(dtype, limit) : limit);
  }
  return all;
}

Comparison mirrored(Comparison comparison) {
  switch (comparison) {
    case Comparison::less: return Comparison::greater;
    case Comparison::less_equal: return Comparison::greater_equal;
    case Comparison::greater: return Comparison::less;
    case Comparison::greater_equal: return Comparison::less_equal;
    default: return comparison;
  }
}

}  // namespace

void Analyzer::restrict_by(ValueId value, const AbsTensor& other, Comparison comparison, bool truth,
                           Restrictions& restrictions) {
  const Range with = other.hull();
  if (with.is_empty()) return;
  const auto [found, added] = restrictions.try_emplace(value, get(value));
  AbsTensor& range = found->second;
  range.exact.reset();
  for (Range& cell : range.cells) cell = meet(cell, allowed(range.dtype, comparison, truth, with));
  const AggregateBound* size = find_bound(range.relations, Of::magnitude, Order::equal);
  if (size != nullptr && size->is_exact() && size->source.axes == 0)
    restrict_size(size->source.value, range, restrictions);
}

// |value| lies in the hull of `size`, so value lies in it or in its mirror image.
void Analyzer::restrict_size(ValueId value, const AbsTensor& size, Restrictions& restrictions) {
  const Range hull = size.hull();
  const AbsTensor& known = get(value);
  if (!hull.has_finite() || !(hull.hi >= 0) || known.dtype != size.dtype) return;
  Range both = top(size.dtype);
  both.lo = -hull.hi;
  both.hi = hull.hi;
  both.pinf = both.ninf = hull.pinf;
  both.nan = hull.nan;
  both.nonzero = hull.lo > 0;
  both.gap = std::max(hull.lo, 0.0);
  const auto [found, added] = restrictions.try_emplace(value, known);
  found->second.exact.reset();
  for (Range& cell : found->second.cells) cell = meet(cell, both);
}

void Analyzer::collect_restrictions(ValueId condition, bool truth, Restrictions& restrictions, int depth) {
  const NodeId producer = graph_.value(condition).producer;
  if (!producer.valid() || depth > kMaxDepth) return;
  const Node& node = graph_.node(producer);
  if (node.op == nullptr) return;
  const Comparison comparison = node.op->traits.comparison;
  switch (comparison) {
    case Comparison::none:
      // Exporters cast conditions to what they are already.
      if (node.inputs.size() == 1 && node.inputs[0].valid() && get(condition).identity.valid() &&
          get(condition).identity == get(node.inputs[0]).identity)
        collect_restrictions(node.inputs[0], truth, restrictions, depth + 1);
      return;
    case Comparison::logical_not: return collect_restrictions(node.inputs[0], !truth, restrictions, depth + 1);
    case Comparison::logical_and:
    case Comparison::logical_or:
      if ((comparison == Comparison::logical_and) != truth) return;  // "not both" restricts neither
      collect_restrictions(node.inputs[0], truth, restrictions, depth + 1);
      return collect_restrictions(node.inputs[1], truth, restrictions, depth + 1);
    case Comparison::is_nan:
    case Comparison::is_inf: {
      const auto [found, added] = restrictions.try_emplace(node.inputs[0], get(node.inputs[0]));
      for (Range& cell : found->second.cells) {
        if (truth && comparison == Comparison::is_nan) cell = {.nan = cell.nan};
        else if (truth) cell = {.pinf = cell.pinf, .ninf = cell.ninf};
        else if (comparison == Comparison::is_nan) cell.nan = false;
        // Attributes may limit IsInf to one sign.
        else if (node.attrs.find("detect_positive") == nullptr && node.attrs.find("detect_negative") == nullptr)
          cell.pinf = cell.ninf = false;
      }
      return;
    }
    default: break;
  }
  restrict_by(node.inputs[0], get(node.inputs[1]), comparison, truth, restrictions);
  restrict_by(node.inputs[1], get(node.inputs[0]), mirrored(comparison), truth, restrictions);
}

bool Analyzer::used_only_by(ValueId value, std::span<const NodeId> nodes, NodeId select, std::size_t operand) const {
  const auto inside = [&](NodeId user) {
    if (!user.valid()) return false;
    const OpDef* op = graph_.node(user).op;
    if (op != nullptr && op->traits.shape_only) return true;  // whatever the elements are
    if (user != select) return std::ranges::find(nodes, user) != nodes.end();
    const Node& node = graph_.node(select);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (i != operand && node.inputs[i] == value) return false;
    }
    return true;
  };
  return std::ranges::all_of(users_[value.at()], inside);
}

// Elementwise nodes that feed only this operand, in topological order.
std::vector<NodeId> Analyzer::guarded_nodes(const Node& select, std::size_t operand) {
  if (users_.empty()) users_ = users_of(graph_);
  const NodeId select_id = graph_.value(select.outputs.front()).producer;
  std::vector<NodeId> nodes;
  std::vector<ValueId> open = {select.inputs[operand]};
  while (!open.empty() && nodes.size() < kMaxGuarded) {
    const ValueId value = open.back();
    open.pop_back();
    const NodeId producer = graph_.value(value).producer;
    if (!producer.valid() || std::ranges::find(nodes, producer) != nodes.end()) continue;
    const Node& node = graph_.node(producer);
    if (node.op == nullptr || !node.op->traits.elementwise || node.body != select.body || node.outputs.size() != 1)
      continue;
    if (!used_only_by(value, nodes, select_id, operand)) continue;
    nodes.push_back(producer);
    for (const ValueId input : node.inputs) {
      if (input.valid()) open.push_back(input);
    }
  }
  // Ids follow the order of the file, not of execution: sort by the body's order.
  const std::vector<NodeId>& order = graph_.body(select.body).nodes;
  std::vector<NodeId> sorted;
  if (nodes.empty()) return sorted;
  for (const NodeId id : order) {
    if (std::ranges::find(nodes, id) != nodes.end()) sorted.push_back(id);
  }
  return sorted;
}

// What these nodes give at all elements, with what fails where the select does not look.
void Analyzer::keep_unguarded(std::span<const NodeId> nodes) {
  if (probing_ > 0 || restricted()) return;
  for (const NodeId id : nodes) {
    const Node& node = graph_.node(id);
    const ValueId out = node.outputs.front();
    if (!out.valid() || node.op->analysis.range == nullptr || untyped_value(node).valid()) continue;
    std::optional<AbsTensor> range;
    try {
      range = result_of(node, operands_of(node), {}).outputs.front();
      if (range && options_.ranges.flush_subnormals) flush_subnormals(*range);
    } catch (const Error&) {
      range.reset();
    }
    const Taint taint = taints_[out.at()];
    store(out, range ? *std::move(range) : uniform(types_[out], top(types_[out].dtype)));
    taints_[out.at()] = taint;
  }
}

void Analyzer::keep_conditional(NodeId id, NodeId select) {
  if (probing_ > 0) return;
  for (const ValueId out : graph_.node(id).outputs) {
    if (!out.valid()) continue;
    const AbsTensor& now = get(out);
    const auto [found, added] = result_.conditional.try_emplace(out, Conditional{now, select});
    if (added) continue;
    const bool again = depth_ > 0;  // another iteration
    found->second = {again ? join(found->second.range, now, options_.ranges.max_cells) : now, select};
  }
}

AbsTensor Analyzer::assuming(const Node& node, std::size_t operand, std::size_t condition, bool truth) {
  const ValueId value = node.inputs[operand];
  Restrictions restrictions;
  collect_restrictions(node.inputs[condition], truth, restrictions, 0);
  if (restrictions.empty()) return get(value);
  if (const auto found = restrictions.find(value); found != restrictions.end()) return found->second;
  const std::vector<NodeId> nodes = guarded_nodes(node, operand);
  const auto reads_restricted = [&](NodeId id) {
    return std::ranges::any_of(graph_.node(id).inputs, [&](ValueId v) { return restrictions.contains(v); });
  };
  if (std::ranges::none_of(nodes, reads_restricted)) return get(value);
  keep_unguarded(nodes);
  for (auto& [restricted, range] : restrictions) range.exact.reset();
  const NodeId select = graph_.value(node.outputs.front()).producer;
  const OpenScope scope(*this, {.values = std::move(restrictions), .takes_results = true});
  for (const NodeId id : nodes) {
    run_node(id);
    if (!result_.complete) undecide(id, limit_text());
    keep_conditional(id, select);
  }
  return get(value);
}

}  // namespace finity
