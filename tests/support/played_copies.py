"""played_copies.py - copies of a shard that a test plays: each says of itself what the test wants, and answers requests with its name.

    with PlayedShard(copies=3) as shard:
        shard.copies[1].says('leader', generation=1, term=5)      # its proxies hear it
        shard.client().get('GET', 'k')                            # b'copy 1'

             proxy ── map: copy 0, copy 1, copy 2 ──► PlayedCopy × 3
"""

import contextlib
import socket
import threading

from support.cluster import Cluster, free_ports
from support.harness import wait_for
from support.other_version import PROTOCOL, self_reply

LEADER_FRAME = b'>1\r\n$12\r\nscree-leader\r\n'
STOPPING_FRAME = b'>1\r\n$14\r\nscree-stopping\r\n'


class PlayedCopy:
    """`requests`: the data commands that came. `is_deaf`: it reads them and does not reply, also not to greetings. `is_late`: it replies to
    them when answer_late is called. `refusal`: the error frame that it replies to data commands; None: none."""

    def __init__(self, name):
        self.name, self.address = name, ('127.0.0.1', free_ports())
        self.fields = {'role': 'replica', 'generation': '0', 'term': '0', 'leader': ''}
        self.zone = ''
        self.requests, self.listeners, self.connections = [], [], set()
        self.is_deaf, self.is_late, self.pushes = False, False, True
        self.refusal = None
        self.late, self.hearers = [], []  # connections, with a request that waits; that sent SCREE STOPS
        self.lock = threading.Lock()
        self.server = None

    def text(self):
        return '%s:%d' % self.address

    def start(self):
        self.server = socket.create_server(self.address)
        threading.Thread(target=self._accept, args=(self.server,), daemon=True).start()

    def kill(self):
        """As kill -9: nothing listens any more, and all connections break."""
        server, self.server = self.server, None
        if server:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def says(self, role, generation=1, term=1, leader=None):
        """What SCREE SELF replies from now on; the leader is a copy, or any address. Connections that have sent SCREE SELF LEADS are told."""
        leader = leader.text() if isinstance(leader, PlayedCopy) else leader or (self.text() if role == 'leader' else '')
        with self.lock:
            self.fields = {'role': role, 'generation': str(generation), 'term': str(term), 'leader': leader}
            for connection in self.listeners if self.pushes else ():
                with contextlib.suppress(OSError):
                    connection.sendall(LEADER_FRAME)

    def stops_leading(self):
        """Tells its proxies to send new requests on new connections, and waits until they have closed those on which nothing is late: each
        worker of a proxy hears it at a time of its own."""
        with self.lock:
            told = set(self.hearers)
            for connection in told:
                with contextlib.suppress(OSError):
                    connection.sendall(STOPPING_FRAME)
        wait_for(lambda: told & self.connections <= set(self.late), 'the proxies to close their connections')

    def answer_late(self):
        with self.lock:
            for connection in self.late:
                with contextlib.suppress(OSError):  # the proxy may have lost patience
                    connection.sendall(self._own_name())
            self.late, self.is_late = [], False

    def _own_name(self):
        return b'$%d\r\n%s\r\n' % (len(self.name), self.name.encode())

    def _accept(self, server):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, ValueError):
            file = connection.makefile('rb')
            while head := file.readline():
                words = [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                self._answer(connection, words)
        self.connections.discard(connection)

    def _answer(self, connection, words):
        is_data = words[0] in (b'GET', b'SET')
        with self.lock:
            if is_data:
                self.requests.append(words)
            if is_data and self.is_late:
                self.late.append(connection)
            if self.is_deaf or (is_data and self.is_late):
                return
            reply = b'+OK\r\n'
            if words[:2] == [b'SCREE', b'SELF']:
                if words[2:] == [b'LEADS'] and connection not in self.listeners:
                    self.listeners.append(connection)
                named = dict({'protocol': PROTOCOL, 'protocol_oldest': PROTOCOL, 'shard': 'a', 'zone': self.zone}, **self.fields)
                reply = self_reply([word for pair in named.items() for word in pair])
            elif words == [b'SCREE', b'STOPS']:
                self.hearers.append(connection)
            elif is_data:
                reply = self.refusal or self._own_name()
            elif words == [b'PING']:
                reply = b'+PONG\r\n'
            connection.sendall(reply)


class PlayedShard(Cluster):
    """A proxy, and a map whose only shard has the copies of a test. Copy 0 leads at first, in generation 1 and term 1."""

    def __init__(self, copies=2, **options):
        self.copies = [PlayedCopy('copy %d' % i) for i in range(copies)]
        self.dropped = []  # copies that the map does not name
        super().__init__(backends=0, slots=['0-16383'], **options)

    def __enter__(self):
        for copy in self.copies:
            copy.start()
            copy.says('replica', leader=self.copies[0])
        self.copies[0].says('leader')
        return super().__enter__()

    def __exit__(self, kind, error, trace):
        result = super().__exit__(kind, error, trace)
        for copy in self.copies:
            copy.kill()
        return result

    def shards_text(self, slots=None):
        self.epoch += 1
        named = [copy.text() for copy in self.copies if copy not in self.dropped]
        return '[map]\nepoch = %d\n[shard a]\nslots = 0-16383\naddress = %s\n' % (self.epoch, ' '.join(named))
