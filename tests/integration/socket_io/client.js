// client.js HOST PORT - acts as two socket.io servers that reach each other's sockets by the adapter for Redis; prints "ok".
//
//   sockets a, b ─► server 0 ─┐                         ┌─ server 1 ◄─ sockets c, d
//                             └► PUBLISH ─► the address ┘► messages of both
'use strict';
const assert = require('assert');
const http = require('http');
const { isDeepStrictEqual } = require('util');
const { Server } = require('socket.io');
const { createAdapter, createShardedAdapter } = require('@socket.io/redis-adapter');
const { io } = require('socket.io-client');
const { createClient } = require('redis');

async function until(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 5));
}

// A server on a free port; `adapter` makes its adapter of two connections, one to publish and one to subscribe.
async function serve(address, adapter) {
  const pair = [0, 1].map(() => createClient({ socket: address }).on('error', () => {}));
  await Promise.all(pair.map((client) => client.connect()));
  const listener = http.createServer();
  const server = new Server(listener, { adapter: adapter(...pair), transports: ['websocket'] });
  server.on('connection', (socket) => {
    socket.data.name = socket.handshake.auth.name;
    socket.on('enter', (room, done) => { socket.join(room); done(); });
  });
  await new Promise((done) => listener.listen(0, '127.0.0.1', done));
  return { server, pair, port: listener.address().port };
}

// A client of the server; `heard` has the text of every message it got.
async function connect({ port }, name) {
  const socket = io(`http://127.0.0.1:${port}`, { transports: ['websocket'], forceNew: true, auth: { name } });
  const heard = [];
  socket.on('text', (text) => heard.push(text));
  socket.on('question', (number, answer) => answer(`${name}${number}`));
  await new Promise((done) => socket.on('connect', done));
  return { socket, heard };
}

const names = (sockets) => sockets.map((socket) => socket.data.name).sort();

// Both servers have subscribed when each sees the sockets of both.
const seen = (servers, count) => until(async () => {
  const lists = await Promise.all(servers.map(({ server }) => server.fetchSockets().catch(() => [])));
  return lists.every((list) => list.length === count);
});

// The sharded adapter subscribes to a channel of each room without waiting for the reply.
const heardRooms = ({ pair: [publisher] }) => until(async () => {
  const found = await publisher.pubSubShardNumSub(['socket.io#/#red#', 'socket.io#/#blue#']);
  return isDeepStrictEqual(Object.values(found).map(Number), [2, 1]);
});

// Every client in `who` hears the text once, and the others hear nothing before the message that ends the step.
async function hears(servers, clients, who, send) {
  send();
  await until(() => clients.every(({ heard }, i) => !who.includes('abcd'[i]) || heard.includes('text')));
  servers.forEach(({ server }, i) => server.emit('text', `end ${i}`));
  await until(() => clients.every(({ heard }) => heard.includes('end 0') && heard.includes('end 1')));
  clients.forEach(({ heard }, i) => {
    assert.strictEqual(heard.filter((text) => text === 'text').length, who.includes('abcd'[i]) ? 1 : 0, `socket ${'abcd'[i]}`);
    heard.length = 0;
  });
}

async function messages(servers, clients) {
  const [zero, one] = servers.map(({ server }) => server);
  await hears(servers, clients, 'abcd', () => zero.emit('text', 'text'));
  await hears(servers, clients, 'bc', () => zero.to('red').emit('text', 'text'));
  await hears(servers, clients, 'bcd', () => one.to('red').to('blue').emit('text', 'text'));
  await hears(servers, clients, 'ad', () => one.except('red').emit('text', 'text'));
  await hears(servers, clients, 'b', () => one.to(clients[1].socket.id).emit('text', 'text'));
  await hears(servers, clients, 'acd', () => zero.sockets.sockets.get(clients[1].socket.id).broadcast.emit('text', 'text'));
  const answers = await zero.timeout(60000).emitWithAck('question', 1);
  assert.deepStrictEqual(answers.sort(), ['a1', 'b1', 'c1', 'd1']);
}

async function rooms([{ server: zero }, { server: one }]) {
  assert.deepStrictEqual(names(await zero.fetchSockets()), ['a', 'b', 'c', 'd']);
  assert.deepStrictEqual(names(await zero.in('red').fetchSockets()), ['b', 'c']);
  assert.deepStrictEqual(names(await one.in('red').fetchSockets()), ['b', 'c']);
  assert.deepStrictEqual(names(await one.in('none').fetchSockets()), []);
  zero.in('blue').socketsJoin('green');
  one.in('red').socketsJoin('green');
  await until(async () => names(await zero.in('green').fetchSockets()).join('') === 'bcd');
  zero.in('red').socketsLeave('green');
  await until(async () => names(await one.in('green').fetchSockets()).join('') === 'd');
  one.on('sum', (a, b, answer) => answer(a + b));
  assert.deepStrictEqual(await zero.serverSideEmitWithAck('sum', 1, 2), [3]);
}

async function session(address, adapter) {
  const servers = [await serve(address, adapter), await serve(address, adapter)];
  const clients = await Promise.all([...'abcd'].map((name, i) => connect(servers[i >> 1], name)));
  const enter = (i, room) => clients[i].socket.emitWithAck('enter', room);
  await Promise.all([enter(1, 'red'), enter(2, 'red'), enter(3, 'blue')]);
  await seen(servers, 4);
  if (adapter === createShardedAdapter) await heardRooms(servers[0]);
  await messages(servers, clients);
  await rooms(servers);
  servers[0].server.in(clients[3].socket.id).disconnectSockets(true);
  await until(() => clients[3].socket.disconnected);
  await seen(servers, 3);
  clients.forEach(({ socket }) => socket.close());
  await Promise.all(servers.map(({ server }) => server.close()));
  await Promise.all(servers.flatMap(({ pair }) => pair.map((client) => client.close())));
}

async function main(host, port) {
  await session({ host, port }, createAdapter);
  await session({ host, port }, createShardedAdapter);
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).then(() => process.exit(0), (error) => { // the timer of the question runs on
  console.error(error);
  process.exit(1);
});
