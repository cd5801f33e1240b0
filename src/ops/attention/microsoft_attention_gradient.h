// Gradients of ONNX Runtime's attention ops: through their definitions.
#pragma once

namespace finity {

class BuildCall;

void microsoft_attention_gradient(BuildCall& call);
void multi_head_gradient(BuildCall& call);
void microsoft_rotary_gradient(BuildCall& call);
void group_query_gradient(BuildCall& call);

}  // namespace finity
