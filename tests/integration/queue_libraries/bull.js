// bull.js HOST PORT JOBS - what an application asks of Bull, with its default prefix; prints {step: seconds} as JSON.
'use strict';
const assert = require('assert');
const Queue = require('bull');
const { steps, atOnce } = require('./steps');

const [host, port, jobs] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const numbered = (count) => [...Array(count).keys()].map((n) => ({ data: { n } }));

// Works until as many jobs are completed.
async function work(name, count, concurrency) {
  const queue = new Queue(name, { redis: { host, port } });
  const before = await queue.getCompletedCount();
  let done = 0;
  await new Promise((resolve, reject) => {
    queue.on('completed', () => ++done === count && resolve());
    queue.on('failed', (_job, error) => reject(error));
    queue.process(concurrency, async (job) => job.data.n * 2);
  });
  assert.strictEqual(await queue.getCompletedCount(), before + count);
  await queue.close();
}

steps(async (step) => {
  const queue = new Queue('mail', { redis: { host, port } });
  await queue.isReady();
  await step('add, one by one', async () => { for (const { data } of numbered(jobs)) await queue.add(data); });
  await step('process, one by one', () => work('mail', jobs, 1));
  await step('add, 50 at once', () => atOnce(50, numbered(jobs), ({ data }) => queue.add(data)));
  await step('addBulk', () => queue.addBulk(numbered(jobs)));
  await step('process, 50 at once', () => work('mail', 2 * jobs, 50));
  await step('clean', async () => assert.strictEqual((await queue.clean(0, 'completed')).length, 3 * jobs));
  await queue.pause();
  const added = await queue.addBulk(numbered(2 * jobs));
  await step('resume', () => queue.resume());
  await step('remove, all at once', () => Promise.all(added.slice(0, jobs).map((job) => job.remove())));
  assert.strictEqual(await queue.getWaitingCount(), jobs);
  await step('obliterate', () => queue.obliterate({ force: true }));
  await queue.close();
});
