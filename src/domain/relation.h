// Relations: what ranges and affine forms cannot express of a tensor ("this"). They
// are statements about numbers: each holds of the stored elements, NaN left aside,
// with every rounding written into it, so that whatever leaves the elements as they
// are leaves the relation true. A closed set of kinds; all that can be done with a
// relation is declared here once and written per kind in relation.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "domain/range.h"
#include "tensor/tensor.h"

namespace finity {

using AxisBits = std::uint32_t;  // a bit per axis

// What is taken of the elements along some axes; of each element for itself when there are none.
enum class Of : std::uint8_t {
  largest,
  smallest,
  magnitude,     // the largest absolute value
  square,        // the largest square
  sum,           //
  size_sum,      // of absolute values
  square_sum,    //
  norm,          // Euclidean
  mean,          //
  mean_square,   // the mean of the squares
  squared_mean,  // the square of the mean
};
enum class Order : std::uint8_t { equal, at_least, at_most };

// Windows of an average pool over the last one or two axes.
struct Windows {
  struct Axis {
    std::uint8_t kernel = 0, stride = 1, begin = 0, end = 0;
    bool operator==(const Axis&) const = default;
  };
  std::array<Axis, 2> axes = {};  // a kernel of 0: there is no such axis
  bool counts_padding = false;

  bool operator==(const Windows&) const = default;
  std::size_t rank() const { return axes[1].kernel != 0 ? 2 : axes[0].kernel != 0 ? 1 : 0; }
};

// Of every row of this along `axes`. For Of::sum, no element is negative.
struct RowBound {
  AxisBits axes = 0;
  Of of = Of::largest;
  Range in = {};
};

// Another value with some axes reduced. It is compared with this as broadcasting pairs their elements.
struct Source {
  ValueId value = {};    // an identity, see AbsTensor::identity
  AxisBits axes = 0;     // of the source
  bool aligned = true;   // the reduced axes are still there with size 1, or this broadcasts right without them
  Windows windows = {};  // instead of axes; such a source is not aligned

  bool operator==(const Source&) const = default;
};

// this ==, >= or <= factor * A for the aggregate A of a source, up to relative * factor * S + absolute, where S is |A|
// of largest and smallest, else the aggregate of |source|. A negative `absolute` of a lower bound is a surplus.
struct AggregateBound {
  Source source = {};
  Of of = Of::largest;
  Order order = Order::equal;
  double factor = 1;
  double relative = 0;
  double absolute = 0;

  bool is_exact() const { return relative == 0 && absolute == 0; }
  bool bounds_below() const { return order != Order::at_most; }
  bool bounds_above() const { return order != Order::at_least; }
};

// |this| * A <= limit, A being the magnitude or the norm of a source.
struct ProductBound {
  Source source = {};
  Of of = Of::magnitude;
  double limit = 0;
};

// this is the elementwise maximum of the operands, up to relative * |operand| + absolute.
struct MaximumOf {
  std::vector<ValueId> operands = {};  // invalid: the number zero
  double relative = 0;
  double absolute = 0;
};

// Where an operand of the set attains the maximum of all operands, this lies in a range.
struct CaseSplit {
  std::vector<ValueId> operands = {};  // as in MaximumOf
  std::uint32_t when = 0;              // a bit per operand
  Range in = {};

  bool covers_all() const { return when == (std::uint32_t{1} << operands.size()) - 1; }
};

using Relation = std::variant<RowBound, AggregateBound, ProductBound, MaximumOf, CaseSplit>;
using Relations = std::vector<Relation>;

// ---- looking -----------------------------------------------------------------
template <class Kind>
auto each(const Relations& relations) {
  return relations | std::views::filter([](const Relation& r) { return std::holds_alternative<Kind>(r); }) |
         std::views::transform([](const Relation& r) -> const Kind& { return std::get<Kind>(r); });
}
inline bool speaks_of_rows(const Relation& relation) { return std::holds_alternative<RowBound>(relation); }
const RowBound* find_rows(const Relations& relations, Of of);
// Of this source, when one is given; then a source without identity is none.
const AggregateBound* find_bound(const Relations& relations, Of of, Order order);
const AggregateBound* find_bound(const Relations& relations, Of of, Order order, ValueId source);
// Bounds from below (at least or equal), or above, an aggregate of the source.
const AggregateBound* find_below(const Relations& relations, Of of, ValueId source);
const AggregateBound* find_above(const Relations& relations, Of of, ValueId source);

// ---- order -------------------------------------------------------------------
// Whatever satisfies a satisfies b.
bool implies(const Relation& a, const Relation& b);
bool implies(const Relations& relations, const Relation& wanted);
// What holds of a tensor of which either holds, where there is such a relation. Of other values nothing does: across
// iterations of a loop the same name is another value.
std::optional<Relation> joined(const Relation& a, const Relation& b);
Relations joined(const Relations& a, const Relations& b);

// ---- change ------------------------------------------------------------------
// What a movement of data does to axes.
struct Movement {
  std::vector<int> to = {};  // where each axis of the operand goes; -1: it had size 1 and is gone
  AxisBits taken = 0;        // slices along these axes come in any order and number
  AxisBits part = 0;         // some elements along these are left out
  AxisBits repeated = 0;     // elements along these are repeated
  bool in_place = false;     // only leading axes of size 1 come or go: the result broadcasts as before
  AxisBits inserted = 0;     // axes of the result with size 1
  AxisBits removed = 0;      // axes of the operand that had size 1
};
std::optional<Relation> moved(const Relation& relation, const Movement& movement);
Relations moved(const Relations& relations, const Movement& movement);

// What an elementwise function does: it rises, falls, or neither. `f` maps ranges soundly, NaN and infinities included.
enum class Monotone : std::uint8_t { no, increasing, decreasing };
using RangeMap = std::function<Range(const Range&)>;
std::optional<Relation> mapped(const Relation& relation, Monotone monotone, const RangeMap& f);
Relations mapped(const Relations& relations, Monotone monotone, const RangeMap& f);

// this times (or, seen from the other side, over) a positive number, rounded in the format; `f` does so with ranges.
std::optional<Relation> scaled(const Relation& relation, double factor, DType dtype, const RangeMap& f);
// Either side may be rounded into the format, and was not when the relation was found.
Relation loosened(const Relation& relation, DType dtype);
// Elements below the smallest normal number may have become zero, after sources had; `f` does so with ranges.
Relation flushed(const Relation& relation, DType dtype, const RangeMap& f);

// ---- truth -------------------------------------------------------------------
// Elements of a source; null when they are not known.
using Elements = std::function<const Tensor*(ValueId)>;
// Elements that satisfy the relation, or of which nothing can be said for want of a source.
bool holds(const Relation& relation, const Tensor& tensor, const Elements& sources);
// What it says, to go after "this is": "at least 'x'", "of rows along axis 1 whose sum lies in [1, 1]".
using Names = std::function<std::string(ValueId)>;
std::string to_text(const Relation& relation, const Names& name);

}  // namespace finity
