#!/usr/bin/python3
"""bench_uncached.py - GETs of rows on the disk, with and without reader threads, and their effect on GETs of cached
rows.

The data is ten times as big as the block cache. Every read of a data file takes --read-us (support/disk.py); otherwise
recently written rows would be read from the system's page cache.

  SCREE_BIN=build/test tests/bench/bench_uncached.py [--mb 320] [--read-us 500] [--seconds 4]
"""

import argparse
import subprocess
import time

from support.cluster import Cluster
from support.disk import FaultyDisk

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--mb', type=int, default=320)
    parser.add_argument('--read-us', type=int, default=500)
    parser.add_argument('--seconds', type=float, default=4)
    parser.add_argument('--threads', type=int, nargs='*', default=[0, 16, 32])
    options = parser.parse_args()
    rates = [measure(options, threads) for threads in options.threads]
    for threads, rate in zip(options.threads[1:], rates[1:]):
        print('%d threads: %.1f x one blocking reader' % (threads, rate / rates[0]))


if __name__ == '__main__':
    main()
