#include "ops/recurrent/recurrent_range.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/linear/contract_range.h"
#include "ops/recurrent/cell_activation.h"
#include "ops/recurrent/recurrent_attrs.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// ---- activations -------------------------------------------------------------------

constexpr double kTanhUnits = kCell.measured.of_one;
constexpr double kSigmoidUnits = kTanhUnits / 4;

Range coarsened(DType dtype, Range range, double left, double right) {
  const double limit = std::max(std::abs(left), std::abs(right));
  const double slack = (left < 0 ? kTanhUnits : kSigmoidUnits) * unit_roundoff(dtype) * limit;
  const double lo = std::max(range.lo - slack, left < 0 ? left - slack : left);
  const Range ends = from_bounds(dtype, lo, std::min(range.hi + slack, right + slack));
  range.lo = ends.lo;
  range.hi = ends.hi;
  return range;
}

// Every function is monotone between these points: the ends, 0 and alpha.
Range activated(const CellActivation& activation, DType dtype, const Range& x, double clip, int ulps) {
  if (!x.has_finite()) return x;
  const double lo = std::clamp(x.lo, -clip, clip);
  const double hi = std::clamp(x.hi, -clip, clip);
  Range hull;
  for (const double at : {lo, hi, 0.0, activation.alpha, std::nextafter(activation.alpha, -kInf)}) {
    if (at >= lo && at <= hi) hull = join(hull, point(activation.function(at, activation.alpha, activation.beta)));
  }
  const double left = activation.function(-kInf, activation.alpha, activation.beta);
  const double right = activation.function(kInf, activation.alpha, activation.beta);
  Range result = from_bounds(dtype, hull.lo, hull.hi, ulps);
  result.nan |= hull.nan;
  result.pinf |= hull.pinf;
  result.ninf |= hull.ninf;
  // Otherwise no library leaves the mathematical limits of a bounded function.
  if (std::isfinite(left) && std::isfinite(right) && result.has_finite()) {
    const Range limits = from_bounds(dtype, std::min({left, right, hull.lo}), std::max({left, right, hull.hi}));
    result.lo = std::max(result.lo, limits.lo);
    result.hi = std::min(result.hi, limits.hi);
    if (dtype == DType::float32 && ulps > 0 && left < right) result = coarsened(dtype, result, left, right);
  }
  return result;
}

// ---- inputs of gates ---------------------------------------------------------------

// One of the operands W, R: sums of each row, or only its range.
struct RowSums {
  std::optional<WeightSums> known = {};
  Range range = {};
  double length = kManyElements;  // terms of a row
  bool exact_length = false;

  RowSums(RangeCall& call, std::size_t input) : range(call.hull(input)) {
    const AbsTensor& x = call.in(input);
    if (x.ranked && x.rank() == 3 && x.sizes[2] >= 0) {
      length = static_cast<double>(x.sizes[2]);
      exact_length = true;
    }
    const std::optional<Weights> weights = weights_of(call, input);
    if (!weights || weights->dims.size() != 3) return;
    const WeightAxis axes[] = {{weights->dims[0], false}, {weights->dims[1], false}, {weights->dims[2], true}};
    known = weight_sums(weights->data, axes);
  }
  void add(DotSum& sum, const Range& x, std::size_t row) const {
    if (known) add_weighted(sum, x, known->positive(0, row), known->negative(0, row), length, true);
    else add_products(sum, x, range, exact_length ? length : 0, length);
  }
};

struct Biases {
  std::vector<double> known = {};
  Range range = point(0);

  Biases(RangeCall& call, std::size_t input) {
    if (!call.has_range(input)) return;
    range = call.hull(input);
    const Tensor* tensor = call.value(input, 1 << 24);
    if (tensor != nullptr && tensor->dtype() == call.in(input).dtype) known = elements<double>(*tensor);
  }
  Range at(std::size_t i) const { return i < known.size() ? point(known[i]) : range; }
};

// ---- one layer -----------------------------------------------------------------------

class Layer {
 public:
  Layer(RangeCall& call, std::size_t gates, const std::vector<std::string>& activations)
      : call_(call), dtype_(call.in_dtype(0)), gates_(gates), x_(call.hull(0)), w_(call, 1), r_(call, 2), b_(call, 3) {
    const AbsTensor& r = call.in(2);
    if (r.ranked && r.rank() == 3) hidden_ = r.sizes[2];
    const RecurrentAttrs attrs = read_recurrent(call);
    directions_ = static_cast<std::size_t>(attrs.directions);
    functions_ = cell_activations(call, activations, directions_);
    const AbsTensor& x = call.in(0);
    if (x.ranked && x.rank() == 3) steps_ = x.sizes[attrs.batch_first ? 1 : 0];
    first_h_ = call.has_range(5) ? call.hull(5) : point(0);
    drop_misfits();
    for (std::size_t i = 0; i < call.input_count(); ++i) {
      if (!call.has_range(i) || i == 4) continue;
      const Range hull = call.hull(i);
      bad_ |= hull.nan || hull.pinf || hull.ninf;
    }
  }

  RangeCall& call() const { return call_; }
  DType dtype() const { return dtype_; }
  std::size_t directions() const { return directions_; }
  std::int64_t steps() const { return steps_; }  // -1: unknown
  const Range& first_h() const { return first_h_; }
  bool bad() const { return bad_; }  // an operand may be NaN or infinite
  bool may_stand_still() const { return call_.has_range(4) || steps_ <= 0; }

  // Input of a gate, every unit taken together: x W^T + h R^T + b, plus what peepholes add.
  Range input(std::size_t direction, std::size_t gate, const Range& h, const Range& extra = point(0)) {
    return settled(sum_of_rows(direction, gate, [&](DotSum& sum, std::size_t row) {
      w_.add(sum, x_, row);
      r_.add(sum, h, row);
      add_term(sum, w_bias(direction, gate, row));
      add_term(sum, r_bias(direction, gate, row));
      add_term(sum, extra);
    }));
  }
  // The two halves of it, each with its own bias.
  Range input_part(std::size_t direction, std::size_t gate) {
    return settled(sum_of_rows(direction, gate, [&](DotSum& sum, std::size_t row) {
      w_.add(sum, x_, row);
      add_term(sum, w_bias(direction, gate, row));
    }));
  }
  Range state_part(std::size_t direction, std::size_t gate, const Range& h) {
    return settled(sum_of_rows(direction, gate, [&](DotSum& sum, std::size_t row) {
      r_.add(sum, h, row);
      add_term(sum, r_bias(direction, gate, row));
    }));
  }

  Range activate(std::size_t direction, std::size_t which, const Range& x) const {
    const std::size_t per_direction = functions_.size() / directions_;
    const CellActivation& function = functions_[direction * per_direction + which];
    Range result = activated(function, dtype_, x, function.clip, call_.ulps());
    const bool unclipped = std::isfinite(function.clip) && call_.may(Way::clips_less);
    if (unclipped) result = join(result, activated(function, dtype_, x, kInf, call_.ulps()));
    const double most = unclipped ? x.hi : std::min(x.hi, function.clip);
    if (function.exponential && call_.may(Way::plain_softplus) && !(most < std::log(max_finite(dtype_)))) {
      result.pinf = true;
    }
    return result;
  }

  // Computed in the dtype or a wider format: a little outside the exact ends. Overflow is noted and left out.
  Range settled(Range range) {
    if (range.is_empty()) return range;
    if (!muted_) {
      seen_ = join(seen_, range);
      overflows_ |= range.pinf || range.ninf || range.nan;
    }
    if (!range.has_finite()) return any_finite(dtype_);
    range = range.finite();
    range.lo = std::max(next_down(dtype_, range.lo), lowest_finite(dtype_));
    range.hi = std::min(next_up(dtype_, range.hi), max_finite(dtype_));
    range.integer = range.nonzero = false;
    return range;
  }
  Range times(const Range& a, const Range& b) { return settled(multiply(dtype_, a, b)); }
  Range plus(const Range& a, const Range& b) { return settled(add(dtype_, a, b)); }

  // What is found on the way to the final bounds counts for nothing.
  void set_muted(bool muted) { muted_ = muted; }
  bool muted() const { return muted_; }
  void report() { call_.site("FN204", 0, seen_, overflows_); }

 private:
  // Rows are only told apart where all shapes fit together.
  void drop_misfits() {
    const std::size_t rows = directions_ * block();
    if (hidden_ < 0 || (w_.known && w_.known->columns != rows)) w_.known.reset();
    if (hidden_ < 0 || (r_.known && r_.known->columns != rows)) r_.known.reset();
    if (hidden_ < 0 || b_.known.size() != 2 * rows) b_.known.clear();
  }

  template <class F>
  Range sum_of_rows(std::size_t direction, std::size_t gate, F add_terms) const {
    DotSum result{.empty = true};
    const bool by_rows = hidden_ >= 0 && (w_.known || r_.known || !b_.known.empty());
    const std::size_t rows = by_rows ? static_cast<std::size_t>(hidden_) : 1;
    for (std::size_t unit = 0; unit < rows; ++unit) {
      DotSum sum;
      add_terms(sum, (direction * gates_ + gate) * rows + unit);
      result = join(result, sum);
    }
    return rounded(call_, dtype_, result, std::min(w_.length + r_.length + 4, kManyElements));
  }
  // B is [directions, 2 * gates * hidden]: all biases of W, then all of R. `row` counts W's rows over both directions.
  Range w_bias(std::size_t direction, std::size_t, std::size_t row) const { return b_.at(row + direction * block()); }
  Range r_bias(std::size_t direction, std::size_t, std::size_t row) const {
    return b_.at(row + direction * block() + block());
  }
  std::size_t block() const { return gates_ * static_cast<std::size_t>(std::max<std::int64_t>(hidden_, 0)); }

  RangeCall& call_;
  DType dtype_;
  std::size_t gates_;
  Range x_;
  RowSums w_, r_;
  Biases b_;
  std::int64_t hidden_ = -1;
  std::size_t directions_ = 1;
  std::vector<CellActivation> functions_;
  std::int64_t steps_ = -1;
  Range first_h_;
  bool bad_ = false;
  Range seen_ = {};
  bool overflows_ = false;
  bool muted_ = false;
};

// Runs f without recording what overflows in it.
template <class F>
auto muted(Layer& layer, F f) {
  const bool before = layer.muted();
  layer.set_muted(true);
  const auto result = f();
  layer.set_muted(before);
  return result;
}

struct StateRange {
  Range h = {};  // after a step
  Range c = {};  // LSTM
};

bool bounded(const Range& range, DType dtype) { return range.is_finite() && range.magnitude() < max_finite(dtype); }

// Steps until nothing changes, at most so many; nullopt when it still grows.
template <class Step>
std::optional<Range> iterate(const Range& first, std::int64_t steps, Step step) {
  constexpr std::int64_t kMost = 256;
  Range state = first, all = {};
  for (std::int64_t i = 0; i < kMost; ++i) {
    if (steps >= 0 && i >= steps) return all;
    const Range next = step(state);
    all = join(all, next);
    const Range wider = join(state, next);
    if (wider == state) return all;
    state = wider;
  }
  return std::nullopt;
}

// The hidden state after a step, from `step`, a function of the state before it.
template <class Step>
Range hidden_range(Layer& layer, Step step) {
  const Range limit = muted(layer, [&] { return step(any_finite(layer.dtype())); });
  if (bounded(limit, layer.dtype())) {
    // Whatever the state was, it is inside `limit` from then on.
    const Range once = muted(layer, [&] { return step(join(layer.first_h(), limit)); });
    return step(join(layer.first_h(), once));
  }
  if (const std::optional<Range> result = iterate(layer.first_h(), layer.steps(), step)) return *result;
  Range unbounded = any_finite(layer.dtype());
  unbounded.pinf = unbounded.ninf = unbounded.nan = true;
  return unbounded;
}

void give(RangeCall& call, std::size_t output, Range range, const Layer& layer) {
  if (layer.bad()) range = top(layer.dtype());
  call.out(output, range);
}

// Y has zeros behind the end of short sequences; Y_h is the first state where a sequence is empty.
void give_hidden(Layer& layer, const Range& h) {
  RangeCall& call = layer.call();
  layer.report();
  give(call, 0, call.has_range(4) && !h.is_empty() ? join(h, point(0)) : h, layer);
  give(call, 1, layer.may_stand_still() ? join(h, layer.first_h()) : h, layer);
}

}  // namespace

void range_rnn(RangeCall& call) {
  Layer layer(call, 1, {"Tanh"});
  const Range h = hidden_range(layer, [&](const Range& before) {
    Range after;
    for (std::size_t d = 0; d < layer.directions(); ++d) {
      after = join(after, layer.activate(d, 0, layer.input(d, 0, before)));
    }
    return after;
  });
  give_hidden(layer, h);
}

// ---- GRU ---------------------------------------------------------------------------

namespace {

constexpr std::size_t kUpdate = 0, kReset = 1, kCandidate = 2;

// How far n steps of (1 - z) * candidate + z * h can leave the candidates and the first state, per unit of the largest.
// A gate of 1 + e puts e times their distance on top in each step. A gate that stays below 1 forgets older roundings.
double mixing_error(const Layer& layer, const Range& z) {
  const double u = unit_roundoff(layer.dtype());
  const double steps = layer.steps() >= 0 ? static_cast<double>(layer.steps()) : kLongestUnknownSum;
  const double beyond = std::max(z.hi - 1, 0.0);
  if (beyond == 0) return (2 * steps + 4) * u;
  return std::expm1((steps + 1) * (2 * beyond + 4 * u));
}

// With z in [0, 1] it is a mean of candidates and of the first state, which the roundings of n steps leave by n units
// at most, and beyond -1 or 1 never: 1 - z and z add up to 1 exactly enough.
Range mixed(Layer& layer, const Range& z, const Range& candidate, const Range& h) {
  const double most = 1 + 2 * kSigmoidUnits * unit_roundoff(layer.dtype());
  if (!(z.is_finite() && z.lo >= 0 && z.hi <= most)) {
    const Range rest = layer.settled(subtract(layer.dtype(), point(1), z));
    return layer.plus(layer.times(rest, candidate), layer.times(z, h));
  }
  const Range hull = join(candidate, layer.first_h());
  if (!hull.has_finite()) return hull;
  const double error = hull.magnitude() * mixing_error(layer, z);
  Range result = from_bounds(layer.dtype(), hull.lo - error, hull.hi + error, 1);
  if (z.hi > 1 || !result.has_finite()) return result;
  if (hull.hi <= 1) result.hi = std::min(result.hi, 1.0);
  if (hull.lo >= -1) result.lo = std::max(result.lo, -1.0);
  return result;
}

Range gru_step(Layer& layer, std::size_t direction, const Range& before) {
  const bool linear_first = read_recurrent(layer.call()).linear_first;
  const Range z = layer.activate(direction, 0, layer.input(direction, kUpdate, before));
  const Range r = layer.activate(direction, 0, layer.input(direction, kReset, before));
  const Range from_state = linear_first ? layer.times(r, layer.state_part(direction, kCandidate, before))
                                        : layer.state_part(direction, kCandidate, layer.times(r, before));
  const Range candidate = layer.activate(direction, 1, layer.plus(layer.input_part(direction, kCandidate), from_state));
  return mixed(layer, z, candidate, before);
}

}  // namespace

void range_gru(RangeCall& call) {
  Layer layer(call, 3, {"Sigmoid", "Tanh"});
  const Range h = hidden_range(layer, [&](const Range& before) {
    Range after;
    for (std::size_t d = 0; d < layer.directions(); ++d) after = join(after, gru_step(layer, d, before));
    return after;
  });
  give_hidden(layer, h);
}

// ---- LSTM --------------------------------------------------------------------------

namespace {

constexpr std::size_t kInput = 0, kOutput = 1, kForget = 2, kCell = 3;

class Lstm {
 public:
  explicit Lstm(RangeCall& call)
      : layer_(call, 4, {"Sigmoid", "Tanh", "Tanh"}),
        first_c_(call.has_range(6) ? call.hull(6) : point(0)),
        peephole_(call.has_range(7) ? call.hull(7) : point(0)),
        coupled_(read_recurrent(call).coupled) {}

  void run() {
    RangeCall& call = layer_.call();
    const Range h = hidden_range(layer_, [&](const Range& before) { return step(before).h; });
    const Range c = h.is_finite() ? last_c_ : top(layer_.dtype());
    give_hidden(layer_, h);
    give(call, 2, layer_.may_stand_still() ? join(c, first_c_) : c, layer_);
  }

 private:
  // The state after any number of steps from hidden states in `before`.
  StateRange step(const Range& before) {
    StateRange after;
    for (std::size_t d = 0; d < layer_.directions(); ++d) {
      const Range c = cell_range(d, before);
      const Range o = gate(d, kOutput, before, c);
      const Range squashed = layer_.activate(d, 2, c);
      Range h = layer_.times(o, squashed);
      // Products of numbers of at most 1 do not pass 1.
      if (o.magnitude() <= 1 && squashed.magnitude() <= 1 && h.has_finite()) {
        h.lo = std::max(h.lo, -1.0);
        h.hi = std::min(h.hi, 1.0);
      }
      after.h = join(after.h, h);
      after.c = join(after.c, c);
    }
    last_c_ = after.c;
    return after;
  }

  Range gate(std::size_t direction, std::size_t which, const Range& h, const Range& c) {
    const Range peek = layer_.call().has_range(7) ? layer_.times(peephole_, c) : point(0);
    return layer_.activate(direction, 0, layer_.input(direction, which, h, peek));
  }

  // Peepholes make the gates depend on the cell: first whatever it is, then what follows from that.
  Range cell_range(std::size_t d, const Range& h) {
    if (!layer_.call().has_range(7)) return cell_range(d, h, point(0));
    const Range whatever = muted(layer_, [&] { return cell_range(d, h, any_finite(layer_.dtype())); });
    return cell_range(d, h, join(first_c_, whatever));
  }

  // c' = f * c + i * g over all steps, for gates that see a cell in `seen`.
  Range cell_range(std::size_t d, const Range& h, const Range& seen) {
    const Range g = layer_.activate(d, 1, layer_.input(d, kCell, h));
    const Range i = gate(d, kInput, h, seen);
    const Range f = coupled_ ? layer_.settled(subtract(layer_.dtype(), point(1), i)) : gate(d, kForget, h, seen);
    const Range added = layer_.times(i, g);
    const double beyond = 2 * kSigmoidUnits * unit_roundoff(layer_.dtype());
    if (f.lo >= -beyond && f.hi <= 1 + beyond) return growing(first_c_, f, added);
    const auto next = [&](const Range& c) { return layer_.plus(layer_.times(f, c), added); };
    if (const std::optional<Range> all = iterate(first_c_, layer_.steps(), next)) return *all;
    Range unbounded = any_finite(layer_.dtype());
    layer_.settled({.lo = unbounded.lo, .hi = unbounded.hi, .pinf = true, .ninf = true});
    return unbounded;
  }

  // A forget gate of at most about 1: every step adds at most `added`. Where the cell is so large that an addition is
  // less than half a unit of its last place, it grows no more, unless the gate passes 1.
  Range growing(const Range& first, const Range& forget, const Range& added) const {
    const DType dtype = layer_.dtype();
    const double u = unit_roundoff(dtype), most = forget.hi;
    const double steps = layer_.steps() >= 0 ? static_cast<double>(layer_.steps()) : kManyElements;
    const double growth = std::exp(std::min((4 * u + std::max(most - 1, 0.0)) * steps, 100.0));
    const auto limit = [&](double start, double step) {
      if (!(step > 0)) return most > 1 ? start * growth : start;
      double reached = (start + steps * step) * growth;
      if (most <= 1) reached = std::min(reached, std::max(start, 4 * step / u) * (1 + 4 * u));
      if (most < 1 - 8 * u) reached = std::min(reached, std::max(start, step / (1 - most)) * (1 + 8 * u / (1 - most)));
      return reached;
    };
    double hi = limit(std::max(first.hi, 0.0), added.hi), lo = -limit(std::max(-first.lo, 0.0), -added.lo);
    // A gate that is a little negative carries a little of one sign over to the other.
    const double carried = 2 * std::max(-forget.lo, 0.0) * std::max(hi, -lo) * steps;
    hi += carried;
    lo -= carried;
    return from_bounds(dtype, std::min(lo, 0.0), std::max(hi, 0.0), 2);
  }

  Layer layer_;
  Range first_c_;
  Range peephole_;
  bool coupled_;
  Range last_c_ = {};
};

}  // namespace

void range_lstm(RangeCall& call) { Lstm(call).run(); }

}  // namespace finity
