#!/usr/bin/python3
"""Random command streams to redis-server and to Scree: every reply and the whole keyspace must be equal.

Targets: `direct` is one partition, `proxy` is two backends of two partitions behind a proxy, `proxies` is three
backends behind two proxies, where the connections of a stream use different proxies. Each is played single and
pipelined, in RESP2 and RESP3. `tiny-…` have almost no cache, one reader thread (direct) or many (proxies), and their
rows are evicted to the disk again and again (DEBUG EVICT), so that most commands wait for rows and are retried. A
difference is printed with the shortest stream that shows it; `--seed N --stream I` plays that stream again. Only one
difference of a kind is reported.
"""

import time

from player import Player, shrink
from support import groups
from support.cluster import Cluster, Oracle, evict_all
from support.harness import Failure, Skip, Suite, check, check_equal, sized
from support.stream import Grammar, stream

VARIANTS = [(mode, proto, blocks) for mode in ('single', 'pipelined') for proto in (2, 3) for blocks in (0.06, 0.5)]


def options(parser):
    parser.add_argument('--seconds', type=float, default=sized(15, long=1800), help='for each target; a third of it for tiny ones')
    parser.add_argument('--target', default='direct,proxy,proxies,any,tiny-direct,tiny-proxies')
    parser.add_argument('--reader-threads', type=int, default=0, help='of tiny targets')
    parser.add_argument('--groups', default=','.join(groups.NAMES))
    parser.add_argument('--without', default='', help='commands to leave out, e.g. LCS,OBJECT REFCOUNT')
    parser.add_argument('--length', type=int, default=300, help='commands in a stream')
    parser.add_argument('--stream', type=int, default=None, help='play only this stream of the seed')
    parser.add_argument('--max-failures', type=int, default=8)


def explore(run, oracle_address, target_addresses, through_proxy, seconds, chill=None, max_failures=None, has_tags=True):
    """Plays streams until the time is over; returns a report for each kind of difference."""
    opts = run.options
    grammar = Grammar(opts.groups.split(','), [name for name in opts.without.split(',') if name])
    max_failures = max_failures or opts.max_failures
    end = time.monotonic() + seconds
    reports, streams, replies = {}, 0, 0
    index = opts.stream or 0
    while time.monotonic() < end and len(reports) < max_failures:
        mode, proto, blocks = VARIANTS[index % len(VARIANTS)]
        seed = run.seed * 1000003 + index
        steps = stream(seed, grammar, opts.length, through_proxy, blocks, has_tags)
        player = Player(oracle_address, target_addresses, mode, proto, seed, chill)
        difference = player.play(steps)
        streams, replies = streams + 1, replies + player.replies
        if difference and difference.title not in reports:
            reports[difference.title] = report(run, player, steps, difference, index)
        if opts.stream is not None:
            break
        index += 1
    run.note('%d streams, %d replies compared' % (streams, replies))
    return reports


def report(run, player, steps, difference, index):
    short, last = shrink(player, steps, difference)
    lines = ['%s   [--seed %d --stream %d: %s, RESP%d]'
             % (difference.title, run.seed, index, player.mode, player.proto)]
    lines += ['       %s' % step for step in short[-30:]]
    lines.append('     differs at: %s' % last.text())
    text = '\n'.join(lines)
    run.note(text)
    return text


suite = Suite(__doc__, options)


TINY = {'block-cache': '1mb', 'row-cache': '1', 'rank-cache': '4kb', 'memtable': '256kb', 'memtables': 2,
        'write-buffer': '4kb', 'compression': 'none'}


class Chill:
    """Called with True, evicts all rows of all partitions from memory; with False, only those that are already on the
    disk."""

    def __init__(self, cluster):
        self.partitions = [cluster.partition(shard) for shard in range(len(cluster.slots))]

    def __call__(self, is_whole):
        for partition in self.partitions:
            if is_whole:
                evict_all(partition)
            else:
                check_equal(partition.get('DEBUG', 'EVICT', 'NOFLUSH'), b'OK')

    def figure(self, name):
        line = ('%s:' % name).encode()
        return sum(int(each[len(line):]) for partition in self.partitions
                   for each in partition.get('INFO', 'stats').split() if each.startswith(line))

    def finish(self, run):
        figures = [self.figure(name) for name in ('uncached_fetches', 'suspended_commands', 'uncached_blocking_reads')]
        run.note('%d rows and ranges fetched, %d commands rolled back, %d reads on the executing threads' % tuple(figures))
        for partition in self.partitions:
            partition.close()
        check(figures[0] > 0 and figures[1] > 0, 'nothing was read from the disk')


def compare(run, target, store=None, has_tags=True, **shape):
    if target not in run.options.target.split(','):
        raise Skip('--target %s' % run.options.target)
    with Oracle() as oracle:
        with Cluster(partitions=2, backend_options={'store': store} if store else None, **shape) as cluster:
            addresses = [proxy.address for proxy in cluster.proxies] or [cluster.backends[0].addresses[1]]
            chill = Chill(cluster) if store else None
            seconds = run.options.seconds / (3 if chill else 1)
            reports = explore(run, oracle.address, addresses, bool(cluster.proxies), seconds, chill, has_tags=has_tags)
            if chill:
                chill.finish(run)
    if reports:
        raise Failure('%d kinds of difference, printed above' % len(reports))


@suite.case('random streams: one partition replies as redis-server does')
def _(run):
    compare(run, 'direct', backends=1, proxies=0)


@suite.case('random streams: the proxy over four partitions replies as redis-server does')
def _(run):
    compare(run, 'proxy', backends=2, proxies=1)


@suite.case('random streams: two proxies over three backends reply as one redis-server does')
def _(run):
    compare(run, 'proxies', backends=3, proxies=2)


@suite.case('random streams: with cross-slot = any, six shards reply to commands with keys of any shards as one redis-server does')
def _(run):
    compare(run, 'any', backends=3, proxies=1, has_tags=False, linked=True)


@suite.case('random streams: rows on the disk, no caches, one reader thread: a partition replies as redis-server does')
def _(run):
    compare(run, 'tiny-direct', dict(TINY, **{'reader-threads': run.options.reader_threads or 1}), backends=1, proxies=0)


@suite.case('random streams: rows on the disk, no caches, many reader threads: proxies reply as redis-server does')
def _(run):
    compare(run, 'tiny-proxies', dict(TINY, **{'reader-threads': run.options.reader_threads or 16}), backends=2, proxies=2)


if __name__ == '__main__':
    suite.main()
