// Comparisons are decided where ranges do not overlap. A comparison with NaN is false.
#include "ops/elementwise/compare_range.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "domain/row_bounds.h"
#include "ops/shared/legacy_broadcast.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/relation_rules.h"
#include "tensor/float_formats.h"

namespace finity {

Range truth(bool can_be_true, bool can_be_false) {
  if (!can_be_true && !can_be_false) return {};
  return {.lo = can_be_false ? 0.0 : 1.0, .hi = can_be_true ? 1.0 : 0.0, .integer = true};
}

namespace {

bool has_number(const Range& x) { return x.has_finite() || x.pinf || x.ninf; }

// a > b (or a >= b where not strict), for elements that are numbers.
struct Outcomes {
  bool yes = false;
  bool no = false;
};

Outcomes above(const Range& a, const Range& b, bool strict) {
  if (!has_number(a) || !has_number(b)) return {};
  const double most = a.greatest(), least = b.least();
  const double low = a.least(), high = b.greatest();
  return {.yes = strict ? most > least : most >= least, .no = strict ? low <= high : low < high};
}

Range greater(const Range& a, const Range& b, bool strict) {
  if (a.is_empty() || b.is_empty()) return {};
  const Outcomes outcomes = above(a, b, strict);
  return truth(outcomes.yes, outcomes.no || a.nan || b.nan);
}

bool single(const Range& x) { return !x.nan && x.least() == x.greatest(); }

Range equal(const Range& a, const Range& b) {
  if (a.is_empty() || b.is_empty()) return {};
  const bool overlap = (a.pinf && b.pinf) || (a.ninf && b.ninf) || meet(a.finite(), b.finite()).has_finite();
  const bool same = single(a) && single(b) && a.least() == b.least();
  return truth(overlap, !same);
}

// The same value on both sides: only NaN differs from itself.
bool same_value(const RangeCall& call) {
  return call.in(0).identity.valid() && call.in(0).identity == call.in(1).identity;
}

// The rows of a mask: where every row has a number above zero, every row has one that is true.
template <class F>
void range_truths(RangeCall& call, F f) {
  range_binary(call, [&](const Range& a, const Range& b, DType) { return f(a, b); });
  if (!call.has_output(0) || broadcasts_legacy(call)) return;
  AbsTensor& result = call.outs()[0];
  carry_row_elements(call.in(0), result, [&](const Range& a) { return f(a, call.hull(1)); });
  carry_row_elements(call.in(1), result, [&](const Range& b) { return f(call.hull(0), b); });
}

template <class F>
void range_comparison(RangeCall& call, bool holds_for_itself, F f) {
  if (!same_value(call)) return range_truths(call, f);
  range_unary(call, [&](const Range& x, DType) {
    return truth(holds_for_itself && has_number(x), x.nan || (!holds_for_itself && has_number(x)));
  });
}

bool may_hold(const Range& x) { return x.has_finite() && (x.lo < 0 || x.hi > 0); }

}  // namespace

void range_equal(RangeCall& call) {
  if (call.in_dtype(0) == DType::string) return range_bool(call);
  range_comparison(call, true, equal);
}

void range_greater(RangeCall& call) {
  range_comparison(call, false, [](const Range& a, const Range& b) { return greater(a, b, true); });
}

void range_greater_or_equal(RangeCall& call) {
  range_comparison(call, true, [](const Range& a, const Range& b) { return greater(a, b, false); });
}

void range_less(RangeCall& call) {
  range_comparison(call, false, [](const Range& a, const Range& b) { return greater(b, a, true); });
}

void range_less_or_equal(RangeCall& call) {
  range_comparison(call, true, [](const Range& a, const Range& b) { return greater(b, a, false); });
}

void range_and(RangeCall& call) {
  range_truths(call, [](const Range& a, const Range& b) {
    if (a.is_empty() || b.is_empty()) return Range{};
    return truth(may_hold(a) && may_hold(b), a.may_be_zero() || b.may_be_zero());
  });
}

void range_or(RangeCall& call) {
  range_truths(call, [](const Range& a, const Range& b) {
    if (a.is_empty() || b.is_empty()) return Range{};
    return truth(may_hold(a) || may_hold(b), a.may_be_zero() && b.may_be_zero());
  });
}

void range_xor(RangeCall& call) {
  range_truths(call, [](const Range& a, const Range& b) {
    if (a.is_empty() || b.is_empty()) return Range{};
    const bool differ = (may_hold(a) && b.may_be_zero()) || (a.may_be_zero() && may_hold(b));
    const bool agree = (may_hold(a) && may_hold(b)) || (a.may_be_zero() && b.may_be_zero());
    return truth(differ, agree);
  });
}

// ---- Clip ------------------------------------------------------------------

namespace {

struct Limits {
  std::optional<Range> low = {}, high = {};
};

// Up to opset 10 attributes, whose default stops an infinity unless the format cannot hold it.
std::optional<Range> attribute_limit(const RangeCall& call, std::string_view name, double fallback) {
  const double value = call.real(name, fallback);
  const double rounded = round_to(call.in_dtype(0), value);
  const bool no_limit = std::isinf(rounded) && std::signbit(rounded) == std::signbit(fallback);
  return no_limit ? std::nullopt : std::optional(point(rounded));
}

Limits limits_of(const RangeCall& call) {
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  if (call.version() < 11) {
    return {.low = attribute_limit(call, "min", -kLargest), .high = attribute_limit(call, "max", kLargest)};
  }
  Limits limits;
  if (call.has_range(1)) limits.low = call.hull(1);
  if (call.has_range(2)) limits.high = call.hull(2);
  return limits;
}

// A limit that is not given is the largest number in most libraries, and nothing in ONNX: an infinity may stay or not.
Range clipped(DType dtype, const Range& x, const Limits& limits) {
  if (x.is_empty()) return x;
  Range range = x;
  if (is_float(dtype) && !limits.high && (x.pinf || x.nan)) range = join(range, point(max_finite(dtype)));
  if (is_float(dtype) && !limits.low && (x.ninf || x.nan)) range = join(range, point(lowest_finite(dtype)));
  if (limits.low) range = maximum(range, *limits.low);
  if (limits.high) range = minimum(range, *limits.high);
  // Some libraries turn NaN into a limit.
  if (x.nan && limits.low) range = join(range, *limits.low);
  if (x.nan && limits.high) range = join(range, *limits.high);
  return range;
}

// Nowhere does the limit change anything.
bool below_all(const AbsTensor& x, const std::optional<Range>& limit) {
  const auto above = [&](const Range& cell) {
    if (!limit) return !cell.ninf && !cell.nan;
    return !cell.nan && !limit->nan && limit->greatest() <= cell.least();
  };
  return std::ranges::all_of(x.cells, above);
}

bool above_all(const AbsTensor& x, const std::optional<Range>& limit) {
  const auto below = [&](const Range& cell) {
    if (!limit) return !cell.pinf && !cell.nan;
    return !cell.nan && !limit->nan && limit->least() >= cell.greatest();
  };
  return std::ranges::all_of(x.cells, below);
}

bool is_zero(const std::optional<Range>& limit) { return limit && limit->is_point() && limit->lo == 0; }

std::vector<Form> positive_forms(RangeCall& call, const AbsTensor& x) {
  if (!is_float(x.dtype) || !call.settings().affine) return {};
  return mapped_forms(x, [&](const Form& form, std::size_t) { return positive_part(form, call.symbols()); });
}

}  // namespace

void range_clip(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const Limits limits = limits_of(call);
  const bool no_low = below_all(x, limits.low);
  // Where the lower limit is above the upper one, the upper one wins.
  const bool crossed = limits.low && limits.high && !(limits.low->greatest() <= limits.high->least());
  const bool no_high = above_all(x, limits.high) && !crossed;
  if (no_low && no_high) return call.same(0, 0);
  const auto of_range = [&](const Range& cell) { return clipped(x.dtype, cell, limits); };
  AbsTensor result = map_cells(x, x.dtype, of_range);
  result.relations = mapped(x.relations, Monotone::increasing, of_range);
  Relations order;
  if (no_high && is_zero(limits.low)) {
    order = positive_part_relations(x);
    result.forms = positive_forms(call, x);
  } else if (no_high || no_low) {
    order = no_high ? relations_not_below(x) : relations_not_above(x);
  }
  std::ranges::copy(order, std::back_inserter(result.relations));
  call.out(0, std::move(result));
}

}  // namespace finity
