#!/usr/bin/python3
"""Count-min sketches: the promised error, counts against a dictionary, merges, dumps, and the proxy over three shards."""

import random
import subprocess
from collections import Counter

from support.cluster import Cluster, binary, evict_all
from support.harness import Suite, check, check_equal, sized
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)


def skewed(rng, count, kinds):
    """A stream in which a few items are frequent: item i as often as 1 / (i + 1)."""
    return rng.choices(['item:%d' % i for i in range(kinds)], [1 / (i + 1) for i in range(kinds)], k=count)


def count_all(client, key, counts):
    words = [word for item, count in counts.items() for word in (item, count)]
    for at in range(0, len(words), 1000):
        client.get('CMS.INCRBY', key, *words[at:at + 1000])


def query_all(client, key, items):
    found = []
    for at in range(0, len(items), 1000):
        found += client.get('CMS.QUERY', key, *items[at:at + 1000])
    return found


def fields(reply):
    return {reply[at]: reply[at + 1] for at in range(0, len(reply), 2)}


@suite.case('an estimate is never too low, and exceeds the promised error not more often than promised')
def _(run):
    rng = random.Random(20)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for error, probability in ((0.01, 0.01), (0.01, 0.3), (0.001, 0.05)):
            client.call('DEL', 'k')
            check_equal(client.get('CMS.INITBYPROB', 'k', error, probability), b'OK')
            counts = Counter(skewed(rng, sized(30000, long=300000), sized(8000, long=40000)))
            count_all(client, 'k', counts)
            total = sum(counts.values())
            check_equal(fields(client.get('CMS.INFO', 'k'))[b'count'], total)
            items = list(counts) + ['other:%d' % i for i in range(2000)]
            found = query_all(client, 'k', items)
            check(all(have >= counts[item] for item, have in zip(items, found)), 'an estimate is too low')
            above = sum(have - counts[item] > error * total for item, have in zip(items, found))
            check(above <= probability * len(items), '%d of %d estimates exceed the error %s' % (above, len(items), error))


@suite.case('a command with many items replies and counts as one command for each, also if items share counters')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for width, depth, count in ((3, 2, 50), (200, 5, 3000), (60000, 3, 3000), (7, 64, 3000)):
            client.get('DEL', 'together', 'alone')
            for key in ('together', 'alone'):
                check_equal(client.get('CMS.INITBYDIM', key, width, depth), b'OK')
            pairs = [('item:%d' % rng.randrange(count // 2), rng.choice([0, 1, 5, 1 << 20])) for _ in range(count)]
            items = [item for item, _ in pairs]
            alone = [value(reply)[0] for reply in client.pipeline([('CMS.INCRBY', 'alone', *pair) for pair in pairs])]
            check_equal(client.get('CMS.INCRBY', 'together', *(word for pair in pairs for word in pair)), alone, 'CMS.INCRBY')
            check_equal(client.get('DUMP', 'together'), client.get('DUMP', 'alone'), 'DUMP')
            alone = [value(reply)[0] for reply in client.pipeline([('CMS.QUERY', 'alone', item) for item in items])]
            check_equal(client.get('CMS.QUERY', 'together', *items), alone, 'CMS.QUERY')
        error = ReplyError('CMS: too many items: items * depth must be at most 4194304 counters')
        items = list(range((1 << 22) // 64))
        for words in (['CMS.QUERY', 'alone'], ['CMS.INCRBY', 'alone']):
            words += items if words[0] == 'CMS.QUERY' else [word for item in items for word in (item, 1)]
            check_equal(len(client.get(*words)), len(items), 'as many as possible')
            check_equal(client.get(*words, 'x', *([1] if words[0] == 'CMS.INCRBY' else [])), error)


def merge_words(rng, keys):
    sources = rng.choices(keys, k=rng.randint(1, 3))
    weights = [rng.choice((1, 1, 2, 3)) for _ in sources]
    words = ['CMS.MERGE', rng.choice(keys), len(sources)] + sources
    return words + (['WEIGHTS'] + weights if weights != [1] * len(sources) or rng.random() < 0.5 else []), sources, weights


@suite.case('random commands through a proxy over three shards, as dictionaries: with evicted rows, copies, dumps, and merges over shards')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        keys = ['sketch:%d' % i for i in range(6)]
        have = {key: Counter() for key in keys}
        for key in keys:  # so wide that 100 items have a counter of their own in some row, all but surely
            check_equal(client.get('CMS.INITBYDIM', key, 20000, 5), b'OK')
        for step in range(sized(1000, long=20000)):
            key = rng.choice(keys)
            items = ['i%d' % rng.randrange(100) for _ in range(rng.randint(1, 4))]
            kind = rng.random()
            if kind < 0.6:
                words, expected = ['CMS.INCRBY', key], []
                for item in items:
                    number = rng.randrange(10)
                    have[key][item] += number
                    words += [item, number]
                    expected.append(have[key][item])
                check_equal(client.get(*words), expected, str(words))
            elif kind < 0.9:
                check_equal(client.get('CMS.QUERY', key, *items), [have[key][item] for item in items], 'CMS.QUERY')
            else:
                merge(client, have, *merge_words(rng, keys))
            if step % 100 == 50:
                check_equal(fields(client.get('CMS.INFO', key))[b'count'], sum(have[key].values()), 'CMS.INFO')
                payload = client.get('DUMP', key)
                check_equal(client.get('DEL', key), 1)
                check_equal(client.get('RESTORE', key, '0', payload), b'OK')
                check_equal(client.get('DUMP', key), payload, 'DUMP again')
            if step % 300 == 299:
                for shard in range(3):
                    evict_all(cluster.partition(shard))
        in_exec_and_script(client, have, keys)


def merge(client, have, words, sources, weights):
    """Merges, unless the counts have grown so much that they would be too big soon."""
    merged = Counter()
    for source, weight in zip(sources, weights):
        for item, count in have[source].items():
            merged[item] += weight * count
    if sum(merged.values()) > 1 << 31:
        words, merged = words[:2] + [1, words[1], 'WEIGHTS', 0], Counter()
    check_equal(client.get(*words), b'OK', str(words))
    have[words[1]] = merged


def in_exec_and_script(client, have, keys):
    expected = have[keys[0]] + have[keys[1]]
    replies = [value(reply) for reply in client.pipeline(
        [['MULTI'], ['CMS.MERGE', keys[2], 2, keys[0], keys[1]], ['CMS.QUERY', keys[2], 'i1', 'i2'], ['EXEC']])]
    check_equal(replies[-1], [b'OK', [expected['i1'], expected['i2']]], 'MULTI')
    script = "redis.call('CMS.MERGE', KEYS[1], 2, KEYS[2], KEYS[3], 'WEIGHTS', 2, 2) return redis.call('CMS.QUERY', KEYS[1], 'i1')"
    check_equal(client.get('EVAL', script, '3', keys[3], keys[0], keys[1]), [2 * expected['i1']], 'EVAL')


@suite.case('after kill -9 all acknowledged counts are there, and --check-data checks sketches')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            check_equal(client.get('CMS.INITBYDIM', 'k', 10000, 5), b'OK')
            check_equal(client.get('CMS.INITBYDIM', 'empty', 10000, 5), b'OK')
            count_all(client, 'k', {i: 7 for i in range(200)})
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(fields(client.get('CMS.INFO', 'k'))[b'count'], 1400)
            check_equal(query_all(client, 'k', list(range(200))), [7] * 200)
            check(client.get('MEMORY', 'USAGE', 'k') > 10000, 'MEMORY USAGE')
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and ' 0 problems' in done.stdout, done.stdout + done.stderr)


@suite.case('a payload with a page twice, of a wrong size or number is refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        check_equal(client.get('CMS.INITBYDIM', 'k', 10, 2), b'OK')
        check_equal(client.get('CMS.INCRBY', 'k', 'a', 1), [1])
        payload = client.get('DUMP', 'k')
        check(payload.count(b'screeCM1') == 1, payload)
        for damaged in (payload.replace(b'screeCM1', b'screeCM2'), payload[:-20] + payload[-10:]):
            check(isinstance(value(client.call('RESTORE', 'new', 0, damaged)), ReplyError), 'a damaged payload was accepted')
        check_equal(client.get('EXISTS', 'new'), 0)


if __name__ == '__main__':
    suite.main()
