'use strict';

// An S3 server (s3rver) with faults, on a port of its own choice, which it prints:  node server.js FOLDER
//
//   rclone ──► fault? ──► s3rver ──► FOLDER
//
// GET /fault?kind=busy&share=0.5   a random half of the requests gets 503 SlowDown
//            kind=torn             of a random half of the uploads the connection breaks in the middle of the body
//            kind=kept             who asks may not delete (403), except with the user agent "other keys"
//            path=.sst             only of requests with this in their path
//            kind=none             no faults; each answer is how many there were since the last one
const fs = require('fs');
const http = require('http');
const S3rver = require('s3rver');

const folder = process.argv[2];
fs.mkdirSync(folder, { recursive: true });
const s3 = new S3rver({ directory: folder, silent: true, configureBuckets: [{ name: 'bucket' }] });

// s3rver leaves out a common prefix below which there are only deeper ones: group all keys instead.
function mendListing(store) {
  const listAll = store.listObjects.bind(store);
  store.listObjects = async (bucket, { delimiter = '', maxKeys = Infinity, prefix = '', startAfter = '' }) => {
    const { objects } = await listAll(bucket, { prefix, startAfter });
    const groupOf = key => (delimiter && key.includes(delimiter, prefix.length) ? key.slice(0, key.indexOf(delimiter, prefix.length) + delimiter.length) : '');
    const plain = objects.filter(object => !groupOf(object.key));
    const groups = new Set(objects.map(object => groupOf(object.key)).filter(group => group));
    return { objects: plain.slice(0, maxKeys), commonPrefixes: [...groups].sort(), isTruncated: plain.length > maxKeys };
  };
}

mendListing(s3.store);

let fault = { kind: 'none' };
let faults = 0;

function setFault(request, response) {
  const words = new URL(request.url, 'http://localhost').searchParams;
  fault = { kind: words.get('kind'), share: Number(words.get('share') || 1), path: words.get('path') || '' };
  response.end(`${faults}\n`);
  faults = 0;
}

function isRefused(request) {
  const deletes = request.method === 'DELETE' || (request.method === 'POST' && request.url.includes('?delete'));
  return deletes && request.headers['user-agent'] !== 'other keys';
}

function isBroken(request) {
  const isMeant = fault.kind === 'busy' || (fault.kind === 'kept' && isRefused(request)) || (fault.kind === 'torn' && request.method === 'PUT');
  return isMeant && request.url.includes(fault.path) && Math.random() < fault.share;
}

function breakIt(request, response) {
  faults += 1;
  if (fault.kind === 'torn') {
    const hasBody = Number(request.headers['content-length']) !== 0; // a copy within the store has none
    if (hasBody) request.once('data', () => request.socket.destroy());
    else request.socket.destroy();
    return;
  }
  request.resume();
  const [status, code, message] = fault.kind === 'kept' ? [403, 'AccessDenied', 'Access Denied'] : [503, 'SlowDown', 'Reduce your request rate.'];
  response.writeHead(status, { 'Content-Type': 'application/xml' });
  response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
}

s3.configureBuckets().then(() => {
  const serve = s3.callback();
  const server = http.createServer((request, response) => {
    if (request.url.startsWith('/fault?')) setFault(request, response);
    else if (isBroken(request)) breakIt(request, response);
    else serve(request, response);
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
});
