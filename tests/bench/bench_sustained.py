#!/usr/bin/python3
"""bench_sustained.py - writes for a long time at a steady rate: is there a pause?

A backend (durability = always unless told otherwise) gets SETs of 1 KiB over many keys, sent by a schedule (load.c, open
loop), while compaction has to follow. Shown: latency, commits that took longer than 100 ms, and whether the engine held writes
back. A busy machine makes pauses of its own: an fsync on the same file system is timed beside it, and pauses in which that
was slow too are counted apart.

    tests/bench/bench_sustained.py --minutes 30 --rate 10000
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from bench_commands import Farm
from cluster import binary
from resp import Connection

PAUSE_MS = 100


class Neighbour(threading.Thread):
    """Someone else on this machine: writes 4 KiB and syncs, ten times a second, and keeps when it was slow."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.slow, self.is_ending = folder, [], False

    def run(self):
        with open(os.path.join(self.folder, 'neighbour'), 'wb') as file:
            while not self.is_ending:
                begun = time.time()
                file.write(b'x' * 4096)
                file.flush()
                os.fdatasync(file.fileno())
                took = time.time() - begun
                if took * 1000 > PAUSE_MS:
                    self.slow.append((begun, begun + took))
                time.sleep(0.1)


def waited_seconds(pid):
    """How long the partition's and the commit thread were ready and had no CPU."""
    total = 0
    for thread in os.listdir('/proc/%d/task' % pid):
        folder = '/proc/%d/task/%s/' % (pid, thread)
        with open(folder + 'comm') as comm, open(folder + 'schedstat') as schedstat:
            if comm.read().startswith(('partition', 'commit')):
                total += int(schedstat.read().split()[1])
    return total / 1e9


def info(client, name):
    for line in client.get('INFO', 'all').decode().splitlines():
        if line.startswith(name + ':'):
            return line.split(':', 1)[1]
    return '0'


def watch(client, seconds, rates, child):
    """Once a second: how far the engine held writes back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and child.poll() is None:
        rate = int(info(client, 'store_delayed_write_rate'))
        if rate:
            rates.append(rate)
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--minutes', type=float, default=0.2)
    parser.add_argument('--rate', type=int, default=4000, help='SETs a second')
    parser.add_argument('--size', type=int, default=1024)
    parser.add_argument('--keys', type=int, default=2000000)
    parser.add_argument('--durability', default='always')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm, rates, neighbour = Farm(folder), [], Neighbour(folder)
        try:
            backend = farm.backend('sustained', options.durability)
            client = Connection(('127.0.0.1', backend.port), 60, 2)
            client.get('CONFIG', 'SET', 'latency-monitor-threshold', PAUSE_MS)
            neighbour.start()
            seconds = options.minutes * 60
            words = [os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load'), '--port', backend.port,
                     '--seconds', seconds, '--rate', options.rate, '--', 'SET', 'key:{k:%d}' % options.keys,
                     '{x:%d}' % options.size]
            child = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
            watch(client, seconds, rates, child)
            figures = json.loads(child.communicate()[0])
            neighbour.is_ending = True
            pauses = client.get('LATENCY', 'HISTORY', 'commit')
            alone = [pause for pause in pauses
                     if not any(begin - 2 <= pause[0] <= end + 1 for begin, end in neighbour.slow)]
            print('%.0f SETs/s of %d bytes for %.1f minutes, durability = %s' % (
                figures['units'] / figures['seconds'], options.size, options.minutes, options.durability))
            print('  latency ms: p50 %.2f, p99 %.1f, p99.9 %.1f, max %.0f' % tuple(
                figures[name] / 1000 for name in ('p50', 'p99', 'p999', 'max')))
            print('  seconds with commits over %d ms: %d, of which %d while a neighbour\'s fsync was as quick as ever; the longest '
                  '%d ms' % (PAUSE_MS, len(pauses), len(alone), max([pause[1] for pause in pauses], default=0)))
            print('  seconds in which the neighbour\'s fsync took over %d ms: %d' % (PAUSE_MS, len(neighbour.slow)))
            print('  seconds in which the partition\'s two threads were ready and had no CPU: %.1f' % waited_seconds(backend.pid))
            print('  seconds in which the engine held writes back: %d' % len(rates))
            print('  commits %s, rows %s, disk %s bytes' % (info(client, 'commits'), info(client, 'commit_rows'),
                                                          info(client, 'store_disk_bytes')))
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
