"""objects.py - an S3 server with faults (tests/integration/s3/server.js), and config/push to it.

    with Store() as store:
        code, said = store.push('backups', folder)
        store.fault('torn', share=0.5)
        store.pull(folder)
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request

from support import ROOT
from support.harness import Skip, patience
from support.node import installed

RETRIES = {'RCLONE_RETRIES': '1', 'RCLONE_LOW_LEVEL_RETRIES': '1'}  # so that a push gives up soon


@functools.lru_cache(maxsize=None)
def programs():
    """The folder with the server and its packages, which npm fetches once a run."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(installed('s3'))


class Store:
    """A bucket, and rclone's configuration for it."""

    def __enter__(self):
        if not shutil.which('rclone'):
            raise Skip('rclone is not installed')
        with contextlib.ExitStack() as stack:
            data = stack.enter_context(tempfile.TemporaryDirectory(prefix='scree-store-'))
            self.server = subprocess.Popen(['node', 'server.js', data], cwd=programs(), stdout=subprocess.PIPE, text=True)
            stack.callback(self.server.wait)
            stack.callback(self.server.kill)
            self.address = 'http://127.0.0.1:%d' % int(self.server.stdout.readline())
            self.env = {name: text for name, text in os.environ.items() if not name.startswith(('AWS_', 'RCLONE_', 'SCREE_PUSH_'))}
            self.env.update(RCLONE_CONFIG='/dev/null', RCLONE_CONFIG_S3_TYPE='s3', RCLONE_CONFIG_S3_PROVIDER='Other',
                            RCLONE_CONFIG_S3_ACCESS_KEY_ID='S3RVER', RCLONE_CONFIG_S3_SECRET_ACCESS_KEY='S3RVER',
                            RCLONE_CONFIG_S3_REGION='us-east-1', RCLONE_CONFIG_S3_ENDPOINT=self.address)
            self.close = stack.pop_all().close
        return self

    def __exit__(self, *ignored):
        self.server.stdout.close()
        self.close()

    def fault(self, kind, **words):
        """How many faults there were since the last call."""
        query = urllib.parse.urlencode(dict(words, kind=kind))
        with urllib.request.urlopen('%s/fault?%s' % (self.address, query)) as reply:
            return int(reply.read())

    @staticmethod
    def words(what, folder, *more):
        return [os.path.join(ROOT, 'config/push'), what, *(['--from', folder] if folder else []), '--to', 's3:bucket/scree', *more]

    def push(self, what, folder, *more, **env):
        """Its exit status and output."""
        done = subprocess.run(self.words(what, folder, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(self.env, **env),
                              timeout=10 * patience(), check=False)
        return done.returncode, done.stdout

    def rclone(self, *words):
        return subprocess.run(['rclone', *words], stdout=subprocess.PIPE, text=True, env=self.env, timeout=10 * patience(), check=True).stdout

    def pull(self, folder):
        """Copies all that the store has, and returns the names."""
        self.rclone('sync', 's3:bucket/scree', folder)
        return sorted(os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder) for name in names)


def has(path, sha256):
    try:
        with open(path, 'rb') as file:
            return hashlib.sha256(file.read()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def damaged_parts(folder):
    """Parts of backups that look whole, and lack a file or have another one."""
    bad = []
    for parent, _, names in os.walk(folder):
        if 'MANIFEST.sha256' not in names:
            continue
        with open(os.path.join(parent, 'MANIFEST.sha256')) as file:
            digest = file.read().split()[0]
        if digest == 'torn:':  # so says a push that has found files missing
            continue
        good = has(os.path.join(parent, 'MANIFEST.json'), digest)
        if good:
            with open(os.path.join(parent, 'MANIFEST.json')) as file:
                good = all(has(os.path.join(parent, item['name']), item['sha256']) for item in json.load(file)['files'])
        if not good:
            bad.append(os.path.relpath(parent, folder))
    return sorted(bad)
