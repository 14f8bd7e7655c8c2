#!/usr/bin/python3
"""bench_copies.py - what three copies that vote cost, and for how long no write is acknowledged when their leader is lost.

    one copy   load.c ─► scree-backend                              all with durability = always, on one machine and one disk
    voters     load.c ─► the leader ─► two more scree-backends

Cost: durable SETs of random keys. The systems take turns; a figure is the median of the runs. CPU is that of each process, from its threads'
schedstat, so it does not depend on who else uses the machine; throughput and latency do. A round trip between copies is that of one
machine, and all three copies share its disk.

Gaps: a client of a proxy counts a key up, one request after the other, with the default options. The leader is killed, stopped, or cut off, and
the gap is the longest time between two acknowledgements around that. Each program is in a network namespace of its own. A machine that is
busy makes gaps longer: the page says how busy it was.

Nothing is asserted. A full run writes docs/benchmarks/copies.md, in six minutes on a quiet machine.

  SCREE_BIN=build/test tests/bench/bench_copies.py [--seconds 2] [--repeat 7] [--kills 30] [--cuts 10]     as root, for the gaps
"""

import argparse
import os
import statistics
import threading
import time

from page import FOLDER, busy_note, busy_share, heading
from rig import System, load, wait_until_quiet
from support.cluster import Cluster
from support.copies import Voters
from support.harness import wait_for
from support.outages import VoterShards
from support.resp import Closed, ReplyError
from support.spaces import enter_node

KEYS, SIZE = 100000, 64
WORDS = 'SET key:{k:%d} {x:%d}' % (KEYS, SIZE)
SHAPES = ((1, 1), (50, 1), (50, 16))  # clients, requests in flight on each connection
LEADER_GOAL, ALL_GOAL, LATENCY_GOAL_US = 1.3, 2.3, 200
GAP_GOALS_MS = {'kill -9': 1000, 'SIGSTOP': 1200, 'cut both ways': 1200, 'cut one way': 1200}


# ---- cost --------------------------------------------------------------------------------------------------------

class Cost:
    """A run: CPU µs for a SET of each process, the first one that of the server; requests a second; µs of latency."""

    def __init__(self, processes, clients, depth, seconds):
        system = System(processes[0], also=processes[1:])
        wait_until_quiet(system)
        before = [process.cpu_seconds() for process in processes]
        sample = load(system, WORDS, depth=depth, clients=clients, seconds=seconds, waits=False)
        requests = sample.rate * seconds
        self.cpu_us = [(process.cpu_seconds() - begin) * 1e6 / requests for process, begin in zip(processes, before)]
        self.rate, self.p50, self.p99, self.errors = sample.rate, sample.p50, sample.p99, sample.errors


def run_of(voters, clients, depth, options):
    """A run during which no other copy was elected."""
    while True:
        voters.wait_leader()
        cost = Cost([voters.backends[index] for index in voters.order], clients, depth, options.seconds)
        if not cost.errors and voters.serves(voters.order[0]):
            return cost


def middle(costs, figure):
    return statistics.median(figure(cost) for cost in costs)


def verdict(is_met):
    return 'met' if is_met else '**missed**'


def cost_rows(alone, voters, clients, depth):
    one, leader = middle(alone, lambda cost: cost.cpu_us[0]), middle(voters, lambda cost: cost.cpu_us[0])
    every = middle(voters, lambda cost: sum(cost.cpu_us))
    cells = ['%d × %d' % (clients, depth), '%.1f' % one, '%.1f' % leader, '%.2f' % (leader / one), '%.1f' % every, '%.2f' % (every / one)]
    for figure in (lambda cost: cost.rate, lambda cost: cost.p50, lambda cost: cost.p99):
        cells += ['%.0f' % middle(costs, figure) for costs in (alone, voters)]
    if (clients, depth) == (50, 1):
        cells.append('goals %.1f and %.1f: %s, %s' % (LEADER_GOAL, ALL_GOAL, verdict(leader <= LEADER_GOAL * one), verdict(every <= ALL_GOAL * one)))
    elif clients == 1:
        more = middle(voters, lambda cost: cost.p50) - middle(alone, lambda cost: cost.p50)
        cells.append('p50 + %.0f µs; goal: a round trip and %d µs' % (more, LATENCY_GOAL_US))
    else:
        cells.append('')
    return cells


def measure_cost(options):
    """Lines of the page."""
    lines = ['## Cost of a durable SET', '', busy_note(busy_share(1)), '',
             'Values of %d bytes, %d keys; medians of %d runs of %.0f s.' % (SIZE, KEYS, options.repeat, options.seconds), '',
             '| clients × in flight | CPU µs, one copy | at the leader | ratio | all three copies | ratio | requests a second, one copy | voters '
             '| p50 µs, one copy | voters | p99 µs, one copy | voters | |', '|' + '---|' * 13]
    with Cluster(backends=1, partitions=1, proxies=0) as single, \
            Voters(backend_options={'backend': {'election-timeout': '500ms'}}) as voters:
        for clients, depth in SHAPES:
            alone, together = [], []
            for _ in range(options.repeat):
                alone.append(Cost(single.backends, clients, depth, options.seconds))
                together.append(run_of(voters, clients, depth, options))
            cells = cost_rows(alone, together, clients, depth)
            print('  ' + '  '.join(cells), flush=True)
            lines.append('| %s |' % ' | '.join(cells))
    return lines + ['']


# ---- gaps --------------------------------------------------------------------------------------------------------

class Counter(threading.Thread):
    """Counts a key up through a proxy, and notes when each was acknowledged."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.times, self.is_over = cluster, [], threading.Event()

    def run(self):
        while not self.is_over.is_set():
            try:
                with self.cluster.connect() as connection:
                    while not self.is_over.is_set():
                        if not isinstance(connection.get('INCR', 'k'), ReplyError):
                            self.times.append(time.monotonic())
            except (OSError, Closed):
                time.sleep(0.01)

    def gap_ms(self, lose):
        """Loses the leader; the longest time between two acknowledgements from then on."""
        self.wait_more(100)
        first = len(self.times) - 1
        begin = time.monotonic()
        lose()
        wait_for(lambda: self.times[-1] > begin + 0.5 and len(self.times) > first + 200, 'writes to go on', 120)
        times = self.times[first:]
        return max(later - before for before, later in zip(times, times[1:])) * 1000

    def wait_more(self, count):
        goal = len(self.times) + count
        wait_for(lambda: len(self.times) > goal, 'writes to be acknowledged', 120)


class Losses:
    """What happens to the leader, and how it comes back."""

    def __init__(self, cluster):
        self.cluster = cluster

    def choose(self):
        self.cluster.wait_linked()
        index, = wait_for(lambda: self.cluster.leader_of(0), 'a leader')
        self.leader, self.space = self.cluster.backends[index], self.cluster.spaces[index]
        self.others = [space for space in self.cluster.spaces if space is not self.space]

    def kill(self):
        self.leader.kill9()

    def stop(self):
        self.leader.pause()

    def silence(self):
        for other in self.others:
            self.space.lose(other.address)

    def cut(self):
        self.silence()
        for other in self.others:
            other.lose(self.space.address)

    def heal(self):
        if not self.leader.alive():
            self.leader.start()
        self.leader.resume()
        for space in self.cluster.spaces:
            space.heal()


def measure_gaps(options):
    """Lines of the page."""
    lines = ['## Gaps between acknowledgements', '', busy_note(busy_share(1)), '',
             'Three copies, one proxy, one client, the default options. Milliseconds.', '',
             '| the leader | times | p50 | p90 | p99 | longest | |', '|---|---|---|---|---|---|---|']
    with VoterShards(shards=1, proxies=1, is_plain=True) as cluster:
        counter, losses = Counter(cluster), Losses(cluster)
        counter.start()
        for name, lose, times in (('kill -9', losses.kill, options.kills), ('SIGSTOP', losses.stop, options.cuts),
                                  ('cut both ways', losses.cut, options.cuts), ('cut one way', losses.silence, options.cuts)):
            gaps = []
            for _ in range(times):
                losses.choose()
                gaps.append(counter.gap_ms(lose))
                losses.heal()
            gaps.sort()
            cells = [name, '%d' % times] + ['%.0f' % gaps[min(times - 1, int(times * share))] for share in (0.5, 0.9, 0.99)]
            cells += ['%.0f' % gaps[-1], 'goal %d, %s' % (GAP_GOALS_MS[name], verdict(gaps[min(times - 1, int(times * 0.99))] <= GAP_GOALS_MS[name]))]
            print('  ' + '  '.join(cells), flush=True)
            lines.append('| %s |' % ' | '.join(cells))
        counter.is_over.set()
        counter.join()
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='short runs; writes nothing')
    parser.add_argument('--seconds', type=float, default=2, help='of each run')
    parser.add_argument('--repeat', type=int, default=7)
    parser.add_argument('--kills', type=int, default=30)
    parser.add_argument('--cuts', type=int, default=10)
    parser.add_argument('--output', default=os.path.join(FOLDER, 'copies.md'))
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.repeat, options.kills, options.cuts = 1, 1, 2, 1
    reason = enter_node()
    lines = [heading('What copies that vote cost', 'tests/bench/bench_copies.py')] + measure_cost(options)
    lines += ['Gaps were not measured: %s.' % reason] if reason else measure_gaps(options)
    if not options.quick:
        with open(options.output, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines).rstrip().replace('\n\n\n', '\n\n') + '\n')


if __name__ == '__main__':
    main()
