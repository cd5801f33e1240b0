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

}  // namespace

void alias_gradient(BuildCall& call) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < call.input_count(); ++i) inputs.push_back(call.in(i));
  call.give_through(call.add_all(call.op().identity.name, std::move(inputs), call.output_count(), call.attrs()));
}

// ---- spellings of other ops --------------------------------------------------

void expand_dims_gradient(BuildCall& call) { call.give(0, reshape_like(call, call.grad(0), call.in(0))); }

// pads may be a row.
void microsoft_pad_gradient(BuildCall& call) {
  const ValueId pads = reshape_to(call, call.in(1), {-1});
  Attrs attrs;
  attrs.set("mode", call.text("mode"));
  give_through_one(call, call.add("Pad", {call.in(0), pads, call.in(2)}, std::move(attrs)));
}

// Indices may be narrower than those of the default domain.
void gather_nd_gradient(BuildCall& call) {
  give_through_one(call, call.add("GatherND", {call.in(0), call.cast(call.in(1), DType::int64)}));
}

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

}  // namespace finity
