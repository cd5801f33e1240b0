// One call of an aten op while a script is read: its arguments by the names of its schema, and the nodes that say the
// same. What a call cannot say it throws as Unsupported; the node then stays unknown.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "types/infer.h"

namespace finity {

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
  bool is_computed(ValueId id) const { return builder_.peek().value(id).producer.valid(); }
  Graph finish() &&;

 private:
  std::string fresh(const std::string& name);
  std::vector<ValueId> place(Node node, std::size_t outputs);

  GraphBuilder builder_;
  GrowingTypes types_;
  std::map<std::string, int, std::less<>> names_;
  std::string place_ = {};
};

// What a value of the script is: a tensor (or a number that is computed), a constant, or a list of such.
struct ScriptItem {
  ValueId id = {};
  c10::IValue constant = {};
  bool is_list = false;
  std::vector<ScriptItem> items = {};

  bool is_tensor() const { return id.valid() || (!is_list && constant.isTensor()); }
  bool is_none() const { return !id.valid() && !is_list && constant.isNone(); }
};

using AttrEntries = std::initializer_list<std::pair<std::string_view, Attr>>;
using Ints = std::vector<std::int64_t>;

class ScriptCall {
 public:
  ScriptCall(ScriptGraph& graph, std::string op, std::map<std::string, ScriptItem, std::less<>> arguments,
             std::size_t results)
      : op(std::move(op)), results(results), graph_(graph), arguments_(std::move(arguments)) {}

  const std::string op;       // "aten::relu"
  const std::size_t results;  // how many it has

  bool has(std::string_view name) const;  // and it is not None
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
  // Two operands as PyTorch brings them to one dtype.
  std::pair<ValueId, ValueId> alike(std::string_view left, std::string_view right);

  ValueId add(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs = {}, std::string_view domain = "");
  std::vector<ValueId> add_many(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs, std::size_t count);
  ValueId vector_of(Ints numbers);
  ValueId number_like(double x, ValueId like);
  ValueId cast(ValueId id, DType to);
  DType dtype(ValueId id) const { return graph_.type(id).dtype; }
  std::size_t rank(ValueId id) const;  // throws Unsupported when it is not known
  bool is_ranked(ValueId id) const { return graph_.type(id).ranked; }
  std::int64_t axis(std::string_view name, ValueId of) const;  // not negative
  std::int64_t size(ValueId id, std::int64_t axis) const;      // -1 when it is not known
  const Tensor* known(ValueId id) const { return graph_.known(id); }
  ValueId from(const ScriptItem& item);

  void give(ValueId id) { given.push_back({.id = id}); }
  void give(ScriptItem item) { given.push_back(std::move(item)); }
  std::vector<ScriptItem> given = {};

 private:
  ScriptGraph& graph_;
  std::map<std::string, ScriptItem, std::less<>> arguments_;
};

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
std::span<const ScriptLowering> script_layers();
std::span<const ScriptLowering> script_shapes();

}  // namespace finity
