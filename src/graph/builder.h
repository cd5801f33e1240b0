// Builds a Graph: readers, the text parser and programs that make models use it.
// Values may be referred to before they are produced; build() orders the nodes,
// finds captures and rejects cycles and undefined values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace finity {

class GraphBuilder {
 public:
  GraphBuilder();
  // Goes on from a graph that was built before: all ids stay what they are. Nodes may be changed through node() and
  // added; what nobody produces any more must not be used.
  explicit GraphBuilder(const Graph& graph);

  ModelInfo& info() { return graph_.info_; }
  void reserve(std::size_t nodes, std::size_t values);

  // The first body is the main one. A subgraph is created while (or before) its owner's attributes are filled in;
  // add_node() claims the bodies its attributes mention.
  BodyId add_body(std::string name);
  Body& body(BodyId id) { return graph_.bodies_[id.at()]; }

  ValueId add_value(BodyId body, std::string name, Type type = {});
  Value& value(ValueId id) { return graph_.values_[id.at()]; }
  ValueId add_input(BodyId body, std::string name, Type type);
  ValueId add_constant(BodyId body, std::string name, ConstantPtr constant);
  void add_output(BodyId body, ValueId value) { this->body(body).outputs.push_back(value); }

  // Takes everything but `captures`; sets the outputs' producer. Throws Error if an output has one already.
  NodeId add_node(Node node);
  Node& node(NodeId id) { return graph_.nodes_[id.at()]; }
  std::size_t node_count() const { return graph_.nodes_.size(); }
  std::size_t value_count() const { return graph_.values_.size(); }

  // Takes nodes and constants out of the main body from which no output is computed. Their ids stay, unused.
  void drop_unneeded();

  // A string that lives as long as the graph, one copy per distinct text.
  std::string_view intern(std::string_view text);
  SymbolId symbol(std::string_view name);
  const Graph& peek() const { return graph_; }

  Graph build() &&;

 private:
  void check_defined() const;
  void find_captures();
  void order_nodes(Body& body);

  Graph graph_;
  struct Interned {
    std::unordered_set<std::string> texts;
    std::shared_ptr<const void> earlier;  // texts of the graph this one goes on from
  };
  std::shared_ptr<Interned> interned_;
  std::unordered_map<std::string, SymbolId> symbols_;
};

}  // namespace finity
