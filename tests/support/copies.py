"""copies.py - a shard with several copies, for tests: one backend each, one of which serves.

    with Copies() as copies:
        copies.leader().call('SET', 'k', 'v')
        copies.backends[0].kill9()
        copies.force(1)                          # backend 1 goes on alone, and the map names it first

         proxy 0 ── map: the first address ──► backend 0 (serves) ── log ──► backend 1, backend 2 (follow)
"""

import contextlib
import shutil
import signal

from support import harness
from support.cluster import Cluster, with_option
from support.harness import PATIENCE, Failure, check_equal, wait_for
from support.resp import Closed, Connection, ReplyError


UNHURRIED = {'backend': {'election-timeout': '%dms' % (1000 * max(3, harness.SLOW))}}  # for cases in which no copy may lead because this machine is slow
QUICK = 1.0  # seconds in which a copy that serves has answered; one that waits for a leader, or stands still, has not


def fields(line):
    """'a=1 b=2' as {'a': '1', 'b': '2'}"""
    return dict(word.split('=', 1) for word in line.decode().split())


def number_at(connection, key):
    """The value of a counter; None: an error, for example while a transaction has locked it."""
    reply = connection.get('GET', key)
    return None if isinstance(reply, ReplyError) else int(reply or 0)


def calls(copies, command, index=0):
    """How often a backend has run the command."""
    with copies.copy(index) as node:
        lines = node.get('INFO', 'commandstats').decode().split('\r\n')
    found = [line for line in lines if line.startswith('cmdstat_%s:' % command)]
    return int(found[0].split('calls=')[1].split(',')[0]) if found else 0


class Copies(Cluster):
    """A Cluster of one shard. `order`: the backends whose addresses the map has, in its order."""

    FORCE_WAITS = ('ERR the copy that leads is connected', 'ERR this copy has started a moment ago')

    def __init__(self, copies=3, backend_options=None, partitions=1, replicas='yes', replica_reads='stale', **options):
        backend_options = with_option(backend_options, 'backend', 'replicas', replicas)
        # tests read at copies whose leader is lost for long
        for name, value in {'replica-reads': replica_reads, 'replica-reads-lag': '0', 'peer-timeout': '%dms' % (2000 * harness.SLOW), 'leader-return': '0'}.items():
            backend_options = with_option(backend_options, 'backend', name, value)
        super().__init__(backends=copies, partitions=partitions, linked=True, slots=['0-16383'], backend_options=backend_options, **options)
        self.order = list(range(copies))

    def shards_text(self, slots=None):
        self.epoch += 1
        addresses = ' '.join('%s:%d' % self.backends[i].addresses[0][:2] for i in self.order)
        return '[map]\nepoch = %d\n[shard a]\nslots = 0-16383\naddress = %s\n' % (self.epoch, addresses)

    def wait_linked(self):
        self.wait_serves(self.order[0])

    # -- one copy

    def copy(self, index, timeout=PATIENCE):
        """A connection to a copy itself."""
        return Connection(self.backends[index].addresses[0], timeout)

    def reader(self, index):
        """A connection that may read old data."""
        connection = self.copy(index)
        check_equal(connection.get('READONLY'), b'OK')
        return connection

    def leader(self):
        return self.copy(self.order[0])

    def info(self, index):
        """The replication section of INFO."""
        with self.copy(index) as connection:
            lines = connection.get('INFO', 'replication').decode().split('\r\n')
        return dict(line.split(':', 1) for line in lines if ':' in line)

    def replicas(self, index):
        """SCREE REPLICAS: the fields of the partition, and a list of those of the copies."""
        with self.copy(index) as connection:
            reply = connection.get('SCREE', 'REPLICAS')
        if isinstance(reply, ReplyError):
            raise reply
        lines = [fields(line) for line in reply]
        return lines[0], lines[1:]

    def phase(self, index):
        with contextlib.suppress(OSError, Closed, ReplyError, IndexError):  # a copy closes all when it installs files
            return self.replicas(index)[0]['phase']
        return None

    # -- waiting

    def wait_serves(self, index):
        def serves():
            with contextlib.suppress(OSError, Closed), self.copy(index) as connection:
                return not isinstance(connection.get('EXISTS', 'k'), ReplyError)
            return False
        wait_for(serves, 'copy %d to serve' % index, pause=0.05)

    def wait_phase(self, index, phase):
        wait_for(lambda: self.phase(index) == phase, 'copy %d to be %s' % (index, phase), pause=0.05)

    def wait_follows(self, *indexes):
        """Waits until these copies have applied what the leader has."""
        for index in indexes:
            wait_for(lambda: self.hears(index) and self.has_all(index), 'copy %d to have all' % index, pause=0.05)

    def has_all(self, index, leader=None):
        """Has the copy applied what the leader has?"""
        with contextlib.suppress(OSError, Closed, IndexError):  # as for phase()
            wanted = self.applied(self.order[0] if leader is None else leader)  # asked first, because clients may write all the time
            return self.applied(index) >= wanted
        return False

    def hears(self, index):
        """Does the copy follow, and is it connected to the leader?"""
        with contextlib.suppress(OSError, Closed, KeyError):
            return self.phase(index) == 'following' and self.info(index)['master_link_status'] == 'up'
        return False

    def applied(self, index):
        return int(self.replicas(index)[0]['applied'])

    # -- the operator

    def force_unmapped(self, index):
        """The leader is lost: this copy goes on alone, and the map stays as it is."""
        with self.copy(index) as connection:
            wait_for(lambda: not str(connection.get('SCREE', 'REPLICAS', 'FORCE')).startswith(self.FORCE_WAITS),
                     'the link to the leader to break', pause=0.05)
        self.wait_phase(index, 'serving')

    def force(self, index):
        """As force_unmapped, and a new map names this copy first."""
        self.force_unmapped(index)
        self.order.remove(index)
        self.order.insert(0, index)
        self.write_shards()
        self.wait_serves(index)

    def abandon_quietly(self):
        """Kills the processes of a Copies that was not entered, and removes its files."""
        for process in self.proxies + self.backends:
            if process.alive():
                process.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)


class Voters(Copies):
    """Copies that elect the one that serves; clients connect to the copies themselves."""

    def __init__(self, proxies=0, replicas='voters', backend_options=None, **options):
        self.replicas_option = replicas
        # other tests run, too
        backend_options = with_option(backend_options, 'backend', 'election-timeout', '%dms' % (1000 * harness.SLOW))
        super().__init__(backend_options=backend_options, replicas=replicas, proxies=proxies, **options)

    def wait_linked(self):
        self.wait_leader()
        if self.replicas_option == 'voters':
            self.wait_voters(*range(len(self.backends)))

    def serving(self):
        """The copy that serves; None: none has said so."""
        for index, backend in enumerate(self.backends):
            if backend.alive() and self.serves(index):
                return index
        return None

    def serves(self, index):
        with contextlib.suppress(OSError, Closed), self.copy(index, timeout=QUICK) as connection:
            return not isinstance(connection.get('EXISTS', 'k'), ReplyError)
        return False

    def wait_leader(self, *without):
        """Waits until a copy serves that is none of these; its index."""
        def found():
            index = self.serving()
            return None if index in (None, *without) else (index,)
        index, = wait_for(found, 'a copy to serve', pause=0.05)
        self.order.remove(index)
        self.order.insert(0, index)  # the leader comes first, as in Copies
        return index

    def wait_follows(self, *indexes):
        """As of Copies; whichever of them leads, because another one may have been elected."""
        for index in indexes:
            wait_for(lambda: self.wait_leader() == index or (self.hears(index) and self.has_all(index)), 'copy %d to have all' % index, pause=0.05)

    def ask(self, *words):
        """The reply of the copy that leads, also if another one is elected before it replies. Not for commands that must not run twice."""
        replies = []

        def answers():
            with contextlib.suppress(OSError, Closed), self.copy(self.wait_leader()) as connection:
                replies[:] = [connection.get(*words)]
                return not isinstance(replies[0], ReplyError)
            return False
        try:
            wait_for(answers, 'a reply to %s' % words[0], pause=0.05)
        except Failure as failure:
            raise Failure('%s; the last one: %r' % (failure, replies)) from None
        return replies[0]

    def wait_voters(self, *indexes):
        """Waits until these copies are connected, and vote."""
        addresses = {'%s:%d' % self.backends[index].addresses[0][:2] for index in indexes}

        def vote():
            with contextlib.suppress(OSError, Closed, ReplyError):
                leader = self.serving()
                lines = [] if leader is None else self.replicas(leader)[1]
                return addresses <= {line['address'] for line in lines if line['kind'] == 'voter' and line['up'] == 'yes'}
            return False
        wait_for(vote, 'copies %s to vote' % (indexes,), pause=0.05)


class TwoShards(Copies):
    """Shards a and b with two copies each, or others. `orders`: the backends of each, in the order of the map. `halves`: their slots."""

    def __init__(self, orders=([0, 1], [2, 3]), halves=('0-8191', '8192-16383'), **options):
        self.orders, self.halves = [list(order) for order in orders], list(halves)
        super().__init__(copies=sum(map(len, orders)), **options)

    def shards_text(self, slots=None):
        self.epoch += 1
        text = '[map]\nepoch = %d\n' % self.epoch
        for name, order, half in zip('abc', self.orders, self.halves):
            addresses = ' '.join('%s:%d' % self.backends[i].addresses[0][:2] for i in order)
            text += '[shard %s]\nslots = %s\naddress = %s\n' % (name, half, addresses)
        return text

    def wait_linked(self):
        for order in self.orders:
            if len(order) > 1:
                self.wait_phase(order[0], 'serving')

    def reload(self):
        """Writes the map anew, and has all backends read it."""
        self.write_shards()
        for backend in self.backends:
            if backend.alive():
                backend.signal(signal.SIGHUP)

    def link(self, index, shard):
        """The fields of a backend's link to a shard, of INFO peers."""
        with self.copy(index) as connection:
            lines = connection.get('INFO', 'peers').decode().split('\r\n')
        found = [line.split(':', 1)[1] for line in lines if line.startswith('peer_%s:' % shard)]
        return dict(pair.split('=', 1) for pair in found[0].split(',')) if found else {}

    def wait_copied(self):
        for leader, copy in self.orders:
            wait_for(lambda: self.phase(copy) == 'following' and self.has_all(copy, leader), 'copy %d to have all' % copy, pause=0.05)


class TwoVoterShards(TwoShards):
    """Shards a and b with three voters each, or others; any copy of a shard may lead, also another one at any time."""

    def __init__(self, backend_options=None, orders=([0, 1, 2], [3, 4, 5]), **options):
        for name, text in (('election-timeout', '%dms' % (1000 * harness.SLOW)), ('replicas', 'voters')):
            backend_options = with_option(backend_options, 'backend', name, text)
        super().__init__(orders=orders, replicas='voters', backend_options=backend_options, **options)

    def leader_of(self, shard):
        """The copy of this shard that serves; None: none has said so."""
        for index in self.orders[shard]:
            if self.backends[index].alive() and self.phase(index) == 'serving':
                return index
        return None

    def wait_leader(self, shard, *without):
        """Waits until a copy of the shard serves that is none of these; its index."""
        def found():
            index = self.leader_of(shard)
            return None if index in (None, *without) else (index,)
        return wait_for(found, 'a copy of shard %d to serve' % shard, pause=0.05)[0]

    def votes(self, shard):
        """How many copies are connected, and vote, as the leader says; 0: none leads."""
        leader = self.leader_of(shard)
        if leader is not None:
            with contextlib.suppress(OSError, Closed, ReplyError):
                return sum(line['kind'] == 'voter' and line['up'] == 'yes' for line in self.replicas(leader)[1])
        return 0

    def wait_votes(self, shard):
        wait_for(lambda: self.votes(shard) == len(self.orders[shard]), 'all copies of shard %d to vote' % shard, pause=0.05)

    def wait_linked(self):
        for shard, order in enumerate(self.orders):
            if len(order) > 1:
                self.wait_votes(shard)


class ThreeShards(TwoShards):
    """Shards a, b and c with two copies each; `halves` are thirds."""

    def __init__(self, **options):
        super().__init__(orders=([0, 1], [2, 3], [4, 5]), halves=('0-5460', '5461-10922', '10923-16383'), **options)
