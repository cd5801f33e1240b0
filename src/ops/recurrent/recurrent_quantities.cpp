// The quantity of recurrent layers (quantities.h): gates must fit their format.
#include "ops/recurrent/recurrent_attrs.h"
#include "ops/table/quantities.h"

namespace finity {

namespace {

// What the input alone brings to the gates of each step: x W^T + Wb + Rb. What the state adds is left out: it is
// computed from step to step, and mostly between -1 and 1.
ValueId gates_from_input(BuildCall& call) {
  ValueId x = in_float64(call, call.in(0));
  if (read_recurrent(call).batch_first) x = transposed(call, x, {1, 0, 2});
  const ValueId steps = call.add("Unsqueeze", {x, call.ints({1})});  // [time, 1, batch, input]
  const ValueId weights = transposed(call, in_float64(call, call.in(1)), {0, 2, 1});
  const ValueId gates = call.add("MatMul", {steps, weights});  // [time, directions, batch, gates]
  if (!call.has_input(3)) return gates;
  const ValueId halves = reshaped(call, in_float64(call, call.in(3)), {0, 2, -1});
  return call.sum(gates, reduced(call, "ReduceSum", halves, {1}));
}

constexpr Hazard kRecurrent[] = {
    {.rule = "FN204", .operand = 0, .unsafe = unsafe_beyond_largest, .quantity = gates_from_input}};

}  // namespace

Hazards recurrent_hazards() { return kRecurrent; }

}  // namespace finity
