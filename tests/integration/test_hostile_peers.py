#!/usr/bin/python3
"""Backends with the secret send each other frames that are damaged, cut, too long, repeated, out of order and of other kinds.

A relay in front of each shard (support/frame_spoiler.py) changes a part of the frames of transactions over shards, moves of slots,
restored slots and channels. No program may end or stop serving because of them, and none may change keys of another shard that no
transaction has named.
"""

import random
import threading
import time

from support import harness
from support.cluster import Cluster
from support.frame_spoiler import FrameSpoiler
from support.harness import Suite, check, check_equal, sized
from support.resp import Closed

THIRDS = ['0-5460', '5461-10922', '10923-16383']
MOVED = ['0-2999', '3000-10922', '10923-16383']  # slots 3000-5460 go to the second shard and back
KINDS_MET = 14  # at least so many kinds of frames must have been spoiled


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(6, long=600), help='how long to attack (default %(default)s)')


suite = Suite(__doc__, options)

SCRIPTS = (
    "redis.call('INCR', KEYS[1]) return redis.call('RPUSH', KEYS[2], ARGV[1])",
    "for i, k in ipairs(redis.call('KEYS', 't*')) do redis.call('TYPE', k) end return redis.call('DBSIZE')",
    "redis.call('HSET', KEYS[1] .. 'h', ARGV[1], KEYS[2]) return redis.call('HGETALL', KEYS[2] .. 'h')",
    "return redis.call('SCAN', '0', 'COUNT', 7)",
    "redis.call('ZADD', KEYS[2] .. 'z', 1, ARGV[1]) return redis.call('ZRANK', KEYS[1] .. 'z', ARGV[1])",
    "return redis.call('RANDOMKEY')",
)


def requests(rng):
    """The commands of one client's turn, most with keys of several shards."""
    a, b, c = (b't%d' % rng.randrange(60) for _ in range(3))
    what = rng.randrange(12)
    if what < 4:
        return [('EVAL', rng.choice(SCRIPTS), 2, a, b, b'%d' % rng.randrange(1000))]
    if what == 4:
        return [('WATCH', a, b), ('MULTI',), ('INCR', a), ('APPEND', c, b'x' * rng.randrange(1, 3000)), ('DEL', b), ('EXEC',)]
    if what == 5:
        return [('MULTI',), ('SADD', a + b's', *(b'%d' % n for n in range(rng.randrange(1, 300)))), ('EXPIRE', b, 1), ('GET', c),
                ('XADD', b + b'x', '*', 'f', 'v'), ('EXEC',)]
    if what == 6:
        return [('SUNIONSTORE', a + b's', b + b's', c + b's'), ('PFMERGE', a + b'p', b + b'p'), ('PFADD', b + b'p', a)]
    if what == 7:
        return [('RENAME', a, b), ('COPY', a + b'z', b + b'z'), ('SMOVE', a + b's', b + b's', b'1'), ('LMOVE', a, b, 'LEFT', 'RIGHT')]
    if what == 8:
        return [('PUBLISH', a, b), ('SPUBLISH', a, b)]
    if what == 9:
        return [('MSETNX', a, b'1', b, b'2'), ('SET', c, b'v' * rng.choice((10, 1000, 90000, 1500000)))]
    if what == 10:
        return [('EVAL', "redis.call('APPEND', KEYS[1], redis.call('GET', KEYS[2]) or '') return 1", 2, a, b), ('DEL', a)]
    return [('SORT', a + b's', 'BY', b't*', 'STORE', b), ('ZUNIONSTORE', c + b'z', 2, a + b'z', b + b'z')]


class Hostile(Cluster):
    def __init__(self, seed):
        self.seeds = iter(range(seed, seed + 3000, 1000))
        super().__init__(backends=3, partitions=1, proxies=1, linked=True, slots=list(THIRDS),
                         relay=lambda address: FrameSpoiler(address, next(self.seeds)))
        for backend in self.backends:
            backend.options['backend'].update({'lock-timeout': '300ms', 'transaction-timeout': '600ms', 'peer-timeout': '2s'})

    def set_share(self, share):
        for relay in self.relays.values():
            relay.share = share

    def spoiled(self):
        kinds = {}
        for relay in self.relays.values():
            for kind, count in relay.spoiled.items():
                kinds[kind] = kinds.get(kind, 0) + count
        return kinds


def client(cluster, seed, stop):
    """Sends requests through the proxy, whatever the replies are, until `stop`."""
    rng = random.Random(seed)
    connection = None
    while not stop.is_set():
        try:
            connection = connection or cluster.connect(timeout=4)
            connection.pipeline(requests(rng))
        except (Closed, OSError):
            connection = None


def mover(cluster, stop):
    while not stop.wait(0.7):
        cluster.write_shards(MOVED if cluster.slots == THIRDS else list(THIRDS))


def attack(cluster, seed, seconds, share):
    stop = threading.Event()
    jobs = [threading.Thread(target=client, args=(cluster, seed + n, stop), daemon=True) for n in range(16)]
    jobs.append(threading.Thread(target=mover, args=(cluster, stop), daemon=True))
    for job in jobs:
        job.start()
    cluster.set_share(share)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.2)
        for backend in cluster.backends:
            check(backend.alive(), '%s ended: %s' % (backend.name, backend.log_tail()))
    cluster.set_share(0)
    stop.set()
    for job in jobs:
        job.join(harness.patience())
        check(not job.is_alive(), 'every client came to an end')


def write_canaries(cluster):
    """Keys of the third shard, of which no slot moves, and which no request names: {key: value}."""
    keys = {cluster.key_on(2, 'canary%d' % number): b'canary-%d' % number for number in range(20)}
    with cluster.partition(2) as partition:
        check_equal(partition.pipeline([('SET', key, text) for key, text in keys.items()]), [('+', b'OK')] * len(keys))
    return keys


def check_shard(cluster, shard, canaries):
    """It runs, serves, and has what no frame has named."""
    backend = cluster.backends[shard]
    check(backend.alive(), '%s ended: %s' % (backend.name, backend.log_tail()))
    with cluster.partition(shard) as partition:
        check_equal(partition.get('PING'), b'PONG')
        for key, text in canaries.items() if shard == 2 else ():
            check_equal(partition.get('GET', key), text)


@suite.case('frames of a peer that are damaged, out of order or of other kinds end no program')
def _(run):
    with Hostile(run.seed) as cluster:
        canaries = write_canaries(cluster)
        attack(cluster, run.seed, run.options.seconds, 0.25)
        spoiled = cluster.spoiled()
        run.note('spoiled frames by kind: %s' % dict(sorted(spoiled.items())))
        check(len(spoiled) >= KINDS_MET, 'only these kinds of frames were spoiled: %r' % spoiled)
        for shard, backend in enumerate(cluster.backends):
            check_shard(cluster, shard, canaries)
            backend.kill9()
            backend.start()  # it reads what the hostile frames have left
            check_shard(cluster, shard, canaries)


if __name__ == '__main__':
    suite.main()
