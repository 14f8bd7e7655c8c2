#!/usr/bin/python3
"""A backend that is dead, frozen or out of disk: only its keys are affected, the errors say so, and it recovers without
help.
"""

import errno
import os
import random
import threading
import time

from support import harness
from support.cluster import Cluster, metric
from support.disk import SmallDisk
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Closed, Connection, ReplyError, value

suite = Suite(__doc__)


class Prober(threading.Thread):
    """Writes and reads the keys of one shard in a loop, one request at a time; records errors, delays and wrong
    replies."""

    def __init__(self, address, shard, keys):
        super().__init__(daemon=True)
        self.address, self.shard, self.keys = address, shard, keys
        self.stopping = threading.Event()
        self.answers, self.errors, self.wrong = 0, [], []
        self.slowest, self.slowest_error = 0.0, 0.0

    def run(self):
        try:
            with Connection(self.address) as connection:
                serial = 0
                while not self.stopping.is_set():
                    serial += 1
                    self.probe(connection, self.keys[serial % len(self.keys)], b'%d' % serial)
        except (Closed, OSError) as error:
            self.wrong.append('lost its connection: %s: %s' % (type(error).__name__, error))

    def probe(self, connection, key, text):
        started = time.monotonic()
        replies = [value(reply) for reply in connection.pipeline([['SET', key, text], ['ECHO', text], ['GET', key]])]
        took = time.monotonic() - started
        if replies[1] != text:
            self.wrong.append('ECHO %r answered with %r' % (text, replies[1]))
        errors = [reply for reply in replies if isinstance(reply, ReplyError)]
        if errors:
            self.errors += [str(error) for error in errors]
            self.slowest_error = max(self.slowest_error, took)
            self.stopping.wait(0.005)  # an error comes at once: avoids a busy loop
            return
        self.answers += 1
        self.slowest = max(self.slowest, took)
        if replies[0] != b'OK' or replies[2] != text:
            self.wrong.append('SET and GET of %r answered with %r' % (text, replies))


class Probers:
    """One prober for each shard."""

    def __init__(self, cluster):
        self.all = [Prober(cluster.proxies[0].address, shard, [cluster.key_on(shard, 'probe%d' % i) for i in range(5)])
                    for shard in range(len(cluster.slots))]

    def __enter__(self):
        for prober in self.all:
            prober.start()
        return self.all

    def __exit__(self, *_):
        for prober in self.all:
            prober.stopping.set()
        for prober in self.all:
            prober.join(patience())
        return False


def names_of(cluster, backend):
    return [name for name, _, owner in cluster.shard_addresses() if owner is backend]


def check_unharmed(probers):
    for prober in probers:
        check(not prober.wrong, 'shard %d: %s' % (prober.shard, (prober.wrong or [''])[0]))


def wait_answers(probers, more):
    """Waits until each prober has `more` further correct replies."""
    wanted = [(prober, prober.answers + more) for prober in probers]
    wait_for(lambda: all(prober.answers >= target or prober.wrong for prober, target in wanted),
             'good answers from shards %s' % [prober.shard for prober in probers])


@suite.case('/readyz requires every shard, /readyz/any one of them')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        proxy = cluster.proxies[0]

        def state():
            return proxy.http('/readyz')[0], proxy.http('/readyz/any')[0]
        check_equal(state(), (200, 200))
        cluster.backends[0].kill9()
        wait_for(lambda: state() == (503, 200), 'one shard to be missed')
        check('shard b0p0 does not answer' in proxy.http('/readyz/any')[1], proxy.http('/readyz/any')[1])
        cluster.backends[1].kill9()
        wait_for(lambda: state() == (503, 503), 'both shards to be missed')
        for backend in cluster.backends:
            backend.start()
        wait_for(lambda: state() == (200, 200), 'both shards to be back')


@suite.case("a killed backend: its keys fail at once with the shard's name, other shards are not affected, and it comes back")
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        victim = cluster.backends[1]
        with Probers(cluster) as probers:
            healthy, hit = probers[:2], probers[2:]
            wait_answers(probers, 50)
            victim.kill9()
            wait_for(lambda: all(len(prober.errors) >= 60 or prober.wrong for prober in hit), 'errors of the dead shards')
            wait_answers(healthy, 200)
            for prober in hit:
                name = names_of(cluster, victim)[prober.shard - 2]
                silent = [error for error in prober.errors if name not in error]
                check(not silent, 'shard %s: an error that does not name it: %s' % (name, (silent or [''])[0]))
                run.note('shard %s: "%s"; slowest error %.0f ms' % (name, prober.errors[-1], prober.slowest_error * 1000))
            check_equal(cluster.proxies[0].http('/healthz')[0], 200, '/healthz of the proxy')
            victim.start()
            started = time.monotonic()
            wait_answers(hit, 50)
            run.note('served again after %.2f s' % (time.monotonic() - started))
            check(not any(prober.errors for prober in healthy), 'a healthy shard answered with an error: %s'
                  % [prober.errors[:1] for prober in healthy])
        check_unharmed(probers)


@suite.case('multi-key commands with a key on a dead shard fail with an error, and work again later')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        keys = [cluster.key_on(0), cluster.key_on(1)]
        with cluster.connect() as client:
            check_equal(client.get('MSET', keys[0], 'a', keys[1], 'b'), b'OK')
            cluster.backends[1].kill9()
            for words in (['MGET', *keys], ['DEL', *keys], ['DBSIZE'], ['KEYS', '*'], ['FLUSHALL'], ['EXISTS', *keys],
                          ['MSET', keys[0], 'x', keys[1], 'y']):
                reply = client.get(*words)
                check(isinstance(reply, ReplyError) and 'b1p0' in str(reply), '%r: %r' % (words, reply))
            check(not isinstance(client.get('GET', keys[0]), ReplyError), 'the other shard')
            check_equal(client.get('PING'), b'PONG')
            client.call('MULTI')
            client.call('SET', keys[1], 'x')
            check(isinstance(client.get('EXEC'), ReplyError), 'EXEC on the dead shard')
            check_equal(client.get('ECHO', 'still in order'), b'still in order')
            cluster.backends[1].start()
            wait_for(lambda: client.call('DBSIZE')[0] == ':', 'all shards to answer')
            wait_for(lambda: client.get('MSET', keys[0], 'a', keys[1], 'b') == b'OK', 'MSET to be taken')
            check_equal(client.get('MGET', *keys), [b'a', b'b'])


@suite.case('a frozen backend: its requests time out one by one, late replies are dropped, other shards do not wait')
def _(run):
    timeout_ms = 2000 * harness.SLOW  # the other shard has to reply within this time, so it does not wait for fsync
    with Cluster(backends=2, partitions=1, proxies=1, backend_options={'backend': {'durability': 'os'}},
                 proxy_options={'upstream': {'timeout': '%dms' % timeout_ms}}) as cluster:
        victim = cluster.backends[1]
        with Probers(cluster) as probers:
            wait_answers(probers, 50)
            victim.pause()
            wait_for(lambda: len(probers[1].errors) >= 4 or probers[1].wrong, 'timeouts')
            wait_answers(probers[:1], 500)
            run.note('"%s"; slowest error %.0f ms (timeout %.0f ms)'
                     % (probers[1].errors[-1], probers[1].slowest_error * 1000, timeout_ms))
            check(all('b1p0' in error for error in probers[1].errors),
                  'an error names no shard: %s' % probers[1].errors[:1])
            victim.resume()
            wait_answers(probers[1:], 300)
            check(not probers[0].errors, 'the other shard answered with an error: %s' % probers[0].errors[:1])
        check_unharmed(probers)


@suite.case("a backend frozen and resumed repeatedly under pipelines: no client gets another client's reply")
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1, backend_options={'backend': {'durability': 'os'}},
                 proxy_options={'upstream': {'timeout': '%dms' % (150 * harness.SLOW)}}) as cluster:
        stop, wrong = threading.Event(), []

        def client(number):
            rng = random.Random(run.seed + number)
            with cluster.connect() as connection:
                while not stop.is_set() and not wrong:
                    batch = ['own:%d:%d' % (number, rng.randrange(1000)) for _ in range(rng.randint(1, 20))]
                    commands = [words for key in batch for words in (['SET', key, key], ['GET', key], ['ECHO', key])]
                    replies = [value(reply) for reply in connection.pipeline(commands)]
                    for key, got in zip(batch, zip(*[iter(replies)] * 3)):
                        if got[2] != key.encode() or (got[1] not in (key.encode(), None) and
                                                      not isinstance(got[1], ReplyError)):
                            wrong.append('%s got %r' % (key, got))
        threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(12)]
        for thread in threads:
            thread.start()
        with cluster.connect() as prober:
            key = cluster.key_on(0)
            for _ in range(6):
                cluster.backends[0].pause()
                check(isinstance(prober.get('GET', key), ReplyError), 'a frozen backend answered')
                cluster.backends[0].resume()
                wait_for(lambda: not isinstance(prober.get('GET', key), ReplyError), 'the thawed backend to answer')
        stop.set()
        for thread in threads:
            thread.join(patience())
        check(not wrong, (wrong or [''])[0])


@suite.case('a proxy that starts before its backends waits for them; /readyz and /healthz show this')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        backend, proxy = cluster.backends[0], cluster.proxies[0]
        proxy.stop()
        backend.stop()
        proxy.spawn()
        wait_for(lambda: proxy.http('/healthz')[0] != 0, 'the admin port')
        with cluster.connect() as client:
            check_equal(client.get('PING'), b'PONG')
            check(isinstance(client.get('GET', 'k'), ReplyError), 'a shard that never was')
            backend.start()
            wait_for(lambda: client.call('GET', 'k') == ('$', None), 'the backend to be found')
        wait_for(lambda: proxy.http('/readyz')[0] == 200, '/readyz to be 200')


def fill_disk(client, acknowledged):
    """Writes until the backend refuses; returns the refusal."""
    for serial in range(2000):
        words, batch = ['MSET'], []
        for i in range(20):
            batch.append((b'full:%d:%d' % (serial, i), os.urandom(5000)))
            words += batch[-1]
        reply = client.get(*words)
        if isinstance(reply, ReplyError):
            return str(reply)
        acknowledged.update(batch)
    raise harness.Failure('the disk never filled up')


def disk_full(run, durability):
    disk = SmallDisk(48)
    try:
        with Cluster(backends=1, partitions=1, proxies=1, backend_options={
                'backend': {'data': os.path.join(disk.path, 'data'), 'durability': durability},
                'store': {'memtable': '1mb', 'wal-limit': '4mb', 'disk-free-min': 0}}) as cluster:
            acknowledged = {}
            with cluster.connect() as client:
                refusal = fill_disk(client, acknowledged)
                run.note('after %d keys: "%s"' % (len(acknowledged), refusal))
                check(refusal.startswith('MISCONF'), 'not the error a full disk should give: ' + refusal)
                check_equal(read_back(client, acknowledged), 0, 'keys lost while the disk is full')
                again = fill_disk(client, acknowledged)  # a compaction may have freed a little space
                check(again.startswith('MISCONF'), 'a write on the full disk: ' + again)
                check_equal(client.get('PING'), b'PONG')
                check_equal(client.get('DBSIZE'), len(acknowledged), 'DBSIZE while the disk is full')
                disk.grow(400)
                started = time.monotonic()
                wait_for(lambda: client.get('SET', 'one', 'more') == b'OK', 'writes to be taken again')
                run.note('writes again %.1f s after there was room' % (time.monotonic() - started))
                acknowledged[b'one'] = b'more'
                check_equal(client.get('DBSIZE'), len(acknowledged), 'DBSIZE afterwards')
                cluster.backends[0].kill9()
                cluster.backends[0].start()
                wait_for(lambda: client.call('GET', 'one')[0] != '-', 'the backend to be found')
                check_equal(read_back(client, acknowledged), 0, 'acknowledged keys lost')
                check_equal(client.get('DBSIZE'), len(acknowledged), 'DBSIZE after a crash')
    finally:
        disk.remove()


def read_back(client, acknowledged):
    """The number of acknowledged keys with a wrong value."""
    lost, keys = 0, list(acknowledged)
    keys = [key for key in keys if acknowledged[key] is not None]
    for start in range(0, len(keys), 200):
        some = keys[start:start + 200]
        lost += sum(got != acknowledged[key] for key, got in zip(some, client.get('MGET', *some)))
    return lost


for durability in ('always', 'everysec'):
    @suite.case('a full disk, durability = %s: writes are refused, reads work, and it recovers without a restart' % durability)
    def _(run, durability=durability):
        disk_full(run, durability)


def fill_rest(path):
    """Leaves no free byte on the disk; returns the file's path."""
    path = os.path.join(path, 'rest')
    with open(path, 'wb', buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError as error:
                check_equal(error.errno, errno.ENOSPC)
    return path


def check_reads_only(run, cluster, client, acknowledged):
    """The partition serves all reads, and refuses writes with a reason."""
    check_equal(read_back(client, acknowledged), 0, 'keys lost on the full disk')
    check_equal(client.get('DBSIZE'), len(acknowledged))
    check_equal(len(client.get('KEYS', '*')), len(acknowledged))
    check_equal(client.get('HGETALL', 'hash'), [b'f', b'1', b'h', b'3'])
    check_equal(client.get('EXISTS', 'deleted'), 0)
    refusal = str(client.get('SET', 'one', 'more'))
    check(refusal.startswith('MISCONF'), 'a write on the full disk: ' + refusal)
    with cluster.partition(0) as direct:
        gone = direct.pipeline([['SELECT', '9'], ['DBSIZE'], ['GET', 'gone'], ['SMEMBERS', 'set'], ['KEYS', '*']])
        check_equal([value(reply) for reply in gone[1:]], [0, None, [], []])
        info = direct.get('INFO', 'scree').decode()
        check('No space left on device' in info, 'INFO has no reason: ' + info)


def check_operator_sees_it(backend):
    """What docs/runbook.md says of such a start."""
    wait_for(lambda: metric(backend.http('/metrics')[1], 'scree_backend_readonly_partitions') == 1, 'the metric')
    status, text = backend.http('/readyz')
    check(status == 200 and '1 partitions refuse writes' in text, '/readyz: %d %s' % (status, text))
    log = backend.log_tail(50)
    check('store_read_only' in log, 'the log: ' + log)


@suite.case('a backend that was killed on a full disk starts again and serves reads, and writes when there is room')
def _(run):
    disk = SmallDisk(48)
    try:
        with Cluster(backends=1, partitions=1, proxies=1, backend_options={
                'backend': {'data': os.path.join(disk.path, 'data')},
                'store': {'memtable': '1mb', 'wal-limit': '4mb', 'disk-free-min': 0}}) as cluster:
            acknowledged = {}
            backend = cluster.backends[0]
            with cluster.connect() as client:
                with cluster.partition(0) as direct:
                    direct.pipeline([['SELECT', '9'], ['SET', 'gone', 'in a file'], ['SADD', 'set', 'a', 'b']])
                backend.stop()
                backend.start()
                wait_for(lambda: client.call('DBSIZE')[0] != '-', 'the backend to be found')
                client.get('HSET', 'hash', 'f', '1', 'g', '2', 'h', '3')
                client.get('SET', 'deleted', 'x')
                fill_disk(client, acknowledged)

                def stays_full():  # it may have recovered in room that its tables have freed
                    fill_disk(client, acknowledged)
                    return 'recover_failed reason="' in backend.log_tail(20)
                wait_for(stays_full, 'the reason to be logged', pause=0.5)
                disk.grow(104)  # recovery needs room for the rows of the WAL, which may be all of them
                wait_for(lambda: client.get('DEL', 'deleted') == 1, 'writes to be taken again')
                client.get('HDEL', 'hash', 'g')
                with cluster.partition(0) as direct:
                    direct.pipeline([['SELECT', '9'], ['FLUSHDB']])  # its deleted range is in the WAL only
                acknowledged[b'hash'] = None
                rest = fill_rest(disk.path)
                for _ in range(2):
                    backend.kill9()
                    backend.start()
                    wait_for(lambda: client.call('DBSIZE')[0] != '-', 'the backend to be found')
                    check_reads_only(run, cluster, client, acknowledged)
                    check_operator_sees_it(backend)
                os.unlink(rest)
                disk.grow(400)
                wait_for(lambda: client.get('SET', 'one', 'more') == b'OK', 'writes to be taken again')
                acknowledged[b'one'] = b'more'
                check_equal(read_back(client, acknowledged), 0, 'acknowledged keys lost')
                backend.kill9()
                backend.start()
                wait_for(lambda: client.call('GET', 'one')[0] != '-', 'the backend to be found')
                check_equal(read_back(client, acknowledged), 0, 'acknowledged keys lost after a crash')
                check_equal(client.get('DBSIZE'), len(acknowledged))
    finally:
        disk.remove()


@suite.case('a backend that finds room for its files, but not for the rows of the WAL, starts and serves reads, and writes when there is room')
def _(run):
    disk = SmallDisk(48)
    try:
        with Cluster(backends=1, partitions=1, proxies=0, backend_options={
                'backend': {'data': os.path.join(disk.path, 'data')},
                'store': {'memtable': '1mb', 'wal-limit': '16mb', 'disk-free-min': 0}}) as cluster:
            backend = cluster.backends[0]
            acknowledged = {b'key:%d' % i: os.urandom(5000) for i in range(2000)}  # ten memtables
            with cluster.partition(0) as client:
                client.pipeline([('SET', *item) for item in acknowledged.items()])
            backend.kill9()
            rest = fill_rest(disk.path)
            os.truncate(rest, os.path.getsize(rest) - (64 << 10))
            backend.start()
            with cluster.partition(0) as client:
                check('wal_replay_failed' in backend.log_tail(20), 'the rows had room: ' + backend.log_tail(20))
                check_equal(read_back(client, acknowledged), 0, 'keys lost')
                check_equal(client.get('DBSIZE'), len(acknowledged))
                check(str(client.get('SET', 'one', 'more')).startswith('MISCONF'), 'a write without room')
                check_operator_sees_it(backend)
                os.unlink(rest)
                wait_for(lambda: client.get('SET', 'one', 'more') == b'OK', 'writes to be taken again')
                check_equal(read_back(client, acknowledged), 0, 'keys lost')
    finally:
        disk.remove()


@suite.case('a backend refuses to start on a folder that another one uses')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0) as cluster:
        second = cluster.backends[1]
        second.stop()
        second.options = {'backend': {'data': cluster.backends[0].data}}
        second.write_config()
        second.spawn()
        code = second.wait_exit(30)
        check(code != 0, 'it started')
        second.child = None
        run.note(second.log_tail(1))
        with cluster.partition(0) as client:
            check_equal(client.get('SET', 'k', 'v'), b'OK', 'the first one still works')


@suite.case('metrics count these events')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        with cluster.connect() as client:
            client.pipeline([['SET', 'k%d' % i, 'v'] for i in range(100)])
            text = cluster.proxies[0].http('/metrics')[1]
            check(metric(text, 'scree_proxy_requests_total') >= 100, 'requests')
            check(metric(text, 'scree_proxy_clients') >= 1, 'clients')
            text = cluster.backends[0].http('/metrics')[1]
            wait_for(lambda: metric(cluster.backends[0].http('/metrics')[1], 'scree_backend_keys') == 100, 'the keys gauge')
            check(metric(text, 'scree_backend_commits_total') >= 1, 'commits')
            check_equal(metric(text, 'scree_backend_readonly_partitions'), 0)


if __name__ == '__main__':
    suite.main()
