#!/usr/bin/python3
"""Transactions over shards through two proxies, while backends and proxies are killed and frozen and connections fail:
the histories are strictly serializable, no money and no seat is lost or given twice.

    test_histories.py [--long MINUTES] [--seed S] [--clients N] [--moves SECONDS]

      list-append   RPUSH and LRANGE of lists on three shards; support/list_append.py checks the history
      bank          transfers; the sum of all accounts is the same in every read
      seats         redis-py sells tickets; seats, figures and bookings on three shards agree in every read; bookings
                    expire at their time

    clients ──► relays ──► proxy 0, 1 ──► relays ──► backend 0, 1, 2      support/turmoil.py: kill -9, SIGSTOP, cut connections
                                            ▲                 │
                                            └─────────────────┘

Each round has keys of its own and ends with a check of all of them. By default a workload has one round; --long gives
each workload this many minutes.
"""

import contextlib
import itertools
import random
import threading
import time

import redis

from support import harness
from support.cluster import Cluster
from support.harness import Failure, Suite, check, check_equal, sized
from support.list_append import DONE, REFUSED, UNKNOWN, Append, Read, Transaction, anomalies
from support.moves import Mover, wait_settled
from support.relay import Relay
from support.tickets import BOOKING_SECONDS, FREE, SECTIONS, Event, choose, seat_state
from support.turmoil import REPLY_TIMEOUT, Client, Turmoil, outcome_of, wait_for_silence

SHARDS, PROXIES = 3, 2
STRIKES = 3  # faults of a round


def options(parser):
    parser.add_argument('--long', type=float, default=sized(0, long=10), metavar='MINUTES', help='for each workload')
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--moves', type=float, default=sized(0, long=4), metavar='SECONDS',
                        help='a new map, which moves slots, each time after so many seconds; 0: none')


suite = Suite(__doc__, options)


def start_cluster():
    def relay(address):
        return Relay(address, is_opaque=True)
    return Cluster(backends=SHARDS, partitions=1, proxies=PROXIES, linked=True, relay=relay, proxy_relay=relay,
                   backend_options={'backend': {'peer-timeout': '%dms' % (2000 * harness.SLOW)}},
                   proxy_options={'upstream': {'timeout': '1s', 'backoff-max': '100ms'}})


def play_rounds(run, play):
    """Calls play(cluster, number of the round) once, or until --long is over."""
    end = time.monotonic() + run.options.long * 60
    with start_cluster() as cluster:
        for number in itertools.count():
            play(cluster, number)
            if time.monotonic() >= end:
                break


def play_clients(run, cluster, clients):
    turmoil = Turmoil(run, cluster, clients)
    mover = Mover(cluster, SHARDS, random.Random(run.rng.random()), run.options.moves) if run.options.moves else contextlib.nullcontext()
    try:
        with turmoil, mover:
            turmoil.wait_served()
            for _ in range(STRIKES * (4 if run.options.long else 1)):
                turmoil.strike()
    finally:
        turmoil.report()
    if run.options.moves:
        wait_settled(cluster, range(SHARDS))
        print('     %d maps' % mover.maps)
    wait_for_silence(cluster)


# ---- the checker -------------------------------------------------------------------------------------------------

def history_of(text):
    """A history from lines `begin-end outcome: step, step …`; steps: x+1 appends 1 to x, x=1.2 reads 1 and 2, y= reads
    an empty list."""
    history = []
    for line in text.strip().splitlines():
        head, _, steps = line.strip().partition(': ')
        times, outcome = head.split()
        begin, end = map(int, times.split('-'))
        operations = []
        for step in steps.split(', '):
            key, sign, rest = step[0], step[1], step[2:]
            operations.append(Append(key, int(rest)) if sign == '+' else
                              Read(key, [int(item) for item in rest.split('.') if item]))
        history.append(Transaction('T%d' % len(history), begin, end, outcome, operations))
    return history


WRONG = {
    'G0': ('0-9 done: x+1, y+1\n 0-9 done: x+2, y+2', {'x': [1, 2], 'y': [2, 1]}),
    'G1c': ('0-9 done: x+1, y=1\n 0-9 done: y+1, x=1', {'x': [1], 'y': [1]}),
    'G-single': ('0-9 done: x+1, y+1\n 0-9 done: x=1, y=', {'x': [1], 'y': [1]}),
    'G2': ('0-9 done: x+1, y=\n 0-9 done: y+1, x=', {'x': [1], 'y': [1]}),
    'real-time': ('0-1 done: x+1\n 2-3 done: x=', {'x': [1]}),
    'lost append': ('0-1 done: x+1, y+2', {'x': [1], 'y': []}),
    'half a transaction': ('0-1 unknown: x+1, y+2', {'x': [1], 'y': []}),
    'refused and done': ('0-1 refused: x+1', {'x': [1]}),
    'appended twice': ('0-1 done: x+1', {'x': [1, 1]}),
    'from nowhere': ('0-1 done: x+1', {'x': [1, 7]}),
    'never was': ('0-9 done: x+1\n 0-9 done: x+2\n 0-9 done: x=2', {'x': [1, 2]}),
    'inner contradiction': ('0-9 done: x+1\n 0-9 done: x=, x=1', {'x': [1]}),
}
# further examples of the names above: (name, history, lists at the end)
WRONG_TOO = [
    ('G0', '0-9 done: x+1, x+3\n 0-9 done: x+2', {'x': [1, 2, 3]}),
    ('G-single', '0-9 done: x=1, x+3\n 0-9 done: x+1\n 0-9 done: x+2', {'x': [1, 2, 3]}),  # lost update
    ('G-single', '0-9 done: x+1, x+2\n 0-9 done: x=1', {'x': [1, 2]}),  # intermediate read
    ('never was', '0-9 refused: x+1\n 0-9 done: x=1', {'x': []}),  # aborted read
    ('inner contradiction', '0-9 done: x+1, x=', {'x': [1]}),  # own append not read
    ('real-time', '0-1 done: x+2\n 2-3 done: x+1', {'x': [1, 2]}),
    ('real-time', '0-1 done: x=1\n 2-9 done: x=\n 0-9 unknown: x+1', {'x': [1]}),  # a read of the past
    ('real-time', '0-1 done: x=1\n 2-9 unknown: x+1', {'x': [1]}),  # a read of the future
    ('real-time', '0-1 done: x+1\n 2-3 done: x=1\n 4-5 done: y+1\n 6-7 done: y=1, x=1\n 8-9 done: y=', {'x': [1], 'y': [1]}),
    ('G2', '0-9 done: x+1, y=\n 0-9 done: y+1, z=\n 0-9 done: z+1, x=', {'x': [1], 'y': [1], 'z': [1]}),
]
RIGHT = [
    ('0-1 done: x+1, y+1\n 2-3 done: x=1, y=1\n 4-5 done: x=1, x+2, x=1.2', {'x': [1, 2], 'y': [1]}),
    ('0-5 done: x+1\n 1-2 done: x=\n 3-4 done: x=1', {'x': [1]}),
    ('0-9 done: x+1, x+2, x=1.2, y=\n 0-9 done: y+1, x=1.2', {'x': [1, 2], 'y': [1]}),
    ('0-1 unknown: x+1, y+1\n 2-3 done: x=\n 4-5 done: x=1, y=1', {'x': [1], 'y': [1]}),  # done late
    ('0-1 unknown: x+1\n 2-3 refused: x+2\n 4-5 done: x=', {'x': []}),
    ('0-1 unknown: x=1, y=1', {}),
]


@suite.case('the checker of histories finds every kind of anomaly, and none in histories that are right')
def _(run):
    wrong = [(name, *example) for name, example in WRONG.items()] + WRONG_TOO
    for name, text, final in wrong:
        found = [anomaly.name for anomaly in anomalies(history_of(text), final)]
        check(name in found, '%s was not found in %s: %s' % (name, text, found))
    for text, final in RIGHT:
        check_equal(anomalies(history_of(text), final), [], text)
    wrong_length = Transaction('T', 0, 1, DONE, [Append('x', 1, 2)])
    check_equal([anomaly.name for anomaly in anomalies([wrong_length], {'x': [1]})], ['wrong length'])


@suite.case('the checker finds one wrong reply in a long history')
def _(run):
    for wrong in (None, 'stale', 'swapped', 'dropped'):
        lists, history = {key: [] for key in range(6)}, []
        for number in range(3000):
            operations = []
            for key in run.rng.sample(sorted(lists), 3):
                if run.rng.random() < 0.5:
                    lists[key].append(number)
                    operations.append(Append(key, number, len(lists[key])))
                operations.append(Read(key, list(lists[key])))
            history.append(Transaction('T%d' % number, number * 10, number * 10 + 25, DONE, operations))
        victim = history[1500].operations
        reads = [step for step in victim if isinstance(step, Read)]
        if wrong == 'stale':
            items = lists[reads[0].key]
            history.append(Transaction('stale', 20000, 20001, DONE, [Read(reads[0].key, items[:len(reads[0].items) - 5])]))
        elif wrong == 'swapped':
            reads[0].items[:2] = reads[0].items[1::-1]
        elif wrong == 'dropped':
            lists[reads[0].key].pop()
        found = anomalies(history, lists)
        check((not found) == (wrong is None), '%s: found %s' % (wrong, found[:3]))


# ---- list-append -------------------------------------------------------------------------------------------------

LISTS, LIST_LENGTH = 7, 50
SCRIPT = """local replies = {}
for i = 1, #ARGV, 2 do
    if ARGV[i + 1] == '' then replies[#replies + 1] = redis.call('LRANGE', ARGV[i], 0, -1)
    else replies[#replies + 1] = redis.call('RPUSH', ARGV[i], ARGV[i + 1]) end
end
return replies"""


class Lists:
    """The names of the lists in use. A list that has LIST_LENGTH values is replaced by a new one, since every read returns
    the whole list."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.lock = cluster, number, threading.Lock()
        self.values, self.counts, self.used = itertools.count(1), [0] * LISTS, set()

    def choose(self, rng, count):
        with self.lock:
            return [self.name(place) for place in rng.sample(range(LISTS), count)]

    def name(self, place):
        prefix = 'list:%d:%d:%d' % (self.number, place, self.counts[place] // LIST_LENGTH)
        name = self.cluster.key_on(place % SHARDS, prefix)
        self.used.add(name)
        return name

    def new_value(self, name):
        with self.lock:
            self.counts[int(name.split(':')[2])] += 1
            return next(self.values)


class Appender(Client):
    """Appends to lists and reads them: in MULTI, in scripts, and by single commands."""

    def __init__(self, cluster, lists, seed):
        super().__init__(cluster, seed)
        self.lists, self.history = lists, []

    def one_request(self, connection):
        operations, send = self.choose()
        begin = time.monotonic()
        reply = send(connection, operations)
        end = time.monotonic()
        outcome = self.note(reply)
        if outcome == DONE:
            check_equal(len(reply), len(operations), 'replies')
            for step, part in zip(operations, reply):
                if isinstance(step, Append):
                    step.length = part
                else:
                    step.items = list(map(int, part))
        self.history.append(Transaction('%s of %s' % (send.__name__, self.name), begin, end, outcome, operations))
        return outcome != UNKNOWN

    def choose(self):
        """(operations, the function that sends them)"""
        dice = self.rng.random()
        if dice < 0.15:
            return [self.operation(self.lists.choose(self.rng, 1)[0])], self.send_alone
        names = self.lists.choose(self.rng, self.rng.choice([1, 2, 2, 3, 3]))
        operations = [self.operation(name) for name in names + self.rng.choices(names, k=self.rng.randrange(3))]
        return operations, self.send_script if dice < 0.45 else self.send_multi

    def operation(self, name):
        return Append(name, self.lists.new_value(name)) if self.rng.random() < 0.5 else Read(name)

    def words(self, step):
        return ['RPUSH', step.key, step.item] if isinstance(step, Append) else ['LRANGE', step.key, 0, -1]

    def send_alone(self, connection, operations):
        reply = self.ask(connection, *self.words(operations[0]))
        return reply if isinstance(reply, Exception) else [reply]

    def send_multi(self, connection, operations):
        return self.exec(connection, [self.words(step) for step in operations])

    def send_script(self, connection, operations):
        keys = [step.key for step in operations] if self.rng.random() < 0.5 else []  # else: no key is declared
        pairs = [(step.key, step.item if isinstance(step, Append) else '') for step in operations]
        return self.ask(connection, 'EVAL', SCRIPT, len(keys), *keys, *itertools.chain(*pairs))


@suite.case('list-append: every history is strictly serializable, and no acknowledged append is lost')
def _(run):
    def play(cluster, number):
        lists = Lists(cluster, number)
        clients = [Appender(cluster, lists, run.rng.random()) for _ in range(run.options.clients)]
        play_clients(run, cluster, clients)
        with cluster.connect() as connection:
            final = {name: list(map(int, connection.get('LRANGE', name, 0, -1))) for name in lists.used}
        history = [transaction for client in clients for transaction in client.history]
        unknown = [transaction for transaction in history if transaction.outcome == UNKNOWN]
        run.note('%d transactions, %d lists, %d values; unknown: %d'
                 % (len(history), len(final), sum(map(len, final.values())), len(unknown)))
        found = anomalies(history, final)
        check(not found, '%d anomalies: %s' % (len(found), found[:3]))
    play_rounds(run, play)


# ---- bank --------------------------------------------------------------------------------------------------------

ACCOUNTS, BALANCE = 12, 1000
TRANSFER = """redis.call('DECRBY', KEYS[1], ARGV[1])
return redis.call('INCRBY', KEYS[2], ARGV[1])"""
ADD_UP = """local sum = 0
for i = 1, #ARGV do sum = sum + redis.call('GET', ARGV[i]) end
return sum"""


class Teller(Client):
    """Moves money: by MULTI, by a script, or with WATCH and absolute values. Adds up all accounts."""

    def __init__(self, cluster, accounts, seed):
        super().__init__(cluster, seed)
        self.accounts, self.sums, self.conflicts = accounts, 0, 0

    def one_request(self, connection):
        source, target = self.rng.sample(self.accounts, 2)
        work = self.rng.choice([self.multi, self.script, self.watch, self.add_up, self.add_up_script])
        return self.note(work(connection, source, target, self.rng.randrange(1, 10))) == DONE  # else keys may be watched

    def multi(self, connection, source, target, amount):
        return self.exec(connection, [['DECRBY', source, amount], ['INCRBY', target, amount]])

    def script(self, connection, source, target, amount):
        return self.ask(connection, 'EVAL', TRANSFER, 2, source, target, amount)

    def watch(self, connection, source, target, amount):
        reply = self.ask(connection, 'WATCH', source, target)
        if isinstance(reply, Exception):
            return reply
        balances = [self.ask(connection, 'GET', key) for key in (source, target)]
        for reply in balances:
            if isinstance(reply, Exception):
                return reply
        reply = self.exec(connection, [['SET', source, int(balances[0]) - amount], ['SET', target, int(balances[1]) + amount]])
        self.conflicts += reply is None
        return reply

    def add_up(self, connection, *_):
        reply = self.exec(connection, [['MGET', *self.accounts[:5]], *(['GET', key] for key in self.accounts[5:])])
        if outcome_of(reply) == DONE:
            self.check_sum(sum(map(int, reply[0] + reply[1:])))
        return reply

    def add_up_script(self, connection, *_):
        reply = self.ask(connection, 'EVAL', ADD_UP, 0, *self.accounts)
        if outcome_of(reply) == DONE:
            self.check_sum(reply)
        return reply

    def check_sum(self, total):
        check_equal(total, ACCOUNTS * BALANCE, 'the sum of all accounts')
        self.sums += 1


@suite.case('bank: the sum of all accounts is the same in every read')
def _(run):
    def play(cluster, number):
        accounts = [cluster.key_on(i % SHARDS, 'account:%d:%d' % (number, i)) for i in range(ACCOUNTS)]
        with cluster.connect() as connection:
            check_equal(connection.get('MSET', *itertools.chain(*((key, BALANCE) for key in accounts))), b'OK')
            clients = [Teller(cluster, accounts, run.rng.random()) for _ in range(run.options.clients)]
        play_clients(run, cluster, clients)
        with cluster.connect() as connection:
            check_equal(sum(map(int, connection.get('MGET', *accounts))), ACCOUNTS * BALANCE, 'the sum at the end')
        run.note('%d sums, %d conflicts' % (sum(client.sums for client in clients), sum(client.conflicts for client in clients)))
        check(any(client.sums for client in clients), 'no client has added up')
    play_rounds(run, play)


# ---- seats -------------------------------------------------------------------------------------------------------

EVENTS, SEATS = 3, 600  # in each section
SHORT_SECONDS = 30  # after which the bookings of the first event expire
CLOCK_SECONDS = 15  # a program that was frozen may take its time from before the freeze
HELD, GONE, MAYBE = 'held', 'gone', 'maybe'


class Sales:
    """What the sellers of an event know of their bookings."""

    def __init__(self, event):
        self.event, self.lock = event, threading.Lock()
        self.bookings = {}  # ident: (section, seats)
        self.states = {}
        self.times = {}  # ident: before the request, and after its reply or None
        self.holders = {}  # seat: the booking that has it for certain
        self.expired = 0

    def begin(self, ident, section, seats):
        with self.lock:
            self.bookings[ident], self.states[ident] = (section, seats), MAYBE
            self.times[ident] = time.time(), None

    def hold(self, ident):
        """The booking was acknowledged: its seats belong to no other one."""
        with self.lock:
            self.states[ident] = HELD
            begin, end = self.times[ident]
            self.times[ident] = begin, end or time.time()
            for seat in self.bookings[ident][1]:
                other = self.holders.setdefault(seat, ident)
                check(other == ident, 'seat %d of %s belongs to %s and %s' % (seat, self.event.name, other, ident))

    def give_back(self, ident):
        """The booking may be cancelled from now on."""
        with self.lock:
            self.states[ident] = MAYBE
            for seat in self.bookings[ident][1]:
                del self.holders[seat]

    def end(self, ident, state):
        with self.lock:
            self.states[ident] = state

    def check_end(self, client):
        """The event as it is in the store, compared with what the sellers know."""
        event = self.event
        with client.pipeline(transaction=True) as pipe:
            event.look(pipe)
            pipe.hkeys(event.timers)
            pipe.zrange(event.index, 0, -1)
            *looks, timers, index = pipe.execute()
        check_equal(event.judge(looks), None, event.name)
        present = {ident.decode() for ident in timers}
        check_equal({ident.decode() for ident in index}, present, 'bookings in both indexes')
        check(present <= set(self.bookings), 'bookings from nowhere: %s' % sorted(present - set(self.bookings))[:3])
        taken = {}
        for ident, state in self.states.items():
            seats, exists = self.bookings[ident][1], ident in present
            check(state == MAYBE or exists == (state != GONE), 'booking %s of %s is %s' % (ident, event.name, state))
            self.check_booking(client, ident, exists)
            for seat in seats if exists else ():
                check(seat not in taken, 'seat %d of %s: %s and %s' % (seat, event.name, taken.get(seat), ident))
                taken[seat] = ident
        check_equal({seat for seat in range(SECTIONS * SEATS) if seat_state(looks[0], seat) != FREE}, set(taken), 'seats')

    def check_booking(self, client, ident, exists):
        """The booking's hash: it is there until it expires, and it expires at its time."""
        key, (begin, end) = self.event.booking(ident), self.times[ident]
        earliest, latest = begin + self.event.booking_seconds - CLOCK_SECONDS, (end or time.time()) + self.event.booking_seconds
        before = time.time()
        with client.pipeline(transaction=True) as pipe:
            pipe.hget(key, 'seats')
            pipe.execute_command('PEXPIRETIME', key)
            seats, expires_ms = pipe.execute()
        if exists and seats is None:
            check(time.time() > earliest, '%s is missing %.1f s before its expiry time' % (key, earliest - time.time()))
            self.expired += 1
            return
        check_equal(seats, ','.join(map(str, self.bookings[ident][1])).encode() if exists else None, key)
        if exists:
            check(before < latest, '%s is there %.1f s after its expiry time' % (key, before - latest))
            check(earliest <= expires_ms / 1000 <= latest, '%s expires at %.3f, not from %.3f to %.3f' %
                  (key, expires_ms / 1000, earliest, latest))


class Seller(Client):
    """redis-py: books free seats with WATCH, sells or cancels its bookings, looks at events."""

    def __init__(self, cluster, sales, name, seed):
        super().__init__(cluster, seed)
        self.sales, self.own, self.name = sales, [], name
        self.serial = itertools.count()
        self.booked = self.looks = self.conflicts = 0

    def connect(self):
        return self.cluster.redis(self.rng.randrange(PROXIES), socket_timeout=REPLY_TIMEOUT * harness.SLOW)

    def one_request(self, client):
        dice = self.rng.random()
        with client.pipeline(transaction=True) as pipe:
            if dice < 0.2:
                reply = self.look(pipe)
            elif dice < 0.5 and self.own:
                reply = self.part(pipe)
            else:
                reply = self.book(pipe)
        return self.note(reply) != UNKNOWN

    def execute(self, pipe):
        """The replies, or the exception that the transaction ended with; no error may be among the replies."""
        try:
            replies = pipe.execute(raise_on_error=False)
        except redis.RedisError as error:
            return error
        check(not any(isinstance(reply, Exception) for reply in replies), 'half of a transaction: %r' % replies)
        return replies

    def look(self, pipe):
        event = self.rng.choice(self.sales).event
        event.look(pipe)
        reply = self.execute(pipe)
        if outcome_of(reply) == DONE:
            check_equal(event.judge(reply), None, 'an event in one read')
            self.looks += 1
        return reply

    def book(self, pipe):
        sales, section = self.rng.choice(self.sales), self.rng.randrange(SECTIONS)
        event = sales.event
        try:
            pipe.watch(event.seats)
            free = event.free_seats(pipe.getrange(event.seats, *event.range_of(section)), section)
            if not free:
                pipe.reset()
                return 'sold out'
        except redis.RedisError as error:
            return error
        seats, ident = choose(self.rng, free), '%s-%d' % (self.name, next(self.serial))
        pipe.multi()
        event.reserve(pipe, section, seats, ident, self.name, int(time.time()))
        sales.begin(ident, section, seats)
        reply = self.execute(pipe)
        if outcome_of(reply) == DONE:
            sales.hold(ident)
            self.own.append((sales, ident))
            self.booked += 1
        elif outcome_of(reply) == REFUSED:
            sales.end(ident, GONE)
            self.conflicts += isinstance(reply, redis.WatchError)
        return reply

    def part(self, pipe):
        """Sells the seats of a booking, or cancels it."""
        sales, ident = self.own.pop(self.rng.randrange(len(self.own)))
        section, seats = sales.bookings[ident]
        if self.rng.random() < 0.2:
            sales.event.sell(pipe, section, seats)
            return self.execute(pipe)
        sales.event.cancel(pipe, section, seats, ident)
        sales.give_back(ident)
        reply = self.execute(pipe)
        if outcome_of(reply) == DONE:
            sales.end(ident, GONE)
        elif outcome_of(reply) == REFUSED:
            sales.hold(ident)
        return reply


def new_event(cluster, name, booking_seconds):
    """An event whose seats and document are on different shards."""
    for number in itertools.count():
        event = Event('%s-%d' % (name, number), SEATS, booking_seconds)
        if cluster.shard_of(event.seats) != cluster.shard_of(event.document):
            return event


def finds_error(sales, client):
    try:
        sales.check_end(client)
    except Failure:
        return True
    return False


@suite.case('the check of an event finds a booking that is lost, that stays, that expires at another time, and a seat that is free')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.redis() as client:
        sales = Sales(Event('event', SEATS, SHORT_SECONDS))
        event, booking = sales.event, sales.event.booking('a')
        event.create(client)
        for seat, ident in enumerate('ab'):
            sales.begin(ident, 0, [seat])
            with client.pipeline(transaction=True) as pipe:
                event.reserve(pipe, 0, [seat], ident, 'seller', int(time.time()))
                pipe.execute()
            sales.hold(ident)
        check(not finds_error(sales, client), 'it is right')
        at = client.execute_command('PEXPIRETIME', booking)
        for damage, repair in ((['PEXPIRE', booking, 10 ** 7], ['PEXPIREAT', booking, at]),
                               (['EXPIRE', booking, 1], ['PEXPIREAT', booking, at]),
                               (['PERSIST', booking], ['PEXPIREAT', booking, at]),
                               (['SETBIT', event.seats, 1, 0], ['SETBIT', event.seats, 1, 1]),
                               (['ZREM', event.index, 'a'], ['ZADD', event.index, 0, 'a']),
                               (['RENAME', booking, 'gone'], ['RENAME', 'gone', booking])):
            client.execute_command(*damage)
            check(finds_error(sales, client), damage)
            client.execute_command(*repair)
            check(not finds_error(sales, client), repair)
        sales.times['a'] = time.time() - 1000, time.time() - 1000
        check(finds_error(sales, client), 'a booking that should have expired')
        client.delete(booking)
        check(not finds_error(sales, client), 'a booking that has expired')


@suite.case('seats: none is given twice, and seats, figures and bookings agree in every read')
def _(run):
    def play(cluster, number):
        sales = [Sales(new_event(cluster, 'event-%d-%d' % (number, i), BOOKING_SECONDS if i else SHORT_SECONDS))
                 for i in range(EVENTS)]
        with cluster.redis() as client:
            for sale in sales:
                sale.event.create(client)
        clients = [Seller(cluster, sales, 'seller%d' % i, run.rng.random()) for i in range(run.options.clients)]
        play_clients(run, cluster, clients)
        with cluster.redis() as client:
            for sale in sales:
                sale.check_end(client)
        run.note('%d bookings, %d conflicts, %d reads of an event; %d bookings have expired'
                 % (*(sum(getattr(client, name) for client in clients) for name in ('booked', 'conflicts', 'looks')),
                    sum(sale.expired for sale in sales)))
    play_rounds(run, play)


if __name__ == '__main__':
    suite.main()
