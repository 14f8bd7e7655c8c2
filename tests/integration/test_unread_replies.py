#!/usr/bin/python3
"""Clients that send pipelines and transactions of commands with big replies, and read none of them, few, or all, and leave at any moment:
limits end such clients, and nothing else."""

import socket

from support.cluster import Cluster
from support.harness import Suite, check, sized, wait_for
from support.resp import Closed, encode

suite = Suite(__doc__)

BIG = [line.split() for line in """
COMMAND DOCS
COMMAND
COMMAND HELP
CLUSTER SLOTS
ACL CAT
CONFIG GET *
INFO everything
CLIENT LIST
KEYS *
SCAN 0 COUNT 10000
GET big
MGET big big big k1 k2 k3
LRANGE list 0 -1
HGETALL hash
SUNION set other
XRANGE stream - +
XREAD BLOCK 1 STREAMS stream none 0 0
BLPOP none-1 none-2 0.01
DBSIZE
RANDOMKEY
SLOWLOG GET -1
MEMORY STATS
FUNCTION LIST
PUBSUB CHANNELS
WAIT 0 0
PING
""".strip().split('\n')] + [
    ['ECHO', 'x' * 10000], ['PUBLISH', 'channel', 'x' * 5000], ['SPUBLISH', 'channel', 'x' * 5000],
    ['EVAL', "local all = {} for i = 1, 2000 do all[i] = string.rep('x', 200) end return all", '0'],
    ['MSET', *(word for i in range(300) for word in ('new%d' % i, 'v' * 100))], ['DEL', *('new%d' % i for i in range(300))]]
MODES = [line.split() for line in """
SUBSCRIBE channel
PSUBSCRIBE c*
SSUBSCRIBE channel
UNSUBSCRIBE
CLIENT TRACKING ON
CLIENT TRACKING ON BCAST
CLIENT TRACKING ON BCAST NOLOOP PREFIX k
HELLO 3
MONITOR
CLIENT REPLY OFF
CLIENT REPLY SKIP
CLIENT REPLY ON
WATCH k1 k2 k3
SELECT 1
CLIENT NO-EVICT ON
CLIENT PAUSE 50 WRITE
CLIENT KILL TYPE normal SKIPME yes
RESET
QUIT
""".strip().split('\n')]
REQUEST_BYTES = 400000  # of one pipeline or transaction, about


def pipeline(rng):
    """Requests of one client."""
    requests = rng.sample(MODES, rng.randrange(3))
    for _ in range(rng.randrange(1, 6)):
        command, times = rng.choice(BIG), rng.choice((1, 3, 30, 300, 3000))
        some = [command] * min(times, 1 + REQUEST_BYTES // sum(map(len, command)))
        if rng.random() < 0.4:
            some = [rng.choice(BIG) for _ in range(min(times, 60))]
        if rng.random() < 0.5:
            some = [['MULTI'], *some, ['EXEC'] if rng.random() < 0.9 else ['DISCARD']]
        requests += some + rng.sample(MODES, rng.random() < 0.2)
    return b''.join(map(encode, requests))


class Client:
    def __init__(self, rng, address):
        self.rng, self.unsent, self.reads = rng, pipeline(rng), rng.choice((0, 0, 0.1, 0.5, 1))
        self.sock = socket.create_connection(address[:2])
        if rng.random() < 0.5:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.sock.setblocking(False)

    def step(self):
        """Sends and reads some bytes. False: it has left."""
        try:
            if self.unsent:
                self.unsent = self.unsent[self.sock.send(self.unsent[:self.rng.choice((1000, 65536, 1 << 20))]):]
            if self.rng.random() < self.reads:
                self.sock.recv(1 << 20)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return self.rng.random() > 0.03


def prepare(client):
    client.get('SET', 'big', 'x' * 300000)
    client.get('RPUSH', 'list', *['e%d' % i * 20 for i in range(3000)])
    client.get('HSET', 'hash', *range(4000))
    client.get('SADD', 'set', *range(3000))
    client.get('SADD', 'other', *range(5000))
    client.get('MSET', *(word for i in range(3000) for word in ('k%d' % i, 'v')))
    client.pipeline([['XADD', 'stream', '*', 'f', 'v' * 50]] * 300)


@suite.case('clients that do not read what they have asked for: proxy and backends go on')
def _(run):
    rng = run.rng
    limits = {'workers': '2', 'client-output-limit': rng.choice(('1mb', '2mb', '5mb'))}
    with Cluster(backends=2, partitions=2, linked=True, proxy_options={'proxy': limits},
                 backend_options={'backend': {'client-output-limit': '2mb'}}) as cluster:
        with cluster.connect() as client:
            prepare(client)
        addresses = [cluster.proxies[0].address] * 20 + [address for backend in cluster.backends for address in backend.addresses]
        clients = []
        for _ in range(sized(100, long=2000)):
            clients.append(Client(rng, rng.choice(addresses)))
            gone = [client for client in clients if not client.step()] + clients[:-25]
            for client in gone:
                client.sock.close()
            clients = [client for client in clients if client not in gone]
            for process in cluster.proxies + cluster.backends:
                check(process.child.poll() is None, '%s has ended: %s' % (process.name, process.log_tail()))
        for client in clients:
            client.sock.close()

        def is_served():
            """CLIENT KILL of a client that is gone may still end this one."""
            try:
                with cluster.connect() as client:
                    return client.get('GET', 'k1') == b'v'
            except (Closed, OSError):
                return False
        wait_for(is_served, 'a client to be served')


if __name__ == '__main__':
    suite.main()
