"""hash_ttl: times to live of hash fields, HGETEX, HSETEX and HGETDEL; for a redis-server of 8.0 (test_random.py --groups)."""

from support import checks
from support.stream import Pause, Walk

WEIGHT = 3
FAR_S = 4102444800  # the year 2100


def count_of(c, words):
    """The count of the words, seldom a wrong one."""
    if c.chance(0.9):
        return len(words)
    return c.pick([len(words) + 1, len(words) - 1, 0, -1, 'x', '', '1.5', '2147483648', '4294967297', '9223372036854775807',
                   '9223372036854775808'])


def fields_word(c):
    return c.case('FIELDS') if c.chance(0.97) else c.pick(['FIELD', '', 'NX', '1'])


def fields(c):
    """FIELDS count field …"""
    words = [c.field() for _ in range(c.number(1, 5) if c.chance(0.98) else 0)]
    return [fields_word(c), count_of(c, words)] + words


def pairs(c):
    """FIELDS count field value …"""
    words, many = [], c.number(1, 4) if c.chance(0.98) else 0
    for _ in range(many):
        words += [c.field(), c.value(b'small')]
    if c.chance(0.03):
        words = words[:-1]
    count = count_of(c, words[::2])
    return [fields_word(c), count] + words


def time_of(c, is_absolute, unit):
    """A time far in the future; sometimes one that has passed, or one that Redis refuses."""
    if c.chance(0.08):
        return c.pick(['1', '1000'] if is_absolute else ['0'])
    if c.chance(0.10):
        return c.pick(['-1', 'x', '', '1.5', '9223372036854775807', '9223372036854775808', '-9223372036854775808', '070', '+1', ' 1',
                       '9223372036854775', '70368744177664', '140737488355328'])
    far = FAR_S + c.number(0, 10 ** 6) if is_absolute else c.number(1000, 10 ** 9)
    if unit == 1000:
        return far
    if is_absolute and c.chance(0.1):
        return c.pick([70368744177663, 70368744177662])
    return far * 1000 + c.number(0, 999)


def hexpire(c):
    name, is_absolute, unit = c.pick([('HEXPIRE', False, 1000), ('HPEXPIRE', False, 1), ('HEXPIREAT', True, 1000), ('HPEXPIREAT', True, 1)])
    words = [name, c.key(), time_of(c, is_absolute, unit)]
    if c.chance(0.5):
        words.append(c.case(c.pick(['NX', 'XX', 'GT', 'LT'])))
    if c.chance(0.02):
        words.append(c.pick(['NX', 'XX', 'GT', 'LT', 'NOPE']))
    return words + fields(c)


def expiry(c, more):
    """EX seconds and the like, or a word of `more`."""
    if c.chance(0.3):
        return [c.case(more)]
    name, is_absolute, unit = c.pick([('EX', False, 1000), ('PX', False, 1), ('EXAT', True, 1000), ('PXAT', True, 1)])
    return [c.case(name)] + ([time_of(c, is_absolute, unit)] if c.chance(0.98) else [])


def hgetex(c):
    words = ['HGETEX', c.key()]
    for chance in (0.7, 0.03):
        if c.chance(chance):
            words += expiry(c, 'PERSIST' if c.chance(0.95) else 'KEEPTTL')
    return words + fields(c)


def hsetex(c):
    words, options = ['HSETEX', c.key()], []
    if c.chance(0.4):
        options.append([c.case(c.pick(['FNX', 'FXX']))])
    if c.chance(0.03):
        options.append([c.pick(['FNX', 'FXX', 'NX', 'NOPE', 'PERSIST'])])
    for chance in (0.6, 0.03):
        if c.chance(chance):
            options.append(expiry(c, 'KEEPTTL'))
    c.rng.shuffle(options)
    return words + sum(options, []) + pairs(c)


def hscan(c):
    words = ['HSCAN', c.key(), '0']
    options = [[c.case('NOVALUES')]]
    if c.chance(0.3):
        options.append(['MATCH', c.pick(['f*', '*', '?1', 'f[1-3]', '', '[^f]*'])])
    if c.chance(0.3):
        options.append([c.case('COUNT'), c.pick([1, 2, 10, 1000, 0, 'x'])])
    if c.chance(0.03):
        options.append([c.pick(['NOVALUES', 'TYPE', 'NOPE'])])
    c.rng.shuffle(options)
    words += sum(options, [])
    return words if c.in_block else Walk(words, 2, is_pairs=False)


def passes(c):
    """Fields expire; redis-server counts them in HLEN until it has deleted them, some 100 ms later."""
    if c.in_block:
        return None
    words = [c.field() for _ in range(c.number(1, 5))]
    return Pause(['HPEXPIRE', c.key(), 3, 'FIELDS', len(words)] + words, 0.3)


def ttls(ours, theirs, check='ttl'):
    """Arrays of times to live, which may differ by seconds."""
    if ours[0] != '*' or theirs[0] != '*' or len(ours[1]) != len(theirs[1]):
        return False
    return all(checks.same(check, our, their) for our, their in zip(ours[1], theirs[1]))


def ttls_ms(ours, theirs):
    return ttls(ours, theirs, 'ttl_ms')


COMMANDS = [
    (14, hexpire),
    (8, lambda c: [c.pick(['HTTL', 'HPTTL', 'HEXPIRETIME', 'HPEXPIRETIME']), c.key()] + fields(c)),
    (3, lambda c: ['HPERSIST', c.key()] + fields(c)),
    (8, hgetex),
    (10, hsetex),
    (4, lambda c: ['HGETDEL', c.key()] + fields(c)),
    (3, hscan),
    (0.3, passes),
]

CHECKS = {'HTTL': ttls, 'HEXPIRETIME': ttls, 'HPTTL': ttls_ms, 'HPEXPIRETIME': ttls_ms}
