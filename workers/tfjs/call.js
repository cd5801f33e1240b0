// What an op's function sees: its node, operands and attributes.
'use strict';

const {Unsupported} = require('./protocol.js');
const {Value, FLOAT, INT64, dtypeOf} = require('./value.js');

class Call {
  constructor(tf, node, opset, operands) {
    Object.assign(this, {tf, node, opset, operands, outputs: []});
  }
  has(i) {
    return i < this.operands.length && this.operands[i] !== null;
  }
  value(i) {
    if (!this.has(i)) throw new Error(`input ${i} is missing`);
    return this.operands[i];
  }
  in(i) {
    return this.value(i).tensor;
  }
  // A float tensor, where TensorFlow.js would take others for something else.
  float(i) {
    if (this.value(i).dtype !== FLOAT) throw new Unsupported('TensorFlow.js has this op for float32 only');
    return this.in(i);
  }
  list(i) {
    return this.value(i).list;
  }
  get count() {
    return this.operands.length;
  }
  attr(name, fallback) {
    return name in this.node.attrs ? this.node.attrs[name] : fallback;
  }
  // Axes, counted from the front.
  axis(axis, rank) {
    if (axis < -rank || axis >= rank) throw new Error(`axis ${axis} is outside`);
    return axis < 0 ? axis + rank : axis;
  }
  // The result has the type of operand `like`, or that of the tensor.
  out(tensor, like = -1) {
    const own = dtypeOf(tensor);
    const wide = like >= 0 && this.value(like).dtype === INT64 && tensor.dtype === 'int32';
    this.outputs.push(Value.of(this.tf, wide ? INT64 : own, tensor));
  }
  put(value) {
    this.outputs.push(value);
  }
  numbers(dims, list) {
    this.put(Value.ofNumbers(this.tf, INT64, dims, list));
  }
  // A function that this version may lack.
  need(name) {
    let found = this.tf;
    for (const part of name.split('.')) found = found === undefined ? undefined : found[part];
    if (typeof found !== 'function') throw new Unsupported(`there is no tf.${name} in this version`);
    return found;
  }
  lacks(why) {
    throw new Unsupported(why);
  }
}

// Runs a node. Where the library says that a kernel or a gradient is missing, it is unsupported.
function settled(error) {
  const text = String(error && error.message ? error.message : error);
  // After a trap nothing of the WebAssembly module can be relied on: the process ends, as after any crash.
  if (error instanceof WebAssembly.RuntimeError) {
    process.stderr.write(`WebAssembly: ${text}\n`);
    process.abort();
  }
  const lacks = /not registered|not yet implemented|not implemented|not supported|not yet supported|gradient function not found|is not a function|No gradient|Neither modular kernel/i;
  if (!(error instanceof Unsupported) && lacks.test(text)) return new Unsupported(text);
  return error;
}

module.exports = {Call, settled};
