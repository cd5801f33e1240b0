// Convolutional networks on digits that end in a softmax and an unguarded logarithm: the tutorial's network (group A),
// LeNet-5 (14) and a network with one convolution (44).
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

struct Config {
  const char* id;
  Over over;
  double rate;
  std::int64_t batch;
  double keep;         // of the dropout; 1: none
  bool apart = false;  // the loss that is looked at is computed without dropout
};

constexpr Config kConfigs[] = {
    {"6", Over::sum, 1e-4, 50, 0.5, true}, {"7", Over::sum, 1e-4, 50, 0.5, true}, {"8", Over::sum, 1e-4, 50, 0.5, true},
    {"24", Over::sum, 1e-4, 100, 1},       {"29", Over::sum, 5e-4, 100, 0.5},     {"45b", Over::mean, 1e-4, 50, 0.5},
    {"55", Over::mean, 1e-4, 50, 0.5},     {"58", Over::sum, 1e-4, 50, 0.5},
};

Recipe tutorial(const Config& config, const Build& build) {
  const Init init = {begin::truncated(0.1), begin::constant(0.1)};
  const std::int64_t batch = build.small ? 2 : config.batch;
  Maker maker(batch);
  const std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  std::string h = maker.reshape(x, {batch, 1, 28, 28});
  h = maker.max_pool(maker.relu(maker.conv(h, {32, 1, 5, 5}, true, "conv1", init)));
  h = maker.max_pool(maker.relu(maker.conv(h, {64, 32, 5, 5}, true, "conv2", init)));
  h = maker.relu(maker.dense(maker.reshape(h, {batch, 3136}), 3136, 1024, "full", init));
  const std::string whole = h;
  if (config.keep < 1) h = maker.dropout(h, "kept", {1024}, config.keep);
  const std::string p = maker.node("Softmax", {maker.dense(h, 1024, 10, "last", init)}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, config.over, build.repaired, config.apart ? "trained_log" : "log"));
  if (config.apart) {
    const std::string q = maker.node("Softmax", {maker.dense_again(whole, "last")}, "axis = 1");
    maker.output(cross_entropy(maker, q, y, config.over, build.repaired), "checked");
    maker.watch("checked");
  }
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = config.rate});
  return std::move(maker).finish();
}

Recipe lenet(const Build& build) {
  const Init init = {begin::truncated(0.1), begin::zeros};
  const std::int64_t batch = build.small ? 2 : 64;
  Maker maker(batch);
  const std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  std::string h = maker.reshape(x, {batch, 1, 28, 28});
  h = maker.node("Pad", {h, maker.whole_numbers({0, 0, 2, 2, 0, 0, 2, 2})});
  h = maker.max_pool(maker.relu(maker.conv(h, {6, 1, 5, 5}, false, "conv1", init)));
  h = maker.max_pool(maker.relu(maker.conv(h, {16, 6, 5, 5}, false, "conv2", init)));
  h = maker.relu(maker.conv(h, {120, 16, 5, 5}, false, "conv3", init));
  h = maker.relu(maker.dense(maker.reshape(h, {batch, 120}), 120, 84, "full", init));
  const std::string p = maker.node("Softmax", {maker.dense(h, 84, 10, "last", init)}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, Over::sum, build.repaired));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = 0.001});
  return std::move(maker).finish();
}

Recipe one_convolution(const Build& build) {
  const Init init = {begin::truncated(0.1), begin::constant(0.1)};
  const std::int64_t batch = build.small ? 2 : 50;
  Maker maker(batch);
  const std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  std::string h = maker.reshape(x, {batch, 1, 28, 28});
  h = maker.max_pool(maker.relu(maker.conv(h, {16, 1, 5, 5}, true, "conv", init)));
  h = maker.relu(maker.dense(maker.reshape(h, {batch, 3136}), 3136, 128, "full", init));
  h = maker.dropout(h, "kept", {128}, 0.5);
  const std::string p = maker.node("Softmax", {maker.dense(h, 128, 10, "last", init)}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, Over::sum, build.repaired));
  maker.optimiser({.kind = Optimiser::Kind::adagrad, .rate = 0.001});
  return std::move(maker).finish();
}

GristBug network(std::string id, std::function<Recipe(const Build&)> make) {
  return {.id = std::move(id),
          .family = "convolutional",
          .op = "log",
          .rule = "FN102",
          .nodes = {"log"},
          .repaired = {"log"},
          .make = std::move(make)};
}

}  // namespace

GristBugs grist_convolutional() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    bugs.push_back(network(config.id, [&config](const Build& build) { return tutorial(config, build); }));
  }
  bugs.push_back(network("14", lenet));
  bugs.push_back(network("44", one_convolution));
  return bugs;
}

}  // namespace finity
