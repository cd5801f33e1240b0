// Dropout: the identity, except when it is told to train.
#include <optional>
#include <random>

#include "base/error.h"
#include "ops/families.h"
#include "ops/rules.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Up to opset 6 an attribute says that it does not train, from 12 on an input says that it does; in between it never
// does.
bool trains(const EvalCall& call) {
  if (call.version() < 7) return call.integer("is_test") == 0;
  return call.has_input(2) && element_as_int(call.in(2), 0) != 0;
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

const OpDef kOps[] = {
    {.name = "Dropout",
     .summary = "the input itself; in training each element is zeroed with probability ratio and the rest scaled up",
     .signature = "(data: T, ratio?: R, training_mode?: bool) -> (output: T, mask?: any) where T: float | float8, "
                  "R: float | float8",
     .attrs = "ratio: float = 0.5; seed: int; is_test: int = 0; consumed_inputs: ints",
     .freedom = "opsets 7 to 11 never train; with a seed the mask is numpy's RandomState(seed).uniform() >= ratio",
     .random = true,
     .infer = infer_dropout,
     .eval = eval_dropout},
};

}  // namespace

std::span<const OpDef> dropout_ops() { return kOps; }

}  // namespace finity
