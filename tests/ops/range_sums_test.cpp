// Long sums, products and means in each format, with each way to keep partial sums, for lengths at which errors start
// to matter: what the reference computes on rows of equal, alternating and random elements lies in the range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "one_node.h"
#include "support/range_probe.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr int kDraws = 20;
constexpr DType kDTypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int32};
constexpr std::int64_t kLengths[] = {1, 2, 3, 8, 300, 2049, 70000};

struct Reducing {
  const char* op;
  int version = 13;
  std::size_t operands = 1;  // two: a row times a column
  bool windows = false;      // an image of one channel
};

constexpr Reducing kReducing[] = {
    {.op = "ReduceSum", .version = 11},
    {.op = "ReduceMean"},
    {.op = "ReduceL1"},
    {.op = "ReduceL2"},
    {.op = "ReduceSumSquare"},
    {.op = "ReduceProd"},
    {.op = "ReduceLogSum"},
    {.op = "ReduceLogSumExp"},
    {.op = "ReduceMax"},
    {.op = "ReduceMin"},
    {.op = "Softmax"},
    {.op = "LogSoftmax"},
    {.op = "LpNormalization", .version = 22},
    {.op = "MeanVarianceNormalization"},
    {.op = "RMSNormalization", .version = 23, .operands = 2},
    {.op = "LayerNormalization", .version = 17, .operands = 2},
    {.op = "MatMul", .operands = 2},
    {.op = "Gemm", .operands = 2},
    {.op = "GlobalAveragePool", .version = 22, .windows = true},
    {.op = "GlobalLpPool", .version = 22, .windows = true},
    {.op = "Conv", .version = 22, .operands = 2, .windows = true},
};

Range drawn_range(DType dtype, Rng& rng) {
  static constexpr double kEnds[] = {0, 0, 1, -1, 0.5, 1e-3, -3, 100, -60000, 1e-7, 5e-8, 2e-38, 3e4, 1e19};
  const double most = max_finite(dtype);
  const auto end = [&] {
    const double x = rng.below(8) == 0 ? (rng.below(2) == 0 ? most : -most) : kEnds[rng.below(std::size(kEnds))];
    return is_float(dtype) ? round_to(dtype, std::clamp(x, -most, most)) : std::trunc(std::clamp(x, -1e9, 1e9));
  };
  const double a = end(), b = rng.below(3) == 0 ? a : end();
  Range range{.lo = std::min(a, b), .hi = std::max(a, b), .integer = !is_float(dtype)};
  if (!is_float(dtype)) return range;
  range.integer = range.lo == std::floor(range.lo) && range.hi == std::floor(range.hi) && rng.below(3) == 0;
  if (range.lo < 0 && range.hi > 0 && rng.below(4) == 0) range.nonzero = true;
  range.pinf = rng.below(12) == 0;
  range.ninf = rng.below(12) == 0;
  range.nan = rng.below(12) == 0;
  return range;
}

// The reference sums in float32.
RangeSettings drawn_settings(Rng& rng) {
  RangeSettings settings;
  if (rng.below(3) == 0) settings.accumulate = DType::float32;
  if (rng.below(6) == 0) settings.runtime = Runtime::exact;
  return settings;
}

Type type_of(DType dtype, std::initializer_list<std::int64_t> sizes) {
  Shape shape;
  for (const std::int64_t size : sizes) shape.push_back({.size = size});
  return Type::tensor(dtype, shape);
}

// The operands of an op that works along `length` elements.
std::vector<Type> operand_types(const Reducing& reducing, DType dtype, std::int64_t length) {
  const std::string_view op = reducing.op;
  if (reducing.windows) {
    std::vector<Type> types = {type_of(dtype, {1, 1, length, 1})};
    if (reducing.operands == 2) types = {type_of(dtype, {1, length, 4, 4}), type_of(dtype, {2, length, 1, 1})};
    return types;
  }
  if (op == "MatMul" || op == "Gemm") return {type_of(dtype, {2, length}), type_of(dtype, {length, 3})};
  if (reducing.operands == 2) return {type_of(dtype, {2, length}), type_of(dtype, {length})};
  if (op == "MeanVarianceNormalization") return {type_of(dtype, {1, 1, length, 1})};
  return {type_of(dtype, {2, length})};
}

Attrs attrs_of(const Reducing& reducing) {
  Attrs attrs;
  const std::string_view op = reducing.op;
  if (op.starts_with("Reduce")) attrs.set("axes", std::vector<std::int64_t>{1});
  if (op == "Gemm") attrs.set("alpha", -2.5F);
  return attrs;
}

// All the lower end, all the upper end, one after the other, or random members.
Tensor row_elements(const Type& type, const Range& range, int kind, Rng& rng) {
  const Dims dims = *type.dims();
  if (kind == 3 && !range.integer) return random_member(rng, uniform(type, range), dims);
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = kind == 0 || (kind == 2 && i % 2 == 0) ? range.lo : range.hi;
  }
  return from_elements<double>(type.dtype, dims, values);
}

void look_at(const Reducing& reducing, DType dtype, Rng& rng) {
  const std::int64_t length = kLengths[rng.below(std::size(kLengths))];
  const std::vector<Type> types = operand_types(reducing, dtype, length);
  const OneNode node(*find_op("", reducing.op), reducing.version, attrs_of(reducing), types);
  std::vector<Range> ranges;
  std::vector<AbsTensor> operands;
  for (const Type& type : types) {
    ranges.push_back(drawn_range(dtype, rng));
    operands.push_back(uniform(type, ranges.back()));
  }
  const OneNode::Abstract claimed = node.ranges(operands, drawn_settings(rng));
  if (claimed.warns()) return;
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<Datum> inputs;
    for (std::size_t i = 0; i < types.size(); ++i) inputs.push_back(row_elements(types[i], ranges[i], kind, rng));
    const std::vector<Datum> outputs = node.eval(inputs, 0);
    EXPECT_EQ(leaves(*outputs[0].tensor(), claimed.outputs[0]), "")
        << reducing.op << " of " << length << " " << name(dtype) << " in " << to_string(ranges[0]);
  }
}

TEST(LongSums, LieInTheirRanges) {
  for (const Reducing& reducing : kReducing) {
    const OpDef& op = *find_op("", reducing.op);
    for (const DType dtype : kDTypes) {
      if (!signature_of(op).inputs[0].type.dtypes[static_cast<std::size_t>(dtype)]) continue;
      Rng rng = seeded(static_cast<std::uint64_t>(dtype) + 100);
      for (int i = 0; i < kDraws; ++i) look_at(reducing, dtype, rng);
    }
  }
}

}  // namespace
}  // namespace finity
