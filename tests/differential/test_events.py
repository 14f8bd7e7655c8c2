#!/usr/bin/python3
"""Keyspace events: random commands to redis-server and to a partition; a subscriber at each must get the same events in
order.

Keys expire at different moments, so the class of expired events is left out.
"""

import time

from support import groups
from support.cluster import Cluster, Oracle
from support.harness import Failure, Suite, sized
from support.resp import Connection, show, value
from support.stream import Grammar, stream
from support.transcript import Step

CLASSES = 'KEg$lshzetdnm'
LEFT_OUT = {'CONFIG', 'RESET', 'HELLO', 'CLIENT', 'MULTI', 'EXEC', 'DISCARD', 'WATCH', 'DEBUG', 'QUIT', 'SWAPDB', 'PUBLISH',
            'SPUBLISH', 'BLPOP', 'BRPOP', 'BLMOVE', 'BRPOPLPUSH', 'BLMPOP', 'BZPOPMIN', 'BZPOPMAX', 'BZMPOP', 'XREAD',
            'XREADGROUP', 'SPOP', 'WAIT', 'SUBSCRIBE',
            'LCS'}  # reads its options before its keys, so other misses are reported


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(12, long=1200))
    parser.add_argument('--groups', default=','.join(name for name in groups.NAMES if name != 'sorting'),
                        help='(sorting looks keys up in the order of a set, which Redis keeps in a hash table)')
    parser.add_argument('--stream', type=int, default=None, help='play only this stream of the seed')


suite = Suite(__doc__, options)


class Side:
    def __init__(self, address):
        self.writer, self.listener = Connection(address), Connection(address)
        self.writer.call('CONFIG', 'SET', 'notify-keyspace-events', CLASSES)
        self.listener.call('PSUBSCRIBE', '__key*')

    def begin(self):
        self.writer.call('SELECT', 0)
        self.writer.call('FLUSHALL')

    def play(self, words):
        """The reply, and the events that the subscriber got."""
        reply = self.writer.call(*words)
        self.listener.send('PING', 'end')
        events = []
        while True:
            frame = value(self.listener.read())
            if frame == [b'pong', b'end']:
                return reply, events
            events.append((frame[2], frame[3]))


def play(ours, theirs, steps):
    """(events compared, None or (title, report)) of one stream."""
    compared, recent = 0, []
    for side in (ours, theirs):
        side.begin()
    for step in steps:
        if type(step) is not Step or step.conn or step.name() in LEFT_OUT:
            continue
        reply, events = ours.play(step.words)
        wanted_reply, wanted = theirs.play(step.words)
        recent.append(str(step)[:150])
        if (reply[0] == '-') != (wanted_reply[0] == '-'):
            return compared, None  # test_random reports this difference; the keyspaces differ from now on
        if events != wanted:
            lines = ['       ' + line for line in recent[-6:]]
            return compared, (step.name(), '\n'.join(lines + [
                '     reply %s' % show(reply, 80), '       redis: %r' % wanted[:8], '       scree: %r' % events[:8]]))
        compared += len(events)
    return compared, None


@suite.case('random commands cause the events that redis-server sends')
def _(run):
    grammar = Grammar(run.options.groups.split(','))
    with Oracle() as oracle:
        with Cluster(backends=1, partitions=1, proxies=0) as cluster:
            ours, theirs = Side(cluster.backends[0].addresses[0]), Side(oracle.address)
            end, index, compared, reports = time.monotonic() + run.options.seconds, run.options.stream or 0, 0, {}
            while time.monotonic() < end and len(reports) < 12:
                count, difference = play(ours, theirs, stream(run.seed * 1000003 + index, grammar, 200, False, 0))
                compared += count
                if difference and difference[0] not in reports:
                    reports[difference[0]] = difference[1]
                    run.note('%s   [--seed %d --stream %d]\n%s' % (difference[0], run.seed, index, difference[1]))
                if run.options.stream is not None:
                    break
                index += 1
            run.note('%d streams, %d events compared' % (index, compared))
    if reports:
        raise Failure('%d kinds of difference, printed above' % len(reports))


if __name__ == '__main__':
    suite.main()
