#!/usr/bin/python3
"""Data of an older program. Format 1 had its latest writes in RocksDB's own log, which ldb (rocksdb-tools) can write."""

import glob
import os
import subprocess

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for

suite = Suite(__doc__)

FORMAT_ROW, METADATA = '0x76', 'metadata'


def ldb(folder, *words, column_family='default'):
    done = subprocess.run(['ldb', '--db=' + folder, '--column_family=' + column_family, '--hex'] + list(words),
                          capture_output=True, text=True, check=False)
    check_equal(done.returncode, 0, 'ldb: ' + done.stderr)
    return done.stdout.strip()


def compact(client):
    client.get('SCREE', 'COMPACT', 'START')
    wait_for(lambda: b'compaction_state:idle' in client.get('INFO', 'persistence'), 'compaction to end')


@suite.case("a store of format 1 opens, has the writes of RocksDB's own log, and has format 4 from then on")
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
        check_equal(int(ldb(folder, 'get', FORMAT_ROW), 16), 4, 'the format')


suite.main()
