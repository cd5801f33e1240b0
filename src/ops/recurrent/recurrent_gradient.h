// Gradients of RNN, GRU and LSTM: through their definitions, a Scan over the steps.
#pragma once

namespace finity {

class BuildCall;

void rnn_gradient(BuildCall& call);
void gru_gradient(BuildCall& call);
void lstm_gradient(BuildCall& call);

}  // namespace finity
