#!/usr/bin/python3
"""When the WAL is synced: with every batch (always), about once a second (everysec), or not at all (os)."""

import os
import time

from support.cluster import Cluster
from support.disk import FaultyDisk
from support.harness import Suite, check, wait_for

suite = Suite(__doc__)


def log_syncs(disk):
    """Number of syncs of WAL files so far."""
    logs = set()
    for folder, _, names in os.walk(disk.root):
        logs |= {os.stat(os.path.join(folder, name)).st_ino for name in names if name.endswith('.batches')}
    return sum(1 for line in disk.lines() if line[0] == 'S' and int(line.split()[1]) in logs)


def run_mode(durability, seconds, least=0):
    """Writes packets one after the other, so that a batch is nearly always in progress, for so long and until there are `least`
    syncs. Returns the numbers of syncs and packets, and the seconds that it took."""
    options = {'backend': {'durability': durability},
               'store': {'write-buffer': '1gb'}}  # a full write buffer would sync the WAL before its rows are applied
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, backend_options=options,
                                       disk=disk) as cluster:
        with cluster.partition(0) as client:
            client.get('SET', 'first', 'x')
            before, count, begun = log_syncs(disk), 0, time.monotonic()

            def is_over():
                nonlocal count
                client.pipeline([['SET', 'key:%d:%d' % (count, i), 'x' * 100] for i in range(50)])
                count += 1
                return time.monotonic() - begun >= seconds and log_syncs(disk) - before >= least
            wait_for(is_over, '%d syncs of the WAL' % least, pause=0)
            return log_syncs(disk) - before, count, time.monotonic() - begun


@suite.case('everysec: the WAL is synced about once a second under writes')
def _(run):
    syncs, count, seconds = run_mode('everysec', 5, least=2)
    run.note('%d syncs in %.1f s of %d packets' % (syncs, seconds, count))
    check(syncs <= 4 * seconds, '%d syncs in %.1f seconds' % (syncs, seconds))  # the store also syncs a WAL segment that it ends


@suite.case('always: every batch is synced; os: no batch is')
def _(run):
    always, count, _ = run_mode('always', 1)
    check(always >= count, '%d syncs of %d packets' % (always, count))
    never, count, _ = run_mode('os', 1)
    check(never == 0, '%d syncs of %d packets, although the system decides' % (never, count))


suite.main()
