// Generators: all layer types soon, the same models of the same seed, structures with one end.
#include "muffin/generator.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "muffin/lemon.h"
#include "muffin/source.h"
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
