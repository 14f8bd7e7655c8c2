#!/usr/bin/python3
"""SCREE REPLICAS PAUSE: a copy adds no records for a while, so the data of before can be looked at; it goes on taking them, and voting."""

import os
import signal

from support.cluster import Cluster, metric, with_option
from support.copies import UNHURRIED, Copies, Voters
from support.harness import Suite, check, check_equal, wait_for
from test_compare import SAME, compare

suite = Suite(__doc__)
OPTIONS = with_option(UNHURRIED, 'backend', 'compare-rows', '0')


def order(copies, index, *words):
    with copies.copy(index) as connection:
        return connection.get('SCREE', 'REPLICAS', *words)


def pause(copies, index, seconds=3600):
    """This copy has all, and adds nothing from now on."""
    copies.wait_follows(index)
    check_equal(order(copies, index, 'PAUSE', seconds), b'OK')


def paused_ms(copies, index):
    return int(copies.replicas(index)[0]['paused_ms'])


def figure(copies, index, name):
    return metric(copies.backends[index].http('/metrics')[1], name)


def has_logged(copies, index, line):
    return line.encode() in copies.backends[index].log()


@suite.case('a FLUSHALL that a paused copy has not applied yet can be looked at before')
def _(run):
    for kind in (Voters, Copies):
        with kind(backend_options=OPTIONS) as copies, copies.leader() as leader:
            copy = copies.order[1]
            for i in range(20):
                check_equal(leader.get('SET', 'k%d' % i, 'v%d' % i), b'OK')
            pause(copies, copy)
            check_equal(leader.get('FLUSHALL'), b'OK')
            check_equal(leader.get('SET', 'new', 'x'), b'OK')
            check_equal(leader.get('WAIT', 2, 0), 2, 'copies that have the records')
            with copies.reader(copy) as reader:
                check_equal([reader.get('GET', 'k7'), reader.get('EXISTS', 'new'), len(reader.get('KEYS', '*'))], [b'v7', 0, 20])
                wait_for(lambda: reader.get('DBSIZE') == 20, 'the keys to be counted')
                check(3500000 < paused_ms(copies, copy) <= 3600000, 'the time that is left')
                wait_for(lambda: figure(copies, copy, 'scree_backend_copy_paused_seconds') > 3500, 'the metric')
                for index in (copy, copies.order[0]):  # ScreeCopyBehind watches the one of the leader
                    wait_for(lambda: figure(copies, index, 'scree_backend_copy_behind_records') >= 2, 'the records that it has not applied')
                    wait_for(lambda: figure(copies, index, 'scree_backend_copy_lag_seconds') > 0, 'the time for which it has not')
                check_equal(order(copies, copy, 'RESUME'), b'OK')
                copies.wait_follows(copy)
                check_equal([reader.get('GET', 'k7'), reader.get('GET', 'new')], [None, b'x'])
                wait_for(lambda: reader.get('DBSIZE') == 1, 'the keys to be counted')
            check_equal(paused_ms(copies, copy), 0)
            wait_for(lambda: figure(copies, copy, 'scree_backend_copy_paused_seconds') == 0, 'the metric')
            check(has_logged(copies, copy, 'reason=order'), 'the line of the log')
            check_equal(compare(copies), SAME)


@suite.case('a pause ends when its time is over, and a later order sets its time anew')
def _(run):
    with Copies(copies=2, backend_options=OPTIONS) as copies, copies.leader() as leader:
        pause(copies, 1)
        check_equal(leader.get('SET', 'k', 'v'), b'OK')
        check_equal(leader.get('WAIT', 1, 0), 1)
        with copies.reader(1) as reader:
            check_equal(reader.get('GET', 'k'), None)
        check_equal(order(copies, 1, 'PAUSE', 1), b'OK')
        copies.wait_follows(1)
        check_equal(paused_ms(copies, 1), 0)
        check(has_logged(copies, 1, 'reason=time'), 'the line of the log')


@suite.case('paused copies vote and acknowledge; the one that is elected adds what it lacks before it serves, and the other one stays paused')
def _(run):
    with Voters(backend_options=OPTIONS) as voters:
        leader, *others = voters.order
        for index in others:
            pause(voters, index)
        with voters.copy(leader) as client:
            for i in range(200):
                check_equal(client.get('RPUSH', 'list', i), i + 1)
        voters.backends[leader].kill9()
        elected = voters.wait_leader(leader)
        other, = set(others) - {elected}
        with voters.copy(elected) as client:
            check_equal(client.get('LRANGE', 'list', 0, -1), [b'%d' % i for i in range(200)])
            check_equal(client.get('RPUSH', 'list', 'acknowledged by the paused one'), 201)
        check(has_logged(voters, elected, 'reason=role'), 'the line of the log')
        check(not has_logged(voters, other, 'copy_resumed'), 'another leader does not end the pause of a copy that follows')
        with voters.reader(other) as reader:
            check_equal(reader.get('EXISTS', 'list'), 0)
        voters.backends[leader].start()
        check_equal(order(voters, other, 'RESUME'), b'OK')
        voters.wait_voters(0, 1, 2)
        check_equal(compare(voters), SAME)


@suite.case('a paused copy keeps its log, though the files of tables are full, and has all after kill -9 too')
def _(run):
    options = with_option(with_option(OPTIONS, 'store', 'wal-limit', '1mb'), 'store', 'memtable', '1mb')
    with Copies(copies=2, backend_options=options) as copies, copies.leader() as leader:
        for is_killed in (False, True):
            pause(copies, 1)
            fetched = copies.backends[1].log().count(b'snapshot_fetched')
            for i in range(160):
                check_equal(leader.get('SET', 'k%d' % i, '%d' % is_killed + 'x' * 65536), b'OK')
            check_equal(leader.get('WAIT', 1, 0), 1)
            check(int(copies.replicas(1)[0]['committed']) > copies.applied(1), 'the copy has added records')
            if is_killed:
                copies.backends[1].kill9()
                copies.backends[1].start()
            else:
                check_equal(order(copies, 1, 'RESUME'), b'OK')
            copies.wait_follows(1)
            check_equal(copies.backends[1].log().count(b'snapshot_fetched'), fetched, 'how often the copy has got all files')
        check_equal(compare(copies), {0: 'same', 1: 'same'})


@suite.case('a disk with little room ends a pause, because what is not added keeps the log')
def _(run):
    with Copies(copies=2, backend_options=OPTIONS) as copies:
        pause(copies, 1)
        backend, disk = copies.backends[1], os.statvfs(copies.folder)
        backend.options = with_option(backend.options, 'store', 'disk-free-min', 2 * disk.f_frsize * disk.f_blocks)
        backend.write_config()
        backend.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(copies, 1, 'reason=disk'), 'the pause to end')
        check_equal(str(order(copies, 1, 'PAUSE', 60)), 'ERR the disk has less than disk-free-min')


@suite.case('what cannot be paused is refused with the reason')
def _(run):
    with Copies(copies=2, backend_options=OPTIONS) as copies, copies.connect() as client:
        copies.wait_follows(1)
        check_equal(str(order(copies, 0, 'PAUSE', 60)), 'ERR this copy serves: pause one that follows')
        for words in (('PAUSE', 60), ('RESUME',)):
            check_equal(str(client.get('SCREE', 'REPLICAS', *words)), 'ERR connect to the copy itself, not through a proxy')
        for words in ((), (0,), (-1,), (86401,), ('x',), ('1.5',), (2**63,), (60, 60)):
            check_equal(str(order(copies, 1, 'PAUSE', *words)), 'ERR expected SCREE REPLICAS PAUSE and seconds from 1 to 86400', words)
        check_equal(str(order(copies, 1, 'RESUME', 'now')), 'ERR expected SCREE REPLICAS RESUME')
        check_equal(order(copies, 1, 'RESUME'), b'OK', 'a copy that is not paused')
        check_equal(order(copies, 1, 'PAUSE', 86400), b'OK')
    with Cluster(backends=1, partitions=1, proxies=0) as alone, alone.partition(0) as partition:
        check_equal(str(partition.get('SCREE', 'REPLICAS', 'PAUSE', 60)), 'ERR the shard has one copy')


if __name__ == '__main__':
    suite.main()
