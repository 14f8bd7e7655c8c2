#!/usr/bin/python3
"""bench_long.py - the latency that long commands of one client add for other clients.

      prober, a process of its own: GET after GET ──► proxy ──► one partition ◄── KEYS, HGETALL … of another client

Prints the GETs' latency alone and during each long command. The first line shows the disturbance by the machine's other
load; the difference to it is the effect of a long command.
"""

import multiprocessing
import time

from support.cluster import Cluster
from support.harness import Suite, check
from support.resp import Connection

BATCH = 1000


def options(parser):
    parser.add_argument('--elements', type=int, default=200000, help='in each collection, and keys')
    parser.add_argument('--limit', type=float, default=0, help='fail when the p99 grows by more ms (default: only print)')
    parser.add_argument('--direct', action='store_true', help='without the proxy')


suite = Suite(__doc__, options)


def probe(address, stop, pipe):
    """Latencies in seconds of successive GETs until the parent stops them."""
    took = []
    with Connection(address, 60) as connection:
        while not stop.is_set():
            begun = time.perf_counter()
            connection.get('GET', 'hot')
            took.append(time.perf_counter() - begun)
            time.sleep(0.0005)
    pipe.send(sorted(took))


def probed(address, work):
    """p50, p99 and maximum in ms, and the number of GETs, while `work` runs."""
    stop, (here, there) = multiprocessing.Event(), multiprocessing.Pipe()
    prober = multiprocessing.Process(target=probe, args=(address, stop, there))
    prober.start()
    time.sleep(0.3)  # until its connection is open and the code is warm
    work()
    stop.set()
    took = here.recv()
    prober.join()
    return [took[int(len(took) * part)] * 1e3 for part in (0.5, 0.99)] + [took[-1] * 1e3, len(took)]


def drain(address, words, end):
    """Sends the command and a PING, and reads and drops everything up to the PING's reply."""
    with Connection(address, 600) as connection:
        connection.send(*words)
        connection.send('PING')
        tail = b''
        total = 0
        while not tail.endswith(end):
            data = connection.sock.recv(1 << 20)
            check(data, 'the connection was closed')
            total += len(data)
            tail = (tail + data)[-len(end):]
        return total


def fill(address, count):
    with Connection(address, 600) as connection:
        connection.call('SET', 'hot', 'v' * 64)
        for start in range(0, count, BATCH * 10):
            batches = [range(i, min(i + BATCH, count)) for i in range(start, min(start + BATCH * 10, count), BATCH)]
            connection.pipeline(
                [['HSET', 'hash'] + [w for i in part for w in ('f%08d' % i, 'value %08d' % i)] for part in batches] +
                [['ZADD', 'zset'] + [w for i in part for w in (str(i), 'member %08d' % i)] for part in batches] +
                [['MSET'] + [w for i in part for w in ('key:%08d' % i, 'v')] for part in batches])


@suite.case('GETs while another client runs long commands')
def _(run):
    count = run.options.elements
    with Cluster(backends=1, partitions=1, proxies=1, backend_options={'backend': {'durability': 'os'}}) as cluster:
        address = cluster.backends[0].addresses[0] if run.options.direct else cluster.proxies[0].address
        fill(address, count)
        alone = probed(address, lambda: time.sleep(3))
        run.note('%-22s p50 %6.2f  p99 %6.2f  worst %6.2f ms of %5d GETs' % tuple(['alone'] + alone))
        for words in (['KEYS', '*'], ['KEYS', 'nothing*'], ['HGETALL', 'hash'], ['ZRANGE', 'zset', '0', '-1'],
                      ['ZRANGEBYSCORE', 'zset', '-inf', '+inf']):
            begun = time.monotonic()
            beside = probed(address, lambda: drain(address, words, b'+PONG\r\n'))
            run.note('%-22s p50 %6.2f  p99 %6.2f  worst %6.2f ms of %5d GETs in %.1f s' % tuple(
                [' '.join(words)[:22]] + beside + [time.monotonic() - begun]))
            check(not run.options.limit or beside[1] - alone[1] < run.options.limit, 'the p99 grew too much')


if __name__ == '__main__':
    suite.main()
