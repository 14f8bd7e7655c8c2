#!/usr/bin/python3
"""The console blocks of all pages, run as they are shown, in a clone without other files: a
cluster with namespaces is started, monitored, broken, backed up, and restored with other numbers of partitions.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile

from support import ROOT, harness
from support.cluster import SANITIZER_WORDS, binary, free_ports, is_sanitized
from support.console import PORTS, Shell, commands_of
from support.harness import Failure, Suite, check

suite = Suite(__doc__)


class Clone:
    """The files of a fresh clone after the build that the documents use; Scree's ports begin at `port`."""

    def __init__(self, port):
        self.port = port

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='scree-tour-')
        programs = os.path.dirname(binary('scree-proxy'))
        for name in ('docs', 'tests', 'k8s'):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.path, name))
        shutil.copytree(os.path.join(ROOT, 'config'), os.path.join(self.path, 'config'))
        os.mkdir(os.path.join(self.path, 'build'))
        os.symlink(programs, os.path.join(self.path, 'build', 'release'))
        quickstart = os.path.join(self.path, 'config', 'quickstart')
        os.rename(quickstart, quickstart + '-whole')
        with open(quickstart, 'w') as file:  # uses the existing build, and other ports than the document
            file.write('#!/bin/sh\nexec config/quickstart-whole --bin build/release --no-install --port %d "$@"\n' % self.port)
        os.chmod(quickstart, 0o755)
        if is_sanitized(os.path.join(programs, 'scree-proxy')):
            harness.programs_are_sanitized()
        return self.path

    def __exit__(self, kind, *why):
        logs = []
        for data in os.listdir(self.path):
            if os.path.isdir(os.path.join(self.path, data, 'run')):
                subprocess.run(['config/quickstart', '--stop', '--data', data], cwd=self.path, stdout=subprocess.DEVNULL)
                logs += glob.glob(os.path.join(self.path, data, 'log', '*.log'))
        bad = [(path, line) for path in logs for line in open(path, 'rb') if any(word in line for word in SANITIZER_WORDS)]
        if kind or bad:
            print('     configs and logs are kept in %s' % self.path, flush=True)
            check(kind or not bad, '%s' % bad)
        else:
            shutil.rmtree(self.path)


def play(run, *names):
    """Runs the commands of the pages, one after the other, in one shell."""
    paths = [os.path.join(ROOT, name) for name in names]
    for path in paths:
        check(commands_of(path), '%s shows commands' % path)
    for attempt in range(3):
        ports = free_ports(PORTS)
        try:
            with Clone(ports + 79) as clone, Shell(clone, ports) as shell:
                for path in paths:
                    shell.play(path, run)
            return
        except Failure as failure:  # another test took a port before the start
            if 'in use' not in str(failure) or attempt == 2:
                raise
            run.note('begins again with other ports: %s' % failure)


@suite.case('the tour of README.md works as shown')
def _(run):
    play(run, 'README.md')


@suite.case('the commands of README.md can be given twice, and git sees none of the files that the pages leave behind')
def _(run):
    with open(os.path.join(ROOT, 'README.md')) as file:
        writes = [line[2:].rstrip() for line in file if line.startswith('$ printf') and 'own-proxy.ini' in line]
    with tempfile.TemporaryDirectory(prefix='scree-twice-') as folder:
        os.makedirs(os.path.join(folder, 'data', 'config'))
        for command in writes * 2:
            subprocess.run(['bash', '-c', command], cwd=folder, check=True)
        path = os.path.join(folder, 'data', 'config', 'own-proxy.ini')
        done = subprocess.run([binary('scree-proxy'), '--config', path, '--print-config'], capture_output=True, text=True)
        check(done.returncode == 0 and '[namespace shop]' in done.stdout, done.stderr)
    pages = ['README.md'] + [os.path.join('docs', name) for name in os.listdir(os.path.join(ROOT, 'docs')) if name.endswith('.md')]
    commands = [command for page in pages for _, command, _ in commands_of(os.path.join(ROOT, page))]
    left = {name for command in commands for name in re.findall(r'(?:--data |>>? *)([a-z][\w.]*)', command)}
    check({'again', 'drill'} <= left, str(left))
    for name in sorted(left | {'data'}):
        for path in (name, name + '/'):
            done = subprocess.run(['git', 'check-ignore', '-q', path], cwd=ROOT)
            if done.returncode == 0:
                break
        check(done.returncode in (0, 128), 'git does not ignore %s' % name)  # 128: no repository


ON_THE_CLUSTER_OF_THE_DRILLS = ('docs/drills.md', 'docs/monitoring.md', 'docs/runbook.md')


@suite.case('the commands of the drills and, on their cluster, those of the runbook work as shown')
def _(run):
    play(run, *ON_THE_CLUSTER_OF_THE_DRILLS)


for page in sorted(name for name in os.listdir(os.path.join(ROOT, 'docs')) if name.endswith('.md')):
    page = os.path.join('docs', page)
    if page not in ON_THE_CLUSTER_OF_THE_DRILLS and commands_of(os.path.join(ROOT, page)):
        suite.case('the commands of %s work as shown' % page)(lambda run, page=page: play(run, page))


suite.main()
