#include "fuzz/backend.h"

#include <algorithm>

#include "base/error.h"
#include "formats/onnx/onnx.h"

namespace finity::fuzz {

namespace {

constexpr double kSecondsPerRequest = 10;
constexpr int kMoreTries = 4;

template <typename Ask>
Answer asked(const Ask& ask) {
  for (int i = 0;; ++i) {
    try {
      Answer answer = ask();
      const bool crashed = answer.outcome == Answer::Outcome::crashed;
      // What has not yet looked at the model is slow for other reasons.
      const bool slow = answer.outcome == Answer::Outcome::late && answer.stage == Stage::start;
      const bool outside = slow || (crashed && ended_from_outside(answer.text));
      if (!outside || i == kMoreTries) return answer;
    } catch (const Error& error) {  // also while it was starting
      if (!ended_from_outside(error.what()) || i == kMoreTries) throw;
    }
  }
}

BackendSpec spec_of(const BackendName& name) {
  return {.family = std::string(name.kind->name), .version = name.version};
}

}  // namespace

bool ended_from_outside(std::string_view text) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"by signal 9 ", "by signal 15 "},
                             [&](std::string_view words) { return text.find(words) != std::string_view::npos; });
}

std::vector<BackendSpec> parse_specs(std::string_view text) {
  std::vector<BackendSpec> specs;
  for (const BackendName& name : parse_backends(text)) {
    specs.push_back(spec_of(name));
    // Which version it is belongs to the campaign: with another one it would be another campaign.
    const bool several = !name.kind->install.empty();
    const std::vector<BackendSpec> all =
        several && name.version.empty() ? installed_versions(name.kind->name) : std::vector<BackendSpec>();
    if (!all.empty()) specs.back() = all.back();
  }
  if (specs.empty()) throw Error("no backend is named, such as torch or ort@1.30.0");
  return specs;
}

std::vector<BackendSpec> installed_versions(std::string_view family) {
  std::vector<BackendSpec> specs;
  for (const BackendName& name : installed_backends()) {
    if (name.kind->name == family) specs.push_back(spec_of(name));
  }
  std::ranges::sort(specs, [](const BackendSpec& a, const BackendSpec& b) { return older(a.version, b.version); });
  return specs;
}

Backend::Backend(BackendSpec spec)
    : spec_(std::move(spec)), backend_(open_backend(spec_.text(), {.seconds = kSecondsPerRequest})) {}

void Backend::restart() {
  const BackendName name = parse_backend(spec_.text());
  WorkerOptions options{.command = backend_.command(), .seconds = kSecondsPerRequest};
  if (!name.kind->runner.empty()) options.memory_bytes = 0;  // such as node, which reserves more than there is
  backend_ = finity::Backend(name, std::move(options));
}

Answer Backend::run(const Sample& sample, Optimisation level, bool exposed) {
  const Graph model = graph(sample, exposed);
  Request request{.model = write_onnx(model), .level = level};
  for (const auto& [name, tensor] : sample.inputs) request.run.inputs.emplace_back(name, tensor);
  for (const ValueId id : model.main().outputs) request.run.outputs.push_back(model.value(id).name);
  return asked([&] { return worker().run(request); });
}

Answer Backend::derive(const Sample& sample, const std::string& output, const std::vector<std::string>& names) {
  DerivativeRequest request{.model = write_onnx(graph(sample))};
  for (const auto& [name, tensor] : sample.inputs) request.gradient.inputs.emplace_back(name, tensor);
  request.gradient.output = output;
  request.gradient.names = names;
  return asked([&] { return worker().gradient(request); });
}

std::string Backend::script(const Sample& sample) {
  LongRequest request{.model = write_onnx(graph(sample)), .task = {.text = "trace"}, .seconds = kSecondsPerRequest};
  for (const auto& [name, tensor] : sample.inputs) request.task.data.emplace_back(name, tensor);
  const Answer answer = asked([&] { return worker().task(request); });
  return answer.done() ? answer.words : std::string();
}

Datum find(const NamedData& data, std::string_view name) {
  for (const auto& [key, datum] : data) {
    if (key == name) return datum;
  }
  return {};
}

}  // namespace finity::fuzz
