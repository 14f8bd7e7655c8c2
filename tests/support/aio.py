"""aio.py - many clients in one thread: an asyncio connection, and clients that compare every reply with a model."""

import asyncio
import threading
import time

from support.harness import patience
from support.model import encode_all
from support.resp import Closed, Reader, value


class AsyncConnection:
    @classmethod
    async def open(cls, address):
        self = cls()
        if isinstance(address, str):
            self.reader, self.writer = await asyncio.open_unix_connection(address)
        else:
            tls = address[2] if len(address) > 2 else None
            self.reader, self.writer = await asyncio.open_connection(address[0], address[1], ssl=tls)
        self.parser = Reader()
        return self

    async def read(self):
        while True:
            reply = self.parser.next()
            if reply is not None:
                return reply
            data = await self.reader.read(1 << 16)
            if not data:
                raise Closed(self.parser.rest())
            self.parser.feed(data)

    async def call(self, *args):
        self.writer.write(encode_all([(args, None)]))
        return await self.read()

    def close(self):
        self.writer.close()


class Mismatch(Exception):
    """A reply that does not belong to its request."""


async def play(connection, commands, rng=None):
    """Sends one pipeline (with `rng`: in random pieces) and checks every reply."""
    data = encode_all(commands)
    sender = asyncio.ensure_future(send_pieces(connection.writer, data, rng))
    try:
        for position, (args, want) in enumerate(commands):
            got = value(await connection.read())
            if got != want:
                raise Mismatch('command %d of %d, %r: got %r, want %r'
                               % (position + 1, len(commands), args[:3], shorten(got), shorten(want)))
    finally:
        await sender


def shorten(thing):
    text = repr(thing)
    return text if len(text) < 300 else text[:300] + '…'


async def send_pieces(writer, data, rng):
    if rng is None or rng.random() < 0.7:
        writer.write(data)
        return
    at = 0
    while at < len(data):
        size = rng.choice([1, 7, 100, 1000, 20000])
        writer.write(data[at:at + size])
        at += size
        await asyncio.sleep(0)


class Crowd:
    """`count` clients with OwnKeys models; they run until stop(), or for `pipelines` pipelines each."""

    def __init__(self, addresses, models, longest=40):
        self.addresses, self.models, self.longest = addresses, models, longest
        self.stopping = False
        self.failures, self.commands, self.slowest = [], 0, 0.0

    def stop(self):
        self.stopping = True

    async def run_client(self, index, pipelines):
        model = self.models[index]
        try:
            connection = await AsyncConnection.open(self.addresses[index % len(self.addresses)])
            done = 0
            while not self.stopping and (pipelines is None or done < pipelines):
                commands = model.pipeline(self.longest)
                started = time.monotonic()
                await play(connection, commands, model.rng)
                self.slowest = max(self.slowest, time.monotonic() - started)
                self.commands += len(commands)
                done += 1
            connection.close()
        except (Mismatch, Closed, OSError) as error:
            self.failures.append('%s: %s: %s' % (model.name, type(error).__name__, error))

    async def run(self, pipelines=None):
        await asyncio.gather(*(self.run_client(index, pipelines) for index in range(len(self.models))))


class BackgroundCrowd:
    """A Crowd in a thread of its own, which runs while the test stops or restarts servers.

    with BackgroundCrowd(addresses, models) as crowd:
        …
    crowd.failures"""

    def __init__(self, addresses, models, longest=30):
        self.crowd = Crowd(addresses, models, longest)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.crowd.run()), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self.crowd

    def __exit__(self, *_):
        self.crowd.stop()
        self.thread.join(patience())
        if self.thread.is_alive():
            self.crowd.failures.append('some clients still wait for replies')
        return False
