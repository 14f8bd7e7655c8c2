#!/usr/bin/python3
"""Restores to a point in time: transactions whole, each list a prefix, exactly what was there at that moment; gaps and damage are
said, and a full archive disk stops no write."""

import errno
import glob
import os
import random
import shutil
import signal
import threading
import time

from support.archive import Place, erase, moment, restore_slots, start, tool, wait_archived
from support.cluster import Cluster, metric
from support.disk import SmallDisk
from support.harness import Failure, Suite, check, check_equal, sized, wait_for
from support.moves import wait_settled
from support.resp import ReplyError, value

suite = Suite(__doc__)
WRITERS = 4
LISTS = 9


class Writer(threading.Thread):
    """Appends numbers 0, 1, 2 ... of its own to several lists at once, on any shards; a list has all or none of them."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.number, self.rng = cluster, number, random.Random(number)
        self.done, self.times = 0, []  # of each number: before it was sent and after its reply, and the lists
        self.is_over = False

    def run(self):
        try:
            with self.cluster.connect() as client:
                while not self.is_over:
                    self.append(client)
        except (OSError, EOFError, ReplyError):
            pass

    def append(self, client):
        lists = self.rng.sample(range(LISTS), 3)
        item = '%d:%d' % (self.number, self.done)
        begin = time.time()
        reply = client.pipeline([['MULTI']] + [['RPUSH', 'list:%d' % i, item] for i in lists] + [['EXEC']])[-1]
        if isinstance(value(reply), list):
            self.times.append((begin, time.time(), lists))
            self.done += 1


class Writing:
    """Writers at work."""

    def __init__(self, cluster):
        self.list = [Writer(cluster, i) for i in range(WRITERS)]

    def __enter__(self):
        for writer in self.list:
            writer.start()
        self.wait_more()
        return self

    def wait_more(self):
        before = [writer.done for writer in self.list]
        wait_for(lambda: all(writer.done > count + 10 for writer, count in zip(self.list, before)), 'more writes')

    def __exit__(self, *ignored):
        for writer in self.list:
            writer.is_over = True
        for writer in self.list:
            writer.join()


def read_lists(client):
    return {i: [tuple(map(int, item.split(b':'))) for item in client.get('LRANGE', 'list:%d' % i, '0', '-1')] for i in range(LISTS)}


def check_moment(writers, found, when):
    """Each writer's appends are there up to one number, wholly; all that had ended before the moment, none that began after it."""
    for writer in writers:
        seen = {i: [number for who, number in items if who == writer.number] for i, items in found.items()}
        last = max([numbers[-1] for numbers in seen.values() if numbers], default=-1)
        for i, numbers in seen.items():
            expected = [number for number in range(last + 1) if number >= len(writer.times) or i in writer.times[number][2]]
            check_equal([n for n in numbers if n < len(writer.times)], [n for n in expected if n < len(writer.times)],
                        'list %d: the appends of writer %d' % (i, writer.number))
        before = sum(end < when for _, end, _ in writer.times)
        after = sum(begin < when for begin, _, _ in writer.times)
        check(before - 1 <= last <= after, 'writer %d: %d is the last one, %d had ended and %d begun' % (writer.number, last, before, after))


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


@suite.case('three shards under transactions: backup, more writes, FLUSHALL, everything is killed and erased: the moment before it is there')
def _(run):
    with Place() as place, Cluster(backends=1, partitions=3, proxies=1, linked=True, backend_options=place.options) as cluster:
        writers = [Writer(cluster, i) for i in range(WRITERS)]
        for writer in writers:
            writer.start()
        wait_for(lambda: all(writer.done > 20 for writer in writers), 'writes')
        with cluster.connect() as client:
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'base', 'WAIT', 'LEASE', '15000'), ('$', b'base'))
            moments = []
            for _ in range(sized(3, long=20)):
                done = [writer.done for writer in writers]
                wait_for(lambda: all(writer.done > before + 10 for writer, before in zip(writers, done)), 'more writes')
                moments.append((moment(), time.time()))
            wait_for(lambda: all(writer.done > before + 10 for writer, before in zip(writers, done)), 'more writes')
            check_equal(client.call('FLUSHALL'), ('+', b'OK'))
            for writer in writers:
                writer.is_over = True
            for writer in writers:
                writer.join()
            client.call('SET', 'after', 'x')
            left = read_lists(client)
        wait_archived(cluster)
        code, text = tool('--list-times', place.backups, '--archive', place.archive)
        check(code == 0 and 'backup base: ' in text, text)
        for text, when in moments:
            erase(cluster)
            code, said = place.restore(cluster, 'base', text)
            check(code == 0, said)
            start(cluster)
            with cluster.connect() as client:
                found = read_lists(client)
                check_equal(client.get('GET', 'after'), None)
            check_moment(writers, found, when)
            check_notices(writers, found, when)
        run.note('%d transactions, restored as of %d moments' % (sum(writer.done for writer in writers), len(moments)))
        # the last one: what came after FLUSHALL
        erase(cluster)
        code, said = place.restore(cluster, 'base', 'latest')
        check(code == 0, said)
        start(cluster)
        with cluster.connect() as client:
            check_equal((client.get('GET', 'after'), read_lists(client)), (b'x', left))


def back_up_with_ttls(client):
    """A backup in which 20 hashes expire soon; just after it they do not expire any more. Returns its name, and when its TTLs are over."""
    for seconds in (8, 16, 32, 64, 128):  # more if this machine cannot do it in that time
        name = 'base-%d' % seconds
        client.pipeline([['HSET', 'hash:%d' % i, 'f', 'v'] for i in range(20)])
        client.pipeline([['PEXPIRE', 'hash:%d' % i, seconds * 1000] for i in range(20)])
        first, over = (client.get('PEXPIRETIME', 'hash:%d' % i) / 1000 for i in (0, 19))
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'WAIT', 'LEASE', '15000'), ('$', name.encode()))
        replies = client.pipeline([['PERSIST', 'hash:%d' % i] for i in range(20)])
        if time.time() < first:
            check_equal(replies, [(':', b'1')] * 20)
            return name, over
    raise Failure('no backup was made within two minutes')


@suite.case('each backend restores the shards that it has; TTLs stay moments; a later backup and archive go on from there')
def _(run):
    with Place() as place, Cluster(backends=2, partitions=1, proxies=1, linked=True, backend_options=place.options) as cluster:
        with cluster.connect() as client:
            client.pipeline([['SET', 'key:%d' % i, 'old'] for i in range(100)])
            base, over = back_up_with_ttls(client)
            client.pipeline([['SET', 'key:%d' % i, 'new', 'PX', '100000000'] for i in range(50)])
            ends = client.get('PEXPIRETIME', 'key:0')
            when = moment()
            client.pipeline([['DEL', 'key:%d' % i] for i in range(100)])
        wait_archived(cluster)
        wait_for(lambda: time.time() > over, 'the TTLs of the base to be over')
        for _ in range(2):
            erase(cluster)
            for index in range(2):
                code, said = place.restore(cluster, base, when, index, ['b%dp0' % index])
                check(code == 0, said)
            start(cluster)
            with cluster.connect() as client:
                check_equal([client.get('GET', 'key:%d' % i) for i in (0, 49, 50, 99)], [b'new', b'new', b'old', b'old'])
                check_equal(client.get('PEXPIRETIME', 'key:0'), ends)
                check_equal([client.get('HGET', 'hash:%d' % i, 'f') for i in range(20)], [b'v'] * 20)
        with cluster.connect() as client:
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'second', 'WAIT', 'LEASE', '15000'), ('$', b'second'))
            client.call('SET', 'key:0', 'newest')
            when = moment()
            client.call('FLUSHALL')
        wait_archived(cluster)
        erase(cluster)
        for index in range(2):
            code, said = place.restore(cluster, 'second', when, index, ['b%dp0' % index])
            check(code == 0, said)
        start(cluster)
        with cluster.connect() as client:
            check_equal(client.get('GET', 'key:0'), b'newest')


@suite.case('a FLUSHALL is undone in the running cluster, at any moment before it, wherever slots are now; a namespace alone, too')
def _(run):
    with Place() as place, Cluster(backends=1, partitions=3, proxies=1, linked=True, backend_options=place.options) as cluster:
        with Writing(cluster) as writers:
            with cluster.connect() as client:
                check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'base', 'WAIT', 'LEASE', '15000'), ('$', b'base'))
            begin = time.time()
            cluster.write_shards(['0-3000', '3001-8191 12001-16383', '8192-12000'])
            writers.wait_more()
            wait_settled(cluster, range(3))
            writers.wait_more()
            end = time.time()
            with cluster.connect() as client:
                client.call('SET', 'other', 'as it was')
                when = moment()
                check_equal(client.call('FLUSHALL'), ('+', b'OK'))
        wait_archived(cluster)
        cluster.write_shards(['8192-16383', '0-3000', '3001-8191'])
        wait_settled(cluster, range(3))
        for _ in range(sized(3, long=20)):
            at = run.rng.uniform(begin, end)
            with cluster.connect() as client:
                client.call('FLUSHALL')
                code, said = restore_slots(place, cluster, 'base', moment(at), '--slots', '0-16383')
                check(code == 0, said)
                found = read_lists(client)
            check_moment(writers.list, found, at)
            check_notices(writers.list, found, at)
        with cluster.connect() as client:
            code, said = restore_slots(place, cluster, 'base', when, '--slots', '0-16383', '--replace', '--namespace', 'shop')
            check(code == 0 and 'restored: 0 keys' in said, said)
            check_equal((client.get('GET', 'other'), read_lists(client)), (None, found))
            code, said = restore_slots(place, cluster, 'base', when, '--namespace', '', '--replace')
            check(code == 0, said)
            check_equal(client.get('GET', 'other'), b'as it was')
        code, said = restore_slots(place, cluster, 'base', '2100-01-01T00:00:00Z', '--slots', '0-16383')
        check(code == 1 and 'its archive goes to' in said, said)


@suite.case('into another number of shards: transactions that were under way are whole, and each key is there once')
def _(run):
    with Place() as place:
        with Cluster(backends=1, partitions=3, proxies=1, linked=True, backend_options=place.options) as cluster:
            with Writing(cluster) as writers:
                with cluster.connect() as client:
                    check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'base', 'WAIT', 'LEASE', '15000'), ('$', b'base'))
                begin = time.time()
                cluster.write_shards(['0-3000', '3001-8191 12001-16383', '8192-12000'])
                writers.wait_more()
                wait_settled(cluster, range(3))
                end = time.time()
            wait_archived(cluster)
        with Cluster(backends=1, partitions=2, proxies=1, linked=True) as other:
            for _ in range(sized(3, long=20)):
                at = run.rng.uniform(begin, end)
                erase(other)
                code, said = place.restore(other, 'base', moment(at), 0, ['b0p0', 'b0p1'])
                check(code == 0, said)
                start(other)
                with other.connect() as client:
                    found = read_lists(client)
                    check_equal(client.get('DBSIZE'), sum(map(bool, found.values())))
                check_moment(writers.list, found, at)
                check_notices(writers.list, found, at)
            left = os.path.join(place.backups, 'base', 'b0p1')
            os.rename(left, left + '.away')
            erase(other)
            os.rename(left + '.away', os.path.join(place.path, 'away'))
            code, said = place.restore(other, 'base', moment(at), 0, ['b0p0', 'b0p1'])
            check(code == 1 and 'may have decided a transaction' in said, said)
            for process in other.backends + other.proxies:
                process.start()


@suite.case('a missing and a damaged file, a moment that is not there, another shape: refused with the reason, and nothing is written')
def _(run):
    with Place() as place, Cluster(backends=1, partitions=1, proxies=0, backend_options=place.options) as cluster:
        client = cluster.partition(0)
        early = moment()
        client.call('SET', 'k', '0')
        check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'base')[0], '+')
        wait_for(lambda: glob.glob(os.path.join(place.backups, 'base', '*', 'MANIFEST.sha256')), 'the backup')
        for i in range(1, 5):
            files = len(place.files())
            client.call('SET', 'k', str(i))
            when = moment()
            wait_for(lambda: len(place.files()) > files, 'the file to be closed')
        wait_archived(cluster)
        cluster.backends[0].kill9()
        data = cluster.backends[0].data
        shutil.rmtree(data)

        def refused(to, *words):
            code, said = place.restore(cluster, 'base', to)
            check(code == 1 and all(word in said for word in words), said)
            check(not os.path.exists(data) or not os.listdir(data), 'something was written: %r' % said)

        refused(early, 'the backup is later than this moment')
        refused('2100-01-01T00:00:00Z', 'its archive goes to')
        refused('yesterday', 'expected latest, or a time')
        code, said = tool('--config', cluster.backends[0].config_path, '--restore', os.path.join(place.backups, 'base'), '--archive',
                          place.archive)
        check(code == 2 and '--to' in said, said)
        victim = place.files()[-2]
        os.rename(victim, victim + '.away')
        refused(when, 'batches are missing')
        code, said = tool('--list-times', place.backups, '--archive', place.archive)
        check('are missing, until' in said, said)
        os.rename(victim + '.away', victim)
        with open(victim, 'r+b') as file:
            file.seek(130)
            byte = file.read(1)
            file.seek(130)
            file.write(bytes([byte[0] ^ 1]))
        code, said = place.restore(cluster, 'base', when)
        check(code == 1 and 'damaged' in said, said)
        check(os.path.exists(os.path.join(data, 'RESTORING')), 'an interrupted restore is marked')
        with open(victim, 'r+b') as file:
            file.seek(130)
            file.write(byte)
        code, said = place.restore(cluster, 'base', when)
        check(code == 0, said)
        cluster.backends[0].start()
        check_equal(cluster.partition(0).get('GET', 'k'), b'4')


@suite.case('--prune deletes what no backup needs, and nothing if a backup is damaged; --dry-run only says it')
def _(run):
    with Place() as place, Cluster(backends=1, partitions=1, proxies=0, backend_options=place.options) as cluster:
        client = cluster.partition(0)

        def prune(*more):
            return tool('--prune', place.backups, '--archive', place.archive, *more)

        def write(text):
            """Writes, until the archive has a closed file with it."""
            before = place.files()
            client.call('SET', 'k', text)
            wait_for(lambda: len(place.files()) > len(before), 'the file to be closed')
            return place.files()[-1]

        def back_up(name):
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', name)[0], '+')
            wait_for(lambda: glob.glob(os.path.join(place.backups, name, '*', 'MANIFEST.sha256')), 'the backup')

        os.makedirs(place.backups, exist_ok=True)
        early = write('0')
        code, said = prune()
        check(code == 1 and 'no backup' in said and os.path.exists(early), said)
        back_up('first')
        between = write('1')
        when = moment()
        back_up('second')
        late = write('2')
        files = place.files()
        code, said = prune('--dry-run')
        check(code == 0 and early in said and between not in said and late not in said, said)
        check_equal(place.files(), files, 'files after --dry-run')
        digest, = glob.glob(os.path.join(place.backups, 'second', '*', 'MANIFEST.sha256'))
        os.rename(digest, digest + '.away')
        code, said = prune()
        check(code == 1 and 'nothing was deleted' in said, said)
        check_equal(place.files(), files, 'files beside a damaged backup')
        os.rename(digest + '.away', digest)
        os.makedirs(os.path.join(place.backups, 'lost+found'))
        code, said = prune()
        check(code == 0 and 'have gone' in said, said)
        check(early not in place.files() and between in place.files() and late in place.files(), said)
        wait_archived(cluster)
        cluster.backends[0].kill9()
        shutil.rmtree(cluster.backends[0].data)
        code, said = place.restore(cluster, 'first', when)
        check(code == 0, said)
        cluster.backends[0].start()
        client = cluster.partition(0)
        check_equal(client.get('GET', 'k'), b'1')
        # the log of before the restore is needed as long as a backup of it is there, and by none of the new log
        third = write('3')
        shutil.rmtree(os.path.join(place.backups, 'first'))
        code, said = prune()
        check(code == 0 and between not in place.files() and late in place.files() and third in place.files(), said)
        back_up('third')
        shutil.rmtree(os.path.join(place.backups, 'second'))
        code, said = prune()
        check(code == 0 and late not in place.files(), said)


class NamedLate(Cluster):
    """Its backend is in no map until is_named."""
    is_named = False

    def shards_text(self, slots=None):
        text = super().shards_text(slots)
        return text if self.is_named else text.replace('address = 127.0.0.1', 'address = 127.0.0.2')

    def wait_linked(self):
        if self.is_named:
            super().wait_linked()


@suite.case('a partition that gets its name later goes on in the directory of that name; the file of before is closed')
def _(run):
    with Place() as place, NamedLate(backends=1, partitions=1, proxies=0, linked=True, backend_options=place.options) as cluster:
        wait_for(lambda: glob.glob(os.path.join(place.archive, 'partition-0', '*', '.lock')), 'the archive under the first name')
        cluster.is_named = True
        cluster.write_shards()
        cluster.backends[0].signal(signal.SIGHUP)
        cluster.wait_linked()
        client = cluster.partition(0)
        wait_for(lambda: client.call('SET', 'k', 'v') == ('+', b'OK'), 'the slots', pause=0.05)
        wait_archived(cluster)
        wait_for(lambda: glob.glob(os.path.join(place.archive, 'b0p0', '*', '*.[lp]*')), 'the archive under the last name')
        check_equal(glob.glob(os.path.join(place.archive, 'partition-0', '*', '*.part')), [], 'files that nothing closes')


@suite.case('with durability = os, what was written is in the archive all the same')
def _(run):
    with Place() as place:
        options = {'backend': {**place.options['backend'], 'durability': 'os'}}
        with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
            client = cluster.partition(0)
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'base')[0], '+')
            wait_for(lambda: glob.glob(os.path.join(place.backups, 'base', '*', 'MANIFEST.sha256')), 'the backup')
            client.call('SET', 'k', 'v')
            wait_archived(cluster)
            erase(cluster)
            code, said = place.restore(cluster, 'base', 'latest')
            check(code == 0, said)
            cluster.backends[0].start()
            check_equal(cluster.partition(0).get('GET', 'k'), b'v')


@suite.case('a full archive disk stops the archive and no write; when there is room, it goes on, without a gap or with one that is said')
def _(run):
    disk = SmallDisk(8)
    rng = random.Random(1)
    try:
        with Place() as place:
            options = {'backend': {**place.options['backend'], 'archive-dir': os.path.join(disk.path, 'archive'), 'archive-file': '1mb'},
                       'store': {'wal-limit': '1mb', 'memtable': '1mb'}}
            with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
                backend, client = cluster.backends[0], cluster.partition(0)

                def figure(name):
                    return metric(backend.http('/metrics')[1], 'scree_backend_archive_' + name)

                def write():
                    replies = client.pipeline([['SET', 'k%d' % rng.randrange(20), rng.randbytes(20000)] for _ in range(20)])
                    check(all(value(reply) == b'OK' for reply in replies), 'a write was refused: %r' % replies[:1])
                    return figure('stopped') == 1

                wait_for(write, 'the archive to be full')
                wait_for(lambda: b'archive_stopped' in backend.log(), 'the event')
                def goes_on():
                    for path in glob.glob(os.path.join(disk.path, 'archive', '*', '*', '*.log')):
                        os.unlink(path)
                    return figure('stopped') == 0

                wait_for(goes_on, 'the archive to go on')
                check_equal(figure('gaps_total'), 0, 'archive-backlog bridges it')
                check(b'archive_goes_on' in backend.log(), 'the event')
                wait_archived(cluster)

                backend.options['backend']['archive-backlog'] = '0'
                backend.write_config()
                backend.signal(signal.SIGHUP)
                wait_for(lambda: metric(backend.http('/metrics')[1], 'scree_backend_store_change_log_bytes') == 0, 'the backlog to go')
                wait_for(write, 'the archive to be full')
                kept = sorted(name for name in os.listdir(os.path.join(backend.data, 'partition-0')) if name.endswith('.batches'))[-1]

                def passed():
                    write()
                    return sorted(name for name in os.listdir(os.path.join(backend.data, 'partition-0'))
                                  if name.endswith('.batches'))[0] > kept

                wait_for(passed, 'batches to leave the log')
                wait_for(goes_on, 'the archive to go on')
                wait_for(lambda: figure('gaps_total') >= 1, 'the gap to be counted')  # on a slow machine the archive loses more than one race
                check(b'archive_gap' in backend.log(), 'the event')
    finally:
        disk.remove()


@suite.case('a gap counts once, however often the archive tries in vain to begin a file behind it')
def _(run):
    disk = SmallDisk(64, files=60)
    try:
        with Place() as place:
            options = {'backend': {**place.options['backend'], 'archive-dir': os.path.join(disk.path, 'archive'), 'archive-backlog': '0'},
                       'store': {'wal-limit': '1mb', 'memtable': '1mb'}}
            with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
                backend, client = cluster.backends[0], cluster.partition(0)

                def figure(name):
                    return metric(backend.http('/metrics')[1], 'scree_backend_archive_' + name)

                def oldest():
                    return sorted(name for name in os.listdir(os.path.join(backend.data, 'partition-0')) if name.endswith('.batches'))[0]

                def write():
                    check_equal(client.call('SET', 'k', run.rng.randbytes(100000)), ('+', b'OK'))
                    return figure('stopped') == 1
                write()
                wait_archived(cluster)
                fillers = fill_with_files(disk.path)
                wait_for(write, 'the archive to need another file')
                began = oldest()
                wait_for(lambda: write() and oldest() > began, 'batches to leave the log')
                tries = time.monotonic() + 11  # it tries again every five seconds
                wait_for(lambda: time.monotonic() > tries, 'two tries')
                for path in fillers:
                    os.unlink(path)
                wait_for(lambda: figure('stopped') == 0, 'the archive to go on')
                wait_for(lambda: figure('gaps_total') >= 1, 'the gap to be counted')
                check_equal((figure('gaps_total'), backend.log().count(b' archive_gap ')), (1, 1), 'gaps, and their log lines')
    finally:
        disk.remove()


def fill_with_files(folder):
    """Makes empty files until the disk has no room for another one; their paths."""
    paths = []
    try:
        while True:
            path = os.path.join(folder, 'file-%d' % len(paths))
            with open(path, 'x'):
                paths.append(path)
    except OSError as error:
        check_equal(error.errno, errno.ENOSPC)
    return paths


if __name__ == '__main__':
    suite.main()
