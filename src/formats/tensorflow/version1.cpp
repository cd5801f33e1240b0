// Loops and conditionals of version 1: a frame becomes a Loop, a Merge of two branches an If. What is computed for one
// input of one Merge becomes the inside of a branch, so that the condition holds there. What others use as well
// (gradients, a second Merge) stays outside of the If, as if both branches ran.
#include <algorithm>

#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/loop_plan.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

// Of LoopCond and Exit. A file may leave it out.
Edge only_input(const Program& program, int number) {
  const ProgramNode& node = program.nodes[static_cast<std::size_t>(number)];
  if (node.inputs.empty()) throw Unsupported("node '" + std::string(node.def->name) + "' has no input");
  return node.inputs.front();
}

// What is known of a frame before anything is written.
class FrameView {
 public:
  FrameView(const Program& program, int frame)
      : program_(program), frame_(program.frames[static_cast<std::size_t>(frame)]) {
    in_body_.assign(program.nodes.size(), false);
    of_state_.assign(program.nodes.size(), false);
    for (const int merge : frame_.merges) of_state_[static_cast<std::size_t>(merge)] = true;
    for (const Unit& unit : frame_.order) mark(unit);
    find_slice();
  }

  // Before each round and behind the last: what the condition needs, and what else comes before the switches.
  std::vector<Unit> test_units() const {
    return filtered([&](const Unit& unit) { return in_test(unit); });
  }
  std::vector<Unit> body_units() const {
    return filtered([&](const Unit& unit) { return !in_test(unit); });
  }
  // Whether rounds use what the test computed.
  bool body_uses_test() const {
    for (const Unit& unit : frame_.order) {
      if (in_test(unit)) continue;
      for (const Edge& edge : inputs_of(unit)) {
        if (program_.is_argument(edge) || !inside(edge.node)) continue;
        const std::string_view op = program_.op(edge.node);
        const bool plain = is_merge(op) || is_enter(op) || op == "LoopCond";
        if (!plain && in_test({.node = edge.node, .frame = -1})) return true;
      }
    }
    return false;
  }

  // Through what only hands on.
  Edge origin(Edge edge) const {
    for (int steps = 0; steps < 1000 && !program_.is_argument(edge); ++steps) {
      const ProgramNode& node = program_.nodes[static_cast<std::size_t>(edge.node)];
      const std::string_view op = node.def->op;
      const bool hands_on = op == "Identity" || is_switch(op) || is_next_iteration(op) || op == "LoopCond";
      if (!hands_on || node.inputs.empty()) break;
      edge = node.inputs.front();
    }
    return edge;
  }

 private:
  bool inside(int node) const {
    return &program_.frames[static_cast<std::size_t>(program_.nodes[static_cast<std::size_t>(node)].frame)] == &frame_;
  }
  std::vector<Edge> inputs_of(const Unit& unit) const {
    if (unit.node >= 0) return program_.nodes[static_cast<std::size_t>(unit.node)].inputs;
    std::vector<Edge> result;
    for (const int enter : program_.frames[static_cast<std::size_t>(unit.frame)].enters) {
      const std::vector<Edge>& inputs = program_.nodes[static_cast<std::size_t>(enter)].inputs;
      result.insert(result.end(), inputs.begin(), inputs.end());
    }
    return result;
  }
  bool is_loop_switch(int node) const {
    const ProgramNode& at = program_.nodes[static_cast<std::size_t>(node)];
    if (!is_switch(at.def->op) || at.inputs.size() != 2 || program_.is_argument(at.inputs[1])) return false;
    return program_.op(at.inputs[1].node) == "LoopCond";
  }
  void mark(const Unit& unit) {
    bool body = unit.node >= 0 && is_loop_switch(unit.node);
    bool state = false;
    for (const Edge& edge : inputs_of(unit)) {
      if (program_.is_argument(edge) || is_next_iteration(program_.op(edge.node))) continue;
      body = body || in_body_[static_cast<std::size_t>(edge.node)];
      state = state || of_state_[static_cast<std::size_t>(edge.node)];
    }
    const auto set = [&](int node) {
      in_body_[static_cast<std::size_t>(node)] = body;
      if (state) of_state_[static_cast<std::size_t>(node)] = true;
    };
    if (unit.node >= 0) set(unit.node);
    else std::ranges::for_each(program_.frames[static_cast<std::size_t>(unit.frame)].exits, set);
  }
  // What the condition is computed from.
  void find_slice() {
    in_slice_.assign(program_.nodes.size(), false);
    std::vector<int> open = {frame_.condition};
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      if (node < 0 || node >= static_cast<int>(program_.nodes.size()) || in_slice_[static_cast<std::size_t>(node)])
        continue;
      in_slice_[static_cast<std::size_t>(node)] = true;
      if (!inside(node)) continue;
      for (const Edge& edge : program_.nodes[static_cast<std::size_t>(node)].inputs) {
        if (program_.is_argument(edge) || !is_next_iteration(program_.op(edge.node))) open.push_back(edge.node);
      }
    }
  }
  bool in_test(const Unit& unit) const {
    const int node = unit.node >= 0 ? unit.node : first_exit(unit.frame);
    if (node < 0 || in_body_[static_cast<std::size_t>(node)]) return false;
    return in_slice_[static_cast<std::size_t>(node)] || of_state_[static_cast<std::size_t>(node)];
  }
  int first_exit(int frame) const {
    const std::vector<int>& exits = program_.frames[static_cast<std::size_t>(frame)].exits;
    return exits.empty() ? -1 : exits.front();
  }
  template <class F>
  std::vector<Unit> filtered(F&& keep) const {
    std::vector<Unit> result;
    std::ranges::copy_if(frame_.order, std::back_inserter(result), keep);
    return result;
  }

  const Program& program_;
  const LoopFrame& frame_;
  std::vector<bool> in_body_;   // behind a Switch of the loop
  std::vector<bool> of_state_;  // depends on what rounds hand on
  std::vector<bool> in_slice_;
};

bool is_sum(std::string_view op) { return op == "Add" || op == "AddV2"; }

}  // namespace

bool Importer::lower_flow_node(Scope& scope, int number) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  const std::string_view op = node.def->op;
  if (is_enter(op) || is_exit(op)) return true;  // set by lower_loop()
  if (is_merge(op)) {
    const std::vector<int>& merges = scope.program.frames[static_cast<std::size_t>(node.frame)].merges;
    if (std::ranges::find(merges, number) == merges.end()) {
      lower_merge(scope, number);
    }
    return true;
  }
  const bool hands_on = is_next_iteration(op) || op == "LoopCond";
  if (!hands_on && !is_switch(op)) return false;
  if (node.inputs.empty()) throw Error("node '" + std::string(node.def->name) + "': has no input");
  const TfValue value = inputs_of(scope, number).front();
  scope.values[static_cast<std::size_t>(number)].assign(is_switch(op) ? 2 : 1, value);
  return true;
}

namespace {

// What holds of one input and not of all of them tells that it is the one that comes.
std::vector<std::vector<Guard>> own_guards(const Program& program, const ProgramNode& merge) {
  std::vector<std::vector<Guard>> guards;
  for (const Edge& edge : merge.inputs) guards.push_back(program.guards_of(edge));
  std::vector<std::vector<Guard>> own(guards.size());
  for (std::size_t i = 0; i < guards.size(); ++i) {
    std::ranges::copy_if(guards[i], std::back_inserter(own[i]), [&](const Guard& guard) {
      return !std::ranges::all_of(guards, [&](const auto& set) { return std::ranges::find(set, guard) != set.end(); });
    });
  }
  return own;
}

std::vector<int> nodes_for(const Program& program, int merge, int input) {
  const auto found = program.branches.find({merge, input});
  return found == program.branches.end() ? std::vector<int>{} : found->second;
}

}  // namespace

// An If with what is computed for this Merge only in its branches. False when it cannot be written so.
bool Importer::lower_branches(Scope& scope, int number) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  if (node.inputs.size() != 2) return false;
  const ValueId truth = truth_of(scope, own_guards(scope.program, node)[0]);
  if (!truth.valid()) return false;
  const std::string name = writer_.node_name();
  const std::size_t depth = writer_.depth();
  const auto branch = [&](int input, const char* suffix) {
    const BodyId body = writer_.begin_body(name + suffix);
    for (const int inside : nodes_for(scope.program, number, input)) lower_node(scope, inside);
    writer_.set_node(name, node.def->offset);
    const TfValue value = value_of(scope, node.inputs[static_cast<std::size_t>(input)]);
    if (!value.id.valid() || !writer_.visible(value.id) || value.handle >= 0 || value.array) throw Unsupported("");
    writer_.end_body({writer_.add("Identity", {value.id})});
    return body;
  };
  try {
    Attrs attrs;
    attrs.set("then_branch", branch(0, "/then"));
    attrs.set("else_branch", branch(1, "/else"));
    const std::size_t first_node = writer_.graph().nodes().size();
    const ValueId chosen = writer_.add("If", {truth}, std::move(attrs));
    writer_.name_result(chosen, name, first_node);
    const ValueId index =
        writer_.add("Where", {truth, writer_.scalar(0, DType::int32), writer_.scalar(1, DType::int32)});
    set_values(scope, number, {{.id = chosen}, {.id = index}});
    return true;
  } catch (const Error&) {
    if (charged_ > most_nodes_) throw;
    writer_.return_to(depth);
    writer_.set_node(name, node.def->offset);
    return false;
  }
}

void Importer::lower_merge(Scope& scope, int number) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  std::vector<int> inside;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::vector<int> nodes = nodes_for(scope.program, number, static_cast<int>(i));
    inside.insert(inside.end(), nodes.begin(), nodes.end());
  }
  if (!inside.empty()) {
    if (lower_branches(scope, number)) return;
    const std::string name = writer_.node_name();
    for (const int other : inside) lower_node(scope, other);
    writer_.set_node(name, node.def->offset);
  }
  const std::vector<TfValue> inputs = inputs_of(scope, number);
  std::vector<TfValue> there;
  std::ranges::copy_if(inputs, std::back_inserter(there), [](const TfValue& v) { return v.id.valid(); });
  if (there.size() < inputs.size() || there.empty()) {
    // Handles, or what gives no tensor: the one that is there stands for both only when none is a tensor.
    if (there.empty()) set_values(scope, number, {inputs.empty() ? TfValue{} : inputs.front()});
    else lower_unknown(scope, number, there);
    return;
  }
  const std::vector<std::vector<Guard>> own = own_guards(scope.program, node);
  TfValue chosen = inputs.back();
  ValueId index = writer_.scalar(static_cast<double>(inputs.size() - 1), DType::int32);
  for (std::size_t i = inputs.size() - 1; i-- > 0;) {
    const ValueId truth = truth_of(scope, own[i]);
    if (!truth.valid()) {
      note_unknown(*node.def, "which of its inputs comes does not follow from conditions");
      return lower_unknown(scope, number, inputs);
    }
    chosen = write_choice(truth, inputs[i], chosen);
    index = writer_.add("Where", {truth, writer_.scalar(static_cast<double>(i), DType::int32), index});
  }
  set_values(scope, number, {chosen, {.id = index}});
}

// Whether all of them hold; invalid when that is not known.
ValueId Importer::truth_of(const Scope& scope, const std::vector<Guard>& guards) {
  ValueId result;
  for (const Guard& guard : guards) {
    ValueId truth = value_of(scope, guard.predicate).id;
    if (!truth.valid() || !writer_.visible(truth)) return {};
    if (!guard.truth) truth = writer_.add("Not", {truth});
    result = result.valid() ? writer_.add("And", {result, truth}) : truth;
  }
  return result;
}

TfValue Importer::write_choice(ValueId predicate, const TfValue& if_true, const TfValue& if_false) {
  if (if_true.id == if_false.id) return if_true;
  const auto branch = [&](const TfValue& value, const char* name) {
    const BodyId body = writer_.begin_body(writer_.node_name() + name);
    writer_.end_body({writer_.add("Identity", {value.id})});
    return body;
  };
  Attrs attrs;
  attrs.set("then_branch", branch(if_true, "/then"));
  attrs.set("else_branch", branch(if_false, "/else"));
  const std::size_t first_node = writer_.graph().nodes().size();
  const ValueId chosen = writer_.add("If", {predicate}, std::move(attrs));
  writer_.name_result(chosen, writer_.node_name(), first_node);
  const int handle = if_true.handle == if_false.handle ? if_true.handle : -1;
  return {.id = chosen, .handle = handle, .array = if_true.array};
}

void Importer::lower_loop(Scope& scope, int number) {
  const LoopFrame& frame = scope.program.frames[static_cast<std::size_t>(number)];
  const std::size_t depth = writer_.depth();
  const std::size_t before = writer_.graph().body(writer_.current_body()).nodes.size();
  const std::size_t open_loops = loops_.size();
  Scope* const outer = scope_;
  try {
    try_loop(scope, number);
  } catch (const Error& error) {
    charge();
    scope_ = outer;
    writer_.return_to(depth);
    loops_.resize(open_loops);
    writer_.builder().body(writer_.current_body()).nodes.resize(before);
    for (const int exit : frame.exits) {
      const NodeDef& node = *scope.program.nodes[static_cast<std::size_t>(exit)].def;
      note_unknown(node, "its loop is not understood: " + std::string(error.what()));
      writer_.set_node(scope.prefix + std::string(node.name), node.offset);
      lower_unknown(scope, exit, {});
    }
  }
}

void Importer::try_loop(Scope& scope, int number) {
  const Program& program = scope.program;
  const LoopFrame& frame = program.frames[static_cast<std::size_t>(number)];
  if (frame.condition < 0) throw Unsupported("it has no LoopCond");
  for (const int enter : frame.enters) {
    const std::vector<TfValue> inputs = inputs_of(scope, enter);
    if (inputs.empty()) throw Error("an Enter without input");
    scope.values[static_cast<std::size_t>(enter)] = {inputs.front()};
  }
  const FrameView view(program, number);
  LoopPlan plan;
  std::vector<Edge> next;  // what each state becomes
  const Origin origin = [&](const Edge& edge) { return view.origin(edge); };
  for (const int merge : frame.merges) plan.states.push_back(loop_state(scope, merge, origin, next));
  find_limit(scope, number, origin, plan);
  const std::vector<Unit> test = view.test_units();
  const std::vector<Unit> body = view.body_units();
  const bool again = view.body_uses_test();
  const auto set_states = [&](const LoopPlan::Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      scope.values[static_cast<std::size_t>(frame.merges[i])] = {values[i], {}};
    }
  };
  const Edge condition = only_input(program, frame.condition);
  plan.test = [&](const LoopPlan::Values& values) {
    set_states(values);
    lower_units(scope, test);
    return value_of(scope, condition).id;
  };
  plan.step = [&](const LoopPlan::Values& values) {
    set_states(values);
    if (again) lower_units(scope, test);
    lower_units(scope, body);
    LoopPlan::Values result;
    for (const Edge& edge : next) result.push_back(value_of(scope, edge));
    return result;
  };
  writer_.set_node(scope.prefix + frame.name, program.nodes[static_cast<std::size_t>(frame.condition)].def->offset);
  const std::vector<TfValue> results = write_loop(*this, plan);
  for (const int exit : frame.exits) {
    const Edge from = view.origin(only_input(program, exit));
    const auto found = std::ranges::find(frame.merges, from.node);
    if (found == frame.merges.end()) throw Unsupported("what leaves it is not a value it hands on");
    set_values(scope, exit, {results[static_cast<std::size_t>(found - frame.merges.begin())]});
  }
}

// One loop variable: where it starts, and whether it changes in a way that is known.
LoopState Importer::loop_state(Scope& scope, int merge, const Origin& origin, std::vector<Edge>& next) {
  const Program& program = scope.program;
  const ProgramNode& node = program.nodes[static_cast<std::size_t>(merge)];
  LoopState state;
  Edge back;
  for (const Edge& edge : node.inputs) {
    if (!program.is_argument(edge) && is_next_iteration(program.op(edge.node))) back = edge;
    else state.initial = value_of(scope, edge);
  }
  next.push_back(back);
  const Edge from = origin(back);
  state.invariant = from.node == merge;
  if (program.is_argument(from) || !is_sum(program.op(from.node))) return state;
  const std::vector<Edge>& terms = program.nodes[static_cast<std::size_t>(from.node)].inputs;
  for (std::size_t i = 0; i < 2 && terms.size() == 2; ++i) {
    if (origin(terms[i]).node == merge) state.step = constant_integer(program, terms[1 - i]);
  }
  return state;
}

std::optional<std::int64_t> Importer::constant_integer(const Program& program, const Edge& edge) {
  if (program.is_argument(edge) || program.op(edge.node) != "Const") return std::nullopt;
  const std::optional<AttrValue> value = attr(*program.nodes[static_cast<std::size_t>(edge.node)].def, "value");
  if (!value || value->messages.empty()) return std::nullopt;
  const ConstantPtr constant = read_tensor(value->messages.front(), owner());
  if (!is_int(constant->dtype()) || element_count(constant->dims()) != 1) return std::nullopt;
  return element_as_int(constant->load(), 0);
}

// The condition is Less(counter, limit), perhaps together with others.
void Importer::find_limit(Scope& scope, int number, const Origin& origin, LoopPlan& plan) {
  const Program& program = scope.program;
  const LoopFrame& frame = program.frames[static_cast<std::size_t>(number)];
  std::vector<Edge> open = {only_input(program, frame.condition)};
  for (int steps = 0; !open.empty() && steps < 100; ++steps) {
    const Edge at = origin(open.back());
    open.pop_back();
    if (program.is_argument(at)) continue;
    const std::vector<Edge>& inputs = program.nodes[static_cast<std::size_t>(at.node)].inputs;
    const std::string_view op = program.op(at.node);
    if (op == "LogicalAnd") open.insert(open.end(), inputs.begin(), inputs.end());
    if ((op != "Less" && op != "LessEqual") || inputs.size() != 2) continue;
    const auto found = std::ranges::find(frame.merges, origin(inputs[0]).node);
    if (found == frame.merges.end()) continue;
    const auto counter = static_cast<std::size_t>(found - frame.merges.begin());
    if (!plan.states[counter].step || *plan.states[counter].step <= 0) continue;
    const ValueId limit = fixed_value(scope, frame, origin(inputs[1]), plan);
    if (!limit.valid()) continue;
    plan.counter = static_cast<int>(counter);
    plan.limit = limit;
    plan.or_equal = op == "LessEqual";
    return;
  }
}

// A value that is the same in all rounds, as it is outside; invalid when it is not known to be.
ValueId Importer::fixed_value(Scope& scope, const LoopFrame& frame, const Edge& edge, const LoopPlan& plan) {
  const Program& program = scope.program;
  if (program.is_argument(edge)) return value_of(scope, edge).id;
  const auto merge = std::ranges::find(frame.merges, edge.node);
  if (merge != frame.merges.end()) {
    const LoopState& state = plan.states[static_cast<std::size_t>(merge - frame.merges.begin())];
    return state.invariant ? state.initial.id : ValueId{};
  }
  if (program.op(edge.node) == "Const") lower_node(scope, edge.node);
  else if (!is_enter(program.op(edge.node))) return {};
  return value_of(scope, edge).id;
}

}  // namespace finity::tensorflow
