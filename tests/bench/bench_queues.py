#!/usr/bin/python3
"""bench_queues.py - does a queue stay fast while it is drained?

Fills a queue, drains it, and compares the cost of the first and the last thousand pops. Deleted elements leave
tombstones in the store, which must not be read again by each pop: the last thousand pops may cost at most three times
as much as the first. A steady queue (one in, one out) is measured too. The figure is the time in the command's handler
as INFO commandstats counts it, so the machine's other load has little influence; the CPU time of the whole process,
including compaction, is printed beside it.

A kind of queue is one row of QUEUES: the command that adds the i-th element, the command that pops one, the length.
"""

from support.cluster import Cluster
from support.harness import Suite, check
from support.resp import Connection, value

VALUE = 'x' * 64
WINDOW = 1000
BATCH = 500


class Queue:
    def __init__(self, put, take, length):
        self.put, self.take, self.length = put, take, length


QUEUES = {
    'LPUSH, RPOP': Queue(lambda i: ['LPUSH', 'q', '%d %s' % (i, VALUE)], ['RPOP', 'q'], ['LLEN', 'q']),
    'RPUSH, LPOP': Queue(lambda i: ['RPUSH', 'q', '%d %s' % (i, VALUE)], ['LPOP', 'q'], ['LLEN', 'q']),
    'LPUSH, RPOP 10': Queue(lambda i: ['LPUSH', 'q', '%d %s' % (i, VALUE)], ['RPOP', 'q', '10'], ['LLEN', 'q']),
    'RPUSH, LMOVE to another': Queue(lambda i: ['RPUSH', 'q', '%d %s' % (i, VALUE)],
                                     ['LMOVE', 'q', 'r', 'LEFT', 'RIGHT'], ['LLEN', 'q']),
}


def options(parser):
    parser.add_argument('--elements', type=int, default=500000)
    parser.add_argument('--factor', type=float, default=3.0, help='the last thousand may cost so many times the first')


suite = Suite(__doc__, options)


def handler_us(connection, command):
    """Time in the handler of a command so far."""
    for line in connection.get('INFO', 'commandstats').decode().split('\r\n'):
        if line.startswith('cmdstat_%s:' % command.lower()):
            return int(dict(pair.split('=') for pair in line.split(':')[1].split(','))['usec'])
    return 0


def fill(connection, queue, count):
    for start in range(0, count, BATCH):
        connection.pipeline([queue.put(i) for i in range(start, min(start + BATCH, count))])


def take(connection, queue, count):
    """µs in the handler for `count` pops."""
    before = handler_us(connection, queue.take[0])
    for start in range(0, count, BATCH):
        connection.pipeline([queue.take] * min(BATCH, count - start))
    return handler_us(connection, queue.take[0]) - before


def drained(run, backend, queue, elements):
    with Connection(backend.addresses[0], 120) as connection:
        cpu = backend.cpu_seconds()
        fill(connection, queue, elements)
        filled = backend.cpu_seconds()
        each = int(queue.take[2]) if len(queue.take) == 3 else 1
        check(value(connection.call(*queue.length)) == elements, 'the queue is not full')
        windows = []
        for _ in range(elements // each // WINDOW):
            windows.append(take(connection, queue, WINDOW))
        end = backend.cpu_seconds()
        check(value(connection.call(*queue.length)) == 0, 'the queue is not empty')
        first = sorted(windows[:5])[2]
        last = sorted(windows[-5:])[2]
        run.note('µs of a take: first thousand %.2f, middle %.2f, last %.2f, worst %.2f; CPU µs of the process: put %.1f, '
                 'take %.1f' % (first / WINDOW, sorted(windows)[len(windows) // 2] / WINDOW, last / WINDOW,
                                max(windows) / WINDOW, (filled - cpu) / elements * 1e6,
                                (end - filled) / len(windows) / WINDOW * 1e6))
        check(last <= run.options.factor * first, 'the last thousand cost %.1f times the first' % (last / first))


def steady(run, backend, queue, elements):
    with Connection(backend.addresses[0], 120) as connection:
        windows = []
        fill(connection, queue, 100)
        for start in range(0, elements, WINDOW):
            before = handler_us(connection, queue.take[0])
            for at in range(start, start + WINDOW, BATCH):
                connection.pipeline([words for i in range(at, at + BATCH) for words in (queue.put(i), queue.take)])
            windows.append(handler_us(connection, queue.take[0]) - before)
        first, last = sorted(windows[:5])[2], sorted(windows[-5:])[2]
        run.note('µs of a take: first thousand %.2f, last %.2f, worst %.2f' % (first / WINDOW, last / WINDOW,
                                                                              max(windows) / WINDOW))
        check(last <= run.options.factor * first, 'the last thousand cost %.1f times the first' % (last / first))


def add(title, function, queue):
    @suite.case(title)
    def _(run):
        with Cluster(backends=1, partitions=1, proxies=0) as cluster:
            function(run, cluster.backends[0], queue, run.options.elements)


for name, kind in QUEUES.items():
    add('%s: filled, then drained' % name, drained, kind)
    if len(kind.take) < 3:
        add('%s: one in, one out' % name, steady, kind)

if __name__ == '__main__':
    suite.main()
