// cluster.js HOST PORT - acts as a node-redis application that knows Redis Cluster. Prints "ready" once keys are written, goes on
// until its input ends, and prints "ok" or fails with the reason.
'use strict';
const assert = require('assert');
const { createCluster } = require('redis');

const KEYS = [...Array(300).keys()].map((i) => `nr:${i}`);

async function rounds(cluster, isOver) {
  let round = 0;
  while (!isOver() || round < 3) {
    round++;
    await Promise.all(KEYS.map((key) => cluster.set(key, `${key}=${round}`)));
    const values = await Promise.all(KEYS.map((key) => cluster.get(key)));
    KEYS.forEach((key, i) => assert.strictEqual(values[i], `${key}=${round}`));
    assert.deepStrictEqual(await cluster.multi().set('{nr}:x', String(round)).incr('{nr}:x').get('{nr}:x').exec(),
      ['OK', round + 1, String(round + 1)]);
  }
}

async function shardChannels(cluster) {
  let hear;
  const heard = new Promise((resolve) => { hear = resolve; });
  await cluster.sSubscribe('nr:channel', (message, channel) => hear([channel, message]));
  assert.strictEqual(await cluster.sPublish('nr:channel', 'hello'), 1);
  assert.deepStrictEqual(await heard, ['nr:channel', 'hello']);
  await cluster.sUnsubscribe('nr:channel');
}

async function main() {
  const cluster = createCluster({ rootNodes: [{ url: `redis://${process.argv[2]}:${process.argv[3]}` }] });
  let isOver = false;
  cluster.on('error', () => {});
  process.stdin.on('data', () => {}).on('end', () => { isOver = true; });
  await cluster.connect();
  assert.strictEqual(cluster.masters.length, 3);
  await shardChannels(cluster);
  await assert.rejects(cluster.sendCommand('nr:1', false, ['SINTER', 'nr:1', 'nr:2', 'nr:3']), /CROSSSLOT/);
  console.log('ready');
  await rounds(cluster, () => isOver);
  cluster.destroy();
  console.log('ok');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
