"""clock.py - wrong clocks for tests: each program under test that uses one believes another time.

clock = SkewedClock(cluster.backends[1], ahead_s=60)     # from the next start of the backend on
clock.set(-5)                                            # while it runs
"""

import os
import struct
import subprocess

from support import TESTS


class SkewedClock:
    """The wall clock of a backend; skewed_clock.c intercepts the program's calls."""

    def __init__(self, backend, ahead_s=0):
        folder = backend.folder
        library = os.path.join(folder, 'skewed_clock.so')
        if not os.path.exists(library):
            subprocess.run(['cc', '-D_GNU_SOURCE', '-std=gnu11', '-O1', '-shared', '-fPIC', '-o', library,
                            os.path.join(TESTS, 'support/skewed_clock.c')], check=True)
        self.path = os.path.join(folder, 'clock-' + backend.name)
        self.set(ahead_s)
        libraries = [backend.extra_env['LD_PRELOAD']] if 'LD_PRELOAD' in backend.extra_env else []
        backend.extra_env.update({'LD_PRELOAD': ' '.join(libraries + [library]), 'CLOCK_CONTROL': self.path,
                                  'ASAN_OPTIONS': 'verify_asan_link_order=0:detect_leaks=0:allocator_may_return_null=1'})

    def set(self, ahead_s):
        """From now on the clock is this many seconds ahead of the machine's."""
        with open(self.path, 'r+b' if os.path.exists(self.path) else 'wb') as file:
            file.write(struct.pack('=q', round(ahead_s * 1000000)))
