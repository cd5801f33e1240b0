// node worker.js FOLDER cpu|wasm: runs and derives models with the TensorFlow.js that is installed in FOLDER, for finity
// (src/exec/protocol.h). Each node of the ONNX file becomes calls of tf.* functions, so the backend's kernels and the
// library's own gradients do the work.
'use strict';

const path = require('path');
const {kind, stage, protocolVersion, Unsupported, Writer, Reader, receive, send, sendStage, sendFailure} =
  require('./protocol.js');
const {parse} = require('./onnx.js');
const {Value, FLOAT} = require('./value.js');
const {Call, settled} = require('./call.js');
const {optimiserStep} = require('./optimisers.js');
const {Recorder} = require('./recorder.js');

const ops = {...require('./elementwise.js'), ...require('./movements.js'), ...require('./windows.js'), ...require('./rows.js')};

// What the library prints must not get among the messages.
for (const name of ['log', 'info', 'warn', 'debug']) console[name] = (...words) => process.stderr.write(words.join(' ') + '\n');

async function start(folder, backend) {
  // The loader of WebAssembly would fetch its file from a server.
  delete globalThis.fetch;
  const packages = path.join(folder, 'node_modules', '@tensorflow');
  const tf = require(path.join(packages, 'tfjs'));
  if (backend === 'wasm') require(path.join(packages, 'tfjs-backend-wasm'));
  const done = await tf.setBackend(backend);
  if (done === false) throw new Error(`the backend ${backend} does not start`);
  if (tf.ready) await tf.ready();
  if (tf.getBackend() !== backend) throw new Error(`the backend is ${tf.getBackend()}, not ${backend}`);
  return tf;
}

const title = (node) => `node '${node.name || node.outputs[0]}' (${node.op})`;

function load(buffer) {
  const model = parse(buffer);
  for (const node of model.nodes) {
    if (node.domain !== '' || !(node.op in ops)) {
      throw new Unsupported(`${title(node)}: ${node.op} is not written for TensorFlow.js`);
    }
  }
  return model;
}

// All values of the model by name.
function run(tf, model, inputs) {
  const values = new Map(inputs);
  for (const [name, constant] of model.constants) {
    if (!values.has(name)) values.set(name, Value.ofBytes(tf, constant));
  }
  for (const name of model.inputs) {
    if (!values.has(name)) throw new Error(`input '${name}' is missing`);
  }
  for (const node of model.nodes) {
    try {
      const call = new Call(tf, node, model.opset, node.inputs.map((name) => name === '' ? null : values.get(name)));
      ops[node.op](call);
      node.outputs.forEach((name, i) => {
        if (name !== '' && call.outputs[i] !== undefined) values.set(name, call.outputs[i]);
      });
    } catch (error) {
      const known = settled(error);
      const text = `${title(node)}: ${known.message || known}`;
      throw known instanceof Unsupported ? new Unsupported(text) : new Error(text);
    }
  }
  return values;
}

function wanted(values, name) {
  if (!values.has(name)) throw new Error(`the model has no value named '${name}'`);
  return values.get(name);
}

const given = (tf, list) => list.map(([name, tensor]) => [name, Value.ofBytes(tf, tensor)]);

function answerRun(tf, model, reader) {
  const inputs = reader.data(), outputs = reader.texts();
  const values = run(tf, model, given(tf, inputs));
  sendStage(stage.read);
  const out = new Writer(kind.results);
  out.data(outputs.map((name) => [name, wanted(values, name).toMessage()]));
  return out.take();
}

// The names on which the output depends at all; of the others the library would say that they are not connected.
function depending(model, names, output) {
  const needed = new Set([output]);
  for (const node of model.nodes.slice().reverse()) {
    if (node.outputs.some((name) => needed.has(name))) node.inputs.forEach((name) => needed.add(name));
  }
  return names.filter((name) => needed.has(name));
}

function answerGradient(tf, model, reader) {
  const inputs = new Map(given(tf, reader.data())), output = reader.text(), names = reader.texts();
  for (const name of names) {
    if (!inputs.has(name) && model.constants.has(name)) inputs.set(name, Value.ofBytes(tf, model.constants.get(name)));
    if (!inputs.has(name)) throw new Error(`there is no input or weight named '${name}'`);
    if (inputs.get(name).dtype !== FLOAT) throw new Error('derivatives are of float32 tensors only');
  }
  const connected = depending(model, names, output);
  const f = (...tensors) => {
    const all = new Map(inputs);
    connected.forEach((name, i) => all.set(name, Value.of(tf, FLOAT, tensors[i])));
    const value = wanted(run(tf, model, [...all]), output);
    if (value.dtype !== FLOAT || value.tensor.size !== 1) throw new Error('only a float with one element can be derived');
    dims = value.dims;
    return tf.reshape(value.tensor, []);
  };
  let dims = [];
  // One backward pass for all names.
  const {value, grads} = connected.length > 0 ?
    tf.valueAndGrads(f)(connected.map((name) => inputs.get(name).tensor)) : {value: f(), grads: []};
  sendStage(stage.read);
  const out = new Writer(kind.gradients);
  out.datum(Value.of(tf, FLOAT, tf.reshape(value, dims)).toMessage());
  const zeros = (v) => ({dtype: FLOAT, dims: v.dims, bytes: Buffer.alloc(4 * v.dims.reduce((a, b) => a * b, 1))});
  out.data(names.map((name) => {
    const i = connected.indexOf(name);
    return [name, i < 0 ? zeros(inputs.get(name)) : Value.of(tf, FLOAT, grads[i]).toMessage()];
  }));
  return out.take();
}

// The calls that the model comes to, as a function of its float inputs and weights that returns its outputs.
function script(tf, model, data) {
  const recorder = new Recorder(tf), floats = [...model.constants].filter(([, constant]) => constant.dtype === FLOAT);
  const inputs = given(recorder.tf, [...data, ...floats]), names = [], values = [];
  recorder.forget();
  inputs.forEach(([, value], i) => {
    if (value.dtype !== FLOAT) return;
    recorder.give(value.tensor, `x${i}`);
    names.push(`x${i}`);
    values.push(recorder.constant(value.tensor));
  });
  const all = run(recorder.tf, model, inputs);
  const outputs = model.outputs.map((name) => `${JSON.stringify(name)}: ${recorder.text(wanted(all, name).tensor)}`);
  const lines = [...recorder.lines, `return {${outputs.join(', ')}};`];
  return `const model = (${names.join(', ')}) => {\n${lines.map((line) => `  ${line}\n`).join('')}};\n` +
    `const inputs = [${values.join(',\n  ')}];\n`;
}

function answerTask(tf, model, reader) {
  const text = reader.text(), data = reader.data(), out = new Writer(kind.finished);
  if (text.startsWith('optimiser ')) {
    out.text('');
    out.data(optimiserStep(tf, text.slice('optimiser '.length), data));
  } else if (text === 'trace') {
    out.text(script(tf, model, data));
    out.data([]);
  } else {
    throw new Unsupported('tfjs does no such task');
  }
  return out.take();
}

function answer(tf, state, message) {
  if (message[0] === kind.load) {
    sendStage(stage.load);
    state.model = null;
    const reader = new Reader(message);
    reader.u8();  // the level: nodes run one by one as they are
    state.model = load(Buffer.from(reader.bytes()));
    return new Writer(kind.loaded).take();
  }
  sendStage(stage.run);
  if (state.model === null) throw new Error('no model is loaded');
  const reader = new Reader(message);
  if (message[0] === kind.run) return answerRun(tf, state.model, reader);
  if (message[0] === kind.gradient) return answerGradient(tf, state.model, reader);
  if (message[0] === kind.task) return answerTask(tf, state.model, reader);
  throw new Error(`message ${message[0]} was not expected`);
}

// Everything that a request made is freed after it.
function scoped(tf, f) {
  tf.engine ? tf.engine().startScope() : tf.ENV.engine.startScope();
  try {
    return f();
  } finally {
    tf.engine ? tf.engine().endScope() : tf.ENV.engine.endScope();
  }
}

function serve(tf, version) {
  const hello = new Writer(kind.hello);
  hello.u32(protocolVersion);
  hello.text('tfjs');
  hello.text(version);
  send(hello.take());
  const state = {model: null};
  for (let message = receive(); message !== null; message = receive()) {
    if (message[0] === kind.stop) continue;  // of a task that had ended
    try {
      send(scoped(tf, () => answer(tf, state, message)));
    } catch (error) {
      sendFailure(settled(error));
    }
  }
}

async function main() {
  const [folder, backend] = process.argv.slice(2);
  if (backend !== 'cpu' && backend !== 'wasm') {
    process.stderr.write('usage: node worker.js FOLDER cpu|wasm\n');
    process.exit(2);
  }
  let tf;
  try {
    tf = await start(folder, backend);
  } catch (error) {
    sendFailure(error);
    process.exit(1);
  }
  serve(tf, tf.version.tfjs || tf.version['tfjs-core']);
  process.exit(0);
}

main();
