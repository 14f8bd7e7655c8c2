#!/usr/bin/python3
"""Backends die, freeze and send invalid replies, maps are reloaded; every reply belongs to its request and no
acknowledged write is lost.

    test_chaos.py [--seconds N] [--seed S] [--clients N] [--pause MS]

      numbered pipelines            proxy 0, proxy 1          relay per backend          backend 0, 1, 2
      of many clients      ──────►                  ──────►  slow, cuts, garbage ─────►  kill -9, SIGSTOP

Each client writes keys of its own. A request to a shard is a script that returns the number it was given, so a reply to
another request is detected at once. A write appends its number to a list:

  acknowledged       is in the list once, in the order of requests
  "not reachable"    was never sent: is not in the list
  other errors       may be in the list, once at most

An error names the shard that has a fault at that time, and no other. After each fault all clients must get replies
without errors again, and the lists are read and compared.
"""

import asyncio
import os
import random
import threading
import time

from support import harness
from support.aio import AsyncConnection
from support.cluster import Cluster
from support.harness import Failure, Suite, check, patience, sized, wait_for
from support.model import encode_all
from support.relay import Relay
from support.resp import Closed, ReplyError, value

BACKENDS, PROXIES = 3, 2
WRITE = "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1]) return ARGV[1]"
READ = "return {ARGV[1], redis.call('GET', KEYS[1])}"
FAULTS = ('kill', 'kill', 'freeze', 'freeze', 'slow', 'cut', 'garbage', 'reset', 'end', 'shut', 'mute', 'map')
CALM = ('map', 'slow')  # these faults cause no errors


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(15, long=1800), help='how long (default %(default)s)')
    parser.add_argument('--clients', type=int, default=18)
    parser.add_argument('--pause', type=float, default=5, help='ms between two pipelines of a client (default 5)')


suite = Suite(__doc__, options)


class Book:
    """The list and value that one client has written on one shard."""

    def __init__(self, log, last):
        self.log, self.last = log, last
        self.acked, self.maybe, self.never = [], set(), set()
        self.newest = None  # the last acknowledged value
        self.read, self.order, self.seen = 0, [], set()

    def may_hold(self, text):
        return text == self.newest or text in self.maybe

    def compare(self, items):
        """Checks `items`, the elements of the list after those checked before; no write may be outstanding."""
        for item in items:
            check(item not in self.seen, '%s: %s was done twice' % (self.log, item))
            check(item not in self.never, '%s: %s was done, and said not to be reachable' % (self.log, item))
            self.seen.add(item)
        self.order += items
        acked = set(self.acked)
        check(acked <= self.seen, '%s: acknowledged and lost: %s' % (self.log, sorted(acked - self.seen)[:5]))
        check([item for item in self.order if item in acked] == self.acked, '%s: another order' % self.log)
        check(self.seen <= acked | self.maybe, '%s: from nowhere: %s' % (self.log, items))
        self.read += len(items)


class Client:
    def __init__(self, chaos, index):
        self.chaos, self.index = chaos, index
        self.rng = random.Random('%d %d' % (chaos.seed, index))
        self.shards = list(range(BACKENDS)) if index % 3 == 0 else [index % BACKENDS]
        self.books = {shard: Book(self.key(shard, 'log'), self.key(shard, 'last')) for shard in self.shards}
        self.number, self.answers = 0, 0
        self.touched, self.hurt = set(), set()  # shards that this pipeline has used, and those that had errors
        # of each shard: successive pipelines that have used it without an error, since this recovery of the cluster began
        self.streaks, self.recovery = dict.fromkeys(self.shards, 0), 0
        self.has_stopped = False

    def key(self, shard, name):
        tag = self.chaos.cluster.key_on(shard, 'client%d' % self.index)
        return '{%s}:%s' % (tag, name)

    def next_number(self):
        self.number += 1
        return b'%d:%d' % (self.index, self.number)

    # -- requests: (words, function that checks the reply)

    def write(self, shard):
        book, number = self.books[shard], self.next_number()
        self.touched.add(shard)
        return ['EVAL', WRITE, 2, book.log, book.last, number], lambda reply: self.took_write(shard, number, reply)

    def took_write(self, shard, number, reply):
        book = self.books[shard]
        if self.is_error(reply, [shard]):
            (book.never if 'not reachable' in str(reply) else book.maybe).add(number)
            return
        self.expect(reply == number, 'write %s' % number, reply)
        book.acked.append(number)
        book.newest = number

    def read(self, shard):
        book, number = self.books[shard], self.next_number()
        command = self.rng.choice(['EVAL', 'EVAL_RO'])
        self.touched.add(shard)
        return [command, READ, 1, book.last, number], lambda reply: self.took_read(shard, number, reply)

    def took_read(self, shard, number, reply):
        if not self.is_error(reply, [shard]):
            self.expect(isinstance(reply, list) and reply[0] == number, 'read %s' % number, reply)
            self.expect(self.books[shard].may_hold(reply[1]), 'value at %s' % number, reply)

    def read_all(self):
        def took(reply):
            if not self.is_error(reply, self.shards):
                for shard, got in zip(self.shards, reply):
                    self.expect(self.books[shard].may_hold(got), 'MGET of shard %d' % shard, got)
        self.touched.update(self.shards)
        return ['MGET', *(self.books[shard].last for shard in self.shards)], took

    def echo(self):
        number = self.next_number()
        return ['ECHO', number], lambda reply: self.expect(reply == number, 'ECHO %s' % number, reply)

    def block(self, shard):
        """A transaction: MULTI, a write, a read, EXEC."""
        inner = [self.write(shard), self.read(shard)]

        def took(reply):
            if isinstance(reply, ReplyError):
                inner[0][1](reply)
            else:
                for (_, take), part in zip(inner, reply):
                    take(part)

        def queued(reply):
            self.expect(reply == b'QUEUED', 'in MULTI', reply)
        return [(['MULTI'], lambda reply: self.expect(reply == b'OK', 'MULTI', reply)),
                *((words, queued) for words, _ in inner), (['EXEC'], took)]

    def pipeline(self):
        commands = []
        for _ in range(self.rng.randint(1, 12)):
            shard, dice = self.rng.choice(self.shards), self.rng.random()
            if dice < 0.1:
                commands += self.block(shard)
            else:
                commands.append(self.write(shard) if dice < 0.5 else self.read(shard) if dice < 0.8 else
                                self.read_all() if dice < 0.9 else self.echo())
        return commands + [self.echo()]

    # -- replies

    def expect(self, condition, what, reply):
        check(condition, 'client %d, %s: got %s' % (self.index, what, harness.brief(reply, 300)))

    def is_error(self, reply, shards):
        """Is this error allowed now? Any other error fails the run."""
        if not isinstance(reply, ReplyError):
            return False
        text = str(reply)
        named = [shard for shard in shards if "shard 'b%dp0'" % shard in text]
        self.expect(named and named[0] in self.chaos.victims, 'shards %s while %s is hurt by %s'
                    % (shards, sorted(self.chaos.victims), self.chaos.fault), text)
        self.hurt.add(named[0])
        self.chaos.errors[named[0]] += 1
        return True

    def note_pipeline(self):
        if self.recovery != self.chaos.recovery:  # a pipeline of before, perhaps
            self.recovery, self.streaks = self.chaos.recovery, dict.fromkeys(self.shards, 0)
        else:
            for shard in self.touched:
                self.streaks[shard] = 0 if shard in self.hurt else self.streaks[shard] + 1
        self.touched, self.hurt = set(), set()

    def is_served(self):
        return self.recovery == self.chaos.recovery and min(self.streaks.values()) >= 3

    async def run(self):
        chaos = self.chaos
        connection = await AsyncConnection.open(chaos.cluster.proxies[self.index % PROXIES].address)
        while not chaos.stopping:
            while chaos.is_paused and not chaos.stopping:
                self.has_stopped = True
                await asyncio.sleep(0.005)
            self.has_stopped = False
            commands = self.pipeline()
            connection.writer.write(encode_all(commands))
            for _, take in commands:
                take(value(await connection.read()))
            self.note_pipeline()
            self.answers += len(commands)
            await asyncio.sleep(chaos.pause_s)
        connection.close()


class Chaos:
    """The thread of the clients, and the test's faults."""

    def __init__(self, run, cluster):
        self.run, self.cluster, self.seed = run, cluster, run.seed
        self.rng = random.Random(run.seed)
        self.pause_s = run.options.pause / 1000
        self.victims, self.fault, self.recovery = set(), 'nothing', 0
        self.errors, self.counts = [0] * BACKENDS, {}
        self.stopping = self.is_paused = False
        self.wrong = []
        self.direct = set()  # shards whose address in the map is that of the backend itself, without the relay
        self.clients = [Client(self, index) for index in range(run.options.clients)]
        self.thread = threading.Thread(target=self.play, daemon=True)

    def play(self):
        async def all_clients():
            await asyncio.gather(*(client.run() for client in self.clients))
        try:
            asyncio.run(all_clients())
        except (Failure, Closed, OSError, ValueError) as error:
            self.wrong.append('%s: %s (fault: %s of %s)' % (type(error).__name__, error, self.fault, self.victims))

    def wait(self, condition, what, limit=30):
        wait_for(lambda: self.wrong or condition(), what + ' (%s)' % self.fault, limit)
        check(not self.wrong, self.wrong and self.wrong[0])

    def wait_answers(self, shards, count):
        """Waits until clients of each of these shards have `count` further replies."""
        wanted = [(client, client.answers + count) for client in self.clients
                  if len(client.shards) == 1 and client.shards[0] in shards]
        self.wait(lambda: all(client.answers >= target for client, target in wanted), 'answers of shards %s' % shards)

    # -- faults

    def others(self, victim):
        return [shard for shard in range(BACKENDS) if shard != victim]

    def kill(self, victim):
        self.cluster.backends[victim].kill9()
        self.wait(lambda: self.errors[victim] > 0, 'errors of the dead shard')
        self.wait_answers(self.others(victim), self.rng.randrange(200))
        self.cluster.backends[victim].start()

    def freeze(self, victim):
        self.cluster.backends[victim].pause()
        try:
            self.wait_answers(self.others(victim), self.rng.randrange(200))
            if self.rng.random() < 0.7:
                self.wait(lambda: self.errors[victim] > 0, 'timeouts')
            if self.rng.random() < 0.3:  # silent for so long that the proxy closes its connections
                before = self.errors[victim]
                self.wait(lambda: self.errors[victim] > before + 20, 'more errors')
        finally:
            self.cluster.backends[victim].resume()

    def map(self, _):
        """Gives some shards another address; no client may notice."""
        self.direct = {shard for shard in range(BACKENDS) if self.rng.random() < 0.3}
        self.write_map()
        for proxy in self.cluster.proxies:
            proxy.reload()
        self.wait_answers(range(BACKENDS), 100)

    def write_map(self):
        cluster = self.cluster
        text = cluster.shards_text()
        for shard in self.direct:
            text = text.replace(':%d\n' % self.cluster.relays[cluster.backends[shard].addresses[0]].port,
                                ':%d\n' % cluster.backends[shard].port)
        with open(cluster.shards_path + '.new', 'w') as file:
            file.write(text)
        os.rename(cluster.shards_path + '.new', cluster.shards_path)

    def spoil(self, victim):
        relay = self.cluster.relays[self.cluster.backends[victim].addresses[0]]
        relay.spoil(self.fault)
        self.wait_answers(self.others(victim), 50)
        relay.spoil('heal')

    def one_fault(self):
        self.fault, victim = self.rng.choice(FAULTS), self.rng.randrange(BACKENDS)
        self.counts[self.fault] = self.counts.get(self.fault, 0) + 1
        self.errors[victim] = 0
        self.victims = set() if self.fault in CALM else {victim}
        getattr(self, self.fault, self.spoil)(victim)
        self.recover()

    def has_damage(self):
        return any(relay.count_damaged() for relay in self.cluster.relays.values())

    def recover(self):
        """Every client is served by each of its shards again: its worker's connection to the shard may be the last one that is back."""
        self.wait(lambda: not self.has_damage(), 'damaged connections to be closed', 60)
        self.recovery += 1
        self.wait(lambda: all(client.is_served() for client in self.clients), 'all to be served again', 60)
        self.victims, self.fault = set(), 'nothing'

    def compare(self):
        self.is_paused = True
        self.wait(lambda: all(client.has_stopped for client in self.clients), 'clients to pause')
        with self.cluster.connect(self.rng.randrange(PROXIES)) as connection:
            for client in self.clients:
                for book in client.books.values():
                    book.compare(self.ask(connection, 'LRANGE', book.log, book.read, -1))
                    last = self.ask(connection, 'GET', book.last)
                    check(book.may_hold(last), '%s holds %s, not %s' % (book.last, last, book.newest))
        for client in self.clients:
            client.has_stopped = False
        self.is_paused = False

    def ask(self, connection, *words):
        """The reply, also if this is the first use of a connection that the shard has closed."""
        replies = []

        def has_answered():
            replies.append(connection.get(*words))
            return not isinstance(replies[-1], ReplyError)
        wait_for(has_answered, 'an answer to %s' % words[0])
        return replies[-1]

    def report(self):
        books = [book for client in self.clients for book in client.books.values()]
        self.run.note('%d faults %s' % (sum(self.counts.values()), dict(sorted(self.counts.items()))))
        self.run.note('%d replies; writes: %d acknowledged, %d unknown (%d of them done), %d not sent'
                      % (sum(client.answers for client in self.clients), sum(len(book.acked) for book in books),
                         sum(len(book.maybe) for book in books), sum(len(book.maybe & book.seen) for book in books),
                         sum(len(book.never) for book in books)))


@suite.case('under faults of every kind each reply belongs to its request, acknowledged writes stay, and other shards have no errors')
def _(run):
    upstream = {'upstream': {'timeout': '%dms' % (2000 * harness.SLOW), 'backoff-max': '300ms'}}  # `slow` adds up to a second
    # without fsync: a disk that stands still for a second would look like a fault
    with Cluster(backends=BACKENDS, partitions=1, proxies=PROXIES, backend_options={'backend': {'durability': 'os'}},
                 proxy_options=upstream, relay=lambda address: Relay(address, run.seed)) as cluster:
        chaos = Chaos(run, cluster)
        chaos.thread.start()
        end = time.monotonic() + run.options.seconds
        try:
            chaos.recover()
            while time.monotonic() < end:
                chaos.one_fault()
                chaos.compare()
        finally:
            chaos.stopping = True
            chaos.thread.join(patience())
            chaos.report()
        check(not chaos.wrong, (chaos.wrong or [''])[0])


if __name__ == '__main__':
    suite.main()
