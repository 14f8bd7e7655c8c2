#!/usr/bin/python3
"""bench_changes.py - what readers of changes cost at a shard, and how late they are.

1. events: keys are written, then all are read with one page after the other. Events a second of the CPU that the shard's thread of readers
   used (`feed`), and that of the partition's thread.
2. follow: SETs at a steady rate, with a reader that asks every 20 ms, as a proxy does, and without one, in turn: the CPU for each SET, of the
   process and of the threads that a reader may concern. The reader's keys say when they were sent: how late their events are.
3. writers: SET and LPUSH with change-log and without it, in turn: the CPU of the process for each.

CPU does not depend on what else runs on the machine; how late events are does.

    tests/bench/bench_changes.py --keys 200000 --rate 20000 --seconds 5 --repeat 5
"""

import argparse
import os
import statistics
import tempfile
import threading
import time

from rig import Farm, System, load
from support.resp import Connection

BATCH = 512
THREADS = ('partition-0', 'commit', 'feed')


def thread_seconds(pid, name):
    """CPU of the threads with this name, to the nanosecond."""
    total = 0
    for task in os.listdir('/proc/%d/task' % pid):
        folder = '/proc/%d/task/%s/' % (pid, task)
        with open(folder + 'comm', encoding='utf-8') as file:
            is_it = file.read().strip() == name
        with open(folder + 'schedstat', encoding='utf-8') as file:
            total += is_it * int(file.read().split()[0]) / 1e9
    return total


def set_all(connection, first, count, prefix=b'key'):
    for start in range(first, first + count, BATCH):
        connection.pipeline([['SET', b'%s:%d' % (prefix, number), b'v' * 64] for number in range(start, min(start + BATCH, first + count))])


def read_on(connection, position, *options):
    """The events, the next position, and the lag."""
    reply = connection.get('SCREE', 'CHANGES', 'READ', position, *options)
    return reply[1], reply[0], reply[2]


def measure_events(backend, keys):
    with Connection(backend.addresses[0]) as client:
        position = read_on(client, '$')[1]
        set_all(client, 0, keys)
        before = thread_seconds(backend.pid, 'feed'), backend.cpu_seconds()
        events, lag = 0, 1
        while lag:
            page, position, lag = read_on(client, position, 'COUNT', 20000, 'BYTES', 16 << 20)
            events += len(page)
        feed, whole = thread_seconds(backend.pid, 'feed') - before[0], backend.cpu_seconds() - before[1]
    print('events: %d, %.0f a second of CPU of the thread feed, %.0f of the process' % (events, events / feed, events / whole))


class Reader(threading.Thread):
    """Reads every 20 ms."""

    def __init__(self, backend):
        super().__init__(daemon=True)
        self.backend, self.is_over, self.late_ms = backend, threading.Event(), []

    def run(self):
        with Connection(self.backend.addresses[0]) as client:
            position = read_on(client, '$')[1]
            while not self.is_over.is_set():
                events, position, lag = read_on(client, position, 'COUNT', 20000, 'MATCH', 'at:*')
                now = time.monotonic()
                self.late_ms += [1000 * (now - float(event[3].split(b':')[1])) for event in events]
                time.sleep(0 if lag else 0.02)


def probe(backend, is_over):
    """Now and then a key that says when it was sent."""
    with Connection(backend.addresses[0]) as client:
        while not is_over.is_set():
            client.get('SET', 'at:%.6f' % time.monotonic(), 1)
            time.sleep(0.005)


def measure_follow(backend, options):
    costs, late = {True: [], False: []}, []
    parts = {True: [], False: []}
    for number in range(2 * options.repeat):
        reader = Reader(backend)
        prober = threading.Thread(target=probe, args=(backend, reader.is_over), daemon=True)
        threads = [reader, prober] if number % 2 else [prober]
        for thread in threads:
            thread.start()
        before = [thread_seconds(backend.pid, name) for name in THREADS]
        sample = load(System(backend), 'SET key:{k:100000} {x:64}', rate=options.rate, seconds=options.seconds, waits=False)
        used = [thread_seconds(backend.pid, name) - start for name, start in zip(THREADS, before)]
        parts[bool(number % 2)].append([1e6 * seconds / (sample.rate * options.seconds) for seconds in used])
        reader.is_over.set()
        for thread in threads:
            thread.join()
        costs[bool(number % 2)].append(sample.cpu_us)
        late += reader.late_ms
        rate = sample.rate
    with_reader, without = statistics.median(costs[True]), statistics.median(costs[False])
    for has_reader, name in ((True, 'with a reader'), (False, 'without')):
        medians = [statistics.median(figures) for figures in zip(*parts[has_reader])]
        print('follow: %s, µs for each SET: %s' % (name, ', '.join('%s %.3f' % pair for pair in zip(THREADS, medians))))
    late.sort()
    print('follow: %.0f SETs a second, %.2f µs of CPU each with a reader, %.2f without: %+.1f %%'
          % (rate, with_reader, without, 100 * (with_reader / without - 1)))
    print('follow: events are late by %.1f ms (p50), %.1f ms (p99), of %d' % (late[len(late) // 2], late[len(late) * 99 // 100], len(late)))


def measure_writers(on, off, options):
    for words in ('SET key:{k:100000} {x:64}', 'LPUSH list:{k:1000} {x:16}'):
        costs = {'on': [], 'off': []}
        for _ in range(options.repeat):
            for name, backend in (('on', on), ('off', off)):
                costs[name].append(load(System(backend), words, seconds=options.seconds).cpu_us)
        on_us, off_us = statistics.median(costs['on']), statistics.median(costs['off'])
        print('writers: %s %.2f µs with change-log, %.2f without: %+.1f %%' % (words.split()[0], on_us, off_us, 100 * (on_us / off_us - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--keys', type=int, default=500000)
    parser.add_argument('--rate', type=int, default=50000)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--repeat', type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            on = farm.backend('on', store={'change-log': '8gb'})
            off = farm.backend('off')
            print('load average %s' % ' '.join('%.1f' % number for number in os.getloadavg()))
            measure_events(on, options.keys)
            measure_follow(on, options)
            measure_writers(on, off, options)
        finally:
            farm.stop()


if __name__ == '__main__':
    main()
