#!/usr/bin/python3
"""bench_handshakes.py - the latency that bursts of TLS handshakes add for other clients.

    load: GETs at a steady rate, plain ──┐
                                         ├──► scree-proxy, one worker ──► redis-server
    bursts: 500 connections at once, TLS ┘

All connections of a burst are opened first and then send their hello at the same time, so that as many handshakes as
possible are ready in one turn of the proxy's loop. No session is resumed. Prints the GETs' latency without bursts, and
during bursts with an RSA-2048 and an ECDSA P-256 certificate. GETs follow a schedule, so a pause of the proxy is
measured. Each row is the round with the best p99, which is the one least disturbed by the machine; the rows without
bursts show how much disturbance is left.
"""

import argparse
import json
import os
import selectors
import socket
import ssl
import subprocess
import tempfile
import time

from support.certs import openssl
from support.cluster import Oracle, Process, binary, free_ports, write_ini

KEYS = {'RSA-2048': ['rsa:2048'], 'ECDSA P-256': ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']}


class Shaking:
    """One connection of a burst."""

    def __init__(self, context, address):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.is_done = self.step()
        self.hello = self.outgoing.read()
        self.sock = socket.create_connection(address)
        self.sock.setblocking(False)

    def step(self):
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def on_readable(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError('closed during the handshake')
        self.incoming.write(data)
        self.is_done = self.step()
        answer = self.outgoing.read()
        if answer:
            self.sock.sendall(answer)


def burst(address, count):
    """Seconds from the first hello until the last handshake is complete."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    peers = [Shaking(context, address) for _ in range(count)]
    selector = selectors.DefaultSelector()
    begun = time.monotonic()
    for peer in peers:
        selector.register(peer.sock, selectors.EVENT_READ, peer)
        peer.sock.sendall(peer.hello)
    left = count
    while left:
        for key, _ in selector.select(30):
            key.data.on_readable()
            if key.data.is_done:
                selector.unregister(key.data.sock)
                left -= 1
    took = time.monotonic() - begun
    for peer in peers:
        peer.sock.close()
    return took


class Row:
    def __init__(self, name, figures, bursts, cpu_s):
        self.name, self.figures, self.bursts, self.cpu_s = name, figures, bursts, cpu_s


def measure(name, proxy, addresses, options, bursts):
    words = [os.path.join(os.path.dirname(binary('scree-proxy')), 'bench', 'load'), '--port', str(addresses['plain'][1]), '--clients', str(options.clients), '--rate',
             str(options.rate), '--seconds', str(options.seconds), '--', 'GET', 'key']
    before, took = proxy.cpu_seconds(), []
    load = subprocess.Popen(words, stdout=subprocess.PIPE)
    while bursts and load.poll() is None:
        took.append(burst(addresses['tls'], options.burst))
    figures = json.loads(load.communicate()[0])
    return Row(name, figures, took, proxy.cpu_seconds() - before)


def measure_certificate(folder, name, words, options):
    """The rows of one certificate: without bursts, and with them."""
    base = os.path.join(folder, name.split()[0])
    openssl('req', '-x509', '-newkey', *words, '-nodes', '-days', '2', '-subj', '/CN=proxy', '-keyout', base + '.key',
            '-out', base + '.crt')
    oracle, ports = Oracle(folder, 'redis-' + name.split()[0]), free_ports(2)
    write_ini(base + '-shards.ini', [('map', {'epoch': 1}), ('shard s', {'slots': '0-16383', 'address':
                                                                         '%s:%d' % oracle.address})])
    write_ini(base + '.ini', [('proxy', {'listen': '127.0.0.1:%d' % ports, 'tls-listen': '127.0.0.1:%d' % (ports + 1),
                                         'tls-cert-file': base + '.crt', 'tls-key-file': base + '.key',
                                         'tls-auth-clients': 'no', 'admin': '', 'workers': 1,
                                         'shards': base + '-shards.ini'})])
    proxy = Process('proxy', [binary('scree-proxy'), '--config', base + '.ini'], folder, [ports, ports + 1])
    addresses = {'plain': ('127.0.0.1', ports), 'tls': ('127.0.0.1', ports + 1)}
    started = []
    try:
        for process in (oracle, proxy):
            started.append(process)
            process.start()
        measure('warm', proxy, addresses, argparse.Namespace(**dict(vars(options), seconds=0.5)), False)
        rounds = [(measure(name + ', no handshakes', proxy, addresses, options, False),
                   measure(name, proxy, addresses, options, True)) for _ in range(options.rounds)]
        return [min(rows, key=lambda row: row.figures['p99']) for rows in zip(*rounds)]
    finally:
        for process in reversed(started):
            process.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--burst', type=int, default=500, help='connections that say hello at once')
    parser.add_argument('--seconds', type=float, default=2, help='of each row and round')
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--rate', type=int, default=2000, help='GETs a second')
    parser.add_argument('--clients', type=int, default=8, help='that send them')
    options = parser.parse_args()
    print('| | GET p50 ms | p99 ms | worst ms | handshakes/s | CPU µs of one |\n|---|---|---|---|---|---|')
    with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
        for name, words in KEYS.items():
            quiet, busy = measure_certificate(folder, name, words, options)
            for row in (quiet, busy):
                done = len(row.bursts) * options.burst
                rate = '%.0f' % (options.burst / (sum(row.bursts) / len(row.bursts))) if done else '–'
                cpu = '%.0f' % ((busy.cpu_s - quiet.cpu_s) / done * 1e6) if done else '–'
                print('| %s | %.2f | %.2f | %.1f | %s | %s |' % (
                    row.name, *(row.figures[part] / 1e3 for part in ('p50', 'p99', 'max')), rate, cpu), flush=True)


if __name__ == '__main__':
    main()
