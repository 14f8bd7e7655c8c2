#!/usr/bin/python3
"""Two shards with three copies each that vote, while copies are killed, frozen and asked to hand over: for programs that are built with a
sanitizer (tests/run --sanitize thread, or address), whose reports fail the test.

    test_voter_races.py [--rounds N]

    clients ──► proxy ──► a0 a1 a2 · b0 b1 b2        counters, lists over both shards, a bank
"""

import contextlib

from support.appenders import Appending
from support.cluster import Cluster
from support.counters import Counting
from support.harness import Suite, sized
from support.outages import Outages, VoterShards
from support.resp import Closed
from support.tellers import Bank
from support.turmoil import wait_for_silence

CLIENTS = ((Counting, 3), (Appending, 2), (Bank, 2))
STRIKES = ('kill', 'freeze', 'hand_over')
SHARDS = 2


class Races(VoterShards):
    """All programs have the address of this machine."""

    def place(self):
        return Cluster.place(self)


class Strikes(Outages):
    """Of leaders, most of the time: they have most to do."""

    def __init__(self, run, cluster, clients):
        super().__init__(run, cluster, clients)
        self.possible = STRIKES
        self.faults = dict.fromkeys(self.possible, 0)

    def victims_of(self, fault):
        leaders = [self.cluster.backends[found[0]] for found in map(self.cluster.leader_of, range(SHARDS)) if found]
        return leaders * 2 + self.cluster.backends

    def hand_over(self, victims):
        for victim in victims:
            address = '%s:%d' % victim.addresses[0][:2]
            for sibling in self.siblings(victim):
                with contextlib.suppress(OSError, Closed), self.cluster.copy(sibling.index) as connection:
                    connection.get('SCREE', 'LEADER', 'TO', address)  # it is refused by all but the leader


def options(parser):
    parser.add_argument('--rounds', type=int, default=sized(2, long=40))


suite = Suite(__doc__, options)


@suite.case('leaders are killed, frozen and handed over under transactions: no sanitizer reports anything, and what clients saw is right')
def _(run):
    with Races(shards=SHARDS, proxies=1, has_faults=False) as cluster:
        works = [make(cluster, 0, run.rng, clients) for make, clients in CLIENTS]
        strikes = Strikes(run, cluster, [client for work in works for client in work.clients])
        with strikes:
            strikes.wait_served()
            for _ in range(run.options.rounds):
                for fault in STRIKES:
                    strikes.strike((fault,))
        strikes.report()
        wait_for_silence(cluster)
        for work in works:
            work.check(run)


if __name__ == '__main__':
    suite.main()
