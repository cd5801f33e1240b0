// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x0': new ort.Tensor('float32', Float32Array.from([-14689.61328125, -0.00031454471172764897, -10029.4345703125, 0.0036555561237037182, 9.0039815404452384e-05, -0.00038463730015791953]), [1, 6, 1, 1]),
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
  console.log("expected: element 5 of y1 in [-1.0633597, 0.003655551]");
}

main();
