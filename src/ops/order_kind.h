// How the results of an op are ordered when its operands are. Rounding keeps the
// order, so what holds of these in real numbers holds in floats.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace finity {

enum class OrderKind : std::uint8_t {
  none,
  sum,         // rises with both operands
  difference,  // rises with the first, falls with the second
  product,     // rises with both, where neither is negative
  largest,     // of the operands
  smallest,    //
  floored,     // the first operand, or the second (else zero) where that is larger; perhaps limited from above
  insert_axes  // elements as they are, axes of size 1 besides
};

OrderKind order_kind(const OpDef& op);

}  // namespace finity
