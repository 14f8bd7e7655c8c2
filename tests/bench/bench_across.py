#!/usr/bin/python3
"""bench_across.py - what commands, scripts and transactions with keys on several shards cost.

    load ──► 1 proxy ──► 3 shards, one process each, durability = always

A transaction writes a key on each of 1, 2 or 3 shards: MULTI, SET …, EXEC. The keys are random ones of --keys for each shard, so that
few transactions want the same key. Figures are CPU of all four processes, rate and latency; ratios are to the transaction
with as many keys on one shard, measured in turn with it. Besides: the same on one key that all clients want, the reservation of
bench_commands.py with its keys on all shards, SUNIONSTORE of two big sets on two shards, and one that lies on one shard.
"""

import argparse
import statistics
import sys
import time

from bench_commands import document
from rig import System, load, median, wait_until_quiet
from support.cluster import Cluster, binary, is_sanitized

SHARDS = 3
SELLERS = 64

RESERVATION = ("MULTI ; SETBIT seats:%(ev)s {n:20000} 1 ; SETBIT seats:%(ev)s {n:20000} 1 ; "
               "JSON.NUMINCRBY event:%(ev)s $.sections['D-3'].stats.available -2 ; "
               "JSON.NUMINCRBY event:%(ev)s $.sections['D-3'].stats.reserved 2 ; "
               "HSET booking:{s} seller s{c} section D-3 seats 17,18 ; EXPIRE booking:{s} 600 ; "
               "HSETNX timers:%(ev)s {s} 1700000000 ; ZADD index:%(ev)s 1700000000 {s} ; EXEC")


def transaction(cluster, shards, keys, name='key'):
    """A transaction with a key on each of these shards."""
    sets = ('SET %s%d{%s}:{k:%d} {x:64}' % (name, i, cluster.key_on(shard), keys) for i, shard in enumerate(shards))
    return ' ; '.join(['MULTI', *sets, 'EXEC'])


def exec_rows(cluster, system, options):
    print('%-34s %10s %10s %10s %10s %14s' % ('EXEC', 'CPU µs', 'rate /s', 'p50 µs', 'p99 µs', 'CPU, p50 ratio'))
    for clients in (1, 50):
        for count in (2, 3):
            homes = {'%d keys, one shard' % count: [0] * count, '%d keys, %d shards' % (count, count): list(range(count))}
            found = {title: [] for title in homes}
            for _ in range(options.repeat):
                for title, shards in homes.items():
                    found[title].append(load(system, transaction(cluster, shards, options.keys), depth=1, clients=clients,
                                             seconds=options.seconds))
            found = {title: median(samples) for title, samples in found.items()}
            base = next(iter(found.values()))
            for title, sample in found.items():
                print('%-34s %10.1f %10.0f %10.0f %10.0f %7.2f %6.2f'
                      % ('%s, %d client%s' % (title, clients, 's' * (clients > 1)), sample.cpu_us, sample.rate, sample.p50, sample.p99,
                         sample.cpu_us / base.cpu_us, sample.p50 / base.p50), flush=True)


def contention(cluster, system, options):
    for title, keys in (('one key that all want, and another', 1), ('one of 10 keys, and another', 10)):
        words = 'MULTI ; INCR hot{%s}:{n:%d} ; INCR other{%s}:{k:%d} ; EXEC' % (
            cluster.key_on(0), keys, cluster.key_on(1), options.keys)
        sample = median([load(system, words, depth=1, seconds=options.seconds) for _ in range(options.repeat)])
        print('%-34s %10.1f %10.0f %10.0f %10.0f' % (title, sample.cpu_us, sample.rate, sample.p50, sample.p99), flush=True)


def reservations(cluster, system, options):
    for events in (1, 8, SELLERS):
        with cluster.connect() as client:
            for event in range(events):
                client.call('JSON.SET', 'event:%d' % event, '$', document())
        words = RESERVATION % {'ev': '{c:%d}' % events}
        sample = median([load(system, words, depth=1, clients=SELLERS, seconds=options.seconds) for _ in range(options.repeat)])
        print('%-34s %10.1f %10.0f %10.0f %10.0f' % ('reservation, %d events' % events, sample.cpu_us, sample.rate, sample.p50,
                                                     sample.p99), flush=True)


def cpu_ms(system):
    """CPU of the system so far, once it has nothing more to do."""
    wait_until_quiet(system)
    return sum(process.cpu_seconds() for process in system.processes) * 1000


def unions(cluster, system, options):
    near, far = cluster.key_on(0), cluster.key_on(1)
    # half of the members of `half` are also in `set`
    firsts = {'set{%s}' % near: 0, 'half{%s}' % near: options.members // 2, 'half{%s}' % far: options.members // 2}
    with cluster.connect(timeout=300) as client:
        for name, first in firsts.items():
            for member in range(first, first + options.members, 1000):
                client.call('SADD', name, *range(member, member + 1000))
        found = {}
        for _ in range(options.repeat):
            for title, other in (('one shard', near), ('two shards', far)):
                before, began = cpu_ms(system), time.perf_counter()
                client.get('SUNIONSTORE', 'union{%s}' % near, 'set{%s}' % near, 'half{%s}' % other)
                took = time.perf_counter() - began
                found.setdefault(title, []).append((cpu_ms(system) - before, took * 1000))
        for title, samples in found.items():
            print('SUNIONSTORE of two sets of %d, %s: CPU %.0f ms, latency %.0f ms'
                  % (options.members, title, *(statistics.median(column) for column in zip(*samples))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--keys', type=int, default=100000, help='for each shard (default 100000)')
    parser.add_argument('--members', type=int, default=100000, help='of each set of SUNIONSTORE')
    parser.add_argument('--seconds', type=float, default=2.0)
    parser.add_argument('--repeat', type=int, default=5)
    parser.add_argument('--parts', default='exec contention reservations unions')
    options = parser.parse_args()
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True) as cluster:
        proxy = cluster.proxies[0]
        system = System(proxy, cluster.backends)
        system.port = proxy.address[1]
        if 'exec' in options.parts:
            exec_rows(cluster, system, options)
        if 'contention' in options.parts:
            contention(cluster, system, options)
        if 'reservations' in options.parts:
            reservations(cluster, system, options)
        if 'unions' in options.parts:
            unions(cluster, system, options)
    return 0


if __name__ == '__main__':
    sys.exit(main())
