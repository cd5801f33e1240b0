// Convolutions, transposed convolutions, pools and resampling. Where windows fall is computed as for the reference
// and handed over as explicit margins.
#include <algorithm>

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

void convolve(DnnCall& call) {
  const Tensor x = call.in(0), w = call.in(1);
  require_spatial(x.dims());
  if (w.rank() != x.rank()) throw Error("inputs X and W differ in rank");
  const Dims y = call.result_dims(), weights = grouped(w.dims(), call.integer("group"));
  const Shape kernel = Type::tensor_of(DType::undefined, w.dims()).shape;
  const Geometry at =
      geometry_of(place(read_window(call, x.rank() - 2, std::span(kernel).subspan(2)), spatial(x.dims())));
  const bool biased = call.has(2);
  const Dims bias = biased ? call.in(2).dims() : Dims{};
  const Desc b = biased ? plain(bias) : Desc();
  const Desc any_x = call.wanted(x.dims()), any_w = call.wanted(weights), any_y = call.wanted(y);
  const dnnl::convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm::convolution_direct, any_x, any_w, b, any_y, at.strides, at.dilations,
       at.begin, at.end},
      cpu());
  const Operand source(x), filter(w, plain(weights)), offset = biased ? Operand(call.in(2)) : Operand();
  const Memory result = blank(forward.dst_desc());
  Arguments arguments{{DNNL_ARG_SRC, source.as(forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, filter.as(forward.weights_desc())},
                      {DNNL_ARG_DST, result}};
  if (biased) arguments[DNNL_ARG_BIAS] = offset.memory();
  run(dnnl::convolution_forward(forward), arguments);
  call.out(0, read(result, y));
  call.derived([=](Given given) -> Gradients {
    const Operand by_y(*given[0]);
    const dnnl::convolution_backward_data::primitive_desc by_data(
        {algorithm::convolution_direct, any_x, any_w, any_y, at.strides, at.dilations, at.begin, at.end}, cpu(),
        forward);
    const Memory by_x = blank(by_data.diff_src_desc());
    run(dnnl::convolution_backward_data(by_data), {{DNNL_ARG_DIFF_DST, by_y.as(by_data.diff_dst_desc())},
                                                   {DNNL_ARG_WEIGHTS, filter.as(by_data.weights_desc())},
                                                   {DNNL_ARG_DIFF_SRC, by_x}});
    const dnnl::convolution_backward_weights::primitive_desc by_weights(
        {algorithm::convolution_direct, any_x, any_w, b, any_y, at.strides, at.dilations, at.begin, at.end}, cpu(),
        forward);
    const Memory by_w = blank(by_weights.diff_weights_desc());
    const Memory by_b = biased ? blank(by_weights.diff_bias_desc()) : Memory();
    Arguments backward{{DNNL_ARG_SRC, source.as(by_weights.src_desc())},
                       {DNNL_ARG_DIFF_DST, by_y.as(by_weights.diff_dst_desc())},
                       {DNNL_ARG_DIFF_WEIGHTS, by_w}};
    if (biased) backward[DNNL_ARG_DIFF_BIAS] = by_b;
    run(dnnl::convolution_backward_weights(by_weights), backward);
    Gradients result{read(by_x, x.dims()), read(by_w, weights).reshaped(w.dims())};
    if (biased) result.emplace_back(read(by_b, bias));
    return result;
  });
}

// ---- transposed ------------------------------------------------------------------

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
  const Tensor x = call.in(0), w = call.in(1);
  require_spatial(x.dims());
  const Dims y = call.result_dims();
  const Shape kernel = Type::tensor_of(DType::undefined, w.dims()).shape;
  const Window window = read_window(call, x.rank() - 2, std::span(kernel).subspan(2));
  const Geometry at = transposed_geometry(call, window, x.dims(), y);
  const Desc own = turned_weights(w.dims(), call.integer("group"));
  const bool biased = call.has(2);
  const Dims bias = biased ? call.in(2).dims() : Dims{};
  const Desc b = biased ? plain(bias) : Desc();
  const Desc any_x = call.wanted(x.dims()), any_w = call.wanted(own.dims()), any_y = call.wanted(y);
  const dnnl::deconvolution_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm::deconvolution_direct, any_x, any_w, b, any_y, at.strides, at.dilations,
       at.begin, at.end},
      cpu());
  const Operand source(x), filter(w, own), offset = biased ? Operand(call.in(2)) : Operand();
  const Memory result = blank(forward.dst_desc());
  Arguments arguments{{DNNL_ARG_SRC, source.as(forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, filter.as(forward.weights_desc())},
                      {DNNL_ARG_DST, result}};
  if (biased) arguments[DNNL_ARG_BIAS] = offset.memory();
  run(dnnl::deconvolution_forward(forward), arguments);
  call.out(0, read(result, y));
  call.derived([=](Given given) -> Gradients {
    const Operand by_y(*given[0]);
    const dnnl::deconvolution_backward_data::primitive_desc by_data(
        {algorithm::deconvolution_direct, any_x, any_w, any_y, at.strides, at.dilations, at.begin, at.end}, cpu(),
        forward);
    const Memory by_x = blank(by_data.diff_src_desc());
    run(dnnl::deconvolution_backward_data(by_data), {{DNNL_ARG_DIFF_DST, by_y.as(by_data.diff_dst_desc())},
                                                     {DNNL_ARG_WEIGHTS, filter.as(by_data.weights_desc())},
                                                     {DNNL_ARG_DIFF_SRC, by_x}});
    const dnnl::deconvolution_backward_weights::primitive_desc by_weights(
        {algorithm::deconvolution_direct, any_x, any_w, b, any_y, at.strides, at.dilations, at.begin, at.end}, cpu(),
        forward);
    const Memory by_w = blank(by_weights.diff_weights_desc());
    const Memory by_b = biased ? blank(by_weights.diff_bias_desc()) : Memory();
    Arguments backward{{DNNL_ARG_SRC, source.as(by_weights.src_desc())},
                       {DNNL_ARG_DIFF_DST, by_y.as(by_weights.diff_dst_desc())},
                       {DNNL_ARG_DIFF_WEIGHTS, by_w}};
    if (biased) backward[DNNL_ARG_DIFF_BIAS] = by_b;
    run(dnnl::deconvolution_backward_weights(by_weights), backward);
    Gradients result{read(by_x, x.dims()), read(by_w, w.dims(), own)};
    if (biased) result.emplace_back(read(by_b, bias));
    return result;
  });
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
  if (call.node().op->name != "Resize") throw Unsupported("oneDNN resamples with half pixels only");
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
