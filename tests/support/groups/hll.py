"""hll: every HyperLogLog command of Redis 7.0; the strings that contain them are compared byte for byte."""

from support.stream import SMALL

WEIGHT = 2

# Parts of sparse values, valid and damaged.
HEADER = b'HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00'


def elements(c):
    """A few elements, or enough to make a value dense (about 1500 different ones) in several steps."""
    dice = c.rng.random()
    if dice < 0.5:
        return [b'e%d' % c.number(0, 40) for _ in range(c.number(0, 4))]
    if dice < 0.55:
        return [c.value(b'small') for _ in range(3)]
    start = c.number(0, 4000)
    return [b'e%d' % number for number in range(start, start + c.pick([10, 100, 400, 900]))]


def own(c):
    """A key that other groups do not write to, so that its value is never damaged."""
    return c.key() + c.pick([b':hll', b':hll2'])


def wild(c):
    """Any key except those whose values stay short."""
    name = c.key()
    return name + b':wild' if SMALL in name else name


def key(c):
    return own(c) if c.chance(0.6) else c.key()


def pfadd(c):
    """For keys that other groups write to, only one element: Redis keeps the elements that it added before it found
    damage."""
    if c.chance(0.7):
        return ['PFADD', own(c)] + elements(c)
    return ['PFADD', wild(c)] + elements(c)[:1]


def together(c):
    names = c.keys_together(c.number(1, 4))
    return [name + c.pick([b':hll', b':hll2'] if SMALL in name else [b'', b':hll', b':hll2']) for name in names]


def pfmerge(c):
    return ['PFMERGE'] + together(c)


def pfdebug(c):
    """Not available through a proxy."""
    if c.through_proxy:
        return None
    return ['PFDEBUG', c.pick(['GETREG', 'DECODE', 'DECODE', 'ENCODING', 'encoding', 'TODENSE', 'NOPE']), key(c)]


def planted(c):
    """A value that looks like a HyperLogLog: damaged runs, unknown encodings, wrong lengths, high ranks."""
    name = wild(c)
    body = c.pick([b'\x7f\xff', b'\x7f\xfe', b'\x7f\xfe\x00', b'\x7f\xff\x00', b'\x40', b'', b'\xff' * 16, b'\x00',
                   b'\x7f\xf0\x83\x83\x83\x83', b'\x3f' * 256, b'\x7e\xff' + b'\xfc' * 256, b'\x83' * 4096])
    cache = c.pick([b'\x00', b'\x80'])
    if c.chance(0.2):
        return ['SET', name, c.pick([b'HYLL', b'HYLL\x02' + bytes(11), b'hyll\x01' + bytes(11) + b'\x7f\xff',
                                     b'HYLL' + bytes(12300), b'HYLL' + bytes(12301)])]
    return ['SET', name, HEADER + cache + body]


def spoil(c):
    """Changes a byte of the value."""
    return ['SETRANGE', wild(c), c.pick([4, 8, 15, 16, 17, 20, 1023, 5000, 12303]), c.pick([b'\x00', b'\x01', b'\xff'])]


COMMANDS = [
    (10, pfadd),
    (4, lambda c: ['PFCOUNT', key(c)]),
    (2, lambda c: ['PFCOUNT'] + together(c)),
    (3, pfmerge),
    (1, pfdebug),
    (1, planted),
    (1, spoil),
    (4, lambda c: ['GET', key(c)]),
    (1, lambda c: ['STRLEN', key(c)]),
]

MANY_KEYS = {'PFCOUNT', 'PFMERGE'}
READERS = {b'string': (['GET', None], 'exact')}
