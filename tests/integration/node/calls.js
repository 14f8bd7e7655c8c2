// calls.js - the commands and options of Redis after 7.0, of Valkey, of Kvrocks and of RedisBloom, called as the client calls any command.
'use strict';
const assert = require('assert');
const { call, callBinary } = require('./adapter.js');

const ANY = Symbol('any'); // any reply but an error
const DOUBLES = /WITHSCORE|TDIGEST.(QUANTILE|CDF|BYRANK|BYREVRANK|MIN|MAX|TRIMMED_MEAN)/;
const PROXY_ONLY = /^NAMESPACE GET/;
const number = (text) => Number(String(text).replace('inf', 'Infinity'));
const FAR = '4102444800';

// [words, reply]
const CALLS = [
  // Redis 7.2
  ['CLIENT NO-TOUCH off', 'OK'],
  ['CLIENT SETINFO LIB-NAME calls', 'OK'],
  ['CLUSTER MYSHARDID', ANY],
  ['WAITAOF 0 0 0', ANY],
  ['ZADD new:lz 1.5 a 2 b', 2],
  ['ZRANK new:lz b WITHSCORE', [1, 2]],
  ['ZREVRANK new:lz b WITHSCORE', [0, 2]],
  // Redis 7.4
  ['HSET new:lh a 1 b 2 c 3', 3],
  [`HEXPIREAT new:lh ${FAR} FIELDS 2 a none`, [1, -2]],
  [`HPEXPIREAT new:lh ${FAR}000 FIELDS 1 b`, [1]],
  ['HEXPIRE new:lh 1000 XX FIELDS 1 c', [0]],
  ['HPEXPIRE new:lh 1000000 NX FIELDS 1 c', [1]],
  ['HEXPIRETIME new:lh FIELDS 2 a none', [Number(FAR), -2]],
  ['HPEXPIRETIME new:lh FIELDS 1 b', [Number(FAR) * 1000]],
  ['HTTL new:lh FIELDS 1 none', [-2]],
  ['HPTTL new:lh FIELDS 1 none', [-2]],
  ['HPERSIST new:lh FIELDS 3 a b c', [1, 1, 1]],
  ['HSCAN new:lh 0 NOVALUES', ['0', ['a', 'b', 'c']]],
  ['CONFIG SET set-max-listpack-entries 0', 'OK'],
  ['CLIENT KILL MAXAGE 1000000', 0],
  ['XADD new:lx 0-1 f v', '0-1'],
  ['XREAD STREAMS new:lx +', ANY],
  ['DEL new:lx', 1],
  // Redis 8.0
  ['HSETEX new:lh EX 1000 FIELDS 1 d 4', 1],
  ['HGETEX new:lh PERSIST FIELDS 2 d none', ['4', null]],
  ['HGETDEL new:lh FIELDS 2 d none', ['4', null]],
  ['CLIENT MAINT_NOTIFICATIONS OFF', 'OK'],
  ['CLUSTER SLOT-STATS SLOTSRANGE 0 0', ANY],
  // Redis 8.2
  ['SET {new}:b1 a', 'OK'],
  ['SET {new}:b2 b', 'OK'],
  ['BITOP DIFF {new}:b3 {new}:b1 {new}:b2', 1],
  ['BITOP DIFF1 {new}:b3 {new}:b1 {new}:b2', 1],
  ['BITOP ANDOR {new}:b3 {new}:b1 {new}:b2', 1],
  ['BITOP ONE {new}:b3 {new}:b1 {new}:b2', 1],
  ['XADD new:lx 1-0 f v', '1-0'],
  ['XADD new:lx 2-0 f v', '2-0'],
  ['XADD new:lx 3-0 f v', '3-0'],
  ['XADD new:lx 4-0 f v', '4-0'],
  ['XGROUP CREATE new:lx g 0', 'OK'],
  ['XREADGROUP GROUP g c COUNT 3 STREAMS new:lx >', ANY],
  ['XACKDEL new:lx g ACKED IDS 1 1-0', [1]],
  ['XDELEX new:lx ACKED IDS 2 2-0 9-0', [2, -1]],
  ['XDELEX new:lx DELREF IDS 1 2-0', [1]],
  ['XADD new:lx MAXLEN = 1 ACKED 5-0 f v', '5-0'],
  ['XTRIM new:lx MAXLEN = 2 DELREF', 1],
  ['XTRIM new:lx MAXLEN = 2 KEEPREF', 0],
  ['XPENDING new:lx g', [0, null, null, null]],
  ['XINFO CONSUMERS new:lx g', ANY],
  ['XINFO STREAM new:lx FULL', ANY],
  // Redis 8.4
  ['XREADGROUP GROUP g c CLAIM 0 COUNT 1 STREAMS new:lx >', ANY],
  ['MSETEX 2 new:l1 a new:l2 b EX 100', 1],
  ['SET new:l1 x IFEQ other', null],
  [['SET', 'new:l1', 'Hello world', 'IFNE', 'other'], 'OK'],
  ['DIGEST new:l1', 'b6acb9d84a38ff74'],
  ['SET new:l1 y IFDEQ b6acb9d84a38ff74', 'OK'],
  ['SET new:l1 z IFDNE b6acb9d84a38ff74', 'OK'],
  ['DELEX new:l1 IFEQ none', 0],
  ['DELEX new:l1 IFEQ z', 1],
  // Redis 8.8 and 8.10
  ['INCREX new:l1 BYINT 5 EX 100', [5, 5]],
  ['SADD new:s1 a b', 2],
  ['SADD new:s2 b c', 2],
  ['SUNIONCARD 2 new:s1 new:s2', 3],
  ['SDIFFCARD 2 new:s1 new:s2', 1],
  // Valkey 8.0 to 9.0
  ['CLIENT CAPA redirect', 'OK'],
  ['EVAL return(1) 0', 1],
  ['SCRIPT SHOW 930269f31393d0be681588b6ab08dccee7d6bb67', 'return(1)'],
  ['ZSCAN new:lz 0 NOSCORES', ['0', ['a', 'b']]],
  ['CLIENT LIST NOT-DB 0 NAME none', ''],
  ['COMMANDLOG LEN large-request', ANY],
  ['COMMANDLOG GET -1 slow', ANY],
  ['COMMANDLOG RESET large-reply', 'OK'],
  ['COMMANDLOG HELP', ANY],
  ['DELIFEQ new:l2 none', 0],
  ['DELIFEQ new:l2 b', 1],
  ['GEOADD new:lg 13.361389 38.115556 Palermo 15.087269 37.502669 Catania', 2],
  ['GEOSEARCH new:lg BYPOLYGON 3 13 38 14 38 13.5 39', ['Palermo']],
  ['GEOSEARCHSTORE new:ld new:lg BYPOLYGON 3 13 38 14 38 13.5 39', 1],
  // Kvrocks
  ['CAS new:none a b', -1],
  ['CAD new:none a', -1],
  ['HSETEXPIRE new:lh 1000 b 2', 'OK'],
  ['HRANGEBYLEX new:lh [b + LIMIT 0 1', ['b', '2']],
  ['MPUBLISH new:nobody a b', 0],
  ['DISK USAGE new:lh', ANY],
  ['DISK HELP', ANY],
  ['NAMESPACE CURRENT', '__namespace'],
  ['NAMESPACE GET *', ANY],
  ['NAMESPACE HELP', ANY],
  ['JSON.SET new:lj $ {}', 'OK'],
  ['JSON.INFO new:lj', ['storage_format', 'json']],
  // RedisBloom
  ['BF.RESERVE new:bf 0.001 100 EXPANSION 4', 'OK'],
  ['BF.ADD new:bf a', true],
  ['BF.MADD new:bf a b', [false, true]],
  ['BF.INSERT new:bf NOCREATE ITEMS b c', [false, true]],
  ['BF.EXISTS new:bf none', false],
  ['BF.MEXISTS new:bf a none', [true, false]],
  ['BF.CARD new:bf', 3],
  ['BF.INFO new:bf CAPACITY', [100]],
  ['BF.INFO new:bf', ANY],
  ['CMS.INITBYDIM {new}:cms 1000 5', 'OK'],
  ['CMS.INITBYPROB {new}:cms2 0.002 0.04', 'OK'],
  ['CMS.INCRBY {new}:cms a 3 b 1', [3, 1]],
  ['CMS.INCRBY {new}:cms2 a 5', [5]],
  ['CMS.MERGE {new}:cms 2 {new}:cms {new}:cms2 WEIGHTS 2 1', 'OK'],
  ['CMS.QUERY {new}:cms a b none', [11, 2, 0]],
  ['CMS.INFO {new}:cms', ['width', 1000, 'depth', 5, 'count', 13]],
  ['TOPK.RESERVE new:top 2 1000 5 0.5', 'OK'],
  ['TOPK.ADD new:top a b a c', [null, null, null, 'b']],
  ['TOPK.INCRBY new:top d 5 a 1', ['c', null]],
  ['TOPK.QUERY new:top a none', [true, false]],
  ['TOPK.COUNT new:top a none', [3, 0]],
  ['TOPK.LIST new:top', ['d', 'a']],
  ['TOPK.LIST new:top WITHCOUNT', ['d', 5, 'a', 3]],
  ['TOPK.INFO new:top', ANY],
  ['TDIGEST.CREATE {new}:t1 COMPRESSION 50', 'OK'],
  ['TDIGEST.ADD {new}:t1 1 2 2 3', 'OK'],
  ['TDIGEST.MERGE {new}:t2 2 {new}:t1 {new}:t1', 'OK'],
  ['TDIGEST.QUANTILE {new}:t2 0 0.5 1', [1, 2, 3]],
  ['TDIGEST.MIN {new}:t2', 1],
  ['TDIGEST.MAX {new}:t2', 3],
  ['TDIGEST.TRIMMED_MEAN {new}:t2 0 1', 2],
  ['TDIGEST.CDF {new}:t2 0 2 5', [0, 0.5, 1]],
  ['TDIGEST.BYRANK {new}:t2 0 8', [1, Infinity]],
  ['TDIGEST.BYREVRANK {new}:t2 0 8', [3, -Infinity]],
  ['TDIGEST.RANK {new}:t2 0 2 9', [-1, 4, 8]],
  ['TDIGEST.REVRANK {new}:t2 0 2 9', [8, 4, -1]],
  ['TDIGEST.INFO {new}:t2', ANY],
  ['TDIGEST.RESET {new}:t1', 'OK'],
  ['TDIGEST.QUANTILE {new}:t1 0.5', [NaN]],
];

// Booleans and maps of RESP3 as the integers and arrays of RESP2.
function plain(reply) {
  if (typeof reply === 'boolean') return Number(reply);
  if (Array.isArray(reply)) return reply.map(plain);
  return reply !== null && typeof reply === 'object' ? Object.entries(reply).flat() : reply;
}

// A copy of the Bloom filter has the same items.
async function copyFilter(client, from, to) {
  let [iterator, chunk] = await callBinary(client, ['BF.SCANDUMP', from, '0']);
  while (Number(iterator) !== 0) {
    assert.strictEqual(String(await callBinary(client, ['BF.LOADCHUNK', to, String(iterator), chunk])), 'OK');
    [iterator, chunk] = await callBinary(client, ['BF.SCANDUMP', from, String(iterator)]);
  }
  assert.deepStrictEqual(plain(await call(client, ['BF.MEXISTS', to, 'a', 'b', 'none'])), [1, 1, 0]);
}

// The keys are new ones, and are deleted.
module.exports = async (client) => {
  const isProxy = await call(client, ['SCREE', 'MAP']).then(() => true, () => false);
  for (const [line, expected] of CALLS) {
    if (PROXY_ONLY.test(line) && !isProxy) continue;
    const words = Array.isArray(line) ? line : line.split(' ');
    const reply = await call(client, words).catch((error) => error);
    assert.ok(!(reply instanceof Error), `${line}: ${reply}`);
    const isDouble = DOUBLES.test(line); // doubles in RESP3, their text in RESP2
    if (expected !== ANY) assert.deepStrictEqual(isDouble ? [reply].flat().map(number) : plain(reply), isDouble ? [expected].flat() : plain(expected), String(line));
  }
  await copyFilter(client, 'new:bf', 'new:bf2');
  for (const key of await call(client, ['KEYS', '*new*'])) assert.strictEqual(await call(client, ['DEL', key]), 1);
};

module.exports.words = CALLS.map(([line]) => (Array.isArray(line) ? line : line.split(' ')));
