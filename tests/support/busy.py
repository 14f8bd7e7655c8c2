"""busy.py - clients of several proxies whose every reply is known, so that each failed, lost or doubled request is noticed.

    with Busy(cluster, rng) as busy:     # starts the clients
        busy.wait_turns()                # every client has made progress
    busy.check()                         # counts, and compares every key with what its client knows

A client has one connection to each proxy, and sends each request to one of them, by chance. It waits for the reply, so the next
request sees the effect, whichever proxy it uses. No reply may be an error.

    OwnKeys    strings, counters, hashes, MGET, MSET, DEL in pipelines; MULTI in one slot   (model.py)
    Types      a key of each other type, that grows by one element with each request
    Pairs      two counters on different shards that grow together: MULTI, scripts with and without declared keys, WATCH
    Queue      a producer, and consumers that wait with BLPOP and BLMOVE for lists on all shards
    Scanner    SCAN, KEYS, DBSIZE, RANDOMKEY over keys that stay
"""

import random
import threading

from support.harness import check, check_equal, patience, wait_for
from support.model import OwnKeys
from support.resp import ReplyError, value

ROUND = 3  # turns that every client has to make in wait_turns


class BusyClient(threading.Thread):
    """A subclass has turn(), which sends at least one request."""

    def __init__(self, busy, name):
        super().__init__(daemon=True)
        self.busy, self.name, self.rng = busy, name, random.Random(busy.rng.random())
        self.turns = 0
        self.failure = None

    def run(self):
        count = len(self.busy.cluster.proxies)
        self.connections = [self.busy.cluster.connect(i, proto=self.rng.choice([2, 3])) for i in range(count)]
        try:
            while not self.is_over():
                self.turn()
                self.turns += 1
        except BaseException as failure:
            self.failure = failure
        for connection in self.connections:
            connection.close()

    def is_over(self):
        return self.busy.stopping.is_set()

    def any(self):
        return self.rng.choice(self.connections)

    def ask(self, *words, connection=None):
        reply = (connection or self.any()).get(*words)
        check(not isinstance(reply, ReplyError), '%s: %r: %r' % (self.name, words[:4], reply))
        return reply

    def expect(self, want, *words, connection=None):
        check_equal(self.ask(*words, connection=connection), want, '%s: %r' % (self.name, words[:6]))

    def finish(self, connection):
        """Compares all keys with what is known of them. Returns their number."""
        return 0


class Plain(BusyClient):
    def __init__(self, busy, name):
        super().__init__(busy, name)
        self.keys = OwnKeys(name, self.rng)

    def turn(self):
        requests = self.keys.pipeline(12)
        replies = self.any().pipeline([words for words, _ in requests])
        for (words, want), reply in zip(requests, replies):
            check_equal(value(reply), want, '%s: %r' % (self.name, words[:6]))

    def finish(self, connection):
        known = {**self.keys.strings, **self.keys.tagged}
        for key in known:
            check_equal(connection.get('GET', key), known[key], key)
        for key, count in self.keys.counters.items():
            check_equal(int(connection.get('GET', key) or 0), count, key)
        for key, fields in self.keys.hashes.items():
            items = connection.get('HGETALL', key)
            check_equal(dict(zip(items[::2], items[1::2])), fields, key)
        return (sum(item is not None for item in known.values()) + sum(map(bool, self.keys.counters.values())) +
                sum(map(bool, self.keys.hashes.values())))


class Types(BusyClient):
    """Every request makes the count of its key one higher, and its reply shows it."""

    # name: (the request for the n-th element, its reply, a request whose reply is the count)
    GROW = {
        'list': (lambda key, n: ('RPUSH', key, n), lambda n: n + 1, ('LLEN',)),
        'hash': (lambda key, n: ('HSET', key, n, n), lambda n: 1, ('HLEN',)),
        'set': (lambda key, n: ('SADD', key, 'm%d' % n), lambda n: 1, ('SCARD',)),
        'zset': (lambda key, n: ('ZADD', key, n, 'm%d' % n), lambda n: 1, ('ZCARD',)),
        'stream': (lambda key, n: ('XADD', key, '%d-1' % (n + 1), 'f', n), lambda n: b'%d-1' % (n + 1), ('XLEN',)),
        'bits': (lambda key, n: ('SETBIT', key, n, 1), lambda n: 0, ('BITCOUNT',)),
        'text': (lambda key, n: ('APPEND', key, 'x'), lambda n: n + 1, ('STRLEN',)),
        'sum': (lambda key, n: ('HINCRBY', key, 'f', 1), lambda n: n + 1, None),
        'rank': (lambda key, n: ('ZADD', key, 'INCR', 1, 'm'), lambda n: n + 1, None),
        'ints': (lambda key, n: ('SIADD', key, n), lambda n: 1, ('SICARD',)),
        'json': (lambda key, n: ('JSON.ARRAPPEND', key, '$', n), lambda n: [n + 1], None),
        'geo': (lambda key, n: ('GEOADD', key, n % 100, n % 80, 'm%d' % n), lambda n: 1, ('ZCARD',)),
    }

    def __init__(self, busy, name):
        super().__init__(busy, name)
        self.counts = dict.fromkeys(self.GROW, 0)
        self.has_json = False

    def key(self, kind):
        return '%s:%s' % (self.name, kind)

    def turn(self):
        if not self.has_json:
            self.expect(b'OK', 'JSON.SET', self.key('json'), '$', '[]')
            self.has_json = True
        kind = self.rng.choice(list(self.GROW))
        request, reply, _ = self.GROW[kind]
        n = self.counts[kind]
        self.counts[kind] += 1
        got = self.ask(*request(self.key(kind), n))
        check_equal(float(got) if kind == 'rank' else got, reply(n), '%s: element %d of %s' % (self.name, n, kind))

    def finish(self, connection):
        for kind, (_, _, length) in self.GROW.items():
            if length:
                check_equal(connection.get(*length, self.key(kind)), self.counts[kind], self.key(kind))
        check_equal(connection.get('LRANGE', self.key('list'), 0, -1), [b'%d' % i for i in range(self.counts['list'])])
        check_equal(connection.get('JSON.GET', self.key('json')),
                    b'[%s]' % b','.join(b'%d' % i for i in range(self.counts['json'])))
        return sum(map(bool, self.counts.values())) + (not self.counts['json'] and self.has_json)


BOTH = "return {redis.call('INCR', %s), redis.call('INCR', %s)}"


class Pairs(BusyClient):
    def __init__(self, busy, name):
        super().__init__(busy, name)
        self.left, self.right = ['%s:left:%d' % (name, i) for i in range(4)], ['%s:right:%d' % (name, i) for i in range(4)]
        self.counts = [0] * 4
        self.conflicts = 0

    def turn(self):
        place = self.rng.randrange(4)
        n = self.counts[place]
        work = self.rng.choice([self.multi, self.declared, self.undeclared, self.watch])
        done = work(self.left[place], self.right[place], n)
        self.counts[place] += done
        self.conflicts += not done

    def multi(self, left, right, n):
        connection = self.any()
        for words, want in ((('MULTI',), b'OK'), (('INCR', left), b'QUEUED'), (('MGET', left, right), b'QUEUED'),
                            (('INCR', right), b'QUEUED')):
            self.expect(want, *words, connection=connection)
        self.expect([n + 1, [b'%d' % (n + 1), b'%d' % n if n else None], n + 1], 'EXEC', connection=connection)
        return True

    def declared(self, left, right, n):
        self.expect([n + 1, n + 1], 'EVAL', BOTH % ('KEYS[1]', 'KEYS[2]'), 2, left, right)
        return True

    def undeclared(self, left, right, n):
        self.expect([n + 1, n + 1], 'EVAL', BOTH % ('ARGV[1]', 'ARGV[2]'), 0, left, right)
        return True

    def watch(self, left, right, n):
        """EXEC may fail without a reason that the client knows: slots that have moved are no longer watched."""
        connection = self.any()
        self.expect(b'OK', 'WATCH', left, right, connection=connection)
        self.expect([b'%d' % n if n else None] * 2, 'MGET', left, right, connection=connection)
        for words, want in ((('MULTI',), b'OK'), (('SET', left, n + 1), b'QUEUED'), (('SET', right, n + 1), b'QUEUED')):
            self.expect(want, *words, connection=connection)
        reply = self.ask('EXEC', connection=connection)
        check(reply in (None, [b'OK', b'OK']), '%s: EXEC after WATCH: %r' % (self.name, reply))
        return reply is not None

    def finish(self, connection):
        for keys in (self.left, self.right):
            for key, count in zip(keys, self.counts):
                check_equal(int(connection.get('GET', key) or 0), count, key)
        check(sum(self.counts) > self.conflicts, '%s: %d transactions were done, %d not' % (self.name, sum(self.counts), self.conflicts))
        return 2 * sum(map(bool, self.counts))


class Producer(BusyClient):
    """Pushes numbers to several lists. At the end each consumer gets the word "end"."""

    LISTS = 6

    def __init__(self, busy, name):
        super().__init__(busy, name)
        self.lists = ['%s:list:%d' % (name, i) for i in range(self.LISTS)]
        self.pushed = 0
        self.waiting = threading.Semaphore(200)  # values that may be unread

    def turn(self):
        if self.waiting.acquire(timeout=0.05):
            self.ask('RPUSH', self.rng.choice(self.lists), self.pushed)
            self.pushed += 1


class Consumer(BusyClient):
    def __init__(self, busy, name, producer):
        super().__init__(busy, name)
        self.producer, self.popped = producer, []

    def is_over(self):
        return bool(self.popped) and self.popped[-1] == b'end'

    def turn(self):
        if self.rng.random() < 0.7:
            reply = self.ask('BLPOP', *self.rng.sample(self.producer.lists, self.producer.LISTS), 0)
            self.popped.append(reply[1])
        else:
            item = self.ask('BLMOVE', self.rng.choice(self.producer.lists), '%s:moved' % self.name, 'LEFT', 'RIGHT', '0.01')
            if item is None:
                return
            self.expect(item, 'LPOP', '%s:moved' % self.name)
            self.popped.append(item)
        self.producer.waiting.release()


class Scanner(BusyClient):
    """Keys that stay, in a database of their own, are found by all commands that concern all shards."""

    DATABASE = 7

    def __init__(self, busy, name, count=800):
        super().__init__(busy, name)
        self.stay = [b'stay:%d' % i for i in range(count)]
        self.has_keys = False

    def turn(self):
        if not self.has_keys:
            for connection in self.connections:
                self.expect(b'OK', 'SELECT', self.DATABASE, connection=connection)
            self.expect(b'OK', 'MSET', *[word for key in self.stay for word in (key, key)])
            self.has_keys = True
        cursor, found = b'0', []
        while True:
            cursor, keys = self.ask('SCAN', cursor, 'COUNT', self.rng.choice([50, 100, 1000]))
            found += keys
            if cursor == b'0':
                break
        check_equal(sorted(set(self.stay) - set(found)), [], 'keys that SCAN has not found')
        check_equal(sorted(self.ask('KEYS', '*')), sorted(self.stay), 'KEYS')
        self.expect(len(self.stay), 'DBSIZE')
        check(self.ask('RANDOMKEY') in self.stay, 'RANDOMKEY')


class Busy:
    def __init__(self, cluster, rng):
        self.cluster, self.rng, self.stopping = cluster, rng, threading.Event()
        producers = [Producer(self, 'producer%d' % i) for i in range(2)]
        self.consumers = [Consumer(self, 'consumer%d' % i, producers[i % 2]) for i in range(4)]
        self.clients = [kind(self, '%s%d' % (kind.__name__.lower(), i)) for kind in (Plain, Types, Pairs) for i in range(2)]
        self.clients += producers + [Scanner(self, 'scanner')]
        self.producers = producers

    def __enter__(self):
        for client in self.clients + self.consumers:
            client.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for client in self.clients:
            client.join(patience())
        for consumer in self.consumers:
            if not consumer.failure:
                with self.cluster.connect() as connection:
                    connection.get('RPUSH', consumer.producer.lists[0], 'end')
        for consumer in self.consumers:
            consumer.join(patience())
        return False

    def check_alive(self):
        for client in self.clients + self.consumers:
            if client.failure:
                raise client.failure

    def wait_turns(self):
        """Every client makes progress, and the connections that it has work."""
        before = [client.turns for client in self.clients + self.consumers]

        def are_done():
            self.check_alive()
            return all(client.turns >= turns + ROUND for client, turns in zip(self.clients + self.consumers, before))
        wait_for(are_done, 'all clients to be served', 120)

    def check_queue(self, producer):
        """Each value was popped once, or is still in its list."""
        items = [item for consumer in self.consumers if consumer.producer is producer for item in consumer.popped]
        with self.cluster.connect() as connection:
            for name in producer.lists:
                items += connection.get('LRANGE', name, 0, -1)
                connection.get('DEL', name)
        numbers = [int(item) for item in items if item != b'end']
        lost = sorted(set(range(producer.pushed)) - set(numbers))
        check(not lost and len(numbers) == producer.pushed, '%s: lost %r; %d values pushed, %d popped'
              % (producer.name, lost[:20], producer.pushed, len(numbers)))

    def check(self):
        """After the end. Returns the number of turns of all clients."""
        self.check_alive()
        check(not any(client.is_alive() for client in self.clients + self.consumers), 'a client still waits')
        for producer in self.producers:
            self.check_queue(producer)
        keys = 0
        for proxy in range(len(self.cluster.proxies)):
            with self.cluster.connect(proxy) as connection:
                keys = sum(client.finish(connection) for client in self.clients)
        return sum(client.turns for client in self.clients + self.consumers), keys
