"""node.py - installs the npm packages of a folder beside the integration tests, for programs in JavaScript."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from support import TESTS
from support.harness import Skip


def npm_ci(folder, *options):
    """Runs `npm ci` in the folder; skips the case if there is no npm, or if it fails or takes too long, as without network."""
    if not shutil.which('node') or not shutil.which('npm'):
        raise Skip('node or npm is not installed')
    words = ['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts', *options]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        raise Skip('npm has not fetched the packages in 5 minutes') from None
    if done.returncode != 0:
        raise Skip('npm could not fetch the packages: %s' % done.stderr.decode('utf-8', 'replace')[-300:])


@contextlib.contextmanager
def installed(folder_name):
    """A copy of tests/integration/<folder_name> and of the scripts in node/, with the packages; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix='scree-node-') as folder:
        for part in (folder_name, 'node'):
            shutil.copytree(os.path.join(TESTS, 'integration', part), folder, dirs_exist_ok=True)
        npm_ci(folder)
        yield folder
