#!/usr/bin/python3
"""RESTORE accepts the dumps of Redis 5 to 8 and Valkey 9, and refuses values that cannot be kept, with the reason."""

import random

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, sized
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


def ttl_hashes(base, soon):
    """The hash {keep: 1, late: 2, soon: 3} in every form: keep has no TTL, late expires at base + 9000, soon at `soon`."""
    times = [(b'keep', 1, 0), (b'late', 2, base + 9000), (b'soon', 3, soon)]
    relative = b''.join(length(at - base + 1 if at else 0) + string(field) + string(text) for field, text, at in times)
    absolute = b''.join(length(at) + string(field) + string(text) for field, text, at in times)
    packed = string(listpack(*[part for item in times for part in item]))
    behind = b''.join(string(field) + string(text) + millis(at or 2 ** 64 - 1) for field, text, at in times)
    return [(22, 12, length(3) + absolute), (23, 12, packed), (24, 12, millis(base) + length(3) + relative), (25, 12, millis(base) + packed),
            (22, 80, length(3) + behind)]


@suite.case('RESTORE accepts hashes whose fields have a time to live, of Redis 7.4 and 8 and Valkey 9')
def _(run):
    def body(client):
        base = 4102444800000
        for kind, version, value in ttl_hashes(base, base + 5):
            check_equal(client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE'), b'OK', 'type %d' % kind)
            check_equal(client.get('HGETALL', 'k'), [b'keep', b'1', b'late', b'2', b'soon', b'3'], 'type %d' % kind)
            check_equal(client.get('HPEXPIRETIME', 'k', 'FIELDS', 3, 'keep', 'late', 'soon'), [-1, base + 9000, base + 5], 'type %d' % kind)
            check_equal(client.get('HLEN', 'k'), 3)
    with_partition(body)


@suite.case('fields whose time has passed are gone after RESTORE; a hash that had no others is gone, too')
def _(run):
    def body(client):
        for kind, version, value in ttl_hashes(1000, 2000):
            check_equal(client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE'), b'OK', 'type %d' % kind)
            check_equal(client.get('HGETALL', 'k'), [b'keep', b'1'], 'type %d' % kind)
            check_equal(client.get('HTTL', 'k', 'FIELDS', 3, 'keep', 'late', 'soon'), [-1, -2, -2], 'type %d' % kind)
        check_equal(client.get('RESTORE', 'k', 0, payload(23, string(listpack('f', 'v', 1)), 12), 'REPLACE'), b'OK')
        check_equal(client.get('EXISTS', 'k'), 0, 'all fields have expired')
    with_partition(body)


@suite.case('DUMP of a hash with times to live is that of Redis 7.4, and RESTORE makes the same hash')
def _(run):
    def body(client):
        base = 4102444800000
        client.get('HSETEX', 'k', 'PXAT', base, 'FIELDS', 1, 'a', '1')
        client.get('HSETEX', 'k', 'PXAT', base + 64, 'FIELDS', 1, 'b', 'x')
        client.get('HSET', 'k', 'c', 'y')
        want = millis(base) + length(3) + length(1) + string('a') + b'\xc0\x01' + length(65) + string('b') + string('x') + \
            length(0) + string('c') + string('y')
        dumped = client.get('DUMP', 'k')
        check_equal(dumped, payload(24, want, 12), 'the payload')
        check_equal(client.get('RESTORE', 'copy', 0, dumped), b'OK')
        check_equal(client.get('HGETALL', 'copy'), client.get('HGETALL', 'k'))
        check_equal(client.get('HPEXPIRETIME', 'copy', 'FIELDS', 3, 'a', 'b', 'c'), [base, base + 64, -1])
        client.get('HPERSIST', 'k', 'FIELDS', 2, 'a', 'b')
        check_equal(client.get('DUMP', 'k')[:1], b'\4', 'without times to live it is a payload of Redis 7.0')
        check_equal(client.get('DUMP', 'k')[-10:-8], b'\x0a\0', 'its version')
    with_partition(body)


@suite.case('damaged hashes with times to live are refused, and change nothing')
def _(run):
    rng = random.Random(run.seed)

    def body(client):
        client.get('SET', 'k', 'old')
        accepted = 0
        for kind, version, value in ttl_hashes(4102444800000, 4102444800005):
            damaged = [value[:cut] for cut in range(len(value))] + [value + b'\0']
            for _ in range(sized(150, long=20000)):
                at = rng.randrange(len(value))
                damaged.append(value[:at] + bytes([rng.randrange(256)]) + value[at + 1:])
            for bad in damaged:
                reply = client.get('RESTORE', 'k', 0, payload(kind, bad, version), 'REPLACE')
                if reply == b'OK':  # a changed text or time is not damage
                    accepted += 1
                    check_equal(client.get('HLEN', 'k'), len(client.get('HKEYS', 'k')), 'fields of type %d %r' % (kind, bad))
                    client.get('SET', 'k', 'old')
                else:
                    check_equal(str(reply), 'ERR Bad data format', 'type %d %r' % (kind, bad))
                    check_equal(client.get('GET', 'k'), b'old', 'nothing was replaced')
        run.note('%d accepted' % accepted)
        for kind, version, value in ((24, 12, millis(2 ** 63) + length(1) + length(1) + string('f') + string('v')),
                                     (24, 12, millis(5) + length(1) + b'\x81' + b'\xff' * 8 + string('f') + string('v')),
                                     (22, 80, length(1) + string('f') + string('v') + millis(2 ** 64 - 2)),
                                     (25, 12, millis(5) + string(listpack('f', 'v', -1))), (25, 12, millis(5) + string(listpack('f', 'v', 'x'))),
                                     (25, 12, millis(5) + string(listpack('f', 'v'))), (25, 12, millis(5) + string(listpack('f', 1, 0, 'f', 2, 0))),
                                     (24, 12, millis(5) + length(0)), (23, 12, string(listpack()))):
            reply = client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE')
            check_equal(str(reply), 'ERR Bad data format', 'type %d %r' % (kind, value))
    with_partition(body)


@suite.case('RESTORE refuses types of newer servers, with the reason')
def _(run):
    def body(client):
        one = length(1) + length(5001) + string('f') + string('v')
        client.get('SET', 'k', 'old')
        for kind, value, reason in ((26, one, 'type 26 of a newer server'), (200, one, 'type 200'), (6, one, 'Bad data format'),
                                    (8, one, 'Bad data format')):
            for version in (12, 80):
                reply = client.get('RESTORE', 'k', 0, payload(kind, value, version), 'REPLACE')
                check(isinstance(reply, ReplyError) and reason in str(reply), 'type %d: %r' % (kind, reply))
        check_equal(client.get('GET', 'k'), b'old', 'nothing was replaced')
    with_partition(body)


if __name__ == '__main__':
    suite.main()
