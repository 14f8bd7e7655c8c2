#!/usr/bin/python3
"""The attacks of docs/security.md, tried for real."""

import collections
import contextlib
import os
import re
import resource
import select
import socket
import subprocess

from support.cluster import Cluster
from support.harness import Skip, Suite, check, check_equal, wait_for
from support.resp import Closed, Connection, encode

suite = Suite(__doc__)


def own_address():
    """An address of this machine other than the loopback address."""
    words = subprocess.run(['hostname', '-I'], capture_output=True, text=True).stdout.split()
    found = next((word for word in words if ':' not in word), None)
    if not found:
        raise Skip('this machine has no address but the loopback')
    return found


def restart(process, section, **options):
    process.stop()
    process.options.setdefault(section, {}).update(options)
    process.write_config()
    process.start()


def both(cluster):
    return (('proxy', cluster.proxies[0].address), ('partition', cluster.backends[0].addresses[0]))


def try_call(address, *words):
    """The reply; None if the connection is refused, or ends."""
    try:
        with Connection(address, timeout=2) as connection:
            return connection.call(*words)
    except (Closed, OSError):
        return None


def answer(address, data):
    """The bytes received after sending these, until the connection ends or fails."""
    with Connection(address) as connection:
        connection.send_raw(data)
        try:
            return connection.read()
        except Closed:
            return 'closed'


# ---- access ----------------------------------------------------------------------------------------------------------

@suite.case('without a password a public address refuses clients of other hosts, at proxy and backend alike')
def _(run):
    host = own_address()
    with Cluster(backends=1, partitions=1) as cluster:
        backend, proxy = cluster.backends[0], cluster.proxies[0]
        proxy.stop()
        restart(backend, 'backend', bind='0.0.0.0')
        proxy.options = {'proxy': {'listen': '0.0.0.0:%d' % proxy.port}}
        proxy.write_config()
        proxy.start()
        for port in (proxy.port, backend.port):
            with Connection((host, port)) as stranger:
                kind, text = stranger.call('GET', 'k')
                check(kind == '-' and text.startswith(b'DENIED'), text)
            with Connection(('127.0.0.1', port)) as local:
                check_equal(local.call('SET', 'k', 'v'), ('+', b'OK'))
        for words in (('AUTH', 'default', 'anything'), ('HELLO', '3', 'AUTH', 'default', 'x'), ('RESET',)):
            with Connection((host, backend.port)) as stranger:
                stranger.call(*words)
                check(stranger.call('GET', 'k')[1].startswith(b'DENIED'), '%s opens the backend' % words[0])
        with Connection((host, backend.port)) as stranger:
            check_equal(stranger.call('SCREE', 'AUTH', cluster.secret), ('+', b'OK'))
            check_equal(stranger.call('GET', 'k'), ('$', b'v'))


@suite.case('internal commands need the cluster secret; a wrong or partial one is refused')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        with cluster.partition(0) as connection:
            for words in (('SCREE', 'USE', 'ns', '0', 'tag'), ('SCREE', 'LISTEN', 'channel', 'c', '1')):
                check(connection.call(*words)[0] == '-', '%s without the secret' % words[1])
            for wrong in ('', cluster.secret[:-1], cluster.secret + 'x', cluster.secret.upper()):
                check(connection.call('SCREE', 'AUTH', wrong)[1].startswith(b'WRONGPASS'), wrong)
        with cluster.connect() as connection:
            check(connection.call('SCREE', 'AUTH', cluster.secret)[0] == '-', 'SCREE AUTH passes through the proxy')
            check(connection.call('SCREE', 'USE', 'ns', '0', 'tag')[0] == '-', 'SCREE USE passes through the proxy')


@suite.case('before a login requests are small: 10 arguments, 16 KiB')
def _(run):
    with Cluster(backends=1, partitions=1, backend_options={'backend': {'requirepass': 'pw'}},
                 proxy_options={'proxy': {'requirepass': 'pw'}}) as cluster:
        for name, address in both(cluster):
            check(b'unauthenticated multibulk' in answer(address, b'*11\r\n')[1], '%s: 11 arguments' % name)
            check(b'unauthenticated bulk' in answer(address, b'*1\r\n$16385\r\n')[1], '%s: 16385 bytes' % name)
            check(b'NOAUTH' in answer(address, b'*2\r\n$3\r\nGET\r\n$1\r\nk\r\n')[1], '%s: a command' % name)
            with Connection(address) as connection:
                check_equal(connection.call('AUTH', 'pw'), ('+', b'OK'))
                check(connection.call('MSET', *(['{k}x'] * 20))[0] == '+', '%s: 21 arguments after the login' % name)


@suite.case('a tenant can neither read nor change data of another, whatever names it uses')
def _(run):
    with Cluster(backends=1, partitions=2, namespaces={'a': {'token': 'token-of-a'}, 'b': {'token': 'token-of-b'}}) as cluster:
        with cluster.connect() as a, cluster.connect() as b:
            a.call('AUTH', 'token-of-a')
            b.call('AUTH', 'token-of-b')
            check_equal(a.call('SET', 'k', 'of a'), ('+', b'OK'))
            check_equal(b.get('GET', 'k'), None)
            for name in ('a:k', 'a\0k', '\0\1ak', '../a/k'):
                check_equal(b.get('GET', name), None)
            check_equal(b.call('FLUSHALL')[0], '+')
            check_equal(a.get('GET', 'k'), b'of a')
            check(b.call('AUTH', 'a', 'token-of-b')[0] == '-', 'b\'s token opens a')
            check('token-of' not in repr(b.call('CONFIG', 'GET', '*')), 'a token is shown')


@suite.case('secrets are not shown: CONFIG GET, /config, SLOWLOG, MONITOR, the log')
def _(run):
    options = {'proxy': {'requirepass': 'hidden-pw', 'slowlog-log-slower-than': '0', 'log-level': 'debug'}}
    with Cluster(backends=1, partitions=1, proxy_options=options, namespaces={'n': {'token': 'hidden-tk'}}) as cluster:
        with cluster.connect() as connection, cluster.connect() as monitor:
            for client in (connection, monitor):
                check_equal(client.call('AUTH', 'hidden-pw'), ('+', b'OK'))
            monitor.call('MONITOR')
            connection.call('AUTH', 'default', 'hidden-pw')
            connection.call('AUTH', 'hidden-tk')
            connection.call('AUTH', 'hidden-pw')
            connection.call('PING')
            seen = repr([connection.call('CONFIG', 'GET', '*'), connection.call('SLOWLOG', 'GET', '100')])
            shown = ''
            while 'PING' not in shown.upper():
                shown += repr(monitor.read())
        for text in (seen, shown, cluster.proxies[0].http('/config')[1], cluster.proxies[0].log().decode(),
                     cluster.backends[0].log().decode()):
            for secret in ('hidden-pw', 'hidden-tk', cluster.secret):
                check(secret not in text, '%s is shown: %s' % (secret, text[max(0, text.find(secret) - 80):][:160]))


# ---- clients without a login -----------------------------------------------------------------------------------------

@suite.case('requests of other protocols are not executed as commands: HTTP cross-site requests end the connection')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        for name, address in both(cluster):
            with Connection(address) as connection:
                connection.send_raw(b'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nSET attacked yes\r\n')
                data, closed = connection.read_until_closed(10)
                check(closed, '%s goes on after POST: %r' % (name, data))
            with Connection(address) as connection:
                check_equal(connection.get('GET', 'attacked'), None)
                check_equal(answer(address, b'\x16\x03\x01\x02\x00')[1], b'ERR Protocol error: TLS is not enabled on this port')


@suite.case('the Lua sandbox opens no file, runs no program, loads no code')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as connection:
        for script in ('return io.open("/etc/passwd")', 'return os.execute("true")', 'return require("os")',
                       'return loadfile("/etc/passwd")', 'return dofile("/etc/passwd")', 'return package.path',
                       'return debug.getregistry()',
                       'return loadstring("\\27Lua")()', 'return getfenv(0).io.open("x")', 'x = 1'):
            check(connection.call('EVAL', script, 0)[0] == '-', script)


@suite.case('clients cannot select files or programs: no DEBUG, MODULE, REPLICAOF, CONFIG SET dir')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        for name, address in both(cluster):
            with Connection(address) as connection:
                for words in (('CONFIG', 'SET', 'dir', '/etc'), ('CONFIG', 'SET', 'dbfilename', 'x.so'),
                              ('MODULE', 'LOAD', '/tmp/x.so'), ('REPLICAOF', '127.0.0.1', '1'),
                              ('SLAVEOF', '127.0.0.1', '1'), ('DEBUG', 'SEGFAULT'), ('CONFIG', 'SET', 'logfile', '/etc/x'),
                              ('CONFIG', 'SET', 'backup-dir', '/etc'), ('CONFIG', 'SET', 'tls-cert-file', '/etc/passwd')):
                    check(connection.call(*words)[0] == '-', '%s: %s is obeyed' % (name, ' '.join(words)))
                check_equal(connection.call('PING'), ('+', b'PONG'))


# ---- the admin port ----------------------------------------------------------------------------------------------

def send_quietly(sock, data):
    """Can the connection still send?"""
    try:
        sock.sendall(data)
        return True
    except OSError:
        return False


@suite.case('slow requests at the admin port do not block health checks, and end after a time even when bytes keep trickling')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        processes = (cluster.proxies[0], cluster.backends[0])
        slow = [socket.create_connection(('127.0.0.1', process.admin)) for process in processes for _ in range(70)]
        for sock in slow:
            sock.sendall(b'GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ')
        for process in processes:
            for path in ('/healthz', '/readyz', '/metrics'):
                wait_for(lambda: process.http(path)[0] == 200, '%s of %s' % (path, process.name))
        trickling = set(slow)

        def are_cut():
            trickling.intersection_update([sock for sock in trickling if send_quietly(sock, b'x')])
            for process in processes:
                check_equal(process.http('/healthz')[0], 200, process.name)
            return not trickling
        wait_for(are_cut, 'all slow requests to be cut', pause=0.2)
        for sock in slow:
            sock.close()


@suite.case('a host name that is not configured gets no admin page (DNS rebinding), only health checks')
def _(run):
    def ask(process, path, host):
        with Connection(('127.0.0.1', process.admin)) as connection:
            connection.send_raw(b'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' % (path, host))
            return connection.read_until_closed(20)[0]
    options = {'admin-hosts': 'scree.example *.svc'}
    with Cluster(backends=1, partitions=1, backend_options={'backend': options}, proxy_options={'proxy': options}) as cluster:
        for process in (cluster.proxies[0], cluster.backends[0]):
            for path in (b'/config', b'/metrics', b'/shards', b'/nothing', b'/'):
                text = ask(process, path, b'attacker.example')
                check(b' 421 ' in text and b'admin-hosts' in text, '%s: %s: %r' % (process.name, path, text))
            for path in (b'/healthz', b'/readyz'):
                check(b' 200 ' in ask(process, path, b'attacker.example'), path)
            for host in (b'localhost:1', b'[::1]:7380', b'10.0.0.1', b'Scree.example:7380', b'proxy.data.svc'):
                check(b' 200 ' in ask(process, b'/config', host), host)


# ---- limits of a compromised process ---------------------------------------------------------------------------------

def status_of(process, field):
    with open('/proc/%d/status' % process.pid) as file:
        return re.search(r'^%s:\s+(\S+)' % field, file.read(), re.M).group(1)


@suite.case('the processes cannot gain privileges, write no core file unless core-dumps asks for it, and run under the seccomp filter if configured')
def _(run):
    option = {'seccomp': 'yes'}
    with Cluster(backends=1, partitions=2, backend_options={'backend': option}, proxy_options={'proxy': option}) as cluster:
        for process in cluster.backends + cluster.proxies:
            check_equal(status_of(process, 'NoNewPrivs'), '1')
            check_equal(status_of(process, 'Seccomp'), '2')
            check_equal(int(status_of(process, 'CapAmb'), 16), 0)
            for status in process.of_threads('status'):
                check('Seccomp:\t2' in status, 'a thread of %s is not under the filter' % process.name)
            with open('/proc/%d/limits' % process.pid) as file:
                check(re.search(r'Max core file size\s+0\s+0', file.read()), 'core files are on')
        with cluster.connect() as connection:
            for i in range(2000):
                connection.send('SET', 'k%d' % i, 'x' * 1000)
            for i in range(2000):
                check_equal(connection.read(), ('+', b'OK'))
            check_equal(connection.get('EVAL', 'return 1', 0), 1)
            check_equal(connection.get('DBSIZE'), 2000)
        if 'detect_leaks' in os.environ.get('ASAN_OPTIONS', 'detect_leaks=1'):
            # the sanitizer's leak check would need ptrace at the end
            for process in cluster.backends + cluster.proxies:
                process.kill9()
        cluster.backends[0].options, cluster.proxies[0].options = {'backend': {'core-dumps': 'yes'}}, {'proxy': {'core-dumps': 'yes'}}
        for process in cluster.backends + cluster.proxies:
            process.write_config()
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # as many systems do
        for process in cluster.backends + cluster.proxies:
            process.start()
            with open('/proc/%d/limits' % process.pid) as file:
                limits = re.search(r'Max core file size\s+(\S+)\s+(\S+)', file.read())
            check_equal(limits.group(1), limits.group(2), 'core-dumps = yes allows as much as is possible')
        with cluster.connect() as connection:
            check_equal(connection.get('DBSIZE'), 2000)


@suite.case('many half-open and idle connections leave room for others, up to maxclients')
def _(run):
    with Cluster(backends=1, partitions=1, proxy_options={'proxy': {'maxclients': 200}}) as cluster:
        idle = [socket.create_connection(cluster.proxies[0].address) for _ in range(150)]
        with cluster.connect() as connection:
            check_equal(connection.call('PING'), ('+', b'PONG'))
        more = [socket.create_connection(cluster.proxies[0].address) for _ in range(100)]
        refused = set()

        # tries any 50 of the 250 connections, since each worker accepts connections in its own order
        def are_refused():
            for sock in select.select(set(idle + more) - refused, [], [], 1)[0]:
                check(b'max number of clients' in sock.recv(100), 'a client is cut without a word')
                refused.add(sock)
            return len(refused) >= 50
        wait_for(are_refused, 'the clients beyond maxclients to be refused')
        # 51, because the connection of PING may still be open
        check(len(refused) <= 51, 'fewer than maxclients are let in')
        for sock in idle + more:
            sock.close()

        def is_free():
            return try_call(cluster.proxies[0].address, 'PING') == ('+', b'PONG')
        wait_for(is_free, 'room for others')


# ---- exhaustion ------------------------------------------------------------------------------------------------------

LINES_MAX = 100  # LOG_LINES_MAX of shared/log.h: lines of one event in a second


def lines_by_second(process):
    """{(second, event): lines} of the log, without lines that count others, and those about commands of operators: these must not be lost."""
    found = re.findall(rb'^(\S+)\.\d+Z \w+ (\w+)', process.log(), re.M)
    return collections.Counter((second, event) for second, event in found if event not in (b'log_dropped', b'admin_command'))


@suite.case('floods of failed logins, broken requests and lost connections write a bounded number of lines, and the others are counted')
def _(run):
    options = {'requirepass': 'pw'}
    with Cluster(backends=1, partitions=1, backend_options={'backend': options}, proxy_options={'proxy': options}) as cluster:
        floods = (b''.join(encode(['AUTH', 'wrong%d' % n]) for n in range(400)), b'*1\r\n$99999999999\r\n', b'*-7x\r\n',
                  b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', b'POST / HTTP/1.1\r\n\r\n', b'\x16\x03\x01\2\0\1\0\1\xfc\3\3')
        for name, address in both(cluster):
            for flood in floods:
                for _ in range(60):
                    with contextlib.suppress(OSError, Closed), Connection(address) as connection:
                        connection.send_raw(flood)
                        connection.read()
            with Connection(address) as connection:
                check_equal(connection.call('AUTH', 'pw'), ('+', b'OK'), name)
                for _ in range(400):
                    with Connection(address) as victim:
                        check_equal(victim.call('AUTH', 'pw'), ('+', b'OK'))
                        connection.call('CLIENT', 'KILL', 'ID', victim.get('CLIENT', 'ID'))
                check_equal(connection.call('PING'), ('+', b'PONG'), name)
        for process in (cluster.proxies[0], cluster.backends[0]):
            most = lines_by_second(process).most_common(3)
            run.note('%s: %r' % (process.name, most))
            # a second of the log's time may be parts of two seconds of the limit
            check(not most or most[0][1] <= 2 * LINES_MAX, '%s writes %r' % (process.name, most))


@contextlib.contextmanager
def without_descriptors(process, spare):
    """The process may open about so many descriptors more than it has; 0: none at all."""
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir('/proc/%d/fd' % process.pid))
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (highest + 1 + spare if spare else 3, limits[1]))
    yield
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)


@suite.case('a proxy without free descriptors serves the clients that it has, and new ones as soon as there is room')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster, cluster.connect() as client:
        proxy, keys = cluster.proxies[0], [cluster.key_on(shard) for shard in range(2)]
        check_equal([client.call('SET', key, 'v') for key in keys], [('+', b'OK')] * 2)
        with without_descriptors(proxy, 10):
            crowd = []
            for _ in range(200):
                with contextlib.suppress(OSError):
                    crowd.append(socket.create_connection(proxy.address, timeout=1))
            check_equal([client.call('GET', key) for key in keys], [('$', b'v')] * 2)
            cluster.backends[1].kill9()  # its connections can only be made again with descriptors
            cluster.backends[1].start()
            check_equal(client.call('GET', keys[0]), ('$', b'v'))
            for sock in crowd:
                sock.close()
            wait_for(lambda: client.call('GET', keys[1]) == ('$', b'v'), 'the shard to be reached again')
            wait_for(lambda: try_call(proxy.address, 'PING') == ('+', b'PONG'), 'room for a client')
        check(proxy.alive(), 'the proxy ended')


@suite.case('a backend without free descriptors refuses what it cannot keep, and keeps what it has acknowledged')
def _(run):
    options = {'store': {'write-buffer': '64kb', 'memtable': '256kb', 'wal-limit': '1mb'}}
    with Cluster(backends=1, partitions=1, proxies=0, backend_options=options) as cluster:
        backend, kept = cluster.backends[0], {}
        with cluster.partition(0) as client:
            def write(number):
                key, text = b'k%d' % number, b'%d' % number * 20000
                reply = client.call('SET', key, text)
                if reply == ('+', b'OK'):
                    kept[key] = text
                return reply
            check_equal(write(0), ('+', b'OK'))
            with without_descriptors(backend, 0):
                replies = collections.Counter(write(number)[0] for number in range(1, 120))
                saved = [client.call('SAVE')[0] for _ in range(2)]
                replies.update(write(number)[0] for number in range(120, 140))
                run.note('without descriptors: writes %r, saves %r' % (dict(replies), saved))
                check_equal(client.call('GET', b'k0'), ('$', kept[b'k0']))
            wait_for(lambda: write(200) == ('+', b'OK'), 'writes to be taken again')
            check(backend.alive(), 'the backend ended')
        backend.kill9()
        backend.start()
        with cluster.partition(0) as client:
            for key, text in kept.items():
                check_equal(client.call('GET', key), ('$', text))


@suite.case('files of both programs are readable only by their user, whatever the umask')
def _(run):
    before = os.umask(0o022)
    try:
        with Cluster(backends=1, partitions=2, backend_options={'store': {'memtable': '256kb'}}) as cluster:
            backend, proxy = cluster.backends[0], cluster.proxies[0]
            for process, section in ((backend, 'backend'), (proxy, 'proxy')):
                restart(process, section, **{'log-file': os.path.join(cluster.folder, process.name + '.events')})
            with cluster.connect() as connection:
                connection.pipeline([('SET', 'k%d' % i, os.urandom(4000)) for i in range(500)])
            for address in backend.addresses:
                with Connection(address) as connection:
                    check_equal(connection.call('SAVE'), ('+', b'OK'))
            backend.stop()
            backend.start()
            backend.kill9()  # else files may be removed while they are looked at
            paths = [os.path.join(folder, name) for folder, _, names in os.walk(backend.data) for name in names]
            check(any(path.endswith('.sst') for path in paths), 'no data files')
            paths += [folder for folder, _, _ in os.walk(backend.data)]
            paths += [os.path.join(cluster.folder, process.name + '.events') for process in (backend, proxy)]
            check_equal([path for path in paths if os.stat(path).st_mode & 0o077], [], 'readable by others')
    finally:
        os.umask(before)


@suite.case('CONFIG REWRITE leaves included files unchanged, and keeps the permissions of the file')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        backend.stop()
        included = os.path.join(cluster.folder, 'secret.ini')
        with open(included, 'w') as file:
            file.write('[backend]\nrequirepass = of-the-included-file\nadmin-token = another-secret\n')
        os.chmod(included, 0o600)
        backend.options.setdefault('backend', {})['include'] = included
        backend.write_config()
        os.chmod(backend.config_path, 0o644)
        backend.start()
        with cluster.partition(0) as connection:
            connection.call('AUTH', 'of-the-included-file')
            check_equal(connection.call('CONFIG', 'SET', 'maxclients', '777'), ('+', b'OK'))
            check_equal(connection.call('CONFIG', 'REWRITE'), ('+', b'OK'))
            with open(backend.config_path) as file:
                text = file.read()
            check('of-the-included-file' not in text and 'another-secret' not in text, 'a secret was copied')
            check('maxclients = 777' in text, 'maxclients was not kept')
            check_equal(os.stat(backend.config_path).st_mode & 0o777, 0o644, 'mode')
            check_equal(connection.call('CONFIG', 'SET', 'requirepass', 'changed'), ('+', b'OK'))
            reply = connection.call('CONFIG', 'REWRITE')
            check_equal(reply, ('-', b'ERR Rewriting config file: requirepass is set in the included file, which is not rewritten: change it there'))
        backend.stop()
        backend.start()
        with cluster.partition(0) as connection:
            check_equal(connection.call('AUTH', 'of-the-included-file'), ('+', b'OK'))
            check_equal(connection.get('CONFIG', 'GET', 'maxclients'), [b'maxclients', b'777'])


if __name__ == '__main__':
    suite.main()
