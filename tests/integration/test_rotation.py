#!/usr/bin/python3
"""Secrets change while the cluster serves: the cluster secret, tokens of namespaces, and logins that come too early."""

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)


def restart(process, section, secret, previous):
    process.options = dict(process.options, **{section: dict(process.options.get(section, {}), secret=secret)})
    process.options[section]['secret-previous'] = previous
    process.stop()
    process.write_config()
    process.start()


@suite.case('the cluster secret changes in one rolling restart and another one: after each process all shards serve all proxies')
def _(run):
    # a slow machine needs long to start a backend
    with Cluster(backends=3, partitions=1, proxies=2, linked=True, proxy_options={'upstream': {'hold': '1m'}}) as cluster:
        def all_is_well(what):
            for shard in range(3):
                with cluster.partition(shard) as partition:
                    wait_for(lambda: b'peers_links_up:2\r' in partition.get('INFO', 'peers'), '%s: links of shard %d' % (what, shard))
            for proxy in (0, 1):
                wait_for(lambda: cluster.proxies[proxy].http('/readyz')[0] == 200, '%s: proxy %d' % (what, proxy))
                with cluster.connect(proxy) as client:
                    words = [word for shard in range(3) for word in (cluster.key_on(shard), what)]
                    check_equal(client.call('MSET', *words), ('+', b'OK'), what)
        old, new = cluster.secret, 'the-new-secret'
        steps = [(new, old), (new, '')]
        for number, (secret, previous) in enumerate(steps):
            for process in cluster.backends + cluster.proxies:
                restart(process, 'backend' if process in cluster.backends else 'upstream', secret, previous)
                all_is_well('step %d, %s' % (number, process.name))
        with cluster.partition(0) as partition:
            check_equal(partition.call('SCREE', 'AUTH', old)[0], '-', 'the old secret')
            check_equal(partition.call('SCREE', 'AUTH', new)[0], '+', 'the new secret')
            check_equal(partition.call('SCREE', 'AUTH', '')[0], '-', 'an empty secret')


@suite.case('a namespace has two tokens for a while; a reload adds the new one and removes the old one')
def _(run):
    with Cluster(1, 1, 1, namespaces={'shop': {'token': 'old'}}) as cluster:
        proxy = cluster.proxies[0]

        def set_tokens(**options):
            proxy.namespaces = {'shop': {name.replace('_', '-'): token for name, token in options.items()}}
            proxy.write_config()
            proxy.reload()

        def accepts(token, name='shop'):
            with cluster.connect() as client:
                return client.call('AUTH', name, token)[0] == '+'

        def opens(token):
            with cluster.connect() as client:
                return client.call('AUTH', token)[0] == '+'
        check_equal((accepts('old'), accepts('new'), accepts('')), (True, False, False))
        set_tokens(token='new', token_previous='old')
        wait_for(lambda: accepts('new') and opens('new'), 'the new token')
        check(accepts('old') and opens('old') and not accepts('') and not opens(''), 'the old token')
        check('old' not in proxy.http('/config')[1].split('[namespace')[1], 'the token is shown')
        set_tokens(token='new')
        wait_for(lambda: not accepts('old') and not opens('old'), 'the old token to be refused')
        check(accepts('new'), 'the new token')


@suite.case('a login that names an unknown namespace or user leaves the connection without a login, where none is needed')
def _(run):
    with Cluster(1, 1, 1) as cluster:
        for login in (['AUTH', 'soon', 'token'], ['HELLO', '3', 'AUTH', 'soon', 'token']):
            with cluster.connect() as client:
                check_equal(client.call('SET', 'k', '1'), ('+', b'OK'))
                replies = [value(reply) for reply in client.pipeline([login, ['SET', 'k', '2'], ['GET', 'k']])]
                check('WRONGPASS' in str(replies[0]), str(replies))
                check(all(isinstance(reply, ReplyError) and 'NOAUTH' in str(reply) for reply in replies[1:]), str(replies))
                proxy = cluster.proxies[0]
                proxy.write_config()
                proxy.reload()  # of something else: does not let it in
                wait_for(lambda: proxy.log().count(b' reloaded ') >= 1, 'the reload')
                check('NOAUTH' in str(value(client.call('GET', 'k'))), 'after a reload')
                check_equal(client.call('RESET'), ('+', b'RESET'))
                check_equal(client.get('GET', 'k'), b'1')
        with cluster.connect() as client:
            client.call('AUTH', 'soon', 'token')
            proxy.namespaces = {'soon': {'token': 'token'}}
            proxy.write_config()
            proxy.reload()
            wait_for(lambda: client.call('AUTH', 'soon', 'token')[0] == '+', 'the namespace to be there')
            check_equal(client.get('GET', 'k'), None, 'in the namespace')


if __name__ == '__main__':
    suite.main()
