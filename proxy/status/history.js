// history.js - rates and latencies of the last five minutes, from counters that only grow; those of the time before the
// page was opened are the proxy's.
//
//   document ─► sample {ms, counters by name} ─► … 300 of them ─► rate = difference / time
//                                                              └► latency = quantile of the difference of two histograms

import {WINDOW_MS} from './plots.js';

const SMOOTH_MS = 3000; // shortest time over which latencies are computed, because a second may have few requests

export class History {
  constructor() {
    this.samples = [];
    this.run = null;
    this.saved = null;
  }

  // What the proxy has kept (history.json): values of the time before this page was opened.
  restore(saved) {
    this.saved = saved;
  }

  // Saved points before the first own sample: [[ms, value], …]
  earlier(values) {
    if (!values || !this.saved || this.saved.run_id !== this.run) return [];
    return this.saved.at_ms.map((ms, i) => [ms, values[i]]).filter(([ms]) => ms < this.samples[0].ms && ms >= this.now - WINDOW_MS);
  }

  savedSeries(kind, name) {
    return this.saved?.[kind].find(series => series.name === name);
  }

  // The counters of a restarted proxy begin at 0.
  add(document) {
    if (this.run !== document.proxy.run_id) this.samples = [];
    this.run = document.proxy.run_id;
    this.bounds = document.latency_bounds_us;
    this.samples.push({ms: document.mono_ms, totals: document.totals, memory: document.proxy.memory_resident_bytes, shards: byName(document.map.shards),
      commands: byName(document.commands), namespaces: byName(document.namespaces)});
    while (this.samples[0].ms < document.mono_ms - WINDOW_MS - 5000) this.samples.shift();
  }

  get now() {
    return this.samples.at(-1).ms;
  }

  // Growth of `read(sample)` per second: [[ms, value], …]
  rates(read) {
    return this.samples.slice(1).map((sample, i) => [sample.ms, growth(this.samples[i], sample, read)]);
  }

  // Rates of a total, a shard or a command in the whole window.
  totalRates(name) {
    return [...this.earlier(this.saved?.totals[name]), ...this.rates(sample => sample.totals[name])];
  }

  requestRates(kind, name) {
    return [...this.earlier(this.savedSeries(kind, name)?.rate), ...this.rates(sample => sample[kind].get(name)?.requests)];
  }

  // Values of a gauge: `read(sample)`, and under `name` in what was saved.
  values(name, read) {
    return [...this.earlier(this.saved?.totals[name]), ...this.samples.map(sample => [sample.ms, read(sample)])];
  }

  latencies(kind, name, part) {
    return [...this.earlier(this.savedSeries(kind, name)?.[part === 0.5 ? 'p50' : 'p99']),
      ...this.samples.slice(1).map((sample, i) => [sample.ms, this.quantileAt(i + 1, kind, name, part)])];
  }

  // Number of requests in the whole window.
  requestsOf(kind, name) {
    const own = this.samples.at(-1)[kind].get(name).requests - (this.samples[0][kind].get(name)?.requests ?? 0);
    return own + this.earlier(this.savedSeries(kind, name)?.rate).reduce((sum, [, value]) => sum + value * this.saved.every_ms / 1000, 0);
  }

  quantileAt(at, kind, name, part) {
    const to = this.samples[at];
    let from = at - 1;
    while (from > 0 && to.ms - this.samples[from].ms < SMOOTH_MS) from--;
    // a command that was not in the earlier document had not been called: all of them are listed
    const before = this.samples[from][kind].get(name)?.latency ?? (kind === 'commands' ? [] : undefined);
    return quantile(this.bounds, before, to[kind].get(name)?.latency, part);
  }

  // The current {rate, p50, p99, failures, errors, calls} by name.
  latest(kind) {
    const last = this.samples.length - 1;
    return new Map([...this.samples[last][kind]].map(([name, own]) => [name, {
      rate: last ? growth(this.samples[last - 1], this.samples[last], sample => sample[kind].get(name)?.requests) : null,
      p50: last ? this.quantileAt(last, kind, name, 0.5) : null,
      p99: last ? this.quantileAt(last, kind, name, 0.99) : null,
      failures: last ? growth(this.samples[last - 1], this.samples[last], sample => sample[kind].get(name)?.transactions?.failed) : null,
      errors: own.errors, calls: own.requests}]));
  }
}

function byName(items) {
  return new Map(items.map(item => [item.name, item]));
}

function growth(before, after, read) {
  const from = read(before), to = read(after);
  return from === undefined || to === undefined || to < from ? null : (to - from) * 1000 / (after.ms - before.ms);
}

// Quantile of the values counted between two cumulative histograms, spread evenly within a bucket; null: there are none.
function quantile(bounds, before, after, part) {
  if (!after || !before) return null;
  const counts = after.map((count, i) => count - (before[i] ?? 0));
  const wanted = counts.reduce((sum, one) => sum + one, 0) * part;
  if (!wanted) return null;
  let seen = 0, at = 0;
  while (at < counts.length - 1 && seen + counts[at] < wanted) seen += counts[at++];
  const low = at ? bounds[at - 1] : 0, high = at < bounds.length ? bounds[at] : bounds.at(-1);
  return low + (high - low) * Math.min(1, (wanted - seen) / (counts[at] || 1));
}
