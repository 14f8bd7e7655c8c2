"""frame_spoiler.py - a TCP relay in front of a backend that changes the frames which another backend and this one exchange.

    backend ◄──► FrameSpoiler ◄──► backend     `share` of the frames is spoiled; the others pass as they are, and so do those of clients

A spoiled frame (backend/peer/frame.h) has other bytes, is cut or grows, is sent twice, late or never, has another kind, or is the
frame of an earlier request. Its header says how long it is, so the frames behind it stay readable: what is tested is the content.
Each frame is spoiled by random numbers of the seed; threads interleave differently in each run.
"""

import random
import struct
import threading

from support.frame_gate import HEADER_BYTES, FrameGate, Frames, close

HEADER = struct.Struct('<IB3sQQ')
OFTEN = {1: 0.1, 3: 0.3, 6: 0.3, 11: 0.3, 128: 0.3, 129: 0.3}  # of frequent kinds a smaller part, so that transactions and moves reach all steps
REQUESTS, REPLIES = range(1, 24), (128, 129)
OLD_FRAMES = 64
EXTREME = (0, 1, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2)


def with_payload(frame, payload, kind=None):
    _, old_kind, zero, number, hybrid = HEADER.unpack_from(frame)
    return HEADER.pack(len(payload), old_kind if kind is None else kind, zero, number, hybrid) + payload


class Spoiler:
    """Changes frames; remembers some, by kind, to send them again."""

    def __init__(self, seed):
        self.rng, self.old, self.late = random.Random(seed), {}, None

    def _bytes(self, data):
        rng = self.rng
        for _ in range(rng.choice((1, 1, 1, 2, 8))):
            if data:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
        return data

    def _number(self, data):
        size, rng = self.rng.choice((1, 2, 4, 8)), self.rng
        if len(data) >= size:
            at = rng.choice((rng.randrange(len(data) - size + 1), rng.randrange(min(64, len(data) - size + 1))))
            data[at:at + size] = (rng.choice(EXTREME) & (1 << 8 * size) - 1).to_bytes(size, 'little')
        return data

    def _piece(self, data):
        """A piece is left out, doubled or filled."""
        rng, first = self.rng, self.rng.randrange(len(data) + 1)
        last = min(len(data), first + rng.choice((1, 4, 8, 100, len(data))))
        data[first:last] = rng.choice((b'', data[first:last] * 2, bytes([rng.randrange(256)]) * rng.choice((1, 9, 300))))
        return data

    def _payload(self, kind, data):
        what = self.rng.randrange(8)
        if what < 2:
            return self._bytes(data)
        if what < 4:
            return self._number(data)
        if what == 4:
            return data[:self.rng.randrange(len(data) + 1)]
        if what == 5:
            return data + self.rng.randbytes(self.rng.choice((1, 8, 1000, 70000)))
        if what == 6:
            return self._piece(data)
        return bytearray(self.rng.choice(self.old[kind])[HEADER_BYTES:])

    def _kind(self, kind):
        return self.rng.choice(REPLIES if kind in REPLIES else REQUESTS)

    def remember(self, kind, frame):
        old = self.old.setdefault(kind, [])
        if len(old) < OLD_FRAMES:
            old.append(frame)
        else:
            old[self.rng.randrange(OLD_FRAMES)] = frame

    def spoil(self, kind, frame):
        """The frames that are sent in place of this one."""
        what = self.rng.randrange(20)
        if what == 0:
            return [frame, frame]
        if what == 1 and kind in REPLIES and self.rng.random() < 0.2:
            return []
        if what == 2:
            self.late, before = frame, self.late
            return [before] if before else []
        if what == 3:
            return [with_payload(frame, frame[HEADER_BYTES:], self._kind(kind))]
        if what == 4:
            return [frame, with_payload(self.rng.choice(self.old[kind]), self.rng.choice(self.old[kind])[HEADER_BYTES:])]
        return [with_payload(frame, bytes(self._payload(kind, bytearray(frame[HEADER_BYTES:]))))]


def greeting_end(data):
    """Replies to SCREE AUTH, and the identity: (what is incomplete, what is passed on, frames); None: the greeting has ended."""
    at = 0
    while data[at:at + 1] in (b'+', b'-') and b'\r\n' in data[at:]:
        at = data.index(b'\r\n', at) + 2
    if data[at:at + 1] != b'$' or b'\r\n' not in data[at:]:
        return data[at:], data[:at], b''
    line = data.index(b'\r\n', at) + 2
    end = line + int(data[at + 1:line - 2]) + 2
    return (None, data[:end], data[end:]) if len(data) >= end else (data[at:], data[:at], b'')


class FrameSpoiler(FrameGate):
    def __init__(self, upstream, seed=0):
        self.share, self.seed, self.spoiled, self.peers = 0, seed, {}, set()
        self.lock = threading.Lock()
        super().__init__(upstream)

    def _change(self, spoiler, kind, frame):
        spoiler.remember(kind, frame)
        if spoiler.rng.random() >= self.share * OFTEN.get(kind, 1):
            return [frame]
        with self.lock:
            self.spoiled[kind] = self.spoiled.get(kind, 0) + 1
        return spoiler.spoil(kind, frame)

    def _spoiler(self):
        with self.lock:
            self.seed += 1
            return Spoiler(self.seed)

    def _requests(self, client, server):
        spoiler, frames = self._spoiler(), Frames()
        try:
            while data := client.recv(1 << 16):
                for kind, whole in frames.feed(data):
                    if not kind and b'\r\nPEER\r\n' in whole[:64]:
                        self.peers.add(server)
                    for frame in self._change(spoiler, kind, whole) if kind else [whole]:
                        server.sendall(frame)
        except OSError:
            pass
        close(client)
        close(server)

    def _replies(self, client, server):
        spoiler, frames, greeting = self._spoiler(), Frames(), b''
        try:
            while data := server.recv(1 << 16):
                if server not in self.peers:
                    client.sendall(data)
                    continue
                if greeting is not None:
                    greeting, ready, data = greeting_end(greeting + data)
                    client.sendall(ready)
                for _, whole in frames.feed(data):
                    for frame in self._change(spoiler, whole[4], whole):
                        client.sendall(frame)
        except OSError:
            pass
        close(client)
        close(server)
