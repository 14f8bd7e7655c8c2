"""frame_gate.py - a TCP relay in front of a backend that holds what another backend sends at a chosen kind of request.

    source ──► FrameGate ──► target         arm('before', KIND): the request does not reach the target
                                            arm('after', KIND): it does, and its reply does not reach the source

From that request on nothing passes in either direction on any connection, and new ones are closed, until open(). The bytes are
those of backend/peer/frame.h: a greeting as of a client, then frames.
"""

import socket
import struct
import threading

from support.cluster import free_ports

PREPARE, APPLY = 4, 5
MOVE_BEGIN, MOVE_ROWS, MOVE_END, MOVE_ACTIVATE = 12, 13, 14, 15
HEADER_BYTES = 24


class Frames:
    """Divides the bytes of a connection into the greeting's commands and frames."""

    def __init__(self):
        self.data = b''

    def _command_end(self):
        """The length of the RESP command at the front; 0: incomplete."""
        lines, at = int(self.data[1:self.data.find(b'\r\n')]) if b'\r\n' in self.data else 0, self.data.find(b'\r\n') + 2
        for _ in range(lines):
            end = self.data.find(b'\r\n', at)
            if end < 0:
                return 0
            at = end + 2 + int(self.data[at + 1:end]) + 2
        return at if lines and at <= len(self.data) else 0

    def feed(self, data):
        """Yields (kind, bytes) of what is complete; the kind of a command is 0."""
        self.data += data
        while self.data:
            kind, size = 0, 0
            if self.data[:1] == b'*':
                size = self._command_end()
            elif len(self.data) >= HEADER_BYTES:
                length, kind = struct.unpack_from('<IB', self.data)
                size = HEADER_BYTES + length
            if not size or size > len(self.data):
                return
            whole, self.data = self.data[:size], self.data[size:]
            yield kind, whole


class FrameGate:
    def __init__(self, upstream):
        self.upstream, self.port = upstream[:2], free_ports()
        self.address = ('127.0.0.1', self.port)
        self.mode = self.kind = None
        self.is_shut, self.reached = False, threading.Event()
        self.sockets = []
        self.sizes = []  # of the MOVE_BEGIN requests
        self.listener = socket.create_server(self.address)
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, mode, kind):
        self.reached.clear()
        self.mode, self.kind = mode, kind

    def open(self):
        self.mode, self.is_shut = None, False
        for one in self.sockets:
            close(one)
        self.sockets = []

    def stop(self):
        self.is_shut = True
        close(self.listener)
        for one in self.sockets:
            close(one)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = None if self.is_shut else socket.create_connection(self.upstream)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                close(client)
                continue
            if not server:
                close(client)
                continue
            self.sockets += [client, server]
            for pump in (self._requests, self._replies):
                threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _requests(self, client, server):
        frames = Frames()
        try:
            while data := client.recv(1 << 16):
                for kind, whole in frames.feed(data):
                    if kind == MOVE_BEGIN:
                        self.sizes.append(len(whole))
                    is_it = self.mode and kind == self.kind and not self.is_shut
                    if is_it and self.mode == 'before':
                        self.is_shut = True
                    if not self.is_shut:
                        if is_it:  # no reply may pass
                            self.is_shut = True
                        server.sendall(whole)
                    if is_it:
                        self.reached.set()
        except OSError:
            pass
        close(client)
        close(server)

    def _replies(self, client, server):
        try:
            while data := server.recv(1 << 16):
                if not self.is_shut:
                    client.sendall(data)
        except OSError:
            pass
        close(client)
        close(server)


def close(one):
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
