#!/usr/bin/python3
"""Damaged payloads for RESTORE and FUNCTION RESTORE at a running backend: every one gets a reply, and nothing else is
affected.

Payloads of every type, written by redis-server and by the backend, are mutated, given a valid checksum, and sent. A
value that RESTORE accepts must be whole: it can be read, changed and dumped, and RESTORE accepts its dump.

    test_payloads.py [--seconds N] [--seed S]
"""

import subprocess
import time

from support import rdb_payload
from support.cluster import Cluster, Oracle, binary
from support.harness import Failure, Suite, check, check_equal, patience, sized
from support.resp import Connection, show


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(4, long=600), help='how long each kind of payload is tried (default %(default)s)')


suite = Suite(__doc__, options)
RDB_VERSION = 10
TYPES = ('string', 'list', 'set', 'zset', 'hash', 'stream', 'ReJSON-RL', 'sortedint', 'MBbloom--',
         'CMSk-TYPE', 'TDIS-TYPE', 'TopK-TYPE')


# ---- payloads ----------------------------------------------------------------------------------------------------

def with_footer(body, version=RDB_VERSION):
    return rdb_payload.with_footer(body, version)


def values():
    """Commands that make a key of each type and encoding; redis-server has all of them except JSON's, SI…, BF…, CMS…, TDIGEST… and TOPK…"""
    text = 'text ' * 30
    many = [str(i) for i in range(140)]
    yield 'string', [('SET', 'k', 'hello')]
    yield 'number', [('SET', 'k', '-123456')]
    yield 'compressed', [('SET', 'k', text)]
    yield 'list', [('RPUSH', 'k', 'a', '1', '70000', 'x' * 100, text)]
    yield 'long list', [('RPUSH', 'k', *(many * 3))] + [('RPUSH', 'k', 'y' * 5000)]
    yield 'integers', [('SADD', 'k', '1', '-2', '70000', str(1 << 40))]
    yield 'set', [('SADD', 'k', 'a', 'b', 'c', '12', text)]
    yield 'big set', [('SADD', 'k', *('m%s' % i for i in many))]
    yield 'zset', [('ZADD', 'k', '1', 'a', '2.5', 'b', '-inf', 'c', '1e300', '7')]
    yield 'big zset', [('ZADD', 'k', *(word for i in many for word in (i, 'm' + i)))]
    yield 'hash', [('HSET', 'k', 'f', 'v', 'g', '12', 'long', text)]
    yield 'big hash', [('HSET', 'k', *(word for i in many for word in ('f' + i, i)))]
    yield 'stream', [('XADD', 'k', '%d-1' % i, 'f', str(i), 'g', 'text') for i in range(1, 8)] + [
        ('XDEL', 'k', '3-1'), ('XADD', 'k', '9-0', 'other', 'field'), ('XGROUP', 'CREATE', 'k', 'g', '0'),
        ('XREADGROUP', 'GROUP', 'g', 'one', 'COUNT', '3', 'STREAMS', 'k', '>'),
        ('XREADGROUP', 'GROUP', 'g', 'two', 'COUNT', '1', 'STREAMS', 'k', '>'), ('XACK', 'k', 'g', '2-1'),
        ('XGROUP', 'CREATE', 'k', 'h', '$')]
    yield 'json', [('JSON.SET', 'k', '$', '{"a":[1,2.5,"x",null,true,{"b":"c"}]}')]
    yield 'sortedint', [('SIADD', 'k', '1', '2', '3', '1000')]
    yield 'bloom', [('BF.RESERVE', 'k', '0.01', '10'), ('BF.MADD', 'k', *many)]
    yield 'digest', [('TDIGEST.CREATE', 'k', 'COMPRESSION', '20'), ('TDIGEST.ADD', 'k', *many), ('TDIGEST.ADD', 'k', '-0.5', '1e300')]
    yield 'sketch', [('CMS.INITBYDIM', 'k', '100', '3'), ('CMS.INCRBY', 'k', 'a', '1', 'b', '2')]
    yield 'top-k', [('TOPK.RESERVE', 'k', '3'), ('TOPK.ADD', 'k', 'a', 'b', 'a', text, 'd')]


def old_forms():
    """Payloads of older servers: plain collections, ziplists, quicklists of ziplists."""
    def packed(*elements):
        body, before = b'', 0
        for element in elements:
            piece = bytes([before, len(element)]) + element
            body, before = body + piece, len(piece)
        size = 10 + len(body) + 1
        return size.to_bytes(4, 'little') + (size - 1 - before).to_bytes(4, 'little') + \
            len(elements).to_bytes(2, 'little') + body + b'\xff'

    def string(data):
        return bytes([len(data)]) + data
    yield b'\x01\x03\x01a\x01b\x01a'
    yield b'\x02\x03\x01a\x01b\x01c'
    yield b'\x03\x02\x01a\x011\x01b\xfe'
    yield b'\x04\x02\x01a\x01b\x01c\x01d'
    yield b'\x05\x01\x01a' + b'\0' * 8
    yield b'\x0a' + string(packed(b'a', b'b', b'c'))
    yield b'\x0c' + string(packed(b'a', b'1', b'b', b'2'))
    yield b'\x0d' + string(packed(b'a', b'1', b'b', b'2'))
    yield b'\x0e\x02' + string(packed(b'a', b'b')) + string(packed(b'c'))
    yield b'\x12\x02\x01\x03abc\x02' + string(b'\x0b\0\0\0\x01\0\x01\x01\xff'[:9])


def originals(connections):
    found = []
    for name, commands in values():
        for connection in connections:
            replies = connection.pipeline([('DEL', 'k')] + commands + [('DUMP', 'k')])
            if any(kind == '-' for kind, _ in replies):
                check(connection is not connections[0], '%s: %s' % (name, show(replies[-2])))
                continue
            found.append(replies[-1][1][:-10])
            connection.call('DEL', 'k')
    return found + list(old_forms())


INTERESTING = [0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3, 0xfd, 0xfe, 0xff]


def mutate(rng, body, others):
    data = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 40)))
        kind = rng.randrange(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice(INTERESTING)
        elif kind == 2 and at < len(data):
            data[at] = (data[at] + rng.choice((1, -1))) & 255
        elif kind == 3:
            del data[at:end]
        elif kind == 4:
            data[at:at] = data[at:end]  # doubles a part
        elif kind == 5:
            data[at:at] = bytes(rng.choice(INTERESTING) for _ in range(rng.choice((1, 2, 4, 9))))
        elif kind == 6:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start:start + rng.choice((1, 8, 40, 400))]
        elif kind == 7 and rng.random() < 0.3:
            del data[at:]
    if rng.random() < 0.05 and data:
        data[0] = rng.randrange(24)
    return bytes(data[:20000])


# ---- the results -----------------------------------------------------------------------------------------------------

READS = {
    'string': [('GET', 'k'), ('STRLEN', 'k'), ('APPEND', 'k', 'x'), ('SETRANGE', 'k', '3', 'yy')],
    'list': [('LLEN', 'k'), ('LRANGE', 'k', '0', '-1'), ('LPOS', 'k', 'a'), ('LINSERT', 'k', 'BEFORE', 'a', 'b'),
             ('LPUSH', 'k', 'z'), ('RPOP', 'k'), ('LTRIM', 'k', '1', '-2'), ('LREM', 'k', '0', 'a')],
    'set': [('SCARD', 'k'), ('SMEMBERS', 'k'), ('SRANDMEMBER', 'k', '-3'), ('SADD', 'k', 'z', '1'), ('SPOP', 'k', '2')],
    'zset': [('ZCARD', 'k'), ('ZRANGE', 'k', '0', '-1', 'WITHSCORES'), ('ZRANK', 'k', 'a'), ('ZINCRBY', 'k', '1', 'a'),
             ('ZRANGEBYSCORE', 'k', '-inf', '+inf'), ('ZPOPMIN', 'k'), ('ZREMRANGEBYRANK', 'k', '0', '1')],
    'hash': [('HLEN', 'k'), ('HGETALL', 'k'), ('HRANDFIELD', 'k', '-3', 'WITHVALUES'), ('HINCRBY', 'k', 'a', '1'),
             ('HDEL', 'k', 'f', 'g')],
    'stream': [('XLEN', 'k'), ('XRANGE', 'k', '-', '+'), ('XREVRANGE', 'k', '+', '-'), ('XINFO', 'STREAM', 'k', 'FULL'),
               ('XINFO', 'CONSUMERS', 'k', 'g'), ('XPENDING', 'k', 'g', '-', '+', '10'), ('XADD', 'k', '*', 'f', 'v'),
               ('XREADGROUP', 'GROUP', 'g', 'one', 'STREAMS', 'k', '>'), ('XAUTOCLAIM', 'k', 'g', 'two', '0', '0'),
               ('XACK', 'k', 'g', '1-1', '2-1', '4-1'), ('XGROUP', 'DELCONSUMER', 'k', 'g', 'one'),
               ('XGROUP', 'DESTROY', 'k', 'g'), ('XTRIM', 'k', 'MAXLEN', '1')],
    'ReJSON-RL': [('JSON.GET', 'k', '$'), ('JSON.TYPE', 'k', '$..*'), ('JSON.SET', 'k', '$.a', '1')],
    'sortedint': [('SICARD', 'k'), ('SIRANGE', 'k', '0', '100'), ('SIADD', 'k', '5'), ('SIREM', 'k', '1')],
    'CMSk-TYPE': [('CMS.INFO', 'k'), ('CMS.QUERY', 'k', 'a', 'b'), ('CMS.INCRBY', 'k', 'a', '1', 'new', '2'), ('CMS.MERGE', 'k', '1', 'k')],
    'TDIS-TYPE': [('TDIGEST.INFO', 'k'), ('TDIGEST.QUANTILE', 'k', '0', '0.5', '1'), ('TDIGEST.MAX', 'k'), ('TDIGEST.ADD', 'k', '5', '-7'),
                  ('TDIGEST.MERGE', 'k', '1', 'k')],
    'TopK-TYPE': [('TOPK.INFO', 'k'), ('TOPK.LIST', 'k', 'WITHCOUNT'), ('TOPK.QUERY', 'k', 'a'), ('TOPK.COUNT', 'k', 'a', 'b'),
                  ('TOPK.ADD', 'k', 'a', 'new', 'new', 'new'), ('TOPK.INCRBY', 'k', 'b', '9')],
    'MBbloom--': [('BF.CARD', 'k'), ('BF.INFO', 'k'), ('BF.EXISTS', 'k', '1'), ('BF.MADD', 'k', 'new', '1', '2'), ('BF.SCANDUMP', 'k', '1')],
}


HASHES_WITH_TTLS = range(22, 26)  # types of RDB


def counted(kind, replies):
    """Checks that a collection has as many elements as its length says."""
    number = {'list': 1, 'set': 1, 'zset': 2, 'hash': 2, 'stream': 1}.get(kind)
    if number and replies[0][0] == ':' and replies[1][0] in '*~':
        check_equal(len(replies[1][1]), number * int(replies[0][1]), 'elements of a %s' % kind)


def use(connection, body):
    """Checks that the accepted value is whole."""
    kind, payload = connection.call('TYPE', 'k')
    name = payload.decode()
    if name == 'none' and body[0] in HASHES_WITH_TTLS:
        return  # a damaged time: all fields have expired
    check(name in TYPES, 'TYPE says %s' % name)
    again, size = connection.pipeline([('DUMP', 'k'), ('DBSIZE',)])
    check_equal(size, (':', b'1'), 'DBSIZE')
    check(again[0] == '$' and again[1], 'DUMP of what was restored: %s' % show(again))
    taken, copy, _ = connection.pipeline([('RESTORE', 'copy', '0', again[1]), ('DUMP', 'copy'), ('DEL', 'copy')])
    check_equal(taken, ('+', b'OK'), 'RESTORE of its own dump')
    if name not in ('set', 'hash'):  # the order of the rows differs from the order in the payload
        check_equal(copy, again, 'DUMP of the copy')
    counted(name, connection.pipeline(READS[name]))
    check(kind == '+', body)


class Hunt:
    """Sends payloads in pipelines: `command` before and after the payload."""

    def __init__(self, connection, other, before, behind):
        self.connection, self.other, self.before, self.behind = connection, other, before, behind
        self.tried, self.taken = 0, []

    def call(self, body):
        try:
            return self.connection.call(*self.before, with_footer(body), *self.behind)
        except Exception as error:
            raise Failure('%s: no reply to %s of %r' % (type(error).__name__, self.before[0], body)) from None

    def one(self, body, use_it):
        reply = self.call(body)
        self.tried += 1
        try:
            if reply == ('+', b'OK'):
                self.taken.append(body)
                use_it(self.connection, body)
            else:
                check(reply[0] == '-', show(reply))
            if self.tried % 64 == 0:
                check_equal(self.other.call('PING'), ('+', b'PONG'))
        except Failure as failure:
            raise Failure('%s: %s of %r' % (failure, self.before[0], body)) from None
        except Exception as error:
            raise Failure('%s after %s of %r' % (type(error).__name__, self.before[0], body)) from None


def limit_of(run):
    return time.monotonic() + run.options.seconds


def one_partition():
    return Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'durability': 'os'}})


# ---- cases -------------------------------------------------------------------------------------------------------

@suite.case('a RESTORE that is refused halfway gets a reply at once')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        bad = with_footer(b'\x02\x03\x01a\x01b\x01a')
        for address in (cluster.backends[0].addresses[0], cluster.proxies[0].address):
            for commands in ([('RESTORE', 'k', '0', bad)],
                             [('MULTI',), ('RESTORE', 'k', '0', bad), ('EXEC',)],
                             [('EVAL', "return redis.pcall('RESTORE', KEYS[1], '0', ARGV[1])", '1', 'k', bad)],
                             [('SET', 's', 'x'), ('RENAMENX', 's', 's'), ('RESTORE', 's', '0', bad, 'REPLACE')]):
                with Connection(address, timeout=patience()) as connection:
                    replies = connection.pipeline(commands)
                    check(b'Bad data format' in repr(replies[-1]).encode(), show(replies[-1]))
                    check_equal(connection.call('GET', 'k'), ('$', None))


@suite.case('damaged payloads of RESTORE: each gets a reply, and an accepted value is whole')
def _(run):
    with one_partition() as cluster:
        oracle = Oracle(cluster.folder)
        oracle.start()
        with cluster.partition(0) as connection, cluster.partition(0) as other, Connection(oracle.address) as redis:
            bodies = originals((connection, redis))
            connection.call('FLUSHALL')
            connection.sock.settimeout(patience())
            hunt = Hunt(connection, other, ('RESTORE', 'k', '0'), ('REPLACE',))
            for body in bodies:
                hunt.one(body, use)
            check(len(hunt.taken) >= len(bodies) - 1, '%d of %d whole payloads were taken' % (len(hunt.taken), len(bodies)))
            end = limit_of(run)
            while time.monotonic() < end:
                for _ in range(100):
                    hunt.one(mutate(run.rng, run.rng.choice(bodies), bodies), use)
            run.note('%d payloads tried, %d taken' % (hunt.tried, len(hunt.taken)))
            for i, body in enumerate(hunt.taken[-500:]):
                check_equal(connection.call('RESTORE', 'kept:%d' % i, '0', with_footer(body)), ('+', b'OK'))
        oracle.stop()
        backend = cluster.backends[0]
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True)
        check_equal(done.returncode, 0, done.stdout + done.stderr)


@suite.case('a payload that would expand beyond reply-limit is refused, and restores nothing')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'backend': {'reply-limit': '1mb'}}) as cluster:
        with cluster.partition(0) as connection:
            connection.call('SET', 'k', b'a' * 250000)
            piece = connection.call('DUMP', 'k')[1][1:-10]
            check(len(piece) < 10000, 'it is compressed')
            connection.call('DEL', 'k')
            for count, text in ((4, b'OK'), (40, b'larger than reply-limit when it is decompressed, so nothing was restored')):
                reply = connection.call('RESTORE', 'k', '0', with_footer(b'\x01' + bytes([count]) + piece * count))
                check(text in reply[1], show(reply))
                check_equal(connection.call('LLEN', 'k'), (':', b'4' if count == 4 else b'0'))
                connection.call('DEL', 'k')


LIBRARY = """#!lua name=lib%d
local function get(keys, args) return redis.call('GET', keys[1]) end
redis.register_function('f%d', get)
redis.register_function{function_name='g%d', callback=function() return 1 end, flags={'no-writes'}}
"""


# A list of top-k whose items are in another order than their rows: it was restored, and its own DUMP was refused.
TOPK_OUT_OF_ORDER = (
    b'\x07\x81N\x8aJ\xf96\x0f\x13\xe8\x05\xc3.4\x0bscreeTK1\x00\x00\x00\x03 '
    b'\x03\x00\x08 \x03\x03\x07?\xec\xcc@\x00\x00\xcd \x0b@\x13\x00\x01 \x07@\x00\x00\x04@\x04'
    b' \x00\x00\x05\x05\xc3@sA\xc5\x01b\x00 \x00\x03-2\x9e\x96 \x06\x00\x01 \x03\xe0\x1c'
    b'\x00\x03eA{\x84 (\x04\x02\xc7\x91h\xe9 \x07\xe0\x007\xe0\x07\x0f\xc0\x00\xc0/\xe0\x0f'
    b'g\xc0\x1f\xc0/\x03i}\x08j \x0b\xe0\x08W\xe0\x0f?\xe0\x0f\x00\xa0W\xe0\x00G\xe0\x07'
    b'\x00\xc0\xaf\xc0o\xe0\x0f_\xa0G\xe0\x08\xef\xe0\x0f\x00\xe0\x0fG\xc0o\xa0O\xe0\x10\x97\xc0\x8f'
    b'\xc0_\xc0O\xc0?\xc0\x17\x80\xc0\x01\x00\x02\x05\x0ec\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xfc'
    b'a\x05\x0ec\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff\xfad\x05\xc3\x17@\xa3\x04c\xff\xff\xff\xfe'
    b' \x03@\x00\x05\xfbtext \xe0\x86\x04\x01t \x00')


@suite.case('a top-k list whose items are not in order is refused by RESTORE')
def _(run):
    with one_partition() as cluster, cluster.partition(0) as connection:
        reply = connection.call('RESTORE', 'k', '0', with_footer(TOPK_OUT_OF_ORDER, 10))
        check_equal(reply, ('-', b'ERR Bad data format'), 'RESTORE')


@suite.case('damaged payloads of FUNCTION RESTORE: each gets a reply, and the existing functions stay')
def _(run):
    with one_partition() as cluster:
        with cluster.partition(0) as connection, cluster.partition(0) as other:
            connection.sock.settimeout(patience())
            for i in range(3):
                check_equal(connection.call('FUNCTION', 'LOAD', LIBRARY % (i, i, i)), ('$', b'lib%d' % i))
            body = connection.call('FUNCTION', 'DUMP')[1][:-10]
            plain = b''.join(b'\xf5\x40' + bytes([len(code)]) + code
                             for code in ((LIBRARY % (i, i, i)).encode() for i in range(5, 7)))

            def use_it(connection, _):
                listed, dumped = connection.pipeline([('FUNCTION', 'LIST', 'WITHCODE'), ('FUNCTION', 'DUMP')])
                check(listed[0] == '*' and dumped[0] == '$', show(listed))
                again = connection.call('FUNCTION', 'RESTORE', dumped[1], 'FLUSH')
                check_equal(again, ('+', b'OK'), 'FUNCTION RESTORE of its own dump')
            hunt = Hunt(connection, other, ('FUNCTION', 'RESTORE'), ('REPLACE',))
            for whole in (body, plain):
                hunt.one(whole, use_it)
            check_equal(len(hunt.taken), 2, 'whole payloads taken')
            end = limit_of(run)
            while time.monotonic() < end:
                for _ in range(20):
                    hunt.one(mutate(run.rng, run.rng.choice((body, plain)), (body, plain)), use_it)
                connection.call('FUNCTION', 'FLUSH')
                hunt.one(body, use_it)
            run.note('%d payloads tried, %d taken' % (hunt.tried, len(hunt.taken)))


suite.main()
