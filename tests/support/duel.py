"""duel.py - one script of several connections, played to redis-server and to Scree; all frames must be the same.

    with Duel() as duel:
        duel.step('a', 'SUBSCRIBE x')        # connection `a` is made when it is first named
        duel.step('b', 'PUBLISH x hi')       # compares what every connection got: b its reply, a the message

After each step a PING with a token is sent on every connection: what came before its answer belongs to the step. A step
with several commands sends them as one packet. `{id:a}` stands for the id of connection a. What must differ is replaced:
ids (in the commands of ID_COMMANDS), and time and address in MONITOR's lines.

Duel(shards=3) plays to a proxy before three shards. There a message may come later than the reply of the command that
caused it: a message of our own over every shard (Fence) shows that all have come, and the order of frames is not compared.
"""

import re

from support.cluster import Cluster, Oracle
from support.harness import Failure
from support.resp import Closed, Connection, show

MONITOR_LINE = re.compile(rb'^\d+\.\d{6} \[(\d+) (lua|[0-9.]+:\d+|unix:[^\]]*)\] ')
ID_COMMANDS = ('GETREDIR', 'TRACKINGINFO')
ID_MARKS = (('$', b'id'), ('$', b'tracking-redir-broken'))
BEGIN, END = ('MULTI',), ('EXEC', 'DISCARD', 'RESET')


FENCE = b'fence-of-the-duel'


class Fence:
    """Messages to itself over every shard: when they are back, earlier ones are where they belong. Invalidations come by
    connections of each client's own: there a DEL of nothing at every shard is answered behind them."""

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


class Player:
    """The connections of one script to one server."""

    def __init__(self, address, fence=None):
        self.address, self.connections, self.ids, self.serial = address, {}, {}, 0
        self.fence = fence
        self.queueing = set()  # connections inside MULTI: they would queue a PING

    def connection(self, name):
        if name not in self.connections:
            connection = self.connections[name] = Connection(self.address)
            self.ids[name] = connection.get('CLIENT', 'ID')
        return self.connections[name]

    def words(self, text):
        words = text.split() if isinstance(text, str) else list(text)
        return [re.sub(r'\{id:(\w+)\}', lambda found: str(self.ids[found.group(1)]), word)
                if isinstance(word, str) else word for word in words]

    def is_token(self, frame, token):
        return frame in (('$', token), ('*', [('$', b'pong'), ('$', token)]))

    def collect(self, name, frames):
        """Reads up to the answer of a PING sent now."""
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

    def play(self, name, commands):
        """Returns {connection: frames}."""
        for text in commands:
            for other in re.findall(r'\{id:(\w+)\}', text if isinstance(text, str) else ''):
                self.connection(other)
        connection = self.connection(name)
        got = {name: []}
        connection.send_many([self.words(text) for text in commands])
        was_queueing = name in self.queueing
        for text in commands:
            if self.words(text)[0].upper() in BEGIN:
                self.queueing.add(name)
            elif self.words(text)[0].upper() in END:
                self.queueing.discard(name)
        try:
            for _ in commands if was_queueing else commands[:1]:
                got[name].append(connection.read())
        except Closed:
            got[name].append(('closed', b''))
            del self.connections[name]
        if self.fence:
            self.fence.wait()
        for _ in range(2):
            for other in set(self.connections) - self.queueing:
                self.collect(other, got.setdefault(other, []))
        return {other: self.comparable(frames, commands) for other, frames in got.items()}

    def comparable(self, frames, commands):
        with_ids = any(word in str(text).upper() for text in commands for word in ID_COMMANDS)
        names = {b'%d' % number: b'id of ' + name.encode() for name, number in self.ids.items()}

        def comparable_frame(frame):
            kind, payload = frame
            if isinstance(payload, list) and kind == '*':
                payload = [item for item in payload if not mentions_fence(item)]
            if isinstance(payload, list):
                return kind, [(':', names.get(item[1], item[1])) if before in ID_MARKS else comparable_frame(item)
                              for before, item in zip([None] + payload, payload)]
            if kind == ':' and with_ids:
                return kind, names.get(payload, payload)
            if kind == '+' and MONITOR_LINE.match(payload):
                return kind, MONITOR_LINE.sub(lambda found: b'TIME [%s %s] ' % (
                    found.group(1), b'lua' if found.group(2) == b'lua' else b'ADDRESS'), payload)
            return frame
        is_noise = re.compile(rb'"(PING|CLIENT)" "(token|ID)')
        frames = [frame for frame in frames if not (is_message(frame) and mentions_fence(frame))]
        return [frame for frame in map(comparable_frame, frames) if not (frame[0] == '+' and is_noise.search(frame[1]))]

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections, self.ids = {}, {}


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

    def step(self, name, *commands, sort=False):
        """`sort`: frames and members of arrays may come in any order."""
        ours, theirs = self.ours.play(name, commands), self.theirs.play(name, commands)
        if sort or self.shards:
            ours, theirs = (deep_sorted(frames) for frames in (ours, theirs))
        if ours != theirs:
            raise Failure('%s: %s\n  Scree:\n    %s\n  Redis:\n    %s' % (
                name, ' | '.join(map(str, commands)), '\n    '.join(lines(ours)), '\n    '.join(lines(theirs))))
        return ours

    def script(self, text):
        """Lines `name: command`, commands of one packet with ` | ` between."""
        for line in text.strip().split('\n'):
            if not line.strip() or line.strip().startswith('#'):
                continue
            name, commands = line.strip().split(': ', 1)
            sort = name.endswith('~')
            self.step(name.rstrip('~'), *[command.strip() for command in commands.split(' | ')], sort=sort)


def add_script(suite, title, text, shards=None):
    """A case that plays the script to a partition and to redis-server; with `shards` to a proxy before so many shards."""
    through = {None: '', 1: 'through a proxy: '}.get(shards, 'through a proxy before three shards: ')

    @suite.case(through + title)
    def _(run):
        with Duel(shards=shards) if shards else Duel() as duel:
            duel.script(text)
