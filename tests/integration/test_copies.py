#!/usr/bin/python3
"""Warm copies: each copy of a shard has all that its leader has acknowledged, and can take its place."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import threading
import time

from support.cluster import Cluster, binary, evict_all, metric, scan_all
from support.copies import Copies, ThreeShards, TwoShards, fields, number_at
from support.harness import Suite, check, check_equal, sized, wait_for
from support.other_version import PEER_PROTOCOL
from support.resp import Connection, ReplyError, value

suite = Suite(__doc__)
KEYS = sized(2000, long=200000)
COMPACTION_WAIT_S = 15  # compaction.c: for rows that are not in the tables
LAGS = ('scree_backend_copies_log_unreadable', 'scree_backend_copy_lag_seconds')


def figure(backend, name):
    """The metric of a backend with one partition."""
    return metric(backend.http('/metrics')[1], name)


def load(connection, prefix, count=KEYS, size=100):
    """Strings, and a collection of each kind."""
    for first in range(0, count, 500):
        words = [word for i in range(first, min(first + 500, count))
                 for word in ('{%s}:%d' % (prefix, i), 'v%d' % i + 'x' * size)]
        check_equal(connection.get('MSET', *words), b'OK')
    connection.get('RPUSH', prefix + ':list', *range(100))
    connection.get('SADD', prefix + ':set', *range(100))
    connection.get('ZADD', prefix + ':zset', *[word for i in range(100) for word in (i, 'm%d' % i)])
    connection.get('HSET', prefix + ':hash', *[word for i in range(100) for word in ('f%d' % i, i)])


def contents(connection, prefix, count=KEYS):
    """What load() has written, as it is now, by kind."""
    strings = []
    for first in range(0, count, 500):
        strings += connection.get('MGET', *['{%s}:%d' % (prefix, i) for i in range(first, min(first + 500, count))])
    return {'strings': strings, 'list': connection.get('LRANGE', prefix + ':list', 0, -1),
            'set': connection.get('SMEMBERS', prefix + ':set'), 'hash': connection.get('HGETALL', prefix + ':hash'),
            'zset': connection.get('ZRANGE', prefix + ':zset', 0, -1, 'WITHSCORES'), 'keys': connection.get('DBSIZE')}


def check_equal_copies(copies, prefix='key'):
    copies.wait_follows(*copies.order[1:])
    with copies.leader() as leader:
        want = contents(leader, prefix)
    for index in copies.order[1:]:
        with copies.reader(index) as reader:
            wait_for(lambda: reader.get('DBSIZE') == want['keys'], 'copy %d to count the keys' % index)
            got = contents(reader, prefix)
            for kind in want:
                check_equal(got[kind], want[kind], '%s of copy %d' % (kind, index))


# ---- maps ----------------------------------------------------------------------------------------------------------

def refused_start(copies, **options):
    """The reason why the first backend does not start with these options."""
    backend = copies.backends[0]
    backend.options = {'backend': dict(backend.options['backend'], **options)}
    backend.write_config()
    copies.write_shards()
    backend.spawn()
    check_equal(backend.wait_exit(), 1, 'exit code')
    backend.child = None
    return backend.log().decode().splitlines()[-1]


@suite.case('a shard with several addresses is refused by a backend that cannot be a copy, with the reason')
def _(run):
    cluster = Copies(proxies=0)
    try:
        for option, value, reason in (('replicas', 'no', 'its copies need replicas = yes'),
                                      ('durability', 'everysec', 'its copies need durability = always')):
            line = refused_start(cluster, **{'replicas': 'yes', 'durability': 'always', option: value})
            check('start_failed' in line and 'shards: shard a has 3 addresses, so ' + reason in line, line)
    finally:
        shutil.rmtree(cluster.folder, ignore_errors=True)


@suite.case('two partitions of one process are no copies of one shard')
def _(run):
    cluster = Cluster(backends=1, partitions=2, proxies=0, linked=True, backend_options={'backend': {'replicas': 'yes'}})
    try:
        backend = cluster.backends[0]
        with open(cluster.shards_path, 'w') as file:
            file.write('[map]\nepoch = 1\n[shard a]\nslots = 0-16383\naddress = %s\n'
                       % ' '.join('%s:%d' % address[:2] for address in backend.addresses))
        backend.write_config()
        backend.spawn()
        check_equal(backend.wait_exit(), 1, 'exit code')
        backend.child = None
        check('shard a has two addresses of this process' in backend.log_tail(1), backend.log_tail(1))
    finally:
        shutil.rmtree(cluster.folder, ignore_errors=True)


@suite.case('a reload that gives a shard of a backend without copies a second address is refused, and the old map stays')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.partition(0) as partition:
        backend, (host, port) = cluster.backends[0], cluster.shard_addresses()[0][1]
        text = cluster.shards_text().replace('address = %s:%d' % (host, port), 'address = %s:%d %s:1' % (host, port, host))
        with open(cluster.shards_path, 'w') as file:
            file.write(text)
        backend.signal(1)
        wait_for(lambda: b'reload_refused' in backend.log(), 'the reload to be refused')
        check(b'so its copies need replicas = yes' in backend.log(), 'the reason')
        check_equal(partition.get('SET', cluster.key_on(0), 'v'), b'OK')


# ---- copies --------------------------------------------------------------------------------------------------------

@suite.case('copies that join have all that the leader has, show it to clients, and refuse writes')
def _(run):
    with Copies() as copies:
        with copies.leader() as leader:
            load(leader, 'key')
        check_equal_copies(copies)
        check_equal(copies.info(0)['role'], 'master')

        def are_online():
            master = copies.info(0)
            return master['connected_slaves'] == '2' and all('state=online' in master[name] for name in ('slave0', 'slave1'))
        wait_for(are_online, 'both copies to be connected')
        host, port = copies.backends[0].addresses[0][:2]
        for index in (1, 2):
            slave = copies.info(index)
            check_equal([slave['role'], slave['master_host'], slave['master_port']], ['slave', host, str(port)])
            with copies.reader(index) as reader:
                wait_for(lambda: reader.get('ROLE')[:4] == [b'slave', host.encode(), port, b'connected'], 'copy %d to be connected' % index)
                check_equal(copies.info(index)['master_link_status'], 'up')
                for words in (['SET', '{key}:1', 'w'], ['DEL', '{key}:1'], ['EVAL', "redis.call('SET', KEYS[1], 1)", 1, '{key}:1']):
                    check(isinstance(reader.get(*words), ReplyError), 'a copy has executed %r' % (words,))
                check_equal(reader.get('GET', '{key}:1'), b'v1' + b'x' * 100)
        with copies.leader() as leader:
            wait_for(lambda: [len(part) if isinstance(part, list) else part for part in leader.get('ROLE')][::2] == [b'master', 2], 'ROLE of the leader')
        with copies.connect() as client:
            check_equal(client.get('GET', '{key}:1'), b'v1' + b'x' * 100)
            check(str(client.get('SCREE', 'REPLICAS', 'FORCE')).startswith('ERR connect to the copy itself'), 'FORCE through a proxy')


@suite.case('a copy that was killed, or away for a while, goes on where it was; the leader serves without it')
def _(run):
    with Copies() as copies:
        with copies.leader() as leader:
            load(leader, 'key')
            copies.wait_follows(1, 2)
            copies.backends[1].kill9()
            load(leader, 'later')
        wait_for(lambda: copies.info(0)['connected_slaves'] == '1', 'the other copy to be connected')
        copies.backends[1].start()
        check_equal_copies(copies, 'later')
        check(b'snapshot' not in copies.backends[1].log().split(b'started version')[-1], 'the copy has fetched all files again')


@suite.case('a leader that is killed serves again when it has started, and loses nothing that it has acknowledged')
def _(run):
    with Copies() as copies:
        with copies.leader() as leader:
            load(leader, 'key')
        copies.backends[0].kill9()
        copies.backends[0].start()
        copies.wait_serves(0)
        with copies.leader() as leader:
            check_equal(leader.get('GET', '{key}:7'), b'v7' + b'x' * 100)
            load(leader, 'later')
        check_equal_copies(copies, 'later')


@suite.case('keys of a FLUSHALL that is only in the log do not come back when the leader and its copy start again')
def _(run):
    with Copies() as copies:
        with copies.leader() as leader:
            load(leader, 'key')
            leader.get('SET', 'key', 'x')
        check_equal_copies(copies)
        for index in (0, 1):
            with copies.reader(index) as client:
                evict_all(client)  # the rows are in files
        with copies.leader() as leader:
            leader.get('FLUSHALL')
            leader.get('HSET', 'new', 'f', 'v')
        copies.wait_follows(1)
        for index in (0, 1):
            copies.backends[index].kill9()
        for index in (0, 1):
            copies.backends[index].start()
        copies.wait_serves(0)
        copies.wait_follows(1)
        for index in (0, 1):
            with copies.reader(index) as client:
                wait_for(lambda: client.get('DBSIZE') == 1, 'the keys to be counted')
                check_equal((client.get('KEYS', '*'), scan_all(client)), ([b'new'], {b'new'}), 'keys of copy %d' % index)


def wait_refused(copy):
    """FORCE while the leader lives is refused, whatever the copy knows; waits until it knows that the leader is connected."""
    def knows():
        reply = copy.get('SCREE', 'REPLICAS', 'FORCE')
        check(isinstance(reply, ReplyError), 'FORCE while the leader lives: %r' % reply)
        return str(reply).startswith('ERR the copy that leads is connected')
    wait_for(knows, 'the copy to know that the leader lives')


def replication_ids(copies):
    """What INFO replication of the copies names the log whose indexes are its offsets."""
    return {copies.info(index)['master_replid'] for index in range(len(copies.backends))}


@suite.case('a copy that is forced takes the place of a lost leader; the old one serves nothing, until it has the files of the new one')
def _(run):
    with Copies() as copies:
        with copies.leader() as leader:
            load(leader, 'key')
        copies.wait_follows(1, 2)
        before = replication_ids(copies)
        check_equal(len(before), 1, 'replication ids')
        with copies.copy(1) as connection:
            wait_refused(connection)
        copies.backends[0].kill9()
        copies.force(1)
        with copies.leader() as leader, copies.connect() as client:
            check_equal(leader.get('GET', '{key}:7'), b'v7' + b'x' * 100)
            load(leader, 'later')
            wait_for(lambda: client.get('SET', 'new', '1') == b'OK', 'the proxy to use the new map')
        copies.backends[0].spawn()
        copies.wait_phase(0, 'overtaken')
        with copies.reader(0) as old:
            check(isinstance(old.get('GET', '{key}:7'), ReplyError), 'the old leader serves')
        for index in (0, 2):
            copies.wait_phase(index, 'overtaken')
            copies.backends[index].kill9()
            shutil.rmtree(copies.backends[index].data)
            copies.backends[index].start()
        check_equal_copies(copies, 'later')
        after = replication_ids(copies)
        check(len(after) == 1 and after != before, 'replication ids: %r, then %r' % (before, after))


class TwoOfProcess(Copies):
    """Shards a and b, each with a copy in each of two processes; clients connect to the partitions themselves."""

    def __init__(self):
        super().__init__(copies=2, partitions=2, proxies=0)

    def shards_text(self, slots=None):
        self.epoch += 1
        text = '[map]\nepoch = %d\n' % self.epoch
        for partition, name, half in ((0, 'a', '0-8191'), (1, 'b', '8192-16383')):
            addresses = ' '.join('%s:%d' % self.backends[i].addresses[partition][:2] for i in self.order)
            text += '[shard %s]\nslots = %s\naddress = %s\n' % (name, half, addresses)
        return text


@suite.case('another copy is forced while the leader stands still: the old leader steps down, and the other partition of its process goes on')
def _(run):
    with TwoOfProcess() as copies:
        old = copies.backends[0]
        with Connection(old.addresses[1]) as other:
            low, high = key_between(other, 0, 8191), key_between(other, 8192, 16383)
            wait_for(lambda: other.get('SET', high, '1') == b'OK', 'shard b to serve', pause=0.05)
        with copies.leader() as leader:
            check_equal(leader.get('SET', low, '1'), b'OK')
        copies.wait_follows(1)
        with copies.leader() as writer, copies.leader() as waiter, Connection(old.addresses[1]) as other:
            waiter.send('BLPOP', '{%s}list' % low, 0)
            check_equal(writer.get('SET', low, '2'), b'OK')
            old.pause()
            copies.force_unmapped(1)
            writer.send('SET', low, '3')  # it may run before the old leader hears of the new one
            old.resume()
            value(writer.read())
            copies.wait_phase(0, 'overtaken')
            check(isinstance(writer.get('GET', low), ReplyError), 'the old leader serves')
            check('UNBLOCKED' in str(value(waiter.read())), 'a command that waits at the old leader')
            check_equal([other.get('SET', high, '2'), other.get('GET', high)], [b'OK', b'2'])
        check(b'leadership_given_up' in old.log() and b'leadership_lost' not in old.log(), 'the log of the old leader')
        with copies.copy(1) as leader:
            check(leader.get('GET', low) in (b'1', b'2'), 'what the copy had')
            check_equal(leader.get('SET', low, '4'), b'OK')


def damage_log(backend):
    """Flips a bit of a record of the log that is on the disk, and is followed by others."""
    names = sorted(glob.glob(os.path.join(backend.data, 'partition-0', '*.batches')))
    with open(names[-1], 'r+b') as file:
        at = len(file.read().rstrip(b'\0')) // 2
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@suite.case('a copy whose log is damaged is lost over all starts, until its directory is moved away')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        copies.wait_follows(1)
        with copies.leader() as leader:
            for i in range(100):
                check_equal(leader.get('SET', 'k', 'v' * 100 + str(i)), b'OK')
        copies.wait_follows(1)
        copy = copies.backends[1]
        copy.kill9()
        damage_log(copy)
        for _ in range(2):
            copy.start()
            copies.wait_phase(1, 'lost')
            copy.kill9()
        os.rename(os.path.join(copy.data, 'partition-0'), os.path.join(copy.data, 'moved'))
        copy.start()
        copies.wait_follows(1)


@suite.case('a copy streams a reply that is longer than reply-limit, as the leader does: one moment, while records are added')
def _(run):
    with Copies(copies=2, proxies=0, backend_options={'backend': {'reply-limit': '1mb'}}) as copies, copies.leader() as leader:
        values = [b'%07d' % i + b'x' * 100 for i in range(100000)]
        for first in range(0, len(values), 1000):
            leader.get('RPUSH', 'list', *values[first:first + 1000])
        copies.wait_follows(1)
        with copies.reader(1) as reader, copies.reader(1) as other:
            reader.send('LRANGE', 'list', 0, -1)
            wait_for(lambda: b'cmd=lrange' in other.get('CLIENT', 'LIST'), 'the reply to begin')
            check_equal(leader.get('DEL', 'list'), 1)
            wait_for(lambda: other.get('EXISTS', 'list') == 0, 'the copy to follow')
            check(value(reader.read()) == values, 'the reply')


@suite.case('a copy whose directory was set back to an older state gets what it lacks, and the leader says so')
def _(run):
    with Copies(copies=2, proxies=0) as copies, copies.leader() as leader:
        copy = copies.backends[1]
        load(leader, 'key', 500)
        copies.wait_follows(1)
        copy.kill9()
        shutil.copytree(copy.data, copy.data + '.old')
        copy.start()
        load(leader, 'later', 500)
        copies.wait_follows(1)
        copy.kill9()
        shutil.rmtree(copy.data)
        os.rename(copy.data + '.old', copy.data)
        copy.start()
        wait_for(lambda: b'copy_went_back' in copies.backends[0].log(), 'the leader to see it')
        check_equal_copies(copies, 'later')
        check(b'snapshot' not in copy.log().split(b'started version')[-1], 'the copy has fetched all files again')


@suite.case('a copy whose disk was copied from another one is not heard, with a line in the log, until it has an empty directory')
def _(run):
    with Copies(proxies=0) as copies, copies.leader() as leader:
        copies.wait_follows(1, 2)
        first, second = copies.backends[1:]
        for copy in (first, second):
            copy.kill9()
        shutil.rmtree(second.data)
        shutil.copytree(first.data, second.data)
        first.start()
        copies.wait_follows(1)
        second.start()
        address = b'%s:%d' % (second.addresses[0][0].encode(), second.addresses[0][1])
        wait_for(lambda: b'replica_double address=' + address in copies.backends[0].log(), 'the leader to see it')
        load(leader, 'key', 500)
        copies.wait_follows(1)
        second.kill9()
        shutil.rmtree(second.data)
        second.start()
        check_equal_copies(copies)


@suite.case('a leader that cannot read its log says so, and how long its copy lags; a copy that has all does not lag, also while nothing is written')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        leader, copy = copies.backends
        segments, moved = os.path.join(leader.data, 'partition-0', '*.batches'), leader.data + '.moved'
        copies.wait_follows(1)
        wait_for(lambda: [figure(leader, name) for name in LAGS] == [0, 0], 'no complaint', pause=0.05)
        copy.kill9()
        wait_for(lambda: figure(leader, 'scree_backend_copies_up') == 1, 'the copy to be missed')
        with copies.leader() as connection:
            for i in range(100):
                check_equal(connection.get('SET', 'k', 'v' * 100 + str(i)), b'OK')
        newest = sorted(glob.glob(segments))[-1]
        os.rename(newest, moved)
        copy.start()
        wait_for(lambda: figure(leader, LAGS[0]) == 1 and figure(leader, LAGS[1]) > 0, 'the leader to complain', pause=0.05)
        check(b'replica_log_unreadable' in leader.log(), 'the line of the log')
        check_equal(figure(leader, 'scree_backend_copies_up'), 2)
        os.rename(moved, newest)
        copies.wait_follows(1)
        wait_for(lambda: [figure(leader, name) for name in LAGS] == [0, 0], 'no complaint', pause=0.05)


@suite.case('a copy that has just started, beside a leader that lives, is not forced')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        copies.wait_follows(1)
        copy = copies.backends[1]
        for _ in range(sized(3, long=100)):
            copy.kill9()
            copy.start()
            with copies.copy(1) as connection:
                wait_refused(connection)
        check_equal(copies.phase(0), 'serving')


@suite.case('proxies follow a copy that is forced, without a new map: requests wait for it, and clients go on')
def _(run):
    with Copies(proxy_options={'upstream': {'hold': '1m'}}) as copies, copies.connect() as client, copies.connect() as other, \
            copies.connect() as subscriber:
        load(client, 'key')
        subscriber.get('SUBSCRIBE', 'channel')
        copies.wait_follows(1, 2)
        check_equal(other.get('GET', '{key}:7'), b'v7' + b'x' * 100)
        copies.backends[0].kill9()
        wait_for(lambda: copies.proxies[0].http('/readyz')[0] != 200, 'the proxy to notice')
        client.send('SET', 'new', '1')  # so it is sent to no copy yet
        copies.force_unmapped(1)
        check_equal(value(client.read()), b'OK')
        check_equal(other.get('MGET', '{key}:7', '{key}:8'), [b'v7' + b'x' * 100, b'v8' + b'x' * 100])
        wait_for(lambda: client.get('PUBLISH', 'channel', 'm') == 1, 'the subscription to be made anew', pause=0.05)
        check_equal(value(subscriber.read()), [b'message', b'channel', b'm'])
        address = b'%s:%d' % (copies.backends[1].addresses[0][0].encode(), copies.backends[1].addresses[0][1])
        check(b'shard_a:address=' + address in client.get('SCREE', 'MAP', 'STATUS'), 'the address that leads')
        # it greets the copy on a connection of its own, which may take longer than it waits on a busy machine
        status = [binary('scree-proxy'), '--config', copies.proxies[0].config_path, '--map-status']
        wait_for(lambda: b'shard_a:address=' + address + b',state=up' in subprocess.run(status, capture_output=True).stdout,
                 '--map-status to say that the copy leads')
        copies.backends[0].spawn()
        copies.wait_phase(0, 'overtaken')
        check_equal([client.get('INCR', 'count'), other.get('INCR', 'count')], [1, 2])
        with copies.copy(1) as leader:
            check_equal(leader.get('GET', 'count'), b'2')
        copies.proxies[0].stop()
        copies.proxies[0].start()  # it finds the leader, which the map does not name first
        with copies.connect() as client:
            check_equal(client.get('INCR', 'count'), 3)


@suite.case('a copy that is killed while it fetches files, or puts them in place, has all in the end')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        with copies.leader() as leader:
            load(leader, 'key')
        copies.wait_follows(1)
        copy = copies.backends[1]
        for _ in range(sized(4, long=100)):
            copy.kill9()
            shutil.rmtree(copy.data)
            copy.spawn()
            time.sleep(run.rng.uniform(0.05, 1.5))
            copy.kill9()
            copy.start()
        check_equal_copies(copies)
        copies.backends[0].kill9()
        copies.force(1)
        with copies.leader() as leader:
            check_equal(leader.get('GET', '{key}:1'), b'v1' + b'x' * 100)


@suite.case('a forced copy has all writes up to one moment, none of them in part')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        done = sized(2000, long=100000)
        script = "redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])"
        copies.wait_follows(1)
        with copies.leader() as leader:
            for i in range(done):
                check_equal(leader.get('EVAL', script, 2, '{k}list', '{k}count', i), i + 1)
            copies.backends[0].kill9()
        copies.force(1)
        with copies.leader() as forced:
            count = int(forced.get('GET', '{k}count') or 0)
            check_equal(forced.get('LRANGE', '{k}list', 0, -1), [b'%d' % i for i in range(count)], 'the list')
            run.note('%d of %d writes are there' % (count, done))


@suite.case('an address that a new map adds gets a copy, without a restart of the leader')
def _(run):
    copies = Copies(proxies=0)
    copies.order = [0, 1]
    third = copies.backends.pop()
    with copies:
        with copies.leader() as leader:
            load(leader, 'key')
        copies.backends.append(third)
        copies.order = [0, 1, 2]
        copies.write_shards()
        for backend in copies.backends[:2]:
            backend.signal(signal.SIGHUP)
        copies.start_retrying(third)
        check_equal_copies(copies)


@suite.case('a reload that gives a shard its first copies says that it needs a restart, and the shard is served')
def _(run):
    copies = Copies(copies=2, proxies=0)
    copies.order = [0]
    with copies, copies.leader() as leader:
        check_equal(leader.get('SET', 'k', 'v'), b'OK')
        copies.order = [0, 1]
        copies.write_shards()
        for backend in copies.backends:
            backend.signal(signal.SIGHUP)
            wait_for(lambda: b' needs_restart="shards"' in backend.log(), 'the reload to say so')
        check_equal(leader.get('INCR', 'n'), 1)
        for backend in copies.backends:
            backend.kill9()
        shutil.rmtree(copies.backends[1].data)
        for backend in copies.backends:
            backend.start()
        copies.wait_follows(1)
        with copies.reader(1) as reader:
            check_equal([reader.get('GET', key) for key in ('k', 'n')], [b'v', b'1'])


def record_terms(backend):
    """The terms of the records of the log, oldest first, when the backend has ended."""
    lines = subprocess.run([*backend.argv[:1], '--dump-log', backend.data], capture_output=True, check=True).stdout.split(b'\n')
    return [int(words[words.index(b'term') + 1]) for words in map(bytes.split, lines) if words[1:2] and words[1] in (b'batch', b'probe', b'members')]


@suite.case('a group whose map names one copy is a group of one, also after a restart: its records have terms, and a new copy follows it')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        leader, copy = copies.backends
        copies.wait_follows(1)
        copy.kill9()
        copies.order = [0]
        copies.write_shards()
        for i in range(2):
            leader.kill9()
            leader.start()
            copies.wait_serves(0)
            with copies.leader() as connection:
                check_equal(connection.get('RPUSH', 'list', i), i + 1)
        wait_for(lambda: [line['kind'] for line in copies.replicas(0)[1]] == ['voter'], 'the other copy to be no member')
        leader.kill9()
        terms = record_terms(leader)
        check(terms and terms == sorted(terms) and terms[-1] >= 3, 'terms of records: %r' % terms)
        shutil.rmtree(copy.data)
        copies.order = [0, 1]
        copies.write_shards()
        for backend in (leader, copy):
            backend.start()
        copies.wait_follows(1)
        with copies.reader(1) as reader:
            check_equal(reader.get('LRANGE', 'list', 0, -1), [b'0', b'1'])


@suite.case('options that copies need stay')
def _(run):
    with Copies(copies=2, proxies=0) as copies, copies.leader() as leader:
        check(str(leader.get('CONFIG', 'SET', 'appendfsync', 'everysec')).endswith('the copies of this shard need always'), 'appendfsync')
        check_equal(leader.get('CONFIG', 'GET', 'appendfsync'), [b'appendfsync', b'always'])


# ---- several shards ------------------------------------------------------------------------------------------------

def key_between(partition, first, last):
    """A name of a key whose slot is one of these."""
    return next(name for name in ('n%d' % i for i in range(100000))
                if first <= partition.get('CLUSTER', 'KEYSLOT', name) <= last)


def deal(client, giver, taker):
    """Moves 1 from one key to another; the reply."""
    for words in (('MULTI',), ('INCRBY', giver, -1), ('INCRBY', taker, 1)):
        client.get(*words)
    return client.get('EXEC')


def deals_go_on(copies, giver, taker, refused, is_over):
    with copies.connect() as client:
        while not is_over.is_set():
            reply = deal(client, giver, taker)
            if isinstance(reply, ReplyError):
                refused.append(str(reply))


def link_of(copies, index, shard):
    """State of a link, the backend to which it leads, and the generation there."""
    link = copies.link(index, shard)
    ports = {'%s:%d' % backend.addresses[0][:2]: i for i, backend in enumerate(copies.backends)}
    return [link.get('state'), ports.get(link.get('address')), int(link.get('generation', 0))]


@suite.case('a copy of one of several shards sends clients to the leaders of the others, also after slots have moved')
def _(run):
    with TwoShards() as copies, copies.connect() as client:
        with copies.copy(0) as node:
            low, high = key_between(node, 4096, 8191), key_between(node, 8192, 16383)
        for key in (low, high):
            check_equal(client.get('SET', key, 'v'), b'OK')
        copies.wait_copied()
        for index, shard, leader in ((1, 'a', 0), (3, 'b', 2)):  # to other shards, too
            with copies.copy(index) as node:
                check_equal(node.get('SCREE', 'AUTH', copies.secret), b'OK')
                expected = ['NOTLEADER', '%s:%d' % copies.backends[leader].addresses[0][:2]]
                wait_for(lambda: str(node.get('SCREE', 'PEER', PEER_PROTOCOL, shard, '')).split()[:2] == expected, 'the leader to be named')
                check('another shard' in str(node.get('SCREE', 'PEER', PEER_PROTOCOL, 'x', '')), 'a peer that seeks another shard')
                check('same version' in str(node.get('SCREE', 'PEER', '7', shard, '')), 'a peer of another version')
        with copies.reader(1) as of_a, copies.reader(3) as of_b:
            check_equal([of_a.get('GET', low), of_b.get('GET', high)], [b'v', b'v'])
            for reader, key, owner in ((of_a, high, 2), (of_b, low, 0)):
                moved = ['MOVED', '%s:%d' % copies.backends[owner].addresses[0][:2]]
                wait_for(lambda: str(reader.get('GET', key)).split()[0::2] == moved, 'a copy to send clients to %s' % moved[1])
                nodes = [[0, 8191, copies.backends[0].addresses[0][1]], [8192, 16383, copies.backends[2].addresses[0][1]]]
                wait_for(lambda: [[first, last, node[1]] for first, last, node, *_copies in reader.get('CLUSTER', 'SLOTS')] == nodes, 'its nodes')
            copies.halves = ['0-4095', '4096-16383']
            copies.reload()
            wait_for(lambda: of_b.get('GET', low) == b'v', 'the slot to have moved', pause=0.05)
            wait_for(lambda: isinstance(of_a.get('GET', low), ReplyError), 'the copy of the giver to know it', pause=0.05)
            wait_for(lambda: [of_a.get('DBSIZE'), of_b.get('DBSIZE')] == [0, 2], 'the counters')


@suite.case('transactions over shards are whole when a leader is killed and starts again, and go on when a copy takes its place')
def _(run):
    with TwoShards(proxy_options={'upstream': {'hold': '1m'}}) as copies, copies.connect() as client:
        with copies.copy(0) as node:
            low, high = key_between(node, 0, 8191), key_between(node, 8192, 16383)
        refused, is_over = [], threading.Event()
        threads = [threading.Thread(target=deals_go_on, args=(copies, low, high, refused, is_over)) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_for(lambda: (number_at(client, high) or 0) > 50, 'some deals')
        copies.backends[0].kill9()
        copies.backends[0].start()
        copies.wait_phase(0, 'serving')
        done = wait_for(lambda: number_at(client, high), 'the key to be free')
        wait_for(lambda: (number_at(client, high) or 0) > done + 50, 'deals to go on')
        is_over.set()
        for thread in threads:
            thread.join()
        # a shard waits for another one that starts for seconds at most
        check(all('connection lost before the reply' in text or text.startswith('TRYAGAIN') for text in refused), refused)
        wait_for(lambda: number_at(client, low) == -(number_at(client, high) or 0), 'both halves of each deal')
        copies.wait_copied()
        generation = link_of(copies, 2, 'a')[2]
        have = int(wait_for(lambda: number_at(client, low), 'the key to be free'))
        copies.backends[0].kill9()
        with copies.copy(1) as copy:
            wait_for(lambda: copy.get('SCREE', 'REPLICAS', 'FORCE') == b'OK', 'the link to the leader to break', pause=0.05)
        copies.wait_phase(1, 'serving')
        def follows():
            state, index, number = link_of(copies, 2, 'a')
            check(index != 1 or state != 'up' or number > generation, 'the generation %d is not above %d' % (number, generation))
            return (state, index) == ('up', 1)
        wait_for(follows, 'the other shard to follow the copy, without a new map', pause=0.05)
        with copies.copy(2) as node:
            address = '%s:%d' % copies.backends[1].addresses[0][:2]
            wait_for(lambda: str(node.get('GET', low)).split()[2:] == [address], 'clients to be sent to the copy')
            check_equal(node.get('CLUSTER', 'SLOTS')[0][2][1], copies.backends[1].addresses[0][1])
        copies.orders[0].reverse()
        copies.reload()
        wait_for(lambda: number_at(client, low) == have, 'the proxy to use the copy')
        wait_for(lambda: not isinstance(deal(client, low, high), ReplyError), 'deals to go on')
        wait_for(lambda: number_at(client, low) == -(number_at(client, high) or 0), 'both halves of the deal')


class Beside(Copies):
    """Shard a has copies at backends 0 and 1, shard b has one at backend 2."""

    def shards_text(self, slots=None):
        self.epoch += 1
        at = ['%s:%d' % backend.addresses[0][:2] for backend in self.backends]
        text = '[map]\nepoch = %d\n[shard a]\nslots = 0-8191\naddress = %s\n[shard b]\nslots = 8192-16383\naddress = %s\n'
        return text % (self.epoch, ' '.join(at[i] for i in self.order if i < 2), at[2])


def leave_stray(copies, backend):
    """The backend, which is no copy yet, gets a long hash in a slot of shard a. Its name, and its fields."""
    options, backend.options = backend.options, {}
    copies.start_retrying(backend)
    with copies.copy(backend.index) as connection:
        key = key_between(connection, 0, 8191)
        values = {b'f%d' % i: b'v%d' % i + b'x' * 100 for i in range(6000)}
        words = [word for pair in values.items() for word in pair]
        for first in range(0, len(words), 4000):
            connection.get('HSET', key, *words[first:first + 4000])
    backend.kill9()
    backend.options = options
    return key, values


def compact(connection):
    """Compacts everything: rows of no key are dropped."""
    def status():
        reply = connection.get('SCREE', 'COMPACT', 'STATUS')
        return dict(zip(reply[::2], reply[1::2]))
    check_equal(connection.get('SCREE', 'COMPACT', 'START'), b'OK')
    wait_for(lambda: status()[b'state'] == b'idle', 'the end of the compaction')
    check(status()[b'seconds'] < COMPACTION_WAIT_S, 'the compaction of a copy waited for rows that were applied')


def strays(connection):
    return fields(connection.get('SCREE', 'STRAYS', 'STATUS')[0])


@suite.case('a long key that comes from another shard in parts is whole at a copy that compacts its data at the same time')
def _(run):
    copies = Beside(proxies=0)
    copies.write_shards()
    key, values = leave_stray(copies, copies.backends[2])
    with copies:
        copies.wait_follows(1)
        with copies.copy(2) as giver, copies.copy(1) as copy:
            check_equal(giver.get('CONFIG', 'SET', 'migration-rate', '1kb'), b'OK')
            wait_for(lambda: not isinstance(giver.get('SCREE', 'STRAYS', 'MOVE'), ReplyError), 'the move to begin')
            wait_for(lambda: strays(giver)['bytes'] != '0', 'the first part to be there')
            copies.wait_follows(1)
            compact(copy)
            check_equal(strays(giver)['state'], 'moving')
            check_equal(giver.get('CONFIG', 'SET', 'migration-rate', '0'), b'OK')
            wait_for(lambda: strays(giver)['state'] == 'done', 'the end of the move')
            copies.wait_follows(1)
            compact(copy)
        copies.backends[0].kill9()
        copies.force(1)
        with copies.leader() as leader:
            got = leader.get('HGETALL', key)
            check_equal([leader.get('HLEN', key), len(got) // 2], [len(values)] * 2, 'fields')
            check(dict(zip(got[::2], got[1::2])) == values, 'values')


UNHEARD = {'backend': {'peer-timeout': '1m'}}  # for cases in which processes are killed, and no connection may be lost because this machine is slow


class Counting:
    """A client that counts on one connection as fast as it can. `replies`: numbers, and texts of errors."""

    def __init__(self, copies, key):
        self.copies, self.key = copies, key
        self.replies, self.is_over = [], threading.Event()
        self.thread = threading.Thread(target=self._count)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.is_over.set()
        self.thread.join()

    def _count(self):
        with self.copies.connect() as client:
            while not self.is_over.is_set():
                reply = client.get('INCR', self.key)
                self.replies.append(reply if isinstance(reply, int) else str(reply))

    def wait_goes_on(self):
        begin = len(self.replies)
        wait_for(lambda: sum(isinstance(reply, int) for reply in self.replies[begin:]) > 5, 'the client of %s to go on' % self.key)

    def breaks(self):
        """How often the next number was not the one before + 1; an error and what follows it are one."""
        numbers = [0] + [reply for reply in self.replies if isinstance(reply, int)]
        return sum(after != before + 1 for before, after in zip(numbers, numbers[1:]))


@suite.case('clients of three shards keep their connections, and go on, while two of the leaders are lost and their copies are forced, without a new map')
def _(run):
    with ThreeShards(proxy_options={'upstream': {'hold': '1m'}}, backend_options=UNHEARD) as copies, contextlib.ExitStack() as stack:
        with copies.copy(0) as node:
            tags = ['{%s}' % key_between(node, *map(int, third.split('-'))) for third in copies.halves]
        client, dealer, taker, hasty, waiter, later, watcher, subscriber = [stack.enter_context(copies.connect()) for _ in range(8)]
        subscriber.get('SUBSCRIBE', 'channel')
        counting = [stack.enter_context(Counting(copies, '%s:%d' % (tag, i))) for tag in tags for i in range(2)]
        with open(copies.shards_path, 'rb') as file:
            text = file.read()
        for shard, (lost, copy) in list(enumerate(copies.orders))[:2]:
            here, elsewhere = tags[shard], tags[2]
            for each in counting:
                each.wait_goes_on()
            check_equal(watcher.get('WATCH', here), b'OK')
            for each, keys in ((dealer, (here, elsewhere)), (taker, (elsewhere, here))):
                for words in (('MULTI',), ('INCR', keys[0] + 'deals'), ('INCR', keys[1] + 'deals')):
                    each.get(*words)
            waiter.send('BLPOP', elsewhere + 'list', 0)
            hasty.send('BLPOP', here + 'list', 0)
            wait_for(lambda: b'blocked_clients:2\r\n' in client.get('INFO', 'clients'), 'both to wait')
            wait_for(lambda: copies.hears(copy), 'the copy to follow', pause=0.05)
            copies.backends[lost].kill9()
            check('connection lost before the reply' in str(value(hasty.read())), 'a command that waits at the lost leader')
            wait_for(lambda: copies.proxies[0].http('/readyz')[0] != 200, 'the proxy to notice')
            later.send('BLPOP', here + 'list', 0)
            dealer.send('EXEC')
            taker.send('EXEC')
            client.send('MSET', here, '1', elsewhere, '2')
            copies.force_unmapped(copy)
            check_equal(value(client.read()), b'OK')
            check_equal(client.get('MGET', here, elsewhere), [b'1', b'2'])
            deals = [tuple(value(dealer.read())), tuple(reversed(value(taker.read())))]
            check_equal(sorted(deals), [(1, 2 * shard + 1), (2, 2 * shard + 2)])
            for key, blocked in ((elsewhere + 'list', waiter), (here + 'list', later)):
                check_equal(client.get('RPUSH', key, 'element'), 1)
                check_equal(value(blocked.read()), [key.encode(), b'element'])
            for words in (('MULTI',), ('SET', here, '3')):
                watcher.get(*words)
            refusal = watcher.get('EXEC')
            check(refusal is None or isinstance(refusal, ReplyError), 'EXEC after the watching leader was lost: %r' % refusal)
            wait_for(lambda: client.get('PUBLISH', 'channel', here) == 1, 'the subscription to be made anew', pause=0.05)
            check_equal(value(subscriber.read()), [b'message', b'channel', here.encode()])
            for each in counting:
                each.wait_goes_on()
            copies.backends[lost].spawn()
            copies.wait_phase(lost, 'overtaken')
            with copies.copy(lost) as old:
                check(isinstance(old.get('GET', here), ReplyError), 'the old leader serves')
            for each in counting:
                each.wait_goes_on()
        for each in counting:
            errors = [reply for reply in each.replies if isinstance(reply, str)]
            is_lost = not each.key.startswith(tags[2])
            check(all('connection lost before the reply' in error for error in errors), errors)
            check(len(errors) <= is_lost and each.breaks() <= is_lost, '%s: %r, %d breaks' % (each.key, errors, each.breaks()))
        with open(copies.shards_path, 'rb') as file:
            check_equal(file.read(), text)


@suite.case('of two copies that are forced at once one serves in the end, and clients of proxies go on there')
def _(run):
    with Copies(proxy_options={'upstream': {'hold': '1m'}}) as copies, copies.connect() as client:
        check_equal(client.get('SET', 'k', 'v'), b'OK')
        copies.wait_follows(1, 2)
        copies.backends[0].kill9()
        with copies.copy(1) as first, copies.copy(2) as second:
            def is_forced():
                for copy in (first, second):
                    copy.send('SCREE', 'REPLICAS', 'FORCE')
                return b'OK' in [value(copy.read()) for copy in (first, second)]
            wait_for(is_forced, 'a copy to believe that the leader is lost')
        phases = []

        def does_one_serve():
            for index in (1, 2):
                if not copies.backends[index].alive():  # it served before it heard of the other
                    copies.backends[index].spawn()
            phases[:] = [copies.phase(1), copies.phase(2)]
            return sorted(map(str, phases)) == ['overtaken', 'serving']
        wait_for(does_one_serve, 'one of them to serve', pause=0.05)
        serves = 1 + phases.index('serving')
        wait_for(lambda: client.get('SET', 'k', 'w') == b'OK', 'the proxy to follow')
        with copies.copy(serves) as node:
            check_equal(node.get('GET', 'k'), b'w')
        check_equal(client.get('GET', 'k'), b'w')


@suite.case('a shard that is founded anew, because all its copies were lost, is linked to other shards, and proxies find it')
def _(run):
    with TwoShards() as copies, copies.connect() as client:
        with copies.copy(0) as node:
            low = key_between(node, 0, 8191)
        copies.wait_copied()
        copies.backends[0].kill9()
        copies.force_unmapped(1)  # of a high generation, and at the second address
        wait_for(lambda: client.get('SET', low, 'v') == b'OK', 'the proxy to follow')
        copies.backends[1].kill9()
        for index in (0, 1):
            shutil.rmtree(copies.backends[index].data)
            copies.start_retrying(copies.backends[index])
        copies.wait_phase(0, 'serving')
        wait_for(lambda: link_of(copies, 2, 'a')[:2] == ['up', 0], 'the other shard to follow', pause=0.05)
        wait_for(lambda: copies.proxies[0].http('/readyz')[0] == 200, 'the proxy to find the leader')
        wait_for(lambda: b'leader_found shard=a address=%s:%d' % (b'127.0.0.1', copies.backends[0].addresses[0][1]) in copies.proxies[0].log(), 'it to follow')


# ---- founding ------------------------------------------------------------------------------------------------------

@suite.case('a group is founded when all other addresses answer that they are of none, or by the operator; never twice')
def _(run):
    copies = Copies(proxies=0)
    copies.write_shards()
    try:
        copies.start_retrying(copies.backends[0])
        copies.start_retrying(copies.backends[1])
        wait_for(lambda: b'founding_waits' in copies.backends[0].log(), 'the reason in the log')
        check_equal(copies.phase(0), 'none')
        with copies.leader() as leader:
            check(isinstance(leader.get('SET', 'k', 'v'), ReplyError), 'a copy of no group has executed SET')
            check_equal(leader.get('SCREE', 'REPLICAS', 'FOUND'), b'OK')
            copies.wait_serves(0)
            check_equal(leader.get('SET', 'k', 'v'), b'OK')
            check(str(leader.get('SCREE', 'REPLICAS', 'FOUND')).startswith('ERR this copy is of a group already'), 'a second group')
        copies.wait_follows(1)
        copies.backends[0].kill9()
        shutil.rmtree(copies.backends[0].data)
        copies.backends[0].start()
        wait_for(lambda: b'is a member of a group' in copies.backends[0].log(), 'the founder to find the group that is there')
        with copies.leader() as leader:
            check(str(leader.get('SCREE', 'REPLICAS', 'FOUND')).startswith('ERR the copy at '), 'a second group')
    finally:
        copies.abandon_quietly()


if __name__ == '__main__':
    suite.main()
