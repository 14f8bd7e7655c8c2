// restarts.js HOST PORT NAME - an ioredis application with default settings, which runs until its input ends; prints what it saw.
'use strict';
const Redis = require('ioredis');

const [host, port, name] = process.argv.slice(2);
const keys = [...Array(12).keys()].map((i) => `${name}:${i}`);
const seen = { rounds: 0, errors: [], broken: 0 };
let isOver = false;

async function round(redis) {
  const expected = ++seen.rounds;
  const counts = await Promise.all(keys.map((key) => redis.incr(key)));
  const values = await redis.mget(keys);
  const block = await redis.multi().get(keys[0]).incr(`{${keys[0]}}:block`).exec();
  const wrong = counts.some((count) => count !== expected) || values.some((value) => value !== String(expected)) ||
    block[0][1] !== String(expected) || block[1][1] !== expected;
  if (wrong) seen.errors.push(`round ${expected}: ${JSON.stringify([counts, values, block])}`);
}

async function main() {
  const redis = new Redis(Number(port), host);
  redis.on('error', () => { seen.broken++; }); // the connection, which ioredis opens again
  process.stdin.on('end', () => { isOver = true; }).resume();
  while (!isOver && seen.errors.length < 20) {
    await round(redis).catch((error) => seen.errors.push(String(error)));
    if (seen.rounds === 20) console.log('begun');
  }
  redis.disconnect();
  console.log(JSON.stringify(seen));
}

main();
