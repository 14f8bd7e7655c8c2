#!/usr/bin/python3
"""Backends with the secret send each other frames that are damaged, cut, too long, repeated, out of order and of other kinds.

A relay in front of each shard (support/frame_spoiler.py) changes a part of the frames of transactions over shards, moves of slots,
restored slots and channels. No program may end or stop serving because of them, and none may change keys of another shard that no
transaction has named.
"""

import contextlib
import random
import re
import shutil
import signal
import struct
import threading
import time

from support import harness
from support.cluster import Cluster, binary, free_ports, is_sanitized, slot_of
from support.copies import Copies
from support.frame_spoiler import HEADER, FrameSpoiler, Spoiler
from support.harness import Suite, check, check_equal, sized, wait_for
from support.other_version import PEER_PROTOCOL, OtherVersion
from support.resp import Closed

THIRDS = ['0-5460', '5461-10922', '10923-16383']
MOVED = ['0-2999', '3000-10922', '10923-16383']  # slots 3000-5460 go to the second shard and back
KINDS_MET = 14  # at least so many kinds of frames must have been spoiled


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(6, long=600), help='how long to attack (default %(default)s)')


suite = Suite(__doc__, options)

SCRIPTS = (
    "redis.call('INCR', KEYS[1]) return redis.call('RPUSH', KEYS[2], ARGV[1])",
    "for i, k in ipairs(redis.call('KEYS', 't*')) do redis.call('TYPE', k) end return redis.call('DBSIZE')",
    "redis.call('HSET', KEYS[1] .. 'h', ARGV[1], KEYS[2]) return redis.call('HGETALL', KEYS[2] .. 'h')",
    "return redis.call('SCAN', '0', 'COUNT', 7)",
    "redis.call('ZADD', KEYS[2] .. 'z', 1, ARGV[1]) return redis.call('ZRANK', KEYS[1] .. 'z', ARGV[1])",
    "return redis.call('RANDOMKEY')",
)


def requests(rng):
    """The commands of one client's turn, most with keys of several shards."""
    a, b, c = (b't%d' % rng.randrange(60) for _ in range(3))
    what = rng.randrange(12)
    if what < 4:
        return [('EVAL', rng.choice(SCRIPTS), 2, a, b, b'%d' % rng.randrange(1000))]
    if what == 4:
        return [('WATCH', a, b), ('MULTI',), ('INCR', a), ('APPEND', c, b'x' * rng.randrange(1, 3000)), ('DEL', b), ('EXEC',)]
    if what == 5:
        return [('MULTI',), ('SADD', a + b's', *(b'%d' % n for n in range(rng.randrange(1, 300)))), ('EXPIRE', b, 1), ('GET', c),
                ('XADD', b + b'x', '*', 'f', 'v'), ('EXEC',)]
    if what == 6:
        return [('SUNIONSTORE', a + b's', b + b's', c + b's'), ('PFMERGE', a + b'p', b + b'p'), ('PFADD', b + b'p', a)]
    if what == 7:
        return [('RENAME', a, b), ('COPY', a + b'z', b + b'z'), ('SMOVE', a + b's', b + b's', b'1'), ('LMOVE', a, b, 'LEFT', 'RIGHT')]
    if what == 8:
        return [('PUBLISH', a, b), ('SPUBLISH', a, b)]
    if what == 9:
        return [('MSETNX', a, b'1', b, b'2'), ('SET', c, b'v' * rng.choice((10, 1000, 90000, 1500000)))]
    if what == 10:
        return [('EVAL', "redis.call('APPEND', KEYS[1], redis.call('GET', KEYS[2]) or '') return 1", 2, a, b), ('DEL', a)]
    return [('SORT', a + b's', 'BY', b't*', 'STORE', b), ('ZUNIONSTORE', c + b'z', 2, a + b'z', b + b'z')]


class Hostile(Cluster):
    def __init__(self, seed):
        self.seeds = iter(range(seed, seed + 3000, 1000))
        super().__init__(backends=3, partitions=1, proxies=1, linked=True, slots=list(THIRDS),
                         relay=lambda address: FrameSpoiler(address, next(self.seeds)))
        for backend in self.backends:
            backend.options['backend'].update({'lock-timeout': '300ms', 'transaction-timeout': '600ms', 'peer-timeout': '2s'})

    def set_share(self, share):
        for relay in self.relays.values():
            relay.share = share

    def spoiled(self):
        kinds = {}
        for relay in self.relays.values():
            for kind, count in relay.spoiled.items():
                kinds[kind] = kinds.get(kind, 0) + count
        return kinds


def client(cluster, seed, stop):
    """Sends requests through the proxy, whatever the replies are, until `stop`."""
    rng = random.Random(seed)
    connection = None
    while not stop.is_set():
        try:
            connection = connection or cluster.connect(timeout=4)
            connection.pipeline(requests(rng))
        except (Closed, OSError):
            connection = None


def mover(cluster, stop):
    while not stop.wait(0.7):
        cluster.write_shards(MOVED if cluster.slots == THIRDS else list(THIRDS))


def attack(cluster, seed, seconds, share, kinds=0):
    """For so many seconds, and longer until so many kinds of frames were spoiled: a busy machine sends fewer of the rare ones."""
    stop = threading.Event()
    jobs = [threading.Thread(target=client, args=(cluster, seed + n, stop), daemon=True) for n in range(16)]
    jobs.append(threading.Thread(target=mover, args=(cluster, stop), daemon=True))
    for job in jobs:
        job.start()
    cluster.set_share(share)
    end = time.monotonic() + seconds
    last = end + harness.patience()
    while time.monotonic() < end or (len(cluster.spoiled()) < kinds and time.monotonic() < last):
        time.sleep(0.2)
        for backend in cluster.backends:
            check(backend.alive(), '%s ended: %s' % (backend.name, backend.log_tail()))
    cluster.set_share(0)
    stop.set()
    for job in jobs:
        job.join(harness.patience())
        check(not job.is_alive(), 'every client came to an end')


def write_canaries(cluster):
    """Keys of the third shard, of which no slot moves, and which no request names: {key: value}."""
    keys = {cluster.key_on(2, 'canary%d' % number): b'canary-%d' % number for number in range(20)}
    with cluster.partition(2) as partition:
        check_equal(partition.pipeline([('SET', key, text) for key, text in keys.items()]), [('+', b'OK')] * len(keys))
    return keys


def check_shard(cluster, shard, canaries):
    """It runs, serves, and has what no frame has named."""
    backend = cluster.backends[shard]
    check(backend.alive(), '%s ended: %s' % (backend.name, backend.log_tail()))
    with cluster.partition(shard) as partition:
        check_equal(partition.get('PING'), b'PONG')
        for key, text in canaries.items() if shard == 2 else ():
            check_equal(partition.get('GET', key), text)


@suite.case('frames of a peer that are damaged, out of order or of other kinds end no program')
def _(run):
    with Hostile(run.seed) as cluster:
        canaries = write_canaries(cluster)
        attack(cluster, run.seed, run.options.seconds, 0.25, KINDS_MET)
        spoiled = cluster.spoiled()
        run.note('spoiled frames by kind: %s' % dict(sorted(spoiled.items())))
        check(len(spoiled) >= KINDS_MET, 'only these kinds of frames were spoiled: %r' % spoiled)
        for shard, backend in enumerate(cluster.backends):
            check_shard(cluster, shard, canaries)
            backend.kill9()
            backend.start()  # it reads what the hostile frames have left
            check_shard(cluster, shard, canaries)


# ---- frames that a backend would not send ---------------------------------------------------------------------------

LOCK, PREPARE, APPLY, RELEASE, OUTCOME, WOUND, UNWATCH, OPEN, SLOTS = 3, 4, 5, 6, 7, 8, 9, 10, 11
MOVE_BEGIN, MOVE_ROWS, MOVE_END, MOVE_ACTIVATE, MOVE_ABORT, KEYS_PUT, MOVE_ASK = 12, 13, 14, 15, 16, 17, 18
LISTEN, PUBLISH, KEY_PART, PREPARE_PART, LOCK_REST = 19, 20, 21, 22, 23
DONE, FAILED = 128, 129
COLLECTIONS = (2, 3, 4, 5)  # column families
ROWS_LONGEST = 3


def sized_bytes(data):
    return struct.pack('<I', len(data)) + data


def varint(number):
    data = b''
    while number > 0x7f:
        data, number = data + bytes([number & 0x7f | 0x80]), number >> 7
    return data + bytes([number])


class Forger:
    """Payloads of each kind of request: well-formed, but with numbers, rows and slots at random."""

    def __init__(self, rng, run_id):
        self.rng, self.run_id = rng, run_id

    def key(self):
        return b't%d' % self.rng.randrange(8)

    def slot(self, key):
        return slot_of(key.decode()) if self.rng.random() < 0.9 else self.rng.randrange(16384)

    def row(self, cf):
        """A row's key: of a metadata row, or of a collection, with the namespace's length and bytes before it."""
        key = self.key()
        head = b'\0' + struct.pack('>H', self.slot(key))
        if cf == 1:
            return head + key
        if cf == 6:
            return struct.pack('>Q', self.rng.choice((0, 1, 1 << 41, (1 << 64) - 1))) + head + key
        return head + struct.pack('>I', len(key)) + key + struct.pack('>Q', self.rng.choice((1, 2))) + self.rng.randbytes(self.rng.randrange(12))

    def value(self, cf):
        """Of a metadata row: flags (type and layout), perhaps a time, version and size."""
        if cf != 1:
            return self.rng.randbytes(self.rng.choice((0, 1, 2, 8, 9, 16, 17, 40)))
        flags = bytes([0x80 | self.rng.randrange(16)])
        return flags + struct.pack('>Q', 0) + struct.pack('>Q', self.rng.choice((1, 2))) + self.rng.choice(
            (b'', struct.pack('>I', 3), struct.pack('>Q', 3), struct.pack('>Q', 1 << 60), self.rng.randbytes(20)))

    def effects(self):
        out, count = b'', self.rng.randrange(ROWS_LONGEST + 1)
        for _ in range(count):
            cf, kind = self.rng.choice((1, 1, 1, 0, *COLLECTIONS, 6)), self.rng.choice((0, 0, 0, 1, 2))
            row = self.row(cf)
            at = row[8:] if cf == 6 else row
            out += bytes([0x80 | cf | kind << 4, 0]) + at[2:0:-1] + varint(len(row)) + row
            if kind == 0:
                value = self.value(cf)
                out += varint(len(value)) + value
            elif kind == 2:
                to = self.rng.choice((b'', row + b'\xff', self.row(cf)))
                out += varint(len(to)) + to
        return struct.pack('<BBHIQQQQQ', 1, 1, 0, count, 1, 0, 1, 0, self.rng.choice((0, 1 << 50, (1 << 64) - 1))) + out

    def transaction_id(self):
        return b'\4b1p0' + bytes([len(self.run_id)]) + self.run_id.encode() + struct.pack('>Q', self.rng.randrange(4))

    def transaction(self):
        return sized_bytes(self.transaction_id())

    def lock(self):
        items, count = b'', self.rng.randrange(1, 4)
        for _ in range(count):
            kind = self.rng.randrange(13)
            question = self.rng.choice((self.row(2), b'12345678', bytes(16), bytes(2048), b'\xff' * 2048, b'\x07\0\0\0' + self.row(1)))
            items += bytes([kind, self.rng.randrange(4), self.rng.randrange(8), self.rng.choice((0, 0, 0, 1, 15, 16))])
            items += sized_bytes(b'') + sized_bytes(self.rng.choice((self.row(1), self.row(1), b'\0'))) + sized_bytes(question)
        return self.transaction() + struct.pack('<QQQBI', self.rng.randrange(1 << 50), 1, self.rng.choice((0, 1 << 20, (1 << 64) - 1)),
                                                self.rng.randrange(2), count) + items

    def prepare(self):
        return self.transaction() + struct.pack('<Q', 0) + sized_bytes(sized_bytes(self.effects()) + sized_bytes(b''))

    def slots(self):
        first = self.rng.choice((8192, 8192, 9000, 0, 16383))
        return struct.pack('<QII', self.rng.randrange(1, 3), first, min(16383, first + self.rng.choice((0, 100, 1023))))

    def name(self):
        key = self.key()
        return sized_bytes(self.rng.choice((b'', b'', b'ns'))) + bytes([0]) + struct.pack('<I', self.slot(key)) + sized_bytes(key)

    def rows(self):
        return b''.join(bytes([self.rng.choice(COLLECTIONS)]) + sized_bytes(self.rng.randbytes(9)) + sized_bytes(self.value(2))
                        for _ in range(self.rng.randrange(ROWS_LONGEST)))

    def payload(self, kind):
        rng = self.rng
        if kind == LOCK:
            return self.lock()
        if kind in (PREPARE, PREPARE_PART):
            return self.prepare()
        if kind in (APPLY, RELEASE, LOCK_REST):
            return self.transaction()
        if kind in (OUTCOME, WOUND, OPEN):
            return self.transaction_id()
        if kind == MOVE_BEGIN:
            return self.slots() + struct.pack('<QQQ', rng.choice((1, 2, 1 << 63)), rng.randrange(3), rng.choice((0, (1 << 64) - 1))) + \
                sized_bytes(b'') + sized_bytes(self.effects())
        if kind == MOVE_ROWS:
            effects = self.effects()
            return self.slots() + struct.pack('<QQQ', rng.randrange(3), len(effects), 0) + sized_bytes(effects)
        if kind == MOVE_END:
            return self.slots() + struct.pack('<QQQ', rng.randrange(3), rng.randrange(3), 0) + sized_bytes(b'')
        if kind in (MOVE_ACTIVATE, MOVE_ASK):
            return self.slots() + struct.pack('<Q', rng.randrange(1, 4))
        if kind == MOVE_ABORT:
            return self.slots()
        if kind == KEYS_PUT:
            mode = rng.randrange(1, 4)
            number = rng.choice((0, rng.randrange(1 << 20)) if mode == 1 else (0, 1, rng.randrange(1 << 62), (1 << 64) - 1))
            return struct.pack('<QB', number, mode) + self.name() + sized_bytes(self.value(1)) + sized_bytes(self.rows())
        if kind == KEY_PART:
            return struct.pack('<QB', rng.randrange(2), rng.randrange(2, 4)) + self.name() + struct.pack('<Q', 0) + sized_bytes(
                self.rows() + b'\1' + sized_bytes(b'') + sized_bytes(self.value(1)))
        return rng.randbytes(rng.choice((0, 1, 8, 9, 40)))


EMPTY_EFFECTS = struct.pack('<BBHIQQQQQ', 1, 1, 0, 0, 1, 0, 1, 0, 0)


def frame_of(kind, number, payload):
    return HEADER.pack(len(payload), kind, b'\0\0\0', number, 0) + payload


def identity_of(shard, run_id, shard_map=bytes(16), generation=0, term=0):
    """`shard_map`: its epoch and hash."""
    words = b''.join(bytes([len(word)]) + word.encode() for word in (run_id, shard, '127.0.0.1:1', '0.1.0'))
    return b'\1' + shard_map + bytes(8) + words + struct.pack('<HHBQIQ', 0, 0, 0, 0, generation, term)


def map_of(cluster, run_id='0' * 40):
    """Epoch and hash of the map of the first shard, which are in its identity."""
    with cluster.partition(0) as connection:
        check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
        identity = connection.get('SCREE', 'PEER', PEER_PROTOCOL, 'b0p0', identity_of('b1p0', run_id))
    check(isinstance(identity, bytes), 'a peer was refused: %r' % identity)
    return identity[1:17]


def greet(cluster, connection, run_id):
    """The connection becomes that of the other backend, which has the same map."""
    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
    connection.get('SCREE', 'PEER', PEER_PROTOCOL, 'b0p0', identity_of('b1p0', run_id, map_of(cluster, run_id)))


class Steps:
    """Requests of one transaction or move in the order of a backend, each after the reply to the one before; some are spoiled."""

    def __init__(self, connection, forger, spoiler, wish, timeout=None):
        """`timeout`: for a reply, if a request may wait for the lock of a transaction that never ends."""
        self.wish = wish  # epoch of the map
        self.sock, self.forger, self.spoiler, self.number, self.data = connection.sock, forger, spoiler, 1 << 20, b''
        self.sock.settimeout(timeout or harness.patience())

    def send(self, kind, payload, share=0.2):
        self.number += 1
        whole = frame_of(kind, self.number, payload)
        self.spoiler.remember(kind, whole)
        is_spoiled = self.spoiler.rng.random() < share
        self.sock.sendall(b''.join(self.spoiler.spoil(kind, whole)) if is_spoiled else whole)
        return None if is_spoiled else self.reply(self.number)

    def reply(self, wanted):
        """The kind of the reply; None: there is none."""
        try:
            while True:
                while len(self.data) >= HEADER.size:
                    size, kind, _, number, _ = HEADER.unpack_from(self.data)
                    if len(self.data) < HEADER.size + size:
                        break
                    self.data = self.data[HEADER.size + size:]
                    if number == wanted:
                        return kind
                piece = self.sock.recv(1 << 20)
                if not piece:
                    raise Closed
                self.data += piece
        except TimeoutError:
            return None

    def transaction(self):
        forger, rng = self.forger, self.forger.rng
        ident = sized_bytes(forger.transaction_id())
        head = b'\0'
        items = b''.join(bytes([1, 2, 1, 0]) + sized_bytes(b'') + sized_bytes(head + struct.pack('>H', slot_of('t%d' % n)) + b't%d' % n)
                         + sized_bytes(b'') for n in range(8) if slot_of('t%d' % n) < 8192)
        self.send(LOCK, ident + struct.pack('<QQQBI', rng.randrange(1 << 50), 1, 1 << 20, 0, items.count(b't')) + items, 0)
        for _ in range(rng.choice((0, 0, 1))):
            self.send(LOCK_REST, ident)
        self.send(PREPARE, ident + struct.pack('<Q', 0) + sized_bytes(sized_bytes(forger.effects()) + sized_bytes(b'')))
        self.send(rng.choice((APPLY, APPLY, APPLY, RELEASE)), ident, 0.05)
        self.send(RELEASE, ident, 0)

    def move(self):
        forger, rng = self.forger, self.forger.rng
        slots = struct.pack('<QII', rng.randrange(1, 1 << 20), rng.choice((8192, 9000, 12000)), 12500)
        slots = slots if rng.random() < 0.1 else slots[:12] + struct.pack('<I', struct.unpack_from('<I', slots, 8)[0] + 300)
        self.send(MOVE_BEGIN, slots + struct.pack('<QQQ', 1, self.wish, 5) + sized_bytes(b'') + sized_bytes(EMPTY_EFFECTS), 0.02)
        for number in range(1, rng.randrange(2, 5)):
            effects = forger.effects()
            self.send(MOVE_ROWS, slots + struct.pack('<QQQ', number, len(effects), 0) + sized_bytes(effects))
        self.send(MOVE_END, slots + struct.pack('<QQQ', number, rng.randrange(3), 0) + sized_bytes(b''))
        self.send(rng.choice((MOVE_ACTIVATE, MOVE_ABORT, MOVE_ABORT)), slots + struct.pack('<Q', 2) * rng.randrange(2))
        self.send(MOVE_ABORT, slots, 0)


def forge(cluster, rng, run_id):
    """One connection of a peer: frames of all kinds, of which half are spoiled as well, until the backend closes it."""
    forger, spoiler = Forger(rng, run_id), Spoiler(rng.randrange(1 << 30))
    with cluster.partition(0) as connection:
        greet(cluster, connection, run_id)
        steps = Steps(connection, forger, spoiler, cluster.epoch, timeout=0.2)
        try:
            for _ in range(10):
                rng.choice((steps.transaction, steps.move))()
        except (Closed, OSError):
            return 0
        sent = 0
        for _ in range(10):
            frames = b''
            for number in range(100):
                kind = rng.randrange(2, 26)
                whole = frame_of(kind, number, forger.payload(kind))
                spoiler.remember(kind, whole)
                frames += whole if rng.random() < 0.5 else b''.join(spoiler.spoil(kind, whole))
                sent += 1
            try:
                connection.send_raw(frames)
                connection.sock.setblocking(False)
                while connection.sock.recv(1 << 20):
                    pass
            except BlockingIOError:
                connection.sock.setblocking(True)
            except OSError:
                break
    return sent


WORDS = (('TYPE',), ('GET',), ('HGETALL',), ('LRANGE', 0, -1), ('SMEMBERS',), ('ZRANGE', 0, -1, 'WITHSCORES'), ('XRANGE', '-', '+'),
         ('ZRANK', 'm'), ('LPOP',), ('SPOP', 2), ('XINFO', 'STREAM'), ('DUMP',), ('HRANDFIELD', 3), ('ZPOPMIN',), ('XLEN',),
         ('BF.EXISTS', 'a'), ('TDIGEST.INFO',), ('CMS.INFO',), ('TOPK.LIST',), ('JSON.GET',), ('PFCOUNT',), ('EXPIRE', 100))


def use_keys(cluster, rng):
    """A client of the attacked shard uses the keys that the frames may have changed. A forged count of elements makes a reply that is
    shorter than it says: then the client goes on with the next key, on another connection."""
    for number in range(8):
        key = 't%d' % number
        with cluster.partition(0) as connection:
            connection.sock.settimeout(0.3)
            try:
                connection.pipeline([(word, key, *more) for word, *more in WORDS])
                if rng.random() < 0.3:
                    connection.call('DEL', key)
            except TimeoutError:
                continue


@suite.case('a peer that forges every kind of request ends no program, and changes no key of slots that it has not')
def _(run):
    rng = random.Random(run.seed)
    options = {'backend': {'lock-timeout': '10ms', 'transaction-timeout': '100ms'}}
    with Cluster(backends=2, partitions=1, proxies=0, linked=True, backend_options=options) as cluster:
        canary = cluster.key_on(0, 'canary')
        with cluster.partition(0) as partition:
            check_equal(partition.get('SET', canary, 'safe'), b'OK')
        cluster.backends[1].kill9()
        cluster.write_shards(['0-12999', '13000-16383'])  # the first shard expects slots of the other one
        wait_for(lambda: struct.unpack('<Q', map_of(cluster)[:8])[0] == cluster.epoch, 'the shard to read the map')
        end, sent, connections = time.monotonic() + run.options.seconds, 0, 0
        while time.monotonic() < end:
            sent += forge(cluster, rng, '%040x' % rng.randrange(3))
            connections += 1
            if connections % 5 == 0:
                use_keys(cluster, rng)
            check(cluster.backends[0].alive(), 'the backend ended: %s' % cluster.backends[0].log_tail())
        run.note('%d frames over %d connections' % (sent, connections))
        for _ in range(2):
            with cluster.partition(0) as partition:
                check_equal(partition.get('GET', canary), b'safe')
            cluster.backends[0].kill9()
            cluster.backends[0].start()


@suite.case('what the transactions of a peer hold is bounded, however many it begins')
def _(run):
    options = {'backend': {'command-memory': '4mb'}}
    with Cluster(backends=2, partitions=1, proxies=0, linked=True, backend_options=options) as cluster:
        cluster.backends[1].kill9()
        backend, run_id = cluster.backends[0], '0' * 40
        with cluster.partition(0) as connection:
            greet(cluster, connection, run_id)
            steps = Steps(connection, Forger(random.Random(run.seed), run_id), Spoiler(0), cluster.epoch)
            backend.forget_peak()
            before, got = backend.rss_bytes(), []
            for number in range(60):
                ident = sized_bytes(b'\4b1p0' + bytes([len(run_id)]) + run_id.encode() + struct.pack('>Q', number))
                steps.send(LOCK, ident + struct.pack('<QQQBI', 1, number, 1 << 62, 0, 0), 0)
                got += [steps.send(PREPARE_PART, ident + struct.pack('<Q', at << 20) + sized_bytes(bytes(1 << 20)), 0) for at in range(3)]
            check(got[:3] == [DONE] * 3 and got[-2:] == [FAILED] * 2, 'portions are refused in the end: %r' % got)
            growth = backend.peak_rss_bytes() - before
            run.note('memory grew by %d MB' % (growth >> 20))
            check(growth < 60 << 20 or is_sanitized(binary('scree-backend')), 'memory grew by %d bytes' % growth)
        with cluster.partition(0) as partition:
            check_equal(partition.get('PING'), b'PONG')


def prepared(steps, run_id, number, megabytes):
    """One transaction of this process of the peer prepares a value: the kinds of the replies to LOCK and PREPARE."""
    key = b't%d' % number
    row = b'\0' + struct.pack('>H', slot_of(key.decode())) + key
    value = bytes([0x81]) + bytes(8) + bytes(megabytes << 20)  # a string without a TTL
    effects = struct.pack('<BBHIQQQQQ', 1, 1, 0, 1, 1, 0, 1, 0, 0) + bytes([0x81, 0]) + row[2:0:-1] + varint(len(row)) + row + \
        varint(len(value)) + value
    ident = sized_bytes(b'\4b1p0' + bytes([len(run_id)]) + run_id.encode() + struct.pack('>Q', number))
    item = bytes([1, 2, 1, 0]) + sized_bytes(b'') + sized_bytes(row) + sized_bytes(b'')
    return [steps.send(LOCK, ident + struct.pack('<QQQBI', 1, number, 1 << 20, 0, 1) + item, 0),
            steps.send(PREPARE, ident + struct.pack('<Q', 0) + sized_bytes(sized_bytes(effects) + sized_bytes(b'')), 0)]


@suite.case('a shard that is killed again and again leaves a bounded number of bytes in doubt, and others are served')
def _(run):
    """Each process of the peer prepares transactions and is killed before it decides: they stay, and no later process knows of them."""
    options = {'backend': {'command-memory': '4mb'}}
    with Cluster(backends=2, partitions=1, proxies=0, linked=True, backend_options=options) as cluster:
        cluster.backends[1].kill9()
        backend, got = cluster.backends[0], []
        keys = [number for number in range(1000) if slot_of('t%d' % number) < 8192]
        for life in range(6):
            with cluster.partition(0) as connection:
                run_id = '%040x' % life
                greet(cluster, connection, run_id)
                steps = Steps(connection, Forger(random.Random(1), run_id), Spoiler(0), cluster.epoch)
                for number in keys[4 * life:4 * life + 4]:
                    got.append(prepared(steps, run_id, number, 3))
        check_equal(got[0], [DONE, DONE])
        run.note('%d of %d transactions of 3 MB were prepared' % (got.count([DONE, DONE]), len(got)))
        check(got[-1][-1] == FAILED and got.count([DONE, DONE]) <= 4, 'each life leaves more: %r' % got)
        for _ in range(2):  # the bound holds after a start as well
            with cluster.partition(0) as partition:
                free = next('free%d' % n for n in range(1000) if slot_of('free%d' % n) < 8192)
                check_equal(partition.get('SET', free, 'v'), b'OK')
                in_doubt = re.findall(rb'id=', b' '.join(partition.get('SCREE', 'TRANSACTIONS')))
                check_equal(len(in_doubt), got.count([DONE, DONE]))
            backend.kill9()
            backend.start()
        with cluster.partition(0) as connection:
            greet(cluster, connection, 'e' * 40)
            steps = Steps(connection, Forger(random.Random(1), 'e' * 40), Spoiler(0), cluster.epoch)
            check_equal(prepared(steps, 'e' * 40, keys[-1], 3)[-1], FAILED)


# ---- times at the end ------------------------------------------------------------------------------------------------

ECHO = 2
YEAR_US = 366 * 24 * 3600 * 10 ** 6


def move_begin(version, epoch):
    """Of slot 9000, which the map of this case gives to the attacked shard."""
    return struct.pack('<QII', 1, 9000, 9000) + struct.pack('<QQQ', 1, epoch, version) + sized_bytes(b'') + sized_bytes(EMPTY_EFFECTS)


@suite.case('a peer whose times are centuries ahead moves neither the time of batches nor the versions of collections')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, linked=True) as cluster:
        key = cluster.key_on(0, 'k')
        cluster.backends[1].kill9()
        cluster.write_shards(['0-12999', '13000-16383'])  # the first shard expects slots of the other one
        wait_for(lambda: struct.unpack('<Q', map_of(cluster)[:8])[0] == cluster.epoch, 'the shard to read the map')
        now_us = time.time_ns() // 1000
        for ahead in (1 << 62, (1 << 62) - 1, (1 << 64) - 1, now_us + 200 * YEAR_US):
            with cluster.partition(0) as connection:
                greet(cluster, connection, 'f' * 40)
                connection.send_raw(HEADER.pack(4, ECHO, b'\0\0\0', 1, ahead) + bytes(4))
                check(connection.read_until_closed(harness.patience())[1], 'the connection of time %d is closed' % ahead)
        for version in ((1 << 64) - 1, now_us + 200 * YEAR_US << 11):
            with cluster.partition(0) as connection:
                greet(cluster, connection, 'f' * 40)
                steps = Steps(connection, Forger(random.Random(1), 'f' * 40), Spoiler(1), cluster.epoch)
                check_equal(steps.send(MOVE_BEGIN, move_begin(version, cluster.epoch), 0), FAILED)
        with cluster.partition(0) as connection:
            check_equal(connection.get('SADD', key, 'a'), 1)
            batch_us = int(re.search(rb'log_hybrid_us:(\d+)', connection.get('INFO', 'persistence'))[1])
            check(now_us <= batch_us < now_us + YEAR_US, 'the batch has the time of day: %d' % batch_us)
        with cluster.partition(0) as connection:  # what is right is taken
            greet(cluster, connection, 'f' * 40)
            steps = Steps(connection, Forger(random.Random(1), 'f' * 40), Spoiler(1), cluster.epoch)
            check_equal(steps.send(ECHO, bytes(4), 0), DONE)
            check_equal(steps.send(MOVE_BEGIN, move_begin(now_us << 11, cluster.epoch), 0), DONE)


def identity_with(shard, port, generation, term):
    return identity_of(shard, '0' * 40, generation=generation, term=term).replace(b'\x0b127.0.0.1:1', b'\x0f127.0.0.1:%d' % port)


class Misled(Cluster):
    """A backend whose map has a shard at the ports; what listens there is the test's."""

    def __init__(self, ports, host='127.0.0.1'):
        self.host, self.ports = host, ports
        super().__init__(backends=1, partitions=1, proxies=0, linked=True, slots=['0-8191'])

    def shards_text(self, slots=None):
        return super().shards_text(slots) + '\n[shard misleading]\nslots = 8192-16383\naddress = %s\n' % ' '.join('%s:%d' % (self.host, port) for port in self.ports)

    def wait_linked(self):
        pass


@suite.case('copies that name each other or an address outside the map as the leader are asked in turn, and that address too, after growing waits')
def _(run):
    first, second, third, outside = ports = [free_ports() for _ in range(4)]
    names = {first: 'NOTLEADER 127.0.0.1:%d this copy does not lead' % second, second: 'NOTLEADER 127.0.0.1:%d' % first,
             third: 'NOTLEADER 127.0.0.1:%d %s' % (outside, 'x' * 150), outside: 'NOTLEADER 127.0.0.1:%d' % outside}
    listeners = [OtherVersion(('127.0.0.1', port), peer='-' + names[port]) for port in ports]
    with listeners[0], listeners[1], listeners[2], listeners[3], Misled(ports[:3]) as cluster, cluster.partition(0) as partition:
        begin = time.monotonic()
        wait_for(lambda: all(listener.greetings >= 4 for listener in listeners[:3]), 'all copies to be asked twice')  # AUTH, PEER
        asked, seconds = sum(listener.greetings for listener in listeners) // 2, time.monotonic() - begin
        check(asked <= 30 + 2 * seconds, 'the copies were asked %d times within %.1f s' % (asked, seconds))
        check_equal(partition.get('PING'), b'PONG')
        text = partition.get('INFO', 'peers').decode()
        check(re.search(r'peer_misleading:address=127.0.0.1:(%d|%d|%d|%d),state=(?!up)' % tuple(ports), text), text)


@suite.case('a peer whose host name a new map writes in capitals, and that claims to lead since later, ends no program')
def _(run):
    port = free_ports()
    listener = OtherVersion(('127.0.0.1', port))

    def says(generation, term):
        identity = identity_of('misleading', '0' * 40, generation=generation, term=term)
        listener.replies[b'PEER'] = b'$%d\r\n%s\r\n' % (len(identity), identity)  # then it closes the connection
    says(0, 0)
    with listener, Misled([port], host='localhost') as cluster, cluster.partition(0) as partition:
        wait_for(lambda: b'peer_up' in cluster.backends[0].log(), 'the link')
        cluster.host = 'LOCALHOST'
        cluster.write_shards()
        cluster.backends[0].signal(signal.SIGHUP)
        wait_for(lambda: b'peers_map_epoch:%d\r\n' % cluster.epoch in partition.get('INFO', 'peers'), 'the new map')
        says(1, 1)
        wait_for(lambda: b'peer_leader ' in cluster.backends[0].log(), 'the leader to be heard')
        check_equal(partition.get('PING'), b'PONG')


@suite.case('a connection that claims to lead a shard with any term locks out none of its leaders: only what the addresses of the map say counts')
def _(run):
    first, second, outside = ports = [free_ports() for _ in range(3)]
    listeners = {port: OtherVersion(('127.0.0.1', port), peer='-NOTLEADER 127.0.0.1:%d' % first) for port in ports[:2]}

    def identity_at(port, generation, term):
        return identity_with('misleading', port, generation, term)

    def leads(port, term):
        identity = identity_at(port, 1, term)
        listeners[port].replies[b'PEER'] = b'$%d\r\n%s\r\n' % (len(identity), identity)  # then it closes the connection
    leads(first, 5)
    with listeners[first], listeners[second], Misled(ports[:2]) as cluster:
        def has_heard(port):
            return b'peer_leader shard=misleading address=127.0.0.1:%d' % port in cluster.backends[0].log()

        def claim(connection, port, generation, term):
            check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
            return connection.get('SCREE', 'PEER', PEER_PROTOCOL, 'b0p0', identity_at(port, generation, term))
        wait_for(lambda: has_heard(first), 'the leader to be heard')
        with cluster.partition(0) as liar, cluster.partition(0) as other, cluster.partition(0) as leader, cluster.partition(0) as client:
            check(isinstance(claim(liar, first, (1 << 32) - 1, (1 << 64) - 1), bytes), 'the claim was refused')
            reply = claim(other, outside, (1 << 32) - 1, (1 << 64) - 1)
            check('does not have the address' in str(reply), reply)
            check(isinstance(claim(leader, first, 1, 5), bytes), 'the leader was refused')
            asked = listeners[first].greetings
            wait_for(lambda: listeners[first].greetings >= asked + 4, 'the leader to be asked twice')
            check(b'does not lead its shard any more' not in client.get('INFO', 'peers'), client.get('INFO', 'peers'))
            leads(second, 6)
            with cluster.partition(0) as successor:
                check(isinstance(claim(successor, second, 1, 6), bytes), 'the successor was refused')
                wait_for(lambda: has_heard(second), 'the successor to be heard')
            check('newer leader' in str(claim(client, first, 1, 5)), 'an older leader was admitted')


class Dropped(Misled):
    """The map has shards 0 to 2 with two ports each: all that come after the first three, which lead them."""

    def shards_text(self, slots=None):
        text = Cluster.shards_text(self, slots)
        for shard in range(3):
            pair = ' '.join('127.0.0.1:%d' % port for port in self.ports[3 + 2 * shard:5 + 2 * shard])
            text += '\n[shard dropped%d]\nslots = %d-%d\naddress = %s\n' % (shard, 8192 + 2000 * shard, 16383 if shard == 2 else 10191 + 2000 * shard, pair)
        return text


@suite.case('CLUSTER NODES and SHARDS show three leaders at once whose addresses the map has dropped')
def _(run):
    ports = [free_ports() for _ in range(9)]
    with contextlib.ExitStack() as stack:
        for shard in range(3):
            identity = identity_with('dropped%d' % shard, ports[shard], 1, 5)
            leader = stack.enter_context(OtherVersion(('127.0.0.1', ports[shard])))
            leader.replies[b'PEER'] = b'$%d\r\n%s\r\n' % (len(identity), identity)  # then it closes the connection
            for port in ports[3 + 2 * shard:5 + 2 * shard]:
                stack.enter_context(OtherVersion(('127.0.0.1', port), peer='-NOTLEADER 127.0.0.1:%d it does not lead' % ports[shard]))
        cluster = stack.enter_context(Dropped(ports))
        partition = stack.enter_context(cluster.partition(0))
        for shard in range(3):
            wait_for(lambda: b'peer_leader shard=dropped%d address=127.0.0.1:%d' % (shard, ports[shard]) in cluster.backends[0].log(), 'the leader to be heard')
        nodes = partition.get('CLUSTER', 'NODES').decode().splitlines()
        masters = sorted(int(line.split()[1].split(':')[1].split('@')[0]) for line in nodes if 'master' in line.split()[2])
        check_equal((len(nodes), masters), (10, sorted(ports[:3] + [cluster.backends[0].addresses[0][1]])))
        check_equal(len(partition.get('CLUSTER', 'SHARDS')), 4)


@suite.case('a copy that has no data yet says that it does not lead its shard, and not that it belongs to another one')
def _(run):
    with Copies(proxies=0) as copies:
        for backend in copies.backends:
            backend.kill9()
            shutil.rmtree(backend.data)
        copies.backends[0].spawn()  # it founds no group before the others have answered

        def answer():
            with contextlib.suppress(OSError, Closed), copies.copy(0) as peer:
                peer.get('SCREE', 'AUTH', copies.secret)
                return str(peer.get('SCREE', 'PEER', PEER_PROTOCOL, 'a', identity_with('b', 1, 1, 1)))
        wait_for(lambda: answer() == 'NOTLEADER - this copy of the shard does not lead', 'the answer of a copy of this shard')


REPLICA_HELLO, REPLICA_CORE, REPLICA_PART, REPLICA_KNOWN = 27, 28, 29, 30


def copy_payload(rng, kind, address):
    """What a copy of another group says, or nonsense."""
    group = struct.pack('<IQ', rng.randrange(4), rng.randrange(1 << 64))
    numbers = struct.pack('<12Q', *(rng.randrange(1 << rng.choice((3, 40, 64))) for _ in range(12)))
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(300))
    if kind == REPLICA_HELLO:
        return group + numbers[:56] + bytes([rng.choice((1, 3, 4, 5, 9)), 6, rng.randrange(9)]) + numbers[56:] + sized_bytes(address.encode())
    if kind == REPLICA_KNOWN:
        return group + bytes([rng.randrange(4)]) + numbers[:64]
    if kind == REPLICA_CORE:
        return group + numbers[:16] + bytes([rng.randrange(8), rng.randrange(9), rng.randrange(5)]) + numbers[16:64] + rng.randbytes(rng.randrange(90))
    return group + numbers[:40] + rng.randbytes(rng.randrange(2000))


def greet_copy(copies, address):
    """A connection that is that of the copy at the address."""
    connection = copies.leader()
    check_equal(connection.get('SCREE', 'AUTH', copies.secret), b'OK')
    identity = identity_of('a', '0' * 40).replace(b'\x0b127.0.0.1:1', bytes([len(address)]) + address.encode())
    check(isinstance(connection.get('SCREE', 'REPLICA', PEER_PROTOCOL, 'a', identity), bytes), 'the copy was refused')
    return connection


@suite.case('a connection that claims to be that of a copy, and sends nonsense, ends no program')
def _(run):
    rng = random.Random(run.seed)
    with Copies(copies=2, proxies=0) as copies:
        copies.wait_follows(1)
        copies.backends[1].kill9()
        address = '%s:%d' % copies.backends[1].addresses[0][:2]
        end, sent = time.monotonic() + run.options.seconds / 2, 0
        while time.monotonic() < end:
            with greet_copy(copies, address) as connection:
                try:
                    for number in range(1, rng.randrange(2, 40)):
                        kind = rng.choice((REPLICA_HELLO, REPLICA_CORE, REPLICA_PART, REPLICA_KNOWN, rng.randrange(256)))
                        connection.sock.sendall(frame_of(kind, number, copy_payload(rng, kind, address)))
                        sent += 1
                except OSError:
                    pass
            check(copies.backends[0].alive(), 'the backend ended: %s' % copies.backends[0].log_tail())
        run.note('%d frames' % sent)
        with copies.leader() as leader:
            check_equal(leader.get('SET', 'k', 'v'), b'OK')
        copies.backends[1].start()
        copies.wait_follows(1)
        with copies.reader(1) as reader:
            check_equal(reader.get('GET', 'k'), b'v')


if __name__ == '__main__':
    suite.main()
