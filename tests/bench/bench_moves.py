#!/usr/bin/python3
"""bench_moves.py - what clients notice while half of the keys move to another shard, and how fast they move.

    load ──► 1 proxy ──► 2 shards, one process each, durability = everysec

All keys are on the first shard, then half of the slots go to the second one, and back, with each --rates of migration-rate in turn. A load
of GETs and SETs of random keys runs before, during and after each move: in a closed loop (throughput), and at a steady rate
(latency, counted from the moment at which a request should have been sent). "During" is made of loads of one second, of which the last one may end after the move.

MB/s are the bytes of the moved keys and values, by the time until both shards say that they have what the map gives them and have
deleted the rest. The last line has the bounces of requests after the last move.

    bench_moves.py                     4 M keys of 100 bytes: takes minutes, on a quiet machine
    bench_moves.py --quick             40 000 keys, to see whether it works
"""

import argparse
import json
import os
import subprocess
import sys
import time

from rig import System, wait_until_quiet
from support.cluster import Cluster, binary, is_sanitized, metric
from support.harness import check_equal, wait_for
from support.moves import is_settled

ALL, HALVES = ['0-16383', ''], ['0-8191', '8192-16383']
SLICE = 1.0  # seconds of a load during a move
HEAD = '%-26s %12s %10s %10s %10s'


class Figures:
    """The sum of several runs of the load."""

    def __init__(self, runs):
        self.units = sum(run['units'] for run in runs)
        self.seconds = sum(run['seconds'] for run in runs)
        self.errors = sum(run['errors'] for run in runs)
        counts = {}
        for run in runs:
            for usec, count in run['histogram']:
                counts[usec] = counts.get(usec, 0) + count
        self.counts = sorted(counts.items())

    def quantile(self, share):
        left = share * sum(count for _, count in self.counts)
        for usec, count in self.counts:
            left -= count
            if left <= 0:
                return usec
        return 0

    def row(self, title):
        return '%-26s %10.0f/s %7.0f µs %7.0f µs %7.0f µs%s' % (
            title, self.units / self.seconds, self.quantile(0.5), self.quantile(0.99), self.quantile(0.999),
            '  %d ERRORS' % self.errors if self.errors else '')


def start_load(cluster, options, seconds, rate, words=None, count=0):
    program = os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load')
    words = words or 'GET key:{k:%d} ; SET key:{k:%d} {x:%d}' % (options.keys, options.keys, options.bytes)
    command = [program, '--port', cluster.proxies[0].port, '--clients', options.clients, '--depth', 1, '--seconds', seconds,
               '--count', count, '--rate', rate, '--', *words.split()]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(running):
    out, error = running.communicate(timeout=3600)
    if running.returncode:
        raise RuntimeError('load: %s' % error.decode())
    return json.loads(out)


def run_load(cluster, options, **how):
    return finish(start_load(cluster, options, **how))


def move_under_load(cluster, options, slots, rate):
    """Moves slots while the load runs. Returns the runs of the load, and the seconds of the move."""
    cluster.write_shards(slots)
    for process in cluster.backends + cluster.proxies:
        process.signal(1)
    began, runs = time.monotonic(), []
    while not is_settled(cluster, (0, 1)):
        runs.append(run_load(cluster, options, seconds=0.2 if options.quick else SLICE, rate=rate))
    return runs, time.monotonic() - began


def move_alone(cluster, slots):
    """Seconds of a move without load."""
    cluster.write_shards(slots)
    for process in cluster.backends + cluster.proxies:
        process.signal(1)
    began = time.monotonic()
    wait_for(lambda: is_settled(cluster, (0, 1)), 'the move to end', 3600)
    return time.monotonic() - began


def set_rate(cluster, rate):
    for shard in (0, 1):
        with cluster.partition(shard) as partition:
            check_equal(partition.get('CONFIG', 'SET', 'migration-rate', rate), b'OK')


def bounces(cluster):
    return metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_bounces_total') or 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--keys', type=int, default=4000000)
    parser.add_argument('--bytes', type=int, default=100, help='of a value')
    parser.add_argument('--clients', type=int, default=20)
    parser.add_argument('--rate', type=int, default=5000, help='requests a second of the steady load')
    parser.add_argument('--seconds', type=float, default=10, help='of the loads before and after')
    parser.add_argument('--rates', default='10mb,50mb,0', help='of migration-rate; 0: no limit')
    options = parser.parse_args()
    if options.quick:
        options.keys, options.seconds, options.rate = 40000, 2, 1000
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    with Cluster(backends=2, partitions=1, proxies=1, linked=True, slots=ALL,
                 backend_options={'backend': {'durability': 'everysec'}}) as cluster:
        system = System(cluster.proxies[0], cluster.backends)
        run_load(cluster, options, seconds=0, rate=0, count=options.keys, words='SET key:{s} {x:%d}' % options.bytes)
        wait_until_quiet(system)
        measure(cluster, system, options)
    return 0


def measure(cluster, system, options):
    """Moves half of the keys with each rate: once alone, and under each kind of load."""
    mb = options.keys / 2 * (options.bytes + len('key:') + 12) / 1e6
    print('%d keys of %d bytes; half of them are %.0f MB with their names' % (options.keys, options.bytes, mb))
    places = [HALVES, ALL]
    for migration_rate in options.rates.split(','):
        set_rate(cluster, migration_rate)
        seconds = move_alone(cluster, places[0])
        places.reverse()
        print('\nmigration-rate %s: %.1f s without load, %.1f MB/s' % (migration_rate, seconds, mb / seconds))
        print(HEAD % ('', 'requests', 'p50', 'p99', 'p99.9'))
        for title, rate in (('closed loop', 0), ('%d a second' % options.rate, options.rate)):
            wait_until_quiet(system)
            print(Figures([run_load(cluster, options, seconds=options.seconds, rate=rate)]).row(title + ', before'), flush=True)
            runs, seconds = move_under_load(cluster, options, places[0], rate)
            places.reverse()
            print(Figures(runs).row('  during %.1f s, %.1f MB/s' % (seconds, mb / seconds)), flush=True)
            wait_until_quiet(system)
            print(Figures([run_load(cluster, options, seconds=options.seconds, rate=rate)]).row('  after'), flush=True)
    before = bounces(cluster)
    count = 1000000 if not options.quick else 20000
    run_load(cluster, options, seconds=0, rate=0, count=count)
    print('\nbounces of %d requests after the last move: %d (all moves: %d)' % (2 * count, bounces(cluster) - before, before))


if __name__ == '__main__':
    sys.exit(main())
