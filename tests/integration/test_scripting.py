#!/usr/bin/python3
"""Scripts that run for long or need too much memory, and functions after a crash."""

import re
import sys
import threading

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Connection, value
from support.slow import begin_until, text

suite = Suite(__doc__)
BUSY = b'BUSY Redis is busy running a script. You can only call %s KILL or SHUTDOWN NOSAVE.'
FOREVER = ['while true do end', 'while true do pcall(function() while true do end end) end',
           'while true do xpcall(function() while true do end end, function() while true do end end) end',
           'local c = coroutine.wrap(function() while true do end end) c()',
           'while true do coroutine.resume(coroutine.create(function() while true do end end)) end',
           'local s = "" while true do s = s .. "x" if #s > 1000 then s = "" end end']
# Each of these spends its time inside one call of a library function.
FOREVER_IN_C = [
    """string.find(("a"):rep(20000), (".-"):rep(8190) .. "b")""",
    """string.gsub(("a"):rep(20000), (".-"):rep(8190) .. "b", "")""",
    """for _ in string.gmatch(("a"):rep(20000), (".-"):rep(8190) .. "b") do end""",
    """local s = ("x"):rep(2e7) while true do pcall(string.match, s, "[" .. ("a"):rep(16000) .. "]") end""",
    """local t = {} for i = 1, 900 do t = {t, t} end while true do pcall(cjson.encode, t) end""",
    """local s = ("x"):rep(1e7) local t = {} for i = 1, 1e5 do t[i] = s end table.sort(t)""",
    """table.insert({}, -2147483647, 1) while true do end""",
    """while true do load(math.random) end""",
    """local c = "local a return " .. ("a and "):rep(3e5) .. "a" while true do loadstring(c) end""",
    """local t = {} for i = 1, 2e5 do t[i] = i end while true do table.foreach(t, tostring) end""",
    """local t = {} for i = 1, 500 do t[i] = {} end for i = 1, 8 do for j = 1, 500 do t[j] = {t[1], t[2], t[j]} end end
       while true do pcall(cmsgpack.pack, t) end""",
]


class Background:
    """A command that runs on a connection of its own."""

    def __init__(self, address, *words):
        self.reply = None
        self.connection = Connection(address, proto=2)
        self.thread = threading.Thread(target=self.run, args=(words,), daemon=True)
        self.thread.start()

    def run(self, words):
        self.reply = self.connection.get(*words)

    def finish(self):
        self.thread.join(patience())
        check(not self.thread.is_alive(), 'the command did not end')
        self.connection.close()
        return text(self.reply)


def is_busy(client):
    reply = text(client.get('PING'))
    return isinstance(reply, bytes) and b'BUSY' in reply


def start(cluster):
    client = cluster.partition(0)
    client.get('CONFIG', 'SET', 'busy-reply-threshold', '50')
    return client, cluster.backends[0].addresses[0]


@suite.case('a script over its time limit: other clients get BUSY, and SCRIPT KILL ends it, whatever it does')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        check_equal(text(client.get('SCRIPT', 'KILL')), b'NOTBUSY No scripts in execution right now.', 'KILL of nothing')
        for script in FOREVER:
            background = Background(address, 'EVAL', script, '0')
            wait_for(lambda: is_busy(client), 'BUSY')
            check_equal(text(client.get('GET', 'k')), BUSY % b'SCRIPT', 'GET meanwhile')
            check_equal(text(client.get('FUNCTION', 'KILL')), BUSY % b'SCRIPT', 'FUNCTION KILL of a script')
            client.get('SCRIPT', 'KILL')
            check(b'Script killed by user with SCRIPT KILL...' in background.finish(), 'it was not killed')
            check(not is_busy(client), 'still busy')
        client.close()


@suite.case('a script that stays inside one call of a library function is killed too')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        for script in FOREVER_IN_C:
            background = Background(address, 'EVAL', script, '0')
            wait_for(lambda: is_busy(client) or background.reply is not None, 'BUSY')
            check(background.reply is None, '%s ended by itself: %s' % (script, text(background.reply)))
            client.get('SCRIPT', 'KILL')
            check(b'Script killed by user with SCRIPT KILL.' in background.finish(), '%s was not killed' % script)
        client.close()


@suite.case('hostile arguments that crashed other servers get a reply')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as client:
            for script, reply in [
                    ('return bit.tohex(1,-2147483648)', b'00000001'),  # CVE-2024-31449
                    ('return {unpack({1},0,2147483647)}', b'too many results to unpack'),  # CVE-2025-46817
                    ('return {unpack({1},-2147483648,2147483647)}', b'too many results to unpack'),
                    ('return struct.pack(">I2147483648", 1)', b'integral size overflow'),  # CVE-2015-8080
                    ('return struct.unpack("I33", ("x"):rep(40))', b'larger than limit of 32'),  # CVE-2018-11219
                    ('return struct.unpack("c0", "x", 2^62)', b'data string too short'),
                    ('return cmsgpack.unpack(("\145"):rep(100000))', b'too many return values'),  # CVE-2018-11218
                    ('cjson.encode_max_depth(2^31-1) local t={} t[1]=t return cjson.encode(t)', b'excessive nesting'),
                    ('local t={} for i=1,900 do t={t,t} end return #cjson.encode(t)', None),
                    ('local s=("\1"):rep(1e7) return #cjson.encode({s,s,s,s,s,s})', b'not enough memory'),  # CVE-2022-24834
                    ('return loadstring("return [" .. ("="):rep(1e7) .. "[")', None),  # CVE-2025-46819
                    ('getmetatable("").__index=nil', b'readonly'),  # CVE-2025-46818
                    ('getmetatable("").__sub=function() return 1 end', b'readonly'),
                    ('setmetatable("",{})', b'table expected'),
                    ('string.rep=nil', b'readonly'),
                    ('return newproxy(true)', b'newproxy'),  # CVE-2024-46981
                    ('setmetatable({},{__gc=error}) collectgarbage() return 7', 7),
                    # CVE-2025-49844: the name of a chunk without other references, while the parser fills the memory
                    ('for i=1,50 do loadstring("local a=\\""..("x"):rep(1e5)..i.."\\" return "..("{"):rep(150)..("}"):rep(150), '
                     '"n"..i) collectgarbage() end return 7', 7),
                    ('__redis__err__handler(_G) return source', b"nonexistent global variable 'source'"),
                    ('return {bit.rol(1,-1),bit.rol(1,2^31),bit.lshift(1,-33)}', None)]:
                client.get('CONFIG', 'SET', 'busy-reply-threshold', '50')
                if reply is None:
                    background = Background(cluster.backends[0].addresses[0], 'EVAL', script, '0')
                    wait_for(lambda: not background.thread.is_alive() or text(client.get('SCRIPT', 'KILL')) == b'OK', 'its end')
                    background.finish()
                    continue
                got = text(client.get('EVAL', script, '0'))
                check(got == reply or (isinstance(got, bytes) and reply in got), '%s: %s' % (script, got))


@suite.case('an error that a script or a filter replies itself leaves the replies before and behind it as they are')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        own = 'ERR the reason'
        commands = [['SET', 'k', 'v'], ['EVAL', "redis.call('SET', 'a', 1) return redis.error_reply('%s')" % own, 0], ['GET', 'a'],
                    ['EVAL', "return {1, redis.pcall('LPUSH', 'k', 'x')}", 0], ['PING'],
                    ['MULTI'], ['SET', 'k', 'w'], ['EVAL', "return {err='%s'}" % own, 0], ['GET', 'k'], ['EXEC'],
                    ['CLIENT', 'LIST', 'TYPE', 'bad'], ['GET', 'k']]
        for connection in (cluster.connect(), cluster.partition(0)):
            with connection as client:
                replies = [value(reply) for reply in client.pipeline(commands)]
                check_equal(replies[0], b'OK')
                check_equal([str(replies[1]), replies[2]], [own, b'1'])
                check_equal([replies[3][0], str(replies[3][1])[:9], replies[4]], [1, 'WRONGTYPE', b'PONG'])
                check_equal([replies[9][0], str(replies[9][1]), replies[9][2]], [b'OK', own, b'w'])
                check_equal([str(replies[10]), replies[11]], ["ERR Unknown client type 'bad'", b'w'])


@suite.case("a script's settings of the garbage collector and of cjson end with the script")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as client:
            client.get('EVAL', """collectgarbage('stop') collectgarbage('setpause', 10000) collectgarbage('setstepmul', 1)
                cjson.encode_max_depth(1) cjson.decode_max_depth(1) cjson.encode_sparse_array(true, 1, 1)
                cjson.encode_number_precision(1) cjson.encode_invalid_numbers('null') cjson.encode_keep_buffer(false)""", '0')
            check_equal(client.get('EVAL', 'return cjson.encode({{1.25,cjson.decode("[[1]]")}})', '0'), b'[[1.25,[[1]]]]', 'encode')
            check_equal(client.get('EVAL', 'return {cjson.encode_sparse_array()}', '0'), [None, 2, 10], 'encode_sparse_array')
            check_equal(client.get('EVAL', 'return cjson.encode_keep_buffer()', '0'), 1, 'encode_keep_buffer')
            check(b'NaN or Inf' in text(client.get('EVAL', 'return cjson.encode(1/0)', '0')), 'encode_invalid_numbers')
            for _ in range(20):  # if the collector had stopped, this would exceed the memory limit
                check_equal(client.get('EVAL', 'local t for i=1,1000 do t=("x"):rep(20000)..i end return 7', '0'), 7, 'garbage')


@suite.case('a script that has written cannot be killed, and its writes are visible when it ends')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        script = 'redis.call("set","k","1") local n = 0 while n < 6e7 do n = n + 1 end return redis.call("incr","k")'
        background = begin_until(lambda: b'UNKILLABLE' in text(client.get('SCRIPT', 'KILL')), lambda: Background(address, 'EVAL', script, '1', 'k'))
        check_equal(background.finish(), 2, 'its reply')
        check_equal(client.get('GET', 'k'), b'2', 'what it wrote')
        client.close()


@suite.case('the client of a slow script disconnects: the script can be killed, and the server continues')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        gone = Connection(address, proto=2)
        gone.send('EVAL', FOREVER[0], '0')
        wait_for(lambda: is_busy(client), 'BUSY')
        gone.close()
        for _ in range(20):
            other = Connection(address, proto=2)
            check(is_busy(other), 'not busy')
            other.close()
        client.get('SCRIPT', 'KILL')
        wait_for(lambda: not is_busy(client), 'the end of the script')
        check_equal(text(client.get('SET', 'k', 'v')), b'OK', 'SET afterwards')
        client.close()


@suite.case('a script that needs too much memory fails, the next one runs')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0)
        for script in ['local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(20) .. i end', 'return ("x"):rep(200 * 1024 * 1024)',
                       'local s = "x" while true do s = s .. s end']:
            check(b'not enough memory' in text(client.get('EVAL', script, '0')), script)
            check_equal(client.get('EVAL', 'return 7', '0'), 7, 'the next script')
        client.close()


@suite.case('functions are there after kill -9, and a deleted one is not')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        client = cluster.partition(0)
        for name in ('one', 'two', 'three'):
            code = '#!lua name=%s\nredis.register_function("f_%s", function(keys) return redis.call("incr", keys[1]) end)'
            check_equal(client.get('FUNCTION', 'LOAD', code % (name, name)), name.encode(), 'LOAD')
        client.get('FUNCTION', 'DELETE', 'two')
        check_equal(client.get('FCALL', 'f_one', '1', 'k'), 1, 'FCALL')
        client.close()
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('FCALL', 'f_one', '1', 'k'), 2, 'FCALL after the crash')
            check_equal(client.get('FCALL', 'f_three', '1', 'k'), 3, 'FCALL after the crash')
            check_equal(text(client.get('FCALL', 'f_two', '1', 'k')), b'ERR Function not found', 'the removed one')


def library(name, *functions):
    return '\n'.join(['#!lua name=' + name] + ['redis.register_function("%s", function() return "%s" end)' % (f, name)
                                               for f in functions])


@suite.case('FUNCTION RESTORE REPLACE accepts a function moved to another library; the error names a collision')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0)
        for code in (library('one', 'a'), library('two', 'b', 'c')):
            client.get('FUNCTION', 'LOAD', code)
        dump = client.get('FUNCTION', 'DUMP')
        client.get('FUNCTION', 'FLUSH')
        client.get('FUNCTION', 'LOAD', library('one', 'b'))
        check_equal(text(client.get('FUNCTION', 'RESTORE', dump)), b'ERR Library one already exists', 'APPEND')
        check_equal(client.get('FUNCTION', 'RESTORE', dump, 'REPLACE'), b'OK', 'REPLACE')
        check_equal([client.get('FCALL', name, '0') for name in 'abc'], [b'one', b'two', b'two'], 'FCALL')
        client.close()
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        with cluster.partition(0) as client:
            check_equal([client.get('FCALL', name, '0') for name in 'abc'], [b'one', b'two', b'two'], 'FCALL after a crash')
            client.get('FUNCTION', 'FLUSH')
            client.get('FUNCTION', 'LOAD', library('other', 'b'))
            check_equal(text(client.get('FUNCTION', 'RESTORE', dump)), b'ERR Function b already exists', 'what collides')


BODY = "redis.register_function('of_%d', function() return 1 end)"
FIRST_LINES = ['#!lua name="quoted"', "#!lua name='quotes'", '#!lua "name=whole"', '#!"lua" name=engine', '#!lua name="open', '#!lua name="a"b', '#!lua',
               '#!lua name="with space"', '#!lua name=""', '#!LUA name=upper', '#!lua name=a name=b', '#!js name=a', '#!lua x=y', '#! lua name=z']


@suite.case('first lines of libraries, and collisions of FUNCTION RESTORE, have the replies of redis-server')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Oracle() as oracle, \
            cluster.partition(0) as ours, Connection(oracle.address) as theirs:
        for i, line in enumerate(FIRST_LINES):
            code = line + '\n' + BODY % i
            check_equal(ours.call('FUNCTION', 'LOAD', code), theirs.call('FUNCTION', 'LOAD', code), line)
        dumps = []
        for libraries in (['one', 'a'], ['two', 'b']), (['one', 'b'], ['three', 'c']), (['four', 'a', 'b'], ['two', 'd']):
            theirs.get('FUNCTION', 'FLUSH')
            for words in libraries:
                theirs.get('FUNCTION', 'LOAD', library(*words))
            dumps.append(theirs.get('FUNCTION', 'DUMP'))
        for first in dumps:
            for second in dumps:
                for policy in ('APPEND', 'REPLACE', 'FLUSH'):
                    replies = []
                    for client in (ours, theirs):
                        client.get('FUNCTION', 'FLUSH')
                        client.get('FUNCTION', 'RESTORE', first)
                        replies.append(client.call('FUNCTION', 'RESTORE', second, policy))
                    if first is second or dumps[2] in (first, second):  # of several collisions Redis names that of its hash table
                        replies = [(kind, re.sub(rb'(Library|Function) \w+', rb'\1 ?', words)) for kind, words in replies]
                    check_equal(replies[0], replies[1], '%s %d %d' % (policy, dumps.index(first), dumps.index(second)))


@suite.case('a table that contains itself is replied to the same depth as in Redis')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as client:
            sys.setrecursionlimit(100000)
            reply, depth = client.get('EVAL', 'local t = {} t[1] = t return t', '0'), 0
            while isinstance(reply, list):
                reply, depth = reply[0], depth + 1
            check_equal((depth, text(reply)), (7995, b'ERR reached lua stack limit'), 'its depth')


@suite.case('a map or set that contains itself is replied to the same depth as in Redis')
def _(run):
    def play(address):
        with Connection(address, patience()) as client:
            return [client.call('EVAL', 'local t = {} t.%s return t' % field, '0') for field in ('map = {t}', 'set = {[t] = true}')]

    sys.setrecursionlimit(100000)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with Oracle() as oracle:
            want = play(oracle.address)
        check(play(cluster.backends[0].addresses[0]) == want, 'another depth')


@suite.case('an endless loop in a library is stopped while it is loaded')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client, address = start(cluster)
        check(b'FUNCTION LOAD timeout' in text(client.get('FUNCTION', 'LOAD', '#!lua name=q\nwhile true do end')), 'no timeout')
        client.get('FUNCTION', 'LOAD', '#!lua name=q\nredis.register_function("loop", function() while true do end end)')
        background = Background(address, 'FCALL', 'loop', '0')
        wait_for(lambda: is_busy(client), 'BUSY')
        check_equal(text(client.get('SCRIPT', 'KILL')), BUSY % b'FUNCTION', 'SCRIPT KILL of a function')
        client.get('FUNCTION', 'KILL')
        check(b'Script killed by user with SCRIPT KILL...' in background.finish(), 'it was not killed')
        client.close()


@suite.case('os.clock counts processor time in scripts and functions; nothing else of os is there')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0)
        loop = "local begun = os.clock() local n = 0 while os.clock() - begun < 0.01 do n = n + 1 end return n"
        check(client.get('EVAL', loop, '0') > 0, 'a script that waits for ten milliseconds of it')
        check_equal(client.get('EVAL', "local names = {} for name in pairs(os) do names[#names + 1] = name end return names", '0'), [b'clock'])
        check('readonly' in str(client.get('EVAL', 'os.clock = 1', '0')), 'it is read-only')
        check_equal(client.get('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return type(os.clock()) end)"), b'lib')
        check_equal(client.get('FCALL', 'f', '0'), b'number')


@suite.case('two thousand libraries: each is found by its name, each function by its name in any case, also after others are replaced and deleted')
def _(run):
    code = "#!lua name=lib%d\nredis.register_function('Func%d', function() return %d end)"
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = cluster.partition(0)
        client.pipeline([['FUNCTION', 'LOAD', code % (i, i, i)] for i in range(2000)])
        check_equal(client.get('FCALL', 'fUNC1234', '0'), 1234)
        check('already exists' in str(client.get('FUNCTION', 'LOAD', code % (7, 7, 7))), 'a library of this name')
        check('already exists' in str(client.get('FUNCTION', 'LOAD', code % (9999, 7, 7))), 'a function of this name')
        check_equal(client.get('FUNCTION', 'LOAD', 'REPLACE', code % (7, 5000, 1)), b'lib7')
        check('not found' in str(client.get('FCALL', 'func7', '0')), 'the function of the replaced library')
        check_equal(client.get('FUNCTION', 'DELETE', 'lib8'), b'OK')
        check('not found' in str(client.get('FCALL', 'func8', '0')), 'the function of the deleted library')
        check_equal((client.get('FCALL', 'func5000', '0'), client.get('FCALL', 'func1999', '0')), (1, 1999))
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        check_equal(cluster.partition(0).get('FCALL', 'func1234', '0'), 1234)


if __name__ == '__main__':
    suite.main()
