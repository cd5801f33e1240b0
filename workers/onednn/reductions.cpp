// Reductions. The library has no backward primitives for them; sums and means are derived by repeating.
#include "base/error.h"
#include "onednn/call.h"
#include "ops/reduce/reduced_axes.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;

AxisSet reduced_axes(const DnnCall& call, std::size_t rank) {
  const std::vector<std::int64_t> axes = call.has(1) ? call.ints(1) : call.integers("axes");
  if (axes.empty()) return AxisSet(rank, call.integer("noop_with_empty_axes", 0) == 0);
  return axis_set(axes, rank);
}

Tensor reduced(algorithm kind, const Tensor& x, const Dims& dims, float p) {
  const dnnl::reduction::primitive_desc forward({kind, plain(x.dims()), plain(dims), p, 0}, cpu());
  const Operand source(x);
  const Memory result = blank(plain(dims));
  run(dnnl::reduction(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  return read(result, dims);
}

// g repeated along the reduced axes, times a factor.
Tensor spread(const Tensor& g, const Dims& x, float factor) {
  const Tensor ones = [&] {
    Tensor tensor(DType::float32, x);
    for (float& element : tensor.mutable_data<float>()) element = factor;
    return tensor;
  }();
  const dnnl::binary::primitive_desc forward({algorithm::binary_mul, plain(x), plain(g.dims()), plain(x)}, cpu());
  const Operand left(ones), right(g);
  const Memory result = blank(plain(x));
  run(dnnl::binary(forward),
      {{DNNL_ARG_SRC_0, left.memory()}, {DNNL_ARG_SRC_1, right.memory()}, {DNNL_ARG_DST, result}});
  return read(result, x);
}

void reduce(DnnCall& call, algorithm kind, float p) {
  const Tensor& x = call.in(0);
  if (x.rank() == 0 || x.empty()) throw Unsupported("oneDNN is handed no scalar and no empty tensor here");
  const AxisSet axes = reduced_axes(call, x.rank());
  const Dims own = x.dims(), kept = reduced_sizes<std::int64_t>(own, axes, true, 1);
  const Dims y = reduced_sizes<std::int64_t>(own, axes, call.integer("keepdims") != 0, 1);
  // A reduction over nothing is none for the library.
  if (kept == own) throw Unsupported("oneDNN reduces at least one axis of more than one element");
  call.out(0, reduced(kind, x, kept, p).reshaped(y));
  if (kind != algorithm::reduction_sum && kind != algorithm::reduction_mean) return;
  const auto count = static_cast<float>(x.size() / element_count(kept));
  const float factor = kind == algorithm::reduction_mean ? 1.0F / count : 1.0F;
  call.derived([=](Given given) -> Gradients { return {spread(given[0]->reshaped(kept), own, factor)}; });
}

template <algorithm kKind, int kPower = 0>
void reduction(DnnCall& call) {
  reduce(call, kKind, static_cast<float>(kPower));
}

constexpr Lowering kEntries[] = {
    {"ReduceL1", "", reduction<algorithm::reduction_norm_lp_power_p_sum, 1>},
    {"ReduceL2", "", reduction<algorithm::reduction_norm_lp_sum, 2>},
    {"ReduceMax", "", reduction<algorithm::reduction_max>},
    {"ReduceMean", "", reduction<algorithm::reduction_mean>},
    {"ReduceMin", "", reduction<algorithm::reduction_min>},
    {"ReduceProd", "", reduction<algorithm::reduction_mul>},
    {"ReduceSum", "", reduction<algorithm::reduction_sum>},
    {"ReduceSumSquare", "", reduction<algorithm::reduction_norm_lp_power_p_sum, 2>},
};

}  // namespace

std::span<const Lowering> reductions() { return kEntries; }

}  // namespace finity::dnn
