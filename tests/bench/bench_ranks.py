#!/usr/bin/python3
"""bench_ranks.py - do sorted sets and sets stay fast when they are big?

Three questions: Does a command by rank cost the same in a big collection as in a small one? Does a queue made of a
sorted set stay fast while it is drained? What does a ZADD or SADD cost compared with redis-server? The first two are
measured by the time in the command's handler, as INFO commandstats counts it; the last by the CPU time of the whole
process, including compaction.
"""

import os
import random
import subprocess
import sys
import tempfile

from support.cluster import Cluster
from support.harness import Suite, check
from support.resp import Connection, value

WINDOW = 1000
BATCH = 500
SMALL = 1000


def member(i):
    return 'member:%08d' % i


def score(i):
    return str(i * 7919 % 1000003)


def options(parser):
    parser.add_argument('--members', type=int, default=1000000, help='of the big collection')
    parser.add_argument('--elements', type=int, default=1000000, help='of a queue')
    parser.add_argument('--factor', type=float, default=3.0, help='the big or the last may cost so many times the small')
    parser.add_argument('--check', action='store_true', help='fail when the factor is not met')


suite = Suite(__doc__, options)


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write('\r\x1b[K' + text)
        sys.stderr.flush()


def handler_us(connection, command):
    """Time in the handler of a command so far."""
    for line in connection.get('INFO', 'commandstats').decode().split('\r\n'):
        if line.startswith('cmdstat_%s:' % command.lower()):
            return int(dict(pair.split('=') for pair in line.split(':')[1].split(','))['usec'])
    return 0


def measured(connection, requests):
    """µs in the handler per request, for requests of one command."""
    before = handler_us(connection, requests[0][0])
    for start in range(0, len(requests), BATCH):
        connection.pipeline(requests[start:start + BATCH])
    return (handler_us(connection, requests[0][0]) - before) / len(requests)


def fill(connection, make, count, title):
    for start in range(0, count, BATCH):
        if start % (BATCH * 100) == 0:
            progress('%s: %d of %d' % (title, start, count))
        connection.pipeline([make(i) for i in range(start, min(start + BATCH, count))])
    progress('')


def judge(run, what, first, last):
    ratio = last / max(first, 0.01)
    run.note('%s: %.2f -> %.2f µs, %.1f times' % (what, first, last, ratio))
    check(not run.options.check or ratio <= run.options.factor, '%s: %.1f times' % (what, ratio))


ASKED = {
    'ZRANK': lambda n: ['ZRANK', 'z%d' % n, member(random.randrange(n))],
    'ZREVRANK': lambda n: ['ZREVRANK', 'z%d' % n, member(random.randrange(n))],
    'ZCOUNT': lambda n: ['ZCOUNT', 'z%d' % n, score(random.randrange(n)), '+inf'],
    'ZRANGE': lambda n: ['ZRANGE', 'z%d' % n, str(n * 3 // 4), str(n * 3 // 4)],
    'SRANDMEMBER': lambda n: ['SRANDMEMBER', 's%d' % n],
}


@suite.case('ranks in a big collection')
def places(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with Connection(cluster.backends[0].addresses[0], 120) as connection:
            for n in (SMALL, run.options.members):
                fill(connection, lambda i: ['ZADD', 'z%d' % n, score(i), member(i)], n, 'ZADD')
                fill(connection, lambda i: ['SADD', 's%d' % n, member(i)], n, 'SADD')
            for name, make in ASKED.items():
                small, big = [measured(connection, [make(n) for _ in range(2 * WINDOW)])
                              for n in (SMALL, run.options.members)]
                judge(run, name, small, big)


QUEUES = {
    'ZPOPMIN': ['ZPOPMIN', 'q'],
    'ZPOPMAX': ['ZPOPMAX', 'q'],
    'ZREMRANGEBYRANK': ['ZREMRANGEBYRANK', 'q', '0', '0'],
}


def drain(run, take):
    elements = run.options.elements
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with Connection(cluster.backends[0].addresses[0], 120) as connection:
            fill(connection, lambda i: ['ZADD', 'q', str(i), member(i)], elements, 'ZADD')
            windows = []
            for at in range(elements // WINDOW):
                if at % 10 == 0:
                    progress('%s: %d of %d' % (take[0], at * WINDOW, elements))
                windows.append(measured(connection, [take] * WINDOW))
            progress('')
            check(value(connection.call('ZCARD', 'q')) == elements % WINDOW, 'the queue is not empty')
            run.note('the median is %.2f µs, the worst thousand %.2f' % (sorted(windows)[len(windows) // 2], max(windows)))
            judge(run, 'first and last thousand', sorted(windows[:5])[2], sorted(windows[-5:])[2])


def add_queue(name, take):
    @suite.case('%s: filled in order, then drained' % name)
    def _(run):
        drain(run, take)


for queue_name, queue_take in QUEUES.items():
    add_queue(queue_name, queue_take)


def cpu_of(pid):
    with open('/proc/%d/stat' % pid, encoding='ascii') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def growth(connection, pid, count):
    """CPU µs per ZADD and per SADD of members in random order."""
    costs = []
    for make in (lambda i: ['ZADD', 'z', score(i), member(i)], lambda i: ['SADD', 's', member(i * 7919 % count)]):
        before = cpu_of(pid)
        fill(connection, make, count, make(0)[0])
        costs.append((cpu_of(pid) - before) / count * 1e6)
    return costs


@suite.case('CPU beside redis-server')
def beside_redis(run):
    count = run.options.members
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with Connection(cluster.backends[0].addresses[0], 120) as connection:
            ours = growth(connection, int(connection.get('INFO', 'server').decode().split('process_id:')[1].split()[0]),
                          count)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'redis.sock')
        process = subprocess.Popen(['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--dir', folder],
                                   stdout=subprocess.PIPE, text=True)
        try:
            while 'ready to accept' not in process.stdout.readline():
                check(process.poll() is None, 'redis-server does not start')
            with Connection(path, 120) as connection:
                theirs = growth(connection, process.pid, count)
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
    for name, our, their in zip(('ZADD', 'SADD'), ours, theirs):
        run.note('CPU µs per %s: %.2f, redis-server %.2f, %.1f times' % (name, our, their, our / their))


if __name__ == '__main__':
    suite.main()
