#include "domain/relation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "domain/aggregate.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

template <class Wanted>
const AggregateBound* find_if(const Relations& relations, const Wanted& wanted) {
  for (const Relation& relation : relations) {
    const auto* bound = std::get_if<AggregateBound>(&relation);
    if (bound != nullptr && wanted(*bound)) return bound;
  }
  return nullptr;
}

bool is_extreme(Of of) { return of == Of::largest || of == Of::smallest; }

}  // namespace

// ---- looking -----------------------------------------------------------------

const RowBound* find_rows(const Relations& relations, Of of) {
  for (const Relation& relation : relations) {
    const auto* rows = std::get_if<RowBound>(&relation);
    if (rows != nullptr && rows->of == of) return rows;
  }
  return nullptr;
}

const AggregateBound* find_bound(const Relations& relations, Of of, Order order) {
  return find_if(relations, [&](const AggregateBound& b) { return b.of == of && b.order == order; });
}

const AggregateBound* find_bound(const Relations& relations, Of of, Order order, ValueId source) {
  if (!source.valid()) return nullptr;
  return find_if(relations,
                 [&](const AggregateBound& b) { return b.of == of && b.order == order && b.source.value == source; });
}

const AggregateBound* find_below(const Relations& relations, Of of, ValueId source) {
  if (!source.valid()) return nullptr;
  return find_if(relations,
                 [&](const AggregateBound& b) { return b.of == of && b.bounds_below() && b.source.value == source; });
}

const AggregateBound* find_above(const Relations& relations, Of of, ValueId source) {
  if (!source.valid()) return nullptr;
  return find_if(relations,
                 [&](const AggregateBound& b) { return b.of == of && b.bounds_above() && b.source.value == source; });
}

// ---- order -------------------------------------------------------------------

namespace {

bool same_rows(const RowBound& a, const RowBound& b) { return a.axes == b.axes && a.of == b.of; }

bool within(const RowBound& a, const RowBound& b) { return same_rows(a, b) && is_subset(a.in, b.in); }

bool within(const AggregateBound& a, const AggregateBound& b) {
  const bool stronger = a.order == b.order || a.order == Order::equal;
  return a.source == b.source && a.of == b.of && stronger && a.factor == b.factor && a.relative <= b.relative &&
         a.absolute <= b.absolute;
}

bool within(const ProductBound& a, const ProductBound& b) {
  return a.source == b.source && a.of == b.of && a.limit <= b.limit;
}

bool within(const MaximumOf& a, const MaximumOf& b) {
  return a.operands == b.operands && a.relative <= b.relative && a.absolute <= b.absolute;
}

bool within(const CaseSplit& a, const CaseSplit& b) {
  return a.operands == b.operands && (b.when & ~a.when) == 0 && is_subset(a.in, b.in);
}

}  // namespace

bool implies(const Relation& a, const Relation& b) {
  return std::visit(
      [&](const auto& left) {
        const auto* right = std::get_if<std::remove_cvref_t<decltype(left)>>(&b);
        return right != nullptr && within(left, *right);
      },
      a);
}

bool implies(const Relations& relations, const Relation& wanted) {
  return std::ranges::any_of(relations, [&](const Relation& relation) { return implies(relation, wanted); });
}

std::optional<Relation> joined(const Relation& a, const Relation& b) {
  const auto* left = std::get_if<RowBound>(&a);
  const auto* right = std::get_if<RowBound>(&b);
  if (left == nullptr || right == nullptr || !same_rows(*left, *right)) return std::nullopt;
  return RowBound{.axes = left->axes, .of = left->of, .in = join(left->in, right->in)};
}

Relations joined(const Relations& a, const Relations& b) {
  Relations result;
  for (const Relation& relation : a) {
    for (const Relation& other : b) {
      const std::optional<Relation> both = joined(relation, other);
      if (both && !implies(result, *both)) result.push_back(*both);
    }
  }
  return result;
}

// ---- movement ----------------------------------------------------------------

namespace {

AxisBits moved_bits(AxisBits axes, const std::vector<int>& to) {
  AxisBits result = 0;
  for (std::size_t i = 0; i < to.size() && i < 32; ++i) {
    if ((axes >> i & 1U) != 0 && to[i] >= 0) result |= AxisBits{1} << to[i];
  }
  return result;
}

std::optional<Relation> after(const RowBound& rows, const Movement& movement) {
  RowBound result = rows;
  if ((rows.axes & movement.taken) != 0) return std::nullopt;
  // A row with its elements repeated has the same largest and smallest element, but another sum.
  if ((rows.axes & movement.repeated) != 0 && !is_extreme(rows.of)) return std::nullopt;
  if ((rows.axes & movement.part) != 0) {
    // Of nonnegative elements, fewer have a smaller sum; a shorter row has a smaller norm.
    if (is_extreme(rows.of)) return std::nullopt;
    result.in = {.lo = std::min(0.0, rows.in.lo), .hi = rows.in.hi};
  }
  if (std::ranges::any_of(movement.to, [](int axis) { return axis >= 32; })) return std::nullopt;
  result.axes = moved_bits(rows.axes, movement.to);
  return result;
}

std::optional<Source> after(const Source& source, const Movement& movement) {
  if (movement.taken != 0 || movement.part != 0) return std::nullopt;
  Source result = source;
  if (!source.aligned) {
    if (movement.inserted == 0 || source.axes != movement.inserted) return std::nullopt;
    result.aligned = true;
  } else if (!movement.in_place) {
    if (movement.removed == 0 || source.axes != movement.removed) return std::nullopt;
    result.aligned = false;
  }
  return result;
}

template <class Compared>
std::optional<Relation> after_compared(const Compared& relation, const Movement& movement) {
  const std::optional<Source> source = after(relation.source, movement);
  if (!source) return std::nullopt;
  Compared result = relation;
  result.source = *source;
  return result;
}

std::optional<Relation> after(const AggregateBound& bound, const Movement& movement) {
  return after_compared(bound, movement);
}
std::optional<Relation> after(const ProductBound& bound, const Movement& movement) {
  return after_compared(bound, movement);
}
std::optional<Relation> after(const MaximumOf&, const Movement&) { return std::nullopt; }
std::optional<Relation> after(const CaseSplit&, const Movement&) { return std::nullopt; }

}  // namespace

std::optional<Relation> moved(const Relation& relation, const Movement& movement) {
  return std::visit([&](const auto& kind) { return after(kind, movement); }, relation);
}

Relations moved(const Relations& relations, const Movement& movement) {
  Relations result;
  for (const Relation& relation : relations) {
    if (auto changed = moved(relation, movement)) result.push_back(*std::move(changed));
  }
  return result;
}

// ---- functions of elements ---------------------------------------------------

std::optional<Relation> mapped(const Relation& relation, Monotone monotone, const RangeMap& f) {
  const Overloaded change{
      [&](const RowBound& rows) -> std::optional<Relation> {
        if (!is_extreme(rows.of) || monotone == Monotone::no) return std::nullopt;
        const bool turned = monotone == Monotone::decreasing;
        const Of other = rows.of == Of::largest ? Of::smallest : Of::largest;
        return RowBound{.axes = rows.axes, .of = turned ? other : rows.of, .in = f(rows.in)};
      },
      [&](const CaseSplit& split) -> std::optional<Relation> {
        return CaseSplit{.operands = split.operands, .when = split.when, .in = f(split.in)};
      },
      [](const auto&) -> std::optional<Relation> { return std::nullopt; },
  };
  return std::visit(change, relation);
}

Relations mapped(const Relations& relations, Monotone monotone, const RangeMap& f) {
  Relations result;
  for (const Relation& relation : relations) {
    if (auto changed = mapped(relation, monotone, f)) result.push_back(*std::move(changed));
  }
  return result;
}

std::optional<Relation> scaled(const Relation& relation, double factor, DType dtype, const RangeMap& f) {
  const double unit = unit_roundoff(dtype), tiny = is_float(dtype) ? min_subnormal(dtype) : 0;
  const Overloaded change{
      [&](const RowBound& rows) -> std::optional<Relation> {
        if (rows.of != Of::largest) return std::nullopt;
        return RowBound{.axes = rows.axes, .of = rows.of, .in = f(rows.in)};
      },
      [&](const AggregateBound& bound) -> std::optional<Relation> {
        const bool length = bound.of == Of::magnitude || bound.of == Of::norm;
        AggregateBound result = bound;
        result.order = Order::at_least;
        result.factor = bound.factor * factor;
        result.relative = bound.relative + 4 * unit;
        result.absolute = bound.absolute * factor * (1 + 4 * unit) + tiny;
        const bool fits = length && bound.bounds_below() && result.factor > 0 && std::isfinite(result.factor);
        return fits && is_float(dtype) ? std::optional<Relation>(result) : std::nullopt;
      },
      [](const auto&) -> std::optional<Relation> { return std::nullopt; },
  };
  return std::visit(change, relation);
}

namespace {

// Each side moves by a unit roundoff, or by half the smallest number. Of the sums that norms are made of, all terms
// may.
void add_rounding(DType dtype, Of of, double& relative, double& absolute) {
  constexpr double kTerms = 1024;  // the root of the largest size
  const bool squares = of == Of::square || of == Of::square_sum || of == Of::mean_square || of == Of::squared_mean;
  relative += (squares ? 4 : 2) * unit_roundoff(dtype);
  absolute += (of == Of::norm ? kTerms : 2) * min_subnormal(dtype);
}

}  // namespace

Relation loosened(const Relation& relation, DType dtype) {
  const Overloaded change{
      [](const RowBound& rows) -> Relation { return rows; },  // its ends are numbers of the format or allow for it
      [](const CaseSplit& split) -> Relation { return split; },
      [&](AggregateBound bound) -> Relation {
        add_rounding(dtype, bound.of, bound.relative, bound.absolute);
        return bound;
      },
      [&](ProductBound bound) -> Relation {
        double relative = 0, absolute = 0;
        add_rounding(dtype, bound.of, relative, absolute);
        bound.limit = bound.limit * (1 + 2 * relative) + max_finite(dtype) * absolute;
        return bound;
      },
      [&](MaximumOf maximum) -> Relation {
        add_rounding(dtype, Of::largest, maximum.relative, maximum.absolute);
        return maximum;
      },
  };
  return std::visit(change, relation);
}

// Flushing keeps order, so what compares elements with one another stays true; what was computed of them may be off by
// what it takes away.
Relation flushed(const Relation& relation, DType dtype, const RangeMap& f) {
  const double normal = min_normal(dtype);
  const Overloaded change{
      [&](RowBound rows) -> Relation {
        rows.in = f(rows.in);
        // A sum loses what every one of its terms loses.
        constexpr double kTerms = 0x1p20;
        const bool element = is_extreme(rows.of) || rows.of == Of::magnitude;
        if (!element && rows.in.has_finite()) rows.in.lo = next_down(DType::float64, rows.in.lo - kTerms * normal);
        return rows;
      },
      [&](CaseSplit split) -> Relation {
        split.in = f(split.in);
        return split;
      },
      [&](AggregateBound bound) -> Relation {
        const bool element = is_extreme(bound.of) || bound.of == Of::magnitude;
        if (!element || !bound.is_exact() || bound.factor != 1) bound.absolute += normal;
        return bound;
      },
      [](const ProductBound& bound) -> Relation { return bound; },  // magnitudes only get smaller
      [&](MaximumOf maximum) -> Relation {
        if (maximum.relative != 0 || maximum.absolute != 0) maximum.absolute += normal;
        return maximum;
      },
  };
  return std::visit(change, relation);
}

// ---- truth -------------------------------------------------------------------

namespace {

// Sums of this file are in double.
constexpr double kDouble = 1e-12;

bool is_true(const RowBound& rows, const Tensor& tensor, const Elements&) {
  if (tensor.empty()) return true;
  const std::vector<double> found = aggregate(numbers_of(tensor), rows.of, rows.axes).values;
  const bool extreme = is_extreme(rows.of);
  const auto good = [&](double x) {
    if (std::isnan(x) || rows.in.contains(x)) return true;
    return !extreme && x >= rows.in.lo - 1e-9 && x <= rows.in.hi * (1 + kDouble) + (rows.of == Of::sum ? 1e-9 : 0);
  };
  if (!std::ranges::all_of(found, good)) return false;
  return rows.of != Of::sum || std::ranges::none_of(numbers_of(tensor).values, [](double x) { return x < 0; });
}

// Calls good(this, aggregate of the source, aggregate of its absolute values) for all pairs without NaN.
template <class Good>
bool compare(const Tensor& tensor, const Source& source, Of of, const Elements& sources, const Good& good) {
  const Tensor* other = source.value.valid() ? sources(source.value) : nullptr;
  if (other == nullptr || tensor.empty() || other->empty()) return true;
  const Numbers numbers = numbers_of(*other);
  const bool windows = source.windows.rank() > 0;
  const Numbers wanted = windows ? aggregate(numbers, of, source.windows) : aggregate(numbers, of, source.axes);
  const Numbers size =
      windows ? aggregate(magnitudes(numbers), of, source.windows) : aggregate(magnitudes(numbers), of, source.axes);
  Numbers own = numbers_of(tensor);
  if (!source.aligned && !windows) own = with_axes(std::move(own), source.axes);
  return for_all_pairs(own, {&wanted, &size}, [&](double a, std::span<const double> b) {
    return std::isnan(a) || std::isnan(b[0]) || good(a, b[0], b[1]);
  });
}

bool is_true(const AggregateBound& bound, const Tensor& tensor, const Elements& sources) {
  const bool selects = is_extreme(bound.of) || bound.of == Of::magnitude;
  return compare(tensor, bound.source, bound.of, sources, [&](double a, double wanted, double magnitudes) {
    const double size = is_extreme(bound.of) ? std::abs(wanted) : magnitudes;
    // What overflows on the way is not this relation's matter.
    if (!selects && (!std::isfinite(a) || !(size <= max_finite(tensor.dtype())))) return true;
    const double error = (bound.relative > 0 ? bound.relative * bound.factor * size : 0) + bound.absolute +
                         (selects ? 0 : kDouble * bound.factor * size);
    if (std::isinf(wanted) || std::isinf(a)) {
      return (!bound.bounds_below() || a >= wanted) && (!bound.bounds_above() || a <= wanted);
    }
    return (!bound.bounds_below() || a >= bound.factor * wanted - error) &&
           (!bound.bounds_above() || a <= bound.factor * wanted + error);
  });
}

bool is_true(const ProductBound& bound, const Tensor& tensor, const Elements& sources) {
  return compare(tensor, bound.source, bound.of, sources, [&](double a, double wanted, double) {
    return std::isinf(a) || std::isinf(wanted) || std::abs(a) * wanted * (1 - kDouble) <= bound.limit;
  });
}

// The operands, zero among them, seen beside this; nullopt when one is not known.
std::optional<std::vector<Numbers>> operands_of(const std::vector<ValueId>& ids, const Elements& sources) {
  std::vector<Numbers> result;
  for (const ValueId id : ids) {
    const Tensor* tensor = id.valid() ? sources(id) : nullptr;
    if (id.valid() && tensor == nullptr) return std::nullopt;
    result.push_back(id.valid() ? numbers_of(*tensor) : Numbers{{}, {0}});
  }
  return result;
}

template <class Good>
bool compare(const Tensor& tensor, const std::vector<ValueId>& ids, const Elements& sources, const Good& good) {
  const auto operands = operands_of(ids, sources);
  if (!operands) return true;
  std::vector<const Numbers*> all;
  for (const Numbers& operand : *operands) all.push_back(&operand);
  return for_all_pairs(numbers_of(tensor), all, [&](double a, std::span<const double> b) {
    const bool nan = std::isnan(a) || std::ranges::any_of(b, [](double x) { return std::isnan(x); });
    return nan || good(a, b, *std::ranges::max_element(b));
  });
}

bool is_true(const MaximumOf& maximum, const Tensor& tensor, const Elements& sources) {
  return compare(tensor, maximum.operands, sources, [&](double a, std::span<const double>, double most) {
    return a == most || std::abs(a - most) <= maximum.relative * std::abs(most) + maximum.absolute;
  });
}

bool is_true(const CaseSplit& split, const Tensor& tensor, const Elements& sources) {
  return compare(tensor, split.operands, sources, [&](double a, std::span<const double> operands, double most) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if ((split.when >> i & 1U) != 0 && operands[i] == most) return std::isinf(most) || split.in.contains(a);
    }
    return true;
  });
}

}  // namespace

bool holds(const Relation& relation, const Tensor& tensor, const Elements& sources) {
  return std::visit([&](const auto& kind) { return is_true(kind, tensor, sources); }, relation);
}

// ---- words -------------------------------------------------------------------

namespace {

std::string_view word(Of of) {
  switch (of) {
    case Of::largest: return "largest element";
    case Of::smallest: return "smallest element";
    case Of::magnitude: return "largest absolute value";
    case Of::square: return "largest square";
    case Of::sum: return "sum";
    case Of::size_sum: return "sum of absolute values";
    case Of::square_sum: return "sum of squares";
    case Of::norm: return "norm";
    case Of::mean: return "mean";
    case Of::mean_square: return "mean of squares";
    case Of::squared_mean: return "squared mean";
  }
  return "";
}

std::string axes_text(AxisBits axes) {
  std::string text = std::popcount(axes) == 1 ? " along axis" : " along axes";
  for (int axis = 0; axis < 32; ++axis) {
    if ((axes >> axis & 1U) != 0) text += " " + std::to_string(axis);
  }
  return text;
}

std::string source_text(const Source& source, Of of, const Names& name) {
  const std::string value = "'" + name(source.value) + "'";
  if (source.windows.rank() > 0) return "the " + std::string(word(of)) + " of windows of " + value;
  if (source.axes == 0 && is_extreme(of)) return value;
  const std::string what = "the " + std::string(word(of)) + " of " + value;
  return source.axes == 0 ? what : what + axes_text(source.axes);
}

std::string operands_text(const std::vector<ValueId>& operands, const Names& name) {
  std::string text;
  for (const ValueId id : operands) text += (text.empty() ? "" : ", ") + (id.valid() ? "'" + name(id) + "'" : "0");
  return "the maximum of " + text;
}

std::string words(const RowBound& rows, const Names&) {
  return "of rows" + axes_text(rows.axes) + " whose " + std::string(word(rows.of)) + " lies in " + to_string(rows.in);
}

std::string words(const AggregateBound& bound, const Names& name) {
  const std::string order = bound.order == Order::equal      ? ""
                            : bound.order == Order::at_least ? "at least "
                                                             : "at most ";
  const std::string factor = bound.factor == 1 ? "" : to_string(point(bound.factor)) + " times ";
  return order + factor + source_text(bound.source, bound.of, name);
}

std::string words(const ProductBound& bound, const Names& name) {
  return "at most " + std::to_string(bound.limit) + " over " + source_text(bound.source, bound.of, name);
}

std::string words(const MaximumOf& maximum, const Names& name) { return operands_text(maximum.operands, name); }

std::string words(const CaseSplit& split, const Names& name) {
  return "in " + to_string(split.in) + " where " + operands_text(split.operands, name) + " is attained by some of them";
}

}  // namespace

std::string to_text(const Relation& relation, const Names& name) {
  return std::visit([&](const auto& kind) { return words(kind, name); }, relation);
}

}  // namespace finity
