#include "gradient/gradient.h"

#include <algorithm>
#include <optional>

#include "ops/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

class Backward {
 public:
  Backward(GraphWriter& writer, ValueId output, std::span<const ValueId> wanted)
      : writer_(writer), output_(output), wanted_(wanted) {}

  GradientResult run();

 private:
  const Graph& graph() const { return writer_.graph(); }
  bool carries_gradient(ValueId id) const { return id.valid() && is_float(writer_.type(id).dtype); }
  void mark_dependent();
  bool depends(ValueId id) const { return id.valid() && id.at() < dependent_.size() && dependent_[id.at()]; }
  bool has_gradient(ValueId id) const {
    return id.valid() && id.at() < gradients_.size() && gradients_[id.at()].valid();
  }
  void visit(NodeId id);
  void stop(NodeId id, std::string reason);
  void collect(const BuildCall& call, const Node& node);
  ValueId seed();

  GraphWriter& writer_;
  ValueId output_;
  std::span<const ValueId> wanted_;
  std::vector<bool> dependent_;     // by ValueId: computed from something wanted
  std::vector<ValueId> gradients_;  // by ValueId
  GradientResult result_;
};

void Backward::mark_dependent() {
  dependent_.assign(graph().values().size(), false);
  for (const ValueId id : wanted_) dependent_[id.at()] = true;
  const auto is_marked = [&](ValueId id) { return depends(id); };
  for (const NodeId id : graph().main().nodes) {
    const Node& node = graph().node(id);
    if (std::ranges::none_of(node.inputs, is_marked) && std::ranges::none_of(node.captures, is_marked)) continue;
    for (const ValueId out : node.outputs) {
      if (carries_gradient(out)) dependent_[out.at()] = true;
    }
  }
}

ValueId Backward::seed() {
  const Node nothing;
  BuildCall call(graph(), nothing, writer_, {}, {});
  return call.ones_like(output_);
}

GradientResult Backward::run() {
  mark_dependent();
  gradients_.resize(graph().values().size());
  result_.of.resize(wanted_.size());
  if (!depends(output_)) return std::move(result_);
  const std::vector<NodeId> forward = graph().main().nodes;
  writer_.set_gradient_of(graph().value(output_).producer);
  gradients_[output_.at()] = seed();
  for (std::size_t i = forward.size(); i-- > 0;) visit(forward[i]);
  writer_.set_gradient_of({});
  for (std::size_t i = 0; i < wanted_.size(); ++i) result_.of[i] = gradients_[wanted_[i].at()];
  return std::move(result_);
}

void Backward::visit(NodeId id) {
  const Node node = graph().node(id);  // a copy: nodes are added while it is looked at
  const auto flows = [&](ValueId value) { return has_gradient(value); };
  if (std::ranges::none_of(node.outputs, flows)) return;
  std::vector<bool> wanted;
  for (const ValueId in : node.inputs) wanted.push_back(depends(in) && carries_gradient(in));
  const bool captured = std::ranges::any_of(node.captures, [&](ValueId value) { return depends(value); });
  if (std::ranges::find(wanted, true) == wanted.end() && !captured) return;
  if (node.op == nullptr) return stop(id, "op is not modelled");
  if (node.op->vjp == nullptr) return stop(id, "its derivative is not known");
  std::vector<ValueId> arriving;
  for (const ValueId out : node.outputs) arriving.push_back(has_gradient(out) ? gradients_[out.at()] : ValueId{});
  writer_.set_gradient_of(id);
  BuildCall call(graph(), node, writer_, std::move(arriving), std::move(wanted));
  try {
    node.op->vjp(call);
  } catch (const Unsupported& reason) {
    return stop(id, reason.what());
  } catch (Error& error) {
    error.in("gradient of " + describe(graph(), graph().node(id)));
    throw;
  }
  collect(call, node);
}

void Backward::collect(const BuildCall& call, const Node& node) {
  for (std::size_t i = 0; i < call.given().size(); ++i) {
    if (!call.given()[i].valid()) continue;
    const ValueId operand = node.inputs[i];
    const ValueId part = writer_.sum_to(call.given()[i], operand);
    gradients_.resize(std::max(gradients_.size(), operand.at() + 1));
    ValueId& total = gradients_[operand.at()];
    total = total.valid() ? writer_.add("Add", {total, part}) : part;
  }
}

void Backward::stop(NodeId id, std::string reason) {
  result_.stops.push_back({describe(graph(), graph().node(id)), std::move(reason)});
}

}  // namespace

GradientResult add_gradient(GraphWriter& writer, ValueId output, std::span<const ValueId> wanted) {
  return Backward(writer, output, wanted).run();
}

}  // namespace finity
