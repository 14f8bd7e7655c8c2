#!/usr/bin/python3
"""scree-copy from a Redis Cluster: each master is followed exactly, through kills and failovers, and slots that move end the copy with exit 6."""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

import test_copy_live
from support.cluster import Cluster, Oracle, binary, free_ports
from support.copied import Source, address, copy, fill, fill_groups, first_commands, value_of
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.resp import Closed, Connection
from test_copy_live import SHAPE, running

suite = Suite(__doc__)
OPTIONS = ('--repl-diskless-sync-delay', '0', '--repl-backlog-size', '64mb', '--repl-ping-replica-period', '3600', '--repl-timeout', '7200',
           '--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-replica-validity-factor', '0')


def rows(count):
    return ['scree-copy:live:default.%d' % i for i in range(1, count + 1)]


class Nodes:
    """A Redis Cluster: three masters, and more nodes without slots."""

    def __init__(self, others=0):
        self.servers = [Oracle(options=(*OPTIONS, '--cluster-port', str(free_ports()))) for _ in range(3 + others)]
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        for server in self.servers:
            self.stack.enter_context(server)
        self.cli('--cluster', 'create', *('127.0.0.1:%d' % server.port for server in self.servers[:3]), '--cluster-yes')
        for server in self.servers[3:]:
            self.ask(server, 'CLUSTER', 'MEET', '127.0.0.1', str(self.servers[0].port), str(self.servers[0].argv[self.servers[0].argv.index('--cluster-port') + 1]))
        wait_for(lambda: all(self.is_whole(server) for server in self.servers), 'the cluster to be whole')
        self.url = 'cluster://127.0.0.1:1,127.0.0.1:%d' % self.servers[0].port  # the first one is not there
        return self

    def __exit__(self, *error):
        self.stack.close()

    def is_whole(self, server):
        return b'cluster_state:ok' in self.ask(server, 'CLUSTER', 'INFO') and self.ask(server, 'CLUSTER', 'NODES').count(b'connected') == len(self.servers)

    @staticmethod
    def cli(*words):
        done = subprocess.run(['redis-cli', *words], capture_output=True, text=True, timeout=2 * patience(), check=False)
        check_equal(done.returncode, 0, done.stdout + done.stderr)

    @staticmethod
    def ask(server, *words):
        with Connection(server.address) as connection:
            return connection.call(*words)[1]

    def name(self, server):
        return self.ask(server, 'CLUSTER', 'MYID').decode()

    def masters(self):
        """The servers that have slots, in the order of these, as the first one that answers says."""
        for asked in self.servers:
            with contextlib.suppress(OSError, Closed):
                lines = [line.split() for line in self.ask(asked, 'CLUSTER', 'NODES').decode().splitlines()]
                found = sorted((int(words[8].split('-')[0]), int(words[1].split('@')[0].split(':')[1]))
                               for words in lines if 'master' in words[2] and 'fail' not in words[2].split(',') and len(words) > 8)
                return [server for _, port in found for server in self.servers if server.port == port]
        return []

    def reshard(self, source, target, slots):
        self.cli('--cluster', 'reshard', '127.0.0.1:%d' % self.servers[0].port, '--cluster-from', self.name(source), '--cluster-to', self.name(target),
                 '--cluster-slots', str(slots), '--cluster-yes')


def tag_of(server):
    """A word whose slot this master has."""
    with Connection(server.address) as connection:
        for i in range(100000):
            if not connection.call('GET', '{t%d}' % i)[0] == '-':
                return '{t%d}' % i
    return None


class Counters:
    """A client of each master that counts, pushes, and changes keys of all types; it notes what was acknowledged."""

    def __init__(self, masters):
        self.stops, self.acknowledged, self.errors = False, {}, []
        self.threads = [threading.Thread(target=self.count, args=(server, tag_of(server))) for server in masters]

    def count(self, server, tag):
        rng = random.Random(tag)
        try:
            with Connection(server.address) as connection:
                while not self.stops:
                    replies = connection.pipeline([('MULTI',), ('INCR', tag + 'n'), ('LPUSH', tag + 'l', 'e'), ('INCR', tag + 'm'), ('EXEC',),
                                                   ('SADD', tag + 'set', str(rng.random())), ('SPOP', tag + 'set'), ('APPEND', tag + 's', 'x'),
                                                   ('SET', tag + 'k%d' % rng.randrange(100), 'v'), ('DEL', tag + 'k%d' % rng.randrange(100))])
                    if any(kind == '-' for kind, _ in replies):
                        self.errors.append(replies)
                        return
                    self.acknowledged[tag] = int(replies[4][1][0][1])
                    time.sleep(0.002)
        except (OSError, Closed) as error:
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for(lambda: len(self.acknowledged) + len(self.errors) >= len(self.threads), 'the counters to count')
        return self

    def __exit__(self, *_):
        self.stops = True
        for thread in self.threads:
            thread.join()


def position(server):
    fields = dict(line.split(':', 1) for line in Nodes.ask(server, 'INFO', 'replication').decode().splitlines() if ':' in line)
    return int(fields['master_repl_offset'])


def offsets(target, count=3):
    """How far the target has each source; -1: not followed."""
    found = []
    for row in rows(count):
        kind, value = target.call('HMGET', row, 'phase', 'offset')
        found.append(int(value[1][1]) if kind == '*' and value[0][1] == b'follow' else -1)
    return found


def generations(target):
    """Which start of a tool has each row; 0: there is no row."""
    return [int(target.call('HGET', row, 'generation')[1] or 0) for row in rows(3)]


class Tool(test_copy_live.Tool):
    """It knows the rows of before it began."""

    def __init__(self, nodes, cluster, *words, **more):
        with cluster.connect() as target:
            self.before = generations(target)
        super().__init__(nodes, cluster, *words, **more)

    def follows(self, target):
        return min(offsets(target)) >= 0 and all(now > before for now, before in zip(generations(target), self.before))


def wait_follows(cluster, tool):
    with cluster.connect() as target:
        wait_for(lambda: tool.follows(target) or tool.child.poll() is not None, 'the tool to go on')
        check(tool.child.poll() is None, tool.said())


def wait_reached(nodes, cluster, tool):
    ends = [position(server) for server in nodes.masters()]
    with cluster.connect() as target:
        wait_for(lambda: all(has >= end for has, end in zip(offsets(target), ends)) or tool.child.poll() is not None, 'the target to have everything')
        check(tool.child.poll() is None, tool.said())


def check_same(nodes, cluster, counters=None):
    """Compares key by key. Returns how many there are."""
    wanted = {}
    for server in nodes.masters():
        with Connection(server.address) as connection:
            for _, key in connection.call('KEYS', '*')[1]:
                wanted[key] = value_of(connection, key)
    with cluster.connect() as target:
        keys = {key for _, key in target.call('KEYS', '*')[1]} - {row.encode() for row in rows(4)}
        different = {key: (wanted.get(key), value_of(target, key)) for key in wanted.keys() | keys if wanted.get(key) != value_of(target, key)}
        check(not different, '%d of %d keys differ: %s' % (len(different), len(wanted), str(sorted(different.items())[:3])[:900]))
        for tag, count in (counters.acknowledged.items() if counters else ()):
            found = [int(target.call(*words)[1]) for words in (('GET', tag + 'n'), ('LLEN', tag + 'l'), ('GET', tag + 'm'))]
            check_equal(found, [count] * 3, 'what was counted at %s' % tag)
    return len(wanted)


@contextlib.contextmanager
def setting(others=0):
    with Nodes(others) as nodes, Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory(prefix='scree-spool-') as spool:
        yield nodes, cluster, spool


@suite.case('all masters are copied and followed through kills of the tool, and counts are exact')
def _(run):
    with setting() as (nodes, cluster, spool):
        for server in nodes.masters():
            fill(Source(server), tag_of(server), (3, 130))
            fill_groups(Source(server), 'stream:%s130' % tag_of(server), 5)
            nodes.ask(server, 'FUNCTION', 'LOAD', "#!lua name=lib\nredis.register_function('f', function() return 'from f' end)")
        rng = random.Random(run.seed)
        with Counters(nodes.masters()) as counters:
            for _ in range(sized(6, long=60)):
                with Tool(nodes, cluster, spool) as tool:
                    wait_follows(cluster, tool)
                    time.sleep(rng.random() * 0.3)
            for _ in range(sized(4, long=40)):  # at any moment, also before it follows
                with Tool(nodes, cluster, spool):
                    time.sleep(rng.random() * 0.5)
        check_equal(counters.errors, [])
        with Tool(nodes, cluster, spool) as tool:
            wait_reached(nodes, cluster, tool)
            check(check_same(nodes, cluster, counters) > 60, 'few keys')
            with cluster.connect() as target:
                check_equal(target.call('FCALL', 'f', '0')[1], b'from f')
            tool.child.send_signal(signal.SIGTERM)
            check_equal((tool.ends(), 'the same command goes on' in tool.said(), 'refused' in tool.said()), (5, True, False), tool.said())
        done = copy('--from', nodes.url, '--spool', spool, '--follow', 'no', cluster=cluster)
        check_equal((done.returncode, 'follow: 3 masters' in done.stdout), (0, True), done.stdout + done.stderr)
        check_equal([name for name in os.listdir(spool) if '.rdb' in name], [], 'full copies that are left in the spool')


@suite.case('the commands for a cluster in docs/from-redis.md do what the page says')
def _(run):
    commands = [line.split('#')[0] for line in first_commands('from-redis.md', 5)]
    check_equal(len(commands), 2, str(commands))
    with setting() as (nodes, cluster, spool):
        def words(command):
            command = command.replace('cluster://N1:6379,N2:6379', nodes.url).replace('scree://PROXY:7379', address(cluster))
            return command.replace('/var/tmp', spool).replace('scree-copy', binary('scree-copy'), 1).split()
        for server in nodes.masters():
            fill(Source(server), tag_of(server), (3,))
        with running(words(commands[0]), stderr=subprocess.DEVNULL) as child:
            with cluster.connect() as target:
                wait_for(lambda: min(offsets(target)) >= 0 or child.poll() is not None, 'the full copies')
            child.send_signal(signal.SIGTERM)
            check_equal(child.wait(patience()), 5)
        done = subprocess.run(words(commands[1]), capture_output=True, text=True, timeout=2 * patience(), check=False)
        check_equal(done.returncode, 0, done.stderr)
        check_same(nodes, cluster)


@suite.case('a tool that is killed again and again before the full copies are complete begins or goes on, and nothing is missing')
def _(run):
    with setting() as (nodes, cluster, spool):
        for server in nodes.masters():
            source = Source(server)
            tag = tag_of(server)
            for at in range(0, 6000, 500):
                source.connection.pipeline([('SET', '%s%d' % (tag, i), os.urandom(100)) for i in range(at, at + 500)])
        rng = random.Random(run.seed)
        with Counters(nodes.masters()) as counters:
            for _ in range(sized(6, long=60)):
                with Tool(nodes, cluster, spool, '--rate', '500kb') as tool, cluster.connect() as target:
                    time.sleep(rng.random() * 2)
                    check(tool.child.poll() is None, tool.said())
                    found = [target.call('EXISTS', row)[1] for row in rows(3)]  # the first one is asked first: if it is there, all are
                    check_equal(found, sorted(found), 'rows')
        with Tool(nodes, cluster, spool) as tool:
            wait_follows(cluster, tool)
            wait_reached(nodes, cluster, tool)
            check(check_same(nodes, cluster, counters) > 18000, 'few keys')


@suite.case('a tool that is stopped by SIGTERM before it follows ends with exit 5, also while it reads the full copies')
def _(run):
    with setting() as (nodes, cluster, spool):
        for server in nodes.masters():
            nodes.ask(server, 'EVAL', "for i = 1, 100000 do redis.call('SET', KEYS[1] .. i, i) end", '1', tag_of(server))
        rng = random.Random(run.seed)
        for i in range(sized(8, long=60)):
            own = os.path.join(spool, str(i))
            os.mkdir(own)
            with cluster.connect() as target:
                target.call('FLUSHALL')
            with Tool(nodes, cluster, own, '--rate', '1mb') as tool:
                wait_for(lambda: any('.rdb' in name for name in os.listdir(own)) or tool.child.poll() is not None, 'a full copy')
                time.sleep(rng.random() * 0.5)
                tool.child.send_signal(signal.SIGTERM)
                check_equal((tool.ends(), 'the same command goes on' in tool.said()), (5, True), tool.said())


@suite.case('a master that is killed is replaced by its replica, and the copy goes on without another full copy')
def _(run):
    with setting(others=1) as (nodes, cluster, spool):
        victim, replica = nodes.servers[1], nodes.servers[3]
        nodes.ask(replica, 'CLUSTER', 'REPLICATE', nodes.name(victim))
        wait_for(lambda: b'master_link_status:up' in nodes.ask(replica, 'INFO', 'replication'), 'the replica')
        for is_killed in (False, True):
            with Tool(nodes, cluster, spool) as tool:
                with Counters(nodes.masters()) as counters:
                    wait_follows(cluster, tool)
                wait_for(lambda: position(replica) >= position(victim), 'the replica to have everything')
                wait_reached(nodes, cluster, tool)
                if is_killed:
                    tool.kill()
                victim.kill9()
                wait_for(lambda: b'role:master' in nodes.ask(replica, 'INFO', 'replication') and len(nodes.masters()) == 3, 'the failover')
                if not is_killed:
                    with Counters(nodes.masters()):
                        time.sleep(0.2)
                    wait_reached(nodes, cluster, tool)
            with Tool(nodes, cluster, spool) as tool:
                with Counters(nodes.masters()) as counters:
                    wait_follows(cluster, tool)
                wait_reached(nodes, cluster, tool)
                check_same(nodes, cluster, counters)
                check(b'sync_full:0\r\n' in nodes.ask(replica, 'INFO', 'stats'), 'there was another full copy')
            victim.start()
            wait_for(lambda: b'master_link_status:up' in nodes.ask(victim, 'INFO', 'replication'), 'the old master to be a replica')
            victim, replica = replica, victim


def check_moved(tool):
    check_equal((tool.ends(), 'slots of the source have moved' in tool.said()), (6, True), tool.said())


@suite.case('slots that are moved while they are copied, to a master that is copied or to a new one, end the copy with exit 6, also when it is begun again')
def _(run):
    for is_new in (False, True):
        with setting(others=is_new) as (nodes, cluster, spool):
            for server in nodes.masters():
                fill(Source(server), tag_of(server), (3,))
            with Tool(nodes, cluster, spool) as tool:
                with Counters(nodes.masters()):
                    wait_follows(cluster, tool)
                    nodes.reshard(nodes.servers[0], nodes.servers[3 if is_new else 1], 5461 if not is_new else 100)
                    check_moved(tool)
            with Tool(nodes, cluster, spool) as tool:
                check_moved(tool)


@suite.case('slots that were moved, without keys and while no tool ran, and a master more, end the copy with exit 6')
def _(run):
    with setting(others=1) as (nodes, cluster, spool):
        with Tool(nodes, cluster, spool) as tool:
            wait_follows(cluster, tool)
        nodes.reshard(nodes.servers[0], nodes.servers[3], 10)
        with Tool(nodes, cluster, spool) as tool:
            check_moved(tool)


@suite.case('a slot that is open, from which keys have gone to a node that is not copied, ends the copy with exit 6, in the watch and when it is begun again')
def _(run):
    with setting(others=1) as (nodes, cluster, spool):
        source, other = nodes.servers[0], nodes.servers[3]
        key = tag_of(source) + 'gone'
        nodes.ask(source, 'SET', key, 'v')
        slot = nodes.ask(source, 'CLUSTER', 'KEYSLOT', key).decode()

        def move():
            nodes.ask(other, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', nodes.name(source))
            nodes.ask(source, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', nodes.name(other))
            check_equal(nodes.ask(source, 'MIGRATE', '127.0.0.1', str(other.port), key, '0', '10000'), b'OK')
        with Tool(nodes, cluster, spool) as tool:
            wait_follows(cluster, tool)
            wait_reached(nodes, cluster, tool)
        move()
        for words in (('--follow', 'no'), ()):
            with Tool(nodes, cluster, spool, *words) as tool:
                check_moved(tool)
        for server in (source, other):
            nodes.ask(server, 'CLUSTER', 'SETSLOT', slot, 'STABLE')
        with Tool(nodes, cluster, spool) as tool:
            wait_follows(cluster, tool)
            nodes.ask(source, 'SET', key, 'v')
            nodes.ask(other, 'FLUSHALL')
            move()
            check_moved(tool)


@suite.case('--follow no goes on with every master until the last one has been asked, and then nothing of any is missing')
def _(run):
    with setting() as (nodes, cluster, spool):
        for server in nodes.servers:
            nodes.ask(server, 'CONFIG', 'SET', 'cluster-node-timeout', '600000')
        held, late = nodes.servers[0], tag_of(nodes.servers[1]) + 'late'
        for _ in range(20):
            with Tool(nodes, cluster, spool, '--follow', 'no') as tool, cluster.connect() as target:
                with Counters([held]) as counters:
                    wait_for(lambda: tool.follows(target) or tool.child.poll() is not None, 'the tool to go on')
                held.child.send_signal(signal.SIGSTOP)
                time.sleep(3)  # each source has been silent for longer than a second
                has_waited = tool.child.poll() is None
                if has_waited:
                    nodes.ask(nodes.servers[1], 'SET', late, 'v')
                held.child.send_signal(signal.SIGCONT)
                if has_waited:
                    check_equal(tool.ends(), 0, tool.said())
                    check_same(nodes, cluster, counters)
                    return
        check(False, 'the tool has never waited')


@suite.case('FLUSHALL of a master ends the copy with exit 6; what cannot be begun is said: a move, slots without a master, no cluster, wrong words')
def _(run):
    with setting() as (nodes, cluster, spool), cluster.connect() as target:
        base = ('--spool', spool, '--follow', 'no')
        with Tool(nodes, cluster, spool) as tool:
            wait_follows(cluster, tool)
            nodes.ask(nodes.servers[1], 'FLUSHALL')
            check_equal((tool.ends(), 'executed FLUSHALL or FLUSHDB' in tool.said()), (6, True), tool.said())
        target.call('FLUSHALL')
        nodes.ask(nodes.servers[0], 'CLUSTER', 'SETSLOT', '0', 'MIGRATING', nodes.name(nodes.servers[1]))
        done = copy('--from', nodes.url, *base, cluster=cluster)
        check_equal((done.returncode, 'slots are being moved' in done.stderr, target.call('DBSIZE')[1]), (3, True, b'0'), done.stderr)
        nodes.ask(nodes.servers[0], 'CLUSTER', 'SETSLOT', '0', 'STABLE')
        nodes.ask(nodes.servers[0], 'CLUSTER', 'DELSLOTS', '0')
        done = copy('--from', nodes.url, *base, cluster=cluster)
        check_equal((done.returncode, 'not every slot' in done.stderr), (3, True), done.stderr)
        with Oracle() as alone:
            done = copy('--from', 'cluster://127.0.0.1:%d' % alone.port, *base, cluster=cluster)
            check_equal((done.returncode, 'cluster support disabled' in done.stderr), (3, True), done.stderr)
        done = copy('--from', 'cluster://127.0.0.1:1', *base, cluster=cluster)
        check_equal((done.returncode, 'the cluster was not found' in done.stderr), (3, True), done.stderr)
    for words in (['--from', 'cluster://h:1/name'], ['--from', 'cluster://h'], ['--from', 'cluster://u:p@h:1'], ['cutover', '--from', 'cluster://h:1']):
        done = copy(*words, '--spool', '/tmp', '--to', 'scree://h:2')
        check_equal((done.returncode, done.stdout, done.stderr.count('\n')), (2, '', 1), str(words))


if __name__ == '__main__':
    suite.main()
