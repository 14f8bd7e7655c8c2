"""connection: commands about the client itself. Streams use several connections, each with its own state."""

WEIGHT = 0.4


def client(c):
    return ['CLIENT'] + c.pick([
        ['GETNAME'], ['SETNAME', 'name-%d' % c.number(0, 9)], ['SETNAME', ''], ['SETNAME', 'with space'], ['ID'],
        ['INFO'], ['LIST', 'ID', '0'], ['NO-EVICT', 'on'], ['NO-EVICT', 'maybe'], ['REPLY', 'maybe'], ['REPLY', 'ON'],
        ['NOPE'], ['KILL', 'ID', '999999'], ['KILL', 'NOPE', 'x']])


def hello(c):
    return ['HELLO'] + c.pick([[], ['2'], ['3'], ['2'], ['3'], ['4'], ['1'], ['abc'], ['3', 'SETNAME', 'x'],
                               ['3', 'SETNAME', 'a b'], ['3', 'NOPE'], ['3', 'SETNAME']])


COMMANDS = [
    (4, lambda c: ['PING'] + c.pick([[], [c.value(b'small')]])),
    (3, lambda c: ['ECHO', c.value()]),
    (4, client),
    (2, hello),
    (0.5, lambda c: ['RESET']),
    (0.5, lambda c: ['TIME']),
]

KEYLESS = {'CLIENT', 'TIME', 'AUTH'}
CHECKS = {'CLIENT ID': 'kind', 'CLIENT INFO': 'kind', 'CLIENT LIST': 'kind', 'HELLO': 'hello', 'TIME': 'length'}
