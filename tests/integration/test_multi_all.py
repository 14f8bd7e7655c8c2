#!/usr/bin/python3
"""MULTI with commands that concern all shards (DBSIZE, FLUSHALL, SCRIPT LOAD …): replies are those of redis-server."""

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.resp import Connection

suite = Suite(__doc__)

SCRIPT = "return redis.call('GET', KEYS[1])"
LIBRARY = '''#!lua name=lib
redis.register_function('twice', function(keys) return redis.call('APPEND', keys[1], redis.call('GET', keys[1])) end)'''

# Each row is a transaction, one command a line; the keys a, b, c … are on different shards.
TRANSACTIONS = [
    [['FLUSHALL'], ['SET', 'a', 1], ['DBSIZE'], ['SET', 'b', 2], ['DBSIZE'], ['KEYS', '*'], ['MGET', 'a', 'b']],
    [['SET', 'a', 1], ['FLUSHDB'], ['GET', 'a'], ['SET', 'c', 3], ['RANDOMKEY'], ['SCAN', 0, 'COUNT', 1000]],
    [['DBSIZE']],
    [['SET', 'a', 3], ['SET', 'b', 3], ['SET', 'c', 3], ['WAIT', 0, 1000], ['MGET', 'a', 'b', 'c'], ['KEYS', '?'], ['WAIT', 1, 1], ['PUBSUB', 'CHANNELS']],
    [['KEYS', '*'], ['CLIENT', 'GETNAME'], ['DBSIZE'], ['CONFIG', 'GET', 'databases'], ['GET', 'c'], ['CLIENT', 'SETNAME', 'me']],
    [['MSET', 'a', 1, 'b', 2, 'd', 4], ['RENAME', 'a', 'e'], ['KEYS', '[de]'], ['INCR', 'e'], ['LPUSH', 'b', 'x'],
     ['SCAN', 0, 'MATCH', 'e*', 'COUNT', 1000]],
    [['SWAPDB', 0, 1]],
    [['SWAPDB', 0, 1], ['CLIENT', 'GETNAME'], ['CONFIG', 'GET', 'databases']],
    [['SWAPDB', 0, 99], ['CONFIG', 'RESETSTAT']],
    [['SET', 'f', 6]],
    [['SELECT', 1], ['DBSIZE'], ['KEYS', '*'], ['FLUSHDB'], ['SET', 'g', 7], ['DBSIZE'], ['SELECT', 0], ['DBSIZE'], ['EXISTS', 'e', 'g']],
    [['DBSIZE'], ['SELECT', 1], ['SELECT', 99], ['DBSIZE']],
    [['DBSIZE'], ['SELECT', 0], ['SET', 'h', 1]],
    [['SCRIPT', 'FLUSH'], ['SCRIPT', 'LOAD', SCRIPT], ['SCRIPT', 'EXISTS', 'SHA', 'none'], ['INCR', 'count'], ['EVALSHA', 'SHA', 1, 'e'],
     ['EVALSHA', 'SHA', 1, 'd'], ['SCRIPT', 'EXISTS', 'SHA'], ['INCR', 'count'], ['SCRIPT', 'FLUSH']],
    [['DEL', 'count'], ['EVAL', SCRIPT, 1, 'e'], ['SCRIPT', 'LOAD', SCRIPT]],
    [['FUNCTION', 'FLUSH'], ['FUNCTION', 'LOAD', LIBRARY], ['FCALL', 'twice', 1, 'e'], ['FCALL', 'twice', 1, 'd'], ['FUNCTION', 'LIST'],
     ['FUNCTION', 'LOAD', LIBRARY], ['FUNCTION', 'DELETE', 'lib'], ['FUNCTION', 'DELETE', 'lib']],
    [['PUBLISH', 'channel', 'x'], ['DBSIZE'], ['PUBLISH', 'channel', 'y']],
    [['FLUSHALL', 'SYNC'], ['DBSIZE'], ['SAVE']],  # refused: EXEC discards
    [['FLUSHALL', 'SYNC'], ['FLUSHDB', 'never'], ['SCAN', 'x'], ['KEYS', '*'], ['DBSIZE'], ['CONFIG', 'RESETSTAT']],
    [['GET', 'none']] + [['SET', 'n%d' % i, i] if i % 3 else ['DBSIZE'] for i in range(300)],
    [['KEYS', 'n1?'], ['DEL'] + ['n%d' % i for i in range(300)], ['DBSIZE'], ['MULTI'], ['DBSIZE']],
]


def in_order(words, reply):
    """The reply with names that come in any order sorted."""
    if words[0] == 'KEYS':
        return reply[0], sorted(reply[1])
    return ('*', [reply[1][0], sorted(reply[1][1][1])]) if words[0] == 'SCAN' and reply[0] == '*' else reply


def replies_of(client):
    """The replies to all transactions, each with those of EXEC in a list."""
    sha = client.get('SCRIPT', 'LOAD', SCRIPT)
    seen = []
    for number, transaction in enumerate(TRANSACTIONS):
        commands = [[sha if word == 'SHA' else word for word in words] for words in transaction]
        *queued, executed, after = client.pipeline([['MULTI']] + commands + [['EXEC'], ['PING']])
        if executed[0] == '*':
            executed = [in_order(words, reply) for words, reply in zip(commands, executed[1])]
        seen.append((number, queued, executed, after, client.call('DBSIZE')))
    return seen


@suite.case('every reply is that of redis-server, with 1, 3 and 5 shards')
def _(run):
    for backends in (1, 3, 5):
        with Cluster(backends=backends, partitions=1, linked=True) as cluster, Oracle() as oracle:
            for proto in (2, 3):
                with cluster.connect(proto=proto) as client, Connection(oracle.address, proto=proto) as redis:
                    for ours, theirs in zip(replies_of(client), replies_of(redis)):
                        check_equal(ours, theirs, '%d shards, RESP%d, transaction %d' % (backends, proto, theirs[0]))
                    client.get('FLUSHALL'), redis.get('FLUSHALL')


@suite.case('nothing runs when a watched key has changed, also if the first command concerns all shards')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client, cluster.connect() as other:
        near, far = cluster.key_on(0), cluster.key_on(1)
        for first in (['FLUSHALL'], ['SET', far, 'mine']):
            for is_changed in (True, False):
                client.get('MSET', near, 1, far, 1)
                check_equal(client.get('WATCH', near, far), b'OK')
                if is_changed:
                    other.get('SET', far, 2)
                replies = client.pipeline([['MULTI'], first, ['DBSIZE'], ['GET', near], ['EXEC']])
                if is_changed:
                    check_equal(replies[-1], ('*', None), first)
                    check_equal(client.get('MGET', near, far), [b'1', b'2'])
                else:
                    check_equal(replies[-1][0], '*', replies)
                    check_equal([reply[1] for reply in replies[-1][1]], [b'OK', b'0', None] if first[0] == 'FLUSHALL' else [b'OK', b'2', b'1'])


@suite.case('keys, times to live and fields with times that an EXEC makes before it waits for a shard, and deletes after it, are not counted')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster, cluster.connect() as client:
        for home in (0, 1):
            near, kept = cluster.key_on(home), 'kept'
            wait = ['SUNIONSTORE', *('{%s}%d' % (cluster.key_on(1 - home), i) for i in range(3))]
            for make, undo in ((['SET', near, 1], ['DEL', near]), (['SET', near, 1, 'EX', 1000], ['DEL', near]), (['EXPIRE', kept, 1000], ['PERSIST', kept]),
                               (['SET', near, 1], ['RENAME', near, kept])):
                client.get('FLUSHALL')
                client.pipeline([['SELECT', 1], ['SET', kept, 1], ['SELECT', 0]])
                replies = client.pipeline([['MULTI'], ['SELECT', 1], make, wait, undo, ['SELECT', 0], ['EXEC']])[-1]
                check_equal(replies[0], '*', replies)
                client.get('SELECT', 1)
                check_equal(len(client.get('KEYS', '*')), 1, 'keys')
                client.get('SELECT', 0)
                check_equal(client.get('INFO', 'keyspace').splitlines()[1:], [b'db1:keys=1,expires=0,avg_ttl=0'], '%s, %s' % (make, undo))


def watch_step(random, in_multi):
    """A random step of a client that watches keys in several databases."""
    keys = ['w%d' % i for i in range(8)]
    some = random.sample(keys, random.randint(1, 4))
    steps = [['SELECT', random.randint(0, 2)], ['SET', some[0], random.randint(0, 9)], ['GET', some[0]], ['DEL', *some], ['MGET', *some],
             ['COPY', some[0], some[-1], 'DB', random.randint(0, 2), 'REPLACE'], ['MSET', *[word for key in some for word in (key, 1)]]]
    if in_multi:
        return random.choice(steps + [['EXEC']] * 4 + [['DISCARD']])
    return random.choice(steps + [['SWAPDB', random.randint(0, 2), random.randint(0, 2)], ['WATCH', *some], ['WATCH', *some], ['MULTI'], ['MULTI'],
                                  ['UNWATCH'], ['MOVE', some[0], random.randint(0, 2)]])


@suite.case('WATCH, SELECT, EXEC: watched keys of other shards keep their database, also after SWAPDB, in every namespace')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, namespaces={'mine': {'token': 'pw-mine'}, 'other': {'token': 'pw-other'}}) as cluster, Oracle() as oracle, Oracle() as oracle_other:
        keys = [cluster.key_on(shard) for shard in range(3)]
        pairs = [(cluster.connect(), Connection(oracle.address)), (cluster.connect(), Connection(oracle.address)),
                 (cluster.connect(), Connection(oracle_other.address)), (cluster.connect(), Connection(oracle_other.address))]
        for (client, _), token in zip(pairs, ('pw-mine', 'pw-mine', 'pw-other', 'pw-other')):
            check_equal(client.get('AUTH', token), b'OK')
        for first, second in ((0, 1), (1, 0)):
            client, other = pairs[0][0], pairs[1][0]
            client.pipeline([['SELECT', first], ['WATCH', *keys], ['SELECT', second]])
            check_equal(client.pipeline([['MULTI']] + [['SET', key, 1] for key in keys] + [['EXEC']])[-1], ('*', [('+', b'OK')] * 3))
            client.pipeline([['SELECT', first], ['WATCH', *keys], ['SELECT', second]])
            other.pipeline([['SELECT', first], ['SET', keys[2], 'x']])
            check_equal(client.pipeline([['MULTI'], ['GET', keys[0]], ['GET', keys[1]], ['EXEC']])[-1], ('*', None))
        for client, _ in pairs[:2]:
            client.pipeline([['FLUSHALL'], ['SELECT', 0]])
        random = run.rng
        in_multi = [False] * len(pairs)
        done = []
        for _ in range(sized(4000, long=60000)):
            at = random.randrange(len(pairs))
            step = watch_step(random, in_multi[at])
            in_multi[at] = step == ['MULTI'] or (in_multi[at] and step not in (['EXEC'], ['DISCARD']))
            done.append((at, step))
            ours, theirs = (connection.call(*step) for connection in pairs[at])
            check_equal(ours, theirs, 'the steps, the last of which differs: %r' % done[-60:])
        for client, redis in pairs:
            client.close(), redis.close()


@suite.case('when a shard is lost, each command behind SUBSCRIBE replies the error, and nothing is done')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        near, far = cluster.key_on(0), cluster.key_on(1)
        cluster.backends[1].kill9()
        replies = client.pipeline([['MULTI'], ['UNSUBSCRIBE', 'c'], ['SET', near, 1], ['SET', far, 2], ['GET', near], ['CLIENT', 'ID'], ['EXEC'], ['PING']])
        check_equal(replies[-1], ('+', b'PONG'))
        executed = replies[-2]
        check_equal((executed[0], len(executed[1])), ('*', 5), executed)
        check_equal([reply[0] for reply in executed[1]], ['*', '-', '-', '-', '-'])
        cluster.backends[1].start()
        wait_for(lambda: client.call('EXISTS', far) == (':', b'0'), 'the shard to be back')
        check_equal(client.get('GET', near), None)


# Each row would be several transactions, one after the other. The last command is refused, and so is EXEC.
DIVIDED = [
    [['SET', 'a', 2], ['SWAPDB', 0, 1]],
    [['SWAPDB', 0, 1], ['SET', 'a', 2]],
    [['SWAPDB', 0, 1], ['SWAPDB', 1, 2]],
    [['SWAPDB', 0, 1], ['DBSIZE']],
    [['CLIENT', 'ID'], ['SWAPDB', 0, 1], ['SELECT', 1]],
    [['SET', 'a', 2], ['SCRIPT', 'LOAD', SCRIPT], ['EVAL', SCRIPT, 1, 'a']],
    [['SCRIPT', 'LOAD', SCRIPT], ['SET', 'a', 2], ['FUNCTION', 'LOAD', LIBRARY], ['FCALL', 'twice', 1, 'a']],
    [['SET', 'a', 2], ['SUBSCRIBE', 'c'], ['GET', 'a']],
]


@suite.case('a transaction that would not be one moment over several shards is refused, and nothing is done')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        client.get('SET', 'a', 1)
        for proto in (2, 3):
            client.get('HELLO', proto)
            for row in DIVIDED:
                opened, *queued, refused, executed = client.pipeline([['MULTI']] + row + [['EXEC']])
                check_equal([opened] + queued, [('+', b'OK')] + [('+', b'QUEUED')] * (len(row) - 1), row)
                check(refused[0] == '-' and b' transaction' in refused[1], (row, refused))
                check(executed[0] == '-' and executed[1].startswith(b'EXECABORT'), (row, executed))
                check_equal([client.get('GET', 'a'), client.get('DBSIZE')], [b'1', 1], row)
        for step in (['SWAPDB', 0, 1], ['SCRIPT', 'LOAD', SCRIPT]):  # WATCH concerns what runs before these
            client.get('WATCH', 'a')
            *queued, executed = client.pipeline([['MULTI'], step, ['EVAL', SCRIPT, 1, 'a'], ['EXEC']])
            check('-' in [reply[0] for reply in queued] and executed[1].startswith(b'EXECABORT'), (step, queued, executed))


# on a busy machine a transaction waits instead of replying TRYAGAIN
PATIENT = {'backend_options': {'backend': {'transaction-timeout': '5m', 'lock-timeout': '5m', 'peer-timeout': '5m'}},
           'proxy_options': {'upstream': {'timeout': '10m'}}}
# commands for all shards on which no later command depends
APART = [['SCRIPT', 'EXISTS', 'x'], ['SCRIPT', 'LOAD', SCRIPT], ['FUNCTION', 'LOAD', 'REPLACE', LIBRARY], ['LASTSAVE'], ['CONFIG', 'RESETSTAT'], ['MONITOR']]


@suite.case('SCRIPT, FUNCTION and the like in a transaction without scripts: all of it or nothing runs when a shard is lost')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        near, far = cluster.key_on(0), cluster.key_on(1)
        for proto in (2, 3):
            client.get('HELLO', proto)
            for apart in APART:
                executed = client.pipeline([['MULTI'], ['INCR', near], apart, ['INCR', far], ['EXEC']])[-1]
                check_equal([executed[1][i] for i in (0, 2)], [(':', b'1')] * 2, apart)
                client.get('DEL', near, far)
        cluster.backends[1].kill9()
        for apart in APART:
            executed = client.pipeline([['MULTI'], ['INCR', near], apart, ['INCR', far], ['EXEC']])[-1]
            check_equal(executed[0], '-', (apart, executed))
        check_equal(client.get('GET', near), None)


@suite.case('of two clients that watch a key one writes it, also behind SCRIPT LOAD')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, **PATIENT) as cluster, cluster.connect() as one, cluster.connect() as other:
        near, far = cluster.key_on(0), cluster.key_on(1)
        written = []
        for _ in range(100):
            for client in (one, other):
                client.get('WATCH', near)
            for client in (one, other):
                client.send_many([['MULTI'], ['SCRIPT', 'LOAD', SCRIPT], ['INCR', near], ['SCRIPT', 'EXISTS', 'x'], ['INCR', far], ['EXEC']])
            executed = [[client.read() for _ in range(6)][-1] for client in (one, other)]
            check_equal([kind for kind, _ in executed], ['*', '*'])
            written += [reply for _, reply in executed if reply]
            check_equal([written[-1][1], written[-1][3]], [(':', b'%d' % len(written))] * 2, executed)
        check_equal(one.get('MGET', near, far), [b'%d' % len(written)] * 2)


@suite.case('readers never see half of a transaction in which SCRIPT EXISTS is queued')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, **PATIENT) as cluster, cluster.connect() as client, cluster.connect() as reader:
        near, far = cluster.key_on(0), cluster.key_on(1)
        client.get('MSET', near, 0, far, 0)
        for number in range(1, 201):
            client.send_many([['MULTI'], ['INCR', near], ['SCRIPT', 'EXISTS', 'x'], ['INCR', far], ['EXEC']])
            seen = reader.pipeline([['MULTI'], ['GET', far], ['GET', near], ['EXEC']])[-1][1]
            check_equal(seen[0], seen[1], 'after %d transactions' % number)
            check_equal([client.read() for _ in range(5)][-1][1][2], (':', b'%d' % number))


@suite.case('clients that leave, and requests behind EXEC')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, proxy_options={'upstream': {'across-limit': 1}}) as cluster, cluster.connect() as client:
        near, far = cluster.key_on(0), cluster.key_on(1)
        block = [['MULTI'], ['INCR', near], ['DBSIZE'], ['INCR', far], ['INCR', near], ['DBSIZE'], ['RENAME', near, far], ['EXEC']]
        for _ in range(30):
            with cluster.connect() as leaving:
                leaving.send_many(block)
        clients = [cluster.connect() for _ in range(8)]
        for one in clients:  # they wait for the one connection to each shard
            one.send_many((block + [['PING']]) * 5)
        for one in clients:
            for _ in range(5):
                replies = [one.read() for _ in range(len(block) + 1)]
                check_equal([replies[-2][0], len(replies[-2][1]), replies[-1]], ['*', 6, ('+', b'PONG')])
            one.close()
        client.send_many([['CLIENT', 'REPLY', 'OFF']] + block + [['SET', near, 7], ['CLIENT', 'REPLY', 'ON'], ['GET', near]])
        check_equal([client.read(), client.read()], [('+', b'OK'), ('$', b'7')], 'with CLIENT REPLY OFF')


SUBSCRIBING = [
    [['SET', 'k', 1], ['GET', 'k'], ['DBSIZE'], ['SUBSCRIBE', 'a', 'b'], ['PSUBSCRIBE', 'x*'], ['CLIENT', 'GETNAME']],
    [['UNSUBSCRIBE'], ['PUNSUBSCRIBE', 'y'], ['SSUBSCRIBE', 's'], ['SUNSUBSCRIBE'], ['GET', 'k'], ['MONITOR']],
    [['SUBSCRIBE', 'c'], ['PUBLISH', 'other', 'x'], ['GET', 'k'], ['UNSUBSCRIBE', 'c']],
]


@suite.case('SUBSCRIBE and the like run in order, with the confirmations that redis-server writes into the reply of EXEC')
def _(run):
    for backends in (1, 3):
        with Cluster(backends=backends, partitions=1, linked=True) as cluster, Oracle() as oracle:
            for transaction in SUBSCRIBING:
                for proto in (2, 3):
                    with cluster.connect(proto=proto) as client, Connection(oracle.address, proto=proto) as redis:
                        for connection in (client, redis):
                            connection.send_many([['MULTI']] + transaction + [['EXEC'], ['QUIT']])
                        check_equal(client.read_until_closed(patience()), redis.read_until_closed(patience()), (transaction, proto))


@suite.case('messages that arrive during EXEC are sent after its reply, not inside')
def _(run):
    block = [['MULTI'], ['SUBSCRIBE', 'more'], ['INCR', 'k'], ['DBSIZE'], ['GET', 'k'], ['SUBSCRIBE', 'more'], ['EXEC']]
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect(proto=3) as client, cluster.connect() as loud:
        client.call('SUBSCRIBE', 'channel')
        published = 0
        for _ in range(100):
            loud.send_many([['PUBLISH', 'channel', 'x' * 50]] * 20)
            client.send_many(block)
            published += sum(loud.read()[0] == ':' for _ in range(20))
        seen, executed = 0, []
        while seen < published or len(executed) < 100:
            kind, payload = client.read()
            if kind == '>':
                check_equal(payload[0], ('$', b'message'))
                seen += 1
            elif kind == '*':
                executed.append([item[0] for item in payload])
        check_equal(executed, [['>', ':', ':', '$', '>']] * 100)


if __name__ == '__main__':
    suite.main()
