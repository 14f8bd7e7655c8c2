"""middleman.py - a TCP relay that spoils connections when it is told to; a process of its own.

    proxy ◄──── Middleman ◄──── backend        spoil(what) concerns the connections there are; later ones are honest

  slow      every piece is late and in crumbs        reset     both sides get a RST
  cut       half of the next reply, then closed      end       the proxy sees the end of the stream, at a reply's edge
  garbage   no RESP behind the next whole reply      shut      the backend sees the end of the stream
  mute      nothing is passed on any more            heal      ends slow

As a program: python3 -m support.middleman PORT HOST PORT SEED; one word a line on stdin, each answered with a line.
"""

import asyncio
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
LONGEST_DELAY_S = 0.03


class Middleman:
    def __init__(self, upstream, seed=0):
        self.port = free_ports()
        self.address = ('127.0.0.1', self.port)
        words = [self.port, upstream[0], upstream[1], seed]
        self.child = subprocess.Popen([sys.executable, '-m', __name__] + [str(word) for word in words], cwd=TESTS,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_for(lambda: listens(self.child.pid, self.port), 'the middleman to listen')

    def spoil(self, what):
        """Returns when it is in force; how many connections there were."""
        self.child.stdin.write(what.encode() + b'\n')
        self.child.stdin.flush()
        return int(self.child.stdout.readline())

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


class Link:
    """One connection of the proxy and its twin to the backend."""

    def __init__(self, rng, proxy, backend):
        self.rng, self.proxy, self.backend = rng, proxy, backend
        self.trap = None  # what happens at the next reply
        self.is_slow = self.is_mute = False
        self.replies = Reader()  # fed to know where replies end

    def close(self, has_reset=False):
        for _, writer in (self.proxy, self.backend):
            if has_reset:
                writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            writer.transport.abort() if has_reset else writer.close()

    def spoil(self, what):
        if what == 'reset':
            self.close(has_reset=True)
        elif what == 'shut':
            self.backend[1].write_eof()
        elif what in ('slow', 'heal'):
            self.is_slow = what == 'slow'
        elif what == 'mute':
            self.is_mute = True
        else:
            self.trap = what

    async def give(self, writer, data):
        if self.is_mute:
            return
        while self.is_slow and data:
            await asyncio.sleep(self.rng.random() * LONGEST_DELAY_S)
            size = self.rng.choice([1, 10, 1000])
            writer.write(data[:size])
            data = data[size:]
            if len(data) > 20000:
                break
        writer.write(data)
        await writer.drain()

    async def requests(self):
        while True:
            data = await self.proxy[0].read(1 << 16)
            if not data:
                break
            await self.give(self.backend[1], data)

    async def answers(self):
        while True:
            data = await self.backend[0].read(1 << 16)
            if not data:
                break
            self.replies.feed(data)
            while self.replies.next():
                pass
            is_edge = not self.replies.rest() and not self.replies.open_lists
            if self.trap == 'cut' and len(data) > 1:
                await self.give(self.proxy[1], data[:self.rng.randrange(1, len(data))])
                break
            await self.give(self.proxy[1], data)
            if self.trap == 'garbage' and is_edge:
                await self.give(self.proxy[1], self.rng.choice(NO_RESP))
                self.is_mute = True
            if self.trap == 'end' and is_edge:
                self.proxy[1].write_eof()
                self.is_mute = True

    async def run(self):
        halves = [asyncio.ensure_future(self.requests()), asyncio.ensure_future(self.answers())]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            self.close()


async def serve(port, host, upstream_port, seed):
    rng, links = random.Random(seed), set()

    async def accept(*proxy):
        try:
            backend = await asyncio.open_connection(host, upstream_port)
        except OSError:
            proxy[1].close()
            return
        link = Link(rng, proxy, backend)
        links.add(link)
        try:
            await link.run()
        finally:
            links.discard(link)

    def order():
        what = sys.stdin.buffer.raw.readline().strip().decode()
        if not what:
            os._exit(0)
        count = len(links)
        for link in list(links):
            try:
                link.spoil(what)
            except OSError:
                pass  # it is gone already
        os.write(1, b'%d\n' % count)
    asyncio.get_running_loop().add_reader(0, order)
    server = await asyncio.start_server(accept, '127.0.0.1', port)
    await server.serve_forever()


if __name__ == '__main__':
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
