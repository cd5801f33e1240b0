// Every aten op that is read: what the graph computes on drawn inputs is what LibTorch's own interpreter computes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "torch/script_support.h"

namespace finity {

namespace {

using Shape1 = std::vector<std::int64_t>;

struct Op {
  const char* body;  // of forward(self, x): the value of one expression, or lines that end with a return
  Shape1 shape = {3, 4};
  double lo = -2, hi = 2;
  bool needs_sizes = false;  // else the input is taken for one with a batch
};

// Weights: w as x but of shape [4, 4], v of 4 elements, k convolution weights [4, 3, 3, 3], image-sized m, indices i
// and j, classes t, probabilities p, truth values b.
Weights weights() {
  return {{"w", drawn({4, 4}, -1, 1, 1)},
          {"v", drawn({4}, 0.5, 1.5, 2)},
          {"u", drawn({4}, -1, 1, 9)},
          {"k", drawn({4, 3, 3, 3}, -1, 1, 3)},
          {"kt", drawn({3, 2, 3, 2}, -1, 1, 4)},
          {"g", drawn({1, 5, 6, 2}, -1.2, 1.2, 5)},
          {"i", at::tensor({2, 0, 1, 2}, at::kLong)},
          {"j", at::tensor({1, 3, 0, 1}, at::kLong)},
          {"at", at::tensor({0, 2, 1, 0, 1, 2, 0, 1, 2, 0, 0, 1}, at::kLong).reshape({3, 4})},
          {"t", at::tensor({1, 3, 0}, at::kLong)},
          {"p", drawn({3, 4}, 0, 1, 6)},
          {"b", drawn({3, 4}, -1, 1, 7) > 0},
          {"rows", at::tensor({1, 0, 1}, at::kLong) > 0},
          {"q", at::tensor({3, -2, 7}, at::kLong)}};
}

const std::vector<Op> kElementwise = {
    {"torch.abs(x) + torch.neg(x) + torch.sign(x)"},
    {"torch.floor(x) + 2 * torch.ceil(x) + 3 * torch.round(x)"},
    {"torch.trunc(x) + 2 * torch.frac(x)"},
    {"torch.exp(x) + torch.exp2(x) + torch.expm1(x)"},
    {"torch.log(x) + torch.log2(x) + torch.log10(x) + torch.log1p(x)", {3, 4}, 0.1, 3},
    {"torch.sqrt(x) + torch.rsqrt(x) + torch.reciprocal(x) + torch.square(x)", {3, 4}, 0.1, 3},
    {"torch.sin(x) + torch.cos(x) + torch.tan(x)", {3, 4}, -1, 1},
    {"torch.asin(x) + torch.acos(x) + torch.atan(x)", {3, 4}, -0.9, 0.9},
    {"torch.sinh(x) + torch.cosh(x) + torch.asinh(x)"},
    {"torch.acosh(x + 3) + torch.atanh(x / 3)"},
    {"torch.erf(x) + torch.erfc(x) + torch.lgamma(x + 3) + torch.digamma(x + 3)"},
    {"torch.polygamma(0, x + 3) + torch.polygamma(1, x + 3) + torch.polygamma(3, x + 3)"},
    {"torch.atan2(x, self.v) + torch.atan2(self.v, x)"},
    {"torch.logit(torch.sigmoid(x)) + torch.logit(torch.sigmoid(x), 0.3)"},
    {"torch.add(x, self.v, alpha=2) - torch.sub(x, 1, alpha=3) + torch.rsub(x, self.v, alpha=2)"},
    {"x / self.v + 2 / (x * x + 1) + torch.div(x, 0.3, rounding_mode=\"trunc\")"},
    {"torch.remainder(x, 0.7) + torch.fmod(x, 0.7) + torch.remainder(x, -0.7)"},
    {"n = (x * 9).to(4)\n  return torch.remainder(n, 4) + torch.floor_divide(n, 2) + torch.div(n, 2, "
     "rounding_mode=\"trunc\")"},
    {"n = (x * 9).to(4)\n  return torch.div(n, 2) + torch.div(n, -2, rounding_mode=\"floor\") + torch.fmod(n, 4)"},
    {"torch.pow(x, 3) + torch.pow(2, x) + torch.pow(x * x + 1, x)"},
    {"torch.maximum(x, self.v) - torch.minimum(x, self.u) + torch.max(x, self.v)"},
    {"torch.clamp(x, -1, 1) + torch.clamp_min(x, 0.5) + torch.clamp_max(x, -0.5) + torch.clip(x, min=0)"},
    {"torch.clamp(x, self.u, self.v) + torch.clamp(x, min=self.u)"},
    {"torch.addcmul(x, self.u, self.v, value=0.5) + torch.addcdiv(x, self.u, self.v, value=3)"},
    {"torch.lerp(x, self.v, 0.3) + torch.lerp(x, self.v, 0.8) + torch.lerp(x, self.v, self.u)"},
    {"torch.where(x > 0, x, self.v) + x.masked_fill(x < -1, 0.5) + torch.where(x.isnan(), self.u, self.v)"},
    {"torch.nan_to_num(torch.log(x)) + torch.nan_to_num(1 / torch.relu(x), 1., 2., 3.)"},
    {"(torch.isnan(torch.log(x)), torch.isinf(1 / torch.relu(x)), torch.isfinite(1 / torch.relu(x)))"},
    {"(x == 0, x != x.abs(), x < 0.5, x > self.v, x <= 1, x >= -1)"},
    {"((x > 0) & self.b, (x > 0) | self.b, (x > 0) ^ self.b, ~self.b)"},
    {"(torch.logical_and(x, self.b), torch.logical_or(x > 1, self.b), torch.logical_xor(x, self.b), "
     "torch.logical_not(x))"},
    {"n = (x * 9).to(4)\n  return (n & 5, n | 5, n ^ 5, ~n)"},
    {"(x.to(3) * 2 + 1, x.to(7) * 0.1, x.to(5).to(6), (x > 0).to(6) * x)"},
    {"n = (x * 9).to(4)\n  return (x * n.sum(), n * 2.5, n + x.sum(), self.b * x, n / 2 * 3, n.to(7) + x, "
     "n.to(7).sum() + x)"},
};

// Where a number or an element type decides what comes out: else it would be finite, or another number.
const std::vector<Op> kKinds = {
    {"torch.where(x > 0, 0.0, 3e38) * 10"},
    {"torch.where(x > 0, 2, 3) * x"},
    {"k = int(x.max() * 3) + 1\n  return x * k ** -2, x * 2 ** k"},
    {"n = (x * 9).to(4)\n  return n ** 2, n ** 2.0, 2.5 ** n"},
    {"k = int(x.max()) + 100\n  return x * (torch.exp(k) / torch.exp(99.5)), torch.sqrt(k) * x"},
    {"s = float(x.sum())\n  return torch.floor(s) // 2, torch.ceil(s) // 2"},
    {"torch.sign((x - x) / (x - x)) + torch.sign(x)"},
    {"k = int(x.max()) + 3\n  return x * (k / 7), x * k ** 0.5, torch.round(float(k) * 0.3) * x"},
    {"y = torch.relu_(x - 1)\n  y.mul_(2.5).add_(1)\n  z = y * 0.5\n  z += y\n  return torch.relu_(z).mul_(2), y"},
    {"y = x * 2\n  y.gt_(1)\n  return y, y * 3e38 * 10"},
    {"n = (x * 9).to(3)\n  return n ** 3 + (x > 0) ** 2"},
};

const std::vector<Op> kActivations = {
    {"torch.relu(x) + torch.relu6(x * 4) + torch.selu(x) + torch.celu(x, 0.7)"},
    {"torch.sigmoid(x) * torch.tanh(x) + torch.gelu(x) + torch.gelu(x, approximate=\"tanh\")"},
    {"torch.silu(x) + torch.mish(x) + torch.hardswish(x * 3) + torch.hardsigmoid(x * 3) + torch.hardtanh(x)"},
    {"torch.leaky_relu(x, 0.2) + torch.rrelu(x, 0.1, 0.3, False) + torch.elu(x, 0.5)"},
    {"torch.prelu(x, self.v) + torch.prelu(x, self.v[0:1])"},
    {"torch.prelu(x, self.v)", {2, 4, 3}},
    {"torch.glu(x) + torch.glu(x, 1)"},
    {"torch.glu(x, 0)", {4, 3}},
    {"torch.softplus(x) + torch.softplus(x, 2) + torch.softplus(x * 9, 2, 5)"},
    {"torch.log_sigmoid(x * 5)"},
    {"torch.threshold(x, 0.3, 7) + torch.hardshrink(x, 0.6) + torch.softshrink(x, 0.6)"},
};

const std::vector<Op> kRows = {
    {"torch.softmax(x, -1) + torch.softmax(x, 0) + torch.log_softmax(x, 1)"},
    {"torch.softmax(x, -1, dtype=7) + torch.softmax(self.i.to(6), 0)"},
    {"(x.sum(), x.sum(1), x.mean([0, 1], keepdim=True), x.prod(1), (x > 0).sum(0), self.q.sum())"},
    {"(x.sum(0, dtype=7), torch.amax(x, [1]), torch.amin(x, [0], True), torch.logsumexp(x, [1]))"},
    {"(x.max(), x.min(), torch.max(x, 1), torch.min(x, 0, True), x.argmax(), x.argmin(1), x.argmax(0, True))"},
    {"(torch.any(x > 1.5), torch.all(x > -3), torch.any(x > 0, 1), torch.all(x > 0, 0, True))"},
    {"(torch.topk(x, 2), torch.topk(x, 3, 0, False), torch.sort(x, 1, True), torch.sort(x, 0), torch.argsort(x, 1))"},
    {"(torch.var(x), torch.var(x, [1]), torch.var(x, [0], False, True), torch.std(x), torch.std(x, [1], "
     "unbiased=False))"},
    {"(torch.var(x, [1], correction=2), torch.std(x, [0, 1], correction=0, keepdim=True))"},
    {"(torch.var_mean(x, [1]), torch.std_mean(x, [0], True), torch.var_mean(x, True), torch.std_mean(x, False))"},
    {"(torch.norm(x), torch.norm(x, 1, [1]), torch.norm(x, 2, [0], True), torch.norm(x, 3, [1]), torch.norm(x, 0, "
     "[1]))"},
    {"(torch.linalg_vector_norm(x), torch.linalg_vector_norm(x, 1, [1]), torch.linalg_vector_norm(x, float(\"inf\"), "
     "[1]))"},
    {"(torch.linalg_vector_norm(x, -float(\"inf\"), [0], True), torch.linalg_vector_norm(x, 2.5), "
     "torch.frobenius_norm(x, [0, 1]))"},
    {"(self.b.sum(1), (self.v * 2, self.u + 1))"},  // no part of it depends on x
    {"[self.v * 2, self.u + 1]"},
    {"(torch.cumsum(x, 0), torch.cumsum(x, -1), torch.cumsum(self.b, 1), torch.cumsum(x, 1, dtype=7))"},
    {"x / torch.clamp_min(torch.norm(x, 2, [1], True), 1e-12).expand_as(x)"},
};

const std::vector<Op> kLosses = {
    {"(torch.mse_loss(x, self.p), torch.mse_loss(x, self.p, 0), torch.mse_loss(x, self.p, 2), torch.l1_loss(x, "
     "self.p))"},
    {"(torch.smooth_l1_loss(x, self.p), torch.smooth_l1_loss(x, self.p, 0, 0.5), torch.smooth_l1_loss(x, self.p, 2, "
     "0.))"},
    {"(torch.huber_loss(x, self.p), torch.huber_loss(x, self.p, 0, 0.5), torch.huber_loss(x, self.p, 2, 3.))"},
    {"(torch.binary_cross_entropy(x, self.p), torch.binary_cross_entropy(x, self.p, self.v, 0))", {3, 4}, 0, 1},
    {"torch.binary_cross_entropy((x > 0).to(6), self.p, None, 0)"},
    {"(torch.binary_cross_entropy_with_logits(x, self.p), torch.binary_cross_entropy_with_logits(x * 9, self.p, "
     "self.v, self.u, 0))"},
    {"(torch.kl_div(x, self.p), torch.kl_div(x, torch.relu(self.p - 0.5), 0), torch.kl_div(x, self.u.expand(3, 4), 2, "
     "log_target=True))"},
    {"(torch.soft_margin_loss(x, torch.sign(self.p - 0.5)), torch.margin_ranking_loss(x, self.p, torch.sign(self.p - "
     "0.5), 0.3))"},
    {"(torch.hinge_embedding_loss(x, torch.sign(self.p - 0.5)), torch.hinge_embedding_loss(x, torch.sign(self.p - "
     "0.5), 0.3, 0))"},
    {"(torch.nll_loss(x, self.t), torch.nll_loss(x, self.t, self.v, 0), torch.nll_loss(x, self.t, self.v, 1, 3))"},
    {"(torch.cross_entropy_loss(x, self.t), torch.cross_entropy_loss(x, self.t, self.v, 2), "
     "torch.cross_entropy_loss(x, self.t, None, 1, 3))"},
};

const std::vector<Op> kLayers = {
    {"torch.matmul(x, self.w) + torch.mm(x, self.w) + torch.linear(x, self.w, self.v) + torch.linear(x, self.w)"},
    {"(torch.mv(x, self.v), torch.dot(self.u, self.v), torch.matmul(x, self.v), torch.outer(self.u, self.v))"},
    {"torch.addmm(self.v, x, self.w, beta=0.5, alpha=2) + torch.addmm(self.v, x, self.w) + torch.addmm(self.v / 0, x, "
     "self.w, beta=0)"},
    {"torch.bmm(x, x.transpose(1, 2)) + torch.baddbmm(x[:, :, 0:3], x, x.transpose(1, 2), beta=2, alpha=0.5)",
     {2, 3, 4}},
    {"(torch.einsum(\"ij,kj->ik\", [x, self.w]), torch.einsum(\"ij, j -> i\", [x, self.v]))"},
    {"torch.layer_norm(x, [4], self.v, self.u, 1e-3) + torch.layer_norm(x, [3, 4]) + torch.layer_norm(x, [4], self.v)"},
    {"a, b, c = torch.native_layer_norm(x, [4], self.v, self.u, 1e-5)\n  return a"},
    {"torch.batch_norm(x, self.v, self.u, self.u, self.v, False, 0.1, 1e-3, False) + torch.batch_norm(x, None, None, "
     "self.u, self.v, "
     "False, 0.1, 1e-5, False)"},
    {"torch.group_norm(x, 2, self.v, self.u) + torch.group_norm(x, 4) + torch.group_norm(x, 1, self.v)", {2, 4, 3, 2}},
    {"torch.instance_norm(x, self.v, self.u, None, None, True, 0.1, 1e-4, False) + torch.instance_norm(x, None, None, "
     "None, None, True, "
     "0.1, 1e-5, False)",
     {2, 4, 3, 2}},
    {"torch.embedding(self.w, self.i) + x.sum()"},
};

const std::vector<Op> kWindows = {
    {"torch.conv2d(x, self.k, self.v) + torch.conv2d(x, self.k)", {2, 3, 6, 5}},
    {"(torch.conv2d(x, self.k, self.v, [2, 1], [1, 0], [1, 2]), torch.conv2d(x, self.k, None, 1, \"same\"), "
     "torch.conv2d(x, self.k, None, "
     "2, \"valid\"))",
     {2, 3, 6, 7}},
    {"torch.conv2d(x, self.k, None, 1, \"same\", 2)", {3, 6, 7}, -1, 1, true},
    {"(torch.conv1d(x, self.k[:, :, 0], self.v, 2, 1), torch.conv1d(x, self.k[:, 0:1, 0], self.v, groups=1 + x.size(1) "
     "- 1)) if "
     "x.size(1) == 1 else (torch.conv1d(x, self.k[:, :, 0], self.v, 2, 1), x)",
     {2, 3, 7}},
    {"torch.conv3d(x, self.k.unsqueeze(2), self.v, 1, [0, 1, 1])", {1, 3, 2, 4, 4}},
    {"torch.conv_transpose2d(x, self.kt, None, [2, 1], [1, 0], [1, 0]) + torch.conv_transpose2d(x, self.kt, None, [2, "
     "1], [1, 0], [1, 0])",
     {2, 3, 4, 5}},
    {"torch.conv_transpose1d(x, self.kt[:, :, :, 0], None, 3, 1, 2)", {2, 3, 4}},
    {"(torch.max_pool2d(x, [2, 3]), torch.max_pool2d(x, 3, 2, 1), torch.max_pool2d(x, 3, 2, 1, 1, True), "
     "torch.max_pool2d(x, 2, 1, 0, 2))",
     {2, 3, 7, 8}},
    {"torch.max_pool2d(x, 2)", {3, 7, 8}, -1, 1, true},
    {"(torch.max_pool1d(x, 3, 2), torch.avg_pool1d(x, 3, 2, 1), torch.avg_pool1d(x, 3, 2, 1, True, False))", {2, 3, 8}},
    {"(torch.avg_pool2d(x, 2), torch.avg_pool2d(x, 3, 2, 1), torch.avg_pool2d(x, 3, 2, 1, True), torch.avg_pool2d(x, "
     "3, 2, 1, True, False))",
     {2, 3, 7, 8}},
    {"(torch.max_pool3d(x, 2), torch.avg_pool3d(x, 2, 2))", {1, 2, 4, 4, 5}},
    {"(torch.adaptive_avg_pool2d(x, [1, 1]), torch.adaptive_avg_pool2d(x, [3, 2]), torch.adaptive_avg_pool2d(x, [4, "
     "5]), "
     "torch.adaptive_avg_pool2d(x, [6, 8]))",
     {2, 3, 6, 8}},
    {"(torch.adaptive_avg_pool2d(x, 1), torch.adaptive_avg_pool2d(x, 4))", {3, 6, 7}, -1, 1, true},
    {"(torch.adaptive_avg_pool1d(x, 1), torch.adaptive_avg_pool1d(x, 3), torch.adaptive_avg_pool1d(x, 5))", {2, 3, 7}},
    {"(torch.adaptive_max_pool2d(x, [1, 1])[0], torch.adaptive_max_pool2d(x, [3, 2])[0])", {2, 3, 6, 8}},
};

const std::vector<Op> kShapes = {
    {"(x.view(12), x.view(-1, 6), x.reshape([2, 6]), x.view(self.w[0:3].size()))"},
    {"(torch.flatten(x), torch.flatten(x, 1), torch.flatten(x, 0, 1), torch.flatten(x, 1, 2), x.unflatten(1, [3, 1]))",
     {2, 3, 2, 2}},
    {"(x.permute([2, 0, 1]), x.permute(-1, 0, 1), x.transpose(0, -1), torch.swapaxes(x, 0, 1), torch.movedim(x, 0, 2))",
     {2, 3, 4}},
    {"(torch.movedim(x, [0, 2], [2, 0]), x.t() if x.dim() == 2 else x)", {2, 3, 4}},
    {"(torch.cat([x, x * 2], 1), torch.cat([x, self.i.expand(3, 4)], 0), torch.stack([x, x + 1], -1), torch.stack([x, "
     "x], 0))"},
    {"(x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(1).squeeze(1), x.unsqueeze(0).squeeze(), x.squeeze(0))"},
    {"(x[:, 1:3], x[1], x[-1, 2], x[:, ::2], x[..., -2:], torch.narrow(x, 1, 1, 2), x.select(1, -1))"},
    {"(x[:, None].expand(3, 2, 4), self.v.expand(3, -1), self.v.expand_as(x), torch.broadcast_to(self.v, [3, 4]))"},
    {"(x.repeat(2, 1), x.repeat([2, 1, 3]), torch.tile(x, [2]), torch.repeat_interleave(x, 2, 1), "
     "torch.repeat_interleave(x, 3))"},
    {"a, b = torch.chunk(x, 2, 1)\n  c, d, e = torch.split(x, [1, 2, 1], 1)\n  return a * b + d + c * e"},
    {"(torch.chunk(x, 3, 1), torch.split(x, 3, 1), torch.split_with_sizes(x, [1, 3], 1), torch.unbind(x, 0))"},
    {"(torch.flip(x, [0]), torch.flip(x, [0, 1]), torch.roll(x, [1], [0]), torch.roll(x, [-1, 5], [0, 1]))"},
    {"(torch.tril(x), torch.triu(x, 1), torch.tril(x, -1), x.unfold(1, 2, 1), x.unfold(0, 2, 1))"},
    {"a, b = torch.meshgrid([self.u, self.v])\n  return a * b + x.sum()"},
    {"(torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3), torch.zeros([2]) + x.sum(), x.new_ones([2, "
     "2]))"},
    {"(torch.full([2, 2], 1.5) + x.sum(), x.new_full([2], 7), x.new_zeros([3]), torch.arange(5) + x.sum(), "
     "torch.arange(1., 2., 0.25) * x.sum())"},
    {"(torch.arange(x.size(0)) + x.sum(), torch.arange(x.size(0), 9, 2, dtype=6) * x.sum())"},
    {"(x.sum().item() + 1., int(x.sum() * 3), float(x.max()), bool(x.sum() > 0))"},
    {"x * x.numel() + x.dim() + x.size(-1) + len(x)"},
    {"(torch.constant_pad_nd(x, [1, 2]), torch.pad(x, [1, 0, 0, 2], \"constant\", 3.), torch.constant_pad_nd(x, [-1, "
     "0]))"},
    {"(torch.pad(x, [1, 2], \"reflect\"), torch.pad(x, [1, 2], \"replicate\"), torch.pad(x, [1, 2], \"circular\"))",
     {2, 3, 5}},
    {"(torch.reflection_pad2d(x, [1, 1, 2, 1]), torch.replication_pad2d(x, [1, 1, 2, 1]))", {1, 2, 4, 4}},
    {"(torch.reflection_pad2d(x, [-1, 2, 3, -1]), torch.replication_pad2d(x, [3, -4, -1, 2]), "
     "torch.pad(x, [3, -1, -2, 1], mode=\"circular\"))",
     {1, 2, 4, 4}},
};

const std::vector<Op> kIndices = {
    {"(x[self.t.clamp(0, 2)], x[:, self.i], x[:, self.i.view(2, 2)], torch.index_select(x, 1, self.j), torch.gather(x, "
     "0, self.at))"},
    {"(x[self.i, self.j], x[self.i.view(2, 2), self.j.view(2, 2)], x[self.i[:, None], self.j], x[self.i, 1])"},
    {"(x[:, self.i, self.j % 2], x[self.i, :, self.j % 2], x[:, :, self.i])", {3, 4, 3}},
    {"(x[x > 0], x[self.rows], x[:, self.v > 1], torch.masked_select(x, self.b), torch.nonzero(x > 0))"},
    {"(torch.index_put(x, [self.i], self.u), torch.index_put(x, [self.i, self.j], self.u, True), torch.index_put(x, [x "
     "> 0], "
     "torch.tensor(7.)))"},
    {"(torch.scatter(x, 0, self.at, self.p), torch.scatter(x, 0, self.at, 3.), torch.scatter_add(x, 0, self.at, "
     "self.p), "
     "torch.scatter(x, 1, self.at[:, 0:2], self.p))"},
    {"(torch.scatter(x, 0, self.at, self.p, reduce=\"add\"), torch.scatter(x, 1, self.at, self.p, "
     "reduce=\"multiply\"))"},
    {"(torch.index_add(x, 1, self.j, self.p), torch.index_add(x, 1, self.j, self.p, alpha=2), torch.index_fill(x, 1, "
     "self.j, 5.))"},
    {"(torch.index_copy(x, 1, torch.tensor([2, 0, 1, 3]), self.p), torch.take(x, self.at))"},
    {"torch.one_hot(self.t, 5) + x.sum()"},
};

const std::vector<Op> kImages = {
    {"(torch.upsample_nearest2d(x, [8, 10], None), torch.upsample_nearest2d(x, None, [2., 3.]), "
     "torch.upsample_nearest2d(x, [2, 5], None))",
     {1, 2, 4, 5}},
    {"(torch.upsample_bilinear2d(x, [7, 9], False, None), torch.upsample_bilinear2d(x, [7, 9], True, None), "
     "torch.upsample_bilinear2d(x, "
     "None, False, [2., 2.]))",
     {1, 2, 4, 5}},
    {"(torch.upsample_bicubic2d(x, [7, 9], False, None), torch.upsample_bicubic2d(x, [7, 9], True, None))",
     {1, 2, 4, 5}},
    {"(torch.upsample_linear1d(x, [7], False, None), torch.upsample_nearest1d(x, [8], None))", {1, 2, 4}},
    {"torch.upsample_trilinear3d(x, [5, 6, 7], False, None)", {1, 2, 3, 4, 4}},
    {"(torch.grid_sampler(x, self.g, 0, 0, False), torch.grid_sampler(x, self.g, 0, 1, True), torch.grid_sampler(x, "
     "self.g, 0, 2, False), "
     "torch.grid_sampler(x, self.g, 2, 0, False))",
     {1, 2, 4, 5}},
    {"(torch.pixel_shuffle(x, 2), torch.channel_shuffle(x, 2))", {1, 8, 3, 2}},
    {"torch.pixel_unshuffle(x, 2)", {1, 2, 4, 6}},
    {"(torch.im2col(x, [2, 3], [1, 1], [0, 1], [2, 1]), torch.im2col(x, [2, 2], [2, 1], [1, 0], [1, 2]))",
     {2, 3, 5, 6}},
    {"torch.col2im(x, [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])", {2, 12, 12}},
};

// Of width 8 with two heads.
Weights encoder_weights() {
  return {{"qkv_w", drawn({24, 8}, -0.5, 0.5, 1)}, {"qkv_b", drawn({24}, -0.5, 0.5, 2)},
          {"proj_w", drawn({8, 8}, -0.5, 0.5, 3)}, {"proj_b", drawn({8}, -0.5, 0.5, 4)},
          {"n1_w", drawn({8}, 0.5, 1.5, 5)},       {"n1_b", drawn({8}, -1, 1, 6)},
          {"n2_w", drawn({8}, 0.5, 1.5, 7)},       {"n2_b", drawn({8}, -1, 1, 8)},
          {"f1_w", drawn({12, 8}, -0.5, 0.5, 9)},  {"f1_b", drawn({12}, -0.5, 0.5, 10)},
          {"f2_w", drawn({8, 12}, -0.5, 0.5, 11)}, {"f2_b", drawn({8}, -0.5, 0.5, 12)}};
}

std::string encoder(bool gelu, bool norm_first) {
  const auto flag = [](bool value) { return std::string(value ? "True" : "False"); };
  return "torch._transformer_encoder_layer_fwd(x, 8, 2, self.qkv_w, self.qkv_b, self.proj_w, self.proj_b, " +
         flag(gelu) + ", " + flag(norm_first) +
         ", 1e-5, self.n1_w, self.n1_b, self.n2_w, self.n2_b, self.f1_w, self.f1_b, self.f2_w, self.f2_b)";
}

TEST(TorchScriptOps, Attention) {
  std::vector<std::string> bodies;
  for (const bool gelu : {false, true}) {
    for (const bool first : {false, true}) bodies.push_back(encoder(gelu, first));
  }
  bodies.emplace_back(
      "torch._native_multi_head_attention(x, x, x, 8, 2, self.qkv_w, self.qkv_b, self.proj_w, self.proj_b, None, "
      "False)[0]");
  for (const std::string& body : bodies) {
    SCOPED_TRACE(body);
    const auto module = script_module("def forward(self, x):\n  return " + body + "\n", encoder_weights());
    Bindings bindings;
    bindings.inputs["x"] = {2, 3, 8};
    const ImportedScript read = import_script(saved(module), bindings);
    ASSERT_EQ(unknown_nodes(read.graph), std::vector<std::string>{}) << read.notes.back();
    for (std::uint64_t seed = 0; seed < 3; ++seed) expect_same(module, read, drawn({2, 3, 8}, -2, 2, seed), 2e-5);
  }
}

void run(const std::vector<Op>& ops) {
  for (const Op& op : ops) {
    SCOPED_TRACE(op.body);
    const std::string body = op.body;
    const bool lines = body.find("return ") != std::string::npos;
    const auto module =
        script_module("def forward(self, x):\n  " + (lines ? body : "return " + body) + "\n", weights());
    for (const bool sized : {true, false}) {
      if (op.needs_sizes && !sized) continue;
      SCOPED_TRACE(sized ? "sizes given" : "without sizes");
      Bindings bindings;
      if (sized) bindings.inputs["x"] = op.shape;
      const ImportedScript read = import_script(saved(module), bindings);
      const std::vector<std::string> unknown = unknown_nodes(read.graph);
      if (!sized && !unknown.empty()) continue;
      ASSERT_EQ(unknown, std::vector<std::string>{}) << (read.notes.empty() ? "" : read.notes.back());
      for (std::uint64_t seed = 0; seed < 3; ++seed)
        expect_same(module, read, drawn(op.shape, op.lo, op.hi, seed + 50), 2e-5);
    }
  }
}

TEST(TorchScriptOps, Elementwise) { run(kElementwise); }
TEST(TorchScriptOps, Kinds) { run(kKinds); }
TEST(TorchScriptOps, Activations) { run(kActivations); }
TEST(TorchScriptOps, Rows) { run(kRows); }
TEST(TorchScriptOps, Losses) { run(kLosses); }
TEST(TorchScriptOps, Layers) { run(kLayers); }
TEST(TorchScriptOps, Windows) { run(kWindows); }
TEST(TorchScriptOps, Shapes) { run(kShapes); }
TEST(TorchScriptOps, Indices) { run(kIndices); }
TEST(TorchScriptOps, Images) { run(kImages); }

}  // namespace

}  // namespace finity
