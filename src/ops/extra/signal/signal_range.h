// Range rules of Fourier transforms, windows and the mel matrix.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

void range_dft(RangeCall& call);
void range_stft(RangeCall& call);
void range_hann_window(RangeCall& call);
void range_hamming_window(RangeCall& call);
void range_blackman_window(RangeCall& call);
void range_mel(RangeCall& call);

}  // namespace finity
