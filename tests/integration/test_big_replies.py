#!/usr/bin/python3
"""Replies of big collections: the state at the time of the command, in order, produced as the client reads, with
bounded memory.
"""

import contextlib
import os

from support.cluster import Cluster, evict_all, is_sanitized
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Closed, value

FIELDS = 100000
PAD = 'x' * 100

suite = Suite(__doc__)


def server(**backend):
    return Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': backend})


def row(i):
    return ['f%07d' % i, '%07d%s' % (i, PAD)]


def fill(client, count=FIELDS):
    """Adds a hash, a set and a list with so many rows; a reply with any of them is much larger than socket buffers."""
    for start in range(0, count, 500):
        rows = [row(i) for i in range(start, start + 500)]
        client.pipeline([['HSET', 'hash'] + sum(rows, []), ['SADD', 'set'] + [both[1] for both in rows],
                         ['RPUSH', 'list'] + [both[1] for both in rows]])


def texts(items):
    return [item.decode() for item in items]


@suite.case('every command whose reply is a collection streams it completely, and later requests are answered after it, in order')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        fill(client)
        rows = [row(i) for i in range(FIELDS)]
        want = [[text for r in rows for text in r], [r[0] for r in rows], [r[1] for r in rows], [r[1] for r in rows],
                [r[1] for r in rows], [r[1] for r in rows[10:-10]], [r[1] for r in rows]]
        got = client.pipeline([['HGETALL', 'hash'], ['HKEYS', 'hash'], ['HVALS', 'hash'], ['SMEMBERS', 'set'],
                               ['LRANGE', 'list', '0', '-1'], ['LRANGE', 'list', '10', '-11'],
                               ['LRANGE', 'list', '0', '-1'], ['PING'], ['HLEN', 'hash']])
        for number, reply in enumerate(want):
            have = texts(value(got[number]))
            check((sorted(have) if number == 3 else have) == reply, 'reply %d differs' % number)
        check_equal(got[7:], [('+', b'PONG'), (':', b'%d' % FIELDS)])


@suite.case('sorted sets by rank, score and name, and KEYS, are streamed completely too')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        count = 30000
        names = ['n%06d' % i for i in range(count)]
        for start in range(0, count, 500):
            part = range(start, start + 500)
            client.pipeline([['ZADD', 'zset'] + [word for i in part for word in (str(i // 3), names[i])],
                             ['ZADD', 'names'] + [word for i in part for word in ('0', names[i])],
                             ['MSET'] + [word for i in part for word in ('key:' + names[i], 'v')]])
        client.call('SET', 'other', 'v')
        client.call('PEXPIREAT', 'key:' + names[5], '1')  # expired when it is read
        client.call('DEL', 'key:' + names[7])
        ranks = texts(value(client.call('ZRANGE', 'zset', '0', '-1')))
        check_equal(ranks, names)
        for query, want in [
                (['ZREVRANGE', 'zset', '0', '-1'], names[::-1]),
                (['ZRANGE', 'zset', '100', '-100', 'REV'], names[::-1][100:-99]),
                (['ZRANGEBYSCORE', 'zset', '10', '(9000'], names[30:27000]),
                (['ZREVRANGEBYSCORE', 'zset', '9000', '-inf', 'LIMIT', '10', '20000'], names[:27003][::-1][10:20010]),
                (['ZRANGEBYSCORE', 'zset', '-inf', '+inf', 'LIMIT', '100', '-1'], names[100:]),
                (['ZRANGEBYLEX', 'names', '[n000100', '(n020000'], names[100:20000]),
                (['ZREVRANGEBYLEX', 'names', '+', '-'], names[::-1])]:
            check(texts(value(client.call(*query))) == want, '%s differs' % ' '.join(query))
        scores = texts(value(client.call('ZRANGE', 'zset', '0', '-1', 'WITHSCORES')))
        check(scores[::2] == names and scores[1::2] == [str(i // 3) for i in range(count)], 'the scores differ')
        want = sorted('key:' + name for i, name in enumerate(names) if i not in (5, 7))
        got = client.pipeline([['SET', 'late', 'v'], ['KEYS', 'key:*'], ['PING'], ['KEYS', '*e*r'], ['KEYS', 'nothing*'],
                               ['MULTI'], ['KEYS', 'key:n00000[0-9]'], ['EXEC'], ['DBSIZE']])
        check(sorted(texts(value(got[1]))) == want, 'KEYS differs')
        check_equal(got[2], ('+', b'PONG'))
        check_equal([texts(value(reply)) for reply in got[3:5]], [['other'], []])
        check_equal(sorted(texts(value(got[7])[0])), ['key:n00000%d' % i for i in range(10) if i not in (5, 7)])


@suite.case('ranges of a stream are streamed completely')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        ids = ['%d-1' % i for i in range(1, 10001)]
        for start in range(0, len(ids), 500):
            client.pipeline([['XADD', 'stream', name, 'field', PAD, 'id', name] for name in ids[start:start + 500]])
        for query, want in [
                (['XRANGE', 'stream', '-', '+'], ids),
                (['XRANGE', 'stream', '100', '(9000-1', 'COUNT', '5000'], ids[99:5099]),
                (['XREVRANGE', 'stream', '+', '-'], ids[::-1]),
                (['XREVRANGE', 'stream', '9000-1', '50'], ids[49:9000][::-1])]:
            entries = value(client.call(*query))
            check([entry[0].decode() for entry in entries] == want, '%s differs' % ' '.join(query))
            check(all(entry[1][3] == entry[0] for entry in entries), 'fields of %s differ' % ' '.join(query))
        [[name, entries]] = value(client.call('XREAD', 'STREAMS', 'stream', '10'))
        check(name == b'stream' and [entry[0].decode() for entry in entries] == ids[9:], 'XREAD differs')
        both = value(client.call('XREAD', 'COUNT', '3000', 'STREAMS', 'stream', 'stream', '0', '5000'))
        check([[entry[0].decode() for entry in part[1]] for part in both] == [ids[:3000], ids[4999:7999]], 'XREAD of two')


@suite.case('KEYS replies with the keys at the time of the command, also when others write, or when its client disconnects')
def _(run):
    with server() as cluster, cluster.partition(0) as reader, cluster.partition(0) as writer:
        count = 20000
        for start in range(0, count, 500):
            writer.call(*['MSET'] + [word for i in range(start, start + 500) for word in ('k%d' % i, 'v')])
        for _ in range(3):
            reader.send('KEYS', 'k*')
            replies = writer.pipeline([['DEL', 'k%d' % i] if i % 200 else ['SET', 'k%d' % i, 'w'] for i in range(0, count, 100)] + [['SET', 'x%d' % i, 'v'] for i in range(500)])
            check(all(kind in '+:' for kind, _ in replies), 'a write failed')
            names = texts(value(reader.read()))
            check(len(set(names)) == len(names) and count - 200 <= len(names) <= count, '%d keys' % len(names))
        gone = [cluster.partition(0) for _ in range(20)]
        for client in gone:
            client.send('KEYS', '*')
        for client in gone:
            client.close()
        wait_for(lambda: writer.get('CLIENT', 'LIST').count(b'\n') == 2, 'the clients to go')
        check_equal(writer.get('PING'), b'PONG')


@suite.case('KEYS does not show keys that were deleted just before, not even as the first ones')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        client.call(*['MSET'] + [word for i in range(3000) for word in ('k%d' % i, 'v')])
        evict_all(client)
        names = texts(value(client.call('KEYS', '*')))
        for count in (1, 2, 600):
            client.pipeline([['DEL', name] for name in names[:count]])
            names = names[count:]
            check_equal(texts(value(client.call('KEYS', '*'))), names)


@suite.case('a slow reader gets the hash as it was at the command, whatever is written later')
def _(run):
    with server() as cluster, cluster.partition(0) as reader, cluster.partition(0) as writer:
        fill(writer)
        writer.call('HSET', 'hash', 'f0099999', 'the last write')  # possibly not on the disk yet
        want = dict(row(i) for i in range(FIELDS))
        want['f0099999'] = 'the last write'
        reader.send('HGETALL', 'hash')
        reader.send('HGET', 'hash', 'new')
        wait_for(lambda: b'cmdstat_hgetall:calls=1,' in writer.get('INFO', 'commandstats'), 'the command to run')
        writer.pipeline([['HSET', 'hash', row(i)[0], 'changed'] for i in range(0, FIELDS, 7)] +
                        [['HDEL', 'hash', row(i)[0]] for i in range(1, FIELDS, 7)] +
                        [['HSET', 'hash', 'f%07dnew' % i, 'new'] for i in range(2, FIELDS, 7)])
        writer.call('DEL', 'hash')
        writer.call('HSET', 'hash', 'new', 'hash')
        items = texts(value(reader.read()))
        check(dict(zip(items[::2], items[1::2])) == want and len(items) == 2 * FIELDS, 'not the state at the command')
        check_equal(reader.read(), ('$', b'hash'))


@suite.case('a push message for the client comes after the reply in progress')
def _(run):
    with server() as cluster, cluster.partition(0) as reader, cluster.partition(0) as writer:
        fill(writer)
        reader.call('HELLO', '3')
        reader.call('SUBSCRIBE', 'channel')
        reader.send('HGETALL', 'hash')
        wait_for(lambda: b'cmdstat_hgetall:calls=1,' in writer.get('INFO', 'commandstats'), 'the command to run')
        for number in range(3):
            writer.call('PUBLISH', 'channel', str(number))
        kind, items = reader.read()
        check_equal((kind, len(items)), ('%', 2 * FIELDS))
        for number in range(3):
            check_equal(reader.read(), ('>', [('$', b'message'), ('$', b'channel'), ('$', b'%d' % number)]))


@suite.case('clients that do not read take little memory, and can be killed or disconnected during a reply')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        backend = cluster.backends[0]
        fill(client)
        before = backend.rss_bytes()
        readers = [cluster.partition(0) for _ in range(10)]
        for reader in readers:
            reader.send('HGETALL', 'hash')
        wait_for(lambda: client.get('CLIENT', 'LIST').count(b'cmd=hgetall') == 10, 'the commands to run')
        grown = backend.rss_bytes() - before
        run.note('10 replies of 12 MB that nobody reads: %.1f MB' % (grown / 1e6))
        check(is_sanitized(backend.argv[0]) or grown < 64e6, 'grew by %d bytes' % grown)
        for line in client.get('CLIENT', 'LIST').decode().split('\n')[:6]:
            fields = dict(pair.split('=', 1) for pair in line.split() if '=' in pair)
            if fields['cmd'] == 'hgetall':
                check_equal(client.get('CLIENT', 'KILL', 'ID', fields['id']), 1)
        readers.pop().close()
        check_equal(client.get('HLEN', 'hash'), FIELDS)
        backend.stop()
        for reader in readers:
            try:
                reader.read()
                check(False, 'a whole reply from a server that is gone')
            except (Closed, ConnectionError):
                reader.close()


@suite.case('client-output-limit does not count the reply of one command')
def _(run):
    with server(**{'client-output-limit': '1mb'}) as cluster, cluster.partition(0) as client:
        big = b'v' * 20_000_000
        check_equal(client.call('SET', 'big', big), ('+', b'OK'))
        for _ in range(3):
            check(client.get('GET', 'big') == big, 'another value')


@suite.case('slow readers get a big value as it was at the command: overwritten, deleted, and gone from buffers and caches')
def _(run):
    with server() as cluster, cluster.partition(0) as client, contextlib.ExitStack() as stack:
        values = [bytes([65 + i]) * 30_000_000 for i in range(3)]
        readers = []

        def begin_to_read(*words):
            """Sends a command, and waits until it is executed; nothing of its reply is read."""
            calls = b'cmdstat_%s:calls=' % words[0].lower().encode()
            before = client.get('INFO', 'commandstats')
            readers.append(stack.enter_context(cluster.partition(0)))
            readers[-1].send(*words)
            wait_for(lambda: count(client.get('INFO', 'commandstats'), calls) > count(before, calls), '%s to be executed' % words[0])

        def count(stats, calls):
            return int(stats.split(calls)[1].split(b',')[0]) if calls in stats else 0
        check_equal(client.call('SET', 'big', values[0]), ('+', b'OK'))
        begin_to_read('GET', 'big')
        begin_to_read('GETRANGE', 'big', 5, -6)
        check_equal(client.call('SET', 'big', values[1]), ('+', b'OK'))
        evict_all(client)
        begin_to_read('GET', 'big')
        begin_to_read('GET', 'big')
        done = client.pipeline([['MULTI'], ['SET', 'big', values[2]], ['GET', 'big'], ['EXEC'], ['DEL', 'big']])
        check(done[3][1][1] == ('$', values[2]), 'another value in EXEC')
        evict_all(client)
        check(client.get('GET', 'big') is None, 'the key is there')
        for reader, want in zip(readers, (values[0], values[0][5:-5], values[1], values[1])):
            check(reader.read() == ('$', want), 'another value')


@suite.case('reading a value of 100 MB takes its size once beside the store, and afterwards no memory')
def _(run):
    with server() as cluster, cluster.partition(0) as client:
        backend = cluster.backends[0]
        big = os.urandom(1 << 20) * 100
        check_equal(client.call('SET', 'big', big), ('+', b'OK'))
        wait_for(lambda: int(client.get('INFO', 'memory').split(b'mem_aof_buffer:')[1].split()[0]) < 1 << 20,
                 'the value to be in the tables')
        before = backend.rss_bytes()
        backend.forget_peak()
        check(client.get('GET', 'big') == big, 'another value')
        peak, after = backend.peak_rss_bytes() - before, backend.rss_bytes() - before
        run.note('GET of 105 MB: %.0f MB at its peak, %.0f MB after' % (peak / 1e6, after / 1e6))
        check(is_sanitized(backend.argv[0]) or (peak < 1.5 * len(big) and after < 0.5 * len(big)),
              'grew by %d bytes, by %d after' % (peak, after))


if __name__ == '__main__':
    suite.main()
