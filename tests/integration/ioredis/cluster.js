// cluster.js HOST PORT - acts as an ioredis application that knows Redis Cluster. Prints "ready" once keys are written, goes on
// until its input ends, and prints "ok" or fails with the reason.
'use strict';
const assert = require('assert');
const { Cluster } = require('ioredis');

const KEYS = [...Array(300).keys()].map((i) => `io:${i}`);

async function rounds(cluster, isOver) {
  let round = 0;
  const rejected = [];
  while (!isOver() || round < 3) {
    round++;
    await Promise.all(KEYS.map((key) => cluster.set(key, `${key}=${round}`)));
    const values = await Promise.all(KEYS.map((key) => cluster.get(key)));
    KEYS.forEach((key, i) => assert.strictEqual(values[i], `${key}=${round}`));
    const multi = await cluster.multi().set('{io}:x', round).incr('{io}:x').get('{io}:x').exec();
    if (multi.some(([error]) => error)) rejected.push(multi);
    else assert.deepStrictEqual(multi.map(([, reply]) => reply), ['OK', round + 1, String(round + 1)]);
    assert.strictEqual(await cluster.eval("return redis.call('GET', KEYS[1])", 1, KEYS[round % KEYS.length]),
      `${KEYS[round % KEYS.length]}=${round}`);
  }
  assert.deepStrictEqual(rejected, []);
}

async function pipelines(cluster) {
  const pipeline = cluster.pipeline();
  for (let i = 0; i < 100; i++) pipeline.set(`{p}:${i}`, i).get(`{p}:${i}`);
  (await pipeline.exec()).forEach(([error, reply], i) => {
    assert.ifError(error);
    assert.strictEqual(reply, i % 2 ? String((i - 1) / 2) : 'OK');
  });
  await assert.rejects(cluster.mget('io:1', 'io:2', 'io:3'), /CROSSSLOT/);
}

async function shardChannels(cluster, options) {
  const listener = new Cluster(options.nodes, { ...options.cluster, shardedSubscribers: true });
  const heard = new Promise((resolve) => listener.on('smessage', (channel, message) => resolve([channel, message])));
  await listener.ssubscribe('io:channel');
  assert.strictEqual(await cluster.spublish('io:channel', 'hello'), 1);
  assert.deepStrictEqual(await heard, ['io:channel', 'hello']);
  listener.disconnect();
}

async function main() {
  const nodes = [{ host: process.argv[2], port: Number(process.argv[3]) }];
  const options = { nodes, cluster: { slotsRefreshTimeout: 20000, redisOptions: { connectTimeout: 20000 } } };
  const cluster = new Cluster(nodes, options.cluster);
  let isOver = false;
  process.stdin.on('data', () => {}).on('end', () => { isOver = true; });
  await cluster.set('io:first', 1);
  assert.strictEqual(cluster.nodes('master').length, 3);
  await pipelines(cluster);
  await shardChannels(cluster, options);
  console.log('ready');
  await rounds(cluster, () => isOver);
  cluster.disconnect();
  console.log('ok');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
