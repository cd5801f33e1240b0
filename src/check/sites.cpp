// Hazard sites: operands against the op's unsafe sets, results against new NaN and
// infinities.
#include <algorithm>
#include <cmath>

#include "check/analyzer.h"
#include "check/convert.h"
#include "ops/table/rule_group.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

bool may_be_flushed(const Range& range, double normal) {
  return range.has_finite() && range.lo < normal && range.hi > -normal;
}

// A range of numbers of which those below the smallest normal one become zero.
Range flushed(Range range, double normal) {
  if (!may_be_flushed(range, normal)) return range;
  range.lo = std::min(range.lo, 0.0);
  range.hi = std::max(range.hi, 0.0);
  range.nonzero = false;
  return range;
}

}  // namespace

bool may_be_flushed(const AbsTensor& range) {
  if (!is_float(range.dtype)) return false;
  const double normal = min_normal(range.dtype);
  return std::ranges::any_of(range.cells, [&](const Range& cell) { return may_be_flushed(cell, normal); });
}

void flush_subnormals(AbsTensor& range) {
  if (!is_float(range.dtype)) return;
  const double normal = min_normal(range.dtype);
  const auto flush = [&](const Range& cell) { return flushed(cell, normal); };
  if (may_be_flushed(range)) {
    for (Range& cell : range.cells) cell = flush(cell);
    range.exact.reset();
    for (Relation& relation : range.relations) relation = flushed(relation, range.dtype, flush);
  }
  // Forms and orders speak of numbers that were not flushed.
  range.forms.clear();
  range.first_symbol = -1;
}

bool has_subnormals(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return false;
  const double normal = min_normal(tensor.dtype());
  return std::ranges::any_of(elements<double>(tensor), [&](double x) { return x != 0 && std::abs(x) < normal; });
}

// What enters the graph as its users may see it. A constant with numbers that may be flushed is not known element by
// element any more.
AbsTensor Analyzer::as_operand(ValueId id, AbsTensor range) {
  if (!options_.ranges.flush_subnormals) return range;
  const ConstantPtr& constant = graph_.value(id).constant;
  const bool is_known = !premises_.of[id.at()] && (range.exact || (constant && constant->missing().empty()));
  if (is_known && !has_subnormals(range.exact ? *range.exact : constant->load())) return range;
  if (is_known) flushed_.insert(id);
  flush_subnormals(range);
  return range;
}

namespace {

constexpr std::string_view kOverflow = "FN203";
constexpr std::string_view kInvalid = "FN302";

struct Reach {
  Range seen;
  bool possible = false;
  bool certain = false;  // no cell is safe
};

// Known elements decide exactly; cells may hold values between them.
Reach reach_exact(const Tensor& tensor, const UnsafeSet& unsafe) {
  Reach reach{.seen = range_of(tensor), .certain = !tensor.empty()};
  for (const double x : elements<double>(tensor)) {
    const auto holds = [&](const Unsafe& part) { return x >= part.lo && x <= part.hi; };
    const bool bad = std::ranges::any_of(unsafe, holds);
    reach.possible |= bad;
    reach.certain &= bad;
  }
  reach.certain &= reach.possible;
  return reach;
}

Reach reach_of(const AbsTensor& operand, const UnsafeSet& unsafe) {
  if (operand.exact && operand.dtype != DType::string) return reach_exact(*operand.exact, unsafe);
  Reach reach{.seen = {}, .certain = true};
  for (const Range& cell : operand.cells) {
    if (meets(cell, unsafe)) {
      reach.possible = true;
      reach.seen = join(reach.seen, cell);
    }
    reach.certain &= surely_in(cell, unsafe);
  }
  if (!reach.possible) reach.seen = operand.hull();
  reach.certain &= reach.possible;
  return reach;
}

// NaN and infinities of a constant are not computed: constant_findings() judges them.
bool states_its_result(const Node& node, const Types& types) {
  const auto is_number = [&](ValueId id) { return id.valid() && is_float(types[id].dtype); };
  const Attr* filler = node.attrs.find("value");  // of ConstantOfShape
  const bool fills = filler != nullptr && std::holds_alternative<ConstantPtr>(*filler);
  return stated_constant(node) || (fills && std::ranges::none_of(node.inputs, is_number));
}

}  // namespace

void Analyzer::check_operands(NodeId id, const Node& node, Operands& operands, std::vector<AbsTensor>& restricted) {
  restricted.reserve(node.op->analysis.hazards.size());
  for (const Hazard& hazard : node.op->analysis.hazards) {
    if (hazard.quantity != nullptr) continue;  // the op's range rule decides it
    if (hazard.operand >= operands.size() || operands[hazard.operand].range == nullptr) continue;
    const AbsTensor& operand = *operands[hazard.operand].range;
    const UnsafeSet unsafe = hazard.unsafe(operand.dtype);
    if (unsafe.empty()) continue;
    const Reach reach = reach_of(operand, unsafe);
    record(id, node.inputs[hazard.operand],
           {.rule = hazard.rule,
            .operand = static_cast<int>(hazard.operand),
            .seen = reach.seen,
            .possible = reach.possible,
            .certain = reach.certain});
    if (!reach.possible) continue;
    AbsTensor valid = operand;
    valid.exact.reset();
    for (Range& cell : valid.cells) cell = without(cell, unsafe, operand.dtype);
    restricted.push_back(std::move(valid));
    operands[hazard.operand].range = &restricted.back();
    operands[hazard.operand].value = nullptr;
  }
}

Flags Analyzer::flags_of_operands(const Node& node) {
  Flags flags;
  const auto look_at = [&](ValueId value) {
    if (!value.valid()) return;
    const Range hull = get(value).hull();
    flags.nan |= hull.nan;
    flags.infinite |= hull.pinf || hull.ninf;
  };
  std::ranges::for_each(node.inputs, look_at);
  std::ranges::for_each(node.captures, look_at);
  return flags;
}

// The result when no operand is NaN, nor infinite unless `infinities`.
Range Analyzer::result_without(const Node& node, const Operands& operands, std::size_t output, bool infinities) {
  std::vector<AbsTensor> cleared;
  cleared.reserve(operands.size());
  Operands ordinary = operands;
  for (RangeCall::Operand& operand : ordinary) {
    if (operand.range == nullptr) continue;
    const Range hull = operand.range->hull();
    if (!hull.nan && (infinities || (!hull.pinf && !hull.ninf))) continue;
    AbsTensor copy = *operand.range;
    copy.exact.reset();
    for (Range& cell : copy.cells) {
      cell.nan = false;
      cell.pinf = cell.pinf && infinities;
      cell.ninf = cell.ninf && infinities;
    }
    cleared.push_back(std::move(copy));
    operand = {.range = &cleared.back(), .type = operand.type, .constant = nullptr, .value = nullptr};
  }
  return rule_result(node, std::move(ordinary), output).hull();
}

// What the rule says of these operands and nothing else; nothing recorded. Without cells where it says nothing.
AbsTensor Analyzer::rule_result(const Node& node, Operands operands, std::size_t output) {
  RangeCall call = call_of(node, std::move(operands));
  call.set_hooks({.around = &graph_around_, .inputs = node.inputs});
  node.op->analysis.range(call);
  return call.given()[output] ? std::move(call.outs()[output]) : AbsTensor{};
}

// An infinity among the operands must not hide an overflow of the finite ones, nor a NaN that two infinities make.
Flags Analyzer::made_besides(const Node& node, const Operands& operands, std::size_t output, const AbsTensor& result,
                             const Flags& explained) {
  Flags made;
  if (!is_float(result.dtype) || node.op->analysis.range == nullptr || !bodies_of(node.attrs).empty()) return made;
  const Range hull = result.hull();
  if (explained.infinite && (hull.pinf || hull.ninf)) {
    const Range finite = result_without(node, operands, output, false);
    made.infinite = finite.pinf || finite.ninf;
  }
  if (explained.nan && hull.nan) made.nan = result_without(node, operands, output, true).nan;
  return made;
}

void Analyzer::check_result(NodeId id, const Node& node, std::size_t output, AbsTensor& result, const Flags& operands,
                            const Flags& made) {
  if (!is_float(result.dtype)) return;
  if (states_its_result(node, types_)) {
    result = as_operand(node.outputs[output], std::move(result));
    return;
  }
  if (options_.ranges.flush_subnormals) flush_subnormals(result);
  const OpDef& op = *node.op;
  const Range hull = result.hull();
  const bool overflow = (hull.pinf || hull.ninf) && (!operands.infinite || made.infinite);
  const bool invalid = hull.nan && (!operands.nan || made.nan);
  const ValueId value = node.outputs[output];
  const auto all_cells = [&](auto&& bad) { return std::ranges::all_of(result.cells, bad); };
  if (overflow || (!op.analysis.overflow.empty() && output == 0)) {
    const bool certain =
        overflow && all_cells([](const Range& cell) { return !cell.has_finite() && (cell.pinf || cell.ninf); });
    const int index = record(id, value,
                             {.rule = op.analysis.overflow.empty() ? kOverflow : op.analysis.overflow,
                              .operand = -1,
                              .seen = hull,
                              .possible = overflow,
                              .certain = certain});
    if (overflow && probing_ == 0) {
      taints_[value.at()].overflow = index;
      explain_by_operands(id, index);
    }
  }
  // NaN that only follows from infinities made on the way is the overflow's.
  const bool separate = invalid && !overflow;
  if (separate || (!op.analysis.invalid.empty() && output == 0)) {
    const bool certain = separate && all_cells([](const Range& cell) { return !cell.has_finite() && cell.nan; });
    record(id, value,
           {.rule = op.analysis.invalid.empty() ? kInvalid : op.analysis.invalid,
            .operand = -1,
            .seen = hull,
            .possible = separate,
            .certain = certain});
  }
  const bool assume_finite = overflow && !operands.infinite;
  const bool assume_number = invalid && !operands.nan;
  if (!assume_finite && !assume_number) return;
  result.exact.reset();
  for (Range& cell : result.cells) {
    if (assume_finite) cell.pinf = cell.ninf = false;
    if (assume_number) cell.nan = false;
    if (cell.is_empty()) cell = any_finite(result.dtype);  // it always fails: assume nothing of the way on
  }
}

// A divisor that may be zero may be tiny as well: one finding tells both.
void Analyzer::explain_by_operands(NodeId id, int index) {
  Finding& finding = result_.findings[static_cast<std::size_t>(index)];
  for (int at = last_site_[id.at()]; at >= 0; at = site_before_[static_cast<std::size_t>(at)]) {
    const Finding& other = result_.findings[static_cast<std::size_t>(at)];
    const bool explains =
        other.operand >= 0 && group_of(other.rule) == RuleGroup::domain && other.verdict == finding.verdict;
    if (explains && finding.root < 0) finding.root = at;
  }
}

// The finding for a site, made when it is met first.
int Analyzer::finding_of(NodeId id, ValueId value, const Site& site) {
  int& last = last_site_[id.at()];
  for (int at = last; at >= 0; at = site_before_[static_cast<std::size_t>(at)]) {
    const Finding& finding = result_.findings[static_cast<std::size_t>(at)];
    if (finding.rule == site.rule && finding.operand == site.operand) return at;
  }
  site_before_.push_back(last);
  last = static_cast<int>(result_.findings.size());
  result_.findings.push_back({.node = id,
                              .value = value,
                              .rule = site.rule,
                              .operand = site.operand,
                              .certain = site.certain,
                              .seen = site.seen});
  return last;
}

// The node is looked at anew: under a guard, or in another iteration.
void Analyzer::drop_sites(NodeId id) {
  for (int at = last_site_[id.at()]; at >= 0 && probing_ == 0; at = site_before_[static_cast<std::size_t>(at)]) {
    Finding& finding = result_.findings[static_cast<std::size_t>(at)];
    finding.verdict = Verdict::proved;
    finding.seen = {};
    finding.certain = true;
    finding.reason.clear();
    finding.root = -1;
  }
}

namespace {

// A site that may be met in either iteration; what is known of it goes before what is not.
Finding joined(const Finding& a, const Finding& b) {
  const auto weight = [](const Finding& finding) {
    return finding.verdict == Verdict::proved ? 0 : finding.verdict == Verdict::unknown ? 1 : 2;
  };
  Finding result = weight(b) > weight(a) ? b : a;
  result.seen = join(a.seen, b.seen);
  result.certain = a.certain && b.certain;
  if (weight(a) == weight(b) && result.root < 0) result.root = b.root;
  return result;
}

}  // namespace

void Analyzer::join_sites(NodeId id) {
  for (int at = last_site_[id.at()]; at >= 0; at = site_before_[static_cast<std::size_t>(at)]) {
    const Finding& now = result_.findings[static_cast<std::size_t>(at)];
    const auto [found, added] = joined_findings_.try_emplace(at, now);
    if (!added) found->second = joined(found->second, now);
  }
}

// The finding that says why nothing is known of the node's results; -1 when there is none.
int Analyzer::ignorance_at(NodeId id) const {
  for (int at = last_site_[id.at()]; at >= 0; at = site_before_[static_cast<std::size_t>(at)]) {
    if (group_of(result_.findings[static_cast<std::size_t>(at)].rule) == RuleGroup::coverage) return at;
  }
  return -1;
}

// Possible, or unknown when what reaches the site is; and which other finding explains it.
void Analyzer::blame(Finding& finding, int index, const Taint& taint) {
  const bool undecided = finding.verdict == Verdict::proved || finding.verdict == Verdict::unknown;
  if (taint.unmodelled.valid() && undecided) {
    const int cause = ignorance_at(taint.unmodelled);
    const bool stopped = cause >= 0 && result_.findings[static_cast<std::size_t>(cause)].rule == "FN903";
    finding.reason =
        stopped ? "the analysis stopped before it"
                : "it depends on " + describe(graph_, graph_.node(taint.unmodelled)) + ", which is not modelled";
    finding.verdict = Verdict::unknown;
    if (cause != index) finding.root = cause;
    return;
  }
  if (taint.missing && undecided) {
    finding.verdict = Verdict::unknown;
    finding.reason = "it depends on weights that are missing";
    finding.root = missing_finding_;
    return;
  }
  if (finding.verdict == Verdict::unknown) {  // known better in another iteration
    finding.root = -1;
    finding.reason.clear();
  }
  finding.verdict = Verdict::possible;
  // An overflow that only goes on belongs to the first one.
  if (finding.root < 0 && taint.overflow >= 0 && taint.overflow != index &&
      group_of(finding.rule) == RuleGroup::overflow) {
    const int root = result_.findings[static_cast<std::size_t>(taint.overflow)].root;
    finding.root = root >= 0 ? root : taint.overflow;
  }
}

// One finding per node, rule and operand, joined over iterations; its index.
int Analyzer::record(NodeId id, ValueId value, const Site& site) {
  if (probing_ > 0) return -1;
  const int index = finding_of(id, value, site);
  Finding& finding = result_.findings[static_cast<std::size_t>(index)];
  finding.seen = join(finding.seen, site.seen);
  finding.certain = finding.certain && site.certain;
  if (!site.possible) return index;
  // What reaches an operand decides about it; a result depends on all of them.
  Taint taint = taint_of(graph_.node(id));
  if (site.operand >= 0 && value.valid()) {
    taint = taints_[value.at()];
    taint.missing |= missing_[value.at()];
  }
  blame(finding, index, taint);
  return index;
}

}  // namespace finity
