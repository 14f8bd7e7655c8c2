#!/usr/bin/python3
"""--dump-log beside a running backend: its effects, applied to an empty store, give the rows of every key."""

import re
import subprocess

from support.cluster import Cluster, binary
from support.harness import Suite, check, check_equal, patience

suite = Suite(__doc__)


def dump(data, *options):
    done = subprocess.run([binary('scree-backend'), '--dump-log', data] + list(options), capture_output=True, check=False)
    check_equal(done.returncode, 0, done.stderr.decode())
    return [line.split(b' ') for line in done.stdout.splitlines()]


def raw(word):
    return b'' if word == b'-' else re.sub(rb'\\x([0-9a-f]{2})', lambda match: bytes([int(match.group(1), 16)]), word)


def rebuild(lines):
    """Rows by column family and key, after all effects in order."""
    rows = {}
    for line in lines:
        if line[0] == b'#' or line[1] in (b'batch', b'probe'):
            continue
        family, key = rows.setdefault(line[2], {}), raw(line[5])
        if line[1] == b'put':
            family[key] = raw(line[6])
        elif line[1] == b'delete':
            family.pop(key, None)
        else:
            to = raw(line[6])
            for other in [other for other in family if other >= key and (not to or other < to)]:
                del family[other]
    return rows


@suite.case('the effects of the log give every key of a running backend, from any index on')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        with cluster.partition(0) as client:
            client.get('SET', 'gone', '1')
            client.get('FLUSHDB')
            for number in range(300):
                client.get('SET', 'key:%d' % number, 'value %d' % number)
                client.get('RPUSH', 'list:%d' % (number % 10), 'element %d' % number)
            for number in range(0, 300, 3):
                client.get('DEL', 'key:%d' % number)
            client.get('DEL', 'list:3')
            lines = dump(backend.data)
            rows = rebuild(lines)
            keys = {row[3:]: row for row in rows[b'metadata']}
            check_equal(len(keys), client.get('DBSIZE'), 'keys in the log against DBSIZE')
            for number in range(300):
                key = b'key:%d' % number
                value = rows[b'metadata'][keys[key]][9:] if key in keys else None
                check_equal(value, client.get('GET', key), 'the value of %r' % key)
            # rows of list:3 are only removed by compaction
            elements = [row for row in rows[b'data'] if b'list:3' not in row]
            stored = sum(client.get('LLEN', 'list:%d' % number) for number in range(10))
            check_equal(len(elements), stored, 'rows of lists')
            slots = {int(line[4]) for line in lines if line[1] == b'put' and line[2] == b'metadata'}
            check(client.get('CLUSTER', 'KEYSLOT', 'key:7') in slots, 'the slot of a row')
        heads = [line for line in lines if len(line) > 1 and line[1] == b'batch']
        check_equal([int(line[0]) for line in heads], list(range(1, len(heads) + 1)), 'indexes without a gap')
        check(all(line[5] == line[0] for line in heads), 'each batch commits itself')
        later = dump(backend.data, '--from', '200')
        check_equal(later[0], [b'#', b'partition-0'], 'the first line')
        check_equal(later[1:], [line for line in lines[1:] if int(line[0]) >= 200], 'what --from leaves')


@suite.case('an option without its tool is refused, and no server starts')
def _(run):
    for option, tool in ((['--from', '3'], b'--dump-log'), (['--json'], b'--dump-keys'), (['--repair'], b'--check-data'),
                         (['--map', 'shards.ini'], b'--restore'), (['--shard', 'a'], b'--restore')):
        done = subprocess.run([binary('scree-backend')] + option, capture_output=True, check=False, timeout=patience())
        check_equal(done.returncode, 2, option)
        check_equal(done.stderr, b'%s: only together with %s\n' % (option[0].encode(), tool), option)


suite.main()
