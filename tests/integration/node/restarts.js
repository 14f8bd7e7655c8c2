// restarts.js HOST PORT NAME - an application with default settings of the client in adapter.js, which runs until its input ends; prints
// what it saw.
'use strict';
const { close, connect, exec, getAll } = require('./adapter.js');

const [host, port, name] = process.argv.slice(2);
const keys = [...Array(12).keys()].map((i) => `${name}:${i}`);
const seen = { rounds: 0, errors: [], broken: 0 };
let isOver = false;

async function round(redis) {
  const expected = ++seen.rounds;
  const counts = await Promise.all(keys.map((key) => redis.incr(key)));
  const values = await getAll(redis, keys);
  const block = await exec(redis.multi().get(keys[0]).incr(`{${keys[0]}}:block`));
  const wrong = counts.some((count) => count !== expected) || values.some((value) => value !== String(expected)) ||
    block[0] !== String(expected) || block[1] !== expected;
  if (wrong) seen.errors.push(`round ${expected}: ${JSON.stringify([counts, values, block])}`);
}

async function main() {
  const redis = await connect({ host, port: Number(port) }, () => { seen.broken++; }); // the client connects again
  process.stdin.on('end', () => { isOver = true; }).resume();
  while (!isOver && seen.errors.length < 20) {
    await round(redis).catch((error) => seen.errors.push(String(error)));
    if (seen.rounds === 20) console.log('begun');
  }
  close(redis);
  console.log(JSON.stringify(seen));
}

main();
