#!/usr/bin/python3
"""Each namespace looks like a Redis of its own: logins, isolation, patterns, listeners, ephemeral namespaces."""

import re
import time

from support import harness
from support.cluster import Cluster, metric, scan_all, slot_of
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection, ReplyError, value


def options(parser):
    parser.add_argument('--keys', type=int, default=sized(300000, long=1000000), help='keys of the namespace that is flushed')


suite = Suite(__doc__, options)

NAMESPACES = {
    'one': {'token': 'token-one'},
    'two': {'token': 'token-two'},
    'fixed': {'token': 'token-fixed', 'slot-rule': 'fixed:7'},
    'fields': {'token': 'token-fields', 'slot-rule': 'prefix:::2'},
    'test_*': {'token': 'token-test'},
    'gone_*': {'token': 'token-gone', 'ephemeral': 'yes', 'ephemeral-after': '1s'},
    'bound': {},
}


def cluster_of(**options):
    options.setdefault('namespaces', NAMESPACES)
    options.setdefault('proxy_options', {'proxy': {'requirepass': 'outside'}})
    return Cluster(backends=2, partitions=2, proxies=2, **options)


def enter(cluster, *login, proxy=0, proto=2):
    connection = cluster.connect(proxy, proto=proto)
    check_equal(connection.get('AUTH', *login), b'OK', 'AUTH %s' % ' '.join(login))
    return connection


def is_error(reply, code):
    return isinstance(reply, ReplyError) and str(reply).split()[0] == code


@suite.case('logins: AUTH token, AUTH NAME token, HELLO AUTH; wrong ones are WRONGPASS')
def _(run):
    with cluster_of() as cluster:
        with enter(cluster, 'token-one') as one, enter(cluster, 'one', 'token-one') as again, cluster.connect() as hello:
            reply = hello.get('HELLO', '3', 'AUTH', 'one', 'token-one', 'SETNAME', 'me')
            check(isinstance(reply, dict) and reply[b'proto'] == 3, 'HELLO AUTH: %r' % reply)
            one.call('SET', 'k', 'mine')
            check_equal([client.get('GET', 'k') for client in (one, again, hello)], [b'mine'] * 3)
        with cluster.connect() as client:
            for login in (['nonsense'], ['one', 'token-two'], ['nobody', 'token-one'], ['one', ''], ['']):
                reply = client.get('AUTH', *login)
                check(is_error(reply, 'WRONGPASS'), 'AUTH %r: %r' % (login, reply))
            check(is_error(client.get('HELLO', '3', 'AUTH', 'one', 'wrong'), 'WRONGPASS'), 'HELLO with a wrong token')
            check(is_error(client.get('GET', 'k'), 'NOAUTH'), 'after failed logins')
            check_equal(client.get('AUTH', 'outside'), b'OK')
            check_equal(client.get('GET', 'k'), None, 'outside the namespaces')
            check_equal(client.get('AUTH', 'two', 'token-two'), b'OK')
            check_equal(client.get('GET', 'k'), None, 'in the other namespace')
            check_equal(client.get('AUTH', 'token-one'), b'OK')
            check_equal(client.get('GET', 'k'), b'mine', 'after changing over')
            check(is_error(client.get('AUTH', 'wrong'), 'WRONGPASS'), 'a wrong token later')
            check_equal(client.get('GET', 'k'), b'mine', 'a failed login changes nothing')


@suite.case('with tokens and without requirepass, every client needs a token')
def _(run):
    with cluster_of(proxy_options={}) as cluster:
        with cluster.connect() as client:
            check(is_error(client.get('GET', 'k'), 'NOAUTH'), 'GET without a login')
            check(is_error(client.get('AUTH', ''), 'WRONGPASS'), 'an empty password')
            check(is_error(client.get('AUTH', 'default', ''), 'WRONGPASS'), 'an empty password of the default user')
            check(is_error(client.get('GET', 'k'), 'NOAUTH'), 'GET after empty passwords')
            check_equal(client.get('AUTH', 'token-one'), b'OK')
            check_equal(client.get('GET', 'k'), None)


@suite.case('with requirepass, NOAUTH until a login; tokens work too')
def _(run):
    with cluster_of(proxy_options={'proxy': {'requirepass': 'open sesame'}}) as cluster:
        with cluster.connect() as client:
            for words in (['GET', 'k'], ['PING'], ['MULTI'], ['NOSUCH'], ['SCREE', 'MAP'], ['KEYS', '*']):
                reply = client.get(*words)
                check(is_error(reply, 'NOAUTH') or words == ['NOSUCH'], '%r before AUTH: %r' % (words, reply))
            check_equal(client.get('AUTH', 'open sesame'), b'OK')
            check_equal(client.get('SET', 'k', 'outside'), b'OK')
        with enter(cluster, 'token-one') as client:
            check_equal(client.get('GET', 'k'), None)


def fill(client, name):
    commands = [['SET', 'k%d' % i, name] for i in range(50)] + [['HSET', 'h%d' % i, 'f', name] for i in range(10)]
    check(not any(reply[0] == '-' for reply in client.pipeline(commands)), 'filling %s' % name)


@suite.case('KEYS, SCAN, RANDOMKEY, DBSIZE, EXISTS, FLUSHALL and FLUSHDB see one namespace')
def _(run):
    with cluster_of() as cluster:
        clients = {name: enter(cluster, 'token-' + name) for name in ('one', 'two', 'fixed', 'fields')}
        clients['outside'] = enter(cluster, 'outside')
        for name, client in clients.items():
            fill(client, name)
        names = {b'k%d' % i for i in range(50)} | {b'h%d' % i for i in range(10)}
        for name, client in clients.items():
            check_equal(set(client.get('KEYS', '*')), names, name + ' KEYS')
            check_equal(len(client.get('KEYS', '*')), 60, name + ' KEYS')
            check_equal(set(client.get('KEYS', 'h?')), {b'h%d' % i for i in range(10)}, name)
            check_equal(scan_all(client, 'COUNT', '7'), names, name + ' SCAN')
            check_equal(scan_all(client, 'MATCH', 'k1*', 'TYPE', 'string'),
                        {key for key in names if key.startswith(b'k1')}, name)
            check_equal(client.get('DBSIZE'), 60, name + ' DBSIZE')
            check({client.get('RANDOMKEY') for _ in range(30)} <= names, name + ' RANDOMKEY')
            check_equal({value(reply) for reply in client.pipeline([['GET', 'k%d' % i] for i in range(50)])},
                        {name.encode()}, name)
        check_equal(clients['one'].get('FLUSHALL'), b'OK')
        check_equal(clients['one'].get('DBSIZE'), 0)
        check_equal(clients['one'].get('RANDOMKEY'), None)
        check_equal(clients['one'].get('KEYS', '*'), [])
        check_equal(clients['outside'].get('FLUSHDB'), b'OK', 'FLUSHDB outside')
        for name in ('two', 'fixed', 'fields'):
            check_equal(clients[name].get('DBSIZE'), 60, name + ' after the others were flushed')
            check_equal(clients[name].get('HGETALL', 'h3'), [b'f', name.encode()], name)
        for client in clients.values():
            client.close()


@suite.case('databases, transactions, WATCH and multi-key commands stay inside')
def _(run):
    with cluster_of() as cluster:
        with enter(cluster, 'token-one') as one, enter(cluster, 'token-two', proxy=1) as two:
            one.call('SELECT', '3')
            one.call('SET', 'k', 'one, db 3')
            two.call('SELECT', '3')
            check_equal(two.get('GET', 'k'), None)
            one.call('WATCH', 'k')
            two.call('SET', 'k', 'two, db 3')
            one.call('MULTI')
            one.call('GET', 'k')
            check_equal(one.get('EXEC'), [b'one, db 3'], 'WATCH must not see the other namespace')
            one.call('SELECT', '0')
            check_equal(one.get('GET', 'k'), None)
            check_equal(two.get('FLUSHALL'), b'OK')
            one.call('SELECT', '3')
            check_equal(one.get('GET', 'k'), b'one, db 3')
            keys = ['key:%d' % i for i in range(100)]
            one.call('MSET', *[word for key in keys for word in (key, key)])
            check_equal(two.get('EXISTS', *keys), 0)
            check_equal(one.get('MGET', *keys), [key.encode() for key in keys])
            check_equal(one.get('DEL', *keys), 100)


@suite.case('slot rules: related keys are on one shard without tags')
def _(run):
    with cluster_of() as cluster:
        keys = ['key:%d' % i for i in range(40)]
        with enter(cluster, 'token-fixed') as client:
            words = [word for key in keys for word in (key, key)]
            check_equal(client.get('MSETNX', *words), 1, 'MSETNX of keys in one fixed slot')
            check_equal(client.get('RENAME', keys[0], 'elsewhere'), b'OK')
        with enter(cluster, 'token-fields') as client:
            related = ['seats:1:A-%d' % i for i in range(40)]
            client.call('MULTI')
            for key in related:
                client.call('SET', key, 'free')
            check_equal(client.get('EXEC'), [b'OK'] * 40, 'EXEC over seats:1:*')
            check_equal(client.get('DBSIZE'), 40)
        with enter(cluster, 'token-one') as client:
            far = [cluster.key_on(0), cluster.key_on(3)]
            check(is_error(client.get('RENAME', *far), 'CROSSSLOT'), 'RENAME over shards by the tag rule')
            check_equal(slot_of('{a}x') == slot_of('{a}y'), True)


@suite.case('pattern namespaces: every name that matches is a namespace of its own, without configuration')
def _(run):
    with cluster_of() as cluster:
        clients = {name: enter(cluster, name, 'token-test') for name in ('test_a', 'test_b', 'test_')}
        for name, client in clients.items():
            client.call('SET', 'k', name)
        for name, client in clients.items():
            check_equal(client.get('GET', 'k'), name.encode())
            check_equal(client.get('DBSIZE'), 1, name)
        clients['test_a'].call('FLUSHALL')
        check_equal([clients[name].get('DBSIZE') for name in ('test_a', 'test_b', 'test_')], [0, 1, 1])
        with cluster.connect() as client:
            for login in (['other_a', 'token-test'], ['test_a', 'wrong'], ['test', 'token-test'], ['one', 'token-test']):
                check(is_error(client.get('AUTH', *login), 'WRONGPASS'), 'AUTH %r' % login)
        with enter(cluster, 'test_b', 'token-test', proxy=1) as client:
            check_equal(client.get('GET', 'k'), b'test_b', 'through the other proxy')
        for client in clients.values():
            client.close()


@suite.case('a listener bound to a namespace needs no login')
def _(run):
    with cluster_of(listeners={'l1': 'bound', 'l2': 'test_listener'}) as cluster:
        ports = cluster.proxies[0].listener_ports
        with Connection(('127.0.0.1', ports['l1'])) as bound, Connection(('127.0.0.1', ports['l2'])) as pattern:
            check_equal(bound.get('SET', 'k', 'bound'), b'OK')
            check_equal(pattern.get('GET', 'k'), None)
            pattern.call('SET', 'k', 'pattern')
            with enter(cluster, 'test_listener', 'token-test') as client:
                check_equal(client.get('GET', 'k'), b'pattern')
            with enter(cluster, 'outside') as outside:
                check_equal(outside.get('GET', 'k'), None)
                check(is_error(outside.get('AUTH', 'bound', ''), 'WRONGPASS'), 'a namespace without token has no login')
            check_equal(bound.get('RESET'), b'RESET')
            check_equal(bound.get('GET', 'k'), b'bound', 'RESET goes back to the listener\'s namespace')


@suite.case('an ephemeral namespace is dropped after its last connection has closed, and not before')
def _(run):
    with cluster_of() as cluster:
        keeper = enter(cluster, 'gone_kept', 'token-gone')
        keeper.call('SET', 'k', 'kept')
        leaver = enter(cluster, 'gone_left', 'token-gone')
        fill(leaver, 'left')
        other = enter(cluster, 'gone_left', 'token-gone')
        leaver.close()
        stays = enter(cluster, 'test_x', 'token-test')
        stays.call('SET', 'k', 'stays')
        check_equal(other.get('DBSIZE'), 60)
        started = time.monotonic()
        other.close()

        def keys_left():
            """The number of the namespace's keys on the partitions, from a metric, so that no connection enters the
            namespace."""
            return sum(metric(backend.http('/metrics')[1], 'scree_backend_keys') or 0 for backend in cluster.backends)
        wait_for(lambda: keys_left() == 2, 'the 60 keys to be dropped')
        took = time.monotonic() - started
        check(took > 0.8, 'dropped after %.1f s already' % took)
        run.note('dropped %.1f s after the last connection closed (ephemeral-after 1 s)' % took)
        check_equal(keeper.get('GET', 'k'), b'kept')
        check_equal(stays.get('GET', 'k'), b'stays')
        with enter(cluster, 'gone_left', 'token-gone') as back:
            check_equal(back.get('DBSIZE'), 0)
            back.call('SET', 'k', 'new life')
            check_equal(back.get('DBSIZE'), 1)
        keeper.close()
        stays.close()


@suite.case("an ephemeral namespace with a client at another proxy is not dropped, whatever that proxy's ephemeral-after")
def _(run):
    def namespaces(after):
        return {'gone_*': {'token': 'token-gone', 'ephemeral': 'yes', 'ephemeral-after': after}}

    cluster = Cluster(backends=2, partitions=1, proxies=2, namespaces=namespaces('%dms' % (1000 * harness.SLOW)))
    cluster.proxies[1].namespaces = namespaces('1h')
    with cluster:
        def enter_by(proxy, name):
            client = cluster.connect(proxy)
            check_equal(client.call('AUTH', name, 'token-gone'), ('+', b'OK'), 'AUTH')
            return client

        def dropped(name):
            return b'namespace_dropped name="%s"' % name.encode() in cluster.proxies[0].log()

        keeper = enter_by(1, 'gone_kept')
        check_equal(keeper.call('MSET', *[word for i in range(20) for word in ('k%d' % i, 'v')]), ('+', b'OK'), 'MSET')
        for restart in (False, True):
            if restart:
                for backend in cluster.backends:
                    backend.kill9()
                    backend.start()
                wait_for(lambda: keeper.call('DBSIZE')[0] == ':', 'the shards to be back')
            for backend in cluster.backends:
                wait_for(lambda backend=backend: re.search(r'command_calls_total\{command="scree\|keep".*\} [1-9]', backend.http('/metrics')[1]),
                         backend.name + ' to be told')
            name = 'gone_left%d' % restart
            for each in ('gone_kept', name):
                with enter_by(0, each) as leaver:
                    wait_for(lambda: leaver.call('DBSIZE')[0] == ':', 'the shards to be back')
            wait_for(lambda: dropped(name), 'the other namespace to be dropped')
            time.sleep(2 * harness.SLOW)  # by then the proxy would have tried to drop the one that is kept
            check(not dropped('gone_kept'), 'it was dropped')
            check_equal(keeper.call('DBSIZE'), (':', b'20'), 'DBSIZE')
        keeper.close()


@suite.case('FLUSHALL of a big namespace is quick and does not change other namespaces')
def _(run):
    with cluster_of(backend_options={'backend': {'durability': 'os'}}) as cluster:
        with enter(cluster, 'token-one') as one, enter(cluster, 'token-two') as two, enter(cluster, 'outside') as outside:
            fill(two, 'two')
            fill(outside, 'outside')
            count, batch = run.options.keys, 2000
            for start in range(0, count, batch):
                words = ['MSET']
                for i in range(start, min(start + batch, count)):
                    words += [b'k%d' % i, b'v']
                check_equal(one.get(*words), b'OK')
            check_equal(one.get('DBSIZE'), count)
            started = time.monotonic()
            check_equal(one.get('FLUSHALL'), b'OK')
            run.note('FLUSHALL of %d keys: %.1f ms' % (count, (time.monotonic() - started) * 1000))
            check_equal(one.get('DBSIZE'), 0)
            check_equal(one.get('EXISTS', 'k0', 'k%d' % (count - 1)), 0)
            started = time.monotonic()
            check_equal(scan_all(one), set())
            run.note('SCAN of what is left: %.1f ms' % ((time.monotonic() - started) * 1000))
            for client, name in ((two, b'two'), (outside, b'outside')):
                check_equal(client.get('DBSIZE'), 60)
                check_equal(client.get('GET', 'k7'), name)
            one.call('SET', 'k1', 'again')
            check_equal(one.get('KEYS', '*'), [b'k1'])


@suite.case('internal commands are refused for clients')
def _(run):
    with cluster_of() as cluster:
        with enter(cluster, 'outside') as through, cluster.partition(0) as direct:
            for client, where in ((through, 'proxy'), (direct, 'partition')):
                reply = client.get('SCREE', 'USE', 'one', '0')
                check(isinstance(reply, ReplyError), 'SCREE USE at the %s: %r' % (where, reply))
                reply = client.get('SCREE', 'AUTH', 'wrong secret')
                check(isinstance(reply, ReplyError), 'SCREE AUTH at the %s: %r' % (where, reply))


@suite.case('after a restart of the backend a namespace counts as used at the start: SCREE DROP keeps it')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]

        def enter_as_proxy():
            connection = cluster.partition(0)
            connection.pipeline([('SCREE', 'AUTH', cluster.secret), ('SCREE', 'USE', 'brief', '0')])
            return connection
        with enter_as_proxy() as connection:
            connection.call('SET', 'k', 'v')
        backend.stop()
        backend.start()
        with enter_as_proxy() as connection:
            check_equal(connection.get('SCREE', 'DROP', '3600000'), 0, 'idle for an hour?')
        with enter_as_proxy() as connection:
            check_equal(connection.get('SCREE', 'DROP', '0'), 1, 'idle for no time at all')


if __name__ == '__main__':
    suite.main()
