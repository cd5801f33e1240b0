// Derivatives of activation functions that take more than a line, and what they share with the functions themselves.
#pragma once

#include "ops/table/build_call.h"

namespace finity {

double selu_alpha(const Call& call);
double selu_gamma(const Call& call);

void selu_gradient(BuildCall& call);
void prelu_gradient(BuildCall& call);
void swish_gradient(BuildCall& call);
void swiglu_gradient(BuildCall& call);
void mish_gradient(BuildCall& call);
void gelu_gradient(BuildCall& call);

}  // namespace finity
