// Restricted Boltzmann machines (group D): the free energy takes log(1 + exp(w)) without a bound on w.
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

struct Config {
  const char* id;
  Optimiser::Kind kind;
  double rate;
  const char* note;
};
constexpr const char* kGrey =
    "grey images in every strategy, as in GRIST's copy; plain training drew black and white ones";
constexpr Config kConfigs[] = {
    {"22", Optimiser::Kind::sgd, 0.1, kGrey},
    {"51", Optimiser::Kind::sgd, 0.1, kGrey},
    {"62", Optimiser::Kind::adam, 0.005, "digits in place of pictures of clothes"},
    {"63", Optimiser::Kind::adam, 0.005, ""},
};

constexpr std::int64_t kVisible = 784, kHidden = 500;

// 1 where the probability is above a uniform draw.
std::string sampled(Maker& maker, const std::string& probability, const std::string& draw) {
  return maker.relu(maker.node("Sign", {maker.node("Sub", {probability, draw})}));
}

std::string hidden_of(Maker& maker, const std::string& v) {
  const std::string transposed = maker.node("Transpose", {"w"}, "perm = [1, 0]");
  return maker.node("Add", {maker.node("MatMul", {v, transposed}), "hidden_b"});
}

std::string free_energy(Maker& maker, const std::string& v, const std::string& exp, bool repaired) {
  std::string w = hidden_of(maker, v);
  if (repaired) w = maker.node("Min", {w, maker.number(87)});
  const std::string e = maker.node("Exp", {w}, "", exp);
  const std::string terms = maker.row_sums(maker.node("Log", {maker.node("Add", {maker.number(1), e})}));
  const std::string column = maker.reshape("visible_b", {kVisible, 1});
  const std::string linear = maker.reshape(maker.node("MatMul", {v, column}), {maker.batch()});
  return maker.mean(maker.node("Sub", {maker.node("Neg", {terms}), linear}));
}

Recipe machine(const Config& config, const Build& build) {
  const std::int64_t batch = build.small ? 4 : 64;
  Maker maker(batch);
  const std::string v = maker.images("x", {kVisible});
  // Draws are below 1.
  const LegalRange unit = {0, 0.99999994};
  const std::string u1 = maker.draw("draw_hidden", {batch, kHidden}, begin::uniform(0, 1), unit, true);
  const std::string u2 = maker.draw("draw_visible", {batch, kVisible}, begin::uniform(0, 1), unit, true);
  maker.weight("w", {kHidden, kVisible}, begin::normal(0.01));
  maker.weight("visible_b", {kVisible}, begin::zeros);
  maker.weight("hidden_b", {kHidden}, begin::zeros);
  const std::string h = sampled(maker, maker.sigmoid(hidden_of(maker, v)), u1);
  const std::string back = maker.node("Add", {maker.node("MatMul", {h, "w"}), "visible_b"});
  const std::string again = sampled(maker, maker.sigmoid(back), u2);
  const std::string given = free_energy(maker, v, "exp_given", build.repaired);
  maker.loss(maker.node("Sub", {given, free_energy(maker, again, "exp_again", build.repaired)}));
  maker.optimiser({.kind = config.kind, .rate = config.rate});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_boltzmann_machines() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    bugs.push_back({.id = config.id,
                    .family = "Boltzmann machine",
                    .op = "exp",
                    .rule = "FN201",
                    .nodes = {"exp_given", "exp_again"},
                    .repaired = {"exp_given", "exp_again"},
                    .note = config.note,
                    .make = [&config](const Build& build) { return machine(config, build); }});
  }
  return bugs;
}

}  // namespace finity
