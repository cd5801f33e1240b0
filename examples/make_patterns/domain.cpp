// Arguments outside the domain of exp, log, division, roots and acos.
#include "models.h"

namespace finity {

namespace {

const PatternModel kModels[] = {
    // The ratio of two policies, as the exponential of an unbounded difference.
    {.name = "p08_log_ratio_buggy", .text = R"(
graph policy (new: float32[32], old: float32[32], advantage: float32[32]) -> (objective: float32[32]) {
  const low: float32[] = {0.8}
  const high: float32[] = {1.2}
  difference = Sub(new, old)
  ratio = Exp(difference)
  limited = Clip(ratio, low, high)
  a = Mul(ratio, advantage)
  b = Mul(limited, advantage)
  objective = Min(a, b)
})"},
    {.name = "p08_log_ratio_repaired", .text = R"(
graph policy (new: float32[32], old: float32[32], advantage: float32[32]) -> (objective: float32[32]) {
  const lowest: float32[] = {-20}
  const highest: float32[] = {20}
  const low: float32[] = {0.8}
  const high: float32[] = {1.2}
  difference = Sub(new, old)
  bounded = Clip(difference, lowest, highest)
  ratio = Exp(bounded)
  limited = Clip(ratio, low, high)
  a = Mul(ratio, advantage)
  b = Mul(limited, advantage)
  objective = Min(a, b)
})"},

    // mish(x) = x tanh(log(1 + exp x)).
    {.name = "p09_naive_softplus_buggy", .text = R"(
graph mish (x: float32[1, 16]) -> (y: float32[1, 8]) {
  const w: float32[16, 8] = {1~1}
  const one: float32[] = {1}
  h = MatMul(x, w)
  e = Exp(h)
  shifted = Add(one, e)
  softplus = Log(shifted)
  t = Tanh(softplus)
  y = Mul(h, t)
})"},
    {.name = "p09_naive_softplus_repaired", .text = R"(
graph mish (x: float32[1, 16]) -> (y: float32[1, 8]) {
  const w: float32[16, 8] = {1~1}
  const one: float32[] = {1}
  const zero: float32[] = {0}
  h = MatMul(x, w)
  magnitude = Abs(h)
  negative = Neg(magnitude)
  e = Exp(negative)
  shifted = Add(one, e)
  l = Log(shifted)
  positive = Max(h, zero)
  softplus = Add(positive, l)
  t = Tanh(softplus)
  y = Mul(h, t)
})"},

    // A loss averaged over the labels that count, of which there may be none.
    {.name = "p13_empty_mean_buggy", .text = R"(
graph masked_mean (loss: float32[4, 16], labels: int64[4, 16]) -> (mean: float32[]) {
  const ignored: int64[] = {-100}
  is_ignored = Equal(labels, ignored)
  counts = Not(is_ignored)
  weight = Cast(counts) {to = 1}
  weighted = Mul(loss, weight)
  total = ReduceSum(weighted) {keepdims = 0}
  number = ReduceSum(weight) {keepdims = 0}
  mean = Div(total, number)
})"},
    {.name = "p13_empty_mean_repaired", .text = R"(
graph masked_mean (loss: float32[4, 16], labels: int64[4, 16]) -> (mean: float32[]) {
  const ignored: int64[] = {-100}
  const one: float32[] = {1}
  is_ignored = Equal(labels, ignored)
  counts = Not(is_ignored)
  weight = Cast(counts) {to = 1}
  weighted = Mul(loss, weight)
  total = ReduceSum(weighted) {keepdims = 0}
  number = ReduceSum(weight) {keepdims = 0}
  at_least_one = Max(number, one)
  mean = Div(total, at_least_one)
})"},

    // The entropy of a distribution with probabilities that vanish.
    {.name = "p14_p_log_p_buggy", .text = R"(
graph entropy (x: float32[4, 8]) -> (entropy: float32[4]) {
  const axes: int64[1] = {1}
  p = Softmax(x) {axis = 1}
  log_p = Log(p)
  terms = Mul(p, log_p)
  sum = ReduceSum(terms, axes) {keepdims = 0}
  entropy = Neg(sum)
})"},
    {.name = "p14_p_log_p_repaired", .text = R"(
graph entropy (x: float32[4, 8]) -> (entropy: float32[4]) {
  const axes: int64[1] = {1}
  p = Softmax(x) {axis = 1}
  log_p = LogSoftmax(x) {axis = 1}
  terms = Mul(p, log_p)
  sum = ReduceSum(terms, axes) {keepdims = 0}
  entropy = Neg(sum)
})"},

    // Gumbel noise from a draw that may be 0.
    {.name = "p19_gumbel_buggy", .text = R"(
graph gumbel (logits: float32[4, 8]) -> (sample: float32[4, 8]) {
  u = RandomUniformLike(logits) {seed = 3.0}
  log_u = Log(u)
  exponential = Neg(log_u)
  log_e = Log(exponential)
  noise = Neg(log_e)
  noisy = Add(logits, noise)
  sample = Softmax(noisy) {axis = 1}
})"},
    {.name = "p19_gumbel_repaired", .text = R"(
graph gumbel (logits: float32[4, 8]) -> (sample: float32[4, 8]) {
  const low: float32[] = {1e-06}
  const high: float32[] = {0.999999}
  u = RandomUniformLike(logits) {seed = 3.0}
  inside = Clip(u, low, high)
  log_u = Log(inside)
  exponential = Neg(log_u)
  log_e = Log(exponential)
  noise = Neg(log_e)
  noisy = Add(logits, noise)
  sample = Softmax(noisy) {axis = 1}
})"},

    // One step of Sinkhorn's iteration: exp(-cost / epsilon) vanishes.
    {.name = "p21_sinkhorn_buggy", .text = R"(
graph sinkhorn (cost: float32[8, 8], a: float32[8, 1]) -> (u: float32[8, 1]) {
  const epsilon: float32[] = {0.01}
  const v: float32[8, 1] = {1, 1, 1, 1, 1, 1, 1, 1}
  scaled = Div(cost, epsilon)
  negative = Neg(scaled)
  kernel = Exp(negative)
  kv = MatMul(kernel, v)
  u = Div(a, kv)
})"},
    {.name = "p21_sinkhorn_repaired", .text = R"(
graph sinkhorn (cost: float32[8, 8], a: float32[8, 1]) -> (f: float32[8, 1]) {
  const epsilon: float32[] = {0.01}
  scaled = Div(cost, epsilon)
  negative = Neg(scaled)
  log_kv = ReduceLogSumExp(negative) {axes = [1], keepdims = 1}
  log_a = Log(a)
  log_u = Sub(log_a, log_kv)
  f = Mul(log_u, epsilon)
})"},

    // The forward algorithm of CTC: a target longer than the input leaves states that no path reaches.
    {.name = "p22_ctc_buggy", .text = R"(
graph ctc (log_probs: float32[2, 4]) -> (loss: float32[]) {
  const start: float32[4] = {0, -inf, -inf, -inf}
  const unreached: float32[1] = {-inf}
  const zero: int64[1] = {0}
  const last: int64[1] = {3}
  const end: int64[1] = {4}
  const scalar: int64[0] = {}
  alpha, all = Scan(start, log_probs) {
    body = graph step (before: float32[4], frame: float32[4]) -> (after, kept) {
      head = Slice(before, zero, last, zero)
      moved = Concat(unreached, head) {axis = 0}
      larger = Max(before, moved)
      d_stay = Sub(before, larger)
      d_move = Sub(moved, larger)
      e_stay = Exp(d_stay)
      e_move = Exp(d_move)
      sum = Add(e_stay, e_move)
      log_sum = Log(sum)
      both = Add(larger, log_sum)
      after = Add(both, frame)
      kept = Identity(after)
    },
    num_scan_inputs = 1
  }
  final = Slice(alpha, last, end, zero)
  likelihood = Reshape(final, scalar)
  loss = Neg(likelihood)
})"},
    {.name = "p22_ctc_repaired", .text = R"(
graph ctc (log_probs: float32[2, 4]) -> (loss: float32[]) {
  const start: float32[4] = {0, -10000, -10000, -10000}
  const unreached: float32[1] = {-10000}
  const zero: int64[1] = {0}
  const last: int64[1] = {3}
  const end: int64[1] = {4}
  const scalar: int64[0] = {}
  const large: float32[] = {9000}
  const nothing: float32[] = {0}
  alpha, all = Scan(start, log_probs) {
    body = graph step (before: float32[4], frame: float32[4]) -> (after, kept) {
      head = Slice(before, zero, last, zero)
      moved = Concat(unreached, head) {axis = 0}
      larger = Max(before, moved)
      d_stay = Sub(before, larger)
      d_move = Sub(moved, larger)
      e_stay = Exp(d_stay)
      e_move = Exp(d_move)
      sum = Add(e_stay, e_move)
      log_sum = Log(sum)
      both = Add(larger, log_sum)
      after = Add(both, frame)
      kept = Identity(after)
    },
    num_scan_inputs = 1
  }
  final = Slice(alpha, last, end, zero)
  likelihood = Reshape(final, scalar)
  negative = Neg(likelihood)
  impossible = Greater(negative, large)
  loss = Where(impossible, nothing, negative)
})"},

    // The cosine of two vectors of which one is zero.
    {.name = "p23_cosine_buggy", .text = R"(
graph cosine (a: float32[4, 16], b: float32[4, 16]) -> (similarity: float32[4]) {
  const axes: int64[1] = {1}
  product = Mul(a, b)
  dot = ReduceSum(product, axes) {keepdims = 0}
  norm_a = ReduceL2(a) {axes = [1], keepdims = 0}
  norm_b = ReduceL2(b) {axes = [1], keepdims = 0}
  norms = Mul(norm_a, norm_b)
  similarity = Div(dot, norms)
})"},
    {.name = "p23_cosine_repaired", .text = R"(
graph cosine (a: float32[4, 16], b: float32[4, 16]) -> (similarity: float32[4]) {
  const axes: int64[1] = {1}
  const floor: float32[] = {1e-08}
  norm_a = ReduceL2(a) {axes = [1], keepdims = 1}
  norm_b = ReduceL2(b) {axes = [1], keepdims = 1}
  safe_a = Max(norm_a, floor)
  safe_b = Max(norm_b, floor)
  unit_a = Div(a, safe_a)
  unit_b = Div(b, safe_b)
  product = Mul(unit_a, unit_b)
  similarity = ReduceSum(product, axes) {keepdims = 0}
})"},

    // The variance in one pass: rounding makes it negative.
    {.name = "p24_one_pass_variance_buggy", .text = R"(
graph normalise (x: float32[2, 5]) -> (y: float32[2, 5]) {
  square = Mul(x, x)
  mean_square = ReduceMean(square) {axes = [1], keepdims = 1}
  mean = ReduceMean(x) {axes = [1], keepdims = 1}
  squared_mean = Mul(mean, mean)
  variance = Sub(mean_square, squared_mean)
  deviation = Sqrt(variance)
  centred = Sub(x, mean)
  y = Div(centred, deviation)
})"},
    {.name = "p24_one_pass_variance_repaired", .text = R"(
graph normalise (x: float32[2, 5]) -> (y: float32[2, 5]) {
  const eps: float32[] = {1e-05}
  mean = ReduceMean(x) {axes = [1], keepdims = 1}
  centred = Sub(x, mean)
  square = Mul(centred, centred)
  variance = ReduceMean(square) {axes = [1], keepdims = 1}
  shifted = Add(variance, eps)
  deviation = Sqrt(shifted)
  y = Div(centred, deviation)
})"},

    // A temperature that is learned, or set to zero to be greedy.
    {.name = "p26_temperature_buggy", .text = R"(
graph sample (hidden: float32[1, 16], temperature: float32[]) -> (weights: float32[1, 8]) {
  const w: float32[16, 8] = {~1}
  logits = MatMul(hidden, w)
  scaled = Div(logits, temperature)
  weights = Softmax(scaled) {axis = 1}
})"},
    {.name = "p26_temperature_repaired", .text = R"(
graph sample (hidden: float32[1, 16], temperature: float32[]) -> (weights: float32[1, 8]) {
  const w: float32[16, 8] = {~1}
  const floor: float32[] = {0.01}
  logits = MatMul(hidden, w)
  positive = Max(temperature, floor)
  scaled = Div(logits, positive)
  weights = Softmax(scaled) {axis = 1}
})"},

    // A padding row that was never initialised: zero times NaN is NaN.
    {.name = "p28_nan_weight_buggy", .text = R"(
graph embed (ids: int64[2, 6], keep: float32[2, 6, 1]) -> (mean: float32[2, 4]) {
  const table: float32[5, 4] = {
    0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1, 0.2, 0.1, 0.3, -0.3, 0.2, -0.2, nan, nan, nan, nan}
  const axes: int64[1] = {1}
  const one: float32[] = {1}
  rows = Gather(table, ids)
  masked = Mul(rows, keep)
  total = ReduceSum(masked, axes) {keepdims = 0}
  number = ReduceSum(keep, axes) {keepdims = 0}
  divisor = Max(number, one)
  mean = Div(total, divisor)
})"},
    {.name = "p28_nan_weight_repaired", .text = R"(
graph embed (ids: int64[2, 6], keep: float32[2, 6, 1]) -> (mean: float32[2, 4]) {
  const table: float32[5, 4] = {
    0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1, 0.2, 0.1, 0.3, -0.3, 0.2, -0.2, 0, 0, 0, 0}
  const axes: int64[1] = {1}
  const one: float32[] = {1}
  rows = Gather(table, ids)
  masked = Mul(rows, keep)
  total = ReduceSum(masked, axes) {keepdims = 0}
  number = ReduceSum(keep, axes) {keepdims = 0}
  divisor = Max(number, one)
  mean = Div(total, divisor)
})"},
};

}  // namespace

std::span<const PatternModel> domain_models() { return kModels; }

}  // namespace finity
