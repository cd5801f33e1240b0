// Ranges of attention: outputs are means of values whatever the scores are; scores
// that overflow and rows without any key are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/range_probe.h"
#include "tensor/convert.h"

namespace finity {
namespace {

struct Sizes {
  std::int64_t batch, queries, keys, past, heads, shared, size, value_size;
};

Sizes any_sizes(Rng& rng) {
  Sizes sizes{small(rng, 2), small(rng, 3), small(rng, 4), 0, 0, small(rng, 2), 2 * small(rng, 3), small(rng, 4)};
  sizes.heads = sizes.shared * small(rng, 2);
  if (rng.below(3) == 0) sizes.past = small(rng, 3);
  return sizes;
}

ProbeOperand mask_of(Rng& rng, DType dtype, const Dims& dims, bool is_bool) {
  if (is_bool) return any_operand(rng, DType::boolean, dims, 0, 1, rng.below(2) == 0);
  ProbeOperand mask = any_operand(rng, dtype, dims, -5, 5, false);
  for (Range& cell : mask.range->cells) {
    if (rng.below(3) == 0) cell = {.ninf = true};
    else cell.ninf = rng.below(3) == 0;
  }
  return mask;
}

RangeProbe any_attention(Rng& rng) {
  const Sizes s = any_sizes(rng);
  const DType dtype = any_float(rng);
  const bool packed = rng.below(2) == 0;
  const double scale = rng.below(5) == 0 ? 60 : 3;
  RangeProbe probe{.op = "Attention", .outputs = 4, .settings = any_settings(rng)};
  const auto operand = [&](std::int64_t heads, std::int64_t length, std::int64_t size) {
    const Dims dims = packed ? Dims{s.batch, length, heads * size} : Dims{s.batch, heads, length, size};
    return any_operand(rng, dtype, dims, -scale, scale, false);
  };
  probe.operands = {operand(s.heads, s.queries, s.size),
                    operand(s.shared, s.keys, s.size),
                    operand(s.shared, s.keys, s.value_size),
                    omitted(),
                    omitted(),
                    omitted()};
  if (packed) {
    probe.attrs.set("q_num_heads", s.heads);
    probe.attrs.set("kv_num_heads", s.shared);
  }
  if (s.past > 0) {
    probe.operands[4] = any_operand(rng, dtype, {s.batch, s.shared, s.past, s.size}, -3, 3, false);
    probe.operands[5] = any_operand(rng, dtype, {s.batch, s.shared, s.past, s.value_size}, -3, 3, false);
  }
  const std::int64_t total = s.keys + s.past;
  if (rng.below(2) == 0) {
    const Dims shapes[] = {
        {s.queries, total}, {s.batch, 1, s.queries, total}, {s.queries, std::max<std::int64_t>(total - 1, 1)}};
    probe.operands[3] = mask_of(rng, dtype, shapes[rng.below(3)], rng.below(2) == 0);
  }
  if (rng.below(4) == 0)
    probe.operands.push_back(constant(from_elements<std::int64_t>(
        DType::int64, {s.batch}, std::vector<std::int64_t>(static_cast<std::size_t>(s.batch), small(rng, total)))));
  if (rng.below(3) == 0) probe.attrs.set("is_causal", std::int64_t{1});
  if (rng.below(4) == 0) probe.attrs.set("softcap", 2.5F);
  if (rng.below(3) == 0) probe.attrs.set("scale", 0.7F);
  if (rng.below(4) == 0) probe.attrs.set("left_window_size", static_cast<std::int64_t>(rng.below(3)));
  if (rng.below(4) == 0) probe.attrs.set("softmax_precision", std::int64_t{rng.below(2) == 0 ? 1 : 10});
  probe.attrs.set("qk_matmul_output_mode", static_cast<std::int64_t>(rng.below(4)));
  return probe;
}

TEST(RangeAttention, Sound) {
  Rng rng = seeded(1);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    RangeProbe probe = any_attention(rng);
    if (rng.below(5) == 0) add_specials(rng, probe);
    try {
      ASSERT_EQ(unsound(rng, probe, 6), "") << "round " << round;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 300);
}

RangeProbe plain_attention(DType dtype, double scores, const Range& values) {
  const Dims dims{1, 2, 16, 8};
  return {.op = "Attention",
          .operands = {abstract(uniform(dtype, dims, Range{.lo = -scores, .hi = scores})),
                       abstract(uniform(dtype, dims, Range{.lo = -scores, .hi = scores})),
                       abstract(uniform(dtype, dims, values))}};
}

TEST(RangeAttention, OutputIsAMeanOfValues) {
  RangeProbe probe = plain_attention(DType::float32, 1000, {.lo = 2, .hi = 3});
  probe.run();
  EXPECT_NEAR(probe.ranges[0].hull().lo, 2, 0.01);
  EXPECT_NEAR(probe.ranges[0].hull().hi, 3, 0.01);
  EXPECT_FALSE(probe.alarms("FN204"));
  EXPECT_FALSE(probe.judged("FN301"));
}

TEST(RangeAttention, ScoresOverflowInHalf) {
  for (const double scores : {100.0, 200.0}) {
    RangeProbe probe = plain_attention(DType::float16, scores, {.lo = -1, .hi = 1});
    probe.run();
    EXPECT_TRUE(probe.judged("FN204"));
    EXPECT_EQ(probe.alarms("FN204"), scores * scores * std::sqrt(8) > 65504);
  }
}

TEST(RangeAttention, RowsWithoutKeys) {
  const Dims dims{16, 16};
  const auto alarms = [&](const AbsTensor& mask, bool causal) {
    RangeProbe probe = plain_attention(DType::float32, 1, {.lo = 2, .hi = 3});
    probe.operands.push_back(abstract(mask));
    if (causal) probe.attrs.set("is_causal", std::int64_t{1});
    probe.run();
    EXPECT_TRUE(probe.judged("FN301"));
    EXPECT_EQ(probe.ranges[0].hull().lo > 1, !probe.alarms("FN301"));
    return probe.alarms("FN301");
  };
  AbsTensor flags = uniform(DType::boolean, dims, Range{.lo = 0, .hi = 1, .integer = true});
  EXPECT_TRUE(alarms(flags, false));
  flags.relations.push_back(RowBound{.axes = 2, .of = Of::largest, .in = point(1)});
  EXPECT_FALSE(alarms(flags, false));
  EXPECT_TRUE(alarms(flags, true));
  // Additive: finite numbers forbid nothing, -Inf everywhere does, one column without it does not.
  EXPECT_FALSE(alarms(uniform(DType::float32, dims, Range{.lo = -1e9F, .hi = 0}), false));
  EXPECT_TRUE(alarms(uniform(DType::float32, dims, Range{.lo = 0, .hi = 0, .ninf = true}), false));
  AbsTensor first = uniform(DType::float32, dims, Range{});
  first.cuts = {{}, {1}};
  first.cells = {point(0), Range{.lo = 0, .hi = 0, .ninf = true}};
  EXPECT_FALSE(alarms(first, false));
}

// The lowest half plus a negative score is -Inf.
TEST(RangeAttention, LowestHalfAsMask) {
  RangeProbe probe = plain_attention(DType::float16, 8, {.lo = 2, .hi = 3});
  probe.operands.push_back(abstract(uniform(DType::float16, {16, 16}, Range{.lo = -65504, .hi = 0})));
  probe.run();
  EXPECT_TRUE(probe.alarms("FN301"));
  RangeProbe milder = plain_attention(DType::float16, 8, {.lo = 2, .hi = 3});
  milder.operands.push_back(abstract(uniform(DType::float16, {16, 16}, Range{.lo = -10000, .hi = 0})));
  milder.run();
  EXPECT_FALSE(milder.alarms("FN301"));
}

// ---- rotary, linear attention --------------------------------------------------------

TEST(RangeRotary, Sound) {
  Rng rng = seeded(2);
  for (int round = 0; round < 400; ++round) {
    const DType dtype = any_float(rng);
    const std::int64_t batch = small(rng, 2), heads = small(rng, 3), length = small(rng, 4), pairs = small(rng, 3);
    const bool known = rng.below(2) == 0, whole = rng.below(2) == 0;
    const std::int64_t size = whole ? 2 * pairs : 2 * pairs + 2;
    RangeProbe probe{.op = "RotaryEmbedding", .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, {batch, heads, length, size}, -3, 3, false),
                      any_operand(rng, dtype, {batch, length, pairs}, -1, 1, known),
                      any_operand(rng, dtype, {batch, length, pairs}, -1, 1, known)};
    if (!whole) probe.attrs.set("rotary_embedding_dim", 2 * pairs);
    if (rng.below(2) == 0) probe.attrs.set("interleaved", std::int64_t{1});
    ASSERT_EQ(unsound(rng, probe, 6), "") << "round " << round;
  }
}

TEST(RangeRotary, RotationsGrowByRootTwoAtMost) {
  std::vector<double> cos, sin;
  for (int i = 0; i < 64; ++i) cos.push_back(std::cos(i * 0.1)), sin.push_back(std::sin(i * 0.1));
  RangeProbe probe{.op = "RotaryEmbedding",
                   .operands = {abstract(uniform(DType::float32, {1, 2, 32, 4}, Range{.lo = -1, .hi = 1})),
                                constant(from_elements<double>(DType::float32, {1, 32, 2}, cos)),
                                constant(from_elements<double>(DType::float32, {1, 32, 2}, sin))}};
  probe.run();
  EXPECT_LT(probe.ranges[0].hull().hi, 1.4143);
}

TEST(RangeLinearAttention, Sound) {
  Rng rng = seeded(3);
  constexpr const char* kRules[] = {"linear", "gated", "delta", "gated_delta"};
  for (int round = 0; round < 400; ++round) {
    const DType dtype = any_float(rng);
    const std::int64_t batch = small(rng, 2), heads = small(rng, 2), length = small(rng, 5), size = small(rng, 3);
    const std::size_t rule = rng.below(4);
    RangeProbe probe{.op = "LinearAttention", .version = 27, .outputs = 2, .settings = any_settings(rng)};
    const auto operand = [&](std::int64_t width, double lo, double hi) {
      return any_operand(rng, dtype, {batch, length, width}, lo, hi, false);
    };
    probe.operands = {operand(heads * size, -2, 2),
                      operand(heads * size, -2, 2),
                      operand(heads * 2, -2, 2),
                      omitted(),
                      omitted(),
                      omitted()};
    if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, dtype, {batch, heads, size, 2}, -2, 2, false);
    if (rule % 2 == 1) probe.operands[4] = operand(heads, -2, 1);
    if (rule >= 2) probe.operands[5] = operand(heads, 0, 1);
    probe.attrs.set("update_rule", std::string(kRules[rule]));
    probe.attrs.set("q_num_heads", heads);
    probe.attrs.set("kv_num_heads", heads);
    ASSERT_EQ(unsound(rng, probe, 5), "") << "round " << round;
  }
}

// ---- com.microsoft ---------------------------------------------------------------------

TEST(RangeMicrosoftAttention, Sound) {
  Rng rng = seeded(4);
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    const DType dtype = any_float(rng);
    const Sizes s = any_sizes(rng);
    const std::int64_t hidden = s.heads * s.size;
    RangeProbe probe{
        .domain = "com.microsoft", .op = "Attention", .version = 1, .outputs = 2, .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, {s.batch, s.queries, 5}, -2, 2, false),
                      any_operand(rng, dtype, {5, 3 * hidden}, -1, 1, rng.below(3) != 0),
                      omitted(),
                      omitted(),
                      omitted(),
                      omitted()};
    if (rng.below(2) == 0) probe.operands[2] = any_operand(rng, dtype, {3 * hidden}, -2, 2, rng.below(2) == 0);
    const std::int64_t total = s.queries + s.past;
    if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, DType::int32, {s.batch, total}, 0, 1, false);
    if (s.past > 0) probe.operands[4] = any_operand(rng, dtype, {2, s.batch, s.heads, s.past, s.size}, -4, 4, false);
    if (rng.below(2) == 0) probe.operands[5] = mask_of(rng, dtype, {s.batch, 1, s.queries, total}, false);
    probe.attrs.set("num_heads", s.heads);
    if (rng.below(3) == 0) probe.attrs.set("unidirectional", std::int64_t{1});
    try {
      ASSERT_EQ(unsound(rng, probe, 6), "") << "round " << round;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 60);
}

TEST(RangeMultiHeadAttention, Sound) {
  Rng rng = seeded(5);
  int refused = 0;
  for (int round = 0; round < 900; ++round) {
    const DType dtype = any_float(rng);
    const Sizes s = any_sizes(rng);
    const std::int64_t hidden = s.heads * s.size;
    RangeProbe probe{.domain = "com.microsoft",
                     .op = "MultiHeadAttention",
                     .version = 1,
                     .outputs = 4,
                     .settings = any_settings(rng)};
    probe.operands.assign(8, omitted());
    const std::uint64_t packing = rng.below(4);
    std::int64_t keys = s.keys;
    const auto operand = [&](const Dims& dims) { return any_operand(rng, dtype, dims, -3, 3, false); };
    if (packing == 0) {
      keys = s.queries;
      probe.operands[0] = operand({s.batch, s.queries, s.heads, 3, s.size});
    } else {
      probe.operands[0] = operand({s.batch, s.queries, hidden});
      if (packing == 1) probe.operands[1] = operand({s.batch, s.keys, s.heads, 2, s.size});
      if (packing == 2) {
        probe.operands[1] = operand({s.batch, s.keys, hidden});
        probe.operands[2] = operand({s.batch, s.keys, hidden});
      }
      if (packing == 3) {
        probe.operands[1] = operand({s.batch, s.heads, s.keys, s.size});
        probe.operands[2] = operand({s.batch, s.heads, s.keys, s.size});
      }
    }
    if (rng.below(2) == 0) probe.operands[3] = any_operand(rng, dtype, {3 * hidden}, -2, 2, rng.below(2) == 0);
    if (s.past > 0) {
      probe.operands[6] = operand({s.batch, s.heads, s.past, s.size});
      probe.operands[7] = operand({s.batch, s.heads, s.past, s.size});
    }
    if (rng.below(2) == 0) probe.operands[4] = any_operand(rng, DType::int32, {s.batch, keys + s.past}, 0, 1, false);
    if (rng.below(3) == 0) probe.operands[5] = mask_of(rng, dtype, {s.batch, 1, s.queries, keys + s.past}, false);
    probe.attrs.set("num_heads", s.heads);
    if (rng.below(3) == 0) probe.attrs.set("unidirectional", std::int64_t{1});
    if (rng.below(5) == 0) add_specials(rng, probe);
    try {
      ASSERT_EQ(unsound(rng, probe, 5), "") << "round " << round;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 60);
}

TEST(RangeGroupQueryAttention, Sound) {
  Rng rng = seeded(6);
  int refused = 0;
  for (int round = 0; round < 700; ++round) {
    const DType dtype = any_float(rng);
    const Sizes s = any_sizes(rng);
    RangeProbe probe{.domain = "com.microsoft",
                     .op = "GroupQueryAttention",
                     .version = 1,
                     .outputs = 3,
                     .settings = any_settings(rng)};
    probe.operands.assign(12, omitted());
    const auto operand = [&](const Dims& dims) { return any_operand(rng, dtype, dims, -3, 3, false); };
    const bool packed = rng.below(2) == 0;
    probe.operands[0] = operand({s.batch, s.queries, (packed ? s.heads + 2 * s.shared : s.heads) * s.size});
    if (!packed) {
      probe.operands[1] = operand({s.batch, s.queries, s.shared * s.size});
      probe.operands[2] = operand({s.batch, s.queries, s.shared * s.size});
    }
    const std::int64_t total = s.queries + s.past;
    if (s.past > 0) {
      probe.operands[3] = operand({s.batch, s.shared, s.past, s.size});
      probe.operands[4] = operand({s.batch, s.shared, s.past, s.size});
    }
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(s.batch), total - 1);
    probe.operands[5] = constant(from_elements<std::int64_t>(DType::int32, {s.batch}, lengths));
    probe.operands[6] = constant(from_elements<std::int64_t>(DType::int32, {}, std::vector<std::int64_t>{total}));
    if (rng.below(2) == 0) {
      probe.attrs.set("do_rotary", std::int64_t{1});
      probe.operands[7] = any_operand(rng, dtype, {total, s.size / 2}, -1, 1, rng.below(2) == 0);
      probe.operands[8] = any_operand(rng, dtype, {total, s.size / 2}, -1, 1, rng.below(2) == 0);
    }
    if (rng.below(3) == 0) probe.operands[10] = mask_of(rng, dtype, {s.batch, 1, s.queries, total}, false);
    if (rng.below(3) == 0) probe.operands[11] = operand({s.heads});
    probe.attrs.set("num_heads", s.heads);
    probe.attrs.set("kv_num_heads", s.shared);
    if (rng.below(3) == 0) probe.attrs.set("local_window_size", std::int64_t{2});
    if (rng.below(3) == 0) probe.attrs.set("softcap", 1.5F);
    if (rng.below(5) == 0) add_specials(rng, probe);
    try {
      ASSERT_EQ(unsound(rng, probe, 5), "") << "round " << round;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_LT(refused, 60);
}

}  // namespace
}  // namespace finity
