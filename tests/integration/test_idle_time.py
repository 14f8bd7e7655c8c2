#!/usr/bin/python3
"""OBJECT IDLETIME and FREQ: which commands access a key, as in redis-server, at a partition and through a proxy."""

import time

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection

suite = Suite(__doc__)
KEYS = ['str', 'list', 'hash']
# {} stands for a key of a type that fits the command.
WITHOUT_ACCESS = '''TYPE {0}
EXISTS {0} {0}
TTL {0}
PTTL {0}
EXPIRETIME {0}
PEXPIRETIME {0}
OBJECT IDLETIME {0}
OBJECT ENCODING {0}
OBJECT REFCOUNT {0}
OBJECT FREQ {0}
MEMORY USAGE {0}
DEBUG OBJECT {0}
WATCH {0}
UNWATCH
KEYS *
SCAN 0 COUNT 100
RANDOMKEY
DBSIZE'''
WITH_ACCESS = '''GET str
STRLEN str
SET str w
APPEND str x
SET str w KEEPTTL
EXPIRE str 1000
PERSIST str
TOUCH str
DUMP str
LLEN list
LRANGE list 0 -1
RPUSH list x
LPOS list x
SORT list ALPHA
HGET hash f
HSET hash f w
HGETALL hash
HSCAN hash 0
LPUSH str wrongtype
RENAME str str
COPY str copied
GETRANGE str 0 0'''


def fill(client):
    for words in (['SET', 'str', 'v'], ['RPUSH', 'list', 'a', 'b'], ['HSET', 'hash', 'f', 'v'], ['SET', 'untouched', 'v']):
        client.get(*words)


def idle(client, key):
    return client.get('OBJECT', 'IDLETIME', key)


def fill_numbered(client):
    """Adds a key for each line of WITH_ACCESS; returns {key: the line's command with this key}."""
    lines = {}
    for i, line in enumerate(WITH_ACCESS.split('\n')):
        key = line.split(' ')[1]
        name = '%s{%d}' % (key, i)
        client.get(*{'str': ['SET', name, 'v'], 'list': ['RPUSH', name, 'a', 'b'], 'hash': ['HSET', name, 'f', 'v']}[key])
        lines[name] = [name if word == key else 'copied{%d}' % i if word == 'copied' else word for word in line.split(' ')]
    return lines


@suite.case('commands that read or write a value access its key; TYPE, TTL, EXISTS, OBJECT and the like do not')
def _(run):
    whole = Cluster(backends=1, partitions=1, proxies=0)
    with Oracle() as oracle, whole, Cluster(backends=1, partitions=3) as cluster:
        targets = [Connection(oracle.address), Connection(whole.backends[0].addresses[0])]
        through = [cluster.connect(proto=proto) for proto in (2, 3)]
        filled = [(client, fill(client), fill_numbered(client)) for client in targets + through[:1]]
        filled.append((through[1], None, {}))
        for client, _, lines in filled:
            check_equal(idle(client, 'missing'), None)
            wait_for(lambda client=client, lines=lines: min(idle(client, key) for key in KEYS + list(lines)) >= 2, 'idle keys')
        for client, _, lines in filled:
            before = {key: idle(client, key) for key in KEYS}
            for line in WITHOUT_ACCESS.split('\n'):
                if 'DEBUG' in line and client in through:
                    continue  # the proxy refuses this command
                for key in KEYS:
                    client.call(*line.format(key).split(' '))
                    check(idle(client, key) >= before[key], '%s: %r' % (line, before))
            for key, words in lines.items():
                untouched, began = idle(client, 'untouched'), time.monotonic()
                client.call(*words)
                now, took = idle(client, key), time.monotonic() - began
                check(now <= took + 1 and (now < untouched or took > 1), '%r: %d s' % (words, now))


@suite.case('RESTORE IDLETIME sets the idle time, a new value resets it, FREQ is an error')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=3) as cluster:
        for client in (Connection(oracle.address), cluster.connect(), cluster.connect(proto=3)):
            client.get('SET', 'k', 'v')
            dump = client.get('DUMP', 'k')
            check_equal(client.get('RESTORE', 'k', '0', dump, 'REPLACE', 'IDLETIME', '1000'), b'OK')
            check(1000 <= idle(client, 'k') < 2000, idle(client, 'k'))
            client.get('DEL', 'k')
            check_equal(idle(client, 'k'), None)
            client.get('SET', 'k', 'w')
            check(idle(client, 'k') < 1000, idle(client, 'k'))
            check('An LFU maxmemory policy is not selected' in str(client.get('OBJECT', 'FREQ', 'k')), 'FREQ')
            check_equal(client.get('OBJECT', 'FREQ', 'missing'), None)


@suite.case('after a restart, the idle time of keys that are only on the disk counts from the start')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            fill(client)
            wait_for(lambda: idle(client, 'str') >= 2, 'a key to be idle')
        backend.stop()
        started = time.time()
        backend.start()
        with cluster.partition(0) as client:
            client.get('DEBUG', 'EVICT')
            first = idle(client, 'str')
            check(first <= time.time() - started + 1, first)
            wait_for(lambda: idle(client, 'str') > first, 'the time to go on')
            check_equal(client.get('GET', 'str'), b'v')


if __name__ == '__main__':
    suite.main()
