#!/usr/bin/python3
"""RESTORE accepts the dumps of Redis 5 to 8 and Valkey 9, and refuses values that cannot be kept, with the reason."""


from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal
from support.rdb_payload import length, listpack, millis, payload, stream, string
from support.resp import Connection, ReplyError

suite = Suite(__doc__)

# compared byte for byte, because rdb_payload.py and the reader could have the same mistake
GOLDEN = [
    (payload(20, string(listpack('a', 'bc', 7)), 11), '1410100000000300816102826263030701ff0b00'),
    (payload(0, string('x'), 80), '0001785000'),
]


def with_partition(body):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with Connection(cluster.backends[0].addresses[0]) as client:
            body(client)


@suite.case('RESTORE accepts versions up to 12 and 80, with every type of Redis 7.0, and listpack sets')
def _(run):
    def body(client):
        for made, golden in GOLDEN:
            check_equal(made[:-8].hex(), golden)
        for version in list(range(1, 13)) + [80]:
            for kind, value, read, want in (
                    (0, string('text'), ['GET', 'k'], b'text'),
                    (1, length(2) + string('a') + string('b'), ['LRANGE', 'k', 0, -1], [b'a', b'b']),
                    (4, length(1) + string('f') + string('v'), ['HGETALL', 'k'], [b'f', b'v']),
                    (16, string(listpack('f', 1)), ['HGETALL', 'k'], [b'f', b'1']),
                    (17, string(listpack('m', 2)), ['ZRANGE', 'k', 0, -1, 'WITHSCORES'], [b'm', b'2']),
                    (18, length(1) + length(2) + string(listpack('a', 1)), ['LRANGE', 'k', 0, -1], [b'a', b'1']),
                    (20, string(listpack('a', 'b', 7)), ['SORT', 'k', 'ALPHA'], [b'7', b'a', b'b'])):
                check_equal(client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE'), b'OK', 'type %d' % kind)
                check_equal(client.get(*read), want, 'type %d of version %d' % (kind, version))
        check_equal(client.get('TYPE', 'k'), b'set')
        check_equal(client.get('SCARD', 'k'), 3)
        for version in (13, 79, 81, 65535):
            reply = client.get('RESTORE', 'k', 0, payload(0, string('x'), version), 'REPLACE')
            check_equal(str(reply), 'ERR DUMP payload version or checksum are wrong', 'version %d' % version)
    with_partition(body)


@suite.case('RESTORE accepts streams of Redis 7.2 and later, whose consumers have two times')
def _(run):
    def body(client):
        for version in (11, 12, 80):
            made = stream(21, [(1, 1), (1, 2), (3, 0)], (1, 2), version, read=2, active=2500)
            check_equal(client.get('RESTORE', 's', 0, made, 'REPLACE'), b'OK')
            check_equal(client.get('XRANGE', 's', '-', '+'), [[b'1-1', [b'f', b'v']], [b'1-2', [b'f', b'v']], [b'3-0', [b'f', b'v']]])
            group = client.get('XINFO', 'GROUPS', 's')[0]
            check_equal(group, [b'name', b'group', b'consumers', 1, b'pending', 1, b'last-delivered-id', b'1-2', b'entries-read',
                                2, b'lag', 1])
            check_equal(client.get('XPENDING', 's', 'group', '-', '+', 9)[0][:2], [b'1-1', b'consumer'])
            full = client.get('XINFO', 'STREAM', 's', 'FULL')
            consumer = full[full.index(b'groups') + 1][0][-1][0]
            check_equal(consumer[consumer.index(b'active-time') + 1], 2500, 'active-time')
            dumped = client.get('DUMP', 's')
            check_equal(client.get('RESTORE', 'again', 0, dumped, 'REPLACE'), b'OK')
            check_equal(client.get('XINFO', 'GROUPS', 'again')[0], group)
        cut = stream(21, [(1, 1)], (1, 1), 11, read=1, active=1)[:-18]
        check(isinstance(client.get('RESTORE', 'cut', 0, payload(21, cut[1:], 11)), ReplyError), 'a cut one is refused')
        check_equal(client.get('EXISTS', 'cut'), 0)
    with_partition(body)


@suite.case('RESTORE of streams of Redis 5 and 6 gives their groups the entries-read that redis-server gives')
def _(run):
    with Oracle() as oracle:
        def body(client):
            with Connection(oracle.address) as theirs:
                for last in ((0, 0), (0, 9), (1, 1), (1, 2), (2, 0), (3, 0), (9, 9)):
                    made = stream(15, [(1, 1), (1, 2), (3, 0)], last, 9)
                    for words in (['RESTORE', 's', 0, made, 'REPLACE'], ['XINFO', 'GROUPS', 's'], ['XRANGE', 's', '-', '+']):
                        check_equal(client.call(*words), theirs.call(*words), 'group at %d-%d' % last)
        with_partition(body)


@suite.case('RESTORE refuses hashes with field expiry and types of newer servers, with the reason')
def _(run):
    def body(client):
        one = length(1) + length(5001) + string('f') + string('v')
        client.get('SET', 'k', 'old')
        for kind, value, reason in ((22, one, 'fields have a time to live'), (23, string(listpack('f', 'v', 1)), 'a time to live'),
                                    (24, millis(5000) + one, 'a time to live'),
                                    (25, millis(5000) + string(listpack('f', 'v', 1)), 'a time to live'),
                                    (26, one, 'type 26 of a newer server'), (200, one, 'type 200'), (6, one, 'Bad data format'),
                                    (8, one, 'Bad data format')):
            for version in (12, 80):
                reply = client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE')
                check(isinstance(reply, ReplyError) and reason in str(reply), 'type %d: %r' % (kind, reply))
        check_equal(client.get('GET', 'k'), b'old', 'nothing was replaced')
    with_partition(body)


if __name__ == '__main__':
    suite.main()
