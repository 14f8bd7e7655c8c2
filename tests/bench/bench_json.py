#!/usr/bin/python3
"""What a JSON command on a small document costs: CPU of the process for each command, many sent at once.

The document is an event of tests/integration/test_ticket.py with more sections. "by tree" names the same value by a path
that only the tree can follow.
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Cluster
from resp import Connection

BATCH = 100
PLACE = b"$.sections['D-9'].stats.available"
TREE = b"$['sections','-']['D-9'].stats.available"


def document(sections):
    names = ['%s-%d' % ('ABCD'[i % 4], i) for i in range(sections - 1)] + ['D-9']
    return json.dumps({'name': 'event', 'sections': {
        name: {'price': 10.5 + i, 'stats': {'available': 120, 'reserved': 0, 'sold': 0}}
        for i, name in enumerate(names)}}).encode()


def cpu_us(pid):
    with open('/proc/%d/stat' % pid) as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf('SC_CLK_TCK')


def measure(connection, pid, args, count):
    before = cpu_us(pid)
    for _ in range(count // BATCH):
        for _ in range(BATCH):
            connection.send(*args)
        for _ in range(BATCH):
            connection.read()
    return (cpu_us(pid) - before) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=20000)
    parser.add_argument('--sections', type=int, default=20)
    options = parser.parse_args()
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        connection = Connection(backend.addresses[0], 30, 2)
        connection.get('JSON.SET', 'event', '$', document(options.sections))
        text = connection.get('JSON.GET', 'event')
        print('%d bytes, CPU us per command' % len(text))
        for name, args in (
                ('SET of the text', ('SET', 'text', text)),
                ('GET of the text', ('GET', 'text')),
                ('JSON.NUMINCRBY', ('JSON.NUMINCRBY', 'event', PLACE, '1')),
                ('JSON.NUMINCRBY by tree', ('JSON.NUMINCRBY', 'event', TREE, '1')),
                ('JSON.SET', ('JSON.SET', 'event', PLACE, '7')),
                ('JSON.SET by tree', ('JSON.SET', 'event', TREE, '7')),
                ('JSON.GET', ('JSON.GET', 'event', PLACE)),
                ('JSON.GET by tree', ('JSON.GET', 'event', TREE))):
            print('%-24s %6.1f' % (name, measure(connection, backend.pid, args, options.count)),
                  flush=True)


if __name__ == '__main__':
    main()
