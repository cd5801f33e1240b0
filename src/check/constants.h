// Findings about numbers that stand in the file or in the contract, before anything
// is computed: NaN, infinities, and what a conversion to another format does to them.
#pragma once

#include <vector>

#include "check/analyze.h"
#include "check/convert.h"

namespace finity {

struct ConstantChecks {
  DType target = DType::undefined;     // of a conversion; undefined: the model as it is
  const NodeSet* kept = nullptr;       // nodes that were not converted
  const Analysis* analysis = nullptr;  // of the (converted) model; without it every suspicion is reported
};

// FN401 NaN in a constant; FN402 infinities; with a target also FN403 constants that become infinite, FN404 constants
// of which nothing but zero is left, FN405 constants that become 1 or -1 and were meant to differ from it. Also FN405
// where adding one constant to another changes nothing. See docs/contracts.md for what counts as intended. `original`
// is the model as read; Finding::value and Finding::node are ids of it.
std::vector<Finding> constant_findings(const Graph& original, const ConstantChecks& checks = {});

// FN206: inputs whose declared range the input's format cannot hold.
std::vector<Finding> input_findings(const Premises& premises);

}  // namespace finity
