#!/usr/bin/python3
"""Every command that the proxy answers, merges or rewrites has the reply of redis-server, in RESP2 and RESP3.

EXAMPLES has a line for each command that more than one shard or the proxy itself answers; one without a line fails the
last case. The first word of a line says what must be the same:

    same    every byte
    types   the types of all values, and the names in maps; figures and texts may differ
    type    the outermost type

OWN are commands that redis-server does not know, or not outside of its cluster mode, or answers by the state of its files:
their reply in RESP3 must be that in RESP2 in the types of RESP3.
"""

import os
import re

from support import ROOT
from support.cluster import Cluster, Oracle
from support.harness import Suite, check
from support.resp import Connection, show

suite = Suite(__doc__)

SHARDS = 3

# Before the examples, once per server.
SETUP = r'''
FLUSHALL
MSET a 1 b 2 c 3 d 4
RPUSH list x y
SADD set m n
HSET hash f v
'''

EXAMPLES = r'''
same    MGET a b c none d
same    MSET a 1 b 2 c 3 d 4
same    MSET a 1 b
same    DEL x y z
same    UNLINK x y z
same    EXISTS a b c none a
same    TOUCH a b none
same    DBSIZE
same    MGET a list
type    RANDOMKEY
type    KEYS *
same    KEYS nothing*
same    SCAN 0 MATCH nothing* COUNT 1000
types   SCAN 0 COUNT 1000
same    SCAN x
same    SCAN 0 COUNT 0
same    SCAN 0 COUNT x
same    SCAN 0 NONSENSE
same    SCAN 0 MATCH nothing* TYPE string COUNT 1000
same    WAIT 0 1
same    WAIT x 1
same    WAIT 0 -1
same    BLPOP list 0.1
same    BRPOP none1 0.01
same    BLMPOP 0.01 1 none1 LEFT
same    BZPOPMIN none1 0.01
same    BZPOPMAX none1 0.01
same    BZMPOP 0.01 1 none1 MIN
same    BLMOVE none1 none1 LEFT LEFT 0.01
same    BRPOPLPUSH none1 none1 0.01
same    BLPOP list x
same    BLPOP a 0
same    XREAD STREAMS none1 0
same    XREAD BLOCK 1 STREAMS none1 $
same    XREADGROUP GROUP g c BLOCK 1 STREAMS none1 >
same    PUBSUB CHANNELS
same    PUBSUB NUMSUB one two
same    PUBSUB NUMPAT
same    PUBSUB SHARDCHANNELS
same    PUBSUB SHARDNUMSUB one
type    PUBSUB HELP
same    PUBSUB NONSENSE
same    PUBLISH channel text
same    SPUBLISH channel text
same    UNWATCH
same    WATCH a
same    DISCARD
same    EXEC
same    AUTH wrong
same    AUTH default wrong
same    CLIENT GETNAME
same    CLIENT SETNAME fred
same    CLIENT GETNAME
same    CLIENT SETNAME with\x20space
same    CLIENT GETREDIR
type    CLIENT HELP
type    CLIENT ID
type    CLIENT INFO
type    CLIENT LIST
type    CLIENT LIST TYPE normal
same    CLIENT LIST TYPE nonsense
same    CLIENT LIST ID x
same    CLIENT LIST NONSENSE
same    CLIENT LIST ID 99999999
same    CLIENT KILL ID 99999999
same    CLIENT KILL ID x
same    CLIENT KILL 1.2.3.4:5
same    CLIENT KILL TYPE nonsense
same    CLIENT KILL NONSENSE x
same    CLIENT NO-EVICT on
same    CLIENT NO-EVICT off
same    CLIENT NO-EVICT x
same    CLIENT PAUSE x
same    CLIENT PAUSE 1
same    CLIENT UNPAUSE
same    CLIENT REPLY ON
same    CLIENT REPLY x
same    CLIENT TRACKING OFF
same    CLIENT TRACKING ON
same    CLIENT TRACKINGINFO
same    CLIENT GETREDIR
same    CLIENT CACHING YES
same    CLIENT TRACKING ON OPTIN
same    CLIENT TRACKING OFF
same    CLIENT TRACKING ON BCAST PREFIX x PREFIX xy
same    CLIENT TRACKING ON REDIRECT 99999999
same    CLIENT TRACKING x
same    CLIENT TRACKINGINFO
same    CLIENT CACHING x
same    CLIENT UNBLOCK 99999999
same    CLIENT UNBLOCK x
same    CLIENT NONSENSE
same    ECHO text
same    PING
same    PING text
same    PING a b
same    SELECT 0
same    SELECT 99
same    SELECT x
types   HELLO
same    HELLO 4
same    HELLO 3 NONSENSE
same    ACL CAT
same    ACL CAT nonsense
types   ACL CAT geo
same    ACL WHOAMI
same    ACL USERS
same    ACL LIST
same    ACL GETUSER default
same    ACL GETUSER nonsense
same    ACL SETUSER joe on >secret +get ~k* &c* (+set ~other)
same    ACL GETUSER joe
same    ACL LIST
same    ACL SETUSER joe nonsense
same    ACL DRYRUN joe GET a
same    ACL DRYRUN joe SET a 1
same    ACL DRYRUN nonsense GET a
same    ACL DELUSER joe nonsense
same    ACL DELUSER default
types   ACL LOG
same    ACL LOG RESET
same    ACL LOG
same    ACL LOG x
type    ACL HELP
same    ACL GENPASS x
type    ACL GENPASS
same    ACL LOAD
same    ACL SAVE
same    ACL NONSENSE
type    LASTSAVE
type    COMMAND COUNT
type    COMMAND HELP
same    COMMAND GETKEYS MSET a 1 b 2
same    COMMAND GETKEYS PING
same    COMMAND GETKEYSANDFLAGS SET a 1
same    COMMAND INFO get nonsense
same    COMMAND LIST FILTERBY PATTERN getr*
type    COMMAND
type    COMMAND LIST
same    CONFIG GET maxmemory
same    CONFIG GET nonsense
type    CONFIG GET *
type    CONFIG HELP
same    CONFIG RESETSTAT
same    CONFIG SET nonsense 1
same    CONFIG SET maxmemory
same    CONFIG SET slowlog-log-slower-than 10000
same    FLUSHALL NONSENSE
same    FLUSHDB NONSENSE
same    DEBUG
type    INFO
type    INFO server
same    INFO nonsense
type    INFO commandstats
type    ROLE
type    LATENCY DOCTOR
same    LATENCY GRAPH nonsense
type    LATENCY HELP
types   LATENCY HISTOGRAM mget
same    LATENCY HISTOGRAM nonsense
same    LATENCY HISTORY nonsense
same    LATENCY LATEST
same    LATENCY RESET
same    LATENCY RESET nonsense
type    LOLWUT
type    LOLWUT VERSION 5 1 1 1
type    MEMORY HELP
type    MEMORY DOCTOR
type    MEMORY MALLOC-STATS
same    MEMORY PURGE
type    MEMORY STATS
same    MEMORY USAGE none
type    MEMORY USAGE a
same    MODULE LIST
type    MODULE HELP
same    SLOWLOG RESET
same    SLOWLOG LEN
same    SLOWLOG GET
same    SLOWLOG GET x
same    SLOWLOG GET -2
type    SLOWLOG HELP
same    SLOWLOG NONSENSE
type    TIME
same    SWAPDB 0 1
same    SWAPDB 0 1
same    SWAPDB 0 x
same    SWAPDB 0 99
same    FUNCTION LOAD #!lua\x20name=lib\nredis.register_function('f',function()\x20return\x201\x20end)
same    FUNCTION LOAD #!lua\x20name=lib\nredis.register_function('f',function()\x20return\x201\x20end)
same    FUNCTION LOAD nonsense
same    FUNCTION LIST
same    FUNCTION LIST WITHCODE
same    FUNCTION LIST LIBRARYNAME none
same    FUNCTION STATS
type    FUNCTION DUMP
type    FUNCTION HELP
same    FCALL f 0
same    FCALL f 1 a
same    FCALL nonsense 0
same    FUNCTION DELETE lib
same    FUNCTION DELETE lib
same    FUNCTION FLUSH
same    FUNCTION FLUSH NONSENSE
same    FUNCTION RESTORE nonsense
same    FUNCTION KILL
same    SCRIPT KILL
same    SCRIPT FLUSH
same    SCRIPT FLUSH NONSENSE
same    SCRIPT LOAD return\x201
same    SCRIPT LOAD return\x201(
same    SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db nonsense
type    SCRIPT HELP
same    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
same    EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 c
same    EVALSHA nonsense 0
same    EVAL return\x20{1,2,{3,false},redis.status_reply('x')} 1 a
same    EVAL redis.setresp(3)return\x20redis.call('hgetall',KEYS[1]) 1 hash
same    EVAL redis.setresp(3)return\x20redis.call('smembers',KEYS[1]) 1 set
same    EVAL return\x20{double=3.5} 0
type    OBJECT HELP
type    XGROUP HELP
type    XINFO HELP
same    PFCOUNT none1
same    MGET
same    NONSENSE
same    PSUBSCRIBE p*
same    PUNSUBSCRIBE p*
same    SUBSCRIBE c
same    UNSUBSCRIBE c
same    SSUBSCRIBE c
same    SUNSUBSCRIBE c
same    UNSUBSCRIBE
same    QUIT
'''

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
CLUSTER REPLICAS x
CLUSTER SLAVES x
CLUSTER HELP
COMMAND DOCS get mget
COMMAND
CONFIG GET *
CONFIG SET slowlog-log-slower-than x
CLIENT NO-TOUCH on
CLIENT SETINFO LIB-NAME x
CLIENT LIST
INFO
INFO everything
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
SCREE HOTKEYS
SCREE MAP
SCREE NAMESPACES
SCREE RELOAD
SCREE SCRIPT KILL
SCREE SHARDS
SCREE SLOWLOG GET
SLOWLOG GET
WAITAOF 0 0 0
'''

# Answered by several or by the proxy, and not here: their replies have tests of their own.
ELSEWHERE = '''
BGREWRITEAOF: test_compaction
BGSAVE: test_save
CONFIG REWRITE: test_config_set
MONITOR: test_proxy_admin
MULTI: behaviours
RESET: behaviours
SAVE: test_save
'''


def words(text):
    return [word.encode().decode('unicode_escape') for word in text.split(' ')]


def lines(text):
    return [line for line in text.strip().split('\n') if line]


def types(reply):
    """The types in a reply; of arrays which occur, of maps by name."""
    kind, payload = reply
    if kind == '%':
        return kind, sorted((repr(name), types(item)) for name, item in zip(payload[::2], payload[1::2]))
    if isinstance(payload, list):
        return kind, sorted({repr(types(item)) for item in payload})
    return kind + 'nil' if payload is None else kind


def as_resp2(reply):
    """The types that the reply would have in RESP2."""
    kind, payload = reply
    if kind == '_' or payload is None:
        return 'nil'
    if isinstance(payload, list):
        return '*', [as_resp2(item) for item in payload]
    return {',': '$', '#': ':', '=': '$', '(': '$', '!': '-'}.get(kind, kind)


COMPARED = {'same': lambda reply: reply, 'types': types, 'type': lambda reply: reply[0]}


def play(address, proto):
    """Replies to all examples."""
    connection = Connection(address, proto=proto)
    for line in lines(SETUP):
        connection.call(*words(line))
    return [connection.call(*words(line.split(None, 1)[1])) for line in lines(EXAMPLES)]


def differences(want, got):
    for line, ours, theirs in zip(lines(EXAMPLES), got, want):
        how = COMPARED[line.split()[0]]
        if how(ours) != how(theirs):
            yield '%s\n  Redis: %s\n  Scree: %s' % (line, show(theirs), show(ours))


def compare(proto, address_of):
    with Oracle() as oracle:
        with Cluster(backends=1, partitions=SHARDS) as cluster:
            found = list(differences(play(oracle.address, proto), play(address_of(cluster), proto)))
    check(not found, '%d replies differ:\n%s' % (len(found), '\n'.join(found)))


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
        return [line.split(':')[0] for line in text.split('\r\n')]

    with Cluster(backends=2, partitions=2) as cluster, cluster.connect() as two, cluster.connect(proto=3) as three:
        for section in ([], ['server'], ['all'], ['stats', 'shards'], ['nonsense']):
            texts = [client.get('INFO', *section).decode() for client in (two, three)]
            check(texts[0].startswith('# ') or section == ['nonsense'], texts[0][:40])
            check(names(texts[0]) == names(texts[1]), 'INFO %s: %r' % (section, [text[:80] for text in texts]))
            if section not in (['all'], ['nonsense']):
                check(all('# ' + name.capitalize() in texts[1] for name in section), texts[1][:80])


@suite.case('what Redis does not have is answered in the types of RESP3 too')
def _(run):
    with Cluster(backends=1, partitions=SHARDS) as cluster, cluster.connect() as two, cluster.connect(proto=3) as three:
        two.call('CONFIG', 'SET', 'slowlog-log-slower-than', '0')
        three.call('PING')
        for line in lines(OWN):
            replies = [client.call(*words(line)) for client in (two, three)]
            kinds = [as_resp2(reply) for reply in replies]
            check(kinds[0] == kinds[1] or kinds[0][0] == kinds[1][0] == '*' and line.startswith('S'),
                  '%s\n  RESP2: %s\n  RESP3: %s' % (line, show(replies[0]), show(replies[1])))


@suite.case('SCAN through the proxy goes on to the next shard while COUNT is not used up')
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
    examples = [line.split(None, 1)[1] for line in lines(EXAMPLES)] + lines(OWN) + lines(ELSEWHERE)
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
