// Attributes of losses over class labels, read once for evaluation, ranges, gradients, quantities and lowerings.
#pragma once

#include <optional>

#include "ops/table/call.h"

namespace finity {

enum class LossReduction : std::uint8_t { none, sum, mean };

inline LossReduction loss_reduction(const Call& call) {
  const std::string text = call.text("reduction");
  return text == "none" ? LossReduction::none : text == "sum" ? LossReduction::sum : LossReduction::mean;
}

// The label that counts for nothing, where an attribute says it.
inline std::optional<std::int64_t> ignored_label(const Call& call) {
  if (!call.has_attr("ignore_index")) return std::nullopt;
  return call.integer("ignore_index");
}

}  // namespace finity
