#!/usr/bin/python3
"""Existing clients work unchanged: redis-py (threads, asyncio), Redis' own tools, hiredis, ioredis, node-redis; the job queues
BullMQ, Bull and bee-queue; socket.io's adapter; and the start-up requests of others.
"""

import asyncio
import json
import os
import re
import subprocess
import tempfile
import threading

import redis
import redis.asyncio

from support import ROOT, TESTS
from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, patience, wait_for
from support.node import installed
from support.resp import Connection, encode, value

suite = Suite(__doc__)


def with_cluster(body):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        body(cluster, cluster.proxies[0].address)


def with_both(body):
    """Runs the body for a partition, then for the proxy over three."""
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        body(cluster.backends[0].addresses[0])
    with_cluster(lambda cluster, address: body(address))


def run_program(words, text=None, limit=240):
    done = subprocess.run(words, input=text, capture_output=True, timeout=limit)
    output = done.stdout.decode('utf-8', 'replace')
    check(done.returncode == 0, '%s ended with %d: %s%s'
          % (words[0], done.returncode, output[-500:], done.stderr.decode('utf-8', 'replace')[-1500:]))
    return output


# ---- redis-py ----------------------------------------------------------------------------------------------------

@suite.case('redis-py: commands of every implemented kind')
def _(run):
    def body(cluster, address):
        client = cluster.redis(decode_responses=True)
        check(client.ping(), 'ping')
        check(client.set('a', '1', ex=1000), 'set')
        check_equal(client.get('a'), '1')
        check(0 < client.ttl('a') <= 1000, 'ttl')
        check_equal(client.incrbyfloat('a', 1.5), 2.5)
        check_equal(client.mset({'k%d' % i: i for i in range(100)}), True)
        check_equal(client.mget(['k%d' % i for i in range(100)] + ['no']), [str(i) for i in range(100)] + [None])
        check_equal(client.hset('h', mapping={'f%d' % i: i for i in range(50)}), 50)
        check_equal(client.hgetall('h'), {'f%d' % i: str(i) for i in range(50)})
        check_equal(dict(client.hscan_iter('h')), {'f%d' % i: str(i) for i in range(50)})
        check_equal(set(client.scan_iter('k*', count=7)), {'k%d' % i for i in range(100)})
        check_equal(client.dbsize(), 102)
        check_equal(client.delete(*['k%d' % i for i in range(100)]), 100)
        check(client.expire('h', 100) and client.persist('h'), 'expire and persist')
        check_equal(client.type('h'), 'hash')
        check(isinstance(client.info(), dict), 'info')
        check(isinstance(client.client_id(), int), 'client id')
        check(len(client.client_list()) >= 1, 'client list')
        check(client.command_count() > 200, 'command count')
        check_equal(client.object('encoding', 'a'), 'embstr')
        check(client.flushall(), 'flushall')
        check_equal(client.keys(), [])
    with_cluster(body)


@suite.case('redis-py: errors arrive as its exceptions')
def _(run):
    def body(cluster, address):
        client = cluster.redis()
        client.hset('h', 'f', 'v')
        for words, kind, text in ((['GET', 'h'], redis.ResponseError, 'WRONGTYPE'),
                                  (['NOSUCH'], redis.ResponseError, 'unknown command'),
                                  (['GET'], redis.ResponseError, 'wrong number of arguments'),
                                  (['RENAME', cluster.key_on(0), cluster.key_on(2)], redis.ResponseError, 'no such key')):
            try:
                client.execute_command(*words)
                check(False, '%r raised nothing' % words)
            except kind as error:
                check(text in str(error), '%r: %s' % (words, error))
        check(client.ping(), 'the connection still works')
    with_cluster(body)


@suite.case('redis-py: pipelines, transactions, optimistic locking')
def _(run):
    def body(cluster, address):
        client = cluster.redis()
        pipe = client.pipeline(transaction=False)
        for i in range(5000):
            pipe.set('p:%d' % i, i)
            pipe.get('p:%d' % i)
        replies = pipe.execute()
        check_equal(replies[1::2], [str(i).encode() for i in range(5000)])
        check_equal(client.pipeline().set('{t}a', 1).incr('{t}a').get('{t}b').execute(), [True, 2, None])
        check_equal(client.transaction(lambda p: (p.multi(), p.incr('{t}a')), '{t}a'), [3])
        watcher = client.pipeline()
        watcher.watch('{t}a')
        client.set('{t}a', 'changed')
        watcher.multi()
        watcher.set('{t}a', 'lost')
        try:
            watcher.execute()
            check(False, 'the watched key had changed')
        except redis.WatchError:
            pass
        check_equal(client.get('{t}a'), b'changed')
    with_cluster(body)


@suite.case('redis-py: a pool of threads and big values')
def _(run):
    failures = []

    def work(client, number):
        try:
            for i in range(150):
                text = ('%d:%d:' % (number, i)).encode() * 200
                client.set('thread:%d' % number, text)
                check_equal(client.get('thread:%d' % number), text)
        except Exception as error:  # the case reports it
            failures.append('%s: %s' % (type(error).__name__, error))

    def body(cluster, address):
        client = cluster.redis(max_connections=20)
        threads = [threading.Thread(target=work, args=(client, i)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(not failures, '; '.join(failures[:3]))
        big = os.urandom(20 << 20)
        client.set('big', big)
        check_equal(client.get('big') == big, True, 'a value of 20 MiB')
    with_cluster(body)


@suite.case('redis-py: pub/sub, blocking pops, streams and scripts')
def _(run):
    def body(cluster, address):
        client = cluster.redis(decode_responses=True)
        listener = client.pubsub()
        listener.subscribe('c1', 'c2', 'c3')
        listener.psubscribe('p*')
        confirmed = []
        wait_for(lambda: confirmed.append(listener.get_message(timeout=0.1)) or len([m for m in confirmed if m]) == 4, 'the confirmations')
        check_equal(client.pubsub_numpat(), 1)
        check_equal([client.publish(name, name) for name in ('c1', 'c2', 'c3', 'px', 'none')], [1, 1, 1, 1, 0])
        heard = []
        wait_for(lambda: heard.append(listener.get_message(timeout=0.1)) or len([m for m in heard if m]) == 4, 'messages')
        check_equal(sorted(message['data'] for message in heard if message), ['c1', 'c2', 'c3', 'px'])
        listener.close()

        popped = []
        threads = [threading.Thread(target=lambda key=key: popped.append(cluster.redis().blpop([key], 0)))
                   for key in ('q1', 'q2', 'q3')]
        for thread in threads:
            thread.start()
        wait_for(lambda: client.info('clients')['blocked_clients'] == 3, 'three blocked clients')
        for key in ('q3', 'q2', 'q1'):
            client.rpush(key, key)
        for thread in threads:
            thread.join(patience())
        check_equal(sorted(popped), [(b'q1', b'q1'), (b'q2', b'q2'), (b'q3', b'q3')])

        ids = [client.xadd('stream', {'n': i}) for i in range(10)]
        client.xgroup_create('stream', 'group', '0')
        got = client.xreadgroup('group', 'me', {'stream': '>'}, count=4)
        check_equal([entry[0] for entry in got[0][1]], ids[:4])
        check_equal(client.xack('stream', 'group', *ids[:4]), 4)
        script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        check_equal([script(keys=['n%d' % i], args=[i]) for i in range(20)], list(range(20)))
        check_equal(client.script_flush(), True)
        check_equal(script(keys=['n1'], args=[1]), 2, 'a script the shard has forgotten')
    with_cluster(body)


async def asyncio_session(port):
    client = redis.asyncio.Redis(host='127.0.0.1', port=port, socket_timeout=patience())
    replies = await asyncio.gather(*(client.set('a:%d' % i, i) for i in range(100)))
    check(all(replies), 'SET')
    check_equal(await asyncio.gather(*(client.get('a:%d' % i) for i in range(100))), [b'%d' % i for i in range(100)])
    async with client.pipeline(transaction=True) as pipe:
        check_equal(await pipe.incr('{t}a').incr('{t}a').get('{t}a').execute(), [1, 2, b'2'])
    check_equal({key async for key in client.scan_iter('a:*', count=11)}, {b'a:%d' % i for i in range(100)})
    listener = client.pubsub(ignore_subscribe_messages=True)
    await listener.subscribe('channel')
    while await client.publish('channel', 'x') == 0:
        await asyncio.sleep(0)
    heard = None
    while heard is None:
        heard = await listener.get_message(timeout=1)
    check_equal(heard['data'], b'x')
    await listener.close()
    waiting = asyncio.ensure_future(client.blpop(['queue'], 0))
    while (await client.info('clients'))['blocked_clients'] != 1:
        await asyncio.sleep(0)
    await client.rpush('queue', 'v')
    check_equal(await waiting, (b'queue', b'v'))
    await client.close()


@suite.case('redis-py with asyncio: gathered commands, transactions, scans, pub/sub, blocking')
def _(run):
    limit = patience()
    with_cluster(lambda cluster, address: asyncio.run(asyncio.wait_for(asyncio_session(address[1]), limit)))


# ---- Redis' own tools --------------------------------------------------------------------------------------------

@suite.case('redis-cli in RESP2 and RESP3, interactive input, --scan, --pipe')
def _(run):
    def body(cluster, address):
        cli = ['redis-cli', '-h', address[0], '-p', str(address[1])]
        for option in ([], ['-3'], ['-2']):
            words = cli + option
            check_equal(run_program(words + ['SET', 'k', 'v']).strip(), 'OK')
            check_equal(run_program(words + ['GET', 'k']).strip(), 'v')
            script = b'HSET h f v\nHGETALL h\nMULTI\nINCR n\nEXEC\nNOSUCH\nGET "k"\nPING\n'
            output = run_program(words, script)
            check(output.strip().endswith('PONG') and 'unknown command' in output, output)
            run_program(words + ['DEL', 'n', 'h'])
        run_program(cli + ['--pipe'], b''.join(b'SET pipe:%d %d\r\n' % (i, i) for i in range(10000)))
        check_equal(len(run_program(cli + ['--scan', '--pattern', 'pipe:*']).split()), 10000)
        check('redis_version' in run_program(cli + ['INFO']), 'INFO has no redis_version')
        run_program(cli + ['-u', 'redis://%s:%d/0' % address, 'PING'])
    with_cluster(body)


@suite.case('redis-benchmark runs all its tests')
def _(run):
    def body(cluster, address):
        output = run_program(['redis-benchmark', '-h', address[0], '-p', str(address[1]), '-q', '-n', '500'])
        check(output.count('requests per second') >= 20, output)
        check('rror' not in output.replace('ERROR: failed to fetch CONFIG', ''), output)
        for depth in (1, 16):
            output = run_program(['redis-benchmark', '-h', address[0], '-p', str(address[1]), '-q', '-n', '4000', '-P',
                                  str(depth), '-r', '1000', '-t', 'ping_inline,ping_mbulk,set,get,incr,hset,mset'])
            check(output.count('requests per second') >= 7, output)
            check('rror' not in output.replace('ERROR: failed to fetch CONFIG', ''), output)
    with_cluster(body)


# ---- other languages ---------------------------------------------------------------------------------------------

@suite.case('hiredis, synchronous and asynchronous on libuv')
def _(run):
    flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'hiredis', 'libuv'], capture_output=True)
    check_equal(flags.returncode, 0, 'pkg-config: %s' % flags.stderr.decode().strip())
    with tempfile.TemporaryDirectory(prefix='scree-hiredis-') as folder:
        program = os.path.join(folder, 'hiredis_client')
        run_program(['cc', '-std=gnu11', '-O1', '-Wall', '-o', program, os.path.join(TESTS, 'integration/hiredis_client.c')]
                    + flags.stdout.decode().split())

        def body(address):
            for mode in ('sync', 'async'):
                check_equal(run_program([program, mode, address[0], str(address[1])]).strip(), 'ok', mode)
        with_both(body)


# Debian's libhiredis only has RESP2; the newer one inside redis-cli has RESP3, and --json prints the types it received.
TYPED = [
    (['HSET', 'h', 'f', 'v'], 1),
    (['HGETALL', 'h'], {'f': 'v'}),
    (['ZADD', 'z', '0.5', 'a', '1e300', 'b'], 2),
    (['ZSCORE', 'z', 'a'], 0.5),
    (['ZSCORE', 'z', 'none'], None),
    (['ZRANGE', 'z', '0', '-1', 'WITHSCORES'], [['a', 0.5], ['b', 1e300]]),
    (['ZPOPMAX', 'z'], ['b', 1e300]),
    (['CONFIG', 'GET', 'slowlog-max-len'], {'slowlog-max-len': '128'}),
    (['XADD', 's', '1-1', 'f', 'v'], '1-1'),
    (['XREAD', 'STREAMS', 's', '0'], {'s': [['1-1', ['f', 'v']]]}),
    (['XGROUP', 'CREATE', 's', 'g', '0'], 'OK'),
    (['XINFO', 'GROUPS', 's'], [{'name': 'g', 'consumers': 0, 'pending': 0, 'last-delivered-id': '0-0', 'entries-read': None, 'lag': 1}]),
    (['GEOADD', 'g', '15', '37', 'm'], 1),
    (['GEOSEARCH', 'g', 'FROMMEMBER', 'm', 'BYRADIUS', '1', 'km', 'WITHDIST'], [['m', '0.0000']]),
    (['SADD', 'set', 'a'], 1),
    (['SMEMBERS', 'set'], ['a']),
    (['GET', 'none'], None),
    (['EVAL', 'redis.setresp(3) return {map={a=true, b={double=1.5}}}', '0'], {'a': True, 'b': 1.5}),
    (['JSON.SET', 'j', '$', '{"a":{"n":1},"b":{"n":2.5},"c":{"n":"x"}}'], 'OK'),
    (['JSON.NUMINCRBY', 'j', '$..n', '1'], [2, 3.5, None]),
    (['JSON.NUMMULTBY', 'j', '$.a.n', '2'], [4]),
    (['JSON.TYPE', 'j', '$..n'], [['integer', 'number', 'string']]),
    (['JSON.RESP', 'j', '$.b'], [['{', 'n', 3.5]]),
]


@suite.case('hiredis of redis-cli in RESP3: maps, sets, doubles, nulls, also of JSON and scripts')
def _(run):
    def body(address):
        cli = ['redis-cli', '-h', address[0], '-p', str(address[1]), '-3', '--json']
        for words, want in TYPED:
            check_equal(json.loads(run_program(cli + words)), want, ' '.join(words))
        check(run_program(cli[:-1] + ['INFO', 'server']).startswith('# Server'), 'a verbatim text')
    with_both(body)


def run_node(folder_name):
    """Runs client.js of a folder beside this script against a partition and against a proxy over three."""
    with installed(folder_name) as folder:
        def body(address):
            output = run_program(['node', os.path.join(folder, 'client.js'), address[0], str(address[1])])
            check_equal(output.strip().splitlines()[-1], 'ok')
        with_both(body)


@suite.case('ioredis, RESP2 and RESP3: pipelines, transactions, scans, scripts, streams, pub/sub, blocking, typed replies')
def _(run):
    run_node('ioredis')


@suite.case('node-redis, RESP2 and RESP3: pipelines, transactions, a pool, and typed replies of each group and of JSON')
def _(run):
    run_node('node_redis')


# Commands with tests of their own, and those of Scree; JSON.INFO is one of Kvrocks.
CALLED_ELSEWHERE = re.compile(r'SCREE|SI[A-Z]+|JSON\.(?!INFO)')


def command_names(address):
    with Connection(address, patience()) as connection:
        return {name.decode().upper().replace('|', ' ') for name in value(connection.call('COMMAND', 'LIST'))}


@suite.case('ioredis and node-redis call each command and option that redis-server 7.0 does not have')
def _(run):
    with open(os.path.join(TESTS, 'integration/node/calls.js')) as file:
        calls = file.read()
    with open(os.path.join(ROOT, 'docs/versions.md')) as file:
        options = re.findall(r'\b[A-Z][A-Z0-9-]{2,}', ' '.join(re.findall(r'[A-Z ]+: [^;|]*', file.read())))
    found = set()
    with_both(lambda address: found.update(command_names(address)))
    with Oracle() as oracle:
        found -= command_names(oracle.address)
    parents = {name.split()[0] for name in found if ' ' in name}
    new = [name for name in found - parents if not CALLED_ELSEWHERE.match(name)]
    check(len(new) > 80 and len(options) > 30, 'only %d commands and %d options are new' % (len(new), len(options)))
    check_equal([name for name in new if not re.search(r"\['%s[ ']|\[`%s |\['%s'," % ((re.escape(name),) * 3), calls)], [],
                'commands without a call in node/calls.js')
    check_equal([word for word in options if word not in calls], [], 'options without a call in node/calls.js')


@suite.case('BullMQ: jobs at once, delayed, ranked and retried, events, flows and schedulers')
def _(run):
    run_node('bullmq')


@suite.case('Bull with keys on all shards: jobs, retries, delays, repetition, pauses, priorities, 300 jobs cleaned, counts')
def _(run):
    run_node('bull')


@suite.case('bee-queue with keys on all shards: jobs, retries, delays, progress, jobs of a worker that is gone')
def _(run):
    run_node('bee_queue')


@suite.case("two socket.io servers joined by its adapters, plain and sharded: rooms, broadcasts, answers, each other's sockets")
def _(run):
    run_node('socket_io')


# ---- start-up requests of other clients ------------------------------------------------------------------------------

START_UPS = {
    'Jedis': [['HELLO', '3', 'SETNAME', 'jedis'], ['CLIENT', 'SETINFO', 'LIB-NAME', 'jedis'],
              ['CLIENT', 'SETINFO', 'LIB-VER', '5.1.0'], ['SELECT', '0'], ['PING'], ['INFO', 'server']],
    'Lettuce': [['HELLO', '3'], ['CLIENT', 'SETNAME', 'lettuce'], ['CLIENT', 'SETINFO', 'lib-name', 'Lettuce'],
                ['CLIENT', 'SETINFO', 'lib-ver', '6.3.0'], ['PING'], ['SELECT', '1'], ['COMMAND', 'INFO', 'get']],
    'go-redis': [['HELLO', '3'], ['CLIENT', 'SETINFO', 'LIB-NAME', 'go-redis(,go1.22)'],
                 ['CLIENT', 'MAINT_NOTIFICATIONS', 'ON'], ['PING']],
    'StackExchange.Redis': [['CLIENT', 'SETNAME', 'host'], ['CLIENT', 'ID'], ['CONFIG', 'GET', 'databases'],
                            ['CONFIG', 'GET', 'timeout'], ['INFO', 'replication'], ['INFO', 'server'],
                            ['GET', '__Booksleeve_TieBreak'], ['ECHO', b'\x00\xff\r\n'],
                            ['SUBSCRIBE', '__Booksleeve_MasterChanged'], ['PING']],
    'phpredis': [['AUTH', 'nothing'], ['SELECT', '0'], ['PING'], ['CLIENT', 'GETNAME']],
    'redis-py with a cache': [['HELLO', '3'], ['CLIENT', 'SETINFO', 'LIB-NAME', 'redis-py'], ['CLIENT', 'SETINFO', 'LIB-VER', '6.4.0'],
                              ['CLIENT', 'TRACKING', 'ON'], ['GET', 'cached'], ['CLIENT', 'TRACKING', 'OFF']],
    'redis-rb': [['HELLO', '3'], ['CLIENT', 'SETINFO', 'LIB-NAME', 'redis-client'], ['CLIENT', 'REPLY', 'ON'],
                 ['PING']],
}


@suite.case('start-up requests of other clients, whole and byte by byte: as many replies of the same kinds as redis-server sends')
def _(run):
    def kinds(address, commands, is_slow):
        with Connection(address, patience()) as connection:
            if is_slow:
                for words in commands:
                    for byte in encode(words):
                        connection.send_raw(bytes([byte]))
            else:
                connection.send_many(commands)
            replies = [connection.read() for _ in commands]
            check_equal(connection.reader.rest(), b'', 'bytes behind the last reply')
            return [(words[0], reply[0]) for words, reply in zip(commands, replies) if words[1:2] != ['SETINFO']]

    with Oracle() as oracle:
        def body(cluster, address):
            for name, commands in START_UPS.items():
                want = kinds(oracle.address, commands, False)
                for is_slow in (False, True):
                    check_equal(kinds(address, commands, is_slow), want, name)
        with_cluster(body)


if __name__ == '__main__':
    suite.main()
