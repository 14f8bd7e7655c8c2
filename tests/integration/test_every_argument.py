#!/usr/bin/python3
"""A tenant doubles every argument, count, size and depth of every command, alone, in MULTI and in scripts, over three shards. No process needs
more memory than its budget, every command ends, and neither another tenant nor the operator is refused anything."""

import re
import threading
import time

from support.cluster import Cluster, binary, is_sanitized
from support.every_argument import EXAMPLES, growing, names_of
from support.harness import LONG, Failure, Suite, check, sized
from support.resp import Closed, ReplyError, encode, value
from support.slow import text

MB = 1 << 20
SHARDS = 3
LIMIT_MS = 500
FEW = 200  # requests besides the examples; all of them with --long
# Memory of one command, its effects, its request and its reply, or replies that nobody reads; what caches and write buffers take is bounded by
# [store] memory.
BUDGET_MB = 64 + 4 * 16 + 2 * 16 + 64


def options(parser):
    parser.add_argument('--lines', default='', help='only requests that match this regular expression')
    parser.add_argument('--part', default='1/1', help='2/4: the second quarter of the requests')


suite = Suite(__doc__, options)

# How a request is sent. `queue` and `loop`: over and over in one EXEC or script, and how often grows; only with --long.
WAYS = ('alone', 'MULTI', 'script', 'queue', 'loop')
SOME = 16
SCRIPT = 'local got for _ = 1, ARGV[1] do got = redis.pcall(unpack(ARGV, 2)) end return got'

# Errors of a shard that a command has silenced or ended in a way that must not be.
WRONG = re.compile(rb'no reply within|connection lost|not reachable|TRYAGAIN|LOADING|\bBUSY |MISCONF')
# A bigger request would only be refused again.
REFUSED = re.compile(rb'limit|command-memory|too (many|long|big|deep|large)|maximum|exceeds|out of range|larger than|must be (between|in)')


ROWS = [word for i in range(3000) for word in (str(i), 'm%d' % i)]
DATA = {
    'string': [('SET', 'string', 'x' * 100000)],
    'text': [('SET', 'text', 'ab' * 2000)],
    'text2': [('SET', 'text2', 'ba' * 2000)],
    'list': [('RPUSH', 'list', *['e%d' % i for i in range(3000)])],
    'set': [('SADD', 'set', *ROWS[1::2])],
    'hash': [('HSET', 'hash', *ROWS)],
    'zset': [('ZADD', 'zset', *ROWS)],
    'geo': [('GEOADD', 'geo', *[word for i in range(1000) for word in (i % 170, i % 80, 'm%d' % i)])],
    'hll': [('PFADD', 'hll', *ROWS[1::2])],
    'stream': [('XADD', 'stream', '%d-1' % (i + 1), 'f', 'v') for i in range(300)],
    'json': [('JSON.SET', 'json', '$', '{"a":[%s]}' % ','.join(['{"a":[1]}'] * 1000))],
    'bloom': [('BF.RESERVE', 'bloom', '0.01', '10000')],
    'cms': [('CMS.INITBYDIM', 'cms', '1000', '5')],
    'topk': [('TOPK.RESERVE', 'topk', '100', '1000', '5', '0.9')],
    'tdigest': [('TDIGEST.CREATE', 'tdigest'), ('TDIGEST.ADD', 'tdigest', *ROWS[::2])],
}
DATA = {kind: [encode(words) for words in [('DEL', kind), *requests]] for kind, requests in DATA.items()}


class Watcher(threading.Thread):
    """Commands at all shards, until stopped; what was refused."""

    def __init__(self, connection, keys):
        super().__init__(daemon=True)
        self.connection, self.keys, self.refused, self.done, self.stopped = connection, keys, [], 0, threading.Event()
        self.longest = 0.0  # seconds that a command took, since take_longest
        self.start()

    def run(self):
        try:
            while not self.stopped.wait(0.05):
                for key in self.keys:
                    for words in (('SET', key, 'v'), ('GET', key), ('MGET', *self.keys)):
                        self.ask(words)
        except (Closed, OSError) as error:
            self.refused.append(('the connection', error))

    def ask(self, words):
        began = time.monotonic()
        got = text(self.connection.get(*words))
        self.longest = max(self.longest, time.monotonic() - began)
        if not isinstance(got, (list, bytes)) or isinstance(got, bytes) and got not in (b'OK', b'v'):
            self.refused.append((words[0], got))
        self.done += 1

    def take_longest(self):
        longest, self.longest = self.longest, 0.0
        return longest

    def finish(self, who):
        self.stopped.set()
        self.join()
        check(self.done > 0 and not self.refused, '%s was refused: %r' % (who, self.refused[:5]))


def reply_of(client, words, count, how):
    """The reply to the command, or to the last one of `count`."""
    if how in ('MULTI', 'queue'):
        replies = [value(reply) for reply in client.pipeline([('MULTI',), *[words] * count, ('EXEC',)])]
        queued, got = replies[-2:]
        return queued if isinstance(queued, ReplyError) else got[-1] if isinstance(got, list) and got else got
    return client.get(*words) if how == 'alone' else client.get('EVAL', SCRIPT, '0', count, *words)


class Attack:
    def __init__(self, cluster, most):
        self.cluster, self.most = cluster, most
        self.new, self.faults = 0, []
        self.client = self.log_in()

    def measure(self):
        for process in self.cluster.backends + self.cluster.proxies:
            process.before = process.rss_bytes()
            process.forget_peak()

    def try_out(self, request):
        """Notes what is wrong, and goes on."""
        self.measure()
        try:
            for how in WAYS if LONG else WAYS[:3]:
                if LONG or how == 'alone':
                    self.restore(request)
                self.grow(request, how)
            self.check_memory(request.line)
        except Failure as failure:
            self.faults.append(str(failure))
            self.client.close()
            self.client = self.log_in()

    def restore(self, request):
        """The request's keys have the data of their types again, whatever has been done to them."""
        for kind in DATA.keys() & request.kinds:
            self.prepare(DATA[kind])

    def prepare(self, requests):
        """Sends encoded requests, again if the connection is closed: CLIENT KILL of another one may have done that."""
        while True:
            try:
                self.client.send_raw(b''.join(requests))
                return [self.client.read() for _ in requests]
            except (Closed, ConnectionError):
                self.client = self.log_in()

    def log_in(self):
        connection = self.cluster.connect()
        check(text(connection.get('AUTH', 'greedy')) == b'OK', 'AUTH')
        return connection

    def key(self, kind, i):
        return 'new%d:%d' % (self.new, i) if kind == 'new' else kind

    def ask(self, request, words, count, how, what):
        """The reply; an error if the connection was closed because of the request."""
        client = self.log_in() if request.is_own else self.client
        try:
            return reply_of(client, words, count, how)
        except TimeoutError:
            raise Failure('%s: no reply' % what) from None
        except (Closed, OSError):
            if not request.is_own:
                self.client = self.log_in()
            return ReplyError('closed: a limit')
        finally:
            if request.is_own:
                client.close()

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
            words, count = (request.words(SOME), n) if how in ('queue', 'loop') else (request.words(n), 1)
            if sum(len(word) for word in words) * (count if how == 'queue' else 1) > 8 * MB:
                break
            what = '%s, n = %d, %s' % (request.line, n, how)
            got = self.ask(request, words, count, how, what)
            error = text(got) if isinstance(got, ReplyError) else b''
            check(not WRONG.search(error), '%s: %r' % (what, error[:300]))
            if REFUSED.search(error):
                break
            n *= step
        self.prepare([encode(['DEL', *('new%d:%d' % (self.new, i) for i in range(min(n, 1000)))])])


@suite.case('every argument of every command is doubled until it is refused, and nothing else is')
def _(run):
    options = {'backend': {'command-memory': '64mb', 'batch-limit': '16mb', 'reply-limit': '16mb', 'durability': 'os',
                           'command-time-limit': '%dms' % LIMIT_MS}, 'store': {'memory': '64mb'}}
    tenants = {'greedy': {'token': 'greedy'}, 'modest': {'token': 'modest'}}
    with Cluster(backends=SHARDS, partitions=1, linked=True, namespaces=tenants, backend_options=options,
                 proxy_options={'proxy': {'requirepass': 'main', 'client-output-limit': '64mb'}}) as cluster:
        cluster.wait_linked()
        with cluster.connect() as operator, cluster.connect() as modest:
            check(text(modest.get('AUTH', 'modest')) == text(operator.get('AUTH', 'main')) == b'OK', 'AUTH')
            names = operator.get('COMMAND', 'LIST')
            table = operator.get('COMMAND', 'INFO', *[name for name in names if b'|' not in name])
            docs = operator.get('COMMAND', 'DOCS')
            keys = [cluster.key_on(shard) for shard in range(SHARDS)]
            attack = Attack(cluster, sized(64, long=1 << 20))
            watchers = [('the operator', Watcher(operator, keys)), ('another tenant', Watcher(modest, keys))]
            requests = growing(table, docs, attack.key)
            reached = {name for request in requests for name in names_of(request.line)}
            missing = {name.decode() for name in names} - reached
            check(not missing, 'no request of %s' % sorted(missing))
            part, parts = map(int, run.options.part.split('/'))
            requests = [request for request in requests if re.search(run.options.lines, request.line)][part - 1::parts]
            if not LONG and not run.options.lines:
                few = set(run.rng.sample(range(len(EXAMPLES), len(requests)), FEW))
                requests = [request for i, request in enumerate(requests) if i < len(EXAMPLES) or i in few]
            run.note('%d requests of %d commands' % (len(requests), len({request.line.split()[0].lower() for request in requests})))
            for request in requests:
                began, faults = time.monotonic(), len(attack.faults)
                attack.try_out(request)
                waited = max(watcher.take_longest() for _, watcher in watchers)
                run.debug('%5.1f s, others waited %.2f s: %s' % (time.monotonic() - began, waited, request.line))
                for fault in attack.faults[faults:]:
                    run.debug('fault: ' + fault)
            for who, watcher in watchers:
                watcher.finish(who)
            check(not attack.faults, '%d faults: %s' % (len(attack.faults), '; '.join(attack.faults[:20])))


if __name__ == '__main__':
    suite.main()
