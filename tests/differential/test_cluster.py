#!/usr/bin/python3
"""Clients that know Redis Cluster: three shards reply as three nodes of redis-server do.

Node 0 has the keys a and b, in two slots, {a}1 and {a}2 in the slot of a; node 1 has far, node 2 has off. Ids and addresses of nodes
are replaced by their numbers before replies are compared.
"""

import contextlib
import re

from support import transcript
from support.cluster import Cluster, Oracle, even_slots, free_ports, slot_of
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, show

SHARDS = 3
WANTED = {'a': 0, 'b': 0, 'far': 1, 'off': 2, 'near': 0}

REQUESTS = r"""
GET a
GET far
GET off
SET far
SET far 1 FOO
NONSENSE far
MGET a b
MGET far off
MGET a far
MGET {a}1 {a}2
MGET {far}1 {far}2
MSET a 1 b 2
DEL a far
EXISTS a a
EXISTS far far
OBJECT ENCODING far
MEMORY USAGE far
DUMP far
TOUCH a b
RENAME a b
RENAME a far
COPY a b
COPY {a}1 {a}2 DB 0
SORT a
SORT a BY nosort
SORT a BY x_*
SORT a GET #
SORT a BY x_* GET #
SORT_RO a BY x_*
SORT far BY x_*
SORT a STORE b
SORT {a}1 STORE {a}2
XREAD STREAMS a far 0 0
XREAD STREAMS far 0
BLPOP a b 1
BLPOP far 1
BLPOP far 0
LMPOP 2 a b LEFT
LMPOP 1 far LEFT
LMPOP z a b LEFT
ZUNIONSTORE a 2 a b
ZUNIONSTORE {a}1 2 {a}2 {a}3
GEORADIUS a 1 1 1 m STORE far
PFCOUNT a b
PFMERGE far
BITOP AND a b
SMOVE a b m
LMOVE far a LEFT LEFT
SINTERCARD 2 a b
MSETNX a 1 far 2
EVAL "return 1" 0
EVAL "return 1" 2 a b
EVAL "return 1" 2 a far
EVAL "return 1" 1 far
EVAL "return 1" 2 {a}1 {a}2
EVAL "return redis.call('GET',ARGV[1])" 0 far
EVAL "return redis.call('GET',ARGV[1])" 0 a
EVAL "return redis.pcall('GET',ARGV[1])" 0 far
EVAL "return redis.pcall('SPUBLISH',ARGV[1],'x')" 0 far
EVAL "return redis.call('SET',ARGV[1],'x')" 0 far
EVAL "return redis.call('MGET',ARGV[1],ARGV[2])" 0 a b
EVAL "redis.call('GET',ARGV[1]) return redis.call('GET',ARGV[2])" 0 a b
EVAL "#!lua\nredis.call('GET',ARGV[1]) return redis.call('GET',ARGV[2])" 0 a b
EVAL "#!lua\nredis.call('GET',KEYS[1]) return redis.call('GET',ARGV[1])" 1 a b
EVAL "#!lua\nredis.call('GET',KEYS[1]) return redis.call('GET',ARGV[1])" 1 {a}1 {a}2
EVAL "#!lua\nreturn redis.pcall('GET',ARGV[1])" 1 a b
EVAL "#!lua flags=allow-cross-slot-keys\nredis.call('GET',ARGV[1]) return redis.call('GET',ARGV[2])" 0 a b
EVAL "#!lua flags=allow-cross-slot-keys\nreturn 1" 2 a b
EVAL "#!lua flags=no-cluster\nreturn 1" 0
EVAL_RO "#!lua flags=no-cluster\nreturn 1" 0
EVAL x y far
FUNCTION LOAD "#!lua name=l\nlocal function f(k,a) return redis.call('GET',a[1]) end\nlocal function g(k,a) redis.call('GET',a[1]) return redis.call('GET',a[2]) end\nredis.register_function('f',f)\nredis.register_function('g',g)\nredis.register_function{function_name='c',callback=g,flags={'allow-cross-slot-keys'}}\nredis.register_function{function_name='n',callback=f,flags={'no-cluster'}}"
FCALL f 0 far
FCALL f 1 a b
FCALL f 1 {a}1 {a}2
FCALL f 2 a b
FCALL f 1 far
FCALL g 0 a b
FCALL c 0 a b
FCALL n 0
FUNCTION DELETE l
MULTI | SET a 1 | SET b 1 | EXEC | EXISTS a
MULTI | SET a 1 | SET far 1 | SET b 1 | EXEC | EXISTS a
MULTI | SET {a}1 1 | GET {a}1 | DEL {a}1 | EXEC
MULTI | MGET a b | EXEC
MULTI | SPUBLISH far 1 | EXEC
MULTI | SPUBLISH a 1 | SET b 1 | EXEC
MULTI | PUBLISH far 1 | SET b 1 | EXEC | DEL b
MULTI | EVAL "return 1" 1 a | SET b 1 | EXEC | EXEC
MULTI | PING | EXEC
MULTI | GET far | DISCARD | EXEC
WATCH a | WATCH b | MULTI | SET a 1 | EXEC | DEL a
WATCH a b
WATCH far
WATCH a | SET a 1 | MULTI | SET a 2 | SET b 2 | EXEC | GET a | MULTI | GET a | EXEC | DEL a
EXEC
SPUBLISH a x
SPUBLISH far x
SSUBSCRIBE far
SSUBSCRIBE a b
SSUBSCRIBE a far
SUNSUBSCRIBE far
SUNSUBSCRIBE
ASKING
ASKING | GET far
READONLY | GET far | READWRITE
SWAPDB 0 1
SWAPDB x
SWAPDB 0 0
SELECT 0
SELECT x
FLUSHALL
DBSIZE
KEYS *
SCAN 0
RANDOMKEY
COMMAND GETKEYS GET far
PING far
CONFIG GET cluster-enabled
INFO cluster
CLUSTER INFO
CLUSTER MYID
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
CLUSTER LINKS
CLUSTER KEYSLOT a
CLUSTER KEYSLOT {a}1
CLUSTER KEYSLOT
CLUSTER COUNTKEYSINSLOT 99999
CLUSTER COUNTKEYSINSLOT -1
CLUSTER COUNTKEYSINSLOT x
CLUSTER GETKEYSINSLOT 99999 1
CLUSTER GETKEYSINSLOT 1 -1
CLUSTER GETKEYSINSLOT 1 x
SET a 1 | CLUSTER COUNTKEYSINSLOT <slot a> | CLUSTER GETKEYSINSLOT <slot a> 10 | CLUSTER GETKEYSINSLOT <slot a> 0 | DEL a
CLUSTER COUNT-FAILURE-REPORTS x
CLUSTER COUNT-FAILURE-REPORTS <id>
CLUSTER REPLICAS x
CLUSTER REPLICAS <id>
CLUSTER SLAVES <id>
CLUSTER SLAVES x
CLUSTER NONSENSE
CLUSTER
HELLO 3
HELLO 2
"""

suite = Suite(__doc__)


def keys():
    """The names of the keys: the shortest words that lie on the wanted nodes, in different slots."""
    found = {}
    ranges = [tuple(map(int, text.split('-'))) for text in even_slots(SHARDS)]
    for name, node in WANTED.items():
        number = 0
        while not ranges[node][0] <= slot_of('%s%d' % (name, number)) <= ranges[node][1]:
            number += 1
        found[name] = '%s%d' % (name, number)
    return found


class Side:
    """One of the two clusters: its nodes' addresses and ids."""

    def __init__(self, addresses):
        self.addresses = [address[:2] for address in addresses]
        self.ids = []
        for address in addresses:
            with Connection(address) as connection:
                self.ids.append(connection.get('CLUSTER', 'MYID'))

    def clean(self, text):
        for number, ((_, port), name) in enumerate(zip(self.addresses, self.ids)):
            text = text.replace(name.decode(), '<id %d>' % number)
            text = re.sub(r'127\.0\.0\.1:%d(@\d+)?' % port, '<node %d>' % number, text)
            text = re.sub(r'\b%d\b' % port, '<port %d>' % number, text)
        return text


def sort_lines(text):
    """CLUSTER NODES: in any order, and without times and epochs. While a node of redis-server waits for a PONG, it shows the time of its
    PING."""
    lines = re.findall(r'<id \d> [^\\]*', text)
    return sorted(re.sub(r' - \d+ \d+ \d+ ', ' - ', line) for line in lines)


def stable_fields(text):
    return [field for field in text.split('\\r\\n') if not re.search('_epoch|_stats_', field)]


def unordered(reply):
    """CLUSTER SHARDS, LINKS: in any order; times, buffers and events (there are more of them while a message is sent) of links are not
    compared."""
    return [re.sub(r"'(create-time|events|send-buffer-\w+)'\)?, [^,\]}]*", r'\1', item) for item in map(show, reply[1])]


def comparable(words, reply, side):
    what = ' '.join(words[:2]).upper()
    if what in ('CLUSTER SHARDS', 'CLUSTER LINKS'):
        return sorted(side.clean(item) for item in unordered(reply))
    text = side.clean(show(reply, limit=4000))
    if what == 'CLUSTER NODES':
        return sort_lines(text)
    if what == 'CLUSTER INFO':
        return stable_fields(text)
    if words[0] == 'HELLO':
        text = re.sub(r"'7\.\d+\.\d+'", 'version', text)  # Scree has commands of later versions than the oracle
        return re.sub(r"(id'?\)?, ).*?,", r'\1N,', text)
    return text


def packets(names, name):
    for line in REQUESTS.strip().split('\n'):
        for word, key in names.items():
            line = line.replace('<slot %s>' % word, str(slot_of(key)))
        packet = []
        for part in line.split(' | '):
            words = []
            for word in transcript.split_words(part.replace('<id>', name.decode())):
                text = word.decode()
                tag = re.match(r'^\{(\w+)\}(\d)$', text)
                if tag and tag.group(1) in names:
                    text = '{%s}%s' % (names[tag.group(1)], tag.group(2))
                words.append(names.get(text, text))
            packet.append(words)
        yield packet


def start_oracle(stack):
    buses = [free_ports() for _ in range(SHARDS)]
    oracles = [stack.enter_context(Oracle(options=['--cluster-enabled', 'yes', '--cluster-node-timeout', '60000',
                                                   '--cluster-port', str(bus)])) for bus in buses]
    for oracle, slots in zip(oracles, even_slots(SHARDS)):
        with Connection(oracle.address) as connection:
            check_equal(connection.get('CLUSTER', 'ADDSLOTSRANGE', *slots.split('-')), b'OK')
            if oracle is not oracles[0]:
                check_equal(connection.get('CLUSTER', 'MEET', *oracles[0].address, buses[0]), b'OK')
    for oracle in oracles:
        with Connection(oracle.address) as connection:
            wait_for(lambda: b'cluster_state:ok' in connection.get('CLUSTER', 'INFO') and
                     b'known_nodes:%d' % SHARDS in connection.get('CLUSTER', 'INFO') and
                     len(connection.get('CLUSTER', 'LINKS')) == 2 * (SHARDS - 1), 'the oracle to be a cluster')
    return [oracle.address for oracle in oracles]


@suite.case('a shard replies as a node of Redis Cluster, to every kind of request')
def _(run):
    names = keys()
    with contextlib.ExitStack() as stack:
        oracle = Side(start_oracle(stack))
        cluster = stack.enter_context(Cluster(backends=SHARDS, partitions=1, proxies=0, linked=True))
        scree = Side([backend.addresses[0] for backend in cluster.backends])
        differences = []
        for proto in (2, 3):
            theirs = Connection(oracle.addresses[0], proto=proto)
            ours = Connection(scree.addresses[0], proto=proto)
            for right, left in zip(packets(names, oracle.ids[0]), packets(names, scree.ids[0])):
                for their_words, our_words in zip(right, left):
                    expected = comparable(their_words, theirs.call(*their_words), oracle)
                    found = comparable(our_words, ours.call(*our_words), scree)
                    if expected != found:
                        differences.append('RESP%d %s in %r:\n  redis: %s\n  scree: %s'
                                           % (proto, ' '.join(our_words), left, expected, found))
        check(not differences, '%d differences\n%s' % (len(differences), '\n'.join(differences)))


suite.main()
