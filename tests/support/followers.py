"""followers.py - the programs of docs/change-stream.md, which keep a redis-server or a table equal to a cluster, and what they are tried with."""

import base64
import glob
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

from support import ROOT
from support.cluster import in_ranges
from support.harness import PATIENCE, sized, wait_for
from support.moves import random_slots, wait_settled
from support.resp import Closed, Connection, ReplyError


def write_program(folder, number=0):
    with open(os.path.join(ROOT, 'docs', 'change-stream.md'), encoding='utf-8') as file:
        text = re.findall(r'```python\n(.*?)```', file.read(), re.S)[number]
    path = os.path.join(folder, 'program-%d.py' % number)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


class Follower:
    """The program, which is killed and started again."""

    def __init__(self, folder, proxy, sink):
        self.place, self.errors_path = os.path.join(folder, 'token'), os.path.join(folder, 'errors')
        self.argv = [sys.executable, write_program(folder), str(proxy[1]), str(sink[1]), self.place]
        self.child, self.began_at = None, b''

    def token(self):
        if not os.path.exists(self.place):
            return b''
        with open(self.place, 'rb') as file:
            return file.read()

    def has_moved(self):
        """Has it copied keys since it was started?"""
        return self.token() != self.began_at

    def start(self):
        self.began_at = self.token()
        with open(self.errors_path, 'wb') as errors:
            self.child = subprocess.Popen(self.argv, stdout=subprocess.DEVNULL, stderr=errors)

    def errors(self):
        """What it has said since it was started."""
        with open(self.errors_path, encoding='utf-8') as file:
            return file.read()

    def kill(self):
        self.child.kill()
        self.child.wait()

    def keep_alive(self):
        """A shard that is down ends the program with an exception."""
        if self.has_ended():
            self.start()

    def has_ended(self):
        return self.child is None or self.child.poll() is not None

    def kill_at_work(self, rng):
        """Kills it at a random moment, most often after its first page. How long it takes to start depends on the machine."""
        self.keep_alive()
        if rng.random() < 0.8:
            wait_for(lambda: self.has_moved() or self.has_ended(), 'the program to copy keys')
        time.sleep(rng.random() * 0.2)
        self.kill()


def bytes_of(value):
    """A value of a line as the client of these tests has it."""
    if isinstance(value, list):
        return [bytes_of(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value['base64'])
    return value.encode() if isinstance(value, str) else value


class LineWriter(Follower):
    """The program that writes lines of JSON."""

    def __init__(self, folder, proxy):
        super().__init__(folder, proxy, ('', 0))
        self.lines = os.path.join(folder, 'lines')
        os.mkdir(self.lines)
        self.argv = [sys.executable, write_program(folder, 1), str(proxy[1]), self.lines]

    def token(self):
        return self.files()[-1:]

    def files(self):
        return sorted(glob.glob(os.path.join(self.lines, '*.ndjson')))

    def table(self):
        """What a loader of all files has: {key: (type, until, value)}."""
        rows = {}
        for path in self.files():
            with open(path, encoding='utf-8') as file:
                for line in file:
                    load_line(rows, json.loads(line))
        return {key: row[:3] for key, row in rows.items()}


def load_line(rows, line):
    if line['kind'] == 'flush':
        for key in [key for key, row in rows.items() if in_ranges(row[3], line['slots'])]:
            del rows[key]
    elif line['kind'] == 'del':
        rows.pop(bytes_of(line['key']), None)
    elif line['kind'] == 'set':
        kind, value = bytes_of(line['type']), bytes_of(line['value'])
        if kind == b'hash':
            value = dict(value)
        elif kind == b'stream':
            value = [[entry, [item for pair in fields for item in pair]] for entry, fields in value]
        rows[bytes_of(line['key'])] = kind, line['until'], sorted(value) if kind == b'set' else value, line['slot']


def random_command(rng):
    number = rng.randrange(60)
    return rng.choice([
        ['SET', 'string:%d' % number, rng.random()], ['APPEND', 'string:%d' % number, 'x' * rng.randrange(100)],
        ['SETBIT', 'bits:%d' % number, rng.randrange(90000), 1], ['HSET', 'hash:%d' % number, rng.randrange(20), rng.random()],
        ['HDEL', 'hash:%d' % number, rng.randrange(20)], ['LPUSH', 'list:%d' % number, rng.random()],
        ['RPOP', 'list:%d' % number], ['SADD', 'set:%d' % number, rng.randrange(50)], ['SPOP', 'set:%d' % number],
        ['ZADD', 'zset:%d' % number, rng.randrange(50), rng.randrange(20)], ['ZPOPMIN', 'zset:%d' % number],
        ['XADD', 'stream:%d' % number, '*', 'f', rng.random()], ['XTRIM', 'stream:%d' % number, 'MAXLEN', 5],
        ['DEL', rng.choice(['string', 'hash', 'list', 'set', 'zset', 'stream']) + ':%d' % number],
        ['PEXPIRE', rng.choice(['string', 'hash', 'list']) + ':%d' % number, rng.randrange(1, 3000)],
        ['EXPIRE', 'string:%d' % number, 100000], ['PERSIST', 'string:%d' % number],
        ['RENAME', 'string:%d' % number, 'string:%d' % rng.randrange(60)],
        ['MSET', 'string:%d' % number, 1, 'string:%d' % rng.randrange(60), 2]])


class Load(threading.Thread):
    """Random commands, with a pause after each."""

    def __init__(self, cluster, seed, pause=0):
        super().__init__(daemon=True)
        self.cluster, self.rng, self.pause, self.is_over, self.count = cluster, random.Random(seed), pause, threading.Event(), 0

    def run(self):
        while not self.is_over.is_set():
            try:
                with self.cluster.connect() as client:
                    while not self.is_over.is_set():
                        client.get(*(['FLUSHALL'] if self.rng.random() < 0.0005 else random_command(self.rng)))
                        self.count += 1
                        time.sleep(self.pause)
            except (OSError, Closed):
                pass


def kill_all_at_work(run, cluster, follower, others=()):
    """Random commands, while slots move, and the program, backends, proxies and others are killed; ends when the cluster rests."""
    rng = random.Random(5)
    loads = [Load(cluster, seed) for seed in (1, 2)]
    for load in loads:
        load.start()
    kills, moved = sized(25, long=1000), 0
    for step in range(kills):
        follower.kill_at_work(rng)
        moved += follower.has_moved()
        if step % 4 == 1:
            cluster.write_shards(random_slots(rng, 3))
        if step % 6 == 2:
            victim = rng.choice(cluster.backends + cluster.proxies + list(others))
            victim.kill9()
            victim.start()
    for load in loads:
        load.is_over.set()
        load.join()
    wait_settled(cluster, range(3))
    run.note('%d commands, %d kills of the program, %d of them when it had copied keys' % (sum(load.count for load in loads), kills, moved))


NOTHING = b'none', -2, 0
READS = {b'string': ('GET',), b'hash': ('HGETALL',), b'list': ('LRANGE', 0, -1), b'set': ('SMEMBERS',),
         b'zset': ('ZRANGE', 0, -1, 'WITHSCORES'), b'stream': ('XRANGE', '-', '+'), b'none': ('EXISTS',)}


def ask(client, *words):
    """The reply; an error is raised: a shard has no leader at the moment, or the slot moves."""
    reply = client.get(*words)
    if isinstance(reply, ReplyError):
        raise reply
    return reply


def content(client, key):
    """Type, TTL and value of a key, in an order that does not depend on its encoding."""
    kind = ask(client, 'TYPE', key)
    command, *rest = READS[kind]
    value = ask(client, command, key, *rest)
    if kind == b'hash':
        value = dict(zip(value[::2], value[1::2]))
    return kind, ask(client, 'PEXPIRETIME', key), sorted(value) if kind == b'set' else value


def all_keys(client):
    keys, cursor = set(), b'0'
    while True:
        cursor, page = ask(client, 'SCAN', cursor, 'COUNT', 1000)
        keys.update(page)
        if cursor == b'0':
            return keys


def difference(cluster, sink, ignored=frozenset()):
    """A key that is not equal; None: all are."""
    with cluster.connect() as client, Connection(sink.address) as copy:
        for key in (all_keys(client) | all_keys(copy)) - ignored:
            here, there = content(client, key), content(copy, key)
            if here != there:
                return key, here, there
    return None


def table_difference(cluster, writer):
    """A key of the table that is not as in the cluster; None: all are."""
    table = writer.table()
    with cluster.connect() as client:
        for key in all_keys(client) | set(table):
            here, there = content(client, key), table.get(key, NOTHING)
            if here != there:
                return key, here, there
    return None


def wait_equal(follower, find_difference):
    last = [None]

    def is_equal():
        follower.keep_alive()
        try:
            last[0] = find_difference()
        except (OSError, Closed, ReplyError) as error:
            last[0] = error
        return last[0] is None
    try:
        wait_for(is_equal, 'every key to be equal', 2 * PATIENCE)
    except Exception:
        print('not equal: %r %s' % (last[0], follower.errors()))
        raise
