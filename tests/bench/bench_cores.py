#!/usr/bin/python3
"""bench_cores.py - the CPU that a second partition, or a second worker of the proxy, adds to a request.

One partition (or worker) under load, then two under the same load each: sharing a process should cost nothing. CPU µs
per request of all threads, medians of alternating runs: if a request costs the same with two, throughput grows with the
cores.
"""

import argparse
import concurrent.futures
import statistics
import sys
import tempfile

from rig import Farm, System, load


class Door:
    """A port of a process whose CPU time is counted elsewhere."""

    def __init__(self, port):
        self.port, self.processes = port, []


def together(process, ports, words, seconds):
    """CPU µs of the process for each request, while all ports get requests at the same time."""
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
            one, two = farm.backend('one', 'os'), farm.backend('two', 'os', partitions=2)
            parts = (one, [one.port]), (two, [two.port, two.port + 1])
            for process, ports in parts:
                for port in ports:
                    load(System(process), 'SET key:{s} {x:64}', depth=64, count=100000)
            print('Partitions')
            for command in ('GET key:{k:100000}', 'SET key:{k:100000} {x:64}'):
                compare(command.split()[0] + ' -P 16', *parts, command, options)
            single, pair = farm.proxy('front-one', one.addresses), farm.proxy('front-two', one.addresses, workers=2)
            print('Workers of the proxy')
            for command in ('GET key:{k:100000}', 'SET key:{k:100000} {x:64}'):
                compare(command.split()[0] + ' -P 16', (single, [single.port]), (pair, [pair.port] * 2), command, options)
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
