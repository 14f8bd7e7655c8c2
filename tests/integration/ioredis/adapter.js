// adapter.js - what the scripts in ../node need of ioredis.
'use strict';
const Redis = require('ioredis');

exports.connect = async ({ host, port }, onError) => new Redis(port, host).on('error', onError);
exports.close = (redis) => redis.disconnect();
exports.getAll = (redis, keys) => redis.mget(keys);

exports.exec = async (multi) => (await multi.exec()).map(([error, reply]) => {
  if (error) throw error;
  return reply;
});
