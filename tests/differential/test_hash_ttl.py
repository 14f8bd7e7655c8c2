#!/usr/bin/python3
"""Times to live of hash fields: keyspace events, big hashes, transactions over shards. Replies: vectors_hash_ttl.py."""

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)

# ---- keyspace events ----

# command → events that its subscriber gets
EVENTS = r'''
HSET h a 1 b 2 c 3 d 4 => hset
HEXPIRE h 1000 FIELDS 2 a b => hexpire
HEXPIRE h 1000 NX FIELDS 2 a nope =>
HPEXPIRE h 1000000 FIELDS 1 a => hexpire
HPEXPIREAT h 70368744177663 FIELDS 1 a => hexpire
HPERSIST h FIELDS 2 a c => hpersist
HPERSIST h FIELDS 2 a c =>
HTTL h FIELDS 1 a =>
HGETEX h FIELDS 1 a =>
HGETEX h EX 1000 FIELDS 1 a => hexpire
HGETEX h PERSIST FIELDS 1 a => hpersist
HGETEX h PERSIST FIELDS 1 a =>
HGETEX h EX 0 FIELDS 1 a => hdel
HEXPIREAT h 1 FIELDS 2 b nope => hdel
HGETDEL h FIELDS 1 nope =>
HGETDEL h FIELDS 1 c => hdel
HGETDEL h FIELDS 1 d => hdel del
HSETEX h FIELDS 1 a 1 => hset
HSETEX h EX 1000 FIELDS 1 a 1 => hset hexpire
HSETEX h FNX EX 1000 FIELDS 1 a 1 =>
HSETEX h KEEPTTL FIELDS 1 a 1 => hset
HSETEX h EX 0 FIELDS 1 a 1 => hset hdel del
HSETEX h EX 0 FIELDS 1 a 1 => hset hdel del
HSET h a 1 => hset
HEXPIRE h 0 FIELDS 1 a => hdel del
HSETEXPIRE h 1000 a 1 => hset expire
HINCRBY h a 1 => hincrby
'''


def events_of(listener):
    """The events that have arrived, in order; the listener is subscribed to __keyspace@0__:h."""
    listener.send('PING', 'end')
    events = []
    while True:
        frame = value(listener.read())
        if frame == [b'pong', b'end']:
            return events
        events.append(frame[-1].decode())


@suite.case('each command sends the events that Redis documents')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, listener = cluster.partition(0), cluster.partition(0)
        client.get('CONFIG', 'SET', 'notify-keyspace-events', 'KA')
        listener.get('SUBSCRIBE', '__keyspace@0__:h')
        for line in EVENTS.strip().split('\n'):
            command, want = line.split('=>')
            reply = client.get(*command.split())
            check(not isinstance(reply, ReplyError), '%s: %r' % (command, reply))
            check_equal(events_of(listener), want.split(), command)


def await_events(client, listener, count, is_active):
    """The next `count` events; without active expiry a command deletes what has expired."""
    got = []

    def all_here():
        if not is_active:
            client.get('HLEN', 'h')
        got.extend(events_of(listener))
        return len(got) >= count
    wait_for(all_here, '%d events' % count)
    return got


@suite.case('expired fields send hexpired, and del when the key is gone: by active expiry, and by a command')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, listener = cluster.partition(0), cluster.partition(0)
        client.get('CONFIG', 'SET', 'notify-keyspace-events', 'KA')
        listener.get('SUBSCRIBE', '__keyspace@0__:h')
        for is_active in (1, 0):
            client.get('DEBUG', 'SET-ACTIVE-EXPIRE', is_active)
            client.get('HSET', 'h', 'a', 1, 'b', 2, 'c', 3)
            client.get('HPEXPIRE', 'h', 20, 'FIELDS', 2, 'a', 'b')
            check_equal(await_events(client, listener, 3, is_active), ['hset', 'hexpire', 'hexpired'], 'two fields at one time')
            client.get('HPEXPIRE', 'h', 20, 'FIELDS', 1, 'c')
            check_equal(await_events(client, listener, 3, is_active), ['hexpire', 'hexpired', 'del'], 'the last field')
            check_equal((client.get('EXISTS', 'h'), client.get('DBSIZE')), (0, 0), 'the key is gone')
            check(b'expired_subkeys:%d' % (3 if is_active else 6) in client.get('INFO', 'stats'), 'INFO')


@suite.case('transactions with hashes on several shards: TTLs are set, copied and moved; what has expired is not seen')
def _(run):
    at = 4102444800000
    with Cluster(backends=1, partitions=3, linked=True) as cluster, cluster.connect() as client:
        keys = ['h%d' % i for i in range(6)]
        client.pipeline([['MULTI']] + [['HSET', key, 'a', '1', 'b', '2'] for key in keys]
                        + [['HPEXPIREAT', key, at + i, 'FIELDS', 1, 'a'] for i, key in enumerate(keys)] + [['EXEC']])
        for i, key in enumerate(keys):
            check_equal(client.get('HPEXPIRETIME', key, 'FIELDS', 2, 'a', 'b'), [at + i, -1], key)
        for i, key in enumerate(keys):
            check_equal(client.get('COPY', key, 'copy%d' % i), 1, 'COPY')
            check_equal(client.get('RENAME', key, 'moved%d' % i), b'OK', 'RENAME')
            for name in ('copy%d' % i, 'moved%d' % i):
                check_equal(client.get('HPEXPIRETIME', name, 'FIELDS', 2, 'a', 'b'), [at + i, -1], name)
                check_equal(client.get('HGETALL', name), [b'a', b'1', b'b', b'2'], name)
        for name in ('moved0', 'moved1', 'moved2'):
            client.get('HPEXPIRE', name, 20, 'FIELDS', 1, 'a')
        words = [['MULTI']] + [['HGETALL', 'moved%d' % i] for i in range(3)] + [['HLEN', 'moved%d' % i] for i in range(3)] + [['EXEC']]
        left = [('*', [('$', b'b'), ('$', b'2')])] * 3 + [(':', b'1')] * 3
        wait_for(lambda: client.pipeline(words)[-1][1] == left, 'the fields to expire')
        script = 'for _, key in ipairs(KEYS) do redis.call("HSETEX", key, "PXAT", ARGV[1], "FIELDS", 1, "c", "3") end return #KEYS'
        check_equal(client.get('EVAL', script, 3, 'moved0', 'moved1', 'moved2', at), 3, 'a script')
        for i in range(3):
            check_equal(client.get('HPEXPIRETIME', 'moved%d' % i, 'FIELDS', 3, 'a', 'b', 'c'), [-2, -1, at], 'after the script')


@suite.case('a hash of which more fields are due than a command deletes: no command sees them')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0)
        client.get('DEBUG', 'SET-ACTIVE-EXPIRE', 0)
        fields = ['f%04d' % i for i in range(3000)]
        pairs = [word for field in fields for word in (field, 'v')]
        client.get('HSETEX', 'h', 'PX', 1, 'FIELDS', len(fields), *pairs)
        client.get('HSET', 'h', 'kept', '1')
        wait_for(lambda: client.get('HEXISTS', 'h', 'f2999') == 0, 'the fields to expire')
        check_equal(client.get('HLEN', 'h'), 1, 'HLEN')
        client.get('HSETEX', 'h', 'PX', 1, 'FIELDS', len(fields), *pairs)
        wait_for(lambda: client.get('HEXISTS', 'h', 'f2999') == 0, 'the fields to expire')
        for words, want in ((['HGETALL', 'h'], [b'kept', b'1']), (['HKEYS', 'h'], [b'kept']), (['HLEN', 'h'], 1),
                            (['HSCAN', 'h', 0, 'COUNT', 9000], [b'0', [b'kept', b'1']]), (['HSETNX', 'h', 'f2998', '2'], 1),
                            (['HRANDFIELD', 'h', 9], [b'f2998', b'kept']), (['HDEL', 'h', 'kept', 'f2998', 'f2997'], 2), (['EXISTS', 'h'], 0)):
            check_equal(client.get(*words), want, words[0])


suite.main()
