// What an iteration of a search costs beside the same passes written by hand against LibTorch: training steps, and
// passes that derive the published suspect loss by the batch. Two programs of `finity bench grist`: 61 (a perceptron)
// and 24 (a convolutional network). Both sides take turns in one process and on one thread; the figure is the ratio
// of processor times, the median of several turns. Exit 1 when one is above the target.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "bench/grist.h"
#include "program/suspects.h"
#include "program/trainer.h"
#include "torch/training.h"
#include "torch/value.h"

namespace {

using namespace finity;

constexpr double kTarget = 1.3;
constexpr int kTurns = 9;

// The forward pass of one program, up to the probabilities.
using Forward = std::function<at::Tensor(const at::Tensor& x, const std::vector<at::Tensor>& w)>;

at::Tensor perceptron(const at::Tensor& x, const std::vector<at::Tensor>& w) {
  const at::Tensor h = at::relu(at::add(at::matmul(x, w[0]), w[1]));
  return at::softmax(at::add(at::matmul(h, w[2]), w[3]), 1);
}

at::Tensor convolutional(const at::Tensor& x, const std::vector<at::Tensor>& w) {
  const auto layer = [](const at::Tensor& h, const at::Tensor& kernel, const at::Tensor& bias) {
    return at::max_pool2d(at::relu(at::conv2d(h, kernel, bias, 1, 2)), {2, 2}, {2, 2});
  };
  at::Tensor h = at::reshape(x, {x.size(0), 1, 28, 28});
  h = layer(layer(h, w[0], w[1]), w[2], w[3]);
  h = at::relu(at::add(at::matmul(at::reshape(h, {x.size(0), 3136}), w[4]), w[5]));
  return at::softmax(at::add(at::matmul(h, w[6]), w[7]), 1);
}

// A search as somebody would write it for this one program.
class ByHand {
 public:
  ByHand(const Program& program, Forward forward) : optimiser_(program.optimiser), forward_(std::move(forward)) {}

  void start(const std::vector<Tensor>& weights) {
    weights_.clear();
    for (const Tensor& weight : weights) weights_.push_back(to_torch(weight).set_requires_grad(true));
    first_.assign(weights_.size(), {});
    second_.assign(weights_.size(), {});
    step_ = 0;
  }

  bool train(const Tensor& x, const Tensor& y) {
    const at::Tensor p = forward_(to_torch(x), weights_);
    const at::Tensor loss = at::neg(at::sum(at::sum(at::mul(to_torch(y), at::log(p)), {1})));
    if (!std::isfinite(loss.item<double>())) return false;
    const std::vector<at::Tensor> slopes = ::torch::autograd::grad({loss}, weights_);
    ++step_;
    const at::NoGradGuard forward_only;
    for (std::size_t i = 0; i < weights_.size(); ++i) update(i, slopes[i]);
    return true;
  }

  // The loss, the smallest probability, and its derivative by the batch.
  std::vector<Tensor> look(const Tensor& x, const Tensor& y) {
    for (at::Tensor& weight : weights_) weight.set_requires_grad(false);
    const at::Tensor batch = to_torch(x).set_requires_grad(true);
    const at::Tensor p = forward_(batch, weights_);
    const at::Tensor loss = at::neg(at::sum(at::sum(at::mul(to_torch(y), at::log(p)), {1})));
    const at::Tensor distance = at::min(p.to(at::kDouble));
    const at::Tensor slope = ::torch::autograd::grad({distance}, {batch}).front();
    for (at::Tensor& weight : weights_) weight.set_requires_grad(true);
    return {to_host(loss, DType::float32), to_host(distance, DType::float64), to_host(slope, DType::float32)};
  }

  Tensor weight(std::size_t i) const { return to_host(weights_[i], DType::float32); }

 private:
  void update(std::size_t i, const at::Tensor& slope) {
    if (!first_[i].defined()) {
      const bool adagrad = optimiser_.kind == Optimiser::Kind::adagrad;
      first_[i] = at::full_like(weights_[i], adagrad ? optimiser_.accumulator : 0.0);
      second_[i] = at::zeros_like(weights_[i]);
    }
    if (optimiser_.kind == Optimiser::Kind::adagrad) {
      first_[i].addcmul_(slope, slope);
      weights_[i].addcdiv_(slope, first_[i].sqrt().add_(optimiser_.epsilon), -optimiser_.rate);
      return;
    }
    const double t = step_;
    first_[i].mul_(optimiser_.beta1).add_(slope, 1 - optimiser_.beta1);
    second_[i].mul_(optimiser_.beta2).addcmul_(slope, slope, 1 - optimiser_.beta2);
    const double scale = std::sqrt(1 - std::pow(optimiser_.beta2, t));
    const at::Tensor root = second_[i].sqrt().div_(scale).add_(optimiser_.epsilon);
    weights_[i].addcdiv_(first_[i], root, -optimiser_.rate / (1 - std::pow(optimiser_.beta1, t)));
  }

  Optimiser optimiser_;
  Forward forward_;
  std::vector<at::Tensor> weights_, first_, second_;
  int step_ = 0;
};

double seconds_of(int times, const std::function<void()>& f) {
  const Stopwatch watch;
  for (int i = 0; i < times; ++i) f();
  return watch.seconds(ClockKind::processor) / times;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

// Both sides in turns; true when the ratio is within the target.
bool compare(const char* what, int times, const std::function<void()>& ours, const std::function<void()>& by_hand) {
  std::vector<double> ratios, own, other;
  for (int turn = 0; turn < kTurns; ++turn) {
    own.push_back(seconds_of(times, ours));
    other.push_back(seconds_of(times, by_hand));
    ratios.push_back(own.back() / other.back());
  }
  const double ratio = median(ratios);
  std::printf("%-28s finity %9.1f us  by hand %9.1f us  ratio %.2f  %s\n", what, 1e6 * median(own), 1e6 * median(other),
              ratio, ratio <= kTarget ? "ok" : "ABOVE THE TARGET");
  return ratio <= kTarget;
}

// Both sides must compute the same, or the comparison says nothing.
void require_near(const Tensor& ours, const Tensor& by_hand, const std::string& what) {
  const at::Tensor a = to_torch(ours).to(at::kDouble), b = to_torch(by_hand).to(at::kDouble);
  const double scale = at::max(at::abs(b)).item<double>(), apart = at::max(at::abs(at::sub(a, b))).item<double>();
  if (!(apart <= 1e-3 * scale))
    throw Error(what + " differs: " + std::to_string(apart) + " of " + std::to_string(scale));
}

bool measure(const std::string& id, Forward forward, int times) {
  const GristBug* bug = find_grist_bug(id);
  if (bug == nullptr) throw Error("there is no bug '" + id + "'");
  const Prepared prepared = prepare(program_of(bug->make({}), load_digits(""), "program " + id), {"log"});
  const Program& program = prepared.program;
  const auto engine = make_torch_training(program);
  Trainer trainer(program, *engine, 1);
  trainer.restart();
  trainer.fresh_batch();
  const Tensor x = trainer.value(0), y = trainer.value(1);
  ByHand by_hand(program, std::move(forward));
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < program.weights.size(); ++i) weights.push_back(engine->weight(i));
  by_hand.start(weights);
  ValueId distance;
  for (std::size_t i = 0; i < program.graph->values().size(); ++i) {
    if (program.graph->values()[i].name == prepared.suspects.front().distance) distance = {static_cast<int>(i)};
  }
  const std::size_t pass = engine->add_pass(
      {.read = {program.watch_ids.front(), distance}, .derived = distance, .by = {program.inputs[0].id}});
  const auto look = [&] {
    trainer.set_value(0, x);
    return trainer.look(pass);
  };
  const PassResult ours = look();
  const std::vector<Tensor> same = by_hand.look(x, y);
  require_near(ours.values[0], same[0], "the loss");
  require_near(ours.values[1], same[1], "the distance");
  require_near(ours.gradients[0], same[2], "the derivative");
  trainer.train();
  by_hand.train(x, y);
  for (std::size_t i = 0; i < weights.size(); ++i) require_near(engine->weight(i), by_hand.weight(i), "a weight");
  const bool steps =
      compare((id + ", training step").c_str(), times, [&] { trainer.train(); }, [&] { by_hand.train(x, y); });
  const bool passes = compare((id + ", pass of a search").c_str(), times, [&] { look(); }, [&] { by_hand.look(x, y); });
  return steps && passes;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  try {
    const bool first = measure("61", perceptron, 60), second = measure("24", convolutional, 3);
    return first && second ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
