#!/usr/bin/python3
"""Copies that vote, with bad disks: what hangs or is full stops no reads, and no leader keeps what another copy could do."""

import contextlib

from support.copies import Voters
from support.disk import FaultyDisk
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)
OTHERS = {0: (1, 2), 1: (0, 2), 2: (0, 1)}


class FaultyVoters(Voters):
    """Each copy has a disk of its own: disks[index]."""

    def __init__(self, **options):
        super().__init__(**options)
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


if __name__ == '__main__':
    suite.main()
