// Every hazard of the op table has a suspect loss, and the loss says the truth: it is at most 0 just where the hazard's
// quantity is unsafe.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "ops/table/rule_patterns.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "trigger/objective.h"
#include "types/hazard_quantity.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

// Formats that the other cases do not have.
constexpr std::string_view kMoreCases = R"(opset 13
opset com.microsoft 1
case tangent_of_half
  y = Tan(float16[2] {1, 177.5})
  expect float16[2] {1, -inf}

case accumulated_half
  f, y = com.microsoft.InPlaceAccumulatorV2(float16[2] {1, 2}, float16[2] {10, 20})
  expect bool[1] {true}
  expect float16[2] {11, 22}
)";

std::vector<OpCase> all_cases() {
  std::vector<OpCase> result;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
    if (entry.path().extension() != ".txt") continue;
    for (OpCase& test : parse_cases(read_text_file(entry.path()), entry.path().filename().string())) {
      test.name = entry.path().stem().string() + "/" + test.name;
      if (test.error.empty()) result.push_back(std::move(test));
    }
  }
  for (OpCase& test : parse_cases(kMoreCases, "more")) result.push_back(std::move(test));
  return result;
}

// Hazards that a search does not walk towards, and why.
std::string_view reason_for_none(const OpDef& op, const Hazard& hazard) {
  if (hazard.rule == "FN306" && hazard.operand == 0) return "sizes are chosen, not walked to";
  if (hazard.rule == "FN113") return "integers are drawn";
  if (op.identity.name == "Adagrad" && hazard.operand == 1) return "the count of updates is an integer";
  return "";
}

bool is_unsafe(const UnsafeSet& unsafe, const Tensor& quantity) {
  return std::ranges::any_of(elements<double>(quantity), [&](double x) { return holds(unsafe, x); });
}

// A case as a model, and which losses its hazards get.
class Losses {
 public:
  Losses(const OpCase& test, const Contract& contract)
      : test_(test), model_(check_graph(test.graph, contract, for_all_runtimes())) {
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      at_.inputs[model_.graph.value(model_.graph.main().inputs[i]).name] = test.inputs[i];
    }
    for (const ValueId id : model_.graph.main().inputs) {
      if (is_float(model_.types[id].dtype)) variables_.push_back(id);
    }
  }

  // Hazards for which a loss was built.
  void build(std::set<const Hazard*>& built, int& compared) {
    if (variables_.empty()) return;
    const SizedModels sized = with_sizes(model_, at_);
    for (std::size_t i = 0; i < model_.analysis.findings.size(); ++i) {
      const std::vector<const Hazard*> hazards = hazards_of(model_.analysis.findings[i]);
      for (std::size_t variant = 0; variant < hazards.size(); ++variant) {
        std::optional<Objective> objective = Objective::make(model_, sized, i, variables_, variant);
        if (!objective) continue;
        built.insert(hazards[variant]);
        compared += static_cast<int>(agrees(*objective, model_.analysis.findings[i].node, *hazards[variant]));
      }
    }
  }

 private:
  static GraphCheckOptions for_all_runtimes() {
    GraphCheckOptions options;
    options.analysis.ranges.runtime = Runtime::any;
    return options;
  }

  std::vector<const Hazard*> hazards_of(const Finding& site) const {
    const OpDef* op = site.node.valid() ? model_.graph.node(site.node).op : nullptr;
    if (op == nullptr) return {};
    std::vector<const Hazard*> result;
    for (const Hazard& hazard : op->analysis.hazards) {
      if (hazard.rule == raised_rule(site.rule) && static_cast<int>(hazard.operand) == site.operand)
        result.push_back(&hazard);
    }
    const Hazard* derived = hazard_of(*op, site.rule, site.operand);
    if (result.empty() && derived != nullptr) result.push_back(derived);
    return result;
  }

  // Whether both sides could be computed on the operands of the case; a difference is reported.
  bool agrees(Objective& objective, NodeId node, const Hazard& hazard) {
    GraphWriter writer(model_.graph, model_.types);
    const HazardQuantity quantity = add_quantity(writer, node, hazard);
    writer.set_outputs({quantity.value});
    const Graph graph = std::move(writer).finish().graph;
    const std::vector<Datum> outputs = run_reference(graph, at_.inputs);
    const Tensor& value = *outputs.front().tensor();
    // What is not finite is beyond distances: the search runs the model itself.
    if (value.size() == 0 || std::ranges::any_of(elements<double>(value), [](double x) { return !std::isfinite(x); }))
      return false;
    const double distance = objective.evaluate(at_, 0, nullptr).distance;
    EXPECT_EQ(distance <= 0, is_unsafe(quantity.unsafe, value))
        << test_.name << ": " << hazard.rule << ", distance " << distance;
    return true;
  }

  const OpCase& test_;
  CheckedGraph model_;
  Drawn at_;
  std::vector<ValueId> variables_;
};

TEST(HazardLoss, ExistsForEveryHazardAndIsTrue) {
  std::set<const Hazard*> built;
  int compared = 0;
  Contract wide;
  add_range(wide, "*:[-1e30,1e30]");
  for (const OpCase& test : all_cases()) {
    for (const Contract& contract : {Contract(), wide}) {
      try {
        Losses(test, contract).build(built, compared);
      } catch (const Error&) {  // what cannot be checked or run is the matter of other tests
      }
    }
  }
  for (const OpDef* op : all_ops()) {
    for (const Hazard& hazard : op->analysis.hazards) {
      EXPECT_EQ(built.contains(&hazard), reason_for_none(*op, hazard).empty())
          << op->identity.domain << " " << op->identity.name << " " << hazard.rule << " operand " << hazard.operand;
    }
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace finity
