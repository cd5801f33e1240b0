// Every layer type is drawn, typed, run by the reference, and by LibTorch when it is there.
#include "muffin/layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/backends.h"
#include "exec/reference.h"
#include "muffin/model.h"
#include "muffin/trace.h"
#include "muffin/verdict.h"
#include "tensor/convert.h"

namespace finity::muffin {
namespace {

// Sizes that all layer types can do something with.
Dims shape_for(const LayerKind& kind) {
  Dims dims = {2, 4, 6, 5, 3};
  const std::size_t rank =
      static_cast<std::size_t>(kind.most_rank == 0 ? std::max(kind.least_rank, 3) : kind.most_rank);
  dims.resize(rank);
  return dims;
}

Model model_of(const LayerKind& kind, std::uint64_t seed, LayerSpec* drawn = nullptr) {
  Rng rng(seed);
  Chooser choose(rng);
  const Dims dims = shape_for(kind);
  const DataSet data{
      .name = "test", .sample = {dims.begin() + 1, dims.end()}, .words = kind.name == "embedding", .published = false};
  Assembly assembly(Weights::scaled, data, draw_samples(data, dims[0], rng));
  std::vector<int> from = {-1};
  if (kind.merges) {
    // Merged with another function of itself, without ties.
    LayerSpec tanh{.kind = "activation"};
    tanh.set("activation", "tanh");
    from.push_back(assembly.add(tanh, {-1}).value());
  }
  const std::optional<int> made = assembly.draw(kind, from, choose);
  EXPECT_TRUE(made) << kind.name;
  if (drawn != nullptr) *drawn = assembly.layers().back().spec;
  return std::move(assembly).finish("mean_squared_error", "sgd", true, rng);
}

std::vector<Tensor> by_reference(const fuzz::Sample& sample) {
  std::vector<Tensor> values;
  for (const Datum& datum : run_reference(fuzz::graph(sample), fuzz::inputs_of(sample)))
    values.push_back(*datum.tensor());
  return values;
}

TEST(Layers, ThereAreFiftyNineTypes) {
  std::set<std::string_view> names;
  int merging = 0;
  for (const LayerKind& kind : layer_kinds()) {
    names.insert(kind.name);
    merging += kind.merges ? 1 : 0;
  }
  EXPECT_EQ(names.size(), 59U);
  EXPECT_EQ(layer_kinds().size(), 59U);
  EXPECT_EQ(merging, 8);
}

TEST(Layers, EachIsDrawnAndGivesNumbersOfTheShapeThatWasForetold) {
  for (const LayerKind& kind : layer_kinds()) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Model model = model_of(kind, seed);
      ASSERT_FALSE(model.layers.empty()) << kind.name;
      const Prepared prepared(model);
      const std::vector<Tensor> values = by_reference(prepared.forward());
      for (std::size_t i = 0; i < model.layers.size(); ++i) {
        EXPECT_EQ(values[i].dims(), model.layers[i].dims) << kind.name;
        for (const float x : values[i].data<float>()) ASSERT_TRUE(std::isfinite(x)) << to_string(model.layers[i].spec);
      }
    }
  }
}

// A second way to compute the same: recurrent ops against their steps, with the same weights.
TEST(Layers, RecurrentOpsMeanTheirSteps) {
  int compared = 0;
  for (const char* name : {"LSTM", "GRU", "simpleRNN", "bidirectional"}) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      const Model model = model_of(layer_kind(name), seed);
      const std::optional<Model> twin = unrolled(model);
      if (!twin) continue;
      ++compared;
      const std::vector<Tensor> one = by_reference(Prepared(model).forward()),
                                other = by_reference(Prepared(*twin).forward());
      EXPECT_LT(chebyshev(one[0], other[0]), 1e-4) << to_string(model.layers[0].spec);
    }
  }
  EXPECT_GT(compared, 8);
}

TEST(Layers, TransposedConvolutionsAreAsLongAsKerasSays) {
  int longer = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    LayerSpec spec;
    const Model model = model_of(layer_kind("conv2D_transpose"), seed, &spec);
    const std::int64_t k = spec.number("kernel"), s = spec.number("strides");
    const bool first = spec.word("data_format") == "channels_first";
    const std::int64_t in = first ? 6 : 4, out = model.layers[0].dims[first ? 2 : 1];
    EXPECT_EQ(out, spec.word("padding") == "same" ? in * s : in * s + std::max<std::int64_t>(k - s, 0))
        << to_string(spec);
    longer += s > k ? 1 : 0;
  }
  EXPECT_GT(longer, 0);
}

struct LibTorch : testing::Test {
  void SetUp() override {
    try {
      backend = std::make_unique<fuzz::Backend>(fuzz::BackendSpec{.family = "torch"});
    } catch (const NotInstalled& missing) {
      GTEST_SKIP() << missing.what();
    }
  }
  std::unique_ptr<fuzz::Backend> backend;
};

// Forward, its own derivatives against those that the op table's rules write, and a step of the optimiser.
TEST_F(LibTorch, AgreesWithTheReferenceInAllLayers) {
  const std::set<std::string> natively = {"sgd", "rmsprop", "adagrad", "adam"};
  int derived = 0;
  for (const LayerKind& kind : layer_kinds()) {
    const Model model = model_of(kind, 5);
    const Prepared prepared(model);
    const Trace trace = run_model(*backend, prepared);
    ASSERT_TRUE(trace.ran()) << kind.name << ": " << trace.message;
    const std::vector<Tensor> values = by_reference(prepared.forward());
    for (std::size_t i = 0; i < model.layers.size(); ++i)
      EXPECT_LT(chebyshev(values[i], trace.outputs[i]), 1e-3) << to_string(model.layers[i].spec);
    const Prepared& flat = prepared.unrolled() != nullptr ? *prepared.unrolled() : prepared;
    if (!flat.backward() || kind.name == "embedding") continue;
    ++derived;
    const fuzz::Sample& backward = *flat.backward();
    const std::vector<Tensor> slopes = by_reference(backward);
    ASSERT_EQ(trace.gradients.size(), model.layers.size()) << kind.name << ": " << trace.backward;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const auto at = std::ranges::find(backward.outputs, flat.by_layer()[i]);
      if (at == backward.outputs.end()) continue;
      const Tensor& expected = slopes[static_cast<std::size_t>(at - backward.outputs.begin())];
      EXPECT_LT(chebyshev(expected, *trace.gradients[i]), 1e-3) << to_string(model.layers[i].spec);
    }
    EXPECT_EQ(trace.weights.size(), trace.weight_gradients.size()) << kind.name;
    EXPECT_EQ(trace.native_step, !trace.weights.empty() && natively.contains(model.optimiser)) << model.optimiser;
  }
  EXPECT_GE(derived, 55);
}

}  // namespace
}  // namespace finity::muffin
