#!/usr/bin/python3
"""bench_uncached.py - GETs of rows that are in no cache of the backend.

First, rows that the system's page cache has: GETs of values of 64 bytes out of --keys keys, with caches of a tenth of the data, beside
redis-server; CPU µs of all threads for each request. The goal is 2 x redis-server at -P 16.

Then rows on a disk, with and without reader threads, and their effect on GETs of cached rows: the data is ten times as big as the block
cache, and every read of a data file takes --read-us (support/disk.py).

  SCREE_BIN=build/test tests/bench/bench_uncached.py [--keys 600000] [--mb 320] [--read-us 500] [--seconds 4]
"""

import argparse
import random
import subprocess
import tempfile
import time

from page import busy_note, busy_share
from rig import Farm, System, in_turn
from support.cluster import Cluster
from support.disk import FaultyDisk
from support.resp import Connection

PAD = 'x' * 1012
HOT = 'hot'


def load(client, count):
    for start in range(0, count, 1000):
        client.pipeline([['SET', 'key:%012d' % i, '%012d%s' % (i, PAD)] for i in range(start, start + 1000)])


def benchmark(port, count, requests, clients=64):
    """GETs of uniformly distributed keys. Returns requests per second."""
    out = subprocess.run(['redis-benchmark', '-p', str(port), '-c', str(clients), '-n', str(requests), '-r', str(count),
                          '--csv', 'GET', 'key:__rand_int__'], capture_output=True, text=True, check=True).stdout
    return float(out.strip().splitlines()[-1].split(',')[1].strip('"'))


def hot_latencies(cluster, seconds):
    """(median, p99) in microseconds of a single client's GETs of one cached key."""
    with cluster.partition(0, 60) as client:
        client.call('SET', HOT, 'value')
        times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            client.call('GET', HOT)
            times.append(time.monotonic() - begun)
    times.sort()
    return times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6


def measure(options, threads):
    store = {'block-cache': '%dmb' % (options.mb // 10), 'row-cache': '1mb', 'compression': 'none',
             'reader-threads': threads}
    count = options.mb * 1000
    with FaultyDisk() as disk:
        cluster = Cluster(backends=1, partitions=1, proxies=0,
                          backend_options={'backend': {'durability': 'os'}, 'store': store}, disk=disk)
        backend = cluster.backends[0]
        with cluster:
            with cluster.partition(0, 60) as client:
                load(client, count)
            alone = hot_latencies(cluster, options.seconds)
            disk.delay_reads(options.read_us / 1e6)
            before = backend.cpu_seconds()
            requests = int(options.seconds * (12000 if threads else 1200))
            rate = benchmark(backend.port, count, requests)
            cpu_us = (backend.cpu_seconds() - before) * 1e6 / requests
            load_beside = subprocess.Popen(
                ['redis-benchmark', '-p', str(backend.port), '-c', '64', '-n', '100000000', '-r', str(count), '-q', 'GET',
                 'key:__rand_int__'], stdout=subprocess.DEVNULL)
            beside = hot_latencies(cluster, options.seconds)
            load_beside.kill()
            load_beside.wait()
            print('%2d threads  %6.0f GET/s  %3d reads at a time  CPU %5.1f us/GET   hot GET p50/p99: alone %.0f/%.0f us, '
                  'beside %.0f/%.0f us' % ((threads, rate, disk.get('reads_most'), cpu_us) + alone + beside), flush=True)
            disk.delay_reads(0)
    return rate


# ---- the page cache has the rows -----------------------------------------------------------------------------------

# a tenth of what 600 000 keys need; the memtable is small, so that rows leave it
SMALL = {'block-cache': 6, 'row-cache': 3, 'memtable': 2, 'write-buffer': 1}


def fill(system, count):
    """Values of words and digits, which compress as texts do."""
    draw = random.Random(1)
    with Connection(('127.0.0.1', system.port), 60) as client:
        for start in range(0, count, 1000):
            client.pipeline([['SET', 'key:%012d' % i, 'seat row block stand price %032x %05d' % (draw.getrandbits(128), i % 100000)]
                             for i in range(start, min(start + 1000, count))])


def measure_page_cache(options):
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        scale = max(0.25, options.keys / 600000)
        farm, store = Farm(folder), {name: '%dkb' % (mb * 1024 * scale) for name, mb in SMALL.items()}
        try:
            systems = {'scree': System(farm.backend('scree', durability='os', store=store, secret='')),
                       'redis': System(farm.redis('redis'))}
            for system in systems.values():
                fill(system, options.keys)
            print('page cache: %d keys, CPU µs per GET   %s' % (options.keys, busy_note(busy_share(1))), flush=True)
            for depth in (16, 1):
                found = in_turn(systems, 'GET key:{k:%d}' % options.keys, options.repeat, depth=depth, seconds=options.seconds / 2)
                scree, redis = found['scree'].cpu_us, found['redis'].cpu_us
                print('  -P %-2d  scree %.2f  redis %.2f  ratio %.2f' % (depth, scree, redis, scree / redis), flush=True)
        finally:
            farm.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keys', type=int, default=600000, help='rows in the page cache; 0: this part is left out')
    parser.add_argument('--repeat', type=int, default=3, help='of the part with the page cache')
    parser.add_argument('--mb', type=int, default=320)
    parser.add_argument('--read-us', type=int, default=500)
    parser.add_argument('--seconds', type=float, default=4)
    parser.add_argument('--threads', type=int, nargs='*', default=[0, 16, 32])
    options = parser.parse_args()
    if options.keys:
        measure_page_cache(options)
    rates = [measure(options, threads) for threads in options.threads]
    for threads, rate in zip(options.threads[1:], rates[1:]):
        print('%d threads: %.1f x one blocking reader' % (threads, rate / rates[0]))


if __name__ == '__main__':
    main()
