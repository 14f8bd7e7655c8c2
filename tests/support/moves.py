"""moves.py - slots that move between the shards of a cluster: random maps, and waiting until they are carried out."""

import threading

from support.cluster import SLOTS
from support.harness import Failure, check, check_equal, wait_for
from support.resp import Closed, ReplyError

RANGES = 16


def fields(line):
    return dict(word.split('=', 1) for word in line.decode().split(' ') if '=' in word)


def forced_slots(reply):
    """The number of slots that a shard takes from lost ones; None: it cannot say yet, because others have not answered."""
    return None if isinstance(reply, ReplyError) else int(fields(reply[0])['forced'])


def shard_lines(connection):
    """The lines of SCREE MOVES: the first one is of the partition, each further one of a move."""
    return [fields(line) for line in connection.get('SCREE', 'MOVES')]


def is_settled(cluster, shards):
    """Have these shards the newest map, and all slots that it gives them?"""
    for shard in shards:
        try:
            with cluster.partition(shard) as partition:
                line = shard_lines(partition)[0]
        except (OSError, Closed):  # it is being restarted
            return False
        if line['settled'] != 'yes' or line['map_epoch'] != str(cluster.epoch):
            return False
    return True


def wait_settled(cluster, shards=(0, 1)):
    try:
        wait_for(lambda: is_settled(cluster, shards), 'the shards to have the slots of their map', 120)
    except Failure as failure:
        raise Failure('%s\n%s' % (failure, '\n'.join(describe(cluster, shards))))


def describe(cluster, shards):
    """Lines about what the shards move, and the transactions that may hold up moves."""
    for shard in shards:
        with cluster.partition(shard) as partition:
            for words in (['SCREE', 'MOVES'], ['SCREE', 'TRANSACTIONS']):
                for line in partition.get(*words) or ():
                    yield 'shard %d: %s' % (shard, line)


def random_slots(rng, shards):
    """Each shard's slots, in which each sixteenth of all slots has a random owner."""
    size = SLOTS // RANGES
    owners = [rng.randrange(shards) for _ in range(RANGES)]
    return [' '.join('%d-%d' % (i * size, i * size + size - 1) for i in range(RANGES) if owners[i] == shard)
            for shard in range(shards)]


class Direct:
    """A connection with the interface of a client that chooses the connection by the key."""

    def __init__(self, connection):
        self.connection = connection

    def get(self, *words, key=None):
        del key
        return self.connection.get(*words)


def fill(client, count):
    """Keys of all types, some with a TTL. Returns their names."""
    keys = []
    for i in range(count):
        stream = 'stream:%d' % i
        commands = [('SET', 'string:%d' % i, 'value' * (i % 50)), ('SETBIT', 'bits:%d' % i, 20000 + i, 1),
                    ('RPUSH', 'list:%d' % i, *range(i % 40 + 1)), ('HSET', 'hash:%d' % i, 'field', i, 'other', 'x' * i),
                    ('SADD', 'set:%d' % i, *range(i % 30 + 1)), ('ZADD', 'zset:%d' % i, i, 'a', -i, 'b', 7, 'c'),
                    ('XADD', stream, '%d-1' % (i + 1), 'f', i), ('PFADD', 'hll:%d' % i, i, i + 1),
                    ('JSON.SET', 'json:%d' % i, '$', '{"n":%d}' % i), ('SIADD', 'ints:%d' % i, i, i + 5), ('BF.ADD', 'bloom:%d' % i, i),
                    ('CMS.INITBYDIM', 'cms:%d' % i, 200, 3), ('TDIGEST.CREATE', 'digest:%d' % i), ('TOPK.RESERVE', 'top:%d' % i, 3),
                    ('HSET', 'fields:%d' % i, 'field', i, 'other', 'x' * i)]
        for words in commands:
            reply = client.get(*words)
            check(not isinstance(reply, ReplyError), '%r: %r' % (words, reply))
            keys.append(words[1])
            if i % 3 == 0:
                check_equal(client.get('PEXPIREAT', words[1], 4000000000000 + i), 1)
        check_equal(client.get('CMS.INCRBY', 'cms:%d' % i, 'x', 1), [1])
        check_equal(client.get('TDIGEST.ADD', 'digest:%d' % i, *range(i % 50 + 1)), b'OK')
        check_equal(client.get('TOPK.ADD', 'top:%d' % i, 'x', 'y', 'x'), [None, None, None])
        check_equal(client.get('HPEXPIREAT', 'fields:%d' % i, 4000000000000 + i, 'FIELDS', 1, 'field'), [1])
        check_equal(client.get('XGROUP', 'CREATE', stream, 'group', 0, key=stream), b'OK')
        client.get('XREADGROUP', 'GROUP', 'group', 'reader', 'STREAMS', stream, '>', key=stream)
    return keys


def dumps(client, keys):
    return {key: (client.get('TYPE', key), client.get('PEXPIRETIME', key), client.get('DUMP', key),
                  client.get('HPEXPIRETIME', key, 'FIELDS', 1, 'field') if key.startswith('fields') else None,
                  client.get('XPENDING', key, 'group') if key.startswith('stream') else None)
            for key in keys}


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
