// npm install @tensorflow/tfjs@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0; node reproduce.js
delete globalThis.fetch;  // the loader would ask a server for files that are there
const tf = require('@tensorflow/tfjs');
require('@tensorflow/tfjs-backend-wasm');

async function main(name) {
  await tf.setBackend(name);
  if (tf.ready) await tf.ready();
  const model = (x0) => {
    const t0_1 = tf.transpose(x0, [0, 2, 3, 4, 1]);
    const t1_2 = tf.pad(t0_1, [[0, 0], [0, 0], [1, 1], [1, 1], [0, 0]], -Infinity);
    const t2_3 = tf.maxPool3d(t1_2, [1, 3, 2], [1, 1, 1], "valid");
    const t3_4 = tf.transpose(t2_3, [0, 4, 1, 2, 3]);
    return {"y3": t3_4};
  };
  const inputs = [tf.tensor([-1], [1,1,1,1,1], 'float32')];
  const show = (what, tensor) => console.log(name, what, JSON.stringify(tensor.shape), Array.from(tensor.dataSync()).join(' '));
  for (const [what, tensor] of Object.entries(model(...inputs))) show(what, tensor);
}

main('cpu').then(() => main('wasm')).then(() => console.log("expected: element 0 of y3 is -1"));
