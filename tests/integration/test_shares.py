#!/usr/bin/python3
"""What clients share is given out fairly: no command, client or namespace takes all of a proxy."""

from support.cluster import Cluster
from support.harness import Suite, check, check_equal

suite = Suite(__doc__)


def wrong_number(client, *words):
    kind, text = client.call(*words)
    return kind == '-' and text.startswith(b'ERR wrong number of arguments')


@suite.case('commands of the server take as many names as clients need: COMMAND DOCS with a million names is refused at once')
def _(run):
    short = [['COMMAND', 'DOCS'], ['COMMAND', 'INFO'], ['CONFIG', 'GET'], ['CLIENT', 'LIST', 'ID'], ['LATENCY', 'RESET']]
    long = [['SCRIPT', 'EXISTS'], ['PUBSUB', 'NUMSUB'], ['PUBSUB', 'SHARDNUMSUB']]
    with Cluster(backends=1, partitions=1) as cluster, cluster.connect() as client, cluster.partition(0) as shard:
        for target in (client, shard):
            for words in short:
                check(not wrong_number(target, *words, *range(1, 500)), '%r with 500 names' % words)
                check(wrong_number(target, *words, *range(1, 1500)), '%r with 1500 names' % words)
            for words in long:
                check_equal(target.call(*words, *range(1, 20000))[0], '*', repr(words))
                check(wrong_number(target, *words, *range(1, 70000)), '%r with 70000 names' % words)


@suite.case('a reply that the proxy makes ends at client-output-limit, with an error, and the connection goes on')
def _(run):
    with Cluster(backends=1, partitions=1, proxy_options={'proxy': {'client-output-limit': '1mb'}}) as cluster, cluster.connect() as client:
        kind, text = client.call('COMMAND', 'DOCS', *['scree'] * 1000)
        check_equal((kind, b'client-output-limit' in text), ('-', True), text[:200])
        check_equal(client.call('PING'), ('+', b'PONG'))
        check_equal(client.call('COMMAND', 'DOCS', 'get')[0], '*')


suite.main()
