#include "fuzz/meaning.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "ops/table/op.h"

namespace finity::fuzz {

namespace {

struct Meaning {
  std::string_view op, text;
};
constexpr Meaning kMeanings[] = {
    {"AveragePool",
     "each result is the sum of the input elements under the window divided by how many there are; with "
     "count_include_pad=1 the padding counts too, but never positions beyond it that ceil_mode adds"},
    {"MaxPool",
     "each result is the largest input element under the window; its own padding never wins, and zeros that a "
     "Pad put there are elements like any other"},
    {"Pad", "new positions hold the constant, or what reflection or the edge says; negative pads take elements away"},
    {"Cast",
     "each element is converted by itself: to an integer by dropping the fraction, to bool by asking whether it is "
     "zero, to a narrower float by rounding; what a conversion loses is lost"},
    {"Transpose", "axis i of the result is axis perm[i] of the input; a perm that counts up changes nothing"},
    {"Gemm",
     "alpha times A times B plus beta times C, where transA and transB say whether A and B are transposed first"},
    {"Div", "division element by element; of integers, the quotient without its fraction"},
    {"Mul", "product element by element, with the operands repeated along axes of size 1"},
    {"Relu", "the larger of the element and zero, for every numeric type"},
    {"Clip", "elements below min become min, above max become max"},
    {"ReduceMean",
     "the mean along the axes; with keepdims=0 these axes are gone, and what follows lines up from the right"},
    {"ReduceSumSquare",
     "the sum of squares along the axes; with noop_with_empty_axes=1 and no axes, the square of each "
     "element"},
    {"ConvTranspose",
     "each input element adds its multiple of the kernel to the result; pads are cut off, output_padding "
     "adds rows at the end"},
    {"BatchNormalization", "(x - mean) / sqrt(var + epsilon) * scale + B, per channel, which is axis 1"},
    {"LayerNormalization", "(x - mean) / sqrt(variance + epsilon) * scale + B over the axes from `axis` on"},
    {"Sub", "difference element by element, with the operands lined up from the last axis"},
    {"Pow", "the first operand to the power of the second, in the first operand's type"},
    {"Sqrt", "square root of each element"},
    {"Sigmoid", "1 / (1 + exp(-x)) of each element"},
    {"MatMul", "product of matrices in the last two axes, the others lined up and repeated"},
    {"Conv", "each result is the sum of kernel times input under the window, plus the bias; padding counts as zeros"},
    {"Softmax", "exp(x) divided by the sum of exp(x) along the axis"}};

}  // namespace

std::vector<std::string> meanings(const Sample& sample) {
  std::vector<std::string> result;
  std::set<std::string> done;
  for (const Step& step : sample.steps) {
    if (!done.insert(step.op).second) continue;
    const auto found = std::ranges::find(kMeanings, step.op, &Meaning::op);
    const OpDef* op = find_op(step.domain, step.op);
    const std::string_view text = found != std::end(kMeanings) ? found->text
                                  : op != nullptr              ? op->identity.summary
                                                               : "";
    result.push_back(step.op + ": " + std::string(text) + ".");
  }
  return result;
}

}  // namespace finity::fuzz
