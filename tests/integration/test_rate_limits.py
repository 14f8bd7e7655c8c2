#!/usr/bin/python3
"""Limits at the proxy: requests and bytes per second of a namespace over all workers, connections, requests in a
pipeline.
"""

import time

from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Closed, Connection, ReplyError, value

suite = Suite(__doc__)

NAMESPACES = {
    'free': {'token': 'free'},
    'few': {'token': 'few', 'rate-limit': '50'},
    'slow': {'token': 'slow', 'rate-limit': '200', 'rate-limit-action': 'delay'},
    'thin': {'token': 'thin', 'bandwidth-limit': '100kb', 'rate-limit-action': 'delay'},
    'team_*': {'token': 'team', 'rate-limit': '50'},
}


def cluster_of(**options):
    return Cluster(backends=1, partitions=2, proxies=1, namespaces=NAMESPACES, **options)


def enter(cluster, *login):
    connection = cluster.connect()
    check_equal(connection.get('AUTH', *login), b'OK')
    return connection


def is_refused(reply):
    return isinstance(reply, ReplyError) and str(reply).startswith('RATELIMIT rate limit of namespace ')


@suite.case("error: one second's amount is allowed at once, over all connections; then requests are refused, not connections")
def _(run):
    with cluster_of() as cluster:
        clients = [enter(cluster, 'few') for _ in range(4)]
        begun = time.monotonic()
        replies = [value(reply) for client in clients for reply in client.pipeline([['SET', 'k', 'v']] * 100)]
        passed, took = sum(reply == b'OK' for reply in replies), time.monotonic() - begun
        check(46 <= passed <= 54 + 50 * took, '%d of 400 in %.3f s' % (passed, took))
        refused = [reply for reply in replies if reply != b'OK']
        check_equal({str(reply) for reply in refused},
                    {"RATELIMIT rate limit of namespace 'few' exceeded: at most 50 requests a second"})
        text = cluster.proxies[0].http('/metrics')[1]
        check(metric(text, 'scree_proxy_rate_refused_total') >= len(refused), 'they are counted')
        check_equal(clients[0].get('AUTH', 'free'), b'OK', 'leaving is free')
        check_equal({value(reply) for reply in clients[0].pipeline([['GET', 'k']] * 500)}, {None}, 'no limit elsewhere')
        wait_for(lambda: clients[1].get('GET', 'k') == b'v', 'tokens to come again')


@suite.case('each namespace of a pattern has its own limit; a refused command aborts its transaction')
def _(run):
    with cluster_of() as cluster:
        first, second = enter(cluster, 'team_1', 'team'), enter(cluster, 'team_2', 'team')
        check(any(is_refused(value(reply)) for reply in first.pipeline([['PING']] * 200)), 'team_1 is at its limit')
        check_equal({value(reply) for reply in second.pipeline([['PING']] * 30)}, {b'PONG'}, 'team_2 is not')
        replies = [value(reply) for reply in second.pipeline([['MULTI']] + [['INCR', 'n']] * 300 + [['EXEC']])]
        check_equal(replies[0], b'OK')
        check(any(is_refused(reply) for reply in replies), 'the limit was met inside')
        check(str(replies[-1]).startswith('EXECABORT'), 'EXEC: %r' % replies[-1])


@suite.case('delay: every request is answered, in order, at the configured rate')
def _(run):
    with cluster_of() as cluster:
        clients = [enter(cluster, 'slow') for _ in range(3)]
        begun = time.monotonic()
        for client in clients:
            client.send_many([['INCR', 'n%d' % clients.index(client)] for _ in range(200)])
        for client in clients:
            check_equal([value(client.read()) for _ in range(200)], list(range(1, 201)), 'in order')
        took = time.monotonic() - begun
        check(took > 1.5, '600 requests at 200 a second, 200 at once: took %.2f s' % took)
        text = cluster.proxies[0].http('/metrics')[1]
        check(metric(text, 'scree_proxy_rate_delayed_total') > 0, 'waits are counted')


@suite.case('bytes: replies count, and a big one delays the next requests')
def _(run):
    with cluster_of() as cluster:
        client = enter(cluster, 'thin')
        check_equal(client.get('SET', 'k', 'x' * 60000), b'OK')
        begun = time.monotonic()
        check_equal({len(value(reply)) for reply in client.pipeline([['GET', 'k']] * 4)}, {60000})
        client.get('PING')
        took = time.monotonic() - begun
        check(took > 1.0, '300 kB at 100 kB/s, a second\'s worth at once: took %.2f s' % took)


@suite.case('a reload changes the limits of existing connections, and releases delayed clients')
def _(run):
    with cluster_of() as cluster:
        proxy, client = cluster.proxies[0], enter(cluster, 'free')
        asked = 0

        def is_delayed():
            """A worker may answer requests by the old limits after the reload was logged."""
            nonlocal asked
            client.send_many([['PING']] * 100)
            asked += 100
            return metric(proxy.http('/metrics')[1], 'scree_proxy_rate_delayed_total')
        proxy.namespaces = dict(NAMESPACES, free={'token': 'free', 'rate-limit': '1', 'rate-limit-action': 'delay'})
        proxy.write_config()
        proxy.reload()
        wait_for(is_delayed, 'the client to wait')
        proxy.namespaces = NAMESPACES
        proxy.write_config()
        begun = time.monotonic()
        check_equal({value(client.read()) for _ in range(asked)}, {b'PONG'})
        check(time.monotonic() - begun < 30, 'not at one a second')


@suite.case('a delayed client may disconnect, and a proxy with delayed clients stops')
def _(run):
    with cluster_of(proxy_options={'proxy': {'drain-timeout': '100ms'}}) as cluster:
        clients = [enter(cluster, 'slow') for _ in range(20)]
        for client in clients:
            client.send_many([['PING']] * 500)
        for client in clients[:10]:
            client.close()
        admin = enter(cluster, 'free')
        wait_for(lambda: admin.get('CLIENT', 'LIST').count(b'\n') <= 11, 'those that closed are gone')


@suite.case('maxclients: a further connection gets an error and is closed; closing one, or CONFIG SET, makes room')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'maxclients': '3'}}) as cluster:
        clients = [cluster.connect() for _ in range(3)]
        check_equal([client.get('PING') for client in clients], [b'PONG'] * 3)

        def refusal():
            try:
                return value(Connection(cluster.proxies[0].address).read())
            except (Closed, OSError):
                return 'closed'
        check_equal(str(refusal()), 'ERR max number of clients reached')
        check_equal(clients[0].get('CONFIG', 'SET', 'maxclients', '4'), b'OK')
        clients.append(cluster.connect())
        check_equal(clients[3].get('PING'), b'PONG')
        check_equal(str(refusal()), 'ERR max number of clients reached')
        clients.pop().close()
        wait_for(lambda: clients[0].get('CLIENT', 'LIST').count(b'\n') == 3, 'the place to be free')
        check_equal(cluster.connect().get('PING'), b'PONG')


@suite.case('client-pipeline-limit: never more requests in flight, and none is lost')
def _(run):
    options = {'proxy': {'client-pipeline-limit': '8'}}
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options=options) as cluster:
        client, looker = cluster.connect(), cluster.connect()
        cluster.backends[0].pause()
        try:
            client.send_many([['INCR', 'n']] * 1000)
            wait_for(lambda: b' oll=8 ' in looker.get('CLIENT', 'LIST'), '8 in flight')
            for _ in range(20):
                check(b' oll=8 ' in looker.get('CLIENT', 'LIST'), 'and not more')
        finally:
            cluster.backends[0].resume()
        check_equal([value(client.read()) for _ in range(1000)], list(range(1, 1001)))


if __name__ == '__main__':
    suite.main()
