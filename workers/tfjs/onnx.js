// The part of an ONNX file that running it needs, read from its bytes: nodes with attributes, initializers, inputs.
'use strict';

const {Unsupported, widths} = require('./protocol.js');

// Calls visit(field, value) for every field; value is a BigInt, a number of bytes, or the bytes of the field.
function fields(buffer, visit) {
  let at = 0;
  const varint = () => {
    let result = 0n;
    for (let shift = 0n;; shift += 7n) {
      if (at >= buffer.length) throw new Error('the model is cut off');
      const byte = buffer[at++];
      result |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, result);
    }
  };
  const take = (size) => {
    if (size < 0 || at + size > buffer.length) throw new Error('the model is cut off');
    at += size;
    return buffer.subarray(at - size, at);
  };
  while (at < buffer.length) {
    const key = Number(varint()), field = key >> 3, wire = key & 7;
    if (wire === 0) visit(field, varint());
    else if (wire === 1) visit(field, take(8));
    else if (wire === 2) visit(field, take(Number(varint())));
    else if (wire === 5) visit(field, take(4));
    else throw new Error('the model is no ONNX file');
  }
}

// Packed or not.
function varints(value) {
  if (typeof value === 'bigint') return [value];
  const result = [];
  let at = 0;
  while (at < value.length) {
    let number = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = value[at++];
      number |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    result.push(BigInt.asIntN(64, number));
  }
  return result;
}

function floats(value) {
  const result = [];
  for (let at = 0; at + 4 <= value.length; at += 4) result.push(value.readFloatLE(at));
  return result;
}

const text = (value) => value.toString('utf8');

// Elements that are not in raw_data, as finity holds them.
function packed(dtype, tensor) {
  if (dtype === 1) return Buffer.from(new Float32Array(tensor.floats).buffer);
  if (dtype === 7) return Buffer.from(new BigInt64Array(tensor.longs).buffer);
  if (dtype === 6) return Buffer.from(new Int32Array(tensor.ints.map(Number)).buffer);
  if (dtype === 9 || dtype === 2) return Buffer.from(tensor.ints.map((x) => Number(x) & 255));
  if (dtype === 3) return Buffer.from(new Int8Array(tensor.ints.map(Number)).buffer);
  throw new Unsupported(`constants of type ${dtype} are not read`);
}

function tensor(buffer) {
  const result = {name: '', dtype: 0, dims: [], raw: null, floats: [], ints: [], longs: []};
  fields(buffer, (field, value) => {
    if (field === 1) result.dims.push(...varints(value).map(Number));
    else if (field === 2) result.dtype = Number(value);
    else if (field === 4) result.floats.push(...floats(value));
    else if (field === 5) result.ints.push(...varints(value));
    else if (field === 7) result.longs.push(...varints(value));
    else if (field === 8) result.name = text(value);
    else if (field === 9) result.raw = value;
    else if (field === 13 || (field === 14 && value !== 0n)) throw new Unsupported('external data is not read');
  });
  const count = result.dims.reduce((a, b) => a * b, 1);
  const bytes = result.raw !== null ? result.raw : packed(result.dtype, result);
  if (!(result.dtype in widths) || bytes.length !== count * widths[result.dtype]) {
    throw new Unsupported(`constant '${result.name}' of type ${result.dtype} is not read`);
  }
  return {name: result.name, dtype: result.dtype, dims: result.dims, bytes};
}

function attribute(buffer) {
  let name = '', value;
  const lists = {ints: [], floats: [], strings: []};
  fields(buffer, (field, v) => {
    if (field === 1) name = text(v);
    else if (field === 2) value = v.readFloatLE(0);
    else if (field === 3) value = v;
    else if (field === 4) value = text(v);
    else if (field === 5) value = tensor(v);
    else if (field === 6) value = {graph: v};
    else if (field === 7) lists.floats.push(...floats(v));
    else if (field === 8) lists.ints.push(...varints(v));
    else if (field === 9) lists.strings.push(text(v));
  });
  if (typeof value === 'bigint') value = Number(value);
  if (value === undefined) {
    if (lists.ints.length > 0) value = lists.ints.map(Number);
    else if (lists.floats.length > 0) value = lists.floats;
    else value = lists.strings;
  }
  return [name, value];
}

function node(buffer) {
  const result = {name: '', op: '', domain: '', inputs: [], outputs: [], attrs: {}};
  fields(buffer, (field, value) => {
    if (field === 1) result.inputs.push(text(value));
    else if (field === 2) result.outputs.push(text(value));
    else if (field === 3) result.name = text(value);
    else if (field === 4) result.op = text(value);
    else if (field === 7) result.domain = text(value);
    else if (field === 5) {
      const [name, v] = attribute(value);
      result.attrs[name] = v;
    }
  });
  if (result.domain === 'ai.onnx') result.domain = '';
  return result;
}

function valueName(buffer) {
  let name = '';
  fields(buffer, (field, value) => {
    if (field === 1) name = text(value);
  });
  return name;
}

// {nodes, constants: Map, inputs, outputs, opset}
function parse(buffer) {
  const model = {nodes: [], constants: new Map(), inputs: [], outputs: [], opset: 0, functions: 0};
  let graph = null;
  fields(buffer, (field, value) => {
    if (field === 7) graph = value;
    else if (field === 25) model.functions += 1;
    else if (field === 8) {
      let domain = '', version = 0;
      fields(value, (f, v) => {
        if (f === 1) domain = text(v);
        else if (f === 2) version = Number(v);
      });
      if (domain === '' || domain === 'ai.onnx') model.opset = version;
    }
  });
  if (graph === null) throw new Error('the model has no graph');
  if (model.functions > 0) throw new Unsupported('models with functions of their own are not read');
  fields(graph, (field, value) => {
    if (field === 1) model.nodes.push(node(value));
    else if (field === 5) {
      const constant = tensor(value);
      model.constants.set(constant.name, constant);
    } else if (field === 11) model.inputs.push(valueName(value));
    else if (field === 12) model.outputs.push(valueName(value));
    else if (field === 15) throw new Unsupported('sparse constants are not read');
  });
  return model;
}

module.exports = {parse};
