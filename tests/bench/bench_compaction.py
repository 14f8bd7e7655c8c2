#!/usr/bin/python3
"""bench_compaction.py - the latency that compactions add for clients, and the effect of latency-target.

A backend (durability = always) holds rows of 1 KB, uncompressed, --mb in total. GETs of random keys and SETs are sent
by a schedule (load.c, open loop): first alone, then during repeated full compactions, alternately with [store]
latency-target = 0 and with the default.

    tests/bench/bench_compaction.py --mb 300 --seconds 15 --rounds 3
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from types import SimpleNamespace

from rig import Farm, info, wait_until_quiet
from support.cluster import binary
from support.resp import Connection

SIZE = 1000
QUANTILES = ('p50', 'p90', 'p99', 'max')


def load(port, *words):
    command = [os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load'), '--port', port] + list(words)
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)


def figures(child):
    return json.loads(child.communicate()[0])


def compact_on(port, is_over):
    """Runs one full compaction after the other."""
    with Connection(('127.0.0.1', port), 60) as client:
        while not is_over.wait(0.05):
            client.call('SCREE', 'COMPACT', 'START')
        client.call('SCREE', 'COMPACT', 'CANCEL')
        while 'idle' not in info(client, 'compaction_state'):
            is_over.wait(0.05)


def measure(port, client, title, options, target):
    is_over, thread = threading.Event(), None
    if target is not None:
        client.get('CONFIG', 'SET', 'store-latency-target', target)
        thread = threading.Thread(target=compact_on, args=(port, is_over))
        thread.start()
    passed, waited = (float(info(client, 'compaction_' + name)) for name in ('passed_bytes', 'waited_seconds'))
    keys = options.mb * 1000000 // SIZE
    gets = load(port, '--seconds', options.seconds, '--rate', options.gets, '--', 'GET', 'key:{k:%d}' % keys)
    sets = load(port, '--seconds', options.seconds, '--rate', options.sets, '--', 'SET', 'key:{k:%d}' % keys, '{x:%d}' % SIZE)
    found = [figures(child) for child in (gets, sets)]
    passed, waited = (float(info(client, 'compaction_' + name)) - before for name, before in
                      (('passed_bytes', passed), ('waited_seconds', waited)))
    is_over.set()
    if thread:
        thread.join()
    row = [figure[name] / 1000 for figure in found for name in QUANTILES] + [passed / options.seconds / 1e6, waited]
    show(title, row)
    return row


def show(title, row):
    print('%-24s' % title + ''.join('%9.2f' % cell for cell in row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--mb', type=int, default=300, help='of rows')
    parser.add_argument('--seconds', type=float, default=10, help='of each measurement')
    parser.add_argument('--rounds', type=int, default=2)
    parser.add_argument('--gets', type=int, default=2000, help='a second')
    parser.add_argument('--sets', type=int, default=500, help='a second')
    parser.add_argument('--target', default='20ms', help='latency-target')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            backend = farm.backend('compaction', 'always', {'compression': 'none', 'block-cache': '32mb', 'row-cache': '8mb'})
            port = backend.port
            client = Connection(('127.0.0.1', port), 60)
            keys = options.mb * 1000000 // SIZE
            figures(load(port, '--clients', 20, '--depth', 16, '--count', keys, '--', 'SET', 'key:{s}', '{x:%d}' % SIZE))
            print('%-24s' % 'ms' + ''.join('%9s' % name for name in [
                command + ' ' + name for command in ('GET', 'SET') for name in QUANTILES] + ['MB/s', 'waited s']))
            targets = {'no compaction': None, 'latency-target = 0': '0', 'latency-target = ' + options.target: options.target}
            found = {title: [] for title in targets}
            for _ in range(options.rounds):
                for title, target in targets.items():
                    wait_until_quiet(SimpleNamespace(processes=[backend]))
                    found[title].append(measure(port, client, title, options, target))
            print('medians')
            for title, rounds in found.items():
                show(title, [statistics.median(column) for column in zip(*rounds)])
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
