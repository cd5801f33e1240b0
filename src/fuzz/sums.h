// Ops whose results are sums of products of their float operands: convolutions, matrix products, means. Whatever
// order a library adds in, with or without fused multiply-add, it stays within (n u / (1 - n u)) times the sum of the
// absolute products, which is the op itself on absolute values.
#pragma once

#include <optional>
#include <vector>

#include "fuzz/box.h"

namespace finity::fuzz {

// The first result; nothing when the op is no such op or its operands are not finite.
std::optional<Box> enclose_sum(const Graph& graph, const Node& node, const std::vector<Box>& operands);

}  // namespace finity::fuzz
