#!/usr/bin/python3
"""Backups whose files copies that follow make, with backup-from = copy: they are the state of the whole cluster at one moment, whichever copy is lost."""

import contextlib
import itertools
import os
import random
import re
import shutil
import subprocess
import tempfile
import threading

from support.cluster import Cluster, binary, even_slots, with_option
from support.copies import UNHURRIED, TwoVoterShards, Voters
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.resp import Closed, Connection, ReplyError, value

suite = Suite(__doc__)
ACCOUNTS = ['account:%d' % i for i in range(12)]
LEASE = ('LEASE', '15000')
FROM_COPIES = {'upstream': {'backup-from': 'copy'}}


class Teller(threading.Thread):
    """Moves money between accounts of different shards, and counts transfers in a key; goes on after errors."""

    def __init__(self, cluster, me, seed):
        super().__init__(daemon=True)
        self.cluster, self.me, self.rng = cluster, me, random.Random(seed)
        self.is_over, self.tried, self.moved = False, 0, 0

    def run(self):
        while not self.is_over:
            with contextlib.suppress(OSError, Closed), self.cluster.connect() as client:  # a proxy or its shard was killed: it connects again
                while not self.is_over:
                    self.move(client)

    def move(self, client):
        source, target = self.rng.sample(ACCOUNTS, 2)
        self.tried += 1
        replies = value(client.pipeline([['MULTI'], ['DECRBY', source, '3'], ['INCRBY', target, '3'], ['INCR', 'moved:%d' % self.me],
                                         ['EXEC']])[-1])
        self.moved += isinstance(replies, list) and not any(isinstance(reply, ReplyError) for reply in replies)


class Tellers:
    def __init__(self, run, cluster, count=3):
        with cluster.connect() as client:
            for account in ACCOUNTS:
                check_equal(client.get('SET', account, '1000'), b'OK')
        self.all = [Teller(cluster, me, run.rng.random()) for me in range(count)]

    def __enter__(self):
        for teller in self.all:
            teller.start()
        return self

    def __exit__(self, *ignored):
        for teller in self.all:
            teller.is_over = True
        for teller in self.all:
            teller.join(patience())

    def wait_moved(self, count=5):
        before = [teller.moved for teller in self.all]
        wait_for(lambda: all(teller.moved >= moved + count for teller, moved in zip(self.all, before)), 'transfers')

    def moved(self):
        return [teller.moved for teller in self.all]

    def tried(self):
        return [teller.tried for teller in self.all]


def fields(reply):
    return {name.decode(): item.decode() if isinstance(item, bytes) else item for name, item in zip(reply[::2], reply[1::2])}


def status(client):
    return fields(client.get('SCREE', 'BACKUP', 'STATUS'))


def listed(client):
    return [fields(item) for item in client.get('SCREE', 'BACKUP', 'LIST')]


def begin(client, name, *more):
    """A leader refuses at first if it has begun to lead a moment ago."""
    def reply():
        got = client.call('SCREE', 'BACKUP', 'START', 'NAME', name, *LEASE, *more)
        return None if got[0] == '-' and any(text in got[1] for text in (b'slots are moving', b'in progress')) else got
    check_equal(wait_for(reply, 'START not to be refused', pause=0.1), ('$', name.encode()), 'START')


def end(client):
    """The status of the backup, which must end well."""
    wait_for(lambda: status(client)['state'] == 'idle', 'the backup to end', pause=0.05)
    last = status(client)
    check_equal((last['last-status'], last['last-error']), ('ok', ''), 'the backup')
    return last


def backup(client, name, *more):
    begin(client, name, *more)
    return end(client)


def backups_of(backend):
    """(backup, shard) of each part that this backend has."""
    root = os.path.join(backend.data, 'backups')
    names = os.listdir(root) if os.path.isdir(root) else []
    return {(name, shard) for name in names for shard in os.listdir(os.path.join(root, name))
            if os.path.exists(os.path.join(root, name, shard, 'MANIFEST.sha256'))}


def place_of(cluster, name):
    """The directories of a backup, as --restore takes them."""
    return ','.join(os.path.join(backend.data, 'backups', name) for backend in cluster.backends
                    if any(part == name for part, _ in backups_of(backend)))


def tool(*arguments):
    done = subprocess.run([binary('scree-backend')] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=5 * patience(), check=False)
    return done.returncode, done.stdout.decode('utf-8', 'replace')


def check_good(cluster, name, parts):
    code, text = tool('--verify-backup', place_of(cluster, name))
    check(code == 0 and text.count('good: ') == parts, text)


def keep(cluster, name, folder):
    """Copies the files of a backup, so that they outlive the cluster; their directories."""
    for number, path in enumerate(place_of(cluster, name).split(',')):
        shutil.copytree(path, os.path.join(folder, str(number), name))
    return ','.join(os.path.join(folder, part, name) for part in sorted(os.listdir(folder)))


def restored(path, shards):
    cluster = Cluster(backends=shards, partitions=1, proxies=1)
    cluster.write_shards(even_slots(shards))
    for backend in cluster.backends:
        backend.write_config()
        code, text = tool('--config', backend.config_path, '--restore', path, '--map', cluster.shards_path, '--shard', 'b%dp0' % backend.index)
        check(code == 0, 'restore: %s' % text)
    return cluster


def check_bank(path, bounds):
    """Restored to other numbers of shards, which have no connections to each other, each transaction is there as a whole or not at all."""
    for shards in (1, 3):
        with restored(path, shards) as cluster, cluster.connect() as client:
            for shard in range(shards):
                with cluster.partition(shard) as partition:
                    check_equal(partition.get('SCREE', 'TRANSACTIONS'), [], 'open transactions')
            check_equal(sum(client.get('INCRBY', account, 0) for account in ACCOUNTS), 1000 * len(ACCOUNTS), 'the sum')
            for me, (acknowledged, tried) in enumerate(bounds):
                found = client.get('INCRBY', 'moved:%d' % me, 0)
                check(acknowledged <= found <= tried, 'teller %d: %d of %d to %d' % (me, found, acknowledged, tried))


def shards_of(last):
    """{shard: address} of the copies that follow which have made files."""
    return dict(word.split('=') for word in last['copied-by'].split())


def index_at(cluster, address):
    return next(backend.index for backend in cluster.backends if '%s:%d' % backend.addresses[0][:2] == address)


def refuse_files(backend):
    """A file stands where its folder of backups would be, which it may not have yet."""
    folder = os.path.join(backend.data, 'backups')
    shutil.rmtree(folder, ignore_errors=True)
    with open(folder, 'w', encoding='utf-8'):
        pass


@suite.case('copies that follow make the files during transactions over shards: all of each or nothing; they are listed, verified, kept and deleted')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        check_bank(*back_up_and_look(run, folder))


def back_up_and_look(run, folder):
    """The directories of the last backup, and what each teller had moved at least, and at most."""
    with TwoVoterShards(proxies=1, proxy_options=FROM_COPIES) as cluster, cluster.connect() as client:
        with Tellers(run, cluster) as tellers:
            for number in range(sized(3, long=20)):
                tellers.wait_moved()
                acknowledged = tellers.moved()
                last = backup(client, 'b%d' % number, 'KEEP', '2')
                bounds = list(zip(acknowledged, tellers.tried()))
                run.debug('%r' % (last,))
                copiers = shards_of(last)
                if len(copiers) == 2:  # else a copy was behind, or was lost
                    check(all(index_at(cluster, copiers[name]) != cluster.wait_leader(shard) for shard, name in enumerate('ab')), 'leaders: %r' % copiers)
            tellers.wait_moved()
        name = last['last-backup']
        check_equal([(item['backup'], item['complete']) for item in listed(client)][-1], (name, 'yes'), 'LIST')
        check_equal(len([item for item in listed(client) if item['complete'] == 'yes']), 2, 'KEEP')
        check_good(cluster, name, 2)
        for shard, address in shards_of(last).items():
            check((name, shard) in backups_of(cluster.backends[index_at(cluster, address)]), 'it is where STATUS says')
        for shard in (0, 1):
            with cluster.copy(cluster.wait_leader(shard)) as leader:
                check_equal(status(leader)['last-status'], 'ok', 'the record of the leader')
        path = keep(cluster, name, folder)
        check_equal(client.call('SCREE', 'BACKUP', 'DELETE', name), ('+', b'OK'), 'DELETE')
        wait_for(lambda: not any(name == part for backend in cluster.backends for part, _ in backups_of(backend)), 'the files to go')
        return path, bounds


@suite.case('the copy that makes files, or a leader, is killed during a backup: the leader makes them, and nothing is torn')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        check_bank(*kill_during_backups(run, folder))


def kill_during_backups(run, folder):
    """As back_up_and_look, of the last backup that ended well."""
    with TwoVoterShards(proxies=1, proxy_options=FROM_COPIES) as cluster, cluster.connect(0, 60) as client:
        with Tellers(run, cluster) as tellers:
            for number in range(sized(4, long=30)):
                tellers.wait_moved()
                if number % 2:
                    victim = cluster.wait_leader(number // 2 % 2)
                else:
                    last = backup(client, 'first%d' % number)
                    victim = index_at(cluster, list(shards_of(last).values() or ['%s:%d' % cluster.backends[0].addresses[0][:2]])[0])
                acknowledged = tellers.moved()
                begin(client, 'b%d' % number)
                threading.Event().wait(run.rng.uniform(0, 0.1))
                cluster.backends[victim].kill9()
                wait_for(lambda: status(client)['state'] == 'idle', 'the backup to end', pause=0.05)
                last, bounds = status(client), list(zip(acknowledged, tellers.tried()))
                run.note('victim %d of %s: %s %r' % (victim, last['copied-by'], last['last-status'], last['last-error']))
                if last['last-status'] == 'ok':
                    check_good(cluster, last['last-backup'], 2)
                    good, good_bounds = last['last-backup'], bounds
                check(last['last-status'] == 'ok' or number % 2, 'a copy was lost: %s' % last['last-error'])
                cluster.backends[victim].start()
                cluster.wait_linked()
        return keep(cluster, good, folder), good_bounds


@suite.case('a copy that hangs from its ready on lengthens no hold: the shards cut in the first attempt, and then the leader makes its files')
def _(run):
    with TwoVoterShards(proxies=1, proxy_options=FROM_COPIES) as cluster, cluster.connect(0, 60) as client, Tellers(run, cluster) as tellers:
        names = ('hangs%d' % number for number in itertools.count())
        wait_for(lambda: cuts_without(run, cluster, client, next(names)), 'a cut while a copy hangs')
        tellers.wait_moved()


def cuts_without(run, cluster, client, name):
    """Did a backup end well whose first cut was made while a copy hung? It waits for a transaction that a pause has met, so that the copy can be
    stopped. False: no transaction was met, or this machine was slow. The lease is shorter than the time for which a proxy waits for a copy."""
    with cluster.copy(cluster.wait_leader(0)) as first, cluster.copy(cluster.wait_leader(1)) as second:
        leaders = (first, second)
        try:
            for leader in leaders:
                check_equal(leader.get('CLIENT', 'PAUSE', '600000', 'WRITE'), b'OK')
            threading.Event().wait(0.3)  # most transactions that the pause does not stop end
            if not any(b'role=participant' in line for leader in leaders for line in leader.get('SCREE', 'TRANSACTIONS')):
                return False
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', name, 'LEASE', '4900'), ('$', name.encode()), 'START')
            wait_for(lambda: status(first)['state'] == 'quiescing' or status(client)['state'] == 'idle', 'QUIESCE')
            copier = shards_of(status(client)).get('a')
            if copier is None:
                return False
            stopped = cluster.backends[index_at(cluster, copier)]
            stopped.pause()
            threading.Event().wait(0.1)  # in which a proxy that asks copies, too, has asked it
        finally:
            for leader in leaders:
                leader.get('CLIENT', 'UNPAUSE')
        wait_for(lambda: status(client)['state'] == 'idle', 'the backup to end', pause=0.05)
        last = status(client)
        stopped.resume()
        run.note('%s: %s %r, %s' % (last['last-backup'], last['last-status'], last['last-error'], last['copied-by']))
        cluster.wait_linked()
        return (last['last-status'], last['last-backup']) == ('ok', name + '.2')


@suite.case('a copy that follows is backed up at its own port, up to a batch that its manifest names; a paused one, and one alone, refuse')
def _(run):
    with Voters() as cluster:
        leader = cluster.wait_leader()
        follower = next(index for index in range(3) if index != leader)
        with cluster.copy(leader) as client:
            for i in range(300):
                check_equal(client.get('SET', 'key:%d' % i, 'x' * 100), b'OK')
        cluster.wait_follows(follower)
        with cluster.copy(follower) as client:
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'own', 'SHARD', 'a')[0], '+', 'START')
            wait_for(lambda: status(client)['state'] == 'idle', 'the backup to end')
            check_equal((status(client)['last-status'], status(client)['last-error']), ('ok', ''), 'at the copy')
            refused = client.call('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'x')
            check(refused[0] == '-' and b'does not lead' in refused[1], 'a step for the leader: %r' % (refused,))
            check_equal(client.get('SCREE', 'REPLICAS', 'PAUSE', '600'), b'OK')
            refused = client.call('SCREE', 'BACKUP', 'START', 'NAME', 'paused')
            check(refused[0] == '-' and b'paused' in refused[1], 'a paused one: %r' % (refused,))
            check_equal(client.get('SCREE', 'REPLICAS', 'RESUME'), b'OK')
        with cluster.copy(leader) as client:
            refused = client.call('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'x', 'COPY')
            check(refused[0] == '-' and b'this copy leads' in refused[1], 'a step for a copy: %r' % (refused,))
        with tempfile.TemporaryDirectory() as data:
            path = os.path.join(cluster.backends[follower].data, 'backups', 'own', 'a')
            code, text = tool('--restore', path, '--data', data)
            check(code == 0, text)
            code, text = tool('--dump-keys', data)
            check_equal((code, len([line for line in text.splitlines() if 'key:' in line])), (0, 300), 'the keys')
        for index in range(3):
            if index != follower:
                cluster.backends[index].kill9()
        with cluster.copy(follower) as client:
            wait_for(lambda: status(client)['not-a-copy'], 'the copy to know that it is alone')
            check_equal(client.call('SCREE', 'BACKUP', 'START', 'NAME', 'alone')[0], '-', 'a copy without a leader')

@suite.case('a copy that has not all records up to the moment waits for them, and leaves out later ones, also when another copy leads by then')
def _(run):
    for loses_leader in (False, True):
        with Voters(backend_options=UNHURRIED) as cluster:
            copy_by_steps(cluster, loses_leader)


def step(client, *words):
    reply = client.call('SCREE', 'BACKUP', *words)
    check(reply[0] == '+', '%s: %r' % (words[0], reply))


def refused_step(client, text, *words):
    reply = client.call('SCREE', 'BACKUP', *words)
    check(reply[0] == '-' and text in reply[1].decode(), '%s: %r, without %r' % (words[0], reply, text))


def wait_state(client, *states):
    wait_for(lambda: status(client)['state'] in states, 'the state %s' % ' or '.join(states), pause=0.05)


def write_keys(client, prefix):
    for i in range(100):
        check_equal(client.get('SET', '%s:%d' % (prefix, i), 'x' * 100), b'OK')


def prepare_both(lead, follow, ident):
    """Both copies are prepared, as a proxy does it."""
    wait_for(lambda: lead.call('SCREE', 'BACKUP', 'PREPARE', 'NAME', 'steps', 'SHARD', 'a', 'ID', ident, 'ELSEWHERE')[0] == '+',
             'the copy that leads to know the owners of its slots', pause=0.05)
    step(follow, 'PREPARE', 'NAME', 'steps', 'SHARD', 'a', 'ID', ident, 'COPY')
    wait_state(lead, 'ready')
    wait_state(follow, 'ready')


def cut_at_leader(lead, ident):
    """The moment that the leader has named."""
    step(lead, 'QUIESCE', ident, '60000')
    wait_state(lead, 'quiet')
    step(lead, 'CUT', ident, '60000')
    wait_state(lead, 'copied')
    check_equal(status(lead)['held'], 'yes', 'the hold')
    return status(lead)['moment']


def follower_of(cluster):
    """Indexes of the copy that leads, and of one that follows closely."""
    leader = cluster.wait_leader()
    follower = next(index for index in range(3) if index != leader)
    cluster.wait_follows(follower)
    return leader, follower


def copy_by_steps(cluster, loses_leader):
    """The copy is paused from before the moment until after it."""
    leader, follower = follower_of(cluster)
    ident = 'ab' * 16
    with cluster.copy(leader) as lead, cluster.copy(follower) as follow:
        write_keys(lead, 'before')
        cluster.wait_follows(follower)
        wait_for(lambda: not status(follow)['not-a-copy'], 'the copy to follow closely')
        prepare_both(lead, follow, ident)
        check_equal(follow.get('SCREE', 'REPLICAS', 'PAUSE', '600'), b'OK')
        write_keys(lead, 'until')
        moment = cut_at_leader(lead, ident)
        refused_step(lead, 'in progress', 'PREPARE', 'NAME', 'second', 'SHARD', 'a')
        refused_step(follow, 'in progress', 'START', 'NAME', 'second', 'SHARD', 'a')
        step(lead, 'RELEASE', ident)
        write_keys(lead, 'after')
        batch, committed, log, *times = moment.split()
        refused_step(follow, 'beyond the cut', 'CONFIRM', ident, ' '.join(['0', '0', log] + times))
        refused_step(follow, 'another name', 'CONFIRM', ident, ' '.join([batch, committed, str(int(log) ^ 1)] + times))
        refused_step(follow, 'invalid moment', 'CONFIRM', ident, '1 2 3')
        step(follow, 'CONFIRM', ident, moment)
        if loses_leader:
            cluster.backends[leader].kill9()
            with cluster.copy(cluster.wait_leader(leader)) as next_leader:
                write_keys(next_leader, 'later')
        else:
            threading.Event().wait(0.2)  # in which a copy that does not wait has gone on
        if status(follow)['state'] != 'idle':
            follow.get('SCREE', 'REPLICAS', 'RESUME')
        wait_state(follow, 'idle')
        check_equal((status(follow)['last-status'], status(follow)['last-error']), ('ok', ''), 'at the copy')
        if not loses_leader:
            step(lead, 'CONFIRM', ident, '12345')
            wait_state(lead, 'idle')
            check_equal(status(lead)['last-status'], 'ok', 'at the leader')
    check_equal(keys_in(os.path.join(cluster.backends[follower].data, 'backups', 'steps', 'a')),
                {'before': 100, 'until': 100}, 'the keys of the backup')


def keys_in(path):
    """{prefix: number of keys} of a backup of one shard."""
    with tempfile.TemporaryDirectory() as data:
        code, text = tool('--restore', path, '--data', data)
        check(code == 0, text)
        code, text = tool('--dump-keys', data)
        check(code == 0, text)
    prefixes = re.findall(r'(before|until|after|later):\d+', text)
    return {prefix: prefixes.count(prefix) for prefix in set(prefixes)}


@suite.case('a copy that begins to lead before the moment is named gives up, and so does the one that has led; then backups go on')
def _(run):
    with Voters(backend_options=UNHURRIED) as cluster:
        leader, follower = follower_of(cluster)
        with cluster.copy(leader) as lead, cluster.copy(follower) as follow:
            write_keys(lead, 'before')
            prepare_both(lead, follow, 'cd' * 16)
            address = '%s:%d' % cluster.backends[follower].addresses[0][:2]
            wait_for(lambda: lead.get('SCREE', 'LEADER', 'TO', address) and cluster.serves(follower), 'the other one to lead')
            wait_state(follow, 'idle')
            wait_state(lead, 'idle')
            check('leads now' in status(follow)['last-error'], 'at the copy: %r' % status(follow))
            check('another copy' in status(lead)['last-error'], 'at the leader of before: %r' % status(lead))
            wait_for(lambda: not status(lead)['not-a-copy'], 'the leader of before to follow')
            prepare_both(follow, lead, 'ef' * 16)
            moment = cut_at_leader(follow, 'ef' * 16)
            step(follow, 'RELEASE', 'ef' * 16)
            step(lead, 'CONFIRM', 'ef' * 16, moment)
            wait_state(lead, 'idle')
            check_equal(status(lead)['last-status'], 'ok', 'the second backup')


@suite.case('the leader makes the files if copies are paused, busy, or cannot write; and of a shard with one copy')
def _(run):
    with Voters(proxies=1, proxy_options=FROM_COPIES, backend_options=UNHURRIED) as cluster, cluster.connect() as client:
        leader = cluster.wait_leader()
        others = [index for index in range(3) if index != leader]
        cluster.wait_follows(*others)
        write_keys(client, 'before')

        def by_leader(name, ended):
            last = backup(client, name)
            check_equal((last['last-backup'], last['copied-by']), (ended, ''), 'who has made %s' % name)
            check((ended, 'a') in backups_of(cluster.backends[leader]), 'where %s is' % ended)
            check_good(cluster, ended, 1)
        with contextlib.ExitStack() as stack:
            copies = [stack.enter_context(cluster.copy(index)) for index in others]
            for copy in copies:
                check_equal(copy.get('SCREE', 'REPLICAS', 'PAUSE', '600'), b'OK')
            by_leader('paused', 'paused')
            for copy in copies:
                check_equal(copy.get('SCREE', 'REPLICAS', 'RESUME'), b'OK')
                wait_for(lambda: not status(copy)['not-a-copy'], 'the copy to follow closely')  # noqa: B023
                step(copy, 'PREPARE', 'NAME', 'mine', 'SHARD', 'a', 'ID', '12' * 16, 'COPY')
            by_leader('busy', 'busy')  # they are not chosen
            for copy in copies:
                check_equal(copy.get('SCREE', 'BACKUP', 'CANCEL'), 1, 'CANCEL')
                wait_state(copy, 'idle')
        for index in others:
            refuse_files(cluster.backends[index])
        by_leader('unwritable', 'unwritable.2')
        for index in others:
            os.remove(os.path.join(cluster.backends[index].data, 'backups'))
        last = backup(client, 'writable')
        check(last['copied-by'], 'a copy makes files again')
        with cluster.copy(index_at(cluster, last['copied-by'].split('=')[1])) as copy:
            check_equal(status(copy)['last-status'], 'ok', 'its record')
    with Cluster(backends=2, partitions=1, proxies=1, proxy_options=FROM_COPIES) as cluster, cluster.connect() as client:
        check_equal(backup(client, 'alone')['copied-by'], '', 'copies that make files')
        check_good(cluster, 'alone', 2)


class FiveShards(Voters):
    """Of each the same three backends have a copy. As the copies of a backend fail together, a backup must not need an attempt for each."""

    def __init__(self, **options):
        super().__init__(partitions=5, backend_options=UNHURRIED, **options)

    def shards_text(self, slots=None):
        self.epoch += 1
        return '[map]\nepoch = %d\n' % self.epoch + ''.join(
            '[shard %s]\nslots = %s\naddress = %s\n' % (name, slots, ' '.join('%s:%d' % backend.addresses[number][:2] for backend in self.backends))
            for number, (name, slots) in enumerate(zip('abcde', even_slots(5))))

    def objection(self, index, number):
        """Why this copy makes no files for its leader; empty: it can."""
        # a partition that closes its store drops its connections
        with contextlib.suppress(OSError, Closed), Connection(self.backends[index].addresses[number], 10) as copy:
            return status(copy)['not-a-copy']
        return 'it has closed all, to install files'

    def leads(self, index, number):
        return 'this copy leads' in self.objection(index, number)

    def wait_leader_of(self, number):
        return wait_for(lambda: [index for index in range(3) if self.leads(index, number)], 'shard %d to have a leader' % number, pause=0.05)[0]

    def wait_linked(self):
        for number in range(5):
            self.wait_leader_of(number)

    def lead_at_first(self, number):
        if self.leads(0, number):
            return True
        # the leader may change before it is asked: the caller tries again
        with contextlib.suppress(OSError, Closed), Connection(self.backends[self.wait_leader_of(number)].addresses[number], 10) as leader:
            leader.get('SCREE', 'LEADER', 'TO', '%s:%d' % self.backends[0].addresses[number][:2])
        return False

    def wait_copies(self):
        wait_for(lambda: not any(self.objection(index, number) for index in (1, 2) for number in range(5)), 'the copies to follow closely', pause=0.05)


@suite.case('all copies of five shards fail at once: their leaders make the files, and the backup ends well')
def _(run):
    with FiveShards(proxies=1, proxy_options=FROM_COPIES) as cluster, cluster.connect() as client:
        for number in range(5):
            wait_for(lambda: cluster.lead_at_first(number), 'the first backend to lead', pause=0.1)  # noqa: B023
        cluster.wait_copies()
        last = backup(client, 'copied')
        check_equal(len(shards_of(last)), 5, 'copies that make files')
        for backend in cluster.backends[1:]:
            refuse_files(backend)
        last = backup(client, 'fails')
        run.note('%s of %s' % (last['last-backup'], last['copied-by']))
        check_equal(last['copied-by'], '', 'copies that make files')
        check_good(cluster, last['last-backup'], 5)


@suite.case('copies that share one directory of backups do not take files of each other, and each backup counts once')
def _(run):
    with tempfile.TemporaryDirectory() as shared, Voters(proxies=1, proxy_options=FROM_COPIES, backend_options=with_option(
            UNHURRIED, 'backend', 'backup-dir', shared)) as cluster, cluster.connect() as client:
        for number in range(3):
            leader, follower = follower_of(cluster)
            write_keys(client, ('before', 'until', 'after')[number])
            last = backup(client, 'b%d' % number)
            check_equal(last['last-backup'], 'b%d' % number, 'the name')
            check(last['copied-by'] and index_at(cluster, last['copied-by'].split('=')[1]) != leader, 'who: %r' % last)
            address = '%s:%d' % cluster.backends[follower].addresses[0][:2]
            with cluster.copy(leader) as lead:
                wait_for(lambda: lead.get('SCREE', 'LEADER', 'TO', address) and cluster.serves(follower), 'another one to lead')  # noqa: B023
            code, text = tool('--verify-backup', os.path.join(shared, 'b%d' % number))
            check(code == 0 and text.count('good: ') == 1, text)
        check_equal([(item['backup'], item['complete']) for item in listed(client)], [('b%d' % number, 'yes') for number in range(3)], 'LIST')
        check_equal([len(keys_in(os.path.join(shared, 'b%d' % number, 'a'))) for number in range(3)], [1, 2, 3], 'the keys')
        check_equal(client.call('SCREE', 'BACKUP', 'DELETE', 'b0'), ('+', b'OK'), 'DELETE')
        wait_for(lambda: len(listed(client)) == 2, 'the files to go')


if __name__ == '__main__':
    suite.main()
