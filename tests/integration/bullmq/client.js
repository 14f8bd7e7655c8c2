// client.js HOST PORT - acts as a BullMQ application: jobs of every kind, workers, events; prints "ok".
'use strict';
const assert = require('assert');
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq');

const JOBS = 200;

async function until(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 5));
}

async function jobs(options) {
  const queue = new Queue('mail', options);
  queue.setMaxListeners(0); // waiting for a job adds a listener
  const events = new QueueEvents('mail', options);
  const tried = {};
  const order = [];
  const worker = new Worker('mail', async (job) => {
    tried[job.name] = (tried[job.name] || 0) + 1;
    order.push(job.name);
    await job.updateProgress(50);
    await job.log(`at ${job.name}`);
    if (job.name === 'fails twice' && tried[job.name] < 3) throw new Error('not yet');
    if (job.name === 'fails') throw new Error('never');
    return { doubled: job.data.n * 2 };
  }, { ...options, concurrency: 10 });
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady(), worker.waitUntilReady()]);

  const added = await queue.addBulk([...Array(JOBS).keys()].map((n) => ({ name: `job ${n}`, data: { n } })));
  const results = await Promise.all(added.map((job) => job.waitUntilFinished(events)));
  assert.deepStrictEqual(results, [...Array(JOBS).keys()].map((n) => ({ doubled: 2 * n })));
  assert.strictEqual(new Set(order).size, JOBS);

  const later = await queue.add('later', { n: 1 }, { delay: 50 });
  assert.ok(['delayed', 'waiting', 'active', 'completed'].includes(await later.getState()));
  assert.deepStrictEqual(await later.waitUntilFinished(events), { doubled: 2 });
  const again = await queue.add('fails twice', { n: 3 }, { attempts: 3, backoff: { type: 'fixed', delay: 10 } });
  assert.deepStrictEqual(await again.waitUntilFinished(events), { doubled: 6 });
  assert.strictEqual(tried['fails twice'], 3);
  const bad = await queue.add('fails', { n: 0 });
  await assert.rejects(bad.waitUntilFinished(events), /never/);
  assert.strictEqual(await bad.getState(), 'failed');
  const { logs } = await queue.getJobLogs(bad.id);
  assert.deepStrictEqual(logs, ['at fails']);
  const same = await queue.add('once', { n: 1 }, { jobId: 'only-one' });
  assert.strictEqual((await queue.add('once', { n: 1 }, { jobId: 'only-one' })).id, same.id);
  await until(async () => (await queue.getJobCounts('completed', 'failed')).completed === JOBS + 3);
  const { active, waiting, delayed, failed } = await queue.getJobCounts();
  assert.deepStrictEqual([active, waiting, delayed, failed], [0, 0, 0, 1]);
  await bad.retry();
  await until(async () => (await queue.getFailedCount()) === 1 && tried.fails === 2);
  await worker.close();

  await queue.addBulk([3, 1, 2].map((priority) => ({ name: `p${priority}`, data: { n: 0 }, opts: { priority } })));
  await queue.pause();
  assert.strictEqual(await queue.isPaused(), true);
  await queue.resume();
  const ranked = [];
  const single = new Worker('mail', async (job) => ranked.push(job.name), options);
  await until(() => ranked.length === 3);
  assert.deepStrictEqual(ranked, ['p1', 'p2', 'p3']);
  await single.close();
  await queue.obliterate({ force: true });
  assert.strictEqual((await queue.getJobs()).length, 0);
  await events.close();
  await queue.close();
}

async function flows(options) {
  const seen = [];
  const worker = new Worker('steps', async (job) => {
    seen.push(job.name);
    if (job.name !== 'whole') return job.data.n;
    return Object.values(await job.getChildrenValues()).reduce((sum, n) => sum + n, 0);
  }, options);
  const events = new QueueEvents('steps', options);
  const flow = new FlowProducer(options);
  await Promise.all([worker.waitUntilReady(), events.waitUntilReady()]);
  const tree = await flow.add({ name: 'whole', queueName: 'steps',
    children: [1, 2, 3].map((n) => ({ name: `part ${n}`, queueName: 'steps', data: { n } })) });
  assert.strictEqual(await tree.job.waitUntilFinished(events), 6);
  assert.strictEqual(seen[3], 'whole');
  const queue = new Queue('steps', options);
  await queue.upsertJobScheduler('tick', { every: 20 }, { name: 'tick', data: { n: 1 } });
  await until(() => seen.filter((name) => name === 'tick').length >= 3);
  assert.strictEqual(await queue.removeJobScheduler('tick'), true);
  await worker.close();
  await queue.obliterate({ force: true });
  await Promise.all([queue.close(), events.close(), flow.close()]);
}

async function main(host, port) {
  const options = { connection: { host, port, maxRetriesPerRequest: null }, prefix: '{bull}' }; // one shard, because its scripts use several keys
  await jobs(options);
  await flows(options);
  console.log('ok');
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
