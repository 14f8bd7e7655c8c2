#!/usr/bin/python3
"""What one command may use: memory, bytes that it writes, and time. A command that needs more is ended with an error that names the
limit, and has changed nothing; the memory of one key, path or item is freed before the next one begins."""

import os
import signal
import socket
import struct
import time

from support.cluster import Cluster, Oracle, binary, is_sanitized, metric
from support.damage import replace
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Connection, ReplyError
from support.slow import Background, begin_until, is_busy, text, wait_busy, wait_free

MB = 1 << 20
MEMORY, BATCH = 64 * MB, 8 * MB
OVER_MEMORY = b'ERR the command needs more than %d bytes of memory (command-memory), and has changed nothing' % MEMORY
OVER_BATCH = b'ERR the command writes more than %d bytes (batch-limit), and has changed nothing' % BATCH

suite = Suite(__doc__)


def partition(**options):
    options = dict({'command-memory': MEMORY, 'batch-limit': BATCH, 'durability': 'os'}, **options)
    return Cluster(backends=1, partitions=1, proxies=0,
                   backend_options={'backend': options, 'store': {'memory': '64mb'}})


def grown(backend, act):
    """What `act` returns, and by how much the process was bigger meanwhile than before."""
    if is_sanitized(binary('scree-backend')):
        return act(), 0
    before = backend.rss_bytes()
    backend.forget_peak()
    got = act()
    return got, backend.peak_rss_bytes() - before


def check_grown(backend, most, act, what):
    got, bytes_more = grown(backend, act)
    check(bytes_more <= most, '%s: %d MB more memory, at most %d are allowed' % (what, bytes_more // MB, most // MB))
    return got


def both_ways(client, *words, key=None):
    """The command's reply alone, in EXEC, and in a script."""
    yield 'alone', text(client.get(*words))
    for command in (('MULTI',), words):
        client.get(*command)
    got = client.get('EXEC')
    yield 'in EXEC', text(got[0]) if isinstance(got, list) else text(got)
    yield 'in a script', text(client.get('EVAL', 'return redis.pcall(unpack(ARGV))', *(['1', key] if key else ['0']), *words))


# ---- JSON ----------------------------------------------------------------------------------------------------------

@suite.case('JSON.MGET of one big document many times holds the memory of one')
def _(run):
    with partition() as cluster:
        with cluster.partition(0) as client:
            client.get('JSON.SET', 'j', '$', '[' + ','.join(['[]'] * 100000) + ']')
            one = check_grown(cluster.backends[0], MEMORY, lambda: client.get('JSON.MGET', 'j', '$[0]'), 'one document')
            many = check_grown(cluster.backends[0], MEMORY, lambda: client.get('JSON.MGET', *['j'] * 40, '$[0]'), '40 times')
            check_equal(many, one * 40, 'the reply')
            client.get('CONFIG', 'SET', 'command-time-limit', '5s')
            check_equal(client.get('JSON.MGET', *['j'] * 5000, '$[0]'), one * 5000, 'a document that is given 5000 times')
            client.get('CONFIG', 'SET', 'command-time-limit', '0')
            paths = check_grown(cluster.backends[0], MEMORY, lambda: client.get('JSON.GET', 'j', *['$[*]'] * 8), '8 paths')
            check(len(paths) > 8 * 200000, 'the reply of 8 paths: %r' % paths[:80])


@suite.case('nested filters of a JSON path do not fill the memory, however many paths there are')
def _(run):
    path = '$[?($[?($[?(@.z==1)])])]'
    with partition() as cluster:
        with cluster.partition(0) as client:
            client.get('JSON.SET', 'j', '$', '[' + ','.join('{"a":%d}' % i for i in range(60)) + ']')
            for words in (('JSON.GET', 'j', path), ('JSON.GET', 'j', *[path] * 5), ('JSON.MGET', *['j'] * 5, path)):
                got = check_grown(cluster.backends[0], MEMORY, lambda words=words: text(client.get(*words)), ' '.join(words[:1]))
                check(b'ERR' not in (got if isinstance(got, bytes) else b''), '%s: %r' % (words[0], got))


@suite.case('a command that needs more memory than command-memory has changed nothing')
def _(run):
    document = '[' + ','.join(['[]'] * 1000000) + ']'
    with partition() as cluster:
        with cluster.partition(0) as client:
            for words in (('JSON.SET', 'j', '$', document), ('JSON.MSET', 'a', '$', '1', 'j', '$', document)):
                for how, got in both_ways(client, *words):
                    check_equal(got, OVER_MEMORY, '%s %s' % (words[0], how))
            check_equal(client.get('DBSIZE'), 0, 'keys')
            check_equal(metric(cluster.backends[0].http('/metrics')[1], 'scree_backend_commands_over_memory_total'), 6, 'the metric')


@suite.case('a JSON command that multiplies its matches by its values or bytes ends at command-memory, and has changed nothing')
def _(run):
    members = '{%s}' % ','.join('"%s%d":1' % ('m' * 50, i) for i in range(2000))
    with partition() as cluster:
        with cluster.partition(0) as client:
            client.get('JSON.SET', 'arrays', '$', '[%s]' % ','.join(['[]'] * 20000))
            client.get('JSON.SET', 'objects', '$', '[%s]' % ','.join(['{"x":1}'] * 2000))
            client.get('JSON.SET', 'texts', '$', '[%s]' % ','.join(['"x"'] * 2000))
            kept = {key: client.get('JSON.GET', key) for key in ('arrays', 'objects', 'texts')}
            for words in (('JSON.MERGE', 'objects', '$[*]', members), ('JSON.SET', 'objects', '$[*].' + 'n' * 100000, '1'),
                          ('JSON.ARRAPPEND', 'arrays', '$[*]', *['1'] * 1000), ('JSON.ARRINSERT', 'arrays', '$[*]', '0', *['1'] * 1000),
                          ('JSON.STRAPPEND', 'texts', '$[*]', '"%s"' % ('y' * 100000))):
                got = check_grown(cluster.backends[0], 3 * MEMORY, lambda words=words: text(client.get(*words)), words[0])
                check_equal(got, OVER_MEMORY, words[0])
            check_equal({key: client.get('JSON.GET', key) for key in kept}, kept, 'the documents')


@suite.case('a JSON command that does much for each match of a path ends at command-time-limit')
def _(run):
    zeros = '$[%s]' % ','.join(['0'] * 20000)
    with partition(**{'command-memory': '1gb'}) as cluster:
        with cluster.partition(0) as client:
            client.get('JSON.SET', 'j', '$', '[[%s]]' % ','.join(['0'] * 400000))
            client.get('JSON.SET', 'equal', '$', '{"a":[%s],"b":[%s],"c":[%s]}' % ((','.join(['0'] * 50000),) * 3))
            client.get('CONFIG', 'SET', 'command-time-limit', '100ms')
            for words in (('JSON.ARRPOP', 'j', zeros, '0'), ('JSON.ARRINDEX', 'j', zeros, '1'), ('JSON.ARRINSERT', 'j', zeros, '0', '1'),
                          ('JSON.GET', 'equal', '$.c[?$.a==$.b]')):
                got = text(client.get(*words))
                check(b'command-time-limit' in got, '%s: %r' % (words[0], got[:200]))
            client.get('CONFIG', 'SET', 'command-time-limit', '0')
            check_equal(client.get('JSON.ARRTRIM', 'j', '$[0]', '399999', '-1'), [1], 'ARRTRIM of many elements')


# ---- memory outside of the arena -----------------------------------------------------------------------------------

SMALL = 4 * MB
OVER_SMALL = b'ERR the command needs more than %d bytes of memory (command-memory), and has changed nothing' % SMALL


@suite.case('LPOS and LREM of many equal elements, and the table of LCS, count as memory of the command')
def _(run):
    with partition(**{'command-memory': SMALL}) as cluster:
        with cluster.partition(0) as client:
            count = 300000
            for _ in range(count // 20000):
                client.get('RPUSH', 'list', *['x'] * 20000)
            client.get('SET', 'a', 'ab' * 1000)
            client.get('SET', 'b', 'ba' * 1000)
            for words in (('LPOS', 'list', 'x', 'COUNT', '0'), ('LREM', 'list', '0', 'x'), ('LCS', 'a', 'b'), ('LCS', 'a', 'b', 'IDX')):
                for how, got in both_ways(client, *words, key=words[1]):
                    check_equal(got, OVER_SMALL, '%s %s' % (words[0], how))
            check_equal(client.get('LLEN', 'list'), count, 'nothing was removed')
            check_equal(client.get('LPOS', 'list', 'x', 'COUNT', '3'), [0, 1, 2], 'a few rows')
            client.get('SET', 'b', 'ba')
            check_equal(client.get('LCS', 'a', 'b', 'LEN'), 2, 'a small table')


@suite.case('an EXEC or script holds the memory of one command at a time, however many it has')
def _(run):
    with partition(**{'command-memory': SMALL}) as cluster:
        with cluster.partition(0) as client:
            length, got = 0, 0
            while got != OVER_SMALL:  # the longest strings whose table fits
                length += 50
                client.get('MSET', 'a', 'ab' * length, 'b', 'ba' * length)
                got = text(client.get('LCS', 'a', 'b', 'LEN'))
            half = length - 50
            client.get('MSET', 'a', 'ab' * half, 'b', 'ba' * half)
            client.pipeline([('MULTI',)] + [('LCS', 'a', 'b', 'LEN')] * 10)
            check_equal(client.get('EXEC'), [2 * half - 1] * 10)
            script = "local got for _ = 1, 10 do got = redis.call('LCS', KEYS[1], KEYS[2], 'LEN') end return got"
            check_equal(client.get('EVAL', script, 2, 'a', 'b'), 2 * half - 1)


@suite.case('what a command tells other clients counts as its memory: with a tracking client a long DEL is refused whole')
def _(run):
    keys = ['%0200d' % i for i in range(20000)]
    with partition(**{'command-memory': SMALL}) as cluster:
        with cluster.partition(0) as client, cluster.partition(0) as tracking:
            def fill():
                for i in range(0, len(keys), 1000):
                    client.get('MSET', *[word for key in keys[i:i + 1000] for word in (key, 'v')])
            fill()
            check_equal(client.get('DEL', *keys), len(keys), 'without other clients')
            fill()
            tracking.get('HELLO', '3')
            check_equal(tracking.get('CLIENT', 'TRACKING', 'ON', 'BCAST', 'PREFIX', 'other'), b'OK')
            for how, got in both_ways(client, 'DEL', *keys):
                if how != 'in a script':  # which may not unpack so many words
                    check_equal(got, OVER_SMALL, how)
            check_equal(client.get('DBSIZE'), len(keys), 'nothing was deleted')
            check_equal(client.get('DEL', *keys[:1000]), 1000, 'a short one')


# ---- sketches ------------------------------------------------------------------------------------------------------

@suite.case('TOPK.ADD of many items reads and writes each page of the sketch once')
def _(run):
    with partition() as cluster:
        with cluster.partition(0) as client:
            items = ['item%d' % i for i in range(20000)]
            client.get('TOPK.RESERVE', 't', '100', '1024', '64', '0.9')
            for command in ('TOPK.ADD', 'TOPK.COUNT', 'TOPK.QUERY'):
                got = check_grown(cluster.backends[0], MEMORY, lambda command=command: client.get(command, 't', *items), command)
                check_equal(len(got), len(items), command)
            client.get('TOPK.RESERVE', 'big', '100', '262144', '64', '0.9')
            got = check_grown(cluster.backends[0], 2 * MEMORY, lambda: text(client.get('TOPK.ADD', 'big', *items)), 'a big sketch')
            check_equal(got, OVER_MEMORY, 'a big sketch')
            check_equal(client.get('TOPK.LIST', 'big'), [], 'its list')


@suite.case('PFCOUNT of one key 100 000 times reads it once')
def _(run):
    with partition() as cluster:
        with cluster.partition(0) as client:
            client.get('SET', 'forged', b'HYLL' + bytes(11) + b'\x80' + b'\xff' * 12288)
            client.get('PFADD', 'p', *range(1000))
            one = client.get('PFCOUNT', 'p')
            check_equal(check_grown(cluster.backends[0], MEMORY, lambda: client.get('PFCOUNT', *['p'] * 100000), 'PFCOUNT'), one,
                        'PFCOUNT')
            check_equal(client.get('PFCOUNT', 'forged'), (1 << 63) - 1, 'an estimate that is no 64-bit integer')


# ---- equal keys ----------------------------------------------------------------------------------------------------

@suite.case('unions and intersections read a key that is given several times once')
def _(run):
    with partition(**{'command-time-limit': '5s'}) as cluster:
        with cluster.partition(0) as client, Oracle() as oracle:
            with Connection(oracle.address, proto=2) as redis:
                rows = [word for i in range(5000) for word in (i / 7, 'm%d' % i)]
                for server in (client, redis):
                    for key, part in (('a', rows), ('b', rows[:6000]), ('c', rows[4000:])):
                        server.get('ZADD', key, *part)
                        server.get('SADD', 's' + key, *part[1::2])
                keys = ['a', 'b', 'a', 'c', 'c', 'a', 'b']
                weights = [3.3, -0.7, 1e17, 1, 1e-9, -1e17, 0.1]
                for words in (('ZUNION', 7, *keys, 'WEIGHTS', *weights, 'WITHSCORES'), ('ZINTER', 7, *keys, 'WEIGHTS', *weights, 'WITHSCORES'),
                              ('ZUNION', 7, *keys, 'AGGREGATE', 'MAX', 'WITHSCORES'), ('ZDIFF', 3, 'a', 'b', 'b'), ('ZDIFF', 3, 'a', 'b', 'a'),
                              ('ZINTERCARD', 4, 'a', 'a', 'b', 'b'), ('SINTERCARD', 3, 'sa', 'sa', 'sb')):
                    check_equal(client.get(*words), redis.get(*words), ' '.join(map(str, words[:4])))
                for words in (('SINTER', 'sa', 'sb', 'sa', 'sb'), ('SUNION', 'sa', 'sb', 'sa'), ('SDIFF', 'sa', 'sb', 'sb'),
                              ('SDIFF', 'sa', 'sb', 'sa'), ('SDIFF', 'sa', 'sa')):
                    check_equal(sorted(client.get(*words)), sorted(redis.get(*words)), ' '.join(words))
            for words in (('ZUNIONSTORE', 'd', 1000, *['a'] * 1000), ('ZINTERSTORE', 'd', 1000, *['a'] * 1000),
                          ('SUNIONSTORE', 'd', *['sa'] * 1000), ('SINTERSTORE', 'd', *['sa'] * 1000)):
                check_equal(text(client.get(*words)), 5000, words[0])


@suite.case('BITOP reads a key that is given several times once, and long ones end')
def _(run):
    with partition(**{'command-time-limit': '2s', 'batch-limit': '64mb'}) as cluster:
        with cluster.partition(0) as client, Oracle() as oracle, Connection(oracle.address, proto=2) as redis:
            for server in (client, redis):
                server.get('SET', 'a', bytes(range(256)) * 20)
                server.get('SET', 'b', bytes(range(255, -1, -1)) * 30)
                server.get('SET', 'c', b'\x0f' * 100)
                for keys in ('a a', 'a a a', 'b a b', 'a b a b', 'c c a', 'a c c c b'):
                    for operation in ('AND', 'OR', 'XOR'):
                        server.get('BITOP', operation, operation + keys, *keys.split())
            for keys in ('a a', 'a a a', 'b a b', 'a b a b', 'c c a', 'a c c c b'):
                for operation in ('AND', 'OR', 'XOR'):
                    check_equal(client.get('GET', operation + keys), redis.get('GET', operation + keys), '%s of %s' % (operation, keys))
            check_equal(client.get('BITOP', 'ONE', 'd', 'c', 'c', 'c'), 100, 'ONE')
            check_equal(client.get('GET', 'd'), bytes(100), 'ONE of equal keys')
            client.get('BITOP', 'ONE', 'd', 'c', 'a')
            check_equal(client.get('GET', 'd')[:16], bytes(byte ^ 15 for byte in range(16)), 'ONE of two keys')
            client.get('BITOP', 'DIFF', 'd', 'c', 'c', 'c')
            check_equal(client.get('GET', 'd'), bytes(100), 'DIFF with itself')
            client.get('SET', 'big', b'x' * 100000)
            for words in (('BITOP', 'AND', 'd'), ('BITOP', 'XOR', 'd')):
                check_equal(client.get(*words, *['big'] * 100000), 100000, ' '.join(words))


@suite.case('EXISTS, TOUCH and DEL of many big values hold the memory of one')
def _(run):
    with partition() as cluster:
        with cluster.partition(0) as client:
            client.get('SET', 'big', b'x' * 100000)
            for command, count in (('EXISTS', 2000), ('TOUCH', 2000), ('UNLINK', 1)):
                check_equal(client.get(command, *['big'] * 2000), count, command)


# ---- batch-limit ---------------------------------------------------------------------------------------------------

@suite.case('a script or EXEC that writes more than batch-limit is ended and rolled back')
def _(run):
    fill = "for i = 1, 400 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end return 'done'"
    with partition() as cluster:
        with cluster.partition(0) as client:
            value = b'v' * MB
            client.get('SET', 'source', value)
            got = check_grown(cluster.backends[0], 10 * BATCH, lambda: text(client.get('EVAL', fill, '1', 'k', value)), 'a script')
            check(got.startswith(OVER_BATCH), 'a script: %r' % got)
            caught = "for i = 1, 400 do redis.pcall('SET', KEYS[1] .. i, ARGV[1]) end return 'done'"
            check(text(client.get('EVAL', caught, '1', 'k', value)).startswith(OVER_BATCH), 'pcall catches it')

            got = check_grown(cluster.backends[0], 10 * BATCH, lambda: text(client.get(
                'EVAL', "for i = 1, 100 do redis.call('COPY', KEYS[1], i) end", '1', 'source')), 'COPY in a script')
            check(got.startswith(OVER_BATCH), 'COPY in a script: %r' % got)
            client.get('MULTI')
            for i in range(100):
                client.get('COPY', 'source', 'copy%d' % i)
            got = check_grown(cluster.backends[0], 10 * BATCH, lambda: text(client.get('EXEC')), 'EXEC')
            check_equal(got, OVER_BATCH, 'EXEC')
            check_equal(client.get('DBSIZE'), 1, 'keys')
            check_equal(text(client.get('EVAL', "for i = 1, 5 do redis.call('SET', KEYS[1], ARGV[1]) end return 1", '1', 'k',
                                        b'x' * (4 * MB))), 1, 'one key five times: one row of the WAL')


@suite.case('one value may be longer than batch-limit')
def _(run):
    with partition() as cluster:
        with cluster.partition(0) as client:
            check_equal(text(client.get('SET', 'k', b'v' * (2 * BATCH))), b'OK', 'SET')
            for words in (('APPEND', 'k', 'x'), ('SETRANGE', 'k', '5', 'y'), ('COPY', 'k', 'l'), ('SETBIT', 'k', '7', '1')):
                got = client.get(*words)
                check(isinstance(got, int), '%s: %r' % (words[0], got))
            check_equal(client.get('STRLEN', 'l'), 2 * BATCH + 1, 'the copy')


@suite.case('what a script or EXEC has written counts against max-bytes at once')
def _(run):
    limits = {'acme': {'token': 'acme', 'max-bytes': '4mb'}}
    with Cluster(backends=1, partitions=1, namespaces=limits, backend_options={'backend': {'durability': 'os'}}) as cluster:
        with cluster.connect() as client:
            client.get('AUTH', 'acme')
            oom = b'OOM command not allowed when the namespace has more than'
            def is_limited():
                got = text(client.get('EVAL', "for i = 1, 100 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end", '1', '{k}', b'v' * MB))
                if isinstance(got, bytes) and got.startswith(oom):
                    return True
                client.get('FLUSHALL')  # the shard did not know the limit yet
                return False
            wait_for(is_limited, 'the limit, which the proxy sends')
            check(client.get('DBSIZE') <= 5, 'keys of a script')
            client.get('FLUSHALL')
            wait_for(lambda: text(client.get('SET', '{k}source', b'v' * MB)) == b'OK', 'room')
            client.get('MULTI')
            for i in range(50):
                client.get('COPY', '{k}source', '{k}%d' % i)
            got = client.get('EXEC')
            check(isinstance(got, list) and text(got[-1]).startswith(oom), 'EXEC: %r' % got)
            check(client.get('DBSIZE') <= 6, 'keys of EXEC')


# ---- time ----------------------------------------------------------------------------------------------------------

@suite.case('a command that runs for longer than command-time-limit is ended')
def _(run):
    words = 'ERR the command ran for longer than command-time-limit, and has changed nothing'.encode()
    with partition(**{'command-time-limit': '50ms', 'command-memory': '1gb', 'batch-limit': '1gb'}) as cluster:
        with cluster.partition(0) as client:
            for start in range(0, 200000, 1000):
                client.send('SADD', 's', *range(start, start + 1000))
            for _ in range(200):
                check_equal(client.read()[0], ':', 'SADD')
            for command in (('SUNIONSTORE', 'd', 's'), ('COPY', 's', 'd'), ('SORT', 's', 'BY', 'nothing*', 'STORE', 'd')):
                check_equal(text(client.get(*command)), words, command[0])
            check_equal(client.get('EXISTS', 'd'), 0, 'the destination')


@suite.case('a message to a channel that is compared with many long patterns for too long is not sent, and a pattern of KEYS is not read to its end')
def _(run):
    words = 'ERR the command ran for longer than command-time-limit, and has changed nothing'.encode()
    patterns = ['*?' + 'a' * 16000 + '%03d*z' % i for i in range(40)]
    channel = 'a' * 200000 + 'z'
    with partition(**{'command-time-limit': '20ms'}) as cluster:
        with cluster.partition(0) as client, cluster.partition(0) as subscriber:
            subscriber.get('PSUBSCRIBE', *patterns, 'a*')
            for _ in patterns:
                subscriber.read()
            for command in (('PUBLISH', channel, 'x'), ('MPUBLISH', channel, 'x', 'y')):
                for how, reply in both_ways(client, *command):
                    check_equal(reply, words if how != 'in EXEC' else reply, '%s %s' % (command[0], how))
                    check(b'command-time-limit' in reply, '%s %s: %r' % (command[0], how, reply))
            check_equal(client.get('PUBLISH', 'aa', 'short'), 1, 'a short channel')
            check_equal(subscriber.read()[1][-1][1], b'short', 'the first message')
            client.get('SET', 'a' * 4000000 + 'z', 'v')
            for command in (('KEYS', patterns[0]), ('SCAN', '0', 'MATCH', patterns[0])):
                check_equal(text(client.get(*command)), words, command[0])


@suite.case('a t-digest that is asked for many estimates, or merged many times, is ended by command-time-limit')
def _(run):
    with partition(**{'command-time-limit': '50ms'}) as cluster:
        with cluster.partition(0) as client:
            check_equal(client.get('TDIGEST.CREATE', 't', 'COMPRESSION', 1000), b'OK', 'CREATE')
            for start in range(0, 40000, 2000):
                check_equal(client.get('TDIGEST.ADD', 't', *range(start, start + 2000)), b'OK', 'ADD')
            for name in ('QUANTILE', 'CDF', 'RANK', 'REVRANK', 'BYRANK', 'BYREVRANK'):
                reply = client.get('TDIGEST.' + name, 't', *([0.5 if name == 'QUANTILE' else 20000] * 200000))
                check('command-time-limit' in str(reply), 'TDIGEST.%s: %s' % (name, str(reply)[:100]))
            reply = client.get('TDIGEST.MERGE', 'd', 20000, *(['t'] * 20000))
            check('command-time-limit' in str(reply), 'TDIGEST.MERGE: %s' % str(reply)[:100])
            check_equal(client.get('EXISTS', 'd'), 0, 'the destination')


def pending_streams(client):
    """Two streams whose group has consumers with hundreds of pending entries each."""
    for key in ('x', 'y'):
        for i in range(700):
            client.send('XADD', key, '%d-1' % (i + 1), 'f', 'v')
        for _ in range(700):
            client.read()
        yield client.get('XGROUP', 'CREATE', key, 'g', '0')
        yield [len(client.get('XREADGROUP', 'GROUP', 'g', who, 'COUNT', count, 'STREAMS', key, '>')[0][1])
               for who, count in (('a', 100), ('b', 520))]


@suite.case('many pending entries, repeated streams and missing keys: the replies are those of redis-server')
def _(run):
    def replies(client):
        yield from pending_streams(client)
        yield text(client.get('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'x', 'y', 'x', 'x', '0', '>', '>', '>'))
        for words in (('XGROUP', 'DELCONSUMER', 'x', 'g', 'b'), ('XPENDING', 'x', 'g'), ('XGROUP', 'DELCONSUMER', 'x', 'g', 'b'),
                      ('XGROUP', 'DESTROY', 'y', 'g'), ('XADD', 'y', '900-1', 'f', 'v'), ('XGROUP', 'CREATE', 'y', 'g', '0'), ('XPENDING', 'y', 'g')):
            yield client.get(*words)
        client.get('SADD', 's', *range(50))
        client.get('SADD', 't', *range(40, 60))
        for name in ('SINTER', 'SUNION', 'SDIFF'):
            for keys in ('s t', 's none t', 'none s t', 's none', 'none none', 's none s', 'none s none'):
                yield name, keys, sorted(client.get(name, *keys.split()))

    with Oracle() as oracle, partition() as cluster:
        with cluster.partition(0) as ours, Connection(oracle.address) as theirs:
            check_equal(list(replies(ours)), list(replies(theirs)), 'the replies')
            ours.get('ZADD', 'z', *[word for i in range(400) for word in (i, 'm%d' % i)])
            for _ in range(20):
                got = ours.get('ZRANDMEMBER', 'z', '20')
                check(len(set(got)) == 20 and set(got) <= {b'm%d' % i for i in range(400)}, 'ZRANDMEMBER: %r' % got)


@suite.case('missing keys and corners of a polygon, for each member, end at command-time-limit')
def _(run):
    with partition(**{'command-time-limit': '50ms'}) as cluster:
        with cluster.partition(0) as client:
            for first in range(0, 40000, 1000):
                client.get('GEOADD', 'geo', *[word for i in range(first, first + 1000) for word in (i % 10, i % 7, 'm%d' % i)])
            corners = [word for i in range(50000) for word in (i * 10 / 50000, '7.5' if i % 2 else '7')] + [10, -1, 0, -1]
            for words in (('ZDIFF', '50001', 'geo', *['none%d' % i for i in range(50000)]),
                          ('GEOSEARCH', 'geo', 'BYPOLYGON', len(corners) // 2, *corners)):
                got = text(client.get(*words))
                check(b'command-time-limit' in got, '%s: %r' % (words[0], got[:200]))


@suite.case('FUNCTION RESTORE of libraries that each take long to load ends at command-time-limit, and adds none')
def _(run):
    with partition(**{'command-time-limit': '10s'}) as cluster:  # a slow machine needs more than 100 ms for one
        with cluster.partition(0) as client:
            for i in range(20):
                code = '#!lua name=l%d\nfor _ = 1, 4000000 do end ' % i
                got = client.get('FUNCTION', 'LOAD', code + "redis.register_function('f%d', function() return 1 end)" % i)
                check_equal(got, b'l%d' % i, 'LOAD')
            libraries = client.get('FUNCTION', 'DUMP')
            check_equal(client.get('FUNCTION', 'FLUSH'), b'OK', 'FLUSH')
            check_equal(client.get('CONFIG', 'SET', 'command-time-limit', '100ms'), b'OK')
            got = text(client.get('FUNCTION', 'RESTORE', libraries))
            check(b'command-time-limit' in got, 'RESTORE: %r' % got)
            check_equal(client.get('FUNCTION', 'LIST'), [], 'the libraries')


def library(name, loop):
    return '#!lua name=%s\n%s redis.register_function("%s", function() return 1 end)' % (name, loop, name)


@suite.case('stored libraries that take long to load do not hold a shard: a command that loads them ends at command-time-limit, and the next one goes on; each loads one, however long that takes')
def _(run):
    names = [b'l%02d' % i for i in range(20)]
    loops = dict.fromkeys(names, 2000000)
    loops[b'l10'] *= 10
    with partition() as cluster:
        backend = cluster.backends[0]

        def log_in(limit):
            client = cluster.partition(0)
            check_equal(text(client.get('CONFIG', 'SET', 'command-time-limit', limit)), b'OK')
            for words in (('SCREE', 'AUTH', cluster.secret), ('SCREE', 'USE', 'tenant', '0')):
                check_equal(text(client.get(*words)), b'OK')
            return client
        client = log_in('5s')
        for name in names:
            check_equal(client.get('FUNCTION', 'LOAD', library(name.decode(), 'for _ = 1, %d do end' % loops[name])), name, 'LOAD')
        for words in (('FCALL', 'l03', '0'), ('FUNCTION', 'LIST')):
            backend.kill9()
            backend.start()
            client = log_in('20ms')
            replies = []

            def is_loaded():
                replies.append(client.get(*words))
                return not isinstance(replies[-1], ReplyError)
            wait_for(is_loaded, 'the libraries')
            check(len(replies) > 1 and b'command-time-limit' in text(replies[0]), 'the first reply: %r' % replies[0])
            check_equal(sorted(row[1] for row in client.get('FUNCTION', 'LIST')), names)
            check_equal([client.get('FCALL', name, '0') for name in names], [1] * len(names))


@suite.case('a stored library that needs more than two seconds to load is given up: its functions are missing, and those behind it load')
def _(run):
    with partition(**{'command-time-limit': '1m'}) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            for name, code in ((b'm', library('m', 'local n = 9 while n > 0 do n = n - 1 end')), (b'z', library('z', ''))):
                check_equal(client.get('FUNCTION', 'LOAD', code), name)
        backend.kill9()
        replace(os.path.join(backend.data, 'partition-0'), b'n = n - 1', b'n = n - 0')
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('FCALL', 'z', '0'), 1)
            check(b'library_lost' in backend.log(), 'the lost library is in the log')
            check(isinstance(client.get('FCALL', 'm', '0'), ReplyError), 'its function is missing')
            check_equal([row[1] for row in client.get('FUNCTION', 'LIST')], [b'z'])


@suite.case('a command that gets no CPU for a time is not ended by command-time-limit')
def _(run):
    with partition(**{'command-time-limit': '1500ms'}) as cluster:
        with cluster.partition(0) as client:
            prepare_long(client)
            loop = "local stop = os.clock() + 0.5 while os.clock() < stop do end return 'done'"
            for words in (['JSON.GET', 'j', *LONG_PATHS[:2]], ['EVAL', loop, '0']):
                slow = begin_until(lambda: is_busy(client), lambda words=words: Background(cluster.backends[0].addresses[0], *words))
                cluster.backends[0].pause()
                time.sleep(2)
                cluster.backends[0].resume()
                check(slow.finish().startswith((b'{"$[?(', b'done')), 'the reply of %s' % words[0])


@suite.case('the limits of a namespace hold for its commands only')
def _(run):
    def ini(memory, time_limit):
        return {'small': {'token': 'small', 'command-memory': memory, 'command-time-limit': time_limit}, 'other': {'token': 'other'}}
    document = '[' + ','.join(['[]'] * 100000) + ']'
    loop = "redis.call('SET', KEYS[1], 'half') for i = 1, 1e10 do end"
    with Cluster(backends=2, partitions=1, namespaces=ini('8mb', '1s')) as cluster:
        small, other = cluster.connect(), cluster.connect()
        small.get('AUTH', 'small')
        other.get('AUTH', 'other')
        over = b'ERR the command needs more than %d bytes of memory (command-memory), and has changed nothing' % (8 * MB)
        key = cluster.key_on(1)
        for words in (('JSON.SET', key, '$', document),):
            for how, got in both_ways(small, *words, key=key):
                check_equal(got, over, '%s %s' % (words[0], how))
            check_equal(text(other.get(*words)), b'OK', 'another namespace')
        check_equal(small.get('EXISTS', key), 0, 'its key')
        check(b'longer than command-time-limit' in text(small.get('EVAL', loop, '1', key)), 'a script')
        check_equal(small.get('EXISTS', key), 0, 'nothing half-written')
        cluster.proxies[0].namespaces.update(ini('0', '0'))
        cluster.proxies[0].write_config()
        cluster.proxies[0].reload()
        wait_for(lambda: text(small.get('JSON.SET', key, '$', document)) == b'OK', 'the limits to be gone after a reload')


# ---- commands that run for long ------------------------------------------------------------------------------------

LONG_PATHS = ['$[?($[?($[?(@.z==1)])])]'] * 2000  # minutes
ENDED = b'ERR the command was ended by SCREE KILL, and has changed nothing'


def prepare_long(client, key='j'):
    client.get('CONFIG', 'SET', 'busy-reply-threshold', '20')
    client.get('JSON.SET', key, '$', '[' + ','.join('{"a":%d}' % i for i in range(130)) + ']')


def running(client):
    """The slow commands, as dictionaries."""
    got = client.get('SCREE', 'RUNNING')
    return [dict(zip(item[::2], item[1::2])) for item in got]


@suite.case('while a command runs for long others get BUSY, see it in SCREE RUNNING, and can end it')
def _(run):
    with partition(**{'command-time-limit': '0'}) as cluster:
        with cluster.partition(0) as client:
            address = cluster.backends[0].addresses[0]
            prepare_long(client)
            check_equal(running(client), [], 'nothing runs')
            slow = Background(address, 'JSON.GET', 'j', *LONG_PATHS)
            wait_busy(client)
            wait_for(lambda: running(client), 'SCREE RUNNING')
            item = running(client)[0]
            check_equal(item[b'command'], b'json.get', 'the command')
            check(item[b'ms'] >= 20, 'its time: %r' % item)
            check_equal(text(client.get('SCREE', 'KILL', 'other')), b'ERR no slow command has this id', 'another id')
            check_equal(text(client.get('SCREE', 'KILL', item[b'id'])), b'OK', 'KILL')
            check_equal(slow.finish(), ENDED, 'its reply')
            wait_free(client)
            slow = Background(address, 'EXEC', before=[('MULTI',), ('SET', 'k', 'v'), ('JSON.GET', 'j', *LONG_PATHS)])
            wait_busy(client)
            check_equal(text(client.get('SCREE', 'KILL', running(client)[0][b'id'])), b'OK', 'KILL of EXEC')
            check_equal(slow.finish(), ENDED, 'the reply of EXEC')
            wait_free(client)
            check_equal(client.get('EXISTS', 'k'), 0, 'what EXEC wrote')
            before = [('SET', 'x', 'y')] * 5 + [('GET', 'x')] * 5
            slow = begin_until(lambda: is_busy(client), lambda: Background(address, 'JSON.GET', 'j', *LONG_PATHS[:8], before=before))
            check(slow.finish().startswith(b'{"$[?('), 'a slow command that may end')
            check_equal([reply[1] for reply in slow.replies[:-1]], [b'OK'] * 5 + [b'y'] * 5, 'replies before its reply')


@suite.case('writes that ran in the turn of a slow command are acknowledged while it runs, and requests behind them get BUSY')
def _(run):
    with partition(**{'command-time-limit': '0'}) as cluster:
        with cluster.partition(0) as client, cluster.partition(0) as writer:
            backend = cluster.backends[0]
            prepare_long(client)
            for before in ([], [('MULTI',), ('SET', 'n', 'v')]):
                backend.signal(signal.SIGSTOP)  # so that both are read in one turn
                writer.send_many([('SET', 'k', 'v'), ('GET', 'k')])
                words = ('EXEC',) if before else ('JSON.GET', 'j', *LONG_PATHS)
                slow = Background(backend.addresses[0], *words, before=before + [('JSON.GET', 'j', *LONG_PATHS)] if before else ())
                backend.signal(signal.SIGCONT)
                wait_for(lambda: running(client), 'SCREE RUNNING')
                check_equal(writer.read(), ('+', b'OK'), 'SET')
                reply = writer.read()
                check(reply == ('$', b'v') or reply[1].startswith(b'BUSY A command'), 'the reply behind it: %r' % (reply,))
                check_equal(text(client.get('SCREE', 'KILL', running(client)[0][b'id'])), b'OK', 'SCREE KILL')
                check_equal(slow.finish(), ENDED, 'its reply')
                wait_free(client)
            check_equal(client.get('EXISTS', 'n'), 0, 'what EXEC wrote')


@suite.case('through the proxy SCREE RUNNING lists all shards, and SCREE KILL reaches the right one')
def _(run):
    with Cluster(backends=3, partitions=1, backend_options={'backend': {'command-time-limit': '0'}}) as cluster:
        with cluster.connect() as client:
            keys = [cluster.key_on(shard) for shard in range(2)]
            for key in keys:
                prepare_long(client, key)
            slow = [Background(cluster.proxies[0].address, 'JSON.GET', key, *LONG_PATHS) for key in keys]
            wait_for(lambda: len(running(client)) == 2, 'both in SCREE RUNNING')
            for item in running(client):
                check_equal(text(client.get('SCREE', 'KILL', item[b'id'])), b'OK', 'KILL')
            for command in slow:
                check_equal(command.finish(), ENDED, 'its reply')


# ---- what is kept of each command of a script ----------------------------------------------------------------------

REPEAT = 'for _ = 1, ARGV[1] do redis.pcall(unpack(ARGV, 2)) end'
REPEATS = 10000 if is_sanitized(binary('scree-backend')) else 500000


@suite.case('a script over shards of very many commands holds nothing of each, and all are counted')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster:
        cluster.wait_linked()
        backend, key = cluster.backends[0], cluster.key_on(0)
        with cluster.connect() as client, cluster.partition(0) as shard:
            check_equal(text(client.get('SET', key, 'v')), b'OK', 'SET')
            for slower_than, what in ((-1, 'commands'), (0, 'slow commands')):
                check_equal(text(shard.get('CONFIG', 'SET', 'slowlog-log-slower-than', slower_than)), b'OK', what)
                for words in (['UNKNOWN', key], ['SUBSCRIBE', key], ['LLEN', key], ['GET', key])[2 if slower_than == 0 else 0:]:
                    shard.get('CONFIG', 'RESETSTAT')
                    check_grown(backend, 8 * MB, lambda words=words: client.get('EVAL', REPEAT, '1', key, REPEATS, *words),
                                '%s, %s' % (what, words[0]))
                    check_counted(shard, words[0])
                    if slower_than == 0:
                        logged = [row[3] for row in shard.get('SLOWLOG', 'GET', '-1')]
                        check(logged.count([word.encode() for word in words]) > 100, 'the slow log: %r' % logged)


def check_counted(shard, name):
    """The shard has counted REPEATS runs of the command, by how they end."""
    stats = text(shard.get('INFO', 'commandstats', 'errorstats')).decode()
    wanted = {'GET': 'cmdstat_get:calls=%d,', 'LLEN': 'failed_calls=%d', 'SUBSCRIBE': 'rejected_calls=%d', 'UNKNOWN': 'errorstat_ERR:count=%d'}
    check(wanted[name] % REPEATS in stats, '%s: %s' % (name, stats))
    if name == 'LLEN':
        check('errorstat_WRONGTYPE:count=%d' % REPEATS in stats, stats)


# ---- clients that leave while their command runs -------------------------------------------------------------------

LOOP = "redis.call('SET', KEYS[1], 'half') while true do end"


def long_writes(key, document):
    """Commands that write, and run for minutes: alone, in MULTI and in a script; each with the commands before it."""
    unchanged = (document, '$[?(@.a==0 || $[?($[?(@.z==1)])])]', '{"a":0}')
    return [('JSON.MSET', [], ['JSON.MSET', *unchanged * 2000]),
            ('EXEC', [('MULTI',), ('SET', key, 'half'), ('JSON.GET', document, *LONG_PATHS)], ['EXEC']),
            ('EVAL', [], ['EVAL', LOOP, '1', key])]


def break_off(connection):
    """Resets the connection: the peer learns at once that nobody reads from it."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    connection.sock.close()


def killed(cluster):
    return sum(metric(backend.http('/metrics')[1], 'scree_backend_commands_killed_total') for backend in cluster.backends)


def check_ends(cluster, leave, what):
    before = killed(cluster)
    leave()
    wait_for(lambda: killed(cluster) > before, '%s to end' % what)


@suite.case('a client that is killed, or whose connection breaks, leaves no long command and nothing half-written behind')
def _(run):
    with partition(**{'command-time-limit': '0'}) as cluster:
        address = cluster.backends[0].addresses[0]
        with cluster.partition(0) as client:
            prepare_long(client)
            for how in ('CLIENT KILL', 'a broken connection'):
                for name, before, words in long_writes('k', 'j'):
                    victim = Connection(address, patience())
                    number = victim.get('CLIENT', 'ID')
                    victim.send_many([*before, words])
                    wait_busy(client)
                    kill = lambda number=number: check_equal(text(client.get('CLIENT', 'KILL', 'ID', number)), 1, 'CLIENT KILL')
                    check_ends(cluster, kill if how == 'CLIENT KILL' else lambda victim=victim: break_off(victim),
                               '%s after %s' % (name, how))
                    wait_free(client)
                    check_equal(client.get('EXISTS', 'k'), 0, '%s after %s' % (name, how))
                    check_equal(client.get('JSON.GET', 'j', '$[0]'), b'[{"a":0}]', 'the document')
                    victim.sock.close()


@suite.case('a closed connection ends a long command that only reads, and writes that were sent are done')
def _(run):
    with partition(**{'command-time-limit': '0'}) as cluster:
        address = cluster.backends[0].addresses[0]
        with cluster.partition(0) as client:
            prepare_long(client)
            for words in (['JSON.GET', 'j', *LONG_PATHS], ['EVAL_RO', 'while true do end', '0']):
                reader = Connection(address, patience())
                reader.send_many([words])
                wait_busy(client)
                check_ends(cluster, lambda reader=reader: reader.sock.shutdown(socket.SHUT_WR), words[0])
                check(text(reader.read()[1]).startswith(b'ERR the command was ended because its client has left'), 'the reply')
                reader.sock.close()
                wait_free(client)
            before = [('MULTI',), ('SET', 'k', 'v'), ('JSON.GET', 'j', *LONG_PATHS[:8])]
            writer = begin_until(lambda: is_busy(client), lambda: Background(address, 'EXEC', before=before))
            writer.connection.sock.shutdown(socket.SHUT_WR)
            check_equal(writer.finish()[0], ('+', b'OK'), 'the reply of EXEC')
            check_equal(client.get('GET', 'k'), b'v', 'what EXEC wrote')


@suite.case('through the proxy, a client that leaves ends its own long command at each shard, and no other client\'s')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, backend_options={'backend': {'command-time-limit': '0'}}) as cluster:
        address = cluster.proxies[0].address
        cluster.wait_linked()
        with cluster.connect() as client:
            documents = [cluster.key_on(shard) for shard in range(3)]
            for document in documents:
                prepare_long(client, document)
            for document in documents:
                for name, before, words in long_writes('{%s}k' % document, document):
                    victim = Connection(address, patience())
                    number = victim.get('CLIENT', 'ID')
                    victim.send_many([*before, words])
                    wait_for(lambda: running(client), name)
                    next_in_line = Background(address, 'JSON.GET', document, *LONG_PATHS[:2])
                    if name == 'EXEC':
                        check_ends(cluster, lambda number=number: client.get('CLIENT', 'KILL', 'ID', number), name)
                    else:
                        check_ends(cluster, lambda victim=victim: break_off(victim), name)
                    got = next_in_line.finish()
                    check(got.startswith((b'{"$[?(', b'BUSY ')), 'another client of the connection: %r' % got[:80])
                    wait_for(lambda: client.get('EXISTS', '{%s}k' % document) == 0, 'nothing half-written')
                    check_equal(client.get('JSON.GET', document, '$[0]'), b'[{"a":0}]', 'the document')
            readers = [Connection(address, patience()) for _ in documents]
            for reader, document in zip(readers, documents):
                reader.send_many([['JSON.GET', document, *LONG_PATHS]])
            wait_for(lambda: len(running(client)) == 3, 'a command at each shard')
            before = killed(cluster)
            for reader in readers:
                reader.sock.close()
            wait_for(lambda: killed(cluster) == before + 3, 'all three to end')
            victim = Connection(address, patience())
            victim.send_many([['EVAL', "redis.call('SET', KEYS[1], 'half') redis.call('SET', KEYS[2], 'half') while true do end", '2',
                               documents[0] + 'x', documents[1] + 'y']])
            wait_for(lambda: running(client), 'a script over two shards')
            check_ends(cluster, lambda: break_off(victim), 'the script')
            wait_for(lambda: not running(client), 'its end')
            check_equal(client.get('EXISTS', documents[0] + 'x', documents[1] + 'y'), 0, 'nothing half-written')


if __name__ == '__main__':
    suite.main()
