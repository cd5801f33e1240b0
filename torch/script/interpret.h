// Walks a script as its interpreter would, with what is known of its values: what can be computed now is (sizes, tests
// of ranks, lists, loops of a known length), and the rest becomes nodes.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "torch/script/call.h"
#include "torch/script/script.h"

namespace torch::jit {
class AliasDb;
}

namespace finity {

// The script raises an exception where it stands: there are no results.
struct Raised {
  std::string words;
};

class Interpreter {
 public:
  explicit Interpreter(const Bindings& bindings) : bindings_(bindings) {}
  ImportedScript run(const std::shared_ptr<torch::jit::Graph>& shared, const c10::FunctionSchema& schema,
                     const c10::IValue& self);

 private:
  using JitNode = torch::jit::Node;
  using JitValue = torch::jit::Value;
  using JitBlock = torch::jit::Block;

  void add_inputs(const torch::jit::Graph& graph, const c10::FunctionSchema& schema);
  Type type_of_input(const JitValue& value) const;
  void add_outputs(const ScriptItem& item);

  // ---- values
  const ScriptItem& at(const JitValue* value) const;
  void set(const JitValue* value, ScriptItem item);
  ScriptItem settled(const ScriptItem& item) const;  // with lists as they are now
  ScriptItem settled(const JitValue* value) const { return settled(at(value)); }
  std::optional<bool> truth(const ScriptItem& condition) const;
  ScriptCall converter() { return ScriptCall(graph_, "", {}, 0); }
  ValueId tensor_of(const ScriptItem& item) { return converter().from(item); }

  // ---- nodes: each says whether it took the node
  void run_block(const JitBlock& block);
  void add(const JitNode& node);
  bool add_structure(const JitNode& node, const std::string& op);
  bool add_construction(const JitNode& node, const std::string& op);
  bool unpack(const JitNode& node, const std::string& op);
  bool add_query(const JitNode& node, const std::string& op);
  bool add_list_op(const JitNode& node, const std::string& op);
  bool change_list(const JitNode& node, const std::string& op);
  bool read_list(const JitNode& node, const std::string& op);
  bool read_stacked(const JitNode& node, const std::string& op, ValueId all);
  static bool is_dictionary(const JitNode& node);
  bool add_attribute(const JitNode& node, const std::string& op);
  bool fold(const JitNode& node);
  void lower(const JitNode& node, const std::string& op);
  std::vector<std::string> all_notes(const Graph& graph) const;
  void stay_unknown(const JitNode& node, const std::string& op, const std::string& reason);
  void collect_outer(const JitBlock& block, std::unordered_set<const JitValue*>& inside,
                     std::vector<ValueId>& operands) const;
  ScriptCall::Arguments arguments_of(const JitNode& node) const;
  void name_place(const JitNode& node, const std::string& op);
  std::vector<ValueId> put(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs = {},
                           std::size_t outputs = 1);

  // ---- objects
  void change(const std::shared_ptr<ScriptObject>& object, ScriptItem content);
  ScriptItem as_sequence(const ScriptItem& list, DType if_empty);
  void mark_shared(const ScriptItem& item);

  // ---- tensors that change in place (changes.cpp)
  void find_changes(const std::shared_ptr<torch::jit::Graph>& graph);
  bool change_tensor(const JitNode& node, const std::string& op);
  void require_sole_name(const JitNode& node, const JitValue* root) const;
  ValueId places_of(const JitValue* view, const JitValue* root, ValueId content);
  ValueId lowered(std::string_view op, ScriptCall::Arguments arguments);
  ValueId written_by(const JitNode& node, ValueId before);

  // ---- branches and loops (control.cpp, loops.cpp)
  struct Checkpoint {
    std::size_t changes = 0, notes = 0, unknown = 0;
    int depth = 0;
  };
  using Changed = std::map<std::shared_ptr<ScriptObject>, ScriptItem>;
  struct Arm;
  struct Slot;
  struct Round;
  Checkpoint checkpoint() const { return {journal_.size(), notes_.size(), unknown_.size(), graph_.depth()}; }
  void roll_back(const Checkpoint& mark);
  Changed changed_since(const Checkpoint& mark) const;
  void add_branch(const JitNode& node);
  void add_loop(const JitNode& node);
  Arm run_arm(const JitBlock& block, const char* name);
  void join_arms(const JitNode& node, const ScriptItem& condition);
  void take_block(const JitNode& node, const JitBlock& block);
  ScriptItem joined(const ScriptItem& a, const ScriptItem& b, std::vector<std::pair<ScriptItem, ScriptItem>>& leaves);
  ValueId stand_in(const ScriptItem& other);
  DType element_type(ValueId id) const;
  ValueId result_of(const ScriptItem& item, const ScriptItem& other);
  static void fill(ScriptItem& item, const std::vector<ValueId>& results);
  bool unroll(const JitNode& node, std::int64_t most, std::size_t most_nodes);
  void loop_at_run_time(const JitNode& node);
  std::vector<Slot> slots_of(const JitNode& node);
  void prepare(Slot& slot);
  ScriptItem enter(const Slot& slot);
  Round run_round(const JitNode& node, const std::vector<Slot>& slots);
  bool fits(Slot& slot, const ScriptItem& after, std::vector<ValueId>& results);
  bool same_form(Slot& slot, const ScriptItem& before, const ScriptItem& after, std::vector<ValueId>& results);
  void finish_loop(const JitNode& node, std::vector<Slot>& slots, Round& round);
  void leave_unknown(const JitNode& node, const Checkpoint& mark, const std::string& reason);

  const Bindings& bindings_;
  ScriptGraph graph_;
  std::unordered_map<const JitValue*, ScriptItem> values_;
  std::shared_ptr<torch::jit::AliasDb> aliases_;  // when tensors change in place
  std::vector<const JitValue*> all_values_;
  std::unordered_set<const JitValue*> roots_;  // tensors that change
  std::map<std::pair<const void*, std::string>, std::shared_ptr<ScriptObject>> attributes_;
  std::vector<std::pair<std::shared_ptr<ScriptObject>, ScriptItem>> journal_;  // what objects held before
  std::vector<std::string> notes_;
  std::vector<std::pair<std::string, std::string>> unknown_;  // ops that stay, and why
};

bool same_constant(const ScriptItem& a, const ScriptItem& b);
std::string words_of(const c10::Error& error);
std::string line_of(const torch::jit::Node& node);
const ScriptLowering* find_lowering(std::string_view op);

}  // namespace finity
