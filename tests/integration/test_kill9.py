#!/usr/bin/python3
"""kill -9 at random moments: acknowledged writes are there, others are whole or absent, counts are exact."""

import random

from support.cluster import Cluster, evict_all, scan_all, slot_of
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.load import Counter, Watcher, Writer, verify
from support.resp import ReplyError


def options(parser):
    parser.add_argument('--rounds', type=int, default=sized(6, long=100))
    parser.add_argument('--clients', type=int, default=8)


suite = Suite(__doc__, options)


def wait_shards(cluster, client):
    """Waits until every shard serves this client again. (Each worker of a proxy has connections of its own, and one
    more for commands that may take long.)"""
    for shard in range(len(cluster.slots)):
        key = cluster.key_on(shard, 'no key')  # whatever the cases write, it has no type
        for words in (['EXISTS', key], ['HGETALL', key]):
            wait_for(lambda: not isinstance(client.get(*words), ReplyError), 'shard %d to answer %s' % (shard, words[0]))


def all_answer(cluster):
    for index in range(len(cluster.proxies)):
        with cluster.connect(index) as client:
            wait_shards(cluster, client)


def check_counts(cluster):
    """Compares DBSIZE and COUNTKEYSINSLOT of every partition with a complete SCAN."""
    for shard in range(len(cluster.slots)):
        with cluster.partition(shard) as client:
            keys = scan_all(client, 'COUNT', '1000')
            check_equal(client.get('DBSIZE'), len(keys), 'DBSIZE of shard %d against its SCAN' % shard)
            counts = {}
            for key in keys:
                counts[slot_of(key)] = counts.get(slot_of(key), 0) + 1
            for slot in sorted(counts)[:400] + [slot for slot in range(0, 16384, 997) if slot not in counts]:
                check_equal(client.get('CLUSTER', 'COUNTKEYSINSLOT', slot), counts.get(slot, 0), 'keys in slot %d' % slot)


def crash(run, cluster, rng, writers, round_number):
    """Kills one or several servers at a random moment of the load, and starts them again."""
    busy = sum(writer.acknowledged for writer in writers) + rng.randint(1, 4000)
    wait_for(lambda: sum(writer.acknowledged for writer in writers) >= busy or any(w.wrong for w in writers),
             'writes to be acknowledged')
    victims = rng.sample(cluster.backends, rng.choice([1, 1, 1, len(cluster.backends)]))
    if round_number % 3 == 2:
        victims = victims + [rng.choice(cluster.proxies)]
    refused = sum(writer.refused for writer in writers) + 20
    for victim in victims:
        victim.kill9()
    if rng.random() < 0.5:
        wait_for(lambda: sum(writer.refused for writer in writers) >= refused or any(w.wrong for w in writers) or
                 not any(unit.is_certain() for writer in writers for unit in writer.units),
                 'errors while servers are down')
    for victim in victims:
        victim.start()
        if rng.random() < 0.2 and victim in cluster.backends:  # once more, soon after its start
            victim.kill9()
            victim.start()
    run.debug('killed %s' % ', '.join(victim.name for victim in victims))


def chill(cluster):
    """Evicts all rows from memory; returns the number of rows and ranges fetched so far."""
    fetches = 0
    for shard in range(len(cluster.slots)):
        with cluster.partition(shard) as client:
            evict_all(client)
            fetches += sum(int(line[len('uncached_fetches:'):]) for line in client.get('INFO', 'stats').decode().split()
                           if line.startswith('uncached_fetches:'))
    return fetches


def kill_loop(run, rounds, is_uncached=False, **cluster_options):
    rng = random.Random(run.seed)
    with Cluster(backends=2, partitions=2, proxies=2, **cluster_options) as cluster:
        histories = []
        for round_number in range(rounds):
            writers = [Writer(cluster.proxies[i % 2].address, 'r%d-c%d' % (round_number, i), random.Random(rng.random()))
                       for i in range(run.options.clients)]
            counters = [unit for writer in writers for unit in writer.units if isinstance(unit, Counter)]
            watcher = Watcher(cluster.proxies[round_number % 2].address, counters)
            for thread in writers + [watcher]:
                thread.may_lose_connection = round_number % 3 == 2  # a proxy is killed in these rounds
                thread.start()
            if is_uncached:
                chill(cluster)
            crash(run, cluster, rng, writers, round_number)
            all_answer(cluster)
            if is_uncached:
                chill(cluster)
            for writer in writers:
                writer.finish()
            watcher.stopping.set()
            watcher.join(patience())
            histories += [unit for writer in writers for unit in writer.units]
            if is_uncached:
                chill(cluster)
            check_round(run, cluster, round_number, writers, watcher, histories)
            if is_uncached:
                check(chill(cluster) > 0, 'no row was read from the disk')


def check_round(run, cluster, round_number, writers, watcher, histories):
    wrong = [text for thread in writers + [watcher] for text in thread.wrong]
    with cluster.connect(round_number % 2) as client:
        wait_shards(cluster, client)
        unsure = sum(1 for unit in histories if not unit.is_certain())
        wrong += verify(histories, client)
    run.debug('round %d: %d operations acknowledged, %d refused, %d unanswered; last error: %s'
              % (round_number, sum(writer.acknowledged for writer in writers), sum(writer.refused for writer in writers),
                 unsure, next((writer.last_error for writer in writers if writer.last_error), None)))
    for unit in histories:
        if isinstance(unit, Counter) and unit.state() < watcher.seen.get(unit.name, 0):
            wrong.append('%s: a client saw %d, now it is %d' % (unit.name, watcher.seen[unit.name], unit.state()))
    check(not wrong, 'round %d: %d wrong, the first: %s' % (round_number, len(wrong), (wrong or [''])[0]))
    check_counts(cluster)


@suite.case('durability = always: every acknowledged write survives kill -9, blocks are whole, counts are exact')
def _(run):
    kill_loop(run, run.options.rounds)


@suite.case('durability = always with tiny memtables and caches: kill -9 during flushes and compactions loses nothing either')
def _(run):
    for reader_threads in (16, 1):
        kill_loop(run, max(1, run.options.rounds // 4), is_uncached=True, backend_options={'store': {
            'memtable': '256kb', 'memtables': 2, 'write-buffer': '4kb', 'wal-limit': '1mb', 'block-cache': '1mb', 'row-cache': '1',
            'rank-cache': '4kb', 'compression': 'none', 'reader-threads': reader_threads}})


def write_much(client, rng, rows):
    """Commands of several types, with deletes of keys and of everything in between; `rows` becomes what is there."""
    for step in range(400):
        commands = [rng.choice([['SET', 'key:%d' % rng.randrange(3000), 'v' * rng.randrange(2000)],
                                ['HSET', 'hash:%d' % rng.randrange(300), 'f%d' % rng.randrange(20), 'v' * rng.randrange(1000)],
                                ['DEL', 'key:%d' % rng.randrange(3000)], ['DEL', 'hash:%d' % rng.randrange(300)],
                                ['PEXPIRE', 'key:%d' % rng.randrange(3000), 10000000]]) for _ in range(100)]
        client.pipeline(commands + ([['FLUSHALL']] if step in (50, 390) else []))
    for kind, words in (('key', ['GET']), ('hash', ['HGETALL'])):
        for number in range(3000 if kind == 'key' else 300):
            rows[b'%s:%d' % (kind.encode(), number)] = client.get(*words, '%s:%d' % (kind, number))


@suite.case('a log that is longer than the memory for its rows is replayed in parts: every key is as before')
def _(run):
    options = {'backend': {'durability': 'os'}, 'store': {'wal-limit': '256mb', 'memtable': '64mb', 'write-buffer': '256mb'}}
    with Cluster(backends=1, partitions=1, backend_options=options) as cluster:
        before, after = {}, {}
        with cluster.connect() as client:
            write_much(client, run.rng, before)
            keys = client.get('DBSIZE')
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        with cluster.connect() as client:
            wait_shards(cluster, client)
            for key in before:
                after[key] = client.get('GET' if key.startswith(b'key') else 'HGETALL', key)
            check_equal(client.get('DBSIZE'), keys)
        check_equal(after, before)
        check_counts(cluster)


@suite.case('durability = everysec: kill -9 of the process loses nothing either (only a power loss may)')
def _(run):
    kill_loop(run, max(1, run.options.rounds // 3), backend_options={'backend': {'durability': 'everysec'}})


if __name__ == '__main__':
    suite.main()
