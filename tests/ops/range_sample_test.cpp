// Ops whose operands are too many to enumerate: operands drawn from random ranges, and
// every element of every result must lie in the range that the rule gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "one_node.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr int kTrials = 150;
constexpr int kRuns = 6;

struct Operand {
  DType dtype = DType::float32;
  Dims dims = {2, 3};
  // Limits of what is drawn; the whole format where they are equal.
  double lo = 0, hi = 0;
};

struct Trial {
  std::string_view op = {};
  std::string_view domain = {};
  int version = 21;
  Attrs attrs = {};
  std::vector<Operand> operands = {};  // a dtype of undefined: omitted
  std::size_t outputs = 1;
  std::string note = {};
};

Attrs with(std::initializer_list<std::pair<const char*, Attr>> entries) {
  Attrs attrs;
  for (const auto& [name, value] : entries) attrs.set(name, value);
  return attrs;
}

// ---- drawing -----------------------------------------------------------------

double stored(DType dtype, double x) {
  if (is_float(dtype)) return round_to(dtype, x);
  return std::clamp(std::trunc(x), lowest_finite(dtype), std::min(max_finite(dtype), 0x1p62));
}

// Numbers of every magnitude, and those near which something happens.
double draw_number(const Operand& operand, Rng& rng) {
  const bool bounded = operand.lo < operand.hi;
  const double lo = bounded ? operand.lo : lowest_finite(operand.dtype);
  const double hi = bounded ? operand.hi : max_finite(operand.dtype);
  static constexpr double kSpecial[] = {0, 1, -1, 0.5, -0.5, 1e-8, -1e-8, 3, -3, 88.7, -88.7, 1e4, -1e4};
  const std::uint64_t kind = rng.below(6);
  double x = rng.uniform(-4, 4);
  if (kind == 0) x = kSpecial[rng.below(std::size(kSpecial))];
  if (kind == 1) x = std::copysign(std::exp(rng.uniform(-80, 80)), rng.uniform(-1, 1));
  if (kind == 2) x = rng.uniform(0, 1) < 0.5 ? lo : hi;
  if (kind == 3 && bounded) x = rng.uniform(lo, hi);
  return stored(operand.dtype, std::clamp(x, lo, hi));
}

Range draw_range(const Operand& operand, Rng& rng) {
  const double a = draw_number(operand, rng), b = rng.below(4) == 0 ? a : draw_number(operand, rng);
  Range range{.lo = std::min(a, b), .hi = std::max(a, b), .integer = !is_float(operand.dtype)};
  const bool odd = is_float(operand.dtype) && !(operand.lo < operand.hi) && rng.below(8) == 0;
  if (odd && float_format(operand.dtype).nan) range.nan = rng.below(2) == 0;
  if (odd && float_format(operand.dtype).infinite) {
    range.pinf = rng.below(2) == 0;
    range.ninf = rng.below(2) == 0;
  }
  if (range.lo < 0 && range.hi > 0 && rng.below(3) == 0) {
    range.nonzero = true;
    if (is_float(operand.dtype)) range.gap = stored(operand.dtype, std::min(-range.lo, range.hi) * rng.uniform(0, 1));
  }
  return range;
}

double draw_member(const Range& range, DType dtype, Rng& rng) {
  const std::uint64_t kind = rng.below(8);
  if (kind == 0 && range.nan) return std::nan("");
  if (kind == 1 && range.pinf) return kInf;
  if (kind == 2 && range.ninf) return -kInf;
  if (kind == 3) return range.lo;
  if (kind == 4) return range.hi;
  if (kind == 5 && range.contains(0)) return 0;
  if (kind == 6 && range.nonzero && range.gap > 0) return rng.below(2) == 0 ? range.gap : -range.gap;
  const double x = std::clamp(stored(dtype, rng.uniform(range.lo, range.hi)), range.lo, range.hi);
  return range.contains(x) || !range.nonzero ? x : range.lo;
}

Tensor draw_tensor(const Operand& operand, const Range& range, Rng& rng) {
  std::vector<double> values(static_cast<std::size_t>(element_count(operand.dims)));
  for (double& value : values) value = draw_member(range, operand.dtype, rng);
  return from_elements<double>(operand.dtype, operand.dims, values);
}

// ---- judging -----------------------------------------------------------------

bool meets_hazard(const OpDef& op, const std::vector<Range>& ranges, const std::vector<Operand>& operands) {
  return std::ranges::any_of(op.analysis.hazards, [&](const Hazard& hazard) {
    return hazard.quantity == nullptr && hazard.operand < ranges.size() &&
           meets(ranges[hazard.operand], hazard.unsafe(operands[hazard.operand].dtype));
  });
}

OneNode node_of(const Trial& trial) {
  std::vector<Type> types;
  for (const Operand& operand : trial.operands) {
    types.push_back(operand.dtype == DType::undefined ? Type{} : Type::tensor_of(operand.dtype, operand.dims));
  }
  return {*find_op(trial.domain, trial.op), trial.version, trial.attrs, types, trial.outputs};
}

void check_outputs(const OneNode& node, const std::vector<Range>& ranges, const std::vector<AbsTensor>& claimed,
                   const std::vector<Datum>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Range range = claimed[i].hull();
    for (const double y : elements<double>(*outputs[i].tensor())) {
      std::string given;
      for (const Range& operand : ranges) given += to_string(operand) + ", ";
      ASSERT_TRUE(range.contains(y)) << given << "output " << i << " of " << name(node.out_type(i).dtype) << ": "
                                     << to_string(range) << " without " << y;
    }
  }
}

std::vector<Range> draw_ranges(const Trial& trial, Rng& rng) {
  std::vector<Range> ranges(trial.operands.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (trial.operands[i].dtype != DType::undefined) ranges[i] = draw_range(trial.operands[i], rng);
  }
  return ranges;
}

std::vector<AbsTensor> tensors_of(const Trial& trial, const std::vector<Range>& ranges) {
  std::vector<AbsTensor> tensors(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Operand& operand = trial.operands[i];
    if (operand.dtype != DType::undefined) tensors[i] = uniform(operand.dtype, operand.dims, ranges[i]);
  }
  return tensors;
}

std::string label(const Trial& trial) {
  std::string label = std::string(trial.domain) + "_" + std::string(trial.op) + "_" + trial.note;
  std::ranges::replace_if(
      label, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return label;
}

class SampledRanges : public testing::TestWithParam<Trial> {};

TEST_P(SampledRanges, HoldEveryResult) {
  const Trial& trial = GetParam();
  const OneNode node = node_of(trial);
  ASSERT_NE(node.node().op->analysis.range, nullptr);
  Rng rng(11);
  int looked_at = 0;
  for (int t = 0; t < kTrials; ++t) {
    const std::vector<Range> ranges = draw_ranges(trial, rng);
    const std::vector<AbsTensor> tensors = tensors_of(trial, ranges);
    const OneNode::Abstract claimed = node.ranges(tensors);
    if (claimed.warns() || meets_hazard(*node.node().op, ranges, trial.operands)) continue;
    for (int run = 0; run < kRuns; ++run) {
      std::vector<Datum> inputs(ranges.size());
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (trial.operands[i].dtype != DType::undefined) inputs[i] = draw_tensor(trial.operands[i], ranges[i], rng);
      }
      std::vector<Datum> outputs;
      try {
        outputs = node.eval(inputs, rng.bits());
      } catch (const Error&) {
        continue;
      }
      ++looked_at;
      check_outputs(node, ranges, claimed.outputs, outputs);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(looked_at, kTrials / 4);
}

// ---- the trials ----------------------------------------------------------------

const Operand kFloat;
constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::string_view kTraining = "ai.onnx.preview.training";

Operand of(DType dtype, Dims dims = {2, 3}) { return {.dtype = dtype, .dims = std::move(dims)}; }
Operand bounded(DType dtype, double lo, double hi, Dims dims = {2, 3}) {
  return {.dtype = dtype, .dims = std::move(dims), .lo = lo, .hi = hi};
}

// The wider formats, which cannot be enumerated, of every elementwise op of one operand.
void add_unary(std::vector<Trial>& trials) {
  for (const OpDef* op : all_ops()) {
    const Signature& signature = signature_of(*op);
    const bool single = op->traits.elementwise && op->meaning.eval != nullptr && signature.inputs.size() == 1;
    if (!single || signature.attr("to") != nullptr) continue;
    Attrs attrs;
    for (const AttrSpec& spec : signature.attrs) {
      if (spec.kind == "float" && !spec.fallback && op->identity.name != "Selu") attrs.set(spec.name, 0.75F);
    }
    for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::uint8}) {
      if (!signature.inputs[0].type.dtypes[static_cast<std::size_t>(dtype)]) continue;
      trials.push_back({op->identity.name,
                        op->identity.domain,
                        op->identity.until != 0 ? op->identity.until : 28,
                        attrs,
                        {of(dtype, {8})},
                        1,
                        std::string(name(dtype))});
    }
  }
}

void add_binary(std::vector<Trial>& trials) {
  for (const std::string_view op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    for (const DType dtype : {DType::float32, DType::float16, DType::int8, DType::int64}) {
      trials.push_back({op, "", 21, {}, {of(dtype), of(dtype, {3})}, 1, std::string(name(dtype))});
    }
  }
  for (const std::string_view op : {"And", "Or", "Xor"})
    trials.push_back({op, "", 21, {}, {of(DType::boolean), of(DType::boolean)}});
  for (const DType dtype : {DType::float32, DType::float16, DType::int32}) {
    const std::string label(name(dtype));
    trials.push_back({"Clip", "", 13, {}, {of(dtype), of(dtype, {}), of(dtype, {})}, 1, label});
    trials.push_back({"Clip", "", 13, {}, {of(dtype), of(dtype, {})}, 1, label + "_low"});
    trials.push_back({"Clip", "", 13, {}, {of(dtype), {.dtype = DType::undefined}, of(dtype, {})}, 1, label + "_high"});
    trials.push_back({"PRelu", "", 16, {}, {of(dtype), of(dtype, {3})}, 1, label});
  }
  trials.push_back({"Clip", "", 6, with({{"min", -0.1F}, {"max", 0.3F}}), {of(DType::float16)}, 1, "attributes"});
  trials.push_back({"Clip", "", 6, {}, {kFloat}, 1, "nothing"});
  trials.push_back({"SwiGLU", "", 28, {}, {kFloat, kFloat}});
  trials.push_back({"FastGelu", kMicrosoft, 1, {}, {of(DType::float16), of(DType::float16, {3})}});
  trials.push_back({"BiasGelu", kMicrosoft, 1, {}, {kFloat, of(DType::float32, {3})}});
  trials.push_back({"BiasSplitGelu", kMicrosoft, 1, {}, {of(DType::float32, {2, 4}), of(DType::float32, {4})}});
}

void add_casts(std::vector<Trial>& trials) {
  for (const DType from :
       {DType::float32, DType::float64, DType::int64, DType::uint8, DType::boolean, DType::float8e5m2}) {
    for (const DType to : {DType::float16, DType::bfloat16, DType::float32, DType::int8, DType::uint32, DType::int64,
                           DType::boolean, DType::float8e4m3fn, DType::float8e8m0, DType::int4}) {
      const std::string label = std::string(name(from)) + "_to_" + std::string(name(to));
      trials.push_back({"Cast",
                        "",
                        25,
                        with({{"to", static_cast<std::int64_t>(to)}}),
                        {bounded(from, from == DType::boolean ? 0 : -7, from == DType::boolean ? 1 : 7)},
                        1,
                        label});
      if (from == DType::boolean) trials.back().operands = {of(from)};
    }
  }
  for (const DType to : {DType::float16, DType::float8e4m3fnuz, DType::int32}) {
    trials.push_back(
        {"CastLike", "", 24, {}, {bounded(DType::float32, -1e6, 1e6), of(to, {1})}, 1, std::string(name(to))});
  }
}

void add_random(std::vector<Trial>& trials) {
  const Attr shape = std::vector<std::int64_t>{40, 50};
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Attr code = static_cast<std::int64_t>(dtype);
    const std::string label(name(dtype));
    trials.push_back({"RandomNormal",
                      "",
                      21,
                      with({{"shape", shape}, {"dtype", code}, {"mean", 2.0F}, {"scale", -3.0F}}),
                      {},
                      1,
                      label});
    trials.push_back({"RandomUniform",
                      "",
                      21,
                      with({{"shape", shape}, {"dtype", code}, {"low", -0.1F}, {"high", 0.3F}}),
                      {},
                      1,
                      label});
    trials.push_back({"RandomNormalLike", "", 21, with({{"dtype", code}}), {kFloat}, 1, label});
    trials.push_back({"RandomUniformLike", "", 21, with({{"dtype", code}}), {kFloat}, 1, label});
  }
  trials.push_back({"Bernoulli", "", 21, {}, {bounded(DType::float32, -0.5, 1.5)}});
  trials.push_back({"Multinomial", "", 21, with({{"sample_size", std::int64_t{20}}}), {kFloat}});
  trials.push_back(
      {"Dropout", "", 13, {}, {kFloat, bounded(DType::float32, 0, 0.9, {}), of(DType::boolean, {})}, 2, "asked"});
  trials.push_back({"Dropout", "", 13, {}, {kFloat}, 2, "never"});
  trials.push_back({"Dropout", "", 6, {}, {of(DType::float16)}, 2, "always"});
}

void add_quantized(std::vector<Trial>& trials) {
  for (const DType to :
       {DType::int8, DType::uint8, DType::int16, DType::int4, DType::float8e4m3fn, DType::float8e5m2}) {
    const Operand zero = is_int(to) ? bounded(to, is_signed_int(to) ? -5 : 0, 5, {1}) : bounded(to, 0, 0, {1});
    for (const DType from : {DType::float32, DType::float16}) {
      const std::string label = std::string(name(from)) + "_to_" + std::string(name(to));
      trials.push_back({"QuantizeLinear", "", 21, {}, {of(from), bounded(from, 0.01, 3, {1}), zero}, 1, label});
      trials.push_back({"DequantizeLinear",
                        "",
                        21,
                        {},
                        {is_int(to) ? of(to) : bounded(to, -400, 400), of(from, {1}), zero},
                        1,
                        label});
    }
  }
  trials.push_back({"QuantizeLinear",
                    "",
                    21,
                    {},
                    {kFloat, bounded(DType::float32, -2, 2, {3}), bounded(DType::uint8, 0, 9, {3})},
                    1,
                    "rows"});
  trials.push_back(
      {"QuantizeLinear", "", 21, {}, {of(DType::int32), bounded(DType::float32, 1, 9, {1})}, 1, "integers"});
  trials.push_back({"DequantizeLinear", "", 21, {}, {of(DType::int32), of(DType::float32, {1})}, 1, "integers"});
  trials.push_back({"DynamicQuantizeLinear", "", 21, {}, {kFloat}, 3});
}

void add_legacy(std::vector<Trial>& trials) {
  const Operand image = of(DType::float32, {1, 2, 3, 4});
  trials.push_back({"ImageScaler", "", 9, with({{"scale", 0.3F}, {"bias", std::vector<float>{-1, 2.5F}}}), {image}});
  trials.push_back({"Crop", "", 9, with({{"border", std::vector<std::int64_t>{1, 0, 1, 1}}}), {image}});
  trials.push_back({"GivenTensorFill",
                    "",
                    9,
                    with({{"values", std::vector<float>{0.1F, -3}}, {"shape", std::vector<std::int64_t>{2}}}),
                    {}});
}

void add_training(std::vector<Trial>& trials) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::string label(name(dtype));
    const Operand x = bounded(dtype, -10, 10), rate = bounded(DType::float32, 0, 1, {}), state = bounded(dtype, 0, 5);
    const Operand updates = bounded(DType::int64, 0, 100, {});
    trials.push_back({"Adagrad",
                      kTraining,
                      1,
                      with({{"epsilon", 0.01F}, {"decay_factor", 0.1F}, {"norm_coefficient", 0.5F}}),
                      {rate, updates, x, x, state},
                      2,
                      label});
    trials.push_back({"Adam",
                      kTraining,
                      1,
                      with({{"epsilon", 0.01F}, {"norm_coefficient_post", 0.1F}}),
                      {rate, updates, x, x, x, state},
                      3,
                      label});
    for (const char* mode : {"standard", "nesterov"}) {
      const Attrs attrs =
          with({{"alpha", 0.9F}, {"beta", 0.5F}, {"norm_coefficient", 0.1F}, {"mode", std::string(mode)}});
      trials.push_back({"Momentum", kTraining, 1, attrs, {rate, updates, x, x, x}, 2, label + mode});
    }
  }
}

std::vector<Trial> trials() {
  std::vector<Trial> result;
  for (const auto add : {add_unary, add_binary, add_casts, add_random, add_quantized, add_legacy, add_training})
    add(result);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Table, SampledRanges, testing::ValuesIn(trials()),
                         [](const auto& info) { return label(info.param); });

}  // namespace
}  // namespace finity
