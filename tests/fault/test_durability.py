#!/usr/bin/python3
"""When the WAL is synced: with every batch (always), about once a second (everysec), or not at all (os)."""

import os
import time

from support.cluster import Cluster
from support.disk import FaultyDisk
from support.harness import SLOW, Suite, check, wait_for

suite = Suite(__doc__)


def log_syncs(disk, backend):
    """Number of syncs of WAL files so far."""
    logs = set()
    for folder, _, names in os.walk(disk.root):
        logs |= {os.stat(os.path.join(folder, name)).st_ino for name in names if name.endswith('.batches')}
    with open(disk.log) as file:
        return sum(1 for line in file if line[0] == 'S' and int(line.split()[1]) in logs)


def write_for(client, seconds):
    """Writes one request after the other, so that a batch is nearly always in progress; returns the number of writes."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        client.pipeline([['SET', 'key:%d' % (count + i), 'x' * 100] for i in range(50)])
        count += 50
    return count


def run_mode(durability, seconds):
    """The number of syncs during the writes, and of the writes."""
    options = {'backend': {'durability': durability},
               'store': {'write-buffer': '1gb'}}  # a full write buffer would sync the WAL before its rows are applied
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, backend_options=options,
                                       disk=disk) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.get('SET', 'first', 'x')
            before = log_syncs(disk, backend)
            count = write_for(client, seconds)
            during = log_syncs(disk, backend) - before
            if durability == 'everysec':
                wait_for(lambda: log_syncs(disk, backend) - before > during or during, 'the last second to be synced')
        return during, count


@suite.case('everysec: the WAL is synced about once a second under writes')
def _(run):
    syncs, count = run_mode('everysec', 5)
    run.note('%d syncs in 5 s of %d writes' % (syncs, count))
    check(2 <= syncs <= 20 * SLOW, '%d syncs in 5 seconds' % syncs)  # the store also syncs a WAL segment that it ends


@suite.case('always: every batch is synced; os: no batch is')
def _(run):
    always, count = run_mode('always', 1)
    check(always >= 10, '%d syncs of %d writes, 50 at a time' % (always, count))
    never, _ = run_mode('os', 1)
    check(never == 0, '%d syncs, although the system decides' % never)


suite.main()
