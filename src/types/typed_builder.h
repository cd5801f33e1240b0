// A graph that grows, with the type of everything as soon as it is added: what writers of graphs have in common. How
// nodes and values are named is theirs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "types/infer.h"

namespace finity {

class TypedBuilder {
 public:
  // The operator set of what is added. Older ones give reductions their axes in another way.
  static constexpr int kOpset = 21;

  // `types`: of what `start` holds.
  TypedBuilder(GraphBuilder start, const Types& types);
  TypedBuilder(const TypedBuilder&) = delete;
  TypedBuilder& operator=(const TypedBuilder&) = delete;

  const Graph& graph() const { return builder_.peek(); }
  GraphBuilder& builder() { return builder_; }
  const Type& type(ValueId id) const { return types_.types()[id]; }
  // The elements, when they are known and few.
  const Tensor* known(ValueId id) const;
  void set_type(ValueId id, Type type) { types_.set(id, std::move(type)); }

  // A node of the op that is called `op` ("Name" or "domain:Name"), without name, body and results. Invalid inputs at
  // the end are left out.
  static Node node_named(std::string_view op, std::vector<ValueId> inputs, Attrs attrs);
  // Throws Error when it contradicts its op's rules; it is in the graph then, without types.
  NodeId add_node(Node node);
  ValueId add_constant(BodyId body, std::string name, ConstantPtr constant);
  ValueId add_input(BodyId body, std::string name, Type type);

  // What is added goes into the body that was begun last and not ended, else the main one.
  BodyId current_body() const { return open_.empty() ? Graph::kMain : open_.back(); }
  const std::vector<BodyId>& open_bodies() const { return open_; }
  BodyId begin_body(std::string name);
  void end_body(std::vector<ValueId> outputs);
  // Gives up bodies that were begun since `depth` were open.
  void return_to(std::size_t depth) { open_.resize(depth); }

  struct Result {
    Graph graph;
    Types types;
  };
  Result finish() &&;

 private:
  GraphBuilder builder_;
  GrowingTypes types_;
  std::vector<BodyId> open_ = {};  // the innermost last
};

}  // namespace finity
