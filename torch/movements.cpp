// Elements put elsewhere: shapes, parts, gathering and scattering.
#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "torch/lowering.h"

namespace finity {

namespace {

void lower_reshape(TorchCall& call) { call.out(0, call.in(0).reshape(call.inferred_dims().front())); }
void lower_expand_dims(TorchCall& call) {
  if (call.in(1).numel() != 1) throw Error("axis is not a scalar");
  lower_reshape(call);
}

void lower_expand(TorchCall& call) { call.out(0, call.in(0).expand(call.inferred_dims().front())); }

void lower_transpose(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  std::vector<std::int64_t> order = call.integers("perm");
  if (order.empty()) {
    for (std::int64_t axis = x.dim(); axis-- > 0;) order.push_back(axis);
  }
  call.out(0, x.permute(order));
}

void lower_concat(TorchCall& call) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < call.input_count(); ++i) parts.push_back(call.in(i));
  const std::int64_t axis = call.integer("axis", call.version() < 4 ? 1 : 0);
  const std::int64_t at_axis = axis_of(axis, parts.front().dim());
  // LibTorch passes over tensors of shape [0] whatever the others are.
  for (const at::Tensor& part : parts) {
    if (part.dim() != parts.front().dim()) throw Error("the operands differ in rank");
  }
  call.out(0, at::cat(parts, at_axis));
}

void lower_split(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  std::vector<std::int64_t> lengths = call.has(1) ? call.ints(1) : call.integers("split");
  if (lengths.empty()) {
    for (const Dims& dims : call.inferred_dims()) lengths.push_back(dims.at(static_cast<std::size_t>(axis)));
  }
  if (std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) != x.size(axis))
    throw Error("the sizes do not add up to " + std::to_string(x.size(axis)));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t length = lengths[i];
    call.out(i, x.narrow(axis, start, length));
    start += length;
  }
}

// ---- Slice --------------------------------------------------------------------

at::Tensor sliced(const at::Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t n = x.size(axis);
  if (step == 0) throw Error("step 0");
  const auto clamped = [&](std::int64_t i) {
    const std::int64_t from_front = i < 0 ? i + n : i;
    return step > 0 ? std::clamp(from_front, std::int64_t{0}, n) : std::clamp(from_front, std::int64_t{-1}, n - 1);
  };
  const std::int64_t first = clamped(start), last = clamped(end);
  // A step beyond the axis is one like its length, and LibTorch multiplies with it.
  step = std::clamp(step, -std::max<std::int64_t>(n, 1), std::max<std::int64_t>(n, 1));
  if (step > 0) return at::slice(x, axis, first, std::max(first, last), step);
  const at::Tensor picked = last < first ? at::arange(first, last, step, at::kLong) : at::empty({0}, at::kLong);
  return x.index_select(axis, picked);
}

void lower_slice(TorchCall& call) {
  at::Tensor x = call.in(0);
  const bool inputs = call.has(1);
  const auto list = [&](std::size_t i, std::string_view attr) {
    if (inputs) return call.has(i) ? call.ints(i) : std::vector<std::int64_t>();
    return call.integers(attr);
  };
  const auto starts = list(1, "starts"), ends = list(2, "ends"), steps = list(4, "");
  auto axes = list(3, "axes");
  for (std::size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (ends.size() != starts.size()) throw Error("starts and ends differ in length");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t axis = axis_of(axes[i], x.dim());
    const auto same = [&](std::int64_t other) { return axis_of(other, x.dim()) == axis; };
    if (std::any_of(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), same))
      throw Error("axis " + std::to_string(axis) + " is named twice");
    x = sliced(x, axis, starts[i], ends[i], steps.empty() ? 1 : steps.at(i));
  }
  call.out(0, x);
}

// ---- indices ------------------------------------------------------------------

// Negative indices count from the end.
at::Tensor from_front(const at::Tensor& indices, std::int64_t size) {
  const at::Tensor wide = indices.to(at::kLong);
  return at::where(at::lt(wide, 0), at::add(wide, size), wide);
}

void lower_gather(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const at::Tensor& indices = call.in(1);
  const std::int64_t axis = axis_of(call.integer("axis", 0), x.dim());
  const at::Tensor picked = x.index_select(axis, from_front(indices, x.size(axis)).reshape({-1}));
  Dims dims = x.sizes().vec();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, indices.sizes().begin(), indices.sizes().end());
  call.out(0, picked.reshape(dims));
}

void lower_gather_elements(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  call.out(0, at::gather(x, axis, from_front(call.in(1), x.size(axis))));
}

// LibTorch's name of a reduction.
std::string reduction_of(const TorchCall& call) {
  const std::string reduction = call.text("reduction");
  if (reduction == "add") return "sum";
  if (reduction == "mul") return "prod";
  return reduction == "max" ? "amax" : "amin";
}

at::Tensor scattered(const TorchCall& call, const at::Tensor& x, std::int64_t axis, const at::Tensor& at,
                     const at::Tensor& updates) {
  if (call.text("reduction") == "add") return at::scatter_add(x, axis, at, updates);
  return at::scatter_reduce(x, axis, at, updates, reduction_of(call), /*include_self=*/true);
}

void lower_scatter_elements(TorchCall& call) {
  if (call.text("reduction") == "none") return lower_movement(call, {0, 2});
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  call.out(0, scattered(call, x, axis, from_front(call.in(1), x.size(axis)), call.in(2)));
}

// The indexed axes become one, the others another; then each tuple is a row.
void lower_scatter_nd(TorchCall& call) {
  if (call.text("reduction") == "none") return lower_movement(call, {0, 2});
  const at::Tensor& x = call.in(0);
  const at::Tensor& indices = call.in(1);
  const std::int64_t depth = indices.size(-1);
  const std::int64_t tuples = indices.numel() / std::max<std::int64_t>(depth, 1);
  std::int64_t rows = 1;
  at::Tensor row = at::zeros({tuples}, at::kLong);
  const at::Tensor flat = indices.reshape({tuples, depth});
  for (std::int64_t axis = 0; axis < depth; ++axis) {
    row = at::add(at::mul(row, x.size(axis)), from_front(flat.select(1, axis), x.size(axis)));
    rows *= x.size(axis);
  }
  const std::int64_t width = x.numel() / std::max<std::int64_t>(rows, 1);
  const at::Tensor spread = row.unsqueeze(1).expand({tuples, width}).contiguous();
  const at::Tensor y = scattered(call, x.reshape({rows, width}), 0, spread, call.in(2).reshape({tuples, width}));
  call.out(0, y.reshape(x.sizes()));
}

// ---- Pad ----------------------------------------------------------------------

// With a constant LibTorch pads by itself; mirrored and repeated margins are movements.
void lower_pad(TorchCall& call) {
  const bool derived = call.has(2) && call.in(2).requires_grad();
  const bool plain = call.text("mode") == "constant" && !derived && !call.has(3);
  if (!plain) return lower_movement(call, {0, 2});
  const at::Tensor& x = call.in(0);
  std::vector<std::int64_t> pads = call.has(1) ? call.ints(1) : call.integers("pads");
  if (pads.empty()) pads = call.integers("paddings");
  const auto rank = static_cast<std::size_t>(x.dim());
  if (pads.size() != 2 * rank) throw Error("pads has " + std::to_string(pads.size()) + " elements");
  std::vector<std::int64_t> margins;
  for (std::size_t axis = rank; axis-- > 0;) {
    margins.push_back(pads[axis]);
    margins.push_back(pads[axis + rank]);
  }
  const bool given = call.has(2) && call.in(2).numel() == 1;
  const at::Scalar fill = given ? call.in(2).item() : at::Scalar(call.real("value", 0));
  call.out(0, at::constant_pad_nd(x, margins, fill));
}

void lower_shape(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t rank = x.dim();
  const auto clamped = [&](std::int64_t i) { return std::clamp(i < 0 ? i + rank : i, std::int64_t{0}, rank); };
  const std::int64_t start = clamped(call.integer("start")), end = clamped(call.integer("end", rank));
  std::vector<std::int64_t> sizes;
  for (std::int64_t axis = start; axis < end; ++axis) sizes.push_back(x.size(axis));
  call.out(0, list_of(sizes));
}

void lower_size(TorchCall& call) { call.out(0, scalar_of(call.in(0).numel(), at::kLong)); }

void lower_constant_of_shape(TorchCall& call) {
  const ConstantPtr constant = call.constant("value");
  const at::Tensor value = constant ? to_torch(constant->load()).reshape({}) : at::zeros({}, at::kFloat);
  call.out(0, value.expand(call.ints(0)).contiguous());
}

// Opset 1 has another form, with one axis.
void lower_tile(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::vector<std::int64_t> repeats = call.ints(1);
  const bool all = static_cast<std::int64_t>(repeats.size()) == x.dim();
  if (call.version() < 6 || call.has(2) || !all) return lower_movement(call, {0});
  call.inferred_dims();  // throws when the result would be too large
  call.out(0, x.repeat(repeats));
}

void lower_trilu(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  if (x.dim() < 2) throw Error("input has rank " + std::to_string(x.dim()) + ", expected at least 2");
  constexpr std::int64_t kFar = std::int64_t{1} << 31;
  const std::int64_t k = call.has(1) ? std::clamp(call.ints(1).at(0), -kFar, kFar) : 0;
  call.out(0, call.integer("upper") != 0 ? at::triu(x, k) : at::tril(x, k));
}

void lower_depth_to_space(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const Dims dims = call.inferred_dims().front();
  if (x.dim() != 4) throw Error("input has rank " + std::to_string(x.dim()) + ", expected 4");
  const std::int64_t b = call.integer("blocksize"), n = x.size(0), h = x.size(2), w = x.size(3);
  // The depth is [block row, block column, channel], or [channel, block row, block column] in mode CRD.
  const bool channel_first = call.text("mode") == "CRD";
  const at::Tensor split = channel_first ? x.reshape({n, dims[1], b, b, h, w}) : x.reshape({n, b, b, dims[1], h, w});
  const at::Tensor turned = channel_first ? split.permute({0, 1, 4, 2, 5, 3}) : split.permute({0, 3, 4, 1, 5, 2});
  call.out(0, turned.reshape(dims));
}

void lower_space_to_depth(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const Dims dims = call.inferred_dims().front();
  if (x.dim() != 4) throw Error("input has rank " + std::to_string(x.dim()) + ", expected 4");
  const std::int64_t b = call.integer("blocksize");
  const at::Tensor split = x.reshape({x.size(0), x.size(1), dims[2], b, dims[3], b});
  call.out(0, split.permute({0, 3, 5, 1, 2, 4}).reshape(dims));
}

template <std::size_t... I>
void moved(TorchCall& call) {
  lower_movement(call, {I...});
}

constexpr auto kMoved = TorchLowering::How::moved;

constexpr TorchLowering kEntries[] = {
    {"Reshape", "", lower_reshape, true},
    {"Flatten", "", lower_reshape, true},
    {"Squeeze", "", lower_reshape, true},
    {"Unsqueeze", "", lower_reshape, true},
    {"ExpandDims", "com.microsoft", lower_expand_dims, true},
    {"Expand", "", lower_expand, true},
    {"Transpose", "", lower_transpose, true},
    {"Concat", "", lower_concat, true},
    {"Split", "", lower_split, true},
    {"Slice", "", lower_slice, true},
    {"DynamicSlice", "", lower_slice, true},
    {"Gather", "", lower_gather, true},
    {"TorchEmbedding", "com.microsoft", lower_gather, true},
    {"GatherElements", "", lower_gather_elements, true},
    {"ScatterElements", "", lower_scatter_elements},
    {"ScatterND", "", lower_scatter_nd},
    {"Pad", "", lower_pad, true},
    {"Pad", "com.microsoft", lower_pad, true},
    {"Shape", "", lower_shape, true},
    {"Size", "", lower_size, true},
    {"ConstantOfShape", "", lower_constant_of_shape, true},
    {"Tile", "", lower_tile, true},
    {"DepthToSpace", "", lower_depth_to_space, true},
    {"SpaceToDepth", "", lower_space_to_depth, true},
    {"ReverseSequence", "", moved<0>, true, kMoved},
    {"Trilu", "", lower_trilu, true},
    {"Trilu", "com.microsoft", lower_trilu, true},
    {"CenterCropPad", "", moved<0>, true, kMoved},
    {"GatherND", "", moved<0>, true, kMoved},
    {"GatherND", "com.microsoft", moved<0>, true, kMoved},
    {"Scatter", "", moved<0, 2>, true, kMoved},
    {"TensorScatter", "", moved<0, 1>, true, kMoved},
    {"Compress", "", moved<0>, true, kMoved},
    {"MaxUnpool", "", moved<0>, true, kMoved},
    {"OneHot", "", moved<2>, true, kMoved},
    {"Crop", "", moved<0>, true, kMoved},
    {"RelativePositionBias", "com.microsoft", moved<0>, true, kMoved},
    {"ArrayFeatureExtractor", "ai.onnx.ml", moved<0>, true, kMoved},
};

}  // namespace

std::span<const TorchLowering> torch_movements() { return kEntries; }

// Every element of an operand is replaced by a number of its own, zero standing for the zeros that an op puts in
// itself. What the reference makes of these numbers says which element goes where.
void lower_movement(TorchCall& call, std::initializer_list<std::size_t> moved) {
  std::vector<Datum> operands;
  for (std::size_t i = 0; i < call.input_count(); ++i) operands.push_back(to_datum(call.value(i)));
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (std::find(moved.begin(), moved.end(), i) == moved.end()) call.require_plain(i);
  }
  const at::ScalarType type = call.in(*moved.begin()).scalar_type();
  std::vector<at::Tensor> elements{at::zeros({1}, type)};
  std::int64_t next = 1;
  for (const std::size_t i : moved) {
    if (!call.has(i)) continue;
    const at::Tensor& x = call.in(i);
    operands[i] = to_host(at::arange(next, next + x.numel(), at::kLong).reshape(x.sizes()), DType::int64);
    elements.push_back(x.reshape({-1}));
    next += x.numel();
  }
  const at::Tensor all = at::cat(elements);
  const std::vector<Datum> results = call.reference(operands);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor* positions = results[i].tensor();
    if (positions == nullptr) continue;
    const at::Tensor at = to_torch(*positions);
    call.out(i, all.index_select(0, at.reshape({-1})).reshape(at.sizes()));
  }
}

}  // namespace finity
