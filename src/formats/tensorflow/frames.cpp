// Frames of version 1 control flow. Enter takes a value into a loop, Exit out of it, NextIteration hands it to the next
// round; which frame a node is in follows from where its inputs come from.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "base/error.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/program_parts.h"

namespace finity::tensorflow {

namespace {

constexpr int kDeepestFrame = 64;

std::string frame_name(const NodeDef& node) {
  for (const auto& [name, message] : node.attrs) {
    if (name != "frame_name") continue;
    const AttrValue value = read_attr_value(message);
    if (!value.texts.empty()) return std::string(value.texts.front());
  }
  return {};
}

// Kahn's algorithm over numbered things; ready ones in the order of their numbers.
class Sorter {
 public:
  explicit Sorter(std::size_t count) : users_(count), waiting_(count, 0) {}
  void add(int before, int after) {
    users_[static_cast<std::size_t>(before)].push_back(after);
    ++waiting_[static_cast<std::size_t>(after)];
  }
  std::vector<int> sort() {
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int next = ready.top();
      ready.pop();
      order.push_back(next);
      for (const int user : users_[static_cast<std::size_t>(next)]) {
        if (--waiting_[static_cast<std::size_t>(user)] == 0) ready.push(user);
      }
    }
    return order;
  }
  int stuck() const {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i] > 0) return static_cast<int>(i);
    }
    return -1;
  }

 private:
  std::vector<std::vector<int>> users_;
  std::vector<int> waiting_;
};

class FrameFinder {
 public:
  explicit FrameFinder(Program& program) : program_(program) { program_.frames.resize(1); }

  std::vector<int> run() {
    std::vector<int> order = sort_nodes();
    for (const int node : order) place(node);
    for (const int node : order) note_parts(node);
    refuse_endless();
    return order;
  }

 private:
  std::vector<int> sort_nodes() {
    Sorter sorter(program_.nodes.size());
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const auto depend = [&](int on) {
        if (on < static_cast<int>(program_.nodes.size()) && !is_next_iteration(program_.op(on))) {
          sorter.add(on, static_cast<int>(i));
        }
      };
      for (const Edge& edge : program_.nodes[i].inputs) depend(edge.node);
      for (const int control : program_.nodes[i].controls) depend(control);
    }
    std::vector<int> order = sorter.sort();
    if (order.size() != program_.nodes.size()) {
      const NodeDef& node = *program_.nodes[static_cast<std::size_t>(sorter.stuck())].def;
      throw Error("node '" + std::string(node.name) + "': is part of a cycle");
    }
    return order;
  }

  // The frame a node's results are in.
  int frame_behind(int node) const {
    if (node >= static_cast<int>(program_.nodes.size())) return 0;
    const int frame = program_.nodes[static_cast<std::size_t>(node)].frame;
    if (!is_exit(program_.op(node))) return frame;
    return std::max(program_.frames[static_cast<std::size_t>(frame)].parent, 0);
  }
  int depth(int frame) const { return program_.frames[static_cast<std::size_t>(frame)].depth; }

  void place(int number) {
    ProgramNode& node = program_.nodes[static_cast<std::size_t>(number)];
    int frame = 0;
    const auto look = [&](int input) {
      const int other = frame_behind(input);
      if (depth(other) > depth(frame)) frame = other;
    };
    for (const Edge& edge : node.inputs) look(edge.node);
    for (const int control : node.controls) look(control);
    node.frame = is_enter(node.def->op) ? inner_frame(frame, *node.def) : frame;
  }

  int inner_frame(int parent, const NodeDef& enter) {
    const std::string name = frame_name(enter);
    const auto [place, fresh] = known_.try_emplace({parent, name}, static_cast<int>(program_.frames.size()));
    if (fresh) {
      const int depth = this->depth(parent) + 1;
      if (depth > kDeepestFrame) throw Error("node '" + std::string(enter.name) + "': loops are nested too deeply");
      program_.frames.push_back({.name = name, .parent = parent, .depth = depth});
    }
    return place->second;
  }

  void note_parts(int number) {
    const ProgramNode& node = program_.nodes[static_cast<std::size_t>(number)];
    LoopFrame& frame = program_.frames[static_cast<std::size_t>(node.frame)];
    if (is_enter(node.def->op)) frame.enters.push_back(number);
    if (is_exit(node.def->op)) frame.exits.push_back(number);
    if (node.def->op == "LoopCond") frame.condition = number;
    if (!is_merge(node.def->op)) return;
    const auto is_back = [&](const Edge& edge) {
      return !program_.is_argument(edge) && is_next_iteration(program_.op(edge.node));
    };
    if (std::ranges::any_of(node.inputs, is_back)) frame.merges.push_back(number);
  }

  // What is inside a loop is read for what comes out of it: nothing may be left out silently.
  void refuse_endless() const {
    for (const LoopFrame& frame : program_.frames) {
      if (frame.enters.empty() || !frame.exits.empty()) continue;
      const NodeDef& enter = *program_.nodes[static_cast<std::size_t>(frame.enters.front())].def;
      throw Error("node '" + std::string(enter.name) + "': enters the loop '" + frame.name + "', which no node leaves");
    }
  }

  Program& program_;
  std::map<std::pair<int, std::string>, int> known_;
};

// The unit of frame `frame` that holds a node: itself, or the frame inside `frame` it is in; nothing when it is
// outside.
Unit unit_of(const Program& program, int node, int frame) {
  int at = program.nodes[static_cast<std::size_t>(node)].frame;
  if (at == frame) return {.node = node, .frame = -1};
  const int depth = program.frames[static_cast<std::size_t>(frame)].depth;
  while (at > 0 && program.frames[static_cast<std::size_t>(at)].depth > depth + 1) {
    at = program.frames[static_cast<std::size_t>(at)].parent;
  }
  if (at <= 0 || program.frames[static_cast<std::size_t>(at)].parent != frame) return {};
  return {.node = -1, .frame = at};
}

}  // namespace

std::vector<int> find_frames(Program& program) { return FrameFinder(program).run(); }

void order_frames(Program& program) {
  const std::size_t count = program.nodes.size();
  if (program.frames.size() == 1) program.frames[0].order.reserve(count);
  // Things are numbered: nodes, then frames. A thing is ordered in the frame that holds it.
  Sorter sorter(count + program.frames.size());
  const auto number = [&](const Unit& unit) {
    return unit.node >= 0 ? unit.node : static_cast<int>(count) + unit.frame;
  };
  const auto connect = [&](int from, int to) {
    // Both ends as seen from the innermost frame that has them both, and every frame between.
    int frame = program.nodes[static_cast<std::size_t>(to)].frame;
    while (frame >= 0) {
      const Unit before = unit_of(program, from, frame);
      const Unit after = unit_of(program, to, frame);
      const bool both = (before.node >= 0 || before.frame >= 0) && (after.node >= 0 || after.frame >= 0);
      if (both) {
        if (number(before) != number(after)) sorter.add(number(before), number(after));
        return;
      }
      frame = program.frames[static_cast<std::size_t>(frame)].parent;
    }
  };
  for (std::size_t i = 0; i < count; ++i) {
    for (const Edge& edge : program.nodes[i].inputs) {
      if (program.is_argument(edge) || is_next_iteration(program.op(edge.node))) continue;
      connect(edge.node, static_cast<int>(i));
    }
  }
  const std::vector<int> order = sorter.sort();
  if (order.size() != count + program.frames.size()) {
    const int stuck = sorter.stuck();
    if (stuck >= static_cast<int>(count)) {
      throw Error("loop '" + program.frames[static_cast<std::size_t>(stuck) - count].name + "': is part of a cycle");
    }
    throw Error("node '" + std::string(program.nodes[static_cast<std::size_t>(stuck)].def->name) +
                "': is part of a cycle");
  }
  for (const int thing : order) {
    if (thing < static_cast<int>(count)) {
      const int frame = program.nodes[static_cast<std::size_t>(thing)].frame;
      program.frames[static_cast<std::size_t>(frame)].order.push_back({.node = thing, .frame = -1});
    } else if (const int frame = thing - static_cast<int>(count); frame > 0) {
      const int parent = program.frames[static_cast<std::size_t>(frame)].parent;
      program.frames[static_cast<std::size_t>(parent)].order.push_back({.node = -1, .frame = frame});
    }
  }
}

}  // namespace finity::tensorflow
