// Gradients of Fourier transforms: they are linear, so what arrives is transformed back without dividing by the number
// of points, or forward where the transform was the inverse.
#pragma once

namespace finity {

class BuildCall;

void dft_gradient(BuildCall& call);
void stft_gradient(BuildCall& call);

}  // namespace finity
