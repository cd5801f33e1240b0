// A GraphDef into a Graph. Nodes are lowered one after the other in an order in which their inputs are there; calls of
// functions are inlined; loops and conditionals of both versions become Loop and If. State that TensorFlow keeps behind
// handles (variables, arrays, stacks, queues) is kept here while the graph is walked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "formats/tensorflow/initialisers.h"
#include "formats/tensorflow/loop_plan.h"
#include "formats/tensorflow/lowering.h"
#include "formats/tensorflow/program.h"
#include "formats/tensorflow/writer.h"

namespace finity::tensorflow {

// Something behind a handle.
struct State {
  enum class Kind : std::uint8_t { variable, array, stack, other };
  Kind kind = Kind::other;
  std::string name = {};
  DType dtype = DType::undefined;
  // Of a variable: its value when a step begins. Of a stack: all that was pushed, the first axis counts.
  ValueId content = {};
  ValueId same = {};                  // of a stack: what is pushed every time
  bool of_arrays = false;             // of a stack: what is pushed is an array
  Type element = {};                  // of an array
  bool accumulates = false;           // of an array: what is written is added
  std::vector<Type> components = {};  // of a queue
};

// A loop whose body is being written.
struct OpenLoop {
  ValueId iteration = {};
  std::size_t depth = 0;                             // of bodies, with its own
  std::vector<std::pair<int, ValueId>> pushed = {};  // onto stacks, in its own body
};

// Nodes of one graph or function call that are being lowered.
struct Scope {
  const Program& program;
  std::vector<std::vector<TfValue>> values = {};   // by node, then by argument
  std::string prefix = {};                         // of names
  const std::vector<NamedBytes>* attrs = nullptr;  // of the call, for attributes that stand for them
  const Scope* caller = nullptr;
};

class Importer {
 public:
  Importer(const GraphDef& graph, const std::string& file, std::vector<Note>& notes);

  Graph run() &&;

  Writer& writer() { return writer_; }
  const GraphDef& graph() const { return graph_; }
  std::vector<State>& states() { return states_; }
  std::vector<OpenLoop>& loops() { return loops_; }
  int add_state(State state);
  // The variable of a node, made once. Its value when a step begins is what the checkpoint or the initialiser says.
  TfValue variable(const NodeDef& node, const Type& type);
  // Something from outside, made once per node and output.
  ValueId outside(const NodeDef& node, std::size_t output, const Type& type);
  std::string full_name(const NodeDef& node) const;
  // Numbers that stand in another file (TensorFlow.js) for a constant; null: none do.
  ConstantPtr weights(std::string_view node) const;
  std::optional<AttrValue> attr(const NodeDef& node, std::string_view name) const;
  const std::shared_ptr<const void>& owner() const { return graph_.owner; }

 private:
  // importer.cpp
  void lower_units(Scope& scope, const std::vector<Unit>& order);
  void lower_node(Scope& scope, int node);
  void lower_by_table(Scope& scope, int node, std::vector<TfValue> inputs);
  static bool lower_text(TfCall& call);
  void lower_unknown(Scope& scope, int node, const std::vector<TfValue>& inputs);
  std::vector<TfValue> inputs_of(const Scope& scope, int node) const;
  TfValue value_of(const Scope& scope, const Edge& edge) const;
  void set_values(Scope& scope, int node, std::vector<TfValue> values);
  void charge();
  void note_unknown(const NodeDef& node, const std::string& reason);
  void note_contradiction(const NodeDef& node, const Type& declared, ValueId computed);
  std::vector<ValueId> find_outputs() const;
  void refuse_empty() const;

  // version1.cpp: Enter, Exit, Switch, Merge, NextIteration
  void lower_loop(Scope& scope, int frame);
  void try_loop(Scope& scope, int frame);
  void lower_merge(Scope& scope, int node);
  bool lower_branches(Scope& scope, int node);
  bool lower_flow_node(Scope& scope, int node);
  TfValue write_choice(ValueId predicate, const TfValue& if_true, const TfValue& if_false);
  ValueId truth_of(const Scope& scope, const std::vector<Guard>& guards);
  using Origin = std::function<Edge(const Edge&)>;
  LoopState loop_state(Scope& scope, int merge, const Origin& origin, std::vector<Edge>& next);
  std::optional<std::int64_t> constant_integer(const Program& program, const Edge& edge);
  void find_limit(Scope& scope, int frame, const Origin& origin, LoopPlan& plan);
  ValueId fixed_value(Scope& scope, const LoopFrame& frame, const Edge& edge, const LoopPlan& plan);

  // calls.cpp: functions, While, If
  bool lower_call(Scope& scope, int node, const std::vector<TfValue>& inputs);
  std::vector<TfValue> call(const std::string& name, const std::vector<TfValue>& arguments,
                            const std::vector<NamedBytes>* attrs, const std::string& prefix);
  void lower_while(Scope& scope, int node, const std::vector<TfValue>& inputs);
  void lower_if(Scope& scope, int node, const std::vector<TfValue>& inputs);
  std::vector<TfValue> call_branch(const NodeDef& node, std::string_view branch, const std::vector<TfValue>& arguments,
                                   const std::string& name);
  void find_limit(const Program& tested, LoopPlan& plan);
  const Program& program_of(const std::string& name);

  const GraphDef& graph_;
  std::vector<Note>& notes_;
  Writer writer_;
  std::size_t most_nodes_;
  std::vector<State> states_;
  std::vector<OpenLoop> loops_;
  std::unordered_map<std::string, std::unique_ptr<Program>> programs_;
  std::map<std::pair<std::string, std::size_t>, ValueId> outside_;
  std::map<std::string, TfValue> variables_;
  Initialisers initialisers_;
  std::vector<ValueId> given_;      // results of nodes in the main body
  Scope* scope_ = nullptr;          // of what is being lowered
  std::vector<std::string> calls_;  // functions that are being inlined
  std::size_t charged_ = 0;
  struct Unknowns {
    std::string first;
    std::string reason;
    int count = 0;
  };
  std::map<std::string, Unknowns> unknowns_;  // by op
  Unknowns contradictions_;                   // between declared and computed shapes
};

}  // namespace finity::tensorflow
