#!/usr/bin/python3
"""Pub/Sub through several proxies and shards: every message once, counts as for one server, and subscriptions that
survive faults.
"""

import contextlib

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Closed, Connection, value

suite = Suite(__doc__)


def connect(cluster, proxy=0, proto=2):
    return Connection(cluster.proxies[proxy].address, proto=proto)


def read_messages(connection, count):
    """Payloads of the next `count` messages; skips confirmations."""
    seen = []
    while len(seen) < count:
        frame = value(connection.read())
        if frame[0] in (b'message', b'pmessage', b'smessage'):
            seen.append(frame[-1])
    return seen


def publish_until(writer, channel, word, count):
    """Publishes different payloads until `count` subscribers were reached, since the first ones may reach fewer.
    Returns the last payload."""
    tries = []
    def reached():
        tries.append(b'%s %d' % (word.encode(), len(tries)))
        return writer.call('PUBLISH', channel, tries[-1]) == (':', b'%d' % count)
    wait_for(reached, '%d subscribers of %s' % (count, channel))
    return tries[-1]


def read_until(connection, payload):
    while read_messages(connection, 1) != [payload]:
        pass


@suite.case('each message reaches each subscriber of each proxy and worker once, in order, and PUBLISH counts them')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2, proxy_options={'proxy': {'workers': 2}}) as cluster:
        listeners = [connect(cluster, i % 2, 2 + i // 2 % 2) for i in range(16)]
        for i, listener in enumerate(listeners):
            listener.send('SUBSCRIBE', 'news')
            check_equal(value(listener.read())[0], b'subscribe')
            if i % 4 == 0:
                listener.send('PSUBSCRIBE', 'n*')
                check_equal(value(listener.read())[0], b'psubscribe')
        publishers = [connect(cluster, i) for i in range(2)]
        check_equal(publishers[0].get('PUBSUB', 'NUMSUB', 'news', 'other'), [b'news', 16, b'other', 0])
        check_equal(publishers[1].get('PUBSUB', 'NUMPAT'), 1)
        check_equal(publishers[1].get('PUBSUB', 'CHANNELS'), [b'news'])
        for i in range(500):
            check_equal(publishers[i % 2].get('PUBLISH', 'news', i), 20)
        # inside a transaction or a script, the shard of the keys sends the message
        keys = [cluster.key_on(shard) for shard in range(3)]
        for i in range(500, 530):
            publisher, key = publishers[i % 2], keys[i % 3]
            if i % 2:
                for words in (['MULTI'], ['SET', key, i], ['PUBLISH', 'news', i], ['EXEC']):
                    reply = publisher.get(*words)
                check_equal(reply, [b'OK', 20])
            else:
                check_equal(publisher.get('EVAL', 'return redis.call("PUBLISH", "news", ARGV[1])', 1, key, i), 20)
        want = [b'%d' % i for i in range(530)]
        for i, listener in enumerate(listeners):
            each = 2 if i % 4 == 0 else 1
            seen = read_messages(listener, each * len(want))
            check_equal(sorted(seen, key=int), sorted(want * each, key=int), 'messages of listener %d' % i)
            in_order = [message for message in seen if int(message) < 500]
            check_equal(in_order[::each], want[:500], 'order')
        listeners[1].close()
        wait_for(lambda: publishers[0].get('PUBLISH', 'news', 'x') == 19, 'the one that left not to be counted')
        for listener in listeners[2:]:
            listener.close()
        listeners[0].close()
        wait_for(lambda: publishers[0].get('PUBSUB', 'CHANNELS') == [], 'nobody to be left')
        for publisher in publishers:
            publisher.close()


@suite.case("keyspace events of every shard reach all subscribers, whatever slot the channel has")
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster, connect(cluster) as writer, connect(cluster) as listener:
        check_equal(writer.get('CONFIG', 'SET', 'notify-keyspace-events', 'KEA'), b'OK')
        keys = [cluster.key_on(shard) for shard in range(3)]
        listener.send('SUBSCRIBE', '__keyevent@0__:set', *['__keyspace@0__:' + key for key in keys])
        for _ in range(4):
            listener.read()
        for key in keys:
            writer.call('SET', key, 1)
        seen = sorted((value(listener.read())[1:] for _ in range(6)), key=repr)
        want = [[b'__keyevent@0__:set', key.encode()] for key in keys] + [
            [b'__keyspace@0__:' + key.encode(), b'set'] for key in keys]
        check_equal(seen, sorted(want, key=repr))


@suite.case('subscriptions survive a restart of a backend, and work for a new shard')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1) as cluster, connect(cluster) as writer, connect(cluster) as listener:
        listener.send('PSUBSCRIBE', '*')
        listener.read()
        channels = ['to{%s}' % cluster.key_on(shard) for shard in range(3)]
        slots = cluster.slots
        cluster.backends[1].kill9()
        for i in (0, 2):
            check_equal(writer.get('PUBLISH', channels[i], 'one down'), 1)
            check_equal(read_messages(listener, 1), [b'one down'])
        with connect(cluster) as late:  # one shard is down: it gets the subscription when it is back
            late.send('SUBSCRIBE', *channels)
            check_equal([value(late.read())[0] for _ in channels], [b'subscribe'] * 3)
            cluster.backends[1].start()
            last = publish_until(writer, channels[1], 'back', 2)
            read_until(late, last)
        read_until(listener, last)
        cluster.slots = [slots[0] + ' ' + slots[2], slots[1]]  # one shard less …
        cluster.write_shards()
        read_until(listener, publish_until(writer, channels[2], 'moved', 1))
        cluster.slots = slots  # … and one shard more
        cluster.write_shards()
        cluster.backends[2].kill9()
        cluster.backends[2].start()
        read_until(listener, publish_until(writer, channels[2], 'again', 1))


@suite.case('a subscriber that does not read is disconnected; the others get every message')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options={'proxy': {'client-output-limit': '2mb'}}) as cluster:
        with connect(cluster) as deaf, connect(cluster, 0, 3) as good, connect(cluster) as writer:
            for listener in (deaf, good):
                listener.send('SUBSCRIBE', 'x')
                listener.read()
            payload, sent = b'p' * 100_000, 0
            while writer.get('PUBLISH', 'x', payload) == 2:
                sent += 1
                check_equal(read_messages(good, 1), [payload])
                check(sent < 500, 'never cut')
            run.note('cut after %d messages of 100 kB' % sent)
            try:
                while True:
                    deaf.read()
            except (Closed, ConnectionError):
                pass


@suite.case('each namespace has channels of its own')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, namespaces={'one': {'token': 't1'}, 'two': {'token': 't2'}}) as cluster:
        clients = {}
        for name, token in (('one', 't1'), ('two', 't2')):
            for role in ('listener', 'writer'):
                client = clients[name, role] = connect(cluster)
                check_equal(client.get('AUTH', name, token), b'OK')
            clients[name, 'listener'].send('PSUBSCRIBE', '*')
            clients[name, 'listener'].read()
        for name in ('one', 'two'):
            check_equal(clients[name, 'writer'].get('PUBLISH', 'x', name), 1)
            check_equal(clients[name, 'writer'].get('PUBSUB', 'NUMPAT'), 1)
            check_equal(read_messages(clients[name, 'listener'], 1), [name.encode()])
        check_equal(clients['one', 'listener'].call('AUTH', 'two', 't2')[0], '-')  # RESP2 subscriber mode
        clients['one', 'listener'].close()
        wait_for(lambda: clients['one', 'writer'].get('PUBLISH', 'x', 'y') == 0, 'the listener to be gone')
        for client in clients.values():
            client.close()


@suite.case('a client can subscribe to 10 000 channels, and leave them all at once')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, connect(cluster) as writer:
        names = ['c%d' % i for i in range(10_000)]
        with connect(cluster) as listener:
            listener.send('SUBSCRIBE', *names)
            for i in range(len(names)):
                check_equal(value(listener.read())[2], i + 1)
            check_equal(len(writer.get('PUBSUB', 'CHANNELS')), len(names))
            check_equal(writer.get('PUBLISH', 'c9999', 'x'), 1)
            check_equal(read_messages(listener, 1), [b'x'])
            listener.send('UNSUBSCRIBE')
            for i in range(len(names)):
                check_equal(value(listener.read())[2], len(names) - 1 - i)
            check_equal(writer.get('PUBSUB', 'CHANNELS'), [])
            listener.send('SUBSCRIBE', *names)
            for _ in names:
                listener.read()
        wait_for(lambda: writer.get('PUBSUB', 'CHANNELS') == [], 'all to be left')


@suite.case('a client that leaves channels which it does not have, or joins those that it has, gets all confirmations however many there are')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        names = ['c%d' % i for i in range(600)]
        for proto in (2, 3):
            for kind in ('', 'P', 'S'):
                for count in (256, 257, len(names)):
                    with connect(cluster, proto=proto) as fresh:
                        fresh.send_many([(kind + 'UNSUBSCRIBE', *names[:count]), ('ECHO', 'x')])
                        check_equal([value(fresh.read())[1:] for _ in range(count)], [[name.encode(), 0] for name in names[:count]])
                        check_equal(value(fresh.read()), b'x')
            with connect(cluster, proto=proto) as listener:
                listener.send_many([('SUBSCRIBE', *names), ('SUBSCRIBE', *names), ('UNSUBSCRIBE', *names), ('UNSUBSCRIBE', *names), ('ECHO', 'x')])
                counts = [value(listener.read())[2] for _ in range(4 * len(names))]
                check_equal(counts, [*range(1, 601), *[600] * 600, *range(599, -1, -1), *[0] * 600])
                check_equal(value(listener.read()), b'x')


def read_available(connection):
    """Bytes that have arrived."""
    connection.sock.setblocking(False)
    data = b''
    try:
        while more := connection.sock.recv(1 << 20):
            data += more
    except BlockingIOError:
        pass
    connection.sock.settimeout(patience())
    return data


def read_up_to(connection, last, data=b''):
    """These bytes and those that come, which end with `last`."""
    while not data.endswith(last):
        more = connection.sock.recv(1 << 20)
        check(more, 'the connection is closed')
        data += more
    return data


def serves_others_before(connection, other, words, last):
    """(are ten requests of another client answered before the last confirmation of this command?, its confirmations)"""
    connection.send(*words)
    data = connection.sock.recv(100)
    for _ in range(10):
        check_equal(other.get('PING'), b'PONG')
    data += read_available(connection)
    return not data.endswith(last), read_up_to(connection, last, data)


@suite.case('while one client subscribes to many patterns, leaves them or disconnects, other clients of its worker are served')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 1}}) as cluster, connect(cluster) as other:
        names = ['p%d' % i for i in range(20_000)]
        for proto in (2, 3):
            listener = connect(cluster, proto=proto)
            served = set()

            def is_served():
                """All confirmations may be there when this test has been waiting for the processor."""
                for words, last in ((('PSUBSCRIBE', *names), b':20000\r\n'), (('PUNSUBSCRIBE',), b':0\r\n')):
                    is_before, data = serves_others_before(listener, other, words, last)
                    check_equal(data.count(words[0].lower().encode()), len(names), 'confirmations')
                    served.update([words[0]] if is_before else [])
                return len(served) == 2
            wait_for(is_served, 'ten replies to another client before the last of %d confirmations' % len(names))
            # requests behind it keep their order, and see all of its effects
            listener.send_many([('PSUBSCRIBE', *names[:1000]), ('PUNSUBSCRIBE', *names[:999]), ('PING',), ('RESET',), ('ECHO', 'x')])
            replies = [value(listener.read()) for _ in range(2002)]
            check_equal([reply[2] for reply in replies[:1999]], [*range(1, 1001), *range(999, 0, -1)], 'counts')
            check_equal(replies[2000:], [b'RESET', b'x'], 'replies behind them')
            listener.close()
            listener = connect(cluster, proto=proto)
            listener.send('PSUBSCRIBE', *names)
            read_up_to(listener, b':20000\r\n')
            check_equal(other.get('PUBLISH', 'p1', 'x'), 1)
            listener.close()
            wait_for(lambda: other.get('PUBSUB', 'NUMPAT') == 0, 'all to be left')
            for some in (1, 300, 10_000):  # it leaves while it subscribes, or unsubscribes
                for words in ((), ('PUNSUBSCRIBE',)):
                    listener = connect(cluster, proto=proto)
                    listener.send_many([('PSUBSCRIBE', *names), words] if words else [('PSUBSCRIBE', *names)])
                    for _ in range(some):
                        listener.read()
                    listener.close()
                    check_equal(other.get('PING'), b'PONG')
            wait_for(lambda: other.get('PUBSUB', 'NUMPAT') == 0, 'all to be left by clients that left early')
            check_equal(other.get('PUBLISH', 'p1', 'x'), 0)


@suite.case('a wide MGET over shards is merged in turns, in the order of its keys')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 1}}) as cluster, connect(cluster) as client:
        keys = ['k%d' % i for i in range(20_000)]
        client.get('MSET', *[word for key in keys[::2] for word in (key, key)])
        client.send_many([('MGET', *keys), ('ECHO', 'x'), ('MGET', *keys[::-1]), ('MGET', keys[0], 'nothing')])
        want = [key.encode() if i % 2 == 0 else None for i, key in enumerate(keys)]
        check_equal([value(client.read()) for _ in range(4)], [want, b'x', want[::-1], [b'k0', None]], 'replies')
        gone = connect(cluster)
        gone.send('MGET', *keys)
        gone.close()
        check_equal(client.get('PING'), b'PONG')


@suite.case('CLIENT LIST of many clients is written in turns: other clients of the worker are served before its reply')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'workers': 1}}) as cluster, \
            connect(cluster) as asker, connect(cluster) as other, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(connect(cluster)) for _ in range(700)]
        wait_for(lambda: other.get('CLIENT', 'LIST').count(b' addr=') == len(clients) + 2, 'the proxy to have accepted all')

        def is_served_before():
            asker.send('CLIENT', 'LIST')
            for _ in range(5):
                check_equal(other.get('PING'), b'PONG')
            data = read_available(asker)
            is_served = not data
            data = read_up_to(asker, b'\n\r\n', data)
            check_equal(data.count(b' addr='), len(clients) + 2)
            return is_served
        wait_for(is_served_before, 'five replies to another client before the list')
        for client in clients[::3]:  # some leave while they are visited
            asker.send('CLIENT', 'LIST')
            client.close()
            check(b' cmd=client|list' in value(asker.read()), 'the asker itself')


if __name__ == '__main__':
    suite.main()
