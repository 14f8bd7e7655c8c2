"""hostile.py - bytes that attackers send, as pure functions of random numbers.

words      commands of the random streams and of the server's command table, with extreme arguments
spoil      bytes of requests, changed, cut, repeated
payload    RDB payloads (DUMP, FUNCTION DUMP), changed, with a valid checksum
script     Lua from a collection of hostile snippets
http       requests for an admin port
answer     replies of a backend that violates the protocol
"""

import struct

from support import groups
from support.rdb_payload import crc64
from support.resp import encode, to_bytes
from support.stream import Context, Grammar

NUMBERS = [b'0', b'-1', b'1', b'2147483647', b'2147483648', b'-2147483648', b'4294967295', b'4294967296',
           b'9223372036854775807', b'9223372036854775808', b'-9223372036854775808', b'-9223372036854775809',
           b'18446744073709551615', b'18446744073709551616', b'1e308', b'-1e308', b'1e309', b'nan', b'-nan', b'inf',
           b'-inf', b'+inf', b'0x10', b'1.5', b'007', b'-0', b'0.0000000000000000001', b'1' * 400, b'536870911', b'536870912',
           b'4294967295-4294967295', b'18446744073709551615-18446744073709551615', b'0-0', b'1-*', b'$', b'>', b'*', b'-', b'+']
TEXTS = [b'', b'\x00', b'\xff' * 8, b'\r\n', b'a' * 300, b'b' * 5000, b'c' * 70000, b'*' * 200, b'[' * 300, b'%s%n%d', b'../../etc/passwd',
         b'{', b'}', b'{}', b'{a', b'[a-', b'\\', b'[^', b'(', b'(1', b'[', b'[x', b'\xc3\x28', b'\xf0\x9f\x98\x80', b'$', b'$..*',
         b'$[?(@.a>1)]', b'$' + b'[0]' * 200, b'[' * 500 + b']' * 500, b'{"a":' * 100 + b'1' + b'}' * 100, b'1' * 1000, b'"', b'[1,2',
         b'#!lua name=x\nredis.register_function("f", function() return 1 end)', b'user', b'default', b'victim', b'canary']
TOKENS = ('NX XX GT LT CH INCR WITHSCORES WITHVALUES LIMIT COUNT BLOCK STREAMS GROUP STORE STOREDIST BY GET ALPHA ASC DESC EX PX '
          'EXAT PXAT KEEPTTL PERSIST MATCH TYPE ANY FROMMEMBER FROMLONLAT BYRADIUS BYBOX KM M WITHCOORD WITHDIST WITHHASH MAXLEN MINID '
          '~ = NOMKSTREAM IDX LEN MINMATCHLEN WITHMATCHLEN REV BYLEX BYSCORE WEIGHTS AGGREGATE SUM MIN MAX LEFT RIGHT BEFORE AFTER '
          'REPLACE ABSTTL IDLETIME FREQ COPY DB ON OFF BCAST PREFIX REDIRECT OPTIN OPTOUT NOLOOP CREATE MKSTREAM ENTRIESREAD FULL '
          'JUSTID RETRYCOUNT FORCE LASTID TIME IDLE NOACK SYNC ASYNC SAMPLES SETINFO OVERFLOW WRAP SAT FAIL SET u8 i64 u63 #1 '
          'yes no all').encode().split()
KEYS = [b'{g%d}%s' % (i, name) for i in (1, 2, 3, 4) for name in (b'a', b'b', b'c', b'd', b'\x00\xff')] + \
    [b'canary', b'canary:hash', b'canary:list', b'a', b'b', b'', b'\x00', b'{', b'k' * 300]
ARGUMENTS_MANY = 300

# With these, the program ends as intended, which would be no fault.
HARMLESS = {b'SHUTDOWN'}


def argument(rng):
    dice = rng.random()
    if dice < 0.35:
        return rng.choice(NUMBERS)
    if dice < 0.60:
        return rng.choice(KEYS)
    if dice < 0.80:
        return rng.choice(TOKENS)
    if dice < 0.95:
        return rng.choice(TEXTS)
    return rng.randbytes(rng.choice([1, 8, 20, 64, 1000]))


class Words:
    """Commands of the random streams (mostly valid), and of the command table (mostly invalid)."""

    def __init__(self, rng, rows, options):
        self.rng, self.rows, self.options = rng, rows, options
        self.grammar = Grammar(groups.NAMES)
        self.context = Context(rng.randrange(1 << 31), True)
        self.context.rng = rng

    def from_stream(self):
        args = list(self.rng.choice(self.grammar.draw(self.context)).words)
        for _ in range(self.rng.choice([0, 0, 0, 1, 1, 2])):
            at = self.rng.randrange(len(args))
            change = self.rng.random()
            if change < 0.7:
                args[at] = argument(self.rng) if at else args[at]
            elif change < 0.85:
                args.insert(at + 1, argument(self.rng))
            elif len(args) > 1:
                args.pop(at)
        return args

    def from_table(self):
        name, arity, first = self.rng.choice(self.rows)
        words = list(name)
        many = ARGUMENTS_MANY if self.rng.random() < 0.01 else 6
        count = max(0, abs(arity) - len(words) + (self.rng.randint(0, many) if arity < 0 else 0))
        words += [argument(self.rng) for _ in range(count)]
        if first and first < len(words) and self.rng.random() < 0.8:
            words[first] = self.rng.choice(KEYS)
        if self.rng.random() < 0.02:
            words = words[:self.rng.randint(1, len(words))]
        return words

    def administrative(self):
        """Commands that a tenant may not use."""
        option, value = self.rng.choice(self.options), self.rng.choice(NUMBERS[:10] + [b'yes', b'no', b'os', b'16tb', b'normal 100 0 0', b'x'])
        return self.rng.choice([['CONFIG', 'SET', option, value], ['CONFIG', 'SET', option, value], ['CONFIG', 'SET', option, value],
                                ['CONFIG', 'RESETSTAT'], ['CONFIG', 'REWRITE'], ['SAVE'], ['BGSAVE'], ['MEMORY', 'PURGE'], ['SLOWLOG', 'RESET'],
                                ['LATENCY', 'RESET'], ['ACL', 'SETUSER', 'eve', 'allkeys'], ['ACL', 'DELUSER', 'eve'], ['ACL', 'LOAD'],
                                ['DEBUG', 'SLEEP', '1'], ['SCREE', 'COMPACT'], ['SCREE', 'BACKUP', 'LIST'], ['SCREE', 'MAP'], ['INFO', 'everything'],
                                ['SCREE', 'USE', 'victim', '0', 'tag'], ['FAILOVER'], ['REPLICAOF', 'NO', 'ONE'], ['CLIENT', 'PAUSE', '100000'],
                                ['CLIENT', 'KILL', 'TYPE', 'normal'], ['SWAPDB', '0', '1'], ['MODULE', 'LOAD', 'x'], ['SHUTDOWN', 'ABORT']])

    def draw(self):
        while True:
            dice = self.rng.random()
            words = self.from_stream() if dice < 0.58 else self.from_table() if dice < 0.98 else self.administrative()
            if to_bytes(words[0]).upper() not in HARMLESS:
                return words


def table(command_reply):
    """[([name, subcommand?], arity, first key)] from COMMAND's reply."""
    rows = []
    for row in command_reply:
        if row is None:
            continue
        rows.append(([row[0]], row[1], row[3]))
        for sub in (row[9] if len(row) > 9 else None) or []:
            rows.append((sub[0].split(b'|'), sub[1], sub[3]))
    return rows


def spoil(rng, data):
    """A copy of `data` with random changes."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not data:
            break
        at, change = rng.randrange(len(data)), rng.randrange(5)
        if change == 0:
            data[at] = rng.randrange(256)
        elif change == 1:
            del data[at:at + rng.randint(1, 10)]
        elif change == 2:
            data[at:at] = data[max(0, at - rng.randint(1, 30)):at]
        elif change == 3:
            del data[at:]
        else:
            data[at:at] = rng.choice([b'*', b'$', b'\r\n', b'99999999', b'-1', b'\x00', b'*1\r\n' * 50, b'$-1\r\n', b'*-1\r\n', b'PING\r\n',
                                      b'*1048577\r\n', b'$536870913\r\n', b'$0000000000000001\r\n', b'"', b'\'\\x'])
    return bytes(data)


def greeting(rng):
    """A login, valid or similar to one."""
    name = rng.choice([b'default', b'eve', b'victim', b'mallory', b'', b'\x00', b'x' * 5000])
    word = rng.choice([b'', b'operator', b'token', b'x', b'\x00' * 100, rng.randbytes(64), b'y' * 16384])
    return rng.choice([[b'AUTH', word], [b'AUTH', name, word], [b'HELLO', b'3', b'AUTH', name, word], [b'HELLO', rng.choice(NUMBERS)],
                       [b'HELLO', b'3', b'SETNAME', rng.choice(TEXTS[:8])], [b'SCREE', b'AUTH', word], [b'RESET'], [b'QUIT'],
                       [b'HELLO', b'2', b'AUTH', name], [b'AUTH'] + [word] * 9, [b'CLIENT', b'SETINFO', b'LIB-NAME', b'x']])


# ---- payloads of DUMP ---------------------------------------------------------------------------------------------

def with_checksum(body):
    """`body`: the payload up to and including its version."""
    return body + struct.pack('<Q', crc64(body))


def payload(rng, good):
    """A nearly valid payload, with a valid checksum and mostly the right version."""
    body = bytearray(good[:-10])
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(body)) if body else 0
        change = rng.randrange(6)
        if change == 0 and body:
            body[at] = rng.randrange(256)
        elif change == 1 and body:
            body[at] = rng.choice([0, 1, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3, 0xf0, 0xfe, 0xff])
        elif change == 2:
            del body[at:at + rng.randint(1, 4)]
        elif change == 3:
            body[at:at] = rng.randbytes(rng.randint(1, 6))
        elif change == 4:
            body[at:at] = body[at:at + rng.randint(1, 12)]
        elif body:
            body[0] = rng.randrange(24)
    version = good[-10:-8] if rng.random() < 0.95 else struct.pack('<H', rng.randrange(1 << 16))
    return with_checksum(bytes(body) + version)


# ---- Lua -----------------------------------------------------------------------------------------------------------

LUA_VALUES = ['nil', 'true', '0', '-1', '1e308', '-1e308', '0/0', '1/0', '-1/0', '2147483647', '-2147483648', '4294967296',
              '9007199254740993', '-9223372036854775808', "''", "'a'", "'\\0\\255'", "('x'):rep(100000)", '{}', '{1,2,3}', '{a=1}',
              '{{{{}}}}', 'print', 'function() end', 'KEYS', 'ARGV', "'%s%d%99999d'", "'[[[[['", "'%b'", "'.-.-.-b'", '_G', 'redis',
              "setmetatable({},{__index=function(t,k) return t[k] end})", "coroutine and coroutine.create(function() end)"]
LUA_FUNCTIONS = ['bit.tohex', 'bit.lshift', 'bit.rol', 'bit.band', 'bit.bnot', 'bit.tobit', 'bit.bswap', 'string.rep', 'string.format',
                 'string.find', 'string.gsub', 'string.gmatch', 'string.byte', 'string.char', 'string.sub', 'string.dump', 'string.reverse',
                 'table.concat', 'table.insert', 'table.remove', 'table.sort', 'table.maxn', 'unpack', 'select', 'tonumber', 'tostring',
                 'tostring', 'type', 'pcall', 'xpcall', 'error', 'assert', 'loadstring', 'load', 'rawget', 'rawset', 'rawequal', 'next',
                 'pairs', 'ipairs', 'setmetatable', 'getmetatable', 'setfenv', 'getfenv', 'collectgarbage', 'math.random',
                 'math.randomseed', 'math.ldexp', 'math.fmod', 'cjson.encode', 'cjson.decode', 'cjson.encode_max_depth',
                 'cjson.encode_sparse_array', 'cjson.encode_number_precision', 'cjson.encode_keep_buffer', 'cmsgpack.pack',
                 'cmsgpack.unpack', 'cmsgpack.unpack_one', 'cmsgpack.unpack_limit', 'struct.pack', 'struct.unpack', 'struct.size',
                 'redis.call', 'redis.pcall', 'redis.log', 'redis.sha1hex', 'redis.status_reply', 'redis.error_reply', 'redis.setresp',
                 'redis.acl_check_cmd', 'redis.breakpoint', 'redis.debug', 'redis.replicate_commands', 'redis.set_repl',
                 'redis.register_function', 'coroutine.create', 'coroutine.wrap', 'coroutine.resume', 'os.clock', 'os.time', 'newproxy',
                 'gcinfo', 'module', 'require']
SNIPPETS = ["return redis.call('GET', KEYS[1])", "return redis.call('SET', KEYS[1], ARGV[1])", "return redis.pcall('GET', 'canary')",
            "local t = {} t[1] = t return t", "local t = {} for i = 1, 1000 do t = {t} end return t",
            "local s = ('x'):rep(100000) local t = {} for i = 1, 100 do t[i] = s end return t",
            "return {err = 'x\\r\\n+OK'}", "return {ok = ('y'):rep(70000)}", "return {double = 0/0}", "return {map = {a = {map = {}}}}",
            "redis.setresp(3) return redis.call('HGETALL', KEYS[1])", "return redis.call('MULTI')", "return redis.call('SUBSCRIBE', 'x')",
            "return redis.call('BLPOP', KEYS[1], 0)", "return redis.call('EVAL', 'return 1', 0)", "return redis.call('CONFIG', 'GET', '*')",
            "return redis.call('SLOWLOG', 'GET')", "return redis.call('CLIENT', 'LIST')", "return redis.call('FLUSHALL')",
            "return redis.call('ACL', 'LIST')", "return redis.call('FUNCTION', 'DUMP')", "return redis.call('KEYS', '*')",
            "local c = coroutine.wrap(function() redis.call('SET', KEYS[1], 'x') coroutine.yield() end) c() return 1",
            "return pcall(redis.call, 'GET', {}, {})", "return redis.call(unpack(ARGV))", "return cjson.decode(('['):rep(5000))",
            "return cmsgpack.unpack(('\\145'):rep(5000))", "return struct.unpack('I99', 'x')", "for i = 1, 1000 do redis.log(3, ('z'):rep(1000)) end",
            "return string.format(('%99d'):rep(100), unpack({1,2,3}))", "error({err = setmetatable({}, {__tostring = error})})",
            "local function f() return f() + 1 end return f()", "string.gsub = nil return 1", "redis.call = nil return redis.call('GET', 'a')",
            "getmetatable('').__index = function() return 'x' end return ('a').b", "for k, v in pairs(_G) do rawset(_G, k, nil) end return 1",
            "local t = {} for i = 1, 200000 do t[i] = i end return unpack(t, 1, 7000)", "return {1, 2, nil, 4, {5, nil, 6}}",
            "return redis.call('XADD', KEYS[1], '*', 'f', ('v'):rep(3000))", "return redis.sha1hex(ARGV)", "return tostring(redis)",
            "redis.call('SET', KEYS[1], 'half') error('now')", "redis.call('RPUSH', KEYS[1], unpack(ARGV)) return redis.call('LRANGE', KEYS[1], 0, -1)"]
LONG_RUNNING = ["while true do end", "local s = 0 for i = 1, 1e12 do s = s + i end return s", "repeat redis.call('INCR', KEYS[1]) until false",
                "while true do pcall(error) end", "string.find(('a'):rep(20000), ('.-'):rep(200)..'b')"]


def lua_calls(rng):
    """Calls some functions with some values; each call may fail."""
    return ' '.join('pcall(%s)' % ', '.join([rng.choice(LUA_FUNCTIONS)] + [rng.choice(LUA_VALUES) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 4]))])
                    for _ in range(rng.randint(1, 30)))


def script(rng, can_be_long):
    dice = rng.random()
    if can_be_long and dice < 0.002:
        return rng.choice(LONG_RUNNING)
    if dice < 0.5:
        return lua_calls(rng)
    if dice < 0.9:
        return lua_calls(rng) + ' ' + rng.choice(SNIPPETS) if dice < 0.6 else rng.choice(SNIPPETS)
    return spoil(rng, rng.choice(SNIPPETS).encode())


def evaluation(rng, can_be_long=False):
    """EVAL, FUNCTION LOAD, FCALL … of hostile Lua."""
    text = script(rng, can_be_long)
    group = rng.choice([b'{g1}', b'{g2}'])
    keys = [group + rng.choice([b'a', b'b', b'c']) for _ in range(rng.randint(0, 2))]
    arguments = keys + [argument(rng) for _ in range(rng.randint(0, 3))]
    dice = rng.random()
    if dice < 0.8:
        return [rng.choice(['EVAL', 'EVAL', 'EVAL_RO']), text, rng.choice([len(keys)] * 9 + [rng.choice(NUMBERS)])] + arguments
    if dice < 0.9:
        body = text if isinstance(text, str) else text.decode('latin-1')
        library = '#!lua name=%s\nredis.register_function("%s", function(KEYS, ARGV) %s end)'
        name = rng.choice(['canary', 'own', 'x'])
        return ['FUNCTION', 'LOAD'] + rng.choice([['REPLACE'], []]) + [(library % (name, rng.choice(['canary', 'f']), body)).encode('latin-1')]
    return rng.choice([['FCALL', rng.choice(['f', 'canary']), len(keys)] + arguments, ['FUNCTION', 'DELETE', 'canary'], ['FUNCTION', 'FLUSH'],
                       ['FUNCTION', 'LIST', 'WITHCODE'], ['FUNCTION', 'KILL'], ['SCRIPT', 'KILL'], ['SCRIPT', 'FLUSH'],
                       ['FUNCTION', 'STATS'], ['SCRIPT', 'LOAD', text], ['EVALSHA', 'f' * 40, 0], ['FUNCTION', 'DUMP']])


# ---- listeners -----------------------------------------------------------------------------------------------------

def listening(rng):
    """A command that blocks, or subscribes the connection to messages."""
    channel = rng.choice([b'canary', b'news', b'', b'c' * 1000, b'\x00', rng.randbytes(4)])
    key = rng.choice(KEYS)
    return rng.choice([
        ['SUBSCRIBE', channel], ['SUBSCRIBE'] + [b'ch%d' % i for i in range(rng.randint(1, 200))], ['UNSUBSCRIBE'], ['UNSUBSCRIBE', channel],
        ['PSUBSCRIBE', rng.choice([b'*', b'c*', b'__key*', b'[' * 50])], ['PUNSUBSCRIBE'], ['SSUBSCRIBE', channel], ['SUNSUBSCRIBE'],
        ['PUBLISH', channel, rng.choice(TEXTS)], ['SPUBLISH', channel, b'x'], ['HELLO', rng.choice(['2', '3'])], ['RESET'], ['MONITOR'],
        ['CLIENT', 'TRACKING', 'ON'] + rng.choice([[], ['BCAST'], ['OPTIN'], ['NOLOOP'], ['BCAST', 'PREFIX', '{g1}'],
                                                    ['REDIRECT', rng.randint(0, 60)]]), ['CLIENT', 'TRACKING', 'OFF'], ['CLIENT', 'CACHING', 'YES'],
        ['BLPOP', key, rng.choice(['0', '0.01', '1e-300'])], ['BRPOPLPUSH', '{g1}a', '{g1}b', 0], ['BZPOPMIN', key, 0],
        ['BLMPOP', '0', '1', key, 'LEFT', 'COUNT', '1000'], ['XREAD', 'BLOCK', '0', 'STREAMS', key, '$'], ['WAIT', '1', '10'], ['DEL', key],
        ['LPUSH', key, b'x'], ['XADD', key, '*', 'f', 'v'], ['ZADD', key, '1', 'm'], ['GET', key], ['SET', key, b'x'], ['WATCH', key], ['UNWATCH'],
        ['MULTI'], ['EXEC'], ['DISCARD'], ['QUIT'], ['CLIENT', 'ID'], ['CLIENT', 'KILL', 'ID', rng.randint(0, 200)], ['CLIENT', 'LIST'],
        ['CLIENT', 'PAUSE', rng.choice(['1', '10', '-1'])], ['CLIENT', 'UNBLOCK', rng.randint(0, 200)], ['CLIENT', 'REPLY', rng.choice(['OFF', 'SKIP', 'ON'])],
        ['CLIENT', 'NO-EVICT', 'ON'], ['PUBSUB', 'CHANNELS'], ['PUBSUB', 'NUMSUB', channel], ['SELECT', rng.choice(['0', '1', '15'])],
        ['SWAPDB', '0', '1'], ['FLUSHDB'], ['CLIENT', 'GETREDIR'], ['CLIENT', 'TRACKINGINFO'], ['SLOWLOG', 'GET'], ['CONFIG', 'GET', '*']])


# ---- HTTP ----------------------------------------------------------------------------------------------------------

def http(rng):
    path = rng.choice([b'/', b'/config', b'/metrics', b'/healthz', b'/readyz', b'/shards', b'/status.json', b'/status/self', b'/../../etc/passwd',
                       b'//', b'/%00', b'/%2e%2e/', b'*', b'http://x/config', b'/' + b'a' * 20000, b'/metrics?' + b'x=1&' * 3000, b''])
    headers = [rng.choice([b'Host: 127.0.0.1', b'Host: attacker.example', b'Host: ', b'Host: x' * 500, b'Authorization: Bearer x',
                           b'Authorization: Basic ' + rng.randbytes(40).hex().encode(), b'Authorization: Basic ====', b'Content-Length: 99999999999999999999',
                           b'Content-Length: -1', b'Transfer-Encoding: chunked', b'Expect: 100-continue', b'Connection: keep-alive', b'X: ' + b'y' * 10000,
                           b' folded', b':', b'\x00: \x00', b'Upgrade: websocket', b'Range: bytes=0-0,-1', b'Cookie: ' + b'a=b;' * 1000])
               for _ in range(rng.randint(0, 8))]
    data = b'%s %s %s\r\n%s\r\n\r\n' % (rng.choice([b'GET', b'GET', b'GET', b'HEAD', b'POST', b'PUT', b'OPTIONS', b'CONNECT', b'\x00', b'get', b'TRACE']), path,
                                      rng.choice([b'HTTP/1.1', b'HTTP/1.1', b'HTTP/1.0', b'HTTP/9.9', b'', b'RTSP/1.0']), b'\r\n'.join(headers))
    data += rng.choice([b'', b'', b'ffffffff\r\n', b'5\r\nabc', b'x' * 5000])
    return spoil(rng, data) if rng.random() < 0.4 else data * rng.choice([1, 1, 1, 20])


# ---- a backend with invalid replies ----------------------------------------------------------------------------------

HONEST = [b'+OK\r\n', b':1\r\n', b'$-1\r\n', b'*0\r\n', b'$5\r\nhello\r\n', b'*2\r\n$1\r\na\r\n$1\r\nb\r\n', b'_\r\n', b'%1\r\n+a\r\n:1\r\n']
LIES = [b'$-7\r\n', b'*x\r\n', b':12\n', b'$3\r\nabcde\r\n', b'*99999999999999999999\r\n', b'\r\n', b'%-1\r\n', b'SELECT 0\r\n', b'*1048577\r\n', b'$4294967296\r\n',
        b'*1\r\n' * 5000, b'%1\r\n' * 200, b'>3\r\n$7\r\nmessage\r\n$6\r\ncanary\r\n$1\r\nx\r\n', b'>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n',
        b'>2\r\n$10\r\ninvalidate\r\n_\r\n', b'-MOVED 1 127.0.0.1:1\r\n', b'-ASK 1 x\r\n', b'-NOSCRIPT x\r\n', b'-' + b'E' * 70000 + b'\r\n', b'+QUEUED\r\n',
        b'*-1\r\n', b'$0\r\n\r\n', b'*3\r\n:1\r\n', b'(' + b'9' * 5000 + b'\r\n', b',nan\r\n', b'#x\r\n', b'=3\r\nabc\r\n', b'!4\r\nERR \r\n', b'|1\r\n+a\r\n+b\r\n:1\r\n',
        b'*2\r\n$1\r\n0\r\n*-1\r\n', b'*2\r\n:-5\r\n%2\r\n+a\r\n', b'*2\r\n$20\r\n18446744073709551616\r\n*0\r\n', b'*1\r\n*1\r\n$9\r\nsubscribe\r\n',
        b'*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:-1\r\n', b'*1000000\r\n' + b':1\r\n' * 1000, b'+\xff\x00\r\n', b'*4\r\n$8\r\npmessage\r\n_\r\n_\r\n_\r\n']


def answer(rng, count):
    """Bytes sent in place of `count` replies."""
    dice = rng.random()
    if dice < 0.6:
        return b''.join(rng.choice(HONEST) for _ in range(count))
    if dice < 0.8:
        return b''.join(rng.choice(HONEST + LIES) for _ in range(count))
    if dice < 0.85:
        return spoil(rng, b''.join(rng.choice(HONEST) for _ in range(count)))
    if dice < 0.9:
        return rng.choice(LIES) * rng.choice([1, 2, 500])
    if dice < 0.94:
        return b''.join(rng.choice(HONEST) for _ in range(count + rng.randint(1, 50)))
    if dice < 0.96:
        return b'$3000000\r\n' + b'z' * rng.choice([100, 3000002])
    return rng.randbytes(rng.randint(1, 3000)) if dice < 0.98 else b''


def request(rng, words):
    """The bytes of one command: mostly valid, inline, or spoiled."""
    dice = rng.random()
    if dice < 0.996:
        return encode(words)
    if dice < 0.998:
        return b' '.join(to_bytes(word) for word in words).replace(b'\r\n', b' ')[:60000] + b'\r\n'
    return spoil(rng, encode(words))
