// Activation functions: computed in double from the formula of the specification and rounded once. Forms that
// cancel or overflow are replaced by equal ones that do not.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/elementwise/activation_gradient.h"
#include "ops/elementwise/activation_rules.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared/extremes.h"
#include "ops/shared/function_range.h"
#include "ops/shared/lengths.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

constexpr std::string_view kFloatToFloat = "(X: T) -> (Y: T) where T: float";
constexpr std::string_view kConsumed = "consumed_inputs: ints until 5";

double sigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0 : e) / (1.0 + e);
}

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + Larger{}(x, 0.0); }
double softsign(double x) { return x / (1.0 + std::abs(x)); }
double mish(double x) { return x * std::tanh(softplus(x)); }
double hard_sigmoid(double x, double alpha, double beta) { return Larger{}(0.0, Smaller{}(1.0, alpha * x + beta)); }
double hard_swish(double x) { return x * hard_sigmoid(x, 1.0 / 6.0, 0.5); }
double swish(double x, double alpha) { return x * sigmoid(alpha * x); }

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }
double gelu_by_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

// y = f(x) for a float tensor, f a function object of double.
template <class F>
void eval_float(EvalCall& call, F f) {
  const Tensor& x = call.in(0);
  if (!is_float(x.dtype())) throw Error("expected a float tensor, got " + std::string(name(x.dtype())));
  std::vector<double> values = elements<double>(x);
  for (double& value : values) value = f(value);
  call.out(0, from_elements<double>(x.dtype(), x.dims(), values));
}

void eval_elu(EvalCall& call) {
  eval_float(call, [alpha = call.real("alpha")](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

void eval_celu(EvalCall& call) {
  eval_float(call, [alpha = call.real("alpha")](double x) {
    return Larger{}(0.0, x) + Smaller{}(0.0, alpha * std::expm1(x / alpha));
  });
}

void eval_selu(EvalCall& call) {
  const double alpha = selu_alpha(call);
  const double gamma = selu_gamma(call);
  eval_float(call, [=](double x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

void eval_gelu(EvalCall& call) { eval_float(call, call.text("approximate") == "tanh" ? gelu_by_tanh : gelu); }

void eval_hard_sigmoid(EvalCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  eval_float(call, [=](double x) { return hard_sigmoid(x, alpha, beta); });
}

void eval_leaky_relu(EvalCall& call) {
  eval_float(call, [alpha = call.real("alpha")](double x) { return x < 0 ? alpha * x : x; });
}

void eval_thresholded_relu(EvalCall& call) {
  eval_float(call, [alpha = call.real("alpha")](double x) { return x > alpha ? x : 0.0; });
}

void eval_swish(EvalCall& call) {
  eval_float(call, [alpha = call.real("alpha")](double x) { return swish(x, alpha); });
}

void eval_relu(EvalCall& call) {
  call.out(0, map_unary(call.in(0), call.in(0).dtype(), []<class C>(C x) { return Larger{}(C{}, x); }));
}

// Integers too: computed in double and truncated.
void eval_shrink(EvalCall& call) {
  const double bias = call.real("bias");
  const double limit = call.real("lambd");
  const auto shrunk = [=](auto element) {
    const auto x = static_cast<double>(element);
    if (x < -limit) return x + bias;
    return x > limit ? x - bias : 0.0;
  };
  call.out(0, map_unary(call.in(0), call.in(0).dtype(), shrunk));
}

// ---- two operands ----------------------------------------------------------

void infer_swiglu(InferCall& call) {
  infer_same_shape(call);
  if (!call.ranked(0) || !call.ranked(1)) return;
  bool conflict = call.rank(0) != call.rank(1);
  const Type both = merge(call.in(0), call.in(1), &conflict);
  if (conflict) throw Error("inputs A and B differ in shape");
  call.set_shape(0, both.shape);
}

void eval_swiglu(EvalCall& call) {
  if (call.in(0).dims() != call.in(1).dims()) {
    throw Error("inputs A and B have shapes " + to_string(call.in(0).dims()) + " and " + to_string(call.in(1).dims()));
  }
  const double alpha = call.real("alpha");
  const auto gated = [=](auto a, auto b) { return swish(static_cast<double>(a), alpha) * static_cast<double>(b); };
  call.out(0, map_binary(call.in(0), call.in(1), call.in(0).dtype(), gated));
}

struct Leaky {
  double operator()(double x, double slope) const { return x < 0 ? slope * x : x; }
  std::uint64_t operator()(std::uint64_t x, std::uint64_t) const { return x; }
  std::int64_t operator()(std::int64_t x, std::int64_t slope) const {
    return x < 0 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(slope) * static_cast<std::uint64_t>(x)) : x;
  }
};

// Before opset 7 a slope of several elements is one per channel, the second axis of x.
Tensor aligned_slope(const EvalCall& call) {
  const Tensor& x = call.in(0);
  const Tensor& slope = call.in(1);
  if (slope.size() == 1) return slope.reshaped({});
  if (call.version() >= 7 || slope.rank() != 1 || x.rank() < 2) return slope;
  Dims dims(x.rank() - 1, 1);
  dims[0] = slope.size();
  return slope.reshaped(std::move(dims));
}

void infer_prelu(InferCall& call) {
  infer_same_shape(call);
  if (call.version() >= 7 && call.ranked(0) && call.ranked(1)) broadcast(call.shape(0), call.shape(1));
}

void eval_prelu(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Tensor slope = aligned_slope(call);
  if (slope.rank() > x.rank() || broadcast(x.dims(), slope.dims()) != x.dims()) {
    throw Error("slope of shape " + to_string(slope.dims()) + " does not broadcast to " + to_string(x.dims()));
  }
  call.out(0, map_binary(x, slope, x.dtype(), Leaky{}));
}

// ---- ranges ----------------------------------------------------------------

// An op that rises for nonnegative attributes only carries the relations of rows for those.
Monotone rises_if(bool condition) { return condition ? Monotone::increasing : Monotone::no; }

void range_relu(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const auto nowhere_negative = [](const Range& r) { return !r.may_be_negative() && !r.nan; };
  if (std::ranges::all_of(x.cells, nowhere_negative)) return call.same(0, 0);
  const auto of_range = [&](const Range& r) { return relu_of(x.dtype, r); };
  AbsTensor result = map_cells(x, x.dtype, of_range);
  result.relations = mapped(x.relations, Monotone::increasing, of_range);
  std::ranges::copy(positive_part_relations(x), std::back_inserter(result.relations));
  if (is_float(x.dtype) && call.settings().affine) {
    result.forms = mapped_forms(x, [&](const Form& form, std::size_t cell) {
      if (nowhere_negative(x.cells[cell])) return form;
      return x.cells[cell].hi <= 0 ? constant_form(0) : positive_part(form, call.symbols());
    });
  }
  call.out(0, std::move(result));
}

void range_leaky_relu(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_mapped(call, rises_if(alpha >= 0),
               [&](const Range& x, DType dtype) { return leaky_relu_of(dtype, x, attribute_range(dtype, alpha)); });
}

void range_thresholded_relu(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_mapped(call, rises_if(alpha >= 0),
               [&](const Range& x, DType dtype) { return thresholded_relu_of(dtype, x, alpha); });
}

void range_elu(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_mapped(call, rises_if(alpha >= 0),
               [&](const Range& x, DType dtype) { return elu_of(dtype, x, alpha, call.ulps()); });
}

void range_celu(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_mapped(call, rises_if(alpha > 0),
               [&](const Range& x, DType dtype) { return celu_of(dtype, x, alpha, call.ulps()); });
}

void range_selu(RangeCall& call) {
  const double alpha = selu_alpha(call);
  const double gamma = selu_gamma(call);
  range_mapped(call, rises_if(alpha >= 0 && gamma >= 0),
               [&](const Range& x, DType dtype) { return selu_of(dtype, x, alpha, gamma, call.ulps()); });
}

void range_hard_sigmoid(RangeCall& call) {
  const double alpha = call.real("alpha");
  const double beta = call.real("beta");
  range_mapped(call, rises_if(alpha >= 0),
               [&](const Range& x, DType dtype) { return hard_sigmoid_of(dtype, x, alpha, beta); });
}

void range_gelu(RangeCall& call) {
  const auto f = call.text("approximate") == "tanh" ? gelu_by_tanh_of : gelu_of;
  range_mapped(call, Monotone::no, [&](const Range& x, DType dtype) { return f(dtype, x, call.ulps()); });
}

void range_swiglu(RangeCall& call) {
  const double alpha = call.real("alpha");
  range_binary(call, [&](const Range& a, const Range& b, DType dtype) {
    return multiply(dtype, swish_of(dtype, a, alpha, call.ulps()), b);
  });
}

void range_shrink(RangeCall& call) {
  const double bias = call.real("bias");
  const double limit = call.real("lambd");
  range_mapped(call, Monotone::no, [&](const Range& x, DType dtype) { return shrink_of(dtype, x, bias, limit); });
}

void range_prelu(RangeCall& call) {
  // One slope per channel: the grids align only in the newer opsets.
  if (call.version() < 7) {
    const Range slope = call.hull(1);
    return range_unary(call, [&](const Range& x, DType dtype) { return leaky_relu_of(dtype, x, slope); });
  }
  range_binary(call, [](const Range& x, const Range& slope, DType dtype) { return leaky_relu_of(dtype, x, slope); });
}

// ---- drawing ---------------------------------------------------------------

// The slope is repeated to the shape of x, never the other way.
bool draw_prelu(DrawCall& call) {
  Dims slope = call.broadcastable(call.dims());
  if (slope.size() > call.dims().size()) slope = {};
  call.add_floats(slope);
  return true;
}

// Whether 1/6 is a float in doubles is not said.
bool hard_swish_means(DType dtype, int /*opset*/) { return dtype != DType::float64; }

const OpDef kOps[] = {
    {.identity = {.name = "Relu",
                  .summary = "max(0, x)",
                  .signature = "(X: T) -> (Y: T) where T: float | int8 | int16 | int32 | int64",
                  .attrs = kConsumed,
                  .tf = "Relu"},
     .meaning =
         {.infer = infer_same_shape, .eval = eval_relu, .freedom = "NaN stays NaN", .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_relu, .length = length_not_larger, .vjp = gradients<"X: Where(Greater(X, 0), dY, 0)">},
     .traits = {.exact = true, .elementwise = true, .elements = ElementSource::bounded, .order = OrderKind::floored},
     .drawing = {.often = 1}},
    {.identity = {.name = "LeakyRelu",
                  .summary = "x, times alpha below zero",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 0.01; consumed_inputs: ints until 5",
                  .tf = "LeakyRelu"},
     .meaning = {.infer = infer_same_shape, .eval = eval_leaky_relu},
     .analysis = {.range = range_leaky_relu,
                  .length = length_leaky,
                  .vjp = gradients<"X: Where(Greater(X, 0), dY, Mul(alpha, dY))">},
     .traits = {.exact = true, .elementwise = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "PRelu",
                  .summary = "x, times a learned slope below zero",
                  .signature = "(X: T, slope: T) -> (Y: T) where T: float | uint32 | uint64 | int32 | int64",
                  .attrs = kConsumed},
     .meaning = {.infer = infer_prelu, .eval = eval_prelu},
     .analysis = {.range = range_prelu, .length = length_prelu, .vjp = prelu_gradient},
     .traits = {.exact = true},
     .drawing = {.operands = draw_prelu}},
    {.identity = {.name = "ThresholdedRelu",
                  .summary = "x above alpha, else 0",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 1.0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_thresholded_relu, .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_thresholded_relu,
                  .length = length_not_larger,
                  .vjp = gradients<"X: Where(Greater(X, alpha), dY, 0)">},
     .traits = {.exact = true, .elementwise = true}},
    {.identity = {.name = "Elu",
                  .summary = "x, and alpha * (exp(x) - 1) below zero",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 1.0; consumed_inputs: ints until 5",
                  .tf = "Elu"},
     .meaning = {.infer = infer_same_shape, .eval = eval_elu, .freedom = "exp(x) - 1 without cancellation"},
     .analysis = {.range = range_elu,
                  .length = length_leaky,
                  .vjp = gradients<"X: Where(Greater(X, 0), dY, Mul(dY, Add(Y, alpha)))">},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Celu",
                  .since = 12,
                  .summary = "max(0, x) + min(0, alpha * (exp(x / alpha) - 1))",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 1.0"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_celu,
                 .freedom = "exp(x) - 1 without cancellation; rounds once",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_celu, .vjp = gradients<"X: Where(Greater(X, 0), dY, Mul(dY, Exp(Div(X, alpha))))">},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Selu",
                  .summary = "gamma * x, and gamma * alpha * (exp(x) - 1) up to zero",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float; gamma: float; consumed_inputs: ints until 5",
                  .tf = "Selu"},
     .meaning = {.infer = infer_same_shape, .eval = eval_selu, .freedom = "exp(x) - 1 without cancellation"},
     .analysis = {.range = range_selu, .length = length_selu, .vjp = selu_gradient},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Sigmoid",
                  .summary = "1 / (1 + exp(-x))",
                  .signature = kFloatToFloat,
                  .attrs = kConsumed,
                  .tf = "Sigmoid"},
     .meaning = {.infer = infer_same_shape, .eval = eval_float_unary<sigmoid>},
     .analysis = {.range = range_rising<sigmoid_of>,
                  .vjp = gradients<"X: Mul(dY, Mul(Y, Sub(1, Y)))">,
                  .grants = kSigmoid},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "HardSigmoid",
                  .summary = "alpha * x + beta limited to [0, 1]",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 0.2; beta: float = 0.5; consumed_inputs: ints until 5"},
     .meaning = {.infer = infer_same_shape, .eval = eval_hard_sigmoid, .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_hard_sigmoid,
                  .vjp = gradients<"X: Where(And(Greater(Y, 0), Less(Y, 1)), Mul(alpha, dY), 0)">},
     .traits = {.elementwise = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "HardSwish",
                  .since = 14,
                  .summary = "x times x / 6 + 1 / 2 limited to [0, 1]",
                  .signature = kFloatToFloat},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_float_unary<hard_swish>,
                 .freedom = "rounds once",
                 .not_finite = NotFinite::open},
     .analysis =
         {.range = range_elementwise<hard_swish_of>,
          .length = length_not_larger,
          .vjp = gradients<"X: Where(Less(Abs(X), 3), Mul(dY, Add(Div(X, 3), 0.5)), Where(Greater(X, 0), dY, 0))">},
     .traits = {.elementwise = true},
     .drawing = {.means = hard_swish_means}},
    {.identity = {.name = "Swish",
                  .since = 24,
                  .summary = "x * sigmoid(alpha * x)",
                  .signature = kFloatToFloat,
                  .attrs = "alpha: float = 1.0"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_swish,
                 .freedom = "rounds once",
                 .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_swish, .length = length_not_larger, .vjp = swish_gradient},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "SwiGLU",
                  .since = 28,
                  .summary = "swish of a gate times a value",
                  .signature = "(A: T, B: T) -> (Y: T) where T: float",
                  .attrs = "alpha: float = 1.0"},
     .meaning = {.infer = infer_swiglu,
                 .eval = eval_swiglu,
                 .freedom = "rounds once",
                 .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_swiglu, .vjp = swiglu_gradient},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Softplus", .summary = "log(1 + exp(x))", .signature = kFloatToFloat, .tf = "Softplus"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_float_unary<softplus>,
                 .freedom = "does not overflow: max(x, 0) + log1p(exp(-|x|))"},
     .analysis = {.range = range_softplus,
                  .vjp = gradients<"X: Mul(dY, Sigmoid(X))">,
                  .overflow = "FN201",
                  .grants = {.specified = kCoarse.specified,
                             .ways = {Way::plain_softplus},
                             .measured_on = kOnnxRuntime}},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Softsign", .summary = "x / (1 + |x|)", .signature = kFloatToFloat, .tf = "Softsign"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_float_unary<softsign>,
                 .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_rising<softsign_of>,
                  .length = length_not_larger,
                  .vjp = gradients<"X: Div(dY, Mul(Add(1, Abs(X)), Add(1, Abs(X))))">,
                  .grants = kSoftsign},
     .traits = {.elementwise = true}},
    {.identity = {.name = "Mish", .since = 18, .summary = "x * tanh(softplus(x))", .signature = kFloatToFloat},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_float_unary<mish>,
                 .freedom = "rounds once",
                 .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_elementwise<mish_of>, .length = length_not_larger, .vjp = mish_gradient},
     .traits = {.elementwise = true, .approximated = true}},
    {.identity = {.name = "Gelu",
                  .since = 20,
                  .summary = "x times the normal distribution function of x",
                  .signature = kFloatToFloat,
                  .attrs = "approximate: string = none {none, tanh}"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_gelu,
                 .freedom = "rounds once; 1 + erf(x) as erfc(-x), which keeps the tail below zero",
                 .not_finite = NotFinite::infinities_open},
     .analysis = {.range = range_gelu, .length = length_not_larger, .vjp = gelu_gradient},
     .traits = {.elementwise = true, .approximated = true},
     .drawing = {.since = 20, .often = 1}},
    {.identity = {.name = "Shrink",
                  .since = 9,
                  .summary = "x moved towards zero by bias beyond lambd, else 0",
                  .signature = "(input: T) -> (output: T) where T: number",
                  .attrs = "bias: float = 0.0; lambd: float = 0.5"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_shrink,
                 .freedom = "integers are computed in float64 and truncated",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_shrink, .vjp = gradients<"input: Where(Greater(Abs(input), lambd), doutput, 0)">},
     .traits = {.elementwise = true}},
};

}  // namespace

std::span<const OpDef> activation_ops() { return kOps; }

}  // namespace finity
