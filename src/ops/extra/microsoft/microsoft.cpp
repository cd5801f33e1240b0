// Ops of ONNX Runtime's own domain: activations with a fused bias, and older
// spellings of what the default domain has. The larger groups have files of their own.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/extra/microsoft/microsoft_gradient.h"
#include "ops/extra/microsoft/microsoft_range.h"
#include "ops/movement/move_gradient.h"
#include "ops/reduce/reduce_attrs.h"
#include "ops/shared/delegate.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// ---- activations -----------------------------------------------------------------

void infer_biased(InferCall& call) {
  infer_same_shape(call);
  if (call.has_input(1)) require_bias(call, 1, call.in(0));
}

void infer_bias_add(InferCall& call) {
  infer_biased(call);
  if (!call.ranked(0) || !call.ranked(2)) return;
  require_rank(call, 2, call.rank(0));
  for (std::size_t i = 0; i < call.rank(0); ++i) {
    const Dim &x = call.shape(0)[i], &skip = call.shape(2)[i];
    if (x.known() && skip.known() && x.size != skip.size) throw Error("input skip differs in shape from X");
  }
}

void infer_split_gelu(InferCall& call) {
  if (!call.ranked(0)) return;
  require_min_rank(call, 0, 1);
  require_bias(call, 1, call.in(0));
  Shape shape = call.shape(0);
  if (shape.back().known() && shape.back().size % 2 != 0) {
    throw Error("the last dimension " + std::to_string(shape.back().size) + " is odd");
  }
  shape.back() = shape.back().known() ? Dim::of(shape.back().size / 2) : Dim{};
  call.set_shape(0, std::move(shape));
}

// The bias does not make the result larger.
void infer_bias_softmax(InferCall& call) {
  infer_same_shape(call);
  if (!call.ranked(0) || !call.ranked(1)) return;
  const std::optional<Dims> data = call.in(0).dims(), bias = call.in(1).dims();
  if (data && bias && broadcast(*data, *bias) != *data) {
    throw Error("the bias has shape " + to_string(*bias) + ", which does not fit " + to_string(*data));
  }
}

// The left half of each row times the gelu of the right half.
std::vector<ValueId> split_gelu(BuildCall& call) {
  Attrs attrs;
  attrs.set("axis", std::int64_t{-1});
  attrs.set("num_outputs", std::int64_t{2});
  const auto halves = call.add_all("Split", {call.sum(call.in(0), call.in(1))}, 2, std::move(attrs));
  return {call.product(halves[0], call.add("Gelu", {halves[1]}))};
}

// Softmax over all axes from `axis` on, as the default domain had it before opset 13: of rows when it is not the last.
std::vector<ValueId> bias_softmax(BuildCall& call) {
  const ValueId sum = call.sum(call.in(0), call.in(1));
  const std::size_t rank = call.rank(call.in(0)), axis = normalize_axis(call.integer("axis"), rank);
  if (axis + 1 == rank) return {call.add("Softmax", {sum})};
  Attrs attrs;
  attrs.set("axis", static_cast<std::int64_t>(axis));
  const ValueId rows = call.add("Softmax", {call.add("Flatten", {sum}, std::move(attrs))});
  return {call.add("Reshape", {rows, call.add("Shape", {call.in(0)})})};
}

// ---- spellings of default-domain ops ------------------------------------------------

void out_first(EvalCall& call, const std::vector<Datum>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) call.out(i, outputs[i]);
}

// The op of the same name in the default domain.
template <int Version>
void infer_alias(InferCall& call) {
  infer_as(call, {call.op().identity.name, Version});
}
template <int Version>
void eval_alias(EvalCall& call) {
  out_first(call, eval_as(call, {call.op().identity.name, Version}));
}

// pads may be a row [1, 2 * rank].
void infer_pad(InferCall& call) {
  if (call.ranked(1) && call.rank(1) == 1) infer_alias<13>(call);
  else if (call.ranked(0)) call.set_shape(0, Shape(call.rank(0)));
}
void eval_pad(EvalCall& call) {
  const Tensor& pads = call.in(1);
  Attrs attrs;
  attrs.set("mode", call.text("mode"));
  out_first(call, eval_other(call, {"Pad", 13}, std::move(attrs),
                             {call.datum(0), pads.reshaped({pads.size()}), call.datum(2)}));
}

// delta may be missing, and all may have the shape [1].
void infer_range(InferCall& call) { call.set_shape(0, {Dim{}}); }
void eval_range(EvalCall& call) {
  const auto scalar = [&](std::size_t i) { return Datum(call.in(i).reshaped({})); };
  const Datum one = from_elements<std::int64_t>(call.in(0).dtype(), {}, std::vector<std::int64_t>{1});
  out_first(call, eval_other(call, {"Range", 11}, {}, {scalar(0), scalar(1), call.has_input(2) ? scalar(2) : one}));
}

void infer_unique(InferCall& call) {
  for (const std::size_t output : {0, 2}) call.set_shape(output, {Dim{}});
  if (call.ranked(0)) call.set_shape(1, call.shape(0));
}
void eval_unique(EvalCall& call) {
  require_rank(call.in(0), "x", 1);
  Attrs attrs;
  attrs.set("sorted", std::int64_t{0});
  const std::vector<Datum> outputs = eval_other(call, {"Unique", 11}, std::move(attrs), {call.datum(0)}, 4);
  call.out(0, outputs[0]);
  call.out(1, outputs[2]);
  call.out(2, outputs[3]);
}

void infer_expand_dims(InferCall& call) {
  const auto axis = call.ints(1);
  if (!call.ranked(0) || !axis || axis->empty()) return;
  Shape shape = call.shape(0);
  const std::size_t at = normalize_axis(axis->front(), shape.size(), true);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), Dim::of(1));
  call.set_shape(0, std::move(shape));
}
void eval_expand_dims(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (call.in(1).size() != 1) throw Error("axis has shape " + to_string(call.in(1).dims()));
  Dims dims = x.dims();
  const std::size_t at = normalize_axis(element_as_int(call.in(1), 0), x.rank(), true);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at), 1);
  call.out(0, x.reshaped(std::move(dims)));
}

DType sum_type(DType dtype) { return dtype == DType::uint8 ? DType::uint32 : DType::int32; }
void infer_reduce_sum_integer(InferCall& call) {
  infer_as(call, {"ReduceSum", 11});
  if (call.in(0).dtype != DType::undefined) call.set_dtype(0, sum_type(call.in(0).dtype));
}
std::vector<ValueId> reduce_sum_integer(BuildCall& call) {
  const ReduceAttrs own = read_reduce(call, std::nullopt).value();
  Attrs attrs;
  attrs.set("keepdims", std::int64_t{own.keep ? 1 : 0});
  const ValueId axes = own.axes.empty() ? ValueId{} : call.ints(own.axes);
  return {call.add("ReduceSum", {call.cast(call.in(0), sum_type(call.in_type(0).dtype)), axes}, std::move(attrs))};
}

void infer_embedding(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1)) return;
  require_rank(call, 0, 2);
  Shape shape = call.shape(1);
  shape.push_back(call.shape(0)[1]);
  call.set_shape(0, std::move(shape));
}

// The training form of the loss: ignore_index is an input.
void eval_loss(EvalCall& call) {
  Attrs attrs;
  attrs.set("reduction", call.text("reduction"));
  if (call.has_input(3)) {
    if (call.in(3).size() != 1) throw Error("ignore_index has shape " + to_string(call.in(3).dims()));
    attrs.set("ignore_index", element_as_int(call.in(3), 0));
  }
  out_first(call, eval_other(call, {"SoftmaxCrossEntropyLoss", 13}, std::move(attrs),
                             {call.datum(0), call.datum(1), call.datum(2)}, 2));
}
void infer_loss(InferCall& call) {
  if (call.ranked(0)) call.set_shape(1, call.shape(0));
  if (call.text("reduction") != "none") call.set_shape(0, {});
  else if (call.ranked(1)) call.set_shape(0, call.shape(1));
}

void eval_scale(EvalCall& call) {
  if (call.in(1).size() != 1) throw Error("scale has shape " + to_string(call.in(1).dims()));
  const double scale = element_as_double(call.in(1), 0);
  const bool down = call.integer("scale_down") != 0;
  call.out(0, map_unary(call.in(0), call.in(0).dtype(), [=](auto element) {
             const auto x = static_cast<double>(element);
             return down ? x / scale : x * scale;
           }));
}

// ---- RelativePositionBias --------------------------------------------------------------

struct Buckets {
  std::int64_t count = 0;
  std::int64_t max_distance = 0;
  bool bidirectional = false;

  // T5's: one bucket per small distance, then logarithmically wider ones.
  std::int64_t of(std::int64_t distance) const {
    std::int64_t half = count, start = 0;
    if (bidirectional) {
      half /= 2;
      if (distance > 0) start = half;
      distance = std::abs(distance);
    } else {
      distance = std::max<std::int64_t>(-distance, 0);
    }
    const std::int64_t exact = half / 2;
    if (distance < exact) return start + distance;
    const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
    const auto step = static_cast<std::int64_t>(ratio * static_cast<float>(half - exact));
    return start + std::min(exact + step, half - 1);
  }
};

void infer_position_bias(InferCall& call) {
  const auto length = [&](std::size_t i) {
    const auto values = call.ints(i);
    return values && values->size() == 1 && values->front() >= 0 ? Dim::of(values->front()) : Dim{};
  };
  const Dim heads = call.ranked(0) && call.rank(0) == 2 ? call.shape(0)[1] : Dim{};
  call.set_shape(0, {Dim::of(1), heads, length(1), length(2)});
}

void eval_position_bias(EvalCall& call) {
  const Tensor& table = call.in(0);
  require_rank(table, "bias_table", 2);
  if (call.in(1).size() != 1 || call.in(2).size() != 1) throw Error("query_length and key_length are single numbers");
  const Buckets buckets{table.dim(0), call.integer("max_distance"), call.integer("is_bidirectional") != 0};
  if (buckets.count < (buckets.bidirectional ? 4 : 2) || buckets.max_distance <= buckets.count / 2) {
    throw Error("bias_table of shape " + to_string(table.dims()) + " does not fit max_distance " +
                std::to_string(buckets.max_distance));
  }
  const std::int64_t queries = element_as_int(call.in(1), 0), keys = element_as_int(call.in(2), 0);
  const Dims dims{1, table.dim(1), queries, keys};
  require_computable(dims);
  std::vector<std::int64_t> positions;
  for (std::int64_t head = 0; head < table.dim(1); ++head) {
    for (std::int64_t i = 0; i < queries; ++i) {
      // The table is stored column by column: the buckets of one head follow each other.
      for (std::int64_t j = 0; j < keys; ++j) positions.push_back(head * buckets.count + buckets.of(j - i));
    }
  }
  call.out(0, gather_elements(table, dims, positions));
}

constexpr std::string_view kOnce = "rounds once";

const OpDef kOps[] = {
    {.identity = {.name = "Gelu",
                  .domain = kMicrosoft,
                  .summary = "x times the normal distribution function of x",
                  .signature = "(X: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_same_shape, .body = formula<"Gelu(X)">, .freedom = kOnce},
     .traits = {.elementwise = true}},
    {.identity = {.name = "FastGelu",
                  .domain = kMicrosoft,
                  .summary = "gelu of x + bias, approximated with tanh",
                  .signature = "(X: T, bias?: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_biased, .body = formula<"Gelu(Add(X, bias?), approximate='tanh')">, .freedom = kOnce},
     .traits = {.elementwise = true}},
    {.identity = {.name = "QuickGelu",
                  .domain = kMicrosoft,
                  .summary = "x * sigmoid(alpha * x)",
                  .signature = "(X: T) -> (Y: T) where T: float",
                  .attrs = "alpha: float = 1.702"},
     .meaning = {.infer = infer_same_shape, .body = formula<"Swish(X, alpha=alpha)">, .freedom = kOnce},
     .traits = {.elementwise = true}},
    {.identity = {.name = "BiasGelu",
                  .domain = kMicrosoft,
                  .summary = "gelu of A + B, B per element of the last axis",
                  .signature = "(A: T, B: T) -> (C: T) where T: float"},
     .meaning = {.infer = infer_biased, .body = formula<"Gelu(Add(A, B))">, .freedom = kOnce},
     .traits = {.elementwise = true}},
    {.identity = {.name = "BiasSplitGelu",
                  .domain = kMicrosoft,
                  .summary = "left half times gelu of the right half of each row of X + bias",
                  .signature = "(X: T, bias: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_split_gelu, .body = split_gelu, .freedom = kOnce}},
    {.identity = {.name = "BiasAdd",
                  .domain = kMicrosoft,
                  .summary = "X + bias + skip, the bias per element of the last axis",
                  .signature = "(X: T, bias: T, skip: T) -> (Y: T) where T: float"},
     .meaning = {.infer = infer_bias_add, .body = formula<"Add(Add(X, bias), skip)">, .freedom = kOnce}},
    {.identity = {.name = "BiasSoftmax",
                  .domain = kMicrosoft,
                  .summary = "softmax of data + bias over all axes from `axis` on",
                  .signature = "(data: T, bias: T) -> (output: T) where T: float",
                  .attrs = "axis: int = 1; is_inner_broadcast: int"},
     .meaning = {.infer = infer_bias_softmax, .body = bias_softmax, .freedom = kOnce},
     .analysis = {.hazards = bias_softmax_hazards()}},
    // The two norms were written into this domain too by older exporters.
    {.identity = {.name = "LayerNormalization",
                  .domain = kMicrosoft,
                  .summary =
                      "(x - mean) / sqrt(variance + epsilon) over the axes from `axis` on, times scale, plus bias",
                  .signature =
                      "(X: T, Scale: V, B?: V) -> (Y: V, Mean?: float, InvStdDev?: float) where T: float, V: float",
                  .attrs = "axis: int = -1; epsilon: float = 1e-05; stash_type: int = 1"},
     .meaning = {.infer = infer_alias<17>, .eval = eval_alias<17>},
     .analysis = {.range = range_alias<17>, .vjp = alias_gradient, .hazards = layer_norm_hazards()}},
    {.identity = {.name = "SimplifiedLayerNormalization",
                  .domain = kMicrosoft,
                  .summary = "x / sqrt(mean(x^2) + epsilon) over the axes from `axis` on, times scale",
                  .signature = "(X: T, scale: V) -> (Y: V, InvStdDev?: float) where T: float, V: float",
                  .attrs = "axis: int = -1; epsilon: float = 1e-05; stash_type: int = 1"},
     .meaning = {.infer = infer_alias<1>, .eval = eval_alias<1>},
     .analysis = {.range = range_alias<1>, .vjp = alias_gradient, .hazards = rms_norm_hazards()}},
    {.identity = {.name = "Trilu",
                  .domain = kMicrosoft,
                  .summary = "upper or lower triangle of matrices, zeros elsewhere",
                  .signature = "(X: T, k?: int64) -> (Y: T) where T: number | bool",
                  .attrs = "upper: int = 1"},
     .meaning = {.infer = infer_alias<14>, .eval = eval_alias<14>},
     .analysis = {.range = range_alias<14>, .vjp = alias_gradient}},
    {.identity = {.name = "GatherND",
                  .domain = kMicrosoft,
                  .summary = "slices by index tuples",
                  .signature = "(data: T, indices: int32 | int64) -> (output: T) where T: any"},
     .meaning = {.infer = infer_alias<11>, .eval = eval_alias<11>},
     .analysis = {.range = range_alias<11>, .vjp = gather_nd_gradient}},
    {.identity = {.name = "GridSample",
                  .domain = kMicrosoft,
                  .summary = "X interpolated at the positions of a grid",
                  .signature = "(X: T, Grid: T) -> (Y: T) where T: float",
                  .attrs = "mode: string = bilinear {bilinear, nearest, bicubic}; "
                           "padding_mode: string = zeros {zeros, border, reflection}; align_corners: int = 0"},
     .meaning = {.infer = infer_alias<16>, .eval = eval_alias<16>},
     .analysis = {.range = range_alias<16>,
                  .vjp = alias_gradient,
                  .grants = {.ways = {Way::far_weights}, .measured_on = kOnnxRuntime}}},
    {.identity = {.name = "Pad",
                  .domain = kMicrosoft,
                  .summary = "margins of a constant, mirrored or repeated elements",
                  .signature = "(data: T, pads: int64, value?: T) -> (output: T) where T: any",
                  .attrs = "mode: string = constant {constant, reflect, edge}"},
     .meaning = {.infer = infer_pad, .eval = eval_pad},
     .analysis = {.range = range_microsoft_pad, .vjp = microsoft_pad_gradient}},
    {.identity = {.name = "Range",
                  .domain = kMicrosoft,
                  .summary = "start, start + delta, ... up to but not including limit",
                  .signature = "(start: T, limit: T, delta?: T) -> (Y: T) where T: number"},
     .meaning = {.infer = infer_range, .eval = eval_range},
     .analysis = {.range = range_microsoft_range}},
    {.identity = {.name = "Unique",
                  .domain = kMicrosoft,
                  .summary = "distinct elements in order of occurrence, which one each element is, and how often",
                  .signature = "(x: T) -> (y: T, idx: int64, counts: int64) where T: any"},
     .meaning = {.infer = infer_unique, .eval = eval_unique},
     .analysis = {.range = range_microsoft_unique}},
    {.identity = {.name = "ExpandDims",
                  .domain = kMicrosoft,
                  .summary = "a dimension of size 1 at a position",
                  .signature = "(X: T, axis: int32) -> (Y: T) where T: any",
                  .tf = "ExpandDims"},
     .meaning = {.infer = infer_expand_dims, .eval = eval_expand_dims},
     .analysis = {.range = range_expand_dims, .vjp = expand_dims_gradient}},
    {.identity = {.name = "ReduceSumInteger",
                  .domain = kMicrosoft,
                  .summary = "sum of 8-bit integers along axes, in 32 bits",
                  .signature = "(data: int8 | uint8) -> (reduced: int32 | uint32)",
                  .attrs = "axes: ints; keepdims: int = 1"},
     .meaning = {.infer = infer_reduce_sum_integer, .body = reduce_sum_integer}},
    {.identity =
         {.name = "TorchEmbedding",
          .domain = kMicrosoft,
          .summary = "rows of a table",
          .signature =
              "(weight: T, indices: int64, padding_idx?: int64, scale_grad_by_freq?: bool) -> (Y: T) where T: number"},
     .meaning = {.infer = infer_embedding, .body = formula<"Gather(weight, indices)">}},
    {.identity = {.name = "SoftmaxCrossEntropyLossInternal",
                  .domain = kMicrosoft,
                  .summary = "cross entropy of softmax(scores) and labels, and the logarithms of the probabilities",
                  .signature = "(scores: T, labels: I, weights?: T, ignore_index?: int64) -> (output: T, log_prob: T) "
                               "where T: float, I: int32 | int64",
                  .attrs = "reduction: string = mean {none, sum, mean}; output_type: int"},
     .meaning = {.infer = infer_loss, .eval = eval_loss},
     .analysis = {.range = range_loss_internal,
                  .vjp = loss_internal_gradient,
                  .hazards = cross_entropy_loss_hazards(),
                  .overflow = "FN205"}},
    {.identity = {.name = "Scale",
                  .domain = kMicrosoft,
                  .summary = "x times, or divided by, a number",
                  .signature = "(input: T, scale: S) -> (output: T) where T: float, S: float | int32 | int64",
                  .attrs = "scale_down: int = 0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_scale, .freedom = kOnce},
     .analysis =
         {.range = range_microsoft_scale, .vjp = scale_gradient, .hazards = scale_down_hazards(), .overflow = "FN203"}},
    {.identity = {.name = "RelativePositionBias",
                  .domain = kMicrosoft,
                  .summary = "T5's bias per head for the distance of a key from a query",
                  .signature = "(bias_table: T, query_length: int64, key_length: int64) -> (output: T) where T: float",
                  .attrs = "is_bidirectional: int = 0; max_distance: int"},
     .meaning = {.infer = infer_position_bias,
                 .eval = eval_position_bias,
                 .freedom = "buckets are computed in float32"},
     .analysis = {.range = range_shuffled, .vjp = float_movement_gradient}},
};

}  // namespace

std::span<const OpDef> microsoft_ops() { return kOps; }

}  // namespace finity
