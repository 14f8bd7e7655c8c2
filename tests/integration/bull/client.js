// client.js HOST PORT - acts as a Bull application with its default prefix, so the keys of a queue lie on all shards; prints "ok".
'use strict';
const assert = require('assert');
const { isDeepStrictEqual } = require('util');
const Queue = require('bull');

const JOBS = 50;

async function until(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 5));
}

const counts = async (queue) => {
  const { waiting, active, completed, failed, delayed, paused } = await queue.getJobCounts();
  return { waiting, active, completed, failed, delayed, paused };
};

const none = { waiting: 0, active: 0, completed: 0, failed: 0, delayed: 0, paused: 0 };

async function closeEmptied(queue) {
  await queue.obliterate({ force: true });
  assert.deepStrictEqual(await counts(queue), none);
  await queue.close();
}

async function processes(redis) {
  const queue = new Queue('mail', { redis });
  const progress = [];
  queue.setMaxListeners(0); // waiting for a job adds a listener
  queue.on('global:progress', (id, percent) => progress.push(percent));
  queue.process(10, async (job) => {
    await job.progress(50);
    await job.log(`at ${job.data.n}`);
    return { doubled: job.data.n * 2 };
  });
  const added = await queue.addBulk([...Array(JOBS).keys()].map((n) => ({ data: { n } })));
  const results = await Promise.all(added.map((job) => job.finished()));
  assert.deepStrictEqual(results, [...Array(JOBS).keys()].map((n) => ({ doubled: 2 * n })));
  const one = await queue.add({ n: 21 });
  assert.deepStrictEqual(await one.finished(), { doubled: 42 });
  await until(() => progress.length === JOBS + 1);
  assert.deepStrictEqual((await queue.getJobLogs(one.id)).logs, ['at 21']);
  assert.deepStrictEqual((await queue.getJob(one.id)).returnvalue, { doubled: 42 });
  const same = await queue.add({ n: 1 }, { jobId: 'only-one' });
  assert.strictEqual((await queue.add({ n: 2 }, { jobId: 'only-one' })).id, same.id);
  assert.deepStrictEqual(await same.finished(), { doubled: 2 });
  assert.deepStrictEqual(await counts(queue), { ...none, completed: JOBS + 2 });
  await closeEmptied(queue);
}

async function retries(redis) {
  const queue = new Queue('retries', { redis });
  const tried = {};
  queue.process('*', async (job) => {
    tried[job.name] = (tried[job.name] || 0) + 1;
    if (tried[job.name] < 3) throw new Error('not yet');
    return tried[job.name];
  });
  const later = await queue.add('by itself', {}, { attempts: 3, backoff: { type: 'fixed', delay: 10 } });
  assert.strictEqual(await later.finished(), 3);
  const bad = await queue.add('by hand', {});
  await assert.rejects(bad.finished(), /not yet/);
  assert.strictEqual(await bad.getState(), 'failed');
  assert.deepStrictEqual((await queue.getFailed()).map((job) => job.failedReason), ['not yet']);
  await bad.retry();
  await until(async () => tried['by hand'] === 2 && (await bad.getState()) === 'failed');
  await (await queue.getJob(bad.id)).retry();
  await until(async () => (await bad.getState()) === 'completed');
  assert.deepStrictEqual(await counts(queue), { ...none, completed: 2 });
  await closeEmptied(queue);
}

async function delays(redis) {
  const queue = new Queue('delays', { redis, settings: { guardInterval: 50 } });
  const ran = [];
  const far = await queue.add('far', {}, { delay: 3600000 });
  const given = await queue.add('promoted', {}, { delay: 3600000 });
  const near = await queue.add('near', {}, { delay: 50 });
  assert.strictEqual(await far.getState(), 'delayed');
  queue.process('*', async (job) => { ran.push(job.name); });
  await near.finished();
  await given.promote();
  await given.finished();
  assert.deepStrictEqual(ran, ['near', 'promoted']);
  assert.deepStrictEqual(await counts(queue), { ...none, delayed: 1, completed: 2 });
  await far.remove();
  assert.strictEqual(await queue.getJob(far.id), null);
  await queue.add('tick', {}, { repeat: { every: 50 } });
  await until(() => ran.filter((name) => name === 'tick').length >= 3);
  const [{ key }] = await queue.getRepeatableJobs();
  await queue.removeRepeatableByKey(key);
  assert.deepStrictEqual(await queue.getRepeatableJobs(), []);
  await closeEmptied(queue);
}

async function pauses(redis) {
  const queue = new Queue('pauses', { redis });
  const ran = [];
  await queue.pause();
  assert.strictEqual(await queue.isPaused(), true);
  queue.process('*', async (job) => { ran.push(job.name); });
  for (const priority of [3, 1, 2]) await queue.add(`p${priority}`, {}, { priority });
  await queue.add('last out', {}, { priority: 4 });
  assert.deepStrictEqual(await counts(queue), { ...none, paused: 4 });
  assert.deepStrictEqual((await queue.getWaiting()).map((job) => job.name).sort(), ['last out', 'p1', 'p2', 'p3']);
  assert.deepStrictEqual(ran, []);
  await queue.resume();
  await until(async () => (await queue.getCompletedCount()) === 4);
  assert.deepStrictEqual(ran, ['p1', 'p2', 'p3', 'last out']);
  assert.strictEqual(await queue.isPaused(), false);
  await closeEmptied(queue);
}

async function cleans(redis) {
  const queue = new Queue('cleans', { redis });
  const bulk = (name, count) => queue.addBulk([...Array(count).keys()].map((n) => ({ name, data: { n } })));
  const added = await bulk('waits', 50);
  assert.strictEqual(await queue.count(), 50);
  assert.deepStrictEqual((await queue.clean(-1000, 'wait')).sort(), added.map((job) => job.id).sort());
  assert.deepStrictEqual(await counts(queue), none);

  queue.process('*', 20, async (job) => {
    if (job.name === 'fails') throw new Error('never');
  });
  await Promise.all([bulk('works', 300), bulk('fails', 30)]);
  await until(async () => isDeepStrictEqual(await counts(queue), { ...none, completed: 300, failed: 30 }));
  assert.strictEqual((await queue.clean(-1000, 'failed', 20)).length, 20);
  assert.deepStrictEqual(await counts(queue), { ...none, completed: 300, failed: 10 });
  const cleaned = await queue.clean(-1000, 'completed');
  assert.strictEqual(new Set(cleaned).size, 300);
  assert.strictEqual(await queue.getJob(cleaned[0]), null);
  assert.deepStrictEqual(await queue.clean(3600000, 'failed'), []);
  assert.deepStrictEqual(await counts(queue), { ...none, failed: 10 });
  await queue.removeJobs('*');
  assert.deepStrictEqual(await counts(queue), none);
  await closeEmptied(queue);
}

async function main(host, port) {
  for (const part of [processes, retries, delays, pauses, cleans]) await part({ host, port });
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
