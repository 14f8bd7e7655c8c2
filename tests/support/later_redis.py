"""later_redis.py - the redis-server and valkey-server of a newer Debian, unpacked aside: what Debian 12 has is older.

    with LaterServer('valkey') as oracle: …     as cluster.Oracle

The packages are fetched by apt with lists of its own, once for all tests of a machine. Where that is not possible, or when Debian has gone on
to versions that scree-copy was not made for, the case is skipped, and says so.
"""

import fcntl
import glob
import os
import re
import subprocess
import tempfile

from support.cluster import Oracle
from support.harness import Skip

FOLDER = os.path.join(tempfile.gettempdir(), 'scree-later-redis')
SUITE = 'sid'
NEWEST = {'redis': (8, 2), 'valkey': (9, 1)}  # that docs/from-redis.md promises
PACKAGES = ('redis-server', 'redis-tools', 'valkey-server', 'valkey-tools', 'libc6', 'libssl3t64', 'libsystemd0', 'liblzf1', 'libjemalloc2', 'libgcc-s1',
            'libstdc++6', 'liblua5.1-0', 'lua-cjson', 'lua-bitop', 'libcap2', 'libzstd1', 'libatomic1', 'zlib1g')


def fetch():
    """Unpacks the packages into FOLDER/root."""
    for name in ('lists/partial', 'cache/archives/partial', 'debs'):
        os.makedirs(os.path.join(FOLDER, name), exist_ok=True)
    with open(os.path.join(FOLDER, 'sources.list'), 'w', encoding='ascii') as file:
        file.write('deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n' % SUITE)
    with open(os.path.join(FOLDER, 'apt.conf'), 'w', encoding='ascii') as file:
        file.write('Dir::Etc::sourcelist "%s/sources.list";\nDir::Etc::sourceparts "-";\nDir::State::lists "%s/lists";\nDir::Cache "%s/cache";\n'
                   'Acquire::Retries "2";\nAcquire::http::Timeout "20";\n' % (FOLDER, FOLDER, FOLDER))
    environment = {**os.environ, 'APT_CONFIG': os.path.join(FOLDER, 'apt.conf')}
    debs = os.path.join(FOLDER, 'debs')
    for words in (['apt-get', '-q', 'update'], ['apt-get', '-q', 'download', *PACKAGES]):
        subprocess.run(words, cwd=debs, env=environment, check=True, capture_output=True, timeout=300)
    for deb in glob.glob(os.path.join(debs, '*.deb')):
        subprocess.run(['dpkg', '-x', deb, os.path.join(FOLDER, 'root')], check=True, capture_output=True, timeout=60)


def command(name):
    """The words that start the server."""
    done = os.path.join(FOLDER, 'done')
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, 'lock'), 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            try:
                fetch()
            except (OSError, subprocess.SubprocessError) as error:
                raise Skip('newer servers of Debian %s cannot be fetched: %s' % (SUITE, error)) from error
            with open(done, 'w', encoding='ascii'):
                pass
    libraries = os.path.join(FOLDER, 'root/usr/lib/x86_64-linux-gnu')
    program = '%s-server' % name
    loader = os.path.join(libraries, 'ld-linux-x86-64.so.2')
    if not os.path.exists(loader):
        raise Skip('newer servers of Debian are used on amd64 only')
    words = [loader, '--library-path', libraries, '--argv0', program, os.path.join(FOLDER, 'root/usr/bin', program)]
    check_version(name, words)
    return words


def check_version(name, words):
    done = subprocess.run([*words, '--version'], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r' v=(\d+)\.(\d+)', done.stdout)
    if not version:
        raise Skip('%s of Debian %s does not run here: %s' % (name, SUITE, done.stderr))
    if tuple(map(int, version.groups())) > NEWEST[name]:
        raise Skip('Debian %s has %s %s.%s' % (SUITE, name, *version.groups()))


class LaterServer(Oracle):
    def __init__(self, name, options=()):
        words = command(name)
        super().__init__(options=options)
        self.argv = words + self.argv[1:]
