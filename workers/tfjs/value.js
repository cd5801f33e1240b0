// What flows along an edge: a tensor of TensorFlow.js and the element type of ONNX that it stands for. Integers are
// int32 in TensorFlow.js; int64 stays on the host until something computes with it, since sizes and "to the end" are
// often larger.
'use strict';

const {Unsupported} = require('./protocol.js');

const FLOAT = 1, INT32 = 6, INT64 = 7, BOOL = 9;
const carriers = {[FLOAT]: 'float32', [INT32]: 'int32', [INT64]: 'int32', [BOOL]: 'bool'};
const names = {2: 'uint8', 3: 'int8', 4: 'uint16', 5: 'int16', 10: 'float16', 11: 'float64', 12: 'uint32', 13: 'uint64'};

const count = (dims) => dims.reduce((a, b) => a * b, 1);
const aligned = (bytes) => Uint8Array.from(bytes).buffer;

class Value {
  constructor(tf, dtype, dims, {tensor = null, numbers = null}) {
    Object.assign(this, {tf, dtype, dims, held: tensor, numbers});
  }
  static of(tf, dtype, tensor) {
    return new Value(tf, dtype, tensor.shape, {tensor});
  }
  static ofNumbers(tf, dtype, dims, numbers) {
    return new Value(tf, dtype, dims, {numbers});
  }
  // From what the protocol or the file holds.
  static ofBytes(tf, {dtype, dims, bytes}) {
    if (!(dtype in carriers)) {
      throw new Unsupported(`TensorFlow.js computes in float32, int32 and bool only, not ${names[dtype] || dtype}`);
    }
    const buffer = aligned(bytes);
    if (dtype === INT64) return Value.ofNumbers(tf, dtype, dims, Array.from(new BigInt64Array(buffer), Number));
    const array = dtype === FLOAT ? new Float32Array(buffer) : dtype === INT32 ? new Int32Array(buffer) : new Uint8Array(buffer);
    return new Value(tf, dtype, dims, {tensor: tf.tensor(array, dims, carriers[dtype])});
  }
  get tensor() {
    if (this.held === null) {
      if (this.numbers.some((x) => x > 2147483647 || x < -2147483648)) {
        throw new Unsupported('an integer has more than 32 bits');
      }
      this.held = this.tf.tensor(Int32Array.from(this.numbers), this.dims, 'int32');
    }
    return this.held;
  }
  // Elements of an operand that says how, not what: axes, sizes.
  get list() {
    return this.numbers !== null ? this.numbers : Array.from(this.tensor.dataSync());
  }
  bytes() {
    const size = count(this.dims);
    if (this.dtype === INT64) {
      if (!this.list.every(Number.isSafeInteger)) throw new Unsupported('an integer has more than 53 bits');
      return Buffer.from(new BigInt64Array(this.list.map((x) => BigInt(x))).buffer);
    }
    const data = size === 0 ? [] : this.tensor.dataSync();
    if (data.length !== size) throw new Error(`the library gives ${data.length} elements for the shape [${this.dims}]`);
    if (this.dtype === FLOAT) return Buffer.from(Float32Array.from(data).buffer);
    if (this.dtype === INT32) return Buffer.from(Int32Array.from(data).buffer);
    return Buffer.from(Uint8Array.from(data));
  }
  toMessage() {
    return {dtype: this.dtype, dims: this.dims, bytes: this.bytes()};
  }
}

// The element type a tensor of the library has, where ours says nothing else.
function dtypeOf(tensor) {
  return tensor.dtype === 'float32' ? FLOAT : tensor.dtype === 'bool' ? BOOL : INT32;
}

module.exports = {Value, FLOAT, INT32, INT64, BOOL, carriers, count, dtypeOf};
