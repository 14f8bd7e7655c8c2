#!/usr/bin/python3
"""Hot requests allocate no memory: jemalloc's count of allocations at the end of two runs that differ only in requests.

    run 1: start, prepare, N requests, stop          the programs print their counts when they end
    run 2: start, prepare, N + M requests, stop      (difference of both counts) / M = allocations per request

Turns of the loop, commits and clock ticks may allocate a little; a request may not. Each turn has hundreds of requests
here, so one allocation per request would be far above the limit.
"""

import json

from support.cluster import Cluster, binary, is_sanitized
from support.harness import Skip, Suite, check
from support.resp import Connection, encode

PREPARED, MORE, AT_ONCE = 20000, 100000, 500
LIMIT = 0.25  # per request

suite = Suite(__doc__)


def pipelined(address, requests, count):
    """Sends the requests repeatedly, AT_ONCE at a time, until there are `count` replies."""
    data = [encode(request) for request in requests]
    with Connection(address, proto=2) as connection:
        for start in range(0, count, AT_ONCE):
            connection.send_raw(b''.join(data[(start + i) % len(data)] for i in range(AT_ONCE)))
            for _ in range(AT_ONCE):
                connection.read()


def allocations(log_path):
    """The number of allocations that the program printed when it ended."""
    with open(log_path) as file:
        text = file.read()
    merged = json.JSONDecoder().raw_decode(text[text.index('{"jemalloc"'):])[0]['jemalloc']['stats.arenas']['merged']
    return merged['small']['nrequests'] + merged['large']['nrequests']


def count_once(prepare, requests, count, durability, through_proxy):
    with Cluster(backends=1, partitions=1, proxies=1 if through_proxy else 0,
                 backend_options={'backend': {'durability': durability}}) as cluster:
        counted = cluster.proxies[0] if through_proxy else cluster.backends[0]
        counted.stop()
        counted.extra_env['MALLOC_CONF'] = 'stats_print:true,stats_print_opts:Jgdablxe'
        counted.start()
        address = counted.address if through_proxy else counted.addresses[0]
        pipelined(address, prepare, PREPARED)
        pipelined(address, requests, count)
        counted.stop()
        found = allocations(counted.log_path)
        counted.start()
    return found


def check_none(run, name, prepare, requests, durability='os', through_proxy=False):
    if is_sanitized(binary('scree-backend')):
        raise Skip('a sanitizer has its own allocator')
    few = count_once(prepare, requests, MORE // 10, durability, through_proxy)
    many = count_once(prepare, requests, MORE + MORE // 10, durability, through_proxy)
    each = (many - few) / MORE
    run.note('%s: %.4f allocations a request' % (name, each))
    check(each < LIMIT, '%s: %.3f allocations for each request, at most %.2f are for its turn' % (name, each, LIMIT))


SETS = [['SET', 'key:%d' % i, 'x' * 64] for i in range(1000)]
GETS = [['GET', 'key:%d' % i] for i in range(1000)]
HSETS = [['HSET', 'hash:%d' % (i % 100), 'field:%d' % (i // 100), 'x' * 64] for i in range(1000)]
HGETS = [['HGET', 'hash:%d' % (i % 100), 'field:%d' % (i // 100)] for i in range(1000)]


@suite.case('a partition allocates nothing for a GET')
def _(run):
    check_none(run, 'GET', SETS, GETS)


@suite.case('a partition allocates nothing for an HGET')
def _(run):
    check_none(run, 'HGET', HSETS, HGETS)


@suite.case('a partition allocates nothing for a SET')
def _(run):
    check_none(run, 'SET', SETS, SETS)


@suite.case('a proxy allocates nothing for a GET, SET or HGET')
def _(run):
    mixed = [request for three in zip(SETS, GETS, HGETS) for request in three]
    check_none(run, 'GET, SET, HGET', SETS + HSETS, mixed, through_proxy=True)


suite.main()
