// Broadcasting of binary ops. From opset 7 on it is numpy's. Before, only the
// second operand is repeated, and only with broadcast=1: it has one element, or
// its shape is a run of the first one's shape that starts at `axis` (default: at
// the end). Attributes of ops that had it: kLegacyBroadcast.
#pragma once

#include <string_view>

#include "ops/table/call.h"

namespace finity {

inline constexpr std::string_view kLegacyBroadcast =
    "axis: int until 6; broadcast: int = 0 until 6; consumed_inputs: ints until 5";

// Whether this call broadcasts so.
bool broadcasts_legacy(const Call& call);
// Output 0's shape from inputs 0 and 1.
void infer_binary(InferCall& call);
// b with the dimensions of size 1 behind it that make numpy's rule mean the legacy one.
Tensor aligned_right(const Call& call, const Tensor& a, const Tensor& b);

}  // namespace finity
