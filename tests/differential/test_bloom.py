#!/usr/bin/python3
"""Bloom filters: false positives against the promised rate, items against a set, dumps, and the proxy over three shards."""

import random
import subprocess

from support.cluster import Cluster, binary, evict_all
from support.harness import Suite, check, check_equal, sized
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)


def pieces(items, size=1000):
    return [items[at:at + size] for at in range(0, len(items), size)]


def add_all(client, key, items):
    for piece in pieces(items):
        client.get('BF.MADD', key, *piece)


def false_positives(client, key, tries):
    """How many of so many items that were never added are found."""
    return sum(sum(client.get('BF.MEXISTS', key, *piece)) for piece in pieces(['other:%d' % i for i in range(tries)]))


@suite.case('a full filter has fewer false positives than its error rate promises, and no false negatives')
def _(run):
    tries = sized(20000, long=200000)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for rate, capacity, options in ((0.1, 100, ['NONSCALING']), (0.1, 5000, ['NONSCALING']), (0.01, 1000, ['NONSCALING']),
                                        (0.01, 20000, ['NONSCALING']), (0.001, 20000, ['NONSCALING']), (0.001, 300, []),
                                        (0.5, 3000, ['NONSCALING'])):
            name = '%s %s' % (rate, capacity)
            items = ['item:%d' % i for i in range(capacity)]
            check_equal(client.get('BF.RESERVE', name, rate, capacity, *options), b'OK')
            add_all(client, name, items)
            check(all(sum(client.get('BF.MEXISTS', name, *piece)) == len(piece) for piece in pieces(items)), name)
            found = false_positives(client, name, tries)
            expected = rate * tries
            check(found <= expected + 4 * expected ** 0.5 + 3, '%s: %d false positives in %d' % (name, found, tries))
            if options and capacity > 1000:
                check(found > expected / 3, '%s: only %d false positives in %d: the filter is too big' % (name, found, tries))


@suite.case('a filter with many layers keeps its error rate')
def _(run):
    tries = sized(20000, long=200000)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for expansion, count in ((1, 300), (2, 20000), (4, 20000)):
            check_equal(client.get('BF.RESERVE', expansion, '0.01', 20, 'EXPANSION', expansion), b'OK')
            items = ['item:%d' % i for i in range(count)]
            add_all(client, expansion, items)
            check(client.get('BF.INFO', expansion, 'FILTERS')[0] > 4, 'layers')
            check(all(sum(client.get('BF.MEXISTS', expansion, *piece)) == len(piece) for piece in pieces(items)), 'all items')
            card = client.get('BF.CARD', expansion)
            check(0.98 * count <= card <= count, '%d of %d items were new' % (card, count))
            found = false_positives(client, expansion, tries)
            check(found <= 0.01 * tries + 60, '%d false positives in %d' % (found, tries))


@suite.case('a filter has at most 32 layers')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        check_equal(client.get('BF.RESERVE', 'k', '0.0001', 1, 'EXPANSION', 1), b'OK')
        check_equal(client.get('BF.MADD', 'k', *range(32)), [1] * 32)
        check_equal(client.get('BF.INFO', 'k', 'FILTERS'), [32])
        replies = client.get('BF.MADD', 'k', '1', 'more', 'never reached')
        check_equal((replies[0], str(replies[1]), len(replies)), (0, 'ERR bloom object reached max number of filters', 2))
        check_equal(client.get('BF.MEXISTS', 'k', *range(32)), [1] * 32)
        check(isinstance(value(client.call('BF.ADD', 'k', 'more')), ReplyError), 'BF.ADD')


@suite.case('BF.INFO is a map in RESP3, and a flat array in RESP2, with simple strings as names')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        for proto in (2, 3):
            with Connection(cluster.backends[0].addresses[0], proto=proto) as client:
                client.call('DEL', 'k')
                check_equal(client.get('BF.RESERVE', 'k', '0.5', 1, 'NONSCALING'), b'OK')
                kind, fields = client.call('BF.INFO', 'k')
                check_equal(kind, '*' if proto == 2 else '%')
                check_equal([field[0] for field in fields], ['+', ':', '+', ':', '+', ':', '+', ':', '+', fields[-1][0]])
                check_equal([field[1] for field in fields[:-1]], [b'Capacity', b'1', b'Size', b'8', b'Number of filters', b'1',
                                                                  b'Number of items inserted', b'0', b'Expansion rate'])
                check_equal(client.get('BF.INFO', 'k', 'EXPANSION'), [None])


def random_words(rng, have, key):
    """A command, and the reply if there are no false positives."""
    items = ['i%d' % rng.randrange(2000) for _ in range(rng.randint(1, 5))]
    kind = rng.randrange(4)
    if kind == 0:
        new = items[0] not in have
        have.add(items[0])
        return ['BF.ADD', key, items[0]], int(new)
    if kind < 3:
        added = []
        for item in items:
            added.append(int(item not in have))
            have.add(item)
        return (['BF.MADD', key] if kind == 1 else ['BF.INSERT', key, 'ITEMS']) + items, added
    return ['BF.MEXISTS', key] + items, [int(item in have) for item in items]


@suite.case('random commands through a proxy over three shards, as a set: with evicted rows, copies, dumps and moves by chunks')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=3, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        keys = ['filter:%d' % i for i in range(6)]
        have = {key: set() for key in keys}
        for key in keys:
            check_equal(client.get('BF.RESERVE', key, '1e-9', rng.choice([10, 100, 3000]), 'EXPANSION', 2), b'OK')
        for step in range(sized(1500, long=20000)):
            key = rng.choice(keys)
            words, expected = random_words(rng, have[key], key)
            check_equal(client.get(*words), expected, str(words))
            if step % 100 == 50:
                check_equal(client.get('BF.CARD', key), len(have[key]), 'BF.CARD')
                payload = client.get('DUMP', key)
                check_equal(client.get('DEL', key), 1)
                check_equal(client.get('RESTORE', key, '0', payload), b'OK')
                check_equal(client.get('DUMP', key), payload, 'DUMP again')
            if step % 100 == 90:
                copy_by_chunks(client, key, 'copy:' + key)
                check_equal(client.get('DUMP', 'copy:' + key), client.get('DUMP', key), 'BF.LOADCHUNK')
                check_equal(client.get('DEL', 'copy:' + key), 1)
            if step % 300 == 299:
                for shard in range(3):
                    evict_all(cluster.partition(shard))
        check_equal(client.get('BF.RESERVE', 'm', '1e-9', 100), b'OK')
        replies = [value(reply) for reply in client.pipeline([['MULTI']] + [['BF.ADD', 'm', i] for i in range(200)] + [['EXEC']])][-1]
        check_equal(sum(replies), 200)
        script = "local n = 0 for i = 1, 300 do n = n + redis.call('BF.ADD', KEYS[1], 's' .. i) end return n"
        check_equal(client.get('EVAL', script, '1', 'm'), 300)


def copy_by_chunks(client, source, target):
    position, chunk = client.get('BF.SCANDUMP', source, 0)
    while position:
        check_equal(client.get('BF.LOADCHUNK', target, position, chunk), b'OK')
        position, chunk = client.get('BF.SCANDUMP', source, position)
    check_equal(chunk, b'')


@suite.case('after kill -9 all acknowledged items are there, and --check-data checks filters')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            check_equal(client.get('BF.RESERVE', 'k', '1e-9', 100), b'OK')
            check_equal(client.get('BF.RESERVE', 'empty', '0.1', 100), b'OK')
            check_equal(sum(client.get('BF.MADD', 'k', *range(1000))), 1000)
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(sum(client.get('BF.MEXISTS', 'k', *range(2000))), 1000)
            check_equal(client.get('BF.CARD', 'k'), 1000)
            check_equal(client.get('BF.CARD', 'empty'), 0)
            check(client.get('MEMORY', 'USAGE', 'k') > 1000, 'MEMORY USAGE')
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and ' 0 problems' in done.stdout, done.stdout + done.stderr)


@suite.case('damaged payloads and chunks are refused, and nothing else happens')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        check_equal(client.get('BF.RESERVE', 'k', '0.01', 200, 'EXPANSION', 2), b'OK')
        client.get('BF.MADD', 'k', *range(1000))
        head = client.get('BF.SCANDUMP', 'k', 0)[1]
        chunk = client.get('BF.SCANDUMP', 'k', 1)[1]
        for _ in range(sized(2000, long=50000)):
            data = bytearray(rng.choice([head, chunk]))
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.3:
                del data[rng.randrange(len(data)):]
            client.get('DEL', 'new')
            first = value(client.call('BF.LOADCHUNK', 'new', 1, bytes(data)))
            check(first == b'OK' or str(first) == 'ERR received bad data', first)
            second = value(client.call('BF.LOADCHUNK', 'k', 2, bytes(data)))
            check(second == b'OK' or str(second) == 'ERR received bad data', second)
            for key in ('new', 'k'):
                client.call('BF.ADD', key, rng.randrange(10000))
                client.call('BF.INFO', key)
                client.call('BF.SCANDUMP', key, rng.randrange(100))
        check_equal(client.get('PING'), b'PONG')


if __name__ == '__main__':
    suite.main()
