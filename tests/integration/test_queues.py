#!/usr/bin/python3
"""Job queues as their authors ship them, with their default prefixes, over three shards: BullMQ, Bull, rq, Celery, and the requests of
dramatiq.
"""

import json
import os
import shutil
import subprocess

from support import TESTS
from support.cluster import Cluster
from support.harness import Skip, Suite, check, patience, sized
from support.node import installed

suite = Suite(__doc__)

FOLDER = os.path.join(TESTS, 'integration', 'queue_libraries')


def play(words, address, jobs):
    """{step: seconds} of the program, which checks its results itself."""
    done = subprocess.run([*words, *map(str, address), str(jobs)], capture_output=True, text=True, timeout=4 * patience())
    check(done.returncode == 0, '%s ended with %d: %s' % (words[-1], done.returncode, (done.stdout + done.stderr)[-1500:]))
    return json.loads(done.stdout.splitlines()[-1])


def over_shards(words):
    with Cluster(backends=3, partitions=1, linked=True) as cluster:
        play(words, cluster.proxies[0].address, sized(30, long=2000))


def node_program(name, folder):
    """A program of the folder in JavaScript, beside the packages that `folder` has."""
    for file in (name, 'steps.js'):
        shutil.copy(os.path.join(FOLDER, file), folder)
    return ['node', os.path.join(folder, name)]


def python_program(name, *packages):
    there = subprocess.run(['/usr/bin/python3', '-c', 'import ' + ', '.join(packages)], capture_output=True)
    if there.returncode:
        raise Skip('%s: not all of them are installed' % ', '.join(packages))
    return ['/usr/bin/python3', os.path.join(FOLDER, name)]


@suite.case('BullMQ')
def _(run):
    with installed('bullmq') as folder:
        over_shards(node_program('bullmq.js', folder))


@suite.case('Bull')
def _(run):
    with installed('bull') as folder:
        over_shards(node_program('bull.js', folder))


@suite.case('rq')
def _(run):
    over_shards(python_program('rq_jobs.py', 'rq'))


@suite.case('Celery')
def _(run):
    over_shards(python_program('celery_jobs.py', 'celery'))


@suite.case('the requests of dramatiq')
def _(run):
    over_shards(python_program('dramatiq_calls.py', 'redis'))


if __name__ == '__main__':
    suite.main()
