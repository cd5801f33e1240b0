// Number 28, a network for stochastic computing: every layer divides by gains and by sums of its weights, so that all
// numbers stay in [-1, 1]. Gains are drawn once, from an interval that begins at zero.
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

struct Config {
  const char* id;
  bool wide_gains;  // a gain for each unit, and weights punished beyond 1; else one gain, and squares punished
  bool by_gain;     // the division that is the bug: by the gain, else by the sum of weights
  const char* note;
};
constexpr Config kConfigs[] = {
    {"28a", true, true, "divisions without the guards of the published copy, as the paper shows them"},
    {"28b", true, false, ""},
    {"28c", false, true, ""},
    {"28d", false, false, ""}};

struct Scaled {
  std::string value = {}, scale = {};
};

// A division whose divisor is kept off zero in the twin.
std::string divided(Maker& maker, const std::string& x, const std::string& by, const std::string& name, bool repaired) {
  return maker.node("Div", {x, repaired ? maker.node("Add", {by, maker.number(1e-7)}) : by}, "", name);
}

Scaled product(Maker& maker, const Scaled& x, const std::string& weights, const std::string& gain,
               const std::string& layer, bool repaired) {
  const std::string first = maker.whole_numbers({0});
  const std::string largest = maker.node("ReduceMax", {x.scale}, "keepdims = 0");
  const std::string relative = divided(maker, x.scale, largest, "by_largest" + layer, repaired);
  const std::string y = maker.node("MatMul", {maker.node("Mul", {x.value, relative}), weights});
  const std::string sums = maker.node("ReduceSum", {maker.node("Abs", {weights}), first}, "keepdims = 1");
  const std::string z = divided(maker, y, sums, "by_sum" + layer, repaired);
  const std::string scale = divided(maker, maker.node("Mul", {largest, sums}), gain, "by_gain" + layer, repaired);
  return {.value = maker.clip(maker.node("Mul", {z, gain}), -1, 1), .scale = scale};
}

Scaled sum(Maker& maker, const Scaled& x, const std::string& bias, const std::string& layer, bool repaired) {
  const std::string half = maker.number(0.5);
  const std::string b = maker.node("Mul", {divided(maker, bias, x.scale, "by_scale" + layer, repaired), half});
  const std::string both = maker.node("Add", {maker.node("Mul", {x.value, half}), b});
  return {.value = maker.clip(maker.node("Mul", {both, maker.number(2)}), -1, 1), .scale = x.scale};
}

std::string punishment(Maker& maker, const Config& config) {
  std::string total;
  for (const char* weight : {"w1", "w2", "b1", "b2"}) {
    std::string term;
    if (config.wide_gains) {
      const std::string beyond = maker.node("Sub", {maker.node("Abs", {weight}), maker.number(1)});
      term = maker.node("Mul", {maker.number(0.5), maker.sum(maker.node("Max", {beyond, maker.number(0)}))});
    } else {
      term = maker.node("Mul", {maker.number(0.0006), maker.sum(maker.node("Mul", {weight, weight}))});
    }
    total = total.empty() ? term : maker.node("Add", {total, term});
  }
  return total;
}

Recipe scaled_network(const Config& config, const Build& build) {
  constexpr std::int64_t kIn = 784, kHidden = 128, kOut = 10;
  Maker maker(build.small ? 4 : 500);
  const std::string x = maker.images("x", {kIn});
  const std::string y = maker.one_hot_labels("y");
  const auto gain = [&](const char* name, std::int64_t units) {
    return maker.draw(name, {config.wide_gains ? units : 1}, begin::uniform(0, 16), {0, 16}, false);
  };
  const std::string g1 = gain("gain1", kHidden), g2 = gain("gain2", kOut);
  maker.weight("w1", {kIn, kHidden}, begin::normal(1));
  maker.weight("w2", {kHidden, kOut}, begin::normal(1));
  maker.weight("b1", {kHidden}, begin::normal(1));
  maker.weight("b2", {kOut}, begin::normal(1));
  const std::string ones = maker.node("Expand", {maker.number(1), maker.whole_numbers({1, kIn})});
  Scaled h = {.value = x, .scale = ones};
  h = sum(maker, product(maker, h, "w1", g1, "1", build.repaired), "b1", "1", build.repaired);
  h = sum(maker, product(maker, h, "w2", g2, "2", build.repaired), "b2", "2", build.repaired);
  const std::string log = maker.node("LogSoftmax", {maker.node("Mul", {h.value, h.scale})}, "axis = 1");
  const std::string loss = maker.node("Neg", {maker.mean(maker.row_sums(maker.node("Mul", {y, log})))});
  maker.loss(maker.node("Add", {loss, punishment(maker, config)}));
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = 0.1});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_scaled_network() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    const std::string node = config.by_gain ? "by_gain1" : "by_sum1";
    bugs.push_back({.id = config.id,
                    .family = "stochastic computing",
                    .op = "division",
                    .rule = "FN101",
                    .nodes = {node},
                    .repaired = {node},
                    .note = config.note,
                    .make = [&config](const Build& build) { return scaled_network(config, build); }});
  }
  return bugs;
}

}  // namespace finity
