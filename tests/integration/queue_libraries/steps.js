// steps.js - times the steps of a program, and prints {step: seconds} as JSON.
'use strict';

async function steps(body) {
  const took = {};
  await body(async (name, action) => {
    const begun = performance.now();
    await action();
    took[name] = (performance.now() - begun) / 1000;
  });
  console.log(JSON.stringify(took));
}

// Calls action for each item; `count` of them run at once.
async function atOnce(count, items, action) {
  let next = 0;
  await Promise.all([...Array(count)].map(async () => {
    while (next < items.length) await action(items[next++]);
  }));
}

module.exports = { steps, atOnce };
