#!/usr/bin/python3
"""A script known to one shard is known to all: EVALSHA at other shards, through other proxies, in MULTI."""

import hashlib

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, value

suite = Suite(__doc__)

SHARDS = 3
INCREMENT = 'return redis.call("incr", KEYS[1])'
NOSCRIPT = b'NOSCRIPT No matching script. Please use EVAL.'


def sha_of(script):
    return hashlib.sha1(script.encode()).hexdigest()


def one_key_each(cluster):
    return [cluster.key_on(shard) for shard in range(SHARDS)]


def cached(client):
    text = client.get('INFO', 'memory').decode()
    return int(text.split('number_of_cached_scripts:')[1].split('\r\n')[0])


@suite.case('EVAL at one shard, then EVALSHA with keys of the others, through each proxy, in RESP2 and RESP3')
def _(run):
    with Cluster(backends=1, partitions=SHARDS, proxies=2) as cluster:
        keys, sha = one_key_each(cluster), sha_of(INCREMENT)
        with cluster.connect(0) as client:
            check_equal(client.call('EVAL', INCREMENT, 1, keys[0]), (':', b'1'), 'EVAL')
            check_equal(client.call('SCRIPT', 'EXISTS', sha, 'f' * 40), ('*', [(':', b'1'), (':', b'0')]), 'EXISTS')
            check_equal(cached(client), 1, 'number_of_cached_scripts')
        count = 1
        for proxy, proto in ((1, 2), (0, 3), (1, 3), (0, 2)):
            with cluster.connect(proxy, proto=proto) as client:
                for i, key in enumerate(keys):
                    check_equal(client.call('EVALSHA', sha.upper(), 1, key), (':', b'%d' % (count + (i == 0))), key)
                check_equal(client.call('SCRIPT', 'EXISTS', sha), ('*', [(':', b'1')]), 'EXISTS')
                check_equal(cached(client), 1, 'number_of_cached_scripts')
            count += 1


@suite.case('EVALSHA without keys, and of a script with flags and arbitrary bytes, works at any shard')
def _(run):
    script = '#!lua flags=no-writes\nreturn "\x00\xff" .. #ARGV'
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        data = script.encode('latin-1')
        client.call('EVAL', data, 1, cluster.key_on(1))
        for _ in range(2 * SHARDS):
            check_equal(client.call('EVALSHA', hashlib.sha1(data).hexdigest(), 0, 'x'), ('$', b'\x00\xff1'), 'EVALSHA')
        check_equal(client.call('EVALSHA_RO', hashlib.sha1(data).hexdigest(), 0), ('$', b'\x00\xff0'), 'EVALSHA_RO')


@suite.case('requests after an EVALSHA are executed after it, at whichever shard its script was known')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        keys = one_key_each(cluster)
        for i in range(20):
            script = INCREMENT + ' -- %d' % i
            client.call('EVAL', script, 1, keys[i % SHARDS])
            client.call('MSET', *[word for key in keys for word in (key, '0')])
            commands = [words for key in keys for words in (
                ['SET', key, '5'], ['EVALSHA', sha_of(script), 1, key], ['GET', key],
                ['EVALSHA', sha_of(script), 1, key], ['GET', key])]
            replies = client.pipeline(commands)
            check_equal([value(reply) for reply in replies], [b'OK', 6, b'6', 7, b'7'] * SHARDS, 'script %d' % i)


@suite.case('EVALSHA works in MULTI, under WATCH and for a client with tracking')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        keys = one_key_each(cluster)

        def fresh(number):
            script = INCREMENT + ' -- %d' % number
            client.call('EVAL', script, 1, keys[0])
            return sha_of(script)

        sha = fresh(1)
        replies = client.pipeline([['MULTI'], ['SET', keys[1], '1'], ['EVALSHA', sha, 1, keys[1]], ['GET', keys[1]], ['EXEC']])
        check_equal(value(replies[-1]), [b'OK', 2, b'2'], 'EXEC')
        sha = fresh(2)
        with cluster.connect() as other:
            check_equal(value(other.pipeline([['WATCH', keys[2]], ['MULTI'], ['EVALSHA', sha, 1, keys[2]], ['EXEC']])[-1]), [1],
                        'EXEC')
        sha = fresh(3)
        with cluster.connect(proto=3) as tracker:
            tracker.call('CLIENT', 'TRACKING', 'ON')
            check_equal(tracker.get('EVALSHA', sha, 1, keys[1]), 3, 'EVALSHA of a client that tracks')
        replies = client.pipeline([['MULTI'], ['EVALSHA', 'f' * 40, 1, keys[1]], ['SET', keys[1], 'x'], ['EXEC']])
        check_equal(replies[-1], ('*', [('-', NOSCRIPT), ('+', b'OK')]), 'a script nobody knows')


@suite.case('SCRIPT FLUSH makes a script unknown to all shards, and EVAL makes it known to all again')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2) as cluster:
        keys, sha = [cluster.key_on(shard) for shard in range(4)], sha_of(INCREMENT)
        with cluster.connect(0) as client, cluster.connect(1) as other:
            for flusher in (client, other, client):
                client.call('EVAL', INCREMENT, 1, keys[0])
                wait_for(lambda: all(client.call('EVALSHA', sha, 1, key)[0] == ':' for key in keys), 'the script everywhere')
                check_equal(flusher.call('SCRIPT', 'FLUSH'), ('+', b'OK'), 'SCRIPT FLUSH')
                for each in (client, other):
                    check_equal(each.call('SCRIPT', 'EXISTS', sha), ('*', [(':', b'0')]), 'EXISTS')
                    check_equal(cached(each), 0, 'number_of_cached_scripts')
                    for key in keys:
                        check_equal(each.call('EVALSHA', sha, 1, key), ('-', NOSCRIPT), 'EVALSHA after SCRIPT FLUSH')
            client.call('EVAL', INCREMENT, 1, keys[0])
            for key in keys: # through the proxy that ran SCRIPT FLUSH
                check_equal(client.call('EVALSHA', sha, 1, key)[0], ':', key)


@suite.case('after SCRIPT FLUSH through another proxy at most one EVALSHA gets NOSCRIPT once EVAL has loaded the script again')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2, proxy_options={'proxy': {'workers': 1}}) as cluster:
        keys, sha = [cluster.key_on(shard) for shard in range(4)], sha_of(INCREMENT)
        for proto in (2, 3):
            with cluster.connect(0, proto=proto) as client, cluster.connect(1, proto=proto) as other:
                for _ in range(20):
                    other.call('EVAL', INCREMENT, 1, keys[0])
                    wait_for(lambda client=client: all(client.call('EVALSHA', sha, 1, key)[0] == ':' for key in keys), 'the script')
                    check_equal(other.call('SCRIPT', 'FLUSH'), ('+', b'OK'), 'SCRIPT FLUSH')
                    other.call('EVAL', INCREMENT, 1, keys[0])
                    replies = [client.call('EVALSHA', sha, 1, key) for key in keys[1:] * 2]
                    check(sum(reply == ('-', NOSCRIPT) for reply in replies) <= 1, replies)


@suite.case('a script of a namespace is known at all shards, but only to that namespace')
def _(run):
    namespaces = {name: {'token': name} for name in ('red', 'blue')}
    with Cluster(backends=1, partitions=SHARDS, namespaces=namespaces) as cluster:
        red, blue = cluster.connect(), cluster.connect()
        check_equal(red.call('AUTH', 'red', 'red'), ('+', b'OK'), 'AUTH')
        check_equal(blue.call('AUTH', 'blue', 'blue'), ('+', b'OK'), 'AUTH')
        sha, keys = sha_of(INCREMENT), one_key_each(cluster)
        red.call('EVAL', INCREMENT, 1, keys[0])
        for key in keys:
            check_equal(blue.call('EVALSHA', sha, 1, key), ('-', NOSCRIPT), 'a script of another namespace')
            check_equal(red.call('EVALSHA', sha, 1, key)[0], ':', key)
            check_equal(blue.call('EVALSHA', sha, 1, key), ('-', NOSCRIPT), 'a script of another namespace')
        check_equal(blue.call('SCRIPT', 'FLUSH'), ('+', b'OK'), 'SCRIPT FLUSH')
        check_equal(red.call('SCRIPT', 'EXISTS', sha), ('*', [(':', b'1')]), 'EXISTS')
        check_equal(red.call('EVALSHA', sha, 1, keys[2])[0], ':', 'after the flush of another namespace')


@suite.case('a restarted shard gets its scripts from the others')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, cluster.connect() as client:
        keys, sha = [cluster.key_on(shard) for shard in range(2)], sha_of(INCREMENT)
        client.call('SCRIPT', 'LOAD', INCREMENT)
        cluster.backends[0].kill9()
        refused = client.call('EVALSHA', sha, 1, keys[0])
        check(refused[0] == '-' and b'shard' in refused[1], refused)
        check_equal(client.call('EVALSHA', sha, 1, keys[1])[0], ':', 'the other shard')
        cluster.backends[0].start()
        wait_for(lambda: client.call('EVALSHA', sha, 1, keys[0])[0] == ':', 'the script at the restarted shard')


@suite.case('clients may disconnect while their script is looked up, also hundreds at once')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        keys = one_key_each(cluster)
        for i in range(200):
            script = INCREMENT + ' -- %d' % i
            client.call('EVAL', script, 1, keys[0])
            leaver = Connection(cluster.proxies[0].address)
            leaver.send('EVALSHA', sha_of(script), 1, keys[i % SHARDS])
            leaver.close()
        waiting = [Connection(cluster.proxies[0].address) for _ in range(100)]
        for i, each in enumerate(waiting):
            each.send('EVALSHA', sha_of(INCREMENT + ' -- %d' % i), 1, keys[i % SHARDS])
        for each in waiting:
            check_equal(each.read()[0], ':', 'EVALSHA')
            each.close()


if __name__ == '__main__':
    suite.main()
