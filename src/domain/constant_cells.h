// What is known of a constant of the graph.
#pragma once

#include "domain/abs_tensor.h"
#include "graph/constant.h"

namespace finity {

// As from_tensor says it of the elements; large tables of floats are read where they lie in the file.
AbsTensor from_constant(const Constant& constant, std::size_t max_cells);

}  // namespace finity
