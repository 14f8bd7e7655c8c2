#!/usr/bin/python3
"""bench_commands.py - cost of commands in a backend compared with redis-server, and of its start and stop.

    always    durable SETs: scree-backend durability = always, redis-server appendfsync always, on the same filesystem
    os        common commands: durability = os, redis-server without persistence
    later     commands that redis-server 7.0 does not have, compared with the nearest command that it has, both in scree-backend
    ticket    a reservation: MULTI, eight commands, EXEC; 64 sellers, durability = always
    whole     GET at -P 1 through scree-proxy to one partition, compared with a direct connection to redis-server
    latency   cached GETs at 70 % of full speed, sent by a schedule (open loop), so that pauses are measured
    start     a store of many keys: start, stop, start after kill -9

tests/bench/load.c makes the requests. The important figure is CPU µs per command, of all threads, from schedstat before
and after; the two systems alternate, and each cell is the median of several short runs. Rates depend on the machine's
other load; the ratio of two rates in a row depends less on it. Nothing is asserted. Writes docs/benchmarks/commands.md.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time

from page import FOLDER, Table, heading
from rig import CLIENTS, Farm, System, in_turn, load, median
from support.cluster import binary, is_sanitized
from support.harness import wait_for
from support.resp import Connection

SELLERS = 64
CPU_LIMIT = 2.5

# (name, words, preparing words, limit: a ratio to redis-server, or ('us', CPU µs)); load.c explains {k:N} and so on.
COMMANDS = [
    ('SET 64 B', 'SET key:{k:%(keys)d} {x:64}', None, ('us', 3.5)),
    ('SET 1 KiB', 'SET big:{k:%(keys)d} {x:1024}', None, None),
    ('GET 64 B', 'GET key:{k:%(keys)d}', 'SET key:{s} {x:64}', 1.2),
    ('GET 1 KiB', 'GET big:{k:%(few)d}', 'SET big:{s} {x:1024}', 1.2),
    ('HSET', 'HSET hash:{k:%(few)d} field:{n:10} {x:64}', None, CPU_LIMIT),
    ('HGET', 'HGET hash:{k:%(few)d} field:{n:10}', None, CPU_LIMIT),
    ('ZADD', 'ZADD zset:{n:1000} {n:1000000} member:{n:1000}', None, CPU_LIMIT),
    ('ZRANGE 10', 'ZRANGE zset:{n:1000} 0 9', None, CPU_LIMIT),
    ('LPUSH', 'LPUSH list:{n:1000} {x:64}', None, CPU_LIMIT),
    ('RPOP', 'RPOP list:{n:1000}', None, CPU_LIMIT),
    ('SADD', 'SADD set:{n:1000} member:{n:1000}', None, CPU_LIMIT),
    ('INCR', 'INCR counter:{k:%(few)d}', None, CPU_LIMIT),
    ('SETBIT', 'SETBIT bits:{n:100} {n:10000} 1', None, CPU_LIMIT),
    ('BF.ADD', 'BF.ADD bloom:{n:100} {n:10000}', None, ('us', 8)),
    ('BF.EXISTS', 'BF.EXISTS bloom:{n:100} {n:10000}', None, ('us', 4)),
    ('XADD', 'XADD stream:{n:100} * field {x:64}', None, CPU_LIMIT),
    ('JSON.NUMINCRBY', "JSON.NUMINCRBY event:{n:100} $.sections['D-{n:4}'].stats.available -1", None, ('us', 6)),
]

# Commands that redis-server 7.0 does not have: (name, words, the nearest command that it has, preparing words, limit of the
# ratio of both in scree-backend).
LATER = [
    ('HSET, field with TTL', 'HSET ttl:{k:%(few)d} field:{n:10} {x:64}', 'HSET hash:{k:%(few)d} field:{n:10} {x:64}',
     'HSETEX ttl:{s} EX 9000 FIELDS 2 field:0 {x:64} field:1 {x:64}', 1.3),
    ('HSETEX', 'HSETEX hash:{k:%(few)d} EX 9000 FIELDS 1 field:{n:10} {x:64}', 'HSET hash:{k:%(few)d} field:{n:10} {x:64}', None, None),
    ('HGETEX', 'HGETEX hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'HGET hash:{k:%(few)d} field:{n:10}', None, None),
    ('HEXPIRE', 'HEXPIRE hash:{k:%(few)d} 9000 FIELDS 1 field:{n:10}', 'EXPIRE hash:{k:%(few)d} 9000', None, None),
    ('HPEXPIRE', 'HPEXPIRE hash:{k:%(few)d} 9000000 FIELDS 1 field:{n:10}', 'PEXPIRE hash:{k:%(few)d} 9000000', None, None),
    ('HEXPIREAT', 'HEXPIREAT hash:{k:%(few)d} 9999999999 FIELDS 1 field:{n:10}', 'EXPIREAT hash:{k:%(few)d} 9999999999', None, None),
    ('HPEXPIREAT', 'HPEXPIREAT hash:{k:%(few)d} 9999999999000 FIELDS 1 field:{n:10}', 'PEXPIREAT hash:{k:%(few)d} 9999999999000', None, None),
    ('HSETEXPIRE', 'HSETEXPIRE hash:{k:%(few)d} 9000 field:{n:10} {x:64}', 'HSET hash:{k:%(few)d} field:{n:10} {x:64}', None, None),
    ('HTTL', 'HTTL hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'TTL hash:{k:%(few)d}', None, None),
    ('HPTTL', 'HPTTL hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'PTTL hash:{k:%(few)d}', None, None),
    ('HEXPIRETIME', 'HEXPIRETIME hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'EXPIRETIME hash:{k:%(few)d}', None, None),
    ('HPEXPIRETIME', 'HPEXPIRETIME hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'PEXPIRETIME hash:{k:%(few)d}', None, None),
    ('HPERSIST', 'HPERSIST hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'PERSIST hash:{k:%(few)d}', None, None),
    ('HGETDEL', 'HGETDEL hash:{k:%(few)d} FIELDS 1 field:{n:10}', 'HDEL hash:{k:%(few)d} field:{n:10}', None, None),
    ('HSCAN NOVALUES', 'HSCAN ttl:{k:%(few)d} 0 NOVALUES', 'HSCAN ttl:{k:%(few)d} 0', None, None),
    ('HRANGEBYLEX', 'HRANGEBYLEX ttl:{k:%(few)d} - +', 'HGETALL ttl:{k:%(few)d}', None, None),
    ('SET IFEQ', 'SET some:{k:%(few)d} {x:64} IFEQ other', 'GET some:{k:%(few)d}', 'SET some:{s} {x:64}', None),
    ('DELEX IFEQ', 'DELEX some:{k:%(few)d} IFEQ other', 'GET some:{k:%(few)d}', None, None),
    ('DIGEST', 'DIGEST some:{k:%(few)d}', 'GET some:{k:%(few)d}', None, None),
    ('MSETEX', 'MSETEX 1 some:{k:%(few)d} {x:64} EX 9000', 'SET some:{k:%(few)d} {x:64} EX 9000', None, None),
    ('INCREX', 'INCREX counter:{k:%(few)d}', 'INCR counter:{k:%(few)d}', None, None),
    ('ZRANK WITHSCORE', 'ZRANK zset:{n:1000} member:{n:100} WITHSCORE', 'ZRANK zset:{n:1000} member:{n:100}',
     'ZADD zset:{n:1000} {n:1000000} member:{n:100}', None),
    ('SUNIONCARD', 'SUNIONCARD 1 set:{n:100}', 'SINTERCARD 1 set:{n:100}', 'SADD set:{n:100} member:{n:30}', None),
    ('SDIFFCARD', 'SDIFFCARD 1 set:{n:100}', 'SINTERCARD 1 set:{n:100}', None, None),
    ('BITOP DIFF', 'BITOP DIFF bits bits:{n:100} bits:{n:100}', 'BITOP AND bits bits:{n:100} bits:{n:100}', 'SETBIT bits:{n:100} {n:1000} 1', None),
    ('XADD ACKED', 'XADD stream:{n:100} MAXLEN 100 ACKED * field {x:64}', 'XADD stream:{n:100} MAXLEN 100 * field {x:64}', None, None),
    ('XTRIM DELREF', 'XTRIM stream:{n:100} MAXLEN 100 DELREF', 'XTRIM stream:{n:100} MAXLEN 100', None, None),
    ('XDELEX', 'XDELEX stream:{n:100} DELREF IDS 1 1-{n:1000}', 'XDEL stream:{n:100} 1-{n:1000}', None, None),
    ('XACKDEL', 'XACKDEL stream:{n:100} group IDS 1 1-{n:1000}', 'XACK stream:{n:100} group 1-{n:1000}', None, None),
    ('XREADGROUP CLAIM', 'XREADGROUP GROUP group me NOACK CLAIM 9000 STREAMS stream:{n:100} >',
     'XREADGROUP GROUP group me NOACK STREAMS stream:{n:100} >', None, None),
    ('GEOSEARCH BYPOLYGON', 'GEOSEARCH geo BYPOLYGON 4 13 37 14 37 14 38 13 38', 'GEOSEARCH geo FROMLONLAT 13.5 37.5 BYBOX 88 111 km',
     'GEOADD geo 1{n:10}.{n:10000} 3{n:10}.{n:10000} place:{n:1000}', None),
    ('CAS', 'CAS some:{k:%(few)d} other {x:64}', 'GET some:{k:%(few)d}', None, None),
    ('CAD', 'CAD some:{k:%(few)d} other', 'GET some:{k:%(few)d}', None, None),
    ('DELIFEQ', 'DELIFEQ some:{k:%(few)d} other', 'GET some:{k:%(few)d}', None, None),
    ('JSON.INFO', 'JSON.INFO event:{n:100}', 'JSON.TYPE event:{n:100}', None, None),
    ('BF.ADD', 'BF.ADD bloom:{n:100} {n:10000}', 'SETBIT bits:{n:100} {n:10000} 1', None, 2),
    ('BF.EXISTS', 'BF.EXISTS bloom:{n:100} {n:10000}', 'SETBIT bits:{n:100} {n:10000} 1', None, 2),
    ('BF.MADD 10', 'BF.MADD bloom:{n:100}' + ' {n:10000}' * 10, 'SETBIT bits:{n:100} {n:10000} 1', None, None),
    ('BF.INSERT', 'BF.INSERT bloom:{n:100} ITEMS {n:10000}', 'SETBIT bits:{n:100} {n:10000} 1', None, None),
    ('BF.MEXISTS 10', 'BF.MEXISTS bloom:{n:100}' + ' {n:10000}' * 10, 'GETBIT bits:{n:100} {n:10000}', None, None),
    ('BF.CARD', 'BF.CARD bloom:{n:100}', 'STRLEN bits:{n:100}', None, None),
    ('BF.INFO', 'BF.INFO bloom:{n:100}', 'STRLEN bits:{n:100}', None, None),
    ('BF.RESERVE', 'BF.RESERVE filter:{k:100000000} 0.01 100', 'SETBIT string:{k:100000000} 100 1', None, None),
    ('BF.SCANDUMP', 'BF.SCANDUMP bloom:{n:100} 1', 'DUMP bits:{n:100}', None, None),
    ('CMS.INCRBY', 'CMS.INCRBY sketch:{n:100} {n:10000} 1', 'HINCRBY counts:{n:100} {n:10000} 1', None, None),
    ('CMS.QUERY', 'CMS.QUERY sketch:{n:100} {n:10000}', 'HGET counts:{n:100} {n:10000}', None, None),
    ('CMS.INFO', 'CMS.INFO sketch:{n:100}', 'HLEN counts:{n:100}', None, None),
    ('CMS.INITBYDIM', 'CMS.INITBYDIM bydim:{k:100000000} 2000 5', 'HSET plain:{k:100000000} field {x:64}', None, None),
    ('CMS.INITBYPROB', 'CMS.INITBYPROB byprob:{k:100000000} 0.001 0.01', 'HSET plain:{k:100000000} field {x:64}', None, None),
    ('CMS.MERGE', 'CMS.MERGE sum:{n:100} 2 sketch:{n:100} sketch:{n:100}', 'ZUNIONSTORE union:{n:100} 2 hundred:{n:100} hundred:{n:100}',
     'ZADD hundred:{n:100} 1 {n:100}', None),
    ('TDIGEST.ADD', 'TDIGEST.ADD digest:{n:100} {n:10000}.{n:1000}', 'HINCRBYFLOAT sums:{n:100} sum {n:10000}.{n:1000}', None, None),
    ('TDIGEST.ADD 10 values', 'TDIGEST.ADD digest:{n:100}' + ' {n:10000}.{n:1000}' * 10, 'HINCRBYFLOAT sums:{n:100} sum {n:10000}.{n:1000}', None, None),
    ('TDIGEST.QUANTILE', 'TDIGEST.QUANTILE digest:{n:100} 0.5 0.99', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.RANK', 'TDIGEST.RANK digest:{n:100} {n:10000}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.REVRANK', 'TDIGEST.REVRANK digest:{n:100} {n:10000}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.BYRANK', 'TDIGEST.BYRANK digest:{n:100} {n:10000}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.BYREVRANK', 'TDIGEST.BYREVRANK digest:{n:100} {n:10000}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.CDF', 'TDIGEST.CDF digest:{n:100} {n:10000}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.TRIMMED_MEAN', 'TDIGEST.TRIMMED_MEAN digest:{n:100} 0.1 0.9', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.MIN', 'TDIGEST.MIN digest:{n:100}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.MAX', 'TDIGEST.MAX digest:{n:100}', 'HGET sums:{n:100} sum', None, None),
    ('TDIGEST.INFO', 'TDIGEST.INFO digest:{n:100}', 'HLEN sums:{n:100}', None, None),
    ('TDIGEST.MERGE', 'TDIGEST.MERGE merged:{n:100} 2 digest:{n:100} digest:{n:100} OVERRIDE', 'COPY digest:{n:100} copy:{n:100} REPLACE', None, None),
    ('TDIGEST.CREATE', 'TDIGEST.CREATE created:{k:100000000}', 'HSET plain:{k:100000000} field {x:64}', None, None),
    ('TDIGEST.RESET', 'TDIGEST.RESET merged:{n:100}', 'DEL merged:none', None, None),
    ('TOPK.ADD', 'TOPK.ADD top:{n:100} {n:10000}', 'ZINCRBY board:{n:100} 1 {n:10000}', None, None),
    ('TOPK.INCRBY', 'TOPK.INCRBY top:{n:100} {n:10000} 3', 'ZINCRBY board:{n:100} 3 {n:10000}', None, None),
    ('TOPK.LIST', 'TOPK.LIST top:{n:100}', 'ZREVRANGE board:{n:100} 0 49', None, None),
    ('TOPK.QUERY', 'TOPK.QUERY top:{n:100} {n:10000}', 'ZSCORE board:{n:100} {n:10000}', None, None),
    ('TOPK.COUNT', 'TOPK.COUNT top:{n:100} {n:10000}', 'ZSCORE board:{n:100} {n:10000}', None, None),
    ('TOPK.INFO', 'TOPK.INFO top:{n:100}', 'ZCARD board:{n:100}', None, None),
    ('TOPK.RESERVE', 'TOPK.RESERVE listed:{k:100000000} 50 400 5 0.9', 'HSET plain:{k:100000000} field {x:64}', None, None),
    ('MPUBLISH 3', 'MPUBLISH channel {x:64} {x:64} {x:64}', 'PUBLISH channel {x:64}', None, None),
]

RESERVATION = ("MULTI ; SETBIT seats:{ev} {n:20000} 1 ; SETBIT seats:{ev} {n:20000} 1 ; "
               "JSON.NUMINCRBY event:{ev} $.sections['D-3'].stats.available -2 ; "
               "JSON.NUMINCRBY event:{ev} $.sections['D-3'].stats.reserved 2 ; "
               "HSET booking:{ev}{s} seller s{c} section D-3 seats 17,18 ; EXPIRE booking:{ev}{s} 600 ; "
               "HSETNX timers:{ev} {s} 1700000000 ; ZADD index:{ev} 1700000000 {s} ; EXEC")


def document():
    """A document with 20 sections, about 1400 bytes."""
    return json.dumps({'name': 'event', 'sections': {
        'D-%d' % i: {'price': 10.5, 'stats': {'available': 120, 'reserved': 0, 'sold': 0}} for i in range(20)}})


def durable(farm, options, table):
    systems = {'ours': System(farm.backend('always', 'always')), 'redis': System(farm.redis_log('always'))}
    for depth, limit in ((16, 0.5), (1, 0.8)):
        found = in_turn(systems, 'SET key:{k:%d} {x:64}' % options.keys, options.repeat, depth=depth, seconds=options.seconds)
        ratio = found['ours'].rate / found['redis'].rate
        table.add('durable SET -P %d, per second' % depth, '%.0f' % found['ours'].rate, '%.0f' % found['redis'].rate,
                  '%.2f ×' % ratio, '≥ %.1f ×' % limit, ratio >= limit)
        table.add('durable SET -P %d, CPU µs' % depth, '%.2f' % found['ours'].cpu_us, '%.2f' % found['redis'].cpu_us,
                  '%.2f µs' % found['ours'].cpu_us, '≤ 5 µs' if depth == 16 else '', found['ours'].cpu_us <= 5 if depth == 16 else None)
    farm.stop()


def commands(farm, options, table):
    systems = {'ours': System(farm.backend('os', 'os')), 'redis': System(farm.redis('redis-plain'))}
    for i in range(100):
        Connection(('127.0.0.1', systems['ours'].port), 30, 2).get('JSON.SET', 'event:%d' % i, '$', document())
    sizes = {'keys': options.keys, 'few': options.keys // 10}
    for name, words, before, limit in COMMANDS:
        if options.only not in name:
            continue
        mine = {'ours': systems['ours']} if name.startswith('JSON') else systems
        for system in mine.values() if before else ():
            load(system, before, depth=64, count=options.keys if 'key:' in before else options.keys // 10)
        found = in_turn(mine, words % sizes, options.repeat, seconds=options.seconds)
        ours, theirs = found['ours'], found.get('redis')
        ratio = ours.cpu_us / theirs.cpu_us if theirs else 0
        is_us = isinstance(limit, tuple)
        measured = '%.2f µs' % ours.cpu_us if is_us else '%.2f ×' % ratio
        table.add('%s, CPU µs' % name, '%.2f' % ours.cpu_us, '%.2f' % theirs.cpu_us if theirs else '–', measured,
                  '' if not limit else '≤ %.1f %s' % (limit[1] if is_us else limit, 'µs' if is_us else '×'),
                  None if not limit else ours.cpu_us <= limit[1] if is_us else ratio <= limit)
    farm.stop()


def later(farm, options, table):
    system = System(farm.backend('later', 'os'))
    with Connection(('127.0.0.1', system.port), 30, 2) as client:
        for i in range(100):
            client.get('XGROUP', 'CREATE', 'stream:%d' % i, 'group', '$', 'MKSTREAM')
            client.get('JSON.SET', 'event:%d' % i, '$', document())
            client.get('CMS.INITBYDIM', 'sketch:%d' % i, 2000, 5)
            client.get('CMS.INITBYDIM', 'sum:%d' % i, 2000, 5)
            client.get('TDIGEST.CREATE', 'digest:%d' % i)
            client.get('TOPK.RESERVE', 'top:%d' % i, 50, 400, 5, 0.9)
    sizes = {'keys': options.keys, 'few': options.keys // 10}
    for name, words, nearest, before, limit in LATER:
        if options.only not in name:
            continue
        if before:
            load(system, before, depth=64, count=options.keys // 10)
        for line in (words, nearest):  # so that neither pays for what came before
            load(system, line % sizes, depth=64, seconds=options.seconds)
        both = [in_turn({'ours': system}, line % sizes, options.repeat, seconds=options.seconds)['ours'].cpu_us for line in (words, nearest)]
        ratio = both[0] / both[1]
        table.add('%s, CPU µs' % name, '%.2f' % both[0], '%s: %.2f' % (nearest.split()[0], both[1]), '%.2f ×' % ratio,
                  '≤ %.1f ×' % limit if limit else '', ratio <= limit if limit else None)
    farm.stop()


def ticket(farm, options, table):
    backend = farm.backend('ticket', 'always')
    Connection(('127.0.0.1', backend.port), 30, 2).get('JSON.SET', 'event:{ev}', '$', document())
    found = median([load(System(backend), RESERVATION, depth=1, clients=SELLERS, seconds=options.seconds * 2)
                    for _ in range(options.repeat)])
    table.add('reservations per second', '%.0f' % found.rate, '–', '%.0f /s' % found.rate, '≥ 5000 /s', found.rate >= 5000)
    table.add('a reservation, CPU µs; p99 ms', '%.1f; %.1f' % (found.cpu_us, found.p99 / 1000), '–', '', '', None)
    farm.stop()


def whole(farm, options, table):
    backend, redis = farm.backend('behind', 'always'), farm.redis('redis-direct')
    proxy = farm.proxy('front', backend.addresses)
    systems = {'ours': System(proxy, [backend]), 'redis': System(redis)}
    for system in systems.values():
        load(system, 'SET key:{s} {x:64}', depth=64, count=100000)
    found = in_turn(systems, 'GET key:{k:100000}', options.repeat, depth=1, seconds=options.seconds)
    ratio = found['ours'].cpu_us / found['redis'].cpu_us
    table.add('GET -P 1 through the proxy, CPU µs', '%.2f' % found['ours'].cpu_us, '%.2f' % found['redis'].cpu_us,
              '%.2f ×' % ratio, '≤ 1.4 ×', ratio <= 1.4)
    farm.stop()


def latency(farm, options, table):
    systems = {'ours': System(farm.backend('steady', 'always')), 'redis': System(farm.redis('redis-steady'))}
    cells = {}
    for name, system in systems.items():
        load(system, 'SET key:{s} {x:64}', depth=64, count=100000)
        full = load(system, 'GET key:{k:100000}', depth=1, seconds=options.seconds)
        runs = [load(system, 'GET key:{k:100000}', rate=full.rate * 0.7, seconds=options.seconds * 2)
                for _ in range(options.repeat)]
        best = min(runs, key=lambda sample: sample.p999 / sample.p50)
        cells[name] = (best.p999 / best.p50, '%.0f / %.0f µs' % (best.p50, best.p999))
    ratio = cells['ours'][0]
    table.add('GET at 70 %: p50 / p99.9', cells['ours'][1], cells['redis'][1], '%.1f × (redis %.1f ×)' % (ratio, cells['redis'][0]),
              '≤ 5 ×', ratio <= 5)
    farm.stop()


def started(process, key):
    """Seconds until the process replies to a GET."""
    begun = time.monotonic()
    process.spawn()

    def answers():
        try:
            return Connection(('127.0.0.1', process.port), 5, 2).get('GET', key) is not None
        except OSError:
            return False
    wait_for(answers, 'the backend to answer', 120, 0.005)
    return time.monotonic() - begun


def restarts(farm, options, table):
    backend = farm.backend('restarted', 'os')
    system = System(backend)
    count = options.start_keys
    filled = load(system, 'SET key:{s} {x:64}', depth=256, count=count)
    table.add('fill %.0f M keys, CPU µs a SET' % (count / 1e6), '%.2f' % filled.cpu_us, '–', '', '', None)
    for title, number, limit in (('stop', signal.SIGTERM, 2), ('start after stop', None, 3),
                                 ('start after kill -9 under load', signal.SIGKILL, 10)):
        if number == signal.SIGKILL:
            load(system, 'SET key:{k:%d} {x:64}' % count, seconds=1)
            backend.kill9()
        begun = time.monotonic()
        if number == signal.SIGTERM:
            backend.child.terminate()
            backend.wait_exit(60)
        took = time.monotonic() - begun if number == signal.SIGTERM else started(backend, 'key:%012d' % (count // 2))
        table.add('%s, seconds' % title, '%.2f' % took, '–', '%.2f s' % took, '≤ %d s' % limit, took <= limit)
    farm.stop()


PARTS = [('Durable writes', durable), ('Commands', commands), ('Later commands', later), ('Reservations', ticket),
         ('The whole of Scree', whole), ('Latency of cached GETs', latency), ('Starting and stopping', restarts)]
# Heads of the columns, where they are not those of both programs.
HEADS = {later: ('the command', 'the nearest one')}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--quick', action='store_true', help='a tenth of the keys, short runs')
    parser.add_argument('--parts', default='', help='only parts whose title contains this')
    parser.add_argument('--only', default='', help='only commands whose name contains this')
    parser.add_argument('--output', default=os.path.join(FOLDER, 'commands.md'))
    options = parser.parse_args()
    options.keys, options.start_keys = (100000, 1000000) if options.quick else (1000000, 10000000)
    options.repeat, options.seconds = (3, 0.7) if options.quick else (5, 2.0)
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    text = heading('Commands against redis-server', 'tests/bench/bench_commands.py --quick' if options.quick else
                   'tests/bench/bench_commands.py')
    text += ('\n%d clients, -P 16 unless stated otherwise, 16-byte keys, %d of them; each figure the median of %d runs of '
             '%.1f s, the systems alternating.\n' % (CLIENTS, options.keys, options.repeat, options.seconds))
    for title, part in PARTS:
        if options.parts not in title:
            continue
        table = Table()
        print(title)
        with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
            farm = Farm(folder)
            try:
                part(farm, options, table)
            finally:
                farm.stop()
        text += '\n' + table.markdown(title, *HEADS.get(part, ()))
    if not options.parts and not options.only:
        with open(options.output, 'w') as file:
            file.write(text)
        print('\nwritten to %s' % options.output)
    return 0


if __name__ == '__main__':
    sys.exit(main())
