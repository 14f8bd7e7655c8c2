#!/usr/bin/python3
"""Rows that are only on the disk: a command that waits for them delays no other client, and runs as if it had come
later.
"""

import signal
import time

from support.cluster import Cluster, evict_all, metric
from support.disk import FaultyDisk
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Closed, ReplyError, value

KEYS = 6000
PAD = 'x' * 1000

suite = Suite(__doc__)

HELD = 600  # seconds that a read takes, unless the test ends it before


class Uncached:
    """A backend with little memory on a slow disk, and far more data than memory."""

    def __init__(self, keys=KEYS, **store):
        self.keys = keys
        self.store = dict({'block-cache': '1mb', 'row-cache': '0', 'rank-cache': '0', 'memtable': '256kb',
                           'memtables': 2, 'write-buffer': '4kb', 'compression': 'none', 'reader-threads': 32}, **store)

    def __enter__(self):
        self.disk = FaultyDisk()
        self.cluster = Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': self.store},
                               disk=self.disk)
        self.cluster.__enter__()
        with self.client() as client:
            for start in range(0, self.keys, 500):
                client.pipeline([['SET', key(i), text(i)] for i in range(start, min(start + 500, self.keys))])
            # the check for rank trees of older programs reads on the partition's thread
            wait_for(lambda: b'rank_trees_check:done' in client.get('INFO', 'persistence'), 'the check of a new store to end')
            evict_all(client)
        return self

    def client(self):
        return self.cluster.partition(0)

    def info(self, client, name):
        for line in client.get('INFO', 'stats').decode().split():
            if line.startswith(name + ':'):
                return int(line.split(':')[1])
        return None

    def waits(self, client, function):
        """Returns the function's result; checks that its commands waited for rows, and that no read delayed the
        partition."""
        before = [self.info(client, name) for name in ('suspended_commands', 'uncached_blocking_reads')]
        result = function()
        check(self.info(client, "suspended_commands") > before[0], "nothing was uncached: %s" % (result,))
        check_equal(self.info(client, 'uncached_blocking_reads'), before[1], 'reads for which all stood still')
        return result

    def __exit__(self, *error):
        self.disk.delay_reads(0)
        self.cluster.__exit__(*error)
        self.disk.__exit__()


def key(i):
    return 'key:%06d' % i


def text(i):
    return '%06d%s' % (i, PAD)


@suite.case('while a GET waits for the disk other connections are served, and requests of its own connection stay in order')
def _(run):
    with Uncached() as slow, slow.client() as one, slow.client() as other:
        other.call('SET', 'hot', 'value')
        slow.disk.delay_reads(HELD)
        one.send_many([['GET', key(10)], ['PING'], ['GET', key(2000)], ['GET', 'hot'], ['ECHO', 'end']])
        wait_for(lambda: slow.disk.get('reads_now') > 0, 'a slow read')
        check_equal(other.pipeline([['GET', 'hot'], ['SET', 'hot', 'new'], ['GET', 'hot']]),
                    [('$', b'value'), ('+', b'OK'), ('$', b'new')])
        check(slow.disk.get('reads_now') > 0, 'the others waited for the disk')
        check_equal(slow.info(other, 'suspended_clients'), 1)
        slow.disk.delay_reads(0)
        check_equal([one.read() for _ in range(5)], [('$', text(10).encode()), ('+', b'PONG'),
                                                     ('$', text(2000).encode()), ('$', b'new'), ('$', b'end')])
        check_equal(slow.info(other, 'suspended_clients'), 0)
        check(slow.info(other, 'suspended_commands') > 0, 'no command waited')
        check_equal(slow.info(other, 'uncached_blocking_reads'), 0)


@suite.case('the reads of a pipeline of 16 GETs, and of an MGET of 100 keys, are made in parallel')
def _(run):
    with Uncached() as slow, slow.client() as client:
        def hold_reads(commands, count):
            """Sends the commands; lets their reads continue as soon as `count` are in progress."""
            slow.disk.delay_reads(HELD)
            client.send_many(commands)
            wait_for(lambda: slow.disk.get('reads_now') >= count, '%d reads at a time' % count)
            slow.disk.delay_reads(0.001)
        wanted = [i * 97 for i in range(16)]
        hold_reads([['GET', key(i)] for i in wanted], 12)
        check_equal([client.read() for _ in wanted], [('$', text(i).encode()) for i in wanted])
        wanted = [3000 + i * 29 for i in range(100)]
        hold_reads([['MGET'] + [key(i) for i in wanted]], 24)
        check_equal(value(client.read()), [text(i).encode() for i in wanted])
        check(slow.disk.get('reads') >= 60, 'they were not uncached: %d reads' % slow.disk.get('reads'))
        check_equal(slow.info(client, 'uncached_blocking_reads'), 0)


@suite.case('a command that waited is counted once, and a write is executed once')
def _(run):
    with Uncached() as slow, slow.client() as client, slow.client() as other:
        client.call('CONFIG', 'RESETSTAT')
        slow.disk.delay_reads(0.005)
        hits = 0
        for i in range(0, 40):
            check_equal(client.call('APPEND', key(i * 50), 'more'), (':', b'%d' % (len(text(0)) + 4)))
            check_equal(client.get('GET', key(i * 50 + 20)), text(i * 50 + 20).encode())
            check_equal(client.call('LPUSH', key(i * 50 + 30), 'x')[0], '-')
            hits += 1
        slow.disk.delay_reads(0)
        check(slow.info(other, 'suspended_commands') > 20, 'they were not uncached')
        check_equal(slow.info(other, 'keyspace_hits'), hits)
        stats = client.get('INFO', 'commandstats').decode()
        for name, failed in (('append', 0), ('get', 0), ('lpush', 40)):
            line = [line for line in stats.split() if line.startswith('cmdstat_%s:' % name)][0]
            check('calls=40,' in line and 'failed_calls=%d' % failed in line, line)
        check('errorstat_WRONGTYPE:count=40' in client.get('INFO', 'errorstats').decode() and
              'errorstat_ERR' not in client.get('INFO', 'errorstats').decode(), 'errors are counted that no client saw')


def rewrite(random, client, model):
    """Some random commands, most of which replace a key without reading its row. `model`: type and TTL of each key."""
    commands = []
    for _ in range(200):
        name, other = key(random.randrange(KEYS)), key(random.randrange(KEYS))
        kind, ttl = model.get(name, (None, None))
        choice = random.randrange(12)
        if choice < 4:
            commands.append(['SET', name, 'new'])
            model[name] = 'string', None
        elif choice == 4:
            commands.append(['SETEX', name, '10000', 'new'])
            model[name] = 'string', 10000
        elif choice == 5:
            commands.append(['SET', name, 'new', 'KEEPTTL'])
            model[name] = 'string', ttl
        elif choice == 6:
            commands.append(['SETNX' if random.random() < 0.5 else 'MSETNX', name, 'new'])
            model.setdefault(name, ('string', None))
        elif choice == 7:
            commands.append(['MSET', name, 'new', other, 'new'])
            model[name] = model[other] = 'string', None
        elif choice == 8:
            commands.append(['SET', name, 'new', 'XX', 'EX', '10000'])
            if kind:
                model[name] = 'string', 10000
        elif choice == 9:
            commands.append(['DEL', name])
            model.pop(name, None)
        elif choice == 10:
            commands.append(['EXPIRE', name, '10000'])
            if kind:
                model[name] = kind, 10000
        elif kind in (None, 'list'):
            commands.append(['RPUSH', name, 'element'])
            model[name] = 'list', ttl
    client.pipeline(commands)


@suite.case('SET of a key on the disk reads no row, and counts and TTLs stay exact')
def _(run):
    random = run.rng
    with Uncached() as slow, slow.client() as client:
        model = {key(i): ('string', None) for i in range(KEYS)}
        client.pipeline([['SET', key(i), text(i)] for i in range(KEYS)])
        wait_for(lambda: b'plain_keys:0' not in client.get('INFO', 'rocksdb'), 'a write buffer to be applied')
        before = slow.info(client, 'uncached_fetches')
        client.pipeline([['SET', key(i), text(i)] for i in range(KEYS)])
        fetches = slow.info(client, 'uncached_fetches') - before
        check(fetches < KEYS // 4, '%d rows were read' % fetches)
        run.note('%d SETs, %d rows read' % (KEYS, fetches))
        for _ in range(30):
            rewrite(random, client, model)
            if random.random() < 0.2:
                evict_all(client)
            check_equal(client.get('DBSIZE'), len(model))
            expires = sum(ttl is not None for _, ttl in model.values())
            check(b'keys=%d,expires=%d,' % (len(model), expires) in client.get('INFO', 'keyspace'), 'wrong counts')
        names = [key(i) for i in range(KEYS)]
        types = client.pipeline([['TYPE', name] for name in names])
        check_equal([kind.decode() for _, kind in types], [model.get(name, ('none', 0))[0] for name in names])
        ttls = [value(reply) for reply in client.pipeline([['TTL', name] for name in names])]
        check_equal([ttl > 0 for ttl in ttls], [model.get(name, ('none', None))[1] is not None for name in names])


@suite.case('transactions, scripts and WATCH give the same results on uncached keys')
def _(run):
    with Uncached() as slow, slow.client() as client, slow.client() as other:
        slow.disk.delay_reads(0.005)
        for i in range(0, 20):
            a, b, c = i * 100, i * 100 + 33, i * 100 + 66
            client.call('WATCH', key(a))
            client.pipeline([['MULTI'], ['GET', key(a)], ['SET', key(b), 'b'], ['APPEND', key(c), 'c'], ['INCR', key(a)]])
            replies = client.call('EXEC')[1]
            check_equal(replies[:3], [('$', text(a).encode()), ('+', b'OK'), (':', b'%d' % (len(text(c)) + 1))])
            check_equal(replies[3][0], '-')
            client.call('WATCH', key(a + 10))
            other.call('APPEND', key(a + 10), 'changed')
            client.pipeline([['MULTI'], ['GET', key(a + 50)]])
            check_equal(client.get('EXEC'), None)
            check_equal(client.get('EVAL', "redis.call('SET', KEYS[1], 'x'); return redis.call('GET', KEYS[2])", '2',
                                   key(a + 12), key(a + 70)), text(a + 70).encode())
            check_equal(client.get('EVAL', "return redis.call('GET', 'key:' .. ARGV[1])", '0', '%06d' % (a + 71)),
                        text(a + 71).encode())
        slow.disk.delay_reads(0)
        check(slow.info(other, 'uncached_fetches') > 20, 'nothing was uncached')


@suite.case('iteration, ranks and changes of collections are the same on disk as in memory')
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other:
        members = ['m%05d' % i for i in range(3000)]
        for start in range(0, 3000, 250):
            part = members[start:start + 250]
            client.call('ZADD', 'zset', *sum(([str(i), m] for i, m in enumerate(part, start)), []))
            client.call('HSET', 'hash', *sum(([m, m + PAD[:300]] for m in part), []))
            client.call('RPUSH', 'list', *[m + PAD[:300] for m in part])
            client.call('SADD', 'set', *part)
        for i in range(3):  # moves the last writes out of the memtables
            client.pipeline([['SET', key(i), text(i)] for i in range(1000)])
        slow.disk.delay_reads(0.005)
        for start in range(0, 3000, 300):
            check_equal(client.get('ZRANGE', 'zset', str(start), str(start + 9)),
                        [m.encode() for m in members[start:start + 10]])
            check_equal(client.get('ZREVRANGE', 'zset', *[str(2999 + start // 300 - start - i) for i in (9, 0)]),
                        [m.encode() for m in reversed(members[start:start + 10])])
            check_equal(client.get('ZRANK', 'zset', members[start]), start)
            check_equal(client.get('HMGET', 'hash', members[start + 5], 'none'),
                        [(members[start + 5] + PAD[:300]).encode(), None])
            check_equal(client.get('LINDEX', 'list', str(start)), (members[start] + PAD[:300]).encode())
            check_equal(client.get('LRANGE', 'list', str(start), str(start + 1)),
                        [(m + PAD[:300]).encode() for m in members[start:start + 2]])
            check_equal(client.get('ZADD', 'zset', str(start), members[start], '10000', 'new%d' % start), 1)
            check_equal(client.get('SMOVE', 'set', 'other', members[start]), 1)
        check_equal(len(client.get('HGETALL', 'hash')), 6000)
        check_equal(len(client.get('SMEMBERS', 'set')), 2990)
        check_equal(len(client.get('KEYS', '*')), 1005)
        check_equal(client.get('SUNIONSTORE', 'union', 'set', 'other'), 3000)
        check_equal(client.get('ZCARD', 'zset'), 3010)
        check_equal(sorted(client.get('SCAN', '0', 'COUNT', '2000')[1])[:2], [b'hash', key(0).encode()])
        slow.disk.delay_reads(0)
        check(slow.info(other, 'suspended_commands') > 20, 'nothing was uncached')
        run.note('%d waits, %d fetches, %d blocking reads' % tuple(
            slow.info(other, name) for name in ('suspended_commands', 'uncached_fetches', 'uncached_blocking_reads')))


@suite.case('rows deleted just before are skipped without reading them: FLUSHDB and LTRIM, then iterations')
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client:
        for _ in range(2):
            client.pipeline([['SET', key(i), text(i)] for i in range(100)])
            client.call('ZADD', 'zset', *sum(([str(i), 'm%d' % i] for i in range(1000)), []))
            evict_all(client)
            check_equal(client.pipeline([['FLUSHDB'], ['KEYS', '*'], ['RANDOMKEY'], ['SCAN', '0'], ['ZRANGE', 'zset', '0', '-1'],
                                         ['DBSIZE']]),
                        [('+', b'OK'), ('*', []), ('$', None), ('*', [('$', b'0'), ('*', [])]), ('*', []), (':', b'0')])
            client.call('RPUSH', 'list', *['m%d' % i for i in range(34000)])
            evict_all(client)
            check_equal(client.pipeline([['LTRIM', 'list', '-2', '-1'], ['LRANGE', 'list', '0', '-1'], ['LPUSH', 'list', 'a'],
                                         ['LPOS', 'list', 'm33999'], ['LTRIM', 'list', '1', '0'], ['EXISTS', 'list']]),
                        [('+', b'OK'), ('*', [('$', b'm33998'), ('$', b'm33999')]), (':', b'3'), (':', b'2'), ('+', b'OK'),
                         (':', b'0')])


@suite.case('EXEC waits for all its rows without delaying others, and is executed atomically and once')
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other:
        for name in ('a', 'b', 'c'):
            client.call('ZADD', 'zset:' + name, *sum(([str(i), 'm%d' % i] for i in range(500)), []))
            client.call('HSET', 'hash:' + name, *sum((['f%d' % i, PAD] for i in range(100)), []))
        client.call('CONFIG', 'RESETSTAT')
        for i in range(10):
            evict_all(client)
            blocking = slow.info(client, 'uncached_blocking_reads')
            client.pipeline([['WATCH', key(i), 'zset:a'], ['MULTI'], ['GET', key(i)], ['SET', key(i), 'new'], ['APPEND', key(i + 100), 'x'],
                             ['ZADD', 'zset:a', '1.5', 'new%d' % i], ['ZRANK', 'zset:a', 'm400'], ['HINCRBY', 'hash:b', 'n', '2'],
                             ['LPUSH', 'hash:b', 'x'], ['HGET', 'hash:c', 'f50'], ['ZRANGE', 'zset:c', '250', '251'],
                             ['RENAME', 'hash:a', 'hash:d'], ['RENAME', 'hash:d', 'hash:a'], ['DEL', key(i + 200)]])
            slow.disk.delay_reads(HELD if i == 0 else 0.005)
            client.send('EXEC')
            if i == 0:
                wait_for(lambda: slow.info(other, 'suspended_clients') == 1, 'EXEC to wait for rows')
                check_equal(other.get('GET', key(i)), text(i).encode())
                slow.disk.delay_reads(0.005)
            replies = client.read()[1]
            slow.disk.delay_reads(0)
            check_equal(replies[:2], [('$', text(i).encode()), ('+', b'OK')])
            check_equal([reply[1] for reply in replies[2:6]], [len(text(0)) + 1, 1, 401 + i, 2 * i + 2] if isinstance(replies[2][1], int)
                        else [b'%d' % n for n in (len(text(0)) + 1, 1, 401 + i, 2 * i + 2)])
            check_equal(replies[6][0], '-')
            check_equal(replies[7:], [('$', PAD.encode()), ('*', [('$', b'm250'), ('$', b'm251')]), ('+', b'OK'), ('+', b'OK'),
                                      (':', b'1')])
            check_equal(slow.info(client, 'uncached_blocking_reads') - blocking, 0, 'reads for which all stood still')
            check_equal(other.get('GET', key(i)), b'new')
        stats = client.get('INFO', 'commandstats').decode()
        for name, failed in (('exec', 0), ('zadd', 0), ('hincrby', 0), ('append', 0), ('lpush', 10)):
            line = [line for line in stats.split() if line.startswith('cmdstat_%s:' % name)][0]
            check('calls=10,' in line and 'failed_calls=%d' % failed in line, line)
        check('errorstat_WRONGTYPE:count=10' in client.get('INFO', 'errorstats').decode(), 'errors of attempts are counted')
        check(slow.info(other, 'suspended_commands') > 10, 'nothing was uncached')


# Each reads the key in ARGV, which it does not declare.
READERS = [
    "return redis.call('GET', ARGV[1])",
    "return redis.pcall('GET', ARGV[1])",
    "local good, value = pcall(redis.call, 'GET', ARGV[1]) return {tostring(good), value}",
    "local good, value = pcall(function() return pcall(redis.pcall, 'GET', ARGV[1]) end) return {tostring(good), tostring(value)}",
    "local value = 'none' for i = 1, 3 do pcall(function() value = redis.call('GET', ARGV[1]) end) end return value",
    "local good, value = xpcall(function() return redis.call('GET', ARGV[1]) end, function() return redis.call('GET', 'hot') end)"
    " return {tostring(good), value}",
    "xpcall(function() redis.call('GET', ARGV[1]) end, function() while true do end end) return redis.call('STRLEN', ARGV[1])",
    "local c = coroutine.wrap(function() coroutine.yield(redis.call('GET', ARGV[1])) end) return c()",
    "local c = coroutine.create(function(name) coroutine.yield('first') return redis.call('GET', name) end)"
    " local _, one = coroutine.resume(c, ARGV[1]) local good, two = coroutine.resume(c) return {one, tostring(good), two, coroutine.status(c)}",
    "local function inner() local c = coroutine.create(function() return pcall(redis.call, 'GET', ARGV[1]) end)"
    " local _, good, value = coroutine.resume(c) return value end"
    " local c = coroutine.create(function() return select(2, pcall(inner)) end) return select(2, coroutine.resume(c))",
    "local t = {'b', 'a'} table.sort(t, function(x, y) redis.call('GET', ARGV[1]) return x < y end) return t",
    "return (string.gsub('xy', '.', function(c) return c .. #redis.call('GET', ARGV[1]) end))",
    "redis.setresp(3) redis.call('SELECT', 1) redis.call('SELECT', 0) return {redis.call('GET', ARGV[1]), redis.call('TIME') and 1}",
    "return {redis.call('GET', ARGV[1]), redis.pcall('LPUSH', ARGV[1], 'x')}",
    "redis.call('GET', ARGV[1]) return redis.call('NOPE')",
    "redis.call('GET', ARGV[1]) error('a message')",
    "return {math.random(1000000), redis.call('GET', ARGV[1]), math.random(1000000)}",
]


def plain(reply):
    return str(reply) if isinstance(reply, ReplyError) else reply


def evaluate(client, script, *argv):
    """The script's reply; math.random has the same seed for all."""
    client.get('EVAL', 'math.randomseed(7)', '0')
    return plain(client.get('EVAL', script, '0', *argv))


@suite.case('a script that needs a row runs again when it is in memory, also if it catches errors: its reply is as with cached rows')
def _(run):
    with Uncached(keys=100) as slow, slow.client() as client:
        client.call('SET', 'hot', '1')
        for script in READERS:
            evict_all(client)
            reply = slow.waits(client, lambda: evaluate(client, script, key(7)))
            for _ in range(2):
                check_equal(evaluate(client, script, key(7)), reply, 'the reply of %s' % script)
        check_equal(evaluate(client, READERS[0], key(7)), text(7).encode())


@suite.case('while a script waits for the disk others are served; its earlier writes are not visible, and are done once')
def _(run):
    script = ("redis.call('INCR', 'n') redis.call('RPUSH', 'list', 'x') redis.call('DEL', 'gone') redis.call('PUBLISH', 'news', 'once')"
              " redis.call('SET', 'made', math.random(1000000)) redis.pcall('LPUSH', 'n', 'x')"
              " return {#redis.call('GET', ARGV[1]), redis.call('HGET', 'hash', 'f50'), redis.call('ZRANK', 'zset', 'm400')}")
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other, slow.client() as reader:
        client.call('HSET', 'hash', *sum((['f%d' % i, PAD] for i in range(100)), []))
        client.call('ZADD', 'zset', *sum(([str(i), 'm%d' % i] for i in range(500)), []))
        reader.call('SUBSCRIBE', 'news')
        client.call('CONFIG', 'RESETSTAT')
        for i in range(5):
            client.pipeline([['SET', 'gone', 'x'], ['EVAL', 'math.randomseed(3)', '0']])
            evict_all(client)
            other.pipeline([['GET', name] for name in ('n', 'gone', 'made')] + [['LLEN', 'list']])
            blocking = slow.info(client, 'uncached_blocking_reads')
            slow.disk.delay_reads(HELD if i == 0 else 0.002)
            client.send('EVAL', script, '1', 'n', key(i * 10))
            if i == 0:
                wait_for(lambda: slow.info(other, 'suspended_clients') == 1 and slow.disk.get('reads_now') > 0, 'the script to wait')
                check_equal(other.pipeline([['GET', 'n'], ['GET', 'gone'], ['EXISTS', 'made', 'list']]),
                            [('$', None), ('$', b'x'), (':', b'0')])
                slow.disk.delay_reads(0.002)
            check_equal(client.read(), ('*', [(':', b'%d' % len(text(0))), ('$', PAD.encode()), (':', b'400')]))
            slow.disk.delay_reads(0)
            check_equal(slow.info(client, 'uncached_blocking_reads'), blocking, 'reads for which all stood still')
            check_equal(other.pipeline([['GET', 'n'], ['LLEN', 'list'], ['EXISTS', 'gone'], ['GET', 'made']]),
                        [('$', b'%d' % (i + 1)), (':', b'%d' % (i + 1)), (':', b'0'), other.call('EVAL', 'math.randomseed(3) '
                         'return tostring(math.random(1000000))', '0')])
            check_equal(reader.read(), ('*', [('$', b'message'), ('$', b'news'), ('$', b'once')]))
        check_equal(reader.call('PING')[1][0], ('$', b'pong'))  # no second message
        stats = client.get('INFO', 'commandstats').decode()
        for name, calls, failed in (('incr', 5, 0), ('rpush', 5, 0), ('publish', 5, 0), ('lpush', 5, 5), ('hget', 5, 0)):
            line = [line for line in stats.split() if line.startswith('cmdstat_%s:' % name)][0]
            check('calls=%d,' % calls in line and 'failed_calls=%d' % failed in line, line)
        check('errorstat_WRONGTYPE:count=5' in client.get('INFO', 'errorstats').decode(), 'errors of attempts are counted')


@suite.case('functions, cached scripts, read-only ones, and EXECs with scripts wait for rows as a whole')
def _(run):
    library = ("#!lua name=lib\nredis.register_function('add', function(keys, args) redis.call('INCR', keys[1])"
               " return #redis.call('GET', args[1]) end)"
               " redis.register_function{function_name='look', callback=function(keys, args) return redis.call('GET', args[1]) end,"
               " flags={'no-writes'}}")
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other, slow.client() as reader:
        client.call('FUNCTION', 'LOAD', library)
        sha = client.get('SCRIPT', 'LOAD', "redis.call('INCR', KEYS[1]) return redis.call('GET', ARGV[1])")
        reader.call('SUBSCRIBE', 'news')
        for i in range(4):
            commands = [['FCALL', 'add', '1', 'n', key(i)], ['FCALL_RO', 'look', '0', key(i + 100)],
                        ['EVALSHA', sha, '1', 'n', key(i + 200)], ['EVAL_RO', READERS[0], '0', key(i + 300)]]
            wanted = [(':', b'%d' % len(text(0)))] + [('$', text(i + at).encode()) for at in (100, 200, 300)]
            for command, reply in zip(commands, wanted):
                evict_all(client)
                check_equal(slow.waits(client, lambda: client.call(*command)), reply)
            check_equal(client.get('GET', 'n'), b'%d' % (5 * i + 2))
            client.pipeline([['MULTI'], ['INCR', 'n'], ['PUBLISH', 'news', str(i)], ['EVAL', 'return redis.call("INCR", "n")', '0'],
                             ['GET', key(i + 400)]] + commands)
            evict_all(other)
            replies = slow.waits(other, lambda: client.call('EXEC'))
            check_equal(replies[1], [(':', b'%d' % (5 * i + 3)), (':', b'1'), (':', b'%d' % (5 * i + 4)), ('$', text(i + 400).encode())] + wanted)
            client.call('DECR', 'n')
            check_equal(reader.read(), ('*', [('$', b'message'), ('$', b'news'), ('$', b'%d' % i)]))
        check_equal(reader.call('PING')[1][0], ('$', b'pong'))


@suite.case('a script that changed a watched key is rolled back and runs again; a slow one continues and reads the disk itself')
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other, slow.client() as watcher:
        def blocks(*command):
            evict_all(other)
            other.call('GET', 'n')
            before = slow.info(other, 'uncached_blocking_reads')
            reply = client.get(*command)
            check(slow.info(other, 'uncached_blocking_reads') > before, 'it was rolled back')
            return reply
        client.call('SET', 'n', '0')
        watcher.call('WATCH', 'n')
        evict_all(other)
        other.call('GET', 'n')
        before = slow.info(other, 'uncached_blocking_reads')
        check_equal(client.get('EVAL', "redis.call('INCR', 'n') return redis.call('GET', ARGV[1])", '0', key(1)), text(1).encode())
        check_equal(slow.info(other, 'uncached_blocking_reads'), before, 'blocking reads')
        watcher.pipeline([['MULTI'], ['GET', 'n']])
        check_equal(watcher.call('EXEC'), ('*', None))
        client.call('CONFIG', 'SET', 'busy-reply-threshold', '1')
        busy = "redis.call('INCR', 'n') for i = 1, 3e6 do end redis.call('GET', ARGV[1]) return redis.call('INCR', 'n')"
        check_equal(blocks('EVAL', busy, '0', key(2)), 3)
        client.pipeline([['MULTI'], ['EVAL', busy, '0', key(3)], ['GET', key(4)]])
        check_equal(blocks('EXEC'), [5, text(4).encode()])
        client.call('CONFIG', 'SET', 'busy-reply-threshold', '5000')
        check_equal(blocks('EVAL', "redis.call('SLOWLOG', 'RESET') return redis.call('GET', ARGV[1])", '0', key(5)), text(5).encode())
        for i, often in enumerate(["redis.call('PING')", "redis.pcall('NOPE')", "redis.pcall('GET')"]):
            script = "for i = 1, 20000 do %s end return redis.call('GET', ARGV[1])" % often
            check_equal(blocks('EVAL', script, '0', key(6 + i)), text(6 + i).encode())
        many = "local n = 0 for i = 0, 99 do n = n + #redis.call('GET', string.format('key:%06d', 500 + i)) end return n"
        client.call('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        check_equal(blocks('EVAL', many, '0'), 100 * len(text(0)))
        check_equal(client.get('GET', 'n'), b'5')


@suite.case("a key watched by EXEC's client is watched while EXEC waits for its rows")
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other:
        other.call('SET', 'hot', '1')
        client.pipeline([['WATCH', 'hot'], ['MULTI'], ['INCR', 'hot'], ['GET', key(7)]])
        evict_all(other)
        other.call('GET', 'hot')
        slow.disk.delay_reads(HELD)
        client.send('EXEC')
        wait_for(lambda: slow.info(other, 'suspended_clients') == 1, 'EXEC to wait for rows')
        other.call('SET', 'hot', '5')
        slow.disk.delay_reads(0)
        check_equal(client.read(), ('*', None))
        check_equal(other.get('GET', 'hot'), b'5')


@suite.case('expired keys on the disk are deleted without delaying others')
def _(run):
    with Uncached(keys=100) as slow, slow.client() as client:
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        client.pipeline([['SET', 'short:%d' % i, PAD, 'PX', '1'] for i in range(500)])
        evict_all(client)
        check_equal(slow.info(client, 'expired_keys'), 0)
        slow.disk.delay_reads(0.005)
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '1')
        wait_for(lambda: client.get('DBSIZE') == 100, 'keys to expire')
        slow.disk.delay_reads(0)
        check_equal(slow.info(client, 'expired_keys'), 500)
        check(slow.info(client, 'uncached_fetches') > 20, 'they were not uncached')
        check_equal(slow.info(client, 'uncached_blocking_reads'), 0, 'reads for which all stood still')


@suite.case('very many expired keys on the disk are deleted as fast as their rows are read, fields of hashes too, and none that stays')
def _(run):
    with Uncached(keys=100) as slow, slow.client() as client:
        count = sized(70000, long=1000000)
        due = int(time.time() * 1000) + 1
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        for start in range(0, count, 1000):
            client.pipeline([['SET', 'short:%d' % (i * 7919 % count), 'x', 'PX', '1'] for i in range(start, start + 1000)])
        client.pipeline([['HSET', 'hash:%d' % i] + ['f%d' % (n // 2) for n in range(1400)] for i in range(20)])
        client.pipeline([['HPEXPIRE', 'hash:%d' % i, '1', 'FIELDS', '600'] + ['f%d' % n for n in range(600)] for i in range(20)])
        evict_all(client)
        wait_for(lambda: time.time() * 1000 > due + 10, 'the keys to be due')
        blocking = slow.info(client, 'uncached_blocking_reads')
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '1')
        wait_for(lambda: client.get('DBSIZE') == 120, 'keys to expire')
        wait_for(lambda: slow.info(client, 'expired_subkeys') == 20 * 600, 'fields to expire')
        check_equal(slow.info(client, 'expired_keys'), count)
        check_equal([client.get('HLEN', 'hash:%d' % i) for i in range(20)], [100] * 20)
        check_equal(slow.info(client, 'uncached_blocking_reads'), blocking, 'reads for which all stood still')


def evict_compacted(client):
    """Evicts all rows to files that no compaction replaces soon. One that does takes the blocks away that a range has brought, and a command
    whose ranges come to nothing reads the rest itself."""
    evict_all(client)
    check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'))
    wait_for(lambda: b'idle' in client.get('SCREE', 'COMPACT', 'STATUS'), 'the compaction to end')
    evict_all(client)


@suite.case('a consumer with very many pending entries on the disk is deleted without delaying others, and so is a group')
def _(run):
    count = 6000
    with Uncached(keys=100) as slow, slow.client() as client:
        for key in ('plain', 'timed'):
            for start in range(0, count, 1000):
                client.pipeline([['XADD', key, '%d-1' % (i + 1), 'f', 'v'] for i in range(start, start + 1000)])
            client.get('XGROUP', 'CREATE', key, 'g', '0')
            for start in range(0, count, 1000):  # two consumers have every other thousand
                client.get('XREADGROUP', 'GROUP', 'g', 'ab'[start // 1000 % 2], 'COUNT', '1000', 'STREAMS', key, '>')
        client.get('XREADGROUP', 'GROUP', 'g', 'c', 'CLAIM', '1', 'COUNT', '1', 'STREAMS', 'timed', '>')  # makes the index by time
        for key, left in (('plain', count // 2), ('timed', count // 2 + 1)):
            evict_compacted(client)
            dropped = slow.waits(client, lambda key=key: client.get('XGROUP', 'DELCONSUMER', key, 'g', 'a'))
            check(dropped in (count // 2, count // 2 - 1), dropped)
            check_equal(client.get('XPENDING', key, 'g')[0], count - dropped)
            evict_compacted(client)
            check_equal(slow.waits(client, lambda key=key: client.get('XGROUP', 'DESTROY', key, 'g')), 1)


@suite.case('INFO and metrics say how many expired keys were not deleted yet, and since when')
def _(run):
    with Uncached(keys=100) as slow, slow.client() as client:
        def metric_of(name):
            return metric(slow.cluster.backends[0].http('/metrics')[1], 'scree_backend_expiry_' + name)
        count = 20000
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        client.pipeline([['SET', 'short:%d' % i, 'x', 'PX', '1'] for i in range(count)])
        client.pipeline([['SET', 'long:%d' % i, 'x', 'EX', '1000'] for i in range(count)])
        evict_all(client)
        time.sleep(2.5)
        slow.disk.delay_reads(0.5)  # not longer: the rows of the index may have to be read too, and the lag is not known before
        client.call('DEBUG', 'SET-ACTIVE-EXPIRE', '1')
        wait_for(lambda: (metric_of('lag_seconds') or 0) >= 2, 'the lag')
        wait_for(lambda: 0 < (metric_of('due_keys') or 0) <= count, 'the keys to be counted')
        slow.disk.delay_reads(0)
        wait_for(lambda: client.get('DBSIZE') == count + 100, 'keys to expire')
        wait_for(lambda: metric_of('lag_seconds') == 0 and metric_of('due_keys') == 0, 'the metrics to be 0')
        check(b'expired_stale_perc:0.00' in client.get('INFO', 'stats'), 'keys are said to be stale')


@suite.case('a command that waited sends one keymiss event')
def _(run):
    with Uncached(keys=1000) as slow, slow.client() as client, slow.client() as other:
        client.call('CONFIG', 'SET', 'notify-keyspace-events', 'KEAm')
        other.call('SUBSCRIBE', '__keyevent@0__:keymiss')
        for i in range(5):
            evict_all(client)
            check_equal(client.get('MGET', 'none%d' % i, key(i)), [None, text(i).encode()])
            check_equal(other.read(), ('*', [('$', b'message'), ('$', b'__keyevent@0__:keymiss'), ('$', b'none%d' % i)]))
        check(slow.info(client, 'suspended_commands') >= 5, 'nothing was uncached')


@suite.case('clients that disconnect, and a stop, end reads in progress cleanly')
def _(run):
    with Uncached() as slow, slow.client() as other:
        slow.disk.delay_reads(HELD)
        clients = [slow.client() for _ in range(20)]
        for i, client in enumerate(clients):
            client.send('GET', key(i * 200))
        wait_for(lambda: slow.info(other, 'suspended_clients') >= 12, 'most clients to wait')
        for client in clients[:10]:
            client.close()
        slow.disk.delay_reads(0)
        for i in range(10, 20):
            check_equal(clients[i].read(), ('$', text(i * 200).encode()))
        wait_for(lambda: slow.info(other, 'suspended_clients') == 0, 'nobody to wait')
        slow.disk.delay_reads(HELD)
        for i, client in enumerate(clients[10:]):
            client.send('GET', key(i * 200 + 100))
        wait_for(lambda: slow.info(other, 'suspended_clients') > 0 and slow.disk.get('reads_now') > 0, 'clients to wait')
        stop_while_reading(slow, other)
        slow.cluster.backends[0].start()


def stop_while_reading(slow, other):
    """Sends SIGTERM while reads are held; they continue only after the partition has closed."""
    slow.cluster.backends[0].signal(signal.SIGTERM)
    try:
        wait_for(lambda: other.get('PING') is None, 'the partition to close')
    except (Closed, OSError):
        pass
    check(slow.disk.get('reads_now') > 0, 'reads have ended')
    slow.disk.delay_reads(0)
    slow.cluster.backends[0].wait_exit()
    slow.cluster.backends[0].stop()


def fill_hash(client, count=6000):
    for start in range(0, count, 500):
        client.call('HSET', 'hash', *sum(([field(i), field(i) + PAD[:300]] for i in range(start, start + 500)), []))


def field(i):
    return 'f%05d' % i


def hold_reply(slow, client, words, other):
    """Sends a command whose first rows are in memory, and holds the reads of the others by reader threads."""
    for _ in range(20):
        slow.disk.delay_reads(0)
        evict_all(other)
        other.call('SET', 'hot', 'value')
        other.call('SCAN', '0', 'COUNT', '1')
        other.call('HSCAN', 'hash', '0', 'COUNT', '600')
        slow.disk.delay_reads(HELD)
        client.send(*words)
        wait_for(lambda: slow.disk.get('reads_now') > 0, 'a read of the walk')
        if slow.info(other, 'suspended_clients') == 0:
            return
        slow.disk.delay_reads(0)  # a compaction has moved the first rows out of memory
        client.read()
    check(False, 'the beginning was never in memory')


def check_rows(words, reply, keys):
    items = [item.decode() for item in value(reply)]
    if words[0] == 'KEYS':
        check_equal(sorted(items), sorted(['hash', 'hot'] + [key(i) for i in range(keys)]))
    else:
        check_equal(items, sum(([field(i), field(i) + PAD[:300]] for i in range(6000)), []))


@suite.case("big replies of rows on the disk delay no other client: the partition's thread reads none of the rows")
def _(run):
    with Uncached(keys=4000) as slow, slow.client() as client, slow.client() as other:
        fill_hash(client)
        for words in (['KEYS', '*'], ['HGETALL', 'hash']):
            hold_reply(slow, client, words, other)
            for i in range(10):
                check_equal(other.pipeline([['GET', 'hot'], ['SET', 'hot', 'value'], ['PING']]),
                            [('$', b'value'), ('+', b'OK'), ('+', b'PONG')])
            check_equal((slow.disk.get('reads_now') > 0, slow.disk.get('reads'), slow.disk.get('reads_by_partition')), (True, 0, 0),
                        'a read under way, ended, by the partition')
            slow.disk.delay_reads(0.002)
            check_rows(words, client.read(), 4000)
            run.note('%s: %d reads more' % (words[0], slow.disk.get('reads')))
            check(slow.disk.get('reads') > 5, 'it was not uncached')
            check_equal(slow.disk.get('reads_by_partition'), 0, 'reads by the partition')


@suite.case('clients may disconnect, or be killed, during a big reply whose next rows are being read')
def _(run):
    with Uncached(keys=4000) as slow, slow.client() as other:
        def count():
            return other.get('CLIENT', 'LIST').count(b'\n')

        fill_hash(other)
        for words in (['KEYS', '*'], ['HGETALL', 'hash']):
            clients = [slow.client() for _ in range(5)]
            for client in clients:
                client.id = client.get('CLIENT', 'ID')
            hold_reply(slow, clients[0], words, other)
            for client in clients[1:]:
                client.send(*words)
            wait_for(lambda: slow.disk.get('reads_now') >= len(clients), 'a read of each')
            for client in clients[2:]:
                other.call('CLIENT', 'KILL', 'ID', str(client.id))
            for client in clients:
                client.close()
            check_equal(count(), 3)
            check(slow.disk.get('reads_now') >= len(clients) and slow.disk.get('reads') == 0, 'reads have ended')
            check_equal(other.get('GET', 'hot'), b'value')
            slow.disk.delay_reads(0)
            wait_for(lambda: count() == 1, 'those to go that nobody killed')
            check_rows(words, other.call(*words), 4000)
        check_equal(slow.info(other, 'uncached_blocking_reads'), 0)


@suite.case('the backend can stop during big replies whose next rows are being read')
def _(run):
    with Uncached(keys=4000) as slow:
        for words in (['KEYS', '*'], ['HGETALL', 'hash']):
            with slow.client() as client, slow.client() as other:
                fill_hash(other)
                hold_reply(slow, client, words, other)
                stop_while_reading(slow, other)
            slow.cluster.backends[0].start()
            with slow.client() as client:
                check_rows(words, client.call(*words), 4000)


if __name__ == '__main__':
    suite.main()
