#!/usr/bin/python3
"""Reads at copies in zones: those of the proxy's zone get them, the others when none there can answer."""

import contextlib
import json

from support.cluster import metric
from support.copies import UNHURRIED, Voters, calls
from support.harness import Suite, check, check_equal, wait_for
from support.played_copies import PlayedShard
from support.resp import ReplyError

suite = Suite(__doc__)

ZONES = ('za', 'zb', 'zc')


def zoned(reads, zone=None):
    """Options of a proxy; `zone` None: that of its environment."""
    return {'proxy': {'workers': '1', 'zone': '$ZONE_OF_TEST' if zone is None else zone},
            'upstream': {'replica-reads': reads, 'hold': '1m', 'health-interval': '100ms'}}


def set_zone(cluster, reads, zone, proxy=0):
    """A reload changes the zone of a proxy."""
    cluster.proxies[proxy].options = zoned(reads, zone)
    cluster.proxies[proxy].write_config()
    cluster.proxies[proxy].reload()


def other_zone(cluster, proxy=0):
    return metric(cluster.proxies[proxy].http('/metrics')[1], 'scree_proxy_reads_other_zone_total')


@contextlib.contextmanager
def played(reads, zone):
    """A proxy in a zone, three copies that the test plays in za, zb and zc, and twelve clients that may read at copies."""
    with PlayedShard(copies=3, proxy_options=zoned(reads, zone)) as shard, contextlib.ExitStack() as stack:
        for copy, own in zip(shard.copies, ZONES):
            copy.zone = own
        clients = [stack.enter_context(shard.connect()) for _ in range(12)]
        for client in clients:
            check_equal(client.get('READONLY'), b'OK')
        yield shard, clients


def wait_read(clients, *copies):
    """Waits until these copies, and no others, answer the clients; each client is answered by one of them."""
    wanted = {b'copy %d' % i for i in copies}
    wait_for(lambda: all({client.get('GET', 'k') for client in clients} == wanted for _ in range(5)), 'reads at %s' % sorted(wanted), pause=0.05)


@suite.case('stale reads go to the copy of the zone; to others while it refuses, is away, or says another zone; a reload changes the zone')
def _(run):
    with played('stale', 'zb') as (shard, clients):
        copy = shard.copies[1]
        wait_read(clients, 1)

        def growth():
            """How many of the reads that each client sends behind a write leave the zone."""
            before = other_zone(shard)
            for client in clients:
                client.pipeline([('SET', 'k', 'v'), ('GET', 'k')])
            return other_zone(shard) - before
        wait_for(lambda: growth() == 0, 'reads to stay in the zone')
        copy.kill()
        wait_read(clients, 2)
        wait_for(lambda: growth() == len(clients), 'each read to be counted once')
        copy.start()
        wait_read(clients, 1)
        copy.refusal = b'-TRYAGAIN it lacks too much\r\n'
        for client in clients:
            check(client.get('GET', 'k') in (b'copy 0', b'copy 2'), 'a copy of another zone')
        copy.refusal = None
        wait_read(clients, 1)
        set_zone(shard, 'stale', 'zc')
        wait_read(clients, 2)
        copy.zone = 'zc'
        wait_read(clients, 1, 2)
        copy.zone = 'no good name'
        wait_read(clients, 2)
        for zone in ('', 'zz'):  # none, and one without a copy: all that follow
            set_zone(shard, 'stale', zone)
            wait_read(clients, 1, 2)
            set_zone(shard, 'stale', 'zc')
            wait_read(clients, 2)


@suite.case('stale reads go to the leader if it alone is in the zone, and back to a copy that follows there')
def _(run):
    with played('stale', 'za') as (shard, clients):
        wait_read(clients, 0)
        shard.copies[2].zone = 'za'
        wait_read(clients, 2)
        shard.copies[2].kill()
        wait_read(clients, 0)


@suite.case('fresh reads are shared out between the copies of the zone, and the leader is one of them')
def _(run):
    with played('fresh', 'za') as (shard, clients):
        wait_read(clients, 0)
        shard.copies[1].zone = 'za'
        wait_read(clients, 0, 1)
        shard.copies[1].kill()
        wait_read(clients, 0)
        set_zone(shard, 'fresh', 'zc')
        wait_read(clients, 2)
        set_zone(shard, 'fresh', 'zz')
        shard.copies[1].start()
        wait_read(clients, 0, 1, 2)


@contextlib.contextmanager
def voters_in_zones(reads):
    """Three copies and three proxies, one of each in each zone, which the environment names."""
    voters = Voters(proxies=3, proxy_options=zoned(reads), backend_options={'backend': {'zone': '$ZONE_OF_TEST', **UNHURRIED['backend']}},
                    replica_reads=reads)
    for process, zone in zip(voters.backends + voters.proxies, ZONES * 2):
        process.extra_env['ZONE_OF_TEST'] = zone
    with voters, voters.connect() as client:
        check_equal(client.get('SET', 'k', 0), b'OK')
        yield voters


def read_many(clients):
    for _ in range(20):
        for client in clients:
            check_equal(client.get('GET', 'k'), b'0')


def wait_zone_answers(voters, clients, index):
    """Waits until this copy answers all reads of the clients: 20 of each."""
    def answers():
        before = [calls(voters, 'get', i) for i in range(3)]
        read_many(clients)
        grown = [calls(voters, 'get', i) - was for i, was in enumerate(before)]
        return grown == [20 * len(clients) * (i == index) for i in range(3)]
    wait_for(answers, 'copy %d to answer all reads' % index, pause=0.05)


@suite.case('each of three zones has a proxy and a copy: all fresh reads stay in their zone, also those of the leader')
def _(run):
    with voters_in_zones('fresh') as voters, contextlib.ExitStack() as stack:
        clients = [[stack.enter_context(voters.connect(proxy)) for _ in range(5)] for proxy in range(3)]
        for zone in range(3):
            wait_zone_answers(voters, clients[zone], zone)
        set_zone(voters, 'fresh', 'zc')
        wait_zone_answers(voters, clients[0], 2)
        with voters.copy(1) as node:
            check_equal(node.get('CONFIG', 'SET', 'zone', 'zc'), b'OK')
        set_zone(voters, 'fresh', 'zb')
        wait_for(lambda: (before := other_zone(voters)) is not None and not read_many(clients[0]) and other_zone(voters) > before, 'no copy to be in the zone')


@suite.case('a copy of the zone that is killed, or lags, loses its reads to other zones without an error, and gets them back')
def _(run):
    with voters_in_zones('fresh') as voters, contextlib.ExitStack() as stack:
        zone = (voters.wait_leader() + 1) % 3
        clients = [stack.enter_context(voters.connect(zone)) for _ in range(5)]
        wait_zone_answers(voters, clients, zone)
        with voters.copy(zone) as node:
            check_equal(node.get('SCREE', 'REPLICAS', 'PAUSE', 600), b'OK')
        before = calls(voters, 'get', zone)
        read_many(clients)
        check_equal(calls(voters, 'get', zone), before, 'reads at a paused copy')
        with voters.copy(zone) as node:
            check_equal(node.get('SCREE', 'REPLICAS', 'RESUME'), b'OK')
        wait_zone_answers(voters, clients, zone)
        voters.backends[zone].kill9()
        read_many(clients)
        voters.backends[zone].start()
        wait_zone_answers(voters, clients, zone)


@suite.case('INFO, metrics and the status page show zones, and a name that is too long is refused')
def _(run):
    with voters_in_zones('stale') as voters, voters.connect() as client, voters.copy(1) as node:
        check(b'\r\nzone:za\r\n' in client.get('INFO', 'server'), 'INFO of the proxy')
        check(b'\r\nzone:zb\r\n' in node.get('INFO', 'server'), 'INFO of the backend')
        check(',zone="za"' in voters.proxies[0].http('/metrics')[1], 'metrics of the proxy')
        check(',zone="zb"' in voters.backends[1].http('/metrics')[1], 'metrics of the backend')

        def shown():
            document = json.loads(voters.proxies[0].http('/status.json')[1])
            copies = (document['map']['shards'][0].get('copies') or {}).get('members', [])
            return document['proxy']['zone'] == 'za' and sorted(copy['zone'] for copy in copies) == list(ZONES)
        wait_for(shown, 'the status page to have all zones')
        for connection in (client, node):
            refusal = connection.get('CONFIG', 'SET', 'zone', 'z' * 64)
            check(isinstance(refusal, ReplyError) and 'expected a name of up to 63 letters' in str(refusal), str(refusal))
        set_zone(voters, 'stale', 'two words')
        wait_for(lambda: metric(voters.proxies[0].http('/metrics')[1], 'scree_proxy_reload_failures_total'), 'the reload to be refused')
        check(b'\r\nzone:za\r\n' in client.get('INFO', 'server'), 'INFO of the proxy')


if __name__ == '__main__':
    suite.main()
