#!/usr/bin/python3
"""redis_server_stand_in.py - where a suite starts redis-server: `redis_server_stand_in.py CONFIG` is an empty server at SUITE_ADDRESS.

    client ─► port or unixsocket of CONFIG ─► SUITE_ADDRESS, with the timeout of CONFIG and without keys

SIGTERM and SHUTDOWN end it and all its connections, as they end redis-server; what is at SUITE_ADDRESS stays.
"""

import asyncio
import contextlib
import os
import sys

from support.resp import Connection

HOST, _, PORT = os.environ['SUITE_ADDRESS'].rpartition(':')


def options(path):
    with open(path) as file:
        return dict(words for words in (line.split() for line in file) if len(words) == 2)


def pass_no_shutdown(data):
    if data.upper().startswith(b'*1\r\n$8\r\nSHUTDOWN\r\n'):
        os._exit(0)


async def pass_on(reader, writer, look=bytes):
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            look(data)
            writer.write(data)
            await writer.drain()
    writer.close()


async def connect(reader, writer):
    upstream_reader, upstream_writer = await asyncio.open_connection(HOST, int(PORT))
    await asyncio.gather(pass_on(reader, upstream_writer, pass_no_shutdown), pass_on(upstream_reader, writer))


async def serve(given):
    os.unlink(given['unixsocket'])
    await asyncio.start_unix_server(connect, given['unixsocket'])
    await (await asyncio.start_server(connect, '127.0.0.1', int(given['port']))).serve_forever()


if __name__ == '__main__':
    config = options(sys.argv[1])
    with Connection((HOST, int(PORT))) as connection:
        connection.call('FLUSHALL')
        connection.call('CONFIG', 'SET', 'timeout', config['timeout'])
    asyncio.run(serve(config))
