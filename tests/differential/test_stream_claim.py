#!/usr/bin/python3
"""XREADGROUP CLAIM delivers the entries that XPENDING shows as idle for long enough, the longest idle ones first.

Random groups: entries are delivered, claimed, made old by XCLAIM, acknowledged, removed and trimmed; consumers and groups come
and go; the stream is restored, copied and read from disk. XPENDING, XRANGE and XREADGROUP are one transaction, so that all
of them see the same idle times.
"""

import random

from support.cluster import Cluster, evict_all
from support.harness import Suite, check, check_equal, sized

suite = Suite(__doc__, lambda parser: parser.add_argument('--rounds', type=int, default=sized(6, long=100), help='random streams'))


def claim(client, least, count):
    """Claims entries. Returns what is expected and what was delivered: (id, idle, deliveries)."""
    client.get('MULTI')
    client.get('XPENDING', 's', 'g', '-', '+', 1000000)
    client.get('XRANGE', 's', '-', '+')
    client.get('XINFO', 'GROUPS', 's')
    client.get('XREADGROUP', 'GROUP', 'g', 'claimer', *(['COUNT', count] if count else []), 'CLAIM', least, 'STREAMS', 's', '>')
    pending, entries, (group,), reply = client.get('EXEC')
    there = [entry[0] for entry in entries]
    number = {one: [int(part) for part in one.split(b'-')] for one in there}
    old = [(one, idle, deliveries) for one, _, idle, deliveries in pending if idle >= least and one in number]
    last = [int(part) for part in dict(zip(group[::2], group[1::2]))[b'last-delivered-id'].split(b'-')]
    new = [(one, 0, 0) for one in there if number[one] > last]
    expected = sorted(old, key=lambda one: (-one[1], number[one[0]])) + new
    got = [] if reply is None else [(one[0], one[2], one[3]) for one in reply[0][1]]
    return expected[:count or None], got


def random_id(rng, ids):
    return rng.choice(ids or ['1-0'])


def change(rng, client, ids):
    """Makes one random change to the stream 's' and its group 'g'."""
    consumer = rng.choice(['a', 'b', 'claimer'])
    some = [random_id(rng, ids) for _ in range(rng.randint(1, 5))]
    kind = rng.random()
    if kind < 0.3:
        for _ in range(rng.randint(1, 30)):
            ids.append(client.get('XADD', 's', '*', 'f', 'v').decode())
    elif kind < 0.5:
        client.get('XREADGROUP', 'GROUP', 'g', consumer, 'COUNT', rng.randint(1, 40), 'STREAMS', 's', '>')
    elif kind < 0.65:
        client.get('XCLAIM', 's', 'g', consumer, 0, *some, 'IDLE', rng.choice([0, 50, 1000, 1000, 5000, 10 ** 7]))
    elif kind < 0.75:
        client.get('XACK', 's', 'g', *some)
    elif kind < 0.8:
        client.get(*rng.choice([('XDEL', 's', *some), ('XDELEX', 's', 'DELREF', 'IDS', len(some), *some),
                                ('XTRIM', 's', 'MAXLEN', rng.randint(5, 60)), ('XTRIM', 's', 'MAXLEN', rng.randint(5, 60), 'DELREF')]))
    elif kind < 0.84:
        client.get('XAUTOCLAIM', 's', 'g', consumer, rng.choice([0, 100]), '0', 'COUNT', 5)
    elif kind < 0.88:
        client.get('XGROUP', 'DELCONSUMER', 's', 'g', consumer)
    elif kind < 0.9:
        client.get('XGROUP', 'DESTROY', 's', 'g')
        client.get('XGROUP', 'CREATE', 's', 'g', random_id(rng, ids))
    elif kind < 0.93:
        check_equal(client.get('RESTORE', 's', 0, client.get('DUMP', 's'), 'REPLACE'), b'OK')
    elif kind < 0.96:
        check_equal(client.get('RENAME', 's', 't'), b'OK')
        check_equal(client.get('COPY', 't', 's'), 1)
        client.get('DEL', 't')
    else:
        evict_all(client)


@suite.case('CLAIM delivers what XPENDING shows as idle for long enough, whatever happened to the group before')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        with cluster.partition(0) as client:
            claimed = 0
            for number in range(run.options.rounds):
                rng = random.Random(run.seed + number)
                client.get('FLUSHALL')
                client.get('XGROUP', 'CREATE', 's', 'g', '0', 'MKSTREAM')
                ids = []
                for _ in range(200):
                    change(rng, client, ids)
                    if rng.random() < 0.3:
                        expected, got = claim(client, rng.choice([0, 40, 500, 4000, 10 ** 6]), rng.choice([0, 1, 3, 20]))
                        check_equal(got, expected, 'round %d' % number)
                        claimed += sum(one[2] > 0 for one in got)
            check(claimed > 10 * run.options.rounds, 'only %d entries were claimed' % claimed)


if __name__ == '__main__':
    suite.main()
