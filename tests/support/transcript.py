"""transcript.py - plays requests to redis-server and to Scree, at a partition or through a proxy; replies must be equal.

A transcript has one packet per line: requests quoted as redis-cli quotes them ("a\\x00b"), with ` | ` between two requests.

    <x*45>        a word of 45 times x; <0..9*1000>: the bytes 0 to 255 repeated up to a length of 1000
    b: GET k      on the connection named b, which is opened on first use; without a name: connection 1
    !gone k       waits until EXISTS k replies 0 on both servers
    !length GET k and !kind, !unordered, !ttl …: compares the replies with this check (checks.py)
    # …           a comment

parse() reads a transcript, compare() plays it. Other players use the same Pair of servers, with packets they make
themselves: random streams (differential/player.py), and conversations with push messages (duel.py).
"""

import collections
import re
import socket

from support import checks
from support.harness import Failure, check, check_equal, wait_for
from support.resp import Closed, Connection, show

REPEAT = re.compile(r'^<(.*)\*(\d+)>$', re.S)
SHOWN_MAX = 40  # differences in the report of one transcript


def quote(word):
    text = word.decode('latin-1')
    if text and all(33 <= ord(char) < 127 and char not in '"\'\\' for char in text) and len(text) < 80:
        return text
    shown = repr(word)[1:].strip()
    return shown if len(shown) < 120 else '%s…(%d bytes)' % (shown[:60], len(word))


class Step:
    """One request on the connection `conn`. `check`: how its replies are compared; None: by the check of its command."""
    __slots__ = ('words', 'conn', 'check')

    def __init__(self, words, conn=0, check=None):
        self.words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.conn, self.check = conn, check

    def name(self):
        return self.words[0].upper().decode('latin-1') if self.words else ''

    def __repr__(self):
        words = ' '.join(quote(word) for word in self.words)
        return words if self.conn in (0, '1') else '(connection %s) %s' % (self.conn, words)


class Gone(Step):
    """Waits until the key words[0] does not exist on either server."""


def split_words(line):
    """The words of one line, as bytes."""
    words, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
        elif line[at] == '"':
            word, at = quoted(line, at + 1)
            words.append(word)
        else:
            end = at
            while end < len(line) and not line[end].isspace():
                end += 1
            words.append(expand(line[at:end]))
            at = end
    return words


def quoted(line, at):
    out = bytearray()
    while line[at] != '"':
        if line[at] == '\\':
            at += 1
            if line[at] == 'x':
                out.append(int(line[at + 1:at + 3], 16))
                at += 2
            else:
                out += {'n': b'\n', 'r': b'\r', 't': b'\t'}.get(line[at], line[at].encode())
        else:
            out += line[at].encode('latin-1')
        at += 1
    return bytes(out), at + 1


def expand(word):
    repeat = REPEAT.match(word)
    if not repeat:
        return word.encode('latin-1')
    if repeat.group(1) == '0..9':
        return bytes(i % 256 for i in range(int(repeat.group(2))))
    return repeat.group(1).encode('latin-1') * int(repeat.group(2))


def parse(text):
    """The packets of a transcript: lists of steps on one connection."""
    return [packet_of(line.strip()) for line in text.splitlines() if line.strip() and not line.strip().startswith('#')]


def packet_of(line):
    name, mark, requests = re.match(r'(?:(\w+): )?(?:!(\w+) )?(.*)', line, re.S).groups()
    if mark == 'gone':
        return [Gone(split_words(requests), name or '1')]
    return [Step(split_words(request), name or '1', mark) for request in requests.split(' | ')]


def pipelined(packets):
    """The same steps in fewer packets: successive steps of one connection are joined."""
    joined = [packets[0][:]]
    for packet in packets[1:]:
        last = joined[-1]
        if last[0].conn == packet[0].conn and type(last[0]) is type(packet[0]) is Step:
            last += packet
        else:
            joined.append(packet[:])
    return joined


class Side:
    """The connections to one server by name, each opened on first use, in turn to each of the server's addresses."""

    def __init__(self, addresses, proto=2, timeout=120):
        self.addresses, self.proto, self.timeout, self.connections = addresses, proto, timeout, {}

    def connection(self, name):
        if name not in self.connections:
            address = self.addresses[len(self.connections) % len(self.addresses)]
            self.connections[name] = Connection(address, self.timeout, self.proto)
        return self.connections[name]

    def send(self, name, requests):
        try:
            self.connection(name).send_many(requests)
        except OSError:
            pass  # read() reports the closed connection

    def read(self, name, count):
        """`count` replies. If the connection closes, or no reply comes in time, each missing reply is ('closed', …) or
        ('silent', …)."""
        replies = []
        try:
            while len(replies) < count:
                replies.append(self.connection(name).read())
        except socket.timeout:
            replies += [('silent', b'no reply')] * (count - len(replies))
        except (Closed, OSError):
            replies += [('closed', b'the connection is closed')] * (count - len(replies))
        return replies

    def call(self, *words):
        self.send(0, [words])
        return self.read(0, 1)[0]

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections = {}


class Pair:
    """Connections to redis-server and to the target, both with an empty keyspace. `check`: for steps without a check of
    their own."""

    def __init__(self, oracle_address, target_addresses, proto=2, check=None, timeout=120):
        self.sides = self.oracle, self.target = [Side(addresses, proto, timeout) for addresses in ([oracle_address], target_addresses)]
        self.queues, self.check = collections.defaultdict(checks.Queue), check

    def __enter__(self):
        for side in self.sides:
            check_equal(side.call('FLUSHALL'), ('+', b'OK'), 'FLUSHALL at the start')
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.close()

    def differences(self, packet):
        """Sends the packet to both; [(offset in the packet, step, our reply, their reply, is in EXEC)] for replies that
        differ."""
        conn, requests, found = packet[0].conn, [step.words for step in packet], []
        for side in self.sides:
            side.send(conn, requests)
        both = [side.read(conn, len(packet)) for side in self.sides]
        for offset, (step, theirs, ours) in enumerate(zip(packet, *both)):
            check(theirs[0] != 'silent', 'redis-server does not reply to %s' % step)
            found += [(offset, *each) for each in self.queues[conn].differences(step, ours, theirs, self.check)]
        return found

    def wait_gone(self, step):
        for side in self.sides:
            wait_for(lambda: side.connection(step.conn).get('EXISTS', *step.words) == 0, '%s to expire' % step)


def compare(packets, oracle_address, target_address, proto=2, check=None):
    """Plays the packets to both servers; raises Failure with every difference."""
    found = []
    with Pair(oracle_address, [target_address], proto, check) as pair:
        for packet in packets:
            if type(packet[0]) is Gone:
                pair.wait_gone(packet[0])
                continue
            found += ['%s\n         redis: %s\n         scree: %s' % (step, show(theirs), show(ours))
                      for _, step, ours, theirs, _ in pair.differences(packet)]
    if found:
        raise Failure('RESP%d, %d replies differ\n       %s' % (proto, len(found), '\n       '.join(found[:SHOWN_MAX])))
