#include "check/observed.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "tensor/convert.h"

namespace finity {

Observer::Observer(const Graph& graph, const Types& types, Worker* torch)
    : graph_(graph), types_(types), torch_(torch), ranges_(graph.values().size()) {}

void Observer::look_at(ValueId id, const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (!id.valid() || tensor == nullptr || !is_float(tensor->dtype())) return;
  ObservedRange& range = ranges_[id.at()];
  for (const double x : elements<double>(*tensor)) {
    if (!std::isfinite(x)) continue;
    range.lo = std::min(range.lo, x);
    range.hi = std::max(range.hi, x);
  }
}

void Observer::prepare_request() {
  GraphBuilder builder(graph_);
  wanted_ = graph_.main().outputs;
  std::set<ValueId> there(wanted_.begin(), wanted_.end());
  for (const NodeId node : graph_.main().nodes) {
    for (const ValueId out : graph_.node(node).outputs) {
      if (!out.valid() || !is_float(types_[out].dtype) || !there.insert(out).second) continue;
      builder.add_output(Graph::kMain, out);
      wanted_.push_back(out);
    }
  }
  const Graph graph = std::move(builder).build();
  request_.model = write_onnx(graph);
  for (const ValueId id : graph.main().outputs) request_.run.outputs.push_back(graph.value(id).name);
}

bool Observer::run_in_torch(const Inputs& inputs) {
  if (torch_ == nullptr) return false;
  if (request_.model.empty()) prepare_request();
  request_.run.inputs.clear();
  for (const auto& [name, datum] : inputs) request_.run.inputs.emplace_back(name, datum);
  const Answer answer = torch_->run(request_);
  if (!answer.done() || answer.outputs.size() != wanted_.size()) {
    torch_ = nullptr;  // it will not do better the next time
    return false;
  }
  for (std::size_t i = 0; i < wanted_.size(); ++i) look_at(wanted_[i], answer.outputs[i].second);
  return true;
}

void Observer::run(const Inputs& inputs, std::uint64_t seed) {
  for (const ValueId id : graph_.main().inputs) {
    const auto given = inputs.find(graph_.value(id).name);
    if (given != inputs.end()) look_at(id, given->second);
  }
  if (!run_in_torch(inputs)) {
    RunOptions options = {.seed = seed};
    options.trace = [&](const Node& node, std::span<const Datum> outputs) {
      for (std::size_t i = 0; i < outputs.size(); ++i) look_at(node.outputs[i], outputs[i]);
    };
    run_reference(graph_, inputs, options);
  }
  ++runs_;
}

}  // namespace finity
