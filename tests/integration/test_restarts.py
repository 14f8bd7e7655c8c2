#!/usr/bin/python3
"""Backends restart, and clients of the proxies see no error: requests wait for the shard, in order, and none is in doubt."""

import json
import os
import re
import subprocess
import threading
import time

from support import harness
from support.cluster import Cluster, metric
from support.harness import Failure, Skip, Suite, check, check_equal, patience, wait_for
from support.node import installed
from support.resp import value

suite = Suite(__doc__)
PATIENT = {'upstream': {'hold': '1m'}}  # a slow machine needs long to start a backend


class Counter(threading.Thread):
    """A client that increments its own keys on all shards, checks each reply, and notes errors."""

    def __init__(self, cluster, number, proxy=0):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.keys = [cluster.key_on(shard, 'count%d' % number) for shard in range(len(cluster.shard_addresses()))]
        self.proxy = proxy
        self.is_over = False
        self.rounds = 0
        self.errors = []

    def one_round(self, client):
        """Sends a pipeline: increments, a split command, a transaction, a command with keys of several shards."""
        expected = b'%d' % (self.rounds + 1)
        requests = [['INCR', key] for key in self.keys]
        requests.append(['MGET'] + self.keys)
        requests += [['MULTI'], ['GET', self.keys[0]], ['EXEC']]
        requests += [['MULTI'], ['INCR', self.keys[0] + ':t'], ['INCR', self.keys[-1] + ':t'], ['EXEC']]
        requests += [['RENAME', self.keys[1], self.keys[2] + ':r'], ['RENAME', self.keys[2] + ':r', self.keys[1]]]
        client.send_many(requests)
        replies = [value(client.read()) for _ in requests]
        wanted = [int(expected)] * len(self.keys) + [[expected] * len(self.keys), b'OK', b'QUEUED', [expected]]
        wanted += [b'OK', b'QUEUED', b'QUEUED', [int(expected)] * 2, b'OK', b'OK']
        self.errors += ['%r in place of %r' % (reply, want) for reply, want in zip(replies, wanted) if reply != want]
        self.rounds += 1

    def run(self):
        try:
            with self.cluster.connect(self.proxy) as client:
                while not self.is_over and not self.errors:
                    self.one_round(client)
        except Exception as error:  # the case reports it
            self.errors.append('%s: %s' % (type(error).__name__, error))


def count_while(cluster, clients, action):
    counters = [Counter(cluster, number, number % len(cluster.proxies)) for number in range(clients)]
    for counter in counters:
        counter.start()
    wait_for(lambda: all(c.rounds > 20 or c.errors for c in counters), 'clients to begin')
    action()
    rounds = [counter.rounds for counter in counters]
    wait_for(lambda: all(c.rounds > before + 20 or c.errors for c, before in zip(counters, rounds)), 'clients to go on')
    for counter in counters:
        counter.is_over = True
    for counter in counters:
        counter.join()
    errors = [error for counter in counters for error in counter.errors]
    check(not errors, '%d errors, the first: %s' % (len(errors), (errors or [''])[0]))
    return sum(counter.rounds for counter in counters)


@suite.case('a rolling restart of all backends: no client sees an error')
def _(run):
    with Cluster(backends=3, partitions=2, proxies=2, linked=True, proxy_options=PATIENT) as cluster:
        seconds = []

        def restart_all():
            for backend in cluster.backends:
                begun = time.monotonic()
                backend.stop()
                backend.start()
                seconds.append(time.monotonic() - begun)
        try:
            run.note('%d rounds' % count_while(cluster, 8, restart_all))
        except Failure as failure:
            # backends wait 3 s for a shard (AWAIT_SHARD_MS of coordinator.c), until they are connected to it again
            if 'which has one of the keys, cannot be reached' in str(failure) and max(seconds) > 1.5:
                raise Skip('on this machine a restart takes %.1f s' % max(seconds)) from failure
            raise
        held = sum(metric(proxy.http('/metrics')[1], 'scree_proxy_shard_held_total') or 0 for proxy in cluster.proxies)
        check(held > 0, 'no request was held')


# ---- clients with their default settings -------------------------------------------------------------------------

class Application:
    """A program in JavaScript that runs until its input ends (restarts.js)."""

    def __init__(self, folder, address, name):
        self.program = subprocess.Popen(['node', os.path.join(folder, 'restarts.js'), address[0], str(address[1]), name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check_equal(self.program.stdout.readline().strip(), b'begun', name)

    def end(self):
        output, _ = self.program.communicate(timeout=patience())
        return json.loads(output)


class RedisPy(threading.Thread):
    """As restarts.js, with redis-py."""

    def __init__(self, cluster, name):
        super().__init__(daemon=True)
        self.client = cluster.redis()
        self.keys = ['%s:%d' % (name, i) for i in range(12)]
        self.seen = {'rounds': 0, 'errors': []}
        self.is_over = False
        self.start()
        wait_for(lambda: self.seen['rounds'] > 20, 'redis-py to begin')

    def one_round(self, expected):
        counts = [self.client.incr(key) for key in self.keys]
        values = self.client.mget(self.keys)
        block = self.client.pipeline().get(self.keys[0]).incr('{%s}:block' % self.keys[0]).execute()
        text = b'%d' % expected
        if counts != [expected] * 12 or values != [text] * 12 or block != [text, expected]:
            self.seen['errors'].append(str([counts, values, block]))

    def run(self):
        while not self.is_over and len(self.seen['errors']) < 20:
            self.seen['rounds'] += 1
            try:
                self.one_round(self.seen['rounds'])
            except Exception as error:  # the case reports it
                self.seen['errors'].append('%s: %s' % (type(error).__name__, error))

    def end(self):
        self.is_over = True
        self.join()
        return self.seen


@suite.case('redis-py, ioredis and node-redis with default settings see no error while all backends restart')
def _(run):
    with installed('ioredis') as io, installed('node_redis') as node, \
            Cluster(backends=3, partitions=2, proxies=1, proxy_options=PATIENT) as cluster:
        address = cluster.proxies[0].address
        clients = {'redis-py': RedisPy(cluster, 'py'), 'ioredis': Application(io, address, 'io'),
                   'node-redis': Application(node, address, 'node')}
        for backend in cluster.backends:
            backend.stop()
            backend.start()
        for name, client in clients.items():
            seen = client.end()
            check(not seen['errors'], '%s: %d errors, the first: %s' % (name, len(seen['errors']), (seen['errors'] or [''])[0]))
            check(not seen.get('broken'), '%s lost its connection to the proxy' % name)
            run.note('%s: %d rounds' % (name, seen['rounds']))


@suite.case('ioredis sees no error while its proxy restarts: replies are complete, and a request without a reply was not executed')
def _(run):
    with installed('ioredis') as folder, Cluster(backends=1, partitions=2, proxies=1) as cluster:
        client = Application(folder, cluster.proxies[0].address, 'io')
        for _ in range(3):
            cluster.proxies[0].stop()
            cluster.proxies[0].start()
        seen = client.end()
        check(not seen['errors'], '%d errors, the first: %s' % (len(seen['errors']), (seen['errors'] or [''])[0]))


def dict_of(reply):
    return dict(zip(reply[::2], reply[1::2]))


def held(cluster, name, shard):
    text = cluster.proxies[0].http('/metrics')[1]
    return metric(text, 'scree_proxy_shard_%s{shard="%s"}' % (name, shard)) or 0


@suite.case('requests to a shard that is down wait in order, while other shards answer')
def _(run):
    for stop in ('stop', 'kill9'):
        with Cluster(backends=2, partitions=1, proxies=1, proxy_options=PATIENT) as cluster:
            away, other = cluster.key_on(1), cluster.key_on(0)
            with cluster.connect() as client, cluster.connect() as second:
                check_equal(client.get('SET', away, 'before'), b'OK')
                getattr(cluster.backends[1], stop)()
                client.send_many([['APPEND', away, '.%d' % i] for i in range(300)] + [['GET', away]])
                wait_for(lambda: held(cluster, 'held', 'b1p0') > 0, 'requests to be held')
                check_equal(second.get('SET', other, 'x'), b'OK', 'the other shard')
                cluster.backends[1].start()
                lengths = [value(client.read()) for _ in range(300)]
                check_equal(lengths, sorted(lengths), 'the order')
                check_equal(value(client.read()), b'before' + b''.join(b'.%d' % i for i in range(300)))
                check(held(cluster, 'held_total', 'b1p0') > 0, 'held requests are counted')
                check_equal(client.get('PING'), b'PONG')


@suite.case('when a shard does not come back, the waiting requests fail, and later ones fail at once')
def _(run):
    # the time begins when the connection is lost; the shard must end, and the first request come, in it
    hold = '%dms' % (4000 * harness.SLOW)
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options={'upstream': {'hold': hold}}) as cluster:
        with cluster.connect() as client:
            key, other = cluster.key_on(1), cluster.key_on(0)
            check_equal(client.get('SET', key, 1), b'OK')
            cluster.backends[1].stop()
            reply = client.get('INCR', key)
            check(str(reply).startswith("LOADING shard 'b1p0'") and 'not reachable' in str(reply), reply)
            failed = held(cluster, 'held_failed_total', 'b1p0')
            check(failed >= 1, 'requests that were held and failed are counted')
            for _ in range(20):
                check(str(client.get('INCR', key)).startswith('LOADING'), 'the shard is away')
            check_equal(held(cluster, 'held_failed_total', 'b1p0'), failed, 'held again')
            reply = client.get('MSET', key, 5, other, 5)
            check(str(reply).startswith("SHARDLOST shard 'b1p0'"), 'the other shard has executed its part: %s' % reply)
            cluster.backends[1].start()
            wait_for(lambda: client.get('GET', key) == b'1', 'the shard, and no request that failed was executed')


@suite.case('with hold = 0, requests to a shard that is down fail at once')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'upstream': {'hold': '0'}}) as cluster:
        with cluster.connect() as client:
            cluster.backends[0].kill9()
            wait_for(lambda: str(client.get('INCR', 'k')).startswith("TRYAGAIN shard 'b0p0'"), 'the error')
            cluster.backends[0].start()
            wait_for(lambda: client.get('INCR', 'k') == 1, 'the first increment that was executed')


@suite.case('queue-limit bounds the requests that wait for a shard, and none is lost')
def _(run):
    options = {'upstream': {'hold': '1m', 'queue-limit': '1mb'}}
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options=options) as cluster:
        with cluster.connect() as client:
            check_equal(client.get('SET', 'k', 1), b'OK')
            cluster.backends[0].stop()
            sender = threading.Thread(target=client.send_many, args=([['RPUSH', 'l', 'x' * 50000] for _ in range(200)],))
            sender.start()
            wait_for(lambda: held(cluster, 'held_bytes', 'b0p0') > 500000, 'requests to be held')
            check(held(cluster, 'held_bytes', 'b0p0') < 1500000, 'more is held than queue-limit')
            cluster.backends[0].start()
            check_equal([value(client.read()) for _ in range(200)], list(range(1, 201)))
            sender.join()


@suite.case('blocking commands continue to wait while their shard restarts')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options=PATIENT) as cluster:
        lists = [cluster.key_on(shard, 'list') for shard in range(3)]
        stream = cluster.key_on(1, 'stream')
        with cluster.connect() as pusher, cluster.connect() as one, cluster.connect() as many, \
                cluster.connect() as reader, cluster.connect(proto=3) as timed:
            check_equal(pusher.get('XADD', stream, '1-1', 'n', 1), b'1-1')
            one.send('BLPOP', lists[0], 0)
            many.send('BLPOP', lists[1], lists[2], 0)
            reader.send('XREAD', 'BLOCK', 0, 'STREAMS', stream, '$')
            timed.send('BLPOP', lists[0] + ':none', '0.5')
            wait_for(lambda: re.search(rb'blocked_clients:[34]\r', pusher.get('INFO', 'clients')), 'the clients to wait')  # or half a second is over
            for backend in cluster.backends:
                backend.stop()
                backend.start()
            check_equal(value(timed.read()), None, 'the timeout')
            wait_for(lambda: b'blocked_clients:3' in pusher.get('INFO', 'clients'), 'the clients to wait again')
            check_equal(pusher.get('RPUSH', lists[0], 'a'), 1)
            check_equal(value(one.read()), [lists[0].encode(), b'a'])
            check_equal(pusher.get('RPUSH', lists[2], 'c'), 1)
            check_equal(value(many.read()), [lists[2].encode(), b'c'])
            check_equal(pusher.get('XADD', stream, '2-1', 'n', 2), b'2-1')
            check_equal(value(reader.read()), [[stream.encode(), [[b'2-1', [b'n', b'2']]]]])
            check_equal(pusher.get('EXISTS', *lists), 0)


@suite.case('EXEC replies null when the shard that watches its keys has restarted, and a second try succeeds')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options=PATIENT) as cluster:
        key = cluster.key_on(1)
        with cluster.connect() as client:
            for answer in (None, [1]):
                check_equal(client.get('WATCH', key), b'OK')
                if answer is None:
                    cluster.backends[1].stop()
                    cluster.backends[1].start()
                    check_equal(client.get('WATCH', key), b'OK')
                check_equal(client.get('GET', key), None)
                check_equal(client.get('MULTI'), b'OK')
                check_equal(client.get('INCR', key), b'QUEUED')
                check_equal(client.get('EXEC'), answer)


@suite.case('subscribers get the messages that are published when the shard is back')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options=PATIENT) as cluster:
        with cluster.connect() as listener, cluster.connect() as client:
            check_equal(listener.get('SUBSCRIBE', 'news'), [b'subscribe', b'news', 1])
            for backend in cluster.backends:
                backend.stop()
                backend.start()
                wait_for(lambda: client.get('PUBLISH', 'news', 'x') == 1, 'the subscription')
                check_equal(value(listener.read()), [b'message', b'news', b'x'])


# ---- silent shards -----------------------------------------------------------------------------------------------

@suite.case('a shard that leaves one request unanswered fails all requests to it, and SLOWLOG names the shard')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options={'upstream': {'timeout': '8s'}}) as cluster:
        key, other = cluster.key_on(1), cluster.key_on(0)
        with cluster.connect() as first, cluster.connect() as second, cluster.connect() as third, cluster.connect() as admin:
            check_equal(admin.get('CONFIG', 'SET', 'slowlog-log-slower-than', '200000'), b'OK')
            for client in (first, second, third):
                check_equal(client.get('SET', key, 1), b'OK')
            cluster.backends[1].pause()
            first.send('INCR', key)
            time.sleep(1.5)  # so that its own timeout would come later
            second.send('MGET', key, other)
            third.send('EVAL', 'return 1', 1, key)
            error = str(value(first.read()))
            check("SHARDLOST shard 'b1p0'" in error and 'no reply within 8000 ms' in error, error)
            error = str(value(second.read()))
            check("SHARDLOST shard 'b1p0'" in error and 'lost before the reply: silent for' in error, error)
            check_equal(second.get('GET', other), None, 'the other shard')
            error = str(second.get('INCR', key))
            check(error.startswith("TRYAGAIN shard 'b1p0'") and 'silent for' in error, error)
            slow = {bytes(entry[3][0]): entry[7] for entry in dict_of(admin.get('SCREE', 'SLOWLOG'))[b'proxy']}
            check_equal([slow.get(word) for word in (b'INCR', b'MGET')], [b'b1p0'] * 2, 'the shard in SLOWLOG')
            cluster.backends[1].resume()
            wait_for(lambda: second.get('EXISTS', key) == 1, 'the shard to be used again')
            third.read()


if __name__ == '__main__':
    suite.main()
