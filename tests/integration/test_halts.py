#!/usr/bin/python3
"""Scripts over shards that wait in the middle of their code for keys that nothing foretold: results and errors are those of
one shard, nothing runs twice, and other clients are served while they wait.
"""

import re
import threading

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import ReplyError

suite = Suite(__doc__)

# No list and no number foretells these keys, which are at all shards.
NAMES = "local function name(i) return redis.sha1hex(tostring(i)) end "


def shards(count, **options):
    return Cluster(backends=count, partitions=1, linked=count > 1, **options)


def script_lines(cluster, text):
    """How often scripts have logged the text, at all shards."""
    count = 0
    for backend in cluster.backends:
        with open(backend.log_path, 'rb') as log:
            count += sum(b' script ' in line and text in line for line in log)
    return count


def calls_of(cluster, command):
    """How often the command was called, at all shards."""
    count = 0
    for shard in range(len(cluster.backends)):
        with cluster.partition(shard) as connection:
            connection.get('SCREE', 'AUTH', cluster.secret)
            found = re.search(rb'cmdstat_%s:calls=(\d+)' % command, connection.get('INFO', 'commandstats'))
            count += int(found[1]) if found else 0
    return count


@suite.case('a script with thousands of keys that nothing foretold runs its code once, and counts each command once')
def _(run):
    with shards(3) as cluster, cluster.connect() as client:
        count = sized(3000, long=100000)
        script = NAMES + "redis.log(redis.LOG_WARNING, 'begins') for i = 1, ARGV[1] do redis.call('INCR', name(i)) end return ARGV[1]"
        check_equal(client.get('EVAL', script, 0, count), b'%d' % count)
        # once up to the first key of another shard, and once from the beginning to the end
        wait_for(lambda: script_lines(cluster, b'begins'), 'the line of the script')
        lines = script_lines(cluster, b'begins')
        check(lines <= 2, 'the script began %d times' % lines)
        check_equal(calls_of(cluster, b'incr'), count)
        check_equal(client.get('DBSIZE'), count)
        check_equal(client.get('EVAL', NAMES + "local n = 0 for i = 1, ARGV[1] do n = n + redis.call('GET', name(i)) end return n", 0, count),
                    count)


# Each is run on one shard and on three, and must reply the same. ARGV[1] is a number that makes its keys new.
SCRIPTS = {
    'the error of redis.call': "redis.call('SET', key(1), 'x')\nredis.call('GET', key(2))\nreturn redis.call('INCR', key(1))",
    'the error of a key that is elsewhere': "redis.call('RPUSH', key(1), 'x') redis.call('GET', key(2)) redis.call('GET', key(3))\n"
                                            "redis.call('LPUSH', key(2), 'x')\nreturn redis.call('INCR', key(2))",
    'an error that is raised later': "for i = 1, 9 do redis.call('SET', key(i), i) end\nerror('mine')",
    'an error that is a table': "for i = 1, 9 do redis.call('SET', key(i), i) end\nerror({err = 'MY own'})",
    'an error of Lua': "for i = 1, 9 do redis.call('SET', key(i), i) end\nreturn nil + 1",
    'a refusal': "for i = 1, 9 do redis.call('SET', key(i), i) end\nreturn redis.call('NOTHING', key(1))",
    'redis.pcall': "local r = {} for i = 1, 9 do r[i] = redis.pcall('INCRBY', key(i), i == 5 and 'x' or i) end\n"
                   "r[5] = r[5].err return r",
    'a tail call': "local function get(i) return redis.call('GET', key(i)) end for i = 1, 9 do redis.call('SET', key(i), i) end "
                   "local n = 0 for i = 1, 9 do n = n + get(i) end return redis.call('INCRBY', key(10), n)",
    'pcall': "local n = 0 for i = 1, 9 do local good = pcall(redis.call, 'SET', key(i), i) n = n + (good and 1 or 0) end "
             "return {n, redis.call('GET', key(9))}",
    'pcall that catches': "local r = {} for i = 1, 9 do redis.call('SET', key(i), 'x') local good, err = pcall(redis.call, 'INCR', key(i)) "
                          "r[i] = tostring(good) .. tostring(err) end return r",
    'xpcall': "local r = {} for i = 1, 9 do local good, err = xpcall(function() return redis.call('INCR', key(i)) end, "
              "function(e) return 'caught' end) r[i] = err end return r",
    'sort': "local r = {} for i = 1, 9 do r[i] = i redis.call('SET', key(i), 10 - i) end "
            "table.sort(r, function(a, b) return tonumber(redis.call('GET', key(a))) < tonumber(redis.call('GET', key(b))) end) return r",
    'gsub': "for i = 1, 9 do redis.call('SET', key(i), 10 - i) end "
            "return (string.gsub('123456789', '%d', function(i) return redis.call('GET', key(i)) end))",
    'a metamethod': "local t = setmetatable({}, {__index = function(t, i) return redis.call('INCR', key(i)) end}) "
                    "local r = {} for i = 1, 9 do r[i] = t[i] + t[i] end return r",
    'an iterator': "local function each(n, i) if i < n then redis.call('INCR', key(i)) return i + 1 end end "
                   "local r = {} for i in each, 9, 0 do r[#r + 1] = redis.call('INCR', key(i)) end return r",
    'a coroutine': "local co = coroutine.wrap(function() for i = 1, 9 do coroutine.yield(redis.call('INCR', key(i))) end end) "
                   "local r = {} for i = 1, 9 do r[i] = co() r[10 + i] = redis.call('INCR', key(10 + i)) end return r",
    'coroutine.running': "redis.call('INCR', key(1)) redis.call('INCR', key(2)) redis.call('INCR', key(3)) "
                         "local inside = coroutine.wrap(function() return type(coroutine.running()) end)() "
                         "return {type(coroutine.running()), inside}",
    'coroutine.yield': "for i = 1, 9 do redis.call('SET', key(i), i) end\nreturn coroutine.yield(1)",
    'coroutine.yield in pcall': "for i = 1, 9 do redis.call('SET', key(i), i) end local good, err = pcall(coroutine.yield, 1) "
                                "return {tostring(good), err}",
    'KEYS and ARGV': "for i = 1, 9 do redis.call('SET', key(i), ARGV[1]) end return {#KEYS, #ARGV, ARGV[2]}",
    'setresp': "redis.setresp(3) for i = 1, 9 do redis.call('HSET', key(i), 'f', i) end local n = 0 "
               "for i = 1, 9 do n = n + redis.call('HGETALL', key(i)).map.f end return n",
    'select': "redis.call('SELECT', 1) for i = 1, 9 do redis.call('SET', key(i), i) end redis.call('SELECT', 2) "
              "for i = 1, 9 do redis.call('SET', key(i), 2 * i) end redis.call('SELECT', 1) return redis.call('GET', key(9))",
    'cjson': "cjson.encode_number_precision(3) for i = 1, 9 do redis.call('SET', key(i), i) end return cjson.encode({1 / 3})",
    'random numbers': "math.randomseed(7) local r = {} for i = 1, 9 do redis.call('SET', key(i), i) r[i] = math.random(1000) end return r",
    'the time': "local before = redis.call('TIME') for i = 1, 9 do redis.call('SET', key(i), i) end local after = redis.call('TIME') "
                "return tostring(before[1] == after[1] and before[2] == after[2])",
    'all keys': "for i = 1, 9 do redis.call('SET', key(i), i) end local before = redis.call('DBSIZE') "
                "for i = 10, 19 do redis.call('SET', key(i), i) end return redis.call('DBSIZE') - before",
    'collections': "for i = 1, 300 do redis.call('ZADD', key(1), i, i) end local r = {} for i = 1, 9 do "
                   "redis.call('ZADD', key(1), -i, 'm' .. i) redis.call('INCR', key(10 + i)) r[i] = redis.call('ZRANK', key(1), 150) end return r",
    'many words': "local words = {} for i = 1, 3000 do words[i] = i end redis.call('INCR', key(2)) redis.call('INCR', key(3)) "
                  "return redis.call('RPUSH', key(1), unpack(words))",
    'a long reply': "for i = 1, 9 do redis.call('SET', key(i), string.rep('x', 100)) end local r = {} "
                    "for i = 1, 900 do r[i] = redis.call('GET', key(i % 9 + 1)) end return r",
}


def with_keys(text):
    return "local function key(i) return redis.sha1hex(ARGV[1] .. ':' .. i) end " + text


def reply_of(client, *words):
    reply = client.get(*words)
    return str(reply) if isinstance(reply, ReplyError) else reply


@suite.case('scripts reply the same on one shard and on three, wherever in their code they wait')
def _(run):
    with shards(1) as one, shards(3) as three, one.connect() as near, three.connect() as far:
        for name, text in SCRIPTS.items():
            for turn in range(3):
                words = ('EVAL', with_keys(text), 0, '%s %d' % (name, turn), 'last')
                # the text of the script is in the errors as its SHA-1
                check_equal(reply_of(far, *words), reply_of(near, *words), name)
        check_equal(far.get('DBSIZE'), near.get('DBSIZE'))


@suite.case('functions wait in the middle of their code as scripts do')
def _(run):
    library = """#!lua name=lib
local function key(args, i) return redis.sha1hex(args[1] .. ':' .. i) end
redis.register_function('f', function(keys, args)
    local n = 0
    for i = 1, 30 do n = n + redis.call('INCRBY', key(args, i), i) end
    return {n, #keys, #args}
end)
redis.register_function('g', function(keys, args)
    for i = 1, 30 do redis.call('SET', key(args, i), 'x') end
    return redis.call('INCR', key(args, 30))
end)
"""
    with shards(1) as one, shards(3) as three, one.connect() as near, three.connect() as far:
        for client in (near, far):
            check_equal(client.get('FUNCTION', 'LOAD', library), b'lib')
        for name in ('f', 'g'):
            for turn in range(3):
                words = ('FCALL', name, 0, '%s %d' % (name, turn), 'last')
                check_equal(reply_of(far, *words), reply_of(near, *words), name)
        check_equal(far.get('DBSIZE'), near.get('DBSIZE'))


@suite.case('scripts that wait at the same time add up, and see neither the words nor the settings of each other')
def _(run):
    script = with_keys("cjson.encode_number_precision(tonumber(ARGV[2])) local sum = 0 for i = 1, ARGV[3] do "
                       "local shared = redis.sha1hex('shared' .. (i + ARGV[2]) % ARGV[3]) "
                       "redis.call('INCR', key(i)) redis.call('INCR', shared) sum = sum + #ARGV end return {cjson.encode({1 / 3}), sum, KEYS[1]}")
    with shards(3) as cluster:
        count, clients = 40, 6
        failures = []

        def work(number):
            with cluster.connect() as client:
                for turn in range(sized(10, long=100)):
                    near = 'near:%d' % number
                    reply = client.get('EVAL', script, 1, near, '%d:%d' % (number, turn), number + 1, count)
                    want = [b'[0.%s]' % (b'3' * (number + 1)), 3 * count, near.encode()]
                    if reply != want:
                        failures.append((reply, want))
                        return
        threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check_equal(failures, [])
        with cluster.connect() as client:
            turns = sized(10, long=100)
            sums = client.get('EVAL', "local n = 0 for i = 0, ARGV[1] - 1 do n = n + redis.call('GET', redis.sha1hex('shared' .. i)) end "
                              "return n", 0, count)
            check_equal(sums, clients * turns * count)


@suite.case('a function that is replaced, and scripts that are flushed, while they wait: each run is the old one or the new one')
def _(run):
    def library(value):
        return """#!lua name=lib
local value = '%s'
redis.register_function('f', function(keys, args)
    local r = {}
    for i = 1, 60 do redis.call('SET', redis.sha1hex(args[1] .. i), value) end
    for i = 1, 60 do r[redis.call('GET', redis.sha1hex(args[1] .. i))] = true end
    local seen = {}
    for name in pairs(r) do seen[#seen + 1] = name end
    return seen
end)
""" % value
    with shards(3) as cluster, cluster.connect() as client:
        check_equal(client.get('FUNCTION', 'LOAD', library('v0')), b'lib')
        failures = []
        stops = threading.Event()

        def work(number):
            with cluster.connect() as other:
                for turn in range(sized(30, long=300)):
                    reply = other.get('FCALL', 'f', 0, '%d:%d:' % (number, turn))
                    if not (isinstance(reply, list) and len(reply) == 1 and reply[0].startswith(b'v')):
                        failures.append(reply)
                    value = 'value %d' % turn
                    reply = other.get('EVAL', with_keys("for i = 1, 30 do redis.call('SET', key(i), ARGV[2]) end return redis.call('GET', key(30))"),
                                      0, 'e%d' % number, value)
                    if reply != value.encode():
                        failures.append(reply)
            stops.set()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        turn = 0
        while not stops.is_set():
            turn += 1
            check_equal(client.get('FUNCTION', 'LOAD', 'REPLACE', library('v%d' % turn)), b'lib')
            check_equal(client.get('SCRIPT', 'FLUSH'), b'OK')
        for thread in threads:
            thread.join()
        check_equal(failures, [])


@suite.case('other clients are served while a script waits for thousands of keys one after the other')
def _(run):
    with shards(3) as cluster, cluster.connect() as client, cluster.connect() as other:
        count = sized(3000, long=30000)
        done = []
        script = NAMES + "for i = 1, ARGV[1] do redis.call('INCR', name(i)) end return 1"

        def work():
            done.append(client.get('EVAL', script, 0, count))
        thread = threading.Thread(target=work)
        thread.start()
        served = 0
        while not done:
            check_equal(other.get('SET', 'other', served), b'OK')
            served += 1
        thread.join()
        check_equal(done, [1])
        check(served > 1, 'nothing was served')


@suite.case('SCRIPT KILL, a client that leaves, and a lost connection while scripts wait leave no half of them')
def _(run):
    script = with_keys("for i = 1, 200 do redis.call('SET', key(i), 1) end return 1")
    with shards(3) as cluster, cluster.connect() as client:
        for turn in range(sized(20, long=200)):
            leaver = cluster.connect()
            leaver.send('EVAL', script, 0, 'turn %d' % turn)
            if turn % 2:
                client.get('SCRIPT', 'KILL')
            leaver.close()
        names = "local n = 0 for i = 1, 200 do n = n + redis.call('EXISTS', key(i)) end return n"

        def ended():
            return all(client.get('EVAL', with_keys(names), 0, 'turn %d' % turn) in (0, 200) for turn in range(sized(20, long=200)))
        wait_for(ended, 'each script is done, or nothing of it')


if __name__ == '__main__':
    suite.main()
