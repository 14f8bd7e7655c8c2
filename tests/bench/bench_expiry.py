#!/usr/bin/python3
"""bench_expiry.py - how fast keys are removed that all expire in the same second.

Keys with a value of 32 bytes get the same PXAT, while active expiry is off. Then it is switched on, and DBSIZE is watched: keys removed
in a second, and CPU µs of all threads for each. `uncached`: the backend was started anew, with small caches, so no row is in its memory;
`cached`: all rows are. Beside it a client sends GETs of keys that stay, 2000 a second, before and meanwhile. redis-server removes the
same keys.

  SCREE_BIN=build/release tests/bench/bench_expiry.py [--keys 1000000] [--efforts 1,10] [--parts cached,uncached,redis]
"""

import argparse
import tempfile
import time

from rig import Farm, System, load
from support.resp import Connection

SMALL = {'block-cache': '4mb', 'row-cache': '1mb', 'memtable': '2mb', 'write-buffer': '1mb'}
BESIDE = 'GET stays:{k:1000}'


def fill(client, keys):
    client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
    due = str(int(time.time() * 1000) + 500)
    client.pipeline([['SET', 'stays:%d' % i, 'x' * 32] for i in range(1000)])
    for start in range(0, keys, 1000):
        client.pipeline([['SET', 'session:%09d' % (i * 7919 % keys), '%032d' % i, 'PXAT', due]
                         for i in range(start, min(start + 1000, keys))])
    return int(due) / 1000


def remaining(client):
    return client.get('DBSIZE') - 1000


def show(name, keys, seconds, cpu, alone, beside):
    print('%-24s %8.0f keys/s   %5.2f CPU µs/key   %5.1f s   GET p50/p99 µs: alone %.0f/%.0f, beside %.0f/%.0f' % (
        name, keys / seconds, cpu * 1e6 / keys, seconds, alone.p50, alone.p99, beside.p50, beside.p99), flush=True)


def remove(name, system, keys):
    """Switches active expiry on, and measures until all keys are gone."""
    alone = load(system, BESIDE, depth=1, clients=10, seconds=2, rate=2000)
    with Connection(('127.0.0.1', system.port), 60) as client:
        cpu = sum(process.cpu_seconds() for process in system.processes)
        begun = time.monotonic()
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '1')
        beside = load(system, BESIDE, depth=1, clients=10, seconds=2, rate=2000, waits=False)
        while remaining(client) > 0:
            left, now = remaining(client), time.monotonic()
            if left > 0 and now - begun > 300:
                print('%s: %d keys are left after 300 s' % (name, left), flush=True)
                keys -= left
                break
            time.sleep(0.02)
        seconds = time.monotonic() - begun
        show(name, keys, seconds, sum(process.cpu_seconds() for process in system.processes) - cpu, alone, beside)


def measure(farm, part, effort, keys):
    name = '%s-%d' % (part, effort)
    if part == 'redis':
        system = System(farm.redis(name, ['--save', '', '--active-expire-effort', str(effort)]))
    else:
        system = System(farm.backend(name, durability='os', secret='', store=SMALL if part == 'uncached' else {}))
    with Connection(('127.0.0.1', system.port), 60) as client:
        due_s = fill(client, keys)
        if part == 'uncached':
            client.call('DEBUG', 'EVICT')
        if part != 'redis':
            client.call('CONFIG', 'SET', 'active-expire-effort', str(effort))
    time.sleep(max(0, due_s - time.time()))
    remove('%s, effort %d' % (part, effort), system, keys)
    system.process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keys', type=int, default=1000000)
    parser.add_argument('--efforts', default='1,10')
    parser.add_argument('--parts', default='cached,uncached,redis')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        farm = Farm(folder)
        try:
            for part in options.parts.split(','):
                for effort in options.efforts.split(','):
                    measure(farm, part, int(effort), options.keys)
        finally:
            farm.stop()


if __name__ == '__main__':
    main()
