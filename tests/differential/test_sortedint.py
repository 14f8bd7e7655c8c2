#!/usr/bin/python3
"""Sorted ints compared with a sorted list in Python: Redis does not have these commands."""

import random

from support.cluster import Cluster
from support.harness import Suite, check, check_equal
from support.resp import Connection, ReplyError

suite = Suite(__doc__)
LARGEST = 2 ** 64 - 1


def number(rng, crowd):
    if rng.random() < 0.02:
        return rng.choice([0, 1, LARGEST, LARGEST - 1, 2 ** 63])
    return rng.randrange(crowd)


def texts(numbers):
    return [b'%d' % number for number in numbers]


def range_words(rng, have, crowd):
    """A range command, and the numbers it must reply."""
    reverse = rng.random() < 0.5
    if rng.random() < 0.5:
        offset, count = rng.randrange(len(have) + 3), rng.randrange(12)
        words, found = ['SIREVRANGE' if reverse else 'SIRANGE', 'k', offset, count], have
        if rng.random() < 0.5:
            cursor = number(rng, crowd)
            words += ['cursor', cursor]
            found = [item for item in have if (item < cursor if reverse else item > cursor)]
        return words, (found[::-1] if reverse else found)[offset:offset + count]
    low, high = sorted((number(rng, crowd), number(rng, crowd)))
    open_low, open_high = rng.random() < 0.3, rng.random() < 0.3
    found = [item for item in have if (low < item if open_low else low <= item) and (item < high if open_high else item <= high)]
    bounds = ['(%d' % low if open_low else low, '(%d' % high if open_high else high]
    if rng.random() < 0.2:
        bounds, found = ['-inf', '+inf'], have
    words = ['SIREVRANGEBYVALUE', 'k'] + bounds[::-1] if reverse else ['SIRANGEBYVALUE', 'k'] + bounds
    found = found[::-1] if reverse else found
    if rng.random() < 0.5:
        offset, count = rng.randrange(20), rng.choice([-1, 0, 1, 5, 1000])
        return words + ['LIMIT', offset, count], found[offset:] if count < 0 else found[offset:offset + count]
    return words, found


@suite.case('random changes and ranges, in small and big keys, and RESTORE of a DUMP')
def _(run):
    rng = random.Random(run.seed)
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        for crowd in (30, 3000):
            have = []
            client.get('DEL', 'k')
            for _ in range(600):
                numbers = [number(rng, crowd) for _ in range(rng.randint(1, 12))]
                if rng.random() < 0.7:
                    check_equal(client.get('SIADD', 'k', *numbers), len(set(numbers) - set(have)), 'added')
                    have = sorted(set(have) | set(numbers))
                else:
                    check_equal(client.get('SIREM', 'k', *numbers), len(set(numbers) & set(have)), 'removed')
                    have = sorted(set(have) - set(numbers))
                check_equal(client.get('SICARD', 'k'), len(have), 'SICARD')
                check_equal(client.get('SIEXISTS', 'k', *numbers), [int(item in have) for item in numbers], 'SIEXISTS')
                words, want = range_words(rng, have, crowd)
                check_equal(client.get(*words), texts(want), '%r' % words)
            check_equal(client.get('TYPE', 'k'), b'sortedint', 'TYPE')
            check_equal(client.get('RESTORE', 'copy', 0, client.get('DUMP', 'k'), 'REPLACE'), b'OK', 'RESTORE')
            check_equal(client.get('SIRANGE', 'copy', 0, 10 ** 6), texts(have), 'the copy')


@suite.case('invalid arguments are refused')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        client = Connection(cluster.backends[0].addresses[0])
        client.get('SET', 's', 'text')
        for words in (['SIADD', 'k', 'x'], ['SIADD', 'k', '-1'], ['SIADD', 'k', LARGEST + 1], ['SIADD', 'k', 1, 'x'],
                      ['SIADD', 's', 1], ['SICARD', 's'], ['SIRANGE', 'k', 'x', 1], ['SIRANGE', 'k', 0, 1, 'nope', 1],
                      ['SIRANGE', 'k', 0, 1, 'cursor'], ['SIRANGEBYVALUE', 'k', 'x', 1], ['SIRANGEBYVALUE', 'k', 1, 2, 'LIMIT', 1],
                      ['SIRANGEBYVALUE', 'k', '(', 1], ['SIADD', 'k']):
            check(isinstance(client.get(*words), ReplyError), 'refused: %r' % words)
        check_equal(client.get('EXISTS', 'k'), 0, 'a refused command leaves nothing')
        check_equal(client.get('SIADD', 'k', 1, 1, 2), 2, 'twice the same')
        check_equal(client.get('SIREM', 'k', 1, 2), 2, 'all removed')
        check_equal(client.get('EXISTS', 'k'), 0, 'an empty one is gone')


if __name__ == '__main__':
    suite.main()
