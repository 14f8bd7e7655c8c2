#!/usr/bin/python3
"""Segments of the WAL that are kept for readers of changes: within their limits, without a gap, and never in the way of
a writer."""

import os
import random
import signal
import struct

from support.cluster import Cluster, metric
from support.disk import SmallDisk
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import value

suite = Suite(__doc__)
VALUE = b'v' * 20000


def figures(backend):
    status, text = backend.http('/metrics')
    check_equal(status, 200)
    return (metric(text, 'scree_backend_store_change_log_bytes'),
            metric(text, 'scree_backend_store_change_log_oldest_timestamp_seconds'))


def write(client, rng, count=50):
    """Writes count times 20 kB to few keys; returns the number of writes that were taken."""
    replies = client.pipeline([['SET', 'k%d' % rng.randrange(20), VALUE] for _ in range(count)])
    return sum(value(reply) == b'OK' for reply in replies)


def segments(folder):
    """first index → path"""
    if not os.path.isdir(folder):
        return {}
    names = [name for name in os.listdir(folder) if name.endswith('.batches') and len(name) == 28]
    return {int(name[:20]): os.path.join(folder, name) for name in names}


def indexes(path):
    """Indexes of the consecutive records in a segment."""
    with open(path, 'rb') as file:
        data = file.read()
    at, found = 16, []
    while at + 28 <= len(data):
        length, _, index, _ = struct.unpack_from('<IQQQ', data, at)
        if not index or at + 28 + length > len(data) or found and index != found[-1] + 1:
            break
        found.append(index)
        at += 28 + length
    return found


def check_no_gap(backend):
    """Every batch from the first kept one to the newest is there. Returns the number of kept segments."""
    data = os.path.join(backend.options.get('backend', {}).get('data', backend.data), 'partition-0')
    kept, present = segments(os.path.join(data, 'kept')), segments(data)
    check(not set(kept) & set(present), 'a segment is in both places')
    everything = sorted({**kept, **present}.items())
    for (first, path), (later, _) in zip(everything, everything[1:]):
        found = indexes(path)
        check(found and found[0] == first and found[-1] >= later - 1, 'batches are missing between %d and %d' % (first, later))
    return len(kept)


@suite.case('kept segments stay within change-log and have no gap, also after kill -9; switched off, they are removed')
def _(run):
    rng = random.Random(1)
    store = {'wal-limit': '1mb', 'change-log': '3mb', 'memtable': '1mb'}
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': store}) as cluster:
        backend = cluster.backends[0]
        for _ in range(sized(4, long=40)):
            client = cluster.partition(0)
            wait_for(lambda: figures(backend)[0] <= 3 << 20, 'the limit to be applied')
            before = figures(backend)[1]
            while figures(backend)[0] < 2 << 20:
                check_equal(write(client, rng), 50)
            check(figures(backend)[0] <= 3 << 20, 'more is kept than change-log allows')
            check(figures(backend)[1] > 0 and figures(backend)[1] >= before, 'the time of the oldest segment')
            client.send('SET', 'last', VALUE)
            backend.kill9()
            check(check_no_gap(backend) >= 2, 'nothing is kept')  # a segment may have more than 1 MB
            backend.start()
        client = cluster.partition(0)
        while figures(backend)[1] == before:
            write(client, rng)
        backend.options['store']['change-log'] = '0'
        backend.write_config()
        backend.signal(signal.SIGHUP)
        wait_for(lambda: figures(backend) == (0, 0), 'kept segments to be removed')
        backend.kill9()  # else segments may be removed while they are read
        check_equal(check_no_gap(backend), 0)


@suite.case('a disk that kept segments fill takes writes again as soon as they are removed')
def _(run):
    rng = random.Random(2)
    disk = SmallDisk(48)
    try:
        with Cluster(backends=1, partitions=1, proxies=0, backend_options={
                'backend': {'data': os.path.join(disk.path, 'data')},
                'store': {'wal-limit': '1mb', 'change-log': '1gb', 'memtable': '1mb', 'disk-free-min': 0}}) as cluster:
            client, now, most = cluster.partition(0), 0, 0
            while most < 16 << 20 or now > most // 2:
                now = figures(cluster.backends[0])[0]
                most = max(most, now)
                write(client, rng)
            run.note('%d MB were kept when the disk was full' % (int(most) >> 20))
            wait_for(lambda: client.get('SET', 'one', 'more') == b'OK', 'a write')
            cluster.backends[0].kill9()
            check_no_gap(cluster.backends[0])
            cluster.backends[0].start()
            check_equal(cluster.partition(0).get('GET', 'one'), b'more')
    finally:
        disk.remove()


suite.main()
