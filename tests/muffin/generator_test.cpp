// Generators: all layer types soon, the same models of the same seed, structures with one end.
#include "muffin/generator.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "muffin/lemon.h"
#include "muffin/source.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::muffin {
namespace {

std::size_t models_until(Mode mode, std::size_t types, std::size_t most) {
  Generator generator({.mode = mode, .seed = 7});
  std::set<std::string> used;
  for (std::size_t i = 1; i <= most; ++i) {
    for (const Layer& layer : generator.next().layers) used.insert(layer.spec.kind);
    if (used.size() >= types) return i;
  }
  return most + 1;
}

TEST(Generator, OursUsesAll59TypesWithin300Models) { EXPECT_LE(models_until(Mode::layers, 59, 300), 300U); }
// No data set of the paper has words.
TEST(Generator, MuffinUsesAllButTheEmbedding) { EXPECT_LE(models_until(Mode::muffin, 58, 300), 300U); }

std::string text_of(const Model& model) {
  std::string text = model.data + " " + model.structure + " " + model.loss + " " + model.optimiser;
  for (const Layer& layer : model.layers) {
    text += "; " + to_string(layer.spec) + " " + std::to_string(layer.spec.seed) + " from";
    for (const int from : layer.from) text += " " + std::to_string(from);
  }
  return text;
}

TEST(Generator, TheSameSeedMakesTheSameModelsInEveryMode) {
  for (const SourceKind& kind : source_kinds()) {
    const auto one = make_source(kind.name, {.seed = 3}), other = make_source(kind.name, {.seed = 3}),
               different = make_source(kind.name, {.seed = 4});
    bool differs = false;
    for (int i = 0; i < 7; ++i) {
      const Model a = one->next(), b = other->next();
      EXPECT_EQ(text_of(a), text_of(b)) << kind.name;
      for (const auto& [name, tensor] : a.sample.constants)
        EXPECT_TRUE(identical(tensor, b.sample.constants.at(name))) << kind.name;
      differs |= text_of(a) != text_of(different->next());
    }
    EXPECT_TRUE(differs) << kind.name;
  }
  EXPECT_THROW(make_source("nobody", {}), Error);
  EXPECT_THROW(make_source("muffin", {.data = "nothing"}), Error);
}

TEST(Generator, ModelsAreTypedAndEveryLayerLeadsToTheLoss) {
  for (const SourceKind& kind : source_kinds()) {
    const auto source = make_source(kind.name, {.seed = 11});
    for (int i = 0; i < 6; ++i) {
      const Model model = source->next();
      EXPECT_NO_THROW(infer_types(fuzz::graph(model.sample))) << kind.name;
      std::set<int> used;
      for (const Layer& layer : model.layers) used.insert(layer.from.begin(), layer.from.end());
      for (int k = 0; k + 1 < static_cast<int>(model.layers.size()); ++k) EXPECT_TRUE(used.contains(k)) << kind.name;
    }
  }
}

TEST(Structures, HaveOneSinkAndNoIsolatedVertex) {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    for (const Structure& structure : {chain_with_skips(1 + i % 30, rng), cell(1 + i % 10, rng)}) {
      std::set<int> used;
      for (std::size_t v = 0; v < structure.size(); ++v) {
        EXPECT_FALSE(structure[v].empty());
        for (const int from : structure[v]) {
          EXPECT_LT(from, static_cast<int>(v));
          used.insert(from);
        }
      }
      for (int v = 0; v + 1 < static_cast<int>(structure.size()); ++v) EXPECT_TRUE(used.contains(v));
    }
  }
}

TEST(Lemon, EverySeedIsBuiltAndEveryMutatorChangesSomething) {
  Rng rng(1);
  std::vector<Model> seeds;
  for (const std::string_view name : lemon_seeds()) seeds.push_back(lemon_seed(name, 1, rng));
  EXPECT_EQ(seeds.size(), 11U);
  EXPECT_EQ(lemon_mutators().size(), 12U);
  for (const std::string_view mutator : lemon_mutators()) {
    int changed = 0;
    for (const Model& seed : seeds) {
      for (int i = 0; i < 3; ++i) {
        const std::optional<Model> mutant = mutated(seed, mutator, rng);
        if (!mutant) continue;
        ++changed;
        EXPECT_EQ(mutant->layers.back().dims, seed.layers.back().dims);
      }
    }
    EXPECT_GT(changed, 3) << mutator;
  }
}

// Whoever drives libraries apart is chosen more often, and its models are changed further.
TEST(Lemon, LearnsWhichMutatorsSucceed) {
  const auto source = make_lemon({.seed = 3});
  const auto depth = [](const Model& model) { return model.layers.size(); };
  std::size_t largest = 0;
  double distance = 0;
  for (int i = 0; i < 60; ++i) {
    const Model model = source->next();
    // More layers, more distance: additions succeed, removals do not.
    const bool grew = depth(model) > largest;
    largest = std::max(largest, depth(model));
    source->hear(grew ? distance += 0.01 : 0);
  }
  std::size_t seeds = 0;
  Rng rng(1);
  for (const std::string_view name : lemon_seeds()) seeds = std::max(seeds, depth(lemon_seed(name, 2, rng)));
  EXPECT_GT(largest, seeds + 3);
}

TEST(Lemon, DistanceIsOfTheMeanDistancesFromTheTarget) {
  Rng rng(1);
  const Model model = lemon_seed(lemon_seeds().front(), 1, rng);
  const Tensor& target = model.sample.inputs.at("target");
  const auto trace = [&](double off) {
    std::vector<double> values = elements<double>(target);
    for (double& x : values) x += off;
    Trace result;
    result.outputs = {from_elements<double>(DType::float32, target.dims(), values)};
    return result;
  };
  EXPECT_NEAR(lemon_distance(model, {trace(1), trace(3)}), 0.5, 1e-6);
  EXPECT_EQ(lemon_distance(model, {trace(1), trace(-1)}), 0);
  EXPECT_EQ(lemon_distance(model, {trace(1)}), 0);
}

TEST(Coverage, CountsCellsAndPrefersRareOnes) {
  LayerSpec spec{.kind = "dense"};
  spec.set("units", 3);
  spec.set("use_bias", 1);
  const std::vector<CoverCell> cells = cells_of(spec, {{2, 5}}, {"conv2D"});
  Coverage covered;
  EXPECT_EQ(covered.novelty(cells), 1);
  for (int i = 0; i < 3; ++i) covered.add(cells);
  EXPECT_EQ(covered.novelty(cells), 0.5);
  EXPECT_EQ(covered.sizes().at("value"), 2);
  EXPECT_EQ(covered.sizes().at("pair"), 1);
  EXPECT_EQ(covered.sizes().at("edge"), 1);
}

}  // namespace
}  // namespace finity::muffin
