// Ops that move elements, tell shapes or are constant.
'use strict';

const {Value, FLOAT, INT64, BOOL, count} = require('./value.js');

// Sequences of ints that were attributes once and are operands now.
const intsOf = (c, attribute, i, fallback) => c.has(i) ? c.list(i) : c.attr(attribute, fallback);

function reshaped(c, dims) {
  const value = c.value(0);
  if (value.numbers !== null) return c.put(Value.ofNumbers(c.tf, value.dtype, dims, value.numbers));
  c.out(c.tf.reshape(value.tensor, dims), 0);
}

function reshape(c) {
  const from = c.value(0).dims, wanted = intsOf(c, 'shape', 1, []).slice();
  const keepZero = c.attr('allowzero', 0) === 0;
  const dims = wanted.map((size, i) => size === 0 && keepZero ? from[i] : size);
  const open = dims.indexOf(-1);
  if (open >= 0) {
    const known = dims.reduce((a, b, i) => i === open ? a : a * b, 1);
    if (known === 0) c.lacks('the open size does not follow from the others');
    dims[open] = count(from) / known;
  }
  reshaped(c, dims);
}

function flatten(c) {
  const dims = c.value(0).dims;
  const given = c.attr('axis', 1), axis = given < 0 ? given + dims.length : given;
  reshaped(c, [count(dims.slice(0, axis)), count(dims.slice(axis))]);
}

function squeeze(c) {
  const dims = c.value(0).dims;
  const axes = intsOf(c, 'axes', 1, null);
  const gone = axes === null ? null : axes.map((a) => c.axis(a, dims.length));
  if (gone !== null && gone.some((a) => dims[a] !== 1)) throw new Error('an axis that is squeezed has not size 1');
  reshaped(c, dims.filter((size, i) => gone === null ? size !== 1 : !gone.includes(i)));
}

function unsqueeze(c) {
  const dims = c.value(0).dims, axes = intsOf(c, 'axes', 1, []);
  const rank = dims.length + axes.length, result = [];
  const fresh = axes.map((a) => c.axis(a, rank));
  for (let i = 0, from = 0; i < rank; ++i) result.push(fresh.includes(i) ? 1 : dims[from++]);
  reshaped(c, result);
}

function transpose(c) {
  const rank = c.value(0).dims.length;
  const perm = c.attr('perm', Array.from({length: rank}, (_, i) => rank - 1 - i));
  c.out(rank < 2 ? c.in(0) : c.tf.transpose(c.in(0), perm), 0);
}

function concat(c) {
  const values = c.operands, rank = values[0].dims.length;
  const axis = c.axis(c.attr('axis', 1), rank);
  if (values.every((v) => v.numbers !== null) && rank === 1) {
    const all = [].concat(...values.map((v) => v.numbers));
    return c.numbers([all.length], all);
  }
  c.out(c.tf.concat(values.map((v) => v.tensor), axis), 0);
}

function split(c) {
  const dims = c.value(0).dims, axis = c.axis(c.attr('axis', 0), dims.length);
  const parts = c.attr('num_outputs', c.node.outputs.length);
  let sizes = intsOf(c, 'split', 1, null);
  if (sizes === null) {
    const size = Math.ceil(dims[axis] / parts);
    sizes = Array.from({length: parts}, (_, i) => Math.min(size, dims[axis] - i * size));
  }
  for (const part of c.tf.split(c.in(0), sizes, axis)) c.out(part, 0);
}

// Start and end as ONNX clamps them.
function sliceAxis(size, start, end, step) {
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const from = start < 0 ? start + size : start, to = end < 0 ? end + size : end;
  if (step > 0) return [clamp(from, 0, size), clamp(to, 0, size)];
  return [clamp(from, 0, size - 1), clamp(to, -1, size - 1)];
}

function slice(c) {
  const dims = c.value(0).dims;
  const starts = intsOf(c, 'starts', 1, []), ends = intsOf(c, 'ends', 2, []);
  const axes = intsOf(c, 'axes', 3, starts.map((_, i) => i)).map((a) => c.axis(a, dims.length));
  const steps = c.has(4) ? c.list(4) : starts.map(() => 1);
  if (steps.some((s) => s < 1)) c.lacks('slices that go backwards are not written for TensorFlow.js');
  const begin = dims.map(() => 0), end = dims.slice(), stride = dims.map(() => 1);
  axes.forEach((axis, i) => {
    [begin[axis], end[axis]] = sliceAxis(dims[axis], starts[i], ends[i], steps[i]);
    stride[axis] = steps[i];
  });
  const sizes = dims.map((_, i) => Math.max(0, Math.ceil((end[i] - begin[i]) / stride[i])));
  const value = c.value(0);
  if (value.numbers !== null && dims.length === 1) {
    return c.numbers(sizes, Array.from({length: sizes[0]}, (_, i) => value.numbers[begin[0] + i * stride[0]]));
  }
  if (stride.every((s) => s === 1)) return c.out(c.tf.slice(c.in(0), begin, sizes), 0);
  if (sizes.some((s) => s === 0)) c.lacks('slices of no elements with steps are not handed over');
  c.out(c.tf.stridedSlice(c.in(0), begin, end, stride), 0);
}

function gather(c) {
  const value = c.value(0), dims = value.dims, axis = c.axis(c.attr('axis', 0), dims.length);
  const wrapped = c.list(1).map((i) => i < 0 ? i + dims[axis] : i);
  if (wrapped.some((i) => i < 0 || i >= dims[axis])) throw new Error('an index is outside');
  if (value.numbers !== null && dims.length === 1) return c.numbers(c.value(1).dims, wrapped.map((i) => value.numbers[i]));
  // Indices are a vector in the older versions.
  const flat = c.tf.tensor1d(wrapped, 'int32'), found = c.tf.gather(value.tensor, flat, axis);
  c.out(c.tf.reshape(found, [...dims.slice(0, axis), ...c.value(1).dims, ...dims.slice(axis + 1)]), 0);
}

function expand(c) {
  const from = c.value(0).dims, wanted = c.list(1);
  const rank = Math.max(from.length, wanted.length);
  const own = [...Array(rank - from.length).fill(1), ...from];
  const asked = [...Array(rank - wanted.length).fill(1), ...wanted];
  const dims = own.map((size, i) => size === 1 ? asked[i] : size);
  if (dims.some((size, i) => asked[i] !== 1 && asked[i] !== size)) throw new Error('the sizes do not fit');
  c.out(c.need('broadcastTo')(c.in(0), dims), 0);
}

function tile(c) {
  if (c.opset < 6) c.lacks('Tile before opset 6 has another form');
  if (c.list(1).length === 0) return c.put(c.value(0));
  c.out(c.tf.tile(c.in(0), c.list(1)), 0);
}

function pad(c) {
  const rank = c.value(0).dims.length, mode = c.attr('mode', 'constant');
  const flat = c.opset < 11 ? c.attr('pads', c.attr('paddings', [])) : c.list(1);
  const axes = c.has(3) ? c.list(3).map((a) => c.axis(a, rank)) : Array.from({length: rank}, (_, i) => i);
  const pads = Array.from({length: rank}, () => [0, 0]);
  axes.forEach((axis, i) => (pads[axis] = [flat[i], flat[i + axes.length]]));
  if (pads.some(([a, b]) => a < 0 || b < 0)) c.lacks('tf.pad cuts nothing off');
  if (mode === 'constant') {
    const fill = c.opset < 11 ? c.attr('value', 0) : c.has(2) ? c.list(2)[0] : 0;
    return c.out(c.tf.pad(c.in(0), pads, fill), 0);
  }
  if (mode !== 'reflect') c.lacks(`tf.mirrorPad has no mode ${mode}`);
  c.out(c.need('mirrorPad')(c.in(0), pads, 'reflect'), 0);
}

function constant(c) {
  for (const [name, value] of Object.entries(c.node.attrs)) {
    if (name === 'value') return c.put(Value.ofBytes(c.tf, value));
    if (name === 'value_float') return c.put(Value.of(c.tf, FLOAT, c.tf.scalar(value)));
    if (name === 'value_floats') return c.put(Value.of(c.tf, FLOAT, c.tf.tensor1d(value, 'float32')));
    if (name === 'value_int') return c.numbers([], [value]);
    if (name === 'value_ints') return c.numbers([value.length], value);
  }
  c.lacks('constants of this kind are not read');
}

function constantOfShape(c) {
  const dims = c.list(0), given = c.attr('value', null);
  const value = given === null ? null : Value.ofBytes(c.tf, given);
  if (value !== null && value.dtype === INT64) return c.put(Value.ofNumbers(c.tf, INT64, dims, Array(count(dims)).fill(value.list[0])));
  if (value !== null && value.dtype === BOOL) return c.put(Value.of(c.tf, BOOL, c.tf.fill(dims, value.list[0], 'bool')));
  c.out(c.tf.fill(dims, value === null ? 0 : value.list[0], value === null ? 'float32' : value.tensor.dtype));
}

function shape(c) {
  const dims = c.value(0).dims, rank = dims.length;
  const clamp = (i) => Math.min(Math.max(i < 0 ? i + rank : i, 0), rank);
  const part = dims.slice(clamp(c.attr('start', 0)), clamp(c.attr('end', rank)));
  c.numbers([part.length], part);
}

function depthToSpace(c) {
  if (c.attr('mode', 'DCR') !== 'DCR') c.lacks('tf.depthToSpace has the order DCR only');
  const x = c.tf.transpose(c.float(0), [0, 2, 3, 1]);
  c.out(c.tf.transpose(c.need('depthToSpace')(x, c.attr('blocksize', 1), 'NHWC'), [0, 3, 1, 2]));
}

function dropout(c) {
  const training = c.opset >= 12 ? c.has(2) && c.list(2)[0] !== 0 : c.opset < 7 && c.attr('is_test', 0) === 0;
  if (training || c.node.outputs.length > 1) c.lacks('only Dropout that does nothing is handed over');
  c.put(c.value(0));
}

function range(c) {
  if (c.value(0).dtype !== FLOAT) {
    const [start, limit, step] = [c.list(0)[0], c.list(1)[0], c.list(2)[0]];
    if (c.value(0).dtype !== INT64) c.lacks('ranges of int64 and float32 only');
    if (![start, limit, step, limit - start].every(Number.isSafeInteger)) c.lacks('an integer has more than 53 bits');
    const list = Array.from({length: Math.max(0, Math.ceil((limit - start) / step))}, (_, i) => start + i * step);
    return c.numbers([list.length], list);
  }
  c.out(c.tf.range(c.list(0)[0], c.list(1)[0], c.list(2)[0]));
}

module.exports = {
  Concat: concat,
  Constant: constant,
  ConstantOfShape: constantOfShape,
  DepthToSpace: depthToSpace,
  Dropout: dropout,
  Expand: expand,
  Flatten: flatten,
  Gather: gather,
  Pad: pad,
  Range: range,
  Reshape: reshape,
  Shape: shape,
  Size: (c) => c.numbers([], [count(c.value(0).dims)]),
  Slice: slice,
  Split: split,
  Squeeze: squeeze,
  Tile: tile,
  Transpose: transpose,
  Unsqueeze: unsqueeze,
};
