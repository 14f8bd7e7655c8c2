#!/usr/bin/python3
"""bench_curves.py - cost and latency by pipeline depth, by number of keys, and by load.

    depth    throughput and CPU of SET and GET by commands in a pipeline, for each durability beside redis-server's
    latency  distribution of single GETs and durable SETs at 70 % of full speed, sent by a schedule (open loop)
    keys     CPU of SET and GET for 10 thousand to 10 million keys
    groups   group commit by load: how many commands share an fsync, and how long a command waits for it

Systems alternate; figures are medians of several runs. A full run writes docs/benchmarks/curves.md and its pictures
(matplotlib); the figures are in a table below each picture.
"""

import argparse
import os
import sys
import tempfile

import matplotlib
matplotlib.use('svg')
from matplotlib import pyplot

from page import FOLDER, heading
from rig import CLIENTS, Farm, System, in_turn, info, load
from support.cluster import binary, is_sanitized
from support.resp import Connection

KEYS = 100000
SET, GET, FILL = 'SET key:{k:%d} {x:64}', 'GET key:{k:%d}', 'SET key:{s} {x:64}'
PALETTE = {'scree': '#0b6e4f', 'redis': '#a4243b', 'proxy': '#33658a'}
DASHES = {'everysec': '--', 'os': ':', 'unlogged': ':', 'p99': '--'}


def show(line):
    print('  ' + line, flush=True)


# ---- pictures ----------------------------------------------------------------------------------------------------

class Picture:
    """Panels, two in a row, with one legend below; equal figures give an equal file."""

    def __init__(self, name, *panels):
        matplotlib.rcParams.update({'svg.hashsalt': 'scree', 'svg.fonttype': 'none', 'font.size': 9, 'axes.grid': True,
                                    'grid.alpha': 0.3, 'axes.spines.top': False, 'axes.spines.right': False})
        self.name = name
        rows = len(panels) // 2
        self.figure, axes = pyplot.subplots(rows, 2, figsize=(10, 3.4 * rows + 0.6))
        self.axes = dict(zip((title for title, _, _ in panels), axes.flat))
        self.figure.set_layout_engine('constrained', rect=(0, 0.16 / rows, 1, 1 - 0.16 / rows))
        for title, across, up in panels:
            self.axes[title].set(title=title, xlabel=across, ylabel=up)

    def line(self, panel, label, points):
        """Adds a line. The label's program selects the colour, its last word the dashes."""
        colour = [colour for name, colour in PALETTE.items() if name in label][-1]
        self.axes[panel].plot(*zip(*points), label=label, color=colour, linestyle=DASHES.get(label.split()[-1], '-'),
                              marker='.' if len(points) < 20 else '')

    def write(self, folder):
        for axes in self.axes.values():
            if axes.get_xscale() == 'log' or axes.get_yscale() == 'log':
                axes.minorticks_off()
        lines = {line.get_label(): line for axes in self.axes.values() for line in axes.get_lines()}
        self.figure.legend(lines.values(), lines.keys(), loc='lower center', ncol=4, frameon=False)
        self.figure.savefig(os.path.join(folder, self.name + '.svg'), metadata={'Date': None})
        pyplot.close(self.figure)


def ticks(axes, values, labels=None):
    axes.set_xscale('log')
    axes.set_xticks(values, labels or ['%d' % value for value in values])


def table(corner, heads, rows):
    lines = ['| %s | %s |' % (corner, ' | '.join(heads)), '|---' * (len(heads) + 1) + '|']
    return lines + ['| %s |' % ' | '.join(row) for row in rows]


def section(title, name, sentence, *tables):
    lines = ['## ' + title, '', sentence, '', '![%s](%s.svg)' % (title, name)]
    for caption, rows in tables:
        lines += [''] + ([caption, ''] if caption else []) + rows
    return '\n'.join(lines) + '\n'


# ---- the four measurements ------------------------------------------------------------------------------------------

def depth(farm, options):
    backend = farm.backend('behind', 'always')
    systems = {'scree ' + mode: System(farm.backend(mode, mode)) for mode in ('os', 'everysec', 'always')}
    systems['scree always through the proxy'] = System(farm.proxy('front', backend.addresses), [backend])
    systems['redis unlogged'] = System(farm.redis('redis-plain'))
    systems.update({'redis ' + fsync: System(farm.redis_log(fsync)) for fsync in ('everysec', 'always')})
    for system in systems.values():
        load(system, FILL, depth=64, count=KEYS)
    picture = Picture('depth', *((name + what, 'commands in a pipeline', unit)
                                 for what, unit in ((': CPU', 'µs a command, all threads'), (': throughput', 'thousands a second'))
                                 for name in ('SET', 'GET')))
    tables = []
    for name, words in (('SET', SET), ('GET', GET)):
        found = {}
        for count in options.depths:
            found[count] = in_turn(systems, words % KEYS, options.repeat, depth=count, seconds=options.seconds)
            show('%s -P %-4d %s' % (name, count, '  '.join('%s %.2f µs' % (label, sample.cpu_us)
                                                           for label, sample in found[count].items())))
        for what, figure in ((': CPU', lambda sample: sample.cpu_us), (': throughput', lambda sample: sample.rate / 1000)):
            axes = picture.axes[name + what]
            ticks(axes, options.depths)
            axes.set_yscale('log')
            axes.yaxis.set_major_formatter('{x:g}')
            for label in systems:
                picture.line(name + what, label, [(count, figure(found[count][label])) for count in options.depths])
        tables.append(('%s, CPU µs a command, and thousands a second:' % name, table('-P', list(systems), [
            ['%d' % count] + ['%.2f, %.0f' % (sample.cpu_us, sample.rate / 1000) for sample in found[count].values()]
            for count in options.depths])))
    picture.write(options.folder)
    return section('Pipeline depth', 'depth', '%d clients, 64-byte values, %d keys; each figure the median of %d runs of %.1f s.' % (
        CLIENTS, KEYS, options.repeat, options.seconds), *tables)


def shares(histogram):
    """[(n, ms)] of load.c's histogram: one unit of n was slower than ms; n is 10 for the 90th percentile, 100 for the
    99th …"""
    total, seen, points = sum(count for _, count in histogram), 0, []
    for us, count in histogram:
        seen += count
        if total / 2 <= seen < total:
            points.append((total / (total - seen), us / 1000))
    return points


def latency(farm, options):
    systems = {'scree': System(farm.backend('steady', 'always')), 'redis': System(farm.redis_log('always'))}
    picture = Picture('latency', *(('%s, 70 %% of full speed' % name, 'percentile', 'ms') for name in ('GET', 'durable SET')))
    rows = []
    for name, words in (('GET', GET), ('durable SET', SET)):
        panel = '%s, 70 %% of full speed' % name
        ticks(picture.axes[panel], [2, 10, 100, 1000, 10000], ['50', '90', '99', '99.9', '99.99'])
        picture.axes[panel].set_yscale('log')
        picture.axes[panel].yaxis.set_major_formatter('{x:g}')
        for label, system in systems.items():
            load(system, FILL, depth=64, count=KEYS)
            full = load(system, words % KEYS, depth=1, seconds=options.seconds)
            sample = load(system, words % KEYS, rate=full.rate * 0.7, seconds=options.seconds * 10)
            picture.line(panel, label, shares(sample.histogram))
            rows.append(['%s, %s' % (name, label), '%.0f' % sample.rate] +
                        ['%.2f' % (us / 1000) for us in (sample.p50, sample.p99, sample.p999)] + ['%.0f' % (sample.p999 / sample.p50)])
            show('%-12s %-6s %6.0f/s  p50 %.0f µs  p99 %.0f  p99.9 %.0f' % (name, label, sample.rate, sample.p50, sample.p99, sample.p999))
    picture.write(options.folder)
    return section('Latency', 'latency', '%d clients, one command at a time, sent at fixed times, also while earlier commands wait '
                   'for their replies: the latency counts from the scheduled time. Both programs with a log and an fsync before each reply to a '
                   'write; load generator and server share the cores. One run of %.0f s each.' % (CLIENTS, options.seconds * 10),
                   ('', table('ms', ['a second', 'p50', 'p99', 'p99.9', 'p99.9 : p50'], rows)))


def keys(farm, options):
    systems = {'scree os': System(farm.backend('os', 'os')), 'redis unlogged': System(farm.redis('redis-plain'))}
    picture = Picture('keys', *((name, 'keys', 'CPU µs a command, -P 16') for name in ('SET', 'GET')))
    found, filled = {'SET': {}, 'GET': {}}, 0
    for count in options.sizes:
        for system in systems.values():
            load(system, FILL, depth=128, count=count - filled, first=filled)
        filled = count
        for name, words in (('SET', SET), ('GET', GET)):
            found[name][count] = in_turn(systems, words % count, options.repeat, seconds=options.seconds)
            show('%-9d %s  %s' % (count, name, '  '.join('%s %.2f µs' % (label, sample.cpu_us)
                                                         for label, sample in found[name][count].items())))
    rows = []
    for name in found:
        ticks(picture.axes[name], options.sizes, ['%g M' % (count / 1e6) for count in options.sizes])
        for label in systems:
            picture.line(name, label, [(count, found[name][count][label].cpu_us) for count in options.sizes])
        picture.axes[name].set_ylim(bottom=0)
        rows += [['%s, %g M keys' % (name, count / 1e6)] + ['%.2f, %.0f' % (sample.cpu_us, sample.rate / 1000)
                                                           for sample in found[name][count].values()] for count in options.sizes]
    picture.write(options.folder)
    return section('Number of keys', 'keys', '%d clients, -P 16, 16-byte keys at random, 64-byte values; each figure the median of %d '
                   'runs of %.1f s, compactions that begin in a run counted to it. Scree has its default caches.' % (
                       CLIENTS, options.repeat, options.seconds),
                   ('CPU µs a command, and thousands a second:', table('', list(systems), rows)))


def committed(client):
    """Batches so far, and the SETs in them; each SET is a row."""
    return int(info(client, 'commits')), int(info(client, 'commit_rows'))


def groups(farm, options):
    backend = farm.backend('groups', 'always')
    system, client = System(backend), Connection(('127.0.0.1', backend.port), 30, 2)
    full = load(system, SET % KEYS, depth=1, clients=options.clients, seconds=options.seconds)
    rates = [rate for rate in (1000, 2000, 5000, 10000, 20000, 30000, 40000, 60000, 80000) if rate < full.rate * 0.95]
    points = []
    for rate in rates:
        before = committed(client)
        sample = load(system, SET % KEYS, clients=options.clients, rate=rate, seconds=options.seconds * 3)
        commits, rows = (now - then for now, then in zip(committed(client), before))
        points.append((rate, rows / commits, sample.p50 / 1000, sample.p99 / 1000, commits / (options.seconds * 3)))
        show('%6d SETs/s  %.1f in a batch  p50 %.2f ms  p99 %.2f' % points[-1][:4])
    picture = Picture('groups', ('Batches', 'SETs a second', 'SETs in a batch (one fsync)'), ('Latency', 'SETs a second', 'ms'))
    picture.line('Batches', 'scree, size', [(rate, size) for rate, size, _, _, _ in points])
    picture.line('Latency', 'scree, p50', [(rate, p50) for rate, _, p50, _, _ in points])
    picture.line('Latency', 'scree, p99', [(rate, p99) for rate, _, _, p99, _ in points])
    for axes in picture.axes.values():
        axes.set_ylim(bottom=0)
    picture.write(options.folder)
    return section('Commits', 'groups', '%d clients, one SET at a time, sent at fixed times, `durability = always`. A batch has the commands '
                   'that arrived while the previous batch was synced; a command that arrives alone does not wait.' % options.clients,
                   ('', table('SETs a second', ['in a batch', 'fsyncs a second', 'p50 ms', 'p99 ms'],
                              [['%d' % rate, '%.1f' % size, '%.0f' % syncs, '%.2f' % p50, '%.2f' % p99]
                               for rate, size, p50, p99, syncs in points])))


PARTS = [('depth', depth), ('latency', latency), ('keys', keys), ('groups', groups)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true', help='short runs')
    parser.add_argument('--parts', default='', help='only those whose name contains this; writes their pictures, not the page')
    parser.add_argument('--most-keys', type=int, default=10000000, help='the figure of keys ends there (default 10 million)')
    parser.add_argument('--folder', default=FOLDER, help='where the page and its pictures go')
    options = parser.parse_args()
    options.depths = [1, 16, 64] if options.quick else [1, 4, 16, 64, 256]
    options.sizes = [count for count in (10000, 100000, 1000000, 10000000) if count <= options.most_keys]
    options.repeat, options.seconds, options.clients = (1, 0.3, 200) if options.quick else (3, 1.0, 200)
    if is_sanitized(binary('scree-backend')):
        print('these programs were built with a sanitizer: the figures below are of no use')
    os.makedirs(options.folder, exist_ok=True)
    text = heading('Curves', 'tests/bench/bench_curves.py')
    for name, part in PARTS:
        if options.parts not in name:
            continue
        print(name)
        with tempfile.TemporaryDirectory(prefix='scree-bench-') as folder:
            farm = Farm(folder)
            try:
                text += '\n' + part(farm, options)
            finally:
                farm.stop()
    if not options.parts:
        path = os.path.join(options.folder, 'curves.md')
        with open(path, 'w') as file:
            file.write(text)
        print('\nwritten to %s and the pictures beside it' % path)
    return 0


if __name__ == '__main__':
    sys.exit(main())
