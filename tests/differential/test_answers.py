#!/usr/bin/python3
"""Every command that the proxy answers, merges or rewrites has the reply of redis-server, in RESP2 and RESP3.

EXAMPLES (support/transcript.py) has a line for each command that the proxy or several shards answer; the last case
fails for a command without a line. Every byte of a reply must be equal; with !types only the types of all values and
the names in maps; with !kind only the outermost type.

OWN has commands that redis-server does not have, or only in cluster mode, or whose reply depends on its files: here the
reply in RESP3 must have the RESP3 types of the reply in RESP2.
"""

import os
import re

from support import ROOT, transcript
from support.cluster import Cluster, Oracle
from support.harness import Suite, check
from support.resp import show

suite = Suite(__doc__)

SHARDS = 3

EXAMPLES = transcript.parse(r'''
MSET a 1 b 2 c 3 d 4
RPUSH list x y
SADD set m n
HSET hash f v
MGET a b c none d
MSET a 1 b 2 c 3 d 4
MSET a 1 b
DEL x y z
UNLINK x y z
EXISTS a b c none a
TOUCH a b none
DBSIZE
MGET a list
!kind RANDOMKEY
!kind KEYS *
KEYS nothing*
SCAN 0 MATCH nothing* COUNT 1000
!types SCAN 0 COUNT 1000
SCAN x
SCAN 0 COUNT 0
SCAN 0 COUNT x
SCAN 0 COUNT
SCAN 0 MATCH a* COUNT
SCAN 0 NONSENSE
SCAN 0 MATCH nothing* TYPE string COUNT 1000
WAIT 0 1
WAIT x 1
WAIT 0 -1
BLPOP list 0.1
BRPOP none1 0.01
BLMPOP 0.01 1 none1 LEFT
BZPOPMIN none1 0.01
BZPOPMAX none1 0.01
BZMPOP 0.01 1 none1 MIN
BLMOVE none1 none1 LEFT LEFT 0.01
BRPOPLPUSH none1 none1 0.01
BLPOP list x
BLPOP a 0
XREAD STREAMS none1 0
XREAD BLOCK 1 STREAMS none1 $
XREADGROUP GROUP g c BLOCK 1 STREAMS none1 >
PUBSUB CHANNELS
PUBSUB NUMSUB one two
PUBSUB NUMPAT
PUBSUB SHARDCHANNELS
PUBSUB SHARDNUMSUB one
!kind PUBSUB HELP
PUBSUB NONSENSE
PUBLISH channel text
SPUBLISH channel text
UNWATCH
WATCH a
DISCARD
EXEC
AUTH wrong
AUTH default wrong
CLIENT GETNAME
CLIENT SETNAME fred
CLIENT GETNAME
CLIENT SETNAME "with space"
CLIENT GETREDIR
!kind CLIENT HELP
!kind CLIENT ID
!kind CLIENT INFO
!kind CLIENT LIST
!kind CLIENT LIST TYPE normal
CLIENT LIST TYPE nonsense
CLIENT LIST ID x
CLIENT LIST NONSENSE
CLIENT LIST ID 99999999
CLIENT KILL ID 99999999
CLIENT KILL ID x
CLIENT KILL 1.2.3.4:5
CLIENT KILL TYPE nonsense
CLIENT KILL NONSENSE x
CLIENT NO-EVICT on
CLIENT NO-EVICT off
CLIENT NO-EVICT x
CLIENT PAUSE x
CLIENT PAUSE 1
CLIENT UNPAUSE
CLIENT REPLY ON
CLIENT REPLY x
CLIENT TRACKING OFF
CLIENT TRACKING ON
CLIENT TRACKINGINFO
CLIENT GETREDIR
CLIENT CACHING YES
CLIENT TRACKING ON OPTIN
CLIENT TRACKING OFF
CLIENT TRACKING ON BCAST PREFIX x PREFIX xy
CLIENT TRACKING ON REDIRECT 99999999
CLIENT TRACKING x
CLIENT TRACKINGINFO
CLIENT CACHING x
CLIENT UNBLOCK 99999999
CLIENT UNBLOCK x
CLIENT NONSENSE
ECHO text
PING
PING text
PING a b
SELECT 0
SELECT 99
SELECT x
!types HELLO
HELLO 4
HELLO 3 NONSENSE
ACL CAT
ACL CAT nonsense
!types ACL CAT geo
ACL WHOAMI
ACL USERS
ACL LIST
ACL GETUSER default
ACL GETUSER nonsense
ACL SETUSER joe on >secret +get ~k* &c* (+set ~other)
ACL GETUSER joe
ACL LIST
ACL SETUSER joe nonsense
ACL DRYRUN joe GET a
ACL DRYRUN joe SET a 1
ACL DRYRUN nonsense GET a
ACL DELUSER joe nonsense
ACL DELUSER default
!types ACL LOG
ACL LOG RESET
ACL LOG
ACL LOG x
!kind ACL HELP
ACL GENPASS x
!kind ACL GENPASS
ACL LOAD
ACL SAVE
ACL NONSENSE
!kind LASTSAVE
!kind COMMAND COUNT
!kind COMMAND HELP
COMMAND GETKEYS MSET a 1 b 2
COMMAND GETKEYS PING
COMMAND GETKEYSANDFLAGS SET a 1
COMMAND INFO get nonsense
COMMAND LIST FILTERBY PATTERN getr*
!kind COMMAND
!kind COMMAND LIST
CONFIG GET maxmemory
CONFIG GET nonsense
!kind CONFIG GET *
!kind CONFIG HELP
CONFIG RESETSTAT
CONFIG SET nonsense 1
CONFIG SET maxmemory
CONFIG SET slowlog-log-slower-than 10000
FLUSHALL NONSENSE
FLUSHALL SYNC NONSENSE
FLUSHDB NONSENSE
DBSIZE x
KEYS
KEYS a b
RANDOMKEY x
LASTSAVE x
BGSAVE NONSENSE
MEMORY PURGE x
SLOWLOG RESET x
CONFIG RESETSTAT x
CONFIG SET maxmemory x
DEBUG
!kind INFO
!kind INFO server
INFO nonsense
!kind INFO commandstats
!kind ROLE
!kind LATENCY DOCTOR
LATENCY GRAPH nonsense
!kind LATENCY HELP
!types LATENCY HISTOGRAM mget
LATENCY HISTOGRAM nonsense
LATENCY HISTORY nonsense
LATENCY LATEST
LATENCY RESET
LATENCY RESET nonsense
!kind LOLWUT
!kind LOLWUT VERSION 5 1 1 1
!kind MEMORY HELP
!kind MEMORY DOCTOR
!kind MEMORY MALLOC-STATS
MEMORY PURGE
!kind MEMORY STATS
MEMORY USAGE none
!kind MEMORY USAGE a
MODULE LIST
!kind MODULE HELP
CONFIG SET slowlog-log-slower-than -1
SLOWLOG RESET
SLOWLOG LEN
SLOWLOG GET
CONFIG SET slowlog-log-slower-than 10000
SLOWLOG GET x
SLOWLOG GET -2
!kind SLOWLOG HELP
SLOWLOG NONSENSE
!kind TIME
SWAPDB 0 1
SWAPDB 0 1
SWAPDB 0 x
SWAPDB 0 99
SWAPDB 99 0
SWAPDB a b
FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function() return 1 end)"
FUNCTION LOAD "#!lua name=lib\nredis.register_function('f',function() return 1 end)"
FUNCTION LOAD nonsense
FUNCTION LIST
FUNCTION LIST WITHCODE
FUNCTION LIST LIBRARYNAME none
FUNCTION STATS
!kind FUNCTION DUMP
!kind FUNCTION HELP
FCALL f 0
FCALL f 1 a
FCALL nonsense 0
FUNCTION DELETE lib
FUNCTION DELETE lib
FUNCTION FLUSH
FUNCTION FLUSH NONSENSE
FUNCTION FLUSH SYNC NONSENSE
FUNCTION LOAD REPLACE nonsense
FUNCTION RESTORE nonsense NONSENSE
FUNCTION RESTORE nonsense
FUNCTION KILL
SCRIPT KILL
SCRIPT FLUSH
SCRIPT FLUSH NONSENSE
SCRIPT FLUSH SYNC NONSENSE
SCRIPT EXISTS
SCRIPT LOAD "return 1"
SCRIPT LOAD "return 1("
SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db nonsense
!kind SCRIPT HELP
EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 c
EVALSHA nonsense 0
EVAL "return {1,2,{3,false},redis.status_reply('x')}" 1 a
EVAL "redis.setresp(3)return redis.call('hgetall',KEYS[1])" 1 hash
EVAL "redis.setresp(3)return redis.call('smembers',KEYS[1])" 1 set
EVAL "return {double=3.5}" 0
!kind OBJECT HELP
!kind XGROUP HELP
!kind XINFO HELP
PFCOUNT none1
MGET
NONSENSE
PSUBSCRIBE p*
PUNSUBSCRIBE p*
SUBSCRIBE c
UNSUBSCRIBE c
SSUBSCRIBE c
SUNSUBSCRIBE c
UNSUBSCRIBE
QUIT
''')

OWN = r'''
ASKING
READONLY
READWRITE
CLUSTER INFO
CLUSTER KEYSLOT a
CLUSTER MYID
CLUSTER NODES
CLUSTER SHARDS
CLUSTER SLOTS
CLUSTER COUNTKEYSINSLOT 1
CLUSTER GETKEYSINSLOT 1 10
CLUSTER LINKS
CLUSTER MYSHARDID
CLUSTER COUNT-FAILURE-REPORTS x
CLUSTER REPLICAS x
CLUSTER SLAVES x
CLUSTER HELP
COMMAND DOCS get mget
COMMAND
CONFIG GET *
CONFIG SET slowlog-log-slower-than x
CLIENT CAPA redirect
CLIENT MAINT_NOTIFICATIONS OFF
CLIENT NO-TOUCH on
CLIENT SETINFO LIB-NAME x
CLIENT LIST
INFO
INFO everything
CLUSTER SLOT-STATS SLOTSRANGE 5 2
CLUSTER SLOT-STATS ORDERBY key-count LIMIT 3
JSON.DEBUG HELP
JSON.MGET a b $
LATENCY DOCTOR
MEMORY DOCTOR
MEMORY STATS
SCREE BACKUP STATUS
SCREE BACKUP LIST
SCREE BIGKEYS RUN
SCREE COMPACT STATUS
SCREE HELP
SCRIPT SHOW nonsense
SCREE HOTKEYS
SCREE MAP
SCREE MOVES
SCREE NAMESPACES
NAMESPACE CURRENT
COMMANDLOG LEN slow
COMMANDLOG GET 1 large-reply
COMMANDLOG RESET large-reply
COMMANDLOG HELP
NAMESPACE GET *
NAMESPACE HELP
DISK HELP
MPUBLISH channel one two
SCREE KILL 00000000-0-1
SCREE LEADER TO 127.0.0.1:1
SCREE OWNERS
SCREE RELOAD
SCREE REPLICAS
SCREE RUNNING
SCREE SCRIPT KILL
SCREE SHARDS
SCREE SLOWLOG GET
SCREE STRAYS
SCREE TRANSACTIONS
SLOWLOG GET
WAITAOF 0 0 0
'''

# Commands answered by the proxy or several shards whose replies are tested elsewhere.
ELSEWHERE = '''
BGREWRITEAOF: test_compaction
BGSAVE: test_save
CONFIG REWRITE: test_config_set
MONITOR: test_proxy_admin
MULTI: behaviours
RESET: behaviours
SAVE: test_save
SCREE CHANGES: test_change_stream
'''


def lines(text):
    return [line for line in text.strip().split('\n') if line]


def as_resp2(reply):
    """The types that this RESP3 reply has in RESP2."""
    kind, payload = reply
    if kind == '_' or payload is None:
        return 'nil'
    if isinstance(payload, list):
        return '*', [as_resp2(item) for item in payload]
    return {',': '$', '#': ':', '=': '$', '(': '$', '!': '-'}.get(kind, kind)


def compare(proto, address_of):
    with Oracle() as oracle, Cluster(backends=1, partitions=SHARDS) as cluster:
        transcript.compare(EXAMPLES, oracle.address, address_of(cluster), proto, 'exact')


def partition(cluster):
    return cluster.backends[0].addresses[0]


def proxy(cluster):
    return cluster.proxies[0].address


for version in (2, 3):
    suite.case('RESP%d: replies of a partition are those of Redis' % version)(
        lambda run, version=version: compare(version, partition))
    suite.case('RESP%d: replies through a proxy with %d shards are those of Redis' % (version, SHARDS))(
        lambda run, version=version: compare(version, proxy))


@suite.case('through the proxy INFO in RESP3 has every section and field that it has in RESP2')
def _(run):
    def names(text):
        """Without commands: between two requests the proxy's own ones may run for the first time."""
        found = [line.split(':')[0] for line in text.split('\r\n')]
        return [name for name in found if not name.startswith(('cmdstat_', 'latency_percentiles_'))]

    with Cluster(backends=2, partitions=2) as cluster, cluster.connect() as two, cluster.connect(proto=3) as three:
        for section in ([], ['server'], ['all'], ['stats', 'shards'], ['nonsense']):
            texts = [client.get('INFO', *section).decode() for client in (two, three)]
            check(texts[0].startswith('# ') or section == ['nonsense'], texts[0][:40])
            check(names(texts[0]) == names(texts[1]), 'INFO %s: %r' % (section, [text[:80] for text in texts]))
            if section not in (['all'], ['nonsense']):
                check(all('# ' + name.capitalize() in texts[1] for name in section), texts[1][:80])


@suite.case('commands that Redis does not have reply with the types of RESP3 too')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as two, cluster.connect(proto=3) as three:
        two.call('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        three.call('PING')
        for line in lines(OWN):
            replies = [client.call(*line.split(' ')) for client in (two, three)]
            kinds = [as_resp2(reply) for reply in replies]
            check(kinds[0] == kinds[1] or kinds[0][0] == kinds[1][0] == '*' and line.startswith('S'),
                  '%s\n  RESP2: %s\n  RESP3: %s' % (line, show(replies[0]), show(replies[1])))


# They end the connection, change what follows, or wait.
NO_REPLY = {'monitor', 'quit', 'reset', 'subscribe', 'psubscribe', 'ssubscribe', 'client|reply', 'client|pause', 'client|kill', 'auth', 'exec',
            'multi', 'sync', 'psync', 'shutdown'}


@suite.case('an error that all shards reply, as of wrong arguments, names no shard')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        names = set()
        for row in client.get('COMMAND'):
            names.add(row[0].decode())
            names.update(sub[0].decode() for sub in row[9])
        check(len(names) > 400 and 'function|flush' in names, '%d commands' % len(names))
        for name in sorted(names - NO_REPLY):
            for words in (['x'], ['x', '-1'], ['x', 'y', 'z'], ['{k}', '{l}', 'x', 'y']):
                reply = show(client.call(*name.split('|'), *words), 1 << 20)
                check("(shard '" not in reply, '%s %s: %s' % (name, ' '.join(words), reply[:300]))


@suite.case('SCAN through the proxy continues at the next shard until COUNT is used up')
def _(run):
    names = {b'key:%d' % i for i in range(300)}
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as client:
        client.call('MSET', *[word for name in names for word in (name, 'value')])
        for options in ((), ('MATCH', '*'), ('TYPE', 'string')):
            for count in (1, 7, 50, 150, 299, 300, 1000, 1 << 40):
                cursor, pages, seen = b'0', 0, []
                while pages == 0 or cursor != b'0':
                    cursor, found = client.get('SCAN', cursor, *options, 'COUNT', count)
                    pages, seen = pages + 1, seen + found
                check(sorted(seen) == sorted(names), 'COUNT %d: %d keys' % (count, len(seen)))
                check(count < 300 or pages == 1, 'COUNT %d: %d pages' % (count, pages))
                check(pages <= 300 // count + SHARDS, 'COUNT %d: %d pages' % (count, pages))
        check(client.get('SCAN', '0', 'MATCH', 'none', 'COUNT', '300') == [b'0', []], 'a pattern that nothing matches')


@suite.case('MEMORY STATS through the proxy counts each process once')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect(proto=3) as client:
        client.call('MSET', *[word for i in range(100) for word in ('key:%d' % i, 'value')])
        sum_of_all = client.get('MEMORY', 'STATS')
        parts = [cluster.partition(shard) for shard in range(SHARDS)]
        of_parts = []
        for part in parts:
            part.call('HELLO', '3')
            of_parts.append(part.get('MEMORY', 'STATS'))
            part.close()
        check(set(sum_of_all) == set(of_parts[0]), 'the names differ')
        check(sum_of_all[b'keys.count'] == 100, sum_of_all[b'keys.count'])
        check(sum_of_all[b'startup.allocated'] == of_parts[0][b'startup.allocated'], 'startup.allocated')
        check(sum_of_all[b'total.allocated'] < 2 * of_parts[0][b'total.allocated'], 'total.allocated')


@suite.case('each command that the proxy or several shards answer has an example here')
def _(run):
    page = os.path.join(ROOT, 'docs', 'commands.md')
    examples = [b' '.join(packet[0].words).decode() for packet in EXAMPLES] + lines(OWN) + lines(ELSEWHERE)
    missing = []
    for row in re.findall(r'^\| `([^`]+)` \| -?\d+ \| (\w+) \| ([^|]*) \|', open(page, encoding='utf-8').read(), re.M):
        name, answered_by, route = row
        by_one = answered_by == 'backend' and re.match(r'(by-key|denied|any)\b', route)
        has_example = any((line + ' ').replace(':', ' ').startswith(name + ' ') for line in examples)
        if not by_one and route.strip() and not has_example:
            missing.append(name)
    check(not missing, 'no example of ' + ', '.join(missing))


if __name__ == '__main__':
    suite.main()
