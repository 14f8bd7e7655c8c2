#!/usr/bin/python3
"""scree-copy from Scree to a redis-server, by the change stream: equal in every key, whichever process is killed."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile

from support import ROOT
from support.cluster import Cluster, Oracle, binary, free_ports
from support.copied import Source, address, check_equal_keys, copy, fill, first_commands, value_of
from support.followers import Follower, Load, difference, kill_all_at_work, wait_equal
from support.harness import Suite, check, check_equal, patience, wait_for
from support.relay import Relay
from support.resp import Closed, Connection

suite = Suite(__doc__)
ROW = b'scree-copy:back:default'
LOGGED = {'store': {'change-log': '1gb'}}
SMALL = {'store': {'change-log': '1gb', 'wal-limit': '1mb', 'memtable': '1mb'}}
LIBRARY = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)"


def cluster_with_log(**more):
    return Cluster(**{'backends': 2, 'partitions': 1, 'linked': True, 'backend_options': LOGGED, **more})


def url(oracle):
    return 'redis://127.0.0.1:%d' % oracle.address[1]


def back(cluster, oracle, *words, command='run', **more):
    """Runs the tool to its end."""
    return copy(command, *words, '--from', address(cluster), '--to', url(oracle), **more)


def check_whole(cluster, oracle, *words, code=0):
    """Everything that Scree has now is copied."""
    done = back(cluster, oracle, *words, '--follow', 'no')
    check_equal(done.returncode, code, done.stdout + done.stderr)
    return done


class Tool(Follower):
    """A scree-copy that follows, and is killed and started again."""

    def __init__(self, folder, cluster, sink, *words):
        super().__init__(folder, cluster.proxies[0].address, sink.address)
        self.sink = sink
        self.argv = [binary('scree-copy'), '--quiet', '--from', address(cluster), '--to', url(sink), *words]

    def token(self):
        with contextlib.suppress(OSError, Closed), Connection(self.sink.address) as target:
            return target.get('HGET', ROW, 'token')
        return None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


def content_of(oracle):
    """Every key but the row, with its value and time to live."""
    with Connection(oracle.address) as target:
        return {key: value_of(target, key) for _, key in target.call('KEYS', '*')[1] if key != ROW}


def wait_begun(client, sink):
    """Waits until the tool that follows has ended a page. Before that, a lost connection to the target ends it, and what the target has may come from
    a page whose result the tool has not read yet."""
    for word in (b'first', b'second'):  # when the second one is there, the page with the first one has ended
        client.get('SET', 'a', word)
        wait_for(lambda word=word: content_of(sink).get(b'a', (None, None, None))[2] == word, 'a page')


def texts(target, db):
    """The texts of a database."""
    target.get('SELECT', db)
    found = {key: target.get('GET', key) for key in target.get('KEYS', '*') if not key.startswith(b'scree-copy:')}
    target.get('SELECT', 0)
    return found


@suite.case('every type and time to live comes, functions come, and a second run has nothing to do')
def _(run):
    with Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client:
        source = Source(sink)
        source.connection, there = client, Connection(sink.address)
        fill(source, 'k', (1, 5, 300))
        source.call('FUNCTION', 'LOAD', LIBRARY)
        source.call('XGROUP', 'CREATE', 'stream:k5', 'group', '0')
        source.call('XREADGROUP', 'GROUP', 'group', 'someone', 'COUNT', '2', 'STREAMS', 'stream:k5', '>')
        source.call('SET', 'until', 'x', 'PX', '10000000')
        source.call('SET', 'bytes\r\n\0', 'more\r\n\xff')
        done = check_whole(cluster, sink, '--json')
        count = check_equal_keys(source, there)
        check_equal((json.loads(done.stdout), int(there.get('DBSIZE'))), ({'command': 'back', 'exit': 0, 'keys': count, 'refused': 0, 'refused_before': 0, 'different': 0}, count + 1))
        check_equal(there.get('FCALL', 'answer', 0), 42)
        check('back: 0 keys' in check_whole(cluster, sink).stdout, 'keys were copied again')
        source.call('FUNCTION', 'DELETE', 'lib')
        source.call('DEL', 'until', 'list:k5')
        check('back: 2 keys' in check_whole(cluster, sink).stdout, 'not the two keys alone')
        check_equal((there.get('FUNCTION', 'LIST'), there.get('EXISTS', 'until', 'list:k5')), ([], 0))
        there.close()


@suite.case('a redis-server is kept equal, through moves, kill -9 of shards, proxies, itself and the tool')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-back-') as folder, Oracle(options=('--appendonly', 'yes')) as sink, \
            cluster_with_log(backends=3, backend_options=SMALL) as cluster:
        tool = Tool(folder, cluster, sink)
        kill_all_at_work(run, cluster, tool, others=[sink])
        with Connection(sink.address) as target:
            wait_equal(tool, lambda: difference_without_row(cluster, sink, target))
        tool.kill()


def difference_without_row(cluster, sink, target):
    """As difference(), with the row out of sight: under another name it would be a key that Scree does not have."""
    found = difference(cluster, sink, ignored={ROW})
    check(found is None or target.get('EXISTS', ROW) == 1, 'the row is gone')
    return found


@suite.case('FLUSHALL, FLUSHDB and SWAPDB empty and exchange databases of the target')
def _(run):
    with tempfile.TemporaryDirectory() as folder, Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, \
            Connection(sink.address) as target, Tool(folder, cluster, sink):
        def wait_texts(*wanted):
            wait_for(lambda: all(texts(target, db) == texts(client, db) == keys for db, keys in wanted), 'the databases %r' % (wanted,))
        client.get('MSET', *(word for i in range(300) for word in ('a:%d' % i, i)))
        client.get('SELECT', 2)
        client.get('SET', 'two', 2)
        client.get('SELECT', 0)
        wait_for(lambda: len(texts(target, 0)) == 300, 'the keys')
        client.get('SWAPDB', 0, 2)
        wait_texts((0, {b'two': b'2'}))
        wait_for(lambda: len(texts(target, 2)) == 300, 'the other database')
        client.get('SELECT', 2)
        client.get('FLUSHDB')
        client.get('SET', 'again', 'x')
        client.get('SELECT', 0)
        wait_texts((0, {b'two': b'2'}), (2, {b'again': b'x'}))
        client.get('FLUSHALL')
        client.get('SET', 'last', 'y')
        wait_texts((0, {b'last': b'y'}), (2, {}))


@suite.case('a target that was set back to an older file has an older token, and becomes equal again')
def _(run):
    with tempfile.TemporaryDirectory() as folder, Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client:
        client.get('MSET', 'a', 1, 'b', 1, 'c', 1)
        tool = Tool(folder, cluster, sink)
        tool.start()
        with Connection(sink.address) as target:
            wait_for(lambda: texts(target, 0) == texts(client, 0), 'the first keys')
            target.get('SAVE')
            client.get('SET', 'a', 2)
            client.get('DEL', 'b')
            wait_for(lambda: texts(target, 0) == texts(client, 0), 'the changes')
        sink.kill9()
        sink.start()
        with Connection(sink.address) as target:
            wait_for(lambda: texts(target, 0) == texts(client, 0), 'the changes again')
        check_equal(tool.has_ended(), False)
        sink.kill9()
        os.unlink(os.path.join(sink.folder, 'dump.rdb'))
        sink.start()
        check_equal(tool.child.wait(patience()), 6)
        check('begins anew' in tool.errors(), tool.errors())
        check_whole(cluster, sink)
        with Connection(sink.address) as target:
            check_equal(texts(target, 0), {b'a': b'2', b'c': b'1'})


@suite.case('changes that were lost are found by comparing: keys that are gone are deleted')
def _(run):
    options = {'store': {'change-log': '1mb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    with Oracle() as sink, cluster_with_log(backend_options=options) as cluster, cluster.connect() as client:
        client.get('MSET', 'gone', 1, 'stays', 1)
        check_whole(cluster, sink)
        client.get('DEL', 'gone')
        def is_lost():
            client.pipeline([('SET', 'big:%d' % i, os.urandom(20000)) for i in range(200)])
            with Connection(sink.address) as target:
                return str(client.get('SCREE', 'CHANGES', 'READ', target.get('HGET', ROW, 'token'))).startswith('CHANGESLOST')
        wait_for(is_lost, 'the changes to be lost')
        check_whole(cluster, sink)
        check_equal(content_of(sink).keys(), {key for _, key in client.call('KEYS', '*')[1]})


@suite.case('of two tools the newer one goes on; one that slept changes nothing when it wakes')
def _(run):
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, Oracle() as sink, cluster_with_log() as cluster, \
            cluster.connect() as client, Tool(first, cluster, sink) as old:
        client.get('SET', 'a', 1)
        wait_for(lambda: content_of(sink), 'the key')
        old.child.send_signal(signal.SIGSTOP)
        client.get('SET', 'a', 2)  # an event for the one that sleeps
        with Tool(second, cluster, sink) as new:
            wait_for(lambda: content_of(sink)[b'a'][2] == b'2', 'the change')
            old.child.send_signal(signal.SIGCONT)
            check_equal(old.child.wait(patience()), 7)
            check('another scree-copy goes on' in old.errors(), old.errors())
            client.get('SET', 'b', 1)
            wait_for(lambda: b'b' in content_of(sink), 'the next key')
            new.child.send_signal(signal.SIGTERM)
            check_equal(new.child.wait(patience()), 5)


@suite.case('… also if the older one was disconnected while it slept: it does not take the session back')
def _(run):
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, Oracle() as sink, cluster_with_log() as cluster, \
            cluster.connect() as client, Connection(sink.address) as target, Tool(first, cluster, sink) as old:
        wait_begun(client, sink)
        old.child.send_signal(signal.SIGSTOP)
        client.get('SET', 'a', 2)
        with Tool(second, cluster, sink) as new:
            wait_begun(client, sink)
            generation = target.get('HGET', ROW, 'generation')
            target.get('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
            wait_for(lambda: target.get('HGET', ROW, 'generation') != generation, 'the newer one to be connected again')
            old.child.send_signal(signal.SIGCONT)
            check_equal(old.child.wait(patience()), 7)
            client.get('SET', 'b', 1)
            wait_for(lambda: b'b' in content_of(sink), 'the next key')
            check(new.child.poll() is None, 'the newer one has ended')


@suite.case('… also if the newer one begins while the older one is in a transaction')
def _(run):
    with tempfile.TemporaryDirectory() as first, Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, \
            Connection(sink.address) as target:
        relay = Relay(sink.address, hold_after_bytes=100000)  # the commands of a transaction, when it is open
        with contextlib.ExitStack() as stack:
            stack.callback(relay.stop)
            old = stack.enter_context(Tool(first, cluster, relay))
            client.get('SET', 'a', os.urandom(200000))  # not compressed
            wait_for(relay.count_held, 'the transaction')
            check_whole(cluster, sink)
            generation = target.get('HGET', ROW, 'generation')
            relay.spoil('heal')
            check_equal(old.child.wait(patience()), 7)
            check_equal(target.get('HGET', ROW, 'generation'), generation)


@suite.case('values that the target does not take are named and counted, and what it had under their names is deleted')
def _(run):
    with Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, Connection(sink.address) as target:
        client.get('MSET', 'doc', 1, 'hash', 1, 'filter', 1, 'good', 1)
        check_whole(cluster, sink)
        client.get('DEL', 'doc', 'hash', 'filter')
        client.get('JSON.SET', 'doc', '$', '{"a": 1}')
        client.get('HSET', 'hash', 'f', 'v')
        client.get('HPEXPIRE', 'hash', '10000000', 'FIELDS', '1', 'f')
        client.get('BF.ADD', 'filter', 'x')
        client.get('SET', 'good', 2)
        done = check_whole(cluster, sink, code=1)
        for words in ('"doc": a value of a module', '"filter": a value of a module', '"hash": a hash whose fields have times to live'):
            check(done.stderr.count(words) == 1, '%s: %s' % (words, done.stderr))
        check_equal((texts(target, 0), target.get('HGET', ROW, 'refused')), ({b'good': b'2'}, b'3'))
        done = check_whole(cluster, sink)
        check('3 refused before' in done.stdout, done.stdout)


@suite.case('selected databases and keys come under their names, and other keys of the target stay')
def _(run):
    words = ('--db', '0,3=5', '--match', 'old:*', '--skip', '*:2', '--strip', 'old:', '--add', 'new:', '--existing', 'replace')
    with Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, Connection(sink.address) as target:
        for db in (0, 2, 3):
            client.get('SELECT', db)
            client.get('MSET', 'old:1', db, 'old:2', db, 'other', db, 'old:3', db)
        for db in (0, 3, 5):
            target.get('SELECT', db)
            target.get('MSET', 'mine', 'x', 'new:gone', 'x', 'new:1', 'x')
        target.get('SELECT', 0)
        check_whole(cluster, sink, *words)
        mine = {b'mine': b'x', b'new:gone': b'x', b'new:1': b'x'}
        def copied(value):
            return {b'mine': b'x', b'new:1': value, b'new:3': value}
        check_equal([texts(target, db) for db in (0, 2, 3, 5)], [copied(b'0'), {}, mine, copied(b'3')])
        client.get('FLUSHDB')  # database 3
        check_whole(cluster, sink, *words)
        check_equal([texts(target, db) for db in (0, 2, 3, 5)], [copied(b'0'), {}, mine, {b'mine': b'x'}])
        check_equal(back(cluster, sink, '--db', '0').returncode, 2)


@suite.case('a target with fewer databases is refused, and no key comes into another one')
def _(run):
    with Oracle(options=('--databases', '1')) as sink, cluster_with_log() as cluster, cluster.connect() as client, Connection(sink.address) as target:
        client.get('SET', 'x', 'zero')
        client.get('SELECT', 3)
        client.get('SET', 'x', 'three')
        done = check_whole(cluster, sink, code=4)
        check('databases' in done.stderr, done.stderr)
        check(target.get('GET', 'x') in (None, b'zero'), 'the key of another database')
        client.get('DEL', 'x')
        check_whole(cluster, sink)
        check_equal(texts(target, 0), {b'x': b'zero'})


@suite.case('FLUSHALL of a namespace with a slot-rule empties the target')
def _(run):
    shop = {'shop': {'token': 'word', 'slot-rule': 'fixed:0'}}
    with Oracle() as sink, cluster_with_log(namespaces=shop) as cluster, cluster.connect() as client, Connection(sink.address) as target:
        client.get('AUTH', 'shop', 'word')
        client.pipeline([('SET', 'k%d' % i, i) for i in range(50)])
        words = ('run', '--from', address(cluster).replace('//', '//shop@'), '--to', url(sink), '--follow', 'no')
        for keys in (50, 1):
            done = copy(*words, env={**os.environ, 'FROM_PASSWORD': 'word'})
            check_equal((done.returncode, target.get('DBSIZE')), (0, keys + 1), done.stdout + done.stderr)  # and the row
            client.get('FLUSHALL')
            client.get('SET', 'new', 1)


@suite.case('targets that cannot be written, and a source without a log, are refused with a sentence')
def _(run):
    def check_refused(cluster, sink, sentence, *words, code=4):
        for command in ('check', 'run'):
            done = back(cluster, sink, *words, command=command)
            check_equal((done.returncode, sentence in done.stderr, done.stderr.count('\n')), (code, True, 1), '%s: %s' % (sentence, done.stderr))
    with Oracle() as sink, cluster_with_log() as cluster, Connection(sink.address) as target:
        target.get('SET', 'theirs', 1)
        check_refused(cluster, sink, 'it has keys. With --existing replace')
        check_equal(target.get('KEYS', '*'), [b'theirs'])
        check_equal(back(cluster, sink, '--existing', 'replace', command='check').returncode, 0)
        check_equal(target.get('KEYS', '*'), [b'theirs'])
        check_whole(cluster, sink, '--existing', 'replace')
        check_equal(target.get('KEYS', '*'), [ROW])
        target.get('CONFIG', 'SET', 'requirepass', 'word')
        check_refused(cluster, sink, 'NOAUTH')
        with Oracle(options=('--replicaof', '127.0.0.1 %d' % sink.port)) as replica:
            check_refused(cluster, replica, 'it is a replica: give its master')
        with Oracle(options=('--cluster-enabled', 'yes', '--cluster-port', str(free_ports()))) as member:
            check_refused(cluster, member, 'it is a Redis Cluster')
    with Oracle() as sink, Cluster(backends=1, partitions=1) as cluster:
        check_refused(cluster, sink, 'change-log', code=3)
    for words in (['--from', 'scree://h:1', '--to', 'redis://h:2', '--rate', '1mb'], ['--from', 'scree://h:1', '--to', 'scree://h:2'], ['--from', 'scree://h:1', '--to', 'null:'], ['--from', 'redis://h:1', '--to', 'redis://h:2', '--spool', '/tmp'],
                  ['verify', '--from', 'scree://h:1', '--to', 'scree://h:2'], ['--from', 'scree://h:1', '--to', 'redis://h:2/3'],
                  ['--from', 'scree://h:1', '--to', 'redis://h:2', '--db', '0=3,1=3'], ['--from', 'scree://h:1/2', '--to', 'redis://h:2'],
                  ['cutover', '--from', 'scree://h:1', '--to', 'redis://h:2'], ['--from', 'scree://h:1', '--to', 'redis://h:2', '--existing', 'keep']):
        done = copy(*words)
        check_equal((done.returncode, done.stdout, done.stderr.count('\n')), (2, '', 1), str(words))


@suite.case('verify names each key that differs, and is missing at either side')
def _(run):
    with Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, Connection(sink.address) as target:
        source = Source(sink)
        source.connection = client
        fill(source, 'k', (1, 5, 300))
        client.get('SELECT', 3)
        client.get('SET', 'of three', 'x')
        client.get('SELECT', 0)
        check_whole(cluster, sink)
        done = back(cluster, sink, command='verify')
        check_equal((done.returncode, done.stdout), (0, 'verify: %d keys, 0 different\n' % (len(client.call('KEYS', '*')[1]) + 1)), done.stderr)
        target.get('LSET', 'list:k300', 299, 'another')
        target.get('HDEL', 'hash:k5', target.get('HKEYS', 'hash:k5')[0])
        target.get('ZINCRBY', 'zset:k300', 1, target.get('ZRANGE', 'zset:k300', 0, 0)[0])
        target.get('XDEL', 'stream:k5', '2-1')
        target.get('DEL', 'set:k1')
        target.get('SET', 'more', 'x')
        target.get('EXPIRE', 'numbers:k5', 1000)
        target.get('SELECT', 3)
        target.get('SET', 'of three', 'y')
        done = back(cluster, sink, command='verify')
        wanted = sorted(['list:k300": its value differs', 'hash:k5": its value differs', 'zset:k300": its value differs', 'stream:k5": its value differs',
                         'set:k1": it is missing in the target', 'more": only the target has it', 'numbers:k5": its time to live differs', 'of three": its value differs'])
        check_equal(sorted(line.split(' "', 1)[1] for line in done.stderr.splitlines()), wanted)
        check_equal((done.returncode, '8 different' in done.stdout), (1, True), done.stdout)
        done = back(cluster, sink, '--match', '*:k1', '--json', command='verify')
        check_equal((done.returncode, json.loads(done.stdout)['different']), (1, 1), done.stderr)


@suite.case('verify does not read the values of keys that only the target has: they may be too long for it')
def _(run):
    with Oracle() as sink, cluster_with_log() as cluster, Connection(sink.address) as target:
        target.get('MSET', 'more', 1, 'and more', 1)
        done = back(cluster, sink, command='verify')
        check_equal((done.returncode, done.stderr.count('only the target has it')), (1, 2), done.stderr)
        check('cmdstat_dump' not in target.get('INFO', 'commandstats').decode(), 'values were read')


@suite.case('verify does not pass over a database whose keys are at a shard that is down')
def _(run):
    with Oracle() as sink, cluster_with_log(proxy_options={'upstream': {'hold': '0'}}) as cluster, cluster.connect() as client:
        client.get('SELECT', 3)
        client.get('SET', cluster.key_on(1), 1)
        cluster.backends[1].stop()
        done = back(cluster, sink, command='verify')
        check_equal((done.returncode, 'not reachable' in done.stderr), (3, True), done.stdout + done.stderr)


@suite.case('verify beside a copy that follows finds nothing different, while keys change and expire')
def _(run):
    with tempfile.TemporaryDirectory() as folder, Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, Tool(folder, cluster, sink):
        client.pipeline([('SET', 'key:%d' % i, i) for i in range(3000)])
        wait_for(lambda: len(content_of(sink)) == 3000, 'the keys')
        load = Load(cluster, 3, pause=0.02)  # a key that changes all the time is on its way at each of the looks
        load.start()
        done = back(cluster, sink, '--match', 'key:*', '--match', 'string:*', command='verify')
        load.is_over.set()
        load.join()
        check_equal(done.returncode, 0, done.stdout + done.stderr)


@suite.case('users with the rights that docs/back-to-redis.md lists can check, copy and verify')
def _(run):
    with open(os.path.join(ROOT, 'docs', 'back-to-redis.md'), encoding='utf-8') as file:
        rights = [found.split() for found in re.findall(r'`(\+[^@`]* [^`]*)`', file.read())]
    check_equal(len(rights), 2)
    with Oracle() as sink, cluster_with_log() as cluster, cluster.connect() as client, Connection(sink.address) as target:
        for connection, name, some in ((client, 'reader', rights[0]), (target, 'back', rights[1])):
            check_equal(connection.get('ACL', 'SETUSER', name, 'on', '>word', '~*', *some), b'OK')
        target.get('SET', 'gone', 1)
        client.get('SELECT', 3)
        client.get('SET', 'key', 1)
        words = ('--from', 'scree://reader@127.0.0.1:%d' % cluster.proxies[0].address[1], '--to', 'redis://back@127.0.0.1:%d' % sink.port, '--existing', 'replace')
        for command in (('check',), ('run', '--follow', 'no'), ('run', '--follow', 'no'), ('verify',)):
            done = copy(*command, *words, env={**os.environ, 'FROM_PASSWORD': 'word', 'TO_PASSWORD': 'word'})
            check_equal((done.returncode, done.stderr), (0, ''), str(command))
        check_equal((texts(target, 3), target.get('EXISTS', 'gone')), ({b'key': b'1'}, 0))


@suite.case('there and back: the commands of docs/back-to-redis.md after a cut-over')
def _(run):
    with Oracle() as old, cluster_with_log() as cluster, cluster.connect() as client, tempfile.TemporaryDirectory() as spool:
        source = Source(old)
        fill(source, '', (5,))
        source.call('SET', 'deleted', 'x')
        live = ('--from', url(old), '--spool', spool)
        check_equal(copy(*live, '--follow', 'no', cluster=cluster).returncode, 0)
        check_equal(copy('cutover', *live, cluster=cluster).returncode, 0)
        client.get('DEL', 'deleted')
        client.get('RPUSH', 'list:5', 'later')
        client.get('SET', 'new', 'x')

        def words_of(command):
            words = command.replace('-h OLD', '-p %d' % old.port).replace('@OLD:6379', '@127.0.0.1:%d' % old.port)
            words = words.replace('scree://PROXY:7379', address(cluster)).replace('-h PROXY -p 7379', '-p %d' % cluster.proxies[0].address[1])
            return re.sub('^(exec |)scree-copy ', lambda found: found[1] + binary('scree-copy') + ' ', words)

        def shell(commands):
            done = subprocess.run('set -e\n' + '\n'.join(words_of(command) for command in commands), shell=True, cwd=spool, capture_output=True, text=True, timeout=patience(), check=False)
            check_equal((done.returncode, 'ERR' in done.stdout), (0, False), done.stdout + done.stderr)
        first, later = first_commands('back-to-redis.md'), first_commands('back-to-redis.md', 2)
        source.connection = Connection(old.address)  # the fence has closed the one before
        check(source.connection.call('SET', 'k', 'v')[1].startswith(b'NOPERM'), 'the fence is gone')
        with open(os.path.join(spool, 'back.password'), 'w', encoding='utf-8') as file:
            file.write('PASSWORD\n')
        shell(first[:3])
        following = subprocess.Popen(words_of('exec ' + first[3].split('#')[0]), shell=True, stdout=subprocess.DEVNULL, env={**os.environ, 'TO_PASSWORD': 'PASSWORD'})
        wait_for(lambda: source.call('GET', 'new') == b'x', 'the copy to follow')
        shell(first[:1] + first[4:] + later)
        check_equal(following.wait(patience()), 7)
        keys = [key for _, key in client.call('KEYS', '*')[1] if not key.startswith(b'scree-copy:')]
        source.connection, there = client, source.connection
        check_equal_keys(source, there, keys)
        check_equal(sorted(key for _, key in there.call('KEYS', '*')[1] if not key.startswith(b'scree-copy:')), sorted(keys))
        check_equal(there.call('SET', 'k', 'v'), ('+', b'OK'))
        client.get('CLIENT', 'UNPAUSE')


if __name__ == '__main__':
    suite.main()
