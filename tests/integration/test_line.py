#!/usr/bin/python3
"""Requests that must wait, for locked keys or for keys of other shards, leave the connection that clients of a proxy share: others
do not wait behind them, and each client's requests run in its order.
"""

from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, wait_for
from support.locked import PATIENT, Locked
from support.resp import value

suite = Suite(__doc__)


# All clients of the only worker share connections.
def cluster_of(**upstream):
    return Cluster(backends=3, partitions=1, linked=True, backend_options={'backend': PATIENT},
                   proxy_options={'proxy': {'workers': 1}, 'upstream': {'timeout': '2m', **upstream}})


@suite.case('a request that waits for a locked key holds no other client up')
def _(run):
    with cluster_of() as cluster, cluster.connect() as waiting, cluster.connect() as other:
        near = cluster.key_on(0, 'near')
        with Locked(cluster) as locked:
            waiting.send('APPEND', locked.key, 'x')
            for i in range(20):
                check_equal(other.get('SET', near, i), b'OK')
                check_equal(other.get('GET', near), b'%d' % i)
        check_equal(value(waiting.read()), 2)


@suite.case('an EXEC and a script that wait for a locked key hold no other client up, and run once')
def _(run):
    script = "return redis.call('APPEND', KEYS[1], 'x')"
    with cluster_of() as cluster, cluster.connect() as exec_client, cluster.connect() as script_client, cluster.connect() as other:
        near = cluster.key_on(0, 'near')
        with Locked(cluster) as locked:
            exec_client.pipeline([('MULTI',), ('APPEND', locked.key, 'x'), ('SET', cluster.key_on(0, 'done'), 1)])
            exec_client.send('EXEC')
            script_client.send('EVAL', script, 1, locked.key)
            for i in range(10):
                check_equal(other.get('EVAL', "return redis.call('INCR', KEYS[1])", 1, near), 2 * i + 1)
                check_equal(value(other.pipeline([('MULTI',), ('INCR', near), ('EXEC',)])[2]), [2 * i + 2])
            check_equal(other.get('EXISTS', cluster.key_on(0, 'done')), 0)
        replies = sorted([value(exec_client.read())[0], value(script_client.read())])
        check_equal(replies, [2, 3])
        check_equal(other.get('GET', cluster.key_on(0, 'done')), b'1')


@suite.case('a script that waits for a key of a shard that is silent holds no other script up, and runs once')
def _(run):
    script = "redis.call('INCR', KEYS[1]) return redis.call('INCR', redis.sha1hex(ARGV[1]))"
    with cluster_of() as cluster, cluster.connect() as waiting, cluster.connect() as other:
        word = next(word for word in map(str, range(100)) if cluster.shard_of(other.get('EVAL', 'return redis.sha1hex(ARGV[1])', 0, word).decode()) == 2)
        own, near = cluster.key_on(0, 'own'), cluster.key_on(0, 'near')
        cluster.backends[2].pause()
        waiting.send('EVAL', script, 1, own, word)
        for i in range(20):
            check_equal(other.get('EVAL', "return redis.call('INCR', KEYS[1])", 1, near), i + 1)
        cluster.backends[2].resume()
        check_equal(value(waiting.read()), 1)
        check_equal(other.get('GET', own), b'1')


@suite.case('requests behind one that waits run after it, if their client is the same')
def _(run):
    with cluster_of() as cluster, cluster.connect() as client, cluster.connect() as other:
        near = cluster.key_on(0, 'near')
        requests = [('SET', near, 0), ('APPEND', None, 'x'), ('INCR', near), ('APPEND', None, 'y'), ('PUBLISH', 'channel', 'm'), ('DBSIZE',),
                    ('MGET', None, near), ('FLUSHALL',), ('DBSIZE',), ('SET', near, 5)]
        with Locked(cluster) as locked:
            for words in requests:
                client.send(*[locked.key if word is None else word for word in words])
            check_equal(value(client.read()), b'OK')
            for _ in range(10):
                check_equal(other.get('GET', near), b'0')
        replies = [value(client.read()) for _ in requests[1:]]
        check(2 <= replies.pop(4) <= 4, 'DBSIZE: near and the locked key, and perhaps those of other shards')
        check_equal(replies, [2, 1, 3, 0, [b'1xy', b'1'], b'OK', 0, b'OK'])
        check_equal(other.get('GET', near), b'5')


@suite.case('SCAN sees what its client wrote before, though that write waits at a shard that is asked later')
def _(run):
    with cluster_of() as cluster, cluster.connect() as client, cluster.connect() as other:
        near, renamed = cluster.key_on(1, 'near'), cluster.key_on(1, 'renamed')
        with Locked(cluster, shard=1) as locked:
            cluster.backends[0].pause()
            client.send('APPEND', locked.key, 'x')
            client.send('RENAME', locked.key, renamed)
            client.send('SCAN', 0, 'COUNT', 1000)
            wait_for(lambda: metric(cluster.backends[1].http('/metrics')[1], 'scree_backend_left_line_total'), 'the first to leave')
            cluster.backends[0].resume()
            for i in range(50):
                check_equal(other.get('SET', near, i), b'OK')
        check_equal(value(client.read()), 2)
        check_equal(value(client.read()), b'OK')
        names = value(client.read())[1]
        check(renamed.encode() in names and locked.key.encode() not in names, 'SCAN: %r' % names)


@suite.case('many requests that wait hold no others up, and each ends')
def _(run):
    with cluster_of(**{'across-limit': 4}) as cluster, cluster.connect() as other:
        near, count = cluster.key_on(0, 'near'), 30
        clients = [cluster.connect() for _ in range(count)]
        with Locked(cluster) as locked:
            for client in clients:
                client.send('APPEND', locked.key, 'x')
            for i in range(20):
                check_equal(other.get('SET', near, i), b'OK')
        check_equal(sorted(value(client.read()) for client in clients), [2 + i for i in range(count)])
        for client in clients:
            client.close()


if __name__ == '__main__':
    suite.main()
