// Derivatives of every case of testdata/ops that has some, in float64, against central differences of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"
#include "support/case_slopes.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "torch/torch_support.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

// Cases whose slope is not the derivative, or whose derivative is not a number.
constexpr std::pair<std::string_view, std::string_view> kLeftOut[] = {
    {"attention/softmax_precision_rounds_the_weights", "the reference rounds: its slope is that of a staircase"},
    {"conv/conv_infinite_weight_over_padding", "LibTorch gives NaN: testdata/torch_cases.tsv"},
    {"microsoft/embed_all", "the reference computes in float32: its slope is that of a staircase"},
    {"microsoft/embed_mask_twos", "the reference computes in float32: its slope is that of a staircase"},
    {"microsoft/inverse_of_a_singular_matrix", "LibTorch refuses it: testdata/torch_cases.tsv"},
    {"norm/layer_norm_scale_broadcasts", "standardises in float32: its slope is that of a staircase"},
    {"pool/lp_pool_default_exponent", "the square root of 0 has no derivative, its square does"},
};

struct Tally {
  int cases = 0, elements = 0, underivable = 0;
};

void compare_slopes(const std::string& where, const OpCase& test, const Inputs& inputs, const Answer& answer,
                    Tally& tally) {
  const auto value = [&](const Inputs& at) {
    return elements<double>(*run_reference(test.graph, at).front().tensor()).front();
  };
  for (const auto& [name, gradient] : answer.gradients) {
    const Tensor& x = *inputs.at(name).tensor();
    const std::vector<double> derived = elements<double>(*gradient.tensor()), at = elements<double>(x);
    for (std::size_t i = 0; i < std::min<std::size_t>(at.size(), 6); ++i) {
      const auto shifted = [&](double by) {
        std::vector<double> moved = at;
        moved[i] += by;
        Inputs changed = inputs;
        changed[name] = from_elements<double>(x.dtype(), x.dims(), moved);
        return value(changed);
      };
      std::optional<double> expected;
      try {
        expected = slope(shifted);
      } catch (const Error&) {  // a step too far for the op
      }
      if (!expected) continue;
      ++tally.elements;
      const double scale = std::max({1.0, std::abs(*expected), std::abs(value(inputs))});
      EXPECT_NEAR(derived[i], *expected, 1e-5 * scale) << where << ": " << name << "[" << i << "]";
    }
  }
}

void judge(const std::string& family, const OpCase& test, Tally& tally) {
  Inputs inputs;
  GradientRequest request{.output = "sum_"};
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const std::string& name = test.graph.value(test.graph.main().inputs[i]).name;
    inputs[name] = test.inputs[i];
    request.inputs.emplace_back(name, test.inputs[i]);
    if (test.inputs[i].dtype() == DType::float64) request.names.push_back(name);
  }
  const std::string where = family + "/" + test.name;
  const auto is_it = [&](const auto& entry) { return entry.first == where; };
  if (request.names.empty() || std::ranges::any_of(kLeftOut, is_it)) return;
  try {
    infer_types(test.graph);
    const std::vector<Datum> results = run_reference(test.graph, inputs);
    if (results.front().tensor()->dtype() != DType::float64) return;
  } catch (const Error&) {
    return;
  }
  const Answer answer = torch_process().gradient({.model = write_onnx(test.graph), .gradient = request});
  if (answer.outcome == Answer::Outcome::unsupported) {
    ++tally.underivable;
    return;
  }
  ASSERT_TRUE(answer.done()) << where << ": " << answer.text;
  ++tally.cases;
  compare_slopes(where, test, inputs, answer, tally);
}

TEST(TorchCaseGradients, AreTheReferencesSlopes) {
  Tally tally;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    const std::string family = entry.path().stem().string();
    if (family == "random") continue;  // another number for every step
    for (const std::string& text : single_cases(with_dtype(read_text_file(entry.path()), "float64"))) {
      std::vector<OpCase> cases;
      try {
        cases = parse_cases(with_scalar(text, "float64"), family);
      } catch (const Error&) {  // not a case that can be derived
      }
      for (const OpCase& test : cases) judge(family, test, tally);
    }
  }
  std::printf("%d derivatives of %d cases agree, %d cases cannot be derived\n", tally.elements, tally.cases,
              tally.underivable);
  EXPECT_GE(tally.elements, 4000);
}

}  // namespace
}  // namespace finity
