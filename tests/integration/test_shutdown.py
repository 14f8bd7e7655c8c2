#!/usr/bin/python3
"""SIGTERM under load: requests that were read are answered, acknowledged writes are there, new connections are refused,
exit code 0.
"""

import random
import signal
import ssl
import threading
import time

from support.cluster import Cluster, metric
from support.harness import Suite, check, check_equal, patience, sized, wait_for
from support.load import Writer, verify
from support.locked import PATIENT, Locked
from support.relay import Relay
from support.resp import Closed, Connection, value

suite = Suite(__doc__)


def stop_under_load(run, cluster, addresses, stop):
    """Writers use `addresses` while stop() ends a server; returns all units and the errors."""
    writers = [Writer(addresses[i % len(addresses)], 'c%d' % i, random.Random(run.seed + i)) for i in range(8)]
    for writer in writers:
        writer.may_lose_connection = True
        writer.start()
    wait_for(lambda: sum(writer.acknowledged for writer in writers) > 2000 or any(w.wrong for w in writers),
             'writes to be acknowledged')
    stop()
    for writer in writers:
        writer.finish()
    wrong = [text for writer in writers for text in writer.wrong]
    check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))
    run.note('%d operations acknowledged' % sum(writer.acknowledged for writer in writers))
    return [unit for writer in writers for unit in writer.units]


for durability in ('always', 'everysec', 'os'):
    @suite.case('a backend with durability = %s stops cleanly and has every acknowledged write afterwards' % durability)
    def _(run, durability=durability):
        with Cluster(backends=1, partitions=2, proxies=0,
                     backend_options={'backend': {'durability': durability}}) as cluster:
            backend = cluster.backends[0]
            units = stop_under_load(run, cluster, backend.addresses[:1], backend.stop)
            backend.start()
            with cluster.partition(0) as client:
                wrong = verify(units, client)
            check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('a backend behind a proxy stops and comes back, and the proxy connects to it again')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        backend = cluster.backends[1]
        units = stop_under_load(run, cluster, [cluster.proxies[0].address], backend.stop)
        backend.start()
        with cluster.connect() as client:
            key = cluster.key_on(1)
            wait_for(lambda: client.call('EXISTS', key)[0] != '-', 'the proxy to find the backend again')
            wrong = verify(units, client)
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('a proxy stops cleanly under load')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=2) as cluster:
        units = stop_under_load(run, cluster, [cluster.proxies[0].address], cluster.proxies[0].stop)
        with cluster.connect(1) as client:
            wrong = verify(units, client)
        check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))


@suite.case('a stopping proxy answers the requests it has read, refuses new connections, and ends')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1, relay=lambda address: Relay(address, delay_ms=(700, 700)),
                 proxy_options={'proxy': {'drain-timeout': '1m'}, 'upstream': {'connect-timeout': '20s'}}) as cluster:
        proxy = cluster.proxies[0]
        clients = [cluster.connect() for _ in range(10)]
        idle = cluster.connect()
        for client in clients + [idle]:
            check_equal(client.get('PING'), b'PONG')
        for number, client in enumerate(clients):
            client.send_many([['SET', 'k%d:%d' % (number, i), 'v%d' % i] for i in range(20)] +
                             [['GET', 'k%d:%d' % (number, i)] for i in range(20)])
        wait_for(lambda: (metric(proxy.http('/metrics')[1], 'scree_proxy_inflight') or 0) >= 160,
                 'a first window of 16 requests of each client to be in flight')
        proxy.signal(signal.SIGTERM)
        wait_for(lambda: not admits(proxy.address), 'new connections to be refused')
        for client in clients:
            replies = [value(client.read()) for _ in range(40)]
            check_equal(replies, [b'OK'] * 20 + [b'v%d' % i for i in range(20)])
            data, closed = client.read_until_closed(20)
            check_equal((data, closed), (b'', True), 'after the last reply')
        check_equal(idle.read_until_closed(20), (b'', True), 'an idle client')
        check_equal(proxy.wait_exit(20), 0, 'exit code')
        proxy.child = None


@suite.case('a stopping proxy answers the next request of a client in use, also up to EXEC, and the connection ends with the reply')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True, proxy_options={'proxy': {'drain-timeout': '1h'}}) as cluster:
        proxy = cluster.proxies[0]
        single, queueing, watching = (cluster.connect() for _ in range(3))
        keys = [cluster.key_on(shard) for shard in range(3)]
        check_equal(single.get('SET', keys[0], 'v'), b'OK')
        check_equal(queueing.get('MULTI'), b'OK')
        check_equal(watching.get('WATCH', keys[1]), b'OK')
        proxy.signal(signal.SIGTERM)
        wait_for(lambda: not admits(proxy.address), 'new connections to be refused')
        single.send('GET', keys[0])
        check_last(single, ('$', b'v'))
        check_equal([queueing.get('INCR', key) for key in keys[1:]], [b'QUEUED'] * 2)
        queueing.send('EXEC')
        check_last(queueing, ('*', [(':', b'1')] * 2))
        check_equal(watching.get('MULTI'), b'OK')
        check_equal(watching.get('GET', keys[0]), b'QUEUED')
        watching.send('EXEC')
        check_last(watching, ('*', None))
        check_equal(proxy.wait_exit(60), 0, 'exit code')
        proxy.child = None


@suite.case('a stopping proxy answers requests that wait for a locked key, and those behind them')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=2, linked=True, backend_options={'backend': PATIENT},
                 proxy_options={'proxy': {'workers': 1, 'drain-timeout': '1h'}, 'upstream': {'timeout': '2m'}}) as cluster:
        proxy, near = cluster.proxies[0], cluster.key_on(0, 'near')
        early, *late, behind, other = [cluster.connect() for _ in range(6)]
        check_equal([client.get('PING') for client in late + [behind, other]], [b'PONG'] * 5)
        with Locked(cluster) as locked:
            early.send('APPEND', locked.key, 'x')
            behind.send_many([('APPEND', locked.key, 'x'), ('SET', near, 1), ('GET', near)])
            wait_for(lambda: (metric(proxy.http('/metrics')[1], 'scree_proxy_inflight') or 0) >= 5, 'all to be in flight')
            proxy.signal(signal.SIGTERM)
            wait_for(lambda: not admits(proxy.address), 'new connections to be refused')
            for client in late:
                client.send('APPEND', locked.key, 'x')
            other.send('GET', near)
            check_last(other, ('$', None))
        check_equal(sorted(value(client.read()) for client in [early, behind] + late), [2, 3, 4, 5, 6])
        check_equal(value(behind.read()), b'OK')
        check_last(behind, ('$', b'1'))
        check_equal(proxy.wait_exit(60), 0, 'exit code')
        proxy.child = None


class Sender(threading.Thread):
    """Sends INCR without waiting for replies until the connection ends. What must hold: it ends without a reset, and every increment that
    was executed has been answered before."""

    def __init__(self, address, key):
        super().__init__(daemon=True)
        self.connection = Connection(address, patience())
        self.key, self.replies, self.wrong = key, [], None
        self.start()

    def run(self):
        try:
            while self.one_step():
                time.sleep(0.0002)  # so that requests come all the time, and few of them wait
        except OSError as error:
            self.wrong = 'after %d replies: %s: %s' % (len(self.replies), type(error).__name__, error)

    def one_step(self):
        """Sends a request, and reads what is there. False: the connection has ended."""
        self.connection.send('INCR', self.key)
        self.connection.sock.settimeout(0)
        try:
            while True:
                self.replies.append(value(self.connection.read()))
        except (BlockingIOError, ssl.SSLWantReadError):
            self.connection.sock.settimeout(patience())
            return True
        except Closed:
            return False

    def end(self):
        self.join()
        self.connection.close()


def stop_with_senders(run, cluster, process, address):
    for number in range(sized(3, long=30)):
        senders = [Sender(address, '{k}%d:%d' % (number, i)) for i in range(6)]
        wait_for(lambda senders=senders: all(len(sender.replies) > 50 or sender.wrong for sender in senders), 'replies')
        process.stop()
        for sender in senders:
            sender.end()
        process.start()
        with Connection(address, patience()) as client:
            wait_for(lambda client=client: client.call('EXISTS', '{k}')[0] == ':', 'the shard')
            for sender in senders:
                check(not sender.wrong, sender.wrong)
                check_equal(sender.replies, list(range(1, len(sender.replies) + 1)), 'replies')
                check_equal(client.get('GET', sender.key), b'%d' % len(sender.replies), 'increments that were executed')
        run.note('%d replies' % sum(len(sender.replies) for sender in senders))


@suite.case('clients that keep sending while a proxy stops read the replies of all that was executed, then the end, and no reset')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        stop_with_senders(run, cluster, cluster.proxies[0], cluster.proxies[0].address)


@suite.case('… over TLS')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1, tls=True) as cluster:
        stop_with_senders(run, cluster, cluster.proxies[0], cluster.proxies[0].address)


@suite.case('… while a backend stops')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        stop_with_senders(run, cluster, cluster.backends[0], cluster.backends[0].addresses[0])


@suite.case('a proxy whose clients do not close their connections ends all the same')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        clients = [cluster.connect() for _ in range(50)]
        for client in clients:
            check_equal(client.get('PING'), b'PONG')
        cluster.proxies[0].stop()
        for client in clients:
            check_equal(client.sock.recv(1), b'', 'the end')
            client.close()


def check_last(client, reply):
    """The next reply is this one, and whoever has read it can see that the connection has ended."""
    check_equal(client.read(), reply)
    client.sock.setblocking(False)
    check_equal(client.sock.recv(1), b'', 'after the last reply')


def admits(address):
    try:
        with Connection(address, 2) as connection:
            return connection.get('PING') == b'PONG'
    except (OSError, Closed):
        return False


@suite.case('a proxy with a hanging shard ends within its drain-timeout')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options={'proxy': {'drain-timeout': '1s'},
                                                                    'upstream': {'timeout': '60s'}}) as cluster:
        with cluster.connect() as client:
            client.call('SET', 'k', 'v')
            cluster.backends[0].pause()
            client.send('GET', 'k')
            wait_for(lambda: (metric(cluster.proxies[0].http('/metrics')[1], 'scree_proxy_inflight') or 0) >= 1,
                     'the request to be in flight')
            started = time.monotonic()
            cluster.proxies[0].stop(15)
            run.note('ended after %.1f s' % (time.monotonic() - started))
            cluster.backends[0].resume()


@suite.case('SIGINT ends both programs like SIGTERM, and an immediate start on the same ports works')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        with cluster.connect() as client:
            client.call('SET', 'k', 'v')
        for process in (cluster.proxies[0], cluster.backends[0]):
            process.signal(signal.SIGINT)
            check_equal(process.wait_exit(20), 0, 'exit code of %s' % process.name)
        for process in (cluster.backends[0], cluster.proxies[0]):
            process.start()
        with cluster.connect() as client:
            check_equal(client.get('GET', 'k'), b'v')


@suite.case('SIGTERM again and again, until the proxy has ended, does not change its exit code')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        for _ in range(5):
            while proxy.child.poll() is None:
                proxy.signal(signal.SIGTERM)
            check_equal(proxy.child.returncode, 0, 'exit code')
            proxy.start()


if __name__ == '__main__':
    suite.main()
