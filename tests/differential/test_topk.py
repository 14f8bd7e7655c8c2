#!/usr/bin/python3
"""Top-k lists: heavy hitters of a skewed stream, lists against a model, restarts, dumps, and the proxy over three shards."""

import math
import random
import subprocess
from collections import Counter

from support import rdb_payload
from support.cluster import Cluster, binary, evict_all
from support.harness import Suite, check, check_equal, sized
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)
DECAY = 0.9

# TOPK.RESERVE k 3 100 2 1; TOPK.ADD k b c a: as dumped by a version whose lists have no numbers of changes.
OLDER = ('07814e8a4af9360f13e805247363726565544b310000000300000064000000023ff0000000000000000000030000000105c31a42050162'
         '00e0ff00e012000350ab7a1c201e00012003e0ca0001000005c32642050462000000012003e09c000365417b8420a8e048af03697d086a'
         'e04b57e02f00e0658f01000005c32942050462000000022003e0cc000350ab7a1c20d800012003e01c000365417b842028e0202fe0bd00'
         '010000050663fffffffe61050663fffffffe62050663fffffffe6300')


def skewed(rng, count, kinds):
    """A Zipf stream: item i as often as 1 / (i + 1)."""
    return rng.choices(['item:%d' % i for i in range(kinds)], [1 / (i + 1) for i in range(kinds)], k=count)


def add_all(client, key, items):
    for at in range(0, len(items), 1000):
        client.get('TOPK.ADD', key, *items[at:at + 1000])


def listed(client, key):
    """The list with its counts, in its order."""
    reply = client.get('TOPK.LIST', key, 'WITHCOUNT')
    return [(item.decode(), count) for item, count in zip(reply[::2], reply[1::2])]


@suite.case('the frequent items of a Zipf stream are in the list, with counts that are not too high and rarely much too low')
def _(run):
    """The bound is that of the HeavyKeeper paper: a count is too low by e * N with at most the probability
    1 / (e * width * count * (1 / decay - 1)) in one row of the sketch."""
    rng = random.Random(run.seed)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for k in (10, 50):
            width = math.ceil(k * math.log(k)) * 2
            client.call('DEL', 'k')
            check_equal(client.get('TOPK.RESERVE', 'k', k, width, 5, DECAY), b'OK')
            stream = skewed(rng, sized(40000, long=400000), 5000)
            add_all(client, 'k', stream)
            counts = Counter(stream)
            found = dict(listed(client, 'k'))
            check_equal(len(found), k, 'length of the list')
            check(all(count <= counts[item] for item, count in found.items()), 'a count is too high')
            cutoff = counts.most_common(k)[-1][1]
            missing = [item for item, count in counts.items() if count >= 1.5 * cutoff and item not in found]
            check_equal(missing, [], 'frequent items that are not in the list')
            lost = [(counts[item] - count) / len(stream) for item, count in found.items()]
            run.note('k %d: %d of the %d most frequent items are in the list, counts are too low by %.1f %% on average, %.1f %% at most' % (
                k, len(set(found) & {item for item, _ in counts.most_common(k)}), k,
                100 * sum(1 - count / counts[item] for item, count in found.items()) / k,
                100 * max(1 - count / counts[item] for item, count in found.items())))
            error = 0.005
            allowed = sum(min(1, 1 / (error * width * counts[item] * (1 / DECAY - 1))) for item in found)
            check(sum(part >= error for part in lost) <= allowed, 'too many counts are too low: %s' % lost)


class Model:
    """A list whose sketch is so wide that counts are exact."""

    def __init__(self, k):
        self.k, self.counts, self.list, self.changes = k, Counter(), {}, {}

    def copy(self):
        other = Model(self.k)
        other.counts, other.list, other.changes = Counter(self.counts), dict(self.list), dict(self.changes)
        return other

    def order(self):
        """The highest count first; of equal counts the one that was reached last."""
        return sorted(self.list.items(), key=lambda pair: (-pair[1], -self.changes[pair[0]]))

    def add(self, item, number):
        """Returns the item that is displaced, as in the reply."""
        expelled = None
        if not number:
            return None
        self.counts[item] += number
        if item not in self.list and len(self.list) == self.k:
            last, least = self.order()[-1]
            if self.counts[item] < least:
                return None
            del self.list[last]
            expelled = last.encode()
        self.list[item] = self.counts[item]
        self.changes[item] = max(self.changes.values(), default=0) + 1
        return expelled


def some_items(rng):
    return ['i%d' % min(int(rng.expovariate(0.05)), 99) for _ in range(rng.randint(1, 6))]


def step_of(rng, client, models, key):
    model, kind, items = models[key], rng.random(), some_items(rng)
    if kind < 0.4:
        check_equal(client.get('TOPK.ADD', key, *items), [model.add(item, 1) for item in items], 'TOPK.ADD')
    elif kind < 0.6:
        pairs = [(item, rng.randrange(8)) for item in items]
        check_equal(client.get('TOPK.INCRBY', key, *(word for pair in pairs for word in pair)),
                    [model.add(*pair) for pair in pairs], 'TOPK.INCRBY')
    elif kind < 0.75:
        check_equal(client.get('TOPK.QUERY', key, *items), [int(item in model.list) for item in items], 'TOPK.QUERY')
    elif kind < 0.9:
        check_equal(client.get('TOPK.COUNT', key, *items), [model.counts[item] for item in items], 'TOPK.COUNT')
    else:
        other = rng.choice(list(models))
        if other != key:
            check_equal(client.get('COPY', key, other, 'REPLACE'), 1)
            models[other] = model.copy()


@suite.case('random commands through a proxy over three shards, as a model: with evicted rows, copies, dumps, MULTI and scripts')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        models = {'top:%d' % i: Model(2 + 3 * i) for i in range(6)}
        for key, model in models.items():  # so wide that each item has a bucket of its own in some row, all but surely
            check_equal(client.get('TOPK.RESERVE', key, model.k, 20000, 5, DECAY), b'OK')
        for step in range(sized(1200, long=20000)):
            key = rng.choice(list(models))
            step_of(rng, client, models, key)
            check_equal(listed(client, key), models[key].order(), 'TOPK.LIST %s' % key)
            if step % 100 == 50:
                payload = client.get('DUMP', key)
                check_equal(client.get('DEL', key), 1)
                check_equal(client.get('RESTORE', key, '0', payload), b'OK')
                check_equal(client.get('DUMP', key), payload, 'DUMP again')
            if step % 300 == 299:
                for shard in range(3):
                    evict_all(cluster.partition(shard))
        in_exec_and_script(client, models)


def in_exec_and_script(client, models):
    a, b, c = (models['top:%d' % i] for i in (0, 1, 2))
    replies = [value(reply) for reply in client.pipeline(
        [['MULTI'], ['TOPK.INCRBY', 'top:0', 'x', 1000], ['TOPK.ADD', 'top:1', 'x'], ['TOPK.COUNT', 'top:2', 'i1'],
         ['TOPK.LIST', 'top:0'], ['EXEC']])]
    expected = [[a.add('x', 1000)], [b.add('x', 1)], [c.counts['i1']], [item.encode() for item, _ in a.order()]]
    check_equal(replies[-1], expected, 'MULTI over shards')
    client.call('MULTI')
    client.call('TOPK.ADD', 'top:0', 'never')
    client.call('DISCARD')
    script = "redis.call('TOPK.INCRBY', KEYS[1], 'y', 2000) redis.call('TOPK.ADD', KEYS[2], 'y') return redis.call('TOPK.LIST', KEYS[1], 'WITHCOUNT')"
    a.add('y', 2000)
    b.add('y', 1)
    check_equal(client.get('EVAL', script, 2, 'top:0', 'top:1'), [word for item, count in a.order() for word in (item.encode(), count)], 'EVAL')
    failing = "redis.call('TOPK.INCRBY', KEYS[1], 'z', 3000) redis.call('TOPK.ADD', KEYS[2], 'z') return redis.call('TOPK.ADD', KEYS[3], 'z')"
    client.get('SET', 'text', 'v')
    check(isinstance(value(client.call('EVAL', failing, 3, 'top:0', 'top:1', 'text')), ReplyError), 'a script that fails')
    a.add('z', 3000)  # as in Redis, what a failing script has done stays
    b.add('z', 1)
    for key in ('top:0', 'top:1', 'top:2'):
        check_equal(listed(client, key), models[key].order(), key)


@suite.case('kill -9: lists and decayed counts are the same afterwards, and --check-data finds nothing')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            for key, k, width in (('narrow', 5, 4), ('wide', 100, 300)):
                check_equal(client.get('TOPK.RESERVE', key, k, width, 5, DECAY), b'OK')
                add_all(client, key, skewed(rng, 3000, 500))
            check_equal(client.get('TOPK.RESERVE', 'empty', 10), b'OK')
            before = {key: client.get('DUMP', key) for key in ('narrow', 'wide', 'empty')}
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal({key: client.get('DUMP', key) for key in before}, before)
            check(client.get('MEMORY', 'USAGE', 'wide') > 5000, 'MEMORY USAGE')
            check_equal(client.get('TOPK.LIST', 'empty'), [])
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and ' 0 problems' in done.stdout, done.stdout + done.stderr)


@suite.case('an increment that is not valid is an error in its place, and the other items are counted')
def _(_run):
    text = b'TopK: increment must be an integer greater or equal to 0 and smaller or equal to 100,000'
    with Cluster(backends=1, partitions=3, linked=True) as cluster, cluster.connect() as client:
        check_equal(client.get('TOPK.RESERVE', 'k', 3), b'OK')
        check_equal(client.call('TOPK.INCRBY', 'k', 'a', 1, 'b', -1, 'c', 'x', 'd', 100001, 'e', 2),
                    ('*', [('$', None), ('-', text), ('-', text), ('-', text), ('$', None)]))
        check_equal(listed(client, 'k'), [('e', 2), ('a', 1)])


@suite.case('a big list is replied while the client reads it, and is right')
def _(_run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        check_equal(client.get('TOPK.RESERVE', 'k', 3000, 30000, 5, DECAY), b'OK')
        names = ['%05d%s' % (i, 'x' * 200) for i in range(3000)]
        for at in range(0, 3000, 500):
            client.get('TOPK.INCRBY', 'k', *(word for i in range(at, at + 500) for word in (names[i], i + 1)))
        found = listed(client, 'k')
        check_equal([item for item, _ in found], names[::-1])
        check_equal(client.get('TOPK.ADD', 'k', 'one more'), [names[0].encode()])


@suite.case('a payload with a row twice, an item too many or wrong sizes is refused')
def _(_run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        check_equal(client.get('TOPK.RESERVE', 'k', 2, 3, 2, DECAY), b'OK')
        check_equal(client.get('TOPK.ADD', 'k', 'item-a', 'item-b'), [None, None])
        body = client.get('DUMP', 'k')[:-10]
        check(body.count(b'screeTK1') == 1 and body.count(b'item-a') == 1, body)
        spots = [b'c\xff\xff\xff\xfe\xff\xff\xff\xff\xff\xff\xff' + end for end in (b'\xfeitem-a', b'\xfditem-b')]
        at = body.index(spots[0]) - 2
        row = body[at:at + 21]
        for damaged in (body.replace(b'screeTK1', b'screeTK2'), body[:at] + row + body[at:], body[:at] + body[at + 21:],
                        body.replace(b'item-b', b'item-a'), body.replace(spots[1], spots[1].replace(b'\xfe', b'\xff')),
                        body.replace(spots[1], spots[1].replace(b'\xfd', b'\xfc')), body.replace(spots[0], spots[0].replace(b'\xff\xfe', b'\xff\xfd'))):
            check(damaged != body, 'not damaged')
            reply = value(client.call('RESTORE', 'new', 0, rdb_payload.with_footer(damaged, 10)))
            check(isinstance(reply, ReplyError), 'a damaged payload was accepted: %r' % damaged)
        check_equal(client.get('EXISTS', 'new'), 0)
        check_equal(client.get('RESTORE', 'new', 0, rdb_payload.with_footer(body, 10)), b'OK')
        check_equal(client.get('TOPK.LIST', 'new'), [b'item-b', b'item-a'])


@suite.case('a list of an older version, with equal counts in the order of their names, is as before')
def _(_run):
    body = bytes.fromhex(OLDER)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            check_equal(client.get('RESTORE', 'k', 0, rdb_payload.with_footer(body, 10)), b'OK')
            check_equal(client.get('DUMP', 'k')[:-10], body, 'DUMP')
            check_equal(listed(client, 'k'), [('a', 1), ('b', 1), ('c', 1)])
            check_equal(client.get('TOPK.ADD', 'k', 'aa'), [b'c'])
            check_equal(client.get('TOPK.ADD', 'k', 'z'), [b'b'])
            check_equal(client.get('TOPK.ADD', 'k', 'y'), [b'z'])
            check_equal(client.get('TOPK.ADD', 'k', 'aa', 'z'), [None, b'y'])
            check_equal(listed(client, 'k'), [('aa', 2), ('z', 2), ('a', 1)])
            check_equal(client.get('TOPK.INCRBY', 'k', 'a', 3, 'b', 1), [None, b'z'])
            check_equal(listed(client, 'k'), [('a', 4), ('aa', 2), ('b', 2)])
            check_equal(client.get('TOPK.QUERY', 'k', 'a', 'z'), [1, 0])
            payload = client.get('DUMP', 'k')
            check_equal(client.get('RESTORE', 'again', 0, payload), b'OK')
            check_equal(client.get('DUMP', 'again'), payload)
        backend.stop()
        done = subprocess.run([binary('scree-backend'), '--check-data', backend.data], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and ' 0 problems' in done.stdout, done.stdout + done.stderr)


if __name__ == '__main__':
    suite.main()
