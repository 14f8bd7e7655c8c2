#!/usr/bin/python3
"""config/rocksdb: which library the program reports, how the rebuilt one is made and used, and what is said when its source
cannot be had. The source package of the tests is a library of one file, because the real one takes minutes of CPU.
"""

import glob
import os
import platform
import re
import shutil
import subprocess
import tempfile

from support import ROOT
from support.cluster import Cluster, binary
from support.harness import Skip, Suite, check, check_equal

suite = Suite(__doc__)
SCRIPT, QUICKSTART, PACKAGES = (os.path.join(ROOT, 'config', name) for name in ('rocksdb', 'quickstart', 'packages/build'))

# An apt-get with this behaviour of `update`, whose sources are a library of one file.
APT = r'''#!/bin/bash
case " $* " in
*" indextargets "*) echo "deb-src http://mirror.invalid/debian bookworm main" ;;
*" update "*) echo update >>"$0.calls"; %s ;;
*" source "*)
    mkdir -p rocksdb-%s/include/rocksdb && cd rocksdb-*
    echo 'int rocksdb_is_small;' >small.c
    echo '#pragma once' >include/rocksdb/c.h
    printf 'cmake_minimum_required(VERSION 3.10)\nproject(small C)\nadd_library(rocksdb STATIC small.c)\n' >CMakeLists.txt ;;
esac
'''


def debian_version():
    done = subprocess.run(['dpkg-query', '-W', '-f', '${source:Version}', 'librocksdb-dev'], capture_output=True, text=True)
    return done.stdout


class Machine:
    """A cache directory of its own, and an apt-get that reaches no mirror."""

    def __init__(self, folder, update='true'):
        self.folder, self.apt = folder, os.path.join(folder, 'bin/apt-get')
        os.makedirs(os.path.dirname(self.apt), exist_ok=True)
        with open(self.apt, 'w') as file:
            file.write(APT % (update, debian_version().rsplit('-', 1)[0]))
        os.chmod(self.apt, 0o755)
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, 'cache'),
                        PATH='%s:%s' % (os.path.dirname(self.apt), os.environ['PATH']))

    def run(self, *words):
        return subprocess.run(words, capture_output=True, text=True, env=self.env, timeout=300, stdin=subprocess.DEVNULL)

    def updates(self):
        if not os.path.exists(self.apt + '.calls'):
            return 0
        with open(self.apt + '.calls') as file:
            return len(file.readlines())


def engine_of(text):
    return dict(re.findall(r'^store_engine(\w*):(.*)$', text.replace('\r', ''), re.M))


@suite.case('INFO, --version and metrics report the version, assertions and checksums of the library that is linked')
def _(run):
    with Cluster(backends=1, partitions=1) as cluster:
        engine = engine_of(cluster.connect().get('INFO', 'scree').decode())
        with open(glob.glob(os.path.join(cluster.backends[0].data, 'partition-0/OPTIONS-*'))[0]) as file:
            own = re.search(r'rocksdb_version=(\S+)', file.read()).group(1)
        metrics = cluster.backends[0].http('/metrics')[1]
    check_equal(engine[''], 'RocksDB ' + own, 'the version that the library writes into its own files')
    with open(binary('scree-backend'), 'rb') as file:
        program = file.read()
    signatures = re.findall(rb' rocksdb::\w+::\w+\([^\0]*\)(?: const)?\0', program)  # an assertion has that of its function
    check_equal(engine['_assertions'], 'on' if len(signatures) > 100 else 'off', 'with %d signatures' % len(signatures))
    if platform.machine() == 'x86_64':
        instructions = re.findall(rb'\xf2[\x48-\x4f]\x0f\x38\xf1', program)  # crc32 of 8 bytes
        check_equal(engine['_crc32c'], 'hardware' if len(instructions) > 50 else 'software',
                    'with %d instructions' % len(instructions))
    words = (engine[''], engine['_assertions'], engine['_crc32c'])
    done = subprocess.run([binary('scree-backend'), '--version'], capture_output=True, text=True)
    check_equal(done.stdout.splitlines()[1:], ['%s, assertions %s, CRC32C by %s' % words])
    check('engine="%s",engine_assertions="%s",engine_crc32c="%s"} 1' % words in metrics, 'not in scree_backend_build_info')
    run.note('%s, assertions %s, CRC32C by %s' % words)


@suite.case('the library is built once for each version of the package, with progress, and its directory is printed')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-rocksdb-') as folder:
        machine = Machine(folder)
        where = machine.run(SCRIPT, '--where').stdout.strip()
        check_equal(where, os.path.join(folder, 'cache/scree/rocksdb-' + debian_version()))
        first = machine.run(SCRIPT, '--no-install')
        check_equal(first.returncode, 0, first.stderr)
        check('RocksDB: 100 %' in first.stdout and 'minutes of CPU' in first.stdout, first.stdout)
        check_equal(sorted(os.listdir(where)), ['build.log', 'include', 'librocksdb.a', 'lock', 'version'])
        check_equal(machine.updates(), 1)
        second = machine.run(SCRIPT, '--no-install')
        check_equal((second.returncode, machine.updates()), (0, 1), 'built a second time')
        check('rebuilt earlier' in second.stdout, second.stdout)
        with open(os.path.join(where, 'version'), 'w') as file:
            file.write('0-1\n')  # of an older package
        check_equal((machine.run(SCRIPT, '--no-install').returncode, machine.updates()), (0, 2), 'an older library was kept')


@suite.case('a source package that was put there by hand is built without a mirror, and an interrupted build is continued')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-rocksdb-') as folder:
        machine = Machine(folder, 'exit 100')
        source = os.path.join(folder, 'here/source/rocksdb-' + debian_version().rsplit('-', 1)[0])
        os.makedirs(source)
        with open(os.path.join(source, 'CMakeLists.txt'), 'w') as file:
            file.write('cmake_minimum_required(VERSION 3.10)\nproject(small C)\nadd_library(rocksdb STATIC small.c)\n')
        with open(os.path.join(source, 'small.c'), 'w') as file:
            file.write('#error this file is not complete\n')
        os.makedirs(os.path.join(source, 'include/rocksdb'))
        done = machine.run(SCRIPT, '--no-install', os.path.join(folder, 'here'))
        check(done.returncode == 1 and 'config/rocksdb: the build failed' in done.stderr, done.stderr)
        check('this file is not complete' in done.stderr, 'the error of the compiler: ' + done.stderr)
        check(not os.path.exists(os.path.join(folder, 'here/version')), 'a failed build counts as complete')
        with open(os.path.join(source, 'small.c'), 'w') as file:
            file.write('int rocksdb_is_small;\n')
        done = machine.run(SCRIPT, '--no-install', os.path.join(folder, 'here'))
        check_equal((done.returncode, machine.updates()), (0, 0), done.stderr)
        check(os.path.exists(os.path.join(folder, 'here/librocksdb.a')), 'no library')


@suite.case('without a source, config/rocksdb, quickstart and packages/build end with the reason and what to do')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-rocksdb-') as folder:
        machine = Machine(folder, 'echo "E: The mirror is away" >&2; exit 100')
        done = machine.run(SCRIPT, '--no-install')
        want = 'config/rocksdb: the source package rocksdb %s cannot be had from http://mirror.invalid/debian' % debian_version()
        check_equal((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        check(done.stderr.startswith(want) and 'The mirror is away' in done.stderr, done.stderr)
        check("use Debian's library" in done.stderr, done.stderr)
        for words in ([QUICKSTART, '--build-only', '--rocksdb', 'rebuilt'], [PACKAGES]):
            done = machine.run(*words, '--no-install')
            check(done.returncode == 1 and want in done.stderr, done.stderr)
            check(': the rebuilt RocksDB cannot be made; ' in done.stderr.splitlines()[-1], done.stderr)


@suite.case('wrong arguments are refused, and cmake refuses a directory without a library')
def _(run):
    with tempfile.TemporaryDirectory(prefix='scree-rocksdb-') as folder:
        machine = Machine(folder)
        for words, want in ((['--jobs', '0'], '--jobs: expected a number from 1 to 999'), (['--fast'], 'unknown option --fast'),
                            (['a', 'b'], 'expected one directory'), (['--no-install', '/proc/none'], 'cannot make the directory')):
            done = machine.run(SCRIPT, *words)
            check(done.returncode == 1 and want in done.stderr, '%s: %s' % (words, done.stderr))
        for words, want in ((['--rocksdb', 'mine'], "--rocksdb: expected debian or rebuilt, not 'mine'"),
                            (['--rocksdb', 'rebuilt', '--bin', folder], '--rocksdb: the programs of --bin are built already')):
            done = machine.run(QUICKSTART, *words)
            check(done.returncode == 1 and want in done.stderr, '%s: %s' % (words, done.stderr))
        done = machine.run(PACKAGES, '--rocksdb', 'mine')
        check(done.returncode == 1 and "not 'mine'" in done.stderr, done.stderr)
        done = machine.run('cmake', '-G', 'Ninja', '-S', ROOT, '-B', os.path.join(folder, 'build'), '-DSCREE_ROCKSDB=' + folder)
        text = ' '.join(done.stderr.split())
        check(done.returncode != 0 and 'has no RocksDB; make it with: config/rocksdb ' + folder in text, text)


@suite.case('a program that is linked with the rebuilt library reports no assertions and checksums by the CPU')
def _(run):
    library = subprocess.run([SCRIPT, '--where'], capture_output=True, text=True).stdout.strip()
    if not os.path.exists(os.path.join(library, 'version')):
        raise Skip('NOT TESTED: %s does not exist; config/rocksdb makes it' % library)
    with tempfile.TemporaryDirectory(prefix='scree-rocksdb-') as folder:
        build = os.path.join(folder, 'build')
        for words in (['cmake', '-G', 'Ninja', '-S', ROOT, '-B', build, '-DSCREE_TESTS=OFF', '-DSCREE_ROCKSDB=' + library] +
                      (['-DCMAKE_C_COMPILER_LAUNCHER=ccache'] if shutil.which('ccache') else []),
                      ['cmake', '--build', build, '--target', 'scree-backend']):
            done = subprocess.run(words, capture_output=True, text=True, timeout=900)
            check_equal(done.returncode, 0, done.stdout[-1000:] + done.stderr[-1000:])
        done = subprocess.run([os.path.join(build, 'scree-backend'), '--version'], capture_output=True, text=True)
        check(done.stdout.endswith(', assertions off, CRC32C by hardware\n'), done.stdout)


suite.main()
