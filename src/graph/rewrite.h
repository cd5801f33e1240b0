// Rewriting, in one place. A graph is changed in one of two ways. Whoever keeps most of it goes on from it with
// GraphBuilder(graph): all ids stay, nodes and values are changed through the builder. Whoever needs nodes or bodies a
// second time copies them with a GraphCopy, into another graph or into the one they are in: ids are mapped, bodies in
// attributes are copied with their owner, strings move to the new graph, locations stay.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace finity {

// Copies every part at most once; who wants a second copy takes a second GraphCopy.
class GraphCopy {
 public:
  // `from` may be what `into` is building, which then grows while it is copied.
  GraphCopy(const Graph& from, GraphBuilder& into) : from_(from), into_(into) {}
  virtual ~GraphCopy() = default;
  GraphCopy(const GraphCopy&) = delete;
  GraphCopy& operator=(const GraphCopy&) = delete;

  // From now on copies read `to` in place of `id`; an invalid `to` is an omitted operand.
  void replace(ValueId id, ValueId to) { values_[id] = to; }
  // What stands for a value. One that is neither replaced nor part of what is copied stands for itself, which makes
  // sense within one graph only: of another graph it is an Error.
  ValueId copy_of(ValueId id);
  // The copy of a node; invalid when there is none, or none yet.
  NodeId copy_of(NodeId id) const;

  // A body of its own: inputs, constants, nodes, outputs. The first body of a builder is the main one.
  BodyId copy_body(BodyId body);
  // Constants and nodes, as part of another body, with `inputs` for those of the body. Gives what stands for its
  // outputs.
  std::vector<ValueId> copy_contents(BodyId body, std::span<const ValueId> inputs, BodyId into);
  NodeId copy_node(NodeId node, BodyId into);
  Type copy_type(const Type& type);

 protected:
  // How the parts come into the new graph. A copy that changes something does it here; these change nothing.
  virtual BodyId add_body(BodyId original);
  virtual ValueId add_input(BodyId into, ValueId original);
  virtual ValueId add_constant(BodyId into, ValueId original);
  virtual ValueId add_result(BodyId into, ValueId original);
  // `copy` has its operands, results and attributes already. Called in the order of the body.
  virtual NodeId add_node(Node copy, NodeId original);

  const Graph& from() const { return from_; }
  GraphBuilder& into() { return into_; }

 private:
  void copy_parts(BodyId body, BodyId into, bool with_defaults);
  std::vector<ValueId> copies_of(std::span<const ValueId> ids);
  Attrs copy_attrs(const Attrs& attrs);
  bool within_one_graph() const { return &from_ == &into_.peek(); }

  const Graph& from_;
  GraphBuilder& into_;
  std::unordered_map<ValueId, ValueId> values_;
  std::unordered_map<NodeId, NodeId> nodes_;
  std::unordered_map<BodyId, BodyId> bodies_;  // where the parts of a body go
};

// The node as it can be added to another graph: what it is, where it was, its attributes; without operands, results
// and body.
Node detached(const Node& node, GraphBuilder& into);

}  // namespace finity
