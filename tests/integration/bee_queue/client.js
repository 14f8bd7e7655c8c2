// client.js HOST PORT - acts as a bee-queue application with its default prefix, so the keys of a queue lie on all shards; prints "ok".
'use strict';
const assert = require('assert');
const Queue = require('bee-queue');

const JOBS = 200;

async function until(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 5));
}

const ended = (job) => new Promise((done, fail) => job.on('succeeded', done).on('failed', fail));

// Saves the job after its listeners are set, so that no event can come too early, and waits for its end.
async function saved(job) {
  const end = ended(job);
  await job.save();
  return end;
}

async function counts(queue) {
  const { waiting, active, succeeded, failed, delayed } = await queue.checkHealth();
  return { waiting, active, succeeded, failed, delayed };
}

const none = { waiting: 0, active: 0, succeeded: 0, failed: 0, delayed: 0 };

async function closeEmptied(queue) {
  await queue.destroy();
  assert.deepStrictEqual(await queue.checkHealth(), { ...none, newestJob: 0 });
  await queue.close();
}

async function processes(redis) {
  const queue = new Queue('sums', { redis });
  await queue.ready();
  const jobs = [...Array(JOBS).keys()].map((n) => queue.createJob({ n }));
  const ends = Promise.all(jobs.map(ended));
  assert.strictEqual((await queue.saveAll(jobs)).size, 0);
  assert.deepStrictEqual(await counts(queue), { ...none, waiting: JOBS });
  assert.strictEqual((await queue.getJobs('waiting', { start: 0, end: JOBS })).length, JOBS);
  queue.process(10, async (job) => job.data.n * 2);
  assert.deepStrictEqual(await ends, jobs.map((job, n) => n * 2));
  assert.deepStrictEqual(await queue.checkHealth(), { ...none, succeeded: JOBS, newestJob: JOBS });
  const found = await queue.getJob(jobs[7].id);
  assert.deepStrictEqual([found.data, found.status], [{ n: 7 }, 'succeeded']);
  assert.strictEqual(await found.isInSet('succeeded'), true);
  assert.strictEqual((await queue.getJobs('succeeded', { size: JOBS })).length, JOBS);
  await queue.removeJob(found.id);
  assert.strictEqual(await queue.getJob(found.id), null);
  assert.deepStrictEqual(await counts(queue), { ...none, succeeded: JOBS - 1 });

  assert.strictEqual(await saved(queue.createJob({ n: 4 }).setId('given')), 8);
  assert.strictEqual((await queue.createJob({ n: 5 }).setId('given').save()).id, null);
  await closeEmptied(queue);
}

async function retries(redis) {
  const queue = new Queue('retries', { redis, activateDelayedJobs: true, delayedDebounce: 10 });
  await queue.ready();
  const tried = {};
  queue.process(async (job) => {
    const { name, failures } = job.data;
    tried[name] = (tried[name] || 0) + 1;
    if (tried[name] <= failures) throw new Error('not yet');
    return tried[name];
  });
  const retrying = [];
  const job = queue.createJob({ name: 'at once', failures: 2 }).retries(2);
  job.on('retrying', (error) => retrying.push(error.message));
  assert.strictEqual(await saved(job), 3);
  assert.deepStrictEqual(retrying, ['not yet', 'not yet']);
  assert.strictEqual(await saved(queue.createJob({ name: 'later', failures: 2 }).retries(2).backoff('fixed', 20)), 3);
  const bad = queue.createJob({ name: 'by hand', failures: 2 }).retries(1);
  await assert.rejects(saved(bad), /not yet/);
  assert.deepStrictEqual(await counts(queue), { ...none, succeeded: 2, failed: 1 });
  const again = ended(bad);
  await bad.retry();
  queue.jobs.set(bad.id, bad); // the queue forgets the listeners of a job that has failed
  assert.strictEqual(await again, 3);
  await closeEmptied(queue);
}

async function delays(redis) {
  const queue = new Queue('delays', { redis, activateDelayedJobs: true, delayedDebounce: 10 });
  await queue.ready();
  queue.process(async (job) => job.data.name);
  const far = await queue.createJob({ name: 'far' }).delayUntil(Date.now() + 3600000).save();
  assert.deepStrictEqual(await counts(queue), { ...none, delayed: 1 });
  assert.strictEqual(await saved(queue.createJob({ name: 'near' }).delayUntil(Date.now() + 50)), 'near');
  assert.deepStrictEqual((await queue.getJobs('delayed', { start: 0, end: 10 })).map((job) => job.id), [far.id]);
  await far.remove();
  assert.deepStrictEqual(await counts(queue), { ...none, succeeded: 1 });
  await closeEmptied(queue);
}

// The worker and the queue that adds jobs have connections of their own.
async function progress(redis) {
  const queue = new Queue('progress', { redis, isWorker: false });
  const worker = new Queue('progress', { redis, getEvents: false });
  await Promise.all([queue.ready(), worker.ready()]);
  const heard = [];
  const steps = [];
  queue.on('job progress', (id, step) => heard.push(step));
  queue.on('job succeeded', (id, result) => heard.push(result));
  worker.process(async (job) => {
    for (let step = 1; step <= 20; step++) await job.reportProgress({ step });
    return 'whole';
  });
  const job = queue.createJob({});
  job.on('progress', ({ step }) => steps.push(step));
  assert.strictEqual(await saved(job), 'whole');
  assert.deepStrictEqual(steps, [...Array(20).keys()].map((n) => n + 1));
  assert.deepStrictEqual(heard, [...steps.map((step) => ({ step })), 'whole']);
  assert.deepStrictEqual((await queue.getJob(job.id)).progress, { step: 20 });
  await worker.close();
  await closeEmptied(queue);
}

// A worker takes jobs and goes away with them; the check of another puts them back into the list.
async function stalls(redis) {
  const settings = { redis, stallInterval: 100 };
  const dead = new Queue('stalls', settings);
  const queue = new Queue('stalls', settings);
  await Promise.all([dead.ready(), queue.ready()]);
  let taken = 0;
  dead.process(3, () => { taken++; return new Promise(() => {}); });
  const jobs = [1, 2, 3].map((n) => queue.createJob({ n }));
  const ends = Promise.all(jobs.map(ended));
  assert.strictEqual((await queue.saveAll(jobs)).size, 0);
  await until(() => taken === 3);
  assert.deepStrictEqual(await counts(queue), { ...none, active: 3 });
  await assert.rejects(dead.close(1), /timed out/);

  const stalled = [];
  queue.on('stalled', (id) => stalled.push(id));
  let sum = 0;
  await until(async () => (sum += await queue.checkStalledJobs()) === 3);
  assert.deepStrictEqual(stalled.sort(), jobs.map((job) => job.id).sort());
  assert.deepStrictEqual(await counts(queue), { ...none, waiting: 3 });
  queue.process(3, async (job) => job.data.n * 10);
  assert.deepStrictEqual(await ends, [10, 20, 30]);
  assert.deepStrictEqual(await counts(queue), { ...none, succeeded: 3 });
  await closeEmptied(queue);
}

async function main(host, port) {
  for (const part of [processes, retries, delays, progress, stalls]) await part({ host, port });
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).then(() => process.exit(0), (error) => { // promises of the dead worker are pending
  console.error(error);
  process.exit(1);
});
