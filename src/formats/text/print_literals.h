// Writes the parts of the text form that stand for values: the inverse of literals.h.
#pragma once

#include <cstdint>
#include <string>

#include "graph/constant.h"
#include "graph/graph.h"
#include "graph/type.h"

namespace finity::textform {

// Shortest decimal that reads back as the same number.
std::string print_number(double value);
std::string print_number(float value);
// With a point, an exponent, inf or nan, so that it does not read as an integer.
std::string print_float_attr(float value);

std::string print_type(const Graph& graph, const Type& type);
// "float32[2, 2]"
std::string print_tensor_type(DType dtype, const Dims& dims);
// "{1, 2}", or {...} above max_elements, or {... "reason"} when the elements cannot be had.
std::string print_elements(const Constant& constant, std::int64_t max_elements);
// With its type, and the word sparse where it is.
std::string print_constant(const Constant& constant, std::int64_t max_elements);

}  // namespace finity::textform
