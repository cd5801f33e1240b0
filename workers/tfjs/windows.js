// Convolutions, pools and resizing. TensorFlow.js wants channels last, so operands are transposed around each. Margins
// go to the library as 'same' where its own rule gives just these, else a pad of its own comes before.
'use strict';

const toLast = (rank) => [0, ...Array.from({length: rank - 2}, (_, i) => i + 2), 1];
const toFirst = (rank) => [0, rank - 1, ...Array.from({length: rank - 2}, (_, i) => i + 1)];

// Per spatial axis: kernel, stride, dilation, begin, end, size of the result.
function axesOf(c, dims, kernel) {
  const n = dims.length - 2;
  if (n < 1 || n > 3) c.lacks('TensorFlow.js has windows over 1 to 3 axes');
  const one = Array(n).fill(1), pads = c.attr('pads', Array(2 * n).fill(0)), mode = c.attr('auto_pad', 'NOTSET');
  const strides = c.attr('strides', one), dilations = c.attr('dilations', one);
  // The library does not look; its WebAssembly then writes where it must not.
  const lists = [[kernel, n], [strides, n], [dilations, n], [pads, 2 * n]];
  if (lists.some(([list, length]) => list.length !== length)) throw new Error('an attribute has not as many numbers as axes');
  if ([...kernel, ...strides, ...dilations].some((x) => x < 1)) throw new Error('a window has no extent or step');
  if (kernel.reduce((a, b) => a * b, 1) > 1e7) c.lacks('a window of more than ten million elements would take minutes');
  if (pads.some((x) => x < 0)) c.lacks('margins that cut off are not written for TensorFlow.js');
  return kernel.map((k, i) => {
    const axis = {size: dims[i + 2], kernel: k, stride: strides[i], dilation: dilations[i], begin: pads[i], end: pads[i + n]};
    axis.extent = (k - 1) * axis.dilation + 1;
    const total = Math.max((Math.ceil(axis.size / axis.stride) - 1) * axis.stride + axis.extent - axis.size, 0);
    axis.same = [Math.floor(total / 2), total - Math.floor(total / 2)];
    if (mode === 'SAME_UPPER') [axis.begin, axis.end] = axis.same;
    else if (mode === 'SAME_LOWER') [axis.end, axis.begin] = axis.same;
    else if (mode === 'VALID') axis.begin = axis.end = 0;
    axis.result = Math.floor((axis.size + axis.begin + axis.end - axis.extent) / axis.stride) + 1;
    return axis;
  });
}

const isValid = (axes) => axes.every((a) => a.begin === 0 && a.end === 0);
const isSame = (axes) =>
  axes.every((a) => a.begin === a.same[0] && a.end === a.same[1] && a.result === Math.ceil(a.size / a.stride));

// x (channels last) and the margin to hand over.
function withMargins(c, x, axes, fill) {
  if (isValid(axes)) return [x, 'valid'];
  if (isSame(axes)) return [x, 'same'];
  const pads = [[0, 0], ...axes.map((a) => [a.begin, a.end]), [0, 0]];
  return [c.tf.pad(x, pads, fill), 'valid'];
}

const field = (axes, name) => axes.map((a) => a[name]);

// A first spatial axis of size 1, where the library has no function for one axis.
const widened = (tf, x) => tf.expandDims(x, 1);

function addBias(c, y, i) {
  if (c.has(i) && c.value(i).dims.join() !== String(y.shape[y.shape.length - 1])) {
    throw new Error('the bias has not one element per channel');
  }
  return c.has(i) ? c.tf.add(y, c.in(i)) : y;
}

function depthwise(c, x, w, axes, channels) {
  const tf = c.tf, each = w.shape[0] / channels;
  if (axes.length !== 2) c.lacks('TensorFlow.js has grouped convolutions over two axes only');
  // [C * m, 1, h, w] as [h, w, C, m]
  const [h, wide] = [w.shape[2], w.shape[3]];
  const filter = tf.transpose(tf.reshape(w, [channels, each, h, wide]), [2, 3, 0, 1]);
  const [padded, margin] = withMargins(c, x, axes, 0);
  return tf.depthwiseConv2d(padded, filter, field(axes, 'stride'), margin, 'NHWC', field(axes, 'dilation'));
}

function plainConv(c, x, w, axes) {
  const tf = c.tf, [padded, margin] = withMargins(c, x, axes, 0);
  if (axes.length === 1) {
    const filter = tf.transpose(w, [2, 1, 0]);
    return tf.conv1d(padded, filter, axes[0].stride, margin, 'NWC', axes[0].dilation);
  }
  if (axes.length === 2) {
    const filter = tf.transpose(w, [2, 3, 1, 0]);
    return tf.conv2d(padded, filter, field(axes, 'stride'), margin, 'NHWC', field(axes, 'dilation'));
  }
  const filter = tf.transpose(w, [2, 3, 4, 1, 0]);
  return c.need('conv3d')(padded, filter, field(axes, 'stride'), margin, 'NDHWC', field(axes, 'dilation'));
}

function conv(c) {
  const tf = c.tf, w = c.float(1), dims = c.value(0).dims, groups = c.attr('group', 1);
  const x = tf.transpose(c.float(0), toLast(dims.length));
  if (w.shape.length !== dims.length) throw new Error('inputs X and W differ in rank');
  const axes = axesOf(c, dims, w.shape.slice(2)), stated = c.attr('kernel_shape', w.shape.slice(2));
  if (stated.join() !== w.shape.slice(2).join()) throw new Error('kernel_shape is not that of the weights');
  if (dims[1] !== w.shape[1] * groups || w.shape[0] % groups !== 0) throw new Error('the channels do not fit');
  if (axes.some((a) => a.result < 1)) throw new Error('the window does not fit');
  if (axes.some((a) => a.stride > 1 && a.dilation > 1)) c.lacks('TensorFlow.js strides or dilates, not both');
  if (groups > 1 && (groups !== dims[1] || w.shape[1] !== 1)) c.lacks('TensorFlow.js has no groups of channels');
  const y = groups > 1 ? depthwise(c, x, w, axes, dims[1]) : plainConv(c, x, w, axes);
  c.out(tf.transpose(addBias(c, y, 2), toFirst(dims.length)));
}

// Size of the result and what is cut off in front, as ONNX defines them.
function transposedAxes(c, dims, kernel) {
  const n = kernel.length, more = c.attr('output_padding', Array(n).fill(0)), mode = c.attr('auto_pad', 'NOTSET');
  const asked = c.attr('output_shape', null), pads = c.attr('pads', Array(2 * n).fill(0));
  const strides = c.attr('strides', Array(n).fill(1)), dilations = c.attr('dilations', Array(n).fill(1));
  if (asked !== null || mode === 'SAME_LOWER') c.lacks('this form of margins is not written for TensorFlow.js');
  return kernel.map((k, i) => {
    const full = strides[i] * (dims[i + 2] - 1) + k;
    if (dilations[i] !== 1) c.lacks('tf.conv2dTranspose has no dilation');
    if (mode === 'SAME_UPPER' && more[i] !== 0) c.lacks('tf.conv2dTranspose has no output_padding');
    if (mode === 'SAME_UPPER') return {stride: strides[i], result: dims[i + 2] * strides[i], same: true, full};
    const cut = mode === 'VALID' ? 0 : pads[i] + pads[i + n];
    if (more[i] === 0 && cut === 0) return {stride: strides[i], result: full, same: false, full};
    c.lacks('tf.conv2dTranspose has the margins "same" and "valid" only');
  });
}

function convTranspose(c) {
  const tf = c.tf, w = c.float(1), dims = c.value(0).dims, n = dims.length - 2;
  if (c.attr('group', 1) !== 1) c.lacks('tf.conv2dTranspose has no groups');
  if (n < 1 || n > 3) c.lacks('TensorFlow.js has windows over 1 to 3 axes');
  if (w.shape.length !== dims.length || dims[1] !== w.shape[0]) throw new Error('the channels do not fit');
  const axes = transposedAxes(c, dims, w.shape.slice(2));
  let x = tf.transpose(c.float(0), toLast(dims.length));
  // [C, M, ...] as [..., M, C]
  let filter = tf.transpose(w, [...axes.map((_, i) => i + 2), 1, 0]);
  const sizes = field(axes, 'result'), strides = field(axes, 'stride');
  const margin = axes[0].same ? 'same' : 'valid';
  let y;
  if (n === 3) {
    y = c.need('conv3dTranspose')(x, filter, [dims[0], ...sizes, w.shape[1]], strides, margin);
  } else {
    if (n === 1) [x, filter] = [widened(tf, x), tf.expandDims(filter, 0)];
    const shape = [dims[0], ...(n === 1 ? [1] : []), ...sizes, w.shape[1]];
    y = tf.conv2dTranspose(x, filter, shape, n === 1 ? [1, ...strides] : strides, margin);
    if (n === 1) y = tf.squeeze(y, [1]);
  }
  c.out(tf.transpose(addBias(c, y, 2), toFirst(dims.length)));
}

// The last window of ceil_mode lies partly behind the margin.
function requireFloor(c, axes) {
  if (c.attr('ceil_mode', 0) === 0) return;
  const more = axes.some((a) => (a.size + a.begin + a.end - a.extent) % a.stride !== 0);
  if (more) c.lacks('TensorFlow.js rounds the number of windows down');
  // Windows that begin behind the elements are left out.
  const late = axes.some((a) => {
    const last = Math.floor((a.size + a.begin + a.end - a.extent) / a.stride) * a.stride;
    return last >= a.size + a.begin;
  });
  if (late) c.lacks('TensorFlow.js has windows that begin in the margin');
}

function pooled(c, name, fill) {
  const tf = c.tf, dims = c.value(0).dims, n = dims.length - 2;
  const axes = axesOf(c, dims, c.attr('kernel_shape', []));
  requireFloor(c, axes);
  if (axes.some((a) => a.dilation !== 1)) c.lacks('windows of pools have no gaps here');
  if (c.node.outputs.length > 1) c.lacks('positions of maxima are not told');
  let [x, margin] = withMargins(c, tf.transpose(c.float(0), toLast(dims.length)), axes, fill);
  const kernel = field(axes, 'kernel'), strides = field(axes, 'stride');
  let y;
  if (n === 3) y = c.need(name + '3d')(x, kernel, strides, margin);
  else if (n === 2) y = tf[name](x, kernel, strides, margin);
  else y = tf.squeeze(tf[name](widened(tf, x), [1, ...kernel], [1, ...strides], margin), [1]);
  c.out(tf.transpose(y, toFirst(dims.length)));
}

function averagePool(c) {
  const axes = axesOf(c, c.value(0).dims, c.attr('kernel_shape', []));
  if (c.attr('count_include_pad', 0) === 0) {
    if (!isValid(axes) && !isSame(axes)) c.lacks('tf.avgPool leaves out the margins of "same" only');
  } else if (isSame(axes) && !isValid(axes)) {
    c.lacks('tf.avgPool does not count the margins of "same"');
  }
  pooled(c, 'avgPool', 0);
}

function globalPool(name) {
  return (c) => {
    const rank = c.value(0).dims.length;
    c.out(c.tf[name](c.float(0), Array.from({length: rank - 2}, (_, i) => i + 2), true));
  };
}

function resize(c) {
  const tf = c.tf, dims = c.value(0).dims, mode = c.attr('mode', 'nearest');
  if (dims.length !== 4) c.lacks('TensorFlow.js resizes images only');
  if (c.opset < 11 || c.attr('axes', null) !== null || c.attr('keep_aspect_ratio_policy', 'stretch') !== 'stretch')
    c.lacks('this form of Resize is not written for TensorFlow.js');
  const sizes = c.has(3) ? c.list(3) : c.list(2).map((s, i) => Math.floor(s * dims[i]));
  if (sizes[0] !== dims[0] || sizes[1] !== dims[1]) c.lacks('TensorFlow.js resizes spatial axes only');
  if (c.has(2) && c.list(2).some((s, i) => s * dims[i] !== sizes[i])) c.lacks('the sizes are not the scales');
  const coordinates = c.attr('coordinate_transformation_mode', 'half_pixel');
  const corners = coordinates === 'align_corners', half = coordinates === 'half_pixel';
  if (!corners && !half && coordinates !== 'asymmetric') c.lacks(`TensorFlow.js has no ${coordinates}`);
  if (c.attr('antialias', 0) !== 0) c.lacks('TensorFlow.js resizes without filters');
  const x = tf.transpose(c.float(0), [0, 2, 3, 1]), to = sizes.slice(2);
  if (mode === 'linear') return c.out(tf.transpose(tf.image.resizeBilinear(x, to, corners, half), [0, 3, 1, 2]));
  if (mode !== 'nearest' || coordinates !== 'asymmetric' || c.attr('nearest_mode', 'round_prefer_floor') !== 'floor') {
    c.lacks('tf.image.resizeNearestNeighbor rounds down from the corner');
  }
  c.out(tf.transpose(tf.image.resizeNearestNeighbor(x, to), [0, 3, 1, 2]));
}

module.exports = {
  AveragePool: averagePool,
  Conv: conv,
  ConvTranspose: convTranspose,
  GlobalAveragePool: globalPool('mean'),
  GlobalMaxPool: globalPool('max'),
  MaxPool: (c) => pooled(c, 'maxPool', -Infinity),
  Resize: resize,
};
