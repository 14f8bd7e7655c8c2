"""damage.py - damages the row of a key in the WAL of a backend that was killed, as a program with an error would write it."""

import ctypes
import os
import struct

LINE_BYTES, HEADER_BYTES, META_BYTES = 16, 28, 9  # META_BYTES: of a string's metadata row before the payload
EFFECTS_HEADER_BYTES = 56


def checksum(index, durable, batch):
    """As in backend/wal/wal_segment.c."""
    library = ctypes.CDLL('libxxhash.so.0')
    library.XXH3_64bits.restype = library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    head = struct.pack('<IQQ', len(batch), index, durable)
    seed = library.XXH3_64bits(head, ctypes.c_size_t(len(head)))
    return library.XXH3_64bits_withSeed(batch, ctypes.c_size_t(len(batch)), ctypes.c_uint64(seed))


def segments(folder):
    """The paths of the WAL's segments, and their bytes."""
    for name in sorted(os.listdir(folder)):
        if name.endswith('.batches'):
            path = os.path.join(folder, name)
            with open(path, 'rb') as file:
                yield path, bytearray(file.read())


def batches(data):
    """(where the head of a batch is, where its effects begin and end, its number, the last durable one)"""
    at = LINE_BYTES
    while at + HEADER_BYTES <= len(data):
        length, _, index, durable = struct.unpack_from('<IQQQ', data, at)
        if not index:
            return
        yield at, at + HEADER_BYTES, at + HEADER_BYTES + length, index, durable
        at += HEADER_BYTES + length


def seal(path, data, at, begin, end, index, durable):
    """Writes the segment, in which a batch has changed, with the checksum that the batch must have."""
    struct.pack_into('<Q', data, at + 4, checksum(index, durable, bytes(data[begin:end])))
    with open(path, 'wb') as file:
        file.write(data)


def change(folder, text, act):
    """act(data, where the text begins) changes bytes of the first batch that has this text."""
    for path, data in segments(folder):
        for at, begin, end, index, durable in batches(data):
            found = data.find(text, begin, end)
            if found >= 0:
                act(data, found)
                seal(path, data, at, begin, end, index, durable)
                return
    raise AssertionError('no batch has %r' % text)


def damage_string(folder, payload):
    """The metadata row of the string with this payload gets an unknown type."""
    def act(data, at):
        data[at - META_BYTES] = 0x8f
    change(folder, payload, act)


def replace(folder, old, new):
    """The text `old` of a row becomes `new`, which is as long."""
    assert len(old) == len(new)
    def act(data, at):
        data[at:at + len(old)] = new
    change(folder, old, act)


def damage_anything(folder, rng, count):
    """So many random bytes in the effects of batches get other values."""
    for path, data in segments(folder):
        found = [batch for batch in batches(data) if batch[2] - batch[1] > EFFECTS_HEADER_BYTES]
        for _ in range(count if found else 0):
            at, begin, end, index, durable = rng.choice(found)
            data[rng.randrange(begin + EFFECTS_HEADER_BYTES, end)] = rng.choice((0, 1, 0x7f, 0xff, rng.randrange(256)))
            seal(path, data, at, begin, end, index, durable)
