"""kvrocks_rows.py - makes directories as Kvrocks 2.10 writes them, row by row, from the description of its encoding
(https://kvrocks.apache.org/community/data-structure-on-rocksdb, and what a server of 2.10.1 has written where that differs); ldb of
rocksdb-tools writes the rows. Nothing here is from scree-copy.

    directory = Directory(folder, is_new=True, has_slots=False)
    directory.hash(b'key', {b'field': b'value'}, expire_ms=0)
    directory.write()
"""

import os
import struct
import subprocess

from support.harness import check_equal

STRING, HASH, LIST, SET, ZSET, BITMAP, SORTEDINT, STREAM, BLOOM, JSON, HYPERLOGLOG, TDIGEST, TIMESERIES = range(1, 14)
FAMILIES = ('default', 'metadata', 'zset_score', 'pubsub', 'propagate', 'stream', 'search')
MIDDLE = (2**64 - 1) // 2  # where lists begin
GROUP_MARK = b'\xff' * 8


def u16(number):
    return struct.pack('>H', number)


def u32(number):
    return struct.pack('>I', number)


def u64(number):
    return struct.pack('>Q', number)


def text(data):
    return u64(len(data)) + data


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot(key):
    start = key.find(b'{')
    end = key.find(b'}', start + 1)
    tag = key[start + 1:end] if start >= 0 and end > start + 1 else key
    return crc16(tag) % 16384


def score(number):
    """8 bytes that sort like the number; -0 is not 0."""
    bits, = struct.unpack('>Q', struct.pack('>d', number))
    return u64(bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63)


def varint(number):
    out = b''
    while number >= 0x80:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def stream_id(ms, seq):
    return u64(ms) + u64(seq)


class Directory:
    """Rows of a directory. `is_new`: the encoding with milliseconds; has_slots: that of cluster mode."""

    def __init__(self, folder, is_new=True, has_slots=False, namespace=b'__namespace'):
        self.folder, self.is_new, self.has_slots, self.namespace = folder, is_new, has_slots, namespace
        self.families = {name: {} for name in FAMILIES}
        self.version = 0x330a70ab6b3b1935

    # -- the parts of rows

    def prefix(self, key):
        return bytes([len(self.namespace)]) + self.namespace + (u16(slot(key)) if self.has_slots else b'')

    def head(self, kind, expire_ms):
        if self.is_new:
            return bytes([0x80 | kind]) + u64(expire_ms)
        return bytes([kind]) + u32((expire_ms + 499) // 1000)

    def metadata(self, key, kind, size, more=b'', expire_ms=0):
        """The metadata row of a value that has rows; its version is a new one."""
        self.version += 1
        count = u64(size) if self.is_new else u32(size)
        self.put('metadata', self.prefix(key) + key, self.head(kind, expire_ms) + u64(self.version) + count + more)

    def put(self, family, key, value):
        self.families[family][key] = value

    def row(self, family, key, sub, value):
        self.put(family, self.prefix(key) + u32(len(key)) + key + u64(self.version) + sub, value)

    # -- values

    def string(self, key, value, expire_ms=0):
        self.put('metadata', self.prefix(key) + key, self.head(STRING, expire_ms) + value)

    def json(self, key, payload, is_cbor=False, expire_ms=0):
        self.put('metadata', self.prefix(key) + key, self.head(JSON, expire_ms) + bytes([is_cbor]) + payload)

    def hash(self, key, fields, expire_ms=0, more=b''):
        self.metadata(key, HASH, len(fields), more, expire_ms)
        for field, value in fields.items():
            self.row('default', key, field, value)

    def set(self, key, members, expire_ms=0):
        self.metadata(key, SET, len(members), expire_ms=expire_ms)
        for member in members:
            self.row('default', key, member, b'')

    def list(self, key, elements, left=0, expire_ms=0):
        """`left` of the elements were pushed at the left."""
        head = MIDDLE - left
        self.metadata(key, LIST, len(elements), u64(head) + u64(head + len(elements)), expire_ms)
        for i, element in enumerate(elements):
            self.row('default', key, u64(head + i), element)

    def zset(self, key, scores, expire_ms=0):
        self.metadata(key, ZSET, len(scores), expire_ms=expire_ms)
        for member, number in scores.items():
            self.row('default', key, member, score(number))
            self.row('zset_score', key, score(number) + member, b'')

    def bitmap(self, key, bits, size=None, expire_ms=0):
        """The numbers of the bits that are set."""
        parts = {}
        for bit in bits:
            part = parts.setdefault(bit // 8192 * 1024, bytearray())
            at = bit % 8192 // 8
            part.extend(bytes(max(0, at + 1 - len(part))))
            part[at] |= 1 << bit % 8
        self.metadata(key, BITMAP, size or max(bits) // 8 + 1, expire_ms=expire_ms)
        for offset, part in parts.items():
            self.row('default', key, str(offset).encode(), bytes(part))

    def sortedint(self, key, numbers, size=None, expire_ms=0):
        self.metadata(key, SORTEDINT, len(numbers) if size is None else size, expire_ms=expire_ms)
        for number in numbers:
            self.row('default', key, u64(number), b'')

    def hyperloglog(self, key, registers, expire_ms=0):
        """12288 bytes; rows of zeros are left out."""
        self.metadata(key, HYPERLOGLOG, 0, b'\0', expire_ms)
        for i in range(16):
            part = registers[i * 768:(i + 1) * 768]
            if any(part):
                self.row('default', key, str(i).encode(), part)

    def stream(self, key, entries, size=None, last=None, added=None, deleted=(0, 0), groups_count=0, expire_ms=0):
        """entries: {(ms, seq): [field, value, …]}."""
        ids = sorted(entries)
        first, final = (ids[0], ids[-1]) if ids else ((0, 0), (0, 0))
        more = b''.join(stream_id(*each) for each in (last or final, first, deleted, first, final))
        self.metadata(key, STREAM, len(ids) if size is None else size, more + u64(len(ids) if added is None else added) + u64(groups_count), expire_ms)
        for each in ids:
            self.row('stream', key, stream_id(*each), b''.join(varint(len(part)) + part for part in entries[each]))

    def group(self, key, name, last, read, consumers, pending):
        """Of the last stream. consumers: {name: (seen ms, active ms)}, pending: {id: (consumer, ms, deliveries)}."""
        value = u64(len(consumers)) + u64(len(pending)) + stream_id(*last) + u64(read) + u64(0)
        self.row('stream', key, GROUP_MARK + b'\1' + text(name), value)
        for consumer, (seen, active) in consumers.items():
            self.row('stream', key, GROUP_MARK + b'\2' + text(name) + text(consumer), u64(99) + u64(seen) + u64(active))
        for each, (consumer, ms, deliveries) in pending.items():
            self.row('stream', key, GROUP_MARK + b'\3' + text(name) + stream_id(*each), u64(ms) + u64(deliveries) + text(consumer))

    def library(self, name, code):
        self.put('propagate', b'lua_lib_code_' + name, code)

    # -- the directory

    def ldb(self, *words, rows=None):
        done = subprocess.run(['ldb', '--db=' + self.folder, *words], input=rows, capture_output=True, text=True, check=False)
        check_equal(done.returncode, 0, 'ldb %s: %s' % (words, done.stdout[-200:] + done.stderr[-500:]))

    def write(self):
        """Writes all rows; those of the last families are in RocksDB's own log only."""
        if not os.path.exists(self.folder):
            self.ldb('load', '--hex', '--create_if_missing', rows='')
            for family in FAMILIES[1:]:
                self.ldb('create_column_family', family)
        for family, rows in self.families.items():
            lines = ''.join('0x%s ==> 0x%s\n' % (key.hex().upper(), value.hex().upper()) for key, value in rows.items())
            if lines:
                self.ldb('load', '--hex', '--column_family=' + family, rows=lines)
        return self.folder
