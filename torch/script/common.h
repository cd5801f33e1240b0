// What lowerings of several kinds use.
#pragma once

#include <string_view>

#include "torch/script/call.h"

namespace finity {

inline constexpr std::string_view kOwn = "finity";  // the domain of ops that ONNX does not have

// PyTorch computes these of integers in float32; numbers of the script are wide.
ValueId as_float(ScriptCall& call, ValueId x);
// Towards zero.
ValueId truncated(ScriptCall& call, ValueId x);
float number(double x);
// One number stands for all axes.
Ints spread(Ints numbers, std::size_t axes);
Ints both_ends(Ints pads);
// As many ones or zeros as the other tensor has elements.
ValueId filled_like(ScriptCall& call, ValueId like, double x);
// The number of elements along axes, in an element type.
ValueId count_along(ScriptCall& call, ValueId x, const Ints& axes, DType dtype);
ValueId whole_constant(ScriptCall& call, const Dims& dims, const std::vector<std::int64_t>& numbers);

template <OpName Op>
void same(ScriptCall& call) {
  call.give(call.add(Op.letters, {call.operand()}));
}

template <OpName Op>
void of_float(ScriptCall& call) {
  call.give(call.add(Op.letters, {as_float(call, call.operand())}));
}

template <OpName Op>
void own(ScriptCall& call) {
  call.give(call.add(Op.letters, {as_float(call, call.operand())}, {}, kOwn));
}

}  // namespace finity
