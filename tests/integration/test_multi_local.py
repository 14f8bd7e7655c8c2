#!/usr/bin/python3
"""MULTI at the proxy with commands that the proxy answers itself: CONFIG, CLIENT, SLOWLOG, INFO and the like."""

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, patience
from support.resp import Connection, ReplyError

suite = Suite(__doc__)


def transaction(client, *commands):
    """The reply to EXEC; each command must be queued."""
    check_equal(client.get('MULTI'), b'OK')
    for words in commands:
        check_equal(client.get(*words), b'QUEUED', ' '.join(map(str, words)))
    return client.get('EXEC')


@suite.case('commands that the proxy answers itself run in order at EXEC, with the replies they have without MULTI')
def _(run):
    never = {'slowlog-log-slower-than': -1}  # else SLOWLOG LEN may count a slow SLOWLOG RESET
    for proto in (2, 3):
        with Cluster(backends=1, partitions=3, proxy_options={'proxy': never}) as cluster, cluster.connect(proto=proto) as client:
            commands = [['CLIENT', 'ID'], ['CLIENT', 'SETNAME', 'me'], ['CLIENT', 'GETNAME'], ['PING'], ['ECHO', 'x'],
                        ['CONFIG', 'SET', 'slowlog-max-len', 77], ['CONFIG', 'GET', 'slowlog-max-len'],
                        ['CONFIG', 'GET', 'maxmemory-policy'], ['SLOWLOG', 'RESET'], ['SLOWLOG', 'LEN'], ['ACL', 'WHOAMI'],
                        ['ROLE'], ['MODULE', 'LIST'], ['CLUSTER', 'KEYSLOT', 'k'], ['CONFIG', 'SET', 'nosuch', 1],
                        ['CLIENT', 'NO-EVICT', 'on'], ['LATENCY', 'RESET'], ['COMMAND', 'COUNT'], ['CLIENT', 'KILL', 'ID', 999]]
            replies = transaction(client, *commands)
            check_equal(len(replies), len(commands))
            check_equal(replies, [client.get(*words) for words in commands])
            check_equal(replies[6], {b'slowlog-max-len': b'77'} if proto == 3 else [b'slowlog-max-len', b'77'])
            listed, info, after = transaction(client, ['CLIENT', 'LIST'], ['INFO', 'clients'], ['CLIENT', 'GETNAME'])
            check(b'name=me' in listed and b'# Clients' in info and after == b'me', (listed, info))
            check_equal(client.get('SET', 'k', 'v'), b'OK', 'the connection goes on')


@suite.case('requests after EXEC are answered after it, also when commands need replies of all shards; thousands do not recurse')
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as client:
        block = [['MULTI'], ['CONFIG', 'GET', 'databases'], ['CLIENT', 'ID'], ['CLIENT', 'LIST', 'ID', '1'], ['EXEC']]
        for _ in range(20):
            replies = client.pipeline(block + [['GET', 'k'], ['PING']] + block + [['ECHO', 'end']])
            check_equal([reply[0] for reply in replies], ['+'] * 4 + ['*', '$', '+'] + ['+'] * 4 + ['*', '$'])
            check_equal([len(replies[i][1]) for i in (4, 11)], [3, 3])
            check_equal(replies[-1][1], b'end')
        replies = client.pipeline([['MULTI']] + [['CLIENT', 'ID'], ['CONFIG', 'GET', 'databases']] * 1500 + [['EXEC'], ['PING']])
        check_equal((len(replies[-2][1]), replies[-1]), (3000, ('+', b'PONG')))
        client.send_many([['CLIENT', 'REPLY', 'OFF']] + block + [['GET', 'k'], ['CLIENT', 'REPLY', 'ON'], ['PING']])
        check_equal([client.read(), client.read()], [('+', b'OK'), ('+', b'PONG')], 'with CLIENT REPLY OFF')


@suite.case('a command that ends its own connection, or a client that has left, ends the transaction')
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as client:
        with cluster.connect() as other:
            id = other.get('CLIENT', 'ID')
            other.send_many([['MULTI'], ['CLIENT', 'KILL', 'ID', id, 'SKIPME', 'no'], ['CONFIG', 'GET', 'databases'], ['EXEC'], ['PING']])
            data, is_closed = other.read_until_closed(patience())
            check(is_closed and data.startswith(b'+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n'), data)
        for _ in range(20):
            with cluster.connect() as other:
                other.send_many([['MULTI']] + [['CONFIG', 'GET', '*']] * 20 + [['EXEC']])
        check_equal(client.get('PING'), b'PONG')


@suite.case("a SELECT that fails inside MULTI does not change the client's database")
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as client:
        client.get('SET', 'k', '0')
        replies = transaction(client, ['SELECT', '99'], ['SELECT', '-1'], ['SELECT', 'x'], ['GET', 'k'])
        check(all(isinstance(reply, ReplyError) for reply in replies[:3]) and replies[3] == b'0', replies)
        check_equal(client.get('GET', 'k'), b'0')
        replies = transaction(client, ['SELECT', '3'], ['SET', 'k', '3'], ['SELECT', '99'], ['GET', 'k'])
        check(isinstance(replies[2], ReplyError) and replies[3] == b'3', replies)
        check_equal(client.get('GET', 'k'), b'3')
        client.get('SELECT', '0')
        check_equal(client.get('GET', 'k'), b'0')


@suite.case("in one transaction with keys, replies are in order, and the client's next request is answered after them")
def _(run):
    for proto in (2, 3):
        with Cluster(backends=1, partitions=3) as cluster, Oracle() as oracle, cluster.connect(proto=proto) as client, \
                Connection(oracle.address, proto=proto) as redis:
            commands = [['SET', 'k', 'v'], ['CLIENT', 'SETNAME', 'me'], ['GET', 'k'], ['CLIENT', 'GETNAME'], ['PING'],
                        ['HSET', '{k}h', 'f', '1'], ['CONFIG', 'SET', 'slowlog-max-len', '77'], ['HGETALL', '{k}h'],
                        ['CONFIG', 'GET', 'slowlog-max-len'], ['INCR', 'k'], ['ACL', 'WHOAMI'], ['LRANGE', '{k}l', '0', '-1'],
                        ['CONFIG', 'SET', 'nosuch', '1'], ['GET', '{k}none'], ['CLIENT', 'NO-EVICT', 'on'],
                        ['SELECT', '2'], ['GET', 'k'], ['CLIENT', 'NO-EVICT', 'off']]
            check_equal(transaction(client, *commands), transaction(redis, *commands), 'as Redis')
            check_equal(client.get('SET', 'k', 'in 2'), b'OK')
            check_equal([client.get('SELECT', '0'), client.get('GET', 'k')], [b'OK', b'v'], 'the SELECT was in force')
            # a big value is not copied
            big = b'x' * 3000000
            check_equal(transaction(client, ['CLIENT', 'GETNAME'], ['SET', 'k', big], ['GET', 'k'], ['CLIENT', 'GETNAME']),
                        [b'me', b'OK', big, b'me'])
            block = [['MULTI'], ['CONFIG', 'GET', 'databases'], ['SET', 'k', '1'], ['CLIENT', 'LIST', 'ID', '1'], ['EXEC']]
            for _ in range(20):
                replies = client.pipeline(block + [['GET', 'k'], ['PING']] + block + [['ECHO', 'end']])
                check_equal([reply[0] for reply in replies], ['+'] * 4 + ['*', '$', '+'] + ['+'] * 4 + ['*', '$'])
                check_equal([len(replies[i][1]) for i in (4, 11)], [3, 3])
                check_equal(replies[-1][1], b'end')
            client.send_many([['CLIENT', 'REPLY', 'OFF']] + block + [['INCR', 'k'], ['CLIENT', 'REPLY', 'ON'], ['PING']])
            check_equal([client.read(), client.read()], [('+', b'OK'), ('+', b'PONG')], 'with CLIENT REPLY OFF')
            check_equal(client.get('GET', 'k'), b'2')


@suite.case('in a transaction with keys, the proxy runs its commands only if the shard runs its own')
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as client, cluster.connect() as other:
        def watched(change):
            client.get('CLIENT', 'SETNAME', 'before')
            check_equal(client.get('WATCH', 'k'), b'OK')
            if change:
                other.get('SET', 'k', 'changed')
            reply = transaction(client, ['CLIENT', 'SETNAME', 'after'], ['SET', 'k', 'mine'])
            return reply, client.get('CLIENT', 'GETNAME'), client.get('GET', 'k')
        check_equal(watched(True), (None, b'before', b'changed'))
        check_equal(watched(False), ([b'OK', b'OK'], b'after', b'mine'))
        client.get('CLIENT', 'SETNAME', 'before')
        check_equal(client.get('WATCH', 'k'), b'OK')
        other.get('SET', 'k', 'changed')
        check_equal(transaction(client, ['CLIENT', 'SETNAME', 'after']), None, 'only the proxy\'s, under WATCH')
        check_equal(client.get('CLIENT', 'GETNAME'), b'before')
        a, b = cluster.key_on(0), cluster.key_on(1)
        check_equal(client.get('MULTI'), b'OK')
        for words in (['CLIENT', 'SETNAME', 'after'], ['SET', a, 'v'], ['SET', b, 'v']):
            check_equal(client.get(*words), b'QUEUED')
        check('CROSSSLOT' in str(client.get('EXEC')), 'keys of two shards, which have no links')
        check_equal([client.get('CLIENT', 'GETNAME'), client.get('EXISTS', a)], [b'before', 0])
        # clients that disconnect before the reply
        for _ in range(20):
            with cluster.connect() as leaving:
                leaving.send_many([['WATCH', 'k'], ['MULTI'], ['CLIENT', 'ID'], ['SET', 'k', 'v'], ['EXEC']])
        check_equal(client.get('PING'), b'PONG')
        # a shard that is unreachable
        client.get('CLIENT', 'SETNAME', 'before')
        cluster.backends[0].stop()
        check_equal(client.get('MULTI'), b'OK')
        check_equal([client.get('SET', 'k', 'v'), client.get('CLIENT', 'SETNAME', 'after')], [b'QUEUED'] * 2)
        check(isinstance(client.get('EXEC'), ReplyError), 'EXEC without a shard')
        check_equal(client.get('CLIENT', 'GETNAME'), b'before')


@suite.case('commands that are not allowed in transactions are refused')
def _(run):
    with Cluster(backends=1, partitions=3) as cluster, cluster.connect() as client:
        for words in (['SHUTDOWN'], ['SAVE'], ['CLIENT', 'REPLY', 'OFF'], ['AUTH', 'x'], ['HELLO', '3'],
                      ['PSYNC', 'x', '1']):
            check_equal(client.get('MULTI'), b'OK')
            reply = client.get(*words)
            check(isinstance(reply, ReplyError), words)
            if words[0] in ('SHUTDOWN', 'SAVE'):
                check_equal(str(reply), 'ERR Command not allowed inside a transaction', words[0])  # as redis-server 7.0.15
            check(str(client.get('EXEC')).startswith('EXECABORT'), words)
        check_equal(transaction(client, ['PING'], ['SET', 'k', 'v'], ['TIME'])[:2], [b'PONG', b'OK'])
        check_equal(client.get('GET', 'k'), b'v')


if __name__ == '__main__':
    suite.main()
