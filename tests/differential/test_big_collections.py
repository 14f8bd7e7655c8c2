#!/usr/bin/python3
"""Big collections that plain commands and transactions over shards change in turn: every reply is that of redis-server.

`--rounds 5000` plays for some minutes; `--turmoil` also moves slots, and kills and starts the backends, between the rounds.
"""

from support.big_collections import BigCollections
from support.cluster import Cluster, Oracle
from support.harness import Suite, sized
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
    with Oracle() as oracle, Cluster(backends=shards, partitions=1, linked=True) as cluster:
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


if __name__ == '__main__':
    suite.main()
