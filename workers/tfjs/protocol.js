// The worker's side of finity's protocol (src/exec/protocol.h): framed messages on standard input and output.
'use strict';

const fs = require('fs');

const kind = {hello: 1, load: 2, run: 3, stage: 4, loaded: 5, results: 6, failure: 7, gradient: 8, gradients: 9, task: 10, stop: 12, finished: 13};
const stage = {load: 1, run: 2, read: 3};
const protocolVersion = 3;

// Thrown for what the library does not implement.
class Unsupported extends Error {}

// Bytes per element as finity holds them, by the codes of ONNX.
const widths = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8};

class Writer {
  constructor(of) {
    this.parts = [Buffer.from([of])];
  }
  u8(x) {
    this.parts.push(Buffer.from([x]));
  }
  u32(x) {
    const b = Buffer.alloc(4);
    b.writeUInt32LE(x);
    this.parts.push(b);
  }
  u64(x) {
    const b = Buffer.alloc(8);
    b.writeBigInt64LE(BigInt(x));
    this.parts.push(b);
  }
  bytes(b) {
    this.u64(b.length);
    this.parts.push(b);
  }
  text(s) {
    this.bytes(Buffer.from(s, 'utf8'));
  }
  // {dtype, dims, bytes}
  datum(tensor) {
    this.u8(1);
    this.u32(tensor.dtype);
    this.u32(tensor.dims.length);
    for (const size of tensor.dims) this.u64(size);
    this.bytes(tensor.bytes);
  }
  data(list) {
    this.u64(list.length);
    for (const [name, tensor] of list) {
      this.text(name);
      this.datum(tensor);
    }
  }
  take() {
    return Buffer.concat(this.parts);
  }
}

class Reader {
  constructor(buffer) {
    this.buffer = buffer;
    this.at = 1;
  }
  u8() {
    return this.buffer.readUInt8(this.at++);
  }
  u32() {
    this.at += 4;
    return this.buffer.readUInt32LE(this.at - 4);
  }
  u64() {
    this.at += 8;
    return Number(this.buffer.readBigInt64LE(this.at - 8));
  }
  bytes() {
    const size = this.u64();
    if (size < 0 || this.at + size > this.buffer.length) throw new Error('a message is cut off');
    this.at += size;
    return this.buffer.subarray(this.at - size, this.at);
  }
  text() {
    return this.bytes().toString('utf8');
  }
  texts() {
    return Array.from({length: this.u64()}, () => this.text());
  }
  datum() {
    const form = this.u8();
    if (form !== 1) throw new Unsupported('only tensors can be handed over');
    const dtype = this.u32(), rank = this.u32();
    const dims = Array.from({length: rank}, () => this.u64());
    if (!(dtype in widths)) throw new Unsupported(`elements of type ${dtype} cannot be handed over`);
    return {dtype, dims, bytes: this.bytes()};
  }
  data() {
    return Array.from({length: this.u64()}, () => [this.text(), this.datum()]);
  }
}

function readFully(size) {
  const buffer = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    let count = 0;
    try {
      count = fs.readSync(0, buffer, at, size - at, null);
    } catch (error) {
      if (error.code === 'EAGAIN' || error.code === 'EINTR') continue;
      return null;
    }
    if (count === 0) return null;
    at += count;
  }
  return buffer;
}

// The next message; null when finity has gone.
function receive() {
  const head = readFully(8);
  return head === null ? null : readFully(Number(head.readBigUInt64LE(0)));
}

function writeFully(buffer) {
  for (let at = 0; at < buffer.length;) {
    try {
      at += fs.writeSync(1, buffer, at, buffer.length - at);
    } catch (error) {
      if (error.code !== 'EAGAIN' && error.code !== 'EINTR') throw error;
    }
  }
}

function send(message) {
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(message.length));
  writeFully(Buffer.concat([head, message]));
}

function sendStage(which) {
  const out = new Writer(kind.stage);
  out.u8(which);
  send(out.take());
}

function sendFailure(error) {
  const out = new Writer(kind.failure);
  out.u8(error instanceof Unsupported ? 1 : 0);
  out.text(String(error && error.message ? error.message : error));
  send(out.take());
}

module.exports = {kind, stage, protocolVersion, widths, Unsupported, Writer, Reader, receive, send, sendStage, sendFailure};
