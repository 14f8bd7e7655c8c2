"""cluster.py - real processes for tests: backends, proxies, oracle, in one temporary folder.

    with Cluster(backends=2, partitions=2, proxies=2) as cluster:
        cluster.connect().call('SET', 'k', 'v')      # through proxy 0
        cluster.backends[1].kill9()
        cluster.backends[1].start()

             proxy 0 … proxy N-1          listen + admin ports
                │  (relay per partition, if asked for)
      backend 0 [a b]   backend 1 [c d]   partition i of a backend listens on its port + i

Leaving the block sends SIGTERM to every process and fails the test when one did not exit with 0, or when a sanitizer
wrote into a log. On any failure the folder with configs and logs is kept and its path printed.

Ports are below the kernel's ephemeral range: a proxy that reconnects to a dead port inside that range can get
connected to itself, and then the backend cannot come back.
"""

import contextlib
import fcntl
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from support import harness
from support.certs import Kit
from support.harness import PATIENCE, Failure, check, patience, wait_for
from support.resp import Closed, Connection, value

SLOTS = 16384
SANITIZER_WORDS = (b'ERROR: AddressSanitizer', b'ERROR: LeakSanitizer', b'runtime error:', b'ThreadSanitizer',
                   b'CHECK failed', b'Assertion ')


# ---- ports -------------------------------------------------------------------------------------------------------

def ephemeral_floor():
    with open('/proc/sys/net/ipv4/ip_local_port_range') as file:
        return int(file.read().split()[0])


def port_is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(('127.0.0.1', port))
        except OSError:
            return False
    return True


_port_rng = random.Random(os.getpid() ^ time.time_ns())
_ports_given = set()
# While a test uses port N it holds a lock on byte N of this file, so that no other test takes the port of a program
# that is being restarted.
_port_locks = os.open(os.path.join(tempfile.gettempdir(), 'scree-test-ports-%d' % os.getuid()),
                      os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def lock_ports(base, count):
    try:
        fcntl.lockf(_port_locks, fcntl.LOCK_EX | fcntl.LOCK_NB, count, base)
    except OSError:
        return False
    return True


def free_ports(count=1):
    """The first of `count` successive free ports below the ephemeral range that no other test uses."""
    end = time.monotonic() + patience()  # many tests at the same time leave few long ranges free
    while time.monotonic() < end:
        base = _port_rng.randrange(10000, min(ephemeral_floor(), 32768) - count)
        ports = range(base, base + count)
        if not _ports_given.intersection(ports) and lock_ports(base, count) and all(map(port_is_free, ports)):
            _ports_given.update(ports)
            return base
    raise Failure('no %d free ports in a row' % count)


def listens(pid, port):
    """Does process `pid` itself own the listening socket of `port`, and not another process?"""
    inodes = set()
    try:
        for table in ('/proc/%d/net/tcp' % pid, '/proc/%d/net/tcp6' % pid):  # of its network namespace
            with open(table) as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == '0A' and int(words[1].rsplit(':', 1)[1], 16) == port:
                        inodes.add('socket:[%s]' % words[9])
        links = os.listdir('/proc/%d/fd' % pid)
    except OSError:
        return False
    for link in links:
        try:
            if os.readlink('/proc/%d/fd/%s' % (pid, link)) in inodes:
                return True
        except OSError:
            continue
    return False


# ---- slots -------------------------------------------------------------------------------------------------------

def _crc16_table():
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021) if crc & 0x8000 else crc << 1
        table.append(crc & 0xffff)
    return table


_CRC16 = _crc16_table()


def slot_of(key):
    key = key if isinstance(key, bytes) else key.encode()
    start = key.find(b'{')
    if start >= 0:
        end = key.find(b'}', start + 1)
        if end > start + 1:
            key = key[start + 1:end]
    crc = 0
    for byte in key:
        crc = ((crc << 8) & 0xffff) ^ _CRC16[(crc >> 8) ^ byte]
    return crc % SLOTS


def even_slots(count):
    """The slots in `count` equal ranges: ['0-5460', '5461-10922', …]."""
    edges = [SLOTS * i // count for i in range(count + 1)]
    return ['%d-%d' % (edges[i], edges[i + 1] - 1) for i in range(count)]


def in_ranges(slot, text):
    for part in text.split():
        low, _, high = part.partition('-')
        if int(low) <= slot <= int(high or low):
            return True
    return False


# ---- processes ---------------------------------------------------------------------------------------------------

def binary(name):
    folder = os.environ.get('SCREE_BIN')
    if not folder:
        print('set SCREE_BIN to the folder that holds scree-proxy and scree-backend', file=sys.stderr)
        sys.exit(2)
    for path in (os.path.join(folder, name), os.path.join(folder, name.split('-')[1], name)):
        if os.access(path, os.X_OK):
            return path
    print('%s is not in %s' % (name, folder), file=sys.stderr)
    sys.exit(2)


def is_sanitized(path):
    with open(path, 'rb') as file:
        data = file.read()
    return b'__asan_init' in data or b'__tsan_init' in data


def write_ini(path, sections):
    """`sections`: [(name, {option: value})]. The file is replaced atomically."""
    lines = []
    for name, options in sections:
        lines.append('[%s]' % name)
        lines += ['%s = %s' % (key, val) for key, val in options.items() if val is not None]
        lines.append('')
    with open(path + '.new', 'w') as file:
        file.write('\n'.join(lines))
    os.rename(path + '.new', path)


class Process:
    """A program under test: start, stop, kill -9, freeze; its log; its exit checked."""

    def __init__(self, name, argv, folder, ports, limits=None, prefix=()):
        self.name, self.argv, self.folder, self.ports = name, argv, folder, ports
        self.limits, self.prefix = limits or {}, list(prefix)
        self.log_path = os.path.join(folder, name + '.log')
        self.child = None
        self.extra_env = {}

    def spawn(self):
        env = dict(os.environ, **self.extra_env)
        env.setdefault('ASAN_OPTIONS', 'detect_leaks=1:allocator_may_return_null=1')
        env.setdefault('UBSAN_OPTIONS', 'print_stacktrace=1')
        log = open(self.log_path, 'ab')
        limits = self.limits

        def apply_limits():
            for which, amount in limits.items():
                resource.setrlimit(which, (amount, amount))
        self.child = subprocess.Popen(self.prefix + self.argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                      env=env, preexec_fn=apply_limits if limits else None)
        log.close()

    def start(self, limit=PATIENCE):
        self.spawn()
        self.wait_ready(limit)

    def wait_ready(self, limit=PATIENCE):
        def ready():
            if self.child.poll() is not None:
                raise Failure('%s ended with %s while starting; its log ends: %s'
                              % (self.name, self.child.returncode, self.log_tail()))
            return all(listens(self.pid, port) for port in self.ports)
        wait_for(ready, '%s to listen on %s' % (self.name, self.ports), limit)

    @property
    def pid(self):
        return self.child.pid

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def signal(self, number):
        os.kill(self.pid, number)

    def kill9(self):
        """kill -9: a crash, without a check of the exit code."""
        self.child.kill()
        self.child.wait()
        self.child = None

    def pause(self):
        """Stops the process by SIGSTOP; returns when every thread has stopped, some time after the signal."""
        self.signal(signal.SIGSTOP)

        def is_stopped():
            return all(stat.rsplit(')', 1)[1].split()[0] in 'Tt' for stat in self.of_threads('stat'))
        wait_for(is_stopped, '%s to stop' % self.name)

    def resume(self):
        self.signal(signal.SIGCONT)

    def of_threads(self, name):
        """The text of this file of /proc for each thread, without threads that have just ended."""
        texts, folder = [], '/proc/%d/task' % self.pid
        for thread in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open('%s/%s/%s' % (folder, thread, name)) as file:
                texts.append(file.read())
        return texts

    def wait_exit(self, limit=PATIENCE):
        try:
            return self.child.wait(limit * harness.SLOW)
        except subprocess.TimeoutExpired:
            self.child.send_signal(signal.SIGABRT)
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
            self.child = None
            raise Failure('%s did not exit in %.0f s after SIGTERM' % (self.name, limit * harness.SLOW)) from None

    def stop(self, limit=PATIENCE):
        """SIGTERM; must exit with 0 and leave no sanitizer report."""
        if self.child is None:
            return
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.send_signal(signal.SIGTERM)
        code = self.wait_exit(limit)
        self.child = None
        check(code == 0, '%s exited with %s; its log ends: %s' % (self.name, code, self.log_tail()))

    def log(self):
        try:
            with open(self.log_path, 'rb') as file:
                return file.read()
        except OSError:
            return b''

    def log_tail(self, lines=6):
        return '\n'.join(self.log().decode('utf-8', 'replace').splitlines()[-lines:])

    def check_log(self):
        for line in self.log().splitlines():
            if any(word in line for word in SANITIZER_WORDS):
                raise Failure('%s: %s (%s)' % (self.name, line.decode('utf-8', 'replace'), self.log_path))

    def rss_bytes(self):
        with open('/proc/%d/statm' % self.pid) as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def forget_peak(self):
        """Resets peak_rss_bytes."""
        with open('/proc/%d/clear_refs' % self.pid, 'w') as file:
            file.write('5')

    def peak_rss_bytes(self):
        with open('/proc/%d/status' % self.pid) as file:
            return int(next(line for line in file if line.startswith('VmHWM:')).split()[1]) * 1024

    def cpu_seconds(self):
        """CPU seconds of all threads, in nanosecond resolution (schedstat), so that short runs can be measured."""
        return sum(int(text.split()[0]) for text in self.of_threads('schedstat')) / 1e9


def answered(reply):
    """Is this the reply to PING of a working server?"""
    return reply == ('+', b'PONG') or (reply[1] or b'').startswith(b'NOAUTH')


class Oracle(Process):
    """redis-server with its defaults and without persistence; `with Oracle() as oracle` gives it a folder of its own."""

    def __init__(self, folder=None, name='oracle', options=()):
        self.own_folder = None if folder else tempfile.TemporaryDirectory(prefix='scree-oracle-')
        folder = folder or self.own_folder.name
        self.port = free_ports()
        argv = ['redis-server', '--port', str(self.port), '--save', '', '--appendonly', 'no', '--dir', folder,
                '--bind', '127.0.0.1', '--enable-debug-command', 'local'] + list(options)
        super().__init__(name, argv, folder, [self.port])
        self.address = ('127.0.0.1', self.port)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()
        if self.own_folder:
            self.own_folder.cleanup()

    def stop(self):
        """kill -9: how redis-server ends is not tested here, and once it did not end within a minute of SIGTERM."""
        if self.child is not None:
            self.kill9()

    def wait_ready(self, limit=PATIENCE):
        super().wait_ready(limit)
        with Connection(self.address) as connection:
            wait_for(lambda: answered(connection.call('PING')), 'the oracle to answer', limit)


class Backend(Process):
    def __init__(self, cluster, index, options):
        self.cluster, self.index = cluster, index
        self.partitions = cluster.partitions
        self.data = os.path.join(cluster.folder, 'data-%d' % index)
        self.config_path = os.path.join(cluster.folder, 'backend-%d.ini' % index)
        self.options = options
        super().__init__('backend-%d' % index, [binary('scree-backend'), '--config', self.config_path],
                         cluster.folder, [])
        self.host, self.prefix = cluster.place()
        self.choose_ports()

    def choose_ports(self):
        self.port = free_ports(self.partitions)
        self.admin = free_ports()
        self.ports = [self.port + i for i in range(self.partitions)]
        self.addresses = [self.cluster.address_of(port, self.host) for port in self.ports]

    def write_config(self):
        sections = {'backend': {'bind': self.host, 'port': self.port, 'partitions': self.partitions,
                                'data': self.data, 'durability': 'always', 'secret': self.cluster.secret,
                                'admin': '%s:%d' % (self.host, self.admin)}}
        if self.cluster.tls:
            sections['backend'].update(self.cluster.tls.listening(), port=-1)
            sections['backend']['tls-port'] = self.port
        # not auto: many backends run at the same time, and what a test sees must not depend on the machine
        sections['store'] = {'memory': '640mb'}
        if self.cluster.is_linked and self.cluster.relay_maker:
            self.cluster.shard_addresses()  # makes the relay
            sections['backend']['advertise-port'] = self.cluster.relays[self.addresses[0]].port
        for name, extra in self.options.items():
            sections.setdefault(name, {}).update(extra)
        write_ini(self.config_path, list(sections.items()))

    def wait_ready(self, limit=PATIENCE):
        super().wait_ready(limit)

        def answers(address):
            try:
                with Connection(address, 5) as connection:
                    return answered(connection.call('PING'))
            except (OSError, Closed):  # a copy closes all connections when it installs files
                return False
        for address in self.addresses:
            wait_for(lambda: answers(address), '%s to answer on %s' % (self.name, address), limit)

    def http(self, path):
        return http_get(self.admin, path, self.host)


class Proxy(Process):
    def __init__(self, cluster, index, options, namespaces, listeners):
        self.cluster, self.index = cluster, index
        self.options, self.namespaces, self.listeners = options, namespaces, listeners
        self.config_path = os.path.join(cluster.folder, 'proxy-%d.ini' % index)
        super().__init__('proxy-%d' % index, [binary('scree-proxy'), '--config', self.config_path],
                         cluster.folder, [])
        self.unix = os.path.join(cluster.folder, 'proxy-%d.sock' % index)
        self.host, self.prefix = cluster.place()
        self.choose_ports()

    def choose_ports(self):
        self.port, self.admin = free_ports(), free_ports()
        self.listener_ports = {name: free_ports() for name in self.listeners}
        self.ports = [self.port, self.admin] + list(self.listener_ports.values())
        self.address = self.cluster.address_of(self.port, self.host)

    def write_config(self):
        sections = {
            'proxy': {'listen': '%s:%d' % (self.host, self.port) + (' unix:' + self.unix if self.cluster.has_unix else ''),
                      'admin': '%s:%d' % (self.host, self.admin), 'workers': 2, 'shards': self.cluster.shards_path},
            'upstream': {'secret': self.cluster.secret, 'timeout': '%dms' % (20000 * harness.SLOW),  # some disks stall for seconds
                         'connect-timeout': '%dms' % (1000 * harness.SLOW)}}
        if self.cluster.tls:
            sections['proxy'].update(self.cluster.tls.listening(), listen='unix:' + self.unix if self.cluster.has_unix else '')
            sections['proxy']['tls-listen'] = '127.0.0.1:%d' % self.port
            sections['upstream'].update(self.cluster.tls.connecting())
        for name, extra in self.options.items():
            sections.setdefault(name, {}).update(extra)
        for name, options in self.namespaces.items():
            sections['namespace ' + name] = options
        for name, namespace in self.listeners.items():
            sections['listener ' + name] = {'address': '127.0.0.1:%d' % self.listener_ports[name],
                                            'namespace': namespace}
        write_ini(self.config_path, list(sections.items()))

    def http(self, path):
        return http_get(self.admin, path, self.host)

    def wait_ready(self, limit=PATIENCE):
        super().wait_ready(limit)
        wait_for(lambda: self.http('/readyz')[0] == 200, '%s /readyz to be 200' % self.name, limit)

    def reload(self):
        self.signal(signal.SIGHUP)


def http_get(port, path, host='127.0.0.1'):
    """(status, body); (0, reason) without a response."""
    try:
        with urllib.request.urlopen('http://%s:%d%s' % (host, port, path), timeout=20 * harness.SLOW) as answer:
            return answer.status, answer.read().decode('utf-8', 'replace')
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode('utf-8', 'replace')
    except OSError as error:
        return 0, str(error)


def metric(text, name):
    """Sum of all samples of metric `name` in a /metrics text, or None when there is no sample."""
    found = re.findall(r'^%s(?:\{[^}]*\})? ([-+0-9.eE]+)$' % re.escape(name), text, re.M)
    return sum(float(number) for number in found) if found else None


def with_option(options, section, name, value):
    """A copy of {section: {option: value}} with one more option."""
    options = dict(options or {})
    options[section] = {name: value, **options.get(section, {})}
    return options


# ---- the cluster -------------------------------------------------------------------------------------------------

class Cluster:
    def __init__(self, backends=2, partitions=2, proxies=1, backend_options=None, proxy_options=None,
                 namespaces=None, listeners=None, relay=None, proxy_relay=None, disk=None, unix=False, tls=False,
                 linked=False, slots=None):
        """Options: {section: {option: value}}; `namespaces`: {name: {option: value}}; `listeners`: {name: namespace};
        `relay(address) -> object with .address and .stop()` makes a relay in front of every partition (with `linked`: of
        which a backend has one), `proxy_relay` one in front of every proxy, for connect() and redis(); `disk`: a
        FaultyDisk for the first backend; `unix`: the proxies listen on a Unix socket too; `tls`: proxies and
        backends accept only TLS with client certificates (certs.Kit); `linked`: backends have connections to each
        other, the proxies' rule is cross-slot = any, and nothing is refused because a slow machine takes long; `slots`:
        those of each shard, in place of equal ranges."""
        self.partitions = partitions
        self.slots = slots
        self.folder = tempfile.mkdtemp(prefix='scree-test-')
        self.has_unix = unix
        self.tls = Kit(self.folder) if tls else None
        self.secret = 'secret-%08x' % _port_rng.randrange(1 << 32)
        self.shards_path = os.path.join(self.folder, 'shards.ini')
        self.epoch = 0
        self.relay_maker, self.proxy_relay_maker, self.relays = relay, proxy_relay, {}
        self.failed = False
        self.is_linked = linked
        if linked:
            backend_options = with_option(backend_options, 'backend', 'shards', self.shards_path)
            for name in ('lock-timeout', 'transaction-timeout'):
                backend_options = with_option(backend_options, 'backend', name, '1m')
            proxy_options = with_option(proxy_options, 'proxy', 'cross-slot', 'any')
            proxy_options = with_option(proxy_options, 'upstream', 'timeout', '2m')
        self.backends = [Backend(self, i, backend_options or {}) for i in range(backends)]
        if disk:
            disk.use(self.backends[0])
        self.proxies = [Proxy(self, i, proxy_options or {}, namespaces or {}, listeners or {})
                        for i in range(proxies)]
        if self.backends and (is_sanitized(self.backends[0].argv[0])):
            harness.programs_are_sanitized()

    # -- start and stop

    def __enter__(self):
        try:
            self.slots = self.slots or even_slots(len(self.shard_addresses()))
            if self.is_linked:  # a backend reads the map when it starts
                self.write_shards()
            for backend in self.backends:
                self.start_retrying(backend)
            self.write_shards()
            if self.is_linked:
                self.wait_linked()
            for proxy in self.proxies:
                self.start_retrying(proxy)
                if self.proxy_relay_maker:
                    self.relays[proxy.address] = self.proxy_relay_maker(proxy.address)
                    proxy.address = self.relays[proxy.address].address
        except BaseException:
            self.abandon()
            raise
        return self

    def start_retrying(self, process):
        """Starts the process; chooses other ports if another program took one before the process could bind it."""
        for attempt in range(5):
            process.write_config()
            try:
                process.start()
                return
            except Failure:
                taken = b'in use' in process.log().lower() or b'eaddrinuse' in process.log().lower()
                if not taken or attempt == 4:
                    raise
                process.choose_ports()

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.abandon()
            return False
        try:
            for process in self.proxies + self.backends:
                process.stop()
            for process in self.proxies + self.backends:
                process.check_log()
        except BaseException:
            self.abandon()
            raise
        self.stop_relays()
        shutil.rmtree(self.folder, ignore_errors=True)
        return False

    def abandon(self):
        """After a failure: kills the processes and keeps the folder."""
        self.failed = True
        for process in self.proxies + self.backends:
            if process.alive():
                process.kill9()
        self.stop_relays()
        for backend in self.backends:
            shutil.rmtree(backend.data, ignore_errors=True)
        print('     configs and logs are kept in %s' % self.folder, flush=True)
        for process in self.proxies + self.backends:
            for line in process.log_tail(3).splitlines():
                print('     %s: %s' % (process.name, line[:250]), flush=True)
            try:
                process.check_log()
            except Failure as failure:
                print('     %s' % failure, flush=True)

    def wait_linked(self):
        def has_links(partition):
            return b'peers_links_up:%d\r' % (len(self.slots) - 1) in partition.get('INFO', 'peers')

        def knows_owners(partition):
            runs = [line.split()[0].split(b'=')[1].split(b'-') for line in partition.get('SCREE', 'OWNERS')]
            return sum(int(last) - int(first) + 1 for first, last in runs) == SLOTS
        for shard in range(len(self.slots)):
            with self.partition(shard) as partition:
                wait_for(lambda: has_links(partition), 'shard %d to have connections to the others' % shard)
                wait_for(lambda: knows_owners(partition), 'shard %d to know the owners of all slots' % shard)

    def stop_relays(self):
        for relay in self.relays.values():
            relay.stop()
        self.relays = {}

    def place(self):
        """(host, words before the command) of the next program."""
        return '127.0.0.1', []

    def address_of(self, port, host='127.0.0.1'):
        return (host, port, self.tls.context) if self.tls else (host, port)

    # -- the map

    def shard_addresses(self):
        """[(name, (host, port) for the proxy, backend)]"""
        shards = []
        for backend in self.backends:
            for i, address in enumerate(backend.addresses):
                if self.relay_maker:
                    if address not in self.relays:
                        self.relays[address] = self.relay_maker(address[:2])
                    address = self.relays[address].address
                address = address[:2]
                shards.append(('b%dp%d' % (backend.index, i), address, backend))
        return shards

    def shards_text(self, slots=None):
        self.epoch += 1
        lines = ['[map]', 'epoch = %d' % self.epoch, '']
        for (name, (host, port), _), ranges in zip(self.shard_addresses(), slots or self.slots):
            lines += ['[shard %s]' % name, 'slots = %s' % ranges, 'address = %s:%d' % (host, port), '']
        return '\n'.join(lines)

    def write_shards(self, slots=None):
        if slots:
            self.slots = slots
        with open(self.shards_path + '.new', 'w') as file:
            file.write(self.shards_text())
        os.rename(self.shards_path + '.new', self.shards_path)

    def shard_of(self, key):
        """Index of the shard that owns `key` in the map that was written last."""
        return self.shard_of_slot(slot_of(key))

    def shard_of_slot(self, slot):
        for index, ranges in enumerate(self.slots):
            if in_ranges(slot, ranges):
                return index
        raise Failure('slot %d is in no shard' % slot)

    def backend_of(self, key):
        return self.backends[self.shard_of(key) // self.partitions]

    def key_on(self, shard, prefix='key'):
        """A key whose slot belongs to shard number `shard`."""
        number = 0
        while self.shard_of('%s:%d' % (prefix, number)) != shard:
            number += 1
        return '%s:%d' % (prefix, number)

    # -- clients

    def connect(self, proxy=0, timeout=PATIENCE, proto=2):
        return Connection(self.proxies[proxy].address, timeout * harness.SLOW, proto)

    def redis(self, proxy=0, **options):
        import redis
        options.setdefault('socket_timeout', PATIENCE * harness.SLOW)
        if self.tls:
            options.update(ssl=True, ssl_ca_certs=self.tls.ca.cert, ssl_certfile=self.tls.client.cert,
                           ssl_keyfile=self.tls.client.key)
        return redis.Redis(*self.proxies[proxy].address[:2], **options)

    def partition(self, shard, timeout=PATIENCE):
        """A direct connection to the partition behind shard number `shard`."""
        backend = self.backends[shard // self.partitions]
        return Connection(backend.addresses[shard % self.partitions], timeout * harness.SLOW)


def evict_all(client):
    """Evicts all rows of a partition to files, and waits until no write is in progress, so that no row is in memory."""
    wait_for(lambda: client.get('DEBUG', 'EVICT') == b'OK', 'rows to go to files')


def scan_all(connection, *options):
    """The set of keys of a complete SCAN walk."""
    cursor, keys = b'0', set()
    while True:
        cursor, batch = value(connection.call('SCAN', cursor, *options))
        keys.update(batch)
        if cursor == b'0':
            return keys


class Shared:
    """redis-server and a cluster that all cases of a script share; started by the first case that needs them."""

    def __init__(self, oracle_options=()):
        self.oracle_options, self.stack = oracle_options, contextlib.ExitStack()
        self.oracle = self.cluster = None

    def start(self, **shape):
        """`shape`: the arguments of Cluster."""
        if self.cluster:
            return
        check(not self.oracle, 'the servers did not start, see above')
        self.oracle = self.stack.enter_context(Oracle(options=self.oracle_options))
        self.cluster = self.stack.enter_context(Cluster(**shape))

    def targets(self):
        """{'direct': the address of a partition, 'proxy': that of a proxy, if there is one}"""
        addresses = {'direct': self.cluster.backends[0].addresses[0]}
        if self.cluster.proxies:
            addresses['proxy'] = self.cluster.proxies[0].address
        return addresses

    def stop(self):
        self.oracle = self.cluster = None
        self.stack.close()
