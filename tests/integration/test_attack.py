#!/usr/bin/python3
"""An untrusted peer, tenants, a user with ACL rules and a lying backend attack in rounds; after each round all promises
are checked.

  untrusted peer   no login: spoiled requests, floods of connections, thousands of logins, HTTP and random bytes at all
ports
  tenant     namespace mallory: every command with extreme arguments, scripts, payloads, subscriptions, transactions
  user       eve may use {g1}*: commands on every key
  guest      ordinary commands of a tenant through a proxy; one of its shards is a backend with invalid replies

After each round, when the attackers have left: the programs run, no sanitizer has reported, the victim's keys,
messages, functions and options are unchanged, no attacker has read them, other clients are served, and memory is
bounded.

    SCREE_BIN=build/asan tests/integration/test_attack.py --seconds 600           # or --long HOURS
    … --seed S --round N        repeats a round that failed (threads interleave differently: try more than once)
    … --replay JOURNAL          sends what the attackers of a round sent, one after the other, to fresh programs
    … --roles tenant,untrusted peer   only these attackers;   --without WORD leaves out requests that contain it
"""

import base64
import collections
import contextlib
import json
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

from support import harness, hostile
from support.cluster import Cluster, Proxy, even_slots, free_ports, is_sanitized, binary, write_ini
from support.harness import Failure, Suite, check, check_equal, patience, sized, wait_for
from support.other_version import THIS_VERSION
from support.resp import Connection, Reader, encode

MB = 1 << 20
ROUND_S = 5
ANSWER_S = 30            # longest time that a client waits once the attackers have left
LAST_REQUESTS = 30
QUIET_S = 0.003
JOURNAL_MAX = 64 * MB
MEMORY_MAX = 1024 * MB   # of each program, during the attack
SANITIZED_MEMORY_MAX = 3072 * MB
MARK = b'canary-value-'  # start of every text that an attacker must not read
OPERATOR, VICTIM, MALLORY, EVE = 'op-%x', 'vt-%x', 'mt-%x', 'ep-%x'


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(8, long=1800), help='how long to attack (default %(default)s)')
    parser.add_argument('--long', type=float, default=0, help='how long to attack, in hours')
    parser.add_argument('--round', type=int, default=0, help='begin with this round of the seed')
    parser.add_argument('--roles', default='untrusted peer,tenant,user,guest', help='who attacks')
    parser.add_argument('--without', action='append', default=[], help='leave out requests that contain this text')
    parser.add_argument('--replay', default='', help='a journal that a failed run has left')


suite = Suite(__doc__, options)


# ---- attackers -----------------------------------------------------------------------------------------------------

class Journal:
    """Everything the attackers of a round sent, for a replay: one line for each connection opened, bytes sent,
    connection closed."""

    def __init__(self, path):
        self.path, self.file, self.bytes, self.lock = path, None, 0, threading.Lock()

    def begin(self):
        if self.file:
            self.file.close()
        self.file, self.bytes = open(self.path, 'w'), 0

    def note(self, connection, what, data=''):
        with self.lock:
            if self.bytes < JOURNAL_MAX:
                line = json.dumps([connection, what, data])
                self.bytes += len(line)
                self.file.write(line + '\n')


class Link:
    """An attacker's connection. All bytes received are searched for texts that the attacker must not read."""
    numbers = iter(range(1 << 62))

    def __init__(self, attacker, target):
        self.attacker, self.name, self.tail, self.is_open = attacker, '%s-%d' % (attacker.name, next(self.numbers)), b'', True
        self.sock = socket.create_connection(attacker.arena.targets[target], patience())
        attacker.arena.journal.note(self.name, 'open', target)
        self.sock.settimeout(0.5)

    def send(self, data):
        if any(word in data for word in self.attacker.arena.without):
            return
        self.attacker.last.append((self.name, data[:600]))
        self.attacker.counts[self.attacker.scene, 'requests'] += max(1, data.count(b'\n*') + 1)
        self.attacker.arena.journal.note(self.name, 'send', base64.b64encode(data).decode())
        try:
            self.sock.sendall(data)
        except OSError:
            self.is_open = False

    def drain(self, seconds):
        """Reads until no bytes arrive for a moment, but at most for so long and at most 16 MB; returns the number of
        bytes."""
        end, read = time.monotonic() + seconds, 0
        while self.is_open and read < 16 * MB:
            left = end - time.monotonic()
            if left <= 0:
                break
            self.sock.settimeout(min(left, QUIET_S) if read else left)
            try:
                data = self.sock.recv(1 << 18)
            except socket.timeout:
                break
            except OSError:
                data = b''
            if not data:
                self.is_open = False
                break
            read += len(data)
            self.attacker.counts[self.attacker.scene, 'errors'] += data.count(b'\n-') + data.startswith(b'-')
            self.attacker.counts[self.attacker.scene, 'bytes'] += len(data)
            if MARK in self.tail + data:
                self.attacker.fail('%s reads what it must not: %r' % (self.name, around(self.tail + data)))
            self.tail = (self.tail + data)[-len(MARK):]
        return read

    def login(self, *words):
        self.sock.sendall(encode(words))
        self.attacker.arena.journal.note(self.name, 'login', [str(word) for word in words])
        self.drain(0.05)

    def close(self, hard=False):
        """`hard`: closes with a reset."""
        if hard:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.sock.close()
        self.attacker.arena.journal.note(self.name, 'close')


def around(data):
    at = data.find(MARK)
    return data[max(0, at - 100):at + 100]


class Attacker(threading.Thread):
    """Plays scenes of its role until the round ends. Its actions depend only on the seed, the round, its name, and the
    replies."""

    def __init__(self, arena, role, number, seed):
        super().__init__(daemon=True)
        self.arena, self.role, self.name = arena, role, '%s%d' % (role, number)
        self.rng = random.Random('%d %s' % (seed, self.name))
        self.last = collections.deque(maxlen=LAST_REQUESTS)
        self.failure, self.counts = None, arena.counts
        self.words = hostile.Words(self.rng, arena.rows, arena.options)
        self.scene = 'none'

    def fail(self, text):
        self.failure = self.failure or text

    def run(self):
        scenes = SCENES[self.role]
        while not self.arena.is_over() and not self.failure:
            scene = self.rng.choices([scene for _, scene in scenes], [weight for weight, _ in scenes])[0]
            self.scene = scene.__name__
            began = time.monotonic()
            try:
                scene(self)
                self.counts[self.scene, 'ms'] += int(1000 * (time.monotonic() - began))
                self.counts[self.scene, 'times'] += 1
            except OSError:
                time.sleep(0.02)  # refusing or resetting the connection is allowed
            except Exception as error:
                self.fail('the attacker itself fails in %s: %s: %s' % (self.scene, type(error).__name__, error))

    @contextlib.contextmanager
    def link(self, target, *login):
        link = Link(self, target)
        try:
            if login:
                link.login(*login)
            yield link
        finally:
            link.close(self.rng.random() < 0.3)


def play(self, link, make, count):
    """Sends `count` pipelines and sometimes reads, until the connection is silent, because it blocks or is closed."""
    silent = 0
    for _ in range(count):
        if not link.is_open or silent == 3 or self.arena.is_over():
            return
        link.send(b''.join(hostile.request(self.rng, make()) for _ in range(self.rng.choice([1, 1, 3, 10, 40, 40]))))
        if self.rng.random() < 0.8:
            silent = 0 if link.drain(self.rng.choice([0.005, 0.02, 0.05])) else silent + 1
    link.drain(0.05)


# -- untrusted peer

def send_noise(self):
    with self.link(self.rng.choice(['proxy', 'backend', 'liar-proxy', 'admin-proxy', 'admin-backend'])) as link:
        data = self.rng.randbytes(self.rng.randint(1, 5000)) if self.rng.random() < 0.3 else \
            hostile.spoil(self.rng, b''.join(encode(self.words.draw()) for _ in range(self.rng.randint(1, 10))))
        while data and link.is_open:
            size = self.rng.choice([1, 10, 100000])
            link.send(data[:size])
            data = data[size:] if self.rng.random() < 0.95 else b''
        link.drain(0.02)


def log_in_by_the_thousand(self):
    with self.link(self.rng.choice(['proxy', 'backend'])) as link:
        play(self, link, lambda: hostile.greeting(self.rng), 30)


def send_commands_without_login(self):
    with self.link(self.rng.choice(['proxy', 'backend'])) as link:
        play(self, link, self.words.draw, 10)


def flood_with_connections(self):
    links = []
    try:
        for _ in range(self.rng.choice([20, 100, 200])):
            links.append(Link(self, self.rng.choice(['proxy', 'backend', 'admin-proxy', 'admin-backend'])))
            data = self.rng.choice([b'', b'*', b'*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000\r\n' + b'x' * 15000, b'GET /', b'\x16\x03\x01', b'P',
                                    b'*2\r\n$4\r\nAUTH\r\n$16384\r\n' + b'y' * 16000])
            links[-1].send(data)
        time.sleep(self.rng.random() * 0.2)
    finally:
        for link in links:
            link.close(self.rng.random() < 0.5)


def ask_admin_port(self):
    with self.link(self.rng.choice(['admin-proxy', 'admin-backend'])) as link:
        for _ in range(self.rng.randint(1, 10)):
            link.send(hostile.http(self.rng))
            link.drain(0.02)


# -- tenant

def as_mallory(self):
    return ('proxy', 'AUTH', 'mallory', self.arena.token(MALLORY))


def send_commands(self):
    with self.link(*as_mallory(self)) as link:
        play(self, link, self.words.draw, 30)


def send_big_requests(self):
    with self.link(*as_mallory(self)) as link:
        size = self.rng.choice([100000, 5 * MB])
        data = encode([self.rng.choice(['SET', 'APPEND', 'LPUSH', 'PUBLISH', 'SADD']), '{g1}a', b'x' * size])
        for _ in range(self.rng.randint(1, 4)):
            link.send(data if self.rng.random() < 0.6 else data[:self.rng.randrange(len(data))])
        if self.rng.random() < 0.5:
            link.send(encode(['DEL', '{g1}a']))
        link.drain(0.05)


def read_nothing(self):
    """Requests big replies and does not read them."""
    with self.link(*as_mallory(self)) as link:
        link.send(encode(['SET', '{g1}big', b'x' * self.rng.choice([1000, 100000])]))
        ask = encode(self.rng.choice([['GET', '{g1}big'], ['MGET'] + ['{g1}big'] * 50, ['ECHO', 'x' * 1000], ['KEYS', '*'], ['COMMAND']]))
        link.send(ask * 100)
        time.sleep(self.rng.random() * 0.2)


def run_scripts(self):
    with self.link(*as_mallory(self)) as link:
        play(self, link, lambda: hostile.evaluation(self.rng, can_be_long=True), 30)


def listen_and_leave(self):
    links = []
    try:
        for _ in range(self.rng.randint(1, 6)):
            links.append(Link(self, 'proxy'))
            links[-1].login(*as_mallory(self)[1:])
        for _ in range(60):
            link = self.rng.choice(links)
            link.send(encode(hostile.listening(self.rng)))
            if self.rng.random() < 0.3:
                link.drain(0.01)
            if not link.is_open or self.rng.random() < 0.05:
                links.remove(link)
                link.close(self.rng.random() < 0.5)
                links.append(Link(self, 'proxy'))
                links[-1].login(*as_mallory(self)[1:])
    finally:
        for link in links:
            link.close(self.rng.random() < 0.5)


def transact(self):
    with self.link(*as_mallory(self)) as link:
        data = [['WATCH', self.rng.choice(hostile.KEYS)] for _ in range(self.rng.randint(0, 3))] + [['MULTI']]
        data += [self.words.draw() for _ in range(self.rng.randint(0, 40))]
        data += [self.rng.choice([['EXEC'], ['EXEC'], ['DISCARD'], ['MULTI'], ['RESET'], ['QUIT'], ['WATCH', 'x']])]
        link.send(b''.join(encode(words) for words in data))
        link.drain(0.05 if self.rng.random() < 0.7 else 0)


def restore(self):
    with self.link(*as_mallory(self)) as link:
        def make():
            if self.rng.random() < 0.9:
                payload = hostile.payload(self.rng, self.rng.choice(self.arena.payloads))
                return ['RESTORE', self.rng.choice(hostile.KEYS), '0', payload, 'REPLACE']
            payload = hostile.payload(self.rng, self.arena.library)
            return ['FUNCTION', 'RESTORE', payload] + self.rng.choice([[], ['FLUSH'], ['REPLACE'], ['APPEND']])

        def use():
            key = self.rng.choice(hostile.KEYS)
            return self.rng.choice([make(), make(), make(), ['DUMP', key], ['OBJECT', 'ENCODING', key], ['HGETALL', key], ['LRANGE', key, 0, -1],
                                    ['ZRANGE', key, 0, -1], ['SMEMBERS', key], ['XRANGE', key, '-', '+'], ['XINFO', 'STREAM', key, 'FULL'],
                                    ['ZADD', key, 1, 'm'], ['HSET', key, 'f', 'v'], ['LPUSH', key, 'v'], ['SADD', key, 'v'], ['PFCOUNT', key],
                                    ['XADD', key, '*', 'f', 'v'], ['COPY', key, key + b'2'], ['JSON.GET', key], ['SPOP', key], ['LPOP', key, 100]])
        play(self, link, use, 30)


def clear(self):
    with self.link(*as_mallory(self)) as link:
        link.send(encode([self.rng.choice(['FLUSHALL', 'FLUSHDB'])]))
        link.drain(0.2)


# -- user

def use_every_key(self):
    with self.link('proxy', 'AUTH', 'eve', self.arena.token(EVE)) as link:
        play(self, link, self.words.draw, 40)


def use_every_key_in_scripts(self):
    with self.link('proxy', 'AUTH', 'eve', self.arena.token(EVE)) as link:
        play(self, link, lambda: hostile.evaluation(self.rng), 20)


def use_every_key_in_transactions(self):
    with self.link('proxy', 'AUTH', 'eve', self.arena.token(EVE)) as link:
        link.send(b''.join(encode(words) for words in [['MULTI']] + [self.words.draw() for _ in range(20)] + [['EXEC']]))
        link.drain(0.05)


# -- guest of a proxy with a lying backend

def ask_liar(self):
    with self.link('liar-proxy', 'AUTH', 'mallory', self.arena.token(MALLORY)) as link:
        make = self.words.draw if self.rng.random() < 0.7 else lambda: hostile.listening(self.rng)
        play(self, link, make, 20)


SCENES = {
    'untrusted peer': [(4, send_noise), (2, log_in_by_the_thousand), (2, send_commands_without_login), (1, flood_with_connections), (2, ask_admin_port)],
    'tenant': [(6, send_commands), (1, send_big_requests), (1, read_nothing), (4, run_scripts), (3, listen_and_leave), (3, transact),
               (4, restore), (0.2, clear)],
    'user': [(4, use_every_key), (1, use_every_key_in_scripts), (2, use_every_key_in_transactions)],
    'guest': [(1, ask_liar)],
}
COUNTS = {'untrusted peer': 2, 'tenant': 3, 'user': 1, 'guest': 2}


# ---- the lying backend ---------------------------------------------------------------------------------------------

class Liar:
    """A backend that replies with valid RESP only while `is_honest`."""

    def __init__(self, seed):
        self.rng, self.is_honest, self.is_stopping = random.Random('%d liar' % seed), True, False
        self.listener = socket.create_server(('127.0.0.1', free_ports()), backlog=128)
        self.address = self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.is_stopping:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with sock, contextlib.suppress(OSError):
            while not self.is_stopping:
                data = sock.recv(1 << 16)
                if not data:
                    return
                count = max(1, data.count(b'\n*') + 1)
                if self.is_honest:
                    sock.sendall(b''.join(honest_answer(part) for part in requests_in(data)))
                    continue
                sock.sendall(hostile.answer(self.rng, count))
                if self.rng.random() < 0.03:
                    return

    def stop(self):
        self.is_stopping = True
        self.listener.close()


def honest_answer(request):
    if request.startswith(b'SCREE SELF'):
        return THIS_VERSION
    return b'+PONG\r\n' if b'PING' in request else b'+OK\r\n'


def requests_in(data):
    """The whole requests at the start of `data`, as bytes; at least one."""
    reader, found = Reader(), []
    with contextlib.suppress(ValueError):
        reader.feed(data)
        while (request := reader.next()) is not None:
            found.append(b' '.join(word for _, word in request[1] or () if isinstance(word, bytes)))
    return found or [b'']


# ---- the programs, and the checks ------------------------------------------------------------------------------------

LIBRARY = "#!lua name=canary\nredis.register_function('canary', function() return '%s' end)"
FIXTURES = [['SET', 's', 'text'], ['SET', 'i', '12345'], ['SET', 'long', 'ab' * 400], ['HSET', 'h', 'a', '1', 'b', 'two'],
            ['HSET', 'hh'] + ['f%d' % i for i in range(400)], ['RPUSH', 'l', 'a', 'b', '3'], ['RPUSH', 'll'] + ['x' * 100] * 300,
            ['SADD', 'is', '1', '70000', '-5000000000'], ['SADD', 'ss', 'a', 'b', 'c'], ['ZADD', 'z', '1', 'a', '2.5', 'b', '-inf', 'c'],
            ['ZADD', 'zz'] + [str(i) for i in range(600)], ['XADD', 'x', '1-1', 'f', 'v'], ['XADD', 'x', '1-2', 'f', 'w', 'g', 'y'],
            ['XGROUP', 'CREATE', 'x', 'g', '0'], ['XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', 'x', '>'], ['PFADD', 'p', 'a', 'b'],
            ['JSON.SET', 'j', '$', '{"a":[1,2,{"b":null}]}']]


class Arena:
    """The programs, the victim's data, and the checks."""

    def __init__(self, run):
        self.run, self.seed = run, run.seed
        self.roles = run.options.roles.split(',')
        self.without = [word.encode() for word in run.options.without]
        self.subscriber = None
        self.counts = collections.Counter()  # by scene and kind; approximate, because threads share it
        self.folder = tempfile.mkdtemp(prefix='scree-attack-')
        self.journal = Journal(os.path.join(self.folder, 'journal'))
        self.liar = Liar(self.seed)
        users = os.path.join(self.folder, 'users.acl')
        with open(users, 'w') as file:
            file.write('user default on >%s ~* &* +@all\n' % self.token(OPERATOR) +
                       'user eve on >%s ~{g1}* &own* +@all -@admin -@dangerous +sort +restore\n' % self.token(EVE))
        limits = {'proto-max-bulk-len': '32mb', 'client-output-limit': '32mb', 'client-query-limit': '64mb'}
        self.proxy_options = {'proxy': dict(limits, **{'memory-limit': '256mb', 'aclfile': users, 'tcp-keepalive': '10s'})}
        self.namespaces = {'victim': {'token': self.token(VICTIM)}, 'mallory': {'token': self.token(MALLORY)}}
        self.cluster = Cluster(backends=1, partitions=2, proxy_options=self.proxy_options, namespaces=self.namespaces, backend_options={
            'backend': dict(limits, **{'requirepass': 'bp-%x' % self.seed, 'durability': 'os', 'command-time-limit': '2s'}),
            'store': {'block-cache': '32mb', 'row-cache': '16mb', 'rank-cache': '8mb', 'range-cache': '8mb'}})

    def token(self, form):
        return form % (self.seed ^ 0x5eed)

    # -- start

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.start_liar_proxy()
            self.targets = {'proxy': self.proxy.address, 'backend': self.backend.addresses[0], 'liar-proxy': self.liar_proxy.address,
                            'admin-proxy': ('127.0.0.1', self.proxy.admin), 'admin-backend': ('127.0.0.1', self.backend.admin)}
            self.make_payloads()
            self.make_canaries()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    @property
    def proxy(self):
        return self.cluster.proxies[0]

    @property
    def backend(self):
        return self.cluster.backends[0]

    def start_liar_proxy(self):
        """Starts a proxy whose first shard is the cluster's, and whose second one is the lying backend."""
        shards = os.path.join(self.folder, 'liar-shards.ini')
        addresses = [self.backend.addresses[0], self.liar.address]
        write_ini(shards, [('map', {'epoch': 1})] + [('shard s%d' % i, {'slots': slots, 'address': '%s:%d' % addresses[i][:2]})
                                                     for i, slots in enumerate(even_slots(2))])
        options = {'proxy': dict(self.proxy_options['proxy'], shards=shards), 'upstream': {'timeout': '1s', 'backoff-max': '100ms'}}
        self.liar_proxy = Proxy(self.cluster, 1, options, self.namespaces, {})
        self.cluster.start_retrying(self.liar_proxy)
        self.cluster.proxies.append(self.liar_proxy)

    def enter(self, *login, address=None):
        connection = Connection(address or self.proxy.address, ANSWER_S * harness.SLOW)
        check_equal(connection.call('AUTH', *login), ('+', b'OK'), 'AUTH %s' % login[0])
        return connection

    def as_operator(self):
        return self.enter(self.token(OPERATOR))

    def as_victim(self, address=None):
        return self.enter('victim', self.token(VICTIM), address=address)

    def make_payloads(self):
        with self.enter('mallory', self.token(MALLORY)) as client:
            self.rows = hostile.table(client.get('COMMAND'))
            self.options = client.get('CONFIG', 'GET', '*')[::2]
            check(len(self.rows) > 200, 'COMMAND lists %d commands' % len(self.rows))
            for words in FIXTURES:
                check(client.call(*words)[0] != '-', words)
            self.payloads = [client.get('DUMP', words[1]) for words in FIXTURES]
            self.payloads = [payload for payload in self.payloads if isinstance(payload, bytes)]
            client.get('FUNCTION', 'LOAD', LIBRARY % 'x')
            self.library = client.get('FUNCTION', 'DUMP')
            client.get('FUNCTION', 'FLUSH')
            client.get('FLUSHALL')

    # -- canaries

    def make_canaries(self):
        secret = MARK + b'%x' % self.seed
        with self.as_victim() as victim:
            for words in (['SET', 'canary', secret], ['HSET', 'canary:hash', 'f', secret], ['RPUSH', 'canary:list', secret, secret],
                          ['SET', '{g1}a', secret], ['SADD', '{g2}b', secret], ['ZADD', '{g3}c', 1, secret], ['XADD', '{g4}d', '1-1', 'f', secret],
                          ['SET', 'a', secret]):
                check(victim.call(*words)[0] != '-', words)
            self.script = victim.get('SCRIPT', 'LOAD', 'return "%s"' % secret.decode())
            check_equal(victim.get('FUNCTION', 'LOAD', LIBRARY % secret.decode()), b'canary')
        self.subscriber = self.as_victim()
        self.subscriber.call('SUBSCRIBE', 'canary')
        with self.as_operator() as operator:
            for words in (['SET', '{g2}a', secret], ['HSET', '{g2}b', 'f', secret], ['RPUSH', '{g2}c', secret], ['ZADD', '{g2}d', 1, secret],
                          ['SET', 'canary', secret], ['SET', 'a', secret], ['SADD', '{g3}a', secret]):
                check(operator.call(*words)[0] != '-', words)
        self.before = self.look()

    def look(self):
        """Everything that an attacker must not change."""
        seen = {}
        with self.as_victim() as victim:
            keys = [b'canary', b'canary:hash', b'canary:list', b'{g1}a', b'{g2}b', b'{g3}c', b'{g4}d', b'a']
            seen['victim\'s keys'] = [(key, victim.get('DUMP', key), victim.get('PTTL', key)) for key in keys]
            seen['victim\'s number of keys'] = victim.get('DBSIZE')
            seen['victim\'s script and functions'] = [victim.get('EVALSHA', self.script, 1, 'canary'), victim.get('FCALL', 'canary', 1, 'canary'),
                                                      victim.get('FUNCTION', 'LIST')]
        with self.as_operator() as operator:
            seen['forbidden keys'] = [(key, operator.get('DUMP', key), operator.get('PTTL', key))
                                      for key in (b'{g2}a', b'{g2}b', b'{g2}c', b'{g2}d', b'canary', b'a', b'{g3}a')]
            seen['options of the proxy'] = options_of(operator)
            seen['users'] = operator.get('ACL', 'LIST')
        for number, address in enumerate(self.backend.addresses):
            with self.enter('bp-%x' % self.seed, address=address) as direct:
                seen['options of partition %d' % number] = options_of(direct)
        return seen

    # -- rounds

    def is_over(self):
        return time.monotonic() >= self.end

    def attack(self, number, seconds):
        seed = self.seed * 1000003 + number
        self.journal.begin()
        attackers = [Attacker(self, role, i, seed) for role in self.roles for i in range(COUNTS[role])]
        self.end = time.monotonic() + seconds
        self.liar.is_honest = False
        for attacker in attackers:
            attacker.start()
        try:
            while not self.is_over():
                time.sleep(0.1)
                self.check_programs()
            for attacker in attackers:
                attacker.join(patience())
                check(not attacker.is_alive(), 'an attacker (%s, %s) does not come to its end' % (attacker.name, attacker.scene))
                check(not attacker.failure, attacker.failure)
            self.liar.is_honest = True
            self.check_all()
        except (Failure, OSError, EOFError) as failure:
            self.end = 0
            self.report(number, attackers, failure)
            raise Failure('round %d of seed %d: %s' % (number, self.seed, failure)) from None

    def programs(self):
        return self.cluster.proxies + self.cluster.backends

    def check_programs(self):
        limit = SANITIZED_MEMORY_MAX if is_sanitized(binary('scree-proxy')) else MEMORY_MAX
        for program in self.programs():
            check(program.alive(), '%s died: %s' % (program.name, program.log_tail()))
            try:
                size = program.rss_bytes()
            except OSError:
                continue  # the command has just ended: the next iteration notices
            check(size < limit, '%s holds %d MB' % (program.name, size // MB))

    def check_all(self):
        self.check_programs()
        for program in self.programs():
            program.check_log()
            wait_for(lambda: program.http('/healthz')[0] == 200, '/healthz of %s' % program.name, ANSWER_S)
        self.check_answers(self.proxy.address, [b'honest:%d' % i for i in range(8)])
        self.check_answers(self.liar_proxy.address, [b'{06S}%d' % i for i in range(3)])  # slot 0: the honest shard
        self.check_channel()
        after = self.look()
        for what, seen in self.before.items():
            if after[what] != seen:
                raise Failure('%s changed: %s' % (what, difference(seen, after[what])))

    def check_answers(self, address, keys):
        """Checks that a client of the victim gets right replies, and leaves no data behind."""
        with self.as_victim(address) as client:
            for key in keys:  # all three are repeated: a DEL whose reply came too late was done
                commands = [['SET', key, 'v'], ['GET', key], ['DEL', key]]
                wait_for(lambda: client.pipeline(commands) == [('+', b'OK'), ('$', b'v'), (':', b'1')],
                         'SET, GET and DEL of %s by %s' % (key, address), ANSWER_S)

    def check_channel(self):
        """Checks that the victim's subscriber gets the victim's messages, and no others."""
        with self.as_victim() as victim:
            check_equal(victim.get('PUBLISH', 'canary', 'hello'), 1, 'subscribers of the victim')
        check_equal(self.subscriber.read(), ('*', [('$', b'message'), ('$', b'canary'), ('$', b'hello')]), 'what the subscriber is told')

    # -- end

    def report(self, number, attackers, failure):
        path = os.path.join(self.folder, 'last-requests.txt')
        with open(path, 'w') as file:
            file.write('seed %d, round %d: %s\n' % (self.seed, number, failure))
            for attacker in attackers:
                file.write('\n%s, in %s:\n' % (attacker.name, attacker.scene))
                file.writelines('  %s: %r\n' % pair for pair in attacker.last)
        self.journal.file.flush()
        self.run.note('FOUND seed %d, round %d: %s' % (self.seed, number, failure))
        self.run.note('last requests of each attacker: %s' % path)
        self.run.note('again: %s --seed %d --round %d, or --replay %s' % (os.path.relpath(__file__), self.seed, number, self.journal.path))

    def __exit__(self, kind, error, trace):
        self.liar.is_honest = True
        if self.subscriber:
            self.subscriber.close()
        try:
            return self.cluster.__exit__(kind, error, trace)
        finally:
            self.liar.stop()
            if kind is None and not self.cluster.failed:
                shutil.rmtree(self.folder, ignore_errors=True)


def options_of(connection):
    """[(name, value)] without the port, which any shard may report."""
    words = connection.get('CONFIG', 'GET', '*')
    return sorted(pair for pair in zip(words[::2], words[1::2]) if pair[0] != b'port')


def difference(before, after):
    if not isinstance(before, list) or not isinstance(after, list):
        return '%r is now %r' % (before, after)
    return '; '.join('%r is now %r' % pair for pair in zip(before, after) if pair[0] != pair[1])[:1000] or 'another length'


def replay(arena, path):
    """Sends the requests of a journal again, with the passwords of the new programs."""
    forms = {'mallory': MALLORY, 'eve': EVE}
    arena.end = time.monotonic() + 3600
    arena.journal.begin()
    arena.liar.is_honest = False
    player, links = Attacker(arena, 'tenant', 0, arena.seed), {}
    with open(path) as file:
        for line in file:
            name, what, data = json.loads(line)
            with contextlib.suppress(OSError):
                if what == 'open':
                    links[name] = Link(player, data)
                elif name not in links:
                    continue
                elif what == 'login':
                    links[name].login(data[0], data[1], arena.token(forms[data[1]]))
                elif what == 'send':
                    links[name].send(base64.b64decode(data))
                    links[name].drain(0.002)
                else:
                    links.pop(name).close()
            arena.check_programs()
    for link in links.values():
        link.close()
    arena.liar.is_honest = True
    check(not player.failure, player.failure)
    arena.check_all()


@suite.case('attacks by an untrusted peer, tenants, a user and a lying backend change, read and stop nothing')
def _(run):
    seconds = run.options.long * 3600 or run.options.seconds
    if is_sanitized(binary('scree-proxy')):
        os.environ.setdefault('ASAN_OPTIONS', 'detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=16')
    with Arena(run) as arena:
        if run.options.replay:
            replay(arena, run.options.replay)
            return
        end, number = time.monotonic() + seconds, run.options.round
        while True:
            left = end - time.monotonic()
            if left <= 0:
                break
            arena.attack(number, min(ROUND_S, max(1, left)))
            number += 1
        run.note('%d rounds' % (number - run.options.round))
        for scene in sorted({scene for scene, _ in arena.counts}):
            counts = [arena.counts[scene, kind] for kind in ('times', 'ms', 'requests', 'errors', 'bytes')]
            run.debug('%-32s %6d times, %8d ms, %8d requests, %8d errors, %11d bytes of replies' % (scene, *counts))


@suite.case('the checks detect forbidden changes, reads, stops and replies')
def _(run):
    with Arena(run) as arena:
        def is_noticed(words):
            try:
                arena.check_all()
            except Failure as failure:
                check(words in str(failure), failure)
                return
            raise Failure('not noticed: %s' % words)
        arena.journal.begin()
        arena.end = time.monotonic() + 600
        spy = Attacker(arena, 'tenant', 0, 1)
        with spy.link('proxy') as link:
            link.login('AUTH', 'victim', arena.token(VICTIM))
            link.send(encode(['GET', 'canary']))
            wait_for(lambda: (link.drain(0.1), spy.failure)[1], 'the value')
        check('must not' in str(spy.failure), 'a value that is read is not noticed')
        with arena.as_victim() as victim, arena.as_operator() as operator:
            arena.check_all()
            victim.call('EXPIRE', 'canary', '1000')
            is_noticed('victim\'s keys changed')
            victim.call('PERSIST', 'canary')
            operator.call('HSET', '{g2}b', 'g', 'x')
            is_noticed('forbidden keys changed')
            operator.call('HDEL', '{g2}b', 'g')
            operator.call('CONFIG', 'SET', 'slowlog-max-len', '7')
            is_noticed('options of the proxy changed')
            operator.call('CONFIG', 'SET', 'slowlog-max-len', '128')
            victim.call('PUBLISH', 'canary', 'not hello')
            is_noticed('what the subscriber is told')
            arena.subscriber.read()
            victim.call('FUNCTION', 'FLUSH')
            is_noticed('script and functions changed')
            victim.call('FUNCTION', 'LOAD', LIBRARY % (MARK + b'%x' % arena.seed).decode())
        arena.check_all()


if __name__ == '__main__':
    suite.main()
