"""streams: every stream command of Redis 7.0. Ids are small and explicit, so that they are equal on both sides; times
are not compared.
"""

WEIGHT = 2


def entry_id(c):
    if c.chance(0.06):
        return c.pick(['x', '', '1-', '-1', '1-x', '1-1-1', '+', '-', '18446744073709551616', '07', '+3', '1-*'])
    if c.chance(0.03):
        return c.pick(['18446744073709551615-18446744073709551615', '18446744073709551615', '0', '0-0'])
    return str(c.number(0, 60)) if c.chance(0.3) else '%d-%d' % (c.number(0, 60), c.number(0, 4))


def bound(c):
    if c.chance(0.4):
        return c.pick(['-', '+'])
    return ('(' if c.chance(0.3) else '') + entry_id(c)


def new_id(c):
    """Most ids ascend: `*` after a small number of milliseconds."""
    return '%d-*' % c.number(0, 60) if c.chance(0.7) else entry_id(c)


def trim(c):
    words = []
    for _ in range(2 if c.chance(0.04) else 1):
        how = c.pick(['MAXLEN', 'MINID'])
        words.append(c.case(how))
        if c.chance(0.3):
            words.append('=')
        words.append(c.pick(['x', '-1', '']) if c.chance(0.06) else
                     c.number(0, 12) if how == 'MAXLEN' else entry_id(c))
    if c.chance(0.08):
        words += [c.case('LIMIT'), c.pick(['0', '1', '-1', 'x'])]
    return words


def xadd(c):
    words = ['XADD', c.key()]
    if c.chance(0.1):
        words.append(c.case('NOMKSTREAM'))
    if c.chance(0.1):
        words += trim(c)
    words.append(new_id(c))
    for _ in range(c.number(1, 3)):
        words += [c.field(), c.value(b'small')]
    return words[:-1] if c.chance(0.03) else words


def xrange(c, name):
    words = [name, c.key(), bound(c), bound(c)]
    if c.chance(0.3):
        words += [c.case('COUNT'), c.pick(['0', '1', '3', '-1', 'x', '9223372036854775807'])]
    return words + (['NOPE'] if c.chance(0.03) else [])


def xsetid(c):
    words = ['XSETID', c.key(), entry_id(c)]
    if c.chance(0.4):
        words += [c.case('ENTRIESADDED'), c.pick([0, 5, 100, -1, 'x'])]
    if c.chance(0.4):
        words += [c.case('MAXDELETEDID'), entry_id(c)]
    return words


GROUPS = ['g1', 'g2', 'g\x00']
CONSUMERS = ['alice', 'bob', 'c', '']


def group(c):
    return c.pick(GROUPS) if c.chance(0.95) else c.pick(['nope', ''])


def consumer(c):
    return c.pick(CONSUMERS)


def xgroup(c):
    kind = c.pick(['CREATE'] * 6 + ['SETID'] * 2 + ['CREATECONSUMER'] * 2 + ['DELCONSUMER', 'DESTROY', 'NOPE'])
    words = ['XGROUP', c.case(kind), c.key(), group(c)]
    if kind in ('CREATE', 'SETID'):
        words.append(c.pick(['$', '0', '0']) if c.chance(0.6) else entry_id(c))
        if kind == 'CREATE' and c.chance(0.6):
            words.append(c.case('MKSTREAM'))
        if c.chance(0.2):
            words += [c.case('ENTRIESREAD'), c.pick([0, 3, -1, -2, 'x'])]
    elif kind.endswith('CONSUMER'):
        words.append(consumer(c))
    return words + (['NOPE'] if c.chance(0.03) else [])


def block(c):
    return ['BLOCK', c.pick([1, 'x', -1])] if c.chance(0.05) else []


def after(c, in_group):
    if c.chance(0.03):
        return c.pick(['$', '>', 'x', '-'])
    if in_group and c.chance(0.7):
        return '>'
    chosen = entry_id(c) if c.chance(0.5) else c.pick(['0', '0' if in_group else '$'])
    return '-' if chosen == '+' else chosen  # + has a meaning since Redis 7.4


def read_streams(c, in_group):
    keys = c.keys_together(c.number(1, 3))
    words = ['STREAMS'] + keys + [after(c, in_group) for _ in keys]
    return words[:-1] if c.chance(0.03) and not c.through_proxy else words


def xread(c):
    words = ['XREAD']
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 10, 0, -1])]
    return words + block(c) + read_streams(c, False)


def xreadgroup(c):
    words = ['XREADGROUP', 'GROUP', group(c), consumer(c)]
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 10, 0, -1])]
    if c.chance(0.15):
        words.append('NOACK')
    return words + block(c) + read_streams(c, True)


def xpending(c):
    words = ['XPENDING', c.key(), group(c)]
    if c.chance(0.5):
        return words
    if c.chance(0.1):
        words += ['IDLE', c.pick([0, 10000000, 'x'])]
    words += [bound(c), bound(c), c.pick([1, 5, 100, 0, -1, 'x'])]
    return words + ([consumer(c)] if c.chance(0.4) else [])


def xclaim(c):
    words = ['XCLAIM', c.key(), group(c), consumer(c), c.pick([0, 0, 0, 10000000, -1, 'x'])]
    words += [entry_id(c) for _ in range(c.number(1, 4))]
    for _ in range(c.number(0, 2)):
        words += c.pick([['FORCE'], ['JUSTID'], ['RETRYCOUNT', c.number(0, 9)], ['IDLE', 5000], ['TIME', 1000],
                         ['LASTID', entry_id(c)], ['NOPE'], ['IDLE', 'x']])
    return words


def xautoclaim(c):
    words = ['XAUTOCLAIM', c.key(), group(c), consumer(c), c.pick([0, 0, 0, 10000000, -1, 'x']), c.pick(['0', '-', bound(c)])]
    if c.chance(0.5):
        words += [c.case('COUNT'), c.pick([1, 2, 100, 0, 'x'])]
    if c.chance(0.3):
        words.append('JUSTID')
    return words


def xinfo(c):
    kind = c.pick(['STREAM', 'STREAM', 'GROUPS', 'CONSUMERS', 'NOPE'])
    words = ['XINFO', kind, c.key()]
    if kind == 'CONSUMERS':
        words.append(group(c))
    elif kind == 'STREAM' and c.chance(0.6):
        words += ['FULL'] + (['COUNT', c.pick([0, 1, 3, -1, 'x'])] if c.chance(0.5) else [])
    return words


COMMANDS = [
    (14, xadd),
    (2, lambda c: ['XLEN', c.key()]),
    (5, lambda c: xrange(c, 'XRANGE')),
    (5, lambda c: xrange(c, 'XREVRANGE')),
    (4, lambda c: ['XDEL', c.key()] + [entry_id(c) for _ in range(c.number(1, 4))]),
    (3, lambda c: ['XTRIM', c.key()] + trim(c)),
    (1, xsetid),
    (7, xgroup),
    (4, xread),
    (9, xreadgroup),
    (4, lambda c: ['XACK', c.key(), group(c)] + [entry_id(c) for _ in range(c.number(1, 4))]),
    (4, xpending),
    (4, xclaim),
    (4, xautoclaim),
    (4, xinfo),
]

CHECKS = {name: 'timeless' for name in ('XPENDING', 'XINFO STREAM', 'XINFO GROUPS', 'XINFO CONSUMERS')}
MANY_KEYS = {'XREAD', 'XREADGROUP', 'XGROUP', 'XINFO'}

READERS = {b'stream': (['XRANGE', None, '-', '+'], 'exact')}
