"""keys: expiry, renaming, copying, inspecting, DUMP and RESTORE, databases."""

from support.stream import Carry, Member, Walk

WEIGHT = 2
PATTERNS = ['*', '?', 'a*', '[a-c]', '[^a-c]', '{g1}*', '*g?}*', '', '\\a', 'small[1-2]', '[', '[a', '*\\', 'k*k', '**', '[c-a]']


def expire(c):
    """EXPIRE and its variants with times far in the future, in the past, and refused by Redis, and with NX/XX/GT/LT."""
    name = c.pick(['EXPIRE', 'PEXPIRE', 'EXPIREAT', 'PEXPIREAT'])
    far = {'EXPIRE': c.far_seconds(), 'PEXPIRE': c.far_seconds() * 1000,
           'EXPIREAT': 4102444800 + c.number(0, 10 ** 6), 'PEXPIREAT': 4102444800000 + c.number(0, 10 ** 9)}[name]
    time = far
    if c.chance(0.08):
        time = c.pick(['0', '-1', '-1000000'])
    elif c.chance(0.08):
        time = c.pick(['abc', '', '9223372036854775807', '-9223372036854775808', '9223372036854775808', '1.5',
                       '9223372036854775'])
    words = [name, c.key(), time]
    for option in ('NX', 'XX', 'GT', 'LT', 'NOPE'):
        if c.chance(0.15 if option != 'NOPE' else 0.02):
            words.append(c.case(option))
    return words


def copy(c):
    keys = c.keys_together(2, small=c.chance(0.2))
    words = ['COPY'] + keys
    if c.chance(0.5):
        words.append(c.case('REPLACE'))
    if c.chance(0.15):
        words += ['DB', c.pick(['0', '1', '2', '16', '-1', 'x'])]
    return words


def rename(c):
    return [c.pick(['RENAME', 'RENAMENX'])] + c.keys_together(2, small=c.chance(0.2))


def scan(c):
    if c.chance(0.15):
        return ['SCAN', c.pick(['abc', '-1', '', '1.5'])]
    if c.chance(0.15):
        return ['SCAN', '0', c.pick(['COUNT', 'NOPE']), c.pick(['0', '-1', 'x'])]
    if c.in_block:
        return None
    words = ['SCAN', '0']
    if c.chance(0.3):
        words += [c.case('MATCH'), c.pick(PATTERNS)]
    if c.chance(0.4):
        words += [c.case('COUNT'), c.pick([1, 2, 5, 10, 1000])]
    if c.chance(0.3):
        words += ['TYPE', c.pick(['string', 'hash', 'STRING', 'list', 'nope'])]
    return Walk(words, 1, is_pairs=False)


def carry(c):
    if c.in_block:
        return ['DUMP', c.key()]
    src, dst = c.keys_together(2, small=c.chance(0.2))
    time = c.pick([0, 0, c.far_seconds() * 1000])
    options = [[], ['REPLACE'], ['REPLACE'], ['REPLACE', 'IDLETIME', '5'], ['FREQ', '3', 'REPLACE']]
    if time and c.chance(0.3):
        return Carry(src, dst, 4102444800000, ['ABSTTL', 'REPLACE'])
    return Carry(src, dst, time, c.pick(options))


def restore_junk(c):
    payload = c.pick([b'', b'x', b'\x00\x01a\x0a\x00', b'\x00' * 20, b'\x00\x01a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00'])
    words = ['RESTORE', c.key(), c.pick(['0', '0', '-1', 'x', '100000']), payload]
    return words + c.pick([[], [], ['REPLACE'], ['NOPE'], ['IDLETIME', '-1'], ['FREQ', '256'], ['IDLETIME', 'x'],
                           ['ABSTTL'], ['IDLETIME', '1', 'FREQ', '1']])


def object_(c):
    sub = c.pick(['ENCODING', 'ENCODING', 'ENCODING', 'REFCOUNT', 'IDLETIME', 'FREQ'])
    return ['OBJECT', c.case(sub), c.key()]


def randomkey(c):
    return None if c.in_block else Member(['RANDOMKEY'], ['KEYS', '*'])


def database(c):
    dice = c.rng.random()
    if dice < 0.6:
        return ['SELECT', c.pick(['0', '0', '0', '1', '2', '15', '16', '-1', 'x', ''])]
    if dice < 0.9:
        return ['MOVE', c.key(), c.pick(['0', '1', '2', '3', '16', '-1', 'x'])]
    return ['SWAPDB', c.pick(['0', '1', 'x']), c.pick(['1', '2', '99', 'y'])]


COMMANDS = [
    (4, lambda c: [c.pick(['DEL', 'UNLINK'])] + c.keys(1, 4)),
    (3, lambda c: [c.pick(['EXISTS', 'TOUCH'])] + c.keys(1, 5)),
    (3, lambda c: ['TYPE', c.key()]),
    (8, expire),
    (4, lambda c: [c.pick(['TTL', 'PTTL', 'EXPIRETIME', 'PEXPIRETIME']), c.key()]),
    (2, lambda c: ['PERSIST', c.key()]),
    (4, rename),
    (4, copy),
    (4, object_),
    (2, scan),
    (1, lambda c: ['KEYS', c.pick(PATTERNS)]),
    (1, lambda c: ['DBSIZE']),
    (1, randomkey),
    (4, carry),
    (1, restore_junk),
    (1.5, database),
    (0.1, lambda c: [c.pick(['FLUSHDB', 'FLUSHALL'])] + c.pick([[], ['ASYNC'], ['SYNC'], ['NOPE']])),
]

KEYLESS = {'SCAN', 'KEYS', 'DBSIZE', 'RANDOMKEY', 'SELECT', 'FLUSHDB', 'FLUSHALL', 'SWAPDB'}
MANY_KEYS = {'DEL', 'UNLINK', 'EXISTS', 'TOUCH', 'RENAME', 'RENAMENX', 'COPY', 'OBJECT'}
CHECKS = {'TTL': 'ttl', 'PTTL': 'ttl_ms', 'EXPIRETIME': 'ttl', 'PEXPIRETIME': 'ttl_ms', 'KEYS': 'unordered',
          'OBJECT ENCODING': 'encoding', 'OBJECT REFCOUNT': 'kind', 'OBJECT IDLETIME': 'kind', 'DUMP': 'kind',
          'RANDOMKEY': 'kind', 'SCAN': 'scan_kind'}
