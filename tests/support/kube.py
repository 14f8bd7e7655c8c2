"""kube.py - rendered Kubernetes objects, and checks that they fit each other and the programs.

    objects = render('k8s/overlays/prod')          kubectl kustomize, no cluster
    Agreement(objects, binaries).problems()        [] or sentences

It only checks what a schema cannot: names, ports, selectors, mounts, files named in command lines, options and limits.
Every check is one method check_…; tests/integration/test_k8s.py makes each of them fail on purpose.
"""

import base64
import configparser
import json
import os
import re
import shutil
import subprocess
import tempfile

import yaml

from support import ROOT
from support.harness import Skip

SECOND_SET = r"""
cp -r set-a set-b
sed -i 's/set a/set b/; s/nameSuffix: -a/nameSuffix: -b/; s/scree-replica-set: a/scree-replica-set: b/' set-b/kustomization.yaml
sed -i 's/^- set-a$/- set-a\n- set-b/' kustomization.yaml
"""
WORKLOADS = ('Deployment', 'StatefulSet')
SIZES = {'Ki': 2 ** 10, 'Mi': 2 ** 20, 'Gi': 2 ** 30, 'kb': 2 ** 10, 'mb': 2 ** 20, 'gb': 2 ** 30}
TIMES = {'ms': 0.001, 's': 1, 'm': 60, 'h': 3600}


def uncommented(text):
    """A file of an overlay with the lines uncommented that components/tls requires."""
    return re.sub(r'^#((?:peer-)?tls[-a-z]* =)', r'\1', text, flags=re.M)


def render_with_tls(files):
    """The prod overlay with components/tls, as an operator changes a copy of it; `files`: the contents of the Secret
    scree-tls."""
    with tempfile.TemporaryDirectory(prefix='scree-overlay-') as folder:
        root = os.path.relpath(ROOT, os.path.realpath(folder))
        prod = os.path.join(ROOT, 'k8s/overlays/prod/config')
        for name in ('proxy.ini', 'backend.ini', 'shards.ini'):
            with open(os.path.join(prod, name)) as file:
                text = re.sub(r':740([12])$', r':741\1', uncommented(file.read()), flags=re.M)
            with open(os.path.join(folder, name), 'w') as file:
                file.write(text)
        for name, text in files.items():
            with open(os.path.join(folder, name), 'w') as file:
                file.write(text)
        with open(os.path.join(folder, 'kustomization.yaml'), 'w') as file:
            yaml.safe_dump({
                'apiVersion': 'kustomize.config.k8s.io/v1beta1', 'kind': 'Kustomization', 'namespace': 'scree',
                'resources': [root + '/k8s/overlays/prod'], 'components': [root + '/k8s/components/tls'],
                'generatorOptions': {'disableNameSuffixHash': True},
                'configMapGenerator': [{'name': 'scree-proxy-config', 'behavior': 'merge', 'files': ['proxy.ini', 'shards.ini']},
                                       {'name': 'scree-backend-config', 'behavior': 'merge', 'files': ['backend.ini', 'shards.ini']}],
                'secretGenerator': [{'name': 'scree-tls', 'type': 'kubernetes.io/tls', 'files': sorted(files)}]}, file)
        return render(folder)


def render_with_push(overlay):
    """An overlay with components/push above it, as docs/kubernetes.md says."""
    with tempfile.TemporaryDirectory(prefix='scree-overlay-') as folder:
        root = os.path.relpath(ROOT, os.path.realpath(folder))
        with open(os.path.join(ROOT, overlay, 'config/backend.ini')) as file, open(os.path.join(folder, 'backend.ini'), 'w') as to:
            to.write(re.sub(r'^#(archive-dir =)', r'\1', file.read(), flags=re.M))
        with open(os.path.join(folder, 'kustomization.yaml'), 'w') as file:
            yaml.safe_dump({
                'apiVersion': 'kustomize.config.k8s.io/v1beta1', 'kind': 'Kustomization', 'namespace': 'scree',
                'resources': [root + '/' + overlay], 'components': [root + '/k8s/components/push'],
                'images': [{'name': 'scree', 'newTag': '0.2.0'}], 'generatorOptions': {'disableNameSuffixHash': True},
                'configMapGenerator': [{'name': 'scree-backend-config', 'behavior': 'merge', 'files': ['backend.ini']}],
                'secretGenerator': [{'name': 'scree-push', 'literals': ['SCREE_PUSH_TO=s3:bucket/scree', 'SCREE_PUSH_KEEP=30']}]}, file)
        return render(folder)


def shards_of_two_sets(shards, epoch=1):
    """shards.ini of the copies overlay with the shards of a second replica set, which have no slots yet."""
    second = shards[shards.index('[shard '):].replace('[shard a-', '[shard b-').replace('scree-backend-a-', 'scree-backend-b-')
    return shards.replace('epoch = 1', 'epoch = %d' % epoch) + re.sub(r'(?m)^slots = .*$', 'slots =', second)


def render_two_sets(shards):
    """The copies overlay with a second replica set, made as docs/kubernetes.md says, and this shards.ini."""
    return render_copies_changed(SECOND_SET, shards)


def render_beside_prod(shards):
    """The copies overlay with the backends of prod, from which the data is to move, and this shards.ini."""
    return render_copies_changed("sed -i '/^patches:/,/^images:/{/^images:/!d}' kustomization.yaml", shards)


def render_copies_changed(script, shards):
    with tempfile.TemporaryDirectory(prefix='scree-overlay-') as folder:
        root = os.path.join(folder, 'k8s')
        shutil.copytree(os.path.join(ROOT, 'k8s'), root)
        overlay = os.path.join(root, 'overlays/copies')
        subprocess.run(['sh', '-ec', script], cwd=overlay, check=True)
        with open(os.path.join(overlay, 'config/shards.ini'), 'w') as file:
            file.write(shards)
        return render(overlay)


def render(folder):
    """The objects that `kubectl apply -k folder` would send."""
    if not shutil.which('kubectl'):
        raise Skip('NOTHING OF k8s/ WAS TESTED: kubectl is not installed')
    done = subprocess.run(['kubectl', 'kustomize', os.path.join(ROOT, folder)], capture_output=True, text=True)
    if done.returncode != 0 and 'must be a file' in done.stderr:
        raise Skip('NOTHING OF k8s/ WAS TESTED: this kubectl is older than 1.21, its kustomize does not know directories')
    if done.returncode != 0:
        raise AssertionError('kubectl kustomize %s: %s' % (folder, done.stderr))
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def quantity(text):
    """'1Gi', '640mb', '100m' as a number."""
    number, unit = re.fullmatch(r'([0-9.]+)([A-Za-z]*)', str(text)).groups()
    return float(number) * {'': 1, 'm': 0.001}.get(unit, SIZES.get(unit, 0))


def seconds(text):
    number, unit = re.fullmatch(r'([0-9.]+)([a-z]*)', str(text)).groups()
    return float(number) * (TIMES[unit] if unit else 0.001)


def ini(text):
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(';',), delimiters=('=',))
    parser.read_string(text)
    return parser


def data_of(thing):
    """The files of a ConfigMap or a Secret."""
    files = dict(thing.get('data') or {})
    if thing['kind'] == 'Secret':
        files = {name: base64.b64decode(text).decode() for name, text in files.items()}
    return files


def container_of(workload):
    return workload['spec']['template']['spec']['containers'][0]


class Objects:
    """Rendered objects by kind and name."""

    def __init__(self, objects):
        self.all = objects

    def of(self, kind):
        return [one for one in self.all if one['kind'] == kind]

    def get(self, kind, name):
        for one in self.of(kind):
            if one['metadata']['name'] == name:
                return one
        return None

    def backends(self):
        return [one for one in self.of('StatefulSet') if one['metadata']['labels'].get('app.kubernetes.io/component') == 'backend']

    def workloads(self):
        return [one for kind in WORKLOADS for one in self.of(kind)]

    def volume_files(self, volume):
        """The files that a volume puts into its directory; None: it refers to an object that does not exist."""
        if 'configMap' in volume:
            found = self.get('ConfigMap', volume['configMap']['name'])
        elif 'secret' in volume:
            found = self.get('Secret', volume['secret']['secretName'])
        else:
            return {}
        return data_of(found) if found else None

    def mounts(self, workload):
        """{directory in the container: {file name: text}}"""
        volumes = {one['name']: one for one in workload['spec']['template']['spec'].get('volumes', [])}
        found = {}
        for mount in container_of(workload)['volumeMounts']:
            if mount['name'] in volumes:
                found[mount['mountPath']] = self.volume_files(volumes[mount['name']]) or {}
        return found

    def file(self, workload, path):
        return self.mounts(workload).get(os.path.dirname(path), {}).get(os.path.basename(path))

    def options(self, workload):
        """get(section, name): an option as the program itself reads it (--print-config)."""
        return ini(self.file(workload, container_of(workload)['command'][2]))


class Agreement:
    def __init__(self, objects, programs=None):
        """`programs`: the directory of the real programs; None: the checks that run them are skipped."""
        self.objects = Objects(objects)
        self.programs = programs
        self.found = []

    def problems(self):
        for name in sorted(dir(self)):
            if name.startswith('check_'):
                self.run_check(getattr(self, name))
        return self.found

    def run_check(self, method):
        try:
            method()
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            self.found.append('%s: something is missing: %r' % (method.__name__, error))

    def wrong(self, condition, text, *args):
        if condition:
            self.found.append(text % args)
        return condition

    # ---- between objects

    def check_namespaces(self):
        names = {one['metadata']['name'] for one in self.objects.of('Namespace')}
        self.wrong(len(names) != 1, 'expected one Namespace, found %s', names)
        for one in self.objects.all:
            if one['kind'] != 'Namespace':
                self.wrong(one['metadata'].get('namespace') not in names, '%s %s is in namespace %s', one['kind'],
                           one['metadata']['name'], one['metadata'].get('namespace'))

    def check_names(self):
        seen = [(one['kind'], one['metadata']['name']) for one in self.objects.all]
        for name in set(seen):
            self.wrong(seen.count(name) > 1, 'there are two %s', name)
        for kind, name in (('Service', 'scree-proxy'), ('Service', 'scree-backend'), ('Deployment', 'scree-proxy')):
            self.wrong(not self.objects.get(kind, name), 'there is no %s %s', kind, name)
        self.wrong(not self.backends(), 'there are no backends')

    def pods_of(self, labels):
        """The workloads whose pods have these labels."""
        return [one for one in self.objects.workloads()
                if labels and labels.items() <= one['spec']['template']['metadata']['labels'].items()]

    def expect_one(self, owner, labels):
        chosen = self.pods_of(labels)
        self.wrong(len(chosen) != 1, '%s %s selects %d workloads by %s', owner['kind'], owner['metadata']['name'],
                   len(chosen), labels)
        return chosen[0] if len(chosen) == 1 else None

    def expect_all(self, owner, labels):
        """The workload that is selected: the only one, or one of all the replica sets."""
        chosen = self.pods_of(labels)
        if chosen == self.backends():
            return chosen[0]
        return self.expect_one(owner, labels)

    def check_selectors(self):
        for one in self.objects.of('Service'):
            self.expect_all(one, one['spec']['selector'])
        for kind in WORKLOADS + ('PodDisruptionBudget',):
            for one in self.objects.of(kind):
                self.expect_one(one, one['spec']['selector']['matchLabels'])
        for one in self.objects.workloads():
            self.wrong(one not in self.pods_of(one['spec']['selector']['matchLabels']), '%s does not select its own pods',
                       one['metadata']['name'])
            for spread in one['spec']['template']['spec']['topologySpreadConstraints']:
                self.wrong(one not in self.pods_of(spread['labelSelector']['matchLabels']),
                           '%s spreads other pods than its own', one['metadata']['name'])

    def check_service_ports(self):
        for service in self.objects.of('Service'):
            for workload in self.pods_of(service['spec']['selector']):
                names = {port['name'] for port in container_of(workload)['ports']}
                for port in service['spec']['ports']:
                    self.wrong(port['targetPort'] not in names, 'Service %s: port %s is none of %s',
                               service['metadata']['name'], port['targetPort'], sorted(names))
                self.wrong('admin' not in [port['name'] for port in service['spec']['ports']], 'Service %s has no port admin',
                           service['metadata']['name'])

    def check_headless_service(self):
        for one in self.objects.of('StatefulSet'):
            service = self.objects.get('Service', one['spec']['serviceName'])
            self.wrong(not service or service['spec'].get('clusterIP') != 'None' or
                       not service['spec'].get('publishNotReadyAddresses'),
                       'StatefulSet %s: serviceName is no headless Service that publishes every pod', one['metadata']['name'])
            names = {port['name']: port['containerPort'] for port in container_of(one)['ports']}
            for port in (service or {'spec': {'ports': []}})['spec']['ports']:
                self.wrong(port['port'] != names.get(port['targetPort']),
                           'headless Service %s: port %d is not the pods own', one['spec']['serviceName'], port['port'])

    def check_peers(self):
        name, _, port = self.options_of(self.proxy())['proxy']['peers'].partition(':')
        service = self.objects.get('Service', name)
        ports = {port['name']: port['containerPort'] for port in container_of(self.proxy())['ports']}
        self.wrong(not service or service['spec'].get('clusterIP') != 'None' or int(port) != ports['admin'] or
                   self.pods_of(service['spec']['selector']) != [self.proxy()],
                   'peers = %s:%s is no headless Service of the proxies\' admin port', name, port)

    def check_network_policies(self):
        for policy in self.objects.of('NetworkPolicy'):
            workload = self.expect_all(policy, policy['spec']['podSelector']['matchLabels'])
            if not workload:
                continue
            names = {port['name'] for port in container_of(workload)['ports']}
            allowed = {port['port'] for rule in policy['spec']['ingress'] for port in rule['ports']}
            self.wrong(allowed != names, 'NetworkPolicy %s lets in %s, the pods have %s', policy['metadata']['name'],
                       sorted(map(str, allowed)), sorted(names))
        proxy, backend = (self.objects.get('NetworkPolicy', name) for name in ('scree-proxy', 'scree-backend'))
        if self.wrong(not proxy or not backend, 'NetworkPolicy for proxies or backends is missing'):
            return
        def reached(policy, workloads):
            return {port['port'] for rule in policy['spec']['egress'] for port in rule['ports']
                    if self.pods_of(rule.get('to', [{}])[0].get('podSelector', {}).get('matchLabels')) == workloads}
        out, inner = reached(proxy, self.backends()), reached(proxy, [self.proxy()])
        ports = {port['containerPort'] for port in container_of(self.backend())['ports'] if port['name'] != 'admin'}
        self.wrong(out != ports, 'proxies may reach ports %s, backends listen on %s', sorted(out), sorted(ports))
        self.wrong(inner != {port['containerPort'] for port in container_of(self.proxy())['ports'] if port['name'] == 'admin'},
                   'proxies may reach ports %s of each other', sorted(inner))
        self.wrong(reached(backend, self.backends()) != ports, 'backends may reach ports %s of each other, they listen on %s',
                   sorted(reached(backend, self.backends())), sorted(ports))
        from_backends = {port['port'] for rule in backend['spec']['ingress'] for port in rule['ports'] for source in rule['from']
                         if self.pods_of(source.get('podSelector', {}).get('matchLabels')) == self.backends()}
        names = {port['name'] for port in container_of(self.backend())['ports'] if port['name'] != 'admin'}
        self.wrong(from_backends != names, 'backends let each other in at %s', sorted(from_backends))
        for who, policy in (('proxies', proxy), ('backends', backend)):
            names_open = {(port['port'], port['protocol']) for rule in policy['spec']['egress'] for port in rule['ports']
                          if 'to' not in rule}
            self.wrong(names_open != {(53, 'UDP'), (53, 'TCP')}, '%s may resolve names by %s', who, names_open)

    def check_budgets_and_scaler(self):
        for budget in self.objects.of('PodDisruptionBudget'):
            replicas = self.replicas(self.expect_one(budget, budget['spec']['selector']['matchLabels']))
            allowed = budget['spec'].get('maxUnavailable', replicas - budget['spec'].get('minAvailable', 0))
            self.wrong(not 0 < allowed < replicas, 'PodDisruptionBudget %s: %s of %s may be away',
                       budget['metadata']['name'], allowed, replicas)
        for scaler in self.objects.of('HorizontalPodAutoscaler'):
            target = scaler['spec']['scaleTargetRef']
            found = self.objects.get(target['kind'], target['name'])
            if self.wrong(not found or found['apiVersion'] != target['apiVersion'], 'the autoscaler scales no object'):
                continue
            self.wrong('replicas' in found['spec'], '%s has replicas beside its autoscaler', target['name'])
            metrics = {one.get('pods', {}).get('metric', {}).get('name') or one['resource']['name']
                       for one in scaler['spec']['metrics']}
            self.wrong(metrics != {'cpu', 'scree_proxy_clients'}, 'the autoscaler looks at %s', metrics)
            with open(os.path.join(ROOT, 'shared/metrics.def')) as file:
                self.wrong('"scree_proxy_clients"' not in file.read(), 'there is no metric scree_proxy_clients')
            for one in scaler['spec']['metrics']:
                if 'pods' in one:
                    limit = int(self.options_of(found)['proxy']['maxclients'])
                    self.wrong(quantity(one['pods']['target']['averageValue']) > limit * 0.8,
                               'the autoscaler waits until maxclients is reached')

    def replicas(self, workload):
        for scaler in self.objects.of('HorizontalPodAutoscaler'):
            if workload and scaler['spec']['scaleTargetRef']['name'] == workload['metadata']['name']:
                return scaler['spec']['minReplicas']
        return (workload or {'spec': {}})['spec'].get('replicas', 1)

    # ---- pods

    @staticmethod
    def security_of(pod, container):
        """Rights that a pod has without needing them, as sentences."""
        context, inner = pod.get('securityContext', {}), container.get('securityContext', {})
        wrong = {
            'it may run as root': not context.get('runAsNonRoot') or not context.get('runAsUser'),
            'no seccomp profile': context.get('seccompProfile') != {'type': 'RuntimeDefault'},
            'the root is writable': not inner.get('readOnlyRootFilesystem'),
            'privileges may grow': inner.get('allowPrivilegeEscalation') is not False,
            'capabilities are left': inner.get('capabilities') != {'drop': ['ALL']},
            'it has a service account token': pod.get('automountServiceAccountToken') is not False,
        }
        return ', '.join(text for text, is_so in wrong.items() if is_so)

    def check_security(self):
        for one in self.objects.workloads():
            pod, name = one['spec']['template']['spec'], one['metadata']['name']
            context, wrong = pod.get('securityContext', {}), self.security_of(pod, container_of(one))
            self.wrong(wrong, '%s: %s', name, wrong)
            self.wrong(context.get('fsGroup') != context.get('runAsGroup'), '%s: its volumes are not its group\'s', name)
        with open(os.path.join(ROOT, 'k8s/Containerfile')) as file:
            user = re.search(r'^USER (\d+):(\d+)$', file.read(), re.M)
        self.wrong(not user or {int(user.group(1))} != {one['spec']['template']['spec']['securityContext'].get('runAsUser')
                                                        for one in self.objects.workloads()}, 'the image has another user')

    def check_volumes(self):
        for one in self.objects.workloads():
            pod, container = one['spec']['template']['spec'], container_of(one)
            claims = {claim['metadata']['name'] for claim in one['spec'].get('volumeClaimTemplates', [])}
            volumes = {volume['name']: volume for volume in pod.get('volumes', [])}
            mounted = {mount['name'] for box in pod['containers'] for mount in box['volumeMounts']}
            self.wrong(mounted != claims | set(volumes), '%s mounts %s of %s', one['metadata']['name'], sorted(mounted),
                       sorted(claims | set(volumes)))
            for volume in volumes.values():
                self.wrong(self.objects.volume_files(volume) is None, '%s: volume %s refers to nothing',
                           one['metadata']['name'], volume['name'])
            for mount in container['volumeMounts']:
                self.wrong('subPath' in mount, '%s: %s is a subPath, which is never updated', one['metadata']['name'],
                           mount['mountPath'])

    def check_probes(self):
        for one, paths in ((self.proxy(), ('/healthz', '/readyz/any', '/healthz')),
                           (self.backend(), ('/healthz', '/readyz', '/healthz'))):
            container = container_of(one)
            probes = [container.get(kind, {}) for kind in ('startupProbe', 'readinessProbe', 'livenessProbe')]
            got = tuple(probe.get('httpGet', {}).get('path') for probe in probes)
            self.wrong(got != paths, '%s: probes ask %s', one['metadata']['name'], got)
            for probe in probes:
                self.wrong(probe.get('httpGet', {}).get('port') != 'admin', '%s: a probe asks another port than admin',
                           one['metadata']['name'])
        readiness = container_of(self.proxy()).get('readinessProbe', {})
        lasts = readiness.get('periodSeconds', 10) * readiness.get('failureThreshold', 3)
        self.wrong(lasts > 10, 'a proxy that does not serve stays in the Service for %d s', lasts)

    # ---- pods against the programs' options

    def proxy(self):
        return self.objects.get('Deployment', 'scree-proxy')

    def backends(self):
        """The StatefulSets of backends: one, or one for each replica set."""
        return self.objects.backends()

    def backend(self):
        """One for all: check_replica_sets compares the others with it."""
        return self.backends()[0]

    def options_of(self, workload):
        return self.objects.options(workload)

    def check_commands(self):
        for one, program in ((self.proxy(), 'scree-proxy'), (self.backend(), 'scree-backend')):
            command = container_of(one)['command']
            if self.wrong(command[:2] != [program, '--config'] or len(command) != 3, '%s runs %s', program, command):
                continue
            self.wrong(self.objects.file(one, command[2]) is None, '%s reads %s, which is in no volume', program, command[2])

    def check_listening(self):
        options = self.options_of(self.proxy())['proxy']
        ports = {port['name']: port['containerPort'] for port in container_of(self.proxy())['ports']}
        for option, name in (('listen', 'redis'), ('admin', 'admin'), ('tls-listen', 'redis-tls')):
            want = '0.0.0.0:%d' % ports[name] if name in ports else None
            self.wrong(options.get(option) != want, 'proxy.ini: %s = %s, port %s is %s', option, options.get(option), name,
                       ports.get(name))
        options = self.options_of(self.backend())['backend']
        want = {'admin': int(options['admin'].rsplit(':', 1)[1])}
        want.update({'partition-%d' % i: int(options['port']) + i for i in range(int(options['partitions']))})
        if 'tls-port' in options:
            want.update({'tls-%d' % i: int(options['tls-port']) + i for i in range(int(options['partitions']))})
        ports = {port['name']: port['containerPort'] for port in container_of(self.backend())['ports']}
        self.wrong(ports != want or options['bind'] != '0.0.0.0', 'backend.ini listens on %s, the pod has %s', want, ports)

    def check_shard_map(self):
        text = self.objects.file(self.proxy(), '/etc/scree/shards.ini')
        shards = [section for name, section in ini(text).items() if name.startswith('shard ')]
        got = sorted(address for shard in shards for address in shard['address'].split())
        backend, options = self.backend(), self.options_of(self.backend())['backend']
        is_tls = self.options_of(self.proxy())['upstream'].get('tls') == 'yes'
        first = int(options['tls-port' if is_tls else 'port'])
        want = sorted('%s-%d.%s:%d' % (one['metadata']['name'], pod, one['spec']['serviceName'], first + i)
                      for one in self.backends() for pod in range(self.replicas(one)) for i in range(int(options['partitions'])))
        self.wrong(got != want, 'shards.ini has %s, the pods are %s', got, want)
        path = os.path.join('/etc/scree', options.get('shards', 'no map'))
        self.wrong(self.objects.file(backend, path) != text, 'backends have another shards.ini than proxies')
        self.wrong(options.get('advertise-host') != '%h.' + backend['spec']['serviceName'],
                   'advertise-host = %s is not the name of a pod in shards.ini', options.get('advertise-host'))
        self.wrong(is_tls != (options.get('peer-tls') == 'yes'), 'peer-tls = %s does not fit the addresses in shards.ini',
                   options.get('peer-tls'))

    def check_replica_sets(self):
        def without_names(one):
            text = json.dumps(one, sort_keys=True)
            label = one['metadata']['labels'].get('scree-replica-set', '')
            return text.replace(one['metadata']['name'], 'scree-backend').replace('"scree-replica-set": "%s"' % label, '')
        for one in self.backends():
            self.wrong(without_names(one) != without_names(self.backend()), '%s is not as the other replica sets', one['metadata']['name'])
        voters = self.options_of(self.backend())['backend'].get('replicas', 'no') != 'no'
        for name, shard in ini(self.objects.file(self.proxy(), '/etc/scree/shards.ini')).items():
            if not name.startswith('shard '):
                continue
            pods = [address.split('.')[0] for address in shard['address'].split()]
            self.wrong(len({pod.rpartition('-')[0] for pod in pods}) > 1, '%s has copies in several replica sets', name)
            self.wrong(len(set(pods)) < len(pods), '%s has two copies in one pod', name)
            self.wrong((len(pods) > 1) != voters, '%s has %d copies, and replicas = %s', name, len(pods), 'voters' if voters else 'no')
            self.wrong(voters and len(pods) < 3, '%s has %d copies: none may be lost', name, len(pods))
        for one in self.backends() if voters else ():
            rules = one['spec']['template']['spec'].get('affinity', {}).get('podAntiAffinity', {}).get(
                'requiredDuringSchedulingIgnoredDuringExecution', [])
            is_apart = any(rule['topologyKey'] == 'kubernetes.io/hostname' and self.pods_of(rule['labelSelector']['matchLabels']) == [one]
                           for rule in rules)
            self.wrong(not is_apart, '%s: two copies of a shard may be on one host', one['metadata']['name'])

    def check_secrets(self):
        proxy, backend = ini(self.objects.file(self.proxy(), '/etc/scree-secrets/secrets.ini') or ''), \
            ini(self.objects.file(self.backend(), '/etc/scree-secrets/secrets.ini') or '')
        self.wrong(proxy.get('upstream', 'secret', fallback='') != backend.get('backend', 'secret', fallback=None),
                   'proxies and backends have different cluster secrets')
        for workload, section in ((self.proxy(), 'proxy'), (self.backend(), 'backend')):
            options = self.options_of(workload)[section]
            for option in ('include', 'aclfile', 'tls-cert-file', 'tls-key-file', 'tls-ca-cert-file'):
                path = options.get(option)
                self.wrong(path and self.objects.file(workload, path) is None, '%s: %s is in no volume', option, path)
        for one in self.objects.of('ConfigMap'):
            for name, text in data_of(one).items():
                self.wrong(re.search(r'^(secret|token|requirepass)\s*=', text, re.M), 'ConfigMap file %s holds a secret', name)
        for one in self.objects.of('Secret'):
            if one['type'] == 'kubernetes.io/tls' or one['metadata']['name'] == 'scree-push':
                continue  # an operator makes it, there is no example
            for name, text in data_of(one).items():
                text = '\n'.join(line for line in text.splitlines() if not line.startswith('#'))
                if name == 'password':
                    text = '>' + text
                values = re.findall(r'(?:^(?:secret|token|requirepass)\s*=\s*|>)(\S+)', text, re.M)
                self.wrong(not values or not all(value.startswith('replace-me-') for value in values),
                           'Secret file %s: an example that does not say so', name)

    def check_grace(self):
        pod, container = self.proxy()['spec']['template']['spec'], container_of(self.proxy())
        pause = float(container['lifecycle']['preStop']['exec']['command'][1])
        drain = seconds(self.options_of(self.proxy())['proxy']['drain-timeout'])
        grace = pod['terminationGracePeriodSeconds']
        self.wrong(grace < pause + drain + 2, 'proxies get %s s to end, they need %s + %s', grace, pause, drain)
        probe = container.get('readinessProbe', {})
        self.wrong(pause < 2, 'preStop ends before the Service has forgotten the pod')
        self.wrong(probe.get('timeoutSeconds', 1) > probe.get('periodSeconds', 10), 'a probe outlasts its period')

    def check_memory(self):
        limit = quantity(container_of(self.proxy())['resources']['limits']['memory'])
        options = self.options_of(self.proxy())['proxy']
        used = quantity(options['memory-limit'])
        self.wrong(used > 0.75 * limit, 'the proxy may use %d MB of %d', used / 2 ** 20, limit / 2 ** 20)
        self.wrong(quantity(options['client-query-limit']) > used, 'one client may use more than memory-limit')
        workers = int(options['workers'])
        cpus = quantity(container_of(self.proxy())['resources']['limits']['cpu'])
        self.wrong(not workers or workers > cpus, 'the proxy has %d workers and %s CPUs', workers, cpus)
        limit = quantity(container_of(self.backend())['resources']['limits']['memory'])
        options = self.options_of(self.backend())
        store, partitions = options['store'], int(options['backend']['partitions'])
        used = limit / 2 if store['memory'] == 'auto' else quantity(store['memory'])
        given = [name for name in ('block-cache', 'row-cache', 'range-cache', 'rank-cache', 'memtable', 'write-buffer') if name in store]
        self.wrong(given, '%s: memory already gives the backend its sizes', given)
        used += quantity(options['backend'].get('script-memory-limit', '64mb')) * 2 * partitions
        used += quantity(options['backend'].get('commit-batch-limit', '64mb')) * 2 * partitions
        self.wrong(used > 0.75 * limit, 'the backend may use %d MB of %d', used / 2 ** 20, limit / 2 ** 20)

    def check_disk(self):
        claims = self.backend()['spec']['volumeClaimTemplates']
        room = quantity(claims[0]['spec']['resources']['requests']['storage'])
        options = self.options_of(self.backend())
        logs = quantity(options['store'].get('wal-limit', '256mb')) * int(options['backend']['partitions'])
        self.wrong(room < 3 * logs, 'the volume has room for the logs only')
        paths = [mount['mountPath'] for mount in container_of(self.backend())['volumeMounts']
                 if mount['name'] == claims[0]['metadata']['name']]
        self.wrong(not options['backend']['data'].startswith(paths[0] + '/'), 'data is not on the volume')

    def check_backup(self):
        """The CronJob logs in at the proxies as an existing user; the backends write to a volume of its own."""
        for job in self.objects.of('CronJob'):
            pod = job['spec']['jobTemplate']['spec']['template']['spec']
            container = pod['containers'][0]
            if container['command'][0] == 'scree-push':
                continue
            words = dict(zip(container['command'], container['command'][1:]))
            service = self.objects.get('Service', words['-h'])
            self.wrong(not service or int(words['-p']) not in [port['port'] for port in service['spec']['ports']],
                       'CronJob %s asks %s:%s', job['metadata']['name'], words['-h'], words['-p'])
            key = container['env'][0]['valueFrom']['secretKeyRef']
            secret = self.objects.get('Secret', key['name'])
            password = data_of(secret).get(key['key'], '').strip() if secret else None
            users = self.objects.file(self.proxy(), '/etc/scree-secrets/users.acl')
            self.wrong('user %s on >%s ' % (words['--user'], password) not in users, 'users.acl lacks the user of CronJob %s',
                       job['metadata']['name'])
            self.wrong(self.security_of(pod, container), 'CronJob %s: %s', job['metadata']['name'],
                       self.security_of(pod, container))
            path = self.options_of(self.backend())['backend'].get('backup-dir')
            claims = {claim['metadata']['name'] for claim in self.backend()['spec']['volumeClaimTemplates'][1:]}
            mounts = {mount['mountPath'] for mount in container_of(self.backend())['volumeMounts'] if mount['name'] in claims}
            self.wrong(path not in mounts, 'backup-dir = %s is not a volume of its own', path)

    def check_push(self):
        """The containers beside a backend push its directories; they and the CronJob find the store in a Secret."""
        for one in self.backends():
            pod, options = one['spec']['template']['spec'], self.options_of(one)['backend']
            for container in pod['containers'][1:]:
                _, what, _, path = container['command'][:4]
                wanted = options.get({'backups': 'backup-dir', 'archive': 'archive-dir'}[what])
                self.wrong(path != wanted, '%s pushes %s, the backend writes %s', container['name'], path, wanted)
                self.wrong(container['image'] != pod['containers'][0]['image'], '%s has another image', container['name'])
                self.look_at_push(container['name'], pod, container, path)
        for job in self.objects.of('CronJob'):
            pod = job['spec']['jobTemplate']['spec']['template']['spec']
            if pod['containers'][0]['command'][0] == 'scree-push':
                self.look_at_push('CronJob ' + job['metadata']['name'], pod, pod['containers'][0], '/tmp')

    def look_at_push(self, name, pod, container, path):
        mounts = {mount['mountPath'] for mount in container['volumeMounts']}
        self.wrong(not {path, '/tmp'} <= mounts, '%s lacks %s or /tmp', name, path)
        self.wrong(not self.objects.get('Secret', container['envFrom'][0]['secretRef']['name']), '%s has no Secret', name)
        self.wrong(self.security_of(pod, container), '%s: %s', name, self.security_of(pod, container))

    def check_files_by_the_programs(self):
        """Runs --check of each program on its files, placed as in the pod."""
        if not self.programs:
            return
        for workload in self.objects.workloads():
            command = container_of(workload)['command']
            with tempfile.TemporaryDirectory(prefix='scree-kube-') as folder:
                config = place_files(self.objects.mounts(workload), folder, command[2])
                done = subprocess.run([os.path.join(self.programs, command[0]), '--config', config, '--check'],
                                      capture_output=True, text=True)
                self.wrong(done.returncode != 0, '%s --check: %s', command[0], done.stderr.strip())


def place_files(mounts, folder, config):
    """Writes the mounted files below `folder`, and changes the paths inside them accordingly; returns the path of
    `config`."""
    for directory, files in mounts.items():
        os.makedirs(folder + directory, exist_ok=True)
        for name, text in files.items():
            for other in mounts:
                text = re.sub(r'(= *)%s/' % re.escape(other), lambda m, o=other: m.group(1) + folder + o + '/', text)
            with open(os.path.join(folder + directory, name), 'w') as file:
                file.write(text)
    return folder + config
