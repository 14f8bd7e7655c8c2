#!/usr/bin/python3
"""Administration at the proxy: slow log, latency, MONITOR, pauses, hot and big keys."""

import contextlib
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Cluster, Oracle
from harness import Suite, check, check_equal, wait_for
from resp import Connection, ReplyError

suite = Suite(__doc__)

NAMESPACES = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}


def cluster_of(**options):
    options.setdefault('namespaces', NAMESPACES)
    options.setdefault('proxy_options', {'proxy': {'requirepass': 'outside'}})
    return Cluster(backends=2, partitions=1, **options)


@contextlib.contextmanager
def started(process):
    process.start()
    try:
        yield process
    finally:
        process.kill9()


def enter(cluster, *login, proto=2):
    connection = cluster.connect(proto=proto)
    check_equal(connection.get('AUTH', *login), b'OK', 'AUTH')
    return connection


def is_error(reply, text):
    return isinstance(reply, ReplyError) and text in str(reply)


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


# ---- SLOWLOG -----------------------------------------------------------------------------------------------------

def slow_words(connection, count='-1'):
    return [entry[3] for entry in connection.get('SLOWLOG', 'GET', count)]


@suite.case('SLOWLOG keeps what a stopped shard made slow, with its client, and tells the shard')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'outside') as client:
        slow_key, fast_key = cluster.key_on(0), cluster.key_on(1)
        check_equal(client.get('CLIENT', 'SETNAME', 'worker'), b'OK')
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '200000'), b'OK')
        check_equal([client.get('SET', key, 'v') for key in (slow_key, fast_key)], [b'OK'] * 2)
        check_equal(admin.get('SLOWLOG', 'RESET'), b'OK')
        cluster.backends[0].pause()
        began = time.monotonic()
        client.send('SET', slow_key, 'x' * 200)
        check_equal(admin.get('GET', fast_key), b'v')
        wait_for(lambda: time.monotonic() - began > 0.4, 'the request to be slow')
        cluster.backends[0].resume()
        check_equal(client.read()[1], b'OK')
        entries = admin.get('SLOWLOG', 'GET')
        check_equal(len(entries), 1, 'entries')
        number, at, usec, argv, address, name = entries[0]
        check_equal(argv, [b'SET', slow_key.encode(), b'x' * 128 + b'... (72 more bytes)'])
        check(300000 < usec < 20000000 and abs(at - time.time()) < 60, 'times %r' % entries[0])
        check(address.startswith(b'127.0.0.1:') and name == b'worker', 'client %r' % entries[0])
        both = pairs(admin.get('SCREE', 'SLOWLOG'))
        check_equal(sorted(both), sorted([b'proxy', b'a', b'b']) if b'a' in both else sorted(both))
        check_equal(len(both), 3, 'logs')
        own = both[b'proxy'][0]
        check_equal(own[:6], entries[0])
        check_equal(own[6], b'', 'namespace')
        check(own[7] in both and 300000 < own[8] <= usec, 'shard %r' % own)
        check_equal(admin.get('SLOWLOG', 'LEN'), 1)


@suite.case('SLOWLOG at threshold 0: arguments cut as by Redis, secrets hidden, newest kept')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, started(Oracle(cluster.folder)) as oracle:
        with Connection(oracle.address) as redis:
            texts = []
            for connection in (admin, redis):
                connection.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
                connection.get('SLOWLOG', 'RESET')
                connection.get('SET', 'k', 'v' * 128)
                connection.get('SET', 'k', 'v' * 129)
                connection.get('SET', 'k', 'v' * 100000)
                connection.get('DEL', *['key%d' % i for i in range(31)])
                connection.get('DEL', *['k%d' % i for i in range(100)])
                connection.get('CONFIG', 'SET', 'requirepass', 'outside')
                connection.get('AUTH', 'outside')
                connection.get('HELLO', '2')
                connection.get('PING')
                texts.append(slow_words(connection))
            # The proxy knows the first 256 bytes of a request: of DEL with 100 keys, fewer than 31.
            for words in texts:
                long = [entry for entry in words if len(entry) > 10 and entry[1] == b'k0'][0]
                check(long[-1].endswith(b'more arguments)'), 'cut %r' % long)
                words.remove(long)
            seen = [[entry for entry in words if entry[0] != b'DEL'] for words in texts]
            check_equal(seen[0], seen[1])
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-max-len', '2'), b'OK')
        for i in range(5):
            admin.get('GET', 'k%d' % i)
        check_equal(slow_words(admin, '5')[0], [b'GET', b'k4'])
        check_equal(admin.get('SLOWLOG', 'LEN'), 2)
        for words, text in ((['GET', '-2'], 'count should be greater'), (['GET', 'x'], 'count should be greater'),
                            (['GET', '1', '2'], 'unknown subcommand or wrong number')):
            check(is_error(admin.get('SLOWLOG', *words), text), 'SLOWLOG %r' % words)
        check(any(b'RESET' in line for line in admin.get('SLOWLOG', 'HELP')), 'HELP')
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '-1'), b'OK')
        admin.get('SLOWLOG', 'RESET')
        admin.get('GET', 'k')
        check_equal(admin.get('SLOWLOG', 'LEN'), 0)


@suite.case('SLOWLOG in a namespace shows and resets its own')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one, \
            enter(cluster, 'token-two') as two:
        admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        one.get('GET', 'mine')
        two.get('GET', 'other')
        check([b'GET', b'mine'] in slow_words(one) and [b'GET', b'other'] not in slow_words(one), 'own entries')
        check([b'GET', b'mine'] in slow_words(admin) and [b'GET', b'other'] in slow_words(admin), 'all entries')
        check_equal(one.get('SLOWLOG', 'RESET'), b'OK')
        check([b'GET', b'mine'] not in slow_words(admin) and [b'GET', b'other'] in slow_words(admin), 'after RESET')
        check_equal(list(pairs(two.get('SCREE', 'SLOWLOG', '1'))), [b'proxy'])


if __name__ == '__main__':
    suite.main()
