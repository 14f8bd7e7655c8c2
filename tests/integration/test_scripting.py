#!/usr/bin/python3
"""Scripts that run for long, scripts that need too much memory, and functions after a crash."""

import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Cluster
from harness import Suite, check, check_equal, wait_for
from resp import Connection, ReplyError

suite = Suite(__doc__)
BUSY = b'BUSY Redis is busy running a script. You can only call %s KILL or SHUTDOWN NOSAVE.'
FOREVER = ['while true do end', 'while true do pcall(function() while true do end end) end',
           'while true do xpcall(function() while true do end end, function() while true do end end) end',
           'local c = coroutine.wrap(function() while true do end end) c()',
           'while true do coroutine.resume(coroutine.create(function() while true do end end)) end',
           'local s = "" while true do s = s .. "x" if #s > 1000 then s = "" end end']


def text(reply):
    """An error's text as bytes, any other reply as it is."""
    if isinstance(reply, ReplyError):
        words = str(reply)
        return words.encode() if isinstance(words, str) else words
    return reply


class Background:
    """A command that runs on a connection of its own."""

    def __init__(self, address, *words):
        self.reply = None
        self.connection = Connection(address, 60, 2)
        self.thread = threading.Thread(target=self.run, args=(words,), daemon=True)
        self.thread.start()

    def run(self, words):
        self.reply = self.connection.get(*words)

    def finish(self):
        self.thread.join(60)
        check(not self.thread.is_alive(), 'the command did not end')
        self.connection.close()
        return text(self.reply)


def is_busy(client):
    reply = text(client.get('PING'))
    return isinstance(reply, bytes) and b'BUSY' in reply


def start(cluster):
    client = cluster.partition(0, 60)
    client.get('CONFIG', 'SET', 'busy-reply-threshold', '50')
    return client, cluster.backends[0].addresses[0]


@suite.case('a script over its time: others get BUSY, SCRIPT KILL ends it, whatever it does')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        check_equal(text(client.get('SCRIPT', 'KILL')), b'NOTBUSY No scripts in execution right now.', 'KILL of nothing')
        for script in FOREVER:
            background = Background(address, 'EVAL', script, '0')
            wait_for(lambda: is_busy(client), 'BUSY', 30)
            check_equal(text(client.get('GET', 'k')), BUSY % b'SCRIPT', 'GET meanwhile')
            check_equal(text(client.get('FUNCTION', 'KILL')), BUSY % b'SCRIPT', 'FUNCTION KILL of a script')
            client.get('SCRIPT', 'KILL')
            check(b'Script killed by user with SCRIPT KILL.' in background.finish(), 'it was not killed')
            check(not is_busy(client), 'still busy')
        client.close()


@suite.case('a script that has written cannot be killed, and its writes are seen when it ends')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        script = 'redis.call("set","k","1") local n = 0 while n < 6e7 do n = n + 1 end return redis.call("incr","k")'
        background = Background(address, 'EVAL', script, '1', 'k')
        wait_for(lambda: is_busy(client), 'BUSY', 30)
        check(b'UNKILLABLE' in text(client.get('SCRIPT', 'KILL')), 'it could be killed')
        check_equal(background.finish(), 2, 'its reply')
        check_equal(client.get('GET', 'k'), b'2', 'what it wrote')
        client.close()


@suite.case('the client of a slow script goes away: the script can be killed and the server goes on')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        gone = Connection(address, 60, 2)
        gone.send('EVAL', FOREVER[0], '0')
        wait_for(lambda: is_busy(client), 'BUSY', 30)
        gone.close()
        for _ in range(20):
            other = Connection(address, 60, 2)
            check(is_busy(other), 'not busy')
            other.close()
        client.get('SCRIPT', 'KILL')
        wait_for(lambda: not is_busy(client), 'the end of the script', 30)
        check_equal(text(client.get('SET', 'k', 'v')), b'OK', 'SET afterwards')
        client.close()


@suite.case('a script that wants too much memory fails, the next one runs')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0, 60)
        for script in ['local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(20) .. i end', 'return ("x"):rep(200 * 1024 * 1024)',
                       'local s = "x" while true do s = s .. s end']:
            check(b'not enough memory' in text(client.get('EVAL', script, '0')), script)
            check_equal(client.get('EVAL', 'return 7', '0'), 7, 'the next script')
        client.close()


@suite.case('functions are there after kill -9, and a removed one is not')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        client = cluster.partition(0, 60)
        for name in ('one', 'two', 'three'):
            code = '#!lua name=%s\nredis.register_function("f_%s", function(keys) return redis.call("incr", keys[1]) end)'
            check_equal(client.get('FUNCTION', 'LOAD', code % (name, name)), name.encode(), 'LOAD')
        client.get('FUNCTION', 'DELETE', 'two')
        check_equal(client.get('FCALL', 'f_one', '1', 'k'), 1, 'FCALL')
        client.close()
        backend.kill9()
        backend.start()
        with cluster.partition(0, 60) as client:
            check_equal(client.get('FCALL', 'f_one', '1', 'k'), 2, 'FCALL after the crash')
            check_equal(client.get('FCALL', 'f_three', '1', 'k'), 3, 'FCALL after the crash')
            check_equal(text(client.get('FCALL', 'f_two', '1', 'k')), b'ERR Function not found', 'the removed one')


@suite.case('a loop in a library that is being loaded is stopped')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        check(b'FUNCTION LOAD timeout' in text(client.get('FUNCTION', 'LOAD', '#!lua name=q\nwhile true do end')), 'no timeout')
        client.get('FUNCTION', 'LOAD', '#!lua name=q\nredis.register_function("loop", function() while true do end end)')
        background = Background(address, 'FCALL', 'loop', '0')
        wait_for(lambda: is_busy(client), 'BUSY', 30)
        check_equal(text(client.get('SCRIPT', 'KILL')), BUSY % b'FUNCTION', 'SCRIPT KILL of a function')
        client.get('FUNCTION', 'KILL')
        check(b'Script killed by user with FUNCTION KILL.' in background.finish(), 'it was not killed')
        client.close()


if __name__ == '__main__':
    suite.main()
