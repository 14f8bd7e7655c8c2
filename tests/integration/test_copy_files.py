#!/usr/bin/python3
"""Copies fetch the files of their leader: whatever ends in between, they join in the end, and what serves beside them goes on."""

import contextlib
import os
import shutil
import threading
import time

from support.copies import UNHURRIED, Copies, Voters
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import Connection

suite = Suite(__doc__)
VALUES = 120
VALUE = 60 * 1000
KEPT = 8 << 20  # bytes of the log for a copy that is away
SLOW = {'backend': {'snapshot-rate': '4mb'}}  # the files of load() take two seconds


def load(copies, prefix='key', count=VALUES):
    """Values that cannot be compressed."""
    with copies.leader() as leader:
        for i in range(count):
            check_equal(leader.get('SET', '%s%d' % (prefix, i), os.urandom(VALUE)), b'OK')


def beside(backend, suffix):
    return os.path.join(backend.data, 'partition-0' + suffix)


def check_equal_copy(copies, index, prefix='key', count=VALUES):
    copies.wait_follows(index)
    with copies.leader() as leader, copies.reader(index) as reader:
        for i in range(count):
            key = '%s%d' % (prefix, i)
            check(leader.get('GET', key) == reader.get('GET', key), 'copy %d has another %s' % (index, key))
    wait_for(lambda: not os.path.exists(beside(copies.backends[copies.order[0]], '.outgoing')), 'the cut to be removed')
    wait_for(lambda: not os.path.exists(beside(copies.backends[index], '.incoming')), 'what lies beside the data to be removed')


def lose_disk(copies, index):
    """The copy ends and loses its data: it will join as a new one."""
    backend = copies.backends[index]
    if backend.alive():
        backend.kill9()
    shutil.rmtree(backend.data)
    return backend


def new_disk(copies, index):
    backend = lose_disk(copies, index)
    backend.spawn()
    return backend


def has_part(backend):
    with contextlib.suppress(OSError):
        return any(name.endswith('.part') for name in os.listdir(beside(backend, '.incoming')))
    return False


def spawn_until(backend, event, pause=0):
    """Starts the backend, and kills it so long after it has logged the event."""
    before = backend.log().count(event)
    backend.spawn()
    wait_for(lambda: backend.log().count(event) > before, 'the event %s' % event.decode(), pause=0.002)
    time.sleep(pause)
    backend.kill9()


@suite.case('a copy that is killed while it fetches files goes on with those that are whole')
def _(run):
    with Copies(copies=2, proxies=0, backend_options=SLOW) as copies:
        copies.wait_follows(1)
        load(copies)
        backend = new_disk(copies, 1)
        for _ in range(2):
            wait_for(lambda: has_part(backend), 'a file to be fetched', pause=0.01)
            backend.kill9()
            backend.spawn()
        check_equal_copy(copies, 1)


@suite.case('a copy that is killed while fetched files take the place of its data has the old or the new ones')
def _(run):
    with Copies(copies=2, proxies=0) as copies:
        copies.wait_follows(1)
        load(copies)
        for pause in (0, 0.05, 0.2):
            backend = lose_disk(copies, 1)
            spawn_until(backend, b'snapshot_fetched', pause)
            backend.spawn()
            check_equal_copy(copies, 1)


@suite.case('a leader that is killed while it gives files gives them when it serves again')
def _(run):
    with Copies(copies=2, proxies=0, backend_options=SLOW) as copies:
        copies.wait_follows(1)
        load(copies)
        backend = new_disk(copies, 1)
        wait_for(lambda: has_part(backend), 'a file to be fetched', pause=0.01)
        copies.backends[0].kill9()
        copies.backends[0].start()
        copies.wait_serves(0)
        check_equal_copy(copies, 1)


@suite.case('what is written while files are fetched is not trimmed before the copy has it, so files are not sent again and again')
def _(run):
    # a lost link is another reason to send files again
    options = {'backend': {'snapshot-rate': '4mb', 'wal-keep': '0', 'peer-timeout': '1m'}, 'store': {'wal-limit': '1mb'}}
    with Copies(copies=2, proxies=0, backend_options=options) as copies:
        copies.wait_follows(1)
        load(copies)
        sent = copies.backends[0].log().count(b'info snapshot_sent')
        backend = new_disk(copies, 1)
        wait_for(lambda: has_part(backend), 'a file to be fetched', pause=0.01)
        load(copies, 'later')
        check_equal_copy(copies, 1)
        check_equal_copy(copies, 1, 'later')
        check_equal(copies.backends[0].log().count(b'info snapshot_sent'), sent + 1, 'times that files were sent')


def sizes(folder):
    """Bytes of the files of the log in a directory of data."""
    total = 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # it was trimmed
            total += os.path.getsize(os.path.join(folder, name)) * name.endswith('.batches')
    return total


class Churn(threading.Thread):
    """A client that writes random values to few keys of the leader until it is stopped, and measures its log and its memory."""

    def __init__(self, leader, connection):
        super().__init__(daemon=True)
        self.leader, self.connection = leader, connection
        self.written = self.log_most = self.memory_most = 0
        self.is_over = False
        self.error = None

    def run(self):
        try:
            while not self.is_over:
                check_equal(self.connection.get('SET', 'key%d' % (self.written % VALUES), os.urandom(VALUE)), b'OK')
                self.written += 1
                if self.written % 20 == 0:
                    self.log_most = max(self.log_most, sizes(beside(self.leader, '')))
                    self.memory_most = max(self.memory_most, self.leader.rss_bytes())
        except Exception as error:  # the case reports it
            self.error = error

    def write(self, count):
        goal = self.written + count
        wait_for(lambda: self.written >= goal or self.error, 'values to be written')
        check(not self.error, 'the writer: %r' % self.error)


@suite.case('a copy that is away for long costs its leader no more log than wal-keep, and no memory; it comes back by files under load')
def _(run):
    options = {'backend': {'wal-keep': str(KEPT), **UNHURRIED['backend']}, 'store': {'wal-limit': '1mb', 'memory': '64mb'}}
    for replicas in sized((run.rng.choice(('yes', 'voters')),), long=('yes', 'voters')):
        with (Voters if replicas == 'voters' else Copies)(copies=3, proxies=0, replicas=replicas, backend_options=options) as copies, \
                copies.leader() as connection:
            copies.wait_follows(*copies.order[1:])
            leader, away = copies.backends[copies.order[0]], copies.order[2]
            writer = Churn(leader, connection)
            writer.start()
            writer.write(2 * VALUES)  # so that caches and buffers have their size
            copies.backends[away].kill9()
            writer.memory_most = writer.log_most = 0
            writer.write(2 * VALUES)
            before, writer.memory_most = writer.memory_most, 0
            writer.write(sized(6, long=300) * VALUES)
            run.note('%s: %d MB written, at most %.1f MB of log, %.0f MB of memory, then %.0f'
                     % (replicas, writer.written * VALUE >> 20, writer.log_most / 2 ** 20, before / 2 ** 20, writer.memory_most / 2 ** 20))
            check(writer.memory_most <= before + (16 << 20), '%s: more memory' % replicas)
            # the log has also what is not in files yet: as much as the disk makes wait
            check(writer.log_most < writer.written * VALUE * 2 / 3, '%s: more log' % replicas)
            with copies.leader() as other:
                wait_for(lambda: other.get('SAVE') == b'OK' and sizes(beside(leader, '')) < 2 * KEPT, 'the log to be trimmed', pause=0.2)
            copies.backends[away].spawn()
            copies.wait_phase(away, 'following')
            writer.write(50)
            writer.is_over = True
            writer.join()
            check(b'snapshot_installed' in copies.backends[away].log(), 'the copy has got no files')
            check_equal_copy(copies, away)


class BesideCopies(Copies):
    """Each backend has a partition more, whose shard has no copy."""

    def shards_text(self, slots=None):
        self.epoch += 1
        at = [['%s:%d' % address[:2] for address in backend.addresses] for backend in self.backends]
        return ('[map]\nepoch = %d\n[shard a]\nslots = 0-8191\naddress = %s %s\n[shard b]\nslots = 8192-12287\naddress = %s\n'
                '[shard c]\nslots = 12288-16383\naddress = %s\n' % (self.epoch, at[0][0], at[1][0], at[0][1], at[1][1]))


@suite.case('a partition serves while a copy beside it in the process stops and goes on with other files')
def _(run):
    # the other partition is not to be waited for
    with BesideCopies(copies=2, partitions=2, proxies=0, backend_options={'backend': {'drain-timeout': '1m'}}) as copies:
        errors, rounds, is_over = [], [], threading.Event()

        def count():
            with Connection(copies.backends[1].addresses[1]) as client:
                while not is_over.is_set() and not errors:
                    rounds.append(client.get('INCR', 'n{a}'))
                    if rounds[-1] != len(rounds):
                        errors.append(rounds[-1])
        copies.wait_follows(1)
        backend = copies.backends[1]
        load(copies, '{b}', 10)
        backend.kill9()
        shutil.rmtree(beside(backend, ''))
        installed = backend.log().count(b'snapshot_installed')
        backend.start()
        counter = threading.Thread(target=count, daemon=True)
        counter.start()
        wait_for(lambda: backend.log().count(b'snapshot_installed') > installed, 'the files to be installed')
        check_equal_copy(copies, 1, '{b}', 10)
        seen = len(rounds)
        wait_for(lambda: len(rounds) > seen + 100 or errors, 'the other partition to serve')
        is_over.set()
        counter.join()
        check(not errors, 'INCR has replied %r' % errors)


if __name__ == '__main__':
    suite.main()
