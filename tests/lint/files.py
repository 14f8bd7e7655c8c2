"""files.py - the files that the lints check."""

import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ('shared', 'config', 'proxy', 'backend', 'tests')


def tracked():
    """Paths of all files that git tracks or would add; without git, all but build/."""
    done = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'], cwd=ROOT,
                          capture_output=True)
    if done.returncode == 0:
        names = done.stdout.decode().split('\0')
        return sorted(name for name in set(names) if name and os.path.exists(os.path.join(ROOT, name)))
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ('build', '.git', '__pycache__', 'data')]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(found)


def sources(*endings):
    return [path for path in tracked() if path.endswith(endings) and path.split('/')[0] in ROOMS]


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def report(problems):
    """Prints the problems and ends the process."""
    for problem in problems:
        print(problem)
    raise SystemExit(1 if problems else 0)
