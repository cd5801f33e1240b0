// Elements that tensors choose: indices, masks, scattered values.
#include <algorithm>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

constexpr std::int64_t kZero = 0;

// x[i, :, j]: which axes have indices.
struct Indexed {
  std::vector<std::int64_t> axes = {};
  std::vector<ValueId> ids = {};
  bool masks = false;  // some are of truth values
};

Indexed indexed(ScriptCall& call) {
  Indexed result;
  const std::vector<ScriptItem> items = call.items("indices");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_none()) continue;
    const ValueId id = call.from(items[i]);
    const DType dtype = call.dtype(id);
    if (dtype == DType::undefined) throw Unsupported("the element type of an index is not known");
    const bool mask = dtype == DType::boolean || dtype == DType::uint8;
    result.masks = result.masks || mask;
    result.axes.push_back(static_cast<std::int64_t>(i));
    result.ids.push_back(mask ? call.cast(id, DType::boolean) : call.cast(id, DType::int64));
  }
  if (result.axes.empty()) throw Unsupported("has no indices");
  if (result.masks && result.axes.size() > 1) throw Unsupported("mixes masks and indices");
  return result;
}

// Indices of one shape beside each other, along a new last axis.
ValueId tuples(ScriptCall& call, const std::vector<ValueId>& ids) {
  ValueId shape;
  if (ids.size() > 1) {
    ValueId sum = ids[0];
    for (std::size_t i = 1; i < ids.size(); ++i) sum = call.add("Add", {sum, ids[i]});
    shape = call.add("Shape", {sum});
  }
  std::vector<ValueId> parts;
  for (const ValueId id : ids) {
    const ValueId whole = shape.valid() ? call.add("Expand", {id, shape}) : id;
    parts.push_back(call.add("Unsqueeze", {whole, call.vector_of({-1})}));
  }
  return parts.size() == 1 ? parts[0] : call.add("Concat", parts, {{"axis", std::int64_t{-1}}});
}

ValueId places_of(ScriptCall& call, ValueId mask) {
  return call.add("Transpose", {call.add("NonZero", {mask})}, {{"perm", Ints{1, 0}}});
}

// Several indices: the axes they speak of go first, and their own come in the place of the first if they are
// neighbours.
ValueId gathered(ScriptCall& call, ValueId x, const Indexed& by) {
  const std::size_t rank = call.rank(x), count = by.axes.size();
  Ints order = by.axes;
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::ranges::find(by.axes, static_cast<std::int64_t>(i)) == by.axes.end())
      order.push_back(static_cast<std::int64_t>(i));
  }
  const bool in_front = by.axes.back() == static_cast<std::int64_t>(count) - 1;
  const bool neighbours = by.axes.back() - by.axes.front() == static_cast<std::int64_t>(count) - 1;
  const ValueId turned = in_front ? x : call.add("Transpose", {x}, {{"perm", order}});
  const ValueId at = tuples(call, by.ids);
  const ValueId result = call.add("GatherND", {turned, at});
  if (in_front || !neighbours) return result;
  // [indices..., before..., after...] to [before..., indices..., after...]
  const std::size_t own = call.rank(at) - 1, before = static_cast<std::size_t>(by.axes.front());
  Ints back;
  for (std::size_t i = 0; i < before; ++i) back.push_back(static_cast<std::int64_t>(own + i));
  for (std::size_t i = 0; i < own; ++i) back.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = own + before; i < own + rank - count; ++i) back.push_back(static_cast<std::int64_t>(i));
  return call.add("Transpose", {result}, {{"perm", back}});
}

void index(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const Indexed by = indexed(call);
  if (by.masks) {
    if (by.axes[0] == 0) return call.give(call.add("GatherND", {x, places_of(call, by.ids[0])}));
    if (call.rank(by.ids[0]) != 1) throw Unsupported("has a mask of inner axes");
    return call.give(call.add("Compress", {x, by.ids[0]}, {{"axis", by.axes[0]}}));
  }
  if (by.axes.size() == 1) return call.give(call.add("Gather", {x, by.ids[0]}, {{"axis", by.axes[0]}}));
  call.give(gathered(call, x, by));
}

// Where the mask holds; it speaks of the first axes.
ValueId filled(ScriptCall& call, ValueId x, ValueId mask, ValueId value) {
  const std::size_t rank = call.rank(x), own = call.rank(mask);
  Ints added;
  for (std::size_t i = own; i < rank; ++i) added.push_back(static_cast<std::int64_t>(i));
  if (!added.empty()) mask = call.add("Unsqueeze", {mask, call.vector_of(added)});
  return call.add("Where", {mask, value, x});
}

void index_put(ScriptCall& call) {
  const ValueId x = call.tensor("self"), values = call.cast(call.tensor("values"), call.dtype(x));
  const Indexed by = indexed(call);
  const bool accumulates = call.flag("accumulate");
  if (by.masks) {
    if (by.axes[0] != 0 || accumulates || element_count(call.dims(values)) != 1)
      throw Unsupported("writes more than one value where a mask holds");
    return call.give(filled(call, x, by.ids[0], call.add("Reshape", {values, call.vector_of({1})})));
  }
  if (by.axes.back() != static_cast<std::int64_t>(by.axes.size()) - 1) throw Unsupported("writes along inner axes");
  const ValueId at = tuples(call, by.ids);
  const std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const auto part = [&](ValueId of, std::int64_t from, std::int64_t to) {
    return call.add("Slice", {call.add("Shape", {of}), call.vector_of({from}), call.vector_of({to})});
  };
  const ValueId shape =
      call.add("Concat", {part(at, 0, -1), part(x, static_cast<std::int64_t>(by.axes.size()), end)}, {{"axis", kZero}});
  call.give(call.add("ScatterND", {x, at, call.add("Expand", {values, shape})},
                     {{"reduction", std::string(accumulates ? "add" : "none")}}));
}

// ---- along one axis -----------------------------------------------------------------------------------------

// What scatter writes: a number everywhere, or as much of a tensor as there are indices.
ValueId written(ScriptCall& call, ValueId x, ValueId index) {
  const DType dtype = call.dtype(x);
  if (call.has("value"))
    return call.add("Expand", {call.as(call.argument("value"), dtype), call.add("Shape", {index})});
  ValueId source = call.cast(call.tensor("src"), dtype);
  const Dims own = call.dims(source), wanted = call.dims(index);
  if (own == wanted) return source;
  return call.add("Slice", {source, call.vector_of(Ints(wanted.size(), 0)), call.vector_of(wanted)});
}

void scattered(ScriptCall& call, const std::string& reduction) {
  const ValueId x = call.tensor("self"), index = call.cast(call.tensor("index"), DType::int64);
  call.give(call.add("ScatterElements", {x, index, written(call, x, index)},
                     {{"axis", call.axis("dim", x)}, {"reduction", reduction}}));
}

void scatter(ScriptCall& call) {
  const std::string how = call.text("reduce", "none");
  if (how != "none" && how != "add" && how != "multiply") throw Unsupported("reduces in another way");
  scattered(call, how == "multiply" ? "mul" : how);
}

void scatter_add(ScriptCall& call) { scattered(call, "add"); }

// The index along its axis, repeated along the others of the other tensor.
ValueId along(ScriptCall& call, ValueId index, std::int64_t axis, ValueId other) {
  Ints shape(call.rank(other), 1);
  shape.at(static_cast<std::size_t>(axis)) = -1;
  const ValueId column = call.add("Reshape", {call.cast(index, DType::int64), call.vector_of(shape)});
  return call.add("Expand", {column, call.add("Shape", {other})});
}

// Whole slices are added, or replaced.
template <OpName Reduction>
void index_slices(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t axis = call.axis("dim", x);
  ValueId source = call.cast(call.tensor("source"), call.dtype(x));
  const double alpha = call.real("alpha", 1);
  if (alpha != 1) source = call.add("Mul", {source, call.number_like(alpha, source)});
  call.give(call.add("ScatterElements", {x, along(call, call.tensor("index"), axis, source), source},
                     {{"axis", axis}, {"reduction", std::string(Reduction.letters)}}));
}

void index_fill(ScriptCall& call) {
  const ValueId x = call.tensor("self"), index = call.tensor("index");
  const std::int64_t axis = call.axis("dim", x);
  const ValueId old = call.add("Gather", {x, call.add("Reshape", {index, call.vector_of({-1})})}, {{"axis", axis}});
  const ValueId value = call.add("Expand", {call.as(call.argument("value"), call.dtype(x)), call.add("Shape", {old})});
  call.give(call.add("ScatterElements", {x, along(call, index, axis, old), value}, {{"axis", axis}}));
}

void index_select(ScriptCall& call) {
  ValueId index = call.tensor("index");
  if (call.rank(index) == 0) index = call.add("Reshape", {index, call.vector_of({1})});
  call.give(call.add("Gather", {call.tensor("self"), index}, {{"axis", call.integer("dim")}}));
}

void select(ScriptCall& call) {
  call.give(call.add("Gather", {call.tensor("self"), call.tensor("index")}, {{"axis", call.integer("dim")}}));
}

void gather(ScriptCall& call) {
  call.give(call.add("GatherElements", {call.tensor("self"), call.tensor("index")}, {{"axis", call.integer("dim")}}));
}

void take(ScriptCall& call) {
  const ValueId flat = call.add("Reshape", {call.tensor("self"), call.vector_of({-1})});
  call.give(call.add("Gather", {flat, call.tensor("index")}));
}

void masked_select(ScriptCall& call) {
  const ValueId x = call.tensor("self"), mask = call.tensor("mask");
  if (call.dims(x) != call.dims(mask)) throw Unsupported("its mask has another shape");
  const ValueId all = call.vector_of({-1});
  call.give(call.add("Compress", {call.add("Reshape", {x, all}), call.add("Reshape", {mask, all})}, {{"axis", kZero}}));
}

void nonzero(ScriptCall& call) { call.give(places_of(call, call.tensor("self"))); }

void one_hot(ScriptCall& call) {
  const std::int64_t classes = call.integer("num_classes", -1);
  if (classes < 1) throw Unsupported("counts its classes");
  call.give(call.add("OneHot", {call.tensor("self"), call.vector_of({classes}), call.vector_of({0, 1})}));
}

constexpr ScriptLowering kEntries[] = {
    {"index", index},
    {"index_put", index_put},
    {"scatter", scatter},
    {"scatter_add", scatter_add},
    {"index_add", index_slices<"add">},
    {"index_copy", index_slices<"none">},
    {"index_fill", index_fill},
    {"index_select", index_select},
    {"select", select},
    {"gather", gather},
    {"take", take},
    {"masked_select", masked_select},
    {"nonzero", nonzero},
    {"one_hot", one_hot},
};

}  // namespace

std::span<const ScriptLowering> script_indices() { return kEntries; }

}  // namespace finity
