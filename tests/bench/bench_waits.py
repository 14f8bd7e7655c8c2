#!/usr/bin/python3
"""bench_waits.py - the cost of blocked clients.

--waits clients send BLPOP through one proxy over --shards shards. Each blocks on --keys lists of its own: the first is
on shard `client % shards`, the others on the shards after it, in turn. Measured: the additional memory of each in the
proxy and the backends compared with an idle connection, the sockets of the backends, the time from an LPUSH on another
connection to the blocked client's reply, and the CPU time for this.

    idle clients ──► all block ──► one after the other in random order: LPUSH for it, its reply

The proxy and this script each need a file descriptor per client: `ulimit -Hn` limits --waits.
"""

import itertools
import os
import random
import resource
import socket
import time

from support.cluster import SLOTS, Cluster, slot_of
from support.harness import Suite, check_equal, wait_for
from support.resp import encode

ELEMENT = b'x' * 32


def options(parser):
    parser.add_argument('--waits', type=int, default=5000)
    parser.add_argument('--shards', type=int, default=3)
    parser.add_argument('--keys', type=int, default=1, help='lists that each client waits for')


suite = Suite(__doc__, options)


def sockets_of(process):
    """The number of its open sockets."""
    folder = '/proc/%d/fd' % process.pid
    return sum(os.readlink(os.path.join(folder, name)).startswith('socket:') for name in os.listdir(folder))


def blocked(boss):
    lines = boss.get('INFO', 'clients').decode().split('\r\n')
    return int([line for line in lines if line.startswith('blocked_clients:')][0].split(':')[1])


def connect(address):
    client = socket.create_connection(address)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(encode(['PING']))
    client.recv(64)
    return client


def key_on(shard, shards, name):
    """A key that begins with `name`, on `shard` of `shards` that have equal ranges of slots."""
    low, high = SLOTS * shard // shards, SLOTS * (shard + 1) // shards
    return next(key for key in map((name + ':%d').__mod__, itertools.count()) if low <= slot_of(key) < high)


def lists_of(client, options):
    """The lists for which the client blocks."""
    return [key_on((client + i) % options.shards, options.shards, 'list:%d:%d' % (client, i)) for i in range(options.keys)]


def wake(sender, waiter, key):
    """Microseconds from LPUSH to the reply of the blocked BLPOP."""
    began = time.perf_counter()
    sender.sendall(encode(['LPUSH', key, ELEMENT]))
    answer = waiter.recv(256)
    took = time.perf_counter() - began
    check_equal(answer, encode([key, ELEMENT]))
    sender.recv(64)
    return took * 1e6


def memory(processes):
    return sum(process.rss_bytes() for process in processes)


def cpu_seconds(processes):
    return sum(process.cpu_seconds() for process in processes)


@suite.case('memory, sockets and the time to wake one of many')
def _(run):
    count = run.options.waits
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    lists = [lists_of(i, run.options) for i in range(count)]
    with Cluster(backends=run.options.shards, partitions=1, proxies=1,
                 proxy_options={'proxy': {'maxclients': 100000}}) as cluster, cluster.connect(timeout=60) as boss:
        sides = cluster.proxies, cluster.backends
        waiters = [connect(cluster.proxies[0].address) for _ in range(count)]
        idle = [memory(side) for side in sides]
        for waiter, keys in zip(waiters, lists):
            waiter.sendall(encode(['BLPOP', *keys, '0']))
        wait_for(lambda: blocked(boss) == count, 'all to wait', 120)
        time.sleep(1)
        waiting, sockets = [memory(side) for side in sides], sum(map(sockets_of, cluster.backends))
        sender, order, chance = connect(cluster.proxies[0].address), list(range(count)), random.Random(run.seed)
        chance.shuffle(order)
        cpu = [cpu_seconds(side) for side in sides]
        times = sorted(wake(sender, waiters[i], chance.choice(lists[i])) for i in order)
        cpu = [cpu_seconds(side) - before for side, before in zip(sides, cpu)]
        run.note('%d waits for %d keys each, %d shards: %.0f bytes each in the proxy, %.0f in the backends; %d sockets of these'
                 % (count, run.options.keys, run.options.shards, (waiting[0] - idle[0]) / count,
                    (waiting[1] - idle[1]) / count, sockets))
        run.note('woken in %.0f us (median), %.0f us (99 of 100); CPU for one: %.0f us of the proxy, %.0f us of the backends'
                 % (times[count // 2], times[count * 99 // 100], cpu[0] / count * 1e6, cpu[1] / count * 1e6))
        for waiter in waiters:
            waiter.close()


if __name__ == '__main__':
    suite.main()
