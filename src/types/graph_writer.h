// Adds nodes to a graph that exists, with the types of what they compute: gradients, objectives of a search and
// rewrites are built with it. All ids of the graph it starts from stay what they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/unique_names.h"
#include "ops/table/build_call.h"
#include "types/infer.h"

namespace finity {

class GraphWriter final : public NodeWriter {
 public:
  // The operator set of what is added. Older ones give reductions their axes in another way.
  static constexpr int kOpset = 21;

  GraphWriter(const Graph& graph, const Types& types);

  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::size_t outputs) override;
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add(op, std::move(inputs), std::move(attrs), 1).front();
  }
  ValueId constant(Tensor tensor) override;
  const Type& type(ValueId id) const override { return types_.types()[id]; }
  const Tensor* known(ValueId id) const override;
  std::vector<ValueId> repeat(const OpCall& call, std::vector<ValueId> inputs, Attrs attrs) override;
  BodyId begin_body() override;
  ValueId add_body_input(const Type& type) override { return add_argument(current_body(), type); }
  void end_body(std::vector<ValueId> outputs) override;
  std::vector<ValueId> copy_body(BodyId body, std::span<const ValueId> inputs) override;

  ValueId add_input(std::string name, Type type);
  void add_output(ValueId id, std::string name = {});
  void set_outputs(std::vector<ValueId> outputs);
  // Nodes that follow help to compute the derivative of this one, and their values are named after it.
  void set_gradient_of(NodeId node) { gradient_of_ = node; }
  // The body that nodes are added to: the main one, or the one that was begun last.
  BodyId current_body() const { return open_.empty() ? Graph::kMain : open_.back(); }
  // Gives up bodies that were begun since `body` was the current one.
  void return_to(BodyId body) {
    while (!open_.empty() && open_.back() != body) open_.pop_back();
  }
  // `name`, or `name` with a number when something has it already.
  std::string fresh_name(const std::string& name) { return names_.make(name); }

  const Graph& graph() const { return builder_.peek(); }
  GraphBuilder& builder() { return builder_; }
  // The sum of `value` over the axes along which a value of the shape of `like` was repeated to get it.
  ValueId sum_to(ValueId value, ValueId like);

  struct Result {
    Graph graph;
    Types types;
  };
  Result finish() &&;

 private:
  class TypedCopy;

  std::string prefix() const;
  std::vector<ValueId> place(Node node);
  ValueId add_result(BodyId body, std::string_view op);
  NodeId add_typed(Node node);
  ValueId add_constant(BodyId body, ConstantPtr constant);
  ValueId add_argument(BodyId body, const Type& type);
  BodyId add_body();

  GraphBuilder builder_;
  GrowingTypes types_;
  UniqueNames names_;
  NodeId gradient_of_ = {};
  std::vector<BodyId> open_ = {};  // begun and not ended, the innermost last
};

}  // namespace finity
