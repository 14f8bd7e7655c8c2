"""machine.py - how much the machine's other processes, and its memory, slow down the tests."""

import contextlib
import mmap
import random
import statistics
import time

PAUSE_NS = 100000
PAGES, AT_ONCE = 1 << 14, 64


def pauses(seconds):
    """(fraction of the time, longest ms) that a program which only reads the clock was not running."""
    clock, lost, longest = time.perf_counter_ns, 0, 0
    last = begun = clock()
    while last < begun + seconds * 1e9:
        now = clock()
        gap, last = now - last, now
        if gap > PAUSE_NS:
            lost, longest = lost + gap, max(longest, gap)
    return lost / (last - begun), longest / 1e6


def slowness(seconds=0.1):
    """Factor by which work takes longer here than on an idle machine: 1 to 8."""
    return min(8.0, 1 / max(0.01, 1 - pauses(seconds)[0]))


def page_ns():
    """Additional nanoseconds for a byte on another page (64 MB in pages of 4 KB): about 100 for a walk of the page
    tables, thousands in a virtual machine whose host allocates pages on first use."""
    def read(places):
        took = []
        for start in range(0, PAGES, AT_ONCE):
            part, begun = places[start:start + AT_ONCE], time.perf_counter_ns()
            for place in part:
                memory[place]
            took.append((time.perf_counter_ns() - begun) / AT_ONCE)
        return statistics.median(took)

    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        with contextlib.suppress(OSError):  # a kernel without huge pages does not have this call
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        places = [page * mmap.PAGESIZE for page in range(PAGES)]
        for place in places:
            memory[place] = 1
        random.shuffle(places)
        return max(0, read(places) - read([0] * PAGES))
