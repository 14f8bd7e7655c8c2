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

// Calls the method of the command, if ioredis has one.
exports.call = (redis, words) => {
  const method = redis[words[0].toLowerCase()];
  return typeof method === 'function' ? method.apply(redis, words.slice(1)) : redis.call(...words);
};
exports.callBinary = (redis, words) => redis.sendCommand(new Redis.Command(words[0], words.slice(1)));

// A client that knows Redis Cluster; with isReader it reads at replicas.
exports.connectCluster = async ({ host, port }, isReader) => {
  const cluster = new Redis.Cluster([{ host, port }], { scaleReads: isReader ? 'slave' : 'master' });
  return cluster.on('error', () => {});
};
exports.closeCluster = (cluster) => cluster.disconnect();
