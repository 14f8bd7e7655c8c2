#!/usr/bin/python3
"""The differential runner itself: it finds no difference between two redis-servers, and finds one when a server is
changed.
"""

import random

import test_random
from support.cluster import Oracle
from support.harness import Suite, check
from support.relay import Relay

# One command replaced by another of the same length, which looks like a wrong handler.
MUTATIONS = [(b'APPEND', b'GETSET'), (b'INCRBY\r\n', b'DECRBY\r\n'), (b'PEXPIRE', b'PERSIST'), (b'HKEYS', b'HVALS'),
             (b'UNLINK', b'EXISTS'), (b'GETDEL', b'STRLEN'), (b'MSETNX', b'EXISTS'), (b'$4\r\nEXEC', b'$4\r\nPING')]


def two_servers(body):
    with Oracle() as one, Oracle() as two:
        body(one, two)


suite = Suite(__doc__, test_random.options)


@suite.case('two redis-servers show no difference')
def _(run):
    def body(one, two):
        for through_proxy in (False, True):
            reports = test_random.explore(run, one.address, [two.address], through_proxy, run.options.seconds)
            check(not reports, '%d differences' % len(reports))
    two_servers(body)


@suite.case('a redis-server with one command replaced by another is detected, with a short stream')
def _(run):
    def body(one, two):
        old, new = random.Random(run.seed).choice(MUTATIONS)
        run.note('%r becomes %r' % (old, new))
        relay = Relay(two.address, change=(old, new))
        patience = 40 * run.options.seconds  # some mutations show up in only one of fifty streams
        reports = test_random.explore(run, one.address, [relay.address], False, patience, max_failures=1)
        relay.stop()
        check(reports, 'nobody noticed')
        shortest = min(text.count('\n') for text in reports.values())
        check(shortest <= 8, 'not shrunk enough: %d lines' % shortest)
    two_servers(body)


if __name__ == '__main__':
    suite.main()
