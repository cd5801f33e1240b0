#include "kernels/operands.h"

#include <algorithm>
#include <cmath>

#include "check/escape.h"
#include "check/verify.h"
#include "ops/shared/shapes.h"
#include "support/around.h"
#include "support/range_probe.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity::kernels {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// One float operand, whose elements only become what their ranges contain.
class Elements {
 public:
  Elements(const Tensor& tensor, const AbsTensor& range)
      : dtype_(tensor.dtype()), dims_(tensor.dims()), range_(range), values_(elements<double>(tensor)) {}

  std::size_t size() const { return values_.size(); }
  const Dims& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  double operator[](std::size_t i) const { return values_[i]; }
  const Range& cell(std::size_t i) const { return range_at(range_, dims_, static_cast<std::int64_t>(i)); }
  void set(std::size_t i, double value) {
    value = round_to(dtype_, value);
    if (cell(i).contains(value)) values_[i] = value;
  }
  Tensor tensor() const { return from_elements<double>(dtype_, dims_, values_); }

 private:
  DType dtype_;
  Dims dims_;
  const AbsTensor& range_;
  std::vector<double> values_;
};

AxisView any_rows(const Elements& x, Rng& rng) {
  if (x.dims().empty()) return AxisView(Dims{1}, 0);
  // Mostly the last axis: there rows are added up and maxima taken.
  const std::size_t axis = rng.below(2) == 0 ? x.dims().size() - 1 : rng.below(x.dims().size());
  return AxisView(x.dims(), axis);
}

template <class F>
void each_row(const AxisView& rows, F change) {
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (std::int64_t i = 0; i < rows.inner; ++i) change([&rows, o, i](std::int64_t k) { return rows.at(o, k, i); });
  }
}

void constant_rows(Elements& x, Rng& rng) {
  const AxisView rows = any_rows(x, rng);
  each_row(rows, [&](auto at) {
    for (std::int64_t k = 1; k < rows.length; ++k) x.set(at(k), x[at(0)]);
  });
}

void all_equal(Elements& x, Rng& rng) {
  constexpr double kUsual[] = {0.1, 1.0 / 3, 88.8, -88.8, 1, -1, 1000.1, 33.3, -1e10, 3e4, 0, 7.7};
  const double value = rng.below(2) == 0 ? x[rng.below(x.size())] : kUsual[rng.below(std::size(kUsual))];
  for (std::size_t i = 0; i < x.size(); ++i) x.set(i, value);
}

// The last digits of what is otherwise a constant.
void almost_equal(Elements& x, Rng& rng) {
  all_equal(x, rng);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (rng.below(2) == 0) x.set(i, x[i] * (1 + std::exp2(-float_format(x.dtype()).mantissa_bits)));
  }
}

void masked_rows(Elements& x, Rng& rng) {
  const AxisView rows = any_rows(x, rng);
  const std::uint64_t all = rng.below(3);
  each_row(rows, [&](auto at) {
    const bool whole = all == 0 || (all == 1 && rng.below(2) == 0);
    for (std::int64_t k = 0; k < rows.length; ++k) {
      if (whole || rng.below(2) == 0) x.set(at(k), -kInfinity);
    }
  });
}

void first_masked(Elements& x, Rng& rng) {
  const AxisView rows = any_rows(x, rng);
  each_row(rows, [&](auto at) {
    if (rows.length > 0) x.set(at(0), -kInfinity);
  });
}

void one_special(Elements& x, Rng& rng) {
  constexpr double kSpecial[] = {kNotANumber, kNotANumber, kInfinity, -kInfinity};
  const std::size_t place = rng.below(3) == 0 ? 0 : rng.below(x.size());
  x.set(place, kSpecial[rng.below(std::size(kSpecial))]);
}

void tiny(Elements& x, Rng& rng) {
  const double smallest = min_subnormal(x.dtype());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.set(i, smallest * static_cast<double>(1 + rng.below(rng.below(2) == 0 ? 2 : 1000)));
  }
}

void ends(Elements& x, Rng& rng) {
  for (std::size_t i = 0; i < x.size(); ++i) x.set(i, rng.below(2) == 0 ? x.cell(i).lo : x.cell(i).hi);
}

// Both ends in turn: the largest sums of products, and the largest differences.
void ends_in_turn(Elements& x, Rng& rng) {
  const std::size_t period = 1 + rng.below(4);
  for (std::size_t i = 0; i < x.size(); ++i) x.set(i, i / period % 2 == 0 ? x.cell(i).hi : x.cell(i).lo);
}

// From far below to far above.
void spread_out(Elements& x, Rng& rng) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double far = std::min(x.cell(i).magnitude(), 200.0);
    x.set(i, rng.uniform(-far, far));
  }
}

void change(Elements& x, Rng& rng) {
  constexpr void (*kWays[])(Elements&, Rng&) = {constant_rows, all_equal, almost_equal, masked_rows,  first_masked,
                                                one_special,   tiny,      ends,         ends_in_turn, spread_out};
  const std::uint64_t way = rng.below(std::size(kWays) + 3);
  if (way < std::size(kWays)) kWays[way](x, rng);
  if (rng.below(8) == 0) kWays[rng.below(std::size(kWays))](x, rng);
}

void change_operands(const Graph& graph, const Premises& premises, Inputs& inputs, Rng& rng) {
  for (const ValueId id : graph.main().inputs) {
    const auto found = inputs.find(graph.value(id).name);
    const std::shared_ptr<AbsTensor>& range = premises.of[id.at()];
    const Tensor* tensor = found == inputs.end() ? nullptr : found->second.tensor();
    if (tensor == nullptr || range == nullptr || !is_float(tensor->dtype()) || tensor->empty()) continue;
    Elements x(*tensor, *range);
    change(x, rng);
    found->second = x.tensor();
  }
}

// A loop that waits for a number to grow does not end when it is infinite.
bool wants_ordinary_inputs(const Graph& graph) { return graph.bodies().size() > 1; }

// Inputs that carry no numbers stay those of the case.
Inputs draw(const Subject& subject, const Premises& premises, Rng& rng, int number) {
  Inputs inputs = draw_inside(subject.graph, subject.types, premises, rng, number).inputs;
  for (const auto& [name, datum] : subject.inputs) {
    const Tensor* tensor = datum.tensor();
    if (tensor == nullptr || tensor->dtype() == DType::string || is_complex(tensor->dtype())) inputs[name] = datum;
  }
  return inputs;
}

// Drawing rounds: integers beyond 2^53, for one.
bool inside(const Subject& subject, const Premises& premises, const Inputs& inputs) {
  return std::ranges::all_of(subject.graph.main().inputs, [&](ValueId id) {
    const auto given = inputs.find(subject.graph.value(id).name);
    const std::shared_ptr<AbsTensor>& range = premises.of[id.at()];
    return given == inputs.end() || range == nullptr || escape_of(*range, given->second).empty();
  });
}

Besides any_besides(Rng& rng) {
  constexpr Spread kSpreads[] = {Spread::near,     Spread::wide,     Spread::wide, Spread::huge,
                                 Spread::positive, Spread::negative, Spread::apart};
  Besides besides{.spread = kSpreads[rng.below(std::size(kSpreads))]};
  const std::uint64_t special = rng.below(6);
  besides.ninf = special == 0 || special == 1;
  besides.pinf = special == 1;
  besides.nan = special == 2;
  return besides;
}

// Every float operand anywhere up to a power of ten, or only on one side of zero if the case is: ordinary numbers whose
// squares lose all digits of a small epsilon.
Premises far_premises(const Subject& subject, Rng& rng) {
  Premises given = premises_around(subject.graph, subject.types, subject.inputs, 1);
  for (const ValueId id : subject.graph.main().inputs) {
    std::shared_ptr<AbsTensor>& range = given.of[id.at()];
    if (range == nullptr || !is_float(range->dtype) || !range->hull().has_finite()) continue;
    const double most = std::min(std::pow(10.0, static_cast<double>(1 + rng.below(10))), max_finite(range->dtype));
    const double lo = range->hull().lo < 0 ? -most : range->hull().lo;
    if (!(lo <= most)) continue;
    *range = uniform(range->dtype, range->sizes, from_bounds(range->dtype, lo, most));
  }
  return given;
}

Told as_told(const Subject& subject, Rng& rng) {
  Told told{.premises = *subject.premises};
  if (!subject.inputs.empty()) {
    told.inputs = {subject.inputs};
    return told;
  }
  for (int number = 0; number < 8; ++number) told.inputs.push_back(draw(subject, told.premises, rng, number));
  return told;
}

}  // namespace

std::vector<Told> drawn_operands(const Subject& subject, std::uint64_t seed, int mixes) {
  const Graph& graph = subject.graph;
  Rng rng(std::hash<std::string>{}(subject.name) + seed);
  if (subject.premises) return {as_told(subject, rng)};
  std::vector<Told> all;
  all.push_back({premises_around(graph, subject.types, subject.inputs, 64), {subject.inputs}});
  if (graph.main().inputs.empty() || wants_ordinary_inputs(graph)) return all;
  for (int mix = 0; mix < mixes; ++mix) {
    const std::size_t cells = rng.below(3) == 0 ? 1 : 64;
    Told told;
    if (mix % 3 == 0) told.premises = mixed_premises(graph, subject.types, subject.inputs, cells, rng);
    else if (mix % 3 == 1) told.premises = far_premises(subject, rng);
    else told.premises = premises_around(graph, subject.types, subject.inputs, cells, any_besides(rng));
    try {
      for (int number = 0; number < 4; ++number) {
        Inputs inputs = draw(subject, told.premises, rng, number == 3 ? static_cast<int>(rng.below(3)) : 3);
        if (number != 3) change_operands(graph, told.premises, inputs, rng);
        if (inside(subject, told.premises, inputs)) told.inputs.push_back(std::move(inputs));
      }
    } catch (const Error&) {  // an input that cannot be drawn
    }
    all.push_back(std::move(told));
  }
  return all;
}

}  // namespace finity::kernels
