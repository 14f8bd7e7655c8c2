#!/usr/bin/python3
"""Three shards with three copies each that vote, while copies are killed, frozen and restarted, their clocks jump, their disks hang, fail or lose power,
and what they send to each other is lost, also one way only: what clients saw is strictly serializable, and nothing that was acknowledged is lost.

    test_voter_histories.py [--long MINUTES] [--seed S] [--moves SECONDS]

    clients ──► proxy 0, 1 ──► a0 a1 a2 · b0 b1 b2 · c0 c1 c2       support/outages.py: one network namespace each
       └─────────────────────────▲ also at copies that do not lead

In every second run proxies send reads to all copies (replica-reads = fresh); --fresh: always.

All workloads run at the same time: counters, lists, a bank, seats. Each round has keys of its own and ends with a check of all of them.
"""

import contextlib
import itertools
import random
import sys
import time

from support.appenders import Appending
from support.counters import Counting, Step, wrong_steps
from support.harness import Skip, Suite, check, check_equal, sized
from support.moves import Mover, wait_settled
from support.outages import CUTS, CUTS_ONE_WAY, OF_DISKS, OF_PROGRAMS, SHARDS, Outages, VoterShards
from support.sellers import TicketSales
from support.spaces import enter_node
from support.tellers import Bank
from support.turmoil import wait_for_silence

CLIENTS = ((Counting, 6), (Appending, 4), (Bank, 3), (TicketSales, 2))
REASON = None


def options(parser):
    parser.add_argument('--long', type=float, default=sized(0, long=30), metavar='MINUTES')
    parser.add_argument('--fresh', action='store_true')
    parser.add_argument('--moves', type=float, default=4, metavar='SECONDS',
                        help='with --long: a new map, which moves slots, each time after so many seconds; 0: none')


suite = Suite(__doc__, options)


@suite.case('the checker of counters finds a lost, a doubled, an old and an early value, and none in a history that is right')
def _(run):
    def steps(*of):
        return [Step(begin, end, name == 'INCR', value) for begin, end, name, value in of]
    right = ((0, 1, 'INCR', 1), (0, 9, 'INCR', 3), (2, 3, 'GET', 1), (2, 9, 'INCR', None), (4, 9, 'GET', 2))
    check_equal(wrong_steps(steps(*right), 3), [])
    check_equal(wrong_steps(steps(*right), 2)[0].split(':')[0], 'at the end')
    for step, what in (((10, 11, 'GET', 2), 'old'), ((10, 11, 'INCR', 3), 'twice'), ((10, 11, 'INCR', 3), 'old'), ((3, 5, 'GET', 4), 'from nowhere')):
        found = wrong_steps(steps(*right, step), 3)
        check(any(text.startswith(what) for text in found), '%s: %s was not found in %s' % (step, what, found))


def play_round(run, cluster, number):
    works = [make(cluster, number, run.rng, clients) for make, clients in CLIENTS]
    outages = Outages(run, cluster, [client for work in works for client in work.clients])
    has_moves = run.options.long and run.options.moves
    mover = Mover(cluster, SHARDS, random.Random(run.rng.random()), run.options.moves) if has_moves else contextlib.nullcontext()
    try:
        with outages, mover:
            outages.wait_served()
            for possible in (CUTS_ONE_WAY, CUTS, OF_PROGRAMS, OF_DISKS) * (4 if run.options.long else 1):
                outages.strike(possible)
    finally:
        outages.report()
    if has_moves:
        wait_settled(cluster, range(SHARDS))
    wait_for_silence(cluster)
    for work in works:
        work.check(run)


@suite.case('whatever copies do and whatever is lost between them, histories are strictly serializable, and no acknowledged write is lost')
def _(run):
    if REASON:
        raise Skip(REASON)
    end = time.monotonic() + run.options.long * 60
    is_fresh = run.options.fresh or run.rng.random() < 0.5
    with VoterShards(replica_reads='fresh' if is_fresh else 'stale') as cluster:
        for number in itertools.count():
            play_round(run, cluster, number)
            if time.monotonic() >= end:
                break


if __name__ == '__main__':
    REASON = None if '--list' in sys.argv or '--help' in sys.argv else enter_node()
    suite.main()
