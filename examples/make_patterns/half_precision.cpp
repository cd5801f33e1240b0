// Overflow, vanishing constants and masks in narrow formats.
#include "models.h"

namespace finity {

namespace {

const PatternModel kModels[] = {
    // The output projection of a feed-forward block adds up to more than 65504.
    {.name = "p01_ffn_overflow_buggy", .text = R"(
graph ffn (x: float16[1, 4, 16]) -> (y: float16[1, 4, 16]) {
  const wi: float16[16, 64] = {~1}
  const wo: float16[64, 16] = {200~50}
  up = MatMul(x, wi)
  act = Relu(up)
  down = MatMul(act, wo)
  y = Add(down, x)
})"},
    {.name = "p01_ffn_overflow_repaired", .text = R"(
graph ffn (x: float16[1, 4, 16]) -> (y: float16[1, 4, 16]) {
  const wi: float16[16, 64] = {~1}
  const wo: float32[64, 16] = {200~50}
  const low: float32[] = {-60000}
  const high: float32[] = {60000}
  up = MatMul(x, wi)
  act = Relu(up)
  wide = Cast(act) {to = 1}
  down = MatMul(wide, wo)
  limited = Clip(down, low, high)
  narrow = Cast(limited) {to = 10}
  y = Add(narrow, x)
})"},

    // The residual stream grows past 65504, and the norm behind it divides Inf by Inf.
    {.name = "p02_residual_overflow_buggy", .text = R"(
graph residual (x: float16[1, 4, 16], branch: float16[1, 4, 16]) -> (y: float16[1, 4, 16]) {
  const eps: float32[] = {1e-05}
  sum = Add(x, branch)
  wide = Cast(sum) {to = 1}
  square = Mul(wide, wide)
  mean = ReduceMean(square) {axes = [-1], keepdims = 1}
  shifted = Add(mean, eps)
  root = Sqrt(shifted)
  normed = Div(wide, root)
  y = Cast(normed) {to = 10}
})"},
    {.name = "p02_residual_overflow_repaired", .text = R"(
graph residual (x: float16[1, 4, 16], branch: float16[1, 4, 16]) -> (y: float16[1, 4, 16]) {
  const eps: float32[] = {1e-05}
  wide_x = Cast(x) {to = 1}
  wide_branch = Cast(branch) {to = 1}
  wide = Add(wide_x, wide_branch)
  square = Mul(wide, wide)
  mean = ReduceMean(square) {axes = [-1], keepdims = 1}
  shifted = Add(mean, eps)
  root = Sqrt(shifted)
  normed = Div(wide, root)
  y = Cast(normed) {to = 10}
})"},

    // The squares inside a norm leave the format although the norm's result is small.
    {.name = "p03_norm_squares_buggy", .text = R"(
graph rms_norm (x: float16[1, 4, 32]) -> (y: float16[1, 4, 32]) {
  const two: float16[] = {2}
  const eps: float16[] = {1e-05}
  const scale: float16[32] = {~1}
  square = Pow(x, two)
  mean = ReduceMean(square) {axes = [-1], keepdims = 1}
  shifted = Add(mean, eps)
  root = Sqrt(shifted)
  normed = Div(x, root)
  y = Mul(normed, scale)
})"},
    {.name = "p03_norm_squares_repaired", .text = R"(
graph rms_norm (x: float16[1, 4, 32]) -> (y: float16[1, 4, 32]) {
  const two: float32[] = {2}
  const eps: float32[] = {1e-05}
  const scale: float32[32] = {~1}
  wide = Cast(x) {to = 1}
  square = Pow(wide, two)
  mean = ReduceMean(square) {axes = [-1], keepdims = 1}
  shifted = Add(mean, eps)
  root = Sqrt(shifted)
  normed = Div(wide, root)
  scaled = Mul(normed, scale)
  y = Cast(scaled) {to = 10}
})"},

    // The most negative number as a mask, added to a score.
    {.name = "p04_mask_sentinel_buggy", .text = R"(
graph attention (scores: float16[1, 4, 4], keep: float16[1, 1, 4]) -> (weights: float16[1, 4, 4]) {
  const one: float16[] = {1}
  const lowest: float16[] = {-65504}
  drop = Sub(one, keep)
  bias = Mul(drop, lowest)
  masked = Add(scores, bias)
  weights = Softmax(masked) {axis = -1}
})"},
    {.name = "p04_mask_sentinel_repaired", .text = R"(
graph attention (scores: float16[1, 4, 4], keep: bool[1, 1, 4]) -> (weights: float16[1, 4, 4]) {
  const lowest: float16[] = {-65504}
  masked = Where(keep, scores, lowest)
  weights = Softmax(masked) {axis = -1}
})"},

    // A row without a single key: minus infinity everywhere.
    {.name = "p05_masked_row_buggy", .text = R"(
graph attention (q: float32[1, 4, 8], k: float32[1, 4, 8], keep: bool[1, 4, 4]) -> (weights: float32[1, 4, 4]) {
  const minus_infinity: float32[] = {-inf}
  kt = Transpose(k) {perm = [0, 2, 1]}
  scores = MatMul(q, kt)
  masked = Where(keep, scores, minus_infinity)
  weights = Softmax(masked) {axis = -1}
})"},
    {.name = "p05_masked_row_repaired", .text = R"(
graph attention (q: float32[1, 4, 8], k: float32[1, 4, 8], keep: bool[1, 4, 4]) -> (weights: float32[1, 4, 4]) {
  const low: float32[] = {-1e9}
  const zero: float32[] = {0}
  kt = Transpose(k) {perm = [0, 2, 1]}
  scores = MatMul(q, kt)
  masked = Where(keep, scores, low)
  soft = Softmax(masked) {axis = -1}
  weights = Where(keep, soft, zero)
})"},
    {.name = "p05_infinite_bias_buggy", .text = R"(
graph attention (scores: float32[1, 4, 4], keep: float32[1, 1, 4]) -> (weights: float32[1, 4, 4]) {
  const one: float32[] = {1}
  const minus_infinity: float32[] = {-inf}
  drop = Sub(one, keep)
  bias = Mul(drop, minus_infinity)
  masked = Add(scores, bias)
  weights = Softmax(masked) {axis = -1}
})"},
    {.name = "p05_infinite_bias_repaired", .text = R"(
graph attention (scores: float32[1, 4, 4], keep: float32[1, 1, 4]) -> (weights: float32[1, 4, 4]) {
  const one: float32[] = {1}
  const low: float32[] = {-1e9}
  drop = Sub(one, keep)
  bias = Mul(drop, low)
  masked = Add(scores, bias)
  weights = Softmax(masked) {axis = -1}
})"},

    // An optimizer step whose epsilon is zero in float16.
    {.name = "p06_epsilon_underflow_buggy", .text = R"(
graph adam (m: float16[32], v: float16[32]) -> (step: float16[32]) {
  const eps: float32[] = {1e-08}
  const rate: float16[] = {0.001}
  narrow_eps = Cast(eps) {to = 10}
  root = Sqrt(v)
  shifted = Add(root, narrow_eps)
  ratio = Div(m, shifted)
  step = Mul(ratio, rate)
})"},
    {.name = "p06_epsilon_underflow_repaired", .text = R"(
graph adam (m: float16[32], v: float16[32]) -> (step: float16[32]) {
  const eps: float32[] = {0.0001}
  const rate: float16[] = {0.001}
  narrow_eps = Cast(eps) {to = 10}
  root = Sqrt(v)
  shifted = Add(root, narrow_eps)
  ratio = Div(m, shifted)
  step = Mul(ratio, rate)
})"},

    // GELU by tanh: the cube overflows long before the result does.
    {.name = "p07_gelu_cube_buggy", .text = R"(
graph gelu (x: float16[1, 16], w: float16[16, 8]) -> (y: float16[1, 8]) {
  const three: float16[] = {3}
  const cubic: float16[] = {0.044715}
  const scale: float16[] = {0.7978846}
  const one: float16[] = {1}
  const half: float16[] = {0.5}
  h = MatMul(x, w)
  cube = Pow(h, three)
  small = Mul(cube, cubic)
  sum = Add(h, small)
  inner = Mul(sum, scale)
  t = Tanh(inner)
  gate = Add(t, one)
  halved = Mul(h, half)
  y = Mul(halved, gate)
})"},
    {.name = "p07_gelu_cube_repaired", .text = R"(
graph gelu (x: float16[1, 16], w: float16[16, 8]) -> (y: float16[1, 8]) {
  const low: float16[] = {-15}
  const high: float16[] = {15}
  const three: float16[] = {3}
  const cubic: float16[] = {0.044715}
  const scale: float16[] = {0.7978846}
  const one: float16[] = {1}
  const half: float16[] = {0.5}
  h = MatMul(x, w)
  limited = Clip(h, low, high)
  cube = Pow(limited, three)
  small = Mul(cube, cubic)
  sum = Add(limited, small)
  inner = Mul(sum, scale)
  t = Tanh(inner)
  gate = Add(t, one)
  halved = Mul(h, half)
  y = Mul(halved, gate)
})"},

    // A clip at 1 - 1e-4 that float16 rounds to 1.
    {.name = "p20_clip_rounds_to_one_buggy", .text = R"(
graph focal (logit: float16[8], label: float16[8]) -> (loss: float16[8]) {
  const one: float16[] = {1}
  const low: float16[] = {0.0001}
  const high: float16[] = {0.9999}
  p = Sigmoid(logit)
  clipped = Clip(p, low, high)
  log_p = Log(clipped)
  q = Sub(one, clipped)
  log_q = Log(q)
  other = Sub(one, label)
  a = Mul(label, log_p)
  b = Mul(other, log_q)
  sum = Add(a, b)
  loss = Neg(sum)
})"},
    {.name = "p20_clip_rounds_to_one_repaired", .text = R"(
graph focal (logit: float16[8], label: float16[8]) -> (loss: float16[8]) {
  const one: float16[] = {1}
  positive = Relu(logit)
  product = Mul(logit, label)
  magnitude = Abs(logit)
  negative = Neg(magnitude)
  e = Exp(negative)
  shifted = Add(one, e)
  l = Log(shifted)
  difference = Sub(positive, product)
  loss = Add(difference, l)
})"},

    // Attention scores that are scaled after the product.
    {.name = "p25_scores_overflow_buggy", .text = R"(
graph attention (q: float16[1, 4, 64], k: float16[1, 4, 64]) -> (weights: float16[1, 4, 4]) {
  const scale: float16[] = {0.125}
  kt = Transpose(k) {perm = [0, 2, 1]}
  scores = MatMul(q, kt)
  scaled = Mul(scores, scale)
  weights = Softmax(scaled) {axis = -1}
})"},
    {.name = "p25_scores_overflow_repaired", .text = R"(
graph attention (q: float16[1, 4, 64], k: float16[1, 4, 64]) -> (weights: float16[1, 4, 4]) {
  const scale: float16[] = {0.125}
  kt = Transpose(k) {perm = [0, 2, 1]}
  small = Mul(q, scale)
  scaled = MatMul(small, kt)
  weights = Softmax(scaled) {axis = -1}
})"},

    // An 8-bit format without infinities: what is too large becomes NaN.
    {.name = "p27_float8_cast_buggy", .opset = 21, .text = R"(
graph quantize (x: float32[4, 16]) -> (y: float32[4, 16]) {
  const largest: float32[] = {448}
  magnitude = Abs(x)
  amax = ReduceMax(magnitude) {keepdims = 0}
  scale = Div(amax, largest)
  scaled = Div(x, scale)
  narrow = Cast(scaled) {to = 17, saturate = 0}
  wide = Cast(narrow) {to = 1}
  y = Mul(wide, scale)
})"},
    {.name = "p27_float8_cast_repaired", .opset = 21, .text = R"(
graph quantize (x: float32[4, 16]) -> (y: float32[4, 16]) {
  const largest: float32[] = {448}
  const smallest: float32[] = {-448}
  const floor: float32[] = {1e-12}
  magnitude = Abs(x)
  amax = ReduceMax(magnitude) {keepdims = 0}
  positive = Max(amax, floor)
  scale = Div(positive, largest)
  scaled = Div(x, scale)
  limited = Clip(scaled, smallest, largest)
  narrow = Cast(limited) {to = 17, saturate = 0}
  wide = Cast(narrow) {to = 1}
  y = Mul(wide, scale)
})"},
};

}  // namespace

std::span<const PatternModel> half_precision_models() { return kModels; }

}  // namespace finity
