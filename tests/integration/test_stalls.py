#!/usr/bin/python3
"""Copies that vote, with bad disks: what hangs or is full stops no reads, and no leader keeps what another copy could do."""

import contextlib
import errno
import os

from support.copies import UNHURRIED, Voters
from support.disk import SYNC_LOG, WRITE_LOG, WRITE_OTHER, FaultyDisk, SmallDisk
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Closed, ReplyError, value

suite = Suite(__doc__)
OTHERS = {0: (1, 2), 1: (0, 2), 2: (0, 1)}


class FaultyVoters(Voters):
    """Each copy has a disk of its own: disks[index]."""

    def __init__(self, **options):
        super().__init__(backend_options=UNHURRIED, **options)
        self.disks = [FaultyDisk() for _ in self.backends]
        for disk, backend in zip(self.disks, self.backends):
            disk.use(backend)

    def __exit__(self, *error):
        for disk in self.disks:
            disk.hold_syncs(False)
            disk.heal()
        with contextlib.ExitStack() as stack:
            for disk in self.disks:
                stack.enter_context(disk)
            return super().__exit__(*error)


@suite.case('the disks of both followers hang: reads go on, writes are refused after a while, and all goes on when one disk does')
def _(run):
    with FaultyVoters(proxies=1) as voters, voters.connect() as client:
        leader = voters.wait_leader()
        check_equal(client.get('MSET', '{k}old', 'v', '{k}new', 'v'), b'OK')
        for index in OTHERS[leader]:
            voters.disks[index].hold_syncs()
        with voters.copy(leader) as writer, voters.copy(leader) as reader, voters.copy(leader) as late:
            writer.send('SET', '{k}new', 'w')
            late.send('SET', '{k}late', 'x')
            wait_for(lambda: isinstance(reader.get('SET', '{k}refused', 'y'), ReplyError), 'writes to be refused')
            for connection in (writer, late):
                check('may have been executed' in str(value(connection.read())), 'a write that waits')
            for connection in (reader, client):
                check_equal(connection.get('GET', '{k}old'), b'v')
                check(str(connection.get('SET', '{k}refused', 'y')).startswith('NOREPLICAS '), 'a write while the disks hang')
                check('may have been executed' in str(connection.get('GET', '{k}new')), 'a read of what is not on enough disks')
                check_equal(connection.get('GET', '{k}old'), b'v')
            check_equal(reader.get('EXISTS', 'other'), 0)
            voters.disks[OTHERS[leader][0]].hold_syncs(False)
            wait_for(lambda: reader.get('SET', '{k}after', 'z') == b'OK', 'writes to be taken again')
            check_equal(reader.get('MGET', '{k}new', '{k}late', '{k}old'), [b'w', b'x', b'v'])
            check_equal(client.get('GET', '{k}after'), b'z')
        check_equal(voters.wait_leader(), leader)


def check_hands_over(voters, hang, is_hanging, go_on):
    """The leader stands still: another copy leads, and the old one follows it when it goes on."""
    leader = voters.wait_leader()
    with voters.copy(leader) as client, voters.copy(leader) as writer:
        check_equal(client.get('SET', 'k', 'v'), b'OK')
        hang(leader)
        writer.send('SET', 'k', 'w')
        wait_for(lambda: is_hanging(leader), 'copy %d to stand still' % leader)
        successor = voters.wait_leader(leader)
        with voters.copy(successor) as other:
            check(other.get('GET', 'k') in (b'v', b'w'), 'the write may have been executed')
            check_equal(other.get('SET', 'k', 'x'), b'OK')
            go_on(leader)
            check(isinstance(value(writer.read()), ReplyError), 'the write at the old leader')
            check_equal(other.get('GET', 'k'), b'x')
    voters.wait_leader()
    voters.wait_follows(leader)
    check(b'leadership_resigned' in voters.backends[leader].log(), 'the log of the old leader')


@suite.case("the leader's disk hangs: another copy leads, and the old leader does not stand before its disk goes on")
def _(run):
    with FaultyVoters() as voters:
        disks = voters.disks
        check_hands_over(voters, lambda leader: disks[leader].hold_syncs(), lambda leader: disks[leader].get('syncs_held') > 0,
                         lambda leader: disks[leader].hold_syncs(False))


@suite.case("the thread of the leader's partition hangs: another copy leads, and the old one follows it when it goes on")
def _(run):
    with FaultyVoters() as voters:
        leader = voters.wait_leader()
        with voters.copy(leader) as client:
            client.send('DEBUG', 'SLEEP', 14)
            successor = voters.wait_leader(leader)
            check_equal(value(client.read()), b'OK')
        with voters.copy(successor) as client:
            check_equal(client.get('SET', 'k', 'x'), b'OK')
        voters.wait_leader()
        voters.wait_follows(leader)


class SmallVoters(Voters):
    """Each copy has a small disk of its own: disks[index]."""

    def __init__(self, free_min, **options):
        super().__init__(backend_options={'store': {'memtable': '1mb', 'wal-limit': '4mb', 'disk-free-min': free_min}, **UNHURRIED}, **options)
        self.disks, self.left = [], {}
        for backend in self.backends:
            disk = SmallDisk(DISK_MB)
            self.disks.append(disk)
            backend.data = os.path.join(disk.path, 'data')

    def __exit__(self, *error):
        try:
            return super().__exit__(*error)
        finally:
            for disk in self.disks:
                disk.remove()

    def fill(self, index, left):
        """Leaves so many bytes on the disk of a copy, also when the backend frees some later: refill()."""
        self.left[index] = left
        disk = os.statvfs(self.disks[index].path)
        size = disk.f_bavail * disk.f_frsize - left
        with open(self.rest(index), 'ab') as file, contextlib.suppress(OSError):  # the backend may have taken some
            if size > 0:
                os.posix_fallocate(file.fileno(), file.tell(), size)

    def refill(self):
        for index, left in self.left.items():
            self.fill(index, left)

    def fill_whole(self, index):
        wait_for(lambda: self.fill(index, 0) or os.statvfs(self.disks[index].path).f_bavail == 0, 'the disk to be full')

    def empty(self, index):
        del self.left[index]
        os.unlink(self.rest(index))

    def rest(self, index):
        return os.path.join(self.disks[index].path, 'rest')


DISK_MB = 160
NONE, LOW = 16 << 20, 48 << 20  # bytes: less than 32 MiB, and less than disk-free-min
IS_FULL = 'MISCONF No space left on the disk'


def check_full(voters):
    """A copy serves reads, and refuses all writes. Until all have said what room they have, one may hand over to another."""
    def is_refused():
        voters.refill()
        with contextlib.suppress(OSError, Closed), voters.copy(voters.wait_leader()) as client:
            replies = [str(client.get(*words)) for words in (('SET', 'more', 'v'), ('DEL', 'more'))]
            return all(reply.startswith(IS_FULL) for reply in replies) and client.get('MGET', 'k', '{k}other') == [b'v', None]
        return False  # it has handed over
    wait_for(is_refused, 'writes to be refused, and reads to be served')


def leaderships(voters):
    return sum(backend.log().count(b'leadership_taken') for backend in voters.backends)


def check_goes_on(voters):
    """Writes are taken again, by the copy that leads then."""
    def is_taken():
        with contextlib.suppress(OSError, Closed), voters.copy(voters.wait_leader()) as client:
            return client.get('SET', 'k', 'v') == b'OK'
        return False  # it has handed over
    wait_for(is_taken, 'writes to be taken')


@suite.case('the disks of two copies are full: reads go on, also after restarts and without a free byte, and writes when there is room')
def _(run):
    with SmallVoters(free_min=0) as voters:
        leader = voters.wait_leader()
        check_goes_on(voters)
        voters.wait_follows(*OTHERS[leader])
        for index in OTHERS[leader]:
            voters.fill(index, NONE)
        check_full(voters)
        voters.backends[leader].kill9()
        check_full(voters)
        voters.backends[leader].start()
        voters.empty(OTHERS[leader][0])
        check_goes_on(voters)
        for index in range(3):
            voters.fill_whole(index)
        check_full(voters)
        for backend in voters.backends:
            backend.kill9()
        for backend in voters.backends:
            backend.start()
        check_full(voters)
        for index in range(3):
            voters.empty(index)
        check_goes_on(voters)


@suite.case('the disks of all copies are full: no leader hands over to another one that is as full')
def _(run):
    with SmallVoters(free_min=0) as voters:
        check_goes_on(voters)
        for index in range(3):
            voters.fill(index, NONE)
        check_full(voters)
        for _ in range(3):
            count = leaderships(voters)
            leader = voters.wait_leader()
            voters.backends[leader].kill9()
            check_full(voters)
            voters.backends[leader].start()
            voters.wait_follows(leader)
            check_equal(leaderships(voters), count + 1)


@suite.case('the disks of both followers become full while a write is on its way: writes are refused, reads go on, and all goes on with room')
def _(run):
    with FaultyVoters() as voters:
        leader = voters.wait_leader()
        check_goes_on(voters)
        voters.wait_follows(*OTHERS[leader])
        for index in OTHERS[leader]:
            voters.disks[index].fail(WRITE_LOG | SYNC_LOG | WRITE_OTHER, 1, -1, errno.ENOSPC)
        with voters.copy(leader) as writer, voters.copy(leader) as reader:
            writer.send('SET', '{k}new', 'w')
            wait_for(lambda: all(voters.disks[index].get('failed') for index in OTHERS[leader]), 'both followers to find no space')
            wait_for(lambda: str(reader.get('SET', '{k}more', 'y')).startswith(IS_FULL), 'writes to be refused')
            check('may have been executed' in str(value(writer.read())), 'the write that waits')
            for words in (('SET', '{k}more', 'y'), ('DEL', 'k')):
                check(str(reader.get(*words)).startswith(IS_FULL), 'a write while the disks are full')
            check_equal(reader.get('GET', 'k'), b'v')
            voters.disks[OTHERS[leader][0]].heal()
            wait_for(lambda: reader.get('SET', '{k}more', 'y') == b'OK', 'writes to be taken again')
            check_equal(reader.get('MGET', '{k}new', 'k'), [b'w', b'v'])
        check_equal(leaderships(voters), 1)


@suite.case("only the leader's disk is full, or nearly: another copy leads, and writes go on")
def _(run):
    with SmallVoters(free_min='64mb') as voters:
        for left in (LOW, NONE):
            leader = voters.wait_leader()
            check_goes_on(voters)
            voters.wait_follows(*OTHERS[leader])
            voters.fill(leader, left)
            voters.wait_leader(leader)
            check_goes_on(voters)
            check(b'leadership_has_no_room' in voters.backends[leader].log(), 'the log of the old leader')
            voters.empty(leader)
            voters.wait_voters(0, 1, 2)


@suite.case('the disks of two copies are nearly full: commands that add data are refused, and others go on')
def _(run):
    with SmallVoters(free_min='64mb') as voters:
        leader = voters.wait_leader()
        check_goes_on(voters)
        voters.wait_follows(*OTHERS[leader])
        for index in OTHERS[leader]:
            voters.fill(index, LOW)
        with voters.copy(leader) as client:
            wait_for(lambda: str(client.get('SET', 'k', 'x')).startswith('MISCONF Free disk space'), 'SET to be refused')
            check_equal(client.get('DEL', 'k'), 1)
            for index in OTHERS[leader]:
                voters.empty(index)
        check_goes_on(voters)


if __name__ == '__main__':
    suite.main()
