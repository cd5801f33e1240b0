// Nodes of another operator set version than the model imports, as inlining a
// function leaves them. Each is written as a call of a one-node function that
// imports the right version, which the reader undoes (see kVersionDomain).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "formats/onnx/messages.h"
#include "formats/onnx/wire.h"
#include "graph/graph.h"

namespace finity::onnx {

class VersionFunctions {
 public:
  // The model's imports: those of its info, and one for every domain of its nodes that is not among them.
  explicit VersionFunctions(const Graph& graph);

  const Opsets& imports() const { return imports_; }
  bool needed(const Node& node) const;
  // Whether any node of the graph needs one.
  bool any() const { return any_; }
  // The name of the function that stands for the node's op; made on first use.
  std::string_view name_for(const Node& node);
  // Writes the functions made so far, as fields of a ModelProto.
  void write(WireWriter& out) const;

 private:
  struct Wrapper {
    std::string name = {};
    const Node* node = nullptr;  // one of those it stands for
  };

  Opsets imports_;
  bool any_ = false;
  std::deque<Wrapper> wrappers_;
  std::map<std::string, const Wrapper*> by_key_;
};

// For people whose library refuses a model that needs such functions: which node, and what would help. "" when none is
// needed.
std::string versions_apart(const Graph& graph);

}  // namespace finity::onnx
