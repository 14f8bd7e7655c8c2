"""later: options of Redis 7.2 to 8.0 for older commands; for a redis-server of 8.0 (test_random.py --groups)."""

from support.groups import streams
from support.stream import Walk

# Redis 7.2 and later print other digits for other numbers.
SCORES = [b'0', b'1', b'-1', b'2.5', b'-0.25', b'1e3', b'70000', b'inf', b'-inf']


def member(c):
    return c.field()


def zadd(c):
    words = ['ZADD', c.key()]
    for _ in range(c.number(1, 6)):
        words += [c.pick(SCORES), member(c)]
    return words


def zrank(c):
    words = [c.pick(['ZRANK', 'ZREVRANK']), c.key(), member(c)]
    if c.chance(0.8):
        words.append(c.case('WITHSCORE') if c.chance(0.95) else c.pick(['WITHSCORES', '', 'NOPE']))
    return words + (['WITHSCORE'] if c.chance(0.03) else [])


def scan(c):
    name = c.pick(['SSCAN', 'ZSCAN', 'HSCAN'])
    words = [name, c.key(), '0', c.case('NOVALUES')]
    if c.chance(0.3):
        words += [c.pick(['COUNT', 'MATCH', 'NOPE']), c.pick(['0', '1', 'x', '*'])]
    return words if c.in_block else Walk(words, 2, is_pairs=False)


def xread(c):
    words = ['XREAD']
    if c.chance(0.3):
        words += [c.case('COUNT'), c.pick(['0', '1', '3', '-1', 'x'])]
    keys = c.keys_together(c.number(1, 3))
    words += ['STREAMS'] + keys
    for _ in keys:
        words.append('+' if c.chance(0.6) else c.pick(['$', '>', '0', '-', '++', '+1']) if c.chance(0.3) else streams.entry_id(c))
    return words if c.chance(0.9) else ['XREADGROUP', 'GROUP', 'g1', 'alice'] + words[1:]


def xinfo(c):
    return c.pick([['XINFO', 'CONSUMERS', c.key(), 'g1'], ['XINFO', 'STREAM', c.key(), 'FULL']])


def client(c):
    """CLIENT KILL and LIST with filters that match no client, and wrong ones."""
    filters = [['ID', c.pick(['999999999', '0', '-1', 'x', '9223372036854775807'])], ['MAXAGE', c.pick(['1000000', '0', '-1', 'x', '1.5'])],
               ['ADDR', '1.2.3.4:5'], ['LADDR', '1.2.3.4:5'], ['TYPE', c.pick(['pubsub', 'replica', 'x'])], ['USER', c.pick(['nobody'])],
               ['SKIPME', c.pick(['yes', 'no', 'maybe'])], ['NOPE', 'x'], ['MAXAGE']]
    words = ['CLIENT', 'KILL']
    for _ in range(c.number(0, 3)):
        words += c.pick(filters)
    if c.chance(0.1):
        words = ['CLIENT', 'KILL', c.pick(['1.2.3.4:5', 'x', ''])]
    if not any(word in ('ADDR', 'LADDR', 'MAXAGE') for word in words):
        words += ['MAXAGE', '1000000']
    return None if c.in_block else words


def setinfo(c):
    if c.in_block:
        return None
    return c.pick([['CLIENT', 'SETINFO', c.case(c.pick(['LIB-NAME', 'LIB-VER', 'LIB', ''])), c.pick(['x', '', 'a b', 'a\nb', 'x(y)', '\x80'])],
                   ['CLIENT', 'NO-TOUCH', c.pick(['on', 'off', 'x'])], ['CLIENT', 'SETINFO', 'LIB-NAME'], ['CLIENT', 'NO-TOUCH']])


COMMANDS = [
    (3, zadd),
    (8, zrank),
    (2, scan),
    (6, xread),
    (2, xinfo),
    (2, client),
    (1, setinfo),
]

MANY_KEYS = {'XREAD', 'XREADGROUP'}
