"""sorting: SORT and SORT_RO over lists, sets and sorted sets, with weights and values in strings and hashes.

SORT is only used where exactly one order is right, and compared exactly: weights are numbers (ties are ordered by the
element), or, with STORE, the elements themselves. SORT_RO also has BY without a star, which leaves a set unordered, and
ALPHA without STORE, for which Redis compares up to the first zero byte.
"""

from support.transcript import Step

WEIGHT = 1


def pattern(c):
    near = c.key().replace(b'\0', b'0')  # for Redis a pattern ends at its first zero byte: without a star nothing is sorted
    return c.pick([b'*', near + b'*', b'w_*', b'*->f1', near + b'*->f1', b'w_*->', b'h_*->f2', b'*->'])


def options(c, alpha, limit=True):
    if c.has_tags:
        words = []
    else:
        words = c.pick([[], ['BY', pattern(c)]]) + [word for _ in range(c.number(0, 2))
                                                    for word in ('GET', c.pick([pattern(c), b'#', b'nostar', b'']))]
    if alpha and 'BY' not in words and c.chance(0.7):
        words.append(c.case('ALPHA'))
    words += c.pick([[], ['ASC'], ['DESC'], ['desc']])
    if limit and c.chance(0.4):
        words += ['LIMIT', c.number(-2, 6), c.number(-2, 6)]
    if c.chance(0.05):
        words += c.pick([['LIMIT', 'x', 1], ['LIMIT', 1], ['NOPE'], ['BY'], ['GET'], ['STORE']])
    return words


def behind_a_number(words):
    """Redis evaluates an errno that an earlier command may have set; this command before it resets errno."""
    return [Step(['ZADD', words[1], 'XX', '1', 'no such member']), Step(words)]


def sort(c):
    source, target = c.keys_together(2)
    store = c.chance(0.3)
    words = options(c, store)
    if c.has_tags and words[-1:] == ['STORE']:
        store = False  # not STORE STORE target: the key named STORE may be on another shard
    return behind_a_number(['SORT', source] + words + (['STORE', target] if store else []))


def sort_ro(c):
    words = ['SORT_RO', c.key()]
    if c.chance(0.3):
        return words + ['BY', 'nostar']
    return behind_a_number(words + (options(c, True, limit=False) if c.chance(0.9) else ['STORE', 'x']))


def numbers(c):
    return [c.number(-20, 20) for _ in range(c.number(1, 8))]


COMMANDS = [
    (6, sort),
    (3, sort_ro),
    (2, lambda c: ['RPUSH', c.key()] + numbers(c)),
    (2, lambda c: ['SADD', c.key()] + numbers(c)),
    (1, lambda c: None if c.has_tags else ['SET', 'w_%d' % c.number(-20, 20), c.number(0, 9)]),
    (1, lambda c: None if c.has_tags else ['HSET', 'h_%d' % c.number(-20, 20), 'f1', c.number(0, 9), 'f2', 'x']),
]

CHECKS = {'SORT_RO': 'unordered'}
MANY_KEYS = {'SORT'}
