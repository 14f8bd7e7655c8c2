#!/usr/bin/python3
"""CONFIG SET of every option: options that can change at run time change and are shown, others are refused."""

import os
import re
import shutil
import signal
import socket
import subprocess

from support import ROOT, transcript
from support.cluster import Cluster, Oracle, metric
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, ReplyError

suite = Suite(__doc__)
ROW = re.compile(r'^OPTION\((\w+), (\w+), "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)", (RELOAD|RESTART),', re.M)
SIZES = {'': 1, 'kb': 1 << 10, 'mb': 1 << 20, 'gb': 1 << 30, 'tb': 1 << 40}
TIMES = {'': 1, 'ms': 1, 's': 1000, 'm': 60000, 'h': 3600000, 'd': 86400000}


class Row:
    def __init__(self, match):
        self.kind, field, self.section, self.name, self.initial, self.least, self.most, self.unit, self.reload = match.groups()
        self.key = self.name if self.section in ('proxy', 'backend') else '%s-%s' % (self.section, self.name)
        self.is_path = self.kind == 'STRING' and self.unit == 'path'

    def number(self, text):
        amount, unit = re.fullmatch(r'(-?\d+)([a-z]*)', text).groups()
        return int(amount) * {'BYTES': SIZES, 'MS': TIMES}.get(self.kind, {'': 1})[unit]

    def another(self, now):
        """A valid value other than the current one."""
        if self.kind == 'BOOL':
            return 'no' if now == 'yes' else 'yes'
        if self.kind == 'ENUM':
            return next(word for word in self.unit.split('|') if word != now)
        if self.kind == 'AUTO_BYTES':
            return '3mb' if self.key != 'store-memory' else '300mb'
        if self.kind in ('INT', 'BYTES', 'MS'):
            step = {'INT': 1, 'BYTES': 1 << 20, 'MS': 1000}[self.kind]
            step = 3600000 if self.key == 'idle-timeout' else step  # one second would close the test's connection
            value = self.number(now) + step
            value = value if value <= self.number(self.most) else self.number(now) - step
            return '%d%s' % (value, 'ms' if self.kind == 'MS' else '')
        return TEXTS[self.key] if self.reload == 'RELOAD' and not self.is_path else 'x'

    def same(self, one, other):
        return self.number(one) == self.number(other) if self.kind in ('INT', 'BYTES', 'MS') else one == other


def rows(program):
    path = os.path.join(ROOT, 'config', '%s_options.def' % program)
    with open(path) as file:
        found = [Row(match) for match in ROW.finditer(file.read())]
    check(len(found) > 40, 'the table: %d rows' % len(found))
    return found


def config(client, name):
    return {key.decode(): value.decode() for key, value in zip(*[iter(client.get('CONFIG', 'GET', name))] * 2)}.get(name)


# Values for options that are texts.
TEXTS = {
    'requirepass': 'sesame', 'admin-hosts': 'example.org', 'admin-token': 'sesame-2', 'tls-key-file-pass': 'not-needed', 'tls-protocols': 'TLSv1.3',
    'upstream-tls-key-file-pass': 'not-needed', 'tls-ciphers': 'ECDHE-ECDSA-AES128-GCM-SHA256',
    'store-compaction-window': '03:00-03:01', 'tls-ciphersuites': 'TLS_AES_128_GCM_SHA256', 'upstream-tls-server-name': 'localhost', 'zone': 'zone-a',
}


def set_all(client, program):
    """Sets all options; returns {name: value} of those that were set."""
    done = {}
    for row in rows(program):
        now = config(client, row.key)
        if now is None:
            check_equal(row.key, 'secret', 'the only one that is not shown')
            continue
        value = row.another(row.initial if row.kind not in ('STRING', 'ADDRESS', 'ADDRESSES') else now)
        reply = client.call('CONFIG', 'SET', row.key, value)
        if row.reload == 'RESTART' or row.is_path:
            word = 'immutable' if row.reload == 'RESTART' else 'protected'
            check_equal(reply, ('-', ("ERR CONFIG SET failed (possibly related to argument '%s') - can't set %s config"
                                      % (row.key, word)).encode()), row.key)
            check_equal(config(client, row.key), now, '%s stays' % row.key)
            continue
        check_equal(reply, ('+', b'OK'), 'CONFIG SET %s %s' % (row.key, value))
        shown = config(client, row.key)
        is_secret = row.unit == 'password' and program == 'proxy'
        check(row.same(shown, '(redacted)' if is_secret else value), '%s: set %r, shown %r' % (row.key, value, shown))
        done[row.key] = (row, shown)
    check(len(done) > 20, 'options that can be changed: %d' % len(done))
    return done


# program, section, old name, new name, value in the file; like current_name() in config/config_file.c
RENAMED = [('backend', 'backend', 'acl-file', 'aclfile', 'users.acl'), ('backend', 'store', 'layer', 'write-buffer', '8kb'),
           ('backend', 'backend', 'script-time-limit', 'command-time-limit', '7s'),
           ('proxy', 'upstream', 'lease-limit', 'dedicated-limit', '7')]


@suite.case('the old name of each renamed option still works, and the log names the new one; the new name logs nothing')
def _(run):
    with open(os.path.join(ROOT, 'config', 'config_file.c')) as file:
        table = re.search(r'renamed\[\] = \{(.*?)\};', file.read(), re.S)[1]
    check_equal(sorted(re.findall(r'\{"([\w-]+)", "([\w-]+)", "([\w-]+)"\}', table)),
                sorted((section, old, new) for _, section, old, new, _ in RENAMED), 'the names that are tested are those in the source')
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        with open(os.path.join(cluster.folder, 'users.acl'), 'w') as file:
            file.write('user default on nopass ~* &* +@all\nuser alice on >pw ~* +@all\n')
        for program, section, old, new, value in RENAMED:
            process = cluster.backends[0] if program == 'backend' else cluster.proxies[0]
            value = os.path.join(cluster.folder, value) if new == 'aclfile' else value
            for name in (old, new):
                process.stop()
                process.options[section] = {name: value}
                process.write_config()
                seen = len(process.log())
                process.start()
                with cluster.partition(0) if program == 'backend' else cluster.connect() as client:
                    key = new if section == program else '%s-%s' % (section, new)
                    check_equal(config(client, key), value, 'the option that the file calls %s' % name)
                note = b'option_renamed section=%s option=%s new_name=%s' % tuple(word.encode() for word in (section, old, new))
                check_equal(note in process.log()[seen:], name == old, 'the note in the log for %s' % name)
            del process.options[section]


@suite.case('more databases than the maximum are refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        for databases, code in ((16, 0), (17, 1), (256, 1)):
            backend.options['backend'] = {'databases': databases}
            backend.write_config()
            done = subprocess.run(backend.argv + ['--check'], capture_output=True)
            check_equal(done.returncode != 0, code != 0, 'databases = %d' % databases)
            check(not code or b'databases: expected a number from 1 to 16' in done.stderr + done.stdout, done.stderr)


@suite.case('a backend: every changeable option changes, others are refused, and CONFIG REWRITE keeps the values over a restart')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=0, tls=True) as cluster:
        backend = cluster.backends[0]
        first, second = (Connection(address) for address in backend.addresses)
        first.pipeline([['SET', 'key:%d' % i, 'x' * 100] for i in range(500)])
        done = set_all(first, 'backend')
        for row, shown in done.values():
            wait_for(lambda: config(second, row.key) == shown, '%s = %s at the other partition' % (row.key, shown))
        check_equal(first.get('MGET', *('key:%d' % i for i in range(500))), [b'x' * 100] * 500, 'data is served')
        check_equal(first.call('CONFIG', 'SET', 'tls-ciphers', 'nonsense', 'maxclients', '7')[0], '-', 'no such ciphers')
        check_equal(config(first, 'maxclients'), done['maxclients'][1], 'it changed nothing')
        check_equal(first.call('CONFIG', 'REWRITE'), ('+', b'OK'), 'REWRITE')
        backend.stop()
        backend.start()
        again = Connection(backend.addresses[0])
        check_equal(again.call('AUTH', 'sesame'), ('+', b'OK'), 'the password is kept')
        for row, shown in done.values():
            check_equal(config(again, row.key), shown, '%s after a restart' % row.key)
        run.debug('%d options' % len(done))


@suite.case('CONFIG REWRITE through a proxy succeeds, though all partitions of a process write one file')
def _(run):
    with Cluster(backends=2, partitions=6, proxies=1) as cluster, cluster.connect() as client:
        for i in range(8):
            check_equal(client.call('CONFIG', 'SET', 'borrow-limit', '%dmb' % (100 + i)), ('+', b'OK'))
            check_equal(client.call('CONFIG', 'REWRITE'), ('+', b'OK'), 'CONFIG REWRITE %d' % i)
            for backend in cluster.backends:
                with open(backend.config_path) as file:
                    check('borrow-limit = %dmb\n' % (100 + i) in file.read(), 'the file has the newest value')
        left = [name for name in os.listdir(cluster.folder) if name.endswith('.new')]
        check_equal(left, [], 'temporary files')


@suite.case('a proxy: every changeable option changes, others are refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, tls=True) as cluster:
        client, other = cluster.connect(0), cluster.connect(0)
        done = set_all(client, 'proxy')
        for row, shown in done.values():
            wait_for(lambda: config(other, row.key) == shown, '%s = %s at another client' % (row.key, shown))
        check_equal(client.call('CONFIG', 'SET', 'tls-ciphers', 'nonsense', 'maxclients', '7')[0], '-', 'no such ciphers')
        check_equal(config(client, 'maxclients'), done['maxclients'][1], 'it changed nothing')
        check_equal(client.call('SET', 'k', 'v'), ('+', b'OK'), 'it serves')
        run.debug('%d options' % len(done))


# Accepted by redis-server, or refused with equal texts; limits in texts may differ.
AS_REDIS = '''
CONFIG SET maxclients 20 nonsense 1
CONFIG SET maxclients 20 slowlog-max-len 10 maxclients 30
CONFIG SET slowlog-max-len 10 hz x
CONFIG SET acllog-max-len 20 slowlog-max-len x
CONFIG SET acllog-max-len 20 timeout x
CONFIG SET timeout 7 hz x
CONFIG SET timeout 7 daemonize yes
CONFIG SET maxclients x
CONFIG SET maxclients 0
CONFIG SET timeout -5
CONFIG SET loglevel x
CONFIG SET appendfsync x
CONFIG SET slowlog-log-slower-than x
CONFIG SET slowlog-log-slower-than -2
CONFIG SET latency-monitor-threshold x
CONFIG SET proto-max-bulk-len x
CONFIG SET proto-max-bulk-len 100
CONFIG SET client-query-buffer-limit 1
CONFIG SET protected-mode x
CONFIG SET maxmemory x
CONFIG SET maxmemory 5%
CONFIG SET maxmemory-clients 101%
CONFIG SET maxmemory-clients 200%
CONFIG SET maxmemory-clients x%
CONFIG SET maxmemory-clients -1%
CONFIG SET maxmemory-clients %
CONFIG SET maxmemory-clients 50%%
CONFIG SET maxmemory-clients 18446744073709551615%
CONFIG SET maxmemory-clients x
CONFIG SET maxmemory-policy x
CONFIG SET save
CONFIG SET notify-keyspace-events q
CONFIG GET hz slowlog-max-len timeout
CONFIG SET latency-tracking-info-percentiles x
CONFIG SET latency-tracking-info-percentiles 101
CONFIG SET latency-tracking-info-percentiles -1
CONFIG SET latency-tracking-info-percentiles 99.99
CONFIG GET latency-tracking-info-percentiles
CONFIG SET slowlog-max-len 11 acllog-max-len 30 timeout 100 loglevel warning
CONFIG GET slowlog-max-len
CONFIG GET hz
CONFIG GET acllog-max-len
CONFIG GET timeout
CONFIG GET loglevel
CONFIG GET nonsense*
CONFIG SET timeout 0
CONFIG SET maxmemory 0
CONFIG SET maxmemory-policy NOEVICTION
CONFIG GET maxmemory maxmemory
'''


@suite.case('CONFIG SET of several at once, and what it refuses, as redis-server, at a partition and through a proxy')
def _(run):
    def comparable(reply):
        kind, payload = reply
        if kind == '-':
            return kind, re.sub(rb'between (-?\d+) and \d+', rb'between \1 and', payload)
        return (kind, sorted(payload)) if kind == '*' else reply

    def equal(ours, theirs):
        return comparable(ours) == comparable(theirs)

    with Cluster(backends=2, partitions=2, proxies=1) as cluster:
        for address in (cluster.backends[0].addresses[0], cluster.proxies[0].address):
            with Oracle() as oracle:
                transcript.compare(transcript.parse(AS_REDIS), oracle.address, address, check=equal)


SIZE_TEXTS = ['', '0', '-0', '00', '01', '+1', '-1', '1.5', '1e3', '0x10', ' 1', '1 ', 'x', '1x', '-', 'b', 'mb', '1b', '1k', '1KB', '5 mb', '-1mb',
              '1tb', '1kbb', '1g', '10%', '9223372036854775807', '9223372036854775808', '18446744073709551615', '18446744073709551616',
              '99999999999999999999', '-99999999999999999999', '99999999999gb']


@suite.case('wrong and extreme values of sizes and numbers are refused as by redis-server, and all programs go on')
def _(run):
    names = ('maxmemory', 'stream-node-max-bytes', 'hll-sparse-max-bytes', 'hash-max-listpack-value', 'zset-max-listpack-value',
             'proto-max-bulk-len', 'client-query-buffer-limit', 'stream-node-max-entries', 'set-max-intset-entries',
             'tracking-table-max-keys', 'busy-reply-threshold', 'slowlog-log-slower-than', 'slowlog-max-len', 'acllog-max-len')

    def comparable(reply):
        return re.sub(rb'and \d+ inclusive', b'', reply[1])

    with Cluster(backends=1, partitions=2, proxies=1) as cluster, Oracle() as oracle, Connection(oracle.address) as redis:
        for client in (cluster.partition(0), cluster.connect()):
            for name in names:
                before = [each.get('CONFIG', 'GET', name)[1] for each in (redis, client)]
                for text in SIZE_TEXTS:
                    theirs, ours = (each.call('CONFIG', 'SET', name, text) for each in (redis, client))
                    is_less = b'inclusive' in ours[1] and theirs == ('+', b'OK')  # than Redis allows
                    check(is_less or comparable(theirs) == comparable(ours), '%s %r: %r, redis %r' % (name, text, ours, theirs))
                    if theirs == ours == ('+', b'OK') and not text.endswith('99gb'):  # where Redis overflows
                        check_equal(client.get('CONFIG', 'GET', name)[1], redis.get('CONFIG', 'GET', name)[1], '%s %r' % (name, text))
                for each, value in zip((redis, client), before):
                    check_equal(each.call('CONFIG', 'SET', name, value), ('+', b'OK'), name)


@suite.case('OBJECT ENCODING of a set is listpack only up to set-max-listpack-entries and set-max-listpack-value')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        for client in (cluster.partition(0), cluster.connect()):
            client.get('SADD', 'texts', 'a', 'b', 'c')
            client.get('SADD', 'numbers', 1, 2, 3)
            for entries, value, encoding in ((0, 64, b'hashtable'), (3, 64, b'listpack'), (2, 64, b'hashtable'), (128, 0, b'hashtable'),
                                             (128, '1b', b'listpack')):
                check_equal(client.call('CONFIG', 'SET', 'set-max-listpack-entries', entries, 'set-max-listpack-value', value), ('+', b'OK'))
                check_equal(client.get('OBJECT', 'ENCODING', 'texts'), encoding, 'up to %s entries of %s bytes' % (entries, value))
                check_equal(client.get('OBJECT', 'ENCODING', 'numbers'), b'intset')
            client.get('CONFIG', 'SET', 'set-max-listpack-entries', 0, 'set-max-listpack-value', 64)


@suite.case('CONFIG SET does not reply OK to a change without effect')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        for client in (cluster.connect(), cluster.partition(0)):
            for name, value in (('maxmemory-policy', 'allkeys-lru'), ('save', '3600 1'),
                                ('appendonly', 'no'), ('min-replicas-to-write', '1'), ('activedefrag', 'yes'), ('port', '1'),
                                ('bind', '::'), ('tls-port', '1'), ('unixsocket', '/x')):
                before = client.get('CONFIG', 'GET', name)
                refused = client.call('CONFIG', 'SET', name, value)
                check(refused[0] == '-' and name.encode() in refused[1], '%s: %r' % (name, refused))
                check_equal(client.get('CONFIG', 'GET', name), before, name)


# Parameters of Redis with an effect that are no options of ours. Each is read by more than CONFIG GET.
EFFECTIVE = set('''acl-pubsub-default acllog-max-len busy-reply-threshold client-output-buffer-limit hash-max-listpack-entries
hash-max-listpack-value hash-max-ziplist-entries hash-max-ziplist-value hll-sparse-max-bytes latency-monitor-threshold latency-tracking
commandlog-execution-slower-than commandlog-large-reply-max-len commandlog-large-request-max-len commandlog-reply-larger-than
commandlog-request-larger-than commandlog-slow-execution-max-len latency-tracking-info-percentiles lua-time-limit maxmemory notify-keyspace-events protected-mode set-max-intset-entries set-max-listpack-entries set-max-listpack-value
slowlog-log-slower-than slowlog-max-len stream-node-max-bytes stream-node-max-entries tracking-table-max-keys zset-max-listpack-entries
zset-max-listpack-value zset-max-ziplist-entries zset-max-ziplist-value'''.split())
OWN = re.compile(r'"([a-z0-9-]+)", PARAMETER_OWN')
OF_THE_PROXY = re.compile(r'^    \{"([a-z0-9-]+)", "[a-z0-9-]*"', re.M)
WORDS = {'maxmemory-policy': 'allkeys-lru', 'oom-score-adj': 'yes', 'cluster-preferred-endpoint-type': 'hostname', 'sanitize-dump-payload': 'no',
         'propagation-error-behavior': 'panic', 'repl-diskless-load': 'swapdb', 'shutdown-on-sigint': 'now', 'shutdown-on-sigterm': 'now'}


def another_value(name, now):
    if name in WORDS:
        return WORDS[name]
    if now in ('yes', 'no'):
        return 'no' if now == 'yes' else 'yes'
    return str(int(now) + 1) if re.fullmatch(r'-?[0-9]+', now) else 'x'


@suite.case('each parameter of Redis has an effect, or accepts only its current value')
def _(run):
    def names(path, pattern):
        with open(os.path.join(ROOT, path)) as file:
            return set(pattern.findall(file.read()))

    ours = names('backend/context/parameter.c', OWN) | {row.key for row in rows('backend')} | EFFECTIVE
    of_the_proxy = names('proxy/core/endpoint_config.c', OF_THE_PROXY)
    check('maxmemory-clients' in of_the_proxy, of_the_proxy)
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        part, through = cluster.partition(0), cluster.connect()
        shown = [word.decode() for word in part.get('CONFIG', 'GET', '*')]
        without = {name: now for name, now in zip(*[iter(shown)] * 2) if name not in ours}
        check(len(without) > 100 and EFFECTIVE < set(shown[::2]), '%d parameters without an effect' % len(without))
        for client in (part, through):
            for name, now in without.items():
                if client is through and name in of_the_proxy:
                    continue
                refused = client.call('CONFIG', 'SET', name, another_value(name, now))
                check(refused[0] == '-' and (b"only '%s' is possible" % now.encode() in refused[1] or b'immutable' in refused[1]),
                      '%s: %r' % (name, refused))
                if b'immutable' not in refused[1]:
                    check_equal(client.call('CONFIG', 'SET', name, now), ('+', b'OK'), '%s stays %s' % (name, now))
                check_equal(config(client, name), now, name)
            for name, value in (('hz', '20'), ('repl-timeout', '10'), ('lazyfree-lazy-user-del', 'no'), ('repl-backlog-size', '64mb')):
                check_equal(client.call('CONFIG', 'SET', name, value)[0], '-', name)
            check_equal(client.call('CONFIG', 'SET', 'repl-backlog-size', '1mb'), ('+', b'OK'), 'as it is, in another unit')
            check_equal(client.call('CONFIG', 'SET', 'active-expire-effort', '2'), ('+', b'OK'), 'the option expire-effort')


@suite.case('appendfsync changes durability, at a partition and, through a proxy, of all shards')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        parts = [cluster.partition(shard) for shard in range(2)]
        for word, durability in (('no', b'os'), ('everysec', b'everysec'), ('ALWAYS', b'always')):
            for each in (client, parts[0]):
                check_equal(each.call('CONFIG', 'SET', 'appendfsync', word), ('+', b'OK'), word)
            for part in parts:
                check(b'durability:' + durability in part.get('INFO', 'everything'), word)
                check_equal(part.get('CONFIG', 'GET', 'appendfsync'), [b'appendfsync', word.lower().encode()], word)
            check_equal(client.call('SET', 'k', word), ('+', b'OK'), 'SET')
        parts[1].call('CONFIG', 'SET', 'durability', 'os')
        check_equal(parts[1].get('CONFIG', 'GET', 'appendfsync'), [b'appendfsync', b'no'], 'by our own name')


@suite.case('through a proxy port, bind and timeout are those of the endpoint')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        part = cluster.partition(0)
        check_equal(config(client, 'port'), str(cluster.proxies[0].port), 'port')
        check_equal(config(client, 'bind'), '127.0.0.1', 'bind')
        check_equal(config(part, 'port'), str(cluster.backends[0].addresses[0][1]), 'port of a partition')
        check_equal(client.call('CONFIG', 'SET', 'timeout', '1000'), ('+', b'OK'), 'timeout')
        check_equal((config(client, 'timeout'), config(client, 'idle-timeout')), ('1000', '1000s'), 'timeout')
        check_equal(config(part, 'timeout'), '0', 'the timeout of a partition')
        check_equal(client.call('CONFIG', 'SET', 'maxmemory-clients', '64mb'), ('+', b'OK'), 'maxmemory-clients')
        check_equal((config(client, 'maxmemory-clients'), config(client, 'memory-limit')), ('67108864', '64mb'), 'memory-limit')
        for name in ('port', 'timeout', 'maxclients', 'maxmemory', 'slowlog-max-len'):
            check_equal(client.get('CONFIG', 'GET', '*').count(name.encode()), 1, 'CONFIG GET * has %s once' % name)


@suite.case('CONFIG SET fails before any change when a shard is unreachable')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster, cluster.connect() as client:
        part = cluster.partition(0)
        cluster.backends[1].kill9()
        for words in (('set-max-intset-entries', '77'), ('set-max-intset-entries', '77', 'slowlog-max-len', '77'), ('slowlog-max-len', '77')):
            refused = client.call('CONFIG', 'SET', *words)
            check(refused[0] == '-' and b'shard' in refused[1], refused)
        check_equal((config(part, 'set-max-intset-entries'), config(part, 'slowlog-max-len')), ('512', '128'), 'the other shard')
        check_equal(config(client, 'slowlog-max-len'), '128', 'the proxy')


@suite.case('sizes of caches and memtables change at once: memory shrinks and grows, blob files appear')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0, backend_options={'store': {'write-buffer': '4kb'}}) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])

        def info(name):
            return int(re.search(rb'^%s:(\d+)' % name, client.get('INFO', 'everything'), re.M).group(1))

        def read():
            client.pipeline([['GET', 'key:%d' % i] for i in range(2000)])

        client.pipeline([['SET', 'key:%d' % i, 'x' * 500] for i in range(2000)])
        wait_for(lambda: read() or info(b'row_cache_bytes') > 1 << 19, 'rows to be cached')
        check_equal(client.call('CONFIG', 'SET', 'store-row-cache', '0'), ('+', b'OK'), 'no row cache')
        wait_for(lambda: info(b'row_cache_bytes') == 0, 'the cache to go')
        read()
        check_equal(client.call('CONFIG', 'SET', 'store-row-cache', '16mb', 'store-block-cache', '1mb', 'store-rank-cache', '0',
                                'store-blob-threshold', '400', 'store-compression', 'none'), ('+', b'OK'), 'other sizes')
        wait_for(lambda: read() or info(b'row_cache_bytes') > 1 << 18, 'the cache to be filled again')
        client.get('RPUSH', 'list', *range(100))

        def walk():
            client.pipeline([['LRANGE', 'list', '0', '-1']] * 3)
        wait_for(lambda: walk() or info(b'range_cache_bytes') > 0, 'a run of the list')
        wait_for(lambda: walk() or info(b'range_cache_hits') > 0, 'walks in it')
        check_equal(client.call('CONFIG', 'SET', 'store-range-cache', '0'), ('+', b'OK'), 'no range cache')
        wait_for(lambda: info(b'range_cache_bytes') == 0, 'the range cache to go')
        walk()
        wait_for(lambda: metric(backend.http('/metrics')[1], 'scree_backend_block_cache_capacity_bytes') == 1 << 20, 'the gauge')

        def blobs():
            client.pipeline([['SET', 'key:%d' % i, 'y' * 500] for i in range(200)])
            client.get('SCREE', 'COMPACT', 'START')
            return info(b'store_blob_bytes') > 0
        wait_for(blobs, 'values in blob files')
        wait_for(lambda: b'compaction_state:idle' in client.get('INFO', 'persistence'), 'compaction to end')
        check_equal(client.get('GET', 'key:1'), b'y' * 500, 'a value')


def serial(address, kit):
    with socket.create_connection(address[:2], 20) as plain, kit.context.wrap_socket(plain, server_hostname='localhost') as secure:
        return int(secure.getpeercert()['serialNumber'], 16)


@suite.case("after a change of the certificate's path new connections get the new certificate, and its file is watched")
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, tls=True) as cluster:
        kit = cluster.tls
        for process, client in ((cluster.backends[0], cluster.partition(0)), (cluster.proxies[0], cluster.connect())):
            address = process.addresses[0] if process is cluster.backends[0] else process.address
            check_equal(serial(address, kit), kit.server.serial, 'the first')
            leaf, newer = kit.ca.issue('server'), kit.ca.issue('server')
            paths = [shutil.copy(path, os.path.join(cluster.folder, '%s-%s' % (process.name, end)))
                     for path, end in ((leaf.cert, 'crt'), (leaf.key, 'key'))]
            with open(process.config_path) as file:
                text = file.read()
            text = text.replace(kit.server.cert, paths[0]).replace(kit.server.key, paths[1])
            with open(process.config_path + '.new', 'w') as file:
                file.write(text)
            os.rename(process.config_path + '.new', process.config_path)
            process.signal(signal.SIGHUP)
            wait_for(lambda: serial(address, kit) == leaf.serial, 'the new certificate')
            check(not isinstance(client.get('PING'), ReplyError), 'old connections go on')
            for path, to in ((newer.key, paths[1]), (newer.cert, paths[0])):
                shutil.copy(path, to + '.new')
                os.rename(to + '.new', to)
            wait_for(lambda: serial(address, kit) == newer.serial, 'a change of the file there')


if __name__ == '__main__':
    suite.main()
