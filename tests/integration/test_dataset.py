#!/usr/bin/python3
"""Debian's package records as hashes and strings: loaded through one proxy, read back through another after a crash."""

import os
import subprocess
import sys

from support import TESTS
from support.cluster import Cluster
from support.harness import Suite, check, sized

def options(parser):
    parser.add_argument('--limit', type=int, default=sized(5000, long=0), help='so many records (default %(default)s; 0: all)')


suite = Suite(__doc__, options)


def packages(run, proxy, *words):
    command = [sys.executable, os.path.join(TESTS, 'integration/load_packages.py'), '--port', str(proxy.port),
               '--limit', str(run.options.limit), *words]
    done = subprocess.run(command, capture_output=True, timeout=540)
    output = done.stdout.decode('utf-8', 'replace').strip()
    run.note(output.replace('\n', '; '))
    check(done.returncode == 0, 'load_packages.py %s: %s%s'
          % (' '.join(words), output, done.stderr.decode('utf-8', 'replace')[-1500:]))


@suite.case('package records survive kill -9 of a backend and are read back unchanged')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2) as cluster:
        packages(run, cluster.proxies[0])
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        packages(run, cluster.proxies[1], '--check')
        for process in cluster.proxies + cluster.backends:
            process.stop()
        for process in cluster.backends + cluster.proxies:
            process.start()
        packages(run, cluster.proxies[0], '--check')


if __name__ == '__main__':
    suite.main()
