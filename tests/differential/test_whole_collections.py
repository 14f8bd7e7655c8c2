#!/usr/bin/python3
"""Commands that write whole collections, for sizes around those of the portions in which rows are written: replies and what is left are
those of redis-server.
"""

from support.cluster import Cluster, Oracle
from support.harness import Suite, check_equal
from support.resp import Connection

suite = Suite(__doc__)

SIZES = [1, 7, 8, 9, 16, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2500]
LONG = 300  # longer than the room for a row's key on the stack


def word(kind, i):
    return '%s%d' % (kind, i) + ('x' * LONG if i % 5 == 2 else '')


def fill(size):
    """Collections that overlap, in orders that differ."""
    numbers = [i * 7919 % size for i in range(size)]
    return [
        ['HSET', 'hash'] + [each for i in numbers for each in (word('field', i), word('value', i))],
        ['RPUSH', 'list'] + [word('element', i) for i in numbers],
        ['SADD', 'set'] + [word('member', i) for i in numbers], ['SADD', 'even'] + [word('member', 2 * i) for i in numbers],
        ['ZADD', 'zset'] + [each for i in numbers for each in (i % 17, word('member', i))],
        ['ZADD', 'zeven'] + [each for i in numbers for each in (-i, word('member', 2 * i))],
    ]


COMMANDS = [
    ['COPY', 'hash', 'hash2'], ['COPY', 'set', 'set2'], ['COPY', 'zset', 'zset2'], ['COPY', 'list', 'list2'], ['RENAME', 'zset2', 'zset3'],
    ['SUNIONSTORE', 'sunion', 'set', 'even'], ['SINTERSTORE', 'sinter', 'set', 'even'], ['SDIFFSTORE', 'sdiff', 'set', 'even'],
    ['ZUNIONSTORE', 'zunion', 3, 'zset', 'zeven', 'set', 'WEIGHTS', 2, 3, 5], ['ZUNIONSTORE', 'zunion1', 1, 'zset'],
    ['ZUNIONSTORE', 'zunion4', 4, 'zeven', 'zset', 'zeven', 'even', 'AGGREGATE', 'MAX'],
    ['ZINTERSTORE', 'zinter', 2, 'zset', 'zeven'], ['ZDIFFSTORE', 'zdiff', 2, 'zset', 'zeven'], ['ZRANGESTORE', 'zrange', 'zset', 0, -1],
    ['SORT', 'list', 'ALPHA', 'STORE', 'sorted'], ['SORT', 'zset', 'ALPHA', 'DESC', 'STORE', 'sorted2'],
    ['ZUNION', 2, 'zset', 'zeven', 'WITHSCORES'], ['ZREMRANGEBYRANK', 'zunion', 3, 40], ['ZREMRANGEBYSCORE', 'zunion', 10, 30],
]
READS = {
    'list': lambda key: [['LRANGE', key, 0, -1], ['LINDEX', key, 5]],
    'set': lambda key: [['SMEMBERS', key], ['SCARD', key]], 'hash': lambda key: [['HGETALL', key], ['HLEN', key]],
    'zset': lambda key: [['ZRANGE', key, 0, -1, 'WITHSCORES'], ['ZCARD', key], ['ZRANGE', key, 70, 75], ['ZRANK', key, word('member', 8)],
                         ['ZSCORE', key, word('member', 2)]]}


def compare(ours, theirs, words):
    here, there = ours.get(*words), theirs.get(*words)
    if words[0] in ('SMEMBERS', 'HGETALL'):  # in an order of their own
        step = 2 if words[0] == 'HGETALL' else 1
        here, there = (sorted(tuple(each[i:i + step]) for i in range(0, len(each), step)) for each in (here, there))
    check_equal(here, there, ' '.join(map(str, words))[:80])


def compare_all(ours, theirs):
    keys = sorted(ours.get('KEYS', '*'))
    check_equal(keys, sorted(theirs.get('KEYS', '*')), 'keys')
    for key in keys:
        for words in READS[ours.get('TYPE', key).decode()](key.decode()):
            compare(ours, theirs, words)


@suite.case('copies, unions and sorted lists of any size')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=1) as cluster:
        with cluster.connect() as ours, Connection(oracle.address) as theirs:
            for size in SIZES:
                for words in fill(size) + COMMANDS:
                    compare(ours, theirs, words)
                compare_all(ours, theirs)
                compare(ours, theirs, ['FLUSHALL'])


@suite.case('SPOP, SRANDMEMBER, HRANDFIELD and ZRANDMEMBER choose different members, however many')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as client:
        for size in SIZES:
            for words in fill(size):
                client.get(*words)
            members = {word('member', i).encode() for i in range(size)}
            fields = {word('field', i).encode() for i in range(size)}
            for count in sorted({1, size // 65, size // 64, size // 63, size // 2, size - 1} - {0}):
                for command, key, known in (('SRANDMEMBER', 'set', members), ('HRANDFIELD', 'hash', fields), ('ZRANDMEMBER', 'zset', members)):
                    found = client.get(command, key, count)
                    check_equal((len(found), len(set(found)), set(found) - known), (count, count, set()), command)
                client.get('COPY', 'set', 'popped', 'REPLACE')
                found = client.get('SPOP', 'popped', count)
                check_equal((len(found), len(set(found))), (count, count), 'SPOP %d of %d' % (count, size))
                check_equal(set(client.get('SMEMBERS', 'popped')), members - set(found), 'what SPOP left')
                check_equal(client.get('SCARD', 'popped'), size - count)
            client.get('FLUSHALL')


@suite.case('each member is chosen sooner or later')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as client:
        client.get('SADD', 'set', *range(200))
        for count in (2, 100):  # few, and many: by different means
            seen = set()
            for _ in range(4000 // count):
                seen.update(client.get('SRANDMEMBER', 'set', count))
            check_equal(len(seen), 200, 'with %d at a time' % count)


if __name__ == '__main__':
    suite.main()
