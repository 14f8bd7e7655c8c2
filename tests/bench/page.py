"""page.py - the heading of every page of measurements, and its tables."""

import datetime
import os
import platform
import subprocess
import time

from support import ROOT
from support.cluster import binary
from support.machine import page_ns, pauses

FOLDER = os.path.join(ROOT, 'docs', 'benchmarks')
BUSY = 0.1  # part of a core's time that other processes use
QUIET = 0.05  # share of the machine's CPU that others may use
DEAR_NS = 500  # for one byte of a page that is not in the TLB


def version(words):
    try:
        done = subprocess.run(words, capture_output=True)
    except OSError:
        return 'not installed'
    return (done.stdout + done.stderr).decode('utf-8', 'replace').strip().splitlines()[0]


def machine():
    with open('/proc/cpuinfo') as file:
        models = [line.split(':')[1].strip() for line in file if line.startswith('model name')]
    kernel = '.'.join(platform.release().split('.')[:2])
    return '%d × %s, Linux %s' % (os.cpu_count(), models[0] if models else platform.machine(), kernel)


def engine():
    """The RocksDB with which the backend is linked."""
    done = subprocess.run([binary('scree-backend'), '--version'], capture_output=True, text=True)
    return done.stdout.splitlines()[1] + (' (Debian\'s library)' if 'assertions on' in done.stdout else ' (rebuilt by config/rocksdb)')


def busy_share(seconds):
    """The share of the machine's CPU that was used in these seconds."""
    def ticks():
        with open('/proc/stat', encoding='ascii') as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]
    total, idle = ticks()
    time.sleep(seconds)
    later, idle_later = ticks()
    return 1 - (idle_later - idle) / max(1, later - total)


def busy_note(share):
    """A sentence for the page; empty: the machine was quiet."""
    return '' if share <= QUIET else '**Not quiet: others used %d %% of the CPU before this table.**' % (share * 100)


def heading(title, script):
    """The heading of a page of measurements: script, date, machine, versions of the programs."""
    (lost, longest), page = pauses(1), page_ns()
    lines = ['# ' + title, '', 'Written by `%s`, whose docstring describes the measurement.' % script, '',
             '- %s, load average before the run %.1f' % (datetime.date.today().isoformat(), os.getloadavg()[0]),
             '- %s; other work took %.0f %% of a core, up to %.1f ms at a time; a byte of a random page '
             'of 4 KB took %.0f ns' % (machine(), lost * 100, longest, page)]
    for words in (['redis-server', '--version'], ['redis-benchmark', '--version'], ['haproxy', '-v'],
                  ['nutcracker', '--version'], [binary('scree-proxy'), '--version'],
                  [binary('scree-backend'), '--version']):
        lines.append('- %s' % version(words))
    lines.append('- %s' % engine())
    if lost > BUSY:
        lines += ['', '**The machine was busy with other work, which slows all figures: compare them only with other figures of the '
                  'same table.**']
    if page > DEAR_NS:
        lines += ['', '**Access to pages of 4 KB is slow on this machine. redis-server keeps all its data in them, Scree much of its data in '
                  'huge pages: ratios to redis-server are better here than on other machines.**']
    return '\n'.join(lines) + '\n'


class Table:
    """Rows of the page: (measure, ours, theirs, ratio or figure, limit, is_met)."""

    def __init__(self):
        self.rows = []

    def add(self, title, ours, theirs, measured, limit, met):
        self.rows.append((title, ours, theirs, measured, limit, {True: 'met', False: '**missed**', None: ''}[met]))
        print('  %-34s %12s %12s %10s  %-10s %s' % self.rows[-1], flush=True)

    def markdown(self, title, ours='scree-backend', theirs='redis-server'):
        lines = ['## ' + title, '', '| | %s | %s | measured | target | |' % (ours, theirs), '|---|---|---|---|---|---|']
        return '\n'.join(lines + ['| %s |' % ' | '.join(row) for row in self.rows]) + '\n'
