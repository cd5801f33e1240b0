#include "fuzz/takes.h"

#include <algorithm>

#include "backends/probe.h"
#include "base/error.h"
#include "tensor/convert.h"

namespace finity::fuzz {

int newest_opset(Backend& backend, int most) {
  constexpr int kOldest = 9;
  Sample sample{.inputs = {{"x", from_elements<double>(DType::float32, {1, 2}, std::vector<double>{1, -1})}},
                .steps = {{.op = "Relu", .inputs = {"x"}, .outputs = {"y"}}},
                .outputs = {"y"}};
  for (sample.opset = most; sample.opset >= kOldest; --sample.opset) {
    if (backend.run(sample, Optimisation::none, false).done()) return sample.opset;
  }
  return most;
}

void draw_what_runs(GenerateOptions& options, const std::vector<BackendSpec>& backends,
                    const std::function<void(const std::string&)>& tell) {
  int newest = 0;
  const auto ask = [&](const BackendSpec& spec) {
    Backend backend(spec);
    const int reads = newest_opset(backend, options.newest_opset);
    finity::Backend probed = open_backend(spec.text());
    const Support supports = support_of(probed, [&](double) { tell(spec.text()); });
    newest = std::max(newest, reads);
    for (const auto& [op, support] : supports) {
      if (support.any()) options.runs.push_back(op);
    }
  };
  for (const BackendSpec& spec : backends) {
    constexpr int kTimes = 30;
    for (int time = 1;; ++time) {
      try {
        ask(spec);
        break;
      } catch (const NotInstalled&) {
        break;
      } catch (const Error& error) {
        if (!ended_from_outside(error.what()) || time == kTimes) throw;
      }
    }
  }
  if (newest > 0) options.newest_opset = newest;
  std::ranges::sort(options.runs);
  const auto repeated = std::ranges::unique(options.runs);
  options.runs.erase(repeated.begin(), repeated.end());
}

}  // namespace finity::fuzz
