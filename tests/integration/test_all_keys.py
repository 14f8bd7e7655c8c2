#!/usr/bin/python3
"""KEYS, SCAN, DBSIZE, RANDOMKEY, FLUSHDB and FLUSHALL in scripts, functions and MULTI while there are several shards."""

import random
import threading

from support.cluster import Cluster, Oracle, metric
from support.harness import Suite, check, check_equal, sized, wait_for
from support.moves import wait_settled
from support.resp import Connection, ReplyError

suite = Suite(__doc__)

LIBRARY = """#!lua name=lib
redis.register_function('size', function(keys, args)
    redis.call('SET', args[1], 'x')
    return {redis.call('DBSIZE'), #redis.call('KEYS', '*'), redis.call('RANDOMKEY') ~= false}
end)
redis.register_function{function_name='count', callback=function() return redis.call('DBSIZE') end, flags={'no-writes'}}"""

# Scripts, each with its arguments. Replies in any order are sorted by the script.
SORTED = "local function sorted(keys) table.sort(keys) return keys end "
SCAN_ALL = """local keys, cursor = {}, '0'
repeat
    local page = redis.call('SCAN', cursor, 'COUNT', ARGV[1], 'MATCH', ARGV[2])
    cursor = page[1]
    for _, key in ipairs(page[2]) do keys[#keys + 1] = key end
until cursor == '0'
return sorted(keys)"""
SCRIPTS = [
    ("return {redis.call('DBSIZE'), redis.call('KEYS', '*'), redis.call('RANDOMKEY'), redis.call('SCAN', 0, 'COUNT', 100)}",),
    ("for i = 1, 40 do redis.call('SET', 'k' .. i, i) end return {redis.call('DBSIZE'), #redis.call('KEYS', 'k*')}",),
    (SORTED + "return sorted(redis.call('KEYS', ARGV[1]))", 'k1*'),
    (SORTED + SCAN_ALL, 3, '*'),
    (SORTED + SCAN_ALL, 1000, 'k*'),
    (SORTED + "redis.call('DEL', 'k7', 'k8') redis.call('SADD', 'set', 'm') redis.call('RENAME', 'k9', 'new') " + SCAN_ALL, 7, '*'),
    ("return {redis.call('DBSIZE'), redis.call('EXISTS', redis.call('RANDOMKEY')), #redis.call('SCAN', 0, 'COUNT', 100, 'TYPE', 'set')[2]}",),
    ("redis.call('SELECT', 1) redis.call('SET', 'in1', 1) return {redis.call('DBSIZE'), redis.call('KEYS', '*')}",),
    ("redis.call('SET', 'before', 1) redis.call('SELECT', 1) redis.call('FLUSHDB') local n = redis.call('DBSIZE') redis.call('SELECT', 0) "
     "return {n, redis.call('DBSIZE')}",),
    ("for _, key in ipairs(redis.call('KEYS', 'k*')) do redis.call('DEL', key) end return {redis.call('DBSIZE'), redis.call('GET', 'k1')}",),
    ("redis.call('MSET', 'a', 1, 'b', 2, 'c', 3) redis.call('FLUSHALL') redis.call('RPUSH', 'b', 'x') redis.call('RPUSH', 'b', 'y') "
     "return {redis.call('DBSIZE'), redis.call('GET', 'a'), redis.call('LRANGE', 'b', 0, -1), redis.call('KEYS', '*')}",),
    ("redis.call('FLUSHALL') redis.call('FLUSHALL', 'ASYNC') return {redis.call('RANDOMKEY'), redis.call('KEYS', '*'), redis.call('SCAN', 0)}",),
    ("return {redis.pcall('FLUSHDB', 'never').err, redis.pcall('SCAN', 'x').err, redis.pcall('KEYS').err}",),
    ("redis.call('SET', 'a', 1) redis.call('FLUSHALL') return redis.error_reply('MY error')",),
]


def suspended(cluster):
    """How often commands were rolled back to run again, at all shards."""
    return sum(metric(backend.http('/metrics')[1], 'scree_backend_suspended_commands_total') for backend in cluster.backends)


def play(client):
    """The replies to all scripts, alone and in MULTI, and what is left."""
    seen = [client.call('FUNCTION', 'LOAD', 'REPLACE', LIBRARY)]
    for in_multi in (False, True):
        for script, *words in SCRIPTS:
            commands = [['EVAL', script, 0, *words], ['DBSIZE'], ['GET', 'k3']]
            if in_multi:
                seen.append(client.pipeline([['MULTI']] + commands + [['EXEC']]))
            else:
                seen.extend(client.pipeline(commands))
        for words in (['FCALL', 'size', 1, 'x', 'y'], ['FCALL_RO', 'count', 0], ['EVAL_RO', "return redis.call('DBSIZE')", 1, 'k'],
                      ['EVAL_RO', "return redis.call('FLUSHALL')", 1, 'k']):
            seen.append(client.call(*words))
        client.get('FLUSHALL')
    return seen


@suite.case('scripts and functions reply as redis-server does, with 1, 3 and 5 shards, and with one of two that owns all slots')
def _(run):
    for backends in (1, 2, 3, 5):
        slots = ['0-16383', ''] if backends == 2 else None  # one shard owns all: it borrows all keys, and waits for no other
        with Cluster(backends=backends, partitions=1, linked=True, slots=slots) as cluster, Oracle() as oracle:
            for proto in (2, 3):
                with cluster.connect(proto=proto) as client, Connection(oracle.address, proto=proto) as redis:
                    for number, (ours, theirs) in enumerate(zip(play(client), play(redis))):
                        check_equal(ours, theirs, '%d shards, RESP%d, reply %d' % (backends, proto, number))


@suite.case('commands for all keys concern only the namespace of the client')
def _(run):
    namespaces = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}
    with Cluster(backends=3, partitions=1, linked=True, namespaces=namespaces, proxy_options={'proxy': {'requirepass': 'outside'}}) as cluster:
        clients = [cluster.connect() for _ in range(3)]
        for client, token in zip(clients, ('token-one', 'token-two', 'outside')):
            check_equal(client.get('AUTH', token), b'OK')
            client.get('MSET', *[word for i in range(30) for word in ('%s:%d' % (token, i), i)])
        flush = "local n = #redis.call('KEYS', '*') redis.call('FLUSHALL') return {n, redis.call('DBSIZE')}"
        check_equal(clients[0].get('EVAL', flush, 0), [30, 0])
        check_equal([client.get('DBSIZE') for client in clients], [0, 30, 30])
        check_equal(clients[2].get('EVAL', flush, 0), [30, 0])
        check_equal([client.get('DBSIZE') for client in clients], [0, 30, 0])
        check_equal(sorted(clients[1].get('KEYS', '*')), sorted(b'token-two:%d' % i for i in range(30)))


@suite.case('a script goes through many keys, page by page and at once, up to borrow-limit')
def _(run):
    count = 4000
    with Cluster(backends=3, partitions=1, linked=True, backend_options={'backend': {'borrow-limit': '1mb'}}) as cluster, cluster.connect() as client:
        client.pipeline([['SET', 'key:%d' % i, 'v' * 100] for i in range(count)])
        scan = SORTED + SCAN_ALL.replace('return sorted(keys)', 'return #keys')
        for words in ([50, '*'], [100000, '*']):
            check_equal(client.get('EVAL', scan, 0, *words), count)
        check_equal(client.get('EVAL', "return #redis.call('KEYS', 'key:*')", 0), count)
        script = """local seen, n = {}, 0
for i = 1, 30 do
    local key = redis.call('RANDOMKEY')
    if not seen[key] then seen[key] = true n = n + 1 end
end
return n"""
        check(client.get('EVAL', script, 0) > 15, 'random keys are random')
        many = "for i = 1, 1000 do redis.call('RANDOMKEY') end return redis.call('DBSIZE')"
        before = suspended(cluster)
        check_equal(client.get('EVAL', many, 0), count)
        check(suspended(cluster) - before < 40, 'a script that draws many keys runs again for few of them: %d times' % (suspended(cluster) - before))
        client.pipeline([['SET', '%0400d' % i, 1] for i in range(count)])
        for script in ("return redis.call('KEYS', '*')", "return redis.call('SCAN', 0, 'COUNT', 8000)"):
            reply = client.get('EVAL', script, 0)
            check(isinstance(reply, ReplyError) and 'borrow-limit' in str(reply), 'no error about borrow-limit')
        check_equal(client.get('EVAL', "redis.call('FLUSHALL') return redis.call('DBSIZE')", 0), 0)
        check_equal(client.get('DBSIZE'), 0)


@suite.case('WATCH, caching and waiting clients notice a FLUSHALL over shards, and a crash afterwards brings no key back')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        keys = [cluster.key_on(shard) for shard in range(3)]
        watchers = [cluster.connect() for _ in keys]
        trackers = [cluster.connect(proto=3) for _ in keys]
        client.get('MSET', *[word for key in keys for word in (key, 'v')])
        for watcher, tracker, key in zip(watchers, trackers, keys):
            check_equal(watcher.get('WATCH', key), b'OK')
            watcher.get('MULTI'), watcher.get('PING')
            check_equal(tracker.get('CLIENT', 'TRACKING', 'ON'), b'OK')
            check_equal(tracker.get('GET', key), b'v')
        client.get('EVAL', "redis.call('SET', ARGV[1], 'x') redis.call('FLUSHALL') redis.call('SET', ARGV[1], 'y')", 0, keys[1])
        check_equal([watcher.call('EXEC') for watcher in watchers], [('*', None)] * 3)
        for tracker in trackers:
            check_equal(tracker.read()[0], '>', 'an invalidation')
        check_equal([client.get('GET', key) for key in keys], [None, b'y', None])
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        wait_for(lambda: client.call('EVAL', "return redis.call('KEYS', '*')", 0) == ('*', [('$', keys[1].encode())]), 'one key')
        wait_for(lambda: client.get('DBSIZE') == 1, 'one key to be counted through the proxy, which connects to the shards anew')


@suite.case('transactions that use all keys are isolated from other transactions, and all locks are released')
def _(run):
    """Keys of one generation exist at a time: a transaction begins the next one with FLUSHALL, others add keys with its number. A
    token is renamed over shards, so the number of tokens is always 1."""
    seconds = sized(4.0, long=120)
    stop = threading.Event()
    failures = []
    done = {}
    with Cluster(backends=3, partitions=1, linked=True) as cluster:
        cluster.connect().get('MSET', 'gen', 0, 'token:0', 1)

        def work(client, step):
            while not stop.is_set() and not failures:
                reply = client.get(*step())
                is_refused = isinstance(reply, ReplyError) and str(reply).startswith('TRYAGAIN')
                if (isinstance(reply, ReplyError) and not is_refused) or (isinstance(reply, bytes) and reply.startswith(b'wrong')):
                    failures.append(reply)
                done[step, is_refused] = done.get((step, is_refused), 0) + 1

        chance = random.Random(run.seed)
        begin = """local gen = redis.call('GET', 'gen') + 1
redis.call('FLUSHALL') redis.call('MSET', 'gen', gen, 'token:' .. gen, 1) return redis.call('DBSIZE') == 2 and 'ok' or 'wrong size'"""
        add = "redis.call('SET', ARGV[1], redis.call('GET', 'gen'))"
        rename = "redis.call('RENAME', redis.call('KEYS', 'token:*')[1], ARGV[1])"
        look = """local gen = redis.call('GET', 'gen')
local keys = redis.call('KEYS', 'add:*')
for _, key in ipairs(keys) do
    local value = redis.call('GET', key)
    if value ~= gen then return 'wrong: ' .. key .. ' has ' .. tostring(value) .. ', not ' .. gen end
end
if #redis.call('KEYS', 'token:*') ~= 1 then return 'wrong: tokens' end
if redis.call('DBSIZE') ~= #keys + 2 then return 'wrong: ' .. redis.call('DBSIZE') .. ' keys, not ' .. #keys + 2 end
return 'ok'"""
        steps = [lambda: ['EVAL', begin, 0],
                 lambda: ['EVAL', add, 0, 'add:%d' % chance.randrange(40)], lambda: ['EVAL', add, 0, 'add:%d' % chance.randrange(40)],
                 lambda: ['EVAL', rename, 0, 'token:%d' % chance.randrange(10)],
                 lambda: ['EVAL_RO', look, 0], lambda: ['EVAL', look, 0]]
        threads = [threading.Thread(target=work, args=(cluster.connect(), step)) for step in steps]
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        wait_for(lambda: failures or all((step, False) in done for step in steps), 'each kind of transaction to succeed')
        stop.set()
        for thread in threads:
            thread.join()
        check_equal(failures, [])
        run.note('done and refused: %s' % ', '.join('%d, %d' % (done.get((step, False), 0), done.get((step, True), 0)) for step in steps))
        partitions = [cluster.partition(shard) for shard in range(3)]
        wait_for(lambda: all(b'locked_keys:0\r' in partition.get('INFO', 'transactions') for partition in partitions), 'no lock to be left')
        check_equal(cluster.connect().get('EVAL', look, 0), b'ok')


@suite.case('while slots move to other shards, scripts and MULTI count and list every key once')
def _(run):
    ranges = ['0-5000', '5001-11000', '11001-16383']
    count = 200
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        client.get('MSET', *[word for i in range(count) for word in ('key:%d' % i, i)])
        stop = threading.Event()
        seen = []

        def look():
            with cluster.connect() as own:
                while not stop.is_set():
                    seen.append(own.get('EVAL', "return {redis.call('DBSIZE'), #redis.call('KEYS', '*'), #redis.call('SCAN', 0, 'COUNT', 1000)[2]}", 0))
                    own.get('MULTI'), own.get('SET', 'key:0', 'x'), own.get('DBSIZE')
                    seen.append(own.get('EXEC'))
        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(1, sized(3, long=12)):
                cluster.write_shards(ranges[turn % 3:] + ranges[:turn % 3])
                wait_settled(cluster, range(3))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        refused = [reply for reply in seen if isinstance(reply, ReplyError) and str(reply).startswith('TRYAGAIN')]
        other = [reply for reply in seen if reply not in ([count] * 3, [b'OK', count]) and reply not in refused]
        run.note('%d replies, %d refused' % (len(seen), len(refused)))
        check_equal(other[:3], [])
        check(len(refused) < len(seen), 'all were refused')
        check_equal(client.get('EVAL', "redis.call('FLUSHALL') return redis.call('DBSIZE')", 0), 0)


suite.main()
