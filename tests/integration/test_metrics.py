#!/usr/bin/python3
"""The admin ports: metrics in Prometheus' format, the token, shards and readiness; Debian's prometheus scrapes both
programs, and the shipped alerts fire when a real cluster has the faults they are for.
"""

import json
import os
import re
import resource
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import yaml

from support import ROOT
from support.cluster import Cluster, Process, even_slots, free_ports, http_get, metric
from support.harness import Failure, Suite, check, check_equal, patience, wait_for
from support.resp import ReplyError, value

suite = Suite(__doc__)
MONITORING = os.path.join(ROOT, 'k8s', 'monitoring')
NAMESPACES = {'plain': {'token': 'plain'}, 'few': {'token': 'few', 'rate-limit': '1'}, 'test_*': {'token': 'test'}}
SAMPLE = re.compile(r'^([a-z_:]+)(?:\{(.*)\})? (\S+)$')


def rules():
    with open(os.path.join(MONITORING, 'rules.yaml')) as file:
        return file.read()


def labelled(text, name, **labels):
    """The sum of the samples with these labels; None: there is none."""
    found = []
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match and match[1] == name and all('%s="%s"' % label in (match[2] or '') for label in labels.items()):
            found.append(float(match[3]))
    return sum(found) if found else None


def scrape(process):
    status, text = process.http('/metrics')
    check_equal(status, 200, '/metrics of %s' % process.name)
    return text


def promtool(*words, given=None):
    done = subprocess.run(['promtool', *words], input=given, capture_output=True, text=True, cwd=MONITORING, timeout=5 * patience())
    check(done.returncode == 0, 'promtool %s: %s%s' % (' '.join(words), done.stdout, done.stderr))
    return done.stdout + done.stderr


def play(cluster, login=None):
    with cluster.connect() as client:
        if login:
            check_equal(client.get('AUTH', login), b'OK')
        for reply in client.pipeline([['SET', 'k%d' % i, 'v' * 100, 'EX', '1000'] for i in range(100)]):
            check_equal(value(reply), b'OK')
        client.pipeline([['GET', 'k%d' % (i % 100)] for i in range(300)])
        client.pipeline([['HGETALL', 'k1'], ['MGET', 'k1', 'k2', 'k3'], ['BLPOP', 'l', '0.05']])


# ---- the metrics -----------------------------------------------------------------------------------------------------

@suite.case('promtool accepts the metrics of both programs; commands, namespaces, shards, commits and the store are counted')
def _(run):
    with Cluster(backends=2, partitions=2, namespaces=NAMESPACES) as cluster:
        play(cluster, 'plain')
        with cluster.connect() as client:
            check_equal(client.get('AUTH', 'test_a', 'test'), b'OK')
            check_equal(client.get('SET', 'k', 'v'), b'OK')
            check(isinstance(value(client.call('INCR', 'k')), ReplyError), 'INCR of a text')
        proxy, backends = cluster.proxies[0], cluster.backends
        def gauge(name, namespace):
            return sum(labelled(scrape(backend), name, tenant=namespace) or 0 for backend in backends)
        wait_for(lambda: gauge('scree_backend_namespace_keys', 'test_a') == 1, 'the namespace to have its key')
        wait_for(lambda: gauge('scree_backend_namespace_expiring_keys', 'plain') == 100, 'the keys that expire')
        text = scrape(proxy)
        for calls, command in ((101, 'set'), (300, 'get'), (1, 'hgetall'), (1, 'mget'), (1, 'blpop'), (1, 'incr')):
            check_equal(labelled(text, 'scree_proxy_command_calls_total', command=command), calls, command)
        check_equal(labelled(text, 'scree_proxy_command_errors_total', command='incr'), 1)
        check_equal(labelled(text, 'scree_proxy_command_errors_total', command='get'), 0)
        check_equal(labelled(text, 'scree_proxy_command_duration_seconds_bucket', command='get', le='+Inf'), 300)
        check(labelled(text, 'scree_proxy_command_duration_seconds_sum', command='blpop') >= 0.05, 'the wait of BLPOP')
        check(labelled(text, 'scree_proxy_command_calls_total', command='zadd') is None, 'what was not called is not there')
        check_equal(labelled(text, 'scree_proxy_namespace_requests_total', tenant='test_a'), 3)
        check_equal(labelled(text, 'scree_proxy_namespace_errors_total', tenant='test_a'), 1)
        check_equal(metric(text, 'scree_proxy_shard_up'), 4)
        check_equal(metric(text, 'scree_proxy_ready'), 1)
        check(metric(text, 'scree_proxy_shard_connects_total') >= 4, 'connections to all shards')
        texts = [scrape(backend) for backend in backends]
        both = '\n'.join(texts)
        check_equal(labelled(both, 'scree_backend_command_calls_total', command='set'), 101)
        check_equal(metric(both, 'scree_backend_batch_commands_sum'), 101)
        check(metric(both, 'scree_backend_sync_duration_seconds_count') >= 4, 'batches')
        check(metric(both, 'scree_backend_store_wal_bytes') > 100 * 100, 'the log')
        check(metric(both, 'scree_backend_filesystem_free_bytes') > 0, 'the disk')
        for one in (text, *texts):
            promtool('check', 'metrics', given=one)


@suite.case("errors are counted once for each client's request, whichever program made them; the proxy's own requests apart")
def _(run):
    namespaces = {'shop': {'token': 'word', 'max-keys': 1000}}
    with Cluster(backends=2, partitions=1, proxies=1, namespaces=namespaces,
                 proxy_options={'upstream': {'hold': '0'}}) as cluster:
        proxy = cluster.proxies[0]

        def counts():
            text = scrape(proxy)
            return [int(metric(text, 'scree_proxy_' + name) or 0) for name in
                    ('error_replies_total', 'command_errors_total', 'namespace_errors_total', 'errors_total')]
        with cluster.connect() as client:
            check_equal(client.get('AUTH', 'shop', 'word'), b'OK')
            check_equal(counts(), [0, 0, 0, 0])
            check_equal(client.get('SET', 'k', 'text'), b'OK')
            for words in (['GET'], ['SELECT', '999'], ['INCR', 'k']):
                check(isinstance(client.get(*words), ReplyError), repr(words))
            wait_for(lambda: counts()[:3] == [3, 3, 3], 'three errors, of the proxy, a local command and a shard')
            before = counts()[3]
            cluster.backends[0].kill9()
            cluster.backends[1].kill9()
            keys = [cluster.key_on(shard) for shard in (0, 1)]
            check(isinstance(client.get('MGET', *keys), ReplyError), 'MGET of two shards that are down')
            wait_for(lambda: metric(scrape(proxy), 'scree_proxy_internal_errors_total') > 10, 'failures of internal requests')
            check_equal(counts(), [4, 4, 4, before + 1], 'a request whose two parts failed')
            for backend in cluster.backends:
                backend.start()


@suite.case("a histogram's buckets grow, the last one equals its count; no sample occurs twice")
def _(run):
    with Cluster(backends=1, partitions=2) as cluster:
        play(cluster)
        for process in (cluster.proxies[0], cluster.backends[0]):
            seen, last = set(), {}
            for line in scrape(process).splitlines():
                match = SAMPLE.match(line)
                if not match:
                    check(line.startswith('# '), line)
                    continue
                check((match[1], match[2]) not in seen, 'twice: %s' % line)
                seen.add((match[1], match[2]))
                if match[1].endswith('_bucket'):
                    series = match[1], re.sub(r',?le="[^"]*"', '', match[2])
                    check(float(match[3]) >= last.get(series, 0), 'buckets shrink: %s' % line)
                    last[series] = float(match[3])
                elif match[1].endswith('_count'):
                    check_equal(float(match[3]), last[match[1][:-len('_count')] + '_bucket', match[2]], line)


@suite.case('of many namespaces only the busiest are listed, the rest as a sum; counters never decrease')
def _(run):
    name = 'scree_proxy_namespace_requests_total'
    with Cluster(backends=1, partitions=1, namespaces=NAMESPACES) as cluster:
        before = 0
        for round_ in range(2):
            for i in range(70):
                with cluster.connect() as client:
                    check_equal(client.get('AUTH', 'test_%d' % i, 'test'), b'OK')
                    client.pipeline([['SET', 'k', 'v']] * (1 + (i if round_ else 70 - i)))
            text = scrape(cluster.proxies[0])
            shown = re.findall(r'^%s\{' % name, text, re.M)
            check(len(shown) <= 51, '%d namespaces' % len(shown))
            rest = labelled(text, name, tenant='other')
            check(rest > before, 'other: %s after %s' % (rest, before))
            before = rest


# ---- access ----------------------------------------------------------------------------------------------------------

def ask(port, path, token):
    request = urllib.request.Request('http://127.0.0.1:%d%s' % (port, path), headers={'Authorization': 'Bearer ' + token})
    try:
        with urllib.request.urlopen(request, timeout=patience()) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ''


@suite.case('admin-token: without it only /healthz and /readyz reply; it is never shown, and a reload changes it')
def _(run):
    options = {'admin-token': 'sesame-1'}
    with Cluster(backends=1, partitions=1, backend_options={'backend': options}, proxy_options={'proxy': options}) as cluster:
        for process in (cluster.proxies[0], cluster.backends[0]):
            for path in ('/healthz', '/readyz'):
                check_equal(process.http(path)[0], 200, path)
            for path in ('/metrics', '/config', '/shards', '/nothing'):
                check_equal(process.http(path)[0], 401, path)
                check_equal(ask(process.admin, path, 'sesame')[0], 401, path)
            for path in ('/metrics', '/config', '/shards'):
                status, text = ask(process.admin, path, 'sesame-1')
                check_equal(status, 200, path)
                check('sesame' not in text and cluster.secret not in text, 'a secret in %s' % path)
            check_equal(ask(process.admin, '/nothing', 'sesame-1')[0], 404)
            process.options = {key: dict(part, **{'admin-token': 'sesame-2'}) for key, part in process.options.items()}
            process.write_config()
            process.signal(1)
            wait_for(lambda: ask(process.admin, '/metrics', 'sesame-2')[0] == 200, 'the new token')
            check_equal(ask(process.admin, '/metrics', 'sesame-1')[0], 401, 'the old token')


@suite.case('/shards is JSON: slots, address, state of each shard; a backend lists its partitions')
def _(run):
    with Cluster(backends=2, partitions=1) as cluster:
        shards = json.loads(cluster.proxies[0].http('/shards')[1])
        check_equal(shards['epoch'], 1)
        check_equal([one['slots'] for one in shards['shards']], ['0-8191', '8192-16383'])
        check_equal([one['state'] for one in shards['shards']], ['up', 'up'])
        connection, key = cluster.connect(), cluster.key_on(0)
        for _ in range(200):
            connection.get('GET', key)
        busy = json.loads(cluster.proxies[0].http('/shards')[1])['shards'][0]
        check(busy['replies'] >= 200 and 0 < busy['mean_latency_seconds'] < 10, str(busy))
        check(0 < busy['p99_latency_seconds'] < 10, str(busy))
        cluster.backends[1].kill9()
        wait_for(lambda: [one['state'] for one in json.loads(cluster.proxies[0].http('/shards')[1])['shards']] == ['up', 'down'],
                 'the shard to be down')
        check_equal(cluster.proxies[0].http('/readyz')[0], 503)
        parts = json.loads(cluster.backends[0].http('/shards')[1])['partitions']
        check_equal([(one['partition'], one['state']) for one in parts], [(0, 'up')])


# ---- rules and dashboard -----------------------------------------------------------------------------------------

@suite.case('promtool accepts the rules and their tests; docs/runbook.md has a paragraph for each alert')
def _(run):
    promtool('check', 'rules', 'rules.yaml')
    promtool('check', 'config', 'scrape.yaml')
    promtool('test', 'rules', 'rules_test.yaml')
    with open(os.path.join(ROOT, 'docs', 'runbook.md')) as file:
        headings = set(re.findall(r'^#+ (Scree\w+)$', file.read(), re.M))
    alerts = [rule['alert'] for group in yaml.safe_load(rules())['groups'] for rule in group['rules']]
    check_equal(headings, set(alerts), 'headings of the runbook')
    for group in yaml.safe_load(rules())['groups']:
        for rule in group['rules']:
            check_equal(rule['annotations']['runbook_url'], 'docs/runbook.md#' + rule['alert'].lower())


@suite.case('the programs have every metric that rules and dashboard use')
def _(run):
    with open(os.path.join(MONITORING, 'dashboard.json')) as file:
        panels = json.load(file)['panels']
    texts = [target['expr'] for panel in panels for target in panel.get('targets', [])] + [rules()]
    used = {name for text in texts for name in re.findall(r'\b(?:scree|process)_[a-z_]+\b', text)}
    linked = Cluster(backends=2, partitions=1)
    for backend in linked.backends:
        backend.options = {'backend': {'shards': linked.shards_path}}
    linked.slots = even_slots(2)
    linked.write_shards()
    with linked as cluster:
        play(cluster)
        wait_for(lambda: 'scree_backend_peer_round_trip_seconds_bucket' in scrape(cluster.backends[0]), 'a round trip')
        wait_for(lambda: metric(scrape(cluster.backends[0]), 'scree_backend_namespace_keys'), 'the keys to be counted')
        printed = {match[1] for process in (cluster.proxies[0], cluster.backends[0])
                   for match in map(SAMPLE.match, scrape(process).splitlines()) if match}
    check_equal(used - printed, set(), 'names that nobody prints')
    check(len(used) > 40, '%d names' % len(used))


# ---- alerts with real faults -----------------------------------------------------------------------------------------

class Prometheus(Process):
    """Debian's prometheus with the shipped rules; their windows are shortened to seconds, and their `for` to nothing."""

    def __init__(self, cluster):
        self.port = free_ports()
        self.config = os.path.join(cluster.folder, 'prometheus.yaml')
        self.rules = os.path.join(cluster.folder, 'rules.yaml')
        self.cluster = cluster
        super().__init__('prometheus', ['prometheus', '--config.file=' + self.config, '--storage.tsdb.path=' +
                                        os.path.join(cluster.folder, 'tsdb'), '--web.listen-address=127.0.0.1:%d' % self.port],
                         cluster.folder, [self.port])

    def write(self):
        text = re.sub(r'for: \w+', 'for: 0s', rules()).replace('[5m]', '[4s]')
        text = text.replace('size_bytes < 0.15', 'size_bytes < 2')  # every disk counts as nearly full
        text = text.replace('[6h], 24 * 3600', '[6h], 0')  # some seconds say nothing about a day
        with open(self.rules, 'w') as file:
            file.write(text)
        jobs = {'scree-proxy': self.cluster.proxies, 'scree-backend': self.cluster.backends}
        with open(self.config, 'w') as file:
            yaml.safe_dump({'global': {'scrape_interval': '500ms', 'scrape_timeout': '500ms', 'evaluation_interval': '500ms'},
                            'rule_files': [self.rules],
                            'scrape_configs': [{'job_name': job, 'static_configs': [
                                {'targets': ['127.0.0.1:%d' % process.admin for process in processes]}]}
                                for job, processes in jobs.items()]}, file)

    def get(self, path):
        status, text = http_get(self.port, path)
        return json.loads(text)['data'] if status == 200 else None

    def firing(self):
        data = self.get('/api/v1/alerts') or {'alerts': []}
        return {alert['labels']['alertname'] for alert in data['alerts'] if alert['state'] == 'firing'}

    def wait_alert(self, name):
        try:
            wait_for(lambda: name in self.firing(), 'the alert ' + name, pause=0.1)
        except Failure as failure:
            raise Failure('%s; firing: %s' % (failure, self.firing())) from None

    def wait_up(self, count):
        def ups():
            data = self.get('/api/v1/query?' + urllib.parse.urlencode({'query': 'sum(up)'}))
            return data and data['result'] and float(data['result'][0]['value'][1]) == count
        wait_for(ups, '%d targets to be up' % count, pause=0.1)


def spoil_map(cluster, epoch):
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write('[map]\nepoch = %d\n[shard a]\nslots = 0-3\naddress = 127.0.0.1:1\n' % epoch)
    os.rename(cluster.shards_path + '.new', cluster.shards_path)


@suite.case('prometheus scrapes both programs; alerts fire: disk, hot key, rates, old map, refused reload, read-only, shard down')
def _(run):
    with tempfile.TemporaryDirectory() as folder:
        own_map = os.path.join(folder, 'shards.ini')
        with Cluster(backends=2, partitions=1, proxies=2, namespaces=NAMESPACES,
                     proxy_options={'proxy': {'hotkeys-sample': '2'}}) as cluster:
            prometheus = Prometheus(cluster)
            prometheus.write()
            prometheus.start()
            try:
                fire_all(run, cluster, prometheus, own_map)
            finally:
                prometheus.stop()


def fire_all(run, cluster, prometheus, own_map):
    late, first = cluster.proxies[1], cluster.proxies[0]
    prometheus.wait_up(4)
    prometheus.wait_alert('ScreeDiskLow')
    # ScreeAbsent fires as long as rules have been evaluated only before the first scrape
    wait_for(lambda: prometheus.firing() == {'ScreeDiskLow'}, 'no alert of a cluster that is well', pause=0.1)

    with cluster.connect() as client, cluster.connect() as few:
        check_equal(client.get('AUTH', 'plain'), b'OK')
        check_equal(few.get('AUTH', 'few', 'few'), b'OK')

        def both_fire():
            client.pipeline([['GET', 'hot']] * 2000)
            few.pipeline([['GET', 'k']] * 20)
            return {'ScreeHotKey', 'ScreeRateRefusals'} <= prometheus.firing()
        wait_for(both_fire, 'the alerts of a hot key and of refusals')

    with open(cluster.shards_path) as file:
        text = file.read()
    with open(own_map, 'w') as file:  # the second proxy keeps the old map, because it has a file of its own
        file.write(text)
    late.options = dict(late.options, proxy=dict(late.options.get('proxy', {}), shards=own_map))
    late.stop()
    late.write_config()
    late.start()
    cluster.write_shards()
    with open(cluster.shards_path) as file:
        newer = re.sub(r'epoch = \d+', 'epoch = 9', file.read())
    with open(cluster.shards_path + '.new', 'w') as file:
        file.write(newer)
    os.rename(cluster.shards_path + '.new', cluster.shards_path)
    first.signal(1)
    prometheus.wait_alert('ScreeMapOld')
    prometheus.wait_alert('ScreeMapDiffers')

    spoil_map(cluster, 10)
    first.signal(1)
    prometheus.wait_alert('ScreeReloadFailed')

    resource.prlimit(cluster.backends[0].pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    with cluster.connect() as client:
        check_equal(client.get('AUTH', 'plain'), b'OK')
        key = cluster.key_on(0)
        check(isinstance(value(client.call('SET', key, 'v' * 1000)), ReplyError), 'a write without room')
    prometheus.wait_alert('ScreeReadOnly')
    resource.prlimit(cluster.backends[0].pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    cluster.backends[1].kill9()
    for name in ('ScreeShardDown', 'ScreeProxyNotReady', 'ScreeBackendDown'):
        prometheus.wait_alert(name)
    run.note('fired: %s' % ' '.join(sorted(prometheus.firing())))


if __name__ == '__main__':
    suite.main()
