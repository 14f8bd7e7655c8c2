r"""vectors.py - plays requests with their expected replies: commands that redis-server 7.0 does not have.

A case is a text with one request per line, quoted as in transcript.py, and the reply of the documentation after `=>`:

    SET k v                 => OK
    INCREX k BYFLOAT 0.5    => [,1.5 ,0.5]

    OK QUEUED +text +"t x"  a simple string          "text"     a bulk string; \x00 and \n as in transcript.py
    :5                      an integer               ,1.5       a double: a bulk string in RESP2
    :~900                   an integer that decreases with the time: up to 60 less (60000, if it is 100000 or more)
    nil                     null                     nil*       a null array: null in RESP3
    [a b]                   an array                 {k v}      a map: a flat array in RESP2
    <a b>                   a set: an array in RESP2 (k v k v)  a map: an array of pairs in RESP2
    #t                      a boolean: an integer in RESP2
    ="text"                 a verbatim string: a bulk string in RESP2
    ?                       anything but an error    ?:         any reply of this type
    -ERR text               an error, to the end of the line; with `…` at its end: an error that begins so

    until GET k => nil              the request is repeated until it has this reply
    <now+5000> <s+5>                times from now in ms and in s, the same in a whole case; <s+5>000 in ms

    (events) => [set:k expire:k]    the keyspace events since the last such line, at a partition only

play() sends each request in several ways: alone, in MULTI and in a script; a case with the mark `alone` only alone.
"""

import re
import time

from support.harness import Failure, check_equal, wait_for
from support.resp import Connection, show
from support.transcript import quoted, split_words

SCRIPT = 'return redis.pcall(unpack(ARGV))'
EVENTS = '(events)'
PAIRS = '(pairs)'
UNTIL = b'until'
SLACK = 60
ARITY = b'ERR Wrong number of args calling Redis command from script'


class Parser:
    """The expected reply of one line. In the tree that it returns a leaf is (kind, payload) as in resp.py."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def reply(self):
        if self.text.startswith('-'):
            return '-', self.text[1:].encode()
        found = self.one()
        if self.text[self.at:].strip():
            raise ValueError('after the reply: %r' % self.text[self.at:])
        return found

    def space(self):
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def one(self):
        self.space()
        char = self.text[self.at]
        if char in '[{<(':
            return self.many(char, {'[': ']', '{': '}', '<': '>', '(': ')'}[char])
        if self.text.startswith('="', self.at):
            word, self.at = quoted(self.text, self.at + 2)
            return '=', b'txt:' + word
        if self.text.startswith('+"', self.at):
            word, self.at = quoted(self.text, self.at + 2)
            return '+', word
        if char == '"':
            word, self.at = quoted(self.text, self.at + 1)
            return '$', word
        begin = self.at
        while self.at < len(self.text) and not self.text[self.at].isspace() and self.text[self.at] not in ']}>)':
            self.at += 1
        word = self.text[begin:self.at]
        if word in ('nil', 'nil*'):
            return ('_' if word == 'nil' else '*'), None
        if word[0] == '?':
            return '?', word[1:]
        if word[0] in '+:,#':
            return word[0], word[1:].encode()
        if word == 'OK' or word == 'QUEUED':
            return '+', word.encode()
        return '$', word.encode()

    def many(self, begin, end):
        self.at += 1
        items = []
        while True:
            self.space()
            if self.text[self.at] == end:
                self.at += 1
                return {'[': '*', '{': '%', '<': '~', '(': PAIRS}[begin], items
            items.append(self.one())


def in_protocol(expected, proto, in_script):
    """The expected reply as it is in this protocol."""
    kind, payload = expected
    if kind == '?':
        return expected
    if isinstance(payload, list):
        items = [in_protocol(item, proto, in_script) for item in payload]
        if kind == PAIRS and proto == 2:
            return '*', [('*', list(pair)) for pair in zip(items[::2], items[1::2])]
        return ('*' if proto == 2 else '%' if kind == PAIRS else kind), items
    if payload is None:
        if proto == 3:
            return '_', b''
        return ('$' if kind == '_' or in_script else '*'), None
    if proto == 2 and kind == '=':
        return '$', payload[4:]
    if proto == 2 and kind == ',':
        return '$', payload
    if proto == 2 and kind == '#':
        return ':', b'1' if payload == b't' else b'0'
    return expected


def fits(expected, reply, in_script=False):
    kind, payload = expected
    if kind == '?':
        return reply[0] != '-' and (not payload or reply[0] == payload)
    if kind == '-' and in_script and payload.startswith(b'ERR wrong number of arguments'):
        return reply in (expected, ('-', ARITY))
    if kind == '-' and payload.endswith('…'.encode()):
        return reply[0] == '-' and reply[1].startswith(payload[:-3])
    if kind == ':' and payload.startswith(b'~'):
        most = int(payload[1:])
        least = max(0, most - SLACK * (1000 if most >= 100000 else 1))  # -1 and -2 say that there is no time
        return reply[0] == ':' and least <= int(reply[1]) <= most
    if isinstance(payload, list):
        if reply[0] != kind or not isinstance(reply[1], list) or len(reply[1]) != len(payload):
            return False
        if kind == '~':
            return sorted(map(repr, payload)) == sorted(map(repr, reply[1]))
        return all(fits(want, have) for want, have in zip(payload, reply[1]))
    return expected == reply


def with_times(text):
    """The text with the times of a moment ago: a whole number of seconds and a millisecond, so that <now+500000> is less than 500 s away."""
    now_ms = (int(time.time()) - 1) * 1000 + 1
    text = re.sub(r'<now\+(\d+)>', lambda found: str(now_ms + int(found.group(1))), text)
    return re.sub(r'<s\+(\d+)>', lambda found: str(now_ms // 1000 + int(found.group(1))), text)


def parse(text):
    """[(words, expected reply), …]"""
    lines = []
    text = with_times(text)
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith('#'):
            continue
        request, mark, reply = line.partition(' => ')
        if not mark:
            raise ValueError('no reply in %r' % line)
        words = EVENTS if request.strip() == EVENTS else split_words(request.strip())
        lines.append((words, Parser(reply.strip()).reply()))
    return lines


class Listener:
    """The keyspace events of a partition."""

    def __init__(self, address):
        self.other = Connection(address)
        self.other.get('CONFIG', 'SET', 'notify-keyspace-events', 'EA')
        self.connection = Connection(address)
        self.connection.call('PSUBSCRIBE', '__keyevent@0__:*', 'mark')

        self.connection.read()

    def events(self):
        self.other.call('PUBLISH', 'mark', 'x')
        found = []
        while True:
            message = [item[1] for item in self.connection.read()[1]]
            if message[2] == b'mark':
                return '*', [('$', event) for event in found]
            found.append(message[2].split(b':', 1)[1] + b':' + message[3])

    def close(self):
        self.other.get('CONFIG', 'SET', 'notify-keyspace-events', '')
        self.other.close()
        self.connection.close()


def alone(connection, words):
    return connection.call(*words)


def in_multi(connection, words):
    """The reply of the request in a transaction of its own."""
    _, queued_reply, executed = connection.pipeline([['MULTI'], words, ['EXEC']])
    if queued_reply[0] == '-':
        check_equal(executed[1][:9], b'EXECABORT', 'EXEC after an error')
        return queued_reply
    return executed[1][0]


def in_script(connection, words):
    return connection.call('EVAL', SCRIPT, 0, *words)


WAYS = [('alone', alone, 2), ('alone', alone, 3), ('in MULTI', in_multi, 2), ('in MULTI', in_multi, 3),
        ('in a script', in_script, 2)]


def play_way(address, lines, way, proto, listener):
    """[what differs, …]"""
    found = []
    with Connection(address, proto=proto) as connection:
        check_equal(connection.call('FLUSHALL'), ('+', b'OK'), 'FLUSHALL at the start')
        if listener:
            listener.events()
        for words, expected in lines:
            if words == EVENTS:
                reply = listener.events() if listener else None
            elif words[0] == b'GONE':
                wait_for(lambda: connection.get('EXISTS', *words[1:]) == 0, '%r to expire' % words[1:])
                continue
            elif words[0] == UNTIL:
                want = in_protocol(expected, proto, way is in_script)
                wait_for(lambda: fits(want, way(connection, words[1:])), '%r to be %s' % (words[1:], show(want)))
                continue
            else:
                reply = way(connection, words)
            want = in_protocol(expected, proto, way is in_script) if words != EVENTS else expected
            if reply is not None and not fits(want, reply, way is in_script):
                shown = words if words == EVENTS else ' '.join(word.decode('latin-1') for word in words)
                found.append('%s\n         expected: %s\n         reply:    %s' % (shown, show(want), show(reply)))
    return found


def play(name, address, text, only_alone=False):
    """Plays a case in all ways; raises Failure with the differences. `name`: 'direct' plays (events) too."""
    has_events = name == 'direct' and any(words == EVENTS for words, _ in parse(text))
    for title, way, proto in WAYS:
        if only_alone and way is not alone:
            continue
        listener = Listener(address) if has_events else None
        try:
            found = play_way(address, parse(text), way, proto, listener)
        finally:
            if listener:
                listener.close()
        if found:
            raise Failure('%s, %s, RESP%d: %d replies differ\n       %s' % (name, title, proto, len(found), '\n       '.join(found[:20])))
