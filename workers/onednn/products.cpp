// Matrix products and fully connected layers.
#include "base/error.h"
#include "onednn/call.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;
using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;

// The last two axes exchanged, the elements where they are.
Desc turned(const Dims& dims) {
  Dims sizes = dims, strides = row_major_strides(dims);
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return strided(sizes, strides);
}

Tensor multiplied(const Operand& a, const Operand& b, const Dims& y) {
  const dnnl::matmul::primitive_desc forward({a.memory().get_desc(), b.memory().get_desc(), plain(y)}, cpu());
  const Memory result = blank(plain(y));
  run(dnnl::matmul(forward), {{DNNL_ARG_SRC, a.memory()}, {DNNL_ARG_WEIGHTS, b.memory()}, {DNNL_ARG_DST, result}});
  return read(result, y);
}

// Axes of size 1 in front, as many as the other operand has.
Dims widened(const Dims& dims, std::size_t rank) {
  Dims result(rank > dims.size() ? rank - dims.size() : 0, 1);
  result.insert(result.end(), dims.begin(), dims.end());
  return result;
}

// The library's products have no backward primitive: they are derived by two further products.
void matmul(DnnCall& call) {
  const Dims y = call.result_dims();
  Dims a = call.in(0).dims(), b = call.in(1).dims();
  if (a.empty() || b.empty()) throw Error("an operand has no axes");
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const std::size_t rank = std::max(a.size(), b.size());
  a = widened(a, rank);
  b = widened(b, rank);
  Dims wide(rank);
  for (std::size_t i = 0; i + 2 < rank; ++i) wide[i] = a[i] == 1 ? b[i] : a[i];
  wide[rank - 2] = a[rank - 2];
  wide[rank - 1] = b[rank - 1];
  if (a[rank - 1] == 0) throw Unsupported("oneDNN has no products over no elements");
  const Tensor left = call.in(0).reshaped(a), right = call.in(1).reshaped(b);
  call.out(0, multiplied(Operand(left), Operand(right), wide).reshaped(y));
  const bool spread = !std::equal(a.begin(), a.end() - 2, b.begin(), b.end() - 2);
  if (spread) return;
  const Dims own_a = call.in(0).dims(), own_b = call.in(1).dims();
  call.derived([=](Given given) -> Gradients {
    const Tensor g = given[0]->reshaped(wide);
    return {multiplied(Operand(g), Operand(right, turned(b)), a).reshaped(own_a),
            multiplied(Operand(left, turned(a)), Operand(g), b).reshaped(own_b)};
  });
}

// ---- Gemm as a fully connected layer -----------------------------------------------

struct Layer {
  Dims x, w;            // [M, K] and [N, K]
  Desc own_x, own_w;    // where our elements are
  bool biased = false;  // by one number per column
};

Layer layer_of(const DnnCall& call) {
  const Dims &a = call.in(0).dims(), &b = call.in(1).dims();
  if (a.size() != 2 || b.size() != 2) throw Unsupported("oneDNN is handed matrices only");
  Layer layer;
  layer.own_x = call.integer("transA") != 0 ? turned(a) : plain(a);
  layer.own_w = call.integer("transB") != 0 ? plain(b) : turned(b);
  layer.x = layer.own_x.dims();
  layer.w = layer.own_w.dims();
  if (layer.x[1] != layer.w[1]) throw Error("the operands' sizes do not fit");
  layer.biased = call.has(2);
  return layer;
}

// One number per column, as a vector.
std::optional<Tensor> row_bias(const DnnCall& call, std::int64_t columns) {
  if (!call.has(2)) return std::nullopt;
  const Tensor& c = call.in(2);
  const bool row = c.size() == columns && (c.rank() == 1 || (c.rank() == 2 && c.dims()[0] == 1));
  if (!row || (c.rank() == 2 && c.dims()[1] != columns)) throw Unsupported("oneDNN adds one number per column only");
  return c.reshaped({columns});
}

void gemm(DnnCall& call) {
  const Layer layer = layer_of(call);
  const bool scaled = call.real("alpha") != 1 || (layer.biased && call.real("beta") != 1);
  if (scaled) throw Unsupported("oneDNN has no factors in a fully connected layer");
  const Dims y{layer.x[0], layer.w[0]};
  const std::optional<Tensor> bias = row_bias(call, y[1]);
  const Desc b = bias ? plain(bias->dims()) : Desc();
  const Desc any_x = call.wanted(layer.x), any_w = call.wanted(layer.w), to = plain(y);
  const dnnl::inner_product_forward::primitive_desc forward({prop_kind::forward_training, any_x, any_w, b, to}, cpu());
  const Operand source(call.in(0), layer.own_x), filter(call.in(1), layer.own_w);
  const Operand offset = bias ? Operand(*bias) : Operand();
  const Memory result = blank(to);
  Arguments arguments{{DNNL_ARG_SRC, source.as(forward.src_desc())},
                      {DNNL_ARG_WEIGHTS, filter.as(forward.weights_desc())},
                      {DNNL_ARG_DST, result}};
  if (bias) arguments[DNNL_ARG_BIAS] = offset.memory();
  run(dnnl::inner_product_forward(forward), arguments);
  call.out(0, read(result, y));
  const Dims own_a = call.in(0).dims(), own_b = call.in(1).dims(), own_c = bias ? call.in(2).dims() : Dims{};
  call.derived([=](Given given) -> Gradients {
    const Operand by_y(*given[0]);
    const dnnl::inner_product_backward_data::primitive_desc by_data({any_x, any_w, to}, cpu(), forward);
    const Memory by_x = blank(by_data.diff_src_desc());
    run(dnnl::inner_product_backward_data(by_data), {{DNNL_ARG_DIFF_DST, by_y.memory()},
                                                     {DNNL_ARG_WEIGHTS, filter.as(by_data.weights_desc())},
                                                     {DNNL_ARG_DIFF_SRC, by_x}});
    const dnnl::inner_product_backward_weights::primitive_desc by_weights({any_x, any_w, b, to}, cpu(), forward);
    const Memory by_w = blank(by_weights.diff_weights_desc());
    const Memory by_b = bias ? blank(by_weights.diff_bias_desc()) : Memory();
    Arguments backward{{DNNL_ARG_SRC, source.as(by_weights.src_desc())},
                       {DNNL_ARG_DIFF_DST, by_y.memory()},
                       {DNNL_ARG_DIFF_WEIGHTS, by_w}};
    if (bias) backward[DNNL_ARG_DIFF_BIAS] = by_b;
    run(dnnl::inner_product_backward_weights(by_weights), backward);
    Gradients result{read(by_x, own_a, layer.own_x), read(by_w, own_b, layer.own_w)};
    if (bias) result.emplace_back(read(by_b, {y[1]}).reshaped(own_c));
    return result;
  });
}

constexpr Lowering kEntries[] = {{"Gemm", "", gemm}, {"MatMul", "", matmul}};

}  // namespace

std::span<const Lowering> products() { return kEntries; }

}  // namespace finity::dnn
