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
    """A copy of tests/integration/<folder_name> and of the scripts in node/, with the packages; it is removed afterwards."""
    if not shutil.which('node') or not shutil.which('npm'):
        raise Skip('node or npm is not installed')
    with tempfile.TemporaryDirectory(prefix='scree-node-') as folder:
        for part in (folder_name, 'node'):
            shutil.copytree(os.path.join(TESTS, 'integration', part), folder, dirs_exist_ok=True)
        done = subprocess.run(['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts'], cwd=folder,
                              capture_output=True, timeout=300)
        if done.returncode != 0:
            raise Skip('npm could not fetch %s: %s' % (folder_name, done.stderr.decode('utf-8', 'replace')[-300:]))
        yield folder
