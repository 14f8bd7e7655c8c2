#!/usr/bin/python3
"""--check-data and --dump-keys on a backend's data: no errors after a crash, and a line for every key."""

import json

from support.cluster import Cluster, scan_all
from support.harness import Suite, check, check_equal
from support.resp import Connection
from test_backup import fill, tool

suite = Suite(__doc__)


@suite.case('after kill -9 under writes the data has no errors, and every key has its line; refused while a backend serves')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=0) as cluster:
        backend = cluster.backends[0]
        client = Connection(backend.addresses[0])
        fill(client)
        for i in range(500):
            client.pipeline([['ZADD', 'board', str(i % 97), 'm%d' % (i % 500)], ['HSET', 'map', 'f%d' % i, 'v'],
                              ['RPOP', 'list:9'] if i % 50 == 0 else ['INCR', 'count'], ['ZREM', 'board', 'm%d' % (i % 7)]])
        client.pipeline([['SELECT', '5'], ['SET', 'a b\xff"'.encode('latin-1'), 'x'], ['SWAPDB', '5', '7'], ['SELECT', '0']])
        backend.kill9()
        code, text = tool('--check-data', backend.data)
        check(code == 0 and ' 0 problems' in text, 'check: %s' % text)
        code, lines = tool('--dump-keys', backend.data, '--json')
        check_equal(code, 0, 'dump-keys')
        dumped = [json.loads(line) for line in lines.splitlines()]
        code, plain = tool('--dump-keys', backend.data)
        check_equal(len(plain.splitlines()), len(dumped), 'plain lines')
        check('7 string 0 1 ' in plain and 'a\\x20b\\xff"' in plain, 'an escaped key: %s' % plain[-200:])
        backend.start()
        client = Connection(backend.addresses[0])
        keys = {item['key'].encode('latin-1') for item in dumped if item['db'] == 0}
        check_equal(keys, scan_all(client, 'COUNT', '1000'), 'keys')
        check_equal([item['key'].encode('latin-1') for item in dumped if item['db'] == 7], [b'a b\xff"'], 'database 7')
        types = {item['key'].encode('latin-1'): item['type'].encode() for item in dumped if item['db'] == 0}
        for key in sorted(keys)[::9]:
            check_equal(client.get('TYPE', key), types[key], 'type of %r' % key)
        code, text = tool('--check-data', backend.data)
        check(code == 1 and 'another process uses it' in text, 'not while a backend serves it: %s' % text)


if __name__ == '__main__':
    suite.main()
