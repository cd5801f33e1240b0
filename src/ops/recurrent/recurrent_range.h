// Range rules of RNN, GRU and LSTM. A rule bounds the gates' inputs (the products are
// summed exactly where the weights are known), then the state over all steps: by the
// activations alone where these are bounded, else step by step.
#pragma once

#include "ops/table/range_call.h"

namespace finity {

// Kernels of recurrent ops approximate tanh and sigmoid more coarsely than the ops of these names: ONNX Runtime's
// float32 tanh is off by 10 units of 1 and reaches 1 + 10 u, its sigmoid by 3 and 1 + 2 u (but it is never negative).
inline constexpr Grants kCell = {.measured = {.of_one = 16, .beyond = 16},
                                 .ways = {Way::clips_less, Way::plain_softplus},
                                 .measured_on = kOnnxRuntime};

void range_rnn(RangeCall& call);
void range_gru(RangeCall& call);
void range_lstm(RangeCall& call);

}  // namespace finity
