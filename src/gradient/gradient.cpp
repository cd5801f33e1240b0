#include "gradient/gradient.h"

#include <algorithm>
#include <optional>

#include "ops/table/gradient_values.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// From some values of one body back to others of it, or of bodies around it.
class Backward {
 public:
  Backward(GraphWriter& writer, std::span<const ValueId> wanted, std::vector<GradientStop>& stops);

  void start(ValueId output, ValueId gradient) { add_part(output, gradient); }
  bool depends(ValueId id) const { return id.valid() && id.at() < dependent_.size() && dependent_[id.at()]; }
  // Goes through what is in the body now.
  void run();
  // The same inside of a derivative rule, for the definition it wrote: values that are wanted are where it ends, and
  // the nodes that are added stay named after the node that the rule is for.
  void run_inside(std::span<const ValueId> wanted);
  ValueId gradient(ValueId id) const { return has_gradient(id) ? gradients_[id.at()] : ValueId{}; }

 private:
  const Graph& graph() const { return writer_.graph(); }
  const Type& type(ValueId id) const { return writer_.type(id); }
  bool carries_gradient(ValueId id) const { return holds_floats(type(id)); }
  // What is not known to hold something else.
  bool may_carry_gradient(ValueId id) const {
    const Type& held = innermost(type(id));
    return !held.is_tensor() || is_float(held.dtype) || held.dtype == DType::undefined;
  }
  bool has_gradient(ValueId id) const {
    return id.valid() && id.at() < gradients_.size() && gradients_[id.at()].valid();
  }
  void visit(NodeId id);
  bool asks_for(const Node& node, NodeId id, std::vector<bool>& wanted);
  std::vector<ValueId> derive(std::span<const ValueId> outputs, std::span<const ValueId> gradients,
                              std::span<const ValueId> wanted);
  void stop(NodeId id, std::string reason);
  bool may_broadcast(const Node& node) const;
  void collect(const BuildCall& call, const Node& node);
  void add_part(ValueId value, ValueId part);

  GraphWriter& writer_;
  std::vector<GradientStop>& stops_;
  std::vector<NodeId> forward_;
  bool inside_ = false;             // of a derivative rule
  std::vector<ValueId> ends_;       // sorted
  std::vector<bool> dependent_;     // by ValueId: computed from something wanted
  std::vector<ValueId> gradients_;  // by ValueId
};

Backward::Backward(GraphWriter& writer, std::span<const ValueId> wanted, std::vector<GradientStop>& stops)
    : writer_(writer), stops_(stops), forward_(graph().body(writer.current_body()).nodes) {
  dependent_.assign(graph().values().size(), false);
  for (const ValueId id : wanted) dependent_[id.at()] = true;
  const auto is_marked = [&](ValueId id) { return depends(id); };
  for (const NodeId id : forward_) {
    const Node& node = graph().node(id);
    if (std::ranges::none_of(node.inputs, is_marked) && std::ranges::none_of(node.captures, is_marked)) continue;
    for (const ValueId out : node.outputs) {
      if (out.valid() && may_carry_gradient(out)) dependent_[out.at()] = true;
    }
  }
}

void Backward::run() {
  for (std::size_t i = forward_.size(); i-- > 0;) visit(forward_[i]);
}

void Backward::run_inside(std::span<const ValueId> wanted) {
  inside_ = true;
  ends_.assign(wanted.begin(), wanted.end());
  std::ranges::sort(ends_);
  run();
}

void Backward::visit(NodeId id) {
  const auto goes_on = [&](ValueId value) { return has_gradient(value) && !std::ranges::binary_search(ends_, value); };
  if (std::ranges::none_of(graph().node(id).outputs, goes_on)) return;
  const Node node = graph().node(id);  // a copy: nodes are added while it is looked at
  std::vector<bool> wanted;
  if (!asks_for(node, id, wanted)) return;
  if (node.op == nullptr) return stop(id, "op is not modelled");
  if (node.op->analysis.vjp == nullptr) return stop(id, "its derivative is not known");
  std::vector<ValueId> arriving;
  for (const ValueId out : node.outputs) arriving.push_back(goes_on(out) ? gradient(out) : ValueId{});
  if (!inside_) writer_.set_gradient_of(id);
  const std::size_t here = writer_.depth();
  BuildCall call(call_of(graph(), node), {node.inputs, node.outputs, node.captures}, writer_, std::move(arriving),
                 std::move(wanted));
  call.set_derive([this](std::span<const ValueId> outputs, std::span<const ValueId> gradients,
                         std::span<const ValueId> of) { return derive(outputs, gradients, of); });
  try {
    node.op->analysis.vjp(call);
  } catch (const Unsupported& reason) {
    writer_.return_to(here);
    return stop(id, reason.what());
  } catch (Error& error) {
    error.in("gradient of " + describe(graph(), graph().node(id)));
    throw;
  }
  collect(call, node);
}

// Which operands and captures want a gradient; false when none does, or none can be told.
bool Backward::asks_for(const Node& node, NodeId id, std::vector<bool>& wanted) {
  bool lost = false;
  const auto ask = [&](ValueId value) {
    const bool asked = depends(value);
    wanted.push_back(asked && carries_gradient(value));
    lost |= asked && !wanted.back();
  };
  std::ranges::for_each(node.inputs, ask);
  std::ranges::for_each(node.captures, ask);
  if (lost) stop(id, "what it takes is of unknown type");
  return std::ranges::find(wanted, true) != wanted.end();
}

std::vector<ValueId> Backward::derive(std::span<const ValueId> outputs, std::span<const ValueId> gradients,
                                      std::span<const ValueId> wanted) {
  Backward inner(writer_, wanted, stops_);
  for (std::size_t i = 0; i < outputs.size(); ++i) inner.start(outputs[i], gradients[i]);
  inner.run_inside(wanted);
  std::vector<ValueId> result;
  for (const ValueId id : wanted) result.push_back(inner.gradient(id));
  return result;
}

// An op of several operands may have repeated one to fit the others. Where all others are integers and it does not work
// element by element, they are indices or sizes, and its rule gives a gradient of the operand's shape. Nothing is
// repeated to go into a sequence.
bool Backward::may_broadcast(const Node& node) const {
  if (node.op->traits.elementwise && node.inputs.size() > 1) return true;
  const auto holds_many = [&](ValueId id) { return id.valid() && is_sequence(type(id)); };
  if (std::ranges::any_of(node.inputs, holds_many) || std::ranges::any_of(node.outputs, holds_many)) return false;
  const auto fits_others = [&](ValueId id) { return id.valid() && !is_int(type(id).dtype); };
  return std::ranges::count_if(node.inputs, fits_others) > 1;
}

void Backward::collect(const BuildCall& call, const Node& node) {
  const bool broadcast = may_broadcast(node);
  for (std::size_t i = 0; i < call.given().size(); ++i) {
    if (!call.given()[i].valid()) continue;
    const bool captured = i >= node.inputs.size();
    const ValueId operand = captured ? node.captures[i - node.inputs.size()] : node.inputs[i];
    const ValueId part = call.given()[i];
    const Type &given = type(part), &own = type(operand);
    const bool more_axes = given.ranked && own.ranked && given.shape.size() != own.shape.size();
    const bool sums = (broadcast && !captured) || more_axes;
    add_part(operand, sums ? writer_.sum_to(part, operand) : part);
  }
}

void Backward::add_part(ValueId value, ValueId part) {
  gradients_.resize(std::max(gradients_.size(), value.at() + 1));
  ValueId& total = gradients_[value.at()];
  total = total.valid() ? sum_of_gradients(writer_, total, part) : part;
}

// Of what a rule wrote out, the node that the rule is for is named.
void Backward::stop(NodeId id, std::string reason) {
  const Node& node = graph().node(id);
  if (!node.gradient_of.valid()) return stops_.push_back({id, std::move(reason)});
  stops_.push_back({node.gradient_of, "inside of it, at " + qualified_op(node) + ": " + std::move(reason)});
}

}  // namespace

GradientResult add_gradient(GraphWriter& writer, ValueId output, std::span<const ValueId> wanted) {
  GradientResult result;
  result.of.resize(wanted.size());
  Backward backward(writer, wanted, result.stops);
  if (!backward.depends(output)) return result;
  writer.set_gradient_of(writer.graph().value(output).producer);
  backward.start(output, filled_like(writer, output, 1));
  backward.run();
  writer.set_gradient_of({});
  for (std::size_t i = 0; i < wanted.size(); ++i) result.of[i] = backward.gradient(wanted[i]);
  return result;
}

}  // namespace finity
