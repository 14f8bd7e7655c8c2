#!/usr/bin/python3
"""bench_job_queues.py - job queues with their default prefixes: a proxy over three shards, beside a redis-server with appendfsync always.

    programs of tests/integration/queue_libraries ─┬─► redis-server, appendonly yes, appendfsync always
                                                   └─► 1 proxy ─► 3 shards, one process each, durability = always

Every program prints how long each of its steps took, and checks the results. Both systems run it in turn, --repeat times, on empty servers; the
ratio of a step is the median of the ratios of the pairs, which were measured one after the other. BullMQ and Bull come from npm, rq and Celery are
Debian's; what is not installed is left out, and dramatiq, which Debian lacks, has its requests. One by one is latency; at once is what transactions on the
same keys cost each other.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

from rig import Farm
from support import TESTS
from support.cluster import Cluster, binary, is_sanitized
from support.harness import Skip
from support.node import installed

GOAL = 1.5
FOLDER = os.path.join(TESTS, 'integration', 'queue_libraries')
LIBRARIES = ('bullmq', 'bull', 'rq', 'celery', 'dramatiq')


@contextlib.contextmanager
def program(name):
    """The words that start the program of a library."""
    if name in ('bullmq', 'bull'):
        with installed(name) as folder:
            subprocess.run(['cp', os.path.join(FOLDER, name + '.js'), os.path.join(FOLDER, 'steps.js'), folder], check=True)
            yield ['node', os.path.join(folder, name + '.js')]
        return
    if name != 'dramatiq' and subprocess.run(['/usr/bin/python3', '-c', 'import ' + name], capture_output=True).returncode:
        raise Skip('%s is not installed' % name)
    yield ['/usr/bin/python3', os.path.join(FOLDER, 'dramatiq_calls.py' if name == 'dramatiq' else name + '_jobs.py')]


def play(words, address, jobs):
    done = subprocess.run([*words, *map(str, address), str(jobs)], capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise RuntimeError('%s: %s' % (words[-1], done.stderr[-1000:]))
    return json.loads(done.stdout.splitlines()[-1])


def on_redis(words, jobs):
    with tempfile.TemporaryDirectory(prefix='scree-queues-') as folder:
        farm = Farm(folder)
        try:
            return play(words, farm.redis_log('always').address, jobs)
        finally:
            farm.stop()


def on_shards(words, jobs):
    """The steps, and the CPU seconds of all four processes."""
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        steps = play(words, cluster.proxies[0].address, jobs)
        return steps, sum(process.cpu_seconds() for process in cluster.backends + cluster.proxies)


def measure(name, words, options):
    theirs, ours, cpu = [], [], []
    for _ in range(options.repeat):
        theirs.append(on_redis(words, options.jobs))
        steps, seconds = on_shards(words, options.jobs)
        ours.append(steps)
        cpu.append(seconds)
    print('%s, %d jobs; load %.1f, CPU of proxy and shards %.1f s' % (name, options.jobs, os.getloadavg()[0], statistics.median(cpu)))
    for step in theirs[0]:
        ratio = statistics.median(mine[step] / his[step] for mine, his in zip(ours, theirs))
        print('  %-34s %9.3f s %9.3f s %8.2f %s' % (step, statistics.median(his[step] for his in theirs),
                                                    statistics.median(mine[step] for mine in ours), ratio, '' if ratio <= GOAL else 'over %.1f' % GOAL))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--jobs', type=int, default=2000)
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--libraries', default=' '.join(LIBRARIES))
    options = parser.parse_args()
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    print('step, redis-server, proxy over three shards, ratio')
    for name in options.libraries.split():
        try:
            with program(name) as words:
                measure(name, words, options)
        except Skip as reason:
            print('%s: left out, %s' % (name, reason))
    return 0


if __name__ == '__main__':
    sys.exit(main())
