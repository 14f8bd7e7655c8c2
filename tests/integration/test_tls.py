#!/usr/bin/python3
"""TLS on both hops: clients, accepted and refused certificates, reload under load, resumption, big values, untrusted
peers.
"""

import os
import random
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from support.certs import Authority, openssl
from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, patience, wait_for
from support.resp import Closed, Connection, value

suite = Suite(__doc__)
MEGABYTE = 1 << 20


class Folder:
    """A temporary folder with a certificate authority."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-tls-')
        self.ca = Authority(self.path, 'second')
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def cluster_of(**options):
    options.setdefault('backends', 1)
    return Cluster(tls=True, **options)


def address_with(address, context):
    return (address[0], address[1], context)


def serial_of(address, context):
    """The serial number of the server's certificate."""
    with Connection(address_with(address, context)) as connection:
        return int(connection.sock.getpeercert()['serialNumber'], 16)


def metric_of(process, name):
    return metric(process.http('/metrics')[1], name)


def refused(address, context):
    """The error of a handshake, or of the first command after it; '' without one."""
    try:
        with Connection(address_with(address, context)) as connection:
            connection.call('PING')
            return ''
    except Closed:
        return 'closed'
    except OSError as error:
        return str(error)


# ---- clients -----------------------------------------------------------------------------------------------------

@suite.case('redis-py and redis-cli work over TLS on both hops')
def _(run):
    with cluster_of() as cluster:
        client = cluster.redis()
        with client.pipeline(transaction=False) as pipe:
            for i in range(500):
                pipe.set('key:%d' % i, i)
            pipe.execute()
        check_equal(client.mget(['key:%d' % i for i in range(500)]), [b'%d' % i for i in range(500)])
        check_equal(client.dbsize(), 500)
        words = ['redis-cli', '--tls', '--cacert', cluster.tls.ca.cert, '--cert', cluster.tls.client.cert, '--key',
                 cluster.tls.client.key, '-p', str(cluster.proxies[0].port), 'GET', 'key:7']
        check_equal(subprocess.run(words, capture_output=True, timeout=patience()).stdout, b'7\n')
        check('tls' not in cluster.connect().get('CLIENT', 'LIST').decode(), 'CLIENT LIST speaks of TLS')
        check(metric_of(cluster.proxies[0], 'scree_process_tls_connections') >= 2, 'no TLS connections in the metrics')
        check(metric_of(cluster.backends[0], 'scree_process_tls_connections') >= 1, 'the backend is spoken to plainly')


@suite.case('values of 100 MB, and a pipeline of many megabytes, are sent in both directions')
def _(run):
    with cluster_of(partitions=1, proxy_options={'upstream': {'timeout': '60s'}}) as cluster:
        connection = cluster.connect()
        big = random.Random(run.seed).randbytes(MEGABYTE) * 100
        check_equal(connection.call('SET', 'big', big), ('+', b'OK'))
        check(connection.get('GET', 'big') == big, 'the value came back changed')
        check(cluster.proxies[0].rss_bytes() < 1200 * MEGABYTE, 'the proxy keeps %d MB' % (cluster.proxies[0].rss_bytes() >> 20))
        values = [random.Random(i).randbytes(50000) for i in range(100)]
        sender = threading.Thread(target=connection.send_many,
                                  args=([('SET', 'k%d' % i, values[i]) for i in range(100)]
                                        + [('GET', 'k%d' % i) for i in range(100)],))
        sender.start()
        for _ in range(100):
            check_equal(connection.read(), ('+', b'OK'))
        for i in range(100):
            check(value(connection.read()) == values[i], 'GET k%d' % i)
        sender.join()


@suite.case('a client that does not read is held back over TLS too, and gets everything in the end')
def _(run):
    with cluster_of(partitions=1, proxy_options={'upstream': {'timeout': '60s'}}) as cluster:
        connection = cluster.connect()
        connection.call('SET', 'big', b'x' * MEGABYTE)
        cluster.proxies[0].forget_peak()
        before = cluster.proxies[0].rss_bytes()
        connection.send_many([('GET', 'big')] * 200)
        with cluster.connect() as other:
            for _ in range(20):
                check_equal(other.call('PING'), ('+', b'PONG'))
        peak = cluster.proxies[0].peak_rss_bytes() - before
        for _ in range(200):
            check_equal(len(value(connection.read())), MEGABYTE)
        run.note('200 replies of 1 MB unread: %d MB more' % (peak >> 20))


@suite.case('a half-closed client gets its outstanding replies, and close_notify')
def _(run):
    with cluster_of() as cluster:
        words = ['openssl', 's_client', '-quiet', '-connect', '127.0.0.1:%d' % cluster.proxies[0].port, '-CAfile',
                 cluster.tls.ca.cert, '-cert', cluster.tls.client.cert, '-key', cluster.tls.client.key]
        done = subprocess.run(words, input=b'SET half closed\r\nGET half\r\nQUIT\r\n', capture_output=True, timeout=patience())
        check_equal(done.stdout, b'+OK\r\n$6\r\nclosed\r\n+OK\r\n')
        connection = cluster.connect()
        connection.send('QUIT')
        check_equal(connection.read(), ('+', b'OK'))
        check_equal(connection.sock.recv(10), b'')  # without close_notify this would be an SSLEOFError


# ---- certificates ------------------------------------------------------------------------------------------------

@suite.case('client certificates: required and checked; optional; not requested')
def _(run):
    with Folder() as other, cluster_of() as cluster:
        ours, stranger = cluster.tls.ca, other.ca.issue('untrusted peer')
        address = cluster.proxies[0].address
        check_equal(refused(address, ours.context(cluster.tls.client)), '')
        check(refused(address, ours.context()), 'no certificate was needed')
        wrong = ours.context(stranger)
        check(refused(address, wrong), 'an untrusted peer\'s certificate is good')
        for words in (b'tls_handshake_failed', b'peer did not return a certificate'):
            wait_for(lambda: words in cluster.proxies[0].log(), 'the log to have %r' % words)
        partition = cluster.backends[0].addresses[0]
        check_equal(refused(partition, ours.context(cluster.tls.client)), '')
        check(refused(partition, ours.context()), 'the backend needs no certificate')
    with Folder() as other, cluster_of(proxy_options={'proxy': {'tls-auth-clients': 'optional'}}) as cluster:
        ours, address = cluster.tls.ca, cluster.proxies[0].address
        check_equal(refused(address, ours.context()), '')
        check_equal(refused(address, ours.context(cluster.tls.client)), '')
        check(refused(address, ours.context(other.ca.issue('untrusted peer'))), 'an untrusted peer\'s certificate is good')
    with cluster_of(proxy_options={'proxy': {'tls-auth-clients': 'no', 'tls-protocols': 'TLSv1.2'}}) as cluster:
        ours, address = cluster.tls.ca, cluster.proxies[0].address
        check_equal(refused(address, ours.context()), '')
        with Connection(address_with(address, ours.context())) as connection:
            check_equal(connection.sock.version(), 'TLSv1.2')
        only_13 = ours.context()
        only_13.minimum_version = ssl.TLSVersion.TLSv1_3
        check('alert' in refused(address, only_13).lower(), 'TLS 1.3 is spoken')


@suite.case('a backend with a wrong authority or name counts as down, with that reason; the right name makes it work')
def _(run):
    def wait_reason(cluster, *words):
        """The first reason may be another one: that the shard is not reached in time."""
        with cluster.connect() as connection:
            def is_said():
                kind, text = connection.call('GET', 'k')
                check(kind == '-', 'the shard has replied: %r' % text)
                return all(word in text for word in words)
            wait_for(is_said, 'the shard to be down: %r' % (words,))

    def start(cluster):
        proxy = cluster.proxies[0]
        proxy.write_config()
        proxy.spawn()
        wait_for(lambda: proxy.http('/healthz')[0] == 200, 'the proxy to start')
        check_equal(proxy.http('/readyz')[0], 503)

    with Folder() as other, cluster_of() as cluster:
        proxy = cluster.proxies[0]
        proxy.stop()
        proxy.options = {'upstream': {'tls-ca-cert-file': other.ca.cert}}
        start(cluster)
        wait_reason(cluster, b'certificate verify failed', b'not reachable')
        wait_for(lambda: b'upstream_down' in proxy.log() and b'certificate verify failed' in proxy.log(), 'the log to say so')
        proxy.stop()
        proxy.options = {'upstream': {'tls-server-name': 'another.example'}}
        start(cluster)
        wait_reason(cluster, b'hostname mismatch')
        proxy.stop()
        proxy.options = {'upstream': {'tls-server-name': 'another.example', 'tls-verify-name': 'no'}}
        proxy.write_config()
        proxy.start()
        with cluster.connect() as connection:
            check_equal(connection.call('SET', 'k', 'v'), ('+', b'OK'))
        proxy.stop()
        proxy.options = {'upstream': {'tls': 'no'}}
        start(cluster)
        wait_reason(cluster, b'shard')
        proxy.stop()
        proxy.options = {'upstream': {'tls-cert-file': '', 'tls-key-file': ''}}
        start(cluster)
        wait_reason(cluster, b'certificate required')


@suite.case("wrong files are refused at the start with the option's name")
def _(run):
    with cluster_of() as cluster:
        proxy = cluster.proxies[0]
        proxy.stop()
        for options, want in (({'tls-cert-file': '/nowhere'}, b'tls-cert-file: /nowhere: No such file'),
                              ({'tls-key-file': cluster.tls.client.key}, b'tls-key-file: '),
                              ({'tls-ca-cert-file': ''}, b'tls-ca-cert-file: expected a file'),
                              ({'tls-protocols': 'SSLv3'}, b'tls-protocols: expected TLSv1.2'),
                              ({'tls-ciphers': 'NONSENSE'}, b'tls-ciphers: '),
                              ({'tls-ca-cert-file': cluster.tls.client.key}, b'tls-ca-cert-file: ')):
            proxy.options = {'proxy': options}
            proxy.write_config()
            done = subprocess.run(proxy.argv, capture_output=True, timeout=patience())
            check(done.returncode == 1 and want in done.stderr, '%r: %r' % (options, done.stderr))
        proxy.options = {}
        proxy.write_config()
        proxy.start()


# ---- reload ------------------------------------------------------------------------------------------------------

class Mount:
    """A folder mounted like a Secret in Kubernetes: ..data is a symlink that is swapped."""

    def __init__(self, folder):
        self.folder, self.round = folder, 0
        os.mkdir(folder)

    def publish(self, files):
        self.round += 1
        fresh = os.path.join(self.folder, '..%d' % self.round)
        os.mkdir(fresh)
        for name, path in files.items():
            shutil.copy(path, os.path.join(fresh, name))
            if self.round == 1:
                os.symlink('..data/' + name, os.path.join(self.folder, name))
        os.symlink('..%d' % self.round, os.path.join(self.folder, '..new'))
        os.rename(os.path.join(self.folder, '..new'), os.path.join(self.folder, '..data'))

    def options(self):
        return {'tls-cert-file': self.folder + '/tls.crt', 'tls-key-file': self.folder + '/tls.key',
                'tls-ca-cert-file': self.folder + '/ca.crt'}


class Load:
    """Threads that write and read over connections that must never break."""

    def __init__(self, cluster, count=4):
        self.cluster, self.stopping, self.failures, self.done = cluster, False, [], 0
        self.threads = [threading.Thread(target=self.play, args=(i,)) for i in range(count)]

    def play(self, index):
        try:
            with self.cluster.connect() as connection:
                number = 0
                while not self.stopping:
                    number += 1
                    check_equal(connection.call('SET', 'load:%d' % index, number), ('+', b'OK'))
                    check_equal(connection.get('GET', 'load:%d' % index), b'%d' % number)
                    self.done += 2
        except Exception as error:
            self.failures.append('%s: %s' % (type(error).__name__, error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()


@suite.case('certificates are swapped under load: no connection breaks, new ones get the new certificate')
def _(run):
    with Folder() as folder, cluster_of() as cluster:
        mount = Mount(folder.path + '/mount')
        ca = cluster.tls.ca

        def publish():
            leaf = ca.issue('rotated')
            mount.publish({'tls.crt': leaf.cert, 'tls.key': leaf.key, 'ca.crt': ca.cert})
            return leaf
        first = publish()
        for process in cluster.proxies + cluster.backends:
            process.stop()
        for process in cluster.backends + cluster.proxies:
            process.options = {process.name.split('-')[0]: mount.options()}
            process.write_config()
            process.start()
        front, partition = cluster.proxies[0].address, cluster.backends[0].addresses[1]
        check_equal(serial_of(front, cluster.tls.context), first.serial)
        with Load(cluster) as load:
            wait_for(lambda: load.done > 20 or load.failures, 'the load to begin')
            for _ in range(3):
                leaf = publish()
                for address in (front, partition):
                    wait_for(lambda: serial_of(address, cluster.tls.context) == leaf.serial, 'the new certificate')
                seen = load.done
                wait_for(lambda: load.done > seen + 20 or load.failures, 'the load to go on')
            # a key of another certificate
            mount.publish({'tls.crt': leaf.cert, 'tls.key': first.key, 'ca.crt': ca.cert})
            wait_for(lambda: b'reload_refused' in cluster.proxies[0].log(), 'the wrong key to be refused')
            check_equal(serial_of(front, cluster.tls.context), leaf.serial)
        check(not load.failures, str(load.failures[:1]))
        run.note('%d commands while certificates were swapped 3 times' % load.done)


@suite.case('clients of a removed authority are refused, also with a session ticket')
def _(run):
    with Folder() as folder, cluster_of() as cluster:
        mount, ca, proxy = Mount(folder.path + '/mount'), cluster.tls.ca, cluster.proxies[0]
        files = {'tls.crt': cluster.tls.server.cert, 'tls.key': cluster.tls.server.key}
        mount.publish(dict(files, **{'ca.crt': ca.cert}))
        proxy.stop()
        proxy.options = {'proxy': mount.options()}
        proxy.write_config()
        proxy.start()
        ticket = folder.path + '/ticket'
        check(b'New, ' in s_client(cluster, '-sess_out', ticket), 'no first session')
        check(b'Reused, ' in s_client(cluster, '-sess_in', ticket), 'not resumed')
        check_equal(refused(proxy.address, cluster.tls.context), '')
        mount.publish(dict(files, **{'ca.crt': folder.ca.cert}))
        wait_for(lambda: refused(proxy.address, cluster.tls.context), 'the old authority to be refused')
        # another worker accepts this connection, and may learn it a moment later
        wait_for(lambda: b'+PONG' not in s_client(cluster, '-sess_in', ticket), 'a ticket of the old authority to be refused')


# ---- resumption --------------------------------------------------------------------------------------------------

def s_client(cluster, *words, command=b'PING\r\nQUIT\r\n'):
    """The output of openssl s_client."""
    words = ['openssl', 's_client', '-connect', '127.0.0.1:%d' % cluster.proxies[0].port, '-ign_eof', '-CAfile',
             cluster.tls.ca.cert, '-cert', cluster.tls.client.cert, '-key', cluster.tls.client.key] + list(words)
    return subprocess.run(words, input=command, capture_output=True, timeout=patience()).stdout


@suite.case('sessions are resumed, whichever worker accepts the connection; not if resumption is switched off')
def _(run):
    with Folder() as folder, cluster_of(proxy_options={'proxy': {'workers': 4}}) as cluster:
        for version in ('-tls1_2', '-tls1_3'):
            ticket = folder.path + '/ticket' + version
            check(b'New, ' in s_client(cluster, version, '-sess_out', ticket), 'the first session is not new')
            for _ in range(8):
                shown = s_client(cluster, version, '-sess_in', ticket, '-sess_out', ticket)
                check(b'Reused, ' in shown and b'+PONG' in shown, '%s: not resumed' % version)

        def resumed_by_clients():
            text = cluster.proxies[0].http('/metrics')[1]  # one page: connections to backends may be made at this moment
            return metric(text, 'scree_process_tls_resumed_total') - metric(text, 'scree_process_tls_connects_resumed_total')
        wait_for(lambda: resumed_by_clients() == 16, 'the sessions to be counted')
        shown = s_client(cluster, '-tls1_2', '-reconnect')
        check_equal(shown.count(b'Reused, '), 5)
    with Folder() as folder, cluster_of(proxy_options={'proxy': {'tls-session-caching': 'no'}}) as cluster:
        for version in ('-tls1_2', '-tls1_3'):
            shown = s_client(cluster, version, '-reconnect' if version == '-tls1_2' else '-brief')
            check(b'Reused, ' not in shown, 'resumed although it is switched off')


def info_of(cluster):
    with cluster.connect() as connection:
        text = connection.get('INFO', 'tls').decode()
    return {name: int(number) for name, number in re.findall(r'(\w+):(\d+)', text)}


def reconnects(cluster, rounds=3):
    """The backend closes all connections, repeatedly. Returns the number of new connections, and of resumed sessions
    among them."""
    def is_served():
        with cluster.connect() as connection:
            return connection.call('SET', 'key', 'value') == ('+', b'OK')
    wait_for(is_served, 'the first connection')
    before = info_of(cluster)
    for _ in range(rounds):
        with cluster.partition(0) as partition:
            partition.call('CLIENT', 'KILL', 'TYPE', 'normal')
        wait_for(is_served, 'a new connection')
    after = info_of(cluster)
    return tuple(after[name] - before[name] for name in ('tls_connects', 'tls_connects_resumed'))


@suite.case('connections to backends resume earlier sessions, but not after a restart or if resumption is switched off')
def _(run):
    for version in ('TLSv1.2', 'TLSv1.3'):
        options = {'proxy': {'workers': 1, 'tls-protocols': version}}
        with cluster_of(partitions=1, proxy_options=options) as cluster:
            made, resumed = reconnects(cluster)
            run.note('%s: %d connections made anew, %d of them resumed' % (version, made, resumed))
            check(made >= 3 and resumed == made, '%s: %d of %d resumed' % (version, resumed, made))
            text = cluster.proxies[0].http('/metrics')[1]
            check(metric(text, 'scree_process_tls_connects_resumed_total') >= resumed, 'not in the metrics')
            cluster.backends[0].kill9()
            cluster.backends[0].start()  # with new keys, so it cannot decrypt its old tickets
            wait_for(lambda: cluster.proxies[0].http('/readyz')[0] == 200, 'the proxy to have checked the shard')
            made, resumed = reconnects(cluster)
            check(made >= 3 and resumed == made, '%s: %d of %d resumed after a restart' % (version, resumed, made))
    with cluster_of(partitions=1, proxy_options={'upstream': {'tls-session-caching': 'no'}}) as cluster:
        made, resumed = reconnects(cluster)
        check(made >= 3 and resumed == 0, '%d of %d resumed although it is switched off' % (resumed, made))


# ---- untrusted peers -------------------------------------------------------------------------------------------------

def closes(sock):
    sock.settimeout(patience())
    try:
        while sock.recv(1 << 16):
            pass
        return True
    except ConnectionError:
        return True
    except socket.timeout:
        return False


@suite.case('plain RESP on a TLS port and TLS on a plain port end with a clean close and one line in the log')
def _(run):
    with cluster_of(proxy_options={'proxy': {'tls-auth-clients': 'no'}}, unix=True) as cluster:
        proxy, begun = cluster.proxies[0], time.monotonic()
        for _ in range(200):
            with socket.create_connection(('127.0.0.1', proxy.port)) as sock:
                sock.sendall(b'*1\r\n$4\r\nPING\r\n')
                check(closes(sock), 'a plain client stays')
        most = 30 + 2 * (time.monotonic() - begun)  # each of two workers writes a line a second
        lines = [line for line in proxy.log().splitlines() if b'tls_handshake_failed' in line]
        check(1 <= len(lines) <= most, '%d lines in the log for 200 mistakes' % len(lines))
        check(b'does not use TLS' in lines[0], lines[0].decode())
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(proxy.unix)
            context = cluster.tls.ca.context()
            started = time.monotonic()
            try:
                context.wrap_socket(sock, server_hostname='localhost')
                check(False, 'TLS on a plain port succeeded')
            except OSError as error:
                check('timed out' not in str(error), 'TLS on a plain port hangs')
            run.note('TLS on a plain port: closed after %.2f s' % (time.monotonic() - started))
        check_equal(refused(proxy.address, cluster.tls.ca.context()), '')


@suite.case('random bytes, broken records and incomplete handshakes do no harm')
def _(run):
    with cluster_of() as cluster:
        address = ('127.0.0.1', cluster.proxies[0].port)
        hello = bytes.fromhex('160301') + (200).to_bytes(2, 'big') + b'\x01\x00\x00\xc4\x03\x03' + run.rng.randbytes(194)
        context, bio_in, bio_out = cluster.tls.context, ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            context.wrap_bio(bio_in, bio_out, server_hostname='localhost').do_handshake()
        except ssl.SSLWantReadError:
            real = bio_out.read()
        for i in range(300):
            data = bytearray(run.rng.choice([hello, real, real, run.rng.randbytes(300)]))
            for _ in range(run.rng.randrange(4)):
                data[run.rng.randrange(len(data))] = run.rng.randrange(256)
            with socket.create_connection(address) as sock:
                sock.sendall(data[:run.rng.randrange(1, len(data) + 1)])
                if i % 3 == 0:
                    sock.shutdown(socket.SHUT_WR)
                    closes(sock)
        for i in range(60):  # after a valid handshake
            with Connection(cluster.proxies[0].address) as connection:
                connection.send('PING')
                connection.read()
                plain = socket.socket(fileno=os.dup(connection.sock.fileno()))
                plain.sendall(run.rng.choice([b'\x17\x03\x03\x00\x20', b'\x17\x03\x03\x40\x00', b'\x15\x03\x03\x00\x02',
                                              b'']) + run.rng.randbytes(run.rng.randrange(1, 200)))
                plain.shutdown(socket.SHUT_WR)
                check(closes(plain), 'a broken record leaves the connection open')
                plain.close()
        check_equal(refused(cluster.proxies[0].address, cluster.tls.context), '')


def forged(folder, name, signer, *extensions, days='1'):
    """A client certificate signed by `signer`; (certificate chain, key)."""
    base = os.path.join(folder, name)
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=client', '-keyout', base + '.key',
            '-out', base + '.csr')
    with open(base + '.ext', 'w') as file:
        file.write('\n'.join(('subjectAltName=DNS:localhost',) + extensions))
    openssl('x509', '-req', '-in', base + '.csr', '-CA', signer.cert, '-CAkey', signer.key, '-set_serial', '77', '-days', days,
            '-extfile', base + '.ext', '-out', base + '.crt')
    with open(base + '.crt', 'a') as file, open(signer.cert) as above:
        file.write(above.read())
    return base + '.crt', base + '.key'


@suite.case('certificates that only look like ours are refused: signed by a leaf, by another CA of that name, for servers, expired')
def _(run):
    with cluster_of() as cluster, Folder() as folder:
        kit = cluster.tls
        twin = Authority(folder.path, 'ca')
        cases = {'of a leaf': forged(folder.path, 'leaf', kit.client),
                 'of a leaf that says it is a CA': forged(folder.path, 'lying', kit.server, 'basicConstraints=critical,CA:TRUE'),
                 'of a CA of the same name': forged(folder.path, 'twin', twin),
                 'for servers only': forged(folder.path, 'server', kit.ca, 'extendedKeyUsage=serverAuth'),
                 'too old': forged(folder.path, 'old', kit.ca, days='-1'),
                 'with a critical extension that is not known': forged(folder.path, 'odd', kit.ca, '1.2.3.4=critical,ASN1:NULL')}
        for address in (cluster.proxies[0].address, cluster.backends[0].addresses[0]):
            for what, (cert, key) in cases.items():
                context = kit.ca.context()
                context.load_cert_chain(cert, key)
                check(refused(address, context), 'a certificate %s is accepted' % what)
            good = kit.ca.context()
            good.load_cert_chain(*forged(folder.path, 'good', kit.ca, 'extendedKeyUsage=clientAuth'))
            check_equal(refused(address, good), '')


@suite.case('metrics say when the certificates expire; an expired one is loaded, with an event in the log')
def _(run):
    with cluster_of() as cluster:
        proxy, backend = cluster.proxies[0], cluster.backends[0]
        now = time.time()

        def expiry(process, use):
            found = re.findall(r'_tls_certificate_expiry_timestamp_seconds{use="%s"} (\d+)' % use, process.http('/metrics')[1])
            return int(found[0]) if found else None
        for process, use in ((proxy, 'clients'), (proxy, 'backends'), (backend, 'clients')):
            check(now < expiry(process, use) < now + 2 * 24 * 3600, '%s, %s' % (process.name, use))
        check_equal(expiry(backend, 'backends'), None, 'there is none')
        cert, key = forged(cluster.folder, 'old', cluster.tls.ca, days='-1')
        proxy.options = {'proxy': {'tls-cert-file': cert, 'tls-key-file': key}}
        proxy.write_config()
        proxy.reload()
        wait_for(lambda: expiry(proxy, 'clients') < now, 'the expired certificate to be loaded')
        check(b'tls_certificate_expired file=' in proxy.log(), 'no event')


class Peer:
    """openssl s_client, controlled by lines: R renegotiates, K changes keys."""

    def __init__(self, cluster, *options):
        kit = cluster.tls
        self.child = subprocess.Popen(['openssl', 's_client', '-connect', '127.0.0.1:%d' % cluster.proxies[0].port, '-CAfile', kit.ca.cert,
                                       '-cert', kit.client.cert, '-key', kit.client.key] + list(options), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.seen = b''
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while data := os.read(self.child.stdout.fileno(), 4096):
            self.seen += data

    def say(self, line):
        self.child.stdin.write(line + b'\n')
        self.child.stdin.flush()

    def wait(self, text):
        wait_for(lambda: text in self.seen, '%r from s_client: %r' % (text, self.seen[-300:]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


@suite.case('no renegotiation, early data or old version is accepted; odd server names and floods of new keys do no harm')
def _(run):
    with cluster_of() as cluster, Folder() as folder:
        for version in ('-tls1', '-tls1_1'):
            with Peer(cluster, version, '-cipher', 'ALL:@SECLEVEL=0') as peer:
                peer.wait(b'protocol version')
        with Peer(cluster, '-tls1_2') as peer:
            peer.wait(b'Verify return code')
            peer.say(b'R')
            peer.wait(b'no renegotiation')
        for name in ('x' * 250, 'a..b', '*', '\x01', '127.0.0.1', '../..'):
            with Peer(cluster, '-servername', name) as peer:
                peer.wait(b'Verify return code')
                peer.say(b'PING\r')
                peer.wait(b'+PONG')
        with Peer(cluster, '-tls1_3') as peer:
            peer.wait(b'Verify return code')
            for i in range(50):
                peer.say(b'K')
                wait_for(lambda: peer.seen.count(b'KEYUPDATE') > i, 'new keys')
            peer.say(b'PING\r')
            peer.wait(b'+PONG')
        session, early = os.path.join(folder.path, 'session'), os.path.join(folder.path, 'early')
        with open(early, 'wb') as file:
            file.write(b'SET early yes\r\n')
        with Peer(cluster, '-tls1_3', '-sess_out', session) as peer:
            peer.wait(b'Verify return code')
            peer.say(b'PING\r')
            peer.wait(b'+PONG')
            wait_for(lambda: os.path.exists(session), 'a ticket')
        with Peer(cluster, '-tls1_3', '-sess_in', session, '-early_data', early) as peer:
            peer.wait(b'Verify return code')
            peer.say(b'EXISTS early\r')
            peer.wait(b':0')
            check(b'Early data was accepted' not in peer.seen, 'early data can be sent again by others')
        check_equal(refused(cluster.proxies[0].address, cluster.tls.context), '')


@suite.case('thousands of half-open handshakes do not block others, and are closed in time')
def _(run):
    options = {'proxy': {'tls-handshake-timeout': '3s', 'workers': 2, 'maxclients': 50}}
    with cluster_of(proxy_options=options) as cluster:
        address, proxy = ('127.0.0.1', cluster.proxies[0].port), cluster.proxies[0]
        before = proxy.rss_bytes()
        half_open = []
        try:
            for i in range(3000):
                half_open.append(socket.create_connection(address))
                if i % 2:
                    half_open[-1].sendall(b'\x16\x03\x01\x01\x00')
                if i % 500 == 0:
                    check_equal(refused(proxy.address, cluster.tls.context), '')
            check_equal(refused(proxy.address, cluster.tls.context), '')
            run.note('3000 half-open: %d MB more' % ((proxy.rss_bytes() - before) >> 20))
            check(closes(half_open[-1]), 'a half-open handshake is never closed')
            check(metric_of(proxy, 'scree_process_tls_failures_total') >= 1, 'not counted')
        finally:
            for sock in half_open:
                sock.close()


@suite.case("handshakes by the hundred do not delay others' requests")
def _(run):
    with cluster_of(partitions=1) as cluster:
        stopping, done = [], [0]

        def shake():
            while not stopping:
                refused(cluster.proxies[0].address, cluster.tls.context)
                done[0] += 1
        threads = [threading.Thread(target=shake) for _ in range(4)]
        with cluster.connect() as connection:
            for thread in threads:
                thread.start()
            try:
                waits = []
                while len(waits) < 300 or done[0] <= 3:
                    started = time.monotonic()
                    connection.call('PING')
                    waits.append(time.monotonic() - started)
            finally:
                stopping.append(True)
                for thread in threads:
                    thread.join()
        waits.sort()
        p50, p99 = (waits[int(len(waits) * share)] * 1e3 for share in (0.5, 0.99))
        run.note('%d handshakes beside: PING p50 %.2f ms, p99 %.2f ms' % (done[0], p50, p99))


@suite.case('TLS connections count toward memory-limit, which refuses new ones when half of it is used')
def _(run):
    options = {'proxy': {'memory-limit': '16mb', 'workers': 2, 'tls-auth-clients': 'no'}}
    with cluster_of(partitions=1, proxy_options=options) as cluster:
        proxy, context, crowd = cluster.proxies[0], cluster.tls.ca.context(), []

        def come():
            crowd.append(Connection(address_with(proxy.address, context)))
            return crowd[-1].call('PING')
        try:
            while len(crowd) < 1000 and (reply := come()) == ('+', b'PONG'):
                pass
            check(reply[0] == '-' and b'half of memory-limit' in reply[1], str(reply))
            check(300 < len(crowd) < 350, '%d connections of 24 KiB in 8 MB' % len(crowd))
            wait_for(lambda: metric_of(proxy, 'scree_proxy_memory_buffers_bytes') >= 7 * MEGABYTE, 'all of them to be counted')
            check_equal(crowd[0].call('SET', 'served', 'still'), ('+', b'OK'))
            line = crowd[0].get('CLIENT', 'LIST', 'ID', crowd[0].get('CLIENT', 'ID')).decode()
            check(int(re.search(r'tot-mem=(\d+)', line)[1]) > 24 << 10, line)
            crowd[0].call('CLIENT', 'KILL', 'TYPE', 'normal')
            wait_for(lambda: come() == ('+', b'PONG'), 'room for new ones')
        finally:
            for connection in crowd:
                connection.close()


@suite.case("protected-mode serves untrusted peers' addresses if every client presents a certificate")
def _(run):
    host = next((word for word in subprocess.run(['hostname', '-I'], capture_output=True, text=True).stdout.split()
                 if ':' not in word), None)
    if not host:
        run.note('this machine has no address but the loopback')
        return
    for auth, served in (('yes', True), ('no', False)):
        with cluster_of(proxy_options={'proxy': {'tls-auth-clients': auth}}) as cluster:
            proxy = cluster.proxies[0]
            proxy.stop()
            proxy.options['proxy']['tls-listen'] = '0.0.0.0:%d' % proxy.port
            proxy.write_config()
            proxy.start()
            context = cluster.tls.ca.context(cluster.tls.client)
            context.check_hostname = False
            with Connection((host, proxy.port, context)) as connection:
                connection.send('PING')
                kind, text = connection.read()
                check_equal((kind, text[:6]), ('+', b'PONG') if served else ('-', b'DENIED'))


if __name__ == '__main__':
    suite.main()
