#!/usr/bin/python3
"""SCAN through proxies goes through the slots in order: it finds every key that is there all the time, wherever slots are."""

from support.cluster import Cluster, Oracle, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)
KEYS = {b'key:%d' % i for i in range(2000)}
# three shards with several runs of slots each; b and c lie between those of a
SCATTERED = ['0-999 6000-7999 16000-16383', '1000-1999 4000-5999 12000-15999', '2000-3999 8000-11999']
ORDERED = 1 << 53


def fill(client, keys=KEYS):
    check_equal(client.get('MSET', *[word for key in keys for word in (key, key)]), b'OK')


def scan_page(client, cursor, *options):
    """(the next cursor, the keys) of a page."""
    reply = client.get('SCAN', cursor, *options)
    check(isinstance(reply, list), 'SCAN %s: %r' % (cursor, reply))
    return int(reply[0]), reply[1]


def slot_of_cursor(cursor):
    return cursor >> 39 & 16383


def is_at_epoch(client, epoch):
    return b'map_epoch:%d\r' % epoch in client.get('INFO', 'shards')


def change_map(cluster, slots):
    cluster.write_shards(slots)
    for index in range(len(cluster.proxies)):
        with cluster.connect(index) as client:
            wait_for(lambda: client.get('SCREE', 'RELOAD') is not None and is_at_epoch(client, cluster.epoch), 'the new map')


@suite.case('every key is found once, in the order of slots, with any COUNT, at any proxy')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2, linked=True) as cluster:
        change_map(cluster, SCATTERED)
        clients = [cluster.connect(0), cluster.connect(1)]
        fill(clients[0])
        for count in (1, 10, 333, 1999, 2000, 10 ** 12):
            cursor, pages, seen = 0, 0, []
            while pages == 0 or cursor:
                cursor, keys = scan_page(clients[pages % 2], cursor, 'COUNT', count)
                pages, seen = pages + 1, seen + keys
                check(cursor == 0 or cursor > ORDERED, 'cursor %d' % cursor)
                check_equal(float(cursor), cursor, 'the cursor as a double')
            slots = [slot_of(key) for key in seen]
            check_equal(sorted(seen), sorted(KEYS), 'COUNT %d' % count)
            check_equal(slots, sorted(slots), 'the order of slots')
            check(count < len(KEYS) or pages == 1, 'COUNT %d: %d pages' % (count, pages))
        cursor, keys = scan_page(clients[0], 0, 'MATCH', '*:77', 'COUNT', len(KEYS), 'TYPE', 'string')
        check_equal((cursor, keys), (0, [b'key:77']), 'MATCH and TYPE')
        check_equal(scan_page(clients[0], 0, 'TYPE', 'hash', 'COUNT', len(KEYS)), (0, []), 'TYPE')
        for words in (['0', 'COUNT', '0'], ['0', 'COUNT', 'x'], ['x'], ['0', 'NONSENSE'], ['0', 'COUNT']):
            check(isinstance(clients[0].get('SCAN', *words), ReplyError), 'SCAN %r' % words)
        check_equal(clients[0].get('MULTI'), b'OK')
        check_equal(clients[0].get('SCAN', '0', 'COUNT', len(KEYS)), b'QUEUED')
        cursor, keys = clients[0].get('EXEC')[0]
        check_equal((cursor, sorted(keys)), (b'0', sorted(KEYS)), 'in a transaction')


@suite.case('an empty database on many shards is one page')
def _(run):
    with Cluster(backends=1, partitions=16) as cluster, cluster.connect() as client:
        check_equal(scan_page(client, 0), (0, []))
        last = next('k%d' % i for i in range(10 ** 6) if slot_of('k%d' % i) > 16000)
        check_equal(client.get('SET', last, 1), b'OK')
        check_equal(scan_page(client, 0), (0, [last.encode()]))


def move_slots(cluster, source, target, first, last):
    """Moves the keys of these slots by hand, as backends without a shard map need it."""
    with cluster.partition(source) as old, cluster.partition(target) as new:
        for key in [key for key in old.get('KEYS', '*') if first <= slot_of(key) <= last]:
            check_equal(new.get('RESTORE', key, 0, old.get('DUMP', key)), b'OK')
            check_equal(old.get('DEL', key), 1)


@suite.case('slots that move to a shard that was visited, or away from the next one, lose no key')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2) as cluster:
        with cluster.connect() as client:
            fill(client)
        cursor, seen, pages = 0, set(), 0
        while pages == 0 or cursor:
            with cluster.connect(pages % 2) as client:
                cursor, keys = scan_page(client, cursor, 'COUNT', 50)
            seen.update(keys)
            pages += 1
            if pages == 15:  # in the slots of the first shard or the second: the third gives the first its last slots
                move_slots(cluster, 2, 0, 14000, 16383)
                change_map(cluster, ['0-5460 14000-16383', '5461-10921', '10922-13999'])
            if pages == 25:  # and the first gives the third slots of the begin
                move_slots(cluster, 0, 2, 0, 2000)
                change_map(cluster, ['2001-5460 14000-16383', '5461-10921', '0-2000 10922-13999'])
        check(pages > 30, '%d pages' % pages)
        check_equal(seen, KEYS, 'keys are missing')


@suite.case('a cursor continues after a restart of all programs')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        change_map(cluster, SCATTERED)
        with cluster.connect() as client:
            fill(client)
            cursor, seen = scan_page(client, 0, 'COUNT', 700)
        for process in cluster.backends + cluster.proxies:
            process.kill9()
            process.start()
        with cluster.connect() as client:
            wait_for(lambda: isinstance(client.get('DBSIZE'), int), 'the shards')
            while cursor:
                cursor, keys = scan_page(client, cursor, 'COUNT', 700)
                seen += keys
        check_equal(set(seen), KEYS)


@suite.case('cursors of older versions continue where the order is the same, and else begin anew')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        fill(client)
        old = 9000 << 39
        keys = scan_page(client, old, 'COUNT', 20)[1]
        check_equal(min(map(slot_of, keys)), min(slot_of(key) for key in KEYS if slot_of(key) >= 9000), 'the same order')
        change_map(cluster, SCATTERED)
        cursor, keys = scan_page(client, old, 'COUNT', 20)
        check_equal(min(map(slot_of, keys)), min(map(slot_of, KEYS)), 'another order')
        check(cursor > ORDERED, 'cursor %d' % cursor)
        keys = scan_page(client, old | ORDERED, 'COUNT', 20)[1]
        check(min(map(slot_of, keys)) >= 9000, 'a marked cursor')


@suite.case('a shard scans no slots of others, and says where it has stopped')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        fill(client)
        with cluster.partition(0) as shard:
            check(isinstance(shard.get('SCREE', 'UNTIL', 10, 'SCAN', 0), ReplyError), 'without the secret')
            check_equal(shard.get('SCREE', 'AUTH', cluster.secret), b'OK')
            cursor, keys, visited = shard.get('SCREE', 'UNTIL', 16383, 'SCAN', 0, 'COUNT', 10 ** 6, 'MATCH', 'key:1*')
            mine = {key for key in KEYS if slot_of(key) < 8192}
            check_equal(int(cursor), 8192 << 39, 'the cursor')
            check_equal(set(keys), {key for key in mine if key.startswith(b'key:1')})
            check_equal(visited, len(mine))
            check_equal(shard.get('SCREE', 'UNTIL', 8191, 'SCAN', 0, 'COUNT', 10 ** 6)[0], b'0')
            few = shard.get('SCREE', 'UNTIL', 100, 'SCAN', 0, 'COUNT', 10 ** 6)
            check_equal((few[0], set(few[1])), (b'0', {key for key in KEYS if slot_of(key) <= 100}))
            check(str(shard.get('SCREE', 'UNTIL', 9000, 'SCAN', 8192 << 39)).startswith('TRYAGAIN'), 'a foreign slot')
            for slot in (-1, 16384, 'x'):
                check(isinstance(shard.get('SCREE', 'UNTIL', slot, 'SCAN', 0), ReplyError), 'slot %s' % slot)


@suite.case('commands for all keys need no shard without slots; an error names the shard with keys that is not reachable')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True, slots=['0-8191', '8192-16383', '']) as cluster:
        with cluster.connect() as client:
            fill(client)
            cluster.backends[2].stop()
            for _ in range(3):
                check_equal(client.get('DBSIZE'), len(KEYS))
                reply = client.get('KEYS', '*')
                check(isinstance(reply, list) and set(reply) == KEYS, 'KEYS: %r' % reply)
                check(client.get('RANDOMKEY') in KEYS, 'RANDOMKEY')
            replies = client.pipeline([['FLUSHALL'], ['SET', 'k', 1], ['DBSIZE'], ['MULTI'], ['DBSIZE'], ['KEYS', '*'], ['EXEC'],
                                       ['FLUSHDB', 'ASYNC'], ['RANDOMKEY'], ['SET', 'k', 2], ['RANDOMKEY'], ['GET', 'k']])
            check_equal([value(reply) for reply in replies], [b'OK', b'OK', 1, b'OK', b'QUEUED', b'QUEUED', [1, [b'k']], b'OK', None,
                                                              b'OK', b'k', b'2'])
            cluster.backends[1].stop()
            for words in (['DBSIZE'], ['KEYS', '*'], ['RANDOMKEY'], ['FLUSHALL']):
                wait_for(lambda: "SHARDLOST shard 'b1p0'" in str(client.get(*words)), '%s to name the shard' % words[0])
            for backend in cluster.backends[1:]:
                backend.start()
            wait_for(lambda: isinstance(client.get('DBSIZE'), int), 'the shards')


# (command, what it fills): whole in one page in redis-server, or in pages
SHAPES = [('hash', 'small', 400, 60, 60), ('hash', 'long values', 400, 60, 100), ('hash', 'one long value', 30, 10, 10), ('hash', 'many', 513, 5, 5),
          ('hash', 'most', 512, 5, 5), ('set', 'integers', 512, 0, 0), ('set', 'many integers', 513, 0, 0), ('set', 'texts', 100, 10, 0),
          ('set', 'integers and a text', 100, 0, 0), ('zset', 'small', 128, 60, 0), ('zset', 'many', 129, 5, 0), ('zset', 'long members', 100, 65, 0)]


def shape_commands(kind, name, count, name_bytes, value_bytes):
    key = '%s %s' % (kind, name)
    names = [str(i) if not name_bytes else ('n%d' % i).ljust(name_bytes, 'x') for i in range(count)]
    if name == 'integers and a text':
        names[-1] = 'text'
    values = ['v' * value_bytes] * count
    if name == 'one long value':
        values[20] = 'v' * 65
    for i in range(count):
        yield {'hash': ['HSET', key, names[i], values[i]], 'set': ['SADD', key, names[i]], 'zset': ['ZADD', key, i, names[i]]}[kind]


@suite.case('HSCAN, SSCAN and ZSCAN reply whole what redis-server stores in one piece, and at most COUNT elements of all others')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, Oracle() as oracle, cluster.connect() as ours, Connection(oracle.address) as theirs:
        for shape in SHAPES:
            kind, name = shape[:2]
            key, command = '%s %s' % (kind, name), {'hash': 'HSCAN', 'set': 'SSCAN', 'zset': 'ZSCAN'}[kind]
            width = 1 if kind == 'set' else 2
            for client in (ours, theirs):
                client.pipeline(list(shape_commands(*shape)))
            is_whole = theirs.get(command, key, 0, 'COUNT', 5)[0] == b'0'
            cursor, elements, pages = '0', [], 0
            while cursor or not pages:
                cursor, page = ours.get(command, key, cursor, 'COUNT', 5)
                cursor, pages = int(cursor), pages + 1
                elements += page[::width]
                check(is_whole or len(page) <= 5 * width, '%s: %d elements in a page' % (key, len(page) // width))
            check_equal(pages == 1, is_whole, '%s: %d pages, whole in Redis: %s' % (key, pages, is_whole))
            check_equal(len(elements), shape[2], key)
            check_equal(len(set(elements)), shape[2], key)
            check_equal(ours.get(command, key, 0, 'COUNT', 5, 'MATCH', 'no such*')[1], [])


@suite.case('elements come in the order of their bytes, in small collections too, where redis-server keeps the order of insertion')
def _(run):
    names = [b'pear', b'apple', b'fig', b'cherry']
    ordered = sorted(names)
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, Oracle() as oracle, cluster.connect() as ours, Connection(oracle.address) as theirs:
        for client in (ours, theirs):
            for score, name in enumerate(names):
                client.pipeline([('HSET', 'hash', name, name), ('SADD', 'set', name), ('ZADD', 'zset', score, name)])
        check_equal(theirs.get('HKEYS', 'hash'), names, 'redis-server')
        check_equal(theirs.get('ZSCAN', 'zset', 0)[1][::2], names, 'redis-server')
        for command in ('HKEYS', 'HVALS'):
            check_equal(ours.get(command, 'hash'), ordered, command)
        check_equal(ours.get('HGETALL', 'hash')[::2], ordered, 'HGETALL')
        check_equal(ours.get('HSCAN', 'hash', 0)[1][::2], ordered, 'HSCAN')
        check_equal(ours.get('SMEMBERS', 'set'), ordered, 'SMEMBERS')
        check_equal(ours.get('SSCAN', 'set', 0)[1], ordered, 'SSCAN')
        check_equal(ours.get('ZSCAN', 'zset', 0)[1][::2], ordered, 'ZSCAN')
        check_equal(ours.get('ZRANGE', 'zset', 0, -1), names, 'ZRANGE')


suite.main()
