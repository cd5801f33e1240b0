// Number 31: a generator of digits and a discriminator, trained in turn. Two of the three logarithms are guarded.
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr std::int64_t kNoise = 100, kPixels = 784;
constexpr double kKeep = 0.3;
const Init kInit = {begin::truncated(0.02), begin::zeros};

struct Layer {
  const char* name;
  std::int64_t in, out;
};
constexpr Layer kJudging[] = {{"judge1", kPixels, 1024}, {"judge2", 1024, 512}, {"judge3", 512, 256}};

std::string generated(Maker& maker, const std::string& noise) {
  constexpr Layer kLayers[] = {{"make1", kNoise, 256}, {"make2", 256, 512}, {"make3", 512, 1024}};
  maker.trained_on("generator_loss");
  std::string h = noise;
  for (const Layer& layer : kLayers) h = maker.relu(maker.dense(h, layer.in, layer.out, layer.name, kInit));
  h = maker.node("Tanh", {maker.dense(h, 1024, kPixels, "make4", kInit)});
  maker.trained_on("");
  return h;
}

// How real images look; `first`: the weights are made here.
std::string judged(Maker& maker, std::string h, const std::string& which, bool first) {
  for (const Layer& layer : kJudging) {
    const std::string linear =
        first ? maker.dense(h, layer.in, layer.out, layer.name, kInit) : maker.dense_again(h, layer.name);
    h = maker.dropout(maker.relu(linear), which + "_" + layer.name, {layer.out}, kKeep);
  }
  return maker.sigmoid(first ? maker.dense(h, 256, 1, "judge4", kInit) : maker.dense_again(h, "judge4"));
}

Recipe adversarial(const Build& build) {
  Maker maker(build.small ? 2 : 100);
  const std::string x = maker.images("x", {kPixels}, -1, 1);
  const std::string z = maker.draw("z", {maker.batch(), kNoise}, begin::normal(1), kNormalDraws, true);
  const std::string real = judged(maker, x, "real", true);
  const std::string fake = judged(maker, generated(maker, z), "fake", false);
  const std::string guard = maker.number(1e-8), one = maker.number(1);
  const std::string safe_real = build.repaired ? maker.node("Add", {real, guard}) : real;
  const std::string log_real = maker.node("Log", {safe_real}, "", "log_real");
  const std::string unlike = maker.node("Add", {maker.node("Sub", {one, fake}), guard});
  const std::string log_fake = maker.node("Log", {unlike}, "", "log_fake");
  maker.loss(maker.node("Neg", {maker.mean(maker.node("Add", {log_real, log_fake}))}));
  const std::string log_like = maker.node("Log", {maker.node("Add", {fake, guard})}, "", "log_like");
  maker.output(maker.node("Neg", {maker.mean(log_like)}), "generator_loss");
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = 0.0002});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_adversarial() {
  return {{.id = "31",
           .family = "adversarial",
           .op = "log",
           .rule = "FN102",
           .nodes = {"log_real"},
           .repaired = {"log_real", "log_fake", "log_like"},
           .make = adversarial}};
}

}  // namespace finity
