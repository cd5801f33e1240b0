// A hazard is data: a rule, the operand it looks at, and the operand's unsafe values
// in a format. The checker intersects them with the operand's range; the trigger can
// walk towards them, the fixer keeps to their complement. What only shows in the
// result (overflow, NaN from Inf - Inf) needs no entry: the engine compares flags of
// operands and results, and OpAnalysis::overflow / OpAnalysis::invalid name the rule.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "domain/range.h"

namespace finity {

class BuildCall;

// Values x of the operand's dtype with lo <= x <= hi (infinities allowed as ends).
struct Unsafe {
  double lo = 0;
  double hi = 0;
};
using UnsafeSet = std::vector<Unsafe>;  // sorted, disjoint

struct Hazard {
  std::string_view rule = {};  // code of the rule table, "FN102"
  std::size_t operand = 0;
  UnsafeSet (*unsafe)(DType) = nullptr;  // empty where the dtype has no unsafe value
  // Writes nodes that compute the quantity the unsafe values are of (build_call.h); null: it is the operand itself.
  ValueId (*quantity)(BuildCall&) = nullptr;
};
using Hazards = std::span<const Hazard>;

// The rule table: what users see, select, ignore and look up.
struct Rule {
  std::string_view code = {};     // "FN102"
  std::string_view slug = {};     // "log-of-nonpositive"
  std::string_view summary = {};  // one line
  std::string_view detail = {};   // why it happens, a paragraph
  std::string_view fix = {};      // one line on how to repair it
};
std::span<const Rule> all_rules();
const Rule* find_rule(std::string_view code_or_slug);

// Does the range meet the set?
bool meets(const Range& range, const UnsafeSet& set);
// Only unsafe values, and at least one.
bool surely_in(const Range& range, const UnsafeSet& set);
// The range without the unsafe values, as far as an interval can say it.
Range without(const Range& range, const UnsafeSet& set, DType dtype);

}  // namespace finity
