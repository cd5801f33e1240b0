// Normalisations of whole rows: layer, RMS, group. See norm_stages.h for their two stages.
#include "base/error.h"
#include "ops/norm/norm_attrs.h"
#include "ops/norm/norm_gradient.h"
#include "ops/norm/norm_range.h"
#include "ops/norm/norm_stages.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

// ---- LayerNormalization, RMSNormalization ----------------------------------

// Sizes of the per-row statistics: those before the axis, then ones.
template <class D>
std::vector<D> row_sizes(std::vector<D> sizes, std::size_t axis, const D& one) {
  for (std::size_t i = axis; i < sizes.size(); ++i) sizes[i] = one;
  return sizes;
}

// Tells where the outputs after Y come from: LayerNormalization has Mean and InvStdDev, the RMS forms at most the
// latter.
template <Centre C>
void eval_row_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  const Dims stats = row_sizes<std::int64_t>(x.dims(), axis, 1);
  const Standardized rows = standardize_rows(x, element_count(stats), stash_type(call), call.real("epsilon"), C);
  const Tensor* bias = call.has_input(2) ? &call.in(2) : nullptr;
  call.out(0, scale_and_shift(rows.normalized, call.in(1), bias, call.in(1).dtype()));
  const std::size_t deviation_output = C == Centre::mean ? 2 : 1;
  if (C == Centre::mean && call.has_output(1)) call.out(1, rows.mean.reshaped(stats));
  if (call.has_output(deviation_output)) call.out(deviation_output, rows.inverse_deviation.reshaped(stats));
}

void infer_row_norm(InferCall& call) {
  const DType stash = stash_type(call);
  for (std::size_t i = 1; i < call.output_count(); ++i) call.set_dtype(i, stash);
  if (!call.ranked(0)) return;
  const std::size_t axis = normalize_axis(call.integer("axis"), call.rank(0));
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    if (!call.ranked(i)) continue;
    if (call.rank(i) > call.rank(0)) throw Error("input " + std::to_string(i) + " has a higher rank than X");
    broadcast(call.shape(0), call.shape(i));  // throws when they do not fit
  }
  call.set_shape(0, call.shape(0));
  for (std::size_t i = 1; i < call.output_count(); ++i) call.set_shape(i, row_sizes(call.shape(0), axis, Dim::of(1)));
}

// ---- GroupNormalization ----------------------------------------------------

std::int64_t channels_per_group(std::int64_t channels, std::int64_t groups) {
  if (groups <= 0 || channels % groups != 0) {
    throw Error("attribute 'num_groups' is " + std::to_string(groups) + ", which does not divide " +
                std::to_string(channels) + " channels");
  }
  return channels / groups;
}

// Scale or bias as [C, 1, ..., 1]. Up to opset 20 there is one per group, from 21 on one per channel.
Tensor per_channel(const Tensor& parameter, const Call& call, const Tensor& x) {
  const std::int64_t channels = x.dim(1);
  const std::int64_t repeat = call.version() < 21 ? channels_per_group(channels, call.integer("num_groups")) : 1;
  if (parameter.dims() != Dims{channels / repeat}) {
    throw Error("scale or bias has shape " + to_string(parameter.dims()) + ", expected one element per " +
                (call.version() < 21 ? "group" : "channel"));
  }
  std::vector<std::int64_t> positions;
  for (std::int64_t channel = 0; channel < channels; ++channel) positions.push_back(channel / repeat);
  Dims dims(x.rank() - 1, 1);
  dims[0] = channels;
  return gather_elements(parameter, std::move(dims), positions);
}

void eval_group_norm(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 2) throw Error("X has shape " + to_string(x.dims()) + ", expected rank 2 or more");
  const std::int64_t groups = call.integer("num_groups");
  channels_per_group(x.dim(1), groups);
  const DType own = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
  const DType stash = call.version() < 21 ? own : stash_type(call);
  if (x.empty()) {
    call.out(0, x);
    return;
  }
  const Standardized rows = standardize_rows(x, x.dim(0) * groups, stash, call.real("epsilon"), Centre::mean);
  const Tensor bias = per_channel(call.in(2), call, x);
  call.out(0, scale_and_shift(rows.normalized, per_channel(call.in(1), call, x), &bias, x.dtype()));
}

void infer_group_norm(InferCall& call) {
  if (call.version() >= 21) stash_type(call);  // throws when it is no float type
  require_min_rank(call, 0, 2);
  require_rank(call, 1, 1);
  require_rank(call, 2, 1);
  if (call.ranked(0) && call.shape(0)[1].known()) channels_per_group(call.shape(0)[1].size, call.integer("num_groups"));
  infer_same_shape(call);
}

constexpr std::string_view kRowAttrs = "axis: int = -1; epsilon: float = 1e-05; stash_type: int = 1";
constexpr std::string_view kTwoStages =
    "standardises in stash_type with two-pass variance and pairwise sums, casts back, then scales in the dtype";

// ---- drawing ---------------------------------------------------------------

// Scale, and perhaps bias, of the axes that are standardised; now and then with an axis of size 1 in front.
bool draw_row_parameters(DrawCall& call, bool has_bias) {
  const std::int64_t axis = call.integer("axis", -1), first = axis < 0 ? axis + call.rank() : axis;
  if (first < 0 || first > call.rank()) return false;
  Dims each(call.dims().begin() + first, call.dims().end());
  if (call.chance(15)) each.insert(each.begin(), 1);
  call.add_floats(each);
  if (has_bias && call.chance(60)) call.add_floats(each);
  return true;
}

bool draw_layer_norm(DrawCall& call) { return draw_row_parameters(call, true); }
bool draw_rms_norm(DrawCall& call) { return draw_row_parameters(call, false); }

// Scale and bias are per group before opset 21, per channel from then on.
bool draw_group_norm(DrawCall& call) {
  const std::int64_t each = call.opset() < 21 ? call.integer("num_groups", 1) : call.channels();
  for (int i = 0; i < 2; ++i) call.add_floats({each});
  return true;
}

const OpDef kOps[] = {
    // ONNX has it from opset 17 on; ONNX Runtime's exporters wrote the same op into older models.
    {.identity = {.name = "LayerNormalization",
                  .summary =
                      "(x - mean) / sqrt(variance + epsilon) over the axes from `axis` on, times scale, plus bias",
                  .signature =
                      "(X: T, Scale: V, B?: V) -> (Y: V, Mean?: float, InvStdDev?: float) where T: float, V: float",
                  .attrs = kRowAttrs},
     .meaning = {.infer = infer_row_norm, .eval = eval_row_norm<Centre::mean>, .freedom = kTwoStages},
     .analysis = {.range = range_layer_norm,
                  .vjp = layer_norm_gradient,
                  .hazards = layer_norm_hazards(),
                  .grants = {.ways = {Way::broadcast_differs},
                             .elsewhere = {Way::difference_of_squares},
                             .measured_on = kOnnxRuntime}},
     .traits = {.cancels = true},
     .drawing = {.operands = draw_layer_norm, .since = 17, .often = 1}},
    // ONNX Runtime's spelling, in the default domain, of what became RMSNormalization.
    {.identity = {.name = "SimplifiedLayerNormalization",
                  .summary = "x / sqrt(mean(x^2) + epsilon) over the axes from `axis` on, times scale",
                  .signature = "(X: T, scale: V) -> (Y: V, InvStdDev?: float) where T: float, V: float",
                  .attrs = kRowAttrs},
     .meaning = {.infer = infer_row_norm, .eval = eval_row_norm<Centre::zero>, .freedom = kTwoStages},
     .analysis = {.range = range_rms_norm, .vjp = rms_norm_gradient, .hazards = rms_norm_hazards()},
     .drawing = {.never = true}},
    {.identity = {.name = "RMSNormalization",
                  .since = 23,
                  .summary = "x / sqrt(mean(x^2) + epsilon) over the axes from `axis` on, times scale",
                  .signature = "(X: T, scale: V) -> (Y: V) where T: float, V: float",
                  .attrs = kRowAttrs},
     .meaning = {.infer = infer_row_norm, .eval = eval_row_norm<Centre::zero>, .freedom = kTwoStages},
     .analysis = {.range = range_rms_norm, .vjp = rms_norm_gradient, .hazards = rms_norm_hazards()},
     .drawing = {.operands = draw_rms_norm}},
    {.identity =
         {.name = "GroupNormalization",
          .since = 18,
          .summary = "(x - mean) / sqrt(variance + epsilon) per instance and group of channels, times scale, plus bias",
          .signature = "(X: T, scale: T, bias: T) -> (Y: T) where T: float",
          .attrs = "epsilon: float = 1e-05; num_groups: int; stash_type: int = 1"},
     .meaning = {.infer = infer_group_norm, .eval = eval_group_norm, .freedom = kTwoStages},
     .analysis = {.range = range_group_norm,
                  .vjp = group_norm_gradient,
                  .hazards = group_norm_hazards(),
                  .grants = {.ways = {Way::difference_of_squares}, .measured_on = kOnnxRuntime}},
     .traits = {.cancels = true},
     .drawing = {.operands = draw_group_norm, .first = FirstOperand::image}},
};

}  // namespace

std::span<const OpDef> norm_ops() { return kOps; }

}  // namespace finity
