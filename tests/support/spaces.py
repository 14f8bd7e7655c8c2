"""spaces.py - network namespaces: a program in one has an address of its own, and what it sends to another can be lost.

    REASON = enter_node()                 # before anything else; not None: it is impossible here, and why

    node (this process, in namespaces of its own)
      bridge 10.77.0.1/24
        │ veth         │ veth
      Space(2) .2    Space(3) .3 …        prefix: the words before a command that runs there

    a.lose(b.address)       what a sends to b is lost, and neither side learns of it: the frames go to a link address that no port has;
                            what b sends to a still arrives
    a.heal()
"""

import os
import shutil
import subprocess
import sys

from support.harness import Failure

SUBNET = '10.77.0.%d'
INSIDE = 'SCREE_TEST_NODE'
ABSENT = '02:00:00:00:ff:ff'  # a link address that no port has


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure('%s: %s' % (' '.join(words), done.stderr.strip()))


def enter_node():
    """Starts this script again in a network and a mount namespace of its own; returns the reason if that is impossible."""
    if os.environ.get(INSIDE):
        run('ip', 'link', 'set', 'lo', 'up')
        os.makedirs('/run/netns', exist_ok=True)
        run('mount', '-t', 'tmpfs', 'netns', '/run/netns')
        # an address of its own: else the bridge takes that of a port, which changes when pods come and go, and pods send to
        # the old one until their ARP entry has expired
        run('ip', 'link', 'add', 'node', 'address', '02:00:00:00:00:01', 'type', 'bridge')
        run('ip', 'address', 'add', SUBNET % 1 + '/24', 'dev', 'node')
        run('ip', 'link', 'set', 'node', 'up')
        return None
    unshare = ['unshare', '--net', '--mount', '--propagation', 'private']
    for tool in ('unshare', 'ip', 'setpriv', 'chroot'):
        if not shutil.which(tool):
            return '%s is not installed' % tool
    done = subprocess.run(unshare + ['ip', 'link', 'add', 'node', 'type', 'bridge'], capture_output=True, text=True)
    if done.returncode != 0:
        return 'network namespaces are not possible here: %s' % done.stderr.strip()
    os.environ[INSIDE] = 'yes'
    sys.stdout.flush()
    os.execvp('unshare', unshare + [sys.executable] + sys.argv)


class Space:
    """A network namespace with one port at the bridge; `number`: the last byte of its address, from 2 on."""

    def __init__(self, number):
        self.address, self.name = SUBNET % number, 'space%d' % number
        self.prefix = ['nsenter', '--net=/run/netns/' + self.name]
        self.lost = set()
        run('ip', 'netns', 'add', self.name)
        run('ip', 'link', 'add', self.name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.name)
        run('ip', 'link', 'set', self.name, 'master', 'node', 'up')
        self.run('link', 'set', 'lo', 'up')
        self.run('address', 'add', self.address + '/24', 'dev', 'eth0')
        self.run('link', 'set', 'eth0', 'up')

    def run(self, *words):
        run('ip', '-n', self.name, *words)

    def lose(self, address):
        self.run('neigh', 'replace', address, 'lladdr', ABSENT, 'nud', 'permanent', 'dev', 'eth0')
        self.lost.add(address)

    def heal(self):
        while self.lost:
            self.run('neigh', 'del', self.lost.pop(), 'dev', 'eth0')

    def remove(self):
        # otherwise the link is removed some time after its peer
        subprocess.run(['ip', 'link', 'del', self.name], capture_output=True)
        subprocess.run(['ip', 'netns', 'del', self.name], capture_output=True)
