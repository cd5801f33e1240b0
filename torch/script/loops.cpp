// Loops. One of a known length is written out; another becomes a Loop of the graph, with what changes from round to
// round as its state, and what a list collects, one item a round, as what it collects.
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <limits>

#include "torch/script/interpret.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
// Longer loops are written out only where they cannot be a Loop.
constexpr std::int64_t kRounds = 64, kMostRounds = 2048;
constexpr std::size_t kNodes = 4000, kMostNodes = 40000;
constexpr int kPasses = 12;  // until types and lists of the state are those of every round

void mark_leaves(ScriptItem& item, int& next) {
  if (item.is_list) {
    for (ScriptItem& one : item.items) mark_leaves(one, next);
    return;
  }
  const bool number = item.is_constant() && (item.constant.isScalar() || item.constant.isBool());
  if (number) item.is_number = true;
  if (number || item.id.valid() || item.constant.isTensor()) item.leaf = next++;
}

void leaves_of(const ScriptItem& item, std::vector<ScriptItem>& leaves) {
  if (item.leaf >= 0) leaves.push_back(item);
  for (const ScriptItem& one : item.items) leaves_of(one, leaves);
}

bool is_true(const ScriptItem& item) { return item.is_constant() && item.constant.isBool() && item.constant.toBool(); }

DType dtype_within(const Type& type) { return type.element ? type.element->dtype : type.dtype; }

}  // namespace

// The inputs are the most rounds, the first condition and the state; the block takes the round and the state, and gives
// the next condition and state.
void Interpreter::add_loop(const JitNode& node) {
  const Checkpoint mark = checkpoint();
  if (unroll(node, kRounds, kNodes)) return;
  roll_back(mark);
  std::string reason;
  try {
    loop_at_run_time(node);
    return;
  } catch (const Error& error) {
    reason = error.what();
  } catch (const c10::Error& error) {
    reason = words_of(error);
  } catch (const Raised&) {
    reason = "a round raises an exception, and there may be none";
  }
  roll_back(mark);
  if (unroll(node, kMostRounds, kMostNodes)) return;
  leave_unknown(node, mark, reason);
}

bool Interpreter::unroll(const JitNode& node, std::int64_t most, std::size_t most_nodes) {
  const JitBlock& block = *node.blocks()[0];
  const ScriptItem count = settled(node.input(0));
  if (!count.is_constant() || !count.constant.isInt()) return false;
  const std::int64_t rounds = count.constant.toInt();
  if (rounds > most && rounds != kNoLimit) return false;
  std::vector<ScriptItem> state;
  for (std::size_t i = 2; i < node.inputs().size(); ++i) state.push_back(at(node.input(i)));
  ScriptItem condition = settled(node.input(1));
  const std::size_t before = graph_.node_count();
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::optional<bool> goes_on = truth(condition);
    if (!goes_on || round > most || graph_.node_count() - before > most_nodes) return false;
    if (!*goes_on) break;
    set(block.inputs()[0], {.constant = round});
    for (std::size_t i = 0; i < state.size(); ++i) set(block.inputs()[i + 1], state[i]);
    run_block(block);
    condition = settled(block.outputs()[0]);
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = at(block.outputs()[i + 1]);
  }
  for (std::size_t i = 0; i < state.size(); ++i) set(node.outputs()[i], state[i]);
  return true;
}

// A part of the state: a value that is handed on, or an object that changes.
struct Interpreter::Slot {
  enum class Kind : std::uint8_t { parts, collected, sequence };

  std::shared_ptr<ScriptObject> object = {};
  std::size_t place = 0;            // of the value among the block's inputs
  ScriptItem initial = {};          // as it is before the loop
  Kind kind = Kind::parts;          // what becomes of a list
  DType if_empty = DType::float32;  // the element type of a sequence that is empty at first
  // Of this pass: the form of every round, its leaves numbered, and what they are at first and may be.
  ScriptItem before = {};
  std::vector<ValueId> first = {};
  std::vector<Type> types = {};

  void become(Kind other) {
    kind = other;
    types.clear();
  }
};

struct Interpreter::Round {
  BodyId body = {};
  ScriptItem condition = {};
  std::vector<ScriptItem> after = {};  // by slot
  Changed changed = {};                // what was not known to change
};

std::vector<Interpreter::Slot> Interpreter::slots_of(const JitNode& node) {
  const JitBlock& block = *node.blocks()[0];
  std::vector<Slot> slots;
  for (std::size_t i = 1; i < block.inputs().size(); ++i) {
    if (block.outputs()[i] == block.inputs()[i]) {
      ScriptItem same = at(node.input(i + 1));
      set(block.inputs()[i], std::move(same));
      continue;
    }
    mark_shared(at(node.input(i + 1)));
    slots.push_back({.place = i, .initial = settled(node.input(i + 1))});
  }
  return slots;
}

void Interpreter::prepare(Slot& slot) {
  slot.first.clear();
  if (slot.kind == Slot::Kind::collected) {
    slot.before = {.is_collecting = true};
    return;
  }
  slot.before = slot.kind == Slot::Kind::sequence ? as_sequence(slot.initial, slot.if_empty) : slot.initial;
  int next = 0;
  mark_leaves(slot.before, next);
  std::vector<ScriptItem> leaves;
  leaves_of(slot.before, leaves);
  for (const ScriptItem& leaf : leaves) slot.first.push_back(tensor_of(leaf));
  if (!slot.types.empty()) return;
  for (const ValueId id : slot.first) slot.types.push_back(graph_.type(id));
}

// What the body takes for the slot.
ScriptItem Interpreter::enter(const Slot& slot) {
  std::vector<ValueId> inputs;
  for (const Type& type : slot.types) inputs.push_back(graph_.body_input("state", type));
  ScriptItem item = slot.before;
  fill(item, inputs);
  return item;
}

Interpreter::Round Interpreter::run_round(const JitNode& node, const std::vector<Slot>& slots) {
  const JitBlock& block = *node.blocks()[0];
  const Checkpoint mark = checkpoint();
  Round round = {.body = graph_.open_body("loop")};
  set(block.inputs()[0], {.id = graph_.body_input("round", Type::tensor_of(DType::int64, {}))});
  graph_.body_input("goes_on", Type::tensor_of(DType::boolean, {}));
  for (const Slot& slot : slots) {
    ScriptItem item = enter(slot);
    if (slot.object) {
      change(slot.object, std::move(item));
      continue;
    }
    set(block.inputs()[slot.place], std::move(item));
    mark_shared(at(block.inputs()[slot.place]));
  }
  run_block(block);
  round.condition = settled(block.outputs()[0]);
  for (const Slot& slot : slots) {
    if (slot.object) {
      round.after.push_back(slot.kind == Slot::Kind::collected ? slot.object->content : settled(slot.object->content));
      continue;
    }
    mark_shared(at(block.outputs()[slot.place]));
    round.after.push_back(settled(block.outputs()[slot.place]));
  }
  round.changed = changed_since(mark);
  for (const Slot& slot : slots) round.changed.erase(slot.object);
  return round;
}

// False for lists of other lengths.
bool Interpreter::same_form(Slot& slot, const ScriptItem& before, const ScriptItem& after,
                            std::vector<ValueId>& results) {
  if (before.is_list) {
    if (!after.is_list || before.items.size() != after.items.size() || before.keys != after.keys) return false;
    for (std::size_t i = 0; i < before.items.size(); ++i) {
      if (!same_form(slot, before.items[i], after.items[i], results)) return false;
    }
    return true;
  }
  if (before.leaf >= 0) {
    results.push_back(tensor_of(after));
    return true;
  }
  if (before.is_unset && after.is_unset) return true;
  if (before.is_unset && &before == &slot.before) {
    // Set in some round and not read before: it may be anything of that type at first.
    slot.initial = {.id = stand_in(after), .is_number = after.is_number};
    return true;
  }
  if (!same_constant(before, after)) throw Unsupported("a value of the loop changes that is no tensor");
  return true;
}

// Whether what a round leaves is what the next can take; else what rounds take is made wider.
bool Interpreter::fits(Slot& slot, const ScriptItem& after, std::vector<ValueId>& results) {
  if (slot.kind == Slot::Kind::collected) {
    if (after.items.size() != 1) throw Unsupported("a list changes in another way");
    results.push_back(tensor_of(settled(after.items[0])));
    return true;
  }
  if (!same_form(slot, slot.before, after, results)) {
    const bool one_more = slot.object && slot.initial.is_list && slot.initial.items.empty() && after.items.size() == 1;
    slot.become(one_more ? Slot::Kind::collected : Slot::Kind::sequence);
    return false;
  }
  if (slot.before.is_unset) return after.is_unset;
  bool stable = true;
  for (std::size_t i = 0; i < slot.types.size(); ++i) {
    Type& type = slot.types[i];
    const Type& now = graph_.type(results[i]);
    const bool told = dtype_within(type) != DType::undefined && dtype_within(now) != DType::undefined;
    if (told && dtype_within(type) != dtype_within(now)) {
      const bool empty =
          slot.kind == Slot::Kind::sequence && slot.initial.items.empty() && slot.if_empty != dtype_within(now);
      if (!empty) throw Unsupported("a value of the loop changes its element type");
      slot.if_empty = dtype_within(now);
      slot.become(Slot::Kind::sequence);
      return false;
    }
    Type wider = join(type, now);
    // A size that changes once is taken to change always.
    for (Dim& dim : wider.shape) dim = dim.known() ? dim : Dim{};
    Type plain = type;
    for (Dim& dim : plain.shape) dim = dim.known() ? dim : Dim{};
    wider.count = plain.count = {};
    if (plain == wider) continue;
    type = std::move(wider);
    stable = false;
  }
  return stable;
}

void Interpreter::loop_at_run_time(const JitNode& node) {
  const Checkpoint mark = checkpoint();
  std::vector<Slot> slots = slots_of(node);
  name_place(node, "prim::Loop");
  for (int pass = 0; pass < kPasses; ++pass) {
    std::ranges::for_each(slots, [&](Slot& slot) { prepare(slot); });
    Round round;
    bool stable = true;
    try {
      round = run_round(node, slots);
      for (std::size_t i = 0; i < slots.size(); ++i) {
        std::vector<ValueId> results;
        stable = fits(slots[i], round.after[i], results) && stable;
      }
    } catch (const Unsupported&) {
      const auto collected = [](const Slot& slot) { return slot.kind == Slot::Kind::collected; };
      if (std::ranges::none_of(slots, collected)) throw;
      for (Slot& slot : slots) {
        if (collected(slot)) slot.become(Slot::Kind::sequence);
      }
      stable = false;
    }
    if (stable && round.changed.empty()) return finish_loop(node, slots, round);
    roll_back(mark);
    for (const auto& [object, content] : round.changed)
      slots.push_back({.object = object, .initial = settled(object->content)});
  }
  throw Unsupported("its state becomes another in every round");
}

void Interpreter::finish_loop(const JitNode& node, std::vector<Slot>& slots, Round& round) {
  const JitBlock& block = *node.blocks()[0];
  const ScriptItem count = settled(node.input(0)), start = settled(node.input(1));
  const bool endless = count.is_constant() && count.constant.isInt() && count.constant.toInt() == kNoLimit;
  const bool always = is_true(start) && is_true(round.condition);
  if (endless && always) throw Unsupported("it never ends");
  std::vector<ValueId> outputs = {tensor_of(round.condition)};
  std::vector<ValueId> inputs = {endless ? ValueId{} : tensor_of(count), always ? ValueId{} : tensor_of(start)};
  std::vector<std::size_t> at_output(slots.size());
  for (const bool collected : {false, true}) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if ((slots[i].kind == Slot::Kind::collected) != collected) continue;
      at_output[i] = outputs.size() - 1;
      std::vector<ValueId> results;
      fits(slots[i], round.after[i], results);
      outputs.insert(outputs.end(), results.begin(), results.end());
      inputs.insert(inputs.end(), slots[i].first.begin(), slots[i].first.end());
    }
  }
  graph_.close_body(outputs);
  name_place(node, "prim::Loop");
  std::vector<ValueId> results;
  if (outputs.size() > 1) {
    Attrs attrs;
    attrs.set("body", round.body);
    results = graph_.add("Loop", std::move(inputs), std::move(attrs), outputs.size() - 1);
  }
  for (std::size_t i = 1; i < block.inputs().size(); ++i) {
    if (block.outputs()[i] != block.inputs()[i]) continue;
    ScriptItem same = at(node.input(i + 1));
    set(node.outputs()[i - 1], std::move(same));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    ScriptItem item = slots[i].before;
    if (slots[i].kind == Slot::Kind::collected) {
      item = {.id = results[at_output[i]], .is_stacked = true};
    } else {
      const auto from = results.begin() + static_cast<std::ptrdiff_t>(at_output[i]);
      fill(item, {from, from + static_cast<std::ptrdiff_t>(slots[i].first.size())});
    }
    if (slots[i].object) {
      slots[i].object->content = std::move(item);
      continue;
    }
    set(node.outputs()[slots[i].place - 1], std::move(item));
    mark_shared(at(node.outputs()[slots[i].place - 1]));
  }
}

}  // namespace finity
