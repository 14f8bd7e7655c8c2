#!/usr/bin/python3
"""Scripts and functions belong to a namespace: no tenant sees, replaces, kills or runs another's, on any shard."""

import os
import subprocess

from support.cluster import Cluster, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, ReplyError

suite = Suite(__doc__)

NAMESPACES = {'one': {'token': 'token-one'}, 'two': {'token': 'token-two'}}
UNKNOWN = '0' * 40
# A library that keeps a value in a local variable.
LIBRARY = """#!lua name=lib
local kept = "nothing"
redis.register_function("whose", function() return "%s" end)
redis.register_function("keep", function(keys, args) local before = kept kept = args[1] return before end)
redis.register_function("read", function(keys) return redis.call("GET", keys[1]) end)"""


def text(reply):
    return str(reply) if isinstance(reply, ReplyError) else reply


def enter(cluster, login):
    client = cluster.connect()
    check_equal(client.get('AUTH', *login.split()), b'OK', 'AUTH')
    return client


def keys_of_shards(shards=3):
    """One key for each shard of an even map."""
    keys = {}
    for i in range(1000):
        keys.setdefault(slot_of('k%d' % i) * shards // 16384, 'k%d' % i)
    return [keys[shard] for shard in range(shards)]


def on_all_shards(client, *words):
    """Runs FCALL or EVALSHA with a key of each shard."""
    return [text(client.get(*words[:2], '1', key, *words[2:])) for key in keys_of_shards()]


def three_shards(**options):
    return Cluster(backends=3, partitions=1, proxies=1, namespaces=NAMESPACES,
                   proxy_options={'proxy': {'requirepass': 'outside'}}, **options)


@suite.case('scripts of a namespace are unknown to others, and stay when others flush their own, on three shards')
def _(run):
    with three_shards() as cluster:
        one, two, outside = enter(cluster, 'token-one'), enter(cluster, 'token-two'), enter(cluster, 'outside')
        sha = one.get('SCRIPT', 'LOAD', 'return KEYS[1]').decode()
        keys = [key.encode() for key in keys_of_shards()]
        check_equal(on_all_shards(one, 'EVALSHA', sha), keys, 'EVALSHA of its own')
        for other in (two, outside):
            check_equal(other.get('SCRIPT', 'EXISTS', sha, UNKNOWN), [0, 0], 'SCRIPT EXISTS elsewhere')
            for reply in on_all_shards(other, 'EVALSHA', sha):
                check(reply.startswith('NOSCRIPT'), 'EVALSHA elsewhere: %r' % reply)
            check_equal(other.get('SCRIPT', 'FLUSH'), b'OK', 'SCRIPT FLUSH elsewhere')
        check_equal(one.get('SCRIPT', 'EXISTS', sha, UNKNOWN), [1, 0], 'after others have flushed')
        check_equal(on_all_shards(one, 'EVALSHA', sha), keys, 'EVALSHA after others have flushed')
        one.get('SELECT', '1')
        check_equal(one.get('SCRIPT', 'EXISTS', sha), [1], 'databases share scripts')
        check_equal(one.get('SCRIPT', 'FLUSH'), b'OK', 'SCRIPT FLUSH of its own')
        check_equal(one.get('SCRIPT', 'EXISTS', sha), [0], 'after it has flushed')
        for client in (one, two, outside):
            client.close()


@suite.case('libraries of the same name in two namespaces: each runs its own, with its own data, on three shards')
def _(run):
    with three_shards() as cluster:
        one, two, outside = enter(cluster, 'token-one'), enter(cluster, 'token-two'), enter(cluster, 'outside')
        clients = {'one': one, 'two': two, 'outside': outside}
        for name, client in clients.items():
            check_equal(client.get('FUNCTION', 'LIST'), [], 'FUNCTION LIST at first')
            check_equal(on_all_shards(client, 'FCALL', 'whose'), ['ERR Function not found'] * 3, 'FCALL at first')
            check_equal(client.get('FUNCTION', 'LOAD', LIBRARY % name), b'lib', 'FUNCTION LOAD')
        for name, client in clients.items():
            check_equal(on_all_shards(client, 'FCALL', 'whose'), [name.encode()] * 3, 'whose function')
            check_equal(on_all_shards(client, 'FCALL', 'keep', 'secret of ' + name), [b'nothing'] * 3, 'what it kept')
            client.pipeline([['SET', key, 'value of ' + name] for key in keys_of_shards()])
            check_equal(on_all_shards(client, 'FCALL', 'read'), [b'value of ' + name.encode()] * 3, 'its keys')
        check_equal(two.get('FUNCTION', 'LOAD', 'REPLACE', LIBRARY % 'thief'), b'lib', 'FUNCTION LOAD REPLACE')
        check_equal(on_all_shards(one, 'FCALL', 'whose'), [b'one'] * 3, 'after the other has replaced its own')
        check_equal(on_all_shards(two, 'FCALL', 'keep', 'x'), [b'nothing'] * 3, 'nothing of others in the replaced one')
        dump = two.get('FUNCTION', 'DUMP')
        check(dump != one.get('FUNCTION', 'DUMP'), 'FUNCTION DUMP')
        check_equal(two.get('FUNCTION', 'FLUSH'), b'OK', 'FUNCTION FLUSH')
        check_equal(two.get('FUNCTION', 'LIST'), [], 'after FUNCTION FLUSH')
        check_equal(text(two.get('FUNCTION', 'DELETE', 'lib')), 'ERR Library not found', 'FUNCTION DELETE')
        check_equal(two.get('FUNCTION', 'STATS')[3][1], [b'libraries_count', 0, b'functions_count', 0], 'FUNCTION STATS')
        check_equal(one.get('FUNCTION', 'STATS')[3][1], [b'libraries_count', 1, b'functions_count', 3], 'FUNCTION STATS')
        check_equal(two.get('FUNCTION', 'RESTORE', dump), b'OK', 'FUNCTION RESTORE')
        check_equal(on_all_shards(two, 'FCALL', 'whose'), [b'thief'] * 3, 'what was restored')
        check_equal(on_all_shards(one, 'FCALL', 'keep', 'x'), [b'secret of one'] * 3, 'what one has kept all the time')
        check_equal(outside.get('FUNCTION', 'DELETE', 'lib'), b'OK', 'FUNCTION DELETE')
        for client in clients.values():
            client.close()
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        one, two, outside = enter(cluster, 'token-one'), enter(cluster, 'token-two'), enter(cluster, 'outside')
        # Each client may be at another worker of the proxy, whose connections to the shards may be restored at another
        # time.
        for client, expected, what in ((one, b'one', 'the library after a crash'), (two, b'thief', 'the restored one after a crash'),
                                       (outside, 'ERR Function not found', 'the deleted one')):
            wait_for(lambda client=client, expected=expected: on_all_shards(client, 'FCALL', 'whose') == [expected] * 3, what)
        for client in (one, two, outside):
            client.close()


@suite.case('SLOWLOG inside a script shows and resets the entries of its own namespace only')
def _(run):
    with three_shards() as cluster:
        one, two = enter(cluster, 'token-one'), enter(cluster, 'token-two')
        for backend in cluster.backends:
            with Connection(backend.addresses[0]) as operator:
                operator.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        key = keys_of_shards()[0]
        one.get('SET', key, 'secret')
        shown = two.get('EVAL', 'return redis.call("SLOWLOG", "GET", "-1")', '1', key)
        check('secret' not in repr(shown), 'another namespace is shown: %r' % shown)
        two.get('EVAL', 'return redis.call("SLOWLOG", "RESET")', '1', key)
        shown = one.get('EVAL', 'return redis.call("SLOWLOG", "GET", "-1")', '1', key)
        check('secret' in repr(shown), 'its own is gone or not shown: %r' % shown)
        check(one.get('EVAL', 'return redis.call("SLOWLOG", "LEN")', '1', key) > 0, 'SLOWLOG LEN')
        with Connection(cluster.backends[0].addresses[0]) as operator:
            check('secret' in repr(operator.get('SLOWLOG', 'GET', '-1')), 'the operator sees all')
        one.close()
        two.close()


def inside(cluster, namespace):
    """A connection with the same login as the proxy's own."""
    client = cluster.partition(0)
    check_equal(client.get('SCREE', 'AUTH', cluster.secret), b'OK', 'SCREE AUTH')
    check_equal(client.get('SCREE', 'USE', namespace, '0'), b'OK', 'SCREE USE')
    return client


@suite.case('a slow script is shown to and killed by its own namespace and the operator, and no other')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        operator = cluster.partition(0)
        operator.get('CONFIG', 'SET', 'busy-reply-threshold', '50')
        one, two, runner = (inside(cluster, name) for name in ('one', 'two', 'one'))
        with inside(cluster, '') as outside:
            for killer in (one, operator):
                runner.send('EVAL', 'while true do end', '0')
                wait_for(lambda: 'BUSY' in str(one.get('PING')), 'BUSY')
                for other in (two, outside):
                    check_equal(text(other.get('SCRIPT', 'KILL')), 'NOTBUSY No scripts in execution right now.', 'SCRIPT KILL')
                    check_equal(text(other.get('FUNCTION', 'KILL')), 'NOTBUSY No scripts in execution right now.', 'KILL')
                    check_equal(other.get('FUNCTION', 'STATS')[1], None, 'running_script')
                check(killer.get('FUNCTION', 'STATS')[1] is not None, 'running_script of its own')
                check_equal(killer.get('SCRIPT', 'KILL'), b'OK', 'SCRIPT KILL')
                check('killed by user' in repr(runner.read()), 'not killed')
        for client in (one, two, runner, operator):
            client.close()


@suite.case('through a proxy over three shards a tenant can kill its own slow script, another tenant cannot')
def _(run):
    with three_shards() as cluster:
        operators = [Connection(backend.addresses[0]) for backend in cluster.backends]
        for operator in operators:
            operator.get('CONFIG', 'SET', 'busy-reply-threshold', '50')
        one, two, runner = enter(cluster, 'token-one'), enter(cluster, 'token-two'), enter(cluster, 'token-one')
        runner.send('EVAL', 'while true do end', '1', keys_of_shards()[1])
        wait_for(lambda: 'BUSY' in str(operators[1].get('PING')), 'BUSY')
        check_equal(text(two.get('SCRIPT', 'KILL')), 'NOTBUSY No scripts in execution right now.', 'of another namespace')
        check_equal(one.get('SCRIPT', 'KILL'), b'OK', 'of its own')
        check('killed by user' in repr(runner.read()), 'not killed')
        for client in operators + [one, two, runner]:
            client.close()


def number(client, field):
    for line in client.get('INFO', 'memory').splitlines():
        if line.startswith(field + b':'):
            return int(line.split(b':')[1])
    return None


@suite.case('Lua states of many namespaces use at most script-memory-limit, and none loses its functions')
def _(run):
    limit = 4 << 20
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'script-memory-limit': '4mb'}}) as cluster:
        names = ['n%d' % i for i in range(40)]
        clients = {name: inside(cluster, name) for name in names}
        for _ in range(3):
            for name, client in clients.items():
                client.get('FUNCTION', 'LOAD', 'REPLACE', LIBRARY % name + '\n--' + 'x' * 200000)
                check_equal(client.get('EVAL', 'return ("x"):rep(100000):len()', '0'), 100000, 'EVAL')
        for name, client in clients.items():
            check_equal(client.get('FCALL', 'whose', '0'), name.encode(), 'FCALL')
            check_equal(client.get('FUNCTION', 'STATS')[3][1][1], 1, 'libraries_count')
        with cluster.partition(0) as operator:
            for field in (b'used_memory_vm_eval', b'used_memory_vm_functions'):
                used = number(operator, field)
                check(used <= limit, '%s: %d' % (field, used))
        big = LIBRARY % 'big' + '\n--' + 'x' * (5 << 20)
        check('not enough memory' in text(clients['n0'].get('FUNCTION', 'LOAD', 'REPLACE', big)), 'code beyond the limit')
        check_equal(clients['n0'].get('FCALL', 'whose', '0'), b'n0', 'the library there was')
        for client in clients.values():
            client.close()


@suite.case('functions of a namespace are deleted when it is dropped, and those of others stay')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        gone, stays = inside(cluster, 'gone'), inside(cluster, 'gonex')
        gone.get('FUNCTION', 'LOAD', LIBRARY % 'gone')
        stays.get('FUNCTION', 'LOAD', LIBRARY % 'stays')
        check_equal(gone.get('SCREE', 'DROP', '0'), 1, 'SCREE DROP')
        check_equal(gone.get('FUNCTION', 'LIST'), [], 'FUNCTION LIST')
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        for name, expected in (('gone', 'ERR Function not found'), ('gonex', b'stays')):
            with inside(cluster, name) as client:
                check_equal(text(client.get('FCALL', 'whose', '0')), expected, 'FCALL in %s' % name)


@suite.case('functions stored by an older program belong to the default namespace')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with inside(cluster, 'one') as one:
            one.get('FUNCTION', 'LOAD', LIBRARY % 'one')
        with cluster.partition(0) as client:  # writes the row to the files
            client.get('SCREE', 'COMPACT', 'START')
            wait_for(lambda: b'compaction_state:idle' in client.get('INFO', 'persistence'), 'compaction to end')
        backend.stop()
        folder = os.path.join(backend.data, 'partition-0')
        done = subprocess.run(['ldb', '--db=' + folder, '--column_family=default', '--hex', 'put', '0x' + b'flib'.hex(),
                               '0x' + (LIBRARY % 'older').encode().hex()], capture_output=True, text=True, check=False)
        check_equal(done.returncode, 0, 'ldb: ' + done.stderr)
        backend.start()
        with cluster.partition(0) as client, inside(cluster, 'one') as one, inside(cluster, 'two') as two:
            check_equal(client.get('FCALL', 'whose', '0'), b'older', 'the default namespace')
            check_equal(one.get('FCALL', 'whose', '0'), b'one', 'a namespace that has its own')
            check_equal(text(two.get('FCALL', 'whose', '0')), 'ERR Function not found', 'another one')
            check_equal(client.get('FUNCTION', 'DELETE', 'lib'), b'OK', 'FUNCTION DELETE')
            check_equal(client.get('FUNCTION', 'LIST'), [], 'FUNCTION LIST')


if __name__ == '__main__':
    suite.main()
