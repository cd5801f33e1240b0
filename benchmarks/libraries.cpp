// How many small models a second of processor time goes through in libraries, finity's side and the worker's together,
// its start left out. ONNX Runtime: loading a model and running it twice; TensorFlow.js: the forward pass in a worker
// that is warm; LibTorch: a step of training (a convolutional network of five layers and four images, read anew, its
// loss, the derivatives by all weights, and Adam). Exit 1 when one is below its target; what is not installed is said.
#include <sys/resource.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/onnx/onnx.h"
#include "fuzz/backend.h"
#include "fuzz/backward.h"
#include "fuzz/generate.h"
#include "types/graph_writer.h"

namespace {

using namespace finity;
using namespace finity::fuzz;

constexpr std::uint64_t kSeed = 3;
constexpr int kWarm = 30;

double used(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Processor seconds of asking; the worker's are known when it has ended.
double cost(const std::string& backend, const std::function<void(fuzz::Backend&)>& ask) {
  const double children = used(RUSAGE_CHILDREN), self = used(RUSAGE_SELF);
  {
    fuzz::Backend library(parse_specs(backend).front());
    library.worker().hello();
    ask(library);
  }
  return used(RUSAGE_CHILDREN) - children + used(RUSAGE_SELF) - self;
}

// How often `one` was done per second, beyond the first few.
double rate(const std::string& backend, int times, const std::function<void(fuzz::Backend&, int)>& one) {
  const auto asked = [&](int count) {
    return cost(backend, [&](fuzz::Backend& library) {
      for (int i = 0; i < count; ++i) one(library, i);
    });
  };
  const double start = asked(kWarm);
  return times / (asked(kWarm + times) - start);
}

// Samples that the library runs, in order.
std::vector<Sample> that_run(const std::string& backend, std::size_t count) {
  fuzz::Backend library(parse_specs(backend).front());
  std::vector<Sample> samples;
  for (std::uint64_t i = 0; samples.size() < count; ++i) {
    Generated one = generate(kSeed, i, {.invalid = false});
    if (one.sample.steps.empty() || !library.run(one.sample, Optimisation::none, false).done()) continue;
    samples.push_back(std::move(one.sample));
  }
  return samples;
}

bool report(const char* what, double rate, double target) {
  std::printf("%-50s %7.0f per second  target %4.0f  %s\n", what, rate, target, rate >= target ? "ok" : "BELOW");
  return rate >= target;
}

bool measure_runs(const std::string& backend, const char* what, int runs, double target) {
  constexpr int kModels = 600;
  const std::vector<Sample> samples = that_run(backend, kWarm + kModels);
  const double found = rate(backend, kModels, [&](fuzz::Backend& library, int i) {
    for (int k = 0; k < runs; ++k) library.run(samples[static_cast<std::size_t>(i)], Optimisation::none, false);
  });
  return report((parse_specs(backend).front().text() + ", " + what).c_str(), found, target);
}

Attrs with(std::string name, Attr value) {
  Attrs attrs;
  attrs.set(std::move(name), std::move(value));
  return attrs;
}

Sample network() {
  using Ints = std::vector<std::int64_t>;
  Rng rng(kSeed);
  Grower grower(rng, GraphWriter::kOpset, "network");
  const auto weights = [&](Dims dims) {
    return grower.add_constant(grower.draw(DType::float32, dims, ValueClass::normal));
  };
  std::string x = grower.add_input(grower.draw(DType::float32, {4, 1, 8, 8}, ValueClass::normal));
  x = grower.add("Conv", {x, weights({4, 1, 3, 3})}, with("pads", Ints{1, 1, 1, 1})).front();
  x = grower.add("Relu", {x}).front();
  Attrs pool = with("kernel_shape", Ints{2, 2});
  pool.set("strides", Ints{2, 2});
  x = grower.add("MaxPool", {x}, pool).front();
  x = grower.add("Flatten", {x}).front();
  grower.add("LogSoftmax", {grower.add("Gemm", {x, weights({64, 10})}).front()});
  return std::move(grower).finish();
}

bool measure_training() {
  const std::optional<Backward> backward = with_backward(network());
  if (!backward) throw Error("the network has no backward pass");
  Sample forward = backward->sample;
  forward.outputs = {backward->loss};
  drop_unneeded(forward);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : forward.constants) {
    if (is_float(tensor.dtype()) && tensor.rank() > 1) names.push_back(name);
  }
  const double found = rate("torch", 2000, [&](fuzz::Backend& library, int) {
    const Answer answer = library.derive(forward, backward->loss, names);
    if (!answer.done()) throw Error("LibTorch does not derive the network: " + answer.text);
    LongRequest request{.model = write_onnx(graph(forward)), .task = {.text = "optimiser adam"}};
    for (const std::string& name : names) {
      request.task.data.emplace_back(name, forward.constants.at(name));
      request.task.data.emplace_back("gradient", find(answer.gradients, name));
    }
    const Answer step = library.worker().task(request);
    if (!step.done()) throw Error("LibTorch takes no step: " + step.text);
  });
  return report("torch, steps of training", found, 500);
}

bool measured(const std::function<bool()>& measure) {
  try {
    return measure();
  } catch (const NotInstalled& missing) {
    std::printf("%s\n", missing.what());
    return true;
  }
}

}  // namespace

int main() {
  try {
    const bool loads = measured([] { return measure_runs("ort", "load and two runs", 2, 200); });
    const bool forward = measured([] { return measure_runs("tfjs-cpu", "forward in a warm worker", 1, 30); });
    const bool trains = measured(measure_training);
    return loads && forward && trains ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
