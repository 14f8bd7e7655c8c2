"""hashes: every hash command of Redis 7.0."""

from support.stream import Member, Walk
from support.transcript import Step

WEIGHT = 2


def pairs(c):
    """Field, value, …; values stay small enough to read the whole hash."""
    count = c.number(20, 90) if c.fields_many and c.chance(0.5) else c.number(1, 4)
    words = []
    for _ in range(count):
        words += [c.field(), c.value(b'small')]
    if c.chance(0.04):
        words.pop()
    return words


def count(c):
    """HRANDFIELD's count: small, or what Redis refuses."""
    return c.pick([b'x', b'', b'-9223372036854775808', b'1.5']) if c.chance(0.15) else c.number(-15, 15)


def hrandfield(c):
    """Inside blocks and pipelines only the length of the reply is compared; alone, also whether its members are in the
    hash."""
    key = c.key()
    if c.chance(0.2):
        return Member(['HRANDFIELD', key], ['HGETALL', key])
    how_many = count(c)
    words = ['HRANDFIELD', key, how_many]
    with_values = c.chance(0.5)
    if with_values:
        words.append(c.case('WITHVALUES'))
        if c.chance(0.1):
            # never mangled: without WITHVALUES redis-server would write such a number of fields
            return Step(['HRANDFIELD', key, c.pick(['9223372036854775807', '-9223372036854775807']), 'WITHVALUES'])
    if c.in_block or c.chance(0.3):
        return words + (['NOPE'] if c.chance(0.1) else [])
    return Member(words, ['HGETALL', key], with_values)


def hscan(c):
    key = c.key()
    if c.chance(0.2):
        return ['HSCAN', key, c.pick(['abc', '-1', '', '0x1'])]
    if c.chance(0.2):
        return ['HSCAN', key, '0', c.pick(['COUNT', 'MATCH', 'NOPE', 'TYPE']), c.pick(['0', '-1', 'x'])]
    words = ['HSCAN', key, '0']
    if c.chance(0.4):
        words += ['MATCH', c.pick(['f*', '*', '?1', 'f[1-3]', '', '[^f]*', '\\f1', 'field:1*'])]
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 10, 1000])]
    return Walk(words, 2, is_pairs=True)


COMMANDS = [
    (10, lambda c: ['HSET', c.key()] + pairs(c)),
    (2, lambda c: ['HMSET', c.key()] + pairs(c)),
    (2, lambda c: ['HSETNX', c.key(), c.field(), c.value(b'small')]),
    (4, lambda c: ['HGET', c.key(), c.field()]),
    (3, lambda c: ['HMGET', c.key()] + [c.field() for _ in range(c.number(1, 4))]),
    (3, lambda c: ['HGETALL', c.key()]),
    (1, lambda c: ['HKEYS', c.key()]),
    (1, lambda c: ['HVALS', c.key()]),
    (2, lambda c: ['HLEN', c.key()]),
    (2, lambda c: ['HSTRLEN', c.key(), c.field()]),
    (2, lambda c: ['HEXISTS', c.key(), c.field()]),
    (3, lambda c: ['HDEL', c.key()] + [c.field() for _ in range(c.number(1, 5))]),
    (3, lambda c: ['HINCRBY', c.key(), c.field(), c.integer()]),
    (3, lambda c: ['HINCRBYFLOAT', c.key(), c.field(), c.float_text()]),
    (3, hrandfield),
    (3, hscan),
]

CHECKS = {'HGETALL': 'pairs', 'HKEYS': 'unordered', 'HVALS': 'unordered', 'HRANDFIELD': 'length', 'HSCAN': 'scan_kind'}
READERS = {b'hash': (['HGETALL', None], 'pairs')}
