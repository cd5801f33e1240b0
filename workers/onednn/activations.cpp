// Elementwise functions of one operand.
#include <limits>

#include "base/error.h"
#include "onednn/call.h"
#include "tensor/convert.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

struct Function {
  algorithm kind;
  float alpha = 0, beta = 0;
};

dnnl::eltwise_forward::primitive_desc forward_of(const Function& f, const Desc& desc) {
  return {{prop_kind::forward_training, f.kind, desc, f.alpha, f.beta}, cpu()};
}

void apply(DnnCall& call, const Function& f) {
  const Tensor x = call.in(0);
  const Desc desc = plain(x.dims());
  const auto forward = forward_of(f, desc);
  const Operand source(x);
  const Memory result = blank(desc);
  run(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  call.out(0, read(result, x.dims()));
  call.derived([=](std::span<const std::optional<Tensor>> given) -> std::vector<std::optional<Tensor>> {
    const dnnl::eltwise_backward::primitive_desc backward({f.kind, desc, desc, f.alpha, f.beta}, cpu(), forward);
    const Operand by_result(*given[0]);
    const Memory by_source = blank(desc);
    run(dnnl::eltwise_backward(backward),
        {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DIFF_DST, by_result.memory()}, {DNNL_ARG_DIFF_SRC, by_source}});
    return {read(by_source, x.dims())};
  });
}

template <algorithm kKind>
void plain_function(DnnCall& call) {
  apply(call, {.kind = kKind});
}

template <algorithm kKind>
void with_alpha(DnnCall& call) {
  apply(call, {.kind = kKind, .alpha = static_cast<float>(call.real("alpha"))});
}

void negated(DnnCall& call) { apply(call, {.kind = algorithm::eltwise_linear, .alpha = -1}); }

void gelu(DnnCall& call) {
  const bool by_tanh = call.op().identity.domain.empty() && call.text("approximate", "none") == "tanh";
  apply(call, {.kind = by_tanh ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf});
}

// Rounding has no derivative in the library.
void rounded(DnnCall& call) {
  const Tensor& x = call.in(0);
  const Desc desc = plain(x.dims());
  const dnnl::eltwise_forward::primitive_desc forward({prop_kind::forward_inference, algorithm::eltwise_round, desc},
                                                      cpu());
  const Operand source(x);
  const Memory result = blank(desc);
  run(dnnl::eltwise_forward(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  call.out(0, read(result, x.dims()));
}

// Absent bounds were the largest numbers before opset 11, and are none since.
float bound(const DnnCall& call, std::size_t i, const char* attribute, float sign) {
  if (call.version() < 11) return static_cast<float>(call.real(attribute, sign * std::numeric_limits<float>::max()));
  return call.has(i) ? static_cast<float>(element_as_double(call.in(i), 0))
                     : sign * std::numeric_limits<float>::infinity();
}

void clipped(DnnCall& call) {
  const float low = bound(call, 1, "min", -1), high = bound(call, 2, "max", 1);
  if (low > high) throw Unsupported("oneDNN clips to bounds in order only");
  apply(call, {.kind = algorithm::eltwise_clip_v2, .alpha = low, .beta = high});
}

// x ^ b for one b that is the same for all elements and does not change.
void power(DnnCall& call) {
  const Tensor& exponent = call.in(1);
  if (exponent.size() != 1 || exponent.rank() > call.in(0).rank())
    throw Unsupported("oneDNN has powers with one exponent only");
  apply(call, {.kind = algorithm::eltwise_pow, .alpha = 1, .beta = exponent.data<float>()[0]});
}

constexpr Lowering kEntries[] = {
    {"Abs", "", plain_function<algorithm::eltwise_abs>},
    {"Clip", "", clipped},
    {"Elu", "", with_alpha<algorithm::eltwise_elu>},
    {"Exp", "", plain_function<algorithm::eltwise_exp>},
    {"Gelu", "", gelu},
    {"Gelu", "com.microsoft", gelu},
    {"HardSwish", "", plain_function<algorithm::eltwise_hardswish>},
    {"LeakyRelu", "", with_alpha<algorithm::eltwise_relu>},
    {"Log", "", plain_function<algorithm::eltwise_log>},
    {"Mish", "", plain_function<algorithm::eltwise_mish>},
    {"Neg", "", negated},
    {"Pow", "", power},
    {"QuickGelu", "com.microsoft", with_alpha<algorithm::eltwise_swish>},
    {"Relu", "", plain_function<algorithm::eltwise_relu>},
    {"Round", "", rounded},
    {"Sigmoid", "", plain_function<algorithm::eltwise_logistic>},
    {"Softplus", "", plain_function<algorithm::eltwise_soft_relu>},
    {"Sqrt", "", plain_function<algorithm::eltwise_sqrt>},
    {"Swish", "", with_alpha<algorithm::eltwise_swish>},
    {"Tanh", "", plain_function<algorithm::eltwise_tanh>},
};

}  // namespace

std::span<const Lowering> activations() { return kEntries; }

}  // namespace finity::dnn
