// The computation graph every stage reads. Built once by GraphBuilder, then only
// read. Nodes, values and bodies (the main graph and the subgraphs of If, Loop,
// Scan) live in one arena each, so that a side table over the whole model is a
// vector, and a subgraph refers to a value of an outer body by its id.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "graph/attrs.h"
#include "graph/constant.h"
#include "graph/type.h"

namespace finity {

struct OpDef;

using Properties = std::vector<std::pair<std::string, std::string>>;

// Rarely present facts about a node's origin, kept for reports and for writing the model again.
struct Origin {
  std::string doc = {};
  Properties metadata = {};  // exporters put stack traces and module scopes here
  std::string overload = {};
  // Names of the function calls this node was inlined from, outermost first: "layer1/attn (MyAttention)".
  std::vector<std::string> calls = {};
};

struct Location {
  std::uint64_t offset = 0;                   // of the node in the file
  std::shared_ptr<const Origin> origin = {};  // null when there is nothing to say
};

struct Value {
  std::string name = {};
  Type type = {};  // as declared in the file; types/infer.h computes the rest
  NodeId producer = {};
  BodyId body = {};
  ConstantPtr constant = {};
};

struct Node {
  const OpDef* op = nullptr;         // null: not in the op table
  std::string_view op_type = {};     // interned by the graph
  std::string_view domain = {};      // "" is ONNX's default domain
  int version = 0;                   // of its domain's operator set
  std::string name = {};             // as spelled by the user, may be empty
  std::vector<ValueId> inputs = {};  // an invalid id is an omitted optional input
  std::vector<ValueId> outputs = {};
  std::vector<ValueId> captures = {};  // values of enclosing bodies that its subgraphs use
  Attrs attrs = {};
  BodyId body = {};
  Location where = {};
  NodeId gradient_of = {};  // the forward node whose derivative this one helps to compute; invalid for forward nodes
};

struct Body {
  std::string name = {};
  std::string doc = {};
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  std::vector<ValueId> constants = {};  // initializers
  std::vector<NodeId> nodes = {};       // topological order
  NodeId owner = {};                    // the node whose attribute this is; invalid for the main body
  Properties metadata = {};
};

struct ModelInfo {
  std::string file = {};
  std::int64_t ir_version = 0;
  std::string producer_name = {};
  std::string producer_version = {};
  std::string domain = {};
  std::string doc = {};
  std::int64_t model_version = 0;
  Properties metadata = {};
  std::map<std::string, int, std::less<>> opsets = {};  // domain -> version
};

class Graph {
 public:
  static constexpr BodyId kMain{0};

  const ModelInfo& info() const { return info_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Value> values() const { return values_; }
  std::span<const Body> bodies() const { return bodies_; }
  const Node& node(NodeId id) const { return nodes_[id.at()]; }
  const Value& value(ValueId id) const { return values_[id.at()]; }
  const Body& body(BodyId id) const { return bodies_[id.at()]; }
  const Body& main() const { return bodies_.front(); }
  const std::string& symbol(SymbolId id) const { return symbols_[id.at()]; }
  std::span<const std::string> symbols() const { return symbols_; }
  SymbolId find_symbol(std::string_view name) const;

 private:
  friend class GraphBuilder;

  ModelInfo info_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Body> bodies_;
  std::vector<std::string> symbols_;
  std::shared_ptr<const void> interned_;  // owns op_type and domain strings
};

// How messages name a node: its name, else what it produces.
std::string describe(const Graph& graph, const Node& node);
std::string qualified_op(const Node& node);
std::string to_string(const Graph& graph, const Type& type);

}  // namespace finity
