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
import time

from support import harness
from support.appenders import Appending
from support.cluster import Cluster
from support.harness import Failure, Suite, check, check_equal, sized
from support.list_append import DONE, Append, Read, Transaction, anomalies
from support.moves import Mover, wait_settled
from support.relay import Relay
from support.sellers import SEATS, Sales, TicketSales
from support.tellers import Bank
from support.tickets import Event
from support.turmoil import Turmoil, wait_for_silence

SHARDS, PROXIES = 3, 2
STRIKES = 3  # faults of a round
HOUR = 3600


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


def play_rounds(run, play_one):
    """Calls play_one(cluster, number of the round) once, or until --long is over."""
    end = time.monotonic() + run.options.long * 60
    with start_cluster() as cluster:
        for number in itertools.count():
            play_one(cluster, number)
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


# ---- the workloads -----------------------------------------------------------------------------------------------

def play(run, make):
    """Rounds of a workload: make(cluster, number of the round, rng, clients)."""
    def play_one(cluster, number):
        work = make(cluster, number, run.rng, run.options.clients)
        play_clients(run, cluster, work.clients)
        work.check(run)
    play_rounds(run, play_one)


@suite.case('list-append: every history is strictly serializable, and no acknowledged append is lost')
def _(run):
    play(run, Appending)


@suite.case('bank: the sum of all accounts is the same in every read')
def _(run):
    play(run, Bank)


def finds_error(sales, client):
    try:
        sales.check_end(client)
    except Failure:
        return True
    return False


@suite.case('the check of an event finds a booking that is lost, that stays, that expires at another time, and a seat that is free')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.redis() as client:
        sales = Sales(Event('event', SEATS, HOUR))  # no booking expires while the test runs, however slow the machine is
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
                               (['EXPIRE', booking, 1000], ['PEXPIREAT', booking, at]),
                               (['PERSIST', booking], ['PEXPIREAT', booking, at]),
                               (['SETBIT', event.seats, 1, 0], ['SETBIT', event.seats, 1, 1]),
                               (['ZREM', event.index, 'a'], ['ZADD', event.index, 0, 'a']),
                               (['RENAME', booking, 'gone'], ['RENAME', 'gone', booking])):
            client.execute_command(*damage)
            check(finds_error(sales, client), damage)
            client.execute_command(*repair)
            check(not finds_error(sales, client), repair)
        sales.times['a'] = time.time() - 2 * HOUR, time.time() - 2 * HOUR
        check(finds_error(sales, client), 'a booking that should have expired')
        client.delete(booking)
        check(not finds_error(sales, client), 'a booking that has expired')


@suite.case('seats: none is given twice, and seats, figures and bookings agree in every read')
def _(run):
    play(run, TicketSales)


if __name__ == '__main__':
    suite.main()
