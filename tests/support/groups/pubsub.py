"""pubsub: PUBLISH and PUBSUB without subscribers (integration/test_pubsub.py has the subscriptions)."""

WEIGHT = 0.3


def channel(c):
    return c.pick(['news', 'x', '', '\x00\r\n', '__keyevent@0__:set'])


def channels(c):
    return [channel(c) for _ in range(c.number(0, 3))]


COMMANDS = [
    (3, lambda c: ['PUBLISH', channel(c), c.value()]),
    (2, lambda c: ['SPUBLISH', channel(c), c.value()]),
    (0.3, lambda c: [c.pick(['PUBLISH', 'SPUBLISH'])] + channels(c)[:1]),
    (1, lambda c: ['PUBSUB', 'CHANNELS'] + c.pick([[], ['*'], ['n*'], ['a', 'b']])),
    (1, lambda c: ['PUBSUB', 'SHARDCHANNELS'] + c.pick([[], ['*'], ['n*'], ['a', 'b']])),
    (1, lambda c: ['PUBSUB', c.pick(['NUMSUB', 'SHARDNUMSUB'])] + list(dict.fromkeys(channels(c)))),
    (1, lambda c: ['PUBSUB', 'NUMPAT'] + c.pick([[], [], ['extra']])),
    (0.3, lambda c: ['PUBSUB', 'NOPE']),
]

CHECKS = {'PUBSUB NUMSUB': 'pairs', 'PUBSUB SHARDNUMSUB': 'pairs'}
