// One call of an aten op while a script is read: its arguments by the names of its schema, and the nodes that say the
// same. What a call cannot say it throws as Unsupported; the node then stays unknown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "torch/script/item.h"
#include "types/infer.h"

namespace finity {

// What cannot be read at all: going on without it would say something else.
class Refused : public Error {
 public:
  using Error::Error;
};

// Nodes and their types, as they are added.
class ScriptGraph {
 public:
  ScriptGraph();

  ValueId input(const std::string& name, Type type);
  ValueId constant(Tensor tensor, const std::string& name = "");
  std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs, std::size_t outputs,
                           std::string_view domain = "");
  // A node that nothing is known of.
  std::vector<ValueId> add_unknown(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs);
  const Type& type(ValueId id) const { return types_.types()[id]; }
  const Tensor* known(ValueId id) const;
  // What nodes that follow are called after: the script's own name for the result.
  void set_place(std::string name) { place_ = std::move(name); }
  void add_output(ValueId id) { builder_.add_output(Graph::kMain, id); }
  bool is_sequence(ValueId id) const { return type(id).kind == Type::Kind::sequence; }
  std::size_t node_count() const { return builder_.node_count(); }

  // What is added while a body is open goes there. Bodies that no node names are dropped.
  BodyId open_body(const std::string& name);
  void open_again(BodyId body) { open_.push_back(body); }
  ValueId body_input(const std::string& name, Type type);
  // Adds the outputs, and takes out what none of them needs.
  void close_body(std::span<const ValueId> outputs);
  void leave_body() { open_.pop_back(); }
  int depth() const { return static_cast<int>(open_.size()); }
  void leave_to(int depth) { open_.resize(static_cast<std::size_t>(depth)); }

  Graph finish() &&;

 private:
  std::string fresh(const std::string& name);
  std::vector<ValueId> place(Node node, std::size_t outputs);
  BodyId here() const { return open_.empty() ? Graph::kMain : open_.back(); }
  void drop_unneeded(BodyId body);

  GraphBuilder builder_;
  GrowingTypes types_;
  std::map<std::string, int, std::less<>> names_;
  std::string place_ = {};
  std::vector<BodyId> open_;
};

// The element type of a number of the script.
inline constexpr DType kScriptFloat = DType::float64;

using AttrEntries = std::initializer_list<std::pair<std::string_view, Attr>>;
using Ints = std::vector<std::int64_t>;

class ScriptCall {
 public:
  using Arguments = std::vector<std::pair<std::string, ScriptItem>>;

  ScriptCall(ScriptGraph& graph, std::string op, Arguments arguments, std::size_t results)
      : op(std::move(op)), results(results), graph_(graph), arguments_(std::move(arguments)) {}

  const std::string op;       // "aten::relu"
  const std::size_t results;  // how many it has
  // What the script says of its only result: a number, and of which kind, when that is told.
  bool gives_number = false;
  DType kind = DType::undefined;
  bool is_unpacked = false;  // the list that it gives is only taken apart, into as many parts as it must have

  bool has(std::string_view name) const;  // and it is not None
  ValueId operand() { return from(first()); }
  const ScriptItem& first() const { return arguments_.at(0).second; }
  const ScriptItem& argument(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback = false) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  Ints ints(std::string_view name) const;  // a list, or one number
  Ints ints(std::string_view name, Ints fallback) const;
  ValueId tensor(std::string_view name);           // numbers become tensors of rank 0
  ValueId optional_tensor(std::string_view name);  // invalid when it is None
  ValueId int_vector(std::string_view name);       // sizes, some of which may be computed
  std::vector<ValueId> tensors(std::string_view name);
  std::vector<ScriptItem> items(std::string_view name) const;  // of a list
  // Two operands as PyTorch brings them to one dtype.
  std::pair<ValueId, ValueId> alike(std::string_view left, std::string_view right);
  std::vector<ValueId> alike(const std::vector<ScriptItem>& items);
  std::vector<ValueId> alike_tensors(std::vector<ScriptItem> items);  // numbers count like tensors
  // The item as a tensor of the element type; constants need no Cast.
  ValueId as(const ScriptItem& item, DType dtype);

  ValueId add(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs = {}, std::string_view domain = "");
  std::vector<ValueId> add_with(std::string_view op, std::vector<ValueId> inputs,
                                std::span<const std::pair<std::string_view, Attr>> attrs, std::size_t count);
  std::vector<ValueId> add_split(ValueId x, ValueId sizes, std::int64_t axis, std::size_t count);
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs, std::size_t count);
  ValueId vector_of(Ints numbers);
  ValueId constant(Tensor tensor) { return graph_.constant(std::move(tensor)); }
  ValueId number_like(double x, ValueId like);
  ValueId cast(ValueId id, DType to);
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }
  DType element_type(std::string_view name) const;  // that an argument names
  std::size_t rank(ValueId id) const;               // throws Unsupported when it is not known
  bool is_ranked(ValueId id) const { return graph_.type(id).ranked; }
  std::int64_t axis(std::string_view name, ValueId of) const;  // not negative
  std::int64_t size(ValueId id, std::int64_t axis) const;      // -1 when it is not known
  const Tensor* known(ValueId id) const { return graph_.known(id); }
  bool all_known(ValueId id) const { return graph_.type(id).dims().has_value(); }
  Dims dims(ValueId id) const;  // throws Unsupported unless all are known
  ValueId from(const ScriptItem& item);

  void give(ValueId id) { given.push_back({.id = id}); }
  // A result that is not modelled; reading it is.
  void give_nothing() { given.push_back({.is_unset = true}); }
  void give(ScriptItem item) { given.push_back(std::move(item)); }
  std::vector<ScriptItem> given = {};

 private:
  std::vector<ValueId> ids_as(std::vector<ValueId> ids, DType dtype);
  DType promoted_numbers(const std::vector<ValueId>& ids) const;

  ScriptGraph& graph_;
  Arguments arguments_;
};

// A number of the script, known or computed; no tensor.
bool is_number(const ScriptItem& item);

// A literal as a template argument.
template <std::size_t N>
struct OpName {
  char letters[N] = {};
  constexpr OpName(const char (&text)[N]) {  // NOLINT: a literal is meant to become a template argument
    for (std::size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
};

struct ScriptLowering {
  std::string_view op = {};  // without its overload
  void (*lower)(ScriptCall& call) = nullptr;
};

std::span<const ScriptLowering> script_math();
std::span<const ScriptLowering> script_functions();
std::span<const ScriptLowering> script_rows();
std::span<const ScriptLowering> script_losses();
std::span<const ScriptLowering> script_layers();
std::span<const ScriptLowering> script_windows();
std::span<const ScriptLowering> script_recurrent();
std::span<const ScriptLowering> script_shapes();
std::span<const ScriptLowering> script_indices();
std::span<const ScriptLowering> script_images();

}  // namespace finity
