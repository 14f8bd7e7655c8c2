#!/usr/bin/python3
"""Slots move between shards when the shard map changes: every key is there, no acknowledged write is lost."""

import collections
import os
import random
import shutil
import subprocess
import threading
import time

from support import TESTS
from support.cluster import Cluster, slot_of, with_option
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.moves import Mover, dumps, fields, fill, shard_lines, wait_settled
from support.relay import Relay
from support.resp import ReplyError, value

suite = Suite(__doc__)
HALVES = ['0-8191', '8192-16383']
QUARTER = ['0-4095', '4096-16383']
SWAPPED = ['8192-16383', '0-8191']
SHIFTED = ['2000-9000', '0-1999 9001-16383']


LIBRARY = "#!lua name=lib\nredis.register_function('answer', function() return 42 end)"


def move(cluster, slots):
    """Writes a map with these slots, and waits until they have moved."""
    cluster.write_shards(slots)
    wait_settled(cluster, range(len(slots)))


class Follower:
    """A client of partitions that follows MOVED, and repeats what has to be tried again."""

    def __init__(self, cluster, db=0):
        self.cluster, self.db, self.connections = cluster, db, {}
        self.retries = 0

    def connection(self, port):
        if port not in self.connections:
            shard = [address[1] for _, address, _ in self.cluster.shard_addresses()].index(port)
            self.connections[port] = self.cluster.partition(shard).__enter__()
            if self.db:
                check_equal(self.connections[port].get('SELECT', self.db), b'OK')
        return self.connections[port]

    def get(self, *words, key=None):
        shard = self.cluster.shard_of(key if key is not None else str(words[1]))
        port = self.cluster.shard_addresses()[shard][1][1]
        end = time.monotonic() + patience()
        while time.monotonic() < end:
            reply = self.connection(port).get(*words)
            text = str(reply) if isinstance(reply, ReplyError) else ''
            if not text.startswith(('MOVED', 'TRYAGAIN')):
                return reply
            self.retries += 1
            if text.startswith('MOVED'):
                port = int(text.rsplit(':', 1)[1])
        raise AssertionError('%r: %s' % (words, text))

    def close(self):
        for connection in self.connections.values():
            connection.__exit__(None, None, None)
        self.connections = {}


def total_keys(cluster, shards=(0, 1), db=0):
    total = 0
    for shard in shards:
        with cluster.partition(shard) as partition:
            partition.get('SELECT', db)
            total += partition.get('DBSIZE')
    return total


def listed_keys(cluster, shards=(0, 1)):
    keys = []
    for shard in shards:
        with cluster.partition(shard) as partition:
            keys += partition.get('KEYS', '*')
    return sorted(keys)


def pair(proxies=0, **options):
    return Cluster(backends=2, partitions=1, linked=True, proxies=proxies, **options)


@suite.case('keys of all types, databases and TTLs are the same after their slots have moved there and back')
def _(run):
    with pair() as cluster:
        first, second = Follower(cluster), Follower(cluster, db=3)
        keys = {first: fill(first, 12), second: fill(second, 4)}
        before = {client: dumps(client, keys[client]) for client in keys}
        counts = [total_keys(cluster, db=0), total_keys(cluster, db=3)]
        for slots in (SWAPPED, SHIFTED, HALVES):
            move(cluster, slots)
            for client in keys:
                check_equal(dumps(client, keys[client]), before[client])
            check_equal([total_keys(cluster, db=0), total_keys(cluster, db=3)], counts)
            check_equal(listed_keys(cluster), sorted(key.encode() for key in keys[first]))
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        wait_settled(cluster)
        first.close()
        check_equal(dumps(first, keys[first]), before[first])
        check_equal([total_keys(cluster, db=0), total_keys(cluster, db=3)], counts)
        first.close()
        second.close()


@suite.case('values that are longer than a request between shards move with their slots, also those that are written during the move')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, linked=True, slots=HALVES,
                 backend_options={'backend': {'peer-output-limit': '1mb', 'migration-rate': '1mb'}}) as cluster:
        tag = cluster.key_on(0, 'long ')
        names = ['{%s} %d' % (tag, i) for i in range(4)]  # in one slot, so that it is there until the rate is raised
        with cluster.partition(0) as first, cluster.partition(1) as second:
            check_equal(first.get('SET', names[0], b'0123456789' * 6800000), b'OK')
            check_equal(first.get('HSET', names[1], 'short', 1, 'long', 'x' * 3000000), 2)
            check_equal(first.get('JSON.SET', names[2], '$', '"%s"' % ('y' * 3000000)), b'OK')
            before = {name: first.get('DUMP', name) for name in names[1:3]}
            cluster.write_shards(['', '0-16383'])
            wait_for(lambda: any(line['state'] == 'copying' and line['done_bytes'] != '0' for line in shard_lines(first)[1:]), 'a copy')
            check_equal(first.get('SET', names[3], 'z' * 5000000), b'OK')
            check_equal(first.get('CONFIG', 'SET', 'migration-rate', '0'), b'OK')
            wait_settled(cluster)
            check_equal({name: second.get('DUMP', name) for name in before}, before)
            check_equal([second.get('STRLEN', name) for name in (names[0], names[3])], [68000000, 5000000])
            check_equal(second.get('GETRANGE', names[0], -5, -1), b'56789')
            check_equal([second.get('DBSIZE'), first.get('DBSIZE')], [4, 0])


@suite.case('counters that clients increase while slots move back and forth have every acknowledged step')
def _(run):
    names = ['counter:%d' % i for i in range(40)]
    with pair() as cluster:
        done = {name: 0 for name in names}
        is_over = threading.Event()
        failures = []

        def increase(own):
            client = Follower(cluster)
            try:
                while not is_over.is_set():
                    name = random.choice(own)
                    reply = client.get('INCR', name)
                    done[name] += 1
                    check_equal(reply, done[name])
            except BaseException as failure:
                failures.append(failure)
            client.close()
        threads = [threading.Thread(target=increase, args=(names[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        try:
            for slots in (SWAPPED, HALVES, SHIFTED, QUARTER, SWAPPED, HALVES):
                move(cluster, slots)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]
        client = Follower(cluster)
        for name in names:
            check_equal(int(client.get('GET', name) or 0), done[name])
        client.close()


class KeyWriter(threading.Thread):
    """Changes a key in pipelines; knows what it must hold. A subclass has fill(client, count), batch(rng) and check(client)."""

    def __init__(self, cluster, key):
        super().__init__()
        self.cluster, self.key = cluster, key
        self.is_over, self.failure, self.requests, self.longest = threading.Event(), None, 0, 0

    def run(self):
        rng = random.Random(self.key)
        try:
            with self.cluster.connect() as client:
                while not self.is_over.is_set():
                    requests, expected = self.batch(rng)
                    begin = time.monotonic()
                    check_equal([value(reply) for reply in client.pipeline(requests)], expected)
                    self.longest = max(self.longest, time.monotonic() - begin)
                    self.requests += len(requests)
        except BaseException as failure:
            self.failure = failure

    def fill(self, client, count):
        for first in range(0, count, PART):
            words = self.first_words(range(first, min(first + PART, count)))
            reply = client.get(*words)
            check(not isinstance(reply, ReplyError), reply)


PART = 5000  # elements that one request writes or reads


class FieldWriter(KeyWriter):
    """Increases, adds and deletes fields of a hash that no other client changes."""

    def __init__(self, cluster, key, fields=()):
        super().__init__(cluster, key)
        self.names = list(fields)
        self.fields = {field: 0 for field in fields}

    def first_words(self, numbers):
        names = ['field:%d' % i for i in numbers]
        self.names += names
        self.fields.update((name, 0) for name in names)
        return ['HSET', self.key, *(word for name in names for word in (name, 0))]

    def batch(self, rng):
        chosen = rng.sample(self.names, 20)
        gone = [field for field in chosen[:3] if field in self.fields]
        requests, expected = [], []
        for field in chosen:
            requests.append(('HDEL', self.key, field) if field in gone else ('HINCRBY', self.key, field, 1))
            if field in gone:
                del self.fields[field]
                expected.append(1)
            else:
                self.fields[field] = self.fields.get(field, 0) + 1
                expected.append(self.fields[field])
        return requests, expected

    def check(self, client):
        check_equal(client.get('HLEN', self.key), len(self.fields))
        for first in range(0, len(self.names), PART):
            part = self.names[first:first + PART]
            numbers = [None if number is None else int(number) for number in client.get('HMGET', self.key, *part)]
            check_equal(numbers, [self.fields.get(name) for name in part], 'fields from %d on' % first)


class ScoreWriter(KeyWriter):
    """Moves members of a sorted set behind all others, or deletes and adds them."""

    def __init__(self, cluster, key):
        super().__init__(cluster, key)
        self.scores, self.count = {}, 0

    def first_words(self, numbers):
        self.count = numbers.stop
        self.scores.update(('member:%d' % i, i) for i in numbers)
        return ['ZADD', self.key, *(word for i in numbers for word in (i, 'member:%d' % i))]

    def batch(self, rng):
        requests, expected = [], []
        for member in ('member:%d' % i for i in rng.sample(range(self.count), 20)):
            if rng.random() < 0.2 and member in self.scores:
                requests.append(('ZREM', self.key, member))
                expected.append(1)
                del self.scores[member]
            else:
                self.scores[member] = self.scores.get(member, 0) + self.count
                requests.append(('ZINCRBY', self.key, self.count, member))
                expected.append(b'%d' % self.scores[member])
        return requests, expected

    def check(self, client):
        check_equal(client.get('ZCARD', self.key), len(self.scores))
        order = sorted((score, member.encode()) for member, score in self.scores.items())
        for first in range(0, len(order), PART):
            words = client.get('ZRANGE', self.key, first, first + PART - 1, 'WITHSCORES')
            found = [(int(score), member) for member, score in zip(words[::2], words[1::2])]
            check_equal(found, order[first:first + PART], 'members from %d on' % first)
        members = [member for _, member in order[::1000]]
        check_equal([value(reply) for reply in client.pipeline([('ZRANK', self.key, member) for member in members])],
                    list(range(0, len(order), 1000)))


class ItemWriter(KeyWriter):
    """Adds and removes items at both ends of a list, and changes some inside."""

    def __init__(self, cluster, key):
        super().__init__(cluster, key)
        self.items, self.number = collections.deque(), 0

    def first_words(self, numbers):
        self.number = numbers.stop
        self.items.extend(b'item:%d' % i for i in numbers)
        return ['RPUSH', self.key, *('item:%d' % i for i in numbers)]

    def batch(self, rng):
        requests, expected = [], []
        for _ in range(20):
            word = rng.choice(['RPUSH', 'LPUSH', 'RPOP', 'LPOP', 'LSET'])
            self.number += 1
            item = b'item:%d' % self.number
            if word.endswith('PUSH'):
                (self.items.append if word == 'RPUSH' else self.items.appendleft)(item)
                requests.append((word, self.key, item))
                expected.append(len(self.items))
            elif word.endswith('POP'):
                requests.append((word, self.key))
                expected.append(self.items.pop() if word == 'RPOP' else self.items.popleft())
            else:
                place = rng.randrange(min(1000, len(self.items)))  # a deque is slow in its middle
                self.items[place] = item
                requests.append((word, self.key, place, item))
                expected.append(b'OK')
        return requests, expected

    def check(self, client):
        check_equal(client.get('LLEN', self.key), len(self.items))
        items = list(self.items)
        for first in range(0, len(items), PART):
            check_equal(client.get('LRANGE', self.key, first, first + PART - 1), items[first:first + PART], 'items from %d on' % first)


class EntryWriter(KeyWriter):
    """Adds entries to a stream, and deletes some."""

    def __init__(self, cluster, key):
        super().__init__(cluster, key)
        self.entries, self.count = {}, 0

    def fill(self, client, count):
        self.count = count
        for first in range(0, count, PART):
            numbers = range(first, min(first + PART, count))
            replies = client.pipeline([('XADD', self.key, '%d-1' % (i + 1), 'f', i) for i in numbers])
            self.entries.update((i, b'%d-1' % (i + 1)) for i in numbers)
            check_equal([value(reply) for reply in replies], [self.entries[i] for i in numbers])

    def batch(self, rng):
        requests, expected = [], []
        for _ in range(20):
            number = rng.randrange(self.count)
            if rng.random() < 0.3:
                requests.append(('XDEL', self.key, '%d-1' % (number + 1)))
                expected.append(int(self.entries.pop(number, None) is not None))
            else:
                self.entries[self.count] = b'%d-1' % (self.count + 1)
                requests.append(('XADD', self.key, self.entries[self.count], 'f', self.count))
                expected.append(self.entries[self.count])
                self.count += 1
        return requests, expected

    def check(self, client):
        check_equal(client.get('XLEN', self.key), len(self.entries))
        numbers = sorted(self.entries)
        for first in range(0, len(numbers), PART):
            part = numbers[first:first + PART]
            check_equal(client.get('XRANGE', self.key, self.entries[part[0]], '+', 'COUNT', PART),
                        [[self.entries[i], [b'f', b'%d' % i]] for i in part], 'entries from %d on' % first)


def move_under_writers(cluster, threads):
    """Moves all slots there and back while the threads write."""
    for thread in threads:
        thread.start()
    try:
        for slots in (SWAPPED, HALVES):
            before = sum(thread.requests for thread in threads)
            move(cluster, slots)
            wait_for(lambda: sum(thread.requests for thread in threads) > before or any(thread.failure for thread in threads), 'requests')
    finally:
        for thread in threads:
            thread.is_over.set()
            thread.join()
    for thread in threads:
        if thread.failure:
            raise thread.failure


@suite.case('a hash with many fields moves there and back while clients change its fields')
def _(run):
    count, writers = sized(20000, long=1000000), 4
    with pair(proxies=1) as cluster, cluster.connect() as client:
        whole = FieldWriter(cluster, cluster.key_on(0, 'many fields'))
        whole.fill(client, count)
        threads = [FieldWriter(cluster, whole.key, whole.names[i::writers]) for i in range(writers)]
        move_under_writers(cluster, threads)
        whole.fields = {field: number for thread in threads for field, number in thread.fields.items()}
        whole.check(client)
        run.note('%d changes' % sum(thread.requests for thread in threads))
        check_equal(total_keys(cluster), 1)


@suite.case('keys with many elements move there and back while clients write to them')
def _(run):
    count = sized(20000, long=1000000)
    for kind in (ScoreWriter, ItemWriter, EntryWriter):
        with pair(proxies=1) as cluster, cluster.connect() as client:
            writer = kind(cluster, cluster.key_on(0, 'many'))
            writer.fill(client, count)
            for backend in cluster.backends:
                backend.forget_peak()
            before = [backend.rss_bytes() for backend in cluster.backends]
            move_under_writers(cluster, [writer])
            growth = [backend.peak_rss_bytes() - rss for backend, rss in zip(cluster.backends, before)]
            writer.check(client)
            check_equal(total_keys(cluster), 1)
            run.note('%s: %d changes, the longest pipeline %.0f ms, memory grew from %s by %s MB' % (
                kind.__name__, writer.requests, writer.longest * 1000, [rss >> 20 for rss in before], [rss >> 20 for rss in growth]))


class LateShards(Cluster):
    """Two linked backends; what they send to each other comes some milliseconds late."""

    def __init__(self):
        super().__init__(backends=2, partitions=1, proxies=0, linked=True, slots=list(HALVES),
                         relay=lambda address: Relay(address, delay_ms=(20, 20), late_share=1, is_opaque=True))


def move_under_writes(cluster, request):
    """Moves a slot while four clients send it pipelines without a pause. Returns how many requests of each were executed."""
    failures, counts = [], [0] * 4

    def write(own):
        try:
            with cluster.partition(0) as client:
                is_moved = False
                while not is_moved:
                    replies = client.pipeline([request(own, counts[own] + i + 1) for i in range(50)])
                    refused = [reply for reply in map(value, replies) if isinstance(reply, ReplyError)]
                    check(all(str(reply).startswith('MOVED') for reply in refused), refused)
                    counts[own] += len(replies) - len(refused)
                    is_moved = bool(refused)
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=write, args=(own,)) for own in range(len(counts))]
    for thread in threads:
        thread.start()
    wait_for(lambda: all(counts) or failures, 'writes')
    cluster.write_shards(SWAPPED)
    wait_for(lambda: not any(thread.is_alive() for thread in threads), 'the slot to move')
    if failures:
        raise failures[0]
    wait_settled(cluster)
    return counts


@suite.case('a slot moves although clients write to it without a pause')
def _(run):
    with LateShards() as cluster:
        name = cluster.key_on(0)
        counts = move_under_writes(cluster, lambda own, number: ['INCR', '{%s}%d' % (name, own)])
        with cluster.partition(1) as partition:
            check_equal([int(partition.get('GET', '{%s}%d' % (name, own))) for own in range(len(counts))], counts)


@suite.case('a slot moves although clients write more to it than its new owner gets')
def _(run):
    with LateShards() as cluster:
        name = cluster.key_on(0)
        padding = 'x' * 8000
        counts = move_under_writes(cluster, lambda own, number: ['SET', '{%s}%d' % (name, own), '%d %s' % (number, padding)])
        with cluster.partition(1) as partition:
            values = [partition.get('GET', '{%s}%d' % (name, own)) for own in range(len(counts))]
        check_equal([int(text.split()[0]) for text in values], counts)


@suite.case('a source or a target that is killed during moves loses no key, and the moves end after its start')
def _(run):
    with pair() as cluster:
        client = Follower(cluster)
        keys = fill(client, 30)
        before = dumps(client, keys)
        client.close()
        for round, slots in enumerate((SWAPPED, HALVES, SHIFTED, SWAPPED)):
            cluster.write_shards(slots)
            victim = cluster.backends[round % 2]
            with cluster.partition(0) as partition:
                wait_for(lambda: shard_lines(partition)[0]['map_epoch'] == str(cluster.epoch), 'the new map')
            for _ in range(3):
                victim.kill9()
                victim.start()
            wait_settled(cluster)
            client = Follower(cluster)
            check_equal(dumps(client, keys), before)
            client.close()
            check_equal(total_keys(cluster), len(keys))


@suite.case('a shard that joins empty gets its slots and the swapped databases; one that leaves the map gives all away')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, proxies=1) as cluster:
        client = Follower(cluster)
        keys = fill(client, 8)
        before = dumps(client, keys)
        move(cluster, ['0-8191', '8192-16383', ''])
        check_equal(total_keys(cluster, (0, 1)), len(keys))
        check_equal(total_keys(cluster, (2,)), 0)
        check_equal(dumps(client, keys), before)
        for shard in (0, 1):
            with cluster.partition(shard) as partition:
                check_equal(partition.get('FUNCTION', 'LOAD', LIBRARY), b'lib')
                check_equal(partition.get('SCREE', 'AUTH', cluster.secret), b'OK')
                check_equal(partition.get('SWAPDB', 0, 5), b'OK')
        client.close()
        move(cluster, ['0-4095', '8192-12287', '4096-8191 12288-16383'])
        client = Follower(cluster, db=5)
        check_equal(dumps(client, keys), before)
        check_equal(total_keys(cluster, (0, 1, 2), db=5), len(keys))
        with cluster.partition(2) as partition:
            check_equal(partition.get('FCALL', 'answer', 1, cluster.key_on(2)), 42)
        with open(cluster.shards_path) as file:  # now without the first shard
            text = file.read()
        cluster.epoch += 1
        head, first, rest = text.partition('[shard b1p0]')
        text = '[map]\nepoch = %d\n\n' % cluster.epoch + first + rest.replace('8192-12287', '0-4095 8192-12287')
        with open(cluster.shards_path + '.new', 'w') as file:
            file.write(text)
        os.rename(cluster.shards_path + '.new', cluster.shards_path)
        wait_settled(cluster, (0, 1, 2))
        check_equal(total_keys(cluster, (0,), db=5), 0)
        check_equal(total_keys(cluster, (1, 2), db=5), len(keys))
        wait_for(lambda: b'shard_drained' in cluster.backends[0].log(), 'the log line of the drained shard')
        client.close()


def build_library(folder, name):
    """Compiles tests/support/NAME.c, which replaces functions of programs (LD_PRELOAD)."""
    library = os.path.join(folder, name + '.so')
    subprocess.run(['cc', '-D_GNU_SOURCE', '-std=gnu11', '-O1', '-shared', '-fPIC', '-o', library,
                    os.path.join(TESTS, 'support', name + '.c'), '-ldl'], check=True)
    return library


def restart_with_late_map(cluster, program, slots):
    """Restarts the program; just after it has opened its map, a newer one takes the place of the file."""
    program.stop()
    program.extra_env = {'LD_PRELOAD': build_library(cluster.folder, 'late_file'), 'LATE_FILE': cluster.shards_path,
                         'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1'}
    with open(cluster.shards_path) as file:
        before = file.read()
    cluster.write_shards(slots)
    os.rename(cluster.shards_path, cluster.shards_path + '.late')
    with open(cluster.shards_path, 'w') as file:
        file.write(before)
    program.start()
    check(not os.path.exists(cluster.shards_path + '.late'), 'the program opened the map')


@suite.case('a map that is written while a program reads the previous one comes into force')
def _(run):
    with pair(proxies=1) as cluster:
        restart_with_late_map(cluster, cluster.backends[0], QUARTER)
        wait_settled(cluster)
        restart_with_late_map(cluster, cluster.proxies[0], SHIFTED)
        wait_settled(cluster)
        with cluster.connect() as client:
            wait_for(lambda: b'\nepoch:%d\r' % cluster.epoch in client.get('SCREE', 'MAP', 'STATUS'), 'the proxy to have the map')


class Slider(Mover):
    """Gives the cluster a map every `pause` seconds. In each of them the first shard keeps one slot more."""

    def run(self):
        while not self.is_over.wait(self.pause):
            self.maps += 1
            first = 4096 + self.maps
            self.cluster.write_shards(['0-%d' % (first - 1), '%d-16383' % first])


@suite.case('slots are copied to the end while newer maps come that leave the first of them where it is')
def _(run):
    options = {'backend': {'migration-rate': '100kb', 'migration-moves': 1}}
    with pair(backend_options=options) as cluster, cluster.partition(0) as first, cluster.partition(1) as second:
        names = [name for name in ('key:%d' % i for i in range(20000)) if 4600 <= slot_of(name) < 5100]  # of one move
        first.pipeline([('SET', name, name + 'x' * 600) for name in names])
        with Slider(cluster, (0, 1), None, 0.5) as slider:
            wait_for(lambda: second.get('GET', names[0]) == (names[0] + 'x' * 600).encode(), 'the slots to arrive')
        run.note('%d keys, %d maps' % (len(names), slider.maps))
        cluster.write_shards(QUARTER)
        for partition in (first, second):
            check_equal(partition.get('CONFIG', 'SET', 'migration-rate', '0'), b'OK')
        wait_settled(cluster)
        check_equal(total_keys(cluster), len(names))


@suite.case('slots move at a rate of less than one byte in each step')
def _(run):
    with pair(backend_options={'backend': {'migration-rate': '100'}}) as cluster, cluster.partition(0) as first, cluster.partition(1) as second:
        names = [next(name for name in ('key:%d' % i for i in range(50000)) if slot_of(name) == slot) for slot in (5000, 6000, 7000)]
        for name in names:
            check_equal(first.get('SET', name, 'v'), b'OK')
        cluster.write_shards(['0-4999 5001-5999 6001-6999 7001-8191', '5000 6000 7000 8192-16383'])
        wait_settled(cluster)
        check_equal([second.get('GET', name) for name in names], [b'v'] * 3)


@suite.case('a move that waits for its target follows a newer map slot by slot')
def _(run):
    with pair() as cluster:
        cluster.backends[1].kill9()
        cluster.write_shards(QUARTER)
        with cluster.partition(0) as partition:
            wait_for(lambda: any(line['state'] == 'starting' for line in shard_lines(partition)[1:]), 'a move to wait')
            cluster.write_shards(['0-4095 4106-8191', '4096-4105 8192-16383'])
            wait_for(lambda: shard_lines(partition)[0]['map_epoch'] == str(cluster.epoch), 'the new map')
        cluster.backends[1].start()
        wait_settled(cluster)


@suite.case('a map of the same or a lower epoch moves nothing, whatever it says')
def _(run):
    with pair() as cluster:
        move(cluster, QUARTER)
        with open(cluster.shards_path) as file:
            text = file.read()
        for epoch, reason in ((cluster.epoch, b'expected more than %d'), (cluster.epoch - 1, b'expected at least %d')):
            with open(cluster.shards_path + '.new', 'w') as file:
                file.write(text.replace('epoch = %d' % cluster.epoch, 'epoch = %d' % epoch).replace('0-4095', '0-5000')
                           .replace('4096-', '5001-'))
            os.rename(cluster.shards_path + '.new', cluster.shards_path)
            for shard, backend in enumerate(cluster.backends):
                wait_for(lambda: reason % cluster.epoch in backend.log(), 'backend %d to refuse epoch %d' % (shard, epoch))
                with cluster.partition(shard) as partition:
                    check_equal(shard_lines(partition)[0]['owned'], ['4096', '12288'][shard])


@suite.case('a shard that the map has at another address moves nothing, not even to itself, and serves again when the map has it here')
def _(run):
    with pair() as cluster, cluster.partition(0) as partition:
        key = cluster.key_on(0)
        check_equal(partition.get('SET', key, 'v'), b'OK')
        host, port = cluster.shard_addresses()[0][1]
        with open(cluster.shards_path + '.new', 'w') as file:
            file.write(cluster.shards_text().replace('%s:%d' % (host, port), '127.0.0.1:1'))
        os.rename(cluster.shards_path + '.new', cluster.shards_path)
        wait_for(lambda: b'shard_elsewhere' in cluster.backends[0].log(), 'the map')
        looked = time.monotonic() + 2  # a shard looks for slots to move twice a second
        wait_for(lambda: time.monotonic() > looked, 'the shard to look for slots that leave')
        check_equal(fields(partition.get('SCREE', 'MOVES')[0])['moves'], '0')
        cluster.write_shards()
        wait_settled(cluster)
        check_equal(partition.get('GET', key), b'v')
        check(b'slots_move' not in cluster.backends[0].log(), cluster.backends[0].log_tail())


@suite.case('clients that wait for a key of a moved slot or watch one are told, and a flush empties what moves')
def _(run):
    with pair() as cluster:
        queue, key = cluster.key_on(0, 'queue'), cluster.key_on(0, 'watched')
        with cluster.partition(0) as waiter, cluster.partition(0) as watcher:
            waiter.send('BLPOP', queue, 0)
            check_equal(watcher.get('SET', key, 'x'), b'OK')
            check_equal(watcher.get('WATCH', key), b'OK')
            check_equal(watcher.get('MULTI'), b'OK')
            check_equal(watcher.get('PING'), b'QUEUED')
            with cluster.partition(0) as other:
                wait_for(lambda: b'blocked_clients:1' in other.get('INFO', 'clients'), 'the client to wait')
            move(cluster, ['8192-16383', '0-8191'])
            reply = value(waiter.read())
            check(isinstance(reply, ReplyError) and str(reply).startswith('MOVED'), 'BLPOP: %r' % reply)
            check_equal(watcher.get('EXEC'), None)
        client = Follower(cluster)
        keys = fill(client, 6)
        cluster.write_shards(HALVES)
        for shard in (0, 1, 0, 1):
            with cluster.partition(shard) as partition:
                wait_for(lambda: not isinstance(partition.get('FLUSHALL'), ReplyError), 'the flush')
        wait_settled(cluster)
        for shard in (0, 1, 0, 1):
            with cluster.partition(shard) as partition:
                partition.get('FLUSHALL')
        check_equal(total_keys(cluster), 0)
        check_equal([client.get('EXISTS', name) for name in keys], [0] * len(keys))
        client.close()


@suite.case('moves are paused, go on, and are cancelled by command')
def _(run):
    with pair() as cluster:
        client = Follower(cluster)
        keys = fill(client, 3)
        with cluster.partition(0) as partition:
            check_equal(partition.get('SCREE', 'MOVES', 'PAUSE'), [b'partition=0 paused=1'])
            cluster.write_shards(QUARTER)
            wait_for(lambda: shard_lines(partition)[0]['map_epoch'] == str(cluster.epoch), 'the new map')
            line = shard_lines(partition)[0]
            check_equal((line['owned'], line['to_send'], line['paused']), ('8192', '4096', 'yes'))
            with open(cluster.shards_path) as file:
                check_equal(partition.get('SCREE', 'AUTH', cluster.secret), b'OK')
                check(str(partition.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'b', 'SHARD', 'b0p0', 'ID', 'i', 'MAP', file.read()))
                      .startswith('ERR slots are moving'), 'a backup by a map that is not true yet')
            check(str(partition.get('SCREE', 'MOVES', 'STOP')).startswith('ERR expected SCREE MOVES'), 'a wrong word')
            check_equal(fields(partition.get('SCREE', 'MOVES', 'CANCEL')[0])['cancelled'], '0')
            check_equal(partition.get('SCREE', 'MOVES', 'RESUME'), [b'partition=0 paused=0'])
        wait_settled(cluster)
        check_equal(total_keys(cluster), len(keys))
        client.close()


@suite.case('keys expire at the shard that has them, and only there')
def _(run):
    with pair() as cluster:
        client = Follower(cluster)
        for i in range(50):
            check_equal(client.get('SET', 'gone:%d' % i, 'x', 'PX', 2000), b'OK')
            check_equal(client.get('SET', 'stays:%d' % i, 'x'), b'OK')
        move(cluster, SWAPPED)
        wait_for(lambda: total_keys(cluster) == 50, 'the keys to expire')
        check_equal(sum(client.get('EXISTS', 'stays:%d' % i) for i in range(50)), 50)
        move(cluster, HALVES)
        check_equal(total_keys(cluster), 50)
        client.close()


def told(client):
    """What the client is told until now: lists of keys, None for all keys."""
    client.send('PING', 'end')
    found = []
    while (frame := client.read()) != ('$', b'end'):
        check(frame[0] == '>' and frame[1][0] == ('$', b'invalidate'), frame)
        found.append(value(frame)[1])
    return found


@suite.case('when a slot moves, tracking clients get invalidations of its keys that they have read, and of no others; tracking continues')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, proxies=2) as cluster:
        proxy = cluster.proxies[0]  # it does not get the new maps, and learns the owners
        path = os.path.join(cluster.folder, 'old.ini')
        shutil.copy(cluster.shards_path, path)
        proxy.options = with_option(proxy.options, 'proxy', 'shards', path)
        proxy.stop()
        cluster.start_retrying(proxy)
        moved = next('m:%d' % i for i in range(10 ** 6) if slot_of('m:%d' % i) == 100)
        near = next('n:%d' % i for i in range(10 ** 6) if slot_of('n:%d' % i) == 101)  # in the same group of slots
        far = cluster.key_on(1, 'far')
        names = {name.encode() for name in (moved, near, far)}
        with cluster.connect(proto=3) as client, cluster.connect(1) as writer, cluster.partition(0) as direct, \
                cluster.partition(0) as bcast:
            writer.get('MSET', moved, 1, near, 1, far, 1)
            for connection in (direct, bcast):
                connection.call('HELLO', 3)
            check_equal(bcast.get('CLIENT', 'TRACKING', 'ON', 'BCAST'), b'OK')
            for connection in (client, direct):
                check_equal(connection.get('CLIENT', 'TRACKING', 'ON'), b'OK')
                for key in (moved, near) + ((far,) if connection is client else ()):
                    check_equal(connection.get('GET', key), b'1')
            found = {client: [], direct: [], bcast: []}
            for step, slots in enumerate((['0-99 101-8191', '100 8192-16383'], HALVES, ['0-99 101-8191', '100 8192-16383'])):
                move(cluster, slots)

                def is_told(connection, wanted):
                    found[connection] += told(connection)
                    return found[connection] == wanted
                wait_for(lambda: is_told(client, [[moved.encode()]] * (2 * step + 1)), 'the invalidation through the proxy')
                if step == 0:
                    wait_for(lambda: is_told(direct, [[moved.encode()]]), 'the invalidation of a direct client')
                    wait_for(lambda: is_told(bcast, [None]), 'the invalidation of all keys')
                check_equal(client.get('GET', moved), b'%d' % (step + 1))  # it is tracked at its new owner
                check_equal(writer.get('SET', moved, step + 2), b'OK')
                wait_for(lambda: is_told(client, [[moved.encode()]] * (2 * step + 2)), 'the invalidation by the new owner')
                check_equal(client.get('GET', moved), b'%d' % (step + 2))
            for key in (near, far):
                check_equal(writer.get('SET', key, 2), b'OK')
            wait_for(lambda: is_told(client, [[moved.encode()]] * 6 + [[near.encode()], [far.encode()]]), 'the other keys')
            check_equal({name for keys in found[client] for name in keys}, names)


@suite.case('XREAD BLOCK with $ over several shards gets the first entry that is added while a slot moves')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, proxies=1) as cluster, cluster.connect() as reader:
        moving = next('s%d' % i for i in range(10000) if 4096 <= slot_of('s%d' % i) < 8192)
        staying = cluster.key_on(1, 't')
        for number in range(8):
            wait_for(lambda: not any(waiting_clients(cluster, shard) for shard in (0, 1)), 'the former wait to be forgotten')
            reader.send('XREAD', 'BLOCK', 0, 'STREAMS', moving, staying, '$', '$')
            # in every second round both streams are on one shard
            wait_for(lambda: sum(waiting_clients(cluster, shard) for shard in (0, 1)) == 2 - number % 2, 'the client to wait')
            shard = 1 - number % 2
            cluster.write_shards([QUARTER, HALVES][number % 2])
            with cluster.partition(shard) as owner:
                entries = [owner.get('XADD', moving, '*', 'n', number)]
                while isinstance(entries[-1], ReplyError):  # not yet its owner: then the wait may not have moved either
                    entries.append(owner.get('XADD', moving, '*', 'n', number))
            reply = value(reader.read())
            check_equal([moving.encode(), [[entries[-1], [b'n', b'%d' % number]]]], reply[0])
            wait_settled(cluster)


def waiting_clients(cluster, shard):
    with cluster.partition(shard) as partition:
        text = partition.get('INFO', 'clients').decode()
    return int(text.split('blocked_clients:')[1].split('\r')[0])


suite.main()
