#!/usr/bin/python3
"""The manifests of k8s/, without a cluster: rendered, and checked against the API's schemas, each other and the
programs.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
import textwrap

import yaml

from support import ROOT, TESTS, monitors
from support.certs import Authority
from support.cluster import binary
from support.harness import Suite, check, check_equal
from support.kube import SECOND_SET, Agreement, Objects, container_of, data_of, render, render_two_sets, render_with_push, render_with_tls, shards_of_two_sets
from support.node import npm_ci

suite = Suite(__doc__)
PROD, COPIES = 'k8s/overlays/prod', 'k8s/overlays/copies'
OVERLAYS = ('k8s/overlays/dev', PROD, COPIES)


@suite.case('all overlays render, with the number of pods they state')
def _(run):
    for folder, want in zip(OVERLAYS, ((1, 1), (3, 3), (3, 3))):
        agreement = Agreement(render(folder))
        check_equal((agreement.replicas(agreement.proxy()), agreement.replicas(agreement.backend())), want, folder)
        run.note('%s: %d objects' % (folder, len(agreement.objects.all)))


@suite.case('the Kubernetes API accepts every object: versions, kinds, required fields, no unknown fields')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-schemas-') as folder:
        source = os.path.join(TESTS, 'integration/kubernetes_schemas')
        for name in os.listdir(source):
            shutil.copy(os.path.join(source, name), folder)
        npm_ci(folder, '--prefer-offline')
        for overlay in OVERLAYS:
            check_equal(validate(folder, render(overlay)), 'ok\n', overlay)
        for overlay in (PROD, COPIES):
            check_equal(validate(folder, render_with_push(overlay)), 'ok\n', 'components/push above ' + overlay)
        check_equal(validate(folder, documented()), 'ok\n', 'docs/kubernetes.md')
        check_schemas_can_fail(folder)


def documented():
    """The objects that docs/kubernetes.md shows, without those of other APIs (cert-manager's)."""
    blocks = re.findall(r'(?ms)^ *```yaml\n(.*?)^ *```$', read(os.path.join(ROOT, 'docs/kubernetes.md')))
    objects = [one for block in blocks for one in yaml.safe_load_all(textwrap.dedent(block))]
    return [one for one in objects if 'cert-manager.io' not in one.get('apiVersion', 'cert-manager.io')]


@suite.case('the examples of docs/kubernetes.md may run in a namespace that enforces `restricted`, and match the Services')
def _(run):
    text, objects = read(os.path.join(ROOT, 'docs/kubernetes.md')), documented()
    check_equal(sorted(one['kind'] for one in objects), ['Job', 'NetworkPolicy', 'PriorityClass', 'Service'])
    check('kubectl -n scree run' not in text, 'kubectl run makes a pod that `restricted` refuses')
    pod = next(one for one in objects if one['kind'] == 'Job')['spec']['template']['spec']
    check_equal(Agreement.security_of(dict(pod, automountServiceAccountToken=False), pod['containers'][0]), '')
    with tempfile.TemporaryDirectory(prefix='scree-certs-') as folder:
        proxy = Objects(render_with_tls(tls_files(folder)[0])).get('Deployment', 'scree-proxy')
    ports = {port['name'] for port in container_of(proxy)['ports']}
    labels = proxy['spec']['template']['metadata']['labels']
    service, policy = (next(one for one in objects if one['kind'] == kind)['spec'] for kind in ('Service', 'NetworkPolicy'))
    check(service['selector'].items() <= labels.items() and policy['podSelector']['matchLabels'].items() <= labels.items(),
          'the load balancer has no pods')
    check_equal({service['ports'][0]['targetPort'], policy['ingress'][0]['ports'][0]['port']} - ports, set(), 'ports')


def validate(folder, objects):
    for one in objects:
        if one['kind'] == 'Secret':  # kustomize breaks long lines; the API accepts this, the schema does not
            one['data'] = {name: text.replace('\n', '') for name, text in one['data'].items()}
    done = subprocess.run(['node', 'validate.js'], cwd=folder, input=json.dumps(objects), capture_output=True, text=True)
    check_equal(done.stderr, '')
    return done.stdout


def check_schemas_can_fail(folder):
    objects = Objects(render(PROD))
    proxy, backend = objects.get('Deployment', 'scree-proxy'), objects.get('StatefulSet', 'scree-backend')
    del proxy['spec']['selector']
    container_of(proxy)['livenesProbe'] = {}
    backend['spec']['replicas'] = 'three'
    objects.get('PodDisruptionBudget', 'scree-proxy')['apiVersion'] = 'policy/v7'
    text = validate(folder, objects.all)
    for words in ('required property selector', 'unknown field /spec/template/spec/containers/0/livenesProbe',
                  'data/spec/replicas must be integer', 'there is no policy/v7 PodDisruptionBudget', '4 problems'):
        check(words in text, 'expected %r in %s' % (words, text))


@suite.case('names, ports, selectors, mounts, probes, files, options and limits fit together; both programs accept the files')
def _(run):
    for folder in OVERLAYS:
        problems = Agreement(render(folder), os.path.dirname(binary('scree-proxy'))).problems()
        check(not problems, '%s: %s' % (folder, '; '.join(problems)))


def tls_files(folder):
    """The contents of the Secret scree-tls, and the certificate authority."""
    ca = Authority(folder)
    leaf = ca.issue('scree', names=['DNS:scree-proxy', 'DNS:scree-backend'])
    paths = {'tls.crt': leaf.cert, 'tls.key': leaf.key, 'ca.crt': ca.cert}
    return {name: read(path) for name, path in paths.items()}, ca


def read(path):
    with open(path) as file:
        return file.read()


def operator_objects():
    """The monitors, and the rules wrapped as docs/kubernetes.md describes."""
    with open(os.path.join(ROOT, 'k8s/monitoring/monitors.yaml')) as file:
        found = [one for one in yaml.safe_load_all(file) if one]
    wrap = re.search(r"(?s)\n(\{ printf 'apiVersion: monitoring.*?\}) \| kubectl", read(os.path.join(ROOT, 'docs/kubernetes.md')))
    done = subprocess.run(['bash', '-c', wrap[1]], cwd=ROOT, capture_output=True, text=True, check=True)
    return found + [yaml.safe_load(done.stdout)]


@suite.case('the monitors of k8s/monitoring select the existing pods and Service, by a port that these have')
def _(run):
    agreement = Agreement(render(PROD))
    for monitor in operator_objects()[:2]:
        labels = monitor['spec']['selector']['matchLabels']
        if monitor['kind'] == 'PodMonitor':
            found = [container_of(one)['ports'] for one in agreement.pods_of(labels)]
            wanted = monitor['spec']['podMetricsEndpoints']
        else:
            found = [one['spec']['ports'] for one in agreement.objects.of('Service')
                     if labels.items() <= one['metadata']['labels'].items()]
            wanted = monitor['spec']['endpoints']
        check_equal(len(found), 1, '%s %s selects' % (monitor['kind'], monitor['metadata']['name']))
        check({one['port'] for one in wanted} <= {port['name'] for port in found[0]}, '%s: its port' % monitor['kind'])


@suite.case('monitors and rules have only fields of the Prometheus operator')
def _(run):
    objects = operator_objects()
    check_equal(sorted(one['kind'] for one in objects), ['PodMonitor', 'PrometheusRule', 'ServiceMonitor'])
    for one in objects:
        check_equal(monitors.problems(one), [], one['kind'])
    check(len(objects[-1]['spec']['groups'][0]['rules']) > 10, 'the rules are not in it')
    pods, rules = copy.deepcopy(objects[0]), copy.deepcopy(objects[-1])
    endpoint = pods['spec']['podMetricsEndpoints'][0]
    endpoint.update(scrapeInterval='15s', interval='15', relabelings={})
    del pods['spec']['selector'], endpoint['authorization']['credentials']['key']
    rules['spec']['groups'][0]['rules'][0].update(runbook='x', record='also:a:record')
    text = '\n'.join(monitors.problems(pods) + monitors.problems(rules) + monitors.problems({'kind': 'PodMonitors'}))
    for words in ('PodMonitor/spec/podMetricsEndpoints/0: there is no field scrapeInterval', "0/interval: '15' is not",
                  '0/relabelings: expected a list', 'PodMonitor/spec: selector is missing', 'credentials: key is missing',
                  'rules/0: there is no field runbook', 'either an alert or a record', 'there is no None PodMonitors'):
        check(words in text, 'expected %r in %s' % (words, text))


@suite.case('components/tls: both overlays with certificates, and the lines to be uncommented for it')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-certs-') as folder:
        files, _ = tls_files(folder)
        objects = render_with_tls(files)
        problems = Agreement(objects, os.path.dirname(binary('scree-proxy'))).problems()
        check(not problems, '; '.join(problems))
        del objects[[one['metadata']['name'] for one in objects].index('scree-tls')]
        check(any('refers to nothing' in text for text in Agreement(objects).problems()), 'a missing Secret is not noticed')


# ---- every check can fail --------------------------------------------------------------------------------------------

def replace_text(kind, name, file, old, new):
    def change(objects):
        data = objects.get(kind, name)['data']
        check(old in data[file], '%s does not have %r' % (file, old))
        data[file] = data[file].replace(old, new)
    return change


def set_at(kind, name, path, value):
    def change(objects):
        thing = objects.get(kind, name)
        *way, last = [int(word) if word.isdigit() else word for word in path.split('/')]
        for word in way:
            thing = thing[word]
        if value is None:
            del thing[last]
        else:
            thing[last] = value
    return change


def drop_object(kind, name):
    def change(objects):
        objects.all.remove(objects.get(kind, name))
    return change


POD = 'spec/template/spec/'
BOX = POD + 'containers/0/'
BREAKS = [
    ('is in namespace', set_at('Service', 'scree-proxy', 'metadata/namespace', 'other')),
    ('there is no Service scree-backend', set_at('Service', 'scree-backend', 'metadata/name', 'backend')),
    ('selects 0 workloads', set_at('Service', 'scree-proxy', 'spec/selector', {'app': 'x'})),
    ('is none of', set_at('Service', 'scree-proxy', 'spec/ports/0/targetPort', 'resp')),
    ('has no port admin', set_at('Service', 'scree-proxy', 'spec/ports/1/name', 'http')),
    ('no headless Service', set_at('Service', 'scree-backend', 'spec/clusterIP', None)),
    ('is not the pods own', set_at('Service', 'scree-backend', 'spec/ports/0/port', 7400)),
    ('lets in', set_at('NetworkPolicy', 'scree-backend', 'spec/ingress/0/ports/1', {'port': 'partition-7'})),
    ('proxies may reach ports', set_at('NetworkPolicy', 'scree-proxy', 'spec/egress/1/ports/1/port', 7403)),
    ('may resolve names', set_at('NetworkPolicy', 'scree-proxy', 'spec/egress/2', None)),
    ('of each other', set_at('NetworkPolicy', 'scree-proxy', 'spec/egress/0/ports/0/port', 7379)),
    ('backends may reach ports', set_at('NetworkPolicy', 'scree-backend', 'spec/egress/0/ports/1/port', 7403)),
    ('backends may resolve names', set_at('NetworkPolicy', 'scree-backend', 'spec/egress/1', None)),
    ('backends let each other in', set_at('NetworkPolicy', 'scree-backend', 'spec/ingress/0/from/1', {'podSelector': {
        'matchLabels': {'app': 'x'}}})),
    ('another shards.ini', replace_text('ConfigMap', 'scree-backend-config', 'shards.ini', 'epoch = 1', 'epoch = 2')),
    ('not the name of a pod', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', '%h.scree-backend', 'scree-backend')),
    ('peer-tls = yes does not fit', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', '#peer-tls', 'peer-tls')),
    ('peers = ', set_at('Service', 'scree-proxy-peers', 'spec/clusterIP', None)),
    ('may be away', set_at('PodDisruptionBudget', 'scree-proxy', 'spec/maxUnavailable', 3)),
    ('has replicas beside', set_at('Deployment', 'scree-proxy', 'spec/replicas', 3)),
    ('scales no object', set_at('HorizontalPodAutoscaler', 'scree-proxy', 'spec/scaleTargetRef/name', 'proxy')),
    ('the autoscaler looks at', set_at('HorizontalPodAutoscaler', 'scree-proxy', 'spec/metrics/1/pods/metric/name', 'c')),
    ('waits until maxclients', replace_text('ConfigMap', 'scree-proxy-config', 'proxy.ini', 'maxclients = 10000',
                                            'maxclients = 5000')),
    ('may run as root', set_at('Deployment', 'scree-proxy', POD + 'securityContext/runAsNonRoot', False)),
    ('the root is writable', set_at('StatefulSet', 'scree-backend', BOX + 'securityContext/readOnlyRootFilesystem', False)),
    ('capabilities are left', set_at('StatefulSet', 'scree-backend', BOX + 'securityContext/capabilities', {})),
    ('has another user', set_at('Deployment', 'scree-proxy', POD + 'securityContext/runAsUser', 1000)),
    ('mounts', set_at('Deployment', 'scree-proxy', BOX + 'volumeMounts/1', None)),
    ('refers to nothing', set_at('Deployment', 'scree-proxy', POD + 'volumes/0/configMap/name', 'config')),
    ('is a subPath', set_at('Deployment', 'scree-proxy', BOX + 'volumeMounts/0/subPath', 'proxy.ini')),
    ('probes ask', set_at('Deployment', 'scree-proxy', BOX + 'readinessProbe/httpGet/path', '/ready')),
    ('another port than admin', set_at('StatefulSet', 'scree-backend', BOX + 'livenessProbe/httpGet/port', 'partition-0')),
    ('stays in the Service', set_at('Deployment', 'scree-proxy', BOX + 'readinessProbe/failureThreshold', 30)),
    ('which is in no volume', set_at('Deployment', 'scree-proxy', BOX + 'volumeMounts/0/mountPath', '/etc/proxy')),
    ('proxy.ini: listen', replace_text('ConfigMap', 'scree-proxy-config', 'proxy.ini', '0.0.0.0:7379', '0.0.0.0:6379')),
    ('backend.ini listens on', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'partitions = 2',
                                            'partitions = 3')),
    ('shards.ini has', replace_text('ConfigMap', 'scree-proxy-config', 'shards.ini', 'scree-backend-2.', 'scree-backend-3.')),
    ('shards.ini has', set_at('StatefulSet', 'scree-backend', 'spec/replicas', 4)),
    ('different cluster secrets', set_at('Deployment', 'scree-proxy', POD + 'volumes/1/secret/secretName',
                                         'scree-backend-secrets')),
    ('holds a secret', replace_text('ConfigMap', 'scree-proxy-config', 'proxy.ini', '[namespace shop]',
                                    '[namespace shop]\ntoken = t')),
    ('an example that does not say so', set_at('Secret', 'scree-backend-secrets', 'data/secrets.ini',
                                               'W2JhY2tlbmRdCnNlY3JldCA9IHgK')),
    ('get 10 s to end', set_at('Deployment', 'scree-proxy', POD + 'terminationGracePeriodSeconds', 10)),
    ('to end, they need', replace_text('ConfigMap', 'scree-proxy-config', 'proxy.ini', 'drain-timeout = 20s',
                                       'drain-timeout = 1m')),
    ('the proxy may use', set_at('Deployment', 'scree-proxy', BOX + 'resources/limits/memory', '512Mi')),
    ('the proxy has', replace_text('ConfigMap', 'scree-proxy-config', 'proxy.ini', 'workers = 2', 'workers = 0')),
    ('the backend may use', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'memory = auto',
                                         'memory = 7gb')),
    ('CronJob scree-backup asks', set_at('CronJob', 'scree-backup', 'spec/jobTemplate/spec/template/spec/containers/0/command/5',
                                        '7379')),
    ('lacks the user of CronJob', replace_text('Secret', 'scree-backup-secrets', 'password', 'c', 'Y')),
    ('CronJob scree-backup: it may run as root', set_at('CronJob', 'scree-backup',
                                                        'spec/jobTemplate/spec/template/spec/securityContext/runAsUser', 0)),
    ('is not a volume of its own', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'scree-backups', 'backups')),
    ('room for the logs', set_at('StatefulSet', 'scree-backend',
                                 'spec/volumeClaimTemplates/0/spec/resources/requests/storage', '1Gi')),
    ('not on the volume', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', '/var/lib/scree/data', '/data')),
    ('scree-proxy --check', replace_text('ConfigMap', 'scree-proxy-config', 'shards.ini', 'slots = 0-', 'slots = 1-')),
    ('scree-backend --check', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', '[store]', '[sture]\n[store]')),
]


@suite.case('each of these checks detects the mistake it is made for')
def _(run):
    rendered = render(PROD)
    for want, change in BREAKS:
        objects = Objects(copy.deepcopy(rendered))
        change(objects)
        agreement = Agreement(objects.all, os.path.dirname(binary('scree-proxy')) if '--check' in want else None)
        problems = agreement.problems()
        check(any(want in problem for problem in problems), 'expected %r among %s' % (want, problems))
    run.note('%d changes, each found' % len(BREAKS))


A0 = 'scree-backend-a-1.scree-backend:7401 scree-backend-a-2.scree-backend:7401'
COPIES_BREAKS = [
    ('in several replica sets', replace_text('ConfigMap', 'scree-proxy-config', 'shards.ini', A0, A0.replace('a-2', 'b-2'))),
    ('has two copies in one pod', replace_text('ConfigMap', 'scree-proxy-config', 'shards.ini', A0, A0.replace('2.scree-backend:7401', '1.scree-backend:7402'))),
    ('has 2 copies: none may be lost', replace_text('ConfigMap', 'scree-proxy-config', 'shards.ini', A0, A0.split()[0])),
    ('and replicas = no', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'replicas = voters', 'replicas = no')),
    ('may be on one host', set_at('StatefulSet', 'scree-backend-a', POD + 'affinity', None)),
    ('may be on one host', set_at('StatefulSet', 'scree-backend-a',
                                  POD + 'affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels/scree-replica-set', 'b')),
    ('is not as the other replica sets', set_at('StatefulSet', 'scree-backend-b', BOX + 'resources/limits/memory', '4Gi')),
    ('scree-backend --check', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'durability = always', 'durability = none')),
]


@suite.case('a second replica set, made as docs/kubernetes.md says, fits the first, and mistakes between sets are detected')
def _(run):
    with open(os.path.join(ROOT, 'docs/kubernetes.md')) as file:
        check(SECOND_SET.strip() in file.read(), 'the page has other commands')
    programs = os.path.dirname(binary('scree-proxy'))
    rendered = render_two_sets(shards_of_two_sets(data_of(Objects(render(COPIES)).get('ConfigMap', 'scree-proxy-config'))['shards.ini']))
    problems = Agreement(rendered, programs).problems()
    check(not problems, '; '.join(problems))
    for want, change in COPIES_BREAKS:
        objects = Objects(copy.deepcopy(rendered))
        change(objects)
        found = Agreement(objects.all, programs if '--check' in want else None).problems()
        check(any(want in problem for problem in found), 'expected %r among %s' % (want, found))


SIDECAR = POD + 'containers/1/'
PUSH_BREAKS = [
    ('pushes /x, the backend writes', set_at('StatefulSet', 'scree-backend', SIDECAR + 'command/3', '/x')),
    ('pushes /var/lib/scree-archive, the backend writes None', replace_text('ConfigMap', 'scree-backend-config', 'backend.ini', 'archive-dir',
                                                                           '#archive-dir')),
    ('has another image', set_at('StatefulSet', 'scree-backend', SIDECAR + 'image', 'scree')),
    ('push-archive lacks', set_at('StatefulSet', 'scree-backend', SIDECAR + 'volumeMounts/1', None)),
    ('push-archive: the root is writable', set_at('StatefulSet', 'scree-backend', SIDECAR + 'securityContext/readOnlyRootFilesystem', False)),
    ('has no Secret', drop_object('Secret', 'scree-push')),
    ('CronJob scree-push-prune: it may run as root', set_at('CronJob', 'scree-push-prune',
                                                            'spec/jobTemplate/spec/template/spec/securityContext/runAsUser', 0)),
]


@suite.case('components/push: what backends write is pushed, from pods with no more rights than theirs; each mistake is noticed')
def _(run):
    programs = os.path.dirname(binary('scree-proxy'))
    check_equal(Agreement(render_with_push(COPIES), programs).problems(), [])
    rendered = render_with_push(PROD)
    check_equal(Agreement(rendered, programs).problems(), [])
    names = [box['name'] for one in Objects(rendered).backends() for box in one['spec']['template']['spec']['containers']]
    check_equal(names, ['scree-backend', 'push-archive', 'push-backups'])
    for want, change in PUSH_BREAKS:
        objects = Objects(copy.deepcopy(rendered))
        change(objects)
        problems = Agreement(objects.all).problems()
        check(any(want in problem for problem in problems), 'expected %r among %s' % (want, problems))
    run.note('%d changes, each found' % len(PUSH_BREAKS))


@suite.case('the image has all programs and their libraries, does not run as root, and names every build package')
def _(run):
    with open(os.path.join(ROOT, 'k8s/Containerfile')) as file:
        text = file.read()
    stages = text.split('\nFROM ')
    check_equal(len(stages), 3, 'stages')
    check(all(stage.startswith('docker.io/library/debian:12-slim') for stage in stages[1:]), 'expected Debian 12 slim twice')
    for program in ('scree-proxy', 'scree-backend', 'scree-copy'):
        check('/usr/bin/%s' % program in stages[2], '%s is not copied' % program)
        done = subprocess.run(['ldd', binary(program)], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            path = line.split('=> ')[-1].split(' ')[0]
            if any(name in line for name in ('libuv', 'libmicrohttpd', 'libssl', 'libcrypto', 'liblzf', 'libstdc++')):
                owner = owner_of(path)
                check(owner in stages[2].split(), '%s needs %s of %s' % (program, path, owner))
    for tool in ('scree-copy-keys', 'scree-from-nutcracker', 'scree-push'):
        check('/image/usr/bin/%s' % tool in stages[2], '%s is not copied' % tool)
    check({'python3-redis', 'python3-yaml', 'redis-tools', 'rclone'} <= set(stages[2].split()), 'what the tools need')
    with open(os.path.join(ROOT, '.dockerignore')) as file:
        check({'.git', 'build', 'data'} <= set(file.read().split()), 'the context would carry build trees')


@suite.case('the image has the rebuilt RocksDB: its layer needs two files only, and a build argument chooses')
def _(run):
    with open(os.path.join(ROOT, 'k8s/Containerfile')) as file:
        build = file.read().split('\nFROM ')[1].replace('\\\n', ' ')
    before, after = build.split('\nCOPY . .\n')
    copied = re.search(r'^COPY (.*) config/$', before, re.M).group(1).split()
    check(all(os.path.exists(os.path.join(ROOT, name)) for name in copied), copied)
    check_equal(re.search(r'^ARG ROCKSDB=(\w+)$', before, re.M).group(1), 'rebuilt')
    words = re.search(r'rebuilt\) (\S+) (\S+) ;;', before)
    check(words.group(1) in copied, '%s is not copied' % words.group(1))
    with open(os.path.join(ROOT, words.group(1))) as file:
        sourced = re.findall(r'^source "\$root/(\S+)"', file.read(), re.M)
    check_equal(sorted(sourced + [words.group(1)]), sorted(copied), 'files of the layer')
    option = re.search(r'-DSCREE_ROCKSDB="\$\((.*)\)"', after).group(1)
    for word, want in (('rebuilt', words.group(2)), ('debian', '')):
        check_equal(subprocess.run(['sh', '-c', option], env={'ROCKSDB': word}, capture_output=True, text=True).stdout.strip(), want)
    choice = re.search(r'case .*? esac', before).group(0).replace(words.group(0), 'rebuilt) echo built ;;')
    for word, want in (('rebuilt', (0, 'built')), ('debian', (0, '')), ('mine', (2, ''))):
        done = subprocess.run(['sh', '-c', choice], env={'ROCKSDB': word}, capture_output=True, text=True)
        check_equal((done.returncode, done.stdout.strip()), want, word)


def owner_of(path):
    """The Debian package of a library; dpkg may only know the path from before /usr was merged."""
    for name in (path, os.path.realpath(path), '*/' + os.path.basename(path)):
        done = subprocess.run(['dpkg', '-S', name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(':')[0]
    return path


if __name__ == '__main__':
    suite.main()
