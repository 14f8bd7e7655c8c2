"""strings: every string command of Redis 7.0, with all options of SET and GETEX."""

WEIGHT = 2


def expiry_option(c):
    """EX/PX/… with a time far in the future, or with one that Redis refuses."""
    word = c.pick(['EX', 'PX', 'EXAT', 'PXAT'])
    if c.chance(0.15):
        return [c.case(word), c.pick(['0', '-1', 'abc', '', '9223372036854775807', '9223372036854775808', '1.5'])]
    seconds = {'EX': c.far_seconds(), 'PX': c.far_seconds() * 1000, 'EXAT': 4102444800 + c.number(0, 99),
               'PXAT': 4102444800000 + c.number(0, 99)}[word]
    return [c.case(word), seconds]


def set_options(c):
    options = []
    if c.chance(0.3):
        options.append([c.case(c.pick(['NX', 'XX']))])
    if c.chance(0.3):
        options.append([c.case('GET')])
    if c.chance(0.3):
        options.append(expiry_option(c))
    if c.chance(0.15):
        options.append([c.case('KEEPTTL')])
    if c.chance(0.04):
        options.append([c.pick(['NX', 'XX', 'FOO', 'EX', 'PERSIST'])])
    c.rng.shuffle(options)
    return [word for option in options for word in option]


def set_(c):
    key = c.key()
    return ['SET', key, c.value(key)] + (set_options(c) if c.chance(0.5) else [])


def with_value(name):
    def make(c):
        key = c.key()
        return [name, key, c.value(key)]
    return make


def getex(c):
    options = c.pick([[], ['PERSIST'], expiry_option(c), expiry_option(c), ['PERSIST', 'EX', '5000'], ['NOPE']])
    return ['GETEX', c.key()] + options


def setex(c):
    key = c.key()
    name, unit = c.pick([('SETEX', 1), ('PSETEX', 1000)])
    time = c.pick(['0', '-5', 'x', '9223372036854775807']) if c.chance(0.1) else c.far_seconds() * unit
    return [name, key, time, c.value(key)]


def setrange(c):
    key = c.key()
    if c.chance(0.1):
        offset = c.pick([b'-1', b'abc', b'536870912', b'9223372036854775807'])
        return ['SETRANGE', key, offset, c.pick([b'', b'xy'])]
    if b'small' in key or c.chance(0.5):
        return ['SETRANGE', key, c.number(0, 60), c.value(key)]
    # near the limits of fragments, and far enough that the value is stored in fragments
    offset = c.pick([1000, 1023, 1024, 1025, 2040, 2047, 2048, 4096, 5000, 8191, 8192, 20000])
    return ['SETRANGE', key, offset, c.value(key)]


def mset(name, together):
    def make(c):
        count = c.number(1, 4)
        keys = c.keys_together(count) if together else c.keys(count, count)
        words = [name]
        for key in keys:
            words += [key, c.value(key)]
        if c.chance(0.05):
            words.pop()
        return words
    return make


def lcs(c):
    words = ['LCS'] + c.keys_together(2, small=True)
    for option in (['LEN'], ['IDX'], ['MINMATCHLEN', c.pick(['0', '1', '3', '-4', 'x'])], ['WITHMATCHLEN']):
        if c.chance(0.4):
            words += option
    return words


def getrange(c):
    words = [c.pick(['GETRANGE', 'SUBSTR']), c.key()]
    if c.chance(0.5):
        return words + [c.index(), c.index()]
    start = c.pick([0, 1, 1023, 1024, 1025, 3000, 4095, 8190, -1024, -1025, -5000])
    return words + [start, start + c.pick([0, 1, 2, 1022, 1023, 1024, 1025, 9000, 30000])]


COMMANDS = [
    (8, lambda c: ['GET', c.key()]),
    (10, set_),
    (2, with_value('SETNX')),
    (2, setex),
    (2, with_value('GETSET')),
    (2, lambda c: ['GETDEL', c.key()]),
    (3, getex),
    (3, with_value('APPEND')),
    (2, lambda c: ['STRLEN', c.key()]),
    (4, getrange),
    (3, setrange),
    (3, lambda c: [c.pick(['INCR', 'DECR']), c.key()]),
    (3, lambda c: [c.pick(['INCRBY', 'DECRBY']), c.key(), c.integer()]),
    (3, lambda c: ['INCRBYFLOAT', c.key(), c.float_text()]),
    (3, lambda c: ['MGET'] + c.keys(1, 6)),
    (3, mset('MSET', together=False)),
    (2, mset('MSETNX', together=True)),
    (2, lcs),
]

MANY_KEYS = {'MGET', 'MSET', 'MSETNX', 'LCS'}
READERS = {b'string': (['GET', None], 'exact')}
