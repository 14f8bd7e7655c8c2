#!/usr/bin/python3
"""Commands, scripts and transactions with keys of several shards, at the shard that coordinates them (SCREE ACROSS)."""

from support.cluster import Cluster, even_slots
from support.harness import Suite, check_equal, wait_for

SHARDS = 3

suite = Suite(__doc__)


class Linked(Cluster):
    """Three backends that know the shard map, without a proxy."""

    def __init__(self, options=None):
        super().__init__(backends=SHARDS, partitions=1, proxies=0)
        for backend in self.backends:
            backend.options = {'backend': dict(options or {}, shards=self.shards_path)}

    def __enter__(self):
        self.slots = even_slots(SHARDS)
        self.write_shards()
        super().__enter__()
        wait_for(lambda: all(self.has_links(index) for index in range(SHARDS)), 'the backends to be linked')
        return self

    def has_links(self, index):
        with self.partition(index) as connection:
            return b'peers_links_up:%d' % (SHARDS - 1) in connection.get('INFO', 'peers')

    def proxy_connection(self, index, proto=2):
        """A connection as a proxy makes it: it knows the slots of the shard, and may use SCREE ACROSS."""
        connection = self.partition(index)
        check_equal(connection.get('SCREE', 'AUTH', self.secret), b'OK')
        if proto == 3:
            connection.get('HELLO', '3')
        check_equal(connection.get('SCREE', 'SLOTS', self.slots[index]), b'OK')
        return connection


def across(connection, *words):
    return connection.get('SCREE', 'ACROSS', *words)


@suite.case('commands with keys of three shards do what one Redis does')
def _(run):
    with Linked() as cluster:
        shards = [cluster.proxy_connection(i) for i in range(SHARDS)]
        a, b, c = [cluster.key_on(i) for i in range(SHARDS)]
        check_equal(across(shards[0], 'MSET', a, '1', b, '2', c, '3'), b'OK')
        check_equal([connection.get('GET', key) for connection, key in zip(shards, (a, b, c))], [b'1', b'2', b'3'])
        check_equal(across(shards[1], 'MGET', a, b, c), [b'1', b'2', b'3'])
        check_equal(across(shards[0], 'RENAME', a, b), b'OK')
        check_equal([connection.get('GET', key) for connection, key in zip(shards, (a, b, c))], [None, b'1', b'3'])
        check_equal([connection.get('DBSIZE') for connection in shards], [0, 1, 1])


if __name__ == '__main__':
    suite.main()
