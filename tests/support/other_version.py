"""other_version.py - a listener that answers greetings as a backend of another version does, and no other request.

    proxy or backend ─► SCREE AUTH ─► +OK      SCREE SELF ─► the fields that it was given      SCREE PEER ─► an error
"""

import socket
import threading

PROTOCOL = '2'  # PROXY_PROTOCOL of shared/version.h
PEER_PROTOCOL = '8'  # of backend/peer/frame.h


def self_reply(fields):
    """A reply to SCREE SELF."""
    return b'*%d\r\n' % len(fields) + b''.join(b'$%d\r\n%s\r\n' % (len(field), field.encode()) for field in fields)


THIS_VERSION = self_reply(('protocol', PROTOCOL, 'protocol_oldest', PROTOCOL))  # for shards that a test plays


class OtherVersion:
    def __init__(self, address, fields=(), peer='-ERR unknown'):
        self.replies = {b'AUTH': b'+OK\r\n', b'PEER': peer.encode() + b'\r\n',
                        b'SELF': self_reply(fields)}
        self.requests = []  # what came besides greetings
        self.greetings = 0
        self.listener = socket.create_server(address[:2])

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        return False

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            file = connection.makefile('rb')
            try:
                while self._answer(connection, file):
                    pass
            except OSError:  # the other side has gone
                pass

    def _answer(self, connection, file):
        head = file.readline()
        if not head.startswith(b'*'):
            return False
        words = [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
        is_greeting = words[0] == b'SCREE' and words[1] in self.replies
        if is_greeting:
            self.greetings += 1
        else:
            self.requests.append(words)
        connection.sendall(self.replies[words[1]] if is_greeting else b'-ERR unknown\r\n')
        return True
