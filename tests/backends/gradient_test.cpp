// What backends derive, for every case of testdata/ops: against slopes of the reference in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/backends.h"
#include "base/error.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"
#include "support/case_slopes.h"
#include "support/difference.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

// Derivatives that differ, and why that is so.
constexpr std::pair<std::string_view, std::string_view> kKnown[] = {
    {"axis/cumsum_axis_vector", "TensorFlow.js transposes the derivative of a sum along the first axis"},
    {"derivatives/pad_reflected_floats", "TensorFlow.js leaves out what the margins add to the derivative"},
    {"norm/layer_norm_scale_broadcasts", "the reference standardises in float32: its slope is that of a staircase"},
};
constexpr double kLarge = 1e30;  // float32 overflows where float64 does not

std::optional<OpCase> parsed(const std::string& text, const std::string& dtype) {
  try {
    return parse_cases(with_scalar(with_dtype(text, dtype), dtype), "case").front();
  } catch (const Error&) {
    return std::nullopt;
  }
}

double value_of(const OpCase& wide, const std::vector<Tensor>& tensors) {
  Inputs inputs;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    inputs[wide.graph.value(wide.graph.main().inputs[i]).name] = tensors[i];
  return elements<double>(*run_reference(wide.graph, inputs).front().tensor()).front();
}

std::optional<double> slope_at(const OpCase& wide, std::size_t input, std::size_t element) {
  const auto shifted = [&](double by) {
    std::vector<Tensor> tensors = wide.inputs;
    std::vector<double> moved = elements<double>(tensors[input]);
    moved[element] += by;
    tensors[input] = from_elements<double>(DType::float64, tensors[input].dims(), moved);
    return value_of(wide, tensors);
  };
  try {
    return slope(shifted);
  } catch (const Error&) {  // a step too far for the op
    return std::nullopt;
  }
}

// The first operand only: derivatives by parameters are rarer.
Answer derived(Backend& backend, const OpCase& test) {
  GradientRequest request{.output = "sum_"};
  for (std::size_t i = 0; i < test.inputs.size(); ++i)
    request.inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  for (const auto& [name, datum] : request.inputs) {
    if (datum.tensor()->dtype() == DType::float32) request.names.push_back(name);
  }
  Answer answer = backend.worker().gradient({.model = write_onnx(test.graph), .gradient = request});
  if (answer.done() || request.names.size() < 2) return answer;
  request.names.resize(1);
  return backend.worker().gradient({.model = write_onnx(test.graph), .gradient = request});
}

int compare_slopes(const std::string& where, const OpCase& wide, const Answer& answer) {
  int compared = 0;
  for (const auto& [name, gradient] : answer.gradients) {
    std::size_t input = 0;
    while (wide.graph.value(wide.graph.main().inputs[input]).name != name) ++input;
    const std::vector<double> given = elements<double>(*gradient.tensor());
    for (std::size_t i = 0; i < std::min<std::size_t>(given.size(), 3); ++i) {
      const std::optional<double> expected = slope_at(wide, input, i);
      if (!expected || std::abs(*expected) > kLarge || value_of(wide, wide.inputs) > kLarge) continue;
      ++compared;
      const double scale = std::max({1.0, std::abs(*expected), std::abs(value_of(wide, wide.inputs))});
      EXPECT_NEAR(given[i], *expected, 2e-4 * scale) << where << ": " << name << "[" << i << "]";
    }
  }
  return compared;
}

int judge_all(Backend& backend) {
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    const std::string family = entry.path().stem().string();
    if (family == "random") continue;
    for (const std::string& text : single_cases(read_text_file(entry.path()))) {
      const auto narrow = parsed(text, "float32"), wide = parsed(text, "float64");
      if (!narrow || !wide || narrow->inputs.empty() || narrow->inputs[0].dtype() != DType::float32) continue;
      const std::string where = family + "/" + narrow->name;
      const auto is_it = [&](const auto& entry) { return entry.first == where; };
      if (std::ranges::any_of(kKnown, is_it)) continue;
      const Answer answer = derived(backend, *narrow);
      if (answer.done()) compared += compare_slopes(backend.name() + ": " + where, *wide, answer);
      else if (std::getenv("FINITY_VERBOSE") != nullptr) std::printf("%s: %s\n", where.c_str(), answer.text.c_str());
    }
  }
  std::printf("%s: %d derivatives agree\n", backend.name().c_str(), compared);
  return compared;
}

TEST(BackendGradients, AreTheReferencesSlopes) {
  for (const auto& [name, least] : {std::pair{"onednn", 200}, {"tfjs-cpu", 200}, {"tfjs-wasm", 40}}) {
    try {
      Backend backend = open_backend(name);
      EXPECT_GE(judge_all(backend), least) << name;
    } catch (const NotInstalled& missing) {
      std::printf("left out: %s\n", missing.what());
    }
  }
}

}  // namespace
}  // namespace finity
