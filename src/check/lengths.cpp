// Lengths of rows, asked for where elements get large: back through the nodes a value comes from, each once. The main
// graph only: what holds in one run of a body, or under a condition, need not hold of the values outside.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "check/analyzer.h"
#include "ops/shared/relations.h"

namespace finity {

namespace {

constexpr int kDeepest = 1000;
constexpr std::size_t kMostAxes = 16;

std::uint64_t key_of(ValueId id, std::uint32_t axes) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(id.index)) << 32U | axes;
}

// So large that one more sum may overflow.
bool is_large(DType dtype, const Range& hull) {
  const double most = max_finite(dtype);
  return !hull.is_finite() || hull.magnitude() > (most < 1e6 ? most / 16 : most * 0x1p-20);
}

// Samples, and what lies along the last axis.
std::vector<Rows> rows_of(const AbsTensor& x) {
  if (!x.ranked || x.rank() == 0 || x.rank() > kMostAxes || x.most_count(~0U) == 0) return {};
  const Rows last{.axes = 1U << (x.rank() - 1)};
  const Rows samples{.axes = all_but_first(x.rank())};
  if (x.rank() == 1 || samples.axes == last.axes) return {last};
  return {samples, last};
}

// Attributes that say nothing are the range rule's to complain about.
Length ask(const Node& node, RangeCall& call, const Rows& rows) {
  try {
    return node.op->analysis.length(call, rows);
  } catch (const Error&) {
    return {};
  }
}

// Nothing on the way to the result, nor the result, is larger.
void keep_below(AbsTensor& x, const Length& length) {
  const bool stays = length.reach < max_finite(x.dtype) / 2;
  for (Range& cell : x.cells) {
    if (stays && cell.has_finite()) cell.pinf = cell.ninf = cell.nan = false;
    const bool finite = cell.is_finite();
    const Range most = from_bounds(x.dtype, 0, finite ? std::min(length.rows, length.reach) : length.rows);
    if (!most.is_finite() || !cell.has_finite()) continue;
    cell.hi = std::min(cell.hi, std::max(most.hi, cell.lo));
    cell.lo = std::max(cell.lo, std::min(-most.hi, cell.hi));
  }
}

// A length that says more than the elements becomes a relation.
void relate(AbsTensor& x, const Rows& rows, double length) {
  if (!(length < length_by_elements(x, rows))) return;
  x.relations.push_back(RowBound{.axes = rows.axes, .of = Of::norm, .in = {.lo = 0, .hi = length}});
}

}  // namespace

void Analyzer::remember_length(ValueId id, const Rows& rows, double length, AbsTensor& range) {
  lengths_[key_of(id, rows.axes)] = length;
  relate(range, rows, length);
}

bool Analyzer::measurable(const Node& node) const {
  return node.op != nullptr && node.op->analysis.length != nullptr && !node.outputs.empty() &&
         node.outputs[0].valid() && is_float(types_[node.outputs[0]].dtype);
}

void Analyzer::shorten(const Node& node, RangeCall& call) {
  const RangeSettings& settings = options_.ranges;
  const bool asked = settings.lengths != Lengths::never && depth_ == 0 && !restricted();
  if (!asked || !measurable(node) || settings.flush_subnormals) return;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    AbsTensor& result = call.outs()[i];
    if (!call.given()[i] || !node.outputs[i].valid() || !is_float(result.dtype)) continue;
    if (settings.lengths == Lengths::of_large && !is_large(result.dtype, result.hull())) continue;
    for (Rows rows : rows_of(result)) {
      // How long the rows of sums of products are is found out when someone asks for it: their elements lie within
      // the reach of one sum, and that is never more.
      rows.for_reach = settings.lengths == Lengths::of_large;
      const Length length = ask(node, call, rows);
      if (!(length.rows < kInf)) continue;
      keep_below(result, length);
      const double rows_length = std::min(length.rows, length_by_elements(result, rows));
      if (length.rough) relate(result, rows, rows_length);
      else remember_length(node.outputs[i], rows, rows_length, result);
    }
  }
}

double Analyzer::length_of(ValueId id, Rows rows) {
  if (!id.valid()) return kInf;
  rows.for_reach = false;  // a rule may have handed it on
  const AbsTensor& x = get(id);
  const double plain = length_by_elements(x, rows);
  if (!(plain < kInf) || x.rank() > kMostAxes) return kInf;
  if (x.exact) return std::min(plain, exact_length(*x.exact, rows));
  const auto known = lengths_.find(key_of(id, rows.axes));
  if (known != lengths_.end() && rows.scale.empty()) return known->second;
  double length = std::min(plain, length_behind(id, rows));
  if (known != lengths_.end()) length = std::min(length, known->second * largest_factor(rows));
  if (rows.scale.empty()) remember_length(id, rows, length, result_.ranges[id.at()]);
  return length;
}

// From the node that made the value, or from the value it is a copy of.
double Analyzer::length_behind(ValueId id, const Rows& rows) {
  const AbsTensor& x = result_.ranges[id.at()];
  if (measuring_ >= kDeepest) return kInf;
  if (x.identity.valid() && x.identity != id) return length_of(x.identity, rows);
  const NodeId producer = graph_.value(id).producer;
  if (!producer.valid() || std::chrono::steady_clock::now() > deadline_) return kInf;
  const Node& node = graph_.node(producer);
  if (!measurable(node)) return kInf;
  RangeCall call = call_of(node, operands_of(node));
  RangeCall::Hooks hooks;
  hooks.length = [&](std::size_t operand, const Rows& inner) { return length_of(node.inputs[operand], inner); };
  call.set_hooks(std::move(hooks));
  ++measuring_;
  const double length = ask(node, call, rows).rows;
  --measuring_;
  return length;
}

}  // namespace finity
