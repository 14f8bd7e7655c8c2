"""copied.py - a redis-server whose data scree-copy moves, and the comparison of each key with the target's."""

import os
import subprocess

from support import ROOT
from support.cluster import binary
from support.harness import check, check_equal, patience
from support.resp import Connection


class Source:
    """A redis-server that writes RDB files."""

    def __init__(self, oracle):
        self.oracle, self.db = oracle, 0
        self.connection = Connection(oracle.address)

    def call(self, *words):
        kind, value = self.connection.call(*words)
        check(kind != '-', '%s: %s' % (words[:3], value))
        return value

    def save(self):
        self.call('SAVE')
        return os.path.join(self.oracle.folder, 'dump.rdb')


def copy(*words, cluster=None, wrapper=(), **more):
    """Runs scree-copy to its end."""
    to = () if cluster is None else ('--to', address(cluster))
    return subprocess.run([*wrapper, binary('scree-copy'), *words, *to], capture_output=True, text=True, timeout=5 * patience(), check=False, **more)


def address(cluster, db=None):
    return 'scree://%s:%d%s' % (*cluster.proxies[0].address, '' if db is None else '/%d' % db)


def first_commands(page, block=1):
    """The lines of a page's first block of commands, or a later one."""
    with open(os.path.join(ROOT, 'docs', page), encoding='utf-8') as file:
        return file.read().split('```sh\n')[block].split('```')[0].splitlines()


def check_copied(done, words=''):
    check_equal(done.returncode, 0, 'exit code: ' + done.stdout + done.stderr)
    check(words in done.stdout, 'no %r in %s' % (words, done.stdout))


READS = {
    b'string': [('GET',)],
    b'list': [('LRANGE', '0', '-1')],
    b'set': [('SMEMBERS',)],
    b'hash': [('HGETALL',)],
    b'zset': [('ZRANGE', '0', '-1', 'WITHSCORES')],
    b'stream': [('XRANGE', '-', '+')],
}


def pairs(values):
    return sorted(zip(values[::2], values[1::2]))


def pending_of(fields):
    """The pending entries of a group or consumer; versions name them differently."""
    return fields[b'pel'] if b'pel' in fields else fields[b'pending']


def stream_state(connection, key):
    """What XINFO says about a stream, without times of this moment and without lengths of Redis' trees."""
    def plain(value):
        if value[0] == '*':
            return [plain(part) for part in value[1]]
        return value[1]
    info = plain(connection.call('XINFO', 'STREAM', key, 'FULL', 'COUNT', '0'))
    fields = dict(zip(info[::2], info[1::2]))
    groups = []
    for group in fields[b'groups']:
        group = dict(zip(group[::2], group[1::2]))
        consumers = []
        for consumer in group[b'consumers']:
            consumer = dict(zip(consumer[::2], consumer[1::2]))
            consumers.append((consumer[b'name'], pending_of(consumer)))
        groups.append((group[b'name'], group[b'last-delivered-id'], group[b'entries-read'], pending_of(group), sorted(consumers)))
    return [fields[name] for name in (b'length', b'last-generated-id', b'max-deleted-entry-id', b'entries-added', b'recorded-first-entry-id')] + sorted(groups)


def value_of(connection, key):
    """Type, time to live and value of a key, in an order that does not depend on the server."""
    kind = connection.call('TYPE', key)[1]
    expires = connection.call('PEXPIRETIME', key)[1]
    if kind == b'none':
        return None
    replies = [connection.call(words[0], key, *words[1:]) for words in READS[kind]]
    value = replies[0][1]
    if kind == b'zset':  # versions of Redis write the same score with fewer or more digits
        value = [(member[1], float(score[1])) for member, score in zip(value[::2], value[1::2])]
    if kind in (b'hash', b'set'):
        texts = [part[1] for part in value]
        value = sorted(texts) if kind == b'set' else pairs(texts)
    if kind == b'stream':
        value = (value, stream_state(connection, key))
    return kind, expires, value


def check_equal_keys(source, target, keys=None):
    keys = keys if keys is not None else [key[1] for key in source.call('KEYS', '*')]
    for key in keys:
        check_equal(value_of(target, key), value_of(source.connection, key), 'key %r' % key)
    return len(keys)


def fill(source, prefix, sizes):
    """Keys of each type with so many elements; and texts of each kind."""
    for count in sizes:
        name = prefix + str(count)
        numbers = [str(i * i - 5) for i in range(count)]
        texts = ['element %d %s' % (i, 'x' * (i % 50)) for i in range(count)]
        source.call('RPUSH', 'list:' + name, *texts)
        source.call('RPUSH', 'numbers:' + name, *numbers)
        source.call('SADD', 'set:' + name, *texts)
        source.call('SADD', 'integers:' + name, *numbers)
        source.call('HSET', 'hash:' + name, *(word for text in texts for word in (text, text[::-1])))
        source.call('ZADD', 'zset:' + name, *(word for i, text in enumerate(texts) for word in (repr(i / 3), text)))
        for i, text in enumerate(texts):
            source.call('XADD', 'stream:' + name, '%d-%d' % (i // 2 + 1, i % 2 + 1), *(('f', text) if i % 5 else ('g', text, 'h', str(i))))
    source.call('ZADD', 'infinite:' + prefix, '-inf', 'a', 'inf', 'b', '1e300', 'c', '-0.1', 'd')
    for i, text in enumerate(('', '0', '-1', '127', '-129', '70000', '2147483647', '9223372036854775807', '007', 'x' * 10, 'ab' * 5000, 'q' * 70000)):
        source.call('SET', 'string:%s%d' % (prefix, i), text)


def fill_groups(source, key, count):
    """Groups with pending entries of messages that exist, were deleted and were trimmed, delivered once and twice."""
    source.call('XGROUP', 'CREATE', key, 'first', '0')
    source.call('XGROUP', 'CREATE', key, 'idle', '$')
    source.call('XGROUP', 'CREATECONSUMER', key, 'first', 'lazy')
    source.call('XREADGROUP', 'GROUP', 'first', 'one', 'COUNT', str(count), 'STREAMS', key, '>')
    source.call('XREADGROUP', 'GROUP', 'first', 'two', 'COUNT', str(count), 'STREAMS', key, '>')
    source.call('XCLAIM', key, 'first', 'two', '0', '1-1', 'RETRYCOUNT', '7')
