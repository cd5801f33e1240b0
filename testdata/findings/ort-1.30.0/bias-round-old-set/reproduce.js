// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'y5': new ort.Tensor('uint8', Uint8Array.from([2]), [1, 1, 1, 1]),
  };
  for (const level of ['disabled', 'all']) {
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
