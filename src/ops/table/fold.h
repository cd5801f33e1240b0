// Folding of constants: what the reference computes of operands that are known
// element by element. Type inference, the checker and tables of rows fold alike.
#pragma once

#include <span>
#include <vector>

#include "ops/table/call.h"

namespace finity {

// Known operands decide the results: nothing is drawn, no body is run, and where floats take part (`floats`) every
// library computes the same bits.
bool folds(const OpDef& op, const Attrs& attrs, bool floats);

// Throws Error as the op's evaluation does.
std::vector<Datum> fold(const OpCall& what, std::span<const Datum> operands);

}  // namespace finity
