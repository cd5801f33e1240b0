// Which branch of a version 1 conditional a node is in. Switch sends a value to one of two branches, Merge takes the
// one that comes: a node is guarded by what its inputs are guarded by, and a Merge by what remains when two inputs with
// opposite guards have met.
#include <algorithm>
#include <array>
#include <map>

#include "formats/tensorflow/lowering.h"
#include "formats/tensorflow/program_parts.h"

namespace finity::tensorflow {

namespace {

// More guards than anybody nests: a node that has them is taken to have none.
constexpr std::size_t kMostGuards = 32;

class GuardFinder {
 public:
  explicit GuardFinder(Program& program) : program_(program) {
    program_.guard_sets = {{}};
    numbers_[{}] = 0;
    program_.guards.assign(program_.nodes.size(), 0);
  }

  void run(const std::vector<int>& order) {
    for (const int node : order) program_.guards[static_cast<std::size_t>(node)] = guards_of(node);
  }

 private:
  int intern(std::vector<Guard> set) {
    std::ranges::sort(set);
    set.erase(std::unique(set.begin(), set.end()), set.end());
    if (set.size() > kMostGuards) return 0;
    const auto [place, fresh] = numbers_.try_emplace(set, static_cast<int>(program_.guard_sets.size()));
    if (fresh) program_.guard_sets.push_back(std::move(set));
    return place->second;
  }

  int behind(const Edge& edge) {
    if (program_.is_argument(edge)) return 0;
    return is_switch(program_.op(edge.node)) ? intern(program_.guards_of(edge))
                                             : program_.guards[static_cast<std::size_t>(edge.node)];
  }

  int united(int a, int b) {
    if (a == b || b == 0) return a;
    if (a == 0) return b;
    const auto [place, fresh] = unions_.try_emplace({a, b}, 0);
    if (fresh) {
      std::vector<Guard> set = program_.guard_sets[static_cast<std::size_t>(a)];
      const std::vector<Guard>& other = program_.guard_sets[static_cast<std::size_t>(b)];
      set.insert(set.end(), other.begin(), other.end());
      place->second = intern(std::move(set));
    }
    return place->second;
  }

  int guards_of(int number) {
    const ProgramNode& node = program_.nodes[static_cast<std::size_t>(number)];
    int all = 0;
    for (const Edge& edge : node.inputs) all = united(all, behind(edge));
    // A constant of a branch is bound to it by control edges alone.
    if (node.inputs.empty()) {
      for (const int control : node.controls) all = united(all, program_.guards[static_cast<std::size_t>(control)]);
    }
    if (!is_merge(node.def->op)) return all;
    std::vector<Guard> left;
    const std::vector<Guard>& set = program_.guard_sets[static_cast<std::size_t>(all)];
    for (const Guard& guard : set) {
      const Guard opposite{.predicate = guard.predicate, .truth = !guard.truth};
      if (!std::ranges::binary_search(set, opposite)) left.push_back(guard);
    }
    return intern(std::move(left));
  }

  Program& program_;
  std::map<std::vector<Guard>, int> numbers_;
  std::map<std::pair<int, int>, int> unions_;
};

// What keeps state, or flows, stays where it is.
bool may_move(std::string_view op) {
  if (is_switch(op) || is_enter(op) || is_exit(op) || is_next_iteration(op) || op == "LoopCond") return false;
  if (is_merge(op)) return true;
  constexpr std::array<std::string_view, 12> kState = {"Assign",      "Apply",      "Resource",    "Scatter",
                                                       "TensorArray", "TensorList", "EmptyTensor", "Stack",
                                                       "Variable",    "VarHandle",  "Restore",     "Sparse"};
  const auto starts = [&](std::string_view prefix) { return op.starts_with(prefix); };
  return find_lowering(op) != nullptr && std::ranges::none_of(kState, starts);
}

class BranchFinder {
 public:
  explicit BranchFinder(Program& program) : program_(program), shared_(program.nodes.size(), false) {}

  void run(const std::vector<int>& order) {
    for (const Edge& edge : program_.results) use(edge, {});
    for (auto number = order.rbegin(); number != order.rend(); ++number) look_at(*number);
    for (const int number : order) {
      const Edge branch = program_.nodes[static_cast<std::size_t>(number)].branch;
      if (branch.node >= 0) program_.branches[branch].push_back(number);
    }
  }

 private:
  // All its users were looked at before.
  void look_at(int number) {
    ProgramNode& node = program_.nodes[static_cast<std::size_t>(number)];
    if (node.branch.node >= 0 && !belongs(number, node.branch)) node.branch = {};
    const bool chooses = is_merge(node.def->op) && !is_loop_merge(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      use(node.inputs[i], chooses ? Edge{number, static_cast<int>(i)} : node.branch);
    }
  }
  bool is_loop_merge(const ProgramNode& node) const {
    return std::ranges::any_of(node.inputs, [&](const Edge& edge) {
      return !program_.is_argument(edge) && is_next_iteration(program_.op(edge.node));
    });
  }
  bool belongs(int number, const Edge& branch) const {
    const ProgramNode& node = program_.nodes[static_cast<std::size_t>(number)];
    const ProgramNode& merge = program_.nodes[static_cast<std::size_t>(branch.node)];
    const Edge last = merge.inputs[static_cast<std::size_t>(branch.output)];
    if (shared_[static_cast<std::size_t>(number)] || node.frame != merge.frame || !may_move(node.def->op)) return false;
    return program_.guards_of({number, 0}) == program_.guards_of(last);
  }
  void use(const Edge& edge, const Edge& branch) {
    if (program_.is_argument(edge)) return;
    Edge& known = program_.nodes[static_cast<std::size_t>(edge.node)].branch;
    std::vector<bool>::reference shared = shared_[static_cast<std::size_t>(edge.node)];
    if (branch.node < 0 || (known.node >= 0 && known != branch)) shared = true;
    known = branch.node < 0 ? known : branch;
  }

  Program& program_;
  std::vector<bool> shared_;  // used elsewhere too
};

}  // namespace

void find_branches(Program& program, const std::vector<int>& order) { BranchFinder(program).run(order); }

// The loops' own switches say nothing.
std::vector<Guard> Program::guards_of(const Edge& edge) const {
  if (is_argument(edge)) return {};
  std::vector<Guard> set = guard_sets[static_cast<std::size_t>(guards[static_cast<std::size_t>(edge.node)])];
  const ProgramNode& node = nodes[static_cast<std::size_t>(edge.node)];
  if (!is_switch(node.def->op) || node.inputs.size() != 2) return set;
  const Edge predicate = node.inputs[1];
  if (is_argument(predicate) || op(predicate.node) != "LoopCond") {
    set.push_back({.predicate = predicate, .truth = edge.output == 1});
  }
  return set;
}

void find_guards(Program& program, const std::vector<int>& order) { GuardFinder(program).run(order); }

}  // namespace finity::tensorflow
