#!/usr/bin/python3
"""Commands and options that redis-server 7.0 does not have reply as their documentation says.

The cases are in the files vectors_*.py; support/vectors.py describes their syntax. Each case is played at a partition and
through a proxy over three shards, alone, in MULTI and in scripts, in RESP2 and RESP3; a case with the mark `direct` at
a partition only.
"""

import contextlib

import vectors_bloom
import vectors_connection
import vectors_hash_ttl
import vectors_sketch
import vectors_streams
import vectors_tdigest
import vectors_topk
import vectors_values
from support import vectors
from support.cluster import Cluster
from support.harness import Suite, check_equal
from support.resp import Connection

suite = Suite(__doc__)


class World:
    """The clusters that all cases share: a partition alone, and a proxy with three shards."""

    def __init__(self):
        self.stack, self.targets = contextlib.ExitStack(), []

    def start(self):
        if not self.targets:
            alone = self.stack.enter_context(Cluster(backends=1, partitions=1, proxies=0))
            several = self.stack.enter_context(Cluster(backends=1, partitions=3, linked=True))
            self.targets = [('direct', alone.backends[0].addresses[0]), ('proxy', several.proxies[0].address)]
        return self.targets

    def stop(self):
        self.targets = []
        self.stack.close()


WORLD = World()


def add(title, text, *marks):
    @suite.case(title)
    def _(_run):
        for name, address in WORLD.start():
            if 'direct' in marks and name != 'direct':
                continue
            vectors.play(name, address, text, 'alone' in marks)


for case in (vectors_bloom.CASES + vectors_sketch.CASES + vectors_tdigest.CASES + vectors_topk.CASES + vectors_values.CASES + vectors_connection.CASES + vectors_hash_ttl.CASES
             + vectors_streams.CASES):
    add(*case)


@suite.case('MPUBLISH: subscribers receive each of the messages, in their order')
def _(_run):
    for name, address in WORLD.start():
        with Connection(address) as subscriber, Connection(address) as publisher:
            subscriber.call('SUBSCRIBE', 'news')
            check_equal(publisher.call('MPUBLISH', 'news', 'one', 'two', 'three'), (':', b'3'), '%s: receivers' % name)
            got = [subscriber.read()[1][2][1] for _ in range(3)]
            check_equal(got, [b'one', b'two', b'three'], '%s: messages' % name)


@suite.case('HSETEX of a new key with a time that has passed sends new, hset, hdel and del')
def _(_run):
    address = WORLD.start()[0][1]
    with Connection(address) as subscriber, Connection(address) as client:
        client.get('DEL', 'h')
        client.get('CONFIG', 'SET', 'notify-keyspace-events', 'KAn')
        subscriber.call('SUBSCRIBE', '__keyspace@0__:h')
        check_equal(client.get('HSETEX', 'h', 'PXAT', 1, 'FIELDS', 1, 'f', 'v'), 1)
        check_equal([subscriber.read()[1][2][1] for _ in range(4)], [b'new', b'hset', b'hdel', b'del'])
        client.get('CONFIG', 'SET', 'notify-keyspace-events', '')


@suite.case('(the servers of these cases stop cleanly)')
def _(_run):
    WORLD.stop()


if __name__ == '__main__':
    try:
        suite.main()
    finally:
        WORLD.stop()
