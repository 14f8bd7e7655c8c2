"""disk.py - the test's side of preload/disk_fault.c: a disk that loses power, and one whose calls fail."""

import mmap
import os
import random
import shutil
import struct
import subprocess
import tempfile

from support import TESTS



WRITE_LOG, SYNC_LOG, WRITE_OTHER, SYNC_OTHER = 1, 2, 4, 8


def put_zeros(path, ranges, rng):
    """Where the file's ranges (from, to) are, but for a random part in front; returns how many bytes."""
    first, end = min(begin for begin, _ in ranges), max(end for _, end in ranges)
    keep, lost = rng.choice([first, rng.randint(first, end)]), 0
    with open(path, 'r+b') as file:
        for begin, end in ranges:
            begin = max(begin, keep)
            file.seek(begin)
            lost += file.write(bytes(max(0, end - begin)))
    return lost


class Disk:
    """The shim, compiled, and its files; use() makes a Backend run on it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='scree-shim-')
        self.library = os.path.join(self.folder, 'disk_fault.so')
        subprocess.run(['cc', '-D_GNU_SOURCE', '-std=gnu11', '-O1', '-shared', '-fPIC', '-o', self.library,
                        os.path.join(TESTS, 'fault', 'preload', 'disk_fault.c'), '-ldl'], check=True)
        self.log = os.path.join(self.folder, 'syncs')
        self.page_path = os.path.join(self.folder, 'control')
        with open(self.page_path, 'wb') as file:
            file.write(b'\0' * 4096)
        self.page_file = open(self.page_path, 'r+b')
        self.page = mmap.mmap(self.page_file.fileno(), 4096)

    def use(self, backend):
        shutil.rmtree(backend.data, ignore_errors=True)  # what was written before the shim was there is not in its log
        os.makedirs(backend.data)
        self.root = os.path.realpath(backend.data)
        backend.extra_env = {'LD_PRELOAD': self.library, 'DISK_ROOT': self.root, 'DISK_LOG': self.log,
                             'DISK_CONTROL': self.page_path,
                             'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1'}

    # -- failing calls

    def arm(self, kinds, countdown, failures, error):
        """The `countdown`-th call of these kinds and `failures` - 1 after it (-1: all after it) fail."""
        self.page[0:20] = struct.pack('=iiiii', 0, countdown, failures, error, 0)
        self.page[0:4] = struct.pack('=i', kinds)

    def disarm(self):
        """Returns how many calls failed."""
        self.page[0:4] = struct.pack('=i', 0)
        return struct.unpack('=i', self.page[16:20])[0]

    # -- power loss

    def notes(self):
        """{inode: bytes that a power loss cannot take}, and {inode: [(offset, bytes)]} that were written over since."""
        sizes, replaced, begun = {}, {}, {}
        with open(self.log) as file:
            for line in file:
                what, inode, number, other = line[0], *map(int, line[1:].split())
                if what == 'W':
                    replaced.setdefault(inode, []).append((number, other))
                elif what == 'B':
                    begun[inode, other] = len(replaced.setdefault(inode, []))
                elif what == 'S':
                    sizes[inode] = number
                    count = begun.pop((inode, other), 0)
                    del replaced.setdefault(inode, [])[:count]
                    begun = {key: max(0, left - count) if key[0] == inode else left for key, left in begun.items()}
                elif what == 'T':
                    sizes[inode] = min(number, sizes.get(inode, 0))
                else:
                    sizes.pop(inode, None)
                    replaced.pop(inode, None)
        return sizes, replaced

    def is_guaranteed(self, stat):
        """A power loss cannot take anything of this file, as it was when os.stat() told of it."""
        sizes, replaced = self.notes()
        return sizes.get(stat.st_ino, 0) >= stat.st_size and not replaced.get(stat.st_ino)

    def lose_power(self, rng=random):
        """After kill -9: cuts every file to what is guaranteed and a random part of the rest, and puts zeros where it was written
        over but for a random part in front; returns bytes lost. What is left then is on the disk for good."""
        (sizes, replaced), lost, left = self.notes(), 0, []
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                now = os.stat(path)
                safe = min(sizes.get(now.st_ino, 0), now.st_size)
                over = [(at, min(at + size, safe)) for at, size in replaced.get(now.st_ino, []) if at < safe]
                lost += put_zeros(path, over, rng) if over else 0
                if now.st_size > safe:
                    keep = rng.choice([safe, rng.randint(safe, now.st_size)])
                    lost += now.st_size - keep
                    os.truncate(path, keep)
                left.append('S %d %d 0\n' % (now.st_ino, os.path.getsize(path)))
        with open(self.log, 'w') as file:
            file.writelines(left)
        return lost

    def remove(self):
        self.page.close()
        self.page_file.close()
        subprocess.run(['rm', '-rf', self.folder], check=True)
