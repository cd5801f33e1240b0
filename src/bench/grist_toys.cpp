// Small programs without images: logistic and softmax regressions on a handful of numbers (groups F and G), and bare
// losses without weights (group H, numbers 4, 5 and 13). Their inputs may be any number.
#include "base/rng.h"
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr LegalRange kAny = {};

Tensor rows_of(std::int64_t columns, const std::vector<float>& numbers) {
  const auto rows = static_cast<std::int64_t>(numbers.size()) / columns;
  return Tensor::of<float>(DType::float32, {rows, columns}, numbers);
}

// ---- logistic regression ---------------------------------------------------------------------------------------

struct Points {
  std::int64_t columns;
  std::vector<float> x;
  std::vector<float> y;
};

Points six_points() { return {2, {1, 2, 2, 3, 3, 1, 4, 3, 5, 3, 6, 2}, {0, 0, 0, 1, 1, 1}}; }
Points exclusive_or() { return {2, {0, 0, 0, 1, 1, 0, 1, 1}, {0, 1, 1, 0}}; }
Points hours() {
  return {1, {1, 2, 3, 4, 5, 2.5F, 3.5F, 0, 3.1F, 2.7F, 2.8F, 2.9F}, {1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1}};
}

struct Logistic {
  const char* id;
  Points (*points)();
  Draw init;
  double rate;
};
constexpr Logistic kLogistic[] = {
    {"26", six_points, begin::zeros, 1},         {"33", six_points, begin::zeros, 1},
    {"56", six_points, begin::zeros, 1},         {"37", six_points, begin::linear(2), 0.01},
    {"38", exclusive_or, begin::linear(2), 0.1}, {"53", hours, begin::zeros, 1},
};

Recipe logistic(const Logistic& config, const Build& build) {
  const Points points = config.points();
  const Tensor x = rows_of(points.columns, points.x);
  Maker maker(x.dim(0));
  const std::string in = maker.table("x", x, kAny, true);
  const std::string y = maker.table("y", rows_of(1, points.y), {0, 1}, false);
  const std::string h = maker.sigmoid(maker.dense(in, points.columns, 1, "layer", {config.init, config.init}));
  maker.loss(maker.mean(binary_cross_entropy(maker, h, y, build.repaired)));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = config.rate});
  return std::move(maker).finish();
}

// ---- softmax regression ----------------------------------------------------------------------------------------

struct Softmax {
  const char* id;
  std::int64_t biases;
  Over over;
  Optimiser::Kind kind;
};
constexpr Softmax kSoftmax[] = {{"32", 1, Over::sum, Optimiser::Kind::sgd},
                                {"34", 1, Over::mean, Optimiser::Kind::sgd},
                                {"47", 3, Over::mean, Optimiser::Kind::sgd},
                                {"54", 3, Over::mean, Optimiser::Kind::adam}};

Recipe eight_rows(const Softmax& config, const Build& build) {
  constexpr double kRate = 0.1;
  const Tensor x =
      rows_of(4, {1, 2, 1, 1, 2, 1, 3, 2, 3, 1, 3, 4, 4, 1, 5, 5, 1, 7, 5, 5, 1, 2, 5, 6, 1, 6, 6, 6, 1, 7, 7, 7});
  Maker maker(x.dim(0));
  const std::string in = maker.table("x", x, kAny, true);
  const std::string y = maker.one_hot_table("y", {2, 2, 2, 1, 1, 1, 0, 0}, 3);
  const std::string product = maker.node("MatMul", {in, maker.weight("layer_w", {4, 3}, begin::zeros)});
  const std::string logits = maker.node("Add", {product, maker.weight("layer_b", {config.biases}, begin::zeros)});
  const std::string p = maker.node("Softmax", {logits}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, config.over, build.repaired));
  maker.optimiser({.kind = config.kind, .rate = kRate});
  return std::move(maker).finish();
}

// ---- bare losses -----------------------------------------------------------------------------------------------

std::vector<std::int64_t> random_classes(std::size_t count, std::uint64_t classes) {
  Rng rng(1);
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::int64_t>(rng.below(classes)));
  return result;
}

// The cost of random scores for random classes.
Recipe softmax_cost(const Build& build) {
  constexpr std::int64_t kRows = 3;
  constexpr int kScores = 5;
  Maker maker(kRows);
  const std::string z = maker.draw("z", {kRows, kScores}, begin::uniform(0, 1), kAny, false);
  const std::string y = maker.one_hot_table("y", random_classes(60, kScores), kScores);
  maker.loss(cross_entropy(maker, maker.node("Softmax", {z}, "axis = 1"), y, Over::mean, build.repaired));
  return std::move(maker).finish();
}

// Number 4: the divergence term of a graph auto-encoder whose encoder gives its input twice.
Recipe divergence(const Build& build) {
  Maker maker(3);
  const std::string x = maker.table("x", rows_of(2, {1, -1, 1, 2, 2, 1}), kAny, true);
  const std::string variance =
      maker.node("Exp", {build.repaired ? maker.node("Min", {x, maker.number(10)}) : x}, "", "exp");
  const std::string first = maker.node("Sub", {maker.node("Add", {maker.number(1), x}), maker.node("Mul", {x, x})});
  const std::string rows = maker.row_sums(maker.node("Sub", {first, variance}));
  maker.loss(maker.node("Mul", {maker.number(-0.5), maker.mean(rows)}));
  return std::move(maker).finish();
}

// Number 5: three candidates in a row, one of them right.
Recipe ranking(const Build& build) {
  Maker maker(6);
  const std::string x = maker.table("x", rows_of(1, {0.8F, 0.1F, 0.1F, 0.8F, 0.1F, 0.1F}), kAny, true);
  const std::string y = maker.table("y", rows_of(1, {1, 0, 0, 0, 1, 0}), {0, 1}, false);
  const std::string p = maker.node("Softmax", {maker.reshape(x, {2, 3})}, "axis = 1");
  maker.loss(cross_entropy(maker, p, maker.reshape(y, {2, 3}), Over::mean, build.repaired));
  return std::move(maker).finish();
}

// Number 13: a softmax within each of two groups, without subtracting their maxima.
Recipe grouped_softmax(const Build& build) {
  Maker maker(6);
  const std::string flat = maker.table("x", rows_of(1, {0, 1, 2, 0, 1, 2}), kAny, true);
  std::string x = maker.reshape(flat, {2, 3});
  const std::string axis = maker.whole_numbers({1});
  if (build.repaired) x = maker.node("Sub", {x, maker.node("ReduceMax", {x, axis}, "keepdims = 1")});
  const std::string e = maker.node("Exp", {x}, "", "exp");
  maker.loss(maker.sum(maker.node("Div", {e, maker.node("ReduceSum", {e, axis}, "keepdims = 1")})));
  return std::move(maker).finish();
}

GristBug toy(std::string id, std::string family, std::string op, std::vector<std::string> nodes,
             std::function<Recipe(const Build&)> make) {
  const std::string rule = op == "exp" ? "FN201" : "FN102";
  return {.id = std::move(id),
          .family = std::move(family),
          .op = std::move(op),
          .rule = rule,
          .nodes = nodes,
          .repaired = nodes,
          .make = std::move(make)};
}

}  // namespace

GristBugs grist_toys() {
  GristBugs bugs;
  for (const Logistic& config : kLogistic) {
    bugs.push_back(toy(config.id, "logistic regression", "log", {"log", "log_not"},
                       [&config](const Build& build) { return logistic(config, build); }));
  }
  for (const Softmax& config : kSoftmax) {
    bugs.push_back(toy(config.id, "softmax regression", "log", {"log"},
                       [&config](const Build& build) { return eight_rows(config, build); }));
  }
  for (const char* id : {"23", "27", "46", "57"}) bugs.push_back(toy(id, "bare loss", "log", {"log"}, softmax_cost));
  bugs.push_back(toy("4", "bare loss", "exp", {"exp"}, divergence));
  bugs.push_back(toy("5", "bare loss", "log", {"log"}, ranking));
  bugs.push_back(toy("13", "bare loss", "exp", {"exp"}, grouped_softmax));
  return bugs;
}

}  // namespace finity
