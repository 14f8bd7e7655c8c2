"""zsets: every sorted set command of Redis 7.0; the blocking ones with data, inside MULTI, or with a short timeout."""

from support.stream import Member, Walk
from support.transcript import Step

WEIGHT = 3
SHORT = ['0.001', '0.002', '1e-3']  # timeouts short enough for a stream
BAD_TIMEOUTS = ['-1', 'x', '', 'nan', 'inf', '1e400', '-0.1']
SCORES = ['0', '1', '1', '1', '2', '2', '3', '-1', '-1.5', '0.1', '0.3', '1e22', '-1e300', '1e-300', '3.0e3',
          '123456789.123456789', '4503599627370497', '9007199254740993', '1.7e308', '0x10', '.5', '100000']
WILD_SCORES = ['inf', '-inf', '+inf', 'Infinity', 'nan', '', 'abc', ' 1', '1 ', '1e400', '1\x00', '1e-400']
NAMES = [b'a', b'b', b'c', b'd', b'aa', b'ab', b'', b'\x00', b'\xff', b'1', b'-7', b'B', b'a\x00']
# Too long for Redis' compact form: beyond it, the result of a range by name over several scores is undefined.
LONG_NAMES = [b'm' * 65, b'z' * 200]


def score(c):
    return c.pick(WILD_SCORES) if c.chance(0.06) else c.pick(SCORES)


def member(c):
    if not c.fields_many:
        return c.pick(NAMES)
    return b'm%d' % c.number(0, 400) if c.chance(0.8) else c.pick(NAMES + LONG_NAMES)


def pairs(c):
    count = c.number(60, 300) if c.fields_many and c.chance(0.3) else c.number(1, 6)
    equal = c.pick(SCORES) if c.chance(0.4) else None
    words = []
    for _ in range(count):
        words += [equal or score(c) if count < 60 else equal or c.pick(['1', '2', '3.5', '-1', '0.1']), member(c)]
    return words


def zadd(c):
    options = [c.case(option) for option, p in (('NX', .1), ('XX', .12), ('GT', .1), ('LT', .1), ('CH', .3))
               if c.chance(p)]
    if c.chance(0.15):
        return ['ZADD', c.key()] + options + ['INCR', score(c), member(c)] + ([1, 'a'] if c.chance(0.05) else [])
    if c.chance(0.03):
        options.append('INCR')
    return ['ZADD', c.key()] + options + pairs(c) + (['1'] if c.chance(0.03) else [])


def bound(c):
    """A limit of a range of scores."""
    dice = c.rng.random()
    text = c.pick(['-inf', '+inf', 'inf']) if dice < 0.3 else c.pick(SCORES) if dice < 0.95 else \
        c.pick(['', 'x', ' 1', 'nan', '1 ', '1\x00', '((1', '1e400'])
    return ('(' if c.chance(0.25) else '') + text


def name_bound(c):
    if c.chance(0.3):
        return c.pick([b'-', b'+'])
    if c.chance(0.05):
        return c.pick([b'', b'a', b'++', b'-x', b'(', b'[', b'1', b'+\x00x'])
    return c.pick([b'[', b'[', b'(']) + member(c)


# Ranges by name are only used on a set whose members have one score. With several scores the result depends on whether
# Redis uses a skiplist, and SORT makes it use one.
def one_score(c):
    """The name of a set with one score (inside a block: with the block's tag)."""
    return (c.group or b'') + b'one-score'


def by_name(c, name):
    return None if c.fields_many else [name, one_score(c), name_bound(c), name_bound(c)]


def remove_by_name(c):
    if c.chance(0.2):
        return ['ZREMRANGEBYLEX', c.key()] + c.pick([['-', '+'], ['+', '-'], ['x', '+'], ['-', '']])
    members = [word for _ in range(c.number(1, 8)) for word in ('0', member(c))]
    name = one_score(c)
    return [Step(['ZADD', name] + members), Step(['ZREMRANGEBYLEX', name, name_bound(c), name_bound(c)])]


def limit(c, chance=0.4):
    if not c.chance(chance):
        return []
    number = c.integer if c.chance(0.1) else lambda: c.number(-2, 8)
    return [c.case('LIMIT'), number(), number()] if c.chance(0.97) else ['LIMIT', '1']


def with_scores(c):
    return [c.case('WITHSCORES')] if c.chance(0.5) else []


def window(c, by_name=True):
    """A range and options as ZRANGE reads them."""
    kind = c.pick(['', '', 'BYSCORE', 'BYLEX' if by_name and not c.fields_many else 'BYSCORE'])
    ends = {'': lambda: c.index(), 'BYSCORE': lambda: bound(c), 'BYLEX': lambda: name_bound(c)}[kind]
    words = ['0', '-1'] if not kind and c.chance(0.4) else [ends(), ends()]
    options = [kind] if kind else []
    options += ['REV'] if c.chance(0.4) else []
    options += limit(c, 0.4 if kind else 0.08)
    return words + options + (['NOPE'] if c.chance(0.02) else [])


def zrange(c):
    words = window(c)
    scores = with_scores(c) if 'BYLEX' not in words or c.chance(0.1) else []
    return ['ZRANGE', one_score(c) if 'BYLEX' in words else c.key()] + words + scores


def zrangestore(c):
    target, source = c.keys_together(2)
    return ['ZRANGESTORE', target, source] + window(c, by_name=False) + (['WITHSCORES'] if c.chance(0.03) else [])


def old_range(c):
    names = ['ZRANGEBYSCORE', 'ZREVRANGEBYSCORE', 'ZREVRANGE']
    name = c.pick(names if c.fields_many else names + ['ZRANGEBYLEX', 'ZREVRANGEBYLEX'])
    ends = name_bound if 'LEX' in name else bound if 'SCORE' in name else (lambda c: c.index())
    words = [name, one_score(c) if 'LEX' in name else c.key(), ends(c), ends(c)]
    if 'LEX' not in name or c.chance(0.05):
        words += with_scores(c)
    return words + limit(c, 0.05 if name == 'ZREVRANGE' else 0.4)


def count_of(c):
    if c.chance(0.12):
        return c.pick([b'-1', b'x', b'', b'9223372036854775807', b'-9223372036854775808'])
    return c.number(0, 6)


def pop(c):
    words = [c.pick(['ZPOPMIN', 'ZPOPMAX']), c.key()]
    return words if c.chance(0.5) else words + [count_of(c)] + (['x'] if c.chance(0.03) else [])


def mpop_words(c):
    keys = c.keys_together(c.number(1, 3))
    count = len(keys)
    if c.chance(0.06):
        count = c.pick([b'0', b'-1', b'x', b'', b'9223372036854775807'] +
                       ([] if c.through_proxy else [count + 1, count + 2, max(count - 1, 1)]))
    words = [count] + keys + [c.pick(['MIN', 'MAX', 'min', 'Max']) if c.chance(0.97) else 'LEFT']
    if c.chance(0.5):
        words += [c.case('COUNT'), c.pick([b'0', b'-1', b'x']) if c.chance(0.08) else c.number(1, 6)]
    return words + (['COUNT', '1'] if c.chance(0.03) else [])


def waiting(c):
    """Never mangled: a stream must not block without a timeout."""
    timeout = c.pick(BAD_TIMEOUTS) if c.chance(0.06) else c.pick(SHORT)
    if c.chance(0.4):
        return Step(['BZMPOP', timeout] + mpop_words(c))
    return Step([c.pick(['BZPOPMIN', 'BZPOPMAX'])] + c.keys_together(c.number(1, 3)) + [timeout])


def zrandmember(c):
    key = c.key()
    if c.chance(0.2):
        return Member(['ZRANDMEMBER', key], ['ZRANGE', key, '0', '-1', 'WITHSCORES'])
    how_many = c.pick([b'x', b'', b'-9223372036854775808', b'1.5']) if c.chance(0.15) else c.number(-15, 15)
    words = ['ZRANDMEMBER', key, how_many] + with_scores(c)
    return words + (['NOPE'] if c.chance(0.03) else [])


def zscan(c):
    key = c.key()
    if c.chance(0.1):
        return ['ZSCAN', key, c.pick(['abc', '-1', ''])]
    words = ['ZSCAN', key, '0']
    if c.chance(0.4):
        words += ['MATCH', c.pick(['a*', '*', '?', '[ab]', '', 'm1*'])]
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 10, 1000])]
    return Walk(words, 2, is_pairs=True)


def algebra(c):
    name = c.pick(['ZUNION', 'ZINTER', 'ZDIFF', 'ZINTERCARD', 'ZUNIONSTORE', 'ZINTERSTORE', 'ZDIFFSTORE'])
    keys = c.keys_together(c.number(2, 4))
    target = [keys.pop()] if name.endswith('STORE') else []
    count = len(keys)
    if c.chance(0.05):
        count = c.pick([b'0', b'-1', b'x', b''] + ([] if c.through_proxy else [count + 1, count + 9]))
    words = [name] + target + [count] + keys
    if c.chance(0.4) and name != 'ZINTERCARD':
        words += [c.case('WEIGHTS')] + [c.pick(SCORES + ['inf', '-inf', '2'] + ([] if c.fields_many else ['0'])) if c.chance(0.97) else 'x'
                                        for _ in keys]
    if c.chance(0.4) and name != 'ZINTERCARD':
        words += [c.case('AGGREGATE'), c.pick(['SUM', 'MIN', 'MAX', 'min']) if c.chance(0.97) else 'AVG']
    if name == 'ZINTERCARD' and c.chance(0.5):
        words += ['LIMIT', c.pick([b'0', b'1', b'2', b'-1', b'x'])]
    if 'DIFF' in name:
        words = words[:2 + len(target) + len(keys)] if c.chance(0.9) else words
    if not target and c.chance(0.5):
        words += ['WITHSCORES']
    return words


def set_input(c):
    """A set: ZUNION and the like accept sets as well."""
    return ['SADD', c.key()] + [member(c) for _ in range(c.number(1, 4))]


COMMANDS = [
    (12, zadd),
    (3, lambda c: ['ZINCRBY', c.key(), score(c), member(c)]),
    (3, lambda c: ['ZREM', c.key()] + [member(c) for _ in range(c.number(1, 4))]),
    (1, lambda c: ['ZCARD', c.key()]),
    (2, lambda c: ['ZSCORE', c.key(), member(c)]),
    (2, lambda c: ['ZMSCORE', c.key()] + [member(c) for _ in range(c.number(1, 4))]),
    (3, lambda c: [c.pick(['ZRANK', 'ZREVRANK']), c.key(), member(c)]),
    (2, lambda c: ['ZCOUNT', c.key(), bound(c), bound(c)]),
    (2, lambda c: by_name(c, 'ZLEXCOUNT')),
    (8, zrange),
    (5, old_range),
    (3, zrangestore),
    (1, lambda c: ['ZREMRANGEBYRANK', c.key(), c.number(-4, 4), c.number(-4, 4)]),
    (1, lambda c: ['ZREMRANGEBYSCORE', c.key(), bound(c), bound(c)]),
    (1, remove_by_name),
    (3, pop),
    (2, lambda c: ['ZMPOP'] + mpop_words(c)),
    (3, waiting),
    (3, zrandmember),
    (2, zscan),
    (7, algebra),
]

MANY_KEYS = {'ZRANGESTORE', 'ZMPOP', 'ZUNION', 'ZINTER', 'ZDIFF', 'ZINTERCARD', 'ZUNIONSTORE', 'ZINTERSTORE', 'ZDIFFSTORE'}
CHECKS = {'ZRANDMEMBER': 'length', 'ZSCAN': 'scan_kind'}
READERS = {b'zset': (['ZRANGE', None, '0', '-1', 'WITHSCORES'], 'exact')}
