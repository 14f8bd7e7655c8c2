#!/usr/bin/python3
"""cross-slot = any: what the proxy sends for commands with keys on several shards, and in which order.

The shards' replies to SCREE ACROSS come from the test (support/across.py), so it decides how long they take.
"""

import contextlib
import os
import random
import signal

from support.across import CLOSE, AcrossShards
from support.cluster import Cluster, Oracle, even_slots, metric
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, ReplyError, show

suite = Suite(__doc__)

CROSSSLOT = "CROSSSLOT Keys in request don't hash to the same slot"


@contextlib.contextmanager
def any_cluster(shards, proxy=(), upstream=(), **options):
    """A cluster of three shards with cross-slot = any, and one key on each shard."""
    options.setdefault('proxy_options', {'proxy': {'cross-slot': 'any', 'workers': 1, **dict(proxy)}, 'upstream': dict(upstream)})
    with Cluster(backends=1, partitions=3, relay=shards, **options) as cluster:
        yield cluster, [cluster.key_on(shard) for shard in range(3)]


def is_crossslot(reply):
    return isinstance(reply, ReplyError) and str(reply) == CROSSSLOT


def encoded(words):
    return [word if isinstance(word, bytes) else str(word).encode() for word in words]


def has_waiting(cluster, name, count):
    """Do so many clients of the namespace wait for a connection?"""
    return 'scree_proxy_namespace_across_waiting{tenant="%s"} %d\n' % (name, count) in cluster.proxies[0].http('/metrics')[1]


@suite.case('the command goes to the shard of the first key that it writes, and the reply passes unchanged')
def _(run):
    shards = AcrossShards(answer=lambda words: b'-WRONGTYPE of %s\r\n' % words[0])
    with any_cluster(shards) as (cluster, (a, b, c)):
        cases = [(['RENAME', a, b], 0), (['RENAME', c, b], 2), (['SMOVE', b, a, 'm'], 1), (['COPY', a, b], 1),
                 (['SINTERSTORE', c, a, b], 2), (['BITOP', 'AND', b, a, c], 1), (['PFMERGE', c, a], 2),
                 (['SINTER', b, c], 1), (['PFCOUNT', c, a], 2), (['LCS', a, c], 0), (['MSETNX', b, 1, a, 2], 1),
                 (['ZUNIONSTORE', a, 2, b, c], 0), (['GEOSEARCHSTORE', b, a, 'FROMMEMBER', 'm', 'BYRADIUS', 1, 'm'], 1),
                 (['SORT', a, 'STORE', b], 1), (['XREAD', 'STREAMS', b, c, 0, 0], 1),
                 (['EVAL', 'return 1', 2, c, a], 2), (['EVAL_RO', 'return 1', 2, b, a], 1)]
        for proto in (2, 3):
            with cluster.connect(proto=proto) as client:
                for words, shard in cases:
                    count = len(shards.seen)
                    reply = client.get(*words)
                    check_equal(str(reply), 'WRONGTYPE of %s' % words[0], repr(words))
                    seen = shards.wait_seen(count + 1)
                    check_equal((seen.shard, seen.words), (shard, [b'SCREE', b'ACROSS'] + encoded(words)), repr(words))
        check_equal(metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_across_total'), 2 * len(cases))


@suite.case('commands whose keys are on one shard, and split commands, are sent as before')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, (a, b, c)), cluster.connect() as client:
        near = cluster.key_on(0, 'near')
        check_equal(client.get('MSET', a, 1, b, 2, c, 3), b'OK')
        check_equal(client.get('MGET', c, b, a), [b'3', b'2', b'1'])
        check_equal(client.get('RENAME', a, near), b'OK')
        check_equal(client.get('DEL', near, b, c), 3)
        check_equal(shards.seen, [])


@suite.case('with atomic-split no command is split')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, proxy={'atomic-split': 'yes'}) as (cluster, (a, b, c)), cluster.connect() as client:
        near = cluster.key_on(0, 'near')
        for words, shard in ((['MSET', b, 1, a, 2], 1), (['MGET', c, a], 2), (['DEL', a, b, c], 0), (['EXISTS', b, c], 1),
                             (['TOUCH', c, b], 2), (['UNLINK', b, a], 1), (['JSON.MGET', c, a, '$'], 2)):
            count = len(shards.seen)
            check_equal(client.get(*words), b'across')
            check_equal((len(shards.seen), shards.seen[-1].shard), (count + 1, shard), words)
        count = len(shards.seen)
        check_equal(client.get('MSET', a, 1, near, 2), b'OK')
        check_equal(len(shards.seen), count, 'keys of one shard')
        check_equal(client.get('CONFIG', 'SET', 'cross-slot', 'shard'), b'OK')
        check(is_crossslot(client.get('MGET', a, b)), 'cannot be atomic')
        check_equal(client.get('CONFIG', 'SET', 'atomic-split', 'no'), b'OK')
        check_equal(client.get('MGET', a, b), [b'1', None])


@suite.case('scripts, functions and SORT with patterns of keys are always sent with SCREE ACROSS')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, keys), cluster.connect() as client:
        for words in (['EVAL', 'return 1', 1, keys[1]], ['EVAL_RO', 'return 1', 1, keys[2]], ['FCALL', 'f', 1, keys[0]],
                      ['SORT', keys[1], 'BY', 'w_*'], ['SORT_RO', keys[2], 'GET', 'w_*'], ['EVAL', 'return 1', 0]):
            count = len(shards.seen)
            check_equal(client.get(*words), b'across', repr(words))
            seen = shards.wait_seen(count + 1)
            check_equal(seen.words, [b'SCREE', b'ACROSS'] + encoded(words))
            if seen.words[-1] != b'0':
                check_equal(seen.shard, cluster.shard_of(words[3] if words[0] in ('EVAL', 'EVAL_RO', 'FCALL') else words[1]))
        count = len(shards.seen)
        check_equal(client.get('SORT', keys[1], 'DESC'), [])
        check_equal(client.get('SORT', keys[1], 'BY', 'nosort', 'GET', '#'), [])
        check_equal(len(shards.seen), count, 'SORT without patterns of keys')


@suite.case('a transaction runs on the shard of its first written key, on a connection of its own')
def _(run):
    shards = AcrossShards(answer=lambda words: b'*2\r\n+x\r\n+x\r\n')
    with any_cluster(shards) as (cluster, (a, b, c)), cluster.connect() as other:
        queues = [([['GET', a], ['SET', b, 1]], 1), ([['GET', c], ['GET', a]], 2), ([['MSET', c, 1, b, 2], ['GET', a]], 2),
                  ([['MGET', a, b], ['RENAME', c, a]], 2), ([['EVAL', 'x', 1, b], ['PING']], 1), ([['SORT', c, 'BY', 'w*'], ['GET', c]], 2),
                  ([['BLPOP', b, a, 0], ['XREAD', 'STREAMS', c, a, 0, 0]], 1)]
        for proto in (2, 3):
            with cluster.connect(proto=proto) as client:
                for queue, shard in queues:
                    count = len(shards.seen)
                    with shards.holding():
                        client.send_many([['MULTI']] + queue + [['EXEC'], ['GET', a]])
                        seen = shards.wait_seen(count + 1)
                        check_equal((seen.shard, seen.words), (shard, [b'SCREE', b'ACROSS', b'EXEC']), repr(queue))
                        check_equal(seen.before[-3:], [[b'MULTI']] + [encoded(words) for words in queue])
                        for key in (a, b, c):
                            check_equal(other.get('GET', key), None)
                    replies = [client.read() for _ in range(5)]
                    check_equal(replies[:3], [('+', b'OK'), ('+', b'QUEUED'), ('+', b'QUEUED')], repr(queue))
                    check_equal(replies[3], ('*', [('+', b'x')] * 2), repr(queue))


@suite.case('transactions with keys of one shard are sent as before')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as client:
        near = cluster.key_on(0, 'near')
        for words in (['MULTI'], ['MSET', a, 1, near, 2], ['SORT', a + 'x', 'STORE', a + 'x']):
            client.call(*words)
        client.get('DISCARD')
        replies = client.pipeline([['MULTI'], ['MSET', a, 1, near, 2], ['RENAME', a, near], ['EXEC']])
        check_equal(replies[3], ('*', [('+', b'OK'), ('+', b'OK')]))
        check_equal(client.get('WATCH', a), b'OK')
        check_equal(client.pipeline([['MULTI'], ['GET', near], ['EXEC']])[2], ('*', [('$', b'1')]))
        check_equal(shards.seen, [])


@suite.case('commands of the proxy work in a transaction over shards, and SELECT holds after it')
def _(run):
    shards = AcrossShards(answer=lambda words: b'*3\r\n+one\r\n+two\r\n+three\r\n')
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as client:
        ident = client.get('CLIENT', 'ID')
        replies = client.pipeline([['MULTI'], ['SET', a, 1], ['SELECT', 5], ['CLIENT', 'ID'], ['SET', b, 2], ['EXEC'], ['SET', a, 'five']])
        check_equal(replies[5], ('*', [('+', b'one'), ('+', b'two'), (':', b'%d' % ident), ('+', b'three')]))
        check_equal(shards.seen[0].before[-4:], [[b'MULTI']] + [encoded(words) for words in (['SET', a, 1], ['SELECT', 5], ['SET', b, 2])])
        check_equal(client.get('GET', a), b'five')
        client.call('SELECT', 0)
        check_equal(client.get('GET', a), None)


@suite.case('WATCH of keys of several shards and its EXEC use one connection')
def _(run):
    shards = AcrossShards(answer=lambda words: b'*0\r\n' if words[0] == b'EXEC' else b'+OK\r\n')
    with any_cluster(shards) as (cluster, (a, b, c)), cluster.connect() as client:
        check_equal(client.get('WATCH', b), b'OK')
        check_equal(shards.seen, [])
        check_equal(client.get('WATCH', a, b), b'OK')
        check_equal(client.get('GET', c), None)
        check_equal(client.pipeline([['MULTI'], ['SET', c, 1], ['EXEC']])[2], ('*', []))
        check_equal([seen.words for seen in shards.seen], [[b'SCREE', b'ACROSS'] + encoded(words) for words in (['WATCH', a, b], ['EXEC'])])
        check_equal({(seen.shard, seen.connection) for seen in shards.seen}, {(1, shards.seen[0].connection)})
        check_equal(client.get('WATCH', a, c), b'OK')  # the first of several
        check_equal((shards.seen[-1].shard, shards.seen[-1].words), (0, [b'SCREE', b'ACROSS'] + encoded(['WATCH', a, c])))
        check_equal(client.pipeline([['MULTI'], ['SET', a, 1], ['EXEC']])[2], ('*', []))
        check_equal(shards.seen[-1].words[-1], b'EXEC', 'the watched key is on another shard')
        count = len(shards.seen)
        check_equal(client.get('WATCH', a, c), b'OK')
        check_equal(client.get('UNWATCH'), b'OK')
        check_equal(client.pipeline([['MULTI'], ['SET', a, 1], ['EXEC']])[2], ('*', [('+', b'OK')]))
        check_equal(len(shards.seen), count + 1)


@suite.case('a WATCH of several shards whose connection is lost makes EXEC fail')
def _(run):
    shards = AcrossShards(answer=lambda words: b'+OK\r\n' if words[0] == b'WATCH' else CLOSE)
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as client:
        for queue in ([['SET', a, 1]], [['SET', b, 1]]):
            check_equal(client.get('WATCH', a, b), b'OK')
            reply = client.pipeline([['MULTI']] + queue + [['EXEC']])[-1]
            check(reply[0] == '-' and b'connection lost before the reply' in reply[1], reply)
        check_equal(client.get('CONFIG', 'SET', 'cross-slot', 'shard'), b'OK')
        check_equal(client.pipeline([['MULTI'], ['SET', a, 1], ['SET', b, 1], ['EXEC']])[3], ('-', CROSSSLOT.encode()))


@suite.case('a WATCH whose connection is lost before its reply fails once, and the next one succeeds')
def _(run):
    answers = iter([CLOSE, b'+OK\r\n', CLOSE, b'+OK\r\n'])
    shards = AcrossShards(answer=lambda words: next(answers) if words[0] == b'WATCH' else b'*0\r\n')
    with any_cluster(shards) as (cluster, (a, b, c)), cluster.connect() as client:
        for _ in range(2):
            reply = client.call('WATCH', a, b)
            check(reply[0] == '-' and b'connection lost before the reply' in reply[1], reply)
            check_equal(client.pipeline([['MULTI'], ['SET', c, 1], ['EXEC']])[2], ('*', [('+', b'OK')]), 'nothing is watched')
            check_equal(client.get('WATCH', a, b), b'OK')
            check_equal(client.pipeline([['MULTI'], ['SET', a, 1], ['EXEC']])[2], ('*', []))


@suite.case('after a crash of the shard that watches, WATCH reports it once, then EXEC replies null once')
def _(run):
    with any_cluster(AcrossShards()) as (cluster, (a, _, _)), cluster.connect() as client:
        check_equal(client.get('WATCH', a), b'OK')
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        lost = b"TRYAGAIN shard 'b0p0' "
        wait_for(lambda: lost in (text := client.call('WATCH', a)[1]) and b'connection lost while it watched keys' in text, 'the error')
        check_equal(client.get('WATCH', a), b'OK')
        check_equal(client.pipeline([['MULTI'], ['SET', a, 1], ['EXEC']])[2], ('*', None))
        check_equal(client.get('WATCH', a), b'OK')
        check_equal(client.pipeline([['MULTI'], ['SET', a, 2], ['EXEC']])[2], ('*', [('+', b'OK')]))


@suite.case('a transaction that was queued with any is refused when the rule is shard by then')
def _(run):
    with any_cluster(AcrossShards()) as (cluster, (a, b, _)), cluster.connect() as client, cluster.connect() as admin:
        client.pipeline([['MULTI'], ['SET', a, 1], ['SET', b, 1]])
        check_equal(admin.get('CONFIG', 'SET', 'cross-slot', 'shard'), b'OK')
        check(is_crossslot(client.get('EXEC')), 'EXEC')
        check_equal(client.get('GET', a), None)


@suite.case('a request that a shard suspends holds up no other client')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as client, cluster.connect() as other:
        with shards.holding():
            client.send('RENAME', a, b)
            shards.wait_seen(1)
            for key in (a, b):
                check_equal(other.get('SET', key, 1), b'OK')
                check_equal(other.get('GET', key), b'1')
            other.send('RENAME', a, b)
            check(shards.wait_seen(2).connection != shards.seen[0].connection, 'both are on one connection')
        check_equal([client.read(), other.read()], [('+', b'across')] * 2)
        with shards.holding():  # both connections are used again
            client.send('RENAME', a, b)
            other.send('RENAME', a, b)
            shards.wait_seen(4)
        check_equal([client.read(), other.read()], [('+', b'across')] * 2)
        check_equal(sorted(seen.connection for seen in shards.seen[:2]), sorted(seen.connection for seen in shards.seen[2:]))


@suite.case("a client's requests run in order: earlier ones are answered before, later ones are sent after the reply")
def _(run):
    order = []
    shards = AcrossShards(answer=lambda words: order.append(words) or b'+across\r\n')
    with any_cluster(shards) as (cluster, (a, b, c)), cluster.connect() as client, cluster.connect() as other:
        rename = [['SET', a, 1], ['RENAME', a, b], ['SET', c, 2], ['RENAME', b, c], ['EVAL', 'x', 1, a], ['EVAL', 'x', 1, b], ['GET', c]]
        with shards.holding():
            client.send_many(rename)
            shards.wait_seen(1)
            check_equal(other.get('GET', a), b'1', 'the write before the request')
            check_equal(other.get('GET', c), None, 'the write after it')
            shards.release()
            shards.wait_seen(2)
            check_equal(other.get('GET', c), b'2')
            shards.release(1)
            shards.wait_seen(3)
            shards.release(1)
            shards.wait_seen(4)
        replies = [client.read() for _ in rename]
        check_equal(replies, [('+', b'OK'), ('+', b'across'), ('+', b'OK'), ('+', b'across'), ('+', b'across'), ('+', b'across'), ('$', b'2')])
        check_equal(order, [encoded(words) for words in rename if words[0] in ('RENAME', 'EVAL')])


@suite.case('across-limit bounds the connections, and requests wait in the order of arrival')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, upstream={'across-limit': 2, 'timeout': '1h'}) as (cluster, (a, b, _)), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(cluster.connect()) for _ in range(7)]
        with shards.holding():
            for i, client in enumerate(clients):
                client.send('SMOVE', a, b, i)
                if i < 2:
                    shards.wait_seen(i + 1)
                else:  # the request was read: the client's reading is paused
                    wait_for(lambda: cluster.proxies[0].alive() and len(shards.seen) == 2, 'two requests')
                with cluster.connect() as probe:
                    check_equal(probe.get('PING'), b'PONG')
            clients.pop(3).close()  # its request was read: it still runs, as in Redis
            for count in range(3, 8):
                shards.release()
                shards.wait_seen(count)
        check_equal([client.read() for client in clients], [('+', b'across')] * 6)
        check_equal([seen.words[-1] for seen in shards.seen], encoded(range(7)))
        check_equal(len({seen.connection for seen in shards.seen}), 2)


@suite.case('a namespace whose clients wait for connections does not make another wait: who has least in use is next')
def _(run):
    shards = AcrossShards()
    tenants = {name: {'token': 'token-' + name} for name in ('many', 'few')}
    with any_cluster(shards, proxy={'requirepass': 'password'}, upstream={'across-limit': 8, 'timeout': '1h'}, namespaces=tenants) as (cluster, (a, b, _)), \
            contextlib.ExitStack() as stack:
        def client_of(name):
            client = stack.enter_context(cluster.connect())
            check_equal(client.call('AUTH', 'token-' + name), ('+', b'OK'))
            return client
        many, few = [client_of('many') for _ in range(20)], [client_of('few') for _ in range(3)]
        with shards.holding():
            for i, client in enumerate(many):
                client.send('SMOVE', a, b, 'many%d' % i)
            shards.wait_seen(7)  # the last eighth is kept
            few[0].send('SMOVE', a, b, 'few0')
            shards.wait_seen(8)
            for i in (1, 2):
                few[i].send('SMOVE', a, b, 'few%d' % i)
            with cluster.connect() as probe:  # the two requests were read
                check_equal(probe.call('AUTH', 'password'), ('+', b'OK'))
                wait_for(lambda: has_waiting(cluster, 'few', 2), 'both to wait')
            for count in (9, 10):
                shards.release()
                shards.wait_seen(count)
        check_equal([client.read() for client in many + few], [('+', b'across')] * 23)
        check_equal({seen.words[-1] for seen in shards.seen[7:10]}, set(encoded(['few0', 'few1', 'few2'])))
        check_equal({seen.words[-1] for seen in shards.seen}, set(encoded(['many%d' % i for i in range(20)] + ['few0', 'few1', 'few2'])))


@suite.case('a namespace, a database and a protocol hold on such a connection too')
def _(run):
    shards = AcrossShards()
    tenant = {'tenant': {'token': 'token', 'slot-rule': 'prefix:::1'}}
    with any_cluster(shards, proxy={'requirepass': 'password'}, namespaces=tenant) as (cluster, (a, b, _)):
        with cluster.connect() as client:
            client.call('AUTH', 'password')
            client.call('SELECT', 3)
            check_equal(client.get('RENAME', a, b), b'across')
            check(encoded(['SCREE', 'USE', '', 3, 'tag']) in shards.seen[-1].before, shards.seen[-1].before)
            client.call('HELLO', 3)
            check_equal(client.get('RENAME', a, b), b'across')
            check(encoded(['HELLO', 3]) in shards.seen[-1].before, shards.seen[-1].before)
        with cluster.connect() as client:
            client.call('AUTH', 'token')
            names = ['n%d:k' % i for i in range(40)]
            reply = [client.get('RENAME', names[0], name) for name in names[1:]]
            check(b'across' in reply, reply)
            uses = [words for seen in shards.seen for words in seen.before if words[:2] == [b'SCREE', b'USE']]
            check(encoded(['SCREE', 'USE', 'tenant', 0, 'prefix:::1']) in uses, uses)


@suite.case('the rules of a user with limited rights go along with scripts')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as admin, cluster.connect() as client:
        check_equal(admin.get('ACL', 'SETUSER', 'eve', 'on', '>pw', '%R~*', '+@all'), b'OK')
        check_equal(client.get('AUTH', 'eve', 'pw'), b'OK')
        check_equal(client.get('EVAL_RO', 'return 1', 2, a, b), b'across')
        check_equal(shards.seen[-1].words[:5], [b'SCREE', b'ACROSS', b'SCREE', b'AS', b'eve'])
        check(str(client.get('RENAME', a, b)).startswith('NOPERM'), 'RENAME')
        check_equal(len(shards.seen), 1)


@suite.case('a lost connection is an error that names the shard, and the next request opens another')
def _(run):
    answers = [b'+one\r\n', CLOSE, b'+three\r\n']
    shards = AcrossShards(answer=lambda words: answers.pop(0))
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect() as client:
        check_equal(client.get('RENAME', a, b), b'one')
        reply = client.get('RENAME', a, b)
        check(isinstance(reply, ReplyError) and "shard 'b0p0'" in str(reply) and 'connection lost before the reply' in str(reply), reply)
        check_equal(client.get('RENAME', a, b), b'three')


@suite.case('a client that leaves does not take its connection with it')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, upstream={'across-limit': 1}) as (cluster, (a, b, _)), cluster.connect() as other:
        with shards.holding():
            with cluster.connect() as client:
                client.send('RENAME', a, b)
                shards.wait_seen(1)
            other.send('RENAME', a, b)
            shards.release()
            shards.wait_seen(2)
        check_equal(other.read(), ('+', b'across'))


def write_map(cluster, shards):
    """Gives all slots to the shards with these numbers."""
    cluster.epoch += 1
    lines = ['[map]', 'epoch = %d' % cluster.epoch]
    for (name, (host, port), _), slots in zip([cluster.shard_addresses()[i] for i in shards], even_slots(len(shards))):
        lines += ['[shard %s]' % name, 'slots = %s' % slots, 'address = %s:%d' % (host, port)]
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write('\n'.join(lines) + '\n')
    os.rename(cluster.shards_path + '.new', cluster.shards_path)
    cluster.proxies[0].reload()
    with cluster.connect() as client:
        wait_for(lambda: client.get('SCREE', 'MAP')[1] == cluster.epoch, 'the new map')


@suite.case('requests that wait for a connection follow a new map, also one without their shard')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, upstream={'across-limit': 1, 'timeout': '1h'}) as (cluster, (a, _, c)):
        with cluster.connect() as client, cluster.connect() as second, cluster.connect() as third:
            with shards.holding():
                client.send('RENAME', a, c)
                check_equal(shards.wait_seen(1).shard, 0)
                for waiter in (second, third):
                    waiter.send('RENAME', a, c)
                with cluster.connect() as probe:  # both requests were read, with the old map
                    check_equal(probe.get('PING'), b'PONG')
                write_map(cluster, [2, 1, 0])
                for waiter in (second, third):
                    waiter.send('PING')
                write_map(cluster, [1, 2])
                check_equal(shards.wait_seen(2).shard, 1, 'the shard of the key in the new map')
                shards.release(3)
                shards.wait_seen(3)
            check_equal([client.read(), second.read(), third.read()], [('+', b'across')] * 3)
            check_equal([second.read(), third.read()], [('+', b'PONG')] * 2)
            check_equal([seen.shard for seen in shards.seen], [0, 1, 1])


def accepts(cluster):
    try:
        cluster.connect().close()
    except ConnectionError:  # refused, or reset while it waited to be accepted
        return False
    return True


@suite.case('the proxy stops while requests wait for a connection: all of them are answered')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, proxy={'drain-timeout': '1h'}, upstream={'across-limit': 1, 'timeout': '1h'}) as (cluster, (a, b, _)), \
            contextlib.ExitStack() as stack:
        clients = [stack.enter_context(cluster.connect()) for _ in range(3)]
        with shards.holding():
            for client in clients:
                client.send('RENAME', a, b)
            shards.wait_seen(1)
            with cluster.connect() as probe:
                check_equal(probe.get('PING'), b'PONG')
            cluster.proxies[0].signal(signal.SIGTERM)
            wait_for(lambda: not accepts(cluster), 'the proxy to stop')
        check_equal([client.read() for client in clients], [('+', b'across')] * 3)


@suite.case('SLOWLOG shows the command of the client')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards, proxy={'slowlog-log-slower-than': 0}) as (cluster, (a, b, _)), cluster.connect() as client:
        client.call('RENAME', a, b)
        entries = [entry[3] for entry in client.get('SLOWLOG', 'GET', 10)]
        check(encoded(['RENAME', a, b]) in entries, entries)


@suite.case('cross-slot can be changed while the proxy runs; in front of plain Redis servers it is as shard')
def _(run):
    shards = AcrossShards()
    with any_cluster(shards) as (cluster, (a, b, _)), cluster.connect(proto=3) as client:
        for rule in ('shard', 'strict'):
            check_equal(client.get('CONFIG', 'SET', 'cross-slot', rule), b'OK')
            check(is_crossslot(client.get('RENAME', a, b)), rule)
        check_equal(client.get('CONFIG', 'SET', 'cross-slot', 'any'), b'OK')
        check_equal(client.get('RENAME', a, b), b'across')
    with Cluster(backends=1, partitions=3, proxy_options={'proxy': {'cross-slot': 'any'}, 'upstream': {'secret': ''}}) as cluster:
        with cluster.connect() as client:
            check(is_crossslot(client.get('RENAME', cluster.key_on(0), cluster.key_on(1))), 'without the secret')
            check_equal(client.get('EVAL', 'return 1', 0), 1)


# ---- with real shards --------------------------------------------------------------------------------------------

FILL = [['DEL', 'a', 'b', 'c', 'd'], ['SADD', 'set:a', 1, 2, 3], ['SADD', 'set:b', 2, 3, 4], ['ZADD', 'z:a', 1, 'x', 2, 'y'], ['ZADD', 'z:b', 5, 'y'],
        ['RPUSH', 'list:a', 3, 1, 2], ['SET', 'text:a', 'ohmytext'], ['SET', 'text:b', 'mynewtext'], ['MSET', 'w_1', 3, 'w_2', 2, 'w_3', 1],
        ['PFADD', 'hll:a', 1, 2, 3], ['PFADD', 'hll:b', 3, 4], ['GEOADD', 'geo', 13.36, 38.11, 'p', 15.08, 37.5, 'q'],
        ['XADD', 's:a', '1-1', 'f', 'v'], ['XADD', 's:b', '2-1', 'f', 'w']]
SINGLE = [['SINTERSTORE', 'd', 'set:a', 'set:b'], ['SMISMEMBER', 'd', 1, 2, 3, 4], ['RENAME', 'd', 'a'], ['EXISTS', 'd', 'a'], ['COPY', 'a', 'b'], ['SCARD', 'b'],
          ['SMOVE', 'set:a', 'set:b', 1], ['LMOVE', 'list:a', 'c', 'LEFT', 'RIGHT'], ['RPOPLPUSH', 'list:a', 'c'], ['LRANGE', 'c', 0, -1],
          ['BITOP', 'XOR', 'd', 'text:a', 'text:b'], ['GET', 'd'], ['PFMERGE', 'hll', 'hll:a', 'hll:b'], ['PFCOUNT', 'hll:a', 'hll:b'],
          ['MSETNX', 'new:1', 1, 'new:2', 2, 'new:3', 3], ['MSETNX', 'new:3', 1, 'new:4', 2], ['MGET', 'new:1', 'new:2', 'new:3', 'new:4'],
          ['ZUNIONSTORE', 'z', 2, 'z:a', 'z:b'], ['ZRANGE', 'z', 0, -1, 'WITHSCORES'], ['ZDIFF', 2, 'z:a', 'z:b'],
          ['GEOSEARCHSTORE', 'near', 'geo', 'FROMLONLAT', 15, 37, 'BYRADIUS', 200, 'km', 'ASC'], ['ZCARD', 'near'],
          ['SORT', 'set:b', 'BY', 'w_*', 'GET', 'w_*', 'GET', '#', 'STORE', 'sorted'], ['LRANGE', 'sorted', 0, -1], ['LCS', 'text:a', 'text:b', 'IDX'],
          ['XREAD', 'COUNT', 1, 'STREAMS', 's:a', 's:b', 0, 0], ['SMOVE', 'text:a', 'set:b', 1], ['RENAME', 'missing', 'a'],
          ['EVAL', "redis.call('set', KEYS[1], redis.call('get', KEYS[2])..ARGV[1]) return redis.call('mget', unpack(KEYS))", 3, 'e:1', 'text:a', 'w_1', '!'],
          ['EVAL', "return {redis.call('incr', 'n:'..ARGV[1]), redis.call('incr', 'n:'..ARGV[2])}", 0, 7, 8], ['MGET', 'n:7', 'n:8', 'e:1']]
BLOCKS = [[['WATCH', 'watched:1'], ['MULTI'], ['SET', 'a', 1], ['INCR', 'a'], ['LPUSH', 'l', 1, 2], ['MSET', 'b', 2, 'c', 3], ['RENAME', 'b', 'd'],
           ['MGET', 'a', 'b', 'c', 'd'], ['SADD', 'a', 1], ['EVAL', "return redis.call('incr', KEYS[1])", 1, 'c'], ['DEL', 'a', 'c', 'nothing'], ['EXEC']],
          [['WATCH', 'watched:1'], ['SET', 'watched:1', 'changed'], ['MULTI'], ['SET', 'a', 2], ['SET', 'b', 3], ['EXEC']],
          [['MULTI'], ['SET', 'a', 2], ['SET', 'b', 3], ['DISCARD'], ['MGET', 'a', 'b']],
          [['MULTI'], ['SET', 'a', 2], ['SET'], ['SET', 'b', 3], ['EXEC'], ['MGET', 'a', 'b']]]


def suspensions(cluster):
    """How often commands have waited for rows, at all shards."""
    count = 0
    for shard in range(len(cluster.slots)):
        with cluster.partition(shard) as partition:
            lines = partition.get('INFO', 'stats').split()
        count += sum(int(line.split(b':')[1]) for line in lines if line.startswith(b'suspended_commands:'))
    return count


@suite.case('SORT requests the keys of its patterns that are on other shards together')
def _(run):
    keys = 2500
    with Cluster(backends=1, partitions=3, linked=True) as cluster, cluster.connect() as client:
        client.pipeline([['SET', 'w_%d' % number, keys - number] for number in range(keys)])
        client.pipeline([['HSET', 'h_%d' % number, 'f', number] for number in range(keys)])
        client.get('RPUSH', 'l', *range(keys))
        for words in (['BY', 'w_*'], ['BY', 'nosort', 'GET', 'w_*', 'GET', 'h_*->f'], ['BY', 'w_*', 'GET', 'h_*->f', 'STORE', 'sorted']):
            before = suspensions(cluster)
            reply = client.get('SORT', 'l', *words)
            check_equal(reply if 'STORE' in words else len(reply), keys * (2 if len(words) == 6 and 'STORE' not in words else 1), words)
            count = suspensions(cluster) - before
            check(0 < count < 40, '%r: it ran again %d times' % (words, count))
        check_equal(client.get('LRANGE', 'sorted', 0, 1), [b'%d' % (keys - 1), b'%d' % (keys - 2)])


@suite.case('EXEC after WATCH: an MSET without its last value gets an error, and the other commands run')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        watched, a, b = (cluster.key_on(shard) for shard in range(3))
        wrong = ('-', b"ERR wrong number of arguments for 'mset' command")
        for number, commands in enumerate(([['MSET', a, '1', b]], [['MSET', a, '1', a], ['INCR', b]], [['INCR', b], ['MSET', a, '1', b]])):
            client.send_many([['WATCH', watched], ['MULTI'], *commands, ['EXEC']])
            reply = [client.read() for _ in range(len(commands) + 3)][-1]
            check_equal(reply, ('*', [wrong if words[0] == 'MSET' else (':', b'%d' % number) for words in commands]))


@suite.case('over three shards every command with several keys, script and transaction replies as redis-server does')
def _(run):
    for proto in (2, 3):
        with Oracle() as oracle, Cluster(backends=3, partitions=1, linked=True) as cluster:
            with Connection(oracle.address, proto=proto) as redis, cluster.connect(proto=proto) as client:
                for commands in [FILL, SINGLE] + BLOCKS:
                    for words in commands:
                        want, got = redis.call(*words), client.call(*words)
                        check(got == want, '%r: got %s, want %s' % (words, show(got), show(want)))
                    check_equal(client.pipeline(FILL), redis.pipeline(FILL))


def blocked(cluster):
    with cluster.connect() as client:
        info = client.get('INFO', 'clients')
    return int(info.split(b'blocked_clients:')[1].split()[0])


@contextlib.contextmanager
def waiting(cluster, *words, proto=2):
    """A connection whose command waits."""
    before = blocked(cluster)
    with cluster.connect(proto=proto) as client:
        client.send(*words)
        wait_for(lambda: blocked(cluster) == before + 1, 'the command to wait')
        yield client
    wait_for(lambda: blocked(cluster) == before, 'the wait to end')


@suite.case('commands that wait take keys of several shards, and an element that comes later ends the wait')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as other:
        a, b, c = [cluster.key_on(shard) for shard in range(3)]
        for proto in (2, 3):
            other.call('DEL', a, b, c)
            for words in (['BLMOVE', a, b, 'LEFT', 'RIGHT', 0], ['BRPOPLPUSH', a, b, 0]):
                with waiting(cluster, *words, proto=proto) as client:
                    other.call('RPUSH', b, 'not the source')
                    other.call('RPUSH', a, 'x')
                    check_equal(client.read(), ('$', b'x'))
                check_equal(other.get('EXISTS', a), 0)
                check_equal(other.get('DEL', b), 1)
            with waiting(cluster, 'BLMOVE', a, b, 'LEFT', 'RIGHT', 0, proto=proto) as client:
                other.call('SET', b, 'no list')
                other.call('RPUSH', a, 'x')
                check(client.read()[1].startswith(b'WRONGTYPE'), 'the destination')
            other.call('DEL', a, b)
            other.call('XADD', a, '5-5', 'f', 'old')
            with waiting(cluster, 'XREAD', 'BLOCK', 0, 'COUNT', 1, 'STREAMS', a, b, c, '$', '$', '0', proto=proto) as client:
                other.call('XADD', b, '7-1', 'f', 'new')
                stream = [('$', b.encode()), ('*', [('*', [('$', b'7-1'), ('*', [('$', b'f'), ('$', b'new')])])])]
                check_equal(client.read(), ('%', stream) if proto == 3 else ('*', [('*', stream)]))
            with waiting(cluster, 'XREAD', 'BLOCK', 0, 'STREAMS', b, a, c, a, '$', '$', '$', '$', proto=proto) as client:
                other.call('XADD', a, '8-1', 'f', 'new')
                got = str(client.read())
                check(got.count('8-1') == 2 and '7-1' not in got and '5-5' not in got, 'both ids of a stream that is named twice: ' + got)
            for key in (a, b, c):
                other.call('XGROUP', 'CREATE', key, 'g', '$', 'MKSTREAM')
            with waiting(cluster, 'XREADGROUP', 'GROUP', 'g', 'me', 'BLOCK', 0, 'STREAMS', a, b, c, '>', '>', '>', proto=proto) as client:
                other.send_many([['XADD', key, '9-1', 'f', 'group'] for key in (c, b, a)])
                reply = client.read()
                got = {name[1].decode() for name in (reply[1][::2] if proto == 3 else [pair[1][0] for pair in reply[1]])}
                check(got and got <= {a, b, c}, got)
                check_equal([other.read()[0] for _ in range(3)], ['$'] * 3)
            pending = {key: other.get('XPENDING', key, 'g')[0] for key in (a, b, c)}
            check_equal(pending, {key: int(key in got) for key in (a, b, c)}, 'what was delivered was replied')


@suite.case('hundreds of clients wait for lists of two shards each: every element goes to one of them, and no other is woken')
def _(run):
    count = sized(300, long=4000)
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as other:
        keys = [[cluster.key_on(shard, 'list%d:' % i) for shard in range(2)] for i in range(count)]
        clients = [cluster.connect() for _ in range(count)]
        for client, lists in zip(clients, keys):
            client.send('BLPOP', *lists, 0)
        wait_for(lambda: blocked(cluster) == count, 'all to wait')
        chosen = random.Random(run.seed).sample(range(count), count // 2)
        for i in chosen:
            other.get('RPUSH', keys[i][i % 2], i, 'second')
        for i in chosen:
            check_equal(clients[i].read(), ('*', [('$', keys[i][i % 2].encode()), ('$', b'%d' % i)]))
        wait_for(lambda: blocked(cluster) == count - len(chosen), 'the others to wait on')
        check_equal(other.get('EVAL', "return redis.call('DBSIZE')", 0), len(chosen), 'lists with their second element')
        for client in clients:
            client.close()
        wait_for(lambda: blocked(cluster) == 0, 'no wait to be left')


@suite.case('waits over shards end with their timeout, by CLIENT UNBLOCK and when the client leaves')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, Oracle() as oracle, cluster.connect() as other:
        a, b, c = [cluster.key_on(shard) for shard in range(3)]
        waits = [['BLMOVE', a, b, 'LEFT', 'RIGHT'], ['BRPOPLPUSH', a, b], ['XREAD', 'BLOCK', 'STREAMS', a, c, '$', '0']]

        def with_timeout(words, seconds):
            if words[0] == 'XREAD':
                return words[:2] + [int(seconds * 1000)] + words[2:]
            return words + [seconds]
        for proto in (2, 3):
            with Connection(oracle.address, proto=proto) as redis, cluster.connect(proto=proto) as client:
                for words in waits:
                    check_equal(client.call(*with_timeout(words, 0.01)), redis.call(*with_timeout(words, 0.01)), repr(words))
            for words in waits:
                for how in (['ERROR'], ['TIMEOUT']):
                    with Connection(oracle.address, proto=proto) as redis, cluster.connect(proto=proto) as client:
                        idents = redis.get('CLIENT', 'ID'), client.get('CLIENT', 'ID')
                        for connection in (redis, client):
                            connection.send(*with_timeout(words, 0))
                        with Connection(oracle.address) as admin:
                            wait_for(lambda: admin.get('CLIENT', 'UNBLOCK', idents[0], *how) == 1, 'redis to unblock')
                        wait_for(lambda: blocked(cluster) == 1, 'the command to wait')
                        check_equal(other.get('CLIENT', 'UNBLOCK', idents[1], *how), 1)
                        check_equal(client.read(), redis.read(), '%r %r' % (words, how))
                with waiting(cluster, *with_timeout(words, 0)):
                    pass


@suite.case('XREAD BLOCK with an odd number of words behind STREAMS is refused, also with keys of several shards')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, Oracle() as oracle, cluster.connect() as client:
        a, b, c = [cluster.key_on(shard) for shard in range(3)]
        with Connection(oracle.address) as redis:
            for words in (['XREAD', 'BLOCK', 10, 'STREAMS', a, b, 0], ['XREAD', 'BLOCK', 10, 'STREAMS', a, b, c, 0, 0, 0, 0],
                          ['XREAD', 'BLOCK', 10, 'STREAMS', a, b, 'BLOCK', '$', '$'], ['XREAD', 'BLOCK', 10, 'STREAMS', a],
                          ['XREADGROUP', 'GROUP', 'g', 'me', 'BLOCK', 10, 'STREAMS', a, b, c, '>', '>', '>', '>'],
                          ['XREADGROUP', 'GROUP', 'BLOCK', 'BLOCK', 'STREAMS', a, b, c, '>'], ['XREAD', 'BLOCK', 10, 'BLOCK', a, b]):
                check_equal(client.call(*words), redis.call(*words), repr(words))


@suite.case('a group and a consumer may have the name of an option: XREADGROUP waits as long as BLOCK says')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as other:
        keys = [cluster.key_on(shard) for shard in range(3)]
        for key in keys:
            other.call('XGROUP', 'CREATE', key, 'BLOCK', '$', 'MKSTREAM')
        streams = ['STREAMS', *keys, '>', '>', '>']
        with waiting(cluster, 'XREADGROUP', 'BLOCK', 0, 'GROUP', 'BLOCK', 'BLOCK', *streams) as client:
            other.call('XADD', keys[1], '1-1', 'f', 'v')
            check_equal(client.read(), ('*', [('*', [('$', keys[1].encode()), ('*', [
                ('*', [('$', b'1-1'), ('*', [('$', b'f'), ('$', b'v')])])])])]))
        check_equal([group[1] for group in other.get('XPENDING', keys[1], 'BLOCK')[3]], [b'1'])
        check_equal(other.get('XPENDING', keys[1], 'BLOCK')[3][0][0], b'BLOCK', 'the consumer')
        with waiting(cluster, 'XREADGROUP', 'GROUP', 'BLOCK', 'STREAMS', 'BLOCK', 5, 'BLOCK', 0, *streams) as client:
            other.call('XADD', keys[2], '1-1', 'f', 'v')
            check_equal(client.read()[0], '*')
        check_equal(other.call('XREADGROUP', 'GROUP', 'BLOCK', 'BLOCK', *streams)[0], '*', 'does not wait')


suite.main()
