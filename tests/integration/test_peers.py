#!/usr/bin/python3
"""Links between backends: they find each other by the shard map, come back after faults, and refuse untrusted peers."""

import os
import re
import signal
import socket
import struct
import subprocess

from support import harness
from support.certs import Authority
from support.cluster import Cluster, even_slots
from support.harness import Suite, check, check_equal, patience, wait_for
from support.other_version import PEER_PROTOCOL, OtherVersion
from support.relay import Relay
from support.resp import ReplyError

HEADER = struct.Struct('<IB3xQQ')
STATUS, ECHO, DONE, FAILED = 1, 2, 128, 129

suite = Suite(__doc__)


class Peers(Cluster):
    """Three backends of one partition each, without proxies; `options`: of section [backend] of each."""

    def __init__(self, options=None, relay=None, tls=False):
        super().__init__(backends=3, partitions=1, proxies=0, relay=relay, tls=tls)
        for backend in self.backends:
            backend.options = {'backend': dict(options or {}, shards=self.shards_path)}
            if tls:
                backend.options['backend'].update({
                    'peer-tls': 'yes', 'peer-tls-cert-file': self.tls.client.cert,
                    'peer-tls-key-file': self.tls.client.key})

    def __enter__(self):
        self.slots = even_slots(3)
        self.write_shards()
        if self.relay_maker:
            for backend in self.backends:
                backend.options['backend']['advertise-port'] = self.relays[backend.addresses[0]].port
        super().__enter__()  # writes the map again, because ports may have changed
        return self

    def call(self, index, *words):
        with self.partition(index) as connection:
            return connection.get(*words)

    def peers(self, index):
        """INFO peers of a backend: its own fields, and those of its links by shard."""
        text = self.call(index, 'INFO', 'peers').decode()
        fields = dict(line.split(':', 1) for line in text.split('\r\n')[1:] if line)
        links = {name[5:]: dict(pair.split('=', 1) for pair in value.split(','))
                 for name, value in fields.items() if name.startswith('peer_')}
        return fields, links

    def are_linked(self, index, count=2):
        fields, links = self.peers(index)
        return (fields['peers_links'] == fields['peers_links_up'] == str(count) and
                all(link['same_map'] == 'yes' for link in links.values()))

    def wait_linked(self, indexes=(0, 1, 2), count=2):
        for index in indexes:
            wait_for(lambda: self.are_linked(index, count), 'backend %d to be linked to %d others' % (index, count))

    def wait_claimed(self):
        """Before this a shard takes no key, and a map that comes would be the first of some shards, and the second of others."""
        for backend in self.backends:
            wait_for(lambda: b'slots_owned' in backend.log(), '%s to claim its slots' % backend.name)

    def echo(self, index, shard, delay_ms, text):
        return self.call(index, 'DEBUG', 'PEER-ECHO', shard, delay_ms, text)

    def echoes(self, index):
        return self.call(index, 'DEBUG', 'PEER-ECHOES')

    def wait_echo(self, index, end):
        wait_for(lambda: end in self.echoes(index), 'the echo to end with %r' % end)


def metric(cluster, index, name):
    text = cluster.backends[index].http('/metrics')[1]
    return int(text.split('\nscree_backend_peer_%s ' % name)[1].split('\n')[0])


def shard_metric(cluster, index, name, shard):
    text = cluster.backends[index].http('/metrics')[1]
    return int(text.split('\nscree_backend_peer_%s{shard="%s"} ' % (name, shard))[1].split('\n')[0])


def greeting_of(shard='x', run_id='f' * 40, generation=0, term=0, address='127.0.0.1:1'):
    words = b''.join(bytes([len(word)]) + word.encode() for word in (run_id, shard, address, '0.1.0'))
    return b'\1' + struct.pack('<QQQ', 1, 2, 3) + words + struct.pack('<HHBQIQ', 0, 0, 0, 0, generation, term)


def connect_as_peer(cluster, index, shard='x', **leadership):
    """A socket on which the test has sent the greeting of another backend."""
    connection = cluster.partition(index)
    check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
    connection.get('SCREE', 'PEER', PEER_PROTOCOL, 'b%dp0' % index, greeting_of(shard, **leadership))
    return connection.sock


def frame(kind, number, payload=b'', hybrid=0):
    return HEADER.pack(len(payload), kind, number, hybrid) + payload


def read_frame(sock):
    def read(count):
        data = b''
        while len(data) < count:
            piece = sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
    size, kind, number, _ = HEADER.unpack(read(HEADER.size))
    return kind, number, read(size)


def batch_times(backend):
    """Times of the batches in the log, oldest first."""
    done = subprocess.run([backend.argv[0], '--dump-log', backend.data], capture_output=True, check=True)
    return [int(line.split(b' ')[9]) for line in done.stdout.splitlines() if b' batch ' in line]


def is_closed(sock):
    sock.settimeout(patience())
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@suite.case('three backends connect to each other and exchange their state')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        cluster.wait_claimed()
        run_ids = {}
        for index in range(3):
            text = cluster.call(index, 'INFO', 'server').decode()
            run_ids['b%dp0' % index] = text.split('run_id:')[1].split('\r')[0]
        for index in range(3):
            fields, links = cluster.peers(index)
            check_equal(fields['peers_shard'], 'b%dp0' % index)
            check_equal(fields['peers_incoming'], '2')
            for shard, link in links.items():
                check_equal(link['run_id'], run_ids[shard])
        for number in range(20):
            check_equal(cluster.call(1, 'SET', cluster.key_on(1), number), b'OK')
        wait_for(lambda: int(cluster.peers(0)[1]['b1p0']['log_index']) >= 20, 'the log index of another backend to come')
        check_equal(cluster.backends[0].http('/metrics')[1].count('\nscree_backend_peer_links_up 2\n'), 1, 'metric')


@suite.case('a batch is later than what other shards have said, also at a third shard, and nothing expires by that')
def _(run):
    later_us = 4102444800000000  # the year 2100
    with Peers() as cluster:
        cluster.wait_linked()
        cluster.wait_claimed()
        for index in range(3):
            check_equal(cluster.call(index, 'SET', cluster.key_on(index), '1', 'EX', '1000'), b'OK')
        sock = connect_as_peer(cluster, 0)
        sock.sendall(frame(ECHO, 1, struct.pack('<I', 0), later_us))
        check_equal(read_frame(sock), (DONE, 1, b''), 'the reply')
        cluster.call(0, 'INCR', cluster.key_on(0))
        check_equal(batch_times(cluster.backends[0])[-1], later_us + 1, 'the time after what was heard')

        def is_later(index):
            cluster.call(index, 'INCR', cluster.key_on(index))
            return batch_times(cluster.backends[index])[-1] > later_us
        for index in (1, 2):
            wait_for(lambda at=index: is_later(at), 'the time to come to shard %d' % index)
        for backend in cluster.backends:
            times = [time for time in batch_times(backend) if time]
            check(times == sorted(set(times)), 'times that grow: %r' % times)
        for index in range(3):
            check(0 < cluster.call(index, 'TTL', cluster.key_on(index)) <= 1000, 'a TTL')
        sock = connect_as_peer(cluster, 0)
        sock.sendall(frame(ECHO, 1, struct.pack('<I', 0), 1 << 63))
        check(is_closed(sock), 'a frame with an impossible time')


@suite.case('requests are answered in any order')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        with cluster.partition(0) as connection:
            replies = connection.pipeline([['DEBUG', 'PEER-ECHO', 'b2p0', delay, text]
                                           for delay, text in ((3000, 'late'), (0, 'first'), (1500, 'second'))])
            check_equal(replies, [('+', b'OK')] * 3)
        cluster.wait_echo(0, b'ok late')
        check_equal(cluster.echoes(0), [b'ok first', b'ok second', b'ok late'])
        check_equal(cluster.echo(0, 'b2p0', 60001, 'x'), b'OK')
        cluster.wait_echo(0, b'refused the delay must be at most 60000 ms')


@suite.case('kill -9 ends outstanding requests, and the link comes back with the new run id')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        before = cluster.peers(0)[1]['b1p0']['run_id']
        cluster.echo(0, 'b1p0', 60000, 'never')
        cluster.backends[1].kill9()
        cluster.wait_echo(0, b'lost')
        wait_for(lambda: cluster.peers(0)[1]['b1p0']['state'] != 'up', 'the link to be down')
        check_equal(cluster.peers(0)[1]['b2p0']['state'], 'up')
        refused = cluster.echo(0, 'b1p0', 0, 'x')
        check(isinstance(refused, ReplyError) and 'down' in str(refused), 'a down link took %r' % refused)
        cluster.backends[1].start()
        cluster.wait_linked()
        check(cluster.peers(0)[1]['b1p0']['run_id'] != before, 'the old run id is shown')


@suite.case('cut connections come back, and so do those that become silent without being closed')
def _(run):
    with Peers({'peer-timeout': '%dms' % (1000 * harness.SLOW)},
               relay=lambda address: Relay(address, is_opaque=True)) as cluster:
        cluster.wait_linked()
        relay = cluster.relays[cluster.backends[2].addresses[0]]
        for what in ('reset', 'mute', 'reset'):
            connects = int(cluster.peers(0)[1]['b2p0']['connects'])
            wait_for(lambda: cluster.echo(0, 'b2p0', 60000, 'never') == b'OK', 'the link to take a request')
            relay.spoil(what)
            wait_for(lambda: int(cluster.peers(0)[1]['b2p0']['connects']) > connects, 'a new connection after ' + what)
            cluster.wait_linked()
        wait_for(lambda: cluster.echoes(0) == [b'lost'] * 3, 'each request to be lost once')


@suite.case('an untrusted peer that pretends to be a backend is refused')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        words = ('SCREE', 'PEER', PEER_PROTOCOL, 'b0p0', greeting_of())
        with cluster.partition(0) as stranger:
            check('NOPERM' in str(stranger.get(*words)), 'a peer without the secret was accepted')
            check('WRONGPASS' in str(stranger.get('SCREE', 'AUTH', cluster.secret + 'x')), 'a wrong secret was accepted')
            check('NOPERM' in str(stranger.get(*words)), 'a peer with a wrong secret was accepted')
        with cluster.partition(0) as mistaken:
            check_equal(mistaken.get('SCREE', 'AUTH', cluster.secret), b'OK')
            for bad in ((PEER_PROTOCOL, 'b1p0', greeting_of()), (PEER_PROTOCOL, 'b0p0', b''), (PEER_PROTOCOL, 'b0p0', greeting_of('b0p0')),
                        (PEER_PROTOCOL, 'b0p0', greeting_of('a\r\nx'))):
                check(isinstance(mistaken.get('SCREE', 'PEER', *bad), ReplyError), '%r was accepted' % (bad,))
            check_equal(mistaken.get('PING'), b'PONG')
        check_equal(cluster.peers(0)[0]['peers_incoming'], '2')
        for garbage in (b'\xff' * 64, frame(0, 1), struct.pack('<IB3xQ', 1 << 30, STATUS, 1), b'*1\r\n$4\r\nPING\r\n' * 9):
            sock = connect_as_peer(cluster, 0)
            sock.sendall(garbage)
            check(is_closed(sock), 'garbage was not answered with the end of the connection')
        sock = connect_as_peer(cluster, 0)
        sock.sendall(frame(99, 7) + frame(STATUS, 8, greeting_of('y')) + frame(STATUS, 6, greeting_of(term=1)) +
                     frame(ECHO, 9, b'\0\0\0\0hi'))
        replies = {number: (kind, payload) for kind, number, payload in (read_frame(sock) for _ in range(4))}
        check_equal(replies[7], (FAILED, b'\x01unknown request'))
        check_equal([replies[8][0], replies[6][0]], [FAILED, FAILED])
        check_equal(replies[9], (DONE, b'hi'))
        sock.sendall(frame(ECHO, 9, b'\0\0\0\0again') + frame(ECHO, 5000, b'\0\0\0\0new'))
        check_equal(read_frame(sock), (DONE, 5000, b'new'), 'a request that came twice was run twice')
        sock.sendall(frame(ECHO, 10, b'\0\0\0\0old'))
        check(is_closed(sock), 'a request that may have come before was run')
        sock.close()
        highest = {'generation': (1 << 32) - 1, 'term': (1 << 64) - 1}
        with cluster.partition(0) as stranger:
            check_equal(stranger.get('SCREE', 'AUTH', cluster.secret), b'OK')
            check('does not have the address' in str(stranger.get('SCREE', 'PEER', PEER_PROTOCOL, 'b0p0', greeting_of('b1p0', **highest))),
                  'an address that the map does not have leads a shard')
        with connect_as_peer(cluster, 0, 'b1p0', address='%s:%d' % cluster.backends[1].addresses[0], **highest):
            wait_for(lambda: cluster.peers(0)[0]['peers_incoming'] == '3', 'the impostor to be connected')
        wait_for(lambda: cluster.peers(0)[0]['peers_incoming'] == '2', 'the closed connections to be forgotten')
        cluster.wait_linked()
        cluster.backends[1].kill9()
        cluster.backends[1].start()  # a shard with one copy is not locked out by who claims to lead it
        cluster.wait_linked()


@suite.case('a backend with another secret gets no link, and serves its clients')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        wait_for(lambda: cluster.call(2, 'SET', cluster.key_on(2), 'first') == b'OK', 'its slots to be claimed')
        cluster.backends[2].stop()
        cluster.backends[2].options['backend']['secret'] = 'another'
        cluster.backends[2].write_config()
        cluster.backends[2].start()
        wait_for(lambda: 'WRONGPASS' in cluster.peers(0)[1]['b2p0'].get('reason', ''), 'its secret to be refused')
        wait_for(lambda: 'WRONGPASS' in cluster.peers(2)[1]['b0p0'].get('reason', ''), 'the secret to be refused there')
        check_equal(cluster.peers(0)[0]['peers_incoming'], '1')
        check_equal(cluster.call(2, 'SET', cluster.key_on(2), 'value'), b'OK')


@suite.case('links speak TLS, with certificates both ways')
def _(run):
    with Peers(tls=True) as cluster:
        cluster.wait_linked()
        check_equal(cluster.echo(0, 'b1p0', 0, 'secret'), b'OK')
        cluster.wait_echo(0, b'ok secret')


@suite.case('a backend whose certificate is of another authority gets no link, and none is made to it')
def _(run):
    with Peers(tls=True) as cluster:
        cluster.wait_linked()
        first, stranger = cluster.backends[0], cluster.backends[2]
        foreign = Authority(cluster.folder, 'stranger').issue('foreign')
        stranger.kill9()
        wait_for(lambda: cluster.peers(0)[1]['b2p0']['state'] != 'up', 'the link to be down')
        stranger.options['backend'].update({'tls-cert-file': foreign.cert, 'tls-key-file': foreign.key,
                                            'peer-tls-cert-file': foreign.cert, 'peer-tls-key-file': foreign.key})
        stranger.write_config()
        before = first.log().count(b'peer_up shard=b2p0'), stranger.log().count(b'peer_up')
        stranger.spawn()
        wait_for(lambda: first.log().count(b'certificate verify failed') >= 2, 'the certificate of the stranger to be seen')
        wait_for(lambda: b'certificate' in stranger.log()[-4000:] or b'unknown ca' in stranger.log(), 'the stranger to be refused')
        check_equal((first.log().count(b'peer_up shard=b2p0'), stranger.log().count(b'peer_up')), before, 'links with the stranger')


@suite.case('a renewed certificate only for links is loaded at run time')
def _(run):
    with Peers(tls=True) as cluster:
        cluster.wait_linked()
        renewed, old = cluster.tls.ca.issue('renewed'), cluster.tls.client
        os.rename(renewed.key, old.key)
        os.rename(renewed.cert, old.cert)
        for backend in cluster.backends:
            wait_for(lambda: b'tls_changed=1' in backend.log(), 'the certificate to be loaded')
        # partitions make their links anew some time after the log line
        wait_for(lambda: cluster.echo(0, 'b1p0', 0, 'renewed') == b'OK' and b'ok renewed' in cluster.echoes(0),
                 'a link with the renewed certificate')


def write_map(cluster, indexes, epoch, move=None):
    ranges = even_slots(len(indexes))
    lines = ['[map]', 'epoch = %d' % epoch]
    for index, slots in zip(indexes, ranges):
        host, port = (move or {}).get(index, cluster.backends[index].addresses[0][:2])
        lines += ['[shard b%dp0]' % index, 'slots = %s' % slots, 'address = %s:%d' % (host, port)]
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write('\n'.join(lines) + '\n')
    os.rename(cluster.shards_path + '.new', cluster.shards_path)


@suite.case('a new map adds, removes and moves links; an older one changes nothing')
def _(run):
    with Peers({'peer-timeout': '15s'}) as cluster:  # no link may break because this machine is slow
        cluster.wait_linked()
        cluster.wait_claimed()
        run_id = cluster.peers(0)[1]['b1p0']['run_id']
        connects = cluster.peers(0)[1]['b1p0']['connects']
        write_map(cluster, [0, 1], 10)
        wait_for(lambda: b'shard_drained' in cluster.backends[2].log(), 'backend 2 to give its slots away')
        check_equal(cluster.peers(2)[0]['peers_shard'], 'b2p0', 'the name of a shard that left the map')
        cluster.backends[2].kill9()
        cluster.wait_linked((0, 1), 1)
        cluster.backends[2].start()
        write_map(cluster, [0, 1, 2], 9)
        wait_for(lambda: b'map.epoch: expected at least 10' in cluster.backends[0].log(), 'the older map to be refused')
        check_equal(cluster.peers(0)[0]['peers_map_epoch'], '10')
        write_map(cluster, [0, 1, 2], 11)
        cluster.wait_linked()
        link = cluster.peers(0)[1]['b1p0']
        check_equal((link['run_id'], link['connects']), (run_id, connects), 'the link to the shard that stayed')
        write_map(cluster, [0, 1, 2], 12, move={1: cluster.backends[2].addresses[0][:2], 2: ('127.0.0.1', 1)})
        wait_for(lambda: cluster.peers(2)[0]['peers_shard'] == 'b1p0', 'backend 2 to be shard b1p0')

        def has_followed():
            link = cluster.peers(0)[1]['b1p0']
            return link['state'] == 'up' and link['run_id'] not in ('', run_id)
        wait_for(has_followed, 'the link to follow the address')


@suite.case('a map with two shards at one address is refused; CLUSTER shows the advertised address')
def _(run):
    with Peers({'advertise-host': 'localhost'}) as cluster:
        backend = cluster.backends[0]
        port = backend.port
        text = ('[map]\nepoch = 20\n[shard a]\nslots = 0-100\naddress = localhost:%d\n'
                '[shard b]\nslots = 101-16383\naddress = LOCALHOST:%d\n' % (port, port))
        with open(cluster.shards_path, 'w') as file:
            file.write(text)
        wait_for(lambda: b'belongs to shard a' in backend.log(), 'the map to be refused')
        check(cluster.peers(0)[0]['peers_map_epoch'] != '20', 'it is in force')
        wait_for(lambda: cluster.call(0, 'CLUSTER', 'SLOTS'), 'slots with an owner')
        check_equal(cluster.call(0, 'CLUSTER', 'SLOTS')[0][2][:2], [b'localhost', port])


@suite.case('%h in advertise-host stands for the name of the machine')
def _(run):
    with Peers({'advertise-host': '%h.backends'}) as cluster:
        host = socket.gethostname() + '.backends'
        wait_for(lambda: cluster.call(0, 'CLUSTER', 'SLOTS'), 'slots with an owner')
        check_equal(cluster.call(0, 'CLUSTER', 'SLOTS')[0][2][:2], [host.encode(), cluster.backends[0].port])
        wait_for(lambda: b'peer_not_in_map address=%s:' % host.encode() in cluster.backends[0].log(), 'the address it looks for in the map')


@suite.case('advertise-host that is too long with the name of the machine is refused, by a start and by a reload')
def _(run):
    marks = '%h' * (247 // len(socket.gethostname()) + 1)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        good = backend.options
        backend.options = {'backend': {'advertise-host': marks}}
        backend.write_config()
        done = subprocess.run([*backend.argv, '--check'], capture_output=True, text=True, timeout=patience())
        check(done.returncode and 'advertise-host: expected a host of up to 247 characters' in done.stderr, done)
        done = subprocess.run(backend.argv, capture_output=True, text=True, timeout=patience())
        check(done.returncode and 'advertise-host: expected a host of up to 247 characters' in done.stderr, done)
        backend.signal(signal.SIGHUP)
        wait_for(lambda: b'reload_refused' in backend.log() and b'advertise-host: expected a host of up to' in backend.log(),
                 'the reload to be refused')
        backend.options = good
        backend.write_config()
        with cluster.partition(0) as connection:
            check_equal(connection.get('PING'), b'PONG', 'the configuration in force stays')


@suite.case('a backend of a version with another protocol is refused, and both sides say why in log and INFO')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        sentence = 'run the same version of Scree on all backends'
        with cluster.partition(0) as other:
            check_equal(other.get('SCREE', 'AUTH', cluster.secret), b'OK')
            for protocol in ('1', str(int(PEER_PROTOCOL) - 1), str(int(PEER_PROTOCOL) + 1), 'x', ''):
                reply = other.get('SCREE', 'PEER', protocol, 'b0p0', greeting_of())
                check(isinstance(reply, ReplyError) and sentence in str(reply), '%r: %r' % (protocol, reply))
        check(b'peer_refused' in cluster.backends[0].log() and sentence.encode() in cluster.backends[0].log(), 'the log')
        cluster.backends[2].kill9()
        with OtherVersion(cluster.backends[2].addresses[0], peer='-ERR run the same version of Scree on all backends') as old:
            wait_for(lambda: any(link['state'] != 'up' and sentence in link.get('reason', '') for link in cluster.peers(0)[1].values()),
                     'the reason in INFO')
            check(old.greetings > 0, 'nothing connected')
        cluster.backends[2].start()
        cluster.wait_linked()


@suite.case('partitions of one process are linked through memory, and others by the network')
def _(run):
    with Cluster(backends=2, partitions=3, proxies=0, linked=True) as cluster:
        with cluster.partition(0) as partition:
            text = partition.get('INFO', 'peers').decode()
        check_equal(dict(re.findall(r'peer_(\w+):.*,through=(\w+),', text)),
                    {'b0p1': 'memory', 'b0p2': 'memory', 'b1p0': 'tcp', 'b1p1': 'tcp', 'b1p2': 'tcp'})


@suite.case('a backend without a map works alone')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as connection:
            text = connection.get('INFO', 'peers')
            check(b'peers_map_epoch:0\r\n' in text and b'peers_links:0\r\n' in text, text)
            check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
            check('not in its shard map' in str(connection.get('SCREE', 'PEER', PEER_PROTOCOL, 'x', greeting_of())), 'a peer was accepted')


@suite.case('a stopped peer delays no other request, and the requests that wait for it are bounded')
def _(run):
    limit, piece = 1 << 20, b'x' * 60000
    with Peers({'peer-output-limit': limit}) as cluster:
        cluster.wait_linked()
        cluster.backends[1].signal(signal.SIGSTOP)
        outstanding = []
        try:
            with cluster.partition(0) as connection:
                def send():
                    outstanding.append(metric(cluster, 0, 'outstanding'))
                    reply = connection.get('DEBUG', 'PEER-ECHO', 'b1p0', 0, piece)
                    check(int(cluster.peers(0)[1]['b1p0']['output_bytes']) <= limit + 65536, 'output has no bound')
                    return isinstance(reply, ReplyError) and str(reply)
                why = wait_for(send, 'the limit to be reached', pause=0)
                check('too many' in why or 'down' in why, why)
                check(max(outstanding) > 0, 'outstanding requests are not counted')
                if 'too many' in why:
                    check(b'peer_over_limit shard=b1p0' in cluster.backends[0].log(), 'the limit is not in the log')
                    check(metric(cluster, 0, 'over_limit_total') > 0, 'the limit is not counted')
                check(metric(cluster, 0, 'sent_bytes_total') > len(piece), 'bytes are not counted')
                check_equal(connection.get('DEBUG', 'PEER-ECHO', 'b2p0', 0, 'quick'), b'OK')
                cluster.wait_echo(0, b'ok quick')
            wait_for(lambda: cluster.peers(0)[1]['b1p0']['state'] != 'up', 'the silence to be noticed')
        finally:
            cluster.backends[1].signal(signal.SIGCONT)
        cluster.wait_linked()


@suite.case('metrics and INFO show for each shard whether its link is up, and its round trips')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        wait_for(lambda: shard_metric(cluster, 0, 'round_trip_seconds_count', 'b1p0') > 0, 'a round trip to be counted')
        check(int(cluster.peers(0)[1]['b1p0']['round_trip_us']) > 0, 'INFO shows no round trip')
        cluster.backends[1].kill9()
        wait_for(lambda: shard_metric(cluster, 0, 'shard_links_up', 'b1p0') == 0, 'the link to be down')
        check_equal([shard_metric(cluster, 0, name, shard) for shard in ('b1p0', 'b2p0')
                     for name in ('shard_links', 'shard_links_up')], [1, 0, 1, 1])
        cluster.backends[1].start()
        wait_for(lambda: shard_metric(cluster, 0, 'shard_links_up', 'b1p0') == 1, 'the link to be up again')


@suite.case('a peer that does not read its replies is not read any further, and is disconnected')
def _(run):
    with Peers({'peer-timeout': '%dms' % (1000 * harness.SLOW), 'peer-output-limit': 4 << 20}) as cluster:
        cluster.wait_linked()
        sock = connect_as_peer(cluster, 0)
        sock.settimeout(0.5)
        sent = 0
        try:
            while sent < 200 << 20:
                data = frame(ECHO, sent, b'\0\0\0\0' + b'x' * 60000)
                sock.sendall(data)
                sent += len(data)
            check(False, 'the backend took %d bytes' % sent)
        except (socket.timeout, ConnectionError):
            pass
        wait_for(lambda: cluster.echo(1, 'b0p0', 0, 'quick') == b'OK' and b'ok quick' in cluster.echoes(1), 'the echo of another peer')
        wait_for(lambda: cluster.peers(0)[0]['peers_incoming'] == '2', 'the connection to be closed')
        sock.close()


@suite.case('a peer with too many open requests gets errors, which are logged once and counted')
def _(run):
    with Peers() as cluster:
        cluster.wait_linked()
        sock = connect_as_peer(cluster, 0)
        sock.settimeout(patience())
        sock.sendall(b''.join(frame(ECHO, number, struct.pack('<I', 60000)) for number in range(1, 4096 + 4)))
        for number in range(4097, 4100):
            kind, answered, payload = read_frame(sock)
            check_equal((kind, answered, payload), (FAILED, number, b'\x01too many requests are outstanding'))
        check_equal(metric(cluster, 0, 'rejected_total'), 3)
        check_equal(cluster.backends[0].log().count(b'peer_rejected shard=x open=4096'), 1, 'lines in the log')
        sock.close()
        wait_for(lambda: cluster.peers(0)[0]['peers_incoming'] == '2', 'the connection to be closed')


suite.main()
