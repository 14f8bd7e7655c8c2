#!/usr/bin/python3
"""Memory is what the configuration says: with small caches and much more data the process stays within their sum, and
with [store] memory alone, which divides itself among them, within 1.2 times as much.

    block cache + row cache + range cache + rank cache + 3 write buffers + memtables of every column family that is written
    + 4 MB for each background thread (what a flush or compaction is building) + the program as it starts
"""

import os
import re

from support.cluster import Cluster, binary, is_sanitized, metric
from support.harness import Skip, Suite, check, check_equal, wait_for
from support.resp import Connection, encode

MB = 1 << 20
ROWS, AT_ONCE, VALUE = 165000, 500, 1000
BLOCKS, CACHE, RANGES, RANKS, WRITE_BUFFER, MEMTABLE, MEMTABLES = 32 * MB, 32 * MB, 1 * MB, 1 * MB, 4 * MB, 4 * MB, 2
BACKGROUND = 2 * 4 * MB  # 4 MB for each background thread; 2 is the default of background-threads
ALLOWED = 1.2

suite = Suite(__doc__)


def rss(pid):
    with open('/proc/%d/statm' % pid) as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def pipelined(address, make, count):
    with Connection(address, proto=2) as connection:
        for start in range(0, count, AT_ONCE):
            connection.send_raw(b''.join(encode(make(start + i)) for i in range(AT_ONCE)))
            for _ in range(AT_ONCE):
                connection.read()


@suite.case("the process's resident memory stays within 20 % of the configured size")
def _(run):
    if is_sanitized(binary('scree-backend')):
        raise Skip('a sanitizer has memory of its own')
    store = {'block-cache': BLOCKS, 'row-cache': CACHE, 'range-cache': RANGES, 'rank-cache': RANKS, 'write-buffer': WRITE_BUFFER,
             'memtable': MEMTABLE, 'memtables': MEMTABLES, 'wal-limit': 32 * MB}
    with Cluster(backends=1, partitions=1, proxies=0,
                 backend_options={'store': store, 'backend': {'durability': 'os'}}) as cluster:
        backend = cluster.backends[0]
        address, alone = backend.addresses[0], rss(backend.pid)
        value = os.urandom(VALUE)
        for _ in range(3):
            pipelined(address, lambda i: ('SET', 'key:%d' % (i * 7919 % ROWS), value), ROWS // 3)
            pipelined(address, lambda i: ('GET', 'key:%d' % (i * 104729 % ROWS)), ROWS // 3)
        most = backend.peak_rss_bytes()
        with cluster.partition(0) as client:
            lines = client.get('INFO', 'memory').decode().splitlines()
            plain_keys = int(re.search(r'plain_keys_bytes:(\d+)', client.get('INFO', 'rocksdb').decode()).group(1))
            run.debug(', '.join(line for line in lines if line.startswith(('allocator_', 'mem_', 'used_memory:'))))
        configured = (BLOCKS + CACHE + RANGES + RANKS + plain_keys + 3 * WRITE_BUFFER + MEMTABLE * MEMTABLES + BACKGROUND +
                      alone)
        run.note('data %d MB, at the start %d MB, configured %d MB, most %d MB' % (
            ROWS * VALUE // MB, alone // MB, configured // MB, most // MB))
        check(most <= configured * ALLOWED, '%d MB resident, %d configured' % (most // MB, configured // MB))
        check(ROWS * VALUE > 1.3 * configured, 'too little data to tell')


MEMORY, MANY, SMALLER = 64 * MB, 86000, 32 * MB
MEMORY_ALLOWED = 1.2
CONFIGURED = ('mem_configured', 'mem_configured_block_cache', 'mem_configured_row_cache', 'mem_configured_range_cache', 'mem_configured_rank_cache')


def memory_of(client):
    return {name: int(number) for name, number in re.findall(r'^(mem_\w+):(\d+)\r$', client.get('INFO', 'memory').decode(), re.M)}


@suite.case('with memory = N and nothing else the resident size stays within 1.2 times N, also while rows come, whatever is written and read')
def _(run):
    if is_sanitized(binary('scree-backend')):
        raise Skip('a sanitizer has memory of its own')
    with Cluster(backends=1, partitions=2, proxies=0,
                 backend_options={'store': {'memory': MEMORY}, 'backend': {'durability': 'os'}}) as cluster:
        backend, value = cluster.backends[0], os.urandom(VALUE)
        most = {}
        loads = {
            'SET': lambda i: ('SET', 'key:%d' % (i * 7919 % MANY), value),
            'GET': lambda i: ('GET', 'key:%d' % (i * 104729 % MANY)),
            'HSET': lambda i: ('HSET', 'hash:%d' % (i % 3000), 'field:%d' % i, value[:100]),
            'ZADD': lambda i: ('ZADD', 'zset:%d' % (i % 9), i * 7919 % MANY, 'member:%d' % i),
            'SETEX': lambda i: ('SETEX', 'soon:%d' % i, 1000, value[:30]),
            'HGETALL': lambda i: ('HGETALL', 'hash:%d' % (i % 3000)),
        }
        for name, make in loads.items():
            for address in backend.addresses:
                pipelined(address, make, MANY // 2 if name in ('SET', 'GET') else MANY // 8)
                most[name] = max(most.get(name, 0), rss(backend.pid) // MB)
        with cluster.partition(0) as client:
            plan = memory_of(client)
        check_equal(plan['mem_configured'], MEMORY, 'the size given')
        used = sum(plan['mem_configured_' + name] for name in ('block_cache', 'row_cache', 'range_cache', 'rank_cache', 'memtables'))
        check(MEMORY // 3 < used + 2 * 3 * plan['mem_configured_write_buffer'] < MEMORY, plan)
        run.note('data %d MB, memory %d MB, resident MB after: %s' % (MANY * VALUE // MB, MEMORY // MB, most))
        peak = backend.peak_rss_bytes()
        run.note('%d MB at most, while the commands ran' % (peak // MB))
        check(peak <= MEMORY * MEMORY_ALLOWED, '%d MB at most; afterwards %s' % (peak // MB, most))
        check(MANY * VALUE > 1.2 * MEMORY, 'too little data to tell')


@suite.case('CONFIG SET store-memory resizes all caches, a size of an option stays, and CONFIG GET and metrics show both')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': {'memory': MEMORY, 'rank-cache': '2mb'}}) as cluster:
        backend, client = cluster.backends[0], cluster.partition(0)
        before = memory_of(client)
        check_equal(client.get('CONFIG', 'GET', 'store-memory'), [b'store-memory', b'64mb'], 'the size given')
        check_equal(client.get('CONFIG', 'GET', 'store-block-cache'), [b'store-block-cache', b'auto'], 'a share')
        check_equal(before['mem_configured_rank_cache'], 2 * MB, 'a size of its own')
        for bad in ('1kb', '0', '95%', 'all', ''):
            check(client.call('CONFIG', 'SET', 'store-memory', bad)[0] == '-', bad)
        check_equal(memory_of(client)['mem_configured'], MEMORY, 'unchanged')
        check_equal(client.call('CONFIG', 'SET', 'store-memory', '32mb'), ('+', b'OK'), 'a smaller size')
        after = memory_of(client)
        for name in CONFIGURED[:-1]:
            check(after[name] < before[name], '%s %d → %d' % (name, before[name], after[name]))
        check_equal(after['mem_configured_rank_cache'], 2 * MB, 'still')
        text = backend.http('/metrics')[1]
        check_equal(metric(text, 'scree_backend_memory_limit_bytes'), SMALLER, 'the gauge')
        check_equal(metric(text, 'scree_backend_block_cache_capacity_bytes'), after['mem_configured_block_cache'], 'the block cache')
        check_equal(client.call('CONFIG', 'SET', 'store-memory', 'auto'), ('+', b'OK'), 'of the machine')
        machine = memory_of(client)['mem_configured'] * 2
        check_equal(client.call('CONFIG', 'SET', 'store-memory', '25%'), ('+', b'OK'), 'a percentage')
        check(abs(memory_of(client)['mem_configured'] * 4 - machine) < MB, (memory_of(client), machine))
        check_equal(client.call('CONFIG', 'SET', 'store-row-cache', '100gb', 'store-memory', '32mb'), ('+', b'OK'), 'too much')
        wait_for(lambda: b'memory_exceeded' in backend.log(), 'the warning')
        client.close()


BIG = 96 * MB
SMALL_STORE = {'block-cache': MB, 'row-cache': MB, 'range-cache': MB, 'rank-cache': MB, 'write-buffer': 4 * MB, 'memtable': MB, 'memtables': 2,
               'wal-limit': 32 * MB}
KEPT = 48 * MB  # caches, write buffers, memtables, and memory that the allocator keeps; less than half of BIG


@suite.case('DEL and UNLINK of a big key free its memory: used_memory and the resident size shrink')
def _(run):
    if is_sanitized(binary('scree-backend')):
        raise Skip('a sanitizer has memory of its own')

    def used(client):
        return int(re.search(rb'^used_memory:([0-9]+)', client.get('INFO', 'memory'), re.M).group(1))

    def fill_hash(client):
        for start in range(0, BIG // VALUE, 2000):
            client.get('HSET', 'big', *(word for i in range(start, start + 2000) for word in ('field:%d' % i, 'x' * VALUE)))
        client.get('HGETALL', 'big')

    def fill_string(client):
        client.get('SET', 'big', 'x' * BIG)
        client.get('GET', 'big')

    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': SMALL_STORE}) as cluster, cluster.partition(0) as client:
        pid = cluster.backends[0].pid
        for fill, word in ((fill_string, 'DEL'), (fill_hash, 'UNLINK'), (fill_string, 'UNLINK'), (fill_hash, 'DEL')):
            before = used(client), rss(pid)
            fill(client)
            filled = used(client), rss(pid)
            check_equal(client.get(word, 'big'), 1)
            wait_for(lambda before=before: used(client) < before[0] + KEPT and rss(pid) < before[1] + KEPT, 'memory to be given back')
            run.note('%s, %s: %s MB, filled %s MB, then %s MB' % (
                fill.__name__, word, *('%d/%d' % (pair[0] // MB, pair[1] // MB) for pair in (before, filled, (used(client), rss(pid))))))


suite.main()
