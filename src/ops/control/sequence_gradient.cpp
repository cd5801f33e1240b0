#include "ops/control/sequence_gradient.h"

#include "ops/movement/move_gradient.h"

namespace finity {

namespace {

// An item of a sequence, of which the types of all items say less than those of one operand.
ValueId like_operand(BuildCall& call, ValueId item, ValueId operand) {
  return call.dims(operand) ? reshape_like(call, item, operand) : item;
}

ValueId int_like(BuildCall& call, double number, ValueId position) {
  return call.scalar(number, call.type(position).dtype);
}

// The position with `shift` added where it counts from the back.
ValueId shifted_from_back(BuildCall& call, ValueId position, ValueId shift) {
  const ValueId from_back = call.add("Less", {position, int_like(call, 0, position)});
  return call.add("Where", {from_back, call.sum(position, shift), position});
}

// Where an item that was inserted at operand `input` is found in the longer sequence.
ValueId place_of_inserted(BuildCall& call, std::size_t input) {
  if (!call.has_input(input)) return call.scalar(-1, DType::int64);
  const ValueId position = call.in(input);
  return shifted_from_back(call, position, int_like(call, -1, position));
}

// `item` put back into `rest`, a sequence that lacks what operand 0 has at the position; no position: at the end.
ValueId put_back(BuildCall& call, ValueId rest, ValueId item, ValueId position) {
  if (!position.valid()) return call.add("SequenceInsert", {rest, item});
  const ValueId length = call.cast(call.add("SequenceLength", {call.in(0)}), call.type(position).dtype);
  return call.add("SequenceInsert", {rest, item, shifted_from_back(call, position, length)});
}

}  // namespace

// ---- sequences ---------------------------------------------------------------

bool drops_axis(const Call& call) { return !call.has_input(1) && call.integer("keepdims") == 0; }

void sequence_construct_gradient(BuildCall& call) {
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.wanted(i)) continue;
    const ValueId place = call.scalar(static_cast<double>(i), DType::int64);
    call.give(i, like_operand(call, call.add("SequenceAt", {call.grad(0), place}), call.in(i)));
  }
}

// Zeros for all items but one.
void sequence_at_gradient(BuildCall& call) {
  const ValueId others = call.add("SequenceErase", {call.zeros_like(call.in(0)), call.in(1)});
  call.give(0, put_back(call, others, call.grad(0), call.in(1)));
}

void sequence_insert_gradient(BuildCall& call) {
  const ValueId place = place_of_inserted(call, 2);
  if (call.wanted(0)) call.give(0, call.add("SequenceErase", {call.grad(0), place}));
  if (call.wanted(1)) call.give(1, like_operand(call, call.add("SequenceAt", {call.grad(0), place}), call.in(1)));
}

void sequence_erase_gradient(BuildCall& call) {
  const ValueId position = call.has_input(1) ? call.in(1) : call.scalar(-1, DType::int64);
  const ValueId erased = call.add("SequenceAt", {call.in(0), position});
  call.give(0, put_back(call, call.grad(0), call.zeros_like(erased), call.in(1)));
}

void concat_from_sequence_gradient(BuildCall& call) {
  Attrs attrs = with_attr("axis", call.integer("axis"));
  if (call.integer("new_axis") == 0) {
    return call.give(0, call.add("finity:SplitLike", {call.grad(0), call.in(0)}, std::move(attrs)));
  }
  attrs.set("keepdims", std::int64_t{0});
  call.give(0, call.add("SplitToSequence", {call.grad(0)}, std::move(attrs)));
}

void split_to_sequence_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  // Nothing was cut into no pieces, which cannot be joined.
  if (call.in_type(0).elements().size == 0) return call.give(0, call.zeros_like(call.in(0)));
  Attrs attrs = with_attr("axis", call.integer("axis"));
  attrs.set("new_axis", std::int64_t{drops_axis(call) ? 1 : 0});
  const ValueId joined = call.add("ConcatFromSequence", {call.grad(0)}, std::move(attrs));
  call.give(0, like_operand(call, joined, call.in(0)));
}

void optional_gradient(BuildCall& call) { call.give(0, call.grad(0)); }

// ---- arrays ------------------------------------------------------------------

namespace {

bool adds(const Call& call) { return call.integer("accumulate") != 0; }

// Of the array: what was replaced has no gradient.
void give_what_stayed(BuildCall& call, std::string_view op) {
  if (!call.wanted(0)) return;
  if (adds(call)) return call.give(0, call.grad(0));
  call.give(0, call.add(op, {call.grad(0), call.in(1), call.zeros_like(call.in(2))}));
}

}  // namespace

void array_write_gradient(BuildCall& call) {
  give_what_stayed(call, "finity:ArrayWrite");
  if (call.wanted(2)) call.give(2, call.add("Gather", {call.grad(0), reshape_to(call, call.in(1), {})}));
}

void array_scatter_gradient(BuildCall& call) {
  give_what_stayed(call, "finity:ArrayScatter");
  // Of several values for the same element only the last one stays, unless they are added.
  if (!adds(call)) return scatter_back(call, 2, {0});
  if (call.wanted(2)) call.give(2, call.add("Gather", {call.grad(0), call.in(1)}));
}

void array_push_gradient(BuildCall& call) {
  if (call.wanted(0)) call.give(0, call.add("Slice", {call.grad(0), call.ints({0}), call.ints({-1}), call.ints({0})}));
  if (call.wanted(1)) call.give(1, call.add("Gather", {call.grad(0), call.scalar(-1, DType::int64)}));
}

}  // namespace finity
