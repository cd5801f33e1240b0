#include "fuzz/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "fuzz/box.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

using Boxes = std::map<std::string, Box, std::less<>>;

class Judgement {
 public:
  Judgement(Backend* backend, const Sample& sample, Counts& counts)
      : backend_(backend), sample_(sample), counts_(counts), graph_(graph(sample)), types_(infer_types(graph_)) {}

  std::vector<Complaint> compare_values(const NamedData& values, const std::string& op) {
    const Boxes boxes = boxes_from_inputs();
    for (const auto& [name, datum] : values) {
      const auto box = boxes.find(name);
      if (box != boxes.end()) compare(box->second, datum, name, op, Optimisation::all);
    }
    return std::move(complaints_);
  }

  std::vector<Complaint> run() {
    if (!as_written()) return std::move(complaints_);
    if (backend_->optimises() && complaints_.empty()) optimised();
    return std::move(complaints_);
  }

 private:
  // False: there is nothing to compare with.
  bool as_written() {
    const Answer answer = backend_->run(sample_, Optimisation::none, true);
    ++counts_.runs;
    if (died(answer, Optimisation::none)) return false;
    if (!answer.done()) {
      ++counts_.refused;
      return false;
    }
    for (const NodeId id : graph_.main().nodes) judge_step(graph_.node(id), answer.outputs);
    const Answer again = backend_->run(sample_, Optimisation::none, true);
    if (again.done()) compare_runs(answer, again, Optimisation::none);
    return true;
  }

  void optimised() {
    const Answer answer = backend_->run(sample_, Optimisation::all, false);
    ++counts_.runs;
    if (died(answer, Optimisation::all)) return;
    if (!answer.done()) {
      complain(
          {.symptom = Symptom::exception, .level = Optimisation::all, .op = op_chain(sample_), .text = answer.text});
      return;
    }
    const Boxes boxes = boxes_from_inputs();
    for (const auto& [output, datum] : answer.outputs) {
      const auto box = boxes.find(output);
      if (box != boxes.end()) compare(box->second, datum, output, op_chain(sample_), Optimisation::all);
    }
    const Answer again = backend_->run(sample_, Optimisation::all, false);
    if (again.done()) compare_runs(answer, again, Optimisation::all);
  }

  bool died(const Answer& answer, Optimisation level) {
    const bool crashed = answer.outcome == Answer::Outcome::crashed;
    if (!crashed && answer.outcome != Answer::Outcome::late) return false;
    complain({.symptom = crashed ? Symptom::crash : Symptom::hang,
              .level = level,
              .op = op_chain(sample_),
              .text = last_words(answer)});
    return true;
  }

  void judge_step(const Node& node, const NamedData& outputs) {
    std::vector<Box> operands;
    for (const ValueId id : node.inputs) {
      operands.emplace_back();
      if (!id.valid()) continue;
      const std::string& name = graph_.value(id).name;
      const Tensor* tensor = given(sample_, name);
      const Datum computed = tensor == nullptr ? find(outputs, name) : Datum();
      if (tensor == nullptr) tensor = computed.tensor();
      // After a result of another form nothing is known of what follows.
      const bool as_typed =
          tensor != nullptr && types_[id].dtype == tensor->dtype() && types_[id].dims() == tensor->dims();
      if (!as_typed) operands.back() = {.dtype = types_[id].dtype, .dims = {1}};
      else operands.back() = computed.present() ? operand_box(*tensor) : point_box(*tensor);
    }
    ++counts_.steps;
    const std::vector<Box> boxes = enclosed(node, operands);
    const std::size_t before = complaints_.size();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      const std::string& name = graph_.value(node.outputs[i]).name;
      compare(boxes[i], find(outputs, name), name, std::string(node.op_type), Optimisation::none);
    }
    set_apart(node, operands, before);
  }

  std::vector<Box> enclosed(const Node& node, const std::vector<Box>& operands) {
    try {
      return enclose(graph_, types_, node, operands);
    } catch (const Error&) {
      return std::vector<Box>(node.outputs.size());
    }
  }

  Boxes boxes_from_inputs() {
    Boxes boxes;
    for (const auto* tensors : {&sample_.inputs, &sample_.constants}) {
      for (const auto& [name, tensor] : *tensors) boxes[name] = says_how(name) ? point_box(tensor) : around(tensor);
    }
    for (const NodeId id : graph_.main().nodes) {
      const Node& node = graph_.node(id);
      std::vector<Box> operands;
      for (const ValueId input : node.inputs)
        operands.push_back(input.valid() ? boxes[graph_.value(input).name] : Box());
      const std::vector<Box> results = enclosed(node, operands);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (node.outputs[i].valid()) boxes[graph_.value(node.outputs[i]).name] = results[i];
      }
    }
    return boxes;
  }

  // Floats that say how, and are not computed with.
  bool says_how(const std::string& name) const {
    return std::ranges::any_of(sample_.steps, [&](const Step& step) {
      const OpDef* op = find_op(step.domain, step.op);
      return op != nullptr && op->drawing.settings &&
             std::ranges::find(step.inputs.begin() + 1, step.inputs.end(), name) != step.inputs.end();
    });
  }

  void compare(const Box& box, const Datum& datum, const std::string& tensor_name, const std::string& op,
               Optimisation level) {
    const Tensor* tensor = datum.tensor();
    if (tensor == nullptr || !box.present()) return;
    counts_.elements += tensor->size();
    Complaint complaint{.level = level, .op = op, .tensor = tensor_name};
    if (box.dtype != tensor->dtype() || (box.decided() && box.dims != tensor->dims())) {
      complaint.symptom = Symptom::wrong_form;
      complaint.text = std::string(finity::name(tensor->dtype())) + to_string(tensor->dims()) + " instead of " +
                       std::string(finity::name(box.dtype)) + to_string(box.dims);
      return complain(std::move(complaint));
    }
    if (!box.decided() || tensor->dtype() == DType::string) {
      counts_.undecided += tensor->size();
      return;
    }
    compare_elements(box, *tensor, std::move(complaint));
  }

  void compare_elements(const Box& box, const Tensor& tensor, Complaint complaint) {
    const std::vector<double> values = elements<double>(tensor);
    double worst = -1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Range& cell = box.cells[i];
      // What may overflow may be anything, and so may what operators leave open.
      if (!box.claims(i) || (box.holds_more(i) && is_subset(top(box.dtype), cell))) {
        ++counts_.undecided;
        continue;
      }
      if (cell.is_empty() || cell.contains(values[i])) continue;
      if (flushed(box.dtype, cell, values[i])) continue;
      const double excess = std::isfinite(values[i]) ? std::max(cell.lo - values[i], values[i] - cell.hi) : kInf;
      if (!(excess > worst)) continue;
      worst = excess;
      complaint.symptom = std::isnan(values[i]) ? Symptom::nan_here : Symptom::wrong_value;
      complaint.element = static_cast<std::int64_t>(i);
      complaint.expected = cell;
      complaint.observed = values[i];
    }
    if (worst < 0) return;
    // Kernels on codes look their functions up in tables: one code to either side is a matter of accuracy.
    if (complaint.level != Optimisation::none && worst <= one_code(tensor.dtype())) complaint.proven = false;
    complaint.text = "element " + std::to_string(complaint.element) + " is " + to_string(point(complaint.observed)) +
                     ", expected " + to_string(complaint.expected);
    complain(std::move(complaint));
  }

  // How far apart two codes of the sample are in a result of this type; 0: it has none.
  double one_code(DType dtype) const {
    double largest = 0;
    for (const Step& step : sample_.steps) {
      const OpDef* op = find_op(step.domain, step.op);
      if (op == nullptr) continue;
      const auto& operands = signature_of(*op).inputs;
      const auto place = std::ranges::find(operands, "y_scale", &Param::name) - operands.begin();
      if (place >= std::ssize(step.inputs)) continue;
      const Tensor* scales = given(sample_, step.inputs[static_cast<std::size_t>(place)]);
      if (scales == nullptr || !is_float(scales->dtype())) continue;
      for (const double scale : elements<double>(*scales)) largest = std::max(largest, std::abs(scale));
    }
    return largest == 0 ? 0 : is_float(dtype) ? largest * 1.01 : 1;
  }

  // Results below the smallest normal number may be flushed to zero.
  static bool flushed(DType dtype, const Range& cell, double value) {
    if (!is_float(dtype)) return false;
    const double normal = min_subnormal(dtype) / unit_roundoff(dtype);
    return std::abs(value) <= normal && cell.lo <= normal && cell.hi >= -normal;
  }

  // Accuracy is not correctness. What a change of the operands in their last bits explains is kept apart from results
  // that are plainly something else.
  void set_apart(const Node& node, const std::vector<Box>& operands, std::size_t first) {
    if (first == complaints_.size()) return;
    std::vector<Box> wider;
    for (const Box& box : operands) wider.push_back(box.is_point() ? around(tensor_of(box)) : box);
    const std::vector<Box> boxes = enclosed(node, wider);
    for (std::size_t i = first; i < complaints_.size(); ++i) {
      Complaint& c = complaints_[i];
      for (std::size_t k = 0; k < boxes.size() && c.element >= 0; ++k) {
        if (!node.outputs[k].valid() || graph_.value(node.outputs[k]).name != c.tensor) continue;
        const auto at = static_cast<std::size_t>(c.element);
        const bool claimed = boxes[k].decided() && at < boxes[k].cells.size() && boxes[k].claims(at);
        c.proven = claimed && !boxes[k].cells[at].contains(c.observed) && !cancelled(node, operands, c) &&
                   !approximated(node, c);
      }
    }
  }

  // Normalisations subtract numbers of the operands' size in more than one order, and where elements hardly differ
  // divide by little more than the root of epsilon.
  static bool cancelled(const Node& node, const std::vector<Box>& operands, const Complaint& c) {
    if (!node.op->traits.cancels || !c.expected.has_finite() || !std::isfinite(c.observed)) return false;
    double largest = 0;
    for (const Box& box : operands) {
      for (const Range& cell : box.cells) largest = std::max(largest, cell.magnitude());
    }
    double share = 1e-2;
    const Attr* epsilon = node.attrs.find("epsilon");
    if (const auto* number = epsilon == nullptr ? nullptr : std::get_if<float>(epsilon); number && *number > 0)
      share = std::max(share, 8 * unit_roundoff(DType::float32) / std::sqrt(*number) * std::max(1.0, largest));
    return std::max(c.expected.lo - c.observed, c.observed - c.expected.hi) <= share * largest;
  }

  // How many digits an approximation of such a function has is a choice; their results are of the size of 1.
  static bool approximated(const Node& node, const Complaint& c) {
    if (!node.op->traits.approximated || !c.expected.has_finite() || !std::isfinite(c.observed)) return false;
    const double size = std::max({1.0, std::abs(c.expected.lo), std::abs(c.expected.hi)});
    return std::max(c.expected.lo - c.observed, c.observed - c.expected.hi) <= 1e-5 * size;
  }

  void compare_runs(const Answer& first, const Answer& second, Optimisation level) {
    for (std::size_t i = 0; i < first.outputs.size() && i < second.outputs.size(); ++i) {
      const Tensor* a = first.outputs[i].second.tensor();
      const Tensor* b = second.outputs[i].second.tensor();
      if (a == nullptr || b == nullptr || a->dtype() == DType::string) continue;
      if (a->dims() == b->dims() && std::ranges::equal(a->bytes(), b->bytes())) continue;
      complain({.symptom = Symptom::unstable,
                .level = level,
                .op = op_chain(sample_),
                .tensor = first.outputs[i].first,
                .text = "two runs of one session give different bits"});
      return;
    }
  }

  void complain(Complaint complaint) { complaints_.push_back(std::move(complaint)); }

  Backend* backend_;  // none: only values are compared
  const Sample& sample_;
  Counts& counts_;
  Graph graph_;
  Types types_;
  std::vector<Complaint> complaints_;
};

}  // namespace

std::string_view name(Symptom symptom) {
  constexpr std::string_view kNames[] = {"wrong value", "wrong form", "NaN only here", "crash",
                                         "hang",        "exception",  "unstable",      "broken law"};
  return kNames[static_cast<std::size_t>(symptom)];
}

std::string last_words(const Answer& answer) {
  // What a program says of its own stack is about this machine.
  std::string text = answer.text.substr(0, answer.text.find("----- Native stack"));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::string stage(name(answer.stage));
  return text.find("while " + stage) != std::string::npos ? text : text + " (" + stage + ")";
}

std::vector<Complaint> compare_with_boxes(const Sample& sample, const NamedData& values, const std::string& op,
                                          Counts& counts) {
  return Judgement(nullptr, sample, counts).compare_values(values, op);
}

std::vector<Complaint> judge(Backend& backend, const Sample& sample, Counts& counts) {
  return Judgement(&backend, sample, counts).run();
}

}  // namespace finity::fuzz
