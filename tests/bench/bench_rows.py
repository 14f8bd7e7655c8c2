#!/usr/bin/python3
"""bench_rows.py - what does a row cost in commands that write a whole collection?

    COPY, RENAME, ZUNIONSTORE …  ─►  one partition, no proxy

Each command runs once over collections of --few and of --many elements. The figures are the CPU time of the
partition's thread for each element, and the ratio of the two: far above 1 means that a row gets dearer in bigger
collections. Nothing is asserted.

  SCREE_BIN=build/release tests/bench/bench_rows.py --many 1000000
"""

import os

from support.cluster import Cluster
from support.harness import Suite

BATCH = 1000


def options(parser):
    parser.add_argument('--few', type=int, default=30000, help='elements')
    parser.add_argument('--many', type=int, default=300000, help='elements')


suite = Suite(__doc__, options)


def fill(connection, count):
    for first in range(0, count, BATCH):
        part = range(first, min(first + BATCH, count))
        connection.pipeline([
            ['HSET', 'hash'] + [word for i in part for word in ('f%08d' % (i * 7919 % count), 'value %08d' % i)],
            ['SADD', 'set'] + ['member %08d' % i for i in part], ['SADD', 'even'] + ['member %08d' % (2 * i) for i in part],
            ['ZADD', 'zset'] + [word for i in part for word in (i * 7919 % 1000003, 'member %08d' % i)],
            ['ZADD', 'zeven'] + [word for i in part for word in (i, 'member %08d' % (2 * i))],
            ['RPUSH', 'list'] + ['element %08d' % i for i in part]])


def cpu_us(process):
    """CPU time of the partition's thread so far."""
    folder = '/proc/%d/task' % process.pid
    for thread in os.listdir(folder):
        with open('%s/%s/comm' % (folder, thread)) as comm, open('%s/%s/schedstat' % (folder, thread)) as figures:
            if comm.read().startswith('partition-'):
                return int(figures.read().split()[0]) / 1e3
    raise OSError('no thread of a partition')


def commands(count):
    """Commands in an order in which each finds what it needs."""
    middle = 'element %08d' % (count // 2)
    return [['COPY', 'hash', 'hash2'], ['COPY', 'set', 'set2'], ['COPY', 'zset', 'zset2'], ['COPY', 'list', 'list2'],
            ['RENAME', 'zset2', 'zset3'], ['SUNIONSTORE', 'to', 'set', 'even'], ['SINTERSTORE', 'to', 'set', 'even'],
            ['ZUNIONSTORE', 'to', 2, 'zset', 'zeven'], ['ZINTERSTORE', 'to', 2, 'zset', 'zeven'], ['ZRANGESTORE', 'to', 'zset', 0, -1],
            ['LINSERT', 'list', 'BEFORE', middle, 'new'], ['LREM', 'list', 1, 'new'], ['SORT', 'list', 'ALPHA', 'STORE', 'to'],
            ['ZREMRANGEBYSCORE', 'zset', 100, 300000], ['ZREMRANGEBYRANK', 'zeven', 100, count // 4], ['SPOP', 'set', count // 4]]


def measured(count):
    """{command and key: µs for each element}, and the commands in their order."""
    took = {}
    with Cluster(backends=1, partitions=1, backend_options={'backend': {'durability': 'os'}}) as cluster, cluster.partition(0) as connection:
        fill(connection, count)
        for words in commands(count):
            before = cpu_us(cluster.backends[0])
            connection.get(*words)
            took['%s %s' % (words[0], words[1])] = (cpu_us(cluster.backends[0]) - before) / count
    return took


@suite.case('time of an element in commands that write a whole collection')
def _(run):
    few, many = measured(run.options.few), measured(run.options.many)
    for name, us in many.items():
        run.note('%-24s %6.2f µs of %7d  %6.2f µs of %7d  %5.2f times' % (
            name, few[name], run.options.few, us, run.options.many, us / max(few[name], 0.01)))


if __name__ == '__main__':
    suite.main()
