// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x0': new ort.Tensor('float32', Float32Array.from([-2, 3, NaN, 3, -2, -4, NaN, 4, 4, 2, 0, NaN, 0, NaN, NaN, -4, NaN, 4, NaN, 4, 0, 1, 4, NaN, -3, 0, -2, NaN, -3, NaN, 2, 4]), [4, 2, 4]),
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
  console.log("expected: element 7 of y1 is in [4, 3.4028235e+38] or +Inf or NaN");
}

main();
