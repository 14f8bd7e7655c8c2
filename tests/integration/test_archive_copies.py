#!/usr/bin/python3
"""Restores to a point in time of shards with several copies: what the archive has is what the group has committed, whichever copy led;
transactions are whole, and each list is a prefix."""

import contextlib
import os
import random
import shutil
import threading
import time

from support.archive import Place, erase, moment, restore_slots, start, tool, wait_archived
from support.copies import Copies, TwoVoterShards, Voters
from support.harness import Failure, Suite, check, check_equal, sized, wait_for
from support.resp import Closed, ReplyError, value

suite = Suite(__doc__)
WRITERS, LISTS = 4, 9
CLOCKS_S = 0.05  # by which the time of a batch may differ from that of its client


class Writer(threading.Thread):
    """Appends numbers 0, 1, 2 ... of its own to several lists at once. Of some it does not know whether they were executed."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.number, self.rng = cluster, number, random.Random(number)
        self.sent = []  # of each number: before it was sent, after its reply, the lists, and was it executed, as far as it is known?
        self.done, self.is_over = 0, False

    def run(self):
        while not self.is_over:
            with contextlib.suppress(OSError, Closed), self.cluster.connect() as client:
                while not self.is_over:
                    self.append(client)

    def append(self, client):
        lists = self.rng.sample(range(LISTS), 3)
        item = '%d:%d' % (self.number, len(self.sent))
        step = [time.time(), time.time() + 3600, lists, False]
        self.sent.append(step)
        reply = value(client.pipeline([['MULTI']] + [['RPUSH', 'list:%d' % i, item] for i in lists] + [['EXEC']])[-1])
        step[1], step[3] = time.time(), isinstance(reply, list) and not any(isinstance(part, ReplyError) for part in reply)
        self.done += step[3]

    def wait_more(self, count=20):
        goal = self.done + count
        wait_for(lambda: self.done >= goal, 'transactions of writer %d' % self.number)


class Writers:
    def __init__(self, cluster):
        self.list = [Writer(cluster, i) for i in range(WRITERS)]

    def __enter__(self):
        for writer in self.list:
            writer.start()
        self.wait_more()
        return self

    def wait_more(self):
        for writer in self.list:
            writer.wait_more()

    def __exit__(self, *ignored):
        for writer in self.list:
            writer.is_over = True
        for writer in self.list:
            writer.join()


def read_lists(cluster):
    """All lists, also if another copy takes the lead while they are read."""
    def read():
        with contextlib.suppress(OSError, Closed), cluster.connect() as client:
            replies = [value(reply) for reply in client.pipeline([['LRANGE', 'list:%d' % i, '0', '-1'] for i in range(LISTS)])]
            return None if any(isinstance(reply, ReplyError) for reply in replies) else replies
        return None
    replies = wait_for(read, 'the lists to be readable', pause=0.05)
    return {i: [tuple(map(int, item.split(b':'))) for item in reply] for i, reply in enumerate(replies)}


def check_moment(writers, found, when):
    """Each transaction is in all of its lists or in none, in order; what was known to be executed is there up to one number: all that had ended
    before the moment, and none that began after it."""
    for writer in writers:
        seen = {i: [number for who, number in items if who == writer.number] for i, items in found.items()}
        check(all(numbers == sorted(set(numbers)) for numbers in seen.values()), 'writer %d: twice, or out of order: %r' % (writer.number, seen))
        last_there, first_missing = -1, len(writer.sent)
        for number, (begin, end, lists, is_done) in enumerate(writer.sent):
            there = [i for i in seen if number in seen[i]]
            check(there in ([], sorted(lists)), 'number %d of writer %d is in %r of %r' % (number, writer.number, there, lists))
            last_there = number if there else last_there
            if is_done and not there:
                first_missing = min(first_missing, number)
                check(end >= when - CLOCKS_S, 'number %d of writer %d ended before the moment, and is not there' % (number, writer.number))
            check(not there or begin <= when + CLOCKS_S, 'number %d of writer %d is there, and began after the moment' % (number, writer.number))
        check(last_there < first_missing, 'writer %d: %d is there, and %d is not' % (writer.number, last_there, first_missing))


def check_notices(writers, found, when):
    """The check is no formality: it fails for a list that lacks a value, and for another moment."""
    def fails(lists, at):
        try:
            check_moment(writers, lists, at)
        except Failure:
            return True
        return False
    longest = max(found, key=lambda i: len(found[i]))
    check(fails({**found, longest: found[longest][:3] + found[longest][4:]}, when), 'a lost value is not noticed')
    check(fails(found, when + 3600) and fails(found, when - 3600), 'another moment is not noticed')


def kill_leader(cluster, shard):
    leader = cluster.wait_leader(shard)
    cluster.backends[leader].kill9()
    return leader


def restore_first(place, cluster, to):
    """Each shard at the first address of the map, from the archives of all copies."""
    for shard, name in enumerate('ab'):
        code, said = place.restore(cluster, 'base', to, cluster.orders[shard][0], [name])
        check(code == 0, said)


@suite.case('two shards of three voters, whose leaders are killed: restored to random moments, transactions are whole, and each list is a prefix')
def _(run):
    with Place() as place, TwoVoterShards(place.options, proxies=1) as cluster:
        with Writers(cluster) as writers:
            back_up(cluster, 'base')
            begin = time.time()
            for _ in range(sized(2, long=6)):
                killed = [kill_leader(cluster, shard) for shard in (0, 1)]
                for shard, leader in enumerate(killed):
                    cluster.wait_leader(shard, leader)
                writers.wait_more()
                for leader in killed:
                    cluster.backends[leader].start()
                cluster.wait_linked()
            writers.wait_more()
            end = time.time()
            with cluster.connect() as client:
                wait_for(lambda: client.call('FLUSHALL') == ('+', b'OK'), 'all keys to be deleted')
        wait_archived(cluster)
        code, text = tool('--list-times', place.backups, '--archive', place.archive)
        check(code == 0 and 'backup base: ' in text and 'missing' not in text, text)
        when = run.rng.uniform(begin, end)
        code, said = restore_slots(place, cluster, 'base', moment(when), '--slots', '0-16383', '--replace')
        check(code == 0, said)
        check_moment(writers.list, read_lists(cluster), when)
        for _ in range(sized(2, long=12)):
            when = run.rng.uniform(begin, end)
            erase(cluster)
            restore_first(place, cluster, moment(when))
            start(cluster)
            found = read_lists(cluster)
            check_moment(writers.list, found, when)
            check_notices(writers.list, found, when)
        run.note('%d transactions, %d of them with an unknown outcome'
                 % (sum(len(w.sent) for w in writers.list), sum(len(w.sent) - w.done for w in writers.list)))


def persistence(copies, index):
    with copies.copy(index) as connection:
        lines = connection.get('INFO', 'persistence').decode().split('\r\n')
    return dict(line.split(':', 1) for line in lines if ':' in line)


def log_name(copies, index):
    return persistence(copies, index)['log_id']


def wait_copy_archived(copies, index):
    """Waits until the archive of this copy, which leads, has all until now."""
    now_us = time.time() * 1e6

    def is_archived():
        figures = persistence(copies, index)
        return int(figures['archive_until_us']) > now_us and not figures['archive_error']
    wait_for(is_archived, 'the archive of copy %d to have all until now' % index)


def give_parts(place, cluster):
    """Each process has an archive of its own; `place.archive` names all of them."""
    parts = [os.path.join(place.path, 'archive-%d' % i) for i in range(len(cluster.backends))]
    for backend, part in zip(cluster.backends, parts):
        backend.options = {**backend.options, 'backend': {**backend.options['backend'], 'archive-dir': part}}
    place.archive = ','.join(parts)
    return parts


def back_up(copies, name):
    """When the proxy has found the copy that leads; this one may not have heard yet that nothing moves."""
    def reply():
        got = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'WAIT', 'LEASE', '15000')
        return None if got[0] == '-' and b'start the backup when' in got[1] else got
    with copies.connect() as client:
        wait_for(lambda: client.call('EXISTS', 'k')[0] == ':', 'the proxy to follow', pause=0.05)
        check_equal(wait_for(reply, 'a backup to begin', pause=0.1), ('$', name.encode()))


def restore_alone(place, copies, backup, to):
    """Erases all; the first copy of the map gets the data."""
    erase(copies)
    copies.write_shards()
    return place.restore(copies, backup, to, copies.order[0], ['a'])


@suite.case('each copy has an archive on its own disk: any one that is left has everything, also what other leaders wrote')
def _(run):
    with Place() as place:
        copies = Voters(proxies=1, backend_options=place.options)
        parts = give_parts(place, copies)
        with copies:
            back_up(copies, 'base')
            for number in range(3):
                with copies.leader() as client:
                    check_equal(client.get('RPUSH', 'leaders', number), number + 1)
                leader = copies.order[0]
                copies.backends[leader].kill9()
                copies.wait_leader(leader)
                copies.backends[leader].start()
                copies.wait_voters(0, 1, 2)
            copies.wait_follows(*copies.order[1:])
            wait_archived(copies)
            for part in parts:
                place.archive = part
                # the files of a copy that did not lead have no times behind their last batch
                code, said = restore_alone(place, copies, 'base', 'latest')
                check(code == 0, said)
                start(copies)
                with copies.leader() as client:
                    check_equal(client.get('LRANGE', 'leaders', 0, -1), [b'0', b'1', b'2'])


@suite.case('a copy is forced: its log gets another name, so what the lost leader archived is not mixed with what comes after it')
def _(run):
    with Place() as place:
        copies = Copies(copies=2, proxies=1, backend_options=place.options)
        give_parts(place, copies)
        with copies:
            copies.wait_follows(1)
            back_up(copies, 'base')
            with copies.leader() as client:
                client.call('SET', 'k', 'before')
                copies.wait_follows(1)
                copies.backends[1].kill9()
                client.call('SET', 'k', 'of the lost leader')
            when_lost = moment()
            name = log_name(copies, 0)
            wait_copy_archived(copies, 0)
            copies.backends[0].kill9()
            copies.backends[1].start()
            copies.force_unmapped(1)
            copies.order = [1, 0]
            check(log_name(copies, 1) != name, 'the log has the name of the one before')
            back_up(copies, 'second')
            with copies.leader() as client:
                check_equal(client.get('GET', 'k'), b'before')
                client.call('SET', 'k', 'of the forced copy')
            when = moment()
            wait_copy_archived(copies, 1)
            shutil.rmtree(copies.backends[0].data)
            copies.write_shards()
            copies.backends[0].start()
            copies.wait_follows(0)
            check_equal(log_name(copies, 0), log_name(copies, 1), 'the name of the log at both copies')
            for backup, to, expected in (('base', when_lost, b'of the lost leader'), ('second', when, b'of the forced copy')):
                code, said = restore_alone(place, copies, backup, to)
                check(code == 0, said)
                start(copies)
                with copies.leader() as client:
                    check_equal(client.get('GET', 'k'), expected)
            code, said = restore_alone(place, copies, 'base', when)
            check(code == 1 and 'its archive goes to' in said, said)
            start(copies)


if __name__ == '__main__':
    suite.main()
