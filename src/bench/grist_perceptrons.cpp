// Perceptrons with one hidden layer on digits: group J, and numbers 9 and 12.
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

// Numbers 48a and 61: 784-300-10 with a softmax.
struct Config {
  const char* id;
  bool noise;
  double keep;
  Over over;
  double rate;
  std::int64_t batch;
};
constexpr Config kConfigs[] = {{"48a", true, 0.75, Over::mean, 0.3, 100}, {"61", false, 1, Over::sum, 0.01, 128}};

Recipe hidden_layer(const Config& config, const Build& build) {
  const std::int64_t batch = build.small ? 4 : config.batch;
  Maker maker(batch);
  std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  if (config.noise) {
    const std::string noise = maker.draw("noise", {784}, begin::normal(1), kNormalDraws, true);
    x = maker.node("Add", {x, maker.node("Mul", {noise, maker.number(0.01)})});
  }
  std::string h = maker.relu(maker.dense(x, 784, 300, "hidden", {begin::truncated(0.1), begin::zeros}));
  if (config.keep < 1) h = maker.dropout(h, "kept", {300}, config.keep);
  const std::string p =
      maker.node("Softmax", {maker.dense(h, 300, 10, "last", {begin::zeros, begin::zeros})}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, config.over, build.repaired));
  maker.optimiser({.kind = Optimiser::Kind::adagrad, .rate = config.rate});
  return std::move(maker).finish();
}

// Number 9: sigmoids everywhere, weights that begin at zero.
Recipe sigmoids(const Build& build) {
  const std::int64_t batch = build.small ? 4 : 100;
  Maker maker(batch);
  const std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  const std::string h = maker.sigmoid(maker.dense(x, 784, 512, "hidden", {begin::zeros, {}}));
  const std::string o = maker.sigmoid(maker.dense(h, 512, 10, "last", {begin::zeros, {}}));
  maker.loss(maker.mean(maker.row_sums(binary_cross_entropy(maker, o, y, build.repaired))));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = 0.5});
  return std::move(maker).finish();
}

// Number 12: the logarithm of a softmax is taken by the trainer, and only the right class is read from it.
Recipe trainer(const Build& build) {
  const std::int64_t batch = build.small ? 4 : 128;
  Maker maker(batch);
  const std::string x = maker.images("x", {784});
  const std::string y = maker.class_labels("y");
  const auto init = [](std::int64_t in) { return Init{begin::linear(in), begin::linear(in)}; };
  const std::string h = maker.dropout(maker.relu(maker.dense(x, 784, 98, "hidden", init(784))), "kept", {98}, 0.5);
  const std::string p = maker.node("Softmax", {maker.dense(h, 98, 10, "last", init(98))}, "axis = 1");
  const std::string safe = build.repaired ? maker.node("Add", {p, maker.number(1.1920929e-07)}) : p;
  const std::string log = maker.node("Log", {safe}, "", "log");
  const std::string right = maker.node("GatherElements", {log, maker.reshape(y, {batch, 1})}, "axis = 1");
  maker.loss(maker.node("Neg", {maker.mean(right)}));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = 0.1});
  return std::move(maker).finish();
}

GristBug perceptron(std::string id, std::string node, std::function<Recipe(const Build&)> make) {
  return {.id = std::move(id),
          .family = "perceptron",
          .op = "log",
          .rule = "FN102",
          .nodes = {node},
          .repaired = {node},
          .make = std::move(make)};
}

}  // namespace

GristBugs grist_perceptrons() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    bugs.push_back(perceptron(config.id, "log", [&config](const Build& build) { return hidden_layer(config, build); }));
  }
  bugs.push_back(perceptron("9a", "log_not", sigmoids));
  bugs.push_back(perceptron("9b", "log", sigmoids));
  bugs.push_back(perceptron("12", "log", trainer));
  return bugs;
}

}  // namespace finity
