"""slowdisk.py - the test's side of fault/preload/slow_disk.c: a disk whose reads take as long as the test says."""

import mmap
import os
import shutil
import struct
import subprocess
import tempfile

from support import TESTS



class SlowDisk:
    """The shim, compiled, and its page; use() makes a Process run on it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='scree-slow-')
        self.library = os.path.join(self.folder, 'slow_disk.so')
        subprocess.run(['cc', '-D_GNU_SOURCE', '-std=gnu11', '-O1', '-shared', '-fPIC', '-o', self.library,
                        os.path.join(TESTS, 'fault', 'preload', 'slow_disk.c'), '-ldl'], check=True)
        self.page_path = os.path.join(self.folder, 'control')
        with open(self.page_path, 'wb') as file:
            file.write(b'\0' * 4096)
        self.page_file = open(self.page_path, 'r+b')
        self.page = mmap.mmap(self.page_file.fileno(), 4096)

    def use(self, process):
        process.extra_env = {'LD_PRELOAD': self.library, 'DISK_CONTROL': self.page_path,
                             'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1'}

    def set(self, seconds):
        """From now on a read takes so long, one that is under way too; counts anew."""
        self.page[4:8] = self.page[12:16] = self.page[16:20] = struct.pack('=i', 0)
        self.page[0:4] = struct.pack('=i', int(seconds * 1e6))

    def now(self):
        return struct.unpack('=i', self.page[8:12])[0]

    def reads(self):
        """Slow reads since set()."""
        return struct.unpack('=i', self.page[4:8])[0]

    def most(self):
        """How many of them there were at a time."""
        return struct.unpack('=i', self.page[12:16])[0]

    def executing(self):
        """Slow reads since set() that the partitions' own threads made: everybody had to wait for them."""
        return struct.unpack('=i', self.page[16:20])[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        self.page_file.close()
        shutil.rmtree(self.folder)
