// What moves elements without computing anything.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/convert.h"
#include "torch/script/call.h"
#include "torch/script/common.h"
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

// Axes before and after stay, those from `start_dim` to `end_dim` become one.
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
    for (std::int64_t axis = end + 1; axis < rank; ++axis) {
      shape.push_back(call.size(x, axis));
      if (shape.back() < 0) throw Unsupported("leaves axes behind of sizes that are not known");
    }
    return call.give(call.add("Reshape", {x, call.vector_of(shape)}));
  }
  if (start < 0 || end != -1) throw Unsupported("the rank of its operand is not known");
  Ints shape(static_cast<std::size_t>(start), 0);
  shape.push_back(-1);
  call.give(call.add("Reshape", {x, call.vector_of(shape)}));
}

// One axis becomes several.
void unflatten(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const auto axis = static_cast<std::size_t>(call.axis("dim", x));
  Ints shape = call.ints("sizes");
  const Dims dims = call.dims(x);
  shape.insert(shape.begin(), dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end());
  call.give(call.add("Reshape", {x, call.vector_of(shape)}));
}

void reshape_as(ScriptCall& call) {
  call.give(call.add("Reshape", {call.tensor("self"), call.add("Shape", {call.tensor("other")})},
                     {{"allowzero", std::int64_t{1}}}));
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
  const bool axes = call.has("axis0");
  std::swap(order.at(static_cast<std::size_t>(call.axis(axes ? "axis0" : "dim0", x))),
            order.at(static_cast<std::size_t>(call.axis(axes ? "axis1" : "dim1", x))));
  call.give(call.add("Transpose", {x}, {{"perm", order}}));
}

void turn(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.rank(x) < 2) return call.give(x);
  call.give(call.add("Transpose", {x}, {{"perm", Ints{1, 0}}}));
}

// Axes named by `source` go where `destination` says, the others stay in order.
void move_axes(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const auto rank = static_cast<std::int64_t>(call.rank(x));
  Ints from = call.ints("source"), to = call.ints("destination"), order(static_cast<std::size_t>(rank), -1);
  for (Ints* axes : {&from, &to}) {
    for (std::int64_t& axis : *axes) axis += axis < 0 ? rank : 0;
  }
  for (std::size_t i = 0; i < from.size(); ++i) order.at(static_cast<std::size_t>(to.at(i))) = from[i];
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (std::ranges::find(from, next) != from.end()) ++next;
    axis = next++;
  }
  call.give(call.add("Transpose", {x}, {{"perm", order}}));
}

bool is_legacy_empty(ScriptCall& call, ValueId id) { return call.all_known(id) && call.dims(id) == Dims{0}; }

// The items of a list that a loop collected are already beside each other.
void concatenate(ScriptCall& call) {
  const ScriptItem& list = call.argument("tensors");
  const std::int64_t axis = call.integer("dim", 0);
  if (list.is_stacked) {
    const std::size_t rank = call.rank(list.id) - 1;
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
    const std::int64_t size = call.size(list.id, static_cast<std::int64_t>(at) + 1);
    if (size < 0) throw Unsupported("joins items whose sizes are not known");
    Ints order, shape(at, 0);
    for (std::size_t i = 1; i <= rank; ++i) order.push_back(static_cast<std::int64_t>(i));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), 0);
    const ValueId turned = call.add("Transpose", {list.id}, {{"perm", order}});
    const ValueId sizes = call.add("Shape", {turned});
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return call.add("Slice", {sizes, call.vector_of({from}), call.vector_of({to})});
    };
    const auto middle = static_cast<std::int64_t>(at);
    const ValueId merged = call.add(
        "Concat", {part(0, middle), call.vector_of({-1}), part(middle + 2, std::numeric_limits<std::int64_t>::max())},
        {{"axis", std::int64_t{0}}});
    return call.give(call.add("Reshape", {turned, merged}));
  }
  if (list.id.valid()) return call.give(call.add("ConcatFromSequence", {list.id}, {{"axis", axis}}));
  std::vector<ScriptItem> items;
  for (const ScriptItem& item : call.items("tensors")) {
    if (!is_legacy_empty(call, call.from(item))) items.push_back({.id = call.from(item)});
  }
  call.give(call.add("Concat", call.alike_tensors(items), {{"axis", axis}}));
}

void stack(ScriptCall& call) {
  const std::int64_t axis = call.integer("dim", 0);
  const ScriptItem& list = call.argument("tensors");
  if (list.is_stacked) {
    if (axis == 0) return call.give(list.id);
    const auto rank = static_cast<std::int64_t>(call.rank(list.id));
    Ints order;
    for (std::int64_t i = 1; i < rank; ++i) order.push_back(i);
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis < 0 ? axis + rank : axis), 0);
    return call.give(call.add("Transpose", {list.id}, {{"perm", order}}));
  }
  if (list.id.valid()) {
    return call.give(call.add("ConcatFromSequence", {list.id}, {{"axis", axis}, {"new_axis", std::int64_t{1}}}));
  }
  std::vector<ValueId> parts;
  for (const ValueId x : call.alike_tensors(call.items("tensors")))
    parts.push_back(call.add("Unsqueeze", {x, call.vector_of({axis})}));
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

void narrow(ScriptCall& call) {
  const std::int64_t start = call.integer("start");
  if (start < 0) throw Unsupported("starts from the end");
  call.give(
      call.add("Slice", {call.tensor("self"), call.vector_of({start}), call.vector_of({start + call.integer("length")}),
                         call.vector_of({call.integer("dim")})}));
}

// -1 leaves an axis as it is, and so does 1 here.
void expand(ScriptCall& call) {
  ScriptItem sizes = call.argument("size");
  if (!sizes.is_list && sizes.id.valid()) return call.give(call.add("Expand", {call.tensor("self"), sizes.id}));
  std::vector<ValueId> parts;
  for (const ScriptItem& item : call.items("size")) {
    if (!item.is_constant()) parts.push_back(call.add("Reshape", {call.from(item), call.vector_of({1})}));
    else parts.push_back(call.vector_of({item.constant.toInt() < 0 ? 1 : item.constant.toInt()}));
  }
  if (parts.empty()) return call.give(call.tensor("self"));
  call.give(call.add("Expand", {call.tensor("self"), call.add("Concat", parts, {{"axis", std::int64_t{0}}})}));
}

void expand_as(ScriptCall& call) {
  call.give(call.add("Expand", {call.tensor("self"), call.add("Shape", {call.tensor("other")})}));
}

void broadcast_together(ScriptCall& call) {
  ValueId sum;
  const std::vector<ValueId> ids = call.tensors("tensors");
  ScriptItem list = {.is_list = true};
  for (const ValueId id : ids) {
    const ValueId zero = call.add("Cast", {id}, {{"to", static_cast<std::int64_t>(DType::boolean)}});
    sum = sum.valid() ? call.add("Or", {sum, zero}) : zero;
  }
  const ValueId shape = call.add("Shape", {sum});
  for (const ValueId id : ids) list.items.push_back({.id = call.add("Expand", {id, shape})});
  call.give(std::move(list));
}

// As often along each axis; there may be more than the tensor has.
void repeat(ScriptCall& call) {
  ValueId x = call.tensor("self");
  Ints times = call.ints(call.has("dims") ? "dims" : "repeats");
  const std::size_t rank = call.rank(x);
  if (times.size() < rank) times.insert(times.begin(), rank - times.size(), 1);
  Ints added(times.size() - rank);
  std::iota(added.begin(), added.end(), 0);
  if (!added.empty()) x = call.add("Unsqueeze", {x, call.vector_of(added)});
  call.give(call.add("Tile", {x, call.vector_of(times)}));
}

// Each element so often, one after the other.
void repeat_each(ScriptCall& call) {
  ValueId x = call.tensor("self");
  const std::int64_t times = call.integer("repeats");
  if (!call.has("dim")) x = call.add("Reshape", {x, call.vector_of({-1})});
  const std::int64_t axis = call.has("dim") ? call.axis("dim", x) : 0, size = call.size(x, axis);
  if (size < 0) throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
  Ints places;
  for (std::int64_t i = 0; i < size * times; ++i) places.push_back(i / times);
  call.give(call.add("Gather", {x, call.vector_of(places)}, {{"axis", axis}}));
}

// ---- parts --------------------------------------------------------------------------------------------------

void give_parts(ScriptCall& call, ValueId x, std::int64_t axis, const Ints& sizes) {
  ScriptItem list = {.is_list = true};
  const std::vector<ValueId> parts =
      sizes.size() == 1 ? std::vector{x} : call.add_split(x, call.vector_of(sizes), axis, sizes.size());
  for (const ValueId part : parts) list.items.push_back({.id = part});
  call.give(std::move(list));
}

void split_into(ScriptCall& call, ValueId x, std::int64_t axis, std::int64_t each) {
  const std::int64_t size = call.size(x, axis);
  if (size < 0) throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
  if (each <= 0) throw Unsupported("makes parts of no size");
  Ints sizes;
  for (std::int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
  if (sizes.empty()) sizes.push_back(0);
  give_parts(call, x, axis, sizes);
}

// As many parts as the script asks for, or fewer when there is not enough.
void chunk(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t count = call.integer("chunks");
  if (call.is_ranked(x) && call.size(x, call.axis("dim", x)) >= 0) {
    const std::int64_t axis = call.axis("dim", x), size = call.size(x, axis);
    return split_into(call, x, axis, std::max<std::int64_t>((size + count - 1) / count, 1));
  }
  if (!call.is_unpacked) throw Unsupported("the number of its parts is not known (--shape gives sizes of inputs)");
  ScriptItem list = {.is_list = true};
  const std::vector<ValueId> parts = call.add_many(
      "Split", {x}, {{"axis", call.integer("dim", 0)}, {"num_outputs", count}}, static_cast<std::size_t>(count));
  for (const ValueId part : parts) list.items.push_back({.id = part});
  call.give(std::move(list));
}

// Parts of one size, or of the sizes that are listed.
void split(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t axis = call.axis("dim", x);
  const char* const name = call.has("split_sizes") ? "split_sizes" : "split_size";
  const ScriptItem& sizes = call.argument(name);
  if (sizes.is_list || (sizes.is_constant() && sizes.constant.isList()))
    return give_parts(call, x, axis, call.ints(name));
  split_into(call, x, axis, call.integer(name));
}

void unbind(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t axis = call.axis("dim", x), size = call.size(x, axis);
  if (size < 0) throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
  ScriptItem list = {.is_list = true};
  for (std::int64_t i = 0; i < size; ++i) {
    const ValueId at = call.constant(Tensor::scalar(i));
    list.items.push_back({.id = call.add("Gather", {x, at}, {{"axis", axis}})});
  }
  call.give(std::move(list));
}

// ---- other orders -------------------------------------------------------------------------------------------

void flip(ScriptCall& call) {
  ValueId x = call.tensor("self");
  for (const std::int64_t axis : call.ints("dims")) {
    x = call.add("Slice", {x, call.vector_of({-1}), call.vector_of({std::numeric_limits<std::int64_t>::min() + 1}),
                           call.vector_of({axis}), call.vector_of({-1})});
  }
  call.give(x);
}

void roll(ScriptCall& call) {
  ValueId x = call.tensor("self");
  const Ints shifts = call.ints("shifts");
  Ints axes = call.ints("dims", {});
  if (axes.size() != shifts.size()) throw Unsupported("rolls all elements");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(call.rank(x)) : axes[i];
    const std::int64_t size = call.size(x, axis);
    if (size < 1) throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
    const std::int64_t first = ((-shifts[i]) % size + size) % size;
    if (first == 0) continue;
    const auto part = [&](std::int64_t from, std::int64_t to) {
      return call.add("Slice", {x, call.vector_of({from}), call.vector_of({to}), call.vector_of({axis})});
    };
    x = call.add("Concat", {part(first, size), part(0, first)}, {{"axis", axis}});
  }
  call.give(x);
}

template <int Upper>
void triangle(ScriptCall& call) {
  call.give(call.add("Trilu", {call.tensor("self"), call.constant(Tensor::scalar(call.integer("diagonal", 0)))},
                     {{"upper", std::int64_t{Upper}}}));
}

// Windows along an axis; their places are in its stead, what they hold comes last.
void unfold(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t axis = call.axis("dimension", x), size = call.size(x, axis);
  const std::int64_t length = call.integer("size"), step = call.integer("step");
  if (size < length) throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
  const std::int64_t count = (size - length) / step + 1;
  Ints places;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < length; ++k) places.push_back(i * step + k);
  }
  const auto rank = static_cast<std::int64_t>(call.rank(x));
  const ValueId windows = call.add("Gather", {x, whole_constant(call, {count, length}, places)}, {{"axis", axis}});
  Ints order;
  for (std::int64_t i = 0; i <= rank; ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  call.give(call.add("Transpose", {windows}, {{"perm", order}}));
}

void outer_product(ScriptCall& call) {
  const ValueId other = call.tensor(call.has("vec2") ? "vec2" : "other");
  call.give(call.add("Mul", {call.add("Unsqueeze", {call.tensor("self"), call.vector_of({1})}),
                             call.add("Unsqueeze", {other, call.vector_of({0})})}));
}

void mesh(ScriptCall& call) {
  if (call.text("indexing", "ij") != "ij") throw Unsupported("swaps the first axes");
  const std::vector<ValueId> ids = call.tensors("tensors");
  std::vector<ValueId> sizes;
  for (const ValueId id : ids) sizes.push_back(call.add("Reshape", {call.add("Size", {id}), call.vector_of({1})}));
  const ValueId shape = call.add("Concat", sizes, {{"axis", std::int64_t{0}}});
  ScriptItem list = {.is_list = true};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Ints one(ids.size(), 1);
    one[i] = -1;
    list.items.push_back({.id = call.add("Expand", {call.add("Reshape", {ids[i], call.vector_of(one)}), shape})});
  }
  call.give(std::move(list));
}

constexpr ScriptLowering kEntries[] = {
    {"contiguous", unchanged},
    {"lift_fresh_copy", unchanged},
    {"lift_fresh", unchanged},
    {"pin_memory", unchanged},
    {"cpu", unchanged},
    {"detach", unchanged},
    {"clone", unchanged},
    {"alias", unchanged},
    {"dropout", dropout},
    {"feature_dropout", dropout},
    {"alpha_dropout", dropout},
    {"view", reshape},
    {"reshape", reshape},
    {"flatten", flatten},
    {"view_as", reshape_as},
    {"reshape_as", reshape_as},
    {"unflatten", unflatten},
    {"permute", permute},
    {"transpose", transpose},
    {"swapaxes", transpose},
    {"swapdims", transpose},
    {"movedim", move_axes},
    {"moveaxis", move_axes},
    {"t", turn},
    {"cat", concatenate},
    {"concat", concatenate},
    {"stack", stack},
    {"squeeze", squeeze},
    {"unsqueeze", unsqueeze},
    {"slice", slice},
    {"narrow", narrow},
    {"expand", expand},
    {"broadcast_to", expand},
    {"expand_as", expand_as},
    {"broadcast_tensors", broadcast_together},
    {"repeat", repeat},
    {"tile", repeat},
    {"repeat_interleave", repeat_each},
    {"chunk", chunk},
    {"split", split},
    {"split_with_sizes", split},
    {"unbind", unbind},
    {"flip", flip},
    {"roll", roll},
    {"tril", triangle<0>},
    {"triu", triangle<1>},
    {"unfold", unfold},
    {"outer", outer_product},
    {"ger", outer_product},
    {"meshgrid", mesh},
};

}  // namespace

std::span<const ScriptLowering> script_shapes() { return kEntries; }

}  // namespace finity
