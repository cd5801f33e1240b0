// Adds nodes to a graph that exists, with the types of what they compute: gradients, objectives of a search and
// rewrites are built with it. All ids of the graph it starts from stay what they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/unique_names.h"
#include "ops/table/build_call.h"
#include "types/typed_builder.h"

namespace finity {

class GraphWriter final : public NodeWriter {
 public:
  static constexpr int kOpset = TypedBuilder::kOpset;

  GraphWriter(const Graph& graph, const Types& types);

  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::size_t outputs) override;
  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add(op, std::move(inputs), std::move(attrs), 1).front();
  }
  ValueId constant(Tensor tensor) override;
  const Type& type(ValueId id) const override { return built_.type(id); }
  const Tensor* known(ValueId id) const override { return built_.known(id); }
  std::vector<ValueId> repeat(const OpCall& call, std::vector<ValueId> inputs, Attrs attrs) override;
  BodyId begin_body() override;
  ValueId add_body_input(const Type& type) override { return add_argument(current_body(), type); }
  void end_body(std::vector<ValueId> outputs) override { built_.end_body(std::move(outputs)); }
  std::vector<ValueId> copy_body(BodyId body, std::span<const ValueId> inputs) override;

  ValueId add_input(std::string name, Type type);
  void add_output(ValueId id, std::string name = {});
  void set_outputs(std::vector<ValueId> outputs);
  // Nodes that follow help to compute the derivative of this one, and their values are named after it.
  void set_gradient_of(NodeId node) { gradient_of_ = node; }
  BodyId current_body() const { return built_.current_body(); }
  // Gives up bodies that were begun since `depth` were open.
  std::size_t depth() const { return built_.open_bodies().size(); }
  void return_to(std::size_t depth) { built_.return_to(depth); }
  // `name`, or `name` with a number when something has it already.
  std::string fresh_name(const std::string& name) { return names_.make(name); }

  const Graph& graph() const { return built_.graph(); }
  GraphBuilder& builder() { return built_.builder(); }
  // The sum of `value` over the axes along which a value of the shape of `like` was repeated to get it.
  ValueId sum_to(ValueId value, ValueId like);

  using Result = TypedBuilder::Result;
  Result finish() && { return std::move(built_).finish(); }

 private:
  class TypedCopy;

  std::string prefix() const;
  std::vector<ValueId> place(Node node);
  ValueId add_result(BodyId body, std::string_view op);
  NodeId add_typed(Node node);
  ValueId add_constant(BodyId body, ConstantPtr constant);
  ValueId add_argument(BodyId body, const Type& type);
  BodyId add_body();

  TypedBuilder built_;
  UniqueNames names_;
  NodeId gradient_of_ = {};
};

}  // namespace finity
