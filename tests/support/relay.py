"""relay.py - a TCP relay that delays every piece of every connection by a random time; order stays.

As a program: python3 -m support.relay PORT HOST PORT MIN_MS MAX_MS SEED. As a class: a process of its own, so that its work does not
share the interpreter with the test's clients.
"""

import asyncio
import random
import subprocess
import sys

from support import TESTS
from support.cluster import free_ports, listens
from support.harness import wait_for


class DelayRelay:
    def __init__(self, upstream, low_ms=0, high_ms=20, seed=0):
        self.port = free_ports()
        self.address = ('127.0.0.1', self.port)
        words = [self.port, upstream[0], upstream[1], low_ms, high_ms, seed]
        self.child = subprocess.Popen([sys.executable, '-m', __name__] + [str(word) for word in words], cwd=TESTS)
        wait_for(lambda: listens(self.child.pid, self.port), 'the relay to listen')

    def stop(self):
        self.child.kill()
        self.child.wait()


async def pump(reader, writer, rng, low, high):
    """Pieces leave in order, each when its own delay is over."""
    queue = asyncio.Queue()

    async def deliver():
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0, due - asyncio.get_running_loop().time()))
            if data is None:
                writer.close()
                return
            writer.write(data)
            await writer.drain()
    sender = asyncio.ensure_future(deliver())
    try:
        while True:
            data = await reader.read(1 << 16)
            delay = rng.uniform(low, high) / 1000 if rng.random() < 0.5 else 0
            queue.put_nowait((asyncio.get_running_loop().time() + delay, data or None))
            if not data:
                break
        await sender
    except (OSError, asyncio.CancelledError):
        sender.cancel()
        writer.close()


async def serve(port, host, upstream_port, low, high, seed):
    rng = random.Random(seed)

    async def accept(reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection(host, upstream_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, up_writer, rng, low, high), pump(up_reader, writer, rng, low, high),
                             return_exceptions=True)
    server = await asyncio.start_server(accept, '127.0.0.1', port)
    await server.serve_forever()


if __name__ == '__main__':
    numbers = [int(word) for word in (sys.argv[1], sys.argv[3], sys.argv[6])]
    asyncio.run(serve(numbers[0], sys.argv[2], numbers[1], float(sys.argv[4]), float(sys.argv[5]), numbers[2]))
