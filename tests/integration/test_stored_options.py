#!/usr/bin/python3
"""CONFIG SET through a proxy is durable at all shards: restarts, new shards, reloads, and shards that differ."""

import signal

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.moves import wait_settled

suite = Suite(__doc__)

# parameters, and options of backends
VALUES = {'notify-keyspace-events': 'AKE', 'maxmemory': '1234567890', 'busy-reply-threshold': '7777', 'set-max-intset-entries': '77',
          'hash-max-listpack-value': '65', 'tracking-table-max-keys': '12345', 'latency-tracking-info-percentiles': '50 90',
          'expire-effort': '3', 'borrow-limit': '65mb', 'store-row-cache': '9mb'}


def shown(connection, name):
    reply = connection.call('CONFIG', 'GET', name)
    return reply if reply[0] == '-' else connection.get('CONFIG', 'GET', name)[1].decode()


def check_shards(cluster, values, when):
    for shard in range(len(cluster.shard_addresses())):
        with cluster.partition(shard) as partition:
            for name, value in values.items():
                check_equal(shown(partition, name), value, '%s at shard %d %s' % (name, shard, when))


def check_everywhere(cluster, values, when):
    with cluster.connect() as client:
        wait_for(lambda: isinstance(shown(client, 'maxmemory'), str), 'the proxy to reach the shards')
        for name, value in values.items():
            check_equal(shown(client, name), value, '%s through the proxy %s' % (name, when))
    check_shards(cluster, values, when)


def set_all(client, values):
    words = [word for pair in values.items() for word in pair]
    check_equal(client.call('CONFIG', 'SET', *words), ('+', b'OK'))


@suite.case('what CONFIG SET has set through a proxy is in force after any backend was killed and started')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1) as cluster, cluster.connect() as client:
        set_all(client, VALUES)
        check_everywhere(cluster, VALUES, 'at once')
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        check_everywhere(cluster, VALUES, 'after the restart')
        with cluster.connect() as later:
            words = ['Maxmemory', '2gb', 'active-expire-effort', '4', 'lua-time-limit', '99']
            wait_for(lambda: later.call('CONFIG', 'SET', *words) == ('+', b'OK'), 'the proxy to reach the shards')
        values = dict(VALUES, maxmemory='2147483648')
        values.update({'expire-effort': '4', 'busy-reply-threshold': '99'})
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        check_everywhere(cluster, values, 'after other names of them were set')


@suite.case('a subscriber that stays connected gets all keyspace events after a backend has restarted')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client, cluster.connect() as subscriber:
        check_equal(client.call('CONFIG', 'SET', 'notify-keyspace-events', 'Kx$'), ('+', b'OK'))
        cluster.backends[1].kill9()
        cluster.backends[1].start()
        subscriber.call('PSUBSCRIBE', '__keyspace@0__:kea:*')
        for shard in range(2):
            with cluster.partition(shard) as partition:
                wait_for(lambda: partition.get('PUBSUB', 'NUMPAT') >= 1, 'shard %d to have the pattern' % shard)
        for i in range(40):
            wait_for(lambda i=i: client.call('SET', 'kea:%d' % i, '1') == ('+', b'OK'), 'SET')
        missing = {b'kea:%d' % i for i in range(40)}
        while missing:
            missing.discard(subscriber.read(60)[1][2][1].split(b':', 1)[1])


@suite.case('CONFIG SET that is in force is kept when the file is read again, and CONFIG REWRITE keeps what was set at a shard')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster, cluster.connect() as client:
        set_all(client, VALUES)
        backend = cluster.backends[0]
        with open(backend.config_path, 'a') as file:
            file.write('\n')
        backend.signal(signal.SIGHUP)
        wait_for(lambda: b' reloaded ' in backend.log(), 'the file to be read')
        check_everywhere(cluster, VALUES, 'after a reload')
        with cluster.partition(1) as partition:
            check_equal(partition.call('CONFIG', 'SET', 'zset-max-listpack-entries', '5', 'borrow-limit', '77mb', 'lock-timeout', '2s',
                                       'maxmemory', '7gb'), ('+', b'OK'))
            check_equal(partition.call('CONFIG', 'REWRITE'), ('+', b'OK'))
        backend.kill9()
        backend.start()
        values = dict(VALUES, maxmemory='7516192768')
        values.update({'zset-max-listpack-entries': '5', 'borrow-limit': '77mb', 'lock-timeout': '2s'})
        check_everywhere(cluster, values, 'after REWRITE at a partition')


@suite.case('CONFIG GET says that shards have different values, until CONFIG SET has given them one')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        with cluster.partition(1) as partition:
            check_equal(partition.call('CONFIG', 'SET', 'maxmemory', '1gb'), ('+', b'OK'))
        text = b'"0" at b0p0, "1073741824" at b1p0'
        refused = client.call('CONFIG', 'GET', 'MAXMEMORY')
        check_equal(refused, ('-', b"ERR the shards have different values of 'maxmemory': " + text + b'. CONFIG SET gives all of them one value'))
        every = client.get('CONFIG', 'GET', 'max*')
        check_equal(every[every.index(b'maxmemory') + 1], text, 'with a pattern')
        check_equal(client.call('CONFIG', 'SET', 'maxmemory', '3gb'), ('+', b'OK'))
        check_equal(shown(client, 'maxmemory'), '3221225472')
        everything = client.get('CONFIG', 'GET', '*')
        check_equal([value for value in everything if b' at b' in value], [], 'nothing else differs')


@suite.case('a shard that joins without keys has the stored options of the others before it has a slot')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, proxies=0) as cluster:
        cluster.write_shards(['0-8191', '8192-16383', ''])
        wait_settled(cluster, range(3))
        for shard in (0, 1):
            with cluster.partition(shard) as partition:
                check_equal(partition.call('SCREE', 'AUTH', cluster.secret), ('+', b'OK'))
                check_equal(partition.call('SCREE', 'OPTIONS', 'SET', '5', 'maxmemory', '1gb', 'notify-keyspace-events', 'KA'), ('+', b'OK'))
        with cluster.partition(2) as partition:
            check_equal(shown(partition, 'maxmemory'), '0', 'before')
        cluster.write_shards(['0-4095', '8192-16383', '4096-8191'])
        wait_settled(cluster, range(3))
        check_shards(cluster, {'maxmemory': '1073741824', 'notify-keyspace-events': 'AK'}, 'of the new shard')
        cluster.backends[2].kill9()
        cluster.backends[2].start()
        check_shards(cluster, {'maxmemory': '1073741824', 'notify-keyspace-events': 'AK'}, 'after its restart')


@suite.case('of two changes that reach shards in different order, all shards keep the newer one')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        partitions = [cluster.partition(shard) for shard in range(2)]
        for partition in partitions:
            check_equal(partition.call('SCREE', 'AUTH', cluster.secret), ('+', b'OK'))
            check_equal(partition.get('SCREE', 'OPTIONS', 'VERSION'), 0)
        for version, value in ((9, '900'), (7, '700'), (9, '800'), (8, '888')):
            for partition in partitions:
                check_equal(partition.call('SCREE', 'OPTIONS', 'SET', version, 'acllog-max-len', value), ('+', b'OK'))
        check_equal([shown(partition, 'acllog-max-len') for partition in partitions], ['900'] * 2)
        check_equal(partitions[0].get('SCREE', 'OPTIONS', 'VERSION'), 9)
        for words in (['SET'], ['SET', '1', 'maxmemory'], ['SET', '0', 'maxmemory', '1'], ['SET', 'x', 'maxmemory', '1'], ['VERSION', 'x']):
            check_equal(partitions[0].call('SCREE', 'OPTIONS', *words)[0], '-', words)
        for words in (['maxmemory', 'x'], ['maxmemory', '1', 'port', '1'], ['maxmemory', '1', 'none', '1'], ['maxmemory', '1', 'MAXMEMORY', '2']):
            check(partitions[0].call('SCREE', 'OPTIONS', 'SET', '99', *words)[0] == '-', words)
        cluster.backends[0].kill9()
        cluster.backends[0].start()
        with cluster.partition(0) as partition:
            check_equal((shown(partition, 'acllog-max-len'), shown(partition, 'maxmemory')), ('900', '0'), 'after a restart')


if __name__ == '__main__':
    suite.main()
