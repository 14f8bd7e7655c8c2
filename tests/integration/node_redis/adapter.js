// adapter.js - what the scripts in ../node need of node-redis.
'use strict';
const { createClient, createCluster, RESP_TYPES } = require('redis');

exports.connect = (socket, onError) => createClient({ socket }).on('error', onError).connect();
exports.close = (client) => client.destroy();
exports.getAll = (client, keys) => client.mGet(keys);
exports.exec = (multi) => multi.exec();
exports.call = (client, words) => client.sendCommand(words);
exports.callBinary = (client, words) => client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).sendCommand(words);

// A client that knows Redis Cluster; with isReader it reads at replicas.
exports.connectCluster = ({ host, port }, isReader) => {
  const cluster = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }], useReplicas: isReader });
  return cluster.on('error', () => {}).connect();
};
exports.closeCluster = (cluster) => cluster.destroy();
