"""disk.py - disks for tests: one that loses power, fails or is slow, and one that gets full.

with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, disk=disk) as cluster:
    disk.fail(SYNC_LOG, 1, -1, errno.EIO)        # from the next one on, every fsync of the WAL fails
    disk.heal()
    disk.delay_reads(2)                          # a read of a data file takes two seconds
    cluster.backends[0].kill9()
    disk.lose_power()                            # unsynced bytes are lost, except for a random part
"""

import mmap
import os
import random
import shutil
import struct
import subprocess
import tempfile

from support import TESTS
from support.harness import Skip

WRITE_LOG, SYNC_LOG, WRITE_OTHER, SYNC_OTHER = 1, 2, 4, 8
FIELDS = ('kinds', 'countdown', 'failures', 'error', 'failed',
          'read_us', 'reads', 'reads_now', 'reads_most', 'reads_by_partition', 'holds_syncs', 'syncs_held')


def put_zeros(path, ranges, rng):
    """Overwrites the ranges (from, to) of the file with zeros, except for a random part at the start of each; returns
    the number of zeros."""
    first, end = min(begin for begin, _ in ranges), max(end for _, end in ranges)
    keep, lost = rng.choice([first, rng.randint(first, end)]), 0
    with open(path, 'r+b') as file:
        for begin, end in ranges:
            begin = max(begin, keep)
            file.seek(begin)
            lost += file.write(bytes(max(0, end - begin)))
    return lost


class FaultyDisk:
    """The disk of one backend; faulty_disk.c intercepts the program's system calls."""

    def __init__(self, like=None):
        """`like`: another one, which lives as long, so that the library is compiled once."""
        self.folder = tempfile.mkdtemp(prefix='scree-disk-')
        self.library = like.library if like else os.path.join(self.folder, 'faulty_disk.so')
        if not like:
            subprocess.run(['cc', '-D_GNU_SOURCE', '-std=gnu11', '-O1', '-shared', '-fPIC', '-o', self.library,
                            os.path.join(TESTS, 'support/faulty_disk.c'), '-ldl'], check=True)
        self.log = os.path.join(self.folder, 'syncs')
        self.page_path = os.path.join(self.folder, 'control')
        with open(self.page_path, 'wb') as file:
            file.write(bytes(mmap.PAGESIZE))
        with open(self.page_path, 'r+b') as file:
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        shutil.rmtree(self.folder)

    def use(self, backend):
        """From its next start on, the backend uses this disk, without its old data: the disk only knows bytes that it saw
        written."""
        shutil.rmtree(backend.data, ignore_errors=True)
        os.makedirs(backend.data)
        self.root = os.path.realpath(backend.data)
        backend.extra_env = {'LD_PRELOAD': self.library, 'DISK_ROOT': self.root, 'DISK_LOG': self.log,
                             'DISK_CONTROL': self.page_path,
                             'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1'}

    def get(self, name):
        return struct.unpack_from('=i', self.page, 4 * FIELDS.index(name))[0]

    def set(self, **values):
        for name, number in values.items():
            struct.pack_into('=i', self.page, 4 * FIELDS.index(name), number)

    # -- failing calls

    def fail(self, kinds, countdown, failures, error):
        """Of these kinds of calls, the `countdown`-th and the next `failures` - 1 (-1: all later ones) fail."""
        self.set(kinds=0, countdown=countdown, failures=failures, error=error, failed=0)
        self.set(kinds=kinds)

    def heal(self):
        """Ends the failures; returns how many calls failed."""
        self.set(kinds=0)
        return self.get('failed')

    # -- slow reads

    def delay_reads(self, seconds):
        """From now on a read of a data file takes this time, also one in progress; resets the counters."""
        self.set(reads=0, reads_most=0, reads_by_partition=0)
        self.set(read_us=int(seconds * 1e6))

    # -- held syncs

    def hold_syncs(self, hold=True):
        """From now on a sync of the WAL does not return before hold_syncs(False)."""
        self.set(holds_syncs=int(hold))

    # -- power loss

    def lines(self):
        """What the disk has noted so far, without a line that is just being written."""
        with open(self.log) as file:
            return [line for line in file if line.endswith('\n')]

    def notes(self):
        """{inode: bytes that a power loss keeps}, and {inode: [(offset, bytes)]} that were overwritten since."""
        sizes, replaced, begun = {}, {}, {}
        for line in self.lines():
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
        """Records that a power loss keeps the file in the state of this os.stat()."""
        sizes, replaced = self.notes()
        return sizes.get(stat.st_ino, 0) >= stat.st_size and not replaced.get(stat.st_ino)

    def lose_power(self, rng=random):
        """After kill -9: cuts every file to its synced bytes and a random part of the rest; unsynced overwritten ranges
        become zeros, except for a random part. Returns the number of lost bytes. The remaining bytes count as
        synced."""
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


class SmallDisk:
    """A tmpfs that can be enlarged; requires the right to mount."""

    def __init__(self, size_mb, files=None):
        """`files`: with so many it is full, too; else there is room for more than anyone needs."""
        self.path = tempfile.mkdtemp(prefix='scree-disk-')
        options = 'size=%dm' % size_mb + (',nr_inodes=%d' % files if files else '')
        self.mount(['-t', 'tmpfs', '-o', options, 'tmpfs', self.path])

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
