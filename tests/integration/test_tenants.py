#!/usr/bin/python3
"""The access of a tenant, a client inside a namespace: its own namespace, and nothing else of the server."""

import os
import re

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)

NAMESPACES = {'a': {'token': 'token-of-a'}, 'b': {'token': 'token-of-b'}}
OPERATOR = 'operators-password'
# Allowed for tenants although of the category @admin: each shows and changes only the tenant's own namespace.
SAFE = {'client|kill', 'client|list', 'client|pause', 'client|unpause', 'client|unblock', 'config|get', 'module|list',
        'monitor', 'role', 'slowlog|get', 'slowlog|len', 'slowlog|reset', 'commandlog|get', 'commandlog|len', 'commandlog|reset', 'scree|bigkeys', 'scree|hotkeys',
        'scree|namespaces', 'scree|slowlog'}
# Not allowed for tenants although not of the category @admin: they concern the whole process.
UNSAFE = {'cluster|slot-stats', 'memory|doctor', 'memory|malloc-stats', 'memory|purge', 'memory|stats', 'scree|map', 'scree|shards'}
# These end or change the test's connection.
LEAVES = {'quit', 'reset', 'auth', 'hello', 'client|reply', 'monitor', 'subscribe', 'psubscribe', 'ssubscribe'}
NOPERM = 'NOPERM this command shows or changes the whole server'


def cluster_of():
    return Cluster(backends=1, partitions=2, namespaces=NAMESPACES, proxy_options={'proxy': {'requirepass': OPERATOR}})


def enter(cluster, secret, proto=2):
    connection = cluster.connect(proto=proto)
    check_equal(connection.get('AUTH', secret), b'OK', 'AUTH')
    return connection


def command_rows(cluster):
    """{full name: (arity, is of the category @admin)} of all rows of both programs, without container commands."""
    rows = {}
    with cluster.partition(0) as backend, enter(cluster, OPERATOR) as proxy:
        for connection in (backend, proxy):
            for row in connection.get('COMMAND'):
                for sub in row[9] or [row]:
                    rows[sub[0].decode()] = (sub[1], b'@admin' in sub[6])
    check(len(rows) > 300, '%d commands' % len(rows))
    return rows


def requests_of(name, arity):
    """The command with the fewest arguments, and with more arguments of several kinds."""
    words = name.upper().split('|')
    least = max(abs(arity) - len(words), 0)
    for filler in ('k', '1', 'yes'):
        for more in (0, 1, 2) if arity < 0 else (0,):
            yield words + [filler] * (least + more)


def is_refused(reply):
    return isinstance(reply, ReplyError) and str(reply).startswith(NOPERM)


def pairs_of(reply):
    """{name: text} of CONFIG GET, without the port, which differs between partitions."""
    return {name: text for name, text in zip(reply[::2], reply[1::2]) if name != b'port'}


class Outside:
    """Everything outside of namespace `a` that a tenant of `a` must not change."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.operator = enter(cluster, OPERATOR)
        self.other = enter(cluster, 'token-of-b')
        for client in (self.operator, self.other):
            for words in (['SET', 'k', 'mine'], ['HSET', '1', 'f', 'mine'], ['RPUSH', 'yes', 'mine']):
                check(client.call(*words)[0] != '-', words)
        self.listener = enter(cluster, 'token-of-b')
        check_equal(value(self.listener.call('SUBSCRIBE', 'k'))[0], b'subscribe')
        self.watcher = enter(cluster, 'token-of-b')
        check_equal(self.watcher.get('CLIENT', 'SETNAME', 'watcher'), b'OK')
        self.partitions = [cluster.partition(i) for i in range(2)]
        for connection in self.partitions:
            check_equal(connection.get('CONFIG', 'SET', 'slowlog-log-slower-than', '0'), b'OK')
            connection.pipeline([['PING']] * 50)  # enough to notice a reset of the counts
            check_equal(connection.get('CONFIG', 'SET', 'slowlog-log-slower-than', '-1'), b'OK')

    def connections(self):
        lines = self.operator.get('CLIENT', 'LIST').decode().splitlines()
        return sorted(re.search(r'id=(\d+)', line)[0] for line in lines if 'user=a ' not in line)

    def files(self):
        found = {}
        for name in os.listdir(self.cluster.folder):
            if name.endswith(('.ini', '.acl', '.new')):
                with open(os.path.join(self.cluster.folder, name), 'rb') as file:
                    found[name] = file.read()
        return found

    def look(self):
        state = {'files': self.files(), 'connections': self.connections(),
                 'proxy': pairs_of(self.operator.get('CONFIG', 'GET', '*')),
                 'users': self.operator.get('ACL', 'LIST'), 'map': self.operator.get('SCREE', 'MAP'),
                 'monitor': b'flags=N' in self.operator.get('CLIENT', 'INFO')}
        for name, client in (('outside', self.operator), ('b', self.other)):
            state[name] = [client.get('GET', 'k'), client.get('HGETALL', '1'), client.get('LRANGE', 'yes', 0, -1),
                           client.get('DBSIZE')]
        for i, connection in enumerate(self.partitions):
            info = connection.get('INFO', 'everything').decode()
            state[i] = [pairs_of(connection.get('CONFIG', 'GET', '*')), connection.get('ACL', 'LIST'),
                        connection.get('SLOWLOG', 'LEN') > 0, re.search(r'rdb_saves:\d+', info)[0],
                        int(re.search(r'total_commands_processed:(\d+)', info)[1]) > 50,
                        re.search(r'compaction_last_status:\S*', info)[0], connection.get('LASTSAVE')]
        return state

    def close(self):
        for connection in [self.operator, self.other, self.listener, self.watcher] + self.partitions:
            connection.close()


def same(before, after, what):
    for name, was in before.items():
        got = after[name]
        if isinstance(was, dict):
            was, got = ({key: one[key] for key in one if one[key] != two.get(key)} for one, two in ((was, got), (got, was)))
        check_equal(got, was, '%s changed %s' % (what, name))


# ---- commands ----------------------------------------------------------------------------------------------------

@suite.case('no command of a tenant changes anything outside of its namespace')
def _(run):
    with cluster_of() as cluster:
        rows = command_rows(cluster)
        outside = Outside(cluster)
        before = outside.look()
        tried = 0
        for name, (arity, _) in sorted(rows.items()):
            if name in ('client|pause', 'function|flush', 'function|delete', 'script|flush'):
                continue  # pauses, libraries and scripts of a namespace have tests of their own
            with enter(cluster, 'token-of-a') as tenant:
                if name in LEAVES - {'monitor'}:
                    continue
                requests = list(requests_of(name, arity))
                tenant.send_many(requests)
                tried += len(requests)
                for _ in requests:
                    if tenant.read()[0] == '+' and name == 'monitor':
                        break
            same(before, outside.look(), name)
        run.note('%d requests of %d commands' % (tried, len(rows)))
        outside.close()


@suite.case('each command of the category @admin is refused in a namespace, except those limited to the namespace')
def _(run):
    with cluster_of() as cluster:
        rows = command_rows(cluster)
        with enter(cluster, 'token-of-a') as tenant, enter(cluster, OPERATOR) as operator:
            for name, (arity, is_admin) in sorted(rows.items()):
                if name in LEAVES or name == 'client|pause':
                    continue
                request = next(requests_of(name, arity))
                must = (is_admin and name not in SAFE) or name in UNSAFE
                if name.startswith('b') and not must:
                    continue  # this command blocks
                check_equal(is_refused(tenant.get(*request)), must, '%s: refused' % name)
                if must:
                    tenant.call('MULTI')
                    check(is_refused(tenant.get(*request)), '%s in MULTI' % name)
                    check(str(tenant.get('EXEC')).startswith('EXECABORT'), '%s: EXEC' % name)
                    reply = tenant.get('EVAL', 'return redis.call(unpack(ARGV))', 0, *request)
                    check(isinstance(reply, ReplyError), '%s in a script: %r' % (name, reply))
            for words in (['CONFIG', 'GET', 'maxmemory*'], ['ACL', 'USERS'], ['MEMORY', 'PURGE'], ['LATENCY', 'RESET'],
                          ['SCREE', 'MAP'], ['CONFIG', 'RESETSTAT']):
                check(not isinstance(operator.get(*words), ReplyError), '%r of the operator' % words)


@suite.case('a tenant cannot change any option of the proxy or the backends')
def _(run):
    with cluster_of() as cluster:
        outside = Outside(cluster)
        before = outside.look()
        with enter(cluster, 'token-of-a') as tenant:
            options = {**before['proxy'], **before[0][0]}
            check(len(options) > 200, '%d options' % len(options))
            for name, now in options.items():
                for text in (now, b'0', b'1tb', b'yes', b'no', b'os', b'normal 100 0 0', b'/tmp/x'):
                    check(is_refused(tenant.get('CONFIG', 'SET', name, text)), 'CONFIG SET %r %r' % (name, text))
        same(before, outside.look(), 'CONFIG SET')
        outside.close()


# ---- information -----------------------------------------------------------------------------------------------------

def facts(cluster):
    """Texts that no tenant may see: paths, addresses, names of the process, commands of other namespaces."""
    with cluster.partition(0) as connection:
        info = connection.get('INFO', 'everything').decode()
    with enter(cluster, OPERATOR) as operator:
        own = operator.get('INFO', 'everything').decode()
    found = {cluster.folder, cluster.secret, OPERATOR, 'token-of', 'cmdstat_', 'errorstat_', 'executable', 'process_id'}
    for text in (info, own):
        found.add(re.search(r'run_id:(\w+)', text)[1])
    found.update('%s:%d' % address[:2] for _, address, _ in cluster.shard_addresses())
    return found


@suite.case('a tenant cannot see paths, addresses, run ids and statistics of the process')
def _(run):
    with cluster_of() as cluster:
        secrets = facts(cluster)
        for proto in (2, 3):
            with enter(cluster, 'token-of-a', proto) as tenant, enter(cluster, 'token-of-b') as other:
                for client in (tenant, other):
                    check(client.call('SET', 'k', 'v')[0] == '+', 'SET')
                asked = [['INFO'], ['INFO', 'all'], ['INFO', 'everything'], ['INFO', 'commandstats', 'server', 'tls'],
                         ['CONFIG', 'GET', '*'], ['SCREE', 'MAP'], ['SCREE', 'SHARDS'], ['SCREE', 'NAMESPACES'],
                         ['MEMORY', 'STATS'], ['CLIENT', 'LIST'], ['ACL', 'LIST'], ['SCREE', 'SLOWLOG'],
                         ['SCREE', 'HOTKEYS'], ['SCREE', 'BIGKEYS'], ['SLOWLOG', 'GET'], ['MODULE', 'LIST']]
                for words in asked:
                    ways = {'plain': tenant.get(*words),
                            'EVAL': tenant.get('EVAL', 'return redis.call(unpack(ARGV))', 0, *words)}
                    tenant.call('MULTI')
                    tenant.call(*words)
                    ways['MULTI'] = tenant.get('EXEC')
                    for way, reply in ways.items():
                        for secret in secrets:
                            check(secret not in repr(reply), '%r (%s) shows %s: %.300r' % (words, way, secret, reply))


@suite.case('INFO of a tenant has the fields that client libraries use, and its own keys')
def _(run):
    with cluster_of() as cluster:
        for proto in (2, 3):
            with enter(cluster, 'token-of-a', proto) as tenant, enter(cluster, 'token-of-b') as other:
                check_equal(other.get('MSET', 'x', 1, 'y', 2, 'z', 3), b'OK')
                check_equal(tenant.get('MSET', 'x', 1, 'y', 2), b'OK')
                info = tenant.get('INFO').decode()
                for line in ('redis_version:', 'redis_mode:standalone', 'loading:0', 'maxmemory_policy:noeviction',
                             'role:master', 'cluster_enabled:0', '# Modules', 'db0:keys=2,expires=0'):
                    check('\r\n' + line in '\r\n' + info, 'INFO lacks %s' % line)
                check_equal(tenant.get('INFO', 'commandstats'), b'', 'INFO commandstats')
                check(tenant.get('INFO', 'keyspace').startswith(b'# Keyspace\r\ndb0:keys=2'), 'INFO keyspace')
                for name in ('maxmemory-policy', 'notify-keyspace-events', 'databases', 'save', 'appendonly'):
                    check(tenant.get('CONFIG', 'GET', name), 'CONFIG GET %s' % name)
                for name in ('dir', 'bind', 'logfile', 'requirepass', 'client-output-buffer-limit', 'listen', 'shards'):
                    check(not tenant.get('CONFIG', 'GET', name), 'CONFIG GET %s' % name)


# ---- clients of other namespaces -------------------------------------------------------------------------------------

def client_id(connection):
    return connection.get('CLIENT', 'ID')



@suite.case('CLIENT TRACKING does not redirect to a client of another namespace, as if that client did not exist')
def _(run):
    missing = 'ERR The client ID you want redirect to does not exist'
    with cluster_of() as cluster:
        for proto in (2, 3):
            with enter(cluster, 'token-of-a', proto) as tenant, enter(cluster, 'token-of-b', proto) as other, \
                    enter(cluster, OPERATOR, proto) as operator:
                for target in (other, operator):
                    check_equal(str(tenant.get('CLIENT', 'TRACKING', 'ON', 'REDIRECT', client_id(target))), missing)
                check_equal(tenant.get('CLIENT', 'GETREDIR'), -1)
                check_equal(str(tenant.get('CLIENT', 'TRACKING', 'ON', 'REDIRECT', 999999999)), missing)
        with enter(cluster, 'token-of-a') as tenant, enter(cluster, 'token-of-a') as friend, \
                enter(cluster, 'token-of-a') as writer:
            target = client_id(friend)
            friend.call('SUBSCRIBE', '__redis__:invalidate')
            check_equal(tenant.get('CLIENT', 'TRACKING', 'ON', 'REDIRECT', target), b'OK')
            tenant.get('GET', 'k')
            writer.get('SET', 'k', 'v')
            check_equal(value(friend.read()), [b'message', b'__redis__:invalidate', [b'k']])
            # A client that moves to another namespace gets no more messages of this one.
            check_equal(value(friend.call('UNSUBSCRIBE'))[0], b'unsubscribe')
            check_equal(friend.get('AUTH', 'token-of-b'), b'OK')
            friend.call('SUBSCRIBE', '__redis__:invalidate')
            tenant.get('GET', 'k')
            writer.get('SET', 'k', 'w')
            wait_for(lambda: b'broken_redirect' in tenant.get('CLIENT', 'TRACKINGINFO')[1], 'the redirect to be broken')
            friend.send('PING')
            check_equal(value(friend.read()), [b'pong', b''], 'the first that comes')


@suite.case('CLIENT LIST, KILL, UNBLOCK, PAUSE, MONITOR, SLOWLOG and PUBSUB of a tenant are limited to its namespace')
def _(run):
    with cluster_of() as cluster:
        with enter(cluster, 'token-of-a') as tenant, enter(cluster, 'token-of-b') as other, \
                enter(cluster, 'token-of-b') as waiter, enter(cluster, 'token-of-b') as listener, \
                enter(cluster, 'token-of-a') as monitor, enter(cluster, OPERATOR) as operator:
            ids = [client_id(connection) for connection in (other, waiter, listener, operator)]
            check_equal(value(listener.call('SUBSCRIBE', 'secret-channel'))[0], b'subscribe')
            waiter.send('BLPOP', 'secret-key', 0)
            check_equal(monitor.get('MONITOR'), b'OK')
            wait_for(lambda: operator.get('INFO', 'clients').decode().count('blocked_clients:1'), 'the waiter to wait')
            listed = tenant.get('CLIENT', 'LIST').decode()
            check(all('id=%d ' % id not in listed for id in ids), listed)
            for id in ids:
                check_equal(tenant.get('CLIENT', 'LIST', 'ID', id), b'')
                check_equal(tenant.get('CLIENT', 'KILL', 'ID', id), 0)
                check_equal(tenant.get('CLIENT', 'UNBLOCK', id), 0)
            for words in (['USER', 'b'], ['USER', 'default'], ['TYPE', 'pubsub'], ['LADDR', '127.0.0.1:%d' % cluster.proxies[0].port]):
                reply = tenant.get('CLIENT', 'KILL', *words, 'SKIPME', 'yes')
                check(reply == 0 or isinstance(reply, ReplyError) or words[0] == 'LADDR', '%r: %r' % (words, reply))
            check_equal(tenant.get('PUBSUB', 'CHANNELS'), [])
            check_equal(tenant.get('PUBSUB', 'NUMSUB', 'secret-channel'), [b'secret-channel', 0])
            check_equal(tenant.get('PUBLISH', 'secret-channel', 'from a'), 0)
            check_equal(tenant.get('CLIENT', 'PAUSE', 60000), b'OK')
            check_equal(other.get('SET', 'secret-key-2', 'v'), b'OK', 'another namespace is not paused')
            check_equal(other.get('RPUSH', 'secret-key', 'v'), 1)
            check_equal(value(waiter.read()), [b'secret-key', b'v'])
            check_equal(other.get('PUBLISH', 'secret-channel', 'm'), 1)
            check_equal(value(listener.read()), [b'message', b'secret-channel', b'm'])
            for log in (other.get('SLOWLOG', 'GET'), other.get('SCREE', 'SLOWLOG')):
                check('of a' not in repr(log), log)


# ---- limits ------------------------------------------------------------------------------------------------------

@suite.case('client-output-buffer-limit of normal clients does not disconnect the connections of proxies')
def _(run):
    with cluster_of() as cluster:
        with enter(cluster, OPERATOR) as operator:
            check_equal(operator.get('SET', 'big', 'x' * 1000000), b'OK')
            for text in ('normal 100 0 0', 'pubsub 100 0 0'):
                check_equal(operator.get('CONFIG', 'SET', 'client-output-buffer-limit', text), b'OK', text)
            for _ in range(20):
                check_equal(operator.get('MGET', *['big'] * 4), [b'x' * 1000000] * 4, 'through the proxy')
            check_equal(operator.get('CONFIG', 'SET', 'client-output-buffer-limit', 'normal 0 0 0'), b'OK', 'undone')


if __name__ == '__main__':
    suite.main()
