// Variational auto-encoders (group C). The a-variants guard a logarithm with a number that 1 absorbs; the b-variants
// take the root of exp(s), whose derivative is infinite where exp(s) is flushed to zero.
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

struct Config {
  const char* id;
  std::int64_t latent;
  bool conditional;  // the labels are inputs of both halves
  bool root;         // the b-variant
};
constexpr Config kConfigs[] = {{"35a", 20, false, false}, {"36a", 2, false, false}, {"39a", 2, false, false},
                               {"43a", 2, true, false},   {"49a", 2, true, false},  {"35b", 2, false, true},
                               {"36b", 2, false, true},   {"39b", 2, false, true},  {"43b", 2, true, true},
                               {"49b", 2, true, true}};

constexpr std::int64_t kPixels = 784, kHidden = 500, kClasses = 10;
const Init kInit = {begin::xavier, begin::zeros};

struct Latent {
  std::string mean = {}, log_variance = {};
};

Latent encode(Maker& maker, const Config& config, const std::string& x, const std::string& y) {
  const std::string in = config.conditional ? maker.node("Concat", {x, y}, "axis = 1") : x;
  std::string h = maker.dense(in, config.conditional ? kPixels + kClasses : kPixels, kHidden, "encode1", kInit);
  h = maker.node("Softplus", {h});
  h = maker.node("Softplus", {maker.dense(h, kHidden, kHidden, "encode2", kInit)});
  const std::string mean = maker.dense(h, kHidden, config.latent, "mean", kInit);
  const std::string s = maker.dense(h, kHidden, config.latent, "spread", kInit);
  return {.mean = mean, .log_variance = maker.clip(s, config.root ? -100 : -87, 87)};
}

std::string decode(Maker& maker, const Config& config, const std::string& z, const std::string& y) {
  const std::string in = config.conditional ? maker.node("Concat", {z, y}, "axis = 1") : z;
  const std::int64_t width = config.latent + (config.conditional ? kClasses : 0);
  std::string h = maker.node("Softplus", {maker.dense(in, width, kHidden, "decode1", kInit)});
  h = maker.node("Softplus", {maker.dense(h, kHidden, kHidden, "decode2", kInit)});
  return maker.sigmoid(maker.dense(h, kHidden, kPixels, "decode3", kInit));
}

// log m and log (1 - m), guarded as the variant does it.
std::string reconstruction(Maker& maker, const Config& config, const Build& build, const std::string& x,
                           const std::string& m) {
  const std::string one = maker.number(1);
  std::string first, second;
  if (config.root) {
    constexpr double kGuard = 1e-6;
    first = maker.clip(m, kGuard, 1);
    second = maker.clip(maker.node("Sub", {one, m}), kGuard, 1);
  } else {
    const std::string guard = maker.number(build.repaired ? 1e-7 : 1e-10);
    first = maker.node("Add", {m, guard});
    second = maker.node("Sub", {maker.node("Add", {guard, one}), m});
  }
  const std::string white = maker.node("Mul", {x, maker.node("Log", {first}, "", "log_white")});
  const std::string black =
      maker.node("Mul", {maker.node("Sub", {one, x}), maker.node("Log", {second}, "", "log_black")});
  return maker.node("Neg", {maker.row_sums(maker.node("Add", {white, black}))});
}

std::string divergence(Maker& maker, const Latent& latent, const std::string& variance) {
  const std::string first = maker.node("Add", {maker.number(1), latent.log_variance});
  const std::string second = maker.node("Sub", {first, maker.node("Mul", {latent.mean, latent.mean})});
  return maker.node("Mul", {maker.number(-0.5), maker.row_sums(maker.node("Sub", {second, variance}))});
}

Recipe autoencoder(const Config& config, const Build& build) {
  const std::int64_t batch = build.small ? 4 : 100;
  Maker maker(batch);
  const std::string x = maker.images("x", {kPixels});
  const std::string y = config.conditional ? maker.one_hot_labels("y") : "";
  const std::string eps = maker.draw("eps", {batch, config.latent}, begin::normal(1), kNormalDraws, true);
  const Latent latent = encode(maker, config, x, y);
  const std::string variance = maker.node("Exp", {latent.log_variance}, "", "exp");
  const bool half = config.root && build.repaired;
  const std::string deviation =
      half ? maker.node("Exp", {maker.node("Mul", {latent.log_variance, maker.number(0.5)})}, "", "root")
           : maker.node("Sqrt", {variance}, "", "root");
  const std::string z = maker.node("Add", {latent.mean, maker.node("Mul", {deviation, eps})});
  const std::string m = decode(maker, config, z, y);
  const std::string loss = reconstruction(maker, config, build, x, m);
  maker.loss(maker.mean(maker.node("Add", {loss, divergence(maker, latent, variance)})));
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = 0.001});
  if (config.root) maker.flush_subnormals();
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_autoencoders() {
  GristBugs bugs;
  for (const Config& config : kConfigs) {
    GristBug bug = {.id = config.id,
                    .family = config.conditional ? "conditional auto-encoder" : "auto-encoder",
                    .op = "log",
                    .rule = "FN102",
                    .nodes = {"log_black"},
                    .repaired = {"log_black", "log_white"},
                    .make = [&config](const Build& build) { return autoencoder(config, build); }};
    if (config.root) {
      bug.op = "sqrt";
      bug.rule = "FN101";
      bug.nodes = {"root"};
      bug.repaired = {"root"};
      bug.derivative = true;
      bug.note = "not trained in advance";
    }
    bugs.push_back(std::move(bug));
  }
  return bugs;
}

}  // namespace finity
