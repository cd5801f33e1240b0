// Writes down the calls of tf.* functions as a script that makes them again. The library behind the recorder does the
// work; what it returns is told apart by identity.
'use strict';

const isTensor = (x) => x !== null && typeof x === 'object' && Array.isArray(x.shape) && 'dataId' in x;

class Recorder {
  constructor(tf) {
    Object.assign(this, {real: tf, lines: [], names: new Map()});
    this.tf = this.wrapped(tf, 'tf');
  }

  // Functions are recorded, namespaces such as tf.image too.
  wrapped(owner, title) {
    return new Proxy(owner, {
      get: (target, key) => {
        const found = target[key];
        if (typeof key !== 'string' || key === 'engine' || key === 'ENV') return found;
        if (typeof found === 'function') return this.recorded(found.bind(target), `${title}.${key}`);
        const space = found !== null && typeof found === 'object' && Object.getPrototypeOf(found) === null;
        return space || ['image', 'linalg', 'signal', 'spectral'].includes(key) ? this.wrapped(found, `${title}.${key}`) : found;
      },
    });
  }

  recorded(f, title) {
    return (...args) => {
      const text = args.map((arg) => this.text(arg));
      while (text.length > 0 && text[text.length - 1] === 'undefined') text.pop();
      const result = f(...args), call = `${title}(${text.join(', ')})`;
      if (isTensor(result)) this.lines.push(`const ${this.name(result)} = ${call};`);
      else if (Array.isArray(result) && result.every(isTensor)) {
        this.lines.push(`const [${result.map((tensor) => this.name(tensor)).join(', ')}] = ${call};`);
      } else if (result !== null && typeof result === 'object' && Object.values(result).every(isTensor)) {
        const parts = Object.entries(result).map(([key, tensor]) => `${key}: ${this.name(tensor)}`);
        this.lines.push(`const {${parts.join(', ')}} = ${call};`);
      }
      return result;
    };
  }

  // A tensor that a function hands on as it is has its name already, and gets another.
  name(tensor) {
    const name = `t${this.lines.length}${this.names.has(tensor) ? 'a' : ''}_${this.names.size}`;
    this.names.set(tensor, name);
    return name;
  }

  text(arg) {
    if (isTensor(arg)) return this.names.get(arg) || this.constant(arg);
    if (Array.isArray(arg)) return `[${arg.map((item) => this.text(item)).join(', ')}]`;
    if (ArrayBuffer.isView(arg)) return `[${Array.from(arg, numeral).join(', ')}]`;
    return typeof arg === 'number' ? numeral(arg) : JSON.stringify(arg);
  }

  constant(tensor) {
    return `tf.tensor([${Array.from(tensor.dataSync(), numeral).join(', ')}], ${JSON.stringify(tensor.shape)}, '${tensor.dtype}')`;
  }

  // What was made so far is not part of the script; where it is used, its elements stand.
  forget() {
    this.lines.length = 0;
    this.names.clear();
  }

  give(tensor, name) {
    this.names.set(tensor, name);
  }
}

const numeral = (x) => Object.is(x, -0) ? '-0' : String(x);

module.exports = {Recorder};
