// page.js - requests the status of the proxy once a second, and passes it to the other scripts, which draw it.
//
//   GET status/history.json, once ─┐
//   GET status/namespaces.json ────┤   while the user searches for one
//   GET status.json ───────────────┴─► history.js (rates, latencies) ─► slots.js, plots.js, tables.js
//        │ 401: asks the user for the token, and stores it for this tab
//        └ no answer: shows that, keeps the old drawing, and tries again

import {bytes, byId, clock, make, micros, plural, rate, say, seconds, short} from './text.js';
import {History} from './history.js';
import {Plot, drawSpark} from './plots.js';
import {SLOTS, SlotMap, colour} from './slots.js';
import {Tables} from './tables.js';

const EVERY_MS = 1000, PATIENCE_MS = 5000, LINES_MAX = 8, TOKEN = 'scree-admin-token';
const dashes = [null, [6, 3], [2, 3]];

const history = new History();
const slots = new SlotMap();
const tables = new Tables();
const plots = {
  shardRates: new Plot(byId('shard-rates'), rate, 'Requests per second by shard'),
  shardLatency: new Plot(byId('shard-latency'), micros, 'Latency by shard'),
  commandRates: new Plot(byId('command-rates'), rate, 'Requests per second by command'),
  commandLatency: new Plot(byId('command-latency'), micros, 'Latency by command'),
};
let latest = null, found = null, isPaused = false, answeredAt = 0, timer = 0;

// ---- requests ------------------------------------------------------------------------------------

function request(path, token) {
  // Without credentials a browser does not ask for a password by itself when the answer is 401.
  return fetch(path, {
    credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS),
    headers: token ? {Authorization: 'Bearer ' + token} : {},
  });
}

async function ask() {
  const token = sessionStorage.getItem(TOKEN);
  const answer = await request('status.json', token);
  if (answer.status === 401) return refuse(token !== null);
  if (!answer.ok) throw new Error(`the proxy answers ${answer.status}`);
  latest = await answer.json();
  answeredAt = Date.now();
  if (!history.saved) {
    const saved = await request('status/history.json', token);
    if (saved.ok) history.restore(await saved.json());
  }
  await search(token);
  history.add(latest);
  byId('login').hidden = true;
  byId('main').hidden = byId('pause').hidden = false;
  byId('forget').hidden = token === null;
  draw();
  return true;
}

// The document has the first namespaces only; a search looks at all of them.
async function search(token) {
  const wanted = byId('namespace-search').value.trim().toLowerCase();
  found = null;
  if (!wanted) return;
  const answer = await request('status/namespaces.json', token);
  if (answer.ok) found = (await answer.json()).namespaces.filter(one => one.name.toLowerCase().includes(wanted));
}

// The token is missing or wrong: asks the user for it, and sends no request before.
function refuse(hadOne) {
  sessionStorage.removeItem(TOKEN);
  byId('main').hidden = byId('pause').hidden = byId('forget').hidden = true;
  if (byId('login').hidden) {
    byId('login').hidden = false;
    byId('token').focus();
  }
  say(byId('refused'), hadOne ? 'The token is wrong.' : '');
  live('waiting', 'waiting for the token');
  return false;
}

async function turn() {
  clearTimeout(timer);
  let goesOn = true;
  try {
    if (!isPaused && !document.hidden) goesOn = await ask();
    if (goesOn) tellLive();
  } catch (error) {
    const since = answeredAt ? `, last at ${new Date(answeredAt).toTimeString().slice(0, 8)}` : '';
    live('lost', `no answer${since} (${error.name === 'TimeoutError' ? 'timed out' : error.message})`);
  }
  if (goesOn) timer = setTimeout(turn, EVERY_MS);
}

// ---- drawing -----------------------------------------------------------------------------------

function live(state, text) {
  byId('live').className = state;
  say(byId('live'), text);
}

function tellLive() {
  if (isPaused) return live('waiting', 'paused');
  const late = latest.proxy.workers_late;
  if (latest.proxy.is_stopping) live('lost', 'the proxy is stopping');
  else if (latest.proxy.files_refused) live('waiting', 'live; a reload failed: files were refused, see Events');
  else if (late) live('waiting', `live; ${late} of ${latest.proxy.workers} workers are late`);
  else live('live', 'live');
}

function draw() {
  const {proxy, map} = latest;
  say(byId('where'), proxy.listen);
  const up = (latest.now_ms - proxy.started_ms) / 1000;
  const expires = [proxy.certificate_expires_s, proxy.upstream_certificate_expires_s].filter(Boolean);
  const left = Math.min(...expires) - latest.now_ms / 1000;
  const certificate = !expires.length ? '' : left > 0 ? ` · certificate: ${seconds(left)} left` : ' · its certificate has expired';
  say(byId('facts'), `${proxy.zone ? `zone ${proxy.zone} · ` : ''}version ${proxy.version} · map epoch ${map.epoch} · up ${seconds(up)} · process ${proxy.process_id}${certificate}`);
  document.title = `Scree ${proxy.listen}`;
  drawFigures();
  slots.show(map);
  say(byId('map-note'), `${map.slot_rates.filter(Boolean).length} with requests${moving(map.truth)}`);
  drawPlots();
  tables.show(latest, {shards: history.latest('shards'), commands: history.latest('commands'),
    namespaces: history.latest('namespaces'), found});
}

// What the shards still have to move; `truth` is null as long as they have not said it.
function moving(truth) {
  if (!truth || truth.unknown === SLOTS) return ''; // backends without a map own no slots
  const left = truth.moves.reduce((most, move) => Math.max(most, move.eta_s ?? 0), 0);
  const wait = left ? `, ${seconds(left)} left for these` : '';
  if (truth.to_move || truth.move_count) return ` · ${plural(truth.to_move, 'slot')} to move, ${plural(truth.move_count, 'move')} under way${wait}`;
  return truth.is_settled ? ' · settled' : ` · not settled: ${truth.reason}`;
}

function lostConnections(totals, events) {
  const last = events.find(event => event.kind === 'shard-down');
  return `${plural(totals.upstream_failures, 'lost connection')}${last ? `, last at ${clock(last.last_ms)}` : ''}`;
}

function drawFigures() {
  const {totals, proxy, map} = latest;
  const growth = name => history.rates(sample => sample.totals[name]).at(-1)?.[1];
  const down = map.shards.filter(shard => shard.state === 'down' || shard.state === 'silent').length;
  const figures = [
    ['Requests', rate(growth('requests')), `${short(totals.requests)} in total`, '', history.totalRates('requests')],
    ['Errors of the proxy', rate(growth('errors')), `${short(totals.errors)} in total`, '', history.totalRates('errors')],
    ['In flight', short(totals.inflight), `${short(totals.clients_blocked)} wait (BLPOP …)`],
    ['Clients', short(totals.clients), `of ${short(proxy.clients_max)}; ${short(totals.clients_disconnected)} disconnected`, '',
      history.values('clients', sample => sample.totals.clients)],
    ['Received', bytes(growth('bytes_in') || 0) + '/s', `${bytes(totals.bytes_in)} in total`],
    ['Sent', bytes(growth('bytes_out') || 0) + '/s', `${bytes(totals.bytes_out)} in total`],
    ['Memory', bytes(proxy.memory_resident_bytes), `buffers ${bytes(proxy.memory_buffer_bytes)} of ${bytes(proxy.memory_limit_bytes)}`, '',
      history.values('memory', sample => sample.memory)],
    ['Shards up', `${map.shards.length - down}/${map.shards.length}`, lostConnections(totals, latest.events), down ? 'bad' : ''],
  ];
  const box = byId('figures');
  figures.forEach(([name, value, note, state = '', points = null], i) => {
    const figure = box.children[i] || box.appendChild(make('div', '', make('span'), make('b'), make('small'), ...(points ? [make('canvas')] : [])));
    figure.className = state;
    [name, value, note].forEach((text, at) => say(figure.children[at], text));
    if (points) drawSpark(figure.lastChild, points, history.now, name);
  });
}

// The shards or commands with most requests in the whole window, in an order that rarely changes.
function busiest(kind) {
  const grown = [...history.samples.at(-1)[kind].keys()].map(name => [name, history.requestsOf(kind, name)]);
  return grown.filter(one => one[1] > 0).sort((a, b) => b[1] - a[1]).slice(0, LINES_MAX).map(one => one[0]);
}

function drawPlots() {
  const quantile = document.querySelector('[name=quantile]:checked').value;
  const part = quantile / 100;
  const shards = latest.map.shards.length <= 3 * LINES_MAX ? latest.map.shards.map(shard => shard.name) : busiest('shards');
  const commands = busiest('commands');
  say(byId('quantile-note'), 'p' + quantile);
  const lines = (kind, names, points) => names.map((name, i) => ({
    name, colour: kind === 'shards' ? colour(name) : commandColour(name), points: points(name),
    dash: kind === 'shards' ? null : dashes[Math.floor(order.indexOf(name) / palette.length) % dashes.length],
  }));
  const rates = kind => name => history.requestRates(kind, name);
  const latencies = kind => name => history.latencies(kind, name, part);
  plots.shardRates.show(lines('shards', shards, rates('shards')), history.now);
  plots.shardLatency.show(lines('shards', shards, latencies('shards')), history.now);
  plots.commandRates.show(lines('commands', commands, rates('commands')), history.now);
  plots.commandLatency.show(lines('commands', commands, latencies('commands')), history.now);
}

// Commands have other colours than shards.
const palette = ['#9467bd', '#2a9d8f', '#c0504d', '#8c8c2f', '#4f81bd', '#e377c2'];
const order = [];

function commandColour(name) {
  if (!order.includes(name)) order.push(name);
  return palette[order.indexOf(name) % palette.length];
}

// ---- user input ----------------------------------------------------------------------------

byId('login').addEventListener('submit', event => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, byId('token').value);
  byId('token').value = '';
  turn();
});

byId('forget').addEventListener('click', () => {
  sessionStorage.removeItem(TOKEN);
  turn();
});

byId('pause').addEventListener('click', () => {
  isPaused = !isPaused;
  byId('pause').setAttribute('aria-pressed', String(isPaused));
  say(byId('pause'), isPaused ? 'Go on' : 'Pause');
  turn();
});

byId('namespace-search').addEventListener('input', () => latest && !isPaused && turn());
byId('shard-search').addEventListener('input', () => latest && draw());
document.querySelectorAll('[name=quantile]').forEach(input => input.addEventListener('change', () => latest && drawPlots()));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => latest && draw());
document.addEventListener('visibilitychange', () => document.hidden || turn());

live('waiting', 'asking …');
turn();
