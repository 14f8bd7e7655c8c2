#!/usr/bin/python3
"""Machines whose clocks differ: keys live as long as their TTL says, whichever shards a command, a transaction or a move uses."""

import time

from support.clock import SkewedClock
from support.cluster import Cluster
from support.harness import Suite, check, wait_for
from support.moves import wait_settled

MINUTE_S = 60
TTL_S = 30
SLACK_MS = 2000  # by which a TTL may be shorter than by this machine's clock
ERROR_MS = 1000  # shards know each other's clocks but for half of a round trip, in which a machine may stop a program

suite = Suite(__doc__)


class Skewed(Cluster):
    """Backends of one partition each; `ahead`: seconds by which the clock of each is ahead."""

    def __init__(self, ahead):
        super().__init__(backends=len(ahead), partitions=1, linked=True)
        self.clocks = [SkewedClock(backend, ahead_s) for backend, ahead_s in zip(self.backends, ahead)]

    def skew_seconds(self, index):
        page = self.backends[index].http('/metrics')[1]
        return float(page.split('\nscree_backend_clock_skew_seconds ')[1].split('\n')[0])


def check_ttl(client, key, since):
    """The key has got its TTL after this time.monotonic()."""
    found = client.get('PTTL', key)
    passed_ms = (time.monotonic() - since) * 1000
    check(-SLACK_MS < found - TTL_S * 1000 + passed_ms, '%s lives %d ms more, after %d ms of %d s' % (key, found, passed_ms, TTL_S))
    check(found <= TTL_S * 1000 + ERROR_MS, '%s lives %d ms, not up to %d s' % (key, found, TTL_S))


def check_all_ways(cluster):
    """TTLs that are made at one shard and kept by another."""
    with cluster.connect() as client:
        for home in range(len(cluster.backends)):
            begun = time.monotonic()
            away = (home + 1) % len(cluster.backends)
            here, there = cluster.key_on(home, 'here'), cluster.key_on(away, 'there')
            client.get('SET', here, 'v', 'EX', TTL_S)
            client.get('RENAME', here, there)
            check_ttl(client, there, begun)
            client.get('EVAL', "for i = 1, 2 do redis.call('SET', KEYS[i], 'v', 'EX', ARGV[1]) end", 2, here, there, TTL_S)
            check_ttl(client, here, begun)
            check_ttl(client, there, begun)
            client.get('MULTI')
            for key in (here, there):
                client.get('SET', key, 'v')
                client.get('EXPIRE', key, TTL_S)
            client.get('EXEC')
            check_ttl(client, here, begun)
            check_ttl(client, there, begun)
            client.get('COPY', here, there, 'REPLACE')
            check_ttl(client, there, begun)
            client.get('DEL', here, there)


@suite.case('a TTL is right whichever shards a command uses, when one clock is a minute ahead')
def _(run):
    for ahead in ([0, MINUTE_S], [0, 0, MINUTE_S], [0, -MINUTE_S, 0]):
        with Skewed(ahead) as cluster:
            check_all_ways(cluster)


@suite.case('scripts on all shards read the same time')
def _(run):
    with Skewed([0, MINUTE_S, 0]) as cluster, cluster.connect() as client:
        times = [int(client.get('EVAL', "return redis.call('TIME')[1]", 1, cluster.key_on(shard))) for shard in range(3)]
        check(max(times) - min(times) < 20, 'the shards read %r' % times)


@suite.case('keys keep their TTL when their slots move to a shard with another clock, and stream ids grow')
def _(run):
    with Skewed([0, MINUTE_S]) as cluster, cluster.connect() as client:
        key, stream = cluster.key_on(0, 'moved'), cluster.key_on(0, 'stream')
        begun = time.monotonic()
        client.get('SET', key, 'v', 'EX', TTL_S)
        first = client.get('XADD', stream, '*', 'f', 'v')
        cluster.write_shards(['0', '1-16383'])
        wait_settled(cluster)
        check_ttl(client, key, begun)
        second = client.get('XADD', stream, '*', 'f', 'v')
        check([int(part) for part in second.split(b'-')] > [int(part) for part in first.split(b'-')],
              '%r after %r' % (second, first))


@suite.case('a clock that is set while the cluster runs ends no key')
def _(run):
    with Skewed([0, 0, 0]) as cluster, cluster.connect() as client:
        keys, begun = [cluster.key_on(shard, 'kept') for shard in range(3)], time.monotonic()
        for key in keys:
            client.get('SET', key, 'v', 'EX', TTL_S)
        cluster.clocks[1].set(3600)
        wait_for(lambda: cluster.skew_seconds(1) > 3000, 'the wrong clock to be noticed')
        wait_for(lambda: b'clock_differs' in cluster.backends[1].log(), 'the log to say so')
        for key in keys:
            check_ttl(client, key, begun)
        check_all_ways(cluster)
        cluster.clocks[1].set(0)
        wait_for(lambda: abs(cluster.skew_seconds(1)) < 1, 'the clock to be right again')
        wait_for(lambda: b'clock_agrees' in cluster.backends[1].log(), 'the log to say so')


@suite.case('a backend that starts with a wrong clock deletes nothing')
def _(run):
    with Skewed([0, 0, 0]) as cluster, cluster.connect() as client:
        key, begun = cluster.key_on(2, 'kept'), time.monotonic()
        client.get('SET', key, 'v', 'EX', TTL_S)
        cluster.backends[2].kill9()
        cluster.clocks[2].set(3600)
        cluster.backends[2].start()
        wait_for(lambda: client.get('GET', key) == b'v', 'the proxy to reach the shard')
        check_ttl(client, key, begun)


@suite.case('INFO peers shows how wrong the clock of each shard is')
def _(run):
    with Skewed([0, MINUTE_S, 0]) as cluster, cluster.partition(0) as partition:
        def skew_ms():
            line = [line for line in partition.get('INFO', 'peers').split(b'\r\n') if line.startswith(b'peer_b1p0:')][0]
            return int(line.split(b'clock_skew_ms=')[1].split(b',')[0])
        wait_for(lambda: abs(skew_ms() - MINUTE_S * 1000) < 1000, 'the skew')
        wait_for(lambda: abs(cluster.skew_seconds(1) - MINUTE_S) < 1, 'the metric to show it')


suite.main()
