"""outages.py - shards with three copies that vote, each program in a network namespace of its own, and what fails there.

    with VoterShards() as cluster, Outages(run, cluster, clients) as outages:      # after spaces.enter_node()
        outages.strike()                 # a fault; returns when every client is served again (support/turmoil.py)

    kill      kill -9, and a start                         clock     wall clocks jump by seconds
    freeze    SIGSTOP, SIGCONT                             reboot    kill -9, and a start with other monotonic clocks
    deafen    what some copies of a shard send to another copy of it is lost, the other way is well
    part      a copy of a shard and the others of it do not reach each other; all else does
    isolate   a copy reaches no other backend and no proxy
    silence   a copy hears all, and nothing that it sends arrives
    hang      a disk takes nothing                         power     kill -9, and what was not synced is lost
    spoil     writes and syncs of a disk fail: one, or all, with EIO or ENOSPC; a process that ends is started again

Clients reach proxies and copies at all times.
"""

import errno
import time

from support import harness
from support.clock import SkewedClock
from support.cluster import Cluster, even_slots, with_option
from support.copies import TwoShards
from support.disk import SYNC_LOG, SYNC_OTHER, WRITE_LOG, WRITE_OTHER, FaultyDisk
from support.harness import check_equal, wait_for
from support.resp import Closed, Connection
from support.spaces import Space
from support.turmoil import Turmoil

SHARDS, COPIES = 3, 3
PASSWORD = 'of-the-copies'
CUTS_ONE_WAY, CUTS = ('deafen', 'silence'), ('part', 'isolate')
OF_DISKS = ('hang', 'spoil', 'spoil', 'power')
OF_PROGRAMS = ('kill', 'kill', 'kill', 'freeze', 'freeze', 'clock', 'reboot')
JUMP_S = 3  # less than the tests of expiry excuse
MOST_UPTIME_S = 30 * 86400
TIMES_S = (0.3, 1.5, 4)  # of a fault of the network, or of a disk
OF_LOG, OF_ALL = WRITE_LOG | SYNC_LOG, WRITE_LOG | SYNC_LOG | WRITE_OTHER | SYNC_OTHER


class VoterShards(TwoShards):
    """Shards a, b and c, or less, whose slots are `slots`, as in a Cluster. `is_plain`: with the default times, and the machine's clock.
    `replica_reads` 'fresh': proxies read at all copies. `has_faults`: clocks and disks may be wrong, by libraries that a program under TSan cannot have."""

    def __init__(self, shards=SHARDS, proxies=2, is_plain=False, has_faults=True, replica_reads='stale'):
        self.spaces = []
        options = with_option(None, 'backend', 'requirepass', PASSWORD)  # else only clients of the same address are served
        proxy_options = {'proxy': {'protected-mode': 'no'}}
        if not is_plain:
            options = with_option(options, 'backend', 'election-timeout', '%dms' % (1000 * harness.SLOW))
            proxy_options['upstream'] = {'timeout': '3s', 'backoff-max': '100ms', 'hold': '10s'}
        if replica_reads == 'fresh':
            proxy_options = with_option(proxy_options, 'upstream', 'replica-reads', 'fresh')
        super().__init__(replica_reads=replica_reads, orders=[[shard * COPIES + i for i in range(COPIES)] for shard in range(shards)], replicas='voters', proxies=proxies,
                         backend_options=options, proxy_options=proxy_options)
        self.slots = even_slots(shards)
        has_faults = has_faults and not is_plain
        self.disks = self.make_disks() if has_faults else []
        self.clocks = [SkewedClock(backend) for backend in self.backends] if has_faults else []

    def make_disks(self):
        disks = []
        for backend in self.backends:
            disks.append(FaultyDisk(disks[0] if disks else None))
            disks[-1].use(backend)
        return disks

    def place(self):
        self.spaces.append(Space(len(self.spaces) + 2))  # in the order of programs: backends, proxies
        return self.spaces[-1].address, self.spaces[-1].prefix

    def __exit__(self, *error):
        try:
            return super().__exit__(*error)
        finally:
            for disk in self.disks:
                disk.__exit__()
            for space in self.spaces:
                space.remove()

    def shards_text(self, slots=None):
        self.halves = self.slots
        return super().shards_text()

    def connect_to(self, address, timeout=harness.PATIENCE):
        """A connection to a copy."""
        connection = Connection(address, timeout)
        check_equal(connection.get('AUTH', PASSWORD), b'OK')
        return connection

    def copy(self, index, timeout=harness.PATIENCE):
        return self.connect_to(self.backends[index].addresses[0], timeout)

    def leader_of(self, shard):
        """(the backend that serves the shard); None: there is none now."""
        return next(((index,) for index in self.orders[shard] if self.phase(index) == 'serving'), None)

    def partition(self, shard, timeout=harness.PATIENCE):
        index, = wait_for(lambda: self.leader_of(shard), 'shard %d to have a leader' % shard, pause=0.05)
        return self.copy(index, timeout)

    def has_voters(self, shard):
        try:
            leader = self.leader_of(shard)
            lines = self.replicas(*leader)[1] if leader else []
        except (OSError, Closed):
            return False
        return sum(line['kind'] == 'voter' and line['up'] == 'yes' for line in lines) == COPIES

    def wait_linked(self):
        for shard in range(len(self.orders)):
            wait_for(lambda: self.has_voters(shard), 'all copies of shard %d to vote' % shard, pause=0.05)
        Cluster.wait_linked(self)


class Outages(Turmoil):
    def __init__(self, run, cluster, clients):
        super().__init__(run, cluster, clients)
        self.possible = CUTS_ONE_WAY + CUTS + OF_PROGRAMS + OF_DISKS
        self.faults = dict.fromkeys(self.possible, 0)

    def victims_of(self, fault):
        return super().victims_of(fault) if fault in ('kill', 'freeze') else self.cluster.backends

    def siblings(self, backend):
        return [self.cluster.backends[i] for order in self.cluster.orders if backend.index in order for i in order if i != backend.index]

    def others(self, backend):
        return [process for process in self.cluster.backends + self.cluster.proxies if process is not backend]

    def lose(self, pairs):
        """What the first of each pair sends to the second is lost for a while."""
        places = dict(zip(self.cluster.backends + self.cluster.proxies, self.cluster.spaces))
        for source, target in pairs:
            places[source].lose(target.host)
        time.sleep(self.rng.choice(TIMES_S))
        for space in self.cluster.spaces:
            space.heal()

    def deafen(self, victims):
        self.lose([(sibling, victim) for victim in victims for sibling in self.siblings(victim) if self.rng.random() < 0.7])

    def part(self, victims):
        self.lose([pair for victim in victims for sibling in self.siblings(victim) for pair in ((sibling, victim), (victim, sibling))])

    def isolate(self, victims):
        self.lose([pair for victim in victims for other in self.others(victim) for pair in ((other, victim), (victim, other))])

    def silence(self, victims):
        self.lose([(victim, other) for victim in victims for other in self.others(victim)])

    def disks(self, victims):
        return [self.cluster.disks[victim.index] for victim in victims]

    def hang(self, victims):
        for disk in self.disks(victims):
            disk.hold_syncs()
        time.sleep(self.rng.choice(TIMES_S))
        for disk in self.disks(victims):
            disk.hold_syncs(False)

    def spoil(self, victims):
        for disk in self.disks(victims):
            disk.fail(self.rng.choice([OF_LOG, OF_ALL]), self.rng.randrange(1, 10), self.rng.choice([1, -1]), self.rng.choice([errno.EIO, errno.ENOSPC]))
        time.sleep(self.rng.choice(TIMES_S))
        for disk in self.disks(victims):
            disk.heal()
        for victim in victims:
            if not victim.alive():
                victim.spawn()
                victim.wait_ready()

    def power(self, victims):
        for victim in victims:
            victim.kill9()
            self.cluster.disks[victim.index].lose_power(self.rng)
        self.bring_back(victims)

    def clock(self, victims):
        for victim in victims:
            self.cluster.clocks[victim.index].set(self.rng.uniform(-JUMP_S, JUMP_S))

    def reboot(self, victims):
        for victim in victims:
            offset = str(self.rng.randrange(MOST_UPTIME_S))
            victim.prefix = self.cluster.spaces[victim.index].prefix + ['unshare', '--time', '--monotonic', offset, '--boottime', offset]
        self.kill(victims)
