#!/usr/bin/python3
"""Reads of a proxy's clients at copies that follow: what a copy does not answer the leader does, and clients see no difference but the age."""

import contextlib
import random
import threading
import time

from support.cluster import in_ranges, metric, slot_of
from support.copies import UNHURRIED, Copies, TwoShards, Voters, calls
from support.harness import Failure, Suite, check, check_equal, wait_for
from support.played_copies import PlayedShard
from support.resp import ReplyError, value

suite = Suite(__doc__)

STALE = {'upstream': {'replica-reads': 'stale', 'hold': '1m'}}
ONE_WORKER = {'proxy': {'workers': '1'}, 'upstream': {'replica-reads': 'stale', 'hold': '1m'}}


# ---- copies that the test plays: which of them gets what -----------------------------------------------------------

def reads_at_copies(client):
    """Sends READONLY, and waits until a copy that follows answers."""
    check_equal(client.get('READONLY'), b'OK')
    wait_for(lambda: client.get('GET', 'k') in (b'copy 1', b'copy 2'), 'a copy to answer')


def reads_that_left(cluster):
    return metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_copy_reads_left_total')


def undisturbed(cluster, rounds):
    """The result of rounds(). Again if it fails and reads have left their copies, as they do when this machine stands still for half a second."""
    for _ in range(10):
        before = reads_that_left(cluster)
        try:
            return rounds()
        except Failure:
            if reads_that_left(cluster) == before:
                raise
    raise Failure('reads leave their copies all the time')


@suite.case('reads of a client that has sent READONLY go to one of the copies that follow; its writes, and all of others, to the leader')
def _(run):
    with PlayedShard(copies=3, proxy_options=STALE) as shard, shard.connect() as client, shard.connect() as other:
        def own_copy():
            """Until the connections to all copies are open, the copy of the client may be one that is not its own."""
            replies = {client.get('GET', 'k') for _ in range(20)}
            return replies.pop() if len(replies) == 1 and not replies & {b'copy 0'} else None

        def reads_and_writes():
            reads_at_copies(client)
            wait_for(lambda: all(copy.hearers for copy in shard.copies[1:]), 'connections to both copies')
            first = wait_for(own_copy, 'one copy to answer all reads')
            for _ in range(20):
                check_equal(client.get('GET', 'k'), first, 'the copy of this client')
                check_equal(client.get('SET', 'k', 'v'), b'copy 0')
                check_equal(other.get('GET', 'k'), b'copy 0')
        undisturbed(shard, reads_and_writes)
        for words, reply in ((['READWRITE'], b'OK'), (['RESET'], b'RESET')):
            reads_at_copies(client)
            check_equal([client.get(*words), client.get('GET', 'k')], [reply, b'copy 0'])
        check(all(words[0] == b'GET' for copy in shard.copies[1:] for words in copy.requests), 'only reads at copies')


@suite.case('without the option, reads of a client that has sent READONLY go to the leader; a reload turns it on and off')
def _(run):
    with PlayedShard(copies=2) as shard, shard.connect() as client:
        check_equal(client.get('READONLY'), b'OK')
        for name, word in ((b'copy 0', 'no'), (b'copy 1', 'stale'), (b'copy 0', 'no'), (b'copy 1', 'stale')):
            proxy = shard.proxies[0]
            proxy.options = {'upstream': {'replica-reads': word}}
            proxy.write_config()
            proxy.reload()
            wait_for(lambda: client.get('GET', 'k') == name, '%s to answer with %s' % (name, word))


@suite.case('a read that a copy refuses, does not answer, or loses is answered by the leader')
def _(run):
    with PlayedShard(copies=2, proxy_options=STALE) as shard, shard.connect() as client:
        copy = shard.copies[1]
        for refusal in (b'-TRYAGAIN no copy leads\r\n', b'-MOVED 1 127.0.0.1:1\r\n', b'-LOADING soon\r\n', b'-ERR unknown command\r\n',
                        b'-WRONGTYPE of an old value\r\n', b'!8\r\nERR long\r\n'):
            reads_at_copies(client)
            copy.refusal = refusal
            for _ in range(5):
                check_equal(client.get('GET', 'k'), b'copy 0', refusal)
            copy.refusal = None
        reads_at_copies(client)
        copy.is_deaf = True
        check_equal(client.get('GET', 'k'), b'copy 0', 'a copy that stands still')
        copy.is_deaf = False
        reads_at_copies(client)
        copy.is_late = True
        before = len(copy.requests)
        client.send('GET', 'lost')
        wait_for(lambda: len(copy.requests) > before, 'the read to be at the copy')
        copy.kill()
        check_equal(value(client.read()), b'copy 0', 'a copy that was killed')
        copy.is_late = False
        for _ in range(20):
            check_equal(client.get('GET', 'k'), b'copy 0')
        copy.start()
        reads_at_copies(client)
        text = shard.proxies[0].http('/metrics')[1]
        check(metric(text, 'scree_proxy_copy_reads_total') > 0, 'reads at copies')
        check(metric(text, 'scree_proxy_copy_reads_left_total') >= 8, 'reads that left')
        check_equal(metric(text, 'scree_proxy_shard_failures_total'), 0, 'failures of the leader')


@suite.case('a read at a copy that stops, and is killed before it answers, is answered by the leader')
def _(run):
    with PlayedShard(copies=2, proxy_options=ONE_WORKER) as shard, shard.connect() as client:
        copy = shard.copies[1]
        reads_at_copies(client)
        copy.is_late = True
        client.send('GET', 'lost')
        wait_for(lambda: [b'GET', b'lost'] in copy.requests, 'the read to be at the copy')
        copy.stops_leading()
        copy.kill()
        check_equal([value(client.read()), client.get('SET', 'k', 'v')], [b'copy 0', b'copy 0'])


@suite.case('a copy that does not answer makes a read wait once in five seconds')
def _(run):
    with PlayedShard(copies=2, proxy_options=ONE_WORKER) as shard, shard.connect() as client:
        copy = shard.copies[1]
        reads_at_copies(client)
        copy.is_late = True
        copy.requests.clear()
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            check_equal(client.get('GET', 'k'), b'copy 0')
        waited = len(copy.requests)
        check(1 <= waited <= 1 + (time.monotonic() - begin) / 5, '%d reads have waited' % waited)


@suite.case('a reply of a copy that takes long to arrive is not sent by the leader, too')
def _(run):
    with PlayedShard(copies=2, proxy_options=ONE_WORKER) as shard, shard.connect() as client:
        def slow_reply():
            """Of a second; when this test is stopped in it, the copy counts as silent, and the leader answers."""
            reads_at_copies(client)
            copy.is_late = True
            client.send('GET', 'long')
            connection = wait_for(lambda: copy.late and copy.late[0], 'the read to be at the copy')
            with contextlib.suppress(OSError):
                connection.sendall(b'$100\r\n')
                for _ in range(100):
                    time.sleep(0.01)
                    connection.sendall(b'x')
                connection.sendall(b'\r\n')
            copy.late, copy.is_late = [], False
            return value(client.read())
        copy = shard.copies[1]
        wait_for(lambda: slow_reply() == b'x' * 100, 'a reply of the copy')


@suite.case('a write waits for the reads before it that are at a copy, and a read at a copy for the writes before it')
def _(run):
    with PlayedShard(copies=2, proxy_options=ONE_WORKER) as shard, shard.connect() as client, shard.connect() as other:
        leader, copy = shard.copies
        reads_at_copies(client)
        copy.is_late = True
        client.send('GET', 'slow')
        wait_for(lambda: [b'GET', b'slow'] in copy.requests, 'the read to be at the copy')
        client.send('SET', 'after', 'v')
        check_equal(other.get('GET', 'k'), b'copy 0')  # the worker has read the SET before
        read, write = [b'GET', b'slow'], [b'SET', b'after', b'v']
        seen = list(leader.requests)
        check(write not in seen or read in seen[:seen.index(write)], 'the write waits')  # when the copy is silent for long, the read goes to the leader
        copy.answer_late()
        check(value(client.read()) in (b'copy 1', b'copy 0'), 'the read')
        check_equal(value(client.read()), b'copy 0', 'the write')
        reads_at_copies(client)
        leader.is_late = True
        client.send('SET', 'slow', 'v')
        wait_for(lambda: [b'SET', b'slow', b'v'] in leader.requests, 'the write to be at the leader')
        client.send('GET', 'after')
        other.get('PING')
        check([b'GET', b'after'] not in copy.requests, 'the read waits')
        leader.answer_late()
        check_equal([value(client.read()) for _ in range(2)][0], b'copy 0')


@suite.case('the copy that begins to lead gets the writes, and the one that led gets reads')
def _(run):
    with PlayedShard(copies=2, proxy_options=STALE) as shard, shard.connect() as client:
        reads_at_copies(client)
        first, second = shard.copies
        for term, leader, follower in ((2, second, first), (3, first, second)):
            follower.says('replica', term=term, leader=leader)
            leader.says('leader', term=term)
            for copy in (first, second):  # connections of the role before
                copy.kill()
                copy.start()
            wait_for(lambda: client.get('SET', 'k', 'v') == leader.name.encode(), 'the new leader to get writes')
            wait_for(lambda: client.get('GET', 'k') == follower.name.encode(), 'the new copy to get reads')


# ---- real copies ---------------------------------------------------------------------------------------------------

def copy_reads(copies):
    return metric(copies.proxies[0].http('/metrics')[1], 'scree_proxy_copy_reads_total')


def wait_reads_at_copies(copies, client, key='k'):
    """Waits until reads of this client are answered by copies."""
    def is_so():
        before = copy_reads(copies)
        check(not isinstance(client.get('GET', key), ReplyError), 'an error')
        return copy_reads(copies) > before
    wait_for(is_so, 'a copy to answer', pause=0.05)


@suite.case('copies answer the reads of a hot shard, and its leader none of them')
def _(run):
    with Copies(proxy_options=STALE) as copies, copies.connect() as writer:
        for i in range(100):
            writer.call('HSET', 'h%d' % i, 'f', i)
            writer.call('SET', 'k%d' % i, i)
        copies.wait_follows(1, 2)
        clients = [copies.connect() for _ in range(8)]
        for client in clients:
            check_equal(client.get('READONLY'), b'OK')
            wait_reads_at_copies(copies, client, 'k1')
            wait_for(lambda: client.get('HGETALL', 'h1') == [b'f', b'1'], 'the other lane to be open')
        def leader_calls():
            return [calls(copies, command) for command in ('get', 'mget', 'hgetall', 'hget')]

        def read_all():
            wait_for(lambda: (before := leader_calls()) and all(client.get('HGETALL', 'h1') for client in clients) and leader_calls() == before,
                     'all clients to read at copies')
            before = leader_calls()
            for _ in range(20):
                for client in clients:
                    i = random.randrange(100)
                    check_equal(client.get('GET', 'k%d' % i), b'%d' % i)
                    check_equal(client.get('MGET', 'k%d' % i, 'k1'), [b'%d' % i, b'1'])
                    check_equal(client.get('HGETALL', 'h%d' % i), [b'f', b'%d' % i])
                    check_equal(client.get('HGET', 'h%d' % i, 'f'), b'%d' % i)
            grown = sum(leader_calls()) - sum(before)
            check(grown == 0, 'the leader has run %d reads of 640' % grown)
        undisturbed(copies, read_all)
        check(sum(calls(copies, 'get', index) > 0 for index in (1, 2)) == 2, 'both copies')
        for client in clients:
            client.close()


@suite.case('what must be new is read at the leader: in MULTI, with WATCH, tracked, by scripts')
def _(run):
    with Copies(proxy_options=STALE) as copies, copies.connect(proto=3) as client, copies.connect() as writer:
        check_equal(writer.get('SET', 'k', 'v'), b'OK')
        copies.wait_follows(1, 2)
        check_equal(client.get('READONLY'), b'OK')
        wait_reads_at_copies(copies, client)
        before = copy_reads(copies)
        check_equal([client.get(*words) for words in (['MULTI'], ['GET', 'k'], ['EXEC'])], [b'OK', b'QUEUED', [b'v']])
        check_equal([client.get(*words) for words in (['WATCH', 'k'], ['GET', 'k'], ['UNWATCH'])], [b'OK', b'v', b'OK'])
        check_equal(client.get('EVAL_RO', 'return redis.call("GET", KEYS[1])', 1, 'k'), b'v')
        check_equal(client.get('CLIENT', 'TRACKING', 'ON'), b'OK')
        check_equal(client.get('GET', 'k'), b'v')
        check_equal(writer.get('SET', 'k', 'w'), b'OK')
        check_equal(client.read(), ('>', [('$', b'invalidate'), ('*', [('$', b'k')])]))
        check_equal(client.get('GET', 'k'), b'w')
        check_equal(copy_reads(copies), before, 'reads at copies')
        check_equal(client.get('CLIENT', 'TRACKING', 'OFF'), b'OK')
        wait_reads_at_copies(copies, client)
        check(b' flags=r ' in client.get('CLIENT', 'LIST', 'ID', client.get('CLIENT', 'ID')), 'CLIENT LIST')


@suite.case('reads in several databases and namespaces stay apart, also when a copy gives them to the leader')
def _(run):
    with Copies(proxy_options=ONE_WORKER, namespaces={'a': {'token': 'ta'}, 'b': {'token': 'tb'}}) as copies:
        clients = {}
        for name in 'ab':
            clients[name] = copies.connect()
            check_equal(clients[name].get('AUTH', 't' + name), b'OK')
            for db in range(3):
                check_equal([clients[name].get('SELECT', db), clients[name].get('SET', 'k', '%s%d' % (name, db))], [b'OK', b'OK'])
        copies.wait_follows(1, 2)
        for client in clients.values():
            check_equal(client.get('READONLY'), b'OK')
            wait_reads_at_copies(copies, client)
        refused = metric(copies.proxies[0].http('/metrics')[1], 'scree_proxy_copy_reads_left_total')
        for word in ('stale', 'no', 'stale'):
            for index in (1, 2):
                with copies.copy(index) as node:
                    check_equal(node.get('CONFIG', 'SET', 'replica-reads', word), b'OK')
            for _ in range(50):
                orders = {name: random.choices(range(3), k=8) for name in clients}
                for at in range(8):
                    for name, client in clients.items():
                        client.send('SELECT', orders[name][at])
                        client.send('GET', 'k')
                for name, client in clients.items():
                    got = [value(client.read()) for _ in range(16)][1::2]
                    check_equal(got, [b'%s%d' % (name.encode(), db) for db in orders[name]], 'values with %s' % word)
        text = copies.proxies[0].http('/metrics')[1]
        check(metric(text, 'scree_proxy_copy_reads_left_total') > refused, 'reads have left copies')
        for client in clients.values():
            client.close()


@suite.case('a copy that hears nothing of its leader for replica-reads-lag serves no reads, until it hears it again')
def _(run):
    with Copies(backend_options={'backend': {'replica-reads-lag': '2s'}}) as copies, copies.leader() as leader:
        check_equal(leader.get('SET', 'k', 'v'), b'OK')
        copies.wait_follows(1, 2)
        with copies.reader(1) as reader:
            wait_for(lambda: reader.get('GET', 'k') == b'v', 'the copy to serve')
            copies.backends[0].pause()
            wait_for(lambda: str(reader.get('GET', 'k')).startswith('MOVED '), 'the copy to be too old')
            check_equal(reader.get('CONFIG', 'SET', 'replica-reads-lag', '0'), b'OK')
            wait_for(lambda: reader.get('GET', 'k') == b'v', 'a copy without limit to serve')
            check_equal(reader.get('CONFIG', 'SET', 'replica-reads-lag', '2s'), b'OK')
            wait_for(lambda: str(reader.get('GET', 'k')).startswith('MOVED '), 'the copy to be too old again')
            copies.backends[0].resume()
            wait_for(lambda: reader.get('GET', 'k') == b'v', 'the copy to serve again')


@suite.case('a copy that stood still for longer than replica-reads-lag shows no older data in its first moment')
def _(run):
    with Copies(backend_options={'backend': {'replica-reads-lag': '1s'}}) as copies, copies.leader() as leader:
        check_equal(leader.get('SET', 'k', 'before'), b'OK')
        copies.wait_follows(1, 2)
        with copies.reader(1) as reader:
            wait_for(lambda: reader.get('GET', 'k') == b'before', 'the copy to serve')
            copies.backends[1].pause()
            check_equal(leader.get('SET', 'k', 'after'), b'OK')
            time.sleep(3)  # more than the limit, also by a clock that heard each message of the leader late
            for _ in range(100):
                reader.send('GET', 'k')
            copies.backends[1].resume()
            check(b'before' not in [value(reader.read()) for _ in range(100)], 'data of before')
            wait_for(lambda: reader.get('GET', 'k') == b'after', 'the copy to serve again')


@suite.case('a paused copy shows its data of before to clients that are connected to it, and to none of a proxy')
def _(run):
    with Copies(copies=2, proxy_options=STALE, backend_options={'backend': {'replica-reads-lag': '1s'}}) as copies, copies.connect() as client:
        check_equal(client.get('SET', 'k', 'before'), b'OK')
        copies.wait_follows(1)
        check_equal(client.get('READONLY'), b'OK')
        wait_reads_at_copies(copies, client)
        with copies.reader(1) as direct, copies.connect() as writer:
            check_equal(direct.get('SCREE', 'REPLICAS', 'PAUSE', 600), b'OK')
            check_equal(writer.get('SET', 'k', 'after'), b'OK')
            for _ in range(20):
                check_equal([client.get('GET', 'k'), direct.get('GET', 'k')], [b'after', b'before'])
            wait_for(lambda: metric(copies.backends[1].http('/metrics')[1], 'scree_backend_copy_lag_seconds') > 2, 'the copy to be older than the limit')
            check_equal(direct.get('GET', 'k'), b'before')
            check_equal(direct.get('SCREE', 'REPLICAS', 'RESUME'), b'OK')
            wait_for(lambda: direct.get('GET', 'k') == b'after', 'the copy to go on')
        wait_reads_at_copies(copies, client)


class CountReader(threading.Thread):
    """Reads a counter that others count up, and says what is wrong: an error, or a value that was never written. `lost`: the address of a leader that
    was killed; a read that was just there fails, as any request."""

    def __init__(self, copies, written, key='count'):
        super().__init__(daemon=True)
        self.copies, self.written, self.key = copies, written, key
        self.done, self.highest, self.wrong, self.lost, self.is_over = 0, 0, [], None, threading.Event()

    def run(self):
        with self.copies.connect() as client:
            check_equal(client.get('READONLY'), b'OK')
            while not self.is_over.is_set() and not self.wrong:
                got = client.get('GET', self.key)
                if self.lost and isinstance(got, ReplyError) and '(%s): connection lost before the reply' % self.lost in str(got):
                    continue
                if got is None or isinstance(got, ReplyError) or int(got) > self.written[0]:
                    self.wrong.append('%r, when %d were written' % (got, self.written[0]))
                    return
                self.highest = max(self.highest, int(got))
                self.done += 1

    def wait_more(self, count=100):
        goal = self.done + count
        wait_for(lambda: self.done > goal or self.wrong, 'reads to be answered')


class CountWriter(threading.Thread):
    """Counts up; its errors are those of writes that were in flight when a leader was lost."""

    def __init__(self, copies, key='count'):
        super().__init__(daemon=True)
        self.copies, self.key = copies, key
        self.sent, self.acknowledged, self.is_over = [0], 0, threading.Event()

    def run(self):
        with self.copies.connect() as client:
            while not self.is_over.is_set():
                self.sent[0] += 1
                if not isinstance(client.get('SET', self.key, self.sent[0]), ReplyError):
                    self.acknowledged = self.sent[0]

    def wait_more(self, count=50):
        goal = self.acknowledged + count
        wait_for(lambda: self.acknowledged > goal, 'writes to be acknowledged')


def wait_all_at_copies(voters, readers):
    """Waits until the readers read a while without the leader."""
    def is_so():
        leader = voters.wait_leader()
        before, done = calls(voters, 'get', leader), [reader.done for reader in readers]
        wait_for(lambda: all(reader.done > at + 50 or reader.wrong for reader, at in zip(readers, done)), 'reads')
        return calls(voters, 'get', leader) == before
    wait_for(is_so, 'all reads to be at copies', pause=0.05)


@suite.case('copies and leaders are killed while clients read at copies: no read of a copy fails, each value was written, and none is lost later')
def _(run):
    with Voters(proxies=1, proxy_options=STALE, backend_options=UNHURRIED) as voters, voters.connect() as client:
        check_equal(client.get('SET', 'count', 0), b'OK')
        voters.wait_follows(0, 1, 2)
        writer = CountWriter(voters)
        readers = [CountReader(voters, writer.sent) for _ in range(4)]
        for thread in [writer] + readers:
            thread.start()
        for what in ('copy', 'leader', 'copy', 'leader'):
            wait_all_at_copies(voters, readers)
            leader = voters.wait_leader()
            victim = leader if what == 'leader' else (leader + 1) % 3
            for reader in readers:
                reader.lost = '%s:%d' % voters.backends[leader].addresses[0][:2] if what == 'leader' else None
            voters.backends[victim].kill9()
            for reader in readers:
                reader.wait_more()
            writer.wait_more()
            voters.backends[victim].start()
            voters.wait_leader()
            voters.wait_voters(0, 1, 2)
        for thread in [writer] + readers:
            thread.is_over.set()
            thread.join()
        check_equal([reader.wrong for reader in readers], [[]] * 4)
        last = int(client.get('GET', 'count'))
        check(writer.acknowledged <= last, '%d was acknowledged, %d is left' % (writer.acknowledged, last))
        check(max(reader.highest for reader in readers) <= last, 'a value that was read is lost')


@suite.case('one copy never shows an older value after a newer one')
def _(run):
    with Copies(copies=2, proxy_options=STALE) as copies, copies.connect() as client, copies.connect() as reader:
        check_equal(client.get('SET', 'count', 0), b'OK')
        copies.wait_follows(1)
        check_equal(reader.get('READONLY'), b'OK')
        wait_reads_at_copies(copies, reader, 'count')
        writer = CountWriter(copies)
        writer.start()
        highest, left = 0, reads_that_left(copies)
        for _ in range(2000):
            got = int(reader.get('GET', 'count'))
            if got < highest:  # is the one before of the leader, because the copy was silent for half a second?
                before, left = left, reads_that_left(copies)
                check(left > before, '%d after %d' % (got, highest))
            highest = got
        writer.is_over.set()
        writer.join()


@suite.case('slots move between shards while clients read at copies: each read finds its key')
def _(run):
    with TwoShards(proxy_options=STALE) as copies, copies.connect() as client, copies.connect() as reader:
        keys = ['k%d' % i for i in range(200)]
        for key in keys:
            check_equal(client.get('SET', key, key), b'OK')
        copies.wait_copied()
        check_equal(reader.get('READONLY'), b'OK')
        for key in keys[:20]:
            wait_reads_at_copies(copies, reader, key)
        for halves in (['0-4095', '4096-16383'], ['0-12287', '12288-16383']):
            copies.halves = halves
            copies.reload()
            def has_moved():
                for key in random.sample(keys, 40):
                    check_equal(reader.get('GET', key), key.encode())
                with copies.copy(0) as node:
                    return node.get('DBSIZE') == sum(in_ranges(slot_of(key), copies.halves[0]) for key in keys)
            wait_for(has_moved, 'the slots to have moved', pause=0.05)
            for key in keys:
                check_equal(reader.get('GET', key), key.encode())


if __name__ == '__main__':
    suite.main()
