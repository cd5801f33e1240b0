// Attributes of Attention, read once for inference, evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <optional>

#include "ops/table/call.h"

namespace finity {

// Which keys a query may see besides those a mask hides, counted from the query's own position.
struct Reach {
  bool causal = false;
  std::int64_t left = -1, right = -1;  // -1: without end

  bool has_window() const { return left >= 0 || right >= 0; }
};

// Throws Error when a size is below -1.
Reach attention_reach(const Call& call);
// Which scores the fourth result has: 0 raw, 1 after softcap, 2 with the mask, 3 probabilities. Throws Error on others.
int kept_scores(const Call& call);
// The format that the softmax is asked to be in; undefined: none is. Throws Error when it is no float of at least 16
// bits.
DType softmax_precision(const Call& call);
// The factor of the scores; nothing: 1 / sqrt(size of a head).
std::optional<double> score_scale(const Call& call);
// Into how many heads an operand [batch, length, heads * size] splits. Throws Error when it is not said or below 1.
std::int64_t stated_heads(const Call& call, std::string_view attribute);

}  // namespace finity
