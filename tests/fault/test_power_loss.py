#!/usr/bin/python3
"""Power loss: only synced bytes are left. With durability = always no acknowledged write is lost, and no MULTI block is
torn.
"""

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
    """Writers run until a power loss; returns their units and the number of acknowledged operations."""
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
    """Yields the errors found after each power loss."""
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


@suite.case('durability = always: a power loss loses no acknowledged write and tears no MULTI block')
def _(run):
    for wrong in power_rounds(run, run.options.rounds):
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('durability = always with tiny memtables: a power loss during flushes and compactions loses nothing either')
def _(run):
    for wrong in power_rounds(run, max(2, run.options.rounds // 2), store={'memtable': '256kb', 'write-buffer': '4kb', 'wal-limit': '1mb'}):
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('durability = os loses writes at a power loss (so the cases above can fail), and the store still opens')
def _(run):
    lost = sum(len(wrong) for wrong in power_rounds(run, 3, backend={'durability': 'os'}))
    check(lost > 0, 'nothing was lost in 3 rounds: the simulated power loss does not work')


@suite.case('durability = everysec: a power loss loses only writes of the last seconds')
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
