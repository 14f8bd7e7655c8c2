#!/usr/bin/python3
"""config/quickstart: starts a cluster with one command, stops it, and reports problems clearly."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from support import ROOT
from support.cluster import free_ports
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Connection

QUICKSTART = os.path.join(ROOT, 'config', 'quickstart')
PORTS = 86 + 8
suite = Suite(__doc__)


def quickstart(*words, limit=600):
    return subprocess.run([QUICKSTART, '--bin', os.environ['SCREE_BIN'], '--no-install'] + [str(word) for word in words],
                          capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)


class Folder:
    """A data directory; processes that run in it are stopped at the end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-quickstart-')
        return self.path

    def __exit__(self, *_):
        quickstart('--stop', '--data', self.path)
        shutil.rmtree(self.path)


def refused(done, words):
    """Checks that the command failed with one line that contains these words."""
    check(done.returncode != 0, 'expected a refusal, it said: %s' % done.stdout)
    lines = [line for line in done.stderr.splitlines() if line.startswith('quickstart: ')]
    check(len(lines) == 1 and words in lines[0], 'expected one line with %r, got %r' % (words, done.stderr))


def pids_in(data):
    folder = os.path.join(data, 'run')
    return [int(open(os.path.join(folder, name)).read().split()[0]) for name in os.listdir(folder) if name.endswith('.pid')]


def is_alive(pid):
    try:
        return open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


@suite.case('the end of a process is in its log, with its exit status or the signal, also of SIGKILL')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        done = quickstart('--data', data, '--port', port, '--durability', 'everysec', '--detach')
        check_equal(done.returncode, 0, done.stderr)

        def log(name):
            with open(os.path.join(data, 'log', name + '.log')) as file:
                return file.read()
        with open(os.path.join(data, 'run', 'backend-0.pid')) as file:
            pid = int(file.read().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: ' info ended process=%d reason="signal SIGKILL"' % pid in log('backend-0'), 'the line of SIGKILL')
        check_equal(quickstart('--data', data, '--stop').returncode, 0)
        wait_for(lambda: re.search(r' info ended process=\d+ reason="exit status 0"', log('proxy-0')), 'the line of an orderly end')


@suite.case('--detach starts proxies and partitions, and the data is there again after --stop and a new start')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        words = ('--data', data, '--port', port, '--proxies', 2, '--durability', 'everysec', '--detach')
        done = quickstart(*words)
        check_equal(done.returncode, 0, done.stderr)
        last = done.stdout.splitlines()[-1]
        here = '127.0.0.1:%d'
        check_equal(last, 'ready: proxy=%s,%s admin=%s,%s partitions=%s,%s,%s'
                    % tuple(here % (port + i) for i in (0, 2, 1, 3, 22, 23, 24)))
        with Connection(('127.0.0.1', port)) as first, Connection(('127.0.0.1', port + 2)) as second:
            for i in range(50):
                check_equal(first.call('SET', 'k%d' % i, i), ('+', b'OK'))
            check_equal(second.call('DBSIZE'), (':', b'50'))
        pids = pids_in(data)
        check_equal(len(pids), 3, 'processes')
        check_equal(quickstart('--stop', '--data', data).returncode, 0)
        check(not any(is_alive(pid) for pid in pids), 'a process is left')
        check_equal(quickstart(*words).returncode, 0)
        with Connection(('127.0.0.1', port)) as first:
            check_equal(first.call('GET', 'k49'), ('$', b'49'))


@suite.case('in the foreground, Ctrl-C stops everything cleanly')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        child = subprocess.Popen([QUICKSTART, '--bin', os.environ['SCREE_BIN'], '--no-install', '--data', data,
                                  '--port', str(port), '--partitions', '1'], stdout=subprocess.PIPE, text=True,
                                 start_new_session=True)
        lines = []
        for line in child.stdout:
            lines.append(line)
            if line.startswith('logs:'):
                break
        check(any(line.startswith('ready: ') for line in lines), 'got %r' % lines)
        with Connection(('127.0.0.1', port)) as connection:
            check_equal(connection.call('PING'), ('+', b'PONG'))
        pids = pids_in(data)
        os.killpg(child.pid, signal.SIGINT)
        rest = child.stdout.read()
        check_equal(child.wait(patience()), 0, 'exit code')
        check('stopped' in rest, 'got %r' % rest)
        check(not any(is_alive(pid) for pid in pids), 'a process is left')


@suite.case('in the foreground, quickstart ends with an error when a process dies')
def _(run):
    with Folder() as data:
        child = subprocess.Popen([QUICKSTART, '--bin', os.environ['SCREE_BIN'], '--no-install', '--data', data,
                                  '--port', str(free_ports(PORTS)), '--partitions', '1'], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        for line in child.stdout:
            if line.startswith('logs:'):
                break
        pids = pids_in(data)
        os.kill(int(open(os.path.join(data, 'run', 'proxy-0.pid')).read().split()[0]), signal.SIGKILL)
        error = child.communicate(timeout=2 * patience())[1]
        check_equal(child.returncode, 1, 'exit code')
        check('proxy-0 ended' in error, 'got %r' % error)
        check(not any(is_alive(pid) for pid in pids), 'a process is left')


@suite.case('a second start on the same data is refused and does not disturb the first')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        check_equal(quickstart('--data', data, '--port', port, '--detach').returncode, 0)
        refused(quickstart('--data', data, '--port', free_ports(PORTS), '--detach'), 'is in use by a running quickstart')
        with Connection(('127.0.0.1', port)) as connection:
            check_equal(connection.call('PING'), ('+', b'PONG'))


@suite.case('a port in use is named in the error, and no process keeps running')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(('127.0.0.1', port + 23))
            taken.listen()
            refused(quickstart('--data', data, '--port', port, '--detach'), 'port %d is in use (partition 1)' % (port + 23))
        check_equal(pids_in(data), [])


@suite.case('bad arguments and a changed number of partitions are refused in one line')
def _(run):
    with Folder() as data:
        refused(quickstart('--proxies', 99), '--proxies: expected a number from 1 to 11')
        refused(quickstart('--durability', 'never'), 'expected always, everysec or os')
        refused(quickstart('--bin', data), 'expected the program there')
        refused(quickstart('--data', '/proc/none', '--detach'), 'cannot make the directory')
        port = free_ports(PORTS)
        check_equal(quickstart('--data', data, '--port', port, '--partitions', 2, '--detach').returncode, 0)
        check_equal(quickstart('--stop', '--data', data).returncode, 0)
        refused(quickstart('--data', data, '--port', port, '--detach'), 'was made with --backends 1 --partitions 2')
        refused(quickstart('--backends', 9, '--partitions', 8), 'makes 72, expected at most 64')
        refused(quickstart('--backends', 3, '--replicas', 2), '--replicas 2: expected a multiple of 2 backends, not --backends 3')
        refused(quickstart('--backends', 2, '--replicas', 2, '--durability', 'os'), '--replicas: copies need --durability always')
        refused(quickstart('--backends', 2, '--replicas', 2, '--restore', data), '--restore: expected a cluster without --replicas')


@suite.case('several backends; options in own-*.ini are used, also after a new start; --start restarts one process')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        words = ('--data', data, '--port', port, '--backends', 2, '--partitions', 1, '--detach')
        done = quickstart(*words)
        check_equal(done.returncode, 0, done.stderr)
        with open(os.path.join(data, 'config', 'own-proxy.ini'), 'a') as file:
            file.write('[namespace shop]\ntoken = t\n')
        with Connection(('127.0.0.1', port)) as connection:
            wait_for(lambda: connection.call('AUTH', 'shop', 't') == ('+', b'OK'), 'the namespace to be there')
            check_equal(connection.call('MSET', 'a', '1', 'b', '2', 'c', '3'), ('+', b'OK'))
            with open(os.path.join(data, 'run', 'backend-1.pid')) as file:
                os.kill(int(file.read().split()[0]), signal.SIGKILL)
            wait_for(lambda: connection.call('MGET', 'a', 'b', 'c')[0] == '-', 'a shard to be missed')
            refused(quickstart('--data', data, '--start', 'backend-0'), 'backend-0 is running')
            refused(quickstart('--data', data, '--start', 'backend-7'), 'expected one of: backend-0 backend-1 proxy-0')
            check_equal(quickstart('--data', data, '--start', 'backend-1').returncode, 0)
            wait_for(lambda: connection.call('DBSIZE') == (':', b'3'), 'the keys')
        check_equal(quickstart('--stop', '--data', data).returncode, 0)
        check_equal(quickstart(*words).returncode, 0)
        with Connection(('127.0.0.1', port)) as connection:
            check_equal(connection.call('AUTH', 'shop', 't'), ('+', b'OK'))
            check_equal(connection.call('GET', 'b'), ('$', b'2'))


class Writer(threading.Thread):
    """Writes keys through a proxy until `done` is set; `kept` are those that were acknowledged."""

    def __init__(self, port):
        super().__init__()
        self.port, self.kept, self.refused, self.done = port, [], [], threading.Event()

    def run(self):
        with Connection(('127.0.0.1', self.port)) as connection:
            while not self.done.is_set():
                key = 'w%d' % len(self.kept)
                reply = connection.call('SET', key, key)
                (self.kept if reply == ('+', b'OK') else self.refused).append(key if reply == ('+', b'OK') else reply)


@suite.case('--scale makes a running cluster bigger and smaller while it is written to, and no key is lost')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        words = ('--data', data, '--port', port, '--partitions', 2, '--detach')
        refused(quickstart('--data', data, '--scale', 2), 'there is no cluster')
        check_equal(quickstart(*words).returncode, 0)
        refused(quickstart('--data', data, '--scale', 17), '--scale: expected a number from 1 to 16')
        writer = Writer(port)
        writer.start()
        try:
            for backends in (3, 1, 2):
                done = quickstart('--data', data, '--scale', backends, limit=600)
                check_equal(done.returncode, 0, done.stdout + done.stderr)
                check('settled: every shard owns the slots' in done.stdout, done.stdout)
                check('ready: %d backends' % backends in done.stdout, done.stdout)
                names = sorted(name for name in os.listdir(os.path.join(data, 'run')) if name.endswith('.pid'))
                check_equal(names, ['backend-%d.pid' % i for i in range(backends)] + ['proxy-0.pid'])
                memory = {1: b'auto', 2: b'25%', 3: b'16%'}[backends]
                with Connection(('127.0.0.1', port + 22)) as first:
                    wait_for(lambda: first.get('CONFIG', 'GET', 'store-memory')[1] == memory, 'its share of the memory')
        finally:
            writer.done.set()
            writer.join()
        run.debug('%d writes, %d refused: %r' % (len(writer.kept), len(writer.refused), writer.refused[:3]))
        check(len(writer.kept) > 10, 'only %d writes' % len(writer.kept))
        with Connection(('127.0.0.1', port)) as connection:
            for key in writer.kept:
                check_equal(connection.call('GET', key), ('$', key.encode()), key)
        check_equal(quickstart('--stop', '--data', data).returncode, 0)
        refused(quickstart(*words), 'was made with --backends 2 --partitions 2')
        check_equal(quickstart(*words, '--backends', 2).returncode, 0, 'a start with the map of before')
        with Connection(('127.0.0.1', port)) as connection:
            check_equal(connection.call('DBSIZE'), (':', str(len(writer.kept)).encode()))


def named_ports(data):
    """The ports of the shards that the map names which proxies read."""
    with open(os.path.join(data, 'config', 'shards.ini')) as file:
        return [int(port) for port in re.findall(r'^address = 127.0.0.1:(\d+)$', file.read(), re.M)]


def silent_ports(data):
    """Those of them that refuse connections."""
    def refuses(port):
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', port)) != 0
    silent = [port for port in named_ports(data) if refuses(port)]
    return [port for port in silent if port in named_ports(data)]


class Loader(threading.Thread):
    """Runs commands that concern all shards through a proxy, which reads its map again each time, until `done` is set; `refused`
    are the replies that are errors, and the ports of shards that its map names before they run."""

    def __init__(self, data, port, process, done):
        super().__init__()
        self.data, self.port, self.process, self.rounds, self.refused, self.done = data, port, process, 0, [], done

    def run(self):
        with Connection(('127.0.0.1', self.port)) as connection:
            while not self.done.is_set():
                self.rounds += 1
                os.kill(self.process, signal.SIGHUP)
                replies = [connection.call(*words) for words in (
                    ('SCRIPT', 'LOAD', 'return %d' % self.rounds), ('DBSIZE',), ('CONFIG', 'SET', 'hash-max-listpack-entries', 128),
                    ('FUNCTION', 'LOAD', 'REPLACE', "#!lua name=l\nredis.register_function('f', function() return %d end)" % self.rounds),
                    ('PUBSUB', 'NUMPAT'), ('FUNCTION', 'LIST'))]
                self.refused += [reply for reply in replies if reply[0] == '-'] + silent_ports(self.data)


@suite.case('while --scale starts and stops shards, no command that concerns all of them fails at a proxy')
def _(run):
    with Folder() as data:
        port = free_ports(PORTS)
        check_equal(quickstart('--data', data, '--port', port, '--proxies', 2, '--backends', 1, '--detach').returncode, 0)
        done = threading.Event()
        proxies = [int(open(os.path.join(data, 'run', 'proxy-%d.pid' % index)).read().split()[0]) for index in range(2)]
        loaders = [Loader(data, port + 2 * index, proxies[index], done) for index in range(2)]
        for loader in loaders:
            loader.start()
        try:
            for backends in (3, 2):
                scaled = quickstart('--data', data, '--scale', backends, limit=600)
                check_equal(scaled.returncode, 0, scaled.stdout + scaled.stderr)
        finally:
            done.set()
            for loader in loaders:
                loader.join()
        for loader in loaders:
            check(loader.rounds > 3 and not loader.refused, '%d rounds, refused: %r' % (loader.rounds, loader.refused[:3]))


@suite.case('--stop stops only processes of quickstart')
def _(run):
    with Folder() as data:
        check('nothing is running' in quickstart('--stop', '--data', data).stdout, 'expected it to say so')
        bystander = subprocess.Popen(['sleep', '600'])
        try:
            os.makedirs(os.path.join(data, 'run'))
            with open(os.path.join(data, 'run', 'backend-0.pid'), 'w') as file:
                file.write('%d 12345\n' % bystander.pid)
            check_equal(quickstart('--stop', '--data', data).returncode, 0)
            check(bystander.poll() is None, 'a process of somebody else was ended')
        finally:
            bystander.kill()
            bystander.wait()


@suite.case('--help describes every option of the script')
def _(run):
    text = quickstart('--help').stdout
    for option in set(re.findall(r'^ +(--[a-z-]+)', text, re.M)):
        check(option in open(QUICKSTART).read(), option)
    check('--partitions' in text and '--stop' in text, text)


suite.main()
