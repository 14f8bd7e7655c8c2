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

async function scripts(redis) {
  redis.defineCommand('keep', { numberOfKeys: 1, lua: "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])" });
  for (let i = 0; i < 10; i++) assert.strictEqual(await redis.keep(`io:lua:${i}`, i), String(i)); // EVALSHA, then EVAL
  const pipeline = redis.pipeline();
  for (let i = 0; i < 10; i++) pipeline.keep(`io:lua:${i}`, i + 1);
  assert.deepStrictEqual(await pipeline.exec(), [...Array(10).keys()].map((i) => [null, String(i + 1)]));
  await redis.del([...Array(10).keys()].map((i) => `io:lua:${i}`));
}

async function streams(redis) {
  const id = await redis.xadd('io:stream', '*', 'f', 'v');
  await redis.xadd('io:stream', '*', 'f', 'w');
  assert.strictEqual(await redis.xgroup('CREATE', 'io:stream', 'group', '0'), 'OK');
  const [[name, [entry]]] = await redis.xreadgroup('GROUP', 'group', 'me', 'COUNT', 1, 'STREAMS', 'io:stream', '>');
  assert.deepStrictEqual([name, entry], ['io:stream', [id, ['f', 'v']]]);
  assert.strictEqual(await redis.xack('io:stream', 'group', id), 1);
  await redis.del('io:stream');
}

async function until(condition) {
  while (!(await condition())) await new Promise((done) => setImmediate(done));
}

async function messages(redis) {
  const listener = redis.duplicate();
  const heard = [];
  listener.on('message', (channel, message) => heard.push(`${channel}=${message}`));
  listener.on('pmessage', (pattern, channel, message) => heard.push(`${pattern}:${channel}=${message}`));
  assert.strictEqual(await listener.subscribe('io:c1', 'io:c2'), 2);
  assert.strictEqual(await listener.psubscribe('io:p*'), 3);
  for (let i = 0; i < 20; i++) assert.strictEqual(await redis.publish('io:c1', i), 1);
  await redis.publish('io:pattern', 'p');
  await until(() => heard.length === 21);
  assert.deepStrictEqual(heard.filter((line) => line.startsWith('io:c1')), [...Array(20).keys()].map((i) => `io:c1=${i}`));
  assert.ok(heard.includes('io:p*:io:pattern=p'));
  await listener.unsubscribe('io:c1', 'io:c2');
  await listener.punsubscribe('io:p*');
  assert.strictEqual(await listener.get('io:none'), null);
  await listener.quit();
}

async function blocking(redis) {
  const waiter = redis.duplicate();
  const id = await waiter.client('ID');
  const isBlocked = async () => / flags=[^ ]*b/.test(await redis.client('LIST', 'ID', id));
  const popped = waiter.blpop('io:q', 0);
  await until(isBlocked);
  await redis.rpush('io:q', 'first');
  assert.deepStrictEqual(await popped, ['io:q', 'first']);
  assert.strictEqual(await waiter.brpop('io:q', 0.05), null);
  const moved = waiter.blmove('{io}:a', '{io}:b', 'LEFT', 'RIGHT', 0);
  await until(isBlocked);
  await redis.rpush('{io}:a', 'x');
  assert.strictEqual(await moved, 'x');
  await redis.del('{io}:b');
  await waiter.quit();
}

async function main(host, port) {
  for (const options of [{}, { enableAutoPipelining: true }, { connectionName: 'ioredis-test', db: 1 }]) {
    const redis = new Redis({ host, port, maxRetriesPerRequest: 1, ...options });
    await basics(redis);
    await pipelines(redis);
    await transactions(redis);
    await scans(redis);
    await scripts(redis);
    await streams(redis);
    await messages(redis);
    await blocking(redis);
    await redis.quit();
  }
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
