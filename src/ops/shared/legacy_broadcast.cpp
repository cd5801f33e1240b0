#include "ops/shared/legacy_broadcast.h"

#include <algorithm>

#include "base/error.h"
#include "ops/shared/shapes.h"

namespace finity {

namespace {

// How many dimensions of size 1 to put behind b's.
std::size_t padding(const Call& call, std::size_t rank_a, std::size_t rank_b) {
  const std::int64_t axis = call.integer("axis", -1);
  if (axis == -1) return 0;  // aligned at the end
  const auto start = static_cast<std::int64_t>(normalize_axis(axis, rank_a, true));
  const std::int64_t behind = static_cast<std::int64_t>(rank_a) - start - static_cast<std::int64_t>(rank_b);
  if (behind < 0) {
    throw Error("attribute 'axis' is " + std::to_string(axis) + ": operands of rank " + std::to_string(rank_a) +
                " and " + std::to_string(rank_b) + " do not align there");
  }
  return static_cast<std::size_t>(behind);
}

}  // namespace

bool broadcasts_legacy(const Call& call) { return call.version() < 7 && call.integer("broadcast", 0) != 0; }

void infer_binary(InferCall& call) {
  if (!broadcasts_legacy(call)) return infer_broadcast(call);
  if (!call.ranked(0)) return;
  call.set_shape(0, call.shape(0));
  if (!call.ranked(1)) return;
  Shape right = call.shape(1);
  // One element fits anywhere; a size that is not known yet is left to eval.
  if (std::ranges::any_of(right, [](const Dim& dim) { return !dim.known(); })) return;
  if (std::ranges::all_of(right, [](const Dim& dim) { return dim.size == 1; })) return;
  right.resize(right.size() + padding(call, call.rank(0), right.size()), Dim::of(1));
  broadcast(call.shape(0), right);
}

Tensor aligned_right(const Call& call, const Tensor& a, const Tensor& b) {
  if (!broadcasts_legacy(call)) return b;
  if (b.size() == 1) return b.reshaped({});
  Dims dims = b.dims();
  dims.resize(dims.size() + padding(call, a.rank(), b.rank()), 1);
  if (broadcast(a.dims(), dims) != a.dims()) {
    throw Error("operand " + to_string(b.dims()) + " is not part of " + to_string(a.dims()));
  }
  return b.reshaped(std::move(dims));
}

}  // namespace finity
