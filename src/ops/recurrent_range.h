// Range rules of RNN, GRU and LSTM. A rule bounds the gates' inputs (the products are
// summed exactly where the weights are known), then the state over all steps: by the
// activations alone where these are bounded, else step by step.
#pragma once

#include "ops/range_call.h"

namespace finity {

void range_rnn(RangeCall& call);
void range_gru(RangeCall& call);
void range_lstm(RangeCall& call);

}  // namespace finity
