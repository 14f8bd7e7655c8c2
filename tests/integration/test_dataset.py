#!/usr/bin/python3
"""Debian's package records as hashes and strings: loaded through one proxy, read back through another after a crash."""

import os
import subprocess
import sys

import load_packages
from support import TESTS
from support.cluster import Cluster
from support.harness import Suite, check, sized, wait_for
from support.resp import ReplyError


def options(parser):
    parser.add_argument('--limit', type=int, default=sized(5000, long=0), help='so many records (default %(default)s; 0: all)')


suite = Suite(__doc__, options)


def keep_records(cluster):
    """The file of records that is loaded and compared: another test may install packages between the two."""
    path = os.path.join(cluster.folder, 'records')
    with open(path, 'wb') as file:
        file.write(load_packages.source())
    return path


def packages(run, proxy, records, *words):
    command = [sys.executable, os.path.join(TESTS, 'integration/load_packages.py'), '--port', str(proxy.port),
               '--limit', str(run.options.limit), '--records', records, *words]
    done = subprocess.run(command, capture_output=True, timeout=540)
    output = done.stdout.decode('utf-8', 'replace').strip()
    run.note(output.replace('\n', '; '))
    check(done.returncode == 0, 'load_packages.py %s: %s%s'
          % (' '.join(words), output, done.stderr.decode('utf-8', 'replace')[-1500:]))


def wait_served(cluster, proxy):
    """Waits until all shards serve the proxy's only worker, on its connection for each kind of command."""
    with cluster.connect(proxy) as client:
        for shard in range(len(cluster.slots)):
            for words in (['EXISTS', cluster.key_on(shard)], ['HGETALL', cluster.key_on(shard)]):
                wait_for(lambda: not isinstance(client.get(*words), ReplyError), 'shard %d to be served' % shard)


@suite.case('package records survive kill -9 of a backend and are read back unchanged')
def _(run):
    with Cluster(backends=2, partitions=2, proxies=2, proxy_options={'proxy': {'workers': 1}}) as cluster:
        records = keep_records(cluster)
        packages(run, cluster.proxies[0], records)
        for backend in cluster.backends:
            backend.kill9()
            backend.start()
        wait_served(cluster, 1)
        packages(run, cluster.proxies[1], records, '--check')
        for process in cluster.proxies + cluster.backends:
            process.stop()
        for process in cluster.backends + cluster.proxies:
            process.start()
        packages(run, cluster.proxies[0], records, '--check')


if __name__ == '__main__':
    suite.main()
