#!/usr/bin/python3
"""Requests with very many arguments through the proxy: they are prepared in turns, so other clients of the same worker are served
before them, and their replies, order and permissions are those of any request.
"""

import itertools
import re

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, value

suite = Suite(__doc__)
MANY = 200_000
PATTERNS = 2000
DOWN = 'not reachable: '  # replied by the proxy


def cluster_of(**options):
    return Cluster(backends=3, partitions=1, proxies=1, linked=True, proxy_options={'proxy': {'workers': 1, **options}})


def connect(cluster, proto=2):
    return Connection(cluster.proxies[0].address, proto=proto)


def frame(words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)


def has_reply(connection):
    connection.sock.setblocking(False)
    try:
        return bool(connection.sock.recv(1, 2))  # MSG_PEEK
    except BlockingIOError:
        return False
    finally:
        connection.sock.settimeout(60)


def received(other, number):
    """Bytes of an unfinished request that the proxy has of the client with this id."""
    return int(other.get('CLIENT', 'LIST', 'ID', number).split(b' qbuf=')[1].split()[0])


def serves_others_before(asker, other, request):
    """Are five requests of another client answered between the last bytes of this one and its reply? Returns the reply, or None if they
    are not."""
    number = asker.get('CLIENT', 'ID')
    asker.sock.sendall(request[:-2])
    wait_for(lambda: received(other, number) == len(request) - 2, 'the request to be read up to its last bytes')
    asker.sock.sendall(request[-2:])
    for _ in range(5):
        check_equal(other.get('PING'), b'PONG')
    is_late = has_reply(asker)
    reply = asker.read()
    return None if is_late else reply


def expect_turns(asker, other, words, want):
    request = frame(words)
    replies = []

    def is_served():
        replies.append(serves_others_before(asker, other, request))
        return replies[-1]
    wait_for(is_served, 'five replies to another client before that of a wide %s' % words[0])
    check(want in str(replies[-1]), replies[-1])


@suite.case('MGET, DEL, EXISTS, TOUCH, UNLINK and MSET of very many keys are split in turns: other clients of the worker are served before')
def _(run):
    with cluster_of() as cluster, connect(cluster) as asker, connect(cluster) as other:
        keys = ['k%d' % i for i in range(MANY)]
        for backend in cluster.backends:
            backend.kill9()  # so the proxy itself replies, as soon as it has split the request
        wait_for(lambda: DOWN in str(asker.call('MGET', *keys[:9])), 'the shards to be down')
        for name in ('MGET', 'DEL', 'EXISTS', 'TOUCH', 'UNLINK'):
            expect_turns(asker, other, [name, *keys], DOWN)
        expect_turns(asker, other, ['MSET', *[word for key in keys for word in (key, 'x')]], DOWN)


@suite.case('slots of very many keys are searched in turns: other clients of the worker are served before an error of CROSSSLOT')
def _(run):
    with cluster_of(**{'cross-slot': 'shard'}) as cluster, connect(cluster) as asker, connect(cluster) as other:
        for words in (['SDIFF'], ['EVAL', 'return 1', 2 * MANY], ['PFCOUNT']):
            expect_turns(asker, other, [*words, *['k%d' % i for i in range(2 * MANY)]], 'CROSSSLOT')


def limit_user(client, *rules):
    """All patterns but the last begin with a star, so each may match any key."""
    patterns = ['~*nothing-%d-*' % i for i in range(PATTERNS - 1)] + ['~k*']
    check_equal(client.get('ACL', 'SETUSER', 'limited', 'reset', 'on', 'nopass', '+@all', *patterns, *rules), b'OK')


@suite.case('very many keys are compared with many patterns of permissions; a request whose rights are lost on the way is done or refused as a whole')
def _(run):
    with cluster_of() as cluster, connect(cluster) as asker, connect(cluster) as other:
        limit_user(other, *['&*nothing-%d' % i for i in range(1000)], '&c*')
        check_equal(asker.get('AUTH', 'limited', 'x'), b'OK')
        for name, letter in (('MGET', 'k'), ('SUBSCRIBE', 'c')):
            reply = value(asker.call(name, *['%s%d' % (letter, i) for i in range(100_000)], 'denied'))
            check('NOPERM' in str(reply), reply)
        keys = ['k%d' % i for i in range(2000)]
        check_equal(asker.get('MGET', *keys), [None] * len(keys))
        check_equal(asker.get('SET', keys[0], 'x'), b'OK')
        keys = keys * 20
        for _ in range(20):
            limit_user(other)
            check_equal(asker.get('EXISTS', 'k0'), 1)
            asker.sock.sendall(frame(['EXISTS', *keys]))
            check_equal(other.get('ACL', 'SETUSER', 'limited', 'resetkeys'), b'OK')
            reply = value(asker.read())
            check(reply == len([key for key in keys if key == 'k0']) or 'NOPERM' in str(reply), reply)
            check('NOPERM' in str(asker.get('EXISTS', 'k0')), 'the new rules')


@suite.case('EXEC of very many commands that the proxy answers runs them in turns: other clients of the worker are served before')
def _(run):
    with cluster_of() as cluster, connect(cluster) as asker, connect(cluster) as other:
        look, names = ('CLIENT', 'LIST', 'ID', other.get('CLIENT', 'ID')), itertools.count(1)
        for first in (('PING',), ('GET', 'k')):  # without a shard, and with one
            count = [10_000]

            def sees_another_client_change():  # CLIENT LIST itself takes a turn or two
                count[0] = min(2 * count[0], 300_000)  # more where the test itself gets little of the machine
                asker.pipeline([('MULTI',), first, look, *[('CLIENT', 'ID')] * count[0], look])
                asker.sock.sendall(frame(['EXEC']))
                for _ in range(30):
                    check_equal(other.get('CLIENT', 'SETNAME', next(names)), b'OK')
                replies = value(asker.read())
                check_equal(len(replies), count[0] + 3)
                before, after = (int(re.search(rb' name=(\d*)', reply)[1] or 0) for reply in (replies[1], replies[-1]))
                return after - before >= 5
            wait_for(sees_another_client_change, 'five commands of another client between those of EXEC')
            with connect(cluster) as leaving:
                leaving.pipeline([('MULTI',), first, *[('CLIENT', 'ID')] * count[0]])
                leaving.sock.sendall(frame(['EXEC']))
                check_equal(other.get('PING'), b'PONG')
        check_equal(other.get('PING'), b'PONG')


@suite.case('wide requests keep the order of their client, in MULTI too; a client may leave while they are prepared')
def _(run):
    with cluster_of() as cluster, connect(cluster) as other:
        keys = ['k%d' % i for i in range(sized(40_000, long=400_000))]
        half = keys[::2]
        for proto in (2, 3):
            client = connect(cluster, proto=proto)
            pairs = [word for key in half for word in (key, key)]
            client.send_many([('ECHO', 'a'), ('MSET', *pairs), ('MGET', *keys), ('DEL', *half[1:]), ('ECHO', 'b'), ('EXISTS', *keys), ('TOUCH', *keys),
                              ('MULTI',), ('MSET', *pairs), ('MGET', *keys), ('EXEC',), ('UNLINK', *keys), ('ECHO', 'c')])
            values = [key.encode() if i % 2 == 0 else None for i, key in enumerate(keys)]
            check_equal([value(client.read()) for _ in range(13)],
                        [b'a', b'OK', values, len(half) - 1, b'b', 1, 1, b'OK', b'QUEUED', b'QUEUED', [b'OK', values], len(half), b'c'])
            client.close()
        for size in (100, 20_000, 40_000):
            leaver = connect(cluster)
            leaver.send_many([('MGET', *keys[:size]), ('MSET', *[word for key in keys[:size] for word in (key, 'x')])])
            leaver.close()
            check_equal(other.get('PING'), b'PONG')
        with connect(cluster) as victim:
            victim.send('MGET', *keys)
            ids = [line.split(b'id=')[1].split()[0] for line in other.get('CLIENT', 'LIST', 'TYPE', 'normal').splitlines()]
            for number in ids:
                if int(number) != other.get('CLIENT', 'ID'):
                    other.call('CLIENT', 'KILL', 'ID', number)
        check_equal(other.get('PING'), b'PONG')


@suite.case('BLPOP and XREAD of very many keys wait at all shards; a client may leave while the waits are prepared')
def _(run):
    with cluster_of() as cluster, connect(cluster) as client, connect(cluster) as other:
        keys = ['k%d' % i for i in range(40_000)]
        number = client.get('CLIENT', 'ID')
        for turn, key in enumerate((keys[0], keys[20_000], keys[-1])):
            for push, words, want in ((['RPUSH', 'l' + key, turn], ['BLPOP', *['l' + key for key in keys], 0], [b'l' + key.encode(), b'%d' % turn]),
                                      (['XADD', 's' + key, '%d-1' % (turn + 1), 'f', 'v'],
                                       ['XREAD', 'BLOCK', 0, 'STREAMS', *['s' + key for key in keys], *['%d-0' % (turn + 1)] * len(keys)],
                                       [[b's' + key.encode(), [[b'%d-1' % (turn + 1), [b'f', b'v']]]]])):
                client.send(*words)
                wait_for(lambda: b'blocked_clients:1\r' in other.get('INFO', 'clients'), 'the client to wait')
                other.get(*push)
                check_equal(value(client.read()), want)
        check_equal(client.get('BLPOP', *keys, '0.01'), None)
        client.send('BLPOP', *keys, 0)
        wait_for(lambda: other.get('CLIENT', 'UNBLOCK', number, 'ERROR') == 1, 'the client to be unblocked')
        check('UNBLOCKED' in str(client.read()), 'the reply of CLIENT UNBLOCK')
        for _ in range(5):
            leaver = connect(cluster)
            leaver.send('BLPOP', *keys, 0)
            check_equal(other.get('PING'), b'PONG')
            leaver.close()
        wait_for(lambda: b'blocked_clients:0\r' in other.get('INFO', 'clients'), 'no client to wait')


@suite.case('a wide request is prepared again when the map changes in between')
def _(run):
    with cluster_of() as cluster, connect(cluster) as client:
        keys = ['k%d' % i for i in range(20_000)]
        client.get('MSET', *[word for key in keys for word in (key, key)])
        want = [key.encode() for key in keys]
        request = frame(['MGET', *keys])
        for turn in range(3):
            client.sock.sendall(request)
            cluster.write_shards(cluster.slots[1:] + cluster.slots[:1])
            cluster.proxies[0].reload()
            check_equal(value(client.read()), want, 'reload %d' % turn)


if __name__ == '__main__':
    suite.main()
