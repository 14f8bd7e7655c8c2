#!/usr/bin/python3
"""Every write and fsync fails once, the first, the second, …: no crash, no acknowledged write is lost, and reads
continue.
"""

import errno
import hashlib
import os
import random

from support.cluster import Cluster
from support.disk import SYNC_LOG, SYNC_OTHER, WRITE_LOG, WRITE_OTHER, FaultyDisk
from support.harness import Suite, check, check_equal, sized, wait_for
from support.resp import ReplyError, value


def options(parser):
    parser.add_argument('--calls', type=int, default=sized(6, long=40), help='fail at call 1, 2, … up to this')


suite = Suite(__doc__, options)


class Ledger:
    """The values that a key may have: the last acknowledged one, or a refused one after it. A refused write whose bytes
    had reached the WAL before its fsync failed may be there after the store has recovered, but must not change after
    that."""

    def __init__(self):
        self.possible = {}

    def write(self, client, rng, serial, refused):
        """Sends a pipeline of SETs and one MULTI block."""
        keys = ['k%d' % rng.randrange(40) for _ in range(10)]
        texts = ['%d/%d:' % (serial, i) + 'x' * rng.choice([5, 5, 3000]) for i in range(10)]
        commands = [['SET', key, text] for key, text in zip(keys, texts)]
        replies = [value(reply) for reply in client.pipeline(commands)]
        for key, text, reply in zip(keys, texts, replies):
            if isinstance(reply, ReplyError):
                refused.append(str(reply))
                self.possible.setdefault(key, [None]).append(text.encode())
            else:
                check_equal(reply, b'OK', 'SET')
                self.possible[key] = [text.encode()]

    def check(self, client, when, is_final=True):
        keys = list(self.possible)
        for key, reply in zip(keys, client.pipeline([['GET', key] for key in keys])):
            got = value(reply)
            if got not in self.possible[key]:
                check(False, '%s: %s holds %r, acknowledged or refused were %r'
                      % (when, key, (got or b'nil')[:30], [(one or b'nil')[:30] for one in self.possible[key]]))
            if is_final:
                self.possible[key] = [got]


def fail_each_call(run, kinds, error, failures):
    options = {'store': {'memtable': '256kb', 'write-buffer': '4kb', 'wal-limit': '1mb'}}
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, backend_options=options,
                                       disk=disk) as cluster:
        backend = cluster.backends[0]
        ledger, rng, total = Ledger(), random.Random(run.seed), 0
        for call in range(1, run.options.calls + 1):
            refused = []
            with cluster.partition(0) as client:
                disk.fail(kinds, call, failures, error)
                for serial in range(40):
                    ledger.write(client, rng, call * 1000 + serial, refused)
                ledger.check(client, 'reads while call %d fails' % call, is_final=False)
                failed = disk.heal()
                total += failed
                check(backend.alive(), 'the backend died of a failed call')
                run.debug('call %d: %d failed, %d writes refused: %s' % (call, failed, len(refused), refused[:1]))
                wait_for(lambda: client.get('SET', 'probe', call) == b'OK', 'writes after the fault has gone')
                ledger.check(client, 'after call %d has failed' % call)
            backend.kill9()
            backend.start()
            with cluster.partition(0) as client:
                ledger.check(client, 'restarted after call %d had failed' % call)
        check(total > 0, 'no call failed: the shim does not work')
        run.note('%d calls failed' % total)


CASES = [
    ('a write to the WAL fails once with EIO', WRITE_LOG, errno.EIO, 1),
    ('a write to the WAL fails with ENOSPC until there is room', WRITE_LOG, errno.ENOSPC, -1),
    ('an fsync of the WAL fails once with EIO', SYNC_LOG, errno.EIO, 1),
    ('every fsync of the WAL fails for a while', SYNC_LOG, errno.EIO, -1),
    ('a write to a data file fails once with EIO', WRITE_OTHER, errno.EIO, 1),
    ('an fsync of a data file fails once with EIO', SYNC_OTHER, errno.EIO, 1),
    ('data files cannot be written for a while: ENOSPC', WRITE_OTHER, errno.ENOSPC, -1),
]

# All kinds of writes; some of these commands do not have the flag "write".
SCRIPT = "return redis.call('INCR', KEYS[1])"
SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
LIBRARY = "#!lua name=l\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)"
WRITES = [
    ['SET', 'k', 'v'], ['EVAL', SCRIPT, '1', 'e'],
    ['EVALSHA', SHA, '1', 'e'], ['FCALL', 'f', '1', 'f'], ['PFCOUNT', 'hll'], ['EXEC'],
]


@suite.case('no kind of write is answered before its batch is on disk')
def _(run):
    with FaultyDisk() as disk, Cluster(backends=1, partitions=1, proxies=0, disk=disk) as cluster:
        with cluster.partition(0) as client:
            client.get('SCRIPT', 'LOAD', SCRIPT)
            client.get('FUNCTION', 'LOAD', LIBRARY)
            for words in WRITES:
                wait_for(lambda: client.get('SET', 'probe', 'x') == b'OK', 'writes to be taken')
                client.get('PFADD', 'hll', os.urandom(8))  # the next PFCOUNT saves its result
                if words == ['EXEC']:
                    client.pipeline([['MULTI'], ['INCR', 'x']])
                disk.fail(SYNC_LOG, 1, -1, errno.EIO)
                reply = client.get(*words)
                check(isinstance(reply, ReplyError), '%s was answered with %r' % (words[0], reply))
                disk.heal()


for title, kinds, error, failures in CASES:
    @suite.case(title)
    def _(run, kinds=kinds, error=error, failures=failures):
        fail_each_call(run, kinds, error, failures)


if __name__ == '__main__':
    suite.main()
