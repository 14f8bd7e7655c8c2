#!/usr/bin/python3
"""A tenant doubles every argument, count, size and depth of every command, alone, in MULTI and in scripts, over three shards. No process needs
more memory than its budget, every command ends, and neither another tenant nor the operator is refused anything."""

import re
import threading

from support.cluster import Cluster, binary, is_sanitized
from support.every_argument import EXAMPLES, SKIPPED, growing, names_of
from support.harness import LONG, Failure, Suite, check, sized
from support.resp import Closed, ReplyError
from support.slow import text

MB = 1 << 20
SHARDS = 3
LIMIT_MS = 500
FEW = 350  # requests besides the examples; all of them with --long
# Memory of one command, its effects, its request and its reply; what caches and write buffers take is bounded by [store] memory.
BUDGET_MB = 64 + 4 * 16 + 2 * 16 + 64

suite = Suite(__doc__)

# Errors of a shard that a command has silenced or ended in a way that must not be.
WRONG = re.compile(rb'no reply within|connection lost|not reachable|TRYAGAIN|LOADING|\bBUSY |MISCONF')
# A bigger request would only be refused again.
REFUSED = re.compile(rb'limit|command-memory|too (many|long|big|deep|large)|maximum|exceeds|out of range|larger than|must be (between|in)')


def fill(client):
    """Keys with data of each type."""
    rows = [word for i in range(3000) for word in (str(i), 'm%d' % i)]
    client.get('SET', 'string', 'x' * 100000)
    client.get('SET', 'text', 'ab' * 2000)
    client.get('SET', 'text2', 'ba' * 2000)
    client.get('RPUSH', 'list', *['e%d' % i for i in range(3000)])
    client.get('SADD', 'set', *rows[1::2])
    client.get('HSET', 'hash', *rows)
    client.get('ZADD', 'zset', *rows)
    client.get('GEOADD', 'geo', *[word for i in range(1000) for word in (i % 170, i % 80, 'm%d' % i)])
    client.get('PFADD', 'hll', *rows[1::2])
    for i in range(300):
        client.get('XADD', 'stream', '%d-1' % (i + 1), 'f', 'v')
    client.get('JSON.SET', 'json', '$', '{"a":[%s]}' % ','.join(['{"a":[1]}'] * 1000))
    client.get('BF.RESERVE', 'bloom', '0.01', '10000')
    client.get('CMS.INITBYDIM', 'cms', '1000', '5')
    client.get('TOPK.RESERVE', 'topk', '100', '1000', '5', '0.9')
    client.get('TDIGEST.CREATE', 'tdigest')


class Watcher(threading.Thread):
    """Commands at all shards, until stopped; what was refused."""

    def __init__(self, connection, keys):
        super().__init__(daemon=True)
        self.connection, self.keys, self.refused, self.done, self.stopped = connection, keys, [], 0, threading.Event()
        self.start()

    def run(self):
        while not self.stopped.wait(0.05):
            for key in self.keys:
                for words in (('SET', key, 'v'), ('GET', key), ('MGET', *self.keys)):
                    got = text(self.connection.get(*words))
                    if not isinstance(got, (list, bytes)) or isinstance(got, bytes) and got not in (b'OK', b'v'):
                        self.refused.append((words[0], got))
                    self.done += 1

    def finish(self, who):
        self.stopped.set()
        self.join()
        check(self.done > 0 and not self.refused, '%s was refused: %r' % (who, self.refused[:5]))


class Attack:
    def __init__(self, cluster, most):
        self.cluster, self.most = cluster, most
        self.new, self.faults = 0, []
        self.client = self.log_in()
        fill(self.client)
        self.measure()

    def measure(self):
        for process in self.cluster.backends + self.cluster.proxies:
            process.before = process.rss_bytes()
            process.forget_peak()

    def try_out(self, request):
        """Notes what is wrong, and goes on."""
        try:
            for how in ('alone', 'MULTI', 'script'):
                self.grow(request, how)
            self.check_memory(request.line)
        except Failure as failure:
            self.faults.append(str(failure))
            self.client.close()
            self.client = self.log_in()
            self.measure()

    def log_in(self):
        connection = self.cluster.connect()
        check(text(connection.get('AUTH', 'greedy')) == b'OK', 'AUTH')
        return connection

    def key(self, kind, i):
        return 'new%d:%d' % (self.new, i) if kind == 'new' else kind

    def ask(self, words, how):
        """The reply; an error if the connection was closed because of the request."""
        try:
            if how == 'MULTI':
                self.client.get('MULTI')
                queued = text(self.client.get(*words))
                got = self.client.get('EXEC')
                got = queued if isinstance(got, ReplyError) else got
                return got[0] if isinstance(got, list) and got else got
            if how == 'script':
                return self.client.get('EVAL', 'return redis.pcall(unpack(ARGV))', '0', *words)
            return self.client.get(*words)
        except (Closed, OSError):
            self.client = self.log_in()
            return ReplyError('closed: a limit')

    def check_memory(self, what):
        if is_sanitized(binary('scree-backend')):
            return
        for process in self.cluster.backends + self.cluster.proxies:
            more = process.peak_rss_bytes() - process.before
            check(more <= BUDGET_MB * MB, '%s: %s has taken %d MB more, at most %d are allowed' % (what, process.name, more // MB, BUDGET_MB))

    def grow(self, request, how):
        n, step = (1, 8) if how == 'alone' else (64, 16)
        while n <= self.most:
            self.new += 1
            words = request.words(n)
            if sum(len(word) for word in words) > 8 * MB:
                break
            got = self.ask(words, how)
            error = text(got) if isinstance(got, ReplyError) else b''
            check(not WRONG.search(error), '%s, n = %d, %s: %r' % (request.line, n, how, error[:300]))
            if REFUSED.search(error):
                break
            n *= step
        self.client.get('DEL', *['new%d:%d' % (self.new, i) for i in range(min(n, 1000))])


@suite.case('every argument of every command is doubled until it is refused, and nothing else is')
def _(run):
    options = {'backend': {'command-memory': '64mb', 'batch-limit': '16mb', 'reply-limit': '16mb', 'durability': 'os',
                           'command-time-limit': '%dms' % LIMIT_MS}, 'store': {'memory': '64mb'}}
    tenants = {'greedy': {'token': 'greedy'}, 'modest': {'token': 'modest'}}
    with Cluster(backends=SHARDS, partitions=1, linked=True, namespaces=tenants, backend_options=options,
                 proxy_options={'proxy': {'requirepass': 'main'}}) as cluster:
        cluster.wait_linked()
        with cluster.connect() as operator, cluster.connect() as modest:
            check(text(modest.get('AUTH', 'modest')) == text(operator.get('AUTH', 'main')) == b'OK', 'AUTH')
            names = operator.get('COMMAND', 'LIST')
            table = operator.get('COMMAND', 'INFO', *[name for name in names if b'|' not in name])
            keys = [cluster.key_on(shard) for shard in range(SHARDS)]
            attack = Attack(cluster, sized(64, long=1 << 20))
            watchers = [('the operator', Watcher(operator, keys)), ('another tenant', Watcher(modest, keys))]
            requests = growing(table, operator.get('COMMAND', 'DOCS'), attack.key)
            reached = {name for request in requests for name in names_of(request.line)}
            missing = {name.decode() for name in names} - reached - SKIPPED
            check(not missing, 'no request of %s' % sorted(missing))
            if not LONG:
                few = set(run.rng.sample(range(len(EXAMPLES), len(requests)), FEW))
                requests = [request for i, request in enumerate(requests) if i < len(EXAMPLES) or i in few]
            run.note('%d requests of %d commands' % (len(requests), len({request.line.split()[0].lower() for request in requests})))
            for request in requests:
                run.debug(request.line)
                attack.try_out(request)
            for who, watcher in watchers:
                watcher.finish(who)
            check(not attack.faults, '%d faults: %s' % (len(attack.faults), '; '.join(attack.faults[:20])))


if __name__ == '__main__':
    suite.main()
