// One call of an op, drawn: attributes by what their names mean, operands by what the op wants of their shapes. Most
// draws are legal; the grower asks the reference about each.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "fuzz/grower.h"

namespace finity::fuzz {

struct Drawn {
  Step step = {};
  std::map<std::string, Tensor, std::less<>> given = {};  // operands that were made for it
  std::set<std::string, std::less<>> constants = {};      // those that are weights
};

std::optional<Drawn> draw_step(Grower& grower, const OpDef& op, const std::string& first);

}  // namespace finity::fuzz
