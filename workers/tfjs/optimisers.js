// One step of the library's own optimisers, with Keras' default parameters, from weights and their gradients.
'use strict';

const {Unsupported} = require('./protocol.js');
const {Value, FLOAT} = require('./value.js');

const makers = {
  sgd: (train) => train.sgd(0.01),
  rmsprop: (train) => train.rmsprop(0.001, 0.9, 0, 1e-7),
  adagrad: (train) => train.adagrad(0.01, 0),
  adadelta: (train) => train.adadelta(1, 0.95, 1e-7),
  adam: (train) => train.adam(0.001, 0.9, 0.999, 1e-7),
  adamax: (train) => train.adamax(0.002, 0.9, 0.999, 1e-7),
};

let made = 0;

// `data` has a weight and its gradient in turn; the weights come back under their names.
function optimiserStep(tf, name, data) {
  if (!(name in makers)) throw new Unsupported(`TensorFlow.js has no optimiser ${name}`);
  if (data.length % 2 !== 0) throw new Error('each weight wants a gradient');
  const optimiser = makers[name](tf.train), weights = [], gradients = {};
  for (let i = 0; i < data.length; i += 2) {
    const own = `finity${made++}`;
    weights.push([data[i][0], tf.variable(Value.ofBytes(tf, data[i][1]).tensor, true, own)]);
    gradients[own] = Value.ofBytes(tf, data[i + 1][1]).tensor;
  }
  try {
    optimiser.applyGradients(gradients);
    return weights.map(([key, variable]) => [key, Value.of(tf, FLOAT, variable).toMessage()]);
  } finally {
    for (const [, variable] of weights) variable.dispose();
    if (optimiser.dispose) optimiser.dispose();
  }
}

module.exports = {optimiserStep};
