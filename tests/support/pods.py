"""pods.py - runs the pods of rendered manifests as real processes, each in a network namespace and with a root of its
own.

    node (this process, in namespaces of its own: spaces.py)
      bridge 10.77.0.1/24
        │ veth      │ veth
      pod .2        pod .3 …       its root:  tmpfs, read-only after the setup
                                     /usr ro, /proc, /dev, /etc/hosts (one file for all pods: "DNS")
                                     ConfigMaps and Secrets: directories with ..data links, swapped as the kubelet does
                                     claims: directories that outlive the pod
                                   its user: runAsUser and runAsGroup, no capabilities, no new privileges

It runs the container's own command, and uses its own probes, preStop and grace period.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from support import harness
from support.cluster import SANITIZER_WORDS, binary
from support.harness import Failure, check, patience, wait_for
from support.kube import Objects, container_of, data_of
from support.spaces import Space

# Arguments: root, then mount specifications "source:target:ro|rw" up to "--", then the program with its arguments.
POD_SCRIPT = r'''
set -eu
name=$1 root=$2 user=$3 group=$4
shift 4
echo "$name" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=0755 pod "$root"
for name in usr etc proc dev tmp opt; do mkdir "$root/$name"; done
for name in bin sbin lib lib64; do [ ! -e "/usr/$name" ] || ln -s "usr/$name" "$root/$name"; done
cp /etc/ld.so.cache "$root/etc/"
printf 'hosts: files\npasswd: files\n' >"$root/etc/nsswitch.conf"
printf 'multi on\n' >"$root/etc/host.conf"
printf 'scree:x:%s:%s::/nonexistent:/usr/sbin/nologin\n' "$user" "$group" >"$root/etc/passwd"
mount --bind /usr "$root/usr"
mount -o remount,bind,ro "$root/usr"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    source=${1%%:*} target=$root${1#*:} mode=${1##*:}
    target=${target%:*}
    if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; : >"$target"; fi
    mount --bind "$source" "$target"
    [ "$mode" = rw ] || mount -o remount,bind,ro "$target"
    shift
done
shift
mount -o remount,ro "$root"
cd "$root"
PATH=/opt/scree:/usr/bin exec /usr/sbin/chroot "$root" setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs \
    --inh-caps=-all --bounding-set=-all "$@"
'''


def http_status(address, port, path):
    try:
        with urllib.request.urlopen('http://%s:%d%s' % (address, port, path), timeout=patience()) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class Volume:
    """A ConfigMap or Secret as the kubelet mounts it: files are links into ..data, which is a link that is swapped."""

    def __init__(self, folder, files, mode, group):
        self.folder, self.mode, self.group, self.version = folder, mode, group, 0
        os.makedirs(folder)
        self.publish(files)
        for name in files:
            os.symlink(os.path.join('..data', name), os.path.join(folder, name))

    def publish(self, files):
        self.version += 1
        name = '..version-%d' % self.version
        os.mkdir(os.path.join(self.folder, name))
        for file, text in files.items():
            path = os.path.join(self.folder, name, file)
            with open(path, 'w') as to:
                to.write(text)
            os.chown(path, 0, self.group)
            os.chmod(path, self.mode)
        os.symlink(name, os.path.join(self.folder, '..data.new'))
        os.rename(os.path.join(self.folder, '..data.new'), os.path.join(self.folder, '..data'))


class Pod:
    def __init__(self, node, workload, name, claim=None):
        self.node, self.workload, self.name = node, workload, name
        self.spec, self.container = workload['spec']['template']['spec'], container_of(workload)
        self.ports = {port['name']: port['containerPort'] for port in self.container['ports']}
        self.space, self.claim = node.new_space(), claim
        self.address = self.space.address
        self.log_path = os.path.join(node.folder, '%s-%s.log' % (name, self.address.rsplit('.')[-1]))
        self.is_terminating = False
        self.start()

    def mount_words(self):
        words = ['%s:/etc/hosts:ro' % self.node.hosts_path]
        words += ['%s:/opt/scree/%s:ro' % (binary(name), name) for name in ('scree-proxy', 'scree-backend')]
        sources = {'%s' % volume['name']: self.node.volume(volume, self.spec) for volume in self.spec['volumes']}
        for mount in self.container['volumeMounts']:
            source = sources.get(mount['name']) or os.path.join(self.claim, mount['name'])
            words.append('%s:%s:%s' % (source, mount['mountPath'], 'ro' if mount.get('readOnly') else 'rw'))
        return words

    def start(self):
        context = self.spec['securityContext']
        root = os.path.join(self.node.folder, 'root-' + self.space.name)
        os.mkdir(root)
        with open(self.log_path, 'wb') as log:
            self.child = subprocess.Popen(
                self.space.prefix + ['unshare', '--mount', '--uts', '--propagation', 'private', 'sh', '-c', POD_SCRIPT, 'pod', self.name, root,
                                     str(context['runAsUser']), str(context['runAsGroup'])] + self.mount_words() + ['--'] +
                self.container['command'], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def probe(self, kind):
        """Does this probe of the manifest succeed now?"""
        get = self.container[kind]['httpGet']
        return 200 <= http_status(self.address, self.ports[get['port']], get['path']) < 400

    def is_alive(self):
        return self.child.poll() is None

    def wait_started(self, limit=60):
        wait_for(lambda: self.probe('startupProbe') or not self.is_alive(), '%s to start' % self.name, limit)
        check(self.is_alive(), '%s ended: %s' % (self.name, self.log()[-2000:]))

    def wait_ready(self, limit=60):
        self.wait_started(limit)
        wait_for(lambda: self.probe('readinessProbe'), '%s to be ready' % self.name, limit)

    def status(self):
        with open('/proc/%d/status' % self.child.pid) as file:
            return dict(line.rstrip('\n').split(':\t', 1) for line in file if ':\t' in line)

    def log(self):
        with open(self.log_path, 'rb') as file:
            return file.read().decode('utf-8', 'replace')

    def in_pod(self, command):
        """kubectl exec: runs the command as the pod's user, in its root and network."""
        context = self.spec['securityContext']
        enter = ['nsenter', '--target', str(self.child.pid), '--net', '--mount', '--root', '--wd', '--setuid',
                 str(context['runAsUser']), '--setgid', str(context['runAsGroup'])]
        return subprocess.run(enter + command, capture_output=True, text=True)

    def delete(self):
        """Does what the kubelet does: preStop, SIGTERM, the grace period, SIGKILL. Needing SIGKILL is a failure."""
        self.is_terminating = True
        self.node.write_hosts()
        began = time.monotonic()
        hook = self.container.get('lifecycle', {}).get('preStop')
        if hook:
            check(self.in_pod(hook['exec']['command']).returncode == 0, 'preStop of %s failed' % self.name)
        self.child.send_signal(signal.SIGTERM)
        grace = self.spec['terminationGracePeriodSeconds']
        try:
            code = self.child.wait(max(1, grace - (time.monotonic() - began)) * harness.SLOW)
        except subprocess.TimeoutExpired:
            raise Failure('%s did not end within its grace period of %d s' % (self.name, grace)) from None
        finally:
            self.remove()
        check(code == 0, '%s ended with %d: %s' % (self.name, code, self.log()[-2000:]))
        return time.monotonic() - began

    def remove(self):
        if self.is_alive():
            self.child.kill()
            self.child.wait()
        self.space.remove()
        for line in self.log().encode().splitlines():
            check(not any(word in line for word in SANITIZER_WORDS), '%s: %s' % (self.name, line))


class Node:
    """A machine that runs the pods of the objects.    with Node(render(…)) as node: node.up()"""

    def __init__(self, objects):
        self.objects = Objects(objects)
        self.folder = tempfile.mkdtemp(prefix='scree-node-')
        os.chmod(self.folder, 0o755)
        self.hosts_path = os.path.join(self.folder, 'hosts')
        self.hosts, self.volumes, self.next_number = {}, {}, 2
        self.backends, self.proxies = {}, []
        self.write_hosts()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for pod in list(self.backends.values()) + self.proxies:
            try:
                pod.remove()
            except Failure as failure:
                if kind is None:
                    raise
                print('     %s' % failure)
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print('     logs are kept in %s' % self.folder, flush=True)

    def new_space(self):
        self.next_number += 1
        return Space(self.next_number - 1)

    def write_hosts(self):
        """Writes the file in place, because the pods have mounted this very file."""
        with open(self.hosts_path, 'w') as file:
            file.write('127.0.0.1 localhost\n')
            for name, address in self.hosts.items():
                file.write('%s %s\n' % (address, name))
            for pod in self.proxies:
                if not pod.is_terminating:
                    file.write('%s scree-proxy-peers\n' % pod.address)

    def volume(self, volume, spec):
        kind, name = ('ConfigMap', volume['configMap']['name']) if 'configMap' in volume else \
            ('Secret', volume['secret']['secretName'])
        if name not in self.volumes:
            mode = volume.get('secret', {}).get('defaultMode', 0o644)
            self.volumes[name] = Volume(os.path.join(self.folder, 'volume-' + name), data_of(self.objects.get(kind, name)),
                                        mode, spec['securityContext']['fsGroup'])
        return self.volumes[name].folder

    def claim_of(self, index, name=''):
        """The folder of this pod's volumes, which outlives the pod."""
        return os.path.join(self.folder, 'claim-%s%d' % (name and name + '-', index))

    def start_backend(self, index, name=''):
        """Pod `index` of the StatefulSet scree-backend, or of the replica set with this name."""
        workload = self.objects.get('StatefulSet', 'scree-backend' + (name and '-' + name))
        claim = self.claim_of(index, name)
        context = workload['spec']['template']['spec']['securityContext']
        for template in workload['spec']['volumeClaimTemplates']:
            volume = os.path.join(claim, template['metadata']['name'])
            if not os.path.isdir(volume):
                os.makedirs(volume)
                os.chown(volume, 0, context['fsGroup'])
                os.chmod(volume, 0o2775)  # the mode that the kubelet sets for fsGroup
        pod_name = '%s-%d' % (workload['metadata']['name'], index)
        pod = Pod(self, workload, pod_name, claim)
        self.backends[(name, index) if name else index] = pod
        self.hosts['%s.%s' % (pod_name, workload['spec']['serviceName'])] = pod.address
        self.write_hosts()
        return pod

    def start_proxy(self):
        pod = Pod(self, self.objects.get('Deployment', 'scree-proxy'), 'scree-proxy-%d' % len(self.proxies))
        self.proxies.append(pod)
        self.write_hosts()
        return pod

    def up(self, backends, proxies):
        for index in range(backends):
            self.start_backend(index)
        for _ in range(proxies):
            self.start_proxy()
        for pod in list(self.backends.values()) + self.proxies:
            pod.wait_ready()

    def endpoints(self):
        """The pods to which the Service routes new connections."""
        return [(pod.address, pod.ports['redis']) for pod in self.proxies if not pod.is_terminating and pod.is_alive()]

    def publish(self, name, changes):
        """kubectl apply of a ConfigMap or Secret, after the kubelet has noticed the change."""
        found = self.objects.get('ConfigMap', name) or self.objects.get('Secret', name)
        self.volumes[name].publish(dict(data_of(found), **changes))


def reachable(address, port):
    try:
        socket.create_connection((address, port), 2).close()
        return True
    except OSError:
        return False
