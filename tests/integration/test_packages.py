#!/usr/bin/python3
"""The Debian packages: built, installed into a clean Debian 12 tree, started as their units do, upgraded, removed,
purged.
"""

import glob
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from support import ROOT
from support.cluster import binary, http_get, is_sanitized
from support.harness import Failure, Skip, Suite, check, check_equal, wait_for
from support.kube import ini
from support.resp import Connection

suite = Suite(__doc__)
NAMES = ('scree-common', 'scree-backend', 'scree-proxy')
PROGRAMS = NAMES[1:]
NEEDED = 'adduser,libuv1,libmicrohttpd12,libssl3,liblzf1,libstdc++6'
INSIDE = 'SCREE_TEST_PACKAGES'
WANTED = '/etc/systemd/system/multi-user.target.wants/%s.service'


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, env=dict(os.environ, DEBIAN_FRONTEND='noninteractive',
                                                                         LC_ALL='C'), **options)
    if done.returncode != 0:
        raise Failure('%s: %s' % (' '.join(words), (done.stdout + done.stderr)[-2000:]))
    return done.stdout


def enter_namespaces():
    """Starts this script again in network and mount namespaces of its own, because the units' ports are fixed."""
    if os.environ.get(INSIDE):
        run('ip', 'link', 'set', 'lo', 'up')
        return
    unshare = ['unshare', '--net', '--mount', '--propagation', 'private']
    if subprocess.run(unshare + ['true'], capture_output=True).returncode == 0:
        fetch_tree()
        os.environ[INSIDE] = 'yes'
        sys.stdout.flush()
        os.execvp('unshare', unshare + [sys.executable] + sys.argv)


# ---- packages and trees ----------------------------------------------------------------------------------------------

def build_folder():
    return os.path.dirname(binary('scree-proxy'))


def work_folder():
    return os.path.join(build_folder(), 'packages-test')


def base_tree():
    return os.path.join(work_folder(), 'bookworm')


def mirror():
    """The mirror of bookworm that apt uses here, as a list of one; empty: debootstrap's default."""
    done = subprocess.run(['apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Codename: bookworm',
                           'Identifier: Packages'], capture_output=True, text=True)
    return done.stdout.split()[:1]


def fetch_tree():
    """A minimal Debian 12 with the packages' dependencies, kept between runs; the first run needs the network."""
    if is_sanitized(binary('scree-proxy')) or os.path.exists(base_tree()) or not shutil.which('debootstrap') or os.geteuid() != 0:
        return
    os.makedirs(work_folder(), exist_ok=True)
    shutil.rmtree(base_tree() + '.new', ignore_errors=True)
    done = subprocess.run(['debootstrap', '--variant=minbase', '--include=' + NEEDED, 'bookworm', base_tree() + '.new'] + mirror(),
                          capture_output=True, text=True)
    if done.returncode == 0:
        shutil.rmtree(base_tree() + '.new/var/cache/apt', ignore_errors=True)
        os.rename(base_tree() + '.new', base_tree())
    else:
        print('     debootstrap: %s' % done.stdout[-500:])


def require_tree():
    if os.geteuid() != 0 or not os.environ.get(INSIDE):
        raise Skip('PACKAGES WERE NOT INSTALLED: that takes root and namespaces')
    if not os.path.exists(base_tree()):
        raise Skip('PACKAGES WERE NOT INSTALLED: debootstrap is missing, or has no mirror')


made = {}


def make_packages():
    """The .deb files; built once a run."""
    if is_sanitized(binary('scree-proxy')):
        raise Skip('packages are made of builds without sanitizers')
    if not made:
        folder = os.path.join(work_folder(), 'made')
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        run('cpack', '--config', os.path.join(build_folder(), 'CPackConfig.cmake'), '-B', folder, cwd=folder)
        made.update({os.path.basename(path).split('_')[0]: path for path in glob.glob(folder + '/*.deb')})
    check_equal(sorted(made), sorted(NAMES + ('scree-copy', 'scree-tools')), 'packages')
    return made


def next_release(files):
    """The packages rebuilt with the next version; proxy.ini has one more line."""
    newer = {}
    for name, path in files.items():
        folder = os.path.join(work_folder(), 'next', name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        run('dpkg-deb', '-R', path, folder)
        control = os.path.join(folder, 'DEBIAN/control')
        with open(control) as file:
            text = file.read()
        with open(control, 'w') as file:
            file.write(re.sub(r'^(Version: .*)-1$', r'\1-2', text, flags=re.M))
        for path in glob.glob(folder + '/etc/scree/proxy.ini'):
            with open(path, 'a') as file:
                file.write('# Of the next release.\n')
        newer[name] = folder + '.deb'
        run('dpkg-deb', '-Zgzip', '-z1', '--root-owner-group', '-b', folder, newer[name])
    return newer


class Tree:
    """A copy of the clean tree, in which packages are installed and removed."""

    def __enter__(self):
        require_tree()
        self.path = tempfile.mkdtemp(prefix='scree-tree-')
        run('cp', '-a', '--reflink=auto', base_tree() + '/.', self.path)
        run('mount', '-t', 'proc', 'proc', self.path + '/proc')
        self.children = {}
        return self

    def __exit__(self, *_):
        for child in self.children.values():
            child.kill()
            child.wait()
        subprocess.run(['umount', self.path + '/proc'], capture_output=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def at(self, path):
        return self.path + path

    def call(self, *words):
        return run('chroot', self.path, *words)

    def pretend_systemd(self):
        """From now on maintainer scripts see a running systemd: what they tell it is written to /tmp/asked."""
        os.makedirs(self.at('/run/systemd/system'))
        for program in ('systemctl', 'deb-systemd-invoke'):
            path = self.at('/usr/local/bin/' + program)
            with open(path, 'w') as file:
                file.write('#!/bin/sh\necho "$@" >>/tmp/asked\n')
            os.chmod(path, 0o755)

    def asked(self):
        """What maintainer scripts have told systemd since the last call of this function."""
        path = self.at('/tmp/asked')
        if not os.path.exists(path):
            return []
        lines = [line for line in self.read('/tmp/asked').splitlines() if 'daemon-reload' not in line]
        os.remove(path)
        return lines

    def install(self, files, *options):
        for name in NAMES:
            shutil.copy(files[name], self.at('/tmp'))
        return self.call('dpkg', *options, '-i', *['/tmp/' + os.path.basename(files[name]) for name in NAMES])

    def state(self, name):
        return run('dpkg-query', '--admindir', self.at('/var/lib/dpkg'), '-W', '-f', '${db:Status-Status}', name)

    def read(self, path):
        with open(self.at(path)) as file:
            return file.read()

    def unit(self, name):
        return Unit(self.read('/usr/lib/systemd/system/%s.service' % name))

    def start(self, name):
        """Does what systemd does for the unit: user, state directory, ExecStart."""
        unit = self.unit(name)
        user = unit.get('User')
        if unit.get('StateDirectory'):
            self.call('install', '-d', '-o', user, '-g', unit.get('Group'), '-m', unit.get('StateDirectoryMode'),
                      '/var/lib/' + unit.get('StateDirectory'))
        words = ['chroot', self.path, 'setpriv', '--reuid', user, '--regid', unit.get('Group'), '--clear-groups',
                 '--no-new-privs', '--inh-caps=-all', '--bounding-set=-all'] + unit.get('ExecStart').split()
        self.children[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL)

    def stop(self, name):
        child = self.children.pop(name)
        child.send_signal(signal.SIGTERM)
        check_equal(child.wait(int(self.unit(name).get('TimeoutStopSec'))), 0, 'exit code of ' + name)

    def start_all(self):
        for name in PROGRAMS:
            self.start(name)
        for port in (7400, 7380):
            wait_for(lambda: http_get(port, '/readyz')[0] == 200, '/readyz of port %d' % port)


class Unit:
    def __init__(self, text):
        self.options = dict(re.findall(r'^(\w+)=(.*)$', text, re.M))

    def get(self, name):
        return self.options.get(name, '')


def call(*words):
    with Connection(('127.0.0.1', 7379)) as client:
        return client.get(*words)


def running_engine():
    """The RocksDB of the backend that the unit has started, in the words of --version."""
    text = http_get(7400, '/metrics')[1]
    found = re.search(r'scree_backend_build_info\{.*engine="(.*?)",engine_assertions="(.*?)",engine_crc32c="(.*?)"', text)
    check(found, 'scree_backend_build_info does not name RocksDB: ' + text[:500])
    return '%s, assertions %s, CRC32C by %s' % found.groups()


# ---- cases -----------------------------------------------------------------------------------------------------------

@suite.case('in a clean Debian 12 the programs run as the units say, keep data and changes over an upgrade, and are removed')
def _(run):
    began = time.monotonic()
    first = make_packages()
    second = next_release({name: first[name] for name in NAMES})
    with Tree() as tree:
        run.note('packages and tree: %.1f s' % (time.monotonic() - began))
        tree.pretend_systemd()
        said = tree.install(first)
        check_equal([tree.state(name) for name in NAMES], ['installed'] * 3)
        check_installed(tree, said)
        tree.start_all()
        check_equal(call('PING'), b'PONG')
        engine = running_engine()
        check_equal(engine, tree.call('/usr/bin/scree-backend', '--version').splitlines()[1], 'RocksDB of the running backend')
        run.note(engine)
        check_equal([call('SADD', 'a', 'x'), call('SADD', 'b', 'x')], [1, 1])
        wait_for(lambda: call('SINTERSTORE', 'c', 'a', 'b') == 1, 'keys on several shards, which takes backends that know the shard map')
        for i in range(100):
            check_equal(call('SET', 'k%d' % i, i), b'OK')
        check_upgrade(tree, second)
        check_removal(tree)


def check_installed(tree, said):
    check_equal(tree.asked(), [], 'what an installation starts')
    check(not os.path.exists(tree.at('/var/lib/scree/data')), 'the data directory was made before the first start')
    check('scree:x:' in tree.read('/etc/passwd') and '/nologin' in tree.read('/etc/passwd').split('scree:x:')[1],
          'there is no user scree, or it may log in')
    secrets = [ini(tree.read('/etc/scree/secrets/%s.ini' % name)) for name in ('proxy', 'backend')]
    check_equal(secrets[0]['upstream']['secret'], secrets[1]['backend']['secret'], 'cluster secrets')
    check(len(secrets[0]['upstream']['secret']) == 48, 'the cluster secret is short')
    for path, mode in (('/etc/scree/secrets', 0o750), ('/etc/scree/secrets/proxy.ini', 0o640), ('/etc/scree/users.acl', 0o640),
                       ('/etc/scree/proxy.ini', 0o644), ('/usr/bin/scree-proxy', 0o755),
                       ('/var/backups/scree', 0o700), ('/usr/share/scree/monitoring/rules.yaml', 0o644),
                       ('/usr/share/scree/monitoring/dashboard.json', 0o644)):
        check_equal(oct(os.stat(tree.at(path)).st_mode & 0o7777), oct(mode), path)
    check_equal(tree.unit('scree-backend').get('ReadWritePaths'), '-/var/backups/scree')
    for name in PROGRAMS:
        check_equal(tree.call('/usr/bin/' + name, '--version'), run(binary(name), '--version'),
                    'version and RocksDB of the installed ' + name)
        check('systemctl enable --now ' + name in said, 'the hint how to start %s: %s' % (name, said))
        check(not os.path.lexists(tree.at(WANTED % name)), '%s was enabled without being asked' % name)
        text = tree.call('zcat', '/usr/share/man/man8/%s.8.gz' % name)
        options = re.findall(r'^  --([a-z-]+)', tree.call('/usr/bin/' + name, '--help'), re.M)
        check_equal(re.findall(r'^\.It Fl -([a-z-]+)', text, re.M), options, 'options in the manual of ' + name)


def check_upgrade(tree, second):
    """A changed conffile and the data are kept; the programs are the new ones."""
    changed = tree.read('/etc/scree/proxy.ini') + '\n[namespace shop]\ntoken = shop-token\n'
    with open(tree.at('/etc/scree/proxy.ini'), 'w') as file:
        file.write(changed)
    secret = tree.read('/etc/scree/secrets/proxy.ini')
    for name in reversed(PROGRAMS):
        tree.stop(name)
    for name in PROGRAMS:  # as systemctl enable does
        os.makedirs(os.path.dirname(tree.at(WANTED)), exist_ok=True)
        os.symlink('/lib/systemd/system/%s.service' % name, tree.at(WANTED % name))
    tree.install(second, '--force-confold')
    check_equal(sorted(tree.asked()), ['restart %s.service' % name for name in PROGRAMS])
    check(all(os.path.lexists(tree.at(WANTED % name)) for name in PROGRAMS), 'an upgrade has disabled the units')
    with open(tree.at('/etc/default/scree'), 'w') as file:
        file.write('RESTART_ON_UPGRADE=no\n')
    said = tree.install(second, '--force-confold')
    check_equal(tree.asked(), [], 'what an upgrade without restarts tells systemd')
    check(all('until: systemctl restart ' + name in said for name in PROGRAMS), said)
    check('-2' in run('dpkg-query', '--admindir', tree.at('/var/lib/dpkg'), '-W', '-f', '${Version}', 'scree-proxy'),
          'not upgraded')
    check_equal(tree.read('/etc/scree/proxy.ini'), changed, 'the changed conffile')
    check_equal(tree.read('/etc/scree/secrets/proxy.ini'), secret, 'the cluster secret')
    tree.start_all()
    with Connection(('127.0.0.1', 7379)) as client:
        check_equal(client.get('AUTH', 'shop', 'shop-token'), b'OK')
    with open(tree.at('/etc/scree/proxy.ini'), 'w') as file:
        file.write(changed.split('\n[namespace')[0])
    wait_for(lambda: call('GET', 'k99') == b'99', 'the proxy to take the file over, and the data to be there')
    for name in reversed(PROGRAMS):
        tree.stop(name)


def check_removal(tree):
    """remove: programs and units are removed, configuration and data stay. purge: only the user is left."""
    tree.call('dpkg', '-r', *reversed(NAMES))
    check_equal([tree.state(name) for name in NAMES], ['config-files'] * 3)
    for path in ('/usr/bin/scree-proxy', '/usr/bin/scree-backend', '/usr/lib/systemd/system/scree-proxy.service',
                 '/usr/share/doc/scree-common'):
        check(not os.path.lexists(tree.at(path)), '%s is left after remove' % path)
    for path in ('/etc/scree/proxy.ini', '/etc/scree/secrets/proxy.ini', '/var/lib/scree/data'):
        check(os.path.exists(tree.at(path)), '%s is gone after remove' % path)
    tree.call('dpkg', '-P', *reversed(NAMES))
    left = tree.call('find', '/etc', '/usr', '/var', '/run', '/lib', '-name', '*scree*').split()
    left = [path for path in left if not os.path.basename(path).startswith('screen')]
    check_equal(left, [], 'left after purge')
    check('scree:x:' in tree.read('/etc/passwd'), 'the user is gone')


@suite.case('the units: systemd accepts every line, and rates their exposure as low')
def _(run):
    if not shutil.which('systemd-analyze'):
        raise Skip('systemd-analyze is not installed')
    with tempfile.TemporaryDirectory(prefix='scree-units-') as folder:
        for name in PROGRAMS:
            with open(os.path.join(ROOT, 'config/packages/systemd/%s.service' % name)) as file:
                text = file.read()
            check_equal(Unit(text).get('LimitCORE'), 'infinity', 'core-dumps = yes can keep a core')
            path = os.path.join(folder, name + '.service')
            with open(path, 'w') as file:
                file.write(text.replace('/usr/bin/scree-', build_folder() + '/scree-'))
            done = subprocess.run(['systemd-analyze', 'verify', '--man=no', path], capture_output=True, text=True)
            said = [line for line in done.stderr.splitlines() if name in line]
            check(done.returncode == 0 and not said, '%s: %s' % (name, said or done.stderr))
            done = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--threshold=20', path],
                                  capture_output=True, text=True)
            exposure = re.search(r'Overall exposure level.*?: ([0-9.]+)', done.stdout)
            check(done.returncode == 0 and exposure, '%s: %s' % (name, done.stdout[-1500:] + done.stderr))
            run.note('%s: exposure %s of 10' % (name, exposure.group(1)))


@suite.case('the units of scree-push: systemd accepts every line, and rates their exposure as low')
def _(_):
    if not shutil.which('systemd-analyze'):
        raise Skip('systemd-analyze is not installed')
    with tempfile.TemporaryDirectory(prefix='scree-units-') as folder:
        for path in glob.glob(os.path.join(ROOT, 'config/packages/systemd/scree-push@*')):
            with open(path) as file, open(os.path.join(folder, os.path.basename(path)), 'w') as to:
                to.write(file.read().replace('/usr/bin/scree-push', os.path.join(ROOT, 'config/push')))
        paths = glob.glob(folder + '/*.timer') + [folder + '/scree-push@archive.service']
        check_equal(units_problems(paths), [])
        done = subprocess.run(['systemd-analyze', 'security', '--offline=true', '--threshold=20', paths[-1]], capture_output=True, text=True)
        check(done.returncode == 0, done.stdout[-1500:] + done.stderr)
        with open(paths[0], 'a') as file:
            file.write('OnUnitInactiveSec=soon\n')
        check(units_problems(paths), 'a wrong line is not noticed')


def units_problems(paths):
    done = subprocess.run(['systemd-analyze', 'verify', '--man=no', *paths], capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if 'scree-push' in line]


@suite.case("the installed configuration is the programs' default, and each port is named in one place")
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-etc-') as folder:
        shutil.copytree(os.path.join(ROOT, 'config/packages/etc'), folder, dirs_exist_ok=True)
        os.mkdir(os.path.join(folder, 'secrets'))
        for name, section in (('proxy', 'upstream'), ('backend', 'backend')):
            with open(os.path.join(folder, 'secrets', name + '.ini'), 'w') as file:
                file.write('[%s]\nsecret = s\n' % section)
            done = subprocess.run([binary('scree-' + name), '--config', os.path.join(folder, name + '.ini'), '--check'],
                                  capture_output=True, text=True)
            check(done.returncode == 0, done.stderr)
        with open(os.path.join(folder, 'backend.ini')) as file:
            backend = ini(file.read())['backend']
        with open(os.path.join(folder, 'shards.ini')) as file:
            addresses = re.findall(r'^address = (\S+)', file.read(), re.M)
        check_equal(addresses, ['127.0.0.1:%d' % (int(backend['port']) + i) for i in range(int(backend['partitions']))])


@suite.case('the tools for moving to Scree are a package of their own, and each has a help text')
def _(_):
    package = make_packages()['scree-tools']
    check_equal(run('dpkg-deb', '-f', package, 'Depends').strip(), 'python3, python3-redis, python3-yaml')
    check_equal(run('dpkg-deb', '-f', package, 'Architecture').strip(), 'all')
    with tempfile.TemporaryDirectory(prefix='scree-tools-') as folder:
        run('dpkg-deb', '-x', package, folder)
        names = sorted(os.listdir(os.path.join(folder, 'usr/bin')))
        check_equal(names, ['scree-copy-keys', 'scree-from-nutcracker', 'scree-push', 'scree-restore-slots', 'scree-support-bundle'])
        for name in names:
            check('usage: ' + name in run(os.path.join(folder, 'usr/bin', name), '--help'), name)
        check_equal(os.stat(os.path.join(folder, 'etc/scree/push.env')).st_mode & 0o777, 0o600, 'push.env has passwords')
        units = sorted(os.listdir(os.path.join(folder, 'usr/lib/systemd/system')))
        check_equal(units, ['scree-push@%s' % rest for rest in ('.service', 'archive.timer', 'backups.timer', 'prune.timer')])
        said = run(os.path.join(folder, 'usr/bin/scree-push'), '--help')
        for unit in units[1:]:
            check(re.search(r'{.*\b%s\b' % unit[len('scree-push@'):-len('.timer')], said), unit)


@suite.case('scree-copy is a package of its own, which needs no other one of Scree, with a manual of its options')
def _(_):
    package = make_packages()['scree-copy']
    needs = run('dpkg-deb', '-f', package, 'Depends')
    check('libuv1' in needs and 'scree' not in needs, needs)
    with tempfile.TemporaryDirectory(prefix='scree-copy-') as folder:
        run('dpkg-deb', '-x', package, folder)
        shown = run(os.path.join(folder, 'usr/bin/scree-copy'), '--help')
        with gzip.open(os.path.join(folder, 'usr/share/man/man8/scree-copy.8.gz'), 'rt') as file:
            page = file.read()
        for option in re.findall(r'^  (--[a-z-]+)', shown, re.M):
            check('.It Fl ' + option[1:] in page, option + ' is not in the manual')


@suite.case('lintian finds no error')
def _(run):
    if not shutil.which('lintian'):
        raise Skip('lintian is not installed')
    files = make_packages()
    # Scree has no mail address of its own, and RocksDB is linked statically with its libraries because that was
    # measured.
    done = subprocess.run(['lintian', '--allow-root', '--fail-on', 'error', '--tag-display-limit', '0', '--suppress-tags',
                           'bogus-mail-host,bogus-mail-host-in-debian-changelog,embedded-library'] + list(files.values()),
                          capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if line.startswith('E:')]
    check(done.returncode == 0, '; '.join(errors) or done.stderr)
    run.note('%d warnings' % len([line for line in done.stdout.splitlines() if line.startswith('W:')]))
    for line in done.stdout.splitlines():
        run.debug(line)


if __name__ == '__main__':
    if '--list' not in sys.argv and '--help' not in sys.argv:
        enter_namespaces()
    suite.main()
