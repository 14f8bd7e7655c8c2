#!/usr/bin/python3
"""INFO keyspace counts the hashes whose fields have TTLs (`subexpiry`), however they change: compared with a recount of all keys.

    changes: plain, in MULTI or in a script, some of which fail or are over shards ─► INFO keyspace == hashes of which HTTL finds a TTL
    between: kill -9, slots that move, fields and keys that expire, FLUSHDB, SWAPDB, RESTORE
"""

import json

from support.cluster import Cluster, slot_of
from support.harness import Suite, check, check_equal, sized, wait_for
from support.moves import random_slots, shard_lines, wait_settled
from support.resp import ReplyError, value

suite = Suite(__doc__)
SHARDS = 3
PATIENT = {'upstream': {'hold': '1m'}}  # a slow machine needs long to start a backend
ROUNDS = sized(80, long=3000)
KEYS = ['key:%d' % i for i in range(24)] + ['{tag}:%d' % i for i in range(8)]
FIELDS = ['a', 'b', 'c']
FAR = '100000000'
SCRIPT = """for _, words in ipairs(cjson.decode(ARGV[1])) do redis.pcall(unpack(words)) end
if ARGV[2] == 'fail' then error('at the end') end"""


def change(rng):
    key, other = rng.choice(KEYS), rng.choice(KEYS)
    field = rng.choice(FIELDS)
    return rng.choice([
        ['HSET', key, field, '1'], ['HSET', key, 'a', '1', 'b', '2', 'c', '3'], ['HSET', key, *sum(([f, '1'] for f in FIELDS), [])],
        *[['HPEXPIRE', key, FAR, 'FIELDS', '1', field]] * 4, ['HEXPIRE', key, FAR, 'FIELDS', '2', 'a', 'b'],
        ['HSETEX', key, 'PX', FAR, 'FIELDS', '1', field, '1'], ['HSETEX', key, 'PX', '30', 'FIELDS', '1', field, '1'],
        ['HPEXPIRE', key, '30', 'FIELDS', '1', field], ['HPEXPIRE', key, '0', 'FIELDS', '1', field],
        ['HPEXPIRE', key, '30', 'FIELDS', '3', *FIELDS], ['HPERSIST', key, 'FIELDS', '1', field],
        ['HPERSIST', key, 'FIELDS', '3', *FIELDS], ['HGETEX', key, 'PERSIST', 'FIELDS', '1', field], ['HDEL', key, field],
        ['HGETDEL', key, 'FIELDS', '1', field], ['PEXPIRE', key, '30'], ['PEXPIRE', key, FAR], ['PERSIST', key], ['DEL', key],
        ['DEL', key, other], ['UNLINK', key], ['SET', key, 'text'], ['RENAME', key, other], ['COPY', key, other, 'REPLACE'],
        ['COPY', key, other, 'DB', '1', 'REPLACE'], ['MOVE', key, '1'], ['RENAMENX', key, other], ['GETDEL', key]])


def subexpiry(client):
    info = client.get('INFO', 'keyspace')
    return int(info.split(b'subexpiry=')[1].split(b'\r')[0]) if b'subexpiry=' in info else 0


class Play:
    def __init__(self, run, cluster, shards):
        self.rng, self.cluster, self.shards = run.rng, cluster, shards
        self.client = self.connect()
        self.done = {}

    def connect(self):
        return self.cluster.connect() if self.cluster.proxies else self.cluster.partition(0)

    def change(self):
        commands = [change(self.rng) for _ in range(self.rng.randrange(1, 5))]
        how = self.rng.choice(['plain', 'plain', 'multi', 'discard', 'script', 'fail'])
        if how in ('script', 'fail'):
            requests = [['EVAL', SCRIPT, '0', json.dumps(commands), how]]
        elif how == 'plain':
            requests = commands
        else:
            requests = [['MULTI'], *commands, ['EXEC' if how == 'multi' else 'DISCARD']]
        for words in requests:
            self.client.get(*words)
        self.count(how)

    def count(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def restore(self):
        key = self.rng.choice(KEYS)
        payload = self.client.get('DUMP', key)
        if payload is not None:
            check_equal(self.client.get('RESTORE', self.rng.choice(KEYS), '0', payload, 'REPLACE'), b'OK')
            self.count('restore')

    def databases(self):
        """Databases are swapped or emptied, some in a transaction that is discarded."""
        words = self.rng.choice([['SWAPDB', '0', '1'], ['FLUSHDB'], ['FLUSHALL']])
        self.client.get(*words)
        self.count(words[0])

    def restart(self):
        victim = self.rng.choice(self.cluster.backends)
        victim.kill9()
        victim.start()
        if self.shards > 1:
            self.cluster.wait_linked()
        else:
            self.client.close()
            self.client = self.connect()
        self.count('kill -9')

    def move(self):
        if self.shards > 1:
            self.cluster.slots = random_slots(self.rng, self.shards)
            self.cluster.write_shards()
            if self.rng.random() < 0.5:
                self.restart()
            wait_settled(self.cluster, range(self.shards))
            self.count('moves')

    def shown(self):
        """What INFO keyspace shows for databases 0 and 1."""
        info = self.client.get('INFO', 'keyspace')
        if isinstance(info, ReplyError):
            return info
        shown = [0, 0]
        for line in info.decode().split('\r\n'):
            if line.startswith('db'):
                numbers = dict(item.split('=') for item in line.split(':')[1].split(','))
                check(list(numbers)[:3] == ['keys', 'expires', 'avg_ttl'] and numbers.get('subexpiry') != '0', line)
                shown[int(line[2:line.index(':')])] = int(numbers.get('subexpiry', 0))
        return shown

    def recounted(self):
        """The same, of all keys one by one; or an error."""
        counts = []
        for database in (0, 1):
            self.client.get('SELECT', str(database))
            names = self.client.get('KEYS', '*')
            if isinstance(names, ReplyError):
                return names
            ttls = [value(reply) for reply in self.client.pipeline([['HPTTL', name, 'FIELDS', '3', *FIELDS] for name in names])]
            counts.append(sum(isinstance(reply, list) and any(ttl >= 0 for ttl in reply) for reply in ttls))
        self.client.get('SELECT', '0')
        return counts

    def check_counts(self, what):
        seen = []

        def agree():  # what is due is deleted in the background
            seen[:] = [self.shown(), self.recounted()]
            return seen[0] == seen[1] and isinstance(seen[0], list)
        wait_for(agree, '%s: INFO keyspace to count all hashes whose fields have TTLs' % what)
        return seen[0]

    def play(self):
        most = 0
        for number in range(ROUNDS):
            for _ in range(8):
                self.change()
            dice, what = self.rng.random(), 'round %d' % number
            if dice < 0.1:
                self.restore()
            elif dice < 0.14:
                self.databases()
            elif dice < 0.2:
                self.restart()
            elif dice < 0.3:
                self.move()
            most = max(most, sum(self.check_counts('%s, after %s' % (what, self.done))))
        check(most > 3, 'too few hashes had TTLs')
        return ', '.join('%s %d' % pair for pair in sorted(self.done.items()))


@suite.case('one partition counts hashes whose fields have TTLs, also after kill -9')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        run.note(Play(run, cluster, 1).play())


@suite.case('three shards count them together, while slots move and backends are killed')
def _(run):
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True, proxy_options=PATIENT) as cluster:
        check(len({cluster.shard_of_slot(slot_of(key)) for key in KEYS}) == SHARDS, 'keys at all shards')
        run.note(Play(run, cluster, SHARDS).play())


@suite.case('slots of which some rows have arrived when both shards are killed: each hash is counted once')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True, slots=['0-8191', '8192-16383'], proxy_options=PATIENT,
                 backend_options={'backend': {'migration-rate': '200kb'}}) as cluster:
        client = cluster.connect()
        names = ['hash:%d' % i for i in range(sized(1500, long=20000))]
        client.pipeline([['HSETEX', name, 'PX', FAR, 'FIELDS', '1', 'field', 'x' * 3000] for name in names])  # a move copies pages of 64 KB
        check_equal(subexpiry(client), len(names))
        cluster.write_shards(['0-4095', '4096-16383'])

        def receives():
            with cluster.partition(1) as partition:
                return any(int(line['keys']) for line in shard_lines(partition)[1:])
        wait_for(receives, 'rows at the target')
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        cluster.wait_linked()
        for shard in range(2):
            with cluster.partition(shard) as partition:
                check_equal(partition.get('CONFIG', 'SET', 'migration-rate', '0'), b'OK')
        wait_settled(cluster)
        wait_for(lambda: subexpiry(client) == len(names), 'each hash to be counted once')
        for name in names:
            client.get('HPERSIST', name, 'FIELDS', '1', 'field')
        check_equal(subexpiry(client), 0)


if __name__ == '__main__':
    suite.main()
