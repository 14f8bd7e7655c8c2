#!/usr/bin/python3
"""SCREE STRAYS: keys that shards store although the shard map gives their slots to other shards."""

from support.cluster import Cluster, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.moves import Direct, dumps, fields, wait_settled
from support.moves import fill as fill_types
from support.resp import ReplyError, value

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


@suite.case('backends with a shard map move their slots, so that a new map leaves nothing behind')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        fill(client)
        use_map(cluster, client, SECOND_MAP)
        wait_settled(cluster)
        with cluster.partition(0) as partition:
            check_equal(strays(partition), [], 'of the backend')
            check_equal(partition.get('DBSIZE'), sum(slot_of(key) < 4096 for key in KEYS))
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


def link(cluster):
    """Gives the backends, which have worked without one, the shard map."""
    cluster.write_shards(HALVES)
    for backend in cluster.backends:
        backend.kill9()
        backend.options = dict(backend.options)
        backend.options['backend'] = dict(backend.options.get('backend', {}), shards=cluster.shards_path)
        backend.write_config()
        backend.start()
    cluster.linked = True
    for shard in range(2):
        with cluster.partition(shard) as partition:
            wait_for(lambda: len(partition.get('SCREE', 'OWNERS')) == 2, 'the owners of all slots')


def run_strays(connection, *words):
    """Gives the command, waits for its end, and returns the figures and the named keys."""
    reply = connection.get('SCREE', 'STRAYS', *words)
    check(not isinstance(reply, ReplyError), '%r: %r' % (words, reply))

    def is_over():
        return fields(connection.get('SCREE', 'STRAYS', 'STATUS')[0])['state'] not in ('checking', 'moving')
    wait_for(is_over, 'the end of STRAYS %s' % ' '.join(words))
    lines = connection.get('SCREE', 'STRAYS', 'STATUS')
    return fields(lines[0]), lines[1:]


def figures(line, *names):
    return [int(line[name]) for name in names]


def space(connection, name, database):
    check_equal(connection.get('SCREE', 'USE', name, database), b'OK')
    return Direct(connection)


def internal(cluster, shard):
    """A connection that may use every namespace."""
    connection = cluster.partition(shard).__enter__()
    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
    return connection


def contents(connection, keys, places):
    return {place: dumps(space(connection, *place), keys) for place in places}


@suite.case('strays of all types, namespaces and databases move to their owner as they are')
def _(run):
    places = [('', 0), ('', 3), ('shop', 0), ('shop', 2)]
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        with internal(cluster, 0) as first:
            for place in places:
                keys = fill_types(space(first, *place), 8)
            strays_of = [key for key in keys if slot_of(key) > 8191]
            before = contents(first, keys, places)
        link(cluster)
        with internal(cluster, 0) as first, internal(cluster, 1) as second:
            check_equal(sum(int(line['keys']) for line in strays(first)), len(places) * len(strays_of))
            space(first, '', 0)
            check_equal(first.get('DBSIZE'), len(keys) - len(strays_of))
            check_equal(len(first.get('KEYS', '*')), len(keys) - len(strays_of))
            line, _ = run_strays(first, 'CHECK')
            check_equal(figures(line, 'movable', 'present'), [len(places) * len(strays_of), 0])
            check_equal(second.get('DBSIZE'), 0)
            line, _ = run_strays(first, 'MOVE')
            check_equal([line['state']] + figures(line, 'moved', 'present', 'later'),
                        ['done', len(places) * len(strays_of), 0, 0])
            check_equal(strays(first), [], 'after the move')
            after = contents(second, strays_of, places)
            for place in places:
                for key in strays_of:
                    check_equal(after[place][key], before[place][key], key)
            check_equal(space(second, '', 3).get('DBSIZE'), len(strays_of))
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        with cluster.partition(0) as first:
            check_equal(strays(first), [], 'after a restart')


@suite.case('a key that the owner has is only replaced, or its stray only deleted, when the operator says so')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        keys = [cluster.key_on(1, 'k%d:' % i) for i in range(6)]
        with cluster.partition(0) as first, cluster.partition(1) as second:
            for key in keys:
                check_equal(first.get('RPUSH', key, 'stray', 'list'), 2)
            for key in keys[:4]:
                check_equal(second.get('SET', key, 'owned'), b'OK')
        link(cluster)
        with cluster.partition(0) as first, cluster.partition(1) as second:
            line, named = run_strays(first, 'CHECK')
            check_equal(figures(line, 'movable', 'present'), [2, 4])
            check_equal(sorted(fields(name)['key'] for name in named), sorted(keys[:4]))
            line, named = run_strays(first, 'MOVE')
            check_equal(figures(line, 'moved', 'present', 'kept'), [2, 4, 0])
            check_equal([second.get('TYPE', key) for key in keys], [b'string'] * 4 + [b'list'] * 2)
            check_equal(strays(first)[0]['keys'], '4')
            check_equal(second.get('DEL', keys[0]), 1)
            line, _ = run_strays(first, 'MOVE', 'KEEP')
            check_equal(figures(line, 'moved', 'present', 'kept'), [1, 0, 3])
            check_equal(second.get('GET', keys[1]), b'owned')
            check_equal(second.get('LRANGE', keys[0], 0, -1), [b'stray', b'list'])
            check_equal(strays(first), [])
            for words in (('MOVE', 'ALL'), ('CHECK', 'KEEP'), ('LOOK',)):
                check(isinstance(first.get('SCREE', 'STRAYS', *words), ReplyError), repr(words))


@suite.case('REPLACE replaces keys of any type, and clients that watch or wait for them are told')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        watched, awaited = cluster.key_on(1, 'watched'), cluster.key_on(1, 'awaited')
        with cluster.partition(0) as first, cluster.partition(1) as second:
            check_equal(first.get('HSET', watched, 'f', 'stray'), 1)
            check_equal(first.get('RPUSH', awaited, 'a'), 1)
            check_equal(second.get('HSET', watched, 'f', 'owned', 'g', 'owned'), 2)
        link(cluster)
        with cluster.partition(0) as first, cluster.partition(1) as second, cluster.partition(1) as waiter:
            check_equal(second.get('WATCH', watched), b'OK')
            waiter.send('BLPOP', awaited, 0)
            wait_for(lambda: b'blocked_clients:1\r' in first_info(cluster), 'the client to wait')
            line, _ = run_strays(first, 'MOVE', 'REPLACE')
            check_equal(figures(line, 'moved', 'present'), [2, 0])
            check_equal(second.get('MULTI'), b'OK')
            second.get('SET', watched, 'new')
            check_equal(second.get('EXEC'), None)
            check_equal(second.get('HGETALL', watched), [b'f', b'stray'])
            check_equal(value(waiter.read()), [awaited.encode(), b'a'])


def first_info(cluster):
    with cluster.partition(1) as second:
        return second.get('INFO', 'clients')


def has_moved_some(connection):
    line = fields(connection.get('SCREE', 'STRAYS', 'STATUS')[0])
    return line['moved'] != '0' or line['state'] == 'done'


@suite.case('a move of strays that is interrupted by kill -9 of either side can be given again until all are there')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, backend_options={'backend': {'migration-rate': '500kb'}}) as cluster:
        names = ['key:%d' % i for i in range(6000)]
        mine = [name for name in names if slot_of(name) > 8191]
        with cluster.partition(0) as first:
            first.pipeline([('RPUSH', name, name, 'x' * 1000) for name in mine])
        link(cluster)
        for shard in (0, 1, 0, 1):
            with cluster.partition(0) as first:
                wait_for(lambda: not isinstance(first.get('SCREE', 'STRAYS', 'MOVE'), ReplyError), 'MOVE')
                wait_for(lambda: has_moved_some(first), 'some keys to move')
            cluster.backends[shard].kill9()
            cluster.backends[shard].start()
        with cluster.partition(0) as first, cluster.partition(1) as second:
            first.get('SCREE', 'STRAYS', 'STOP')
            wait_for(lambda: len(second.get('SCREE', 'OWNERS')) == 2, 'the owners')
            line, _ = run_strays(first, 'MOVE')
            check_equal([line['state']] + figures(line, 'present', 'later'), ['done', 0, 0])
            check_equal(strays(first), [])
            check_equal(second.get('DBSIZE'), len(mine))
            first_elements = [value(reply) for reply in second.pipeline([('LRANGE', name, 0, 0) for name in mine])]
            check_equal(first_elements, [[name.encode()] for name in mine])


suite.main()
