#!/usr/bin/python3
"""Copies compare their rows: equal ones are found equal under load, and a row that a disk has changed is found, and repaired from another copy."""

import contextlib
import shutil

from support import damage
from support.cluster import metric, with_option
from support.copies import UNHURRIED, Copies, Voters
from support.harness import Failure, Suite, check, check_equal, wait_for
from support.resp import Closed, ReplyError
from test_voters import Writers

suite = Suite(__doc__)
ALONE = {'backend': {'compare-rows': '0', **UNHURRIED['backend']}}  # only what a case asks for


def fill(client, prefix):
    """Keys of all kinds, some of which are gone again, and one that expires soon."""
    for i in range(50):
        client.get('SET', '%s:string:%d' % (prefix, i), 'v' * i)
        client.get('HSET', '%s:hash:%d' % (prefix, i % 5), 'f%d' % i, 'v')
        client.get('ZADD', '%s:zset' % prefix, i, 'm%d' % i)
        client.get('RPUSH', '%s:list%s' % (prefix, 'x' * (i % 7)), 'e%d' % i)
        client.get('XADD', '%s:stream' % prefix, '%d-1' % (i + 1), 'f', 'v')
    client.get('SADD', '%s:set' % prefix, *range(100))
    client.get('DEL', '%s:hash:1' % prefix, '%s:string:1' % prefix)
    client.get('PEXPIRE', '%s:set' % prefix, '50')
    check_equal(client.get('EXPIRE', '%s:zset' % prefix, '1000'), 1)


def lines_of(copies):
    """Of the members, as the copy that serves lists them, by their index; an error while none does: {}."""
    with contextlib.suppress(OSError, Closed, ReplyError, IndexError):
        found = {line['address']: line for line in copies.replicas(copies.order[0])[1]}
        return {index: found['%s:%d' % backend.addresses[0][:2]] for index, backend in enumerate(copies.backends)
                if '%s:%d' % backend.addresses[0][:2] in found}
    return {}


def compare(copies, *slots):
    """Has all copies compared; the verdicts as of one record, by the copies' indexes. A copy that still gets its files when the comparison begins takes
    no part in it, so it is ordered again."""
    before = max((int(line.get('rows_at', '0')) for line in lines_of(copies).values()), default=0)

    def begins():
        with contextlib.suppress(OSError, Closed), copies.copy(copies.order[0]) as connection:
            return not isinstance(connection.get('SCREE', 'REPLICAS', 'HASH', *slots), ReplyError)
        return False

    def done():
        lines = lines_of(copies)
        at = {int(line.get('rows_at', '0')) for line in lines.values()}
        return {index: line['rows'] for index, line in lines.items()} if len(lines) == len(copies.backends) and len(at) == 1 and at.pop() > before else None
    for _ in range(10):
        wait_for(begins, 'a comparison to begin', pause=0.05)
        with contextlib.suppress(Failure):
            return wait_for(done, 'the copies to be compared', 10, pause=0.05)
    raise Failure('the copies were not compared: %s' % lines_of(copies))


def different(copies):
    return metric(copies.backends[copies.order[0]].http('/metrics')[1], 'scree_backend_copies_different')


SAME = {0: 'same', 1: 'same', 2: 'same'}


@suite.case('copies are equal, all slots or some, after restarts, another leader and an empty disk')
def _(run):
    with Voters(backend_options=ALONE) as voters:
        with voters.copy(voters.wait_leader()) as client:
            fill(client, 'a')
        check_equal(compare(voters), SAME)
        check_equal(compare(voters, 100, 9000), SAME)
        leader, copy = voters.order[:2]
        voters.backends[leader].stop()
        voters.wait_leader(leader)
        voters.backends[leader].start()
        voters.backends[copy].kill9()
        shutil.rmtree(voters.backends[copy].data)
        voters.backends[copy].start()
        voters.wait_voters(0, 1, 2)
        with voters.copy(voters.wait_leader()) as client:
            fill(client, 'b')
        check_equal(compare(voters), SAME)


@suite.case('copies are compared while clients write')
def _(run):
    with Voters(backend_options=ALONE) as voters:
        voters.wait_leader()
        with Writers(voters) as writers:
            for _ in range(5):
                check_equal(compare(voters), SAME)
                writers.wait_more()


@suite.case('without an order, a leader has its copies compared part by part')
def _(run):
    with Voters(backend_options=with_option(UNHURRIED, 'backend', 'compare-rows', '12s')) as voters:
        voters.wait_leader()
        wait_for(lambda: {index: line['rows'] for index, line in lines_of(voters).items()} == SAME, 'the copies to be compared', pause=0.1)


@suite.case('a row that a disk has changed at one copy is reported, and the copy is repaired from another one')
def _(run):
    with Voters(backend_options=ALONE) as voters:
        leader = voters.wait_leader()
        with voters.copy(leader) as client:
            fill(client, 'a')
            check_equal(client.get('SET', 'k', 'the right text'), b'OK')
        copy = voters.order[1]
        voters.wait_follows(copy)
        check_equal(different(voters), 0)
        voters.backends[copy].kill9()
        damage.replace(voters.backends[copy].data + '/partition-0', b'the right text', b'another letter')
        voters.backends[copy].start()
        voters.wait_voters(0, 1, 2)
        voters.wait_follows(copy)
        with voters.reader(copy) as reader:
            check_equal(reader.get('GET', 'k'), b'another letter')
        check_equal(compare(voters), {**SAME, copy: 'differ'})
        check_equal(lines_of(voters)[copy]['rows_slots'], '1')
        wait_for(lambda: different(voters) == 1, 'the metric')
        check(b'copies_differ' in voters.backends[leader].log(), 'the line of the log')
        voters.backends[copy].stop()
        shutil.rmtree(voters.backends[copy].data)
        voters.backends[copy].start()
        voters.wait_voters(0, 1, 2)
        check_equal(compare(voters), SAME)
        wait_for(lambda: different(voters) == 0, 'the metric')
        voters.wait_follows(copy)
        with voters.reader(copy) as reader:
            check_equal(reader.get('GET', 'k'), b'the right text')


@suite.case('warm copies are compared, also through a proxy; a shard with one copy, and a copy that follows, compare nothing')
def _(run):
    with Copies(copies=2, backend_options=ALONE) as copies, copies.connect() as client:
        copies.wait_follows(1)
        fill(client, 'a')
        reply = client.get('SCREE', 'REPLICAS', 'HASH')
        check_equal(reply, [b'partition=0 first_slot=0 last_slot=16383'])
        wait_for(lambda: {index: line['rows'] for index, line in lines_of(copies).items()} == {0: 'same', 1: 'same'}, 'the copies to be compared')
        with copies.copy(1) as copy:
            check_equal(str(copy.get('SCREE', 'REPLICAS', 'HASH')), 'ERR this copy does not serve')
            check_equal(str(copy.get('SCREE', 'REPLICAS', 'HASH', '5', '4')), 'ERR expected a first and a last slot from 0 to 16383')


if __name__ == '__main__':
    suite.main()
