// client.js HOST PORT - acts as an ioredis application; prints "ok" or fails with the reason.
'use strict';
const assert = require('assert');
const Redis = require('ioredis');
const calls = require('./calls.js');

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

// Replies as maps and numbers, only in RESP3: the commands whose replies differ from RESP2.
async function typed(redis) {
  await redis.hset('io:th', 'f', 'v');
  assert.deepStrictEqual({ ...(await redis.hgetall('io:th')) }, { f: 'v' });
  await redis.zadd('io:tz', '0.5', 'a', 'inf', 'b');
  assert.strictEqual(await redis.zscore('io:tz', 'a'), 0.5);
  assert.strictEqual(await redis.zscore('io:tz', 'none'), null);
  assert.deepStrictEqual(await redis.zmscore('io:tz', 'a', 'none', 'b'), [0.5, null, Infinity]);
  assert.strictEqual(await redis.zincrby('io:tz', 1, 'a'), 1.5);
  assert.deepStrictEqual(await redis.zrange('io:tz', 1, 1, 'WITHSCORES'), [['b', Infinity]]);
  assert.deepStrictEqual(await redis.zpopmax('io:tz'), ['b', Infinity]);
  assert.deepStrictEqual({ ...(await redis.config('GET', 'slowlog-max-len')) }, { 'slowlog-max-len': '128' });
  await redis.xadd('io:ts', '1-1', 'f', 'v');
  await redis.xgroup('CREATE', 'io:ts', 'g', '0');
  const read = await redis.xreadgroup('GROUP', 'g', 'me', 'STREAMS', 'io:ts', '>');
  assert.deepStrictEqual({ ...read }, { 'io:ts': [['1-1', ['f', 'v']]] });
  const stream = await redis.xinfo('STREAM', 'io:ts');
  assert.deepStrictEqual([stream.length, stream['last-generated-id'], stream.groups], [1, '1-1', 1]);
  const [group] = await redis.xinfo('GROUPS', 'io:ts');
  assert.deepStrictEqual([group.name, group.pending, group.lag], ['g', 1, 0]);
  await redis.geoadd('io:tg', 13.361389, 38.115556, 'Palermo');
  const [[longitude, latitude], none] = await redis.geopos('io:tg', 'Palermo', 'none');
  assert.ok(Math.abs(longitude - 13.361389) < 1e-4 && Math.abs(latitude - 38.115556) < 1e-4 && none === null);
  assert.ok((await redis.info('server')).startsWith('# Server'));
  const library = await redis.call('FUNCTION', 'LIST');
  assert.deepStrictEqual(library, []);
  await redis.call('JSON.SET', 'io:tj', '$', '{"n":1,"m":{"n":2.5}}');
  assert.deepStrictEqual(await redis.call('JSON.NUMINCRBY', 'io:tj', '$..n', 1), [2, 3.5]);
  assert.deepStrictEqual(await redis.call('JSON.TYPE', 'io:tj', '$..n'), [['integer', 'number']]);
  assert.deepStrictEqual(await redis.call('JSON.RESP', 'io:tj', '$.m'), [['{', 'n', 3.5]]);
  assert.strictEqual(await redis.del('io:th', 'io:tz', 'io:ts', 'io:tg', 'io:tj'), 5);
}

async function main(host, port) {
  for (const options of [{}, { protocol: 2 }, { enableAutoPipelining: true }, { connectionName: 'ioredis-test', db: 1 }]) {
    const redis = new Redis({ host, port, maxRetriesPerRequest: 1, ...options });
    await basics(redis);
    await pipelines(redis);
    await transactions(redis);
    await scans(redis);
    await scripts(redis);
    await streams(redis);
    await messages(redis);
    await blocking(redis);
    await calls(redis);
    await redis.quit();
  }
  const mapped = new Redis({ host, port, protocol: 3, replyMapping: 'resp3' });
  await typed(mapped);
  await calls(mapped);
  await mapped.quit();
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
