// ONNX Runtime's normalisations that have an addition fused in front of them: sums of operands, then the norm of the
// default domain. Kernels do all of it in float32 (float64 for float64) and round once, or round the sum before.
#include "ops/norm/microsoft_norm.h"

#include "base/error.h"
#include "ops/norm/image_norm_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::string_view kOnce = "in float64, rounded once";

ValueId sum_of(BuildCall& call, DType format, const std::vector<ValueId>& terms) {
  ValueId sum = {};
  for (const ValueId term : terms) {
    if (!term.valid()) continue;
    const ValueId wide = call.cast(term, format);
    sum = sum.valid() ? call.sum(sum, wide) : wide;
  }
  return sum;
}

bool channels_last(const Call& call) { return call.integer("channels_last") != 0; }

}  // namespace

ValueId skip_layer_sum(BuildCall& call, DType format) {
  return sum_of(call, format, {call.in(0), call.in(1), call.in(4)});
}

ValueId skip_rms_sum(BuildCall& call, DType format) {
  return sum_of(call, format, {call.in(0), call.in(1), call.in(3)});
}

// Positions are 0, 1, 2, ... where they are not given.
ValueId embedding_sum(BuildCall& call, DType format) {
  const auto rows = [&](std::size_t table, ValueId ids) {
    return call.has_input(table) && ids.valid() ? call.add("Gather", {call.in(table), ids}) : ValueId{};
  };
  ValueId positions = call.in(8);
  if (!positions.valid()) {
    const ValueId length = call.add("Gather", {call.add("Shape", {call.in(0)}), call.scalar(1, DType::int64)});
    positions = call.add("Range", {call.scalar(0, DType::int64), length, call.scalar(1, DType::int64)});
  }
  return sum_of(call, format, {rows(2, call.in(0)), rows(3, positions), rows(4, call.in(1))});
}

// skip is like X, [N, 1, 1, C] or [N, C]; bias is per channel.
ValueId skipped_images(BuildCall& call, DType format) {
  const auto per_channel = [&](ValueId value, std::size_t rank) {
    if (!value.valid() || call.rank(value) != rank) return value;
    const std::int64_t batch = rank == 2 ? 0 : 1;  // 0: as many as there are
    return reshaped(call, value, channels_last(call) ? Dims{batch, 1, 1, -1} : Dims{batch, -1, 1, 1});
  };
  return sum_of(call, format, {call.in(0), per_channel(call.in(3), 2), per_channel(call.in(4), 1)});
}

namespace {

// Statistics are computed in float32 (float64 for float64).
Attrs norm_attrs(const BuildCall& call) {
  Attrs attrs;
  attrs.set("epsilon", static_cast<float>(call.real("epsilon")));
  attrs.set("stash_type", static_cast<std::int64_t>(sum_format(call.dtype())));
  return attrs;
}

void require_vector(const InferCall& call, std::size_t input, const Dim& size) {
  if (!call.ranked(input)) return;
  const Shape& shape = call.shape(input);
  const bool fits = shape.size() == 1 && (!shape[0].known() || !size.known() || shape[0].size == size.size);
  if (!fits) throw Error("input " + std::to_string(input) + " is not one number per channel");
}

// ---- SkipLayerNormalization, SkipSimplifiedLayerNormalization -----------------

Shape statistics_shape(Shape shape) {
  if (!shape.empty()) shape.back() = Dim::of(1);
  return shape;
}

// skip does not make the sum larger than the input.
void require_skip(const InferCall& call) {
  if (!call.ranked(1)) return;
  const Shape &x = call.shape(0), &skip = call.shape(1);
  broadcast(x, skip);  // throws when they do not fit
  bool larger = skip.size() > x.size();
  for (std::size_t i = 0; i < skip.size() && !larger; ++i) {
    const Dim& size = x[x.size() - 1 - i];
    const Dim& other = skip[skip.size() - 1 - i];
    larger = size.size == 1 && other.known() && other.size != 1;
  }
  if (larger) throw Error("skip of shape " + to_string(sizes_of(skip)) + " does not fit " + to_string(sizes_of(x)));
}

void infer_skip_norm(InferCall& call) {
  for (const std::size_t output : {1, 2}) call.set_dtype(output, DType::float32);
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 1);
  require_skip(call);
  for (std::size_t i = 2; i < call.input_count(); ++i) require_vector(call, i, call.shape(0).back());
  for (const std::size_t output : {0, 3}) call.set_shape(output, call.shape(0));
  for (const std::size_t output : {1, 2}) call.set_shape(output, statistics_shape(call.shape(0)));
}

std::vector<ValueId> skip_layer_norm(BuildCall& call) {
  const ValueId sum = skip_layer_sum(call, call.dtype());
  const auto rows = call.add_all("LayerNormalization", {sum, call.in(2), call.in(3)}, 3, norm_attrs(call));
  return {rows[0], call.cast(rows[1], DType::float32), call.cast(rows[2], DType::float32), sum};
}

// Its mean is always 0.
std::vector<ValueId> skip_rms_norm(BuildCall& call) {
  const ValueId sum = skip_rms_sum(call, call.dtype());
  const auto rows = call.add_all("SimplifiedLayerNormalization", {sum, call.in(2)}, 2, norm_attrs(call));
  const ValueId statistics = call.cast(rows[1], DType::float32);
  return {rows[0], call.zeros_like(statistics), statistics, sum};
}

// ---- EmbedLayerNormalization ---------------------------------------------------

void infer_embed(InferCall& call) {
  if (!call.ranked(0)) return;
  require_rank(call, 0, 2);
  for (const std::size_t table : {2, 3, 4}) require_rank(call, table, 2);
  for (const std::size_t like : {1, 7}) {
    const std::optional<Dims> own = call.in(like).dims(), ids = call.in(0).dims();
    if (own && ids && *own != *ids) throw Error("input " + std::to_string(like) + " has shape " + to_string(*own));
  }
  Dim hidden;
  if (call.ranked(2)) hidden = call.shape(2)[1];
  else if (call.ranked(5) && call.rank(5) == 1) hidden = call.shape(5)[0];
  const Shape output{call.shape(0)[0], call.shape(0)[1], hidden};
  call.set_shape(0, output);
  call.set_shape(1, {call.shape(0)[0]});
  call.set_shape(2, output);
}

// How many tokens of each sequence the mask keeps; zeros without a mask.
ValueId mask_lengths(BuildCall& call) {
  const ValueId kept = call.has_input(7)
                           ? call.cast(call.add("Equal", {call.in(7), call.scalar(1, DType::int32)}), DType::int32)
                           : call.zeros_like(call.in(0));
  Attrs attrs;
  attrs.set("keepdims", std::int64_t{0});
  return call.add("ReduceSum", {kept, call.ints({1})}, std::move(attrs));
}

// Gather would count from the end.
void require_ids(const EvalCall& call, std::size_t ids, std::size_t table) {
  if (!call.has_input(ids) || !call.has_input(table) || call.in(table).rank() == 0) return;
  for (const std::int64_t id : elements<std::int64_t>(call.in(ids))) {
    if (id >= 0 && id < call.in(table).dim(0)) continue;
    throw Error("id " + std::to_string(id) + " is outside " + signature_of(call.op()).inputs[table].name);
  }
}

void eval_embed(EvalCall& call) {
  require_ids(call, 0, 2);
  require_ids(call, 8, 3);
  require_ids(call, 1, 4);
  eval_body(call);
}

std::vector<ValueId> embed_layer_norm(BuildCall& call) {
  const ValueId sum = embedding_sum(call, call.dtype());
  return {call.add("LayerNormalization", {sum, call.in(5), call.in(6)}, norm_attrs(call)), mask_lengths(call), sum};
}

// ---- GroupNorm, SkipGroupNorm ----------------------------------------------------

void infer_group_norm(InferCall& call) {
  require_rank(call, 0, 4);
  if (!call.ranked(0)) return;
  const Dim& channels = call.shape(0)[channels_last(call) ? 3 : 1];
  const std::int64_t groups = call.integer("groups");
  if (groups <= 0 || (channels.known() && channels.size % groups != 0)) {
    throw Error("attribute 'groups' is " + std::to_string(groups) + " for " + std::to_string(channels.size) +
                " channels");
  }
  for (const std::size_t parameter : {1, 2}) require_vector(call, parameter, channels);
  for (const std::size_t output : {0, 1}) call.set_shape(output, call.shape(0));
}

// Channels become the second axis and go back.
ValueId normalized_images(BuildCall& call, ValueId images) {
  const DType own = call.dtype(), wide = sum_format(own);
  const bool last = channels_last(call);
  Attrs attrs = norm_attrs(call);
  attrs.set("num_groups", call.integer("groups"));
  const ValueId first = last ? transposed(call, images, {0, 3, 1, 2}) : images;
  ValueId y =
      call.add("GroupNormalization", {call.cast(first, wide), call.cast(call.in(1), wide), call.cast(call.in(2), wide)},
               std::move(attrs));
  const std::int64_t activation = call.integer("activation");
  if (activation != 0 && activation != 1) throw Error("attribute 'activation' is " + std::to_string(activation));
  if (activation == 1) y = call.add("Swish", {y});
  return call.cast(last ? transposed(call, y, {0, 2, 3, 1}) : y, own);
}

std::vector<ValueId> group_norm(BuildCall& call) { return {normalized_images(call, call.in(0))}; }

std::vector<ValueId> skip_group_norm(BuildCall& call) {
  const ValueId sum = skipped_images(call, call.dtype());
  return {normalized_images(call, sum), sum};
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
     .meaning = {.infer = infer_skip_norm, .body = skip_layer_norm, .freedom = kOnce},
     .analysis = {.hazards = skip_layer_norm_hazards()}},
    {.identity = {.name = "SkipSimplifiedLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "RMS normalisation of input + skip + bias over the last axis",
                  .signature =
                      "(input: T, skip: T, gamma: T, bias?: T) -> "
                      "(output: T, mean?: float32, inv_std_var?: float32, input_skip_bias_sum?: T) where T: float",
                  .attrs = "epsilon: float = 1e-12"},
     .meaning = {.infer = infer_skip_norm, .body = skip_rms_norm, .freedom = kOnce},
     .analysis = {.hazards = skip_rms_norm_hazards()}},
    {.identity = {.name = "EmbedLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "layer normalisation of the sum of word, position and segment embeddings",
                  .signature = "(input_ids: int32, segment_ids?: int32, word_embedding: T, position_embedding: T, "
                               "segment_embedding?: T, gamma: T, beta: T, mask?: int32, position_ids?: int32) -> "
                               "(output: T, mask_index?: int32, embedding_sum?: T) where T: float",
                  .attrs = "epsilon: float = 1e-12; mask_index_type: int = 0"},
     .meaning = {.infer = infer_embed, .eval = eval_embed, .body = embed_layer_norm, .freedom = kOnce},
     .analysis = {.hazards = embed_layer_norm_hazards()}},
    {.identity = {.name = "GroupNorm",
                  .domain = kMicrosoft,
                  .summary = "group normalisation of channels-last images, then perhaps SiLU",
                  .signature = "(X: T, gamma: M, beta: M) -> (Y: T) where T: float, M: float",
                  .attrs = kGroupAttrs},
     .meaning = {.infer = infer_group_norm, .body = group_norm, .freedom = kOnce},
     .analysis = {.range = range_image_group_norm, .hazards = image_group_norm_hazards()}},
    {.identity = {.name = "SkipGroupNorm",
                  .domain = kMicrosoft,
                  .summary = "group normalisation of x + skip + bias, then perhaps SiLU",
                  .signature = "(X: T, gamma: M, beta: M, skip: T, bias?: T) -> (Y: T, S?: T) where T: float, M: float",
                  .attrs = kGroupAttrs},
     .meaning = {.infer = infer_group_norm, .body = skip_group_norm, .freedom = kOnce},
     .analysis = {.range = range_skip_group_norm, .hazards = skip_group_norm_hazards()}},
};

}  // namespace

std::span<const OpDef> microsoft_norm_ops() { return kOps; }

}  // namespace finity
