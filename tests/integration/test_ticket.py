#!/usr/bin/python3
"""Selling tickets: every reservation changes seats, an event document, a booking and two indexes in one MULTI/EXEC.

The keys (support/tickets.py) are on different shards, if there are several. Sellers (redis-py in threads, redis-py with
asyncio) compete for the same seats, with WATCH. Readers read all of these keys in one MULTI/EXEC and must never see half of
a reservation.
"""

import asyncio
import random
import threading

import redis
import redis.asyncio

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, patience, wait_for
from support.tickets import BOOKING_SECONDS, SECTIONS, Event, choose


def options(parser):
    parser.add_argument('--sellers', type=int, default=16)


suite = Suite(__doc__, options)


class Ledger:
    """The sellers' bookings, and the errors found by readers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.bookings, self.conflicts, self.looks, self.wrong = {}, 0, 0, []

    def count(self):
        return len(self.bookings)

    def booked(self, ident, seats):
        with self.lock:
            taken = set(seats) & {seat for other in self.bookings.values() for seat in other}
            if taken:
                self.wrong.append('seats %r were reserved twice' % sorted(taken))
            self.bookings[ident] = seats


def sell_out(event, client, seller, seed, ledger):
    """A seller with redis-py; sells until no seat is free."""
    rng, serial, empty = random.Random(seed), 0, set()
    while len(empty) < SECTIONS and not ledger.wrong:
        section = rng.choice([number for number in range(SECTIONS) if number not in empty])
        with client.pipeline(transaction=True) as pipe:
            pipe.watch(event.seats)
            free = event.free_seats(pipe.getrange(event.seats, *event.range_of(section)), section)
            if not free:
                empty.add(section)
                continue
            seats, ident = choose(rng, free), '%s-%d' % (seller, serial)
            pipe.multi()
            event.reserve(pipe, section, seats, ident, seller, 1700000000 + serial)
            try:
                pipe.execute()
            except redis.WatchError:
                ledger.conflicts += 1
                continue
        serial += 1
        ledger.booked(ident, seats)
        if rng.random() < 0.5:
            with client.pipeline(transaction=True) as pipe:
                event.sell(pipe, section, seats)
                pipe.execute()


async def sell_out_async(event, client, seller, seed, ledger):
    rng, serial, empty = random.Random(seed), 0, set()
    while len(empty) < SECTIONS and not ledger.wrong:
        section = rng.choice([number for number in range(SECTIONS) if number not in empty])
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(event.seats)
            free = event.free_seats(await pipe.getrange(event.seats, *event.range_of(section)), section)
            if not free:
                empty.add(section)
                continue
            seats, ident = choose(rng, free), '%s-%d' % (seller, serial)
            pipe.multi()
            event.reserve(pipe, section, seats, ident, seller, 1700000000 + serial)
            try:
                await pipe.execute()
            except redis.WatchError:
                ledger.conflicts += 1
                continue
        serial += 1
        ledger.booked(ident, seats)


def watch_over(event, client, done, ledger):
    """A reader: reads the whole event in one transaction, repeatedly."""
    while not done.is_set() and not ledger.wrong:
        with client.pipeline(transaction=True) as pipe:
            event.look(pipe)
            wrong = event.judge(pipe.execute())
        ledger.looks += 1
        if wrong:
            ledger.wrong.append('a reader saw ' + wrong)


def run_threads(jobs, ledger):
    failures = []

    def guarded(job):
        try:
            job()
        except Exception as error:  # the test reports it
            failures.append('%s: %s' % (type(error).__name__, error))
    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):  # as long as they sell, they may take as long as this machine needs
        before = ledger.count()
        wait_for(lambda: ledger.count() > before or not any(thread.is_alive() for thread in threads), 'every seller to go on')
    return failures


def finish(event, client, ledger, failures):
    check_equal(failures, [], 'failures')
    check_equal(ledger.wrong, [], 'what must not be')
    seats = sorted(seat for booked in ledger.bookings.values() for seat in booked)
    check_equal(seats, list(range(SECTIONS * event.seats_of_section)), 'each seat was reserved once')
    with client.pipeline(transaction=True) as pipe:
        event.look(pipe)
        check_equal(event.judge(pipe.execute()), None, 'the end')
    check_equal(client.zcard(event.index), len(ledger.bookings), 'bookings')
    for ident, booked in ledger.bookings.items():
        key = event.booking(ident)
        check_equal(client.hget(key, 'seats'), ','.join(map(str, booked)).encode(), 'seats of ' + ident)
        check(0 < client.ttl(key) <= BOOKING_SECONDS, 'a booking goes by itself')
    check(ledger.looks > 0, 'readers looked')


def client_of(cluster):
    host, port = (cluster.proxies[0].address if cluster.proxies else cluster.backends[0].addresses[0])
    return redis.Redis(host, port, socket_timeout=patience())


def play_threads(run, **shape):
    with Cluster(**shape) as cluster:
        event, ledger, done = Event('concert'), Ledger(), threading.Event()
        client = client_of(cluster)
        event.create(client)

        def sellers():
            failures = run_threads([
                lambda n=n: sell_out(event, client_of(cluster), 'seller%d' % n, run.seed + n, ledger)
                for n in range(run.options.sellers)], ledger)
            done.set()
            if failures:
                raise AssertionError('; '.join(failures))
        failures = run_threads([sellers] + [lambda: watch_over(event, client_of(cluster), done, ledger)] * 2, ledger)
        finish(event, client, ledger, failures)
        run.note('%d bookings, %d conflicts, %d looks' % (len(ledger.bookings), ledger.conflicts, ledger.looks))


def play_async(run, **shape):
    with Cluster(**shape) as cluster:
        event, ledger, done = Event('match'), Ledger(), threading.Event()
        client = client_of(cluster)
        event.create(client)
        host, port = cluster.proxies[0].address if cluster.proxies else cluster.backends[0].addresses[0]

        async def sellers():
            clients = [redis.asyncio.Redis(host=host, port=port) for _ in range(run.options.sellers)]
            await asyncio.gather(*(sell_out_async(event, one, 'seller%d' % n, run.seed + n, ledger)
                                   for n, one in enumerate(clients)))
            for one in clients:
                await one.close()

        def all_sellers():
            try:
                asyncio.run(sellers())
            finally:
                done.set()
        failures = run_threads([all_sellers, lambda: watch_over(event, client_of(cluster), done, ledger)], ledger)
        finish(event, client, ledger, failures)
        run.note('%d bookings, %d conflicts, %d looks' % (len(ledger.bookings), ledger.conflicts, ledger.looks))


DIRECT = {'backends': 1, 'partitions': 1, 'proxies': 0}


def behind_proxies(shards):
    return {'backends': shards, 'partitions': 1, 'proxies': 1, 'linked': True}


@suite.case('redis-py in threads, one partition: seats, document and indexes always agree')
def _(run):
    play_threads(run, **DIRECT)


@suite.case('redis-py in threads through the proxy, 1, 3 and 5 shards: seats, document and indexes always agree')
def _(run):
    for shards in (1, 3, 5):
        play_threads(run, **behind_proxies(shards))


@suite.case('redis-py with asyncio, one partition: seats, document and indexes always agree')
def _(run):
    play_async(run, **DIRECT)


@suite.case('redis-py with asyncio through the proxy, 1, 3 and 5 shards: seats, document and indexes always agree')
def _(run):
    for shards in (1, 3, 5):
        play_async(run, **behind_proxies(shards))


if __name__ == '__main__':
    suite.main()
