"""machine.py - what the machine's other work, and its memory, take from whatever runs here."""

import contextlib
import mmap
import random
import statistics
import time

PAUSE_NS = 100000
PAGES, AT_ONCE = 1 << 14, 64


def pauses(seconds):
    """(part of the time, longest ms) that a program loses which does nothing but read the clock."""
    clock, lost, longest = time.perf_counter_ns, 0, 0
    last = begun = clock()
    while last < begun + seconds * 1e9:
        now = clock()
        gap, last = now - last, now
        if gap > PAUSE_NS:
            lost, longest = lost + gap, max(longest, gap)
    return lost / (last - begun), longest / 1e6


def slowness(seconds=0.1):
    """How much longer things take here than on a machine with nothing else to do: 1 to 8."""
    return min(8.0, 1 / max(0.01, 1 - pauses(seconds)[0]))


def page_ns():
    """What a byte of some other page, of 64 MB in pages of 4 KB, takes longer than one of the same page: about 100 ns for
    a walk of the page tables, thousands in a virtual machine whose host makes them up as they are used."""
    def read(places):
        took = []
        for start in range(0, PAGES, AT_ONCE):
            part, begun = places[start:start + AT_ONCE], time.perf_counter_ns()
            for place in part:
                memory[place]
            took.append((time.perf_counter_ns() - begun) / AT_ONCE)
        return statistics.median(took)

    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        with contextlib.suppress(OSError):  # a kernel that has no huge pages does not know it
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        places = [page * mmap.PAGESIZE for page in range(PAGES)]
        for place in places:
            memory[place] = 1
        random.shuffle(places)
        return max(0, read(places) - read([0] * PAGES))
