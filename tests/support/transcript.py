"""transcript.py - hand-written cases in the words of redis-cli.

One command per line, quoted as redis-cli quotes ("a\\x00b", 'it''s one word'). Beside that:

    <x*45>        a word of 45 times x; <0..9*1000> counts bytes 0 to 255 round and round
    2: GET k      on a second connection (3: a third, …)
    !gone k       wait until EXISTS k says 0 on both servers
    !length GET k and !kind, !unordered, !ttl …: compare with this check (checks.py) instead of byte for byte
    # …           a comment
"""

import collections
import re

from support import checks
from support.harness import Failure, wait_for
from support.resp import Closed, Connection, show

REPEAT = re.compile(r'^<(.*)\*(\d+)>$', re.S)


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


class Line:
    def __init__(self, text):
        self.text = text.strip()
        self.conn, self.check, self.gone = 1, None, None
        rest = self.text
        prefix = re.match(r'^(\d): ', rest)
        if prefix:
            self.conn, rest = int(prefix.group(1)), rest[3:]
        if rest.startswith('!'):
            mark, _, rest = rest[1:].partition(' ')
            if mark == 'gone':
                self.gone = split_words(rest)[0]
            else:
                self.check = mark
        self.words = split_words(rest)


def parse(text):
    return [Line(line) for line in text.splitlines() if line.strip() and not line.strip().startswith('#')]


class Pair:
    """A growing set of connections to both servers, numbered from 1."""

    def __init__(self, oracle_address, target_address, proto):
        self.addresses, self.proto = (oracle_address, target_address), proto
        self.connections = {}

    def get(self, number):
        if number not in self.connections:
            self.connections[number] = tuple(Connection(address, proto=self.proto) for address in self.addresses)
        return self.connections[number]

    def close(self):
        for pair in self.connections.values():
            for connection in pair:
                connection.close()


def read(connection):
    try:
        return connection.read()
    except Closed:
        return ('closed', b'the connection was closed')


def wait_gone(pair, line):
    for connection in pair.get(line.conn):
        wait_for(lambda: connection.get('EXISTS', line.gone) == 0, '%r to expire' % line.gone)


def play(lines, pair, pipelined):
    """Raises Failure with everything that differs."""
    differences, queues = [], collections.defaultdict(checks.Queue)
    at = 0
    while at < len(lines):
        if lines[at].gone is not None:
            wait_gone(pair, lines[at])
            at += 1
            continue
        run = [lines[at]]
        while pipelined and at + len(run) < len(lines) and lines[at + len(run)].gone is None and \
                lines[at + len(run)].conn == run[0].conn:
            run.append(lines[at + len(run)])
        oracle, target = pair.get(run[0].conn)
        for connection in (oracle, target):
            connection.send_many([line.words for line in run])
        for line in run:
            theirs, ours = read(oracle), read(target)
            if queues[line.conn].differences(line, ours, theirs):
                differences.append('%s\n         redis: %s\n         scree: %s' % (line.text, show(theirs), show(ours)))
        at += len(run)
    if differences:
        raise Failure('\n       '.join(differences))
