#!/usr/bin/python3
"""Clients that know Redis Cluster, at shards with several copies: each copy is a node, with the replies of redis-server's masters and replicas."""

import contextlib
import json
import logging
import os
import re
import subprocess
import threading

import redis.cluster

from support.cluster import Oracle, free_ports
from support.copies import UNHURRIED, Copies, TwoVoterShards, Voters
from support.harness import Suite, check, check_equal, patience, wait_for
from support.node import installed
from support.resp import Closed, Connection, show

COPIES = 3
REPLICAS = COPIES - 1

suite = Suite(__doc__)
logging.disable()  # redis-py logs each MOVED


# ---- redis-server --------------------------------------------------------------------------------


class Group:
    """A master and its replicas: their addresses and ids, the master first."""

    def __init__(self, addresses):
        self.addresses = [address[:2] for address in addresses]
        self.ids = []
        for index in range(COPIES):
            with self.at(index) as node:
                self.ids.append(node.get('CLUSTER', 'MYID').decode())

    def at(self, index, proto=2):
        return Connection(self.addresses[index], proto=proto)

    def clean(self, text):
        """Without what differs: ids, addresses, offsets, times and epochs. A replica is like the other."""
        for name, index in zip(self.ids, range(COPIES)):
            port = self.addresses[index][1]
            word = 'master' if index == 0 else 'replica'
            text = text.replace(name, '<id of %s>' % word)
            text = re.sub(r'127\.0\.0\.1:%d@\d+' % port, '<address of %s>' % word, text)
            text = re.sub(r'(?<!\d)%d(?!\d)' % port, '<port of %s>' % word, text)
        text = re.sub(r"(\$'replication-offset', :')[1-9]\d*", r'\1N', text)
        return re.sub(r' 0 \d+ \d+ ((?:dis)?connected)', r' \1', text)


def start_oracle(stack):
    buses = [free_ports() for _ in range(COPIES)]
    oracles = [stack.enter_context(Oracle(options=['--cluster-enabled', 'yes', '--cluster-node-timeout', '60000', '--cluster-port', str(bus),
                                                   '--repl-diskless-sync-delay', '0'])) for bus in buses]
    with Connection(oracles[0].address) as master:
        check_equal(master.get('CLUSTER', 'ADDSLOTSRANGE', 0, 16383), b'OK')
        name = master.get('CLUSTER', 'MYID')
        for oracle in oracles[1:]:
            with Connection(oracle.address) as replica:
                replica.get('CLUSTER', 'MEET', *oracles[0].address, buses[0])
                wait_for(lambda: replica.get('CLUSTER', 'REPLICATE', name) == b'OK', 'the oracle to be a replica')
        wait_for(lambda: master.get('SET', 'k', 'v') == b'OK', 'the oracle to serve')
    for oracle in oracles:
        with Connection(oracle.address) as node:
            wait_for(lambda: all_shown(node), 'the oracle to show its replicas')
    return Group([oracle.address for oracle in oracles])


def all_shown(node):
    """Does the node show all replicas, with their data, and none that has just been met?"""
    slots, nodes, role = node.get('CLUSTER', 'SLOTS'), node.get('CLUSTER', 'NODES'), node.get('ROLE')
    is_connected = len(role[2]) == REPLICAS if role[0] == b'master' else role[3] == b'connected'
    return (len(slots) == 1 and len(slots[0]) == 2 + COPIES and 'loading' not in repr(node.get('CLUSTER', 'SHARDS')) and is_connected and
            b'handshake' not in nodes and nodes.count(b'\n') == COPIES and b'cluster_state:ok' in node.get('CLUSTER', 'INFO'))


# ---- what is compared ------------------------------------------------------------------------------

REQUESTS = """
CLUSTER NODES
CLUSTER SLOTS
CLUSTER SHARDS
CLUSTER INFO
CLUSTER REPLICAS <master>
CLUSTER SLAVES <master>
CLUSTER REPLICAS <replica>
CLUSTER REPLICAS x
CLUSTER COUNT-FAILURE-REPORTS <replica>
ROLE
READONLY
READWRITE
WAIT 2 0
WAIT 3 20
WAIT x 0
WAIT 1 x
WAIT 1 -1
"""


def parts(words, text):
    """Nodes may be listed in any order; counters and positions differ."""
    if words[1:2] == ['NODES']:
        return sorted(text.rstrip("'").split("'", 1)[1].replace('txt:', '').split('\\n'))
    if words[1:2] == ['INFO']:
        return [field for field in text.split('\\r\\n') if not re.search('_epoch|_stats_', field)]
    if words == ['ROLE']:
        return re.sub(r"([:$]')\d+'", r"\1N'", text)
    return text


def reply_of(group, index, proto, words):
    words = [word.replace('<master>', group.ids[0]).replace('<replica>', group.ids[1]) for word in words]
    with group.at(index, proto) as node:
        return parts(words, group.clean(show(node.call(*words), limit=6000)))


def differences(oracle, scree):
    for line in REQUESTS.strip().splitlines():
        for index, proto in ((0, 2), (0, 3), (1, 2), (1, 3)):
            expected, found = (reply_of(group, index, proto, line.split()) for group in (oracle, scree))
            if expected != found:
                yield '%s at copy %d, RESP%d:\n  redis: %s\n  scree: %s' % (line, index, proto, expected, found)


@suite.case('copies that vote, and warm ones, reply as a master of redis-server and its replicas')
def _(run):
    with contextlib.ExitStack() as stack:
        oracle = start_oracle(stack)
        for kind in (Voters, Copies):
            with kind(backend_options=UNHURRIED) as copies, copies.leader() as leader:
                check_equal(leader.get('SET', 'k', 'v'), b'OK')
                copies.wait_follows(*copies.order[1:])
                for index in range(COPIES):
                    with copies.copy(index) as node:
                        wait_for(lambda: all_shown(node), 'all copies to be shown at %d' % index)
                scree = Group([copies.backends[index].addresses[0] for index in copies.order])
                found = list(differences(oracle, scree))
                check(not found, '%s: %d differences\n%s' % (kind.__name__, len(found), '\n'.join(found)))


# ---- failovers ---------------------------------------------------------------------------------------


class TwoGroups(TwoVoterShards):
    """Shards a and b with three copies each, that vote."""

    def __init__(self):
        super().__init__(proxies=0, backend_options=UNHURRIED)

    def wait_linked(self):
        super().wait_linked()
        for order in self.orders:
            self.wait_all_shown(*order)

    def wait_all_shown(self, *indexes):
        """Waits until these copies show all copies of both shards, with their data."""
        for index in indexes:
            wait_for(lambda: len(self.lines(index)) == 6 and not self.gone(index) and self.lengths(index) == [5, 5],
                     'copy %d to show all' % index, pause=0.05)

    def lengths(self, index):
        """Of the rows of CLUSTER SLOTS at a copy: 2 and the number of listed copies."""
        with contextlib.suppress(OSError, Closed), self.copy(index) as node:
            return sorted(map(len, node.get('CLUSTER', 'SLOTS')))
        return []

    def lines(self, index):
        """CLUSTER NODES at a copy: {index of a backend: its words}"""
        with contextlib.suppress(OSError, Closed), self.copy(index) as node:
            lines = [line.split() for line in node.get('CLUSTER', 'NODES').decode().splitlines()]
            ports = {backend.port: number for number, backend in enumerate(self.backends)}
            return {ports[int(re.search(r':(\d+)@', words[1]).group(1))]: words for words in lines}
        return {}

    def gone(self, index):
        """The backends that a copy shows as lost."""
        return [number for number, words in self.lines(index).items() if 'fail' in words[2]]

    def masters(self, index):
        return [number for number, words in sorted(self.lines(index).items()) if 'master' in words[2]]

    def wait_masters(self):
        """Waits until all copies show the copies that lead as masters."""
        leaders = [self.wait_leader_of(order) for order in self.orders]
        for index in range(len(self.backends)):
            wait_for(lambda: self.masters(index) == leaders, 'copy %d to show the masters' % index, pause=0.02)

    def leads(self, index):
        return self.phase(index) == 'serving'

    def wait_leader_of(self, order, *without):
        def found():
            leading = [index for index in order if index not in without and self.leads(index)]
            return (leading[0],) if leading else None
        return wait_for(found, 'a copy of %r to lead' % (order,), pause=0.05)[0]


@suite.case('after a failover all copies of all shards show the new master, and the lost one as a failed replica')
def _(run):
    with TwoGroups() as cluster:
        lost, other = [cluster.wait_leader_of(order) for order in cluster.orders]
        rest = [index for index in range(6) if index != lost]
        cluster.backends[lost].kill9()
        leader = cluster.wait_leader_of(cluster.orders[0], lost)
        for index in rest:
            wait_for(lambda: cluster.masters(index) == [leader, other] and cluster.gone(index) == [lost] and cluster.lengths(index) == [4, 5],
                     'copy %d to show the new master' % index, pause=0.05)

        def lost_one():
            words = cluster.lines(other)
            return words and (words[lost][2], words[lost][7], words[lost][3]) == ('slave,fail', 'disconnected', words[leader][0])
        wait_for(lost_one, 'the lost one to be a failed replica of the new master', pause=0.05)
        cluster.backends[lost].start()
        cluster.wait_all_shown(*range(6))


class Program:
    """failovers.js: runs until its input ends."""

    def __init__(self, folder, address, name):
        self.program = subprocess.Popen(['node', os.path.join(folder, 'failovers.js'), address[0], str(address[1]), name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check_equal(self.program.stdout.readline().strip(), b'begun', name)

    def end(self):
        output, _ = self.program.communicate(timeout=2 * patience())
        check_equal(self.program.returncode, 0)
        return json.loads(output)


class RedisPy(threading.Thread):
    """As failovers.js, with redis-py."""

    def __init__(self, address, name):
        super().__init__(daemon=True)
        self.address, self.keys = address, ['%s:%d' % (name, i) for i in range(12)]
        self.seen = {'writes': 0, 'errors': [], 'wrong': []}
        self.last, self.acknowledged = 0, dict.fromkeys(self.keys, 0)
        self.is_over = False
        self.client = redis.cluster.RedisCluster(*address)
        self.start()
        wait_for(lambda: self.seen['writes'] > 200, 'redis-py to begin')

    def run(self):
        while not self.is_over:
            self.last += 1
            for key in self.keys:
                try:
                    self.client.set(key, self.last)
                    self.acknowledged[key] = self.last
                    self.seen['writes'] += 1
                except Exception as error:  # the case reports it
                    self.seen['errors'].append('%s: %s' % (type(error).__name__, error))

    def check(self, client):
        for key in self.keys:
            value = int(client.get(key) or 0)
            if not self.acknowledged[key] <= value <= self.last:
                self.seen['wrong'].append('%s: %d, acknowledged %d' % (key, value, self.acknowledged[key]))

    def end(self):
        self.is_over = True
        self.join()
        self.check(self.client)
        return self.seen


def with_clients(cluster, during):
    """Runs `during` while all clients write; what each of them saw."""
    at = cluster.backends[0].addresses[0][:2]
    with installed('ioredis') as ioredis, installed('node_redis') as node_redis:
        clients = {'redis-py': RedisPy(at, 'rp'), 'ioredis': Program(ioredis, at, 'io'), 'node-redis': Program(node_redis, at, 'nr')}
        during(clients)
        return {name: client.end() for name, client in clients.items()}


@suite.case('redis-py, ioredis and node-redis as cluster clients see no error when the lead is handed over, back and forth')
def _(run):
    def during(clients):
        for order in cluster.orders * 2:
            leader = cluster.wait_leader_of(order)
            target = next(index for index in order if index != leader)

            def handed_over():
                """A leader gives up handing over when the other copy does not take the lead soon."""
                with contextlib.suppress(OSError, Closed), cluster.copy(leader) as node:
                    node.get('SCREE', 'LEADER', 'TO', '%s:%d' % cluster.backends[target].addresses[0][:2])
                return cluster.leads(target)
            wait_for(handed_over, 'copy %d to lead' % target, pause=0.05)
            cluster.wait_masters()  # node-redis leaves a master that some node does not show yet, and loses what it has sent there

    with TwoGroups() as cluster:
        for name, seen in with_clients(cluster, during).items():
            check_equal((name, seen['errors'][:5], seen['wrong']), (name, [], []))


suite.main()
