#!/usr/bin/python3
"""bench_moves.py - what clients notice while half of the keys move to another shard, and how fast they move.

    load ──► 1 proxy ──► 2 shards, one process each, durability = everysec

All keys are on the first shard, then half of the slots go to the second one, and back, with each --rates of migration-rate in turn. A load
of GETs and SETs of random keys runs before, during and after each move: in a closed loop (throughput), and at a steady rate
(latency, counted from the moment at which a request should have been sent). "During" is made of loads of one second, of which the last one may end after the move.

MB/s are the bytes of the moved keys and values, by the time until both shards say that they have what the map gives them and have
deleted the rest. The last line has the bounces of requests after the last move.

Writes to slots wait while these are handed over: "frozen" is how long, of the moves with that rate.

CPU ms/MB is the CPU time of both shards for one MB that moves without load: it does not depend on who else uses the machine, and two
cores cannot move more than 2000 ms of it a second. The last line says how much of the CPUs others had: above a few percent,
throughput and latency mean nothing. What does not fit into --minutes is left out, and named.

    bench_moves.py                     4 M keys of 100 bytes: 8 minutes on a quiet machine with two cores, 12 at most
    bench_moves.py --bytes 1000 --keys 1000000
    bench_moves.py --quick             40 000 keys, to see whether it works
"""

import argparse
import collections
import json
import os
import re
import statistics
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


def start_load(cluster, options, seconds, rate, words=None, count=0, depth=1):
    program = os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load')
    words = words or 'GET key:{k:%d} ; SET key:{k:%d} {x:%d}' % (options.keys, options.keys, options.bytes)
    command = [program, '--port', cluster.proxies[0].port, '--clients', options.clients, '--depth', depth, '--seconds', seconds,
               '--count', count, '--rate', rate, '--', *words.split()]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Machine:
    """The CPU time that other processes have used since the begin."""

    def __init__(self, system):
        self.system, self.began = system, time.monotonic()
        self.before = self.used()

    def used(self):
        with open('/proc/stat') as file:
            numbers = [int(number) for number in file.readline().split()[1:9]]
        busy = (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf('SC_CLK_TCK')
        times = os.times()
        mine = times.user + times.system + times.children_user + times.children_system
        return busy - mine - sum(process.cpu_seconds() for process in self.system.processes)

    def minutes(self):
        return (time.monotonic() - self.began) / 60

    def line(self):
        share = 100 * (self.used() - self.before) / (60 * self.minutes() * os.cpu_count())
        return 'other processes used %.0f %% of the CPUs: the machine was %s' % (max(0, share), 'quiet' if share < 5 else 'BUSY')


def tell(text, *values):
    """Progress."""
    print(text % values, file=sys.stderr, flush=True)


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
    """Seconds of a move without load, and the CPU seconds of both shards."""
    before = sum(process.cpu_seconds() for process in cluster.backends)
    cluster.write_shards(slots)
    for process in cluster.backends + cluster.proxies:
        process.signal(1)
    began = time.monotonic()
    wait_for(lambda: is_settled(cluster, (0, 1)), 'the move to end', 3600, pause=0.05)
    return time.monotonic() - began, sum(process.cpu_seconds() for process in cluster.backends) - before


def set_rate(cluster, rate):
    """Into the files: shards read these with each new map, and forget what CONFIG SET has set."""
    for backend in cluster.backends:
        backend.options = dict(backend.options, backend=dict(backend.options['backend'], **{'migration-rate': rate}))
        backend.write_config()


def check_rate(cluster, rate):
    """After a move: had the shards this rate?"""
    for shard in (0, 1):
        with cluster.partition(shard) as partition:
            before = partition.get('CONFIG', 'GET', 'migration-rate')[1]
            check_equal(partition.get('CONFIG', 'SET', 'migration-rate', rate), b'OK')
            check_equal(partition.get('CONFIG', 'GET', 'migration-rate')[1], before, 'migration-rate')


def freezes(cluster):
    """How many groups of slots were frozen for how many milliseconds."""
    return collections.Counter(int(found) for backend in cluster.backends
                               for found in re.findall(rb'slots_released .* frozen_ms=(\d+)', backend.log()))


def freeze_line(found):
    return '  frozen, %d moves: min %d ms, median %.0f ms, max %d ms' % (
        len(found), min(found), statistics.median(found), max(found)) if found else '  no slots were frozen'


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
    parser.add_argument('--minutes', type=float, default=11, help='begin no further rate after that')
    parser.add_argument('--rates', default='0,10mb,50mb', help='of migration-rate; 0: no limit; in this order')
    options = parser.parse_args()
    if options.quick:
        options.keys, options.seconds, options.rate = 40000, 2, 1000
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    with Cluster(backends=2, partitions=1, proxies=1, linked=True, slots=ALL,
                 backend_options={'backend': {'durability': 'everysec'}}) as cluster:
        system = System(cluster.proxies[0], cluster.backends)
        machine = Machine(system)
        tell('writing %d keys', options.keys)
        run_load(cluster, options, seconds=0, rate=0, count=options.keys, words='SET key:{s} {x:%d}' % options.bytes, depth=16)
        wait_until_quiet(system)
        tell('written after %.1f minutes', machine.minutes())
        measure(cluster, system, options, machine)
        print('%.1f minutes; %s' % (machine.minutes(), machine.line()))
    return 0


def measure(cluster, system, options, machine):
    """Moves half of the keys with each rate: once alone, and under each kind of load."""
    mb = options.keys / 2 * (options.bytes + len('key:') + 12) / 1e6
    print('%d keys of %d bytes; half of them are %.0f MB with their names' % (options.keys, options.bytes, mb))
    places = [HALVES, ALL]
    for migration_rate in options.rates.split(','):
        if machine.minutes() > options.minutes:
            print('\nmigration-rate %s: left out, %.1f minutes are over' % (migration_rate, machine.minutes()))
            continue
        set_rate(cluster, migration_rate)
        frozen_before = freezes(cluster)
        seconds, cpu = move_alone(cluster, places[0])
        check_rate(cluster, migration_rate)
        places.reverse()
        print('\nmigration-rate %s: %.1f s without load, %.1f MB/s, CPU %.0f ms/MB' % (migration_rate, seconds, mb / seconds, 1000 * cpu / mb))
        tell('moved without load after %.1f minutes', machine.minutes())
        print(HEAD % ('', 'requests', 'p50', 'p99', 'p99.9'))
        for title, rate in (('closed loop', 0), ('%d a second' % options.rate, options.rate)):
            wait_until_quiet(system)
            print(Figures([run_load(cluster, options, seconds=options.seconds, rate=rate)]).row(title + ', before'), flush=True)
            runs, seconds = move_under_load(cluster, options, places[0], rate)
            places.reverse()
            print(Figures(runs).row('  during %.1f s, %.1f MB/s' % (seconds, mb / seconds)), flush=True)
            wait_until_quiet(system)
            print(Figures([run_load(cluster, options, seconds=options.seconds, rate=rate)]).row('  after'), flush=True)
            tell('migration-rate %s, %s: done after %.1f minutes', migration_rate, title, machine.minutes())
        print(freeze_line(sorted((freezes(cluster) - frozen_before).elements())))
    before = bounces(cluster)
    count = 1000000 if not options.quick else 20000
    run_load(cluster, options, seconds=0, rate=0, count=count)
    print('\nbounces of %d requests after the last move: %d (all moves: %d)' % (2 * count, bounces(cluster) - before, before))


if __name__ == '__main__':
    sys.exit(main())
