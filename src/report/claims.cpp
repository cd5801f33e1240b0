#include "report/claims.h"

#include <algorithm>
#include <cmath>

#include "graph/users.h"
#include "report/words.h"
#include "tensor/convert.h"

namespace finity {

namespace {

std::string weights_text(WeightMode mode) {
  switch (mode) {
    case WeightMode::trained: return "weights as in the file";
    case WeightMode::initial: return "weights around those in the file";
    case WeightMode::any: return "any weights";
  }
  return "";
}

std::string runtime_text(Runtime runtime) {
  switch (runtime) {
    case Runtime::measured: return "for " + std::string(kOnnxRuntime);
    case Runtime::any: return "for any runtime";
    case Runtime::exact: return "for exact kernels";
  }
  return "";
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kMost ? text + ", ..." : text;
}

// "NaN or +Inf"
std::string strangers_text(const Range& range) {
  std::string text;
  const auto add = [&](bool there, const char* what) {
    if (there) text += (text.empty() ? "" : " or ") + std::string(what);
  };
  add(range.nan, "NaN");
  add(range.pinf, "+Inf");
  add(range.ninf, "-Inf");
  return text;
}

// Outputs that may hold what the contract allows in inputs. It is no failure, but whoever reads "proved" must know.
std::string may_leave_text(const CheckedGraph& model) {
  std::vector<std::string> inputs;
  for (const ValueId id : model.graph.main().inputs) {
    const auto& premise = model.premises.of[id.at()];
    if (premise && !strangers_text(premise->hull()).empty()) inputs.push_back(model.graph.value(id).name);
  }
  if (inputs.empty()) return "";
  std::vector<std::string> outputs;
  Range all;
  for (const ValueId id : model.graph.main().outputs) {
    if (!model.analysis.reached[id.at()]) continue;
    const Range hull = model.analysis.ranges[id.at()].hull();
    if (strangers_text(hull).empty()) continue;
    outputs.push_back(model.graph.value(id).name);
    all.nan |= hull.nan;
    all.pinf |= hull.pinf;
    all.ninf |= hull.ninf;
  }
  if (outputs.empty()) return "";
  return (outputs.size() == 1 ? "output " : "outputs ") + listed(outputs) + " may hold " + strangers_text(all) +
         ", as " + listed(inputs) + " may";
}

std::string elements_text(const std::vector<double>& values, const Dims& dims, DType dtype, std::size_t axis,
                          std::size_t& at) {
  if (axis == dims.size()) return number_text(values[at++], dtype);
  std::string text = "[";
  for (std::int64_t i = 0; i < dims[axis]; ++i) {
    text += (i == 0 ? "" : ", ") + elements_text(values, dims, dtype, axis + 1, at);
  }
  return text + "]";
}

// All elements of a small tensor, else what they lie between.
std::string tensor_text(const Tensor& tensor, bool& in_full) {
  constexpr std::int64_t kFew = 16;
  const DType dtype = tensor.dtype();
  if (dtype == DType::string || is_complex(dtype)) return "empty";
  const std::vector<double> values = elements<double>(tensor);
  if (tensor.size() <= kFew) {
    std::size_t at = 0;
    return elements_text(values, tensor.dims(), dtype, 0, at);
  }
  in_full = false;
  Range range;
  for (const double x : values) {
    if (std::isnan(x)) range.nan = true;
    else if (std::isinf(x)) (x > 0 ? range.pinf : range.ninf) = true;
    else range = join(range, point(x));
  }
  const bool same = range.has_finite() && range.lo == range.hi && strangers_text(range).empty();
  return (same ? "everywhere " : "within ") + range_text(range, dtype);
}

SeenFailure failure_of(const Graph& graph, const FailingRun& witness) {
  SeenFailure failure = {.what = witness.what};
  for (const ValueId id : graph.main().inputs) {
    const std::string& name = graph.value(id).name;
    const auto given = witness.drawn->inputs.find(name);
    if (given == witness.drawn->inputs.end() || given->second.tensor() == nullptr) continue;
    const Tensor& tensor = *given->second.tensor();
    failure.inputs.push_back({.name = name,
                              .type = std::string(finity::name(tensor.dtype())) + to_string(tensor.dims()),
                              .text = tensor_text(tensor, failure.in_full)});
  }
  if (!witness.drawn->weights.empty()) failure.in_full = false;
  return failure;
}

}  // namespace

void add_claims(Report& report, const CheckedGraph& model, const Contract& contract, const GraphCheckOptions& options) {
  const bool converted = options.target != DType::undefined;
  report.covered.push_back((model.trained.empty() ? "forward pass" : "forward pass and " + model.trained) +
                           (converted ? " as " + std::string(name(options.target)) : ""));
  report.covered.push_back(weights_text(contract.weights));
  report.covered.push_back(runtime_text(options.analysis.ranges.runtime));
  const Users users = users_of(model.graph);
  for (const GuessedInput& guess : model.premises.guesses) {
    if (guess.complete || users[guess.value.at()].empty()) continue;
    report.guesses.push_back(model.graph.value(guess.value).name + " in " +
                             range_text(guess.range, model.types[guess.value].dtype));
  }
  report.may_leave = may_leave_text(model);
  report.unmatched = model.unmatched;
}

void add_searches(Report& report, const SearchResult& result) {
  if (!result.failed.empty()) report.notes.push_back({"search", "some inputs could not be run: " + result.failed});
  for (Alarm& alarm : report.alarms) {
    const auto site = std::ranges::find(result.sites, alarm.finding, &SiteSearch::finding);
    if (site == result.sites.end() || site->confirmed) continue;
    alarm.searched = "no input found that makes it fail, " + counted(result.runs, "run");
    if (!site->closest.empty()) alarm.searched += "; closest: " + site->closest;
    if (!site->why_not.empty()) alarm.searched += "; without direction: " + site->why_not;
  }
}

void add_failures(Report& report, const Graph& graph, std::span<const FailingRun> witnesses) {
  for (Alarm& alarm : report.alarms) {
    const auto witness = std::ranges::find(witnesses, alarm.finding, &FailingRun::finding);
    if (witness == witnesses.end()) continue;
    alarm.failure = failure_of(graph, *witness);
    // What was seen to fail is not hidden behind a cause that is only possible.
    const bool hidden = alarm.root >= 0 && report.alarms[static_cast<std::size_t>(alarm.root)].verdict != alarm.verdict;
    if (hidden && alarm.verdict == Verdict::confirmed) alarm.root = -1;
  }
}

}  // namespace finity
