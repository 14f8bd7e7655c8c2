#!/usr/bin/python3
"""scree-copy from a running redis-server: a full copy, then each change exactly once, whichever process is killed or cut off."""

import contextlib
import json
import os
import random
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time

from support import ROOT
from support.certs import Kit
from support.cluster import Cluster, Oracle, binary, free_ports
from support.copied import Source, address, copy, fill, fill_groups, value_of
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.later_redis import LaterServer
from support.resp import Closed, Connection, encode

suite = Suite(__doc__)
ROW = 'scree-copy:live:default'
QUICK = ('--repl-diskless-sync-delay', '0', '--repl-backlog-size', '64mb')  # what a slow machine leaves behind
SHAPE = {'backends': 2, 'partitions': 1, 'linked': True}
DBS = ('0', '1', '3')


@contextlib.contextmanager
def running(words, **more):
    """A process that ends with the block."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, **more) as child:
        try:
            yield child
        finally:
            child.kill()


def url_of(source):
    """What --from says of a server, or of several that have a name."""
    return getattr(source, 'url', None) or 'redis://127.0.0.1:%d' % source.port


class Tool:
    """A running scree-copy."""

    def __init__(self, oracle, cluster, spool, *words, command='run', **more):
        self.errors = os.path.join(spool, 'errors.txt')
        with open(self.errors, 'w', encoding='utf-8') as errors:
            self.child = subprocess.Popen([binary('scree-copy'), command, '--quiet', '--from', url_of(oracle), '--to', address(cluster),
                                           '--spool', spool, *words], stdout=subprocess.DEVNULL, stderr=errors, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def said(self):
        with open(self.errors, encoding='utf-8') as errors:
            return errors.read()

    def kill(self):
        self.child.kill()
        self.child.wait()

    def ends(self):
        return self.child.wait(patience())


def position(source):
    """The end of the source's replication stream."""
    fields = dict(line.split(':', 1) for line in source.call('INFO', 'replication').decode().splitlines() if ':' in line)
    return int(fields['master_repl_offset'])


def reached(target):
    kind, value = target.call('HMGET', ROW, 'phase', 'offset')
    return int(value[1][1]) if kind == '*' and value[0][1] == b'follow' else -1


def wait_reached(source, cluster, tool=None):
    """Waits until the target has what the source has now."""
    end = position(source)
    with cluster.connect() as target:
        def is_there():
            check(tool is None or tool.child.poll() is None, 'the tool ended: %s' % (tool and tool.said()))
            with contextlib.suppress(ValueError, TypeError):
                return reached(target) >= end
            return False
        wait_for(is_there, 'the target to have everything')


def dataset(connection):
    """Each key of each database, with its value and time to live."""
    found = {}
    for db in DBS:
        connection.call('SELECT', db)
        for _, key in connection.call('KEYS', '*')[1]:
            if key != ROW.encode():
                found[db, key] = value_of(connection, key)
    connection.call('SELECT', '0')
    return found


def counted(target, db):
    """DBSIZE, without the row."""
    target.call('SELECT', db)
    size, rows = (int(target.call(*words)[1]) for words in (('DBSIZE',), ('EXISTS', ROW)))
    target.call('SELECT', '0')
    return size - rows


def may_differ(name):
    """Is it one of the keys that expire at this moment, or do they count in it?"""
    return name[0] == 'size' or b'short:' in name[1]


def check_same(source, cluster, selected=lambda db, key: (db, key)):
    """Compares key by key. `selected` gives a key's database and name in the target."""
    with cluster.connect() as target:
        def differences():
            wanted, got = {selected(*name): value for name, value in dataset(source.connection).items() if selected(*name)}, dataset(target)
            sizes = {('size', db): (sum(name == db for name, _ in got), counted(target, db)) for db in DBS}
            return {**{key: (wanted.get(key), got.get(key)) for key in wanted.keys() | got.keys() if wanted.get(key) != got.get(key)},
                    **{name: pair for name, pair in sizes.items() if pair[0] != pair[1]}}
        end = time.monotonic() + patience()
        while (different := differences()) and all(map(may_differ, different)) and time.monotonic() < end:
            time.sleep(0.1)
        check(not different, '%d keys differ: %s' % (len(different), str(sorted(different.items())[:3])[:900]))
        return len(dataset(source.connection))


def some_command(rng):
    """A command of a random kind. None of them depends on whether a key has just expired."""
    def key(kind):
        return '%s:%d' % (kind, rng.randrange(40))
    word = 'w%d' % rng.randrange(30)
    return rng.choice([
        ('INCR', key('n')), ('INCRBYFLOAT', key('f'), '0.5'), ('APPEND', key('s'), word), ('SETRANGE', key('s'), str(rng.randrange(50)), word),
        ('LPUSH', key('l'), word, word + 'b'), ('RPUSH', key('l'), word), ('LPOP', key('l')), ('LREM', key('l'), '1', word), ('LTRIM', key('l'), '0', '60'),
        ('LMOVE', key('l'), key('l'), 'LEFT', 'RIGHT'), ('SADD', key('set'), word), ('SPOP', key('set')), ('SMOVE', key('set'), key('set'), word),
        ('SUNIONSTORE', key('set'), key('set'), key('set')), ('HINCRBY', key('h'), word, '3'), ('HDEL', key('h'), word), ('ZINCRBY', key('z'), '1.5', word),
        ('ZPOPMIN', key('z')), ('ZADD', key('z'), 'GT', str(rng.randrange(99)), word), ('XADD', key('x'), 'MAXLEN', '20', '*', 'f', word),
        ('SETBIT', key('bits'), str(rng.randrange(20000)), '1'), ('PFADD', key('hll'), word), ('RENAME', key('n'), key('n')), ('COPY', key('z'), key('z'), 'REPLACE'),
        ('DEL', key('s'), key('l')), ('GETDEL', key('f')), ('SET', key('short'), word, 'PX', str(rng.randrange(20, 200))), ('EXPIRE', key('h'), '1000000'),
        ('PERSIST', key('h')), ('MSET', key('m'), word, key('m'), word), ('GEOADD', key('geo'), '13.4', '52.5', word)])


def selected_pairs(db, key):
    """What --db 0,3=1 --match 'pair:*' --match '[lshz]*' --skip s:* --add new: copies."""
    is_selected = db in '03' and (key.startswith(b'pair:') or key[:1] in b'lshz') and not key.startswith(b's:')
    return ({'0': '0', '3': '1'}[db], b'new:' + key) if is_selected else None


SELECTION = ('--db', '0,3=1', '--match', 'pair:*', '--match', '[lshz]*', '--skip', 's:*', '--add', 'new:')


class Writers:
    """Threads that change the source until the block ends; `pair:a`, `log` and `pair:b` are always changed together."""

    def __init__(self, oracle, count=2):
        self.oracle, self.stops, self.errors = oracle, False, []
        self.threads = [threading.Thread(target=self.write, args=(i,)) for i in range(count)]

    def write(self, number):
        rng = random.Random(number)
        try:
            with Connection(self.oracle.address) as connection:
                while not self.stops:
                    connection.pipeline([('SELECT', rng.choice(DBS))] + [some_command(rng) for _ in range(20)])
                    connection.pipeline([('SELECT', '0'), ('MULTI',), ('INCR', 'pair:a'), ('LPUSH', 'log', 'e'), ('INCR', 'pair:b'), ('EXEC',)])
                    time.sleep(0.002)
        except (OSError, Closed) as error:
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stops = True
        for thread in self.threads:
            thread.join()
        check(any(error) or not self.errors, 'the source: %s' % self.errors)


@contextlib.contextmanager
def setting(oracle_options=QUICK, **shape):
    """A source, a cluster and a folder for the spool."""
    with Oracle(options=oracle_options) as oracle, Cluster(**{**SHAPE, **shape}) as cluster, tempfile.TemporaryDirectory(prefix='scree-spool-') as spool:
        yield oracle, Source(oracle), cluster, spool


@suite.case('what the source has and every change after it are in the target, from a diskless snapshot and from one on disk')
def _(run):
    for diskless in ('yes', 'no'):
        with setting((*QUICK, '--repl-diskless-sync', diskless)) as (oracle, source, cluster, spool):
            fill(source, 'before:', (3, 130))
            fill_groups(source, 'stream:before:130', 5)
            source.call('SELECT', '3')
            source.call('RPUSH', 'long', *(os.urandom(100) for _ in range(15000)))
            source.call('SELECT', '0')
            with Tool(oracle, cluster, spool) as tool, Writers(oracle):
                with cluster.connect() as target:
                    wait_for(lambda: reached(target) >= 0, 'the full copy')
                fill(source, 'after:', (3, 130))
                source.call('SELECT', '1')
                source.call('SET', 'gone', 'x')
                source.call('FLUSHDB')
                source.call('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 'from f' end)")
                source.call('SELECT', '0')
                source.call('EVAL', "for i = 1, 100 do redis.call('RPUSH', KEYS[1], i) end", '1', 'by script')
                source.call('PUBLISH', 'channel', 'message')
                wait_reached(source, cluster, tool)
            with Tool(oracle, cluster, spool) as tool:
                wait_reached(source, cluster, tool)
                check(check_same(source, cluster) > 100, 'few keys')
                with cluster.connect() as target:
                    check_equal(target.call('FCALL', 'f', '0')[1], b'from f')
                check_equal(source.call('WAIT', '1', '0'), b'1', 'replicas that have acknowledged')
                tool.child.send_signal(signal.SIGTERM)
                check_equal((tool.ends(), 'the same command goes on' in tool.said()), (5, True), tool.said())
            check_equal([name for name in os.listdir(spool) if '.rdb' in name], [], 'full copies that are left in the spool')


@suite.case('a tool that is killed again and again under writers goes on, and nothing is executed twice or left out; no MULTI is ever seen half')
def _(run):
    with setting() as (oracle, source, cluster, spool), Writers(oracle) as writers:
        fill(source, 'before:', (3,))
        seen, halves = [0], []

        def look():
            with cluster.connect() as target:
                while not writers.stops:
                    follows = reached(target) >= 0  # asked first: before, the full copy is written in any order
                    kind, values = target.pipeline([('MULTI',), ('GET', 'pair:a'), ('LLEN', 'log'), ('GET', 'pair:b'), ('EXEC',)])[-1]
                    counts = {int(value or 0) for _, value in values} if follows and kind == '*' else set()
                    seen[0] += len(counts) == 1
                    halves.extend([values] * (len(counts) > 1))

        looks = threading.Thread(target=look)
        looks.start()
        rng = random.Random(run.seed)
        for _ in range(sized(8, long=100)):
            with Tool(oracle, cluster, spool) as tool, cluster.connect() as target:
                before = reached(target)
                wait_for(lambda: reached(target) > before or tool.child.poll() is not None, 'the tool to go on')
                check(tool.child.poll() is None, tool.said())
                time.sleep(rng.random() * 0.2)
        writers.__exit__()
        looks.join()
        check_equal(halves, [])
        check(seen[0], 'nobody has looked')
        with Tool(oracle, cluster, spool) as tool:
            wait_reached(source, cluster, tool)
            check_same(source, cluster)


@suite.case('the newest Redis and Valkey of Debian are followed too, through kills of the tool')
def _(run):
    for name in ('redis', 'valkey'):
        with LaterServer(name, QUICK) as oracle, Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory(prefix='scree-spool-') as spool:
            source = Source(oracle)
            fill(source, 'before:', (3, 130))
            with Writers(oracle), cluster.connect() as target:
                for _ in range(3):
                    with Tool(oracle, cluster, spool) as tool:
                        before = reached(target)
                        wait_for(lambda: reached(target) > before or tool.child.poll() is not None, 'the tool to go on')
                source.call('HSET', 'fields', 'a', '1', 'b', '2')
                source.call('HPEXPIREAT', 'fields', '4102444800123', 'FIELDS', '1', 'a')
            with Tool(oracle, cluster, spool) as tool:
                wait_reached(source, cluster, tool)
                check_same(source, cluster)
                with cluster.connect() as target:
                    check_equal(target.call('HPEXPIRETIME', 'fields', 'FIELDS', '2', 'a', 'b')[1], [(':', b'4102444800123'), (':', b'-1')])


@suite.case('shards and the proxy that are killed under writers hold the copy up, and nothing is executed twice or left out')
def _(run):
    with setting() as (oracle, source, cluster, spool), Tool(oracle, cluster, spool) as tool:
        with cluster.connect() as target:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
        with Writers(oracle):
            for _ in range(sized(2, long=20)):
                for process in (*cluster.backends, *cluster.proxies):
                    process.kill9()
                    process.start()
                    time.sleep(0.3)
                with cluster.connect() as target:
                    before = reached(target)
                    wait_for(lambda: reached(target) > before, 'the tool to go on')
        wait_reached(source, cluster, tool)
        check_same(source, cluster)


@suite.case('a connection to the source that is cut again and again is made again, and goes on behind what was received')
def _(run):
    with setting() as (oracle, source, cluster, spool), Tool(oracle, cluster, spool) as tool:
        with cluster.connect() as target:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
        with Writers(oracle), Connection(oracle.address) as killer:
            for _ in range(sized(10, long=100)):
                wait_for(lambda: killer.call('CLIENT', 'KILL', 'TYPE', 'replica')[1] == b'1', 'the tool to connect')
        wait_reached(source, cluster, tool)
        check_same(source, cluster)
        check(b'sync_full:1\r\n' in source.call('INFO', 'stats'), 'there was another full copy')


@suite.case('a replica of the source that becomes its master goes on with the copy')
def _(run):
    with setting() as (oracle, source, cluster, spool), Oracle(options=QUICK) as replica:
        fill(source, 'before:', (3,))
        promoted = Source(replica)
        promoted.call('REPLICAOF', '127.0.0.1', str(oracle.port))
        wait_for(lambda: b'master_link_status:up' in promoted.call('INFO', 'replication'), 'the replica')
        with Tool(oracle, cluster, spool) as tool:
            source.call('SELECT', '3')
            source.call('SET', 'k', 'of the old master')
            source.call('SELECT', '0')
            wait_reached(source, cluster, tool)
        end = position(source)
        wait_for(lambda: position(promoted) >= end, 'the replica to have everything')
        oracle.kill9()
        promoted.call('REPLICAOF', 'NO', 'ONE')
        promoted.call('INCR', 'n')
        with Tool(replica, cluster, spool) as tool:
            wait_reached(promoted, cluster, tool)
            promoted.call('INCR', 'n')
            wait_reached(promoted, cluster, tool)
            check_same(promoted, cluster)
            check(b'sync_full:0\r\n' in promoted.call('INFO', 'stats'), 'there was another full copy')
        oracle.start()


@suite.case('FLUSHALL and FLUSHDB of the source, also in MULTI, leave the row, and the copy goes on')
def _(run):
    with setting() as (oracle, source, cluster, spool):
        fill(source, 'before:', (3,))
        for flush in ([('FLUSHDB',)], [('FLUSHALL', 'ASYNC')], [('MULTI',), ('SET', 'a', '1'), ('FLUSHALL',), ('SET', 'b', '2'), ('EXEC',)]):
            with Tool(oracle, cluster, spool) as tool:
                source.connection.pipeline([('SET', 'k', 'v'), *flush, ('INCR', 'n'), ('SELECT', '1'), ('INCR', 'n'), ('SELECT', '0')])
                wait_reached(source, cluster, tool)
                check_same(source, cluster)
        check_equal(len(dataset(source.connection)), 3)


@suite.case('a replica is a source too, also in the middle of a database: its stream has no SELECT there')
def _(run):
    with setting() as (oracle, source, cluster, spool), Oracle(options=QUICK) as replica:
        copied = Source(replica)
        copied.call('REPLICAOF', '127.0.0.1', str(oracle.port))
        wait_for(lambda: b'master_link_status:up' in copied.call('INFO', 'replication'), 'the replica')
        source.call('SELECT', '3')
        source.call('SET', 'before', '1')
        wait_for(lambda: position(copied) >= position(source), 'the replica to have it')
        with Tool(replica, cluster, spool) as tool:
            with cluster.connect() as target:
                wait_for(lambda: reached(target) >= 0, 'the full copy')
            source.call('SET', 'after', '2')
            end = position(source)
            wait_for(lambda: position(copied) >= end, 'the replica to have everything')
            wait_reached(copied, cluster, tool)
            check_equal(check_same(copied, cluster), 2)
            before = copied.call('ACL', 'LIST')
            done = cut_over(replica, cluster, os.path.join(spool, 'other'))
            check_equal((done.returncode, 'it is a replica' in done.stderr, copied.call('ACL', 'LIST')), (3, True, before), done.stderr)


@suite.case('a source whose history is another one, and SWAPDB, end the copy with exit 6')
def _(run):
    with setting() as (oracle, source, cluster, spool):
        with Tool(oracle, cluster, spool) as tool:
            source.call('SET', 'k', 'v')
            wait_reached(source, cluster, tool)
            oracle.kill9()
            oracle.start()
            check_equal((tool.ends(), 'must begin anew' in tool.said()), (6, True), tool.said())
        source = Source(oracle)
        with cluster.connect() as target:
            target.call('FLUSHALL')
            with Tool(oracle, cluster, spool) as tool:
                wait_for(lambda: reached(target) >= 0, 'the full copy')
                source.call('SET', 'before', 'v')
                source.call('SWAPDB', '0', '1')
                check_equal((tool.ends(), 'SWAPDB' in tool.said(), target.call('GET', 'before')[1]), (6, True, b'v'), tool.said())


@suite.case('of two tools the newer one goes on with a session, and the older one ends with exit 7; one spool has one tool')
def _(run):
    with setting() as (oracle, source, cluster, spool), tempfile.TemporaryDirectory() as other, Writers(oracle) as writers:
        with Tool(oracle, cluster, spool) as tool, cluster.connect() as target:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            done = copy('--from', 'redis://127.0.0.1:%d' % oracle.port, '--spool', spool, cluster=cluster)
            check_equal((done.returncode, 'another scree-copy uses the spool' in done.stderr), (7, True), done.stderr)
            before = reached(target)
            wait_for(lambda: reached(target) > before, 'the tool to follow')
            tool.child.send_signal(signal.SIGSTOP)  # it sleeps with a transaction that it has begun
            with Tool(oracle, cluster, other) as newer:
                before = reached(target)
                wait_for(lambda: reached(target) > before, 'the newer tool to go on')
                tool.child.send_signal(signal.SIGCONT)
                check_equal((tool.ends(), 'another scree-copy goes on' in tool.said()), (7, True), tool.said())
                writers.__exit__()
                wait_reached(source, cluster, newer)
                check_same(source, cluster)


@suite.case('a tool that is killed in the full copy goes on from its spool, and only from this one')
def _(run):
    with setting() as (oracle, source, cluster, spool), tempfile.TemporaryDirectory() as other, Writers(oracle) as writers:
        for at in range(0, 20000, 500):
            source.connection.pipeline([('SET', 'key:%d' % i, os.urandom(100)) for i in range(at, at + 500)])
        with cluster.connect() as target:
            for _ in range(3):
                with Tool(oracle, cluster, spool, '--rate', '100kb') as tool:
                    before = int(target.call('DBSIZE')[1])
                    wait_for(lambda: int(target.call('DBSIZE')[1]) > max(before, 1) or tool.child.poll() is not None, 'the tool to write')
                    check(tool.child.poll() is None, tool.said())
            check_equal(reached(target), -1, 'the full copy was complete before the tool was killed')
        with Tool(oracle, cluster, other) as tool:
            check_equal((tool.ends(), 'FLUSHALL in the target' in tool.said()), (6, True), tool.said())
        with Tool(oracle, cluster, spool) as tool:
            with cluster.connect() as target:
                wait_for(lambda: reached(target) >= 0, 'the full copy')
            writers.__exit__()
            wait_reached(source, cluster, tool)
            check_same(source, cluster)


@suite.case('selected databases and keys are followed under their names, through kills of the tool, and a flush of the source')
def _(run):
    with setting() as (oracle, source, cluster, spool):
        with Writers(oracle):
            fill(source, 'long:', (3, 130))
            for _ in range(sized(5, long=50)):
                with Tool(oracle, cluster, spool, *SELECTION) as tool, cluster.connect() as target:
                    before = reached(target)
                    wait_for(lambda: reached(target) > before or tool.child.poll() is not None, 'the tool to go on')
                    check(tool.child.poll() is None, tool.said())
        with Tool(oracle, cluster, spool, *SELECTION) as tool:
            wait_reached(source, cluster, tool)
            check(check_same(source, cluster, selected_pairs) > 100, 'few keys')
            source.call('SELECT', '3')
            source.call('FLUSHDB')
            wait_reached(source, cluster, tool)
            check_same(source, cluster, selected_pairs)
            source.call('FLUSHALL')
            source.connection.pipeline([('SET', 'last', '1'), ('SET', 'pair:last', '2'), ('SELECT', '1'), ('SET', 'last', '3'), ('SELECT', '0')])
            wait_reached(source, cluster, tool)
            check_same(source, cluster, selected_pairs)
            check('refused' not in tool.said(), tool.said())


@suite.case('what a selection cannot know is named, cutover refuses to end such a copy, and another selection is refused')
def _(run):
    with setting() as (oracle, source, cluster, spool), cluster.connect() as target:
        target.call('SELECT', '3')
        target.call('SET', 'of another', '1')  # the copy does not write into this database
        target.call('SELECT', '0')
        source.call('RPUSH', 'other', 'a', 'b')
        words = ('--from', 'redis://127.0.0.1:%d' % oracle.port, '--spool', spool, '--quiet', '--db', '0', '--match', 'cart:*')
        with Tool(oracle, cluster, spool, *words[5:]) as tool:
            wait_for(lambda: reached(target) >= 0 or tool.child.poll() is not None, 'the full copy')
            source.connection.pipeline([('RPUSH', 'cart:1', 'a', 'b', 'c'), ('RENAME', 'other', 'cart:2'), ('LMOVE', 'cart:1', 'other', 'LEFT', 'LEFT'),
                                        ('MSET', 'cart:3', '3', 'other', '4'), ('SELECT', '1'), ('SET', 'cart:4', 'x'), ('SELECT', '0')])
            wait_reached(source, cluster, tool)
            wait_for(lambda: 'refused db 0 "other": RENAME: not all of its keys are copied' in tool.said(), 'the refusal to be named')  # behind the row
            check_equal(tool.said().count('refused db'), 1, tool.said())
        check_equal(sorted(name for _, name in target.call('KEYS', 'cart:*')[1]), [b'cart:1', b'cart:3'])
        check_equal(value_of(target, b'cart:1'), value_of(source.connection, b'cart:1'))
        done = copy(*words[:-1], 'cart:1', '--follow', 'no', cluster=cluster)
        check_equal((done.returncode, 'another --session' in done.stderr), (2, True), done.stderr)
        done = copy(*words, '--follow', 'no', '--json', cluster=cluster)
        check_equal((done.returncode, json.loads(done.stdout)['refused']), (0, 0), done.stderr)
        done = copy('cutover', *words, cluster=cluster)  # by a tool that has refused nothing itself
        check_equal((done.returncode, 'HSET %s refused 0' % ROW in done.stderr), (1, True), done.stderr)
        source.call('SET', 'cart:5', '5')
        check_equal(target.call('HSET', ROW, 'refused', '0')[1], b'0')
        done = copy('cutover', *words, cluster=cluster)
        check_equal((done.returncode, target.call('GET', 'cart:5')[1]), (0, b'5'), done.stderr)


@suite.case('a command that fails in the target, or that its user may not send, is named, and the others are executed')
def _(run):
    with setting() as (oracle, source, cluster, spool), cluster.connect() as target:
        target.call('ACL', 'SETUSER', 'mover', 'on', '>word', '~*', '&*', '+@all', '-setrange')
        to = address(cluster).replace('//', '//mover@')
        words = ('--from', 'redis://127.0.0.1:%d' % oracle.port, '--to', to, '--spool', spool, '--quiet')
        environment = {**os.environ, 'TO_PASSWORD': 'word'}
        with running([binary('scree-copy'), *words], stderr=subprocess.PIPE, text=True, env=environment) as child:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            target.call('SET', 'list', 'not a list')
            source.call('SELECT', '3')
            source.connection.pipeline([('MULTI',), ('SET', 'a', '1'), ('SETRANGE', 'text', '3', 'x'), ('INCR', 'a'), ('EXEC',)])
            source.call('SELECT', '0')
            source.connection.pipeline([('INCR', 'n'), ('LPUSH', 'list', 'x'), ('INCR', 'n')])
            wait_reached(source, cluster)
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=patience())[1]
        check('refused db 3 "text": NOPERM' in said and 'refused db 0 "list": WRONGTYPE' in said and said.count('refused db') == 2, said)
        check_equal((target.call('GET', 'n')[1], target.call('GET', 'list')[1]), (b'2', b'not a list'))
        target.call('SELECT', '3')
        check_equal((target.call('GET', 'a')[1], target.call('EXISTS', 'text')[1]), (b'2', b'0'))
        target.call('SELECT', '0')
        check_equal(target.call('HGET', ROW, 'refused')[1], b'2')
        done = copy(*words, '--follow', 'no', '--json', env=environment)
        check_equal((done.returncode, json.loads(done.stdout)['refused']), (0, 0), done.stderr)
        done = copy('cutover', *words, env=environment)
        check_equal((done.returncode, 'commands were refused since the copy began' in done.stderr), (1, True), done.stderr)


def requests(stream):
    """The commands that a client sends, as lists of words."""
    for line in stream:
        yield [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]


class Played:
    """A server that this process plays, with a handler of socketserver for each connection."""

    def __init__(self, handler):
        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, block_on_close = True, False

        self.server = Server(('127.0.0.1', 0), handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class PlayedSource(Played):
    """A source that sends what a test chooses: `header` and the full copy, then `stream`, in pieces of so many bytes."""

    def __init__(self, header, stream, piece=7):
        played = self
        self.header, self.stream, self.piece, self.acknowledged, self.asked = header, stream, piece, [], []
        self.replies, self.commands, self.later = {}, [], lambda words, connection: None  # it is called when the stream was sent

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError, ValueError):
                    for words in requests(self.rfile):
                        if words[:2] == [b'REPLCONF', b'ACK']:
                            played.acknowledged.append(int(words[2]))
                        elif words[0] == b'PSYNC':
                            played.asked.append(words[1:])
                            self.send(played.begin(words))
                            played.later(words, self.connection)
                        else:
                            played.commands.append(words)
                            self.send(played.replies.get(words[0], lambda _: b'+OK\r\n')(words))

            def send(self, data):
                for at in range(0, len(data), played.piece):
                    self.wfile.write(data[at:at + played.piece])
                    time.sleep(0.0005)

        super().__init__(Handler)

    def begin(self, words):
        if words[1] == b'?':
            return b'\n+FULLRESYNC ' + b'a' * 40 + b' 1000\r\n\n\n' + self.header + self.stream
        return b'+CONTINUE ' + b'b' * 40 + b'\r\n' + self.stream[int(words[2]) - 1001:]


EMPTY = b'REDIS0011\xff' + bytes(8)
MARK = bytes(range(65, 105))
HEADERS = {'by length': b'$%d\r\n' % len(EMPTY) + EMPTY, 'up to a mark': b'$EOF:' + MARK + b'\r\n' + EMPTY + MARK}


@suite.case('a stream in pieces: SELECT, transactions, PING, GETACK and unknown commands; what the target does not know is named, the rest is executed')
def _(run):
    stream = b''.join(encode(words) for words in (
        ('SELECT', '3'), ('SET', 'a', '1'), ('PING',), ('multi',), ('INCR', 'a'), ('SELECT', '1'), ('NEWCOMMAND', 'b', '2'), ('INCR', 'b'), ('EXEC',),
        ('REPLCONF', 'GETACK', '*'), ('OTHERCOMMAND', 'c'), ('INCR', 'b'), ('SCRIPT', 'FLUSH'), ('SPUBLISH', 'x', 'y'), ('select', '0'), ('SET', 'd', 'x' * 3000), ('MULTI',), ('SET', 'open', '1')))
    for header in HEADERS.values():
        with Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool, cluster.connect() as target, PlayedSource(header, stream) as source:
            with Tool(source, cluster, spool) as tool:
                whole = len(stream) - len(encode(('MULTI',))) - len(encode(('SET', 'open', '1')))
                wait_for(lambda: 1000 + whole in source.acknowledged or tool.child.poll() is not None, 'the acknowledgement')
                said = tool.said()
            for name in ('refused db 1 "b": ERR unknown command', 'refused db 1 "c": ERR unknown command'):
                check(name in said, said)
            check_equal(said.count('refused db'), 2, said)
            check_equal([target.call('SELECT', db)[1] and [target.call('GET', key)[1] for key in 'abcd'] for db in DBS],
                        [[None, None, None, b'x' * 3000], [None, b'2', None, None], [b'2', None, None, None]], said)
            check_equal(target.call('SELECT', '0') and target.call('EXISTS', 'open')[1], b'0', 'a transaction that is not whole')
            source.stream = stream + encode(('EXEC',)) + encode(('INCR', 'after'))
            with Tool(source, cluster, spool) as tool:
                wait_for(lambda: 1000 + len(source.stream) in source.acknowledged or tool.child.poll() is not None, 'the acknowledgement')
            check_equal((target.call('GET', 'open')[1], target.call('GET', 'after')[1], target.call('HGET', ROW, 'id')[1]), (b'1', b'1', b'b' * 40))
            check_equal(source.asked[-1], [b'a' * 40, b'%d' % (1001 + whole)])


@suite.case('--follow no does not end while the source is away, nor when it is there again and has not sent yet what came in between')
def _(run):
    class Away(PlayedSource):
        def begin(self, words):
            return super().begin(words) if words[1] == b'?' else b'+CONTINUE ' + b'b' * 40 + b'\r\n'

    def come_late(_):
        if source.asked:
            time.sleep(3)
        return b'+OK\r\n'

    def later(words, connection):
        if words[1] == b'?':
            connection.shutdown(socket.SHUT_WR)
        else:
            time.sleep(0.05)
            connection.sendall(encode(('SET', 'b', '2')))
    with Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool, cluster.connect() as target, Away(HEADERS['by length'], encode(('SET', 'a', '1')), 1000) as source:
        source.later, source.replies[b'REPLCONF'] = later, come_late
        done = copy('--from', url_of(source), '--spool', spool, '--follow', 'no', cluster=cluster)
        check_equal((done.returncode, [target.call('GET', key)[1] for key in 'ab'], len(source.asked)), (0, [b'1', b'2'], 2), done.stdout + done.stderr)


@suite.case('the commands for a running server in docs/from-redis.md do what the page says')
def _(run):
    with open(os.path.join(ROOT, 'docs', 'from-redis.md'), encoding='utf-8') as page:
        blocks = [block.split('```')[0].splitlines() for block in page.read().split('```sh\n')[2:4]]
    commands = [line.split('#')[0] for block in blocks for line in block]
    check_equal(len(commands), 3, str(commands))
    with setting() as (oracle, source, cluster, spool), cluster.connect() as target:
        fill(source, 'before:', (3,))

        def words(command):
            command = command.replace('redis://ADMIN@OLD:6379', 'redis://OLD:6379').replace('redis://OLD:6379', 'redis://127.0.0.1:%d' % oracle.port)
            return command.replace('scree://PROXY:7379', address(cluster)).replace('/var/tmp', spool).replace('scree-copy', binary('scree-copy'), 1).split()
        with running(words(commands[0]), stderr=subprocess.DEVNULL) as child:
            wait_reached(source, cluster)
            child.send_signal(signal.SIGTERM)
            check_equal(child.wait(patience()), 5)
        for command in commands[1:]:
            more = ['--pause-max', '1m'] if 'cutover' in command else []  # this machine may be slow
            done = subprocess.run(words(command) + more, capture_output=True, text=True, timeout=2 * patience(), check=False)
            check_equal(done.returncode, 0, command + done.stderr)
        check_equal(target.call('EXISTS', ROW)[1], b'0')
        check_same(Source(oracle), cluster)


def info_of(history, offset):
    """A reply to INFO replication of a master."""
    text = b'role:master\r\nmaster_replid:%s\r\nmaster_repl_offset:%d\r\n' % (history, offset)
    return b'$%d\r\n%s\r\n' % (len(text), text)


@suite.case('cutover of a server whose history is not the one that is followed, from the start or since the first reading, fails and gives the rules back')
def _(run):
    def info(words):
        """The third and the fourth are the readings of the end; what is followed has the history b…."""
        readings.append(words)
        return info_of(b'b' * 40 if len(readings) < other_from else b'c' * 40, 1)
    with Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool, PlayedSource(HEADERS['by length'], encode(('SET', 'k', 'v')), 1000) as source:
        source.replies = {b'ACL': lambda words: encode([b'user default on nopass ~* &* +@all']) if words[1] == b'LIST' else b'+OK\r\n', b'INFO': info}
        readings, other_from = [], 1
        with Tool(source, cluster, spool) as tool, cluster.connect() as target:
            wait_for(lambda: target.call('GET', 'k')[1] == b'v' or tool.child.poll() is not None, 'the copy')
            for other_from in (1, 4):
                readings.clear()
                source.commands.clear()
                done = cut_over(source, cluster, spool + '/other', '--pause-max', '5s')
                check_equal((done.returncode, 'has another history' in done.stderr, 'takes writes again' in done.stderr), (3, True, True), done.stderr)
                check_equal([words[:5] for words in source.commands if words[:2] == [b'ACL', b'SETUSER']],
                            [[b'ACL', b'SETUSER', b'default', b'-@write'], [b'ACL', b'SETUSER', b'default', b'reset', b'on']])
                check_equal(target.call('EXISTS', ROW)[1], b'1', 'the row')


@suite.case('cutover that fails gives the rules back: when the target is not there in time, after a signal, and in the run after one that was killed')
def _(run):
    rules = [b'user default on nopass ~* &* +@all', b'user app on #5e88 ~app:* (~x +get) +@all']
    fences = [[b'ACL', b'SETUSER', b'default', b'-@write'], [b'ACL', b'SETUSER', b'app', b'-@write', b'clearselectors', b'(~x', b'+get', b'-@write)']]
    lifts = [[b'ACL', b'SETUSER', rule.split()[1], b'reset', *rule.split()[2:]] for rule in rules]
    with Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool, PlayedSource(HEADERS['by length'], encode(('SET', 'k', 'v')), 1000) as source:
        source.replies = {b'ACL': lambda words: encode(rules) if words[1] == b'LIST' else b'+OK\r\n',
                          b'INFO': lambda words: info_of(b'b' * 40, 900000000)}  # more than it will ever send
        with Tool(source, cluster, spool) as tool, cluster.connect() as target:
            wait_for(lambda: target.call('GET', 'k')[1] == b'v' or tool.child.poll() is not None, 'the copy')

        def asked():
            return [words for words in source.commands if words[:2] == [b'ACL', b'SETUSER']]
        done = cut_over(source, cluster, spool, '--pause-max', '3s')
        check_equal((done.returncode, 'within --pause-max' in done.stderr, 'takes writes again' in done.stderr, asked()), (4, True, True, fences + lifts), done.stderr)
        for number in (signal.SIGTERM, signal.SIGKILL):
            source.commands.clear()
            with Tool(source, cluster, spool, '--pause-max', '100s', command='cutover') as tool:
                wait_for(lambda: source.commands.count([b'INFO', b'replication']) == 3 or tool.child.poll() is not None, 'the fence')
                tool.child.send_signal(number)
                check_equal((tool.ends(), asked()), (5, fences + lifts) if number == signal.SIGTERM else (-9, fences), tool.said())
        rules = [*(rule + b' -@write' for rule in rules), b'user new on nopass ~* +@all']  # as the run that was killed has left them
        fences.append([b'ACL', b'SETUSER', b'new', b'-@write'])
        lifts.append([b'ACL', b'SETUSER', b'new', b'reset', b'on', b'nopass', b'~*', b'+@all'])
        source.commands.clear()
        done = cut_over(source, cluster, spool, '--pause-max', '3s')
        check_equal((done.returncode, asked()), (4, fences + lifts), done.stderr)


@suite.case('a rate limit of the target holds the copy up, and no command is taken for refused')
def _(run):
    with setting(namespaces={'shop': {'token': 'word', 'rate-limit': '400'}}) as (oracle, source, cluster, spool), cluster.connect() as target:
        target.call('AUTH', 'shop', 'word')
        words = ('--from', 'redis://127.0.0.1:%d' % oracle.port, '--to', address(cluster).replace('//', '//shop@'), '--spool', spool, '--quiet')
        with running([binary('scree-copy'), *words], stderr=subprocess.PIPE, text=True, env={**os.environ, 'TO_PASSWORD': 'word'}) as child:
            wait_for(lambda: reached(target) >= 0, 'the full copy', pause=0.2)
            source.connection.pipeline([('INCR', 'n') for _ in range(1500)])
            end = position(source)
            wait_for(lambda: reached(target) >= end or child.poll() is not None, 'the changes', pause=0.2)
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=patience())[1]
        kind, value = wait_for(lambda: (lambda reply: reply if reply[0] != '-' else None)(target.call('GET', 'n')), 'a reply within the limit', pause=0.2)
        check_equal((kind, value, 'refused' in said), ('$', b'1500', False), said)


class LimitedTarget(Played):
    """Passes commands on to a target. `limit` closes the connections, and refuses the commands with these names on later ones."""

    def __init__(self, address):
        limited = self
        self.limited, self.refused, self.open = (), [], []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                # `limit` and the tool close connections
                with contextlib.suppress(OSError, ValueError), socket.create_connection(address[:2]) as target:
                    limited.open.append(self.connection)
                    threading.Thread(target=self.pass_replies, args=(target,), daemon=True).start()
                    for words in requests(self.rfile):
                        if words[0] in limited.limited:
                            limited.refused.append(words[0])
                            self.connection.sendall(b'-RATELIMIT at most 1 requests a second\r\n')
                        else:
                            target.sendall(encode(words))

            def pass_replies(self, target):
                with contextlib.suppress(OSError):  # either side has closed the connection
                    while data := target.recv(1 << 16):
                        self.connection.sendall(data)

        super().__init__(Handler)

    def limit(self, *names):
        self.limited = names
        for connection in self.open:
            with contextlib.suppress(OSError):  # the tool has closed it
                connection.shutdown(socket.SHUT_RDWR)


@suite.case('a connection to the target whose first command is refused by a rate limit is not written to')
def _(run):
    with setting() as (oracle, source, cluster, spool), cluster.connect() as target, LimitedTarget(cluster.proxies[0].address) as limited:
        to = 'scree://127.0.0.1:%d' % limited.port
        with running([binary('scree-copy'), '--quiet', '--from', url_of(oracle), '--to', to, '--spool', spool]) as child:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            limited.limit(b'WATCH', b'HSET')
            source.call('INCR', 'n')
            wait_for(lambda: len(limited.refused) >= 3 or child.poll() is not None, 'refusals')
            check_equal((target.call('GET', 'n')[1], set(limited.refused)), (None, {b'WATCH'}))
            limited.limit()
            wait_reached(source, cluster)
            check_equal((child.poll(), target.call('GET', 'n')[1]), (None, b'1'))


@suite.case('a batch that is longer than client-state-limit of the target goes in shorter ones, and no command is taken for refused')
def _(run):
    with setting(backend_options={'backend': {'client-state-limit': '1mb'}}) as (oracle, source, cluster, spool), cluster.connect() as target:
        with Tool(oracle, cluster, spool) as tool:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            source.connection.pipeline([('APPEND', 'text', 'x' * 1000) for _ in range(3000)])
            wait_reached(source, cluster, tool)
            tool.child.send_signal(signal.SIGTERM)
            check_equal(tool.ends(), 5)
            check_equal((target.call('STRLEN', 'text'), 'refused' in tool.said()), ((':', b'3000000'), False), tool.said())


class Counters:
    """Clients that count, at the source, until they are refused. They note what was acknowledged, and go on."""

    def __init__(self, oracle, count=4):
        self.oracle, self.stops, self.acknowledged, self.refused = oracle, False, [0] * count, [0] * count
        self.threads = [threading.Thread(target=self.count, args=(i,)) for i in range(count)]

    def count(self, number):
        while not self.stops:
            with contextlib.suppress(OSError, Closed), Connection(self.oracle.address) as connection:
                while not self.stops:
                    kind, value = connection.call('INCR', 'counter:%d' % number)
                    if kind == ':':
                        self.acknowledged[number] = int(value)
                    else:
                        self.refused[number] += 1
                        time.sleep(0.01)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stops = True
        for thread in self.threads:
            thread.join()


def may_write(oracle, user, key):
    """Does the source take a write of this user? It must permit reads."""
    with Connection(oracle.address) as connection:
        if user != 'default':
            check_equal(connection.call('AUTH', user, 'word')[1], b'OK')
        check(connection.call('GET', key)[0] != '-', 'the user %s may not read' % user)
        return not connection.call('SET', key, 'v')[1].startswith(b'NOPERM')


def cut_over(oracle, cluster, spool, *words):
    return copy('cutover', '--quiet', '--from', url_of(oracle), '--spool', spool, *words, cluster=cluster)


@suite.case('cutover: each acknowledged write is in the target, later ones are refused; the tool that followed ends, and the rules can be given back')
def _(run):
    with setting() as (oracle, source, cluster, spool), tempfile.TemporaryDirectory() as other, cluster.connect() as target:
        fill(source, 'before:', (3,))
        source.call('ACL', 'SETUSER', 'app', 'on', '>word', '~*', '+@read', '+incr')
        source.call('ACL', 'SETUSER', 'picky', 'on', '>word', '(~picky:* +set +get)', '(~other:* +@all)')

        def rules_of_users():
            return sorted(line.replace(b'sanitize-payload ', b'') for _, line in source.call('ACL', 'LIST'))
        before = rules_of_users()
        done = cut_over(oracle, cluster, spool)
        check_equal((done.returncode, 'no live copy of this session' in done.stderr), (4, True), done.stderr)
        with Tool(oracle, cluster, spool) as tool:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            with Counters(oracle) as counters:
                wait_for(lambda: min(counters.acknowledged) > 100, 'the counters to count')
                done = cut_over(oracle, cluster, other, '--pause-max', '30s')
                check_equal(done.returncode, 0, done.stderr)
                wait_for(lambda: min(counters.refused) > 0, 'the counters to be refused')
            check_equal((tool.ends(), 'the live copy has ended' in tool.said() or 'another scree-copy goes on' in tool.said()), (7, True), tool.said())
        check_equal([int(target.call('GET', 'counter:%d' % i)[1]) for i in range(4)], counters.acknowledged)
        check_equal(target.call('EXISTS', ROW)[1], b'0', 'the row')
        source = Source(oracle)
        check_same(source, cluster)
        for user, key in (('default', 'k'), ('picky', 'picky:1'), ('picky', 'other:1')):
            check_equal(may_write(oracle, user, key), False, user)
        rules = os.path.join(other, 'scree-copy.default.acl')
        check('redis-cli < ' + rules in done.stderr, done.stderr)
        subprocess.run('redis-cli -p %d < %s' % (oracle.port, rules), shell=True, check=True, stdout=subprocess.DEVNULL)
        check_equal((source.connection.call('SET', 'k', 'v')[1], rules_of_users()), (b'OK', before))
        source.call('ACL', 'SETUSER', 'later', 'on', '>word', '~*', '+@all')
        target.call('FLUSHALL')
        with Tool(oracle, cluster, spool):
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            done = cut_over(oracle, cluster, other, '--pause-max', '30s')
        check_equal((done.returncode, may_write(oracle, 'later', 'k')), (0, False), 'a user since the cutover before: ' + done.stderr)


@suite.case('rediss:// uses TLS with a client certificate; a source of an unknown authority is refused')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        kit, port = Kit(folder), free_ports()
        tls = ('--tls-port', str(port), '--tls-cert-file', kit.server.cert, '--tls-key-file', kit.server.key, '--tls-ca-cert-file', kit.ca.cert)
        with setting((*QUICK, *tls)) as (oracle, source, cluster, spool):
            source.call('SET', 'k', 'v')
            base = ('--from', 'rediss://localhost:%d' % port, '--spool', spool, '--follow', 'no')
            done = copy(*base, cluster=cluster)
            check_equal((done.returncode, 'certificate verify failed' in done.stderr), (3, True), done.stderr)
            done = copy(*base, '--ca-file', kit.ca.cert, '--cert-file', kit.client.cert, '--key-file', kit.client.key, cluster=cluster)
            check_equal((done.returncode, check_same(source, cluster)), (0, 1), done.stderr)


@suite.case('a user of the source with the rights of a replica is enough; wrong passwords, a target with keys and arguments that do not fit are said')
def _(run):
    with setting() as (oracle, source, cluster, spool):
        source.call('ACL', 'SETUSER', 'copier', 'on', '>word', '+psync', '+replconf', '+ping')
        source.call('SET', 'k', 'v')
        url = 'redis://copier@127.0.0.1:%d' % oracle.port
        base = ('--spool', spool, '--follow', 'no')
        done = copy('--from', url, *base, cluster=cluster, env={**os.environ, 'FROM_PASSWORD': 'wrong'})
        check_equal((done.returncode, 'WRONGPASS' in done.stderr), (3, True), done.stderr)
        done = copy('--from', 'redis://127.0.0.1:1', *base, cluster=cluster)
        check_equal((done.returncode, 'cannot connect' in done.stderr), (3, True), done.stderr)
        word = {**os.environ, 'FROM_PASSWORD': 'word'}
        with cluster.connect() as target:
            target.call('SELECT', '7')
            target.call('SET', 'theirs', 'x')
            done = copy('--from', url, *base, cluster=cluster, env=word)
            check_equal((done.returncode, 'it has keys' in done.stderr), (4, True), done.stderr)
            target.call('FLUSHALL')
        with Cluster(backends=2, partitions=1) as apart:  # without links between its shards
            done = copy('--from', url, *base, cluster=apart, env=word)
            check_equal((done.returncode, 'CROSSSLOT' in done.stderr), (4, True), done.stderr)
        done = copy('--from', url, *base, '--json', cluster=cluster, env=word)
        check_equal((done.returncode, check_same(source, cluster)), (0, 1), done.stderr)
    for words in (['--from', 'redis://h:1'], ['--from', 'redis://h:1', '--spool', '/tmp', '--db', '0', '--to', 'scree://h:1/2'], ['--from', 'redis://u:p@h:1', '--spool', '/tmp'],
                  ['verify', '--from', 'redis://h:1', '--spool', '/tmp'], ['--from', 'redis://h:1', '--spool', '/tmp', '--existing', 'keep'],
                  ['--from', 'redis://h:1/3', '--spool', '/tmp'], ['--from', 'redis://h:1', '--spool', '/tmp', '--session', 'a/b']):
        done = copy(*words, '--to', 'scree://h:2')
        check_equal((done.returncode, done.stdout, done.stderr.count('\n')), (2, '', 1), str(words))


if __name__ == '__main__':
    suite.main()
