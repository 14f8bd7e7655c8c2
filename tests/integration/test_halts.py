#!/usr/bin/python3
"""Scripts over shards that wait in the middle of their code for keys that nothing foretold: results and errors are those of
one shard, nothing runs twice, and other clients are served while they wait.
"""

import re
import threading

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, ReplyError, value
from support.slow import is_busy

suite = Suite(__doc__)

# A script runs up to its first key of another shard, and then from its beginning; both again if it has left the connection that clients share.
BEGUN_MAX = 4

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
        wait_for(lambda: script_lines(cluster, b'begins'), 'the line of the script')
        lines = script_lines(cluster, b'begins')
        check(lines <= BEGUN_MAX, 'the script began %d times' % lines)
        check_equal(calls_of(cluster, b'incr'), count)
        check_equal(client.get('DBSIZE'), count)
        check_equal(client.get('EVAL', NAMES + "local n = 0 for i = 1, ARGV[1] do n = n + redis.call('GET', name(i)) end return n", 0, count),
                    count)


# What a script calls, so that its n-th call of redis.call is inside of it.
WAYS = {
    'pcall': "for i = 1, n do pcall(get, i) end",
    'xpcall': "for i = 1, n do xpcall(function() get(i) end, function() end) end",
    'pcall inside pcall': "for i = 1, n do pcall(pcall, get, i) end",
    'redis.pcall': "for i = 1, n do redis.pcall('GET', name(i)) end",
    'pcall of redis.pcall': "for i = 1, n do pcall(redis.pcall, 'GET', name(i)) end",
    'wrap': "coroutine.wrap(function() for i = 1, n do get(i) end end)()",
    'resume': "local co = coroutine.create(function() for i = 1, n do get(i) coroutine.yield() end end) "
              "for i = 1, n do coroutine.resume(co) end",
    'sort': "local t = {} for i = 1, n do t[i] = i end table.sort(t, function(a, b) get(a) get(b) return a > b end)",
    'gsub': "string.gsub(string.rep('x', n), '()', get)",
    'an iterator': "for i in function(n, i) get(i + 1) if i < n then return i + 1 end end, n, 0 do end",
    'an index': "local t = setmetatable({}, {__index = function(t, i) get(i) end}) for i = 1, n do local value = t[i] end",
    'an operator': "local t = setmetatable({}, {__add = function(t, i) get(i) end}) for i = 1, n do local value = t + i end",
}


@suite.case('scripts wait inside pcall, coroutines, metamethods, iterators and functions that sort and gsub call')
def _(run):
    count = 200
    with shards(3) as cluster, cluster.connect() as client:
        for number, (way, text) in enumerate(WAYS.items()):
            begins = 'begins %d,' % number
            script = ("redis.log(redis.LOG_WARNING, ARGV[1]) local n = tonumber(ARGV[2]) "
                      "local function name(i) return redis.sha1hex(ARGV[1] .. i) end "
                      "local function get(i) return redis.call('GET', name(i)) end " + text + " return n")
            check_equal(client.get('EVAL', script, 0, begins, count), count, way)
            wait_for(lambda: script_lines(cluster, begins.encode()), 'the line of the script')
            lines = script_lines(cluster, begins.encode())
            check(lines <= BEGUN_MAX, '%s: the script began %d times' % (way, lines))


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
    'pcall inside pcall': "local r = {} for i = 1, 9 do local good, inner, err = pcall(function() return pcall(function() "
                          "redis.call('SET', key(i), 'x') redis.call('GET', key(i + 1)) error({err = 'MY ' .. i}) end) end) "
                          "r[i] = tostring(good) .. tostring(inner) .. tostring(err) end return r",
    'pcall of pcall': "local r = {} for i = 1, 9 do r[i] = select('#', pcall(pcall, pcall, redis.call, 'SET', key(i), i)) end return r",
    'levels of errors': "local r = {} for i = 1, 9 do for level = 0, 4 do local good, err = pcall(function() redis.call('INCR', key(i)) "
                        "error('e', level) end) r[#r + 1] = err end end return r",
    'errors of functions in C': "local r = {} for i = 1, 9 do redis.call('SET', key(i), i) local good, err = pcall(string.rep) r[#r + 1] = err "
                                "good, err = pcall(function() redis.call('GET', key(i + 9)) return string.rep() end) r[#r + 1] = err end return r",
    'a deep recursion through pcall': "local deepest = 0 local function dive(n) deepest = n redis.call('SET', key(n % 20), n) "
                                      "local good, err = pcall(dive, n + 1) return good and err or tostring(err) end return dive(1)",
    'xpcall whose handler reads keys': "for i = 1, 9 do redis.call('SET', key(i), i) end local r = {} for i = 1, 9 do local good, err = "
                                       "xpcall(function() redis.call('INCR', key(i + 9)) error('e') end, "
                                       "function(e) return e .. redis.call('GET', key(10 - i)) end) r[i] = err end return r",
    'xpcall whose handler fails': "local r = {} for i = 1, 9 do local good, err = xpcall(function() redis.call('INCR', key(i)) error('e') end, "
                                  "function(e) redis.call('INCR', key(i + 9)) error('f') end) r[i] = tostring(err) end return r",
    'error of sort': "for i = 1, 9 do redis.call('SET', key(i), i) end\nlocal r = {3, 1, 2, 5, 4, 9, 7} "
                     "table.sort(r, function(a, b) redis.call('GET', key(a + 9)) return true end)\nreturn r",
    'error in a function of sort': "local r = {3, 1, 2, 5, 4, 9, 7}\ntable.sort(r, function(a, b)\nreturn redis.call('LPUSH', key(a), 'x') > "
                                   "redis.call('INCR', key(b)) end) return r",
    'operators': "local m = {} m.__add = function(a, b) return redis.call('INCR', key(a.n)) end m.__concat = m.__add m.__unm = m.__add "
                 "m.__lt = function(a, b) return redis.call('INCR', key(a.n)) > 1 end m.__eq = m.__lt m.__len = m.__add "
                 "m.__call = function(a, n) return redis.call('INCR', key(n)) end local r = {} for i = 1, 9 do "
                 "local a, b = setmetatable({n = i}, m), setmetatable({n = i + 9}, m) "
                 "r[#r + 1] = {a + b, a .. b, -a, tostring(a < b), tostring(a == b), a(i + 20)} end return r",
    'writes and texts of tables': "local log = {} local t = setmetatable({}, {__newindex = function(t, k, v) redis.call('SET', key(k), v) end, "
                                  "__tostring = function() return 't' .. redis.call('GET', key(1)) end}) "
                                  "for i = 1, 9 do t[i] = i log[i] = tostring(t) end return log",
    'gsub with a table': "for i = 1, 9 do redis.call('SET', key(i), 10 - i) end local t = setmetatable({}, {__index = function(t, i) "
                         "return redis.call('GET', key(i)) end}) return (string.gsub('123456789', '%d', t))",
    'gsub inside gsub': "return (string.gsub('12', '%d', function(i) return redis.call('INCR', key(i)) .. string.gsub('345', '%d', "
                        "function(j) return redis.call('INCR', key(i .. j)) end) end))",
    'foreach': "local sum = 0 table.foreach({1, 2, 3, a = 4}, function(k, v) sum = sum + v * redis.call('INCR', key(k)) end) "
               "table.foreachi({5, 6, 7}, function(k, v) sum = sum + v * redis.call('INCR', key(k)) end) return sum",
    'load': "local n = 0 local f = load(function() n = n + 1 return n < 9 and 'local a' .. redis.call('INCR', key(n)) .. ' = 1 ' or "
            "n == 9 and 'return 7' or nil end) return f()",
    'a coroutine in pcall in a coroutine': "local outer = coroutine.wrap(function() local good, r = pcall(function() local inner = "
                                           "coroutine.create(function(a) for i = 1, 9 do a = a + coroutine.yield(redis.call('INCR', key(i)) + a) end "
                                           "error('end') end) local r = {} for i = 1, 11 do local good, value = coroutine.resume(inner, i) "
                                           "r[i] = tostring(good) .. tostring(value) .. redis.call('INCR', key(i + 20)) .. coroutine.status(inner) end "
                                           "return r end) coroutine.yield(r) error({err = 'MY end'}) end) local r = outer() "
                                           "local good, err = pcall(outer) r[#r + 1] = err return r",
    'an error in wrap': "local f = coroutine.wrap(function() redis.call('SET', key(1), 'x')\nredis.call('GET', key(2)) redis.call('INCR', key(1)) end)\n"
                        "return f()",
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


# In redis-server time goes on (docs/scripting.md).
OWN_REPLIES = {'the time'}


def with_keys(text):
    return "local function key(i) return redis.sha1hex(ARGV[1] .. ':' .. i) end " + text


def reply_of(client, *words):
    reply = client.get(*words)
    return str(reply) if isinstance(reply, ReplyError) else reply


@suite.case('scripts reply the same on one shard and on three, wherever in their code they wait')
def _(run):
    with shards(1) as one, shards(3) as three, Oracle() as oracle, one.connect() as near, three.connect() as far, \
            Connection(oracle.address) as redis:
        for name, text in SCRIPTS.items():
            for turn in range(3):
                words = ('EVAL', with_keys(text), 0, '%s %d' % (name, turn), 'last')
                # the text of the script is in the errors as its SHA-1
                reply = reply_of(near, *words)
                check_equal(reply_of(far, *words), reply, name)
                if name not in OWN_REPLIES:
                    check_equal(reply, reply_of(redis, *words), name)
        check_equal(far.get('DBSIZE'), near.get('DBSIZE'))


# Scripts that use all keys of the database, and keys that nothing foretells before and after that. The database has 40 other keys.
ALL_KEYS = {
    'DBSIZE before, between and after': "local r = {redis.call('DBSIZE')} for i = 1, 30 do redis.call('SET', key(i), i) "
                                        "if i % 7 == 0 then r[#r + 1] = redis.call('DBSIZE') end end "
                                        "for i = 1, 30, 2 do redis.call('DEL', key(i)) end r[#r + 1] = redis.call('DBSIZE') return r",
    'DBSIZE at the end': "for i = 1, 30 do redis.call('SET', key(i), i) end for i = 1, 9 do redis.call('DEL', key(i)) end return redis.call('DBSIZE')",
    'KEYS of what was written, and of what is there': "for i = 1, 20 do redis.call('SET', key(i), i) end local names = redis.call('KEYS', '*') "
                                                      "table.sort(names) for i, name in ipairs(names) do redis.call('APPEND', name, 'x') "
                                                      "redis.call('SET', key(name), i) end local last = redis.call('KEYS', '*') table.sort(last) "
                                                      "return {#names, #last, names, last}",
    'deletion of what KEYS finds': "local n = 0 for i, name in ipairs(redis.call('KEYS', 'other*')) do redis.call('INCR', key(i)) "
                                   "n = n + redis.call('DEL', name) end local names = redis.call('KEYS', '*') table.sort(names) "
                                   "return {n, redis.call('DBSIZE'), names}",
    'SCAN with other keys in between': "local cursor, seen, n = '0', {}, 0 repeat local page = redis.call('SCAN', cursor, 'COUNT', 5) "
                                       "cursor = page[1] for i, name in ipairs(page[2]) do if string.find(name, '^other') then "
                                       "if not seen[name] then n = n + 1 end seen[name] = true redis.call('INCR', key(name)) end end "
                                       "until cursor == '0' return {n, redis.call('DBSIZE')}",
    'FLUSHDB, and keys after it': "for i = 1, 9 do redis.call('SET', key(i), i) end redis.call('FLUSHDB') local none = redis.call('DBSIZE') "
                                  "for i = 5, 25 do redis.call('SET', key(i), i) end local some = redis.call('DBSIZE') redis.call('FLUSHDB') "
                                  "local gone = redis.call('GET', key(7)) for i = 1, 5 do redis.call('RPUSH', key(i), i) end "
                                  "local names = redis.call('KEYS', '*') table.sort(names) return {none, some, tostring(gone), redis.call('DBSIZE'), names}",
    'DBSIZE, then FLUSHDB': "local before = redis.call('DBSIZE') for i = 1, 9 do redis.call('SET', key(i), i) end redis.call('FLUSHDB') "
                            "for i = 1, 4 do redis.call('SET', key(i), i) end return {before, redis.call('DBSIZE'), redis.call('GET', key(4)), "
                            "tostring(redis.call('GET', 'other:1'))}",
    'SCAN, then FLUSHDB, and the names again': "local names = redis.call('SCAN', 0, 'COUNT', 1000)[2] table.sort(names) "
                                               "for i, name in ipairs(names) do redis.call('GET', name) end redis.call('FLUSHDB') "
                                               "for i, name in ipairs(names) do redis.call('SET', name .. ':new', i) redis.call('GET', name) end "
                                               "return redis.call('DBSIZE')",
    'RANDOMKEY until none is left': "for i = 1, 9 do redis.call('SET', key(i), i) end local n = 0 while redis.call('DBSIZE') > 0 do "
                                    "n = n + redis.call('DEL', redis.call('RANDOMKEY')) redis.call('GET', key(n)) end "
                                    "return {n, tostring(redis.call('RANDOMKEY'))}",
    'RANDOMKEY after FLUSHDB': "redis.call('FLUSHDB') local r = {tostring(redis.call('RANDOMKEY'))} for i = 1, 9 do redis.call('SET', key(i), i) end "
                               "for i = 1, 20 do local name = redis.call('RANDOMKEY') r[#r + 1] = redis.call('EXISTS', name) "
                               "redis.call('GET', key(i)) end return r",
    'databases': "local r = {} for db = 0, 3 do redis.call('SELECT', db) for i = 1, 9 do redis.call('SET', key(i), i) end r[#r + 1] = "
                 "redis.call('DBSIZE') end redis.call('SELECT', 1) redis.call('FLUSHDB') redis.call('SET', key(1), 1) for db = 3, 0, -1 do "
                 "redis.call('SELECT', db) redis.call('GET', key(db)) r[#r + 1] = redis.call('DBSIZE') end return r",
    'times that end': "redis.call('DBSIZE') for i = 1, 9 do redis.call('SET', key(i), i, 'PX', 1000000) end for i = 1, 9 do "
                      "redis.call('PEXPIRE', key(i), i > 5 and -1 or 100000) end return redis.call('DBSIZE')",
}


def add_others(client):
    check_equal(client.get('FLUSHALL'), b'OK')
    for number in range(40):
        check_equal(client.get('SET', 'other:%d' % number, number), b'OK')


@suite.case('scripts that use all keys wait as others do, and reply the same on one shard and on three')
def _(run):
    with shards(1) as one, shards(3) as three, Oracle() as oracle, one.connect() as near, three.connect() as far, \
            Connection(oracle.address) as redis:
        for name, text in ALL_KEYS.items():
            for client in (near, far, redis):
                add_others(client)
            begins = 'begins with %s' % name
            script = "redis.log(redis.LOG_WARNING, ARGV[1]) " + with_keys(text)
            reply = reply_of(near, 'EVAL', script, 0, begins)
            check_equal(reply_of(far, 'EVAL', script, 0, begins), reply, name)
            check_equal(reply, reply_of(redis, 'EVAL', script, 0, begins), name)
            for client in (far, redis):
                check_equal(sorted(client.get('KEYS', '*')), sorted(near.get('KEYS', '*')), name)
                check_equal(client.get('DBSIZE'), near.get('DBSIZE'), name)
            wait_for(lambda: script_lines(three, begins.encode()), 'the line of the script')
            lines = script_lines(three, begins.encode())
            check(lines <= BEGUN_MAX, '%s: the script began %d times' % (name, lines))


@suite.case('a script that uses all keys before and after thousands that nothing foretold runs its code once')
def _(run):
    with shards(3) as cluster, cluster.connect() as client:
        count = sized(3000, long=100000)
        script = NAMES + ("redis.log(redis.LOG_WARNING, 'begins') local before = redis.call('DBSIZE') "
                          "for i = 1, ARGV[1] do redis.call('SET', name(i), i) end local between = redis.call('DBSIZE') "
                          "for i = 1, ARGV[1] do redis.call('DEL', name(i)) redis.call('SET', name(-i), i) end "
                          "return {before, between, redis.call('DBSIZE'), #redis.call('KEYS', '*')}")
        check_equal(client.get('EVAL', script, 0, count), [0, count, count, count])
        wait_for(lambda: script_lines(cluster, b'begins'), 'the line of the script')
        lines = script_lines(cluster, b'begins')
        check(lines <= BEGUN_MAX, 'the script began %d times' % lines)
        check_equal(client.get('DBSIZE'), count)


# What the queue of an EXEC has besides scripts. KEY is a prefix that makes its keys new.
INCREMENTS = with_keys("local n = 0 for i = 1, 9 do n = n + redis.call('INCR', key(i)) end return n")
QUEUES = {
    'a script': [('EVAL', INCREMENTS, 0, 'KEY')],
    'scripts one after the other': [('EVAL', INCREMENTS, 0, 'KEY')] * 3,
    'commands around a script': [('SET', 'KEY:a', 'x'), ('EVAL', INCREMENTS, 0, 'KEY'), ('APPEND', 'KEY:a', 'y'), ('GET', 'KEY:a'),
                                 ('INCR', 'KEY:a'), ('EVAL', INCREMENTS, 0, 'KEY'), ('GET', 'KEY:b')],
    'a script that fails': [('SET', 'KEY:a', 'x'), ('EVAL', with_keys("for i = 1, 9 do redis.call('SET', key(i), 'x') end "
                                                                      "return redis.call('INCR', key(9))"), 0, 'KEY'),
                            ('EVAL', with_keys("return redis.call('GET', key(9))"), 0, 'KEY'), ('GET', 'KEY:a')],
    'a script that catches': [('EVAL', with_keys("local r = {} for i = 1, 9 do local good, err = pcall(redis.call, 'INCRBY', key(i), i % 2 == 0 "
                                                 "and 'x' or 1) r[i] = tostring(err) end return r"), 0, 'KEY'), ('SET', 'KEY:b', 1)],
    'databases': [('SELECT', 1), ('SET', 'KEY:a', 1), ('EVAL', with_keys("for i = 1, 9 do redis.call('SELECT', i) redis.call('SET', key(i), i) "
                                                                         "end return 1"), 0, 'KEY'), ('GET', 'KEY:a'), ('SELECT', 0),
                  ('EVAL', INCREMENTS, 0, 'KEY'), ('GET', 'KEY:a')],
    'patterns of SORT': [('RPUSH', 'KEY:l', 3, 1, 2), ('MSET', 'KEY:w1', 5, 'KEY:w2', 4, 'KEY:w3', 6), ('EVAL', INCREMENTS, 0, 'KEY'),
                         ('SORT', 'KEY:l', 'BY', 'KEY:w*', 'GET', 'KEY:w*', 'GET', '#')],
    'keys that a script has made': [('EVAL', with_keys("for i = 1, 9 do redis.call('SET', ARGV[1] .. ':' .. i, i) end return 1"), 0, 'KEY'),
                                    ('MGET', *('KEY:%d' % i for i in range(1, 10))), ('DEL', *('KEY:%d' % i for i in range(1, 10)))],
    'times': [('EVAL', with_keys("for i = 1, 9 do redis.call('SET', key(i), i, 'EX', 100) end return redis.call('TTL', key(9))"), 0, 'KEY'),
              ('SET', 'KEY:a', 1, 'EX', 100), ('TTL', 'KEY:a')],
}


@suite.case('EXEC waits where it is for keys that nothing foretold, and replies the same on one shard and on three')
def _(run):
    def replies(client, queue, key):
        check_equal(client.get('MULTI'), b'OK')
        for words in queue:
            check_equal(client.get(*(word.replace('KEY', key) if isinstance(word, str) else word for word in words)), b'QUEUED')
        found = client.get('EXEC')
        client.get('SELECT', 0)
        return [str(reply) if isinstance(reply, ReplyError) else reply for reply in found]

    with shards(1) as one, shards(3) as three, Oracle() as oracle, one.connect() as near, three.connect() as far, \
            Connection(oracle.address) as redis:
        for name, queue in QUEUES.items():
            for turn in range(3):
                key = '%s %d' % (name, turn)
                reply = replies(near, queue, key)
                check_equal(replies(far, queue, key), reply, name)
                check_equal(reply, replies(redis, queue, key), name)
        check_equal(far.get('DBSIZE'), near.get('DBSIZE'))


def queue(client, *commands):
    check_equal(client.get('MULTI'), b'OK')
    for words in commands:
        check_equal(client.get(*words), b'QUEUED')


@suite.case('EXEC that waits when its reply is as long as reply-limit keeps this reply')
def _(run):
    big = 'x' * (2**20 - len('*4\r\n$1048560\r\n\r\n'))
    check_equal(len(big), 1048560)
    limits = {'backend': {'reply-limit': '1mb'}}
    with shards(1, backend_options=limits) as one, shards(3, backend_options=limits) as three, Oracle() as oracle, \
            one.connect() as near, three.connect() as far, Connection(oracle.address) as redis:
        for client in (near, far, redis):
            client.get('SET', 'big', big)
            for turn in range(3):
                queue(client, ('GET', 'big'), ('SET', 'own', turn), ('EVAL', INCREMENTS, 0, turn), ('GET', 'own'))
                check_equal(client.get('EXEC'), [big.encode(), b'OK', 9, b'%d' % turn])
                check_equal(client.get('GET', 'own'), b'%d' % turn)


@suite.case('EXEC that waits goes on although it has itself written a watched key whose time is over')
def _(run):
    with shards(1) as one, shards(3) as three, Oracle() as oracle, one.connect() as near, three.connect() as far, \
            Connection(oracle.address) as redis:
        for client in (near, far, redis):
            for turn in range(3):
                key = 'watched %d' % turn
                check_equal(client.get('WATCH', key), b'OK')
                queue(client, ('SET', key, 'v', 'PXAT', 1), ('EVAL', INCREMENTS, 0, turn))
                check_equal(client.get('EXEC'), [b'OK', 9])


@suite.case('math.random in an EXEC that waits gives the numbers of an EXEC that does not')
def _(run):
    random = 'return math.random(1000000)'
    # SORT waits between two commands, because the attempt before did not get as far as its list
    script = with_keys("for i = 1, 9 do redis.call('INCR', key(i)) end redis.call('RPUSH', KEYS[1], 3, 1, 2) return math.random(1000000)")
    with shards(1) as one, shards(3) as three, Oracle() as oracle, one.connect() as near, three.connect() as far, \
            Connection(oracle.address) as redis:
        replies = []
        for client in (near, far, redis):
            queue(client, ('EVAL', random, 0), ('EVAL', script, 1, 'list', 'turn'), ('EVAL', random, 0),
                  ('SORT', 'list', 'BY', 'weight*', 'GET', 'weight*', 'GET', '#'), ('EVAL', random, 0), ('EVAL', random, 0))
            replies.append(client.get('EXEC'))
        check_equal(replies[1], replies[0])
        check_equal(replies[0], replies[2])


@suite.case('EXEC runs each of its scripts and commands once, however many keys nothing foretold')
def _(run):
    with shards(3) as cluster, cluster.connect() as client, cluster.connect() as listener:
        count = sized(1000, long=10000)
        listener.get('SUBSCRIBE', 'news')
        check_equal(client.get('MULTI'), b'OK')
        for number in range(3):
            client.get('EVAL', NAMES + "redis.log(redis.LOG_WARNING, 'begins') redis.call('PUBLISH', 'news', ARGV[2]) "
                       "for i = 1, ARGV[1] do redis.call('INCR', name(i .. ARGV[2])) end return 1", 0, count, number)
            client.get('INCR', 'own')
        check_equal(client.get('EXEC'), [1, 1, 1, 2, 1, 3])
        wait_for(lambda: script_lines(cluster, b'begins'), 'the line of a script')
        # in the attempt up to the first key of another shard each, and once from the beginning to the end
        lines = script_lines(cluster, b'begins')
        check(lines <= 6, 'scripts began %d times' % lines)
        check_equal(calls_of(cluster, b'incr'), 3 * count + 3)
        check_equal(calls_of(cluster, b'eval'), 3)
        check_equal([value(listener.read()) for number in range(3)], [[b'message', b'news', b'%d' % number] for number in range(3)])
        check_equal(client.get('DBSIZE'), 3 * count + 1)


@suite.case('EXEC that waits in a script does nothing if a watched key is changed meanwhile')
def _(run):
    script = NAMES + "local n = 0 for i = 1, 300 do n = n + redis.call('INCR', name(i)) end return n"
    with shards(3) as cluster, cluster.connect() as client, cluster.connect() as other:
        for turn in range(sized(30, long=300)):
            before = client.get('EVAL', "return redis.call('GET', redis.sha1hex('1')) or 0", 0)
            client.get('WATCH', 'watched')
            client.get('MULTI')
            client.get('EVAL', script, 0)
            client.send('EXEC')
            other.get('INCR', 'watched')
            reply = value(client.read())
            after = client.get('EVAL', "return redis.call('GET', redis.sha1hex('1')) or 0", 0)
            check_equal(int(after), int(before) + (reply is not None))
            check(reply is None or reply == [300 * int(after)], 'a sum of another moment: %s' % reply)


# A script of an EXEC with commands around it, some of which the script undoes or repeats.
ENDED = NAMES + ("for i = 1, 30 do redis.call('INCR', name(i)) end redis.call('SET', 'own', 'script') redis.call('RPUSH', 'list', 'script') "
                 "redis.call('DEL', name(1)) for i = 31, 60 do redis.call('SET', name(i), i) end redis.call('PUBLISH', 'news', 'never') "
                 "redis.call('PUBLISH', 'news', 'at the end') while true do end")


def kills(cluster, shard):
    with cluster.partition(shard) as connection:
        connection.get('SCREE', 'AUTH', cluster.secret)
        return connection.get('SCREE', 'SCRIPT', 'KILL') == b'OK'


def exec_around(cluster, client, turn):
    queue(client, ('SELECT', 1), ('SET', 'own', turn), ('RPUSH', 'list', 'before'), ('EVAL', NAMES + "redis.call('SET', name(1), 'x') "
          "redis.call('SET', name(40), 'y') return redis.call('PUBLISH', 'news', 'before')", 0), ('SET', 'out', turn, 'EX', 1000),
          ('EVAL', ENDED.replace('INCR', 'APPEND').replace('name(i)) end', "name(i), i) end", 1), 0), ('GET', 'own'), ('LRANGE', 'list', 0, -1), ('DBSIZE',),
          ('EVAL', NAMES + "local r = {} for i = 1, 60 do r[#r + 1] = redis.call('GET', name(i)) or nil end redis.call('PUBLISH', 'news', 'behind') "
           "return r", 0), ('SET', 'behind', turn), ('EVAL', INCREMENTS, 0, 'turn %d' % turn), ('DBSIZE',), ('SELECT', 0))
    client.send('EXEC')
    wait_for(lambda: any(kills(cluster, shard) for shard in range(len(cluster.backends))), 'a script that is killed')
    reply = [str(part) if isinstance(part, ReplyError) else part for part in value(client.read())]
    check('SCREE SCRIPT KILL' in reply[5], 'not ended: %r' % (reply,))
    return reply


@suite.case('a script of an EXEC that is ended after it has waited ends alone, as on one shard: the rest is done')
def _(run):
    with shards(1) as one, shards(3) as three, one.connect() as near, three.connect() as far:
        replies = {near: [], far: []}
        news = {near: [], far: []}
        for cluster, client in ((one, near), (three, far)):
            with cluster.connect() as listener:
                listener.get('SUBSCRIBE', 'news')
                client.get('CONFIG', 'SET', 'busy-reply-threshold', '200')
                for turn in range(3):
                    replies[client].append(exec_around(cluster, client, turn))
                    client.get('SELECT', 1)
                    replies[client].append(sorted(client.get('KEYS', '*')))
                    replies[client].append([client.get('DBSIZE'), client.get('GET', 'behind'), client.get('LRANGE', 'list', 0, -1)])
                    client.get('SELECT', 0)
                client.get('PUBLISH', 'news', 'last')
                while not news[client] or news[client][-1] != b'last':
                    news[client].append(value(listener.read())[2])
        check_equal(replies[far], replies[near])
        check_equal(news[far], news[near])


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


@suite.case('a subscriber leaves while a script that has published and waited is slow')
def _(run):
    script = NAMES + """redis.call('PUBLISH', 'channel', 'm') for i = 1, 10 do redis.call('INCR', name(i)) end
                        local stop = os.clock() + 1.5 while os.clock() < stop do end return redis.call('INCR', KEYS[1])"""
    with shards(3) as cluster, cluster.partition(0) as direct, cluster.connect() as client, cluster.partition(0) as stays:
        own = cluster.key_on(0, 'own')
        check_equal(direct.get('CONFIG', 'SET', 'busy-reply-threshold', 20), b'OK')
        leaves = cluster.partition(0)
        for subscriber in (leaves, stays):
            check_equal(subscriber.get('SUBSCRIBE', 'channel'), [b'subscribe', b'channel', 1])
        client.send('EVAL', script, 1, own)
        wait_for(lambda: is_busy(direct), 'the script to be slow')
        leaves.close()
        check_equal(value(client.read()), 1)
        check_equal(value(stays.read()), [b'message', b'channel', b'm'])
        check_equal(direct.get('GET', own), b'1')


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
