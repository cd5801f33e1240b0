#include "check/joint.h"

#include <algorithm>

#include "base/suggest.h"

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
  if (floats.empty()) throw Error("--train: the model has no float output to take the gradient of");
  const std::string choices = "choose one with --loss: " + quoted_names(graph, floats);
  if (name.empty()) throw Error("--train: the model has several outputs; " + choices);
  throw Error("--loss: the model has no float output named '" + name + "'; " + choices);
}

// Epsilons and factors are initializers too, but nobody trains them.
bool is_weight(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.constant || !is_float(value.constant->dtype())) return false;
  const Dims& dims = value.constant->dims();
  return !dims.empty() && element_count(dims) > 1;
}

std::vector<ValueId> trained_values(const Graph& graph, const Types& types, bool& weights) {
  std::vector<ValueId> found;
  for (const ValueId id : graph.main().constants) {
    if (is_weight(graph, id)) found.push_back(id);
  }
  weights = !found.empty();
  if (weights) return found;
  for (const ValueId id : graph.main().inputs) {
    if (is_differentiable(types[id])) found.push_back(id);
  }
  return found;
}

}  // namespace

JointGraph with_backward_pass(const Graph& graph, const Types& types, const Training& training) {
  const ValueId loss = loss_of(graph, types, training.loss);
  bool weights = false;
  const std::vector<ValueId> wanted = trained_values(graph, types, weights);
  GraphWriter writer(graph, types);
  GradientResult gradient = add_gradient(writer, loss, wanted);
  std::size_t count = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!gradient.of[i].valid()) continue;
    ++count;
    writer.add_output(gradient.of[i], "gradient of " + graph.value(wanted[i]).name);
  }
  if (count == 0 && gradient.stops.empty()) {
    throw Error("--train: '" + graph.value(loss).name + "' depends on no weight" + (weights ? "" : " or float input"));
  }
  JointGraph joint;
  joint.words = "gradient of '" + graph.value(loss).name + "' by " + std::to_string(count) +
                (weights ? " weight" : " input") + (count == 1 ? "" : "s");
  joint.stops = std::move(gradient.stops);
  GraphWriter::Result built = std::move(writer).finish();
  joint.graph = std::move(built.graph);
  joint.types = std::move(built.types);
  return joint;
}

}  // namespace finity
