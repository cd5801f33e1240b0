// Random tensors. Values differ between runtimes by nature; ours depend on the
// node's seed attribute alone when it has one, else on the seed of the run.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kRandomFreedom =
    "xoshiro256**; with a seed attribute always the same values, which are not those of other runtimes";
constexpr std::string_view kNormalFreedom =
    "xoshiro256**, Box-Muller; with a seed attribute always the same values, which are not those of other runtimes; "
    "values farther than 9 scale from the mean are taken to be impossible: 53 random bits reach 8.6";
// Of the standard normal distribution.
constexpr double kFarthest = 9;

// Runs `draw` with the generator the node asks for.
template <class Draw>
void with_rng(EvalCall& call, Draw draw) {
  if (!call.has_attr("seed")) {
    draw(call.rng());
    return;
  }
  Rng own(std::bit_cast<std::uint32_t>(static_cast<float>(call.real("seed"))));
  draw(own);
}

DType dtype_attr(const Call& call, DType fallback) {
  const std::int64_t code = call.integer("dtype", static_cast<std::int64_t>(fallback));
  const auto dtype = dtype_from_code(code);
  if (!dtype) throw Error("attribute 'dtype' is " + std::to_string(code) + ", not a dtype");
  return *dtype;
}

DType float_dtype(const Call& call, DType fallback) {
  const DType dtype = dtype_attr(call, fallback);
  if (!is_float(dtype) || info(dtype).bits < 16) throw Error("dtype " + std::string(name(dtype)) + " is not a float");
  return dtype;
}

// ---- normal and uniform ------------------------------------------------------

Dims shape_attr(const Call& call) {
  if (!call.has_attr("shape")) throw Error("attribute 'shape' is missing");
  Dims dims = call.integers("shape");
  element_count(dims);  // refuses negative sizes
  return dims;
}

void infer_shape_attr(InferCall& call) {
  call.set_dtype(0, float_dtype(call, DType::float32));
  call.set_shape(0, Type::tensor_of(DType::undefined, shape_attr(call)).shape);
}

void infer_like(InferCall& call) {
  const DType own = call.in(0).dtype;
  if (call.has_attr("dtype") || own != DType::undefined) call.set_dtype(0, float_dtype(call, own));
  infer_same_shape(call);
}

auto normal_drawer(const Call& call) {
  return [mean = call.real("mean"), scale = call.real("scale")](Rng& rng) { return mean + scale * rng.normal(); };
}

auto uniform_drawer(const Call& call) {
  return [low = call.real("low"), high = call.real("high")](Rng& rng) { return rng.uniform(low, high); };
}

template <class Draw>
void fill(EvalCall& call, DType dtype, const Dims& dims, Draw draw) {
  const Tensor shape(dtype, dims);  // refuses what is too large
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  with_rng(call, [&](Rng& rng) {
    for (double& value : values) value = draw(rng);
  });
  call.out(0, from_elements<double>(dtype, dims, values));
}

void eval_random_normal(EvalCall& call) {
  fill(call, float_dtype(call, DType::float32), shape_attr(call), normal_drawer(call));
}

void eval_random_normal_like(EvalCall& call) {
  fill(call, float_dtype(call, call.in(0).dtype()), call.in(0).dims(), normal_drawer(call));
}

void eval_random_uniform(EvalCall& call) {
  fill(call, float_dtype(call, DType::float32), shape_attr(call), uniform_drawer(call));
}

void eval_random_uniform_like(EvalCall& call) {
  fill(call, float_dtype(call, call.in(0).dtype()), call.in(0).dims(), uniform_drawer(call));
}

// ---- finity's own ------------------------------------------------------------

constexpr double kCut = 2;  // TensorFlow draws again what is not within two deviations

void eval_truncated_normal(EvalCall& call) {
  const DType dtype = float_dtype(call, DType::float32);
  fill(call, dtype, call.in(0).dims(), [dtype](Rng& rng) {
    double value = rng.normal();
    while (!(std::abs(round_to(dtype, value)) < kCut)) value = rng.normal();
    return value;
  });
}

void infer_truncated_normal(InferCall& call) {
  call.set_dtype(0, float_dtype(call, DType::float32));
  infer_same_shape(call);
}

std::int64_t one_integer(const EvalCall& call, std::size_t input) {
  if (call.in(input).size() != 1) throw Error("input " + std::to_string(input) + " is not one number");
  return elements<std::int64_t>(call.in(input))[0];
}

void eval_random_integers(EvalCall& call) {
  const std::int64_t low = one_integer(call, 1), high = one_integer(call, 2);
  if (low >= high) throw Error("low " + std::to_string(low) + " is not below high " + std::to_string(high));
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const Tensor shape(call.in(1).dtype(), call.in(0).dims());
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.size()));
  with_rng(call, [&](Rng& rng) {
    for (std::int64_t& value : values)
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + rng.below(count));
  });
  call.out(0, from_elements<std::int64_t>(shape.dtype(), shape.dims(), values));
}

// ---- Bernoulli ---------------------------------------------------------------

void infer_bernoulli(InferCall& call) {
  const DType dtype = dtype_attr(call, call.in(0).dtype);
  if (dtype != DType::undefined) call.set_dtype(0, dtype);
  infer_same_shape(call);
}

void eval_bernoulli(EvalCall& call) {
  const Tensor& input = call.in(0);
  std::vector<double> values = elements<double>(input);
  with_rng(call, [&](Rng& rng) {
    for (double& value : values) value = rng.uniform() < value ? 1.0 : 0.0;
  });
  call.out(0, from_elements<double>(dtype_attr(call, input.dtype()), input.dims(), values));
}

// ---- Multinomial -------------------------------------------------------------

DType index_dtype(const Call& call) {
  const DType dtype = dtype_attr(call, DType::int32);
  if (dtype != DType::int32 && dtype != DType::int64) throw Error("attribute 'dtype' must be int32 or int64");
  return dtype;
}

std::int64_t sample_size(const Call& call) {
  const std::int64_t size = call.integer("sample_size");
  if (size < 0) throw Error("sample_size is " + std::to_string(size));
  return size;
}

void infer_multinomial(InferCall& call) {
  require_rank(call, 0, 2);
  call.set_dtype(0, index_dtype(call));
  const Dim batch = call.ranked(0) ? call.shape(0)[0] : Dim{};
  call.set_shape(0, {batch, Dim::of(sample_size(call))});
}

// Running sums of the weights of the outcomes, from unnormalised logarithms. NaN has no weight.
std::vector<double> cumulative_weights(std::span<const double> logits) {
  double most = -INFINITY;
  for (const double logit : logits) most = std::fmax(most, logit);
  std::vector<double> sums;
  double sum = 0.0;
  for (const double logit : logits) {
    // An infinite maximum takes everything; when all are -Inf, none has any weight.
    const double weight = std::isinf(most) ? (logit == most && most > 0 ? 1.0 : 0.0) : std::exp(logit - most);
    sum += std::isnan(weight) ? 0.0 : weight;
    sums.push_back(sum);
  }
  return sums;
}

std::int64_t draw_outcome(const std::vector<double>& sums, Rng& rng) {
  const double mark = rng.uniform() * sums.back();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (mark < sums[i]) return static_cast<std::int64_t>(i);
  }
  return 0;  // no outcome has any weight
}

void eval_multinomial(EvalCall& call) {
  const Tensor& input = call.in(0);
  require_rank(input, "input", 2);
  const auto classes = static_cast<std::size_t>(input.dim(1));
  if (classes == 0) throw Error("there are no outcomes to draw from");
  const Tensor shape(index_dtype(call), {input.dim(0), sample_size(call)});
  const std::vector<double> logits = elements<double>(input);
  std::vector<std::int64_t> outcomes;
  outcomes.reserve(static_cast<std::size_t>(shape.size()));
  with_rng(call, [&](Rng& rng) {
    for (std::size_t row = 0; row < logits.size(); row += classes) {
      const std::vector<double> sums = cumulative_weights(std::span(logits).subspan(row, classes));
      for (std::int64_t i = 0; i < shape.dim(1); ++i) outcomes.push_back(draw_outcome(sums, rng));
    }
  });
  call.out(0, from_elements<std::int64_t>(shape.dtype(), shape.dims(), outcomes));
}

// ---- ranges ----------------------------------------------------------------

void range_normal(RangeCall& call) {
  const double mean = call.real("mean");
  const double reach = kFarthest * std::abs(call.real("scale"));
  call.out(0, from_bounds(call.out_dtype(0), mean - reach, mean + reach));
}

// Both ends are possible: the upper one by rounding.
void range_uniform(RangeCall& call) {
  const double low = call.real("low");
  const double high = call.real("high");
  if (!std::isfinite(high - low)) return call.top(0);
  call.out(0, from_bounds(call.out_dtype(0), std::min(low, high), std::max(low, high)));
}

void range_truncated_normal(RangeCall& call) {
  const double most = next_down(call.out_dtype(0), kCut);
  call.out(0, from_bounds(call.out_dtype(0), -most, most));
}

void range_random_integers(RangeCall& call) {
  const Range low = call.hull(1), high = call.hull(2);
  if (!low.has_finite() || !high.has_finite() || !(low.lo < high.hi)) return call.top(0);
  call.out(0, from_bounds(call.out_dtype(0), low.lo, std::max(low.lo, high.hi - 1)));
}

void range_bernoulli(RangeCall& call) {
  range_unary(call, [](const Range& p, DType) {
    if (p.is_empty()) return Range{};
    // What is no probability may mean either.
    const bool odd = p.nan || p.least() < 0 || p.greatest() > 1;
    const bool sometimes = odd || p.may_be_positive();
    const bool always = !odd && p.least() >= 1;
    return Range{.lo = always ? 1.0 : 0.0, .hi = sometimes ? 1.0 : 0.0, .integer = true};
  });
}

void range_multinomial(RangeCall& call) {
  const Type& type = call.in_type(0);
  const bool known = type.ranked && type.shape.size() == 2 && type.shape[1].known();
  const double last = known ? static_cast<double>(type.shape[1].size) - 1 : max_finite(call.out_dtype(0));
  call.out(0, from_bounds(call.out_dtype(0), 0, std::max(last, 0.0)));
}

const OpDef kOps[] = {
    {.identity = {.name = "RandomNormal",
                  .summary = "normally distributed values",
                  .signature = "() -> (output: T) where T: float",
                  .attrs = "dtype: int = 1; mean: float = 0; scale: float = 1; seed: float; shape: ints",
                  .tf = "RandomStandardNormal"},
     .meaning = {.infer = infer_shape_attr, .eval = eval_random_normal, .freedom = kNormalFreedom},
     .analysis = {.range = range_normal, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "RandomNormalLike",
                  .summary = "normally distributed values in the shape of the input",
                  .signature = "(input: any) -> (output: T) where T: float",
                  .attrs = "dtype: int; mean: float = 0; scale: float = 1; seed: float"},
     .meaning = {.infer = infer_like, .eval = eval_random_normal_like, .freedom = kNormalFreedom},
     .analysis = {.range = range_normal, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "RandomUniform",
                  .summary = "uniformly distributed values",
                  .signature = "() -> (output: T) where T: float",
                  .attrs = "dtype: int = 1; low: float = 0; high: float = 1; seed: float; shape: ints",
                  .tf = "RandomUniform"},
     .meaning = {.infer = infer_shape_attr, .eval = eval_random_uniform, .freedom = kRandomFreedom},
     .analysis = {.range = range_uniform, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "RandomUniformLike",
                  .summary = "uniformly distributed values in the shape of the input",
                  .signature = "(input: any) -> (output: T) where T: float",
                  .attrs = "dtype: int; low: float = 0; high: float = 1; seed: float"},
     .meaning = {.infer = infer_like, .eval = eval_random_uniform_like, .freedom = kRandomFreedom},
     .analysis = {.range = range_uniform, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "TruncatedNormalLike",
                  .domain = "finity",
                  .summary = "normally distributed values within two deviations, in the shape of the input",
                  .signature = "(input: any) -> (output: T) where T: float",
                  .attrs = "dtype: int = 1; seed: float",
                  .tf = "TruncatedNormal"},
     .meaning = {.infer = infer_truncated_normal, .eval = eval_truncated_normal, .freedom = kNormalFreedom},
     .analysis = {.range = range_truncated_normal, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "RandomIntegersLike",
                  .domain = "finity",
                  .summary = "integers from low up to, and without, high in the shape of the input",
                  .signature = "(input: any, low: T, high: T) -> (output: T) where T: int32 | int64",
                  .attrs = "seed: float",
                  .tf = "RandomUniformInt"},
     .meaning = {.infer = infer_same_shape, .eval = eval_random_integers, .freedom = kRandomFreedom},
     .analysis = {.range = range_random_integers, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "Bernoulli",
                  .since = 15,
                  .summary = "1 with the given probability, else 0",
                  .signature = "(input: float) -> (output: T) where T: number|bool",
                  .attrs = "dtype: int; seed: float"},
     .meaning = {.infer = infer_bernoulli, .eval = eval_bernoulli, .freedom = kRandomFreedom},
     .analysis = {.range = range_bernoulli, .vjp = flat},
     .traits = {.random = true}},
    {.identity = {.name = "Multinomial",
                  .since = 7,
                  .summary = "outcomes drawn by their unnormalised log-probabilities",
                  .signature = "(input: float) -> (output: T) where T: int32|int64",
                  .attrs = "dtype: int = 6; sample_size: int = 1; seed: float",
                  .tf = "Multinomial"},
     .meaning = {.infer = infer_multinomial,
                 .eval = eval_multinomial,
                 .freedom = "a NaN weight counts as 0; without any weight the outcome is 0"},
     .analysis = {.range = range_multinomial, .vjp = flat},
     .traits = {.random = true}},
};

}  // namespace

std::span<const OpDef> random_ops() { return kOps; }

}  // namespace finity
