#!/usr/bin/python3
"""bench_sustained.py - are there pauses during long writing at a steady rate?

A backend (durability = always by default) gets SETs of 1 KiB over many keys, sent by a schedule (load.c, open loop),
while compactions run. A line of progress is printed every --every seconds. The result: duration, throughput, latency;
seconds with a commit over 100 ms, and the longest commit; stalls (seconds in which the engine delayed or stopped
writes); and the rate limit of compactions. A busy machine causes pauses of its own: an fsync on the same file system is
timed in parallel, and pauses in which this fsync was slow too are counted separately.

    tests/bench/bench_sustained.py --minutes 0.5 --rate 10000
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

from rig import Farm, info
from support.cluster import binary
from support.resp import Connection

PAUSE_MS = 100


class Neighbour(threading.Thread):
    """Other disk load on this machine: writes 4 KiB and syncs, ten times a second, and records when a sync was slow."""

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
    """How long the partition's and the commit thread were runnable without a CPU."""
    total = 0
    for thread in os.listdir('/proc/%d/task' % pid):
        folder = '/proc/%d/task/%s/' % (pid, thread)
        with open(folder + 'comm') as comm, open(folder + 'schedstat') as schedstat:
            if comm.read().startswith(('partition', 'commit')):
                total += int(schedstat.read().split()[1])
    return total / 1e9


class Watch:
    """Reads once a second how far the engine delays writes, and the current rate limit of compactions."""

    def __init__(self, client):
        self.client, self.begun, self.rates, self.paces, self.stalled, self.last = client, time.monotonic(), [], [], 0, None
        self.pauses = {}  # second: ms of its longest commit; the server keeps 160 of them

    def figure(self, name):
        return float(info(self.client, name))

    def look(self):
        rate, pace = self.figure('store_delayed_write_rate'), self.figure('compaction_pace_bytes_per_second')
        if rate:
            self.rates.append(rate)
        self.paces.append(pace)
        self.stalled += self.figure('store_stalled')
        for second, took in self.client.get('LATENCY', 'HISTORY', 'commit'):
            self.pauses[second] = max(took, self.pauses.get(second, 0))

    def tell(self):
        """Prints a line of progress: the changes since the last line."""
        now = [time.monotonic() - self.begun] + [self.figure(name) for name in (
            'total_commands_processed', 'compaction_passed_bytes', 'compaction_waited_seconds')]
        before, self.last = self.last or [0, 0, 0, 0], now
        took = now[0] - before[0]
        pace = self.paces[-1] if self.paces else 0
        print('%6.0f s  %7.0f commands/s  compactions %6.1f MB/s, pace now %s, waited %.1f s  level 0: %d files  '
              'seconds with commits over %d ms so far: %d' % (
            now[0], (now[1] - before[1]) / took, (now[2] - before[2]) / took / 1e6,
            '%.1f MB/s' % (pace / 1e6) if pace else 'free', now[3] - before[3], self.level0(),
                  PAUSE_MS, len(self.pauses)), flush=True)

    def level0(self):
        text = self.client.get('INFO', 'all').decode()
        return max(int(found) for found in re.findall(r'level0_files=(\d+)', text))

    def until(self, seconds, every, child):
        told = 0
        while time.monotonic() < self.begun + seconds and child.poll() is None:
            time.sleep(1)
            self.look()
            if time.monotonic() - self.begun >= told + every:
                told += every
                self.tell()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=30)
    parser.add_argument('--rate', type=int, default=6000, help='SETs a second')
    parser.add_argument('--size', type=int, default=1024)
    parser.add_argument('--keys', type=int, default=2000000)
    parser.add_argument('--durability', default='always')
    parser.add_argument('--every', type=float, default=30, help='seconds between lines of progress')
    parser.add_argument('--store', action='append', default=[], metavar='OPTION=VALUE', help='of [store], such as latency-target=0')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm, neighbour = Farm(folder), Neighbour(folder)
        try:
            backend = farm.backend('sustained', options.durability, dict(word.split('=', 1) for word in options.store))
            client = Connection(('127.0.0.1', backend.port), 60, 2)
            client.get('CONFIG', 'SET', 'latency-monitor-threshold', PAUSE_MS)
            neighbour.start()
            seconds = options.minutes * 60
            words = [os.path.join(os.path.dirname(binary('scree-backend')), 'bench', 'load'), '--port', backend.port,
                     '--seconds', seconds, '--rate', options.rate, '--', 'SET', 'key:{k:%d}' % options.keys,
                     '{x:%d}' % options.size]
            child = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
            watch = Watch(client)
            watch.until(seconds, options.every, child)
            figures = json.loads(child.communicate()[0])
            neighbour.is_ending = True
            watch.look()
            pauses = sorted(watch.pauses.items())
            alone = [pause for pause in pauses
                     if not any(begin - 2 <= pause[0] <= end + 1 for begin, end in neighbour.slow)]
            print('%.0f seconds, %.0f SETs/s of %d bytes (%d asked for), durability = %s' % (
                figures['seconds'], figures['units'] / figures['seconds'], options.size, options.rate, options.durability))
            print('  latency ms: p50 %.2f, p99 %.1f, p99.9 %.1f, max %.0f' % tuple(
                figures[name] / 1000 for name in ('p50', 'p99', 'p999', 'max')))
            print('  seconds with commits over %d ms: %d, of which %d while a neighbour\'s fsync was as quick as ever; the longest '
                  '%d ms' % (PAUSE_MS, len(pauses), len(alone), max([pause[1] for pause in pauses], default=0)))
            print('  seconds in which the neighbour\'s fsync took over %d ms: %d' % (PAUSE_MS, len(neighbour.slow)))
            print('  seconds in which the partition\'s two threads were ready and had no CPU: %.1f' % waited_seconds(backend.pid))
            print('  seconds in which the engine held writes back: %d, took none: %d' % (len(watch.rates), watch.stalled))
            held = [pace for pace in watch.paces if pace]
            print('  seconds in which compactions were held back: %d, to %.1f MB/s at least; they passed %.0f MB and waited %s s' % (
                len(held), min(held, default=0) / 1e6, watch.figure('compaction_passed_bytes') / 1e6,
                info(client, 'compaction_waited_seconds')))
            print('  commits %s, rows %s, disk %s bytes' % (info(client, 'commits'), info(client, 'commit_rows'),
                                                          info(client, 'store_disk_bytes')))
        finally:
            farm.stop()
    return 0


if __name__ == '__main__':
    sys.exit(main())
