#include "ops/linear/linear_gradient.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "ops/linear/gemm_attrs.h"
#include "ops/reduce/reduce_gradient.h"
#include "tensor/convert.h"

namespace finity {

// ---- MatMul, Gemm --------------------------------------------------------------

namespace {

// The last two axes exchanged.
ValueId transposed(BuildCall& call, ValueId x) {
  std::vector<std::int64_t> perm(call.rank(x));
  if (perm.size() < 2) throw Unsupported("an operand is no matrix");
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  Attrs attrs;
  attrs.set("perm", std::move(perm));
  return call.add("Transpose", {x}, std::move(attrs));
}

ValueId squeeze(BuildCall& call, ValueId x, std::int64_t axis) { return call.add("Squeeze", {x, call.ints({axis})}); }

}  // namespace

// A vector on the left is a row, on the right a column.
void matmul_gradient(BuildCall& call) {
  const bool row = call.rank(call.in(0)) == 1, column = call.rank(call.in(1)) == 1;
  ValueId gradient = call.grad(0);
  if (column) gradient = unsqueeze(call, gradient, {-1});
  if (row) gradient = unsqueeze(call, gradient, {-2});
  if (call.wanted(0)) {
    const ValueId b = column ? unsqueeze(call, call.in(1), {1}) : call.in(1);
    const ValueId product = call.add("MatMul", {gradient, transposed(call, b)});
    call.give(0, row ? squeeze(call, product, -2) : product);
  }
  if (call.wanted(1)) {
    const ValueId a = row ? unsqueeze(call, call.in(0), {0}) : call.in(0);
    const ValueId product = call.add("MatMul", {transposed(call, a), gradient});
    call.give(1, column ? squeeze(call, product, -1) : product);
  }
}

void gemm_gradient(BuildCall& call) {
  const ValueId a = call.in(0), b = call.in(1), gradient = call.grad(0);
  const GemmAttrs gemm = read_gemm(call);
  const auto product = [&](ValueId left, bool turn_left, ValueId right, bool turn_right) {
    Attrs attrs;
    attrs.set("alpha", static_cast<float>(gemm.alpha));
    attrs.set("transA", std::int64_t{turn_left});
    attrs.set("transB", std::int64_t{turn_right});
    return call.add("Gemm", {left, right}, std::move(attrs));
  };
  if (call.wanted(0)) {
    call.give(0,
              gemm.turned_a ? product(b, gemm.turned_b, gradient, true) : product(gradient, false, b, !gemm.turned_b));
  }
  if (call.wanted(1)) {
    call.give(1,
              gemm.turned_b ? product(gradient, true, a, gemm.turned_a) : product(a, !gemm.turned_a, gradient, false));
  }
  if (gemm.beta != 0) call.give(2, gemm.beta == 1 ? gradient : call.product(call.scalar(gemm.beta), gradient));
}

// det(X) inv(X)^T, which has no value where the determinant is 0.
void det_gradient(BuildCall& call) {
  const ValueId inverse = transposed(call, call.add("com.microsoft:Inverse", {call.in(0)}));
  const ValueId slope = unsqueeze(call, call.product(call.grad(0), call.out(0)), {-2, -1});
  call.give(0, call.product(slope, inverse));
}

void inverse_gradient(BuildCall& call) {
  const ValueId turned = transposed(call, call.out(0));
  const ValueId product = call.add("MatMul", {turned, call.add("MatMul", {call.grad(0), turned})});
  call.give(0, call.add("Neg", {product}));
}

// ---- MatMulNBits ------------------------------------------------------------------

namespace {

// Of a matrix [K, N] the sums over each block of rows, in the order of the scales.
ValueId sum_by_block(BuildCall& call, ValueId matrix, ValueId scales) {
  const std::int64_t k = call.integer("K"), n = call.integer("N"), block = call.integer("block_size");
  const std::int64_t blocks = k / block + (k % block != 0 ? 1 : 0);
  if (blocks * block != k) matrix = call.add("Pad", {matrix, call.ints({0, 0, blocks * block - k, 0})});
  const ValueId sums = sum_away(call, reshape_to(call, matrix, {blocks, block, n}), {1});
  return reshape_like(call, transposed(call, sums), scales);
}

}  // namespace

// The op applied to the unit matrix gives the weights; with scales of 1, what the scales multiply.
void block_product_gradient(BuildCall& call) {
  const std::int64_t k = call.integer("K"), n = call.integer("N");
  const double zero[] = {0};
  const ValueId zeros =
      call.add("ConstantOfShape", {call.ints({k, k})},
               with_attr("value", make_constant(from_elements<double>(call.in_type(0).dtype, {1}, zero))));
  const auto weights = [&](ValueId scales) {
    std::vector<ValueId> inputs = call.inputs();
    inputs[0] = call.add("EyeLike", {zeros});
    inputs[2] = scales;
    if (inputs.size() > 5) inputs[5] = {};
    return call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front();
  };
  if (call.wanted(0)) call.give(0, call.add("MatMul", {call.grad(0), transposed(call, weights(call.in(2)))}));
  call.give(5, call.grad(0));
  if (!call.wanted(2) && !call.wanted(3)) return;
  if (call.has_input(4)) throw Unsupported("the derivative by scales of features that are not in order is not known");
  const ValueId rows = reshape_to(call, call.in(0), {-1, k});
  const ValueId slope = call.add("MatMul", {transposed(call, rows), reshape_to(call, call.grad(0), {-1, n})});
  const ValueId levels = weights(call.ones_like(call.in(2)));
  if (call.wanted(2)) call.give(2, sum_by_block(call, call.product(slope, levels), call.in(2)));
  if (!call.wanted(3)) return;
  const ValueId sums = call.add("Neg", {call.product(sum_by_block(call, slope, call.in(2)), call.in(2))});
  call.give(3, reshape_like(call, sums, call.in(3)));
}

// ---- Einsum --------------------------------------------------------------------

namespace {

struct EquationText {
  std::vector<std::string> inputs = {};
  std::string output = {};
};

// Without "->" the output has the ellipsis, then the letters that occur once.
std::string implicit_output(const std::vector<std::string>& inputs) {
  std::string all;
  for (const std::string& term : inputs) all += term;
  std::string output = all.find('.') == std::string::npos ? "" : "...";
  std::erase(all, '.');
  std::ranges::sort(all);
  for (const char letter : all) {
    if (std::ranges::count(all, letter) == 1) output += letter;
  }
  return output;
}

EquationText read_equation(const BuildCall& call) {
  std::string text = call.text("equation");
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  EquationText equation;
  equation.inputs.emplace_back();
  for (const char letter : text.substr(0, arrow)) {
    if (letter == ',') equation.inputs.emplace_back();
    else equation.inputs.back() += letter;
  }
  equation.output = arrow == std::string::npos ? implicit_output(equation.inputs) : text.substr(arrow + 2);
  return equation;
}

bool repeats_letter(const std::string& term) {
  return std::ranges::any_of(term, [&](char letter) { return letter != '.' && std::ranges::count(term, letter) > 1; });
}

}  // namespace

// The sum of products of the gradient and all other operands. Labels that only this operand has were summed away:
// the gradient is the same along them, which a factor of ones says.
void einsum_gradient(BuildCall& call) {
  const EquationText equation = read_equation(call);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.wanted(i)) continue;
    const std::string& own = equation.inputs[i];
    if (repeats_letter(own)) throw Unsupported("its derivative is not known where an equation takes a diagonal");
    std::string terms = equation.output;
    std::vector<ValueId> factors = {call.grad(0)};
    for (std::size_t k = 0; k < call.input_count(); ++k) {
      if (k == i) continue;
      terms += "," + equation.inputs[k];
      factors.push_back(call.in(k));
    }
    if (std::ranges::any_of(own, [&](char letter) { return terms.find(letter) == std::string::npos; })) {
      terms += "," + own;
      factors.push_back(call.ones_like(call.in(i)));
    }
    Attrs attrs;
    attrs.set("equation", terms + "->" + own);
    call.give(i, call.add("Einsum", std::move(factors), std::move(attrs)));
  }
}

// ---- convolutions --------------------------------------------------------------

void give_bias_gradient(BuildCall& call, std::size_t bias) {
  if (!call.wanted(bias)) return;
  std::vector<std::int64_t> axes = axes_from(2, call.rank(call.grad(0)));
  axes.insert(axes.begin(), 0);
  call.give(bias, sum_away(call, call.grad(0), axes));
}

void conv_gradient(BuildCall& call) {
  const ValueId x = call.in(0), w = call.in(1), gradient = call.grad(0);
  if (call.wanted(0)) call.give(0, call.add("finity:ConvInputGradient", {gradient, w, x}, call.attrs()));
  if (call.wanted(1)) call.give(1, call.add("finity:ConvWeightGradient", {gradient, x, w}, call.attrs()));
  give_bias_gradient(call, 2);
}

}  // namespace finity
