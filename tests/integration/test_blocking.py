#!/usr/bin/python3
"""Blocking commands: which client is served, when, with which element, and how blocking ends. Each scene is played on
redis-server and on a partition, and must give equal replies.
"""

import contextlib
import os
import random
import re
import resource
import select
import socket
import threading
import time

from support import harness
from support.cluster import Cluster, Oracle, Shared
from support.harness import Skip, Suite, check, check_equal, patience, sized, wait_for
from support.resp import Closed, Connection, value


def options(parser):
    parser.add_argument('--waiters', type=int, default=sized(3000, long=10000), help='connections that wait at once')


suite = Suite(__doc__, options)


class Scene:
    """A server with its connections; keeps the replies for the comparison."""

    def __init__(self, address, waits_at, proto=2):
        """`waits_at`: the server where commands block, if `address` is a proxy's."""
        self.address, self.waits_at, self.proto, self.connections, self.ids, self.seen = address, waits_at, proto, {}, {}, []
        self.watch, self.looker = Connection(waits_at), Connection(address)
        self.call('boss', 'FLUSHALL')
        self.seen.clear()

    def __getitem__(self, name):
        if name not in self.connections:
            self.connections[name] = Connection(self.address, proto=self.proto)
            self.ids[name] = self.connections[name].get('CLIENT', 'ID')
        return self.connections[name]

    def call(self, name, *args):
        self[name].send(*args)
        return self.read(name)

    def read(self, name):
        reply = self[name].read(patience())
        self.seen.append((name, reply))
        return value(reply)

    def info(self, field):
        return self.find_info(self['boss'], field)

    def find_info(self, connection, field):
        text = connection.get('INFO', 'everything').decode()
        for line in text.split('\r\n'):
            if line.startswith(field + ':'):
                return line[len(field) + 1:]
        return None

    def blocked(self):
        return int(self.find_info(self.watch, 'blocked_clients'))

    def wait(self, name, *args):
        """Sends a command, and returns when the command blocks. The number of blocked clients would not do: that of a proxy may
        still have one whose reply was just read."""
        self[name].send(*args)
        wait_for(lambda: self.is_blocked(name), '%r to wait' % (args,))

    def is_blocked(self, name):
        line = re.search(rb'^id=%d .* flags=(\w+) ' % self.ids[name], self.looker.get('CLIENT', 'LIST'), re.M)
        return b'b' in line[1]

    def client_id(self, name):
        return self[name].get('CLIENT', 'ID')

    def close(self, name):
        self.connections.pop(name).close()

    def end(self):
        for connection in self.connections.values():
            connection.close()
        self.watch.close()
        self.looker.close()
        for address in (self.address, self.waits_at):
            with Connection(address) as connection:
                wait_for(lambda: b'blocked_clients:0\r\n' in connection.get('INFO', 'clients'), 'no wait to be left')


WORLD = Shared()


def scene(title):
    """The function is played on all servers; their replies must be equal."""
    def keep(function):
        @suite.case(title)
        def _(run):
            WORLD.start(backends=1, partitions=1, proxies=1)
            seen, names = [], ['redis-server', 'a partition', 'the proxy']
            addresses = [WORLD.oracle.address, *WORLD.targets().values()]
            for address in addresses:
                stage = Scene(address, address if address != addresses[2] else addresses[1])
                function(stage)
                stage.end()
                seen.append(stage.seen)
            for name, replies in zip(names, seen):
                check_equal(replies, seen[0], 'replies of ' + name)
        return function
    return keep


@scene('clients blocked on a key are served in the order of their arrival')
def _(s):
    for name in 'abc':
        s.wait(name, 'BLPOP', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 1, 2)
    check_equal([s.read('a'), s.read('b')], [[b'k', b'1'], [b'k', b'2']])
    s.call('boss', 'EXISTS', 'k')
    s.call('boss', 'RPUSH', 'k', 3, 4)
    check_equal(s.read('c'), [b'k', b'3'])
    s.call('boss', 'LRANGE', 'k', 0, -1)


@scene('different commands block in one queue, and each takes its own end of the list')
def _(s):
    s.wait('a', 'BRPOP', 'k', 0)
    s.wait('b', 'BLMPOP', 0, 2, 'other', 'k', 'LEFT', 'COUNT', 2)
    s.wait('c', 'BRPOPLPUSH', 'k', 'to', 0)
    s.wait('d', 'BLPOP', 'to', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 1, 2, 3, 4, 5, 6)
    for name in 'abcd':
        s.read(name)
    s.call('boss', 'LRANGE', 'k', 0, -1)
    s.call('boss', 'LRANGE', 'to', 0, -1)


@scene('of several keys the one that got an element first is taken, not the first argument')
def _(s):
    s.wait('a', 'BLPOP', 'k1', 'k2', 'k1', 0)
    s['boss'].send_many([['MULTI'], ['LPUSH', 'k2', 'second'], ['LPUSH', 'k1', 'first'], ['EXEC']])
    for _ in range(4):
        s.read('boss')
    check_equal(s.read('a'), [b'k2', b'second'])
    s.call('boss', 'LRANGE', 'k1', 0, -1)


@scene('blocked clients are served after EXEC, with the elements left by then')
def _(s):
    s.wait('a', 'BLPOP', 'k', 0)
    for block in ([['LPUSH', 'k', 1], ['LPOP', 'k']], [['LPUSH', 'k', 1], ['DEL', 'k'], ['SET', 'k', 'text'], ['DEL', 'k']],
                  [['LPUSH', 'k', 1], ['LPUSH', 'k', 2], ['RPUSH', 'k', 3]]):
        s['boss'].send_many([['MULTI']] + block + [['EXEC']])
        for _ in range(len(block) + 2):
            s.read('boss')
    check_equal(s.read('a'), [b'k', b'2'])


@scene('a key of another type is skipped, also when it is the first of several')
def _(s):
    s.wait('a', 'BLPOP', 'k1', 'k2', 0)
    s.call('boss', 'SET', 'k1', 'text')
    s.call('boss', 'HSET', 'k2', 'f', 'v')
    s.call('boss', 'DEL', 'k2')
    check_equal(s.blocked(), 1)
    s.call('boss', 'RPUSH', 'k2', 'x')
    check_equal(s.read('a'), [b'k2', b'x'])


@scene('BLMOVE serves a client blocked on its destination, whose BLMOVE serves the next one')
def _(s):
    s.wait('a', 'BLMOVE', 'k1', 'k2', 'LEFT', 'RIGHT', 0)
    s.wait('c', 'BLPOP', 'k3', 0)
    s.wait('b', 'BRPOPLPUSH', 'k2', 'k3', 0)
    s.call('boss', 'RPUSH', 'k1', 'x', 'y')
    for name in 'abc':
        s.read(name)
    s.call('boss', 'EXISTS', 'k1', 'k2', 'k3')
    s.wait('a', 'BLMOVE', 'r', 'r', 'LEFT', 'RIGHT', 0)
    s.wait('b', 'BLMOVE', 'r', 'r', 'LEFT', 'LEFT', 0)
    s.wait('c', 'BRPOP', 'r', 0)
    s.call('boss', 'RPUSH', 'r', 'x')
    for name in 'abc':
        s.read(name)


@scene('BLMOVE to a key of another type gets its error when it is served')
def _(s):
    s.call('boss', 'SET', 'to', 'text')
    s.wait('a', 'BLMOVE', 'k', 'to', 'LEFT', 'RIGHT', 0)
    s.wait('b', 'BLPOP', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 'x')
    check('WRONGTYPE' in str(s.read('a')), 'no WRONGTYPE')
    check_equal(s.read('b'), [b'k', b'x'])


@scene('a key may become ready by RENAME, COPY, MOVE and SWAPDB')
def _(s):
    s.call('boss', 'RPUSH', 'other', 'x')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'RENAME', 'other', 'k')
    check_equal(s.read('a'), [b'k', b'x'])
    s.call('boss', 'RPUSH', 'other', 'y')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'COPY', 'other', 'k')
    check_equal(s.read('a'), [b'k', b'y'])
    s.call('one', 'SELECT', 1)
    s.wait('one', 'BLPOP', 'other', 0)
    s.call('boss', 'MOVE', 'other', 1)
    check_equal(s.read('one'), [b'other', b'y'])
    s.call('boss', 'RPUSH', 'k', 'z')
    s.wait('one', 'BLPOP', 'k', 0)
    s.call('boss', 'SWAPDB', 0, 1)
    check_equal(s.read('one'), [b'k', b'z'])
    s.wait('one', 'BLPOP', 'k', 0)
    s.call('boss', 'FLUSHALL')
    s.call('boss', 'SWAPDB', 0, 1)
    s.call('boss', 'RPUSH', 'k', 'zero')
    s.call('boss', 'SELECT', 1)
    s.call('boss', 'RPUSH', 'k', 'one')
    check_equal(s.read('one'), [b'k', b'one'])
    s.call('boss', 'SELECT', 0)


@scene('a timeout replies with a null array, in each protocol')
def _(s):
    s.call('three', 'HELLO', 3)
    s.seen.clear()
    for name in ('two', 'three'):
        for words in (['BLPOP', 'k', 0.05], ['BRPOP', 'k', 'j', 0.02], ['BLMOVE', 'k', 'j', 'LEFT', 'LEFT', 0.01],
                      ['BRPOPLPUSH', 'k', 'j', 0.001], ['BLMPOP', 0.03, 1, 'k', 'LEFT']):
            started = time.monotonic()
            s.call(name, *words)
            took = time.monotonic() - started
            timeout = words[1] if words[0] == 'BLMPOP' else words[-1]
            check(took >= timeout * 0.9, '%r ended after %.4f s' % (words, took))
    check_equal(s.info('clients_in_timeout_table'), '0')


def order_of_ends(scene, names):
    """The connections' names in the order in which they got their replies."""
    poller, order = select.poll(), []
    waiting = {scene[name].sock.fileno(): name for name in names}
    for number in waiting:
        poller.register(number, select.POLLIN)
    while waiting:
        for number, _ in poller.poll():
            poller.unregister(number)
            order.append(waiting.pop(number))
    return ''.join(order)


@scene('timeouts end in the order of their ends, not of their starts')
def _(s):
    for unit in (0.1, 1, 10):  # with longer times when the machine is too slow for these
        for name, seconds in (('a', 3 * unit), ('b', unit), ('c', 2 * unit), ('d', 0), ('e', 100 * unit)):
            s[name].send('BLPOP', 'k', seconds)
        wait_for(lambda: s.blocked() >= 2, 'the last to wait')
        table = s.info('clients_in_timeout_table')
        order = order_of_ends(s, 'abc')
        if (table, order) == ('4', 'bca'):
            break
        for name in 'abcde':
            s.close(name)
        wait_for(lambda: s.blocked() == 0, 'no wait to be left')
    check_equal((table, order), ('4', 'bca'))
    for name in order:
        s.read(name)
    check_equal(s.blocked(), 2)


@scene('requests after a blocked one run when it has its reply')
def _(s):
    s.wait('a', 'BLPOP', 'k', 0)
    more = [['SET', 's:%d' % i, 'x' * 1000] for i in range(2000)]
    s['a'].send_many([['BLPOP', 'k', 0], ['RPUSH', 'after', 1]] + more + [['PING']])
    check_equal(s.call('boss', 'EXISTS', 'after', 's:0'), 0)
    s.call('boss', 'RPUSH', 'k', 1)
    s.read('a')
    check_equal(s.call('boss', 'EXISTS', 'after'), 0)
    s.call('boss', 'RPUSH', 'k', 2)
    for _ in range(len(more) + 3):
        s.read('a')
    s.call('boss', 'DBSIZE')


@scene('inside MULTI no command blocks')
def _(s):
    words = [['BLPOP', 'k', 0], ['BLMOVE', 'k', 'j', 'LEFT', 'LEFT', 0], ['BLMPOP', 0, 1, 'k', 'LEFT'],
             ['BRPOPLPUSH', 'k', 'j', 0], ['RPUSH', 'k', 1, 2], ['BLPOP', 'k', 0], ['BRPOP', 'j', 'k', 0]]
    s['a'].send_many([['MULTI']] + words + [['EXEC']])
    for _ in range(len(words) + 2):
        s.read('a')


@scene('a closed connection takes no element')
def _(s):
    for how in ('close', 'half', 'reset', 'busy'):
        s.wait(how, 'BLPOP', 'k', 0)
        if how == 'busy':
            s[how].send_many([['PING']] * 3000)
        if how == 'half':
            s[how].sock.shutdown(socket.SHUT_WR)
            try:
                s[how].read(patience())
                check(False, 'a reply after the end')
            except Closed:
                pass
        elif how == 'reset':
            s[how].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
        s.close(how)
        wait_for(lambda: s.blocked() == 0, 'the wait to end (%s)' % how)
        s.call('boss', 'RPUSH', 'k', how)
        check_equal(s.call('boss', 'LPOP', 'k'), how.encode())


@scene('CLIENT UNBLOCK and CLIENT KILL end blocking')
def _(s):
    one = s.client_id('a')
    check_equal(s.call('boss', 'CLIENT', 'UNBLOCK', one), 0)
    for words in (['UNBLOCK', one], ['UNBLOCK', one, 'TIMEOUT'], ['UNBLOCK', one, 'error']):
        s.wait('a', 'BLPOP', 'k', 0)
        check_equal(s.call('boss', 'CLIENT', *words), 1)
        s.read('a')
        s.call('a', 'PING')
    for words in (['UNBLOCK', one, 'NOPE'], ['UNBLOCK', 'x'], ['UNBLOCK', 10 ** 9], ['UNBLOCK', one, 'ERROR', 'x']):
        s.call('boss', 'CLIENT', *words)
    s.wait('a', 'BLPOP', 'k', 0)
    line = [line for line in s['boss'].get('CLIENT', 'LIST').decode().split('\n') if line.startswith('id=%d ' % one)][0]
    check(' flags=b ' in line and ' cmd=blpop ' in line, line)
    check_equal(s.call('boss', 'CLIENT', 'KILL', 'ID', one), 1)
    wait_for(lambda: s.blocked() == 0, 'the killed to be gone')
    s.close('a')
    s.call('boss', 'RPUSH', 'k', 1)
    s.call('boss', 'LLEN', 'k')


@scene('CLIENT REPLY SKIP and OFF apply to the late reply of a blocked command')
def _(s):
    s['a'].send('CLIENT', 'REPLY', 'SKIP')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 1)
    s.call('a', 'PING')
    s['a'].send('CLIENT', 'REPLY', 'OFF')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 1)
    s.call('a', 'CLIENT', 'REPLY', 'ON')


@scene('a blocked command counts as one call, and its error as one failure')
def _(s):
    one = s.client_id('a')
    s.call('boss', 'CONFIG', 'RESETSTAT')
    s.call('a', 'BLPOP', 'k', 0.01)
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'RPUSH', 'k', 1)
    s.read('a')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'CLIENT', 'UNBLOCK', one, 'ERROR')
    s.read('a')
    s.wait('a', 'BLPOP', 'k', 0)
    s.call('boss', 'CLIENT', 'UNBLOCK', one)
    s.read('a')
    figures = dict(pair.split('=') for pair in s.info('cmdstat_blpop').split(','))
    s.seen.append({name: figures[name] for name in ('calls', 'rejected_calls', 'failed_calls')})
    s.seen.append(s.info('errorstat_UNBLOCKED'))


@scene('CLIENT PAUSE holds commands that would block, and timeouts continue')
def _(s):
    for seconds in (1, 10, 100):  # longer when the machine is too slow for it to wait when the pause begins
        s['a'].send('BLPOP', 'k', seconds)
        wait_for(lambda: s.blocked() == 1 or select.select([s['a'].sock], [], [], 0)[0], 'the command to wait')
        s['boss'].get('CLIENT', 'PAUSE', 100000, 'WRITE')
        if s.blocked() == 1:
            break
        s['boss'].get('CLIENT', 'UNPAUSE')
        s['a'].read()
    s['b'].send('BLPOP', 'j', 0)
    s.read('a')
    s.call('boss', 'CLIENT', 'UNPAUSE')
    wait_for(lambda: s.blocked() == 1, 'the held command to wait')
    s.call('boss', 'RPUSH', 'j', 1)
    s.read('b')


@scene('a transaction with several pushes serves several clients')
def _(s):
    names = ['w%d' % i for i in range(20)]
    for name in names:
        s.wait(name, 'BLPOP', 'k%d' % (int(name[1:]) % 3), 0)
    block = [['RPUSH', 'k%d' % (i % 3), i] for i in range(20)]
    s['boss'].send_many([['MULTI']] + block + [['EXEC']])
    for _ in range(len(block) + 2):
        s.read('boss')
    for name in names:
        s.read(name)


@scene('XREAD BLOCK waits for entries after its ids, and $ is the last id at the time of the command')
def _(s):
    s.call('boss', 'XADD', 'x', '1-1', 'f', 'old')
    s.wait('a', 'XREAD', 'BLOCK', '0', 'STREAMS', 'x', 'y', '$', '0')
    s.wait('b', 'XREAD', 'COUNT', '1', 'BLOCK', '0', 'STREAMS', 'x', '5-0')
    s.call('boss', 'XADD', 'x', '2-1', 'f', 'new')
    s.read('a')
    s.call('boss', 'MULTI')
    s.call('boss', 'XADD', 'x', '6-1', 'f', '1')
    s.call('boss', 'XADD', 'x', '6-2', 'f', '2')
    s.call('boss', 'EXEC')
    s.read('b')
    s.call('a', 'XREAD', 'BLOCK', '20', 'STREAMS', 'x', '$')
    s.wait('a', 'XREAD', 'BLOCK', '0', 'STREAMS', 'none', '$')
    s.call('boss', 'SET', 'none', 'no stream')
    s.call('boss', 'DEL', 'none')
    s.call('boss', 'XADD', 'none', '1-1', 'f', 'v')
    s.read('a')


@scene('XREADGROUP BLOCK: blocked clients of a group share new entries, the oldest client first')
def _(s):
    s.call('boss', 'XGROUP', 'CREATE', 'x', 'g', '$', 'MKSTREAM')
    s.wait('a', 'XREADGROUP', 'GROUP', 'g', 'alice', 'BLOCK', '0', 'STREAMS', 'x', '>')
    s.wait('b', 'XREADGROUP', 'GROUP', 'g', 'bob', 'BLOCK', '0', 'STREAMS', 'x', '>')
    s.wait('c', 'XREAD', 'BLOCK', '0', 'STREAMS', 'x', '0')
    s.call('boss', 'XADD', 'x', '1-1', 'f', 'one')
    s.read('a')
    s.read('c')
    s.call('boss', 'XADD', 'x', '2-1', 'f', 'two')
    s.read('b')
    s.call('boss', 'XPENDING', 'x', 'g')
    s.call('a', 'XREADGROUP', 'GROUP', 'g', 'alice', 'BLOCK', '0', 'STREAMS', 'x', '0')
    s.call('a', 'XREADGROUP', 'GROUP', 'g', 'alice', 'BLOCK', '20', 'STREAMS', 'x', '>')


@scene('deleting a group or a stream ends blocking with an error')
def _(s):
    for end in (['XGROUP', 'DESTROY', 'x', 'g'], ['DEL', 'x'], ['SET', 'x', 'text']):
        s.call('boss', 'DEL', 'x')
        s.call('boss', 'XGROUP', 'CREATE', 'x', 'g', '$', 'MKSTREAM')
        s.wait('a', 'XREADGROUP', 'GROUP', 'g', 'alice', 'BLOCK', '0', 'STREAMS', 'x', '>')
        s.call('boss', *end)
        s.read('a')


@contextlib.contextmanager
def descriptors(count):
    """Raises the limit of open descriptors for this process and its children; Skip: the limit cannot be raised so far."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        raise Skip('only %d descriptors' % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@suite.case('many clients that block on one key get its elements in the order of their arrival')
def _(run):
    count = run.options.waiters
    with descriptors(2 * count + 200), Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        waiters = []
        with Connection(backend.addresses[0]) as boss:
            for i in range(count):
                waiters.append(Connection(backend.addresses[0]))
                waiters[-1].call('PING')
                waiters[-1].send('BLPOP', 'k', 0 if i % 2 else 1000 + i)
                boss.call('PING')  # its reply shows that the previous command was read
            wait_for(lambda: b'blocked_clients:%d\r\n' % count in boss.get('INFO', 'clients'), 'all to wait')
            before = backend.cpu_seconds()
            for i in range(200):
                check_equal(boss.call('RPUSH', 'k', i), (':', b'1'))
            one_by_one = backend.cpu_seconds() - before
            order = [value(waiter.read()) for waiter in waiters[:200]]
            started = time.monotonic()
            boss.call('RPUSH', 'k', *range(200, count))
            order += [value(waiter.read()) for waiter in waiters[200:]]
            run.note('%.0f us of CPU to serve one of %d, %.2f s for all the rest at once'
                     % (one_by_one / 200 * 1e6, count, time.monotonic() - started))
            check_equal([int(element) for _, element in order], list(range(count)), 'order')
            check_equal(boss.call('EXISTS', 'k'), (':', b'0'))
        for waiter in waiters:
            waiter.close()


@suite.case('a backend with blocked clients stops cleanly')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        clients = [Connection(cluster.backends[0].addresses[0]) for _ in range(20)]
        for i, client in enumerate(clients):
            client.send('BLPOP', 'k', i % 2 * 60)
        with Connection(cluster.backends[0].addresses[0]) as boss:
            wait_for(lambda: b'blocked_clients:20\r\n' in boss.get('INFO', 'clients'), 'all to wait')
        cluster.backends[0].stop()
        for client in clients:
            check_equal(client.read_until_closed(20), (b'', True))


@suite.case('the requests that a blocked client sends are bounded')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0,
                 backend_options={'backend': {'client-query-limit': '1mb'}}) as cluster:
        with Connection(cluster.backends[0].addresses[0]) as boss:
            for size, is_cut in ((900000, False), (2000000, True)):
                with Connection(cluster.backends[0].addresses[0]) as client:
                    client.send('BLPOP', 'k', 0)
                    wait_for(lambda: b'blocked_clients:1\r\n' in boss.get('INFO', 'clients'), 'it to wait')
                    try:
                        client.send_many([['SET', 's', 'x' * 1000]] * (size // 1030))
                    except ConnectionError:
                        check(is_cut, 'cut too early')
                    if is_cut:
                        wait_for(lambda: b'blocked_clients:0\r\n' in boss.get('INFO', 'clients'), 'the wait to end')
                    boss.call('RPUSH', 'k', 1)
                    if not is_cut:
                        check_equal(client.read(), ('*', [('$', b'k'), ('$', b'1')]))
                        check_equal({client.read() for _ in range(size // 1030)}, {('+', b'OK')})
            check_equal(boss.call('LLEN', 'k'), (':', b'1'))


# -- the proxy over several shards -----------------------------------------------------------------------------------

def block(boss, client, *words):
    """Sends a command, and returns when it waits. The number of blocked clients would not do, as in Scene.wait()."""
    waits = re.compile(rb'^id=%d .* flags=\w*b' % client.get('CLIENT', 'ID'), re.M)
    client.send(*words)
    wait_for(lambda: waits.search(boss.get('CLIENT', 'LIST')), '%r to wait' % (words,))


def proxy_info(boss, field):
    line = [line for line in boss.get('INFO', 'clients').decode().split('\r\n') if line.startswith(field + ':')]
    return int(line[0].split(':')[1])


@suite.case('through the proxy many clients block on several shards, others are not delayed, and each gets its own element')
def _(run):
    count = run.options.waiters
    with descriptors(2 * count + 200), Cluster(backends=3, partitions=1, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with Connection(proxy.address) as boss:
            waiters = [Connection(proxy.address) for _ in range(count)]
            for i, waiter in enumerate(waiters):
                waiter.send('BLPOP', 'k%d' % i, 'other{k%d}' % i, 0)
            wait_for(lambda: proxy_info(boss, 'blocked_clients') == count, 'all to wait')
            for i in range(1000):
                check_equal(boss.call('SET', 's%d' % i, i), ('+', b'OK'))
            for i, waiter in enumerate(waiters):
                boss.call('RPUSH', 'k%d' % i, i)
            for i, waiter in enumerate(waiters):
                check_equal(value(waiter.read()), [b'k%d' % i, b'%d' % i])
                waiter.send('GET', 's%d' % (i % 1000))
            for i, waiter in enumerate(waiters):
                check_equal(value(waiter.read()), b'%d' % (i % 1000))
            wait_for(lambda: proxy_info(boss, 'blocked_clients') == 0, 'nobody to wait')
            for waiter in waiters:
                waiter.close()


@suite.case('a burst of clients that begin to block is served, however slowly a backend accepts connections')
def _(run):
    many = 300
    with Cluster(backends=1, partitions=1, backend_options={'backend': {'tcp-backlog': 64}},
                 proxy_options={'proxy': {'workers': 1}, 'upstream': {'connect-timeout': '%dms' % (500 * harness.SLOW), 'timeout': '600s'}}) as cluster, \
            cluster.connect() as boss, contextlib.ExitStack() as stack:
        boss.get('SET', 'other', 'x')
        waiters = [stack.enter_context(cluster.connect()) for _ in range(many)]
        for waiter in waiters:
            waiter.get('PING')
        cluster.backends[0].pause()
        for waiter in waiters:
            waiter.send('BLPOP', 'k', 0)
        time.sleep(1.5 * harness.SLOW)  # longer than opening a connection may take
        cluster.backends[0].resume()
        wait_for(lambda: b'blocked_clients:%d\r' % many in boss.get('INFO', 'clients'), 'all to wait')
        boss.get('RPUSH', 'k', *range(many))
        check_equal(sorted(int(waiter.read()[1][1][1]) for waiter in waiters), list(range(many)))


@suite.case('a client is listed as blocked when its command is at the shard, not while a connection to the shard is being opened')
def _(run):
    with Cluster(backends=1, partitions=1, proxy_options={'upstream': {'timeout': '60s', 'connect-timeout': '60s'}}) as cluster, \
            cluster.connect() as boss, cluster.connect() as reader:
        reader.get('PING')
        cluster.backends[0].pause()
        reader.send('XREAD', 'BLOCK', 0, 'STREAMS', 'events', '$')
        wait_for(lambda: b'cmd=xread' in boss.get('CLIENT', 'LIST'), 'the proxy to take XREAD')
        check(b'flags=b' not in boss.get('CLIENT', 'LIST'), 'listed as blocked')
        cluster.backends[0].resume()
        wait_for(lambda: b'flags=b' in boss.get('CLIENT', 'LIST'), 'the connection to open')
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == 1, 'it to be counted')
        boss.get('XADD', 'events', '1-1', 'field', 'value')
        check_equal(reader.read(), boss.call('XREAD', 'STREAMS', 'events', '0'))
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == 0, 'the wait to end')


@suite.case('through the proxy: CROSSSLOT, WAIT, UNBLOCK by clients of other workers, dedicated-limit')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 2}, 'upstream': {'dedicated-limit': 4}}) as cluster:
        address = cluster.proxies[0].address
        with Connection(address) as boss:
            keys = ['k%d' % i for i in range(20)]
            check('CROSSSLOT' in str(boss.call('BLMOVE', keys[0], keys[1], 'LEFT', 'LEFT', 0)), 'no CROSSSLOT')
            check('CROSSSLOT' in str(boss.call('XREAD', 'BLOCK', 10, 'STREAMS', *keys, *['$'] * 20)), 'no CROSSSLOT')
            check_equal(boss.call('WAIT', 0, 0), (':', b'0'))
            check_equal(boss.call('WAIT', 1, 30), (':', b'0'))
            check_equal(boss.call('WAIT', 'x', 30), ('-', b'ERR value is not an integer or out of range'))
            others = [Connection(address) for _ in range(4)]
            for other in others:
                other.send('BLPOP', 'k', 0)
            wait_for(lambda: proxy_info(boss, 'blocked_clients') == 4, 'four to wait')
            ids = [int(line.split()[0][3:]) for line in boss.get('CLIENT', 'LIST').decode().split('\n') if ' flags=b ' in line]
            check_equal(len(ids), 4)
            for one in ids:
                check_equal(boss.call('CLIENT', 'UNBLOCK', one, 'ERROR'), (':', b'1'))
            for other in others:
                check_equal(other.read(), ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))
                check_equal(other.call('BLPOP', 'k', 0.01), ('*', None))
                check_equal(other.call('WATCH', 'k'), ('+', b'OK'))
            check('dedicated-limit' in str(boss.call('WATCH', 'k')), 'no limit')
            check_equal(boss.call('BLPOP', 'k', 0.01), ('*', None))  # this needs no connection of its own
            others.pop().close()
            wait_for(lambda: boss.call('WATCH', 'k') == ('+', b'OK'), 'a connection to be free')
            for other in others:
                other.close()


@suite.case("through the proxy: a lost shard, moved slots and the proxy's stop end blocking with an error")
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        with Connection(proxy.address) as boss, Connection(proxy.address) as a, Connection(proxy.address) as b:
            slot = boss.get('CLUSTER', 'KEYSLOT', 'k')
            owner = 0 if slot < 8192 else 1
            block(boss, a, 'BLPOP', 'k', 0)
            cluster.slots = list(reversed(cluster.slots))
            cluster.write_shards()
            check_equal(a.read(), ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))
            block(boss, a, 'BLPOP', 'k', 0)
            cluster.backends[1 - owner].kill9()
            error = str(a.read())  # the dedicated connection may still have been connecting
            check('connection lost' in error or 'not reachable' in error, 'another error: ' + error)
            cluster.backends[1 - owner].start()
            wait_for(lambda: b.call('BLPOP', 'other', 0.1) == ('*', None), 'the proxy to reach the shard again')
            block(boss, b, 'BLPOP', 'other', 0)
            proxy.stop()
            check_equal(b.read(), ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))
            check_equal(b.read_until_closed(20), (b'', True))


# -- blocked commands of a proxy's clients on one connection (backend/session/waits.h)
# ---------------------------------

@contextlib.contextmanager
def carrier(cluster):
    """A connection that may send SCREE WAIT."""
    with Connection(cluster.backends[0].addresses[0], 60) as connection:
        check_equal(connection.call('SCREE', 'AUTH', cluster.secret), ('+', b'OK'))
        yield connection


def begin_wait(connection, number, *words, resp=2, namespace='', db=0):
    connection.send('SCREE', 'WAIT', number, resp, namespace, db, 'tag', *words)


def begins(number):
    return '>', [(':', b'%d' % number)]


def ends(number, reply):
    return '>', [(':', b'%d' % number), reply]


def pair(key, element):
    return '*', [('$', key), ('$', element)]


@suite.case('one connection carries blocked commands of several namespaces, databases and protocols, in the order of their arrival')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, carrier(cluster) as many, carrier(cluster) as boss:
        for number, place in ((1, {}), (2, {'namespace': 'shop'}), (3, {'db': 1, 'resp': 3}), (4, {}), (5, {'resp': 3})):
            begin_wait(many, number, 'BLPOP', 'k', 0, **place)
            check_equal(many.read(), begins(number))
        begin_wait(many, 6, 'BLPOP', 'k', 0.01, resp=3)
        check_equal([many.read(), many.read()], [begins(6), ends(6, ('_', b''))])
        begin_wait(many, 6, 'BLPOP', 'k', 0.01)  # the number is free again
        check_equal([many.read(), many.read()], [begins(6), ends(6, ('*', None))])
        check_equal(boss.call('RPUSH', 'k', 'a', 'b'), (':', b'2'))
        check_equal([many.read(), many.read()], [ends(1, pair(b'k', b'a')), ends(4, pair(b'k', b'b'))])
        boss.call('SCREE', 'USE', 'shop', 0)
        boss.call('RPUSH', 'k', 'in shop')
        check_equal(many.read(), ends(2, pair(b'k', b'in shop')))
        boss.call('SCREE', 'USE', '', 0)
        boss.call('SWAPDB', 0, 1)
        boss.call('RPUSH', 'k', 'c')
        check_equal(many.read(), ends(5, pair(b'k', b'c')))
        boss.call('SELECT', 1)
        boss.call('RPUSH', 'k', 'd')
        check_equal(many.read(), ends(3, pair(b'k', b'd')))
        begin_wait(many, 7, 'BLPOP', 'k', 'soon')
        check_equal(many.read(), ends(7, ('-', b'ERR timeout is not a float or out of range')))
        begin_wait(many, 7, 'WAIT', 0, 100)
        check_equal(many.read(), ends(7, (':', b'0')))
        check_equal(many.call('PING'), ('+', b'PONG'))


@suite.case('SCREE WAIT accepts commands that may block, from connections that know the secret')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, carrier(cluster) as many:
        begin_wait(many, 1, 'BLPOP', 'k', 0)
        check_equal(many.read(), begins(1))
        for number, words, place in ((2, ['GET', 'k'], {}), (2, ['SUBSCRIBE', 'c'], {}), (2, ['MULTI'], {}), (2, ['NONE', 'k', 0], {}),
                                     (1, ['BLPOP', 'k', 0], {}), (0, ['BLPOP', 'k', 0], {}), (2, ['BLPOP', 'k', 0], {'db': 99}),
                                     (2, ['BLPOP', 'k', 0], {'resp': 4}), (2, ['BLPOP', 'k', 0], {'namespace': 'default'})):
            begin_wait(many, number, *words, **place)
            check('ERR SCREE WAIT takes' in str(many.read()), '%r was taken' % words)
        with Connection(cluster.backends[0].addresses[0], 20) as stranger:
            begin_wait(stranger, 1, 'BLPOP', 'k', 0)
            check('NOPERM' in str(stranger.read()), 'without the secret')
        check_equal(many.call('SCREE', 'UNBLOCK', 1, 'SOMEHOW'), ('-', b'ERR syntax error'))


@suite.case("a blocked command is unblocked or cancelled once, and the connection's end cancels all")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, carrier(cluster) as boss:
        with carrier(cluster) as many:
            for number in range(1, 6):
                begin_wait(many, number, 'BLMOVE', 'k', 'to', 'LEFT', 'RIGHT', 0)
                check_equal(many.read(), begins(number))
            for number, how in ((1, 'TIMEOUT'), (1, 'TIMEOUT'), (9, 'ERROR'), (2, 'ERROR'), (3, 'GONE')):
                many.send('SCREE', 'UNBLOCK', number, how)
            check_equal(many.call('PING'), ends(1, ('*', None)))
            check_equal(many.read(), ends(2, ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK')))
            check_equal(many.read(), ('+', b'PONG'))
            check_equal(proxy_info(boss, 'blocked_clients'), 2)
            line = [line for line in boss.get('CLIENT', 'LIST').decode().split('\n') if ' flags=b ' in line]
            check_equal(len(line), 1, 'connections that wait')
            boss.call('RPUSH', 'k', 'x')
            many.send('SCREE', 'UNBLOCK', 4, 'TIMEOUT')  # too late
            check_equal([many.read(), many.call('PING')], [ends(4, ('$', b'x')), ('+', b'PONG')])
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == 0, 'the last to be cancelled')
        boss.call('RPUSH', 'k', 'y')
        check_equal(boss.call('LRANGE', 'k', 0, -1), ('*', [('$', b'y')]))


@suite.case('20 000 blocked commands of one connection are served in order, and their memory is freed')
def _(run):
    count = sized(20000, 100000)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, carrier(cluster) as many, carrier(cluster) as boss:
        backend = cluster.backends[0]
        before = backend.rss_bytes()
        many.send_many([['SCREE', 'WAIT', i + 1, 2, '', 0, 'tag', 'BLPOP', 'k', 1000 if i % 2 else 0] for i in range(count)])
        check_equal([many.read() for _ in range(count)], [begins(i + 1) for i in range(count)])
        check_equal(proxy_info(boss, 'blocked_clients'), count)
        run.note('%.0f bytes for each wait' % ((backend.rss_bytes() - before) / count))
        for first in range(0, count, 1000):
            boss.call('RPUSH', 'k', *range(first, first + 1000))
        check_equal([many.read() for _ in range(count)], [ends(i + 1, pair(b'k', b'%d' % i)) for i in range(count)])
        check_equal(proxy_info(boss, 'blocked_clients'), 0)
        info = {line.split('=')[0]: line for line in boss.get('CLIENT', 'LIST').decode().split(' ') if line.startswith('tot-mem')}
        check(int(info['tot-mem'].split('=')[1]) < 20000, info)


@suite.case('while a connection is not read, elements stay in the lists of its blocked commands; other clients are served')
def _(run):
    big, count = 'x' * 100000, 200
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, carrier(cluster) as many, carrier(cluster) as boss, \
            carrier(cluster) as other:
        for i in range(count):
            begin_wait(many, i + 1, 'BLPOP', 'k', 0)
            check_equal(many.read(), begins(i + 1))
        for _ in range(count):  # does not read: at some point too many bytes are unsent
            boss.call('RPUSH', 'k', big)
        left = int(value(boss.call('LLEN', 'k')))
        check(left > 0, 'all were given away')
        check_equal(other.call('BLPOP', 'k', 0), pair(b'k', big.encode()))
        begin_wait(other, 1, 'BLPOP', 'k', 0)
        check_equal(other.read(), ends(1, pair(b'k', big.encode())))
        begin_wait(other, 2, 'BLPOP', 'k2', 'k', 0)
        check_equal(other.read(), ends(2, pair(b'k', big.encode())))
        for i in range(count - 3):
            check_equal(many.read(), ends(i + 1, pair(b'k', big.encode())))
        check_equal([boss.call('EXISTS', 'k'), proxy_info(boss, 'blocked_clients')], [(':', b'0'), 3])


@suite.case('a blocked command with too many bytes is refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'client-state-limit': '1mb'}}) as cluster, \
            carrier(cluster) as many, Connection(cluster.backends[0].addresses[0], 20) as client:
        keys = ['key:%d' % i for i in range(10000)]
        begin_wait(many, 1, 'BLPOP', *keys, 0)
        check('client-state-limit' in str(many.read()), 'no limit')
        check('client-state-limit' in str(client.call('BLPOP', *keys, 0)), 'no limit')
        for number in range(2, 20):  # each may use its share
            begin_wait(many, number, 'BLPOP', *keys[:1000], 0)
            check_equal(many.read(), begins(number))
        check_equal(many.call('PING'), ('+', b'PONG'))


# -- blocked commands through the proxy (proxy/upstream/upstream_waits.c)
# ------------------------------------------------

def sockets_of(process):
    folder = '/proc/%d/fd' % process.pid
    count = 0
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it was closed just now
            count += os.readlink(os.path.join(folder, name)).startswith('socket:')
    return count


@suite.case('clients that begin to block at the same time need no descriptors of the backend')
def _(run):
    count = run.options.waiters
    cluster = Cluster(backends=1, partitions=1, proxies=1)
    cluster.backends[0].limits = {resource.RLIMIT_NOFILE: 400}
    cluster.proxies[0].limits = {resource.RLIMIT_NOFILE: count + 200}
    with descriptors(count + 500), cluster, cluster.connect(timeout=60) as boss, cluster.partition(0) as shard, contextlib.ExitStack() as stack:
        waiters = [stack.enter_context(cluster.connect(timeout=60)) for _ in range(count)]
        for i, waiter in enumerate(waiters):
            waiter.send('BLPOP', 'k%d' % i, 0 if i % 2 else 1000)
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == count, 'all to wait', 60)
        check(sockets_of(cluster.backends[0]) < 40, '%d sockets' % sockets_of(cluster.backends[0]))
        gone = set(range(0, count, 7))
        for i in gone:
            waiters[i].close()
        for each in (boss, shard):  # the shard hears later than the proxy that they left
            wait_for(lambda: proxy_info(each, 'blocked_clients') == count - len(gone), 'those that left to be forgotten', 60)
        for first in range(0, count, 500):
            boss.pipeline([['RPUSH', 'k%d' % i, i] for i in range(first, min(first + 500, count))])
        for i, waiter in enumerate(waiters):
            if i not in gone:
                check_equal(value(waiter.read()), [b'k%d' % i, b'%d' % i])
        check_equal(int(value(boss.call('DBSIZE'))), len(gone))


@suite.case('kill -9 of a shard ends its blocked commands with an error; those at other shards stay blocked')
def _(run):
    count = 600
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect(timeout=60) as boss, \
            contextlib.ExitStack() as stack:
        keys = [cluster.key_on(i % 2, 'list%d' % i) for i in range(count)]
        waiters = [stack.enter_context(cluster.connect(timeout=60)) for _ in range(count)]
        for waiter, key in zip(waiters, keys):
            waiter.send('BLPOP', key, 0)
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == count, 'all to wait', 60)
        cluster.backends[0].kill9()
        for waiter in waiters[::2]:
            error = waiter.read()
            check(error[0] == '-' and b'connection lost before the reply' in error[1], error)
        check_equal(waiters[0].call('BLPOP', keys[0], 0)[0], '-', 'a wait at a shard that is down')
        cluster.backends[0].start()
        wait_for(lambda: waiters[0].call('EXISTS', keys[0]) == (':', b'0'), 'the shard to be reached', 60)
        for waiter, key in zip(waiters[::2], keys[::2]):
            wait_for(lambda: waiter.call('BLPOP', key, 0.001) == ('*', None), 'waits to be taken there', 60)
            waiter.send('BLPOP', key, 0)
        wait_for(lambda: proxy_info(boss, 'blocked_clients') == count, 'all to wait', 60)
        for key in keys:
            check_equal(boss.call('RPUSH', key, key), (':', b'1'))
        for waiter, key in zip(waiters, keys):
            check_equal(value(waiter.read()), [key.encode(), key.encode()])


class Taker(threading.Thread):
    """Pops from a list with short timeouts until it must stop; some clients disconnect while they block, and come back."""

    def __init__(self, cluster, keys, number, seed, leaves):
        super().__init__()
        self.keys = keys
        self.cluster, self.chance, self.leaves = cluster, random.Random(seed * 1000 + number), leaves
        self.proxy = number % len(cluster.proxies)
        self.taken, self.unsure, self.nulls, self.unblocked = [], 0, 0, 0
        self.client_id, self.must_stop, self.error = 0, False, None

    def run(self):
        try:
            self.take()
        except Exception as error:  # noqa: told by the test
            self.error = error

    def connect(self):
        connection = self.cluster.connect(self.proxy, timeout=60)
        self.client_id = connection.get('CLIENT', 'ID')
        return connection

    def take(self):
        connection = self.connect()
        while not self.must_stop:
            keys = self.chance.sample(self.keys, len(self.keys))
            connection.send(self.chance.choice(['BLPOP', 'BRPOP']), *keys, self.chance.choice([0.001, 0.003, 0.01]))
            if self.leaves and self.chance.random() < 0.1:
                time.sleep(self.chance.random() * 0.004)
                self.unsure += 1  # an element may have been in the lost reply
                connection.close()
                connection = self.connect()
                continue
            reply = connection.read()
            if reply == ('*', None):
                self.nulls += 1
            elif reply[0] == '-':
                check_equal(reply[1], b'UNBLOCKED client unblocked via CLIENT UNBLOCK')
                self.unblocked += 1
            else:
                self.taken.append(int(value(reply)[1]))
        connection.close()


def race(run, count, backends):
    """Pushes to a list on each backend, while clients pop with short timeouts."""
    with Cluster(backends=backends, partitions=1, proxies=2, proxy_options={'proxy': {'workers': 2}}) as cluster:
        lists = [cluster.key_on(shard) for shard in range(backends)]
        for leaves in (False, True):
            takers = [Taker(cluster, lists, i, run.seed, leaves) for i in range(12)]
            for taker in takers:
                taker.start()
            chance = random.Random(run.seed)
            with cluster.connect(0, timeout=60) as boss, cluster.connect(1, timeout=60) as other:
                for i in range(count):
                    check_equal(boss.call('RPUSH', chance.choice(lists), i)[0], ':')
                    if chance.random() < 0.2:
                        taker = chance.choice(takers)
                        (boss, other)[taker.proxy].call('CLIENT', 'UNBLOCK', taker.client_id, chance.choice(['TIMEOUT', 'ERROR']))
                for taker in takers:
                    taker.must_stop = True
                for taker in takers:
                    taker.join()
                    check(taker.error is None, repr(taker.error))
                wait_for(lambda: proxy_info(boss, 'blocked_clients') == 0, 'no wait to be left')
                left = [int(element) for key in lists for element in value(boss.call('LRANGE', key, 0, -1))]
                boss.call('DEL', *lists)
            found = sorted([element for taker in takers for element in taker.taken] + left)
            check_equal(len(found), len(set(found)), 'elements given once')
            missing = count - len(found)
            unsure = sum(taker.unsure for taker in takers)
            check(missing <= unsure if leaves else missing == 0, '%d of %d elements are missing' % (missing, count))
            run.note('%d elements taken, %d left, %d nulls, %d unblocked; %d clients left, %d elements with them'
                     % (len(found) - len(left), len(left), sum(taker.nulls for taker in takers),
                        sum(taker.unblocked for taker in takers), unsure, missing))


@suite.case('pushes race with timeouts, CLIENT UNBLOCK and clients that disconnect: no element is lost or given twice')
def _(run):
    race(run, sized(1500, 30000), 1)


@suite.case('pushes race with timeouts, CLIENT UNBLOCK and disconnects on lists of three shards: no element is lost or given twice')
def _(run):
    race(run, sized(1000, 20000), 3)


# -- keys on several shards (proxy/client/blocked_parts.c) --------------------------------------------------------------------

def play_on_shards(stage, k):
    """Plays the scenes; k: three keys, which are on three shards of the proxy."""
    for pop in (['BLPOP', *k, 0], ['BRPOP', *k, 0], ['BLMPOP', 0, 3, *k, 'LEFT'], ['BLMPOP', 0, 3, *k, 'RIGHT', 'COUNT', 2]):
        stage.call('boss', 'RPUSH', k[1], 1, 2, 3)
        stage.call('boss', 'RPUSH', k[2], 4)
        stage.call('a', *pop)  # does not block: it takes from the first key in argument order that has an element
        stage.call('boss', 'DEL', k[1])
        stage.call('boss', 'DEL', k[2])
        stage.wait('a', *pop)
        stage.call('boss', 'RPUSH', k[2], 'x', 'y')
        stage.read('a')
        stage.call('boss', 'DEL', k[2])
    for pop in (['BZPOPMIN', *k, 0], ['BZPOPMAX', *k, 0], ['BZMPOP', 0, 3, *k, 'MAX', 'COUNT', 5]):
        stage.wait('a', *pop)
        stage.call('boss', 'ZADD', k[1], 1, 'm', 2.5, 'n')
        stage.read('a')
        stage.call('boss', 'DEL', k[1])
    stage.call('a', 'BLPOP', *k, 0.01)
    stage.call('a', 'BLMPOP', 0.01, 3, *k, 'LEFT')
    # a key of another type: an error if it comes first in the arguments, else skipped
    stage.call('boss', 'SET', k[0], 'text')
    stage.call('a', 'BLPOP', *k, 0)
    stage.call('boss', 'DEL', k[0])
    stage.wait('a', 'BLPOP', *k, 0)
    stage.call('boss', 'SET', k[1], 'text')
    stage.call('boss', 'ZADD', k[0], 1, 'm')
    stage.call('boss', 'DEL', k[0])
    check(stage.is_blocked('a'), 'keys of other types end the wait')
    stage.call('boss', 'RPUSH', k[0], 'x')
    stage.read('a')
    stage.call('boss', 'DEL', k[1])
    for wrong in (['BLPOP', *k, 'x'], ['BLPOP', *k, -1], ['BLMPOP', 0, 3, *k, 'UP'], ['BLMPOP', 'x', 3, *k, 'LEFT'],
                  ['BLMPOP', 0, 3, *k, 'LEFT', 'COUNT', 0], ['BZMPOP', 0, 3, *k, 'MIN', 'COUNT']):
        stage.call('a', *wrong)
    # CLIENT UNBLOCK, requests after a blocked one, CLIENT REPLY OFF
    for how in ([], ['TIMEOUT'], ['ERROR']):
        stage.wait('a', 'BLPOP', *k, 0)
        stage.call('boss', 'CLIENT', 'UNBLOCK', stage.ids['a'], *how)
        stage.read('a')
    stage.wait('a', 'BLPOP', *k, 0)
    stage['a'].send_many([['ECHO', 'next'], ['BRPOP', *k, 0], ['ECHO', 'last']])
    stage.call('boss', 'RPUSH', k[0], 1, 2)
    for _ in range(4):
        stage.read('a')
    stage['a'].send_many([['CLIENT', 'REPLY', 'OFF'], ['BLPOP', *k, 0], ['CLIENT', 'REPLY', 'ON']])
    stage.call('boss', 'RPUSH', k[1], 'unread')
    stage.read('a')
    # two blocked clients are both served; on one shard, the key that got an element first is taken first
    stage.wait('a', 'BLPOP', *k, 0)
    stage.wait('b', 'BLPOP', *reversed(k), 0)
    stage.call('boss', 'RPUSH', k[1], 'both', 'both')
    stage.read('a')
    stage.read('b')
    same = ['{%s}%d' % (k[1], i) for i in range(2)]
    stage.wait('a', 'BLPOP', k[0], *same, 0)
    stage['boss'].send_many([['MULTI'], ['LPUSH', same[1], 'second'], ['LPUSH', same[0], 'first'], ['EXEC']])
    for _ in range(4):
        stage.read('boss')
    stage.read('a')
    stage.call('boss', 'DEL', same[0])
    many = ['wide:%d' % i for i in range(400)]  # more than are tried one after the other
    stage.call('boss', 'RPUSH', many[390], 'late', 'later')
    stage.call('boss', 'RPUSH', many[330], 'early')
    for _ in range(2):
        stage.call('a', 'BLPOP', *many, 0)
    stage.call('boss', 'SET', many[380], 'a string')
    stage.call('a', 'BLPOP', *many, 0)
    stage.call('boss', 'DEL', many[380])
    stage.call('a', 'BLPOP', *many, 0)
    stage.call('a', 'BLPOP', *many, 0.01)
    stage.call('boss', 'RPUSH', many[399], 'behind', 'more')
    stage.call('a', 'BLPOP', *many, 0.001)  # the time is over before all are tried
    stage.call('a', 'BLPOP', '', *many, 0)  # a shard without an element names no key, which is not the key ''
    stage.wait('a', 'BLPOP', *many, 0)
    stage.call('boss', 'RPUSH', many[371], 'at last')
    stage.read('a')
    stage.call('boss', 'DBSIZE')


@suite.case('through the proxy with keys on three shards: every reply is that of redis-server')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 2}}) as cluster:
        with Oracle() as oracle:
            keys = [cluster.key_on(shard) for shard in range(3)]
            for proto in (2, 3):
                seen = []
                for address in (oracle.address, cluster.proxies[0].address):
                    stage = Scene(address, address, proto)
                    play_on_shards(stage, keys)
                    stage.end()
                    seen.append(stage.seen)
                check_equal(seen[1], seen[0], 'RESP%d' % proto)


@suite.case('keys on three shards: clients that disconnect, a lost shard, a new map, MULTI and the stop of the proxy')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster:
        keys = [cluster.key_on(shard) for shard in range(3)]
        proxy = cluster.proxies[0]
        shards = [cluster.partition(i) for i in range(3)]

        def waits():
            return [proxy_info(shard, 'blocked_clients') for shard in shards]

        with Connection(proxy.address) as boss, Connection(proxy.address) as a, Connection(proxy.address) as b:
            for _ in range(30):
                with Connection(proxy.address) as leaving:
                    leaving.send('BLPOP', *keys, 0)
            with Connection(proxy.address) as leaving:
                leaving.send('BLPOP', *keys, 0)
                wait_for(lambda: proxy_info(boss, 'blocked_clients') == 1, 'it to wait')
            wait_for(lambda: waits() == [0, 0, 0] and proxy_info(boss, 'blocked_clients') == 0, 'the waits to be cancelled')
            check_equal(boss.get('MULTI'), b'OK')
            check_equal(boss.get('BLPOP', *keys, 0), b'QUEUED')
            check('CROSSSLOT' in str(boss.get('EXEC')), 'in MULTI, without links between the shards')
            block(boss, b, 'BLPOP', keys[1], 0)  # blocks on one shard and is served first; other clients stay blocked
            block(boss, a, 'BLPOP', *keys, 0)
            boss.get('RPUSH', keys[1], 1)
            check_equal(value(b.read()), [keys[1].encode(), b'1'])
            boss.get('RPUSH', keys[2], 2)
            check_equal(value(a.read()), [keys[2].encode(), b'2'])
            block(boss, a, 'BLPOP', *keys, 0)
            cluster.slots = cluster.slots[1:] + cluster.slots[:1]
            cluster.write_shards()
            check_equal(a.read(), ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))
            wait_for(lambda: waits() == [0, 0, 0], 'the other waits to end')
            block(boss, a, 'BLPOP', *keys, 0)
            cluster.backends[2].kill9()
            error = str(a.read())
            check('connection lost' in error or 'not reachable' in error, 'another error: ' + error)
            wait_for(lambda: [proxy_info(shard, 'blocked_clients') for shard in shards[:2]] == [0, 0], 'the other waits to end')
            error = str(a.call('BLPOP', *keys, 0))
            check('connection lost' in error or 'not reachable' in error, 'at once: ' + error)
            cluster.backends[2].start()
            wait_for(lambda: a.call('BLPOP', *keys, 0.1) == ('*', None), 'the proxy to reach the shard again')
            block(boss, a, 'BLPOP', *keys, 0)
            proxy.stop()
            check_equal(a.read(), ('-', b'UNBLOCKED client unblocked via CLIENT UNBLOCK'))
        for shard in shards:
            shard.close()


@suite.case('(the servers of these cases stop cleanly)')
def _(run):
    WORLD.stop()


if __name__ == '__main__':
    suite.main()
