#!/usr/bin/python3
"""bench_flat.py - does the cost of a request stay flat with the number of keys and the size of values? GETs and SETs of Scree
and redis-server.

    scree          load.c ─► scree-backend (1 partition, durability = always, memory = auto)
    redis          load.c ─► redis-server, in memory
    redis-always   load.c ─► redis-server, appendfsync always

For each number of keys and each size all systems are filled with every key, then they take turns. CPU is that of all threads,
µs for each request. A ratio counts only within its row, and only when the machine was quiet: the share of its CPU that others
use is measured before each table. Nothing is asserted.

  SCREE_BIN=build/release tests/bench/bench_flat.py [--quick] [--keys 100000 4000000] [--sizes 64 1024] [--depths 1 16 64]
"""

import argparse
import os
import tempfile
import time

from rig import Farm, System, in_turn, load, wait_until_quiet

QUIET = 0.05  # share of the machine's CPU that others may use
TENTHS = 10


def busy_share(seconds):
    """The share of the machine's CPU that was used in these seconds."""
    def ticks():
        with open('/proc/stat', encoding='ascii') as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]
    total, idle = ticks()
    time.sleep(seconds)
    later, idle_later = ticks()
    return 1 - (idle_later - idle) / max(1, later - total)


def folder_bytes(path):
    sizes = [os.stat(os.path.join(root, name)).st_blocks * 512 for root, _, names in os.walk(path) for name in names]
    return sum(sizes)


def number_of(process, page, name):
    """A number of /proc/PID/status or /proc/PID/io."""
    with open('/proc/%d/%s' % (process.child.pid, page), encoding='ascii') as file:
        return int([line for line in file if line.startswith(name + ':')][0].split()[1])


def fill(name, system, keys, size):
    """Writes every key once, in order."""
    step, rates = max(1, keys // TENTHS), []
    for first in range(0, keys, step):
        count = min(step, keys - first)
        rates.append(load(system, 'SET key:{s} {x:%d}' % size, depth=32, seconds=0, count=count, first=first).rate)
        print('  fill %s: %d of %d keys, %.0f SET/s' % (name, first + count, keys, rates[-1]), flush=True)
    return rates


def print_fill(name, process, rates, keys, size, folder):
    line = 'fill %s: first tenth %.0f SET/s, slowest %.0f; %d bytes of memory a key' % (
        name, rates[0], min(rates), number_of(process, 'status', 'VmRSS') * 1024 // keys)
    if folder:
        line += ', %d bytes on disk a key; %.1f bytes were written to files for each byte of keys and values' % (
            folder_bytes(folder) // keys, number_of(process, 'io', 'write_bytes') / (keys * (size + 16)))
    print(line, flush=True)


def measure(options, keys, size):
    with tempfile.TemporaryDirectory(prefix='scree-bench-', dir=options.folder) as folder:
        farm = Farm(folder)
        try:
            share = busy_share(1)
            processes = {'scree': farm.backend('scree', secret=''), 'redis': farm.redis('redis'),
                         'redis-always': farm.redis_log('always')}
            systems = {name: System(process) for name, process in processes.items()}
            folders = {'scree': os.path.join(folder, 'scree-data'), 'redis-always': os.path.join(folder, 'redis-always-log')}
            print('\n%d keys, values of %d bytes%s' % (
                keys, size, '' if share <= QUIET else '   NOT QUIET: others used %d %% of the CPU' % (share * 100)), flush=True)
            for name, system in systems.items():
                rates = fill(name, system, keys, size)
                wait_until_quiet(system)
                print_fill(name, processes[name], rates, keys, size, folders.get(name))
            print('%-10s' % '' + ''.join('%24s' % name for name in systems) + '%14s%14s' % ('scree/redis', '/always'))
            for command in ('GET key:{k:%d}' % keys, 'SET key:{k:%d} {x:%d}' % (keys, size)):
                for depth in options.depths:
                    found = in_turn(systems, command, options.repeat, depth=depth, seconds=options.seconds)
                    print_row('%s -P %d' % (command[:3], depth), found)
        finally:
            farm.stop()
    return share


def print_row(title, found):
    cpu = {name: sample.cpu_us for name, sample in found.items()}
    print('%-10s' % title + ''.join('%9.2f us %9.0f/s' % (sample.cpu_us, sample.rate) for sample in found.values()) +
          '%14.2f%14.2f' % (cpu['scree'] / cpu['redis'], cpu['scree'] / cpu['redis-always']), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='20 000 keys, one short run of each')
    parser.add_argument('--keys', type=int, nargs='*', default=[100000, 4000000])
    parser.add_argument('--sizes', type=int, nargs='*', default=[64, 1024])
    parser.add_argument('--depths', type=int, nargs='*', default=[1, 16, 64])
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=3)
    parser.add_argument('--folder', help='where data is kept meanwhile; default: the system\'s folder for temporary files')
    options = parser.parse_args()
    if options.quick:
        options.keys, options.depths, options.repeat, options.seconds = [20000], [1, 16], 1, 0.3
    shares = [measure(options, keys, size) for keys in options.keys for size in options.sizes]
    if max(shares) > QUIET:
        print('\nThe machine was NOT QUIET: before the tables others used up to %d %% of its CPU.' % (max(shares) * 100))


if __name__ == '__main__':
    main()
