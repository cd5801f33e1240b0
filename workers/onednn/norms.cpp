// Softmax, normalisations, and the rectifier with learned slopes.
#include "base/error.h"
#include "onednn/call.h"
#include "ops/norm/norm_attrs.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;
using dnnl::normalization_flags;

std::size_t axis_of(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) throw Error("attribute 'axis' is outside the operand's axes");
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

// Everything before the axis, and everything from it on.
Dims two_axes(const Dims& dims, std::size_t axis) {
  return {element_count(Dims(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis))),
          element_count(Dims(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end()))};
}

template <algorithm kKind>
void softmax(DnnCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() == 0) throw Unsupported("oneDNN is handed no scalar here");
  const bool single = call.version() >= 13;
  const std::int64_t given = call.integer("axis", single ? -1 : 1);
  // Before opset 13 a row is everything from the axis on; an axis behind the last gives rows of one.
  const bool behind = !single && given == static_cast<std::int64_t>(x.rank());
  const std::size_t axis = behind ? x.rank() : axis_of(given, x.rank());
  const Dims own = x.dims(), dims = single ? own : two_axes(own, axis);
  const int along = single ? static_cast<int>(axis) : 1;
  const Desc desc = plain(dims);
  const dnnl::softmax_v2_forward::primitive_desc forward({prop_kind::forward_training, kKind, desc, desc, along},
                                                         cpu());
  const Operand source(x.reshaped(dims));
  const Memory result = blank(desc);
  run(dnnl::softmax_v2_forward(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  call.out(0, read(result, own));
  call.derived([=](Given by) -> Gradients {
    const dnnl::softmax_v2_backward::primitive_desc backward({kKind, desc, desc, desc, along}, cpu(), forward);
    const Operand by_y(by[0]->reshaped(dims));
    const Memory by_x = blank(desc);
    run(dnnl::softmax_v2_backward(backward),
        {{DNNL_ARG_DST, result}, {DNNL_ARG_DIFF_DST, by_y.memory()}, {DNNL_ARG_DIFF_SRC, by_x}});
    return {read(by_x, own)};
  });
}

void require_given_statistics(const DnnCall& call) {
  if (batch_trains(call) || call.outs_asked() > 1)
    throw Unsupported("only normalisation with given statistics is handed over");
  if (!batch_is_spatial(call)) throw Unsupported("oneDNN normalises whole channels only");
}

void batch_norm(DnnCall& call) {
  require_given_statistics(call);
  const Tensor x = call.in(0);
  if (x.rank() < 2 || x.rank() > 5) throw Unsupported("oneDNN normalises tensors of 2 to 5 axes");
  for (std::size_t i = 1; i < 5; ++i) {
    if (call.in(i).dims() != Dims{x.dims()[1]}) throw Error("a parameter has not one element per channel");
  }
  const auto flags =
      normalization_flags::use_scale | normalization_flags::use_shift | normalization_flags::use_global_stats;
  const auto epsilon = static_cast<float>(call.real("epsilon"));
  const Desc desc = plain(x.dims());
  const dnnl::batch_normalization_forward::primitive_desc forward({prop_kind::forward_training, desc, epsilon, flags},
                                                                  cpu());
  const Operand source(x), scale(call.in(1)), shift(call.in(2)), mean(call.in(3)), variance(call.in(4));
  const Memory result = blank(desc);
  run(dnnl::batch_normalization_forward(forward), {{DNNL_ARG_SRC, source.memory()},
                                                   {DNNL_ARG_SCALE, scale.memory()},
                                                   {DNNL_ARG_SHIFT, shift.memory()},
                                                   {DNNL_ARG_MEAN, mean.memory()},
                                                   {DNNL_ARG_VARIANCE, variance.memory()},
                                                   {DNNL_ARG_DST, result}});
  call.out(0, read(result, x.dims()));
  const Dims channels = call.in(1).dims();
  // By mean and variance there is no derivative: they are taken as given.
  call.derived([=](Given given) -> Gradients {
    const dnnl::batch_normalization_backward::primitive_desc backward({prop_kind::backward, desc, desc, epsilon, flags},
                                                                      cpu(), forward);
    const Operand by_y(*given[0]);
    const Memory by_x = blank(desc), by_scale = blank(plain(channels)), by_shift = blank(plain(channels));
    run(dnnl::batch_normalization_backward(backward), {{DNNL_ARG_SRC, source.memory()},
                                                       {DNNL_ARG_MEAN, mean.memory()},
                                                       {DNNL_ARG_VARIANCE, variance.memory()},
                                                       {DNNL_ARG_SCALE, scale.memory()},
                                                       {DNNL_ARG_DIFF_DST, by_y.memory()},
                                                       {DNNL_ARG_DIFF_SRC, by_x},
                                                       {DNNL_ARG_DIFF_SCALE, by_scale},
                                                       {DNNL_ARG_DIFF_SHIFT, by_shift}});
    return {read(by_x, x.dims()), read(by_scale, channels), read(by_shift, channels)};
  });
}

// Rows are everything from the axis on.
void layer_norm(DnnCall& call) {
  const Tensor x = call.in(0);
  if (x.rank() == 0) throw Unsupported("oneDNN is handed no scalar here");
  const Dims rows = two_axes(x.dims(), axis_of(call.integer("axis"), x.rank()));
  if (call.outs_asked() > 1) throw Unsupported("the statistics are not handed back");
  const bool shifted = call.has(2);
  for (std::size_t i = 1; i < (shifted ? 3U : 2U); ++i) {
    if (call.in(i).size() != rows[1]) throw Unsupported("oneDNN has one scale and shift per element of a row");
  }
  auto flags = normalization_flags::use_scale;
  if (shifted) flags |= normalization_flags::use_shift;
  const auto epsilon = static_cast<float>(call.real("epsilon"));
  const Desc desc = plain(rows), one = plain({rows[1]});
  const dnnl::layer_normalization_forward::primitive_desc forward({prop_kind::forward_training, desc, epsilon, flags},
                                                                  cpu());
  const Operand source(x.reshaped(rows)), scale(call.in(1), one);
  const Operand shift = shifted ? Operand(call.in(2), one) : Operand();
  const Memory result = blank(desc), mean = blank(forward.mean_desc()), variance = blank(forward.variance_desc());
  Arguments arguments{{DNNL_ARG_SRC, source.memory()},
                      {DNNL_ARG_SCALE, scale.memory()},
                      {DNNL_ARG_MEAN, mean},
                      {DNNL_ARG_VARIANCE, variance},
                      {DNNL_ARG_DST, result}};
  if (shifted) arguments[DNNL_ARG_SHIFT] = shift.memory();
  run(dnnl::layer_normalization_forward(forward), arguments);
  call.out(0, read(result, x.dims()));
  const Dims own = call.in(1).dims(), own_shift = shifted ? call.in(2).dims() : Dims{};
  call.derived([=](Given given) -> Gradients {
    const dnnl::layer_normalization_backward::primitive_desc backward({prop_kind::backward, desc, desc, epsilon, flags},
                                                                      cpu(), forward);
    const Operand by_y(given[0]->reshaped(rows));
    const Memory by_x = blank(desc), by_scale = blank(one), by_shift = blank(one);
    Arguments all{{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_SCALE, scale.memory()}, {DNNL_ARG_MEAN, mean},
                  {DNNL_ARG_VARIANCE, variance},   {DNNL_ARG_DIFF_SRC, by_x},        {DNNL_ARG_DIFF_DST, by_y.memory()},
                  {DNNL_ARG_DIFF_SCALE, by_scale}};
    if (shifted) all[DNNL_ARG_DIFF_SHIFT] = by_shift;
    run(dnnl::layer_normalization_backward(backward), all);
    Gradients gradients{read(by_x, x.dims()), read(by_scale, own)};
    if (shifted) gradients.emplace_back(read(by_shift, own_shift));
    return gradients;
  });
}

void local_response(DnnCall& call) {
  const Tensor x = call.in(0);
  const std::int64_t size = call.integer("size");
  if (x.rank() < 3 || x.rank() > 5 || size % 2 == 0) throw Unsupported("oneDNN wants 3 to 5 axes and an odd size");
  const Desc desc = plain(x.dims());
  const auto alpha = static_cast<float>(call.real("alpha")), beta = static_cast<float>(call.real("beta")),
             bias = static_cast<float>(call.real("bias"));
  const dnnl::lrn_forward::primitive_desc forward(
      {prop_kind::forward_training, algorithm::lrn_across_channels, desc, size, alpha, beta, bias}, cpu());
  const Operand source(x);
  const Memory result = blank(desc), work = blank(forward.workspace_desc());
  run(dnnl::lrn_forward(forward),
      {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}, {DNNL_ARG_WORKSPACE, work}});
  call.out(0, read(result, x.dims()));
  call.derived([=](Given given) -> Gradients {
    const dnnl::lrn_backward::primitive_desc backward(
        {algorithm::lrn_across_channels, desc, desc, size, alpha, beta, bias}, cpu(), forward);
    const Operand by_y(*given[0]);
    const Memory by_x = blank(desc);
    run(dnnl::lrn_backward(backward), {{DNNL_ARG_SRC, source.memory()},
                                       {DNNL_ARG_DIFF_DST, by_y.memory()},
                                       {DNNL_ARG_DIFF_SRC, by_x},
                                       {DNNL_ARG_WORKSPACE, work}});
    return {read(by_x, x.dims())};
  });
}

void learned_slopes(DnnCall& call) {
  const Tensor x = call.in(0), slope = call.in(1);
  if (slope.rank() > x.rank() || x.rank() == 0) throw Unsupported("oneDNN repeats slopes only");
  Dims dims(x.rank() - slope.rank(), 1);
  dims.insert(dims.end(), slope.dims().begin(), slope.dims().end());
  if (call.version() < 7 && slope.rank() == 1 && x.rank() > 2) {
    dims.assign(x.rank(), 1);
    dims[1] = slope.size();
  }
  const Desc data = plain(x.dims()), weights = plain(dims);
  const dnnl::prelu_forward::primitive_desc forward({prop_kind::forward_training, data, weights}, cpu());
  const Operand source(x), slopes(slope.reshaped(dims));
  const Memory result = blank(data);
  run(dnnl::prelu_forward(forward),
      {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_WEIGHTS, slopes.memory()}, {DNNL_ARG_DST, result}});
  call.out(0, read(result, x.dims()));
  call.derived([=](Given given) -> Gradients {
    const dnnl::prelu_backward::primitive_desc backward({data, weights, data, weights}, cpu(), forward);
    const Operand by_y(*given[0]);
    const Memory by_x = blank(data), by_slope = blank(weights);
    run(dnnl::prelu_backward(backward), {{DNNL_ARG_SRC, source.memory()},
                                         {DNNL_ARG_WEIGHTS, slopes.memory()},
                                         {DNNL_ARG_DIFF_DST, by_y.memory()},
                                         {DNNL_ARG_DIFF_SRC, by_x},
                                         {DNNL_ARG_DIFF_WEIGHTS, by_slope}});
    return {read(by_x, x.dims()), read(by_slope, slope.dims(), weights)};
  });
}

constexpr Lowering kEntries[] = {
    {"BatchNormalization", "", batch_norm}, {"LRN", "", local_response},
    {"LayerNormalization", "", layer_norm}, {"LogSoftmax", "", softmax<algorithm::softmax_log>},
    {"PRelu", "", learned_slopes},          {"Softmax", "", softmax<algorithm::softmax_accurate>},
};

}  // namespace

std::span<const Lowering> norms() { return kEntries; }

}  // namespace finity::dnn
