// Hazards as data: every finding leads to its entry in the op table, and what the entries say is true when run.
#include "types/hazard_quantity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "check/check_graph.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "support/check_model.h"
#include "support/paths.h"
#include "support/range_probe.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(testdata_folder() + "/" + folder)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// ---- every finding has its hazard -------------------------------------------------

// Rules that ops raise, as opposed to those of patterns, constants and inputs.
std::set<std::string_view> rules_of_ops() {
  std::set<std::string_view> rules = {"FN203", "FN302"};
  for (const OpDef* op : all_ops()) {
    for (const Hazard& hazard : op->analysis.hazards) rules.insert(hazard.rule);
    if (!op->analysis.overflow.empty()) rules.insert(op->analysis.overflow);
    if (!op->analysis.invalid.empty()) rules.insert(op->analysis.invalid);
  }
  return rules;
}

bool is_about_result(const OpDef& op, std::string_view rule) {
  return rule == (op.analysis.overflow.empty() ? "FN203" : op.analysis.overflow) ||
         rule == (op.analysis.invalid.empty() ? "FN302" : op.analysis.invalid);
}

struct Lookup {
  std::set<std::string_view> rules = rules_of_ops();
  std::set<std::string> missing = {};
  std::map<std::string, int> found = {};  // by rule

  void look_at(const Graph& graph, const Analysis& analysis) {
    for (const Finding& finding : analysis.findings) {
      const OpDef* op = finding.node.valid() ? graph.node(finding.node).op : nullptr;
      if (op == nullptr || !rules.contains(finding.rule)) continue;
      if (finding.operand < 0 && is_about_result(*op, finding.rule)) continue;
      const bool known = hazard_of(*op, finding.rule, finding.operand) != nullptr;
      if (known) ++found[std::string(finding.rule)];
      else
        missing.insert(std::string(op->identity.name) + " " + std::string(finding.rule) + " operand " +
                       std::to_string(finding.operand));
    }
  }
};

TEST(HazardOf, FindsTheHazardOfEveryFinding) {
  Lookup lookup;
  for (const fs::path& file : files_in("check")) {
    for (const CheckCase& test : read_check_cases(file.string())) {
      if (!test.error.empty()) continue;
      try {
        const CheckedModel checked = check(test);
        lookup.look_at(checked.graph, checked.analysis);
      } catch (const Error&) {  // what cannot be checked is the matter of other tests
      }
    }
  }
  for (const fs::path& file : files_in("ops")) {
    for (OpCase& test : parse_cases(read_text_file(file.string()), file.filename().string())) {
      if (!test.error.empty()) continue;
      try {
        const CheckedGraph checked = check_graph(test.graph, {});
        lookup.look_at(checked.graph, checked.analysis);
      } catch (const Error&) {
      }
    }
  }
  for (const std::string& text : lookup.missing) ADD_FAILURE() << "no hazard in the table: " << text;
  for (const char* rule : {"FN101", "FN102", "FN104", "FN106", "FN111", "FN115", "FN203", "FN204", "FN205", "FN301",
                           "FN304", "FN305", "FN306"}) {
    EXPECT_GT(lookup.found[rule], 0) << "no finding of " << rule << " was looked up";
  }
}

TEST(HazardOf, PrefersTheOperandAndFallsBackOnWhatIsDerived) {
  const OpDef& adagrad = *find_op("ai.onnx.preview.training", "Adagrad");
  EXPECT_EQ(hazard_of(adagrad, "FN101", 1)->operand, 1U);
  EXPECT_EQ(hazard_of(adagrad, "FN101", 7)->operand, 4U);  // of several tensors
  EXPECT_EQ(hazard_of(adagrad, "FN101", -1)->operand, 4U);
  EXPECT_EQ(hazard_of(adagrad, "FN301", 0), nullptr);
  EXPECT_EQ(hazard_of(*find_op("", "Log"), "FN102", 0)->quantity, nullptr);
  EXPECT_EQ(hazard_of(*find_op("", "Log"), "FN102", -1), nullptr);
}

// ---- what the entries say is true ---------------------------------------------------

// Where an unsafe quantity does not show as NaN or Inf in the reference's result, and what happens instead.
bool shows_elsewhere(const OpDef& op, const Hazard& hazard) {
  static const std::set<std::string> kElsewhere = {
      "FN115",  // the integer is whatever the machine makes of it
      "FN305",  // libraries that compute variances in one pass take a root of it
      "FN205",  // a norm that overflows makes rows of zeros
      "FN203",  // kernels that round the sum to the narrow format
      "FN307",  // float8 saturates
      "FN204",  // kernels that hold scores and gates in the narrow format
      // ONNX defines a query that sees no key to get zeros; there are libraries that give NaN.
      "Attention FN301", "MultiHeadAttention FN301", "GroupQueryAttention FN301",
      "ReduceLogSumExp FN102",            // libraries that do not subtract the largest element
      "MeanVarianceNormalization FN304",  // libraries that leave epsilon out
  };
  const std::string rule(hazard.rule);
  if (op.identity.name == "BatchNormalization" && hazard.operand == 4) return false;
  return kElsewhere.contains(rule) || kElsewhere.contains(std::string(op.identity.name) + " " + rule);
}

struct Told {
  std::size_t node = 0;  // of the case's graph
  const Hazard* hazard = nullptr;
  UnsafeSet unsafe = {};
  std::size_t output = 0;  // of the graph with quantities
};

struct Counts {
  int unsafe = 0;     // quantities that were unsafe
  int confirmed = 0;  // of them, with NaN or Inf in the result
  int explained = 0;  // NaN or Inf from ordinary operands, with an unsafe quantity
};

bool any_of(const Datum& datum, bool (*f)(double)) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), f);
}
bool is_special(double x) { return !std::isfinite(x); }
// Powers, sums and products of ordinary numbers do not overflow, not even in float16.
bool is_not_ordinary(double x) { return !(std::abs(x) <= 4.75) || (x != 0 && std::abs(x) < 0.1); }

// What one run of a node took and made.
struct Seen {
  bool ran = false;
  bool floats = false;    // it has float results with elements
  bool ordinary = true;   // operands are neither large nor tiny
  bool inherits = false;  // NaN among the operands
  bool infinite = false;  // Inf among the operands
  bool failed = false;    // NaN or Inf among the results
  bool first = false;     // among those of the first, which has no forbidden scores
};

// A case's graph with the quantities of all its hazards as further outputs.
class Trial {
 public:
  Trial(const OpCase& test, const Types& types) : test_(test) {
    GraphWriter writer(test.graph, types);
    const std::size_t nodes = test.graph.nodes().size();
    for (std::size_t i = 0; i < nodes; ++i) {
      const Node node = writer.graph().nodes()[i];
      if (node.op == nullptr || node.body != Graph::kMain) continue;
      for (const Hazard& hazard : node.op->analysis.hazards) add(writer, i, hazard);
    }
    graph_ = std::move(writer).finish().graph;
  }

  bool empty() const { return told_.empty(); }
  const std::set<std::string>& unsupported() const { return unsupported_; }

  void run(const std::vector<Tensor>& inputs, std::map<std::string, Counts>& counts) {
    Inputs given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      given[graph_.value(graph_.main().inputs[i]).name] = inputs[i];
    }
    std::vector<Seen> seen(test_.graph.nodes().size());
    RunOptions options;
    options.watch = [&](const Node& node, std::span<const Datum> in, std::span<const Datum> out) {
      for (const ValueId id : node.outputs) {
        if (!id.valid() || id.at() >= test_.graph.values().size()) continue;
        const NodeId producer = test_.graph.value(id).producer;
        if (producer.valid()) seen[producer.at()] = look_at(in, out);
      }
    };
    std::vector<Datum> outputs;
    try {
      outputs = run_reference(graph_, given, options);
    } catch (const Error&) {
      return;  // operands that the op refuses
    }
    judge(seen, outputs, counts);
  }

 private:
  void add(GraphWriter& writer, std::size_t node, const Hazard& hazard) {
    const OpDef& op = *writer.graph().nodes()[node].op;
    try {
      const HazardQuantity quantity = add_quantity(writer, NodeId{static_cast<std::int32_t>(node)}, hazard);
      if (quantity.unsafe.empty()) return;
      writer.add_output(quantity.value);
      told_.push_back({node, &hazard, quantity.unsafe, writer.graph().main().outputs.size() - 1});
    } catch (const Unsupported& reason) {
      unsupported_.insert(std::string(op.identity.name) + " " + std::string(hazard.rule) + ": " + reason.what());
    }
  }

  static Seen look_at(std::span<const Datum> in, std::span<const Datum> out) {
    Seen seen{.ran = true};
    for (const Datum& datum : in) {
      if (any_of(datum, is_not_ordinary)) seen.ordinary = false;
      if (any_of(datum, [](double x) { return std::isnan(x); })) seen.inherits = true;
      if (any_of(datum, [](double x) { return std::isinf(x); })) seen.infinite = true;
    }
    for (const Datum& datum : out) {
      const Tensor* tensor = datum.tensor();
      seen.floats |= tensor != nullptr && is_float(tensor->dtype()) && tensor->size() > 0;
      seen.failed |= any_of(datum, is_special);
    }
    seen.first = !out.empty() && any_of(out.front(), is_special);
    return seen;
  }

  void judge(const std::vector<Seen>& seen, const std::vector<Datum>& outputs, std::map<std::string, Counts>& counts) {
    std::vector<const Hazard*> met(seen.size());
    for (const Told& told : told_) {
      const Tensor* quantity = outputs[told.output].tensor();
      const Seen& at = seen[told.node];
      if (quantity == nullptr || !at.ran || at.inherits) continue;
      const auto numbers = elements<double>(*quantity);
      if (std::ranges::none_of(numbers, [&](double x) { return holds(told.unsafe, x); })) continue;
      met[told.node] = told.hazard;
      const OpDef& op = *test_.graph.nodes()[told.node].op;
      Counts& count = counts[std::string(told.hazard->rule)];
      ++count.unsafe;
      count.confirmed += at.failed && (!at.infinite || told.hazard->rule == "FN301") ? 1 : 0;
      if (!at.floats || shows_elsewhere(op, *told.hazard)) continue;
      // An infinite operand is a failure already: only rows of -Inf are something that masks make on purpose.
      if (at.infinite && told.hazard->rule != "FN301") continue;
      EXPECT_TRUE(at.failed) << where(op) << told.hazard->rule << " is met, but the result is finite";
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (!seen[i].first || !seen[i].ordinary || !is_told(i)) continue;
      const OpDef& op = *test_.graph.nodes()[i].op;
      if (op.identity.name == "LRN") continue;  // with a bias of 0 its rule knows nothing, and the result is asked
      if (op.identity.name.starts_with("Cast")) continue;  // what the target does not have is a matter of the result
      EXPECT_NE(met[i], nullptr) << where(op) << "NaN or Inf of ordinary operands without a hazard";
      if (met[i] != nullptr) ++counts[std::string(met[i]->rule)].explained;
    }
  }

  bool is_told(std::size_t node) const {
    return std::ranges::any_of(told_, [&](const Told& told) { return told.node == node; });
  }
  std::string where(const OpDef& op) const {
    return test_.name + " (line " + std::to_string(test_.line) + "), " + std::string(op.identity.name) + ": ";
  }

  const OpCase& test_;
  Graph graph_ = {};
  std::vector<Told> told_;
  std::set<std::string> unsupported_;
};

// Float operands redrawn in one of several manners; others as the case has them.
std::vector<Tensor> drawn(const OpCase& test, int manner, Rng& rng) {
  std::vector<Tensor> inputs;
  for (const Tensor& given : test.inputs) {
    const DType dtype = given.dtype();
    if (!is_float(dtype) || info(dtype).bits < 16 || rng.below(4) == 0) {
      inputs.push_back(given);
      continue;
    }
    const double constant = static_cast<double>(rng.below(9)) - 4;
    std::vector<double> values(static_cast<std::size_t>(given.size()));
    for (double& value : values) {
      switch (manner) {
        case 0: value = constant; break;
        case 1: value = static_cast<double>(rng.below(7)) - 3; break;
        case 2: value = std::round(rng.uniform(-300, 300)) / 64; break;
        case 3: value = rng.uniform(-1, 1) * max_finite(dtype); break;
        case 4: value = -kInf; break;
        default: value = rng.below(3) == 0 ? -kInf : rng.uniform(-2, 2); break;
      }
    }
    inputs.push_back(from_elements<double>(dtype, given.dims(), values));
  }
  return inputs;
}

// The only number of float16 whose tangent is too large for it.
TEST(HazardQuantity, FindsTheTangentThatOverflows) {
  const auto cases =
      parse_cases("opset 13\ncase tan\n  y = Tan(float16[2] {1, 177.5})\n  expect float16[2] {1, -inf}\n", "tan");
  std::map<std::string, Counts> counts;
  Trial(cases.front(), infer_types(cases.front().graph)).run(cases.front().inputs, counts);
  EXPECT_EQ(counts["FN110"].confirmed, 1);
  EXPECT_NE(hazard_of(*find_op("", "Tan"), "FN110", 0), nullptr);
}

TEST(HazardQuantity, TellsTheTruth) {
  std::map<std::string, Counts> counts;
  std::set<std::string> unsupported;
  Rng rng = seeded(11);
  for (const fs::path& file : files_in("ops")) {
    SCOPED_TRACE(file.filename().string());
    for (const OpCase& test : parse_cases(read_text_file(file.string()), file.filename().string())) {
      if (!test.error.empty()) continue;
      Types types;
      try {
        types = infer_types(test.graph);
      } catch (const Error&) {  // the matter of tests/ops/cases_test.cpp
        continue;
      }
      Trial trial(test, types);
      unsupported.insert(trial.unsupported().begin(), trial.unsupported().end());
      if (trial.empty()) continue;
      trial.run(test.inputs, counts);
      for (int draw = 0; draw < 18; ++draw) trial.run(drawn(test, draw % 6, rng), counts);
    }
  }
  for (const auto& [rule, count] : counts) {
    RecordProperty(rule, std::to_string(count.unsafe) + " unsafe, " + std::to_string(count.confirmed) + " confirmed, " +
                             std::to_string(count.explained) + " explained");
  }
  for (const std::string& reason : unsupported) {
    EXPECT_NE(reason.find("is omitted"), std::string::npos) << "not built: " << reason;
  }
  for (const char* rule : {"FN101", "FN102", "FN104", "FN106", "FN111", "FN115", "FN203", "FN204", "FN205", "FN301",
                           "FN304", "FN305", "FN306"}) {
    EXPECT_GT(counts[rule].unsafe, 0) << rule << " was never met";
  }
  for (const char* rule : {"FN101", "FN102", "FN104", "FN106", "FN111", "FN204", "FN301", "FN304", "FN305", "FN306"}) {
    EXPECT_GT(counts[rule].confirmed, 0) << rule;
  }
}

}  // namespace
}  // namespace finity
