#include "check/joint.h"

#include <algorithm>
#include <iterator>

#include "check/contract.h"

namespace finity {

namespace {

bool is_differentiable(const Type& type) { return type.is_tensor() && is_float(type.dtype); }

std::string quoted_names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) text += (text.empty() ? "'" : ", '") + graph.value(id).name + "'";
  return text;
}

ValueId loss_of(const Graph& graph, const Types& types, const std::string& name) {
  std::vector<ValueId> floats;
  for (const ValueId id : graph.main().outputs) {
    if (!is_differentiable(types[id])) continue;
    if (!name.empty() && graph.value(id).name == name) return id;
    floats.push_back(id);
  }
  if (name.empty() && floats.size() == 1) return floats.front();
  const bool untyped = std::ranges::any_of(
      graph.main().outputs, [&](ValueId id) { return types[id].is_tensor() && types[id].dtype == DType::undefined; });
  if (floats.empty() && untyped)
    throw Error(
        "--train: there is no output to take the gradient of: their formats are not known, as they come from "
        "operators that are not modelled");
  if (floats.empty()) throw Error("--train: the model has no float output to take the gradient of");
  const std::string choices = "choose one with --loss: " + quoted_names(graph, floats);
  if (name.empty()) throw Error("--train: the model has several outputs; " + choices);
  throw Error("--loss: the model has no float output named '" + name + "'; " + choices);
}

// Single numbers are mostly epsilons and exponents, which nobody trains.
bool is_weight(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.constant && is_float(value.constant->dtype()) && !value.constant->dims().empty();
}

bool is_single_number(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.constant && is_float(value.constant->dtype()) && value.constant->dims().empty();
}

std::vector<ValueId> values_by_default(const Graph& graph, const Types& types) {
  std::vector<ValueId> found;
  for (const ValueId id : graph.main().inputs) {
    if (is_differentiable(types[id])) found.push_back(id);
  }
  for (const ValueId id : graph.main().constants) {
    if (is_weight(graph, id) && std::ranges::find(found, id) == found.end()) found.push_back(id);
  }
  return found;
}

std::vector<ValueId> values_named(const Graph& graph, const Types& types, const std::vector<std::string>& patterns) {
  std::vector<ValueId> candidates = graph.main().inputs;
  std::ranges::copy(graph.main().constants, std::back_inserter(candidates));
  std::vector<ValueId> found;
  for (const std::string& pattern : patterns) {
    const std::size_t before = found.size();
    for (const ValueId id : candidates) {
      const bool fits = is_differentiable(types[id]) && matches_glob(pattern, graph.value(id).name);
      if (fits && std::ranges::find(found, id) == found.end()) found.push_back(id);
    }
    if (found.size() == before) throw Error("--by: the model has no float input or weight named '" + pattern + "'");
  }
  return found;
}

std::string counted_words(std::size_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

}  // namespace

JointGraph with_backward_pass(const Graph& graph, const Types& types, const Training& training) {
  const ValueId loss = loss_of(graph, types, training.loss);
  const std::vector<ValueId> wanted =
      training.by.empty() ? values_by_default(graph, types) : values_named(graph, types, training.by);
  GraphWriter writer(graph, types);
  GradientResult gradient = add_gradient(writer, loss, wanted);
  std::size_t inputs = 0, weights = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!gradient.of[i].valid()) continue;
    ++(graph.value(wanted[i]).constant ? weights : inputs);
    writer.add_output(gradient.of[i], "gradient of " + graph.value(wanted[i]).name);
  }
  if (inputs + weights == 0 && gradient.stops.empty()) {
    throw Error("--train: no gradient of '" + graph.value(loss).name + "' by a float input or weight is defined");
  }
  JointGraph joint;
  joint.words = "gradient of '" + graph.value(loss).name + "' by ";
  if (inputs > 0 || weights == 0) joint.words += counted_words(inputs, "input");
  if (weights > 0) joint.words += (inputs > 0 ? " and " : "") + counted_words(weights, "weight");
  // One of them may be trained after all.
  const auto numbers = static_cast<std::size_t>(
      std::ranges::count_if(graph.main().constants, [&](ValueId id) { return is_single_number(graph, id); }));
  if (training.by.empty() && numbers > 0) joint.words += " (not by " + counted_words(numbers, "single number") + ")";
  joint.stops = std::move(gradient.stops);
  GraphWriter::Result built = std::move(writer).finish();
  joint.graph = std::move(built.graph);
  joint.types = std::move(built.types);
  return joint;
}

}  // namespace finity
