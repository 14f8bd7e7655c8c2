#!/usr/bin/python3
"""bench_flat.py - does the cost of a request stay flat with the number of keys and the size of values? Scree beside
redis-server, and its proxy beside haproxy.

    scree          load.c ─► scree-backend (1 partition, durability = always, memory = auto)
    redis          load.c ─► redis-server, in memory
    always         load.c ─► redis-server, appendfsync always
    proxies        redis-benchmark ─► scree-proxy (1 worker) | haproxy (tcp, 1 thread) ─► redis-server

For each number of keys and each size all systems are filled with every key at -P 32, which is the load curve: keys a second in
windows, of which the slowest counts. Then they take turns. CPU is that of all threads, µs for each request; of proxies that of
the proxy. A ratio counts only within its row, and only when the machine was quiet: the share of its CPU that others use is
measured before each table, and the page says so. Nothing is asserted. A full run writes docs/benchmarks/flat.md, after each
table, so that a run that was cut has a page, too.

  SCREE_BIN=build/test tests/bench/bench_flat.py                                    about 12 minutes, 8 GB of memory
  SCREE_BIN=build/test tests/bench/bench_flat.py --keys 100000 4000000 20000000     about 20 minutes, 16 GB
"""

import argparse
import os
import subprocess
import tempfile
import time

from bench_requests import KEYSPACE, Peers, benchmark, median
from page import FOLDER, busy_note, busy_share, heading
from rig import CLIENTS, Farm, System, in_turn, wait_until_quiet
from support.cluster import binary
from support.resp import Connection

WINDOW_S = 5  # of the load curve
STEADY = 0.6  # goal: the slowest window, of the first minute's rate
BIG = 512     # bytes of a value from which on there are at most --big keys

# (name, depth, size at least, keys at least): (against, the ratio's limit). The last one that fits counts.
GOALS = [
    ('GET', 16, 0, 0, 'redis', 1.1), ('GET', 16, 0, 1000001, 'redis', 0.9), ('GET', 16, 0, 10000001, 'redis', 1.2),
    ('GET', 1, 0, 1000001, 'redis', 1.0), ('GET', 16, BIG, 0, 'redis', 1.6),
    ('SET', 16, 0, 0, 'always', 1.0), ('SET', 16, 0, 1000001, 'redis', 1.6), ('SET', 16, 0, 10000001, 'redis', 2.5),
    ('SET', 16, BIG, 0, 'always', 1.5), ('SET', 64, 0, 0, 'rate', 1.0),
    ('HSET', 16, 0, 0, 'always', 1.5), ('SADD', 16, 0, 0, 'always', 1.5), ('LPUSH', 16, 0, 0, 'always', 1.5),
]
PROXY_GOALS = {1: 0.6, 16: 0.9, 64: 1.3}


def goal(name, depth, size, keys):
    """(against, limit), or None."""
    found = [row[4:] for row in GOALS if row[:2] == (name, depth) and size >= row[2] and keys >= row[3]]
    return found[-1] if found else None


def folder_bytes(path):
    sizes = [os.stat(os.path.join(root, name)).st_blocks * 512 for root, _, names in os.walk(path) for name in names]
    return sum(sizes)


def number_of(process, page, name):
    """A number of /proc/PID/status or /proc/PID/io."""
    with open('/proc/%d/%s' % (process.child.pid, page), encoding='ascii') as file:
        return int([line for line in file if line.startswith(name + ':')][0].split()[1])


# ---- filling -----------------------------------------------------------------------------------------------------

def fill(name, system, keys, size):
    """Writes every key once, in order, without a pause. Returns [(seconds since the begin, keys a second)], a window each."""
    words = [os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load'), '--port', system.port, '--clients', CLIENTS,
             '--depth', 32, '--count', keys, '--', 'SET', 'key:{s}', '{x:%d}' % size]
    begun = time.monotonic()
    child = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
    curve, last, before = [], begun, 0
    with Connection(('127.0.0.1', system.port), 120) as client:
        while child.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - last >= WINDOW_S:
                now, count = time.monotonic(), client.get('DBSIZE')
                curve.append((now - begun, (count - before) / (now - last)))
                print('  fill %s: %d of %d keys, %.0f SET/s' % (name, count, keys, curve[-1][1]), flush=True)
                last, before = now, count
        assert child.returncode == 0 and client.get('DBSIZE') == keys
    return curve or [(time.monotonic() - begun, keys / (time.monotonic() - begun))]


def fill_row(name, process, curve, keys, size, folder):
    """A row of the page about the fill, when compaction has come to rest."""
    first = [rate for second, rate in curve if second <= 60 + WINDOW_S]
    first, slowest = sum(first) / len(first), min(rate for _, rate in curve)
    row = [name, '%.0f' % first, '%.0f' % slowest, '%.2f' % (slowest / first),
           '%d' % (number_of(process, 'status', 'VmRSS') * 1024 // keys), '', '']
    if folder:
        row[5:] = ['%d' % (folder_bytes(folder) // keys), '%.1f' % (number_of(process, 'io', 'write_bytes') / (keys * (size + 16)))]
    print('  fill %s: first minute %s SET/s, slowest %s (%s); bytes a key: memory %s, disk %s; written for each byte: %s' % tuple(row),
          flush=True)
    return row


FILL_HEAD = ['| fill at -P 32 | SET/s in the first minute | in the slowest %d s | slowest / first (goal %.1f) | bytes of memory a key '
             '| bytes on disk a key | bytes written to files for each byte of keys and values |' % (WINDOW_S, STEADY),
             '|---|---|---|---|---|---|---|']
HEAD = ['| | scree µs | redis µs | always µs | scree / redis | scree / always | scree, always: 1000/s | goal | |',
        '|---|---|---|---|---|---|---|---|---|']


# ---- tables ------------------------------------------------------------------------------------------------------

def commands(keys, size, has_collections):
    rows = [('GET', 'GET key:{k:%d}' % keys), ('SET', 'SET key:{k:%d} {x:%d}' % (keys, size))]
    if has_collections:
        rows += [('HSET', 'HSET hash:{k:10000} field:{n:10} {x:%d}' % size), ('SADD', 'SADD set:{n:1000} member:{n:1000}'),
                 ('LPUSH', 'LPUSH list:{n:1000} {x:%d}' % size)]
    return rows


def command_row(name, depth, size, keys, found):
    scree, redis, always = (found[system] for system in ('scree', 'redis', 'always'))
    ratios = {'redis': scree.cpu_us / redis.cpu_us, 'always': scree.cpu_us / always.cpu_us, 'rate': scree.rate / always.rate}
    row = ['%s -P %d' % (name, depth)] + ['%.2f' % sample.cpu_us for sample in (scree, redis, always)]
    row += ['%.2f' % ratios['redis'], '%.2f' % ratios['always'], '%.0f, %.0f' % (scree.rate / 1000, always.rate / 1000)]
    wanted = goal(name, depth, size, keys)
    if not wanted:
        return row + ['', '']
    against, limit = wanted
    is_met = ratios[against] >= limit if against == 'rate' else ratios[against] <= limit
    return row + ['%s ≥ %.1f × always' % ('rate', limit) if against == 'rate' else '≤ %.1f × %s' % (limit, against),
                  'met' if is_met else '**missed**']


def measure(options, keys, size, has_collections):
    """Lines of the page."""
    with tempfile.TemporaryDirectory(prefix='scree-bench-', dir=options.folder) as folder:
        farm, share, title = Farm(folder), busy_share(1), '%d keys, values of %d bytes' % (keys, size)
        print('\n%s   %s' % (title, busy_note(share)), flush=True)
        try:
            processes = {'scree': farm.backend('scree', secret=''), 'redis': farm.redis('redis'), 'always': farm.redis_log('always')}
            systems = {name: System(process) for name, process in processes.items()}
            folders = {'scree': os.path.join(folder, 'scree-data'), 'always': os.path.join(folder, 'redis-always-log')}
            fills, rows = [], []
            for name, system in systems.items():
                curve = fill(name, system, keys, size)
                wait_until_quiet(system)
                fills.append(fill_row(name, processes[name], curve, keys, size, folders.get(name)))
            print(HEAD[0].replace('|', ' '))
            for name, command in commands(keys, size, has_collections):
                for depth in options.depths if name in ('GET', 'SET') else [16]:
                    found = in_turn(systems, command, options.repeat, depth=depth, seconds=options.seconds)
                    rows.append(command_row(name, depth, size, keys, found))
                    print('  %-12s %8s %8s %8s %8s %8s %14s  %-18s %s' % tuple(rows[-1]), flush=True)
        finally:
            farm.stop()
    return ['## ' + title, '', busy_note(share), ''] + table(FILL_HEAD, fills) + [''] + table(HEAD, rows) + ['']


def table(head, rows):
    return head + ['| %s |' % ' | '.join(row) for row in rows]


def measure_proxies(options):
    share, rows = busy_share(1), []
    print('\nproxies, values of 64 bytes, CPU µs of the proxy   %s' % busy_note(share), flush=True)
    with tempfile.TemporaryDirectory(prefix='scree-bench-', dir=options.folder) as folder:
        farm = Peers(folder, ['scree-proxy', 'haproxy'])
        try:
            for system in farm.systems.values():
                benchmark(system, 'set', 64, 64, 10 * KEYSPACE)  # so that GET finds a value
            for command in ('get', 'set'):
                for depth in options.depths:
                    rows.append(proxy_row(farm.systems, command, depth, options))
                    print('  %-12s %8s %8s %8s  %-8s %s' % tuple(rows[-1]), flush=True)
        finally:
            farm.stop()
    head = ['| 64 bytes, in front of a redis-server | scree-proxy µs | haproxy µs | ratio | goal | |', '|---|---|---|---|---|---|']
    return ['## Proxies', '', busy_note(share), ''] + table(head, rows) + ['']


def proxy_row(systems, command, depth, options):
    samples, counts = {name: [] for name in systems}, {}
    for name, system in systems.items():
        rate = benchmark(system, command, depth, 64, 2000 * min(depth, 16)).rate
        counts[name] = max(1000, int(rate * options.seconds / depth) * depth)
    for _ in range(options.repeat):
        for name, system in systems.items():
            samples[name].append(benchmark(system, command, depth, 64, counts[name]))
    ours, theirs = (median(samples[name]).cpu_us[0] for name in ('scree-proxy', 'haproxy'))
    limit = PROXY_GOALS.get(depth)
    return ['%s -P %d' % (command.upper(), depth), '%.2f' % ours, '%.2f' % theirs, '%.2f' % (ours / theirs),
            '≤ %.1f' % limit if limit else '', ('met' if ours / theirs <= limit else '**missed**') if limit else '']


# ---- the run -----------------------------------------------------------------------------------------------------

def shapes(options):
    """[(keys, size)], without repetitions."""
    return list(dict.fromkeys((min(keys, options.big) if size >= BIG else keys, size)
                              for keys in options.keys for size in options.sizes))


def minutes(options):
    """How long a run takes about: turns, and fills of 100 thousand to 300 thousand keys a second."""
    turns = sum(3 * options.repeat * (2 * len(options.depths) + 3 * (i < len(options.sizes)))
                for i, _ in enumerate(shapes(options))) + (4 * options.repeat * len(options.depths) if options.proxies else 0)
    filled = sum(keys * 3 / (100e3 if size >= BIG else 300e3) for keys, size in shapes(options))
    return (turns * (options.seconds + 0.3) + filled) / 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='20 000 keys, one short run of each; writes nothing')
    parser.add_argument('--keys', type=int, nargs='*', default=[100000, 4000000])
    parser.add_argument('--sizes', type=int, nargs='*', default=[64, 1024])
    parser.add_argument('--big', type=int, default=1000000, help='at most so many keys with values of %d bytes and more' % BIG)
    parser.add_argument('--depths', type=int, nargs='*', default=[1, 16, 64])
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=1.5)
    parser.add_argument('--no-proxies', dest='proxies', action='store_false')
    parser.add_argument('--folder', help='where data is kept during the run; default: the system\'s folder for temporary files')
    parser.add_argument('--output', default=os.path.join(FOLDER, 'flat.md'))
    options = parser.parse_args()
    if options.quick:
        options.keys, options.depths, options.repeat, options.seconds = [20000], [1, 16], 1, 0.3
    print('%d tables, about %.0f minutes' % (len(shapes(options)) + options.proxies, minutes(options)), flush=True)
    begun = time.monotonic()
    lines = [heading('Cost by number of keys and size of values', 'tests/bench/bench_flat.py'),
             'Medians of %d runs of %.1f s, 50 clients.' % (options.repeat, options.seconds), '']
    parts = [lambda keys=keys, size=size, i=i: measure(options, keys, size, i < len(options.sizes))
             for i, (keys, size) in enumerate(shapes(options))] + ([lambda: measure_proxies(options)] if options.proxies else [])
    for i, part in enumerate(parts):
        lines += part()
        print('table %d of %d, %.1f minutes so far' % (i + 1, len(parts), (time.monotonic() - begun) / 60), flush=True)
        if not options.quick:
            with open(options.output, 'w', encoding='utf-8') as file:
                file.write('\n'.join(lines).rstrip().replace('\n\n\n', '\n\n') + '\n')
    if any('Not quiet' in line for line in lines):
        print('\nThe machine was NOT QUIET, see above: compare figures only within a row.')


if __name__ == '__main__':
    main()
