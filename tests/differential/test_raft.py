#!/usr/bin/python3
"""The core of consensus (backend/consensus) does what etcd's raft does: both obey the same random schedules, and term, vote, role,
commit index and the terms of all records are compared after each command.

  test_raft.py [--seed N] [--schedules COUNT] [-v]

Programs: tests/oracle/etcd.go, built with Debian's golang-go and golang-etcd-server-dev, and tests/oracle/copies.c. Differences
that are wanted are named in copies.c. A schedule that differs is shortened and printed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.harness import sized

COMMANDS = 40


def cut(link, is_cut):
    return ['cut %d %d %d' % (*link, is_cut), 'cut %d %d %d' % (*reversed(link), is_cut)]


def schedule(rng):
    """Commands that say something to the members. Members change and leadership is handed over only if all links work, since etcd
    counts a change when it is applied, and keeps its role until the new leader is heard. Links are cut both ways: to a member that
    hears and is not heard the core sends records again with each heartbeat, and etcd does not."""
    commands, cuts, removed, is_promoted = [], set(), set(), False
    for _ in range(COMMANDS):
        dice = rng.random()
        alive = [member for member in (1, 2, 3, 4) if member not in removed]
        member = rng.choice(alive)
        if dice < 0.30:
            commands += ['rest %d' % other for other in alive if rng.random() < 0.8] + ['campaign %d' % member]
        elif dice < 0.60:
            commands += ['propose %d' % other for other in alive]
        elif dice < 0.78:
            link = tuple(sorted((member, rng.choice(alive))))
            cuts ^= {link}
            commands += cut(link, link in cuts)
        elif dice < 0.84:
            commands += sum((cut(link, False) for link in sorted(cuts)), []) + ['beat']
            cuts.clear()
        elif dice < 0.90:
            commands.append('crash %d' % member)
        elif dice < 0.93:
            commands.append('double %d' % rng.randrange(2))
        elif not cuts and dice < 0.96:
            commands += ['beat'] + ['transfer %d %d' % (other, member) for other in alive]
        elif not cuts and not is_promoted and dice < 0.98:
            commands += ['beat'] + ['promote %d 4' % other for other in alive]
            is_promoted = True
        elif not cuts and not removed and dice < 0.99:
            commands += ['beat'] + ['remove %d 3' % other for other in (1, 2, 4)]
            removed.add(3)
    return commands


def play(program, schedules):
    """A list of lines for each schedule."""
    text = ''.join(''.join(command + '\n' for command in commands) + 'end\n' for commands in schedules)
    done = subprocess.run([program], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit('%s failed: %s' % (program, done.stderr[-2000:]))
    lines = iter(done.stdout.splitlines())
    return [[next(lines) for _ in commands] for commands in schedules]


def difference(commands, expected, found):
    """The number of the first command after which the members differ, without those that were removed; None: there is none."""
    removed = set()
    for number, command in enumerate(commands):
        words = command.split()
        if words[0] == 'remove':
            removed.add(words[2])
        if expected[number] == 'skip':
            return None
        pairs = zip(expected[number].split(), found[number].split())
        if any(one != other for one, other in pairs if one.split(':')[0] not in removed):
            return number
    return None


def differs(programs, commands):
    expected, found = (play(program, [commands])[0] for program in programs)
    return difference(commands, expected, found)


def shorten(programs, commands):
    """Leaves out commands while the rest still differs."""
    for at in range(len(commands) - 1, -1, -1):
        shorter = commands[:at] + commands[at + 1:]
        if shorter and differs(programs, shorter) is not None:
            commands = shorter
    return commands


def build_etcd(folder):
    path = os.path.join(folder, 'etcd')
    environment = dict(os.environ, GO111MODULE='off', GOPATH='/usr/share/gocode', GOCACHE=os.path.join(folder, 'cache'), GOFLAGS='')
    subprocess.run(['go', 'build', '-o', path, os.path.join(ROOT, 'tests/oracle/etcd.go')], env=environment, check=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--schedules', type=int, default=sized(150, long=100000))
    parser.add_argument('-v', action='store_true', help='print the states of the shortened schedule')
    options = parser.parse_args()
    copies = os.path.join(os.environ.get('SCREE_BIN', 'build/test'), 'oracle', 'copies')
    with tempfile.TemporaryDirectory() as folder:
        programs = [build_etcd(folder), copies]
        for first in range(options.seed, options.seed + options.schedules, 100):
            last = min(first + 100, options.seed + options.schedules)
            schedules = [schedule(random.Random(seed)) for seed in range(first, last)]
            for seed, commands, expected, found in zip(range(first, last), schedules,
                                                       *(play(program, schedules) for program in programs)):
                # etcd draws its election time-outs by the clock, so that a difference may be one of that draw: a real one comes again
                at = None if difference(commands, expected, found) is None else differs(programs, commands)
                if at is None:
                    continue
                commands = shorten(programs, commands[:at + 1])
                print('FAIL seed %d: %s' % (seed, ' · '.join(commands)))
                for program in programs:
                    print('  ' + play(program, [commands])[0][-1])
                print('0 passed, 1 failed')
                return 1
    print('%d schedules of some %d commands are equal' % (options.schedules, COMMANDS))
    print('1 passed, 0 failed')
    return 0


if __name__ == '__main__':
    sys.exit(main())
