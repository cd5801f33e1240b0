// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x0': new ort.Tensor('float32', Float32Array.from([1.0000038146972656, 1, 1.0000038146972656, 1.0000028610229492, 1.0000019073486328, 1, 1.0000028610229492, 1, 1.0000038146972656, 1.0000038146972656, 1.0000038146972656, 1.0000009536743164, 1.0000038146972656, 1, 1.0000019073486328, 1, 1.0000009536743164, 1.0000038146972656, 1, 1.0000019073486328]), [1, 4, 1, 5]),
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
  console.log("expected: element 5 of y3 in 0");
}

main();
