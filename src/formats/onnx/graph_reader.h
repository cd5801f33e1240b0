// GraphProto to bodies, nodes and values. Names are resolved per body in two
// passes, since nodes may come in any order and subgraphs see the names of the
// graphs around them. A call of a model-local function is replaced by the
// function's nodes, read anew for each call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/onnx/attribute_fields.h"
#include "formats/onnx/constants.h"
#include "formats/onnx/losses.h"
#include "formats/onnx/messages.h"
#include "formats/onnx/name_table.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/op_lookup.h"
#include "formats/onnx/type_proto.h"
#include "graph/builder.h"
#include "graph/unique_names.h"

namespace finity::onnx {

// Node metadata under this key are names of inlined calls (Origin::calls), as our writer stores them.
inline constexpr std::string_view kCallKey = "finity.call";
// Functions of this domain wrap one node to give it an operator set version of its own. Our writer
// makes them; the node read from one takes the call's name and description, as if it stood there.
inline constexpr std::string_view kVersionDomain = "finity.versions";

struct Frame;

// The names a node can use: those of its own graph or function call, then those of the graphs around it.
struct Scope {
  BodyId body = {};
  Scope* parent = nullptr;
  const Frame* frame = nullptr;  // null outside of functions
  OpContext* ops = nullptr;
  NameTable names = {};
  NameTable bound = {};  // outputs of the function that are values of the caller
};

// One call that is being inlined.
struct Frame {
  const Function& function;
  const NodeFields& call;
  Scope& caller;
  bool transparent = false;  // see kVersionDomain
  std::string prefix = {};   // of the names of everything inside
  std::shared_ptr<const Origin> origin = {};
  std::vector<NamedBytes> arguments = {};
};

// Things worth one note together.
struct Tally {
  std::string first = {};
  int count = 0;

  void add(std::string_view name) {
    if (count++ == 0) first = name;
  }
};

class GraphReader {
 public:
  GraphReader(const OnnxSource& source, const ModelFields& model, GraphBuilder& builder, Losses& losses,
              std::vector<Note>& notes);

  // Fills the builder with the main graph and everything below it.
  void read(Bytes graph);

 private:
  // graph_reader.cpp: bodies and names
  void read_body(Bytes message, BodyId body, Scope& scope);
  void describe_body(const GraphFields& graph, Scope& scope);
  void add_inputs(const std::vector<Bytes>& inputs, Scope& scope);
  void add_constants(const std::vector<Bytes>& tensors, bool sparse, Scope& scope);
  void add_constant(ConstantPtr constant, std::string_view name, Scope& scope);
  // The nodes' outputs in the order of the file, without the omitted ones.
  std::vector<ValueId> declare_outputs(const std::vector<Bytes>& nodes, Scope& scope);
  void drop_doubled_nodes(const std::vector<Bytes>& nodes);
  // Leaves values older than `first` alone.
  void set_types(const std::vector<Bytes>& value_infos, std::size_t first, Scope& scope);
  void add_outputs(const GraphFields& graph, Scope& scope);
  // The value of that name in this very scope, and whether it is new.
  std::pair<ValueId, bool> declare(std::string_view name, Scope& scope);
  ValueId resolve(std::string_view name, Scope& scope);
  std::string full_name(std::string_view name, const Scope& scope);
  Type read_type(const ValueInfoFields& value, const Scope& scope);
  ConstantPtr read_constant(Bytes message, bool sparse, std::string_view& name);
  void report();

  // node_reader.cpp: nodes and their attributes
  // `outputs` are those of declare_outputs().
  void read_nodes(const std::vector<Bytes>& nodes, std::span<const ValueId> outputs, Scope& scope);
  void read_node(const NodeFields& fields, std::span<const ValueId> outputs, Scope& scope);
  void add_node(const NodeFields& fields, const Meaning& meaning, std::span<const ValueId> outputs, Scope& scope);
  void locate_node(const NodeFields& fields, const Scope& scope, Node& node);
  std::shared_ptr<const Origin> read_origin(const NodeFields& fields, const Scope& scope);
  void read_attribute(Bytes message, Scope& scope, Attrs& attrs);
  std::optional<Attr> read_value(AttributeFields attribute, Scope& scope);
  Attr read_part(AttrKind kind, Bytes part, Scope& scope);
  Attr read_parts(AttrKind kind, const std::vector<Bytes>& parts, Scope& scope);
  BodyId read_subgraph(Bytes message, Scope& scope);

  // inliner.cpp: function calls
  void inline_call(const NodeFields& call, const Function& function, Scope& scope);
  Frame make_frame(const NodeFields& call, const Function& function, Scope& scope);
  void bind_inputs(const Frame& frame, Scope& inner);
  void bind_outputs(const Frame& frame, Scope& inner);
  void connect_outputs(const Frame& frame, Scope& inner);
  void add_identity(const Frame& frame, ValueId from, ValueId to, Scope& inner);
  std::optional<Attr> read_reference(std::string_view name, Scope& scope);
  std::string unique_prefix(const NodeFields& call, const Function& function, const Scope& scope);
  // Counts the bytes read and the names made for inlined calls; throws Error when a small file asks for too much.
  // Tensors are free, as they are shared between calls.
  void charge(std::size_t bytes);
  static constexpr std::size_t kNodeCost = 256;

  const std::byte* file_;
  std::string where_;
  GraphBuilder& builder_;
  Losses& losses_;
  std::vector<Note>& notes_;
  OpLookup ops_;
  ConstantReader constants_;
  TypeReader types_;

  int nesting_ = 0;               // graphs and calls being read
  int inlining_ = 0;              // calls being read
  std::size_t spent_ = 0;         // see charge()
  std::size_t inline_limit_ = 0;  // in nodes
  UniqueNames prefixes_;
  UniqueNames inlined_names_;
  Tally valueless_attributes_;
  Tally doubled_constants_;
  Tally doubled_nodes_;
  std::unordered_set<const std::byte*> superseded_;  // nodes that are not read
  // Tensors inside functions are made once, not once per call.
  std::unordered_map<const std::byte*, std::pair<std::string_view, ConstantPtr>> function_constants_;
};

// Says where an error happened, unless it is said at length already (deep nesting).
void add_context(Error& error, const std::string& context);

// Counts one level of graphs or calls while it lives, so that a file cannot exhaust the stack.
class Level {
 public:
  explicit Level(int& count);
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --count_; }

 private:
  int& count_;
};

}  // namespace finity::onnx
