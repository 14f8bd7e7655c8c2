#!/usr/bin/python3
"""What clients share is given out fairly: no command, client or namespace takes all of a proxy."""

import contextlib
import re
import time

from support import harness
from support.cluster import Cluster
from support.harness import Suite, check, check_equal, sized, wait_for
from support.relay import Relay
from support.resp import Closed

suite = Suite(__doc__)
MB = 1 << 20


def wrong_number(client, *words):
    kind, text = client.call(*words)
    return kind == '-' and text.startswith(b'ERR wrong number of arguments')


@suite.case('commands of the server take as many names as clients need: COMMAND DOCS with a million names is refused at once')
def _(run):
    short = [['COMMAND', 'DOCS'], ['COMMAND', 'INFO'], ['CONFIG', 'GET'], ['CLIENT', 'LIST', 'ID'], ['LATENCY', 'RESET']]
    long = [['SCRIPT', 'EXISTS'], ['PUBSUB', 'NUMSUB'], ['PUBSUB', 'SHARDNUMSUB']]
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as client, cluster.partition(0) as shard:
        for target in (client, shard):
            for words in short:
                check(not wrong_number(target, *words, *range(1, 250)), '%r with 250 names' % words)
                check(wrong_number(target, *words, *range(1, 1500)), '%r with 1500 names' % words)
            for words in long:
                check_equal(target.call(*words, *range(1, 20000))[0], '*', repr(words))
                check(wrong_number(target, *words, *range(1, 70000)), '%r with 70000 names' % words)


@suite.case('a reply that the proxy makes ends at client-output-limit, with an error, and the connection goes on')
def _(run):
    with Cluster(backends=1, partitions=1, proxy_options={'proxy': {'client-output-limit': '1mb'}}) as cluster, cluster.connect() as client:
        kind, text = client.call('COMMAND', 'DOCS', *['scree'] * 1000)
        check_equal((kind, b'client-output-limit' in text), ('-', True), text[:200])
        check_equal(client.call('PING'), ('+', b'PONG'))
        check_equal(client.call('COMMAND', 'DOCS', 'get')[0], '*')


FULL = ('-', b'ERR max number of clients reached')
TENANTS = {name: {'token': 'token-' + name} for name in ('many', 'few')}


def shared_cluster(**options):
    """A proxy for the operator and two namespaces."""
    sections = {'proxy': {'requirepass': 'password', 'workers': 2, **options.pop('proxy', {})}, 'upstream': options.pop('upstream', {})}
    return Cluster(backends=1, partitions=1, linked=True, proxy_options=sections, **{'namespaces': TENANTS, **options})


def log_in(cluster, stack, secret):
    """A connection, and the reply to AUTH."""
    client = stack.enter_context(cluster.connect())
    return client, client.call('AUTH', secret)


def in_use(cluster, what, name):
    line = 'scree_proxy_namespace_%s{tenant="%s"} ' % (what, name)
    rows = [row for row in cluster.proxies[0].http('/metrics')[1].split('\n') if row.startswith(line)]
    return int(rows[0][len(line):]) if rows else 0


def ends(client):
    """Is the connection closed? What it sends before is read."""
    try:
        while True:
            client.read()
    except Closed:
        return True


@suite.case('one namespace cannot take all connections: of the last tenth only namespaces get some that hold less')
def _(run):
    with shared_cluster(proxy={'maxclients': 40}) as cluster, contextlib.ExitStack() as stack:
        replies = [log_in(cluster, stack, 'token-many')[1] for _ in range(38)]
        check_equal(replies[:36], [('+', b'OK')] * 36)
        check_equal(replies[36:], [FULL] * 2)
        check_equal(log_in(cluster, stack, 'token-few')[1], ('+', b'OK'))
        wait_for(lambda: in_use(cluster, 'clients', 'many') == 36, 'the metric')
        check_equal(in_use(cluster, 'clients', 'few'), 1)


@suite.case('maxclients of a namespace: a login beyond it is refused, by AUTH and HELLO, and a place that is left is free')
def _(run):
    namespaces = {'many': {'token': 'token-many', 'maxclients': 3}, 'few': {'token': 'token-few'}}
    with shared_cluster(namespaces=namespaces) as cluster, contextlib.ExitStack() as stack:
        clients = [log_in(cluster, stack, 'token-many') for _ in range(4)]
        check_equal([reply for _, reply in clients], [('+', b'OK')] * 3 + [FULL])
        check_equal(clients[3][0].call('HELLO', 3, 'AUTH', 'many', 'token-many'), FULL)
        check_equal(clients[3][0].call('GET', 'k')[1][:6], b'NOAUTH')
        check_equal(clients[0][0].call('AUTH', 'token-many'), ('+', b'OK'), 'it is inside')
        check_equal(clients[0][0].call('AUTH', 'password'), ('+', b'OK'))
        check_equal(clients[3][0].call('AUTH', 'token-many'), ('+', b'OK'))
        check_equal(log_in(cluster, stack, 'token-few')[1], ('+', b'OK'))


@suite.case('when all connections are in use the operator still gets one, and others that are accepted are closed')
def _(run):
    with shared_cluster(proxy={'maxclients': 10, 'login-timeout': '1h'}) as cluster, contextlib.ExitStack() as stack:
        for secret in ['token-many'] * 9 + ['token-few']:
            check_equal(log_in(cluster, stack, secret)[1], ('+', b'OK'))
        check_equal(log_in(cluster, stack, 'token-few')[1], FULL)
        operator, reply = log_in(cluster, stack, 'password')
        check_equal(reply, ('+', b'OK'))
        silent = stack.enter_context(cluster.connect())
        check(ends(silent), 'a client without a login')
        check_equal(operator.call('PING'), ('+', b'PONG'))
        crowd = [stack.enter_context(cluster.connect()) for _ in range(30)]
        check(ends(crowd[-1]), 'beyond the reserve')


@suite.case('one namespace cannot take all dedicated connections')
def _(run):
    with shared_cluster(upstream={'dedicated-limit': 20}) as cluster, contextlib.ExitStack() as stack:
        many = [log_in(cluster, stack, 'token-many')[0] for _ in range(20)]
        replies = [client.call('WATCH', 'k') for client in many]
        check_equal(replies[:18], [('+', b'OK')] * 18)
        check_equal([b'dedicated-limit' in text for _, text in replies[18:]], [True] * 2)
        few = log_in(cluster, stack, 'token-few')[0]
        check_equal(few.call('WATCH', 'k'), ('+', b'OK'))
        check_equal((in_use(cluster, 'dedicated', 'many'), in_use(cluster, 'dedicated', 'few')), (18, 1))
        for client in many[:18]:
            check_equal(client.call('UNWATCH'), ('+', b'OK'))
        wait_for(lambda: in_use(cluster, 'dedicated', 'many') == 0, 'the connections to be free')
        check_equal(many[19].call('WATCH', 'k'), ('+', b'OK'))


TIMEOUT_S = max(1, 0.4 * harness.SLOW)


@suite.case('a value whose bytes are on their way for longer than upstream-timeout is stored, and the reply is OK')
def _(run):
    with Cluster(backends=1, partitions=1, relay=Relay, proxy_options={'upstream': {'timeout': '%dms' % (TIMEOUT_S * 1000)}},
                 backend_options={'backend': {'durability': 'os'}}) as cluster, cluster.connect() as client:  # waits for no disk
        check_equal(client.call('SET', 'k', 'v'), ('+', b'OK'))
        relay, = cluster.relays.values()
        relay.spoil('hold')
        client.send('SET', 'big', b'x' * (32 << 20))
        time.sleep(3 * TIMEOUT_S)
        relay.spoil('heal')
        check_equal(client.read(), ('+', b'OK'))
        check_equal(client.call('STRLEN', 'big'), (':', b'%d' % (32 << 20)))


@suite.case('a full connection to a slow shard is shared by namespaces: one with big pipelines does not go first with all of its own')
def _(run):
    big, clients, each = 'x' * 65536, 60, 16
    with shared_cluster(proxy={'workers': 1}, upstream={'queue-limit': '1mb', 'timeout': '60s'}) as cluster, contextlib.ExitStack() as stack:
        many = [log_in(cluster, stack, 'token-many')[0] for _ in range(clients)]
        few = log_in(cluster, stack, 'token-few')[0]
        shard = stack.enter_context(cluster.partition(0))
        for option, number in (('slowlog-max-len', 10 * clients * each), ('slowlog-log-slower-than', 0)):
            check_equal(shard.call('CONFIG', 'SET', option, number), ('+', b'OK'))
        cluster.backends[0].pause()
        for i, client in enumerate(many):
            client.send_many([('SET', '%d:%d' % (i, j), big) for j in range(each)])
        few.send('SET', 'k', 'w')
        cluster.backends[0].resume()
        check_equal(few.read(), ('+', b'OK'))
        for client in many:
            check_equal([client.read() for _ in range(each)], [('+', b'OK')] * each)
        keys = [entry[3][1] for entry in shard.get('SLOWLOG', 'GET', -1)[::-1] if entry[3][0] == b'SET']  # in the order of execution
        check_equal(len(keys), clients * each + 1, 'requests in the slow log')
        done = keys.index(b'k')
        run.note('%d requests of the other namespace went first' % done)
        check(done < clients * each // 3, '%d requests of the other namespace went first' % done)


@suite.case('a pipeline of commands that each take some time does not hold a shard: other connections are served between them')
def _(run):
    count = 1200
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, cluster.partition(0) as many, cluster.partition(0) as few:
        check_equal(many.call('SET', 'big', b'x' * MB), ('+', b'OK'))
        check_equal(few.call('PING'), ('+', b'PONG'))
        backend = cluster.backends[0]
        backend.pause()
        many.send_many([('BITCOUNT', 'big')] * count)
        few.send('INFO', 'commandstats')
        backend.resume()
        done = re.search(rb'cmdstat_bitcount:calls=(\d+)', few.read()[1])
        check(not done or int(done[1]) < 100, '%s commands of the pipeline went first' % (done and done[1]))
        check_equal({many.read() for _ in range(count)}, {(':', b'%d' % (4 * MB))})


@suite.case('a big value is written and read through the proxy, and its shard is not declared silent')
def _(run):
    size = sized(48, long=400) << 20
    limits = {'client-query-limit': '1gb', 'client-output-limit': '1gb'}
    with Cluster(backends=2, partitions=1, backend_options={'backend': limits}, proxy_options={'proxy': limits}) as cluster, \
            cluster.connect() as client, cluster.connect() as other:
        key = cluster.key_on(0)
        big = b'x' * size
        for words, want in ((('SET', key, big), ('+', b'OK')), (('GET', key), ('$', big))):
            client.send(*words)
            for _ in range(10):
                check_equal(other.call('EXISTS', 'nothing{%s}' % key), (':', b'0'))
            check(client.read() == want, words[0])
        check('upstream_down' not in cluster.proxies[0].log().decode(), 'the shard was lost')


suite.main()
