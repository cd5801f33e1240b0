// Models exported with their backward pass: the forward value is fine, the gradient is not.
#include "models.h"

namespace finity {

namespace {

const PatternModel kModels[] = {
    // The distance of two embeddings; the derivative of a root at 0.
    {.name = "p10_sqrt_gradient_buggy", .text = R"(
graph distance (a: float32[4, 8], b: float32[4, 8], upstream: float32[4, 1])
    -> (distance: float32[4, 1], grad_a: float32[4, 8]) {
  const axes: int64[1] = {1}
  const half: float32[] = {0.5}
  const two: float32[] = {2}
  difference = Sub(a, b)
  square = Mul(difference, difference)
  sum = ReduceSum(square, axes) {keepdims = 1}
  distance = Sqrt(sum)
  slope = Div(half, distance)
  grad_sum = Mul(upstream, slope)
  double = Mul(difference, two)
  grad_a = Mul(grad_sum, double)
})"},
    {.name = "p10_sqrt_gradient_repaired", .text = R"(
graph distance (a: float32[4, 8], b: float32[4, 8], upstream: float32[4, 1])
    -> (distance: float32[4, 1], grad_a: float32[4, 8]) {
  const axes: int64[1] = {1}
  const half: float32[] = {0.5}
  const two: float32[] = {2}
  const eps: float32[] = {1e-12}
  difference = Sub(a, b)
  square = Mul(difference, difference)
  sum = ReduceSum(square, axes) {keepdims = 1}
  shifted = Add(sum, eps)
  distance = Sqrt(shifted)
  slope = Div(half, distance)
  grad_sum = Mul(upstream, slope)
  double = Mul(difference, two)
  grad_a = Mul(grad_sum, double)
})"},

    // The select picks the safe branch; the gradient multiplies zero by the other one.
    {.name = "p11_where_gradient_buggy", .text = R"(
graph elu (a: float32[16], upstream: float32[16]) -> (y: float32[16], grad_a: float32[16]) {
  const zero: float32[] = {0}
  const one: float32[] = {1}
  negative = LessOrEqual(a, zero)
  e = Exp(a)
  linear = Add(a, one)
  y = Where(negative, e, linear)
  to_exp = Where(negative, upstream, zero)
  to_linear = Where(negative, zero, upstream)
  grad_exp = Mul(to_exp, e)
  grad_a = Add(grad_exp, to_linear)
})"},
    {.name = "p11_where_gradient_repaired", .text = R"(
graph elu (a: float32[16], upstream: float32[16]) -> (y: float32[16], grad_a: float32[16]) {
  const zero: float32[] = {0}
  const one: float32[] = {1}
  negative = LessOrEqual(a, zero)
  safe = Where(negative, a, zero)
  e = Exp(safe)
  linear = Add(a, one)
  y = Where(negative, e, linear)
  to_exp = Where(negative, upstream, zero)
  to_linear = Where(negative, zero, upstream)
  grad_exp = Mul(to_exp, e)
  grad_a = Add(grad_exp, to_linear)
})"},

    // The deviation of a batch that may hold one sample.
    {.name = "p12_std_of_one_buggy", .text = R"(
graph standardise (x: float32[N, 8], upstream: float32[8]) -> (y: float32[N, 8], grad_variance: float32[8]) {
  const axes: int64[1] = {0}
  const batch: int64[] = {0}
  const one: int64[] = {1}
  const half: float32[] = {0.5}
  mean = ReduceMean(x) {axes = [0], keepdims = 1}
  centred = Sub(x, mean)
  square = Mul(centred, centred)
  sum = ReduceSum(square, axes) {keepdims = 0}
  shape = Shape(x)
  count = Gather(shape, batch)
  freedom = Sub(count, one)
  divisor = Cast(freedom) {to = 1}
  variance = Div(sum, divisor)
  deviation = Sqrt(variance)
  y = Div(centred, deviation)
  slope = Div(half, deviation)
  grad_variance = Mul(upstream, slope)
})"},
    {.name = "p12_std_of_one_repaired", .text = R"(
graph standardise (x: float32[4, 8], upstream: float32[8]) -> (y: float32[4, 8], grad_variance: float32[8]) {
  const half: float32[] = {0.5}
  const eps: float32[] = {1e-05}
  mean = ReduceMean(x) {axes = [0], keepdims = 1}
  centred = Sub(x, mean)
  square = Mul(centred, centred)
  variance = ReduceMean(square) {axes = [0], keepdims = 0}
  shifted = Add(variance, eps)
  deviation = Sqrt(shifted)
  y = Div(centred, deviation)
  slope = Div(half, deviation)
  grad_variance = Mul(upstream, slope)
})"},

    // log-sum-exp over states that are all impossible, and its gradient exp(x - lse).
    {.name = "p15_logsumexp_gradient_buggy", .text = R"(
graph semiring (x: float32[4, 8], upstream: float32[4, 1]) -> (lse: float32[4, 1], grad_x: float32[4, 8]) {
  const axes: int64[1] = {1}
  largest = ReduceMax(x) {axes = [1], keepdims = 1}
  shifted = Sub(x, largest)
  e = Exp(shifted)
  sum = ReduceSum(e, axes) {keepdims = 1}
  l = Log(sum)
  lse = Add(l, largest)
  share = Div(e, sum)
  grad_x = Mul(upstream, share)
})"},
    {.name = "p15_logsumexp_gradient_repaired", .text = R"(
graph semiring (x: float32[4, 8], upstream: float32[4, 1]) -> (lse: float32[4, 1], grad_x: float32[4, 8]) {
  const axes: int64[1] = {1}
  const zero: float32[] = {0}
  const tiny: float32[] = {1e-30}
  largest = ReduceMax(x) {axes = [1], keepdims = 1}
  is_infinite = IsInf(largest)
  finite = Where(is_infinite, zero, largest)
  shifted = Sub(x, finite)
  e = Exp(shifted)
  sum = ReduceSum(e, axes) {keepdims = 1}
  positive = Max(sum, tiny)
  l = Log(positive)
  lse = Add(l, finite)
  share = Div(e, positive)
  grad_x = Mul(upstream, share)
})"},

    // The angle between unit vectors: the cosine is slightly above 1, and the slope has a pole there.
    {.name = "p16_acos_buggy", .text = R"(
graph angle (a: float32[4, 3], upstream: float32[4]) -> (angle: float32[4], grad_cosine: float32[4]) {
  const axes: int64[1] = {1}
  const one: float32[] = {1}
  square = Mul(a, a)
  sum = ReduceSum(square, axes) {keepdims = 1}
  norm = Sqrt(sum)
  unit = Div(a, norm)
  product = Mul(unit, unit)
  cosine = ReduceSum(product, axes) {keepdims = 0}
  angle = Acos(cosine)
  cosine_square = Mul(cosine, cosine)
  rest = Sub(one, cosine_square)
  root = Sqrt(rest)
  negative = Neg(upstream)
  grad_cosine = Div(negative, root)
})"},
    {.name = "p16_acos_repaired", .text = R"(
graph angle (a: float32[4, 3], upstream: float32[4]) -> (angle: float32[4], grad_cosine: float32[4]) {
  const axes: int64[1] = {1}
  const one: float32[] = {1}
  const low: float32[] = {-0.999999}
  const high: float32[] = {0.999999}
  square = Mul(a, a)
  sum = ReduceSum(square, axes) {keepdims = 1}
  norm = Sqrt(sum)
  unit = Div(a, norm)
  product = Mul(unit, unit)
  dot = ReduceSum(product, axes) {keepdims = 0}
  cosine = Clip(dot, low, high)
  angle = Acos(cosine)
  cosine_square = Mul(cosine, cosine)
  rest = Sub(one, cosine_square)
  root = Sqrt(rest)
  negative = Neg(upstream)
  grad_cosine = Div(negative, root)
})"},

    // The gamma curve of an image: 0 to a negative power in the gradient, negative pixels in the value.
    {.name = "p17_gamma_pow_buggy", .text = R"(
graph gamma (pixel: float32[1, 3, 4, 4], upstream: float32[1, 3, 4, 4])
    -> (encoded: float32[1, 3, 4, 4], grad: float32[1, 3, 4, 4]) {
  const gamma: float32[] = {0.41666666}
  const gamma_less_one: float32[] = {-0.5833333}
  encoded = Pow(pixel, gamma)
  power = Pow(pixel, gamma_less_one)
  slope = Mul(power, gamma)
  grad = Mul(upstream, slope)
})"},
    {.name = "p17_gamma_pow_repaired", .text = R"(
graph gamma (pixel: float32[1, 3, 4, 4], upstream: float32[1, 3, 4, 4])
    -> (encoded: float32[1, 3, 4, 4], grad: float32[1, 3, 4, 4]) {
  const gamma: float32[] = {0.41666666}
  const gamma_less_one: float32[] = {-0.5833333}
  const floor: float32[] = {1e-05}
  positive = Max(pixel, floor)
  encoded = Pow(positive, gamma)
  power = Pow(positive, gamma_less_one)
  slope = Mul(power, gamma)
  grad = Mul(upstream, slope)
})"},

    // The gradient of a singular value decomposition: 1 / (s_i^2 - s_j^2).
    {.name = "p18_svd_gradient_buggy", .text = R"(
graph svd_backward (s: float32[4], upstream: float32[4, 4]) -> (f: float32[4, 4]) {
  const rows: int64[1] = {1}
  const columns: int64[1] = {0}
  const eye: float32[4, 4] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}
  square = Mul(s, s)
  s_i = Unsqueeze(square, rows)
  s_j = Unsqueeze(square, columns)
  difference = Sub(s_j, s_i)
  filled = Add(difference, eye)
  f = Div(upstream, filled)
})"},
    {.name = "p18_svd_gradient_repaired", .text = R"(
graph svd_backward (s: float32[4], upstream: float32[4, 4]) -> (f: float32[4, 4]) {
  const rows: int64[1] = {1}
  const columns: int64[1] = {0}
  const eps: float32[] = {1e-06}
  square = Mul(s, s)
  s_i = Unsqueeze(square, rows)
  s_j = Unsqueeze(square, columns)
  difference = Sub(s_j, s_i)
  difference_square = Mul(difference, difference)
  broadened = Add(difference_square, eps)
  inverse = Div(difference, broadened)
  f = Mul(upstream, inverse)
})"},
};

}  // namespace

std::span<const PatternModel> gradient_models() { return kModels; }

}  // namespace finity
