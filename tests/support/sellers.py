"""sellers.py - redis-py sells tickets (tickets.py): no seat is given twice, and seats, figures and bookings agree in every read.

    work = TicketSales(cluster, number, rng, clients)   # events of their own for each number
    …                                                   # work.clients run (support/turmoil.py)
    work.check(run)
"""

import itertools
import threading
import time

import redis

from support import harness
from support.harness import check, check_equal
from support.list_append import DONE, REFUSED, UNKNOWN
from support.tickets import BOOKING_SECONDS, FREE, SECTIONS, Event, choose, seat_state
from support.turmoil import REPLY_TIMEOUT, Client, outcome_of

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
        return self.cluster.redis(self.rng.randrange(len(self.cluster.proxies)), socket_timeout=REPLY_TIMEOUT * harness.SLOW)

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


class TicketSales:
    def __init__(self, cluster, number, rng, clients):
        self.cluster = cluster
        self.sales = [Sales(new_event(cluster, 'event-%d-%d' % (number, i), BOOKING_SECONDS if i else SHORT_SECONDS))
                      for i in range(EVENTS)]
        with cluster.redis() as client:
            for sale in self.sales:
                sale.event.create(client)
        self.clients = [Seller(cluster, self.sales, 'seller%d' % i, rng.random()) for i in range(clients)]

    def check(self, run):
        with self.cluster.redis() as client:
            for sale in self.sales:
                sale.check_end(client)
        run.note('%d bookings, %d conflicts, %d reads of an event; %d bookings have expired'
                 % (*(sum(getattr(client, name) for client in self.clients) for name in ('booked', 'conflicts', 'looks')),
                    sum(sale.expired for sale in self.sales)))
