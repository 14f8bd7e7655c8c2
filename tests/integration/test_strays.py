#!/usr/bin/python3
"""SCREE STRAYS: keys that shards store although the shard map gives their slots to other shards."""

from support.cluster import Cluster, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError

suite = Suite(__doc__)
KEYS = ['key:%d' % i for i in range(300)]
HALVES = ['0-8191', '8192-16383']
MOVED = range(4096, 8192)  # slots that the second map gives to the other shard
SECOND_MAP = ['0-4095', '4096-16383']


def strays(connection):
    """The lines as dictionaries."""
    lines = connection.get('SCREE', 'STRAYS')
    return [dict(word.split('=', 1) for word in line.decode().split()) for line in lines]


def moved_slots():
    return sorted(slot_of(key) for key in KEYS if slot_of(key) in MOVED)


def check_moved_line(cluster, lines):
    """All strays of the second map are one run of slots of the first shard."""
    slots = moved_slots()
    check_equal(len(lines), 1, 'lines')
    check_equal(lines[0]['slots'], '%d-%d' % (slots[0], slots[-1]))
    check_equal(lines[0]['keys'], str(len(slots)))
    host, port = cluster.shard_addresses()[0][1]
    check_equal(lines[0]['address'], '%s:%d' % (host, port))


def use_map(cluster, connection, slots):
    cluster.write_shards(slots)
    reply = connection.get('SCREE', 'RELOAD')
    check(not isinstance(reply, ReplyError), 'the map was refused: %r' % reply)


def fill(client):
    for key in KEYS:
        client.call('SET', key, 'old')
    check_equal(strays(client), [], 'before the new map')


@suite.case('keys that a new map leaves behind are listed, until the map goes back or they are deleted')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        fill(client)
        use_map(cluster, client, SECOND_MAP)
        check_moved_line(cluster, strays(client))
        check('owner' not in strays(client)[0], 'an owner without a map of the backends')
        check_equal(client.get('DBSIZE'), len(KEYS))
        use_map(cluster, client, HALVES)
        check_equal(strays(client), [], 'with the first map')
        use_map(cluster, client, SECOND_MAP)
        with cluster.partition(0) as partition:
            check_equal(strays(partition), [], 'a backend without a map')
            for key in KEYS:
                if slot_of(key) in MOVED:
                    check_equal(partition.get('DEL', key), 1)
        check_equal(strays(client), [], 'after the deletion')


@suite.case('backends with a shard map keep their slots, so that a new map leaves nothing behind')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        fill(client)
        use_map(cluster, client, SECOND_MAP)
        with cluster.partition(0) as partition:
            wait_for(lambda: b'peers_map_epoch:%d\r' % cluster.epoch in partition.get('INFO', 'peers'),
                     'the backend to have read the map')
            check_equal(strays(partition), [], 'of the backend')
            check_equal(partition.get('DBSIZE'), sum(slot_of(key) < 8192 for key in KEYS))
        check_equal(strays(client), [], 'through the proxy')


@suite.case('keys of all namespaces and databases are counted, and each run of slots has a line')
def _(run):
    namespaces = {'one': {'token': 'token-one'}}
    with Cluster(backends=2, partitions=1, proxies=1, namespaces=namespaces,
                 proxy_options={'proxy': {'requirepass': 'operator'}}) as cluster, \
            cluster.connect() as operator, cluster.connect() as tenant:
        check_equal(operator.get('AUTH', 'operator'), b'OK')
        check_equal(tenant.get('AUTH', 'token-one'), b'OK')
        for connection in (operator, tenant):
            for database in (0, 3):
                check_equal(connection.get('SELECT', database), b'OK')
                for key in KEYS:
                    connection.call('SET', key, 'old')
        use_map(cluster, operator, ['8192-16383', '0-8191'])
        lines = strays(operator)
        check_equal(len(lines), 2)
        check_equal(sum(int(line['keys']) for line in lines), 4 * len(KEYS))
        use_map(cluster, operator, ['0-999 2000-2999 4000-16383', '1000-1999 3000-3999'])
        by_slots = [tuple(map(int, line['slots'].split('-'))) for line in strays(operator)]
        check(all(any(first <= low and high <= last for first, last in ((1000, 1999), (3000, 3999)))
                  for low, high in by_slots[:2]), 'the first shard lists %r' % by_slots)
        check(all(8192 <= low for low, _ in by_slots[2:]) and len(by_slots) == 3, 'lines: %r' % by_slots)
        check(isinstance(tenant.get('SCREE', 'STRAYS'), ReplyError), 'a tenant may list strays')


suite.main()
