#!/usr/bin/python3
"""XTRIM and XADD with ~ remove the entries that redis-server removes: whole nodes, as many as LIMIT allows.

Nodes of Redis have at most stream-node-max-entries entries and stream-node-max-bytes bytes; each round has other
limits, and streams whose fields, values and ids have different sizes.
"""

import random

from support.cluster import Cluster, Oracle
from support.harness import Suite, check_equal, sized
from support.resp import Connection

suite = Suite(__doc__, lambda parser: parser.add_argument('--rounds', type=int, default=sized(15, long=300), help='random streams'))


class Both:
    """Sends the same commands to both servers and compares all replies at the next call()."""

    def __init__(self, oracle, cluster):
        self.theirs, self.ours, self.log, self.sent = Connection(oracle), Connection(cluster), [], []

    def send(self, *words):
        self.sent.append(words)

    def call(self, *words):
        self.send(*words)
        wants, gots = self.theirs.pipeline(self.sent), self.ours.pipeline(self.sent)
        for words, want, got in zip(self.sent, wants, gots):
            check_equal(got, want, '%r after %r' % (words, self.log))
            self.log.append(words)
        self.sent = []
        return wants[-1]

    def begin(self, entries, size):
        self.log = []
        self.send('FLUSHALL')
        self.call('CONFIG', 'SET', 'stream-node-max-entries', entries, 'stream-node-max-bytes', size)


def with_both(body):
    with Oracle() as oracle:
        with Cluster(backends=1, partitions=1, proxies=0) as cluster:
            body(Both(oracle.address, cluster.backends[0].addresses[0]))


@suite.case('XTRIM MAXLEN ~ 0 of five entries removes five, and the next entries begin a new node')
def _(run):
    def body(both):
        both.begin(100, 4096)
        for i in range(5):
            both.send('XADD', 's', '%d-1' % (i + 1), 'f', 'v')
        both.call('XTRIM', 's', 'MAXLEN', '~', '1')
        check_equal(both.call('XTRIM', 's', 'MAXLEN', '~', '0'), (':', b'5'))
        for i in range(150):
            both.send('XADD', 's', '%d-1' % (i + 10), 'f', 'v')
        both.call('XTRIM', 's', 'MAXLEN', '~', '60')
        both.call('XTRIM', 's', 'MAXLEN', '~', '50')
        both.call('XTRIM', 's', 'MINID', '~', '159-1')
        both.call('XTRIM', 's', 'MINID', '~', '160')
        both.call('XRANGE', 's', '-', '+')
        both.call('XADD', 's', 'MAXLEN', '~', '0', '500-1', 'f', 'v')
        both.call('XLEN', 's')
    with_both(body)


def entry(rng, fields):
    names = fields if rng.random() < 0.8 else ['other'] * rng.randint(1, 3)
    values = [rng.choice([str(rng.randint(-10 ** rng.randint(1, 18), 10 ** rng.randint(1, 18))), 'v' * rng.choice(
        [0, 1, 20, 63, 64, 200]), '-0', '007', 'x' * rng.randint(100, 1200) if rng.random() < 0.1 else 'y']) for _ in names]
    return [word for pair in zip(names, values) for word in pair]


def threshold(rng, both, last):
    if rng.random() < 0.6:
        words = ['MAXLEN', '~', rng.choice([0, 1, rng.randint(0, 40), rng.randint(0, 400)])]
    else:
        words = ['MINID', '~', '%d-%d' % (rng.randint(0, last + 3), rng.randint(0, 2))]
    if rng.random() < 0.6:
        words += ['LIMIT', rng.choice([0, 1, rng.randint(0, 30), rng.randint(0, 300)])]
    if rng.random() < 0.15:
        words = [words[0], '=', words[2]]
    return words


@suite.case('XTRIM and XADD remove the same entries of random streams, for random node sizes, thresholds and limits')
def _(run):
    def body(both):
        rng = random.Random(run.seed)
        for _ in range(run.options.rounds):
            both.begin(rng.choice([100, 100, 1, 2, 3, 10, 37, 200, 0]), rng.choice([4096, 4096, 0, 1, 120, 500, 1000, 20000]))
            fields = ['field%d' % i for i in range(rng.randint(1, 4))]
            last = 0
            for _ in range(rng.randint(1, 12)):
                for _ in range(rng.choice([1, 3, 30, 100, 150])):
                    last += rng.choice([0, 1, 1, 1, 130, 5000] if last else [1])
                    trim = threshold(rng, both, last) if rng.random() < 0.1 else []
                    both.send('XADD', 's', *trim, '%d-*' % last, *entry(rng, fields))
                both.call('XTRIM', 's', *threshold(rng, both, last))
                if rng.random() < 0.2:  # removes the first entry, as a queue does
                    first = both.call('XRANGE', 's', '-', '+', 'COUNT', 1)[1]
                    if first:
                        both.call('XDEL', 's', first[0][1][0][1])
                both.call('XLEN', 's')
                both.call('XRANGE', 's', '-', '+', 'COUNT', 1)
        run.note('%d rounds' % run.options.rounds)
    with_both(body)


@suite.case('XADD with MAXLEN ~ keeps a stream as long as redis-server does')
def _(run):
    def body(both):
        for length in (0, 1, 10, 99, 100, 101, 250):
            both.begin(100, 0)
            for i in range(600):
                both.send('XADD', 's', 'MAXLEN', '~', length, '%d-1' % (i + 1), 'f', 'v')
            both.call('XLEN', 's')
    with_both(body)


if __name__ == '__main__':
    suite.main()
