#include "fuzz/distance.h"

#include <cmath>

#include "base/error.h"
#include "exec/reference.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

constexpr double kRelative = 1e-2, kAbsolute = 1e-3;

bool is_close(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= kAbsolute + kRelative * std::abs(b);
}

void compare(const Tensor& expected, const Tensor& given, Complaint complaint, std::vector<Complaint>& complaints) {
  if (expected.dtype() != given.dtype() || expected.dims() != given.dims()) {
    complaint.symptom = Symptom::wrong_form;
    complaint.text = std::string(finity::name(given.dtype())) + to_string(given.dims()) + " instead of " +
                     std::string(finity::name(expected.dtype())) + to_string(expected.dims());
    return complaints.push_back(std::move(complaint));
  }
  if (expected.dtype() == DType::string || is_complex(expected.dtype())) return;
  const std::vector<double> wanted = elements<double>(expected), seen = elements<double>(given);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (is_close(seen[i], wanted[i])) continue;
    complaint.symptom = std::isnan(seen[i]) ? Symptom::nan_here : Symptom::wrong_value;
    complaint.element = static_cast<std::int64_t>(i);
    const double slack = kAbsolute + kRelative * std::abs(wanted[i]);
    complaint.expected =
        std::isfinite(wanted[i]) ? from_bounds(DType::float64, wanted[i] - slack, wanted[i] + slack) : point(wanted[i]);
    complaint.observed = seen[i];
    complaint.text = "element " + std::to_string(i) + " is " + to_string(point(seen[i])) + ", the reference gives " +
                     to_string(point(wanted[i]));
    return complaints.push_back(std::move(complaint));
  }
}

}  // namespace

std::vector<Complaint> judge_by_distance(Backend& backend, const Sample& sample, Counts& counts) {
  const Optimisation level = backend.optimises() ? Optimisation::all : Optimisation::none;
  const Complaint start{.level = level, .op = op_chain(sample), .by_distance = true};
  const Graph model = graph(sample);
  const std::vector<Datum> expected = run_reference(model, inputs_of(sample));
  const Answer answer = backend.run(sample, level, false);
  ++counts.runs;
  std::vector<Complaint> complaints;
  if (!answer.done()) {
    Complaint complaint = start;
    complaint.text = last_words(answer);
    complaint.symptom = answer.outcome == Answer::Outcome::crashed ? Symptom::crash
                        : answer.outcome == Answer::Outcome::late  ? Symptom::hang
                                                                   : Symptom::exception;
    // What it does not take as written either it does not support.
    const bool refused = complaint.symptom == Symptom::exception &&
                         (level == Optimisation::none || !backend.run(sample, Optimisation::none, false).done());
    if (refused) ++counts.refused;
    else complaints.push_back(std::move(complaint));
    return complaints;
  }
  counts.steps += static_cast<std::int64_t>(sample.steps.size());
  for (std::size_t i = 0; i < expected.size() && complaints.empty(); ++i) {
    const std::string& name = model.value(model.main().outputs[i]).name;
    const Datum given = find(answer.outputs, name);
    if (expected[i].tensor() == nullptr || given.tensor() == nullptr) continue;
    counts.elements += expected[i].tensor()->size();
    Complaint complaint = start;
    complaint.tensor = name;
    compare(*expected[i].tensor(), *given.tensor(), std::move(complaint), complaints);
  }
  return complaints;
}

}  // namespace finity::fuzz
