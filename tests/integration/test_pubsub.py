#!/usr/bin/python3
"""Pub/sub, keyspace events and MONITOR: the frames of every connection are those of redis-server."""

import os
import re

from support.cluster import Cluster
from support.disk import SmallDisk
from support.duel import Duel, add_script
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Closed, Connection, value

suite = Suite(__doc__)

SCRIPTS = {
    'subscriptions are confirmed and counted, one frame each': '''
a: SUBSCRIBE x y x
a: PSUBSCRIBE p* q*
a: SSUBSCRIBE s x
b: PUBSUB NUMSUB x y none
b: !unordered PUBSUB CHANNELS
b: PUBSUB CHANNELS y*
b: PUBSUB SHARDCHANNELS s*
b: PUBSUB SHARDNUMSUB s x none
b: PUBSUB NUMPAT
b: PUBSUB NUMSUB
b: PUBSUB SHARDNUMSUB
b: PUBSUB CHANNELS a b
b: PUBSUB SHARDCHANNELS a b
b: PUBSUB nosuch
b: PUBSUB
b: PUBSUB NUMPAT extra
b: SUBSCRIBE
b: PUBLISH x
a: UNSUBSCRIBE y nothing
a: PUNSUBSCRIBE p*
a: PUNSUBSCRIBE
a: PUNSUBSCRIBE
a: SUNSUBSCRIBE s
a: SUNSUBSCRIBE
a: SUNSUBSCRIBE
a: UNSUBSCRIBE
a: UNSUBSCRIBE
a: GET k
b: PUBSUB NUMPAT
b: PUBSUB CHANNELS
''',
    'messages reach channels, patterns and shard channels': '''
a: SUBSCRIBE news
b: PSUBSCRIBE n*s
c: SSUBSCRIBE news
d: HELLO 3
d: SUBSCRIBE news
d: PSUBSCRIBE n?ws [n]ews
d: SSUBSCRIBE news
e: !unordered PUBLISH news hello
e: PUBLISH nes hello
e: SPUBLISH news shard
e: PUBLISH nobody hello
e: SPUBLISH nobody hello
d: !unordered PUBLISH news own
d: SPUBLISH news own
e: !unordered PUBLISH news a | PUBLISH news b | SPUBLISH news c | PUBLISH news d
e: MULTI
e: PUBLISH news in-exec
e: SET k v
e: PUBLISH news in-exec-2
e: !unordered EXEC
e: MULTI
e: PUBLISH news never
e: DISCARD
''',
    'subscriber mode of RESP2 allows few commands; RESP3 has no such mode': '''
a: SUBSCRIBE x
a: GET k
a: PING
a: PING hello
a: PING a b
a: HELLO 3
a: MULTI
a: EXEC
a: NOSUCH
a: CONFIG GET save
a: SSUBSCRIBE s
a: UNSUBSCRIBE
a: GET k
a: SUNSUBSCRIBE
a: GET k
a: PSUBSCRIBE p
a: RESET
a: GET k
b: PUBLISH p gone
b: HELLO 3
b: SUBSCRIBE x
b: GET k
b: PING
b: PING hello
b: UNSUBSCRIBE none
b: UNSUBSCRIBE
b: UNSUBSCRIBE
b: SUNSUBSCRIBE
b: PUNSUBSCRIBE
''',
    'the protocol can be switched while subscribed': '''
a: HELLO 3
a: SUBSCRIBE x
b: PUBLISH x three
a: HELLO 2
b: PUBLISH x two
a: HELLO 3
a: GET k
a: PING
a: UNSUBSCRIBE
a: HELLO 3
a: SUBSCRIBE x
b: PUBLISH x three
a: RESET
b: PUBLISH x gone
''',
    'SUBSCRIBE inside MULTI takes effect at EXEC': '''
a: MULTI
a: SUBSCRIBE x y
a: GET k
a: SSUBSCRIBE s
a: UNSUBSCRIBE x
a: EXEC
a: GET k
b: PUBLISH y hi
a: RESET
a: MULTI
a: SUBSCRIBE x
a: SUBSCRIBE
a: EXEC
a: GET k
''',
    'events: strings, hashes, keys and expiry': '''
w: CONFIG SET notify-keyspace-events KEAn
s: PSUBSCRIBE __key*
w: SET k v
w: SET k v EX 100
w: SET k v NX
w: SET k v XX KEEPTTL
w: SET k v GET PX 100000
w: SETNX k v
w: SETNX new v
w: SETEX k 100 v
w: PSETEX k 100000 v
w: MSET a 1 b 2 a 3
w: MSETNX c 1 d 2
w: MSETNX c 1 e 2
w: GETSET k w
w: GETDEL k
w: GETDEL k
w: SET k v
w: GETEX k EX 100
w: GETEX k PERSIST
w: GETEX k PERSIST
w: GETEX k
w: GETEX k PXAT 1
w: APPEND k x
w: SETRANGE k 3 yy
w: SETRANGE k 3
w: SETRANGE none 0
w: INCR n
w: DECR n
w: INCRBY n 5
w: DECRBY n 5
w: INCRBYFLOAT n 1.5
w: INCR n
w: HSET h f v g w
w: HSET h f v
w: HMSET h f v
w: HSETNX h f x
w: HSETNX h x x
w: HINCRBY h n 1
w: HINCRBYFLOAT h n 1.5
w: HINCRBY h f 1
w: HDEL h f none
w: HDEL h none
w: HDEL h g x n
w: HSET h f v
w: GET h
w: EXPIRE h 100
w: EXPIRE h 100 NX
w: PEXPIRE h 100000
w: EXPIREAT h 99999999999
w: PERSIST h
w: PERSIST h
w: EXPIRE h -1
w: EXPIRE h 100
w: DEL a b none
w: UNLINK c d
w: SET a 1
w: RENAME a b
w: RENAME b b
w: RENAME none b
w: SET a 1
w: RENAME a b
w: SET a 1
w: RENAMENX a b
w: RENAMENX a c
w: COPY b x
w: COPY b x
w: COPY b x REPLACE
w: COPY b y DB 2
w: COPY none y
w: MOVE b 2
w: MOVE b 2
w: SELECT 2
w: MOVE b 3
w: MULTI
w: SET k v
w: DEL k
w: EXEC
w: FLUSHALL
w: SWAPDB 0 2
''',
    'events: classes are chosen by their letters': '''
s: PSUBSCRIBE *
w: CONFIG SET notify-keyspace-events Kg
w: SET k v
w: EXPIRE k 100
w: CONFIG SET notify-keyspace-events E$
w: SET k v
w: DEL k
w: CONFIG SET notify-keyspace-events $
w: SET k v
w: CONFIG SET notify-keyspace-events Em
w: GET none
w: EXISTS none
w: TTL none
w: TOUCH none
w: STRLEN none
w: HGET none f
w: MGET none k none
w: DEL none
w: OBJECT ENCODING none
w: GETDEL none
w: HGETALL none
w: GETRANGE none 0 1
w: PTTL none
w: GETEX none
w: SET none v XX GET
w: SET k v EX 100
w: CONFIG SET notify-keyspace-events En
w: SET k v
w: SET new v
w: HSET newer f v
w: CONFIG SET notify-keyspace-events nK$
w: SET newest v
w: CONFIG SET notify-keyspace-events KEh
w: HSET newer f v
w: HDEL newer f
''',
    'the letters of notify-keyspace-events are read and shown as Redis does': '\n'.join(
        'a: CONFIG SET notify-keyspace-events %s\na: CONFIG GET notify-keyspace-events' % letters for letters in (
            'KEA', 'AKE', 'KEg$lshzxetd', 'KEg$lshzxetmdn', 'g', 'mn', 'q', 'AKEm', 'Kgq', 'KKK', 'Etdx', 'nA', 'K$nm')),
    'a connection can subscribe to the events of its own commands': '''
a: HELLO 3
a: CONFIG SET notify-keyspace-events KEA
a: PSUBSCRIBE __key*
a: SET k v
a: GET k
a: DEL k none
a: SET k v | INCR n | DEL k
a: SET k v | GET k
''',
    'MONITOR shows commands as they came': '''
m: MONITOR
m: MONITOR | PING
m: GET x
m: SET x y
m: PING
m: ECHO hi
a: SET a b
a: SELECT 2
a: get a
a: MULTI
a: SET x 1
a: NOSUCH
a: GET
a: EXEC
a: MULTI
a: SET x 1
a: HSET x f v
a: EXEC
a: HSET x f v
a: AUTH secret
a: AUTH default secret
a: HELLO 2 AUTH default secret
a: HELLO 3 SETNAME me AUTH default secret
a: HELLO 2
a: CONFIG GET save
a: DEBUG SLEEP 0
a: SUBSCRIBE f
a: UNSUBSCRIBE
a: PUBLISH x y
a: EVAL redis.call('SET',KEYS[1],'c')redis.pcall('LPUSH',KEYS[1],'x')error('e') 1 a
a: EVAL_RO redis.pcall('SET',KEYS[1],'c')redis.pcall('GET',KEYS[1]) 1 a
m: SUBSCRIBE y
a: PUBLISH y z
m: UNSUBSCRIBE
m: RESET
a: SET a b
m: GET a
m: MULTI
m: MONITOR
m: EXEC
''',
}


# MSETNX would be CROSSSLOT; a transaction runs on one shard, but subscriptions are at the proxy.
PARTITION_ONLY = ('SUBSCRIBE inside MULTI takes effect at EXEC', 'MONITOR shows commands as they came',
                  'events: strings, hashes, keys and expiry')

for title, text in SCRIPTS.items():
    add_script(suite, title, text)
    if title not in PARTITION_ONLY:
        add_script(suite, title, text, shards=3)


def partition(cluster, timeout=60, proto=2):
    return Connection(cluster.backends[0].addresses[0], timeout, proto)


@suite.case('CLIENT LIST and INFO show subscribers; CLIENT KILL finds them')
def _(run):
    with Duel() as duel:
        duel.script('''
a: SUBSCRIBE x y
b: HELLO 3
b: PSUBSCRIBE p
b: SSUBSCRIBE s
c: CLIENT TRACKING ON BCAST REDIRECT {id:a}
d: MONITOR
e: CLIENT TRACKING ON PREFIX x BCAST
f: CLIENT TRACKING ON
f: GET k
''')
        seen = []
        for player in (duel.ours, duel.theirs):
            with Connection(player.address) as client:
                lines = client.get('CLIENT', 'LIST').decode().strip().split('\n')
                pubsub = client.get('CLIENT', 'LIST', 'TYPE', 'pubsub').decode()
                info = client.get('INFO', 'everything').decode()
                killed = client.get('CLIENT', 'KILL', 'TYPE', 'pubsub')
            fields = [dict(field.split('=', 1) for field in line.split(' ')) for line in lines]
            names = {str(number): name for name, number in player.ids.items()}
            seen.append((sorted([names.get(line['id']), names.get(line['redir'], line['redir'])] +
                                [line[key] for key in ('flags', 'sub', 'psub', 'ssub')]
                                for line in fields if line['id'] in names),
                         len(pubsub.strip().split('\n')), re.findall(r'((?:tracking|pubsub)\w*:\d+)', info), killed))
        check_equal(seen[0], seen[1], 'Scree and Redis')


@suite.case('an expired event is sent, whether a read or the clock expires the key')
def _(run):
    with Duel() as duel:
        duel.step('s', 'PSUBSCRIBE __key*')
        duel.step('w', 'CONFIG SET notify-keyspace-events Kx')
        for active in (0, 1):
            duel.step('w', 'DEBUG SET-ACTIVE-EXPIRE %d' % active)
            for player in (duel.ours, duel.theirs):
                connection = player.connections['w']
                connection.call('PSETEX', 'k', 1, 'v')
                if active:
                    wait_for(lambda: connection.get('DBSIZE') == 0, 'the key to expire')
                else:
                    wait_for(lambda: connection.get('GET', 'k') is None, 'the key to expire')
                got = player.connections['s'].read()
                check_equal(value(got), [b'pmessage', b'__key*', b'__keyspace@0__:k', b'expired'])
        duel.step('w', 'GET k')


@suite.case('a subscriber that does not read is disconnected; the others get every message')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'client-output-limit': '4mb'}}) as cluster:
        with partition(cluster) as deaf, partition(cluster) as ears, partition(cluster) as writer:
            for client in (deaf, ears):
                client.call('SUBSCRIBE', 'x')
            sent = 0
            payload = 'y' * 100000
            while writer.get('PUBLISH', 'x', payload) == 2:
                sent += 1
                check(ears.read() == ('*', [('$', b'message'), ('$', b'x'), ('$', payload.encode())]), 'a message is broken')
                check(sent < 1000, 'it was never cut')
            run.note('cut after %d messages of 100 kB' % sent)
            check_equal(ears.read()[1][0], ('$', b'message'))
            _, closed = deaf.read_until_closed(patience())
            check(closed, 'the connection is still open')
            check_equal(writer.get('PUBSUB', 'NUMSUB', 'x'), [b'x', 1])


@suite.case('client-output-buffer-limit: the class pubsub disconnects subscribers and no other clients')
def _(run):
    with Duel() as duel:
        duel.script('''
a: CONFIG GET client-output-buffer-limit
a: CONFIG SET client-output-buffer-limit nosuch
''')
        for text in ('pubsub 2mb 0 0', 'normal 0 0 0 replica 1gb 1mb 5', 'master 1 2 3', 'pubsub 1 2', 'pubsub 1 2 x', 'pubsub 1 2 -1',
                     'nosuch 1 2 3', 'PUBSUB 2mb 1mb 100 pubsub 2mb 0 0'):
            duel.step('a', ['CONFIG', 'SET', 'client-output-buffer-limit', text])
            duel.step('a', 'CONFIG GET client-output-buffer-limit')
        for player in (duel.ours, duel.theirs):
            with Connection(player.address) as deaf, Connection(player.address, proto=3) as writer:
                deaf.call('SUBSCRIBE', 'x')
                sent = 0
                while writer.get('PUBLISH', 'x', 'y' * 100000):
                    sent += 1
                    check(sent < 1000, 'it was never cut')
                run.note('cut after %d messages of 100 kB' % sent)
                text = 'z' * 3000000
                writer.call('SET', 'big', text)
                check_equal(len(writer.get('GET', 'big')), len(text), 'a big reply of a client that is no subscriber')


@suite.case('a subscriber gets an event for every change by another connection, in order, under load')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with partition(cluster, proto=3) as listener, partition(cluster) as writer:
            writer.call('CONFIG', 'SET', 'notify-keyspace-events', 'K$g')
            listener.call('PSUBSCRIBE', '__keyspace@0__:*')
            for turn in range(20):
                writer.send_many([['SET', 'k%d' % i, 'v'] for i in range(200)] + [['DEL', 'k7']])
                got = [listener.read()[1][2:] for _ in range(201)]
                wanted = [[('$', b'__keyspace@0__:k%d' % i), ('$', b'set')] for i in range(200)]
                check_equal(got, wanted + [[('$', b'__keyspace@0__:k7'), ('$', b'del')]], 'turn %d' % turn)
                for _ in range(201):
                    writer.read()


@suite.case('a full disk: no event is sent for a change that was not made')
def _(run):
    disk = SmallDisk(32)
    try:
        with Cluster(backends=1, partitions=1, proxies=0, backend_options={
                'backend': {'data': os.path.join(disk.path, 'data')},
                'store': {'memtable': '1mb', 'wal-limit': '4mb', 'disk-free-min': 0}}) as cluster:
            with partition(cluster) as listener, partition(cluster, proto=3) as cache, partition(cluster) as writer:
                writer.call('CONFIG', 'SET', 'notify-keyspace-events', 'E$')
                listener.call('SUBSCRIBE', '__keyevent@0__:set', 'own')
                listener.read()
                cache.call('CLIENT', 'TRACKING', 'ON')
                cache.call('GET', 'kept')
                made, told, refused = fill(writer, listener)
                run.note('%d changes made and told of, %d refused' % (len(made), refused))
                check_equal(told, made, 'keys that were told of')
                check_equal(cache.read(), ('>', [('$', b'invalidate'), ('_', b'')]), 'what a tracking client hears')
                check_equal(value(writer.call('PUBLISH', 'own', 'reads go on')), 1)
                check_equal(value(listener.read()), [b'message', b'own', b'reads go on'])
                disk.grow(200)
                wait_for(lambda: writer.get('SET', 'after', 'v') == b'OK', 'writes to be taken again')
                check_equal(value(listener.read()), [b'message', b'__keyevent@0__:set', b'after'])
    finally:
        disk.remove()


@suite.case('after a kill under load, changes whose events were sent are there')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        for turn in range(3):
            with partition(cluster) as listener, partition(cluster) as writer:
                writer.call('CONFIG', 'SET', 'notify-keyspace-events', 'E$')
                listener.call('SUBSCRIBE', '__keyevent@0__:set')
                writer.send_many([['SET', 'k%d:%d' % (turn, i), i] for i in range(20000)])
                told = [listener.read()[1][2][1] for _ in range(run.rng.randrange(100, 3000))]
                cluster.backends[0].kill9()
                try:
                    while True:
                        told.append(listener.read()[1][2][1])
                except (Closed, ConnectionError):
                    pass
            cluster.backends[0].start()
            with partition(cluster) as client:
                there = sum(value(reply) for reply in client.pipeline([['EXISTS', name] for name in told]))
            check_equal(there, len(told), 'keys told of that are there')
            run.note('%d of 20000 told of' % len(told))


def fill(writer, listener):
    """Writes packets until one is refused. Returns the keys that were set, the keys in events, and the number of
    refusals."""
    made, told, refused, serial = [], [], 0, 0
    while not refused:
        names = [b'k%d' % (serial + i) for i in range(50)]
        serial += 50
        check(serial < 50000, 'the disk never filled up')
        for name, reply in zip(names, writer.pipeline([['SET', name, os.urandom(5000)] for name in names])):
            if reply == ('+', b'OK'):
                made.append(name)
            else:
                check(reply[0] == '-' and reply[1].startswith(b'MISCONF'), 'reply %r' % (reply,))
                refused += 1
        listener.send('PING', 'all')
        while True:
            frame = value(listener.read())
            if frame == [b'pong', b'all']:
                break
            told.append(frame[2])
    return made, told, refused


if __name__ == '__main__':
    suite.main()
