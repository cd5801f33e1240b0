// npm install @tensorflow/tfjs@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0; node reproduce.js
delete globalThis.fetch;  // the loader would ask a server for files that are there
const tf = require('@tensorflow/tfjs');
require('@tensorflow/tfjs-backend-wasm');

async function main(name) {
  await tf.setBackend(name);
  if (tf.ready) await tf.ready();
  const model = (x0) => {
    const t0_1 = tf.sign(x0);
    return {"y46": t0_1};
  };
  const inputs = [tf.tensor([1, 1.9823216845793468e-8], [1,2], 'float32')];
  const show = (what, tensor) => console.log(name, what, JSON.stringify(tensor.shape), Array.from(tensor.dataSync()).join(' '));
  for (const [what, tensor] of Object.entries(model(...inputs))) show(what, tensor);
}

main('cpu').then(() => main('wasm')).then(() => console.log("expected: element 1 of y46 is 1"));
