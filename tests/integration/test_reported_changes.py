#!/usr/bin/python3
"""What a transaction over shards changes at a participant is reported there once: to clients that watch, track or wait for a key.

    coordinator ──PREPARE──► participant: the record has the effects and the changes
                ──APPLY────► effects and reports, also when a batch has failed or the process was killed in between
"""

import contextlib
import itertools
import resource

from support.cluster import Cluster
from support.frame_gate import APPLY, FrameGate
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)


class Scene:
    """Two shards: the first coordinates, and a gate can hold its APPLY before it reaches the second one."""

    def __init__(self):
        self.cluster = Cluster(backends=2, partitions=1, proxies=0, linked=True, relay=FrameGate)

    def __enter__(self):
        self.cluster.__enter__()
        self.gate = self.cluster.relays[self.cluster.backends[1].addresses[0]]
        self.open = contextlib.ExitStack()
        self.coordinator = self.connect(0)
        self.here = self.cluster.key_on(0)
        return self

    def __exit__(self, *error):
        self.open.close()
        return self.cluster.__exit__(*error)

    def connect(self, shard=1, proto=2):
        """A connection as a proxy makes it, to the participant."""
        connection = self.open.enter_context(self.cluster.partition(shard))
        check_equal(connection.get('SCREE', 'AUTH', self.cluster.secret), b'OK')
        if proto == 3:
            connection.get('HELLO', '3')
        check_equal(connection.get('SCREE', 'SLOTS', self.cluster.slots[shard]), b'OK')
        return connection

    def key(self, name):
        """A key of the participant."""
        return self.cluster.key_on(1, name)

    def across(self, *commands):
        """A transaction that also changes a key of the coordinator."""
        def attempt():
            for words in (['MULTI'], ['INCR', self.here], *commands):
                self.coordinator.get(*words)
            replies = self.coordinator.get('SCREE', 'ACROSS', 'EXEC')
            return None if 'TRYAGAIN' in str(replies) else replies
        replies = wait_for(attempt, 'the shard to be reached')  # the gate has cut its connections, perhaps
        check(isinstance(replies, list) and not any(isinstance(reply, ReplyError) for reply in replies), replies)
        return replies

    @contextlib.contextmanager
    def held(self, *commands):
        """At the beginning of the block the transaction is decided, and not applied at the participant; after it, it is."""
        self.gate.arm('before', APPLY)
        self.across(*commands)
        check(self.gate.reached.wait(patience()), 'no APPLY')
        yield
        self.gate.open()
        self.wait_applied()
        self.cluster.wait_linked()

    def wait_applied(self):
        looking = self.connect()
        wait_for(lambda: looking.get('SCREE', 'TRANSACTIONS') == [], 'the transaction to be applied')

    def fail_batch(self):
        """A batch of the participant fails; then it takes writes again."""
        pid, writer, key = self.cluster.backends[1].pid, self.connect(), self.key('other')
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        reply = writer.get('SET', key, 'lost')
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        check('MISCONF' in str(reply), 'no batch has failed: %r' % reply)
        wait_for(lambda: writer.get('SET', key, 'kept') == b'OK', 'writes to be accepted again')


def pushes(connection):
    """The keys of the invalidations that came before the reply to a PING."""
    connection.send('PING', 'all')
    keys = []
    while (frame := connection.read()) != ('$', b'all'):
        keys += value(frame)[1] or ['all']
    return keys


@suite.case('a watched key is changed by a transaction that a failed batch has interrupted: EXEC does nothing')
def _(run):
    with Scene() as scene:
        watching, key = scene.connect(), scene.key('watched')
        watching.get('SET', key, 'old')
        check_equal(watching.get('WATCH', key), b'OK')
        check_equal(watching.get('GET', key), b'old')
        with scene.held(['SET', key, 'new']):
            scene.fail_batch()
        for words in (['MULTI'], ['SET', key, 'by the client that watches']):
            watching.get(*words)
        check_equal(watching.get('EXEC'), None)
        check_equal(watching.get('GET', key), b'new')


@suite.case('a client waits for a list that such a transaction fills: it is served')
def _(run):
    with Scene() as scene:
        waiting, key = scene.connect(), scene.key('list')
        waiting.send('BLPOP', key, '0')
        with scene.held(['RPUSH', key, 'x']):
            scene.fail_batch()
        reply = value(waiting.read())
        if isinstance(reply, ReplyError):  # its own batch has failed
            reply = [key.encode()] + scene.connect().get('LRANGE', key, 0, -1)
        check_equal(reply, [key.encode(), b'x'])


@suite.case('a tracking client is told of a key that such a transaction changes, after the batch and after a restart')
def _(run):
    with Scene() as scene:
        tracking, key = scene.connect(proto=3), scene.key('tracked')
        check_equal(tracking.get('CLIENT', 'TRACKING', 'ON', 'BCAST'), b'OK')
        told = []

        def is_told():
            told.extend(pushes(tracking))
            return key.encode() in told
        with scene.held(['SET', key, 'new']):
            scene.fail_batch()  # the participant asks for the outcome by itself, and applies the effects
        wait_for(is_told, 'the invalidation')
        scene.connect().get('SET', scene.key('last'), 'x')
        wait_for(lambda: is_told() and scene.key('last').encode() in told, 'the last invalidation')
        check_equal(told.count(key.encode()), 1, 'invalidations of the key')
        told.clear()
        with scene.held(['SET', key, 'newer']):
            scene.cluster.backends[0].pause()  # it cannot answer what the outcome is
            scene.cluster.backends[1].kill9()
            scene.cluster.backends[1].start()
            tracking = scene.connect(proto=3)
            check_equal(tracking.get('CLIENT', 'TRACKING', 'ON', 'BCAST'), b'OK')
            scene.cluster.backends[0].resume()
        wait_for(is_told, 'the invalidation after a restart')


TOUCHES = {'LTRIM that keeps all': [['RPUSH', 'x'], ['LTRIM', '0', '-1']],
           'LMOVE of one element onto itself': [['RPUSH', 'x'], ['LMOVE', None, 'LEFT', 'RIGHT']],
           'RPOPLPUSH of one element onto itself': [['RPUSH', 'x'], ['RPOPLPUSH', None]]}


@suite.case('a key is touched without a changed row: clients that watch or track it are told, at a participant too')
def _(run):
    with Scene() as scene:
        for number, (title, (fill, touch)) in enumerate(TOUCHES.items()):
            key = scene.key('touched-%d' % number)
            watching, tracking, writer = scene.connect(), scene.connect(proto=3), scene.connect()
            touch = [touch[0], key] + [key if word is None else word for word in touch[1:]]
            writer.get(fill[0], key, *fill[1:])
            check_equal(tracking.get('CLIENT', 'TRACKING', 'ON'), b'OK')
            tracking.get('TYPE', key)
            watching.get('WATCH', key)
            scene.across(touch)
            scene.wait_applied()
            watching.get('MULTI')
            check_equal(watching.get('EXEC'), None, title)
            wait_for(lambda: key.encode() in pushes(tracking), 'an invalidation after ' + title)


@suite.case('a key is touched without a changed row: a client that tracks all keys is told, although nothing is written')
def _(run):
    with Scene() as scene:
        tracking, writer, key = scene.connect(proto=3), scene.connect(), scene.key('alone')
        writer.get('RPUSH', key, 'x')
        check_equal(tracking.get('CLIENT', 'TRACKING', 'ON', 'BCAST'), b'OK')
        for words in (['LTRIM', key, '0', '-1'], ['LMOVE', key, key, 'LEFT', 'LEFT'], ['RPOPLPUSH', key, key]):
            writer.get(*words)
            wait_for(lambda: key.encode() in pushes(tracking), 'an invalidation after ' + words[0])


@suite.case('a group is destroyed by a transaction: its blocked XREADGROUP ends, at a participant too')
def _(run):
    with Scene() as scene:
        for number, more in enumerate(([], [['XADD', None, '*', 'f', 'v']])):
            waiting, writer, key = scene.connect(), scene.connect(), scene.key('stream-%d' % number)
            check_equal(writer.get('XGROUP', 'CREATE', key, 'g', '0', 'MKSTREAM'), b'OK')
            waiting.send('XREADGROUP', 'GROUP', 'g', 'c', 'BLOCK', '0', 'STREAMS', key, '>')
            wait_for(lambda: b'blocked_clients:1\r' in writer.get('INFO', 'clients'), 'it to wait')
            scene.across(*([key if word is None else word for word in words] for words in more), ['XGROUP', 'DESTROY', key, 'g'])
            check('NOGROUP' in str(value(waiting.read())), 'another reply')


@suite.case('NOLOOP: a client is not told of its own changes at any shard, others are, and it is told of theirs')
def _(run):
    changes = {'SET': lambda a, b: [['SET', b, '1']],
               'MULTI': lambda a, b: [['MULTI'], ['SET', a, '1'], ['SET', b, '1'], ['EXEC']],
               'RENAME': lambda a, b: [['RENAME', a, b]],
               'MSETNX': lambda a, b: [['DEL', a, b], ['MSETNX', a, '1', b, '1']],
               'EVAL': lambda a, b: [['EVAL', "redis.call('SET', KEYS[1], 1) return redis.call('SET', KEYS[2], 1)", '2', a, b]]}
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster:
        a, b, serials = cluster.key_on(0), cluster.key_on(1), itertools.count()
        for options in (['NOLOOP'], ['NOLOOP', 'BCAST', 'PREFIX', 'key', 'PREFIX', 'fence']):
            for title, change in changes.items():
                with cluster.connect(proto=3) as own, cluster.connect(proto=3) as other, cluster.connect() as writer:
                    def told(client):
                        """The keys in the invalidations up to those of the fences, which are changed last, and are new ones each time."""
                        serial = next(serials)
                        fences = [cluster.key_on(shard, 'fence%d' % serial) for shard in range(2)]
                        client.send_many([['GET', fence] for fence in fences])
                        keys, replies = [], 0
                        while replies < 2 or not {fence.encode() for fence in fences} <= set(keys):
                            frame = client.read()
                            replies += frame[0] != '>'
                            keys += value(frame)[1] if frame[0] == '>' else []
                            if replies == 2:
                                replies += 1
                                for fence in fences:
                                    writer.get('SET', fence, '2')
                        return {key for key in keys if not key.startswith(b'fence')}
                    writer.get('MSET', a, '0', b, '0')
                    for client in (own, other):
                        check_equal(client.get('CLIENT', 'TRACKING', 'ON', *options), b'OK')
                        client.get('GET', a)
                        client.get('GET', b)
                    own.pipeline(change(a, b))
                    # reads wait until all shards have applied it
                    writer.get('EXISTS', a, b)
                    check_equal(told(own), set(), '%s with %s' % (title, options))
                    check(told(other) >= {b.encode()}, '%s with %s: another client is told' % (title, options))
                    own.get('GET', a)
                    own.get('GET', b)
                    writer.pipeline([['MULTI'], ['SET', a, '3'], ['SET', b, '3'], ['EXEC'], ['EXISTS', a, b]])
                    check_equal(told(own), {a.encode(), b.encode()}, 'changes of others with %s' % options)


@suite.case('INFO keyspace after EXEC over shards counts its keys at every shard')
def _(run):
    with Scene() as scene:
        looking, beside, key = scene.connect(), scene.connect(), scene.key('counted')
        with scene.held(['SET', key, 'x']):
            looking.send('INFO', 'keyspace')
            for _ in range(20):
                beside.get('PING')
        check(b'db0:keys=1,' in value(looking.read()), 'the key is not counted')


if __name__ == '__main__':
    suite.main()
