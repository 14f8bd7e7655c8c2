"""node.py - installs the npm packages of a folder beside the integration tests, for programs in JavaScript."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from support import TESTS
from support.harness import Skip


@contextlib.contextmanager
def installed(folder_name):
    """A copy of tests/integration/<folder_name> with its packages; it is removed afterwards."""
    if not shutil.which('node') or not shutil.which('npm'):
        raise Skip('node or npm is not installed')
    with tempfile.TemporaryDirectory(prefix='scree-node-') as folder:
        for name in os.listdir(os.path.join(TESTS, 'integration', folder_name)):
            shutil.copy(os.path.join(TESTS, 'integration', folder_name, name), folder)
        done = subprocess.run(['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts'], cwd=folder,
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise Skip('npm could not fetch %s: %s' % (folder_name, done.stderr.decode('utf-8', 'replace')[-300:]))
        yield folder
