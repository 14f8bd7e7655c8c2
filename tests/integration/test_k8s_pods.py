#!/usr/bin/python3
"""The pods of k8s/overlays/prod as real processes: 3 proxies and 3 backends in network namespaces, changed and
restarted under load.
"""

import contextlib
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

from support.certs import Authority
from support.cluster import binary, metric, slot_of
from support.harness import Skip, Suite, check, check_equal, patience, wait_for
from support.kube import Objects, data_of, ini, render, render_beside_prod, render_two_sets, render_with_tls, shards_of_two_sets
from support.pods import Node, reachable
from support.resp import Closed, Connection, ReplyError, value
from support.spaces import enter_node

suite = Suite(__doc__)
PASSWORD = 'replace-me-default-password'
OPERATOR = 'replace-me-operator-password'
BACKEND_PASSWORD = 'replace-me-backend-password'
REASON = None


class Caller(threading.Thread):
    """A client of the Service: increments keys in pipelines over one connection to a ready proxy. After its connection
    was closed it repeats the requests without replies. It detects requests that fail, or were executed twice."""

    def __init__(self, node, number, rng):
        super().__init__(daemon=True)
        self.node, self.rng = node, rng
        self.counts = {'caller:%d:%d' % (number, i): 0 for i in range(12)}
        self.stopping = threading.Event()
        self.connection = None
        self.wrong, self.answered, self.moves, self.repeated = [], 0, 0, 0

    def connect(self):
        self.connection = Connection(self.rng.choice(self.node.endpoints()))
        check_equal(self.connection.get('AUTH', PASSWORD), b'OK')

    def run(self):
        try:
            while not self.stopping.is_set() and not self.wrong:
                self.play([self.rng.choice(list(self.counts)) for _ in range(self.rng.randint(1, 20))])
        except Exception as error:  # after any error the client cannot continue
            self.wrong.append('%s: %s' % (type(error).__name__, error))

    def play(self, keys):
        while keys:
            if not self.connection:
                self.connect()
            try:
                self.connection.send_many([['INCR', key] for key in keys])
                while keys:
                    self.note_reply(keys[0], value(self.connection.read()))
                    keys = keys[1:]
            except (Closed, ConnectionError):
                self.connection.close()
                self.connection = None
                self.moves += 1
                self.repeated += len(keys)

    def note_reply(self, key, reply):
        self.counts[key] += 1
        self.answered += 1
        if reply != self.counts[key]:
            self.wrong.append('%s: got %r, want %d' % (key, reply, self.counts[key]))


class Callers:
    """`with Callers(node, run) as callers: …`: none of their requests may fail."""

    def __init__(self, node, run, count=8):
        self.callers = [Caller(node, i, random.Random(run.seed * 100 + i)) for i in range(count)]
        self.run = run

    def __enter__(self):
        for caller in self.callers:
            caller.start()
        self.let_play()
        return self

    def __exit__(self, kind, *_):
        for caller in self.callers:
            caller.stopping.set()
        for caller in self.callers:
            caller.join(patience())
        if kind is None:
            wrong = self.wrong() + ['a caller still waits' for caller in self.callers if caller.is_alive()]
            check(not wrong, '%d wrong, the first: %s' % (len(wrong), (wrong or [''])[0]))
            self.run.note('%d requests answered, %d moves to another proxy, %d requests repeated after one, none failed' % (
                self.answered(), sum(caller.moves for caller in self.callers),
                sum(caller.repeated for caller in self.callers)))

    def wrong(self):
        return [text for caller in self.callers for text in caller.wrong]

    def answered(self):
        return sum(caller.answered for caller in self.callers)

    def let_play(self, more=1000):
        wanted = self.answered() + more
        wait_for(lambda: self.answered() >= wanted or self.wrong(), 'the callers to go on')
        check(not self.wrong(), (self.wrong() or [''])[0])

    def keys(self):
        return [key for caller in self.callers for key in caller.counts]


def node_of():
    if REASON:
        raise Skip('THE PODS WERE NOT RUN: %s' % REASON)
    return Node(render('k8s/overlays/prod'))


def client_of(node, index=0):
    pod = node.proxies[index]
    connection = Connection((pod.address, pod.ports['redis']))
    check_equal(connection.get('AUTH', 'operator', OPERATOR), b'OK')
    return connection


def http_text(pod, path):
    with urllib.request.urlopen('http://%s:%d%s' % (pod.address, pod.ports['admin'], path), timeout=patience()) as answer:
        return answer.read().decode()


def wait_linked(node):
    """Each of a pod's two partitions has a link to the other one, and to the four of the other pods."""
    for pod in node.backends.values():
        wait_for(lambda: re.search(r'\nscree_backend_peer_links_up 10\n', http_text(pod, '/metrics')),
                 'the links of %s to other backends' % pod.name)


def backend_epochs(node):
    """The epochs of the maps that partition 0 of every backend uses."""
    found = []
    for pod in node.backends.values():
        with Connection((pod.address, pod.ports['partition-0'])) as client:
            check_equal(client.get('AUTH', BACKEND_PASSWORD), b'OK')
            found.append(int(re.search(rb'peers_map_epoch:(\d+)', client.get('INFO', 'peers'))[1]))
    return found


def wait_settled(client, epoch):
    """Waits until all shards use the map of this epoch, and own the slots that it gives them."""
    def text():
        return client.get('SCREE', 'MAP', 'STATUS').decode()
    wait_for(lambda: 'epoch:%d\r\n' % epoch in text() and 'settled:1\r\n' in text(), 'a settled map of epoch %d' % epoch)


def wait_claimed(node):
    """Waits until all shards own the slots of the first map: a proxy is ready before."""
    with client_of(node) as client:
        wait_settled(client, 1)


def owner_of(client, slot):
    for line in client.get('SCREE', 'OWNERS'):
        run = dict(word.split('=', 1) for word in line.decode().split())
        first, last = map(int, run['slots'].split('-'))
        if run['here'] == 'yes' and first <= slot <= last:
            return run['shard']
    return None


def publish_map(node, text):
    for name in ('scree-proxy-config', 'scree-backend-config'):
        node.publish(name, {'shards.ini': text})


def status_of(pod):
    return json.loads(http_text(pod, '/status.json'))


@suite.case('the pods start as the manifests say: probes, user, read-only root, passwords on both sides')
def _(run):
    with node_of() as node:
        node.up(3, 3)
        for pod in node.proxies + list(node.backends.values()):
            status = pod.status()
            check_equal((status['Uid'].split(), status['CapEff'], status['CapBnd'], status['NoNewPrivs']),
                        (['7379'] * 4, '0' * 16, '0' * 16, '1'), pod.name)
            check(pod.in_pod(['touch', '/x']).stderr.endswith('Read-only file system\n'), '%s: its root' % pod.name)
            check(pod.in_pod(['touch', '/etc/scree/x']).returncode != 0, '%s: its ConfigMap is writable' % pod.name)
            check(pod.probe('livenessProbe') and pod.probe('readinessProbe'), '%s: probes' % pod.name)
            check_equal([name for name, port in pod.ports.items() if not reachable(pod.address, port)], [], pod.name)
        pod = node.proxies[0]
        with Connection((pod.address, pod.ports['redis'])) as client:
            check('NOAUTH' in str(client.get('GET', 'k')), 'a proxy answers who has not said a password')
            check_equal(client.get('AUTH', 'shop', 'replace-me-shop-token'), b'OK')
        pod = node.backends[0]
        with Connection((pod.address, pod.ports['partition-0'])) as client:
            check('NOAUTH' in str(client.get('GET', 'k')), 'a backend answers who has not said a password')
        with client_of(node) as client:
            wait_settled(client, 1)  # a proxy is ready before
            client.pipeline([['SET', 'k%d' % i, i] for i in range(1000)])
            check_equal(client.get('DBSIZE'), 1000)
        wait_linked(node)
        pod = node.proxies[2]
        wait_for(lambda: sum(peer['is_up'] for peer in status_of(pod)['peers']) == 3, 'every proxy on the status page of one')
        for pod in list(node.backends.values()):
            pod.delete()


@suite.case('a rolling restart of all proxies under load: no request fails, none is executed twice')
def _(run):
    with node_of() as node:
        node.up(3, 3)
        wait_claimed(node)
        old = list(node.proxies)
        with Callers(node, run) as callers:
            ends = []
            for pod in old:  # maxSurge 1, maxUnavailable 0: a new pod is ready before an old one is deleted
                node.start_proxy().wait_ready()
                thread = threading.Thread(target=lambda pod=pod: ends.append(pod.delete()), daemon=True)
                thread.start()
                callers.let_play()
            wait_for(lambda: len(ends) == 3, 'the old proxies to end')
            callers.let_play()
            run.note('from deletion to end: %s' % ', '.join('%.1f s' % took for took in ends))
        check(all(not pod.is_alive() for pod in old), 'an old proxy lives')
        check(sum(caller.moves for caller in callers.callers) >= 1, 'nobody was moved, so nothing was tested')


def epochs(node):
    return [metric(http_text(pod, '/metrics'), 'scree_proxy_map_epoch') for pod in node.proxies]


def moved_map(text, keys):
    """The map with epoch 2: the longest run of slots of the first shard without keys now belongs to the last shard."""
    config = ini(text)
    names = [name for name in config.sections() if name.startswith('shard ')]
    low, high = map(int, config[names[0]]['slots'].split('-'))
    edges = sorted({slot_of(key) for key in keys if low <= slot_of(key) <= high} | {low - 1, high + 1})
    length, start = max((b - a - 1, a + 1) for a, b in zip(edges, edges[1:]))
    end = start + length - 1
    rest = ['%d-%d' % pair for pair in ((low, start - 1), (end + 1, high)) if pair[0] <= pair[1]]
    text = text.replace('epoch = 1', 'epoch = 2')
    text = text.replace('slots = %s\n' % config[names[0]]['slots'], 'slots = %s\n' % ' '.join(rest))
    last = config[names[-1]]['slots']
    return text.replace('slots = %s\n' % last, 'slots = %s %d-%d\n' % (last, start, end)), (start, end)


@suite.case('a new shard map and a new token, swapped in as by the kubelet, under load: no request fails')
def _(run):
    with node_of() as node:
        node.up(3, 3)
        wait_claimed(node)
        text = data_of(node.objects.get('ConfigMap', 'scree-proxy-config'))['shards.ini']
        with Callers(node, run) as callers, client_of(node) as client:
            fresh, (start, end) = moved_map(text, callers.keys())
            key = next('k:%d' % i for i in range(10 ** 6) if start <= slot_of('k:%d' % i) <= end)
            check_equal(client.get('SET', key, 'here'), b'OK')
            publish_map(node, fresh)
            wait_for(lambda: epochs(node) == [2] * 3, 'every proxy to use the new map')
            wait_settled(client, 2)
            check_equal(client.get('GET', key), b'here')
            check(owner_of(client, start) == 'backend-2-1', 'the slots are at the last shard')
            callers.let_play()
            publish_map(node, text.replace('epoch = 1', 'epoch = 3'))
            wait_for(lambda: epochs(node) == [3] * 3, 'every proxy to use the old map again')
            wait_settled(client, 3)
            check_equal(client.get('GET', key), b'here')
            check(owner_of(client, start) == 'backend-0-0', 'the slots are back')
            publish_map(node, 'nonsense')
            wait_for(lambda: all('reload_refused' in pod.log() for pod in node.proxies + list(node.backends.values())),
                     'nonsense to be refused')
            check_equal(backend_epochs(node), [3] * 3)
            callers.let_play()
            secrets = data_of(node.objects.get('Secret', 'scree-proxy-secrets'))['secrets.ini']
            node.publish('scree-proxy-config', {'shards.ini': text.replace('epoch = 1', 'epoch = 3')})
            node.publish('scree-proxy-secrets', {'secrets.ini': secrets.replace('replace-me-shop-token', 'new-token')})
            for pod in node.proxies:
                with Connection((pod.address, pod.ports['redis'])) as shop:
                    wait_for(lambda: shop.get('AUTH', 'shop', 'new-token') == b'OK', '%s to take the new token' % pod.name)
            callers.let_play()
            run.note('slots %d-%d moved and back' % (start, end))


def rebalanced(node, *words):
    """The map that kubectl exec deploy/scree-proxy -- scree-proxy … --rebalance prints."""
    done = node.proxies[0].in_pod(['/opt/scree/scree-proxy', '--config', '/etc/scree/proxy.ini', '--rebalance', *words])
    check_equal((done.returncode, done.stderr), (0, ''))
    return done.stdout


@suite.case('a fourth backend gets its share of the slots, and gives it back before it is stopped, as the guide says')
def _(run):
    with node_of() as node:
        node.up(3, 2)
        text = data_of(node.objects.get('ConfigMap', 'scree-proxy-config'))['shards.ini']
        with client_of(node) as client:
            wait_settled(client, 1)
            check_equal({value(reply) for reply in client.pipeline([['SET', 'k%d' % i, i] for i in range(1000)])}, {b'OK'})
            new = ''.join('[shard backend-3-%d]\nslots =\naddress = scree-backend-3.scree-backend:%d\n' % (i, 7401 + i) for i in (0, 1))
            publish_map(node, text.replace('epoch = 1', 'epoch = 2') + new)
            node.start_backend(3).wait_ready()
            wait_settled(client, 2)
            publish_map(node, rebalanced(node, 'slots', '--shards', 'backend-3-0,backend-3-1'))
            wait_settled(client, 3)
            with Connection((node.backends[3].address, node.backends[3].ports['partition-0'])) as fourth:
                check_equal(fourth.get('AUTH', BACKEND_PASSWORD), b'OK')
                check(fourth.get('DBSIZE') > 50, 'the fourth backend has keys')
            check_equal([value(reply) for reply in client.pipeline([['GET', 'k%d' % i] for i in range(1000)])],
                        [b'%d' % i for i in range(1000)])
            publish_map(node, rebalanced(node, 'slots', '--shards=-backend-3-0,-backend-3-1'))
            wait_settled(client, 4)
            check(b'drained:backend-3-0 backend-3-1\r\n' in client.get('SCREE', 'MAP', 'STATUS'), 'it may stop')
            publish_map(node, text.replace('epoch = 1', 'epoch = 5'))
            wait_settled(client, 5)
            node.backends.pop(3).delete()
            check_equal([value(reply) for reply in client.pipeline([['GET', 'k%d' % i] for i in range(1000)])],
                        [b'%d' % i for i in range(1000)])


@suite.case('a backend comes back under another address: its keys are there, other shards never fail, proxies stay ready')
def _(run):
    with node_of() as node:
        node.up(3, 3)
        with client_of(node) as client:
            wait_settled(client, 1)
            replies = [value(reply) for reply in client.pipeline([['SET', 'k%d' % i, i] for i in range(600)])]
            check_equal([reply for reply in replies if reply != b'OK'], [], 'refused')
            before = node.backends[1].address
            node.backends[1].delete()
            lost = [i for i in range(600) if isinstance(client.get('GET', 'k%d' % i), ReplyError)]
            check(100 < len(lost) < 300, '%d of 600 keys fail while a third is away' % len(lost))
            check(all(pod.probe('readinessProbe') for pod in node.proxies), 'a proxy left the Service')
            pod = node.start_backend(1)
            check(pod.address != before, 'the address is the old one')
            pod.wait_ready()
            wait_for(lambda: not any(isinstance(client.get('GET', 'k%d' % i), ReplyError) for i in lost),
                     'the pod to be found again, both its partitions')
            wait_linked(node)
            check_equal([value(reply) for reply in client.pipeline([['GET', 'k%d' % i] for i in range(600)])],
                        [b'%d' % i for i in range(600)])


@suite.case('with components/tls clients, proxies and backends use TLS with certificates')
def _(run):
    if REASON:
        raise Skip('THE PODS WERE NOT RUN: %s' % REASON)
    with tempfile.TemporaryDirectory(prefix='scree-certs-') as folder:
        ca = Authority(folder)
        leaf = ca.issue('scree', names=['DNS:scree-proxy', 'DNS:scree-backend'])
        files = {}
        for name, path in {'tls.crt': leaf.cert, 'tls.key': leaf.key, 'ca.crt': ca.cert}.items():
            with open(path) as file:
                files[name] = file.read()
        with Node(render_with_tls(files)) as node:
            node.up(3, 2)
            context = ca.context()
            context.check_hostname = False  # the test connects by address; in a cluster, clients use the Service's name
            pod = node.proxies[1]
            with Connection((pod.address, pod.ports['redis-tls'], context)) as client:
                check_equal(client.get('AUTH', PASSWORD), b'OK')
                wait_for(lambda: {value(reply) for reply in client.pipeline([['SET', 'k%d' % i, i] for i in range(100)])} == {b'OK'},
                         'the shards to have claimed their slots')
            backend = node.backends[0]
            try:
                Connection((backend.address, backend.ports['tls-0'], context)).get('PING')
                check(False, 'a backend speaks to who shows no certificate')
            except (OSError, Closed):
                pass
            check('scree_process_tls_handshakes_total' in http_text(backend, '/metrics'), 'no TLS at a backend')
            wait_linked(node)


@suite.case('the backup CronJob makes a backup of every shard, on volumes of their own, and a backend is restored from it')
def _(run):
    with node_of() as node:
        node.up(3, 1)
        with client_of(node) as client:
            wait_settled(client, 1)
            replies = [value(reply) for reply in client.pipeline([['SET', 'k%d' % i, i] for i in range(600)])]
            check_equal([reply for reply in replies if reply != b'OK'], [], 'refused')
            container = node.objects.get('CronJob', 'scree-backup')['spec']['jobTemplate']['spec']['template']['spec']['containers'][0]
            key = container['env'][0]['valueFrom']['secretKeyRef']
            password = data_of(node.objects.get('Secret', key['name']))[key['key']]
            address, port = node.endpoints()[0]  # the test has no Service
            command = [{'scree-proxy': address, '6379': str(port)}.get(word, word) for word in container['command']]
            done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, REDISCLI_AUTH=password))
            check_equal((done.returncode, 'ERR' in done.stdout), (0, False), done.stdout + done.stderr)
            wait_for(lambda: made_backups(node) == 6, 'the backup of six shards')
            with Connection((address, port)) as other:
                check_equal(other.get('AUTH', 'backup', password), b'OK')
                check('NOPERM' in str(other.get('GET', 'k1')), 'the user of the CronJob may read')
            restore_backend(node, 0)
            wait_for(lambda: not any(isinstance(client.get('GET', 'k%d' % i), ReplyError) for i in range(600)),
                     'the restored backend to be found')
            check_equal([value(reply) for reply in client.pipeline([['GET', 'k%d' % i] for i in range(600)])],
                        [b'%d' % i for i in range(600)])


def copies_of(node, name='a'):
    """Lines of SCREE REPLICAS of the copies of each partition, as the pods of the replica set that run have them."""
    return [line for (of, _), pod in node.backends.items() if of == name and pod.is_alive()
            for port in ('partition-0', 'partition-1') for line in copies_at(pod, port)]


def copies_at(pod, port):
    """Those of one partition; none while it installs files, because it closes all connections then, and a pod is ready before."""
    with contextlib.suppress(OSError, Closed), Connection((pod.address, pod.ports[port])) as client:
        check_equal(client.get('AUTH', BACKEND_PASSWORD), b'OK')
        lines = client.get('SCREE', 'REPLICAS')
        return [] if isinstance(lines, ReplyError) else [dict(word.split('=', 1) for word in line.decode().split()) for line in lines]
    return []


def up_with_copies(node, proxies):
    """A replica set of three pods whose six copies are voters."""
    for index in range(3):
        node.start_backend(index, 'a')
    for _ in range(proxies):
        node.start_proxy()
    for pod in list(node.backends.values()) + node.proxies:
        pod.wait_ready()
    wait_all_vote(node)


def wait_all_vote(node):
    """Each of six partitions names three voters, all of which are connected."""
    wait_for(lambda: sum(line.get('kind') == 'voter' and line.get('up') == 'yes' for line in copies_of(node)) == 18, 'all copies to vote')


def copies_node():
    if REASON:
        raise Skip('THE PODS WERE NOT RUN: %s' % REASON)
    return Node(unhurried(render('k8s/overlays/copies')))


def unhurried(objects):
    """No copy counts its leader as lost because other tests keep this machine busy."""
    for one in objects:
        if one['kind'] == 'ConfigMap' and 'backend.ini' in one['data']:
            text = one['data']['backend.ini']
            one['data']['backend.ini'] = text.replace('\nreplicas = voters', '\nelection-timeout = 1s\nreplicas = voters')
    return objects


@suite.case('copies: a rolling update of a replica set under load, as a StatefulSet does it: no request fails')
def _(run):
    with copies_node() as node:
        up_with_copies(node, 2)
        with client_of(node) as client:
            wait_settled(client, 1)
        with Callers(node, run) as callers:
            for index in (2, 1, 0):  # the next one only when this one is ready: it has caught up
                node.backends['a', index].delete()
                callers.let_play()
                node.start_backend(index, 'a').wait_ready()
                callers.let_play()
        wait_all_vote(node)


def store(client, name, count):
    """Sets keys, each again until it is acknowledged."""
    for i in range(count):
        wait_for(lambda: client.get('SET', '%s:%d' % (name, i), i) == b'OK', 'a copy that serves')


def check_stored(client, names, count):
    for name in names:
        wait_for(lambda: [value(reply) for reply in client.pipeline([['GET', '%s:%d' % (name, i)] for i in range(count)])] ==
                 [b'%d' % i for i in range(count)], 'the keys of %s' % name)


@suite.case('copies: a host dies with its disk: the others serve, its pod heals on an empty volume, then each other pod may die')
def _(run):
    with copies_node() as node:
        up_with_copies(node, 1)
        with client_of(node) as client:
            wait_settled(client, 1)
            store(client, 'before', 300)
            node.backends['a', 0].remove()
            store(client, 'without', 300)
            shutil.rmtree(node.claim_of(0, 'a'))
            node.start_backend(0, 'a').wait_ready()
            wait_all_vote(node)
            for index in (1, 2):
                node.backends['a', index].remove()
                check_stored(client, ('before', 'without'), 300)
                node.start_backend(index, 'a').wait_ready()
                wait_all_vote(node)


@suite.case('copies: a second replica set gets its share of the slots under load, as the guide says')
def _(run):
    if REASON:
        raise Skip('THE PODS WERE NOT RUN: %s' % REASON)
    first = data_of(Objects(render('k8s/overlays/copies')).get('ConfigMap', 'scree-proxy-config'))['shards.ini']
    with Node(unhurried(render_two_sets(first))) as node:
        up_with_copies(node, 1)
        with client_of(node) as client, Callers(node, run) as callers:
            wait_settled(client, 1)
            publish_map(node, shards_of_two_sets(first, epoch=2))
            for index in range(3):
                node.start_backend(index, 'b')
            for index in range(3):
                node.backends['b', index].wait_ready()
            wait_settled(client, 2)
            publish_map(node, rebalanced(node, 'slots', '--shards', 'b-0,b-1'))
            wait_settled(client, 3)
            callers.let_play()
            owners = {owner_of(client, slot) for slot in range(0, 16384, 64)}
            check_equal(owners, {'a-0', 'a-1', 'b-0', 'b-1'})


@suite.case('copies: the data of prod moves to a replica set under load, as the guide says')
def _(run):
    if REASON:
        raise Skip('THE PODS WERE NOT RUN: %s' % REASON)
    old, new = (data_of(Objects(render(folder)).get('ConfigMap', 'scree-proxy-config'))['shards.ini']
                for folder in ('k8s/overlays/prod', 'k8s/overlays/copies'))
    with Node(unhurried(render_beside_prod(old))) as node:
        node.up(3, 1)
        with client_of(node) as client, Callers(node, run) as callers:
            wait_settled(client, 1)
            store(client, 'before', 300)
            publish_map(node, old.replace('epoch = 1', 'epoch = 2') + re.sub(r'(?m)^slots = .*$', 'slots =', new[new.index('[shard '):]))
            for index in range(3):
                node.start_backend(index, 'a')
            for index in range(3):
                node.backends['a', index].wait_ready()
            wait_settled(client, 2)
            publish_map(node, rebalanced(node, 'slots', '--shards=a-0,a-1' + ''.join(',-backend-%d-%d' % (pod, i) for pod in range(3) for i in (0, 1))))
            wait_settled(client, 3)
            check(b'drained:backend-0-0 ' in client.get('SCREE', 'MAP', 'STATUS'), 'they may stop')
            publish_map(node, new.replace('epoch = 1', 'epoch = 4'))
            wait_settled(client, 4)
            for index in range(3):
                node.backends.pop(index).delete()
            callers.let_play()
            check_stored(client, ['before'], 300)


def with_first_pod_first(text):
    """The map in which pod 0 has the first address of each shard."""
    def turn(line):
        addresses = line[1].split()
        return 'address = ' + ' '.join(sorted(addresses, key=lambda address: not address.startswith('scree-backend-a-0.')))
    return re.sub(r'(?m)^address = (.*)$', turn, text)


@suite.case('copies: a backup whose shards lie on several volumes is restored into one pod, and the others fetch it, as the guide says')
def _(run):
    with copies_node() as node:
        up_with_copies(node, 1)
        text = data_of(node.objects.get('ConfigMap', 'scree-proxy-config'))['shards.ini']
        with client_of(node) as client:
            wait_settled(client, 1)
            store(client, 'before', 300)
            check(not isinstance(client.get('SCREE', 'BACKUP', 'START', 'WAIT'), ReplyError), 'a backup')
            pods = [node.backends['a', index] for index in range(3)]
            for pod in pods:
                pod.delete()
                if pod is not pods[0]:
                    shutil.rmtree(os.path.join(pod.claim, 'data', 'data'))
            publish_map(node, with_first_pod_first(text).replace('epoch = 1', 'epoch = 2'))
            restore(node, pods[0], backups_of(pods), 'a-0,a-1')
            for index in range(3):
                node.start_backend(index, 'a')
            for index in range(3):
                node.backends['a', index].wait_ready()
            wait_all_vote(node)
            check_stored(client, ['before'], 300)


def restore_backend(node, index):
    """Follows docs/kubernetes.md: the pod is stopped, a pod with its volumes restores into an empty data directory, the
    pod starts."""
    pod = node.backends[index]
    pod.delete()
    restore(node, pod, backups_of([pod]), 'backend-%d-0,backend-%d-1' % (index, index))
    node.start_backend(index).wait_ready()


def backups_of(pods):
    """The folders of the backups on the volumes of these pods."""
    return [os.path.join(folder, name) for folder in (os.path.join(pod.claim, 'backups') for pod in pods) for name in os.listdir(folder)]


def restore(node, pod, backups, shards):
    """A pod with the volumes of this one, which has ended, restores the shards into an empty data directory."""
    data = os.path.join(pod.claim, 'data', 'data')
    shutil.rmtree(data)
    context = pod.spec['securityContext']
    done = subprocess.run(['setpriv', '--reuid', str(context['runAsUser']), '--regid', str(context['runAsGroup']), '--clear-groups',
                           binary('scree-backend'), '--data', data, '--restore', ','.join(backups),
                           '--map', os.path.join(node.volumes['scree-proxy-config'].folder, 'shards.ini'), '--shard', shards],
                          capture_output=True, text=True)
    check(done.returncode == 0, done.stdout + done.stderr)


def made_backups(node):
    """The shards' directories in complete backups on the volumes."""
    return len(glob.glob(os.path.join(node.folder, 'claim-*/backups/*/backend-*/MANIFEST.sha256')))


if __name__ == '__main__':
    REASON = None if '--list' in sys.argv or '--help' in sys.argv else enter_node()
    suite.main()
