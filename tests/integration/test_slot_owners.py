#!/usr/bin/python3
"""Backends with a shard map own slots: a changed map never makes a key live twice."""

import os
import re
import shutil
import time

from support.cluster import Backend, Cluster, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.moves import forced_slots, wait_settled
from support.resp import Connection, ReplyError
from support.slots_liar import SlotsLiar

suite = Suite(__doc__)
KEYS = ['key:%d' % i for i in range(60)]
HALVES = ['0-8191', '8192-16383']
SWAPPED = ['8192-16383', '0-8191']


def owners(connection, here=True):
    """The runs of slots that the shard owns itself, or (with here=False) whose owners it knows, as (slots, shard)."""
    lines = [dict(word.split('=', 1) for word in line.decode().split()) for line in connection.get('SCREE', 'OWNERS')]
    return [(line['slots'], line['shard']) for line in lines if (line['here'] == 'yes') == here]


def wait_owners(cluster):
    """Waits until both shards own their halves."""
    for shard, slots in enumerate(HALVES):
        with cluster.partition(shard) as partition:
            wait_for(lambda: owners(partition) == [(slots, 'b%dp0' % shard)], 'shard %d to own its slots' % shard)


def pair(**options):
    return Cluster(backends=2, partitions=1, linked=True, **options)


def error_of(connection, *words):
    reply = connection.get(*words)
    check(isinstance(reply, ReplyError), '%r: %r is no error' % (words, reply))
    return str(reply)


def forced(partition):
    return forced_slots(partition.get('SCREE', 'OWNERS', 'FORCE', 'LOSE-KEYS'))


def wait_none_forced(partition):
    """FORCE gives this shard no slot, as soon as others have answered."""
    forced_now, = wait_for(lambda: [count for count in [forced(partition)] if count is not None], 'FORCE to be possible')
    check_equal(forced_now, 0, 'slots that were forced')


def wait_forced(partition):
    wait_for(lambda: forced(partition), 'FORCE')


@suite.case('shards claim the slots of the first map, know the owners of the others, and keep both over restarts')
def _(run):
    with pair() as cluster:
        wait_owners(cluster)
        with cluster.partition(0) as first:
            wait_for(lambda: owners(first, here=False) == [('8192-16383', 'b1p0')], 'the other owner')
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        wait_owners(cluster)


@suite.case('while two owners are swapped by a new map no key reads as missing, and no write lands twice')
def _(run):
    with pair() as cluster, cluster.connect() as client:
        wait_owners(cluster)
        values = {}
        for key in KEYS:
            check_equal(client.get('SET', key, 'old'), b'OK')
        cluster.write_shards(SWAPPED)
        client.get('SCREE', 'RELOAD')
        for key in KEYS:
            reply = client.get('GET', key)
            check(reply == b'old' or str(reply).startswith('TRYAGAIN'), 'GET: %r' % reply)
            reply = client.get('SET', key, 'new')
            check(reply == b'OK' or str(reply).startswith('TRYAGAIN'), 'SET: %r' % reply)
            values[key] = b'new' if reply == b'OK' else b'old'
        wait_settled(cluster)
        check_equal({key: client.get('GET', key) for key in KEYS}, values)
        for shard in range(2):
            with cluster.partition(shard) as partition:
                keys = sorted(key.decode() for key in partition.get('KEYS', '*'))
                check_equal(keys, sorted(key for key in KEYS if cluster.shard_of(key) == shard), 'the keys of shard %d' % shard)


@suite.case('a client of a backend is told MOVED with the owner, for commands, queues, scripts and watches')
def _(run):
    with pair() as cluster:
        wait_owners(cluster)
        far, near = cluster.key_on(1, 'far'), cluster.key_on(0, 'near')
        host, port = cluster.shard_addresses()[1][1]
        moved = 'MOVED %d %s:%d' % (slot_of(far), host, port)
        with cluster.partition(0) as client:
            wait_for(lambda: owners(client, here=False), 'the other owner')
            for words in (['GET', far], ['SET', far, 1], ['WATCH', far], ['BLPOP', far, 1], ['DEL', far],
                          ['EVAL', 'return 1', 1, far]):
                check_equal(error_of(client, *words), moved, repr(words))
            for words in (['MSET', near, 1, far, 2], ['MGET', near, far],
                          ['EVAL', "redis.call('SET', KEYS[1], 1) return 1", 2, near, far]):
                check(error_of(client, *words).startswith('CROSSSLOT'), repr(words))
            check_equal(client.get('EXISTS', near), 0, 'a refused command has written')
            check_equal(client.get('MULTI'), b'OK')
            check_equal(client.get('SET', near, 1), b'QUEUED')
            check_equal(error_of(client, 'SET', far, 1), moved)
            check(error_of(client, 'EXEC').startswith('EXECABORT'), 'EXEC')
            check_equal(client.get('EXISTS', near), 0, 'EXEC has written')
            script = "redis.call('SET', KEYS[1], 1) return redis.call('GET', '%s')" % far
            check('non local key' in error_of(client, 'EVAL', script, 1, near), 'an undeclared key')
            check_equal(client.get('SET', near, 1), b'OK')


@suite.case('a backend that starts with a copy of a shard\'s disk at another address serves no key until the map says so')
def _(run):
    with pair() as cluster, cluster.connect() as client:
        wait_owners(cluster)
        key, original, copy = cluster.key_on(0), cluster.backends[0], Backend(cluster, 2, cluster.backends[0].options)
        check_equal(client.get('SET', key, 'v'), b'OK')
        original.kill9()
        shutil.copytree(original.data, copy.data)
        original.start()
        cluster.start_retrying(copy)
        try:
            with Connection(copy.addresses[0]) as direct:
                for words in (['GET', key], ['SET', key, 'w'], ['EVAL', "return redis.call('GET', KEYS[1])", 1, key]):
                    check(error_of(direct, *words).startswith(('TRYAGAIN', 'MOVED')), repr(words))
            wait_for(lambda: copy.http('/readyz')[0] == 503, 'the copy not to be ready')
            wait_for(lambda: b'shard_elsewhere shard=b0p0' in copy.log(), 'the log to say why')
            check_equal(client.get('GET', key), b'v')
            original.stop()
            cluster.backends[0], copy.index = copy, 0  # the map names the shard by it
            cluster.write_shards()
            client.get('SCREE', 'RELOAD')
            wait_for(lambda: client.get('GET', key) == b'v', 'the copy to serve the shard, when the map has its address')
            wait_for(lambda: copy.http('/readyz')[0] == 200, 'the copy to be ready')
        finally:
            copy.stop()


@suite.case('a shard that joins owns nothing: its slots have owners, and it refuses their keys')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        with cluster.partition(2) as third:
            wait_for(lambda: owners(third), 'the third shard to own its slots')
            slots = owners(third)
        cluster.backends[2].kill9()
        shutil.rmtree(cluster.backends[2].data)
        with_map = ['0-10000', '10001-14000', '14001-16383']
        cluster.write_shards(with_map)
        cluster.backends[2].start()
        with cluster.partition(2) as third:
            wait_for(lambda: owners(third, here=False), 'the owners that the third shard knows')
            time.sleep(0.5)
            check_equal(owners(third), [], 'the joining shard has claimed %r' % slots)
            taken = next('k%d' % i for i in range(100000) if 14001 <= slot_of('k%d' % i))
            check(error_of(third, 'SET', taken, 1).startswith(('MOVED', 'CLUSTERDOWN')), 'a foreign key was taken')


@suite.case('a store of before claims what the map gives it, and its other keys are strays')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, cluster.connect() as client:
        for key in KEYS:
            check_equal(client.get('SET', key, 'old'), b'OK')
        with cluster.partition(0) as first:
            stray = cluster.key_on(1, 'stray')
            check_equal(first.get('SET', stray, 'old'), b'OK')
        cluster.write_shards(HALVES)
        for backend in cluster.backends:
            backend.kill9()
            backend.options = dict(backend.options)
            backend.options['backend'] = dict(backend.options.get('backend', {}), shards=cluster.shards_path)
            backend.write_config()
            backend.start()
        wait_owners(cluster)
        for key in KEYS:
            wait_for(lambda: client.get('GET', key) == b'old', 'the key %s' % key)
        with cluster.partition(0) as first:
            wait_for(lambda: owners(first, here=False), 'the other owner')
            lines = first.get('SCREE', 'STRAYS')
            slot = slot_of(stray)
            check(len(lines) == 1 and b'slots=%d-%d keys=1 owner=b1p0' % (slot, slot) in lines[0], repr(lines))
            check(error_of(first, 'GET', stray).startswith('MOVED'), 'a stray was served')


@suite.case('FORCE gives the slots of a lost shard to others; when it comes back, it gives them up')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster, cluster.connect() as client:
        lost, near = cluster.key_on(2), cluster.key_on(0)
        check_equal(client.get('SET', lost, 'old'), b'OK')
        check_equal(client.get('SET', near, 'old'), b'OK')
        with cluster.partition(0) as first:
            wait_for(lambda: len(owners(first, here=False)) == 2, 'the other owners')
            cluster.backends[2].kill9()
            wait_none_forced(first)
            cluster.write_shards(['0-5460', '5461-16383', ''])
            epoch = b'peers_map_epoch:%d\r' % cluster.epoch
            with cluster.partition(1) as second:
                wait_for(lambda: epoch in second.get('INFO', 'peers'), 'the backend to have read the map')
                wait_forced(second)
                wait_for(lambda: ('10922-16383', 'b1p0') in owners(second), 'the claimed slots')
                check_equal(second.get('SET', lost, 'new'), b'OK')
        cluster.backends[2].start()
        with cluster.partition(2) as third:
            wait_for(lambda: owners(third) == [], 'the lost shard to give its slots up')
            check(error_of(third, 'GET', lost).startswith('MOVED'), 'an old value')
        cluster.backends[2].kill9()
        cluster.backends[2].start()
        with cluster.partition(2) as third:
            check(error_of(third, 'GET', lost).startswith('MOVED'), 'an old value after a restart')
        check_equal(client.get('GET', near), b'old')


def without(shard):
    """A function that leaves the shard out of the text of a map."""
    return lambda text: re.sub(r'\[shard b%dp0\]\n(.+\n)+\n*' % shard, '', text)


def write_map(cluster, text):
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write(text)
    os.rename(cluster.shards_path + '.new', cluster.shards_path)


def forced_and_back(cluster, back, forced, slots, old_map=str, new_map=str):
    """The shard `back` is lost, others get its slots by force ({shard: slots}), and it comes back with its disk and the map of before."""
    with open(cluster.shards_path) as file:
        old = old_map(file.read())
    with cluster.partition(0) as first:
        wait_for(lambda: len(owners(first, here=False)) == len([text for text in cluster.slots if text]) - 1, 'the other owners')
    cluster.backends[back].kill9()
    write_map(cluster, new_map(cluster.shards_text(slots)))
    for taker, taken in forced.items():
        with cluster.partition(taker) as partition:
            wait_forced(partition)
            wait_for(lambda: taken in dict(owners(partition)), 'the claimed slots')
        with cluster.partition(0) as first:
            wait_for(lambda: (taken, 'b%dp0' % taker) in owners(first, here=taker == 0), 'the first shard to believe the claim')
    write_map(cluster, old)  # only this shard reads it
    cluster.backends[back].start()
    with cluster.partition(back) as partition:
        check(b'map_epoch=%d ' % (cluster.epoch - 1) in partition.get('SCREE', 'MOVES')[0], 'it has the old map')
        wait_for(lambda: owners(partition) == [], 'the shard with the old map to give its slots up')


@suite.case('a shard that comes back with old data and an old map gives up what others have, because a third shard confirms it')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True) as cluster:
        forced_and_back(cluster, 2, {1: '10922-16383'}, ['0-5460', '5461-16383', ''])


@suite.case('of two shards the one that comes back with old data and an old map gives up what the other has')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True) as cluster:
        forced_and_back(cluster, 1, {0: '8192-16383'}, ['0-16383', ''])


@suite.case('a shard that comes back with old data and an old map gives up what two others have')
def _(run):
    with Cluster(backends=4, partitions=1, linked=True) as cluster:
        forced_and_back(cluster, 3, {1: '12288-14335', 2: '14336-16383'}, ['0-4095', '4096-8191 12288-14335', '8192-12287 14336-16383', ''])


@suite.case('a shard that comes back with an old map that lacks the new owner gives up its slots, because two others confirm it')
def _(run):
    with Cluster(backends=4, partitions=1, linked=True, slots=['0-5460', '5461-10921', '10922-16383', '']) as cluster:
        forced_and_back(cluster, 2, {3: '10922-16383'}, ['0-5460', '5461-10921', '', '10922-16383'],
                        old_map=without(3), new_map=without(2))


QUARTERS = ['0-4095', '4096-8191', '8192-12287', '12288-16383']
LAST = QUARTERS[3]


def wait_epoch(cluster, partition):
    line = b'peers_map_epoch:%d\r' % cluster.epoch
    wait_for(lambda: line in partition.get('INFO', 'peers'), 'the backend to have read the map')


def forced_beside_paused(cluster, second, third):
    """The last of four shards is lost. While the third is stopped, a map gives its slots to the second, which is forced to claim them."""
    wait_for(lambda: len(owners(third, here=False)) == 3, 'the other owners')
    cluster.backends[3].kill9()
    cluster.backends[2].pause()
    cluster.write_shards([QUARTERS[0], '4096-8191 12288-16383', QUARTERS[2], ''])
    wait_epoch(cluster, second)
    wait_forced(second)
    wait_for(lambda: (LAST, 'b1p0') in owners(second), 'the claimed slots')


@suite.case('FORCE leaves the slots that a connected shard has claimed by an older map; it gives them away by a move')
def _(run):
    with Cluster(backends=4, partitions=1, linked=True, slots=QUARTERS) as cluster, cluster.connect() as client:
        with cluster.partition(1) as second, cluster.partition(2) as third:
            forced_beside_paused(cluster, second, third)
            key = next(key for key in ('key:%d' % i for i in range(1000)) if slot_of(key) >= 12288)
            check_equal(second.get('SET', key, 'kept'), b'OK')
            check_equal(second.get('SCREE', 'MOVES', 'PAUSE'), [b'partition=0 paused=1'])
            cluster.write_shards([QUARTERS[0], QUARTERS[1], '8192-16383', ''])
            cluster.backends[2].resume()
            wait_epoch(cluster, third)
            wait_none_forced(third)
            check_equal(owners(third), [(QUARTERS[2], 'b2p0')])
            check_equal(second.get('SCREE', 'MOVES', 'RESUME'), [b'partition=0 paused=0'])
            wait_for(lambda: (LAST, 'b2p0') in owners(third), 'the slots to move')
            check_equal(client.get('GET', key), b'kept')


@suite.case('of two shards that are forced by two maps, and do not hear each other, the one of the newer map keeps the slots')
def _(run):
    with Cluster(backends=4, partitions=1, linked=True, slots=QUARTERS) as cluster:
        with cluster.partition(1) as second, cluster.partition(2) as third:
            forced_beside_paused(cluster, second, third)
            cluster.backends[1].pause()
            cluster.write_shards([QUARTERS[0], QUARTERS[1], '8192-16383', ''])
            cluster.backends[2].resume()
            wait_epoch(cluster, third)
            wait_forced(third)
            wait_for(lambda: (LAST, 'b2p0') in owners(third), 'the claimed slots')
            cluster.backends[1].resume()
            wait_for(lambda: owners(second) == [(QUARTERS[1], 'b1p0')], 'the shard of the older map to give the slots up')
            check_equal(owners(third), [(QUARTERS[2], 'b2p0'), (LAST, 'b2p0')])


# ---- a shard that lies ----------------------------------------------------------------------------------------------

MOST = (1 << 64) - 1  # the highest epoch that an answer can name


def runs_of(partition):
    """{slots: shard} of all slots whose owners the shard knows."""
    return dict(owners(partition) + owners(partition, here=False))


LIES = ([(0, 16383, MOST, 'b2p0'), (0, 5460, MOST, 'b1p0'), (5461, 10921, MOST, 'b0p0'), (0, 10921, 1 << 62, 'nowhere')])


def told(liar, lies, claims=LIES):
    """The shard behind the relay lies, until the others have asked so many times."""
    liar.tell(claims)
    wait_for(lambda: liar.lies >= lies, 'the others to ask')


@suite.case('a shard that claims slots of others with a higher epoch, or gives them to a third one, changes no owner')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, relay=SlotsLiar) as cluster, cluster.connect() as client:
        keys = [cluster.key_on(shard) for shard in range(3)]
        check_equal([client.get('SET', key, 'mine') for key in keys], [b'OK'] * 3)
        liar = list(cluster.relays.values())[2]
        with cluster.partition(1) as second:
            wait_for(lambda: len(runs_of(second)) == 3, 'the owners of all slots')
            before = runs_of(second)
            told(liar, 4)
            with cluster.partition(0) as first:
                check_equal((runs_of(first), runs_of(second)), (before, before))
            cluster.backends[0].kill9()  # while the owner is silent, nothing it owns is taken either
            told(liar, 2)
            check_equal(runs_of(second), before)
            cluster.backends[0].start()
            told(liar, 4)
            with cluster.partition(0) as first:
                check_equal((runs_of(first), runs_of(second)), (before, before))
        check_equal([client.get('GET', key) for key in keys], [b'mine'] * 3)


@suite.case('beside a shard that claims all slots, slots still move, and FORCE takes those of the shard itself')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, relay=SlotsLiar) as cluster, cluster.connect() as client:
        keys = [cluster.key_on(shard) for shard in range(3)]
        check_equal([client.get('SET', key, 'mine') for key in keys], [b'OK'] * 3)
        liar = list(cluster.relays.values())[2]
        told(liar, 4)
        cluster.write_shards(['5461-10921', '0-5460', '10922-16383'])
        wait_settled(cluster)
        check_equal([client.get('GET', key) for key in keys], [b'mine'] * 3)
        with cluster.partition(0) as first, cluster.partition(1) as second:
            wait_for(lambda: ('0-5460', 'b1p0') in owners(first, here=False), 'the new owner')
            check_equal((owners(first), owners(second)), ([('5461-10921', 'b0p0')], [('0-5460', 'b1p0')]))
            cluster.backends[2].kill9()
            cluster.write_shards(['5461-10921', '0-5460 10922-16383', ''])
            wait_forced(second)
            wait_for(lambda: ('10922-16383', 'b1p0') in owners(second), 'the claimed slots')
            check_equal(second.get('SET', keys[2], 'new'), b'OK')
            wait_for(lambda: ('10922-16383', 'b1p0') in owners(first, here=False), 'the other shard to believe it')


@suite.case('FORCE takes the slots of a lost shard that a connected shard has claimed, when its next answer no longer has the claim')
def _(run):
    with Cluster(backends=3, partitions=1, linked=True, relay=SlotsLiar) as cluster:
        liar = list(cluster.relays.values())[2]
        with cluster.partition(1) as second:
            wait_for(lambda: len(owners(second, here=False)) == 2, 'the other owners')
            cluster.backends[0].kill9()
            cluster.write_shards(['', '0-10921', '10922-16383'])
            wait_epoch(cluster, second)
            told(liar, 2, [(0, 5460, 1 << 40, 'b2p0'), (10922, 16383, 1, 'b2p0')])
            wait_none_forced(second)
            check_equal(owners(second), [('5461-10921', 'b1p0')])
            liar.tell(None)
            wait_forced(second)
            wait_for(lambda: ('0-5460', 'b1p0') in owners(second), 'the claimed slots')


@suite.case('a shard that names more owners of a slot than there can be shards ends no backend')
def _(run):
    with Cluster(backends=2, partitions=1, linked=True, relay=SlotsLiar) as cluster:
        liar = list(cluster.relays.values())[1]
        cluster.backends[0].kill9()
        shutil.rmtree(cluster.backends[0].data)  # it has nothing to compare with
        liar.tell([(16383, 16383, 2 + i, 'n%d' % i) for i in range(70000)])
        cluster.backends[0].start()
        wait_for(lambda: liar.lies >= 3, 'the other shard to ask')
        with cluster.partition(0) as first:
            check_equal(first.get('PING'), b'PONG')


suite.main()
