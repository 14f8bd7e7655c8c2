#!/usr/bin/python3
"""The change stream: every change has an event, by tokens that go on after kill -9, moves and losses; the program of
docs/change-stream.md keeps a redis-server equal."""

import random
import re
import shutil
import tempfile
import threading
import time

from support.cluster import Cluster, Oracle, metric
from support.followers import Follower, LineWriter, difference, kill_all_at_work, table_difference, wait_equal
from support.harness import Suite, check, check_equal, sized, wait_for
from support.moves import random_slots, wait_settled
from support.relay import Relay
from support.resp import Closed, ReplyError, value

suite = Suite(__doc__)
ON = {'store': {'change-log': '1gb'}}


def changes(client, token, *options):
    """READ; again, while a new map comes."""
    def read():
        reply = client.get('SCREE', 'CHANGES', 'READ', token, *options)
        return None if str(reply).startswith('TRYAGAIN') else reply
    reply = wait_for(read, 'the changes')
    check(not isinstance(reply, ReplyError), 'READ: %r' % reply)
    return reply


def wait_moved(cluster, client):
    """Waits until all shards have the slots of the newest map, and the proxy's worker of this client has the map."""
    wait_settled(cluster, range(len(cluster.backends)))
    line = b'cluster_current_epoch:%d\r' % cluster.epoch
    wait_for(lambda: line in client.get('CLUSTER', 'INFO'), 'the worker to have the map')


def read_all(client, token, *options):
    """All events up to now: [(database, kind, key, …)], and the next token."""
    events, lag = [], 1
    while lag:
        token, page, lag = changes(client, token, *options)
        events += [tuple(event[1:]) for event in page]
    return events, token


def client_line(asker, client):
    """The line of CLIENT LIST about this connection."""
    address = b' addr=%s:%d ' % (client.sock.getsockname()[0].encode(), client.sock.getsockname()[1])
    return [line for line in asker.get('CLIENT', 'LIST').split(b'\n') if address in line][0]


def error_of(client, *words):
    reply = client.get('SCREE', 'CHANGES', *words)
    check(isinstance(reply, ReplyError), '%r: %r' % (words, reply))
    return str(reply)


@suite.case('a token goes on where it ended, at all shards; filters of databases, slots and keys')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, proxies=2, backend_options=ON) as cluster:
        with cluster.connect() as client, cluster.connect(1) as other:
            token = changes(client, '$')[0]
            check_equal(read_all(client, token)[0], [])
            client.get('MSET', 'a', 1, 'b', 2, 'c', 3, 'd', 4)
            client.get('DEL', 'a', 'nothing')
            client.get('SELECT', 2)
            client.get('RPUSH', 'list', 'x')
            client.get('RPUSH', 'list', 'y')
            client.get('EXPIRE', 'list', 100)
            events, later = read_all(other, token)
            expected = sorted([(0, b'changed', key) for key in (b'a', b'b', b'c', b'd')] + [(0, b'del', b'a')] +
                              3 * [(2, b'changed', b'list')])
            check_equal(sorted(events), expected)
            check_equal(read_all(client, later)[0], [])
            check_equal(sorted(read_all(client, token, 'COUNT', 1)[0]), expected)
            check_equal(read_all(client, token, 'DB', 2)[0], 3 * [(2, b'changed', b'list')])
            check_equal(read_all(client, token, 'MATCH', '[cd]', 'DB', 0)[0].__len__(), 2)
            slot = client.get('CLUSTER', 'KEYSLOT', 'a')
            check_equal(read_all(client, token, 'SLOTS', slot)[0], [(0, b'changed', b'a'), (0, b'del', b'a')])
            check_equal(client.get('FLUSHDB'), b'OK')
            events, later = read_all(client, later)
            check_equal(events, [(2, b'flush', b'', b'8192-16383')])  # the other shard has no keys in this database
            client.get('SWAPDB', 0, 2)
            client.get('FUNCTION', 'LOAD', '#!lua name=lib\nredis.register_function("f", function() return 1 end)')
            events, later = read_all(client, later)
            check_equal(set(events), {(-1, b'swapdb', b''), (-1, b'function', b'lib')})
            check_equal(changes(client, client.get('SCREE', 'CHANGES', 'TOKEN'))[1:], [[], 0])


@suite.case('BLOCK ends with the first event, or with its time')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster:
        with cluster.connect() as client, cluster.connect() as writer:
            token = changes(client, '$')[0]
            check_equal(changes(client, token, 'BLOCK', 50)[1], [])
            client.send('SCREE', 'CHANGES', 'READ', token, 'BLOCK', 3600000)
            check_equal(writer.get('SET', 'k', 'v'), b'OK')
            check_equal([event[1:] for event in value(client.read())[1]], [[0, b'changed', b'k']])
            client.send('SCREE', 'CHANGES', 'READ', changes(writer, '$')[0], 'BLOCK', 3600000)
        # a client that has left in the meantime is no harm
        with cluster.connect() as client:
            check_equal(client.get('PING'), b'PONG')


@suite.case('from 0, every key that exists has an event, and later changes have theirs')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, proxies=2, backend_options=dict(ON, backend={'databases': 4})) as cluster:
        with cluster.connect() as client, cluster.connect(1) as other:
            keys = {b'key:%d' % i for i in range(500)}
            client.pipeline([['SET', key, 1] for key in keys])
            client.get('SELECT', 3)
            client.get('SET', 'other', 1)
            token, events, lag = changes(client, '0')
            check_equal((events, lag), ([], -1))
            client.get('SET', 'late', 1)
            events, token = read_all(client, token, 'COUNT', 20)
            found = [(event[0], event[2]) for event in events]
            check_equal(set(found), {(0, key) for key in keys} | {(3, b'other'), (3, b'late')})
            check(len(found) <= len(keys) + 3, '%d events' % len(found))
            token = changes(client, '0', 'SLOTS', '0-5000', 'DB', 0, 'MATCH', 'key:1*')[0]
            check(error_of(client, 'READ', token).startswith('ERR keys are being copied with other filters'), 'the filters')
            events, token = read_all(other, token, 'SLOTS', '0-5000', 'DB', 0, 'MATCH', 'key:1*')
            wanted = {key for key in keys if key.startswith(b'key:1') and client.get('CLUSTER', 'KEYSLOT', key) <= 5000}
            check_equal({event[2] for event in events}, wanted)


@suite.case('a client gets the events of its namespace, and of the keys that it may read')
def _(run):
    namespaces = {'shop': {'token': 's'}, 'staff': {'token': 't'}}
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON, namespaces=namespaces,
                 proxy_options={'proxy': {'requirepass': 'p'}}) as cluster:
        with cluster.connect() as shop, cluster.connect() as staff, cluster.connect() as outside:
            shop.get('AUTH', 's')
            staff.get('AUTH', 't')
            outside.get('AUTH', 'p')
            tokens = [changes(client, '$')[0] for client in (shop, staff, outside)]
            for client, key in ((shop, 'a'), (staff, 'b'), (outside, 'c')):
                client.get('SET', key, 1)
            for client, token, key in zip((shop, staff, outside), tokens, (b'a', b'b', b'c')):
                check_equal(read_all(client, token)[0], [(0, b'changed', key)])
            outside.get('ACL', 'SETUSER', 'some', 'on', '>p', '+scree|changes', '%R~x*', '%W~y*')
            outside.get('ACL', 'SETUSER', 'all', 'on', '>p', '+scree|changes', '~*')
            outside.get('ACL', 'SETUSER', 'none', 'on', '>p', '+get', '~*')
            outside.get('MSET', 'x1', 1, 'y1', 1, 'z1', 1)
            outside.get('FUNCTION', 'LOAD', '#!lua name=lib\nredis.register_function("f", function() return 1 end)')
        with cluster.connect() as client:
            client.get('AUTH', 'some', 'p')
            check_equal(set(read_all(client, tokens[2])[0]), {(0, b'changed', b'x1'), (-1, b'function', b'lib')})
            check_equal(read_all(client, '0')[0], [(0, b'changed', b'x1')])
            client.get('AUTH', 'all', 'p')
            check_equal({event[2] for event in read_all(client, '0')[0]}, {b'c', b'x1', b'y1', b'z1'})
            client.get('AUTH', 'none', 'p')
            check(error_of(client, 'READ', '$').startswith('NOPERM'), 'a user without the command')


@suite.case('what cannot be answered is refused: switched off, not a token, other options')
def _(run):
    with Cluster(backends=1, partitions=1, linked=True) as cluster:
        with cluster.connect() as client, cluster.partition(0) as shard:
            check(error_of(client, 'READ', '$').startswith("ERR shard 'b0p0': changes cannot be read here: set change-log"), 'off')
            check(error_of(shard, 'READ', '$').startswith('ERR changes cannot be read here'), 'off')
            for token in ('', '1', 'x', '1,a', '$$', '1,b0p0=x'):
                check(error_of(client, 'READ', token).startswith('ERR'), token)
            for options in (('COUNT',), ('COUNT', 0), ('COUNT', 'x'), ('BYTES', -1), ('DB', 16), ('SLOTS', '3-1'), ('SLOTS', ''),
                            ('BLOCK', -1), ('LOST', 'x'), ('WHAT', 1)):
                check(error_of(client, 'READ', '$', *options).startswith('ERR'), options)
            for words in (('READ',), ('TOKEN', 'x'), ('WHAT',)):
                check(error_of(client, *words).startswith('ERR expected'), words)


@suite.case('a token of a shard that is gone, with LOST copy, has one reply: all keys are listed again')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster:
        with cluster.connect() as client:
            client.get('MSET', 'a', 1, 'b', 2, 'c', 3)
            token, events, lag = changes(client, '1,gone=x', 'LOST', 'copy', 'SLOTS', '0-16383')
            check_equal((events, lag), ([[b'', -1, b'again', b'', b'0-16383']], -1))
            check_equal(client.get('PING'), b'PONG')
            check_equal({event[2] for event in read_all(client, token, 'SLOTS', '0-16383')[0]}, {b'a', b'b', b'c'})


@suite.case('a shard whose reply has another form, as one of another version may have, is named by an error')
def _(run):
    def relay(address):  # the shard replies to another question
        return Relay(address, change=(b'CHANGES\r\n$5\r\nTOKEN', b'CHANGES\r\n$4\r\nINFO'), is_opaque=True)
    with Cluster(backends=1, partitions=1, linked=True, backend_options=ON, relay=relay) as cluster, cluster.connect() as client:
        for words in (('READ', '$'), ('READ', '0'), ('TOKEN',)):
            text = error_of(client, *words)
            check(text.startswith("ERR shard 'b0p0' sent a reply of an unexpected form"), text)


@suite.case('the map loses a shard while a call waits for a reply, and the call needs another round: TRYAGAIN, and the token stays valid')
def _(run):
    slots = ['0-8191', '8192-16383']
    with Cluster(backends=3, partitions=1, linked=True, backend_options=ON, proxy_options={'proxy': {'workers': 1}}) as cluster, \
            cluster.connect() as client, cluster.connect() as other:
        cluster.write_shards([*slots, ''])
        wait_moved(cluster, client)
        token = changes(client, '$')[0]
        for _ in range(2):
            token = read_all(client, token)[1]
        rewound = re.sub(rb'b1p0=[0-9a-f]{16}', b'b1p0=' + b'f' * 16, token)
        with cluster.connect() as reader:
            cluster.backends[0].pause()
            reader.send('SCREE', 'CHANGES', 'READ', rewound, 'LOST', 'copy')
            wait_for(lambda: b' cmd=scree' in client_line(other, reader), 'the call to be sent')
            cluster.write_shards(slots)
            wait_for(lambda: b'cluster_current_epoch:%d\r' % cluster.epoch in other.get('CLUSTER', 'INFO'), 'the worker to have the map')
            cluster.backends[0].resume()
            text = str(value(reader.read()))
            check(text.startswith('TRYAGAIN the shard map has changed'), text)
            check(b'again' in [event[1] for event in read_all(reader, rewound, 'LOST', 'copy')[0]], 'the keys are listed again')


def spoiled_token(rng, tokens):
    """One of the tokens with some changes."""
    token = bytearray(rng.choice(tokens))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(token) + 1)
        what = rng.randrange(6)
        if what == 0:
            token[at:at + 1] = bytes([rng.randrange(256)])
        elif what == 1:
            del token[at:at + rng.randrange(1, 30)]
        elif what == 2:
            token[at:at] = rng.choice((b'18446744073709551615', b'9223372036854775807', b'-1', b'0', b'f' * 16, b'.' * 90, b',b0p0=', b','))
        elif what == 3:
            token += rng.choice(tokens)
        elif what == 4:  # another number
            token = bytearray(re.sub(rb'[0-9a-f]+', lambda found: found[0] if rng.random() < 0.9 else rng.choice(
                (b'%x' % rng.randrange(1 << 64), b'%d' % rng.randrange(1 << 64), b'0', b'255', b'16')), bytes(token)))
        else:
            parts = bytes(token).split(b',')
            rng.shuffle(parts)
            token = bytearray(b','.join(parts[:rng.randrange(1, len(parts) + 1)]))
    return bytes(token)


@suite.case('tokens that a client has made up or changed end no program, and show no key of another namespace')
def _(run):
    namespaces = {'shop': {'token': 's'}, 'staff': {'token': 't'}}
    with Cluster(backends=3, partitions=1, linked=True, backend_options=ON, namespaces=namespaces,
                 proxy_options={'proxy': {'requirepass': 'p'}}) as cluster:
        with cluster.connect() as shop, cluster.connect() as staff:
            tokens = []
            for client, token, name in ((shop, 's', b'own'), (staff, 't', b'secret')):
                client.get('AUTH', token)
                tokens += [changes(client, '$')[0]]
                client.pipeline([['SET', b'%s:%d' % (name, i), 1] for i in range(100)])
                tokens += [changes(client, '0')[0], changes(client, '$')[0]]
            options = ((), (), (), ('COUNT', 1), ('BYTES', 1), ('DB', 0), ('SLOTS', '0-100'), ('MATCH', '*'), ('LOST', 'copy'))
            answered = 0
            for _ in range(sized(600, long=30000)):
                token = spoiled_token(run.rng, tokens)
                reply = shop.get('SCREE', 'CHANGES', 'READ', token, *run.rng.choice(options))
                if isinstance(reply, ReplyError):
                    continue
                answered += 1
                check(isinstance(reply, list) and len(reply) == 3 and isinstance(reply[1], list), '%r: %r' % (token, reply))
                shown = [event for event in reply[1] if event[3].startswith(b'secret')]
                check(not shown, 'the token %r shows %r' % (token, shown))
                tokens[6:] = (tokens[6:] + [reply[0]])[-6:]
            check(answered, 'no token was read')
            check_equal(staff.get('GET', 'secret:1'), b'1')


def rounds_of(cluster):
    """How often the only shard was asked, for changes or by health checks."""
    return metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_upstream_requests_total')


@suite.case('many clients that wait for changes ask the shards no more often than some of them')
def _(run):
    count, each_second = 500, 4000
    with Cluster(backends=1, partitions=1, linked=True, backend_options=ON, proxy_options={'proxy': {'workers': 1}}) as cluster:
        clients = [cluster.connect() for _ in range(count)]
        token = changes(clients[0], '$')[0]
        for client in clients:
            client.send('SCREE', 'CHANGES', 'READ', token, 'BLOCK', 3600000)
        wait_for(lambda: rounds_of(cluster) >= count, 'all to be waiting')
        began, before = time.monotonic(), rounds_of(cluster)
        time.sleep(2)
        asked = rounds_of(cluster) - before
        check(asked <= each_second * (time.monotonic() - began) + count, '%d rounds' % asked)
        with cluster.connect() as writer:
            check_equal(writer.get('SET', 'k', 'v'), b'OK')
        for client in clients:
            check_equal([event[1:] for event in value(client.read())[1]], [[0, b'changed', b'k']])
            client.close()


class Writer(threading.Thread):
    """Writes one key after the other, and remembers those that were acknowledged."""

    def __init__(self, cluster, name):
        super().__init__(daemon=True)
        self.cluster, self.name_of_keys, self.done, self.is_over = cluster, name, [], threading.Event()

    def run(self):
        number = 0
        while not self.is_over.is_set():
            try:
                with self.cluster.connect() as client:
                    while not self.is_over.is_set():
                        number += 1
                        key = b'%s:%d' % (self.name_of_keys, number)
                        if client.get('SET', key, 1) == b'OK':
                            self.done.append(key)
            except (OSError, Closed):
                pass


def read_or_wait(cluster, token, *options):
    """READ, until it is not refused because a shard is down."""
    while True:
        try:
            with cluster.connect() as client:
                reply = client.get('SCREE', 'CHANGES', 'READ', token, *options)
        except (OSError, Closed):
            continue
        if not isinstance(reply, ReplyError):
            return reply
        check(not str(reply).startswith('CHANGES'), '%r' % reply)


@suite.case('every acknowledged write has an event, after kill -9 of backends and proxies, and while slots move')
def _(run):
    rng = random.Random(3)
    options = {'store': {'change-log': '1gb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    with Cluster(backends=3, partitions=1, linked=True, proxies=2, backend_options=options) as cluster:
        with cluster.connect() as client:
            token = changes(client, '$')[0]
        writers = [Writer(cluster, name) for name in (b'a', b'b')]
        for writer in writers:
            writer.start()
        seen, end = set(), time.monotonic() + sized(8, long=120)
        while time.monotonic() < end or sum(len(writer.done) for writer in writers) <= 50:
            cluster.write_shards(random_slots(rng, 3))
            victim = rng.choice(cluster.backends + cluster.proxies)
            victim.kill9()
            victim.start()
            token, events, _ = read_or_wait(cluster, token, 'COUNT', 500)
            seen.update(event[3] for event in events)
        for writer in writers:
            writer.is_over.set()
            writer.join()
        wait_settled(cluster, range(3))
        lag = 1
        while lag:
            token, events, lag = read_or_wait(cluster, token)
            seen.update(event[3] for event in events)
        done = {key for writer in writers for key in writer.done}
        check_equal(done - seen, set())
        run.note('%d writes, %d keys with events' % (len(done), len(seen)))


def logs_of_events(client, token, keys, *options):
    """Of each key: the logs of its events in their order; several events of one log after the other count once."""
    logs, lag = {key: [] for key in keys}, 1
    while lag:
        token, events, lag = changes(client, token, *options)
        for event in events:
            log = event[0].split(b'.')[0]
            if logs[event[3]][-1:] != [log]:
                logs[event[3]].append(log)
    return logs


@suite.case('events of a key come in the order of its changes, also when its slot has moved to and fro')
def _(run):
    maps = ['0-16383', ''], ['', '0-16383'], ['0-8191', '8192-16383'], ['8192-16383', '0-8191']
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster, cluster.connect() as client:
        info = client.get('SCREE', 'CHANGES', 'INFO')
        names = [dict(zip(info[at][::2], info[at][1::2]))[b'log'] for at in (1, 3)]
        keys, token = [b'key:%d' % i for i in range(20)], changes(client, '$')[0]
        expected = {key: [] for key in keys}
        for slots in maps:
            cluster.write_shards(slots)
            wait_settled(cluster)
            for i in range(30):
                client.pipeline([['SET', key, i] for key in keys])
            for key in keys:
                log = names[cluster.shard_of(key)]
                expected[key] += [log] if expected[key][-1:] != [log] else []
        for options in (('COUNT', 1), ('COUNT', 10), ('COUNT', 1000), ('SLOTS', '0-16383', 'COUNT', 50)):
            check_equal(logs_of_events(client, token, keys, *options), expected)


@suite.case('a reader that begins while a slot moves gets the events of a key in the order of its changes')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, relay=Relay, backend_options=dict(ON, backend={'peer-timeout': '1s'}),
                 proxy_options={'upstream': {'timeout': '60s'}}) as cluster, cluster.connect() as client:
        key = cluster.key_on(0).encode()
        target = cluster.relays[cluster.backends[1].addresses[0]]
        check_equal(changes(client, '$')[1:], [[], 0])
        check(target.spoil('hold'), 'the connections to the target')
        with cluster.partition(0) as source:
            calls = lambda: re.search(rb'cmdstat_scree\|changes:calls=(\d+)', source.get('INFO', 'COMMANDSTATS')).group(1)
            before = calls()
            client.send('SCREE', 'CHANGES', 'READ', '$')  # the source replies its position, the target is asked later
            wait_for(lambda: calls() != before, 'the source to be asked')
            for i in range(5):
                check_equal(source.get('SET', key, i), b'OK')
        cluster.write_shards(['', '0-16383'])
        wait_settled(cluster)
        target.spoil('heal')
        token = value(client.read())[0]
        for i in range(5):
            wait_for(lambda i=i: client.get('SET', key, i) == b'OK', 'a write at the target')
        logs = logs_of_events(client, token, [key], 'COUNT', 1)
        check_equal(len(logs[key]), 1)


@suite.case('a slot that moves changes no key')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster:
        with cluster.connect() as client:
            client.pipeline([['HSET', 'key:%d' % i, 'f', i] for i in range(300)])
            token = changes(client, '$')[0]
            cluster.write_shards(['0-99', '100-16383'])
            wait_moved(cluster, client)
            check_equal(read_all(client, token)[0], [])


@suite.case('a log that is not kept for so long is CHANGESLOST, and LOST copy lists all keys again')
def _(run):
    options = {'store': {'change-log': '1mb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    with Cluster(backends=1, partitions=1, linked=True, backend_options=options) as cluster:
        with cluster.connect() as client:
            client.get('SET', 'old', 1)
            token = changes(client, '$')[0]
            lost = lambda: isinstance(client.get('SCREE', 'CHANGES', 'READ', token, 'COUNT', 1), ReplyError)
            written = 0
            while not lost():
                client.pipeline([['SET', 'k%d' % (i % 20), b'v' * 20000] for i in range(50)])
                written += 1
                check(written < 1000, 'the log is kept for ever')
            text = error_of(client, 'READ', token)
            check(text.startswith("CHANGESLOST shard 'b0p0': the log begins with batch "), text)
            check(metric(cluster.backends[0].http('/metrics')[1], 'scree_backend_changes_lost_total') >= 1, 'the metric')
            events, token = read_all(client, token, 'LOST', 'copy')
            check_equal(events[0], (-1, b'again', b'', b'0-16383'))
            check_equal({event[2] for event in events[1:]}, {b'old'} | {b'k%d' % i for i in range(20)})
            client.get('SET', 'new', 1)
            check_equal(read_all(client, token)[0], [(0, b'changed', b'new')])


def lose_log(client, token, keys):
    """Writes these keys until the log does not reach back to the token any more."""
    for _ in range(1000):
        if isinstance(client.get('SCREE', 'CHANGES', 'READ', token, 'COUNT', 1), ReplyError):
            return
        client.pipeline([['SET', key, b'v' * 20000] for key in keys for _ in range(10)])
    check(False, 'the log is kept for ever')


@suite.case('only the keys of the shard whose changes were lost are listed again; all, if slots have moved since')
def _(run):
    options = {'store': {'change-log': '1mb', 'wal-limit': '1mb', 'memtable': '1mb'}}
    with Cluster(backends=2, partitions=1, linked=True, backend_options=options) as cluster, cluster.connect() as client:
        here, there = [[key for key in (b'key:%d' % i for i in range(50)) if cluster.shard_of(key) == shard][:5] for shard in range(2)]
        for key in here + there:
            check_equal(client.get('SET', key, 1), b'OK')
        token = changes(client, '$')[0]
        for _ in range(2):
            token = read_all(client, token)[1]  # twice at the end of all logs: now the owners of slots are known
        lose_log(client, token, here)
        check(error_of(client, 'READ', token).startswith("CHANGESLOST shard 'b0p0'"), 'the shard')
        client.get('SET', there[0], 2)
        for options, wanted, ranges in (((), here, b'0-8191'), (('SLOTS', '0-99,8192-16383'), [], b'0-99')):
            events = read_all(client, token, 'LOST', 'copy', *options)[0]
            check_equal([event for event in events if event[1] == b'again'], [(-1, b'again', b'', ranges)])
            check_equal({event[2] for event in events if event[1] == b'changed'}, {*wanted, there[0]})
        cluster.write_shards(['0-8190', '8191-16383'])
        wait_moved(cluster, client)
        events = read_all(client, token, 'LOST', 'copy')[0]
        check_equal(events[0], (-1, b'again', b'', b'0-16383'))
        check_equal({event[2] for event in events if event[1] == b'changed'}, {*here, *there})


@suite.case('a shard that was removed is not missed by a reader that was at the end of its log, and of all others, since it had no slots')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, backend_options=ON) as cluster, cluster.connect() as client:
        token = changes(client, '$')[0]
        client.get('SET', 'a', 1)
        cluster.write_shards(['', '0-16383'])
        wait_moved(cluster, client)
        early = read_all(client, changes(client, '$')[0])[1]
        for _ in range(2):
            events, token = read_all(client, token)
        parts = token.split(b',')
        check(parts[1].startswith(b'b0p0=') and early.split(b',')[-1] == parts[-1], '%r %r' % (token, early))
        gone = token.replace(b'b0p0=', b'gone=')
        client.get('SET', 'b', 1)
        check_equal(read_all(client, gone)[0], [(0, b'changed', b'b')])
        text = error_of(client, 'READ', gone.replace(parts[-1], b'#0000000000000001'))
        check(text.startswith("CHANGESLOST shard 'gone' is not in the shard map any more"), text)


@suite.case('a data directory that was put back, or replaced, is CHANGESREWOUND')
def _(run):
    with Cluster(backends=1, partitions=1, linked=True, backend_options=ON) as cluster:
        backend = cluster.backends[0]
        with cluster.connect() as client:
            client.get('SET', 'a', 1)
        backend.stop()
        shutil.copytree(backend.data, backend.data + '.old')
        backend.start()
        with cluster.connect() as client:
            token = changes(client, '$')[0]
            wait_for(lambda: client.get('SET', 'b', 1) == b'OK', 'a write')
            events = []
            while not events:  # `$` right after the write may still be before it
                events, token = read_all(client, token)
            check_equal(events[-1][2], b'b')
        for another in (False, True):  # as long as before, and longer
            backend.stop()
            shutil.rmtree(backend.data)
            shutil.copytree(backend.data + '.old', backend.data)
            backend.start()
            with cluster.connect() as client:
                for key in ('c', 'd', 'e', 'f', 'g')[:5 if another else 0]:
                    wait_for(lambda key=key: client.get('SET', key, 1) == b'OK', 'a write')
                wait_for(lambda: error_of(client, 'READ', token).startswith('CHANGES'), 'the shard to be there')
                text = error_of(client, 'READ', token)
                check(text.startswith("CHANGESREWOUND shard 'b0p0'"), text)
        with cluster.connect() as client:
            check_equal({event[2] for event in read_all(client, token, 'LOST', 'copy')[0][1:]},
                        {b'a', b'c', b'd', b'e', b'f', b'g'})


@suite.case('a shard that joins is read from its beginning; one that was removed is CHANGESLOST')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, backend_options=ON) as cluster:
        cluster.write_shards(['0-8191', '8192-16383', ''])
        with cluster.connect() as client:
            wait_moved(cluster, client)
            token = changes(client, '$')[0]
        parts = token.split(b',')
        young = b','.join(parts[:3])  # as if the third shard had joined since
        cluster.write_shards(['0-4095', '8192-16383', '4096-8191'])
        with cluster.connect() as client:
            wait_moved(cluster, client)
            keys = {b'key:%d' % i for i in range(100)}
            client.pipeline([['SET', key, 1] for key in keys])
            check_equal({event[2] for event in read_all(client, young)[0]}, keys)
            text = error_of(client, 'READ', token + b',gone=' + parts[1].split(b'=')[1])
            check(text.startswith("CHANGESLOST shard 'gone' is not in the shard map any more"), text)


# ---- the program of the documentation ------------------------------------------------------------------------------------


SMALL = {'store': {'change-log': '1gb', 'wal-limit': '1mb', 'memtable': '1mb'}}


@suite.case('the program of the documentation keeps a redis-server equal, through moves, kill -9 of everything and of itself')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-follow-') as folder, Oracle() as sink, \
            Cluster(backends=3, partitions=1, linked=True, proxies=1, backend_options=SMALL) as cluster:
        follower = Follower(folder, cluster.proxies[0].address, sink.address)
        kill_all_at_work(run, cluster, follower)
        wait_equal(follower, lambda: difference(cluster, sink))
        follower.kill()


@suite.case('the lines of JSON of the documentation\'s program make an equal table, through moves, kill -9 of everything and of itself')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-lines-') as folder, \
            Cluster(backends=3, partitions=1, linked=True, proxies=1, backend_options=SMALL) as cluster:
        writer = LineWriter(folder, cluster.proxies[0].address)
        kill_all_at_work(run, cluster, writer)
        wait_equal(writer, lambda: table_difference(cluster, writer))
        with cluster.connect() as client:
            client.get('SELECT', 1)
            client.get('SET', 'of database 1', 1)
            client.get('SWAPDB', 0, 1)
        wait_equal(writer, lambda: table_difference(cluster, writer))
        check_equal(writer.table(), {b'of database 1': (b'string', -1, b'1')})
        writer.kill()


suite.main()
