#!/usr/bin/python3
"""bench_disk.py - how many bytes does a stored byte take on disk, and how many are written for it?

Strings are loaded in random order of their keys, then overwritten at random, with durability = always. For both steps: bytes that
the process wrote to the disk (log, flushes, compactions: /proc/PID/io) divided by bytes of keys and values sent, and what the files take
when compaction has come to rest. None of this depends on the speed of the machine, but compaction that has to hurry merges more at
a time. Values: `random` cannot be compressed, `text` is JSON, of which lz4 saves about half.

    tests/bench/bench_disk.py --million 1 --overwrite 2
"""

import argparse
import json
import os
import random
import socket
import tempfile

from rig import Farm, info
from support.harness import wait_for
from support.resp import Connection

BATCH = 512


def value(rng, size, kind):
    if kind == 'random':
        return rng.randbytes(size)
    words = []
    while len(words) * 28 < size:
        words.append({'seat': rng.randrange(4000), 'state': rng.choice(['free', 'held', 'sold'])})
    return json.dumps(words).encode()[:size].ljust(size)


def send(address, keys, size, kind, rng):
    """SETs these numbers of keys, and returns the bytes of keys and values."""
    sent, waiting = 0, 0
    with socket.create_connection(address) as connection:
        reader = connection.makefile('rb')
        for start in range(0, len(keys), BATCH):
            part = []
            for number in keys[start:start + BATCH]:
                key, content = b'key:%012d' % number, value(rng, size, kind)
                part.append(b'*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n' % (len(key), key, len(content), content))
                sent += len(key) + len(content)
            connection.sendall(b''.join(part))
            waiting += len(part)
            while waiting > BATCH:
                assert reader.readline() == b'+OK\r\n'
                waiting -= 1
        for _ in range(waiting):
            assert reader.readline() == b'+OK\r\n'
    return sent


def written(pid):
    with open('/proc/%d/io' % pid) as file:
        return int(next(line for line in file if line.startswith('write_bytes:')).split()[1])


def rest(client):
    """Waits until rows are in files and nothing is to be compacted; returns the bytes of all files."""
    client.get('BGSAVE')  # flushes the write buffers and memtables

    def is_at_rest():
        names = ('rdb_bgsave_in_progress', 'store_running_compactions', 'store_running_flushes', 'store_pending_compaction_bytes')
        return not any(float(info(client, name)) for name in names)
    wait_for(is_at_rest, 'compaction to rest', 600)
    return float(info(client, 'store_disk_bytes'))


def measure(farm, size, kind, options):
    count = int(options.million * 1e6 * min(1, 256 / size))
    rng = random.Random(size)
    backend = farm.backend('disk-%s-%d' % (kind, size), store={'memory': options.memory})
    address = ('127.0.0.1', backend.port)
    numbers = list(range(count))
    rng.shuffle(numbers)
    with Connection(address, 600) as client:
        before = written(backend.pid)
        sent = send(address, numbers, size, kind, rng)
        disk = rest(client)
        loaded = written(backend.pid) - before
        again = [rng.randrange(count) for _ in range(int(count * options.overwrite))]
        rewritten = send(address, again, size, kind, rng)
        disk_after = rest(client)
        over = written(backend.pid) - before - loaded
    farm.stop()
    print('%-7s %5d  %9d  %7.0f  %6.2f  %6.2f  %6.2f  %6.2f' % (
        kind, size, count, disk / count, disk / sent, loaded / sent, over / rewritten, disk_after / sent), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--million', type=float, default=4, help='million keys with values of up to 256 bytes; fewer longer ones')
    parser.add_argument('--overwrite', type=float, default=2, help='how often each key is overwritten on average')
    parser.add_argument('--size', type=int, action='append', help='bytes of a value (default: 64 and 1024)')
    parser.add_argument('--memory', default='auto', help='[store] memory: a smaller one has smaller memtables, as more data would')
    parser.add_argument('--quick', action='store_true', help='100 thousand keys')
    options = parser.parse_args()
    if options.quick:
        options.million = 0.1
    print('value   bytes       keys  on disk    each   loaded   over-   on disk\n'
          '                          per key    byte  written written  after', flush=True)
    for kind in ('random', 'text'):
        for size in options.size or (64, 1024):
            with tempfile.TemporaryDirectory(prefix='scree-bench-', dir=os.environ.get('TMPDIR')) as folder:
                measure(Farm(folder), size, kind, options)


if __name__ == '__main__':
    main()
