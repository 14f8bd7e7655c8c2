"""relay.py - a TCP relay that delays, changes and damages the traffic; a process of its own.

    client ◄──── Relay ◄──── server        the client may be a proxy, the server its backend

`delay_ms` (low, high): a random half of the chunks (`late_share`) is sent later by such a time; their order stays.
`change` (old, new): replaces bytes in what the client sends.
`hold_after_bytes`: a connection whose client has sent so many bytes is on hold until heal; others pass.
   `arm` begins to count again.
spoil(what, share) affects the open connections, or a random share of them; later ones work normally:

  slow      every chunk is late and in small pieces  reset     both sides get a RST
  cut       half of the next reply, then closed      end       the client sees an end of the stream between replies
  garbage   invalid bytes after the next reply       shut      the server sees the end of the stream
  mute      further bytes are lost                   hold      further bytes are passed on after heal
  heal      ends slow, hold, and what has met no bytes so far

After heal a connection that was idle works normally too: else a client could meet the damage long after the fault. A
connection that has lost bytes stays mute until one side closes it; count_damaged() tells how many are left.

It is a process of its own, so that its work does not compete with the test's clients for the interpreter: python3 -m
support.relay SETTINGS (JSON). It reads `WORD SHARE` per line on stdin, and replies to each with a line.
"""

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import subprocess
import sys

from support import TESTS
from support.cluster import free_ports, listens
from support.harness import wait_for
from support.resp import Reader

NO_RESP = (b'HTTP/1.1 400 Bad Request\r\n\r\n', b'\x00\xff\x00\xff', b'$-7\r\n', b'*x\r\n', b':12\n', b'$3\r\nabcde\r\n',
           b'*99999999999999999999\r\n', b'\r\n', b'%-1\r\n', b'SELECT 0\r\n')
LONGEST_CRUMB_DELAY_S = 0.03
PIECE = 1 << 16
PIECES_LATE_MAX = 1024


class Relay:
    def __init__(self, upstream, seed=0, delay_ms=(0, 0), change=(b'', b''), is_opaque=False,
                 late_share=0.5, hold_after_bytes=0):
        """`is_opaque`: not only RESP, or encrypted: no reply is looked for, so `cut`, `garbage` and `end` are not available."""
        self.port = free_ports()
        self.address = ('127.0.0.1', self.port)
        settings = {'port': self.port, 'upstream': upstream[:2], 'seed': seed, 'delay_ms': delay_ms, 'late_share': late_share, 'hold_after_bytes': hold_after_bytes,
                    'change': [part.decode('latin-1') for part in change], 'is_opaque': is_opaque}
        self.child = subprocess.Popen([sys.executable, '-m', __name__, json.dumps(settings)], cwd=TESTS,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_for(lambda: listens(self.child.pid, self.port), 'the relay to listen')

    def spoil(self, what, share=1):
        """Returns the number of affected connections, after all of them are affected."""
        self.child.stdin.write(b'%s %f\n' % (what.encode(), share))
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def count_damaged(self):
        return self.spoil('count')

    def count_held(self):
        return self.spoil('held')

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


# ---- the process -------------------------------------------------------------------------------------------------

class Link:
    """A connection of the client and the one to the server that belongs to it."""

    def __init__(self, settings, rng, client, server):
        self.rng, self.client, self.server = rng, client, server
        self.delay_ms, self.late_share = settings['delay_ms'], settings['late_share']
        self.old, self.new = (part.encode('latin-1') for part in settings['change'])
        self.limit = self.hold_after_bytes = settings['hold_after_bytes']
        self.sent_bytes = 0
        self.trap = None  # the damage that the next reply gets
        self.is_slow = self.is_mute = self.has_lost = False
        self.passing = asyncio.Event()  # not set: on hold
        self.passing.set()
        self.replies = None if settings['is_opaque'] else Reader()  # parses the stream to find the ends of replies

    def close(self, has_reset=False):
        for _, writer in (self.client, self.server):
            if has_reset:
                writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            writer.transport.abort() if has_reset else writer.close()

    def spoil(self, what):
        if what == 'reset':
            self.close(has_reset=True)
        elif what == 'shut':
            self.server[1].write_eof()
        elif what == 'slow':
            self.is_slow = True
        elif what == 'heal':
            self.is_slow, self.trap, self.hold_after_bytes = False, None, 0
            self.is_mute = self.is_mute and self.has_lost
            self.passing.set()
        elif what == 'mute':
            self.is_mute = True
        elif what == 'hold':
            self.passing.clear()
        elif what == 'arm':
            self.sent_bytes, self.hold_after_bytes = 0, self.limit
        else:
            self.trap = what

    async def pieces(self, reader):
        """What arrives up to the end, each piece when its delay is over."""
        late = asyncio.Queue(PIECES_LATE_MAX)
        clock = asyncio.get_running_loop().time

        async def receive():
            data = b'all'
            while data:
                try:
                    data = await reader.read(PIECE)
                except OSError:
                    data = b''
                delay = self.rng.uniform(*self.delay_ms) / 1000 if self.rng.random() < self.late_share else 0
                await late.put((clock() + delay, data))
        receiving = asyncio.ensure_future(receive())
        try:
            while True:
                due, data = await late.get()
                await asyncio.sleep(max(0, due - clock()))
                if not data:
                    return
                yield data
        finally:
            receiving.cancel()

    async def give(self, writer, data):
        await self.passing.wait()
        if self.is_mute:
            self.has_lost = True
            return
        while self.is_slow and data:
            await asyncio.sleep(self.rng.random() * LONGEST_CRUMB_DELAY_S)
            size = self.rng.choice([1, 10, 1000])
            writer.write(data[:size])
            data = data[size:]
            if len(data) > 20000:
                break
        writer.write(data)
        await writer.drain()

    async def requests(self):
        async for data in self.pieces(self.client[0]):
            self.sent_bytes += len(data)
            if 0 < self.hold_after_bytes < self.sent_bytes:
                self.passing.clear()
            await self.give(self.server[1], data.replace(self.old, self.new) if self.old else data)

    def is_edge(self, data):
        """Does a reply end with the last of these bytes of the server?"""
        if not self.replies:
            return False
        self.replies.feed(data)
        while self.replies.next():
            pass
        return not self.replies.rest() and not self.replies.open_lists

    async def answers(self):
        async for data in self.pieces(self.server[0]):
            is_edge = self.is_edge(data)
            if self.trap == 'cut' and len(data) > 1:
                await self.give(self.client[1], data[:self.rng.randrange(1, len(data))])
                break
            await self.give(self.client[1], data)
            if self.trap == 'garbage' and is_edge:
                await self.give(self.client[1], self.rng.choice(NO_RESP))
                self.is_mute = self.has_lost = True
            if self.trap == 'end' and is_edge:
                self.client[1].write_eof()
                self.is_mute = self.has_lost = True

    async def run(self):
        halves = [asyncio.ensure_future(self.requests()), asyncio.ensure_future(self.answers())]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            self.close()


def obey(links, rng):
    """Applies the word read from stdin to connections."""
    line = sys.stdin.buffer.raw.readline().decode()
    if not line:
        os._exit(0)
    what, share = line.split()
    if what == 'count':
        affected = [link for link in links if link.has_lost]
    elif what == 'held':
        affected = [link for link in links if not link.passing.is_set()]
    else:
        affected = [link for link in links if rng.random() < float(share)]
        for link in affected:
            with contextlib.suppress(OSError):  # the connection is closed already
                link.spoil(what)
    os.write(1, b'%d\n' % len(affected))


async def serve(settings):
    rng, links = random.Random(settings['seed']), set()

    async def accept(*client):
        try:
            server = await asyncio.open_connection(*settings['upstream'])
        except OSError:
            client[1].close()
            return
        link = Link(settings, rng, client, server)
        links.add(link)
        try:
            await link.run()
        finally:
            links.discard(link)
    asyncio.get_running_loop().add_reader(0, obey, links, rng)
    server = await asyncio.start_server(accept, '127.0.0.1', settings['port'])
    await server.serve_forever()


if __name__ == '__main__':
    asyncio.run(serve(json.loads(sys.argv[1])))
