// later.js - the commands and options of Redis after 7.0, of Valkey, of Kvrocks and of RedisBloom, called as ioredis calls any command.
'use strict';
const assert = require('assert');

const ANY = Symbol('any'); // any reply but an error
const DOUBLES = /WITHSCORE|TDIGEST.(QUANTILE|CDF|BYRANK|BYREVRANK)/;
const number = (text) => Number(String(text).replace('inf', 'Infinity'));
const FAR = '4102444800';

// [words, reply]
const CALLS = [
  // Redis 7.2
  ['CLIENT NO-TOUCH off', 'OK'],
  ['CLIENT SETINFO LIB-NAME later', 'OK'],
  ['CLUSTER MYSHARDID', ANY],
  ['WAITAOF 0 0 0', ANY],
  ['ZADD io:lz 1.5 a 2 b', 2],
  ['ZRANK io:lz b WITHSCORE', [1, 2]],
  ['ZREVRANK io:lz b WITHSCORE', [0, 2]],
  // Redis 7.4
  ['HSET io:lh a 1 b 2 c 3', 3],
  [`HEXPIREAT io:lh ${FAR} FIELDS 2 a none`, [1, -2]],
  [`HPEXPIREAT io:lh ${FAR}000 FIELDS 1 b`, [1]],
  ['HEXPIRE io:lh 1000 XX FIELDS 1 c', [0]],
  ['HPEXPIRE io:lh 1000000 NX FIELDS 1 c', [1]],
  ['HEXPIRETIME io:lh FIELDS 2 a none', [Number(FAR), -2]],
  ['HPEXPIRETIME io:lh FIELDS 1 b', [Number(FAR) * 1000]],
  ['HTTL io:lh FIELDS 1 none', [-2]],
  ['HPTTL io:lh FIELDS 1 none', [-2]],
  ['HPERSIST io:lh FIELDS 3 a b c', [1, 1, 1]],
  ['HSCAN io:lh 0 NOVALUES', ['0', ['a', 'b', 'c']]],
  ['CLIENT KILL MAXAGE 1000000', 0],
  // Redis 8.0
  ['HSETEX io:lh EX 1000 FIELDS 1 d 4', 1],
  ['HGETEX io:lh PERSIST FIELDS 2 d none', ['4', null]],
  ['HGETDEL io:lh FIELDS 2 d none', ['4', null]],
  // Redis 8.2
  ['SET {io}:b1 a', 'OK'],
  ['SET {io}:b2 b', 'OK'],
  ['BITOP DIFF {io}:b3 {io}:b1 {io}:b2', 1],
  ['BITOP DIFF1 {io}:b3 {io}:b1 {io}:b2', 1],
  ['BITOP ANDOR {io}:b3 {io}:b1 {io}:b2', 1],
  ['BITOP ONE {io}:b3 {io}:b1 {io}:b2', 1],
  ['XADD io:lx 1-0 f v', '1-0'],
  ['XADD io:lx 2-0 f v', '2-0'],
  ['XADD io:lx 3-0 f v', '3-0'],
  ['XADD io:lx 4-0 f v', '4-0'],
  ['XGROUP CREATE io:lx g 0', 'OK'],
  ['XREADGROUP GROUP g c COUNT 3 STREAMS io:lx >', ANY],
  ['XACKDEL io:lx g ACKED IDS 1 1-0', [1]],
  ['XDELEX io:lx ACKED IDS 2 2-0 9-0', [2, -1]],
  ['XDELEX io:lx DELREF IDS 1 2-0', [1]],
  ['XADD io:lx MAXLEN = 1 ACKED 5-0 f v', '5-0'],
  ['XTRIM io:lx MAXLEN = 2 DELREF', 1],
  ['XPENDING io:lx g', [0, null, null, null]],
  // Redis 8.4
  ['XREADGROUP GROUP g c CLAIM 0 COUNT 1 STREAMS io:lx >', ANY],
  ['MSETEX 2 io:l1 a io:l2 b EX 100', 1],
  ['SET io:l1 x IFEQ other', null],
  [['SET', 'io:l1', 'Hello world', 'IFNE', 'other'], 'OK'],
  ['DIGEST io:l1', 'b6acb9d84a38ff74'],
  ['SET io:l1 y IFDEQ b6acb9d84a38ff74', 'OK'],
  ['SET io:l1 z IFDNE b6acb9d84a38ff74', 'OK'],
  ['DELEX io:l1 IFEQ none', 0],
  ['DELEX io:l1 IFEQ z', 1],
  // Redis 8.8 and 8.10
  ['INCREX io:l1 BYINT 5 EX 100', [5, 5]],
  ['SADD io:s1 a b', 2],
  ['SADD io:s2 b c', 2],
  ['SUNIONCARD 2 io:s1 io:s2', 3],
  ['SDIFFCARD 2 io:s1 io:s2', 1],
  // Valkey 8.0 to 9.0
  ['CLIENT CAPA redirect', 'OK'],
  ['EVAL return(1) 0', 1],
  ['SCRIPT SHOW 930269f31393d0be681588b6ab08dccee7d6bb67', 'return(1)'],
  ['ZSCAN io:lz 0 NOSCORES', ['0', ['a', 'b']]],
  ['CLIENT LIST NOT-DB 0 NAME none', ''],
  ['COMMANDLOG LEN large-request', ANY],
  ['COMMANDLOG GET -1 slow', ANY],
  ['COMMANDLOG RESET large-reply', 'OK'],
  ['DELIFEQ io:l2 none', 0],
  ['DELIFEQ io:l2 b', 1],
  ['GEOADD io:lg 13.361389 38.115556 Palermo 15.087269 37.502669 Catania', 2],
  ['GEOSEARCH io:lg BYPOLYGON 3 13 38 14 38 13.5 39', ['Palermo']],
  ['GEOSEARCHSTORE io:ld io:lg BYPOLYGON 3 13 38 14 38 13.5 39', 1],
  // Kvrocks
  ['CAS io:none a b', -1],
  ['CAD io:none a', -1],
  ['HRANGEBYLEX io:lh [b + LIMIT 0 1', ['b', '2']],
  ['MPUBLISH io:nobody a b', 0],
  ['DISK USAGE io:lh', ANY],
  ['NAMESPACE CURRENT', '__namespace'],
  ['JSON.SET io:lj $ {}', 'OK'],
  ['JSON.INFO io:lj', ['storage_format', 'json']],
  // RedisBloom
  ['BF.RESERVE io:bf 0.001 100 EXPANSION 4', 'OK'],
  ['BF.ADD io:bf a', true],
  ['BF.MADD io:bf a b', [false, true]],
  ['BF.INSERT io:bf NOCREATE ITEMS b c', [false, true]],
  ['BF.EXISTS io:bf none', false],
  ['BF.MEXISTS io:bf a none', [true, false]],
  ['BF.CARD io:bf', 3],
  ['BF.INFO io:bf CAPACITY', [100]],
  ['BF.INFO io:bf', ANY],
  ['CMS.INITBYDIM {io}:cms 1000 5', 'OK'],
  ['CMS.INITBYPROB {io}:cms2 0.002 0.04', 'OK'],
  ['CMS.INCRBY {io}:cms a 3 b 1', [3, 1]],
  ['CMS.INCRBY {io}:cms2 a 5', [5]],
  ['CMS.MERGE {io}:cms 2 {io}:cms {io}:cms2 WEIGHTS 2 1', 'OK'],
  ['CMS.QUERY {io}:cms a b none', [11, 2, 0]],
  ['CMS.INFO {io}:cms', ['width', 1000, 'depth', 5, 'count', 13]],
  ['TOPK.RESERVE io:top 2 1000 5 0.5', 'OK'],
  ['TOPK.ADD io:top a b a c', [null, null, null, 'b']],
  ['TOPK.INCRBY io:top d 5 a 1', ['c', null]],
  ['TOPK.QUERY io:top a none', [true, false]],
  ['TOPK.COUNT io:top a none', [3, 0]],
  ['TOPK.LIST io:top', ['d', 'a']],
  ['TOPK.LIST io:top WITHCOUNT', ['d', 5, 'a', 3]],
  ['TOPK.INFO io:top', ANY],
  ['TDIGEST.CREATE {io}:t1 COMPRESSION 50', 'OK'],
  ['TDIGEST.ADD {io}:t1 1 2 2 3', 'OK'],
  ['TDIGEST.MERGE {io}:t2 2 {io}:t1 {io}:t1', 'OK'],
  ['TDIGEST.QUANTILE {io}:t2 0 0.5 1', [1, 2, 3]],
  ['TDIGEST.CDF {io}:t2 0 2 5', [0, 0.5, 1]],
  ['TDIGEST.BYRANK {io}:t2 0 8', [1, Infinity]],
  ['TDIGEST.BYREVRANK {io}:t2 0 8', [3, -Infinity]],
  ['TDIGEST.RANK {io}:t2 0 2 9', [-1, 4, 8]],
  ['TDIGEST.REVRANK {io}:t2 0 2 9', [8, 4, -1]],
  ['TDIGEST.INFO {io}:t2', ANY],
  ['TDIGEST.RESET {io}:t1', 'OK'],
  ['TDIGEST.QUANTILE {io}:t1 0.5', [NaN]],
];

// Booleans and maps of RESP3 as the integers and arrays of RESP2.
function plain(reply) {
  if (typeof reply === 'boolean') return Number(reply);
  if (Array.isArray(reply)) return reply.map(plain);
  return reply !== null && typeof reply === 'object' ? Object.entries(reply).flat() : reply;
}

async function later(redis) {
  for (const [line, expected] of CALLS) {
    const words = Array.isArray(line) ? line : line.split(' ');
    const reply = await redis.call(...words).catch((error) => error);
    assert.ok(!(reply instanceof Error), `${line}: ${reply}`);
    const isDouble = DOUBLES.test(line); // doubles in RESP3, their text in RESP2
    if (expected !== ANY) assert.deepStrictEqual(isDouble ? reply.map(number) : plain(reply), plain(expected), String(line));
  }
  await redis.del('io:lz', 'io:lh', '{io}:b1', '{io}:b2', '{io}:b3', '{io}:t1', '{io}:t2', 'io:lx', 'io:l1', 'io:s1', 'io:s2', 'io:lg', 'io:ld', 'io:lj',
    'io:bf', '{io}:cms', '{io}:cms2', 'io:top');
}

module.exports = later;
