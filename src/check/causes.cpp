#include "check/causes.h"

#include <algorithm>
#include <utility>

#include "ops/table/op.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::size_t kMaxPath = 500;
constexpr std::size_t kMaxOperands = 8;  // that are tried at one node
constexpr int kMaxAsked = 20'000;

double width(const Range& range) {
  if (range.nan || range.pinf || range.ninf) return kInf;
  return range.has_finite() ? range.hi - range.lo : 0;
}

bool is_one_value(const Range& range) {
  return (range.is_point() || (!range.has_finite() && range.pinf != range.ninf)) && !range.nan;
}

}  // namespace

bool CauseTracer::holds(const Range& range, const Part& part) {
  switch (part.kind) {
    case Part::Kind::nan: return range.nan;
    case Part::Kind::plus_infinity: return range.pinf;
    case Part::Kind::minus_infinity: return range.ninf;
    case Part::Kind::zero: return range.may_be_zero();
    case Part::Kind::low: return range.least() <= part.limit;
    case Part::Kind::high: return range.greatest() >= part.limit;
  }
  return false;
}

CauseTracer::Part CauseTracer::widest_end(const Range& range) {
  if (range.nan) return {Part::Kind::nan, 0};
  if (range.pinf) return {Part::Kind::plus_infinity, 0};
  if (range.ninf) return {Part::Kind::minus_infinity, 0};
  if (range.has_finite() && -range.lo > range.hi) return {Part::Kind::low, range.lo};
  return {Part::Kind::high, range.hi};
}

// The same part of another value where it has it, else what stands out there.
CauseTracer::Part CauseTracer::part_in(ValueId value, const Part& part) const {
  return holds(hull(value), part) ? part : widest_end(hull(value));
}

CauseTracer::Part CauseTracer::start(const Finding& finding) const {
  const Range& seen = finding.seen;
  const OpDef* op = finding.node.valid() ? graph_.node(finding.node).op : nullptr;
  const DType dtype = analysis_.ranges[finding.value.at()].dtype;
  if (op != nullptr && finding.operand >= 0 && dtype != DType::undefined) {
    for (const Hazard& hazard : op->analysis.hazards) {
      if (hazard.quantity != nullptr || hazard.rule != finding.rule) continue;
      if (static_cast<int>(hazard.operand) != finding.operand) continue;
      for (const Unsafe& unsafe : hazard.unsafe(dtype)) {
        if (!meets(seen, {unsafe})) continue;
        if (unsafe.lo == -kInf) return {Part::Kind::low, unsafe.hi};
        if (unsafe.lo <= 0 && unsafe.hi >= 0) return {Part::Kind::zero, 0};
        return {Part::Kind::high, unsafe.lo};
      }
    }
  }
  // A rule's own hazard: rows of -Inf, sums that are zero, ...
  if (finding.operand >= 0 && seen.ninf) return {Part::Kind::minus_infinity, 0};
  if (finding.operand >= 0 && seen.is_finite() && seen.may_be_zero()) return {Part::Kind::zero, 0};
  return widest_end(seen);
}

bool CauseTracer::is_fixed(ValueId value) const {
  return analysis_.ranges[value.at()].exact != nullptr || graph_.value(value).constant != nullptr;
}

bool CauseTracer::can_ask(const Node& node) const {
  if (!rule_ || asked_ >= kMaxAsked || node.op->analysis.range == nullptr || !bodies_of(node.attrs).empty())
    return false;
  const auto usable = [&](ValueId id) {
    return !id.valid() || (analysis_.reached[id.at()] && types_[id].is_tensor() &&
                           analysis_.ranges[id.at()].dtype != DType::undefined);
  };
  return std::ranges::all_of(node.inputs, usable) && std::ranges::all_of(node.outputs, usable);
}

// Does the result still have the part when all elements of the operand lie here? Nothing: the rule does not say.
std::optional<bool> CauseTracer::remains(const Node& node, Operands operands, std::size_t output, std::size_t operand,
                                         const Range& instead, const Part& part) {
  ++asked_;
  AbsTensor fixed = uniform(*operands[operand].type, instead);
  operands[operand] = {.range = &fixed, .type = operands[operand].type};
  try {
    return holds(rule_(node, std::move(operands), output), part);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Puts the operand at each of its outstanding values, and at an ordinary one.
std::optional<CauseTracer::Role> CauseTracer::role_of(const Node& node, const Operands& operands, std::size_t output,
                                                      std::size_t operand, const Part& part) {
  const Range all = hull(node.inputs[operand]);
  const DType dtype = analysis_.ranges[node.inputs[operand].at()].dtype;
  std::vector<std::pair<Range, Part>> points;
  const Range nan = {.nan = true};
  const Range plus = {.pinf = true};
  const Range minus = {.ninf = true};
  if (all.nan) points.push_back({nan, {Part::Kind::nan, 0}});
  if (all.pinf) points.push_back({plus, {Part::Kind::plus_infinity, 0}});
  if (all.ninf) points.push_back({minus, {Part::Kind::minus_infinity, 0}});
  if (all.has_finite()) points.push_back({point(all.hi), {Part::Kind::high, all.hi}});
  if (all.has_finite() && all.lo < all.hi) points.push_back({point(all.lo), {Part::Kind::low, all.lo}});
  const double middle = all.lo / 2 + all.hi / 2;
  if (all.has_finite() && all.lo < middle && middle < all.hi && middle != 0 && is_float(dtype)) {
    points.push_back({point(round_to(dtype, middle)), {Part::Kind::high, all.hi}});
  }
  if (all.lo < 0 && all.hi > 0 && !all.nonzero) points.push_back({point(0), {Part::Kind::zero, 0}});
  Role role = {.operand = operand, .width = width(all), .part = widest_end(all)};
  bool found = false;
  std::size_t gone = 0;
  for (const auto& [range, own] : points) {
    const std::optional<bool> still = remains(node, operands, output, operand, range, part);
    if (!still) return std::nullopt;
    gone += *still ? 0 : 1;
    // The same sort of number as in the result where several will do.
    if (*still && (!found || own.kind == part.kind)) role.part = own;
    found |= *still;
  }
  role.needed = gone > 0 && (found || points.size() > 1);
  role.share = points.empty() ? 0 : static_cast<double>(gone) / static_cast<double>(points.size());
  if (gone == 0 && is_one_value(all)) {
    const std::optional<bool> still = remains(node, operands, output, operand, point(is_float(dtype) ? 0.5 : 1), part);
    role.needed = still && !*still;
    role.share = role.needed ? 1 : 0;
  }
  const bool infinite = part.kind == Part::Kind::plus_infinity || part.kind == Part::Kind::minus_infinity;
  role.brings = (part.kind == Part::Kind::nan && all.nan) || (infinite && (all.pinf || all.ninf));
  return role;
}

CauseTracer::Step CauseTracer::find_step(const Node& node, std::size_t output, const Part& part) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].valid()) open.push_back(i);
  }
  const auto varies = [&](std::size_t i) { return !is_fixed(node.inputs[i]); };
  // Nothing to choose, and nothing to learn about the part that is worth the time.
  const bool clear = std::ranges::count_if(open, varies) < 2 && !node.op->traits.elementwise && !node.op->traits.random;
  if (clear || open.size() > kMaxOperands || !can_ask(node)) return widest(node, output, part);
  const Operands operands = operands_of_(node);
  std::vector<Role> roles;
  Step step;
  for (const std::size_t i : open) {
    const std::optional<Role> role = role_of(node, operands, output, i, part);
    if (!role) return widest(node, output, part);
    if (!role->needed) continue;
    const Range range = hull(node.inputs[i]);
    const bool infinite = range.nan || range.pinf || range.ninf;
    if (varies(i)) roles.push_back(*role);
    else if (infinite || (node.op->traits.elementwise && is_one_value(range))) step.constants.push_back(node.inputs[i]);
  }
  const auto better = [](const Role& a, const Role& b) {
    return std::tuple(a.brings, a.share, a.width) < std::tuple(b.brings, b.share, b.width);
  };
  const auto best = std::ranges::max_element(roles, better);
  if (best != roles.end()) {
    step.from = node.inputs[best->operand];
    step.part = best->part;
    return step;
  }
  // Random numbers take no more than their shape from an operand that does not matter.
  if (!step.constants.empty() || node.op->traits.random) return step;
  return widest(node, output, part);
}

// The operand that has the part itself, else the widest one. Floats come from floats; whole numbers, masks and indices
// from their own sort.
CauseTracer::Step CauseTracer::widest(const Node& node, std::size_t output, const Part& part) const {
  Step step;
  std::pair<bool, double> best = {false, -1};
  bool alone = true;
  const DType sort = analysis_.ranges[node.outputs[output].at()].dtype;
  const auto consider = [&](ValueId input) {
    if (!input.valid() || !analysis_.reached[input.at()] || is_fixed(input)) return;
    const DType dtype = analysis_.ranges[input.at()].dtype;
    if (!is_float(dtype) && (dtype != sort || is_float(sort))) return;
    const Range range = hull(input);
    const bool outstanding = part.kind != Part::Kind::low && part.kind != Part::Kind::high && holds(range, part);
    const std::pair<bool, double> rank = {outstanding, width(range)};
    alone &= rank != best;
    if (!(rank > best)) return;
    best = rank;
    alone = true;
    step.from = input;
  };
  std::ranges::for_each(node.inputs, consider);
  std::ranges::for_each(node.captures, consider);
  if (!step.from.valid()) return step;
  step.part = part_in(step.from, part);
  // Several masks together: no end of one of them is to blame.
  if (!alone && !is_float(sort)) step.part = {Part::Kind::zero, 0};
  return step;
}

// What enters a body is the operand of its owner at the same place.
CauseTracer::Step CauseTracer::leave_body(ValueId value, const Part& part) const {
  const BodyId id = graph_.value(value).body;
  if (!id.valid() || id == Graph::kMain || graph_.value(value).constant) return {};
  const Body& body = graph_.body(id);
  const Node& owner = graph_.node(body.owner);
  const auto at = static_cast<std::size_t>(std::ranges::find(body.inputs, value) - body.inputs.begin());
  if (at >= owner.inputs.size() || !owner.inputs[at].valid()) return {};
  if (!analysis_.reached[owner.inputs[at].at()]) return {};
  return {.from = owner.inputs[at], .part = part_in(owner.inputs[at], part)};
}

// The result of a body that has the part; a Loop's body gives a condition before its results.
CauseTracer::Step CauseTracer::enter_bodies(const Node& node, std::size_t output, const Part& part) const {
  for (const BodyId id : bodies_of(node.attrs)) {
    const Body& body = graph_.body(id);
    if (body.outputs.size() < node.outputs.size()) continue;
    const ValueId inner = body.outputs[output + body.outputs.size() - node.outputs.size()];
    if (analysis_.reached[inner.at()] && holds(hull(inner), part)) return {.from = inner, .part = part};
  }
  return {};
}

CauseTracer::Step CauseTracer::step_back(ValueId value, const Part& part) {
  const auto known = known_.find({value, part});
  if (known != known_.end()) return known->second;
  const NodeId producer = graph_.value(value).producer;
  Step step;
  if (!producer.valid()) {
    step = leave_body(value, part);
  } else if (const Node& node = graph_.node(producer); node.op != nullptr) {
    const auto output = static_cast<std::size_t>(std::ranges::find(node.outputs, value) - node.outputs.begin());
    if (!bodies_of(node.attrs).empty()) step = enter_bodies(node, output, part);
    // A size is not computed from elements.
    if (!step.from.valid() && !node.op->traits.shape_only) step = find_step(node, output, part);
  }
  return known_[{value, part}] = step;
}

void CauseTracer::trace(Finding& finding) {
  std::vector<ValueId> path = {finding.value};
  Part part = start(finding);
  for (ValueId at = finding.value; path.size() < kMaxPath;) {
    const Step step = step_back(at, part);
    const auto is_there = [&](ValueId id) { return std::ranges::find(path, id) != path.end(); };
    for (const ValueId constant : step.constants) {
      if (!is_there(constant)) path.push_back(constant);
    }
    if (!step.from.valid() || is_there(step.from)) break;
    at = step.from;
    part = step.part;
    path.push_back(at);
  }
  std::ranges::reverse(path);
  finding.path = std::move(path);
  finding.from_end = part.kind == Part::Kind::low ? -1 : part.kind == Part::Kind::high ? 1 : 0;
}

}  // namespace finity
