#!/usr/bin/python3
"""A disk that is nearly full: commands that may grow the dataset are refused early, all others work, and refusal ends
without help.
"""

import os
import re
import signal

from support.cluster import Cluster
from support.harness import Suite, check, check_equal, wait_for
from support.resp import ReplyError

suite = Suite(__doc__)


def set_limit(backend, limit):
    backend.options = {'store': {'disk-free-min': limit}}
    backend.write_config()
    backend.signal(signal.SIGHUP)


LOW = ReplyError('MISCONF Free disk space is below disk-free-min: commands that may grow the dataset are refused, reads and '
                 'deletions still work. Delete keys, free disk space, or lower disk-free-min.')


@suite.case('below disk-free-min writes are refused, reads and deletions work, and free space ends the refusal')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1) as cluster:
        client, inner = cluster.connect(), cluster.partition(0)
        for key in ('kept', 'gone', 'list'):
            client.get('SET' if key != 'list' else 'RPUSH', key, 'value')
        disk = os.statvfs(cluster.folder)
        set_limit(cluster.backends[0], 2 * disk.f_frsize * disk.f_blocks)
        wait_for(lambda: client.get('SET', 'early', 'value') == LOW, 'SET to be refused')
        check_equal(client.get('GET', 'kept'), b'value')
        check_equal(client.get('DEL', 'gone'), 1)
        check_equal(client.get('LPOP', 'list'), b'value')
        check_equal(client.get('EXPIRE', 'kept', '1000'), 1)
        check_equal(inner.get('EVAL', "return redis.pcall('SET', KEYS[1], 'x')", '1', 'new'), LOW, 'in a script')
        inner.get('MULTI')
        check_equal(inner.get('SET', 'new', 'x'), LOW, 'in MULTI')
        check_equal(str(inner.get('EXEC')), 'EXECABORT Transaction discarded because of previous errors.')
        check(client.get('EXISTS', 'new') == 0, 'a refused write was made')
        set_limit(cluster.backends[0], '0')
        wait_for(lambda: client.get('SET', 'new', 'value') == b'OK', 'SET to be taken again')
        log = cluster.backends[0].log().decode()
        check(re.search('disk_low free_bytes=[1-9]', log) and re.search('disk_has_room free_bytes=[1-9]', log), 'the free bytes in the log')


suite.main()
