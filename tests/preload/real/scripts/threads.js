// Worker threads that share, transfer and copy memory, with what has allocators of its own below it
// or uses malloc directly: buffers, zlib, crypto, JSON, regular expressions, child processes.
'use strict';
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { createHash, randomBytes, pbkdf2 } = require('node:crypto');
const { execFileSync } = require('node:child_process');
const zlib = require('node:zlib');
const { promisify } = require('node:util');

const hash = (data) => createHash('sha256').update(data).digest('hex').slice(0, 16);

function work(n) {
    const words = new Map();
    for (let i = 0; i < 20000; i++) {
        const word = `word${(i * 7919 * n) % 1009}`;
        words.set(word, (words.get(word) ?? 0) + 1);
    }
    const text = JSON.stringify([...words].sort());
    const packed = zlib.deflateSync(text, { level: 9 });
    const same = zlib.inflateSync(packed).toString() === text;
    const buffers = [];
    for (let i = 0; i < 2000; i++) buffers.push(Buffer.alloc((i * 37) % 9000, i % 256));
    randomBytes(100000);
    return { n, same, words: hash(text), buffers: hash(Buffer.concat(buffers)) };
}

if (!isMainThread) {
    const { n, shared, given } = workerData;
    for (let i = 0; i < 1000; i++) Atomics.add(new Int32Array(shared), i % 16, n);
    const result = work(n);
    const answer = new Uint8Array(given.byteLength).map((_, i) => given[i] ^ n);
    parentPort.postMessage({ ...result, answer }, [answer.buffer]);
} else {
    main();
}

function start(n, shared) {
    const given = new Uint8Array(300000).fill(n);
    return new Promise((resolve, reject) => {
        const workerData = { n, shared, given };
        const worker = new Worker(__filename, { workerData, transferList: [given.buffer] });
        let message;
        worker.on('message', (it) => { message = it; });
        worker.on('error', reject);
        worker.on('exit', () => resolve(message));
    });
}

async function main() {
    const shared = new SharedArrayBuffer(64);
    // Generations of threads, so that some start while others end.
    for (let generation = 0; generation < 3; generation++) {
        const results = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => start(n, shared)));
        for (const { n, same, words, buffers, answer } of results) {
            console.log(n, same, words, buffers, answer.every((it) => it === 0));
        }
    }
    console.log(new Int32Array(shared).join(' '));

    // These run in node's own pool of threads.
    const keys = [1, 2, 3, 4, 5, 6, 7, 8].map((n) =>
        promisify(pbkdf2)(`password ${n}`, 'salt', 5000, 64, 'sha512'));
    console.log((await Promise.all(keys)).map(hash).join(' '));
    const texts = [1, 2, 3, 4].map((n) => 'abcdefghij'.repeat(50000 * n));
    const packed = await Promise.all(texts.map((it) => promisify(zlib.gzip)(it)));
    const unpacked = await Promise.all(packed.map((it) => promisify(zlib.gunzip)(it)));
    console.log(unpacked.map((it, n) => it.toString() === texts[n]));

    const child = execFileSync(process.execPath, ['-p', 'Buffer.alloc(1e6, "ab").length']);
    console.log(child.toString().trim());
}
