#!/usr/bin/python3
"""Copies fetch the files of their leader: whatever ends in between, they join in the end, and what serves beside them goes on."""

import contextlib
import os
import shutil
import threading
import time

from support.copies import Copies
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection

suite = Suite(__doc__)
VALUES = 120
VALUE = 60 * 1000
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
    options = {'backend': {'snapshot-rate': '4mb', 'wal-keep': '0'}, 'store': {'wal-limit': '1mb'}}
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
