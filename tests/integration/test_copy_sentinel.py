#!/usr/bin/python3
"""scree-copy from a master that Sentinels watch: failovers are followed, and a cut-over fences each server that may become master."""

import contextlib
import os
import random
import re
import subprocess
import tempfile
import time

from support.cluster import Cluster, Oracle, Process, binary, free_ports
from support.copied import Source, address, copy, fill, first_commands
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.resp import Connection, encode
from test_copy_live import ROW, SHAPE, Counters, PlayedSource, Tool, Writers, check_same, cut_over, may_write, position, reached, running, wait_reached

suite = Suite(__doc__)
OPTIONS = ('--repl-diskless-sync-delay', '0', '--repl-backlog-size', '64mb', '--repl-ping-replica-period', '3600', '--repl-timeout', '7200')
RIGHTS = '+psync +replconf +ping +role +client'
DOWN_MS = '600000'  # no server is taken for dead because the machine is slow


class Sentinel(Process):
    """A redis-server that is a Sentinel."""

    def __init__(self, folder, number, master, lines=()):
        self.port = free_ports()
        path = os.path.join(folder, 'sentinel%d.conf' % number)
        with open(path, 'w', encoding='utf-8') as file:
            file.write('port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor shop 127.0.0.1 %d 1\nsentinel down-after-milliseconds shop %s\n'
                       'sentinel failover-timeout shop 5000\n%s\n' % (self.port, folder, master.port, DOWN_MS, '\n'.join(lines)))
        super().__init__('sentinel%d' % number, ['redis-server', path, '--sentinel'], folder, [self.port])
        self.address = ('127.0.0.1', self.port)


class Watched:
    """A master, its replicas and a Sentinel."""

    def __init__(self, replicas=1, options=(), lines=()):
        self.servers = [Oracle(options=(*OPTIONS, *options)) for _ in range(1 + replicas)]
        self.lines, self.stack, self.sentinel = lines, contextlib.ExitStack(), None

    def __enter__(self):
        for server in self.servers:
            self.stack.enter_context(server)
        for server in self.servers[1:]:
            self.ask(server, 'REPLICAOF', '127.0.0.1', str(self.servers[0].port))
        wait_for(lambda: all(b'master_link_status:up' in self.ask(server, 'INFO', 'replication') for server in self.servers[1:]), 'the replicas')
        self.sentinel = Sentinel(self.servers[0].folder, 1, self.servers[0], self.lines)
        self.sentinel.start()
        self.stack.callback(self.sentinel.kill9)
        wait_for(self.has_replicas, 'the Sentinel to have the replicas')
        self.url = 'sentinel://127.0.0.1:1,127.0.0.1:%d/shop' % self.sentinel.port  # the first one is not there
        return self

    def __exit__(self, *error):
        self.stack.close()

    @staticmethod
    def ask(server, *words):
        with Connection(server.address) as connection:
            return connection.call(*words)[1]

    def has_replicas(self):
        replicas = self.ask(self.sentinel, 'SENTINEL', 'REPLICAS', 'shop')
        lists = [[word for _, word in replica] for _, replica in replicas]
        found = [dict(zip(words[::2], words[1::2])) for words in lists]
        return sum(row[b'port'] != b'0' and row[b'flags'] == b'slave' and row[b'master-link-status'] == b'ok' for row in found) == len(self.servers) - 1 and \
            sum(b'master_link_status:up' in self.ask(server, 'INFO', 'replication') for server in self.servers) == len(self.servers) - 1

    def master(self):
        port = int(self.ask(self.sentinel, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'shop')[1][1])
        server, = (server for server in self.servers if server.port == port)
        return server

    def wait_equal(self):
        end = position(Source(self.master()))
        wait_for(lambda: all(position(Source(server)) >= end for server in self.servers), 'the replicas to have everything')

    def fail_over(self):
        """The master is killed; the new one is returned."""
        before = self.master()
        before.kill9()
        self.ask(self.sentinel, 'SENTINEL', 'SET', 'shop', 'down-after-milliseconds', '1000')

        def is_new():
            master = self.master()
            return master is not before and b'role:master' in self.ask(master, 'INFO', 'replication')
        wait_for(is_new, 'the failover')
        self.ask(self.sentinel, 'SENTINEL', 'SET', 'shop', 'down-after-milliseconds', DOWN_MS)
        before.start()
        return self.master()


def field(source, name):
    """A field of INFO replication."""
    return dict(line.split(b':', 1) for line in source.call('INFO', 'replication').split(b'\r\n') if b':' in line)[name.encode()]


def rules_of(group, server):
    return [line.replace(b'sanitize-payload ', b'') for _, line in group.ask(server, 'ACL', 'LIST')]


def kept(spool):
    """Files of rules in a spool."""
    return [name for name in os.listdir(spool) if '.acl' in name or '.fence' in name]


@contextlib.contextmanager
def watched(replicas=1, **more):
    with Watched(replicas, **more) as group, Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory(prefix='scree-spool-') as spool:
        yield group, cluster, spool


@suite.case('failovers of the source are followed without another full copy, also by a tool that is killed in between')
def _(run):
    with watched(replicas=2) as (group, cluster, spool):
        fill(Source(group.master()), 'before:', (3,))
        for is_killed in (False, True):
            with Tool(group, cluster, spool) as tool:
                with Writers(group.master()):
                    with cluster.connect() as target:
                        before = reached(target)
                        wait_for(lambda: reached(target) > before or tool.child.poll() is not None, 'the tool to go on')
                group.wait_equal()
                wait_reached(Source(group.master()), cluster, tool)
                if is_killed:
                    tool.kill()
                wait_for(group.has_replicas, 'the Sentinel to have the replicas')
                master = group.fail_over()
                source = Source(master)
                source.call('INCR', 'n')
                if not is_killed:
                    wait_reached(source, cluster, tool)
            with Tool(group, cluster, spool) as tool, Writers(master):
                time.sleep(0.2)
            with Tool(group, cluster, spool) as tool:
                wait_reached(source, cluster, tool)
                check_same(source, cluster)
            wait_for(group.has_replicas, 'the old master to be a replica')


@suite.case('a failover under writers ends with what the new master has, or with exit 6: never with anything else')
def _(run):
    ends, rng = [], random.Random(run.seed)
    for _ in range(sized(2, long=20)):
        with watched() as (group, cluster, spool):
            with Tool(group, cluster, spool) as tool, cluster.connect() as target:
                wait_for(lambda: reached(target) >= 0, 'the full copy')
                writers = Writers(group.master())
                with contextlib.suppress(Exception):
                    with writers:
                        time.sleep(rng.random())
                        group.ask(group.sentinel, 'SENTINEL', 'FAILOVER', 'shop')
                        wait_for(lambda: writers.errors, 'the old master to disconnect the writers')
                wait_for(lambda: group.master() is group.servers[1] and b'role:master' in group.ask(group.servers[1], 'INFO', 'replication'), 'the failover')
                source = Source(group.servers[1])
                source.call('INCR', 'n')
                end, history = position(source), field(source, 'master_replid')

                def has_history():
                    """What the old master has sent after the failover has higher positions, but its own history."""
                    return target.call('HGET', ROW, 'id')[1] == history and reached(target) >= end
                wait_for(lambda: has_history() or tool.child.poll() is not None, 'the tool to follow')
                if tool.child.poll() is None:
                    check_same(source, cluster)
                    ends.append('followed')
                else:
                    check_equal((tool.ends(), 'must begin anew' in tool.said()), (6, True), tool.said())
                    ends.append('exit 6')
    print('    ', ', '.join(ends))


@suite.case('cutover fences the master and its replicas, so that after a failover the new master refuses writes, too; the rules can be given back')
def _(run):
    with watched(replicas=2) as (group, cluster, spool), tempfile.TemporaryDirectory() as other, cluster.connect() as target:
        master = group.master()
        fill(Source(master), 'before:', (3,))
        with Tool(group, cluster, spool) as tool:
            wait_for(lambda: reached(target) >= 0, 'the full copy')
            with Counters(master) as counters:
                wait_for(lambda: min(counters.acknowledged) > 100, 'the counters to count')
                done = cut_over(group, cluster, other, '--pause-max', '30s')
                check_equal(done.returncode, 0, done.stderr)
                wait_for(lambda: min(counters.refused) > 0, 'the counters to be refused')
            check_equal(tool.ends(), 7, tool.said())
        check_equal([int(target.call('GET', 'counter:%d' % i)[1]) for i in range(4)], counters.acknowledged)
        check_equal(target.call('EXISTS', ROW)[1], b'0', 'the row')
        check_same(Source(master), cluster)
        master = group.fail_over()
        check_equal(may_write(master, 'default', 'k'), False, 'the new master takes writes')
        rules = os.path.join(other, 'scree-copy.default.127.0.0.1:%d.acl' % master.port)
        os.system('redis-cli -p %d < %s >/dev/null' % (master.port, rules))
        check_equal(may_write(master, 'default', 'k'), True, 'the rules were given back')


@suite.case('the commands for Sentinel in docs/from-redis.md do what the page says')
def _(run):
    commands = [line.split('#')[0] for line in first_commands('from-redis.md', 4)]
    check_equal(len(commands), 2, str(commands))
    with watched() as (group, cluster, spool), cluster.connect() as target:
        fill(Source(group.master()), 'before:', (3,))

        def words(command):
            command = re.sub(r'sentinel://(ADMIN@)?S[^/]*/NAME', group.url, command)
            return command.replace('scree://PROXY:7379', address(cluster)).replace('/var/tmp', spool).replace('scree-copy', binary('scree-copy'), 1).split()
        with running(words(commands[0]), stderr=subprocess.DEVNULL) as child:
            wait_reached(Source(group.master()), cluster)
            done = subprocess.run(words(commands[1]) + ['--pause-max', '1m'], capture_output=True, text=True, timeout=2 * patience(), check=False)
            check_equal((done.returncode, child.wait(patience())), (0, 7), done.stderr)
        check_equal(target.call('EXISTS', ROW)[1], b'0')
        check_same(Source(group.master()), cluster)


class PlayedSentinel(PlayedSource):
    """A Sentinel that says what a test chooses: which server is the master, and which are its replicas. `at_replicas` is called when it is asked for these."""

    def __init__(self, master, replicas):
        super().__init__(b'', b'', 10000)
        self.master, self.replicas, self.at_quorum, self.at_replicas = master, replicas, lambda: None, lambda: None
        self.replies[b'SENTINEL'] = self.reply
        self.url = 'sentinel://127.0.0.1:%d/shop' % self.port

    def reply(self, words):
        if words[1] == b'CKQUORUM':
            self.at_quorum()
            return b'+OK\r\n'
        if words[1] == b'SLAVES':
            lists = [encode(('name', 'x', 'ip', '127.0.0.1', 'port', str(server.port))) for server in self.replicas]
            self.at_replicas()
            return b'*%d\r\n%s' % (len(lists), b''.join(lists))
        return encode(('127.0.0.1', str(self.master.port)))


@contextlib.contextmanager
def played():
    """A master, a replica, a Sentinel of the test, and a copy that has followed the master."""
    with Oracle(options=OPTIONS) as old, Oracle(options=OPTIONS) as new, Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool:
        Watched.ask(new, 'REPLICAOF', '127.0.0.1', str(old.port))
        wait_for(lambda: b'master_link_status:up' in Watched.ask(new, 'INFO', 'replication'), 'the replica')
        with PlayedSentinel(old, [new]) as sentinel, Tool(sentinel, cluster, spool) as tool:
            fill(Source(old), 'before:', (3,))
            wait_reached(Source(old), cluster, tool)
            yield old, new, sentinel, cluster, os.path.join(spool, 'other')


def promote(server):
    """It takes a write that no other server has."""
    Watched.ask(server, 'REPLICAOF', 'NO', 'ONE')
    check_equal(Watched.ask(server, 'SET', 'acknowledged', 'x'), b'OK')


@suite.case('cutover after a failover that the old master has not heard of fails: its offsets are higher, but the new one has writes that it lacks')
def _(run):
    with played() as (old, new, sentinel, cluster, other):
        promote(new)
        Source(old).connection.pipeline([('INCR', 'lost') for _ in range(1000)])
        check(position(Source(old)) > position(Source(new)), 'the old master is not ahead')

        def hears_of_it():
            sentinel.master, sentinel.replicas = new, []
        sentinel.at_quorum = hears_of_it  # before, the stream has been found at the old one
        before = rules_of(Watched, new)
        done = cut_over(sentinel, cluster, other, '--pause-max', '10s')
        check_equal((done.returncode, 'has another history' in done.stderr, 'takes writes again' in done.stderr), (3, True, True), done.stderr)
        check_equal((rules_of(Watched, new), may_write(new, 'default', 'k'), kept(other)), (before, True, []))
        with cluster.connect() as target:
            check_equal(target.call('EXISTS', ROW)[1], b'1', 'the row')


@suite.case('cutover fails if a replica becomes master, and takes writes, between being found and being fenced')
def _(run):
    with played() as (old, new, sentinel, cluster, other):
        sentinel.at_replicas = lambda: promote(new)
        before = [rules_of(Watched, server) for server in (old, new)]
        done = cut_over(sentinel, cluster, other, '--pause-max', '30s')
        check_equal((done.returncode, ':%d: it was a replica, and is a master now' % new.port in done.stderr, done.stderr.count('takes writes again')), (3, True, 2), done.stderr)
        check_equal([rules_of(Watched, server) for server in (old, new)], before)
        check_equal(([may_write(server, 'default', 'k') for server in (old, new)], kept(other)), ([True, True], []))
        with cluster.connect() as target:
            check_equal(target.call('EXISTS', ROW)[1], b'1', 'the row')


@suite.case('cutover with a replica that cannot be fenced changes nothing, and one that is stopped gives the rules back at each server')
def _(run):
    with watched(replicas=2) as (group, cluster, spool), tempfile.TemporaryDirectory() as other, Tool(group, cluster, spool), cluster.connect() as target:
        wait_for(lambda: reached(target) >= 0, 'the full copy')
        before = [rules_of(group, server) for server in group.servers]
        group.servers[2].kill9()
        done = cut_over(group, cluster, other, '--pause-max', '30s')
        check_equal((done.returncode, ':%d: cannot connect' % group.servers[2].port in done.stderr), (3, True), done.stderr)
        check_equal([rules_of(group, server) for server in group.servers[:2]], before[:2])
        check_equal((kept(other), may_write(group.servers[0], 'default', 'k')), ([], True))
        fence = os.path.join(other, 'scree-copy.default.127.0.0.1:1.fence')  # as of a run that was killed
        with open(fence, 'w', encoding='utf-8'):
            done = cut_over(group, cluster, other, '--pause-max', '30s')
        check_equal((done.returncode, 'HAS LEFT THE SOURCE FENCED' in done.stderr and fence.replace('.fence', '.acl') in done.stderr), (3, True), done.stderr)
        os.remove(fence)
        group.servers[2].start()  # as a master, until it is told otherwise
        group.ask(group.servers[2], 'REPLICAOF', '127.0.0.1', str(group.servers[0].port))
        wait_for(group.has_replicas, 'the replica')
        group.ask(group.servers[1], 'ACL', 'SETUSER', 'default', '-acl|list')  # the master's are read before
        done = cut_over(group, cluster, other, '--pause-max', '30s')
        check_equal((done.returncode, 'NOPERM' in done.stderr, 'takes writes again' in done.stderr, kept(other)), (3, True, False, []), done.stderr)
        check_equal([may_write(server, 'default', 'k') for server in group.servers[:1]], [True])
        group.ask(group.servers[1], 'ACL', 'SETUSER', 'default', '+@all')
        before = [rules_of(group, server) for server in group.servers]
        target.call('ACL', 'SETUSER', 'mover', 'on', '>word', '~*', '&*', '+@all', '-del')  # so that the row cannot be deleted at the end
        done = copy('cutover', '--quiet', '--from', group.url, '--to', address(cluster).replace('//', '//mover@'), '--spool', other,
                    '--pause-max', '30s', env={**os.environ, 'TO_PASSWORD': 'word'})
        check_equal((done.returncode, done.stderr.count('takes writes again')), (4, 3), done.stderr)
        check_equal([rules_of(group, server) for server in group.servers], before)
        check_equal(kept(other), [], 'rules that are left')


@suite.case('passwords of the Sentinel and of the servers, wrong names, Sentinels that are not there, and arguments that do not fit')
def _(run):
    with Watched(0, ('--requirepass', 'word'), ('sentinel auth-pass shop word',)) as group, Cluster(**SHAPE) as cluster, tempfile.TemporaryDirectory() as spool:
        base = ('--spool', spool, '--follow', 'no')
        done = copy('--from', group.url, *base, cluster=cluster)
        check_equal((done.returncode, 'NOAUTH' in done.stderr), (3, True), done.stderr)
        word = {**os.environ, 'FROM_PASSWORD': 'word'}
        done = copy('--from', group.url, *base, cluster=cluster, env=word)
        check_equal(done.returncode, 0, done.stderr)
        for name, rights in (('copier', RIGHTS), ('admin', '+acl +info ' + RIGHTS)):  # those of docs/from-redis.md
            Source(group.master()).connection.pipeline([('AUTH', 'word'), ('ACL', 'SETUSER', name, 'on', '>word', *rights.split())])
            url = group.url.replace('//', '//%s@' % name)
            done = copy('--from', url, *base, cluster=cluster, env=word)
            check_equal(done.returncode, 0, done.stderr)
        done = copy('cutover', '--from', url, '--spool', spool, '--pause-max', '30s', cluster=cluster, env=word)
        check_equal(done.returncode, 0, done.stderr)
        done = copy('--from', group.url.replace('shop', 'other'), *base, cluster=cluster, env=word)
        check_equal((done.returncode, 'has no master of that name' in done.stderr), (3, True), done.stderr)
        done = copy('--from', 'sentinel://127.0.0.1:1/shop', *base, cluster=cluster, env=word)
        check_equal((done.returncode, 'the source was not found' in done.stderr), (3, True), done.stderr)
        group.ask(group.sentinel, 'ACL', 'SETUSER', 'default', 'resetpass', '>watch')
        done = copy('--from', group.url, *base, cluster=cluster, env=word)
        check_equal((done.returncode, 'NOAUTH' in done.stderr), (3, True), done.stderr)
        done = copy('--from', group.url, *base, cluster=cluster, env={**word, 'SENTINEL_PASSWORD': 'watch'})
        check_equal(done.returncode, 0, done.stderr)
    for url in ('sentinel://h:1', 'sentinel://h:1/', 'sentinel://h/shop', 'sentinel://h:1,/shop', 'sentinel://u:p@h:1/shop',
                'sentinel://%s/shop' % ','.join('h:%d' % i for i in range(1, 18))):
        done = copy('--from', url, '--spool', '/tmp', '--to', 'scree://h:2')
        check_equal((done.returncode, done.stdout, done.stderr.count('\n')), (2, '', 1), url)


if __name__ == '__main__':
    suite.main()
