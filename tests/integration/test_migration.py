#!/usr/bin/python3
"""From twemproxy to Scree: nutcracker.yml files converted or refused, the result run, keys copied."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from support import ROOT
from support.cluster import Cluster, Oracle, Process, binary, free_ports, http_get
from support.harness import Suite, check, check_equal, patience, wait_for
from support.kube import ini
from support.resp import Connection

suite = Suite(__doc__)

CACHE = '''
sessions:
  listen: 0.0.0.0:22121
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: true
  timeout: 400
  backlog: 1024
  client_connections: 5000
  preconnect: true
  redis: true
  server_retry_timeout: 2000
  server_failure_limit: 1
  servers:
   - sessions.internal:6379:1
'''
SHARDED = '''
users:
  listen: 127.0.0.1:22122
  hash: murmur
  hash_tag: "{}"
  distribution: ketama
  auto_eject_hosts: false
  timeout: 1000
  redis: true
  redis_auth: pass word
  server_connections: 4
  servers:
   - 10.0.0.1:6379:1 users1
   - 10.0.0.2:6379:1 users2
   - 10.0.0.3:6379:1 users3
'''
SOCKET = '''
local:
  listen: /var/run/nutcracker/local.sock 0666
  redis: true
  servers:
   - 127.0.0.1:6379:1
'''
MEMCACHED = '''
pages:
  listen: 127.0.0.1:22123
  hash: hsieh
  distribution: modula
  servers:
   - 127.0.0.1:11211:1
'''


def convert(text, *options):
    """(exit code, what it printed, {path: text})"""
    with tempfile.TemporaryDirectory(prefix='scree-nutcracker-') as folder:
        source, out = os.path.join(folder, 'nutcracker.yml'), os.path.join(folder, 'out')
        with open(source, 'w') as file:
            file.write(text)
        done = subprocess.run([sys.executable, os.path.join(ROOT, 'config/from-nutcracker'), source, '--out', out] +
                              list(options), capture_output=True, text=True)
        files = {}
        for path, _, names in os.walk(out):
            for name in names:
                with open(os.path.join(path, name)) as file:
                    files[os.path.relpath(os.path.join(path, name), out)] = file.read()
                check_equal(os.stat(os.path.join(path, name)).st_mode & 0o777, 0o600, name)
                check_file(os.path.join(path, name))
        return done.returncode, done.stdout + done.stderr.replace(source, 'nutcracker.yml'), files


def check_file(path):
    """Checks that the programs accept the converted files."""
    name = os.path.basename(path).split('.')[0].split('-')[0]
    if name in ('proxy', 'backend'):
        done = subprocess.run([binary('scree-' + name), '--config', path, '--check'], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)


def check_is_nutcrackers(text):
    """Checks with nutcracker itself that the examples are valid nutcracker.yml files."""
    if not shutil.which('nutcracker'):
        return
    with tempfile.NamedTemporaryFile('w', suffix='.yml') as file:
        file.write(text)
        file.flush()
        done = subprocess.run(['nutcracker', '-t', '-c', file.name], capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)


@suite.case('a pool with one server is converted exactly, with any hash function')
def _(run):
    check_is_nutcrackers(CACHE)
    code, said, files = convert(CACHE)
    check_equal((code, sorted(files)), (0, ['sessions/proxy.ini', 'sessions/shards.ini']), said)
    proxy = ini(files['sessions/proxy.ini'])
    check_equal(dict(proxy['proxy']), {'listen': '0.0.0.0:22121', 'admin': '127.0.0.1:7380', 'shards': 'shards.ini',
                                       'maxclients': '5000', 'tcp-backlog': '1024', 'protected-mode': 'no'})
    check_equal(dict(proxy['upstream']), {'timeout': '400ms', 'connect-timeout': '400ms'})
    shards = ini(files['sessions/shards.ini'])
    check_equal(dict(shards['shard server-0']), {'slots': '0-16383', 'address': 'sessions.internal:6379'})
    for word in ('auto_eject_hosts', 'preconnect'):
        check('note: ' + word in said, 'no note about %s: %s' % (word, said))


@suite.case('a Unix socket keeps its mode; no timeout becomes the longest timeout')
def _(run):
    check_is_nutcrackers(SOCKET)
    code, said, files = convert(SOCKET)
    check_equal(code, 0, said)
    proxy = ini(files['local/proxy.ini'])
    check_equal((proxy['proxy']['listen'], proxy['proxy']['unix-mode'], proxy['proxy']['maxclients']),
                ('unix:/var/run/nutcracker/local.sock', '0666', '1000000'))
    check_equal(proxy['upstream']['timeout'], '3600000ms')


@suite.case('several servers: refused while they stay, converted for new backends: slots, secret and password')
def _(run):
    check_is_nutcrackers(SHARDED)
    code, said, files = convert(SHARDED)
    check_equal((code, files), (1, {}), said)
    check('nutcracker places keys by ketama over murmur' in said and 'redis_auth' in said, said)
    code, said, files = convert(SHARDED, '--servers', 'scree', '--admin', '9000')
    check_equal(code, 0, said)
    check_equal(sorted(files), ['users/backend-%d.ini' % i for i in range(3)] + ['users/proxy.ini', 'users/shards.ini'])
    proxy, shards = ini(files['users/proxy.ini']), ini(files['users/shards.ini'])
    check_equal((proxy['proxy']['requirepass'], proxy['proxy']['admin']), ('pass word', '127.0.0.1:9000'))
    check('protected-mode' not in proxy['proxy'], 'protected-mode')
    check_equal([shards['shard server-%d' % i]['slots'] for i in range(3)], ['0-5460', '5461-10921', '10922-16383'])
    backend = ini(files['users/backend-1.ini'])['backend']
    check_equal((backend['bind'], backend['port'], backend['secret'], backend['requirepass']),
                ('10.0.0.2', '6379', proxy['upstream']['secret'], 'pass word'))


REFUSED = [
    ('it speaks the memcached protocol', MEMCACHED),
    ('servers of different weights (1, 5)', SHARDED.replace('2:6379:1', '2:6379:5')),
    ('hash_tag: "$$"', SHARDED.replace('"{}"', '"$$"')),
    ('distribution: random', SHARDED.replace('ketama', 'random')),
    ('auto_eject_hosts: Scree never gives', SHARDED.replace('auto_eject_hosts: false', 'auto_eject_hosts: true')),
    ('redis_db: 3', SHARDED + '  redis_db: 3\n'),
    ('timeout: 5: expected 10 to', SHARDED.replace('timeout: 1000', 'timeout: 5')),
    ('server_ejection: unknown key', SHARDED + '  server_ejection: yes\n'),
    ('server "/tmp/redis.sock:1"', SHARDED.replace('10.0.0.2:6379:1 users2', '/tmp/redis.sock:1')),
    ('listen is missing', SHARDED.replace('  listen: 127.0.0.1:22122\n', '')),
    ('it has no servers', SHARDED.split('  servers')[0]),
    ('expected keys and values', 'users: none\n'),
    ('expected pools', '[]\n'),
    ('nutcracker.yml: ', 'users: {\n'),
]


@suite.case('settings without an equivalent are refused by name, and then no file is written')
def _(run):
    for want, text in REFUSED:
        code, said, files = convert(text, '--servers', 'scree')
        check(code == 1 and not files and want in said, 'expected a refusal with %r: %s' % (want, said))
        check('Traceback' not in said, said)
    code, said, files = convert(CACHE + MEMCACHED)
    check_equal((code, files), (1, {}), 'one good pool and one bad: ' + said)
    code, said, files = convert(CACHE + MEMCACHED, '--pool', 'sessions')
    check_equal((code, len(files)), (0, 2), 'only the good one: ' + said)
    run.note('%d refusals' % len(REFUSED))


# ---- the converted configuration in use ------------------------------------------------------------------------------

class Program(Process):
    """A program with a converted file."""

    def __init__(self, name, config, folder, ports, program):
        argv = ['nutcracker', '-c', config, '-s', str(free_ports())] if program == 'nutcracker' else \
            [binary(program), '--config', config]
        super().__init__(name, argv, folder, ports)


def convert_into(folder, text, *options):
    source = os.path.join(folder, 'nutcracker.yml')
    with open(source, 'w') as file:
        file.write(text)
    subprocess.run([sys.executable, os.path.join(ROOT, 'config/from-nutcracker'), source, '--out', folder] + list(options),
                   check=True, capture_output=True)
    return source


def fill(server, prefix, count=500):
    with Connection(server.address) as client:
        client.pipeline([['SET', '%s:%d' % (prefix, i), i] for i in range(count)])
        client.pipeline([['HSET', '%s:hash' % prefix, 'f%d' % i, i] for i in range(300)])
        client.call('PEXPIREAT', '%s:1' % prefix, 4102444800000)


@suite.case('one server: scree-proxy in the place of nutcracker serves the same keys')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-migration-') as folder:
        server, port, admin = Oracle(folder, 'old'), free_ports(), free_ports()
        source = convert_into(folder, CACHE.replace('0.0.0.0:22121', '127.0.0.1:%d' % port).replace('timeout: 400', 'timeout: 60000')
                              .replace('sessions.internal:6379', '127.0.0.1:%d' % server.port), '--admin', str(admin))
        running = [server]
        try:
            server.start()
            fill(server, 'k')
            asked = [['GET', 'k:%d' % i] for i in range(500)] + [['MGET', 'k:1', 'k:2', 'none'], ['HLEN', 'k:hash'],
                                                               ['PEXPIRETIME', 'k:1'], ['SET', 'k:1', 'x', 'NX'], ['INCR', 'k:hash']]
            answers = []
            if shutil.which('nutcracker'):
                answers.append(ask(Program('nutcracker', source, folder, [port], 'nutcracker'), port, asked[:-3]))
            answers.append(ask(Program('proxy', os.path.join(folder, 'sessions/proxy.ini'), folder, [port, admin], 'scree-proxy'),
                               port, asked))
            with Connection(server.address) as client:
                answers.append(client.pipeline(asked))
            check_equal(answers[-2], answers[-1], 'scree-proxy against its server')
            if len(answers) == 3:
                check_equal(answers[0], answers[1][:-3], 'nutcracker against scree-proxy')
        finally:
            for process in running:
                process.stop()


def ask(program, port, commands):
    """Starts the program, sends the commands, and stops it."""
    program.start()
    try:
        with Connection(('127.0.0.1', port)) as client:
            return client.pipeline(commands)
    finally:
        program.signal(15)
        program.child.wait(patience())
        program.child = None


@suite.case('three servers: new backends have all copied keys, with their times to live')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-migration-') as folder:
        old = [Oracle(folder, 'old-%d' % i) for i in range(3)]
        port, admin, ports = free_ports(), free_ports(), [free_ports() for _ in range(3)]
        text = SHARDED.replace('22122', str(port)).replace('timeout: 1000', 'timeout: 60000')
        for i in range(3):
            text = text.replace('10.0.0.%d:6379' % (i + 1), '127.0.0.1:%d' % ports[i])
        convert_into(folder, text, '--servers', 'scree', '--admin', str(admin))
        running = list(old)
        for i in range(3):
            path = os.path.join(folder, 'users/backend-%d.ini' % i)
            with open(path) as file:
                ready = file.read().replace('/var/lib/scree', folder)
            with open(path, 'w') as file:
                file.write(ready)
            running.append(Program('backend-%d' % i, path, folder, [ports[i]], 'scree-backend'))
        running.append(Program('proxy', os.path.join(folder, 'users/proxy.ini'), folder, [port, admin], 'scree-proxy'))
        try:
            for process in running:
                process.start()
            wait_for(lambda: http_get(admin, '/readyz')[0] == 200, 'the proxy to be ready')
            for i, server in enumerate(old):
                fill(server, 'old%d' % i)
            copy(old, port)
            with Connection(('127.0.0.1', port)) as client:
                check_equal(client.get('AUTH', 'pass word'), b'OK')
                check_equal(client.get('DBSIZE'), 3 * 501)
                for i in range(3):
                    check_equal((client.get('GET', 'old%d:499' % i), client.get('HLEN', 'old%d:hash' % i),
                                 client.get('PEXPIRETIME', 'old%d:1' % i), client.get('PTTL', 'old%d:2' % i)),
                                (b'499', 300, 4102444800000, -1))
        finally:
            for process in reversed(running):
                process.stop()


@suite.case('copy-keys copies every database in one run, and names keys that are refused or missing and servers it cannot reach')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-migration-') as folder, \
            Cluster(backends=2, partitions=1, proxies=1) as cluster:
        old = Oracle(folder, 'old')
        old.start()
        try:
            source, target = '127.0.0.1:%d' % old.port, '127.0.0.1:%d' % cluster.proxies[0].address[1]
            with Connection(old.address) as client:
                for database in (0, 2, 9):
                    client.call('SELECT', database)
                    client.pipeline([['SET', 'k:%d' % i, database] for i in range(450)])
                client.call('PEXPIREAT', 'k:1', 4102444800000)
                client.call('SET', 'big', 'x' * 100000)
            done = copy_keys('--from', source, '--to', target)
            check_equal((done.returncode, re.findall(r'database (\d+): (\d+) keys', done.stdout)),
                        (0, [('0', '450'), ('2', '450'), ('9', '451')]), done.stderr)
            with Connection(cluster.proxies[0].address) as client:
                for database in (0, 2, 9):
                    client.get('SELECT', database)
                    check_equal((client.get('DBSIZE'), client.get('GET', 'k:449')), (450 + (database == 9), b'%d' % database))
                check_equal(client.get('PEXPIRETIME', 'k:1'), 4102444800000)
            done = copy_keys('--from', 'redis://' + source, '--db', '9', '--db', '2', '--to', target, '--into', '5')
            check_equal((done.returncode, re.findall(r'database (\d+) into 5: (\d+) keys', done.stdout)),
                        (0, [('2', '450'), ('9', '451')]), done.stderr)
            partition = cluster.backends[0].addresses[0]
            with Connection(partition) as client:
                check_equal(client.get('ACL', 'SETUSER', 'copier', 'on', '>secret', '~k:*', '+@all'), b'OK')
            done = copy_keys('--from', source, '--to', 'redis://copier@%s:%d' % partition, '--db', '9', TO_PASSWORD='secret')
            check_equal((done.returncode, re.findall(r': (.* refused)', done.stdout)), (1, ['450 keys, 1 refused']), done.stderr)
            check("b'big': " in done.stderr and '1 keys were not copied' in done.stderr, done.stderr)
            for words, reason in ((['--from', source, '--to', '127.0.0.1:1'], '127.0.0.1:1: database 0: .*refused'),
                                  (['--from', '127.0.0.1:1', '--to', target], '127.0.0.1:1: its databases: .*refused'),
                                  (['--from', 'nowhere', '--to', target], 'nowhere: expected HOST:PORT'),
                                  (['--from', source, '--to', target, '--into', '99'], 'needs more `databases`'),
                                  (['--from', source, '--to', target, '--db', '99'], 'database 99: .*out of range')):
                done = copy_keys(*words)
                check(done.returncode == 1 and re.search(reason, done.stderr), '%r: %r' % (words, done.stderr))
                check('Traceback' not in done.stderr, done.stderr)
            check('--into' in copy_keys('--help').stdout, 'the help')
        finally:
            old.stop()


def copy_keys(*words, **environment):
    return subprocess.run(['/usr/bin/python3', os.path.join(ROOT, 'config/copy-keys'), *words], capture_output=True, text=True,
                          env=dict(os.environ, **environment))


def copy(servers, port):
    words = [word for server in servers for word in ('--from', '127.0.0.1:%d' % server.port)]
    done = copy_keys('--to', '127.0.0.1:%d' % port, *words, TO_PASSWORD='pass word')
    check_equal((done.returncode, done.stdout.count(': 501 keys')), (0, len(servers)), done.stdout + done.stderr)


if __name__ == '__main__':
    suite.main()
