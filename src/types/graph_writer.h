// Adds nodes to a graph that exists, with the types of what they compute: gradients, objectives of a search and
// rewrites are built with it. All ids of the graph it starts from stay what they are.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/builder.h"
#include "ops/build_call.h"
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

  ValueId add_input(std::string name, Type type);
  void add_output(ValueId id, std::string name = {});
  void set_outputs(std::vector<ValueId> outputs);
  // Nodes that follow help to compute the derivative of this one, and their values are named after it.
  void set_gradient_of(NodeId node) { gradient_of_ = node; }
  // `name`, or `name` with a number when something has it already.
  std::string fresh_name(std::string name);

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
  std::string prefix() const;

  GraphBuilder builder_;
  GrowingTypes types_;
  std::unordered_set<std::string> names_;
  NodeId gradient_of_ = {};
};

}  // namespace finity
