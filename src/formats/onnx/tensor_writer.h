// Tensors and constants to TensorProto and SparseTensorProto.
#pragma once

#include <string_view>

#include "formats/onnx/wire.h"
#include "graph/constant.h"

namespace finity::onnx {

// Writes the fields of a TensorProto. Elements that are stored plainly are copied without decoding;
// a constant whose external file is missing refers to that file again. Throws Error for any other
// constant without elements.
void write_tensor(WireWriter& out, const Constant& constant, std::string_view name);

// Whether the constant was read from a SparseTensorProto and can be written as one.
bool is_sparse(const Constant& constant);
void write_sparse_tensor(WireWriter& out, const Constant& constant, std::string_view name);

}  // namespace finity::onnx
