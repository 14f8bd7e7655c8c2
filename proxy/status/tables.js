// tables.js - the lists of the page: rows of text, changed in place so that the position and the selection stay.

import {bytes, byId, clock, make, micros, rate, say, seconds, short, whole} from './text.js';
import {colour} from './slots.js';

// Parts of a cell: a swatch, the sign of a state, a note below.
function fill(cell, value) {
  const {text, title = '', swatch = null, state = null, note = ''} = typeof value === 'object' ? value : {text: value};
  const signature = JSON.stringify([text, title, swatch, state, note]);
  if (cell.dataset.is === signature) return;
  cell.dataset.is = signature;
  const parts = [];
  if (swatch) {
    const key = make('i', 'key');
    key.style.background = swatch;
    parts.push(key);
  }
  parts.push(state ? make('span', 'state ' + state, text) : String(text));
  if (note) parts.push(make('small', '', note));
  cell.replaceChildren(...parts);
  cell.title = title;
}

// A cell whose text stands for this value when the list is sorted.
function cell(by, text, more = {}) {
  return {by, text, ...more};
}

// What a cell is sorted by: its value, or its text, in which numbers count as numbers (p2 before p10).
function byOf(value) {
  if (typeof value !== 'object') return value;
  return value.by ?? value.text;
}

function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), undefined, {numeric: true});
}

class Table {
  // `columns`: [[heading, class]]. A click on a heading sorts by that column, the next ones turn the order round, and end it.
  constructor(id, columns, empty) {
    this.table = byId(id);
    this.columns = columns;
    this.sorted = null; // {column, isDown}
    this.rows = [];
    const head = make('tr', '', ...columns.map(([heading, look], column) => {
      const button = make('button', 'sort', heading);
      button.type = 'button';
      button.addEventListener('click', () => this.sortBy(column));
      const cell = make('th', look || '', button);
      cell.scope = 'col';
      return cell;
    }));
    this.body = make('tbody');
    this.empty = make('caption', '', empty);
    this.table.append(this.empty, make('thead', '', head), this.body);
  }

  show(rows) {
    this.rows = rows;
    this.empty.hidden = rows.length > 0;
    this.table.tHead.hidden = rows.length === 0;
    while (this.body.rows.length > rows.length) this.body.lastChild.remove();
    this.inOrder().forEach((values, at) => {
      const row = this.body.rows[at] || this.body.appendChild(this.makeRow());
      values.forEach((value, i) => fill(row.cells[i], value));
    });
    this.fit();
  }

  // Numbers begin with the greatest, names with the first.
  sortBy(column) {
    const isNumber = (this.columns[column][1] || '').includes('number');
    if (this.sorted?.column !== column) this.sorted = {column, isDown: isNumber};
    else if (this.sorted.isDown === isNumber) this.sorted.isDown = !isNumber;
    else this.sorted = null;
    [...this.table.tHead.rows[0].cells].forEach((head, at) => {
      if (this.sorted?.column === at) head.setAttribute('aria-sort', this.sorted.isDown ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    this.show(this.rows);
  }

  inOrder() {
    if (!this.sorted) return this.rows;
    const {column, isDown} = this.sorted;
    return [...this.rows].sort((a, b) => (isDown ? -1 : 1) * compare(byOf(a[column]), byOf(b[column])));
  }

  // The visible part ends below a whole row.
  fit() {
    const frame = this.table.parentElement;
    frame.style.maxHeight = '';
    const most = parseFloat(getComputedStyle(frame).maxHeight), top = frame.getBoundingClientRect().top - frame.scrollTop;
    if (!(this.table.offsetHeight > most)) return;
    let height = 0;
    for (const row of this.body.rows) {
      const bottom = row.getBoundingClientRect().bottom - top;
      if (bottom > most) break;
      height = bottom;
    }
    if (height) frame.style.maxHeight = `${height}px`;
  }

  makeRow() {
    return make('tr', '', ...this.columns.map(([heading, look]) => {
      const cell = make('td', look || '');
      cell.dataset.label = heading;
      return cell;
    }));
  }
}

function space(name) {
  return name === '' ? {text: '(none)', title: 'Clients without a namespace'} : named(name);
}

// A name that its column may truncate; the title has the whole name.
function named(text) {
  return {text, title: text};
}

const NAMESPACES_SHOWN = 100;
const BACKUP_OLD_S = 36 * 3600; // as of the alert ScreeBackupOld

const signs = {up: 'up', down: 'down', silent: 'silent', unknown: 'not asked yet'};

// max-keys and max-bytes of a namespace.
function limits(item) {
  const texts = [];
  if (item.max_keys) texts.push(`${whole(item.max_keys)} keys`);
  if (item.max_bytes) texts.push(bytes(item.max_bytes));
  return texts.join(', ') || '–';
}

// The share of the requests that had keys of several shards; what may lower it is its title and its note.
function overShards({requests, over_shards: count, advice}) {
  const percent = requests ? 100 * count / requests : 0;
  const text = count === 0 ? '–' : percent < 1 ? '< 1 %' : `${whole(Math.round(percent))} %`;
  const title = advice ? `On one shard they would be faster: ${advice}` : `${whole(count)} requests since the start`;
  return {by: percent, text, title, note: advice && 'could be fewer'};
}

function storageState({state, storage}) {
  const age = storage ? `figures of ${seconds(storage.age_ms / 1000)} ago` : 'no figures yet';
  if (state === 'down' || state === 'silent') return {text: 'no answer', state, note: age};
  if (!storage) return {text: 'not asked yet', state: 'unknown'};
  if (storage.state !== 'open') return {text: storage.state, state: 'down'};
  if (storage.read_only) return {text: 'read-only', state: 'down', note: storage.reason, title: storage.reason};
  if (storage.disk_low) return {text: 'disk low', state: 'down', note: 'refuses writes that need room'};
  if (storage.damaged_batches) return {text: 'log damaged', state: 'silent', note: `${short(storage.damaged_batches)} batches lost`};
  if (storage.stalled || storage.delayed_write_rate) return {text: 'writes wait', state: 'silent', note: 'for compaction'};
  return {text: 'writable', state: 'up', title: age};
}

const hasWrongRows = copy => copy.rows === 'differ' || copy.rows === 'unreadable';

// `leader` serves, and lists the copies.
function copyState({leader}, copy) {
  if (copy.address === leader) return {text: 'serves', state: 'up'};
  if (copy.kind === 'none') return {text: 'no member', state: 'silent', note: copy.state, title: 'The map has this address, and the group has no copy there'};
  return copy.is_up ? {text: 'follows', state: 'up'} : {text: 'down', state: 'down'};
}

function storageCells(own, now) {
  const age = own.backup_success_s ? Math.max(0, now - own.backup_success_s) : Infinity;
  const backup = cell(age, age === Infinity ? 'never' : `${seconds(age)} ago`,
    {state: age <= BACKUP_OLD_S ? null : own.backup_success_s ? 'down' : 'silent'});
  const expires = [own.certificate_expires_s, own.peer_certificate_expires_s].filter(Boolean);
  const left = Math.min(...expires) - now;
  return [cell(own.keys, whole(own.keys)), cell(own.disk_bytes, bytes(own.disk_bytes)),
    own.disk_total_bytes ? cell(own.disk_free_bytes, bytes(own.disk_free_bytes), {title: `of ${bytes(own.disk_total_bytes)}`}) : '–',
    {by: own.pending_compaction_bytes, text: own.running_compactions ? 'running' : 'idle', title: `${bytes(own.pending_compaction_bytes)} to compact`,
      note: own.pending_compaction_bytes ? `${bytes(own.pending_compaction_bytes)} to do` : ''},
    cell(own.level0_files, String(own.level0_files)),
    own.backup_in_progress ? {...backup, note: 'one is running'}
      : own.backup_status === 'err' ? {...backup, state: 'down', note: 'the last one failed'} : backup,
    {by: own.memory_bytes, text: bytes(own.memory_bytes), title: `configured: ${bytes(own.memory_configured_bytes)}`},
    !expires.length ? '–' : left <= 0 ? cell(left, 'expired', {state: 'down'})
      : cell(left, `${seconds(left)} left`, {state: left < 14 * 86400 ? 'silent' : null})];
}

// The shards that the user searches for: all, if there is no search.
function wantedShards(shards) {
  const wanted = byId('shard-search').value.trim().toLowerCase();
  return shards.filter(shard => [shard.name, shard.address, signs[shard.state]].some(text => text.toLowerCase().includes(wanted)));
}

function foundNote(found, all) {
  return found.length < all.length ? `; ${found.length} found` : '';
}

export class Tables {
  constructor() {
    this.shards = new Table('shards', [['Shard', 'name'], ['State'], ['Slots', 'number'], ['Requests', 'number'], ['p50', 'number'],
      ['p99', 'number'], ['In flight', 'number'], ['Ping', 'number'], ['Address', 'code name']], 'The map has no shards.');
    this.storage = new Table('storage', [['Shard', 'name'], ['State'], ['Keys', 'number'], ['Data', 'number'], ['Disk free', 'number'],
      ['Compaction', 'number'], ['Level 0', 'number'], ['Last backup', 'number'], ['Memory', 'number'], ['Certificate', 'number']],
      'No shard has answered yet.');
    this.commands = new Table('commands', [['Command', 'code long'], ['Requests', 'number'], ['p50', 'number'], ['p99', 'number'],
      ['Errors', 'number'], ['Calls in total', 'number']], 'No command was called yet.');
    this.namespaces = new Table('namespaces', [['Namespace', 'code long'], ['Clients', 'number'], ['Requests', 'number'],
      ['Over shards', 'number'], ['Keys', 'number'], ['Bytes', 'number'], ['Limits', 'number']], 'There are no such namespaces.');
    this.keys = new Table('hot-keys', [['Key', 'code long'], ['Rate', 'number'], ['Shard', 'name'], ['Namespace', 'code name']],
      'No key is requested often.');
    this.slow = new Table('slow-log', [['Time', 'time'], ['Took', 'number'], ['Slowest at', 'name'], ['Request', 'code long'],
      ['Client', 'code name']], 'There are no slow requests.');
    this.clients = new Table('clients', [['Client', 'code long'], ['Unread', 'number'], ['In flight', 'number'], ['Age', 'number'],
      ['Idle', 'number'], ['Last command', 'code name'], ['User', 'code name'],
      ['Namespace', 'code name']], 'No client is connected.');
    this.events = new Table('events', [['Time', 'time'], ['What'], ['Details', 'code long']], 'There are no events.');
    this.copies = new Table('copies', [['Shard', 'name'], ['Copy', 'code name'], ['Zone'], ['State'], ['Kind'], ['Behind', 'number'], ['Heard', 'number'],
      ['Rows'], ['Term', 'number']], 'No shard has several copies.');
    this.links = new Table('links', [['From', 'name'], ['To', 'name'], ['State'], ['For', 'number'], ['Round trip', 'number'],
      ['Waiting', 'number'], ['Unsent', 'number']], 'The backends have no links.');
    this.transactions = new Table('transactions', [['Shard', 'name'], ['In doubt', 'number'], ['Open', 'number'],
      ['Locked keys', 'number'], ['Committed', 'number'], ['Began again', 'number'], ['Failed', 'number']],
      'No backend has reported transactions.');
    this.peers = new Table('peers', [['Proxy', 'code long'], ['Map epoch', 'number'], ['State'], ['Up for', 'number'], ['Version']],
      'No other proxies are configured (option peers).');
  }

  // `seen`: rates and latencies by name, which history.js has computed from the last two documents.
  show(document, seen) {
    this.showShards(document.map.shards, seen.shards);
    this.showStorage(document);
    this.showCommands(seen.commands);
    this.showNamespaces(document, seen);
    this.showKeys(document.hot_keys);
    this.showSlow(document.slow_log);
    this.showClients(document);
    this.showEvents(document.events);
    this.showPeers(document);
    this.showCopies(document.map.shards);
    this.showLinks(document.map);
    this.showTransactions(document.map, seen.shards);
  }

  // Shards that do not answer come first, because the page may show only the beginning of the list.
  showShards(shards, seen) {
    const isDown = shard => shard.state === 'down' || shard.state === 'silent';
    const down = shards.filter(isDown), shown = wantedShards([...down, ...shards.filter(shard => !isDown(shard))]);
    say(byId('shards-note'), (down.length ? `${down.length} of ${shards.length} do not answer` : `${shards.length}, none of them is known to be down`)
      + foundNote(shown, shards));
    this.shards.show(shown.map(shard => {
      const own = seen.get(shard.name) || {};
      return [{text: shard.name, swatch: colour(shard.name)},
        {text: signs[shard.state], state: shard.state, note: shard.reason, title: shard.reason},
        cell(shard.slot_count, whole(shard.slot_count)), cell(own.rate ?? 0, rate(own.rate)), cell(own.p50 ?? 0, micros(own.p50)),
        cell(own.p99 ?? 0, micros(own.p99)), cell(shard.in_flight, short(shard.in_flight)),
        cell(shard.ping_us, shard.state === 'up' ? micros(shard.ping_us) : '–'), shard.address];
    }));
  }

  // Shards with faults come first. A shard that does not answer keeps its last figures.
  showStorage({map, now_ms}) {
    const all = map.shards.map(shard => ({shard, own: shard.storage, state: storageState(shard)}));
    const bad = all.filter(({state}) => state.state === 'down' || state.state === 'silent');
    const wanted = wantedShards(map.shards), shown = [...bad, ...all.filter(one => !bad.includes(one))].filter(one => wanted.includes(one.shard));
    say(byId('storage-note'), (bad.length ? `${bad.length} of ${all.length} need attention` : 'memory is that of the whole process')
      + foundNote(shown, all));
    this.storage.show(shown.map(({shard, own, state}) => [
      {text: shard.name, swatch: colour(shard.name)}, state, ...(own ? storageCells(own, now_ms / 1000) : Array(8).fill('–'))]));
  }

  // What the copy that serves says of the others. Copies with faults come first.
  showCopies(shards) {
    const all = shards.flatMap(shard => (shard.copies?.members ?? []).map(copy => ({shard, copy, state: copyState(shard.copies, copy)})));
    const bad = all.filter(({copy, state}) => state.state !== 'up' || hasWrongRows(copy));
    byId('copies-section').hidden = all.length === 0;
    say(byId('copies-note'), bad.length ? `${bad.length} of ${all.length} need attention` : `${all.length}, none of them is known to have a fault`);
    this.copies.show([...bad, ...all.filter(one => !bad.includes(one))].map(({shard, copy, state}) => {
      const leads = copy.address === shard.copies.leader, behind = Math.max(shard.copies.committed - copy.applied, 0);
      return [{text: shard.name, swatch: colour(shard.name)}, named(copy.address), copy.zone || '–', state, copy.kind,
        leads || copy.kind === 'none' ? '–' : cell(behind, `${short(behind)} records`),
        leads || copy.silent_ms === null ? '–' : cell(copy.silent_ms, `${seconds(copy.silent_ms / 1000)} ago`),
        {text: copy.rows || '–', state: hasWrongRows(copy) ? 'down' : null},
        leads ? cell(shard.copies.term, whole(shard.copies.term)) : '–'];
    }));
  }

  // What each backend reports of its connections to the others; the proxy has put those first that are not up.
  showLinks({links, link_count: count, links_down: down}) {
    byId('links-section').hidden = byId('transactions-section').hidden = count === 0;
    say(byId('links-note'), (down ? `${down} of ${count} are not up` : `${count}, all of them up`) +
      (links.length < count ? `; ${links.length} are shown` : ''));
    this.links.show(links.map(link => {
      const isUp = link.state === 'up';
      const state = link.has_other_map ? {text: 'up, other map', state: 'silent', title: 'The two backends have different shard maps'}
        : isUp ? {text: 'up', state: 'up'}
        : {text: link.reason ? 'down' : link.state, state: link.reason ? 'down' : 'unknown', note: link.reason, title: link.reason};
      return [{text: link.from, swatch: colour(link.from)}, {text: link.to, swatch: colour(link.to)}, state, cell(link.since_s, seconds(link.since_s)),
        isUp && link.round_trip_us ? cell(link.round_trip_us, micros(link.round_trip_us)) : '–',
        cell(link.outstanding, short(link.outstanding)), cell(link.output_bytes, bytes(link.output_bytes))];
    }));
  }

  // Shards with transactions in doubt come first.
  showTransactions({shards}, seen) {
    const all = wantedShards(shards).filter(shard => shard.transactions).map(shard => ({shard, own: shard.transactions}));
    const doubts = shards.reduce((sum, shard) => sum + (shard.transactions?.in_doubt ?? 0), 0);
    say(byId('transactions-note'), (doubts ? `${doubts} in doubt: bring the shards back that decide them` : 'since the start of each backend')
      + foundNote(wantedShards(shards), shards));
    this.transactions.show(all.sort((a, b) => b.own.in_doubt - a.own.in_doubt).map(({shard, own}) => [
      {text: shard.name, swatch: colour(shard.name)},
      own.in_doubt ? {by: own.in_doubt, text: short(own.in_doubt), state: 'down', title: 'Their keys are locked until the deciding shard answers'} : '0',
      {by: own.open + own.joined, text: short(own.open + own.joined), title: `${own.open} coordinated here, ${own.joined} of other shards; ` +
        `${own.decided} more are committed and not applied everywhere`},
      cell(own.locked_keys, short(own.locked_keys)),
      {by: own.one_shard + own.two_shards + own.many_shards, text: short(own.one_shard + own.two_shards + own.many_shards), title: `Coordinated here; changed one shard: ${own.one_shard}, ` +
        `two: ${own.two_shards}, more: ${own.many_shards}`},
      cell(own.retries, short(own.retries)),
      {by: own.failed, text: own.failed ? `${short(own.failed)} · ${rate(seen.get(shard.name)?.failures)}` : '0',
        note: own.failures.map(({reason, count}) => `${short(count)} ${reason.replaceAll('_', ' ')}`).join(', ')},
    ]));
  }

  showCommands(seen) {
    const rows = [...seen].sort((a, b) => b[1].rate - a[1].rate || b[1].calls - a[1].calls);
    say(byId('commands-note'), `${rows.length}, the busiest first`);
    this.commands.show(rows.slice(0, 40).map(([name, own]) =>
      [name, cell(own.rate ?? 0, rate(own.rate)), cell(own.p50 ?? 0, micros(own.p50)), cell(own.p99 ?? 0, micros(own.p99)),
        cell(own.errors, short(own.errors)), cell(own.calls, short(own.calls))]));
  }

  // `found`: those that the user searches for; null: there is no search, and the first ones are shown.
  showNamespaces(document, {namespaces: seen, found}) {
    const shown = (found ?? document.namespaces).slice(0, NAMESPACES_SHOWN), count = found?.length ?? document.namespace_count;
    say(byId('namespaces-note'), shown.length < count ? `${shown.length} of ${count}${found ? ' found' : ''}` : found ? `${count} found` : '');
    this.namespaces.show(shown.map(item => [
      space(item.name), cell(item.clients, short(item.clients)), cell(seen.get(item.name)?.rate ?? 0, rate(seen.get(item.name)?.rate)),
      overShards(item),
      ...[[item.keys, whole], [item.bytes, bytes]].map(([figure, write]) => item.keys === null ? {by: -1, text: '–', title: 'Not counted yet'}
        : {by: figure, text: write(figure), title: `Counted ${seconds(item.keys_age_ms / 1000)} ago`}),
      limits(item),
    ]));
  }

  showKeys(keys) {
    say(byId('hot-keys-note'), keys.length ? 'estimated over the last 10 to 20 s' : '');
    this.keys.show(keys.map(item => [{text: item.key, title: `Slot ${item.slot}, database ${item.database}`}, rate(item.per_second),
      {text: item.shard, swatch: colour(item.shard)}, space(item.namespace)]));
  }

  showSlow(entries) {
    say(byId('slow-log-note'), entries.length ? `the newest ${entries.length}` : '');
    this.slow.show(entries.map(entry => {
      const more = entry.argument_count - entry.arguments.length;
      const shard = entry.shard ? {text: entry.shard, swatch: colour(entry.shard),
        title: `The shard took ${micros(entry.shard_usec)}`} : '–';
      return [clock(entry.at_s * 1000), micros(entry.usec), shard,
        entry.arguments.join(' ') + (more ? ` … (${more} more)` : ''), named(entry.name || entry.client)];
    }));
  }

  showClients({clients, totals}) {
    say(byId('clients-note'), `${short(totals.clients)}${clients.length < totals.clients
      ? `; the ${clients.length} with most unread output, then the oldest` : ''}`);
    this.clients.show(clients.map(client => [
      {text: client.name || client.address, title: `${client.address} id ${client.id} ${client.library}`},
      cell(client.output_bytes, bytes(client.output_bytes)), cell(client.in_flight, short(client.in_flight)),
      cell(client.age_s, seconds(client.age_s)), cell(client.idle_s, seconds(client.idle_s)),
      client.command || '–', named(client.user), space(client.namespace)]));
  }

  showEvents(events) {
    const bad = {'shard-down': 'down', 'reload-refused': 'down', 'memory-full': 'down', 'shard-up': 'up'};
    this.events.show(events.map(event => [clock(event.last_ms),
      {text: event.kind.replace('-', ' ') + (event.count > 1 ? ` × ${event.count}` : ''), state: bad[event.kind] || 'plain'},
      [event.subject, event.text].filter(Boolean).join(' · ')]));
  }

  showPeers({peers, map, proxy, now_ms}) {
    const own = {address: proxy.listen, epoch: map.epoch, is_up: true, is_self: true, version: proxy.version,
      uptime_s: (now_ms - proxy.started_ms) / 1000};
    const all = peers.some(peer => peer.is_self) ? peers : [own, ...peers];
    const newest = Math.max(...all.filter(peer => peer.is_up).map(peer => peer.epoch));
    say(byId('peers-note'), all.every(peer => !peer.is_up || peer.epoch === newest)
      ? `map epoch ${newest}` : 'not all use the same map');
    this.peers.show(all.map(peer => peer.is_up
      ? [{text: peer.address, note: peer.is_self ? 'this one' : ''}, String(peer.epoch),
        peer.epoch < newest ? {text: 'older map', state: 'silent'} : {text: 'up', state: 'up'}, seconds(peer.uptime_s), peer.version]
      : [peer.address, '–', {text: 'down', state: 'down', note: peer.reason}, '–', '–']));
  }
}

