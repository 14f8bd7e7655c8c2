"""rdb_payload.py - payloads for RESTORE made by hand, as servers of other versions than the installed one dump them.

    payload(20, string(listpack('a', 'b')), version=11)        a set as a listpack, of Redis 7.2
"""

import struct


def _table():
    rows = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
        rows.append(crc)
    return rows


_CRC64 = _table()


def crc64(data):
    """The checksum of Redis: CRC-64 with Jones' polynomial, reflected."""
    crc = 0
    for byte in data:
        crc = _CRC64[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc


def with_footer(body, version):
    """A payload of DUMP: the type and value in `body`, then the RDB version and the checksum of both."""
    data = body + struct.pack('<H', version)
    return data + struct.pack('<Q', crc64(data))


def payload(kind, body, version):
    return with_footer(bytes([kind]) + body, version)


def length(number):
    if number < 1 << 6:
        return bytes([number])
    if number < 1 << 14:
        return struct.pack('>H', 0x4000 | number)
    return b'\x80' + struct.pack('>I', number) if number < 1 << 32 else b'\x81' + struct.pack('>Q', number)


def string(data):
    data = data if isinstance(data, bytes) else str(data).encode()
    return length(len(data)) + data


def millis(number):
    return struct.pack('<Q', number)


def raw_id(ms, seq):
    return struct.pack('>QQ', ms, seq)


def listpack(*elements):
    """A listpack of short texts and integers."""
    data = b''
    for element in elements:
        text = element if isinstance(element, bytes) else str(element).encode()
        one = bytes([0x80 | len(text)]) + text
        if isinstance(element, int):
            one = bytes([element]) if 0 <= element < 128 else b'\xf4' + struct.pack('<q', element)
        data += one + bytes([len(one)])
    return struct.pack('<IH', len(data) + 7, len(elements)) + data + b'\xff'


def stream(kind, ids, group_last, version, read=None, active=None):
    """A stream with entries `f v` of these small ids in one node, and a group with a consumer that has the first entry
    pending."""
    master = ids[0]
    elements = [len(ids), 0, 1, 'f', 0]
    for ms, seq in ids:
        elements += [2, ms - master[0], seq, 'v', 4]
    body = length(1) + string(raw_id(master[0], 0)) + string(listpack(*elements))
    body += length(len(ids)) + length(ids[-1][0]) + length(ids[-1][1])
    if kind != 15:
        body += length(master[0]) + length(master[1]) + length(0) * 2 + length(len(ids))
    body += length(1) + string('group') + length(group_last[0]) + length(group_last[1])
    body += length(read) if kind != 15 else b''
    body += length(1) + raw_id(*master) + millis(1000) + length(3)
    body += length(1) + string('consumer') + millis(2000) + (millis(active) if kind == 21 else b'')
    return payload(kind, body + length(1) + raw_id(*master), version)
