#!/usr/bin/python3
"""BGSAVE: the copy is the complete data at the time of the command, and a backend starts from it."""

import os
import re
import shlex
import shutil

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, ReplyError

suite = Suite(__doc__)
KEYS = 3000


def is_over(client):
    text = client.get('INFO', 'persistence')
    return b'rdb_bgsave_in_progress:0' in text and b'aof_rewrite_in_progress:0' in text


def save(client):
    check_equal(client.get('BGSAVE'), b'Background saving started', 'BGSAVE')
    wait_for(lambda: is_over(client), 'the copy to be made')
    check(b'rdb_last_bgsave_status:ok' in client.get('INFO', 'persistence'), 'the copy was made')


@suite.case('a copy made under writes is complete, the newest replaces the one before, and a backend serves it')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        client, writer = (Connection(backend.addresses[0]) for _ in range(2))
        client.pipeline([['SET', 'key:%d' % i, 'first'] for i in range(KEYS)])
        save(client)
        client.pipeline([['SET', 'key:%d' % i, 'second'] for i in range(KEYS)])
        before = client.get('LASTSAVE')
        writer.send_many([['INCR', 'counter']] * 5000)
        save(client)
        for _ in range(5000):
            writer.read()
        check(client.get('LASTSAVE') >= before, 'LASTSAVE goes on')
        data = os.path.join(cluster.folder, 'data-0')
        backend.stop()
        shutil.rmtree(os.path.join(data, 'partition-0'))
        os.rename(os.path.join(data, 'saved-partition-0'), os.path.join(data, 'partition-0'))
        backend.start()
        restored = Connection(backend.addresses[0])
        values = restored.get('MGET', *('key:%d' % i for i in range(KEYS)))
        check_equal(set(values), {b'second'}, 'every key as it was at the second copy')
        counter = int(restored.get('GET', 'counter') or 0)
        check(counter <= 5000, 'a moment among the writes: %d' % counter)
        check_equal(restored.get('DBSIZE'), KEYS + (counter > 0), 'counts fit')


def changes(client):
    text = client.get('INFO', 'persistence')
    return int(re.search(rb'rdb_changes_since_last_save:(\d+)', text).group(1))


@suite.case('changes since the last save are counted: writes and deletions, but no commands that failed or changed nothing')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        check_equal(changes(client), 0, 'at the start')
        client.pipeline([['SET', 'key:%d' % i, 'x'] for i in range(10)])
        check_equal(changes(client), 10, 'ten keys were set')
        client.pipeline([['GET', 'key:1'], ['DEL', 'nothing'], ['HSET', 'key:1', 'f', 'v'], ['DEL', 'key:1'], ['INCR', 'n']])
        check_equal(changes(client), 12, 'one deleted, one set')
        save(client)
        check_equal(changes(client), 0, 'BGSAVE has them all')
        client.pipeline([['MULTI'], ['SET', 'a', '1'], ['HSET', 'a', 'f', 'v'], ['SET', 'b', '1'], ['EXEC']])
        check_equal(changes(client), 2, 'in a transaction')
        client.get('SAVE')
        check_equal(changes(client), 0, 'SAVE too')
        client.get('FLUSHALL')
        check_equal(changes(client), 12, 'FLUSHALL counts what was there')


# Sent to redis-server as well: does it count the command as a change?
MAYBE_CHANGES = """
SETBIT b 5 1|SETBIT b 5 1|SETBIT b 5 0|SETBIT b 5 0|SETBIT b 500 0|SETBIT b 500 0|SETBIT new 5 0|SETBIT new 5 0
BITFIELD b SET u8 0 3|BITFIELD b SET u8 0 3|BITFIELD b INCRBY u8 0 0|BITFIELD b SET u8 0 3 SET u8 8 0|BITFIELD b GET u8 0
BITFIELD b OVERFLOW FAIL INCRBY u8 0 255|BITFIELD f SET u8 0 0|BITFIELD f SET u8 0 0|BITFIELD b SET u8 9000 0
SETRANGE b 0 ""|APPEND a ""|HSET h a 1|HSETNX h a 2|SADD s a|SADD s a|SREM s x|ZADD z 1 a|ZADD z 1 a|ZADD z GT 0 a|PERSIST z
GETEX a|LREM l 0 x|PFADD p a|PFADD p a|COPY h h2|COPY h h2|XADD x 5-1 f v|XTRIM x MAXLEN 9|XTRIM x MAXLEN ~ 0|XDEL x 1-1
XGROUP CREATE x g 0|XGROUP SETID x g 0|XGROUP CREATECONSUMER x g c|XGROUP CREATECONSUMER x g c|XGROUP DELCONSUMER x g no
XACK x g 1-1|XADD x 6-1 f v|XREADGROUP GROUP g c STREAMS x >|XREADGROUP GROUP g c STREAMS x >|XREADGROUP GROUP g c STREAMS x 0
XCLAIM x g c 0 6-1|XAUTOCLAIM x g c 0 -|XACK x g 6-1|XACK x g 6-1|XGROUP DELCONSUMER x g c
XGROUP DESTROY x no|XGROUP DESTROY x g|EXPIRE h 100 XX|RENAMENX h z|MOVE no 1|GEOADD geo 1 1 m|GEOADD geo 1 1 m|FLUSHDB
"""


@suite.case('a SETBIT or BITFIELD that changes nothing is no change; other commands are changes when they are for redis-server')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=1, proxies=0) as cluster:
        both = [Connection(oracle.address), Connection(cluster.backends[0].addresses[0])]
        for line in re.split(r'[|\n]', MAYBE_CHANGES.strip()):
            counted = []
            for client in both:
                before = changes(client)
                client.get(*shlex.split(line))
                counted.append(changes(client) > before)
            check_equal(counted[1], counted[0], line)


@suite.case('BITFIELD counts as many changes as redis-server, on new keys, on values that grow, and for several operations')
def _(run):
    lines = ['n1 INCRBY u8 0 1', 'n1 INCRBY u8 0 0', 'n2 INCRBY u8 0 0', 'n3 SET u8 0 0', 'n3 SET u8 0 5 INCRBY u8 8 1 GET u8 0',
             'n4 INCRBY u8 0 1 INCRBY u8 8 1', 'n5 OVERFLOW FAIL INCRBY u1 0 5', 'n6 GET u8 0', 'n1 SET u8 0 1 SET u8 16 0',
             'n7 SET u8 100 0 INCRBY u8 0 0', 'n7 SET u8 90000 0 INCRBY u8 0 1', 'n7 SET u8 90000 7 INCRBY u8 0 1 INCRBY u8 0 0']
    with Oracle() as oracle, Cluster(backends=1, partitions=1, proxies=0) as cluster:
        both = [Connection(oracle.address), Connection(cluster.backends[0].addresses[0])]
        for line in lines:
            counted = []
            for client in both:
                before = changes(client)
                reply = client.get('BITFIELD', *line.split())
                counted.append((reply, changes(client) - before))
            check_equal(counted[1], counted[0], line)


@suite.case('a second BGSAVE waits for the first; BGREWRITEAOF compacts at the same time')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        answers = client.pipeline([['BGREWRITEAOF'], ['BGSAVE'], ['BGSAVE'], ['BGSAVE', 'SCHEDULE'], ['BGSAVE', 'x']])
        texts = [str(answer[1]) for answer in answers]
        check('started' in texts[0] and 'started' in texts[1] and 'scheduled' in texts[3], 'started: %r' % texts)
        check('already in progress' in texts[2] and 'syntax' in texts[4], 'refused: %r' % texts)
        wait_for(lambda: is_over(client), 'both to end')
        check(not isinstance(client.get('PING'), ReplyError), 'the partition serves')


if __name__ == '__main__':
    suite.main()
