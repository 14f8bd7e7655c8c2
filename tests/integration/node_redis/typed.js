// typed.js - the values that node-redis makes of RESP3 replies have the right types, not only the right text.
'use strict';
const assert = require('assert');
const fs = require('fs');
const calls = require('./calls.js');

const plain = (value) => JSON.parse(JSON.stringify(value)); // so that objects without a prototype compare as equal

async function hashes(client) {
  assert.strictEqual(await client.hSet('t:h', { a: '1', b: 'x' }), 2);
  assert.deepStrictEqual(plain(await client.hGetAll('t:h')), { a: '1', b: 'x' });
  assert.strictEqual(await client.hIncrByFloat('t:h', 'a', 0.5).then(String), '1.5');
  assert.deepStrictEqual(plain(await client.hRandFieldCountWithValues('t:h', 1)).length, 1);
  assert.deepStrictEqual(await client.hmGet('t:h', ['b', 'none']), ['x', null]);
  assert.strictEqual(await client.hExists('t:h', 'b'), 1);
}

async function hashFieldTtls(client) {
  const at = 4102444800;
  assert.strictEqual(await client.hSetEx('t:ttl', { a: '1', b: '2' }, { expiration: { type: 'EX', value: 1000 } }), 1);
  assert.strictEqual(await client.hSetEx('t:ttl', { a: '9' }, { mode: 'FNX' }), 0);
  assert.strictEqual(await client.hSet('t:ttl', 'c', '3'), 1);
  assert.deepStrictEqual(await client.hExpireAt('t:ttl', ['a', 'none'], at), [1, -2]);
  assert.deepStrictEqual(await client.hExpireTime('t:ttl', ['a', 'c', 'none']), [at, -1, -2]);
  assert.deepStrictEqual(await client.hpExpireAt('t:ttl', 'a', at * 1000 + 5, 'GT'), [1]);
  assert.deepStrictEqual(await client.hpExpireTime('t:ttl', 'a'), [at * 1000 + 5]);
  assert.deepStrictEqual(await client.hExpire('t:ttl', ['b', 'c'], 500, 'XX'), [1, 0]);
  assert.ok((await client.hTTL('t:ttl', 'b'))[0] <= 500);
  assert.deepStrictEqual(await client.hpExpire('t:ttl', 'b', 600000, 'NX'), [0]);
  assert.ok((await client.hpTTL('t:ttl', 'b'))[0] <= 500000);
  assert.deepStrictEqual(await client.hPersist('t:ttl', ['b', 'c']), [1, -1]);
  assert.deepStrictEqual(await client.hGetEx('t:ttl', ['b', 'none'], { expiration: { type: 'PX', value: 500000 } }), ['2', null]);
  assert.ok((await client.hTTL('t:ttl', 'b'))[0] <= 500);
  assert.deepStrictEqual(await client.hGetDel('t:ttl', ['a', 'b', 'none']), ['1', '2', null]);
  assert.deepStrictEqual(plain(await client.hGetAll('t:ttl')), { c: '3' });
}

async function bloomFilters(client) {
  assert.strictEqual(await client.bf.reserve('t:bf', 0.000001, 100, { EXPANSION: 4 }), 'OK');
  assert.strictEqual(await client.bf.add('t:bf', 'a'), true);
  assert.strictEqual(await client.bf.add('t:bf', 'a'), false);
  assert.deepStrictEqual(await client.bf.mAdd('t:bf', ['a', 'b']), [false, true]);
  assert.deepStrictEqual(await client.bf.insert('t:bf', ['b', 'c'], { NOCREATE: true }), [false, true]);
  assert.strictEqual(await client.bf.exists('t:bf', 'c'), true);
  assert.deepStrictEqual(await client.bf.mExists('t:bf', ['a', 'none']), [true, false]);
  assert.strictEqual(await client.bf.card('t:bf'), 3);
  const info = plain(await client.bf.info('t:bf'));
  assert.strictEqual(info.Capacity, 100);
  assert.strictEqual(info['Number of items inserted'], 3);
  assert.strictEqual(info['Expansion rate'], 4);
  let { iterator, chunk } = await client.bf.scanDump('t:bf', 0);
  assert.strictEqual(iterator, 1);
}

async function sketches(client) {
  assert.strictEqual(await client.cms.initByDim('{t}:cms', 1000, 5), 'OK');
  assert.strictEqual(await client.cms.initByProb('{t}:cms2', 0.002, 0.04), 'OK');
  assert.deepStrictEqual(await client.cms.incrBy('{t}:cms', [{ item: 'a', incrementBy: 3 }, { item: 'b', incrementBy: 1 }]), [3, 1]);
  assert.deepStrictEqual(await client.cms.incrBy('{t}:cms2', { item: 'a', incrementBy: 5 }), [5]);
  assert.deepStrictEqual(await client.cms.query('{t}:cms', ['a', 'none']), [3, 0]);
  assert.strictEqual(await client.cms.merge('{t}:cms', [{ name: '{t}:cms', weight: 2 }, { name: '{t}:cms2', weight: 1 }]), 'OK');
  assert.deepStrictEqual(await client.cms.query('{t}:cms', ['a', 'b']), [11, 2]);
  assert.deepStrictEqual(plain(await client.cms.info('{t}:cms')), { width: 1000, depth: 5, count: 13 });
}

async function digests(client) {
  const INFO = ['Compression', 'Capacity', 'Merged nodes', 'Unmerged nodes', 'Observations'];
  assert.strictEqual(await client.tDigest.create('{t}:td', { COMPRESSION: 200 }), 'OK');
  assert.strictEqual(await client.tDigest.create('{t}:td2'), 'OK');
  assert.ok(Number.isNaN(await client.tDigest.min('{t}:td')));
  assert.ok(Number.isNaN((await client.tDigest.quantile('{t}:td', [0.5]))[0]));
  assert.deepStrictEqual(await client.tDigest.rank('{t}:td', [1]), [-2]);
  assert.strictEqual(await client.tDigest.add('{t}:td', [1, 2.5, 3]), 'OK');
  assert.strictEqual(await client.tDigest.add('{t}:td2', [10]), 'OK');
  assert.strictEqual(await client.tDigest.merge('{t}:td', ['{t}:td', '{t}:td2'], { OVERRIDE: true }), 'OK');
  assert.strictEqual(await client.tDigest.merge('{t}:td3', '{t}:td', { COMPRESSION: 50 }), 'OK');
  assert.strictEqual(await client.tDigest.min('{t}:td'), 1);
  assert.strictEqual(await client.tDigest.max('{t}:td'), 10);
  assert.deepStrictEqual(await client.tDigest.quantile('{t}:td', [0, 0.3, 1]), [1, 2.5, 10]);
  assert.deepStrictEqual(await client.tDigest.cdf('{t}:td', [0, 1, 2.5, 11]), [0, 0.125, 0.375, 1]);
  assert.deepStrictEqual(await client.tDigest.rank('{t}:td', [0, 3, 11]), [-1, 2, 4]);
  assert.deepStrictEqual(await client.tDigest.revRank('{t}:td', [0, 3, 11]), [4, 1, -1]);
  assert.deepStrictEqual(await client.tDigest.byRank('{t}:td', [0, 1, 4]), [1, 2.5, Infinity]);
  assert.deepStrictEqual(await client.tDigest.byRevRank('{t}:td', [0, 1, 4]), [10, 3, -Infinity]);
  assert.strictEqual(await client.tDigest.trimmedMean('{t}:td', 0, 1), 4.125);
  const info = await client.tDigest.info('{t}:td');
  assert.deepStrictEqual(INFO.map((name) => info[name]), [200, 1210, 4, 0, 4]);
  assert.strictEqual((await client.tDigest.info('{t}:td3')).Compression, 50);
  assert.strictEqual(await client.tDigest.reset('{t}:td'), 'OK');
  assert.ok(Number.isNaN(await client.tDigest.max('{t}:td')));
}

async function topLists(client) {
  assert.strictEqual(await client.topK.reserve('t:top', 2, { width: 1000, depth: 5, decay: 0.5 }), 'OK');
  assert.deepStrictEqual(await client.topK.add('t:top', ['a', 'b', 'a']), [null, null, null]);
  assert.deepStrictEqual(await client.topK.add('t:top', 'c'), ['b']);
  assert.deepStrictEqual(await client.topK.incrBy('t:top', [{ item: 'd', incrementBy: 5 }, { item: 'a', incrementBy: 1 }]), ['c', null]);
  assert.deepStrictEqual(await client.topK.incrBy('t:top', { item: 'b', incrementBy: 3 }), ['a']);
  assert.deepStrictEqual(await client.topK.query('t:top', ['a', 'b', 'none']), [false, true, false]);
  assert.deepStrictEqual(await client.topK.count('t:top', ['a', 'b', 'none']), [3, 4, 0]);
  assert.deepStrictEqual(await client.topK.list('t:top'), ['d', 'b']);
  assert.deepStrictEqual(plain(await client.topK.listWithCount('t:top')), [{ item: 'd', count: 5 }, { item: 'b', count: 4 }]);
  assert.deepStrictEqual(plain(await client.topK.info('t:top')), { k: 2, width: 1000, depth: 5, decay: 0.5 });
  assert.strictEqual(await client.topK.reserve('t:top2', 3), 'OK');
  await assert.rejects(client.topK.list('t:none'), /TopK: key does not exist/);
}

async function sortedSets(client) {
  const members = [{ value: 'low', score: -Infinity }, { value: 'mid', score: 0.1 }, { value: 'top', score: 1e300 }];
  assert.strictEqual(await client.zAdd('{t}:z', members), 3);
  assert.deepStrictEqual(plain(await client.zRangeWithScores('{t}:z', 1, 2)), [{ value: 'mid', score: 0.1 }, { value: 'top', score: 1e300 }]);
  assert.strictEqual(await client.zScore('{t}:z', 'low'), -Infinity);
  assert.strictEqual(await client.zScore('{t}:z', 'none'), null);
  assert.deepStrictEqual(await client.zmScore('{t}:z', ['mid', 'none']), [0.1, null]);
  assert.strictEqual(await client.zIncrBy('{t}:z', 0.2, 'mid'), 0.1 + 0.2);
  assert.deepStrictEqual(plain(await client.zPopMax('{t}:z')), { value: 'top', score: 1e300 });
  assert.strictEqual(await client.zPopMin('{t}:none'), null);
  assert.deepStrictEqual(plain(await client.zRandMemberCountWithScores('{t}:z', 9)).length, 2);
  await client.zAdd('{t}:y', [{ value: 'mid', score: 2 }]);
  assert.deepStrictEqual(plain(await client.zUnionWithScores(['{t}:z', '{t}:y'])).map((one) => one.value), ['low', 'mid']);
  assert.deepStrictEqual(plain(await client.zDiffWithScores(['{t}:z', '{t}:y'])).length, 1);
  assert.deepStrictEqual(plain(await client.zmPop(['{t}:y'], 'MIN')), { key: '{t}:y', members: [{ value: 'mid', score: 2 }] });
  const { members: scanned } = await client.zScan('{t}:z', '0');
  assert.deepStrictEqual(plain(scanned).map((one) => one.value), ['low', 'mid']);
}

async function streams(client) {
  await client.xAdd('t:s', '1-1', { f: 'v', g: 'w' });
  await client.xAdd('t:s', '2-0', { f: 'x' });
  assert.deepStrictEqual(plain(await client.xRange('t:s', '-', '+')), [
    { id: '1-1', message: { f: 'v', g: 'w' } }, { id: '2-0', message: { f: 'x' } }]);
  await client.xGroupCreate('t:s', 'g', '0');
  const read = plain(await client.xReadGroup('g', 'me', { key: 't:s', id: '>' }));
  const messages = Array.isArray(read) ? read[0].messages : read['t:s'];
  assert.deepStrictEqual(messages.map((one) => one.id), ['1-1', '2-0']);
  const pending = plain(await client.xPending('t:s', 'g'));
  assert.deepStrictEqual([pending.pending, pending.firstId, pending.lastId, pending.consumers[0].name], [2, '1-1', '2-0', 'me']);
  const stream = plain(await client.xInfoStream('t:s'));
  assert.deepStrictEqual([stream.length, stream['entries-added'], stream.groups], [2, 2, 1]);
  const [group] = plain(await client.xInfoGroups('t:s'));
  assert.deepStrictEqual([group.name, group.consumers, group.pending, group['entries-read'], group.lag], ['g', 1, 2, 2, 0]);
  assert.deepStrictEqual(plain(await client.xInfoConsumers('t:s', 'g')).map((one) => [one.name, one.pending]), [['me', 2]]);
  const claimed = plain(await client.xAutoClaim('t:s', 'g', 'you', 0, '0'));
  assert.deepStrictEqual(claimed.messages.map((one) => one.id), ['1-1', '2-0']);
  assert.strictEqual(await client.xTrim('t:s', 'MAXLEN', 0, { strategyModifier: '~' }), 2);
  assert.strictEqual(await client.xRead({ key: 't:s', id: '$' }, { BLOCK: 1 }), null);
}

// Commands of Redis after 7.0.
async function later(client) {
  assert.strictEqual(await client.mSetEx({ '{t}:l1': 'a', '{t}:l2': 'b' }, { expiration: { type: 'EX', value: 100 } }), 1);
  assert.ok((await client.ttl('{t}:l2')) > 90);
  const digest = await client.digest('{t}:l1');
  assert.strictEqual(digest.length, 16);
  assert.strictEqual(await client.set('{t}:l1', 'x', { condition: 'IFEQ', matchValue: 'other' }), null);
  assert.strictEqual(await client.set('{t}:l1', 'c', { condition: 'IFDEQ', matchValue: digest }), 'OK');
  assert.strictEqual(await client.delEx('{t}:l1', { condition: 'IFNE', matchValue: 'c' }), 0);
  assert.strictEqual(await client.delEx('{t}:l1', { condition: 'IFEQ', matchValue: 'c' }), 1);
  assert.deepStrictEqual(plain(await client.increx('{t}:l1')), [1, 1]);
  await client.sAdd('{t}:ls', ['a', 'b']);
  await client.sAdd('{t}:lt', ['b', 'c']);
  assert.strictEqual(await client.sUnionCard(['{t}:ls', '{t}:lt']), 3);
  assert.strictEqual(await client.sDiffCard(['{t}:ls', '{t}:lt']), 1);
  await client.zAdd('t:lz', [{ value: 'one', score: 1.5 }]);
  assert.deepStrictEqual(plain(await client.zRankWithScore('t:lz', 'one')), { rank: 0, score: 1.5 });
  assert.strictEqual(await client.zRankWithScore('t:lz', 'none'), null);
  assert.deepStrictEqual([await client.zRank('t:lz', 'one'), await client.zRevRank('t:lz', 'one')], [0, 0]);
  await client.hSet('t:lh', { f: 'v', g: 'w' });
  assert.strictEqual((await client.hScan('t:lh', '0')).entries.length, 2);
  assert.deepStrictEqual(plain(await client.hScanNoValues('t:lh', '0')).fields, ['f', 'g']);
  assert.deepStrictEqual(plain(await client.hExpire('t:lh', ['f', 'none'], 100)), [1, -2]);
}

// Streams of Redis 8.2 and 8.4.
async function laterStreams(client) {
  for (const id of ['1-0', '2-0', '3-0', '4-0']) await client.xAdd('t:lx', id, { f: id });
  await client.xGroupCreate('t:lx', 'g', '0');
  await client.xGroupCreate('t:lx', 'h', '0');
  await client.xReadGroup('g', 'me', { key: 't:lx', id: '>' }, { COUNT: 3 });
  await client.xReadGroup('h', 'me', { key: 't:lx', id: '>' }, { COUNT: 1 });
  assert.deepStrictEqual(await client.xAckDel('t:lx', 'g', ['1-0', '9-0'], 'ACKED'), [2, -1]);
  assert.deepStrictEqual(await client.xAckDel('t:lx', 'h', '1-0', 'ACKED'), [1]);
  assert.deepStrictEqual(await client.xDelEx('t:lx', ['2-0', '9-0'], 'ACKED'), [2, -1]);
  assert.deepStrictEqual(await client.xDelEx('t:lx', ['2-0'], 'DELREF'), [1]);
  assert.strictEqual((await client.xPending('t:lx', 'g')).pending, 1);
  assert.strictEqual(await client.xTrim('t:lx', 'MAXLEN', 1, { policy: 'ACKED' }), 0);
  const read = plain(await client.xReadGroup('g', 'you', { key: 't:lx', id: '>' }, { CLAIM: 0 }));
  const messages = Array.isArray(read) ? read[0].messages : read['t:lx'];
  assert.deepStrictEqual(messages.map((one) => [one.id, one.deliveriesCounter]), [['3-0', 1], ['4-0', 0]]);
  assert.ok(messages[0].millisElapsedFromDelivery >= 0 && messages[1].millisElapsedFromDelivery === 0);
  assert.strictEqual(await client.xAck('t:lx', 'g', ['3-0', '4-0']), 2);
  await client.xGroupDestroy('t:lx', 'h');
  assert.strictEqual(await client.xAdd('t:lx', '5-0', { f: 'v' }, { TRIM: { strategy: 'MAXLEN', threshold: 1, policy: 'ACKED' } }), '5-0');
  assert.strictEqual(await client.xLen('t:lx'), 1);
  assert.deepStrictEqual(plain(await client.xRead({ key: 't:lx', id: '+' })).length ?? 1, 1);
}

// The other commands of Redis 7.2 to 8.2.
async function laterOthers(client) {
  await client.set('{t}:b1', 'a');
  await client.set('{t}:b2', 'b');
  for (const operation of ['DIFF', 'DIFF1', 'ANDOR', 'ONE'])
    assert.strictEqual(await client.bitOp(operation, '{t}:b3', ['{t}:b1', '{t}:b2']), 1);
  assert.strictEqual(await client.clientNoTouch(false), 'OK');
  assert.match(await client.clusterMyShardId(), /^[0-9a-f]{40}$/);
  assert.strictEqual(await client.clientKill({ filter: 'MAXAGE', maxAge: 1000000 }), 0);
  assert.strictEqual(await client.configSet('set-max-listpack-entries', '0'), 'OK');
  assert.ok((await client.clientList()).length > 0);
  assert.deepStrictEqual((await client.sendCommand(['WAITAOF', '0', '0', '0'])).length, 2);
}

async function geo(client) {
  await client.geoAdd('t:g', [{ member: 'Palermo', longitude: 13.361389, latitude: 38.115556 },
    { member: 'Catania', longitude: 15.087269, latitude: 37.502669 }]);
  assert.strictEqual(await client.geoDist('t:g', 'Palermo', 'Catania', 'km').then(Number), 166.2742);
  const [where, none] = plain(await client.geoPos('t:g', ['Palermo', 'none']));
  assert.ok(Math.abs(Number(where.longitude) - 13.361389) < 1e-4 && none === null);
  const found = plain(await client.geoSearchWith('t:g', { longitude: 15, latitude: 37 }, { radius: 200, unit: 'km' },
    ['WITHDIST', 'WITHCOORD'], { SORT: 'ASC' }));
  assert.deepStrictEqual(found.map((one) => one.member), ['Catania', 'Palermo']);
  const near = ['t:g', { longitude: 15, latitude: 37 }, { radius: 100, unit: 'km' }];
  assert.deepStrictEqual(await client.geoSearch(...near), ['Catania']);
  assert.strictEqual(await client.geoSearchStore('t:g2', ...near), 1);
  assert.strictEqual(await client.del('t:g2'), 1);
  assert.ok(Number(found[0].distance) > 56 && Number(found[0].coordinates.latitude) > 37);
}

async function others(client) {
  assert.deepStrictEqual([...(await client.sMembers('t:none'))], []);
  await client.sAdd('t:set', ['a', 'b']);
  assert.deepStrictEqual([...(await client.sMembers('t:set'))].sort(), ['a', 'b']);
  assert.strictEqual(await client.sIsMember('t:set', 'a'), 1);
  assert.strictEqual(await client.get('t:none'), null);
  assert.strictEqual(await client.set('t:k', '1'), 'OK');
  assert.strictEqual(await client.incrByFloat('t:k', 0.25).then(String), '1.25');
  const config = plain(await client.configGet('slowlog-max-len'));
  assert.deepStrictEqual(config, { 'slowlog-max-len': '128' });
  assert.ok((await client.info('server')).startsWith('# Server\r\n'));
  assert.ok((await client.info()).includes('# Keyspace'));
  assert.strictEqual((await client.clientInfo()).resp ?? 3, 3);
  const lcs = plain(await client.multi().set('{t}:1', 'ohmytext').set('{t}:2', 'mynewtext').lcsIdx('{t}:1', '{t}:2').exec());
  assert.deepStrictEqual([lcs[2].len, lcs[2].matches.length], [6, 2]);
  assert.deepStrictEqual((await client.commandInfo(['get']))[0].name, 'get');
  const made = await client.eval("redis.setresp(3) return {double=1.5}", { keys: ['t:k'] });
  assert.strictEqual(Number(made), 1.5);
  assert.strictEqual(await client.functionLoad("#!lua name=t\nredis.register_function('f', function() return true end)", { REPLACE: true }), 't');
  const [library] = plain(await client.functionList());
  assert.deepStrictEqual([library.library_name, library.functions[0].name], ['t', 'f']);
}

async function json(client) {
  const document = { a: { n: 1 }, b: { n: 2.5 }, c: { n: 'x' }, list: [1, true, null] };
  assert.strictEqual(await client.json.set('t:j', '$', document), 'OK');
  assert.deepStrictEqual(await client.json.get('t:j'), document);
  assert.deepStrictEqual(await client.json.get('t:j', { path: ['$.a', '$.b'] }), { '$.a': [{ n: 1 }], '$.b': [{ n: 2.5 }] });
  assert.strictEqual(await client.json.get('t:none'), null);
  assert.deepStrictEqual(await client.json.mGet(['t:j', 't:none'], '$.a.n'), [[1], null]);
  assert.deepStrictEqual(await client.json.numIncrBy('t:j', '$.a.n', 3), [4]);
  assert.deepStrictEqual(await client.json.numIncrBy('t:j', '$..n', 0.5), [4.5, 3, null]);
  assert.deepStrictEqual(await client.json.numMultBy('t:j', '$.a.n', 2), [9]);
  assert.deepStrictEqual(await client.json.type('t:j', { path: '$..n' }), ['number', 'number', 'string']);
  assert.deepStrictEqual(await client.json.type('t:j'), 'object');
  assert.strictEqual(await client.json.type('t:none', { path: '$' }), null);
  assert.deepStrictEqual(await client.json.arrLen('t:j', { path: '$.list' }), [3]);
  assert.deepStrictEqual(await client.json.arrAppend('t:j', '$.list', 'more', { x: 1 }), [5]);
  assert.deepStrictEqual(await client.json.arrIndex('t:j', '$.list', 'more'), [3]);
  assert.deepStrictEqual(await client.json.arrPop('t:j', { path: '$.list' }), [{ x: 1 }]);
  assert.deepStrictEqual(await client.json.arrInsert('t:j', '$.list', 0, 'first'), [5]);
  assert.deepStrictEqual(await client.json.arrTrim('t:j', '$.list', 0, 1), [2]);
  assert.deepStrictEqual(await client.json.objKeys('t:j', { path: '$.a' }), [['n']]);
  assert.deepStrictEqual(await client.json.objLen('t:j', { path: '$.*' }), [1, 1, 1, null]);
  assert.deepStrictEqual(await client.json.strLen('t:j', { path: '$.c.n' }), [1]);
  assert.deepStrictEqual(await client.json.strAppend('t:j', 'y', { path: '$.c.n' }), [2]);
  assert.strictEqual(await client.json.merge('t:j', '$.a', { m: true }), 'OK');
  assert.deepStrictEqual(await client.json.toggle('t:j', '$.a.m'), [0]);
  assert.strictEqual(await client.json.clear('t:j', { path: '$.a' }), 1);
  assert.strictEqual(await client.json.debugMemory('t:none'), 0);
  assert.deepStrictEqual(await client.json.debugMemory('t:none', { path: '$' }), []);
  await assert.rejects(client.json.strLen('t:none', { path: '$' }), /doesn't exist/);
  assert.strictEqual(await client.json.strLen('t:none'), null);
  assert.strictEqual(await client.json.del('t:j', { path: '$.a' }), 1);
  assert.deepStrictEqual(await client.multi().json.set('{t}:m', '$', [1]).json.numIncrBy('{t}:m', '$[0]', 1).exec(), ['OK', [2]]);
}

// The methods of the client and of its modules, by their names in lower case.
function methodsOf(client) {
  const methods = new Map();
  for (const path of ['', 'bf.', 'cms.', 'json.', 'tDigest.', 'topK.'])
    for (let object = path ? client[path.slice(0, -1)] : client; object; object = Object.getPrototypeOf(object))
      for (const name of Object.getOwnPropertyNames(object)) methods.set(`${path}${name}`.toLowerCase(), `${path}${name}`);
  return methods;
}

// Each command of calls.js for which the client has a method is called with it here.
function checkMethods(client) {
  const source = fs.readFileSync(__filename, 'utf8');
  const methods = methodsOf(client);
  const words = calls.words.flatMap(([name, second = '']) => [name, name + second]);
  const named = words.map((word) => methods.get(word.replace(/[-_]/g, '').toLowerCase())).filter(Boolean);
  const missing = new Set(named.filter((method) => !source.includes(`client.${method}(`)));
  assert.deepStrictEqual([...missing], [], 'methods that are not called in typed.js');
}

module.exports = async (client) => {
  checkMethods(client);
  for (const part of [hashes, hashFieldTtls, bloomFilters, sketches, digests, topLists, sortedSets, streams, later, laterStreams, laterOthers, geo, others, json]) await part(client);
  await client.flushDb();
};
