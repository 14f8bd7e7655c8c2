#!/usr/bin/python3
"""scree-copy from a backup to an RDB file: redis-server loads it, and every key is as it was at the backup's moment."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from support.cluster import Cluster, Oracle, binary
from support.copied import check_copied, copy, fill, fill_groups, first_commands, value_of
from support.disk import SmallDisk
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.later_redis import LaterServer
from support.resp import Connection

suite = Suite(__doc__)
LEASE = ('LEASE', '15000')
LIBRARY = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)"
SIZES = (1, 2, 129, 600)  # beyond each limit at which Redis changes an encoding


class Here:
    """A client of Scree with the methods that fill() needs."""

    def __init__(self, cluster, login=None, db=0):
        self.connection = cluster.connect()
        if login:
            self.call('AUTH', *login)
        if db:
            self.call('SELECT', str(db))

    def call(self, *words):
        kind, reply = self.connection.call(*words)
        check(kind != '-', '%s: %s' % (words[:3], reply))
        return reply

    def keys(self):
        return sorted(key for _, key in self.call('KEYS', '*'))


def backup(cluster, name='b', login=None):
    """The words of --from; the shards of each backend are in a directory of their own."""
    check_equal(Here(cluster, login).call('SCREE', 'BACKUP', 'START', 'NAME', name, *LEASE, 'WAIT'), name.encode())
    return 'backup:' + ','.join(os.path.join(backend.data, 'backups', name) for backend in cluster.backends)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix='scree-out-') as path:
        yield path


def out(origin, file, *words, code=0, **more):
    """Writes the file, and leaves nothing beside it."""
    done = copy('--from', origin, '--to', 'rdb:' + file, *words, **more)
    check_equal(done.returncode, code, 'exit code: ' + done.stdout + done.stderr)
    check_equal(sorted(glob.glob(file + '.*')), [], 'what is left beside the file')
    return done


def check_file(file):
    done = subprocess.run(['redis-check-rdb', file], capture_output=True, text=True, timeout=patience(), check=False)
    check('RDB looks OK' in done.stdout, done.stdout)
    return done.stdout


@contextlib.contextmanager
def loaded(file, server=Oracle):
    """A client of a redis-server that has loaded the file."""
    with tempfile.TemporaryDirectory(prefix='scree-loaded-') as path:
        shutil.copy(file, os.path.join(path, 'dump.rdb'))
        oracle = server(folder=path) if server is Oracle else server
        try:
            oracle.start()
            with Connection(oracle.address) as connection:
                yield connection
        finally:
            oracle.stop()


def check_same(here, there, keys=None):
    """Every key of Scree is there, and no other one."""
    keys = here.keys() if keys is None else sorted(keys)
    check_equal(sorted(key for _, key in there.call('KEYS', '*')[1]), keys)
    for key in keys:
        check_equal(value_of(there, key), value_of(here.connection, key), 'key %r' % key)


def fill_all(here, prefix=''):
    fill(here, prefix, SIZES)
    for kind in ('list', 'set', 'hash', 'zset', 'stream'):
        here.call('PEXPIREAT', '%s:%s2' % (kind, prefix), '4102444800123')
    here.call('SET', prefix + 'with a time', 'x', 'PXAT', '4102444800001')
    here.call('SETBIT', prefix + 'bits', '80000000', '1')
    here.call('SETRANGE', prefix + 'sparse', '50000', 'end')
    here.call('SET', prefix + 'long text', 'ab\x00' * 700000)
    here.call('APPEND', prefix + 'long text', 'end')
    here.call('PFADD', prefix + 'hll', *map(str, range(3000)))
    here.call('GEOADD', prefix + 'geo', '13.3', '38.1', 'here')
    fill_groups(here, 'stream:%s129' % prefix, 20)
    here.call('XDEL', 'stream:%s129' % prefix, '1-2', '5-1')
    here.call('XTRIM', 'stream:%s600' % prefix, 'MAXLEN', '77')
    here.call('XGROUP', 'CREATE', prefix + 'empty stream', 'group', '$', 'MKSTREAM')
    here.call('LPUSH', 'list:%s2' % prefix, *map(str, range(200)))
    here.call('LTRIM', 'list:%s600' % prefix, '100', '300')
    here.call('RPUSH', prefix + 'long elements', *(chr(97 + i) * 300000 for i in range(20)))


@suite.case('every key of every type and database comes, of shards in several directories, and redis-server has what Scree has')
def _(run):
    with folder() as path, Cluster(backends=2, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        heres = [Here(cluster, db=db) for db in (0, 3, 15)]
        for i, here in enumerate(heres):
            fill_all(here, 'db%d ' % i)
        heres[0].call('FUNCTION', 'LOAD', LIBRARY)
        origin = backup(cluster)
        for here in heres:
            here.call('SET', 'later', 'x')
            here.call('DEL', 'later')
        before = sorted(glob.glob(os.path.join(cluster.folder, 'data-*/backups/**'), recursive=True))
        counts = [len(here.keys()) for here in heres]
        check_copied(copy('check', '--from', origin, '--to', 'rdb:' + file), 'check: %d keys, 1 libraries' % sum(counts))
        check_equal(os.listdir(path), [])
        done = out(origin, file, '--json')
        check_equal([json.loads(done.stdout)[name] for name in ('keys', 'functions', 'refused', 'exit')], [sum(counts), 1, 0, 0])
        check_equal(sorted(glob.glob(os.path.join(cluster.folder, 'data-*/backups/**'), recursive=True)), before, 'the backup')
        check_file(file)
        with loaded(file) as there:
            for here, db in zip(heres, (0, 3, 15)):
                there.call('SELECT', str(db))
                check_same(here, there)
            check_equal(there.call('FCALL', 'answer', '0'), (':', b'42'))
        check_copied(copy('verify', '--from', 'rdb:' + file, cluster=cluster), 'verify: %d keys' % sum(counts))


@suite.case('keys and fields that had expired at the moment are left out, and later changes, too')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        here = Here(cluster)
        here.call('SET', 'soon', 'x', 'PX', '1')
        here.call('SET', 'kept', 'old')
        here.call('HSET', 'hash', 'a', '1', 'b', '2', 'c', '3')
        here.call('HPEXPIRE', 'hash', '1', 'FIELDS', '2', 'a', 'b')
        here.call('HSET', 'gone', 'a', '1')
        here.call('HPEXPIRE', 'gone', '1', 'FIELDS', '1', 'a')
        time.sleep(0.01)
        origin = backup(cluster)
        here.call('SET', 'kept', 'new')
        here.call('SET', 'new', 'x')
        out(origin, file)
        with loaded(file) as there:
            check_equal(sorted(key for _, key in there.call('KEYS', '*')[1]), [b'hash', b'kept'])
            check_equal([there.get('GET', 'kept'), there.get('HGETALL', 'hash')], [b'old', [b'c', b'3']])


def fill_foreign(here):
    """What Redis 7.0 does not have."""
    here.call('JSON.SET', 'json', '$', '{"a":1}')
    here.call('BF.ADD', 'bloom', 'x')
    here.call('CMS.INITBYDIM', 'sketch', '10', '3')
    here.call('TOPK.RESERVE', 'top', '3')
    here.call('TDIGEST.CREATE', 'digest')
    here.call('SIADD', 'ints', '5')
    here.call('HSET', 'fields', 'a', '1', 'b', '2')
    here.call('HPEXPIREAT', 'fields', '4102444800123', 'FIELDS', '1', 'a')


@suite.case('what Redis does not have is named and counted, the rest comes, and exit code 1 says so; times of fields come with version 12')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        here = Here(cluster)
        fill_foreign(here)
        here.call('SET', 'k', 'v')
        for i in range(500):
            here.call('HSET', 'many', *(word for n in range(20) for word in ('field %d' % (20 * i + n), 'x' * 200)))
        here.call('HPEXPIREAT', 'many', '4102444800999', 'FIELDS', '2', 'field 7', 'field 7777')
        origin = backup(cluster)
        for command in ('check', 'run'):
            done = copy(command, '--from', origin, '--to', 'rdb:' + file)
            check_equal(done.returncode, 1, done.stderr)
            check('1 keys, 8 refused' in done.stdout, done.stdout)
            for key, kind in (('json', 'ReJSON-RL'), ('bloom', 'MBbloom--'), ('sketch', 'CMSk-TYPE'), ('top', 'TopK-TYPE'), ('digest', 'TDIS-TYPE'), ('ints', 'sortedint')):
                check('refused db 0 "%s": a value of type %s, which Redis does not have' % (key, kind) in done.stderr, done.stderr)
            check('refused db 0 "fields": a hash whose fields have times to live' in done.stderr and '--rdb-version 12' in done.stderr, done.stderr)
        with loaded(file) as there:
            check_equal(there.call('KEYS', '*')[1], [('$', b'k')])
        newer = os.path.join(path, 'newer.rdb')
        check('3 keys, 6 refused' in out(origin, newer, '--rdb-version', '12', code=1).stdout, 'keys')
        check_copied(copy('verify', '--from', 'rdb:' + newer, cluster=cluster), 'verify: 3 keys')


@suite.case('a redis-server and a valkey-server of today load the file, with times of fields')
def _(run):
    for name in ('redis', 'valkey'):
        with folder() as path, Cluster(backends=1, partitions=2) as cluster, LaterServer(name) as oracle:
            file = os.path.join(path, 'dump.rdb')
            here = Here(cluster)
            fill_all(here)
            if name == 'redis':
                here.call('HSET', 'fields', 'a', '1', 'b', '2')
                here.call('HPEXPIREAT', 'fields', '4102444800123', 'FIELDS', '1', 'a')
            out(backup(cluster), file, '--rdb-version', '12' if name == 'redis' else '11')
            place = oracle.folder
            oracle.stop()
            shutil.copy(file, os.path.join(place, 'dump.rdb'))
            oracle.start()
            with Connection(oracle.address) as there:
                check_same(here, there)
                if name == 'redis':
                    check_equal(there.call('HPEXPIRETIME', 'fields', 'FIELDS', '2', 'a', 'b')[1], [(':', b'4102444800123'), (':', b'-1')])


@suite.case('a backup that lacks a shard or a byte, is of one shard or of some slots, is refused by name, and no file is made')
def _(run):
    with folder() as path, Cluster(backends=2, partitions=1) as cluster:
        file = os.path.join(path, 'dump.rdb')
        here = Here(cluster)
        fill(here, '', (1, 50))
        origin = backup(cluster)
        both = origin[len('backup:'):].split(',')

        def refused(words, *more, of=origin):
            done = out(of, file, *more, code=3)
            check(words in done.stderr, done.stderr)
            check(not os.path.exists(file), 'there is a file')
        refused('which the backup\'s map names', of='backup:' + both[0])
        refused('there is no MANIFEST.json', of='backup:' + path)
        shard = os.path.join(both[1], os.listdir(both[1])[0])
        refused('belongs to another backup', of='%s,%s' % (origin, os.path.join(backup(cluster, 'other').split(',')[1])))
        for name in sorted(os.listdir(shard)):
            victim = os.path.join(shard, name)
            with open(victim, 'rb') as data:
                whole = data.read()
            for damaged in {whole[:-1], whole[:len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1:] if whole else b'x'}:
                os.unlink(victim)  # it may be a link that another backup has, too
                with open(victim, 'wb') as data:
                    data.write(damaged)
                refused(shard)
            with open(victim, 'wb') as data:
                data.write(whole)
        out(origin, file)
        os.unlink(file)
        here.call('SCREE', 'BACKUP', 'START', 'NAME', 'some', 'SLOTS', '0-100', *LEASE, 'WAIT')
        refused('the backup has only the slots 0-100', of='backup:' + os.path.join(cluster.backends[0].data, 'backups', 'some'))
        with Connection(cluster.backends[0].addresses[0]) as alone:
            alone.call('SCREE', 'BACKUP', 'START', 'NAME', 'alone')
            place = os.path.join(cluster.backends[0].data, 'backups', 'alone')
            wait_for(lambda: glob.glob(os.path.join(place, '*/MANIFEST.sha256')), 'the backup of one shard')
        refused('was backed up alone', of='backup:' + place)


@suite.case('each namespace has a file of its own, and without a name nothing is chosen by chance')
def _(run):
    with folder() as path, Cluster(1, 2, namespaces={'shop': {'token': 'shop'}}, proxy_options={'proxy': {'requirepass': 'main'}}) as cluster:
        file = os.path.join(path, 'dump.rdb')
        main, shop = Here(cluster, ('default', 'main')), Here(cluster, ('shop', 'shop'))
        main.call('SET', 'k', 'main')
        shop.call('SET', 'k', 'shop')
        shop.call('FUNCTION', 'LOAD', LIBRARY)
        origin = backup(cluster, login=('default', 'main'))
        check('several namespaces' in out(origin, file, code=3).stderr, 'namespaces')
        for words, value, libraries in (('', b'main', b'0'), ('shop', b'shop', b'1')):
            out(origin, file, '--namespace', words, '--existing', 'replace')
            with loaded(file) as there:
                check_equal([there.get('GET', 'k'), b'%d' % len(there.call('FUNCTION', 'LIST')[1])], [value, libraries])
        main.call('FLUSHALL')
        shop.call('DEL', 'k')
        shop.call('SET', 'foo', 'shop')  # the first shard has no keys
        main.call('FUNCTION', 'LOAD', LIBRARY.replace('42', '43'))
        out(backup(cluster, 'one', login=('default', 'main')), file, '--existing', 'replace')
        with loaded(file) as there:
            check_equal([there.get('GET', 'foo'), there.get('FCALL', 'answer', '0')], [b'shop', 42])
        check("no keys of the namespace 'shup'" in out(origin, file, '--namespace', 'shup', '--existing', 'replace', code=3).stderr, 'another name')


@suite.case('keys are selected, renamed and put into other databases as in other copies')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        zero, one = Here(cluster), Here(cluster, db=1)
        for here in (zero, one):
            fill(here, 'a:', (3,))
            here.call('SET', 'a:skipped', 'x')
            here.call('SET', 'b:other', 'x')
            here.call('RPUSH', 'a:long', *('x' * 100000 for _ in range(30)))
        out(backup(cluster), file, '--db', '1=7', '--match', 'a:*', '--skip', '*skipped', '--strip', 'a:', '--add', 'old:')
        with loaded(file) as there:
            check_equal(there.call('DBSIZE'), (':', b'0'))
            there.call('SELECT', '7')
            check_equal(sorted(key for _, key in there.call('KEYS', '*')[1]), [b'old:long'])
            check_equal(there.call('LLEN', 'old:long'), (':', b'30'))


@suite.case('a file that exists is kept unless it may be replaced, and is replaced only by a whole one')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        fill(Here(cluster), '', (10,))
        origin = backup(cluster)
        with open(file, 'w', encoding='ascii') as made:
            made.write('precious')
        check('exists: remove it, or give --existing replace' in out(origin, file, code=4).stderr, 'the file exists')
        out('backup:' + path, file, '--existing', 'replace', code=3)
        with open(file, encoding='ascii') as made:
            check_equal(made.read(), 'precious')
        with open(file + '.part', 'w', encoding='ascii') as made:  # of a tool that was killed
            made.write('x' * 10000000)
        os.makedirs(file + '.scratch/rest')
        out(origin, file, '--existing', 'replace')
        check_file(file)


def begin_out(origin, file, *words):
    words = (binary('scree-copy'), '--quiet', '--from', origin, '--to', 'rdb:' + file) + words
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_part(tool, file, size):
    def is_there():
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(file + '.part') >= size
    wait_for(lambda: tool.poll() is not None or is_there(), 'the tool to write', pause=0.001)


def paused_out(origin, file, is_there):
    """A tool that stands still where is_there() became true."""
    while True:
        tool = begin_out(origin, file)
        wait_for(lambda: tool.poll() is not None or is_there(), 'the tool to work', pause=0.001)
        tool.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, tool.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # its threads stop some time after the signal
        if tool.poll() is None and not os.path.exists(file):
            return tool
        tool.send_signal(signal.SIGCONT)  # it was faster
        check_equal(tool.wait(patience()), 0)
        os.unlink(file)


@suite.case('of two tools that write one file at once the second one is refused and changes nothing, and the file of the first one is whole')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        here = Here(cluster)
        for i in range(20):
            here.call('SET', 'k%d' % i, os.urandom(1000000))
            here.call('HSET', 'h%d' % i, *(word for n in range(3000) for word in ('f%d' % n, 'v')))
        origin = backup(cluster)

        def is_writing():
            return os.path.exists(file + '.part') and os.path.getsize(file + '.part') > 0

        for is_there in (lambda: glob.glob(file + '.scratch/*'), is_writing):
            tool = paused_out(origin, file, is_there)
            try:
                before = sorted(glob.glob(path + '/**', recursive=True))
                for words in ((), ('check',), ('--existing', 'replace')):
                    other = copy(*words, '--from', origin, '--to', 'rdb:' + file)
                    check_equal(other.returncode, 4, other.stdout + other.stderr)
                    check('another tool writes this file' in other.stderr, other.stderr)
                    check_equal(sorted(glob.glob(path + '/**', recursive=True)), before)
            finally:
                tool.send_signal(signal.SIGCONT)
                code = tool.wait(patience())
            check_equal(code, 0)
            check_equal(os.listdir(path), ['dump.rdb'])
            check_file(file)
            with loaded(file) as there:
                check_same(here, there)
            os.unlink(file)


@suite.case('a tool that is stopped or killed leaves no file with the name, and the same command writes it')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2) as cluster:
        file = os.path.join(path, 'dump.rdb')
        here = Here(cluster)
        for i in range(20):
            here.call('SET', 'k%d' % i, os.urandom(1000000))
            here.call('HSET', 'h%d' % i, *(word for n in range(3000) for word in ('f%d' % n, 'v')))
        origin = backup(cluster)
        for signum, size in [(signum, size) for size in (0, 1) for signum in (signal.SIGTERM, signal.SIGKILL)] * sized(1, long=10):  # as it opens the backup; as it writes
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file + '.part')  # of a tool that was killed
            tool = begin_out(origin, file)
            wait_for_part(tool, file, size)
            tool.send_signal(signum)
            code = tool.wait(patience())
            check(code in (0, 5, -signal.SIGKILL), 'exit code %d' % code)
            if code == 5:
                check_equal(os.listdir(path), [])
            elif os.path.exists(file):  # it was faster
                check_file(file)
                os.unlink(file)
            else:
                check(code != 0, 'there is no file')
        out(origin, file)
        check_file(file)


@suite.case('a full disk is said, and leaves no file')
def _(run):
    with contextlib.ExitStack() as stack, Cluster(backends=1, partitions=2) as cluster:
        here = Here(cluster)
        for i in range(20):
            here.call('SET', 'k%d' % i, os.urandom(1000000))
        origin = backup(cluster)
        for size in (6, 30, 40):  # too small for the log, or for the file
            disk = SmallDisk(size)
            stack.callback(disk.remove)
            file = os.path.join(disk.path, 'dump.rdb')
            done = copy('--from', origin, '--to', 'rdb:' + file)
            if done.returncode == 0:
                check_file(file)
            else:
                check(done.returncode in (3, 4) and 'No space left on device' in done.stderr, '%d %s' % (done.returncode, done.stderr))
                check_equal(os.listdir(disk.path), [])


@suite.case('wrong arguments are refused before anything is read')
def _(run):
    for words in (
        ('--from', 'backup:x', '--to', 'null:'), ('--from', 'backup:x', '--to', 'scree://127.0.0.1:1'), ('--from', 'rdb:x', '--to', 'rdb:y'),
        ('verify', '--from', 'backup:x', '--to', 'rdb:y'), ('--from', 'backup:x', '--to', 'rdb:-'), ('--from', 'backup:x', '--to', 'rdb:y', '--rate', '1mb'),
        ('--from', 'backup:x', '--to', 'rdb:y', '--db', '0=1,2=1'), ('--from', 'backup:x', '--to', 'rdb:y', '--rdb-version', '13'),
        ('--from', 'backup:x', '--to', 'rdb:y', '--existing', 'keep'), ('--from', 'rdb:x', '--to', 'scree://127.0.0.1:1', '--rdb-version', '10'),
    ):
        check_equal(copy(*words).returncode, 2, ' '.join(words))
    for words in (('--lanes', '8'), ('--session', 'x'), ('--follow', 'no'), ('--pause-max', '1s'), ('--ca-file', 'x'), ('--cert-file', 'x'), ('--key-file', 'x'), ('--spool', 'x')):
        done = copy('--from', 'backup:x', '--to', 'rdb:y', *words)
        check(done.returncode == 2 and words[0] + ' is not for --to rdb:' in done.stderr, done.stderr)


@suite.case('the commands of the page write the file, and a redis-server starts with it')
def _(run):
    with folder() as path, Cluster(backends=1, partitions=2, backend_options={'backend': {'backup-dir': path}}) as cluster:
        here = Here(cluster)
        fill_all(here)
        free = Oracle().port
        wanted = {'PROXY': '127.0.0.1', ' 7379': ' %d' % cluster.proxies[0].address[1], '/var/backups/scree': path, 'scree-copy ': binary('scree-copy') + ' ',
                  'redis-server ': 'redis-server --daemonize yes --port %d ' % free, 'redis-cli DBSIZE': 'redis-cli -p %d DBSIZE' % free}
        commands = '\n'.join(first_commands('back-to-redis.md', 3))
        for word, real in wanted.items():
            commands = commands.replace(word, real)
        done = subprocess.run('set -e\n' + commands, shell=True, cwd=path, capture_output=True, text=True, timeout=patience(), check=False)
        check_equal(done.returncode, 0, done.stdout + done.stderr)
        with Connection(('127.0.0.1', free)) as there:
            wait_for(lambda: there.call('PING')[0] == '+', 'the server to load')
            check_same(here, there)
            with contextlib.suppress(Exception):
                there.call('SHUTDOWN', 'NOSAVE')


if __name__ == '__main__':
    suite.main()
