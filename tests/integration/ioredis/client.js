// client.js HOST PORT - what an ordinary ioredis application does; prints "ok" or fails with the reason.
'use strict';
const assert = require('assert');
const Redis = require('ioredis');

async function basics(redis) {
  assert.strictEqual(await redis.set('io:a', '1'), 'OK');
  assert.strictEqual(await redis.incrby('io:a', 41), 42);
  assert.strictEqual(await redis.get('io:a'), '42');
  assert.strictEqual(await redis.get('io:none'), null);
  assert.deepStrictEqual(await redis.mget('io:a', 'io:none', 'io:a'), ['42', null, '42']);
  await redis.hset('io:h', { one: 1, two: 'zwei' });
  assert.deepStrictEqual(await redis.hgetall('io:h'), { one: '1', two: 'zwei' });
  const raw = Buffer.from([0, 13, 10, 255]);
  await redis.set('io:raw', raw);
  assert.deepStrictEqual(await redis.getBuffer('io:raw'), raw);
  assert.strictEqual(await redis.del('io:a', 'io:h', 'io:raw', 'io:none'), 3);
  await assert.rejects(redis.call('NOSUCH'), /unknown command/);
}

async function pipelines(redis) {
  const pipeline = redis.pipeline();
  for (let i = 0; i < 500; i++) pipeline.set(`io:p:${i}`, i).get(`io:p:${i}`);
  const replies = await pipeline.exec();
  replies.forEach(([error, reply], i) => {
    assert.ifError(error);
    assert.strictEqual(reply, i % 2 ? String((i - 1) / 2) : 'OK');
  });
  const many = await Promise.all([...Array(500).keys()].map((i) => redis.get(`io:p:${i}`)));
  assert.deepStrictEqual(many, [...Array(500).keys()].map(String));
}

async function transactions(redis) {
  const replies = await redis.multi().set('{io}:x', 'a').append('{io}:x', 'b').get('{io}:x').exec();
  assert.deepStrictEqual(replies, [[null, 'OK'], [null, 2], [null, 'ab']]);
}

async function scans(redis) {
  const found = new Set();
  for await (const keys of redis.scanStream({ match: 'io:p:*', count: 50 })) keys.forEach((key) => found.add(key));
  assert.strictEqual(found.size, 500);
  await redis.unlink(...found);
  assert.strictEqual(await redis.exists(...found), 0);
}

async function main(host, port) {
  for (const options of [{}, { enableAutoPipelining: true }, { connectionName: 'ioredis-test', db: 1 }]) {
    const redis = new Redis({ host, port, maxRetriesPerRequest: 1, ...options });
    await basics(redis);
    await pipelines(redis);
    await transactions(redis);
    await scans(redis);
    await redis.quit();
  }
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
