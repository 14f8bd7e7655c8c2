#!/usr/bin/python3
"""bench_restore.py - how long config/restore-slots takes to bring all keys of a backup back into a running cluster.

    load ──► 1 proxy ──► 3 shards, one process each, durability = everysec ──► backup, FLUSHALL, restore-slots

It prints the keys a second of each step: the restore into the scratch directory with the start of its backend and the CHECK together,
then the MOVE; and CPU µs for each key, of the shards and of restore-slots with its backend. The second run with --keep finds that the owners have all keys.

    SCREE_BIN=build/release tests/bench/bench_restore.py [--keys 1000000] [--bytes 100] [--rate 0]
"""

import argparse
import os
import subprocess
import tempfile
import time

from rig import System, load, wait_until_quiet
from support.cluster import Cluster
from support.harness import check_equal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')


def restore(cluster, catalog, *more):
    """Seconds until the keys were counted, and of the move; the lines."""
    command = ['/usr/bin/python3', '-u', os.path.join(ROOT, 'config/restore-slots'), '--config', cluster.backends[0].config_path,
               '--backup', os.path.join(catalog, 'whole'), '--slots', '0-16383', '--bin', os.environ['SCREE_BIN'],
               '--scratch', os.path.join(cluster.folder, 'scratch'), *more]
    begun, times, lines = time.monotonic(), [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if ' keys to restore' in line or line.startswith('restored:'):
                times.append(time.monotonic() - begun)
                lines.append(line.strip())
    check_equal(running.returncode, 0, 'restore-slots')
    return times[0], times[1] - times[0], lines


def show(name, cluster, catalog, keys, *more):
    def cpu_seconds():
        times = os.times()
        return sum(backend.cpu_seconds() for backend in cluster.backends), times.children_user + times.children_system
    before = cpu_seconds()
    first, move, lines = restore(cluster, catalog, *more)
    shards, tool = (after - then for after, then in zip(cpu_seconds(), before))
    print('%-10s restored and counted in %5.1f s (%7.0f keys/s), moved in %5.1f s (%7.0f keys/s), CPU µs/key: shards %.1f, tool %.1f: %s' % (
        name, first, keys / first, move, keys / move, shards * 1e6 / keys, tool * 1e6 / keys,
        '; '.join(lines)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keys', type=int, default=1000000)
    parser.add_argument('--bytes', type=int, default=100, help='of a value')
    parser.add_argument('--rate', default='0', help='of restore-slots')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as catalog:
        backends = {'backend': {'backup-dir': catalog, 'durability': 'everysec'}}
        with Cluster(backends=3, partitions=1, proxies=1, backend_options=backends, linked=True) as cluster:
            system, client = System(cluster.proxies[0], cluster.backends), cluster.connect(timeout=600)
            load(system, 'SET key:{s} {x:%d}' % options.bytes, seconds=0, count=options.keys)
            check_equal(client.get('SCREE', 'BACKUP', 'START', 'NAME', 'whole', 'WAIT'), b'whole')
            check_equal(client.get('FLUSHALL'), b'OK')
            wait_until_quiet(system)
            show('empty', cluster, catalog, options.keys, '--rate', options.rate)
            check_equal(client.get('DBSIZE'), options.keys, 'the keys')
            show('--keep', cluster, catalog, options.keys, '--keep', '--rate', options.rate)


if __name__ == '__main__':
    main()
