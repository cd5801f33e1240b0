#include "ops/extra/microsoft/microsoft_gradient.h"

#include <string>

#include "base/error.h"
#include "ops/reduce/reduce_gradient.h"
#include "ops/shared/shapes.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void give_through_one(BuildCall& call, ValueId result) {
  const ValueId results[] = {result};
  call.give_through(results);
}

Attrs axis_attr(std::int64_t axis) {
  Attrs attrs;
  attrs.set("axis", axis);
  return attrs;
}

ValueId plus_operand(BuildCall& call, ValueId x, std::size_t i) {
  return call.has_input(i) ? call.sum(x, call.in(i)) : x;
}

}  // namespace

void alias_gradient(BuildCall& call) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i) inputs.push_back(call.in(i));
  call.give_through(call.add_all(call.op().identity.name, std::move(inputs), call.output_count(), call.attrs()));
}

// ---- activations -------------------------------------------------------------

void split_gelu_gradient(BuildCall& call) {
  Attrs attrs = axis_attr(-1);
  attrs.set("num_outputs", std::int64_t{2});
  const std::vector<ValueId> halves = call.add_all("Split", {plus_operand(call, call.in(0), 1)}, 2, std::move(attrs));
  give_through_one(call, call.product(halves[0], call.add("Gelu", {halves[1]})));
}

void bias_softmax_gradient(BuildCall& call) {
  const std::size_t rank = call.rank(call.out(0));
  const auto axes = axes_from(normalize_axis(call.integer("axis"), rank), rank);
  const ValueId gradient = softmax_slope(call, call.out(0), call.grad(0), axes);
  call.give(0, gradient);
  call.give(1, gradient);
}

// ---- spellings of other ops --------------------------------------------------

void expand_dims_gradient(BuildCall& call) { call.give(0, reshape_like(call, call.grad(0), call.in(0))); }

// Indices may be narrower than those of the default domain.
void gather_nd_gradient(BuildCall& call) {
  give_through_one(call, call.add("GatherND", {call.in(0), call.cast(call.in(1), DType::int64)}));
}

void embedding_gradient(BuildCall& call) { give_through_one(call, call.add("Gather", {call.in(0), call.in(1)})); }

void loss_internal_gradient(BuildCall& call) {
  Attrs attrs;
  attrs.set("reduction", call.text("reduction"));
  if (call.has_input(3)) {
    const Tensor* ignored = call.known(call.in(3));
    if (ignored == nullptr) throw Unsupported("its derivative needs to know ignore_index");
    attrs.set("ignore_index", element_as_int(*ignored, 0));
  }
  call.give_through(call.add_all("SoftmaxCrossEntropyLoss", {call.in(0), call.in(1), call.in(2)}, 2, std::move(attrs)));
}

void scale_gradient(BuildCall& call) {
  const DType format = call.in_type(0).dtype;
  const ValueId scale = call.cast(call.in(1), format);
  const bool down = call.integer("scale_down") != 0;
  give_through_one(call, down ? call.quotient(call.in(0), scale) : call.product(call.in(0), scale));
}

// ---- norms -------------------------------------------------------------------

namespace {

// Statistics of narrow floats are computed in float32.
DType wide_format(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

Attrs norm_attrs(const BuildCall& call, DType stash) {
  Attrs attrs;
  attrs.set("epsilon", static_cast<float>(call.real("epsilon")));
  attrs.set("stash_type", static_cast<std::int64_t>(stash));
  return attrs;
}

}  // namespace

void skip_layer_norm_gradient(BuildCall& call) {
  const DType wide = wide_format(call.in_type(0).dtype);
  const ValueId sum = plus_operand(call, call.sum(call.in(0), call.in(1)), 4);
  const std::vector<ValueId> rows =
      call.add_all("LayerNormalization", {sum, call.in(2), call.in(3)}, 3, norm_attrs(call, wide));
  const ValueId results[] = {rows[0], call.cast(rows[1], DType::float32), call.cast(rows[2], DType::float32), sum};
  call.give_through(results);
}

// Its mean is always 0.
void skip_rms_norm_gradient(BuildCall& call) {
  const DType wide = wide_format(call.in_type(0).dtype);
  const ValueId sum = plus_operand(call, call.sum(call.in(0), call.in(1)), 3);
  const std::vector<ValueId> rows =
      call.add_all("SimplifiedLayerNormalization", {sum, call.in(2)}, 2, norm_attrs(call, wide));
  const ValueId results[] = {rows[0], ValueId{}, call.cast(rows[1], DType::float32), sum};
  call.give_through(results);
}

void embed_layer_norm_gradient(BuildCall& call) {
  const ValueId words = call.add("Gather", {call.in(2), call.in(0)});
  ValueId positions = call.in(8);
  if (!positions.valid()) {
    const ValueId length = call.add("Gather", {call.add("Shape", {call.in(0)}), call.scalar(1, DType::int64)});
    positions = call.add("Range", {call.scalar(0, DType::int64), length, call.scalar(1, DType::int64)});
  }
  ValueId sum = call.sum(words, call.add("Gather", {call.in(3), positions}));
  if (call.has_input(1) && call.has_input(4)) sum = call.sum(sum, call.add("Gather", {call.in(4), call.in(1)}));
  const DType wide = wide_format(call.in_type(2).dtype);
  const ValueId rows = call.add("LayerNormalization", {sum, call.in(5), call.in(6)}, norm_attrs(call, wide));
  const ValueId results[] = {rows, ValueId{}, sum};
  call.give_through(results);
}

// Channels become the second axis and go back. The skip of SkipGroupNorm is an image, or one number per channel.
void image_group_norm_gradient(BuildCall& call) {
  const bool last = call.integer("channels_last") != 0;
  const DType own = call.in_type(0).dtype, wide = wide_format(own);
  const auto moved = [&](ValueId x, std::vector<std::int64_t> order) {
    Attrs attrs;
    attrs.set("perm", std::move(order));
    return last ? call.add("Transpose", {x}, std::move(attrs)) : x;
  };
  const std::vector<std::int64_t> between = last ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2, 3};
  ValueId sum = call.in(0);
  if (call.has_input(3)) {
    const ValueId skip = call.in(3);
    sum = call.sum(sum, call.rank(skip) == 2 ? unsqueeze(call, skip, between) : skip);
  }
  if (call.has_input(4)) sum = call.sum(sum, last ? call.in(4) : unsqueeze(call, call.in(4), {1, 2}));
  Attrs attrs = norm_attrs(call, wide);
  attrs.set("num_groups", call.integer("groups"));
  const ValueId image = moved(call.cast(sum, wide), {0, 3, 1, 2});
  ValueId y = call.add("GroupNormalization", {image, call.cast(call.in(1), wide), call.cast(call.in(2), wide)},
                       std::move(attrs));
  if (call.integer("activation") == 1) y = call.product(y, call.add("Sigmoid", {y}));
  const ValueId results[] = {call.cast(moved(y, {0, 2, 3, 1}), own), sum};
  call.give_through(results);
}

}  // namespace finity
