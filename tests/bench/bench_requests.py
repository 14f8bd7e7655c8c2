#!/usr/bin/python3
"""bench_requests.py - what a request costs: Scree, its parts, and their peers under redis-benchmark.

    redis        redis-benchmark ─► redis-server
    nutcracker   redis-benchmark ─► nutcracker  ─► redis-server
    haproxy      redis-benchmark ─► haproxy (tcp) ─► redis-server
    scree-proxy  redis-benchmark ─► scree-proxy (1 worker) ─► redis-server
    backend      redis-benchmark ─► scree-backend (1 partition, durability = always)
    scree        redis-benchmark ─► scree-proxy (1 worker) ─► scree-backend (2 partitions, always)

and, when asked for by --tls or --systems:

    redis-tls    redis-benchmark --tls ─► redis-server
    proxy-tls    redis-benchmark --tls ─► scree-proxy ─► redis-server (plain behind the proxy)
    backend-tls  redis-benchmark --tls ─► scree-backend (1 partition, always)
    scree-tls    redis-benchmark --tls ─► scree-proxy ─ TLS ─► scree-backend (2 partitions, always)

The figure that matters comes first: CPU µs per request of each process, from its threads' schedstat before and after;
throughput and latency depend on what else the machine does. Each cell is the median of some short runs, the systems take
turns within a row. Prints tables and rows against the targets; a full run writes docs/benchmarks/requests.md, --tls its section of
that name. Nothing is asserted.
"""

import argparse
import datetime
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from certs import Kit
from cluster import Oracle, Process, binary, even_slots, free_ports, is_sanitized, write_ini
from page import FOLDER, heading
from rig import CLIENTS

SYSTEMS = ['redis', 'nutcracker', 'haproxy', 'scree-proxy', 'backend', 'scree']
TLS_SYSTEMS = ['redis-tls', 'scree-proxy', 'proxy-tls', 'backend', 'backend-tls', 'scree', 'scree-tls']
KEYSPACE = 100000


class System:
    """What redis-benchmark talks to: a port, and the processes whose CPU is counted, front first."""

    def __init__(self, name, port, processes, words=()):
        self.name, self.port, self.processes, self.words = name, port, processes, list(words)


class Farm:
    """All systems, started once."""

    def __init__(self, folder, wanted):
        self.folder, self.systems, self.started, self.kit = folder, [], [], None
        try:
            for name in wanted:
                self.systems.append(getattr(self, 'start_' + name.replace('-', '_'))())
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for process in reversed(self.started):
            if process.alive():
                process.child.terminate()
                process.wait_exit(20)

    def start(self, process):
        self.started.append(process)
        process.start()
        return process

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    def redis(self, name):
        oracle = Oracle(self.folder, name)
        oracle.name = 'redis-server'
        return self.start(oracle)

    def start_redis(self):
        redis = self.redis('redis-alone')
        return System('redis', redis.port, [redis])

    def start_nutcracker(self):
        redis, port = self.redis('redis-nutcracker'), free_ports()
        path = self.write('nutcracker.yml', 'bench:\n  listen: 127.0.0.1:%d\n  redis: true\n  hash: fnv1a_64\n'
                          '  distribution: ketama\n  servers:\n   - 127.0.0.1:%d:1\n' % (port, redis.port))
        words = ['nutcracker', '-c', path, '-s', str(free_ports()), '-o', os.path.join(self.folder, 'nutcracker.out')]
        front = self.start(Process('nutcracker', words, self.folder, [port]))
        return System('nutcracker', port, [front, redis])

    def start_haproxy(self):
        redis, port = self.redis('redis-haproxy'), free_ports()
        path = self.write('haproxy.cfg', 'global\n  nbthread 1\n  maxconn 2000\ndefaults\n  mode tcp\n'
                          '  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
                          'listen bench\n  bind 127.0.0.1:%d\n'
                          '  server redis 127.0.0.1:%d\n' % (port, redis.port))
        front = self.start(Process('haproxy', ['haproxy', '-db', '-f', path], self.folder, [port]))
        return System('haproxy', port, [front, redis])

    def proxy(self, name, addresses, secret, workers=1):
        port, shards = free_ports(), os.path.join(self.folder, name + '-shards.ini')
        sections = [('map', {'epoch': 1})]
        for i, (slots, address) in enumerate(zip(even_slots(len(addresses)), addresses)):
            sections.append(('shard s%d' % i, {'slots': slots, 'address': '%s:%d' % address}))
        write_ini(shards, sections)
        path = os.path.join(self.folder, name + '.ini')
        write_ini(path, [('proxy', {'listen': '127.0.0.1:%d' % port, 'admin': '', 'workers': workers, 'shards': shards}),
                         ('upstream', {'secret': secret})])
        process = Process(name, [binary('scree-proxy'), '--config', path], self.folder, [port])
        process.port = port
        self.start(process)
        process.name = 'scree-proxy'
        return process

    def backend(self, name, partitions, secret):
        port, path = free_ports(partitions), os.path.join(self.folder, name + '.ini')
        write_ini(path, [('backend', {'bind': '127.0.0.1', 'port': port, 'partitions': partitions, 'secret': secret,
                                      'data': os.path.join(self.folder, name + '-data'), 'durability': 'always'})])
        process = Process(name, [binary('scree-backend'), '--config', path], self.folder,
                          [port + i for i in range(partitions)])
        process.port = port
        self.start(process)
        process.name = 'scree-backend'
        return process

    def start_scree_proxy(self):
        redis = self.redis('redis-scree')
        proxy = self.proxy('proxy-alone', [redis.address], '')
        return System('scree-proxy', proxy.port, [proxy, redis])

    def start_backend(self):
        backend = self.backend('backend-alone', 1, '')
        return System('backend', backend.port, [backend])

    def start_scree(self):
        backend = self.backend('backend-behind', 2, 'bench-secret')
        proxy = self.proxy('proxy-front', [('127.0.0.1', port) for port in backend.ports], 'bench-secret')
        return System('scree', proxy.port, [proxy, backend])


    def tls(self):
        """Certificates, and what redis-benchmark is told to use them."""
        self.kit = kit = self.kit or Kit(self.folder)
        return kit, ['--tls', '--cacert', kit.ca.cert, '--cert', kit.client.cert, '--key', kit.client.key]

    def start_redis_tls(self):
        kit, words = self.tls()
        oracle = Oracle(self.folder, 'redis-tls')
        port = free_ports()
        oracle.argv += ['--tls-port', str(port)] + [word for name, text in kit.listening().items()
                                                    for word in ('--' + name, text)]
        return System('redis-tls', port, [self.start(oracle)], words)

    def start_proxy_tls(self):
        kit, words = self.tls()
        redis, port = self.redis('redis-behind-tls'), free_ports()
        shards, path = os.path.join(self.folder, 'tls-shards.ini'), os.path.join(self.folder, 'proxy-tls.ini')
        write_ini(shards, [('map', {'epoch': 1}), ('shard s0', {'slots': '0-16383', 'address': '%s:%d' % redis.address})])
        write_ini(path, [('proxy', dict(kit.listening(), listen='', admin='', workers=1, shards=shards,
                                        **{'tls-listen': '127.0.0.1:%d' % port}))])
        proxy = self.start(Process('proxy-tls', [binary('scree-proxy'), '--config', path], self.folder, [port]))
        return System('proxy-tls', port, [proxy, redis], words)

    def start_backend_tls(self):
        kit, words = self.tls()
        port, path = free_ports(), os.path.join(self.folder, 'backend-tls.ini')
        write_ini(path, [('backend', dict(kit.listening(), port=-1, data=os.path.join(self.folder, 'tls-data'),
                                          **{'tls-port': port}))])
        backend = self.start(Process('backend-tls', [binary('scree-backend'), '--config', path], self.folder, [port]))
        return System('backend-tls', port, [backend], words)

    def start_scree_tls(self):
        kit, words = self.tls()
        first, port, secret = free_ports(2), free_ports(), 'bench-secret'
        paths = [os.path.join(self.folder, 'scree-tls-%s.ini' % name) for name in ('backend', 'shards', 'proxy')]
        write_ini(paths[0], [('backend', dict(kit.listening(), port=-1, partitions=2, secret=secret, durability='always',
                                              data=os.path.join(self.folder, 'scree-tls-data'), **{'tls-port': first}))])
        write_ini(paths[1], [('map', {'epoch': 1})] + [('shard s%d' % i, {'slots': slots, 'address': '127.0.0.1:%d' % (first + i)})
                                                       for i, slots in enumerate(even_slots(2))])
        write_ini(paths[2], [('proxy', dict(kit.listening(), listen='', admin='', workers=1, shards=paths[1],
                                            **{'tls-listen': '127.0.0.1:%d' % port})),
                             ('upstream', dict(kit.connecting(), secret=secret))])
        backend = self.start(Process('scree-backend', [binary('scree-backend'), '--config', paths[0]], self.folder,
                                     [first, first + 1]))
        proxy = self.start(Process('scree-proxy', [binary('scree-proxy'), '--config', paths[2]], self.folder, [port]))
        return System('scree-tls', port, [proxy, backend], words)


# ---- measuring ---------------------------------------------------------------------------------------------------

class Sample:
    def __init__(self, rate, p50, p99, cpu_us):
        self.rate, self.p50, self.p99, self.cpu_us = rate, p50, p99, cpu_us


def benchmark(system, command, depth, size, count, clients=CLIENTS):
    """One run of redis-benchmark; cpu_us: one figure per process of the system."""
    before = [process.cpu_seconds() for process in system.processes]
    words = system.words + ['-p', system.port, '-c', clients, '-P', depth, '-d', size, '-r', KEYSPACE, '-n', count, '-t', command, '--csv']
    done = subprocess.run(['redis-benchmark'] + [str(word) for word in words], capture_output=True, timeout=300)
    after = [process.cpu_seconds() for process in system.processes]
    rows = [line.split('","') for line in done.stdout.decode().splitlines() if line.startswith('"' + command.upper())]
    if not rows:
        raise RuntimeError('redis-benchmark against %s: %s' % (system.name, done.stdout + done.stderr))
    figures = [word.strip('"') for word in rows[0]]
    return Sample(float(figures[1]), float(figures[4]), float(figures[6]),
                  [(b - a) * 1e6 / count for a, b in zip(before, after)])


def median(samples):
    return Sample(statistics.median(sample.rate for sample in samples),
                  statistics.median(sample.p50 for sample in samples),
                  statistics.median(sample.p99 for sample in samples),
                  [statistics.median(figures) for figures in zip(*(sample.cpu_us for sample in samples))])


def measure(farm, options):
    """{(size, depth, command): {system: Sample}}"""
    results = {}
    for size in options.sizes:
        for depth in options.depths:
            for command in ('set', 'get'):
                row = {}
                for system in farm.systems:
                    probe = benchmark(system, command, depth, size, 2000 * min(depth, 16))
                    system.count = max(1000, int(probe.rate * options.run_seconds / depth) * depth)
                    row[system.name] = []
                for _ in range(options.repeat):
                    for system in farm.systems:
                        row[system.name].append(benchmark(system, command, depth, size, system.count))
                results[size, depth, command] = {name: median(samples) for name, samples in row.items()}
                print_row(size, depth, command, results[size, depth, command])
    return results


# ---- showing -----------------------------------------------------------------------------------------------------

def print_row(size, depth, command, row):
    print('\n%s, %d B, -P %d' % (command.upper(), size, depth))
    for name, sample in row.items():
        print('  %-12s CPU µs/request: %-18s  %9.0f/s  p50 %.2f ms  p99 %.2f ms'
              % (name, ' + '.join('%.2f' % us for us in sample.cpu_us), sample.rate, sample.p50, sample.p99))
    sys.stdout.flush()


def targets(results, small, ordinary):
    """[(sentence, measured, limit, is_met)] for the sizes that were measured: the proxy's at `small`, where its work is the
    most of a request; the backend's at `ordinary`."""
    rows = []

    def ratio(depth, peer, limit):
        for command in ('set', 'get'):
            row = results.get((small, depth, command), {})
            if 'scree-proxy' in row and peer in row:
                measured = row['scree-proxy'].cpu_us[0] / row[peer].cpu_us[0]
                rows.append(('scree-proxy CPU / %s CPU, %s -P %d' % (peer, command.upper(), depth), '%.2f' % measured,
                             '≤ %.2f' % limit, measured <= limit))
    ratio(1, 'haproxy', 0.75)
    ratio(16, 'haproxy', 1.1)
    ratio(64, 'haproxy', 1.6)
    ratio(16, 'nutcracker', 0.4)
    ratio(64, 'nutcracker', 0.4)
    for command, limit in (('set', 8), ('get', 5)):
        sample = results.get((ordinary, 16, command), {}).get('backend')
        if sample:
            rows.append(('scree-backend CPU µs per %s, -P 16' % command.upper(), '%.2f' % sample.cpu_us[0],
                         '≤ %d' % limit, sample.cpu_us[0] <= limit))
            if command == 'set':
                rows.append(('scree-backend SET/s, -c 50 -P 16, durability = always', '%.0f' % sample.rate, '≥ 60000',
                             sample.rate >= 60000))
    return rows


CPU = 'CPU µs per request', lambda sample: ' + '.join('%.2f' % us for us in sample.cpu_us)


def table(results, cell):
    names = list(next(iter(results.values())))
    lines = ['| | ' + ' | '.join(names) + ' |', '|---' * (len(names) + 1) + '|']
    for (size, depth, command), row in results.items():
        lines.append('| %s %d B, -P %d | %s |' % (command.upper(), size, depth, ' | '.join(cell(row[name]) for name in names)))
    return lines


def tls_section(results, options):
    lines = ['## TLS', '', 'CPU µs per request on %s, load average before the run %.1f, each figure one run of about %.1f s'
             % (datetime.date.today().isoformat(), options.load, options.run_seconds),
             '(`tests/bench/bench_requests.py --tls`). The handshakes of its %d clients are part of it. TLS 1.3, P-256' % CLIENTS,
             'certificates, who connects shows one too; `scree-tls` speaks TLS on both hops.', '']
    return '\n'.join(lines + table(results, CPU[1])) + '\n'


def section_of(path):
    """Where the page's section on TLS, its last, begins; and the page."""
    with open(path) as file:
        page = file.read()
    at = page.find('\n## TLS\n')
    return (at + 1 if at >= 0 else len(page)), page


def markdown(results, options):
    lines = [options.heading]
    lines += ['%d clients, keys out of %d, each figure the median of %d runs of about %.1f s. Two figures of CPU are '
              'those of the front process and of the one behind it.' % (CLIENTS, KEYSPACE, options.repeat,
                                                                       options.run_seconds), '',
              '## Against the targets', '', '| | measured | target | |', '|---|---|---|---|']
    lines += ['| %s | %s | %s | %s |' % (text, measured, limit, 'met' if met else '**missed**')
              for text, measured, limit, met in targets(results, *options.sizes[:2])]
    for title, cell in (CPU,
                        ('Requests per second', lambda sample: '%.0f' % sample.rate),
                        ('Latency p50 / p99, ms', lambda sample: '%.2f / %.2f' % (sample.p50, sample.p99))):
        lines += ['', '## ' + title, ''] + table(results, cell)
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--quick', action='store_true', help='two sizes, short runs; writes nothing')
    parser.add_argument('--tls', action='store_true', help='what TLS costs, 64 B; writes that section only')
    parser.add_argument('--systems')
    parser.add_argument('--output', default=os.path.join(FOLDER, 'requests.md'))
    options = parser.parse_args()
    options.sizes, options.depths = ([16, 64], [1, 16, 64]) if options.quick else ([16, 64, 1024], [1, 16, 64])
    if options.tls:
        options.sizes, options.depths = [64], [1, 16]
    options.repeat, options.run_seconds = (1, 1.5) if options.tls else (1, 0.7) if options.quick else (3, 1.0)
    options.load = os.getloadavg()[0]
    wanted = options.systems.split(',') if options.systems else TLS_SYSTEMS if options.tls else SYSTEMS
    options.heading = heading('Requests through Scree and its peers', 'tests/bench/bench_requests.py')
    if any(name in wanted for name in ('scree-proxy', 'backend', 'scree')) and is_sanitized(binary('scree-proxy')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder, wanted)
        try:
            results = measure(farm, options)
        finally:
            farm.stop()
    rows = [] if options.tls else targets(results, *options.sizes[:2])
    print('\nAgainst the targets:' if rows else '')
    for text, measured, limit, met in rows:
        print('  %-6s %-62s %10s  (%s)' % ('met' if met else 'MISSED', text, measured, limit))
    if not options.quick and wanted == (TLS_SYSTEMS if options.tls else SYSTEMS):
        at, page = section_of(options.output)
        page = page[:at] + tls_section(results, options) if options.tls else markdown(results, options) + '\n' + page[at:]
        with open(options.output, 'w') as file:
            file.write(page)
        print('\nwritten to %s' % options.output)
    return 0


if __name__ == '__main__':
    sys.exit(main())
