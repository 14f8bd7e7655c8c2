#!/usr/bin/python3
"""format.py - every C file is formatted as by clang-format; `format.py --fix [FILE ...]` formats them."""

import os
import subprocess
import sys

from files import ROOT, sources

BATCH = 20


def main():
    files = [os.path.relpath(path, ROOT) if os.path.isabs(path) else path for path in sys.argv[2:]] \
        or sources('.c', '.h')
    mode = ['-i'] if sys.argv[1:2] == ['--fix'] else ['--dry-run', '-Werror']
    worst = 0
    for i in range(0, len(files), BATCH):
        done = subprocess.run(['clang-format'] + mode + files[i:i + BATCH], cwd=ROOT)
        worst = max(worst, done.returncode)
    return worst


if __name__ == '__main__':
    sys.exit(main())
