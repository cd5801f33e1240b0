// Gradients of attention: through its definition, softmax of scaled products.
#pragma once

namespace finity {

class BuildCall;

void attention_gradient(BuildCall& call);
void rotary_gradient(BuildCall& call);
void linear_attention_gradient(BuildCall& call);

}  // namespace finity
