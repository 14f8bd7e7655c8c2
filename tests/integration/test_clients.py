#!/usr/bin/python3
"""Ordinary clients work unchanged: redis-py, redis-cli, redis-benchmark, hiredis (sync, async on libuv), ioredis."""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

import redis

from cluster import Cluster
from harness import Skip, Suite, check, check_equal

suite = Suite(__doc__)


def with_cluster(body):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        body(cluster, cluster.proxies[0].address)


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
                                  (['RENAME', '{a}', '{b}'], redis.ResponseError, 'CROSSSLOT')):
            if words[0] == 'RENAME':
                words = ['RENAME', cluster.key_on(0), cluster.key_on(3)]
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
    import threading
    failures = []

    def work(client, number):
        try:
            for i in range(150):
                text = ('%d:%d:' % (number, i)).encode() * 200
                client.set('thread:%d' % number, text)
                check_equal(client.get('thread:%d' % number), text)
        except Exception as error:  # reported by the case, not by the thread
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


@suite.case('redis-benchmark runs its tests of strings and hashes')
def _(run):
    def body(cluster, address):
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
    if flags.returncode != 0:
        raise Skip('pkg-config does not know hiredis and libuv: ' + flags.stderr.decode().strip())
    with tempfile.TemporaryDirectory(prefix='scree-hiredis-') as folder:
        program = os.path.join(folder, 'hiredis_client')
        run_program(['cc', '-std=gnu11', '-O1', '-Wall', '-o', program, os.path.join(HERE, 'hiredis_client.c')]
                    + flags.stdout.decode().split())

        def body(cluster, address):
            for mode in ('sync', 'async'):
                check_equal(run_program([program, mode, address[0], str(address[1])]).strip(), 'ok', mode)
        with_cluster(body)


@suite.case('ioredis')
def _(run):
    if not shutil.which('node') or not shutil.which('npm'):
        raise Skip('node or npm is not installed')
    with tempfile.TemporaryDirectory(prefix='scree-ioredis-') as folder:
        for name in ('package.json', 'package-lock.json', 'client.js'):
            shutil.copy(os.path.join(HERE, 'ioredis', name), folder)
        done = subprocess.run(['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts'], cwd=folder,
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise Skip('npm could not fetch ioredis: ' + done.stderr.decode('utf-8', 'replace')[-300:])

        def body(cluster, address):
            output = run_program(['node', os.path.join(folder, 'client.js'), address[0], str(address[1])])
            check_equal(output.strip().splitlines()[-1], 'ok')
        with_cluster(body)


if __name__ == '__main__':
    suite.main()
