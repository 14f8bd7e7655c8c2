// client.js HOST PORT - acts as a node-redis application; prints "ok" or fails with the reason.
'use strict';
const assert = require('assert');
const { BasicClientSideCache, createClient, createClientPool, WatchError } = require('redis');
const calls = require('./calls.js');
const typed = require('./typed.js');

async function basics(client, proto) {
  assert.strictEqual(await client.ping(), 'PONG');
  assert.strictEqual(await client.set('nr:a', '1', { expiration: { type: 'EX', value: 1000 } }), 'OK');
  assert.strictEqual(await client.incrBy('nr:a', 41), 42);
  assert.strictEqual(await client.incrByFloat('nr:a', 0.5).then(String), '42.5');
  assert.ok((await client.ttl('nr:a')) > 900);
  assert.deepStrictEqual(await client.mGet(['nr:a', 'nr:none', 'nr:a']), ['42.5', null, '42.5']);
  assert.strictEqual(await client.hSet('nr:h', { one: '1', two: 'zwei' }), 2);
  assert.deepStrictEqual({ ...(await client.hGetAll('nr:h')) }, { one: '1', two: 'zwei' });
  assert.strictEqual(await client.zAdd('nr:z', [{ score: 1.5, value: 'x' }, { score: -2, value: 'y' }]), 2);
  assert.deepStrictEqual(await client.zRangeWithScores('nr:z', 0, -1),
    [{ value: 'y', score: -2 }, { value: 'x', score: 1.5 }]);
  assert.strictEqual(await client.zScore('nr:z', 'x'), 1.5);
  assert.strictEqual(await client.sAdd('nr:s', ['a', 'b', 'c']), 3);
  assert.deepStrictEqual([...(await client.sMembers('nr:s'))].sort(), ['a', 'b', 'c']);
  const hello = await client.sendCommand(['HELLO']);
  const version = Array.isArray(hello) ? hello[hello.indexOf('proto') + 1] : hello.proto;
  assert.strictEqual(version, proto);
  await assert.rejects(client.sendCommand(['NOSUCH']), /unknown command/);
  await assert.rejects(client.incr('nr:h'), /WRONGTYPE/);
  assert.strictEqual(await client.del(['nr:a', 'nr:h', 'nr:z', 'nr:s', 'nr:none']), 4);
}

async function pipelines(client) {
  const numbers = [...Array(1000).keys()];
  const replies = await Promise.all(numbers.flatMap((i) => [client.set(`nr:p:${i}`, String(i)), client.get(`nr:p:${i}`)]));
  replies.forEach((reply, i) => assert.strictEqual(reply, i % 2 ? String((i - 1) / 2) : 'OK'));
  assert.deepStrictEqual(await client.mGet(numbers.map((i) => `nr:p:${i}`)), numbers.map(String));
}

async function transactions(client, options) {
  assert.deepStrictEqual(await client.multi().set('{nr}:x', 'a').append('{nr}:x', 'b').get('{nr}:x').exec(), ['OK', 2, 'ab']);
  const watcher = await createClient(options).connect();
  await watcher.watch('{nr}:x');
  await client.set('{nr}:x', 'changed');
  await assert.rejects(watcher.multi().set('{nr}:x', 'lost').exec(), WatchError);
  assert.strictEqual(await watcher.get('{nr}:x'), 'changed');
  await watcher.watch('{nr}:x');
  assert.deepStrictEqual(await watcher.multi().set('{nr}:x', 'kept').get('{nr}:x').exec(), ['OK', 'kept']);
  watcher.destroy();
}

async function scripts(client) {
  const source = "redis.call('SET', KEYS[1], ARGV[1]); return {redis.call('GET', KEYS[1]), #ARGV}";
  const call = { keys: ['{nr}:lua'], arguments: ['v', 'w'] };
  assert.deepStrictEqual(await client.eval(source, call), ['v', 2]);
  const sha = await client.scriptLoad(source);
  assert.deepStrictEqual(await client.evalSha(sha, call), ['v', 2]);
  for (const key of ['1', '2', '3', '4', '5', '6']) // on every shard
    assert.deepStrictEqual(await client.evalSha(sha, { keys: [key], arguments: ['v'] }), ['v', 1]);
  await assert.rejects(client.evalSha('0'.repeat(40), call), /NOSCRIPT/);
  await client.del(['1', '2', '3', '4', '5', '6', '{nr}:lua']);
}

async function streams(client) {
  const ids = [];
  for (let i = 0; i < 5; i++) ids.push(await client.xAdd('nr:stream', '*', { n: String(i) }));
  assert.strictEqual(await client.xLen('nr:stream'), 5);
  const range = await client.xRange('nr:stream', '-', '+');
  assert.deepStrictEqual(range.map((entry) => [entry.id, entry.message.n]), ids.map((id, i) => [id, String(i)]));
  await client.xGroupCreate('nr:stream', 'group', '0');
  const read = await client.xReadGroup('group', 'me', { key: 'nr:stream', id: '>' }, { COUNT: 3 });
  const entries = Array.isArray(read) ? read[0].messages : read['nr:stream'];
  assert.deepStrictEqual(entries.map((entry) => entry.id), ids.slice(0, 3));
  assert.strictEqual(await client.xAck('nr:stream', 'group', ids.slice(0, 3)), 3);
  assert.strictEqual((await client.xInfoGroups('nr:stream'))[0].pending, 0);
  await client.del('nr:stream');
}

async function scans(client) {
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: 'nr:p:*', COUNT: 50 })) keys.forEach((key) => found.add(key));
  assert.strictEqual(found.size, 1000);
  assert.strictEqual(await client.unlink([...found]), 1000);
  await client.hSet('nr:hash', Object.fromEntries([...Array(300).keys()].map((i) => [`f${i}`, String(i)])));
  const fields = new Set();
  for await (const batch of client.hScanIterator('nr:hash', { COUNT: 20 })) batch.forEach(({ field }) => fields.add(field));
  assert.strictEqual(fields.size, 300);
  await client.del('nr:hash');
}

async function until(condition) {
  while (!condition()) await new Promise((done) => setImmediate(done));
}

async function messages(client, options) {
  const listener = await createClient(options).connect();
  const heard = [];
  const note = (message, channel) => heard.push(`${channel}=${message}`);
  await listener.subscribe(['nr:c1', 'nr:c2'], note);
  await listener.pSubscribe('nr:p*', note);
  for (let i = 0; i < 20; i++) assert.strictEqual(await client.publish('nr:c1', String(i)), 1);
  assert.strictEqual(await client.publish('nr:c2', 'two'), 1);
  assert.strictEqual(await client.publish('nr:pattern', 'three'), 1);
  await until(() => heard.length === 22);
  const isFirst = (line) => line.startsWith('nr:c1='); // only messages of the same channel keep their order
  assert.deepStrictEqual(heard.filter(isFirst), [...Array(20).keys()].map((i) => `nr:c1=${i}`));
  assert.deepStrictEqual(heard.filter((line) => !isFirst(line)).sort(), ['nr:c2=two', 'nr:pattern=three']);
  await listener.sSubscribe('nr:shard', note);
  assert.strictEqual(await client.sPublish('nr:shard', 'four'), 1);
  await until(() => heard.length === 23);
  assert.match(await listener.ping(), /^pong$/i); // lower case in RESP2, where the reply is a message
  await listener.unsubscribe();
  await listener.pUnsubscribe();
  await listener.sUnsubscribe();
  assert.strictEqual(await client.publish('nr:c1', 'nobody'), 0);
  assert.strictEqual(await listener.get('nr:none'), null);
  await listener.close();
}

async function blocking(client, options) {
  const waiter = await createClient(options).connect();
  const id = await waiter.clientId();
  const blocked = async () => (await client.sendCommand(['CLIENT', 'LIST', 'ID', String(id)])).match(/flags=[^ ]*b/);
  const popped = waiter.blPop('nr:q', 0);
  while (!(await blocked())) await new Promise((done) => setImmediate(done));
  await client.rPush('nr:q', 'first');
  assert.deepStrictEqual({ ...(await popped) }, { key: 'nr:q', element: 'first' });
  assert.strictEqual(await waiter.blPop('nr:q', 0.05), null);
  const read = waiter.xRead({ key: 'nr:xs', id: '0-0' }, { BLOCK: 0 });
  while (!(await blocked())) await new Promise((done) => setImmediate(done));
  await client.xAdd('nr:xs', '*', { f: 'v' });
  assert.ok(await read);
  await client.del('nr:xs');
  await waiter.close();
}

async function pooled(options) {
  const pool = await createClientPool(options, { minimum: 2, maximum: 8 }).connect();
  const replies = await Promise.all([...Array(200).keys()].map((i) => pool.execute(async (client) => {
    await client.set(`nr:pool:${i}`, String(i));
    return client.get(`nr:pool:${i}`);
  })));
  assert.deepStrictEqual(replies, [...Array(200).keys()].map(String));
  await pool.close();
}

// Keys are read from the client's own cache until another client changes them; the client checks the server's version.
async function caching(options) {
  const clientSideCache = new BasicClientSideCache({ ttl: 0, maxEntries: 100, evictPolicy: 'LRU' });
  const cached = await createClient({ ...options, RESP: 3, clientSideCache }).connect();
  const writer = await createClient(options).connect();
  const keys = [...Array(20).keys()].map((i) => `nr:cached:${i}`); // on several shards
  for (const key of keys) await writer.set(key, 'old');
  for (let turn = 0; turn < 3; turn++) for (const key of keys) assert.strictEqual(await cached.get(key), 'old');
  assert.ok(clientSideCache.stats().hitCount >= 2 * keys.length, `${clientSideCache.stats().hitCount} hits`);
  for (const key of keys) await writer.set(key, 'new');
  for (const key of keys) {
    while ((await cached.get(key)) !== 'new') await new Promise((done) => setImmediate(done)); // until it is invalidated
  }
  await writer.del(keys);
  await Promise.all([cached.close(), writer.close()]);
}

async function main(host, port) {
  for (const more of [{}, { RESP: 2 }, { RESP: 3, database: 1, name: 'node-redis-test' }]) {
    const options = { socket: { host, port, reconnectStrategy: false }, ...more };
    const client = createClient(options);
    client.on('error', (error) => { throw error; });
    await client.connect();
    await basics(client, more.RESP === 2 ? 2 : 3);
    for (const part of [pipelines, transactions, scripts, streams, scans, messages, blocking]) await part(client, options);
    await calls(client);
    if (more.RESP !== 2) await typed(client);
    await pooled(options);
    if (more.RESP !== 2) await caching(options);
    assert.strictEqual(await client.flushDb(), 'OK');
    assert.strictEqual(await client.dbSize(), 0);
    await client.close();
  }
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
