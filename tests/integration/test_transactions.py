#!/usr/bin/python3
"""Commands, scripts and transactions with keys of several shards, at the shard that coordinates them (SCREE ACROSS)."""

import itertools
import random
import re
import threading
import time

from support.cluster import Cluster, evict_all, metric
from support.frame_gate import PREPARE, FrameGate
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.list_append import DONE, REFUSED, Append, Read, Transaction, anomalies
from support.resp import Closed, ReplyError, value

SHARDS = 3

suite = Suite(__doc__)


class Linked(Cluster):
    """Three backends that know the shard map, without a proxy."""

    def __init__(self, options=None):
        super().__init__(backends=SHARDS, partitions=1, proxies=0, linked=True, backend_options={'backend': options or {}})

    def proxy_connection(self, index, proto=2):
        return proxy_connection(self, index, proto)


def proxy_connection(cluster, index, proto=2):
    """A connection as a proxy makes it: it knows the slots of the shard, and may use SCREE ACROSS."""
    connection = cluster.partition(index)
    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
    if proto == 3:
        connection.get('HELLO', '3')
    check_equal(connection.get('SCREE', 'SLOTS', cluster.slots[index]), b'OK')
    return connection


def across(connection, *words):
    return connection.get('SCREE', 'ACROSS', *words)


@suite.case('commands with keys of three shards do what one Redis does')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        check_equal(across(shards[0], 'MSET', a, '1', b, '2', c, '3'), b'OK')
        check_equal([connection.get('GET', key) for connection, key in zip(shards, (a, b, c))], [b'1', b'2', b'3'])
        check_equal(across(shards[1], 'MGET', a, b, c), [b'1', b'2', b'3'])
        check_equal(across(shards[0], 'RENAME', a, b), b'OK')
        check_equal([connection.get('GET', key) for connection, key in zip(shards, (a, b, c))], [None, b'1', b'3'])
        check_equal([connection.get('DBSIZE') for connection in shards], [0, 1, 1])


@suite.case('EXEC with keys of three shards: all of it, in order, or nothing')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        for proto in (2, 3):
            shard = cluster.proxy_connection(1, proto)
            shard.get('MULTI')
            for words in (['SET', a, 'x'], ['APPEND', a, 'y'], ['RPUSH', b, '1', '2'], ['LMOVE', b, c, 'LEFT', 'RIGHT'],
                          ['HSET', a, 'f', 'v'], ['MGET', a], ['EXPIRE', c, '1000'], ['LRANGE', c, '0', '-1']):
                check_equal(shard.get(*words), b'QUEUED')
            replies = across(shard, 'EXEC')
            check('WRONGTYPE' in str(replies[4]), replies[4])
            check_equal(replies[:4] + replies[5:], [b'OK', 2, 2, b'1', [b'xy'], 1, [b'1']])
            check_equal([shards[0].get('GET', a), shards[1].get('LRANGE', b, '0', '-1'), shards[2].get('TTL', c) > 990],
                        [b'xy', [b'2'], True])
            for connection, key in zip(shards, (a, b, c)):
                check_equal(connection.get('DEL', key), 1)
        check_equal([connection.get('DBSIZE') for connection in shards], [0, 0, 0])


@suite.case('scripts use keys of any shard, declared or not')
def _(run):
    script = """local sum = 0
for i = 1, #ARGV do sum = sum + redis.call('INCRBY', ARGV[i], i); redis.call('ZADD', 'z' .. ARGV[i], i, 'm') end
return {sum, redis.call('ZSCORE', 'z' .. ARGV[1], 'm'), redis.call('GET', ARGV[#ARGV])}"""
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        keys = ['key:%d' % i for i in range(12)]
        for turn in range(1, 4):
            check_equal(across(shards[turn % SHARDS], 'EVAL', script, '0', *keys), [78 * turn, b'1', b'%d' % (12 * turn)])
        for i, key in enumerate(keys):
            check_equal(shards[cluster.shard_of(key)].get('GET', key), b'%d' % (3 * (i + 1)))
        check_equal(sum(connection.get('DBSIZE') for connection in shards), 24)


@suite.case('collections of any size are borrowed: whole, by rows, or up to borrow-limit')
def _(run):
    with Linked({'borrow-limit': '1mb'}) as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        for size in (10, 3000):
            members = ['member:%06d' % i for i in range(size)]
            for connection, key in zip(shards, (a, b)):
                connection.get('DEL', key)
                connection.get('SADD', key, *members)
            shards[0].get('SADD', a, 'more')
            check_equal(across(shards[2], 'SDIFF', a, b), [b'more'])
            check_equal(across(shards[2], 'SINTERSTORE', c, a, b), size)
            check_equal(shards[2].get('SCARD', c), size)
            check_equal(across(shards[2], 'SMOVE', a, c, 'more'), 1)
            check_equal(across(shards[2], 'SMISMEMBER', a, 'more', members[-1]), [0, 1])
            check_equal(across(shards[1], 'RENAME', c, b), b'OK')
            check_equal([shards[2].get('EXISTS', c), shards[1].get('SCARD', b)], [0, size + 1])
        big = cluster.key_on(0, 'big')
        for i in range(3):
            shards[0].get('RPUSH', big, *['x' * 1000] * 500)
        check('borrow-limit' in str(across(shards[1], 'RENAME', big, b)), 'a list of 1.5 MB')
        shards[1].get('DEL', b)
        check_equal(across(shards[1], 'LMOVE', big, b, 'RIGHT', 'LEFT'), b'x' * 1000)
        check_equal([shards[0].get('LLEN', big), shards[1].get('LLEN', b)], [1499, 1])


@suite.case('rows of other shards that are on the disk only are borrowed, too')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        members = [b'member:%04d' % i for i in range(300)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        for turn in range(3):
            across(shards[turn], 'DEL', a, b, c)
            shards[0].get('RPUSH', a, *members)
            shards[1].get('SADD', b, *members)
            for i, member in enumerate(members):
                shards[2].send('ZADD', c, i, member)
            check_equal([shards[2].read() for _ in members], [(':', b'1')] * len(members))
            for shard in shards:
                evict_all(shard)
            script = "return {redis.call('LRANGE', KEYS[1], 0, -1), redis.call('SREM', KEYS[2], ARGV[1]), " \
                     "redis.call('ZREM', KEYS[3], ARGV[1])}"
            check_equal(across(shards[turn], 'EVAL', script, '3', a, b, c, members[turn]), [members, 1, 1])
            check_equal([shards[1].get('SCARD', b), shards[2].get('ZCARD', c)], [299, 299])


@suite.case('transactions that begin in the same moment never wait for each other')
def _(run):
    script = "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])"
    with Linked({'lock-timeout': '10m', 'transaction-timeout': '10m'}) as cluster:
        b, c = cluster.key_on(1), cluster.key_on(2)
        clients = [cluster.proxy_connection(0) for _ in range(8)]
        for turn in range(1, sized(5, long=200)):
            cluster.backends[0].pause()
            for i, client in enumerate(clients):
                client.send('SCREE', 'ACROSS', 'EVAL', script, '2', *((b, c) if i % 2 else (c, b)))
            cluster.backends[0].resume()
            replies = [client.read() for client in clients]
            check(all(reply[0] == ':' for reply in replies), repr(replies))
            check_equal([cluster.proxy_connection(1).get('GET', b), cluster.proxy_connection(2).get('GET', c)],
                        [b'%d' % (turn * len(clients))] * 2)


@suite.case('WATCH of keys of other shards: EXEC does nothing when one has changed, expired, or its shard was restarted')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]

        def watch_and_set(interfere):
            check_equal(across(shards[0], 'WATCH', a, b, c), b'OK')
            interfere()
            shards[0].get('MULTI')
            shards[0].get('INCR', a)
            shards[0].get('INCR', b)
            return across(shards[0], 'EXEC')
        check_equal(watch_and_set(lambda: None), [1, 1])
        check_equal(watch_and_set(lambda: shards[2].get('SET', c, 'x')), None)
        check_equal(watch_and_set(lambda: shards[1].get('INCR', b)), None)
        check_equal(watch_and_set(lambda: shards[0].get('INCR', a)), None)
        check_equal(watch_and_set(lambda: across(shards[1], 'MSET', a, '5', c, '6')), None)
        check_equal(watch_and_set(lambda: shards[2].get('GET', c)), [6, 3])
        check_equal(watch_and_set(lambda: across(shards[0], 'UNWATCH') and shards[2].get('SET', c, 'y')), [7, 4])
        shards[2].get('PEXPIRE', c, '1')
        wait_for(lambda: shards[2].get('EXISTS', c) == 0, 'the key to expire')
        check_equal(watch_and_set(lambda: None), [8, 5], 'it had expired before')
        def expires_under_watch(expires_ms):
            """False: the key had expired before WATCH, which it must not."""
            was_there = []

            def wait_expired():
                was_there.append(shards[2].get('EXISTS', c))
                wait_for(lambda: shards[2].get('EXISTS', c) == 0, 'the key to expire')
            shards[2].get('SET', c, 'x', 'PX', expires_ms)
            reply = watch_and_set(wait_expired)
            if not was_there[0] and reply is not None:
                check_equal([shards[0].get('DECR', a), shards[1].get('DECR', b)], [8, 5])
                return False
            check_equal(reply, None)
            return True
        check(any(expires_under_watch(expires_ms) for expires_ms in (3000, 15000, 60000)), 'WATCH took a minute')

        def restart():
            cluster.backends[2].kill9()
            cluster.backends[2].start()
            cluster.wait_linked()
        check_equal(watch_and_set(restart), None)
        shards[2] = cluster.proxy_connection(2)
        check_equal(watch_and_set(lambda: None), [9, 6])
        def has_open():
            return any(connection.get('SCREE', 'TRANSACTIONS') for connection in shards)
        wait_for(lambda: not has_open(), 'all transactions to end')


def run_beside(work, *threads):
    """Calls work() while each of the functions runs in a thread of its own, which it leaves when its argument is set."""
    stopping = threading.Event()
    failures = []

    def guarded(function):
        try:
            function(stopping)
        except Exception as error:  # the test reports it
            failures.append(error)
    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in threads]
    for thread in threads:
        thread.start()
    try:
        work()
    finally:
        stopping.set()
        for thread in threads:
            thread.join(patience())
    check_equal(failures, [])


@suite.case('WATCH notices a transaction over shards that began before, and ended after it')
def _(run):
    with Linked() as cluster:
        a, b, _ = [cluster.key_on(i) for i in range(SHARDS)]
        done = {'across': [], 'watch': []}  # a list may be added to by two threads at the same time

        def count_across(stopping):
            shard = cluster.proxy_connection(0)
            while not stopping.is_set():
                shard.get('MULTI')
                shard.get('INCR', a)
                shard.get('INCR', b)
                if not isinstance(across(shard, 'EXEC'), ReplyError):
                    done['across'].append(1)

        def count_watching():
            shard = cluster.proxy_connection(0)
            while len(done['watch']) < 100 or len(done['across']) < 300:
                shard.get('WATCH', a)
                number = shard.get('GET', a)
                if isinstance(number, ReplyError):
                    shard.get('UNWATCH')
                    continue
                shard.get('MULTI')
                shard.get('SET', a, int(number or 0) + 1)
                if isinstance(shard.get('EXEC'), list):
                    done['watch'].append(1)
        run_beside(count_watching, count_across, count_across)
        check_equal(int(cluster.proxy_connection(0).get('GET', a)), len(done['across']) + len(done['watch']))


@suite.case('an EXEC of one shard on a few keys gets its turn beside scripts over shards that lock these keys all the time')
def _(run):
    with Linked() as cluster:
        hot = [cluster.key_on(0, 'hot%d:' % i) for i in range(6)]
        far = [cluster.key_on(i, 'far') for i in range(SHARDS)]
        replies = {'scripts': [], 'exec': []}  # a list may be added to by several threads at the same time

        def run_scripts(stopping):
            shard = cluster.proxy_connection(random.randrange(1, SHARDS))
            script = "for i, key in ipairs(KEYS) do redis.call('INCR', key) end return #KEYS"
            while not stopping.is_set():
                keys = random.sample(hot, 2) + random.sample(far, 2)
                replies['scripts'].append(shard.get('SCREE', 'ACROSS', 'EVAL', script, len(keys), *keys))

        def run_exec(_):
            shard = cluster.proxy_connection(0)
            for _ in range(sized(40, long=400)):
                shard.get('MULTI')
                for key in hot:
                    shard.get('INCR', key)
                replies['exec'].append(shard.get('EXEC'))

        def run_all():
            workers = [threading.Thread(target=run_exec, args=(None,)) for _ in range(3)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(patience())
        run_beside(run_all, *[run_scripts] * 8)
        run.note('%d scripts' % len(replies['scripts']))
        refused = [str(reply) for kind in replies.values() for reply in kind if isinstance(reply, ReplyError)]
        check_equal(refused, [], 'of %d EXECs and %d scripts' % (len(replies['exec']), len(replies['scripts'])))


@suite.case('clients that watch keys of one or two shards succeed beside transactions over shards on the same keys')
def _(run):
    with Linked() as cluster:
        a, b, _ = [cluster.key_on(i) for i in range(SHARDS)]
        counts = {'written': 0, 'tried': 0, 'done': 0}

        def write(stopping):
            shard = cluster.proxy_connection(0)
            while not stopping.is_set():
                shard.get('MULTI')
                shard.get('INCR', a)
                shard.get('INCR', b)
                counts['written'] += not isinstance(across(shard, 'EXEC'), ReplyError)

        def watch(place, *keys):
            shard, key, done = cluster.proxy_connection(place), keys[-1], 0
            call = across if len(keys) > 1 else lambda connection, *words: connection.get(*words)
            while done < sized(20, long=500):
                check(counts['tried'] <= 20 * (counts['done'] + 20), counts)  # as with redis-server, where the writers win, too
                counts['tried'] += 1
                call(shard, 'WATCH', *keys)
                call(shard, 'GET', key)
                shard.get('MULTI')
                for key in keys:
                    shard.get('INCR', key)
                is_done = isinstance(call(shard, 'EXEC'), list)
                done += is_done
                counts['done'] += is_done
        for place, keys in ((0, [a]), (1, [b]), (0, [a, b])):
            run_beside(lambda: watch(place, *keys), write, write)
        run.note('%(done)d of %(tried)d succeeded, %(written)d other transactions' % counts)


@suite.case('what a transaction has read does not change before its effects can be seen')
def _(run):
    with Linked() as cluster:
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        history, numbers = [], itertools.count(1)

        def note(name, begin, operations, replies):
            outcome = REFUSED if isinstance(replies, ReplyError) else DONE
            for step, reply in zip(operations, replies if outcome == DONE else ()):
                if isinstance(step, Append):
                    step.length = reply
                else:
                    step.items = list(map(int, reply))
            history.append(Transaction(name, begin, time.monotonic(), outcome, operations))

        def read_and_append(stopping):
            shard = cluster.proxy_connection(0)
            while not stopping.is_set():
                number, begin = next(numbers), time.monotonic()
                shard.send_many([['MULTI'], ['LRANGE', c, 0, -1], ['RPUSH', a, number], ['RPUSH', b, number],
                                 ['SCREE', 'ACROSS', 'EXEC']])
                *_, replies = [value(shard.read()) for _ in range(5)]
                note('transaction', begin, [Read(c), Append(a, number), Append(b, number)], replies)

        def append_then_read(stopping):
            first, second = cluster.proxy_connection(2), cluster.proxy_connection(0)
            while not stopping.is_set():
                number, begin = next(numbers), time.monotonic()
                reply = first.get('RPUSH', c, number)
                note('append', begin, [Append(c, number)], reply if isinstance(reply, ReplyError) else [reply])
                begin = time.monotonic()
                reply = second.get('LRANGE', a, 0, -1)
                note('read', begin, [Read(a)], reply if isinstance(reply, ReplyError) else [reply])
        run_beside(lambda: wait_for(lambda: len(history) > sized(600, long=3000), 'a history'),
                   read_and_append, append_then_read, append_then_read)
        final = {key: list(map(int, cluster.proxy_connection(i).get('LRANGE', key, 0, -1))) for i, key in enumerate((a, b, c))}
        check_equal(anomalies(history, final), [])


@suite.case('a shard answers other clients while it locks the keys of a PREPARE, and while it applies its effects')
def _(run):
    with Linked() as cluster:
        shard, watcher = cluster.proxy_connection(1), cluster.proxy_connection(0)
        own, tag = cluster.key_on(1), cluster.key_on(0)
        words = [word for i in range(10_000) for word in ('{%s}%d' % (tag, i), 'x')]
        seen = set()

        def was_seen():
            write = threading.Thread(target=across, args=(shard, 'MSET', own, 'x', *words))
            write.start()
            while write.is_alive():
                seen.update(re.search(r'state=(\w+)', str(line))[1] for line in watcher.get('SCREE', 'TRANSACTIONS'))
            write.join()
            return {'checking', 'applying'} <= seen
        wait_for(was_seen, 'replies between the slices of PREPARE and APPLY')
        check_equal(watcher.get('DBSIZE'), 10_000)


@suite.case('many keys are locked in slices, whoever has them: the command waits a turn for each slice')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        keys = ['key:%d' % i for i in range(10_000)]  # three slices

        def waits():
            return int(re.search(rb'suspended_commands:(\d+)', shards[1].get('INFO', 'everything'))[1])
        for words in (['MSET', *[word for key in keys for word in (key, 'x')]], ['MGET', *keys], ['DEL', *keys]):
            before = waits()
            reply = across(shards[1], *words)
            check(reply in (b'OK', [b'x'] * len(keys), len(keys)), words[0])
            check(waits() - before >= 4, '%s: %d waits' % (words[0], waits() - before))
        own, foreign = cluster.key_on(1, 'own'), cluster.key_on(0, 'foreign')
        check_equal(across(shards[1], 'EXISTS', *[own] * 9000, foreign), 0, 'slices without a key of another shard')
        wait_for(lambda: shards[1].get('SCREE', 'TRANSACTIONS') == [], 'the end of the transaction')


@suite.case('EXEC on one shard, whose keys transactions over shards lock in turn, is done or refused as a whole')
def _(run):
    with Linked({'lock-timeout': '500ms'}) as cluster:
        keys = [cluster.key_on(0, 'key:%d' % i) for i in range(12)]
        other = [cluster.key_on(1, 'key:%d' % i) for i in range(12)]
        counts = {'done': 0, 'refused': 0}

        def lock_keys(stopping):
            shard, rng = cluster.proxy_connection(1), random.Random(run.seed)
            while not stopping.is_set():
                shard.get('MULTI')
                for place in rng.sample(range(12), 3):
                    shard.get('INCR', keys[place])
                    shard.get('INCR', other[place])
                across(shard, 'EXEC')

        def exec_one(shard):
            shard.get('MULTI')
            for key in keys:
                shard.get('INCR', key)
            reply = shard.get('EXEC')
            if isinstance(reply, ReplyError):
                check('TRYAGAIN' in str(reply), reply)
                counts['refused'] += 1
            else:
                check(not any(isinstance(part, ReplyError) for part in reply), 'half of it was done: %r' % reply)
                counts['done'] += 1

        def exec_all():
            shard = cluster.proxy_connection(0)
            for _ in range(sized(15, long=1000)):
                exec_one(shard)
            wait_for(lambda: counts['done'] or exec_one(shard), 'one to be done')
        run_beside(exec_all, *[lock_keys] * 6)
        run.note('%(done)d done, %(refused)d refused' % counts)


@suite.case('a transaction that begins again after its last attempt counts once in the statistics')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, linked=True, relay=FrameGate) as cluster, cluster.partition(0) as observer:
        shard, gate = proxy_connection(cluster, 0), cluster.relays[cluster.backends[1].addresses[0]]
        a, b = [cluster.key_on(i) for i in range(2)]

        def figures():
            stats = observer.get('INFO', 'commandstats', 'stats', 'errorstats').decode()
            found = dict(re.findall(r'cmdstat_(exec|set|incr|lpush|eval|rename):calls=(\d+)', stats))
            return {**found, **dict(re.findall(r'(keyspace_hits|keyspace_misses|errorstat_WRONGTYPE):(\S+)', stats))}

        def retries():
            return metric(cluster.backends[0].http('/metrics')[1], 'scree_backend_transactions_retries_total') or 0

        def begin_again(words):
            before = retries()
            gate.arm('before', PREPARE)
            shard.send('SCREE', 'ACROSS', *words)
            check(gate.reached.wait(patience()), 'no PREPARE')
            gate.open()
            reply = value(shard.read())
            check(retries() > before, 'it did not begin again: %r' % reply)
            cluster.wait_linked()
            return reply

        for words in (['MULTI'], ['SET', a, 'x'], ['GET', a], ['LPUSH', a, 'y'], ['INCR', b]):
            shard.get(*words)
        reply = begin_again(['EXEC'])
        check_equal((reply[0], reply[1], reply[3]), (b'OK', b'x', 1))
        check_equal(begin_again(['EVAL', "redis.call('SET', KEYS[1], 'x') return redis.call('INCR', KEYS[2])", 2, a, b]), 2)
        check_equal(begin_again(['RENAME', a, b]), b'OK')
        check_equal(figures(), {'exec': '1', 'eval': '1', 'rename': '1', 'set': '2', 'incr': '2', 'lpush': '1', 'keyspace_hits': '1',
                                'keyspace_misses': '0', 'errorstat_WRONGTYPE': 'count=1'})


class Teller(threading.Thread):
    """Moves money between accounts of several shards, and adds up all of them, through coordinators chosen at random."""

    def __init__(self, cluster, accounts, seed):
        super().__init__(daemon=True)
        self.cluster, self.accounts, self.rng = cluster, accounts, random.Random(seed)
        self.stopping = threading.Event()
        self.moved = self.read = self.refused = 0
        self.wrong, self.reasons = [], {}

    def run(self):
        while not self.stopping.is_set():
            try:
                self.serve(self.cluster.proxy_connection(self.rng.randrange(SHARDS)))
            except (OSError, Closed):
                time.sleep(0.01)  # the shard is down

    def serve(self, connection):
        for _ in range(20):
            if self.rng.random() < 0.3:
                self.add_up(connection)
            else:
                self.move(connection)

    def refuse(self, reply):
        self.refused += 1
        reason = re.sub(r"account:[0-9]+|b[0-9]p0", 'X', str(reply))
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def add_up(self, connection):
        reply = across(connection, 'MGET', *self.accounts)
        if isinstance(reply, ReplyError):
            self.refuse(reply)
        elif sum(map(int, reply)) != 1000 * len(self.accounts):
            self.wrong.append('the sum is %d' % sum(map(int, reply)))
        else:
            self.read += 1

    def move(self, connection):
        source, target = self.rng.sample(self.accounts, 2)
        amount = self.rng.randrange(1, 10)
        connection.get('MULTI')
        connection.get('DECRBY', source, amount)
        connection.get('INCRBY', target, amount)
        reply = across(connection, 'EXEC')
        if isinstance(reply, ReplyError):
            self.refuse(reply)
        elif any(isinstance(amount, ReplyError) for amount in reply):
            self.wrong.append('half of a transaction: %r' % reply)
        else:
            self.moved += 1


def run_tellers(run, cluster, accounts, tellers, work):
    threads = [Teller(cluster, accounts, run.rng.random()) for _ in range(tellers)]
    for thread in threads:
        thread.start()
    work(threads)
    for thread in threads:
        thread.stopping.set()
    for thread in threads:
        thread.join(patience())
        check(not thread.is_alive(), 'a teller still waits')
    check_equal([text for thread in threads for text in thread.wrong][:3], [])
    reasons = {}
    for thread in threads:
        for reason, count in thread.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    for reason, count in reasons.items():
        run.note('%d times: %s' % (count, reason))
    run.note('%d transfers, %d sums, %d refused' % tuple(sum(getattr(thread, name) for thread in threads)
                                                         for name in ('moved', 'read', 'refused')))


def wait_transfers(threads, count):
    """So many more, also if a slow machine takes minutes for them."""
    done = sum(thread.moved for thread in threads)
    for goal in range(done, done + count, 50):
        wait_for(lambda: sum(thread.moved for thread in threads) > goal + 50 or any(thread.wrong for thread in threads), 'transfers')


def open_bank(cluster, count):
    accounts = ['account:%d' % i for i in range(count)]
    for account in accounts:
        with cluster.partition(cluster.shard_of(account)) as connection:
            connection.get('SET', account, '1000')
    return accounts


def close_bank(cluster, accounts):
    """All transactions end by themselves; nothing was lost or made."""
    def total():
        amount = 0
        for account in accounts:
            with cluster.partition(cluster.shard_of(account)) as connection:
                reply = connection.get('GETRANGE', account, '0', '-1')
            if isinstance(reply, ReplyError):
                return None
            amount += int(reply)
        return amount
    wait_for(lambda: total() is not None, 'all keys to be free')
    check_equal(total(), 1000 * len(accounts))


@suite.case('transfers between many accounts, and on two accounts: every sum is right, and all transfers end')
def _(run):
    for count in (20, 2):
        with Linked() as cluster:
            accounts = open_bank(cluster, count)
            run_tellers(run, cluster, accounts, 8, lambda threads: wait_transfers(threads, 1000))
            close_bank(cluster, accounts)


@suite.case('kill -9 of coordinators and participants during transfers: every sum is right, and no lock stays')
def _(run):
    with Linked() as cluster:
        accounts = open_bank(cluster, 12)

        def kill(threads):
            for _ in range(sized(4, long=200)):
                wait_transfers(threads, 100)
                victims = run.rng.sample(cluster.backends, run.rng.choice([1, 1, 2, 3]))
                for victim in victims:
                    victim.kill9()
                for victim in victims:
                    victim.start()
        run_tellers(run, cluster, accounts, 8, kill)
        close_bank(cluster, accounts)


if __name__ == '__main__':
    suite.main()
