#!/usr/bin/python3
"""load_packages.py [--host H] [--port P] [--token T] [--limit N] [--records FILE] [--check] - Debian's package records, in Redis.

Every record of `apt-cache dumpavail` (or of /var/lib/dpkg/status where that is empty) becomes

    pkg:NAME:VERSION     hash     one field per field of the record
    raw:NAME:VERSION     string   the record as it is
    size:SECTION         string   the sum of Installed-Size in the section

written through redis-py in pipelines. With --check nothing is written: everything is read back and compared.
"""

import argparse
import subprocess
import sys
import time

import redis

BATCH = 500


def source():
    """The text of all records, as bytes."""
    try:
        text = subprocess.run(['apt-cache', 'dumpavail'], capture_output=True).stdout
    except OSError:
        text = b''
    if text.strip():
        return text
    with open('/var/lib/dpkg/status', 'rb') as file:
        return file.read()


def parse(record):
    """{field: value}; continuation lines belong to the value."""
    fields, name = {}, None
    for line in record.split(b'\n'):
        if line[:1] in (b' ', b'\t') and name:
            fields[name] += b'\n' + line
        elif b':' in line:
            name, _, text = line.partition(b':')
            fields[name] = text.strip()
    return fields


def records(text, limit):
    """(identity, fields, raw bytes), once for each identity."""
    seen = set()
    for record in text.split(b'\n\n'):
        fields = parse(record)
        if b'Package' not in fields:
            continue
        identity = fields[b'Package'] + b':' + fields.get(b'Version', b'')
        if identity not in seen:
            seen.add(identity)
            yield identity, fields, record
            if limit and len(seen) >= limit:
                return


def batches(items):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def section_sizes(items):
    sizes = {}
    for _, fields, _ in items:
        section = b'size:' + fields.get(b'Section', b'none')
        sizes[section] = sizes.get(section, 0) + int(fields.get(b'Installed-Size', b'0'))
    return sizes


def load(client, items):
    for batch in batches(items):
        pipe = client.pipeline(transaction=False)
        for identity, fields, record in batch:
            pipe.hset(b'pkg:' + identity, mapping=fields)
            pipe.set(b'raw:' + identity, record)
            pipe.incrby(b'size:' + fields.get(b'Section', b'none'), int(fields.get(b'Installed-Size', b'0')))
        pipe.execute()


def differences(client, items):
    """The number of records that differ when read back, and the number of keys that should exist."""
    wrong = 0
    for batch in batches(items):
        pipe = client.pipeline(transaction=False)
        for identity, _, _ in batch:
            pipe.hgetall(b'pkg:' + identity)
            pipe.get(b'raw:' + identity)
        replies = pipe.execute()
        for (_, fields, record), got_fields, got_record in zip(batch, replies[::2], replies[1::2]):
            wrong += got_fields != fields or got_record != record
    sizes = section_sizes(items)
    for name, size in sizes.items():
        wrong += client.get(name) != b'%d' % size
    return wrong, 2 * len(items) + len(sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--host', default='127.0.0.1')
    parser.add_argument('--port', type=int, default=7379)
    parser.add_argument('--token', default=None, help='the token of a namespace')
    parser.add_argument('--limit', type=int, default=0, help='only so many records')
    parser.add_argument('--records', help='a file that has them, in place of what this machine knows now')
    parser.add_argument('--check', action='store_true', help='read back and compare instead of writing')
    options = parser.parse_args()
    client = redis.Redis(options.host, options.port, password=options.token, socket_timeout=120)
    if options.records:
        with open(options.records, 'rb') as file:
            text = file.read()
    else:
        text = source()
    items = list(records(text, options.limit))
    started = time.monotonic()
    wrong = 0
    if options.check:
        wrong, keys = differences(client, items)
        size = client.dbsize()
        print('%d records, %d keys expected, %d there, %d records differ' % (len(items), keys, size, wrong))
        wrong += size != keys
    else:
        load(client, items)
        print('%d records loaded, %d keys' % (len(items), client.dbsize()))
    print('%.1f s' % (time.monotonic() - started))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
