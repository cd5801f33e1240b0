#include "ops/shared/range_groups.h"

#include <algorithm>
#include <cmath>

namespace finity {

double Group::least_count() const {
  double count = 0;
  for (const Part& part : parts) count += part.count;
  return count * least;
}

double Group::most_count() const {
  double count = 0;
  for (const Part& part : parts) count += part.count;
  return count * most;
}

Range Group::hull() const {
  Range result;
  for (const Part& part : parts) {
    if (part.count > 0) result = join(result, part.each);
  }
  return result;
}

Group group_of(const Range& each, double least, double most) {
  Group group;
  group.parts = {{.each = each, .count = 1}};
  group.least = least;
  group.most = most;
  return group;
}

Group some_elements(const AbsTensor& x) {
  return group_of(x.hull(), 1, std::max(x.most_count(~std::uint32_t{0}), 1.0));
}

std::optional<std::uint32_t> axis_bits(const AxisSet& axes) {
  if (axes.size() > 32) return std::nullopt;
  std::uint32_t bits = 0;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) bits |= axes[axis] ? std::uint32_t{1} << axis : 0;
  return bits;
}

Group mapped_parts(const Group& group, const std::function<Range(const Range&)>& f) {
  Group result = group;
  for (Part& part : result.parts) part.each = f(part.each);
  return result;
}

// ---- walking over the grid -----------------------------------------------------

namespace {

// Counts through the blocks of some axes of a grid, the others staying where they are.
class Places {
 public:
  Places(const AbsTensor& x, const AxisSet& axes, bool wanted) : x_(x), place_(x.rank(), 0) {
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (axes[axis] == wanted) moving_.push_back(axis);
    }
  }
  std::vector<std::size_t>& place() { return place_; }
  // Back at the start after the last one, which returns false.
  bool next() {
    for (std::size_t i = moving_.size(); i-- > 0;) {
      const std::size_t axis = moving_[i];
      if (++place_[axis] < x_.blocks(axis)) return true;
      place_[axis] = 0;
    }
    return false;
  }

 private:
  const AbsTensor& x_;
  std::vector<std::size_t> moving_;
  std::vector<std::size_t> place_;
};

struct GroupCells {
  Group group = {};
  std::vector<std::size_t> cells = {};  // of x, one per part
};

// The group at a place of the axes that stay.
GroupCells group_at(const AbsTensor& x, const AxisSet& axes, const std::vector<std::size_t>& place) {
  GroupCells result;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (!axes[axis] || x.sizes[axis] >= 0) continue;
    const SizeLimits size = x.size_limits(axis);
    result.group.least *= std::max(size.least, 1.0);
    result.group.most *= std::max(size.most, 1.0);
  }
  Places inner(x, axes, true);
  inner.place() = place;
  do {
    Part part;
    for (std::size_t axis = 0; axis < x.rank(); ++axis) {
      if (!axes[axis]) continue;
      const std::int64_t length = x.block_length(axis, inner.place()[axis]);
      if (length >= 0) part.count *= static_cast<double>(length);
    }
    const std::size_t cell = cell_at(x, inner.place());
    part.each = x.cells[cell];
    result.group.parts.push_back(part);
    result.cells.push_back(cell);
  } while (inner.next());
  return result;
}

template <class F>
void visit_groups(const AbsTensor& x, const AxisSet& axes, F f) {
  if (!x.ranked) {
    f(GroupCells{some_elements(x), {0}});
    return;
  }
  Places outer(x, axes, false);
  do f(group_at(x, axes, outer.place()));
  while (outer.next());
}

}  // namespace

void for_each_group(const AbsTensor& x, const AxisSet& axes, const std::function<void(const Group&)>& f) {
  visit_groups(x, axes, [&](const GroupCells& at) { f(at.group); });
}

AbsTensor reduced_cells(const AbsTensor& x, const AxisSet& axes, bool keep, DType dtype, const GroupRange& f) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = x.ranked;
  result.cells.clear();
  visit_groups(x, axes, [&](const GroupCells& at) { result.cells.push_back(f(at.group)); });
  if (!x.ranked) return result;
  result.sizes = reduced_sizes<std::int64_t>(x.sizes, axes, keep, 1);
  if (result.cells.size() > 1) result.cuts = reduced_sizes<Cuts>(x.cuts, axes, keep, {});
  return result;
}

AbsTensor mapped_groups(const AbsTensor& x, const AxisSet& axes, DType dtype, const PartRanges& f) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = x.ranked;
  result.sizes = x.sizes;
  result.cuts = x.cuts;
  result.limits = x.limits;
  result.cells.assign(x.cells.size(), {});
  visit_groups(x, axes, [&](const GroupCells& at) {
    const std::vector<Range> ranges = f(at.group);
    for (std::size_t part = 0; part < at.cells.size(); ++part) result.cells[at.cells[part]] = ranges[part];
  });
  return result;
}

// ---- sums ----------------------------------------------------------------------

double sum_growth(DType carrier, double terms) {
  if (!is_float(carrier) || terms <= 1) return 1;
  const double digits = -std::log2(unit_roundoff(carrier));
  return std::min(1 + (terms - 1) * unit_roundoff(carrier), std::pow(terms, 1 / (digits - 1)) * (1 + 1e-9));
}

namespace {

// One end of a sum in real numbers: what the elements' ends add up to, per repetition.
struct End {
  double sum = 0;        // of the ends
  double magnitude = 0;  // of their absolute values
  double outward = 0;    // of those that point away from zero on this side
};

// Upper ends; of the negated elements for the lower ones.
End end_of(const Group& group, bool upper) {
  End end;
  for (const Part& part : group.parts) {
    if (part.count == 0 || !part.each.has_finite()) continue;
    const double value = upper ? part.each.hi : -part.each.lo;
    end.sum += part.count * value;
    end.magnitude += part.count * std::abs(value);
    end.outward += part.count * std::max(value, 0.0);
  }
  return end;
}

// The end nearest to zero of a sum of numbers on the other side of it: rounding never goes back behind a single term.
double single_term(const Group& group, bool upper) {
  double bound = 0;
  for (const Part& part : group.parts) {
    if (part.count == 0 || !part.each.has_finite()) continue;
    bound = std::min(bound, upper ? part.each.hi : -part.each.lo);
  }
  return bound;
}

bool all_integers(const Group& group) {
  return std::ranges::all_of(group.parts, [](const Part& p) { return p.each.integer || !p.each.has_finite(); });
}

// Sums of integers are exact as long as every partial sum is.
bool exact_sums(DType carrier, const Group& group, double magnitude) {
  return !is_float(carrier) || (all_integers(group) && magnitude * unit_roundoff(carrier) <= 1);
}

struct SumEnd {
  double bound = 0;       // the sum is not beyond
  bool overflow = false;  // a partial sum may be
};

// Upper end of the float sum; of that of the negated elements otherwise.
SumEnd sum_end(DType carrier, const Group& group, bool upper) {
  const End end = end_of(group, upper);
  const double terms = group.most_count();
  SumEnd result;
  const double grown = sum_growth(carrier, terms) * end.outward * group.most;
  result.overflow = is_float(carrier) && grown > max_finite(carrier);
  const double sum = end.sum * (end.sum > 0 ? group.most : group.least);
  if (exact_sums(carrier, group, end.magnitude * group.most)) {
    result.bound = sum;
    return result;
  }
  const double error = (terms - 1) * unit_roundoff(carrier) * end.magnitude * group.most;
  result.bound = std::min(sum + error, grown);
  if (end.outward == 0) result.bound = std::min(result.bound, group.least < 1 ? 0 : single_term(group, upper));
  return result;
}

// Outwards by the error of the double arithmetic above; exact small integers stay.
double above(double x, bool exact) { return exact && !(std::abs(x) > 0x1p53) ? x : x + std::abs(x) * 0x1p-50; }

struct Flags {
  bool nan = false, pinf = false, ninf = false, empty = false, finite = true;
};

Flags flags_of(const Group& group) {
  Flags flags;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    flags.nan |= part.each.nan;
    flags.pinf |= part.each.pinf;
    flags.ninf |= part.each.ninf;
    flags.empty |= part.each.is_empty();
    flags.finite &= part.each.has_finite();
  }
  flags.nan |= flags.pinf && flags.ninf && group.most_count() > 1;
  return flags;
}

Range with_flags(Range range, const Flags& flags, bool up, bool down) {
  range.pinf |= flags.pinf || up;
  range.ninf |= flags.ninf || down;
  range.nan |= flags.nan || (up && (down || flags.ninf)) || (down && flags.pinf);
  return range;
}

}  // namespace

Range group_sum(DType dtype, DType carrier, const Group& group) {
  if (group.surely_empty()) return point(0);
  const Flags flags = flags_of(group);
  if (flags.empty) return {};
  if (!is_float(dtype)) carrier = dtype;
  const SumEnd up = sum_end(carrier, group, true);
  const SumEnd down = sum_end(carrier, group, false);
  Range result;
  if (flags.finite) {
    const bool integers = all_integers(group);
    const bool exact = integers || group.most_count() == 1;
    result = from_bounds(dtype, 0 - above(down.bound, exact), above(up.bound, exact));
    result.integer |= integers && result.has_finite();
  }
  return with_flags(result, flags, up.overflow, down.overflow);
}

namespace {

Range integer_mean(DType dtype, const Group& group) {
  // A sum that wraps may end anywhere.
  const Range sum = group_sum(dtype, dtype, group);
  const End up = end_of(group, true), down = end_of(group, false);
  const double once = group.least_count() / group.least;
  if (sum == any_finite(dtype)) return sum;
  return from_bounds(dtype, std::trunc(-down.sum / once), std::trunc(up.sum / once));
}

// Upper end of the mean: shares of the parts are known even where their numbers are not.
double mean_end(DType carrier, const Group& group, bool upper) {
  const End end = end_of(group, upper);
  const double once = group.least_count() / group.least;
  const double terms = group.most_count();
  const double u = unit_roundoff(carrier);
  const double error = (terms + 3) * u * end.magnitude / once;
  const double grown = sum_growth(carrier, terms) * (1 + 4 * u) * end.outward / once;
  double bound = std::min(end.sum / once + error, grown);
  if (end.outward == 0) bound = std::min(bound, single_term(group, upper) / terms * (1 - 4 * u));
  return above(bound, false);
}

}  // namespace

Range group_mean(DType dtype, DType carrier, const Group& group) {
  if (group.surely_empty()) return is_float(dtype) ? Range{.nan = true} : Range{};
  const Flags flags = flags_of(group);
  if (flags.empty) return {};
  if (!is_float(dtype)) return integer_mean(dtype, group);
  // One element is its own mean.
  if (group.most_count() == 1) return group_sum(dtype, carrier, group);
  Range result;
  if (flags.finite) result = from_bounds(dtype, 0 - mean_end(carrier, group, false), mean_end(carrier, group, true));
  // A number of elements that the format cannot hold is infinite, and the quotient zero.
  if (group.most_count() > max_finite(carrier)) result = join(result, point(0));
  return with_flags(result, flags, sum_end(carrier, group, true).overflow, sum_end(carrier, group, false).overflow);
}

Range group_max(const Group& group) {
  std::optional<Range> result;
  for (const Part& part : group.parts) {
    if (part.count == 0) continue;
    result = result ? maximum(*result, part.each) : part.each;
  }
  return result.value_or(Range{});
}

}  // namespace finity
