// Compares what nodes really gave with what the analysis says of them, node by
// node. After a failure that a finding foretold nothing is promised any more: what
// is computed from there on is left out.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "check/analyze.h"
#include "ops/table/datum.h"

namespace finity {

struct Judged {
  std::size_t tensors = 0;   // compared with their ranges
  std::size_t elements = 0;  // in these
  std::size_t vacuous = 0;   // tensors of which nothing was claimed
  std::size_t skipped = 0;   // tensors after a failure that a finding had predicted
};

class Judge {
 public:
  // Told of every value that leaves its range (the node is null for an input); may throw.
  using Escaped = std::function<void(const Node*, ValueId, const std::string& what)>;

  // Told of a finding that was met: the node made NaN or Inf of operands that do not explain it, or a number that
  // an integer cannot hold was cast. `what` is "element [2] of 'y' is -Inf".
  using Met = std::function<void(const Finding&, const std::string& what)>;

  // `partial`: outputs that are absent were computed but are not at hand, so a failure there cannot be ruled out.
  Judge(const Graph& graph, const Analysis& analysis, Judged& judged, bool partial, Escaped escaped, Met met = {});

  // Elements of a value that no node computes.
  void give(ValueId id, Datum datum);
  void check_given(ValueId id);
  // `inputs`: what the node got, where it is at hand: operands that enter a body from outside are known only so.
  void look_at(const Node& node, std::span<const Datum> outputs, std::span<const Datum> inputs = {});
  // The run ended with an error that names a node, as when an integer is divided by zero.
  void stopped(std::string_view error) const;

 private:
  void suspect_bodies(BodyId body);
  bool inherits_failure(const Node& node) const;
  bool predicted_failure(const Node& node, std::span<const Datum> outputs, bool escaped) const;
  bool may_have_happened(const Node& node, const Finding& finding, std::span<const Datum> outputs, bool escaped) const;
  bool hits_unsafe(const Node& node, const Finding& finding) const;
  bool is_handed_on(const Node& node, std::span<const Datum> outputs) const;
  Datum operand(ValueId id) const;
  std::string new_failure(const Node& node, std::span<const Datum> outputs, bool by_itself) const;
  std::string unsafe_element(const Node& node, const Finding& finding) const;
  void tell_met(const Node& node, std::span<const Datum> outputs) const;
  void stopped_at(const Node& node) const;
  const std::vector<const Finding*>* open_at(const Node& node) const;
  void fail_from(const Node& node, std::span<const Datum> outputs);
  void check_output(const Node& node, ValueId id, const Datum& datum, const std::string& escape);
  bool check_relations(ValueId id, const Datum& datum);
  void count(ValueId id, const Datum& datum);
  const Datum* concrete(ValueId id) const;

  const Graph& graph_;
  const Analysis& analysis_;
  Judged& judged_;
  bool partial_ = false;
  Escaped escaped_;
  Met met_;
  std::unordered_map<NodeId, std::vector<const Finding*>> open_;  // findings that were not proved
  std::unordered_map<ValueId, Datum> values_;
  std::unordered_map<ValueId, Datum> entering_;  // operands of the node looked at that enter a body
  std::vector<bool> failed_;                     // by ValueId: comes after a failure that was predicted
  std::vector<bool> body_failed_;                // by BodyId: something in it failed
};

}  // namespace finity
