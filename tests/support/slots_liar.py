"""slots_liar.py - a TCP relay in front of a backend that makes its answers to SLOTS lies.

    backend ◄──► SlotsLiar ◄──► backend that lies     `claims`: the runs (first, last, epoch, shard) of each answer; None: it is honest

All other frames pass as they are, so the backend stays a shard of the cluster: it serves, and takes part in moves.
"""

import struct

from support.frame_spoiler import HEADER, FrameSpoiler, with_payload

SLOTS, DONE = 11, 128
FORMAT, UNCHANGED, OWNER = 1, 2, 3


def answer(claims):
    runs = b''.join(struct.pack('<IIQI', first, last, epoch, len(shard)) + shard.encode() for first, last, epoch, shard in claims)
    return bytes([FORMAT, OWNER]) + struct.pack('<Q', 1) + runs


class SlotsLiar(FrameSpoiler):
    def __init__(self, upstream):
        self.claims, self.asked, self.lies = None, set(), 0
        super().__init__(upstream)

    def tell(self, claims):
        self.claims, self.lies = claims, 0

    def _change(self, spoiler, kind, frame):
        _, _, _, number, _ = HEADER.unpack_from(frame)
        if kind == SLOTS:
            self.asked.add(number)
        is_answer = kind == DONE and number in self.asked and frame[HEADER.size:HEADER.size + 1] in (bytes([FORMAT]), bytes([UNCHANGED]))
        if not is_answer or self.claims is None:
            return [frame]
        self.asked.discard(number)
        self.lies += 1
        return [with_payload(frame, answer(self.claims))]
