#!/usr/bin/python3
"""Clients that send invalid bytes or do not read: others are served, memory stays bounded, and the servers keep
running.
"""

import resource
import socket
import threading
import time

from support import harness
from support.cluster import Cluster, is_sanitized
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.relay import Relay
from support.resp import Closed, Connection, ReplyError, encode, show, value


def options(parser):
    parser.add_argument('--connections', type=int, default=sized(4000, long=10000), help='idle connections')
    parser.add_argument('--garbage', type=int, default=sized(300, long=10000), help='connections that send random bytes')


suite = Suite(__doc__, options)
MB = 1 << 20


def both(cluster):
    """(name, address, process) of the proxy and of a partition."""
    return [('proxy', cluster.proxies[0].address, cluster.proxies[0]),
            ('partition', cluster.backends[0].addresses[0], cluster.backends[0])]


def check_alive(cluster):
    for name, address, process in both(cluster):
        check(process.alive(), '%s died' % name)
        with Connection(address, patience()) as connection:
            check_equal(connection.get('SET', '{alive}', name), b'OK', name)
            check_equal(connection.get('GET', '{alive}'), name.encode(), name)


def random_bytes(rng):
    """Random bytes, or requests with a few bytes changed, cut or repeated."""
    if rng.random() < 0.2:
        return rng.randbytes(rng.randint(1, 5000))
    pieces = []
    for _ in range(rng.randint(1, 20)):
        words = [rng.choice([b'SET', b'GET', b'HSET', b'MGET', b'EXEC', b'MULTI', b'SCAN', b'CLIENT', b'SCREE', b'PING'])]
        words += [rng.randbytes(rng.randint(0, 30)) for _ in range(rng.randint(0, 5))]
        data = bytearray(encode(words))
        for _ in range(rng.randint(0, 3)):
            at = rng.randrange(len(data))
            change = rng.randrange(3)
            if change == 0:
                data[at] = rng.randrange(256)
            elif change == 1:
                del data[at:at + rng.randint(1, 10)]
            else:
                data[at:at] = rng.choice([b'*', b'$', b'\r\n', b'99999999', b'-1', b'\x00'])
            if not data:
                break
        pieces.append(bytes(data))
    return b''.join(pieces)


@suite.case('random bytes and damaged requests do not disturb other clients')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        for name, address, _ in both(cluster):
            for i in range(run.options.garbage):
                with Connection(address) as connection:
                    try:
                        connection.send_raw(random_bytes(run.rng))
                        if run.rng.random() < 0.5:
                            connection.sock.shutdown(socket.SHUT_WR)
                            connection.read_until_closed(5)
                    except OSError:
                        pass  # the server may close while this client sends
        check_alive(cluster)


def goes_on_after_error(name, address):
    """False: this process did not run for a second, after which the server closes the connection."""
    begun = time.monotonic()
    try:
        with Connection(address, patience()) as client:
            client.send_raw(encode(['PING']) + b'*1\r\n$many\r\n')
            for _ in range(100):
                client.send_raw(b'x' * 20000)
            check_equal(client.read(), ('+', b'PONG'), name)
            check_equal(client.read(), ('-', b'ERR Protocol error: invalid bulk length'), name)
            check_equal(client.sock.recv(1), b'', name)
    except OSError as error:
        check(time.monotonic() - begun > 0.9, '%s: %r' % (name, error))
        return False
    return True


@suite.case('a client that continues to send after a protocol error reads the error, then the end, and no reset')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        for name, address, _ in both(cluster):
            for _ in range(sized(5, long=50)):
                wait_for(lambda: goes_on_after_error(name, address), 'an end without a reset')


@suite.case('incomplete requests, followed by silence or a close, do not disturb other clients')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        request = encode(['MSET', 'a', 'x' * 1000, 'b', 'y' * 100])
        for name, address, _ in both(cluster):
            open_ones = []
            for cut in range(0, len(request), 13):
                connection = Connection(address)
                connection.send_raw(request[:cut])
                open_ones.append(connection)
            check_alive(cluster)
            for connection in open_ones:
                connection.close()
        check_alive(cluster)


@suite.case('a command with a million arguments is executed')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1, proxy_options={'upstream': {'timeout': '120s'}}) as cluster:
        keys = [b'k%d' % i for i in range(500000)]
        words = [b'MSET'] + [word for key in keys for word in (key, b'v')]
        for name, address, _ in both(cluster):
            with Connection(address, 120 * harness.SLOW) as connection:
                check_equal(connection.get(*words), b'OK', name)
                check_equal(connection.get('MGET', *keys) == [b'v'] * len(keys), True, name)
                check_equal(connection.get('DEL', *keys), len(keys), name)
                reply = connection.get('NOSUCH', *keys)
                check(isinstance(reply, ReplyError) and 'unknown command' in str(reply), '%s: %r' % (name, reply))
                reply = connection.get('GET', *keys)
                check(isinstance(reply, ReplyError) and 'wrong number' in str(reply), '%s: %r' % (name, reply))
        check_alive(cluster)


@suite.case('an announced value of 512 MB that is not sent takes no memory')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        for name, address, process in both(cluster):
            before = process.rss_bytes()
            connections = []
            for _ in range(20 if harness.BIG == 1 else 2):  # a sanitizer initializes every byte of a new block
                connection = Connection(address)
                connection.send_raw(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc')
                connections.append(connection)
            check_alive(cluster)
            grown = process.rss_bytes() - before
            run.note('%s: %.1f MB for %d connections' % (name, grown / MB, len(connections)))
            check(grown < 100 * MB * harness.BIG, '%s grew by %.0f MB' % (name, grown / MB))
            for connection in connections:
                connection.close()
        check_alive(cluster)


@suite.case('a value of 64 MB is stored and read back, and other clients are served in the meantime')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        big = run.rng.randbytes(MB) * 64
        with cluster.connect(timeout=120) as writer, cluster.connect() as other:
            request = encode(['SET', 'big', big])
            half = len(request) // 2
            writer.send_raw(request[:half])
            check_equal(other.get('SET', 'small', 'v'), b'OK', 'while half of a big request is there')
            writer.send_raw(request[half:])
            check_equal(writer.read(), ('+', b'OK'))
            check_equal(writer.get('STRLEN', 'big'), len(big))
            check(writer.get('GET', 'big') == big, 'the big value came back changed')
            check_equal(writer.get('APPEND', 'big', 'x'), len(big) + 1)
            check_equal(writer.get('GETRANGE', 'big', len(big) - 2, -1), big[-2:] + b'x')
        check_alive(cluster)


HEAVY = [('SET', ['SET', 'big', b'x' * (16 * MB)], [('+', b'OK')]),
         ('a transaction', ['SET', 'big', b'x' * (16 * MB)], [('+', b'OK'), ('+', b'QUEUED'), ('*', [('+', b'OK')])])]


@suite.case('small requests of others are answered while a shard has only a part of a request of 16 MB')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1,
                 relay=lambda address: Relay(address, is_opaque=True, hold_after_bytes=2 * MB)) as cluster:
        relay = next(iter(cluster.relays.values()))
        with cluster.connect(timeout=120) as writer, cluster.connect() as other:
            other.call('SET', 'small', 'v')
            for name, words, want in HEAVY:
                frames = [words] if len(want) == 1 else [['MULTI'], words, ['EXEC']]
                sender = threading.Thread(target=writer.send_raw, args=(b''.join(encode(frame) for frame in frames),))
                relay.spoil('arm')
                sender.start()
                wait_for(lambda: relay.count_held() > 0, 'the relay to hold the request')
                check_equal(other.get('SET', 'small', name), b'OK', name)
                check_equal(other.get('GET', 'small'), name.encode(), name)
                check_equal(other.get('EXISTS', 'big'), 0, name)
                relay.spoil('heal')
                sender.join()
                check_equal([writer.read() for _ in want], want, name)
                check_equal(writer.get('STRLEN', 'big'), 16 * MB)
                writer.call('DEL', 'big')
        check_alive(cluster)


@suite.case('one client that writes and reads big and small values in one pipeline has its requests run in order')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect(timeout=120) as client:
        for size in (MB - 100, MB, 3 * MB):
            big = run.rng.randbytes(size)
            requests = [['SET', 'k', big], ['GET', 'k'], ['SET', 'k', 'small'], ['GET', 'k'], ['APPEND', 'k', big],
                        ['STRLEN', 'k'], ['MSET', 'k', 'a', 'l', big], ['MGET', 'k', 'l'], ['MULTI'], ['SET', 'k', big],
                        ['GETRANGE', 'k', '0', '9'], ['EXEC'], ['DEL', 'k', 'l'], ['GET', 'k']]
            want = [('+', b'OK'), ('$', big), ('+', b'OK'), ('$', b'small'), (':', b'%d' % (5 + size)), (':', b'%d' % (5 + size)),
                    ('+', b'OK'), ('*', [('$', b'a'), ('$', big)]), ('+', b'OK'), ('+', b'QUEUED'), ('+', b'QUEUED'),
                    ('*', [('+', b'OK'), ('$', big[:10])]), (':', b'2'), ('$', None)]
            for number, (have, wanted) in enumerate(zip(client.pipeline(requests), want)):
                check(have == wanted, '%d bytes: %s' % (size, requests[number][0]))


@suite.case('values above proto-max-bulk-len are refused by both programs')
def _(run):
    limit = {'proto-max-bulk-len': '1mb'}
    with Cluster(backends=1, partitions=2, proxies=1, backend_options={'backend': limit},
                 proxy_options={'proxy': limit}) as cluster:
        for name, address, _ in both(cluster):
            with Connection(address) as connection:
                connection.send_raw(b'PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n')
                data, closed = connection.read_until_closed(patience())
                check_equal((data, closed), (b'+PONG\r\n-ERR Protocol error: invalid bulk length\r\n', True), name)
            with Connection(address) as connection:
                check_equal(connection.get('SET', 'k', 'x' * MB), b'OK', name)
                reply = connection.get('APPEND', 'k', 'x')
                check_equal(str(reply), 'ERR string exceeds maximum allowed size (proto-max-bulk-len)', name)


@suite.case('hostile patterns delay no other client, and patterns above 16 KiB are refused with this reason')
def _(run):
    hostile = b'*[' + b'b' * 10000 + b']'
    steps = b'*a?' + b'a' * 10000 + b'?c*'
    with Cluster(backends=1, partitions=2, proxies=1, proxy_options={'upstream': {'timeout': '600s'}}) as cluster:
        for name, address, _ in both(cluster):
            with Connection(address, 120 * harness.SLOW) as connection:
                connection.call('SADD', 's', b'a' * (4 * MB))
                for pattern in (hostile, steps):
                    check_equal(connection.get('SSCAN', 's', '0', 'MATCH', pattern), [b'0', []], name)
                    check_equal(connection.get('KEYS', pattern), [], name)
                longer = b'*?' + b'a' * 16384
                for words in (('KEYS', longer), ('SSCAN', 's', '0', 'MATCH', longer), ('SCAN', '0', 'MATCH', longer),
                              ('CONFIG', 'GET', longer), ('CONFIG', 'GET', 'maxmemory', longer),
                              ('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', longer),
                              ('FUNCTION', 'LIST', 'LIBRARYNAME', longer)):
                    check_equal(str(connection.get(*words)), 'ERR pattern is longer than 16384 bytes', name)
                check_equal(connection.get('KEYS', b'k' * 20000), [], name)  # only the literal pattern matches itself
            with Connection(address) as connection:
                if name == 'partition':
                    check_equal(str(connection.get('PSUBSCRIBE', longer)), 'ERR pattern is longer than 16384 bytes')
        check_alive(cluster)


STATE_ERROR = ('ERR This connection would hold more than client-state-limit in queued commands, watched keys, '
               'keys it blocks on and subscriptions, so the command was not run. Use fewer of these per connection, '
               'or raise client-state-limit.')


@suite.case('the state that a connection keeps in the partition is bounded: MULTI, WATCH, subscriptions')
def _(run):
    names = [b'%04d' % i + b'n' * 1000 for i in range(2000)]
    with Cluster(backends=1, partitions=1, backend_options={'backend': {'client-state-limit': '1mb'}}) as cluster:
        for words in (['SUBSCRIBE'], ['PSUBSCRIBE'], ['SSUBSCRIBE'], ['WATCH']):
            with cluster.partition(0) as connection:
                check_equal(str(connection.get(*words, *names)), STATE_ERROR, words[0])
                first = names[:300]
                connection.send(*words, *first)
                done = [connection.read() for _ in (first if words[0] != 'WATCH' else first[:1])]
                check(all(kind != '-' for kind, _ in done), '300 names fit')
                check_equal(str(connection.get(*words, *names[300:700])), STATE_ERROR, '400 more')
        for address in (cluster.backends[0].addresses[0], cluster.proxies[0].address):
            with Connection(address, patience()) as connection:
                replies = connection.pipeline([('MULTI',)] + [('SET', 'queued', b'x' * 100000)] * 20 + [('EXEC',)])
                check(replies[-1][0] == '-', 'EXEC of 2 MB: %s' % show(replies[-1]))
                check_equal(connection.get('GET', 'queued'), None)
                check_equal(connection.pipeline([('MULTI',), ('SET', 'k', 'v'), ('EXEC',)])[-1], ('*', [('+', b'OK')]))
        check_alive(cluster)


def figures(connection, of):
    """Numbers from one line of CLIENT LIST."""
    line = next(line for line in connection.get('CLIENT', 'LIST').decode().splitlines() if 'id=%d ' % of in line)
    return {key: int(text) for key, text in (word.split('=', 1) for word in line.split()) if text.isdigit()}


@suite.case('CLIENT LIST shows the memory of a connection: its request, its queue, its subscriptions')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as one, cluster.partition(0) as other:
            mine, of = one.get('CLIENT', 'ID'), other.get('CLIENT', 'ID')
            own = figures(one, mine)
            check_equal((own['qbuf'], own['argv-mem']), (26, 10), 'as redis-server says')  # *2 $6 CLIENT $4 LIST
            small = figures(one, of)['tot-mem']
            other.send_raw(b'*2\r\n$3\r\nGET\r\n$500000\r\n' + b'x' * 300000)
            wait_for(lambda: figures(one, of)['qbuf'] > 300000, 'the half request to show')
            half = figures(one, of)
            check(half['qbuf'] + half['qbuf-free'] >= 300000 and half['tot-mem'] > small + 300000, repr(half))
            other.send_raw(b'x' * 200000 + b'\r\n')
            check_equal(other.read(), ('$', None))
            other.pipeline([('WATCH', b'w' * 50000), ('MULTI',), ('SET', 'k', b'x' * 100000)])
            queued = figures(one, of)
            check(queued['multi-mem'] > 100000 and queued['tot-mem'] > small + 150000, repr(queued))
            other.call('DISCARD')
            other.call('SUBSCRIBE', b'c' * 200000)
            check(figures(one, of)['tot-mem'] > small + 200000, 'a channel of 200 KB')
            other.call('UNSUBSCRIBE')
            wait_for(lambda: figures(one, of)['tot-mem'] < small + 150000, 'the memory to be given back')


@suite.case('a half-closed client still gets all its replies')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        for name, address, _ in both(cluster):
            with Connection(address, patience()) as connection:
                for i in range(500):
                    connection.send('SET', 'half:%d' % i, 'x' * 100)
                connection.sock.shutdown(socket.SHUT_WR)
                for _ in range(500):
                    check_equal(connection.read(), ('+', b'OK'), name)
                try:
                    connection.read()
                    check(False, '%s: something after the last reply' % name)
                except Closed as closed:
                    check_equal(closed.args[0], b'', name)


@suite.case('a client that writes byte by byte is served')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        for name, address, _ in both(cluster):
            with Connection(address) as connection:
                for byte in encode(['SET', 'slow', 'writer']) + b'PING\r\n' + encode(['GET', 'slow']):
                    connection.send_raw(bytes([byte]))
                replies = [value(connection.read()) for _ in range(3)]
                check_equal(replies, [b'OK', b'PONG', b'writer'], name)


def send_without_reading(connection, request, total_bytes):
    """Sends requests until the replies would have total_bytes, or the server stops reading or closes the connection."""
    connection.sock.setblocking(False)
    sent, quiet_since = 0, time.monotonic()
    data = request * 100
    while sent < total_bytes and time.monotonic() - quiet_since < 2:
        try:
            sent += connection.sock.send(data)
            quiet_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)  # waits until the server reads again, or has stopped for good
        except OSError:
            return 'closed'
    return 'paused' if sent < total_bytes else 'sent'


def peak_rss(process, seconds):
    """The highest memory of the process in the seconds after the input was sent."""
    peak, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        peak = max(peak, process.rss_bytes())
        time.sleep(0.01)
    return peak


@suite.case('a client that does not read is disconnected at the output limit, and its memory is freed')
def _(run):
    limit = {'client-output-limit': '8mb'}
    with Cluster(backends=1, partitions=2, proxies=1, backend_options={'backend': limit},
                 proxy_options={'proxy': limit}) as cluster:
        for client in (cluster.connect(), cluster.partition(0)):
            check_equal(client.get('SET', '{alive}big', 'x' * 100000), b'OK')
            client.close()
        for name, address, process in both(cluster):
            before = process.rss_bytes()
            lazy = Connection(address)
            outcome = send_without_reading(lazy, encode(['GET', '{alive}big']), 40 * 5000)
            peak = peak_rss(process, 2) - before
            run.note('%s: %s, grew by up to %.1f MB' % (name, outcome, peak / MB))
            check(peak < 80 * MB * harness.BIG, '%s grew by %.0f MB' % (name, peak / MB))
            check_alive(cluster)
            lazy.close()


def read_much(name, address, count, size):
    """Reads the replies of a long pipeline while another client is served."""
    with Connection(address, patience()) as reader, Connection(address, patience()) as other:
        reader.send_many([['GET', '{alive}big']] * count)
        check_equal(other.get('SET', '{alive}small', 'v'), b'OK', name + ': another client')
        for i in range(count):
            got = value(reader.read())
            check(got == b'x' * size, '%s: reply %d of %d is %s' % (name, i, count, harness.brief(got, 200)))
            if i % 50 == 0:
                check_equal(other.get('GET', '{alive}small'), b'v', name + ': another client')


@suite.case('replies of a pipeline far beyond the output limit reach a client that reads; other clients are served')
def _(run):
    limit, count, size = {'client-output-limit': '16mb'}, 400, 500000
    with Cluster(backends=1, partitions=2, proxies=1, backend_options={'backend': limit},
                 proxy_options={'proxy': limit}) as cluster:
        for name, address, process in both(cluster):
            with Connection(address, patience()) as client:
                check_equal(client.get('SET', '{alive}big', 'x' * size), b'OK')
            before = process.rss_bytes()
            for tries in reversed(range(10)):
                try:
                    read_much(name, address, count, size)
                    break
                except (Closed, OSError):  # this process did not run for a second
                    if not tries:
                        raise
            run.note('%s grew by %.1f MB for %d MB of replies'
                     % (name, (process.rss_bytes() - before) / MB, count * size / MB))


@suite.case('slow readers get all replies in order')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        for name, address, _ in both(cluster):
            with Connection(address, patience()) as connection:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                connection.call('SET', 'slow', 'y' * 20000)
                count = 300
                writer = threading.Thread(target=connection.send_many,
                                          args=([['GET', 'slow'] if i % 2 else ['ECHO', i] for i in range(count)],))
                writer.start()
                for i in range(count):
                    check_equal(value(connection.read()), b'y' * 20000 if i % 2 else b'%d' % i, name)
                writer.join()


@suite.case('thousands of idle connections take little memory, and all of it is freed')
def _(run):
    wanted = run.options.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 2000), hard))
    wanted = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    more = {'maxclients': wanted + 100}
    with Cluster(backends=1, partitions=1, proxies=1, backend_options={'backend': more},
                 proxy_options={'proxy': more}) as cluster:
        for name, address, process in both(cluster):
            before = process.rss_bytes()
            idle = [Connection(address) for _ in range(wanted)]
            for connection in idle[::97]:
                check_equal(connection.get('PING'), b'PONG', name)
            each = (process.rss_bytes() - before) / wanted
            run.note('%s: %d connections, %.0f bytes each' % (name, wanted, each))
            check(each < 10000 * harness.BIG, '%s: %.0f bytes for an idle connection' % (name, each))
            for connection in idle:
                connection.close()
            check_alive(cluster)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@suite.case('with thousands of idle connections all active requests are answered, and a client that does not read is bounded')
def _(run):
    wanted = run.options.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 2000), hard))
    wanted = min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    limit = {'client-output-limit': '32mb', 'maxclients': wanted + 100}
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': limit}) as cluster:
        proxy, address = cluster.proxies[0], cluster.proxies[0].address
        idle = []
        for start in range(0, wanted, 500):
            idle += [Connection(address, patience()) for _ in range(min(500, wanted - start))]
        with cluster.connect() as active:
            values = [b'%d' % i * 50 for i in range(300)]
            for _ in range(5):
                replies = active.pipeline([words for i, text in enumerate(values)
                                           for words in (['SET', 'k%d' % i, text], ['GET', 'k%d' % i])])
                check_equal([value(reply) for reply in replies[1::2]], values, 'active among idle')
            before = proxy.rss_bytes()
            check_equal(active.get('SET', 'big', 'x' * (256 * 1024)), b'OK')
            lazy, request = Connection(address), encode(['GET', 'big'])
            outcome = send_without_reading(lazy, request, len(request) * 2000)
            peak = peak_rss(proxy, 3) - before
            lazy.close()
            run.note('%d idle; 2000 GETs of 256 KiB that nobody reads: %s, grew by up to %.1f MB'
                     % (wanted, outcome, peak / MB))
            check(peak < 120 * MB * harness.BIG, 'grew by %.0f MB' % (peak / MB))
            if not is_sanitized(proxy.argv[0]):  # a sanitizer keeps freed memory
                wait_for(lambda: active.get('PING') and proxy.rss_bytes() < before + 8 * MB, 'the former size')
                run.note('afterwards %+.1f MB' % ((proxy.rss_bytes() - before) / MB))
            for connection in idle[::97]:
                check_equal(connection.get('PING'), b'PONG', 'an idle one')
        for connection in idle:
            connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@suite.case("maxclients: a connection too many gets Redis' error and is closed; a freed slot can be used again")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'maxclients': 5}}) as cluster:
        clients = [cluster.connect() for _ in range(5)]
        for client in clients:
            check_equal(client.get('PING'), b'PONG')
        with cluster.connect() as refused:
            data, closed = refused.read_until_closed(patience())
            check_equal((data, closed), (b'-ERR max number of clients reached\r\n', True))
        clients.pop().close()

        def admitted():
            with cluster.connect() as client:
                try:
                    return client.get('PING') == b'PONG'
                except (Closed, OSError):
                    return False
        wait_for(admitted, 'the place to be free again')
        for client in clients:
            check_equal(client.get('PING'), b'PONG')
            client.close()


@suite.case('connections do not take the descriptors that the stores need: writes go on, however many clients come')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        hard = resource.prlimit(backend.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(backend.pid, resource.RLIMIT_NOFILE, (200, hard))
        with cluster.partition(0) as client:
            crowd = [socket.create_connection(backend.addresses[0]) for _ in range(300)]
            wait_for(lambda: client.get('INFO', 'clients').count(b'connected_clients:100\r\n'), 'half of the descriptors to be used')
            check_equal(crowd[-1].recv(100), b'-ERR max number of clients reached\r\n')
            for i in range(5):
                check_equal(client.get('SET', i, 'v'), b'OK')
                check_equal(client.get('SAVE'), b'OK')
            for connection in crowd:
                connection.close()
            wait_for(lambda: client.get('INFO', 'clients').count(b'connected_clients:1\r\n'), 'the others to leave')


@suite.case('idle-timeout closes idle connections, and no active ones')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'idle-timeout': '1s'}}) as cluster:
        with cluster.connect() as silent, cluster.connect() as first:
            started = asked = time.monotonic()
            check_equal(silent.get('PING'), b'PONG')
            busy = first

            def closed():
                nonlocal busy, asked
                try:
                    check_equal(busy.get('PING'), b'PONG', 'the busy client')
                except (Closed, OSError):
                    check(time.monotonic() - asked > 0.9, 'the busy client was closed')
                    busy = cluster.connect()  # this process did not run for so long that its client became idle
                asked = time.monotonic()
                silent.sock.settimeout(0.05)
                try:
                    return silent.sock.recv(1) == b''
                except socket.timeout:
                    return False
            wait_for(closed, 'the silent client to be closed')
            check(time.monotonic() - started > 0.9, 'closed too early')


if __name__ == '__main__':
    suite.main()
