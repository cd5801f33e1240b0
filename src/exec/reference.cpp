#include "exec/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/memory_error.h"
#include "base/time_limit.h"
#include "graph/users.h"
#include "ops/table/op.h"
#include "types/check.h"

namespace finity {

namespace {

template <class T>
void flush_elements(Tensor& tensor) {
  const auto is_subnormal = [](T x) { return x != 0 && std::abs(x) < std::numeric_limits<T>::min(); };
  if (std::ranges::none_of(std::as_const(tensor).data<T>(), is_subnormal)) return;
  for (T& x : tensor.mutable_data<T>()) {
    if (is_subnormal(x)) x = std::copysign(T(0), x);
  }
}

// Subnormal numbers of a tensor become zeros; sequences are left as they are.
void flush(Datum& datum) {
  auto* tensor = std::get_if<Tensor>(&datum.content);
  if (tensor == nullptr) return;
  if (tensor->dtype() == DType::float32) flush_elements<float>(*tensor);
  if (tensor->dtype() == DType::float64) flush_elements<double>(*tensor);
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, const RunOptions& options)
      : graph_(graph),
        options_(options),
        rng_(options.seed),
        values_(graph.values().size()),
        uses_(count_uses(graph, graph.main())) {}

  std::vector<Datum> run_main(const Inputs& inputs);

 private:
  void load_inputs(const Inputs& inputs);
  std::vector<Datum> run_body(BodyId id, std::span<const Datum> inputs);
  void run_nodes(const Body& body);
  void run_node(const Node& node);
  bool is_given(const Node& node) const;
  void lose(const Node& node, const std::string& reason);
  bool depends_on_lost(const Node& node);
  const Datum& get(ValueId id);
  std::vector<Datum> outputs_of(const Body& body);
  void release(const Node& node);

  const Graph& graph_;
  const RunOptions& options_;
  Rng rng_;
  std::vector<Datum> values_;
  std::unordered_set<ValueId> lost_;  // cannot be computed, see RunOptions::unsupported
  std::vector<int> uses_;             // of main-body values: how many nodes still need them
};

// Memory: a value of the main body is dropped after its last user. Values of
// subgraphs are overwritten by the next iteration.
void Interpreter::release(const Node& node) {
  if (node.body != Graph::kMain) return;
  const auto drop = [&](ValueId id) {
    if (id.valid() && --uses_[id.at()] == 0) values_[id.at()] = {};
  };
  std::ranges::for_each(node.inputs, drop);
  std::ranges::for_each(node.captures, drop);
}

void Interpreter::load_inputs(const Inputs& inputs) {
  const Body& body = graph_.main();
  if (options_.weights != nullptr) {
    for (const auto& [id, datum] : *options_.weights) values_[id.at()] = datum;
  }
  for (const auto& [name, datum] : inputs) {
    const auto named = [&, &wanted = name](ValueId id) { return graph_.value(id).name == wanted; };
    if (std::ranges::none_of(body.inputs, named)) throw Error("the model has no input named '" + name + "'");
  }
  for (const ValueId id : body.inputs) {
    const Value& value = graph_.value(id);
    const auto given = inputs.find(value.name);
    if (given != inputs.end()) values_[id.at()] = given->second;
    else if (!value.constant && value.type.kind != Type::Kind::optional)
      throw Error("input '" + value.name + "' is missing");
  }
}

std::vector<Datum> Interpreter::run_main(const Inputs& inputs) {
  load_inputs(inputs);
  run_nodes(graph_.main());
  return outputs_of(graph_.main());
}

std::vector<Datum> Interpreter::run_body(BodyId id, std::span<const Datum> inputs) {
  const Body& body = graph_.body(id);
  if (inputs.size() != body.inputs.size()) {
    throw Error("subgraph '" + body.name + "' takes " + std::to_string(body.inputs.size()) + " inputs, got " +
                std::to_string(inputs.size()));
  }
  check_time();
  for (std::size_t i = 0; i < inputs.size(); ++i) values_[body.inputs[i].at()] = inputs[i];
  run_nodes(body);
  return outputs_of(body);
}

std::vector<Datum> Interpreter::outputs_of(const Body& body) {
  std::vector<Datum> outputs;
  for (const ValueId output : body.outputs) outputs.push_back(get(output));
  return outputs;
}

void Interpreter::run_nodes(const Body& body) {
  for (const NodeId id : body.nodes) {
    const Node& node = graph_.node(id);
    try {
      if (!depends_on_lost(node)) with_memory_errors([&] { run_node(node); });
    } catch (const Unsupported& error) {
      lose(node, error.what());
    } catch (Error& error) {
      error.in(describe(graph_, node));
      throw;
    }
    release(node);
  }
}

// Goes on without the node's outputs where that is wanted, else throws again with the node's name.
void Interpreter::lose(const Node& node, const std::string& reason) {
  const bool tolerated = options_.unsupported != nullptr && node.body == Graph::kMain;
  if (!tolerated) throw Unsupported(describe(graph_, node) + ": " + reason);
  options_.unsupported->push_back({describe(graph_, node), reason});
  for (const ValueId id : node.outputs) {
    if (id.valid()) lost_.insert(id);
  }
}

bool Interpreter::depends_on_lost(const Node& node) {
  if (lost_.empty() || node.body != Graph::kMain) return false;
  const auto is_lost = [&](ValueId id) { return lost_.contains(id); };
  if (std::ranges::none_of(node.inputs, is_lost) && std::ranges::none_of(node.captures, is_lost)) return false;
  lost_.insert(node.outputs.begin(), node.outputs.end());
  return true;
}

const Datum& Interpreter::get(ValueId id) {
  static const Datum kAbsent;
  if (!id.valid()) return kAbsent;
  Datum& datum = values_[id.at()];
  if (!datum.present() && graph_.value(id).constant) {
    try {
      datum = graph_.value(id).constant->load();
    } catch (Error& error) {
      error.in("constant '" + graph_.value(id).name + "'");
      throw;
    }
  }
  return datum;
}

// A draw that the caller chose.
bool Interpreter::is_given(const Node& node) const {
  if (options_.weights == nullptr || options_.weights->empty() || node.op == nullptr || !node.op->traits.random)
    return false;
  const auto given = [&](ValueId id) { return !id.valid() || options_.weights->contains(id); };
  return std::ranges::all_of(node.outputs, given);
}

void Interpreter::run_node(const Node& node) {
  check_time();
  if (is_given(node)) return;
  if (node.op == nullptr) throw Unsupported("op is not modelled");
  if (node.op->meaning.eval == nullptr) throw Unsupported("op cannot be run by the reference");
  check_arity(*node.op, node);
  check_attrs(*node.op, node);
  std::vector<Datum> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) inputs.push_back(get(id));
  if (options_.flush_subnormals) std::ranges::for_each(inputs, [](Datum& datum) { flush(datum); });
  EvalCall call(call_of(graph_, node), inputs, rng_,
                [this](BodyId id, std::span<const Datum> arguments) { return run_body(id, arguments); });
  node.op->meaning.eval(call);
  if (options_.flush_subnormals) std::ranges::for_each(call.outs(), [](Datum& datum) { flush(datum); });
  if (options_.trace) options_.trace(node, call.outs());
  if (options_.watch) options_.watch(node, inputs, call.outs());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) values_[node.outputs[i].at()] = std::move(call.outs()[i]);
  }
}

}  // namespace

std::vector<Datum> run_reference(const Graph& graph, const Inputs& inputs, const RunOptions& options) {
  return Interpreter(graph, options).run_main(inputs);
}

}  // namespace finity
