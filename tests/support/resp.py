"""resp.py - a small RESP2/RESP3 codec for tests that care about bytes and time.

A reply is a pair (kind, payload); kind is the type character of the wire format:

    ('+', b'OK')  ('-', b'ERR text')  (':', b'12')  ('$', b'data' | None)  ('*', [reply, ...] | None)
    ('%', [key, value, ...])  ('~', [...])  ('>', [...])  (',', b'1.5')  ('#', b't')  ('_', b'')
    ('(', b'12')  ('=', b'txt:data')  ('!', b'ERR text')

Numbers stay bytes, so two equal pairs came from equal bytes. value() turns a reply into plain Python.
"""

import socket
import time


class Closed(Exception):
    """The other side closed the connection (argument: the unread bytes)."""


class ReplyError(Exception):
    """An error reply, as value() gives it."""

    def __eq__(self, other):
        return isinstance(other, ReplyError) and self.args == other.args

    def __hash__(self):
        return hash(self.args)


def to_bytes(arg):
    if isinstance(arg, (bytes, bytearray)):
        return bytes(arg)
    return str(arg).encode()


def encode(args):
    """One request as an array of bulk strings."""
    parts = [b'*%d\r\n' % len(args)]
    for arg in args:
        data = to_bytes(arg)
        parts.append(b'$%d\r\n%s\r\n' % (len(data), data))
    return b''.join(parts)


LINE_KINDS = b'+-:,#_('
BULK_KINDS = b'$=!'
LIST_KINDS = b'*~>%'


class Reader:
    """Parses replies from a stream of bytes; keeps incomplete ones, and never reads a byte twice, so big arrays take
    linear time."""

    def __init__(self):
        self.buf = bytearray()
        self.pos = 0
        self.open_lists = []  # [kind, items still missing, items], outermost first

    def feed(self, data):
        if self.pos:
            del self.buf[:self.pos]
            self.pos = 0
        self.buf += data

    def next(self):
        """The next complete reply, or None."""
        while True:
            item = self._element()
            if item is None:
                return None
            if item[0] == 'open':
                self.open_lists.append(item[1])
                continue
            while self.open_lists:
                top = self.open_lists[-1]
                top[2].append(item)
                top[1] -= 1
                if top[1]:
                    break
                self.open_lists.pop()
                item = (top[0], top[2])
            else:
                return item

    def rest(self):
        return bytes(self.buf[self.pos:])

    def _element(self):
        """One scalar, empty list, or ('open', …) head of a list; None when incomplete."""
        end = self.buf.find(b'\r\n', self.pos)
        if end < 0:
            return None
        kind, line = self.buf[self.pos], bytes(self.buf[self.pos + 1:end])
        name = chr(kind)
        if kind in LINE_KINDS:
            self.pos = end + 2
            return (name, line)
        if kind in BULK_KINDS:
            return self._bulk(name, int(line), end + 2)
        if kind in LIST_KINDS:
            count = int(line) * (2 if name == '%' else 1)
            self.pos = end + 2
            if count > 0:
                return ('open', [name, count, []])
            return (name, None if count < 0 else [])
        raise ValueError('not RESP: %r' % bytes(self.buf[self.pos:self.pos + 40]))

    def _bulk(self, name, length, start):
        if length < 0:
            self.pos = start
            return (name, None)
        if len(self.buf) < start + length + 2:
            return None
        if self.buf[start + length:start + length + 2] != b'\r\n':
            raise ValueError('bulk of %d bytes without CRLF at its end' % length)
        self.pos = start + length + 2
        return (name, bytes(self.buf[start:start + length]))


def value(reply):
    """Plain Python: bytes, int, float, bool, None, list, dict; errors become ReplyError objects."""
    kind, payload = reply
    if payload is None or kind == '_':
        return None
    if kind == '-' or kind == '!':
        return ReplyError(payload.decode('latin-1'))
    if kind == ':' or kind == '(':
        return int(payload)
    if kind == ',':
        return float(payload)
    if kind == '#':
        return payload == b't'
    if kind == '=':
        return payload[4:]
    if kind == '%':
        plain = [value(item) for item in payload]
        return dict(zip(plain[::2], plain[1::2]))
    if kind in '*~>':
        return [value(item) for item in payload]
    return payload


def show(reply, limit=400):
    """A reply as one line of text for reports."""
    kind, payload = reply
    if isinstance(payload, list):
        text = kind + '[' + ', '.join(show(item, limit) for item in payload) + ']'
    else:
        text = kind + ('nil' if payload is None else repr(payload)[1:])
    return text if len(text) <= limit else text[:limit] + '… (%d characters)' % len(text)


class Connection:
    """A blocking client. `address` is (host, port), (host, port, ssl.SSLContext) or a path of a unix socket."""

    def __init__(self, address, timeout=120, proto=2):
        self.address = address
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(address)
        else:
            self.sock = socket.create_connection(address[:2], timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(address) > 2:
                self.sock = address[2].wrap_socket(self.sock, server_hostname=address[0])
        self.sock.settimeout(timeout)
        self.reader = Reader()
        if proto == 3:
            self.call('HELLO', 3)

    def send(self, *args):
        self.sock.sendall(encode(args))

    def send_many(self, commands):
        self.sock.sendall(b''.join(encode(args) for args in commands))

    def send_raw(self, data):
        self.sock.sendall(data)

    def read(self, timeout=None):
        """The next reply; raises Closed or socket.timeout."""
        if timeout is not None:
            self.sock.settimeout(timeout)
        while True:
            reply = self.reader.next()
            if reply is not None:
                return reply
            data = self.sock.recv(1 << 16)
            if not data:
                raise Closed(self.reader.rest())
            self.reader.feed(data)

    def call(self, *args):
        self.send(*args)
        return self.read()

    def get(self, *args):
        """call() and value() in one."""
        return value(self.call(*args))

    def pipeline(self, commands):
        self.send_many(commands)
        return [self.read() for _ in commands]

    def read_until_closed(self, timeout):
        """All bytes up to the end of the stream; (bytes, closed?)."""
        data = self.reader.rest()
        self.reader = Reader()
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return data, False
            self.sock.settimeout(left)
            try:
                more = self.sock.recv(1 << 16)
            except (socket.timeout, BlockingIOError):
                return data, False
            except ConnectionError:
                return data, True
            if not more:
                return data, True
            data += more

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
