// Ranges of matrix products: whatever eval computes for members of the operands lies
// in the result, also when partial sums are kept in a narrow format; the ends are
// reached; overflow of float16 is flagged when and only when it can happen.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "ops/linear/weight_sums.h"
#include "support/range_probe.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

void expect_sound(Rng& rng, RangeProbe& probe, int tries, const std::string& what) {
  ASSERT_EQ(unsound(rng, probe, tries), "") << what;
}

// ---- weight sums -------------------------------------------------------------------

TEST(WeightSums, TinyWeightsKeepTheirSign) {
  const std::vector<double> values = {-0.5, 2, 1e-30, 3, -1, 0, -0.25, -1e-30};
  const Tensor tensor = from_elements<double>(DType::float32, {4, 2}, values);
  const std::vector<WeightAxis> axes = {{4, true}, {2, false}};
  const WeightSums sums = weight_sums({DType::float32, tensor.bytes()}, axes);
  EXPECT_GT(sums.positive(0, 0), 0);
  EXPECT_LT(sums.negative(0, 1), 0);
  EXPECT_LT(sums.positive(0, 0), 1e-12);
  const Tensor one_sign =
      from_elements<double>(DType::float32, {4, 2}, std::vector<double>{-3, 1, -2, 2, 0, 0, -1e-30, 3});
  const WeightSums plain = weight_sums({DType::float32, one_sign.bytes()}, axes);
  EXPECT_EQ(plain.positive(0, 0), 0);
  EXPECT_EQ(plain.negative(0, 1), 0);
}

// One weight of the other sign, however small beside however many others, is never lost.
TEST(WeightSums, OneOddWeightShows) {
  Rng rng = seeded(7);
  for (int exponent = 0; exponent > -140; exponent -= 7) {
    for (const std::int64_t depth : {2, 9, 64, 1500}) {
      std::vector<double> values(static_cast<std::size_t>(depth) * 3);
      for (double& value : values) value = 1 + static_cast<double>(rng.below(1000));
      values[rng.below(static_cast<std::uint64_t>(depth)) * 3 + 1] = -std::ldexp(1.5, exponent);
      const Tensor tensor = from_elements<double>(DType::float32, {depth, 3}, values);
      const std::vector<WeightAxis> axes = {{depth, true}, {3, false}};
      const WeightSums sums = weight_sums({DType::float32, tensor.bytes()}, axes);
      EXPECT_LT(sums.negative(0, 1), 0) << exponent << " of " << depth;
      EXPECT_EQ(sums.negative(0, 0), 0) << exponent << " of " << depth;
      EXPECT_EQ(sums.negative(0, 2), 0) << exponent << " of " << depth;
    }
  }
}

TEST(WeightSums, AgreeWithPlainLoops) {
  Rng rng = seeded(1);
  constexpr DType kTypes[] = {DType::float32,      DType::float16,        DType::bfloat16,   DType::float64,
                              DType::int8,         DType::uint8,          DType::int32,      DType::int64,
                              DType::float8e4m3fn, DType::int16,          DType::uint16,     DType::uint32,
                              DType::uint64,       DType::float8e4m3fnuz, DType::float8e5m2, DType::float8e5m2fnuz};
  for (int round = 0; round < 300; ++round) {
    const DType dtype = kTypes[rng.below(std::size(kTypes))];
    std::vector<WeightAxis> axes;
    Dims dims;
    int summed = 0;
    for (std::size_t i = 0; i < 1 + rng.below(4); ++i) {
      axes.push_back({small(rng, round % 10 == 0 ? 40 : 7), rng.below(2) == 0});
      dims.push_back(axes.back().size);
      summed += axes.back().summed ? 1 : 0;
    }
    if (round % 50 == 0) axes.assign({{3, true}, {2100, false}}), dims = {3, 2100}, summed = 1;
    if (round % 50 == 1) axes.assign({{3, false}, {2100, true}}), dims = {3, 2100}, summed = 1;
    const Tensor tensor = random_tensor(rng, dtype, dims, is_unsigned_int(dtype) ? 0 : -100, 100);
    std::vector<std::int64_t> cuts;
    std::int64_t depth = 0;
    for (const WeightAxis& axis : axes) depth = axis.summed ? axis.size : depth;
    for (std::int64_t cut = 1; summed == 1 && cut < depth; ++cut) {
      if (rng.below(4) == 0) cuts.push_back(cut);
    }
    std::vector<double> offsets;
    const WeightSums plain = weight_sums({dtype, tensor.bytes()}, axes, cuts);
    if (is_int(dtype) && rng.below(2) == 0) {
      offsets.resize(rng.below(2) == 0 ? 1 : plain.columns);
      for (double& offset : offsets) offset = static_cast<double>(rng.below(9));
    }
    const WeightSums sums = weight_sums({dtype, tensor.bytes()}, axes, cuts, offsets);
    std::vector<double> sum(sums.sum.size()), magnitude(sums.sum.size());
    const std::vector<double> values = elements<double>(tensor);
    for (std::size_t element = 0; element < values.size(); ++element) {
      std::int64_t rest = static_cast<std::int64_t>(element), column_step = 1, depth_step = 1, column = 0, at = 0;
      for (std::size_t i = axes.size(); i-- > 0;) {
        const std::int64_t index = rest % dims[i];
        rest /= dims[i];
        if (axes[i].summed) at += index * depth_step, depth_step *= dims[i];
        else column += index * column_step, column_step *= dims[i];
      }
      std::size_t segment = 0;
      while (segment < cuts.size() && cuts[segment] <= at) ++segment;
      const double offset = offsets.empty() ? 0 : offsets[offsets.size() == 1 ? 0 : static_cast<std::size_t>(column)];
      sum[segment * sums.columns + static_cast<std::size_t>(column)] += values[element] - offset;
      magnitude[segment * sums.columns + static_cast<std::size_t>(column)] += std::abs(values[element] - offset);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_NEAR(sums.sum[i], sum[i], 1e-9 * magnitude[i]) << name(dtype) << " round " << round;
      ASSERT_NEAR(sums.magnitude[i], magnitude[i], 1e-9 * magnitude[i]) << name(dtype) << " round " << round;
    }
  }
}

TEST(WeightSums, InfiniteWeightsShow) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
    for (const double special : {static_cast<double>(kInf), -static_cast<double>(kInf), std::nan("")}) {
      const Tensor tensor = from_elements<double>(dtype, {3}, std::vector<double>{1, special, 2});
      const WeightAxis axes[] = {{3, true}};
      EXPECT_FALSE(std::isfinite(weight_sums({dtype, tensor.bytes()}, axes).magnitude[0])) << name(dtype);
    }
  }
}

TEST(WeightSums, EveryHalfDecodes) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor tensor = Tensor::of<std::uint16_t>(dtype, {65536}, bits);
    const WeightAxis axes[] = {{65536, false}};
    const WeightSums sums = weight_sums({dtype, tensor.bytes()}, axes);
    const std::vector<double> values = elements<double>(tensor);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) ASSERT_EQ(sums.sum[i], values[i]) << i;
      else ASSERT_FALSE(std::isfinite(sums.magnitude[i])) << i;
    }
  }
}

// ---- MatMul ------------------------------------------------------------------------

struct MatMulDims {
  Dims a, b;
};

MatMulDims any_shapes(Rng& rng, std::int64_t depth) {
  MatMulDims dims;
  const std::size_t batch = rng.below(3);
  for (std::size_t i = 0; i < batch; ++i) {
    const std::int64_t size = small(rng, 3);
    dims.a.push_back(rng.below(4) == 0 ? 1 : size);
    dims.b.push_back(rng.below(4) == 0 ? 1 : size);
  }
  if (rng.below(3) == 0) dims.b.clear();
  if (rng.below(5) == 0) dims.a.clear();
  if (dims.a.empty() && rng.below(4) == 0) dims.a = {depth};
  else dims.a.push_back(small(rng, 5)), dims.a.push_back(depth);
  if (dims.b.empty() && rng.below(4) == 0) dims.b = {depth};
  else dims.b.push_back(depth), dims.b.push_back(small(rng, 6));
  return dims;
}

TEST(RangeMatMul, Sound) {
  Rng rng = seeded(2);
  for (int round = 0; round < 1500; ++round) {
    const DType dtype = rng.below(6) == 0 ? DType::int32 : any_float(rng);
    const double scale = rng.below(4) == 0 ? 300 : 3;
    const MatMulDims dims = any_shapes(rng, static_cast<std::int64_t>(rng.below(9)));
    const std::uint64_t known = rng.below(3);
    RangeProbe probe{.op = "MatMul",
                     .operands = {any_operand(rng, dtype, dims.a, -scale, scale, known == 1),
                                  any_operand(rng, dtype, dims.b, -scale, scale, known == 2)},
                     .settings = any_settings(rng)};
    expect_sound(rng, probe, 8, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(RangeMatMul, SoundWithSpecialValues) {
  Rng rng = seeded(3);
  for (int round = 0; round < 600; ++round) {
    const DType dtype = any_float(rng);
    const MatMulDims dims = any_shapes(rng, small(rng, 5));
    RangeProbe probe{.op = "MatMul", .settings = any_settings(rng)};
    const std::uint64_t known = rng.below(3);
    for (std::size_t i = 0; i < 2; ++i) {
      probe.operands.push_back(any_operand(rng, dtype, i == 0 ? dims.a : dims.b, -3, 3, known == i + 1));
      if (known == i + 1) {
        std::vector<double> values = elements<double>(*probe.operands[i].known);
        if (rng.below(4) == 0) values[rng.below(values.size())] = rng.below(2) == 0 ? kInf : std::nan("");
        probe.operands[i].known = from_elements<double>(dtype, probe.operands[i].known->dims(), values);
        continue;
      }
      for (Range& cell : probe.operands[i].range->cells) {
        cell.nan = rng.below(10) == 0;
        cell.pinf = rng.below(5) == 0;
        cell.ninf = rng.below(5) == 0;
      }
    }
    expect_sound(rng, probe, 8, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

// A dot product whose products and partial sums are rounded to the format.
double narrow_dot(Rng& rng, DType format, std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = round_to(format, a[i] * b[i]);
  while (a.size() > 1) {
    // Sequential from the end, or a random pair: any order is allowed.
    const std::size_t i = rng.below(3) == 0 ? rng.below(a.size() - 1) : a.size() - 2;
    const double sum = round_to(format, a[i] + a.back());
    a.pop_back();
    a[i] = sum;
  }
  return a.empty() ? 0 : a[0];
}

TEST(RangeMatMul, SoundForNarrowAccumulation) {
  Rng rng = seeded(4);
  for (int round = 0; round < 400; ++round) {
    const DType dtype = rng.below(2) == 0 ? DType::float16 : DType::bfloat16;
    const std::int64_t depth = small(rng, round % 20 == 0 ? 3000 : 60);
    const double scale = rng.below(3) == 0 ? 200 : 1;
    const bool positive = rng.below(2) == 0;
    const Tensor weights = random_tensor(rng, dtype, {depth, 1}, positive ? 0 : -scale, scale);
    RangeProbe probe{.op = "MatMul",
                     .operands = {abstract(random_abstract(rng, dtype, {1, depth}, positive ? 0 : -scale, scale)),
                                  constant(weights)}};
    probe.run();
    for (int i = 0; i < 10; ++i) {
      const Tensor x = random_member(rng, *probe.operands[0].range, {1, depth});
      const double result = narrow_dot(rng, dtype, elements<double>(x), elements<double>(weights));
      ASSERT_TRUE(probe.ranges[0].hull().contains(result))
          << result << " outside " << to_string(probe.ranges[0].hull()) << " at depth " << depth;
    }
  }
}

// The largest value of every output is reached by x = hi where the weight is positive, lo elsewhere.
TEST(RangeMatMul, EndsAreReached) {
  Rng rng = seeded(5);
  for (int round = 0; round < 200; ++round) {
    const std::int64_t depth = small(rng, 30), columns = small(rng, 8);
    const Tensor weights = random_tensor(rng, DType::float32, {depth, columns}, -2, 2);
    const AbsTensor x = random_abstract(rng, DType::float32, {1, depth}, -4, 9, 6);
    RangeProbe probe{.op = "MatMul", .operands = {abstract(x), constant(weights, true)}};
    probe.run();
    const std::vector<double> w = elements<double>(weights);
    for (std::int64_t column = 0; column < columns; ++column) {
      double lo = 0, hi = 0, size = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const Range& cell = range_at(x, {1, depth}, k);
        const double factor = w[static_cast<std::size_t>(k * columns + column)];
        hi += factor * (factor > 0 ? cell.hi : cell.lo);
        lo += factor * (factor > 0 ? cell.lo : cell.hi);
        size += std::abs(factor) * cell.magnitude();
      }
      const Range& range = range_at(probe.ranges[0], {1, columns}, column);
      EXPECT_NEAR(range.hi, hi, 1e-4 * size + 1e-30);
      EXPECT_NEAR(range.lo, lo, 1e-4 * size + 1e-30);
    }
  }
}

TEST(RangeMatMul, SignsSurviveRounding) {
  // Terms that are never negative never add up to a negative number.
  const Tensor weights = from_elements<double>(DType::float16, {3, 1}, std::vector<double>{0.1, 0.2, 3});
  RangeProbe probe{.op = "MatMul",
                   .operands = {abstract(uniform(DType::float16, {2, 3}, Range{.lo = 0, .hi = 1})), constant(weights)}};
  probe.run();
  EXPECT_EQ(probe.ranges[0].hull().lo, 0);
  EXPECT_FALSE(probe.alarms("FN204"));
}

TEST(RangeMatMul, HalfOverflowIsFoundWhenPossibleOnly) {
  const auto overflows = [](double weight, double x, DType accumulate) {
    const Tensor weights =
        from_elements<double>(DType::float16, {4, 1}, std::vector<double>{weight, weight, -weight, -weight});
    RangeProbe probe{
        .op = "MatMul",
        .operands = {abstract(uniform(DType::float16, {1, 4}, Range{.lo = 0, .hi = x})), constant(weights)}};
    probe.settings.accumulate = accumulate;
    probe.run();
    return probe.alarms("FN204");
  };
  EXPECT_FALSE(overflows(100, 300, DType::float16));  // 60000
  EXPECT_TRUE(overflows(100, 400, DType::float16));   // 80000
  EXPECT_TRUE(overflows(100, 400, DType::float32));
  // The total is at most 60000, a partial sum is not.
  const Tensor weights = from_elements<double>(DType::float16, {4, 1}, std::vector<double>{100, 100, 100, -100});
  for (const DType accumulate : {DType::float16, DType::float32, DType::undefined}) {
    AbsTensor x = uniform(DType::float16, {1, 4}, Range{.lo = 290, .hi = 300});
    RangeProbe probe{.op = "MatMul", .operands = {abstract(x), constant(weights)}};
    probe.settings.accumulate = accumulate;
    probe.run();
    EXPECT_EQ(probe.alarms("FN204"), accumulate != DType::float32);
  }
}

TEST(RangeMatMul, RowsThatSumToOneKeepTheHull) {
  for (const std::int64_t length : {std::int64_t{128}, std::int64_t{-1}}) {
    AbsTensor weights = uniform(DType::float32, {2, 5, length}, Range{.lo = 0, .hi = 1});
    weights.relations.push_back(RowBound{.axes = 1U << 2, .of = Of::sum, .in = Range{.lo = 0.999, .hi = 1.001}});
    const AbsTensor values = uniform(DType::float32, {2, length, 8}, Range{.lo = 2, .hi = 10});
    RangeProbe probe{.op = "MatMul", .operands = {abstract(weights), abstract(values)}};
    probe.run();
    const Range hull = probe.ranges[0].hull();
    EXPECT_GE(hull.lo, length > 0 ? 1.9 : 0);
    EXPECT_LT(hull.hi, length > 0 ? 10.1 : 11);
  }
}

TEST(RangeMatMul, UnknownShapes) {
  Rng rng = seeded(6);
  for (const bool ranked : {false, true}) {
    AbsTensor x = uniform(DType::float32, {-1, -1}, Range{.lo = -1, .hi = 1});
    if (!ranked) x = AbsTensor{.dtype = DType::float32, .ranked = false, .cells = {Range{.lo = -1, .hi = 1}}};
    const Tensor weights = random_tensor(rng, DType::float32, {3, 4}, -1, 1);
    RangeProbe probe{.op = "MatMul", .operands = {abstract(x), constant(weights)}};
    probe.run();
    EXPECT_LE(probe.ranges[0].hull().magnitude(), 3.01);
    RangeProbe both{.op = "MatMul", .operands = {abstract(x), abstract(x)}};
    both.run();
    EXPECT_FALSE(both.alarms("FN204"));
  }
}

// ---- Gemm, FusedMatMul, Einsum, Det ------------------------------------------------

TEST(RangeGemm, Sound) {
  Rng rng = seeded(7);
  for (int round = 0; round < 1000; ++round) {
    const DType dtype = rng.below(6) == 0 ? DType::int64 : any_float(rng);
    const std::int64_t m = small(rng, 4), k = static_cast<std::int64_t>(rng.below(6)), n = small(rng, 6);
    const bool flip_a = rng.below(2) == 0, flip_b = rng.below(2) == 0;
    const std::uint64_t known = rng.below(3);
    RangeProbe probe{.op = "Gemm", .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, flip_a ? Dims{k, m} : Dims{m, k}, -3, 3, known == 1),
                      any_operand(rng, dtype, flip_b ? Dims{n, k} : Dims{k, n}, -3, 3, known == 2)};
    const Dims shapes[] = {{n}, {1, n}, {m, 1}, {m, n}, {1}, {}};
    if (rng.below(3) != 0) {
      probe.operands.push_back(any_operand(rng, dtype, shapes[rng.below(6)], -9, 9, rng.below(2) == 0));
    }
    probe.attrs.set("transA", std::int64_t{flip_a});
    probe.attrs.set("transB", std::int64_t{flip_b});
    if (rng.below(3) == 0) probe.attrs.set("alpha", -0.7F);
    if (rng.below(3) == 0) probe.attrs.set("beta", rng.below(3) == 0 ? 0.0F : 1.3F);
    if (rng.below(5) == 0) add_specials(rng, probe);
    expect_sound(rng, probe, 8, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(RangeGemm, BiasGoesWithItsColumn) {
  const Tensor weights = from_elements<double>(DType::float32, {1, 2}, std::vector<double>{1, -1});
  const Tensor bias = from_elements<double>(DType::float32, {2}, std::vector<double>{100, -100});
  RangeProbe probe{.op = "Gemm",
                   .operands = {abstract(uniform(DType::float32, {3, 1}, Range{.lo = 0, .hi = 1})), constant(weights),
                                constant(bias)}};
  probe.settings.max_cells = 2;
  probe.run();
  EXPECT_NEAR(range_at(probe.ranges[0], {3, 2}, 0).lo, 100, 1e-3);
  EXPECT_NEAR(range_at(probe.ranges[0], {3, 2}, 1).hi, -100, 1e-3);
}

TEST(RangeEinsum, Sound) {
  Rng rng = seeded(9);
  constexpr const char* kTwo[] = {"ij,jk->ik",   "bij,bjk->bik",       "bsd,dhk->bshk", "bhqk,bhkd->bhqd",
                                  "ij,ij->",     "ij,kj->ikj",         "i,j->ij",       "ij,k->i",
                                  "ijk,jil->kl", "...ij,...jk->...ik", "bij,hjk->bhk",  "ij,jk",
                                  "ii,ij->j",    "abc,cd->abd",        "dhk,bsd->bhk"};
  constexpr const char* kOther[] = {"ij->ji", "ii->i", "ij->i", "ii", "ij,jk,kl->il", "i,i,i,i->", "ij,j,i->ij"};
  for (int round = 0; round < 1200; ++round) {
    const DType dtype = rng.below(6) == 0 ? DType::int32 : any_float(rng);
    const std::string equation = rng.below(4) == 0 ? kOther[rng.below(7)] : kTwo[rng.below(15)];
    std::map<char, std::int64_t> sizes;
    RangeProbe probe{.op = "Einsum", .settings = any_settings(rng)};
    probe.attrs.set("equation", equation);
    const std::string inputs = equation.substr(0, equation.find("->"));
    const std::uint64_t known = rng.below(3);
    for (std::size_t start = 0; start <= inputs.size();) {
      const std::size_t end = std::min(inputs.find(',', start), inputs.size());
      Dims dims;
      for (const char label : inputs.substr(start, end - start)) {
        if (label == '.' && dims.size() == 1) continue;
        if (!sizes.contains(label)) sizes[label] = small(rng, 4);
        dims.push_back(sizes[label]);
      }
      probe.operands.push_back(any_operand(rng, dtype, dims, -3, 3, known == probe.operands.size()));
      start = end + 1;
    }
    if (rng.below(5) == 0) add_specials(rng, probe);
    expect_sound(rng, probe, 6, equation + " round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(RangeEinsum, ProjectionIsAsTightAsMatMul) {
  Rng rng = seeded(10);
  const Tensor weights = random_tensor(rng, DType::float32, {16, 12}, -1, 1);
  const AbsTensor x = uniform(DType::float32, {2, 5, 16}, Range{.lo = -1, .hi = 2});
  RangeProbe matmul{.op = "MatMul", .operands = {abstract(x), constant(weights)}};
  RangeProbe einsum{.op = "Einsum", .operands = {abstract(x), constant(weights.reshaped({16, 3, 4}))}};
  einsum.attrs.set("equation", std::string("bsd,dhk->bshk"));
  matmul.run();
  einsum.run();
  EXPECT_EQ(matmul.ranges[0].hull(), einsum.ranges[0].hull());
}

TEST(RangeDet, Sound) {
  Rng rng = seeded(8);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t n = small(rng, 4);
    RangeProbe probe{.op = "Det", .operands = {abstract(random_abstract(rng, any_float(rng), {2, n, n}, -4, 4))}};
    expect_sound(rng, probe, 8, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace finity
