#!/usr/bin/python3
"""Data of an older program. Format 1 had its latest writes in RocksDB's own log, which ldb (rocksdb-tools) can write. Before format 5,
rank trees might have wrong counts. Before format 6, batches of the log had no time."""

import base64
import glob
import os
import subprocess
import zlib

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for

suite = Suite(__doc__)

FORMAT_ROW, HEADER_ROW, RANKS_ROW, METADATA = '0x76', '0x68', '0x72', 'metadata'
FORMAT = 6

# The log of a backend of data format 5 after SET before 1, HSET hash field value, RPUSH list a b c, SET timed x PXAT 4102444800000, LPOP list,
# DEL before, SET last 2, and kill -9.
LOG_OF_FORMAT_5 = zlib.decompress(base64.b64decode(
    'eNorTi5KTVVISixJzkgtVjDismdgYNgVxty1YOXSJEYGVMAIFACJYYgzYAcNDP//M5ZxQHmsLUBCJy3VZMGa43uZ0LSCjGYG0kxoRsD4GipvFBch2dPI'
    '8MuUk8H0V1JqWn5RKlcjTNwQZCdTFiM/wnxG018gMkMB02jGRYpvVDRgAhuBWGnyuTpTp7/fmdHsB7mPhQHiRmQA42vC3MfBkiW8hMu4ieEdgwQDkABq'
    'y0gszjDmWiKcxcLBkJaZmpPCWpaYU5rKyA6UB8lJNsFMg6mCWQrxDBM/kosZ3mH1DDPUM5owI/4BBU80Vfx+MbFCkAXNsSDPsDFAPIQMYHxtmGc0PKCe'
    'YTaQZjAAaWfJySwuAdvhocFQ/x8CGBOZsEk3wKxLwifNyJgMDAkDZpCUZjNKSHjAo4YZZhVUExMkZJj5kbxvwIw1ZFigIaMNM3I6UPAGY9zpXqGva1jR'
    'fA6LZlY0Q1hxhEwjwyN7Dgb7RyWZuakpoFTIvFvn8A2GCjYBGBMmyQiNTBZ+JHfZPwJaiOlkVnQnrwIK6jHOj69QWmjLhuYkWM5hQzMExtdHc/IkQpFJ'
    'MDKYGuD5GxEZmL5gg/pCH6a9EigowJRR6v/260d2NFfCfMGOZgiMb4zmi4ko+R8StKz8SOFn+osBW2pghzrKGOYoUN5z2PwoLO3OgQkcaJbCHMWBZgiM'
    'b46RGhZJsjNILspJLC5BFElGENex8SOFi+QirGmVA+o6c5jrAIoG3bQ='))


def ldb(folder, *words, column_family='default'):
    done = subprocess.run(['ldb', '--db=' + folder, '--column_family=' + column_family, '--hex'] + list(words),
                          capture_output=True, text=True, check=False)
    check_equal(done.returncode, 0, 'ldb: ' + done.stderr)
    return done.stdout.strip()


def compact(client):
    client.get('SCREE', 'COMPACT', 'START')
    wait_for(lambda: b'compaction_state:idle' in client.get('INFO', 'persistence'), 'compaction to end')


@suite.case("a store of format 1 opens, has the writes of RocksDB's own log, and has the present format from then on")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            slot = client.get('CLUSTER', 'KEYSLOT', 'inlog')
            client.get('SET', 'inlog', 'old')
            client.get('SET', 'infile', 'old')
            client.get('HSET', 'hash', 'field', 'value')
            compact(client)
        backend.stop()
        folder = os.path.join(backend.data, 'partition-0')
        key = '0x00%04X%s' % (slot, b'inlog'.hex())
        row = ldb(folder, 'get', key, column_family=METADATA)
        check(row.endswith(b'old'.hex().upper()), 'a row with the value: ' + row)
        for path in glob.glob(folder + '/*.batches'):
            os.remove(path)
        ldb(folder, 'put', FORMAT_ROW, '0x%016x' % 1)
        ldb(folder, 'put', key, row[:-6] + b'new'.hex(), column_family=METADATA)
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('MGET', 'inlog', 'infile'), [b'new', b'old'], 'what log and files held')
            check_equal(client.get('HGETALL', 'hash'), [b'field', b'value'], 'a hash')
            check_equal(client.get('SET', 'later', '1'), b'OK', 'a write')
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('MGET', 'inlog', 'infile', 'later'), [b'new', b'old', b'1'], 'after kill -9')
        backend.stop()
        check_equal(int(ldb(folder, 'get', FORMAT_ROW), 16), FORMAT, 'the format')


def empty_store(cluster, log):
    """Leaves the backend's store without rows, as a program of data format 5 would begin it, and with this log."""
    backend = cluster.backends[0]
    backend.stop()
    folder = os.path.join(backend.data, 'partition-0')
    for path in glob.glob(folder + '/*.batches'):
        os.remove(path)
    for row in [line.split(' : ')[0] for line in ldb(folder, 'scan').split('\n') if ' : ' in line]:
        ldb(folder, 'delete', row)
    ldb(folder, 'put', FORMAT_ROW, '0x%016x' % 5)
    with open(os.path.join(folder, '%020d.batches' % 1), 'wb') as file:
        file.write(log)
    return folder


def log_lines(backend):
    done = subprocess.run([backend.argv[0], '--dump-log', backend.data], capture_output=True, text=True, check=True)
    return [line.split(' ') for line in done.stdout.splitlines() if ' batch ' in line]


@suite.case('the log of a backend of data format 5 is read after kill -9, and later batches have times')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        folder = empty_store(cluster, LOG_OF_FORMAT_5)
        check_equal([line[9] for line in log_lines(backend)], ['0'] * 8, 'times of old batches')
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('MGET', 'before', 'last', 'timed'), [None, b'2', b'x'], 'strings')
            check_equal(client.get('HGETALL', 'hash'), [b'field', b'value'], 'a hash')
            check_equal(client.get('LRANGE', 'list', 0, -1), [b'b', b'c'], 'a list')
            check_equal(client.get('PEXPIRETIME', 'timed'), 4102444800000, 'a TTL')
            check_equal(client.get('DBSIZE'), 4, 'the number of keys')
            for number in range(3):
                client.get('SET', 'new', number)
            now_us = int(client.get('TIME')[0]) * 1000000
        backend.kill9()
        times = [int(line[9]) for line in log_lines(backend) if int(line[0]) > 9]
        check(len(times) >= 3 and times == sorted(set(times)), 'times that grow: %r' % times)
        check(abs(times[-1] - now_us) < 60 * 1000000, 'a time of day: %r' % times)
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('MGET', 'last', 'new'), [b'2', b'2'], 'after kill -9')
        backend.stop()
        check_equal(int(ldb(folder, 'get', FORMAT_ROW), 16), FORMAT, 'the format')


@suite.case('the time of batches does not go back when the clock does while the backend is down')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.get('SET', 'key', 0)
            compact(client)
        backend.stop()
        folder = os.path.join(backend.data, 'partition-0')
        for path in glob.glob(folder + '/*.batches'):
            os.remove(path)
        later_us = 4102444800000000  # the year 2100
        header = ldb(folder, 'get', HEADER_ROW)
        ldb(folder, 'put', HEADER_ROW, header[:-16] + '%016x' % later_us)
        backend.start()
        with cluster.partition(0) as client:
            client.get('SET', 'key', 1)
            client.get('SET', 'key', 2)
        backend.kill9()
        times = [int(line[9]) for line in log_lines(backend) if int(line[9])]
        check_equal(times, list(range(later_us + 1, later_us + 1 + len(times))), 'times after the newest before')


def log_id(backend, cluster):
    with cluster.partition(0) as client:
        return client.get('INFO', 'persistence').decode().split('log_id:')[1].split('\r')[0]


@suite.case('a log keeps its name over restarts, and gets another one after it was damaged')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        first = log_id(backend, cluster)
        check(len(first) == 16 and int(first, 16), 'a name: ' + first)
        with cluster.partition(0) as client:
            for number in range(20):
                client.get('SET', 'key:%d' % number, number)
        backend.kill9()
        backend.start()
        check_equal(log_id(backend, cluster), first, 'after kill -9')
        backend.stop()
        backend.start()
        check_equal(log_id(backend, cluster), first, 'after a stop')
        with cluster.partition(0) as client:
            for number in range(20):
                client.get('SET', 'key:%d' % number, number)
        backend.kill9()
        path = max(glob.glob(os.path.join(backend.data, 'partition-0', '*.batches')))
        with open(path, 'r+b') as file:
            file.seek(1000)  # in the middle of a record
            file.write(b'damage')
        backend.start()
        check(b' wal_damaged ' in backend.log(), 'the damage is logged')
        second = log_id(backend, cluster)
        check(second != first, 'a new name after damage')
        backend.kill9()
        backend.start()
        check_equal(log_id(backend, cluster), second, 'the new name stays')


@suite.case('a store of a newer data format is refused with the reason')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        backend.stop()
        ldb(os.path.join(backend.data, 'partition-0'), 'put', FORMAT_ROW, '0x%016x' % (FORMAT + 1))
        done = subprocess.run(backend.argv, capture_output=True, text=True, check=False)
        check(done.returncode != 0, 'the backend ends')
        check("data format %d is newer than this program's %d" % (FORMAT + 1, FORMAT) in done.stdout + done.stderr, done.stdout + done.stderr)


MEMBERS = 20000  # more than a tick counts


def older_trees(folder, keys):
    """Makes the rank trees of these keys those of an older program: roots without a format, and leaves with wrong counts."""
    for path in glob.glob(folder + '/*.batches'):
        os.remove(path)
    ldb(folder, 'put', FORMAT_ROW, '0x%016x' % 4)
    ldb(folder, 'delete', RANKS_ROW)  # the present program may have written it already
    leaves = dict.fromkeys(keys, 0)
    for line in ldb(folder, 'scan', column_family='rank').split('\n'):
        row, value = line.split(' : ') if ' : ' in line else (None, None)
        name = next((key for key in keys if row and key.encode().hex().upper() in row), None)
        if not name:
            continue
        sub = row[2 + 2 * (1 + 2 + 4 + len(name) + 8):]
        if sub == '00':
            ldb(folder, 'put', row, value[:-2], column_family='rank')
        elif sub.startswith('01') and leaves[name] in (0, 3, 9):
            ldb(folder, 'put', row, '0x1100', column_family='rank')
        leaves[name] += sub.startswith('01')


def rank_figures(client):
    lines = client.get('INFO', 'persistence').decode().split('\r\n')
    return {line.split(':')[0]: line.split(':')[1] for line in lines if line.startswith('rank_trees_')}


def check_ranks(client, smaller=0):
    for at in (0, 500, 5000, MEMBERS - 1):
        check_equal(client.get('ZRANK', 'ranked', 'm%05d' % at), at + smaller, 'ZRANK')
        check_equal(client.get('ZRANGE', 'ranked', at + smaller, at + smaller), [b'm%05d' % at], 'ZRANGE')
        check_equal(client.get('SIRANGE', 'ints', at, 1), [b'%d' % (7 * at)], 'SIRANGE')


@suite.case('rank trees of an older program are not used, and are replaced without a word from anybody, also over kill -9')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            for first in range(0, MEMBERS, 1000):
                part = range(first, first + 1000)
                client.get('ZADD', 'ranked', *[word for n in part for word in (n, 'm%05d' % n)])
                client.get('SIADD', 'ints', *[7 * n for n in part])
            client.get('SADD', 'plain', *range(300))
            compact(client)
        folder = os.path.join(backend.data, 'partition-0')
        backend.stop()
        older_trees(folder, ['ranked', 'ints'])
        done = subprocess.run([backend.argv[0], '--check-data', backend.data], capture_output=True, text=True, check=False)
        check_equal(done.stdout.count('rank tree are wrong'), 2, done.stdout)
        backend.start()
        with cluster.partition(0) as client:
            check_ranks(client)
            client.get('ZADD', 'ranked', -5, 'smaller', 700.5, 'between')
            check_equal(client.get('ZRANK', 'ranked', 'm00500'), 501, 'after a change')
            check_equal(client.get('ZRANK', 'ranked', 'm00900'), 902, 'after a change')
            client.get('ZREM', 'ranked', 'between')
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            wait_for(lambda: rank_figures(client)['rank_trees_check'] == 'done', 'the trees to be replaced')
            check_ranks(client, smaller=1)
            client.get('ZADD', 'ranked', -6, 'smallest')
            check_ranks(client, smaller=2)
            wait_for(lambda: all(event in backend.log() for event in (b' ranks_checking ', b' ranks_checked ')), 'lines of the log')
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            check_ranks(client, smaller=2)
            figures = rank_figures(client)
            check_equal((figures['rank_trees_check'], figures['rank_trees_rebuilt']), ('done', '0'), 'nothing is left to do')
        backend.stop()
        done = subprocess.run([backend.argv[0], '--check-data', backend.data], capture_output=True, text=True, check=False)
        check_equal((done.returncode, done.stdout.count('wrong')), (0, 0), done.stdout)


suite.main()
