// Functions are inlined where they are called; While and If of version 2 call theirs inside of bodies.
#include <algorithm>

#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/loop_plan.h"

namespace finity::tensorflow {

namespace {

constexpr std::size_t kDeepestCall = 64;
constexpr std::string_view kBranches[] = {"then_branch", "else_branch"};

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

// Through what only hands on.
Edge origin(const Program& program, Edge edge) {
  for (int steps = 0; steps < 1000 && !program.is_argument(edge); ++steps) {
    const ProgramNode& node = program.nodes[static_cast<std::size_t>(edge.node)];
    if (node.def->op != "Identity" || node.inputs.empty()) break;
    edge = node.inputs.front();
  }
  return edge;
}

// The number of the argument an edge hands on; -1: something else.
int argument(const Program& program, const Edge& edge) {
  const Edge from = origin(program, edge);
  return program.is_argument(from) ? from.node - static_cast<int>(program.nodes.size()) : -1;
}

}  // namespace

const Program& Importer::program_of(const std::string& name) {
  std::unique_ptr<Program>& program = programs_[name];
  if (program) return *program;
  const auto found = graph_.functions.find(name);
  if (found == graph_.functions.end()) throw Unsupported("function '" + name + "' is not in the file");
  program = std::make_unique<Program>(make_program(graph_, found->second.nodes, &found->second));
  return *program;
}

std::vector<TfValue> Importer::call(const std::string& name, const std::vector<TfValue>& arguments,
                                    const std::vector<NamedBytes>* attrs, const std::string& prefix) {
  if (std::ranges::find(calls_, name) != calls_.end()) throw Unsupported("function '" + name + "' calls itself");
  if (calls_.size() >= kDeepestCall) throw Unsupported("functions call each other more than 64 deep");
  const Program& program = program_of(name);
  Scope scope{.program = program, .values = {}, .prefix = prefix, .attrs = attrs, .caller = scope_};
  scope.values.resize(program.nodes.size() + program.arguments.size());
  for (std::size_t i = 0; i < program.arguments.size(); ++i) {
    if (i < arguments.size()) scope.values[program.nodes.size() + i] = {arguments[i]};
  }
  Scope* const outer = scope_;
  const auto leave = [&] {
    scope_ = outer;
    calls_.pop_back();
  };
  scope_ = &scope;
  calls_.push_back(name);
  std::vector<TfValue> results;
  try {
    lower_units(scope, program.frames.front().order);
    for (const Edge& edge : program.results) results.push_back(value_of(scope, edge));
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return results;
}

bool Importer::lower_call(Scope& scope, int number, const std::vector<TfValue>& inputs) {
  const ProgramNode& node = scope.program.nodes[static_cast<std::size_t>(number)];
  const std::string_view op = node.def->op;
  const std::string prefix = writer_.node_name() + "/";
  if (one_of(op, {"PartitionedCall", "StatefulPartitionedCall", "TPUPartitionedCall"})) {
    const std::optional<AttrValue> function = attr(*node.def, "f");
    if (!function || function->function.empty()) throw Error("it names no function");
    set_values(scope, number, call(std::string(function->function), inputs, &function->function_attrs, prefix));
    return true;
  }
  if (one_of(op, {"While", "StatelessWhile"})) {
    lower_while(scope, number, inputs);
    return true;
  }
  if (one_of(op, {"If", "StatelessIf"})) {
    lower_if(scope, number, inputs);
    return true;
  }
  if (!graph_.functions.contains(op)) return false;
  set_values(scope, number, call(std::string(op), inputs, &node.def->attrs, prefix));
  return true;
}

void Importer::lower_if(Scope& scope, int number, const std::vector<TfValue>& inputs) {
  const NodeDef& node = *scope.program.nodes[static_cast<std::size_t>(number)].def;
  if (inputs.empty() || !inputs[0].id.valid()) throw Unsupported("its condition is not a tensor");
  ValueId condition = inputs[0].id;
  const std::string name = writer_.node_name();
  if (writer_.type(condition).dtype != DType::boolean) {
    Attrs attrs;
    attrs.set("to", static_cast<std::int64_t>(DType::boolean));
    condition = writer_.add("Cast", {condition}, std::move(attrs));
  }
  const std::vector<TfValue> arguments(inputs.begin() + 1, inputs.end());
  std::vector<TfValue> results[2];
  BodyId bodies[2];
  for (std::size_t i = 0; i < 2; ++i) {
    bodies[i] = writer_.begin_body(name + "/" + std::string(kBranches[i]));
    results[i] = call_branch(node, kBranches[i], arguments, name);
    writer_.end_body({});
  }
  // Results that are tensors in both branches; handles go on when they are the same.
  std::vector<TfValue> given(results[0].size());
  std::vector<std::size_t> tensors;
  for (std::size_t i = 0; i < given.size() && i < results[1].size(); ++i) {
    if (results[0][i].handle == results[1][i].handle) given[i].handle = results[0][i].handle;
    if (!results[0][i].id.valid() || !results[1][i].id.valid()) continue;
    tensors.push_back(i);
    given[i].array = results[0][i].array;
    for (std::size_t k = 0; k < 2; ++k) writer_.builder().body(bodies[k]).outputs.push_back(results[k][i].id);
  }
  writer_.set_node(name, node.offset);
  if (!tensors.empty()) {
    Attrs attrs;
    for (std::size_t i = 0; i < 2; ++i) attrs.set(std::string(kBranches[i]), bodies[i]);
    const std::size_t first_node = writer_.graph().nodes().size();
    const std::vector<ValueId> chosen = writer_.add("If", {condition}, std::move(attrs), tensors.size());
    writer_.name_result(chosen.front(), name, first_node);
    for (std::size_t k = 0; k < tensors.size(); ++k) given[tensors[k]].id = chosen[k];
  }
  set_values(scope, number, given);
}

// Inside of the branch's body. What is handed through gets a node of its own there.
std::vector<TfValue> Importer::call_branch(const NodeDef& node, std::string_view branch,
                                           const std::vector<TfValue>& arguments, const std::string& name) {
  const std::optional<AttrValue> function = attr(node, branch);
  if (!function || function->function.empty()) throw Error("it has no " + std::string(branch));
  const std::string prefix = name + "/" + std::string(branch) + "/";
  std::vector<TfValue> results = call(std::string(function->function), arguments, &function->function_attrs, prefix);
  for (TfValue& result : results) {
    if (result.id.valid() && writer_.graph().value(result.id).body != writer_.current_body()) {
      result.id = writer_.add("Identity", {result.id});
    }
  }
  return results;
}

void Importer::lower_while(Scope& scope, int number, const std::vector<TfValue>& inputs) {
  const NodeDef& node = *scope.program.nodes[static_cast<std::size_t>(number)].def;
  const std::optional<AttrValue> test = attr(node, "cond");
  const std::optional<AttrValue> body = attr(node, "body");
  if (!test || !body || test->function.empty() || body->function.empty()) throw Error("it has no cond or no body");
  const Program& tested = program_of(std::string(test->function));
  const Program& stepped = program_of(std::string(body->function));
  if (stepped.results.size() != inputs.size() || tested.results.empty()) {
    throw Error("its body gives another number of values than it takes");
  }
  const std::string name = writer_.node_name();
  LoopPlan plan;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LoopState state{.initial = inputs[i]};
    const Edge from = origin(stepped, stepped.results[i]);
    state.invariant = argument(stepped, from) == static_cast<int>(i);
    if (!stepped.is_argument(from) && one_of(stepped.op(from.node), {"Add", "AddV2"})) {
      const std::vector<Edge>& terms = stepped.nodes[static_cast<std::size_t>(from.node)].inputs;
      for (std::size_t k = 0; k < 2 && terms.size() == 2; ++k) {
        if (argument(stepped, terms[k]) == static_cast<int>(i)) {
          state.step = constant_integer(stepped, origin(stepped, terms[1 - k]));
        }
      }
    }
    plan.states.push_back(state);
  }
  find_limit(tested, plan);
  plan.test = [&](const LoopPlan::Values& values) {
    return call(std::string(test->function), values, &test->function_attrs, name + "/cond/").at(0).id;
  };
  plan.step = [&](const LoopPlan::Values& values) {
    return call(std::string(body->function), values, &body->function_attrs, name + "/body/");
  };
  set_values(scope, number, write_loop(*this, plan));
}

// The condition is Less(counter, limit), perhaps together with others.
void Importer::find_limit(const Program& tested, LoopPlan& plan) {
  std::vector<Edge> open = {tested.results.front()};
  for (int steps = 0; !open.empty() && steps < 100; ++steps) {
    const Edge at = origin(tested, open.back());
    open.pop_back();
    if (tested.is_argument(at)) continue;
    const std::vector<Edge>& inputs = tested.nodes[static_cast<std::size_t>(at.node)].inputs;
    const std::string_view op = tested.op(at.node);
    if (op == "LogicalAnd") open.insert(open.end(), inputs.begin(), inputs.end());
    if ((op != "Less" && op != "LessEqual") || inputs.size() != 2) continue;
    const int counter = argument(tested, inputs[0]);
    const int limit = argument(tested, inputs[1]);
    const std::optional<std::int64_t> number = constant_integer(tested, origin(tested, inputs[1]));
    if (counter < 0 || !plan.states[static_cast<std::size_t>(counter)].step) continue;
    if (number) plan.limit = writer_.scalar(static_cast<double>(*number), DType::int64);
    else if (limit >= 0 && plan.states[static_cast<std::size_t>(limit)].invariant) {
      plan.limit = plan.states[static_cast<std::size_t>(limit)].initial.id;
    }
    if (!plan.limit.valid()) continue;
    plan.counter = counter;
    plan.or_equal = op == "LessEqual";
    return;
  }
}

}  // namespace finity::tensorflow
