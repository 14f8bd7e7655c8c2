#!/usr/bin/python3
"""Members of a group of copies follow the shard map while clients write."""

import contextlib
import re
import shutil
import signal

from support.cluster import Backend, metric, slot_of
from support.copies import QUICK, UNHURRIED, TwoShards
from support.harness import Suite, check, check_equal, wait_for
from support.members import Members
from support.resp import Closed, ReplyError

suite = Suite(__doc__)


def hand_over(members, index):
    def leads():
        with contextlib.suppress(OSError, Closed), members.copy(members.wait_leader()) as client:
            client.get('SCREE', 'LEADER', 'TO', members.address(index))
        return members.serves(index)
    wait_for(leads, 'copy %d to lead' % index, pause=0.05)


@suite.case('a copy whose map and members name no address of its leader follows it')
def _(run):
    with Members(backend_options=UNHURRIED) as members:
        leader = members.wait_leader()
        sleeper, leaver = [index for index in range(3) if index != leader]
        old_map = members.folder + '/old-shards.ini'
        shutil.copy(members.shards_path, old_map)
        members.backends[sleeper].kill9()
        newcomer = members.add()
        members.change([leader, newcomer, sleeper], asleep=sleeper)
        hand_over(members, newcomer)
        check_equal(members.ask('SET', 'k', 'v'), b'OK')
        members.backends[sleeper].options = {'backend': dict(members.spare_options['backend'], shards=old_map)}
        members.backends[sleeper].write_config()
        members.backends[sleeper].start()
        members.backends[leaver].stop()
        members.wait_leader()
        members.wait_follows(sleeper)


def reads(members, index):
    """What a client reads of k at a copy: None if the copy serves without it."""
    with contextlib.suppress(OSError, Closed), members.copy(index, timeout=QUICK) as connection:
        return connection.get('GET', 'k')
    return b'no answer'


@suite.case('an empty disk never votes, and never wins: all copies stop, and the one at the first address has lost its disk')
def _(run):
    with Members() as members:
        check_equal(members.ask('SET', 'k', 'v'), b'OK')
        members.wait_follows(*members.order[1:])
        for backend in members.backends:
            backend.kill9()
        shutil.rmtree(members.backends[0].data)
        for index in (0, 1):  # no majority: the empty disk is a new copy
            members.backends[index].start()
        for _ in range(3):
            for index in (0, 1):
                got = reads(members, index)
                check(isinstance(got, ReplyError) or got == b'no answer', 'copy %d replies %r' % (index, got))
        members.backends[2].start()
        check(members.wait_leader() != 0, 'the empty disk has won')
        check_equal(members.ask('GET', 'k'), b'v')
        members.wait_members(0, 1, 2)
        members.wait_follows(*members.order[1:])


def count_up(members, keys=200):
    check_equal(members.ask('MSET', *[word for i in range(keys) for word in ('{k}:%d' % i, 'v%d' % i)]), b'OK')


def check_counted(members, keys=200):
    check_equal(members.ask('MGET', *['{k}:%d' % i for i in range(keys)]), [b'v%d' % i for i in range(keys)])


@suite.case('a lost disk is replaced by an empty backend at another address, and by a map that names it; the disk may be the leader\'s')
def _(run):
    with Members() as members:
        for is_leader in (False, True):
            count_up(members)
            lost = members.wait_leader() if is_leader else members.order[-1]
            members.backends[lost].kill9()
            shutil.rmtree(members.backends[lost].data)
            newcomer = members.add()
            members.change([newcomer if index == lost else index for index in members.order])
            check_counted(members)
            members.wait_follows(*members.order[1:])


def figures(members, index):
    text = members.backends[index].http('/metrics')[1]
    return tuple(int(metric(text, 'scree_backend_cop' + name)) for name in ('ies', 'ies_spare', 'y_leads_total', 'y_leader_changes_total'))


@suite.case('metrics say how many copies may be lost until no copy can serve, how often a copy has begun to serve, and its shard has changed its leader')
def _(run):
    with Members(backend_options=UNHURRIED) as members:
        leader = members.wait_leader()
        first, second = members.order[1:]
        wait_for(lambda: figures(members, leader)[:2] == (3, 1), 'one of three copies to be spare')
        leads = figures(members, leader)[2]
        members.backends[second].kill9()
        wait_for(lambda: figures(members, leader)[:2] == (3, 0), 'no copy to be spare')
        members.backends[second].start()
        wait_for(lambda: figures(members, leader)[:2] == (3, 1), 'the copy to be back')
        before = [figures(members, index)[3] for index in (leader, first)]
        for index in (first, leader):
            hand_over(members, index)
        check_equal(figures(members, leader)[2], leads + 1)
        wait_for(lambda: [figures(members, index)[3] for index in (leader, first)] == [count + 2 for count in before], 'each copy to count both changes')
        wait_for(lambda: figures(members, first)[1] == 0, 'a copy that follows to say nothing of others')


def links_by_shard(text):
    return re.findall(r'^scree_backend_peer_shard_links\{shard="([^"]*)"', text, re.M)


@suite.case('metrics by shard have no row for what a copy asks its leader, so a leader that refuses it is no peer that is down')
def _(run):
    with Members() as members:
        members.wait_leader()
        backend = members.backends[members.order[1]]
        wait_for(lambda: int(metric(backend.http('/metrics')[1], 'scree_backend_peer_links')), 'the copy to ask its leader')
        found = links_by_shard(backend.http('/metrics')[1])
        others = [members.address(index) for index in members.order if index != members.order[1]]
        check_equal({label.split('@', 1)[-1].removesuffix('/files') for label in found}, set(others))


@suite.case('the metrics of links to other shards do not count the links between copies')
def _(run):
    with Members(backend_options=UNHURRIED) as members:
        leader = members.wait_leader()
        members.wait_follows(*(index for index in range(3) if index != leader))

        def links(index):
            text = members.backends[index].http('/metrics')[1]
            return [int(metric(text, 'scree_backend_peer_links' + name)) for name in ('', '_up')]
        wait_for(lambda: [links(index) for index in range(3)] == [[int(index != leader)] * 2 for index in range(3)], 'one line to the leader at each copy')


class OldMap(TwoShards):
    """Shard a has three copies that vote, shard b one. Shard b and the proxy read another file, which stays as it was when `is_old`."""

    def __init__(self):
        self.is_old = False
        super().__init__(orders=([0, 1, 2], [3]), replicas='voters', backend_options=UNHURRIED, proxy_options={'proxy': {'shards': 'old-shards.ini'}})
        backend = self.backends[3]
        backend.options = {**backend.options, 'backend': {**backend.options['backend'], 'shards': self.folder + '/old-shards.ini'}}

    def write_shards(self, slots=None):
        super().write_shards(slots)
        if not self.is_old:
            shutil.copy(self.shards_path, self.folder + '/old-shards.ini')

    def wait_linked(self):
        wait_for(lambda: any(map(self.leads, self.orders[0])), 'a copy of shard a to lead')

    def leads(self, index):
        return self.phase(index) == 'serving'


@suite.case('a backend and a proxy whose maps lack the address of the leader of another shard reach it: its copies name it')
def _(run):
    with OldMap() as shards, shards.connect() as client:
        keys = [next(key for key in map(str, range(100)) if slot_of(key) // 8192 == half) for half in range(2)]
        wait_for(lambda: shards.link(3, 'a').get('state') == 'up' and client.get('MSET', keys[0], 0, keys[1], 0) == b'OK', 'both shards to serve')
        shards.is_old = True
        shards.orders[0].append(4)
        shards.backends.append(Backend(shards, 4, shards.backends[0].options))
        shards.write_shards()
        for index in range(3):
            shards.backends[index].signal(signal.SIGHUP)
        shards.start_retrying(shards.backends[4])
        target = '%s:%d' % shards.backends[4].addresses[0][:2]

        def handed_over():
            for index in range(3):
                with contextlib.suppress(OSError, Closed), shards.copy(index) as copy:
                    copy.get('SCREE', 'LEADER', 'TO', target)
            return shards.leads(4)
        wait_for(handed_over, 'the new copy to lead', pause=0.2)
        wait_for(lambda: shards.link(3, 'a').get('address') == target and shards.link(3, 'a')['state'] == 'up', 'shard b to be linked to it')
        wait_for(lambda: client.get('MSET', keys[0], 'v', keys[1], 'w') == b'OK', 'the new leader to be linked to shard b')
        check_equal(client.get('MGET', *keys), [b'v', b'w'])


if __name__ == '__main__':
    suite.main()
