// Adding margins to a tensor, or cutting them off.
#include <algorithm>
#include <array>
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

// ---- Pad -------------------------------------------------------------------

struct Margin {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

std::string_view pads_attr(const Call& call) { return call.has_attr("paddings") ? "paddings" : "pads"; }

void require_pads(const Call& call) {
  if (!given(call, pads_attr(call), 1)) throw Error("pads are missing");
}

Dim padded(const Dim& dim, const Margin& margin) {
  if (margin.before == 0 && margin.after == 0) return dim;
  if (!dim.known()) {
    const std::int64_t added = saturated_sum(margin.before, margin.after);
    return Dim::between(std::max<std::int64_t>(saturated_sum(dim.least_size(), added), 0),
                        std::max<std::int64_t>(saturated_sum(dim.most_size(), added), 0));
  }
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  const auto excessive = [](std::int64_t x) { return x > kLimit || x < -kLimit; };
  if (excessive(margin.before) || excessive(margin.after) || excessive(dim.size)) throw Error("pads are too large");
  const std::int64_t size = dim.size + margin.before + margin.after;
  if (size < 0) throw Error("pads remove more than the axis of size " + std::to_string(dim.size) + " has");
  return Dim::of(size);
}

// How many axes are padded: pads holds two numbers for each.
std::size_t padded_axes(const Call& call, std::size_t pads, std::size_t rank) {
  if (pads % 2 != 0) throw Error("pads has an odd number of elements");
  require_all_axes(call.has_input(3), pads / 2, rank);
  return pads / 2;
}

void infer_pad(InferCall& call) {
  require_pads(call);
  if (!call.ranked(0)) return;
  const auto pads = entries(call, pads_attr(call), 1);
  const auto axes_given = numbers(entries(call, {}, 3));
  if (!pads || !axes_given) {
    call.set_shape(0, unknown_shape(call.rank(0)));
    return;
  }
  const std::size_t count = padded_axes(call, pads->size(), call.rank(0));
  const auto axes = axes_or_first(*axes_given, call.has_input(3), count, call.rank(0));
  Shape result = call.shape(0);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry &before = (*pads)[i], &after = (*pads)[count + i];
    Dim& dim = result[axes[i]];
    dim = before.number && after.number ? padded(dim, {*before.number, *after.number}) : Dim{};
  }
  call.set_shape(0, std::move(result));
}

// Where index `at`, counted from the first kept element, comes from in a row of `count` kept ones.
std::int64_t mirrored(std::int64_t at, std::int64_t count, std::string_view mode) {
  if (at >= 0 && at < count) return at;
  if (mode == "edge" || count == 1) return at < 0 ? 0 : count - 1;
  const std::int64_t period = mode == "wrap" ? count : 2 * (count - 1);
  const std::int64_t phase = (at % period + period) % period;
  return phase < count ? phase : period - phase;
}

// Negative margins cut elements off before the others are added.
std::vector<std::int64_t> padded_offsets(std::int64_t n, std::int64_t stride, const Margin& margin,
                                         std::string_view mode) {
  const std::int64_t total = padded(Dim::of(n), margin).size;
  const std::int64_t first = std::max<std::int64_t>(0, -margin.before);
  const std::int64_t kept = n - first - std::max<std::int64_t>(0, -margin.after);
  if (mode != "constant" && kept <= 0 && total > 0) throw Error("mode " + std::string(mode) + " pads an empty axis");
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < total; ++i) {
    const std::int64_t at = i - margin.before - first;
    if (mode != "constant") result.push_back((first + mirrored(at, kept, mode)) * stride);
    else result.push_back(at >= 0 && at < kept ? (first + at) * stride : -1);
  }
  return result;
}

std::optional<Tensor> pad_value(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  if (call.has_input(2)) {
    const Tensor& value = call.in(2);
    if (value.size() != 1 || value.dtype() != dtype) throw Error("constant_value must be one element of data's dtype");
    return value;
  }
  if (!call.has_attr("value")) return std::nullopt;
  return from_elements<double>(dtype, {}, std::vector{call.real("value")});
}

void eval_pad(EvalCall& call) {
  require_pads(call);
  const Tensor& in = call.in(0);
  const std::string mode = call.text("mode");
  const std::vector<std::int64_t> pads = numbers(call, pads_attr(call), 1);
  const std::size_t count = padded_axes(call, pads.size(), in.rank());
  const auto axes = axes_or_first(numbers(call, {}, 3), call.has_input(3), count, in.rank());
  Shape shape = shape_of(in);
  for (std::size_t i = 0; i < count; ++i) shape[axes[i]] = padded(shape[axes[i]], {pads[i], pads[count + i]});
  require_computable(sizes_of(shape));
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  AxisOffsets offsets = plain_offsets(in.dims());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = axes[i];
    offsets[axis] = padded_offsets(in.dim(axis), strides[axis], {pads[i], pads[count + i]}, mode);
  }
  const std::optional<Tensor> value = pad_value(call);
  call.out(0, pick(in, offsets, value ? &*value : nullptr));
}

// One axis with margins. `fill` is what they hold in mode "constant".
AbsTensor padded_along(RangeCall& call, const AbsTensor& x, std::size_t axis, const Margin& margin,
                       std::string_view mode, const Range& fill) {
  const std::int64_t size = x.sizes[axis];
  if (margin.before == 0 && margin.after == 0) return x;
  const std::int64_t total = padded({.size = size}, margin).size;
  const std::int64_t first = std::max<std::int64_t>(0, -margin.before);
  const std::int64_t kept = size - first - std::max<std::int64_t>(0, -margin.after);
  if (mode == "constant") {
    const bool inside = is_subset(fill, call.hull(0));  // x has margins along other axes already
    if (size < 0 || inside) {
      AbsTensor all = selected(x, axis, total, "", call.symbols());
      for (Range& cell : all.cells) cell = join(cell, fill);
      all.forms.clear();
      return all;
    }
    Dims sizes = x.sizes;
    sizes[axis] = total;
    if (kept <= 0) return uniform(x.dtype, std::move(sizes), fill);
    const auto block = [&](std::int64_t length) {
      Dims own = x.sizes;
      own[axis] = std::max<std::int64_t>(0, length);
      return uniform(x.dtype, std::move(own), fill);
    };
    const std::array<AbsTensor, 3> blocks = {block(margin.before), sliced(x, axis, first, kept, call.symbols()),
                                             block(margin.after)};
    const std::array<const AbsTensor*, 3> parts = {blocks.data(), &blocks[1], &blocks[2]};
    return concatenated(parts, axis, sizes, call.max_cells(), &call.symbols());
  }
  constexpr std::int64_t kLongList = 1 << 16;
  if (size < 0 || total > kLongList) return selected(x, axis, total, "", call.symbols());
  const std::vector<std::int64_t> indices = padded_offsets(size, 1, margin, mode);
  const std::string text = std::string(mode) + std::to_string(margin.before) + "," + std::to_string(margin.after) +
                           "," + std::to_string(size);
  return gathered(x, axis, indices, text, call.max_cells(), call.symbols());
}

Range pad_fill(RangeCall& call) {
  if (call.has_input(2)) return call.hull(2);
  if (!call.has_attr("value")) return point(0);
  return from_bounds(call.in_dtype(0), call.real("value"), call.real("value"));
}

void range_pad(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::string mode = call.text("mode");
  const Range fill = pad_fill(call);
  const auto pads = known_numbers(call, pads_attr(call), 1);
  const auto axes_given = known_numbers(call, {}, 3);
  if (!x.ranked || !pads || !axes_given) {
    return call.out(0, mode == "constant" ? join(x.hull(), fill) : x.hull());
  }
  const std::size_t count = padded_axes(call, pads->size(), x.rank());
  const auto axes = axes_or_first(*axes_given, call.has_input(3), count, x.rank());
  if (std::ranges::all_of(*pads, [](std::int64_t pad) { return pad == 0; })) return call.same(0, 0);
  AbsTensor result = x;
  for (std::size_t i = 0; i < count; ++i) {
    result = padded_along(call, result, axes[i], {(*pads)[i], (*pads)[count + i]}, mode, fill);
  }
  settle(call, 0, std::move(result));
}

// ---- CenterCropPad ---------------------------------------------------------

std::vector<std::size_t> cropped_axes(const Call& call, std::size_t count, std::size_t rank) {
  require_all_axes(call.has_attr("axes"), count, rank);
  return axes_or_first(call.integers("axes"), call.has_attr("axes"), count, rank);
}

void infer_center_crop_pad(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape result = call.shape(0);
  const auto wanted = entries(call, {}, 1);
  if (!wanted) {
    result.assign(result.size(), Dim{});
    call.set_shape(0, std::move(result));
    return;
  }
  const auto axes = cropped_axes(call, wanted->size(), result.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if ((*wanted)[i].number && *(*wanted)[i].number < 0) throw Error("negative size in shape");
    result[axes[i]] = (*wanted)[i].dim;
  }
  call.set_shape(0, std::move(result));
}

// The middle of the row; the odd element is cut off, or zero is added, at the end.
Margin centering(std::int64_t have, std::int64_t want) {
  const std::int64_t before = want >= have ? (want - have) / 2 : -((have - want) / 2);
  return {.before = before, .after = want - have - before};
}

void eval_center_crop_pad(EvalCall& call) {
  const Tensor& in = call.in(0);
  const std::vector<std::int64_t> wanted = numbers(call, {}, 1);
  const auto axes = cropped_axes(call, wanted.size(), in.rank());
  Dims dims = in.dims();
  for (std::size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = wanted[i];
  require_computable(dims);
  const std::vector<std::int64_t> strides = strides_of(in.dims());
  AxisOffsets offsets = plain_offsets(in.dims());
  for (const std::size_t axis : axes) {
    const std::int64_t have = in.dim(axis);
    offsets[axis] = padded_offsets(have, strides[axis], centering(have, dims[axis]), "constant");
  }
  call.out(0, pick(in, offsets));
}

void range_center_crop_pad(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (settle_unmoved(call)) return;
  const auto wanted = call.ints(1);
  if (!x.ranked || !wanted) return call.out(0, join(x.hull(), point(0)));
  const auto axes = cropped_axes(call, wanted->size(), x.rank());
  AbsTensor result = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = x.sizes[axes[i]];
    if (size < 0) return call.out(0, join(x.hull(), point(0)));
    result = padded_along(call, result, axes[i], centering(size, (*wanted)[i]), "constant", point(0));
  }
  settle(call, 0, std::move(result));
}

// ---- gradients -------------------------------------------------------------

ValueId pads_operand(BuildCall& call) {
  return call.has_input(1) ? call.in(1) : call.ints(call.integers(pads_attr(call)));
}

// Of the constant: what arrives at the margins.
void pad_value_gradient(BuildCall& call, ValueId pads) {
  if (!call.wanted(2)) return;
  const ValueId one = call.scalar(1);
  const ValueId margins = call.add("Pad", {call.zeros_like(call.in(0)), pads, one, call.in(3)});
  call.give(2, sum_all(call, call.product(margins, call.grad(0)), call.in(2)));
}

// Margins of a constant are cut off again by negative ones, and what was cut off gets zeros.
void pad_gradient(BuildCall& call) {
  if (call.text("mode") != "constant") {
    // The constant is not used, and would have to be an integer.
    return scatter_back(call, 0, {2});
  }
  const ValueId pads = pads_operand(call);
  if (call.wanted(0)) call.give(0, call.add("Pad", {call.grad(0), call.add("Neg", {pads}), {}, call.in(3)}));
  pad_value_gradient(call, pads);
}

// ---- drawing ---------------------------------------------------------------

bool draw_pad(DrawCall& call) {
  if (call.opset() < 11) return false;
  const bool mirrors = call.text("mode") == "reflect", negative = call.chance(15) && !mirrors;
  DrawCall::Ints pads;
  for (std::int64_t i = 0; i < 2 * call.rank(); ++i) {
    // What reflection beyond the other edge means is not said.
    const std::int64_t most = mirrors ? std::clamp<std::int64_t>(call.length(i % call.rank()) - 1, 0, 3) : 3;
    pads.push_back(call.chance(50) ? 0 : negative ? call.between(-1, 2) : call.between(0, most));
  }
  call.add_ints(pads);
  if (call.chance(50)) call.add_number(call.chance(50) ? 0 : static_cast<double>(call.between(0, 5)));
  return true;
}

// Integers came with opset 13.
bool pad_means(DType dtype, int opset) { return opset >= 13 || is_float(dtype); }

const OpDef kOps[] = {
    {.identity = {.name = "Pad",
                  .summary = "margins of a constant, mirrored, repeated or wrapped elements; negative ones cut off",
                  .signature = "(data: T, pads?: int64 since 11, constant_value?: T since 11, axes?: int32 | int64 "
                               "since 18) -> (output: T) where T: any",
                  .attrs =
                      "mode: string = constant {constant, reflect, edge, wrap since 19}; pads: ints since 2 until 10; "
                      "paddings: ints until 1; value: float until 10",
                  .tf = "PadV2"},
     .meaning = {.infer = infer_pad, .eval = eval_pad},
     .analysis = {.range = range_pad, .length = length_pad, .vjp = pad_gradient},
     .traits = {.exact = true, .rises = true, .merge = Merge::padding},
     .drawing = {.operands = draw_pad, .means = pad_means, .ends = Ends::given, .often = 2}},
    {.identity = {.name = "CenterCropPad",
                  .since = 18,
                  .summary = "cut or zero-padded evenly on both sides to a given size",
                  .signature = "(input_data: T, shape: int32 | int64) -> (output_data: T) where T: any",
                  .attrs = "axes: ints"},
     .meaning = {.infer = infer_center_crop_pad, .eval = eval_center_crop_pad},
     .analysis = {.range = range_center_crop_pad, .vjp = movement_gradient},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> pad_ops() { return kOps; }

}  // namespace finity
