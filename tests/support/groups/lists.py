"""lists: every list command of Redis 7.0; the blocking ones with data, inside MULTI, or with a short timeout."""

from support.transcript import Step

WEIGHT = 2
ENDS = ['LEFT', 'RIGHT', 'left', 'Right']
SHORT = ['0.001', '0.002', '1e-3', '0x0.01p0']  # timeouts short enough for a stream
BAD_TIMEOUTS = ['-1', 'x', '', 'nan', 'inf', '-inf', '1e30', '1e400', ' 1', '-0.1', '9223372036854775807']


def element(c):
    """From a small universe, so that LREM, LPOS and LINSERT find something."""
    return c.pick([b'a', b'b', b'c', b'', b'1', b'-7', b'\x00\r\n']) if c.chance(0.8) else c.value(b'small')


def elements(c):
    count = c.number(100, 700) if c.chance(0.02) else c.number(1, 5)
    return [element(c) for _ in range(count)]


def end(c):
    return c.pick(ENDS) if c.chance(0.97) else c.pick(['UP', '', 'HEAD'])


def pop_count(c):
    if c.chance(0.15):
        return c.pick([b'-1', b'x', b'', b'9223372036854775807', b'-9223372036854775808', b'9223372036854775808'])
    return c.number(0, 8) if c.chance(0.9) else c.number(50, 1000)


def pop(c):
    words = [c.pick(['LPOP', 'RPOP']), c.key()]
    return words if c.chance(0.6) else words + [pop_count(c)]


def lpos(c):
    words = ['LPOS', c.key(), element(c)]
    for option, numbers in (('RANK', [1, 2, 3, -1, -2, -3]), ('COUNT', [0, 1, 2, 3]), ('MAXLEN', [0, 1, 2, 5, 100])):
        if c.chance(0.35):
            strange = ['0', '-1', 'x', '-9223372036854775808', '9223372036854775807']
            words += [c.case(option), c.pick(strange) if c.chance(0.12) else c.pick(numbers)]
    if c.chance(0.03):
        words.append(c.pick(['RANK', 'NOPE', 'COUNT']))
    return words


def linsert(c):
    where = c.pick(['BEFORE', 'AFTER', 'before', 'After']) if c.chance(0.97) else 'UP'
    return ['LINSERT', c.key(), where, element(c), element(c)]


def lrem(c):
    return ['LREM', c.key(), c.integer() if c.chance(0.1) else c.number(-3, 3), element(c)]


def ltrim(c):
    """Keeps nearly all elements most of the time, so that lists stay long."""
    if c.chance(0.6):
        return ['LTRIM', c.key(), c.number(0, 2), c.number(-3, -1)]
    return ['LTRIM', c.key(), c.index(), c.index()]


def move(c):
    source, target = c.keys_together(2)
    if c.chance(0.2):
        target = source
    if c.chance(0.4):
        return ['RPOPLPUSH', source, target]
    return ['LMOVE', source, target, end(c), end(c)]


def mpop_words(c):
    keys = c.keys_together(c.number(1, 3))
    count = len(keys)
    if c.chance(0.06):
        count = c.pick([b'0', b'-1', b'x', b'', b'9223372036854775807'] +
                       ([] if c.through_proxy else [count + 1, count + 2, max(count - 1, 1)]))
    words = [count] + keys + [end(c)]
    if c.chance(0.5):
        words += [c.case('COUNT'), c.pick([b'0', b'-1', b'x']) if c.chance(0.08) else c.number(1, 6)]
    if c.chance(0.03):
        words.append(c.pick(['COUNT', 'NOPE']))
    return words


def timeout(c):
    if c.chance(0.06):
        return c.pick(BAD_TIMEOUTS)
    return c.pick(SHORT)


def waiting(c):
    """Never mangled: a stream must not block without a timeout."""
    kind = c.pick(['BLPOP', 'BRPOP', 'BLMOVE', 'BRPOPLPUSH', 'BLMPOP'])
    if kind in ('BLPOP', 'BRPOP'):
        words = [kind] + c.keys_together(c.number(1, 3)) + [timeout(c)]
    elif kind == 'BLMPOP':
        words = [kind, timeout(c)] + mpop_words(c)
    else:
        source, target = c.keys_together(2)
        words = [kind, source, target] + ([end(c), end(c)] if kind == 'BLMOVE' else []) + [timeout(c)]
    return Step(words)


COMMANDS = [
    (8, lambda c: [c.pick(['LPUSH', 'RPUSH']), c.key()] + elements(c)),
    (2, lambda c: [c.pick(['LPUSHX', 'RPUSHX']), c.key()] + elements(c)),
    (5, pop),
    (2, lambda c: ['LLEN', c.key()]),
    (3, lambda c: ['LINDEX', c.key(), c.index()]),
    (4, lambda c: ['LRANGE', c.key()] + (['0', '-1'] if c.chance(0.4) else [c.index(), c.index()])),
    (3, lambda c: ['LSET', c.key(), c.index(), element(c)]),
    (3, ltrim),
    (4, lrem),
    (4, linsert),
    (4, lpos),
    (4, move),
    (3, lambda c: ['LMPOP'] + mpop_words(c)),
    (4, waiting),
]

MANY_KEYS = {'LMOVE', 'RPOPLPUSH', 'LMPOP'}
READERS = {b'list': (['LRANGE', None, '0', '-1'], 'exact')}
