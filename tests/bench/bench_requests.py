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

from page import FOLDER, heading
from rig import CLIENTS, Farm, System
from support.certs import Kit
from support.cluster import Process, binary, free_ports, is_sanitized

SYSTEMS = ['redis', 'nutcracker', 'haproxy', 'scree-proxy', 'backend', 'scree']
TLS_SYSTEMS = ['redis-tls', 'scree-proxy', 'proxy-tls', 'backend', 'backend-tls', 'scree', 'scree-tls']
KEYSPACE = 100000


class Peers(Farm):
    """The systems by name."""

    def __init__(self, folder, wanted):
        super().__init__(folder)
        self.kit, self.systems = Kit(folder) if any('tls' in name for name in wanted) else None, {}
        try:
            for name in wanted:
                self.systems[name] = getattr(self, 'start_' + name.replace('-', '_'))()
        except BaseException:
            self.stop()
            raise

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    def peer(self, name, words, port, redis):
        process = Process(name, words, self.folder, [port])
        process.port = port
        return System(self.start(process), [redis])

    def start_redis(self):
        return System(self.redis('redis-alone'))

    def start_nutcracker(self):
        redis, port = self.redis('redis-nutcracker'), free_ports()
        path = self.write('nutcracker.yml', 'bench:\n  listen: 127.0.0.1:%d\n  redis: true\n  hash: fnv1a_64\n'
                          '  distribution: ketama\n  servers:\n   - 127.0.0.1:%d:1\n' % (port, redis.port))
        return self.peer('nutcracker', ['nutcracker', '-c', path, '-s', str(free_ports()), '-o',
                                        os.path.join(self.folder, 'nutcracker.out')], port, redis)

    def start_haproxy(self):
        redis, port = self.redis('redis-haproxy'), free_ports()
        path = self.write('haproxy.cfg', 'global\n  nbthread 1\n  maxconn 2000\ndefaults\n  mode tcp\n'
                          '  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
                          'listen bench\n  bind 127.0.0.1:%d\n'
                          '  server redis 127.0.0.1:%d\n' % (port, redis.port))
        return self.peer('haproxy', ['haproxy', '-db', '-f', path], port, redis)

    def start_scree_proxy(self):
        redis = self.redis('redis-scree')
        return System(self.proxy('proxy-alone', [redis.address], secret=''), [redis])

    def start_backend(self):
        return System(self.backend('backend-alone', secret=''))

    def start_scree(self):
        backend = self.backend('backend-behind', partitions=2)
        return System(self.proxy('proxy-front', backend.addresses), [backend])

    # ---- TLS

    def tls_words(self):
        client = self.kit.client
        return ['--tls', '--cacert', self.kit.ca.cert, '--cert', client.cert, '--key', client.key]

    def start_redis_tls(self):
        port = free_ports()
        listening = [word for name, text in self.kit.listening().items() for word in ('--' + name, text)]
        redis = self.redis('redis-tls', ['--tls-port', str(port)] + listening)
        redis.port = port
        return System(redis, words=self.tls_words())

    def start_proxy_tls(self):
        redis = self.redis('redis-behind-tls')
        proxy = self.proxy('proxy-tls', [redis.address], secret='', tls=self.kit)
        return System(proxy, [redis], self.tls_words())

    def start_backend_tls(self):
        return System(self.backend('backend-tls', secret='', tls=self.kit), words=self.tls_words())

    def start_scree_tls(self):
        backend = self.backend('scree-tls-backend', partitions=2, tls=self.kit)
        proxy = self.proxy('scree-tls-proxy', backend.addresses, tls=self.kit, upstream=self.kit.connecting())
        return System(proxy, [backend], self.tls_words())


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
        raise RuntimeError('redis-benchmark against %s: %s' % (system.process.name, done.stdout + done.stderr))
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
                for name, system in farm.systems.items():
                    probe = benchmark(system, command, depth, size, 2000 * min(depth, 16))
                    system.count = max(1000, int(probe.rate * options.run_seconds / depth) * depth)
                    row[name] = []
                for _ in range(options.repeat):
                    for name, system in farm.systems.items():
                        row[name].append(benchmark(system, command, depth, size, system.count))
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
    """[(sentence, measured, limit, is_met)] for the measured sizes: the proxy's at `small`, where the proxy is the
    largest part of a request's cost; the backend's at `ordinary`."""
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
             '(`tests/bench/bench_requests.py --tls`). They include the handshakes of its %d clients. TLS 1.3, P-256' % CLIENTS,
             'certificates, also for clients; `scree-tls` uses TLS on both hops.', '']
    return '\n'.join(lines + table(results, CPU[1])) + '\n'


def section_of(path):
    """Where the page's last section, on TLS, begins; and the page."""
    with open(path) as file:
        page = file.read()
    at = page.find('\n## TLS\n')
    return (at + 1 if at >= 0 else len(page)), page


def markdown(results, options):
    lines = [options.heading]
    lines += ['%d clients, keys out of %d, each figure the median of %d runs of about %.1f s. Two figures of CPU are '
              'those of the proxy and of the server.' % (CLIENTS, KEYSPACE, options.repeat,
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
        farm = Peers(folder, wanted)
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
