#!/usr/bin/python3
"""scree-copy: a directory of Kvrocks goes into a cluster, in both encodings, of one server and of cluster mode; what cannot come is named."""

import contextlib
import fcntl
import os
import tempfile

from support import ROOT, kvrocks_rows
from support.cluster import Cluster
from support.copied import address, check_copied, copy, value_of
from support.harness import Suite, check, check_equal, sized
from support.kvrocks_rows import Directory

suite = Suite(__doc__)
FAR_MS = 4102444800000  # in 2100
REGISTERS = 16384


@contextlib.contextmanager
def place():
    with tempfile.TemporaryDirectory(prefix='scree-kvrocks-') as folder:
        yield os.path.join(folder, 'db')


def files_of(folder):
    """What the directory has, to see that nothing is changed."""
    return sorted((name, os.path.getsize(os.path.join(folder, name)), os.stat(os.path.join(folder, name)).st_mtime_ns) for name in os.listdir(folder))


def plain(reply):
    kind, value = reply
    return [plain(part) for part in value] if kind == '*' else value


def pairs(words):
    return dict(zip(words[::2], words[1::2]))


def one_register(index, rank):
    """The registers of a HyperLogLog of which one is not 0, six bits each, lowest first."""
    return (rank << 6 * index).to_bytes(REGISTERS * 6 // 8, 'little')


ENTRIES = {(5, 1): [b'f', b'v'], (5, 2): [b'f', b'', b'g', b'\x00bin'], (2**40, 7): [b'long', b'x' * 200]}


def fill(directory, prefix=b''):
    """Values of all types."""
    directory.string(prefix + b'string', b'text\r\n\x00')
    directory.string(prefix + b'empty', b'')
    directory.string(prefix + b'expires', b'later', FAR_MS)
    directory.string(prefix + b'expired', b'sooner', 1000000000000)
    directory.hash(prefix + b'hash', {b'a': b'1', b'': b'no name', b'no value': b''}, FAR_MS)
    directory.list(prefix + b'list', [b'%d' % i for i in range(300)], left=200)
    directory.set(prefix + b'set', [b'x', b'y', b'\xff\x00'])
    directory.zset(prefix + b'zset', {b'inf': float('inf'), b'-inf': float('-inf'), b'a': 1.5, b'b': -1.5, b'zero': 0.0, b'minus zero': -0.0, b'big': 1e300})
    directory.bitmap(prefix + b'bitmap', [0, 9, 8191, 8192, 8 * 300000 + 3, 80000])
    directory.sortedint(prefix + b'ints', [0, 7, 2**64 - 1], size=5)
    directory.json(prefix + b'json', b'{"a":[1,2.5,"x"]}')
    directory.json(prefix + b'cbor', bytes.fromhex('a4616183f5f6f4616b fb3ff8000000000000 616e 3903e7 6173 6422 5c 0a 41'.replace(' ', '')), is_cbor=True)
    directory.hyperloglog(prefix + b'hll', one_register(5000, 9))
    directory.hyperloglog(prefix + b'empty hll', bytes(REGISTERS * 6 // 8))
    directory.stream(prefix + b'stream', ENTRIES, last=(2**40, 9), added=8, deleted=(5, 0), groups_count=2)
    directory.group(prefix + b'stream', b'group', (5, 2), 2, {b'one': (FAR_MS, FAR_MS - 5), b'two': (FAR_MS, FAR_MS)},
                    {(5, 1): (b'one', 0, 0), (5, 2): (b'two', 1700000000000, 7)})
    directory.group(prefix + b'stream', b'idle', (0, 0), 2**64 - 1, {}, {})
    directory.stream(prefix + b'empty stream', {}, last=(3, 3), added=4, deleted=(3, 3))
    directory.set(prefix + b'size 0', [])
    directory.sortedint(prefix + b'no rows', [], size=1)


COUNT = 15  # of the keys that fill() makes and that exist


def check_filled(target, prefix=b''):
    def get(command, key, *words):
        return plain(target.call(command, prefix + key, *words))
    check_equal([get('GET', key) for key in (b'string', b'empty', b'expires', b'expired')], [b'text\r\n\x00', b'', b'later', None])
    check_equal([get('PEXPIRETIME', key) for key in (b'expires', b'hash', b'list')], [b'%d' % FAR_MS, b'%d' % FAR_MS, b'-1'])
    check_equal(pairs(get('HGETALL', b'hash')), {b'a': b'1', b'': b'no name', b'no value': b''})
    check_equal(get('LRANGE', b'list', '0', '-1'), [b'%d' % i for i in range(300)])
    check_equal(sorted(get('SMEMBERS', b'set')), [b'x', b'y', b'\xff\x00'])
    check_equal(get('ZRANGE', b'zset', '0', '-1', 'WITHSCORES'),
                [b'-inf', b'-inf', b'b', b'-1.5', b'minus zero', b'0', b'zero', b'0', b'a', b'1.5', b'big', b'1.0000000000000001e+300', b'inf', b'inf'])
    bits = [bit for bit in (0, 1, 7, 8, 9, 8191, 8192, 80000, 2400003, 2400004) if get('GETBIT', b'bitmap', str(bit)) == b'1']
    check_equal((bits, get('BITCOUNT', b'bitmap'), get('STRLEN', b'bitmap')), ([0, 9, 8191, 8192, 80000, 2400003], b'6', b'300001'))
    check_equal(get('SIRANGE', b'ints', '0', '10'), [b'0', b'7', b'18446744073709551615'])
    check_equal(get('JSON.GET', b'json'), b'{"a":[1,2.5,"x"]}')
    check_equal(get('JSON.GET', b'cbor'), b'{"a":[true,null,false],"k":1.5,"n":-1000,"s":"\\"\\\\\\nA"}')
    check_equal((get('PFCOUNT', b'hll'), get('PFCOUNT', b'empty hll')), (b'1', b'0'))
    check_stream(target, prefix + b'stream')
    for key in (b'size 0', b'no rows', b'expired'):
        check_equal(get('TYPE', key), b'none', key)


def check_stream(target, key):
    entries = {tuple(int(part) for part in name.split(b'-')): words for name, words in plain(target.call('XRANGE', key, '-', '+'))}
    check_equal(entries, ENTRIES)
    kind, expires, (_, state) = value_of(target, key)
    check_equal((kind, expires, state[:4]), (b'stream', b'-1', [b'3', b'1099511627776-9', b'5-0', b'8']))
    # XREADGROUP of Kvrocks stores no time: it is when the consumer was last active
    pending = [[b'5-1', b'one', b'%d' % (FAR_MS - 5), b'1'], [b'5-2', b'two', b'1700000000000', b'7']]
    check_equal(state[5:], [(b'group', b'5-2', b'2', pending, state[5][4]), (b'idle', b'0-0', None, [], [])])
    check_equal([(name, len(ids)) for name, ids in state[5][4]], [(b'one', 1), (b'two', 1)])


def kvrocks(folder):
    return 'kvrocks:' + folder


@suite.case('every type comes, in both encodings, of one server and of cluster mode; verify compares it, and the directory is not changed')
def _(run):
    for has_slots in (False, True):
        with place() as folder, Cluster(backends=1, partitions=2) as cluster:
            for is_new in (True, False):
                directory = Directory(folder, is_new, has_slots)
                fill(directory, b'new ' if is_new else b'{old} ')
                directory.library(b'lib', b"#!lua name=lib\nredis.register_function('fn', function() return 42 end)")
                directory.write()
            before = files_of(folder)
            done = copy('check', '--from', kvrocks(folder), '--to', 'null:')
            check_copied(done, 'cluster mode' if has_slots else 'one server')
            check_copied(copy('--from', kvrocks(folder), cluster=cluster), 'copy: %d keys, 1 libraries of functions, 2 expired' % (2 * COUNT))
            check_copied(copy('verify', '--from', kvrocks(folder), cluster=cluster), 'verify: %d keys' % (2 * COUNT))
            check_equal(files_of(folder), before)
            with cluster.connect() as target:
                check_filled(target, b'new ')
                check_filled(target, b'{old} ')
                check_equal(target.call('FCALL', 'fn', '0')[1], b'42')
                check_equal(target.call('DBSIZE')[1], b'%d' % (2 * COUNT))


@suite.case('what cannot come is refused by name, counted before and after, and the rest comes')
def _(run):
    refused = {
        b'bloom': 'a Bloom filter of Kvrocks', b'digest': 'a t-digest', b'series': 'a time series', b'unknown': 'a type that scree-copy does not know',
        b'field times': 'fields with times to live', b'other list': 'a list of Kvrocks of an unknown form', b'score': 'a zset of Kvrocks of an unknown form',
        b'part': 'a bitmap of Kvrocks of an unknown form', b'registers': 'a HyperLogLog of Kvrocks of an unknown form', b'bytes': 'JSON of Kvrocks with',
        b'number': 'JSON of Kvrocks with', b'number in cbor': 'JSON of Kvrocks with', b'group': 'a stream of Kvrocks of an unknown form',
        b'entry': 'a stream of Kvrocks of an unknown form',
        b'no rows at all': 'a set of Kvrocks of an unknown form', b'hole': 'a list of Kvrocks of an unknown form',
        b'old group': 'a stream of Kvrocks of an unknown form',
    }
    with place() as folder, Cluster(backends=1, partitions=2) as cluster:
        directory = Directory(folder)
        fill(directory)
        directory.metadata(b'bloom', kvrocks_rows.BLOOM, 1, bytes(20))
        directory.metadata(b'digest', kvrocks_rows.TDIGEST, 1)
        directory.metadata(b'series', kvrocks_rows.TIMESERIES, 1)
        directory.metadata(b'unknown', 15, 1)
        directory.hash(b'field times', {b'a': b'1'}, more=bytes(25))
        directory.metadata(b'other list', kvrocks_rows.LIST, 1, bytes(8))
        directory.zset(b'score', {b'a': 1})
        directory.row('default', b'score', b'b', bytes(7))
        directory.bitmap(b'part', [7])
        directory.row('default', b'part', b'1025', b'x')
        directory.hyperloglog(b'registers', one_register(1, 1))
        directory.row('default', b'registers', b'7', b'x')
        directory.json(b'bytes', b'\x41a', is_cbor=True)
        directory.json(b'number', b'{"a":[1,12345678901234567890]}')
        directory.json(b'number in cbor', b'\x1b' + b'\xff' * 8, is_cbor=True)
        for key, sub, value in ((b'group', kvrocks_rows.GROUP_MARK + b'\1' + kvrocks_rows.text(b'g'), bytes(47)), (b'entry', kvrocks_rows.stream_id(9, 9), b'\1a')):
            directory.stream(key, ENTRIES)
            directory.row('stream', key, sub, value)
        directory.metadata(b'no rows at all', kvrocks_rows.SET, 2)
        directory.list(b'hole', [b'a', b'b', b'c'])
        del directory.families['default'][directory.prefix(b'hole') + kvrocks_rows.u32(4) + b'hole' + kvrocks_rows.u64(directory.version) + kvrocks_rows.u64(kvrocks_rows.MIDDLE + 1)]
        directory.stream(b'old group', ENTRIES, groups_count=1)
        directory.row('stream', b'old group', kvrocks_rows.text(b'g') + b'METADATA', bytes(48))  # before Kvrocks 2.10
        directory.write()
        done = copy('check', '--from', kvrocks(folder), cluster=cluster)
        check_equal((done.returncode, '%d refused' % len(refused) in done.stdout), (1, True), done.stdout)
        done = copy('--from', kvrocks(folder), cluster=cluster)
        check_equal((done.returncode, 'copy: %d keys, 1 expired, %d refused' % (COUNT, len(refused)) in done.stdout), (1, True), done.stdout)
        for key, reason in refused.items():
            line = [line for line in done.stderr.splitlines() if line.startswith('refused db 0 "%s"' % key.decode())]
            check(len(line) == 1 and reason in line[0], '%s: %s' % (key, line or done.stderr))
        with cluster.connect() as target:
            check_filled(target)
            check_equal(target.call('DBSIZE')[1], b'%d' % COUNT)


@suite.case('namespaces are copied one by one: without --namespace several are refused by name')
def _(run):
    namespaces = {'shop': {'token': 'secret'}, 'né': {'token': 'other'}}
    with place() as folder, Cluster(backends=1, partitions=2, namespaces=namespaces, proxy_options={'proxy': {'requirepass': 'outside'}}) as cluster:
        for name in ('__namespace', *namespaces):
            directory = Directory(folder, namespace=name.encode())
            directory.string(b'k', b'of ' + name.encode())
            directory.write()
        done = copy('check', '--from', kvrocks(folder), '--to', 'null:')
        check_equal(done.returncode, 3, done.stdout)
        for words in ('__namespace', 'shop', 'né', '--namespace NAME'):
            check(words in done.stderr, done.stderr)
        for name, token in (('__namespace', 'outside'), ('shop', 'secret'), ('né', 'other')):
            to = address(cluster) if name == '__namespace' else address(cluster).replace('//', '//%s@' % name)
            check_copied(copy('--from', kvrocks(folder), '--namespace', name, '--to', to, env={**os.environ, 'TO_PASSWORD': token}), 'copy: 1 keys')
            with cluster.connect() as target:
                target.call('AUTH', *([] if name == '__namespace' else [name]), token)
                check_equal(plain(target.call('GET', 'k')), b'of ' + name.encode())
        check_equal(copy('--from', 'rdb:x', '--namespace', 'shop', '--to', 'null:').returncode, 2)
        done = copy('check', '--from', kvrocks(folder), '--namespace', 'shpo', '--to', 'null:')
        check_equal((done.returncode, 'no keys of the namespace shpo' in done.stderr), (3, True), done.stderr)


@suite.case('stored counts that are wrong are not believed: rows are counted')
def _(run):
    with place() as folder, Cluster(backends=1, partitions=2) as cluster:
        directory = Directory(folder)
        # XGROUP DESTROY of Kvrocks 2.10.1 deletes most entries too, but not their count
        directory.stream(b'destroyed', {(i, 0): [b'f', b'%d' % i] for i in range(1, 8)}, size=20, last=(20, 0), added=20, groups_count=1)
        directory.stream(b'last', {(7, 0): [b'f', b'v']}, last=(3, 0), added=0)
        directory.set(b'set', [b'a', b'b'])
        directory.families['metadata'][directory.prefix(b'set') + b'set'] = directory.head(kvrocks_rows.SET, 0) + kvrocks_rows.u64(directory.version) + kvrocks_rows.u64(9)
        directory.stream(b'left', {(1, 0): [b'f', b'v']}, groups_count=1)
        directory.group(b'left', b'g', (1, 0), 1, {}, {(1, 0): (b'gone', 1700000000000, 2)})
        directory.write()
        check_copied(copy('--from', kvrocks(folder), cluster=cluster), 'copy: 4 keys')
        with cluster.connect() as target:
            check_equal(plain(target.call('XLEN', 'destroyed')), b'7')
            check_equal(plain(target.call('XADD', 'destroyed', '20-0', 'f', 'v')), b'ERR The ID specified in XADD is equal or smaller than the target stream top item')
            check_equal(plain(target.call('XADD', 'last', '7-0', 'f', 'v')), b'ERR The ID specified in XADD is equal or smaller than the target stream top item')
            check_equal(plain(target.call('SCARD', 'set')), b'2')
            check_equal(plain(target.call('XPENDING', 'left', 'g'))[0], b'1')
            check_equal(plain(target.call('XINFO', 'CONSUMERS', 'left', 'g'))[0][1], b'gone')


@suite.case('long values go in parts: a list, a stream with a group, and long bitmaps of which few bytes are set')
def _(run):
    count = sized(20000, long=300000)
    last = sized(2**30, long=2**32) - 1
    with place() as folder, Cluster(backends=1, partitions=2) as cluster:
        directory = Directory(folder)
        directory.list(b'list', [b'element %07d' % i + b'x' * 60 for i in range(count)], left=count // 2)
        directory.stream(b'stream', {(i + 1, 1): [b'field', b'%07d' % i + b'x' * 60] for i in range(count)}, groups_count=1)
        directory.group(b'stream', b'group', (1000, 1), 1000, {b'c': (FAR_MS, FAR_MS)}, {(i + 1, 1): (b'c', 1700000000000, 1) for i in range(1000)})
        directory.bitmap(b'sparse', [5, 8 * 20000000, last], expire_ms=FAR_MS)
        directory.bitmap(b'zeros', [5], size=20 << 20)
        directory.write()
        check('4 longer' in copy('check', '--from', kvrocks(folder), '--to', 'null:').stdout, 'not in parts')
        check_copied(copy('--from', kvrocks(folder), cluster=cluster), 'copy: 4 keys')
        check_copied(copy('verify', '--from', kvrocks(folder), cluster=cluster), 'verify: 4 keys')
        with cluster.connect() as target:
            def get(*words):
                return plain(target.call(*words))
            check_equal((get('LLEN', 'list'), get('LINDEX', 'list', '-1'), get('XLEN', 'stream'), get('XPENDING', 'stream', 'group')[0]),
                        (b'%d' % count, b'element %07d' % (count - 1) + b'x' * 60, b'%d' % count, b'1000'))
            check_equal((get('STRLEN', 'sparse'), get('BITCOUNT', 'sparse'), get('GETBIT', 'sparse', last), get('PEXPIRETIME', 'sparse')),
                        (b'%d' % (last // 8 + 1), b'3', b'1', b'%d' % FAR_MS))
            check_equal((get('STRLEN', 'zeros'), get('BITCOUNT', 'zeros')), (b'%d' % (20 << 20), b'1'))
            get('SETBIT', 'sparse', 8 * 20000000 + 1, '1')
            get('APPEND', 'zeros', b'\0')
        done = copy('verify', '--from', kvrocks(folder), cluster=cluster)
        check_equal((done.returncode, '"sparse": its value differs' in done.stderr, '"zeros": its value differs' in done.stderr), (1, True, True), done.stderr)


def damage_file(folder, end):
    """Changes a byte of the biggest file with this end of its name, which RocksDB reads."""
    path = max((os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(end)), key=os.path.getsize)
    with open(path, 'r+b') as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))


@suite.case('a directory that is in use, damaged, or none of Kvrocks is refused with a sentence')
def _(run):
    with place() as folder, Cluster(backends=1, partitions=1) as cluster:
        check_equal(copy('check', '--from', kvrocks(folder), '--to', 'null:').returncode, 3)
        directory = Directory(folder)
        directory.list(b'list', [os.urandom(100) for _ in range(2000)])
        directory.write()
        directory.ldb('compact', '--column_family=default')
        with open(os.path.join(folder, 'LOCK'), 'r+b') as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            done = copy('check', '--from', kvrocks(folder), '--to', 'null:')
            check_equal((done.returncode, 'a program uses this directory' in done.stderr), (3, True), done.stderr)
        check_equal(copy('check', '--from', kvrocks(folder), '--to', 'null:').returncode, 0)
        damage_file(folder, '.sst')
        done = copy('--from', kvrocks(folder), cluster=cluster)
        check_equal((done.returncode, 'Corruption' in done.stderr), (3, True), done.stderr)
        with cluster.connect() as target:
            check_equal(target.call('DBSIZE')[1], b'0', 'the check comes before a key is written')
        cluster.backends[0].stop()
        data = os.path.join(cluster.backends[0].data, 'partition-0')
        done = copy('check', '--from', kvrocks(data), '--to', 'null:')
        check_equal((done.returncode, 'is no directory of Kvrocks' in done.stderr), (3, True), done.stderr)


@suite.case('a damaged record in the log of a directory is no end of the log: rows behind it are not left out without a word')
def _(run):
    with place() as folder:
        directory = Directory(folder)
        directory.stream(b'stream', ENTRIES)  # the rows of the last family are in the log
        directory.write()
        check_equal(copy('check', '--from', kvrocks(folder), '--to', 'null:').returncode, 0)
        damage_file(folder, '.log')
        done = copy('check', '--from', kvrocks(folder), '--to', 'null:')
        check_equal((done.returncode, 'Corruption' in done.stderr), (3, True), done.stderr + done.stdout)


@suite.case('the commands at the start of docs/from-kvrocks.md do what the page says')
def _(run):
    with open(os.path.join(ROOT, 'docs', 'from-kvrocks.md'), encoding='utf-8') as page:
        commands = [line for line in page.read().split('```sh\n')[1].split('```')[0].splitlines() if line.startswith('scree-copy ')]
    with place() as folder, Cluster(backends=1, partitions=2) as cluster:
        directory = Directory(folder)
        fill(directory)
        directory.write()
        printed = []
        for command in commands:
            words = command.split('#')[0].replace('/var/lib/kvrocks/backup', folder).replace('scree://PROXY:7379', address(cluster)).split()
            done = copy(*words[1:])
            check_copied(done)
            printed.append(done.stdout.splitlines()[-1].split(' keys')[0])
        check_equal(printed, ['check: %d' % (COUNT + 1), 'copy: %d' % COUNT, 'verify: %d' % COUNT])


if __name__ == '__main__':
    suite.main()
