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


# Sent to redis-server as well: how many changes does it count?
COUNTED = """
SETBIT b 5 1|SETBIT b 5 1|SETBIT b 5 0|SETBIT b 5 0|SETBIT b 500 0|SETBIT b 500 0|SETBIT new 5 0|SETBIT new 5 0
BITFIELD b SET u8 0 3|BITFIELD b SET u8 0 3|BITFIELD b INCRBY u8 0 0|BITFIELD b SET u8 0 3 SET u8 8 0|BITFIELD b GET u8 0
BITFIELD b OVERFLOW FAIL INCRBY u8 0 255|BITFIELD f SET u8 0 0|BITFIELD f SET u8 0 0|BITFIELD b SET u8 9000 0
BITFIELD n1 INCRBY u8 0 1|BITFIELD n1 INCRBY u8 0 0|BITFIELD n2 INCRBY u8 0 0|BITFIELD n3 SET u8 0 0
BITFIELD n3 SET u8 0 5 INCRBY u8 8 1 GET u8 0|BITFIELD n4 INCRBY u8 0 1 INCRBY u8 8 1|BITFIELD n5 OVERFLOW FAIL INCRBY u1 0 5
BITFIELD n6 GET u8 0|BITFIELD n1 SET u8 0 1 SET u8 16 0|BITFIELD n7 SET u8 100 0 INCRBY u8 0 0
BITFIELD n7 SET u8 90000 0 INCRBY u8 0 1|BITFIELD n7 SET u8 90000 7 INCRBY u8 0 1 INCRBY u8 0 0
SETRANGE b 0 ""|APPEND a ""|SET k v|SET k v NX|MSET k 1 l 2|MSETNX k 1|INCR k|GETDEL l|GETEX a|GETSET k 3|DEL k none
HSET h a 1|HSET h a 1 b 2 c 3|HMSET h a 1 d 4|HSETNX h a 2|HINCRBY h a 1|HDEL h a b none|HDEL h none|HDEL h c d
RPUSH q a b c d e f g h|LPUSH q z a|RPUSHX q a b|LPUSHX none a b|LPOP q|RPOP q 2|LPOP q 0|LMPOP 1 q LEFT COUNT 2|BLMPOP 0 1 q LEFT COUNT 2
LREM q 0 x|RPUSH q a a a b c d|LREM q 2 a|LTRIM q 0 -1|LTRIM q 1 2|LTRIM q 5 2|LTRIM q 5 2|LSET q 0 x|RPUSH q a b c d|LINSERT q BEFORE b x|BLPOP q 0
LMOVE q q LEFT RIGHT|LMOVE q r LEFT RIGHT|RPOPLPUSH r q|BLMOVE q r LEFT LEFT 0|BRPOPLPUSH q r 0|LMPOP 1 q LEFT COUNT 99
SADD s a|SADD s a b c d e f|SADD s a|SREM s x|SREM s a b x|SPOP s|SPOP s 2|SPOP s 9|SADD s a b|SADD t b c|SMOVE s t a|SMOVE s t a|SUNIONSTORE u s t
ZADD z 1 a|ZADD z 1 a|ZADD z GT 0 a|ZADD z 2 a 3 b 4 c 5 d|ZADD z CH 3 a 3 b 7 e|ZINCRBY z 1 a|ZREM z a none|ZREMRANGEBYRANK z 0 1|ZREM z none
ZREMRANGEBYSCORE z 9 9|ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g|ZPOPMIN z 2|ZPOPMAX z|ZMPOP 1 z MIN COUNT 2|BZMPOP 0 1 z MIN COUNT 9|BZPOPMIN none 0.001
ZADD z 1 a 1 b 1 c|ZREMRANGEBYLEX z [a [b|ZADD y 2 c 3 d|ZUNIONSTORE v 2 z y|ZRANGESTORE w v 0 -1|ZRANGESTORE w none 0 -1
SORT v BY nosort STORE sorted|SORT t ALPHA STORE sorted|SORT none STORE sorted|SORT none STORE sorted
PERSIST z|EXPIRE z 100|PERSIST z|EXPIRE h 100 XX|EXPIRE z -1|PFADD p a|PFADD p a|PFADD p a b c d|PFADD empty|PFADD empty|PFMERGE p2 p
HSET h a 1 b 2|COPY h h2|COPY h h2|RENAME h2 h3|RENAMENX h3 h4|RENAMENX h4 h|MOVE h4 2|MOVE no 1|SWAPDB 2 3|SWAPDB 2 2
XADD x 5-1 f v|XTRIM x MAXLEN 9|XTRIM x MAXLEN ~ 0|XDEL x 1-1|XSETID x 5-1
XGROUP CREATE x g 0|XGROUP CREATE xm g 0 MKSTREAM|XGROUP SETID x g 0|XGROUP CREATECONSUMER x g c|XGROUP CREATECONSUMER x g c
XGROUP DELCONSUMER x g no|XACK x g 1-1|XADD x 6-1 f v|XREADGROUP GROUP g c STREAMS x >|XREADGROUP GROUP g c STREAMS x >
XREADGROUP GROUP g c STREAMS x 0|XREADGROUP GROUP g c2 STREAMS x >|XADD x 7-1 f v|XREADGROUP GROUP g c3 STREAMS x >
XADD x 8-1 f v|XADD y2 8-1 f v|XGROUP CREATE y2 g 0|XREADGROUP GROUP g c4 STREAMS x y2 > >
XCLAIM x g c 0 6-1|XCLAIM x g new 0 5-1 6-1 7-1|XCLAIM x g c 999999 6-1|XCLAIM x g none 0 1-1|XCLAIM x g c 0 6-1 LASTID 9-9|XDEL x 6-1
XCLAIM x g c 9999 7-1 LASTID 9-10|XCLAIM x g c 9999 7-1 LASTID 9-10
XCLAIM x g c 0 6-1|XDEL x 7-1|XAUTOCLAIM x g newer 0 - COUNT 9|XAUTOCLAIM x g newer 0 -|XACK x g 5-1 6-1 7-1 8-1|XACK x g 6-1
XADD x 20-1 f v|XADD x 21-1 f v|XADD x 22-1 f v|XADD x MAXLEN 2 23-1 f v|XDEL x 22-1 21-1 23-1|XTRIM x MAXLEN 0|XGROUP DELCONSUMER x g c
XGROUP DESTROY x no|XGROUP DESTROY x g|GEOADD geo 1 1 m|GEOADD geo 1 1 m|GEOADD geo 2 2 n 3 3 o|GEOSEARCHSTORE near geo FROMMEMBER m BYRADIUS 9000 km
GEORADIUS geo 0 0 9000 km STORE near|GEOSEARCHSTORE near geo FROMLONLAT 80 80 BYRADIUS 1 m|RESTORE q 0 "broken"|FUNCTION LOAD "#!lua name=a
redis.register_function('f', function() return 1 end)"|FUNCTION LOAD x|FUNCTION DELETE a|FUNCTION DELETE a|FUNCTION FLUSH
GET missing|FLUSHDB
"""


@suite.case('as many changes are counted as by redis-server: elements for many commands, none for what changes nothing')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=1, proxies=0) as cluster:
        both = [Connection(oracle.address), Connection(cluster.backends[0].addresses[0])]
        lines = re.split(r'[|]|\n(?!redis)', COUNTED.strip())
        differ = []
        for line in lines:
            counted = []
            for client in both:
                before = changes(client)
                client.get(*shlex.split(line))
                counted.append(changes(client) - before)
            if counted[0] != counted[1]:
                differ.append((line, *counted))
        check_equal(differ, [], 'changes of redis-server and here')


@suite.case('a key that expires is no change, neither when a client finds it nor when nothing does')
def _(run):
    with Oracle() as oracle, Cluster(backends=1, partitions=1, proxies=0) as cluster:
        for address in (oracle.address, cluster.backends[0].addresses[0]):
            client = Connection(address)
            before = changes(client)
            client.pipeline([['SET', 'key:%d' % i, 'v', 'PX', '1'] for i in range(20)] + [['GET', 'key:1']])
            wait_for(lambda: client.get('DBSIZE') == 0, 'the keys to expire')
            check_equal(changes(client) - before, 20, 'each SET is a change, the end of its key none')


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
