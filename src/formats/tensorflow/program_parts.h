// The steps that make a Program of resolved nodes.
#pragma once

#include <vector>

#include "formats/tensorflow/program.h"

namespace finity::tensorflow {

// Puts each node into its frame and fills the frames. Returns the nodes in an order in which each comes behind its
// inputs, but for what NextIteration hands back. Throws Error at a cycle without one.
std::vector<int> find_frames(Program& program);
// What each node's result is guarded by.
void find_guards(Program& program, const std::vector<int>& order);
// Which nodes are computed for one input of a Merge only: the insides of a branch.
void find_branches(Program& program, const std::vector<int>& order);
// Orders nodes and inner frames within each frame.
void order_frames(Program& program);

}  // namespace finity::tensorflow
