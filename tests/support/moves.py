"""moves.py - slots that move between the shards of a cluster: random maps, and waiting until they are carried out."""

import threading

from support.cluster import SLOTS
from support.harness import wait_for

RANGES = 16


def fields(line):
    return dict(word.split('=', 1) for word in line.decode().split(' ') if '=' in word)


def shard_lines(connection):
    """The lines of SCREE MOVES: the first one is of the partition, each further one of a move."""
    return [fields(line) for line in connection.get('SCREE', 'MOVES')]


def is_settled(cluster, shards):
    """Have these shards the newest map, and all slots that it gives them?"""
    for shard in shards:
        try:
            with cluster.partition(shard) as partition:
                line = shard_lines(partition)[0]
        except OSError:  # it is being restarted
            return False
        if line['settled'] != 'yes' or line['map_epoch'] != str(cluster.epoch):
            return False
    return True


def wait_settled(cluster, shards=(0, 1)):
    wait_for(lambda: is_settled(cluster, shards), 'the shards to have the slots of their map', 120)


def random_slots(rng, shards):
    """Each shard's slots, in which each sixteenth of all slots has a random owner."""
    size = SLOTS // RANGES
    owners = [rng.randrange(shards) for _ in range(RANGES)]
    return [' '.join('%d-%d' % (i * size, i * size + size - 1) for i in range(RANGES) if owners[i] == shard)
            for shard in range(shards)]


class Mover:
    """Between enter and exit, gives the cluster a new random map every `pause` seconds."""

    def __init__(self, cluster, shards, rng, pause):
        self.cluster, self.shards, self.rng, self.pause = cluster, shards, rng, pause
        self.is_over = threading.Event()
        self.maps = 0

    def run(self):
        while not self.is_over.wait(self.pause):
            self.cluster.write_shards(random_slots(self.rng, self.shards))
            self.maps += 1

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self.is_over.set()
        self.thread.join()
        return False
