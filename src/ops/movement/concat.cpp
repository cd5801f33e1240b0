// Joining tensors along an axis and cutting them apart again.
#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "domain/symbol_moves.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/lengths.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/pieces.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/row_tables.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Concat ----------------------------------------------------------------

std::int64_t concat_axis(const Call& call) {
  if (!call.has_attr("axis") && call.version() >= 4) throw Error("attribute 'axis' is missing");
  return call.integer("axis", 1);
}

// Null parts are of unknown rank.
Shape concatenated(std::span<const Shape* const> parts, const Shape& example, std::size_t axis) {
  Shape result = example;
  result[axis] = Dim::of(0);
  for (const Shape* part : parts) {
    result[axis] = plus(result[axis], part == nullptr ? Dim{} : (*part)[axis]);
  }
  for (const Shape* part : parts) {
    for (std::size_t i = 0; part != nullptr && i < result.size(); ++i) {
      if (i != axis) result[i] = same(result[i], (*part)[i], "size of axis " + std::to_string(i));
    }
  }
  return result;
}

void require_equal_ranks(std::span<const Shape* const> parts, std::size_t rank) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != nullptr && parts[i]->size() != rank) {
      throw Error("input " + std::to_string(i) + " has rank " + std::to_string(parts[i]->size()) +
                  ", others have rank " + std::to_string(rank));
    }
  }
}

Shape concatenated(std::span<const Shape* const> parts, std::int64_t axis) {
  const auto known = std::ranges::find_if(parts, [](const Shape* part) { return part != nullptr; });
  const Shape& example = **known;
  require_equal_ranks(parts, example.size());
  return concatenated(parts, example, normalize_axis(axis, example.size()));
}

void concat_shape_values(InferCall& call) {
  Shape result;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const Type& type = call.in(i);
    if (!type.ranked || type.shape.size() != 1 || !is_int(type.dtype)) return;
    const auto part = call.shape_value(i);
    if (!part) return;
    result.insert(result.end(), part->begin(), part->end());
  }
  if (result.size() <= 1024) call.set_shape_value(0, std::move(result));
}

void infer_concat(InferCall& call) {
  const std::int64_t axis = concat_axis(call);
  concat_shape_values(call);
  std::vector<const Shape*> parts;
  for (std::size_t i = 0; i < call.input_count(); ++i) parts.push_back(call.ranked(i) ? &call.shape(i) : nullptr);
  const auto ranked = [](const Shape* part) { return part != nullptr; };
  if (std::ranges::any_of(parts, ranked)) call.set_shape(0, concatenated(parts, axis));
}

void eval_concat(EvalCall& call) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < call.input_count(); ++i) shapes.push_back(shape_of(call.in(i)));
  std::vector<const Shape*> parts;
  for (const Shape& shape : shapes) parts.push_back(&shape);
  const Dims dims = sizes_of(concatenated(parts, concat_axis(call)));
  const AxisView view(dims, normalize_axis(concat_axis(call), dims.size()));
  Tensor result(call.in(0).dtype(), dims);
  with_storage(result.dtype(), [&]<class S>() {
    auto to = mutable_stored<S>(result).begin();
    for (std::int64_t outer = 0; !result.empty() && outer < view.outer; ++outer) {
      for (std::size_t i = 0; i < call.input_count(); ++i) {
        if (call.in(i).dtype() != result.dtype()) throw Error("inputs have different dtypes");
        const auto block = static_cast<std::size_t>(call.in(i).size() / view.outer);
        const auto from = stored<S>(call.in(i)).subspan(static_cast<std::size_t>(outer) * block, block);
        to = std::ranges::copy(from, to).out;
      }
    }
  });
  call.out(0, std::move(result));
}

void range_concat(RangeCall& call) {
  if (call.input_count() == 1) return call.same(0, 0);
  const Type& type = call.out_type(0);
  std::vector<const AbsTensor*> parts;
  for (std::size_t i = 0; i < call.input_count(); ++i) parts.push_back(&call.in(i));
  if (!type.ranked) {
    Range all;
    for (const AbsTensor* part : parts) all = join(all, part->hull());
    return call.out(0, all);
  }
  const std::size_t axis = normalize_axis(concat_axis(call), type.shape.size());
  settle(call, 0, concatenated(parts, axis, sizes_of(type), call.max_cells(), &call.symbols()));
}

// ---- Split -----------------------------------------------------------------

// Equal parts; from opset 18 on the last ones may be smaller.
std::vector<std::int64_t> equal_parts(std::int64_t size, std::size_t count, bool uneven) {
  const auto parts = static_cast<std::int64_t>(count);
  if (!uneven && size % parts != 0) {
    throw Error("cannot split size " + std::to_string(size) + " into " + std::to_string(parts) + " equal parts");
  }
  const std::int64_t chunk = size / parts + (size % parts != 0 ? 1 : 0);
  std::vector<std::int64_t> result;
  for (std::int64_t left = size; result.size() < count; left -= result.back()) {
    result.push_back(std::min(chunk, left));
  }
  return result;
}

void check_parts(const Call& call, std::size_t count) {
  if (count == call.output_count()) return;
  throw Error("split into " + std::to_string(count) + " parts, but there are " + std::to_string(call.output_count()) +
              " outputs");
}

// Only from opset 18 on may the last parts be smaller, even empty.
Shape equal_unknown_parts(const Call& call, const Dim& dim) {
  const auto count = static_cast<std::int64_t>(call.output_count());
  const bool uneven = call.version() >= 18;
  const Dim part =
      Dim::between(!uneven && dim.least_size() >= 1 ? 1 : 0, steps_in(Dim::of(dim.most_size()), count).size);
  Shape result(call.output_count(), part);
  if (uneven && dim.least_size() >= 1) result.front().least = 1;
  return result;
}

Shape equal_part_sizes(const Call& call, const Dim& dim) {
  if (call.has_attr("num_outputs")) check_parts(call, static_cast<std::size_t>(call.integer("num_outputs")));
  const std::size_t count = call.output_count();
  if (count == 1) return {dim};
  if (count == 0) return {};
  if (!dim.known()) return equal_unknown_parts(call, dim);
  Shape result;
  for (const std::int64_t size : equal_parts(dim.size, count, call.version() >= 18)) result.push_back(Dim::of(size));
  return result;
}

// A given size, which is not more than there is.
Dim part_of(Dim size, const Dim& whole) {
  size.most = std::min(size.most, whole.most_size());
  return size;
}

// Sizes of the outputs along the axis.
Shape part_sizes(const Call& call, const Dim& dim, const std::optional<Entries>& wanted) {
  if (!given(call, "split", 1)) return equal_part_sizes(call, dim);
  if (!wanted) return Shape(call.output_count(), some_of(dim));
  check_parts(call, wanted->size());
  Shape result;
  Dim total = Dim::of(0);
  for (const Entry& entry : *wanted) {
    if (entry.number && *entry.number < 0) throw Error("negative size in split");
    result.push_back(entry.number ? entry.dim : part_of(entry.dim, dim));
    total = total.known() && entry.dim.known() ? plus(total, entry.dim) : Dim{};
  }
  if (total.known() && dim.known() && total.size != dim.size) {
    throw Error("split adds up to " + std::to_string(total.size) + " but the axis has size " +
                std::to_string(dim.size));
  }
  return result;
}

void infer_split(InferCall& call) {
  if (!call.ranked(0)) return;
  const std::size_t axis = normalize_axis(call.integer("axis"), call.rank(0));
  const Shape sizes = part_sizes(call, call.shape(0)[axis], entries(call, "split", 1));
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    Shape shape = call.shape(0);
    shape[axis] = sizes[i];
    call.set_shape(i, std::move(shape));
  }
  const auto value = shape_elements(call, 0);
  if (!value || call.rank(0) != 1) return;
  auto next = value->begin();
  for (std::size_t i = 0; i < sizes.size() && sizes[i].known() && sizes[i].size <= value->end() - next; ++i) {
    call.set_shape_value(i, Shape(next, next + sizes[i].size));
    next += sizes[i].size;
  }
}

void eval_split(EvalCall& call) {
  const Tensor& in = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), in.rank());
  const Shape sizes = part_sizes(call, Dim::of(in.dim(axis)), entries_of(numbers(call, "split", 1)));
  const AxisOffsets plain = plain_offsets(in.dims());
  auto next = plain[axis].begin();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    AxisOffsets part = plain;
    part[axis].assign(next, next + sizes[i].size);
    next += sizes[i].size;
    call.out(i, pick(in, part));
  }
}

// Sizes of the parts, -1 where unknown.
std::vector<std::int64_t> known_part_sizes(RangeCall& call, std::int64_t size) {
  std::optional<Entries> wanted;
  if (given(call, "split", 1)) {
    if (const auto numbers = known_numbers(call, "split", 1)) wanted = entries_of(*numbers);
  }
  std::vector<std::int64_t> result;
  for (const Dim& dim : part_sizes(call, {.size = size}, wanted)) result.push_back(dim.size);
  return result;
}

void range_split(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked) {
    for (std::size_t i = 0; i < call.output_count(); ++i) call.out(i, x.hull());
    return;
  }
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  if (call.output_count() == 1) return call.same(0, 0);
  const std::vector<std::int64_t> sizes = known_part_sizes(call, x.sizes[axis]);
  std::int64_t start = 0;  // -1: not known any more
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (start >= 0 && sizes[i] >= 0) {
      settle(call, i, sliced(x, axis, start, sizes[i], call.symbols()));
      move_rows(call, i, axis, 0,
                [&](const Tensor& table, std::size_t at) { return take_range(table, at, start, sizes[i]); });
      start += sizes[i];
      continue;
    }
    start = -1;
    // Equal parts of an unknown size: which part it is says all.
    const bool equal = !given(call, "split", 1);
    const std::string text = "part" + std::to_string(i) + "/" + std::to_string(call.output_count());
    settle(call, i, selected(x, axis, sizes[i], equal ? select_step(x.rank() - axis, text) : "", call.symbols()));
  }
}

// ---- gradients -------------------------------------------------------------

// Where each part starts and, last, where the whole ends; nullopt when a size is not known.
std::optional<std::vector<std::int64_t>> part_starts(const BuildCall& call, std::size_t axis) {
  std::vector<std::int64_t> result = {0};
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const Type& type = call.in_type(i);
    if (!type.ranked || !type.shape[axis].known()) return std::nullopt;
    result.push_back(result.back() + type.shape[axis].size);
  }
  return result;
}

void concat_gradient(BuildCall& call) {
  if (call.input_count() == 1) return call.give(0, call.grad(0));
  const std::size_t axis = normalize_axis(concat_axis(call), call.rank(call.out(0)));
  const auto at = static_cast<std::int64_t>(axis);
  if (const auto starts = part_starts(call, axis)) {
    for (std::size_t i = 0; i < call.input_count(); ++i) {
      if (!call.wanted(i)) continue;
      const ValueId bounds[] = {call.ints({(*starts)[i]}), call.ints({(*starts)[i + 1]})};
      call.give(i, call.add("Slice", {call.grad(0), bounds[0], bounds[1], call.ints({at})}));
    }
    return;
  }
  std::vector<ValueId> sizes;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    sizes.push_back(call.add("Shape", {call.in(i)}, with_attr(with_attr("start", at), "end", at + 1)));
  }
  const ValueId all = call.add("Concat", std::move(sizes), with_attr("axis", std::int64_t{0}));
  const std::vector<ValueId> parts =
      call.add_all("Split", {call.grad(0), all}, call.input_count(), with_attr("axis", at));
  for (std::size_t i = 0; i < parts.size(); ++i) call.give(i, parts[i]);
}

void split_gradient(BuildCall& call) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (!call.has_output(i)) return movement_gradient(call);
    parts.push_back(call.grad(i));
  }
  call.give(0, call.add("Concat", std::move(parts), with_attr("axis", call.integer("axis"))));
}

// ---- drawing ---------------------------------------------------------------

// Two parts, one of which may be empty, unless their number is given.
bool draw_split(DrawCall& call) {
  if (call.opset() < 13) return false;
  if (call.rank() == 0 || call.attrs().find("num_outputs") != nullptr) return true;
  const std::int64_t whole = call.length(call.axis("axis", 0)), part = call.between(0, whole);
  call.ask_for(2);
  call.add_ints({part, whole - part});
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Concat",
                  .summary = "tensors one after another along an axis",
                  .signature = "(inputs...: T) -> (concat_result: T) where T: any",
                  .attrs = "axis: int",
                  .tf = "ConcatV2"},
     .meaning = {.infer = infer_concat, .eval = eval_concat},
     .analysis = {.range = range_concat, .length = length_concat, .vjp = concat_gradient},
     .traits = {.exact = true, .light = true, .elements = ElementSource::joined},
     .drawing = {.often = 1}},
    {.identity = {.name = "Split",
                  .summary = "parts along an axis, of equal or given sizes",
                  .signature = "(input: T, split?: int64 | float since 13) -> (outputs...: T) where T: any",
                  .attrs = "axis: int = 0; split: ints until 12; num_outputs: int since 18",
                  .tf = "SplitV"},
     .meaning = {.infer = infer_split, .eval = eval_split},
     .analysis = {.range = range_split, .length = length_part, .vjp = split_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved},
     .drawing = {.operands = draw_split, .often = 1}},
};

}  // namespace

std::span<const OpDef> concat_ops() { return kOps; }

}  // namespace finity
