// Elements that are reduced or normalised together, as ranges see them. A group is
// one set of such elements (a row, a channel, a window); the grid tells some of its
// parts apart. What may be empty is asked before (ask_for_elements): a group has an
// element, unless a size is known to be 0.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "domain/abs_tensor.h"
#include "ops/reduce/reduced_axes.h"

namespace finity {

struct Part {
  Range each = {};
  double count = 1;  // elements of the group, along the axes of known size
};

struct Group {
  std::vector<Part> parts = {};
  // How often all parts are repeated, along axes of unknown size.
  double least = 1;
  double most = 1;

  double least_count() const;
  double most_count() const;
  Range hull() const;
  bool surely_empty() const { return !(most_count() >= 1); }
};

// A group of one part: `least` to `most` elements of one range.
Group group_of(const Range& each, double least, double most);
// One or more elements of a tensor: along axes that are not known.
Group some_elements(const AbsTensor& x);

// Sets of axes as relations have them; nullopt when the rank does not fit.
std::optional<std::uint32_t> axis_bits(const AxisSet& axes);

// One group per cell of the result: f gives its range. `keep` leaves the reduced axes with size 1.
using GroupRange = std::function<Range(const Group&)>;
AbsTensor reduced_cells(const AbsTensor& x, const AxisSet& axes, bool keep, DType dtype, const GroupRange& f);
// Same grid as x: f gives the range of the elements in each part of a group.
using PartRanges = std::function<std::vector<Range>(const Group&)>;
AbsTensor mapped_groups(const AbsTensor& x, const AxisSet& axes, DType dtype, const PartRanges& f);
// Calls f once for every group of the grid.
void for_each_group(const AbsTensor& x, const AxisSet& axes, const std::function<void(const Group&)>& f);

// ---- sums ------------------------------------------------------------------
// Rounding can inflate a sum of numbers of one sign by this factor, in any order of additions. Two bounds: the error is
// at most (n - 1) u times the sum, and as fl(a + b) never errs by more than the smaller of both, each doubling of an
// element costs as many binades as the format has digits.
double sum_growth(DType carrier, double terms);

// The sum (mean) of a group, added in any order with partial sums held in `carrier`, rounded into `dtype`. Overflow of
// a partial sum is a flag. The mean of nothing is NaN; integers divide towards zero.
Range group_sum(DType dtype, DType carrier, const Group& group);
Range group_mean(DType dtype, DType carrier, const Group& group);
// Largest element.
Range group_max(const Group& group);
// f on every part.
Group mapped_parts(const Group& group, const std::function<Range(const Range&)>& f);

}  // namespace finity
