// Gradients of ops that run subgraphs. What a subgraph computed is computed again: nothing of it is kept.
#pragma once

namespace finity {

class BuildCall;

void if_gradient(BuildCall& call);
void loop_gradient(BuildCall& call);
void scan_gradient(BuildCall& call);
void sequence_map_gradient(BuildCall& call);

}  // namespace finity
