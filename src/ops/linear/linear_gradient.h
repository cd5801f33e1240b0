// Gradients of products of matrices, of Einsum and of convolutions.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

void matmul_gradient(BuildCall& call);
void gemm_gradient(BuildCall& call);
// Of a product with weights that are quantised in blocks.
void block_product_gradient(BuildCall& call);
void det_gradient(BuildCall& call);
void inverse_gradient(BuildCall& call);
void einsum_gradient(BuildCall& call);
void conv_gradient(BuildCall& call);
// The bias of each channel is added everywhere in it.
void give_bias_gradient(BuildCall& call, std::size_t bias);

}  // namespace finity
