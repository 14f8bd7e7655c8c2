#!/usr/bin/python3
"""Copies that vote: whichever copy is lost, no write that was acknowledged is, and another one serves by itself."""

import contextlib
import shutil
import threading
import time

from support.copies import UNHURRIED, Voters
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Closed, ReplyError, value

suite = Suite(__doc__)
WRITERS = 3


class Writer(threading.Thread):
    """Counts its key up, at whichever copy serves. What the key is worth in the end lies between what was acknowledged and what may have
    been executed."""

    def __init__(self, voters, name):
        super().__init__(daemon=True)
        self.voters, self.key = voters, 'writer:%s' % name
        self.acknowledged = self.unknown = self.highest = 0
        self.taken_at = self.longest = 0.0  # seconds: of the last acknowledgement, and the longest time between two
        self.is_over = threading.Event()
        self.wrong = ''

    def run(self):
        while not self.is_over.is_set():
            for index, backend in enumerate(self.voters.backends):
                if backend.alive():
                    with contextlib.suppress(OSError, Closed):
                        self.write_at(index)

    def write_at(self, index):
        with self.voters.copy(index, timeout=5) as connection:
            while not self.is_over.is_set():
                self.unknown += 1
                reply = connection.get('INCR', self.key)
                if not isinstance(reply, ReplyError):
                    self.take(reply)
                elif 'may have been executed' not in str(reply):
                    self.unknown -= 1
                if isinstance(reply, ReplyError):
                    return

    def take(self, reply):
        if reply <= self.highest:
            self.wrong = '%d was acknowledged after %d' % (reply, self.highest)
        now = time.monotonic()
        self.longest = max(self.longest, now - (self.taken_at or now))
        self.taken_at, self.highest = now, reply
        self.acknowledged += 1
        self.unknown -= 1

    def wait_more(self, count=50):
        goal = self.acknowledged + count
        wait_for(lambda: self.acknowledged >= goal or self.wrong, 'writes of %s to be acknowledged' % self.key)

    def check(self, got):
        check(not self.wrong, '%s: %s' % (self.key, self.wrong))
        check(self.acknowledged <= got <= self.acknowledged + self.unknown and got >= self.highest,
              '%s is %d, with %d acknowledged writes, the last one %d, and %d that may have been executed'
              % (self.key, got, self.acknowledged, self.highest, self.unknown))


class Writers:
    """Writers at work; in the end all copies have what they have written."""

    def __init__(self, voters):
        self.voters, self.list = voters, [Writer(voters, i) for i in range(WRITERS)]

    def __enter__(self):
        for writer in self.list:
            writer.start()
        self.wait_more()
        return self

    def wait_more(self):
        for writer in self.list:
            writer.wait_more()

    def stop(self):
        for writer in self.list:
            writer.is_over.set()
        for writer in self.list:
            writer.join()

    def __exit__(self, kind, error, trace):
        self.stop()
        if kind is not None:
            return
        self.voters.wait_leader()
        self.voters.wait_follows(*self.voters.order[1:])
        for index in self.voters.order:
            with self.voters.reader(index) as reader:
                for writer in self.list:
                    writer.check(int(reader.get('GET', writer.key)))


def lose_leader(voters, writers):
    leader = voters.wait_leader()
    voters.backends[leader].kill9()
    voters.wait_leader(leader)
    writers.wait_more()
    voters.backends[leader].start()
    voters.wait_voters(0, 1, 2)


def lose_copy(voters, writers):
    """A copy is killed, and comes back with its disk, then without it: it holds nothing up, and votes again."""
    leader = voters.wait_leader()
    copy = next(index for index in range(3) if index != leader)
    for has_disk in (True, False):
        voters.backends[copy].kill9()
        writers.wait_more()
        if not has_disk:
            shutil.rmtree(voters.backends[copy].data)
        voters.backends[copy].start()
        voters.wait_voters(0, 1, 2)
    writers.wait_more()


def lose_all(voters, writers):
    for backend in voters.backends:
        backend.kill9()
    for backend in voters.backends:
        backend.start()
    voters.wait_leader()
    writers.wait_more()


# ---- leaders that are lost -----------------------------------------------------------------------------------------

@suite.case('whichever copies are killed, also all at once or with their disk: a leader is elected, and no acknowledged write is lost')
def _(run):
    with Voters() as voters, Writers(voters) as writers:
        for _ in range(sized(1, long=100)):
            lose_leader(voters, writers)
            lose_copy(voters, writers)
            lose_all(voters, writers)
        run.note('%d writes acknowledged, at most %.2f s between two'
                 % (sum(writer.acknowledged for writer in writers.list), max(writer.longest for writer in writers.list)))


@suite.case('a leader that stands still is replaced; when it goes on it serves nothing old, loses what it had not written, and follows')
def _(run):
    with Voters() as voters:
        i = 0
        while i < sized(1, long=50):
            leader = voters.wait_leader()
            voters.wait_voters(0, 1, 2)
            old = voters.backends[leader]
            with voters.copy(leader) as reader, voters.copy(leader) as writer, voters.copy(leader) as waiter:
                if reader.get('SET', 'k', 'old%d' % i) != b'OK':
                    continue  # another copy was elected, because this machine is slow
                waiter.send('BLPOP', 'never', 0)
                old.pause()
                reader.send('GET', 'k')
                writer.send('SET', '{k}late%d' % i, 'v')
                voters.wait_leader(leader)
                check_equal(voters.ask('SET', 'k', 'new%d' % i), b'OK')
                old.resume()
                got = value(reader.read())
                check(str(got).startswith(('MOVED ', 'TRYAGAIN ')) or got == b'new%d' % i, 'a read at the old leader: %r' % got)
                check(isinstance(value(writer.read()), ReplyError), 'a write at the old leader')
                got = value(waiter.read())
                check(str(got).startswith(('UNBLOCKED ', 'MOVED ')), 'a client that waits at the old leader: %r' % got)
                check_equal(voters.ask('GET', '{k}late%d' % i), None)
                check_equal(voters.ask('GET', 'k'), b'new%d' % i)
            voters.wait_follows(leader)
            with voters.reader(leader) as reader:
                check_equal(reader.get('MGET', 'k', '{k}late%d' % i), [b'new%d' % i, None])
            i += 1


@suite.case('two leaders never answer: reads at any copy are never older than an acknowledged write, while leaders stand still and go on')
def _(run):
    with Voters() as voters, Writers(voters) as writers:
        is_over, old = threading.Event(), []

        def read_at(index):
            while not is_over.is_set():
                with contextlib.suppress(OSError, Closed), voters.copy(index, timeout=5) as connection:
                    while not is_over.is_set():
                        for writer in writers.list:
                            before = writer.highest
                            got = connection.get('GET', writer.key)
                            if not isinstance(got, ReplyError) and int(got or 0) < before:
                                old.append('copy %d: %s is %r after %d was acknowledged' % (index, writer.key, got, before))
                            if isinstance(got, ReplyError):
                                is_over.wait(0.01)

        readers = [threading.Thread(target=read_at, args=(index,), daemon=True) for index in range(3)]
        for reader in readers:
            reader.start()
        try:
            for _ in range(sized(1, long=100)):
                leader = voters.wait_leader()
                voters.wait_voters(0, 1, 2)
                voters.backends[leader].pause()
                voters.wait_leader(leader)
                writers.wait_more()
                voters.backends[leader].resume()
                writers.wait_more()
        finally:
            is_over.set()
        for reader in readers:
            reader.join()
        check(not old, old[:3])


@suite.case('a client of a proxy keeps its connection when the leader is killed or steps down: its next request waits for the new one')
def _(run):
    with Voters(proxies=1, proxy_options={'upstream': {'hold': '1m'}}, backend_options=UNHURRIED) as voters, voters.connect() as client:
        for how in ('kill9', 'pause'):
            leader = voters.wait_leader()
            voters.wait_voters(0, 1, 2)
            wait_for(lambda: client.get('SET', 'k', how) == b'OK', 'the proxy to find the leader')
            getattr(voters.backends[leader], how)()
            if how == 'pause':  # what is sent to the old leader fails when the proxy hears of the new one
                address = ('%s:%d' % voters.backends[voters.wait_leader(leader)].addresses[0][:2]).encode()
                wait_for(lambda: address in client.get('SCREE', 'SHARDS')[0], 'the worker of the proxy to use the new one')
            check_equal(client.get('GET', 'k'), how.encode())
            check_equal(client.get('APPEND', 'k', 'x'), len(how) + 1)
            if how == 'kill9':
                voters.backends[leader].start()
            else:
                voters.backends[leader].resume()


class Counter(threading.Thread):
    """A client of the proxy that counts a key up, and says what is wrong."""

    def __init__(self, voters):
        super().__init__(daemon=True)
        self.voters, self.done, self.wrong, self.is_over = voters, 0, [], threading.Event()

    def run(self):
        with self.voters.connect() as client:
            while not self.is_over.is_set() and not self.wrong:
                got = client.get('INCR', 'k')
                self.done += 1
                if got != self.done:
                    self.wrong.append('%r instead of %d' % (got, self.done))

    def wait_more(self, count=50):
        goal = self.done + count
        wait_for(lambda: self.done > goal or self.wrong, 'requests to be carried out')

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, trace):
        self.is_over.set()
        self.join()
        if not kind:
            check_equal(self.wrong, [])
            with self.voters.connect() as client:
                check_equal(int(client.get('GET', 'k')), self.done)


@suite.case('backends are stopped and started one after the other: the leader hands over, no request of a proxy\'s client fails, and each is carried out once')
def _(run):
    with Voters(proxies=1, proxy_options={'upstream': {'hold': '1m'}}, backend_options=UNHURRIED) as voters, Counter(voters) as counter:
        for backend in voters.backends:
            voters.wait_voters(0, 1, 2)
            counter.wait_more()
            was_leader = voters.backends[voters.wait_leader()] is backend
            backend.stop()
            log = backend.log()
            check(not was_leader or b'leadership_given_up' in log, log)  # before its end, so the others needed no timeout
            counter.wait_more()
            backend.start()


@suite.case('SCREE LEADER TO: the copy at the address leads, no request of a proxy\'s client fails, and each is carried out once')
def _(run):
    with Voters(proxies=1, proxy_options={'upstream': {'hold': '1m'}}, backend_options=UNHURRIED) as voters, Counter(voters) as counter:
        with voters.connect() as through:  # a proxy asks all shards
            for turn in range(5):
                index = (voters.wait_leader() + 1 + turn // 3) % 3
                voters.wait_voters(0, 1, 2)
                counter.wait_more()
                with voters.leader() as client:
                    asked = client if turn < 4 else through
                    check_equal(asked.get('SCREE', 'LEADER', 'TO', '%s:%d' % voters.backends[index].addresses[0][:2]), b'OK')
                wait_for(lambda: voters.serves(index), 'copy %d to serve' % index)
                counter.wait_more()


@suite.case('SCREE LEADER TO: what cannot lead is refused, and the leader serves on')
def _(run):
    with Voters(backend_options=UNHURRIED) as voters:
        leader = voters.wait_leader()
        addresses = ['%s:%d' % backend.addresses[0][:2] for backend in voters.backends]
        other, dead = [index for index in range(3) if index != leader]
        with voters.copy(other) as follower:
            check('does not lead' in str(follower.get('SCREE', 'LEADER', 'TO', addresses[other])), 'at a copy that follows')
        voters.backends[dead].kill9()
        # until then leadership would be handed over to it
        wait_for(lambda: [line['up'] for line in voters.replicas(leader)[1] if line['address'] == addresses[dead]] == ['no'], 'the loss to be noticed')
        with voters.leader() as client:
            for words, reason in (((addresses[leader],), 'this copy leads already'), (('127.0.0.1:1',), 'has no copy at this address'),
                                  (('',), 'expected SCREE LEADER TO')):
                check(reason in str(client.get('SCREE', 'LEADER', 'TO', *words)), reason)
            check('expected SCREE LEADER TO' in str(client.get('SCREE', 'LEADER', 'AT', addresses[other])), 'another word')
            check('is not connected' in str(client.get('SCREE', 'LEADER', 'TO', addresses[dead])), 'a copy that is down')
            check_equal(client.get('SET', 'k', 'v'), b'OK')


if __name__ == '__main__':
    suite.main()
