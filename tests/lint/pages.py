#!/usr/bin/python3
"""pages.py configuration|commands|versions - the generated page in docs/ equals the output of the programs.

With --fix the page is written.
"""

import difflib
import os
import subprocess
import sys

from files import ROOT


def main():
    page = sys.argv[1]
    path = os.path.join(ROOT, 'docs', page + '.md')
    texts = []
    for program in ('scree-proxy', 'scree-backend'):
        binary = os.path.join(os.environ['SCREE_BIN'], program)
        done = subprocess.run([binary, '--print-docs', page], capture_output=True, check=True)
        texts.append(done.stdout.decode())
    if texts[0] != texts[1]:
        print('the two programs print different pages')
        return 1
    if '--fix' in sys.argv:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(texts[0])
        return 0
    have = open(path, encoding='utf-8').read() if os.path.exists(path) else ''
    for line in list(difflib.unified_diff(have.splitlines(), texts[0].splitlines(), path, 'printed', lineterm=''))[:40]:
        print(line)
    return 0 if have == texts[0] else 1


if __name__ == '__main__':
    sys.exit(main())
