"""errors: names that are no commands. Wrong arity comes from mangle(), wrong types from keys used by several groups."""

from support.transcript import Step

WEIGHT = 0.3


def unknown(c):
    name = c.pick([b'FOO', b'foo', b'get get', b'G\xc3\x89T', b'SETT', b'x' * 140, b'a\r\nb', b'', b'\x00'])
    args = [c.pick([b'bar', b'', b'two words', b"it's", b'y' * 150, b'\r\n', b'\xff']) for _ in range(c.number(0, 6))]
    return Step([name] + args)


def bare(c):
    """A command without its arguments."""
    return [c.pick(['GET', 'SET', 'HSET', 'HGETALL', 'MSET', 'OBJECT', 'CLIENT', 'RENAME', 'INCRBY', 'EXPIRE', 'LCS',
                    'DUMP', 'SELECT', 'ECHO', 'HSCAN', 'SCAN', 'AUTH'])]


def subcommand(c):
    return [c.pick(['OBJECT', 'CLIENT']), c.pick(['NOPE', 'ENCODING', 'nope\r\n', 'x' * 200, ''])] + \
        c.pick([[], [c.key()], [c.key(), 'b']])


COMMANDS = [(4, unknown), (3, bare), (3, subcommand)]
