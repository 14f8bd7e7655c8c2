#!/usr/bin/python3
"""bench_expiry.py - how fast keys are removed that all expire in the same second.

Keys with a value of 32 bytes get the same PXAT, while active expiry is off. Then it is switched on, and DBSIZE is watched: keys removed
in a second, and CPU µs of all threads for each. `uncached`: the backend was started anew, with small caches, so no row is in its memory;
`cached`: all rows are. Beside it ten clients send GETs of keys that stay, 2000 a second in all: for two seconds before, and in runs of two
seconds until all keys are removed, of which the median p50 and the worst p99 are printed. redis-server removes the same keys.
`fields`, `uncached-fields`: what expires are fields, a hundred in each hash, and then their hashes; redis-server 7.0 has no such fields.

  SCREE_BIN=build/release tests/bench/bench_expiry.py [--keys 1000000] [--efforts 1,10] [--parts cached,uncached,fields,uncached-fields,redis]
                                                      [--fill-rate 25000]
"""

import argparse
import statistics
import tempfile
import threading
import time

from rig import Farm, System, load
from support.resp import Connection

SMALL = {'block-cache': '4mb', 'row-cache': '1mb', 'memtable': '2mb', 'write-buffer': '1mb'}
LARGE = {'row-cache': '3gb', 'block-cache': '1gb'}  # 10 million keys fit
BESIDE = 'GET stays:{k:1000}'
LIMIT_S = 600
FIELDS = 100  # of a hash


def put_keys(client, start, end, keys, due):
    client.pipeline([['SET', 'session:%09d' % (i * 7919 % keys), '%032d' % i, 'PXAT', due] for i in range(start, end)])


def put_fields(client, start, end, keys, due):
    hashes = [('carts:%09d' % (i * 7919 % keys), ['%08d' % j for j in range(FIELDS)]) for i in range(start, end, FIELDS)]
    client.pipeline([words for key, fields in hashes for words in (
        ['HSET', key] + [word for field in fields for word in (field, 'x' * 32)],
        ['HPEXPIREAT', key, due, 'FIELDS', str(FIELDS)] + fields)])


def fill(client, keys, rate, put):
    """`rate`: of keys a second, at least, so that none is due before all are there."""
    client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
    due = str(int((time.time() + 0.5 + keys / rate) * 1000))
    client.pipeline([['SET', 'stays:%d' % i, 'x' * 32] for i in range(1000)])
    for start in range(0, keys, 1000):
        put(client, start, min(start + 1000, keys), keys, due)
    return int(due) / 1000


def remaining(client, each):
    """Keys, or fields: what is left of a hash counts whole."""
    return (client.get('DBSIZE') - 1000) * each


class Watch(threading.Thread):
    """Waits until all keys are removed, or LIMIT_S have passed."""

    def __init__(self, system, each):
        super().__init__()
        self.each = each
        self.system, self.begun, self.seconds, self.cpu = system, time.monotonic(), 0, -cpu_of(system)
        self.left, self.has_ended = 0, threading.Event()
        self.start()

    def run(self):
        with Connection(('127.0.0.1', self.system.port), 60) as client:
            self.left = remaining(client, self.each)
            while self.left > 0 and time.monotonic() - self.begun < LIMIT_S:
                time.sleep(0.02)
                self.left = remaining(client, self.each)
        self.seconds = time.monotonic() - self.begun
        self.cpu += cpu_of(self.system)
        self.has_ended.set()


def cpu_of(system):
    return sum(process.cpu_seconds() for process in system.processes)


def beside(system, **how):
    return load(system, BESIDE, depth=1, clients=10, seconds=2, rate=2000, **how)


def remove(name, system, keys, each):
    """Switches active expiry on, and measures until all keys are gone."""
    alone, during = beside(system), []
    with Connection(('127.0.0.1', system.port), 60) as client:
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '1')
    watch = Watch(system, each)
    while not watch.has_ended.is_set():
        during.append(beside(system, waits=False))
    watch.join()
    whole = during[:-1] or during  # the last one went on when all were removed
    removed = keys - watch.left
    print('%-28s %8.0f keys/s   %5.2f CPU µs/key   %5.1f s   GET p50/p99 µs: alone %.0f/%.0f, beside %.0f/%.0f%s' % (
        name, removed / watch.seconds, watch.cpu * 1e6 / removed, watch.seconds, alone.p50, alone.p99,
        statistics.median(sample.p50 for sample in whole), max(sample.p99 for sample in whole),
        '   (median p99 %.0f)' % statistics.median(sample.p99 for sample in whole)
        + ('   %d are left' % watch.left if watch.left else '')), flush=True)


def measure(farm, part, effort, keys, rate):
    name = '%s-%d' % (part, effort)
    is_uncached, has_fields = 'uncached' in part, 'fields' in part
    if part == 'redis':
        system = System(farm.redis(name, ['--save', '', '--active-expire-effort', str(effort)]))
    else:
        system = System(farm.backend(name, durability='os', secret='', store=SMALL if is_uncached else LARGE))
    with Connection(('127.0.0.1', system.port), 60) as client:
        due_s = fill(client, keys, rate, put_fields if has_fields else put_keys)
        if time.time() > due_s:
            raise SystemExit('%s: the keys were due before all were there' % name)
        if is_uncached:
            client.call('DEBUG', 'EVICT')
        if part != 'redis':
            client.call('CONFIG', 'SET', 'active-expire-effort', str(effort))
    time.sleep(max(0, due_s - time.time()))
    remove('%s, effort %d' % (part, effort), system, keys, FIELDS if has_fields else 1)
    system.process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keys', type=int, default=1000000)
    parser.add_argument('--efforts', default='1,10')
    parser.add_argument('--fill-rate', type=int, default=25000, help='keys a second that the machine fills at least; less on a busy one')
    parser.add_argument('--parts', default='cached,uncached,fields,uncached-fields,redis')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            for part in options.parts.split(','):
                for effort in options.efforts.split(','):
                    measure(farm, part, int(effort), options.keys, options.fill_rate)
        finally:
            farm.stop()


if __name__ == '__main__':
    main()
