#!/usr/bin/python3
"""Reads at copies with replica-reads = fresh: whichever copy answers, each read shows all writes that were acknowledged before it was sent."""

import contextlib
import random
import shutil
import threading

from support.cluster import in_ranges, metric, slot_of
from support.copies import UNHURRIED, Copies, TwoShards, Voters
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)

FRESH = {'upstream': {'replica-reads': 'fresh', 'hold': '1m'}}


def number(cluster, name, proxy=0):
    return metric(cluster.proxies[proxy].http('/metrics')[1], 'scree_proxy_%s_total' % name)


def copy_reads(cluster):
    return number(cluster, 'copy_reads')


def wait_shared(cluster, clients, key='k'):
    """Waits until a third of the clients' reads, or more, are answered by copies that follow."""
    def is_so():
        before = copy_reads(cluster)
        for client in clients:
            check(not isinstance(client.get('GET', key), ReplyError), 'an error')
        return copy_reads(cluster) - before >= max(1, len(clients) // 3)
    wait_for(is_so, 'copies to answer', pause=0.05)


class Register(threading.Thread):
    """Writes numbers to a key, each higher than the one before, and reads them elsewhere: what it reads is never less than the last that any
    Register had an acknowledgement for before. `highest`: of all of them, by key."""

    def __init__(self, cluster, highest, key, proxies):
        super().__init__(daemon=True)
        self.cluster, self.highest, self.key, self.proxies = cluster, highest, key, proxies
        self.done, self.wrong, self.is_over = 0, [], threading.Event()

    def write(self, client):
        got = client.get('INCR', self.key)
        if not isinstance(got, ReplyError):
            self.highest[self.key] = max(self.highest[self.key], got)

    def read(self, client):
        known = self.highest[self.key]
        got = client.get('GET', self.key)
        if isinstance(got, ReplyError):
            return
        self.done += 1
        if int(got or 0) < known:
            self.wrong.append('%s: %r, and %d was acknowledged before' % (self.key, got, known))

    def run(self):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(self.cluster.connect(proxy)) for proxy in self.proxies]
            while not self.is_over.is_set() and not self.wrong:
                self.write(random.choice(clients))
                for client in clients:
                    self.read(client)

    def wait_more(self, count=50):
        goal = self.done + count
        wait_for(lambda: self.done > goal or self.wrong, 'reads to be answered')


@contextlib.contextmanager
def registers(cluster, keys, proxies=(0, 1), each=2):
    """Registers on these keys, which are right at the end."""
    highest = dict.fromkeys(keys, 0)
    threads = [Register(cluster, highest, key, proxies) for key in keys for _ in range(each)]
    for thread in threads:
        thread.start()
    try:
        yield threads
        for thread in threads:
            thread.wait_more()
    finally:
        for thread in threads:
            thread.is_over.set()
        for thread in threads:
            thread.join()
    check_equal([text for thread in threads for text in thread.wrong], [])


@suite.case('reads of all clients are shared out between three copies, and each sees the write before it')
def _(run):
    with Voters(proxies=2, proxy_options=FRESH, backend_options=UNHURRIED, replica_reads='fresh') as voters, contextlib.ExitStack() as stack:
        writer = stack.enter_context(voters.connect(1))
        check_equal(writer.get('SET', 'k', 0), b'OK')
        clients = [stack.enter_context(voters.connect(0)) for _ in range(12)]
        wait_shared(voters, clients)
        done = copy_reads(voters)
        for i in range(100):
            check_equal(writer.get('SET', 'k', i), b'OK')
            for client in clients:
                check_equal(client.get('GET', 'k'), b'%d' % i)
        check(copy_reads(voters) > done, 'no copy has answered')


@suite.case('reads of one pipeline see the writes before them, and none of those behind them')
def _(run):
    with Voters(proxies=1, proxy_options=FRESH, backend_options=UNHURRIED, replica_reads='fresh') as voters, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(voters.connect()) for _ in range(6)]
        check_equal(clients[0].get('SET', 'k', 0), b'OK')
        wait_shared(voters, clients)
        for number_of, client in enumerate(clients):
            key = 'p%d' % number_of
            for _ in range(30):
                before = client.get('GET', key)
                last = int(before or 0)
                client.send_many([('GET', key), ('GET', key), ('SET', key, last + 1), ('GET', key), ('MGET', key, key), ('SET', key, last + 2), ('GET', key)])
                wanted = [before, before, b'OK', b'%d' % (last + 1), [b'%d' % (last + 1)] * 2, b'OK', b'%d' % (last + 2)]
                check_equal([value(client.read()) for _ in wanted], wanted)


@suite.case('a client of a copy that has sent READONLY sees each write that the leader has acknowledged')
def _(run):
    with Voters(backend_options=UNHURRIED, replica_reads='fresh') as voters:
        def sees_all():
            leader = voters.wait_leader()
            others = [index for index in range(3) if index != leader]
            with voters.copy(leader) as writer, voters.reader(others[0]) as first, voters.reader(others[1]) as second:
                for i in range(20):
                    check_equal(writer.get('SET', 'k', i), b'OK')
                    for reader in (first, second):
                        got = reader.get('GET', 'k')
                        if isinstance(got, ReplyError):
                            check(str(got).startswith(('MOVED', 'TRYAGAIN')), str(got))
                            return False
                        check_equal(got, b'%d' % i)
                for words in (('EVAL_RO', 'return 1', '1', 'k'), ('DBSIZE',), ('SCAN', '0')):
                    check(isinstance(first.get(*words), ReplyError), '%s is not read at a copy' % words[0])
            return True
        wait_for(sees_all, 'twenty reads in a row at each copy', pause=0.1)


@suite.case('copies and leaders are killed while clients read at all copies: no read is older than an acknowledged write')
def _(run):
    with Voters(proxies=2, proxy_options=FRESH, backend_options=UNHURRIED, replica_reads='fresh') as voters, voters.connect() as client:
        check_equal(client.get('SET', 'k', 0), b'OK')
        wait_shared(voters, [client] * 2 + [voters.connect() for _ in range(4)])
        with registers(voters, ['k', 'l']) as threads:
            for what in ('copy', 'leader', 'copy', 'leader'):
                for thread in threads:
                    thread.wait_more()
                leader = voters.wait_leader()
                victim = leader if what == 'leader' else (leader + 1) % 3
                voters.backends[victim].kill9()
                for thread in threads:
                    thread.wait_more()
                voters.backends[victim].start()
                voters.wait_leader()
                voters.wait_voters(0, 1, 2)
        check(copy_reads(voters) > 0, 'no copy has answered')


@suite.case('the leader stands still, hands over and comes back while clients read at all copies')
def _(run):
    with Voters(proxies=2, proxy_options=FRESH, backend_options=UNHURRIED, replica_reads='fresh') as voters, registers(voters, ['k', 'l']) as threads:
        for what in ('hand over', 'freeze', 'hand over', 'freeze'):
            leader = voters.wait_leader()
            if what == 'freeze':
                voters.backends[leader].pause()
                voters.wait_leader(leader)
                voters.backends[leader].resume()
            else:
                with voters.copy(leader) as node:
                    node.get('SCREE', 'LEADER', 'TO', '%s:%d' % voters.backends[(leader + 1) % 3].addresses[0][:2])
            for thread in threads:
                thread.wait_more()
        wait_for(lambda: copy_reads(voters) > 0, 'a copy to answer')


@suite.case('slow scripts run at the leader while clients read at all copies: a copy shows what was acknowledged while a script ran')
def _(run):
    with Voters(proxies=2, proxy_options=FRESH, backend_options=UNHURRIED, replica_reads='fresh') as voters, voters.connect() as client:
        check_equal(client.get('SET', 'k', 0), b'OK')
        for index in range(3):
            with voters.copy(index) as node:
                check_equal(node.get('CONFIG', 'SET', 'busy-reply-threshold', 5), b'OK')
        wait_shared(voters, [client] * 2 + [voters.connect() for _ in range(4)])
        with registers(voters, ['k', 'l']) as threads:
            before = copy_reads(voters)
            for _ in range(40):
                client.get('EVAL', 'local i = 0 while i < 2000000 do i = i + 1 end return i', 1, 'k')
                threads[0].wait_more(5)
            check(copy_reads(voters) > before, 'copies answer while scripts run')


@suite.case('a copy whose configuration is reloaded stays connected to its leader')
def _(run):
    with Voters(backend_options=UNHURRIED, replica_reads='fresh') as voters:
        def figure(name):
            return metric(voters.backends[copy].http('/metrics')[1], 'scree_backend_peer_%s_total' % name)

        copy = (voters.wait_leader() + 1) % 3
        with voters.copy(copy) as node:
            wait_for(lambda: figure('connects'), 'the copy to be connected')
            before = figure('connects')
            for i in range(6):
                check_equal(node.get('CONFIG', 'SET', 'maxclients', 1000 + i), b'OK')
                asked = figure('requests')
                wait_for(lambda: figure('requests') > asked + 10, 'the copy to ask its leader')
            check(figure('connects') - before < 3, 'most reloads make no new connection')


@suite.case('a warm copy is forced to lead: the copy of before shows nothing, and reads at its successor are of the new leader')
def _(run):
    with Copies(proxies=1, proxy_options=FRESH, replica_reads='fresh') as copies, copies.connect() as client:
        check_equal(client.get('SET', 'k', 0), b'OK')
        copies.wait_follows(1, 2)
        copies.backends[0].kill9()
        copies.force(1)
        with registers(copies, ['k'], proxies=(0,), each=3) as threads:
            for thread in threads:
                thread.wait_more(200)
            copies.wait_phase(2, 'overtaken')
            copies.backends[2].kill9()
            shutil.rmtree(copies.backends[2].data)
            copies.backends[2].start()
            copies.wait_follows(2)
            wait_for(lambda: copy_reads(copies) > 0, 'a copy to answer')


@suite.case('slots move between shards while clients read at all copies')
def _(run):
    with TwoShards(proxies=2, proxy_options=FRESH, replica_reads='fresh') as copies, copies.connect() as client:
        keys = ['k%d' % i for i in range(60)]
        for key in keys:
            check_equal(client.get('SET', key, 0), b'OK')
        copies.wait_copied()
        with registers(copies, keys[:6], each=1) as threads:
            for halves in (['0-4095', '4096-16383'], ['0-12287', '12288-16383']):
                copies.halves = halves
                copies.reload()

                def has_moved():
                    for key in random.sample(keys[6:], 10):
                        check_equal(client.get('GET', key), b'0')
                    with copies.copy(0) as node:
                        return node.get('DBSIZE') == sum(in_ranges(slot_of(key), copies.halves[0]) for key in keys)
                wait_for(has_moved, 'the slots to have moved', pause=0.05)
                before = copy_reads(copies)
                wait_for(lambda: copy_reads(copies) > before, 'a copy to answer')
                for thread in threads:
                    thread.wait_more()


@suite.case('reads see both halves of a transaction over shards that was acknowledged')
def _(run):
    with TwoShards(proxies=2, proxy_options=FRESH, replica_reads='fresh') as copies, copies.connect() as writer, contextlib.ExitStack() as stack:
        low, high = [next(key for key in ('t%d' % i for i in range(100)) if in_ranges(slot_of(key), half)) for half in copies.halves]
        check_equal(writer.get('MSET', low, 0, high, 0), b'OK')
        copies.wait_copied()
        readers = [stack.enter_context(copies.connect(proxy)) for proxy in (0, 1, 0, 1, 0, 1)]
        wait_shared(copies, readers[::2], low)
        for i in range(200):
            with_multi = i % 2
            if with_multi:
                writer.send_many([('MULTI',), ('SET', low, i), ('SET', high, i), ('EXEC',)])
                check_equal([value(writer.read()) for _ in range(4)][-1], [b'OK', b'OK'])
            else:
                check_equal(writer.get('MSET', low, i, high, i), b'OK')
            for reader in readers:
                check_equal([reader.get('GET', low), reader.get('GET', high)], [b'%d' % i] * 2)


@suite.case('a proxy with fresh gets no old data from a copy that has stale')
def _(run):
    with Copies(copies=2, proxies=1, proxy_options=FRESH, replica_reads='stale') as copies, copies.connect() as writer, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(copies.connect()) for _ in range(4)]
        copies.wait_follows(1)
        for i in range(50):
            check_equal(writer.get('SET', 'k', i), b'OK')
            check_equal([client.get('GET', 'k') for client in clients], [b'%d' % i] * 4)
        check_equal(copy_reads(copies), 0)


@suite.case('a reload of the proxy turns reads at copies on and off, and old data off')
def _(run):
    with Copies(copies=2, proxies=1, replica_reads='fresh') as copies, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(copies.connect()) for _ in range(4)]
        check_equal(clients[0].get('SET', 'k', 0), b'OK')
        copies.wait_follows(1)
        for value in ('fresh', 'stale', 'fresh', 'no'):
            proxy = copies.proxies[0]
            proxy.options = {'upstream': {'replica-reads': value}}
            proxy.write_config()
            proxy.reload()
            wait_for(lambda: copies_answer(copies, clients) == (value == 'fresh'), 'reads with %s' % value, pause=0.05)


def copies_answer(copies, clients):
    before = copy_reads(copies)
    check_equal([client.get('GET', 'k') for client in clients], [b'0'] * len(clients))
    return copy_reads(copies) > before


if __name__ == '__main__':
    suite.main()
