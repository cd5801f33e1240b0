// What moves elements without computing anything, and the sizes and numbers that say how.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/convert.h"
#include "torch/script/call.h"
#include "torch/value.h"

namespace finity {

namespace {

void unchanged(ScriptCall& call) { call.give(call.tensor(call.has("self") ? "self" : "input")); }

void dropout(ScriptCall& call) {
  if (call.flag("train")) throw Unsupported("is in training mode");
  unchanged(call);
}

// PyTorch's 0 is a size of 0; without `allowzero` it would mean "as before".
void reshape(ScriptCall& call) {
  const ValueId x = call.tensor("self"), shape = call.int_vector(call.has("shape") ? "shape" : "size");
  call.give(call.add("Reshape", {x, shape}, {{"allowzero", std::int64_t{1}}}));
}

// Axes before stay, those from `start_dim` to the last become one.
void flatten(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  std::int64_t start = call.integer("start_dim", 0), end = call.integer("end_dim", -1);
  if (call.is_ranked(x)) {
    const auto rank = static_cast<std::int64_t>(call.rank(x));
    if (rank == 0) return call.give(call.add("Reshape", {x, call.vector_of({1})}));
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    if (start == end) return call.give(x);
    Ints shape(static_cast<std::size_t>(start), 0);
    shape.push_back(-1);
    if (end == rank - 1) return call.give(call.add("Reshape", {x, call.vector_of(shape)}));
    throw Unsupported("leaves axes behind");
  }
  if (start < 0 || end != -1) throw Unsupported("the rank of its operand is not known");
  Ints shape(static_cast<std::size_t>(start), 0);
  shape.push_back(-1);
  call.give(call.add("Reshape", {x, call.vector_of(shape)}));
}

void permute(ScriptCall& call) {
  Ints order = call.ints("dims");
  for (std::int64_t& axis : order) axis += axis < 0 ? static_cast<std::int64_t>(order.size()) : 0;
  call.give(call.add("Transpose", {call.tensor("self")}, {{"perm", order}}));
}

void transpose(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  Ints order(call.rank(x));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.at(static_cast<std::size_t>(call.axis("dim0", x))),
            order.at(static_cast<std::size_t>(call.axis("dim1", x))));
  call.give(call.add("Transpose", {x}, {{"perm", order}}));
}

void turn(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.rank(x) < 2) return call.give(x);
  call.give(call.add("Transpose", {x}, {{"perm", Ints{1, 0}}}));
}

void concatenate(ScriptCall& call) {
  call.give(call.add("Concat", call.tensors("tensors"), {{"axis", call.integer("dim", 0)}}));
}

void stack(ScriptCall& call) {
  const std::int64_t axis = call.integer("dim", 0);
  std::vector<ValueId> parts;
  for (const ValueId x : call.tensors("tensors")) parts.push_back(call.add("Unsqueeze", {x, call.vector_of({axis})}));
  call.give(call.add("Concat", std::move(parts), {{"axis", axis}}));
}

void squeeze(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (!call.has("dim")) return call.give(call.add("Squeeze", {x}));
  const std::int64_t axis = call.axis("dim", x), size = call.size(x, axis);
  if (size < 0) throw Unsupported("drops an axis only where its size is 1");
  call.give(size == 1 ? call.add("Squeeze", {x, call.vector_of({axis})}) : x);
}

void unsqueeze(ScriptCall& call) {
  call.give(call.add("Unsqueeze", {call.tensor("self"), call.vector_of({call.integer("dim")})}));
}

void slice(ScriptCall& call) {
  const auto vector = [&](const char* name, std::int64_t fallback) {
    if (!call.has(name)) return call.vector_of({fallback});
    const ScriptItem& item = call.argument(name);
    if (!item.id.valid()) return call.vector_of({call.integer(name)});
    return call.add("Reshape", {item.id, call.vector_of({1})});
  };
  call.give(call.add("Slice",
                     {call.tensor("self"), vector("start", 0), vector("end", std::numeric_limits<std::int64_t>::max()),
                      vector("dim", 0), vector("step", 1)}));
}

void select(ScriptCall& call) {
  call.give(call.add("Gather", {call.tensor("self"), call.tensor("index")}, {{"axis", call.integer("dim")}}));
}

void gather(ScriptCall& call) {
  call.give(call.add("GatherElements", {call.tensor("self"), call.tensor("index")}, {{"axis", call.integer("dim")}}));
}

// -1 leaves an axis as it is, and so does 1 here.
void expand(ScriptCall& call) {
  ScriptItem sizes = call.argument("size");
  if (sizes.is_list) throw Unsupported("its sizes are computed");
  Ints shape = call.ints("size");
  for (std::int64_t& size : shape) size = size < 0 ? 1 : size;
  call.give(call.add("Expand", {call.tensor("self"), call.vector_of(shape)}));
}

void expand_as(ScriptCall& call) {
  call.give(call.add("Expand", {call.tensor("self"), call.add("Shape", {call.tensor("other")})}));
}

// As many parts as the script takes.
void chunk(ScriptCall& call) {
  const std::int64_t count = call.integer("chunks");
  ScriptItem list = {.is_list = true};
  const std::vector<ValueId> parts =
      call.add_many("Split", {call.tensor("self")}, {{"axis", call.integer("dim", 0)}, {"num_outputs", count}},
                    static_cast<std::size_t>(count));
  for (const ValueId part : parts) list.items.push_back({.id = part});
  call.give(std::move(list));
}

void pad(ScriptCall& call) {
  if (call.text("mode", "constant") != "constant") throw Unsupported("pads with what is there");
  const ValueId x = call.tensor("self");
  const Ints pads = call.ints("pad");
  const std::size_t rank = call.rank(x);
  Ints ends(2 * rank, 0);
  for (std::size_t i = 0; 2 * i + 1 < pads.size(); ++i) {
    ends.at(rank - 1 - i) = pads[2 * i];
    ends.at(2 * rank - 1 - i) = pads[2 * i + 1];
  }
  call.give(call.add("Pad", {x, call.vector_of(ends), call.number_like(call.real("value", 0), x)}));
}

// ---- element types, sizes and numbers -----------------------------------------------------------------------

// The overloads take a dtype, another tensor, or a device; only the first two change anything.
void to(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.has("other")) return call.give(call.cast(x, call.dtype(call.tensor("other"))));
  if (!call.has("dtype")) return call.give(x);
  call.give(call.cast(x, dtype_of(static_cast<at::ScalarType>(call.integer("dtype")))));
}

void size(ScriptCall& call) {
  const ValueId shape = call.add("Shape", {call.tensor("self")});
  if (!call.has("dim")) return call.give(shape);
  const ValueId axis = call.vector_of({call.integer("dim")});
  call.give(call.add("Squeeze", {call.add("Gather", {shape, axis}, {{"axis", std::int64_t{0}}})}));
}

// Of a list, or of numbers that are computed together.
void element(ScriptCall& call) {
  const ScriptItem& list = call.argument("list");
  std::int64_t index = call.integer("idx");
  if (list.id.valid()) {
    const ValueId at = call.add("Squeeze", {call.vector_of({index})});
    return call.give(call.add("Gather", {list.id, at}, {{"axis", std::int64_t{0}}}));
  }
  if (!list.is_list) throw Unsupported("is asked of no list");
  const auto count = static_cast<std::int64_t>(list.items.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) throw Unsupported("asks for more than the list holds");
  call.give(list.items[static_cast<std::size_t>(index)]);
}

void number_of(ScriptCall& call) { call.give(call.argument(call.has("a") ? "a" : "self")); }

template <OpName Op>
void whole_number(ScriptCall& call) {
  call.give(call.add(Op.letters, {call.tensor("a"), call.tensor("b")}));
}

template <int Number>
void filled_like(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.has("dtype")) throw Unsupported("changes the element type");
  call.give(call.add("Expand", {call.number_like(Number, x), call.add("Shape", {x})}));
}

constexpr ScriptLowering kEntries[] = {
    {"contiguous", unchanged},
    {"detach", unchanged},
    {"clone", unchanged},
    {"alias", unchanged},
    {"dropout", dropout},
    {"feature_dropout", dropout},
    {"alpha_dropout", dropout},
    {"view", reshape},
    {"reshape", reshape},
    {"flatten", flatten},
    {"permute", permute},
    {"transpose", transpose},
    {"t", turn},
    {"cat", concatenate},
    {"concat", concatenate},
    {"stack", stack},
    {"squeeze", squeeze},
    {"unsqueeze", unsqueeze},
    {"slice", slice},
    {"select", select},
    {"index_select", select},
    {"gather", gather},
    {"expand", expand},
    {"expand_as", expand_as},
    {"chunk", chunk},
    {"constant_pad_nd", pad},
    {"pad", pad},
    {"to", to},
    {"type_as", to},
    {"__getitem__", element},
    {"size", size},
    {"Int", number_of},
    {"ScalarImplicit", number_of},
    {"IntImplicit", number_of},
    {"zeros_like", filled_like<0>},
    {"ones_like", filled_like<1>},
};

}  // namespace

std::span<const ScriptLowering> script_shapes() { return kEntries; }

}  // namespace finity
