#!/usr/bin/python3
"""bench_waits.py - what do clients that wait cost?

--waits clients give BLPOP through one proxy, each for a list of its own. Measured: the memory that each takes in the proxy
and in the backend beside that of an idle connection, the sockets of the backend, the time from sending LPUSH on another
connection to the element at the client that waited for it, and the CPU time that this takes.

    idle clients ──► all wait ──► one after the other by chance: LPUSH for it, its reply
"""

import os
import random
import resource
import socket
import time

from support.cluster import Cluster
from support.harness import Suite, wait_for
from support.resp import encode

ELEMENT = b'x' * 32


def options(parser):
    parser.add_argument('--waits', type=int, default=5000)


suite = Suite(__doc__, options)


def sockets_of(process):
    """Its open sockets."""
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


def wake(sender, waiter, i):
    """Microseconds from LPUSH to the reply of the BLPOP that waits."""
    began = time.perf_counter()
    sender.sendall(encode(['LPUSH', 'list:%d' % i, ELEMENT]))
    waiter.recv(256)
    took = time.perf_counter() - began
    sender.recv(64)
    return took * 1e6


@suite.case('memory, sockets and the time to wake one of many')
def _(run):
    count = run.options.waits
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'maxclients': 100000}}) as cluster, cluster.connect(timeout=60) as boss:
        proxy, backend = cluster.proxies[0], cluster.backends[0]
        waiters = [connect(proxy.address) for _ in range(count)]
        idle = [process.rss_bytes() for process in (proxy, backend)]
        for i, waiter in enumerate(waiters):
            waiter.sendall(encode(['BLPOP', 'list:%d' % i, '0']))
        wait_for(lambda: blocked(boss) == count, 'all to wait', 120)
        time.sleep(1)
        waiting, sockets = [process.rss_bytes() for process in (proxy, backend)], sockets_of(backend)
        sender, order = connect(proxy.address), list(range(count))
        random.Random(run.seed).shuffle(order)
        cpu = [process.cpu_seconds() for process in (proxy, backend)]
        times = sorted(wake(sender, waiters[i], i) for i in order)
        cpu = [process.cpu_seconds() - before for process, before in zip((proxy, backend), cpu)]
        run.note('%d waits: %.0f bytes each in the proxy, %.0f in the backend; %d sockets of the backend'
                 % (count, (waiting[0] - idle[0]) / count, (waiting[1] - idle[1]) / count, sockets))
        run.note('woken in %.0f us (median), %.0f us (99 of 100); CPU for one: %.0f us of the proxy, %.0f us of the backend'
                 % (times[count // 2], times[count * 99 // 100], cpu[0] / count * 1e6, cpu[1] / count * 1e6))
        for waiter in waiters:
            waiter.close()


if __name__ == '__main__':
    suite.main()
