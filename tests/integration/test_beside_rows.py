#!/usr/bin/python3
"""Everything that is not a row, beside redis-server: counters, calls, expiry, WATCH, tracking, waiting clients and keyspace events.

    round: clients watch, track, wait and subscribe at both ─► changes: plain, in MULTI or in a script over shards
           ─► each client hears the same from both ─► the keys, their TTLs and the counters are equal
    between rounds: kill -9, slots that move away and back, rows that leave the memory, DUMP and RESTORE;
                    fields of hashes expire, which redis-server 7.0 deletes by HDEL; each slot counts its keys

Collections are small, or big enough for trees of ranks and caches of ranges.
"""

import json
import re
import select
import time

from support.cluster import Cluster, Oracle, evict_all, slot_of
from support.harness import Suite, check, check_equal, sized, wait_for
from support.moves import random_slots, wait_settled
from support.resp import Connection, ReplyError, value

SHARDS = 3
OPERATOR, TOKEN = 'operator', 'token'
BIG = 700  # members
FENCES = 'fence'
LONG_MS = 24 * 3600 * 1000  # no key with this TTL expires during a run


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(12, long=3600))


suite = Suite(__doc__, options)

KINDS = 'szhlxk'  # set, sorted set, hash, list, stream, string
TIMED = ['timed:big', 'timed:small']  # hashes whose fields expire
KEYS = ['%s:%s:%d' % (kind, size, i) for kind in KINDS for size in ('big', 'small') for i in range(2)]
SCRIPT = """local replies = {}
for _, words in ipairs(cjson.decode(ARGV[1])) do
    local reply = redis.pcall(unpack(words))
    if type(reply) == 'table' and reply.err then reply = 'error' end
    table.insert(replies, reply == false and 'none' or reply)
end
return replies"""


def fill(kind, key, count):
    """Commands that make the collection."""
    if kind == 'k':
        return [['SET', key, 'v' * count]]
    if kind == 'x':
        return [['XADD', key, '%d-1' % (i + 1), 'f', i] for i in range(count)] + [['XGROUP', 'CREATE', key, 'g', '$']]
    words = {'s': ['SADD', key], 'z': ['ZADD', key], 'h': ['HSET', key], 'l': ['RPUSH', key]}[kind]
    for i in range(count):
        words += {'s': ['m%05d' % i], 'z': [i, 'm%05d' % i], 'h': ['m%05d' % i, i], 'l': ['m%05d' % i]}[kind]
    return [words]


def change(rng, key, serial):
    """A random change of the key; its reply does not depend on chance."""
    kind, member = key[0], 'm%05d' % rng.randrange(2 * BIG)
    at = rng.randrange(BIG)
    general = [['DEL', key], ['UNLINK', key], ['PEXPIRE', key, LONG_MS], ['PERSIST', key], ['PEXPIRE', key, rng.choice([1, 30, LONG_MS])],
               ['TOUCH', key], ['EXPIRE', key, '-1'], ['COPY', key, rng.choice(KEYS), 'REPLACE']]
    own = {
        's': [['SADD', key, member], ['SREM', key, member], ['SADD', key, 'a', 'b', 'c'], ['SUNIONSTORE', key, key, rng.choice(['s:big:0', 's:small:1'])],
              ['SMOVE', key, rng.choice(['s:big:1', 's:small:0']), member]],
        'z': [['ZADD', key, at, member], ['ZREM', key, member], ['ZINCRBY', key, at - 300, member], ['ZPOPMIN', key], ['ZPOPMAX', key],
              ['ZREMRANGEBYRANK', key, at, at + 2], ['ZADD', key, '-5', 'low'], ['ZUNIONSTORE', key, '2', key, rng.choice(['z:big:0', 'z:small:1'])]],
        'h': [['HSET', key, member, at], ['HDEL', key, member], ['HINCRBY', key, 'n', '1'], ['HSETNX', key, member, 'x']],
        'l': [['RPUSH', key, member], ['LPUSH', key, 'x', 'y'], ['LPOP', key], ['RPOP', key, '2'], ['LTRIM', key, '0', '-1'], ['LTRIM', key, '1', '-1'],
              ['LMOVE', key, key, 'LEFT', 'LEFT'], ['LMOVE', key, rng.choice(['l:big:1', 'l:small:0']), 'LEFT', 'RIGHT'], ['LSET', key, '0', member],
              ['RPOPLPUSH', key, key]],
        'x': [['XADD', key, '%d-1' % (10 * BIG + serial), 'f', 'v'], ['XDEL', key, '%d-1' % at], ['XTRIM', key, 'MAXLEN', '5'], ['XGROUP', 'DESTROY', key, 'g'],
              ['XGROUP', 'CREATE', key, 'g', '$', 'MKSTREAM']],
        'k': [['SET', key, member], ['APPEND', key, 'x'], ['SETRANGE', key, '5', 'yy'], ['SET', key, 'v', 'PX', rng.choice(['1', '50', LONG_MS])],
              ['GETDEL', key], ['SET', key, 'n', 'KEEPTTL'], ['GETEX', key, 'PERSIST'], ['SETBIT', key, '100', '1']],
    }[kind]
    return rng.choice(own if rng.random() < 0.85 else general)


def plain(reply):
    """The value without the order of sets, and errors without their texts inside of scripts."""
    return str(reply) if isinstance(reply, ReplyError) else reply


class Side:
    """The clients of one of the two servers in a round."""

    def __init__(self, address, fences, login=None):
        """`login`: the words behind AUTH, of a tenant; its operator is OPERATOR."""
        self.address, self.fences, self.login = address, fences, login
        self.open = []
        self.operator = self.connect(login=login and [OPERATOR])
        self.writer = self.connect()
        check_equal(self.operator.get('CONFIG', 'SET', 'notify-keyspace-events', 'EA'), b'OK')

    def connect(self, proto=2, login=None):
        self.open.append(Connection(self.address, proto=2))
        login = login or self.login
        if login:
            check_equal(self.open[-1].get('AUTH', *login), b'OK')
        if proto == 3:
            self.open[-1].get('HELLO', '3')
        return self.open[-1]

    def observe(self, plan):
        """Clients that watch, track, wait for keys and listen to events."""
        self.watching, self.tracking, self.bcast, self.hearing = self.connect(), self.connect(3), self.connect(3), self.connect()
        wait_for(lambda: self.watching.get('WATCH', *plan['watch']) == b'OK', 'WATCH')  # after a kill -9
        check_equal(self.tracking.get('CLIENT', 'TRACKING', 'ON'), b'OK')
        for key in plan['track']:
            wait_for(lambda key=key: not isinstance(self.tracking.get('TYPE', key), ReplyError), 'TYPE')
        check_equal(self.bcast.get('CLIENT', 'TRACKING', 'ON', 'BCAST', 'NOLOOP'), b'OK')
        self.hearing.get('PSUBSCRIBE', '__keyevent@0__:*')
        self.waiting = []
        for words in plan['wait']:
            self.waiting.append(self.connect())
            self.waiting[-1].send(*words)
        self.await_shards()
        wait_for(lambda: self.blocked() + self.answered() >= len(self.waiting), 'clients to wait')
        wait_for(self.hears_all, 'events and invalidations of all shards')
        self.told = {'track': [], 'bcast': []}

    def hears_all(self):
        """Do events of every shard arrive? After a kill -9 the proxy subscribes again."""
        missing = {key.encode() for key in self.fences}
        for key in self.fences:
            self.writer.call('SET', key, 'x')
        while missing and select.select([self.hearing.sock], [], [], 0.2)[0]:
            missing.discard(value(self.hearing.read())[3])
        missing |= {key.encode() for key in self.fences} - set(self.invalidated(self.bcast))
        return not missing

    @staticmethod
    def invalidated(client, commands=()):
        """The keys in the invalidations before the replies to these commands and a PING."""
        client.send_many([*commands, ['PING', 'end']])
        keys = []
        while (frame := client.read()) != ('$', b'end'):
            if frame[0] == '>':
                keys += value(frame)[1] or [b'all']
        return keys

    def blocked(self):
        info = self.operator.get('INFO', 'clients')
        return int(info.split(b'\r\nblocked_clients:')[1].split(b'\r')[0])

    def answered(self):
        return sum(bool(select.select([client.sock], [], [], 0)[0]) for client in self.waiting)

    def await_shards(self):
        """Reads wait until all shards have applied what was acknowledged."""
        self.writer.call('EXISTS', *KEYS)

    def calls(self, commands):
        """How often each of these commands was called, by the statistics."""
        info = self.operator.get('INFO', 'commandstats')
        counts = dict(re.findall(rb'cmdstat_([^:]+):calls=(\d+)', info))
        names = {'%s|%s' % (words[0], words[1]) if words[0] == 'XGROUP' else words[0] for words in commands}
        return {name: int(counts.get(name.lower().encode(), 0)) for name in names}

    def run(self, how, commands):
        """The changes, and by the client that has turned NOLOOP on if how['own']."""
        writer = self.bcast if how['own'] else self.writer
        if how['by'] == 'plain':
            requests = commands
        elif how['by'] == 'multi':
            requests = [['MULTI'], *commands, ['EXEC']]
        else:
            texts = [[str(word) for word in words] for words in commands]
            requests = [['EVAL', SCRIPT, '0', json.dumps(texts)]]
        replies = []
        for words in requests:
            writer.send(*words)
            while (frame := writer.read())[0] == '>':
                self.told['bcast'] += value(frame)[1] or [b'all']
            replies.append(plain(value(frame)))
        self.await_shards()
        return replies

    def collect(self):
        """What the clients have heard, up to a fence."""
        for name, client in (('track', self.tracking), ('bcast', self.bcast)):
            for _ in range(2):  # a proxy sends invalidations only after all requests in progress
                self.told[name] += self.invalidated(client, [['DEL', 'absent-' + fence] for fence in self.fences])
        self.watching.send_many([['MULTI'], ['PING'], ['EXEC']])
        return {'exec': [plain(value(self.watching.read())) for _ in range(3)][2] is None,
                **{name: {key for key in keys if not key.startswith(FENCES.encode())} for name, keys in self.told.items()}}

    def events(self, last):
        """Events up to those of the fences, which are changed last."""
        missing = {key.encode() for key in last}
        for key in last:
            self.writer.get('APPEND', key, 'x')
        events = []
        while missing:
            _, _, channel, key = value(self.hearing.read())
            event = channel.split(b':', 1)[1]
            missing -= {key} if event == b'append' else set()
            events.append((event, key))
        return sorted(event for event in events if not event[1].startswith(FENCES.encode()))

    def state(self):
        requests = [['TYPE', key] for key in KEYS] + [
            {'s': ['SMEMBERS', key], 'z': ['ZRANGE', key, 0, -1, 'WITHSCORES'], 'h': ['HGETALL', key], 'l': ['LRANGE', key, 0, -1],
             'x': ['XRANGE', key, '-', '+'], 'k': ['GET', key]}[key[0]] for key in KEYS]
        replies = [value(reply) for reply in self.writer.pipeline(requests)]
        return [sorted(reply) if words[0] in ('SMEMBERS', 'HGETALL') and isinstance(reply, list) else plain(reply)
                for words, reply in zip(requests, replies)]

    def counts(self):
        info = self.writer.get('INFO', 'keyspace')
        line = info.split(b'db0:')[1].split(b',avg_ttl')[0] if b'db0:' in info else b'keys=0,expires=0'
        ttls = [reply[1] if int(reply[1]) < 0 else b'some' for reply in self.writer.pipeline([['PTTL', key] for key in KEYS])]
        return self.writer.get('DBSIZE'), line, ttls, sorted(self.writer.get('KEYS', '*'))

    def close(self):
        for connection in self.open:
            connection.close()
        self.open = []


class Play:
    def __init__(self, run, cluster, oracle, login=None):
        self.login = login
        self.run, self.rng, self.cluster, self.oracle = run, run.rng, cluster, oracle
        self.serial, self.log = 0, []
        self.fences = ['%s{%s}' % (FENCES, cluster.key_on(shard)) for shard in range(SHARDS)]
        self.counts, self.last = {}, None

    def sides(self):
        return [Side(self.oracle.address, self.fences), Side(self.cluster.proxies[0].address, self.fences, self.login)]

    def count(self, what):
        self.last = what
        self.counts[what] = self.counts.get(what, 0) + 1

    def both(self, sides, commands):
        for words in commands:
            check_equal(plain(sides[1].writer.get(*words)), plain(sides[0].writer.get(*words)), words)

    def renew(self, sides):
        """Some keys are made again, so that there is something to change."""
        for key in self.rng.sample(KEYS, 6):
            if sides[0].writer.get('EXISTS', key) == 0:
                self.both(sides, fill(key[0], key, BIG if 'big' in key else 4))

    def disturb(self):
        dice, self.last = self.rng.random(), None
        if dice < 0.08:
            self.count('kill -9')
            victim = self.rng.choice(self.cluster.backends)
            victim.kill9()
            victim.start()
            self.cluster.wait_linked()
        elif dice < 0.14:
            self.count('moves')
            self.cluster.slots = random_slots(self.rng, SHARDS)
            self.cluster.write_shards()
            wait_settled(self.cluster, range(SHARDS))
        elif dice < 0.22:
            self.count('evictions')
            with self.cluster.partition(self.rng.randrange(SHARDS)) as partition:
                evict_all(partition)

    def restore(self, sides):
        """DUMP and RESTORE of a key, at each of both."""
        key = self.rng.choice(KEYS)
        for side in sides:
            payload = side.writer.get('DUMP', key)
            if payload is not None:
                check_equal(side.writer.get('RESTORE', key, '0', payload, 'REPLACE'), b'OK')

    def expire_fields(self, sides):
        """Fields get a short TTL, in one of the ways of a change; at redis-server they are deleted."""
        key = self.rng.choice(TIMED)
        fields = ['m%05d' % self.rng.randrange(BIG if 'big' in key else 4) for _ in range(3)]
        how = {'by': self.rng.choice(['plain', 'multi', 'script']), 'own': False}
        other = [['HINCRBY', self.rng.choice([key for key in KEYS if key[0] == 'h']), 'n', '1']]
        sides[0].run(how, [['HDEL', key, *fields]] + other)
        sides[1].run(how, [['HPEXPIRE', key, '20', 'FIELDS', str(len(fields)), *fields]] + other)
        self.compare_fields(sides)
        if self.rng.random() < 0.3:  # a field that is set again has no TTL
            self.both(sides, [['HSET', key, fields[0], 'again']])
        self.count('fields')

    def compare_fields(self, sides):
        """Fields that are due are gone from replies at once, and from the counts of fields when they were deleted."""
        def states():
            return [[sorted(side.writer.get('HGETALL', key)) + [side.writer.get('HLEN', key)] for key in TIMED] for side in sides]
        wait_for(lambda: states()[0] == states()[1], 'fields to expire')

    def compare_slots(self, sides):
        """Each slot counts the keys that it has."""
        wanted = {}
        for key in sides[0].writer.get('KEYS', '*'):
            slot = slot_of(key.decode())
            wanted[slot] = wanted.get(slot, 0) + 1
        slots = sorted({slot_of(key) for key in KEYS + TIMED + self.fences})

        def counted():
            counts = {}
            for shard in range(SHARDS):
                with self.cluster.partition(shard) as partition:
                    own = [slot for slot in slots if self.cluster.shard_of_slot(slot) == shard]
                    for slot, reply in zip(own, partition.pipeline([['CLUSTER', 'COUNTKEYSINSLOT', slot] for slot in own])):
                        counts[slot] = value(reply)
            return {slot: count for slot, count in counts.items() if count}
        wait_for(lambda: counted() == wanted, 'the slots to count %r' % wanted)

    def check_counts(self):
        sides = self.sides()
        try:
            self.compare_fields(sides)
            if not self.login:  # a shard counts the keys of its open namespace
                self.compare_slots(sides)
        finally:
            for side in sides:
                side.close()

    def plan(self):
        rng = self.rng
        streams, lists = [key for key in KEYS if key[0] == 'x'], [key for key in KEYS if key[0] == 'l']
        waits = [['BLPOP', rng.choice(lists), '0'], ['BZPOPMIN', rng.choice([key for key in KEYS if key[0] == 'z']), '0'],
                 ['XREADGROUP', 'GROUP', 'g', 'c', 'BLOCK', '0', 'STREAMS', rng.choice(streams), '>']]
        return {'watch': rng.sample(KEYS, 2), 'track': rng.sample(KEYS, 8), 'wait': rng.sample(waits, rng.randrange(3))}

    def round(self, number):
        rng, sides, after = self.rng, self.sides(), self.last
        try:
            self.renew(sides)
            if rng.random() < 0.1:
                self.restore(sides)
            if rng.random() < 0.3:
                self.expire_fields(sides)
            plan = self.plan()
            by = rng.choice(['plain', 'multi', 'multi', 'script'])
            # redis-server tells a client of what its own scripts change, NOLOOP or not
            how = {'by': by, 'own': by != 'script' and rng.random() < 0.3}
            keys, commands = rng.sample(KEYS, rng.randrange(1, 5)), []
            for key in keys:
                self.serial += 1
                commands.append(change(rng, key, self.serial))
            # a key that lives for a millisecond is not read by another command: it would be there at one of both only
            commands.sort(key=lambda words: 'PX' in words or 'PEXPIRE' in words)
            what = 'round %d after %s: %s %s beside %s' % (number, after, how, commands, plan)
            for side in sides:
                side.observe(plan)
            before = [side.calls(commands) for side in sides]
            replies = [side.run(how, commands) for side in sides]
            check_equal(replies[1], replies[0], what + ': replies')
            calls = [{name: count - old[name] for name, count in side.calls(commands).items()} for side, old in zip(sides, before)]
            check_equal(calls[1], calls[0], what + ': calls')
            # the wall clock passes differently at both: what is due soon is due, and deleted, before more is compared
            time.sleep(0.12)
            for side in sides:
                side.await_shards()
            self.compare_waits(sides, what)
            self.state(sides, what)
            heard = [side.collect() for side in sides]
            for name in ('track', 'bcast'):
                self.hear_late(sides[1], name, heard, what)
            for name in heard[0]:
                if name == 'exec' and heard[1][name] and after == 'moves':
                    continue  # EXEC also fails if a watched key was on its way, as the last steps of a move may be
                if name == 'exec' or b'all' not in heard[1][name]:  # after a new map a proxy's clients drop all copies
                    check_equal(heard[1][name], heard[0][name], '%s: %s' % (what, name))
            if not any('PX' in words or 'PEXPIRE' in words for words in commands):
                events = [side.events(self.fences) for side in sides]
                check_equal(events[1], events[0], what + ': events')
            for side in sides:
                side.writer.get('DEL', *self.fences)
            self.count(how['by'])
        finally:
            for side in sides:
                side.close()

    @staticmethod
    def hear_late(side, name, heard, what):
        """An invalidation may come later than the reply of the command that caused it."""
        client = {'track': side.tracking, 'bcast': side.bcast}[name]

        def is_heard():
            heard[1][name].update(key for key in side.invalidated(client) if not key.startswith(FENCES.encode()))
            return heard[1][name] >= heard[0][name] or b'all' in heard[1][name]
        wait_for(is_heard, '%s: %s: %s' % (what, name, heard[0][name]))

    def compare_waits(self, sides, what):
        """Each client that waits is served by both, with the same reply, or by neither."""
        clients = sides[0].waiting
        wait_for(lambda: sides[0].blocked() + sides[0].answered() == len(clients), 'redis-server to have served')
        served = [bool(select.select([client.sock], [], [], 0)[0]) for client in clients]
        for client, other, is_served in zip(clients, sides[1].waiting, served):
            if is_served:
                check_equal(plain(value(other.read())), plain(value(client.read())), what + ': a client that waited')
                self.count('served')
            else:
                check(not select.select([other.sock], [], [], 0)[0], what + ': a client was served that waits')

    def state(self, sides, what):
        states = [side.state() for side in sides]
        for key, ours, theirs in zip(KEYS * 2, states[1], states[0]):
            check_equal(ours, theirs, '%s: %s' % (what, key))

        def counts():
            return [side.counts() for side in sides]
        wait_for(lambda: len(set(map(str, counts()))) == 1, what + ': counters')

    def play(self, seconds):
        sides = self.sides()
        for key in KEYS + TIMED:
            self.both(sides, fill('h' if key in TIMED else key[0], key, BIG if 'big' in key else 4))
        for side in sides:
            side.close()
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end or number <= 3:
            number += 1
            self.round(number)
            self.disturb()
            if number % 5 == 0:
                self.check_counts()
        self.run.note('%d rounds; %s' % (number, ', '.join('%s %d' % pair for pair in sorted(self.counts.items()))))


@suite.case('what clients hear and count is the same as with redis-server, however keys change, and whatever happens between')
def _(run):
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True) as cluster, Oracle() as oracle:
        Play(run, cluster, oracle).play(run.options.seconds / 2)


@suite.case('what a tenant\'s clients hear and count is the same, beside a neighbour with the same keys')
def _(run):
    options = {'proxy': {'requirepass': OPERATOR}}
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True, proxy_options=options,
                 namespaces={'tenant': {'token': TOKEN}, 'neighbour': {'token': TOKEN + '2'}}) as cluster, Oracle() as oracle:
        neighbour = Side(cluster.proxies[0].address, [], ['neighbour', TOKEN + '2'])
        for key in KEYS:
            for words in fill(key[0], key, 4):
                neighbour.writer.get(*words)
        Play(run, cluster, oracle, ['tenant', TOKEN]).play(run.options.seconds / 2)
        check_equal(neighbour.writer.get('DBSIZE'), len(KEYS), 'the keys of the neighbour')
        neighbour.close()


if __name__ == '__main__':
    suite.main()
