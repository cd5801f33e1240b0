// Random inputs for a model, from its types and a seed alone.
#pragma once

#include "exec/reference.h"
#include "types/infer.h"

namespace finity {

// Throws Error naming the input when a tensor of this size is more than anybody wants to draw.
void check_drawn_size(const std::string& input, const Dims& dims);

// Floats uniform in [0, 1), integers in [0, 10), bools fair, strings "0".."9". Inputs with a
// default, or already in `given`, are left alone. Throws Error naming an input whose shape is not known.
void draw_inputs(const Graph& graph, const Types& types, std::uint64_t seed, Inputs& given);

}  // namespace finity
