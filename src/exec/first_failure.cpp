#include "exec/first_failure.h"

#include <algorithm>
#include <cmath>

#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

std::optional<std::size_t> position_in(const Dims& operand, const Dims& index) {
  if (operand.size() > index.size()) return std::nullopt;
  const std::size_t missing = index.size() - operand.size();
  std::int64_t position = 0;
  for (std::size_t axis = 0; axis < operand.size(); ++axis) {
    const std::int64_t at = operand[axis] == 1 ? 0 : index[axis + missing];
    if (at >= operand[axis]) return std::nullopt;
    position = position * operand[axis] + at;
  }
  return static_cast<std::size_t>(position);
}

Dims index_at(const Dims& dims, std::size_t position) {
  Dims index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(dims[axis]);
    index[axis] = static_cast<std::int64_t>(position % size);
    position /= size;
  }
  return index;
}

namespace {

bool has_real_elements(const Tensor& tensor) {
  return is_float(tensor.dtype()) || is_int(tensor.dtype()) || tensor.dtype() == DType::boolean;
}

// Constants and fillers say what they are; nothing was computed.
bool states_its_result(const Node& node) { return node.inputs.empty() || node.attrs.find("value") != nullptr; }

int earlier(int a, int b) {
  if (a < 0 || b < 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

FailureFinder::Seen FailureFinder::joined(const Seen& a, const Seen& b) {
  return {a.nan || b.nan, a.infinite || b.infinite, earlier(a.failure, b.failure), a.given.valid() ? a.given : b.given};
}

FailureFinder::Seen FailureFinder::look_at(const Datum& datum) {
  Seen seen;
  if (const Sequence* items = datum.sequence()) {
    for (const Datum& item : *items) seen = joined(seen, look_at(item));
  }
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return seen;
  for (const double x : elements<double>(*tensor)) {
    seen.nan |= std::isnan(x);
    seen.infinite |= std::isinf(x);
  }
  return seen;
}

bool has_non_finite_element(const Datum& datum) {
  if (const Sequence* items = datum.sequence()) return std::ranges::any_of(*items, has_non_finite_element);
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), [](double x) { return !std::isfinite(x); });
}

// What enters a body comes from the operands of its owner, or from the iteration before.
int FailureFinder::failure_behind(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.producer.valid()) return seen_[id.at()].failure;
  if (value.constant || !value.body.valid() || value.body == Graph::kMain) return -1;
  const Body& body = graph_.body(value.body);
  int first = -1;
  for (const ValueId outer : graph_.node(body.owner).inputs) {
    if (outer.valid()) first = earlier(first, failure_behind(outer));
  }
  for (const ValueId output : body.outputs) first = earlier(first, seen_[output.at()].failure);
  return first;
}

// What reaches the node: its operands, what its bodies use, and what they gave.
FailureFinder::Seen FailureFinder::before(const Node& node, std::span<const Datum> inputs) const {
  Seen all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    Seen one = look_at(inputs[i]);
    if (one.nan || one.infinite) {
      one.failure = failure_behind(node.inputs[i]);
      one.given = given_behind(node.inputs[i]);
    }
    all = joined(all, one);
  }
  const auto add = [&](ValueId id) { all = joined(all, seen_[id.at()]); };
  std::ranges::for_each(node.captures, add);
  for (const BodyId body : bodies_of(node.attrs)) std::ranges::for_each(graph_.body(body).outputs, add);
  return all;
}

void FailureFinder::saw(const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
  std::optional<Seen> reached;  // seldom needed
  for (std::size_t i = 0; i < outputs.size() && i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    Seen now = look_at(outputs[i]);
    if (now.nan || now.infinite) {
      if (!reached) reached = before(node, inputs);
      now.failure = reached->failure;
      now.given = states_its_result(node) ? node.outputs[i] : reached->given;
      const bool made = now.nan ? !reached->nan : !reached->infinite && !reached->nan;
      if (made && now.failure < 0 && !states_its_result(node) && outputs[i].tensor() != nullptr) {
        now.failure = static_cast<int>(failures_.size());
        remember(node, node.outputs[i], inputs, outputs[i]);
      }
    }
    seen_[node.outputs[i].at()] = now;
  }
}

void FailureFinder::remember(const Node& node, ValueId value, std::span<const Datum> inputs, const Datum& output) {
  const std::vector<double> numbers = elements<double>(*output.tensor());
  const auto bad = std::ranges::find_if(numbers, [](double x) { return !std::isfinite(x); });
  FirstFailure failure = {.node = &node, .value = value, .element = *bad, .dtype = output.tensor()->dtype()};
  failure.index = index_at(output.tensor()->dims(), static_cast<std::size_t>(bad - numbers.begin()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    OperandThere operand = {.value = node.inputs[i], .datum = inputs[i]};
    const Tensor* tensor = inputs[i].tensor();
    if (node.op != nullptr && node.op->traits.elementwise && tensor != nullptr && has_real_elements(*tensor)) {
      const std::optional<std::size_t> at = position_in(tensor->dims(), failure.index);
      if (at) operand.element = elements<double>(*tensor)[*at];
    }
    failure.operands.push_back(std::move(operand));
  }
  failures_.push_back(std::move(failure));
}

ValueId FailureFinder::given_behind(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.producer.valid()) return seen_[id.at()].given;
  return value.constant || value.body == Graph::kMain ? id : ValueId{};
}

const FirstFailure* FailureFinder::behind(ValueId id) const {
  const int failure = failure_behind(id);
  return failure < 0 ? nullptr : &failures_[static_cast<std::size_t>(failure)];
}

}  // namespace finity
