#include "muffin/losses.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace finity::muffin {

namespace {

constexpr double kTiny = 1e-7;

constexpr std::array<std::string_view, 13> kLosses = {"mean_squared_error",
                                                      "mean_absolute_error",
                                                      "mean_absolute_percentage_error",
                                                      "mean_squared_logarithmic_error",
                                                      "squared_hinge",
                                                      "categorical_hinge",
                                                      "logcosh",
                                                      "huber",
                                                      "categorical_crossentropy",
                                                      "binary_crossentropy",
                                                      "kullback_leibler_divergence",
                                                      "poisson",
                                                      "cosine_proximity"};
constexpr std::array<std::string_view, 7> kOptimisers = {"sgd",  "rmsprop", "adagrad", "adadelta",
                                                         "adam", "adamax",  "nadam"};

// Writes formulas: short names for what they are made of.
class Formula {
 public:
  explicit Formula(Net& net) : net_(net) {}

  ValueId number(double x) { return net_.number(x); }
  ValueId add(ValueId a, ValueId b) { return net_.add("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return net_.add("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return net_.add("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return net_.add("Div", {a, b}); }
  ValueId max(ValueId a, double b) { return net_.add("Max", {a, number(b)}); }
  ValueId of(const char* op, ValueId a) { return net_.add(op, {a}); }
  ValueId square(ValueId a) { return mul(a, a); }
  ValueId clip(ValueId a, double low, double high) { return net_.add("Clip", {a, number(low), number(high)}); }
  // Over the last axis, which stays as 1.
  ValueId row_sum(ValueId a) { return net_.sum(a, {net_.rank(a) - 1}, true); }
  ValueId row_max(ValueId a) {
    return net_.add("ReduceMax", {a, net_.ints({net_.rank(a) - 1})}, {{"keepdims", std::int64_t{1}}});
  }
  ValueId mean(ValueId a) { return net_.add("ReduceMean", {a}, {{"keepdims", std::int64_t{0}}}); }
  ValueId unit_rows(ValueId a) { return div(a, of("Sqrt", max(row_sum(square(a)), 1e-12))); }

 private:
  Net& net_;
};

ValueId distance_loss(Formula& f, std::string_view name, ValueId p, ValueId y) {
  const ValueId error = f.sub(p, y);
  if (name == "mean_squared_error") return f.square(error);
  if (name == "mean_absolute_error") return f.of("Abs", error);
  if (name == "mean_absolute_percentage_error")
    return f.mul(f.number(100), f.div(f.of("Abs", error), f.max(f.of("Abs", y), kTiny)));
  if (name == "logcosh") {
    const ValueId soft = f.of("Softplus", f.mul(f.number(-2), error));
    return f.sub(f.add(error, soft), f.number(std::log(2.0)));
  }
  // Huber: quadratic up to 1, linear beyond.
  const ValueId size = f.of("Abs", error), small = f.clip(size, 0, 1);
  return f.add(f.mul(f.number(0.5), f.square(small)), f.sub(size, small));
}

ValueId hinge_loss(Formula& f, std::string_view name, ValueId p, ValueId y) {
  if (name == "squared_hinge") return f.square(f.of("Relu", f.sub(f.number(1), f.mul(y, p))));
  const ValueId right = f.row_sum(f.mul(y, p));
  const ValueId wrong = f.row_max(f.mul(f.sub(f.number(1), y), p));
  return f.of("Relu", f.add(f.sub(wrong, right), f.number(1)));
}

ValueId entropy_loss(Formula& f, std::string_view name, ValueId p, ValueId y) {
  if (name == "categorical_crossentropy") {
    const ValueId share = f.clip(f.div(p, f.row_sum(p)), kTiny, 1 - kTiny);
    return f.of("Neg", f.row_sum(f.mul(y, f.of("Log", share))));
  }
  if (name == "binary_crossentropy") {
    const ValueId sure = f.clip(p, kTiny, 1 - kTiny);
    const ValueId hit = f.mul(y, f.of("Log", sure));
    const ValueId miss = f.mul(f.sub(f.number(1), y), f.of("Log", f.sub(f.number(1), sure)));
    return f.of("Neg", f.add(hit, miss));
  }
  if (name == "kullback_leibler_divergence") {
    const ValueId target = f.clip(y, kTiny, 1), guess = f.clip(p, kTiny, 1);
    return f.row_sum(f.mul(target, f.of("Log", f.div(target, guess))));
  }
  return f.sub(p, f.mul(y, f.of("Log", f.add(p, f.number(kTiny)))));  // poisson
}

}  // namespace

std::span<const std::string_view> loss_names() { return kLosses; }
std::span<const std::string_view> optimiser_names() { return kOptimisers; }

ValueId add_loss(Net& net, std::string_view name, ValueId p, ValueId y) {
  Formula f(net);
  if (name == "mean_squared_logarithmic_error") {
    const auto log1 = [&](ValueId x) { return f.of("Log", f.add(f.max(x, kTiny), f.number(1))); };
    return f.mean(f.square(f.sub(log1(p), log1(y))));
  }
  if (name == "cosine_proximity") return f.of("Neg", f.mean(f.row_sum(f.mul(f.unit_rows(p), f.unit_rows(y)))));
  if (name.ends_with("hinge")) return f.mean(hinge_loss(f, name, p, y));
  if (name.ends_with("entropy") || name == "poisson" || name.ends_with("divergence"))
    return f.mean(entropy_loss(f, name, p, y));
  if (std::ranges::find(kLosses, name) == kLosses.end()) throw Error("there is no loss '" + std::string(name) + "'");
  return f.mean(distance_loss(f, name, p, y));
}

bool wants_probabilities(std::string_view loss) {
  return loss.ends_with("entropy") || loss.ends_with("divergence") || loss == "poisson" ||
         loss == "mean_squared_logarithmic_error";
}

Tensor draw_target(std::string_view loss, const Dims& dims, bool safe, Rng& rng) {
  const std::int64_t classes = dims.back();
  std::vector<float> values(static_cast<std::size_t>(element_count(dims)));
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t place = i % static_cast<std::size_t>(classes);
    if (place == 0) chosen = rng.below(static_cast<std::uint64_t>(classes));
    const bool hit = place == chosen;
    const bool categorical = loss == "categorical_crossentropy" || loss == "categorical_hinge";
    if (classes == 1) values[i] = static_cast<float>(rng.uniform(0.1, 1));
    else if (!safe || categorical) values[i] = hit ? 1.0F : 0.0F;
    else if (loss == "squared_hinge") values[i] = hit ? 1.0F : -1.0F;
    else values[i] = static_cast<float>(rng.uniform(0.1, 1));
  }
  return Tensor::of<float>(DType::float32, dims, values);
}

// Moments start at zero, so after one step they are the gradient and its square, up to a factor.
ValueId add_step(Net& net, std::string_view optimiser, ValueId w, ValueId g) {
  Formula f(net);
  const auto moved = [&](double rate, ValueId by) { return f.sub(w, f.mul(f.number(rate), by)); };
  const auto over_root = [&](ValueId above, ValueId square) {
    return f.div(above, f.add(f.of("Sqrt", square), f.number(kTiny)));
  };
  const ValueId square = f.square(g);
  if (optimiser == "sgd") return moved(0.01, g);
  if (optimiser == "rmsprop") return moved(0.001, over_root(g, f.mul(f.number(0.1), square)));
  if (optimiser == "adagrad") return moved(0.01, over_root(g, square));
  if (optimiser == "adadelta") {
    const ValueId slow = f.add(f.mul(f.number(0.05), square), f.number(kTiny));
    return moved(1.0, f.div(f.mul(g, f.number(std::sqrt(kTiny))), f.of("Sqrt", slow)));
  }
  const double first = 0.1, second = 0.001, rate = 0.002;
  if (optimiser == "adam") {
    const ValueId mean = f.mul(f.number(first), g);
    return moved(0.001 * std::sqrt(second) / first, over_root(mean, f.mul(f.number(second), square)));
  }
  if (optimiser == "adamax")
    return moved(rate / first, f.div(f.mul(f.number(first), g), f.add(f.of("Abs", g), f.number(kTiny))));
  if (optimiser != "nadam") throw Error("there is no optimiser '" + std::string(optimiser) + "'");
  // Keras' schedule of the momentum at its first two steps.
  const double now = 0.9 * (1 - 0.5 * std::pow(0.96, 0.004)), next = 0.9 * (1 - 0.5 * std::pow(0.96, 0.008));
  return moved(rate, over_root(f.mul(f.number(1 + next * first / (1 - now * next)), g), square));
}

}  // namespace finity::muffin
