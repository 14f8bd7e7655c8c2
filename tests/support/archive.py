"""archive.py - backups and archives for tests, and restores to a point in time.

    with Place() as place, Cluster(backend_options=place.options) as cluster:
        …                                                     # a backup of the name base, then writes
        when = moment()
        wait_archived(cluster)
        erase(cluster)                                        # all processes and all data are gone
        code, said = place.restore(cluster, 'base', when)
        start(cluster)
"""

import datetime
import glob
import os
import shutil
import subprocess
import tempfile
import time

from support.cluster import binary
from support.harness import patience, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def moment(when=None):
    """Now, or another time of time.time(), as --to takes it."""
    return datetime.datetime.fromtimestamp(when or time.time(), datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')


def tool(*arguments):
    done = subprocess.run([binary('scree-backend')] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=5 * patience(), check=False)
    return done.returncode, done.stdout.decode('utf-8', 'replace')


class Place:
    """Directories for a backup and an archive, which outlive a cluster."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-archive-')
        self.backups, self.archive = (os.path.join(self.path, name) for name in ('backups', 'archive'))
        self.options = {'backend': {'backup-dir': self.backups, 'archive-dir': self.archive, 'archive-close': '1s'}}
        return self

    def __exit__(self, *ignored):
        shutil.rmtree(self.path, ignore_errors=True)

    def files(self):
        return sorted(glob.glob(os.path.join(self.archive, '*', '*', '*.log')))

    def restore(self, cluster, backup, to, index=0, names=None):
        backend = cluster.backends[index]
        shards = ['--map', cluster.shards_path, '--shard', ','.join(names)] if names else []
        return tool('--config', backend.config_path, '--restore', os.path.join(self.backups, backup), '--archive', self.archive,
                    '--to', to, *shards)


def restore_slots(place, cluster, backup, to, *more):
    """Runs config/restore-slots for the running cluster: its exit code and output."""
    done = subprocess.run(['/usr/bin/python3', os.path.join(ROOT, 'config/restore-slots'), '--config', cluster.backends[0].config_path,
                           '--backup', os.path.join(place.backups, backup), '--archive', place.archive, '--to', to, '--bin', os.environ['SCREE_BIN'],
                           '--scratch', os.path.join(cluster.folder, 'scratch'), *more],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=5 * patience(), check=False)
    return done.returncode, done.stdout.decode('utf-8', 'replace')


def until(cluster):
    """Up to which time the archives of all shards go."""
    times = []
    for backend in cluster.backends:
        text = backend.http('/metrics')[1]
        times += [float(line.split()[-1]) for line in text.splitlines()
                  if line.startswith('scree_backend_archive_timestamp_seconds{')]
    return min(times)


def wait_archived(cluster):
    now = time.time()
    wait_for(lambda: until(cluster) > now, 'the archive to have all until now')


def erase(cluster):
    """Kills everything at once, and removes all data."""
    for process in cluster.proxies + cluster.backends:
        if process.alive():
            process.kill9()
    for backend in cluster.backends:
        shutil.rmtree(backend.data, ignore_errors=True)


def start(cluster):
    for process in cluster.backends + cluster.proxies:
        process.start()
    cluster.wait_linked()
