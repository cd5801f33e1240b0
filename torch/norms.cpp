// Normalisations and dropout. Variances are taken in two passes, as the reference does.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/elementwise/dropout_attrs.h"
#include "ops/norm/norm_attrs.h"
#include "torch/lowering.h"

namespace finity {

TorchStandardized standardized(const at::Tensor& x, std::int64_t axis, double epsilon, bool centred) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = axis; i < x.dim(); ++i) axes.push_back(i);
  TorchStandardized result;
  result.mean = centred ? at::mean(x, axes, true) : at::zeros({}, x.options());
  const at::Tensor deviations = centred ? at::sub(x, result.mean) : x;
  const at::Tensor variance = at::mean(at::mul(deviations, deviations), axes, true);
  const at::Tensor deviation = at::sqrt(at::add(variance, epsilon));
  result.inverse_deviation = at::reciprocal(deviation);
  result.normalized = centred ? at::mul(deviations, result.inverse_deviation) : at::div(deviations, deviation);
  return result;
}

namespace {

at::Tensor shifted(const at::Tensor& x, const at::Tensor& scale, const at::Tensor* bias) {
  const at::Tensor product = at::mul(x, scale);
  return bias == nullptr ? product : at::add(product, *bias);
}

// x in the dtype that rows are standardised in.
at::Tensor stashed(const TorchCall& call, const at::Tensor& x) {
  const DType dtype = stash_type(call);
  if (info(dtype).bits < 32) throw Unsupported("rows are standardised in float32 or float64 only");
  return x.to(carrier(dtype));
}

template <bool kCentred>
void lower_row_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  const TorchStandardized rows = standardized(stashed(call, x), axis, call.real("epsilon"), kCentred);
  // What was standardised is rounded to the operand's own dtype first.
  const at::Tensor normalized = settled(rows.normalized, call.dtype(0)).to(call.in(1).scalar_type());
  const at::Tensor y = shifted(normalized, call.in(1), call.has(2) ? &call.in(2) : nullptr);
  if (y.sizes() != x.sizes()) throw Error("scale or bias does not broadcast to the operand's shape");
  call.out(0, y);
  if (kCentred) call.out(1, rows.mean);
  call.out(kCentred ? 2 : 1, rows.inverse_deviation);
}

at::Tensor in_groups(const at::Tensor& x, std::int64_t groups, double epsilon) {
  if (groups <= 0 || x.size(1) % groups != 0) throw Error("the groups do not divide the channels");
  return standardized(x.reshape({x.size(0), groups, -1}), 2, epsilon, true).normalized.reshape(x.sizes());
}

// [C] or one per group as [C, 1, ...].
at::Tensor per_channel(const at::Tensor& parameter, const at::Tensor& x) {
  if (parameter.numel() == 0 || x.size(1) % parameter.numel() != 0)
    throw Error("scale or bias does not fit the channels");
  const at::Tensor repeated =
      parameter.numel() == x.size(1) ? parameter : parameter.repeat_interleave(x.size(1) / parameter.numel());
  Dims dims(static_cast<std::size_t>(x.dim()) - 1, 1);
  dims[0] = x.size(1);
  return repeated.reshape(dims);
}

void lower_group_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() < 2) throw Error("X has rank " + std::to_string(x.dim()) + ", expected 2 or more");
  if (x.numel() == 0) return call.out(0, x);
  const at::Tensor wide = call.version() < 21 ? x : stashed(call, x);
  const std::int64_t parameters = call.version() < 21 ? call.integer("num_groups") : x.size(1);
  for (const std::size_t i : {1, 2}) {
    if (call.in(i).numel() != parameters) throw Error("scale or bias has not one element per group or channel");
  }
  const at::Tensor normalized = in_groups(wide, call.integer("num_groups"), call.real("epsilon"));
  const at::Tensor bias = per_channel(call.in(2), x);
  call.out(0, shifted(settled(normalized, call.dtype(0)).to(x.scalar_type()), per_channel(call.in(1), x), &bias));
}

// ---- per channel -----------------------------------------------------------------

// The operands in one dtype, x as [N, features, rest]: a feature is a channel, or every position of it when not
// spatial. A vector has one channel.
struct BatchNorm {
  at::Tensor x, scale, bias, mean, variance;
};

BatchNorm batch_norm_of(const TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() == 0) throw Error("X is a scalar, expected rank 1 or more");
  const bool spatial = batch_is_spatial(call);
  bool wide = false;
  for (std::size_t i = 0; i < 5; ++i) wide = wide || call.in(i).scalar_type() == at::kDouble;
  const auto operand = [&](std::size_t i) { return wide ? call.in(i).to(at::kDouble) : call.in(i); };
  const std::int64_t rest = x.numel() / std::max<std::int64_t>(x.size(0), 1);
  const std::int64_t features = x.dim() == 1 ? 1 : spatial ? x.size(1) : rest;
  const auto column = [&](std::size_t i) {
    if (call.in(i).numel() != features) throw Error("input " + std::to_string(i) + " has not one element per channel");
    return operand(i).reshape({features, 1});
  };
  const Dims dims{x.size(0), features, features == 0 ? 0 : rest / features};
  return {operand(0).reshape(dims), column(1), column(2), column(3), column(4)};
}

// Replaces the given moments by the batch's, and puts out the running ones.
void use_batch_moments(TorchCall& call, BatchNorm& norm) {
  const std::vector<std::int64_t> axes{0, 2};
  const at::Tensor mean = at::mean(norm.x, axes, true).squeeze(0);
  const at::Tensor deviations = at::sub(norm.x, mean);
  const at::Tensor variance = at::mean(at::mul(deviations, deviations), axes, true).squeeze(0);
  const double momentum = call.real("momentum");
  const auto put = [&](std::size_t i, const at::Tensor& column) { call.out(i, column.reshape(call.in(3).sizes())); };
  put(1, at::add(at::mul(norm.mean, momentum), at::mul(mean, 1 - momentum)));
  put(2, at::add(at::mul(norm.variance, momentum), at::mul(variance, 1 - momentum)));
  put(3, mean);
  put(4, variance);
  norm.mean = mean;
  norm.variance = variance;
}

void lower_batch_norm(TorchCall& call) {
  BatchNorm norm = batch_norm_of(call);
  if (batch_trains(call)) use_batch_moments(call, norm);
  const at::Tensor deviation = at::sqrt(at::add(norm.variance, call.real("epsilon")));
  const at::Tensor normalized = at::div(at::sub(norm.x, norm.mean), deviation);
  call.out(0, at::add(at::mul(normalized, norm.scale), norm.bias).reshape(call.in(0).sizes()));
}

void lower_instance_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() < 2) throw Error("input has rank " + std::to_string(x.dim()) + ", expected 2 or more");
  for (const std::size_t i : {1, 2}) {
    if (call.in(i).numel() != x.size(1)) throw Error("scale or B has not one element per channel");
  }
  const at::Tensor rows = x.reshape({x.size(0), x.size(1), -1});
  const at::Tensor normalized = standardized(rows, 2, call.real("epsilon"), true).normalized;
  const at::Tensor bias = call.in(2).reshape({-1, 1});
  call.out(0, shifted(normalized, call.in(1).reshape({-1, 1}), &bias).reshape(x.sizes()));
}

void lower_mean_variance_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  std::vector<std::int64_t> axes = moment_axes(call);
  if (axes.empty()) throw Unsupported("no axes to normalise over");
  for (std::int64_t& axis : axes) axis = axis_of(axis, x.dim());
  std::ranges::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  const at::Tensor deviations = at::sub(x, at::mean(x, axes, true));
  const at::Tensor deviation = at::sqrt(at::mean(at::mul(deviations, deviations), axes, true));
  call.out(0, at::div(deviations, at::add(deviation, static_cast<double>(1e-9F))));
}

// 0 where the norm is 0, without a division by it that would spoil the derivative.
void lower_lp_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  const bool first = call.integer("p") == 1;
  const at::Tensor sum = at::sum(first ? at::abs(x) : at::mul(x, x), {axis}, true);
  const at::Tensor zero = at::eq(sum, 0);
  const at::Tensor safe = at::where(zero, at::ones_like(sum), sum);
  const at::Tensor quotient = at::div(x, first ? safe : at::sqrt(safe));
  call.out(0, at::where(zero, at::zeros_like(quotient), quotient));
}

void lower_local_response_norm(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() < 2) throw Error("X has rank " + std::to_string(x.dim()) + ", expected 2 or more");
  const std::int64_t size = call.integer("size");
  if (size < 1) throw Error("attribute 'size' is " + std::to_string(size) + ", expected at least 1");
  if (x.numel() == 0) return call.out(0, x);
  const at::Tensor rows = x.reshape({x.size(0), x.size(1), -1});
  const std::int64_t channels = rows.size(1);
  const std::int64_t before = std::min((size - 1) / 2, channels), after = std::min(size / 2, channels);
  const at::Tensor squares = at::constant_pad_nd(at::mul(rows, rows), {0, 0, before, after}, 0);
  const at::Tensor sums = squares.unfold(1, before + after + 1, 1).sum(-1);
  const double factor = call.real("alpha") / static_cast<double>(size);
  const at::Tensor base = at::add(at::mul(sums, factor), call.real("bias"));
  call.out(0, at::div(rows, at::pow(base, call.real("beta"))).reshape(x.sizes()));
}

// ---- dropout ------------------------------------------------------------------------

// The reference draws which elements stay, from ones of the same shape, so that both drop the same ones.
void lower_dropout(TorchCall& call) {
  const std::optional<bool> stated = stated_training(call);
  const bool trains = stated ? *stated : call.in(2).item<bool>();
  const double ratio = !trains ? 0 : call.has(1) ? call.number(1) : call.real("ratio");
  if (!(ratio >= 0 && ratio < 1)) throw Error("ratio is " + std::to_string(ratio) + ", expected 0 <= ratio < 1");
  const at::Tensor& x = call.in(0);
  at::Tensor mask = at::ones_like(x.detach(), at::kFloat);
  if (ratio > 0) {
    std::vector<Datum> operands{to_host(mask, DType::float32)};
    for (std::size_t i = 1; i < call.input_count(); ++i) operands.push_back(to_datum(call.value(i)));
    mask = at::ne(to_torch(*call.reference(operands).front().tensor()), 0);
  }
  call.out(0, ratio > 0 ? at::mul(x, at::mul(mask.to(x.scalar_type()), 1.0 / (1.0 - ratio))) : x);
  call.out(1, mask);
}

constexpr TorchLowering kEntries[] = {
    {"LayerNormalization", "", lower_row_norm<true>},
    {"SimplifiedLayerNormalization", "", lower_row_norm<false>},
    {"RMSNormalization", "", lower_row_norm<false>},
    {"LayerNormalization", "com.microsoft", lower_row_norm<true>},
    {"SimplifiedLayerNormalization", "com.microsoft", lower_row_norm<false>},
    {"GroupNormalization", "", lower_group_norm},
    {"BatchNormalization", "", lower_batch_norm},
    {"InstanceNormalization", "", lower_instance_norm},
    {"MeanVarianceNormalization", "", lower_mean_variance_norm},
    {"LpNormalization", "", lower_lp_norm},
    {"LRN", "", lower_local_response_norm},
    {"Dropout", "", lower_dropout},
};

}  // namespace

std::span<const TorchLowering> torch_norms() { return kEntries; }

}  // namespace finity
