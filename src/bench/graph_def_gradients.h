// The backward pass of a graph that a GraphDefMaker wrote, as TensorFlow's own functions write it: what begins with
// ones of the loss's shape and ends in a step of gradient descent for every variable that the loss depends on.
#pragma once

#include <string>

#include "bench/graph_def_maker.h"

namespace finity {

void add_training_step(GraphDefMaker& maker, const std::string& loss, double rate);

}  // namespace finity
