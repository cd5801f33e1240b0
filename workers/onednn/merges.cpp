// What joins tensors: elementwise ops of two operands, sums, concatenation.
#include <algorithm>

#include "base/error.h"
#include "onednn/call.h"
#include "ops/shared/legacy_broadcast.h"
#include "tensor/convert.h"

namespace finity::dnn {

namespace {

using dnnl::algorithm;
using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;

Dims widened(const Dims& dims, std::size_t rank) {
  Dims result(rank > dims.size() ? rank - dims.size() : 0, 1);
  result.insert(result.end(), dims.begin(), dims.end());
  return result;
}

Dims joined(const Dims& a, const Dims& b) {
  Dims result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) throw Error("the operands' sizes do not fit");
    result[i] = a[i] == 1 ? b[i] : a[i];
  }
  return result;
}

// Operands of the same rank; `dims` are those of the result.
Tensor computed(algorithm kind, const Tensor& a, const Tensor& b, const Dims& dims) {
  const dnnl::binary::primitive_desc forward({kind, plain(a.dims()), plain(b.dims()), plain(dims)}, cpu());
  const Operand left(a), right(b);
  const Memory result = blank(plain(dims));
  run(dnnl::binary(forward),
      {{DNNL_ARG_SRC_0, left.memory()}, {DNNL_ARG_SRC_1, right.memory()}, {DNNL_ARG_DST, result}});
  return read(result, dims);
}

// Sums over the axes along which an operand was repeated.
Tensor summed(const Tensor& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const dnnl::reduction::primitive_desc forward({algorithm::reduction_sum, plain(x.dims()), plain(dims), 0, 0}, cpu());
  const Operand source(x);
  const Memory result = blank(plain(dims));
  run(dnnl::reduction(forward), {{DNNL_ARG_SRC, source.memory()}, {DNNL_ARG_DST, result}});
  return read(result, dims);
}

struct Pair {
  Tensor a, b;
  Dims dims, result;
};

Pair pair_of(const DnnCall& call) {
  const Tensor& a = call.in(0);
  const Tensor b = aligned_right(call, a, call.in(1));
  const std::size_t rank = std::max({a.rank(), b.rank(), std::size_t{1}});
  Pair pair{
      .a = a.reshaped(widened(a.dims(), rank)), .b = b.reshaped(widened(b.dims(), rank)), .dims = {}, .result = {}};
  pair.dims = joined(pair.a.dims(), pair.b.dims());
  pair.result = a.rank() == 0 && b.rank() == 0 ? Dims{} : pair.dims;
  return pair;
}

// Derived with the library's own products and sums: it has no backward primitives for these.
template <algorithm kKind>
void binary(DnnCall& call) {
  if (call.input_count() != 2) throw Unsupported("oneDNN has this op of two operands only");
  const Pair pair = pair_of(call);
  call.out(0, computed(kKind, pair.a, pair.b, pair.dims).reshaped(pair.result));
  if (kKind != algorithm::binary_add && kKind != algorithm::binary_sub && kKind != algorithm::binary_mul) return;
  const Dims own_a = call.in(0).dims(), own_b = call.in(1).dims();
  call.derived([=](Given given) -> Gradients {
    const Tensor g = given[0]->reshaped(pair.dims);
    if (kKind == algorithm::binary_mul) {
      return {summed(computed(kKind, g, pair.b, pair.dims), pair.a.dims()).reshaped(own_a),
              summed(computed(kKind, g, pair.a, pair.dims), pair.b.dims()).reshaped(own_b)};
    }
    const Tensor minus = Tensor::scalar(-1.0F).reshaped(Dims(pair.dims.size(), 1));
    const Tensor by_b = kKind == algorithm::binary_add ? g : computed(algorithm::binary_mul, g, minus, pair.dims);
    return {summed(g, pair.a.dims()).reshaped(own_a), summed(by_b, pair.b.dims()).reshaped(own_b)};
  });
}

// 1 and 0 in the library.
template <algorithm kKind>
void comparison(DnnCall& call) {
  const Pair pair = pair_of(call);
  const Tensor answers = computed(kKind, pair.a, pair.b, pair.dims);
  call.out(0, from_elements<double>(DType::boolean, pair.result, elements<double>(answers)));
}

void sum(DnnCall& call) {
  const Dims dims = call.in(0).dims();
  std::vector<Operand> operands;
  std::vector<Desc> descs;
  Arguments arguments;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.in(i).dims() != dims) throw Unsupported("oneDNN sums tensors of one shape only");
    operands.emplace_back(call.in(i));
    descs.push_back(plain(dims));
    arguments[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i)] = operands.back().memory();
  }
  const std::vector<float> ones(descs.size(), 1.0F);
  const Memory result = blank(plain(dims));
  arguments[DNNL_ARG_DST] = result;
  run(dnnl::sum(dnnl::sum::primitive_desc(plain(dims), ones, descs, cpu())), arguments);
  call.out(0, read(result, dims));
  const std::size_t count = call.input_count();
  call.derived([count](Given given) -> Gradients { return Gradients(count, *given[0]); });
}

Tensor part_of(const Tensor& whole, std::size_t axis, std::int64_t start, const Dims& dims) {
  const Dims strides = row_major_strides(whole.dims());
  const Desc own = plain(whole.dims());
  Dims offset(dims.size(), 0);
  offset[axis] = start;
  const Operand source(whole);
  const Memory part(own.submemory_desc(dims, offset), cpu(), source.memory().get_data_handle());
  return read(part, dims);
}

void concat(DnnCall& call) {
  const Dims y = call.result_dims();
  const std::int64_t given = call.integer("axis", 1);
  const auto axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(y.size()) : given);
  std::vector<Operand> operands;
  std::vector<Desc> descs;
  std::vector<Dims> parts;
  Arguments arguments;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    operands.emplace_back(call.in(i));
    parts.push_back(call.in(i).dims());
    descs.push_back(plain(parts.back()));
    arguments[DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i)] = operands.back().memory();
  }
  const Memory result = blank(plain(y));
  arguments[DNNL_ARG_DST] = result;
  run(dnnl::concat(dnnl::concat::primitive_desc(plain(y), static_cast<int>(axis), descs, cpu())), arguments);
  call.out(0, read(result, y));
  call.derived([=](Given by) -> Gradients {
    Gradients gradients;
    std::int64_t start = 0;
    for (const Dims& part : parts) {
      gradients.emplace_back(part_of(*by[0], axis, start, part));
      start += part[axis];
    }
    return gradients;
  });
}

constexpr Lowering kEntries[] = {
    {"Add", "", binary<algorithm::binary_add>},
    {"Concat", "", concat},
    {"Div", "", binary<algorithm::binary_div>},
    {"Equal", "", comparison<algorithm::binary_eq>},
    {"Greater", "", comparison<algorithm::binary_gt>},
    {"GreaterOrEqual", "", comparison<algorithm::binary_ge>},
    {"Less", "", comparison<algorithm::binary_lt>},
    {"LessOrEqual", "", comparison<algorithm::binary_le>},
    {"Max", "", binary<algorithm::binary_max>},
    {"Min", "", binary<algorithm::binary_min>},
    {"Mul", "", binary<algorithm::binary_mul>},
    {"Sub", "", binary<algorithm::binary_sub>},
    {"Sum", "", sum},
};

}  // namespace

std::span<const Lowering> merges() { return kEntries; }

}  // namespace finity::dnn
