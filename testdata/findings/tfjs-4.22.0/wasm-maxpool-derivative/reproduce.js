// npm install @tensorflow/tfjs@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0; node reproduce.js
delete globalThis.fetch;  // the loader would ask a server for files that are there
const tf = require('@tensorflow/tfjs');
require('@tensorflow/tfjs-backend-wasm');

async function main(name) {
  await tf.setBackend(name);
  if (tf.ready) await tf.ready();
  const model = (x0) => {
    const t0_1 = tf.transpose(x0, [0, 2, 3, 1]);
    const t1_2 = tf.maxPool(t0_1, [1, 1], [1, 1], "valid");
    const t2_3 = tf.transpose(t1_2, [0, 3, 1, 2]);
    return {"y3": t2_3};
  };
  const inputs = [tf.tensor([1, -1], [1,1,1,2], 'float32')];
  const show = (what, tensor) => console.log(name, what, JSON.stringify(tensor.shape), Array.from(tensor.dataSync()).join(' '));
  const first = (...all) => tf.sum(Object.values(model(...all)).find((y) => y.dtype === 'float32'));
  tf.grads(first)(inputs).forEach((slope, i) => show(`derivative by x${i}`, slope));
}

main('cpu').then(() => main('wasm')).then(() => console.log("expected: element 1 of the derivative by x0 is in [0.999992, 1.0000076]"));
