// npm install onnxruntime-node@1.30.0; node reproduce.js
const ort = require('onnxruntime-node');
const path = require('path');
// Old versions read the options only when the model comes from a file.
const model = path.join(__dirname, 'model.onnx');

async function main() {
  const feeds = {
    'x4': new ort.Tensor('int64', BigInt64Array.from([1125899906842624n, -128n, 65536n, 1125899906842623n, -1125899906842624n, -1125899906842624n, -1125899906842623n, -2147483648n, -1125899906842623n, 1125899906842624n, 1125899906842623n, -1125899906842624n, 1125899906842623n, -1125899906842624n, -1125899906842624n, -1125899906842623n, 32768n, -1125899906842624n, -256n, 2147483648n]), [1, 2, 2, 5]),
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
  console.log("expected: element 19 of y7 in 2147483648");
}

main();
