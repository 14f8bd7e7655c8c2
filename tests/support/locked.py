"""A key that a transaction over shards has locked, for as long as a test wants."""

from support.harness import check_equal, wait_for
from support.resp import value

# Of each backend, so that nothing ends a wait but the test: no time of the shards; and a shard that is paused is not taken for lost.
PATIENT = {'peer-timeout': '10m', 'transaction-timeout': '10m', 'lock-timeout': '10m'}


class Locked:
    """While it lasts, a transaction of shard 1 has locked `key` of shard 0, or the other way round, and waits for a key of shard 2, which is paused."""

    def __init__(self, cluster, shard=0):
        self.cluster, self.shard, self.key = cluster, shard, cluster.key_on(shard, 'locked')

    def __enter__(self):
        self.cluster.backends[2].pause()
        self.holder = self.cluster.connect()
        self.holder.send('MSETNX', self.cluster.key_on(1 - self.shard, 'own'), 1, self.key, 1, self.cluster.key_on(2, 'far'), 1)
        wait_for(self.is_locked, 'the key to be locked')
        return self

    def is_locked(self):
        with self.cluster.partition(self.shard) as shard:
            shard.get('SCREE', 'AUTH', self.cluster.secret)
            return b'role=participant' in b' '.join(shard.get('SCREE', 'TRANSACTIONS'))

    def __exit__(self, *failure):
        self.cluster.backends[2].resume()
        if not failure[0]:
            check_equal(value(self.holder.read()), 1)
        self.holder.close()
