#!/usr/bin/python3
"""Clients that know Redis Cluster work directly against the shards, also while slots move from shard to shard."""

import logging
import os
import re
import subprocess
import threading

import redis.cluster

from support.cluster import Cluster, free_ports, metric, slot_of
from support.harness import PATIENCE, Suite, check, check_equal, patience, wait_for
from support.node import installed
from support.resp import Connection, value

SHARDS = 3
EVEN = ['0-5460', '5461-10921', '10922-16383']
# node-redis drops nodes without slots, and the commands that it has sent them; so each shard keeps some
MIXED = ['0-1999 9000-10921', '5461-8999 14000-16383', '2000-5460 10922-13999']

suite = Suite(__doc__)
logging.disable()  # redis-py logs each MOVED


def three(**options):
    return Cluster(backends=SHARDS, partitions=1, proxies=0, linked=True, **options)


def slots_of_nodes(connection):
    """{port: [(first, last)]}, as CLUSTER SLOTS says."""
    nodes = {}
    for first, last, (_, port, *_) in connection.get('CLUSTER', 'SLOTS'):
        nodes.setdefault(port, []).append((first, last))
    return nodes


def wait_moved(cluster, slots):
    """Changes the map, and waits until each shard says that its slots have moved."""
    cluster.write_shards(slots)
    wanted = {backend.port: [tuple(map(int, run.split('-'))) for run in text.split()]
              for backend, text in zip(cluster.backends, slots)}
    for backend in cluster.backends:
        backend.signal(1)
    for index in range(SHARDS):
        with cluster.partition(index) as shard:
            wait_for(lambda: slots_of_nodes(shard) == wanted, 'the slots to move', 2 * PATIENCE)


def cluster_client(cluster, **options):
    return redis.cluster.RedisCluster('127.0.0.1', cluster.backends[0].port, socket_timeout=patience(), **options)


@suite.case('redis-py: RedisCluster finds all nodes, and reads and writes while slots move')
def _(run):
    with three() as cluster:
        client = cluster_client(cluster, decode_responses=True)
        check_equal(sorted(node.port for node in client.get_nodes()), sorted(backend.port for backend in cluster.backends))
        stopping, errors, rounds = threading.Event(), [], []

        def work():
            try:
                while not stopping.is_set() or len(rounds) < 3:
                    number = len(rounds)
                    pipe = client.pipeline()
                    for i in range(100):
                        pipe.set('k%d' % i, number)
                    pipe.execute()
                    check_equal([client.get('k%d' % i) for i in range(100)], [str(number)] * 100)
                    rounds.append(number)
            except BaseException as error:
                errors.append(error)
        worker = threading.Thread(target=work)
        worker.start()
        wait_for(lambda: errors or len(rounds) > 1, 'the client to write')
        wait_moved(cluster, MIXED)
        wait_moved(cluster, EVEN)
        stopping.set()
        worker.join()
        check(not errors, repr(errors))
        try:
            client.mget('a', 'b')
            check(False, 'MGET of two slots')
        except redis.cluster.RedisClusterException:
            pass
        check_equal(client.mset_nonatomic({'n%d' % i: i for i in range(50)}), [True] * 50)
        check_equal(client.mget_nonatomic(['n%d' % i for i in range(50)]), [str(i) for i in range(50)])
        check_equal(client.dbsize(target_nodes='primaries'), 150)
        check_equal(len(set(client.keys('*', target_nodes='primaries'))), 150)
        check_equal(client.cluster_keyslot('k1'), slot_of('k1'))


def with_program(cluster, words):
    """Runs a program while slots move there and back; it must print ready, then, when its input ends, ok."""
    address = cluster.backends[0].addresses[0]
    with subprocess.Popen(words + [address[0], str(address[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as program:
        try:
            line = program.stdout.readline()
            check(line == 'ready\n', '%r: %s' % (line, program.stderr.read()[-2000:] if not line else ''))
            wait_moved(cluster, MIXED)
            wait_moved(cluster, EVEN)
            output, errors = program.communicate('', timeout=2 * patience())
            check(output == 'ok\n' and program.returncode == 0, '%r %s' % (output, errors[-2000:]))
        finally:
            program.kill()


@suite.case('ioredis: Cluster with pipelines, transactions, scripts and shard channels, while slots move')
def _(run):
    with installed('ioredis') as folder, three() as cluster:
        with_program(cluster, ['node', os.path.join(folder, 'cluster.js')])


@suite.case('node-redis: createCluster with transactions and shard channels, while slots move')
def _(run):
    with installed('node_redis') as folder, three() as cluster:
        with_program(cluster, ['node', os.path.join(folder, 'cluster.js')])


@suite.case('redis-cli -c follows MOVED, and redis-cli --cluster check finds nothing wrong')
def _(run):
    with three() as cluster:
        words = ['redis-cli', '-p', str(cluster.backends[0].port)]
        far = cluster.key_on(2)
        done = subprocess.run(words + ['-c'], input='SET %s 1\nGET %s\nMULTI\nINCR %s\nEXEC\n' % (far, far, far),
                              capture_output=True, text=True, timeout=patience())
        check_equal([word for word in done.stdout.split() if word.isalnum()][-5:], ['OK', '1', 'OK', 'QUEUED', '2'])
        check('-> Redirected to slot [%d] located at 127.0.0.1:%d' % (slot_of(far), cluster.backends[2].port) in done.stdout,
              done.stdout)
        done = subprocess.run(words[:1] + ['--cluster', 'check', '127.0.0.1:%s' % words[2]], capture_output=True, text=True,
                              timeout=patience())
        check(done.returncode == 0 and 'All 16384 slots covered' in done.stdout, done.stdout + done.stderr)


@suite.case('a client of a shard channel is unsubscribed when its slot moves, and subscribes at the new owner')
def _(run):
    with three() as cluster:
        away, stays = (next(name for name in ('c%d' % i for i in range(10000)) if low <= slot_of(name) <= high)
                       for low, high in ((2000, 5460), (0, 1999)))
        with cluster.partition(0) as old, cluster.partition(2) as new, cluster.partition(0) as other:
            for count, name in enumerate((away, stays)):
                check_equal(old.get('SSUBSCRIBE', name), [b'ssubscribe', name.encode(), count + 1])
            wait_moved(cluster, MIXED)
            check_equal(value(old.read()), [b'sunsubscribe', away.encode(), 1])
            check_equal(other.get('SPUBLISH', stays, 'x'), 1)
            check_equal(value(old.read()), [b'smessage', stays.encode(), b'x'])
            moved = 'MOVED %d 127.0.0.1:%d' % (slot_of(away), cluster.backends[2].port)
            check_equal(str(other.get('SPUBLISH', away, 'x')), moved)
            check_equal(new.get('SSUBSCRIBE', away), [b'ssubscribe', away.encode(), 1])
            check_equal(new.get('PING'), [b'pong', b''])


@suite.case('ids of nodes stay when processes restart, and all nodes know them; a node that is down is marked')
def _(run):
    def lines(index):
        with cluster.partition(index) as shard:
            return dict(line.split(' ', 1) for line in shard.get('CLUSTER', 'NODES').decode().splitlines())

    with three() as cluster:
        ids = set(lines(0))
        check_equal(len(ids), SHARDS)
        check(all(re.fullmatch('[0-9a-f]{40}', name) for name in ids), repr(ids))
        with cluster.partition(1) as shard:
            own = shard.get('CLUSTER', 'MYID').decode()
            check_equal(shard.get('CLUSTER', 'MYSHARDID').decode(), own)
        cluster.backends[1].kill9()
        wait_for(lambda: 'fail?' in lines(0)[own] and 'disconnected' in lines(0)[own], 'the lost node to be marked')
        with cluster.partition(0) as shard:
            info = shard.get('CLUSTER', 'INFO')
            check(b'cluster_state:ok' in info and b'cluster_slots_pfail:5461\r' in info, info)
            check_equal(shard.get('SET', cluster.key_on(0), 1), b'OK')
            check(str(shard.get('GET', cluster.key_on(1))).startswith('MOVED'), 'a slot of the lost node')
        cluster.backends[1].start()
        wait_for(lambda: 'fail?' not in lines(0)[own], 'the node to be back')
        check_equal(set(lines(1)), ids)
        check('myself' in lines(1)[own], lines(1)[own])


def modes(connection):
    """(what INFO says of the cluster, the mode of HELLO): by these clients choose how to talk to a server."""
    hello = connection.get('HELLO', 2)
    return connection.get('INFO', 'cluster').split()[-1], dict(zip(hello[::2], hello[1::2]))[b'mode']


@suite.case('a node says that it is part of a cluster; a proxy, and a backend without a map, that they are one server')
def _(run):
    as_node, as_server = (b'cluster_enabled:1', b'cluster'), (b'cluster_enabled:0', b'standalone')
    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True) as cluster:
        for index in range(SHARDS):
            with cluster.partition(index) as node:
                check_equal(modes(node), as_node)
                lines = node.get('CLUSTER', 'INFO').split()
                for line in (b'cluster_state:ok', b'cluster_slots_assigned:16384', b'cluster_known_nodes:%d' % SHARDS,
                             b'cluster_size:%d' % SHARDS):
                    check(line in lines, '%s: %s' % (line, lines))
        with cluster.connect() as client:
            check_equal(modes(client), as_server)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, cluster.partition(0) as server:
        check_equal(modes(server), as_server)


@suite.case('a client is shown the ports of its kind: with TLS or without')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=0, tls=True) as cluster:
        for backend in cluster.backends:  # both kinds; the map has the ports with TLS
            backend.plain = free_ports()
            backend.options = {'backend': {
                'port': backend.plain, 'shards': cluster.shards_path, 'peer-tls': 'yes',
                'peer-tls-cert-file': cluster.tls.client.cert, 'peer-tls-key-file': cluster.tls.client.key}}
            backend.stop()
            backend.write_config()
            backend.start()
        plain = [backend.plain for backend in cluster.backends]
        secure = [backend.port for backend in cluster.backends]
        for address, ports in ((('127.0.0.1', plain[0]), plain), (cluster.backends[0].addresses[0], secure)):
            with Connection(address) as client:
                wait_for(lambda: sorted(slots_of_nodes(client)) == sorted(ports), 'the ports %r' % ports)
                far = next('k%d' % i for i in range(10000) if slot_of('k%d' % i) > 8191)
                check_equal(str(client.get('GET', far)), 'MOVED %d 127.0.0.1:%d' % (slot_of(far), ports[1]))
                check(('127.0.0.1:%d@' % ports[1]).encode() in client.get('CLUSTER', 'NODES'), 'NODES')


@suite.case('PUBLISH reaches the subscribers at all nodes and proxies, each once; events of keys stay at their node')
def _(run):
    def received(client, count):
        return [value(client.read())[-1].decode() for _ in range(count)]

    with Cluster(backends=SHARDS, partitions=1, proxies=2, linked=True) as cluster:
        nodes = [cluster.partition(index) for index in range(SHARDS)]
        proxies = [cluster.connect(index) for index in range(2)]
        direct = [cluster.partition(index) for index in range(SHARDS)]
        clients = direct + [cluster.connect(index, proto=3) for index in range(2)]
        globs = [cluster.partition(index) for index in range(SHARDS)] + [cluster.connect()]
        for client in clients:
            check_equal(value(client.call('SUBSCRIBE', 'news')), [b'subscribe', b'news', 1])
        for client in globs:
            check_equal(value(client.call('PSUBSCRIBE', 'n*')), [b'psubscribe', b'n*', 1])
        for number, sender in enumerate(nodes + proxies):
            key = cluster.key_on(number % SHARDS)
            sender.get('PUBLISH', 'news', 'plain')
            sender.get('MPUBLISH', 'news', 'first', 'second')
            sender.get('EVAL', "redis.call('SET', KEYS[1], 1) redis.call('PUBLISH', 'news', 'script')", 1, key)
            for words in (['MULTI'], ['SET', key, 2], ['PUBLISH', 'news', 'exec'], ['EXEC']):
                sender.get(*words)
            expected = ['plain', 'first', 'second', 'script', 'exec']
            for client in clients + globs:
                got = received(client, len(expected))
                if number >= SHARDS:  # through a proxy they come from two shards
                    got.sort(), expected.sort()
                check_equal(got, expected)
        nodes[0].get('CONFIG', 'SET', 'notify-keyspace-events', 'KA')
        for client in direct:
            check_equal(value(client.call('PSUBSCRIBE', '__key*')), [b'psubscribe', b'__key*', 2])
        nodes[0].get('SET', cluster.key_on(0), 3)
        check_equal(value(direct[0].read())[-1], b'set')
        nodes[0].get('PUBLISH', 'news', 'last')
        for client in clients + globs:  # nothing else came between, and nothing twice
            check_equal(received(client, 1), ['last'])
        for client in direct:
            check_equal(value(client.call('PING')), [b'pong', b''])


@suite.case('PUBLISH goes only to nodes where a client has subscribed, also after restarts; messages that a lost node misses are counted')
def _(run):
    def metrics(index, name):
        return metric(cluster.backends[index].http('/metrics')[1], 'scree_backend_messages_%s_total' % name)

    with Cluster(backends=SHARDS, partitions=1, proxies=1, linked=True) as cluster:
        with cluster.connect() as proxy, cluster.partition(0) as node, cluster.partition(1) as client:
            proxy.get('SUBSCRIBE', 'news')
            check_equal(node.get('PUBLISH', 'news', 1), 1)
            check_equal(metrics(0, 'relayed'), 0)
            client.get('SUBSCRIBE', 'news')
            check_equal(node.get('PUBLISH', 'news', 2), 1)
            check_equal(value(client.read()), [b'message', b'news', b'2'])
            check_equal((metrics(0, 'relayed'), metrics(0, 'lost')), (1, 0))
            cluster.backends[2].stop()
            cluster.backends[2].start()  # it learns when it connects that node 1 listens
            with cluster.partition(2) as other:
                def arrives():
                    other.get('PUBLISH', 'news', 3)
                    return metrics(2, 'relayed')
                wait_for(arrives, 'node 2 to know that node 1 listens')
                check_equal(value(client.read()), [b'message', b'news', b'3'])
            cluster.backends[1].kill9()

            def is_lost():
                node.get('PUBLISH', 'news', 4)
                return metrics(0, 'lost')
            wait_for(is_lost, 'a message to be lost')
            cluster.backends[1].start()


@suite.case('long patterns of clients of another node hold that node for a moment only, and messages that miss a pattern are counted')
def _(run):
    channel = 'a' * 1000000 + 'z'
    with Cluster(backends=2, partitions=1, linked=True, proxies=0) as cluster, cluster.partition(0) as node, \
            cluster.partition(1) as client, cluster.partition(1) as other:
        client.send_many([['PSUBSCRIBE', '*?' + 'a' * 16000 + '%03d*z' % i] for i in range(30)])
        for _ in range(30):
            client.read()
        other.get('SUBSCRIBE', channel)

        def is_counted():
            node.get('PUBLISH', channel, 'here')
            check_equal(value(other.read())[2], b'here', 'a subscriber of the channel')
            return metric(cluster.backends[1].http('/metrics')[1], 'scree_backend_messages_lost_total')
        wait_for(is_counted, 'a message that misses patterns')


@suite.case('a node whose subscribers have left gets no messages of other nodes, until a client subscribes again')
def _(run):
    def relayed():
        return metric(cluster.backends[0].http('/metrics')[1], 'scree_backend_messages_relayed_total')

    with Cluster(backends=2, partitions=1, linked=True, proxies=0) as cluster, cluster.partition(0) as node:
        for subscribe, unsubscribe in (('SUBSCRIBE', 'UNSUBSCRIBE'), ('PSUBSCRIBE', None), ('SUBSCRIBE', 'UNSUBSCRIBE')):
            with cluster.partition(1) as client:
                client.get(subscribe, 'news')
                before = relayed()
                node.get('PUBLISH', 'news', 'here')
                check_equal(value(client.read())[-1], b'here')
                check_equal(relayed(), before + 1)
                if unsubscribe:
                    client.get(unsubscribe, 'news')

            def is_silent():
                sent = relayed()
                node.get('PUBLISH', 'news', 'nothing')
                return relayed() == sent
            wait_for(is_silent, 'node 0 to send nothing')
            check(is_silent(), 'and nothing again')


@suite.case("the token of a namespace is a wrong password at a node, and never lets a client into the open space")
def _(run):
    logins = (['AUTH', 'token-one'], ['AUTH', 'one', 'token-one'], ['HELLO', 3, 'AUTH', 'one', 'token-one'],
              ['AUTH', 'one', 'outside'], ['AUTH', 'token-one', 'outside'])
    with Cluster(backends=2, partitions=1, linked=True, namespaces={'one': {'token': 'token-one'}}) as cluster, \
            cluster.connect() as inside, cluster.partition(0) as operator:
        key = cluster.key_on(0)
        check_equal(inside.get('AUTH', 'one', 'token-one'), b'OK')
        check_equal(inside.get('SET', key, 'of one'), b'OK')
        for password in ('', 'outside'):
            check_equal(operator.get('CONFIG', 'SET', 'requirepass', password), b'OK')
            with cluster.partition(0) as node:
                for login in logins:
                    reply = str(node.get(*login))
                    alone = not password and len(login) == 2
                    check(reply.startswith('ERR AUTH <password> called without any password configured' if alone else 'WRONGPASS '),
                          '%r: %s' % (login, reply))
                    reply = node.get('GET', key)  # without requirepass the client was in the open space before
                    check(str(reply).startswith('NOAUTH ') if password else reply is None, repr(reply))
                if password:
                    check_equal(node.get('AUTH', password), b'OK')
                    check_equal(node.get('GET', key), None)


suite.main()
