#!/usr/bin/python3
"""scree-copy: RDB files of redis-server go into a cluster, with every type, encoding and time to live; what is wrong is said first."""

import contextlib
import json
import os
import signal
import socketserver
import subprocess
import tempfile
import threading
import time

from support import rdb_payload
from support.cluster import Cluster, Oracle, binary
from support.copied import Source, address, check_copied, check_equal_keys, copy, fill, fill_groups, first_commands
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.later_redis import LaterServer

suite = Suite(__doc__)
FAR_MS = 4102444800123  # in 2100
LIMITS = ('list-max-listpack-size', 'hash-max-listpack-entries', 'zset-max-listpack-entries', 'set-max-intset-entries', 'stream-node-max-entries')


def set_limits(source, limit):
    for name in LIMITS:
        source.call('CONFIG', 'SET', name, limit)


@suite.case('every type comes in every encoding, on both sides of the thresholds, with its time to live')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for limit in ('128', '4'):
            set_limits(source, limit)
            fill(source, limit + ':', (1, 3, 4, 5, 127, 129))
        fill_groups(source, 'stream:4:129', 5)
        fill_groups(source, 'stream:128:5', 2)
        source.call('XDEL', 'stream:4:129', '3-1', '4-2')
        source.call('PEXPIREAT', 'hash:4:5', str(FAR_MS))
        source.call('PEXPIREAT', 'string:4:0', str(FAR_MS + 1))
        source.call('PEXPIREAT', 'stream:4:3', str(FAR_MS + 2))
        done = copy('--from', 'rdb:' + source.save(), cluster=cluster)
        check_copied(done)
        with cluster.connect() as target:
            count = check_equal_keys(source, target)
            check_equal(target.call('DBSIZE')[1], b'%d' % count)
        check('copy: %d keys;' % count in done.stdout, done.stdout)


@suite.case('long collections go in parts and are the same; a second run changes nothing')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        count = sized(25000, long=600000)
        for at in range(0, count, 5000):
            texts = ['element %07d' % i + 'x' * 40 for i in range(at, at + 5000)]
            source.call('RPUSH', 'list', *texts)
            source.call('SADD', 'set', *texts)
            source.call('HSET', 'hash', *(word for text in texts for word in (text, text[::-1])))
            source.call('ZADD', 'zset', *(word for i, text in enumerate(texts) for word in (repr(i / 3), text)))
            source.connection.pipeline([('XADD', 'stream', '%d-1' % (i + 1), 'field', text) for i, text in enumerate(texts, at)])
        fill_groups(source, 'stream', 1200)
        source.call('XGROUP', 'CREATE', 'stream', 'second', '7-1', 'ENTRIESREAD', '7')
        source.call('PEXPIREAT', 'zset', str(FAR_MS))
        path = source.save()
        check('5 longer collections go in parts' in copy('check', '--from', 'rdb:' + path, '--to', 'null:').stdout, 'nothing goes in parts')
        for _ in range(2):
            check_copied(copy('--from', 'rdb:' + path, cluster=cluster), 'copy: 5 keys;')
            with cluster.connect() as target:
                check_equal(check_equal_keys(source, target), 5)
        check_copied(copy('verify', '--from', 'rdb:' + path, cluster=cluster), 'verify: 5 keys;')
        changes = {
            'list': (('LSET', '12345', 'x'), ('LSET', '12345', 'element 0012345' + 'x' * 40)),
            'set': (('SADD', 'x'), ('SREM', 'x')),
            'hash': (('HPEXPIREAT', str(FAR_MS), 'FIELDS', '1', 'element 0000007' + 'x' * 40), ('HPERSIST', 'FIELDS', '1', 'element 0000007' + 'x' * 40)),
            'stream': (('XACK', 'first', '1150-1'), ('XGROUP', 'SETID', 'second', '7-1', 'ENTRIESREAD', '7')),
            'zset': (('ZINCRBY', '1', 'element 0000007' + 'x' * 40), ('PERSIST',)),
        }
        with cluster.connect() as target:
            def change(key, words):
                at = 2 if words[0] == 'XGROUP' else 1
                kind, value = target.call(*words[:at], key, *words[at:])
                check(kind != '-', '%s: %s' % (words, value))
            for key, (change_it, back) in changes.items():
                change(key, change_it)
                done = copy('verify', '--from', 'rdb:' + path, cluster=cluster)
                check_equal((done.returncode, '"%s": its value differs' % key in done.stderr, done.stderr.count('different db 0')), (1, True, 1), done.stderr)
                if key in ('zset', 'stream'):
                    target.call('DEL', key)
                    check('"%s": it is missing' % key in copy('verify', '--from', 'rdb:' + path, cluster=cluster).stderr, 'not missing')
                    check_copied(copy('--from', 'rdb:' + path, '--match', key, cluster=cluster))
                change(key, back)
            done = copy('verify', '--from', 'rdb:' + path, cluster=cluster)
            check_equal((done.returncode, '"zset": it expires at -1 ms' in done.stderr, done.stderr.count('different db 0')), (1, True, 1), done.stderr)
            target.call('SET', 'list', 'x')
            check('"list": it has another type' in copy('verify', '--from', 'rdb:' + path, cluster=cluster).stderr, 'the type is not compared')


@suite.case('long strings go in parts of which zeros are not sent, compressed or not, and are compared; small memory of the target is enough')
def _(run):
    size = sized(40 << 20, long=512 << 20)
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for key in ('sparse', 'dense'):
            source.call('SETRANGE', key, str(size - 1), 'x')
            source.call('SETBIT', key, '77', '1')
        source.call('SETRANGE', 'dense', '70000', os.urandom(20 << 20))
        source.call('PEXPIREAT', 'dense', str(FAR_MS))
        for compressed in ('no', 'yes'):
            source.call('CONFIG', 'SET', 'rdbcompression', compressed)
            path = 'rdb:' + source.save()
            check('2 longer collections go in parts' in copy('check', '--from', path, '--to', 'null:').stdout, 'nothing goes in parts')
            check_copied(copy('--from', path, cluster=cluster), 'copy: 2 keys;')
            check_copied(copy('verify', '--from', path, cluster=cluster), 'verify: 2 keys;')
            with cluster.connect() as target:
                for key in ('sparse', 'dense'):
                    for words in (('STRLEN', key), ('BITCOUNT', key), ('PEXPIRETIME', key), ('GETRANGE', key, '69000', '71000')):
                        check_equal(target.call(*words)[1], source.call(*words), str(words))
                target.call('SETBIT', 'sparse', '160000001', '1')
                target.call('SETRANGE', 'dense', '20000000', 'abc')
            done = copy('verify', '--from', path, cluster=cluster)
            check_equal((done.returncode, done.stderr.count('its value differs')), (1, 2), done.stderr)


@suite.case('verify finds every key equal after a copy, and names each that is changed, missing or has another time to live')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        fill(source, '', (3, 150))
        fill_groups(source, 'stream:150', 5)
        source.call('XDEL', 'stream:150', '3-1')
        source.call('PEXPIREAT', 'hash:3', str(FAR_MS))
        for _ in range(3):
            source.call('RPUSH', 'long', *['y' * 100] * 5000)
            source.call('SADD', 'long set', *(os.urandom(60) for _ in range(9000)))
        path = 'rdb:' + source.save()
        count = len(source.call('KEYS', '*'))
        check_copied(copy('--from', path, cluster=cluster))
        check_copied(copy('verify', '--from', path, cluster=cluster), 'verify: %d keys;' % count)
        changes = {
            'string:9': ('APPEND', ' '), 'list:150': ('LSET', '70', 'other'), 'numbers:3': ('LINSERT', 'BEFORE', '-1', '-4'), 'set:150': ('SADD', 'more'),
            'integers:3': ('SADD', '7'), 'hash:150': ('HSET', 'element 0 ', 'other'), 'zset:3': ('ZINCRBY', '0.5', 'element 0 '), 'long': ('LSET', '7000', 'z'),
            'long set': ('SPOP',), 'stream:3': ('XADD', '900-1', 'f', 'v'), 'hash:3': ('PERSIST',), 'list:3': ('DEL',), 'string:1': ('PEXPIREAT', str(FAR_MS)),
        }
        with cluster.connect() as target:
            for key, (command, *words) in changes.items():
                check(target.call(command, key, *words)[0] != '-', key)
            check(target.call('XACK', 'stream:150', 'first', '2-1')[1] == b'1', 'nothing was acknowledged')
        done = copy('verify', '--from', path, cluster=cluster)
        named = sorted(line.split('"')[1] for line in done.stderr.splitlines() if line.startswith('different db 0 '))
        check_equal((done.returncode, named), (1, sorted([*changes, 'stream:150'])), done.stderr)
        check('verify: %d keys, %d different;' % (count - len(named), len(named)) in done.stdout, done.stdout)
        for key, words in (('list:3', 'missing in the target'), ('hash:3', 'it expires at -1 ms, in the file at %d' % FAR_MS), ('long', 'its value differs')):
            check('"%s": %s' % (key, words) in done.stderr or words in done.stderr, done.stderr)
        check_copied(copy('--from', path, cluster=cluster))
        check_copied(copy('verify', '--from', path, cluster=cluster), 'verify: %d keys;' % count)


@suite.case('databases, filters and names: --db, --match, --skip, --strip, --add')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for db in ('0', '3', '5'):
            source.call('SELECT', db)
            for key in ('shop:cart:1', 'shop:cart:2', 'shop:user', 'other'):
                source.call('SET', key, db)
        path = 'rdb:' + source.save()
        done = copy('--from', path, '--db', '3=7,5', '--match', 'shop:*', '--match', 'oth*', '--skip', '*:2', '--strip', 'shop:',
                    '--add', 'new:', cluster=cluster)
        check_copied(done, 'copy: 4 keys, 8 left out;')
        with cluster.connect() as target:
            for db, keys in (('0', []), ('5', [b'new:cart:1', b'new:user']), ('7', [b'new:cart:1', b'new:user'])):
                target.call('SELECT', db)
                check_equal(sorted(key[1] for key in target.call('KEYS', '*')[1]), keys, 'keys of database ' + db)
            check_equal(target.call('GET', 'new:user')[1], b'3')
        check_copied(copy('--from', path, '--to', address(cluster, 9), '--match', 'other'), 'copy: 3 keys')


@suite.case('--existing: keys are replaced, kept, or nothing is copied; also those that go in parts')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        source.call('SET', 'a', 'new')
        source.call('RPUSH', 'short', 'new')
        for _ in range(40):
            source.call('RPUSH', 'long', *['y' * 100] * 500)
        path = 'rdb:' + source.save()
        with cluster.connect() as target:
            def reset():
                target.call('DEL', 'a', 'short', 'long')
                target.pipeline([('SET', 'a', 'old'), ('RPUSH', 'short', 'old'), ('RPUSH', 'long', 'old', 'er')])
            reset()
            done = copy('--from', path, '--existing', 'refuse', cluster=cluster)
            check_equal((done.returncode, 'database 0: it has keys' in done.stderr), (4, True), done.stderr)
            check_copied(copy('--from', path, '--existing', 'keep', cluster=cluster), 'copy: 0 keys, 3 kept')
            check_equal([target.call('GET', 'a')[1], target.call('LLEN', 'short')[1], target.call('LLEN', 'long')[1]], [b'old', b'1', b'2'])
            check_copied(copy('--from', path, cluster=cluster), 'copy: 3 keys;')
            check_equal(check_equal_keys(source, target), 3)
            target.call('DEL', 'long')
            check_copied(copy('--from', path, '--existing', 'keep', cluster=cluster), 'copy: 1 keys, 2 kept')
            check_equal(target.call('LLEN', 'long')[1], b'20000')


@suite.case('functions come, unless they are left out; keys that have expired do not, and are deleted in the target')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        source.call('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 'from f' end)")
        source.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0')
        source.call('SET', 'short', 'lived', 'PX', '50')
        path = 'rdb:' + source.save()
        time.sleep(0.1)
        with cluster.connect() as target:
            target.call('SET', 'short', 'old')
            check_copied(copy('--from', path, '--functions', 'no', cluster=cluster), 'copy: 0 keys, 1 expired;')
            check_equal(target.call('FUNCTION', 'LIST')[1], [])
            check_equal(target.call('EXISTS', 'short')[1], b'0')
            for _ in range(2):
                check_copied(copy('--from', path, cluster=cluster), 'copy: 0 keys, 1 libraries of functions, 1 expired;')
            check_equal(target.call('FCALL', 'f', '0')[1], b'from f')


def rdb(version, *parts):
    """A file made by hand, with its checksum."""
    data = version + b''.join(parts) + b'\xff'
    return data + rdb_payload.crc64(data).to_bytes(8, 'little')


def module_id(name):
    letters = b'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    number = 0
    for letter in name:
        number = number << 6 | letters.index(letter)
    return b'\x81' + (number << 10 | 3).to_bytes(8, 'big')


class Target:
    """A target whose replies a test chooses: `reply` gets the words of a command, and returns bytes, or None for the usual reply."""

    USUAL = {b'EXISTS': b':0\r\n', b'HSET': b':1\r\n', b'HDEL': b':1\r\n', b'DBSIZE': b':0\r\n', b'RPUSH': b':1\r\n', b'DEL': b':0\r\n', b'DUMP': b'$-1\r\n', b'TYPE': b'+none\r\n', b'PEXPIRETIME': b':-1\r\n'}

    def __init__(self, reply):
        target = self
        self.reply, self.commands = reply, []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError, ValueError):  # the tool may leave in the middle of a command
                    for line in self.rfile:
                        words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                        target.commands.append(words)
                        self.wfile.write(target.answer(words))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 64

        self.server = Server(('127.0.0.1', 0), Handler)
        self.address = 'scree://127.0.0.1:%d' % self.server.server_address[1]

    def answer(self, words):
        if words[0] == b'RESTORE' and words[3] == b'x':
            return b'-ERR DUMP payload version or checksum are wrong\r\n'
        if words[0] == b'SET' and words[-1] == b'x':
            return b'-ERR value is not an integer or out of range\r\n'
        return self.reply(words) or self.USUAL.get(words[0], b'+OK\r\n')

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def rdb_list(name, count, size):
    """A list of so many elements: with over 1 MiB it goes in parts."""
    return b'\x12' + rdb_payload.string(name) + rdb_payload.length(count) + b''.join(b'\x01' + rdb_payload.string('%07d' % i + 'x' * size) for i in range(count))


LOST = b"-SHARDLOST shard 'b' (10.0.0.1:7): connection lost before the reply: reset\r\n"


def with_file(folder, *parts, version=b'REDIS0011'):
    """A file without a checksum, which takes long in Python."""
    path = os.path.join(folder, 'made.rdb')
    with open(path, 'wb') as file:
        file.write(version + b''.join(parts) + b'\xff' + bytes(8))
    return 'rdb:' + path


@suite.case('an error whose code is not of a key ends the run, and no part is sent after it; a verify ends as well')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\x00\x01s\x01v', rdb_list('long', 30, 100000))
        for text in (b'-TRYAGAIN later\r\n', b'-LOADING soon\r\n', b'-MISCONF no space\r\n', LOST, b'-NEWCODE that this version does not know\r\n'):
            for command in (b'RPUSH', b'DEL', b'DUMP') if text[1:2] in b'TLS' else (b'SET', b'RPUSH', b'DEL', b'DUMP'):  # whole keys are sent again
                commands = (b'DUMP', b'TYPE') if command == b'DUMP' else (command,)
                with Target(lambda words: text if words[0] in commands else None) as target:
                    done = copy('verify' if command == b'DUMP' else 'run', '--from', path, '--to', target.address)
                check_equal((done.returncode, text[1:-2].decode() in done.stderr, 'run the same command again' in done.stderr), (4, True, True), done.stderr)
                check('refused db' not in done.stderr and 'different' not in done.stderr, done.stderr)


@suite.case('whether an error ERR is of a key or of the target is asked, not read from its words: the key is named if the target answers')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\xf5\x01a', b'\x00\x01s\x01v', rdb_list('long', 30, 100000))
        for text in (b'-ERR x\r\n', b'-ERR Bad data format\r\n', b'-ERR max number of clients reached\r\n'):
            for command, question, name in ((b'SET', b'EXISTS', 's'), (b'RPUSH', b'EXISTS', 'long'), (b'DUMP', b'EXISTS', 's'), (b'TYPE', b'EXISTS', 'long'), (b'FUNCTION', b'DBSIZE', '')):
                word = 'verify' if command in (b'DUMP', b'TYPE') else 'run'
                with Target(lambda words: text if words[0] == command else None) as target:
                    done = copy(word, '--from', path, '--to', target.address)
                check_equal((done.returncode, '"%s": ' % name in done.stderr, text[1:-2].decode() in done.stderr), (1, True, True), done.stderr)
                failed = []
                with Target(lambda words: text if words[0] == command and not failed.append(1) or failed and words[0] == question else None) as target:
                    done = copy(word, '--from', path, '--to', target.address)
                check_equal((done.returncode, 'run the same command again' in done.stderr, 'refused db' in done.stderr), (4, True, False), done.stderr)


@suite.case('a whole key or library whose reply was an error is sent once more, so a connection that broke in between costs nothing')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\xf5\x01a', b'\x00\x01s\x01v', b'\x01\x01l\x01\x01e')
        for text in (LOST, b'-ERR x\r\n'):
            lost = []

            def lose(words):
                if words[0] in (b'SET', b'RESTORE', b'FUNCTION') and words[-1] != b'x' and lost.count(words) == 0:
                    lost.append(words)
                    return text
                return None

            with Target(lose) as target:
                done = copy('--from', path, '--to', target.address)
            check_equal((done.returncode, len(lost)), (0, 3), done.stderr)
            check('copy: 2 keys, 1 libraries of functions;' in done.stdout, done.stdout)
            check_equal([target.commands.count(words) for words in lost], [2, 2, 2])


@suite.case('a whole key that the target refuses for a moment is sent again; when shards are killed, the copy goes on when they are back')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\x00\x01s\x01v', b'\x01\x01l\x01\x01e')
        refused = []

        def refuse(words):
            if words[0] in (b'SET', b'RESTORE') and words[-1] != b'x' and refused.count(words[0]) < 3:
                refused.append(words[0])
                return b'-TRYAGAIN later\r\n' if words[0] == b'SET' else b'-LOADING soon\r\n'
            return None

        with Target(refuse) as target:
            check_copied(copy('--from', path, '--to', target.address), 'copy: 2 keys;')
    with Oracle() as oracle, Cluster(backends=2, partitions=1) as cluster:
        source = Source(oracle)
        for at in range(0, 20000, 500):
            source.connection.pipeline([('RPUSH', 'list:%d' % i, os.urandom(50), str(i)) for i in range(at, at + 500)])
        tool = subprocess.Popen([binary('scree-copy'), '--quiet', '--rate', '400kb', '--from', 'rdb:' + source.save(), '--to', address(cluster)], stdout=subprocess.DEVNULL)
        with cluster.connect() as target:
            wait_for(lambda: int(target.call('DBSIZE')[1]) > 100, 'the tool to write')
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        check_equal(tool.wait(patience()), 0)
        with cluster.connect() as target:
            check_equal(target.call('DBSIZE')[1], b'20000')
            check_equal_keys(source, target, [b'list:%d' % i for i in range(0, 20000, 97)])


@suite.case('--existing keep: an error instead of the reply whether a long key exists does not hang the run')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, rdb_list('long', 30, 100000), b'\x00\x01s\x01v')
        for command, text, code in ((b'EXISTS', b'-NOPERM this user has no permissions\r\n', 1), (b'EXISTS', LOST, 4), (b'HSET', b'-NOPERM no\r\n', 1)):
            with Target(lambda words: text if words[0] == command else None) as target:
                done = copy('--existing', 'keep', '--from', path, '--to', target.address)
            check_equal(done.returncode, code, done.stderr)
            check_equal([words for words in target.commands if words[0] == b'RPUSH'], [], 'parts of a key that may exist')
            check(code == 4 or 'refused db 0 "long": NOPERM' in done.stderr, done.stderr)


@suite.case('a key in parts that is refused is named once, gets no more parts, and is not counted as copied; functions too are counted one by one')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\xf5\x01a', b'\xf5\x01b', rdb_list('long', 60, 100000), b'\x00\x01s\x01v')
        refusals = {b'RPUSH': b'-NOPERM no permissions\r\n', b'FUNCTION': b'-ERR Missing library metadata\r\n'}
        with Target(lambda words: refusals.get(words[0])) as target:
            done = copy('--from', path, '--to', target.address)
        check_equal((done.returncode, done.stderr.count('"long": NOPERM'), done.stderr.count('Missing library')), (1, 1, 2), done.stderr)
        check('copy: 1 keys, 3 refused;' in done.stdout, done.stdout)


@suite.case('--existing refuse: a target that cannot count its keys is refused, and so is standard input')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\x00\x01s\x01v')
        with Target(lambda words: b"-SHARDLOST shard 'b' (10.0.0.1:7): not reachable: refused\r\n" if words[0] == b'DBSIZE' else None) as target:
            done = copy('--existing', 'refuse', '--from', path, '--to', target.address)
            check_equal((done.returncode, 'not reachable' in done.stderr), (4, True), done.stderr)
            check_equal([words for words in target.commands if words[:3] == [b'SET', b's', b'v'] and len(words) == 3], [], 'a key was written')
            done = copy('--existing', 'refuse', '--from', 'rdb:-', '--to', target.address, stdin=subprocess.DEVNULL)
            check_equal((done.returncode, 'standard input' in done.stderr), (2, True), done.stderr)
        for text in (b'-TRYAGAIN later\r\n', b'-MISCONF disk\r\n', LOST):
            with Target(lambda words: text if words[0] == b'PING' else None) as target:
                check_equal(copy('check', '--from', path, '--to', target.address).returncode, 4, text)


@suite.case('a user without a password is logged in as this user, so nothing goes into the place of the default user')
def _(run):
    without = {name: value for name, value in os.environ.items() if name != 'TO_PASSWORD'}
    with tempfile.TemporaryDirectory() as folder:
        path = with_file(folder, b'\x00\x01s\x01v')
        with Target(lambda words: b'-WRONGPASS invalid username-password pair\r\n' if words == [b'AUTH', b'shop', b''] else None) as target:
            done = copy('--from', path, '--to', target.address.replace('//', '//shop@'), env=without)
            check_equal((done.returncode, 'WRONGPASS' in done.stderr), (4, True), done.stdout + done.stderr)
            check(not any(words[0] == b'SET' for words in target.commands), 'a key was written')


@suite.case('check counts what run refuses: values of RedisBloom; data of modules without a key are named and counted; the base of an append-only file is refused')
def _(run):
    names = (b'MBbloom--', b'CMSk-TYPE', b'TopK-TYPE', b'TDIS-TYPE')
    with Cluster(backends=1, partitions=2) as cluster:
        values = [b'\x07' + rdb_payload.string(name) + module_id(name) + b'\x02\x01\x05\x01x\x00' for name in names]
        path = with_file(cluster.folder, *values, b'\xf7' + module_id(b'TSDB-TYPE') + b'\x02\x01\x00')
        for word in ('check', 'run'):
            done = copy(word, '--from', path, cluster=cluster)
            check_equal((done.returncode, '0 keys, 4 refused, 1 data of modules left out;' in done.stdout), (1, True), done.stdout + done.stderr)
            check('data of module TSDB-TYPE that belong to no key' in done.stdout + done.stderr, done.stdout + done.stderr)
        aux = rdb_payload.string('aof-base')
        check_copied(copy('--from', with_file(cluster.folder, b'\xfa' + aux + b'\xc0\x00', b'\x00\x01s\x01v'), cluster=cluster), 'copy: 1 keys;')
        done = copy('--from', with_file(cluster.folder, b'\xfa' + aux + b'\xc0\x01', b'\x00\x01s\x01v'), cluster=cluster)
        check_equal((done.returncode, 'append-only file' in done.stderr), (3, True), done.stderr)


@suite.case('check of a file with values of forty modules in as many databases prints some of them and the rest together')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        letters = [b'MODULE-%02d' % i for i in range(40)]
        path = with_file(folder, *(b'\xfe' + bytes([i, 7]) + rdb_payload.string(name) + module_id(name) + b'\x02\x01\x05\x01x\x00' for i, name in enumerate(letters)))
        done = copy('check', '--from', path, '--to', 'null:')
        lines = done.stdout.splitlines()
        check_equal((done.returncode, len(lines), lines[32].split()), (1, 35, ['9', 'others']), done.stdout)


@suite.case('verify leaves out fields that have expired since, and counts a hash without others as expired')
def _(run):
    def hash_with(name, soon, far):
        times = (soon, FAR_MS if far else soon)
        return b'\x16' + rdb_payload.string(name) + b'\x02' + b''.join(
            rdb_payload.string(field) + rdb_payload.string('v') + rdb_payload.millis(at) for field, at in zip('ab', times))

    with Cluster(backends=1, partitions=2) as cluster:
        for left_ms in (1000, 10000, 100000):  # longer if the machine is too slow to copy within this time
            soon = int(time.time() * 1000) + left_ms
            path = with_file(cluster.folder, hash_with('half', soon, True), hash_with('gone', soon, False), version=b'VALKEY080')
            done = copy('--from', path, cluster=cluster)
            if time.time() * 1000 < soon:
                break
        check_copied(done, 'copy: 2 keys;')
        with cluster.connect() as target:
            wait_for(lambda: target.call('EXISTS', 'gone')[1] == b'0', 'the fields to expire', 120)
            check_equal(target.call('HKEYS', 'half')[1], [('$', b'b')])
            check_copied(copy('verify', '--from', path, cluster=cluster), 'verify: 1 keys, 1 expired;')
            target.call('HSET', 'half', 'b', 'other')
        check_equal(copy('verify', '--from', path, cluster=cluster).returncode, 1)


@suite.case('files of Redis 7.2 and 7.4 and of Valkey 9: sets as listpacks, times to live of fields; values of unknown modules are named')
def _(run):
    far = FAR_MS.to_bytes(8, 'little')
    with Cluster(backends=1, partitions=2) as cluster:
        path = os.path.join(cluster.folder, 'later.rdb')
        files = {
            'redis 7.2': rdb(b'REDIS0011', b'\x14\x01s' + rdb_payload.string(rdb_payload.listpack('a', 'b')),
                             b'\x07\x04time' + module_id(b'TSDB-TYPE') + b'\x02\x01\x05\x01x\x00', b'\xf7' + module_id(b'TSDB-TYPE') + b'\x02\x01\x00'),
            'redis 7.4': rdb(b'REDIS0012', b'\x18\x01h' + far + b'\x02\x00\x01a\x01A\x03\x01b\x01B'),
            'valkey 9': rdb(b'VALKEY080', b'\x16\x01v\x02\x01a\x01A' + b'\xff' * 8 + b'\x01b\x01B' + far),
        }
        for name, data in files.items():
            with open(path, 'wb') as file:
                file.write(data)
            refused = name == 'redis 7.2'
            done = copy('--from', 'rdb:' + path, cluster=cluster)
            check_equal(done.returncode, int(refused), name + ': ' + done.stderr)
            check(not refused or 'refused db 0 "time": a value of module TSDB-TYPE' in done.stderr, done.stderr)
            checked = copy('check', '--from', 'rdb:' + path, cluster=cluster)
            check_equal((checked.returncode, 'TSDB-TYPE (of a module' in checked.stdout), (int(refused), refused), name)
        with cluster.connect() as target:
            check_equal(sorted(text[1] for text in target.call('SMEMBERS', 's')[1]), [b'a', b'b'])
            for key, soonest in (('h', FAR_MS + 2), ('v', FAR_MS)):
                check_equal([time[1] for time in target.call('HPEXPIRETIME', key, 'FIELDS', '2', 'a', 'b')[1]], [b'-1', b'%d' % soonest], key)


@suite.case('a damaged file, a wrong password and a target that is not there are said before a key is written')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2, proxy_options={'proxy': {'requirepass': 'secret'}}) as cluster:
        source = Source(oracle)
        fill(source, '', (10,))
        path = source.save()
        with open(path, 'rb') as file:
            data = file.read()
        with_password = {**os.environ, 'TO_PASSWORD': 'secret'}
        for at in (0, 5, 100, len(data) // 2, len(data) - 9, len(data) - 1):
            for damaged, reason in ((data[:at], 'file ends'), (data[:at] + bytes([data[at] ^ 1]) + data[at + 1:], '')):
                with open(path + '.bad', 'wb') as file:
                    file.write(damaged)
                done = copy('--from', 'rdb:' + path + '.bad', cluster=cluster, env=with_password)
                check_equal(done.returncode, 3, 'byte %d: %s' % (at, done.stderr))
                check('.bad, at byte ' in done.stderr and reason in done.stderr, done.stderr)
        for words, environment, reason in (
                (['--to', address(cluster)], {**os.environ, 'TO_PASSWORD': 'wrong'}, 'WRONGPASS'),
                (['--to', address(cluster)], os.environ, 'NOAUTH'),
                (['--to', 'scree://127.0.0.1:1'], os.environ, 'cannot connect')):
            done = copy('--from', 'rdb:' + path, *words, env=environment)
            check_equal((done.returncode, reason in done.stderr), (4, True), done.stderr)
        with cluster.connect() as target:
            target.call('AUTH', 'secret')
            check_equal(target.call('DBSIZE')[1], b'0')
        check_copied(copy('--from', 'rdb:' + path, cluster=cluster, env=with_password))


@suite.case('a user who may not write is told so before anything is copied')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        source.call('SET', 'k', 'v')
        path = source.save()
        with cluster.connect() as target:
            target.call('ACL', 'SETUSER', 'reader', 'on', '>word', '~*', '+@all', '-@write')
            done = copy('check', '--from', 'rdb:' + path, '--to', address(cluster).replace('//', '//reader@'),
                        env={**os.environ, 'TO_PASSWORD': 'word'})
            check_equal((done.returncode, 'NOPERM' in done.stderr), (4, True), done.stdout + done.stderr)


@suite.case('TLS with a client certificate: an unknown authority is refused; and the keys of a namespace, by its name and token')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2, tls=True, namespaces={'shop': {'token': 'word'}}) as cluster:
        source = Source(oracle)
        fill(source, '', (5,))
        path = 'rdb:' + source.save()
        to = 'screes://shop@localhost:%d' % cluster.proxies[0].address[1]
        token, client = {**os.environ, 'TO_PASSWORD': 'word'}, cluster.tls.client
        done = copy('--from', path, '--to', to, env=token)
        check_equal((done.returncode, 'certificate verify failed' in done.stderr), (4, True), done.stderr)
        files = ['--ca-file', cluster.tls.ca.cert, '--cert-file', client.cert, '--key-file', client.key]
        for word in ('run', 'verify'):
            check_copied(copy(word, '--from', path, '--to', to, *files, env=token))
        with cluster.connect() as target:
            target.call('AUTH', 'shop', 'word')
            check_equal_keys(source, target)


def kill(tool, target):
    """Kills it, and waits until the proxy has heard that."""
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    wait_for(lambda: b' name=scree-copy ' not in target.call('CLIENT', 'LIST')[1], 'the connections of the tool to end')


@suite.case('a tool that was killed is run again: everything is there once, as in the source')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for at in range(0, 20000, 500):
            source.connection.pipeline([('RPUSH', 'list:%d' % i, 'a', 'b', str(i)) for i in range(at, at + 500)])
        for _ in range(20):
            source.call('RPUSH', 'long', *['y' * 100] * 1000)
        path = source.save()
        with cluster.connect() as target:
            for _ in range(3):
                tool = subprocess.Popen([binary('scree-copy'), '--quiet', '--rate', '300kb', '--from', 'rdb:' + path, '--to', address(cluster)])
                before = int(target.call('DBSIZE')[1])
                wait_for(lambda: before == 20001 or int(target.call('DBSIZE')[1]) > before, 'the tool to write')
                kill(tool, target)
            check_copied(copy('--from', 'rdb:' + path, cluster=cluster), 'copy: 20001 keys;')
            check_equal(target.call('DBSIZE')[1], b'20001')
            check_equal_keys(source, target, [b'long'] + [b'list:%d' % i for i in range(0, 20000, 97)])


@suite.case('--existing keep: a long key that a killed tool left incomplete is copied anew, and those of others are kept')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for _ in range(20):
            source.call('RPUSH', 'long', *(os.urandom(100) for _ in range(1000)))
            source.call('SADD', 'theirs', *(os.urandom(60) for _ in range(1000)))
        path = 'rdb:' + source.save()
        with cluster.connect() as target:
            target.call('SADD', 'theirs', 'own')
            tool = subprocess.Popen([binary('scree-copy'), '--quiet', '--rate', '100kb', '--existing', 'keep', '--match', 'long', '--from', path, '--to', address(cluster)])
            wait_for(lambda: int(target.call('LLEN', 'long')[1]) > 0, 'the tool to write')
            kill(tool, target)
            check(int(target.call('LLEN', 'long')[1]) < 20000, 'the key was complete before the tool was killed')
            check_copied(copy('--from', path, '--existing', 'keep', cluster=cluster), 'copy: 1 keys, 1 kept')
            check_equal_keys(source, target, [b'long'])
            check_equal((target.call('SCARD', 'theirs')[1], target.call('DBSIZE')[1]), (b'1', b'2'))
            check_copied(copy('--from', path, '--existing', 'keep', cluster=cluster), 'copy: 0 keys, 2 kept')


@suite.case('the commands at the start of docs/from-valkey.md do what the page says, with a later Valkey')
def _(run):
    with LaterServer('valkey') as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        fill(source, '', (5,))
        source.call('HPEXPIREAT', 'hash:5', str(FAR_MS), 'FIELDS', '1', source.call('HKEYS', 'hash:5')[0][1])
        for command in first_commands('from-valkey.md'):
            words = command.split('#')[0].replace('valkey-cli -h OLD', 'redis-cli -p %d' % oracle.port)
            words = words.replace('scree://PROXY:7379', address(cluster)).replace('scree-copy', binary('scree-copy'))
            done = subprocess.run(words, shell=True, cwd=oracle.folder, capture_output=True, text=True, timeout=patience(), check=False)
            check_equal(done.returncode, 0, command + done.stderr)
            wait_for(lambda: source.call('INFO', 'persistence').count(b'rdb_bgsave_in_progress:0'), 'the file')
        check('verify: %d keys;' % len(source.call('KEYS', '*')) in done.stdout, done.stdout)


@suite.case('the commands of scree-copy at the start of docs/from-elasticache.md do what the page says, with a file for each shard')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster, tempfile.TemporaryDirectory() as folder:
        source = Source(oracle)
        for shard in ('1', '2'):
            source.call('FLUSHALL')
            fill(source, shard + ':', (5,))
            os.rename(source.save(), os.path.join(folder, 'moving-000%s.rdb' % shard))
        commands = [command for command in first_commands('from-elasticache.md') if command.startswith('for ')]
        check_equal(len(commands), 3)
        for command in commands:
            words = command.replace('scree://PROXY:7379', address(cluster)).replace('scree-copy', binary('scree-copy'))
            done = subprocess.run(words, shell=True, cwd=folder, capture_output=True, text=True, timeout=patience(), check=False)
            check_equal((done.returncode, done.stdout.count(' keys;')), (0, 2), command + done.stdout + done.stderr)
        with cluster.connect() as target:
            check_equal(target.call('DBSIZE')[1], b'%d' % (2 * len(source.call('KEYS', '*'))))


@suite.case('the commands at the start of docs/from-redis.md do what the page says')
def _(run):
    commands = first_commands('from-redis.md')
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        fill(source, '', (5,))
        count = len(source.call('KEYS', '*'))
        printed = []
        for command in commands:
            words = command.split('#')[0].replace('ssh OLD cat /var/lib/redis/', 'cat ').replace('-h OLD', '-p %d' % oracle.port)
            words = words.replace('scree://PROXY:7379', address(cluster)).replace('scree-copy', binary('scree-copy'))
            done = subprocess.run(words, shell=True, cwd=oracle.folder, capture_output=True, text=True, timeout=patience(), check=False)
            check_equal(done.returncode, 0, command + done.stderr)
            printed.append(done.stdout)
            wait_for(lambda: source.call('INFO', 'persistence').count(b'rdb_bgsave_in_progress:0'), 'the file')
        check_equal([line.split(' keys')[0] for line in (printed[1].splitlines()[-1], *printed[2:])],
                    ['check: %d' % count, 'copy: %d' % count, 'verify: %d' % count, 'copy: %d' % count])


@suite.case('standard input, --json, --dry-run, --rate, wrong arguments')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        fill(source, '', (5,))
        path = source.save()
        with open(path, 'rb') as file:
            check_copied(copy('--from', 'rdb:-', '--json', cluster=cluster, stdin=file))
        with cluster.connect() as target:
            count = check_equal_keys(source, target)
            target.call('FLUSHALL')
            done = copy('--dry-run', '--json', '--from', 'rdb:' + path, cluster=cluster)
            check_copied(done)
            said = json.loads(done.stdout)
            check_equal((said['command'], said['exit'], said['keys'], said['refused']), ('check', 0, count, 0))
            check_equal(target.call('DBSIZE')[1], b'0')
    for words in ([], ['--from', 'rdb:x'], ['--from', 'aof:x', '--to', 'null:'], ['--from', 'rdb:x', '--to', 'redis://h:1'], ['--lanes', '0'],
                  ['--from', 'rdb:x', '--to', 'scree://u:password@h:1'], ['--from', 'rdb:x', '--to', 'null:', '--db', '1,x'], ['--wrong', 'x'],
                  ['--from', 'rdb:x', '--to', 'null:', '--db', '0=18446744073709551615'],
                  ['--from', 'rdb:x', '--to', 'null:', '--rate', 'fast'], ['verify', '--from', 'rdb:x', '--to', 'null:'], ['--to']):
        done = copy(*words)
        check_equal((done.returncode, done.stdout), (2, ''), str(words))
        check(done.stderr.startswith('scree-copy: ') and done.stderr.count('\n') == 1, done.stderr)
    check_equal(copy('--help').returncode, 0)
    check(copy('--version').stdout.startswith('scree-copy '), 'no version')


@suite.case('memory stays bounded with a list that is much longer')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=2) as cluster:
        source = Source(oracle)
        for _ in range(sized(100, long=1000)):
            source.call('RPUSH', 'long', *(os.urandom(500) for _ in range(2000)))
        path = source.save()
        size = os.path.getsize(path)
        done = copy('--from', 'rdb:' + path, cluster=cluster, wrapper=['/usr/bin/python3', '-c', PEAK])
        check_copied(done, 'copy: 1 keys;')
        verified = copy('verify', '--from', 'rdb:' + path, cluster=cluster, wrapper=['/usr/bin/python3', '-c', PEAK])
        check_copied(verified, 'verify: 1 keys;')
        for printed in (done.stderr, verified.stderr):
            peak = int(printed.split()[-1]) * 1024
            check(peak < 64 << 20 < size, 'the tool took %d MB for a file of %d MB' % (peak >> 20, size >> 20))
        with cluster.connect() as target:
            check_equal(target.call('LLEN', 'long')[1], source.call('LLEN', 'long'))
            check_equal(target.call('LRANGE', 'long', '-1000', '-1')[1], source.call('LRANGE', 'long', '-1000', '-1'))


PEAK = '''
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
'''


LATER = ('redis', 'valkey')


@suite.case('the newest Redis and Valkey of Debian: a file with every type and times to live of fields, and verify')
def _(run):
    for name in LATER:
        with LaterServer(name) as oracle, Cluster(backends=1, partitions=2) as cluster:
            source = Source(oracle)
            for limit in ('128', '4'):
                set_limits(source, limit)
                fill(source, limit + ':', (1, 3, 4, 5, 127, 129))
                for count in (2, 20):
                    key = 'fields:%s:%d' % (limit, count)
                    source.call('HSET', key, *(word for i in range(count) for word in ('field %d' % i, 'value')))
                    source.call('HPEXPIREAT', key, str(FAR_MS), 'FIELDS', '2', 'field 0', 'field 1')
            fill_groups(source, 'stream:4:129', 5)
            source.call('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 'from f' end)")
            source.call('PEXPIREAT', 'hash:4:5', str(FAR_MS))
            path = source.save()
            check_copied(copy('--from', 'rdb:' + path, cluster=cluster))
            with cluster.connect() as target:
                count = check_equal_keys(source, target)
                for limit in ('128', '4'):
                    times = target.call('HPEXPIRETIME', 'fields:%s:20' % limit, 'FIELDS', '3', 'field 0', 'field 1', 'field 2')[1]
                    check_equal([time[1] for time in times], [b'%d' % FAR_MS, b'%d' % FAR_MS, b'-1'], name)
                check_equal(target.call('FCALL', 'f', '0')[1], b'from f')
            check_copied(copy('verify', '--from', 'rdb:' + path, cluster=cluster), 'verify: %d keys;' % count)


if __name__ == '__main__':
    suite.main()
