"""sets: every set command of Redis 7.0."""

from support.stream import Member, Walk
from support.transcript import Step

WEIGHT = 2


def member(c):
    return c.field()


def keys(c, more=0):
    """Keys of one shard; `more` further ones in front, for a destination."""
    return c.keys_together(c.number(1, 4) + more)


def sadd(c):
    count = c.number(200, 400) if c.fields_many and c.chance(0.3) else c.number(1, 5)
    return ['SADD', c.key()] + [member(c) for _ in range(count)]


def spop(c):
    if c.chance(0.3):
        return ['SPOP', c.key(), c.pick([b'x', b'', b'-1', 0])]
    return Step(['SPOP', c.key(), 1000])  # never mangled: without the count, the member popped would be random


def srandmember(c):
    key = c.key()
    if c.in_block or c.chance(0.2):
        return ['SRANDMEMBER', key, c.pick([b'x', b'-9223372036854775808', 0, 100000])]
    if c.chance(0.3):
        return Member(['SRANDMEMBER', key], ['SMEMBERS', key])
    return Member(['SRANDMEMBER', key, c.number(-15, 15)], ['SMEMBERS', key])


def sintercard(c):
    wanted = keys(c)
    words = ['SINTERCARD', len(wanted) if c.through_proxy else c.pick([len(wanted)] * 8 + [0, -1, b'x', len(wanted) + 1])] + wanted
    if c.chance(0.4):
        words += [c.case('LIMIT'), c.pick([0, 1, 2, 100, -1, b'x'])]
    if c.chance(0.05):
        words.append('NOPE')
    return words


def sscan(c):
    key = c.key()
    if c.chance(0.15):
        return ['SSCAN', key, c.pick(['abc', '-1', ''])]
    words = ['SSCAN', key, '0']
    if c.chance(0.4):
        words += ['MATCH', c.pick(['f*', '*', '?1', 'f[1-3]', '', '[^f]*'])]
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 10, 1000])]
    return Walk(words, 2, is_pairs=False)


COMMANDS = [
    (12, sadd),
    (4, lambda c: ['SREM', c.key()] + [member(c) for _ in range(c.number(1, 5))]),
    (3, lambda c: ['SMOVE'] + c.keys_together(2) + [member(c)]),
    (3, lambda c: ['SCARD', c.key()]),
    (3, lambda c: ['SISMEMBER', c.key(), member(c)]),
    (2, lambda c: ['SMISMEMBER', c.key()] + [member(c) for _ in range(c.number(1, 4))]),
    (3, lambda c: ['SMEMBERS', c.key()]),
    (1, spop),
    (2, srandmember),
    (3, lambda c: ['SINTER'] + keys(c)),
    (2, lambda c: ['SUNION'] + keys(c)),
    (2, lambda c: ['SDIFF'] + keys(c)),
    (2, lambda c: ['SINTERSTORE'] + keys(c, 1)),
    (2, lambda c: ['SUNIONSTORE'] + keys(c, 1)),
    (2, lambda c: ['SDIFFSTORE'] + keys(c, 1)),
    (2, sintercard),
    (2, sscan),
]

CHECKS = {'SMEMBERS': 'unordered', 'SINTER': 'unordered', 'SUNION': 'unordered', 'SDIFF': 'unordered',
          'SPOP': 'unordered', 'SRANDMEMBER': 'length', 'SSCAN': 'scan_kind'}
READERS = {b'set': (['SMEMBERS', None], 'unordered')}
MANY_KEYS = {'SINTERCARD', 'SMOVE', 'SINTER', 'SUNION', 'SDIFF', 'SINTERSTORE', 'SUNIONSTORE', 'SDIFFSTORE'}
