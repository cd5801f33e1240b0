// npm install @tensorflow/tfjs@4.22.0; node reproduce.js
delete globalThis.fetch;  // the loader would ask a server for files that are there
const tf = require('@tensorflow/tfjs');

async function main(name) {
  await tf.setBackend(name);
  if (tf.ready) await tf.ready();
  const model = (x0, x1) => {
    const t0_2 = tf.transpose(x0, [0, 2, 3, 4, 1]);
    const t1_3 = tf.transpose(x1, [2, 3, 4, 1, 0]);
    const t2_4 = tf.conv3dTranspose(t0_2, t1_3, [1, 2, 3, 2, 1], [2, 3, 2], "same");
    const t3_5 = tf.transpose(t2_4, [0, 4, 1, 2, 3]);
    return {"y2": t3_5};
  };
  const inputs = [tf.tensor([1], [1,1,1,1,1], 'float32'),
    tf.tensor([1], [1,1,1,1,1], 'float32')];
  const show = (what, tensor) => console.log(name, what, JSON.stringify(tensor.shape), Array.from(tensor.dataSync()).join(' '));
  for (const [what, tensor] of Object.entries(model(...inputs))) show(what, tensor);
}

main('cpu').then(() => console.log("expected: element 9 of y2 is in [0, 7e-45]"));
