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


suite.main()
