#!/usr/bin/python3
"""Administration at the proxy: slow log, latency, MONITOR, pauses, hot and big keys."""

import errno
import hashlib
import re
import socket
import threading
import time

from support.cluster import Cluster, Oracle
from support.disk import SYNC_LOG, FaultyDisk
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Closed, Connection, ReplyError

suite = Suite(__doc__)

NAMESPACES = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}


def cluster_of(**options):
    options.setdefault('namespaces', NAMESPACES)
    options.setdefault('proxy_options', {'proxy': {'requirepass': 'outside'}})
    return Cluster(backends=2, partitions=1, **options)


def enter(cluster, *login, proto=2):
    connection = cluster.connect(proto=proto)
    check_equal(connection.get('AUTH', *login), b'OK', 'AUTH')
    return connection


def is_error(reply, text):
    return isinstance(reply, ReplyError) and text in str(reply)


def commands_processed(client):
    return int(re.search(rb'total_commands_processed:(\d+)', client.get('INFO', 'stats')).group(1))


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


# ---- SLOWLOG -----------------------------------------------------------------------------------------------------

def slow_words(connection, count='-1'):
    return [entry[3] for entry in connection.get('SLOWLOG', 'GET', count)]


@suite.case('SLOWLOG has the commands that a stopped shard made slow, with their client and the shard')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'outside') as client:
        slow_key, fast_key = cluster.key_on(0), cluster.key_on(1)
        check_equal(client.get('CLIENT', 'SETNAME', 'worker'), b'OK')
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '1000000'), b'OK')  # others take less
        check_equal([client.get('SET', key, 'v') for key in (slow_key, fast_key)], [b'OK'] * 2)
        check_equal(admin.get('SLOWLOG', 'RESET'), b'OK')
        cluster.backends[0].pause()
        began = time.monotonic()
        client.send('SET', slow_key, 'x' * 200)
        check_equal(admin.get('GET', fast_key), b'v')
        wait_for(lambda: time.monotonic() - began > 1.5, 'the request to be slow')
        cluster.backends[0].resume()
        check_equal(client.read()[1], b'OK')
        # on a busy machine another command may take a second, too
        entry, = [entry for entry in admin.get('SLOWLOG', 'GET', '-1') if entry[3][:2] == [b'SET', slow_key.encode()]]
        number, at, usec, argv, address, name = entry
        check_equal(argv, [b'SET', slow_key.encode(), b'x' * 128 + b'... (72 more bytes)'])
        check(1000000 < usec and abs(at - time.time()) < 60, 'times %r' % entry)
        check(address.startswith(b'127.0.0.1:') and name == b'worker', 'client %r' % entry)
        both = pairs(admin.get('SCREE', 'SLOWLOG'))
        check_equal(len(both), 3, 'logs')
        own, = [each for each in both[b'proxy'] if each[0] == number]
        check_equal(own[:6], entry)
        check_equal(own[6], b'', 'namespace')
        check(own[7] in both and 1000000 < own[8] <= usec, 'shard %r' % own)
        check(admin.get('SLOWLOG', 'LEN') >= 1, 'its length')


@suite.case('SLOWLOG at threshold 0: arguments cut as by Redis, secrets hidden, newest kept')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, Oracle() as oracle:
        with Connection(oracle.address) as redis:
            texts = []
            for connection in (admin, redis):
                connection.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
                connection.get('SLOWLOG', 'RESET')
                connection.get('SET', 'k', 'v' * 128)
                connection.get('SET', 'k', 'v' * 129)
                connection.get('SET', 'k', 'v' * 100000)
                connection.get('DEL', *['key%d' % i for i in range(31)])
                connection.get('DEL', *['k%d' % i for i in range(100)])
                connection.get('CONFIG', 'SET', 'requirepass', 'outside')
                connection.get('AUTH', 'outside')
                connection.get('HELLO', '2')
                connection.get('PING')
                texts.append(slow_words(connection))
            # The proxy keeps the first 256 bytes of a request: of DEL with 100 keys, fewer than 31 keys.
            for words in texts:
                long = [entry for entry in words if len(entry) > 10 and entry[1] == b'k0'][0]
                check(long[-1].endswith(b'more arguments)'), 'cut %r' % long)
                words.remove(long)
            seen = [[entry for entry in words if entry[0] != b'DEL'] for words in texts]
            check_equal(seen[0], seen[1])
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-max-len', '2'), b'OK')
        for i in range(5):
            admin.get('GET', 'k%d' % i)
        check_equal(slow_words(admin, '5')[0], [b'GET', b'k4'])
        check_equal(admin.get('SLOWLOG', 'LEN'), 2)
        for words, text in ((['GET', '-2'], 'count should be greater'), (['GET', 'x'], 'count should be greater'),
                            (['GET', '1', '2'], 'unknown subcommand or wrong number')):
            check(is_error(admin.get('SLOWLOG', *words), text), 'SLOWLOG %r' % words)
        check(any(b'RESET' in line for line in admin.get('SLOWLOG', 'HELP')), 'HELP')
        check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '-1'), b'OK')
        admin.get('SLOWLOG', 'RESET')
        admin.get('GET', 'k')
        check_equal(admin.get('SLOWLOG', 'LEN'), 0)


@suite.case('SLOWLOG: the numbers of cut arguments add up, wherever the kept part of a request ends')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as admin:
        requests = [['SET', 'k' * n, 'v' * m] for n in range(1, 300, 7) for m in (0, 1, 90, 128, 300)] \
            + [['EXISTS'] + ['%d' % i * (n % 5 + 1) for i in range(n)] for n in range(1, 80)]
        admin.get('CONFIG', 'SET', 'slowlog-max-len', str(len(requests) + 10))
        admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        admin.get('SLOWLOG', 'RESET')
        admin.pipeline(requests)
        entries = [entry[3] for entry in admin.get('SLOWLOG', 'GET', '-1')][::-1]
        entries = [words for words in entries if words[0] in (b'SET', b'EXISTS')]
        check_equal(len(entries), len(requests))
        for sent, seen in zip(requests, entries):
            more = re.match(rb'^\.\.\. \((\d+) more arguments\)$', seen[-1])
            if more:
                seen = seen[:-1]
            check_equal(len(seen) + (int(more.group(1)) if more else 0), len(sent), 'arguments of %r' % seen)
            for whole, part in zip(sent, seen):
                cut = re.match(rb'^(.*)\.\.\. \((\d+) more bytes\)$', part)
                kept = cut.group(1) if cut else part
                check(whole.encode().startswith(kept), '%r is not the beginning of %r' % (kept, whole))
                check_equal(len(kept) + (int(cut.group(2)) if cut else 0), len(whole), 'bytes of %r' % part)


@suite.case('SLOWLOG has the arguments of requests that waited together, also when there are megabytes of them')
def _(run):
    patient = {'upstream': {'timeout': '10m'}}  # a slow machine needs long to send them
    with Cluster(backends=1, partitions=1, proxy_options=patient) as cluster, cluster.connect() as admin:
        clients, rows = [cluster.connect() for _ in range(128)], 60
        key = cluster.key_on(0)
        admin.get('CONFIG', 'SET', 'slowlog-max-len', str(len(clients) * rows + 10))
        admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '300000')
        admin.get('SLOWLOG', 'RESET')
        cluster.backends[0].pause()
        for i, client in enumerate(clients):
            for row in range(rows):
                client.send('SET', '%s:%d:%d' % (key, i, row), 'x' * 900)
        # no request of this connection is answered before theirs: so much later, and after more bytes, their blocks are used again
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > 1, 'the requests to be slow')
        for _ in range(300):
            check_equal(admin.get('PING', 'y' * 30000), b'y' * 30000)
        cluster.backends[0].resume()
        for client in clients:
            check_equal([client.read()[1] for _ in range(rows)], [b'OK'] * rows)
        seen = {entry[3][1]: entry[3] for entry in admin.get('SLOWLOG', 'GET', '-1') if entry[3][0] == b'SET'}
        check(len(seen) > 128 * 8, '%d requests are in the log' % len(seen))  # those in the clients' windows were sent
        names = {b'%s:%d:%d' % (key.encode(), i, row) for i in range(len(clients)) for row in range(rows)}
        for name, words in seen.items():
            check(name in names, 'the key %r' % name)
            check_equal(words, [b'SET', name, b'x' * 128 + b'... (772 more bytes)'])
        for client in clients:
            client.close()


@suite.case('SLOWLOG in a namespace shows and resets only its own entries')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one, \
            enter(cluster, 'token-two') as two:
        admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        one.get('GET', 'mine')
        two.get('GET', 'other')
        check([b'GET', b'mine'] in slow_words(one) and [b'GET', b'other'] not in slow_words(one), 'own entries')
        check([b'GET', b'mine'] in slow_words(admin) and [b'GET', b'other'] in slow_words(admin), 'all entries')
        check_equal(one.get('SLOWLOG', 'RESET'), b'OK')
        check([b'GET', b'mine'] not in slow_words(admin) and [b'GET', b'other'] in slow_words(admin), 'after RESET')
        check_equal(list(pairs(two.get('SCREE', 'SLOWLOG', '1'))), [b'proxy'])


def info(client, name):
    return int(re.search(rb'^%s:([0-9]+)' % name.encode(), client.get('INFO', 'everything'), re.M).group(1))


# ---- MONITOR -----------------------------------------------------------------------------------------------------

LINE = re.compile(rb'^\d{10}\.\d{6} \[(\d+) ([^]]+)\] (.*)$')


def monitor(connection):
    check_equal(connection.get('MONITOR'), b'OK')
    return connection


def read_lines(connection, last):
    """MONITOR's lines up to the command `last`, without times: [(db, words)]."""
    lines = []
    while True:
        match = LINE.match(connection.read()[1])
        check(match, 'a line of MONITOR')
        lines.append((match.group(1), match.group(3)))
        if last in match.group(3):
            return lines


SESSION = [['MULTI'], ['SET', '{t}k', 'v'], ['GET', '{t}k'], ['EXEC'], ['CLIENT', 'SETNAME', 'x'], ['CLIENT', 'LIST'],
           ['CONFIG', 'GET', 'port'], ['AUTH', 'x'], ['HELLO', '3', 'AUTH', 'default', 'x'], ['NOSUCH'], ['GET'],
           ['MULTI'], ['GET', 'a'], ['DISCARD'], ['MULTI'], ['NOSUCH'], ['GET', 'a'], ['EXEC'], ['SELECT', '3'],
           ['GET', 'q'], ['SET', 'bytes', b'\x00\n\r\t\a\b\\"\xff~'], ['GET', 'h' * 3000], ['SELECT', '0'],
           ['PING', 'hello'], ['MGET', 'a', 'b', 'c'], ['TIME'], ['CLIENT', 'ID'], ['EXISTS', 'a', 'b', 'c'], ['DBSIZE'],
           ['WATCH', 'a'], ['UNWATCH'], ['PING', 'the-end']]


@suite.case('MONITOR shows the commands that Redis shows, over all workers, and no refused ones')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, Oracle() as oracle, \
            Connection(oracle.address) as redis_monitor, Connection(oracle.address) as redis_client:
        monitors = [monitor(cluster.connect()) for _ in range(4)]
        clients = [cluster.connect() for _ in range(4)]
        monitor(redis_monitor)
        for words in SESSION:
            redis_client.call(*words)
        wanted = read_lines(redis_monitor, b'the-end')
        for client in clients:
            for words in SESSION:
                client.call(*words)
            for connection in monitors:
                check_equal(read_lines(connection, b'the-end'), wanted, 'lines')
        monitors[0].send('MONITOR')
        check(is_error(monitors[0].get('GET', 'k'), "Replica can't interact"), 'keys are not for monitors')
        check_equal(monitors[0].get('PING'), b'PONG', 'the second MONITOR said nothing')
        for connection in monitors:
            check_equal(read_lines(connection, b'PING')[-1], (b'0', b'"PING"'))
        check(b'flags=O' in clients[0].get('CLIENT', 'LIST'), 'CLIENT LIST')
        check_equal(monitors[1].get('RESET'), b'RESET')
        monitors[2].close()
        clients[0].get('GET', 'after')
        check_equal(monitors[1].get('PING'), b'PONG', 'a monitor no more')
        check_equal(read_lines(monitors[3], b'"after"')[-1], (b'0', b'"GET" "after"'))


def with_peers(connection, end):
    """MONITOR's lines up to the one that contains `end`: (database and peer without port, words)."""
    lines = []
    while not lines or end not in lines[-1][1]:
        place, words = re.match(rb'\d+\.\d+ \[(\d+ [^\]:]+)[^\]]*\] (.*)', connection.read()[1]).groups()
        lines.append((place, words))
    return lines


@suite.case('MONITOR through the proxy shows the commands of scripts, on every shard, once and after the script')
def _(run):
    library = "#!lua name=lib\nredis.register_function('put', function(k, a) return redis.call('SET', k[1], a[1]) end)"
    twice = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('get', KEYS[1])"
    with Cluster(backends=3, partitions=1) as cluster, Oracle() as oracle:
        keys = [cluster.key_on(shard) for shard in range(3)]
        session = [['SELECT', '2'], ['FUNCTION', 'LOAD', 'REPLACE', library]]
        for key in keys:
            session += [['EVAL', twice, '1', key, 'a \x00 "b"'], ['FCALL', 'put', '1', key, 'v'],
                        ['EVAL_RO', "return redis.call('TTL', KEYS[1])", '1', key],
                        ['EVAL', "redis.pcall('LPUSH', KEYS[1], 'x'); redis.call('incr', KEYS[1])", '1', key],
                        ['EVAL', "return redis.call('nosuch')", '1', key], ['EVAL', 'return 1', '1', key]]
        session.append(['ECHO', 'the-end'])
        for proto in (2, 3):
            with Connection(oracle.address) as redis_monitor, Connection(oracle.address, proto=proto) as redis, \
                    cluster.connect() as watching, cluster.connect(proto=proto) as client:
                monitor(redis_monitor)
                monitor(watching)
                for words in session:
                    redis.call(*words)
                    client.call(*words)
                check_equal(with_peers(watching, b'the-end'), with_peers(redis_monitor, b'the-end'), 'RESP%d' % proto)
                # in a transaction, also with commands that the proxy answers, and on a connection with WATCH
                for block in ([['EVAL', twice, '1', keys[1], 'v'], ['GET', keys[1]]],
                              [['CLIENT', 'ID'], ['EVAL', twice, '1', keys[2], 'v']]):
                    for extra in ([], [['WATCH', keys[1] if len(block[0]) > 2 else keys[2]]]):
                        for connection in (redis, client):
                            for words in extra + [['MULTI'], *block, ['EXEC'], ['ECHO', 'the-end']]:
                                connection.call(*words)
                        check_equal(sorted(with_peers(watching, b'the-end')), sorted(with_peers(redis_monitor, b'the-end')),
                                    'EXEC')
        # lines beyond the limit of one request are only counted; the monitor and the client stay connected
        with cluster.connect() as watching, cluster.connect() as client:
            monitor(watching)
            many = "for i = 1, 30000 do redis.call('SET', KEYS[1], string.rep('x', 40)) end return 'ran'"
            check_equal(client.get('EVAL', many, '1', keys[0]), b'ran')
            lines = with_peers(watching, b'further commands are not shown')
            check(10000 < len(lines) < 30000, '%d lines' % len(lines))
            client.get('ECHO', 'the-end')
            check_equal(len(with_peers(watching, b'the-end')), 1)


@suite.case('MONITOR in a namespace shows its commands only')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one, \
            enter(cluster, 'token-one') as mine, enter(cluster, 'token-two') as two:
        monitor(admin)
        monitor(mine)
        two.get('EVAL', "return redis.call('GET', KEYS[1])", '1', 'theirs')
        two.get('GET', 'theirs')
        one.get('GET', 'own')
        check_equal([words for _, words in read_lines(mine, b'own')], [b'"GET" "own"'])
        check_equal(sorted(words for _, words in read_lines(admin, b'own'))[-3:],
                    [b'"GET" "own"', b'"GET" "theirs"', b'"GET" "theirs"'], 'the command, and that of the script')


@suite.case('a monitor that does not read is disconnected at client-output-limit')
def _(run):
    options = {'proxy': {'client-output-limit': '1mb'}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster, cluster.connect() as client:
        connection = monitor(cluster.connect())

        def is_cut():
            client.pipeline([['PING', 'x' * 10000]] * 100)
            return b'flags=O' not in client.get('CLIENT', 'LIST')
        wait_for(is_cut, 'the monitor to be cut')
        connection.close()
        check_equal(client.get('PING'), b'PONG')


@suite.case('a proxy stops cleanly under MONITOR and load')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        monitors = [monitor(cluster.connect()) for _ in range(4)]
        clients = [cluster.connect() for _ in range(4)]

        def play(client):
            try:
                while True:
                    client.pipeline([['PING']] * 50 + [['GET', 'k']] * 50)
            except (OSError, EOFError, Closed):
                pass
        threads = [threading.Thread(target=play, args=[client]) for client in clients]
        for thread in threads:
            thread.start()
        for connection in monitors:
            read_lines(connection, b'"GET" "k"')
        cluster.proxies[0].stop()
        for thread in threads:
            thread.join()
        cluster.proxies[0].start()


# ---- CLIENT PAUSE ------------------------------------------------------------------------------------------------

@suite.case('CLIENT PAUSE WRITE holds writes and writing transactions at all workers, until UNPAUSE')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, cluster.connect() as admin:
        writers = [cluster.connect() for _ in range(4)]
        for writer in writers:
            writer.get('CLIENT', 'SETNAME', 'held')
        held = [['SET', 'k', 'v'], ['FLUSHALL'], ['PUBLISH', 'c', 'm'], ['MSET', 'a', '1', 'b', '2', 'c', '3']]
        check_equal(admin.get('SET', 'k', 'before'), b'OK')
        check_equal(writers[0].get('MULTI'), b'OK')
        check_equal(writers[0].get('SET', 'k', 'v'), b'QUEUED')
        check_equal(admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE'), b'OK')
        for i, writer in enumerate(writers):
            if i == 0:
                writer.send('EXEC')
                writer.send('PING', 'behind')
            else:
                writer.send_many([held[i], ['PING', 'behind']])

        def all_held():
            lines = admin.get('CLIENT', 'LIST').split(b'\n')
            return sum(b'name=held' in line and b' flags=' in line and b'b db=' in line for line in lines) == 4
        wait_for(all_held, 'four clients to be held')
        check_equal(admin.get('GET', 'k'), b'before', 'reads go on')
        for flags in ('no-writes', 'allow-stale,no-writes', 'no-writes,allow-stale'):
            check_equal(admin.get('EVAL', '#!lua flags=%s\nreturn 1' % flags, '0'), 1)
        check_equal(admin.get('EVAL_RO', 'return 1', '0'), 1)
        check_equal(admin.get('CLIENT', 'UNPAUSE'), b'OK')
        check_equal(writers[0].read()[1], [('+', b'OK')])
        for writer in writers[1:]:
            check(writer.read()[0] in '+:', 'the held command was run')
        check_equal([writer.read()[1] for writer in writers], [b'behind'] * 4)


READS, WRITES = '#!lua flags=no-writes\nreturn 1', '#!lua\nreturn 1'
LIBRARY = """#!lua name=pause
redis.register_function('writes', function() return 1 end)
redis.register_function{function_name='reads', callback=function() return 1 end, flags={'no-writes'}}
"""
SHA_READS, SHA_WRITES, SHA_PLAIN = (hashlib.sha1(text.encode()).hexdigest() for text in (READS, WRITES, 'return 1'))
# requests that run other commands
RUNNERS = [['EVAL', READS, 0], ['EVAL', WRITES, 0], ['EVAL', 'return 1', 0], ['EVAL_RO', 'return 1', 0], ['EVAL_RO', READS, 0],
           ['EVALSHA', SHA_READS, 0], ['EVALSHA', SHA_WRITES, 0], ['EVALSHA', SHA_PLAIN, 0], ['EVALSHA_RO', SHA_PLAIN, 0],
           ['EVALSHA', '0' * 40, 0], ['FCALL', 'writes', 0], ['FCALL', 'reads', 0], ['FCALL_RO', 'reads', 0], ['FCALL', 'unknown', 0],
           ['EVAL_RO', WRITES, 0], ['EVALSHA_RO', SHA_READS, 0], ['EVALSHA_RO', SHA_WRITES, 0], ['FCALL_RO', 'writes', 0],
           ['EVAL', '#!lua flags="no-writes"\nreturn 1', 0], ['EVAL', '#!lua flags=no-writes,x\nreturn 1', 0], ['EVALSHA_RO', '0' * 40, 0]]
OTHERS = [['PUBLISH', 'c', 'm'], ['PFCOUNT', 'k'], ['SCRIPT', 'LOAD', 'return 2'], ['GET', 'k'], ['SET', 'k', 'v'], ['PING']]


def is_held(admin, client, requests):
    """Sends the requests; True when a pause holds one of them, False when all were answered."""
    client.send_many(requests)
    replies = []

    def outcome():
        try:
            replies.append(client.read(0.01))
            return len(replies) == len(requests) and 'answered'
        except socket.timeout:
            lines = [line for line in admin.get('CLIENT', 'LIST').split(b'\n') if b'name=probe' in line]
            return re.search(rb' flags=\w*b', lines[0]) and 'held'
    if wait_for(outcome, 'the requests to be held or answered') == 'answered':
        return False
    admin.get('CLIENT', 'UNPAUSE')
    while len(replies) < len(requests):
        replies.append(client.read(120))
    admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE')
    return True


def held_requests(address):
    """Those of RUNNERS and OTHERS that CLIENT PAUSE WRITE holds, alone and in MULTI."""
    with Connection(address) as admin, Connection(address) as client:
        client.get('CLIENT', 'SETNAME', 'probe')
        admin.get('FUNCTION', 'LOAD', LIBRARY)
        for text in (READS, WRITES, 'return 1'):
            admin.get('SCRIPT', 'LOAD', text)
        admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE')
        alone = [request for request in RUNNERS + OTHERS if is_held(admin, client, [request])]
        queued = [request for request in RUNNERS + OTHERS if is_held(admin, client, [['MULTI'], request, ['EXEC']])]
        admin.get('CLIENT', 'UNPAUSE')
        return alone, queued


@suite.case('CLIENT PAUSE WRITE holds the scripts, functions and transactions that redis-server holds')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, Oracle() as oracle:
        theirs = held_requests(oracle.address)
        check(['EVAL', WRITES, 0] in theirs[0] and ['FCALL', 'writes', 0] in theirs[1] and ['GET', 'k'] not in theirs[1], theirs)
        for kind, ours, their in zip(('alone', 'in MULTI'), held_requests(cluster.backends[0].addresses[0]), theirs):
            check_equal(ours, their, 'at a partition, ' + kind)
        for kind, ours, their in zip(('alone', 'in MULTI'), held_requests(cluster.proxies[0].address), theirs):
            check_equal(ours, their, 'at a proxy, ' + kind)


@suite.case('CLIENT PAUSE WRITE runs what only reads, though a proxy must ask one shard for each script, and holds a function that was replaced')
def _(run):
    texts = ['#!lua flags=no-writes\nreturn %d' % i for i in range(64)]  # more than a worker can note without collisions
    with Cluster(backends=3, partitions=1) as cluster, cluster.connect() as admin, cluster.connect() as client:
        shas = []
        for i, text in enumerate(texts):  # each is at one shard
            with Connection(cluster.backends[i % 3].addresses[0]) as shard:
                shas.append(shard.get('SCRIPT', 'LOAD', text))
        admin.get('FUNCTION', 'LOAD', LIBRARY)
        admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE')
        check_equal([client.get('EVALSHA', sha, 0) for sha in shas], list(range(64)))
        requests = [['MULTI'], *(['EVALSHA', sha, 0] for sha in shas), ['FCALL', 'reads', 0], ['EXEC']]
        client.send_many(requests)
        replies = [client.read() for _ in requests]
        check_equal([value for _, value in replies[-1][1]], [*(b'%d' % i for i in range(64)), b'1'])
        client.get('CLIENT', 'SETNAME', 'probe')
        check(not is_held(admin, client, [['FCALL', 'reads', 0]]), 'a function that only reads')
        admin.get('CLIENT', 'UNPAUSE')
        admin.get('FUNCTION', 'LOAD', 'REPLACE', LIBRARY.replace(", flags={'no-writes'}", ''))
        admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE')
        check(is_held(admin, client, [['FCALL', 'reads', 0]]), 'it may write now')
        admin.get('CLIENT', 'UNPAUSE')


@suite.case('CLIENT PAUSE ends after its time, and ALL holds every command')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as admin, cluster.connect() as client:
        began = time.monotonic()
        check_equal(admin.get('CLIENT', 'PAUSE', '300'), b'OK')
        check_equal(client.get('PING'), b'PONG')
        check(time.monotonic() - began >= 0.27, 'PING was held')
        check_equal(admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE'), b'OK')
        check_equal(admin.get('CLIENT', 'UNPAUSE'), b'OK')
        check_equal(client.get('SET', 'k', 'v'), b'OK')


@suite.case('during CLIENT PAUSE no key of a shard expires, in the background or by reads; after UNPAUSE keys do')
def _(run):
    for proto in (2, 3):
        with Cluster(backends=2, partitions=2) as cluster, cluster.connect(proto=proto) as admin:
            parts = [cluster.partition(shard) for shard in range(4)]
            keys = [cluster.key_on(shard) for shard in range(4)]

            def sizes():
                return [part.get('DBSIZE') for part in parts]
            check_equal(admin.get('CLIENT', 'PAUSE', '1000000', 'WRITE'), b'OK')
            for part, key in zip(parts, keys):  # clients connected directly to a shard are not paused
                check_equal(part.get('SET', key, 'v', 'PX', '20'), b'OK')
                check_equal(part.get('SET', key + ':long', 'v', 'PX', '1000000'), b'OK')
            wait_for(lambda: not any(admin.get('EXISTS', key) for key in keys), 'keys to be hidden')
            check_equal([admin.get('GET', key) for key in keys], [None] * 4, 'reads through the proxy')
            ticks = [info(part, 'uptime_in_seconds') for part in parts]
            wait_for(lambda: all(info(part, 'uptime_in_seconds') > tick + 1 for part, tick in zip(parts, ticks)), 'cycles of expiry')
            check_equal(sizes(), [2] * 4, 'all keys stay')
            check_equal([info(part, 'expired_keys') for part in parts], [0] * 4, 'expired_keys')
            check_equal(admin.get('CLIENT', 'UNPAUSE'), b'OK')
            wait_for(lambda: sizes() == [1] * 4, 'the keys to expire')
            check_equal(admin.get('SET', keys[0], 'short', 'PX', '1'), b'OK')
            check_equal(admin.get('CLIENT', 'PAUSE', '50', 'WRITE'), b'OK')
            wait_for(lambda: sizes() == [1] * 4, 'the pause to end by itself')


@suite.case('CLIENT PAUSE refuses wrong arguments with the errors of Redis')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, Oracle() as oracle, \
            cluster.connect() as ours, Connection(oracle.address) as theirs:
        for words in (['-1'], ['x'], ['1', 'FOO'], ['1', 'ALL', 'x'], [], ['0'], ['0', 'write']):
            check_equal(ours.call('CLIENT', 'PAUSE', *words), theirs.call('CLIENT', 'PAUSE', *words), 'PAUSE %r' % words)
        check_equal(ours.call('CLIENT', 'UNPAUSE', 'x'), theirs.call('CLIENT', 'UNPAUSE', 'x'))


# ---- LATENCY -----------------------------------------------------------------------------------------------------

@suite.case('LATENCY HISTOGRAM adds up the shards')
def _(run):
    with Cluster(backends=2, partitions=2) as cluster, cluster.connect() as client, \
            cluster.connect(proto=3) as third:
        for connection in [cluster.partition(shard) for shard in range(4)]:
            connection.get('CONFIG', 'RESETSTAT')
            connection.close()
        client.pipeline([['SET', 'k%d' % i, 'v'] for i in range(500)])
        client.pipeline([['GET', 'k%d' % i] for i in range(300)])
        found = pairs(client.get('LATENCY', 'HISTOGRAM', 'set', 'get', 'nosuch'))
        check_equal(sorted(found), [b'get', b'set'])
        for name, calls in ((b'set', 500), (b'get', 300)):
            one = pairs(found[name])
            check_equal(one[b'calls'], calls)
            ends, counts = one[b'histogram_usec'][::2], one[b'histogram_usec'][1::2]
            check(ends == sorted(ends) and counts == sorted(counts) and counts[-1] == calls, 'steps %r' % one)
        map3 = third.get('LATENCY', 'HISTOGRAM', 'set')
        check_equal(map3[b'set'][b'calls'], 500)
        check(b'set' in pairs(client.get('LATENCY', 'HISTOGRAM')), 'all commands')


@suite.case('a command that several shards run counts as one call')
def _(run):
    with Cluster(backends=3, partitions=1) as cluster, cluster.connect() as client, cluster.connect(proto=3) as third:
        keys = [cluster.key_on(shard) for shard in range(3)]
        for connection in (client, third):
            check_equal(client.get('CONFIG', 'RESETSTAT'), b'OK')
            check_equal(connection.get('MSET', *[word for key in keys for word in (key, 'v')]), b'OK')
            check_equal(connection.get('MGET', *keys), [b'v'] * 3)
            check_equal(connection.get('TOUCH', *keys), 3)
            check_equal(connection.get('DBSIZE'), 3)
            check_equal(connection.get('SCAN', '0', 'COUNT', '1000')[0], b'0')
            check_equal(len(connection.get('KEYS', '*')), 3)
            check_equal(connection.get('SCRIPT', 'FLUSH'), b'OK')
            check_equal(connection.get('DEL', *keys), 3)
            stats = client.get('INFO', 'commandstats').decode()
            names = ['mset', 'mget', 'touch', 'dbsize', 'scan', 'keys', 'script|flush', 'del']
            for name in names:
                check('cmdstat_%s:calls=1,' % name in stats, '%s counts once: %s' % (name, stats))
            # a call's time is the time at all shards
            usec, each = re.search(r'cmdstat_mget:calls=1,usec=(\d+),usec_per_call=([\d.]+)', stats).groups()
            check_equal(each, usec + '.00', 'the time of one call')
            calls = sum(int(number) for number in re.findall(r':calls=(\d+)', stats))
            check_equal(commands_processed(client), calls + 1, 'all of them and the INFO')
            found = pairs(client.get('LATENCY', 'HISTOGRAM', *names))
            check_equal(sorted(found), sorted(name.encode() for name in names))
            for name, histogram in found.items():
                check_equal(pairs(histogram)[b'calls'], 1, name)
                check_equal(pairs(histogram)[b'histogram_usec'][-1], 1, name)
        # the time that the shard measured is not lost: parts of a call add their time without counting as calls
        with cluster.partition(2) as direct:
            check_equal(direct.get('CONFIG', 'RESETSTAT'), b'OK')
            check_equal(client.get('MGET', *keys), [None] * 3)
            check('cmdstat_mget:calls=0,usec=' in direct.get('INFO', 'commandstats').decode(), 'its time')


@suite.case('LATENCY events: those of the proxy and of the shards')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, cluster.connect() as admin, cluster.connect() as client:
        check_equal(admin.get('LATENCY', 'LATEST'), [])
        check(b'off' in admin.get('LATENCY', 'DOCTOR'), 'DOCTOR when off')
        check(is_error(admin.get('LATENCY', 'GRAPH', 'command'), "No samples available for event 'command'"), 'GRAPH')
        check_equal(admin.get('CONFIG', 'SET', 'latency-monitor-threshold', '1000'), b'OK')  # others take less
        check_equal(admin.get('CONFIG', 'GET', 'latency-monitor-threshold')[1], b'1000')
        with cluster.partition(0) as direct:
            check_equal(direct.get('CONFIG', 'GET', 'latency-monitor-threshold')[1], b'1000', 'at the shard')
        key = cluster.key_on(0)
        cluster.backends[0].pause()
        began = time.monotonic()
        client.send('GET', key)
        wait_for(lambda: time.monotonic() - began > 1.5, 'the request to be slow')
        cluster.backends[0].resume()
        check_equal(client.read(), ('$', None))
        latest = admin.get('LATENCY', 'LATEST')
        check_equal([row[0] for row in latest], [b'fast-command'])
        check(1000 <= latest[0][2] <= latest[0][3], 'times %r' % latest)
        history = admin.get('LATENCY', 'HISTORY', 'fast-command')
        check_equal(history, [latest[0][1:3]])
        check_equal(admin.get('LATENCY', 'HISTORY', 'nosuch'), [])
        check(admin.get('LATENCY', 'GRAPH', 'fast-command').startswith(b'fast-command - high '), 'GRAPH')
        doctor = admin.get('LATENCY', 'DOCTOR')
        check(doctor.startswith(b'proxy: fast-command: slow runs in 1 seconds') and doctor.count(b'\nshard ') == 2, '%r' % doctor)
        check_equal(admin.get('LATENCY', 'RESET', 'command'), 0)
        check_equal(admin.get('LATENCY', 'RESET'), 1)
        check_equal(admin.get('LATENCY', 'LATEST'), [])
        check(any(b'HISTOGRAM' in line for line in admin.get('LATENCY', 'HELP')), 'HELP')


# ---- hot and big keys --------------------------------------------------------------------------------------------

@suite.case('SCREE HOTKEYS finds the hot keys of all workers, with rates and shards')
def _(run):
    options = {'proxy': {'hotkeys-sample': '4', 'requirepass': 'outside'}}
    with cluster_of(proxy_options=options) as cluster, enter(cluster, 'outside') as admin:
        clients = [enter(cluster, 'outside') for _ in range(4)]
        with enter(cluster, 'token-one') as one:
            for round in range(5):  # in each one all of them, because after 20 seconds a slow machine's first rounds do not count any more
                one.pipeline([['SET', 'inside', 'v']] * 200)
                for client in clients:
                    client.pipeline([['GET', 'hot']] * 400 + [['MGET', 'warm', 'hot']] * 100
                                    + [['GET', 'rare:%d:%d' % (round, i)] for i in range(200)])
            check_equal([pairs(row)[b'key'] for row in one.get('SCREE', 'HOTKEYS')], [b'inside'], 'own keys')
            check(is_error(one.get('SCREE', 'HOTKEYS', 'RESET'), 'NOPERM'), 'RESET by a tenant')
        found = [pairs(row) for row in admin.get('SCREE', 'HOTKEYS', 'COUNT', '3')]
        check_equal([row[b'key'] for row in found], [b'hot', b'warm', b'inside'], 'order')
        check_equal([row[b'namespace'] for row in found], [b'', b'', b'one'], 'namespaces')
        check(float(found[0][b'per-second']) > 2 * float(found[1][b'per-second']) > 0, 'rates %r' % found)
        names = [pairs(shard)[b'name'] for shard in admin.get('SCREE', 'SHARDS')]
        check_equal(found[0][b'shard'], names[cluster.shard_of('hot')], 'shard')
        check_equal(len(admin.get('SCREE', 'HOTKEYS')), 10, 'COUNT')
        check_equal(admin.get('SCREE', 'HOTKEYS', 'RESET'), b'OK')
        check(b'hot' not in [pairs(row)[b'key'] for row in admin.get('SCREE', 'HOTKEYS', 'COUNT', '1000')], 'forgotten')
        for words in (['COUNT'], ['COUNT', '0'], ['COUNT', 'x'], ['NONSENSE'], ['RESET', 'x']):
            check(is_error(admin.get('SCREE', 'HOTKEYS', *words), 'ERR'), 'HOTKEYS %r' % words)
        check_equal(admin.get('CONFIG', 'SET', 'hotkeys-sample', '0'), b'OK')
        clients[0].pipeline([['GET', 'hot']] * 400)
        check_equal(admin.get('SCREE', 'HOTKEYS'), [], 'off')


@suite.case('SCREE BIGKEYS finds the biggest keys of all shards, by a full walk and by samples')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one:
        check_equal(pairs(admin.get('SCREE', 'BIGKEYS')), {b'keys': 0, b'sampled': 0, b'silent-shards': 0, b'biggest': []})
        admin.pipeline([['SET', 'small:%d' % i, 'v'] for i in range(1000)])
        admin.get('SET', 'big:string', 'x' * 300000)
        admin.get('RPUSH', 'big:list', *['y' * 1000] * 200)
        admin.get('HSET', 'big:hash', *['f%d' % i for i in range(2000)])
        one.get('SET', 'inside', 'z' * 1000000)
        found = pairs(admin.get('SCREE', 'BIGKEYS', 'COUNT', '3'))
        rows = [pairs(row) for row in found[b'biggest']]
        check_equal((found[b'keys'], found[b'sampled']), (1003, 1003))
        check_equal([(row[b'key'], row[b'type']) for row in rows][:2], [(b'big:string', b'string'), (b'big:list', b'list')])
        check_equal(rows[2][b'key'], b'big:hash')
        for row in rows:
            check_equal(row[b'bytes'], admin.get('MEMORY', 'USAGE', row[b'key']))
        names = [pairs(shard)[b'name'] for shard in admin.get('SCREE', 'SHARDS')]
        check_equal([row[b'shard'] for row in rows], [names[cluster.shard_of(row[b'key'])] for row in rows])
        check_equal(pairs(pairs(one.get('SCREE', 'BIGKEYS'))[b'biggest'][0])[b'key'], b'inside', 'in a namespace')
        part = pairs(admin.get('SCREE', 'BIGKEYS', 'SAMPLES', '100', 'COUNT', '5'))
        check(part[b'keys'] == 1003 and 0 < part[b'sampled'] <= 102 and len(part[b'biggest']) == 5, 'a sample %r' % part)
        for words in (['COUNT'], ['COUNT', '0'], ['COUNT', '101'], ['SAMPLES', 'x'], ['NONSENSE', '1']):
            check(is_error(admin.get('SCREE', 'BIGKEYS', *words), 'ERR'), 'BIGKEYS %r' % words)
        with enter(cluster, 'outside') as leaves:
            leaves.send('SCREE', 'BIGKEYS')
        cluster.backends[0].kill9()
        found = pairs(admin.get('SCREE', 'BIGKEYS'))
        check(found[b'silent-shards'] == 1 and found[b'sampled'] > 0, 'a shard is down: %r' % found)
        cluster.backends[0].start()


# ---- CLIENT LIST and KILL ----------------------------------------------------------------------------------------

ID = re.compile(rb'(?:^|\n)id=(\d+) ')


@suite.case('CLIENT LIST and KILL by type; inside a namespace only for its own clients')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one, \
            enter(cluster, 'token-one') as mine, enter(cluster, 'token-two') as two, \
            enter(cluster, 'outside') as listener:
        ids = [connection.get('CLIENT', 'ID') for connection in (admin, one, mine, two, listener)]
        check_equal(listener.get('SUBSCRIBE', 'c'), [b'subscribe', b'c', 1])

        def listed(connection, *filter):
            return sorted(int(found) for found in ID.findall(connection.get('CLIENT', 'LIST', *filter)))
        check_equal(listed(admin), ids)
        check_equal(listed(admin, 'TYPE', 'pubsub'), ids[4:])
        check_equal(listed(admin, 'TYPE', 'normal'), ids[:4])
        check_equal(listed(admin, 'TYPE', 'replica'), [])
        check_equal(listed(one), ids[1:3])
        check_equal(listed(one, 'ID', *ids), ids[1:3])
        check_equal(one.get('CLIENT', 'KILL', 'ID', ids[3]), 0)
        check_equal(one.get('CLIENT', 'KILL', 'TYPE', 'normal'), 1)
        wait_for(lambda: listed(admin) == [ids[0], ids[1], ids[3], ids[4]], 'the other client of the namespace to go')
        check_equal(admin.get('CLIENT', 'KILL', 'TYPE', 'pubsub'), 1)
        wait_for(lambda: listed(admin) == [ids[0], ids[1], ids[3]], 'the subscriber to go')
        check_equal(two.get('PING'), b'PONG')


@suite.case('CLIENT PAUSE inside a namespace pauses that namespace')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one, \
            enter(cluster, 'token-one') as mine, enter(cluster, 'token-two') as two:
        check_equal(one.get('CLIENT', 'PAUSE', '1000000', 'WRITE'), b'OK')
        mine.send('SET', 'k', 'v')
        wait_for(lambda: b'flags=b' in one.get('CLIENT', 'LIST'), 'the write to be held')
        check_equal([two.get('SET', 'k', 'v'), admin.get('SET', 'k', 'v')], [b'OK'] * 2)
        check_equal(two.get('CLIENT', 'UNPAUSE'), b'OK')
        check(b'flags=b' in one.get('CLIENT', 'LIST'), 'the pause is not of that namespace')
        check_equal(one.get('CLIENT', 'UNPAUSE'), b'OK')
        check_equal(mine.read()[1], b'OK')


@suite.case('SCREE SHARDS, MAP, NAMESPACES, RELOAD, HELP show everything, and inside a namespace only what belongs to it')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin, enter(cluster, 'token-one') as one:
        check_equal(sorted(pairs(row)[b'name'] for row in admin.get('SCREE', 'NAMESPACES')), [b'one', b'two'])
        check_equal([pairs(row)[b'name'] for row in one.get('SCREE', 'NAMESPACES')], [b'one'])
        shards = [pairs(row) for row in admin.get('SCREE', 'SHARDS')]
        check_equal(sum(shard[b'slots'] for shard in shards), 16384)
        check_equal(set(pairs(pairs(admin.get('SCREE', 'MAP'))[b'shards'])), {shard[b'name'] for shard in shards})
        check(admin.get('SCREE', 'RELOAD').startswith(b'OK epoch='), 'RELOAD')
        help_text = b'\n'.join(admin.get('SCREE', 'HELP'))
        for word in (b'SHARDS', b'MAP', b'NAMESPACES', b'RELOAD', b'SLOWLOG', b'HOTKEYS', b'BIGKEYS', b'HELP'):
            check(word in help_text, '%r in %r' % (word, help_text))
        check(is_error(admin.get('SCREE', 'NOSUCH'), 'unknown subcommand'), 'NOSUCH')
        for words in (['MEMORY', 'STATS'], ['MEMORY', 'DOCTOR'], ['MODULE', 'HELP']):
            admin.call(*words)
        check_equal(admin.get('PING'), b'PONG', 'no command ends the proxy')


@suite.case('the version that INFO, HELLO, LOLWUT and scripts report is an option, at backend and proxy')
def _(run):
    for version, number in ((None, 0x00070402), ('7.0.15', 0x0007000f), ('8.4.0', 0x00080400)):
        options = {'reported-version': version} if version else {}
        with Cluster(backends=1, partitions=1, backend_options={'backend': options}, proxy_options={'proxy': options}) as cluster:
            want = (version or '7.4.2').encode()
            for address in (cluster.backends[0].addresses[0], cluster.proxies[0].address):
                with Connection(address) as client:
                    check(b'redis_version:%s\r\n' % want in client.get('INFO', 'server'), 'INFO')
                    hello = client.get('HELLO', 3)
                    # redis-py caches on the client's side if the server is `redis`, of 7.4 or later
                    check_equal((hello[b'server'], hello[b'version']), (b'redis', want), 'HELLO')
                    check(b'Redis ver. ' + want in client.get('LOLWUT'), 'LOLWUT')
                    check_equal(client.get('EVAL', 'return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}', 0), [want, number], 'a script')


@suite.case('CLIENT LIST and KILL select by filters, at a partition and through the proxy')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        for address in (cluster.backends[0].addresses[0], cluster.proxies[0].address):
            admin, one, two = (Connection(address) for _ in range(3))
            for client, name in ((one, 'one'), (two, 'two')):
                client.get('CLIENT', 'SETNAME', name)
                client.get('CLIENT', 'SETINFO', 'LIB-NAME', 'lib-' + name)

            def names(*words):
                lines = admin.get('CLIENT', 'LIST', *words).decode().splitlines()
                return sorted(set(re.findall(r' name=(\w+)', '\n'.join(lines))))

            check_equal(names('NAME', 'one'), ['one'], 'NAME')
            check_equal(names('LIB-NAME', 'lib-two', 'NOT-NAME', 'one'), ['two'], 'LIB-NAME')
            check_equal(names('NOT-NAME', 'one', 'DB', 0, 'FLAGS', 'N', 'IP', '127.0.0.1'), ['two'], 'NOT-NAME')
            check_equal(names('ID', one.get('CLIENT', 'ID'), two.get('CLIENT', 'ID'), 'NOT-LIB-NAME', 'lib-one'), ['two'], 'ID')
            wait_for(lambda: names('MAXAGE', 1) == ['one', 'two'], 'a client to be older than a second')
            check_equal(admin.get('CLIENT', 'KILL', 'NAME', 'one', 'MAXAGE', 1), 1, 'KILL of one')
            wait_for(lambda: names('MAXAGE', 1) == ['two'], 'the client to be gone')
            check_equal(admin.get('CLIENT', 'KILL', 'NOT-NAME', 'nobody', 'LIB-NAME', 'lib-two'), 1, 'KILL of two')
            wait_for(lambda: names('MAXAGE', 1) == [], 'the client to be gone')
            check_equal(admin.get('PING'), b'PONG', 'the connection itself is skipped')
            for client in (admin, one, two):
                client.close()


def fields_of_info(connection, *sections):
    text = connection.get('INFO', *sections).decode()
    return dict(line.split(':', 1) for line in text.splitlines() if ':' in line)


@suite.case('INFO counts a disk and a machine once, a process once, and its _human fields are those of the sums')
def _(run):
    def fields(connection, section='everything'):
        return fields_of_info(connection, section)
    with Cluster(backends=2, partitions=3, proxies=1) as cluster, cluster.connect() as client:
        direct = [fields(cluster.partition(shard)) for shard in (0, 3)]
        merged = fields(client)
        check_equal(merged['total_system_memory'], direct[0]['total_system_memory'], 'memory of the machine')
        free = [int(one['store_disk_free_bytes']) for one in direct]
        if min(free):
            check(int(merged['store_disk_free_bytes']) < 1.5 * max(free), 'free: %s, partitions %s' % (merged['store_disk_free_bytes'], free))
        rss = [int(one['used_memory_rss']) for one in direct]
        check(0.5 * sum(rss) < int(merged['used_memory_rss']) < 1.5 * sum(rss), 'RSS: %s of %s' % (merged['used_memory_rss'], rss))
        for name in ('used_memory', 'used_memory_rss', 'total_system_memory'):
            size, units = float(merged[name]), iter('BKMGTP')
            unit = next(units)
            while size >= 1024:
                size, unit = size / 1024, next(units)
            shown = '%.0fB' % size if unit == 'B' else '%.2f%s' % (size, unit)
            check_equal(merged[name + '_human'], shown, name)
        for part, whole, ratio in (('used_memory_rss', 'used_memory', 'mem_fragmentation_ratio'),
                                   ('allocator_active', 'allocator_allocated', 'allocator_frag_ratio')):
            check_equal(merged[ratio], '%.2f' % (int(merged[part]) / int(merged[whole])), ratio)
        some = fields(client, 'memory')
        check_equal(some['mem_configured'], merged['mem_configured'], 'sizes of two processes, without the section Server')
        check('run_id' not in some and client.get('INFO', 'memory').startswith(b'# Memory\r\n'), 'only the section that was named')


@suite.case('INFO shows a fault of one shard, and the keys of all shards')
def _(run):
    with FaultyDisk() as disk, Cluster(backends=1, partitions=2, proxies=1, disk=disk) as cluster, cluster.connect() as client:
        client.pipeline([['SET', 'key:%d' % i, 'v'] for i in range(100)])

        def shown():
            merged = fields_of_info(client, 'scree', 'persistence')
            return [merged[name] for name in ('keys_all_namespaces', 'read_only', 'aof_last_write_status')]
        check_equal(shown(), ['100', '0', 'ok'])
        disk.fail(SYNC_LOG, 1, -1, errno.EIO)
        check(isinstance(client.get('SET', cluster.key_on(1), 'v'), Exception), 'a write that is not on disk')
        check_equal(fields_of_info(cluster.partition(0), 'scree')['read_only'], '0', 'the first shard')
        check_equal(shown()[1:], ['1', 'err'])
        check('read_only_reason:\r' not in client.get('INFO', 'scree').decode(), 'the reason')


if __name__ == '__main__':
    suite.main()
