#!/usr/bin/python3
"""Backups of one partition and of the whole cluster: incremental, kept, deleted, cancelled, restored, verified."""

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from support.cluster import Cluster, binary, even_slots, metric, scan_all, slot_of, with_option, write_ini
from support.copies import UNHURRIED, Voters
from support.damage import damage_anything
from support.harness import PATIENCE, Failure, Suite, check, check_equal, patience, sized, wait_for
from support.moves import Direct, dumps, wait_settled
from support.moves import fill as fill_types
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)
KEYS = 3000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# ---- making backups ----

def status(client):
    reply = client.get('SCREE', 'BACKUP', 'STATUS')
    return {name.decode(): value.decode() if isinstance(value, bytes) else value
            for name, value in zip(reply[::2], reply[1::2])}


def is_idle(client):
    return status(client)['state'] == 'idle'


# of backups that a proxy starts and that must succeed: by default a shard that is slower than 3 s fails a backup
LEASE = ('LEASE', '15000')


def backup(client, name, *more):
    """Starts a backup and waits until it is complete."""
    reply = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, *more)
    check(reply[0] != '-', 'START: %r' % (reply,))
    wait_for(lambda: is_idle(client), 'backup %s to end' % name)
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


@suite.case('a backup of one partition shares unchanged files with the previous one; FULL copies all; KEEP deletes older ones')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': {'write-buffer': '4kb'}}) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        catalog = os.path.join(cluster.backends[0].data, 'backups')
        client.pipeline([['SET', 'key:%d' % i, 'x' * 50] for i in range(KEYS)])
        for name in ('one', 'two'):
            backup(client, name)
        first, second = (files_of(os.path.join(catalog, name, 'partition-0')) for name in ('one', 'two'))
        check(first and first == second, 'the same inodes: %r, %r' % (first, second))
        client.pipeline([['SET', 'more:%d' % i, 'x' * 50] for i in range(KEYS)])
        backup(client, 'three')
        third = files_of(os.path.join(catalog, 'three', 'partition-0'))
        check(set(third.items()) & set(first.items()), 'old files are shared')
        check(set(third) - set(first), 'new files are there')
        backup(client, 'four', 'FULL', 'KEEP', '2')
        check_equal(names(client), ['three', 'four'], 'two remain')
        fourth = files_of(os.path.join(catalog, 'four', 'partition-0'))
        check(fourth and not set(fourth.items()) & set(third.items()), 'none is shared')
        with open(os.path.join(catalog, 'four', 'partition-0', 'MANIFEST.json')) as file:
            manifest = json.load(file)
        check_equal({item['name'] for item in manifest['files']} | {'MANIFEST.json', 'MANIFEST.sha256'},
                    set(os.listdir(os.path.join(catalog, 'four', 'partition-0'))), 'the manifest names every file')
        check_equal(client.call('SCREE', 'BACKUP', 'DELETE', 'three'), ('+', b'OK'), 'DELETE')
        wait_for(lambda: os.listdir(catalog) == ['four'], 'the deleted one to go')
        check(client.call('SCREE', 'BACKUP', 'DELETE', 'three')[1].startswith(b'NOBACKUP '), 'DELETE of what is not there')
        for bad in ('../x', '.x', 'a/b', '', 'x' * 65):
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', bad or ' ')[0], '-', 'name %r' % bad)


def last_batch(folder):
    """Index of the newest batch in the log of a backup; None: it has none."""
    done = subprocess.run([binary('scree-backend'), '--dump-log', folder], capture_output=True, timeout=patience(), check=True)
    return max((int(line.split()[0]) for line in done.stdout.splitlines() if line[:1].isdigit()), default=None)


@suite.case('a backup under writes has the batch that its manifest names as the last one')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, cluster.partition(0) as client:
        is_over, compared = threading.Event(), 0

        def write():
            with cluster.partition(0) as writer:
                while not is_over.is_set():
                    check_equal(writer.get('SET', 'k', 'v'), b'OK')
        writers = [threading.Thread(target=write) for _ in range(3)]
        for writer in writers:
            writer.start()
        try:
            for number in range(sized(8, long=100)):
                backup(client, 'b%d' % number)
                folder = os.path.join(cluster.backends[0].data, 'backups', 'b%d' % number)
                with open(os.path.join(folder, 'partition-0', 'MANIFEST.json'), encoding='utf-8') as file:
                    named, last = json.load(file)['batch_index'], last_batch(folder)
                check(last is None or last >= named, 'the manifest names batch %d, the log ends with %s' % (named, last))
                compared += last is not None
        finally:
            is_over.set()
            for writer in writers:
                writer.join()
        check(compared, 'no backup has a log')


@suite.case('a backup of the cluster covers all shards; only one proxy leads at a time; KEEP counts complete backups')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2) as cluster:
        client, other = cluster.connect(0), cluster.connect(1)
        client.pipeline([['SET', 'key:%d' % i, 'x' * 50] for i in range(KEYS)])
        for name in ('one', 'two', 'three'):
            started = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'KEEP', '2', *LEASE)
            check_equal(started, ('$', name.encode()), 'START')
            second = other.call('SCREE', 'BACKUP', 'START', 'NAME', 'x' + name, *LEASE)
            wait_for(lambda: is_idle(client) and is_idle(other), 'backups to end')
            check_equal([item[b'complete'] for item in listed(client) if item[b'backup'] == name.encode()], [b'yes'], 'the first')
            if second[0] == '$':  # the first had ended before
                check_equal(other.call('SCREE', 'BACKUP', 'DELETE', 'x' + name), ('+', b'OK'), 'DELETE')
            else:
                check(b'in progress' in second[1], 'a second: %r' % (second,))
        check_equal(names(client), ['two', 'three'], 'the newest remain')
        check_equal({item[b'complete'] for item in listed(other)}, {b'yes'}, 'all are complete')
        ids = set()
        for backend in cluster.backends:
            for shard in os.listdir(os.path.join(backend.data, 'backups', 'three')):
                with open(os.path.join(backend.data, 'backups', 'three', shard, 'MANIFEST.json')) as file:
                    manifest = json.load(file)
                ids.add(manifest['id'])
                check('[shard %s]' % shard in manifest['map'], 'the map names %s' % shard)
        check_equal(len(ids), 1, 'ids')


# ---- restoring ----

class BackupCatalog:
    """A directory for backups, shared by several clusters."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-backups-')
        self.options = {'backend': {'backup-dir': self.path}}
        return self

    def __exit__(self, *ignored):
        shutil.rmtree(self.path, ignore_errors=True)

    def of(self, name):
        return os.path.join(self.path, name)


def tool(*arguments):
    done = subprocess.run([binary('scree-backend')] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=5 * patience(), check=False)
    return done.returncode, done.stdout.decode('utf-8', 'replace')


def restore_arguments(backend, path, shards):
    """Arguments that restore one backend of a cluster that is not started yet; `shards`: names in its map."""
    arguments = ['--config', backend.config_path, '--restore', path]
    return arguments + (['--map', backend.cluster.shards_path, '--shard', ','.join(shards)] if shards else [])


def restored(path, backends, partitions, **options):
    """A cluster of this shape with the data of a backup, as a context manager."""
    cluster = Cluster(backends=backends, partitions=partitions, proxies=1, **options)
    cluster.write_shards(even_slots(backends * partitions))
    for backend in cluster.backends:
        backend.write_config()
        shards = ['b%dp%d' % (backend.index, i) for i in range(partitions)]
        code, text = tool(*restore_arguments(backend, path, shards))
        check(code == 0, 'restore: %s' % text)
    return cluster


def cluster_map(folder):
    """A map in which one shard has all slots."""
    path = os.path.join(folder, '..', 'map-%d.ini' % os.getpid())
    with open(path, 'w') as file:
        file.write('[map]\nepoch = 1\n[shard a]\nslots = 0-16383\naddress = 127.0.0.1:7401\n')
    return path


def fill(client):
    """Keys of every type, some with TTLs, spread over all shards."""
    for i in range(24):
        client.pipeline([
            ['SET', 'string:%d' % i, 'value %d' % i],
            ['SET', 'ttl:%d' % i, 'x', 'PX', str(10 ** 8 + i)],
            ['SETBIT', 'bits:%d' % i, str(100000 + i), '1'],
            ['PFADD', 'hll:%d' % i] + ['e%d' % n for n in range(i * 20 + 1)],
            ['HSET', 'hash:%d' % i] + [word for n in range(i + 1) for word in ('f%d' % n, 'v%d' % n)],
            ['RPUSH', 'list:%d' % i] + ['e%d' % n for n in range(i + 1)],
            ['LPUSH', 'list:%d' % i, 'head'],
            ['SADD', 'set:%d' % i] + ['m%d' % n for n in range(i * 9 + 1)],
            ['ZADD', 'zset:%d' % i] + [word for n in range(i * 9 + 1) for word in (str(n * 1.5), 'm%d' % n)],
            ['GEOADD', 'geo:%d' % i, '13.3', '38.1', 'here'],
            ['JSON.SET', 'json:%d' % i, '$', '{"a":[%d,{"b":null}]}' % i],
            ['XADD', 'stream:%d' % i, '1-1', 'f', 'v'],
            ['XADD', 'stream:%d' % i, '2-%d' % i, 'f', 'w', 'g', 'x'],
            ['XGROUP', 'CREATE', 'stream:%d' % i, 'group', '0'],
            ['XREADGROUP', 'GROUP', 'group', 'consumer', 'COUNT', '1', 'STREAMS', 'stream:%d' % i, '>'],
            ['PEXPIRE', 'hash:%d' % i, str(10 ** 9 + i)] if i % 2 else ['PING'],
            ['DEL', 'set:%d' % i] if i % 7 == 0 else ['PING'],
        ])


def snapshot(client):
    """{key: (DUMP, expiry time)} of the client's namespace and database, and its counters."""
    found = {}
    for key in sorted(scan_all(client, 'COUNT', '500')):
        found[key] = (client.get('DUMP', key), client.get('PEXPIRETIME', key))
    check_equal(client.get('DBSIZE'), len(found), 'DBSIZE')
    return found


def same(before, after, what):
    check_equal(sorted(after), sorted(before), '%s: keys' % what)
    for key, value in before.items():
        check(after[key] == value, '%s: %r differs: %r, %r' % (what, key, after[key], value))


NAMESPACES = {'shop': {'token': 'shop'}, 'mail': {'token': 'mail'}}


def clients_of(cluster):
    """Clients by the namespace and database that they see."""
    clients = {}
    for name, login, db in (('default', None, 0), ('default 3', None, 3), ('shop', 'shop', 0), ('mail 2', 'mail', 2)):
        clients[name] = cluster.connect()
        if login:
            check_equal(clients[name].call('AUTH', login, login), ('+', b'OK'), 'AUTH')
        else:
            check(clients[name].call('AUTH', 'default', 'main')[0] == '+', 'AUTH')
        check(clients[name].call('SELECT', str(db))[0] == '+', 'SELECT')
    return clients


@suite.case('START WAIT replies when the backup has ended, with an error if it failed; every proxy knows the result, also after restarts')
def _(run):
    with BackupCatalog() as catalog, Cluster(2, 1, 2, backend_options=catalog.options) as cluster:
        client, other = cluster.connect(0), cluster.connect(1)
        client.pipeline([['SET', 'key:%d' % i, 'x' * 50] for i in range(KEYS)])
        check_equal(other.get('SCREE', 'BACKUP', 'STATUS')[17], b'', 'no backup yet')
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'one', 'WAIT', *LEASE), ('$', b'one'))
        check_equal([item[b'complete'] for item in listed(other)], [b'yes'], 'complete when the reply comes')
        check_equal((status(other)['last-backup'], status(other)['last-status']), ('one', 'ok'), 'the other proxy')

        # a file in the way of a shard's directory
        os.mkdir(os.path.join(catalog.path, 'two'))
        with open(os.path.join(catalog.path, 'two', 'b1p0'), 'w'):
            pass
        kind, text = client.call('SCREE', 'BACKUP', 'START', 'NAME', 'two', 'WAIT', *LEASE)
        check(kind == '-' and text.startswith(b"ERR the backup two failed: shard 'b1p0': "), 'WAIT: %r' % text)
        for process in cluster.backends + cluster.proxies:  # a proxy is ready when it has reached all shards
            process.stop()
            process.start()
        for proxy in (0, 1):
            with cluster.connect(proxy) as client:
                last = status(client)
                check_equal((last['last-backup'], last['last-status']), ('two', 'err'), 'proxy %d' % proxy)
                check("shard 'b1p0': " in last['last-error'], last['last-error'])
        text = ''.join(backend.http('/metrics')[1] for backend in cluster.backends)
        check_equal(metric(text, 'scree_backend_backup_failed'), 2)
        check(metric(text, 'scree_backend_backup_last_success_timestamp_seconds') / 2 > time.time() - 600, 'the last success')
        check(metric(text, 'scree_backend_backup_last_bytes') > 0, 'bytes')
        with cluster.connect() as client, cluster.connect(1) as other:
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'three', 'WAIT', *LEASE), ('$', b'three'))
            check_equal((status(other)['last-backup'], status(other)['last-status']), ('three', 'ok'))
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'three', 'WAIT')[0], '-', 'a name that is used')
            cluster.partition(0).get('SCREE', 'BACKUP', 'STATUS')
            refused = cluster.partition(0).call('SCREE', 'BACKUP', 'START', 'WAIT')
            check(refused[0] == '-' and b'works at a proxy' in refused[1], str(refused))


@suite.case('a client that leaves during START WAIT does not end the backup')
def _(run):
    with Cluster(2, 1, 1) as cluster:
        with cluster.connect() as leaver:
            leaver.send('SCREE', 'BACKUP', 'START', 'NAME', 'alone', 'WAIT', *LEASE)
            with cluster.connect() as client:
                wait_for(lambda: status(client)['backup'] == 'alone' or status(client)['last-backup'] == 'alone', 'the backup to begin')
        with cluster.connect() as client:
            wait_for(lambda: status(client)['last-backup'] == 'alone', 'the backup to end')
            check_equal(status(client)['last-status'], 'ok')


@suite.case('a backup-dir that cannot be written: an event in the log and a metric say so at the start')
def _(run):
    cluster = Cluster(1, 1, 0)
    cluster.backends[0].options = {'backend': {'backup-dir': '/proc/none'}}
    with cluster:
        backend = cluster.backends[0]
        wait_for(lambda: b'backup_dir_unusable directory=/proc/none' in backend.log(), 'the event')
        check_equal(metric(backend.http('/metrics')[1], 'scree_backend_backup_directory_writable'), 0)
        backend.options = {'backend': {'backup-dir': cluster.folder}}
        backend.stop()
        backend.write_config()
        backend.start()
        wait_for(lambda: metric(backend.http('/metrics')[1], 'scree_backend_backup_directory_writable') == 1, 'the directory to be good')
        check(metric(backend.http('/metrics')[1], 'scree_backend_backup_directory_free_bytes') > 0, 'free bytes')


@suite.case("some keys of one namespace are copied from a restored backup into the cluster; others' data stays")
def _(run):
    options = {'namespaces': NAMESPACES, 'proxy_options': {'proxy': {'requirepass': 'main'}}}
    with BackupCatalog() as catalog, Cluster(1, 2, 1, backend_options=catalog.options, **options) as cluster:
        clients = clients_of(cluster)
        shop, admin = clients['shop'], clients['default']
        shop.pipeline([['SET', 'basket:%d' % i, 'full'] for i in range(50)] + [['SET', 'other', 'old']])
        check_equal(shop.call('SCREE', 'BACKUP', 'START')[0], '-', 'a tenant starts no backup')
        clients['mail 2'].call('SET', 'basket:1', 'of mail')
        check_equal(admin.call('SCREE', 'BACKUP', 'START', 'NAME', 'b', 'WAIT', *LEASE), ('$', b'b'))
        shop.pipeline([['DEL', 'basket:%d' % i] for i in range(50)] + [['SET', 'other', 'new']])
        with restored(catalog.of('b'), 1, 1, **options) as scratch:
            servers = ['redis://shop@127.0.0.1:%d' % one.proxies[0].port for one in (scratch, cluster)]
            done = subprocess.run(['/usr/bin/python3', os.path.join(ROOT, 'config/copy-keys'), '--from', servers[0], '--to', servers[1],
                                   '--match', 'basket:*'], env=dict(os.environ, FROM_PASSWORD='shop', TO_PASSWORD='shop'),
                                  capture_output=True, text=True, timeout=patience(), check=False)
            check_equal((done.returncode, done.stderr), (0, ''), done.stdout)
        check_equal(shop.get('DBSIZE'), 51)
        check_equal(shop.get('GET', 'other'), b'new')
        check_equal([clients['mail 2'].get('DBSIZE'), admin.get('DBSIZE')], [1, 0])


@suite.case('KEEP-DAYS keeps what is younger, and one complete backup in any case')
def _(run):
    with BackupCatalog() as catalog, Cluster(2, 1, 1, backend_options=catalog.options) as cluster:
        client = cluster.connect()
        for name in ('old', 'young'):
            client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'WAIT', *LEASE)
        for shard in ('b0p0', 'b1p0'):
            age(os.path.join(catalog.path, 'old', shard), 3)
        client.call('SCREE', 'BACKUP', 'START', 'NAME', 'a', 'KEEP-DAYS', '4', 'WAIT', *LEASE)
        check_equal(names(client), ['old', 'young', 'a'])
        client.call('SCREE', 'BACKUP', 'START', 'NAME', 'b', 'KEEP', '4', 'KEEP-DAYS', '2', 'WAIT', *LEASE)
        check_equal(names(client), ['old', 'young', 'a', 'b'], 'KEEP counts too')
        client.call('SCREE', 'BACKUP', 'START', 'NAME', 'c', 'KEEP-DAYS', '2', 'WAIT', *LEASE)
        check_equal(names(client), ['young', 'a', 'b', 'c'])
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'KEEP-DAYS', '0')[0], '-')


def restore_slots(cluster, catalog, name, slots, *more):
    """Runs config/restore-slots: its exit code and output."""
    config = cluster.backends[0].config_path
    done = subprocess.run(['/usr/bin/python3', os.path.join(ROOT, 'config/restore-slots'), '--config', config, '--backup',
                           catalog.of(name), '--slots', slots, '--bin', os.environ['SCREE_BIN'], '--scratch',
                           os.path.join(cluster.folder, 'scratch'), *more],
                          capture_output=True, text=True, timeout=patience(), check=False)
    return done.returncode, done.stdout + done.stderr


def place(connection, name, database):
    check_equal(connection.get('SCREE', 'USE', name, database), b'OK')
    return Direct(connection)


@suite.case('a backup of some slots is restored into the running cluster, at the owner that these slots have now')
def _(run):
    places, slots = [('', 0), ('', 3), ('shop', 0)], '3000-6000'
    with BackupCatalog() as catalog, Cluster(3, 1, 1, backend_options=catalog.options, linked=True) as cluster:
        wanted = []

        def visit(what):
            for shard in range(3):
                with cluster.partition(shard) as connection:
                    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
                    for where in places:
                        what(shard, where, place(connection, *where))

        def owned(keys, shard):
            return [key for key in keys if cluster.shard_of(key) == shard]

        class Filtered:
            """Drops commands for keys of other shards."""

            def __init__(self, client, shard):
                self.client, self.shard = client, shard

            def get(self, *words, key=None):
                name = key or (words[1] if len(words) > 1 else '')
                wanted.append(name)
                if cluster.shard_of(name) == self.shard:
                    return self.client.get(*words)
                return {'PEXPIREAT': 1, 'HPEXPIREAT': [1], 'XGROUP': b'OK', 'CMS.INCRBY': [1], 'TDIGEST.ADD': b'OK',
                        'TOPK.ADD': [None, None, None]}.get(words[0])

        def contents():
            found = {}
            visit(lambda shard, where, client: found.update(
                {(where, key): dump for key, dump in dumps(client, owned(keys, shard)).items()}))
            return found

        visit(lambda shard, where, client: fill_types(Filtered(client, shard), 60))
        keys = sorted(set(wanted))
        inside = [key for key in keys if 3000 <= slot_of(key) <= 6000]
        before, client = contents(), cluster.connect()
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'part', 'SLOTS', slots, 'WAIT', *LEASE), ('$', b'part'))
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'whole', 'WAIT', *LEASE), ('$', b'whole'))
        part = listed(client)[0]
        check_equal([part[b'slots'], part[b'shards'], part[b'complete']], [slots.encode(), b'2/2', b'yes'])
        check_equal(sorted(os.listdir(catalog.of('part'))), ['b0p0', 'b1p0'])
        check_equal(tool('--verify-backup', catalog.of('part'))[0], 0)
        # the middle of the slots gets another owner
        cluster.write_shards(['0-3999', '4000-4999 5500-10922', '5000-5499 10923-16383'])
        wait_settled(cluster, range(3))
        visit(lambda shard, where, client: [client.get('DEL', key) for key in owned(inside, shard)])
        check_equal(restore_slots(cluster, catalog, 'part', '3000-7000')[0], 1, 'slots that the backup does not have')
        code, text = restore_slots(cluster, catalog, 'part', slots, '--check')
        check_equal(code, 0, text)
        check('%d keys to restore' % (len(places) * len(inside)) in text and 'and has 0' in text, text)
        code, text = restore_slots(cluster, catalog, 'part', slots)
        check_equal(code, 0, text)
        after = contents()
        check_equal([key for key in before if after[key] != before[key]], [])
        # present keys are named, and need a word
        changed = inside[0]
        visit(lambda shard, where, client: [client.get('DEL', key) for key in owned(inside[1:], shard)])
        visit(lambda shard, where, client: [client.get('SET', key, 'new') for key in owned([changed], shard)])
        code, text = restore_slots(cluster, catalog, 'part', slots)
        check_equal(code, 1)
        check('key=%s' % changed in text and 'nothing was restored' in text, text)
        code, text = restore_slots(cluster, catalog, 'part', slots, '--keep')
        check_equal(code, 0, text)
        after = contents()
        check_equal(sorted({key[1] for key in before if after[key] != before[key]}), [changed])
        # out of a backup of all slots, with --replace, while a client writes other keys
        outside, written, is_over = next(key for key in keys if slot_of(key) > 6000), 0, threading.Event()
        client.call('DEL', outside)
        writer = threading.Thread(target=lambda: count_writes(cluster, outside, is_over))
        writer.start()
        code, text = restore_slots(cluster, catalog, 'whole', slots, '--replace')
        is_over.set()
        writer.join()
        check_equal(code, 0, text)
        after = contents()
        check_equal([key for key in before if after[key] != before[key] and key[1] != outside], [])
        check(int(client.get('GET', outside)) > written, 'the writer wrote nothing')
        check(not os.path.exists(os.path.join(cluster.folder, 'scratch')), 'the scratch directory stays')


def count_writes(cluster, key, is_over):
    with cluster.connect() as client:
        while not is_over.wait(0.001):
            check(isinstance(client.get('INCR', key), int), 'a write failed')


ELEMENTS = sized(5000, 500000)
TEXT_BYTES = sized(6, 300) * 1000000  # more than the longest request between shards


def fill_long(cluster, connection):
    """Keys of slots of the first shard that are longer than a page of keys, and some with a value longer than a request."""
    keys = {kind: cluster.key_on(0, 'long %s ' % kind) for kind in ('list', 'hash', 'set', 'zset', 'stream', 'text', 'field', 'json')}
    for first in range(0, ELEMENTS, 4000):
        rows = ['%08d %s' % (i, '.' * 60) for i in range(first, min(first + 4000, ELEMENTS))]
        connection.get('RPUSH', keys['list'], *rows)
        connection.get('SADD', keys['set'], *rows)
        connection.get('HSET', keys['hash'], *(word for row in rows for word in ('f' + row[:8], row)))
        connection.get('ZADD', keys['zset'], *(word for row in rows for word in (int(row[:8]) % 977, row)))
        connection.pipeline([('XADD', keys['stream'], '%d-1' % (int(row[:8]) + 1), 'field', row) for row in rows])
    check_equal(connection.get('SET', keys['text'], b'0123456789' * (TEXT_BYTES // 10)), b'OK')
    check_equal(connection.get('HSET', keys['field'], 'short', 1, 'long', 'x' * 3000000), 2)
    check_equal(connection.get('JSON.SET', keys['json'], '$', '"%s"' % ('y' * 3000000)), b'OK')
    check_equal(connection.get('HPEXPIREAT', keys['hash'], 4000000000000, 'FIELDS', 1, 'f00000007'), [1])
    check_equal(connection.get('PEXPIREAT', keys['list'], 4000000000000), 1)
    return keys


@suite.case('long keys and values are restored into the running cluster, and recognised when it has them')
def _(run):
    with BackupCatalog() as catalog, \
            Cluster(2, 1, 1, backend_options=with_option(catalog.options, 'backend', 'peer-output-limit', '1mb'), linked=True) as cluster:
        def state(connection):
            digests = {key: hashlib.sha256(connection.get('DUMP', key) or b'').hexdigest() for key in keys.values()}
            return digests, [connection.get('PEXPIRETIME', keys['list']), connection.get('HPEXPIRETIME', keys['hash'], 'FIELDS', 2, 'f00000007', 'f00000008')]

        with cluster.partition(0) as first:
            keys = fill_long(cluster, first)
            before = state(first)
        check_equal(before[1], [4000000000000, [4000000000000, -1]])
        client = cluster.connect()
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'part', 'SLOTS', '0-8191', 'WAIT', *LEASE), ('$', b'part'))
        cluster.write_shards(['8192-16383', '0-8191'])
        wait_settled(cluster)
        with cluster.partition(1) as owner:
            check_equal(state(owner), before, 'after the move')
            check_equal([owner.get('DEL', key) for key in keys.values()], [1] * len(keys))
        code, text = restore_slots(cluster, catalog, 'part', '0-8191')
        check_equal(code, 0, text)
        check('restored: %d keys' % len(keys) in text, text)
        cluster.backends[1].kill9()
        cluster.backends[1].start()
        with cluster.partition(1) as owner:
            wait_for(lambda: not isinstance(owner.get('STRLEN', keys['text']), ReplyError), 'the owner to serve')
            check_equal(state(owner), before, 'after the restore')
            check_equal(owner.get('STRLEN', keys['text']), TEXT_BYTES)
            check_equal(owner.get('LSET', keys['list'], ELEMENTS // 2, 'another'), b'OK')
            check_equal(owner.get('APPEND', keys['text'], 'x'), TEXT_BYTES + 1)
            changed = state(owner)
        code, text = restore_slots(cluster, catalog, 'part', '0-8191', '--keep')
        check_equal(code, 0, text)
        with cluster.partition(1) as owner:
            check_equal(state(owner), changed, '--keep')
        code, text = restore_slots(cluster, catalog, 'part', '0-8191', '--replace')
        check_equal(code, 0, text)
        with cluster.partition(1) as owner:
            check_equal(state(owner), before, '--replace')
            check_equal(owner.get('DBSIZE'), len(keys))


@suite.case('a restore of slots that was killed continues when the command is given again')
def _(run):
    with BackupCatalog() as catalog, \
            Cluster(2, 1, 1, backend_options=with_option(catalog.options, 'backend', 'migration-rate', '300kb'), linked=True) as cluster:
        names_ = ['key:%d' % i for i in range(3000)]
        client = cluster.connect()
        client.pipeline([('SET', name, name + 'x' * 1000) for name in names_])
        inside = [name for name in names_ if slot_of(name) < 8000]
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'part', 'SLOTS', '0-7999', 'WAIT', *LEASE), ('$', b'part'))
        client.pipeline([('DEL', name) for name in inside])
        config = cluster.backends[0].config_path
        process = subprocess.Popen(
            ['/usr/bin/python3', os.path.join(ROOT, 'config/restore-slots'), '--config', config, '--backup', catalog.of('part'),
             '--slots', '0-7999', '--bin', os.environ['SCREE_BIN'], '--scratch', os.path.join(cluster.folder, 'scratch')])
        wait_for(lambda: client.get('DBSIZE') > len(names_) - len(inside), 'the first keys')
        process.send_signal(signal.SIGINT)
        check(process.wait() != 0, 'the restore was not interrupted')
        code, text = restore_slots(cluster, catalog, 'part', '0-7999')
        check_equal(code, 0, text)
        check('going on' in text, text)
        check_equal(client.get('DBSIZE'), len(names_))


def change_manifest(folder, change):
    """Calls change(manifest) with the manifest of a shard's part of a backup, and writes what it has become."""
    path = os.path.join(folder, 'MANIFEST.json')
    with open(path) as file:
        manifest = json.load(file)
    change(manifest)
    text = json.dumps(manifest)
    with open(path, 'w') as file:
        file.write(text)
    with open(os.path.join(folder, 'MANIFEST.sha256'), 'w') as file:
        file.write('%s  MANIFEST.json\n' % hashlib.sha256(text.encode()).hexdigest())


def age(folder, days):
    """Makes a shard's part of a backup older."""
    def change(manifest):
        key = next(key for key in manifest if key.startswith('taken'))
        manifest[key] -= days * 24 * 3600 * 1000
    change_manifest(folder, change)


@suite.case('a backup of two partitions is restored into three, one of three shards into two: every type, TTLs, namespaces, functions')
def _(run):
    library = '#!lua name=lib\nredis.register_function{function_name="answer", callback=function() return 42 end}'
    options = {'namespaces': NAMESPACES, 'proxy_options': {'proxy': {'requirepass': 'main'}}}
    for (backends, partitions), (to_backends, to_partitions) in (((1, 2), (1, 3)), ((3, 1), (2, 1))):
        with BackupCatalog() as catalog:
            with Cluster(backends, partitions, 1, backend_options=catalog.options, **options) as cluster:
                clients = clients_of(cluster)
                for client in clients.values():
                    fill(client)
                admin = clients['default']
                check(admin.call('SWAPDB', '0', '3')[0] == '+', 'SWAPDB')
                admin.call('SET', 'only:0', 'x')
                check(admin.call('FUNCTION', 'LOAD', library)[0] != '-', 'FUNCTION LOAD')
                of_shop = library.replace('42', '43')
                check(clients['shop'].call('FUNCTION', 'LOAD', of_shop)[0] != '-', 'FUNCTION LOAD in a namespace')
                before = {name: snapshot(client) for name, client in clients.items()}
                backup(admin, 'b', *LEASE)
            code, text = tool('--verify-backup', catalog.path)
            check(code == 0, 'verify: %s' % text)
            with restored(catalog.of('b'), to_backends, to_partitions, **options) as cluster:
                clients = clients_of(cluster)
                for name, client in clients.items():
                    same(before[name], snapshot(client), name)
                check_equal(clients['default'].get('FCALL', 'answer', '0'), 42, 'the function')
                check_equal(clients['shop'].get('FCALL', 'answer', '0'), 43, 'the function of a namespace')
                check_equal(clients['default'].get('ZRANK', 'zset:23', 'm100'), 100, 'ranks')
                check(clients['default'].call('HSET', 'hash:1', 'new', 'v') == (':', b'1'), 'it takes writes')
            if to_partitions > 1:
                alone = Cluster(1, to_partitions, 0)
                alone.backends[0].write_config()
                code, text = tool(*restore_arguments(alone.backends[0], catalog.of('b'), None))
                check(code == 0 and 'slots = 0-5460' in text, 'an even map is made and printed: %s' % text)
                for host, port in alone.backends[0].addresses:
                    check('address = %s:%d\n' % (host, port) in text, 'with the configured addresses: %s' % text)
                code, text = tool(*restore_arguments(alone.backends[0], catalog.of('b'), None))
                check(code == 1 and 'not empty' in text, 'not into data: %s' % text)
                code, text = tool('--check-data', alone.backends[0].data)
                check(code == 0 and ' 0 orphans' in text, 'its rows fit: %s' % text)
                with alone:
                    total = sum(Connection(address).get('DBSIZE') for address in alone.backends[0].addresses)
                    check_equal(total, len(before['default']), 'keys')


# ---- under load ----

class Writer(threading.Thread):
    """Writes w:<me>:1, 2, 3 … one after another, over all shards. Each value has the numbers of the other writers' last
    replies when it was sent."""

    def __init__(self, cluster, me, acked):
        super().__init__(daemon=True)
        self.client, self.me, self.acked = cluster.connect(me % len(cluster.proxies), 60), me, acked
        self.is_over = False
        self.error = None

    def run(self):
        try:
            number = 0
            while not self.is_over:
                number += 1
                seen = ' '.join(str(count) for count in self.acked)
                reply = self.client.call('SET', 'w:%d:%d' % (self.me, number), seen)
                if reply != ('+', b'OK'):
                    raise AssertionError('SET: %r' % (reply,))
                self.acked[self.me] = number
        except Exception as error:  # the case reports it
            self.error = error


@suite.case('under writes of many clients through two proxies, the backup is the state of the whole cluster at one moment')
def _(run):
    with BackupCatalog() as catalog:
        bounds = {}
        with Cluster(2, 2, 2, backend_options=catalog.options) as cluster:
            acked = [0] * 6
            writers = [Writer(cluster, me, acked) for me in range(len(acked))]
            admin = cluster.connect(0, 60)
            for writer in writers:
                writer.start()
            for name in ('one', 'two', 'three'):
                seen = list(acked)
                wait_for(lambda: min(now - then for now, then in zip(acked, seen)) > 20, 'writes')
                first = list(acked)
                held = backup(admin, name, *LEASE)['held-ms']
                bounds[name] = (first, list(acked))
                run.debug('%s: held %d ms' % (name, held))
            for writer in writers:
                writer.is_over = True
            for writer in writers:
                writer.join(patience())
                check(writer.error is None, 'writer %d: %s' % (writer.me, writer.error))
        for name, (first, last) in bounds.items():
            with restored(catalog.of(name), 2, 2) as cluster:
                check_moment(cluster.connect(), first, last)
        shared = [files_of(os.path.join(catalog.of(name), 'b0p0')) for name in ('one', 'two')]
        check(set(shared[0].items()) & set(shared[1].items()), 'backups share files')


def check_moment(client, first, last):
    """For each writer, the backup has its first writes without gaps, and every write of others that these writes refer
    to."""
    count, values = [0] * len(first), {}
    for key in scan_all(client, 'COUNT', '1000'):
        _, me, number = key.split(b':')
        values[int(me), int(number)] = key
        count[int(me)] += 1
    for me in range(len(first)):
        check(all((me, number) in values for number in range(1, count[me] + 1)), 'writer %d has a gap' % me)
        check(first[me] <= count[me] <= last[me] + 1,
              'writer %d: %d, between %d and %d' % (me, count[me], first[me], last[me]))
        check(count[me] > 0, 'writer %d wrote' % me)
        newest = client.get('GET', 'w:%d:%d' % (me, count[me]))
        for other, known in enumerate(newest.split()):
            check(int(known) <= count[other], 'writer %d knew of %s of %d, which has %d' % (me, known, other, count[other]))


# ---- during transactions over shards ----

ACCOUNTS = ['account:%d' % i for i in range(12)]


class Teller(threading.Thread):
    """Moves money between accounts of different shards through the proxy without pause, and counts transfers in a key."""

    def __init__(self, cluster, me, seed):
        super().__init__(daemon=True)
        self.cluster, self.me, self.rng = cluster, me, random.Random(seed)
        self.stopping = threading.Event()
        self.tried = self.moved = 0
        self.refused, self.error = [], None

    def run(self):
        try:
            client = self.cluster.connect(0, 60)
            while not self.stopping.is_set():
                self.move(client)
        except Exception as error:  # the case reports it
            self.error = error

    def move(self, client):
        source, target = self.rng.sample(ACCOUNTS, 2)
        amount = self.rng.randrange(1, 10)
        self.tried += 1
        client.send_many([['MULTI'], ['DECRBY', source, amount], ['INCRBY', target, amount], ['INCR', 'moved:%d' % self.me],
                          ['EXEC']])
        *_, replies = [value(client.read()) for _ in range(5)]
        if isinstance(replies, list) and not any(isinstance(reply, ReplyError) for reply in replies):
            self.moved += 1
        else:
            self.refused.append(str(replies))


class Tellers:
    def __init__(self, run, cluster, count=6):
        client = cluster.connect()
        for account in ACCOUNTS:
            check_equal(client.get('SET', account, '1000'), b'OK')
        check_equal({cluster.shard_of(account) for account in ACCOUNTS}, {0, 1, 2}, 'shards with accounts')
        self.all = [Teller(cluster, me, run.rng.random()) for me in range(count)]

    def __enter__(self):
        for teller in self.all:
            teller.start()
        return self

    def __exit__(self, kind, *error):
        for teller in self.all:
            teller.stopping.set()
        for teller in self.all:
            teller.join(patience())
            if kind is None:
                check(teller.error is None and not teller.is_alive(), 'teller %d: %r' % (teller.me, teller.error))

    def wait_moved(self, count):
        """Every teller has done so many transfers more."""
        before = [teller.moved for teller in self.all]
        wait_for(lambda: all(teller.moved >= moved + count or teller.error for teller, moved in zip(self.all, before)), 'transfers')


def check_bank(cluster, bounds):
    """Each transaction is in the restored cluster as a whole or not at all, and no record of one is left. The shards have
    no connections to each other, so nothing could resolve a record."""
    for shard in range(len(cluster.slots)):
        with cluster.partition(shard) as partition:
            check_equal(partition.get('SCREE', 'TRANSACTIONS'), [], 'open transactions of shard %d' % shard)
    client = cluster.connect()
    check_equal(sum(client.get('INCRBY', account, 0) for account in ACCOUNTS), 1000 * len(ACCOUNTS), 'the sum')
    for me, (acknowledged, tried) in enumerate(bounds):
        check(acknowledged <= client.get('INCRBY', 'moved:%d' % me, 0) <= tried, 'teller %d' % me)


@suite.case('a backup during transactions over shards has all of each or nothing, none of their records, and every acknowledged one')
def _(run):
    with BackupCatalog() as catalog:
        bounds = {}
        with Cluster(3, 1, 1, backend_options=catalog.options, linked=True) as cluster:
            admin = cluster.connect(0, 60)
            with Tellers(run, cluster) as tellers:
                for number in range(sized(6, long=40)):
                    tellers.wait_moved(10)
                    acknowledged = [teller.moved for teller in tellers.all]
                    held = backup(admin, 'b%d' % number, *LEASE)['held-ms']
                    bounds['b%d' % number] = list(zip(acknowledged, [teller.tried for teller in tellers.all]))
                    run.debug('held %d ms' % held)
                tellers.wait_moved(1)
            refused = [text for teller in tellers.all for text in teller.refused]
            run.note('%d transfers, %d refused %r' % (sum(teller.moved for teller in tellers.all), len(refused), refused[:2]))
        for name, limits in bounds.items():
            for shards in (3, 2):
                with restored(catalog.of(name), shards, 1) as cluster:
                    check_bank(cluster, limits)


@suite.case('while a backup quiesces transactions over shards, new ones wait without a time limit, others run; with the lease all goes on')
def _(run):
    limits = {'transaction-timeout': '3s', 'lock-timeout': '3s'}
    with Cluster(3, 1, 1, backend_options={'backend': limits}, linked=True) as cluster:
        a, b, c = [cluster.key_on(shard) for shard in range(3)]
        client, waiting = cluster.connect(), cluster.connect()
        shards = [cluster.partition(shard) for shard in range(3)]
        for shard in shards:
            check_equal(shard.call('SCREE', 'BACKUP', 'CUT', 'x', '1000')[0], '-', 'CUT without PREPARE')
            check_equal(shard.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'x', 'ID', 'x'), b'OK')
            wait_for(lambda: status(shard)['state'] == 'ready', 'PREPARE')
            check('QUIESCE must come before CUT' in str(shard.get('SCREE', 'BACKUP', 'CUT', 'x', '1000')), 'CUT without QUIESCE')
            check_equal(shard.get('SCREE', 'BACKUP', 'QUIESCE', 'x', '60000'), b'OK')
            check_equal(status(shard)['state'], 'quiet')
        waiting.send('RENAME', 'nothing', a)
        waiting.send_many([['MULTI'], ['SET', a, '1'], ['SET', b, '1'], ['SET', c, '1'], ['EXEC']])
        wait_for(lambda: any('state=held' in str(shard.get('SCREE', 'TRANSACTIONS')) for shard in shards), 'a held transaction')
        end = time.monotonic() + 4  # longer than the limits
        while time.monotonic() < end:
            check_equal([client.get('INCR', key) for key in (a + '.', b + '.', c + '.', a)][3] > 0, True, 'INCR')
            check_equal(status(shards[0])['state'], 'quiet')
        check_equal([shard.get('SCREE', 'BACKUP', 'CANCEL', 'x') for shard in shards], [1, 1, 1])
        check('no such key' in str(value(waiting.read())), 'RENAME')
        check_equal([value(waiting.read()) for _ in range(5)], [b'OK'] + [b'QUEUED'] * 3 + [[b'OK'] * 3])

        def is_ready(shard):
            return shard.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'y', 'ID', 'y') == b'OK'
        for shard in shards:
            wait_for(lambda: is_ready(shard), 'the first backup to end')
            wait_for(lambda: status(shard)['state'] == 'ready', 'PREPARE')
            check_equal(shard.get('SCREE', 'BACKUP', 'QUIESCE', 'y', '300'), b'OK')
        check_equal(client.get('RENAME', a, b), b'OK', 'after the lease')
        wait_for(lambda: all(status(shard)['state'] == 'ready' for shard in shards), 'the leases to end')
        check_equal(shards[0].call('SCREE', 'BACKUP', 'CUT', 'y', '1000')[0], '-', 'CUT after the lease')


@suite.case('a leader that stood still during the hold while another copy served refuses RELEASE')
def _(run):
    with tempfile.TemporaryDirectory() as folder, Voters(backend_options={'backend': {'backup-dir': folder}}) as voters:
        leader = voters.wait_leader()
        with voters.copy(leader) as shard:
            check_equal(shard.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'x', 'ID', 'x'), b'OK')
            wait_for(lambda: status(shard)['state'] == 'ready', 'PREPARE')
            for step in ('QUIESCE', 'CUT'):
                check_equal(shard.get('SCREE', 'BACKUP', step, 'x', '60000'), b'OK')
            wait_for(lambda: status(shard)['state'] == 'copied', 'CUT')
            voters.backends[leader].pause()
            voters.wait_leader(leader)
            shard.send('SCREE', 'BACKUP', 'RELEASE', 'x')
            voters.backends[leader].resume()
            check_equal(shard.read()[0], '-')


@suite.case('a leader that has handed over during the hold refuses RELEASE, and one that has before it refuses QUIESCE')
def _(run):
    with tempfile.TemporaryDirectory() as folder, Voters(backend_options=with_option(UNHURRIED, 'backend', 'backup-dir', folder)) as voters:
        for number in range(sized(10, long=50)):
            leader = voters.wait_leader()
            other = next(index for index in range(3) if index != leader)
            voters.wait_follows(other)
            with voters.copy(leader) as shard:
                refused_after_hand_over(shard, '%s:%d' % voters.backends[other].addresses[0][:2], 'x%d' % number, ('', 'ELSEWHERE')[number // 2 % 2],
                                        number % 2)


def refused_after_hand_over(shard, to, ident, where, is_held):
    words = ['SCREE', 'BACKUP', 'PREPARE', 'NAME', ident, 'ID', ident] + [where] * bool(where)
    wait_for(lambda: shard.get(*words) == b'OK', 'the copy that leads to know the owners of its slots', pause=0.05)
    wait_for(lambda: status(shard)['state'] == 'ready', 'PREPARE')
    if is_held:
        for step in ('QUIESCE', 'CUT'):
            check_equal(shard.get('SCREE', 'BACKUP', step, ident, '60000'), b'OK')
        wait_for(lambda: status(shard)['state'] == 'copied', 'CUT')
    step = ['SCREE', 'BACKUP'] + (['RELEASE', ident] if is_held else ['QUIESCE', ident, '60000'])
    wait_for(lambda: b'OK' == shard.get('SCREE', 'LEADER', 'TO', to) or not leads(shard), 'the hand-over', pause=0.05)
    wait_for(lambda: not leads(shard), 'another copy to lead', pause=0)
    check_equal(shard.call(*step)[0], '-', '%s after the hand-over, %r' % (step, where))
    wait_for(lambda: status(shard)['state'] == 'idle', 'the backup to end')
    check_equal(status(shard)['last-status'], 'err')


def leads(shard):
    return 'this copy leads' in status(shard)['not-a-copy']


@suite.case('a backup fails with the reason when a transaction over shards does not end; nothing stays held')
def _(run):
    with Cluster(3, 1, 1, linked=True) as cluster:
        admin = cluster.connect(0, 60)
        shards = [cluster.partition(shard) for shard in range(3)]

        def pause():
            for shard in shards:
                check_equal(shard.get('CLIENT', 'PAUSE', '600000', 'WRITE'), b'OK')

        def unpause():
            for shard in shards:
                shard.get('CLIENT', 'UNPAUSE')

        def participants():
            lines = [str(line) for shard in shards for line in shard.get('SCREE', 'TRANSACTIONS')]
            return [line for line in lines if 'role=participant' in line]

        def has_failed():
            """True when a pause has met a transaction between its LOCK and its end, and a backup has failed because of it."""
            unpause()
            time.sleep(0.01)
            pause()
            time.sleep(0.3)  # most transactions that the pause does not stop end
            if not participants():
                return False
            name = b'x%d' % next(numbers)
            check_equal(admin.get('SCREE', 'BACKUP', 'START', 'NAME', name, 'LEASE', '500'), name)
            wait_for(lambda: is_idle(admin), 'the backup to end')
            # else this transaction did end, or a shard was late for another reason
            return 'within the lease of 500 ms: shard \'b' in status(admin)['last-error']
        numbers = itertools.count()
        with Tellers(run, cluster) as tellers:
            tellers.wait_moved(3)
            wait_for(has_failed, 'a backup that meets a transaction in the pause')
            last = status(admin)
            check_equal(last['last-status'], 'err')
            check('start the backup again' in last['last-error'], last['last-error'])
            run.note(last['last-error'])
            unpause()
            for shard in shards:
                check_equal(status(shard)['held'], 'no')
            tellers.wait_moved(3)
            backup(admin, 'y', *LEASE)


@suite.case('a backup while a shard is down or frozen fails and names it; commands and transactions go on when it is back')
def _(run):
    with Cluster(3, 1, 1, linked=True, proxy_options={'upstream': {'timeout': '4s'}}) as cluster:
        admin = cluster.connect(0, 60)

        def failure(name):
            reply = admin.call('SCREE', 'BACKUP', 'START', 'NAME', name)
            wait_for(lambda: is_idle(admin), 'the backup to end')
            check_equal(status(admin)['last-status'], 'err')
            run.note('%s; %r' % (status(admin)['last-error'], reply))
            # of one that was refused at once, shards have no result: the last one may be that of the backup before
            return reply[1].decode() if reply[0] == '-' else status(admin)['last-error']
        with Tellers(run, cluster) as tellers:
            for number in range(2):
                tellers.wait_moved(3)
                cluster.backends[1].pause()
                check("shard 'b1p0'" in failure('frozen%d' % number), 'it is named')
                cluster.backends[1].resume()
            tellers.wait_moved(3)
            # refused as long as the proxy has no connection for backups to the shard that was frozen
            wait_for(lambda: admin.call('SCREE', 'BACKUP', 'START', 'NAME', 'late') == ('$', b'late'), 'the backup to start')
            cluster.backends[2].pause()  # in the middle
            wait_for(lambda: is_idle(admin), 'the backup to end')
            run.note(repr(status(admin)))
            cluster.backends[2].resume()
            tellers.wait_moved(3)
            cluster.backends[1].kill9()
            check("shard 'b1p0'" in failure('down'), 'it is named')
            cluster.backends[1].start()
            tellers.wait_moved(3)

            def is_done():
                admin.call('SCREE', 'BACKUP', 'START', 'NAME', 'good', *LEASE)
                wait_for(lambda: is_idle(admin), 'the backup to end')
                return status(admin)['last-status'] == 'ok'
            wait_for(is_done, 'a backup')
        sums = [admin.get('GET', account) for account in ACCOUNTS]
        check_equal(sum(map(int, sums)), 1000 * len(ACCOUNTS), 'the sum')


@suite.case('a shard that was frozen when a backup began takes part in the next one as soon as it runs again')
def _(run):
    with Cluster(2, 1, 1) as cluster:
        admin, frozen = cluster.connect(0, 60), cluster.backends[1]
        backup(admin, 'first', *LEASE)  # the proxy has a connection, so that the frozen shard receives the next PREPARE late
        frozen.pause()
        kind, text = admin.call('SCREE', 'BACKUP', 'START', 'NAME', 'frozen')
        check(kind == '-' and b"shard 'b1p0'" in text, 'START: %r' % text)
        frozen.resume()
        with cluster.partition(1) as shard:
            wait_for(lambda: status(shard)['last-backup'] == 'frozen', 'the shard to end the backup', limit=2 * PATIENCE)
            check('sent no command' not in status(shard)['last-error'], status(shard)['last-error'])
        backup(admin, 'next', *LEASE)


@suite.case('kill -9 of the proxy that leads a backup during transactions over shards: they go on, nothing stays held')
def _(run):
    with Cluster(3, 1, 2, linked=True) as cluster:
        for number in range(sized(5, long=50)):
            with Tellers(run, cluster) as tellers:
                tellers.wait_moved(1)
                with cluster.connect(1) as leader:
                    check_equal(leader.get('SCREE', 'BACKUP', 'START', 'NAME', 'x%d' % number), b'x%d' % number)
                    time.sleep(run.rng.random() * 0.03)  # so that the kill comes in any step
                    states = set()
                    for shard in range(3):
                        with cluster.partition(shard) as partition:
                            states.add(status(partition)['state'])
                    cluster.proxies[1].kill9()
                run.debug('killed while %s' % sorted(states))
                tellers.wait_moved(3)
                cluster.proxies[1].start()
            for shard in range(3):
                with cluster.partition(shard) as partition:
                    wait_for(lambda: status(partition)['held'] == 'no', 'the lease to end')
                    wait_for(lambda: is_idle(partition), 'the backup to end')
        admin = cluster.connect()
        backup(admin, 'good', *LEASE)
        check_equal(sum(int(admin.get('GET', account)) for account in ACCOUNTS), 1000 * len(ACCOUNTS), 'the sum')


@suite.case('a backup ends at a shard when the connection of the proxy that leads it has ended, and the next one begins')
def _(run):
    with Cluster(1, 1, 0) as cluster, cluster.partition(0) as other:
        for number in range(3):  # it leaves before QUIESCE, before CUT, before RELEASE
            with cluster.partition(0) as leader:
                name = 'led-%d' % number
                check_equal(leader.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', name, 'ID', 'a'), b'OK')
                wait_for(lambda: status(other)['state'] == 'ready', 'PREPARE')
                for words in (['QUIESCE', 'a', '60000'], ['CUT', 'a', '60000'])[:number]:
                    check_equal(leader.get('SCREE', 'BACKUP', *words), b'OK')
                if number == 2:
                    wait_for(lambda: status(other)['state'] == 'copied', 'the copy')
                check_equal(status(other)['held'], 'yes' if number == 2 else 'no')
            wait_for(lambda: is_idle(other), 'the backup to end without its leader')
            last = status(other)
            check_equal((last['last-backup'], last['last-status'], last['held']), (name, 'err', 'no'))
            check('has disconnected' in last['last-error'], last['last-error'])
            check_equal(other.get('SET', 'key', number), b'OK')
        with cluster.partition(0) as second:  # it goes on where another connection has begun
            leader = cluster.partition(0).__enter__()
            check_equal(leader.get('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'good', 'ID', 'b'), b'OK')
            wait_for(lambda: status(other)['state'] == 'ready', 'PREPARE')
            check_equal(second.get('SCREE', 'BACKUP', 'QUIESCE', 'b', '60000'), b'OK')
            leader.close()
            wait_for(lambda: status(other)['state'] == 'quiet', 'a quiet shard')
            check_equal(second.get('SCREE', 'BACKUP', 'CUT', 'b', '60000'), b'OK')
            wait_for(lambda: status(other)['state'] == 'copied', 'the copy')
            for step in ('RELEASE', 'CONFIRM'):
                check_equal(second.get('SCREE', 'BACKUP', step, 'b'), b'OK')
            wait_for(lambda: is_idle(other), 'the end')
            check_equal((status(other)['last-backup'], status(other)['last-status']), ('good', 'ok'))


# ---- interrupted and damaged ----

@suite.case('kill -9 during a backup: older backups stay valid, a partial one does not count, and the next backup removes it')
def _(run):
    with BackupCatalog() as catalog, Cluster(1, 1, 0, backend_options=catalog.options) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])
        client.pipeline([['SET', 'key:%d' % i, os.urandom(2000)] for i in range(5000)])
        backup(client, 'good')
        for i in range(4):
            client.call('SCREE', 'BACKUP', 'START', 'NAME', 'cut%d' % i, 'FULL')
            time.sleep(run.rng.random() * 0.15)  # so that the kill comes at any point
            backend.kill9()
            backend.start()
            client = Connection(backend.addresses[0])
            whole = names(client)
            check('good' in whole, 'the good one is listed: %r' % whole)
            for name in whole:
                code, text = tool('--verify-backup', catalog.of(name))
                check(code == 0, '%s: %s' % (name, text))
        os.mkdir(catalog.of('cut4'))  # killed before its first file
        shutil.copytree(catalog.of('good'), catalog.of('cut5'))  # killed while it wrote its last file
        for name in ('UNFINISHED', 'MANIFEST.sha256'):
            open(os.path.join(catalog.of('cut5'), 'partition-0', name), 'w').close()
        backup(client, 'last')
        check_equal(sorted(os.listdir(catalog.path)), sorted(names(client)), 'nothing half is left')
        check(not [name for name in os.listdir(backend.data) if name.startswith('cut-')], 'no cut is left')


@suite.case('a backup that is deleted while it is verified is not reported as damaged')
def _(run):
    with BackupCatalog() as catalog, Cluster(1, 1, 0, backend_options=catalog.options) as cluster:
        with cluster.partition(0) as client:
            backup(client, 'kept')
            backup(client, 'gone')
        folder = os.path.join(catalog.of('gone'), 'partition-0')
        big = os.path.join(folder, '999999.sst')
        with open(big, 'w') as file:  # takes seconds to read, so that it can be met in the middle
            os.truncate(file.fileno(), 4 << 30)
        change_manifest(folder, lambda manifest: manifest['files'].append(dict(manifest['files'][0], name='999999.sst', size=4 << 30)))
        child = subprocess.Popen([binary('scree-backend'), '--verify-backup', catalog.path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def reads_it():
            check(child.poll() is None, 'it has ended before')
            files = '/proc/%d/fd' % child.pid
            return any(os.path.realpath(os.path.join(files, name)) == big for name in os.listdir(files))
        wait_for(reads_it, 'the big file to be read')
        os.remove(os.path.join(folder, 'MANIFEST.json'))
        os.truncate(big, 0)
        shutil.rmtree(folder)
        text = child.communicate()[0].decode()
        check('deleted: ' in text and 'damaged' not in text and 'good: ' in text, text)
        check_equal(child.returncode, 0, text)


@suite.case('a backup deletes only backups: no store below backup-dir, and no target of a symbolic link')
def _(run):
    cluster = Cluster(1, 1, 0)
    backend = cluster.backends[0]
    backend.options = {'backend': {'backup-dir': cluster.folder}}
    with cluster, tempfile.TemporaryDirectory() as other:
        precious = os.path.join(other, 'partition-0')
        for folder in (precious, os.path.join(cluster.folder, 'strange', 'partition-0')):
            os.makedirs(folder)
            with open(os.path.join(folder, 'file'), 'w') as file:
                file.write('precious')
        os.symlink(other, os.path.join(cluster.folder, 'link'))
        os.mkdir(os.path.join(cluster.folder, 'half'))
        os.symlink(precious, os.path.join(cluster.folder, 'half', 'partition-0'))
        with cluster.partition(0) as client:
            client.call('SET', 'k', 'v')
            backup(client, 'monday')
            for name in ('data-0', 'strange', 'link', 'half'):
                check(client.call('SCREE', 'BACKUP', 'DELETE', name)[1].startswith(b'NOBACKUP '), name)
            check(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'link', 'SHARD', 'new')[0] == '+', 'START')
            wait_for(lambda: is_idle(client), 'the backup to end')
            check('symbolic link' in status(client)['last-error'], 'a backup is made where a link leads: %r' % status(client))
            os.makedirs(os.path.join(cluster.folder, 'broken', 'partition-0'))
            for name in ('UNFINISHED', '000007.sst'):
                open(os.path.join(cluster.folder, 'broken', 'partition-0', name), 'w').close()
            backup(client, 'tuesday')
            check(not os.path.exists(os.path.join(cluster.folder, 'broken')), 'what has the mark stays')
            for folder in (precious, os.path.join(cluster.folder, 'strange', 'partition-0')):
                check_equal(os.listdir(folder), ['file'], folder)
        backend.stop()
        backend.start()
        with cluster.partition(0) as client:
            check_equal(client.get('GET', 'k'), b'v')
            check_equal(names(client), ['monday', 'tuesday'])


@suite.case('pipes, devices and links in backup-dir block nothing; a hostile backup is refused with the reason')
def _(run):
    def sealed(folder, text):
        with open(os.path.join(folder, 'MANIFEST.json'), 'w') as file:
            file.write(text)
        with open(os.path.join(folder, 'MANIFEST.sha256'), 'w') as file:
            file.write('%s  MANIFEST.json\n' % hashlib.sha256(text.encode()).hexdigest())

    with BackupCatalog() as catalog, Cluster(1, 1, 0, backend_options=catalog.options) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.call('SET', 'k', 'v')
            backup(client, 'good')
            for what in ('pipe', 'device'):
                folder = os.path.join(catalog.of(what), 'partition-0')
                os.makedirs(folder)
                path = os.path.join(folder, 'MANIFEST.json')
                os.mkfifo(path) if what == 'pipe' else os.symlink('/dev/zero', path)
                open(os.path.join(folder, 'MANIFEST.sha256'), 'w').close()
            check_equal(names(client), ['good'])
            backup(client, 'better')
            check_equal(names(client), ['good', 'better'])
        with open(os.path.join(os.path.join(catalog.of('good'), 'partition-0'), 'MANIFEST.json')) as file:
            good = json.load(file)
        shutil.rmtree(catalog.of('pipe'))
        shutil.rmtree(catalog.of('device'))
        first = good['files'][0]['name']
        target, config = os.path.join(cluster.folder, 'restored'), os.path.join(cluster.folder, 'restore.ini')
        write_ini(config, [('backend', {'port': backend.port, 'partitions': 1, 'data': target})])

        def refused(what, change=None, spoil=None, text=None):
            folder = os.path.join(catalog.of('hostile'), 'partition-0')
            shutil.copytree(os.path.join(catalog.of('good'), 'partition-0'), folder)
            manifest = json.loads(json.dumps(good))
            if change:
                change(manifest)
            sealed(folder, text or json.dumps(manifest))
            if spoil:
                spoil(os.path.join(folder, first))
            for options in (['--verify-backup', folder], ['--config', config, '--restore', folder]):
                code, said = tool(*options)
                check(code == 1 or (options[0] != '--config' and code == 0), '%s: %s gives %s: %s' % (what, options[0], code, said))
                check('runtime error' not in said and 'Sanitizer' not in said, said)
            check(not os.path.exists(os.path.join(catalog.path, 'escaped')), what)
            shutil.rmtree(catalog.of('hostile'))
            shutil.rmtree(target, ignore_errors=True)

        def named(name):
            return lambda manifest: manifest['files'][0].update(name=name)

        def replaced(make):
            def spoil(path):
                os.remove(path)
                make(path)
            return spoil
        for name in ('../escaped', '/tmp/escaped', '..', '.', '', 'a/../../escaped', 'MANIFEST.json', 'UNFINISHED', 'x' * 300, 'a\0b'):
            refused('a file called %r' % name, named(name))
        for value in (-1, 1 << 62, (1 << 63) - 1, '12', None, 1.5):
            refused('a size of %r' % value, lambda manifest: manifest['files'][0].update(size=value))
        for field, value in (('shard', '../x'), ('backup', '..'), ('data_format', 1 << 40), ('data_format', -1), ('format', 1 << 30), ('format', 'x'),
                             ('files', {}), ('files', [[]]), ('files', [1]), ('map', 'x' * 100000), ('map', '[map]\nepoch = x\n'), ('id', [])):
            refused('%s %r' % (field, str(value)[:20]), lambda manifest: manifest.update({field: value}))
        refused('the same file twice', lambda manifest: manifest['files'].append(manifest['files'][0]))
        refused('many brackets', text='[' * 100000)
        refused('a huge number', text='{"format": 1e999}')
        refused('a pipe', spoil=replaced(os.mkfifo))
        refused('a link to a device', spoil=replaced(lambda path: os.symlink('/dev/zero', path)))
        refused('a link to another file', spoil=replaced(lambda path: os.symlink('/etc/passwd', path)))
        refused('a directory', spoil=replaced(os.mkdir))
        code, said = tool('--config', config, '--restore', os.path.join(catalog.of('good'), 'partition-0'))
        check(code == 0, 'the good one: %s' % said)


def log_id(cluster, index):
    with cluster.partition(index) as connection:
        return connection.get('INFO', 'persistence').decode().split('log_id:')[1].split('\r')[0]


@suite.case('a damaged partition is named and restored while the others of its process serve; a restore by root gives its files to the owner of the directory')
def _(run):
    with BackupCatalog() as catalog, Cluster(1, 3, 1, backend_options=catalog.options) as cluster:
        backend, client = cluster.backends[0], cluster.connect()
        keys = [cluster.key_on(shard) for shard in range(3)]
        for key in keys:
            client.get('SET', key, 'v')
        backup(client, 'b', *LEASE)
        log_ids = [log_id(cluster, index) for index in range(3)]
        backend.stop()
        partition, owner = os.path.join(backend.data, 'partition-1'), 0
        if os.geteuid() == 0:
            owner = 65534
            os.chown(backend.data, owner, owner)
        with open(os.path.join(partition, 'CURRENT'), 'w') as file:
            file.write('MANIFEST-0')
        backend.spawn()
        wait_for(lambda: b' started ' in backend.log().partition(b'partition_failed')[2], 'the start without the damaged partition')
        line = next(line for line in backend.log().splitlines() if b'partition_failed' in line).decode()
        check('partition=1' in line and partition in line and '--restore BACKUP/SHARD --partition' in line, line)
        status, page = backend.http('/readyz')
        check(status == 503 and partition in page, page)
        check_equal(backend.http('/healthz')[0], 200)
        states = [shard['state'] for shard in json.loads(backend.http('/shards')[1])['partitions']]
        check_equal(sorted(states), ['damaged', 'up', 'up'])
        check('scree_backend_partition_up{partition="1"} 0' in backend.http('/metrics')[1], 'the metric')

        def served(key):
            return value(cluster.connect().call('GET', key)) == b'v'
        for key in (keys[0], keys[2]):
            wait_for(lambda: served(key), '%s to be served' % key)
        check(isinstance(value(cluster.connect().call('GET', keys[1])), ReplyError), 'the damaged one is not')

        source = os.path.join(catalog.of('b'), 'b0p1')
        for arguments, reason in ((['--restore', source, '--partition', '0'], 'a backend serves this partition'),
                                  (['--restore', source, '--partition', '3'], 'no partition with this number'),
                                  (['--restore', source, '--partition', 'x'], 'no partition with this number'),
                                  (['--restore', catalog.of('b'), '--partition', '1'], 'BACKUP/SHARD')):
            code, text = tool('--config', backend.config_path, *arguments)
            check(code == 1 and reason in text, '%s: %s' % (arguments, text))
        os.makedirs(partition + '.restoring')  # as an interrupted one leaves it
        code, text = tool('--config', backend.config_path, '--restore', source, '--partition', '1')
        check(code == 0 and 'restart' in text, text)
        check(os.path.exists(os.path.join(partition + '.damaged', 'CURRENT')), 'the damaged files are kept')
        if owner:
            check_equal({os.stat(os.path.join(partition, name)).st_uid for name in ['.'] + os.listdir(partition)}, {owner})
            os.chown(backend.data, 0, 0)
        code, text = tool('--config', backend.config_path, '--restore', source, '--partition', '1')
        check(code == 1 and '.damaged' in text, 'the kept files are not overwritten: %s' % text)
        backend.stop()
        backend.start()
        for key in keys:
            wait_for(lambda: served(key), '%s to be served' % key)
        check_equal(backend.http('/readyz')[0], 200)
        ids = [log_id(cluster, index) for index in range(3)]
        check_equal([ids[index] == log_ids[index] for index in range(3)], [True, False, True], 'only the restored log has another name')


@suite.case('kill -9 during a restore: the directory is not served until a new restore has completed')
def _(run):
    with BackupCatalog() as catalog:
        with Cluster(1, 2, 1, backend_options=catalog.options) as cluster:
            client = cluster.connect()
            client.pipeline([['SET', 'key:%d' % i, 'x' * 1000] for i in range(4000)])
            backup(client, 'b', *LEASE)
        cluster = Cluster(1, 3, 1)
        cluster.write_shards(even_slots(3))
        backend = cluster.backends[0]
        backend.write_config()
        arguments = [binary('scree-backend')] + restore_arguments(backend, catalog.of('b'), ['b0p0', 'b0p1', 'b0p2'])
        begun = time.monotonic()
        tool(*arguments[1:])
        whole = time.monotonic() - begun
        shutil.rmtree(backend.data)
        interrupted = 0
        for _ in range(3):
            child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(run.rng.random() * whole)
            child.kill()
            if child.wait() == 0 or not os.path.exists(os.path.join(backend.data, 'RESTORING')):
                shutil.rmtree(backend.data, ignore_errors=True)
                continue
            interrupted += 1
            code, text = tool('--config', backend.config_path)
            check(code == 1 and 'interrupted' in text, 'a start is refused: %s' % text)
        run.debug('%d interrupted' % interrupted)
        shutil.rmtree(backend.data, ignore_errors=True)
        os.makedirs(os.path.join(backend.data, 'partition-0'))
        with open(os.path.join(backend.data, 'RESTORING'), 'w') as file:
            file.write('half')
        code, text = tool('--config', backend.config_path)
        check(code == 1 and 'interrupted' in text, 'a start is refused: %s' % text)
        code, text = tool(*arguments[1:])
        check(code == 0, 'restore: %s' % text)
        with cluster:
            check_equal(cluster.connect().get('DBSIZE'), 4000, 'keys')


def spoiled_file(rng, content, others):
    """A store's file as an attacker may change it, with a manifest that fits."""
    what = rng.randrange(6)
    if what == 0:
        return content[:rng.randrange(len(content) + 1)]
    if what == 1:
        return content + rng.randbytes(rng.choice((1, 100, 100000)))
    if what == 2:
        return rng.choice(others)
    data = bytearray(content)
    for _ in range(rng.choice((1, 4, 100))):
        at = rng.randrange(len(data)) if what < 5 else max(0, len(data) - 1 - rng.randrange(200))  # the footer
        data[at] = rng.choice((0, 0xff, rng.randrange(256)))
    return bytes(data)


@suite.case('files of a backup that are damaged, cut or another file, with a manifest that fits them, crash neither the restore nor the server')
def _(run):
    with BackupCatalog() as catalog, Cluster(1, 1, 0, backend_options=catalog.options) as cluster:
        with cluster.partition(0) as client:
            fill(client)
            backup(client, 'good')
        good = os.path.join(catalog.of('good'), 'partition-0')
        with open(os.path.join(good, 'MANIFEST.json')) as file:
            manifest = json.load(file)
        contents = {}
        for item in manifest['files']:
            with open(os.path.join(good, item['name']), 'rb') as file:
                contents[item['name']] = file.read()
        backend, served, refused = cluster.backends[0], 0, 0
        backend.stop()
        for _ in range(sized(8, long=300)):
            folder = os.path.join(catalog.of('hostile'), 'partition-0')
            shutil.copytree(good, folder)
            spoiled = json.loads(json.dumps(manifest))
            item = run.rng.choice(spoiled['files'])
            content = spoiled_file(run.rng, contents[item['name']], list(contents.values()))
            os.remove(os.path.join(folder, item['name']))
            with open(os.path.join(folder, item['name']), 'wb') as file:
                file.write(content)
            item.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
            text = json.dumps(spoiled)
            with open(os.path.join(folder, 'MANIFEST.json'), 'w') as file:
                file.write(text)
            with open(os.path.join(folder, 'MANIFEST.sha256'), 'w') as file:
                file.write('%s  MANIFEST.json\n' % hashlib.sha256(text.encode()).hexdigest())
            shutil.rmtree(backend.data)
            by_row = ['--map', cluster_map(catalog.path), '--shard', 'a'] if run.rng.random() < 0.5 else []
            code, said = tool('--config', backend.config_path, '--restore', folder, *by_row)
            run.debug('%s: %d: %s' % (item['name'], code, said[-200:]))
            check(code in (0, 1), 'restore of %s gives %s: %s' % (item['name'], code, said))
            shutil.rmtree(catalog.of('hostile'))
            refused += code
            if code == 0:
                code, said = tool('--check-data', backend.data)
                check(code in (0, 1), '--check-data after %s gives %s: %s' % (item['name'], code, said))
                served += serve_anything(backend, cluster)
        run.note('%d refused by the restore, %d served' % (refused, served))


def try_backup(client, name):
    client.call('SCREE', 'BACKUP', 'START', 'NAME', name)
    wait_for(lambda: is_idle(client), 'backup %s to end' % name)
    return status(client)['last-status']


@suite.case('rows that no program writes, in files whose checksums are right, crash neither a backup, nor its restore, nor the server')
def _(run):
    with BackupCatalog() as catalog, Cluster(1, 1, 0, backend_options=catalog.options) as cluster:
        with cluster.partition(0) as client:
            fill(client)
        backend, served, restored = cluster.backends[0], 0, 0
        backend.kill9()
        good = backend.data + '.good'
        shutil.copytree(backend.data, good)
        for number in range(sized(8, long=300)):
            shutil.rmtree(backend.data)
            shutil.copytree(good, backend.data)
            damage_anything(os.path.join(backend.data, 'partition-0'), run.rng, run.rng.choice((1, 5, 50)))
            name = 'odd-%d' % number
            done = []
            if not serve_anything(backend, cluster, lambda client, name=name, done=done: done.append(try_backup(client, name))):
                continue
            served += 1
            if done != ['ok']:  # the backend has said why
                continue
            shutil.rmtree(backend.data)
            code, said = tool('--config', backend.config_path, '--restore', os.path.join(catalog.of(name), 'partition-0'))
            check(code in (0, 1), '%s: the restore gives %s: %s' % (name, code, said))
            if code == 0:
                code, said = tool('--check-data', backend.data)
                check(code in (0, 1), '%s: --check-data gives %s: %s' % (name, code, said))
                restored += serve_anything(backend, cluster)
        run.note('%d served, %d of them restored and served' % (served, restored))


def serve_anything(backend, cluster, act=None):
    """Starts the backend, which may refuse the data, reads all keys, and calls `act` with the client; it must not crash. True: it served."""
    try:
        backend.start()
    except Failure:
        check(backend.child is None or backend.child.poll() in (None, 1), 'the backend ended: %s' % backend.log_tail())
        if backend.alive():
            backend.kill9()
        backend.child = None
        return False
    with cluster.partition(0) as client:
        for key in scan_all(client):
            for command in (('TYPE', key), ('DUMP', key)):
                client.call(*command)
        check_equal(client.call('PING'), ('+', b'PONG'))
        if act:
            act(client)
    backend.kill9()
    return True


@suite.case('a changed byte in any file is found, and prevents a restore; so do missing or foreign files and shards')
def _(run):
    with BackupCatalog() as catalog:
        with Cluster(1, 2, 1, backend_options=catalog.options) as cluster:
            client = cluster.connect()
            fill(client)
            backup(client, 'b', *LEASE)
        files = [os.path.join(folder, name) for folder, _, found in os.walk(catalog.of('b')) for name in found]
        check(len(files) > 10, 'files: %r' % files)
        for path in files:
            with open(path, 'rb') as file:
                content = file.read()
            at, bit = run.rng.randrange(len(content)), 1 << run.rng.randrange(8)
            with open(path, 'wb') as file:
                file.write(content[:at] + bytes([content[at] ^ bit]) + content[at + 1:])
            code, text = tool('--verify-backup', catalog.of('b'))
            check(code == 1 and 'damaged' in text, '%s, byte %d: not found: %s' % (path, at, text))
            if path.endswith('.sst') or 'MANIFEST' in path:
                with tempfile.TemporaryDirectory() as data:
                    code, text = tool('--restore', os.path.dirname(path), '--data', data)
                    check(code == 1 and 'not restored' in text, '%s: restored: %s' % (path, text))
            with open(path, 'wb') as file:
                file.write(content)
        code, text = tool('--verify-backup', catalog.of('b'))
        check(code == 0, 'all is as before: %s' % text)
        with open(os.path.join(catalog.of('b'), 'b0p0', '000099.sst'), 'wb') as file:
            file.write(b'x')
        code, text = tool('--verify-backup', catalog.of('b'))
        check(code == 1 and '000099' in text, 'a strange file: %s' % text)
        shutil.rmtree(os.path.join(catalog.of('b'), 'b0p0'))
        code, text = tool('--verify-backup', catalog.path)
        check(code == 1 and 'incomplete' in text, 'a missing shard: %s' % text)
        with tempfile.TemporaryDirectory() as data:
            code, text = tool('--restore', catalog.of('b'), '--data', data, '--map', cluster_map(data))
            check(code == 1 and 'b0p0' in text, 'a shard that is missing: %s' % text)


@suite.case('shards with disks of their own: a missing part is named; several directories make one backup')
def _(run):
    with BackupCatalog() as catalog:
        with Cluster(1, 3, 1, backend_options=catalog.options) as cluster:
            client = cluster.connect()
            fill(client)
            before = snapshot(client)
            backup(client, 'b', *LEASE)
            addresses = ['%s:%d' % address for _, address, _ in cluster.shard_addresses()]
        disks = [os.path.join(catalog.path, disk) for disk in ('disk0', 'disk1', 'disk2')]
        for i, disk in enumerate(disks):
            os.makedirs(os.path.join(disk, 'b'))
            os.rename(os.path.join(catalog.of('b'), 'b0p%d' % i), os.path.join(disk, 'b', 'b0p%d' % i))
        os.rmdir(catalog.of('b'))
        code, text = tool('--verify-backup', disks[0])
        check(code == 1 and "shard 'b0p1' of %s is missing" % addresses[1] in text, text)
        check('2 of 3 shards are missing' in text and '%s/b,/other/disk' % disks[0] in text, text)
        code, text = tool('--verify-backup', ','.join(disks[:2]))
        check(code == 1 and "'b0p2' of" in text and "'b0p1' of" not in text and '1 of 3' in text, text)
        code, text = tool('--verify-backup', ','.join(disks))
        check(code == 0 and text.count('good: ') == 3, text)
        joined = ','.join(os.path.join(disk, 'b') for disk in disks)
        check_equal(tool('--verify-backup', joined)[0], 0)
        code, text = tool('--verify-backup', joined + ',' + os.path.join(disks[0], 'b'))
        check(code == 1 and 'shard b0p0 is in' in text, 'the same one twice: %s' % text)
        alone = os.path.join(disks[1], 'b', 'b0p1')
        code, text = tool('--verify-backup', alone)
        check(code == 0, 'one shard, by itself: %s' % text)
        with tempfile.TemporaryDirectory() as data:
            code, text = tool('--restore', alone, '--data', data)
            check(code == 0 and 'shard b0p1 unchanged' in text, text)
        with restored(joined, 1, 2) as cluster:
            same(before, snapshot(cluster.connect()), 'restored from three disks')


if __name__ == '__main__':
    suite.main()
