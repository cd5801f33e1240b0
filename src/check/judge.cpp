#include "check/judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "check/escape.h"
#include "exec/first_failure.h"
#include "ops/table/op.h"
#include "ops/table/rule_group.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The file itself declares another shape: these inputs are not what it is meant for.
bool contradicts_file(const Type& declared, const Datum& datum) {
  if (datum.tensor() == nullptr || !declared.is_tensor() || !declared.ranked) return false;
  bool conflict = false;
  merge(declared, Type::tensor_of(declared.dtype, datum.tensor()->dims()), &conflict);
  return conflict;
}

bool is_ignorance(const Finding& finding) { return group_of(finding.rule) == RuleGroup::coverage; }

// An operand of an elementwise op, and which of its elements the op takes.
struct Taken {
  Taken(const Tensor& tensor, const Hazard& hazard)
      : dims(tensor.dims()), numbers(elements<double>(tensor)), unsafe(hazard.unsafe(tensor.dtype())) {}
  bool is_taken(const Dims& index) const {
    const std::optional<std::size_t> at = position_in(dims, index);
    return !at || !meets(point(numbers[*at]), unsafe);
  }

  Dims dims;
  std::vector<double> numbers;
  UnsafeSet unsafe;
};

// As first_element, of those whose operands are taken.
std::optional<std::size_t> first_of_taken(const Datum& datum, const std::function<bool(double)>& wanted,
                                          const std::vector<Taken>& taken) {
  if (datum.tensor() == nullptr) return std::nullopt;
  const std::vector<double> numbers = elements<double>(*datum.tensor());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!wanted(numbers[i])) continue;
    const Dims index = index_at(datum.tensor()->dims(), i);
    if (std::ranges::all_of(taken, [&](const Taken& operand) { return operand.is_taken(index); })) return i;
  }
  return std::nullopt;
}

}  // namespace

Judge::Judge(const Graph& graph, const Analysis& analysis, Judged& judged, bool partial, Escaped escaped, Met met)
    : graph_(graph),
      analysis_(analysis),
      judged_(judged),
      partial_(partial),
      escaped_(std::move(escaped)),
      met_(std::move(met)),
      failed_(graph.values().size(), false),
      body_failed_(graph.bodies().size(), false) {
  for (const Finding& finding : analysis.findings) {
    // Where nothing is known of a result nothing was assumed of it either: no excuse.
    if (finding.verdict == Verdict::proved || !finding.node.valid() || is_ignorance(finding)) continue;
    open_[finding.node].push_back(&finding);
    if (partial_) suspect_bodies(graph_.node(finding.node).body);
  }
}

// What happens inside bodies is not recorded.
void Judge::suspect_bodies(BodyId body) {
  for (; body != Graph::kMain; body = graph_.node(graph_.body(body).owner).body) body_failed_[body.at()] = true;
}

const Datum* Judge::concrete(ValueId id) const {
  const auto found = values_.find(id);
  return found == values_.end() ? nullptr : &found->second;
}

void Judge::give(ValueId id, Datum datum) { values_[id] = std::move(datum); }

void Judge::check_given(ValueId id) {
  const Datum* datum = concrete(id);
  if (datum == nullptr || !analysis_.reached[id.at()]) return;
  const std::string escape = escape_of(analysis_.ranges[id.at()], *datum);
  if (!escape.empty()) escaped_(nullptr, id, escape);
  else check_relations(id, *datum);
}

bool Judge::inherits_failure(const Node& node) const {
  const auto failed = [&](ValueId id) {
    if (!id.valid()) return false;
    if (failed_[id.at()]) return true;
    // What enters a body is not traced: after one failure inside, everything entering it is suspect.
    const Value& value = graph_.value(id);
    const bool enters = !value.producer.valid() && !value.constant && value.body != Graph::kMain;
    if (!enters) return false;
    const Node& owner = graph_.node(graph_.body(value.body).owner);
    return body_failed_[value.body.at()] || inherits_failure(owner);
  };
  const auto body_failed = [&](BodyId body) { return static_cast<bool>(body_failed_[body.at()]); };
  // Whether a body runs at all is said by the first two operands of its owner: a condition, a number of trips.
  const auto wrongly_run = [&](const Node& inner) {
    if (inner.body == Graph::kMain) return false;
    const std::vector<ValueId>& asked = graph_.node(graph_.body(inner.body).owner).inputs;
    return std::any_of(asked.begin(), asked.begin() + std::min<std::ptrdiff_t>(std::ssize(asked), 2), failed);
  };
  return std::ranges::any_of(node.inputs, failed) || std::ranges::any_of(node.captures, failed) ||
         std::ranges::any_of(bodies_of(node.attrs), body_failed) || wrongly_run(node);
}

bool Judge::hits_unsafe(const Node& node, const Finding& finding) const {
  const auto operand = static_cast<std::size_t>(finding.operand);
  for (const Hazard& hazard : node.op->analysis.hazards) {
    if (hazard.quantity != nullptr || hazard.rule != finding.rule || hazard.operand != operand) continue;
    const Value& value = graph_.value(node.inputs[operand]);
    const Datum* datum = concrete(node.inputs[operand]);
    const Datum loaded = datum == nullptr && value.constant ? Datum(value.constant->load()) : Datum();
    const Tensor* tensor = datum == nullptr ? loaded.tensor() : datum->tensor();
    if (tensor == nullptr) return true;  // enters a body, or was not recorded: not known
    const UnsafeSet unsafe = hazard.unsafe(tensor->dtype());
    return std::ranges::any_of(elements<double>(*tensor), [&](double x) { return meets(point(x), unsafe); });
  }
  return false;
}

bool Judge::may_have_happened(const Node& node, const Finding& finding, std::span<const Datum> outputs,
                              bool escaped) const {
  if (node.op == nullptr) return true;
  const auto from_table = [&](const Hazard& hazard) {
    return hazard.quantity == nullptr && hazard.rule == finding.rule &&
           static_cast<int>(hazard.operand) == finding.operand;
  };
  if (finding.operand >= 0 && std::ranges::any_of(node.op->analysis.hazards, from_table))
    return hits_unsafe(node, finding);
  if (partial_ && !std::ranges::all_of(outputs, &Datum::present)) return true;
  if (finding.operand >= 0) return escaped;  // found by the rule itself, which alone knows its unsafe values
  return escaped || (std::ranges::any_of(outputs, has_non_finite) && !is_handed_on(node, outputs));
}

// NaN and infinities of the results were among the operands: a mask of -Inf, say.
bool Judge::is_handed_on(const Node& node, std::span<const Datum> outputs) const {
  const auto at_hand = [&](ValueId id) { return !id.valid() || operand(id).present(); };
  return std::ranges::all_of(node.inputs, at_hand) && new_failure(node, outputs, false).empty();
}

const std::vector<const Finding*>* Judge::open_at(const Node& node) const {
  const auto found = open_.find(graph_.value(*std::ranges::find_if(node.outputs, &ValueId::valid)).producer);
  return found == open_.end() ? nullptr : &found->second;
}

// Is there a finding that foretold what happened here?
bool Judge::predicted_failure(const Node& node, std::span<const Datum> outputs, bool escaped) const {
  const auto* open = open_at(node);
  if (open == nullptr) return false;
  return std::ranges::any_of(
      *open, [&](const Finding* finding) { return may_have_happened(node, *finding, outputs, escaped); });
}

// Absent when the elements are not at hand.
Datum Judge::operand(ValueId id) const {
  if (!id.valid()) return {};
  if (const Datum* datum = concrete(id)) return *datum;
  if (const auto entered = entering_.find(id); entered != entering_.end()) return entered->second;
  const Value& value = graph_.value(id);
  return value.constant && value.constant->missing().empty() ? Datum(value.constant->load()) : Datum();
}

// The first NaN or Inf of the results that the operands do not explain; "" when there is none. `by_itself`: nor is an
// operand there what the op does not take, as 1 / 0 is no overflow.
std::string Judge::new_failure(const Node& node, std::span<const Datum> outputs, bool by_itself) const {
  std::vector<Taken> taken;
  bool had_nan = false;
  bool had_inf = false;
  for (const ValueId id : node.inputs) {
    if (!id.valid()) continue;
    const Datum datum = operand(id);
    if (!datum.present()) return "";
    had_nan |= first_element(datum, [](double x) { return std::isnan(x); }).has_value();
    had_inf |= first_element(datum, [](double x) { return std::isinf(x); }).has_value();
  }
  if (by_itself && node.op->traits.elementwise) {
    for (const Hazard& hazard : node.op->analysis.hazards) {
      const bool there = hazard.quantity == nullptr && hazard.operand < node.inputs.size();
      const Datum datum = there ? operand(node.inputs[hazard.operand]) : Datum();
      if (datum.tensor() != nullptr) taken.emplace_back(*datum.tensor(), hazard);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto is_new = [&](double x) { return std::isnan(x) ? !had_nan : std::isinf(x) && !had_nan && !had_inf; };
    const auto at = taken.empty() ? first_element(outputs[i], is_new) : first_of_taken(outputs[i], is_new, taken);
    if (at && node.outputs[i].valid())
      return element_text(*outputs[i].tensor(), *at, graph_.value(node.outputs[i]).name);
  }
  return "";
}

// The first element of the finding's operand that its op does not take; "" when none is known.
std::string Judge::unsafe_element(const Node& node, const Finding& finding) const {
  if (node.op == nullptr || finding.operand < 0) return "";
  const auto index = static_cast<std::size_t>(finding.operand);
  for (const Hazard& hazard : node.op->analysis.hazards) {
    if (hazard.quantity != nullptr || hazard.rule != finding.rule) continue;
    if (hazard.operand != index || index >= node.inputs.size()) continue;
    const Datum datum = operand(node.inputs[index]);
    if (datum.tensor() == nullptr) return "";
    const UnsafeSet unsafe = hazard.unsafe(datum.tensor()->dtype());
    const auto at = first_element(datum, [&](double x) { return meets(point(x), unsafe); });
    return at ? element_text(*datum.tensor(), *at, graph_.value(node.inputs[index]).name) : "";
  }
  return "";
}

void Judge::tell_met(const Node& node, std::span<const Datum> outputs) const {
  const auto* open = open_at(node);
  if (!met_ || open == nullptr || node.op == nullptr) return;
  const auto holds_floats = [](const Datum& datum) {
    return datum.tensor() == nullptr || is_float(datum.tensor()->dtype());
  };
  const bool floats = std::ranges::any_of(outputs, holds_floats);
  const std::string made = floats ? new_failure(node, outputs, false) : "";
  const std::string by_itself = made.empty() ? "" : new_failure(node, outputs, true);
  for (const Finding* finding : *open) {
    // Integers cannot show that something went wrong: there the operand does.
    const std::string what = !floats ? unsafe_element(node, *finding) : finding->operand < 0 ? by_itself : made;
    if (!what.empty() && may_have_happened(node, *finding, outputs, true)) met_(*finding, what);
  }
}

void Judge::stopped_at(const Node& node) const {
  const auto* open = open_at(node);
  if (!met_ || open == nullptr || inherits_failure(node)) return;
  for (const Finding* finding : *open) {
    const std::string what = unsafe_element(node, *finding);
    if (!what.empty()) met_(*finding, what);
  }
}

void Judge::stopped(std::string_view error) const {
  for (const auto& [id, findings] : open_) {
    const Node& node = graph_.node(id);
    if (error.find(describe(graph_, node) + ": ") != std::string_view::npos) stopped_at(node);
  }
}

void Judge::fail_from(const Node& node, std::span<const Datum> outputs) {
  for (const ValueId id : node.outputs) {
    if (id.valid()) failed_[id.at()] = true;
  }
  if (node.body != Graph::kMain) body_failed_[node.body.at()] = true;
  if (!partial_) {
    ++judged_.skipped;
    return;
  }
  // It may not have happened at all: what is inside its range still counts.
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!id.valid() || !outputs[i].present()) continue;
    const bool inside = analysis_.reached[id.at()] && escape_of(analysis_.ranges[id.at()], outputs[i]).empty();
    if (inside) count(id, outputs[i]);
    else ++judged_.skipped;
  }
}

bool Judge::check_relations(ValueId id, const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  const AbsTensor& range = analysis_.ranges[id.at()];
  if (tensor == nullptr || graph_.value(id).body != Graph::kMain || !is_number(tensor->dtype())) return true;
  const auto source = [&](ValueId other) -> const Tensor* {
    const bool usable = other.valid() && !failed_[other.at()] && graph_.value(other).body == Graph::kMain;
    const Datum* found = usable ? concrete(other) : nullptr;
    return found == nullptr ? nullptr : found->tensor();
  };
  const Tensor* same = source(range.identity);
  if (same != nullptr && range.identity != id) {
    const bool equal = same->dims() == tensor->dims() &&
                       std::ranges::equal(elements<double>(*same), elements<double>(*tensor), same_number);
    if (!equal) {
      escaped_(nullptr, id, "was taken to be the same as '" + graph_.value(range.identity).name + "'");
      return false;
    }
  }
  const auto name = [&](ValueId other) { return graph_.value(other).name; };
  for (const Relation& relation : range.relations) {
    if (holds(relation, *tensor, source)) continue;
    escaped_(nullptr, id, "was taken to be " + to_text(relation, name) + " and is not");
    return false;
  }
  return true;
}

void Judge::count(ValueId id, const Datum& datum) {
  ++judged_.tensors;
  const AbsTensor& range = analysis_.ranges[id.at()];
  if (is_subset(top(range.dtype), range.hull())) ++judged_.vacuous;
  if (datum.tensor() != nullptr) judged_.elements += static_cast<std::size_t>(datum.tensor()->size());
}

void Judge::check_output(const Node& node, ValueId id, const Datum& datum, const std::string& escape) {
  if (!analysis_.reached[id.at()]) {
    if (analysis_.complete) escaped_(&node, id, "was taken to be never computed");
    return;
  }
  if (!escape.empty()) return escaped_(&node, id, escape);
  if (check_relations(id, datum)) count(id, datum);
}

void Judge::look_at(const Node& node, std::span<const Datum> outputs, std::span<const Datum> inputs) {
  entering_.clear();
  for (std::size_t i = 0; i < inputs.size() && node.body != Graph::kMain; ++i) {
    const ValueId id = node.inputs[i];
    if (id.valid() && !graph_.value(id).producer.valid() && !values_.contains(id)) entering_[id] = inputs[i];
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i].valid() && (!partial_ || outputs[i].present())) values_[node.outputs[i]] = outputs[i];
  }
  if (std::ranges::none_of(node.outputs, &ValueId::valid)) return;
  if (inherits_failure(node)) return fail_from(node, outputs);
  std::vector<std::string> escapes(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!id.valid()) continue;
    if (contradicts_file(graph_.value(id).type, outputs[i])) return fail_from(node, outputs);
    if (analysis_.reached[id.at()]) escapes[i] = escape_of(analysis_.ranges[id.at()], outputs[i]);
  }
  const bool escaped = !std::ranges::all_of(escapes, &std::string::empty);
  if (predicted_failure(node, outputs, escaped)) {
    tell_met(node, outputs);
    return fail_from(node, outputs);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!id.valid() || (partial_ && !outputs[i].present())) continue;
    check_output(node, id, outputs[i], escapes[i]);
  }
}

}  // namespace finity
