// Convolutions, transposed convolutions, pools and resampling. Where windows fall is computed as for the reference
// and handed over as explicit margins.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "onednn/call.h"
#include "ops/windows/pool_windows.h"
#include "ops/windows/window.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;

struct Geometry {
  Dims kernel, strides, dilations, begin, end;
};

// Margins behind are at least as wide as the last window reaches.
Geometry geometry_of(std::span<const PlacedAxis> axes) {
  Geometry result;
  for (const PlacedAxis& axis : axes) {
    const std::int64_t reach = (axis.output - 1) * axis.stride + axis.extent() - axis.input - axis.pad_begin;
    result.kernel.push_back(axis.kernel);
    result.strides.push_back(axis.stride);
    result.dilations.push_back(axis.dilation - 1);
    result.begin.push_back(axis.pad_begin);
    result.end.push_back(std::max(axis.pad_end, reach));
  }
  return result;
}

void require_spatial(const Dims& x, std::size_t most = 5) {
  if (x.size() < 3 || x.size() > most) {
    throw Unsupported("oneDNN has windows over 1 to " + std::to_string(most - 2) + " axes");
  }
}

std::span<const std::int64_t> spatial(const Dims& dims) { return std::span(dims).subspan(2); }

// [M, C/g, ...] as [g, M/g, C/g, ...].
Dims grouped(const Dims& w, std::int64_t groups) {
  if (groups == 1) return w;
  Dims result{groups, w[0] / groups};
  result.insert(result.end(), w.begin() + 1, w.end());
  return result;
}

// ---- convolutions, plain and transposed -----------------------------------------

struct Convolution {
  algorithm kind = algorithm::convolution_direct;
  Tensor x = {}, w = {};
  Desc own_w = {};  // our weights, with the axes that the library wants
  std::optional<Tensor> bias = {};
  Dims y = {};
  Geometry at = {};
  Desc any_x = {}, any_w = {}, any_y = {}, b = {};

  // In the order of elements that the library chooses, or in ours.
  void choose(const DnnCall& call) {
    if (call.has(2)) bias = call.in(2);
    if (bias) b = plain(bias->dims());
    any_x = call.wanted(x.dims());
    any_w = call.wanted(own_w.dims());
    any_y = call.wanted(y);
  }
};

template <class ByData, class Forward>
Tensor by_source(const Convolution& c, const Forward& forward, const Operand& by_y) {
  const typename ByData::primitive_desc backward(
      {c.kind, c.any_x, c.any_w, c.any_y, c.at.strides, c.at.dilations, c.at.begin, c.at.end}, cpu(), forward);
  const Operand filter(c.w, c.own_w);
  const Memory by_x = blank(backward.diff_src_desc());
  run(ByData(backward), {{DNNL_ARG_DIFF_DST, by_y.as(backward.diff_dst_desc())},
                         {DNNL_ARG_WEIGHTS, filter.as(backward.weights_desc())},
                         {DNNL_ARG_DIFF_SRC, by_x}});
  return read(by_x, c.x.dims());
}

template <class ByWeights, class Forward>
Gradients by_parameters(const Convolution& c, const Forward& forward, const Operand& by_y) {
  const typename ByWeights::primitive_desc backward(
      {c.kind, c.any_x, c.any_w, c.b, c.any_y, c.at.strides, c.at.dilations, c.at.begin, c.at.end}, cpu(), forward);
  const Operand source(c.x);
  const Memory by_w = blank(backward.diff_weights_desc());
  const Memory by_b = c.bias ? blank(backward.diff_bias_desc()) : Memory();
  Arguments arguments{{DNNL_ARG_SRC, source.as(backward.src_desc())},
                      {DNNL_ARG_DIFF_DST, by_y.as(backward.diff_dst_desc())},
                      {DNNL_ARG_DIFF_WEIGHTS, by_w}};
  if (c.bias) arguments[DNNL_ARG_DIFF_BIAS] = by_b;
  run(ByWeights(backward), arguments);
  Gradients result{read(by_w, c.w.dims(), c.own_w)};
  if (c.bias) result.emplace_back(read(by_b, c.bias->dims()));
  return result;
}

template <class Forward, class ByData, class ByWeights>
void run_convolution(DnnCall& call, Convolution c) {
  c.choose(call);
  const typename Forward::primitive_desc forward({prop_kind::forward_training, c.kind, c.any_x, c.any_w, c.b, c.any_y,
                                                  c.at.strides, c.at.dilations, c.at.begin, c.at.end},
                                                 cpu());
  const Operand source(c.x), filter(c.w, c.own_w), offset = c.bias ? Operand(*c.bias) : Operand();
  const Memory result = blank(forward.dst_desc());
  Arguments arguments{{DNNL_ARG_SRC, source.as(forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, filter.as(forward.weights_desc())},
                      {DNNL_ARG_DST, result}};
  if (c.bias) arguments[DNNL_ARG_BIAS] = offset.memory();
  run(Forward(forward), arguments);
  call.out(0, read(result, c.y));
  call.derived([c, forward](Given given) -> Gradients {
    const Operand by_y(*given[0]);
    Gradients gradients{by_source<ByData>(c, forward, by_y)};
    for (auto& more : by_parameters<ByWeights>(c, forward, by_y)) gradients.push_back(std::move(more));
    return gradients;
  });
}

Window window_of(const DnnCall& call, const Tensor& x, const Tensor& w) {
  require_spatial(x.dims());
  if (w.rank() != x.rank()) throw Error("inputs X and W differ in rank");
  const Shape kernel = Type::tensor_of(DType::undefined, w.dims()).shape;
  return read_window(call, x.rank() - 2, std::span(kernel).subspan(2));
}

void convolve(DnnCall& call) {
  const Tensor &x = call.in(0), &w = call.in(1);
  const Window window = window_of(call, x, w);
  run_convolution<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>(
      call, {.x = x,
             .w = w,
             .own_w = plain(grouped(w.dims(), call.integer("group"))),
             .y = call.result_dims(),
             .at = geometry_of(place(window, spatial(x.dims())))});
}

// Our weights [C, M/g, ...] as the [g, M/g, C/g, ...] that the library wants.
Desc turned_weights(const Dims& w, std::int64_t groups) {
  const std::int64_t area = element_count(Dims(w.begin() + 2, w.end()));
  Dims dims{w[1], w[0] / groups}, strides{area, w[1] * area};
  if (groups > 1) {
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), w[0] / groups * w[1] * area);
  }
  const Dims kernel(w.begin() + 2, w.end()), steps = row_major_strides(kernel);
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  strides.insert(strides.end(), steps.begin(), steps.end());
  return strided(dims, strides);
}

Geometry transposed_geometry(const DnnCall& call, const Window& window, const Dims& x, const Dims& y) {
  const std::vector<std::int64_t> more = call.integers("output_padding");
  const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
  const bool by_size = same || !call.integers("output_shape").empty();
  Geometry result;
  for (std::size_t i = 0; i < window.axes.size(); ++i) {
    const WindowAxis& axis = window.axes[i];
    const std::int64_t reach = axis.stride * (x[i + 2] - 1) + axis.extent();
    const std::int64_t cut = std::max<std::int64_t>(reach + (more.empty() ? 0 : more[i]) - y[i + 2], 0);
    const std::int64_t split = window.auto_pad == AutoPad::same_upper ? cut / 2 : cut - cut / 2;
    const std::int64_t begin = by_size ? split : axis.pad_begin;
    result.kernel.push_back(axis.kernel);
    result.strides.push_back(axis.stride);
    result.dilations.push_back(axis.dilation - 1);
    result.begin.push_back(begin);
    result.end.push_back(reach - begin - y[i + 2]);
  }
  return result;
}

void convolve_transposed(DnnCall& call) {
  const Tensor &x = call.in(0), &w = call.in(1);
  const Window window = window_of(call, x, w);
  const Dims y = call.result_dims();
  run_convolution<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data, dnnl::deconvolution_backward_weights>(
      call, {.kind = algorithm::deconvolution_direct,
             .x = x,
             .w = w,
             .own_w = turned_weights(w.dims(), call.integer("group")),
             .y = y,
             .at = transposed_geometry(call, window, x.dims(), y)});
}

// ---- pools -----------------------------------------------------------------------

void pool(DnnCall& call, algorithm kind, const PoolPlan& plan) {
  const Tensor x = call.in(0);
  const Geometry at = geometry_of(plan.axes);
  const Desc from = plain(x.dims()), to = plain(plan.out);
  const dnnl::pooling_v2_forward::primitive_desc forward(
      {prop_kind::forward_training, kind, from, to, at.strides, at.kernel, at.dilations, at.begin, at.end}, cpu());
  const Operand source(x);
  const Memory result = blank(to);
  const Memory places = blank(forward.workspace_desc());
  run(dnnl::pooling_v2_forward(forward),
      {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}, {DNNL_ARG_WORKSPACE, places}});
  call.out(0, read(result, plan.out));
  call.derived([=](Given given) -> Gradients {
    const dnnl::pooling_v2_backward::primitive_desc backward(
        {kind, from, to, at.strides, at.kernel, at.dilations, at.begin, at.end}, cpu(), forward);
    const Operand by_y(*given[0]);
    const Memory by_x = blank(from);
    run(dnnl::pooling_v2_backward(backward),
        {{DNNL_ARG_DIFF_DST, by_y.memory()}, {DNNL_ARG_DIFF_SRC, by_x}, {DNNL_ARG_WORKSPACE, places}});
    return {read(by_x, x.dims())};
  });
}

void max_pool(DnnCall& call) {
  if (call.has_output(1)) throw Unsupported("oneDNN does not tell the positions of maxima");
  require_spatial(call.in(0).dims());
  pool(call, algorithm::pooling_max, plan_pool(call, call.in(0).dims()));
}

void average_pool(DnnCall& call) {
  require_spatial(call.in(0).dims());
  const bool with_margins = call.integer("count_include_pad", 0) != 0;
  const PoolPlan plan = plan_pool(call, call.in(0).dims());
  const Geometry at = geometry_of(plan.axes);
  for (std::size_t i = 0; i < plan.axes.size(); ++i) {
    if (with_margins && at.end[i] > plan.axes[i].pad_end)
      throw Unsupported("oneDNN would count what a window covers behind the padding");
  }
  pool(call, with_margins ? algorithm::pooling_avg_include_padding : algorithm::pooling_avg_exclude_padding, plan);
}

template <algorithm kKind>
void global_pool(DnnCall& call) {
  require_spatial(call.in(0).dims());
  pool(call, kKind, plan_global_pool(call.in(0).dims()));
}

// ---- resampling ------------------------------------------------------------------

algorithm resampling_of(const DnnCall& call) {
  const std::string mode = call.text("mode", "nearest");
  if (call.op().identity.name != "Resize") throw Unsupported("oneDNN resamples with half pixels only");
  if (call.text("coordinate_transformation_mode", "half_pixel") != "half_pixel" || call.version() < 11)
    throw Unsupported("oneDNN resamples with half pixels only");
  if (call.integer("antialias", 0) != 0 || call.integer("exclude_outside", 0) != 0)
    throw Unsupported("oneDNN resamples without filters");
  if (mode == "linear") return algorithm::resampling_linear;
  if (mode == "nearest" && call.text("nearest_mode", "round_prefer_floor") == "round_prefer_ceil")
    return algorithm::resampling_nearest;
  throw Unsupported("oneDNN has linear and nearest resampling (round_prefer_ceil) only");
}

// The scales must be those that follow from the sizes, since oneDNN is told sizes only.
void require_whole_scales(const DnnCall& call, const Dims& x, const Dims& y) {
  if (!call.has(2) || call.tensor(2).empty()) return;
  const std::span<const float> scales = call.in(2).data<float>();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales.size() != x.size() || scales[i] * static_cast<float>(x[i]) != static_cast<float>(y[i]))
      throw Unsupported("oneDNN resamples by sizes, which these scales are not");
  }
}

void resample(DnnCall& call) {
  const Tensor x = call.in(0);
  require_spatial(x.dims());
  const algorithm kind = resampling_of(call);
  const Dims y = call.result_dims();
  if (y[0] != x.dims()[0] || y[1] != x.dims()[1]) throw Unsupported("oneDNN resamples spatial axes only");
  require_whole_scales(call, x.dims(), y);
  const Desc from = plain(x.dims()), to = plain(y);
  const dnnl::resampling_forward::primitive_desc forward({prop_kind::forward_training, kind, from, to}, cpu());
  const Operand source(x);
  const Memory result = blank(to);
  run(dnnl::resampling_forward(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  call.out(0, read(result, y));
  call.derived([=](Given given) -> Gradients {
    const dnnl::resampling_backward::primitive_desc backward({kind, from, to}, cpu(), forward);
    const Operand by_y(*given[0]);
    const Memory by_x = blank(from);
    run(dnnl::resampling_backward(backward), {{DNNL_ARG_DIFF_DST, by_y.memory()}, {DNNL_ARG_DIFF_SRC, by_x}});
    return {read(by_x, x.dims())};
  });
}

constexpr Lowering kEntries[] = {
    {"AveragePool", "", average_pool},
    {"Conv", "", convolve},
    {"ConvTranspose", "", convolve_transposed},
    {"GlobalAveragePool", "", global_pool<algorithm::pooling_avg_exclude_padding>},
    {"GlobalMaxPool", "", global_pool<algorithm::pooling_max>},
    {"MaxPool", "", max_pool},
    {"Resize", "", resample},
};

}  // namespace

std::span<const Lowering> windows() { return kEntries; }

}  // namespace finity::dnn
