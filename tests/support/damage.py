"""damage.py - damages the row of a key in the WAL of a backend that was killed, as a program with an error would write it."""

import ctypes
import os
import struct

LINE_BYTES, HEADER_BYTES, META_BYTES = 16, 28, 9  # META_BYTES: of a string's metadata row before the payload


def checksum(index, durable, batch):
    """As in backend/wal/wal_segment.c."""
    library = ctypes.CDLL('libxxhash.so.0')
    library.XXH3_64bits.restype = library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    head = struct.pack('<IQQ', len(batch), index, durable)
    seed = library.XXH3_64bits(head, ctypes.c_size_t(len(head)))
    return library.XXH3_64bits_withSeed(batch, ctypes.c_size_t(len(batch)), ctypes.c_uint64(seed))


def damage_string(folder, payload):
    """The metadata row of the string with this payload gets an unknown type."""
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.batches'):
            continue
        path = os.path.join(folder, name)
        with open(path, 'rb') as file:
            data = bytearray(file.read())
        at = LINE_BYTES
        while at + HEADER_BYTES <= len(data):
            length, _, index, durable = struct.unpack_from('<IQQQ', data, at)
            begin, end = at + HEADER_BYTES, at + HEADER_BYTES + length
            found = data.find(payload, begin, end)
            if index and found >= 0:
                data[found - META_BYTES] = 0x8f
                struct.pack_into('<Q', data, at + 4, checksum(index, durable, bytes(data[begin:end])))
                with open(path, 'wb') as file:
                    file.write(data)
                return
            if not index:
                break
            at = end
    raise AssertionError('no batch has the payload %r' % payload)
