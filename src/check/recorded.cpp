#include "check/recorded.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "check/escape.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// numpy has no bfloat16, no 8-bit floats and no int4: wider arrays stand for them when nothing is lost.
Datum as_format(Datum datum, DType wanted) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || wanted == DType::undefined || tensor->dtype() == wanted) return datum;
  const bool alike = (is_float(wanted) && is_float(tensor->dtype())) || (is_int(wanted) && is_int(tensor->dtype()));
  if (!alike || info(wanted).bits >= info(tensor->dtype()).bits) return datum;
  const std::vector<double> values = elements<double>(*tensor);
  Tensor narrow = is_float(wanted)
                      ? from_elements<double>(wanted, tensor->dims(), values)
                      : from_elements<std::int64_t>(wanted, tensor->dims(), elements<std::int64_t>(*tensor));
  return std::ranges::equal(elements<double>(narrow), values, same_number) ? Datum(std::move(narrow)) : datum;
}

class Comparison {
 public:
  Comparison(const Graph& graph, const Premises& premises, const Analysis& analysis, RecordedReport& report)
      : graph_(graph),
        premises_(premises),
        analysis_(analysis),
        report_(report),
        judge_(graph, analysis, report, true,
               [this](const Node* node, ValueId id, const std::string& what) { note(node, id, what); }),
        outside_(graph.values().size(), false) {}

  void run(const RecordedValues& recorded);

 private:
  void match(const RecordedValues& recorded);
  void check_given();
  void check_sizes(ValueId id, const Tensor& tensor) const;
  void check_columns(const ColumnOrder& order) const;
  void note(const Node* node, ValueId id, const std::string& what);
  void look_at(const Node& node);
  bool follows(ValueId id) const;
  [[noreturn]] void broken_promise(ValueId id, const std::string& what) const;

  const Graph& graph_;
  const Premises& premises_;
  const Analysis& analysis_;
  RecordedReport& report_;
  Judge judge_;
  std::map<ValueId, Datum> found_;
  std::vector<bool> outside_;  // by ValueId: outside its range, or computed from such a value
  bool given_ = true;          // still at the inputs and weights
};

void Comparison::broken_promise(ValueId id, const std::string& what) const {
  const auto& inputs = graph_.main().inputs;
  const bool input = std::ranges::find(inputs, id) != inputs.end();
  throw Error(std::string(input ? "input" : "weight") + " '" + graph_.value(id).name + "' " + what +
              ": the values were recorded outside the assumptions, so nothing is promised of them");
}

// Only the main graph's values have one value per run.
void Comparison::match(const RecordedValues& recorded) {
  std::unordered_map<std::string_view, ValueId> names;
  for (std::size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.body != Graph::kMain || value.name.empty()) continue;
    const ValueId id{static_cast<std::int32_t>(i)};
    // Two values of one name (inlined calls): neither is meant for sure.
    if (const auto [at, fresh] = names.try_emplace(value.name, id); !fresh) at->second = {};
  }
  for (const auto& [name, datum] : recorded.values) {
    const auto named = names.find(name);
    if (named == names.end() || !named->second.valid()) add_once(report_.unmatched, name);
    else found_[named->second] = as_format(datum, analysis_.ranges[named->second.at()].dtype);
  }
}

void Comparison::check_sizes(ValueId id, const Tensor& tensor) const {
  const AbsTensor& range = analysis_.ranges[id.at()];
  for (std::size_t axis = 0; range.ranked && axis < range.rank() && range.rank() == tensor.rank(); ++axis) {
    const std::int64_t size = tensor.dim(axis);
    if (range.sizes[axis] >= 0 || (size >= 1 && static_cast<double>(size) <= kManyElements)) continue;
    broken_promise(id, "has shape " + to_string(tensor.dims()) + ", and unknown sizes are assumed to be 1 to " +
                           std::to_string(static_cast<std::int64_t>(kManyElements)));
  }
}

void Comparison::check_columns(const ColumnOrder& order) const {
  const auto found = found_.find(order.value);
  const Tensor* tensor = found == found_.end() ? nullptr : found->second.tensor();
  if (tensor == nullptr || tensor->rank() == 0) return;
  const std::vector<double> values = elements<double>(*tensor);
  const auto columns = static_cast<std::size_t>(tensor->dims().back());
  const auto above = static_cast<std::size_t>(order.greater);
  const auto below = static_cast<std::size_t>(order.smaller);
  for (std::size_t row = 0; std::max(above, below) < columns && row + columns <= values.size(); row += columns) {
    if (values[row + above] >= values[row + below]) continue;
    broken_promise(order.value, "has a row in which column " + std::to_string(order.greater) + " is below column " +
                                    std::to_string(order.smaller));
  }
}

// Everything that no node computes.
void Comparison::check_given() {
  for (const auto& [id, datum] : found_) {
    if (!graph_.value(id).producer.valid()) judge_.give(id, datum);
  }
  for (const auto& [id, datum] : found_) {
    if (graph_.value(id).producer.valid() || !analysis_.reached[id.at()]) continue;
    if (datum.tensor() != nullptr) check_sizes(id, *datum.tensor());
    judge_.check_given(id);
  }
  for (const ColumnOrder& order : premises_.column_orders) check_columns(order);
  for (const ValueId id : graph_.main().inputs) {
    if (!found_.contains(id) && !graph_.value(id).constant) add_once(report_.unrecorded, graph_.value(id).name);
  }
  given_ = false;
}

bool Comparison::follows(ValueId id) const {
  const NodeId producer = graph_.value(id).producer;
  if (!producer.valid()) return false;
  const auto bad = [&](ValueId operand) { return operand.valid() && outside_[operand.at()]; };
  const Node& node = graph_.node(producer);
  return std::ranges::any_of(node.inputs, bad) || std::ranges::any_of(node.captures, bad);
}

void Comparison::note(const Node* node, ValueId id, const std::string& what) {
  if (given_) broken_promise(id, what);
  outside_[id.at()] = true;
  if (follows(id)) {
    ++report_.following;
    return;
  }
  const NodeId producer = graph_.value(id).producer;
  const std::string where = node != nullptr    ? describe(graph_, *node)
                            : producer.valid() ? describe(graph_, graph_.node(producer))
                                               : "input";
  report_.outside.push_back("'" + graph_.value(id).name + "' of " + where + ": " + what);
}

void Comparison::look_at(const Node& node) {
  std::vector<Datum> outputs(node.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto found = found_.find(node.outputs[i]);
    if (found != found_.end()) outputs[i] = found->second;
  }
  judge_.look_at(node, outputs);
  for (const ValueId id : node.outputs) {
    if (id.valid() && follows(id)) outside_[id.at()] = true;
  }
}

void Comparison::run(const RecordedValues& recorded) {
  match(recorded);
  if (found_.empty()) throw Error("none of its " + std::to_string(recorded.values.size()) + " names is in the model");
  check_given();
  for (const NodeId id : graph_.main().nodes) look_at(graph_.node(id));
  ++report_.runs;
}

}  // namespace

void compare_recorded(const Graph& graph, const Premises& premises, const Analysis& analysis,
                      const RecordedValues& recorded, RecordedReport& report) {
  try {
    Comparison(graph, premises, analysis, report).run(recorded);
  } catch (Error& error) {
    error.in(recorded.where);
    throw;
  }
}

}  // namespace finity
