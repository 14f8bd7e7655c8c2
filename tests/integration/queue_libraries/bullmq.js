// bullmq.js HOST PORT JOBS - what an application asks of BullMQ, with its default prefix; prints {step: seconds} as JSON.
'use strict';
const assert = require('assert');
const { Queue, Worker } = require('bullmq');
const { steps, atOnce } = require('./steps');

const [host, port, jobs] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const connection = { host, port };

// Works until all jobs of the queue are completed.
async function work(queue, count, concurrency) {
  const before = await queue.getCompletedCount();
  const worker = new Worker(queue.name, async (job) => job.data.n * 2, { connection, concurrency });
  let done = 0;
  await new Promise((resolve, reject) => {
    worker.on('completed', () => ++done === count && resolve());
    worker.on('failed', (_job, error) => reject(error));
  });
  await worker.close();
  assert.strictEqual(await queue.getCompletedCount(), before + count);
}

const numbered = (count) => [...Array(count).keys()].map((n) => ({ name: 'job', data: { n } }));

steps(async (step) => {
  const queue = new Queue('mail', { connection });
  const ranked = new Queue('ranked', { connection });
  await Promise.all([queue.waitUntilReady(), ranked.waitUntilReady()]);
  await step('add, one by one', async () => { for (const { data } of numbered(jobs)) await queue.add('job', data); });
  await step('process, one by one', () => work(queue, jobs, 1));
  await step('add, 50 at once', () => atOnce(50, numbered(jobs), ({ data }) => queue.add('job', data)));
  await step('addBulk', () => queue.addBulk(numbered(jobs)));
  await step('process, 50 at once', () => work(queue, 2 * jobs, 50));
  await step('clean', async () => assert.strictEqual((await queue.clean(0, 3 * jobs, 'completed')).length, 3 * jobs));
  await ranked.pause();
  await ranked.addBulk(numbered(2 * jobs).map((job) => ({ ...job, opts: { priority: 1 + job.data.n % 5 } })));
  await step('resume', () => ranked.resume());
  const some = await ranked.getJobs(['prioritized'], 0, jobs - 1);
  assert.strictEqual(some.length, jobs);
  await step('remove, all at once', () => Promise.all(some.map((job) => job.remove())));
  assert.strictEqual((await ranked.getJobCounts('prioritized')).prioritized, jobs);
  await step('obliterate', () => ranked.obliterate({ force: true }));
  await Promise.all([queue.close(), ranked.close()]);
});
