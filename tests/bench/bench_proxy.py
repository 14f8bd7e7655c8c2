#!/usr/bin/python3
"""bench_proxy.py - the proxy's cost for commands of many keys, and the cost of a second worker.

    MGET of 1000 keys ─► scree-proxy (1 worker) ─► 1 or 3 redis-servers      CPU µs of the proxy per key
    GET, SET          ─► scree-proxy (1 or 2 workers) ─► redis-server        CPU µs of the proxy per request

Two workers get twice as many clients, because a worker with fewer clients reads fewer requests in each poll.

The requests of a client are sent in a pipeline, and of the replies only the bytes are counted, so that the client's own
work does not matter. Runs alternate; each figure is the median. The figures are printed with their targets; nothing is
asserted.
"""

import argparse
import socket
import statistics
import sys
import tempfile

from bench_requests import benchmark
from rig import CLIENTS, Farm, System
from support.cluster import binary, is_sanitized
from support.resp import Connection, encode

KEYS, VALUE = 1000, 'v' * 16


def key(i):
    return 'key:%012d' % i


def systems(farm):
    """{name: System}; the proxy is the first process of each."""
    built = {}
    for name, shards, workers in (('1 shard', 1, 1), ('3 shards', 3, 1), ('2 workers', 1, 2)):
        servers = [farm.redis('redis-%s-%d' % (name.replace(' ', '-'), i)) for i in range(shards)]
        proxy = farm.proxy('proxy-' + name.replace(' ', '-'), [server.address for server in servers], secret='',
                           workers=workers)
        built[name] = System(proxy, servers)
    return built


def mget_us(system, rounds):
    """CPU µs of the proxy per key, for MGETs in pipelines of 10."""
    with Connection(('127.0.0.1', system.port), 60) as connection:
        connection.call(*['MSET'] + [word for i in range(KEYS) for word in (key(i), VALUE)])
    request = encode(['MGET'] + [key(i) for i in range(KEYS)]) * 10
    reply = encode([VALUE] * KEYS)  # an array of bulk strings, encoded like a request
    with socket.create_connection(('127.0.0.1', system.port)) as client:
        before = system.processes[0].cpu_seconds()
        for _ in range(rounds):
            client.sendall(request)
            left = len(reply) * 10
            while left:
                left -= len(client.recv(min(left, 1 << 20)))
        return (system.processes[0].cpu_seconds() - before) * 1e6 / (rounds * 10 * KEYS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--rounds', type=int, default=100, help='of 10 MGETs (default 100)')
    parser.add_argument('--requests', type=int, default=200000, help='of a run with GET or SET (default 200000)')
    parser.add_argument('--repeat', type=int, default=5)
    options = parser.parse_args()
    if is_sanitized(binary('scree-proxy')):
        print('this proxy was built with a sanitizer: the figures below are of no use')
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            built = systems(farm)
            for name in ('1 shard', '3 shards'):
                figures = [mget_us(built[name], options.rounds) for _ in range(options.repeat)]
                print('MGET of %d keys, %-9s CPU µs per key of the proxy %.3f   (target ≤ 0.2)'
                      % (KEYS, name + ':', statistics.median(figures)))
            for command in ('get', 'set'):
                for depth in (1, 16, 64):
                    cpu = {name: [] for name in ('1 shard', '2 workers')}
                    for _ in range(options.repeat):
                        for name in cpu:
                            count = options.requests if depth > 1 else options.requests // 4
                            clients = CLIENTS * (2 if name == '2 workers' else 1)
                            sample = benchmark(built[name], command, depth, 16, count, clients)
                            cpu[name].append(sample.cpu_us[0])
                    one, two = (statistics.median(cpu[name]) for name in ('1 shard', '2 workers'))
                    print('%s -P %-2d: CPU µs per request with 1 worker %.2f, with 2 %.2f: %.2f ×   (target ≤ 1)'
                          % (command.upper(), depth, one, two, two / one))
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
