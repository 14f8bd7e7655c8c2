"""in_doubt.py - leaves a transaction over three shards in doubt.

leave_in_doubt(cluster)                       # shard 1, which decides, was killed; shards 0 and 2 are prepared
cluster.backends[1].start()                   # the transaction ends
"""

import re

from support.harness import check_equal, wait_for

TRANSACTIONS = 20


def names(connection, pattern):
    """The transactions of SCREE TRANSACTIONS whose lines match."""
    lines = connection.get('SCREE', 'TRANSACTIONS')
    return {re.match(rb'id=(\S+)', line)[1] for line in lines if re.search(pattern, line)}


def leave_in_doubt(cluster):
    """The cluster has three linked shards."""
    commands = [words for i in range(TRANSACTIONS) for words in
                [['MULTI'], *(['SET', cluster.key_on(n), i] for n in range(3)), ['SCREE', 'ACROSS', 'EXEC']]]
    with cluster.partition(0) as first, cluster.partition(1) as deciding, cluster.partition(1) as looking:
        for connection in (first, deciding, looking):
            check_equal(connection.get('SCREE', 'AUTH', cluster.secret), b'OK')
        check_equal(deciding.get('SCREE', 'SLOTS', cluster.slots[1]), b'OK')

        def waiting():
            """Transactions that are prepared at shard 0 and wait for one other shard."""
            return names(first, rb'state=prepared waits_for=coordinator') & names(looking, rb'state=preparing outstanding=1$')

        def stop_when_prepared():
            deciding.send_many(commands)
            cluster.backends[2].pause()
            found = waiting()
            if found and all(waiting() == found for _ in range(20)):
                return True
            cluster.backends[2].resume()
            for _ in commands:
                deciding.read()
            return False
        wait_for(stop_when_prepared, 'a transaction that waits for shard 2 to be prepared')
        cluster.backends[1].kill9()
    cluster.backends[2].resume()
