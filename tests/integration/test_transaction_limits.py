#!/usr/bin/python3
"""Limits and failures in transactions over shards: one clear error, nothing is done, and nothing is left behind.

    coordinator: shard 1, without a proxy ──► participants: shards 0 and 2

Nothing is left behind: SCREE TRANSACTIONS is empty on all shards, no key is locked, and memory does not grow.
"""

import contextlib
import errno
import re
import time

from support import harness
from support.cluster import Cluster, binary, evict_all, is_sanitized
from support.disk import SYNC_LOG, WRITE_LOG, FaultyDisk
from support.harness import BIG, Suite, check, check_equal, sized, wait_for
from support.in_doubt import leave_in_doubt
from support.resp import ReplyError, value

SHARDS = 3

suite = Suite(__doc__)


class Linked(Cluster):
    """Three linked backends, a connection to each as a proxy makes it, and a key on each. Leaving the block checks that
    nothing was left behind."""

    def __init__(self, options=None, disk=None):
        options = {'peer-timeout': '10m', 'transaction-timeout': '10m', **(options or {})}  # a busy shard may be silent for seconds
        super().__init__(backends=SHARDS, partitions=1, proxies=0, linked=True, disk=disk, backend_options={'backend': options})

    def __enter__(self):
        super().__enter__()
        self.shards = [self.shard_connection(i) for i in range(SHARDS)]
        self.keys = [self.key_on(i) for i in range(SHARDS)]
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            try:
                self.check_clean()
            except BaseException:
                self.abandon()
                raise
        return super().__exit__(kind, error, trace)

    def shard_connection(self, index):
        connection = self.partition(index)
        check_equal(connection.get('SCREE', 'AUTH', self.secret), b'OK')
        check_equal(connection.get('SCREE', 'SLOTS', self.slots[index]), b'OK')
        return connection

    def transactions(self):
        return [line for shard in self.shards for line in shard.get('SCREE', 'TRANSACTIONS')]

    def check_clean(self):
        wait_for(lambda: not self.transactions(), 'all transactions to end')
        for shard, key in zip(self.shards, self.keys):
            check_equal(shard.get('SET', key, 'x'), b'OK')

    def values(self):
        return [shard.get('GET', key) for shard, key in zip(self.shards, self.keys)]

    def send_exec(self, *commands, shard=1):
        self.shards[shard].send_many([['MULTI'], *commands, ['SCREE', 'ACROSS', 'EXEC']])

    def read_exec(self, count, shard=1):
        """The reply of an EXEC of `count` commands, or the error of the first that was not queued."""
        replies = [value(self.shards[shard].read()) for _ in range(count + 2)]
        for reply in replies:
            if isinstance(reply, ReplyError):
                return reply
        check_equal(replies[:-1], [b'OK'] + [b'QUEUED'] * count)
        return replies[-1]

    def exec(self, *commands, shard=1):
        self.send_exec(*commands, shard=shard)
        return self.read_exec(len(commands), shard)

    def figures(self, shard):
        """INFO transactions of a shard."""
        lines = self.shards[shard].get('INFO', 'transactions').decode().split('\r\n')
        return {name: int(number) for name, number in (line.split(':') for line in lines if ':' in line)}

    def measured(self, shard, name, labels=''):
        """A sample of /metrics."""
        text = self.backends[shard].http('/metrics')[1]
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith('scree_backend_%s%s ' % (name, labels))), None)

    def check_failed(self, shard, reason, at_least=1):
        """Transactions coordinated by this shard have failed, for this reason only."""
        figures = self.figures(shard)
        check(figures['transactions_failed'] >= at_least, figures)
        check_equal(figures['transactions_failed_' + reason], figures['transactions_failed'], reason)
        check_equal(self.measured(shard, 'transactions_failed_total', '{reason="%s"}' % reason), figures['transactions_failed'], reason)

    def set_all(self, text):
        """SET of all keys in one transaction, at shard 1."""
        return self.exec(*(['SET', key, text] for key in self.keys))


def check_error(reply, *words):
    check(isinstance(reply, ReplyError) and all(word in str(reply) for word in words), 'an error with %s: %r' % (words, reply))


@suite.case('10 000 commands in one MULTI over three shards are done, in order, or none of them')
def _(run):
    with Linked({'borrow-limit': '8mb'}) as cluster:
        count = 9999
        keys = [cluster.key_on(i, 'list') for i in range(SHARDS)]
        commands = [['RPUSH', keys[i % SHARDS], i] for i in range(count)]
        check_equal(cluster.exec(*commands), [i // SHARDS + 1 for i in range(count)])
        for i, key in enumerate(keys):
            check_equal(cluster.shards[i].get('LRANGE', key, 0, -1), [b'%d' % n for n in range(i, count, SHARDS)], key)
        big = cluster.key_on(0, 'big')
        for _ in range(10):
            cluster.shards[0].get('RPUSH', big, *['x' * 1000] * 1000)
        check_error(cluster.exec(*commands, ['RENAME', big, keys[1]]), 'borrow-limit')
        check_equal([shard.get('LLEN', key) for shard, key in zip(cluster.shards, keys)], [count // SHARDS] * SHARDS)
        check_equal(cluster.shards[0].get('LLEN', big), 10000)


@suite.case('borrow-limit: one error for the whole EXEC or script, nothing is done, and memory does not grow')
def _(run):
    with Linked({'borrow-limit': '1mb'}) as cluster:
        a, b, c = cluster.keys
        big = cluster.key_on(0, 'big')
        for _ in range(3):
            cluster.shards[0].get('RPUSH', big, *['x' * 1000] * 1000)
        sizes = []
        for _ in range(sized(4, long=20)):
            for _ in range(10):
                check_error(cluster.exec(['SET', c, 'done'], ['SET', b, 'done'], ['COPY', big, b, 'REPLACE']), 'borrow-limit')
                script = "redis.call('SET', KEYS[1], 'done') return redis.call('LRANGE', KEYS[2], 0, -1)"
                check_error(cluster.shards[1].get('SCREE', 'ACROSS', 'EVAL', script, '2', a, big), 'borrow-limit')
            sizes.append([backend.rss_bytes() for backend in cluster.backends])
        check_equal(cluster.values(), [None] * SHARDS)
        growth = [last - first for first, last in zip(sizes[0], sizes[-1])]
        cluster.check_failed(1, 'borrow_limit', 20 * len(sizes))
        run.note('memory grew by %s bytes' % growth)
        if not is_sanitized(binary('scree-backend')):  # ASan keeps freed memory for some time
            check(max(growth) < 32e6 * BIG, 'memory grew by %s bytes' % growth)


OVER_MEMORY = 'ERR the command needs more than %d bytes of memory (command-memory), and has changed nothing' % (4 << 20)


def check_over(cluster, *words, what, alone=True):
    """The command is refused at shard 1 alone, in EXEC and in a script: each as a whole."""
    across = ('SCREE', 'ACROSS')
    script = "redis.call('SET', KEYS[1], 'done') redis.pcall(unpack(ARGV)) return 'went on'"
    if alone:
        check_equal(str(cluster.shards[1].get(*across, *words)), OVER_MEMORY, what)
    check_equal(str(cluster.exec(['SET', cluster.keys[0], 'done'], list(words))), OVER_MEMORY, what + ' in EXEC')
    if len(words) < 5000:  # unpack
        check_equal(str(cluster.shards[1].get(*across, 'EVAL', script, '1', cluster.keys[0], *words)), OVER_MEMORY, what + ' in a script')
    check_equal(cluster.values(), [None] * SHARDS, what)


@suite.case('keys that a transaction over shards names, locks and borrows count as its memory: one error, and nothing is done')
def _(run):
    count = 30000
    with Linked({'command-memory': '4mb'}) as cluster:
        names = [['%d{%s}' % (i, key) for i in range(count // SHARDS)] for key in cluster.keys]
        mixed = [name for three in zip(*names) for name in three]
        own_first = ['%d{%s}' % (i, cluster.keys[1]) for i in range(count)] + [names[0][0]]
        before = [backend.rss_bytes() for backend in cluster.backends]
        for backend in cluster.backends:
            backend.forget_peak()
        for keys, what in ((mixed, 'keys of three shards'), (own_first, 'keys of this shard, and one of another')):
            check_over(cluster, 'MSET', *[word for key in keys for word in (key, 'v')], what='MSET of ' + what)
            for command in ('ZUNIONSTORE', 'ZINTERSTORE'):
                check_over(cluster, command, names[1][0], str(len(keys)), *keys, what='%s of %s' % (command, what))
            script = "for i = 1, #KEYS do redis.pcall('SET', KEYS[i], 'v') end return 'went on'"
            got = cluster.shards[1].get('SCREE', 'ACROSS', 'EVAL', script, str(len(keys)), *keys)
            check_equal(str(got), OVER_MEMORY, 'a script that declares ' + what)
        growth = [backend.peak_rss_bytes() - bytes_before for backend, bytes_before in zip(cluster.backends, before)]
        run.note('memory grew by %s bytes' % growth)
        if not is_sanitized(binary('scree-backend')):
            check(max(growth) < 48e6 * BIG, 'memory grew by %s bytes' % growth)
        cluster.check_failed(1, 'command_memory', 14)
        check_equal([shard.get('DBSIZE') for shard in cluster.shards], [0] * SHARDS)
        few = mixed[:3000]
        check_equal(cluster.shards[1].get('SCREE', 'ACROSS', 'MSET', *[word for key in few for word in (key, 'v')]), b'OK')
        check_equal([shard.get('DBSIZE') for shard in cluster.shards], [1000] * SHARDS)


@suite.case('a script that computes its keys is ended when those that it uses need more than command-memory')
def _(run):
    script = "for i = 1, 1000 do redis.pcall('SET', i .. '{' .. ARGV[i % 3 + 1] .. '}' .. string.rep('x', 20000), 'v') end return 'went on'"
    with Linked({'command-memory': '4mb'}) as cluster:
        check_equal(str(cluster.shards[1].get('SCREE', 'ACROSS', 'EVAL', script, '0', *cluster.keys)), OVER_MEMORY)
        check_equal([shard.get('DBSIZE') for shard in cluster.shards], [0] * SHARDS)


@suite.case('names and rows of other shards count as memory of the command that borrows them')
def _(run):
    with Linked({'command-memory': '4mb'}) as cluster:
        for shard, key in ((0, cluster.keys[0]), (2, cluster.keys[2])):
            for start in range(0, 15000, 1000):
                cluster.shards[shard].get('MSET', *[word for i in range(start, start + 1000) for word in ('%d{%s}' % (i, key), 'v')])
        check_over(cluster, 'KEYS', '*', what='KEYS', alone=False)
        check_equal(cluster.exec(['DBSIZE'], ['GET', '7{%s}' % cluster.keys[2]]), [30000, b'v'])
        big, to = cluster.key_on(0, 'big'), cluster.key_on(1, 'to')
        for _ in range(4):
            cluster.shards[0].get('RPUSH', big, *['x' * 1000] * 1000)
        check_over(cluster, 'COPY', big, to, what='COPY of a list')
        check_over(cluster, 'LRANGE', big, '0', '-1', what='LRANGE')
        cluster.shards[0].get('SET', big, 'x' * 4300000)
        check_over(cluster, 'COPY', big, to, what='COPY of a string')
        check_equal(cluster.shards[1].get('EXISTS', to), 0)
        cluster.check_failed(1, 'command_memory', 11)


@suite.case('a shard where the locks of a transaction need more than its own command-memory refuses them, and nothing is done')
def _(run):
    linked = Linked()
    linked.backends[0].options = {'backend': {**linked.backends[0].options['backend'], 'command-memory': '1mb'}}
    with linked as cluster:
        keys = ['%d{%s}' % (i, cluster.keys[0]) for i in range(5000)] + [cluster.keys[1], cluster.keys[2]]
        got = cluster.shards[1].get('SCREE', 'ACROSS', 'MSET', *[word for key in keys for word in (key, 'v')])
        check_error(got, "ERR the command needs more memory at shard 'b0p0'", 'command-memory', 'has changed nothing')
        cluster.check_failed(1, 'command_memory')
        check_equal([shard.get('DBSIZE') for shard in cluster.shards], [0] * SHARDS)
        wait_for(lambda: not cluster.figures(0)['locked_keys'], 'no key to be locked')


@suite.case('a shard where the changes of a transaction need more than its own command-memory refuses them, and nothing is done')
def _(run):
    linked = Linked()
    linked.backends[0].options = {'backend': {**linked.backends[0].options['backend'], 'command-memory': '1mb'}}
    with linked as cluster:
        keys = [cluster.key_on(0, 'many%d:' % i) for i in range(8)]
        script = "local v = string.rep('x', 400000) for i, key in ipairs(KEYS) do redis.call('SET', key, v) end return #KEYS"
        for count, is_done in ((2, True), (8, False)):
            for shard in cluster.shards:
                shard.get('FLUSHALL')
            got = cluster.shards[1].get('SCREE', 'ACROSS', 'EVAL', script, count + 1, *keys[:count], cluster.keys[1])
            if is_done:
                check_equal(got, count + 1)
            else:
                check_error(got, "ERR the command needs more memory at shard 'b0p0'", 'command-memory', 'has changed nothing')
        cluster.check_failed(1, 'command_memory')
        check_equal([shard.get('DBSIZE') for shard in cluster.shards], [0] * SHARDS)
        wait_for(lambda: not cluster.figures(0)['locked_keys'], 'no key to be locked')


@suite.case('collections of 100 000 elements are borrowed page by page, from memory and from the disk')
def _(run):
    count = 100000
    with Linked() as cluster:
        a, b, c = [cluster.key_on(i, 'set') for i in range(SHARDS)]
        for shard, key, first in ((0, a, 0), (2, c, count // 2)):
            for start in range(first, first + count, 1000):
                cluster.shards[shard].get('SADD', key, *('member:%06d' % i for i in range(start, start + 1000)))
        for turn in range(2):
            check_equal(cluster.shards[1].get('SCREE', 'ACROSS', 'SUNIONSTORE', b, a, c), count * 3 // 2)
            check_equal(cluster.shards[1].get('SCREE', 'ACROSS', 'SINTERCARD', '2', a, c), count // 2)
            check_equal(cluster.shards[1].get('SCARD', b), count * 3 // 2)
            check_equal(cluster.exec(['SMOVE', a, b, 'member:000000'], ['SCARD', a], ['SMOVE', b, a, 'member:000000'],
                                     ['SREM', b, 'member:149999']), [1, count - 1, 1, 1])
            for shard in cluster.shards:
                evict_all(shard)


@suite.case('lock-timeout: a command that meets a locked key, and transaction-timeout: the transaction, reply TRYAGAIN')
def _(run):
    # the transaction takes long enough for all requests that are to meet its lock
    with Linked({'lock-timeout': '100ms', 'transaction-timeout': '6s', 'peer-timeout': '10m'}) as cluster:
        a, _, _ = cluster.keys
        check_equal(cluster.set_all('old'), [b'OK'] * SHARDS)
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        cluster.backends[2].pause()
        cluster.send_exec(*(['SET', key, 'new'] for key in cluster.keys))
        wait_for(lambda: cluster.shards[0].get('SCREE', 'TRANSACTIONS'), 'the lock')
        check_equal(cluster.shards[0].get('GET', a), b'old')
        check_error(cluster.shards[0].get('SET', a, 'other'), 'TRYAGAIN', "the key '%s' is locked" % a)
        check_equal(cluster.shards[0].pipeline([['MULTI'], ['SET', 'x{%s}' % a, 'other'], ['SET', a, 'other']])[-1][1], b'QUEUED')
        check_error(cluster.shards[0].get('EXEC'), 'TRYAGAIN', "the key '%s' is locked" % a)
        check_equal(cluster.shards[0].get('EXISTS', 'x{%s}' % a), 0)
        check_error(cluster.read_exec(SHARDS), 'TRYAGAIN', 'transaction-timeout')
        cluster.check_failed(1, 'transaction_timeout')
        check_equal(cluster.figures(0)['locked_key_errors'], 2, 'SET and EXEC')
        cluster.backends[2].resume()
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        check_equal(cluster.values(), [b'old'] * SHARDS)
        check_equal(cluster.set_all('new'), [b'OK'] * SHARDS)


@suite.case('transaction-timeout: the error says which keys the transaction waited for, and at which shard')
def _(run):
    linked = Linked({'transaction-timeout': '10m', 'lock-timeout': '100ms', 'peer-timeout': '10m'})
    linked.backends[0].options = {'backend': {**linked.backends[0].options['backend'], 'transaction-timeout': '3s'}}
    with linked as cluster:
        a, b, c = cluster.keys
        names = ['b%dp0' % i for i in range(SHARDS)]
        more = [cluster.key_on(0, 'more%d' % i) for i in range(2)]
        free = [cluster.key_on(i, 'free') for i in range(2)]
        cluster.backends[2].pause()
        cluster.send_exec(*(['SET', key, 'new'] for key in [a, *more, b, c]))
        with cluster.shard_connection(1) as other:
            wait_for(lambda: 'is locked' in str(other.get('SET', b, 'other')), 'the locks')

        def check_late(keys, *words):
            check_error(cluster.exec(*(['SET', key, 'other'] for key in keys), shard=0), 'transaction-timeout', *words)
        check_late([more[0], free[1]], "TRYAGAIN the key '%s' at shard '%s' is locked by other" % (more[0], names[0]))
        check_late([a, *more, free[0], free[1]], "TRYAGAIN the keys '", "' and 2 others at shard '%s' are locked by" % names[0])
        check_late([free[0], b], "TRYAGAIN shard '%s' has not locked the key '%s' in time" % (names[1], b), 'has locked it,')
        check_late([free[0], c, cluster.key_on(2, 'x')],
                   "TRYAGAIN shard '%s' has not locked the keys '%s' and 1 other in time" % (names[2], c), 'the shard does not answer')
        cluster.backends[2].resume()
        check_equal(cluster.read_exec(SHARDS + len(more)), [b'OK'] * (SHARDS + len(more)))
        cluster.check_failed(0, 'transaction_timeout', 4)
        check(cluster.figures(1)['locked_key_errors'] >= 1, 'SET of the locked key')


SOURCES = [(['SADD', 's', 1, 2], ['SUNIONSTORE', 'to', 's', 'x']),
           (['ZADD', 's', 1, 'a'], ['ZINTERSTORE', 'to', 2, 's', 'x']), (['SET', 's', 'a'], ['BITOP', 'OR', 'to', 's', 'x']),
           (['PFADD', 's', 'a'], ['PFMERGE', 'to', 's', 'x'])]


@suite.case('sources of SUNIONSTORE, BITOP … are locked for reading: who reads them too does not wait')
def _(run):
    with Linked({'transaction-timeout': '10m', 'lock-timeout': '10m', 'peer-timeout': '10m'}) as cluster:
        for fill, store in SOURCES:
            names = {'s': cluster.key_on(0, 's'), 'x': cluster.key_on(2, 'x'), 'to': cluster.key_on(1, 'to')}
            cluster.shards[0].get('DEL', names['s']), cluster.shards[1].get('DEL', names['to'])
            check(not isinstance(cluster.shards[0].get(*[names.get(word, word) for word in fill]), ReplyError), fill)
            cluster.backends[2].pause()
            cluster.shards[1].send('SCREE', 'ACROSS', *[names.get(word, word) for word in store])
            wait_for(lambda: cluster.shards[0].get('SCREE', 'TRANSACTIONS'), 'the lock of the source for %r' % (store,))
            near = cluster.key_on(0, 'near')
            with cluster.shard_connection(1) as other:
                script = "return redis.call('EXISTS', KEYS[1], KEYS[2])"
                check_equal(other.get('SCREE', 'ACROSS', 'EVAL', script, 2, names['s'], near), 1, store)
            cluster.backends[2].resume()
            check(not isinstance(value(cluster.shards[1].read()), ReplyError), store)


@suite.case('only those members of a big collection that the commands name are borrowed')
def _(run):
    with Linked() as cluster:
        a, b, c = cluster.keys
        fields = ['field:%05d' % i for i in range(5000)]
        for words in (['HSET', *(word for field in fields for word in (field, 'x' * 20))], ['SADD', *fields],
                      ['ZADD', *(word for i, field in enumerate(fields) for word in (str(i), field))]):
            cluster.shards[1].get('DEL', b)
            check_equal(cluster.shards[1].get(words[0], b, *words[1:]), len(fields))
            before = cluster.figures(0)['borrowed_bytes']
            changes, replies = {
                'HSET': ([['HSET', b, fields[0], 'y', 'new', 'z'], ['HGET', b, fields[0]], ['HDEL', b, fields[1]]], [1, b'y', 1]),
                'SADD': ([['SADD', b, fields[0], 'new'], ['SREM', b, fields[1]], ['SISMEMBER', b, fields[2]]], [1, 1, 1]),
                'ZADD': ([['ZADD', b, 'XX', 'CH', '7', fields[0]], ['ZINCRBY', b, '2', fields[1]], ['ZREM', b, fields[2]]],
                         [1, b'3', 1]),
            }[words[0]]
            check_equal(cluster.exec(['SET', a, 'x'], *changes, shard=0), [b'OK', *replies])
            borrowed = cluster.figures(0)['borrowed_bytes'] - before
            check(0 < borrowed < 8000, '%s borrowed %d bytes' % (words[0], borrowed))
            # together with a command that needs all members
            count = {'HSET': 'HGETALL', 'SADD': 'SMEMBERS', 'ZADD': 'ZRANGE'}[words[0]]
            extra = ['0', '-1'] if count == 'ZRANGE' else []
            found = cluster.exec(['SET', a, 'y'], changes[0], [count, b, *extra], shard=0)[2]
            check_equal(found, cluster.shards[1].get(count, b, *extra))


@suite.case('figures: committed by number of shards, locks, time that they were held, borrowed bytes; in INFO and /metrics')
def _(run):
    with Linked({'transaction-timeout': '10m', 'peer-timeout': '10m'}) as cluster:
        a, b, c = cluster.keys
        check(not any(cluster.figures(0).values()), 'nothing was done')
        for _ in range(3):
            check_equal(cluster.set_all('x' * 1000), [b'OK'] * SHARDS)
        check_equal(cluster.exec(['SET', a, 'x'], ['SET', b, 'x']), [b'OK'] * 2)
        check_equal(cluster.exec(['GET', a], ['SET', b, 'x']), [b'x', b'OK'])
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        names = ('transactions_read_only_elsewhere', 'transactions_two_shards', 'transactions_many_shards')
        figures = cluster.figures(1)
        check_equal([figures[name] for name in names], [1, 1, 3])
        check_equal([cluster.measured(1, name + '_total') for name in names], [1, 1, 3])
        check(figures['borrowed_bytes'] > 3000 and figures['locks_held_usec'] > 0, figures)
        for shard, count in enumerate((5, 5, 3)):
            check_equal(cluster.measured(shard, 'lock_hold_seconds_count', '{partition="0"}'), count, 'transactions with locks')
        cluster.backends[2].pause()
        cluster.send_exec(*(['SET', key, 'new'] for key in [a, b, c]))
        wait_for(lambda: cluster.figures(0)['locked_keys'], 'the lock')
        gauges = ('transactions_open', 'transactions_decided', 'transactions_joined', 'transactions_in_doubt', 'locked_keys')
        with cluster.shard_connection(1) as other:
            cluster.shards[1], waiting = other, cluster.shards[1]
            for shard, wanted in ((0, [0, 0, 1, 0, 1]), (1, [1, 0, 0, 0, 1])):
                wait_for(lambda: [cluster.figures(shard)[name] for name in gauges] == wanted, 'figures of shard %d' % shard)
                wait_for(lambda: [cluster.measured(shard, name, '{partition="0"}') for name in gauges] == wanted, 'the gauges')
            cluster.shards[1] = waiting
        cluster.backends[2].resume()
        check_equal(cluster.read_exec(SHARDS), [b'OK'] * SHARDS)
        wait_for(lambda: cluster.measured(0, 'locked_keys', '{partition="0"}') == 0, 'the gauge to fall')
        cluster.backends[2].kill9()
        check_error(cluster.set_all('newer'), 'TRYAGAIN', "shard 'b2p0'")
        cluster.check_failed(1, 'shard_unreachable')
        cluster.backends[2].start()
        cluster.shards[2] = cluster.shard_connection(2)


@suite.case('a transaction is in doubt while its deciding shard is down: the figures say so, and its keys reply TRYAGAIN')
def _(run):
    with Linked({'peer-timeout': '10m', 'transaction-timeout': '10m'}) as cluster:
        leave_in_doubt(cluster)
        wait_for(lambda: cluster.figures(0)['transactions_in_doubt'] == 1, 'the figure')
        wait_for(lambda: cluster.measured(0, 'transactions_in_doubt', '{partition="0"}') == 1, 'the gauge')
        check(b' in_doubt=yes' in cluster.shards[0].get('SCREE', 'TRANSACTIONS')[0], 'the list')
        check_error(cluster.shards[0].get('GET', cluster.keys[0]), 'TRYAGAIN', 'whose deciding shard does not answer')
        check_equal(cluster.shards[0].get('SET', cluster.key_on(0, 'other'), 'x'), b'OK', 'another key')
        cluster.backends[1].start()
        cluster.shards[1] = cluster.shard_connection(1)
        wait_for(lambda: not any(cluster.figures(shard)['transactions_in_doubt'] for shard in range(SHARDS)), 'the decision')
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        check(len(set(cluster.values())) == 1, 'half of a transaction: %r' % cluster.values())


PORTIONS = 80  # values of 1 MB: more than a frame between backends may have


@suite.case('changes of more than 64 MB at another shard are prepared in portions: all are done, and survive kill -9 of all shards')
def _(run):
    with Linked() as cluster:
        keys = [cluster.key_on(0, 'many%d:' % i) for i in range(PORTIONS)]
        script = "local v = string.rep('x', 1e6) for i, key in ipairs(KEYS) do redis.call('SET', key, i .. v) end return #KEYS"
        check_equal(cluster.shards[1].get('SCREE', 'ACROSS', 'EVAL', script, len(keys) + 1, *keys, cluster.keys[1]), len(keys) + 1)
        for backend in cluster.backends:
            backend.kill9()
        for i, backend in enumerate(cluster.backends):
            backend.start()
            cluster.shards[i] = cluster.shard_connection(i)
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        sizes = cluster.shards[0].pipeline([['STRLEN', key] for key in keys])
        check_equal([value(size) for size in sizes], [1000000 + len(str(i + 1)) for i in range(len(keys))])


@suite.case('borrow-memory: commands that borrow much run one after the other, and wait without locks; few bytes are borrowed at once')
def _(run):
    options = {'borrow-limit': '8mb', 'borrow-memory': '8mb', 'transaction-timeout': '10m', 'lock-timeout': '10m', 'peer-timeout': '10m'}
    with Linked(options) as cluster, cluster.shard_connection(1) as admin:
        a, b, c = cluster.keys
        sources = [cluster.key_on(0, 'source%d:' % i) for i in range(2)]
        for source in sources:
            cluster.shards[0].get('SADD', source, *['%04d' % j + 'x' * 1000 for j in range(1000)])

        def admin_figure(name):
            return int(re.search(rb'%s:(\d+)' % name.encode(), admin.get('INFO', 'transactions'))[1])

        def begin(waiting):
            """One command has borrowed much and waits for shard 2; the others wait for their turn."""
            cluster.backends[2].pause()
            before = admin_figure('borrowed_bytes')
            script = "redis.call('SUNIONSTORE', KEYS[1], KEYS[2]) return redis.call('GET', ARGV[1])"
            cluster.shards[1].send('SCREE', 'ACROSS', 'EVAL', script, 2, cluster.key_on(1, 'one'), sources[0], c)
            wait_for(lambda: admin_figure('borrowed_bytes') - before > 1000000, 'it to borrow')
            for i, connection in enumerate(waiting):
                connection.send('SCREE', 'ACROSS', 'SUNIONSTORE', cluster.key_on(1, 'more%d:' % i), sources[1])
            wait_for(lambda: sum(b'state=queued' in line for line in admin.get('SCREE', 'TRANSACTIONS')) == len(waiting), 'them to wait')
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(cluster.shard_connection(1)) for _ in range(3)]
            begin(waiting)
            check_equal(cluster.shards[0].get('SADD', sources[1], 'other'), 1, 'nothing that waits has locked it')
            few = [['SET', a, 'x'], ['SET', b, 'x']]
            check_equal(value(admin.pipeline([['MULTI'], *few, ['SCREE', 'ACROSS', 'EXEC']])[-1]), [b'OK'] * 2, 'few bytes')
            cluster.backends[2].resume()
            check_equal(value(cluster.shards[1].read()), None)
            check_equal([value(connection.read()) for connection in waiting], [1001] * 3)


@suite.case('borrow-memory is shared by namespaces: one with many commands that borrow much does not go first with all of its own')
def _(run):
    options = {'borrow-limit': '8mb', 'borrow-memory': '8mb', 'transaction-timeout': '10m', 'lock-timeout': '10m', 'peer-timeout': '10m'}
    with Linked(options) as cluster, cluster.shard_connection(1) as admin, contextlib.ExitStack() as stack:
        source, far = cluster.key_on(0, 'source'), cluster.key_on(2)

        def log_in(name, shard=1):
            connection = stack.enter_context(cluster.shard_connection(shard))
            check_equal(connection.get('SCREE', 'USE', name, '0'), b'OK')
            return connection
        for name in ('many', 'few'):
            log_in(name, 0).get('SADD', source, *['%04d' % j + 'x' * 1000 for j in range(1000)])

        def admin_figure(name):
            return int(re.search(rb'%s:(\d+)' % name.encode(), admin.get('INFO', 'transactions'))[1])

        def count_queued():
            return sum(b'state=queued' in line for line in admin.get('SCREE', 'TRANSACTIONS'))
        script = ("redis.call('SUNIONSTORE', KEYS[1], KEYS[2]) redis.call('GET', ARGV[1]) "
                  "return tonumber(redis.call('TIME')[1]) * 1000000 + redis.call('TIME')[2]")
        cluster.backends[2].pause()
        clients = [log_in('many') for _ in range(6)] + [log_in('few')]
        for i, client in enumerate(clients):
            # scripts of their own, for which `far` is not guessed: they would wait for it with few bytes
            client.send('SCREE', 'ACROSS', 'EVAL', '%s -- %d' % (script, i), 2, cluster.key_on(1, 'to%d:' % i), source, far)
            wait_for(lambda i=i: count_queued() == i and admin_figure('borrowed_bytes') > 1000000, 'it to wait')
        cluster.backends[2].resume()
        times = [value(client.read()) for client in clients]
        before = sum(at < times[-1] for at in times[:-1])
        check(before <= 2, '%d of the other namespace went first: %r' % (before, times))


@suite.case('peer-output-limit: what a transaction borrows and changes may be longer')
def _(run):
    with Linked({'peer-output-limit': '64kb'}) as cluster:
        a, b, c = cluster.keys
        check_equal(cluster.shards[0].get('SET', a, 'z' * 1000000), b'OK')
        check_equal(cluster.exec(['COPY', a, b, 'REPLACE'], ['COPY', a, c, 'REPLACE']), [1, 1])
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        check_equal(cluster.values(), [b'z' * 1000000] * SHARDS)


@suite.case('a shard that has waited for so long that it asks for the outcome ends no attempt that still waits for another shard')
def _(run):
    with FaultyDisk() as disk, Linked({'transaction-timeout': '10m', 'peer-timeout': '10m'}, disk) as cluster:
        disk.hold_syncs()
        cluster.send_exec(*(['SET', key, 'v'] for key in cluster.keys))
        wait_for(lambda: disk.get('syncs_held') > 0, 'shard 0 to prepare')
        time.sleep(4)  # shard 2 is prepared, and asks after two seconds
        disk.hold_syncs(False)
        check_equal(cluster.read_exec(SHARDS), [b'OK'] * SHARDS)
        check_equal(cluster.figures(1)['transactions_retries'], 0, 'attempts that were in vain')
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        check_equal(cluster.values(), [b'v'] * SHARDS)


@suite.case('a key of more than 64 MB is borrowed in portions if borrow-limit allows it; else one error is replied at once')
def _(run):
    size = 70 * 1000 * 1000
    with Linked({'transaction-timeout': '10m', 'peer-timeout': '10m'}) as cluster:
        big, copy, far = cluster.key_on(0, 'big'), cluster.key_on(1, 'copy'), cluster.key_on(2, 'far')
        check_equal(cluster.shards[0].get('SET', big, 'z' * size), b'OK')
        check_error(cluster.shards[1].get('SCREE', 'ACROSS', 'COPY', big, copy), 'ERR', 'borrow-limit')
        check_equal(cluster.shards[1].get('EXISTS', copy), 0)
        check_equal(cluster.shards[1].get('CONFIG', 'SET', 'borrow-limit', '256mb'), b'OK')
        check_equal(cluster.shards[1].get('SCREE', 'ACROSS', 'COPY', big, copy), 1)
        check_equal([cluster.shards[1].get('STRLEN', copy), cluster.shards[1].get('GETRANGE', copy, -2, -1)], [size, b'zz'])
        check_equal(cluster.shards[0].get('SCREE', 'ACROSS', 'COPY', big, far), 1)
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        check_equal([cluster.shards[2].get('STRLEN', far), cluster.shards[2].get('GETRANGE', far, -2, -1)], [size, b'zz'])


@suite.case('SLOWLOG: the commands of an EXEC over shards have their arguments')
def _(run):
    with Linked() as cluster:
        shard = cluster.shards[1]
        check_equal(shard.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0'), b'OK')
        commands = [['SET', cluster.key_on(i % SHARDS, 'slow%d:' % i), 'value %d' % i] for i in range(30)]
        check_equal(cluster.exec(*commands), [b'OK'] * len(commands))
        logged = [entry[3] for entry in shard.get('SLOWLOG', 'GET', '-1')]
        missing = [words for words in commands if [word.encode() for word in words] not in logged]
        check_equal(missing, [], 'not in %r' % logged)


@suite.case('an operator ends a transaction in doubt: durably, and when the deciding shard comes back and differs, that is logged and shown')
def _(run):
    def force(shard, *words):
        return cluster.shards[shard].get('SCREE', 'TRANSACTIONS', *words)

    def leave_one():
        leave_in_doubt(cluster)
        wait_for(lambda: b' in_doubt=yes' in b''.join(force(0)), 'the doubt')
        return re.match(rb'id=(\S+)', force(0)[0])[1]

    with Linked({'peer-timeout': '10m', 'transaction-timeout': '10m'}) as cluster:
        name = leave_one()
        for words in (['COMMIT', name], ['ABORT', name, 'now'], ['FORGET'], ['END', name]):
            check_error(force(0, *words), 'MAY-DIFFER')
        check_equal(force(0, 'COMMIT', 'none/none/1', 'MAY-DIFFER'), [])
        check_equal(force(0, 'COMMIT', name, 'MAY-DIFFER'), [b'id=%s partition=0 forced=commit' % name])
        value = cluster.shards[0].get('GET', cluster.keys[0])
        check(isinstance(value, bytes), value)
        silent = [b'id=%s role=forced state=commit deciding_shard=silent' % name]
        check_equal(force(0), silent)
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        cluster.shards[0] = cluster.shard_connection(0)
        check_equal([force(0), cluster.shards[0].get('GET', cluster.keys[0])], [silent, value], 'after a crash')
        cluster.backends[1].start()  # without the decision, so for it the transaction is aborted
        cluster.shards[1] = cluster.shard_connection(1)
        differs = [silent[0].replace(b'silent', b'differs')]
        wait_for(lambda: force(0) == differs, 'the difference')
        check(b'transaction_differs' in cluster.backends[0].log(), 'the log')
        check_equal([force(0, 'FORGET', name), force(0, 'FORGET', name)], [[b'id=%s partition=0 forgotten=yes' % name], []])
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        name = leave_one()
        check_equal(force(0, 'ABORT', name, 'MAY-DIFFER'), [b'id=%s partition=0 forced=abort' % name])
        check_equal(cluster.shards[0].get('SET', cluster.keys[0], 'free'), b'OK')
        cluster.backends[1].start()
        cluster.shards[1] = cluster.shard_connection(1)
        wait_for(lambda: not cluster.transactions(), 'the shards to agree')
        check_equal(cluster.shards[0].get('GET', cluster.keys[0]), b'free')


@suite.case('SLOWLOG: a command or EXEC over shards has the whole time in which it waited for shards, and how many these are')
def _(run):
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True, backend_options={'backend': {'peer-timeout': '10m'}}) as cluster, \
            cluster.connect() as client, cluster.connect() as admin:
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        check_equal(client.get('SET', a, 'x'), b'OK')

        def logged(commands, shard, shown):
            """Sends commands, of which the last waits for shard 2, and returns the entry of the shard that coordinates it."""
            for words in commands[:-1]:
                client.get(*words)
            check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '50000'), b'OK')
            with cluster.partition(shard) as looking:  # a decided one is listed until all shards have applied it
                wait_for(lambda: not looking.get('SCREE', 'TRANSACTIONS'), 'the transaction before to be forgotten')
            cluster.backends[2].pause()
            sent = time.monotonic()
            client.send(*commands[-1])
            with cluster.partition(shard) as looking:
                wait_for(lambda: looking.get('SCREE', 'TRANSACTIONS'), 'the transaction')
                begun = time.monotonic()
                time.sleep(0.2)
                least = time.monotonic() - begun
                cluster.backends[2].resume()
                reply = value(client.read())
                most = time.monotonic() - sent
                check(not isinstance(reply, ReplyError), reply)
                slow = [entry for entry in looking.get('SLOWLOG', 'GET', -1) if entry[3][0] == shown[0].encode()]
            own = [entry for entry in admin.get('SLOWLOG', 'GET', -1) if entry[3][0] == shown[0].encode()]
            check_equal((len(slow), len(own)), (1, 1), 'entries: %r, %r' % (slow, own))
            check_equal(slow[0][3], [word.encode() for word in shown])
            check_equal(own[0][3], [word.encode() for word in commands[-1]], 'at the proxy')
            for entry in (slow[0], own[0]):
                check(least * 1e6 <= entry[2] <= most * 1e6, '%s s to %s s: %r' % (least, most, entry))
        logged([['MULTI'], *(['SET', key, 'y'] for key in (b, a, c)), ['EXEC']], 1, ['EXEC', '(on 3 shards)'])
        logged([['RENAME', a, c]], 0, ['RENAME', a, c, '(on 2 shards)'])
        logged([['EVAL', "return redis.call('APPEND', KEYS[1], redis.call('GET', KEYS[2]))", '2', b, c]], 1,
               ['EVAL', "return redis.call('APPEND', KEYS[1], redis.call('GET', KEYS[2]))", '2', b, c, '(on 2 shards)'])


def fail_disk(run, kinds, error, coordinator):
    """Transactions, coordinated by this shard, while the disk of shard 0 fails, and after it."""
    with FaultyDisk() as disk, Linked(disk=disk) as cluster:
        other = cluster.key_on(0, 'other')

        def write(text):
            return cluster.exec(*(['SET', key, text] for key in cluster.keys), shard=coordinator)

        def are_whole():
            """All keys have one value, which they keep."""
            values = cluster.values()
            return not any(isinstance(got, ReplyError) for got in values) and len(set(values)) == 1
        for turn in range(sized(3, long=30)):
            if turn == 1:  # from here on keys may stay locked
                for shard in cluster.shards:
                    check_equal(shard.get('CONFIG', 'SET', 'transaction-timeout', '%dms' % (1500 * harness.SLOW)), b'OK')
            wait_for(lambda: write('before %d' % turn) == [b'OK'] * SHARDS, 'a transaction')
            wait_for(lambda: not cluster.transactions(), 'all transactions to end')
            cluster.shards[0].get('SET', other, turn)  # written after the batch that deletes the last decision
            disk.fail(kinds, turn + 1, -1, error)
            replies = [write('during %d' % turn) for _ in range(4)]
            refused = [reply for reply in replies if isinstance(reply, ReplyError)]
            check(refused, 'no transaction was refused: %r' % replies)
            for reply in replies:
                check(reply == [b'OK'] * SHARDS or isinstance(reply, ReplyError), 'half of a transaction: %r' % reply)
            check_equal(cluster.shards[0].get('GET', other), b'%d' % turn, 'a key that is not locked')
            if turn == 0 and coordinator == 0:
                check_equal(cluster.figures(0)['transactions_in_doubt'], 1, 'the decision was not written')
            check(disk.heal() > 0, 'no call failed')
            wait_for(lambda: cluster.shards[0].get('SET', other, 'healed') == b'OK', 'writes to be taken again')
            wait_for(lambda: not cluster.transactions(), 'all transactions to end')
            wait_for(are_whole, 'all keys to have one value')
            if turn == 0:  # later, a transaction may be decided that cannot be applied, whose keys stay locked
                check_error(refused[-1], 'MISCONF')
                figures = cluster.figures(coordinator)
                check_equal(figures['transactions_in_doubt'], 0)
                if coordinator:
                    cluster.check_failed(coordinator, 'shard_refused', len(refused))
                else:
                    check_equal(figures['transactions_failed_log_failure'] + figures['transactions_many_shards'], 2, figures)
            run.debug(str(refused[-1]))


for kinds, error, what in ((SYNC_LOG, errno.EIO, 'fsync fails'), (WRITE_LOG, errno.ENOSPC, 'is full')):
    @suite.case('the disk of a participant %s: transactions are refused, nothing is done, and they work when it is mended' % what)
    def _(run, kinds=kinds, error=error):
        fail_disk(run, kinds, error, 1)

    @suite.case('the disk of a coordinator %s: transactions are refused, all or nothing is done, and they work later' % what)
    def _(run, kinds=kinds, error=error):
        fail_disk(run, kinds, error, 0)


@suite.case('the slow log has commands that a slow transaction over shards has let in with their own arguments')
def _(run):
    paths = ['$[?($[?($[?(@.z==1)])])]'] * 2000  # minutes
    with Linked({'transaction-timeout': '10m', 'lock-timeout': '10m', 'command-time-limit': '0'}) as cluster:
        shard = cluster.shards[1]
        check_equal(shard.get('JSON.SET', cluster.keys[1], '$', '[' + ','.join('{"a":%d}' % i for i in range(130)) + ']'), b'OK')
        for option, number in (('busy-reply-threshold', '20'), ('slowlog-max-len', '10000'), ('slowlog-log-slower-than', '0')):
            check_equal(shard.get('CONFIG', 'SET', option, number), b'OK')
        with cluster.shard_connection(1) as other:
            cluster.send_exec(['GET', cluster.keys[0]], ['JSON.GET', cluster.keys[1], *paths])
            wait_for(lambda: other.get('SCREE', 'RUNNING'), 'the command to be slow')
            for i in range(20):
                check_error(other.get('SCREE', 'KILL', 'none-%d' % i, *(['x'] * i)), 'ERR')
            slow = other.get('SCREE', 'RUNNING')[0]
            check_equal(other.get('SCREE', 'KILL', slow[slow.index(b'id') + 1]), b'OK')
            check_error(cluster.read_exec(2), 'ERR the command was ended by SCREE KILL')
            logged = [entry[3] for entry in other.get('SLOWLOG', 'GET', '-1')]
            check([b'SCREE', b'KILL', b'none-0'] in logged, logged)
            check([b'SCREE', b'RUNNING'] in logged, logged)


@suite.case('while a slow script runs at a participant, transactions reply BUSY and change nothing; they succeed when it has ended')
def _(run):
    with Linked({'transaction-timeout': '10m', 'lock-timeout': '10m'}) as cluster:
        check_equal(cluster.shards[0].get('CONFIG', 'SET', 'busy-reply-threshold', '20'), b'OK')
        check_equal(cluster.set_all('old'), [b'OK'] * SHARDS)
        wait_for(lambda: not cluster.transactions(), 'all transactions to end')
        with cluster.shard_connection(0) as slow:
            slow.send('EVAL', 'while true do end', '0')
            wait_for(lambda: 'BUSY' in str(cluster.shards[0].get('GET', cluster.keys[0])), 'the script to be slow')
            check_error(cluster.set_all('new'), 'BUSY Redis is busy running a script')
            cluster.check_failed(1, 'shard_refused')
            check_equal([cluster.shards[i].get('GET', cluster.keys[i]) for i in (1, 2)], [b'old'] * 2)
            check_equal(cluster.exec(['SET', cluster.keys[1], 'other'], ['SET', cluster.keys[2], 'other']), [b'OK'] * 2)
            check_equal(cluster.shards[0].get('SCRIPT', 'KILL'), b'OK')
            check_error(value(slow.read()), 'killed')
        check_equal(cluster.values(), [b'old', b'other', b'other'])
        check_equal(cluster.set_all('new'), [b'OK'] * SHARDS)


if __name__ == '__main__':
    suite.main()
