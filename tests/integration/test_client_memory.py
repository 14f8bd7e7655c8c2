#!/usr/bin/python3
"""Memory of clients in a proxy: shown, limited, and freed."""

import contextlib
import re
import select
import socket
import threading

from support import harness
from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, patience, wait_for
from support.other_version import THIS_VERSION
from support.resp import Closed, Connection, ReplyError, value

suite = Suite(__doc__)
MB = 1 << 20


def half_sent(address, size, *login):
    """A connection that has sent `size` bytes of a longer request; bytes that cannot be sent are dropped."""
    connection = Connection(address, patience())
    if login:
        check_equal(connection.get('AUTH', *login), b'OK')
    connection.sock.setblocking(False)
    data = memoryview(b'*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$%d\r\n' % (size + 1000) + b'x' * size)
    connection.unsent = data
    push(connection)
    return connection


def push(connection):
    """Sends as many bytes as the proxy accepts now; False: it has closed the connection."""
    try:
        while connection.unsent:
            connection.unsent = connection.unsent[connection.sock.send(connection.unsent[:256 * 1024]):]
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def fields(connection, number):
    """A connection's line of CLIENT LIST, as a dictionary."""
    line = connection.get('CLIENT', 'LIST', 'ID', number).decode().strip()
    return dict(pair.split('=', 1) for pair in line.split(' '))


def answers(cluster):
    """Checks that a new client gets a reply soon."""
    try:
        with Connection(cluster.proxies[0].address, patience()) as client:
            return client.get('SET', 'good', 'x') == b'OK'
    except (OSError, Closed):
        return False


@suite.case('incomplete requests above memory-limit do not stop a proxy: the biggest is closed, other clients are served')
def _(run):
    options = {'proxy': {'memory-limit': '32mb', 'workers': 1}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster:
        proxy = cluster.proxies[0]
        callers = [half_sent(proxy.address, 14 * MB) for _ in range(3)]

        def is_cut():
            for caller in callers:
                push(caller)
            return b'the incomplete request of this client is the longest' in proxy.log()
        wait_for(is_cut, 'the biggest request to be given up')
        wait_for(lambda: answers(cluster), 'others to be served')
        wait_for(lambda: proxy.http('/readyz')[0] == 200, 'the proxy to be ready')
        for caller in callers:
            caller.close()


@suite.case('while memory is full /readyz fails with the reason; a client that does not read is closed, also with NO-EVICT')
def _(run):
    options = {'proxy': {'memory-limit': '16mb', 'workers': 1}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster:
        proxy = cluster.proxies[0]

        def is_shown():
            """Fills the memory until its client is cut. False: /readyz was not asked in this time."""
            seen, before = set(), proxy.log().count(b'this client has the most unread replies')
            with cluster.connect() as cut:
                check_equal(cut.get('SET', 'big', 'x' * 2 * MB), b'OK')
                check_equal(cut.get('CLIENT', 'NO-EVICT', 'ON'), b'OK')
                check(b'flags=e' in cut.get('CLIENT', 'LIST'), 'CLIENT LIST')
                cut.send_many([['GET', 'big']] * 40)

                def is_cut():
                    seen.add(proxy.http('/readyz'))
                    return proxy.log().count(b'this client has the most unread replies') > before
                wait_for(is_cut, 'the client to be cut')
            wait_for(lambda: proxy.http('/readyz')[0] == 200, 'the proxy to be ready')
            return any(status == 503 and 'memory-limit is reached' in text for status, text in seen)
        wait_for(is_shown, '/readyz to fail with the reason')
        check(answers(cluster), 'others are served')


@suite.case('hundreds of connections without a login take at most login-memory, and others can log in at the same time')
def _(run):
    options = {'proxy': {'memory-limit': '64mb', 'login-memory': '4mb', 'requirepass': 'pw'}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster:
        proxy = cluster.proxies[0]
        strangers = []
        for _ in range(300):
            stranger = Connection(proxy.address, patience())
            strangers.append(stranger)
            try:
                stranger.send_raw(b'*10\r\n' + (b'$16384\r\n' + b'x' * 16384 + b'\r\n') * 8 + b'$16384\r\n')
            except OSError:
                pass
        wait_for(lambda: metric(proxy.http('/metrics')[1], 'scree_proxy_clients_disconnected_total') > 200, 'most of them to be closed')
        check(b'exceed login-memory' in proxy.log(), 'the reason in the log')
        with cluster.connect() as client:
            check_equal(client.get('AUTH', 'pw'), b'OK')
            check_equal(client.get('SET', 'k', 'v'), b'OK')
        check(b'memory_full' not in proxy.log(), 'memory is not full')
        for stranger in strangers:
            stranger.close()

        def talk():  # none may collect errors that it does not read
            try:
                with Connection(proxy.address) as talker:
                    for _ in range(200):
                        talker.send_raw(b'PING\r\n' * 10000)
            except OSError:
                pass
            return b'unread replies exceed' in proxy.log()

        wait_for(talk, 'a talker to be closed')  # the log takes some lines a second of one event


@suite.case('connections without a login within login-timeout are closed, at the proxy and at a backend; others stay')
def _(run):
    password = {'requirepass': 'pw', 'login-timeout': '%dms' % (3000 * harness.SLOW)}
    with Cluster(backends=1, partitions=1, backend_options={'backend': password}, proxy_options={'proxy': password}) as cluster:
        for name, address in (('proxy', cluster.proxies[0].address), ('partition', cluster.backends[0].addresses[0])):
            with Connection(address) as good, Connection(address) as silent:
                check_equal(good.get('AUTH', 'pw'), b'OK', name)
                reply = silent.read(timeout=patience())
                check(reply[0] == '-' and b'login-timeout' in reply[1], '%s: %r' % (name, reply))
                silent.read_until_closed(patience())
                check_equal(good.get('SET', 'k', name), b'OK', name)
                check_equal(good.get('GET', 'k'), name.encode(), name)
    options = {'proxy': {'login-timeout': '1ms'}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster, cluster.connect() as client, \
            cluster.connect() as other:  # no client needs a password
        wait_for(lambda: int(fields(other, client.get('CLIENT', 'ID'))['age']) >= 3, 'time to pass')
        check_equal(client.get('PING'), b'PONG')


@suite.case('CLIENT LIST shows the memory of a client: requests, arguments, a transaction, channels, unread replies')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as client, cluster.connect() as other:
        number = client.get('CLIENT', 'ID')
        idle = {name: int(fields(other, number)[name]) for name in ('qbuf', 'qbuf-free', 'argv-mem', 'multi-mem', 'tot-mem')}
        check_equal((idle['qbuf'], idle['qbuf-free'], idle['multi-mem']), (0, 0, 0))
        client.send_raw(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n' + b'x' * 1000)
        wait_for(lambda: int(fields(other, number)['qbuf']) >= 1000, 'the half request to be seen')
        half = fields(other, number)
        check(int(half['qbuf']) < 1100, half['qbuf'])
        check(4000 <= int(half['qbuf-free']) < 8000, half['qbuf-free'])
        check(0 < int(half['argv-mem']) < 1000, half['argv-mem'])
        check(int(half['tot-mem']) >= idle['tot-mem'] + 5000, half['tot-mem'])
        client.send_raw(b'x' * 4000 + b'\r\n')
        check_equal(client.read()[1], b'OK')
        client.get('MULTI')
        client.get('SET', 'k', 'x' * 100000)
        check(int(fields(other, number)['multi-mem']) >= 100000, 'multi-mem')
        check(int(fields(other, number)['tot-mem']) >= idle['tot-mem'] + 100000, 'tot-mem in MULTI')
        check_equal(client.get('DISCARD'), b'OK')
        client.send('SUBSCRIBE', *['%0500d' % i for i in range(100)])
        for _ in range(100):
            client.read()
        check(int(fields(other, number)['tot-mem']) >= idle['tot-mem'] + 50000, 'tot-mem with channels')
        client.send('UNSUBSCRIBE')
        for _ in range(100):
            client.read()
        wait_for(lambda: int(fields(other, number)['tot-mem']) < idle['tot-mem'] + 20000, 'all of it to be given back')


@suite.case('the channels and patterns of a client are limited, and the refusal names the limit')
def _(run):
    options = {'proxy': {'client-subscription-limit': '1mb'}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster, cluster.connect() as client, \
            cluster.connect() as other:
        for word in ('SUBSCRIBE', 'PSUBSCRIBE', 'SSUBSCRIBE'):
            reply = client.get(word, *['%01000d' % i for i in range(1000)])
            check(isinstance(reply, ReplyError) and 'client-subscription-limit (1048576 bytes)' in str(reply), repr(reply))
        client.send('SUBSCRIBE', *['%01000d' % i for i in range(200)])
        for i in range(200):
            check_equal(value(client.read())[2], i + 1)
        reply = client.get('PSUBSCRIBE', *['%01000d*' % i for i in range(400)])
        check(isinstance(reply, ReplyError) and 'client-subscription-limit' in str(reply), repr(reply))
        check_equal(other.get('PUBLISH', '%01000d' % 7, 'hi'), 1)
        check_equal(value(client.read())[2], b'hi')


@suite.case('the clients of a namespace take at most its memory-limit: the biggest one is closed, other tenants stay')
def _(run):
    namespaces = {'greedy': {'token': 'greedy', 'memory-limit': '4mb'}, 'modest': {'token': 'modest'}}
    with Cluster(backends=1, partitions=1, namespaces=namespaces) as cluster:
        proxy = cluster.proxies[0]
        with cluster.connect() as modest, cluster.connect() as small:
            check_equal(modest.get('AUTH', 'modest'), b'OK')
            check_equal(small.get('AUTH', 'greedy'), b'OK')
            for what in ('request', 'transaction', 'channels'):
                closed = proxy.log().count(b'memory-limit of its namespace')
                with cluster.connect() as greedy:
                    check_equal(greedy.get('AUTH', 'greedy'), b'OK')
                    with contextlib.suppress(ConnectionError):  # it is closed before it has sent all
                        if what == 'request':
                            greedy.send_raw(b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9000000\r\n' + b'x' * 8000000)
                        elif what == 'transaction':
                            greedy.send_many([['MULTI']] + [['SET', 'k', 'x' * 10000]] * 600)
                        else:
                            greedy.send('SUBSCRIBE', *['%01000d' % i for i in range(6000)])
                    wait_for(lambda: proxy.log().count(b'memory-limit of its namespace') > closed, what + ': to be closed')
                check_equal(small.get('SET', 'k', what), b'OK')
                check_equal(modest.get('SET', 'k', what), b'OK')
            wait_for(lambda: re.search(r'scree_proxy_namespace_memory_bytes{tenant="greedy"} \d{1,5}\n',
                                       proxy.http('/metrics')[1]), 'the memory to be given back')


class Liar:
    """A shard that replies +OK, but an endless reply to requests that contain `endless`; a greeting is answered as usual."""

    def __init__(self):
        self.server = socket.socket()
        self.server.bind(('127.0.0.1', 0))
        self.server.listen(50)
        self.address = '127.0.0.1:%d' % self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            while data := connection.recv(65536):
                if b'endless' in data:
                    connection.sendall(b'*2000000000\r\n')
                    while True:
                        connection.sendall(b':1\r\n' * 65536)
                connection.sendall(b''.join(THIS_VERSION if b'SELF' in frame else b'+OK\r\n' for frame in data.split(b'*')[1:]))
        except OSError:
            pass


@suite.case('an endless reply of a shard takes no memory, and clients of other shards are served')
def _(run):
    options = {'proxy': {'workers': 1, 'client-output-limit': '4mb'}, 'upstream': {'timeout': '%dms' % (3000 * harness.SLOW)}}
    with Cluster(backends=1, partitions=2, backend_options={'backend': {'durability': 'os'}}, proxy_options=options) as cluster:
        proxy, liar = cluster.proxies[0], Liar()
        with open(cluster.shards_path) as file:
            text = file.read()
        with open(cluster.shards_path, 'w') as file:
            file.write(text.replace('%s:%d' % cluster.backends[0].addresses[1], liar.address).replace('epoch = 1', 'epoch = 2'))
        with cluster.connect() as asker, cluster.connect() as other:
            wait_for(lambda: asker.get('SCREE', 'MAP')[1] == 2, 'the worker to have the new map')
            before = proxy.rss_bytes()
            asker.send('SET', cluster.key_on(1), 'endless')
            served, most = 0, 0
            while not select.select([asker.sock], [], [], 0)[0]:
                check_equal(other.get('SET', cluster.key_on(0), 'x'), b'OK')
                served += 1
                most = max(most, proxy.rss_bytes())
            reply = value(asker.read())
            # on a slow machine all 8 GB may come within the time-outs, which grow with what has come
            check(re.search('no reply within|the reply was dropped', str(reply)), 'the error: %r' % reply)
            run.note('%d requests served meanwhile, %.1f MB more' % (served, (most - before) / MB))
            check(served > 3, 'served: %d' % served)
            check(most - before < 60 * MB * harness.BIG, 'grew by %d MB' % ((most - before) // MB))
        liar.server.close()


@suite.case('a reply longer than client-output-limit becomes an error; its connection stays, and other clients are served')
def _(run):
    options = {'proxy': {'workers': 1, 'client-output-limit': '1mb'}}
    with Cluster(backends=1, partitions=1, proxy_options=options) as cluster, cluster.connect() as client, \
            cluster.connect() as other:
        check_equal(client.get('SET', 'big', 'x' * 3 * MB), b'OK')
        client.send_many([['RPUSH', 'list', 'x' * 1000] + ['y' * 1000] * 999] * 3)
        for _ in range(3):
            client.read()
        for proto in ('2', '3'):
            client.get('HELLO', proto)
            for words in (['GET', 'big'], ['LRANGE', 'list', '0', '-1'], ['MGET', 'a', 'big']):
                client.send_many([['ECHO', 'before'], words, ['ECHO', 'after']])
                other.send('SET', 'k', 'v')
                check_equal(value(client.read()), b'before')
                check('longer than client-output-limit' in str(value(client.read())), words)
                check_equal(value(client.read()), b'after')
                check_equal(value(other.read()), b'OK')


def read_bytes(sock, count):
    """The next bytes, read as fast as they come; fewer, if the connection ends before."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while count > 0 and (part := sock.recv(min(count, MB))):
            parts.append(part)
            count -= len(part)
    return b''.join(parts)


@suite.case('an EXEC whose replies exceed client-output-limit, which the proxy makes: who reads gets all, who does not is disconnected alone')
def _(run):
    times, written, text = 40000, ['SET', 'k', 'v'], ['COMMAND', 'HELP']
    with Cluster(backends=2, partitions=1, linked=True, proxy_options={'proxy': {'workers': 1, 'client-output-limit': '4mb'}}) as cluster, \
            cluster.connect() as other:
        other.send(*text)
        replies = {tuple(written): b'+OK\r\n', tuple(text): other.sock.recv(MB)}
        for commands in ([text] * times, [text] * times + [written], [written] + [text] * times):
            wanted = b'+OK\r\n' + b'+QUEUED\r\n' * len(commands) + b'*%d\r\n' % len(commands) + \
                b''.join(replies[tuple(words)] for words in commands)
            with cluster.connect() as client:
                own = b'id=%d ' % client.get('CLIENT', 'ID')
                client.send_many([['MULTI'], *commands, ['EXEC']])
                for tries in reversed(range(10)):
                    with cluster.connect() as reading:
                        reading.send_many([['MULTI'], *commands, ['EXEC']])
                        found = read_bytes(reading.sock, len(wanted))
                    if len(found) == len(wanted):
                        break
                    check(tries and wanted.startswith(found), 'the replies')  # this process did not run for a second
                check(found == wanted, 'the replies')
                wait_for(lambda: own not in other.get('CLIENT', 'LIST'), 'the client to be disconnected')
            check_equal(other.get('PING'), b'PONG', 'the proxy')


@suite.case('KEYS of more than client-output-limit in all, and of less at each shard, is an error that says so; with a higher limit it is whole')
def _(run):
    with Cluster(backends=1, partitions=2, proxy_options={'proxy': {'client-output-limit': '1mb'}}) as cluster, cluster.connect() as client:
        names = ['k%05d' % i + 'x' * 44 for i in range(24000)]
        for start in range(0, len(names), 1000):
            client.get('MSET', *[word for name in names[start:start + 1000] for word in (name, 'v')])
        check_equal(str(client.get('KEYS', '*')), 'ERR the reply would be longer than client-output-limit of the proxy')
        check_equal(client.get('CONFIG', 'SET', 'client-output-limit', '2mb'), b'OK')
        check(sorted(client.get('KEYS', '*')) == [name.encode() for name in names], 'other keys')


if __name__ == '__main__':
    suite.main()
