#!/usr/bin/python3
"""bench_capacity.py - how many bytes of memory and disk does a key take? The figures of docs/capacity.md.

A backend (1 partition, durability = always) gets every key of 16 bytes once, then random ones of them --overwrite times as often, with
random bytes as values. None of the figures depends on the speed of the machine, but a compaction that has to hurry merges more at a time:

    disk      files at rest after loading and after overwriting; the most that files and WAL together took at any time
    indexes   of data files and their filters, which are always in memory
    plain     the table of keys that a SET need not read
    row       in the row cache, which was emptied and then filled by GETs
    memory    resident, with caches of the configured size

    SCREE_BIN=build/test tests/bench/bench_capacity.py --keys 2000000 --memory 1gb
"""

import argparse
import os
import random
import tempfile
import threading
import time

from bench_disk import rest, send
from bench_flat import folder_bytes, number_of
from rig import Farm, System, info, load
from support.harness import wait_for
from support.resp import Connection

CACHED = 20000  # keys that are read for the size of a row in the row cache
CHUNKS = 10


class Peak(threading.Thread):
    """The most bytes that the files of a folder take together."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.bytes, self.is_ending = path, 0, False

    def run(self):
        while not self.is_ending:
            try:
                self.bytes = max(self.bytes, folder_bytes(self.path))
            except FileNotFoundError:  # a file was deleted in between
                pass
            time.sleep(0.1)

    def end(self):
        self.is_ending = True
        self.join()
        return self.bytes


def write(address, numbers, size, title, rng):
    """SETs these numbers of keys, with values that cannot be compressed."""
    for i in range(CHUNKS):
        first, end = (len(numbers) * part // CHUNKS for part in (i, i + 1))
        send(address, numbers[first:end], size, 'random', rng)
        print('  %s: %d of %d' % (title, end, len(numbers)), flush=True)


def row_bytes(client, system, keys):
    """Bytes of a row in the row cache."""
    client.get('CONFIG', 'SET', 'store-row-cache', '63mb')
    client.get('CONFIG', 'SET', 'store-row-cache', '64mb')  # another size: the cache starts empty
    wait_for(lambda: int(info(client, 'row_cache_bytes')) == 0, 'the row cache to be empty')
    count = min(keys, CACHED)
    load(system, 'GET key:{s}', depth=1, seconds=0, count=count)
    return int(info(client, 'row_cache_bytes')) / count


def measure(options, size):
    keys = int(options.keys * min(1, 256 / size))
    with tempfile.TemporaryDirectory(prefix='scree-bench-', dir=options.folder) as folder:
        farm = Farm(folder)
        try:
            backend = farm.backend('scree', store={'memory': options.memory}, secret='')
            system, peak = System(backend), Peak(os.path.join(folder, 'scree-data'))
            with Connection(('127.0.0.1', backend.port), 600) as client:
                address, rng, numbers = ('127.0.0.1', backend.port), random.Random(size), list(range(keys))
                rng.shuffle(numbers)
                peak.start()
                write(address, numbers, size, 'loading', rng)
                plain = int(info(client, 'plain_keys_bytes')) / max(1, int(info(client, 'plain_keys')))
                loaded = rest(client)
                numbers = [rng.randrange(keys) for _ in range(int(keys * options.overwrite))]
                write(address, numbers, size, 'overwriting', rng)
                most, after = peak.end(), rest(client)
                resident = number_of(backend, 'status', 'VmRSS') * 1024
                indexes = int(info(client, 'store_table_reader_bytes'))
                row = row_bytes(client, system, keys)
        finally:
            farm.stop()
    print('%5d  %9d  %7.0f  %7.0f  %7.0f  %8.1f  %7.1f  %7.0f  %6.0f MB' % (
        size, keys, loaded / keys, after / keys, most / keys, indexes / keys, plain, row, resident / 1e6), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keys', type=int, default=2000000, help='with values of up to 256 bytes; fewer longer ones')
    parser.add_argument('--overwrite', type=float, default=2, help='how often each key is overwritten on average')
    parser.add_argument('--sizes', type=int, nargs='*', default=[16, 64, 256, 1024])
    parser.add_argument('--memory', default='512mb', help='[store] memory; a small one has small memtables, as much data would')
    parser.add_argument('--quick', action='store_true', help='100 thousand keys, 64 bytes and 1 KiB')
    parser.add_argument('--folder', help='where data is kept during the run; default: the system\'s folder for temporary files')
    options = parser.parse_args()
    if options.quick:
        options.keys, options.sizes, options.memory = 100000, [64, 1024], '64mb'
    print('bytes for each key; memory = %s\nvalue       keys  on disk     over-  most on   indexes,  plain   row in  resident\n'
          '                   loaded   written     disk    filters   keys   cache' % options.memory, flush=True)
    for size in options.sizes:
        measure(options, size)


if __name__ == '__main__':
    main()
