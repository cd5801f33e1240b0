// What Loop and Scan share: a body that runs again and again on values it hands
// to itself (its state), and outputs collected over the iterations.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "ops/table/call.h"

namespace finity {

// Types for one run of the body: its inputs are `before`, the state, `after`, in that order;
// its outputs hold the new state from `first_output` on.
struct LoopTypes {
  std::vector<Type> before;
  std::vector<Type> state;
  std::vector<Type> after;
  std::size_t first_output = 0;
};

// Types of the body's outputs that hold in every iteration: what changes from one iteration to
// the next (a growing dimension) is unknown in the result. Throws Error when a state changes its dtype.
std::vector<Type> infer_every_iteration(InferCall& call, BodyId body, LoopTypes types);

// The type of a value collected over iterations: `length` inserted into the shape at `axis`
// (negative: from the end of the result). Throws Error when the axis is outside.
Type collected_type(const Type& element, const Dim& length, std::int64_t axis);

// The collected values of one output. When there are none, the element's shape and dtype come
// from the type declared for the body's output; sizes not declared are 0.
Tensor collect(const Call& call, ValueId body_output, const std::vector<Tensor>& parts, std::int64_t axis);

// Throws Error unless the body takes and gives the expected numbers of values; `scans` more outputs may follow.
void require_body_arity(const Call& call, BodyId body, std::size_t inputs, std::size_t min_outputs);

const Tensor& require_tensor(const Datum& datum, std::string_view what);

// Of a Loop: given a trip count and no condition, the condition the body computes is ignored.
bool condition_counts(const Call& call);
// Whether the body's condition is the one it was given, or a constant true.
bool keeps_condition(const Call& call, const Body& body);

}  // namespace finity
