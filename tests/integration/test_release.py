#!/usr/bin/python3
"""config/release: refuses what is not a commit or has no release notes, and makes packages, image, notes and checksums.

The builds themselves are replaced: test_packages makes the packages.
"""

import os
import shutil
import subprocess
import tempfile

from support import ROOT
from support.cluster import binary
from support.harness import Suite, check, check_equal

suite = Suite(__doc__)
FAKE_BUILD = '#!/bin/sh\nmkdir -p build/packages\necho deb > build/packages/scree-proxy_%s-1_amd64.deb\n'
FAKE_PODMAN = '#!/bin/sh\necho "podman $*" >> "$CALLS"\n[ "$1" != save ] || echo image > "$3"\n'


class Tree:
    """A repository with the files that config/release reads, all committed."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-release-')
        for name in ('config/release', 'shared/version.h', 'docs/changelog.md', 'tests/lint/changelog.py', 'tests/lint/files.py',
                     'backend/peer/frame.h', 'backend/format/encoding.h', 'backend/format/effects.h', 'backend/backup/manifest.h',
                     'k8s/overlays/dev/kustomization.yaml', 'k8s/overlays/prod/kustomization.yaml', '.gitignore'):
            os.makedirs(os.path.join(self.path, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.path, name))
        self.write('config/packages/build', FAKE_BUILD % VERSION)
        self.write('../%s-bin/podman' % os.path.basename(self.path), FAKE_PODMAN)
        self.bin = self.path + '-bin'
        self.git('init', '-q')
        self.commit()
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)
        shutil.rmtree(self.bin)

    def write(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)

    def replace(self, name, old, new):
        with open(os.path.join(self.path, name)) as file:
            text = file.read()
        check(old in text, '%s has no %r' % (name, old))
        self.write(name, text.replace(old, new))

    def git(self, *words):
        subprocess.run(('git', '-c', 'user.name=t', '-c', 'user.email=t@localhost') + words, cwd=self.path, check=True, capture_output=True)

    def commit(self):
        self.git('add', '-A')
        self.git('commit', '-qm', 'tree')

    def release(self, *words):
        env = dict(os.environ, PATH=self.bin + ':' + os.environ['PATH'], CALLS=os.path.join(self.bin, 'calls'))
        return subprocess.run(['config/release', *words], cwd=self.path, env=env, capture_output=True, text=True)

    def refused(self, words, *arguments):
        done = self.release(*arguments)
        check(done.returncode != 0 and words in done.stdout + done.stderr, '%r: %s%s' % (words, done.stdout, done.stderr))


def version():
    with open(os.path.join(ROOT, 'shared', 'version.h')) as file:
        return next(line.split('"')[1] for line in file if line.startswith('#define SCREE_VERSION'))


VERSION = version()


@suite.case('a release has packages, image, notes and checksums, and says which commit it is')
def _(run):
    with Tree() as tree:
        done = tree.release(VERSION)
        check_equal(done.returncode, 0, done.stderr)
        out = os.path.join(tree.path, 'build', 'release-' + VERSION)
        names = ['scree-%s.image.tar' % VERSION, 'scree-proxy_%s-1_amd64.deb' % VERSION, 'notes.md']
        check_equal(sorted(os.listdir(out)), sorted(names + ['SHA256SUMS']))
        subprocess.run(['sha256sum', '-c', '--quiet', 'SHA256SUMS'], cwd=out, check=True)
        with open(os.path.join(out, 'SHA256SUMS')) as file:
            check_equal(sorted(line.split()[1] for line in file), sorted(names))
        with open(os.path.join(out, 'notes.md')) as file:
            notes = file.read()
        check(notes.startswith('## %s\n' % VERSION) and '`PEER_PROTOCOL`' in notes and '\n## ' not in notes, notes)
        with open(os.path.join(tree.bin, 'calls')) as file:
            check('--build-arg SCREE_COMMIT=' in file.read(), 'the image is not told its commit')


@suite.case('a dirty tree, another version, and numbers of formats that the changelog does not have are refused')
def _(run):
    with Tree() as tree:
        tree.write('untracked', 'x')
        tree.refused('?? untracked', VERSION, '--no-image')
        os.remove(os.path.join(tree.path, 'untracked'))
        tree.refused('another version', '9.9.9', '--no-image')
        tree.refused('expected a version', 'now')
        tree.replace('backend/format/encoding.h', 'DATA_FORMAT = ', 'DATA_FORMAT = 1')
        tree.commit()
        tree.refused('`DATA_FORMAT` is 1', VERSION, '--no-image')
        tree.git('revert', '--no-edit', 'HEAD')
        tree.replace('shared/version.h', VERSION, '7.0.0')
        tree.commit()
        tree.refused('expected the section ## 7.0.0 first', '7.0.0', '--no-image')


@suite.case('--version, with the commit, is that of the sources')
def _(run):
    for name in ('scree-proxy', 'scree-backend'):
        line = subprocess.run([binary(name), '--version'], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        start = '%s %s (commit ' % (name, VERSION)
        check(line.startswith(start) and line[len(start):].rstrip('+)').isalnum(), line)


suite.main()
