#!/usr/bin/python3
"""Backups: of one partition and of the whole cluster, incremental, kept, deleted, cancelled, restored, verified."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'pylib'))

from cluster import Cluster
from harness import Suite, check, check_equal, wait_for
from resp import Connection

suite = Suite(__doc__)
KEYS = 3000


# ---- making them ----

def status(client):
    reply = client.get('SCREE', 'BACKUP', 'STATUS')
    return {name.decode(): value.decode() if isinstance(value, bytes) else value
            for name, value in zip(reply[::2], reply[1::2])}


def is_idle(client):
    return status(client)['state'] == 'idle'


def backup(client, name, *more):
    """Makes one and waits for it."""
    reply = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, *more)
    check(reply[0] != '-', 'START: %r' % (reply,))
    wait_for(lambda: is_idle(client), 'backup %s to end' % name, 30)
    last = status(client)
    check_equal((last['last-backup'], last['last-status'], last['last-error']), (name, 'ok', ''), 'backup')
    return last


def listed(client):
    return [dict(zip(item[::2], item[1::2])) for item in client.get('SCREE', 'BACKUP', 'LIST')]


def names(client):
    return [item[b'backup'].decode() for item in listed(client)]


def files_of(folder):
    """{name: inode} of the data files."""
    return {name: os.stat(os.path.join(folder, name)).st_ino for name in os.listdir(folder)
            if name.endswith(('.sst', '.blob'))}


@suite.case('a backup of one partition shares unchanged files with the one before; FULL copies all; KEEP deletes older ones')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = Connection(cluster.backends[0].addresses[0], 30)
        shelf = os.path.join(cluster.backends[0].data, 'backups')
        client.pipeline([['SET', 'key:%d' % i, 'x' * 50] for i in range(KEYS)])
        for name in ('one', 'two'):
            backup(client, name)
        first, second = (files_of(os.path.join(shelf, name, 'partition-0')) for name in ('one', 'two'))
        check(first and first == second, 'the same inodes: %r, %r' % (first, second))
        client.pipeline([['SET', 'more:%d' % i, 'x' * 50] for i in range(KEYS)])
        backup(client, 'three')
        third = files_of(os.path.join(shelf, 'three', 'partition-0'))
        check(set(third.items()) & set(first.items()), 'old files are shared')
        check(set(third) - set(first), 'new files are there')
        backup(client, 'four', 'FULL', 'KEEP', '2')
        check_equal(names(client), ['three', 'four'], 'two remain')
        fourth = files_of(os.path.join(shelf, 'four', 'partition-0'))
        check(fourth and not set(fourth.items()) & set(third.items()), 'none is shared')
        with open(os.path.join(shelf, 'four', 'partition-0', 'MANIFEST.json')) as file:
            manifest = json.load(file)
        check_equal({item['name'] for item in manifest['files']} | {'MANIFEST.json', 'MANIFEST.sha256'},
                    set(os.listdir(os.path.join(shelf, 'four', 'partition-0'))), 'the manifest names every file')
        check_equal(client.call('SCREE', 'BACKUP', 'DELETE', 'three'), ('+', b'OK'), 'DELETE')
        wait_for(lambda: os.listdir(shelf) == ['four'], 'the deleted one to go')
        check_equal(client.call('SCREE', 'BACKUP', 'DELETE', 'three')[0], '-', 'DELETE of what is not there')
        for bad in ('../x', '.x', 'a/b', '', 'x' * 65):
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', bad or ' ')[0], '-', 'name %r' % bad)


@suite.case('a backup of the cluster is one on all shards; two proxies do not lead at once; KEEP counts complete ones')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2) as cluster:
        client, other = cluster.connect(0), cluster.connect(1)
        client.pipeline([['SET', 'key:%d' % i, 'x' * 50] for i in range(KEYS)])
        for name in ('one', 'two', 'three'):
            started = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'KEEP', '2')
            check_equal(started, ('$', name.encode()), 'START')
            refused = other.call('SCREE', 'BACKUP', 'START', 'NAME', 'x' + name)
            check(refused[0] == '-' and b'in progress' in refused[1] or refused[0] == '$', 'a second: %r' % (refused,))
            wait_for(lambda: is_idle(client) and is_idle(other), 'backups to end', 30)
            check_equal(status(client)['last-status'], 'ok', 'the first: %r' % status(client))
        found = [name for name in names(client) if not name.startswith('x')]
        check_equal(found[-2:], ['two', 'three'], 'the newest remain')
        check('one' not in found, 'the oldest is gone')
        check_equal({item[b'complete'] for item in listed(other)}, {b'yes'}, 'all are complete')
        ids = set()
        for backend in cluster.backends:
            for shard in os.listdir(os.path.join(backend.data, 'backups', 'three')):
                with open(os.path.join(backend.data, 'backups', 'three', shard, 'MANIFEST.json')) as file:
                    manifest = json.load(file)
                ids.add(manifest['id'])
                check('[shard %s]' % shard in manifest['map'], 'the map names %s' % shard)
        check_equal(len(ids), 1, 'ids')


if __name__ == '__main__':
    suite.main()
