#!/usr/bin/python3
"""reply-limit: a reply that would be too long becomes an error that says whether the command was executed, and takes no
memory.
"""

from support import harness
from support.cluster import Cluster
from support.harness import Suite, check, check_equal, patience
from support.resp import Connection, show

suite = Suite(__doc__)
MB = 1 << 20
SIZE = MB // 4
NOT_DONE = b'ERR The reply would be longer than reply-limit, so the command was not run and nothing was changed.'
BIG = b'x' * SIZE
PEAK = 96 * MB  # more than the limit and the memory a test leaves, less than any of these replies


def limited(**more):
    return Cluster(backends=1, partitions=1, backend_options={'backend': dict({'reply-limit': '1mb', 'durability': 'os'}, **more)})


def fill(connection):
    commands = [('SET', '{k}big', BIG), ('HSET', '{k}hash', 'f', BIG), ('RPUSH', '{k}seed', *(['1'] * 100)), ('SET', '{k}b1g', BIG),
                ('SADD', '{k}one', BIG)]
    commands += [('RPUSH', '{k}list', BIG) for _ in range(20)]
    commands += [(name, '{k}' + key, *score, BIG + b'%d' % i)
                 for name, key, score in (('SADD', 'set', ()), ('ZADD', 'zset', (1,))) for i in range(20)]
    commands += [('XADD', '{k}stream', '%d-1' % i, 'f', BIG) for i in range(1, 21)]
    commands += [('XGROUP', 'CREATE', '{k}stream', 'g', '0'), ('HSET', '{k}fields', *(b'%d' % i for i in range(200)))]
    for reply in connection.pipeline(commands):
        check(reply[0] != '-', show(reply))


TOO_LONG = [
    ('MGET', *(['{k}big'] * 5000)),
    ('HMGET', '{k}hash', *(['f'] * 5000)),
    ('SORT', '{k}seed', 'BY', 'x', 'GET', '{k}b*g', 'GET', '#') + ('GET', '{k}b*') * 10,
    ('SRANDMEMBER', '{k}one', '-100000'),
    ('LPOP', '{k}list', '20'),
    ('RPOP', '{k}list', '20'),
    ('LMPOP', '1', '{k}list', 'LEFT', 'COUNT', '20'),
    ('SPOP', '{k}set', '20'),
    ('SMISMEMBER', '{k}set', *(['m'] * 400000)),
    ('ZPOPMIN', '{k}zset', '20'),
    ('ZMPOP', '1', '{k}zset', 'MAX', 'COUNT', '20'),
    ('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', '{k}stream', '>'),
    ('SINTER', '{k}set', '{k}set'),
    ('SUNION', '{k}set', '{k}set'),
    ('ZRANDMEMBER', '{k}zset', '-100000'),
    ('DUMP', '{k}fill'),
]
SCRIPTS = [
    "local v = redis.call('GET', KEYS[1]); local t = {}; for i = 1, 100000 do t[i] = v end; return t",
    "local t = {}; t[1] = 'x'; t[2] = t; t[3] = t; redis.call('SET', KEYS[2], 'done'); return t",
    "local t = {}; t[1] = t; t[2] = t; return t",
    "local t = {}; t.map = {a = t, b = t}; return t",
    "local v = redis.call('GET', KEYS[1]); return {v, v, v, v, v, v, {v}, {map = {v = v}}}",
]


def too_long(connection, words, memory):
    reply = connection.call(*words)
    check(reply[0] == '-' and reply[1].startswith(NOT_DONE), '%s: %s' % (words[0], show(reply)))
    check(memory() < PEAK, '%s took %d MB' % (words[0], int(memory()) >> 20))


@suite.case('a reply longer than reply-limit is refused, and the effects of its command are rolled back')
def _(run):
    with limited() as cluster:
        backend = cluster.backends[0]
        with Connection(backend.addresses[0]) as connection:
            fill(connection)
            incompressible = run.rng.randbytes(SIZE)
            connection.pipeline([('RPUSH', '{k}fill', incompressible + b'%d' % i) for i in range(12)])
            keys = ('list', 'set', 'zset', 'stream')
            before = connection.pipeline([('MEMORY', 'USAGE', '{k}' + key) for key in keys])
        for address in (backend.addresses[0], cluster.proxies[0].address):
            for proto in (2, 3):
                with Connection(address, timeout=patience(), proto=proto) as connection:
                    connection.call('PING')
                    start = backend.rss_bytes()
                    for words in TOO_LONG:
                        backend.forget_peak()
                        too_long(connection, words, lambda: (backend.peak_rss_bytes() - start) / harness.BIG)
                    check_equal(connection.call('LLEN', '{k}list'), (':', b'20'))
                    check_equal(connection.call('SCARD', '{k}set'), (':', b'20'))
                    check_equal(connection.call('ZCARD', '{k}zset'), (':', b'20'))
                    check_equal(connection.call('XPENDING', '{k}stream', 'g')[1][0], (':', b'0'))
        with Connection(backend.addresses[0]) as connection:
            check_equal(connection.pipeline([('MEMORY', 'USAGE', '{k}' + key) for key in keys]), before)


@suite.case('a script whose reply is too long, or contains itself, is refused; its writes stay, as the error says')
def _(run):
    with limited() as cluster:
        backend = cluster.backends[0]
        for address in (backend.addresses[0], cluster.proxies[0].address):
            for proto in (2, 3):
                with Connection(address, timeout=patience(), proto=proto) as connection:
                    fill(connection)
                    start = backend.rss_bytes()
                    for script in SCRIPTS:
                        backend.forget_peak()
                        reply = connection.call('EVAL', script, '2', '{k}big', '{k}done')
                        check(reply[0] == '-' and b'longer than reply-limit' in reply[1] and b'its writes were kept' in reply[1],
                              '%s: %s' % (script, show(reply)))
                        check((backend.peak_rss_bytes() - start) / harness.BIG < PEAK, 'memory of ' + script)
                    check_equal(connection.call('GET', '{k}done'), ('$', b'done'))
                    reply = connection.call('EVAL', "return redis.call('MGET', unpack(ARGV))", '1', '{k}big', *(['{k}big'] * 50))
                    check(reply[1].startswith(NOT_DONE), show(reply))
                    reply = connection.call('EVAL', "return #redis.call('GET', KEYS[1])", '1', '{k}big')
                    check_equal(reply, (':', b'%d' % SIZE))
                    connection.call('FLUSHALL')


@suite.case('in EXEC the commands whose replies no longer fit are refused one by one; short replies of writes still fit')
def _(run):
    with limited() as cluster:
        backend = cluster.backends[0]
        for address in (backend.addresses[0], cluster.proxies[0].address):
            with Connection(address, timeout=patience()) as connection:
                fill(connection)
                backend.forget_peak()
                start = backend.rss_bytes()
                queued = [('GET', '{k}big')] * 300 + [('LPOP', '{k}list', '2'), ('SET', '{k}s', 'x'), ('INCR', '{k}n')]
                replies = connection.pipeline([('MULTI',)] + queued + [('EXEC',)])[-1][1]
                check_equal(len(replies), len(queued))
                check_equal([reply[0] for reply in replies], ['$'] * 3 + ['-'] * 298 + ['+', ':'])
                check(all(reply[1].startswith(NOT_DONE) for reply in replies if reply[0] == '-'), show(replies[3]))
                check_equal(connection.call('LLEN', '{k}list'), (':', b'20'))
                check_equal(connection.call('GET', '{k}s'), ('$', b'x'))
                check((backend.peak_rss_bytes() - start) / harness.BIG < PEAK, 'memory of EXEC')
                connection.call('FLUSHALL')


@suite.case('SORT with STORE, BY and GET uses at most reply-limit')
def _(run):
    with limited() as cluster:
        backend = cluster.backends[0]
        with Connection(backend.addresses[0], timeout=patience()) as connection:
            fill(connection)
            start = backend.rss_bytes()
            for words in (('BY', 'no', 'STORE', '{k}to') + ('GET', '{k}b*g') * 100, ('BY', '{k}b*g', 'ALPHA', 'STORE', '{k}to') + ('GET', '#') * 30000,
                          ('BY', 'no') + ('GET', '#') * 30000):
                connection.call('DEL', '{k}ones')
                connection.call('RPUSH', '{k}ones', *(['1'] * 100))
                backend.forget_peak()
                reply = connection.call('SORT', '{k}ones', *words)
                check(reply[0] == '-' and b'reply-limit' in reply[1] and b'nothing was changed' in reply[1], show(reply))
                took = (backend.peak_rss_bytes() - start) / harness.BIG
                check(took < PEAK, 'SORT %s took %d MB' % (words[:4], int(took) >> 20))
            check_equal(connection.call('EXISTS', '{k}to'), (':', b'0'))


@suite.case('streamed replies do not count; CONFIG SET changes the limit at once')
def _(run):
    with limited() as cluster:
        with cluster.partition(0) as connection:
            connection.sock.settimeout(patience())
            fill(connection)
            check_equal(len(connection.call('LRANGE', '{k}list', '0', '-1')[1]), 20)
            check_equal(len(connection.call('SMEMBERS', '{k}set')[1]), 20)
            check_equal(connection.call('CONFIG', 'GET', 'reply-limit'), ('*', [('$', b'reply-limit'), ('$', b'1mb')]))
            check(connection.call('MGET', *(['{k}big'] * 8))[0] == '-', 'MGET of 2 MB with a limit of 1')
            check_equal(connection.call('CONFIG', 'SET', 'reply-limit', '4mb'), ('+', b'OK'))
            check_equal(len(connection.call('MGET', *(['{k}big'] * 8))[1]), 8)


suite.main()
