"""disk.py - a disk that gets full, for tests."""

import os
import subprocess
import tempfile

from support.harness import Skip


class SmallDisk:
    """A tmpfs that can be made bigger; needs the right to mount."""

    def __init__(self, size_mb):
        self.path = tempfile.mkdtemp(prefix='scree-disk-')
        self.mount(['-t', 'tmpfs', '-o', 'size=%dm' % size_mb, 'tmpfs', self.path])

    def mount(self, words):
        done = subprocess.run(['mount'] + words, capture_output=True)
        if done.returncode != 0:
            os.rmdir(self.path)
            raise Skip('cannot mount a tmpfs: %s' % done.stderr.decode().strip())

    def grow(self, size_mb):
        subprocess.run(['mount', '-o', 'remount,size=%dm' % size_mb, self.path], check=True)

    def remove(self):
        subprocess.run(['umount', '-l', self.path], check=True)
        os.rmdir(self.path)
