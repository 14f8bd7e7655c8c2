"""valkey: what Valkey 8 to 9.1 added, for a valkey-server of 9.1 in place of redis-server (test_random.py --groups)."""

from support.groups import geo, later, strings
from support.stream import Walk


def set_if(c):
    key = c.key()
    options = [[c.case('IFEQ'), c.value(key)]] if c.chance(0.9) else [[c.case('IFEQ')]]
    if c.chance(0.4):
        options.append([c.case('GET')])
    if c.chance(0.3):
        options.append(strings.expiry_option(c))
    if c.chance(0.1):
        options.append([c.pick(['KEEPTTL', 'NX', 'XX', 'NOPE'])])
    c.rng.shuffle(options)
    return ['SET', key, c.value(key)] + sum(options, [])


def small_set(c):
    return ['SET', c.key(), c.pick(['a', 'b', ''])]


def small_if(c):
    words = ['SET', c.key(), c.pick(['a', 'b', '']), c.case('IFEQ'), c.pick(['a', 'b', ''])]
    return words + c.pick([[], [], ['GET'], ['EX', '1000'], ['KEEPTTL'], ['NX'], ['GET', 'PX', '50000']])


def msetex(c):
    count = c.number(1, 4)
    words = ['MSETEX', count if c.chance(0.93) else c.pick([0, -1, 'x', '', count + 1, 2147483648, 9223372036854775807])]
    for key in c.keys_together(count):
        words += [key, c.value(b'small')]
    options = []
    if c.chance(0.3):
        options.append([c.case(c.pick(['NX', 'XX']))])
    if c.chance(0.5):
        options.append(strings.expiry_option(c))
    if c.chance(0.1):
        options.append([c.pick(['KEEPTTL', 'NX', 'XX', 'EX', 'NOPE', 'GET', 'PERSIST'])])
    c.rng.shuffle(options)
    return words + sum(options, [])


def vertices(c):
    words = []
    center = c.pick(geo.CENTERS)
    spread = c.pick([0.1, 2, 30])
    for _ in range(c.number(3, 7) if c.chance(0.95) else c.number(0, 2)):
        words += geo.point(c) if c.chance(0.03) else ['%.6f' % (float(at) + (c.rng.random() - 0.5) * spread) for at in center]
    return words


def polygon(c):
    words = vertices(c)
    count = len(words) // 2 if c.chance(0.95) else c.pick([0, 1, 2, -3, 'x', len(words), 9223372036854775807])
    parts = [['BYPOLYGON', count] + words, geo.options(c)]
    if c.chance(0.05):
        parts.append(c.pick([geo.center, geo.shape])(c))
    c.rng.shuffle(parts)
    return sum(parts, [])


def geosearchstore(c):
    target, source = c.keys_together(2)
    return ['GEOSEARCHSTORE', target, source] + polygon(c) + (['STOREDIST'] if c.chance(0.4) else [])


def zscan(c):
    words = [c.pick(['ZSCAN', 'ZSCAN', 'SSCAN', 'HSCAN']), c.key(), '0', c.case('NOSCORES')]
    return words if c.in_block else Walk(words, 2, is_pairs=False)


def script_show(c):
    return None if c.in_block else ['SCRIPT', 'SHOW'] + c.pick([['x'], ['f' * 40], [], ['a', 'b']])


def commandlog(c):
    kind = c.pick(['slow', 'large-request', 'LARGE-REPLY', 'x', ''])
    return None if c.in_block else ['COMMANDLOG'] + c.pick([['GET', c.pick(['0', '-2', 'x', '']), kind], ['LEN'], ['LEN', 'x'], ['RESET', 'x'],
                                                            ['GET', kind], ['NOPE'], []])


def filters(c):
    values = {'ID': ['999999999', '0', 'x', '-1'], 'MAXAGE': ['1000000', '0', 'x'], 'IDLE': ['1000000', '0', '-1', 'x'], 'ADDR': ['1.2.3.4:5'],
              'NAME': ['nobody', ''], 'FLAGS': ['O', '7', '', 'xb'], 'DB': ['7', '-1', 'x', '16', '99'], 'CAPA': ['r', 'x', ''],
              'LIB-NAME': ['none'], 'LIB-VER': ['none'], 'IP': ['1.2.3.4'], 'TYPE': ['pubsub', 'x'], 'USER': ['nobody'], 'NOPE': ['x']}
    words = []
    for _ in range(c.number(1, 3)):
        name = c.pick(sorted(values))
        words += [('NOT-' if c.chance(0.2) else '') + name, c.pick(values[name])]
    if c.in_block:
        return None
    return ['CLIENT', c.pick(['KILL', 'LIST'])] + words + ['LADDR', '1.2.3.4:5'] + ([c.pick(sorted(values))] if c.chance(0.05) else [])


COMMANDS = [
    (4, small_set),
    (8, small_if),
    (3, set_if),
    (4, lambda c: ['DELIFEQ', c.key(), c.pick(['a', 'b', '', 'x'])]),
    (8, msetex),
    (8, geo.geoadd),
    (8, lambda c: ['GEOSEARCH', c.key()] + polygon(c)),
    (4, geosearchstore),
    (2, later.zadd),
    (2, zscan),
    (1, script_show),
    (1, commandlog),
    (4, filters),
]

MANY_KEYS = {'MSETEX', 'GEOSEARCHSTORE'}
