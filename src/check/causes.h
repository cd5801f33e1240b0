// From a finding back to its cause. At every node the operand is followed that
// brings the unsafe part of the result: the one without which, put at one of its own
// values or at an ordinary one, that part goes away.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "check/analyze.h"

namespace finity {

class CauseTracer {
 public:
  using Operands = std::vector<RangeCall::Operand>;
  // What the op's rule says of an output for these operands. May throw Error.
  using Rule = std::function<Range(const Node&, Operands, std::size_t output)>;

  // Without a rule the widest operand is followed.
  CauseTracer(const Graph& graph, const Types& types, const Analysis& analysis, Rule rule,
              std::function<Operands(const Node&)> operands_of)
      : graph_(graph),
        types_(types),
        analysis_(analysis),
        rule_(std::move(rule)),
        operands_of_(std::move(operands_of)) {}

  // Sets path and from_end.
  void trace(Finding& finding);

 private:
  // Which of a value's numbers are looked for.
  struct Part {
    enum class Kind : std::uint8_t { nan, plus_infinity, minus_infinity, zero, low, high };
    Kind kind = Kind::high;
    double limit = 0;  // low: at most this; high: at least this
    auto operator<=>(const Part&) const = default;
  };
  // One step back.
  struct Step {
    ValueId from = {};                    // invalid: the way ends here
    Part part = {};                       // of `from`
    std::vector<ValueId> constants = {};  // that take part in it
  };
  // What an operand has to do with the part.
  struct Role {
    std::size_t operand = 0;
    double share = 0;     // of its own values that make the part go away
    bool needed = false;  // with some other value there the part goes away
    bool brings = false;  // it has the part itself, as NaN or infinity
    double width = 0;
    Part part = {};  // of the operand, behind the part of the result
  };

  static bool holds(const Range& range, const Part& part);
  static Part widest_end(const Range& range);
  Part start(const Finding& finding) const;
  Part part_in(ValueId value, const Part& part) const;
  Range hull(ValueId value) const { return analysis_.used(value).hull(); }
  bool is_fixed(ValueId value) const;
  bool can_ask(const Node& node) const;
  Step step_back(ValueId value, const Part& part);
  Step leave_body(ValueId value, const Part& part) const;
  Step enter_bodies(const Node& node, std::size_t output, const Part& part) const;
  Step find_step(const Node& node, std::size_t output, const Part& part);
  Step widest(const Node& node, std::size_t output, const Part& part) const;
  std::optional<Role> role_of(const Node& node, const Operands& operands, std::size_t output, std::size_t operand,
                              const Part& part);
  std::optional<bool> remains(const Node& node, Operands operands, std::size_t output, std::size_t operand,
                              const Range& instead, const Part& part);

  const Graph& graph_;
  const Types& types_;
  const Analysis& analysis_;
  Rule rule_;
  std::function<Operands(const Node&)> operands_of_;
  std::map<std::tuple<ValueId, Part>, Step> known_;  // paths of many findings meet
  int asked_ = 0;                                    // calls of rules
};

}  // namespace finity
