// A GraphDef as it stands in the file: nodes, functions, and what a MetaGraphDef says of the ops it uses. Texts and
// attributes are views into the file (or into its binary form, when it was text); attributes are decoded when someone
// asks for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "formats/wire.h"
#include "graph/constant.h"
#include "tensor/dtype.h"

namespace finity::tensorflow {

using wire::Bytes;

using NamedBytes = std::pair<std::string_view, Bytes>;

struct NodeDef {
  std::string_view name = {};
  std::string_view op = {};
  std::vector<std::string_view> inputs = {};  // "a", "a:1", "^a"; in functions "a:out:0"
  std::vector<NamedBytes> attrs = {};         // AttrValue messages
  std::uint64_t offset = 0;
};

struct ArgDef {
  std::string_view name = {};
  std::int64_t type = 0;
  std::string_view type_attr = {};
  std::string_view number_attr = {};
  std::string_view type_list_attr = {};
};

struct OpSignature {
  std::string_view name = {};
  std::vector<ArgDef> inputs = {};
  std::vector<ArgDef> outputs = {};
};

struct FunctionDef {
  OpSignature signature = {};
  std::vector<NodeDef> nodes = {};
  std::unordered_map<std::string_view, std::string_view> returns = {};  // output -> "node:out:0"
};

struct GraphDef {
  std::vector<NodeDef> nodes = {};
  std::unordered_map<std::string_view, FunctionDef> functions = {};
  std::unordered_map<std::string_view, OpSignature> ops = {};  // of a MetaGraphDef: the ops it uses
  std::int64_t producer = 0;
  // Numbers from other files, by node: weights of a TensorFlow.js model, variables of a checkpoint.
  std::unordered_map<std::string, ConstantPtr> weights = {};
  bool weights_in_functions = false;       // they are constants of functions too
  std::shared_ptr<const void> owner = {};  // keeps the views alive
};

// Reads a GraphDef message into `graph`. Throws Error with the byte and the reason; `file` is the start of the buffer.
void read_graph_def(Bytes message, const std::byte* file, GraphDef& graph);
OpSignature read_op_def(Bytes message, const std::byte* file);

// TensorFlow's number of an element type, references included; undefined for resources, variants and what is not known.
DType dtype_from_tf(std::int64_t code);

}  // namespace finity::tensorflow
