// Softmax regression on images of digits (groups B and E of the benchmark): one layer, a softmax, an unguarded
// logarithm. What differs is how fast the weights grow.
#include "base/rng.h"
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr int kPixels = 784;
constexpr int kClasses = 10;

struct Config {
  const char* id;
  Over over;
  Optimiser::Kind kind;
  double rate;
  std::int64_t batch;
  Draw weight = begin::zeros;
  Draw bias = begin::zeros;
  bool relu_after = false;  // of the softmax: without effect
};

constexpr Config kConfigs[] = {
    {"3", Over::sum, Optimiser::Kind::adam, 0.005, 100},
    {"10", Over::sum, Optimiser::Kind::sgd, 0.005, 205},
    {"18", Over::mean, Optimiser::Kind::sgd, 0.5, 50, begin::truncated(0.1), begin::constant(0.1)},
    {"19", Over::mean, Optimiser::Kind::sgd, 0.2, 50, begin::zeros, begin::zeros, true},
    {"20", Over::mean, Optimiser::Kind::sgd, 0.01, 100},
    {"21", Over::sum, Optimiser::Kind::sgd, 0.01, 100},
    {"25", Over::mean, Optimiser::Kind::sgd, 0.6, 100},
    {"30", Over::sum, Optimiser::Kind::sgd, 0.01, 100},
    {"45a", Over::mean, Optimiser::Kind::sgd, 0.5, 50},
    {"48b", Over::mean, Optimiser::Kind::sgd, 0.5, 100},
    {"50", Over::mean, Optimiser::Kind::sgd, 0.05, 100},
    {"52", Over::sum, Optimiser::Kind::sgd, 0.005, 100},
    {"60", Over::sum, Optimiser::Kind::sgd, 0.01, 100},
};

Recipe regression(const Config& config, const Build& build) {
  Maker maker(build.small ? 4 : config.batch);
  const std::string x = maker.images("x", {kPixels});
  const std::string y = maker.one_hot_labels("y");
  std::string p =
      maker.node("Softmax", {maker.dense(x, kPixels, kClasses, "layer", {config.weight, config.bias})}, "axis = 1");
  if (config.relu_after) p = maker.relu(p);
  maker.loss(cross_entropy(maker, p, y, config.over, build.repaired));
  maker.optimiser({.kind = config.kind, .rate = config.rate});
  return std::move(maker).finish();
}

// Number 2: the loss of independent classes, applied to a softmax.
Recipe independent_classes(const Build& build) {
  constexpr std::int64_t kBatch = 10;
  Maker maker(build.small ? 4 : kBatch);
  const std::string x = maker.images("x", {kPixels});
  const std::string y = maker.one_hot_labels("y");
  const std::string p =
      maker.node("Softmax", {maker.dense(x, kPixels, kClasses, "layer", {begin::zeros, begin::zeros})}, "axis = 1");
  maker.loss(maker.mean(binary_cross_entropy(maker, p, y, build.repaired)));
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = 0.01});
  return std::move(maker).finish();
}

// Number 59: steps written by hand, and a guard whose result nobody uses.
Recipe hand_written(const Build& build) {
  constexpr std::int64_t kBatch = 100;
  Maker maker(build.small ? 4 : kBatch);
  const std::string x = maker.images("x", {kPixels});
  const std::string y = maker.one_hot_labels("y");
  const Init init = {begin::uniform(-1, 1), begin::zeros};
  const std::string p = maker.node("Softmax", {maker.dense(x, kPixels, kClasses, "layer", init)}, "axis = 1");
  maker.output(maker.clip(p, 1e-15, 1), "guarded");
  maker.loss(cross_entropy(maker, p, y, Over::mean, build.repaired));
  const std::string transposed = maker.node("Transpose", {x}, "perm = [1, 0]");
  const std::string slopes = maker.node("MatMul", {transposed, maker.node("Sub", {y, p})});
  const std::string step = maker.node("Mul", {slopes, maker.number(0.01)});
  const std::string mean_step = maker.node("ReduceMean", {step, maker.whole_numbers({0})}, "keepdims = 0");
  maker.output(maker.node("Add", {"layer_w", step}), "next_w");
  maker.output(maker.node("Add", {"layer_b", mean_step}), "next_b");
  maker.updated_by("layer_w", "next_w");
  maker.updated_by("layer_b", "next_b");
  return std::move(maker).finish();
}

// Weight and height, scaled, drawn like the benchmark's table; the class follows from their ratio.
struct People {
  Tensor rows = {};
  std::vector<std::int64_t> classes = {};
};
People people() {
  constexpr std::int64_t kPeople = 1400;
  Rng rng(40);
  People people = {.rows = Tensor(DType::float32, {kPeople, 2}), .classes = {}};
  const std::span<float> numbers = people.rows.mutable_data<float>();
  for (std::size_t i = 0; i < static_cast<std::size_t>(kPeople); ++i) {
    const double kilograms = 35 + static_cast<double>(rng.below(46));
    const double centimetres = 120 + static_cast<double>(rng.below(81));
    const double index = kilograms / (centimetres * centimetres / 1e4);
    numbers[2 * i] = static_cast<float>(kilograms / 100);
    numbers[2 * i + 1] = static_cast<float>(centimetres / 200);
    people.classes.push_back(index < 18.5 ? 0 : index < 25.5 ? 1 : 2);
  }
  return people;
}

Recipe body_mass(const Build& build) {
  constexpr std::int64_t kBatch = 100;
  const People data = people();
  Maker maker(build.small ? 4 : kBatch);
  // With weights of at most 1 no logit leaves [-3, 3]; training does not keep to that.
  maker.set_reach(100);
  const std::string x = maker.table("x", data.rows, {0.35, 1.0}, true);
  const std::string y = maker.one_hot_table("y", data.classes, 3);
  const std::string p =
      maker.node("Softmax", {maker.dense(x, 2, 3, "layer", {begin::zeros, begin::zeros})}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, Over::sum, build.repaired));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = 0.01});
  return std::move(maker).finish();
}

GristBug log_bug(std::string id, std::string node, std::string note, std::function<Recipe(const Build&)> make) {
  return {.id = std::move(id),
          .family = "softmax regression",
          .op = "log",
          .rule = "FN102",
          .nodes = {node},
          .repaired = {node},
          .note = std::move(note),
          .make = std::move(make)};
}

}  // namespace

GristBugs grist_regressions() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    bugs.push_back(log_bug(config.id, "log", "", [&config](const Build& build) { return regression(config, build); }));
  }
  bugs.push_back(log_bug("59", "log", "", hand_written));
  bugs.push_back(log_bug("2a", "log", "", independent_classes));
  bugs.push_back(log_bug("2b", "log_not", "", independent_classes));
  for (const char* id : {"40", "41", "42"}) {
    bugs.push_back(log_bug(id, "log", "drawn people instead of the published table", body_mass));
  }
  return bugs;
}

}  // namespace finity
