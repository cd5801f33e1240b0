// What a range rule may look at, and where it leaves its result. A rule must be
// sound: for every choice of operand elements inside the operands' ranges, whatever
// eval (and any other correct library) computes lies in the result, with NaN and
// infinities as flags. When in doubt: call.top(i).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "domain/abs_tensor.h"
#include "ops/table/call.h"
#include "ops/table/grants.h"
#include "ops/table/hazard.h"
#include "ops/table/upstream.h"

namespace finity {

struct Rows;

// Lengths of rows cost time: they are asked for where elements get so large that sums of them may overflow.
enum class Lengths : std::uint8_t { never, of_large, always };

struct RangeSettings {
  std::size_t max_cells = 64;  // 1: smash; 64: partition; large: expand
  bool affine = true;
  // Partial sums of float16 and bfloat16: float32, or the format itself (undefined: either may happen).
  DType accumulate = DType::undefined;
  Runtime runtime = Runtime::measured;  // the implementations that results must hold for
  bool flush_subnormals = false;
  Lengths lengths = Lengths::of_large;
};

// A place where a rule of the table could be violated, as found at one node.
struct Site {
  std::string_view rule = {};
  int operand = -1;       // -1: the result
  Range seen = {};        // what reaches it
  bool possible = false;  // false: proved safe
  bool certain = false;   // every value is unsafe
};

class RangeCall : public Call {
 public:
  using RunBody = std::function<std::vector<AbsTensor>(BodyId, std::span<const AbsTensor>)>;
  // What else an engine can do for a rule; each may be empty.
  struct Hooks {
    std::function<AbsTensor(std::size_t operand, std::size_t condition, bool truth)> assuming = {};
    RunBody probe_body = {};
    std::function<std::vector<AbsTensor>(BodyId, std::size_t condition, bool truth)> run_branch = {};
    std::function<bool(std::size_t whole, std::size_t part)> not_below = {};
    std::function<double(std::size_t operand, const Rows&)> length = {};
    const Upstream::Around* around = nullptr;
    std::span<const ValueId> inputs = {};  // the operands, in the graph around
  };
  struct Operand {
    const AbsTensor* range = nullptr;  // null: omitted
    const Type* type = nullptr;
    ConstantPtr constant = nullptr;  // a weight of the file, not necessarily loaded
    const Tensor* value = nullptr;   // all elements, when known and small
  };

  RangeCall(OpCall what, std::vector<Operand> in, std::vector<const Type*> out_types, const RangeSettings& settings,
            Symbols& symbols, RunBody run_body = {});

  const AbsTensor& in(std::size_t i) const;  // throws Error when omitted
  Range hull(std::size_t i) const { return in(i).hull(); }
  const Type& in_type(std::size_t i) const;
  const Type& out_type(std::size_t i) const { return *out_types_[i]; }
  DType in_dtype(std::size_t i) const { return in(i).dtype; }
  DType out_dtype(std::size_t i) const { return out_types_[i]->dtype; }
  bool has_range(std::size_t i) const { return i < in_.size() && in_[i].range != nullptr; }
  // As the engine gave it: for scans of weights without a copy, and to hand operands on to another op's rule.
  const Operand& operand(std::size_t i) const { return in_[i]; }
  // All elements of the operand, loading a constant of at most `limit` elements; null when unknown.
  const Tensor* value(std::size_t i, std::int64_t limit = std::int64_t{1} << 28);
  std::optional<std::vector<std::int64_t>> ints(std::size_t i);

  void out(std::size_t i, AbsTensor result);  // ignored when the node does not ask for it
  void out(std::size_t i, const Range& range) {
    if (has_output(i)) out(i, uniform(out_type(i), range));
  }
  void top(std::size_t i) {
    if (has_output(i)) out(i, ::finity::top(out_dtype(i)));
  }
  // What elements of output i may also be when it is computed in another way (Way): NaN and infinities that no bound on
  // the definition's result excludes. The engine adds it at the end.
  void besides(std::size_t i, const Range& flags);
  // Output i has the elements of input j at the same indices: range, forms, relations and identity go on.
  void same(std::size_t i, std::size_t j);

  // A hazard that OpAnalysis::hazards cannot express. The rule then assumes it does not happen.
  void site(std::string_view rule, int operand, const Range& seen, bool possible, bool certain = false);

  // What is granted to the op under the runtimes asked for; see grants.h.
  int ulps() const;  // of each library function inside it; 0: correctly rounded
  bool may(Way way) const;
  // Where operand i comes from, as far as the engine says.
  Upstream upstream(std::size_t i) const;
  // What is known of a value of a body that was run; null when the engine does not say.
  const AbsTensor* range_of(ValueId value) const;

  const RangeSettings& settings() const { return settings_; }
  Symbols& symbols() { return symbols_; }
  std::size_t max_cells() const { return settings_.max_cells; }
  // The formats partial sums of `dtype` may be kept in, coarsest first: evaluate in each and join.
  std::vector<DType> accumulators(DType dtype) const;
  std::vector<AbsTensor> run_body(BodyId body, std::span<const AbsTensor> inputs);

  // The same without recording ranges and findings: for iterations towards a fixpoint.
  std::vector<AbsTensor> probe_body(BodyId body, std::span<const AbsTensor> inputs);
  // A body without inputs, entered only when operand `condition` (a scalar) is `truth`.
  std::vector<AbsTensor> run_branch(BodyId body, std::size_t condition, bool truth);
  // Operand i at those elements where operand `condition` is `truth`: what it is computed from elementwise is
  // restricted by the comparison first, so that Where(x > 0, log(x), 0) sees only positive x.
  AbsTensor assuming(std::size_t i, std::size_t condition, bool truth) const;

  // Element by element, operand `whole` is at least operand `part`: a sum of it and of what is not negative, or the
  // larger of some values of which the other is the smaller. Asked where it matters, for there are many sums.
  bool not_below(std::size_t whole, std::size_t part) const;

  // No row of operand i is longer (see lengths.h); Inf when nothing is known.
  double length(std::size_t i, const Rows& rows) const;

  // For the engine.
  void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }
  std::vector<AbsTensor>& outs() { return out_; }
  std::vector<bool>& given() { return given_; }
  std::vector<Site>& sites() { return sites_; }
  void add_besides();
  std::vector<Range>& all_besides() { return besides_; }

 private:
  std::vector<Operand> in_;
  std::vector<const Type*> out_types_;
  const RangeSettings& settings_;
  Symbols& symbols_;
  RunBody run_body_;
  Hooks hooks_;
  std::vector<AbsTensor> out_;
  std::vector<bool> given_;
  std::vector<Range> besides_;  // by output; empty: nothing
  std::vector<Site> sites_;
  std::vector<std::shared_ptr<const Tensor>> loaded_;
};

}  // namespace finity
