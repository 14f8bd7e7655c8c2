"""suites.py - the sources of a suite that others wrote, as a Debian package, and how its tests end at two addresses.

    fetch ─► build/suites ─► play(address of redis-server) ─┐ {test: PASSED, FAILED or SKIPPED}
                          └► play(address of the proxy) ────┴► compare ─ tests/suites/differences.txt

A test that does not pass at the proxy and ends otherwise than at redis-server must be in differences.txt, with the reason; a line
there that is no longer true fails too.
"""

import glob
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

from support import ROOT, TESTS
from support.cluster import Cluster, Oracle
from support.harness import check, check_equal

FOLDER = os.path.join(ROOT, 'build', 'suites')
LIST = os.path.join(TESTS, 'suites', 'differences.txt')
KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'


def run(words, folder=FOLDER, limit=600, may_fail=False):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
    text = done.stdout.decode('utf-8', 'replace')
    check(may_fail or done.returncode == 0, '%s ended with %d: %s' % (words[0], done.returncode, text[-1000:]))
    return text


# ---- packages ----------------------------------------------------------------------------------------------------

def site():
    """From where apt reads this machine's release, which has the newer one too."""
    lines = run(['apt-get', 'indextargets', '--format', '$(RELEASE) $(SITE)']).split('\n')
    return next(line.split()[1] for line in lines if re.match(r'[a-z]+ http', line))


def source_lists():
    """Options of apt-get with which it reads sources where this machine reads packages."""
    listed = os.path.join(FOLDER, 'sources')
    os.makedirs(os.path.join(listed, 'lists', 'partial'), exist_ok=True)
    os.makedirs(os.path.join(listed, 'parts'), exist_ok=True)
    for path in glob.glob('/etc/apt/sources.list') + glob.glob('/etc/apt/sources.list.d/*.list') + glob.glob('/etc/apt/sources.list.d/*.sources'):
        with open(path) as file:
            text = file.read()
        text = re.sub(r'^Types: deb$', 'Types: deb-src', text, flags=re.M)
        with open(os.path.join(listed, 'parts', os.path.basename(path)), 'w') as file:
            file.write(re.sub(r'^deb ', 'deb-src ', text, flags=re.M))
    with open(os.path.join(listed, 'parts', 'newer.list'), 'w') as file:
        file.write('deb-src [signed-by=%s] %s trixie main\n' % (KEYS, site()))
    return ['-o', 'Dir::Etc::sourcelist=-', '-o', 'Dir::Etc::sourceparts=%s/parts' % listed, '-o', 'Dir::State::lists=%s/lists' % listed]


def fetch(package, version, orig):
    """The folder of the unpacked sources of this version."""
    folder = os.path.join(FOLDER, package + '-' + version)
    if not os.path.isdir(folder):
        options = source_lists()
        run(['apt-get', *options, 'update'])
        run(['apt-get', *options, 'source', '--tar-only', '--download-only', '%s=%s' % (package, version)])
        os.makedirs(folder + '.part', exist_ok=True)
        run(['tar', '-xf', orig, '-C', folder + '.part'])
        os.rename(folder + '.part', folder)
    return folder


def need(program, *packages):
    if not shutil.which(program):
        run(['apt-get', 'install', '-y', '--no-install-recommends', *packages])


def need_packages(*packages):
    there = run(['dpkg-query', '-f', '${db:Status-Abbrev} ', '-W', *packages], may_fail=True).split()
    if there != ['ii'] * len(packages):
        run(['apt-get', 'install', '-y', '--no-install-recommends', *packages])


# ---- comparing ---------------------------------------------------------------------------------------------------

def listed(name):
    """{test: reason} of the lines 'suite | test | reason'."""
    rows = {}
    with open(LIST) as file:
        for line in file:
            words = [word.strip() for word in line.split('|')]
            if not line.startswith('#') and len(words) == 3 and words[0] == name:
                rows[words[1]] = words[2]
    return rows


def compare(name, play, tests_min):
    """`play`: called with an address; returns {test: how it ended}."""
    with Oracle() as oracle:
        there = play(oracle.address)
    with Cluster(backends=3, partitions=1, proxies=1, linked=True) as cluster:
        here = play(cluster.proxies[0].address)
    passed = sum(end == 'PASSED' for end in here.values())
    print('     %s: %d tests, %d passed, %d passed at redis-server'
          % (name, len(here), passed, sum(end == 'PASSED' for end in there.values())))
    check(passed >= tests_min, '%d tests have passed: has the suite run?' % passed)
    known = listed(name)
    differ = sorted(test for test in there if here.get(test) not in (there[test], 'PASSED'))
    check_equal([test for test in differ if test not in known], [], 'differences that are not in differences.txt')
    check_equal([test for test in known if test not in differ], [], 'lines of differences.txt that are not true any more')


def junit_ends(path):
    """{test: how it ended} of a report in JUnit's format."""
    words = {'failure': 'FAILED', 'error': 'FAILED', 'warning': 'FAILED', 'skipped': 'SKIPPED'}
    ends = {}
    for test in xml.etree.ElementTree.parse(path).getroot().iter('testcase'):
        name = '%s::%s' % (re.split(r'[.\\]', test.get('class') or test.get('classname'))[-1], test.get('name'))
        ends[name] = next((words[part.tag] for part in test if part.tag in words), 'PASSED')
    return ends
