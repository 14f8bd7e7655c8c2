"""duel.py - plays a transcript with push messages to redis-server and to Scree; the frames of each connection must be equal.

    with Duel() as duel:
        duel.step('a', 'SUBSCRIBE x')
        duel.step('b', 'PUBLISH x hi')       # compares what every connection got: b its reply, a the message
        duel.script(text)                    # each line is a step; transcript.py describes the lines

After each step a PING with a token is sent on every connection: the frames before its reply belong to the step. `{id:a}`
in a request is replaced by the client id of connection a. Some values differ between the servers and are replaced before
comparing: ids (in the replies to ID_COMMANDS), versions, and time and
address in MONITOR's lines. After `!unordered`, frames and
the members of arrays may come in any order.

Duel(shards=3) plays to a proxy before three shards. There a message may arrive later than the reply of the command that
caused it: a message of our own over every shard (Fence) shows that all have arrived, and the order of frames is not compared.
"""

import re

from support.cluster import Cluster, Oracle
from support.harness import Failure
from support.resp import Closed, Connection, show
from support.transcript import Side, Step, parse, split_words

MONITOR_LINE = re.compile(rb'^\d+\.\d{6} \[(\d+) (lua|[0-9.]+:\d+|unix:[^\]]*)\] ')
ID_COMMANDS = ('GETREDIR', 'TRACKINGINFO')
ID_MARKS = (('$', b'id'), ('$', b'tracking-redir-broken'))
VERSION = re.compile(rb'7\.\d+\.\d+')  # in the reply of HELLO: Scree has commands of later versions than redis-server
BEGIN, END = ('MULTI',), ('EXEC', 'DISCARD', 'RESET')
ID_OF = re.compile(rb'\{id:(\w+)\}')
FENCE = b'fence-of-the-duel'


class Fence:
    """Publishes to itself over every shard: when these messages arrive, earlier ones have arrived as well.
    Invalidations use a connection of each client's own; there the reply to a DEL of an absent key at every shard
    comes after them."""

    def __init__(self, cluster, shards):
        self.connection = Connection(cluster.proxies[0].address, proto=3)
        self.channels = [FENCE + b'{%s}' % cluster.key_on(shard).encode() for shard in range(shards)]
        self.connection.call('SUBSCRIBE', *self.channels)
        self.deletes = [['DEL', channel] for channel in self.channels]

    def wait(self):
        missing = set(self.channels)
        self.connection.send_many([['PUBLISH', channel, 'pass'] for channel in self.channels])
        while missing:
            kind, payload = self.connection.read()
            if kind == '>' and payload[0][1] == b'message':
                missing.discard(payload[1][1])

    def close(self):
        self.connection.close()


def mentions_fence(frame):
    kind, payload = frame
    if isinstance(payload, list):
        return any(map(mentions_fence, payload))
    return isinstance(payload, bytes) and payload.startswith(FENCE)


class Player(Side):
    """The connections of one script to one server."""

    def __init__(self, address, fence=None):
        super().__init__([address])
        self.address, self.fence, self.ids, self.serial = address, fence, {}, 0
        self.queueing = set()  # connections inside MULTI, where a PING would be queued

    def connection(self, name):
        if name not in self.connections:
            self.ids[name] = super().connection(name).get('CLIENT', 'ID')
        return self.connections[name]

    def with_ids(self, word):
        return ID_OF.sub(lambda found: b'%d' % self.ids[found[1].decode()], word)

    def is_token(self, frame, token):
        return frame in (('$', token), ('*', [('$', b'pong'), ('$', token)]))

    def collect(self, name, frames):
        """Reads all frames up to the reply to a PING that it sends."""
        self.serial += 1
        token = b'token-%d' % self.serial
        connection = self.connections[name]
        try:
            deletes = self.fence.deletes if self.fence else []
            connection.send_many(deletes + [['PING', token]])
            while True:
                frame = connection.read()
                if self.is_token(frame, token):
                    break
                frames.append(frame)
            for _ in deletes:
                frames.remove(next(frame for frame in reversed(frames) if frame[0] in ':-'))
        except (Closed, ConnectionError):
            frames.append(('closed', b''))
            del self.connections[name]

    def play(self, name, steps):
        """Returns {connection: frames received}."""
        for step in steps:
            for other in ID_OF.findall(b' '.join(step.words)):
                self.connection(other.decode())
        connection = self.connection(name)
        got = {name: []}
        connection.send_many([[self.with_ids(word) for word in step.words] for step in steps])
        was_queueing = name in self.queueing
        for step in steps:
            if step.name() in BEGIN:
                self.queueing.add(name)
            elif step.name() in END:
                self.queueing.discard(name)
        try:
            for _ in steps if was_queueing else steps[:1]:
                got[name].append(connection.read())
        except Closed:
            got[name].append(('closed', b''))
            del self.connections[name]
        if self.fence:
            self.fence.wait()
        for _ in range(2):
            for other in set(self.connections) - self.queueing:
                self.collect(other, got.setdefault(other, []))
        return {other: self.comparable(frames, steps) for other, frames in got.items()}

    def comparable(self, frames, steps):
        with_ids = any(word in repr(step).upper() for step in steps for word in ID_COMMANDS)
        names = {b'%d' % number: b'id of ' + name.encode() for name, number in self.ids.items()}

        def comparable_frame(frame):
            kind, payload = frame
            if isinstance(payload, list) and kind == '*':
                payload = [item for item in payload if not mentions_fence(item)]
            if isinstance(payload, list):
                return kind, [(':', names.get(item[1], item[1])) if before in ID_MARKS else comparable_frame(item)
                              for before, item in zip([None] + payload, payload)]
            if kind == '$' and payload and VERSION.fullmatch(payload):
                return kind, b'version'
            if kind == ':' and with_ids:
                return kind, names.get(payload, payload)
            if kind == '+' and MONITOR_LINE.match(payload):
                return kind, MONITOR_LINE.sub(lambda found: b'TIME [%s %s] ' % (
                    found.group(1), b'lua' if found.group(2) == b'lua' else b'ADDRESS'), payload)
            return frame
        is_noise = re.compile(rb'"(PING|CLIENT)" "(token|ID)')
        frames = [frame for frame in frames if not (is_message(frame) and mentions_fence(frame))]
        return [frame for frame in map(comparable_frame, frames) if not (frame[0] == '+' and is_noise.search(frame[1]))]


def is_message(frame):
    return isinstance(frame[1], list) and frame[1] and frame[1][0][1] in (b'message', b'pmessage')


def lines(frames):
    return ['%s: %s' % (name, show(frame)) for name in sorted(frames) for frame in frames[name]]


def deep_sorted(frames):
    def frame_sorted(frame):
        kind, payload = frame
        return (kind, sorted(map(frame_sorted, payload), key=repr)) if isinstance(payload, list) else frame
    return {name: sorted(map(frame_sorted, all_of), key=repr) for name, all_of in frames.items()}


class Duel:
    def __init__(self, options=None, shards=0):
        self.shards = shards
        self.oracle = Oracle()
        self.cluster = Cluster(backends=shards or 1, partitions=1, proxies=1 if shards else 0, backend_options=options,
                               proxy_options={'proxy': {'workers': 1}})

    def __enter__(self):
        self.oracle.__enter__()
        self.cluster.__enter__()
        self.theirs = Player(self.oracle.address)
        if self.shards:
            self.ours = Player(self.cluster.proxies[0].address, Fence(self.cluster, self.shards))
        else:
            self.ours = Player(self.cluster.backends[0].addresses[0])
        return self

    def __exit__(self, kind, error, trace):
        self.ours.close()
        if self.ours.fence:
            self.ours.fence.close()
        self.theirs.close()
        self.oracle.__exit__()
        return self.cluster.__exit__(kind, error, trace)

    def step(self, name, *requests):
        """Plays one packet of requests: texts as in a transcript, or lists of words."""
        return self.play([Step(split_words(each) if isinstance(each, str) else each, name) for each in requests])

    def play(self, packet):
        ours, theirs = (player.play(packet[0].conn, packet) for player in (self.ours, self.theirs))
        if packet[0].check == 'unordered' or self.shards:
            ours, theirs = (deep_sorted(frames) for frames in (ours, theirs))
        if ours != theirs:
            raise Failure('%s\n  Scree:\n    %s\n  Redis:\n    %s' % (
                ' | '.join(map(repr, packet)), '\n    '.join(lines(ours)), '\n    '.join(lines(theirs))))
        return ours

    def script(self, text):
        for packet in parse(text):
            self.play(packet)


def add_script(suite, title, text, shards=None):
    """A case that plays the script to a partition and to redis-server; with `shards`, to a proxy over this number of
    shards."""
    through = {None: '', 1: 'through a proxy: '}.get(shards, 'through a proxy before three shards: ')

    @suite.case(through + title)
    def _(run):
        with Duel(shards=shards) if shards else Duel() as duel:
            duel.script(text)
