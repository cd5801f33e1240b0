// Reads the parts of the text form that stand for values: types, tensors, numbers.
#pragma once

#include "formats/text/lexer.h"
#include "graph/builder.h"
#include "graph/constant.h"
#include "graph/type.h"
#include "tensor/tensor.h"

namespace finity::textform {

// A number of a floating dtype. Rounds; refuses what overflows the dtype.
double read_real(Lexer& in, DType dtype);

// float32[2, ?, N], sequence(...), ?; symbols are entered into the builder.
Type read_type(Lexer& in, GraphBuilder& builder);

// [2, 2] {1, 2, 3, 4} of a dtype already read.
Tensor read_tensor(Lexer& in, DType dtype);
Tensor read_tensor(Lexer& in);

// A tensor literal that may be sparse or elided. Without a type of its own, as in
// `w: float32[2] = {1, 2}`, it takes the declared one.
ConstantPtr read_constant(Lexer& in, const Type& declared);

}  // namespace finity::textform
