#!/usr/bin/python3
"""What docs/slots.md says of moves that are interrupted: a case for each row of its table, and FORCE for shards that are lost."""

import os
import subprocess

from support.cluster import Cluster, slot_of
from support.damage import damage_string
from support.frame_gate import MOVE_ACTIVATE, MOVE_END, FrameGate
from support.harness import Suite, check, check_equal, patience, wait_for
from support.moves import fields, forced_slots, shard_lines, wait_settled
from support.resp import ReplyError

suite = Suite(__doc__)
HALVES = ['0-8191', '8192-16383']
SECOND = ['0-4095', '4096-16383']  # slots 4096-8191 move from the first shard to the second
NAMES = ['key:%d' % i for i in range(4000)]
MOVED = [name for name in NAMES if 4096 <= slot_of(name) <= 8191]
SOURCE, TARGET = 0, 1
SLOWLY = {'migration-rate': '20kb'}  # the first slots take half a minute, so that a kill comes while they are copied
LIBRARY = "#!lua name=lib\n%s\nredis.register_function('answer', function() return 42 end)" % ('-- text\n' * 2000)


def slots_of(line):
    first, last = map(int, line['slots'].split('-'))
    return range(first, last + 1)


class Shards(Cluster):
    """Two linked backends, and a gate in front of each for what the other one sends."""

    def __init__(self, **options):
        super().__init__(backends=2, partitions=1, proxies=0, linked=True, relay=FrameGate, slots=list(HALVES))
        for backend in self.backends:
            backend.options = dict(backend.options)
            backend.options['backend'] = dict(backend.options['backend'], **options)

    def gate(self, shard):
        return self.relays[self.backends[shard].addresses[0]]

    def get(self, shard, *words):
        with self.partition(shard) as partition:
            return partition.get(*words)

    def moves(self, shard):
        with self.partition(shard) as partition:
            return shard_lines(partition)[1:]

    def fill(self, size=100):
        for shard in range(2):
            with self.partition(shard) as partition:
                partition.pipeline([('SET', name, name + 'x' * size) for name in NAMES if self.shard_of(name) == shard])

    def begin(self):
        self.write_shards(SECOND)

    def hurry(self):
        for shard in range(2):
            check_equal(self.get(shard, 'CONFIG', 'SET', 'migration-rate', '0'), b'OK')

    def wait_state(self, shard, *states):
        wait_for(lambda: any(line['state'] in states for line in self.moves(shard)), 'a move to be %s' % ' or '.join(states))

    def restart(self, shard):
        self.backends[shard].kill9()
        self.backends[shard].start()

    def check_moved(self):
        """The move has ended: every key is at its owner, and nowhere else."""
        wait_settled(self)
        for shard in range(2):
            with self.partition(shard) as partition:
                names = [name for name in NAMES if self.shard_of(name) == shard]
                check_equal(partition.get('DBSIZE'), len(names))
                values = [value[1] for value in partition.pipeline([('GET', name) for name in names])]
                check(all(value.startswith(name.encode() + b'x') for name, value in zip(names, values)), 'a value')
                check_equal(partition.get('SCREE', 'STRAYS'), [])


@suite.case('the source is killed while it copies: it still owns the slots, and the move begins again')
def _(run):
    with Shards(**SLOWLY) as cluster:
        cluster.fill(1000)
        cluster.begin()
        cluster.wait_state(SOURCE, 'copying')
        cluster.restart(SOURCE)
        wait_for(lambda: cluster.get(SOURCE, 'GET', MOVED[0]) is not None, 'the source to serve')
        cluster.hurry()
        cluster.check_moved()


@suite.case('the target is killed while it receives rows: it deletes them, and the source begins again')
def _(run):
    with Shards(**SLOWLY) as cluster:
        cluster.fill(1000)
        cluster.begin()
        wait_for(lambda: any(int(line['keys']) for line in cluster.moves(TARGET)), 'rows at the target')
        cluster.restart(TARGET)
        check(isinstance(cluster.get(TARGET, 'GET', MOVED[0]), ReplyError), 'the target serves what it does not own')
        cluster.hurry()
        cluster.check_moved()


@suite.case('the target is killed when it has all rows and the source has released them: it owns them after its start')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        cluster.gate(TARGET).arm('before', MOVE_ACTIVATE)
        cluster.begin()
        check(cluster.gate(TARGET).reached.wait(patience()), 'no MOVE_ACTIVATE')
        cluster.restart(TARGET)
        cluster.wait_state(TARGET, 'staged')
        cluster.gate(TARGET).open()
        cluster.check_moved()


@suite.case('the source is killed after it has released slots: there is no way back, and it hands them over after its start')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        cluster.gate(TARGET).arm('before', MOVE_ACTIVATE)
        cluster.begin()
        check(cluster.gate(TARGET).reached.wait(patience()), 'no MOVE_ACTIVATE')
        cluster.restart(SOURCE)
        cluster.wait_state(SOURCE, 'handing-over')
        released = [slots_of(line) for line in cluster.moves(SOURCE) if line['state'] == 'handing-over']
        name = next(name for name in MOVED if slot_of(name) in released[0])
        check(isinstance(cluster.get(SOURCE, 'GET', name), ReplyError), 'the source serves what it has released')
        cluster.gate(TARGET).open()
        cluster.check_moved()


@suite.case('the reply of a target that owns the slots is lost, and both are killed: the slots are handed over once')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        cluster.gate(TARGET).arm('after', MOVE_ACTIVATE)
        cluster.begin()
        check(cluster.gate(TARGET).reached.wait(patience()), 'no MOVE_ACTIVATE')
        wait_for(lambda: any('shard=b1p0' in line.decode() and 'here=yes' in line.decode() and 'epoch=2' in line.decode()
                             for line in cluster.get(TARGET, 'SCREE', 'OWNERS')), 'the target to own slots')
        cluster.restart(TARGET)
        cluster.restart(SOURCE)
        cluster.gate(TARGET).open()
        cluster.check_moved()


@suite.case('the source is killed while it deletes what it has given away: it deletes the rest after its start')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        cluster.begin()
        with cluster.partition(SOURCE) as partition:
            wait_for(lambda: any(line['state'] == 'purging' for line in shard_lines(partition)[1:]) or
                     shard_lines(partition)[0]['settled'] == 'yes', 'the source to delete')
        cluster.restart(SOURCE)
        cluster.check_moved()


@suite.case('the source is lost for good when the target has all rows: FORCE keeps them, and loses what came later')
def _(run):
    with Shards(**{'lock-timeout': '200ms'}) as cluster:
        cluster.fill()
        cluster.gate(TARGET).arm('after', MOVE_END)
        cluster.begin()
        check(cluster.gate(TARGET).reached.wait(patience()), 'no MOVE_END')
        cluster.wait_state(TARGET, 'staged')
        staged = [slots_of(line) for line in cluster.moves(TARGET) if line['state'] == 'staged']
        names = [name for name in MOVED if any(slot_of(name) in slots for slots in staged)]
        # the source has heard nothing, so it serves the slots again
        wait_for(lambda: cluster.get(SOURCE, 'SET', names[0], 'later') == b'OK', 'the source to take writes again')
        cluster.backends[SOURCE].kill9()
        reply = cluster.get(TARGET, 'GET', names[0])
        check(isinstance(reply, ReplyError) and str(reply).startswith('TRYAGAIN'), repr(reply))
        check(isinstance(cluster.get(TARGET, 'SCREE', 'OWNERS', 'FORCE'), ReplyError), 'FORCE without the acknowledgement')
        wait_for(lambda: forced_slots(cluster.get(TARGET, 'SCREE', 'OWNERS', 'FORCE', 'LOSE-KEYS')), 'FORCE')
        wait_for(lambda: cluster.get(TARGET, 'GET', MOVED[-1]) is None or
                 not isinstance(cluster.get(TARGET, 'GET', MOVED[-1]), ReplyError), 'the slots to be owned')
        with cluster.partition(TARGET) as partition:
            values = [value[1] for value in partition.pipeline([('GET', name) for name in names])]
            check(all(value and value.startswith(name.encode() + b'x') for name, value in zip(names, values)), 'the staged keys')
            check_equal(partition.get('SET', names[0], 'newest'), b'OK')
        cluster.restart(TARGET)
        check_equal(cluster.get(TARGET, 'GET', names[0]), b'newest')
        wait_for(lambda: not cluster.moves(TARGET), 'the rows of other slots to be deleted')
        # the lost shard comes back with its old data: it gives the slots up
        cluster.gate(TARGET).open()
        cluster.backends[SOURCE].start()
        wait_for(lambda: str(cluster.get(SOURCE, 'GET', names[0])).startswith('MOVED'), 'the lost shard to give the slots up')
        check_equal(cluster.get(TARGET, 'GET', names[0]), b'newest')


@suite.case('the source is lost for good when the target has some rows: FORCE deletes these and gives empty slots')
def _(run):
    with Shards(**SLOWLY) as cluster:
        cluster.fill(1000)
        cluster.begin()
        wait_for(lambda: any(int(line['keys']) for line in cluster.moves(TARGET)), 'rows at the target')
        cluster.backends[SOURCE].kill9()
        copying = [slots_of(line) for line in cluster.moves(TARGET) if line['state'] == 'copying']
        names = [name for name in MOVED if any(slot_of(name) in slots for slots in copying)]
        wait_for(lambda: forced_slots(cluster.get(TARGET, 'SCREE', 'OWNERS', 'FORCE', 'LOSE-KEYS')), 'FORCE')
        # two groups of slots were moving, and each becomes owned when its rows are deleted
        with cluster.partition(TARGET) as partition:
            wait_for(lambda: all(kind != '-' for kind, _ in partition.pipeline([('GET', name) for name in names])), 'the slots to be owned')
            check_equal(partition.pipeline([('GET', name) for name in names]), [('$', None)] * len(names))
            check_equal(partition.get('SET', names[0], 'new'), b'OK')
        wait_for(lambda: not cluster.moves(TARGET), 'the moves to end')
        cluster.restart(TARGET)
        check_equal(cluster.get(TARGET, 'GET', names[0]), b'new')


@suite.case('a target that had all rows, and was down when the map removed it, deletes them after its start')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        cluster.gate(TARGET).arm('after', MOVE_END)
        cluster.write_shards(['0-4095', '4096-16383'])
        check(cluster.gate(TARGET).reached.wait(patience()), 'no MOVE_END')
        cluster.wait_state(TARGET, 'staged')
        cluster.backends[TARGET].kill9()
        write_alone(cluster)
        wait_for(lambda: not cluster.moves(SOURCE), 'the source to give the move up')
        cluster.gate(TARGET).open()
        cluster.backends[TARGET].start()
        wait_for(lambda: not cluster.moves(TARGET), 'the target to delete what it has')
        wait_for(lambda: cluster.get(SOURCE, 'DBSIZE') == len(NAMES), 'the target to give away its slots')
        cluster.write_shards(SECOND)
        cluster.check_moved()


def write_alone(cluster):
    """A map in which the first shard has all slots, and the second one is missing."""
    cluster.slots = ['0-16383', '']
    text = cluster.shards_text()
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write(text[:text.index('[shard b1p0]')])
    os.rename(cluster.shards_path + '.new', cluster.shards_path)


@suite.case('moves stay paused after a restart, until RESUME')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        check_equal(cluster.get(SOURCE, 'SCREE', 'MOVES', 'PAUSE'), [b'partition=0 paused=1'])
        cluster.restart(SOURCE)
        cluster.begin()
        with cluster.partition(SOURCE) as partition:
            wait_for(lambda: shard_lines(partition)[0]['map_epoch'] == str(cluster.epoch), 'the new map')
            wait_for(lambda: 'PAUSE' in partition.get('SCREE', 'MOVES')[0].decode(), 'the reason')
            line = shard_lines(partition)[0]
            check_equal((line['paused'], line['moves'], line['to_send']), ('yes', '0', '4096'))
            check_equal(partition.get('SCREE', 'MOVES', 'RESUME'), [b'partition=0 paused=0'])
        cluster.restart(SOURCE)
        cluster.check_moved()
        check_equal(fields(cluster.get(SOURCE, 'SCREE', 'MOVES')[0])['paused'], 'no')


@suite.case('fields of hashes keep their TTL when their slots move, and then expire at the new owner')
def _(run):
    with Shards() as cluster:
        key = next('hash:%d' % i for i in range(10000) if 4096 <= slot_of('hash:%d' % i) <= 8191)
        with cluster.partition(SOURCE) as partition:
            check_equal(partition.get('HSET', key, 'stays', 1, 'late', 2, 'soon', 3), 3)
            check_equal(partition.get('HPEXPIREAT', key, 4000000000000, 'FIELDS', 1, 'late'), [1])
            check_equal(partition.get('HPEXPIRE', key, 6000, 'FIELDS', 1, 'soon'), [1])
            soon = partition.get('HPEXPIRETIME', key, 'FIELDS', 1, 'soon')
        cluster.begin()
        wait_settled(cluster)
        with cluster.partition(TARGET) as partition:
            check(partition.get('HPEXPIRETIME', key, 'FIELDS', 3, 'stays', 'late', 'soon') in
                  ([-1, 4000000000000] + soon, [-1, 4000000000000, -2]), 'the times to live')
            wait_for(lambda: partition.get('HLEN', key) == 2, 'the field to expire by itself')
            check_equal(partition.get('HMGET', key, 'stays', 'late', 'soon'), [b'1', b'2', None])
            check_equal(partition.get('HPEXPIRE', key, 100, 'FIELDS', 1, 'late'), [1])
            wait_for(lambda: partition.get('HLEN', key) == 1, 'the other field to expire')
        check_equal(cluster.get(SOURCE, 'SCREE', 'STRAYS'), [])


@suite.case('function libraries are copied to another process once, not with each move')
def _(run):
    with Shards(**{'migration-moves': 4}) as cluster:
        check_equal(cluster.get(SOURCE, 'FUNCTION', 'LOAD', LIBRARY), b'lib')
        for slots in (['0-7999', '8000-16383'], ['0-7000', '7001-16383'], ['0-6000', '6001-16383']):
            cluster.write_shards(slots)
            wait_settled(cluster)
        sizes = cluster.gate(TARGET).sizes
        check(len(sizes) >= 3 and sizes[0] > len(LIBRARY), 'the first requests: %r' % sizes)
        check(all(size < 1000 for size in sizes[-2:]), 'the later requests: %r' % sizes)


@suite.case('a slot with a damaged key does not move, the others do; the key is named, and can be deleted')
def _(run):
    with Shards() as cluster:
        cluster.fill()
        name, backend = MOVED[0], cluster.backends[SOURCE]
        check_equal(cluster.get(SOURCE, 'SET', name, 'damage this'), b'OK')
        backend.kill9()
        damage_string(os.path.join(backend.data, 'partition-0'), b'damage this')
        backend.start()
        check(isinstance(cluster.get(SOURCE, 'GET', name), ReplyError), 'the key can be read')
        cluster.begin()
        damaged = 'slot %d has a damaged metadata row' % slot_of(name)
        wait_for(lambda: damaged in cluster.get(SOURCE, 'SCREE', 'MOVES')[0].decode(), 'the reason')
        wait_for(lambda: fields(cluster.get(SOURCE, 'SCREE', 'MOVES')[0])['to_send'] == '1' and not cluster.moves(SOURCE),
                 'the other slots to move')
        check(b'slot_damaged' in backend.log() and b'slot=%d' % slot_of(name) in backend.log(), 'the log')
        backend.kill9()
        tool = [backend.argv[0], '--check-data', backend.data, '--repair', '--drop-damaged']
        text = subprocess.run(tool, capture_output=True, check=True).stdout
        check(b'key %s (slot %d' % (name.encode(), slot_of(name)) in text, text)
        backend.start()
        wait_settled(cluster)
        check_equal(cluster.get(TARGET, 'GET', name), None)
        check_equal(cluster.get(TARGET, 'SET', name, name + 'x'), b'OK')
        cluster.check_moved()


suite.main()
