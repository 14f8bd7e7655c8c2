#!/usr/bin/python3
"""bench_json.py - cost of JSON commands on small documents: CPU of all threads per command; 50 clients, -P 16,
durability = os.

The documents are events of tests/integration/test_ticket.py with more sections; the value is in the last section. "by
tree" reads the value by a path that only the parsed tree supports. Medians of several runs, commands alternate.
"""

import argparse
import json
import statistics

from rig import System, load
from support.cluster import Cluster
from support.resp import Connection

EVENTS = 100
PLACE = "$.sections['D-9'].stats.available"
TREE = "$['sections','-']['D-9'].stats.available"


def document(sections):
    names = ['%s-%d' % ('ABCD'[i % 4], i) for i in range(sections - 1)] + ['D-9']
    return json.dumps({'name': 'event', 'sections': {
        name: {'price': 10.5 + i, 'stats': {'available': 120, 'reserved': 0, 'sold': 0}}
        for i, name in enumerate(names)}}).encode()


def commands(size):
    """{name: words for load.c}"""
    return {'SET of the text': 'SET text:{n:%d} {x:%d}' % (EVENTS, size),
            'GET of the text': 'GET text:{n:%d}' % EVENTS,
            'JSON.NUMINCRBY': 'JSON.NUMINCRBY event:{n:%d} %s 1' % (EVENTS, PLACE),
            'JSON.NUMINCRBY by tree': 'JSON.NUMINCRBY event:{n:%d} %s 1' % (EVENTS, TREE),
            'JSON.SET': 'JSON.SET event:{n:%d} %s 7' % (EVENTS, PLACE),
            'JSON.SET by tree': 'JSON.SET event:{n:%d} %s 7' % (EVENTS, TREE),
            'JSON.GET': 'JSON.GET event:{n:%d} %s' % (EVENTS, PLACE),
            'JSON.GET by tree': 'JSON.GET event:{n:%d} %s' % (EVENTS, TREE)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=20000, help='commands in a run')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--sections', type=int, default=20)
    options = parser.parse_args()
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'durability': 'os'}}) as cluster:
        backend = cluster.backends[0]
        connection = Connection(backend.addresses[0], 30, 2)
        for i in range(EVENTS):
            connection.get('JSON.SET', 'event:%d' % i, '$', document(options.sections))
        size = len(connection.get('JSON.GET', 'event:0'))
        print('%d bytes, CPU us per command' % size)
        figures = {}
        for _ in range(options.runs):
            for name, words in commands(size).items():
                figures.setdefault(name, []).append(load(System(backend), words, count=options.count).cpu_us)
        for name, found in figures.items():
            print('%-24s %6.1f' % (name, statistics.median(found)))


if __name__ == '__main__':
    main()
