// Arithmetic of two broadcast operands.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/families.h"

namespace finity {

namespace {

constexpr std::string_view kArithmetic = "(A: T, B: T) -> (C: T) where T: number";

// Integer arithmetic wraps: computed unsigned, where overflow is defined.
struct Plus {
  double operator()(double a, double b) const { return a + b; }
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
};

template <class F>
void eval_arithmetic(EvalCall& call) {
  call.out(0, map_binary(call.in(0), call.in(1), call.in(0).dtype(), F{}));
}

const OpDef kOps[] = {
    {.name = "Add",
     .summary = "a + b",
     .signature = kArithmetic,
     .attrs = "axis: int; broadcast: int = 0; consumed_inputs: ints",
     .tf = "AddV2",
     .infer = infer_broadcast,
     .eval = eval_arithmetic<Plus>},
};

}  // namespace

std::span<const OpDef> binary_ops() { return kOps; }

}  // namespace finity
