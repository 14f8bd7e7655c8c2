#!/usr/bin/python3
"""Compaction on demand: disk use shrinks, progress is shown, it can be cancelled, interrupted and killed, and loses no
data.
"""

import contextlib
import os
import time

from support.cluster import Cluster, evict_all, metric
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection

suite = Suite(__doc__)
KEYS = 1000
MEMBERS = 20
# Small memtables make many small files; a low rate makes compaction slow enough to be watched.
SMALL = {'memtable': '256kb', 'wal-limit': '1mb', 'compression': 'none'}
SLOW = dict(SMALL, **{'background-rate': '2mb'})


def status(client):
    reply = client.get('SCREE', 'COMPACT', 'STATUS')
    return {name.decode(): value.decode() if isinstance(value, bytes) else value
            for name, value in zip(reply[::2], reply[1::2])}


def is_idle(client):
    return status(client)['state'] == 'idle'


def disk_use(folder):
    used = 0
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # another compaction has just removed it
            used += os.stat(os.path.join(folder, name)).st_size if name.endswith('.sst') else 0
    return used


def value(i, turn):
    return '%d:%d:' % (i, turn) + 'x' * 1000


def fill(client, turns):
    """Writes keys and collections several times; deletes every fifth at the end."""
    for turn in range(turns):
        client.pipeline([['SET', 'key:%d' % i, value(i, turn)] for i in range(KEYS)])
        client.pipeline([['HSET', 'hash:%d' % i] + [word for n in range(MEMBERS) for word in ('f%d' % n, value(n, turn)[:200])]
                         for i in range(KEYS // MEMBERS)])
    client.pipeline([['DEL', 'key:%d' % i, 'hash:%d' % i] for i in range(0, KEYS, 5)])


def check_data(client, turns):
    last = turns - 1
    keys = client.get('MGET', *('key:%d' % i for i in range(KEYS)))
    check_equal([i for i in range(KEYS) if keys[i] != (value(i, last).encode() if i % 5 else None)], [], 'wrong keys')
    for i in range(KEYS // MEMBERS):
        check_equal(client.get('HLEN', 'hash:%d' % i), MEMBERS if i % 5 else 0, 'fields of hash %d' % i)
        check_equal(client.get('HGET', 'hash:%d' % i, 'f1'), value(1, last)[:200].encode() if i % 5 else None, 'a field')


@suite.case('a full compaction removes deleted and overwritten rows from the disk, and its progress and end are shown')
def _(run):
    # so slow at first that the store's own compactions leave everything to the one that is asked for
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': dict(SLOW, **{'background-rate': '1'})}) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])
        check_equal(status(client)['last-status'], '', 'there was none')
        fill(client, 1)
        client.pipeline([['DEL', 'key:%d' % i, 'hash:%d' % i] for i in range(KEYS)])
        client.pipeline([['SET', 'key:%d' % i, value(i, 1)] for i in range(0, KEYS, 10)])
        evict_all(client)
        folder = os.path.join(backend.data, 'partition-0')
        before = disk_use(folder)
        check_equal(client.get('CONFIG', 'SET', 'store-background-rate', SLOW['background-rate']), b'OK')
        check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'), 'START')
        refused = client.call('SCREE', 'COMPACT', 'START')
        check(refused[0] == '-' and refused[1].startswith(b'INPROG ') or is_idle(client), 'a second: %r' % (refused,))
        seen = []
        wait_for(lambda: seen.append(status(client)) or seen[-1]['state'] == 'idle', 'compaction to end', 120)
        last = seen[-1]
        check_equal(last['last-status'], 'ok', 'its end')
        check(last['last-ended-ms'] > 0, 'when it ended: %r' % last)
        check(last['last-disk-bytes-after'] < last['last-disk-bytes-before'], 'what it did: %r' % last)
        done = [look['bytes-done'] for look in seen[:-1]]
        check_equal(done, sorted(done), 'progress goes forward')
        after = disk_use(folder)
        check(after < before / 2, 'files of %d bytes became %d' % (before, after))
        info = client.get('INFO', 'persistence')
        check(b'compaction_state:idle' in info and b'compaction_last_status:ok' in info, 'INFO: %r' % info)
        for words in (['x'], ['START', 'x'], ['']):
            check_equal(client.call('SCREE', 'COMPACT', *words)[0], '-', 'refused: %r' % words)
        check_equal(client.get('DBSIZE'), KEYS / 10, 'keys')
        run.debug('%d bytes became %d, %d looks' % (before, after, len(seen)))


def begin(client):
    """Starts a compaction. True: its progress was seen."""
    check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'), 'START')
    seen = []
    wait_for(lambda: seen.append(status(client)) or seen[-1]['state'] == 'idle' or seen[-1]['bytes-total'] > 0, 'it to begin')
    return seen[-1]['state'] == 'running'


def is_shown(backend, client):
    """Reads INFO and /metrics once during a compaction. False: it ended before."""
    return (begin(client) and b'compaction_state:running' in client.get('INFO', 'persistence') and
            b'aof_rewrite_in_progress:1' in client.get('INFO', 'persistence') and
            client.call('BGREWRITEAOF')[0] == '-' and
            (metric(backend.http('/metrics')[1], 'scree_backend_store_compact_total_bytes') or 0) > 0)


def is_cancelled(client):
    """Cancels a compaction once in the middle. False: it ended before."""
    began = begin(client)
    told = client.get('SCREE', 'COMPACT', 'CANCEL')
    wait_for(lambda: is_idle(client), 'the compaction to end')
    return began and told == 1 and status(client)['last-status'] == 'cancelled'


@suite.case('a running compaction is shown, can be cancelled, and started again')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': SLOW}) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        fill(client, 3)
        wait_for(lambda: is_idle(client) and is_cancelled(client), 'one to be cancelled', 120)
        check_equal(client.get('SCREE', 'COMPACT', 'CANCEL'), 0, 'CANCEL of none')
        wait_for(lambda: is_idle(client) and is_shown(cluster.backends[0], client), 'one to be shown', 120)
        check_data(client, 3)


@suite.case('within compaction-window everything is compacted once, and not after its end')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': SLOW}) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        def set_window(from_s, until_s):
            times = [time.strftime('%H:%M', time.gmtime(time.time() + after_s)) for after_s in (from_s, until_s)]
            check_equal(client.get('CONFIG', 'SET', 'store-compaction-window', '-'.join(times)), b'OK')
        fill(client, 3)
        set_window(7200, 10800)
        check_equal(status(client)['last-status'], '', 'before the hours')
        set_window(-3600, 3600)
        wait_for(lambda: not is_idle(client) or status(client)['last-status'], 'the hours to begin it')
        set_window(7200, 10800)
        wait_for(lambda: status(client)['last-status'] in ('cancelled', 'ok'), 'their end to end it', 120)
        first_ms = status(client)['last-ended-ms']
        set_window(-7200, 3600)
        wait_for(lambda: status(client)['last-ended-ms'] > first_ms, 'other hours to begin it anew', 120)
        ended_ms = status(client)['last-ended-ms']
        uptime = lambda: int(client.get('INFO', 'server').split(b'uptime_in_seconds:')[1].split()[0])
        some_ticks_later = uptime() + 3
        wait_for(lambda: uptime() >= some_ticks_later, 'some seconds to pass')
        check_equal((status(client)['state'], status(client)['last-ended-ms']), ('idle', ended_ms), 'once in these hours')
        check_data(client, 3)


@suite.case('the server stops soon during a compaction, and kill -9 during one loses no data')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': SLOW}) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])
        fill(client, 3)
        run.debug('running: %s' % begin(client))
        began = time.monotonic()
        backend.stop()
        run.debug('stopped in %.2f s' % (time.monotonic() - began))
        for turn in range(2):
            backend.start()
            client = Connection(backend.addresses[0])
            check_data(client, 3)
            if turn == 0:
                run.debug('running: %s' % begin(client))
                backend.kill9()


def info(client, name):
    text = client.get('INFO', 'persistence').decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + ':')).split(':')[1])


@suite.case('compactions keep to background-rate, which can be changed during one; waits and rate are shown')
def _(run):
    options = {'store': dict(SMALL, **{'latency-target': '0'})}
    with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])

        def set_rate(rate):
            check_equal(client.get('CONFIG', 'SET', 'store-background-rate', rate), b'OK')
            check_equal(client.get('CONFIG', 'GET', 'store-background-rate')[1], rate.encode(), 'the rate')

        fill(client, 3)
        wait_for(lambda: begin(client) or True, 'a first one')  # it leaves few files: no compaction is pending
        wait_for(lambda: is_idle(client), 'its end', 120)
        check_equal((info(client, 'compaction_pace_bytes_per_second'), info(client, 'compaction_waited_seconds')), (0, 0), 'no limit')
        passed = info(client, 'compaction_passed_bytes')
        check(passed > 500000, 'rows that were passed: %d' % passed)
        set_rate('1mb')
        wait_for(lambda: info(client, 'compaction_pace_bytes_per_second') == 1 << 20, 'the rate to be in force')
        check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'), 'START')
        wait_for(lambda: info(client, 'compaction_waited_seconds') > 0, 'it to wait')
        text = backend.http('/metrics')[1]
        check_equal(metric(text, 'scree_backend_compaction_pace_bytes_per_second'), 1 << 20, 'the gauge')
        check(metric(text, 'scree_backend_compaction_waited_seconds_total') > 0, 'the counter')
        check(metric(text, 'scree_backend_compaction_passed_bytes_total') >= passed, 'the bytes')
        set_rate('0')
        wait_for(lambda: is_idle(client), 'it to end')
        check_equal(status(client)['last-status'], 'ok', 'its end')
        wait_for(lambda: info(client, 'compaction_pace_bytes_per_second') == 0, 'no limit again')
        check_data(client, 3)


@suite.case('a compaction that would take minutes ends at once when it is cancelled or the server stops')
def _(run):
    options = {'store': dict(SMALL, **{'latency-target': '0'})}
    with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])
        client.pipeline([['SET', 'big:%d' % i, 'x' * (8 << 20)] for i in range(8)])
        evict_all(client)

        def is_waiting():
            before = info(client, 'compaction_waited_seconds')
            begin(client)
            wait_for(lambda: is_idle(client) or info(client, 'compaction_waited_seconds') > before, 'it to wait')
            return not is_idle(client)

        check_equal(client.get('CONFIG', 'SET', 'store-background-rate', '1'), b'OK')
        wait_for(lambda: is_idle(client) and is_waiting(), 'one that waits')
        check_equal(client.get('SCREE', 'COMPACT', 'CANCEL'), 1, 'CANCEL')
        wait_for(lambda: is_idle(client), 'it to end')
        check_equal(status(client)['last-status'], 'cancelled', 'its end')
        wait_for(lambda: is_idle(client) and is_waiting(), 'another')
        backend.stop()
        backend.start()
        check_equal(Connection(backend.addresses[0]).get('STRLEN', 'big:7'), 8 << 20, 'a value')


@suite.case('at a proxy all shards compact, and their replies are merged')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=1, backend_options={'store': SMALL}) as cluster:
        client = cluster.connect(0)
        fill(client, 2)
        idle = status(client)
        check_equal((idle['state'], idle['shards'], idle['last-status']), ('idle', 4, ''), 'before: %r' % idle)
        check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'), 'START')
        wait_for(lambda: is_idle(client), 'all shards to end')
        last = status(client)
        check_equal((last['last-status'], last['shards-running'], last['shards-silent']), ('ok', 0, 0), 'the end: %r' % last)
        check(0 < last['last-disk-bytes-after'] <= last['last-disk-bytes-before'], 'sums: %r' % last)
        for shard in range(4):
            with cluster.partition(shard) as partition:
                check_equal(status(partition)['last-status'], 'ok', 'shard %d' % shard)
        check_equal(client.get('SCREE', 'COMPACT', 'CANCEL'), 0, 'CANCEL of none')
        check_equal(client.call('SCREE', 'COMPACT', 'x')[0], '-', 'an unknown word')
        check_data(client, 2)
        cluster.backends[1].kill9()
        wait_for(lambda: status(client)['shards-silent'] == 2, 'lost shards to be told')
        refused = client.call('SCREE', 'COMPACT', 'START')
        check(refused[0] == '-' and b"shard 'b1" in refused[1], 'a lost shard: %r' % (refused,))
        cluster.backends[1].start()


def is_begun_twice(client, shard):
    """Starts all shards while one is compacting. False: that one has ended before."""
    begun = begin(shard)
    check_equal(client.call('SCREE', 'COMPACT', 'START'), ('+', b'OK'), 'START of the others')
    was_running = begun and client.call('SCREE', 'COMPACT', 'START')[0] == '-'
    wait_for(lambda: is_idle(client), 'all shards to end', 120)
    return was_running


@suite.case('a shard that is compacting already does not fail SCREE COMPACT START of all shards')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, backend_options={'store': SLOW}) as cluster:
        client = cluster.connect(0)
        fill(client, 2)
        with cluster.partition(0) as shard:
            wait_for(lambda: is_begun_twice(client, shard), 'one that is running', 120)


if __name__ == '__main__':
    suite.main()
