#!/usr/bin/python3
"""SCREE STRAYS: keys that shards store although the shard map gives their slots to other shards."""

import time

from support.cluster import Cluster, slot_of
from support.harness import Suite, check, check_equal, sized, wait_for
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


def run_over(connection):
    def is_over():
        return fields(connection.get('SCREE', 'STRAYS', 'STATUS')[0])['state'] not in ('checking', 'moving')
    wait_for(is_over, 'the end of STRAYS')


def run_strays(connection, *words):
    """Gives the command, waits for its end, and returns the figures and the named keys."""
    reply = connection.get('SCREE', 'STRAYS', *words)
    check(not isinstance(reply, ReplyError), '%r: %r' % (words, reply))

    run_over(connection)
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


@suite.case('if the owner has the key, it is replaced only with REPLACE, and the stray is deleted only with KEEP')
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


@suite.case('REPLACE replaces keys of any type, which clients that watch them or wait for them notice')
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


@suite.case('a move of strays that kill -9 of either side has interrupted can be started again until all keys have moved')
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
            for partition in (first, second):
                wait_for(lambda: len(partition.get('SCREE', 'OWNERS')) == 2 and
                         b'peers_links_up:1\r' in partition.get('INFO', 'peers'), 'the owners and the link')
            line, _ = run_strays(first, 'MOVE')
            check_equal([line['state']] + figures(line, 'present', 'later'), ['done', 0, 0])
            check_equal(strays(first), [])
            check_equal(second.get('DBSIZE'), len(mine))
            first_elements = [value(reply) for reply in second.pipeline([('LRANGE', name, 0, 0) for name in mine])]
            check_equal(first_elements, [[name.encode()] for name in mine])


def send_to_stopped_owner(cluster, count):
    """The first shard sends its strays to the second one, which is stopped. Returns a connection to the first."""
    first = cluster.partition(0).__enter__()
    cluster.backends[1].pause()
    check(not isinstance(first.get('SCREE', 'STRAYS', 'MOVE'), ReplyError), 'MOVE was refused')

    def is_sent():
        line = fields(first.get('SCREE', 'STRAYS', 'STATUS')[0])
        return line['keys'] == str(count) and b'outstanding=0' not in first.get('INFO', 'peers')
    wait_for(is_sent, 'the page')
    time.sleep(0.2)
    return first


def check_deleted_stays_away(cluster, names):
    """The owner has all but the first of these keys, which a client has deleted there."""
    with cluster.partition(0) as first, cluster.partition(1) as second:
        wait_for(lambda: b'peers_links_up:1\r' in first.get('INFO', 'peers'), 'the link')
        wait_for(lambda: not isinstance(first.get('SCREE', 'STRAYS', 'MOVE'), ReplyError), 'MOVE')
        run_over(first)
        check_equal(strays(first), [], 'strays that are left')
        check_equal([second.get('EXISTS', name) for name in names], [0] + [1] * (len(names) - 1), 'keys at the owner')


@suite.case('a key that a client deletes at the owner stays deleted if kill -9 of the sender has lost the reply')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        names = [name for name in KEYS if slot_of(name) > 8191]
        with cluster.partition(0) as first:
            first.pipeline([('SET', name, name) for name in names])
        link(cluster)
        send_to_stopped_owner(cluster, len(names)).close()
        cluster.backends[0].kill9()
        cluster.backends[1].resume()
        with cluster.partition(1) as second:
            wait_for(lambda: second.get('DEL', names[0]) == 1, 'the key at the owner')
        cluster.backends[0].start()
        check_deleted_stays_away(cluster, names)


@suite.case('a key that a client deletes at the owner stays deleted if a slow script runs when the reply comes')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        names = [name for name in KEYS if slot_of(name) > 8191]
        with cluster.partition(0) as first:
            first.pipeline([('SET', name, name) for name in names])
        link(cluster)
        with send_to_stopped_owner(cluster, len(names)) as first, cluster.partition(0) as script, \
                cluster.partition(1) as second:
            check_equal(first.get('CONFIG', 'SET', 'busy-reply-threshold', 20), b'OK')
            script.send('EVAL', 'while true do end', 0)
            wait_for(lambda: 'BUSY' in str(first.get('DBSIZE')), 'the slow script')
            cluster.backends[1].resume()
            wait_for(lambda: second.get('DEL', names[0]) == 1, 'the key at the owner')
            time.sleep(0.2)  # for the reply
            check_equal(first.get('SCRIPT', 'KILL'), b'OK')
            check(isinstance(value(script.read()), ReplyError), 'the script was not killed')
            run_over(first)
        check_deleted_stays_away(cluster, names)


# ---- keys that are too long for one request ----

ELEMENTS = sized(8000, 1000000)
STRING_BYTES = sized(40, 600) << 20  # more than the longest request between shards


def long_value(word, number):
    return '%s %08d %s' % (word, number, '.' * 60)


def fill_long(connection, count=ELEMENTS):
    """Long keys of slots of the second shard: name -> the command that counts its elements."""
    keys = {}
    for kind, counter, words in (('list', 'LLEN', lambda i: ('RPUSH', long_value('element', i))),
                                 ('zset', 'ZCARD', lambda i: ('ZADD', i % 977, long_value('member', i))),
                                 ('set', 'SCARD', lambda i: ('SADD', long_value('member', i))),
                                 ('stream', 'XLEN', lambda i: ('XADD', '%d-1' % (i + 1), 'field', long_value('value', i)))):
        key = next(name for name in ('long %s:%d' % (kind, i) for i in range(1000)) if slot_of(name) > 8191)
        for first in range(0, count, 5000):
            rows = [words(i) for i in range(first, min(first + 5000, count))]
            if kind == 'stream':
                connection.pipeline([(name, key, *rest) for name, *rest in rows])
            else:
                connection.get(rows[0][0], key, *(word for row in rows for word in row[1:]))
        check_equal(connection.get(counter, key), count)
        keys[key] = counter
    keys[fill_hash(connection, count)] = 'HLEN'
    check_equal(connection.get('PEXPIREAT', next(iter(keys)), 4000000000000), 1)
    return keys


def fill_hash(connection, count=8000):
    """A long hash with a field that has a TTL, in a slot of the second shard."""
    key = next(name for name in ('hash:%d' % i for i in range(1000)) if slot_of(name) > 8191)
    for first in range(0, count, 5000):
        connection.get('HSET', key, *(word for i in range(first, min(first + 5000, count)) for word in ('f%d' % i, long_value('value', i))))
    check_equal(connection.get('HLEN', key), count)
    check_equal(connection.get('HPEXPIREAT', key, 4000000000000, 'FIELDS', 1, 'f7'), [1])
    return key


def states(connection, keys):
    return {key: (connection.get('TYPE', key), connection.get('PEXPIRETIME', key), connection.get('DUMP', key)) for key in keys}


@suite.case('long keys of all types, and a long string, move as strays and are at the owner what they were')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        text = cluster.key_on(1, 'text')
        with cluster.partition(0) as first:
            check_equal(first.get('SET', text, b'0123456789' * (STRING_BYTES // 10)), b'OK')
            keys = fill_long(first)
            before = states(first, keys)
        link(cluster)
        with cluster.partition(0) as first, cluster.partition(1) as second:
            line, named = run_strays(first, 'MOVE')
            check_equal([line['state'], named] + figures(line, 'moved', 'later'), ['done', [], len(keys) + 1, 0])
            check_equal(strays(first), [])
            check_equal(second.get('DBSIZE'), len(keys) + 1)
        cluster.backends[1].kill9()
        cluster.backends[1].start()
        with cluster.partition(1) as second:
            wait_for(lambda: not isinstance(second.get('STRLEN', text), ReplyError), 'the owner to serve')
            check_equal(states(second, keys), before)
            check_equal([second.get('HPEXPIRETIME', list(keys)[-1], 'FIELDS', 2, 'f7', 'f8')], [[4000000000000, -1]])
            check_equal(second.get('STRLEN', text), STRING_BYTES // 10 * 10)
            check_equal(second.get('GETRANGE', text, -5, -1), b'56789')


class Paced:
    """A cluster whose first shard is in the middle of moving a long hash."""

    def __init__(self):
        self.cluster = Cluster(backends=2, partitions=1, proxies=0)

    def __enter__(self):
        cluster = self.cluster.__enter__()
        with cluster.partition(0) as first:
            self.key = fill_hash(first)
            self.before = states(first, [self.key])
        link(cluster)
        return self

    def __exit__(self, *error):
        return self.cluster.__exit__(*error)

    def begin(self, *words):
        """Returns when the owner has the first part. Further parts would take minutes."""
        with self.cluster.partition(0) as first:
            check_equal(first.get('CONFIG', 'SET', 'migration-rate', '1kb'), b'OK')
            wait_for(lambda: not isinstance(first.get('SCREE', 'STRAYS', *words), ReplyError), 'MOVE')
            wait_for(lambda: fields(first.get('SCREE', 'STRAYS', 'STATUS')[0])['bytes'] != '0', 'the first part to be there')

    def go_on(self):
        """Lets the move end. Returns its figures, and lines about keys."""
        with self.cluster.partition(0) as first:
            check_equal(first.get('CONFIG', 'SET', 'migration-rate', '0'), b'OK')
            wait_for(lambda: fields(first.get('SCREE', 'STRAYS', 'STATUS')[0])['state'] != 'moving', 'the end of the move')
            lines = first.get('SCREE', 'STRAYS', 'STATUS')
            return fields(lines[0]), lines[1:]

    def check_hidden(self, second):
        check_equal([second.get('EXISTS', self.key), second.get('DBSIZE'), second.get('KEYS', '*')], [0, 0, []], 'in the middle')

    def check_moved(self):
        with self.cluster.partition(0) as first, self.cluster.partition(1) as second:
            wait_for(lambda: not isinstance(second.get('TYPE', self.key), ReplyError), 'the owner to serve')
            check_equal(states(second, [self.key]), self.before)
            check_equal([second.get('DBSIZE'), strays(first)], [1, []])


def compact(connection):
    """Compacts everything: rows of no key are dropped."""
    def state():
        reply = connection.get('SCREE', 'COMPACT', 'STATUS')
        return dict(zip(reply[::2], reply[1::2]))[b'state']
    check_equal(connection.get('SCREE', 'COMPACT', 'START'), b'OK')
    wait_for(lambda: state() == b'idle', 'the end of the compaction')


@suite.case('a long key of which the owner has some rows is not seen; compaction keeps these rows; then it is whole')
def _(run):
    with Paced() as paced:
        paced.begin('MOVE')
        with paced.cluster.partition(1) as second:
            paced.check_hidden(second)
            compact(second)
            paced.check_hidden(second)
        line, _ = paced.go_on()
        check_equal([line['state']] + figures(line, 'moved', 'later'), ['done', 1, 0])
        paced.check_moved()
        with paced.cluster.partition(1) as second:
            compact(second)
        paced.check_moved()


@suite.case('a long key moves again from its beginning after kill -9 of either side, and is never seen in part')
def _(run):
    with Paced() as paced:
        cluster = paced.cluster
        for shard in (0, 1):
            paced.begin('MOVE')
            cluster.backends[shard].kill9()
            cluster.backends[shard].start()
            with cluster.partition(1) as second:
                wait_for(lambda: not isinstance(second.get('EXISTS', paced.key), ReplyError), 'the owner to serve')
                paced.check_hidden(second)
            if shard == 0:
                with cluster.partition(0) as first:
                    wait_for(lambda: strays(first) != [], 'the strays')
        line, _ = paced.go_on()
        check_equal([line['state']] + figures(line, 'moved', 'later'), ['done', 1, 0])
        paced.check_moved()


@suite.case('a flush at the owner in the middle of a long key does not take rows from it')
def _(run):
    for words in (['FLUSHALL'], ['FLUSHDB']):
        with Paced() as paced:
            paced.begin('MOVE')
            with paced.cluster.partition(1) as second:
                check_equal(second.get(*words), b'OK')
            line, _ = paced.go_on()
            check_equal([line['state']] + figures(line, 'moved', 'later'), ['done', 1, 0])
            paced.check_moved()


@suite.case('a key that a client makes while a long stray with its name comes in is kept, or replaced with REPLACE')
def _(run):
    for words, kept in ((['MOVE'], True), (['MOVE', 'REPLACE'], False)):
        with Paced() as paced:
            paced.begin(*words)
            with paced.cluster.partition(1) as second:
                check_equal(second.get('SET', paced.key, 'new'), b'OK')
            line, named = paced.go_on()
            check_equal(figures(line, 'moved', 'present'), [0, 1] if kept else [1, 0])
            check_equal([fields(name)['key'] for name in named], [paced.key] if kept else [])
            with paced.cluster.partition(1) as second:
                if kept:
                    check_equal(second.get('GET', paced.key), b'new')
            if not kept:
                paced.check_moved()


@suite.case('a long key that the owner has already is recognised, also by a single other value')
def _(run):
    with Paced() as paced:
        with paced.cluster.partition(1) as second:
            check_equal(fill_hash(second), paced.key)
            check_equal(second.get('HSET', paced.key, 'f7999', long_value('other', 7999)), 0)
        with paced.cluster.partition(0) as first:
            line, named = run_strays(first, 'MOVE')
            check_equal([fields(name)['key'] for name in named] + figures(line, 'moved', 'present'), [paced.key, 0, 1])
        with paced.cluster.partition(1) as second:
            check_equal(second.get('HSET', paced.key, 'f7999', long_value('value', 7999)), 0)
        with paced.cluster.partition(0) as first:
            line, _ = run_strays(first, 'MOVE')
            check_equal(figures(line, 'moved', 'present'), [1, 0])
        paced.check_moved()


suite.main()
