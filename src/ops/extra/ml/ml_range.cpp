#include "ops/extra/ml/ml_range.h"

#include <algorithm>
#include <cmath>

#include "ops/extra/ml/ml_scores.h"
#include "ops/linear/dot_range.h"
#include "ops/shared/range_rules.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr DType kFloat = DType::float32;

// The value of a column from a list that has one for all or one per column.
double of_column(const std::vector<double>& values, std::size_t column, double fallback) {
  if (values.empty()) return fallback;
  return values.size() == 1 ? values[0] : values[std::min(column, values.size() - 1)];
}

std::int64_t column_count(const AbsTensor& x) { return x.ranked && x.rank() > 0 ? x.sizes.back() : -1; }

// A result whose columns differ: cut between them while that is few enough.
AbsTensor by_columns(const RangeCall& call, const std::vector<Range>& columns) {
  const Type& type = call.out_type(0);
  AbsTensor result = uniform(type, Range{});
  Range hull;
  for (const Range& column : columns) hull = join(hull, column);
  const bool fits = type.ranked && !type.shape.empty() && columns.size() > 1 &&
                    type.shape.back().size == static_cast<std::int64_t>(columns.size());
  if (!fits) return uniform(type, hull);
  result.cuts.assign(type.shape.size(), {});
  for (std::size_t i = 1; i < columns.size(); ++i) result.cuts.back().push_back(static_cast<std::int64_t>(i));
  result.cells = columns;
  simplify(result, call.max_cells());
  return result;
}

}  // namespace

std::vector<Range> column_ranges(const AbsTensor& x) {
  const std::int64_t columns = column_count(x);
  constexpr std::int64_t kMost = 1 << 16;
  if (columns <= 0 || columns > kMost || !x.cut() || x.blocks(x.rank() - 1) == 1) {
    return std::vector<Range>(static_cast<std::size_t>(columns > 0 && columns <= kMost ? columns : 1), x.hull());
  }
  std::vector<Range> result;
  const std::size_t last = x.rank() - 1;
  for (std::size_t block = 0; block < x.blocks(last); ++block) {
    std::vector<Extent> extents(x.rank());
    extents[last] = {x.block_start(last, block), x.block_start(last, block) + x.block_length(last, block)};
    result.insert(result.end(), static_cast<std::size_t>(x.block_length(last, block)), hull_within(x, extents));
  }
  return result;
}

// ---- features ----------------------------------------------------------------------

void range_scaler(RangeCall& call) {
  const std::vector<double> offset = call.reals("offset"), scale = call.reals("scale");
  std::vector<Range> columns = column_ranges(call.in(0));
  // Without the number of columns every parameter may meet every element.
  const bool smashed = columns.size() == 1;
  const std::size_t count = smashed ? std::max({offset.size(), scale.size(), std::size_t{1}}) : columns.size();
  std::vector<Range> result;
  for (std::size_t i = 0; i < count; ++i) {
    const Range& x = columns[smashed ? 0 : i];
    DotSum sum;
    const double factor = of_column(scale, i, 1);
    add_products(sum, x, point(factor), 1, 1);
    add_products(sum, point(of_column(offset, i, 0)), point(-factor), 1, 1);
    result.push_back(x.is_empty() ? x : rounded(call, kFloat, sum, 6));
  }
  if (smashed) {
    Range hull;
    for (const Range& one : result) hull = join(hull, one);
    result = {hull};
  }
  call.out(0, by_columns(call, result));
}

void range_imputer(RangeCall& call) {
  const bool floats = is_float(call.in_dtype(0));
  const bool replaces_nan = floats && std::isnan(call.real("replaced_value_float"));
  Range imputed;
  if (floats) {
    for (const double value : call.reals("imputed_value_floats")) imputed = join(imputed, point(value));
  } else {
    for (const std::int64_t value : call.integers("imputed_value_int64s")) {
      imputed = join(imputed, point(static_cast<double>(value)));
    }
  }
  const DType dtype = call.out_dtype(0);
  call.out(0, map_cells(call.in(0), dtype, [&](const Range& cell) {
             if (cell.is_empty()) return cell;
             Range x = cell;
             if (replaces_nan) x.nan = false;
             const Range both = join(x, imputed);
             Range result = both.has_finite() ? from_bounds(dtype, both.lo, both.hi) : Range{};
             result.nan |= both.nan;
             result.pinf |= both.pinf;
             result.ninf |= both.ninf;
             return result;
           }));
}

namespace {

// Doubles and integers are rounded to float32 first.
Range as_floats(const Range& x) {
  Range rounded = x.has_finite() ? from_bounds(kFloat, x.lo, x.hi) : Range{};
  rounded.nan |= x.nan;
  rounded.pinf |= x.pinf;
  rounded.ninf |= x.ninf;
  return rounded;
}

}  // namespace

// A row of zeros stays; otherwise it is divided by its largest element, or by a norm, which no element exceeds.
void range_normalizer(RangeCall& call) {
  const Range x = as_floats(call.hull(0));
  if (x.is_empty()) return call.out(0, x);
  const bool largest = call.text("norm") == "MAX";
  Range divisor = x.finite();
  divisor.nonzero = divisor.lo <= 0 && divisor.hi >= 0;
  Range result{.lo = x.lo >= 0 ? 0.0 : -1.0, .hi = x.hi <= 0 ? 0.0 : 1.0};
  // A largest element of 0 divides nothing, whatever the others are.
  if (largest && !(x.lo >= 0)) result = join(divide(kFloat, x.finite(), divisor), x.finite());
  const bool squares_overflow = call.text("norm") == "L2" && x.magnitude() * x.magnitude() > max_finite(kFloat);
  result.nan = x.nan || x.pinf || x.ninf || squares_overflow;
  call.out(0, outward(kFloat, result));
}

void range_feature_vectorizer(RangeCall& call) {
  Range hull = call.integers("inputdimensions").empty() ? Range{} : point(0);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    hull = join(hull, as_floats(call.hull(i)));
  }
  call.out(0, hull);
}

// ---- labels ------------------------------------------------------------------------

Range range_of_labels(const Tensor& labels) {
  return labels.dtype() == DType::string ? top(DType::string) : range_of(labels);
}

void range_one_hot_encoder(RangeCall& call) {
  AbsTensor result = uniform(call.out_type(0), Range{.lo = 0, .hi = 1, .integer = true});
  if (result.ranked && result.rank() > 0 && result.rank() <= 32) {
    // At most one element of a row is 1.
    result.relations.push_back(
        RowBound{.axes = 1U << (result.rank() - 1), .of = Of::sum, .in = {.lo = 0, .hi = 1, .integer = true}});
  }
  call.out(0, std::move(result));
}

void give_labels(RangeCall& call, std::string_view ints) {
  if (call.out_dtype(0) == DType::string) return call.top(0);
  // A model that has no label of an index gives the index.
  Range labels{.lo = 0, .hi = 1, .integer = true};
  for (const std::int64_t label : call.integers(ints)) labels = join(labels, point(static_cast<double>(label)));
  call.out(0, labels);
}

// ---- scores ------------------------------------------------------------------------

namespace {

template <PostTransform Transform>
double transform_one(double x) {
  apply_transform(Transform, std::span(&x, 1));
  return x;
}

// Defined between 0 and 1, where it reaches from -Inf to +Inf.
Range probit_range(const Range& x, int ulps) {
  Range inside = meet(x.finite(), {.lo = 0, .hi = 1});
  Range result;
  if (inside.has_finite()) result = increasing(kFloat, inside, transform_one<PostTransform::probit>, ulps);
  result.nan |= x.nan || x.pinf || x.ninf || x.lo < 0 || x.hi > 1;
  return result;
}

// Scores of nearly 0 are not exponentiated: they are divided by what the others add up to.
Range softmax_zero_range(const Range& x) {
  Range result{.lo = 0, .hi = 1};
  if (x.has_finite() && x.lo <= 1e-7 && x.hi >= -1e-7) {
    const double bound = std::max(1.0, 1e-7 * std::exp(std::min(x.hi - x.lo, 700.0)));
    result = from_bounds(kFloat, -bound, bound);
  }
  return result;
}

}  // namespace

Range transformed_scores(const Call& call, const Range& scores, int ulps) {
  if (scores.is_empty()) return scores;
  Range result = scores;
  switch (post_transform(call)) {
    case PostTransform::none: break;
    case PostTransform::softmax: result = {.lo = 0, .hi = 1}; break;
    case PostTransform::logistic: return increasing(kFloat, scores, transform_one<PostTransform::logistic>, ulps, 0, 1);
    case PostTransform::probit: return probit_range(scores, ulps);
    case PostTransform::softmax_zero: result = softmax_zero_range(scores); break;
  }
  result.nan |= scores.nan || (post_transform(call) != PostTransform::none && (scores.pinf || scores.ninf));
  return result;
}

Range class_scores(const Call& call, const Range& scores, bool two_classes, int ulps) {
  const Range plain = transformed_scores(call, scores, ulps);
  if (!two_classes) return plain;
  const PostTransform transform = post_transform(call);
  const Range opposite = negate(kFloat, scores), rest = subtract(kFloat, point(1), scores);
  if (transform == PostTransform::logistic) return join(plain, transformed_scores(call, opposite, ulps));
  if (transform == PostTransform::probit) return join(plain, outward(kFloat, subtract(kFloat, point(1), plain)));
  return outward(kFloat, join(join(plain, scores), join(opposite, rest)));
}

}  // namespace finity
