#!/usr/bin/python3
"""bench_cores.py - what a second partition, or a second worker of the proxy, adds to the CPU of a request.

One partition (one worker) under load, then two under the same load each; nothing they share may cost. CPU µs per request,
all threads, medians of runs in turn: if two cost what one costs, throughput follows the cores.
"""

import argparse
import concurrent.futures
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Process, binary, free_ports, write_ini
from rig import Farm, System, load


def backend(farm, name, partitions):
    port, path = free_ports(partitions), os.path.join(farm.folder, name + '.ini')
    write_ini(path, [('backend', {'bind': '127.0.0.1', 'port': port, 'partitions': partitions, 'durability': 'os',
                                  'secret': 'bench-secret', 'data': os.path.join(farm.folder, name + '-data')})])
    process = Process(name, [binary('scree-backend'), '--config', path], farm.folder, [port + i for i in range(partitions)])
    process.port = port
    return farm.start(process)


def proxy(farm, name, workers, address):
    port, shards, path = free_ports(), os.path.join(farm.folder, name + '-s.ini'), os.path.join(farm.folder, name + '.ini')
    write_ini(shards, [('map', {'epoch': 1}), ('shard s0', {'slots': '0-16383', 'address': '127.0.0.1:%d' % address})])
    write_ini(path, [('proxy', {'listen': '127.0.0.1:%d' % port, 'admin': '', 'workers': workers, 'shards': shards}),
                     ('upstream', {'secret': 'bench-secret'})])
    process = Process(name, [binary('scree-proxy'), '--config', path], farm.folder, [port])
    process.port = port
    return farm.start(process)


class Door:
    """A port without processes of its own: their CPU is counted once, outside."""

    def __init__(self, port):
        self.port, self.processes = port, []


def together(process, ports, words, seconds):
    """CPU µs of the process for each request, when all ports are asked at the same time."""
    before = process.cpu_seconds()
    with concurrent.futures.ThreadPoolExecutor(len(ports)) as pool:
        samples = list(pool.map(lambda port: load(Door(port), words, seconds=seconds), ports))
    requests = sum(sample.rate * seconds for sample in samples)
    return (process.cpu_seconds() - before) * 1e6 / requests


def compare(title, one, two, words, options):
    figures = {1: [], 2: []}
    for _ in range(options.repeat):
        for count, (process, ports) in ((1, one), (2, two)):
            figures[count].append(together(process, ports, words, options.seconds))
    alone, both = (statistics.median(figures[count]) for count in (1, 2))
    print('  %-28s one %.2f µs, two %.2f µs: %.2f ×' % (title, alone, both, both / alone), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--repeat', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=0.7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            one, two = backend(farm, 'one', 1), backend(farm, 'two', 2)
            parts = (one, [one.port]), (two, [two.port, two.port + 1])
            for process, ports in parts:
                for port in ports:
                    load(System(process), 'SET key:{s} {x:64}', depth=64, count=100000)
            print('Partitions')
            for command in ('GET key:{k:100000}', 'SET key:{k:100000} {x:64}'):
                compare(command.split()[0] + ' -P 16', *parts, command, options)
            single, pair = proxy(farm, 'front-one', 1, one.port), proxy(farm, 'front-two', 2, one.port)
            print('Workers of the proxy')
            for command in ('GET key:{k:100000}', 'SET key:{k:100000} {x:64}'):
                compare(command.split()[0] + ' -P 16', (single, [single.port]), (pair, [pair.port] * 2), command, options)
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
