#!/usr/bin/python3
"""max-keys and max-bytes of namespaces, and maxmemory: what is refused, where, and how exactly."""

import hashlib
import json
import random
import select
import threading

from support.cluster import Cluster, Oracle, evict_all, metric
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, ReplyError, value

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


def patient(client, *words):
    """The reply; while the shard waits for more of max-keys, the command is sent again."""
    replies = []
    def is_answered():
        replies[:] = [call(client, *words)]
        return not str(replies[0]).startswith('TRYAGAIN')
    wait_for(is_answered, '%s not to be told to try again' % words[0])
    return replies[0]


def fill(client, shards=None, prefix='fill'):
    """Creates keys until one is refused. `shards`: (cluster, shard), keys of this shard only. Returns how many there are."""
    count = 0
    while True:
        key = '%s:%d' % (prefix, count) if shards is None else shards[0].key_on(shards[1], '%s%d' % (prefix, count))
        reply = patient(client, 'SET', key, 'v')
        if reply == KEYS_ERROR:
            return client.get('DBSIZE')
        check_equal(reply, b'OK')
        count += 1


def burst(cluster, clients, keys, token):
    """Each client creates this many keys; they use the proxies in turn. Returns the different replies."""
    kinds = set()
    def write(index):
        client = enter(cluster, token, proxy=index % len(cluster.proxies))
        for part in range(keys // 100):
            for reply in client.pipeline([['SET', 'c%d:%d:%d' % (index, part, i), 'v'] for i in range(100)]):
                kinds.add(str(value(reply)).split(' ')[0])
    threads = [threading.Thread(target=write, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kinds


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


@suite.case('max-keys over three shards: all shards together have exactly so many, and when they are full none takes more')
def _(run):
    with cluster_of(linked=True) as cluster:
        client = enter(cluster, 'ten')
        check_equal(fill(client), 10)
        keys = [cluster.key_on(shard, 'm') for shard in range(3)]
        for words in (['MSET', *(word for key in keys for word in (key, 'v'))], ['SET', keys[1], 'v'],
                      ['COPY', 'fill:0', keys[0]], ['COPY', 'fill:0', keys[1]], ['COPY', 'fill:0', keys[2]],
                      ['SUNIONSTORE', keys[0], keys[1]], ['EVAL', "redis.call('SET', KEYS[1], 'v') return redis.call('SET', KEYS[2], 'v')",
                                                          '2', keys[0], keys[1]]):
            reply = patient(client, *words)
            check(KEYS_ERROR in str(reply) or reply == 0, '%s: %r' % (words, reply))
        check_equal(client.get('DBSIZE'), 10)
        replies = [value(reply) for reply in client.pipeline([['MULTI'], *(['SET', key, 'v'] for key in keys), ['EXEC']])][-1]
        check_equal([str(reply) for reply in replies], [KEYS_ERROR] * 3)
        check_equal(client.get('FLUSHALL'), b'OK')
        check_equal(fill(client), 10, 'room again')


@suite.case('max-keys over three shards: one of them may have all keys, and gives the room back when they are deleted')
def _(run):
    with cluster_of() as cluster:
        client = enter(cluster, 'ten')
        check_equal(fill(client, (cluster, 0)), 10)
        for key in client.get('KEYS', '*'):
            check_equal(client.get('DEL', key), 1)
        check_equal(fill(client, (cluster, 1)), 10)
        check_equal(client.get('FLUSHALL'), b'OK')
        check_equal(fill(client, (cluster, 2)), 10)


@suite.case('max-keys over three shards: while there is room no key is refused, whatever has been deleted, has expired or was moved a moment ago')
def _(run):
    draw = random.Random(run.seed)
    limit = 60
    with cluster_of(linked=True, namespaces={'many': {'token': 'many', 'max-keys': str(limit)}}) as cluster:
        client = enter(cluster, 'many')
        check_equal(fill(client, prefix='first'), limit)
        for turn in range(sized(12, long=100)):
            keys = sorted(client.get('KEYS', '*'))
            gone = draw.sample(keys, draw.randrange(1, limit))
            way = draw.choice(('one by one', 'at once', 'expired', 'renamed', 'moved', 'flushed', 'in a script', 'in MULTI'))
            if way == 'one by one':
                for key in gone:
                    check_equal(client.get('DEL', key), 1)
            elif way == 'at once':
                check_equal(client.get('UNLINK', *gone), len(gone))
            elif way == 'expired':
                for key in gone:
                    check_equal(client.get('PEXPIRE', key, '1'), 1)
                wait_for(lambda: client.get('DBSIZE') == limit - len(gone), 'keys to expire')
            elif way == 'renamed':
                for source, target in zip(gone[::2], gone[1::2]):
                    check_equal(patient(client, 'RENAME', source, target), b'OK')
            elif way == 'moved':
                for key in gone:
                    check_equal(patient(client, 'MOVE', key, '1'), 1)
                check_equal(enter_database(client, 1), len(gone))
                check_equal(client.get('FLUSHDB'), b'OK')
                enter_database(client, 0)
            elif way == 'flushed':
                check_equal(client.get('FLUSHALL'), b'OK')
            elif way == 'in a script':
                check_equal(patient(client, 'EVAL', "return redis.call('DEL', unpack(KEYS))", str(len(gone)), *gone), len(gone))
            else:
                check_equal([value(reply) for reply in client.pipeline([['MULTI'], ['DEL', *gone], ['EXEC']])][-1], [len(gone)])
            where = draw.choice((None, (cluster, draw.randrange(3))))
            check_equal(fill(client, where, prefix='t%d' % turn), limit, way)


@suite.case('a transaction over shards counts in max-keys once, and a full namespace can rename, move and replace keys over shards')
def _(run):
    with cluster_of(linked=True) as cluster:
        client = enter(cluster, 'ten')
        keys = [cluster.key_on(shard, 'm') for shard in range(3)]
        check_equal(patient(client, 'EVAL', "for i = 1, 3 do redis.call('SET', KEYS[i], 'v') end return 3", '3', *keys), 3)
        check_equal(fill(client), 10)
        for source, target in ((keys[0], cluster.key_on(1, 'n')), (keys[1], cluster.key_on(2, 'n')), (keys[2], cluster.key_on(0, 'n'))):
            check_equal(patient(client, 'RENAME', source, target), b'OK')
            check_equal(client.get('DBSIZE'), 10)
            check_equal(patient(client, 'SET', source, 'v'), KEYS_ERROR)
        replies = []
        def is_exchanged():
            commands = [['MULTI'], ['DEL', cluster.key_on(1, 'n')], ['SET', keys[2], 'v'], ['EXEC']]
            replies[:] = [value(reply) for reply in client.pipeline(commands)]
            return not str(replies[-1]).startswith('TRYAGAIN')
        wait_for(is_exchanged, 'EXEC not to be told to try again')
        check_equal(replies[-1], [1, b'OK'])
        check_equal(client.get('DBSIZE'), 10)
        check_equal(patient(client, 'SET', keys[0], 'v'), KEYS_ERROR)


@suite.case('max-keys is exact when keys expire, lose their last field, are renamed, copied, restored, moved between databases, flushed and swapped')
def _(run):
    for shards in (1, 3):
        with cluster_of(backends=shards, linked=shards > 1) as cluster:
            client = enter(cluster, 'ten')
            def full(reason):
                """Fills the namespace: all its databases have ten keys, and the eleventh is refused."""
                count = sum(enter_database(client, number) for number in (1, 0))
                fill(client, prefix='full')
                check_equal(sum(enter_database(client, number) for number in (1, 0)), 10, reason)
            full('at first')
            for i in range(4):
                check_equal(client.get('PEXPIRE', 'full:%d' % i, '1'), 1)
            wait_for(lambda: client.get('DBSIZE') == 6, 'keys to expire')
            full('after keys have expired')
            check_equal(client.get('DEL', 'full:0', 'full:1'), 2)
            wait_for(lambda: patient(client, 'HSET', 'hash', 'f', 'v') == 1, 'room for a hash')
            check_equal(client.get('HPEXPIRE', 'hash', '1', 'FIELDS', '1', 'f'), [1])
            wait_for(lambda: client.get('DBSIZE') == 8, 'the last field to expire')
            full('after a hash has lost its last field')
            payload = client.get('DUMP', 'full:0')
            check_equal(patient(client, 'RESTORE', 'full:1', '0', payload, 'REPLACE'), b'OK')
            check_equal(patient(client, 'RESTORE', 'new', '0', payload), KEYS_ERROR)
            check_equal(patient(client, 'COPY', 'full:0', 'full:1', 'REPLACE'), 1)
            check_equal(patient(client, 'COPY', 'full:0', 'new'), KEYS_ERROR)
            check_equal(patient(client, 'COPY', 'full:0', 'full:0', 'DB', '1'), KEYS_ERROR)
            check_equal(patient(client, 'RENAME', 'full:0', 'full:1'), b'OK')
            full('after RENAME over a key')
            check_equal(patient(client, 'MOVE', 'full:1', '1'), 1)
            check_equal(patient(client, 'SET', 'new', 'v'), KEYS_ERROR, 'a key in another database')
            full('after MOVE')
            check_equal(patient(client, 'SWAPDB', '0', '1'), b'OK')
            check_equal((enter_database(client, 1), enter_database(client, 0)), (9, 1))
            check_equal(patient(client, 'SET', 'new', 'v'), KEYS_ERROR, 'after SWAPDB')
            check_equal(client.get('FLUSHDB'), b'OK')
            full('after FLUSHDB')
            check_equal(patient(client, 'BF.ADD', 'new', 'v'), KEYS_ERROR)
            check_equal(patient(client, 'TOPK.RESERVE', 'new', '3'), KEYS_ERROR)
            check_equal(client.get('FLUSHALL'), b'OK')
            full('after FLUSHALL')


def enter_database(client, number):
    """SELECT; the number of its keys."""
    check_equal(client.get('SELECT', str(number)), b'OK')
    return client.get('DBSIZE')


@suite.case('max-keys while several clients write at once: a single shard is exact')
def _(run):
    with cluster_of(backends=1, namespaces={'many': {'token': 'many', 'max-keys': '500'}}) as cluster:
        check_equal(burst(cluster, 4, 1000, 'many'), {"b'OK'", 'OOM'})
        check_equal(enter(cluster, 'many').get('DBSIZE'), 500)


@suite.case('a burst of fifty clients through two proxies over three shards never creates more than max-keys, and fills it')
def _(run):
    keys = sized(4000, long=20000)
    with cluster_of(proxies=2, namespaces={'many': {'token': 'many', 'max-keys': str(keys)}}) as cluster:
        kinds = burst(cluster, 50, max(keys // 25, 100) // 100 * 100, 'many')
        client = enter(cluster, 'many')
        count = client.get('DBSIZE')
        check(count <= keys, '%d keys' % count)
        check(kinds <= {"b'OK'", 'OOM', 'TRYAGAIN'}, kinds)
        check_equal(fill(client, prefix='rest'), keys)


@suite.case('while a shard is down the others create keys up to what they may have; when it is back all together have exactly max-keys')
def _(run):
    with cluster_of(proxies=2, namespaces={'many': {'token': 'many', 'max-keys': '90'}}) as cluster:
        client = enter(cluster, 'many')
        check_equal(patient(client, 'SET', cluster.key_on(0, 'a'), 'v'), b'OK')
        check_equal(patient(client, 'SET', cluster.key_on(2, 'a'), 'v'), b'OK')
        cluster.backends[2].kill9()
        for count in range(2):
            check_equal(patient(client, 'SET', cluster.key_on(count, 'b%d' % count), 'v'), b'OK', 'the others have room')
        while call(client, 'SET', cluster.key_on(count % 2, 'b%d' % count), 'v') == b'OK':
            count += 1
            check(count < 90, 'the shard that is down keeps its part')
        cluster.backends[2].start()
        wait_for(lambda: call(client, 'GET', cluster.key_on(2, 'a')) == b'v', 'the shard to answer')
        check_equal(fill(client, prefix='c'), 90)


@suite.case('slots that move while a namespace is filled: no key is lost, and there are never more than max-keys')
def _(run):
    with cluster_of(linked=True, namespaces={'many': {'token': 'many', 'max-keys': '300'}}) as cluster:
        client = enter(cluster, 'many')
        for i in range(150):
            check_equal(patient(client, 'SET', 'k%d' % i, 'v'), b'OK')
        slots = list(cluster.slots)
        for turn in range(3):
            cluster.write_shards(slots[1 + turn % 2:] + slots[:1 + turn % 2])
            for proxy in cluster.proxies:
                proxy.reload()
            for i in range(20):
                reply = patient(client, 'SET', 'm%d:%d' % (turn, i), 'v')
                check(reply == b'OK', reply)
            def is_settled():
                return client.get('DBSIZE') == 150 + 20 * (turn + 1)
            wait_for(is_settled, 'all keys to have arrived')
        check_equal(fill(client, prefix='rest'), 300)


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


@suite.case('max-keys that a reload lowers: no key is deleted, all shards refuse new ones, and then there are exactly so many')
def _(run):
    with cluster_of(namespaces={'many': {'token': 'many', 'max-keys': '40'}}) as cluster:
        client = enter(cluster, 'many')
        for i in range(30):
            check_equal(patient(client, 'SET', 'k%d' % i, 'v'), b'OK')
        proxy = cluster.proxies[0]
        proxy.namespaces = {'many': {'token': 'many', 'max-keys': '12'}}
        proxy.write_config()
        proxy.reload()
        probes = [cluster.key_on(shard, 'probe') for shard in range(3)]
        def all_refuse():
            replies = [patient(client, 'SET', key, 'v') for key in probes]
            for key, reply in zip(probes, replies):
                if reply == b'OK':
                    check_equal(client.get('DEL', key), 1)
            return replies == [KEYS_ERROR] * 3
        wait_for(all_refuse, 'all shards to refuse new keys')
        check_equal(client.get('DBSIZE'), 30)
        check_equal(client.get('SET', 'k0', 'w'), b'OK', 'a key that exists')
        check_equal(client.get('DEL', *('k%d' % i for i in range(10, 30))), 20)  # at each shard at once
        check_equal(fill(client), 12)
        check_equal([patient(client, 'SET', key, 'v') for key in probes], [KEYS_ERROR] * 3)
        check_equal(client.get('DBSIZE'), 12)


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


def described(reply):
    """{name: {field: value}} of SCREE NAMESPACES."""
    rows = [dict(zip(row[::2], row[1::2])) for row in reply]
    return {row[b'name'].decode(): row for row in rows}


@suite.case('SCREE NAMESPACES has the requests a second of each namespace, and of all that a pattern covers')
def _(run):
    with cluster_of(proxy_options={'proxy': {'requirepass': 'outside', 'workers': '2'}}) as cluster:
        plain, busy = enter(cluster, 'outside'), enter(cluster, 'other')
        teams = [enter(cluster, name, 'team') for name in ('team_a', 'team_b')]

        def rates():
            for client in [busy] + teams:
                client.pipeline([['GET', 'k']] * 200)
            return {name: row[b'requests-per-second'] for name, row in described(plain.get('SCREE', 'NAMESPACES')).items()}
        wait_for(lambda: all(rates()[name] > 0 for name in ('other', 'team_*')), 'the rates of busy namespaces')
        check_equal(rates()['ten'], 0)
        check('team_*' in described(teams[0].get('SCREE', 'NAMESPACES')), 'a client in a namespace sees its own')
        wait_for(lambda: all(row[b'requests-per-second'] == 0 for row in described(plain.get('SCREE', 'NAMESPACES')).values()),
                 'the rates to fall to 0 without requests')


@suite.case('SCREE NAMESPACES has every limit of a namespace')
def _(run):
    limits = {'max-keys': '7', 'max-bytes': '3mb', 'rate-limit': '11', 'bandwidth-limit': '13kb', 'command-memory': '17mb',
              'command-time-limit': '19ms'}
    numbers = [7, 3 << 20, 11, 13 << 10, 17 << 20, 19]
    namespaces = {'all': {'token': 'all', **limits}, 'none': {'token': 'none'}}
    with cluster_of(backends=1, namespaces=namespaces, proxy_options={'proxy': {'requirepass': 'outside'}}) as cluster:
        rows = described(enter(cluster, 'outside').get('SCREE', 'NAMESPACES'))
        check_equal([rows['all'][limit.encode()] for limit in limits], numbers)
        check_equal([rows['none'][limit.encode()] for limit in limits], [0] * len(limits))


@suite.case('keys and bytes of every namespace are known without limits and without clients: SCREE NAMESPACES, INFO, metrics, status page')
def _(run):
    names = ['team_%02d' % i for i in range(70)]  # more than one page of SCREE USAGE
    with cluster_of(namespaces={'team_*': {'token': 'team'}, 'shop': {'token': 'shop'}, 'empty': {'token': 'empty'}},
                    proxy_options={'proxy': {'requirepass': 'outside'}}) as cluster:
        for i, name in enumerate(names):
            client = enter(cluster, name, 'team')
            client.get('MSET', *[word for k in range(i + 1) for word in ('k%d' % k, 'v')])
            client.close()
        shop = enter(cluster, 'shop')
        shop.pipeline([['SET', 'k%d' % i, random.Random(i).randbytes(1000)] for i in range(2000)])
        shop.pipeline([['SELECT', '3'], ['SET', 'k', 'v']])
        plain = enter(cluster, 'outside')
        plain.get('SET', 'k', 'v')

        def uses():
            return described(plain.get('SCREE', 'NAMESPACES'))
        wait_for(lambda: uses()['shop'][b'keys'] == 2001, 'the keys of shop')
        wait_for(lambda: 0.9 < uses()['shop'][b'bytes'] / 2000000 < 1.2, 'the bytes of shop')
        wait_for(lambda: uses()['team_*'][b'keys'] == 70 * 71 // 2, 'the keys of all that the pattern covers')
        check_equal((uses()['empty'][b'keys'], uses()['empty'][b'bytes']), (0, 0))
        one = enter(cluster, 'team_04', 'team')
        check_equal(described(one.get('SCREE', 'NAMESPACES'))['team_*'][b'keys'], 5, 'a client in a namespace sees its own')
        check('\r\nkeys:5\r\n' in one.get('INFO', 'limits').decode(), one.get('INFO', 'limits'))

        text = cluster.proxies[0].http('/metrics')[1]
        check('scree_proxy_namespace_keys{tenant="shop"} 2001\n' in text, 'the metric')
        def shown():
            spaces = json.loads(cluster.proxies[0].http('/status/namespaces.json')[1])['namespaces']
            return {space['name']: space['keys'] for space in spaces}
        wait_for(lambda: shown().get('') == 1, 'the key of no namespace')
        check_equal(shown(), {'': 1, 'shop': 2001, 'empty': 0, **{name: i + 1 for i, name in enumerate(names)}})

        one.get('FLUSHALL')
        shop.get('SELECT', '0')
        shop.get('FLUSHDB')
        wait_for(lambda: (uses()['shop'][b'keys'], uses()['team_*'][b'keys']) == (1, 70 * 71 // 2 - 5), 'the keys that are left')
        cluster.backends[1].kill9()
        shop.get('SET', cluster.key_on(0), 'v')
        check_equal(uses()['shop'][b'keys'], 1, 'a shard is down: the figures of before')
        cluster.backends[1].start()
        wait_for(lambda: uses()['shop'][b'keys'] == 2, 'the keys after the shard is back')


@suite.case('bytes of a namespace are its own, however much a neighbour writes, in memory and in files')
def _(run):
    tenants = sized(10, long=39)
    names = ['t%d' % i for i in range(tenants)]
    namespaces = {name: {'token': name, 'max-bytes': '10mb'} for name in names}
    namespaces['big'] = {'token': 'big'}
    draw = random.Random(run.seed)
    with cluster_of(namespaces=namespaces, backend_options={'store': {'write-buffer': '1mb', 'memtable': '1mb'}}) as cluster:
        def bytes_of(name):
            text = cluster.proxies[0].http('/metrics')[1]
            return metric('\n'.join(line for line in text.splitlines() if '"%s"' % name in line), 'scree_proxy_namespace_bytes') or 0
        def write(name, count, prefix='k'):
            clients[name] = clients.get(name) or enter(cluster, name) # a proxy measures namespaces that have clients
            for start in range(0, count, 100):
                clients[name].pipeline([['SET', '%s%d' % (prefix, i), draw.randbytes(1000)] for i in range(start, start + 100)])
        def are_true():
            found = [bytes_of(name) for name in names]
            seen[:] = [round(bytes / 1022000, 2) for bytes in found]
            return all(0.95 < part < 1.05 for part in seen)
        seen, clients = [], {}
        for name in names:
            write(name, 1000)
        for part in range(sized(3, long=100)):
            write('big', 10000, 'part%d:' % part)
            check(all(part < 1.5 for part in seen), 'a neighbour is charged: %s' % seen)
            wait_for(are_true, 'the bytes of each to be true')
        for shard in range(3):
            evict_all(cluster.partition(shard))
        wait_for(are_true, 'the bytes of each in files')


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


BODIES = ['return 1', "return redis.call('SET',KEYS[1],'v')", "return redis.call('GET',KEYS[1])", "return redis.pcall('SET',KEYS[1],'v')",
          "redis.call('DEL',KEYS[1]) return redis.call('SET',KEYS[1],'v')", "redis.call('SET',KEYS[1],'v') return 1"]
HEADS = ['', '#!lua\n', '#!lua flags=no-writes\n', '#!lua flags=allow-oom\n', '#!lua flags=allow-oom,no-writes\n', '#!lua flags=allow-stale\n']
FULL_LIBRARY = """#!lua name=full
redis.register_function('one', function(keys) return 1 end)
redis.register_function('w', function(keys) return redis.call('SET', keys[1], 'v') end)
redis.register_function{function_name='r', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}
redis.register_function{function_name='o', callback=function(keys) return redis.call('SET', keys[1], 'v') end, flags={'allow-oom'}}
"""


def scripts_above_maxmemory(address):
    """Requests that run scripts and functions, with their replies when the data exceed maxmemory: alone, and in an EXEC that was queued before."""
    texts = [head + body for head in HEADS for body in BODIES]
    requests = [[word, name, 1, 'k'] for text in texts for word, name in (
        ('EVAL', text), ('EVAL_RO', text), ('EVALSHA', hashlib.sha1(text.encode()).hexdigest()))]
    requests += [[word, name, 1, 'k'] for name in 'one w r o none'.split() for word in ('FCALL', 'FCALL_RO')]
    with Connection(address) as client, Connection(address) as admin:
        def limit(size):
            check_equal(admin.get('CONFIG', 'SET', 'maxmemory', size), b'OK')
            wait_for(lambda: (b'OOM' in admin.call('SET', 'k', 'v')[1]) == (size != '0'), 'the limit to be in force')
        admin.get('FUNCTION', 'LOAD', 'REPLACE', FULL_LIBRARY)
        admin.get('SET', 'k', 'v')
        for text in texts:
            client.get('SCRIPT', 'LOAD', text)
        limit('1')
        alone = [(request, client.call(*request)) for request in requests]
        limit('0')
        clients = [Connection(address) for _ in requests[::7]]
        for each, request in zip(clients, requests[::7]):
            check_equal((each.call('MULTI'), each.call(*request)), (('+', b'OK'), ('+', b'QUEUED')))
        limit('1')
        queued = [(request, each.call('EXEC')) for each, request in zip(clients, requests[::7])]
        for each in clients:
            each.close()
        limit('0')
        return alone, queued


@suite.case('maxmemory: scripts and functions are refused as by redis-server, by the flags that they declare')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, Oracle() as oracle:
        theirs = scripts_above_maxmemory(oracle.address)
        check(any(reply == ('-', MEMORY_ERROR.encode()) for _, reply in theirs[0]), theirs)
        check_equal(scripts_above_maxmemory(cluster.backends[0].addresses[0]), theirs, 'at a partition')
        alone, queued = scripts_above_maxmemory(cluster.proxies[0].address)
        check_equal(alone, theirs[0], 'through a proxy')
        # the shard gets the commands of a proxy's EXEC one by one, and names no reason
        check_equal([reply[0] for _, reply in queued], [reply[0] for _, reply in theirs[1]], 'EXEC through a proxy')


@suite.case('maxmemory through a proxy: each shard counts what the others have')
def _(run):
    with cluster_of(namespaces={}) as cluster:
        client = cluster.connect()
        keys = [cluster.key_on(shard) for shard in range(3)]
        for key in keys[1:]:
            check_equal(call(client, 'SET', key, 'v' * 4000000), b'OK')
        check_equal(call(client, 'CONFIG', 'SET', 'maxmemory', '6mb'), b'OK')
        wait_for(lambda: call(client, 'SET', keys[0], 'v') == MEMORY_ERROR, 'the shard with little data to refuse writes')


@suite.case('SCREE GRANTS: a shard creates keys up to its grant, reports its claim, and takes orders from one coordinator')
def _(run):
    with cluster_of() as cluster:
        partition = cluster.partition(0)
        check('NOPERM' in call(partition, 'SCREE', 'GRANTS', '1', '0', '0'), 'not without the cluster secret')
        check_equal(call(partition, 'SCREE', 'AUTH', cluster.secret), b'OK')
        for words in (['1', '0', 'x'], ['1', '-1', '0'], ['1', '0', '0', 'a'], ['1', '0', '0', 'a', '1', '2', '3', '4', '5'],
                      ['1', '0', '0', 'a', '1', '2', '3', '4', '5', '-6'], ['1', '0', '0', '', '1', '2', '3', '4', '5', '6'],
                      ['1', '0', '0', 'a', '1', '2', '3', '4', '5', '6', 'b'], ['18446744073709551616', '0', '0']):
            reply = call(partition, 'SCREE', 'GRANTS', *words)
            check(str(reply).startswith('ERR SCREE GRANTS takes'), '%s: %r' % (words, reply))
        control = cluster.partition(0)
        check_equal(call(control, 'SCREE', 'AUTH', cluster.secret), b'OK')
        check_equal(call(partition, 'SCREE', 'USE', 'a', '0'), b'OK')
        def order(coordinator, grant, version, elsewhere=0):
            words = [coordinator, 1, 0, 'a', 10, 0, elsewhere, 0, grant, version]
            return call(control, 'SCREE', 'GRANTS', *(str(word) for word in words))[2:]
        keys, _, claim, version, is_new, _, _ = order(5, 3, 0)
        check_equal((keys, claim, is_new), (0, 0, 1), 'the first order only makes it the coordinator')
        check(version > 0, version)
        check_equal(order(5, 3, version)[2:5], [3, version + 1, 0])
        check_equal(order(5, 9, version)[2:4], [3, version + 2], 'an order with an old version changes nothing')
        check_equal(order(6, 9, version + 2)[2:5], [3, 0, 0], 'nor does one of another proxy')
        names = [cluster.key_on(0, 'k%d' % i) for i in range(4)]
        for name in names[:3]:
            check_equal(call(partition, 'SET', name, 'v'), b'OK')
        check(call(partition, 'SET', names[3], 'v').startswith('TRYAGAIN'), 'the grant is used, and the others have room')
        check_equal(order(5, 3, version + 2)[5], 1, 'it wants more')
        check_equal(order(5, 4, version + 3, elsewhere=6)[2], 4)
        check_equal(call(partition, 'SET', names[3], 'v'), b'OK')
        replies = []
        def begins_to_wait():
            """A SET waits for 250 ms, and this test may be slower; then it is sent again."""
            partition.send('SET', cluster.key_on(0, 'x'), 'v')
            while not order(5, 4, 0)[5]:
                if select.select([partition.sock], [], [], 0)[0]:
                    check(str(value(partition.read())).startswith('TRYAGAIN'), 'a SET that has waited')
                    return False
            return True
        def is_refused(orders, elsewhere):
            """What a SET gets that comes before so many orders, of which each says that there are so many keys elsewhere."""
            wait_for(begins_to_wait, 'the command to wait')
            replies[:] = [order(5, 4, 0)]
            for _ in range(orders):
                replies.append(order(5, 4, replies[-1][3], elsewhere))
            reply = value(partition.read())
            return str(reply)
        wait_for(lambda: is_refused(3, 6) == KEYS_ERROR, 'a SET to be refused, because all shards together have ten')
        check_equal([reply[6] for reply in replies], [0, 4, 4, 4], 'the fewest keys, if the order follows the last report')
        check(is_refused(3, 5).startswith('TRYAGAIN'), 'there may be room elsewhere')
        check(is_refused(1, 6).startswith('TRYAGAIN'), 'the figures may be older than the command')
        check_equal(order(5, 0, replies[-1][3])[2], 4, 'the claim is what it has')


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
