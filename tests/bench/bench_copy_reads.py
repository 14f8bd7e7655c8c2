#!/usr/bin/python3
"""bench_copy_reads.py - what it saves the leader of one hot partition that copies answer reads, and what it costs the others.

    load.c ─► scree-proxy, one worker ─► the leader, two copies that follow            GETs of random keys; nothing is written
              replica-reads = no | stale (all clients have sent READONLY) | fresh

The three values of the option take turns; a figure is the median of the runs. CPU is that of each process for one request of a client, whoever
answers it, from its threads' schedstat. All processes share the machine, so throughput is that of its cores, and grows only as far as less
CPU is needed: read it beside the CPU.

Nothing is asserted. A full run writes docs/benchmarks/copy-reads.md, in two minutes on a quiet machine.

  SCREE_BIN=build/test tests/bench/bench_copy_reads.py [--seconds 2] [--repeat 7]
"""

import argparse
import os
import statistics

from page import FOLDER, busy_note, busy_share, heading
from rig import System, load, wait_until_quiet
from support.copies import Voters
from support.harness import check_equal, wait_for

KEYS, SIZE = 100000, 64
GET, SET = 'GET key:{k:%d}' % KEYS, 'SET key:{s} {x:%d}' % SIZE
VALUES = ('no', 'stale', 'fresh')
SHAPES = ((50, 1), (50, 16))  # clients, requests in flight on each connection
LEADER_GOAL = 1 / 3


def options_of(value):
    return {'proxy': {'workers': '1'}, 'upstream': {'replica-reads': value}}


class Run:
    """CPU µs for a GET: of the leader, of both copies that follow, of the proxy; requests a second; µs of latency."""

    def __init__(self, voters, value, clients, depth, seconds):
        leader, *others = [voters.backends[index] for index in voters.order]
        proxy = voters.proxies[0]
        system = System(proxy, also=[leader] + others)
        wait_until_quiet(system)
        before = [process.cpu_seconds() for process in (leader, *others, proxy)]
        sample = load(system, GET, depth=depth, clients=clients, seconds=seconds, waits=False, is_readonly=value == 'stale')
        used = [process.cpu_seconds() - begin for process, begin in zip((leader, *others, proxy), before)]
        requests = sample.rate * seconds
        self.leader, self.others, self.proxy = (part * 1e6 / requests for part in (used[0], used[1] + used[2], used[3]))
        self.rate, self.p50, self.p99, self.errors = sample.rate, sample.p50, sample.p99, sample.errors


def use_value(voters, value):
    """The backends and the proxy have this value of replica-reads, and there are connections to the copies."""
    proxy = voters.proxies[0]
    for index in voters.order:
        with voters.copy(index) as node:
            check_equal(node.get('CONFIG', 'SET', 'replica-reads', value), b'OK')
    proxy.options = options_of(value)
    proxy.write_config()
    proxy.reload()

    def is_in_force():
        with voters.connect() as client:
            return client.get('CONFIG', 'GET', 'upstream-replica-reads')[1] == value.encode()
    wait_for(is_in_force, 'the reload')
    load(System(proxy), GET, seconds=0.3, waits=False, is_readonly=value == 'stale')


def run_of(voters, value, clients, depth, options):
    """A run during which no other copy was elected."""
    while True:
        voters.wait_leader()
        use_value(voters, value)
        run = Run(voters, value, clients, depth, options.seconds)
        if not run.errors and voters.serves(voters.order[0]):
            return run


def middle(runs, name):
    return statistics.median(getattr(run, name) for run in runs)


def row(value, shape, runs, usual):
    leader, share = middle(runs, 'leader'), middle(runs, 'leader') / middle(usual, 'leader')
    cells = ['%d × %d' % shape, value, '%.2f' % leader, '%.2f' % share]
    cells += ['%.2f' % middle(runs, name) for name in ('others', 'proxy')]
    cells += ['%.0f' % middle(runs, name) for name in ('rate', 'p50', 'p99')]
    return cells + ['' if value == 'no' else 'goal a third: %s' % ('met' if share <= LEADER_GOAL else '**missed**')]


def measure(voters, options):
    lines = [busy_note(busy_share(1)), '', 'Values of %d bytes, %d keys; medians of %d runs of %.0f s.' % (SIZE, KEYS, options.repeat, options.seconds), '',
             '| clients × in flight | `replica-reads` | CPU µs of the leader for a request | share | of the two copies that follow | of the proxy '
             '| requests a second | p50 µs | p99 µs | |', '|' + '---|' * 10]
    for shape in SHAPES:
        runs = {value: [] for value in VALUES}
        for _ in range(options.repeat):
            for value in VALUES:
                runs[value].append(run_of(voters, value, *shape, options))
        for value in VALUES:
            cells = row(value, shape, runs[value], runs['no'])
            print('  ' + '  '.join(cells), flush=True)
            lines.append('| %s |' % ' | '.join(cells))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='short runs; writes nothing')
    parser.add_argument('--seconds', type=float, default=2, help='of each run')
    parser.add_argument('--repeat', type=int, default=7)
    parser.add_argument('--output', default=os.path.join(FOLDER, 'copy-reads.md'))
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.repeat = 1, 1
    lines = [heading('What reads at copies save the leader', 'tests/bench/bench_copy_reads.py')]
    with Voters(proxies=1, proxy_options=options_of('no'), backend_options={'backend': {'election-timeout': '500ms'}}) as voters:
        load(System(voters.proxies[0]), SET, count=KEYS, waits=False)
        voters.wait_follows(0, 1, 2)
        lines += measure(voters, options)
    if not options.quick:
        with open(options.output, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
