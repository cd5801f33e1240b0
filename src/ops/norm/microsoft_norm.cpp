// ONNX Runtime's normalisations that have an addition fused in front of them. All of
// it is done in float32 (float64 for float64) and rounded once, as its kernels do.
#include <cmath>

#include "base/error.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/extra/microsoft/microsoft_gradient.h"
#include "ops/norm/microsoft_norm_range.h"
#include "ops/norm/norm_stages.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::string_view kWideAndOnce =
    "sums and standardises in float32 (float64 for float64) with two-pass variance and pairwise sums, rounds once";

DType wide_type(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

Tensor widened(const Tensor& tensor) { return cast(tensor, wide_type(tensor.dtype())); }

// In the wide type; the result has the shape of x.
Tensor plus(const Tensor& x, const Tensor& addend, std::string_view name) {
  const Tensor wide = widened(addend);
  if (wide.rank() > x.rank() || broadcast(x.dims(), wide.dims()) != x.dims()) {
    throw Error(std::string(name) + " of shape " + to_string(addend.dims()) + " does not fit " + to_string(x.dims()));
  }
  return map_binary(x, wide, x.dtype(), [](auto a, auto b) { return a + b; });
}

void require_vector(const Tensor& tensor, std::string_view name, std::int64_t size) {
  if (tensor.dims() == Dims{size}) return;
  throw Error(std::string(name) + " has shape " + to_string(tensor.dims()) + ", expected " + to_string(Dims{size}));
}

// Rows along the last axis of x, which is in the wide type.
struct NormalizedRows {
  Tensor y;
  Standardized rows;
};
NormalizedRows normalize_last(const Tensor& x, const Tensor& gamma, const Tensor* beta, double epsilon, Centre centre) {
  if (x.rank() == 0) throw Error("the input is a scalar");
  const std::int64_t size = x.dims().back();
  require_vector(gamma, "gamma", size);
  if (beta != nullptr) require_vector(*beta, "beta", size);
  const std::int64_t rows = element_count(std::span(x.dims()).first(x.rank() - 1));
  Standardized standard = standardize_rows(x, rows, x.dtype(), epsilon, centre);
  const Tensor scale = widened(gamma);
  const Tensor shift = beta != nullptr ? widened(*beta) : Tensor();
  Tensor y = scale_and_shift(standard.normalized, scale, beta != nullptr ? &shift : nullptr, x.dtype());
  return {std::move(y), std::move(standard)};
}

// ---- SkipLayerNormalization, SkipSimplifiedLayerNormalization -----------------

template <class D>
std::vector<D> statistics_sizes(std::vector<D> sizes, const D& one) {
  if (!sizes.empty()) sizes.back() = one;
  return sizes;
}

void infer_skip_norm(InferCall& call) {
  for (const std::size_t output : {1, 2}) call.set_dtype(output, DType::float32);
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 1);
  if (call.ranked(1)) broadcast(call.shape(0), call.shape(1));  // throws when they do not fit
  for (const std::size_t output : {0, 3}) call.set_shape(output, call.shape(0));
  for (const std::size_t output : {1, 2}) call.set_shape(output, statistics_sizes(call.shape(0), Dim::of(1)));
}

// The RMS form has no beta: its bias is input 3 instead of 4.
template <Centre Around>
void eval_skip_norm(EvalCall& call) {
  const std::size_t bias_input = Around == Centre::mean ? 4 : 3;
  const Tensor* beta = Around == Centre::mean && call.has_input(3) ? &call.in(3) : nullptr;
  const DType dtype = call.in(0).dtype();
  Tensor sum = plus(widened(call.in(0)), call.in(1), "skip");
  if (call.has_input(bias_input)) sum = plus(sum, call.in(bias_input), "bias");
  const NormalizedRows result = normalize_last(sum, call.in(2), beta, call.real("epsilon"), Around);
  const Dims statistics = statistics_sizes<std::int64_t>(sum.dims(), 1);
  call.out(0, cast(result.y, dtype));
  call.out(1, cast(result.rows.mean, DType::float32).reshaped(statistics));
  call.out(2, cast(result.rows.inverse_deviation, DType::float32).reshaped(statistics));
  call.out(3, cast(sum, dtype));
}

// ---- EmbedLayerNormalization ---------------------------------------------------

void infer_embed(InferCall& call) {
  if (!call.ranked(0)) return;
  require_rank(call, 0, 2);
  Dim hidden;
  if (call.ranked(2) && call.rank(2) == 2) hidden = call.shape(2)[1];
  else if (call.ranked(5) && call.rank(5) == 1) hidden = call.shape(5)[0];
  const Shape output{call.shape(0)[0], call.shape(0)[1], hidden};
  call.set_shape(0, output);
  call.set_shape(1, {call.shape(0)[0]});
  call.set_shape(2, output);
}

// Rows of an embedding table, added to one row per token.
class TokenSums {
 public:
  TokenSums(std::size_t tokens, std::int64_t hidden, DType wide)
      : hidden_(hidden), wide_(wide), values_(tokens * static_cast<std::size_t>(hidden)) {}

  void add(const Tensor& table, std::span<const std::int64_t> ids, std::string_view name) {
    require_rank(table, name, 2);
    if (table.dim(1) != hidden_) throw Error(std::string(name) + " has shape " + to_string(table.dims()));
    const std::vector<double> rows = elements<double>(table);
    for (std::size_t token = 0; token < ids.size(); ++token) {
      if (ids[token] < 0 || ids[token] >= table.dim(0)) {
        throw Error("id " + std::to_string(ids[token]) + " is outside " + std::string(name));
      }
      const double* row = rows.data() + ids[token] * hidden_;
      double* sum = values_.data() + static_cast<std::int64_t>(token) * hidden_;
      for (std::int64_t i = 0; i < hidden_; ++i) sum[i] = rounded(sum[i] + rounded(row[i]));
    }
  }
  Tensor tensor(Dims dims) const { return from_elements<double>(wide_, std::move(dims), values_); }

 private:
  // The sum of two floats is exact enough in a double to be rounded once more.
  double rounded(double x) const { return wide_ == DType::float64 ? x : static_cast<double>(static_cast<float>(x)); }

  std::int64_t hidden_;
  DType wide_;
  std::vector<double> values_;
};

// position_ids, per batch or one row for all; 0, 1, 2, ... without it.
std::vector<std::int64_t> position_ids(const EvalCall& call, std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> given;
  if (call.has_input(8)) {
    given = elements<std::int64_t>(call.in(8));
    if (call.in(8).dims() != Dims{batch, length} && call.in(8).dims() != Dims{1, length}) {
      throw Error("position_ids has shape " + to_string(call.in(8).dims()));
    }
  } else {
    for (std::int64_t i = 0; i < length; ++i) given.push_back(i);
  }
  std::vector<std::int64_t> result;
  for (std::int64_t token = 0; token < batch * length; ++token) {
    result.push_back(given[static_cast<std::size_t>(token) % given.size()]);
  }
  return result;
}

// How many tokens of each sequence the mask keeps; zeros without a mask.
Tensor mask_lengths(const EvalCall& call, std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(batch), 0);
  if (call.has_input(7)) {
    if (call.in(7).dims() != Dims{batch, length}) throw Error("mask has shape " + to_string(call.in(7).dims()));
    const std::vector<std::int64_t> mask = elements<std::int64_t>(call.in(7));
    for (std::size_t i = 0; i < mask.size(); ++i) counts[i / static_cast<std::size_t>(length)] += mask[i] == 1 ? 1 : 0;
  }
  return from_elements(DType::int32, {batch}, counts);
}

void eval_embed(EvalCall& call) {
  const Tensor& ids = call.in(0);
  require_rank(ids, "input_ids", 2);
  require_rank(call.in(2), "word_embedding", 2);
  const std::int64_t batch = ids.dim(0), length = ids.dim(1), hidden = call.in(2).dim(1);
  TokenSums sums(static_cast<std::size_t>(ids.size()), hidden, wide_type(call.in(2).dtype()));
  sums.add(call.in(2), elements<std::int64_t>(ids), "word_embedding");
  sums.add(call.in(3), position_ids(call, batch, length), "position_embedding");
  if (call.has_input(1) && call.has_input(4)) {
    if (call.in(1).dims() != ids.dims()) throw Error("segment_ids has shape " + to_string(call.in(1).dims()));
    sums.add(call.in(4), elements<std::int64_t>(call.in(1)), "segment_embedding");
  }
  const Tensor sum = sums.tensor({batch, length, hidden});
  const DType dtype = call.in(2).dtype();
  const Tensor y = normalize_last(sum, call.in(5), &call.in(6), call.real("epsilon"), Centre::mean).y;
  call.out(0, cast(y, dtype));
  call.out(1, mask_lengths(call, batch, length));
  call.out(2, cast(sum, dtype));
}

// ---- GroupNorm, SkipGroupNorm ----------------------------------------------------

// Where the elements of one group are: channels are the last axis or the second.
struct GroupLayout {
  std::int64_t batch = 0, channels = 0, points = 1, groups = 1;
  bool last = true;

  GroupLayout(const Dims& dims, bool channels_last, std::int64_t group_count)
      : groups(group_count), last(channels_last) {
    if (dims.size() != 4) throw Error("X has shape " + to_string(dims) + ", expected rank 4");
    batch = dims[0];
    channels = dims[last ? 3 : 1];
    points = last ? dims[1] * dims[2] : dims[2] * dims[3];
    if (groups <= 0 || channels % groups != 0) {
      throw Error("attribute 'groups' is " + std::to_string(groups) + " for " + std::to_string(channels) + " channels");
    }
  }
  std::size_t at(std::int64_t b, std::int64_t channel, std::int64_t point) const {
    return static_cast<std::size_t>(last ? (b * points + point) * channels + channel
                                         : (b * channels + channel) * points + point);
  }
  std::int64_t channels_per_group() const { return channels / groups; }
};

// [batch, channels, points] from the layout of the tensor, and back.
std::vector<double> reordered(const std::vector<double>& values, const GroupLayout& layout, bool back) {
  std::vector<double> result(values.size());
  std::size_t plain = 0;
  for (std::int64_t b = 0; b < layout.batch; ++b) {
    for (std::int64_t c = 0; c < layout.channels; ++c) {
      for (std::int64_t p = 0; p < layout.points; ++p, ++plain) {
        if (back) result[layout.at(b, c, p)] = values[plain];
        else result[plain] = values[layout.at(b, c, p)];
      }
    }
  }
  return result;
}

double silu(double x) {
  const double e = std::exp(-std::abs(x));
  return x * (x >= 0 ? 1.0 : e) / (1.0 + e);
}

// x is in the wide type.
Tensor group_norm(const EvalCall& call, const Tensor& x) {
  const GroupLayout layout(x.dims(), call.integer("channels_last") != 0, call.integer("groups"));
  require_vector(call.in(1), "gamma", layout.channels);
  require_vector(call.in(2), "beta", layout.channels);
  if (x.empty()) return x;
  const Dims plain{layout.batch, layout.channels, layout.points};
  const Tensor grouped = from_elements(x.dtype(), plain, reordered(elements<double>(x), layout, false));
  const Standardized rows =
      standardize_rows(grouped, layout.batch * layout.groups, x.dtype(), call.real("epsilon"), Centre::mean);
  const Tensor scale = widened(call.in(1)).reshaped({layout.channels, 1});
  const Tensor shift = widened(call.in(2)).reshaped({layout.channels, 1});
  std::vector<double> y = elements<double>(scale_and_shift(rows.normalized, scale, &shift, x.dtype()));
  const std::int64_t activation = call.integer("activation");
  if (activation != 0 && activation != 1) throw Error("attribute 'activation' is " + std::to_string(activation));
  if (activation == 1) {
    for (double& value : y) value = silu(value);
  }
  return from_elements(x.dtype(), x.dims(), reordered(y, layout, true));
}

void infer_group_norm(InferCall& call) {
  require_rank(call, 0, 4);
  if (!call.ranked(0)) return;
  for (const std::size_t output : {0, 1}) call.set_shape(output, call.shape(0));
}

void eval_group_norm(EvalCall& call) { call.out(0, cast(group_norm(call, widened(call.in(0))), call.in(0).dtype())); }

// skip is [N, H, W, C], [N, 1, 1, C] or [N, C]; bias is per channel.
void eval_skip_group_norm(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  const bool last = call.integer("channels_last") != 0;
  Tensor sum = widened(call.in(0));
  if (sum.rank() != 4) throw Error("X has shape " + to_string(sum.dims()) + ", expected rank 4");
  const std::int64_t channels = sum.dim(last ? 3 : 1);
  const auto per_channel = [&](const Tensor& tensor, std::int64_t batch) {
    return tensor.reshaped(last ? Dims{batch, 1, 1, channels} : Dims{batch, channels, 1, 1});
  };
  const Tensor& skip = call.in(3);
  sum = plus(sum, skip.rank() == 2 ? per_channel(skip, sum.dim(0)) : skip, "skip");
  if (call.has_input(4)) sum = plus(sum, per_channel(call.in(4), 1), "bias");
  call.out(0, cast(group_norm(call, sum), dtype));
  call.out(1, cast(sum, dtype));
}

constexpr std::string_view kGroupAttrs = "activation: int; channels_last: int = 1; epsilon: float = 1e-05; groups: int";

const OpDef kOps[] = {
    {.identity = {.name = "SkipLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "layer normalisation of input + skip + bias over the last axis",
                  .signature =
                      "(input: T, skip: T, gamma: T, beta?: T, bias?: T) -> "
                      "(output: T, mean?: float32, inv_std_var?: float32, input_skip_bias_sum?: T) where T: float",
                  .attrs = "epsilon: float = 1e-12"},
     .meaning = {.infer = infer_skip_norm, .eval = eval_skip_norm<Centre::mean>, .freedom = kWideAndOnce},
     .analysis = {.range = range_skip_layer_norm,
                  .vjp = skip_layer_norm_gradient,
                  .hazards = skip_layer_norm_hazards()}},
    {.identity = {.name = "SkipSimplifiedLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "RMS normalisation of input + skip + bias over the last axis",
                  .signature =
                      "(input: T, skip: T, gamma: T, bias?: T) -> "
                      "(output: T, mean?: float32, inv_std_var?: float32, input_skip_bias_sum?: T) where T: float",
                  .attrs = "epsilon: float = 1e-12"},
     .meaning = {.infer = infer_skip_norm, .eval = eval_skip_norm<Centre::zero>, .freedom = kWideAndOnce},
     .analysis = {.range = range_skip_rms_norm, .vjp = skip_rms_norm_gradient, .hazards = skip_rms_norm_hazards()}},
    {.identity = {.name = "EmbedLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "layer normalisation of the sum of word, position and segment embeddings",
                  .signature = "(input_ids: int32, segment_ids?: int32, word_embedding: T, position_embedding: T, "
                               "segment_embedding?: T, gamma: T, beta: T, mask?: int32, position_ids?: int32) -> "
                               "(output: T, mask_index?: int32, embedding_sum?: T) where T: float",
                  .attrs = "epsilon: float = 1e-12; mask_index_type: int = 0"},
     .meaning = {.infer = infer_embed, .eval = eval_embed, .freedom = kWideAndOnce},
     .analysis = {.range = range_embed_layer_norm,
                  .vjp = embed_layer_norm_gradient,
                  .hazards = embed_layer_norm_hazards()}},
    {.identity = {.name = "GroupNorm",
                  .domain = kMicrosoft,
                  .summary = "group normalisation of channels-last images, then perhaps SiLU",
                  .signature = "(X: T, gamma: M, beta: M) -> (Y: T) where T: float, M: float",
                  .attrs = kGroupAttrs},
     .meaning = {.infer = infer_group_norm, .eval = eval_group_norm, .freedom = kWideAndOnce},
     .analysis = {.range = range_image_group_norm,
                  .vjp = image_group_norm_gradient,
                  .hazards = image_group_norm_hazards()}},
    {.identity = {.name = "SkipGroupNorm",
                  .domain = kMicrosoft,
                  .summary = "group normalisation of x + skip + bias, then perhaps SiLU",
                  .signature = "(X: T, gamma: M, beta: M, skip: T, bias?: T) -> (Y: T, S?: T) where T: float, M: float",
                  .attrs = kGroupAttrs},
     .meaning = {.infer = infer_group_norm, .eval = eval_skip_group_norm, .freedom = kWideAndOnce},
     .analysis = {.range = range_skip_group_norm,
                  .vjp = image_group_norm_gradient,
                  .hazards = skip_group_norm_hazards()}},
};

}  // namespace

std::span<const OpDef> microsoft_norm_ops() { return kOps; }

}  // namespace finity
