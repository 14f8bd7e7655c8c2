#!/usr/bin/python3
"""The number of rows that each command writes, alone in its batch. Every row is an insertion into a skip list and bytes
in the log.
"""

from support.cluster import Cluster
from support.harness import Suite, check_equal
from support.resp import Connection

suite = Suite(__doc__)

PREPARE = [
    'SET string v', 'SET number 1', 'SETBIT bits 50000 1', 'HSET hash f v g w', 'RPUSH list a b c d', 'SADD set m',
    'ZADD zset 1 one 2 two', 'XADD stream 1-1 f v', 'SIADD ints 1', 'PFADD hll a', 'JSON.SET json $ {"n":1}',
    'BF.ADD bloom a', 'CMS.INITBYDIM sketch 100000 4', 'CMS.INCRBY sketch a 1',
    'TDIGEST.CREATE digest COMPRESSION 1', 'TDIGEST.ADD digest 1',
    'TOPK.RESERVE top 2', 'TOPK.INCRBY top a 5 b 1', 'TOPK.RESERVE wide 2 100000 4 0.9', 'TOPK.INCRBY wide a 5 b 3',
]

# Commands in their order, with the rows they write. A change of a slot's number of keys, or of keys with a TTL, is a
# row too.
ROWS = [
    ('SET string w', 1), ('INCR number', 1), ('APPEND string x', 1), ('SETBIT bits 100 1', 1), ('SETBIT bits 100 1', 0),
    ('HSET hash f x', 1), ('HSET hash f x g y', 2), ('HINCRBY hash n 1', 2), ('HINCRBY hash n 1', 1), ('HDEL hash n', 2),
    ('HDEL hash none', 0), ('LSET list 0 z', 1), ('LPUSH list y', 2), ('RPUSH list 1 2 3', 4), ('LPOP list', 2),
    ('SADD set n', 2), ('SADD set n', 0), ('ZADD zset 3 one', 3), ('ZADD zset 3 one', 0), ('ZADD zset 4 four', 3),
    ('XADD stream 1-2 f v', 2), ('SIADD ints 2', 2), ('PFADD hll a', 0), ('JSON.NUMINCRBY json $.n 1', 1),
    ('BF.ADD bloom b', 2), ('BF.ADD bloom b', 0), ('BF.EXISTS bloom c', 0),
    ('CMS.INCRBY sketch a 1', 5), ('CMS.INCRBY sketch b 1', 5), ('CMS.INCRBY sketch a 0', 0), ('CMS.QUERY sketch a c', 0),
    ('TDIGEST.ADD digest 2', 1), ('TDIGEST.ADD digest 3', 1), ('TDIGEST.ADD digest 4', 2), ('TDIGEST.ADD digest 5', 1), ('TDIGEST.QUANTILE digest 0.5', 0),
    ('TOPK.ADD top a', 5), ('TOPK.ADD top a a a', 7), ('TOPK.ADD top b', 5), ('TOPK.ADD top c', 1), ('TOPK.INCRBY top a 0', 0), ('TOPK.LIST top', 0),
    ('TOPK.ADD wide a', 8), ('TOPK.ADD wide c', 5), ('TOPK.ADD wide c', 4), ('TOPK.ADD wide c', 9),
    ('EXPIRE string 1000', 3), ('EXPIRE hash 1000', 3), ('HSET hash f z', 1), ('PERSIST hash', 3), ('PERSIST hash', 0),
    ('GET string', 0), ('HGETALL hash', 0), ('DEL string', 3),
]


def rows_written(client):
    info = client.get('INFO', 'scree').decode()
    return int(info.split('commit_rows:')[1].split()[0])


@suite.case('each command writes the rows that change, and no others')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster, Connection(cluster.backends[0].addresses[0]) as client:
        for command in PREPARE:
            client.get(*command.split())
        found = []
        for command, _ in ROWS:
            before = rows_written(client)
            client.get(*command.split())
            rows = rows_written(client) - before
            found.append((command, rows - 1 if rows else 0))  # without the batch's own row
        check_equal(found, ROWS)


if __name__ == '__main__':
    suite.main()
