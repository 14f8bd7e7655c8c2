#!/usr/bin/python3
"""Power loss: only what was fsynced is left. With durability = always no acknowledged write is lost, and no block torn."""

import os
import random

from support.cluster import Cluster, scan_all
from support.disk import FaultyDisk
from support.harness import Suite, check, check_equal, sized, wait_for
from support.load import Writer, verify
from support.resp import value


def options(parser):
    parser.add_argument('--rounds', type=int, default=sized(6, long=100))


suite = Suite(__doc__, options)


def play_round(run, cluster, rng, number, clients=6):
    """Writers at work; the machine dies; returns their units and how many operations were acknowledged."""
    backend = cluster.backends[0]
    writers = [Writer(backend.addresses[i % len(backend.addresses)], 'r%d-c%d' % (number, i), random.Random(rng.random()))
               for i in range(clients)]
    for writer in writers:
        writer.may_lose_connection = True
        writer.start()
    wanted = rng.randint(200, 3000)
    wait_for(lambda: sum(writer.acknowledged for writer in writers) >= wanted or any(w.wrong for w in writers),
             'writes to be acknowledged')
    backend.kill9()
    for writer in writers:
        writer.finish()
    wrong = [text for writer in writers for text in writer.wrong]
    check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))
    return [(i % len(backend.addresses), writer.units) for i, writer in enumerate(writers)]


def verify_all(cluster, histories):
    wrong = []
    for shard in range(cluster.partitions):
        with cluster.partition(shard) as client:
            units = [unit for where, some in histories if where == shard for unit in some]
            wrong += verify(units, client)
            check_equal(client.get('DBSIZE'), len(scan_all(client, 'COUNT', '1000')), 'DBSIZE against SCAN')
    return wrong


def power_rounds(run, rounds, **backend_options):
    """Yields what is wrong after each loss of power."""
    rng = random.Random(run.seed)
    with FaultyDisk() as disk, Cluster(backends=1, partitions=2, proxies=0, backend_options=backend_options,
                                       disk=disk) as cluster:
        backend = cluster.backends[0]
        histories = []
        for number in range(rounds):
            histories += play_round(run, cluster, rng, number)
            lost = disk.lose_power(rng)
            backend.start()
            run.debug('round %d: %d bytes that were not synced are lost' % (number, lost))
            yield verify_all(cluster, histories)


@suite.case('durability = always: a power loss takes no acknowledged write and tears no block')
def _(run):
    for wrong in power_rounds(run, run.options.rounds):
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('the same with tiny memtables: flushes and compactions are interrupted too')
def _(run):
    for wrong in power_rounds(run, max(2, run.options.rounds // 2), store={'memtable': '256kb', 'write-buffer': '4kb', 'wal-limit': '1mb'}):
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('durability = os does lose writes then (this shows that the case above can fail), and still opens')
def _(run):
    lost = sum(len(wrong) for wrong in power_rounds(run, 3, backend={'durability': 'os'}))
    check(lost > 0, 'nothing was lost in 3 rounds: the simulated power loss does not work')


@suite.case('durability = everysec: what is older than some seconds is safe')
def _(run):
    rng = random.Random(run.seed)
    options = {'backend': {'durability': 'everysec'}}
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, backend_options=options,
                                       disk=disk) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.pipeline([['SET', 'old:%d' % i, 'x' * 100] for i in range(2000)])
            logs = [os.stat(os.path.join(folder, name)) for folder, _, names in os.walk(backend.data)
                    for name in names if name.endswith('.batches')]
            wait_for(lambda: all(disk.is_guaranteed(log) for log in logs), 'the WAL to be synced')
            client.pipeline([['SET', 'new:%d' % i, 'x'] for i in range(2000)])
        backend.kill9()
        disk.lose_power(rng)
        backend.start()
        with cluster.partition(0) as client:
            there = [value(reply) for reply in client.pipeline([['EXISTS', 'old:%d' % i] for i in range(2000)])]
            check_equal(sum(there), 2000, 'writes that had been synced')


if __name__ == '__main__':
    suite.main()
