"""bitmaps: every bitmap command of Redis 7.0, on short strings and on ones long enough to be kept in fragments."""

WEIGHT = 2


def bit(c, key):
    """An offset: small, near the limits of bytes and fragments, or one that Redis refuses."""
    dice = c.rng.random()
    if dice < 0.05:
        return c.pick([b'-1', b'abc', b'', b'4294967296', b'9223372036854775808', b'#1', b'1.5', b'01'])
    if dice < 0.6 or b'small' in key:
        return c.number(0, 100)
    edge = 8 * c.pick([1, 8, 16, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 8192, 16384, 40000])
    return max(0, edge + c.number(-9, 9))


def setbit(c):
    key = c.key()
    value = c.pick([b'2', b'x', b'-1', b'01', b'']) if c.chance(0.05) else c.number(0, 1)
    return ['SETBIT', key, bit(c, key), value]


def getbit(c):
    key = c.key()
    return ['GETBIT', key, bit(c, key)]


def unit(c):
    return [c.case(c.pick(['BIT', 'BYTE'])) if c.chance(0.9) else c.pick(['BITS', ''])]


def place(c):
    return c.index() if c.chance(0.7) else c.pick([4096, 8191, 8192, 8193, 32768, 65536, -8192, -8191, -32769, 320000])


def bitcount(c):
    words = ['BITCOUNT', c.key()]
    if c.chance(0.3):
        return words
    words += [place(c), place(c)]
    return words + unit(c) if c.chance(0.5) else words


def bitpos(c):
    words = ['BITPOS', c.key(), c.pick([b'2', b'x', b'-1']) if c.chance(0.05) else c.number(0, 1)]
    count = c.number(0, 3)
    words += [place(c) for _ in range(min(count, 2))]
    return words + unit(c) if count == 3 else words


def bitop(c):
    name = c.pick(['AND', 'OR', 'XOR', 'NOT', 'NAND' if c.chance(0.05) else 'OR'])
    count = 1 if name == 'NOT' and c.chance(0.9) else c.number(1, 4)
    keys = c.keys_together(count + 1, small=c.chance(0.2))
    return ['BITOP', c.case(name)] + keys


def field_type(c):
    if c.chance(0.05):
        return c.pick([b'u64', b'i65', b'i0', b'u0', b'U8', b'8', b'', b'u', b'i-1', b'u 8', b'f32'])
    return c.pick([b'u1', b'u2', b'u2', b'u3', b'u7', b'u8', b'u16', b'u31', b'u32', b'u63', b'i1', b'i2', b'i5', b'i8',
                   b'i13', b'i16', b'i32', b'i33', b'i63', b'i64'])


def field_offset(c, key):
    if c.chance(0.3):
        return b'#%d' % (c.number(0, 12) if b'small' in key or c.chance(0.8) else c.number(0, 1200))
    return c.pick([b'#', b'#-1', b'#x', b'##1', b'#9223372036854775807']) if c.chance(0.03) else bit(c, key)


def operation(c, key, verbs):
    verb = c.pick(verbs)
    if verb == 'OVERFLOW':
        return [c.case(verb), c.pick(['WRAP', 'SAT', 'FAIL', 'fail', 'sat', 'NOPE' if c.chance(0.1) else 'WRAP'])]
    words = [c.case(verb), field_type(c), field_offset(c, key)]
    if verb != 'GET':
        words.append(c.integer() if c.chance(0.5) else c.number(-300, 300))
    return words


def bitfield(c):
    key = c.key()
    words = ['BITFIELD', key]
    for _ in range(c.number(0, 4)):
        words += operation(c, key, ['GET', 'SET', 'SET', 'INCRBY', 'INCRBY', 'OVERFLOW'])
    return words


def bitfield_ro(c):
    key = c.key()
    words = ['BITFIELD_RO', key]
    for _ in range(c.number(0, 3)):
        words += operation(c, key, ['GET'] if c.chance(0.95) else ['SET', 'OVERFLOW'])
    return words


COMMANDS = [
    (10, setbit),
    (3, getbit),
    (3, bitcount),
    (4, bitpos),
    (4, bitop),
    (6, bitfield),
    (2, bitfield_ro),
]

MANY_KEYS = {'BITOP'}
READERS = {b'string': (['GET', None], 'exact')}
