#!/usr/bin/python3
"""Every reply belongs to its request: 200 clients, keys on all shards, random delays of shards, pipelines in random
pieces.
"""

import asyncio
import random
import signal

from support.aio import Crowd
from support.cluster import Cluster
from support.harness import Suite, check, check_equal, sized
from support.model import OwnKeys
from support.relay import Relay


def options(parser):
    parser.add_argument('--clients', type=int, default=200)
    parser.add_argument('--pipelines', type=int, default=sized(12, long=300), help='per client')


suite = Suite(__doc__, options)


def patient(**options):
    """A cluster in which no request fails because a slow machine takes long."""
    return Cluster(proxy_options={'upstream': {'timeout': '10m'}}, **options)


def crowd_plays(run, addresses, clients, pipelines, longest):
    models = [OwnKeys('c%d' % i, random.Random(run.seed * 1000 + i)) for i in range(clients)]
    crowd = Crowd(addresses, models, longest)
    asyncio.run(crowd.run(pipelines))
    run.note('%d commands, slowest pipeline %.2f s' % (crowd.commands, crowd.slowest))
    check(not crowd.failures, '%d clients failed, the first: %s' % (len(crowd.failures), (crowd.failures or [''])[0]))


@suite.case('replies stay in order while shards delay at random, over two proxies')
def _(run):
    def relay(address):
        return Relay(address, run.seed, delay_ms=(0, 20))
    with patient(backends=2, partitions=2, proxies=2, relay=relay) as cluster:
        addresses = [cluster.proxies[0].address, cluster.proxies[1].address]
        crowd_plays(run, addresses, run.options.clients, run.options.pipelines, 40)


@suite.case('replies stay in order without delays, in long pipelines')
def _(run):
    with patient(backends=2, partitions=2, proxies=1) as cluster:
        crowd_plays(run, [cluster.proxies[0].address], 20, 6, 1500)


@suite.case('a late reply uses the protocol of its request, whichever HELLO came after it')
def _(run):
    listing = ['CLIENT', 'LIST', 'ID', '0']  # requires replies of all workers
    with patient(backends=1, partitions=2, proxies=1) as cluster, cluster.connect() as client:
        replies = client.pipeline([['HELLO', 3], listing, ['HELLO', 2], listing, ['HELLO', 3], listing, ['HELLO', 2]])
        kinds = [kind for kind, _ in replies[1::2]]
        check(kinds == ['=', '$', '='], 'of a verbatim string, RESP3, 2, 3: %r' % replies[1::2])


@suite.case('replies stay in order on TCP and Unix sockets alike')
def _(run):
    with patient(backends=1, partitions=2, proxies=1, unix=True) as cluster:
        crowd_plays(run, [cluster.proxies[0].address, cluster.proxies[0].unix], 20, 8, 40)


@suite.case('replies stay in order over TLS on both hops, while shards delay at random')
def _(run):
    def relay(address):
        return Relay(address, run.seed, delay_ms=(0, 20), is_opaque=True)
    with patient(backends=1, partitions=2, proxies=2, relay=relay, tls=True) as cluster:
        crowd_plays(run, [proxy.address for proxy in cluster.proxies], run.options.clients // 4, run.options.pipelines, 40)


@suite.case('replies stay in order over TLS, in long pipelines')
def _(run):
    with patient(backends=1, partitions=2, proxies=1, tls=True) as cluster:
        crowd_plays(run, [cluster.proxies[0].address], 20, 6, 1500)


@suite.case('replies stay in order on one partition directly')
def _(run):
    with patient(backends=1, partitions=1, proxies=0) as cluster:
        crowd_plays(run, [cluster.backends[0].addresses[0]], 50, 8, 200)


KEYS = ['k%d' % i for i in range(20)]
ALL_SHARDS = [
    'CONFIG SET slowlog-log-slower-than 1000', 'CONFIG SET slowlog-max-len 100 slowlog-log-slower-than 1000', 'CONFIG GET maxmemory',
    'CONFIG REWRITE', 'CONFIG RESETSTAT', 'ACL SETUSER u on', 'ACL DELUSER u', 'ACL LIST', 'ACL LOG', 'FUNCTION LIST', 'FUNCTION DUMP',
    'FUNCTION STATS', 'FUNCTION FLUSH', 'FUNCTION KILL', 'SCRIPT FLUSH', 'SCRIPT EXISTS a', 'SCRIPT KILL', 'SCREE SCRIPT KILL', 'FLUSHALL',
    'FLUSHDB', 'SWAPDB 1 2', 'DBSIZE', 'INFO', 'INFO keyspace', 'CLIENT LIST', 'CLIENT KILL ID 999999', 'CLIENT PAUSE 1', 'CLIENT UNPAUSE',
    'KEYS *', 'SCAN 0', 'RANDOMKEY', 'SAVE', 'BGSAVE', 'LASTSAVE', 'SLOWLOG GET', 'SLOWLOG RESET', 'LATENCY RESET', 'LATENCY HISTORY command',
    'LATENCY HISTOGRAM', 'MEMORY STATS', 'MEMORY DOCTOR', 'MEMORY PURGE', 'MEMORY USAGE k1', 'PUBLISH c m', 'PUBSUB CHANNELS', 'PUBSUB NUMSUB a',
    'WAIT 0 10', 'CLUSTER INFO', 'CLUSTER SLOTS', 'SCREE RUNNING', 'SCREE KILL x', 'SCREE MOVES', 'SCREE TRANSACTIONS', 'CLIENT TRACKING ON BCAST',
    'XREAD BLOCK 100 STREAMS k0 k1 k2 0 0 0', 'EVAL return+redis.call("dbsize") 0', 'SORT k1 BY w*',
] + ['%s %s' % (name, ' '.join(KEYS)) for name in ('MGET', 'DEL', 'EXISTS', 'SINTER', 'PFCOUNT')]


@suite.case('commands to all shards get a reply, in order, while one shard is frozen, dead, busy or silent in a script')
def _(run):
    endless = ('EVAL', 'while true do end', '0')
    for state in ('frozen', 'dead', 'busy', 'silent'):
        with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'upstream': {'timeout': '500ms', 'hold': '500ms'}}) as cluster:
            with cluster.connect() as client:
                client.pipeline([('SET', key, 'v') for key in KEYS])
            with cluster.partition(1) as shard:
                shard.get('CONFIG', 'SET', 'busy-reply-threshold', '20' if state == 'busy' else '1000000000')
                if state in ('busy', 'silent'):
                    shard.send(*endless)
                elif state == 'frozen':
                    cluster.backends[1].signal(signal.SIGSTOP)
                else:
                    cluster.backends[1].kill9()
                for _ in range(2):  # the second time the proxy has noticed
                    clients = [(words, cluster.connect()) for words in ALL_SHARDS]
                    for words, client in clients:
                        client.send_many([[word.replace('+', ' ') for word in words.split()], ('ECHO', words)])
                    for words, client in clients:
                        client.read()
                        check_equal(client.read(), ('$', words.encode()), '%s: the reply behind %s' % (state, words))
                        client.close()
                if state == 'frozen':
                    cluster.backends[1].signal(signal.SIGCONT)
                elif state == 'silent':
                    cluster.backends[1].kill9()


if __name__ == '__main__':
    suite.main()
