#!/usr/bin/python3
"""Big collections that plain commands and transactions over shards change in turn: every reply is that of redis-server.

`--rounds 5000` plays for some minutes; `--turmoil` also moves slots, and kills and starts the backends, between the rounds.
"""

from support.big_collections import BigCollections
from support.cluster import Cluster, Oracle
from support.harness import Suite, check_equal, sized
from support.moves import random_slots, wait_settled
from support.resp import Connection


def options(parser):
    parser.add_argument('--rounds', type=int, default=sized(150, long=3000), help='for each number of shards and protocol')
    parser.add_argument('--turmoil', action='store_true', help='slots move and backends are killed between the rounds')


suite = Suite(__doc__, options)


def disturb(cluster, rng):
    """Kills and starts a backend, or moves slots."""
    if rng.random() < 0.5:
        victim = rng.choice(cluster.backends)
        victim.kill9()
        victim.start()
        cluster.wait_linked()
    elif len(cluster.backends) > 1:
        cluster.write_shards(random_slots(rng, len(cluster.backends)))
        wait_settled(cluster, range(len(cluster.backends)))


def play(run, cluster, oracle, proto, seed):
    with cluster.connect(proto=proto) as ours, Connection(oracle.address, proto=proto) as theirs:
        big = BigCollections(ours, theirs, seed)
        big.fill()
        for number in range(run.options.rounds):
            big.round()
            if run.options.turmoil and number % 50 == 49:
                disturb(cluster, run.rng)
        big.check_all()
    for backend in cluster.backends:  # what is on disk is right, too
        backend.kill9()
        backend.start()
    if len(cluster.backends) > 1:
        cluster.wait_linked()
    with cluster.connect(proto=proto) as ours, Connection(oracle.address, proto=proto) as theirs:
        big.ours, big.theirs = ours, theirs
        big.check_all()
        for _ in range(20):
            big.round()
    run.note('seed %d, RESP%d: %s' % (seed, proto, ', '.join('%s %d' % each for each in sorted(big.done.items()))))


def compare(run, shards):
    # a slow machine needs long to start a backend
    with Oracle() as oracle, Cluster(backends=shards, partitions=1, linked=True, proxy_options={'upstream': {'hold': '1m'}}) as cluster:
        for proto in (2, 3):
            play(run, cluster, oracle, proto, run.seed * 10 + proto)


@suite.case('one shard: changes of big collections, plain, in MULTI and in scripts, are those of redis-server')
def _(run):
    compare(run, 1)


@suite.case('three shards: changes of big collections, plain and in transactions over shards, are those of redis-server')
def _(run):
    compare(run, 3)


@suite.case('five shards: changes of big collections, plain and in transactions over shards, are those of redis-server')
def _(run):
    compare(run, 5)


OF_SETS = ('SINTER', 'SDIFF', 'SUNION', 'SINTERCARD', 'SINTERSTORE', 'SDIFFSTORE', 'SUNIONSTORE')
OF_BOTH = ('ZINTER', 'ZDIFF', 'ZUNION', 'ZINTERCARD', 'ZINTERSTORE', 'ZDIFFSTORE', 'ZUNIONSTORE')


def combination(rng, sets, both):
    """A command over some of the keys, each perhaps several times."""
    name = rng.choice(OF_SETS + OF_BOTH)
    keys = rng.choices(both if name in OF_BOTH else sets, k=rng.choice((1, 2, 3, 4, 9)))
    numbered = [] if name in OF_SETS and name != 'SINTERCARD' else [len(keys)]
    tail = ['LIMIT', rng.randrange(20)] if name.endswith('CARD') else ['WITHSCORES'] if name in OF_BOTH[:3] else []
    return [name] + ['to'] * name.endswith('STORE') + numbered + keys + tail


def fill_some(rng, each):
    """Sets and sorted sets of which some are far larger than others. Returns the keys of sets, and all."""
    members = rng.choice((1, 5, 20, 100, 1000, 3000))
    sets, both = ['none'], ['none']
    for number in range(rng.randint(1, 9)):
        size, is_set, key = rng.choice((1, 10, 17, 100, members, 3 * members, 9 * members)), rng.random() < 0.5, 'k%d' % number
        names = ['m%d' % rng.randrange(4 * members) for _ in range(size)] + ['', 'zz'] * rng.randrange(2)
        each(['SADD', key, *names] if is_set else ['ZADD', key] + [word for name in names for word in (rng.randrange(100) / 4, name)])
        both.append(key)
        sets += [key] * is_set
    return sets, both


def read_stored(rng, is_sorted, each):
    """Reads the result, or a copy of it under another name; of a sorted set also ranks, which have rows of their own."""
    if rng.random() < 0.3:
        each(['COPY', 'to', 'copy', 'REPLACE'])
        each(['EXISTS', 'copy'])
        each(['DEL', 'to'])
        each(['COPY', 'copy', 'to'])
        each(['DEL', 'copy'])
    each(['ZRANGE', 'to', 0, -1, 'WITHSCORES'] if is_sorted else ['SMEMBERS', 'to'])
    if is_sorted:
        each(['ZRANGE', 'to', *sorted((rng.randrange(2000), rng.randrange(2000)))])
        each(['ZRANK', 'to', 'm%d' % rng.randrange(2000)])
        each(['ZREMRANGEBYRANK', 'to', rng.randrange(300), rng.randrange(600)])
        each(['ZCOUNT', 'to', 3, 20])


@suite.case('intersections, differences and unions of small and large sets are those of redis-server')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=1) as cluster, cluster.partition(0) as ours, Connection(oracle.address) as theirs:
        def each(words):
            got, wanted = [connection.get(*words) for connection in (ours, theirs)]
            if isinstance(got, list) and words[0] not in OF_BOTH:
                got, wanted = sorted(got), sorted(wanted)
            check_equal(got, wanted, words)
        for _ in range(sized(20, long=2000)):
            sets, both = fill_some(run.rng, each)
            for _ in range(40):
                words = combination(run.rng, sets, both)
                each(words)
                if words[1] == 'to':
                    read_stored(run.rng, words[0] in OF_BOTH, each)
                    each(['DEL', 'to'])
            each(['FLUSHALL'])


if __name__ == '__main__':
    suite.main()
