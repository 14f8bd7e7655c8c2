#!/usr/bin/python3
"""Scripts over their time limit: the replies that other clients get, and how the script is ended."""

import signal
import time

from support import harness
from support.cluster import Cluster, Oracle, metric
from support.disk import FaultyDisk
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection
from support.slow import BUSY_SCRIPT, FOREVER, NOTBUSY, Background, begin_until, is_busy, text, wait_busy, wait_free

suite = Suite(__doc__)
WRITES_FOREVER = 'redis.call("set", KEYS[1], "half") while true do end'
NO_LIMIT = {'command-time-limit': '0'}  # an endless script runs until the test ends it
ENDLESS_LIBRARY = '#!lua name=q\nredis.register_function("loop", function() while true do end end)'


def set_up(cluster, threshold='20'):
    client = cluster.partition(0)
    check_equal(text(client.get('CONFIG', 'SET', 'busy-reply-threshold', threshold)), b'OK', 'CONFIG SET')
    return client, cluster.backends[0].addresses[0]


def set_up_threshold(cluster, shard, threshold='20'):
    with cluster.partition(shard) as client:
        check_equal(text(client.get('CONFIG', 'SET', 'busy-reply-threshold', threshold)), b'OK', 'CONFIG SET')


def kill(client, command='SCRIPT'):
    check_equal(text(client.get(command, 'KILL')), b'OK', command + ' KILL')


def is_reply_or_busy(reply, expected):
    """Is it the expected reply, or BUSY? While the script's first commands run, BUSY has another text, if these are slow."""
    kind, payload = reply
    return reply == expected or (kind == '-' and payload.startswith(b'BUSY '))


# ---- the reply -----------------------------------------------------------------------------------------------------

@suite.case('replies before a slow script are sent while it runs, and its own comes after them')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': NO_LIMIT}) as cluster:
        client, address = set_up(cluster)
        check_equal(text(client.get('SET', 'k', 'v')), b'OK', 'SET')
        for before in ([('GET', 'k')] * 50, [('SET', 'k', 'v')] * 50):
            for proto in (2, 3):
                slow = Background(address, 'EVAL', FOREVER, '0', before=before, proto=proto)
                wait_busy(client)
                kill(client)
                check(b'killed by user' in slow.finish(), 'it was not killed')
                slow = Background(address, 'EVAL', 'local n = 0 while n < 1e8 do n = n + 1 end return redis.call("incr", KEYS[1])',
                                  '1', 'n', before=before, proto=proto)
                check(slow.finish() > 0, 'what the script wrote')
                check_equal(len({reply for reply in slow.replies[:-1]}), 1, 'replies in front of the script')
        client.close()


@suite.case('writes that ran in the turn of a slow script are acknowledged while it runs, and requests behind them get BUSY')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        backend = cluster.backends[0]
        for proto in (2, 3):
            for count in (1, 2000):
                reader, *writers = [Connection(address, proto=proto) for _ in range(4)]
                client.get('SET', 'k', 'v')
                wait_for(lambda: client.get('DEBUG', 'EVICT') == b'OK', 'k to go to a file')  # so that a GET waits for a reader thread
                backend.signal(signal.SIGSTOP)  # so that all of them are read in one turn
                reader.send('GET', 'k')
                for writer in writers:
                    writer.send_many([('SET', 'k', 'v')] * count + [('GET', 'k')])
                slow = Background(address, 'EVAL', WRITES_FOREVER, '1', 'n')
                backend.signal(signal.SIGCONT)
                wait_busy(client)
                check(is_reply_or_busy(reader.read(), ('$', b'v')), 'the reply to a read from the disk')
                for writer in writers:
                    replies = [writer.read() for _ in range(count + 1)]
                    check(all(is_reply_or_busy(reply, ('+', b'OK')) for reply in replies[:-1]), 'replies to the writes: %r' % replies[:3])
                    check(is_reply_or_busy(replies[-1], ('$', b'v')), 'the reply behind them: %r' % (replies[-1],))
                check_equal(text(client.get('SCREE', 'SCRIPT', 'KILL')), b'OK', 'SCREE SCRIPT KILL')
                check(b'ended by SCREE SCRIPT KILL' in slow.finish(), 'the reply of the script')
                check_equal(client.get('MGET', 'k', 'n'), [b'v', None], 'the keys')
                for connection in (reader, *writers):
                    connection.close()
        client.close()


@suite.case('a slow script whose client wants no reply does not disturb others that want none')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        silent, other = Connection(address, proto=2), Connection(address, proto=2)
        for connection in (silent, other):
            connection.send('CLIENT', 'REPLY', 'OFF')

        def is_seen():
            """Runs the script. False: it ended while this process did not look."""
            client.get('DEL', 'k')
            silent.send('EVAL', 'redis.call("set", "k", "v") local stop = os.clock() + 1.5 while os.clock() < stop do end return redis.error_reply("x")', '0')
            return wait_for(lambda: 'busy' if is_busy(client) else client.get('GET', 'k') == b'v' and 'over', 'BUSY, or its end') == 'busy'
        wait_for(is_seen, 'a slow script')
        for _ in range(20):
            other.send('GET', 'k')
        other.send('CLIENT', 'REPLY', 'ON')
        wait_free(client)
        for connection in (silent, other):
            wait_for(lambda connection=connection: text(connection.get('CLIENT', 'REPLY', 'ON')) == b'OK', 'a reply')
        check_equal(text(client.get('GET', 'k')), b'v', 'what the script wrote')
        for connection in (silent, other, client):
            connection.close()


@suite.case('a slow script that has read a row that is not durable yet gets its reply although no further batch is written')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster, '0')
        writer = Connection(address, proto=2)
        for i in range(100):
            writer.send('SET', 'k', str(i))
            got = text(client.get('EVAL', 'local v = redis.call("get", "k") local n = 0 while n < 1e6 do n = n + 1 end return v', '0'))
            check(got is None or isinstance(got, bytes), 'the reply of the script: %r' % (got,))
            writer.read()
        writer.close()
        client.close()


@suite.case('a write whose batch is in flight when a slow script begins is acknowledged while the script runs')
def _(run):
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, disk=disk) as cluster:
        client, address = set_up(cluster)
        with Connection(address, proto=2) as writer:
            disk.hold_syncs()
            writer.send('SET', 'k', 'v')
            wait_for(lambda: disk.get('syncs_held') > 0, 'the sync of the batch')
            slow = Background(address, 'EVAL', FOREVER, '0')
            wait_busy(client)
            disk.hold_syncs(False)
            check_equal(writer.read(), ('+', b'OK'), 'the reply to SET')
            check(is_busy(client), 'the script has ended')
        kill(client)
        check(b'killed by user' in slow.finish(), 'it was not killed')
        client.close()


# ---- other clients during a slow script ------------------------------------------------------------------------------

def check_as_redis(play):
    """play(address) returns replies; those of a partition must equal those of redis-server."""
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': NO_LIMIT}) as cluster:
        with Oracle() as oracle:
            want = play(('127.0.0.1', oracle.port))
        check_equal(play(cluster.backends[0].addresses[0]), want, 'replies')


def transcript(make, address, kill_script):
    """The replies that the server at this address gives before, during and after a slow script."""
    shown = []
    for proto in (2, 3):
        first, killer, early = make(), make(), make()
        slow = Background(address, 'EVAL', FOREVER, '0')
        wait_busy(killer)
        client = Connection(address, proto=proto)

        def say(*words, on=None):
            shown.append((words, (on or client).call(*words)))

        for words in (('GET', 'k'), ('NOSUCH', 'x'), ('GET',), ('EXEC',), ('DISCARD',), ('WATCH', 'k'), ('UNWATCH',), ('SELECT', '1'),
                      ('PING',), ('ECHO', 'x'), ('AUTH', 'x'), ('FUNCTION', 'KILL'), ('SHUTDOWN',), ('SHUTDOWN', 'SAVE'),
                      ('SHUTDOWN', 'x'), ('SHUTDOWN', 'ABORT'), ('SUBSCRIBE', 'c'), ('EVAL', 'return 1', '0'), ('FUNCTION', 'LIST'),
                      ('SCRIPT', 'FLUSH'), ('MULTI',), ('MULTI',), ('GET', 'k'), ('SET', 'k', 'x'), ('EXEC',), ('GET', 'k'),
                      ('MULTI',), ('UNWATCH',), ('SCRIPT', 'KILL', 'x'), ('DISCARD',), ('MULTI',), ('UNWATCH',), ('EXEC',), ('EXEC',),
                      ('WATCH', 'k'), ('MULTI',), ('RESET',), ('WATCH', 'k'), ('MULTI',)):
            say(*words)
        say('MULTI', on=early)
        say('SET', 'k', 'x', on=early)
        kill_script(killer)
        slow.finish()
        wait_free(killer)
        for words in (('SET', 'k', 'x'), ('EXEC',), ('GET', 'k')):
            say(*words)
        say('SET', 'k', 'y', on=early)
        say('EXEC', on=early)
        say('GET', 'k', on=early)
        say('SCRIPT', 'KILL', on=early)
        say('FUNCTION', 'KILL', on=early)
        for connection in (client, first, killer, early):
            connection.close()
    return shown


@suite.case('while a script is slow every command is answered as by redis-server; a transaction with a BUSY reply is not executed')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        with Oracle(options=['--busy-reply-threshold', '20']) as oracle:
            there = ('127.0.0.1', oracle.port)
            want = transcript(lambda: Connection(there, proto=2), there, kill)
            got = transcript(lambda: Connection(address, proto=2), address, kill)
        for (words, expected), (_, reply) in zip(want, got):
            check_equal(reply, expected, ' '.join(words))
        client.close()


@suite.case('SCRIPT KILL and FUNCTION KILL reply as redis-server: NOTBUSY, UNKILLABLE, the other kind, and to the killed script')
def _(run):
    def play(address):
        shown = []
        with Connection(address, proto=2) as client:
            client.get('CONFIG', 'SET', 'busy-reply-threshold', '20')
            client.get('FUNCTION', 'LOAD', ENDLESS_LIBRARY)
            client.get('FUNCTION', 'LOAD', '#!lua name=w\nredis.register_function("writes", function(keys) redis.call("set", keys[1], 1) '
                       'local n = 0 while n < 1e8 do n = n + 1 end return redis.call("incr", keys[1]) end)')
            shown += [client.call('SCRIPT', 'KILL'), client.call('FUNCTION', 'KILL')]
            for words, killer in ((('EVAL', FOREVER, '0'), 'SCRIPT'), (('FCALL', 'loop', '0'), 'FUNCTION')):
                slow = Background(address, *words)
                wait_busy(client)
                shown.append(client.call('GET', 'k'))
                shown.append(client.call('FUNCTION' if killer == 'SCRIPT' else 'SCRIPT', 'KILL'))
                kill(client, killer)
                shown.append(slow.finish())
            for words in (('EVAL', 'redis.call("set", KEYS[1], 1) local n = 0 while n < 1e8 do n = n + 1 end return redis.call("incr", KEYS[1])', '1', 'k'),
                          ('FCALL', 'writes', '1', 'k')):
                slow = begin_until(lambda: is_busy(client), lambda words=words: Background(address, *words))
                for command in ('SCRIPT', 'FUNCTION'):
                    reply = client.call(command, 'KILL')
                    if is_busy(client):
                        check(b'UNKILLABLE' in reply[1], 'it could be killed: %r' % (reply,))
                shown.append(slow.finish())
        return shown

    check_as_redis(play)


@suite.case('a proxy can greet a partition while a script is slow: SCREE AUTH, HELLO, SCREE USE, then SCRIPT KILL')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'requirepass': 'pass'}}) as cluster:
        address = cluster.backends[0].addresses[0]
        with Connection(address, proto=2) as client:
            check_equal(text(client.get('AUTH', 'pass')), b'OK', 'AUTH')
            client.get('CONFIG', 'SET', 'busy-reply-threshold', '20')
            slow = Background(address, 'EVAL', FOREVER, '0', before=[('AUTH', 'pass')])
            wait_busy(client)
            with Connection(address, proto=2) as late:
                check_equal(text(late.get('SCREE', 'AUTH', 'guess')), b'WRONGPASS wrong cluster secret: it must equal the option secret of this backend', 'a wrong secret')
                check_equal(text(late.get('SCRIPT', 'KILL')), b'NOAUTH Authentication required.', 'without a password')
                for words in (('SCREE', 'AUTH', cluster.secret), ('SCREE', 'USE', 'name', '3')):
                    check_equal(text(late.get(*words)), b'OK', ' '.join(words))
                check_equal(text(late.get('SCRIPT', 'KILL')), NOTBUSY, 'from another namespace')
                check_equal(text(late.get('SCREE', 'USE', '', '3')), b'OK', 'SCREE USE')
                check(late.call('HELLO', '3')[0] == '%', 'HELLO 3')
                kill(late)
            check(b'killed by user' in slow.finish(), 'it was not killed')


# ---- the end of a script -------------------------------------------------------------------------------------------

def contents(client):
    """Keys, counts and types of databases 0 and 1, and the figures of INFO about them."""
    shown = [client.get('INFO', 'keyspace')]
    for db in ('0', '1'):
        client.get('SELECT', db)
        names = sorted(client.get('KEYS', '*'))
        shown.append([client.get('DBSIZE'), [(name, client.get('DUMP', name), client.get('TTL', name)) for name in names]])
    client.get('SELECT', '0')
    return shown


ALL_KINDS = '''
redis.call("set", "s", "new") redis.call("append", "s", "more") redis.call("del", "gone") redis.call("rpush", "l", "x")
redis.call("lpop", "l") redis.call("zadd", "z", 7, "n") redis.call("xadd", "x", "*", "a", "1") redis.call("expire", "h", 1000)
redis.call("hset", "h", "f", "2") for i = 1, 500 do redis.call("set", "fresh" .. i, i) end
pcall(redis.call, "incr", "l") %s
while true do end'''


@suite.case('an ended script is rolled back completely: over its limit, by SCREE SCRIPT KILL; also after FLUSHALL and SWAPDB')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        for words in (('SET', 's', 'old'), ('SET', 'gone', '1'), ('RPUSH', 'l', 'a', 'b'), ('ZADD', 'z', '1', 'm'), ('HSET', 'h', 'f', '1'),
                      ('XADD', 'x', '1-1', 'a', '0'), ('SELECT', '1'), ('SET', 'other', '1'), ('SELECT', '0')):
            client.get(*words)
        before = contents(client)
        for extra in ('', 'redis.call("flushall")', 'redis.call("swapdb", 0, 1) redis.call("set", "s", "swapped")',
                      'redis.call("flushdb") redis.call("swapdb", 1, 0) redis.call("set", "again", 1) redis.call("flushall")'):
            client.get('CONFIG', 'SET', 'command-time-limit', '0')
            for proto in (2, 3):
                slow = Background(address, 'EVAL', ALL_KINDS % extra, '0', proto=proto)
                wait_busy(client)
                check(b'UNKILLABLE' in text(client.get('SCRIPT', 'KILL')), 'SCRIPT KILL')
                check_equal(text(client.get('SCREE', 'SCRIPT', 'KILL')), b'OK', 'SCREE SCRIPT KILL')
                check(b'ended by SCREE SCRIPT KILL' in slow.finish(), 'the reply of the script')
                check_equal(contents(client), before, 'the dataset after SCREE SCRIPT KILL')
            client.get('CONFIG', 'SET', 'command-time-limit', '60ms')
            reply = text(client.get('EVAL', ALL_KINDS % extra, '0'))
            check(reply.startswith(b'ERR Script ended: it ran for longer than command-time-limit'), 'over its limit: %r' % reply)
            check_equal(contents(client), before, 'the dataset after the limit')
        check_equal(text(client.get('SCREE', 'SCRIPT', 'KILL')), NOTBUSY, 'SCREE SCRIPT KILL of nothing')
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        with cluster.partition(0) as again:
            check_equal(contents(again), before, 'the dataset after a crash')
        client.close()


@suite.case('in a transaction only an ended script is rolled back; a script that ends by itself keeps its writes')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        client.get('CONFIG', 'SET', 'command-time-limit', '60ms')
        for words in (('MULTI',), ('SET', 'a', '1'), ('EVAL', WRITES_FOREVER, '1', 'b'), ('SET', 'c', '1'), ('DBSIZE',)):
            client.get(*words)
        got = client.get('EXEC')
        check(b'command-time-limit' in text(got[1]), 'the script in EXEC: %r' % (got[1],))
        check_equal(got[3], 2, 'DBSIZE behind it')
        check_equal(client.get('MGET', 'a', 'b', 'c'), [b'1', None, b'1'], 'the keys')
        client.get('CONFIG', 'SET', 'command-time-limit', '0')
        reply = text(client.get('EVAL', 'redis.call("set", KEYS[1], "1") local n = 0 while n < 2e7 do n = n + 1 end error("x")', '1', 'kept'))
        check(b'x script' in reply or b'x' in reply, 'an error of its own')
        check_equal(client.get('GET', 'kept'), b'1', 'what a script wrote before its own error')
        client.close()


@suite.case('a script over its limit is ended whatever it does: catching errors, slow commands, in a function, while being loaded')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, _ = set_up(cluster, '1000000000')
        check_equal(client.get('FUNCTION', 'LOAD', ENDLESS_LIBRARY), b'q')
        check_equal(client.get('ZADD', 'z', *[word for i in range(20000) for word in (str(i), 'm%d' % i)]), 20000)
        client.get('CONFIG', 'SET', 'command-time-limit', '60ms')
        for words in (('EVAL', 'while true do pcall(function() while true do end end) end', '0'),
                      ('EVAL', 'local c = coroutine.wrap(function() while true do end end) c()', '0'),
                      ('EVAL', 'while true do redis.call("zunionstore", "d", 2, "z", "z") end', '0'),
                      ('EVAL_RO', 'while true do redis.pcall("zrange", "z", 0, -1) end', '0'), ('FCALL', 'loop', '0')):
            reply = text(client.get(*words))
            check(isinstance(reply, bytes) and b'command-time-limit' in reply, '%s: %r' % (words[1], reply))
        check_equal(client.get('EXISTS', 'd'), 0, 'what it stored')
        client.close()


IN_ITSELF = 'local m, t = {}, {} for i = 1, 300000 do m[i] = t end redis.setresp(3) '


@suite.case('a reply with big tables inside each other is ended when the script is over its limit, and others get BUSY until then')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': NO_LIMIT}) as cluster:
        client, address = set_up(cluster)
        for build in (IN_ITSELF + 't.map = m return t', IN_ITSELF + 'm[300001] = m m[1] = m return m'):
            slow = Background(address, 'EVAL', build, '0')
            wait_busy(client)
            check_equal(text(client.get('SCRIPT', 'KILL')), b'OK', 'KILL')
            check(b'killed by user' in slow.finish(), build)
        client.get('CONFIG', 'SET', 'command-time-limit', '200ms')
        for build in (IN_ITSELF + 't.map = m return t', IN_ITSELF + 'for i = 1, 300000 do m[i] = m end return m'):
            reply = text(client.get('EVAL', 'redis.call("set", "k", "v") ' + build, '0'))
            check(isinstance(reply, bytes) and b'command-time-limit' in reply, '%s: %r' % (build, reply))
        check_equal(client.get('EXISTS', 'k'), 0, 'what it wrote')
        client.close()


@suite.case('an ended script sends no message and no invalidation, and marks no watched key')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = set_up(cluster)
        client.get('CONFIG', 'SET', 'command-time-limit', '60ms')
        client.get('SET', 'k', 'old')
        listener, cache, watcher = Connection(address, proto=3), Connection(address, proto=3), Connection(address)
        listener.call('SUBSCRIBE', 'c')
        cache.call('CLIENT', 'TRACKING', 'ON')
        check_equal(cache.get('GET', 'k'), b'old', 'GET')
        watcher.call('WATCH', 'k')
        watcher.call('MULTI')
        watcher.call('GET', 'k')
        reply = text(client.get('EVAL', 'redis.call("publish", "c", "lost") ' + WRITES_FOREVER, '1', 'k'))
        check(b'command-time-limit' in reply, 'it was not ended')
        client.get('PUBLISH', 'c', 'next')
        check_equal(listener.read()[1][2], ('$', b'next'), 'the first message')
        check_equal(watcher.get('EXEC'), [b'old'], 'EXEC of a client that watches the key')
        check_equal(cache.get('GET', 'k'), b'old', 'GET again, without an invalidation before it')
        client.get('SET', 'k', 'new')
        check_equal(cache.read()[1][0], ('$', b'invalidate'), 'the message to the cache')
        for connection in (listener, cache, watcher, client):
            connection.close()


@suite.case('SIGTERM and SHUTDOWN NOSAVE end an endless script, roll it back, and the process exits cleanly')
def _(run):
    for how in ('SIGTERM', 'SIGTERM early', 'SHUTDOWN'):
        with Cluster(backends=1, partitions=2, proxies=0) as cluster:
            backend = cluster.backends[0]
            client, address = set_up(cluster, '1000000000' if how == 'SIGTERM early' else '20')
            client.get('SET', 'k', 'old')
            script = 'redis.log(redis.LOG_WARNING, "it runs") ' + WRITES_FOREVER
            slow = Background(address, 'EVAL', script, '1', 'k', before=[('SET', 'before', '1')])
            if how == 'SIGTERM early':
                wait_for(lambda backend=backend: b'it runs' in backend.log(), 'the script to run')
            else:
                wait_busy(client)
            check_equal(text(client.get('SHUTDOWN')), BUSY_SCRIPT, 'SHUTDOWN') if how == 'SHUTDOWN' else None
            if how == 'SHUTDOWN':
                client.send('SHUTDOWN', 'NOSAVE')
            else:
                backend.signal(signal.SIGTERM)
            check_equal(backend.wait_exit(60), 0, 'exit code')
            check(b'the server is stopping' in slow.finish(), 'the reply of the script')
            backend.start()
            with cluster.partition(0) as again:
                check_equal(again.get('MGET', 'k', 'before'), [b'old', b'1'], 'what was written')
            client.close()


@suite.case('a script that logs without end writes few lines, and the log has the number of dropped ones')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, _ = set_up(cluster)
        backend = cluster.backends[0]
        client.get('EVAL', 'redis.log(redis.LOG_WARNING, "first line")', '0')
        wait_for(lambda: b'first line' in backend.log(), 'the first line')
        before = len(backend.log())
        check_equal(client.get('EVAL', 'for i = 1, 30000 do redis.log(redis.LOG_WARNING, ("x"):rep(5000)) end return 1', '0'), 1, 'EVAL')
        wait_for(lambda: b'script_log_dropped' in backend.log(), 'the number of lines that were dropped')
        written = len(backend.log()) - before
        check(written < 20 << 20, '%d bytes were written of 150 MB' % written)
        client.close()


# ---- CLIENT PAUSE --------------------------------------------------------------------------------------------------

def paused(address):
    """The replies of a server while writes are paused, and afterwards."""
    shown = []
    for proto in (2, 3):
        with Connection(address, proto=proto) as client:
            client.call('FLUSHALL')
            client.call('CONFIG', 'RESETSTAT')
            # In one packet, so that the pause begins before the key expires, however slow the machine is.
            shown.append(client.pipeline([('SET', 'gone', 'v', 'PX', '500'), ('MULTI',), ('SET', 'a', '1'), ('PEXPIRE', 'a', '-1'), ('CLIENT', 'PAUSE', '600000', 'WRITE'),
                                          ('SET', 'b', '1'), ('EXISTS', 'a'), ('EXEC',)]))
            waiting = [Connection(address, proto=proto) for _ in range(3)]
            for connection, words in zip(waiting, (('SET', 'c', '1'), ('EVAL', 'return redis.call("set", KEYS[1], 1)', '1', 'd'),
                                                   ('PUBLISH', 'channel', 'x'))):
                connection.send(*words)
            wait_for(lambda: b'blocked_clients:3' in client.get('INFO', 'clients'), 'three clients that wait')
            wait_for(lambda: client.get('GET', 'gone') is None, 'the key to expire')
            time.sleep(0.5)
            shown.append([client.call('GET', 'gone'), client.call('DBSIZE'), client.call('EXISTS', 'gone', 'b', 'c', 'd')])
            shown.append(b'expired_keys:0' in client.get('INFO', 'stats'))
            client.call('CLIENT', 'UNPAUSE')
            shown.append([connection.read() for connection in waiting])
            shown.append(b'blocked_clients:0' in client.get('INFO', 'clients'))
            wait_for(lambda client=client: client.get('DBSIZE') == 3, 'what expired meanwhile to go')
            for connection in waiting:
                connection.close()
    return shown


@suite.case('CLIENT PAUSE: paused clients count as blocked, scripts are paused too, no key expires, in MULTI it begins after EXEC')
def _(run):
    check_as_redis(paused)


@suite.case('through the proxy clients paused by CLIENT PAUSE count as blocked')
def _(run):
    with Cluster(backends=1, partitions=3, proxies=1, proxy_options={'proxy': {'workers': '2'}}) as cluster:
        for proto in (2, 3):
            with cluster.connect(proto=proto) as client:

                def blocked(count, client=client):
                    return b'blocked_clients:%d\r' % count in client.get('INFO', 'clients')

                check_equal(text(client.get('CLIENT', 'PAUSE', '600000', 'WRITE')), b'OK', 'CLIENT PAUSE')
                waiting = [cluster.connect(proto=proto) for _ in range(6)]
                for i, connection in enumerate(waiting):
                    connection.send('SET', 'k%d' % i, 'v')
                wait_for(lambda blocked=blocked: blocked(6), 'six clients that wait')
                check_equal(text(client.get('CLIENT', 'UNPAUSE')), b'OK', 'CLIENT UNPAUSE')
                for connection in waiting:
                    check_equal(connection.read(), ('+', b'OK'), 'SET')
                    connection.close()
                wait_for(lambda blocked=blocked: blocked(0), 'no client that waits')


# ---- through the proxy ---------------------------------------------------------------------------------------------

UPSTREAM_TIMEOUT_S = max(4, 2 * harness.SLOW)  # some disks stall for seconds


def three_shards(timeout_s=UPSTREAM_TIMEOUT_S):
    return Cluster(backends=1, partitions=3, proxies=1, backend_options={'backend': NO_LIMIT}, proxy_options={
        'proxy': {'workers': '1'}, 'upstream': {'timeout': '%dms' % (1000 * timeout_s)}})


@suite.case('through the proxy a slow script does not make the shard count as dead: others get BUSY, and KILL reaches it')
def _(run):
    with three_shards() as cluster:
        proxy = ('127.0.0.1', cluster.proxies[0].port)
        for shard in range(3):
            with cluster.partition(shard) as client:
                client.get('CONFIG', 'SET', 'busy-reply-threshold', '20')
        slow_key, other_key = cluster.key_on(1), cluster.key_on(2)
        for proto in (2, 3):
            others = [cluster.connect(proto=proto) for _ in range(4)]
            check_equal(text(others[0].get('SCRIPT', 'KILL')).split(b' (')[0], NOTBUSY, 'SCRIPT KILL of nothing')
            load = Background(proxy, 'GET', slow_key, before=[('SET', slow_key, 'v')] * 20000, proto=proto)
            slow = Background(proxy, 'EVAL', FOREVER, '1', slow_key, before=[('SET', slow_key, 'v')] * 20, proto=proto)
            wait_for(lambda: text(others[0].get('GET', slow_key)) == BUSY_SCRIPT, 'BUSY')
            begun = time.monotonic()
            # upstream-timeout passes twice without a byte from the shard
            while time.monotonic() - begun < 2 * UPSTREAM_TIMEOUT_S:
                for client in others:
                    check_equal(text(client.get('GET', slow_key)), BUSY_SCRIPT, 'GET')
                    check_equal(text(client.get('SET', slow_key, 'x')), BUSY_SCRIPT, 'SET')
                    check_equal(client.get('EXISTS', other_key), 0, 'a key of another shard')
            late = cluster.connect(proto=proto)
            wait_for(lambda: text(late.get('EVAL', 'return 1', '1', slow_key)) == BUSY_SCRIPT, 'BUSY to a script')
            for words, want in ((('MULTI',), b'OK'), (('SET', slow_key, 'x'), b'QUEUED'),
                                (('EXEC',), b'EXECABORT Transaction discarded because of: ' + BUSY_SCRIPT)):
                check_equal(text(late.get(*words)), want, ' '.join(words))
            check_equal(text(late.get('FUNCTION', 'KILL')).split(b' (')[0], BUSY_SCRIPT, 'FUNCTION KILL of a script')
            kill(late)
            check(b'killed by user' in slow.finish(), 'it was not killed: %r' % (slow.replies[-1],))
            wait_for(lambda: text(late.get('GET', slow_key)) == b'v', 'the end of BUSY')
            load.finish()
            check(set(load.replies[:-1]) <= {('+', b'OK'), ('-', BUSY_SCRIPT)}, 'replies to writes beside the script')
            for client in others + [late]:
                client.close()


@suite.case('a script that runs for longer than peer-timeout before its shard listens leaves the links to other shards up')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, linked=True) as cluster:
        cluster.wait_linked()
        client = cluster.partition(0)
        check_equal(text(client.get('CONFIG', 'SET', 'peer-timeout', '1s', 'busy-reply-threshold', '2000')), b'OK')  # the other shard is patient

        def downs():
            return [backend.log().count(b'peer_down') for backend in cluster.backends]
        before = downs()
        spin = "local begun = os.clock() while os.clock() - begun < 3 do end return 'done'"
        check_equal(text(client.get('EVAL', spin, '0')), b'done')
        cluster.wait_linked()
        check_equal(downs(), before, 'links that broke')


@suite.case('through the proxy requests behind a slow command on the same connection get a reply within their time-out')
def _(run):
    with three_shards(timeout_s=3) as cluster:  # longer than it takes until SIGCONT
        proxy = ('127.0.0.1', cluster.proxies[0].port)
        for shard in range(3):
            with cluster.partition(shard) as client:
                client.get('CONFIG', 'SET', 'busy-reply-threshold', '20')
        key = cluster.key_on(1)
        with cluster.connect() as killer:
            killer.get('JSON.SET', key, '$', '[' + ','.join('{"a":%d}' % i for i in range(130)) + ']')
            for slow_command, others in ((('EVAL', FOREVER, '1', key), [('EVAL', 'return 1', '1', key)]),
                                         (('JSON.GET', key, *['$[?($[?($[?(@.z==1)])])]'] * 2000),
                                          [('JSON.GET', key, '$'), ('GET', key), ('CONFIG', 'SET', 'slowlog-log-slower-than', '10000'), ('DBSIZE',)])):
                clients = [cluster.connect() for _ in others]
                cluster.backends[0].signal(signal.SIGSTOP)  # so that all of them are read in one turn
                slow = Background(proxy, *slow_command)
                wait_for(lambda: int(metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_inflight')) > 0, 'the command to be sent')
                for client, words in zip(clients, others):
                    client.send(*words)
                cluster.backends[0].signal(signal.SIGCONT)
                for client, words in zip(clients, others):
                    kind, reply = client.read()
                    check(kind == '-' and (b'no reply within' in reply or b'BUSY' in reply), '%r: %r' % (words, reply))
                    client.close()
                check(not slow.replies, 'the slow command has ended')
                command = ('SCRIPT', 'KILL') if slow_command[0] == 'EVAL' else ('SCREE', 'KILL', killer.get('SCREE', 'RUNNING')[0][1])
                check_equal(text(killer.get(*command)), b'OK', 'the end of the slow command')
                check(b'killed by' in slow.finish() or b'ended by' in slow.finish(), 'its reply')


@suite.case('through the proxy SCRIPT KILL replies UNKILLABLE for a script that has written, and SCREE SCRIPT KILL ends it')
def _(run):
    with three_shards() as cluster:
        proxy = ('127.0.0.1', cluster.proxies[0].port)
        for shard in range(3):
            set_up_threshold(cluster, shard)
        for proto in (2, 3):
            for shard in range(3):
                key = cluster.key_on(shard)
                slow = Background(proxy, 'EVAL', WRITES_FOREVER, '1', key, proto=proto)
                with cluster.connect(proto=proto) as client:
                    wait_for(lambda: text(client.get('GET', key)) == BUSY_SCRIPT, 'BUSY')
                    check(text(client.get('SCRIPT', 'KILL')).startswith(b'UNKILLABLE'), 'SCRIPT KILL')
                    check_equal(text(client.get('SCREE', 'SCRIPT', 'KILL')), b'OK', 'SCREE SCRIPT KILL')
                    check(b'ended by SCREE SCRIPT KILL' in slow.finish(), 'the reply of the script')
                    wait_for(lambda: client.get('GET', key) is None, 'what it wrote to be gone')


@suite.case('a slow script over shards whose keys an older transaction wants keeps its writes, or begins again')
def _(run):
    options = {'backend': dict(NO_LIMIT, **{'lock-timeout': '5m', 'transaction-timeout': '5m'})}
    wait = "local stop = os.clock() + %s while os.clock() < stop do end "
    with Cluster(backends=3, partitions=1, proxies=1, linked=True, backend_options=options) as cluster:
        own, wanted, other = (cluster.key_on(shard, 'key') for shard in range(3))
        address = ('127.0.0.1', cluster.proxies[0].port)
        set_up_threshold(cluster, 0)
        with cluster.partition(0) as first, cluster.connect() as client:
            check_equal(client.get('SET', wanted, '-'), b'OK')
            older = Background(address, 'EVAL', wait % 0.3 +  # less than the 5 s after which its shard calls it slow, on a busy machine too
                               "return redis.call('APPEND', ARGV[1], 'O')", '1', other, wanted)
            time.sleep(0.2)  # so that it is older; the result does not depend on it
            younger = Background(address, 'EVAL', "redis.call('SET', KEYS[1], 'x') local was = redis.call('GET', KEYS[2]) " + wait % 1.5 +
                                 "redis.call('SET', KEYS[2], was .. 'Y') return 1", '2', own, wanted)
            wait_busy(first)
            check_equal(younger.finish(), 1, 'the younger script')
            check(older.finish() in (2, 3), 'the length after the older one: %r' % (older.replies,))
            check_equal(sorted(client.get('GET', wanted)), sorted(b'-OY'), 'the writes of both')
            check_equal(client.get('GET', own), b'x')


@suite.case('a slow script that comes to a key of its shard which a transaction has locked gets TRYAGAIN, and the shard lives on')
def _(run):
    options = {'backend': dict(NO_LIMIT, **{'lock-timeout': '5m', 'transaction-timeout': '5m'})}
    wait = "local stop = os.clock() + %s while os.clock() < stop do end "
    with Cluster(backends=2, partitions=1, proxies=1, linked=True, backend_options=options) as cluster:
        locked, free, other = cluster.key_on(0, 'locked'), cluster.key_on(0, 'free'), cluster.key_on(1)
        address = ('127.0.0.1', cluster.proxies[0].port)
        for shard in range(2):
            set_up_threshold(cluster, shard)
        with cluster.partition(0) as first, cluster.partition(1) as second:
            holder = Background(address, 'EVAL', "redis.call('SET', KEYS[1], 'x') redis.call('SET', KEYS[2], 'x') " + wait % 3 + 'return 1',
                                '2', other, locked)
            wait_for(lambda: b' state=locked ' in b''.join(first.get('SCREE', 'TRANSACTIONS')), 'the key to be locked')
            wait_busy(second)
            slow = begin_until(lambda: is_busy(first), lambda: Background(
                address, 'EVAL', wait % 0.5 + "return redis.call('GET', ARGV[1])", '1', free, locked))
            check(slow.finish().startswith(b'TRYAGAIN'), 'the slow script: %r' % (slow.replies,))
            check_equal(holder.finish(), 1)
            check_equal(first.get('GET', locked), b'x')


if __name__ == '__main__':
    suite.main()
