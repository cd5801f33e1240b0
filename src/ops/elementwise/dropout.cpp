// Dropout: the identity, except when it is told to train.
#include <algorithm>
#include <optional>
#include <random>

#include "base/error.h"
#include "ops/elementwise/dropout_attrs.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool trains(const EvalCall& call) {
  const std::optional<bool> stated = stated_training(call);
  return stated ? *stated : element_as_int(call.in(2), 0) != 0;
}

double ratio_of(const EvalCall& call) {
  const double ratio = call.has_input(1) ? element_as_double(call.in(1), 0) : call.real("ratio");
  if (!(ratio >= 0 && ratio < 1)) throw Error("ratio is " + std::to_string(ratio) + ", expected 0 <= ratio < 1");
  return ratio;
}

// Uniform in [0, 1). With a seed attribute the numbers are those of numpy's RandomState(seed), which the official
// tests were made with; without, those of the run's generator.
class Uniform {
 public:
  explicit Uniform(EvalCall& call) : rng_(call.rng()) {
    if (call.has_attr("seed")) seeded_.emplace(static_cast<std::uint32_t>(call.integer("seed")));
  }
  double operator()() {
    if (!seeded_) return rng_.uniform();
    const std::uint32_t high = (*seeded_)() >> 5;
    const std::uint32_t low = (*seeded_)() >> 6;
    return (static_cast<double>(high) * 0x1p26 + static_cast<double>(low)) * 0x1p-53;
  }

 private:
  Rng& rng_;
  std::optional<std::mt19937> seeded_;
};

DType mask_type(const Call& call, DType data) { return call.version() < 10 ? data : DType::boolean; }

void eval_dropout(EvalCall& call) {
  const Tensor& data = call.in(0);
  const double ratio = trains(call) ? ratio_of(call) : 0;
  std::vector<double> mask(static_cast<std::size_t>(data.size()), 1.0);
  if (ratio == 0) {
    call.out(0, data);
  } else {
    Uniform uniform(call);
    for (double& keep : mask) keep = uniform() >= ratio ? 1.0 : 0.0;
    std::vector<double> values = elements<double>(data);
    const double scale = 1.0 / (1.0 - ratio);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= mask[i] * scale;
    call.out(0, from_elements(data.dtype(), data.dims(), values));
  }
  if (call.has_output(1)) call.out(1, from_elements(mask_type(call, data.dtype()), data.dims(), mask));
}

void infer_dropout(InferCall& call) {
  infer_same_shape(call);
  if (call.output_count() < 2) return;
  call.set_dtype(1, mask_type(call, call.in(0).dtype));
  if (call.ranked(0)) call.set_shape(1, call.shape(0));
}

// ---- ranges ----------------------------------------------------------------

struct Training {
  bool possible = false;
  bool certain = false;
};

Training training_of(const RangeCall& call) {
  if (const std::optional<bool> stated = stated_training(call)) return {.possible = *stated, .certain = *stated};
  if (!call.has_range(2)) return {.possible = true};
  const Range mode = call.hull(2);
  return {.possible = mode.may_be_positive() || mode.may_be_negative(), .certain = !mode.may_be_zero()};
}

// What is kept grows by 1 / (1 - ratio), so a ratio of 1 divides by zero.
Range growth(RangeCall& call) {
  const bool by_input = call.has_range(1);
  const Range ratio = by_input ? call.hull(1) : point(call.real("ratio"));
  call.site("FN101", by_input ? 1 : -1, ratio, ratio.greatest() >= 1 || ratio.nan);
  const double limit = next_down(by_input ? call.in_dtype(1) : DType::float32, 1);
  const double least = ratio.has_finite() ? std::clamp(ratio.lo, 0.0, limit) : 0;
  const double most = ratio.has_finite() ? std::clamp(ratio.hi, least, limit) : limit;
  return from_bounds(DType::float64, 1 / (1 - least), 1 / (1 - most));
}

void range_dropout(RangeCall& call) {
  const Training training = training_of(call);
  const Range truth{.lo = training.possible ? 0.0 : 1.0, .hi = 1, .integer = true};
  if (call.has_output(1)) call.out(1, truth);
  if (!training.possible) return call.same(0, 0);
  const Range scale = growth(call);
  range_unary(call, [&](const Range& x, DType dtype) {
    if (x.is_empty()) return x;
    // Times the mask, 0 or 1, and the scale, which other libraries round first.
    const Range kept = multiply(dtype, x, scale);
    Range y = join(kept, multiply(dtype, x, point(0)));
    if (y.has_finite()) {
      const Range wide = from_bounds(dtype, y.lo, y.hi, 2);
      y = {.lo = wide.lo, .hi = wide.hi, .nan = y.nan, .pinf = y.pinf, .ninf = y.ninf};
    }
    return training.certain ? y : join(y, x);
  });
}

// ---- gradient --------------------------------------------------------------

// nullopt: it depends on data.
std::optional<bool> known_training(const BuildCall& call) {
  if (const std::optional<bool> stated = stated_training(call)) return stated;
  if (const Tensor* mode = call.known(call.in(2))) return element_as_int(*mode, 0) != 0;
  return std::nullopt;
}

// Without a mask the result shows what was dropped, except where the operand is 0: that is taken to be kept.
ValueId kept_elements(BuildCall& call) {
  if (call.has_output(1)) return call.cast(call.out(1), DType::boolean);
  const ValueId zero = call.scalar(0);
  const ValueId vanished = call.add("Equal", {call.out(0), zero});
  const ValueId was_there = call.add("Not", {call.add("Equal", {call.in(0), zero})});
  return call.add("Not", {call.add("And", {vanished, was_there})});
}

void dropout_gradient(BuildCall& call) {
  const std::optional<bool> training = known_training(call);
  if (training == false) return call.give(0, call.grad(0));
  const ValueId ratio = call.has_input(1) ? call.cast(call.in(1), call.dtype()) : call.scalar(call.real("ratio"));
  const ValueId rest = call.difference(call.scalar(1), ratio), zero = call.scalar(0);
  const auto when_training = [&](ValueId trained, ValueId otherwise) {
    return training ? trained : call.add("Where", {call.in(2), trained, otherwise});
  };
  const ValueId scaled = call.add("Where", {kept_elements(call), call.quotient(call.grad(0), rest), zero});
  call.give(0, when_training(scaled, call.grad(0)));
  if (!call.wanted(1)) return;
  const ValueId growth = call.quotient(call.product(call.grad(0), call.out(0)), rest);
  call.give(1, call.cast(when_training(growth, zero), call.in_type(1).dtype));
}

const OpDef kOps[] = {
    {.identity =
         {.name = "Dropout",
          .summary =
              "the input itself; in training each element is zeroed with probability ratio and the rest scaled up",
          .signature = "(data: T, ratio?: R since 12, training_mode?: bool since 12) -> (output: T, mask?: any) "
                       "where T: float | float8, R: float | float8",
          .attrs = "ratio: float = 0.5 until 11; seed: int since 12; is_test: int = 0 until 6; "
                   "consumed_inputs: ints until 5"},
     .meaning =
         {.infer = infer_dropout,
          .eval = eval_dropout,
          .freedom =
              "opsets 7 to 11 never train; with a seed the mask is numpy's RandomState(seed).uniform() >= ratio"},
     .analysis = {.range = range_dropout,
                  .vjp = dropout_gradient,
                  .hazards = dropout_hazards(),
                  .grants = {.narrow_kernels = true}},
     .traits = {.random = true},
     .drawing = {.results = 1, .often = 1}},
};

}  // namespace

std::span<const OpDef> dropout_ops() { return kOps; }

}  // namespace finity
