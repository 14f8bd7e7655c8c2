#!/usr/bin/python3
"""max-keys and max-bytes of namespaces, and maxmemory: what is refused, where, and how exactly."""

import threading

from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)

KEYS_ERROR = "OOM command not allowed when the namespace would have more keys than 'max-keys'."
BYTES_ERROR = "OOM command not allowed when the namespace has more than 'max-bytes'."
MEMORY_ERROR = "OOM command not allowed when used memory > 'maxmemory'."

NAMESPACES = {
    'ten': {'token': 'ten', 'max-keys': '10'},
    'other': {'token': 'other'},
    'small': {'token': 'small', 'max-bytes': '2mb'},
    'team_*': {'token': 'team', 'max-keys': '5'},
}


def cluster_of(**options):
    return Cluster(**{'backends': 3, 'partitions': 1, 'proxies': 1, 'namespaces': NAMESPACES, **options})


def enter(cluster, *login, proxy=0):
    connection = cluster.connect(proxy)
    check_equal(connection.get('AUTH', *login), b'OK')
    return connection


def call(client, *words):
    """The reply; an error as its text."""
    reply = value(client.call(*words))
    return str(reply) if isinstance(reply, ReplyError) else reply


def refused(client, *words):
    return call(client, *words) == KEYS_ERROR


def fill(client, cluster, limit):
    """Creates keys in turn on all shards until the namespace is full, and all shards know it. Returns how many there are."""
    count = 0
    while not refused(client, 'SET', 'fill:%d' % count, 'v'):
        count += 1
    def is_full():
        nonlocal count
        for shard in range(3):
            if not refused(client, 'SET', cluster.key_on(shard, 'full%d:' % count), 'v'):
                count += 1
                return False
        return True
    wait_for(is_full, 'all shards to know that the namespace is full')
    return client.get('DBSIZE')


@suite.case('max-keys: commands that would create more keys are refused; others, reads and deletions go on')
def _(run):
    with cluster_of(backends=1) as cluster:
        client = enter(cluster, 'ten')
        for i in range(10):
            check_equal(call(client, 'SET', 'k%d' % i, 'v'), b'OK')
        for words in (['SET', 'x', 'v'], ['LPUSH', 'x', 'v'], ['SADD', 'x', 'v'], ['ZADD', 'x', '1', 'v'], ['HSET', 'x', 'f', 'v'],
                      ['XADD', 'x', '*', 'f', 'v'], ['SETBIT', 'x', '1', '1'], ['PFADD', 'x', 'v'], ['INCR', 'x'], ['APPEND', 'x', 'v'],
                      ['COPY', 'k0', 'x'], ['GEOADD', 'x', '1', '1', 'm'], ['XGROUP', 'CREATE', 'x', 'g', '$', 'MKSTREAM'],
                      ['MSET', 'k0', 'v', 'x', 'v'], ['MSETNX', 'x', 'v', 'y', 'v'], ['JSON.SET', 'x', '$', '1'],
                      ['EVAL', "return redis.call('SET', KEYS[1], 'v')", '1', 'x']):
            reply = call(client, *words)
            check(KEYS_ERROR in str(reply), '%s: %r' % (words, reply))
            check_equal((client.get('DBSIZE'), client.get('EXISTS', 'x', 'y')), (10, 0), str(words))
        check_equal(client.get('GET', 'k0'), b'v', 'MSET has changed nothing')
        for words, reply in ((['SET', 'k0', 'w'], b'OK'), (['APPEND', 'k0', 'w'], 2), (['RENAME', 'k1', 'x'], b'OK'),
                             (['GET', 'x'], b'v'), (['EXPIRE', 'k0', '100'], 1), (['MSET', 'k0', '1', 'k2', '2'], b'OK'),
                             (['DEL', 'x'], 1), (['SET', 'x', 'v'], b'OK'), (['DBSIZE'], 10)):
            check_equal(call(client, *words), reply, str(words))
        check_equal(call(enter(cluster, 'other'), 'SET', 'k', 'v'), b'OK', 'other namespaces are not concerned')
        check_equal(call(client, 'SELECT', '1'), b'OK')
        check(refused(client, 'SET', 'x', 'v'), 'all databases count')
        wait_for(lambda: '# Limits\r\nmax_keys:10\r\nkeys:10\r\n' in client.get('INFO', 'limits').decode(), 'INFO limits')
        text = cluster.backends[0].http('/metrics')[1]
        check(metric(text, 'scree_backend_limit_refused_total') >= 18, 'refusals are counted')


@suite.case('max-keys in MULTI and in scripts: each command counts with those before it')
def _(run):
    with cluster_of(backends=1) as cluster:
        client = enter(cluster, 'ten')
        replies = [value(reply) for reply in client.pipeline(
            [['MULTI']] + [['SET', 'k%d' % i, 'v'] for i in range(12)] + [['DEL', 'k0'], ['SET', 'x', 'v'], ['EXEC']])][-1]
        check_equal([str(reply) if isinstance(reply, ReplyError) else reply for reply in replies],
                    [b'OK'] * 10 + [KEYS_ERROR] * 2 + [1, b'OK'])
        check_equal(client.get('DBSIZE'), 10)
        script = '''local good = 0
            for i = 1, 20 do
                local reply = redis.pcall('SET', 's' .. i, 'v')
                if reply.ok then good = good + 1 end
            end
            return good'''
        check_equal(client.get('DEL', 'k1', 'k2', 'k3'), 3)
        check_equal(client.get('EVAL', script, '0'), 3)
        check_equal(client.get('DBSIZE'), 10)


@suite.case('max-keys over three shards: all shards together have about as many, and when they are full none takes more')
def _(run):
    with cluster_of(linked=True) as cluster:
        client = enter(cluster, 'ten')
        count = fill(client, cluster, 10)
        check(10 <= count <= 30, 'one after the other: %d keys' % count)
        keys = [cluster.key_on(shard, 'm') for shard in range(3)]
        for words in (['MSET', *(word for key in keys for word in (key, 'v'))], ['SET', keys[1], 'v'],
                      ['COPY', 'fill:0', keys[0]], ['COPY', 'fill:0', keys[1]], ['COPY', 'fill:0', keys[2]],
                      ['SUNIONSTORE', keys[0], keys[1]], ['EVAL', "redis.call('SET', KEYS[1], 'v') return redis.call('SET', KEYS[2], 'v')",
                                                          '2', keys[0], keys[1]]):
            reply = call(client, *words)
            check(KEYS_ERROR in str(reply) or reply == 0, '%s: %r' % (words, reply))
        check_equal(client.get('DBSIZE'), count)
        replies = [value(reply) for reply in client.pipeline([['MULTI'], *(['SET', key, 'v'] for key in keys), ['EXEC']])][-1]
        check_equal([str(reply) for reply in replies], [KEYS_ERROR] * 3)
        check_equal(client.get('FLUSHALL'), b'OK')
        wait_for(lambda: not refused(client, 'SET', keys[0], 'v') and not refused(client, 'SET', keys[1], 'v'), 'room again')


@suite.case('max-keys while several clients write at once: never more than what is created between two rounds, and a single shard is exact')
def _(run):
    with cluster_of(backends=1, namespaces={'many': {'token': 'many', 'max-keys': '500'}}) as cluster:
        def write(index):
            client = enter(cluster, 'many')
            for part in range(10):
                client.pipeline([['SET', 'c%d:%d:%d' % (index, part, i), 'v'] for i in range(100)])
        threads = [threading.Thread(target=write, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check_equal(enter(cluster, 'many').get('DBSIZE'), 500)


@suite.case('limits hold after kill -9 of a shard, before it takes the first command')
def _(run):
    with cluster_of(backends=1) as cluster:
        client = enter(cluster, 'ten')
        for i in range(10):
            check_equal(call(client, 'SET', 'k%d' % i, 'v'), b'OK')
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        replies = []
        def answers():
            replies[:] = [call(client, 'SET', 'new', 'v')]
            return replies[0] == b'OK' or 'OOM' in replies[0]
        wait_for(answers, 'the shard to answer')
        check_equal(replies[0], KEYS_ERROR)


@suite.case('a reload changes limits; namespaces of a pattern have limits of their own')
def _(run):
    with cluster_of(backends=1) as cluster:
        first, second = enter(cluster, 'team_1', 'team'), enter(cluster, 'team_2', 'team')
        for client in (first, second):
            for i in range(5):
                check_equal(call(client, 'SET', 'k%d' % i, 'v'), b'OK')
            check(refused(client, 'SET', 'x', 'v'), 'the sixth')
        client = enter(cluster, 'ten')
        for i in range(10):
            check_equal(call(client, 'SET', 'k%d' % i, 'v'), b'OK')
        proxy = cluster.proxies[0]
        proxy.namespaces = {**NAMESPACES, 'ten': {'token': 'ten', 'max-keys': '12'}, 'team_*': {'token': 'team'}}
        proxy.write_config()
        proxy.reload()
        wait_for(lambda: not refused(first, 'SET', 'x', 'v') and not refused(second, 'SET', 'x', 'v'), 'no limit')
        wait_for(lambda: not refused(client, 'SET', 'k10', 'v'), 'more keys')
        check_equal(call(client, 'SET', 'k11', 'v'), b'OK')
        check(refused(client, 'SET', 'k12', 'v'), 'the thirteenth')


@suite.case('max-bytes: above it commands with the flag denyoom are refused; deletions and reads go on')
def _(run):
    with cluster_of() as cluster:
        client = enter(cluster, 'small')
        count = 0
        def is_full():
            nonlocal count
            for _ in range(20):
                reply = call(client, 'SET', 'k%d' % count, 'v' * 10000)
                if reply == BYTES_ERROR:
                    return True
                check_equal(reply, b'OK')
                count += 1
            return False
        wait_for(is_full, 'the namespace to be full')
        check(count * 10000 > 500000, '%d values of 10 kB' % count)
        def all_know():
            return all(call(client, 'SET', cluster.key_on(shard, 'x'), 'v') == BYTES_ERROR for shard in range(3))
        wait_for(all_know, 'all shards to know it')
        check_equal(call(client, 'SET', 'k0', 'v'), BYTES_ERROR, 'also for a key that exists')
        check_equal(client.get('STRLEN', 'k0'), 10000)
        replies = [value(reply) for reply in client.pipeline([['MULTI'], ['GET', 'k0'], ['SET', 'k0', 'v'], ['EXEC']])]
        check(isinstance(replies[3], ReplyError) and BYTES_ERROR in str(replies[3]), replies[3])
        check(BYTES_ERROR in str(call(client, 'EVAL', "return redis.call('SET', KEYS[1], 'v')", '1', 'k0')), 'in scripts')
        check_equal(client.get('EXPIRE', 'k0', '1000'), 1)
        check_equal(client.get('DEL', 'k0'), 1)
        check_equal(call(enter(cluster, 'other'), 'SET', 'k', 'v'), b'OK', 'other namespaces are not concerned')
        def shown(name):
            return metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_namespace_' + name)
        wait_for(lambda: shown('max_bytes') == 2 * 1024 * 1024 and shown('bytes') > 2 * 1024 * 1024, 'the metrics')


@suite.case('maxmemory: at a partition at once; through a proxy for all shards together, in CONFIG GET and INFO too')
def _(run):
    with cluster_of(namespaces={}) as cluster:
        partition = cluster.partition(0)
        check_equal(call(partition, 'CONFIG', 'SET', 'maxmemory', '1'), b'OK')
        key = cluster.key_on(0)
        check_equal(call(partition, 'SET', key, 'v'), MEMORY_ERROR)
        check_equal(call(partition, 'DEL', key), 0)
        check_equal(call(partition, 'CONFIG', 'SET', 'maxmemory', '0'), b'OK')
        check_equal(call(partition, 'SET', key, 'v'), b'OK')
        client = cluster.connect()
        used = 3 * 1000000000
        check_equal(call(client, 'CONFIG', 'SET', 'maxmemory', str(used)), b'OK')
        check_equal(client.get('CONFIG', 'GET', 'maxmemory'), [b'maxmemory', str(used).encode()])
        check('maxmemory:%d\r\n' % used in client.get('INFO', 'memory').decode(), 'INFO')
        check_equal(call(client, 'SET', 'k', 'v'), b'OK')
        check_equal(call(client, 'CONFIG', 'SET', 'maxmemory', '1kb'), b'OK')
        wait_for(lambda: all(call(client, 'SET', cluster.key_on(shard), 'v') == MEMORY_ERROR for shard in range(3)), 'OOM')
        check_equal(call(client, 'CONFIG', 'SET', 'maxmemory', '0'), b'OK')
        wait_for(lambda: all(call(client, 'SET', cluster.key_on(shard), 'v') == b'OK' for shard in range(3)), 'room again')


@suite.case('maxmemory through a proxy: each shard counts what the others have')
def _(run):
    with cluster_of(namespaces={}) as cluster:
        client = cluster.connect()
        keys = [cluster.key_on(shard) for shard in range(3)]
        for key in keys[1:]:
            check_equal(call(client, 'SET', key, 'v' * 4000000), b'OK')
        check_equal(call(client, 'CONFIG', 'SET', 'maxmemory', '6mb'), b'OK')
        wait_for(lambda: call(client, 'SET', keys[0], 'v') == MEMORY_ERROR, 'the shard with little data to refuse writes')


@suite.case('SCREE LIMITS takes whole groups of valid numbers, from proxies only')
def _(run):
    with cluster_of() as cluster:
        client = enter(cluster, 'ten')
        check(call(client, 'SCREE', 'LIMITS', '0').startswith('ERR unknown subcommand'), call(client, 'SCREE', 'LIMITS', '0'))
        partition = cluster.partition(0)
        check('NOPERM' in call(partition, 'SCREE', 'LIMITS', '0'), 'not without the cluster secret')
        check_equal(call(partition, 'SCREE', 'AUTH', cluster.secret), b'OK')
        for words in (['x'], ['-1'], ['0', 'a'], ['0', 'a', '1', '2', '3'], ['0', 'a', '1', '2', '3', '-4'], ['0', '', '1', '2', '3', '4'],
                      ['0', 'a', '1', '2', '3', '4', 'b'], ['18446744073709551616'], ['0', 'x' * 201, '1', '2', '3', '4']):
            reply = call(partition, 'SCREE', 'LIMITS', *words)
            check(str(reply).startswith('ERR SCREE LIMITS takes'), '%s: %r' % (words, reply))
        check_equal(call(partition, 'SCREE', 'USE', 'a', '0'), b'OK')
        check_equal(call(partition, 'SCREE', 'LIMITS', '0', 'a', '2', '0', '1', '0')[1:3], [0, 0])
        key = cluster.key_on(0)
        check_equal(call(partition, 'SET', key, 'v'), b'OK')
        check_equal(call(partition, 'SET', cluster.key_on(0, 'another'), 'v'), KEYS_ERROR)
        check_equal(call(partition, 'SCREE', 'LIMITS', '0', 'a', '2', '0', '0', '0')[1:3], [0, 1])
        check_equal(call(partition, 'SET', cluster.key_on(0, 'another'), 'v'), b'OK')


if __name__ == '__main__':
    suite.main()
