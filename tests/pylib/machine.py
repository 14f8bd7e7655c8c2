"""machine.py - what the machine's other work takes from whatever runs here."""

import time

PAUSE_NS = 100000


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
