#!/usr/bin/python3
"""The proxy's checks of its shards: a shard is up if a connection as clients' requests use it would be served, and no
shard that is silent makes the admin port wait.
"""

import contextlib
import json
import os
import re
import select
import shutil
import time
import socket
import threading

from support.cluster import Cluster, free_ports, http_get, metric
from support.harness import Suite, check, check_equal, wait_for
from support.other_version import OtherVersion
from support.resp import ReplyError, value

suite = Suite(__doc__)


def shard_states(proxy):
    return {one['name']: (one['state'], one['reason']) for one in json.loads(proxy.http('/shards')[1])['shards']}


def status_of(client):
    """The fields of SCREE MAP STATUS."""
    return dict(line.split(':', 1) for line in client.get('SCREE', 'MAP', 'STATUS').decode().splitlines() if ':' in line)


def status_page_states(proxy):
    """State and reason of each shard on the status page."""
    return {one['name']: (one['state'], one['reason']) for one in json.loads(proxy.http('/status.json')[1])['map']['shards']}


def proxy_ready(cluster):
    return cluster.proxies[0].http('/readyz')[0] == 200


def restart(proxy):
    """Starts the proxy with its new options, without waiting for its shards."""
    proxy.stop()
    proxy.write_config()
    proxy.spawn()
    wait_for(lambda: proxy.http('/healthz')[0] == 200, 'the proxy to start')


@suite.case('with a wrong cluster secret no light is green: /readyz, /readyz/any, /shards and the metrics give the reason')
def _(run):
    with Cluster(backends=1, partitions=2, proxies=1) as cluster:
        proxy = cluster.proxies[0]
        check_equal(shard_states(proxy), {'b0p0': ('up', ''), 'b0p1': ('up', '')})
        proxy.options = {'upstream': {'secret': 'another'}}
        restart(proxy)
        wait_for(lambda: all('WRONGPASS' in reason for _, reason in shard_states(proxy).values()), 'the reason of both shards')
        for path in ('/readyz', '/readyz/any'):
            status, text = proxy.http(path)
            check_equal(status, 503, path)
            check('shard b0p1 does not answer: refused the greeting: WRONGPASS' in text, text)
        for name, (state, reason) in shard_states(proxy).items():
            check(state == 'down' and 'WRONGPASS' in reason, '%s: %s %s' % (name, state, reason))
        text = proxy.http('/metrics')[1]
        check_equal(metric(text, 'scree_proxy_shard_up'), 0)
        check_equal(metric(text, 'scree_proxy_ready'), 0)
        with cluster.connect() as connection:
            check('WRONGPASS' in str(value(connection.call('GET', 'k'))), 'a request was served')
        proxy.options = {}
        restart(proxy)
        wait_for(lambda: proxy.http('/readyz')[0] == 200, 'the shards to be up with the right secret')


@suite.case('backends that want a password the proxy does not have are down')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, backend_options={'backend': {'requirepass': 'word'}}) as cluster:
        proxy = cluster.proxies[0]
        proxy.options = {'upstream': {'secret': ''}}
        restart(proxy)
        wait_for(lambda: 'NOAUTH' in proxy.http('/readyz')[1], 'the reason in /readyz')
        check_equal(proxy.http('/readyz')[0], 503)


@suite.case('a map that gives a shard the address of another: its requests are refused by name, and the shard is down')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster:
        proxy = cluster.proxies[0]
        with cluster.partition(1) as partition:
            fields = partition.get('SCREE', 'AUTH', cluster.secret) and partition.get('SCREE', 'SELF')
            self = dict(zip(fields[::2], fields[1::2]))
            check_equal((self[b'shard'], self[b'slots']), (b'b1p0', b'8192'))
            check(('run_id:' + self[b'run_id'].decode()) in partition.get('INFO', 'server').decode(), str(self))
        with open(cluster.shards_path) as file:
            text = file.read()
        (first, one), (second, two) = [(name, '%s:%d' % address) for name, address, _ in cluster.shard_addresses()]
        swapped = text.replace(one, 'X').replace(two, one).replace('X', two).replace('epoch = %d' % cluster.epoch, 'epoch = 99')
        path = os.path.join(cluster.folder, 'swapped.ini')
        with open(path, 'w') as file:
            file.write(swapped)
        proxy.options = dict(proxy.options, proxy=dict(proxy.options['proxy'], shards=path))
        restart(proxy)
        wait_for(lambda: all('another shard' in reason for _, reason in shard_states(proxy).values()), 'the reason of both shards')
        check_equal(proxy.http('/readyz/any')[0], 503)
        check("%s does not answer: another shard is at its address: '%s'" % (first, second) in proxy.http('/readyz')[1],
              proxy.http('/readyz')[1])
        with cluster.connect() as connection:
            for shard in (0, 1):
                for words in (['SET', cluster.key_on(shard), 'v'], ['GET', cluster.key_on(shard)]):
                    reply = value(connection.call(*words))
                    check(isinstance(reply, ReplyError) and 'another shard is at its address' in str(reply), str(reply))


@suite.case('a shard that starts on an empty disk is not ready, red, and counted: its slots have no owner, and its errors show')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        proxy, lost = cluster.proxies[0], cluster.backends[1]
        for other in (0, 2):
            with cluster.partition(other) as partition:
                wait_for(lambda: b'shard=b1p0' in b''.join(partition.get('SCREE', 'OWNERS')), 'the others to learn the owner')
        wait_for(lambda: status_of(client)['settled'] == '1', 'a settled map')
        key = cluster.key_on(1)
        check_equal(client.get('SET', key, 'v'), b'OK')
        lost.kill9()
        shutil.rmtree(lost.data)
        lost.start()
        wait_for(lambda: lost.http('/readyz')[0] == 503, 'the backend to be not ready')
        check('partition 0 owns none of the slots' in lost.http('/readyz')[1], lost.http('/readyz')[1])
        # the first reason is the lost connection
        wait_for(lambda: 'shard b1p0 does not answer: it owns none of the 5461 slots' in proxy.http('/readyz')[1], 'the reason')
        check_equal(proxy.http('/readyz')[0], 503)
        check_equal(proxy.http('/readyz/any')[0], 200)
        check_equal(shard_states(proxy)['b1p0'][0], 'down')
        errors = client.get('GET', key)
        check(isinstance(errors, ReplyError) and str(errors).startswith('TRYAGAIN'), repr(errors))
        check_equal(metric(lost.http('/metrics')[1], 'scree_backend_slots_orphaned'), 5461)
        check_equal(metric(lost.http('/metrics')[1], 'scree_backend_ready'), 0)
        text = proxy.http('/metrics')[1]
        check('scree_proxy_shard_up{shard="b1p0"} 0' in text and 'scree_proxy_shard_up{shard="b0p0"} 1' in text, 'shard_up')
        check_equal(metric(text, 'scree_proxy_ready'), 0)
        check('scree_proxy_error_replies_total{code="TRYAGAIN"} 1' in text, 'the error is not counted by its code')
        seen = status_of(client)
        check_equal((seen['slots_unknown'], seen['slots_to_move']), ('5461', '0'))
        wait_for(lambda: status_page_states(proxy)['b1p0'][0] == 'down', 'the status page to show the shard as down')
        check('it owns none of the 5461 slots' in status_page_states(proxy)['b1p0'][1], str(status_page_states(proxy)))


def is_quiet(cluster):
    """No shard has written anything for some ticks."""
    def indexes():
        return [re.search('batch_index:([0-9]+)', cluster.partition(shard).get('INFO', 'scree').decode()).group(1) for shard in range(3)]
    before = indexes()
    time.sleep(2)
    return indexes() == before


@suite.case('all backends restart at once, one of them on an empty disk: it does not claim its slots anew')
def _(run):
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        lost = cluster.backends[1]
        wait_for(lambda: status_of(client)['settled'] == '1', 'a settled map')
        for shard in range(3):
            check_equal(client.get('SET', cluster.key_on(shard), 'v'), b'OK')
        wait_for(lambda: is_quiet(cluster), 'all shards to have stored what they know')
        for backend in cluster.backends:
            backend.kill9()
        shutil.rmtree(lost.data)
        for backend in cluster.backends:
            backend.start()
        wait_for(lambda: metric(lost.http('/metrics')[1], 'scree_backend_slots_orphaned') == 5461, 'the lost slots to be seen')
        wait_for(lambda: all(client.get('GET', cluster.key_on(shard)) == b'v' for shard in (0, 2)), 'the other shards to serve')

        def is_refused():
            reply = client.get('GET', cluster.key_on(1))
            check(isinstance(reply, ReplyError), repr(reply))
            return str(reply).startswith('TRYAGAIN')
        wait_for(is_refused, 'TRYAGAIN')  # at first the connection may be lost
        check_equal(lost.http('/readyz')[0], 503)


@suite.case('a shard that joins, and one that has given all its slots away, are ready: other shards own the slots')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1, linked=True) as cluster, cluster.connect() as client:
        wait_for(lambda: status_of(client)['settled'] == '1', 'a settled map')
        for slots in (['0-16383', ''], ['', '0-16383']):
            cluster.write_shards(slots)
            client.get('SCREE', 'RELOAD')
            wait_for(lambda: status_of(client)['settled'] == '1', 'the slots to be moved')
            for backend in cluster.backends:  # which hears of the owners of slots from time to time
                wait_for(lambda: backend.http('/readyz')[0] == 200, '%s to be ready' % backend.name)
                wait_for(lambda: metric(backend.http('/metrics')[1], 'scree_backend_slots_orphaned') == 0, 'its slots to have owners')
            wait_for(lambda: proxy_ready(cluster), 'the proxy to be ready')


@suite.case('as soon as /readyz says that a shard is back, every worker sends requests to it, though its backoff is not over')
def _(run):
    options = {'upstream': {'hold': '0', 'backoff-min': '1m', 'backoff-max': '1m', 'connect-timeout': '1m'}, 'proxy': {'workers': 3}}
    with Cluster(backends=1, partitions=1, proxies=1, proxy_options=options) as cluster, contextlib.ExitStack() as stack:
        proxy = cluster.proxies[0]
        clients = [stack.enter_context(cluster.connect()) for _ in range(24)]
        cluster.backends[0].kill9()
        for client in clients:
            check(isinstance(client.get('GET', 'k'), ReplyError), 'a request was served')
        wait_for(lambda: proxy.http('/readyz')[0] == 503, 'the shard to be down')
        cluster.backends[0].start()
        wait_for(lambda: proxy.http('/readyz')[0] == 200, 'the shard to be up')
        check_equal([client.get('GET', 'k') for client in clients], [None] * len(clients))


@suite.case('a backend that serves other protocols of proxies gets no request, and clients, log and /readyz are told the reason')
def _(run):
    for protocols in ((), ('protocol', '0', 'protocol_oldest', '0'), ('protocol', '1000', 'protocol_oldest', '999')):
        with Cluster(backends=1, partitions=1, proxies=1) as cluster:
            proxy = cluster.proxies[0]
            with cluster.partition(0) as partition:
                fields = partition.get('SCREE', 'AUTH', cluster.secret) and partition.get('SCREE', 'SELF')
                mine = dict(zip(fields[::2], fields[1::2]))
                check(int(mine[b'protocol']) >= int(mine[b'protocol_oldest']) >= 1, repr(mine))
            cluster.backends[0].kill9()
            with OtherVersion(cluster.backends[0].addresses[0], ('shard', '', 'slots', '0') + protocols) as other:
                wait_for(lambda: 'another version of Scree' in proxy.http('/readyz')[1], 'the reason in /readyz')
                with cluster.connect() as client:
                    reply = client.get('SET', 'k', 'v')
                    check(isinstance(reply, ReplyError) and 'another version of Scree' in str(reply), repr(reply))
                wait_for(lambda: b'another version of Scree' in proxy.log(), 'the log')
                check_equal([words for words in other.requests if words[0] not in (b'SCREE', b'PING')], [], 'requests of clients')
            cluster.backends[0].start()
            wait_for(lambda: proxy.http('/readyz')[0] == 200, 'the shard to be up again')


@suite.case('a proxy or backend whose port is in use ends with start_failed in its log, as the runbook says, and the reason')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        for process, taken in ((cluster.proxies[0], cluster.proxies[0].port), (cluster.backends[0], cluster.backends[0].port)):
            process.stop()
            with socket.create_server(('127.0.0.1', taken)):
                process.write_config()
                process.spawn()
                check(process.wait_exit() != 0, '%s has started' % process.name)
            line = next(line for line in process.log().splitlines() if b'start_failed' in line)
            check(b'%d' % taken in line and b'in use' in line, line.decode())
            process.start()


@suite.case('a backend that cannot start names the partition: its data is in use by another process, or its host is unknown')
def _(run):
    with Cluster(backends=2, partitions=1, proxies=1) as cluster:
        running, stopped = cluster.backends
        stopped.stop()
        for options, reasons in (({'data': running.data}, ('partition-0', running.data, 'another process uses it')),
                                 ({'bind': 'unknown.invalid'}, ('partition-0 cannot listen on unknown.invalid', 'known'))):
            stopped.options = {'backend': options}
            stopped.write_config()
            stopped.spawn()
            check(stopped.wait_exit() == 1, 'it has started with %r' % options)
            line = [line for line in stopped.log().decode().splitlines() if 'start_failed' in line][-1]
            check(all(reason in line for reason in reasons), line)
        stopped.options = {}
        stopped.write_config()
        stopped.start()


class Silent:
    """Sockets that take connections and never answer, on 127.0.0.1; `most` is how many of them had a connection at once."""

    def __init__(self, count):
        self.sockets = []
        base = free_ports(count)
        for i in range(count):
            one = socket.create_server(('127.0.0.1', base + i))
            self.sockets.append(one)
        self.addresses = ['127.0.0.1:%d' % (base + i) for i in range(count)]
        self.most, self.stopping = 0, False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        open_at = {}  # connection: its listening socket
        while not self.stopping:
            for sock in select.select(self.sockets + list(open_at), [], [], 0.05)[0]:
                if sock in open_at:
                    if not self.still_open(sock):
                        del open_at[sock]
                        sock.close()
                else:
                    connection = sock.accept()[0]
                    open_at[connection] = sock
            self.most = max(self.most, len(set(open_at.values())))
        for sock in list(open_at) + self.sockets:
            sock.close()

    @staticmethod
    def still_open(sock):
        try:
            return bool(sock.recv(65536))
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()


@suite.case('64 shards of which 63 are silent: all are checked at the same time, and the admin port waits for none of them')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster, Silent(63) as silent:
        proxy = cluster.proxies[0]
        lines = ['[map]', 'epoch = 50']
        for i, address in enumerate(['%s:%d' % cluster.backends[0].addresses[0]] + silent.addresses):
            lines += ['[shard s%d]' % i, 'slots = %d-%d' % (i * 256, i * 256 + 255), 'address = ' + address]
        with open(cluster.shards_path + '.new', 'w') as file:
            file.write('\n'.join(lines) + '\n')
        os.rename(cluster.shards_path + '.new', cluster.shards_path)
        # a check that takes a minute would hold every page for a minute, if a page waited for it
        proxy.options = {'upstream': {'connect-timeout': '1m'}}
        restart(proxy)
        wait_for(lambda: silent.most == 63, 'connections to all silent shards at the same time')
        wait_for(lambda: proxy.http('/readyz/any')[0] == 200, 'the one shard to be up')
        for path, wanted in (('/readyz', 503), ('/healthz', 200), ('/readyz/any', 200), ('/status/self', 200), ('/shards', 200)):
            check_equal(http_get(proxy.admin, path)[0], wanted, path)
        check_equal(metric(proxy.http('/metrics')[1], 'scree_proxy_shard_up'), 1)
        check('shard s63 does not answer: ' in proxy.http('/readyz')[1], proxy.http('/readyz')[1])


if __name__ == '__main__':
    suite.main()
