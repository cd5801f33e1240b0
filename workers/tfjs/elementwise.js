// Elementwise ops. Those without a function of their own are composed as the layers of TensorFlow.js compose them.
'use strict';

const {Value, FLOAT, INT32, INT64, BOOL, carriers} = require('./value.js');

const unary = (name) => (c) => c.out(c.need(name)(c.float(0)));
// Integers too.
const signed = (name) => (c) => c.out(c.need(name)(c.in(0)), 0);

// Before opset 7 the second operand is lined up by attributes.
function pair(c) {
  if (c.opset < 7) c.lacks('broadcasting before opset 7 is not written for TensorFlow.js');
  return [c.in(0), c.in(1)];
}
const binary = (name) => (c) => c.out(c.need(name)(...pair(c)), 0);
const comparison = (name) => (c) => c.out(c.need(name)(...pair(c)));
const logical = (name) => (c) => c.out(c.need(name)(...pair(c)));

// One after the other.
const folded = (name) => (c) => {
  let result = c.in(0);
  for (let i = 1; i < c.count; ++i) result = c.need(name)(result, c.in(i));
  c.out(result, 0);
};

function clip(c) {
  // Absent bounds were the largest numbers before opset 11, and are none since.
  const early = c.opset < 11, most = early ? 3.4028234663852886e38 : Infinity;
  const bound = (i, attribute, fallback) => early ? c.attr(attribute, fallback) : c.has(i) ? c.list(i)[0] : fallback;
  const low = bound(1, 'min', -most), high = bound(2, 'max', most);
  if (low > high) c.lacks('TensorFlow.js clips to bounds in order only');
  c.out(c.tf.clipByValue(c.float(0), low, high), 0);
}

// tf.elu has no alpha: the negative part is scaled.
function elu(c) {
  const tf = c.tf, x = c.float(0), alpha = c.attr('alpha', 1);
  if (alpha === 1) return c.out(tf.elu(x));
  c.out(tf.add(tf.relu(x), tf.mul(tf.elu(tf.minimum(x, tf.scalar(0))), alpha)));
}

function selu(c) {
  const near = (a, b) => Math.abs(a - b) < 1e-6;
  if (c.opset < 6 || !near(c.attr('alpha', 1.67326319), 1.67326319) || !near(c.attr('gamma', 1.05070102), 1.05070102)) {
    c.lacks('tf.selu has no parameters');
  }
  c.out(c.tf.selu(c.float(0)));
}

function div(c) {
  // TensorFlow.js rounds quotients of integers down, ONNX towards zero.
  c.float(0);
  c.out(c.tf.div(...pair(c)));
}

function mod(c) {
  if (c.attr('fmod', 0) !== 0) c.lacks('tf.mod has the sign of the divisor');
  if (c.value(0).dtype === FLOAT) c.lacks('Mod without fmod is for integers');
  c.out(c.tf.mod(...pair(c)), 0);
}

function cast(c) {
  const to = c.attr('to', 0);
  if (!(to in carriers)) c.lacks(`TensorFlow.js has no elements of type ${to}`);
  const value = c.value(0);
  if (to === INT64 && value.dtype === INT64) return c.put(value);
  if (value.dtype === FLOAT && to === BOOL) return c.put(Value.of(c.tf, BOOL, c.tf.cast(c.in(0), 'bool')));
  c.put(Value.of(c.tf, to, c.tf.cast(c.in(0), carriers[to])));
}

function where(c) {
  const dtype = c.value(1).dtype;
  if (dtype !== c.value(2).dtype) throw new Error('the branches differ in type');
  c.out(c.tf.where(c.in(0), c.in(1), c.in(2)), 1);
}

function gelu(c) {
  const tf = c.tf, x = c.float(0);
  if (c.attr('approximate', 'none') !== 'none') c.lacks('only the exact form is written');
  c.out(tf.mul(tf.mul(x, 0.5), tf.add(c.need('erf')(tf.mul(x, Math.SQRT1_2)), 1)));
}

function hardSigmoid(c, alpha, beta) {
  return c.tf.clipByValue(c.tf.add(c.tf.mul(c.float(0), alpha), beta), 0, 1);
}

function isInf(c) {
  if (c.attr('detect_negative', 1) === 0 || c.attr('detect_positive', 1) === 0) c.lacks('tf.isInf has no sign');
  c.out(c.need('isInf')(c.float(0)));
}

function logicalXor(c) {
  c.out(c.need('logicalXor')(...pair(c)));
}

function prelu(c) {
  if (c.opset < 7) c.lacks('broadcasting before opset 7 is not written for TensorFlow.js');
  c.out(c.tf.prelu(c.float(0), c.in(1)));
}

module.exports = {
  Abs: signed('abs'),
  Acos: unary('acos'),
  Acosh: unary('acosh'),
  Add: binary('add'),
  And: logical('logicalAnd'),
  Asin: unary('asin'),
  Asinh: unary('asinh'),
  Atan: unary('atan'),
  Atanh: unary('atanh'),
  Cast: cast,
  Ceil: unary('ceil'),
  Clip: clip,
  Cos: unary('cos'),
  Cosh: unary('cosh'),
  Div: div,
  Elu: elu,
  Equal: comparison('equal'),
  Erf: unary('erf'),
  Exp: unary('exp'),
  Floor: unary('floor'),
  Gelu: gelu,
  Greater: comparison('greater'),
  GreaterOrEqual: comparison('greaterEqual'),
  HardSigmoid: (c) => c.out(hardSigmoid(c, c.attr('alpha', 0.2), c.attr('beta', 0.5))),
  HardSwish: (c) => c.out(c.tf.mul(c.float(0), hardSigmoid(c, 1 / 6, 0.5))),
  Identity: (c) => c.put(c.value(0)),
  IsInf: isInf,
  IsNaN: (c) => c.out(c.need('isNaN')(c.float(0))),
  LeakyRelu: (c) => c.out(c.tf.leakyRelu(c.float(0), c.attr('alpha', 0.01))),
  Less: comparison('less'),
  LessOrEqual: comparison('lessEqual'),
  Log: unary('log'),
  Max: folded('maximum'),
  Mean: (c) => {
    c.float(0);
    folded('add')(c);
    c.outputs[0] = Value.of(c.tf, FLOAT, c.tf.div(c.outputs[0].tensor, c.count));
  },
  Min: folded('minimum'),
  Mish: (c) => c.out(c.tf.mul(c.float(0), c.tf.tanh(c.tf.softplus(c.float(0))))),
  Mod: mod,
  Mul: binary('mul'),
  Neg: signed('neg'),
  Not: (c) => c.out(c.tf.logicalNot(c.in(0))),
  Or: logical('logicalOr'),
  PRelu: prelu,
  Pow: (c) => {
    if (c.value(0).dtype !== c.value(1).dtype) c.lacks('tf.pow takes operands of one type');
    c.out(c.tf.pow(...pair(c)), 0);
  },
  Reciprocal: unary('reciprocal'),
  Relu: signed('relu'),
  Round: unary('round'),
  Selu: selu,
  Sigmoid: unary('sigmoid'),
  Sign: signed('sign'),
  Sin: unary('sin'),
  Sinh: unary('sinh'),
  Softplus: unary('softplus'),
  Softsign: (c) => c.out(c.tf.div(c.float(0), c.tf.add(c.tf.abs(c.float(0)), 1))),
  Sqrt: unary('sqrt'),
  Sub: binary('sub'),
  Sum: folded('add'),
  Tan: unary('tan'),
  Tanh: unary('tanh'),
  ThresholdedRelu: (c) => {
    const x = c.float(0), theta = c.attr('alpha', 1);
    c.out(c.tf.where(c.tf.greater(x, theta), x, c.tf.zerosLike(x)));
  },
  Where: where,
  Xor: logicalXor,
};
