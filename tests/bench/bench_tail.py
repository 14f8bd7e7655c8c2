#!/usr/bin/python3
"""bench_tail.py - the slowest requests at 70 % load: Scree beside redis-server, alone and during compactions.

    scree        load.c ─► scree-backend (1 partition, durability = always)
    compacting   the same backend, while one full compaction follows the other
    redis        load.c ─► redis-server: in memory for GET, appendfsync always for SET

First each system's highest rate is measured, by 50 clients that wait for each reply. Then all systems get the same rate, 70 % of the
slower one's highest, by a schedule (open loop): the latency of a request counts from the time at which it was due, so a pause of
the server is part of it. The systems take turns; each figure is the median of the runs' quantiles, so one pause of the machine does
not decide it. Nothing is asserted. A full run writes docs/benchmarks/tail.md.

Pauses of the machine look like pauses of the servers. So before each table the share of the CPU that others use is measured, and for how
long a program that only reads the clock does not run: the page says when the machine was not quiet.

  SCREE_BIN=build/test tests/bench/bench_tail.py [--keys 1000000] [--seconds 10] [--repeat 5]       about 7 minutes
"""

import argparse
import os
import statistics
import tempfile
import threading

from bench_compaction import compact_on
from page import FOLDER, busy_note, busy_share, heading
from rig import Farm, System, load, wait_until_quiet
from support.machine import pauses

LOAD = 0.7  # of the highest rate
GOAL = 1.2  # p99.9, of redis-server's
SIZE = 64
HEAD = ['| | requests a second | p50 µs | p99 µs | p99.9 µs: median, lowest, highest run | longest µs | p99.9 / redis | |',
        '|---|---|---|---|---|---|---|---|']


def highest_rate(system, words, options):
    return statistics.median(load(system, words, depth=1, seconds=options.seconds / 5).rate for _ in range(3))


def run_once(name, systems, words, rate, options):
    if name != 'compacting':
        return load(systems[name], words, depth=1, seconds=options.seconds, rate=rate)
    system = systems['scree']
    wait_until_quiet(system)
    is_over = threading.Event()
    thread = threading.Thread(target=compact_on, args=(system.port, is_over))
    thread.start()
    try:
        return load(system, words, depth=1, seconds=options.seconds, rate=rate, waits=False)
    finally:
        is_over.set()
        thread.join()


def row(name, samples, redis):
    """`redis`: its p99.9."""
    def median(quantile):
        return statistics.median(getattr(sample, quantile) for sample in samples)
    tails = [sample.p999 for sample in samples]
    ratio = median('p999') / redis
    return [name, '%.0f' % median('rate'), '%.0f' % median('p50'), '%.0f' % median('p99'),
            '%.0f, %.0f, %.0f' % (median('p999'), min(tails), max(tails)), '%.0f' % median('longest'), '%.2f' % ratio,
            '' if name == 'redis' else 'goal %.1f, %s' % (GOAL, 'met' if ratio <= GOAL else '**missed**')]


def measure(title, systems, words, options):
    """Lines of the page."""
    share, (lost, longest) = busy_share(1), pauses(1)
    notes = [busy_note(share), 'A program that only read the clock for a second before this table did not run for %.1f %% of that second, at '
             'most %.1f ms at a time.' % (lost * 100, longest)]
    print('\n%s   %s' % (title, ' '.join(notes)), flush=True)
    rate = LOAD * min(highest_rate(system, words, options) for system in systems.values())
    samples = {name: [] for name in ('scree', 'compacting', 'redis')}
    for turn in range(options.repeat):
        for name, found in samples.items():
            found.append(run_once(name, systems, words, rate, options))
        print('  turn %d of %d: p99.9 µs %s' % (turn + 1, options.repeat, ', '.join(
            '%s %.0f' % (name, found[-1].p999) for name, found in samples.items())), flush=True)
    redis = statistics.median(sample.p999 for sample in samples['redis'])
    rows = [row(name, found, redis) for name, found in samples.items()]
    for cells in rows:
        print('  %-11s %8s/s  p50 %6s  p99 %7s  p99.9 %s  longest %s  p99.9 / redis %s  %s' % tuple(cells), flush=True)
    return ['## ' + title, '', notes[0], '', notes[1], ''] + HEAD + ['| %s |' % ' | '.join(cells) for cells in rows] + ['']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='50 000 keys, one short run of each; writes nothing')
    parser.add_argument('--keys', type=int, default=1000000)
    parser.add_argument('--seconds', type=float, default=10, help='of each run')
    parser.add_argument('--repeat', type=int, default=5)
    parser.add_argument('--output', default=os.path.join(FOLDER, 'tail.md'))
    options = parser.parse_args()
    if options.quick:
        options.keys, options.seconds, options.repeat = 50000, 1, 1
    lines = [heading('The slowest requests', 'tests/bench/bench_tail.py'),
             '%d keys, values of %d bytes, 50 clients, medians of %d runs of %.0f s.' % (
                 options.keys, SIZE, options.repeat, options.seconds), '']
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            scree, memory, log = (System(process) for process in (
                farm.backend('scree', secret=''), farm.redis('redis'), farm.redis_log('always')))
            for system in (scree, memory, log):
                load(system, 'SET key:{s} {x:%d}' % SIZE, depth=32, count=options.keys)
            for title, words, redis in (
                    ('GET', 'GET key:{k:%d}' % options.keys, memory),
                    ('SET, durable', 'SET key:{k:%d} {x:%d}' % (options.keys, SIZE), log)):
                lines += measure(title, {'scree': scree, 'redis': redis}, words, options)
                if not options.quick:
                    with open(options.output, 'w', encoding='utf-8') as file:
                        file.write('\n'.join(lines).rstrip().replace('\n\n\n', '\n\n') + '\n')
        finally:
            farm.stop()


if __name__ == '__main__':
    main()
