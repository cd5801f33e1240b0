// Reads graphs and their statements into a GraphBuilder. A name means the value
// of that name in the innermost body that defines it anywhere, before or after
// the use, so uses wait until their body is closed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/text/lexer.h"
#include "graph/builder.h"

namespace finity::textform {

class GraphParser {
 public:
  // With `bound`, a tensor literal may stand as an operand: it becomes an input of the
  // main body and is appended to `bound`, or with the word const an initializer.
  GraphParser(Lexer& in, GraphBuilder& builder, std::vector<Tensor>* bound = nullptr)
      : in_(in), builder_(builder), bound_(bound) {}

  // A graph up to its closing brace; the word `graph` has been taken.
  BodyId read_graph();

  // For a body without a header: open it, read statements, close it.
  BodyId open_body(std::string name);
  void read_statement();
  void close_body();

 private:
  struct Use {
    std::string name = {};
    std::size_t offset = 0;
    NodeId node = {};  // invalid: an output of `body`
    BodyId body = {};
    std::size_t slot = 0;
    std::shared_ptr<const Type> declared = {};  // of an output; null: not declared
  };
  struct Scope {
    BodyId body = {};
    std::unordered_map<std::string, ValueId> values = {};
    std::vector<Use> waiting = {};
  };

  void read_inputs();
  void read_outputs();
  void read_constant_statement();
  void read_node();
  void read_results(Node& node);
  void read_op(Node& node);
  void read_operands(Node& node, std::vector<Use>& uses);
  bool read_literal_operand(Node& node);
  void read_attrs(Node& node);
  void read_origin(Node& node);
  Attr read_attr();
  Attr read_list_attr(std::string_view kind);
  std::string_view guess_list_kind();
  BodyId read_nested_graph();

  Type read_declared_type();
  ValueId define(const Token& place, std::string name, Type type);
  void give_constant(ValueId id, ConstantPtr constant);
  std::string literal_name();
  void resolve(const Use& use, ValueId id);
  int version_of(std::string_view domain, std::size_t offset) const;

  Lexer& in_;
  GraphBuilder& builder_;
  std::vector<Tensor>* bound_;
  std::vector<Scope> scopes_;
  int literals_ = 0;
};

// {"key": "value", ...}
Properties read_properties(Lexer& in);
// After the word opset: [domain] version. ai.onnx is the default domain "".
std::pair<std::string, int> read_opset(Lexer& in);
// Builds; a builder's error about a node gets the node's place.
Graph build_graph(const Lexer& in, GraphBuilder&& builder);

}  // namespace finity::textform
