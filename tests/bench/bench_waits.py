#!/usr/bin/python3
"""bench_waits.py - what do clients that wait cost?

--waits clients give BLPOP through one proxy, each for a list of its own. Measured: the memory that each takes in the proxy
and in the backend beside that of an idle connection, the sockets of the backend, and the time from sending LPUSH on another
connection to the element at the client that waited for it.

    idle clients ──► all wait ──► --wakes times: LPUSH for one of them, its reply, it waits again
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
    parser.add_argument('--wakes', type=int, default=5000)


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
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, cluster.connect(timeout=60) as boss:
        proxy, backend = cluster.proxies[0], cluster.backends[0]
        waiters = [connect(proxy.address) for _ in range(count)]
        idle = [process.rss_bytes() for process in (proxy, backend)]
        for i, waiter in enumerate(waiters):
            waiter.sendall(encode(['BLPOP', 'list:%d' % i, '0']))
        wait_for(lambda: blocked(boss) == count, 'all to wait', 120)
        time.sleep(1)
        waiting = [process.rss_bytes() for process in (proxy, backend)]
        sender, chance, times = connect(proxy.address), random.Random(run.seed), []
        for _ in range(run.options.wakes):
            i = chance.randrange(count)
            times.append(wake(sender, waiters[i], i))
            waiters[i].sendall(encode(['BLPOP', 'list:%d' % i, '0']))
            wait_for(lambda: blocked(boss) == count, 'it to wait again', 60, 0.0001)
        times.sort()
        run.note('%d waits: %.0f bytes each in the proxy, %.0f in the backend; %d sockets of the backend; woken in %.0f us '
                 '(median), %.0f us (99 of 100)' % (count, (waiting[0] - idle[0]) / count, (waiting[1] - idle[1]) / count,
                                                    sockets_of(backend), times[len(times) // 2], times[len(times) * 99 // 100]))
        for waiter in waiters:
            waiter.close()


if __name__ == '__main__':
    suite.main()
