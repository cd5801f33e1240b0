// Abstract interpretation of a whole graph: a range for every value, and every
// hazard site with its verdict. See docs/architecture.md for the flow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "check/contract.h"
#include "graph/graph.h"
#include "ops/table/range_call.h"
#include "types/infer.h"

namespace finity {

struct CheckOptions {
  RangeSettings ranges = {};
  double time_limit = 0;         // seconds; 0: none. What is not reached is top, with a note.
  std::size_t memory_limit = 0;  // bytes of ranges, about; 0: none. The same.
  bool find_causes = true;       // false: paths follow the widest operand, which costs nothing
};

enum class Verdict : std::uint8_t { proved, confirmed, possible, unknown };
std::string_view name(Verdict verdict);

// One hazard at one node (joined over all iterations of a loop).
struct Finding {
  NodeId node = {};            // invalid for a finding about a constant
  ValueId value = {};          // the operand or result looked at, or the constant
  std::string_view rule = {};  // code
  int operand = -1;            // -1: the result
  Verdict verdict = Verdict::proved;
  bool certain = false;     // every value is unsafe: it fails whenever the node runs
  Range seen = {};          // what reaches the operand, in the formats really used
  std::string reason = {};  // unknown: which unmodelled op is to blame
  int root = -1;            // index of the finding that explains this one (overflow that goes on), or -1
  // Causes, from an input or constant to `value`; a constant that takes part stands before what is made with it.
  std::vector<ValueId> path = {};
  // Which end of path.front() brings it about: -1 its smallest values, 1 its largest, 0 neither or not known.
  int from_end = 0;
};

// What a value is where a select takes it. It feeds nothing else, and is computed again from operands that the select's
// condition restricts.
struct Conditional {
  AbsTensor range = {};
  NodeId select = {};
};

struct Analysis {
  std::vector<AbsTensor> ranges;                         // by ValueId, of all elements; hull() is what reports print
  std::vector<bool> reached;                             // by ValueId
  std::unordered_map<ValueId, Conditional> conditional;  // beside the ranges of all elements
  std::vector<Finding> findings;                         // every site, the proved ones too, in graph order
  std::vector<Note> notes;                               // unmodelled ops, lost precision
  std::size_t modelled_nodes = 0;
  bool complete = true;             // false: a time or memory limit was hit
  bool flushes_subnormals = false;  // it holds where subnormal numbers are flushed to zero, too

  // As whoever uses the value sees it.
  const AbsTensor& used(ValueId id) const {
    const auto found = conditional.find(id);
    return found == conditional.end() ? ranges[id.at()] : found->second.range;
  }
};

Analysis analyze(const Graph& graph, const Types& types, const Premises& premises, const CheckOptions& options = {});

}  // namespace finity
