#!/usr/bin/python3
"""T-digests: estimates against sorted lists, merges over shards, dumps, damaged payloads, and the proxy over three shards."""

import bisect
import random
import struct
import subprocess

from support.cluster import Cluster, binary, evict_all
from support.harness import Suite, check, check_equal, sized
from support.rdb_payload import with_footer
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)
RDB_VERSION = 10
QUANTILES = (0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1)
SHAPES = {
    'uniform': lambda rng, i: rng.random(),
    'normal': lambda rng, i: rng.gauss(100, 15),
    'ascending': lambda rng, i: i,
    'descending': lambda rng, i: -i / 8,
    'skewed': lambda rng, i: rng.paretovariate(1),
}


def add_all(client, key, values):
    for at in range(0, len(values), 500):
        check_equal(client.get('TDIGEST.ADD', key, *map(repr, values[at:at + 500])), b'OK')


def fields(reply):
    return {reply[at]: reply[at + 1] for at in range(0, len(reply), 2)}


def error_of(values, found, part):
    """How far the fraction is from those of the sorted values that are less than, and at most, the found value."""
    least = bisect.bisect_left(values, found) / len(values)
    most = bisect.bisect_right(values, found) / len(values)
    return max(least - part, part - most, 0)


def check_estimates(client, key, values, limit):
    """`values` is sorted; the limit is that of fractions in the middle, and a tenth of it at both ends."""
    found = [float(text) for text in client.get('TDIGEST.QUANTILE', key, *QUANTILES)]
    for part, estimate in zip(QUANTILES, found):
        most = limit if 0.01 <= part <= 0.99 else limit / 10
        check(error_of(values, estimate, part) <= most, '%s: quantile %s is %r' % (key, part, estimate))
    check_equal([found[0], found[-1]], [values[0], values[-1]], '%s: bounds' % key)
    check_equal([float(client.get('TDIGEST.' + name, key)) for name in ('MIN', 'MAX')], [values[0], values[-1]], key)
    some = values[::max(1, len(values) // 20)]
    for number, part in zip(some, client.get('TDIGEST.CDF', key, *map(repr, some))):
        check(error_of(values, number, float(part)) <= limit, '%s: CDF of %r is %r' % (key, number, part))
    ranks = client.get('TDIGEST.RANK', key, *map(repr, some))
    reverse = client.get('TDIGEST.REVRANK', key, *map(repr, some))
    for number, rank, other in zip(some, ranks, reverse):
        check(abs(rank - bisect.bisect_left(values, number)) <= limit * len(values) + values.count(number), '%s: RANK of %r' % (key, number))
        check(abs(rank + other - len(values)) <= 1, '%s: RANK %d and REVRANK %d of %r' % (key, rank, other, number))
    check_equal(fields(client.get('TDIGEST.INFO', key))[b'Observations'], len(values))


@suite.case('estimates are close to the exact ones, whatever the distribution and the order of the values')
def _(run):
    rng = random.Random(30)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for shape, draw in SHAPES.items():
            values = [float(draw(rng, i)) for i in range(sized(20000, long=400000))]
            for compression, limit in ((100, 0.005), (1000, 0.0005)):
                key = '%s:%d' % (shape, compression)
                check_equal(client.get('TDIGEST.CREATE', key, 'COMPRESSION', compression), b'OK')
                add_all(client, key, values)
                check_estimates(client, key, sorted(values), limit)
                mean = float(client.get('TDIGEST.TRIMMED_MEAN', key, 0.1, 0.9))
                middle = sorted(values)[len(values) // 10:len(values) * 9 // 10]
                exact, spread = sum(middle) / len(middle), middle[-1] - middle[0]
                check(abs(mean - exact) <= limit * spread, '%s: the trimmed mean is %r, not %r' % (key, mean, exact))


def exact_replies(values, ranks):
    """BYRANK of a digest that is exact; `values` is sorted."""
    return [b'nan' if not values else ('%.17g' % values[rank]).encode() if rank < len(values) else b'inf' for rank in ranks]


def merge_words(rng, keys, have):
    target, sources = rng.choice(keys), rng.choices(keys, k=rng.randint(1, 3))
    words = ['TDIGEST.MERGE', target, len(sources)] + sources
    kept = have[target]
    if rng.random() < 0.3:
        words, kept = words + ['OVERRIDE'], []
    return words, target, sorted(kept + [number for source in sources for number in have[source]])


@suite.case('random commands through a proxy over three shards, as sorted lists: with evicted rows, copies, dumps, and merges over shards')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        keys = ['digest:%d' % i for i in range(6)]
        have = {key: [] for key in keys}
        for key in keys:
            check_equal(client.get('TDIGEST.CREATE', key), b'OK')
        for step in range(sized(1000, long=20000)):
            key = rng.choice(keys)
            kind = rng.random()
            if kind < 0.6:  # 300 different values: each digest is exact
                numbers = [rng.randrange(300) for _ in range(rng.choice((1, 1, 3, 40)))]
                check_equal(client.get('TDIGEST.ADD', key, *numbers), b'OK')
                have[key] = sorted(have[key] + numbers)
            elif kind < 0.8:
                ranks = [rng.randrange(len(have[key]) + 2) for _ in range(5)]
                check_equal(client.get('TDIGEST.BYRANK', key, *ranks), exact_replies(have[key], ranks), 'TDIGEST.BYRANK')
                check_equal(fields(client.get('TDIGEST.INFO', key))[b'Observations'], len(have[key]), 'TDIGEST.INFO')
            elif kind < 0.9:
                words, target, merged = merge_words(rng, keys, have)
                if len(merged) < 20000:
                    check_equal(client.get(*words), b'OK', str(words))
                    have[target] = merged
                else:
                    check_equal(client.get('TDIGEST.RESET', key), b'OK')
                    have[key] = []
            elif kind < 0.95:
                target = rng.choice(keys)
                check_equal(client.get('COPY', key, target, 'REPLACE'), int(key != target)) if key != target else None
                have[target] = have[key]
            else:
                payload = client.get('DUMP', key)
                check_equal(client.get('RESTORE', key, 0, payload, 'REPLACE'), b'OK')
                check_equal(client.get('DUMP', key), payload, 'DUMP after RESTORE')
            if step % 100 == 50:
                for shard in range(3):
                    evict_all(cluster.partition(shard))
        in_exec_and_script(client, have, keys)


def in_exec_and_script(client, have, keys):
    merged = sorted(have[keys[0]] + have[keys[1]] + [5])
    client.get('DEL', keys[2])
    replies = [value(reply) for reply in client.pipeline(
        [['MULTI'], ['TDIGEST.ADD', keys[0], 5], ['TDIGEST.MERGE', keys[2], 2, keys[0], keys[1]], ['TDIGEST.BYRANK', keys[2], 0, 1, 2], ['EXEC']])]
    check_equal(replies[-1], [b'OK', b'OK', exact_replies(merged, (0, 1, 2))], 'MULTI')
    script = "redis.call('TDIGEST.MERGE', KEYS[1], 2, KEYS[2], KEYS[3], 'OVERRIDE') return redis.call('TDIGEST.BYRANK', KEYS[1], 0, 1, 2)"
    check_equal(client.get('EVAL', script, '3', keys[3], keys[0], keys[1]), exact_replies(merged, (0, 1, 2)), 'EVAL')


@suite.case('after kill -9 all acknowledged values are there, and --check-data checks digests')
def _(run):
    rng = random.Random(31)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        values = [rng.gauss(0, 1) for _ in range(5000)]
        with cluster.partition(0) as client:
            check_equal(client.get('TDIGEST.CREATE', 'k'), b'OK')
            check_equal(client.get('TDIGEST.CREATE', 'empty'), b'OK')
            add_all(client, 'k', values)
            for number in values[:50]:
                check_equal(client.get('TDIGEST.ADD', 'k', repr(number)), b'OK')
            payload = client.get('DUMP', 'k')
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('DUMP', 'k'), payload)
            check_estimates(client, 'k', sorted(values + values[:50]), 0.005)
            check(client.get('MEMORY', 'USAGE', 'k') > 3000, 'MEMORY USAGE')
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and ' 0 problems' in done.stdout, done.stdout + done.stderr)


def payload_of(begin, *parts):
    """A payload of DUMP with these strings as parts of the module's value; `begin`: type and module."""
    return with_footer(begin + b''.join(b'\5' + struct.pack('>H', 0x4000 | len(part)) + part for part in parts) + b'\0', RDB_VERSION)


def centroid_row(*values):
    return b''.join(struct.pack('>dQ', number, 1 << 63 | 1) for number in values)


@suite.case('a payload without its centroids, with them twice, or of another digest is refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        check_equal(client.get('TDIGEST.CREATE', 'k', 'COMPRESSION', 1), b'OK')
        check_equal(client.get('TDIGEST.ADD', 'k', 1, 2, 3, 4, 5), b'OK')
        payload = client.get('DUMP', 'k')
        begin = payload[:10]
        head = b'screeTD1' + struct.pack('>IIQQdd', 1, 5, 5, 1, 1, 5)
        row = centroid_row(1, 2, 3, 4, 5)
        check_equal(client.get('RESTORE', 'same', 0, payload_of(begin, head, row)), b'OK')
        check_equal(client.get('DUMP', 'same'), payload)
        for what, parts in (('another mark', (head.replace(b'TD1', b'TD2'), row)), ('no centroids', (head,)), ('centroids twice', (head, row, row)),
                            ('another maximum', (head, centroid_row(1, 2, 3, 4, 6))), ('a cut row', (head, row[:-16])), ('a cut head', (head[:-8], row)),
                            ('no parts', ()), ('another order', (head, centroid_row(1, 2, 4, 3, 5)))):
            reply = value(client.call('RESTORE', 'new', 0, payload_of(begin, *parts)))
            check(isinstance(reply, ReplyError), 'a damaged payload was accepted: ' + what)
        check_equal(client.get('EXISTS', 'new'), 0)


if __name__ == '__main__':
    suite.main()
