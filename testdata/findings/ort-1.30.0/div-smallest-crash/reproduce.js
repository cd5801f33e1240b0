// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x10': new ort.Tensor('int32', Int32Array.from([1, -128, 0, 2147483647, 2147483646, 32768, -2147483648, 32768, -2147483647]), [1, 1, 3, 3]),
    'x11': new ort.Tensor('int32', Int32Array.from([-1, 4, 2]), [3]),
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
