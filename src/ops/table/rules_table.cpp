// The rules users see, in the order of their codes. Codes and slugs are stable:
// baselines, configuration files and in-model suppressions refer to them.
//   FN1xx an operand outside an operator's domain   FN2xx a result beyond the format's largest value
//   FN3xx NaN from infinities, empty or degenerate data   FN4xx constants in the file   FN9xx not analysed
#include <algorithm>
#include <array>

#include "ops/table/hazard.h"
#include "ops/table/rule_patterns.h"

namespace finity {

namespace {

constexpr std::array kDomainRules = {
    Rule{.code = "FN101",
         .slug = "division-by-zero",
         .summary = "the divisor of a floating-point division can be zero",
         .detail = "x / 0 is infinite and 0 / 0 is NaN. Divisors that are sums, counts, norms or standard deviations "
                   "are zero for a constant or empty input, and a difference such as 1 - p can round to zero although "
                   "it never is zero on paper.",
         .fix = "add an epsilon that survives in this format to the divisor, or keep it away from zero: Max(d, eps)"},
    Rule{.code = "FN102",
         .slug = "log-of-nonpositive",
         .summary = "a logarithm can be taken of zero or a negative number",
         .detail = "log(0) is -Inf and the logarithm of a negative number is NaN. A probability that underflows, or a "
                   "softmax or sigmoid that saturates, reaches exactly zero in floating point.",
         .fix = "compute in log space (LogSoftmax, log-sigmoid), or clamp the operand: Log(Max(x, eps))"},
    Rule{.code = "FN103",
         .slug = "log1p-domain",
         .summary = "log(1 + x) can be taken at or below x = -1",
         .detail = "log1p(-1) is -Inf and below -1 it is NaN. x is often the negative of a probability that can "
                   "reach one.",
         .fix = "keep x above -1, for instance Max(x, -1 + eps) with an eps that 1 does not absorb"},
    Rule{.code = "FN104",
         .slug = "sqrt-of-negative",
         .summary = "a square root can be taken of a negative number",
         .detail = "The result is NaN. A variance computed as E[x^2] - E[x]^2 is nonnegative on paper, but the "
                   "difference can round below zero.",
         .fix = "clamp the operand, Sqrt(Max(x, 0)), or compute the variance as the mean of (x - mean)^2"},
    Rule{.code = "FN105",
         .slug = "rsqrt-of-nonpositive",
         .summary = "a reciprocal square root can be taken of zero or a negative number",
         .detail = "1 / sqrt(0) is infinite and a negative operand gives NaN. In normalisations it happens for "
                   "constant rows when the epsilon is missing or too small for the format.",
         .fix = "add an epsilon that survives in this format before the root"},
    Rule{.code = "FN106",
         .slug = "pow-domain",
         .summary = "a power can have a negative base with a fractional exponent, or a zero base with a negative one",
         .detail = "A negative number to a fractional power is NaN, zero to a negative power is infinite.",
         .fix = "apply Abs or Max(x, eps) to the base, or use an integer exponent"},
    Rule{.code = "FN107",
         .slug = "acos-asin-domain",
         .summary = "an arc sine or arc cosine can be taken outside [-1, 1]",
         .detail = "The result is NaN. The dot product of two normalised vectors is at most one on paper, but rounds "
                   "to slightly more.",
         .fix = "clip the operand to [-1, 1], or use atan2 of cross and dot product"},
    Rule{.code = "FN108",
         .slug = "acosh-domain",
         .summary = "an inverse hyperbolic cosine can be taken below 1",
         .detail = "The result is NaN. Hyperbolic distances have an operand of exactly one for equal points, which "
                   "rounds to slightly less.",
         .fix = "clamp the operand: Acosh(Max(x, 1))"},
    Rule{.code = "FN109",
         .slug = "atanh-domain",
         .summary = "an inverse hyperbolic tangent can be taken at or beyond -1 or 1",
         .detail = "atanh(1) is infinite and beyond it is NaN. tanh saturates to exactly one: beyond about 9 in "
                   "float32 and 4.5 in float16.",
         .fix = "clip the operand to [-1 + eps, 1 - eps] with an eps that the format can tell from zero beside 1"},
    Rule{.code = "FN110",
         .slug = "tan-pole",
         .summary = "a tangent can be taken next to one of its poles",
         .detail = "Near odd multiples of pi/2 the tangent is so large that it overflows narrow formats or is "
                   "meaningless.",
         .fix = "keep the operand inside (-pi/2, pi/2), or work with sine and cosine"},
    Rule{.code = "FN111",
         .slug = "gamma-pole",
         .summary = "a gamma-like function can be taken at zero or a negative integer",
         .detail = "lgamma is infinite and digamma undefined there.",
         .fix = "keep the operand positive: Max(x, eps)"},
    Rule{.code = "FN112",
         .slug = "modulo-by-zero",
         .summary = "the divisor of a remainder can be zero",
         .detail = "fmod(x, 0) is NaN; for integers the result is undefined and some runtimes stop.",
         .fix = "make sure that the divisor is not zero: Where(d == 0, 1, d)"},
    Rule{.code = "FN113",
         .slug = "integer-division-by-zero",
         .summary = "the divisor of an integer division can be zero",
         .detail = "The result is undefined: runtimes stop with a signal, return zero, or return anything.",
         .fix = "make sure that the divisor is at least one: Max(d, 1)"},
    Rule{.code = "FN114",
         .slug = "reciprocal-of-zero",
         .summary = "a reciprocal can be taken of zero",
         .detail = "1 / 0 is infinite, and a later product with zero is NaN.",
         .fix = "add an epsilon that survives in this format, or keep the operand away from zero: Max(x, eps)"},
    Rule{.code = "FN115",
         .slug = "cast-float-to-int-range",
         .summary = "a float that is cast to an integer can lie outside the integer's range",
         .detail = "The result of casting NaN, an infinity or a number that is too large is undefined: processors and "
                   "runtimes give different integers.",
         .fix = "clip the operand to the integer's range before the cast"},
};

constexpr std::array kOverflowRules = {
    Rule{.code = "FN201",
         .slug = "exp-overflow",
         .summary = "an exponential can exceed the largest finite number",
         .detail = "exp overflows above 11.09 in float16, 88.72 in bfloat16 and float32, 709.78 in float64. Softmax, "
                   "log-sum-exp or sigmoid written out by hand do it for large scores.",
         .fix = "subtract the maximum first, or use Softmax, LogSoftmax, ReduceLogSumExp, Sigmoid"},
    Rule{.code = "FN202",
         .slug = "sinh-cosh-overflow",
         .summary = "a hyperbolic sine or cosine can exceed the largest finite number",
         .detail = "sinh and cosh grow like exp(|x|) / 2 and overflow just above the same bounds.",
         .fix = "clip the operand, or work with logarithms"},
    Rule{.code = "FN203",
         .slug = "arithmetic-overflow",
         .summary = "an elementwise result can exceed the largest finite number",
         .detail = "Sums, products and other elementwise results of finite operands can be beyond the format: above "
                   "65504 in float16, 3.4e38 in float32 and bfloat16.",
         .fix = "scale the operands down, clip them, or keep this node in a wider format"},
    Rule{.code = "FN204",
         .slug = "linear-overflow",
         .summary = "a matrix product, convolution or attention can exceed the largest finite number",
         .detail = "A dot product of many terms grows with their number. In float16 a result above 65504 is infinite "
                   "even where partial sums are kept in float32.",
         .fix = "keep this node in float32, or scale one operand down and the result up again"},
    Rule{.code = "FN205",
         .slug = "reduction-overflow",
         .summary = "a sum or product over an axis can exceed the largest finite number",
         .detail = "Reductions grow with the number of elements: a sum of squares over a long axis leaves float16 "
                   "quickly.",
         .fix = "reduce in float32, or scale the operand before the reduction"},
    Rule{.code = "FN206",
         .slug = "cast-overflow",
         .summary = "a cast to a narrower float format can overflow",
         .detail = "Finite numbers beyond the target's largest value become infinite, or NaN in formats without "
                   "infinity, or saturate.",
         .fix = "clip the operand to the range of the target format, or do not narrow here"},
    Rule{.code = "FN207",
         .slug = "pow-overflow",
         .summary = "a power can exceed the largest finite number",
         .detail = "x^y overflows for a large base or a large exponent; squares leave float16 at 256.",
         .fix = "bound the base or the exponent, or keep this node in a wider format"},
    Rule{.code = "FN208",
         .slug = "division-overflow",
         .summary = "a quotient can exceed the largest finite number",
         .detail = "A divisor that is not zero but tiny (a subnormal, or an epsilon of 1e-7 in float16) makes the "
                   "quotient overflow.",
         .fix = "use a larger epsilon in the divisor"},
    Rule{.code = "FN209",
         .slug = "gamma-overflow",
         .summary = "a gamma-like function can exceed the largest finite number",
         .detail = "gamma(x) overflows above 35.04 in float32 and above 171.6 in float64; lgamma overflows for huge x.",
         .fix = "use lgamma instead of gamma, or bound the operand"},
    Rule{.code = "FN210",
         .slug = "softplus-overflow",
         .summary = "log(1 + exp(x)), written out, can overflow",
         .detail = "exp(x) overflows although log(1 + exp(x)) is about x for large x.",
         .fix = "use Softplus, or Max(x, 0) + Log1p(Exp(-Abs(x)))"},
};

constexpr std::array kInvalidRules = {
    Rule{.code = "FN301",
         .slug = "softmax-fully-masked",
         .summary = "a softmax row can consist of -Inf only",
         .detail = "When a mask of -Inf covers a whole row, for instance a padded query, the maximum is -Inf too and "
                   "-Inf - -Inf is NaN.",
         .fix = "mask with the format's lowest finite number instead of -Inf, or declare in the contract that "
                "every row has an unmasked element"},
    Rule{.code = "FN302",
         .slug = "invalid-arithmetic",
         .summary = "a result can be NaN although no operand is, for instance Inf - Inf",
         .detail = "Inf - Inf, Inf / Inf and the like are NaN. The infinities are intended (a mask) or come from an "
                   "overflow that is reported by itself.",
         .fix = "use a large finite number instead of an infinity"},
    Rule{.code = "FN303",
         .slug = "zero-times-inf",
         .summary = "zero can be multiplied by an infinity",
         .detail = "0 * Inf is NaN: multiplying by a 0/1 mask does not remove an infinity.",
         .fix = "select with Where(mask, x, 0) instead of multiplying by the mask"},
    Rule{.code = "FN304",
         .slug = "norm-zero-variance",
         .summary = "a normalisation can divide by zero: variance and epsilon both vanish",
         .detail = "For a row of equal elements the variance is zero. An epsilon of 1e-8 or less is zero in float16, "
                   "and an epsilon of 0 never helps.",
         .fix = "use an epsilon of at least 1e-5, or normalise in float32"},
    Rule{.code = "FN305",
         .slug = "batchnorm-negative-variance",
         .summary = "the variance given to a batch normalisation can be negative",
         .detail = "A stored or computed variance below -epsilon gives the root of a negative number.",
         .fix = "repair the stored variance, or clamp it: Max(variance, 0)"},
    Rule{.code = "FN306",
         .slug = "mean-of-empty",
         .summary = "a mean or maximum can be taken over no elements",
         .detail =
             "The mean of an empty selection is 0 / 0, its maximum -Inf. It happens with empty batches, with masked "
             "means whose mask selects nothing, and with parts of sequences that are too short: x[1:] of one "
             "element.",
         .fix = "divide by Max(count, 1), or make sure that the axis is not empty"},
    Rule{.code = "FN307",
         .slug = "quantize-zero-scale",
         .summary = "a quantisation scale can be zero",
         .detail = "Quantising divides by the scale. Dynamic scales are zero for an all-zero input, stored ones "
                   "underflow when they are converted to a narrow format.",
         .fix = "keep the scale positive: Max(scale, eps)"},
};

constexpr std::array kConstantRules = {
    Rule{.code = "FN401",
         .slug = "nan-constant",
         .summary = "a constant of the file holds NaN",
         .detail = "Mostly a checkpoint of a training run that had diverged, or a damaged or wrongly decoded tensor.",
         .fix = "export from a healthy checkpoint"},
    Rule{.code = "FN402",
         .slug = "inf-constant",
         .summary = "a constant of the file holds an infinity",
         .detail = "An infinite weight is damage. An infinite mask value works in Softmax as long as a row is not "
                   "masked completely, and is NaN in products.",
         .fix = "use the format's largest or lowest finite number"},
    Rule{.code = "FN403",
         .slug = "constant-overflows-format",
         .summary = "a constant becomes infinite in the narrower format",
         .detail = "A mask of -1e9 or a large weight is beyond float16's 65504 and is cast to an infinity.",
         .fix = "use a value that the format holds, such as -65504, or keep the constant in float32"},
    Rule{.code = "FN404",
         .slug = "constant-flushed-to-zero",
         .summary = "a constant becomes zero in the narrower format",
         .detail =
             "An epsilon of 1e-8 is below float16's smallest number, 6e-8, and is zero after the conversion; what "
             "it guarded is unguarded.",
         .fix = "use a larger epsilon, or keep the constant in float32"},
    Rule{.code = "FN405",
         .slug = "epsilon-absorbed",
         .summary = "a small constant is absorbed by what it is added to",
         .detail = "1 + 1e-8 is exactly 1 in float32: an epsilon far below the other operand changes nothing, and a "
                   "guard built on it does not hold.",
         .fix = "use an epsilon of at least the format's spacing at the other operand"},
};

constexpr std::array kCoverageRules = {
    Rule{.code = "FN901",
         .slug = "unmodelled-op",
         .summary = "the operator is not in finity's table: nothing is known of its results",
         .detail =
             "Custom operators and operators of unknown domains have no definition here. Everything that depends on "
             "their results is answered with unknown instead of a guess.",
         .fix = "replace the operator by standard ones, or check the parts before and after it as models of their own"},
    Rule{.code = "FN902",
         .slug = "no-range-rule",
         .summary = "the operator is known, but not how it maps ranges: its results may be anything",
         .detail = "Everything that depends on its results is answered with unknown instead of a guess.",
         .fix = "replace it by operators that have a range rule, or check the parts before and after it as models of "
                "their own"},
    Rule{.code = "FN903",
         .slug = "stopped-at-a-limit",
         .summary = "the analysis stopped here at its time or memory limit",
         .detail = "This node and everything after it were not looked at. The finding stands for all of them.",
         .fix = "allow more with --time-limit or --memory-limit, or use --tensor partition"},
    Rule{.code = "FN904",
         .slug = "missing-weights",
         .summary = "numbers of weights are not there: their data file is missing",
         .detail = "A large model keeps its weights in files beside it. Without them every weight may be any finite "
                   "number (a variance not a negative one); what is not proved even so is not known.",
         .fix = "put the data file beside the model, or check for whatever weights training may give: --weights any"},
    Rule{.code = "FN905",
         .slug = "no-derivative",
         .summary = "the gradient could not be followed through this operator",
         .detail = "--train adds the backward pass to the model. Where an operator's derivative is not known, nothing "
                   "is said of the gradients that would flow through it.",
         .fix = "check the training step as your framework exports it, or write the operator with others"},
};

constexpr std::size_t kRuleCount =
    kDomainRules.size() + kOverflowRules.size() + kInvalidRules.size() + kConstantRules.size() + kCoverageRules.size();

constexpr std::array<Rule, kRuleCount> concatenated() {
  std::array<Rule, kRuleCount> all;
  std::size_t next = 0;
  const auto append = [&](const auto& rules) {
    for (const Rule& rule : rules) all[next++] = rule;
  };
  append(kDomainRules);
  append(kOverflowRules);
  append(kInvalidRules);
  append(kConstantRules);
  append(kCoverageRules);
  return all;
}

constexpr std::array<Rule, kRuleCount> kRules = concatenated();

constexpr std::array kPatterns = {
    RulePattern{.rule = "FN210", .instead_of = "FN201", .use = "Log(Add(1, X))"},
    RulePattern{.rule = "FN210", .instead_of = "FN201", .use = "Log(Add(X, 1))"},
    RulePattern{.rule = "FN210", .instead_of = "FN201", .use = "Log1p(X)"},
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

std::span<const RulePattern> rule_patterns() { return kPatterns; }

std::string_view raised_rule(std::string_view rule) {
  const auto* const found = std::ranges::find(kPatterns, rule, &RulePattern::rule);
  return found == kPatterns.end() ? rule : found->instead_of;
}

const Rule* find_rule(std::string_view code_or_slug) {
  const auto* const found = std::ranges::find_if(
      kRules, [&](const Rule& rule) { return rule.code == code_or_slug || rule.slug == code_or_slug; });
  return found == kRules.end() ? nullptr : found;
}

}  // namespace finity
