#!/usr/bin/python3
"""What clients ask the server about itself: INFO, LATENCY, COMMAND; the same questions to redis-server and to Scree."""

import contextlib
import re
import time

from support.cluster import Cluster, Oracle
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, value

suite = Suite(__doc__)


def info(connection, *sections):
    """{section: {field: value}}"""
    document, section = {}, None
    for line in connection.get('INFO', *sections).decode().split('\r\n'):
        if line.startswith('# '):
            section = document.setdefault(line[2:], {})
        elif ':' in line:
            name, _, text = line.partition(':')
            section[name] = text
    return document


def with_both(body):
    """Runs the body with the connection to redis-server, one to Scree, and its cluster: a partition, then a proxy over three shards."""
    for options in ({'backends': 1, 'proxies': 0}, {'backends': 3, 'proxies': 1, 'linked': True}):
        with Oracle() as oracle, Cluster(partitions=1, **options) as cluster:
            with Connection(oracle.address) as theirs, \
                    Connection(cluster.proxies[0].address if cluster.proxies else cluster.backends[0].addresses[0]) as ours:
                body(theirs, ours, cluster)


@suite.case('INFO has each section and field of redis-server, also about scripts and functions')
def _(run):
    def body(theirs, ours, cluster):
        for connection in (theirs, ours):
            connection.call('SET', 'k', 'v')
            connection.call('EVAL', 'return 1', '0')
            connection.call('FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        there, here = info(theirs, 'everything'), info(ours, 'everything')
        for section, fields in there.items():
            check(section in here, 'section %s' % section)
            if section not in ('Commandstats', 'Latencystats', 'Errorstats'):
                check_equal([field for field in fields if field not in here[section]], [], section)
        memory = here['Memory']
        check_equal(int(memory['used_memory_scripts']), int(memory['used_memory_scripts_eval']) + int(memory['used_memory_functions']))
        check(int(memory['used_memory_scripts_eval']) >= 8 and int(memory['used_memory_functions']) >= 70, memory)
        check_equal(memory['used_memory_vm_total_human'][-1], 'K')
    with_both(body)


@suite.case('INFO clients: keys that clients wait for, and those whose deletion ends a wait')
def _(run):
    def body(theirs, ours, cluster):
        del theirs
        address = (ours.socket if hasattr(ours, 'socket') else ours.sock).getpeername()
        with Connection(address) as popper, Connection(address) as reader:
            ours.call('XGROUP', 'CREATE', 's', 'g', '$', 'MKSTREAM')
            popper.send('BLPOP', 'a', 'b', 'c', '0')
            reader.send('XREADGROUP', 'GROUP', 'g', 'c', 'BLOCK', '0', 'STREAMS', 's', '>')
            def shown():
                clients = info(ours, 'clients')['Clients']
                return int(clients['total_blocking_keys']), int(clients['total_blocking_keys_on_nokey'])
            wait_for(lambda: shown() == (4, 1), 'four keys')
    with_both(body)


@suite.case('statistics of commands have none that proxies and shards send each other')
def _(run):
    def body(theirs, ours, cluster):
        del theirs
        ours.call('SET', 'k', 'v')
        connections = [ours] + [cluster.partition(shard) for shard in range(len(cluster.backends))]
        for connection in connections:
            shown = info(connection, 'commandstats', 'latencystats')
            names = [name for fields in shown.values() for name in fields] + [name.decode() for name in connection.get('LATENCY', 'HISTOGRAM')[::2]]
            # SCREE OWNERS is a command of operators, too
            check_equal([name for name in names if 'scree|' in name and not name.endswith('scree|owners')], [], connection.address)
        check('cmdstat_set' in info(ours, 'commandstats')['Commandstats'], 'what clients send is shown')
    with_both(body)


ANSWERED = '''
PING; PING x; ECHO x; TIME; CLIENT LIST; CLIENT ID; CLIENT INFO; CLIENT SETNAME me; CLIENT GETNAME; CLIENT NOSUCH; CLIENT KILL
CLIENT KILL ID 99999; CLIENT NO-EVICT on; CLIENT UNPAUSE; CLIENT HELP; CLIENT TRACKING on; CLIENT TRACKING off; CLIENT CACHING yes
CLIENT GETREDIR; CLIENT TRACKINGINFO; CLIENT UNBLOCK 999; CLIENT REPLY on; HELLO 2; HELLO 9; SELECT 0; SELECT 99; SELECT x
COMMAND; COMMAND COUNT; COMMAND DOCS get; COMMAND INFO get; COMMAND LIST; COMMAND GETKEYS get a; CONFIG GET port; CONFIG GET
CONFIG GET hash-max-listpack-entries; CONFIG SET slowlog-max-len 100; CONFIG SET nosuch 1; INFO server; SLOWLOG LEN; SLOWLOG GET
SLOWLOG RESET; LATENCY LATEST; LATENCY RESET; LATENCY HISTORY x; LATENCY DOCTOR; MEMORY USAGE k; MEMORY STATS; ACL WHOAMI; ACL LIST
ACL CAT; ACL CAT nosuch; ACL SETUSER u1 on; ACL GETUSER u1; ACL DELUSER u1; ACL DRYRUN default get k; AUTH x; AUTH; PUBLISH c m
PUBSUB CHANNELS; PUBSUB NUMSUB; PUBSUB NUMPAT; SET k v; GET k; MSET a 1 b 2 c 3; MGET a b c; DEL a b c; DBSIZE; KEYS *; SCAN 0
RANDOMKEY; FLUSHALL; EXISTS k; SCRIPT LOAD return; SCRIPT EXISTS abc; EVAL redis.call("TIME") 0; FUNCTION LIST; SWAPDB 1 2; LASTSAVE
LOLWUT; ROLE; MULTI; EXEC; DISCARD; EXEC; WATCH a; UNWATCH; MULTI; SET a 1; PING; CLIENT ID; EXEC; MULTI; GET; EXEC; MULTI; MULTI
DISCARD; MULTI; PING; EXEC; MULTI; TIME; LPUSH a x; EXEC; GET; NOSUCH; LPUSH a b; OBJECT HELP; MODULE LIST; MONITOR X; RESET
BLPOP l 0.01; BLMPOP 0.01 2 x y LEFT; SUBSCRIBE ch; UNSUBSCRIBE ch; PSUBSCRIBE p*; PUNSUBSCRIBE p*; SSUBSCRIBE ch; SUNSUBSCRIBE ch
'''


def calls(connection):
    """{command: (calls, rejected, failed)}"""
    rows = {}
    for name, text in info(connection, 'commandstats')['Commandstats'].items():
        fields = dict(field.split('=') for field in text.split(','))
        rows[name[len('cmdstat_'):]] = tuple(int(fields[field]) for field in ('calls', 'rejected_calls', 'failed_calls'))
    return rows


@suite.case('statistics of commands count those that the proxy answers as redis-server does')
def _(run):
    def body(theirs, ours, cluster):
        shown = []
        for connection in (theirs, ours):
            connection.call('CONFIG', 'RESETSTAT')
            for request in ANSWERED.strip().replace('\n', ';').split(';'):
                connection.call(*request.split())
            total = int(info(connection, 'stats')['Stats']['total_commands_processed'])
            rows = calls(connection)
            check_equal(total + 1, sum(row[0] for row in rows.values()), 'total_commands_processed, and the INFO that asked for it')
            times = [name[len('latency_percentiles_usec_'):] for name in info(connection, 'latencystats')['Latencystats']]
            histograms = {name.decode(): dict(zip(about[::2], about[1::2]))[b'calls']
                          for name, about in zip(*[iter(connection.get('LATENCY', 'HISTOGRAM'))] * 2)}
            shown.append((rows, sorted(times), {name: count for name, count in histograms.items() if name not in ('info', 'latency|histogram')}))
        check_equal(shown[1][0], shown[0][0], 'INFO commandstats')
        check_equal(shown[1][1], shown[0][1], 'INFO latencystats')
        check_equal(shown[1][2], shown[0][2], 'LATENCY HISTOGRAM')
        ours.call('PING'), ours.call('CLIENT', 'LIST')
        check(b'ping' in ours.get('LATENCY', 'HISTOGRAM', 'ping') and b'client|list' in ours.get('LATENCY', 'HISTOGRAM', 'client'), 'by name')
        ours.call('CONFIG', 'RESETSTAT')
        check_equal([name for name in calls(ours) if name != 'config|resetstat'], [], 'after CONFIG RESETSTAT')
    with_both(body)


@suite.case('SLOWLOG has no command for the time that it waited for elements')
def _(run):
    requests = ('BLPOP l 2', 'BLPOP l m n o p 2', 'BLMOVE l x LEFT LEFT 2', 'BZPOPMIN z 2', 'XREAD BLOCK 2000 STREAMS s t u 0 0 0', 'WAIT 1 2000')

    def body(theirs, ours, cluster):
        with contextlib.ExitStack() as stack:
            waiters = []
            for connection in (theirs, ours):
                connection.call('CONFIG', 'SET', 'slowlog-log-slower-than', '1500000')  # a machine may stop a program for less
                connection.call('SLOWLOG', 'RESET')
                for request in requests:
                    waiters.append(stack.enter_context(Connection(connection.address)))
                    waiters[-1].send(*request.split())
            for waiter in waiters:
                waiter.read()
        for connection in (theirs, ours):
            logged = [entry[3][0] for entry in value(connection.call('SLOWLOG', 'GET'))]
            check_equal([name for name in logged if name in (b'BLPOP', b'BLMOVE', b'BZPOPMIN', b'XREAD', b'WAIT')], [], connection.address)
    with_both(body)


def own_line(connection, *words):
    line = next(line for line in connection.get(*words).decode().splitlines() if 'cmd=client|' + words[1].lower() in line)
    return {name: text for name, _, text in (word.partition('=') for word in line.split()) if name in ('qbuf', 'oll', 'obl', 'multi', 'cmd')}


@suite.case('CLIENT LIST and CLIENT INFO show the request that asks, and no reply that waits')
def _(run):
    def body(theirs, ours, cluster):
        for words in (['CLIENT', 'INFO'], ['CLIENT', 'LIST'], ['CLIENT', 'LIST', 'TYPE', 'normal']):
            check_equal(own_line(ours, *words), own_line(theirs, *words), words)
        ours.call('CONFIG', 'SET', 'slowlog-log-slower-than', '-1')
        check_equal(own_line(ours, 'CLIENT', 'INFO')['qbuf'], '26', 'without a slow log')
    with_both(body)


@suite.case('INFO counts big collections that were deleted as freed in the background, until CONFIG RESETSTAT')
def _(run):
    def body(theirs, ours, cluster):
        def freed(connection):
            return int(info(connection, 'memory')['Memory']['lazyfreed_objects'])
        for connection in (theirs, ours):
            connection.call('CONFIG', 'RESETSTAT')
            for key in ('few', 'many'):
                for i in range(3 if key == 'few' else 200):
                    connection.call('XADD', key + '-stream', '*', 'f', 'v')
                connection.call('HSET', key + '-hash', *(str(i) for i in range(6 if key == 'few' else 2000)))
                connection.call('SADD', key + '-set', *(str(i) + 'x' for i in range(3 if key == 'few' else 1000)))
                connection.call('SETRANGE', key + '-string', 10 if key == 'few' else 100000, 'x')
                connection.call('UNLINK', *(key + kind for kind in ('-hash', '-set', '-string')))
            wait_for(lambda: freed(connection) == 2, 'two to be counted')
            connection.call('CONFIG', 'RESETSTAT')
            check_equal(freed(connection), 0, 'after CONFIG RESETSTAT')
    with_both(body)


@suite.case('INFO counts clients that track, and their prefixes, as one server')
def _(run):
    def body(theirs, ours, cluster):
        shown = []
        for connection in (theirs, ours):
            with Connection(connection.address) as one, Connection(connection.address) as two:
                one.call('HELLO', '3'), two.call('HELLO', '3')
                one.call('CLIENT', 'TRACKING', 'ON')
                two.call('CLIENT', 'TRACKING', 'ON', 'BCAST', 'PREFIX', 'a', 'PREFIX', 'b')
                for key in 'klmno':
                    one.call('SET', key, 'v'), one.call('GET', key)

                def counts():
                    figures = info(connection, 'clients', 'stats')
                    return figures['Clients']['tracking_clients'], *(figures['Stats']['tracking_total_' + of] for of in ('keys', 'items', 'prefixes'))
                wait_for(lambda: counts()[0] == '2', 'two clients')
                shown.append([counts()])
                two.call('CLIENT', 'TRACKING', 'OFF')
                one.call('CLIENT', 'TRACKING', 'ON')
                wait_for(lambda: counts()[0] == '1', 'one client')
                shown[-1].append(counts())
            wait_for(lambda: counts()[0] == '0', 'none, when they have left')
        check_equal(shown[1], shown[0])
    with_both(body)


@suite.case('SLOWLOG has a command that waited and was served, with its time without the wait; none that waited in vain')
def _(run):
    # each with keys of its own: # is its number; all wait at the same time
    served = [('BLPOP l# 0', 'LPUSH l# x'), ('BLPOP l# m# n# o# p# 0', 'LPUSH o# x'), ('BLMPOP 0 2 l# m# LEFT', 'LPUSH m# x'),
              ('BZPOPMIN z# 0', 'ZADD z# 1 x'), ('BZMPOP 0 2 z# y# MIN', 'ZADD y# 1 x'), ('XREAD BLOCK 0 STREAMS s# t# $ $', 'XADD t# * f v'),
              ('XREADGROUP GROUP g c BLOCK 0 STREAMS g# >', 'DEL g#'), ('BLPOP l# 0', 'CLIENT UNBLOCK %d'), ('BLPOP l# 0', 'CLIENT UNBLOCK %d ERROR')]
    served = [(wait.replace('#', str(i)), other.replace('#', str(i))) for i, (wait, other) in enumerate(served)]
    in_vain = ['BLPOP a 1', 'BLPOP b c d e f 1', 'XREAD BLOCK 1000 STREAMS h $']

    def logged(connection):
        """Of each command, its times in the slow log: are they without the second that it waited?"""
        with contextlib.ExitStack() as stack:
            waiters = [stack.enter_context(Connection(connection.address)) for _ in served + in_vain]
            numbers = [waiter.get('CLIENT', 'ID') for waiter in waiters]
            connection.call('XGROUP', 'CREATE', 'g6', 'g', '$', 'MKSTREAM')
            connection.call('CONFIG', 'SET', 'slowlog-log-slower-than', '0', 'slowlog-max-len', '1000')
            connection.call('SLOWLOG', 'RESET')
            waits = [wait for wait, _ in served] + in_vain
            for waiter, wait in zip(waiters, waits):
                waiter.send(*wait.split())
            for number, (wait, _) in zip(numbers, served):
                waits_now = re.compile(rb'^id=%d .* flags=b ' % number, re.M)
                wait_for(lambda: waits_now.search(connection.get('CLIENT', 'LIST')), wait)
            time.sleep(1)
            for number, (_, other) in zip(numbers, served):
                connection.call(*(other % number if '%' in other else other).split())
            for waiter in waiters:
                waiter.read()
            log = value(connection.call('SLOWLOG', 'GET', '1000'))
            return [(wait, [entry[2] < 900000 for entry in log if entry[3][:4] == [word.encode() for word in wait.split()[:4]]]) for wait in waits]

    def body(theirs, ours, cluster):
        shown = [logged(connection) for connection in (theirs, ours)]
        check(any(times for _, times in shown[0]), 'some are logged')
        check_equal(shown[1], shown[0])
    with_both(body)


if __name__ == '__main__':
    suite.main()
