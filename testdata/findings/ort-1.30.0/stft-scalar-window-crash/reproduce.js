// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'c45': new ort.Tensor('float32', Float32Array.from([0]), []),
    'x43': new ort.Tensor('float32', Float32Array.from([0]), [1, 1]),
    'x44': new ort.Tensor('int64', BigInt64Array.from([2n]), []),
  };
  for (const level of ['disabled', 'basic']) {
    try {
      const session = await ort.InferenceSession.create(model, {graphOptimizationLevel: level});
      const results = await session.run(feeds);
      for (const [name, tensor] of Object.entries(results))
        console.log(level, name, JSON.stringify(tensor.dims), Array.from(tensor.data).join(' '));
    } catch (error) {
      console.log(level, 'error:', error.message);
    }
  }
}

main();
