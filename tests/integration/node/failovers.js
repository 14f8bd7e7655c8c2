// failovers.js HOST PORT NAME - an application that knows Redis Cluster, with default settings of the client in adapter.js: it counts up in
// each of its keys until its input ends, again after an error, then reads all, also at replicas. Prints what it saw.
'use strict';
const { closeCluster, connectCluster } = require('./adapter.js');

const [host, port, name] = process.argv.slice(2);
const keys = [...Array(12).keys()].map((i) => `${name}:${i}`);
const acknowledged = keys.map(() => 0);
const tried = keys.map(() => 0);
const seen = { writes: 0, errors: [], wrong: [] };
let isOver = false;

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

async function count(redis, i) {
  while (!isOver) {
    tried[i]++;
    try {
      await redis.set(keys[i], String(tried[i]));
      acknowledged[i] = tried[i];
      if (++seen.writes === 200) console.log('begun');
    } catch (error) {
      seen.errors.push(String(error));
      await pause(20);
    }
  }
}

// Replicas may be behind; until all have what was acknowledged, or a minute is over.
async function read(redis, i, isReplica) {
  for (let tries = 0; ; tries++) {
    const value = Number(await redis.get(keys[i]));
    if (!isReplica || value >= acknowledged[i] || tries === 600) return value;
    await pause(100);
  }
}

async function check(redis, where) {
  for (let i = 0; i < keys.length; i++) {
    const value = await read(redis, i, where === 'any');
    if (value < acknowledged[i] || value > tried[i]) seen.wrong.push(`${where} ${keys[i]}: ${[value, acknowledged[i], tried[i]]}`);
  }
}

async function main() {
  const at = { host, port: Number(port) };
  const writer = await connectCluster(at, false);
  process.stdin.on('end', () => { isOver = true; }).resume();
  await Promise.all(keys.map((key, i) => count(writer, i)));
  await check(writer, 'master');
  closeCluster(writer);
  const reader = await connectCluster(at, true);
  await check(reader, 'any');
  closeCluster(reader);
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
