#!/usr/bin/python3
"""A proxy whose shard map names the wrong owners follows bounces: each request runs once, in order, at the owner."""

import contextlib
import itertools
import os
import random
import re
import socket
import socketserver
import threading

from support.cluster import SLOTS, Cluster, metric, slot_of, with_option
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Reader, encode, value

suite = Suite(__doc__)


def interleaved(shards, shift=0):
    """Blocks of 16 slots have other owners than their neighbours, so that a bounce teaches a proxy only such a block."""
    blocks = ['%d-%d' % (first, first + 15) for first in range(0, SLOTS, 16)]
    mine = [[block for number, block in enumerate(blocks) if (number + shift) % shards == shard] for shard in range(shards)]
    return ['\n    '.join(' '.join(part[i:i + 12]) for i in range(0, len(part), 12)) for part in mine]


def lie(cluster, index, slots, names=None):
    """Restarts the proxy with a shard map of its own."""
    proxy = cluster.proxies[index]
    path = os.path.join(cluster.folder, 'map-%d.ini' % index)
    write_map(cluster, path, slots, names)
    proxy.options = with_option(proxy.options, 'proxy', 'shards', path)
    proxy.stop()
    cluster.start_retrying(proxy)
    return path


def write_map(cluster, path, slots, names=None):
    """A map with these slots for the shards of these names (others are left out)."""
    cluster.epoch += 1
    lines = ['[map]', 'epoch = %d' % cluster.epoch]
    shards = {name: address for name, address, _ in cluster.shard_addresses()}
    for name, ranges in zip(names or shards, slots):
        lines += ['[shard %s]' % name, 'slots = %s' % ranges, 'address = %s:%d' % shards[name]]
    with open(path + '.new', 'w') as file:
        file.write('\n'.join(lines) + '\n')
    os.rename(path + '.new', path)


def bounces(cluster, proxy=0):
    return metric(cluster.proxies[proxy].http('/metrics')[1], 'scree_proxy_bounces_total')


@contextlib.contextmanager
def lying(backends=2, **options):
    """Neighbouring slots have different owners. Proxy 0 has other owners in its map, proxy 1 has the right ones."""
    slots = interleaved(backends)
    with Cluster(backends=backends, partitions=1, proxies=2, linked=True, slots=slots, **options) as cluster:
        lie(cluster, 0, interleaved(backends, shift=1))
        yield cluster


# Each list of commands runs with a key of its own, so that its first command bounces. %s: the key.
ALONE = [
    ['SET %s v', 'GET %s', 'APPEND %s w', 'STRLEN %s', 'GETRANGE %s 0 -1', 'TYPE %s', 'DEL %s', 'GET %s'],
    ['GET %s'], ['EXISTS %s'], ['TTL %s'], ['OBJECT ENCODING %s'], ['DUMP %s'],
    ['INCR %s', 'INCRBY %s 5', 'EXPIRE %s 100', 'PERSIST %s', 'GETDEL %s'],
    ['HSET %s a 1 b 2', 'HGETALL %s', 'HINCRBY %s a 5', 'HDEL %s a b', 'HLEN %s'],
    ['HGETALL %s'], ['SMEMBERS %s'], ['LRANGE %s 0 -1'], ['ZRANGE %s 0 -1 WITHSCORES'],
    ['RPUSH %s 1 2 3', 'LRANGE %s 0 -1', 'LPOP %s', 'RPOPLPUSH %s %s', 'LLEN %s'],
    ['SADD %s x', 'SMEMBERS %s', 'SISMEMBER %s x', 'SPOP %s'],
    ['ZADD %s 1.5 a 2 b', 'ZRANGE %s 0 -1 WITHSCORES', 'ZPOPMIN %s', 'ZSCORE %s b'],
    ['XADD %s 1-1 f v', 'XRANGE %s - +', 'XLEN %s', 'XREAD COUNT 1 STREAMS %s 0'],
    ['XREAD BLOCK 1 STREAMS %s 0'],
    ['SETBIT %s 7 1', 'BITCOUNT %s', 'BITPOS %s 1'],
    ['PFADD %s a b', 'PFCOUNT %s'],
    ['GEOADD %s 13 38 p', 'GEOPOS %s p'],
    ['LPUSH %s 1', 'SET %s v', 'LPUSH %s 2', 'INCR %s'],
    ['BLPOP %s 0.001', 'BZPOPMIN %s 0.001', 'LPUSH %s 1', 'BLPOP %s 0', 'BLMOVE %s %s LEFT RIGHT 0.001'],
    ['EVAL return\\ redis.call("SET",KEYS[1],ARGV[1]) 1 %s v', 'GET %s'],
    ['EVAL return\\ KEYS 1 %s'],
    ['SORT %s', 'SORT %s ALPHA LIMIT 0 1'],
    ['GET %s extra', 'SET %s', 'HSET %s a'],
    ['MULTI', 'SET %s 1', 'INCR %s', 'LPUSH %s 1', 'EXEC', 'GET %s'],
    ['MULTI', 'SET %s 1', 'DISCARD', 'GET %s'],
    ['MULTI', 'BOGUS %s', 'EXEC', 'GET %s'],
    ['WATCH %s', 'MULTI', 'SET %s 1', 'EXEC', 'GET %s'],
    ['WATCH %s', 'SET %s 1', 'MULTI', 'SET %s 2', 'EXEC', 'GET %s'],
    ['WATCH %s', 'UNWATCH', 'GET %s'],
    ['SELECT 3', 'SET %s x', 'GET %s', 'SELECT 0', 'GET %s'],
    ['MULTI', 'SELECT 2', 'SET %s two', 'EXEC', 'GET %s', 'SELECT 0', 'GET %s'],
    ['CLIENT REPLY SKIP', 'SET %s x', 'GET %s'],
    ['EXISTS %s', 'UNLINK %s', 'TOUCH %s', 'MGET %s', 'MSET %s 1', 'MGET %s %s'],
]


def words_of(line, key):
    return [word.replace('\\', '').replace('\0', ' ') for word in line.replace('\\ ', '\0').replace('%s', key).split(' ')]


def play(connection, key):
    """The raw replies of all lists of commands, each with a key of its own."""
    out = []
    for number, commands in enumerate(ALONE):
        for line in commands:
            words = words_of(line, '%s:%d' % (key, number))
            connection.send(*words)
            if words[:3] != ['CLIENT', 'REPLY', 'SKIP'] and not (out and out[-1][0][:3] == ['CLIENT', 'REPLY', 'SKIP']):
                out.append((words, connection.read()))
            else:
                out.append((words, None))
    return out


@suite.case('every kind of command reaches the owner, and has the reply that a proxy with the right map gives')
def _(run):
    with lying() as cluster:
        for proto in (2, 3):
            key = 'key{%d}' % proto
            with cluster.connect(1, proto=proto) as right, cluster.connect(0, proto=proto) as wrong:
                expected = play(right, 'key')
                check_equal(right.get('FLUSHALL'), b'OK')
                cluster.proxies[0].stop()
                cluster.proxies[0].start()
            before = bounces(cluster)
            with cluster.connect(1, proto=proto) as right, cluster.connect(0, proto=proto) as wrong:
                got = play(wrong, 'key')
                for (words, reply), (_, wanted) in zip(got, expected):
                    check_equal(reply, wanted, 'RESP%d %r' % (proto, words))
                check_equal(right.get('FLUSHALL'), b'OK')
            count = bounces(cluster) - before
            check(count >= len(ALONE) - 5, '%d of %d lists of commands bounced' % (count, len(ALONE)))



def restart(cluster, proxy=0):
    """The proxy forgets what it has learned."""
    cluster.proxies[proxy].stop()
    cluster.proxies[proxy].start()


def compare(cluster, proto, commands, prepare=()):
    """Plays the commands with the right map, and then with the wrong one: the replies must be equal. `prepare`: commands that
    run before, with the right map."""
    replies = []
    for proxy in (1, 0):
        with cluster.connect(1, proto=proto) as right:
            check_equal(right.get('FLUSHALL'), b'OK')
            for words in prepare:
                right.call(*words)
        with cluster.connect(proxy, proto=proto) as client:
            replies.append([client.call(*words) for words in commands])
    for words, wanted, got in zip(commands, *replies):
        check_equal(got, wanted, 'RESP%d %r' % (proto, words))


@suite.case('split commands and commands with keys on several shards have the same replies, whatever the map')
def _(run):
    rng = random.Random(run.seed)
    keys = ['k:%d' % i for i in range(24)]
    commands = [['MSET', *[word for key in keys for word in (key, 'v' + key)]], ['MGET', *keys], ['EXISTS', *keys],
                ['DEL', *keys[:5]], ['MGET', *keys], ['UNLINK', *keys[3:9]], ['TOUCH', *keys], ['MGET', *keys[::-1]],
                ['RENAME', keys[20], keys[1]], ['COPY', keys[21], keys[2]], ['MSETNX', 'n:1', 1, 'n:2', 2, keys[22], 3],
                ['SADD', 's:1', 'a', 'b', 'c'], ['SADD', 's:2', 'b', 'c'], ['SINTER', 's:1', 's:2'],
                ['SINTERSTORE', 's:3', 's:1', 's:2'], ['SMEMBERS', 's:3'], ['RPUSH', 'l:1', 1, 2, 3],
                ['LMOVE', 'l:1', 'l:2', 'LEFT', 'RIGHT'], ['BLMOVE', 'l:1', 'l:3', 'LEFT', 'RIGHT', 0],
                ['BLPOP', 'x:1', 'x:2', 'l:2', 0], ['BLPOP', 'x:1', 'x:2', 'x:3', '0.01'],
                ['XADD', 'st:1', '1-1', 'f', 'v'], ['XADD', 'st:2', '1-1', 'f', 'v'],
                ['XREAD', 'STREAMS', 'st:1', 'st:2', 0, 0],
                ['EVAL', "for _, key in ipairs(KEYS) do redis.call('INCR', key) end return redis.call('GET', KEYS[2])", 3,
                 'e:1', 'e:2', 'e:3'],
                ['EVAL', "return redis.call('INCR', 'undeclared')", 1, 'e:1'],
                ['MULTI'], ['INCR', 'm:1'], ['INCR', 'm:2'], ['MGET', 'm:1', 'm:2', 'm:3'], ['EXEC'],
                ['WATCH', 'm:1', 'm:2'], ['MULTI'], ['INCR', 'm:1'], ['INCR', 'm:3'], ['EXEC'],
                ['WATCH', 'm:1'], ['WATCH', 'm:2'], ['SET', 'm:2', 'x'], ['MULTI'], ['INCR', 'm:1'], ['EXEC'],
                ['MGET', 'm:1', 'm:2', 'm:3'], ['BITOP', 'OR', 'b:1', 'm:1', 'm:3'], ['PFMERGE', 'p:1', 'p:2']]
    blocks = ['%d-%d' % (first, first + 15) for first in range(0, SLOTS, 16)]
    with lying(3) as cluster:
        for proto in (2, 3):
            # some blocks are right and some are wrong, so that one frame's keys get several owners
            owners = [rng.randrange(3) for _ in blocks]
            lie(cluster, 0, ['\n    '.join(block for block, owner in zip(blocks, owners) if owner == shard)
                             for shard in range(3)])
            before = bounces(cluster)
            compare(cluster, proto, commands)
            check(bounces(cluster) > before, 'nothing bounced')


@suite.case('the owner of a written key is learned though the owner of a key that is only read is known')
def _(run):
    with lying(3) as cluster, cluster.connect(1) as right:
        for shard in range(3):
            restart(cluster)
            source, target = cluster.key_on((shard + 2) % 3, 'from'), cluster.key_on(shard, 'to')
            right.get('SET', source, 'v')
            with cluster.connect(0) as client:
                check_equal(client.get('GET', source), b'v')
                check_equal(client.get('COPY', source, target), 1)
            restart(cluster)
            with cluster.connect(0) as client:
                check_equal(client.get('GET', source), b'v')
                for words in (['MULTI'], ['GET', source], ['SET', target, 'w']):
                    client.get(*words)
                check_equal(client.get('EXEC'), [b'v', b'OK'])


@suite.case('with cross-slot = shard, split commands follow their keys, and others get CROSSSLOT')
def _(run):
    same = {'proxy': {'cross-slot': 'shard'}}
    with lying(2, proxy_options=same) as cluster, cluster.connect(0) as client, cluster.connect(1) as right:
        near = [cluster.key_on(0, 'a%d' % i) for i in range(8)]
        far = [cluster.key_on(1, 'b%d' % i) for i in range(8)]
        # one shard for the proxy, two in truth
        lie(cluster, 0, ['0-16382', '16383'])
        with cluster.connect(0) as client:
            mixed = [key for pair in zip(near, far) for key in pair]
            check_equal(client.get('MSET', *[word for key in mixed for word in (key, key)]), b'OK')
            check_equal(client.get('MGET', *mixed), [key.encode() for key in mixed])
        restart(cluster)
        with cluster.connect(0) as client:
            check_equal(client.get('DEL', *mixed), len(mixed))
        restart(cluster)
        with cluster.connect(1) as right:
            for key in (near[0], near[1], near[5]):
                check_equal(right.get('RPUSH', key, 'x'), 1)
        for words in (['RENAME', near[0], far[0]], ['LMOVE', near[1], far[1], 'LEFT', 'LEFT'], ['EVAL', 'return 1', 2, near[2], far[2]],
                      ['BLMOVE', near[5], far[5], 'LEFT', 'LEFT', 1]):
            with cluster.connect(0) as client:
                reply = client.get(*words)
                check(str(reply).startswith('CROSSSLOT'), '%r: %r' % (words, reply))
        with cluster.connect(0) as client:
            for words in (['MULTI'], ['SET', near[3], 1], ['SET', far[3], 1]):
                client.get(*words)
            check(str(client.get('EXEC')).startswith('CROSSSLOT'), 'EXEC')
            check_equal(client.get('EXISTS', near[3], far[3]), 0, 'the refused EXEC has written')
            check_equal(client.get('RPUSH', far[4], 'x'), 1)
            check_equal(client.get('BLPOP', near[4], far[4], 0), [far[4].encode(), b'x'])


@suite.case('namespaces with slot rules, databases and users are those of the client at the owner, too')
def _(run):
    spaces = {'one': {'token': 'one', 'slot-rule': 'fixed:%d' % SLOT_OF_ONE},
              'two': {'token': 'two', 'slot-rule': 'prefix:::1'}, 'three': {'token': 'three'}}
    with lying(2, namespaces=spaces, proxy_options={'proxy': {'requirepass': 'operator'}}) as cluster:
        for space in spaces:
            with cluster.connect(1) as right, cluster.connect(0) as wrong:
                for client in (right, wrong):
                    check_equal(client.get('AUTH', space, space), b'OK')
                # two databases in one pipeline: the bounce comes when the client is in another one already
                replies = wrong.pipeline([['SET', 'a:1', space], ['SELECT', 1], ['SET', 'a:1', 'other'], ['GET', 'a:1'],
                                          ['SELECT', 0], ['GET', 'a:1'], ['RPUSH', 'l:2', 1, 2], ['BLPOP', 'l:2', 0]])
                check_equal([value(reply) for reply in replies],
                            [b'OK', b'OK', b'OK', b'other', b'OK', space.encode(), 2, [b'l:2', b'1']])
                check_equal(right.get('GET', 'a:1'), space.encode())
        with cluster.connect(1) as right, cluster.connect(0) as wrong:
            for client in (right, wrong):
                check_equal(client.get('AUTH', 'operator'), b'OK')
                rules = ['ACL', 'SETUSER', 'limited', 'on', '>secret', '~mine:*', '+@all', '-@dangerous']
                check_equal(client.get(*rules), b'OK')
                check_equal(client.get('AUTH', 'limited', 'secret'), b'OK')
            for number in range(4):
                script = "return redis.call('SET', '%s:' .. ARGV[1], 1)"
                words = ['EVAL', script % 'mine', 1, 'mine:%d' % number, number]
                check_equal(str(wrong.get(*words)), str(right.get(*words)))
                words = ['EVAL', script % 'foreign', 1, 'mine:1%d' % number, number]
                refusal = str(right.get(*words))
                check("can't access" in refusal, refusal)
                check_equal(str(wrong.get(*words)), refusal)


SLOT_OF_ONE = 77


def write_pipeline(client, name, count, keys, rng):
    """Sends `count` requests at once, and checks that each was executed once and in order. Returns the numbers by key."""
    sent = {key: [] for key in keys}
    commands, wanted = [], []
    for number in range(count):
        key = rng.choice(keys)
        kind = rng.randrange(8)
        if kind < 5:
            sent[key].append(b'%s-%d' % (name.encode(), number))
            commands.append(['RPUSH', key, sent[key][-1]])
            wanted.append(len(sent[key]))
        elif kind == 5:
            commands.append(['LRANGE', key, -1, -1])
            wanted.append(sent[key][-1:])
        elif kind == 6:
            other = rng.sample(keys, 3)
            commands.append(['EXISTS', *other])
            wanted.append(sum(bool(sent[key]) for key in other))
        else:
            both = rng.sample(keys, 2)
            for key in both:
                sent[key].append(b'%s-%d' % (name.encode(), number))
            commands += [['MULTI'], *[['RPUSH', key, sent[key][-1]] for key in both], ['EXEC']]
            wanted += [b'OK', b'QUEUED', b'QUEUED', [len(sent[key]) for key in both]]
    replies = client.pipeline(commands)
    for words, reply, right in zip(commands, replies, wanted):
        check_equal(value(reply), right, repr(words))
    return sent


@suite.case('pipelines of 1000 requests over wrong routes come back in order, each executed once, from several clients')
def _(run):
    with lying(3) as cluster:
        cluster.proxies[1].stop()
        lie(cluster, 1, interleaved(3, shift=2))
        failures, threads = [], []

        def work(name, proxy, seed):
            try:
                rng = random.Random(seed)
                for turn in range(2):
                    keys = ['%s:%d:%d' % (name, turn, i) for i in range(150)]
                    with cluster.connect(proxy) as client:
                        sent = write_pipeline(client, name, 1000, keys, rng)
                    with cluster.connect(1 - proxy) as client:
                        for key in keys:
                            check_equal(client.get('LRANGE', key, 0, -1), sent[key], key)
            except BaseException as error:
                failures.append(error)
        for number in range(4):
            threads.append(threading.Thread(target=work, args=('c%d' % number, number % 2, run.seed + number)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        check(bounces(cluster) + bounces(cluster, 1) > 100, 'too few requests bounced')


@suite.case('while slots move to and fro under load, no request of two proxies fails, and each runs once and in order')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2, linked=True) as cluster:
        failures, stop = [], threading.Event()

        def work(name, proxy, seed):
            rng = random.Random(seed)
            turn = 0
            try:
                while not stop.is_set():
                    keys = ['%s:%d:%d' % (name, turn, i) for i in range(40)]
                    with cluster.connect(proxy) as client:
                        sent = write_pipeline(client, name, 300, keys, rng)
                    with cluster.connect(1 - proxy) as client:
                        for key in keys:
                            check_equal(client.get('LRANGE', key, 0, -1), sent[key], key)
                    turn += 1
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=work, args=('c%d' % i, i % 2, run.seed + i)) for i in range(3)]
        for thread in threads:
            thread.start()
        try:
            for slots in (['5461-10922', '10923-16383', '0-5460'], ['0-8000', '8001-16383', ''], ['0-5460', '5461-10922', '10923-16383']):
                cluster.write_shards(slots)
                if slots[2]:
                    cluster.proxies[0].reload()  # the other one has an old map
                wait_for(lambda: failures or all_moved(cluster, slots), 'the slots to be where the map has them')
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]


def all_moved(cluster, slots):
    for shard, ranges in enumerate(slots):
        with cluster.partition(shard) as partition:
            lines = [line.decode() for line in partition.get('SCREE', 'OWNERS')]
            here = sum(last - first + 1 for line in lines if 'here=yes' in line
                       for first, last in [map(int, line.split()[0].split('=')[1].split('-'))])
            first, last = map(int, ranges.split('-')) if ranges else (0, -1)
            if here != last - first + 1:
                return False
    return True


@suite.case('blocked clients, watches and scripts go with a slot that moves')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        keys = {name: cluster.key_on(0, name) for name in ('list', 'zset', 'stream', 'watched', 'plain', 'script')}
        other = cluster.key_on(1, 'other')
        sha = client.get('SCRIPT', 'LOAD', "return redis.call('INCR', KEYS[1])")
        client.get('EVAL', "return redis.call('GET', KEYS[1])", 1, keys['script'])
        waiting = [cluster.connect() for _ in range(5)]
        requests = [['BLPOP', keys['list'], 0], ['BZPOPMIN', keys['zset'], 0], ['XREAD', 'BLOCK', 0, 'STREAMS', keys['stream'], '$'],
                    ['BLPOP', keys['plain'], other, 0], ['BLPOP', 'never' + keys['list'], 5]]
        with cluster.connect() as watcher:
            check_equal(watcher.get('SET', keys['watched'], 1), b'OK')
            check_equal(watcher.get('WATCH', keys['watched']), b'OK')
            for connection, words in zip(waiting, requests):
                connection.send(*words)

            def are_waiting():
                """On a slow machine the time of the last one may be over."""
                return re.search(rb'blocked_clients:[45]\r', client.get('INFO', 'clients'))
            wait_for(are_waiting, 'the clients to wait')
            cluster.write_shards(['', '0-16383'])
            wait_for(lambda: all_moved(cluster, ['', '0-16383']), 'the slots to move')
            wait_for(are_waiting, 'the clients to wait again')
            check_equal(watcher.pipeline([['MULTI'], ['SET', keys['watched'], 2], ['EXEC']])[2][1], None)
            # null while the last steps of the move go on
            again = [['WATCH', keys['watched']], ['MULTI'], ['SET', keys['watched'], 3], ['EXEC']]
            wait_for(lambda: [value(reply) for reply in watcher.pipeline(again)] == [b'OK', b'OK', b'QUEUED', [b'OK']], 'a watch after the move')
            check_equal(client.get('EVALSHA', sha, 1, keys['script']), 1)
            check_equal(client.get('RPUSH', keys['list'], 'x'), 1)
            check_equal(value(waiting[0].read()), [keys['list'].encode(), b'x'])
            check_equal(client.get('ZADD', keys['zset'], 1, 'm'), 1)
            check_equal(value(waiting[1].read()), [keys['zset'].encode(), b'm', b'1'])
            check_equal(client.get('XADD', keys['stream'], '5-1', 'f', 'v'), b'5-1')
            check_equal(value(waiting[2].read()), [[keys['stream'].encode(), [[b'5-1', [b'f', b'v']]]]])
            check_equal(client.get('RPUSH', keys['plain'], 'y'), 1)
            check_equal(value(waiting[3].read()), [keys['plain'].encode(), b'y'])
            check_equal(value(waiting[4].read()), None)
        for connection in waiting:
            connection.close()


class Replies:
    """Passes replies of a backend on to a client, and inserts others where all replies to earlier requests have passed."""

    def __init__(self, client):
        self.client, self.expected, self.passed, self.changed = client, 0, 0, threading.Condition()

    def pass_on(self, backend):
        reader = Reader()
        with contextlib.suppress(OSError):
            while data := backend.recv(1 << 16):
                reader.feed(data)
                with self.changed:
                    self.client.sendall(data)
                    while reply := reader.next():
                        self.passed += reply[0] != '>'
                    self.changed.notify()

    def insert(self, reply):
        with self.changed:
            self.changed.wait_for(lambda: self.passed == self.expected)
            self.client.sendall(reply)


class Denier:
    """A relay in front of a backend. It answers each request for a key that begins with `nobody` with a bounce to the other backend."""
    deniers, epochs = [], itertools.count(1)

    def __init__(self, upstream):
        denier = self
        self.upstream, self.shard, self.denied = upstream, 'b%dp0' % len(self.deniers), 0
        self.deniers.append(self)

        class Link(socketserver.BaseRequestHandler):
            def handle(self):
                denier.relay(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 64
        self.server = Server(('127.0.0.1', 0), Link)
        self.address = self.server.server_address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def relay(self, client):
        replies = Replies(client)
        with socket.create_connection(self.upstream) as backend, contextlib.suppress(OSError):
            threading.Thread(target=replies.pass_on, args=(backend,), daemon=True).start()
            requests = Reader()
            while data := client.recv(1 << 16):
                requests.feed(data)
                while request := requests.next():
                    self.answer(encode([word for _, word in request[1]]), backend, replies)
            backend.shutdown(socket.SHUT_RDWR)

    def answer(self, request, backend, replies):
        if b'nobody' in request:
            replies.insert(self.bounce(request))
        else:
            replies.expected += 1
            backend.sendall(request)

    def bounce(self, request):
        self.denied += 1
        slot = slot_of('nobody')
        shard = next(denier.shard for denier in self.deniers if denier is not self)
        body = b'BOUNCE 1 %d %d %d %d 0 1 %d 0 0\n' % (slot, slot, slot, next(self.epochs), len(shard)) + shard.encode() + request
        return b'!%d\r\n%s\r\n' % (len(body), body)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@suite.case('a request that has bounced more than five times ends with TRYAGAIN, and the connection goes on')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, relay=Denier) as cluster, cluster.connect() as client:
        for number, words in enumerate((['GET', 'nobody'], ['INCR', 'nobody']), 1):
            reply = str(client.get(*words))
            said = r"TRYAGAIN slot %d: the request was sent to 6 shards, and the last one, '(b[01]p0)', says that shard '(b[01]p0)' " \
                   r"owns the slot \(epoch %d\)" % (slot_of('nobody'), 6 * number)
            found = re.fullmatch(said, reply)
            check(found and found[1] != found[2], reply)
            check_equal([denier.denied for denier in Denier.deniers], [3 * number] * 2)
        check_equal(client.get('SET', 'somebody', 1), b'OK')
        check_equal(bounces(cluster), 12)


class Liar(Denier):
    """A Denier of which the first one lies: it gives all slots to itself or to shards that do not exist, and sends other requests back
    than came. It counts the requests for keys of the other shard that reach it."""
    deniers, epochs = [], itertools.count(1 << 40)

    def __init__(self, upstream):
        super().__init__(upstream)
        self.stolen = 0

    def relay(self, client):
        liar = self

        class Counted:
            def __getattr__(self, name):
                return getattr(client, name)

            def recv(self, size):
                data = client.recv(size)
                liar.stolen += data.count(b'honest')
                return data
        super().relay(Counted())

    def bounce(self, request):
        if self is not self.deniers[0]:
            return super().bounce(request)
        lies = self.lies(request)
        self.denied += 1
        return lies[self.denied % len(lies)]

    def lies(self, request):
        last, own, here = (1 << 63) - 1, self.shard.encode(), b'127.0.0.1:%d' % self.address[1]
        flush, slot = b'*1\r\n$8\r\nFLUSHALL\r\n', slot_of('nobody')
        kinds = ((0, SLOTS - 1, last, 1, own, here, request), (0, SLOTS - 1, last, 1, b'other', here, request),
                 (0, SLOTS - 1, last, 1, b'missing', b'', request), (slot, slot, next(self.epochs), 1, b'b1p0', b'', request),
                 (0, SLOTS - 1, last, 1, own, here, flush), (0, SLOTS - 1, last, 2, own, here, request + flush),
                 (0, SLOTS - 1, last, 2, b'b1p0', b'', flush + request), (0, SLOTS, last, 1, own, here, request),
                 (0, SLOTS - 1, 1 << 64, 1, own, here, request), (0, SLOTS - 1, last, 1 << 24, own, here, request))
        bodies = [b'BOUNCE 1 %d %d %d %d 0 %d %d %d 0\n' % (slot, first, end, epoch, count, len(name), len(address)) + name + address +
                  requests for first, end, epoch, count, name, address, requests in kinds]
        return [b'!%d\r\n%s\r\n' % (len(body), body) for body in [*bodies, b'', b'BOUNCE 1 0']]


LIED_TO = (('GET', 'nobody'), ('SET', 'nobody', 1), ('BLPOP', 'nobody', '0.05'), ('EVAL', 'return 1', 1, 'nobody'),
           ('MGET', 'nobody', 'nobody'), ('XREAD', 'BLOCK', 10, 'STREAMS', 'nobody', '$'), ('RPUSH', 'nobody', 1, 2))


@suite.case('a shard that lies in bounces gets no key of another shard, and no request that was not sent')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, relay=Liar) as cluster:
        honest = [cluster.key_on(1, 'honest%d' % number) for number in range(20)]
        other = cluster.key_on(0, 'kept')
        with cluster.connect() as client:
            check_equal([client.get('SET', key, key) for key in [*honest, other]], [b'OK'] * 21)
        for _ in range(sized(4, long=200)):
            for words in LIED_TO:
                with cluster.connect() as client:
                    client.call(*words)
                    check_equal([client.get('GET', key) for key in honest], [key.encode() for key in honest])
        check(Liar.deniers[0].denied > 3 * len(LIED_TO), 'it has lied %d times' % Liar.deniers[0].denied)
        check_equal(Liar.deniers[0].stolen, 0)
        with cluster.connect() as client:
            check_equal(client.get('GET', other), other.encode())


suite.main()
