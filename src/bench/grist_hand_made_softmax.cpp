// Perceptrons that compute their softmax and its cross-entropy by hand (group I): exponentials without subtracting the
// largest, a division by their sum, a logarithm. Each variant guards all but one of the three.
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

enum class Variant : std::uint8_t { exp, log, division };

struct Config {
  const char* id;
  Variant variant;
  bool clamped_logits;  // number 16 bounds them from above, and takes absolute values
  const char* rule;
  const char* op;
  const char* node;
  const char* note = "";
};

constexpr const char* kLetter = "which of the three the paper's letter means is not recorded";
constexpr Config kConfigs[] = {{"11a", Variant::exp, false, "FN201", "exp", "exp_all", kLetter},
                               {"11b", Variant::log, false, "FN102", "log", "log", kLetter},
                               {"11c", Variant::division, false, "FN101", "division", "quotient", kLetter},
                               {"16a", Variant::exp, true, "FN201", "exp", "exp_all"},
                               {"16b", Variant::log, true, "FN102", "log", "log"},
                               {"16c", Variant::division, true, "FN101", "division", "quotient"}};

std::string logits_of(Maker& maker, const std::string& x) {
  const Init init = {begin::uniform(-0.25, 0.25), begin::zeros};
  std::string h = maker.relu(maker.dense(x, 784, 200, "first", init));
  h = maker.relu(maker.dense(h, 200, 100, "second", init));
  return maker.dense(h, 100, 10, "last", init);
}

// exp(u) / sum exp(u), with the numerator bounded where the variant does so.
std::string quotient(Maker& maker, const std::string& u, const std::string& numerator_of) {
  const std::string all = maker.node("Exp", {u}, "", "exp_all");
  const std::string below = maker.node("ReduceSum", {all, maker.whole_numbers({1})}, "keepdims = 1");
  const std::string above = numerator_of == u ? all : maker.node("Exp", {numerator_of}, "", "exp_one");
  return maker.node("Div", {above, below}, "", "quotient");
}

// What the logarithm is taken of.
std::string operand_of_log(Maker& maker, const Config& config, const std::string& logits) {
  constexpr double kLargest = 87;
  const bool bounded = config.clamped_logits && config.variant != Variant::exp;
  const std::string u = bounded ? maker.node("Min", {logits, maker.number(kLargest)}) : logits;
  const bool own_numerator = !bounded && config.variant != Variant::log;
  std::string q = quotient(maker, u, own_numerator ? maker.clip(u, -kLargest, kLargest) : u);
  if (config.clamped_logits) q = maker.node("Abs", {q});
  if (config.variant == Variant::log) return q;
  if (config.variant == Variant::division && config.clamped_logits) {
    return maker.node("Add", {q, maker.number(1e-6)});
  }
  return maker.clip(q, 1e-6, 1);
}

Recipe hand_made(const Config& config, const Build& build) {
  Maker maker(build.small ? 4 : 100);
  const std::string x = maker.images("x", {784}, -1, 1);
  const std::string y = maker.one_hot_labels("y");
  std::string u = logits_of(maker, x);
  std::string log;
  if (build.repaired) {
    u = maker.node("Sub", {u, maker.node("ReduceMax", {u, maker.whole_numbers({1})}, "keepdims = 1")});
    log = maker.node("Log", {maker.clip(quotient(maker, u, u), 1e-10, 1)}, "", "log");
  } else {
    log = maker.node("Log", {operand_of_log(maker, config, u)}, "", "log");
  }
  maker.loss(maker.node("Neg", {maker.mean(maker.row_sums(maker.node("Mul", {y, log})))}));
  maker.optimiser({.kind = Optimiser::Kind::sgd, .rate = 0.01});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_hand_made_softmax() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    bugs.push_back({.id = config.id,
                    .family = "perceptron, softmax by hand",
                    .op = config.op,
                    .rule = config.rule,
                    .nodes = {config.node},
                    .repaired = {"exp_all", "quotient", "log"},
                    .note = config.note,
                    .make = [&config](const Build& build) { return hand_made(config, build); }});
  }
  return bugs;
}

}  // namespace finity
