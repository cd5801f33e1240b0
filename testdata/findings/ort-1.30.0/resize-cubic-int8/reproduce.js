// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x3': new ort.Tensor('int8', Int8Array.from([2, 8, -6]), [1, 3]),
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
  console.log("expected: element 5 of y5 in [-8, -4]");
}

main();
