"""across.py - relays in front of shards that answer SCREE ACROSS themselves, for tests of the proxy.

    client ─► proxy ─► AcrossShard ─► shard          every other request gets the shard's own reply

    shards = AcrossShards()
    with Cluster(relay=shards, …) as cluster:        shards.seen: the requests with SCREE ACROSS, as Seen
        with shards.holding(): …                     until the block ends, or release(n), they get no reply

A relay handles one request of a connection after the other, as a shard does with a suspended connection. Connections that
receive push messages do not work through it.
"""

import contextlib
import socket
import threading

from support.harness import check, patience
from support.resp import BULK_KINDS, LIST_KINDS, Reader, encode

CLOSE = object()  # an answer: the connection is closed instead


class Seen:
    def __init__(self, shard, connection, words, before):
        self.shard, self.connection, self.words, self.before = shard, connection, words, before

    def __repr__(self):
        return '%d/%d %r' % (self.shard, self.connection, self.words)


class AcrossShards:
    """`answer(words)` returns the bytes of the reply to a request; `words` are those after SCREE ACROSS."""

    def __init__(self, answer=lambda words: b'+across\r\n'):
        self.answer = answer
        self.seen = []
        self.relays = []
        self.connections = 0
        self.is_holding = False
        self.permits = 0
        self.changed = threading.Condition()

    def __call__(self, address):
        self.relays.append(AcrossShard(self, len(self.relays), address))
        return self.relays[-1]

    @contextlib.contextmanager
    def holding(self):
        self.is_holding, self.permits = True, 0
        try:
            yield
        finally:
            with self.changed:
                self.is_holding = False
                self.changed.notify_all()

    def release(self, count=1):
        with self.changed:
            self.permits += count
            self.changed.notify_all()

    def note(self, seen):
        """Records the request, and waits while it is held."""
        with self.changed:
            self.seen.append(seen)
            self.changed.notify_all()
            ok = self.changed.wait_for(lambda: not self.is_holding or self.permits > 0, patience())
            check(ok, 'a request was held for too long')
            self.permits -= self.is_holding

    def wait_seen(self, count):
        with self.changed:
            ok = self.changed.wait_for(lambda: len(self.seen) >= count, patience())
            check(ok, 'waited in vain for request %d: %r' % (count, self.seen))
            return self.seen[count - 1]

    def next_connection(self):
        with self.changed:
            self.connections += 1
            return self.connections


class AcrossShard:
    def __init__(self, shards, index, upstream):
        self.shards, self.index, self.upstream = shards, index, upstream
        self.server = socket.create_server(('127.0.0.1', 0), backlog=200)
        self.address = self.server.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def stop(self):
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client, self.shards.next_connection()), daemon=True).start()

    def serve(self, client, connection):
        with contextlib.suppress(OSError, StopIteration), client, socket.create_connection(self.upstream[:2]) as shard:
            requests, before = frames(client), []
            replies = frames(shard)
            for _, words in requests:
                words = [word for _, word in words]
                across = across_words(words)
                if across is None:
                    before.append(words)
                    shard.sendall(encode(words))
                    client.sendall(encode_frame(next(replies)))
                    continue
                self.shards.note(Seen(self.index, connection, words, before))
                before = []
                if across[0] == b'EXEC':  # the queue is the shard's
                    shard.sendall(encode(['DISCARD']))
                    next(replies)
                answer = self.shards.answer(across)
                if answer is CLOSE:
                    return
                client.sendall(answer)


def across_words(words):
    """The words after the prefixes of the command, one of which is SCREE ACROSS; None: it has no such prefix."""
    is_across = False
    while words[0] == b'SCREE' and words[1] in (b'ACROSS', b'AS', b'PART', b'SHOW'):
        is_across |= words[1] == b'ACROSS'
        words = words[4 if words[1] == b'AS' else 2:]
    return words if is_across else None


def frames(stream):
    """The frames that arrive, until the end of the stream."""
    reader = Reader()
    while True:
        frame = reader.next()
        if frame is not None:
            yield frame
            continue
        data = stream.recv(1 << 16)
        if not data:
            return
        reader.feed(data)


def encode_frame(frame):
    kind, payload = frame
    head = kind.encode()
    if payload is None:
        return head + b'-1\r\n'
    if head in LIST_KINDS:
        count = len(payload) // (2 if kind == '%' else 1)
        return head + b'%d\r\n' % count + b''.join(map(encode_frame, payload))
    if head in BULK_KINDS:
        return head + b'%d\r\n%s\r\n' % (len(payload), payload)
    return head + payload + b'\r\n'
