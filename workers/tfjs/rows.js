// Products, reductions, normalisations: what works on rows.
'use strict';

const {Value, INT64, count} = require('./value.js');

function matMul(c) {
  const tf = c.tf;
  let a = c.float(0), b = c.float(1);
  const [ra, rb] = [a.shape.length, b.shape.length];
  if (ra === 0 || rb === 0) throw new Error('an operand has no axes');
  if (ra === 1) a = tf.reshape(a, [1, ...a.shape]);
  if (rb === 1) b = tf.reshape(b, [...b.shape, 1]);
  let y = tf.matMul(a, b);
  if (ra === 1 && rb === 1) y = tf.reshape(y, []);
  else if (ra === 1) y = tf.reshape(y, [...y.shape.slice(0, -2), y.shape[y.shape.length - 1]]);
  else if (rb === 1) y = tf.reshape(y, y.shape.slice(0, -1));
  c.out(y);
}

function gemm(c) {
  const tf = c.tf;
  if (c.opset < 7) c.lacks('broadcasting before opset 7 is not written for TensorFlow.js');
  let y = tf.matMul(c.float(0), c.float(1), c.attr('transA', 0) !== 0, c.attr('transB', 0) !== 0);
  const alpha = c.attr('alpha', 1), beta = c.attr('beta', 1);
  if (alpha !== 1) y = tf.mul(y, alpha);
  if (c.has(2) && beta !== 0) y = tf.add(y, beta === 1 ? c.in(2) : tf.mul(c.in(2), beta));
  c.out(y);
}

// Axes to reduce; null: none, the operand stays.
function axesOf(c) {
  const rank = c.value(0).dims.length;
  const given = c.has(1) ? c.list(1) : c.attr('axes', []);
  if (given.length > 0) return [...new Set(given.map((a) => c.axis(a, rank)))];
  return c.attr('noop_with_empty_axes', 0) !== 0 ? null : Array.from({length: rank}, (_, i) => i);
}

const reduction = (f) => (c) => {
  const axes = axesOf(c), keep = c.attr('keepdims', 1) !== 0;
  if (axes === null) c.lacks('reductions over no axis are not handed over');
  c.out(f(c.tf, c.in(0), axes, keep, c), 0);
};
const floats = (f) => reduction((tf, x, axes, keep, c) => (c.float(0), f(tf, x, axes, keep, c)));

const extreme = (name) => (c) => {
  const rank = c.value(0).dims.length, axis = c.axis(c.attr('axis', 0), rank);
  if (c.attr('select_last_index', 0) !== 0) c.lacks(`tf.${name} takes the first`);
  let y = c.tf[name](c.in(0), axis);
  if (c.attr('keepdims', 1) !== 0) y = c.tf.expandDims(y, axis);
  c.put(Value.of(c.tf, INT64, y));
};

// A row is one axis, or before opset 13 everything from it on.
const softmax = (name) => (c) => {
  const tf = c.tf, x = c.float(0), dims = x.shape, rank = dims.length;
  if (rank === 0) c.lacks('there are no rows in a scalar');
  if (c.opset < 13) {
    const given = c.attr('axis', 1), axis = given < 0 ? given + rank : given;
    const flat = tf.reshape(x, [count(dims.slice(0, axis)), count(dims.slice(axis))]);
    return c.out(tf.reshape(tf[name](flat), dims));
  }
  const axis = c.axis(c.attr('axis', -1), rank);
  if (axis === rank - 1) return c.out(tf[name](x));
  const turned = Array.from({length: rank}, (_, i) => i === axis ? rank - 1 : i === rank - 1 ? axis : i);
  c.out(tf.transpose(tf[name](tf.transpose(x, turned)), turned));
};

function batchNorm(c) {
  const tf = c.tf, x = c.float(0), rank = x.shape.length;
  const training = c.opset < 7 ? c.attr('is_test', 0) === 0 : c.attr('training_mode', 0) !== 0;
  if (training || c.attr('spatial', 1) === 0 || c.node.outputs.filter((o) => o !== '').length > 1) {
    c.lacks('only normalisation with given statistics is handed over');
  }
  if (rank < 2 || rank > 4) c.lacks('tf.batchNorm takes 2 to 4 axes');
  const last = [0, ...Array.from({length: rank - 2}, (_, i) => i + 2), 1];
  const first = [0, rank - 1, ...Array.from({length: rank - 2}, (_, i) => i + 1)];
  const norm = tf.batchNorm || tf.batchNormalization;
  const epsilon = c.attr('epsilon', 1e-5);
  const wide = rank === 2 ? x : tf.transpose(x, last);
  const y = tf.batchNorm ? norm(wide, c.in(3), c.in(4), c.in(2), c.in(1), epsilon) :
                           norm(wide, c.in(3), c.in(4), epsilon, c.in(1), c.in(2));
  c.out(rank === 2 ? y : tf.transpose(y, first));
}

// As the layer of TensorFlow.js does it.
function layerNorm(c) {
  const tf = c.tf, x = c.float(0), rank = x.shape.length, from = c.axis(c.attr('axis', -1), rank);
  if (c.node.outputs.filter((o) => o !== '').length > 1) c.lacks('the statistics are not handed back');
  const axes = Array.from({length: rank - from}, (_, i) => i + from);
  const {mean, variance} = tf.moments(x, axes, true);
  const scale = tf.rsqrt(tf.add(variance, c.attr('epsilon', 1e-5)));
  const y = tf.mul(tf.mul(tf.sub(x, mean), scale), c.in(1));
  c.out(c.has(2) ? tf.add(y, c.in(2)) : y);
}

function localResponse(c) {
  const tf = c.tf, x = c.float(0), size = c.attr('size', 1);
  if (x.shape.length !== 4 || size % 2 === 0) c.lacks('TensorFlow.js wants 4 axes and an odd size');
  const y = tf.localResponseNormalization(tf.transpose(x, [0, 2, 3, 1]), (size - 1) / 2, c.attr('bias', 1),
                                          c.attr('alpha', 0.0001) / size, c.attr('beta', 0.75));
  c.out(tf.transpose(y, [0, 3, 1, 2]));
}

function cumSum(c) {
  const rank = c.value(0).dims.length, axis = c.axis(c.list(1)[0], rank);
  c.out(c.tf.cumsum(c.in(0), axis, c.attr('exclusive', 0) !== 0, c.attr('reverse', 0) !== 0), 0);
}

function topK(c) {
  const rank = c.value(0).dims.length;
  if (c.opset < 10 || c.attr('largest', 1) === 0) c.lacks('tf.topk gives the largest');
  if (c.axis(c.attr('axis', -1), rank) !== rank - 1) c.lacks('tf.topk works on the last axis');
  const {values, indices} = c.tf.topk(c.in(0), c.list(1)[0], true);
  c.out(values, 0);
  c.put(Value.of(c.tf, INT64, indices));
}

function einsum(c) {
  const operands = Array.from({length: c.count}, (_, i) => c.float(i));
  c.out(c.need('einsum')(c.attr('equation', '').replace(/ /g, ''), ...operands));
}

module.exports = {
  ArgMax: extreme('argMax'),
  ArgMin: extreme('argMin'),
  BatchNormalization: batchNorm,
  CumSum: cumSum,
  Einsum: einsum,
  Gemm: gemm,
  LRN: localResponse,
  LayerNormalization: layerNorm,
  LogSoftmax: softmax('logSoftmax'),
  MatMul: matMul,
  ReduceL1: floats((tf, x, axes, keep) => tf.sum(tf.abs(x), axes, keep)),
  ReduceL2: floats((tf, x, axes, keep) => tf.sqrt(tf.sum(tf.square(x), axes, keep))),
  ReduceLogSum: floats((tf, x, axes, keep) => tf.log(tf.sum(x, axes, keep))),
  ReduceLogSumExp: floats((tf, x, axes, keep) => tf.logSumExp(x, axes, keep)),
  ReduceMax: reduction((tf, x, axes, keep) => tf.max(x, axes, keep)),
  ReduceMean: floats((tf, x, axes, keep) => tf.mean(x, axes, keep)),
  ReduceMin: reduction((tf, x, axes, keep) => tf.min(x, axes, keep)),
  ReduceProd: floats((tf, x, axes, keep) => tf.prod(x, axes, keep)),
  ReduceSum: reduction((tf, x, axes, keep) => tf.sum(x, axes, keep)),
  ReduceSumSquare: floats((tf, x, axes, keep) => tf.sum(tf.square(x), axes, keep)),
  Softmax: softmax('softmax'),
  TopK: topK,
};
