// Ranges of integer and quantized products, and of ONNX Runtime's fused ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/range_probe.h"
#include "tensor/convert.h"

namespace finity {
namespace {

DType any_byte(Rng& rng) { return rng.below(2) == 0 ? DType::int8 : DType::uint8; }
double least(DType dtype) { return dtype == DType::int8 ? -128 : 0; }
double most(DType dtype) { return dtype == DType::int8 ? 127 : 255; }

ProbeOperand bytes(Rng& rng, DType dtype, const Dims& dims, bool known) {
  return any_operand(rng, dtype, dims, least(dtype), most(dtype), known);
}
ProbeOperand number(DType dtype, double value) {
  return constant(from_elements<double>(dtype, {}, std::vector<double>{value}));
}
ProbeOperand zero_point(Rng& rng, DType dtype, const Dims& dims = {}) {
  return bytes(rng, dtype, dims, rng.below(3) != 0);
}
// Positive, and not always known.
ProbeOperand scale(Rng& rng, const Dims& dims = {}) { return any_operand(rng, DType::float32, dims, 0.01, 2, false); }
// random_abstract puts zeros into ranges now and then; a scale must not be zero where it divides.
ProbeOperand divisor(Rng& rng) { return number(DType::float32, rng.uniform(0.01, 2)); }

int sound_calls = 0;
void expect_sound(Rng& rng, RangeProbe& probe, const std::string& what) {
  try {
    ASSERT_EQ(unsound(rng, probe, 6), "") << what;
    ++sound_calls;
  } catch (const Error& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
}

TEST(RangeMatMulInteger, Sound) {
  Rng rng = seeded(1);
  for (int round = 0; round < 500; ++round) {
    const DType a = any_byte(rng), b = any_byte(rng);
    const std::int64_t m = small(rng, 3), k = small(rng, 5), n = small(rng, 4);
    const std::uint64_t known = rng.below(3);
    RangeProbe probe{.op = "MatMulInteger", .settings = any_settings(rng)};
    probe.operands = {bytes(rng, a, {m, k}, known == 1), bytes(rng, b, {k, n}, known == 2), omitted(), omitted()};
    if (rng.below(2) == 0) probe.operands[2] = zero_point(rng, a, rng.below(2) == 0 ? Dims{} : Dims{m});
    if (rng.below(2) == 0) probe.operands[3] = zero_point(rng, b, rng.below(2) == 0 ? Dims{} : Dims{n});
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeMatMulInteger, EndsAreReached) {
  const Tensor weights = from_elements<double>(DType::int8, {2, 1}, std::vector<double>{3, -5});
  RangeProbe probe{.op = "MatMulInteger",
                   .operands = {abstract(uniform(DType::uint8, {1, 2}, Range{.lo = 0, .hi = 255, .integer = true})),
                                constant(weights), number(DType::uint8, 128)}};
  probe.run();
  EXPECT_EQ(probe.ranges[0].hull().hi, 3 * 127 + 5 * 128);
  EXPECT_EQ(probe.ranges[0].hull().lo, -3 * 128 - 5 * 127);
}

TEST(RangeConvInteger, Sound) {
  Rng rng = seeded(2);
  for (int round = 0; round < 400; ++round) {
    const DType x = any_byte(rng), w = any_byte(rng);
    const std::int64_t channels = small(rng, 3), out = small(rng, 3), kernel = small(rng, 3);
    RangeProbe probe{.op = "ConvInteger", .settings = any_settings(rng)};
    probe.operands = {bytes(rng, x, {1, channels, kernel + 2}, false),
                      bytes(rng, w, {out, channels, kernel}, rng.below(2) == 0), omitted(), omitted()};
    if (rng.below(2) == 0) probe.operands[2] = zero_point(rng, x);
    if (rng.below(2) == 0) probe.operands[3] = zero_point(rng, w, rng.below(2) == 0 ? Dims{} : Dims{out});
    if (rng.below(2) == 0) probe.attrs.set("pads", std::vector<std::int64_t>{1, 1});
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeQLinear, MatMulAndConvSound) {
  Rng rng = seeded(3);
  for (int round = 0; round < 500; ++round) {
    const DType a = any_byte(rng), b = any_byte(rng), y = any_byte(rng);
    const bool conv = rng.below(2) == 0;
    const std::int64_t m = small(rng, 3), k = small(rng, 4), n = small(rng, 3);
    const Dims left = conv ? Dims{1, k, 5} : Dims{m, k}, right = conv ? Dims{n, k, 3} : Dims{k, n};
    RangeProbe probe{.op = conv ? "QLinearConv" : "QLinearMatMul", .settings = any_settings(rng)};
    probe.operands = {bytes(rng, a, left, false),
                      scale(rng),
                      zero_point(rng, a),
                      bytes(rng, b, right, rng.below(2) == 0),
                      scale(rng),
                      zero_point(rng, b),
                      divisor(rng),
                      zero_point(rng, y)};
    if (conv && rng.below(2) == 0)
      probe.operands.push_back(any_operand(rng, DType::int32, {n}, -999, 999, rng.below(2) == 0));
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeQLinear, GemmSound) {
  Rng rng = seeded(4);
  for (int round = 0; round < 400; ++round) {
    const DType a = any_byte(rng), b = any_byte(rng), y = any_byte(rng);
    const std::int64_t m = small(rng, 3), k = small(rng, 4), n = small(rng, 3);
    const bool flip_a = rng.below(2) == 0, flip_b = rng.below(2) == 0;
    RangeProbe probe{.domain = "com.microsoft", .op = "QGemm", .version = 1, .settings = any_settings(rng)};
    probe.operands = {bytes(rng, a, flip_a ? Dims{k, m} : Dims{m, k}, false),
                      scale(rng),
                      zero_point(rng, a),
                      bytes(rng, b, flip_b ? Dims{n, k} : Dims{k, n}, rng.below(2) == 0),
                      scale(rng),
                      zero_point(rng, b),
                      omitted(),
                      omitted(),
                      omitted()};
    if (rng.below(2) == 0) probe.operands[6] = any_operand(rng, DType::int32, {m, n}, -999, 999, false);
    if (rng.below(2) == 0) probe.operands[7] = divisor(rng), probe.operands[8] = zero_point(rng, y);
    probe.attrs.set("transA", std::int64_t{flip_a});
    probe.attrs.set("transB", std::int64_t{flip_b});
    if (rng.below(2) == 0) probe.attrs.set("alpha", -1.5F);
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeQuantizedToFloat, Sound) {
  Rng rng = seeded(5);
  for (int round = 0; round < 400; ++round) {
    const DType b = any_byte(rng), a = any_byte(rng);
    const std::int64_t m = small(rng, 3), k = small(rng, 6), n = small(rng, 4);
    const bool dynamic = rng.below(2) == 0;
    RangeProbe probe{.domain = "com.microsoft",
                     .op = dynamic ? "DynamicQuantizeMatMul" : "MatMulIntegerToFloat",
                     .version = 1,
                     .settings = any_settings(rng)};
    const ProbeOperand weights = bytes(rng, b, {k, n}, rng.below(3) != 0);
    const ProbeOperand bias = rng.below(2) == 0 ? any_operand(rng, DType::float32, {n}, -3, 3, false) : omitted();
    const ProbeOperand zero = rng.below(2) == 0 ? zero_point(rng, b) : omitted();
    if (dynamic) {
      probe.operands = {any_operand(rng, DType::float32, {m, k}, -9, 9, false), weights, scale(rng), zero, bias};
    } else {
      probe.operands = {bytes(rng, a, {m, k}, false), weights, scale(rng), scale(rng), zero_point(rng, a), zero, bias};
    }
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeQLinear, ElementwiseSound) {
  Rng rng = seeded(6);
  constexpr const char* kUnary[] = {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"};
  for (int round = 0; round < 600; ++round) {
    const DType dtype = any_byte(rng);
    RangeProbe probe{.domain = "com.microsoft", .version = 1, .settings = any_settings(rng)};
    const std::uint64_t kind = rng.below(7);
    if (kind < 3) {
      probe.op = kUnary[kind];
      probe.operands = {bytes(rng, dtype, {1, 2, 3}, false), scale(rng), zero_point(rng, dtype), divisor(rng),
                        zero_point(rng, dtype)};
    } else if (kind == 3) {
      probe.op = "QLinearAveragePool";
      probe.operands = {bytes(rng, dtype, {1, 2, 5}, false), scale(rng), zero_point(rng, dtype), divisor(rng),
                        zero_point(rng, dtype)};
      probe.attrs.set("kernel_shape", std::vector<std::int64_t>{3});
      probe.attrs.set("pads", std::vector<std::int64_t>{1, 1});
      probe.attrs.set("count_include_pad", static_cast<std::int64_t>(rng.below(2)));
    } else if (kind < 6) {
      probe.op = kind == 4 ? "QLinearAdd" : "QLinearMul";
      probe.operands = {bytes(rng, dtype, {2, 3}, false),
                        scale(rng),
                        zero_point(rng, dtype),
                        bytes(rng, dtype, {3}, rng.below(2) == 0),
                        scale(rng),
                        zero_point(rng, dtype),
                        divisor(rng),
                        zero_point(rng, dtype)};
    } else {
      probe.op = "QLinearConcat";
      probe.attrs.set("axis", std::int64_t{0});
      probe.operands = {divisor(rng), number(dtype, 3)};
      for (int i = 0; i < 2; ++i) {
        probe.operands.push_back(bytes(rng, dtype, {2, 3}, false));
        probe.operands.push_back(scale(rng));
        probe.operands.push_back(number(dtype, 5));
      }
    }
    expect_sound(rng, probe, probe.op + " round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

// ---- fused products ------------------------------------------------------------------

TEST(RangeFused, MatMulSound) {
  Rng rng = seeded(7);
  for (int round = 0; round < 500; ++round) {
    const DType dtype = any_float(rng);
    const std::int64_t batch = small(rng, 2), m = small(rng, 3), k = small(rng, 4), n = small(rng, 4);
    const bool flip_a = rng.below(2) == 0, flip_b = rng.below(2) == 0, batch_a = rng.below(3) == 0,
               batch_b = rng.below(3) == 0;
    const auto dims = [&](std::int64_t rows, std::int64_t columns, bool flip, bool first) {
      Dims result = first ? Dims{rows, batch, columns} : Dims{batch, rows, columns};
      if (flip) result = first ? Dims{columns, batch, rows} : Dims{batch, columns, rows};
      return result;
    };
    const std::uint64_t known = rng.below(3);
    RangeProbe probe{.domain = "com.microsoft", .op = "FusedMatMul", .version = 1, .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, dims(m, k, flip_a, batch_a), -3, 3, known == 1),
                      any_operand(rng, dtype, dims(k, n, flip_b, batch_b), -3, 3, known == 2)};
    probe.attrs.set("transA", std::int64_t{flip_a});
    probe.attrs.set("transB", std::int64_t{flip_b});
    probe.attrs.set("transBatchA", std::int64_t{batch_a});
    probe.attrs.set("transBatchB", std::int64_t{batch_b});
    if (rng.below(2) == 0) probe.attrs.set("alpha", 0.125F);
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeFused, GemmAndConvSound) {
  Rng rng = seeded(8);
  constexpr const char* kActivations[] = {"", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Softplus", "HardSigmoid", "Elu"};
  for (int round = 0; round < 500; ++round) {
    const DType dtype = any_float(rng);
    const bool conv = rng.below(2) == 0;
    RangeProbe probe{
        .domain = "com.microsoft", .op = conv ? "FusedConv" : "FusedGemm", .version = 1, .settings = any_settings(rng)};
    const bool known = rng.below(2) == 0;
    if (conv) {
      probe.operands = {any_operand(rng, dtype, {1, 2, 5}, -3, 3, false),
                        any_operand(rng, dtype, {3, 2, 3}, -2, 2, known), any_operand(rng, dtype, {3}, -2, 2, known)};
      if (rng.below(2) == 0) probe.operands.push_back(any_operand(rng, dtype, {1, 3, 3}, -2, 2, false));
    } else {
      probe.operands = {any_operand(rng, dtype, {2, 4}, -3, 3, false), any_operand(rng, dtype, {4, 3}, -2, 2, known),
                        any_operand(rng, dtype, {3}, -2, 2, known)};
    }
    const std::string activation = kActivations[rng.below(8)];
    if (!activation.empty()) probe.attrs.set("activation", activation);
    expect_sound(rng, probe, activation + " round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeBlocks, MatMulNBitsSound) {
  Rng rng = seeded(9);
  for (int round = 0; round < 300; ++round) {
    constexpr DType kTypes[] = {DType::float32, DType::float16};
    const DType dtype = kTypes[rng.below(2)];
    constexpr std::int64_t kBits[] = {2, 4, 8};
    const std::int64_t bits = kBits[rng.below(3)], block = 16, k = 10 + small(rng, 40), n = small(rng, 5);
    const std::int64_t blocks = (k + block - 1) / block;
    const bool known = rng.below(3) != 0;
    RangeProbe probe{.domain = "com.microsoft", .op = "MatMulNBits", .version = 1, .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, dtype, {2, k}, -2, 2, false),
                      any_operand(rng, DType::uint8, {n, blocks, block * bits / 8}, 0, 255, known),
                      any_operand(rng, dtype, {n * blocks}, -0.1, 0.2, known),
                      omitted(),
                      omitted(),
                      omitted()};
    const std::uint64_t zeros = rng.below(3);
    if (zeros == 1) probe.operands[3] = any_operand(rng, DType::uint8, {n * ((blocks * bits + 7) / 8)}, 0, 255, known);
    if (zeros == 2) probe.operands[3] = any_operand(rng, dtype, {n * blocks}, 0, 9, known);
    if (rng.below(2) == 0) probe.operands[5] = any_operand(rng, dtype, {n}, -2, 2, known);
    probe.attrs.set("K", k);
    probe.attrs.set("N", n);
    probe.attrs.set("bits", bits);
    probe.attrs.set("block_size", block);
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeBlocks, GatherSound) {
  Rng rng = seeded(10);
  for (int round = 0; round < 200; ++round) {
    const bool packed = rng.below(2) == 0;
    RangeProbe probe{
        .domain = "com.microsoft", .op = "GatherBlockQuantized", .version = 1, .settings = any_settings(rng)};
    const DType dtype = packed ? DType::uint8 : DType::int4;
    probe.operands = {
        any_operand(rng, dtype, {3, packed ? 8 : 16}, packed ? 0 : -8, packed ? 255 : 7, rng.below(2) == 0),
        constant(Tensor::vector_of(std::vector<std::int64_t>{2, 0})),
        any_operand(rng, DType::float32, {3, 1}, -2, 2, false)};
    if (rng.below(2) == 0) probe.operands.push_back(any_operand(rng, dtype, {3, 1}, 0, 7, rng.below(2) == 0));
    probe.attrs.set("block_size", std::int64_t{16});
    expect_sound(rng, probe, "round " + std::to_string(round));
    if (HasFailure()) return;
  }
}

TEST(RangeMicrosoft, SpellingsSound) {
  Rng rng = seeded(11);
  const auto probe_of = [&](const std::string& op, std::vector<ProbeOperand> operands, std::size_t outputs = 1) {
    RangeProbe probe{
        .domain = "com.microsoft", .op = op, .version = 1, .operands = std::move(operands), .outputs = outputs};
    probe.settings = any_settings(rng);
    return probe;
  };
  for (int round = 0; round < 200; ++round) {
    const DType dtype = any_float(rng);
    const auto floats = [&](const Dims& dims) { return any_operand(rng, dtype, dims, -3, 3, false); };
    std::vector<RangeProbe> probes;
    probes.push_back(probe_of("BiasAdd", {floats({2, 3}), floats({3}), floats({2, 3})}));
    probes.push_back(probe_of("BiasSoftmax", {floats({2, 3}), floats({2, 3})}));
    probes.back().attrs.set("is_inner_broadcast", std::int64_t{0});
    probes.push_back(probe_of("LayerNormalization", {floats({2, 4}), floats({4}), floats({4})}));
    probes.push_back(probe_of("SimplifiedLayerNormalization", {floats({2, 4}), floats({4})}));
    probes.push_back(probe_of("Trilu", {floats({3, 3})}));
    probes.push_back(probe_of("GatherND", {floats({3, 3}), any_operand(rng, DType::int64, {2, 1}, 0, 2, false)}));
    probes.push_back(probe_of("Pad", {floats({3}), constant(Tensor::vector_of(std::vector<std::int64_t>{1, 2}))}));
    probes.push_back(probe_of("Unique", {floats({5})}, 3));
    probes.push_back(probe_of("ExpandDims", {floats({2, 3}), number(DType::int32, 1)}));
    probes.push_back(probe_of("ReduceSumInteger", {bytes(rng, DType::uint8, {2, 300}, false)}));
    probes.push_back(probe_of("TorchEmbedding", {floats({4, 2}), any_operand(rng, DType::int64, {3}, 0, 3, false)}));
    probes.push_back(probe_of("SoftmaxCrossEntropyLossInternal",
                              {floats({2, 3}), any_operand(rng, DType::int64, {2}, 0, 2, false)}, 2));
    probes.push_back(probe_of("Scale", {floats({2, 3}), number(DType::float32, rng.uniform(-2, 2))}));
    probes.back().attrs.set("scale_down", static_cast<std::int64_t>(rng.below(2)));
    probes.push_back(
        probe_of("RelativePositionBias", {floats({8, 2}), number(DType::int64, 4), number(DType::int64, 4)}));
    probes.back().attrs.set("max_distance", std::int64_t{16});
    probes.push_back(
        probe_of("Range", {number(DType::float32, rng.uniform(-3, 0)), number(DType::float32, rng.uniform(0, 5))}));
    for (RangeProbe& probe : probes) {
      expect_sound(rng, probe, probe.op + " round " + std::to_string(round));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace finity
