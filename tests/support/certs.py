"""certs.py - certificates for tests, made with the openssl program: a certificate authority, and certificates signed by
it.

    ca = Authority(folder, 'ca')
    leaf = ca.issue('proxy', names=['DNS:localhost', 'IP:127.0.0.1'])     leaf.cert, leaf.key: paths
    ca.context(leaf)                                                      an ssl.SSLContext of a client with this
certificate

Keys use elliptic curves, because making an RSA key takes a second.
"""

import os
import ssl
import subprocess
import threading

from support.harness import patience

NAMES = ('DNS:localhost', 'IP:127.0.0.1')
_numbers = iter(range(1, 1 << 30))
_lock = threading.Lock()


def openssl(*words, text=None):
    done = subprocess.run(['openssl'] + list(words), input=text, capture_output=True, timeout=patience())
    if done.returncode:
        raise RuntimeError('openssl %s: %s' % (' '.join(words), done.stderr.decode('utf-8', 'replace')))
    return done.stdout


class Leaf:
    def __init__(self, cert, key, serial):
        self.cert, self.key, self.serial = cert, key, serial


class Authority:
    def __init__(self, folder, name='ca'):
        self.folder, self.name = folder, name
        self.cert, self.key = self.path('crt'), self.path('key')
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj',
                '/CN=' + name, '-addext', 'basicConstraints=critical,CA:TRUE', '-keyout', self.key, '-out', self.cert)

    def path(self, ending):
        return os.path.join(self.folder, '%s.%s' % (self.name, ending))

    def issue(self, name, names=NAMES, days=1):
        """Every certificate has its own serial number, by which tests recognize it."""
        with _lock:
            serial = 1000 + next(_numbers)
        base = os.path.join(self.folder, '%s-%d' % (name, serial))
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=' + name,
                '-keyout', base + '.key', '-out', base + '.csr')
        with open(base + '.ext', 'w') as file:
            file.write('subjectAltName=%s\n' % ','.join(names))
        openssl('x509', '-req', '-in', base + '.csr', '-CA', self.cert, '-CAkey', self.key, '-set_serial', str(serial),
                '-days', str(days), '-extfile', base + '.ext', '-out', base + '.crt')
        return Leaf(base + '.crt', base + '.key', serial)

    def context(self, leaf=None):
        context = ssl.create_default_context(cafile=self.cert)
        if leaf:
            context.load_cert_chain(leaf.cert, leaf.key)
        return context


class Kit:
    """The certificates of a cluster with TLS on both hops; all clients use the same one."""

    def __init__(self, folder):
        self.ca = Authority(folder)
        self.server, self.client = self.ca.issue('server'), self.ca.issue('client')
        self.context = self.ca.context(self.client)

    def listening(self):
        return {'tls-cert-file': self.server.cert, 'tls-key-file': self.server.key, 'tls-ca-cert-file': self.ca.cert}

    def connecting(self):
        return {'tls': 'yes', 'tls-cert-file': self.client.cert, 'tls-key-file': self.client.key,
                'tls-ca-cert-file': self.ca.cert}
