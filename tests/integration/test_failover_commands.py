#!/usr/bin/python3
"""FAILOVER and CLUSTER FAILOVER: a copy takes the lead when an operator asks, or the reply says why it does not."""

import threading

from support.cluster import Cluster, Oracle, free_ports
from support.copies import UNHURRIED, Copies, Voters
from support.harness import Suite, check, check_equal, wait_for
from support.resp import Connection, ReplyError

suite = Suite(__doc__)

AT_MASTERS = """
CLUSTER FAILOVER
CLUSTER FAILOVER FORCE
CLUSTER FAILOVER takeover
CLUSTER FAILOVER x
CLUSTER FAILOVER FORCE TAKEOVER
FAILOVER
FAILOVER x
FAILOVER ABORT
"""

ALONE = """
FAILOVER
FAILOVER ABORT
FAILOVER ABORT x
FAILOVER TO
FAILOVER TO h
FAILOVER TO h x
FAILOVER TO h 1
FAILOVER TO h 1 TO h 1
FAILOVER TO h 1 TIMEOUT 0
FAILOVER TIMEOUT
FAILOVER TIMEOUT x
FAILOVER TIMEOUT -1
FAILOVER TIMEOUT 10 to h 1 force
FAILOVER FORCE
FAILOVER FORCE FORCE
"""


def differences(oracle, scree, requests):
    for words in map(str.split, requests.strip().splitlines()):
        expected, found = oracle.call(*words), scree.call(*words)
        if expected != found:
            yield '%s: redis %r, scree %r' % (' '.join(words), expected, found)


@suite.case('a master of a cluster, and a server without replicas, refuse as redis-server does')
def _(run):
    with Oracle(options=['--cluster-enabled', 'yes', '--cluster-port', str(free_ports())]) as oracle, Connection(oracle.address) as redis, \
            Voters(backend_options=UNHURRIED) as copies, copies.leader() as leader:
        check_equal(list(differences(redis, leader, AT_MASTERS)), [])
    with Oracle() as oracle, Connection(oracle.address) as redis, Cluster(backends=1, partitions=1, proxies=0) as alone, alone.partition(0) as partition:
        check_equal(list(differences(redis, partition, ALONE)), [])


class Writer(threading.Thread):
    """A client of a proxy."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.client, self.errors, self.last, self.is_over = cluster.connect(), [], 0, False
        self.start()

    def run(self):
        while not self.is_over:
            reply = self.client.get('SET', 'n', self.last + 1)
            if isinstance(reply, ReplyError):
                self.errors.append(str(reply))
            self.last += 1

    def end(self):
        self.is_over = True
        self.join()
        return self.errors


@suite.case('CLUSTER FAILOVER at a copy makes it the master, with FORCE too, and no client of a proxy sees an error')
def _(run):
    with Voters(proxies=1, backend_options=UNHURRIED) as copies:
        writer = Writer(copies)
        for words in ([], ['FORCE']) * 2:
            leader = copies.wait_leader()
            target = copies.order[1]
            copies.wait_follows(target)

            def asked():
                """Until the leader has the links and figures to say yes, it refuses, and says so in the log of the copy only."""
                with copies.copy(target) as copy:
                    reply = copy.get('CLUSTER', 'FAILOVER', *words)
                check(reply == b'OK' or 'cannot be reached' in str(reply) or 'to a replica' in str(reply), reply)
                return copies.serves(target)
            wait_for(asked, 'copy %d to lead instead of %d' % (target, leader))
        written = writer.last
        wait_for(lambda: writer.last > written, 'writes to go on')
        check_equal(writer.end(), [])


@suite.case('what would lose writes, or cannot be done, is refused with the reason')
def _(run):
    with Voters(backend_options=UNHURRIED) as copies:
        with copies.copy(copies.order[1]) as copy:
            check('SCREE REPLICAS FORCE' in str(copy.get('CLUSTER', 'FAILOVER', 'TAKEOVER')), 'TAKEOVER')
            check_equal(copy.call('CLUSTER', 'FAILOVER', 'now'), ('-', b'ERR syntax error'))
            for index in (copies.order[0], copies.order[2]):
                copies.backends[index].kill9()
            wait_for(lambda: 'cannot be reached' in str(copy.get('CLUSTER', 'FAILOVER')), 'the copy to miss its leader')
    with Copies(proxies=0) as copies:
        copies.wait_follows(1)
        with copies.copy(1) as copy:
            check('do not vote' in str(copy.get('CLUSTER', 'FAILOVER', 'FORCE')), 'warm copies')


if __name__ == '__main__':
    suite.main()
