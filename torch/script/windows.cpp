// Convolutions and pools.
#include <algorithm>

#include "base/error.h"
#include "tensor/convert.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

// Without a batch the operand gets one, and the result loses it.
struct Batched {
  ValueId x;
  bool added = false;
};

Batched with_batch(ScriptCall& call, ValueId x, std::size_t axes) {
  if (!call.is_ranked(x) || call.rank(x) != axes + 1) return {x};
  return {call.add("Unsqueeze", {x, call.vector_of({0})}), true};
}

void give_without(ScriptCall& call, const Batched& batched, ValueId result) {
  call.give(batched.added ? call.add("Squeeze", {result, call.vector_of({0})}) : result);
}

// As many zeros as keep the size, one more at the end where they are odd.
Ints same_pads(ScriptCall& call, ValueId weight, const Ints& dilations) {
  const Dims kernel = call.dims(weight);
  Ints begin, end;
  for (std::size_t i = 0; i < dilations.size(); ++i) {
    const std::int64_t all = dilations[i] * (kernel[i + 2] - 1);
    begin.push_back(all / 2);
    end.push_back(all - all / 2);
  }
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

Ints conv_pads(ScriptCall& call, ValueId weight, const Ints& dilations) {
  const ScriptItem& padding = call.argument("padding");
  if (!padding.id.valid() && padding.constant.isString()) {
    if (padding.constant.toStringRef() == "same") return same_pads(call, weight, dilations);
    return Ints(2 * dilations.size(), 0);
  }
  return both_ends(spread(call.ints("padding", {0}), dilations.size()));
}

void convolution(ScriptCall& call) {
  const ValueId weight = call.tensor("weight");
  const std::size_t axes = call.rank(weight) - 2;
  const bool turned = call.flag("transposed", call.op.find("transpose") != std::string::npos);
  const Ints strides = spread(call.ints("stride", {1}), axes), dilations = spread(call.ints("dilation", {1}), axes);
  const Ints pads = conv_pads(call, weight, dilations);
  const std::int64_t groups = call.integer("groups", 1);
  const Batched input = with_batch(call, call.tensor("input"), axes);
  const std::vector<ValueId> operands = {input.x, weight, call.optional_tensor("bias")};
  if (!turned) {
    return give_without(call, input,
                        call.add("Conv", operands,
                                 {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"group", groups}}));
  }
  const Ints more = spread(call.ints("output_padding", {0}), axes);
  give_without(call, input,
               call.add("ConvTranspose", operands,
                        {{"strides", strides},
                         {"pads", pads},
                         {"dilations", dilations},
                         {"group", groups},
                         {"output_padding", more}}));
}

// ---- pools --------------------------------------------------------------------------------------------------

// The places of the largest are counted in another way than ONNX's, and left out.
template <std::size_t Axes>
void max_pool(ScriptCall& call) {
  const Ints kernel = spread(call.ints("kernel_size"), Axes);
  const Ints own = call.ints("stride", {});
  const Batched input = with_batch(call, call.tensor("self"), Axes);
  give_without(call, input,
               call.add("MaxPool", {input.x},
                        {{"kernel_shape", kernel},
                         {"strides", own.empty() ? kernel : spread(own, Axes)},
                         {"pads", both_ends(spread(call.ints("padding", {0}), Axes))},
                         {"dilations", spread(call.ints("dilation", {1}), Axes)},
                         {"ceil_mode", std::int64_t{call.flag("ceil_mode")}}}));
  while (call.given.size() < call.results) call.give_nothing();
}

template <std::size_t Axes>
void average_pool(ScriptCall& call) {
  if (call.has("divisor_override")) throw Unsupported("divides by a number of its own");
  const Ints kernel = spread(call.ints("kernel_size"), Axes);
  const Ints own = call.ints("stride", {});
  const std::int64_t all = call.flag("count_include_pad", true) ? 1 : 0;
  const Batched input = with_batch(call, call.tensor("self"), Axes);
  give_without(call, input,
               call.add("AveragePool", {input.x},
                        {{"kernel_shape", kernel},
                         {"strides", own.empty() ? kernel : spread(own, Axes)},
                         {"pads", both_ends(spread(call.ints("padding", {0}), Axes))},
                         {"ceil_mode", std::int64_t{call.flag("ceil_mode")}},
                         {"count_include_pad", all}}));
}

// Of windows from floor(i * in / out) to ceil((i + 1) * in / out): a matrix [in, out] of shares.
Tensor shares(DType dtype, std::int64_t in, std::int64_t out) {
  std::vector<double> numbers(static_cast<std::size_t>(in * out), 0.0);
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t from = i * in / out, to = ((i + 1) * in + out - 1) / out;
    for (std::int64_t k = from; k < to; ++k)
      numbers[static_cast<std::size_t>(k * out + i)] = 1.0 / static_cast<double>(to - from);
  }
  return from_elements<double>(dtype, {in, out}, numbers);
}

// The sizes that are asked for: None is the size as it is.
Ints wanted_sizes(ScriptCall& call, ValueId x, std::size_t axes) {
  Ints sizes;
  const ScriptItem& wanted = call.argument("output_size");
  if (!wanted.is_list) return spread(call.ints("output_size"), axes);
  for (std::size_t i = 0; i < wanted.items.size(); ++i) {
    const ScriptItem& item = wanted.items[i];
    if (item.is_none()) sizes.push_back(call.dims(x).at(call.rank(x) - axes + i));
    else if (item.is_constant() && item.constant.isInt()) sizes.push_back(item.constant.toInt());
    else throw Unsupported("its sizes are computed");
  }
  return spread(sizes, axes);
}

template <std::size_t Axes>
void adaptive_average_pool(ScriptCall& call) {
  ValueId x = call.tensor("self");
  const Ints wanted = wanted_sizes(call, x, Axes);
  const bool whole = std::ranges::all_of(wanted, [](std::int64_t size) { return size == 1; });
  if (whole && call.is_ranked(x) && call.rank(x) == Axes + 2) return call.give(call.add("GlobalAveragePool", {x}));
  if (whole) {
    Ints last;
    for (std::size_t i = 1; i <= Axes; ++i) last.push_back(-static_cast<std::int64_t>(i));
    return call.give(call.add("ReduceMean", {x, call.vector_of(last)}));
  }
  const std::size_t rank = call.rank(x), first = rank - Axes;
  Ints now;
  for (std::size_t i = 0; i < Axes; ++i) now.push_back(call.size(x, static_cast<std::int64_t>(first + i)));
  if (std::ranges::find(now, -1) != now.end())
    throw Unsupported("the sizes of its operand are not known (--shape gives those of inputs)");
  if (now == wanted) return call.give(x);
  Ints kernel;
  for (std::size_t i = 0; i < Axes; ++i) kernel.push_back(now[i] % wanted[i] == 0 ? now[i] / wanted[i] : 0);
  if (std::ranges::find(kernel, 0) == kernel.end() && rank == Axes + 2)
    return call.give(call.add("AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  // One axis after the other, each in the last place.
  for (std::size_t i = 0; i < Axes; ++i) {
    if (now[i] == wanted[i]) continue;
    Ints order(rank);
    for (std::size_t k = 0; k < rank; ++k) order[k] = static_cast<std::int64_t>(k);
    std::swap(order[first + i], order.back());
    const bool last = first + i == rank - 1;
    if (!last) x = call.add("Transpose", {x}, {{"perm", order}});
    x = call.add("MatMul", {x, call.constant(shares(call.dtype(x), now[i], wanted[i]))});
    if (!last) x = call.add("Transpose", {x}, {{"perm", order}});
  }
  call.give(x);
}

template <std::size_t Axes>
void adaptive_max_pool(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const Ints wanted = wanted_sizes(call, x, Axes);
  const std::size_t rank = call.rank(x);
  if (std::ranges::all_of(wanted, [](std::int64_t size) { return size == 1; }) && rank == Axes + 2) {
    call.give(call.add("GlobalMaxPool", {x}));
  } else {
    Ints kernel;
    for (std::size_t i = 0; i < Axes; ++i) {
      const std::int64_t size = call.size(x, static_cast<std::int64_t>(rank - Axes + i));
      if (size < 0 || size % wanted[i] != 0) throw Unsupported("has windows of several sizes");
      kernel.push_back(size / wanted[i]);
    }
    const Batched input = with_batch(call, x, Axes);
    give_without(call, input, call.add("MaxPool", {input.x}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  }
  while (call.given.size() < call.results) call.give_nothing();
}

constexpr ScriptLowering kEntries[] = {
    {"_convolution", convolution},
    {"_convolution_mode", convolution},
    {"convolution", convolution},
    {"conv1d", convolution},
    {"conv2d", convolution},
    {"conv3d", convolution},
    {"conv_transpose1d", convolution},
    {"conv_transpose2d", convolution},
    {"conv_transpose3d", convolution},
    {"max_pool1d", max_pool<1>},
    {"max_pool2d", max_pool<2>},
    {"max_pool3d", max_pool<3>},
    {"max_pool1d_with_indices", max_pool<1>},
    {"max_pool2d_with_indices", max_pool<2>},
    {"max_pool3d_with_indices", max_pool<3>},
    {"avg_pool1d", average_pool<1>},
    {"avg_pool2d", average_pool<2>},
    {"avg_pool3d", average_pool<3>},
    {"adaptive_avg_pool1d", adaptive_average_pool<1>},
    {"adaptive_avg_pool2d", adaptive_average_pool<2>},
    {"adaptive_avg_pool3d", adaptive_average_pool<3>},
    {"adaptive_max_pool1d", adaptive_max_pool<1>},
    {"adaptive_max_pool2d", adaptive_max_pool<2>},
    {"adaptive_max_pool3d", adaptive_max_pool<3>},
};

}  // namespace

std::span<const ScriptLowering> script_windows() { return kEntries; }

}  // namespace finity
