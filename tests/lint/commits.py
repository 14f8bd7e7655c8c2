#!/usr/bin/python3
"""commits.py [BASE] - subjects of commits have the form `room: what it does now`.

Without BASE it checks the commits since this check exists, and of these only those missing in origin/main, unless
origin/main has all of them, as in a fresh clone. A shallow clone is checked as far back as it reaches; without git
nothing is checked.
"""

import os
import re
import subprocess
import sys

from files import ROOT, report

LENGTH_MAX = 60
FORM = re.compile(r'(Revert "|[a-z0-9_./-]+(, [a-z0-9_./-]+)*: \S)')
REMOTE = 'origin/main'


def git(*words):
    """The lines printed by git, or None if it fails."""
    done = subprocess.run(('git',) + words, cwd=ROOT, capture_output=True)
    return done.stdout.decode('utf-8', 'replace').splitlines() if done.returncode == 0 else None


def new_commits():
    added = git('log', '--diff-filter=A', '--format=%H', '-1', '--', os.path.relpath(__file__, ROOT))
    if not added:
        return []
    has_all = git('merge-base', '--is-ancestor', 'HEAD', REMOTE) is not None
    has_some = git('rev-parse', '--verify', '-q', REMOTE) is not None and not has_all
    landed = ['^' + REMOTE] if has_some else []
    return git('rev-list', '--no-merges', '--ancestry-path', added[0] + '..HEAD', *landed) or []


def problems_of(subject, second):
    if not FORM.match(subject):
        yield 'expected `room: what it does now`, the room in small letters'
    if len(subject) > LENGTH_MAX and not subject.startswith('Revert "'):
        yield '%d characters, expected %d at most' % (len(subject), LENGTH_MAX)
    if subject.endswith('.'):
        yield 'expected no dot at the end'
    if second:
        yield 'expected an empty line behind the subject'


def main():
    commits = git('rev-list', '--no-merges', sys.argv[1] + '..HEAD') if len(sys.argv) > 1 else new_commits()
    if commits is None:
        raise SystemExit('%s: there is no such commit' % sys.argv[1])
    problems = []
    for commit in commits:
        subject, second = (git('log', '-1', '--format=%B', commit) + ['', ''])[:2]
        problems += ['%s %s: %s' % (commit[:10], subject, what) for what in problems_of(subject, second)]
    report(problems)


if __name__ == '__main__':
    main()
